// SPDX-License-Identifier: Apache-2.0
//! Nodes whose GPUs work and are not offered: no device plugin has registered with kubelet, or it left some out.

use super::Case;
use crate::chain::TOOLKIT_READY;
use crate::finding::{Finding, Id};
use peermem_gate::survey::process::{Process, Role};
use std::collections::BTreeSet;

const NVIDIA: &str = "nvidia";
const PLUGIN_READY: &str = "plugin-ready";
/// The device plugin's containers: the operator's, and that of its own chart.
const VALIDATION: &str = "plugin-validation";
const PLUGINS: [&str; 2] = ["nvidia-device-plugin", "nvidia-device-plugin-ctr"];
/// In seconds. The plugin is started once the toolkit is ready, and registers within a minute.
const START: i64 = 10 * 60;

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    if case.symptoms.offer.counted.is_some() {
        return counted(case).into_iter().collect();
    }
    if !case.is_listed_live(NVIDIA) || case.is_for_machines() || case.symptoms.offer.has_dra {
        return Vec::new();
    }
    several(case).into_iter().chain(none(case).or_else(|| fewer(case))).collect()
}

/// kubelet goes on counting a GPU that its plugin calls unhealthy, and does not offer it.
fn counted(case: &Case<'_>) -> Option<Finding> {
    let offer = &case.symptoms.offer;
    let (capacity, offered) = offer.counted?;
    let id = if offered == 0 { Id::GpusNotOffered } else { Id::FewerGpusOffered };
    let seen = format!("the node has {capacity} GPUs by kubelet's count, and {offered} of them allocatable");
    (offered < capacity.max(1)).then(|| Finding::new(id, offer.directory.display(), seen))
}

/// kubelet knows a resource by one plugin: the last to register replaces the others. A new pod may run beside the one
/// before for a moment.
fn several(case: &Case<'_>) -> Option<Finding> {
    const MOMENT: i64 = 120;
    let is_settled = |started: i64| case.age(started).is_some_and(|age| age > MOMENT);
    let plugins = case.symptoms.survey.processes.of(Role::DevicePlugin);
    let plugins: Vec<_> = plugins.filter(|plugin| plugin.started.is_some_and(is_settled)).collect();
    let pods: BTreeSet<_> = plugins.iter().map(|plugin| plugin.pod.as_deref()).collect();
    let evidence = plugins.iter().map(|plugin| {
        let known = plugin.pod.as_ref().and_then(|uid| case.symptoms.survey.pods.of(uid)?.name.as_ref());
        let whose = match (known, &plugin.pod) {
            (Some((namespace, name)), _) => format!("in pod {namespace}/{name}"),
            (None, Some(uid)) => format!("in pod {uid}"),
            (None, None) => "on the host".to_owned(),
        };
        (plugin.directory.display(), format!("a device plugin for GPUs, {whose}"))
    });
    Finding::of(Id::SeveralDevicePlugins, evidence).filter(|_| pods.len() > 1)
}

/// kubelet runs, a device plugin was here or is, and none has its socket.
fn none(case: &Case<'_>) -> Option<Finding> {
    let offer = &case.symptoms.offer;
    let is_old = |since: i64| case.age(since).is_some_and(|age| age > START);
    let is_settled = [TOOLKIT_READY, PLUGIN_READY]
        .iter()
        .any(|name| case.symptoms.chain.stamp(name).written().is_some_and(is_old));
    let plugin = case.process(Role::DevicePlugin);
    // A plugin that has just been started, or taken away, is not missed yet.
    let is_new = plugin.is_some_and(|plugin| !plugin.started.is_some_and(is_old));
    if is_new || !offer.changed.is_none_or(is_old) {
        return None;
    }
    let pods = &case.symptoms.survey.pods;
    // The operator has a plugin for this node, or its validator waits for one.
    let has_pod =
        PLUGINS.iter().chain(&[VALIDATION]).any(|name| pods.with(name).is_some_and(|pod| pod.is_here));
    let is_validated = case.symptoms.chain.stamp(PLUGIN_READY).written().is_some();
    let was_here = (is_validated || has_pod) && is_settled || plugin.is_some();
    let directory = offer.directory.display();
    if offer.offers_none_of_nvidia() && offer.has_gpu_plugin() {
        let seen = "kubelet's list has a resource of NVIDIA's, and no device of it";
        return Some(Finding::new(Id::GpusNotOffered, directory, seen));
    }
    if !offer.has_kubelet() || !was_here {
        return None;
    }
    if offer.has_gpu_plugin() {
        return is_gone(case).then(|| {
            let finding = Finding::new(Id::GpusNotOffered, directory, "a socket of a GPU plugin is left");
            finding.seen("/proc", "no process is NVIDIA's device plugin, whose pod is here")
        });
    }
    let finding =
        Finding::new(Id::GpusNotOffered, directory, "kubelet's socket is there, and no GPU plugin's");
    let runs =
        |it: &Process| (it.directory.display().to_string(), "the device plugin runs, and has not registered");
    let gone = || ("/proc".to_owned(), "no process is NVIDIA's device plugin");
    Some(finding.all(plugin.map(runs).or_else(|| case.lacks(Role::DevicePlugin).then(gone))))
}

/// NVIDIA's own plugin has a pod here, and no process. Another vendor's has another container.
fn is_gone(case: &Case<'_>) -> bool {
    let pod = PLUGINS.iter().find_map(|container| case.symptoms.survey.pods.with(container));
    case.lacks(Role::DevicePlugin) && pod.is_some_and(|pod| pod.is_here)
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
    Some(finding.all(missing.map(|(address, uuid)| {
        let source = format!("/proc/driver/nvidia/gpus/{address}/information");
        let is_unknown = uuid.contains('?');
        let seen = if is_unknown { "the driver has not initialized this GPU" } else { "is not offered" };
        (source, format!("{uuid}: {seen}"))
    })))
}
