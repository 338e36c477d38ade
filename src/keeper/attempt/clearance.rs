// SPDX-License-Identifier: Apache-2.0
//! Clearance for a load. Only a last look that finds nothing wrong gives it, and without it nothing is loaded.

use crate::keeper::attempt::{LoadFailure, LoadResult};
use crate::peermem::plan::ModprobePlan;
use crate::ready::look::Look;
use crate::ready::observation::Identity;
use crate::ready::verdict::Outcome;

/// The last look before a load, and the plan that it agrees with.
#[derive(Debug)]
pub struct LoadPermit {
    before: Look,
    plan: ModprobePlan,
}

/// Objections to modprobe's plan.
#[derive(Debug, Default)]
pub struct PlanObjections {
    /// The plan would not load the file that was inspected.
    pub objection: Option<String>,
    /// A module that it would load, too.
    pub not_live: Option<String>,
}

impl LoadPermit {
    /// Clears the load, or says what forbids it. What has changed comes first: the plan was made before.
    ///
    /// # Errors
    /// The end of the attempt.
    pub fn by(
        before: Look,
        settled: Option<&Identity>,
        plan: ModprobePlan,
        against: PlanObjections,
    ) -> Result<Self, LoadResult> {
        if let Some(why) = changed(&before, settled) {
            return Err(LoadResult::again(LoadFailure::LastLook, why));
        }
        if let Some(why) = against.objection {
            return Err(LoadResult::refused(LoadFailure::Plan, format!("not loaded: {why}")));
        }
        let Some(name) = against.not_live else { return Ok(Self { before, plan }) };
        Err(LoadResult::again(
            LoadFailure::Plan,
            format!(
                "modprobe would also load {name}, which is not live and which the gate must not load; what to do: \
                    load it, or remove its softdep from modprobe.d"
            ),
        ))
    }

    /// The last look.
    #[must_use]
    pub fn look(&self) -> &Look {
        &self.before
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &ModprobePlan {
        &self.plan
    }
}

/// Why a look is no longer what everything settled to.
fn changed(look: &Look, settled: Option<&Identity>) -> Option<String> {
    if look.verdict.outcome != Outcome::Ready {
        let unmet = look.verdict.deciding();
        return Some(
            unmet.map_or_else(|| look.verdict.headline(), |c| format!("{}: {}", c.r#type, c.message)),
        );
    }
    settled.and_then(|settled| settled.difference(&look.identity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keeper::attempt::proof::tests::look;
    use crate::ready::condition::Reason;

    fn cleared(look: Look, settled: &Identity, against: PlanObjections) -> Result<LoadPermit, LoadResult> {
        LoadPermit::by(look, Some(settled), ModprobePlan::default(), against)
    }

    #[test]
    fn a_last_look_that_is_not_ready_or_shows_a_change_ends_the_attempt() {
        let settled = look(None, 1, &[("ib_core", 1)]).identity;
        let cleared = |look| cleared(look, &settled, PlanObjections::default());
        let ready = cleared(look(None, 1, &[("ib_core", 1)])).expect("nothing forbids it");
        assert_eq!(ready.look().identity, settled);
        let why = |look| match cleared(look) {
            Err(LoadResult::Again(why)) => (why.failure, why.sentence),
            _ => panic!("it goes on, or gives up for good"),
        };
        let not_ready = look(Some(Reason::MarkerAbsent), 1, &[("ib_core", 1)]);
        assert_eq!(why(not_ready), (LoadFailure::LastLook, "MarkerPresent: as the test says".to_owned()));
        for (marker, inode) in [(2, 1), (1, 2)] {
            let (failure, sentence) = why(look(None, marker, &[("ib_core", inode)]));
            assert!(failure == LoadFailure::LastLook && sentence.contains("again"), "{sentence}");
        }
    }

    #[test]
    fn a_plan_with_another_module_ends_the_attempt() {
        let settled = look(None, 1, &[]).identity;
        let cleared = |reason, against| cleared(look(reason, 1, &[]), &settled, against);
        let line = || PlanObjections { objection: Some("an install line".to_owned()), not_live: None };
        let refused = cleared(None, line());
        assert!(matches!(refused, Err(LoadResult::Refused(why)) if why.sentence.contains("an install line")));
        let again = cleared(None, PlanObjections { objection: None, not_live: Some("nvidia".to_owned()) });
        assert!(matches!(again, Err(LoadResult::Again(why)) if why.sentence.contains("also load nvidia")));
        // The plan was made before the change.
        let again = cleared(Some(Reason::MarkerAbsent), line());
        assert!(matches!(again, Err(LoadResult::Again(why)) if why.failure == LoadFailure::LastLook));
    }
}
