// SPDX-License-Identifier: Apache-2.0
//! Who has a thing of which a node has one, and who takes devices from containers: by the processes, and by settings
//! that are in force. Words of a log are only evidence.

use super::Case;
use crate::finding::{Finding, Id};
use crate::log::LogEvent;
use crate::stamp::SECOND;
use crate::symptoms::daemons::{DOCKERD, Daemon, EXCLUSIVE};
use crate::symptoms::runtime::Handler;
use peermem_gate::survey::pod::Pod;
use peermem_gate::survey::process::Role;
use peermem_gate::words::remedy::CommandText;
use std::collections::BTreeMap;

/// Modes of NVIDIA's runtime in which its hook gives the devices, and no specification.
const LEGACY: [&str; 2] = ["auto", "legacy"];

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    let taken = EXCLUSIVE.iter().filter_map(|(what, programs)| taken(case, what, programs));
    taken.chain(no_cgroups(case)).chain(rules_rewritten(case)).collect()
}

/// The host's service manager and a pod of the operators' have each started one.
fn taken(case: &Case<'_>, what: &str, programs: &[&str]) -> Option<Finding> {
    let all = || case.symptoms.daemons.iter().filter(|daemon| programs.contains(&&*daemon.program));
    let (host, unit) = all().find_map(|daemon| Some((daemon, daemon.unit()?)))?;
    let (pods, pod) = all().find_map(|daemon| Some((daemon, case.pod_of(daemon)?)))?;
    let seen = format!("{} of {unit} has, or wants, {what}", host.program);
    let name = pod.name.as_ref().map_or_else(String::new, |(namespace, name)| format!(" {namespace}/{name}"));
    let finding = Finding::new(Id::DaemonOfHostAndPod, host.directory.display(), seen);
    let finding =
        finding.seen(pods.directory.display(), format!("{} of the pod{name} wants it, too", pods.program));
    let finding = finding.word("unit", CommandText::plain(unit, "UNIT"));
    let finding = finding.word("pod", super::facts::arguments(pod).unwrap_or_else(|| "POD".into()));
    Some(case.and_log(
        finding,
        case.logged(&[LogEvent::ImexSessionTaken], &[]).filter(|_| programs[0] == "nvidia-imex"),
    ))
}

/// A setting for engines without root, in force under one that has root.
fn no_cgroups(case: &Case<'_>) -> Option<Finding> {
    let toolkit = &case.symptoms.runtimes.toolkit;
    let is_legacy = |path| toolkit.modes.iter().all(|(file, mode)| file != path || LEGACY.contains(&&**mode));
    let files = toolkit.no_cgroups.iter().filter(|path| is_legacy(*path));
    let set = files.map(|path| {
        (path.display().to_string(), "no-cgroups = true, which is for engines without root".to_owned())
    });
    let of_docker = case.symptoms.daemons.iter().find(|one| one.program == DOCKERD && !one.is_users());
    let of_docker = of_docker.map(|docker| (docker.directory.clone(), DOCKERD.to_owned()));
    let has_nvidias = case.symptoms.runtimes.used().is_some_and(|used| {
        used.handlers().values().any(|(_, handler): &(_, &Handler)| handler.is_nvidias())
    });
    let of_kubelet = case.process(Role::Runtime).filter(|_| has_nvidias);
    let of_kubelet = of_kubelet.map(|runtime| (runtime.directory.clone(), runtime.name.clone()));
    let (directory, engine) = of_docker.or(of_kubelet)?;
    let finding =
        Finding::of(Id::NoCgroupsWithRoot, set)?.seen(directory.display(), format!("{engine} runs as root"));
    Some(case.and_log(finding, case.logged(&[LogEvent::GpuAccessDenied], &[])))
}

/// systemd has written the rules of its groups' devices again, and knows nothing of those that NVIDIA's hook added.
fn rules_rewritten(case: &Case<'_>) -> Option<Finding> {
    let toolkit = &case.symptoms.runtimes.toolkit;
    let is_legacy = toolkit.cdi_specs.as_ref().is_ok_and(BTreeMap::is_empty)
        && !toolkit.programs.is_empty()
        && toolkit.modes.iter().all(|(_, mode)| LEGACY.contains(&&**mode));
    let links = case.lacks_char_links().filter(|_| is_legacy)?;
    let found = case.logged(&[LogEvent::SystemdReloaded], &[])?;
    let at = case.logged_at(found)? / SECOND;
    let older = |daemon: &&Daemon| {
        daemon.has_gpu && daemon.is_in_scope() && daemon.started.is_some_and(|started| started < at)
    };
    let container = case.symptoms.daemons.iter().find(older)?;
    let seen = format!("{} began before, in a container whose devices systemd allows", container.program);
    let finding =
        case.by_log(Id::DeviceRulesRewritten, found).seen(container.directory.join("cgroup").display(), seen);
    Some(case.and_log(finding.seen(links.0, links.1), case.logged(&[LogEvent::GpuAccessDenied], &[])))
}

impl Case<'_> {
    /// The operators' pod that this process is of.
    fn pod_of(&self, daemon: &Daemon) -> Option<&Pod> {
        let groups = daemon.groups.replace('_', "-");
        let mut pods = self.symptoms.survey.pods.all.iter();
        pods.find(|pod| !pod.uid.is_empty() && groups.contains(&pod.uid))
    }
}
