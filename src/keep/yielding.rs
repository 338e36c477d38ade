// SPDX-License-Identifier: Apache-2.0
//! Letting go of `nvidia_peermem` when MOFED is about to swap its modules.

use super::state::{LoadedBy, Phase};
use super::{Action, BUSY, Keep, RETRY, Response, State};
use crate::gate::Level;
use crate::look::Cause;
use crate::time::{BootTime, Seconds};
use std::time::Duration;

/// The time that a MOFED container with a new lock has to unload the module by itself. MOFED does so after 0.1 to
/// 0.7 s, and its start fails if somebody else was faster (doca-driver-build, `entrypoint/internal/driver`). It needs
/// `ib_uverbs` only seconds later.
const COURTESY: Duration = Duration::from_millis(1500);

/// Who holds MOFED's lock.
#[derive(Clone, Copy, Debug)]
pub(super) enum Holder {
    /// No look has come to its end yet.
    NotSeen,
    /// This process, or nobody that can be seen.
    Seen(Option<i32>),
}

impl Holder {
    fn is_another(self, holder: Option<i32>) -> bool {
        matches!(self, Self::Seen(seen) if seen != holder)
    }
}

/// MOFED is about to swap its modules.
pub(super) struct Swap<'a> {
    /// How that shows.
    pub(super) why: &'a str,
    /// How many use `nvidia_peermem`; `None` where the kernel cannot unload modules.
    pub(super) uses: Option<i64>,
    /// Who holds MOFED's lock.
    pub(super) holder: Option<i32>,
}

impl Keep {
    pub(super) fn let_go(&mut self, now: BootTime, cause: &Cause, swap: &Swap<'_>, response: &mut Response) {
        let by = self.phase.loaded_by().unwrap_or(LoadedBy::Another);
        let whose = if by == LoadedBy::Another { " (loaded by another process)" } else { "" };
        if swap.uses == Some(0) {
            self.unload(now, cause, swap, by, whose, response);
            return;
        }
        let obstacle = match swap.uses {
            Some(uses) => {
                format!("it is in use (reference count {uses}); what to do: end what uses it (GPU pods)")
            }
            None => {
                "this kernel cannot unload modules; what to do: drain and reboot the node for MOFED's swap"
                    .to_owned()
            }
        };
        let text = format!("{}, but nvidia_peermem{whose} cannot be unloaded: {obstacle}", swap.why);
        let phase = match self.phase {
            // An event is no reason to look sooner.
            Phase::Busy { poll, next, .. } if now < poll => Phase::Busy { by, poll, next },
            Phase::Busy { next, .. } => Phase::Busy { by, poll: now + next, next: (next * 2).min(BUSY.1) },
            _ => Phase::Busy { by, poll: now + BUSY.0, next: BUSY.0 * 2 },
        };
        if self.state() != State::Busy || self.message != text {
            self.enter(now, phase, Level::Warn, text, Some(cause), response);
        } else {
            self.phase = phase;
        }
    }

    fn unload(
        &mut self,
        now: BootTime,
        cause: &Cause,
        swap: &Swap<'_>,
        by: LoadedBy,
        whose: &str,
        response: &mut Response,
    ) {
        if let Phase::Yielding { from, .. } = self.phase {
            response.action = (now >= from).then_some(Action::Unload);
            return;
        }
        // The new container, which took the lock, unloads nvidia_peermem itself, and fails if we are faster.
        let is_new = swap.holder.is_some() && self.holder.is_another(swap.holder);
        let text = if is_new {
            let courtesy = Seconds(COURTESY);
            format!(
                "{}; a new MOFED container unloads nvidia_peermem{whose}: unloading it after {courtesy} if \
                    the container has not",
                swap.why
            )
        } else {
            response.action = Some(Action::Unload);
            format!("{}: unloading nvidia_peermem{whose}", swap.why)
        };
        let from = if is_new { now + COURTESY } else { now };
        let phase = Phase::Yielding { by, from, retry: RETRY.0 };
        self.enter(now, phase, Level::Info, text, Some(cause), response);
    }
}
