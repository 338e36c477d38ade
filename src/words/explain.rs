// SPDX-License-Identifier: Apache-2.0
//! Which conditions get a remedy. One pass over all of them, after the judges.

use crate::peermem::judge::conditions;
use crate::ready::condition::{ConditionType, ConditionType as C, Consequence, Reason as R, Status};
use crate::ready::judge::next_build;
use crate::ready::judge::next_build::NextBuild;
use crate::ready::node::Expectations;
use crate::ready::observation::Observation;
use crate::ready::verdict::{Condition, Verdict};
use crate::words::facts::facts;
use crate::words::remedy;
use crate::words::remedy::fact::{
    BUILT_IN, HOST_MOFED, KERNEL_STACK, MARKER_UNSET, MOFED_LIVE, PEERMEM_USED, PRIVATE_MOUNT,
    REBUILD_POSSIBLE, WITHOUT_PEER_MEMORY,
};
use crate::words::remedy::text::{DRAIN, FAST_PATH, NEW_DRIVER_POD};
use crate::words::remedy::{
    Fact, Facts, MOUNT_PROPAGATION_MISSING, PEERMEM_IN_USE, RDMA_BUILT_IN, STALE_MARKER, Step,
    UMAD_NOT_LOADED,
};

/// A condition with a reason that may pass by itself, and when a person must act on it all the same: all of these
/// facts must be known to be so, or known not to be so. Without steps the reason's own count.
type RemedyRow = ((C, R), &'static [(Fact, bool)], Option<&'static [Step]>);

/// The first row that fits counts.
const ROWS: &[RemedyRow] = &[
    ((C::MarkerPresent, R::MarkerAbsent), &[(PEERMEM_USED, true)], Some(PEERMEM_IN_USE)),
    ((C::MarkerPresent, R::MarkerAbsent), &[(PRIVATE_MOUNT, true)], Some(MOUNT_PROPAGATION_MISSING)),
    ((C::MarkerPresent, R::MarkerParentMissing), &[(PEERMEM_USED, true)], Some(PEERMEM_IN_USE)),
    ((C::MarkerPresent, R::MarkerParentMissing), &[(PRIVATE_MOUNT, true)], Some(MOUNT_PROPAGATION_MISSING)),
    ((C::MarkerPresent, R::MarkerNotAFile), &[], None),
    ((C::MarkerTrusted, R::MarkerSuspect), &[], None),
    ((C::ModulesFromMofed, R::MixedStack), &[(BUILT_IN, true)], Some(RDMA_BUILT_IN)),
    ((C::ModulesFromMofed, R::MixedStack), &[], None),
    ((C::ModulesFromMofed, R::ModuleInTree), &[(BUILT_IN, true)], Some(RDMA_BUILT_IN)),
    ((C::ModulesFromMofed, R::ModuleInTree), &[(HOST_MOFED, true)], None),
    ((C::ModulesFromMofed, R::ModuleInTree), &[(MARKER_UNSET, false)], Some(STALE_MARKER)),
    ((C::UmadLive, R::ModuleNotLoaded), &[(HOST_MOFED, true)], Some(UMAD_NOT_LOADED)),
    ((C::UmadLive, R::ModuleNotLoaded), &[(KERNEL_STACK, true)], Some(UMAD_NOT_LOADED)),
    ((C::VersionMatches, R::VersionMismatch), &[(MOFED_LIVE, true)], None),
    ((C::SymbolsExported, R::SymbolMissing), &[(WITHOUT_PEER_MEMORY, true)], None),
    // Once the marker is there, missing headers do not come by themselves.
    (
        (C::HeadersReady, R::HeadersMissing),
        &[(MARKER_UNSET, false), (PRIVATE_MOUNT, true)],
        Some(MOUNT_PROPAGATION_MISSING),
    ),
    ((C::HeadersReady, R::HeadersMissing), &[(MARKER_UNSET, false)], None),
    ((C::PeermemUsable, R::DependencyNotLive), &[], None),
];

/// Judges every condition that one look can decide, with remedies.
#[must_use]
pub fn judge(expected: &Expectations, seen: &Observation) -> Verdict {
    let mut conditions = conditions(expected, seen);
    add(&mut conditions, expected, seen);
    Verdict::of(conditions)
}

/// The verdict with remedies, by a caller that knows whether `rebuild` is possible on this node.
#[must_use]
pub fn knowing_rebuild(
    verdict: Verdict,
    expected: &Expectations,
    seen: &Observation,
    is_possible: bool,
) -> Verdict {
    let Some(condition) = verdict.get(ConditionType::PeermemUsable) else { return verdict };
    let mut condition = condition.clone();
    let facts = facts(expected, seen).with(REBUILD_POSSIBLE, Some(is_possible));
    condition.remedy = Some(facts.choose(remedy::of(condition.reason)).join(" "));
    verdict.replacing(condition)
}

/// The next build of a driver container, with a remedy where a build is needed and none would come.
#[must_use]
pub fn next_build(expected: &Expectations, seen: &Observation) -> Option<NextBuild> {
    let next = next_build::next_build(expected, seen)?;
    let steps = [DRAIN, FAST_PATH, NEW_DRIVER_POD].join(" ");
    let remedy = next.is_missed.then(|| facts(expected, seen).fill(&steps));
    Some(NextBuild { remedy, ..next })
}

/// Adds the remedies to the conditions that a person must act on.
fn add(conditions: &mut [Condition], expected: &Expectations, seen: &Observation) {
    if !conditions.iter().any(Condition::is_unmet) {
        return;
    }
    let facts = facts(expected, seen);
    for condition in conditions {
        let steps = steps(condition, &facts).map(|steps| facts.choose(steps)).unwrap_or_default();
        condition.remedy = (!steps.is_empty()).then(|| steps.join(" "));
    }
}

/// A person must act on a condition that blocks or cannot be read, except on symbols that are still to be read.
fn steps(condition: &Condition, facts: &Facts) -> Option<&'static [Step]> {
    let reason = condition.reason;
    let is_unreadable = condition.status == Status::Unknown && reason != R::SymbolsNotRead;
    match reason.consequence() {
        Consequence::Blocks => Some(remedy::of(reason)),
        Consequence::Waits if is_unreadable => Some(remedy::of(reason)),
        Consequence::Waits => {
            let is_so =
                |(_, when, _): &&RemedyRow| when.iter().all(|(fact, so)| facts.is(*fact) == Some(*so));
            let mut rows = ROWS.iter().filter(|(of, ..)| *of == (condition.r#type, reason));
            rows.find(is_so).map(|(.., steps)| steps.unwrap_or_else(|| remedy::of(reason)))
        }
        Consequence::Passes | Consequence::Exempts => None,
    }
}
