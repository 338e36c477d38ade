// SPDX-License-Identifier: Apache-2.0
//! A look proves a load, not modprobe's exit code.

use crate::keeper::attempt::{LoadFailure, LoadResult};
use crate::ready::condition::{ConditionType, Reason, Status};
use crate::ready::look::Look;
use crate::ready::verdict::{Condition, Verdict};
use std::time::Duration;

/// How long it may be unknown whether a successful load made the module live.
pub const PROOF: Duration = Duration::from_secs(1);

const UNDECIDED: [Reason; 3] = [Reason::WitnessesDisagree, Reason::ModuleLoading, Reason::ModulesUnreadable];

/// Nothing says that the module is live, nor that it is not.
#[must_use]
pub fn is_undecided(look: &Look) -> bool {
    let peermem = look.verdict.get(ConditionType::PeermemUsable);
    peermem.is_some_and(|c| UNDECIDED.contains(&c.reason))
}

/// The message of a verdict that says the module is live already.
#[must_use]
pub fn live(verdict: &Verdict) -> Option<&str> {
    let condition = verdict.get(ConditionType::PeermemUsable)?;
    (condition.reason == Reason::PeermemLive).then_some(condition.message.as_str())
}

/// The result by a look after modprobe's end; `None` where nothing is loaded and modprobe says so itself.
#[must_use]
pub fn shown(before: &Look, after: &Look, code: u8) -> Option<LoadResult> {
    let peermem = after.verdict.get(ConditionType::PeermemUsable);
    let is_loaded =
        peermem.is_some_and(|c| matches!(c.reason, Reason::PeermemLive | Reason::LoadedOnGoneStack));
    if is_loaded {
        return Some(match overlapped(before, after) {
            None => {
                let message = peermem.map(|c| c.message.clone()).unwrap_or_default();
                LoadResult::Live(format!("loaded: {message}"), Some(code))
            }
            Some(how) => LoadResult::Overlapped(how),
        });
    }
    (code == 0).then(|| {
        LoadResult::refused(
            LoadFailure::Unproven,
            "modprobe reported success, but nvidia_peermem is not live; what to do: look for an install line in modprobe.d, and for a process that unloads it (k8s-driver-manager)"
                .to_owned(),
        )
    })
}

/// The change of MOFED while modprobe ran. A value that cannot be read now has not changed.
fn overlapped(before: &Look, after: &Look) -> Option<String> {
    let mut identity = after.identity.clone();
    // Its own directory is new.
    identity.modules.remove("nvidia_peermem");
    let is_gone = |c: &&Condition| c.status == Status::False && c.reason != Reason::WitnessesDisagree;
    let gone = after.verdict.unmet().find(is_gone);
    gone.map(|c| format!("{}: {}", c.r#type, c.message)).or_else(|| before.identity.difference(&identity))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::ready::observation::{FileId, Identity};

    /// With modules of these inodes, below a marker of this one.
    pub(crate) fn look(reason: Option<Reason>, marker: u64, modules: &[(&str, u64)]) -> Look {
        let condition = |r#type, reason| Condition::new(r#type, reason, "as the test says");
        let mut conditions = vec![condition(ConditionType::ModulesLive, Reason::AllLive)];
        conditions.extend(reason.map(|reason| condition(ConditionType::MarkerPresent, reason)));
        let modules = modules.iter().map(|(name, inode)| ((*name).to_owned(), *inode)).collect();
        let marker = Some(FileId { device: 1, inode: marker, changed_ns: 0 });
        Look {
            verdict: Verdict::of(conditions),
            identity: Identity { marker, modules, ..Identity::default() },
            next_build: None,
        }
    }

    /// The same look with the module in this state.
    fn with_peermem(look: Look, reason: Reason) -> Look {
        let condition = Condition::new(ConditionType::PeermemUsable, reason, "as the test says");
        let conditions = look.verdict.conditions.into_iter().chain([condition]).collect();
        Look { verdict: Verdict::of(conditions), ..look }
    }

    #[test]
    fn a_change_while_modprobe_runs_is_an_overlap() {
        let before = look(None, 1, &[("ib_core", 1)]);
        let ends = |after: Look| shown(&before, &with_peermem(after, Reason::PeermemLive), 0);
        let overlap = |after| match ends(after) {
            Some(LoadResult::Overlapped(how)) => how,
            _ => panic!("no overlap"),
        };
        // Its own directory is new.
        let loaded = ends(look(None, 1, &[("ib_core", 1), ("nvidia_peermem", 9)]));
        assert!(
            matches!(loaded, Some(LoadResult::Live(message, Some(0))) if message == "loaded: as the test says")
        );
        assert!(overlap(look(None, 1, &[("ib_core", 2), ("nvidia_peermem", 9)])).contains("ib_core"));
        assert!(overlap(look(None, 2, &[("ib_core", 1)])).contains("marker"));
        assert!(overlap(look(Some(Reason::MarkerAbsent), 1, &[("ib_core", 1)])).contains("MarkerPresent"));
        // A value that cannot be read now has not changed.
        let unsure = look(Some(Reason::WitnessesDisagree), 1, &[("ib_core", 1)]);
        assert!(matches!(ends(unsure), Some(LoadResult::Live(..))));
    }

    #[test]
    fn a_modprobe_that_ends_with_0_does_not_prove_a_load() {
        let before = look(None, 1, &[]);
        let after = with_peermem(look(None, 1, &[]), Reason::Usable);
        let unproven = shown(&before, &after, 0);
        assert!(matches!(unproven, Some(LoadResult::Refused(why)) if why.failure == LoadFailure::Unproven));
        assert!(shown(&before, &after, 1).is_none(), "modprobe's own words say why");
    }
}
