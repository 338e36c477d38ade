// SPDX-License-Identifier: Apache-2.0
//! Nodes whose GPUs work and are not offered: no device plugin has registered with kubelet, or it left some out.

use super::Case;
use crate::chain::TOOLKIT_READY;
use crate::finding::{Finding, Id};
use peermem_gate::survey::process::Role;

const NVIDIA: &str = "nvidia";
const PLUGIN_READY: &str = "plugin-ready";
/// In seconds. The plugin is started once the toolkit is ready, and registers within a minute.
const START: i64 = 10 * 60;

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    if !case.is_listed_live(NVIDIA) || case.is_for_machines() || case.symptoms.offer.has_dra {
        return Vec::new();
    }
    none(case).or_else(|| fewer(case)).into_iter().collect()
}

/// kubelet runs, a device plugin was here or is, and none has its socket.
fn none(case: &Case<'_>) -> Option<Finding> {
    let offer = &case.symptoms.offer;
    let processes = &case.symptoms.survey.processes;
    let is_settled = [TOOLKIT_READY, PLUGIN_READY].iter().any(|name| {
        let written = case.symptoms.chain.stamp(name).written();
        written.and_then(|at| case.symptoms.survey.clock.age(at)).is_some_and(|age| age > START)
    });
    let plugin = processes.first(Role::DevicePlugin);
    let is_old = |started| case.symptoms.survey.clock.age(started).is_some_and(|age| age > START);
    let was_here = case.symptoms.chain.stamp(PLUGIN_READY).written().is_some() && is_settled
        || plugin.is_some_and(|plugin| plugin.started.is_some_and(is_old));
    if !offer.has_kubelet() || offer.has_gpu_plugin() || !was_here {
        return None;
    }
    let directory = offer.directory.display();
    let finding =
        Finding::new(Id::GpusNotOffered, directory, "kubelet's socket is there, and no GPU plugin's");
    Some(match plugin {
        Some(plugin) => {
            finding.seen(plugin.directory.display(), "the device plugin runs, and has not registered")
        }
        None if processes.hidden().is_some() => finding,
        None => finding.seen("/proc", "no process is NVIDIA's device plugin"),
    })
}

/// kubelet counts whole GPUs only, and fewer than the driver has.
fn fewer(case: &Case<'_>) -> Option<Finding> {
    let offer = &case.symptoms.offer;
    let offered = offer.whole_gpus()?;
    let bound =
        case.symptoms.gpus().filter(|gpu| !gpu.is_virtual && gpu.driver.as_deref() == Some(NVIDIA)).count();
    if offered.len() >= bound || !offer.has_gpu_plugin() {
        return None;
    }
    let seen = format!("kubelet offers {} of {bound} GPUs", offered.len());
    let finding = Finding::new(Id::FewerGpusOffered, offer.directory.display(), seen);
    let named = offer.gpus.iter().filter_map(|(address, uuid)| Some((address, uuid.as_deref()?)));
    let missing = named.filter(|(_, uuid)| !offered.contains(uuid));
    Some(missing.fold(finding, |finding, (address, uuid)| {
        let source = format!("/proc/driver/nvidia/gpus/{address}/information");
        let is_unknown = uuid.contains('?');
        let seen = if is_unknown { "the driver has not initialised this GPU" } else { "is not offered" };
        finding.seen(source, format!("{uuid}: {seen}"))
    }))
}
