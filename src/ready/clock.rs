// SPDX-License-Identifier: Apache-2.0
//! The clocks. Nothing else in this program asks what time it is.

use crate::ready::time::BootTime;
use nix::time::{ClockId, clock_gettime};
use std::time::SystemTime;

/// Time since boot, suspend included.
#[must_use]
pub fn now() -> BootTime {
    // The clock is there since Linux 2.6.39.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map(BootTime::from).unwrap_or_default()
}

/// The time of day.
#[must_use]
pub fn wall() -> SystemTime {
    SystemTime::now()
}
