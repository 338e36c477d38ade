// SPDX-License-Identifier: Apache-2.0
//! Where the GPU Operator's readiness chain stops, once it has stopped for longer than its next step
//! takes. While MOFED's marker is what it stops at, the conditions say it.

use super::Case;
use crate::chain::{
    self, ChainContext, DRIVER_CTR_READY, DRIVER_READY, Link, LinkState, MARKER, TOOLKIT_READY, broken_at,
    span,
};
use crate::finding::{Finding, Id};
use peermem_gate::ready::mofed::MofedPlace;
use peermem_gate::ready::observation::ProcState;
use peermem_gate::ready::verdict::Outcome;
use peermem_gate::survey::process::Role;

const DRIVER: &str = "nvidia-driver-ctr";
const VALIDATION: &str = "driver-validation";
const PLUGIN_VALIDATION: &str = "plugin-validation";

impl Case<'_> {
    /// The chain's files, judged.
    pub(super) fn links(&self) -> Vec<Link> {
        self.with_waits(chain::links(&self.symptoms.chain, self.around()))
    }

    pub(super) fn around(&self) -> ChainContext {
        let is_live = |proc: &peermem_gate::ready::observation::ProcModules| {
            proc.named("nvidia").any(|module| module.state == ProcState::Live)
        };
        ChainContext {
            wants_marker: self.expected.mofed == MofedPlace::Container
                && self.verdict.outcome != Outcome::NotApplicable,
            has_driver: self.seen.modules.proc.as_ref().ok().map(is_live),
            driver_started: self.first_start(Role::Driver, DRIVER),
            validates_plugin: self
                .symptoms
                .survey
                .pods
                .with(PLUGIN_VALIDATION)
                .is_some_and(|pod| pod.is_here),
            validator_started: self.first_start(Role::Validator, VALIDATION),
        }
    }

    /// When the container began its work. One that was restarted has been at it for longer than its process lives;
    /// one whose start cannot be seen may have started just now.
    fn first_start(&self, role: Role, container: &str) -> Option<i64> {
        let survey = &self.symptoms.survey;
        let logs = self.symptoms.logs.pods.iter().flat_map(|pod| &pod.containers);
        let is_restarted =
            logs.filter(|log| log.name == container).any(|log| log.restart.is_some_and(|count| count > 0));
        let process = survey.processes.first(role).filter(|_| !is_restarted)?;
        process.started.or_else(|| survey.clock.now())
    }
}

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    let links = case.links();
    let stale = links.iter().find(|link| link.state == LinkState::Stale).map(left_behind);
    let broken = broken_at(&links).filter(|link| link.file != MARKER);
    let stopped = broken.and_then(|link| stopped(link, &links).or_else(|| under_way(link)));
    stale.into_iter().chain(stopped).collect()
}

/// Whether the chain has stopped at this file.
pub(super) fn is_overdue(case: &Case<'_>, file: &str) -> bool {
    let links = case.links();
    broken_at(&links).is_some_and(|link| link.file == file && link.is_overdue())
}

fn left_behind(link: &Link) -> Finding {
    let why = link.note.as_deref().unwrap_or("its driver container has ended");
    Finding::new(Id::DriverCtrReadyStale, link.path.display(), format!("it exists, but {why}"))
}

/// The file is not overdue yet, or its time is unknown.
fn under_way(link: &Link) -> Option<Finding> {
    let usual =
        format!("it does not exist yet; {} writes it, which may take {}", link.writer, span(link.usual_s));
    (link.state == LinkState::Absent && !link.is_overdue())
        .then(|| Finding::new(Id::ChainUnderWay, link.path.display(), usual))
}

fn stopped(link: &Link, links: &[Link]) -> Option<Finding> {
    let id = match link.file {
        DRIVER_CTR_READY => Id::DriverCtrNotReady,
        DRIVER_READY => Id::DriverNotValidated,
        TOOLKIT_READY => Id::ToolkitNotReady,
        "cuda-ready" | "plugin-ready" => Id::ValidationIncomplete,
        _ => return None,
    };
    let waited = link.waited_s.filter(|_| link.is_overdue())?;
    let start = if link.has_writer { " and its writer's start" } else { "" };
    let is_expected =
        |after: &&str| links.iter().any(|one| one.file == *after && one.state != LinkState::NotExpected);
    let since =
        link.after.filter(is_expected).map_or_else(String::new, |after| format!(" after {after}{start}"));
    let seen = format!("it does not exist, {}{since}; {} writes it", span(waited), link.writer);
    let mut finding = Finding::new(id, link.path.display(), seen);
    if !link.waiters.is_empty() {
        finding = finding.seen("waiting for it", link.waiters.join(", "));
    }
    Some(finding)
}
