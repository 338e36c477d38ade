// SPDX-License-Identifier: Apache-2.0
//! The incident's clock, which runs 60 times as fast as the wall's.

use std::time::{Duration, Instant};

/// Seconds of the incident in one real second.
pub(crate) const SPEED: u32 = 60;

/// A time of the incident's day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimeOfDay(Duration);

impl TimeOfDay {
    pub(crate) const fn new(hours: u64, minutes: u64, seconds: u64) -> Self {
        Self(Duration::from_secs((hours * 60 + minutes) * 60 + seconds))
    }
}

impl std::fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.0.as_secs();
        write!(f, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }
}

/// Translates between the two clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    begins: TimeOfDay,
    began: Instant,
}

impl Clock {
    pub(crate) fn start(begins: TimeOfDay) -> Self {
        Self { begins, began: Instant::now() }
    }

    /// When the wall's clock gets there.
    pub(crate) fn real(&self, time: TimeOfDay) -> Instant {
        self.began + time.0.saturating_sub(self.begins.0) / SPEED
    }

    /// What the incident's clock shows at `real`.
    pub(crate) fn shows(&self, real: Instant) -> TimeOfDay {
        TimeOfDay(self.begins.0 + real.saturating_duration_since(self.began) * SPEED)
    }
}
