// SPDX-License-Identifier: Apache-2.0
//! Findings that rest on a line of a log: [`RULES`] says which, and when the line counts.

use super::Case;
use crate::chain::DRIVER_READY;
use crate::finding::fact::{
    CRI_O, HOOK_ALONE, MANAGEMENT_KIND, NOT_SUPPORTED, ROW_PENDING, SIGNAL_DENIED, TOOLKIT_HELD,
};
use crate::finding::{Finding, Id};
use crate::log::LogEvent::KernelOutOfMemory;
use crate::log::{ActiveWhen, FindingRule, LogEvent, LogMatch, LogSource, RULES};
use crate::stamp::SECOND;
use crate::symptoms::runtime::Distribution;
use peermem_gate::ready::observation::Marker;
use peermem_gate::survey::process::{Process, Role};
use std::collections::BTreeMap;

/// The kind of CDI devices that the operator's own pods use.
const MANAGEMENT: &str = "management.nvidia.com/";
/// In seconds. kubelet waits five minutes at most before it tries again.
const BACK_OFF: i64 = 7 * 60;
/// Findings about a pod that kubelet does not start: a reader asks which.
const OF_A_POD: [Id; 8] = ids! {
    CdiDeviceUnknown ContainerNotStopped PodRefused PodsEvicted ToolkitFails NetworkPluginFails
    RuntimeHandlerMissing ContainerNotStarted
};
/// Findings that say only who failed: the words of the line say why.
const IN_OWN_WORDS: [Id; 8] = ids! {
    ContainerNotStarted DevicePluginFailed KubeletCutOff KubeletFails NetworkPluginFails PodRefused
    SriovConfigFailed ToolkitFails
};
const DRIVER: &str = "nvidia-driver-ctr";
const DRIVERS: [&str; 3] = [DRIVER, "openshift-driver-toolkit-ctr", "k8s-driver-manager"];
const MOFED: [&str; 1] = ["mofed-container"];
/// A container that was restarted as often has not come through.
const OFTEN: u32 = 3;

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    let rules = RULES.iter().flat_map(|rule| rule.findings.iter().map(|row| (rule.event, row)));
    let mut found: Vec<_> =
        rules.filter_map(|(event, row)| Some((row.id, counting(case, event, row)?))).collect();
    // What is sure needs no condition.
    let sure: Vec<_> = found.iter().filter(|(_, (_, open))| open.is_none()).map(|(id, _)| *id).collect();
    found.retain(|(id, (_, open))| open.is_none() || !sure.contains(id));
    // The kernel knows why it refuses, a program only that it was refused.
    found.sort_by_key(|(_, (found, _))| found.source != LogSource::Kernel);
    let mut resets = found.iter().filter(|(id, _)| *id == Id::GpuNeedsReset);
    let only_rows = resets.all(|(_, (found, _))| found.event == LogEvent::GpuRowPending);
    let findings = found.into_iter().map(|(id, (found, open))| {
        let is_toolkits = Case::field(found, "container") == "nvidia-container-toolkit-ctr";
        let finding = case.by_log(case.of_whose_machine(id), found).with(TOOLKIT_HELD, is_toolkits);
        let open = open.map(|it| format!("this counts if {it}, which this bundle does not show"));
        let finding = finding.all(open.map(|open| (case.source(found), open)));
        let finding = finding.with(ROW_PENDING, only_rows && found.event == LogEvent::GpuRowPending);
        let finding = if IN_OWN_WORDS.contains(&id) { finding.because(&found.text) } else { finding };
        let pod = found.pod.as_ref().filter(|_| OF_A_POD.contains(&id));
        finding.of_container(case.container_of(found)).all(pod.map(|pod| ("the pod", pod.as_str())))
    });
    let findings = findings.chain(killed(case));
    findings.map(|finding| explained(case, finding)).collect()
}

