// SPDX-License-Identifier: Apache-2.0
//! Output and input of a step of the sidecar: only data.

use crate::load::attempt::{LoadFailure, LoadResult};
use crate::ready::gate::Effect;
use crate::ready::time::BootTime;

/// An action to do now, and report to [`Keep::done`](crate::keep::Keep::done).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Load `nvidia_peermem`, with a last look before and a proof behind.
    Load,
    /// Unload `nvidia_peermem`, and nothing else.
    Unload,
    /// Rebuild nvidia-peermem.ko, which is all that is wrong.
    Rebuild,
}

/// The result of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionResult {
    /// The module is live, loaded by us.
    Loaded(String),
    /// The module is live; another process was faster.
    Found(String),
    /// The module is live, loaded by us, and MOFED has begun to swap its modules meanwhile.
    Overlapped(String),
    /// Not loaded, and another attempt at the same would end the same.
    Refused(LoadFailure, String),
    /// Not loaded, and worth another attempt once every condition is met again.
    Postponed(LoadFailure, String),
    /// The module is gone.
    Unloaded(String),
    /// The module is not gone, and why.
    NotUnloaded(String),
}

impl ActionResult {
    /// The result of a load.
    ///
    /// # Errors
    /// A signal broke it off, and when it came.
    pub fn of(tried: LoadResult) -> Result<Self, (u8, BootTime)> {
        Ok(match tried {
            LoadResult::Live(sentence, Some(0)) => Self::Loaded(sentence),
            LoadResult::Live(sentence, _) => Self::Found(sentence),
            LoadResult::Overlapped(how) => {
                Self::Overlapped(format!("loaded, but MOFED began to swap its modules meanwhile ({how})"))
            }
            LoadResult::Refused(why) => Self::Refused(why.failure, why.sentence),
            LoadResult::Again(why) => Self::Postponed(why.failure, why.sentence),
            LoadResult::CannotRun { message, .. } => Self::Postponed(LoadFailure::NoModprobe, message),
            LoadResult::Late(sentence) => Self::Postponed(LoadFailure::Late, sentence),
            LoadResult::Signal(signal, since) => return Err((signal, since)),
        })
    }
}

/// The next step after a rebuild.
#[derive(Debug)]
pub enum AfterRebuild {
    /// A load. The sentence says what the rebuild did.
    Load(String),
    /// This, to be reported to [`Keep::done`](crate::keep::Keep::done).
    Report(ActionResult),
    /// The end of `keep`: a signal broke it off, and when it came.
    End(u8, BootTime),
}

/// The consequences of a step. The action comes first: lines can wait, MOFED does not.
#[derive(Debug, Default)]
pub struct Response {
    /// To be done at once.
    pub action: Option<Action>,
    /// To be carried out then.
    pub effects: Vec<Effect>,
}
