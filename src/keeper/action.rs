// SPDX-License-Identifier: Apache-2.0
//! What a step of the sidecar comes to: only data.

use crate::ready::gate::Effect;

/// An action to do now, and report to [`Keep::done`](crate::keeper::Keep::done) or, of an unload, to
/// [`Keep::unloaded`](crate::keeper::Keep::unloaded).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Load `nvidia_peermem`, with a last look before and a proof behind.
    Load,
    /// Unload `nvidia_peermem`, and nothing else.
    Unload,
    /// Rebuild nvidia-peermem.ko, which is all that is wrong.
    Rebuild,
}

/// The consequences of a step. The action comes first: lines can wait, MOFED does not.
#[derive(Debug, Default)]
pub struct Response {
    /// To be done at once.
    pub action: Option<Action>,
    /// To be carried out then.
    pub effects: Vec<Effect>,
}
