// SPDX-License-Identifier: Apache-2.0
//! Output and input of a step of the sidecar: only data.

use crate::gate::Effect;

/// An action to do now, and report to [`Keep::done`](super::Keep::done).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Load `nvidia_peermem`, with a last look before and a proof behind.
    Load,
    /// Unload `nvidia_peermem`, and nothing else.
    Unload,
    /// Rebuild nvidia-peermem.ko, which is all that is wrong.
    Rebuild,
}

/// The cause of a load that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadFailure {
    /// The kernel or modprobe refused it, with this errno; `Other` where none is known.
    Errno(&'static str),
    /// The last look before it shows a change, or was interrupted.
    LastLook,
    /// The load takes too long.
    Late,
    /// There is no modprobe that can be run.
    NoModprobe,
    /// modprobe's own plan forbids it.
    Plan,
    /// This process may not load modules.
    Privilege,
    /// The rebuild that it needs failed, or is not possible.
    Rebuild,
    /// modprobe reports success, and the module is not live.
    Unproven,
}

impl LoadFailure {
    /// Its label in metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Errno(errno) => errno,
            Self::LastLook => "LastLook",
            Self::Late => "Late",
            Self::NoModprobe => "NoModprobe",
            Self::Plan => "Plan",
            Self::Privilege => "Privilege",
            Self::Rebuild => "Rebuild",
            Self::Unproven => "Unproven",
        }
    }

    /// Its cause lies in modprobe's own files or in what unloads the module again: nothing that a look sees changes
    /// when it goes.
    #[must_use]
    pub fn may_pass_unseen(self) -> bool {
        matches!(self, Self::Plan | Self::Unproven)
    }
}

/// The result of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
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

/// The consequences of a step. The action comes first: lines can wait, MOFED does not.
#[derive(Debug, Default)]
pub struct Response {
    /// To be done at once.
    pub action: Option<Action>,
    /// To be carried out then.
    pub effects: Vec<Effect>,
}
