// SPDX-License-Identifier: Apache-2.0
//! One attempt to load `nvidia_peermem`, as data: a last look clears it, a look after it proves it. `keeper::loader`
//! looks and runs modprobe in between.

mod clearance;
mod proof;

pub use clearance::{LoadPermit, PlanObjections};
pub use proof::{PROOF, is_undecided, live, shown};

use crate::ready::exit::Exit;
use crate::ready::gate::{Last, Opening, Rebuilt};
use crate::ready::time::BootTime;
use crate::rebuild::RebuildResult;

macro_rules! failures {
    ($($failure:ident: $meaning:literal;)*) => {
        /// The cause of a load that failed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum LoadFailure {
            /// The kernel or modprobe refused it, with this errno; [`OTHER`] where none is known.
            Errno(&'static str),
            $(#[doc = $meaning] $failure,)*
        }

        impl LoadFailure {
            /// All of them, except for errnos, with their meanings.
            pub const ALL: &[(Self, &'static str)] = &[$((Self::$failure, $meaning),)*];

            /// Its label in metrics.
            #[must_use]
            pub fn label(self) -> &'static str {
                match self {
                    Self::Errno(errno) => errno,
                    $(Self::$failure => stringify!($failure),)*
                }
            }
        }
    };
}

/// The label of a refusal without a known errno.
pub const OTHER: &str = "Other";

failures! {
    DryRun: "It is a dry run: nothing was tried.";
    LastLook: "The last look before it shows a change, or was interrupted.";
    Late: "The load takes too long.";
    NoModprobe: "There is no modprobe that can be run.";
    Plan: "modprobe's own plan forbids it.";
    Privilege: "This process may not load modules.";
    Rebuild: "The rebuild that it needs failed, or is not possible.";
    Unproven: "modprobe reports success, and the module is not live.";
}

impl LoadFailure {
    /// Its cause lies in modprobe's own files or in what unloads the module again: nothing that a look sees changes
    /// when it goes.
    #[must_use]
    pub fn may_pass_unseen(self) -> bool {
        matches!(self, Self::Plan | Self::Unproven)
    }
}

/// The result of one attempt, the rebuild that it may need included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadResult {
    /// The module is live: the proof, and what modprobe ended with if it had to be run.
    Live(String, Option<u8>),
    /// The module is loaded, and MOFED has begun to swap its modules meanwhile: the sign of that.
    Overlapped(String),
    /// The load was refused, and another attempt would be too.
    Refused(Why),
    /// The load failed, and is tried again once every condition is met again.
    Again(Why),
    /// A signal broke it off, and when it came.
    Signal(u8, BootTime),
    /// The load took too long and was broken off; a modprobe that hangs in the kernel still runs there.
    Late(String),
    /// There is no modprobe to run.
    CannotRun {
        /// 126 or 127.
        exit: Exit,
        /// Why.
        message: String,
    },
}

/// Why the module was not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// For metrics.
    pub failure: LoadFailure,
    /// For people.
    pub sentence: String,
}

impl LoadResult {
    /// Another attempt at the same would end the same.
    #[must_use]
    pub fn refused(failure: LoadFailure, sentence: String) -> Self {
        Self::Refused(Why { failure, sentence })
    }

    /// Another attempt may end well.
    #[must_use]
    pub fn again(failure: LoadFailure, sentence: String) -> Self {
        Self::Again(Why { failure, sentence })
    }

    /// How a wait for the module ends with it; `None` if it waits on until its gate opens again.
    #[must_use]
    pub fn last(&self) -> Option<Last> {
        match self {
            Self::Live(..) => Some(Ok(Opening::Ready)),
            Self::Again(_) => None,
            Self::Overlapped(_) | Self::Refused(_) => Some(Err(Exit::Blocked)),
            Self::Late(_) => Some(Err(Exit::TimedOut)),
            Self::CannotRun { exit, .. } => Some(Err(*exit)),
            Self::Signal(signal, _) => Some(Err(Exit::Signal(*signal))),
        }
    }

    /// What follows a rebuild, which this sentence tells.
    ///
    /// # Errors
    /// There is nothing to load: the end of the attempt.
    pub fn after_rebuild(end: &RebuildResult, sentence: String) -> Result<String, Self> {
        Err(match (end, end.for_gate()) {
            (_, Rebuilt::Usable) => return Ok(sentence),
            (RebuildResult::Signal(signal, since), _) => Self::Signal(*signal, *since),
            (RebuildResult::Deadline(_), _) => Self::Late(sentence),
            (_, Rebuilt::Obstructed) => Self::refused(LoadFailure::Rebuild, sentence),
            (_, Rebuilt::Later | Rebuilt::Neither) => Self::again(LoadFailure::Rebuild, sentence),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebuild::{Kind, Obstacle};

    #[test]
    fn only_an_end_that_may_be_another_next_time_is_followed_by_another_rebuild() {
        let obstacle = |kind| RebuildResult::Refused(Obstacle::new(kind, "as the test says"));
        let text = String::new;
        let said = || "said".to_owned();
        let again = || Err(LoadResult::again(LoadFailure::Rebuild, said()));
        let refused = || Err(LoadResult::refused(LoadFailure::Rebuild, said()));
        let signal = LoadResult::Signal(15, BootTime::ZERO);
        for (end, of_gate, next) in [
            (RebuildResult::Installed(text()), Rebuilt::Usable, Ok(said())),
            (RebuildResult::Undone(text()), Rebuilt::Usable, Ok(said())),
            (RebuildResult::Swapping(text()), Rebuilt::Neither, again()),
            (obstacle(Kind::Busy), Rebuilt::Neither, again()),
            (RebuildResult::Passing(text()), Rebuilt::Later, again()),
            (RebuildResult::TimedOut(text()), Rebuilt::Later, again()),
            (obstacle(Kind::SourcesMissing), Rebuilt::Obstructed, refused()),
            (RebuildResult::Failed(text()), Rebuilt::Obstructed, refused()),
            (RebuildResult::Deadline(text()), Rebuilt::Neither, Err(LoadResult::Late(said()))),
            (RebuildResult::Signal(15, BootTime::ZERO), Rebuilt::Neither, Err(signal)),
        ] {
            assert_eq!((end.for_gate(), LoadResult::after_rebuild(&end, said())), (of_gate, next), "{end:?}");
        }
    }
}
