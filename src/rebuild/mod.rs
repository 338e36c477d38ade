// SPDX-License-Identifier: Apache-2.0
//! Rebuilding only nvidia-peermem: when that is a cure, what it takes, and how it is done. Pure; docs/heal.md is the
//! description for users.
//!
//! [`plan`] turns what was found on the node ([`Material`]) into a [`Plan`], or into the [`Obstacle`] that is in the
//! way.

mod built;
mod end;
mod failure;
mod material;
mod obstacle;
mod plan;
pub mod preference;
pub mod recipe;
pub mod record;
#[cfg(test)]
pub(crate) mod sample;
pub mod store;

pub use built::{Confirmed, FileProof, JudgedModule, file_proof, objection};
pub use end::{NextStep, RebuildEnd};
pub use failure::{FailedEnd, ended};
pub use material::{Material, Sources, Tool};
pub use obstacle::{Kind, Obstacle};
pub use plan::{Builder, Plan, plan, target};

use crate::condition::{ConditionType, Reason};
use crate::verdict::{Condition, Outcome, Verdict};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The file of nvidia-peermem is all that is wrong, and a rebuild cures that.
#[must_use]
pub fn is_all_that_is_missing(verdict: &Verdict) -> bool {
    let others = verdict.holding().filter(|c| c.r#type != ConditionType::Settled);
    let mut others = others.map(|c| (c.r#type, c.reason));
    let is_curable = |(r#type, reason): (_, Reason)| {
        r#type == ConditionType::PeermemUsable && reason.is_cured_by_rebuild()
    };
    verdict.outcome == Outcome::Blocked && others.next().is_some_and(is_curable) && others.next().is_none()
}

/// The most bytes that a build takes, with a kernel's debug information in it.
const ROOM: u64 = 64 << 20;

/// Everything is ready except the module file: what is built now is built against this MOFED.
#[must_use]
pub fn is_ready_for_a_build(verdict: &Verdict) -> bool {
    let is_of_module =
        |c: &Condition| matches!(c.r#type, ConditionType::PeermemUsable | ConditionType::Settled);
    verdict.holding().all(is_of_module)
}

/// The kernel, nvidia and MOFED that a module is built for. One attempt is made for each.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pair {
    /// The kernel's release.
    pub kernel: String,
    /// The build id of the live nvidia.
    pub nvidia: String,
    /// The build id of the live module that exports peer memory.
    pub mofed: String,
}

/// The result of a rebuild: the labels of `keep`'s metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Conclusion {
    /// A usable file is installed.
    Installed,
    /// Something is in the way; nothing was built.
    Refused,
    /// The build failed, or its result was not usable.
    Failed,
    /// The build took too long.
    TimedOut,
    /// MOFED began to swap its modules, or a signal came.
    BrokenOff,
    /// The driver toolkit was made to build again.
    Ordered,
    /// An earlier rebuild stood before a usable file, and was removed.
    Undone,
}

impl Conclusion {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Installed,
        Self::Refused,
        Self::Failed,
        Self::TimedOut,
        Self::BrokenOff,
        Self::Ordered,
        Self::Undone,
    ];
}

impl fmt::Display for Conclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Installed => "installed",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::BrokenOff => "broken_off",
            Self::Ordered => "ordered",
            Self::Undone => "undone",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(reasons: &[(ConditionType, Reason)]) -> Verdict {
        Verdict::of(reasons.iter().map(|(r#type, reason)| Condition::new(*r#type, *reason, "")).collect())
    }

    #[test]
    fn a_rebuild_is_for_the_file_and_for_nothing_else() {
        use ConditionType::{HeadersReady, MarkerPresent, PeermemUsable, Settled};
        for reason in Reason::ALL.iter().copied() {
            let alone = verdict(&[(PeermemUsable, reason), (Settled, Reason::Settling)]);
            assert_eq!(is_all_that_is_missing(&alone), reason.is_cured_by_rebuild(), "{reason}");
            let late = verdict(&[(PeermemUsable, reason), (MarkerPresent, Reason::MarkerAbsent)]);
            assert!(!is_all_that_is_missing(&late), "{reason}");
            let unseen = verdict(&[(PeermemUsable, reason), (HeadersReady, Reason::HeadersUnreadable)]);
            assert!(!is_all_that_is_missing(&unseen), "{reason}");
        }
        let settled = verdict(&[(PeermemUsable, Reason::StubModule), (Settled, Reason::Held)]);
        assert!(is_all_that_is_missing(&settled));
    }
}
