// SPDX-License-Identifier: Apache-2.0
//! From what was seen to what is wrong, and what to do. Pure, like all judging.
//!
//! Each group of judges gives its findings; [`diagnose`] puts them in order. What follows from what
//! is in the table of findings, and nowhere here.

mod board;
mod build;
mod cdi;
mod chain;
mod conditions;
mod cuda;
mod devices;
mod driver;
mod fabric;
mod facts;
mod gpu;
mod helm;
mod holders;
mod log_matches;
mod log_rules;
mod mofed;
mod offer;
mod order;
mod peermem;
mod rdma;
mod restarts;
mod runtime;
mod said;
mod services;
mod signs;
mod views;
mod waits;

use crate::chain::Link;
use crate::finding::{Finding, Group, Id, Severity, ordered};
use crate::log::{LogEvent, LogMatch, LogSource};
use crate::symptoms::{MountViewer, Symptoms, View};
use peermem_gate::ready::condition::Reason;
use peermem_gate::ready::judge::modules::{ModuleState, state};
use peermem_gate::ready::node::Expectations;
use peermem_gate::ready::observation::{Lock, Marker, Observation, ProcModule, ProcState, Unreadable};
use peermem_gate::ready::verdict::{Outcome, Verdict};
use peermem_gate::survey::process::{Process, Role};
use peermem_gate::survey::setting::Setting;

const DEVICES: &str = "/sys/bus/pci/devices";

/// Findings that say that a program does not run here, or never has: not while `/proc` shows it.
const ABSENCES: [(Id, Role); 7] = [
    (Id::MofedNotRunning, Role::Mofed),
    (Id::MofedNotYetHere, Role::Mofed),
    (Id::MofedNeverCame, Role::Mofed),
    (Id::MofedStopped, Role::Mofed),
    (Id::FabricManagerNotStarted, Role::FabricManager),
    (Id::GpuFabricManagerMissing, Role::FabricManager),
    (Id::DriverNotInstalled, Role::Driver),
];

/// All that a judge may know.
pub(crate) struct Case<'a> {
    expected: &'a Expectations,
    seen: &'a Observation,
    symptoms: &'a Symptoms,
    verdict: &'a Verdict,
}

/// The readiness chain, judged by all that was seen.
pub fn links(
    expected: &Expectations,
    seen: &Observation,
    symptoms: &Symptoms,
    verdict: &Verdict,
) -> Vec<Link> {
    Case { expected, seen, symptoms, verdict }.links()
}

/// The findings on this node, root cause first.
pub fn diagnose(
    expected: &Expectations,
    seen: &Observation,
    symptoms: &Symptoms,
    verdict: &Verdict,
) -> Vec<Finding> {
    diagnose_reliable(expected, seen, symptoms, verdict, &Some)
}

/// The same, as far as `reliable` lets a finding pass: of a node that was read in part, some rest on nothing.
pub fn diagnose_reliable(
    expected: &Expectations,
    seen: &Observation,
    symptoms: &Symptoms,
    verdict: &Verdict,
    reliable: &dyn Fn(Finding) -> Option<Finding>,
) -> Vec<Finding> {
    let case = Case { expected, seen, symptoms, verdict };
    let mut found = devices::judge(&case);
    if case.has_gpu() {
        found.extend(gpu::judge(&case));
        found.extend(order::judge(&case));
        found.extend(driver::judge(&case));
        found.extend(offer::judge(&case));
        found.extend(views::sources(&case));
    }
    found.extend(log_rules::judge(&case));
    if case.has_gpu() && (case.has_driver_pod() || case.symptoms.settings.operator.is_some()) {
        found.extend(views::private(&case));
    }
    // Where the gate has no business, what it would wait for is no finding.
    if verdict.outcome != Outcome::NotApplicable {
        found.extend(of_rdma(&case, &found));
    }
    if case.wants_devices() {
        found.extend(rdma::judge(&case));
        if verdict.outcome == Outcome::NotApplicable {
            found.extend(mofed::blacklist(&case));
        }
    }
    found.extend(fabric::judge(&case));
    found.extend(views::inotify(&case));
    let stopped = chain::judge(&case).into_iter();
    found.extend(stopped.map(|finding| restarts::with_words(&case, finding)));
    found.extend(runtime::judge(&case));
    found.extend(said::judge(&case, &found));
    found.extend(services::judge(&case));
    found.extend(waits::judge(&case));
    found.extend(restarts::judge(&case, &found));
    found.extend(views::unread(&case, &found));
    found.extend(signs::judge(&case));
    found.retain(|finding| !case.is_contradicted(finding.id) && !case.is_of_another_machine(finding.id));
    let facts = case.facts();
    let mut findings = ordered(found.into_iter().filter_map(reliable).collect(), &facts);
    if is_beside_mofed(&findings) {
        findings.retain(|finding| finding.id != Id::HostMofedAssumed);
    }
    let hints = peermem::hints(&case, &findings).into_iter().filter_map(reliable);
    findings.extend(ordered(hints.collect(), &facts));
    findings
}

/// Whether the faults have nothing to do with MOFED: then it does not matter who provides it.
fn is_beside_mofed(findings: &[Finding]) -> bool {
    let is_loud = |finding: &&Finding| matches!(finding.severity, Severity::Critical | Severity::Warning);
    let mut roots = findings.iter().filter(is_loud).map(|finding| finding.id.group()).peekable();
    // A container's view matters where a container provides MOFED.
    let is_other = |group| {
        use Group::{Driver, Gpu, Network, Node, Runtime, View};
        matches!(group, Gpu | Driver | Node | Runtime | Network | View)
    };
    roots.peek().is_some() && roots.all(is_other)
}

