// SPDX-License-Identifier: Apache-2.0
//! Reports a program of kmod's that hangs: the process that waits for it logs that, and in the end no longer feeds
//! the service manager's watchdog.

use crate::ready::clock::now;
use crate::ready::time::{BootTime, Seconds};
use std::time::Duration;

/// Watches over a program of kmod's while it runs.
pub(crate) struct SlowCommandWatch {
    what: &'static str,
    pub(crate) begun: BootTime,
    /// When to log next that the program still runs, from its start.
    next_line: Duration,
    heartbeat: Duration,
}

impl SlowCommandWatch {
    /// Begins now. The first line comes after `slow`, and then one at each heartbeat.
    pub(crate) fn over(what: &'static str, slow: Duration, heartbeat: Duration) -> Self {
        Self { what, begun: now(), next_line: slow, heartbeat }
    }

    pub(crate) fn spent(&self) -> Duration {
        now().saturating_sub(self.begun)
    }

    /// Whether a line is due.
    pub(crate) fn is_long(&self) -> bool {
        self.spent() >= self.next_line
    }

    /// Logs that the program still runs, if that is due; true if it did.
    pub(crate) fn warn_if_slow(&mut self) -> bool {
        let spent = self.spent();
        if spent < self.next_line {
            return false;
        }
        self.next_line = spent + self.heartbeat;
        tracing::warn!("{} has not ended after {}", self.what, Seconds(spent));
        true
    }
}