impl Case<'_> {
    /// The operators' container that the line is about, or that wrote it. Any pod can choose a container's name.
    pub(super) fn container_of<'f>(&'f self, found: &'f LogMatch) -> Option<&'f str> {
        let log = self.symptoms.logs.file(found).and_then(|file| file.container.as_ref());
        let is_ours = |pod: &String| {
            let pods = &self.symptoms.survey.pods.all;
            let names = pods.iter().filter(|pod| pod.is_operators).filter_map(|pod| pod.name.as_ref());
            names.into_iter().any(|(namespace, name)| *pod == format!("{namespace}/{name}"))
        };
        match &found.pod {
            Some(pod) => found.fields.get("container").filter(|_| is_ours(pod)).map(String::as_str),
            None => log.map(|log| log.container.as_str()),
        }
    }
}

/// With what else of the node shows why.
fn explained(case: &Case<'_>, finding: Finding) -> Finding {
    match finding.id {
        Id::CdiDeviceUnknown => super::cdi::with_conflict(case, with_kind(finding)),
        Id::ToolkitFails => with_mode(case, finding),
        Id::DeviceRulesRefused => match case.symptoms.runtimes.used() {
            Some(used) => finding.with(CRI_O, used.distribution == Distribution::CriO),
            None => finding,
        },
        Id::HostDriverNotFound => {
            finding.seen("/proc/modules", "nvidia is live, and no driver container has brought it")
        }
        Id::ContainerNotStopped => match case.logged(&[LogEvent::RuntimeSignalDenied], &[]) {
            None => finding,
            denied => case.and_log(finding, denied).with(SIGNAL_DENIED, true),
        },
        Id::TaskHangs => super::gpu::with_moving(case, finding),
        Id::PodsEvicted => case.and_log(finding, case.logged(&[LogEvent::EvictionStarted], &[])),
        Id::CudaNotInitialised => with_modules(case, finding),
        Id::CudaNotSatisfied => super::cuda::compared(case, finding),
        Id::MigManagerFailed => {
            let mut finding = case.and_trouble_of(finding, "nvidia-mig-manager");
            // Its own error before the label that it sets for it.
            finding.evidence.reverse();
            let seen = "nvidia_drm is loaded: it uses every GPU, so none can be reset";
            finding.all(case.line("nvidia_drm").map(|_| ("/proc/modules", seen)))
        }
        _ => finding,
    }
}

/// With what the runtime logged of the hook, and with the mode that the toolkit is in.
fn with_mode(case: &Case<'_>, finding: Finding) -> Finding {
    let Some(direct) = case.logged_lately(LogEvent::HookCalledDirectly, |_| true) else { return finding };
    let finding = case.and_log(finding, Some(direct)).with(HOOK_ALONE, true).with(NOT_SUPPORTED, false);
    let modes = case.symptoms.runtimes.toolkit.modes.iter();
    finding.all(modes.map(|(path, mode)| (path.display(), format!("mode = {mode:?}"))))
}

/// One that only the operator's own pods may ask for.
fn with_kind(finding: Finding) -> Finding {
    let is_management = finding.evidence.iter().any(|evidence| evidence.seen.contains(MANAGEMENT));
    finding.with(MANAGEMENT_KIND, is_management)
}

/// kubelet tries again: the line came several times, or the API shows that it is still so, a moment ago.
pub(super) fn is_repeated(case: &Case<'_>, found: &LogMatch, within: i64) -> bool {
    let Some(at) = case.logged_at(found) else { return true };
    let is_lasting = found.is_current || found.count >= u64::from(OFTEN);
    is_lasting && case.age(at / SECOND).is_some_and(|age| age <= within)
}

/// The container has written to its log since.
fn has_started_since(case: &Case<'_>, found: &LogMatch) -> bool {
    /// In seconds: a log is made before its container starts.
    const A_MOMENT: i64 = 30;
    let Some(at) = case.logged_at(found).map(|at| at / SECOND) else { return false };
    let pods = case.symptoms.logs.pods.iter();
    let mut pods = pods.filter(|pod| found.pod == Some(format!("{}/{}", pod.namespace, pod.name)));
    let name = Case::field(found, "container");
    pods.any(|pod| {
        let mut its = pod.containers.iter().filter(|container| name.is_empty() || container.name == name);
        its.any(|container| container.written.is_some_and(|written| written > at + A_MOMENT))
    })
}

