// SPDX-License-Identifier: Apache-2.0
//! What goes out of a step of the sidecar, and what comes back: data alone.

use crate::gate::Effect;

/// What to do now, and report to [`Keep::done`](super::Keep::done).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Load `nvidia_peermem`, with a last look before and a proof behind.
    Load,
    /// Unload it, and it alone.
    Unload,
    /// Rebuild nvidia-peermem.ko, which is all that is wrong.
    Rebuild,
}

/// What an action came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// It is live, by us.
    Loaded(String),
    /// It is live, and somebody else was faster.
    Found(String),
    /// It is live, by us, and MOFED has begun to swap its modules meanwhile.
    Overlapped(String),
    /// Not loaded, and another attempt at the same would end the same.
    Refused(&'static str, String),
    /// Not loaded, and worth another attempt once everything has held again.
    Postponed(&'static str, String),
    /// It is gone.
    Unloaded(String),
    /// It is not gone, and why.
    NotUnloaded(String),
}

/// What follows from a step. The action comes first: lines can wait, MOFED does not.
#[derive(Debug, Default)]
pub struct Response {
    /// To be done at once.
    pub action: Option<Action>,
    /// To be carried out then.
    pub effects: Vec<Effect>,
}