/// Findings about MOFED and nvidia-peermem. `found` so far is what they may come from.
fn of_rdma(case: &Case<'_>, found: &[Finding]) -> Vec<Finding> {
    let mut rdma = Vec::new();
    if let Setting::Unreadable(why) = &case.symptoms.settings.rdma {
        rdma.push(unreadable(why));
    }
    if !case.rdma_intent_unknown() {
        rdma.extend(conditions::judge(case));
        rdma.extend(mofed::judge(case));
        rdma.extend(build::judge(case));
    }
    rdma.extend(views::judge(case));
    rdma.extend(peermem::judge(case, found));
    if !case.symptoms.settings.rdma.is_on() && !case.symptoms.settings.rdma.is_off() {
        // Nobody says that RDMA is wanted; something was only brought that is made for it.
        for finding in &mut rdma {
            finding.severity = finding.severity.max(Severity::Warning);
        }
    }
    rdma
}

impl Case<'_> {
    /// One that is there, or cannot be looked for, or whose driver is loaded.
    fn has_gpu(&self) -> bool {
        let is_seen = self.symptoms.nvidias.is_err() || self.symptoms.gpus().next().is_some();
        is_seen || self.line("nvidia").is_some()
    }

    /// A process outranks an inference.
    fn is_contradicted(&self, id: Id) -> bool {
        ABSENCES.iter().any(|(one, role)| *one == id && self.process(*role).is_some())
    }

    fn is_host_mofed(&self) -> bool {
        self.expected.mofed.is_on_host()
    }

    /// The operator cannot be logged, and no MOFED container has left a trace: RDMA may be off, or the
    /// host's MOFED meant, and then nothing is wrong. What no wait can cure is wrong all the same.
    fn rdma_intent_unknown(&self) -> bool {
        let traces = &self.symptoms.mofed;
        let is_mofeds = |source| matches!(source, LogSource::MofedBash | LogSource::MofedGo);
        // Who is refused nvidia-peermem has asked for it.
        let is_peermems = |one: &LogMatch| {
            one.event == LogEvent::PeermemRefused
                || Case::field(one, "module").replace('-', "_") == "nvidia_peermem"
        };
        let mut logged = self.symptoms.logs.matches.iter();
        let has_log = logged.any(|one| is_mofeds(one.source) || is_peermems(one));
        let is_traceless =
            traces.lock == Lock::NoFile && !matches!(traces.marker, Marker::Present(_)) && !has_log;
        let is_unreadable = matches!(self.symptoms.settings.rdma, Setting::Unreadable(_));
        is_unreadable && is_traceless && self.verdict.outcome != Outcome::Blocked
    }

    fn has(&self, reason: Reason) -> bool {
        self.verdict.conditions.iter().any(|condition| condition.reason == reason)
    }

    /// Programs on this node are to use RDMA: for GPUs, or by the shared device plugin.
    fn wants_devices(&self) -> bool {
        let for_gpus = self.verdict.outcome != Outcome::NotApplicable && self.symptoms.settings.rdma.is_on();
        // Who posts only a list of RDMA devices asks about RDMA.
        for_gpus || rdma::is_posted(self) || self.process(Role::RdmaDevicePlugin).is_some()
    }

    /// The first process of this role.
    fn process(&self, role: Role) -> Option<&Process> {
        self.symptoms.survey.processes.first(role)
    }

    /// No process of this role runs, and all are visible.
    fn lacks(&self, role: Role) -> bool {
        self.symptoms.survey.processes.hidden().is_none() && self.process(role).is_none()
    }

    /// How long ago this was, in seconds.
    fn age(&self, at: i64) -> Option<i64> {
        self.symptoms.survey.clock.age(at)
    }

    /// The mounts as the host sees them, and the file that shows them.
    fn host_view(&self) -> Option<&View> {
        self.symptoms.views.iter().find(|view| view.viewer == MountViewer::Host)
    }

    /// The driver is installed on the host, and loaded.
    fn has_live_host_driver(&self) -> bool {
        self.is_container_driver() == Some(false) && self.is_listed_live("nvidia")
    }

    /// By both witnesses.
    fn is_live(&self, name: &str) -> bool {
        matches!(state(&self.seen.modules, name), ModuleState::Live(_))
    }

    /// Only by the first witness: sysfs is read only for the modules of the conditions.
    fn is_listed_live(&self, name: &str) -> bool {
        self.line(name).is_some_and(|line| line.state == ProcState::Live)
    }

    /// The line of /proc/modules, whatever its state.
    fn line<'a>(&'a self, name: &'a str) -> Option<&'a ProcModule> {
        self.seen.modules.proc.as_ref().ok()?.named(name).next()
    }
}

/// A source that could not be read and would have shown more.
fn unreadable(why: &Unreadable) -> Finding {
    Finding::new(Id::SourceUnreadable, why.path.display(), why.why.clone())
}

/// A line of /proc/modules as it matters to people.
fn listing(module: &ProcModule) -> String {
    let users =
        if module.users.is_empty() { String::new() } else { format!(" by {}", module.users.join(", ")) };
    let used = match module.refcount {
        Some(count) if count > 0 => format!(" and in use{users} (refcount {count})"),
        _ => ", not in use".to_owned(),
    };
    format!("{} is loaded{used}", module.name)
}