/// The operator's validation has not shown since that a container with a GPU starts.
fn is_unproven(case: &Case<'_>, found: &LogMatch) -> bool {
    let proven = case.symptoms.runtimes.toolkit.proven;
    proven.is_none_or(|proven| case.logged_at(found).is_some_and(|at| at > proven * SECOND))
}

/// Where no switch is on the bus it may be one that Fabric Manager reaches by RDMA.
fn with_modules(case: &Case<'_>, finding: Finding) -> Finding {
    if case.symptoms.switches().next().is_some() {
        return finding;
    }
    let missing = ["mlx5_ib", "ib_umad"].into_iter().filter(|name| case.line(name).is_none());
    let seen = |name| format!("{name} is not loaded: without it no NVLink 5 switch is reached");
    finding.all(missing.map(|name| ("/proc/modules", seen(name))))
}

/// The line of this event that counts for this finding; and in words the state in which it counts, where nothing
/// shows whether the node is in it.
fn counting<'c>(
    case: &'c Case<'_>,
    event: LogEvent,
    row: &FindingRule,
) -> Option<(&'c LogMatch, Option<String>)> {
    let is_about = |found: &LogMatch| is_about(row, found);
    let found = if row.is_fleeting {
        case.logged_lately(event, is_about)?
    } else {
        case.logged_apart(event, row.until, is_about)?
    };
    match is_active(row.when, case, found) {
        Ok(is_active) => is_active.then_some((found, None)),
        Err(condition) => Some((found, Some(condition))),
    }
}

fn is_about(row: &FindingRule, found: &LogMatch) -> bool {
    let Some((field, words)) = row.about else { return true };
    let text = Case::field(found, field);
    words.iter().any(|word| if field == "module" { text == *word } else { text.contains(word) })
}

