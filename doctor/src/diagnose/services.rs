// SPDX-License-Identifier: Apache-2.0
//! Services of the host that have ended with an error, by systemd's words, and by their own why.

use super::Case;
use crate::finding::fact::{PEER_MODULE, STILL_WANTED, WANTED_CAME};
use crate::finding::{Finding, Id};
use crate::log::{DkmsFailure, LogEvent, LogMatch, WORDS, is_of_a_service};
use peermem_gate::survey::process::Role;
use peermem_gate::words::remedy::CommandText;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// In seconds: systemd starts kubelet and the runtimes again within seconds.
const LATELY: i64 = 5 * 60;

/// In seconds: what is older has passed.
const AN_HOUR: i64 = 60 * 60;

/// The role of a unit's process, by how the unit's name begins. Fabric Manager has findings of its own.
const ROLES: [(&str, Role); 6] = [
    ("kubelet", Role::Kubelet),
    ("k3s", Role::Kubelet),
    ("rke2", Role::Kubelet),
    ("containerd", Role::Runtime),
    ("crio", Role::Runtime),
    ("nvidia-persistenced", Role::Persistenced),
];
/// A service of the system's own matters here where its words have one of these.
const OURS: [&str; 6] = ["nvidia", "mlx", "ib_", "rdma", "efa", "gdr"];

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    // Where a container brings the driver, the host's daemon has nothing to do.
    let is_here = |role| role != Some(Role::Persistenced) || case.has_live_host_driver();
    let failed = case.symptoms.logs.of(LogEvent::ServiceFailed).map(|found| Case::field(found, "unit"));
    // Fabric Manager's end is a word of the fabric's findings, where the bus shows whether there is a fabric.
    let has_bus = case.symptoms.nvidias.is_ok() || case.fabric_manager_place().is_some();
    let is_ours =
        |unit: &&str| is_of_a_service(unit.as_bytes()) && !(has_bus && unit.contains("fabricmanager"));
    let units: BTreeSet<_> = failed.filter(is_ours).collect();
    let finding = |unit: &str| {
        let role = role_of(unit);
        let found = case.failed_service(unit, role).filter(|_| is_here(role))?;
        let id = if role == Some(Role::Kubelet) { Id::KubeletFails } else { Id::HostServiceFails };
        let finding = case.by_log(id, found).word("unit", CommandText::plain(unit, "UNIT"));
        let finding = finding.of_container(unit.trim_end_matches(".service"));
        let words = Case::field(found, WORDS);
        let has_come = case.has_come(words);
        let finding = finding.because(words).with(WANTED_CAME, has_come).with(STILL_WANTED, !has_come);
        Some(case.and_service(finding, found))
    };
    let repeats = repeated(case).filter(|found| is_here(role_of(Case::field(found, "unit"))));
    let unit = |found: &LogMatch| CommandText::plain(Case::field(found, "unit"), "UNIT");
    let repeats = repeats.map(|found| case.by_log(Id::HostServiceRepeats, found).word("unit", unit(found)));
    let failed = units.into_iter().filter_map(finding);
    failed.chain(repeats).chain(missing(case)).chain(failed_builds(case)).collect()
}

fn role_of(unit: &str) -> Option<Role> {
    ROLES.iter().find(|(begin, _)| unit.starts_with(begin)).map(|(_, role)| *role)
}

/// The errors that services repeat in this boot, an hour ago at most.
fn repeated<'c>(case: &'c Case<'_>) -> impl Iterator<Item = &'c LogMatch> {
    case.symptoms.logs.of(LogEvent::ServiceRepeats).filter(|found| {
        let unit = Case::field(found, "unit");
        case.is_of_this_boot(found)
            && super::log_rules::is_repeated(case, found, AN_HOUR)
            && !case.is_started_since(unit, found)
            && case.failed_service(unit, role_of(unit)).is_none()
    })
}

