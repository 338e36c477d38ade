// SPDX-License-Identifier: Apache-2.0
//! The states of the sidecar, what each of them carries, and which may follow which.

use super::RefusedLoad;
use crate::ready::condition::terms;
use crate::ready::time::BootTime;
use serde::{Deserialize, Serialize};
use std::time::Duration;

terms! {
    /// The name of a phase.
    #[derive(Serialize, Deserialize)]
    State {
        Waiting: "`nvidia_peermem` is not loaded, and not every condition is met.";
        Loaded: "The module is live, and nothing shows that MOFED is about to swap its modules.";
        Yielding: "MOFED is about to swap its modules, and `nvidia_peermem` is being unloaded.";
        Blocked: "The module cannot be loaded, and waiting will not change that.";
        Busy: "MOFED is about to swap its modules, and `nvidia_peermem` is in use.";
    }
}

impl State {
    /// Which state may follow which, and what for; `explain` shows it.
    pub const TRANSITIONS: &[(Self, Self, &str)] = {
        use State::{Blocked, Busy, Loaded, Waiting, Yielding};
        &[
            (Waiting, Loaded, "every condition was met and it was loaded, or another process loaded it"),
            (Waiting, Blocked, "it cannot be loaded, and waiting does not help"),
            (Waiting, Yielding, "another process loaded it, and MOFED is about to swap its modules"),
            (
                Waiting,
                Busy,
                "another process loaded it, MOFED is about to swap its modules, and it is in use",
            ),
            (Blocked, Waiting, "the cause of the block has changed, or SIGHUP came"),
            (Blocked, Loaded, "another attempt succeeded, or another process loaded it"),
            (Blocked, Yielding, "another process loaded it, and MOFED is about to swap its modules"),
            (
                Blocked,
                Busy,
                "another process loaded it, MOFED is about to swap its modules, and it is in use",
            ),
            (Loaded, Waiting, "another process unloaded it"),
            (Loaded, Yielding, "MOFED is about to swap its modules, and nothing uses it"),
            (Loaded, Busy, "MOFED is about to swap its modules, and it is in use"),
            (Yielding, Waiting, "it was unloaded"),
            (Yielding, Loaded, "MOFED no longer swaps its modules"),
            (Yielding, Busy, "something began to use it"),
            (Busy, Waiting, "another process unloaded it"),
            (Busy, Loaded, "MOFED no longer swaps its modules"),
            (Busy, Yielding, "nothing uses it any longer"),
        ]
    };

    /// Whether `next` may follow this state.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        Self::TRANSITIONS.iter().any(|(from, to, _)| (*from, *to) == (self, next))
    }
}

/// Who loaded what is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadedBy {
    Another,
    /// We, and the inode of its directory in sysfs, once seen: one that was loaded again has another.
    Us(Option<u64>),
}

/// A state with what counts in it, and in no other.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    Waiting {
        /// The failure of the last attempt to load.
        last_try: Option<String>,
    },
    Blocked {
        /// The load that was refused; `None` where a condition blocks.
        refused: Option<RefusedLoad>,
    },
    Loaded {
        by: LoadedBy,
        /// The message is about a swap: not what there is to say of a module that stays.
        is_about_swap: bool,
    },
    Yielding {
        by: LoadedBy,
        /// When to unload.
        from: BootTime,
        /// How long to wait after an unload that fails.
        retry: Duration,
    },
    Busy {
        by: LoadedBy,
        /// When to look again whether it is still in use.
        poll: BootTime,
        /// How long to wait then if it is.
        next: Duration,
    },
}

impl Phase {
    pub(super) const WAITING: Self = Self::Waiting { last_try: None };

    pub(super) fn state(&self) -> State {
        match self {
            Self::Waiting { .. } => State::Waiting,
            Self::Blocked { .. } => State::Blocked,
            Self::Loaded { .. } => State::Loaded,
            Self::Yielding { .. } => State::Yielding,
            Self::Busy { .. } => State::Busy,
        }
    }

    /// Who loaded it, where it is loaded.
    pub(super) fn loaded_by(&self) -> Option<LoadedBy> {
        match self {
            Self::Waiting { .. } | Self::Blocked { .. } => None,
            Self::Loaded { by, .. } | Self::Yielding { by, .. } | Self::Busy { by, .. } => Some(*by),
        }
    }

    /// Whether the loaded module is still the one that we loaded; true if we loaded none.
    pub(super) fn recognizes(&mut self, inode: Option<u64>) -> bool {
        let by = match self {
            Self::Waiting { .. } | Self::Blocked { .. } => return true,
            Self::Loaded { by, .. } | Self::Yielding { by, .. } | Self::Busy { by, .. } => by,
        };
        match (*by, inode) {
            (LoadedBy::Us(None), Some(inode)) => {
                *by = LoadedBy::Us(Some(inode));
                true
            }
            (LoadedBy::Us(Some(ours)), Some(inode)) => ours == inode,
            _ => true,
        }
    }

    /// Forgets why another attempt to load would fail.
    pub(super) fn reset_backoff(&mut self) {
        match self {
            Self::Waiting { last_try } => *last_try = None,
            Self::Blocked { refused } => *refused = None,
            Self::Loaded { .. } | Self::Yielding { .. } | Self::Busy { .. } => {}
        }
    }
}
