// SPDX-License-Identifier: Apache-2.0
//! The history of the build: when nvidia-peermem was built, and what was there of MOFED then.

use super::Case;
use crate::chain::span;
use crate::finding::{Finding, Id};
use crate::log::LogEvent;
use peermem_gate::ready::condition::Reason;
use peermem_gate::ready::observation::{Marker, ModuleFile};
use peermem_gate::survey::pod::Build;
use peermem_gate::survey::process::Role;

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    if case.line("nvidia_peermem").is_some() {
        return Vec::new();
    }
    let under_way = case.is_building().then(|| without_mofed(case)).flatten();
    [under_way, before_mofed(case), refused(case), other_abi(case)].into_iter().flatten().collect()
}

/// "built 3 m 37 s before MOFED's marker", where both times are known: evidence for a stub.
pub(super) fn history(case: &Case<'_>) -> Option<String> {
    let built = case.symptoms.driver.peermem_written.or_else(|| latest(case)?.finished)?;
    let marked = case.symptoms.mofed.marked?;
    (built < marked).then(|| format!("built {} before MOFED set its marker", span(marked - built)))
}

fn latest<'a>(case: &'a Case<'_>) -> Option<&'a Build> {
    let builds = case.symptoms.survey.pods.builds().filter(|(pod, _)| pod.is_here);
    builds.map(|(_, build)| build).max_by_key(|build| build.finished.or(build.started))
}

/// A module built now, before MOFED shows its headers, will be a stub, and no restart changes that.
fn without_mofed(case: &Case<'_>) -> Option<Finding> {
    let is_missing = case.has(Reason::HeadersMissing) || case.has(Reason::MarkerAbsent);
    let is_absent = matches!(case.seen.marker, Marker::Absent | Marker::ParentMissing(_));
    if case.is_host_mofed() || case.expected.precompiled || !is_missing || !is_absent {
        return None;
    }
    let headers = case.seen.headers.root.display();
    let finding = if let Some(build) = case.process(Role::Build) {
        let line = build.arguments.join(" ");
        Finding::new(Id::BuildWithoutMofed, build.directory.join("cmdline").display(), line)
    } else {
        let build = latest(case)?;
        let started = build.directory.join("driver_build_started");
        Finding::new(Id::BuildWithoutMofed, started.display(), "exists, but driver_built does not")
    };
    let marker = case.expected.marker.display();
    Some(finding.seen(headers, "MOFED's headers are missing").seen(marker, "MOFED's marker does not exist"))
}

/// The module that was built is gone or cannot be read; its time is known.
fn before_mofed(case: &Case<'_>) -> Option<Finding> {
    let is_read =
        matches!(case.seen.peermem.as_ref()?.file, ModuleFile::Read { .. } | ModuleFile::Damaged(_));
    if is_read || case.is_host_mofed() || case.expected.precompiled || case.is_listed_live("nvidia") {
        return None;
    }
    let (build, marked) = (latest(case)?, case.symptoms.mofed.marked?);
    let finished = build.finished.filter(|finished| *finished < marked)?;
    let seen = format!("built {} before MOFED set its marker", span(marked - finished));
    let finding = Finding::new(Id::BuiltBeforeMofed, build.directory.join("driver_built").display(), seen);
    Some(finding.seen(case.expected.marker.display(), "exists"))
}

/// The driver container's log, where the disk shows nothing more.
fn refused(case: &Case<'_>) -> Option<Finding> {
    let overcome = [LogEvent::PeermemLoaded, LogEvent::DriverReady, LogEvent::DriverMounted];
    let found = case.logged(&[LogEvent::PeermemRefused], &overcome)?;
    let started = case.logged(&[LogEvent::DriverBuildStarted, LogEvent::DriverStarted], &[]);
    let marked = case.logged(&[LogEvent::MofedMarkerSet], &[]);
    let finding = case.by_log(Id::PeermemRefused, found);
    let finding = case.and_log(finding, case.logged(&[LogEvent::MofedSymversMissing], &[]));
    Some(case.and_log(case.and_log(finding, started), marked))
}

/// The kernel's own word for another ABI: modprobe says `Invalid argument` to everything.
fn other_abi(case: &Case<'_>) -> Option<Finding> {
    let found = case.logged(&[LogEvent::KernelDisagreesAboutVersion], &[LogEvent::PeermemLoaded])?;
    let is_peermem = Case::field(found, "module").replace('-', "_") == "nvidia_peermem";
    let known = [Reason::StubModule, Reason::BuildSkipped, Reason::SymbolVersionMismatch];
    let is_known = known.into_iter().any(|reason| case.has(reason));
    let is_usable = case.has(Reason::Usable);
    (is_peermem && !is_known && !is_usable).then(|| case.by_log(Id::SymbolVersionMismatch, found))
}

impl Case<'_> {
    /// A build of the driver is under way: a compiler runs in a pod, or `OpenShift`'s toolkit has begun and not
    /// ended.
    pub(super) fn is_building(&self) -> bool {
        let is_open = latest(self).is_some_and(|build| build.started.is_some() && build.finished.is_none());
        self.process(Role::Build).is_some_and(|build| self.is_of_the_driver(build.pod.as_deref()))
            || self.process(Role::DriverToolkit).is_some() && is_open
    }

    /// MOFED's container builds too.
    fn is_of_the_driver(&self, pod: Option<&str>) -> bool {
        let mut drivers =
            [Role::Driver, Role::DriverToolkit].into_iter().filter_map(|role| self.process(role));
        drivers.any(|driver| driver.pod.as_deref() == pod)
    }
}