/// Each with the words of the compiler; of a module that was built after all, another build would have taken the log
/// away.
fn failed_builds(case: &Case<'_>) -> Option<Finding> {
    let release = case.seen.kernel.release.as_str();
    let is_of_now = |build: &&(PathBuf, DkmsFailure)| release == "unknown" || build.1.kernel == release;
    let builds: Vec<_> = case.symptoms.host.failed_builds.iter().filter(is_of_now).collect();
    let evidence = builds.iter().map(|(path, build)| {
        let DkmsFailure { module, kernel, words, compiler } = build;
        let why = if words.is_empty() { String::new() } else { format!(": {words}") };
        let other =
            if compiler.is_empty() { String::new() } else { format!("; {compiler} built the kernel") };
        (path.display(), format!("the build of {module} for kernel {kernel} fails{why}{other}"))
    });
    let first = &builds.first()?.1;
    let is_peers =
        builds.iter().all(|(_, build)| build.module.contains("peermem") || build.module.contains("peer_mem"));
    let finding = Finding::of(Id::DkmsBuildFailed, evidence)?;
    let finding = finding.because(&first.words).with(PEER_MODULE, is_peers);
    let compiler = CommandText::mention(&first.compiler).and(", which built the kernel");
    let finding = if first.compiler.is_empty() { finding } else { finding.word("kernel-compiler", compiler) };
    Some(finding.word("dkms-module", CommandText::plain(&first.module, "MODULE")))
}

/// Neither a word of a log nor a process is there of what every pod needs.
fn missing(case: &Case<'_>) -> Option<Finding> {
    let offer = &case.symptoms.offer;
    let needed = [(Role::Kubelet, "kubelet"), (Role::Runtime, "containerd or CRI-O")];
    let gone = needed.iter().filter(|(role, _)| case.lacks(*role));
    let evidence = gone.map(|(_, name)| ("/proc", format!("no process is {name}")));
    let finding = Finding::of(Id::NodeServiceMissing, evidence);
    let finding = finding.filter(|_| case.is_up() && offer.has_kubelet())?;
    Some(finding.seen(offer.directory.display(), "kubelet's socket is there: kubelet has run on this node"))
}

impl Case<'_> {
    /// systemd's last word about this unit, if it has ended and nothing does its work since.
    pub(super) fn failed_service(&self, unit: &str, role: Option<Role>) -> Option<&LogMatch> {
        let mut failed = self.symptoms.logs.of(LogEvent::ServiceFailed);
        let found =
            failed.rfind(|found| Self::field(found, "unit") == unit && self.is_of_this_boot(found))?;
        let is_looping = super::log_rules::is_repeated(self, found, LATELY);
        let is_ours = |words: &str| OURS.iter().any(|part| words.contains(part));
        let is_down = match role.map(|role| (role, self.process(role))) {
            Some((_, Some(process))) => is_looping && super::log_rules::is_its(self, process, found),
            Some((role, None)) => is_looping || self.lacks(role),
            None => {
                let is_of_it = !unit.starts_with("systemd-") || is_ours(Self::field(found, WORDS));
                is_of_it && (is_looping || !self.is_started_since(unit, found))
            }
        };
        is_down.then_some(found)
    }

    fn is_started_since(&self, unit: &str, found: &LogMatch) -> bool {
        let at = |one: &LogMatch| (one.until.map(|at| at.ns), one.line);
        let mut started = self.symptoms.logs.of(LogEvent::ServiceStarted);
        started.any(|one| Self::field(one, "unit") == unit && at(one) > at(found))
    }

    /// The words say that a device file is missing, which is here now.
    fn has_come(&self, words: &str) -> bool {
        let nodes = self.symptoms.driver.nodes.iter().flat_map(|(_, names)| names.iter().flatten());
        let missing = words.split(|c: char| c.is_whitespace() || ":,'\"".contains(c));
        let mut missing = missing.filter_map(|word| word.strip_prefix("/dev/"));
        words.contains("o such ") && missing.any(|name| nodes.clone().any(|node| node == name))
    }

    /// With the words of the service itself, of the same log.
    pub(super) fn and_service(&self, finding: Finding, found: &LogMatch) -> Finding {
        match Self::field(found, WORDS) {
            "" => finding,
            words => finding.seen(self.source(found), format!("{}: {words}", Self::field(found, "unit"))),
        }
    }

    /// The same of a finding that a service's end explains.
    pub(super) fn and_failed_service(&self, finding: Finding, unit: &'static str, role: Role) -> Finding {
        match self.failed_service(unit, Some(role)) {
            Some(found) => self.and_service(self.and_log(finding, Some(found)), found),
            None => finding,
        }
    }
}
