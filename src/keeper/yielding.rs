// SPDX-License-Identifier: Apache-2.0
//! Letting go of `nvidia_peermem` when MOFED is about to swap its modules, or the driver's container ends.

use super::state::{LoadedBy, Phase};
use super::{Action, BUSY, Keep, RETRY, Response, State, Stay};
use crate::ready::gate::Level;
use crate::ready::judge::swap::SwapCheck;
use crate::ready::look::Cause;
use crate::ready::observation::LockHolder;
use crate::ready::time::{BootTime, Seconds};
use std::time::Duration;

/// The time that a MOFED container with a new lock has to unload the module by itself. MOFED does so after 0.1 to 0.7
/// s, and its start fails if another process was faster (doca-driver-build#481; `entrypoint/internal/driver`). It
/// needs `ib_uverbs` only seconds later.
const MOFED_UNLOAD_WINDOW: Duration = Duration::from_millis(1500);

/// The module has to go.
pub(super) struct Swap<'a> {
    /// How that shows.
    pub(super) why: &'a str,
    /// How many use `nvidia_peermem`; `None` where the kernel cannot unload modules.
    pub(super) uses: Option<i64>,
    /// The modules themselves are going or gone.
    pub(super) has_begun: bool,
    /// Which process holds MOFED's lock.
    pub(super) holder: LockHolder,
}

impl Swap<'_> {
    /// A new container may be about to unload `nvidia_peermem` itself. It is not if no process holds the lock, if the
    /// container that ends is the one that made the marker, or if that unload is over.
    fn may_be_new_container(&self, made_marker: LockHolder) -> bool {
        let is_old = self.holder == LockHolder::Nobody
            || self.holder == made_marker && matches!(made_marker, LockHolder::Process(_));
        !is_old && !self.has_begun
    }
}

impl Keep {
    /// Why the module has to go, if it has. A driver that ends gets no time to unload the module itself: its script
    /// looks only a moment later. It gets no module that could not come back: where a job keeps the driver loaded,
    /// the node would be left without one.
    pub(super) fn yields<'a>(&self, uses: Option<i64>, glimpse: &'a SwapCheck) -> Option<Swap<'a>> {
        if !self.has_applied || self.stay != Stay::Yields {
            return None;
        }
        let driver_ends = self.driver_ends().filter(|_| self.comes_back);
        let why = glimpse.swap.as_deref().or(driver_ends)?;
        let has_begun = glimpse.has_begun || driver_ends.is_some();
        Some(Swap { why, uses, has_begun, holder: glimpse.holder })
    }

    pub(super) fn yield_module(
        &mut self,
        now: BootTime,
        cause: &Cause,
        swap: &Swap<'_>,
        response: &mut Response,
    ) {
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
        let is_new = swap.may_be_new_container(self.made_marker);
        let text = if is_new {
            let courtesy = Seconds(MOFED_UNLOAD_WINDOW);
            let unloads = match swap.holder {
                LockHolder::Unknown => "a new MOFED container (the lock's holder is unknown) may unload",
                _ => "a new MOFED container unloads",
            };
            format!(
                "{}; {unloads} nvidia_peermem{whose} itself: keep unloads it after {courtesy} if it is still loaded",
                swap.why
            )
        } else {
            response.action = Some(Action::Unload);
            format!("{}: unloading nvidia_peermem{whose}", swap.why)
        };
        let from = if is_new { now + MOFED_UNLOAD_WINDOW } else { now };
        let phase = Phase::Yielding { by, from, retry: RETRY.0 };
        self.enter(now, phase, Level::Info, text, Some(cause), response);
    }
}
