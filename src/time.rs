// SPDX-License-Identifier: Apache-2.0
//! Times as data. The clocks that give them are in [`crate::clock`].

use std::fmt;
use std::time::Duration;

/// Time since boot, suspend included (`CLOCK_BOOTTIME`).
pub type BootTime = Duration;

/// A duration in seconds, with milliseconds where it is short.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = if self.0 < Duration::from_secs(10) { 3 } else { 1 };
        write!(f, "{:.digits$} s", self.0.as_secs_f64())
    }
}