/// Whether the node is in the state in which this line counts; in words what must be so, where that is not to be
/// seen: missing is not false.
fn is_active(when: ActiveWhen, case: &Case<'_>, found: &LogMatch) -> Result<bool, String> {
    let has_modules = case.seen.modules.proc.is_ok();
    let is_live = case.is_listed_live("nvidia");
    let lacks_gpu = case.symptoms.nvidias.is_ok() && case.symptoms.gpus().next().is_none();
    let (symptoms, specs) = (case.symptoms, &case.symptoms.runtimes.toolkit.cdi_specs);
    let is_shown = symptoms.survey.processes.hidden().is_none();
    let is_unmended = |role| case.process(role).is_none_or(|process| is_its(case, process, found));
    let (needed, is_seen, is_so) = match when {
        ActiveWhen::Always => return Ok(true),
        ActiveWhen::Cdi => return Ok(!specs.as_ref().is_ok_and(BTreeMap::is_empty)),
        ActiveWhen::Unproven => return Ok(is_unproven(case, found) && is_repeated(case, found, BACK_OFF)),
        ActiveWhen::Persists(within) => {
            return Ok(is_repeated(case, found, within) && !has_started_since(case, found));
        }
        ActiveWhen::Repeats(within) => return Ok(is_repeated(case, found, within)),
        // Two steps of a healthy life: only more than the line makes a fault of them.
        ActiveWhen::Restarted => {
            let log = case.symptoms.logs.file(found).and_then(|file| file.container.as_ref());
            return Ok(log.is_some_and(|log| log.restart >= OFTEN && is_missed(case, &[&log.container])));
        }
        ActiveWhen::HostDriverUnseen => {
            let is_hosts = is_live && case.is_container_driver() == Some(false);
            return Ok(is_hosts && super::chain::is_overdue(case, DRIVER_READY));
        }
        ActiveWhen::NoDriver => {
            ("nvidia is not loaded now", has_modules || lacks_gpu, !is_live && !lacks_gpu)
        }
        ActiveWhen::Driver => ("nvidia is loaded, and this is still so", has_modules, is_live),
        ActiveWhen::NoFabricManager => {
            let is_absent = case.process(Role::FabricManager).is_none();
            ("no Fabric Manager runs now", has_modules && is_shown, is_live && is_absent)
        }
        ActiveWhen::Plugin => {
            let is_so = is_live && is_unmended(Role::DevicePlugin);
            ("nvidia is loaded, and the device plugin was not started again", has_modules, is_so)
        }
        ActiveWhen::Unmended(role) => {
            ("the program was not started again since", is_shown, is_unmended(role))
        }
        ActiveWhen::NoVirtualFunction => {
            let has_none = symptoms.nics.iter().flatten().all(|nic| !nic.is_virtual);
            ("the NIC has no virtual functions now", symptoms.nics.is_ok(), has_none)
        }
        ActiveWhen::TwoDriverPods => {
            let pods = symptoms.survey.pods.all.iter();
            let count = pods.filter(|pod| pod.is_here && pod.containers.contains(DRIVER)).count();
            ("this node has two driver pods now", is_shown, count > 1)
        }
        ActiveWhen::Missed => {
            let is_so = is_missed(case, &[Case::field(found, "container")]);
            ("its driver is not there now", has_modules || is_shown, is_so)
        }
        ActiveWhen::NoCdi => {
            let is_so = specs.iter().all(BTreeMap::is_empty);
            ("the node has no CDI specification of NVIDIA's", specs.is_ok(), is_so)
        }
        ActiveWhen::NoHandler => {
            let is_so = super::runtime::has_no_handler(case);
            ("the runtime has no such entry now", symptoms.runtimes.endpoint.is_ok(), is_so)
        }
        ActiveWhen::Refused => {
            let module = Case::field(found, "module");
            let needed = format!("{module} is not loaded now");
            return if has_modules { Ok(case.line(module).is_none()) } else { Err(needed) };
        }
        ActiveWhen::Infiniband => {
            let is_so = super::rdma::has_infiniband(case);
            ("a port of the node is an InfiniBand port", symptoms.rdma.devices.is_ok(), is_so)
        }
        ActiveWhen::HostDriver => {
            let is_container = case.is_container_driver();
            ("the driver is installed on the host", is_container.is_some(), is_container == Some(false))
        }
        ActiveWhen::Without(file) => {
            let stamp = case.symptoms.chain.stamp(file);
            let is_seen = is_shown || stamp.written().is_some();
            ("that was not validated since", is_seen, stamp.written().is_none())
        }
    };
    if is_seen { Ok(is_so) } else { Err(needed.to_owned()) }
}

/// A process that has run for a while since the line came has got over it, whatever its log shows.
pub(super) fn is_its(case: &Case<'_>, process: &Process, found: &LogMatch) -> bool {
    let at = case.logged_at(found);
    let is_older = process.started.zip(at).is_none_or(|(started, at)| started * SECOND <= at);
    is_older || process.started.and_then(|started| case.age(started)).is_some_and(|age| age < 60)
}

/// Whether the marker or module that these containers bring has not come.
fn is_missed(case: &Case<'_>, containers: &[&str]) -> bool {
    let are = |names: &[&str]| containers.iter().any(|name| names.contains(name));
    are(&MOFED) && !matches!(case.seen.marker, Marker::Present(_)) && !case.is_host_mofed()
        || are(&DRIVERS) && !case.is_listed_live("nvidia")
}

/// The kernel names the control group, and that the pod.
fn killed(case: &Case<'_>) -> Option<Finding> {
    let found = case.logged(&[KernelOutOfMemory], &[])?;
    let group = Case::field(found, "cgroup").replace('_', "-");
    let pods = &case.symptoms.survey.pods.all;
    let pod = pods.iter().find(|pod| !pod.uid.is_empty() && group.contains(&pod.uid))?;
    let containers: Vec<_> = pod.containers.iter().map(String::as_str).collect();
    let name = pod.name.as_ref().map_or(&pod.uid, |(_, name)| name);
    let seen = format!("{} was killed in the control group of this pod", Case::field(found, "program"));
    is_missed(case, &containers)
        .then(|| case.by_log(Id::KilledForMemory, found).seen(format!("pod {name}"), seen))
}
