// SPDX-License-Identifier: Apache-2.0
//! Where the GPU Operator's readiness chain stops, once it has stopped for longer than its next step
//! takes. While MOFED's marker is what it stops at, the conditions say it.

use super::Case;
use crate::chain::{
    self, Around, DRIVER_CTR_READY, DRIVER_READY, Link, LinkState, TOOLKIT_READY, broken_at, span,
};
use crate::condition::Outcome;
use crate::finding::{Finding, Id};
use crate::node::MofedPlace;
use crate::observation::ProcState;

impl Case<'_> {
    /// The chain's files, judged.
    pub(super) fn links(&self) -> Vec<Link> {
        let is_live = |proc: &crate::observation::ProcModules| {
            proc.named("nvidia").any(|module| module.state == ProcState::Live)
        };
        let around = Around {
            wants_marker: self.expected.mofed == MofedPlace::Container
                && self.verdict.outcome != Outcome::NotApplicable,
            has_driver: self.seen.modules.proc.as_ref().ok().map(is_live),
        };
        chain::links(&self.symptoms.chain, around)
    }
}

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    let links = case.links();
    let stale = links.iter().find(|link| link.state == LinkState::Stale).map(left_behind);
    let stopped = broken_at(&links).and_then(stopped);
    stale.into_iter().chain(stopped).collect()
}

fn left_behind(link: &Link) -> Finding {
    let why = link.note.as_deref().unwrap_or("what it stands for is gone");
    Finding::new(Id::DriverCtrReadyStale, link.path.display(), format!("it is there, but {why}"))
}

fn stopped(link: &Link) -> Option<Finding> {
    let id = match link.file {
        DRIVER_CTR_READY => Id::DriverCtrNotReady,
        DRIVER_READY => Id::DriverNotValidated,
        TOOLKIT_READY => Id::ToolkitNotReady,
        "cuda-ready" => Id::ValidationIncomplete,
        _ => return None,
    };
    let waited = link.waited_s.filter(|waited| link.state == LinkState::Absent && *waited > link.usual_s)?;
    let after = link.after.unwrap_or_default();
    let seen = format!("it is not there, {} after {after}; {} writes it", span(waited), link.writer);
    let mut finding = Finding::new(id, link.path.display(), seen);
    if !link.waiters.is_empty() {
        finding = finding.seen("waiting for it", link.waiters.join(", "));
    }
    Some(finding)
}
