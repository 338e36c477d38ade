// SPDX-License-Identifier: Apache-2.0
//! What hangs must not look alive: whoever waits for modprobe or rmmod tells of it, and in the end leaves the
//! service manager's watchdog unfed.

use crate::act::notify::Manager;
use crate::gate::{BootTime, Seconds};
use crate::wake::now;
use std::time::Duration;

/// What watches over a program of kmod's while it runs.
pub(super) struct Vigil {
    what: &'static str,
    pub(super) begun: BootTime,
    /// When to tell of it next, and from when on it hangs: both counted from its beginning.
    tell_after: Duration,
    hung_after: Duration,
}

impl Vigil {
    pub(super) fn over(what: &'static str, tell_after: Duration, hung_after: Duration) -> Self {
        Self { what, begun: now(), tell_after, hung_after }
    }

    fn spent(&self) -> Duration {
        now().saturating_sub(self.begun)
    }

    /// It has lasted so long that it is to be told of.
    pub(super) fn is_long(&self) -> bool {
        self.spent() >= self.tell_after
    }

    /// Feeds the watchdog, unless it hangs, and tells of what lasts long: true if it did.
    pub(super) fn keeps(&mut self, manager: &Manager) -> bool {
        let spent = self.spent();
        if spent < self.hung_after {
            manager.feed();
        }
        if !self.is_long() {
            return false;
        }
        self.tell_after = spent * 10;
        tracing::warn!("{} has not ended after {}", self.what, Seconds(spent));
        true
    }
}
