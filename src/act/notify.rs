// SPDX-License-Identifier: Apache-2.0
//! What systemd wants to hear (`sd_notify`(3)); nothing, where nobody listens.

use crate::gate::BootTime;
use crate::wake::now;
use sd_notify::NotifyState;
use std::cell::Cell;
use std::io;
use std::time::Duration;

/// How often the watchdog hears of us between two of its limits.
const SHARE: u32 = 3;

/// The service manager.
#[derive(Debug)]
pub struct Manager {
    watchdog: Option<Duration>,
    fed: Cell<BootTime>,
    has_failed: Cell<bool>,
}

impl Manager {
    /// As the environment names it (`NOTIFY_SOCKET`, `WATCHDOG_USEC`).
    #[must_use]
    pub fn of_environment() -> Self {
        let limit = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero());
        Self {
            watchdog: limit.map(|limit| limit / SHARE),
            fed: Cell::new(now()),
            has_failed: Cell::new(false),
        }
    }

    /// It runs, and has looked.
    pub fn ready(&self) {
        self.tell(&[NotifyState::Ready]);
    }

    /// What it is at, in one line.
    pub fn status(&self, sentence: &str) {
        self.tell(&[NotifyState::Status(&sentence.replace('\n', " "))]);
    }

    /// It ends because it was told to.
    pub fn stopping(&self) {
        self.tell(&[NotifyState::Stopping]);
    }

    /// Still alive: to be called as often as one likes.
    pub fn feed(&self) {
        if self.next_feed().is_some_and(|due| now() >= due) {
            self.fed.set(now());
            self.tell(&[NotifyState::Watchdog]);
        }
    }

    /// When the watchdog wants to hear of us again.
    #[must_use]
    pub fn next_feed(&self) -> Option<BootTime> {
        self.watchdog.map(|every| self.fed.get() + every)
    }

    fn tell(&self, state: &[NotifyState]) {
        let told: io::Result<()> = sd_notify::notify(state);
        if let Err(error) = told {
            if !self.has_failed.replace(true) {
                tracing::warn!("cannot tell the service manager (NOTIFY_SOCKET): {error}");
            }
        }
    }
}
