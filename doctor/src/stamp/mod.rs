// SPDX-License-Identifier: Apache-2.0
//! A moment as a log line or a file gives it: which clock, how many nanoseconds, how exact.

mod civil;
mod parse;

pub use parse::{Parsed, classic, date, entrypoint, klog, rfc3339, since_boot};

use std::fmt;

/// One second in nanoseconds.
pub const SECOND: i64 = 1_000_000_000;
/// One millisecond in nanoseconds.
pub const MILLISECOND: i64 = 1_000_000;

/// Where a clock has its zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Clock {
    /// 1970-01-01T00:00:00Z.
    Wall,
    /// The start of the kernel.
    Boot,
}

/// A moment. It lies between `ns` and `ns + precision_ns`, as far as its source shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Which clock.
    pub clock: Clock,
    /// Nanoseconds since that clock's zero.
    pub ns: i64,
    /// The step of the source's clock in nanoseconds: a second where it prints whole seconds.
    pub precision_ns: i64,
}

impl Stamp {
    /// A moment on the wall clock.
    pub const fn wall(ns: i64, precision_ns: i64) -> Self {
        Self { clock: Clock::Wall, ns, precision_ns }
    }

    /// A moment since the kernel's start.
    pub const fn boot(ns: i64, precision_ns: i64) -> Self {
        Self { clock: Clock::Boot, ns, precision_ns }
    }

    /// A file's time, from the seconds and nanoseconds that stat(2) gives.
    pub fn of_file(seconds: i64, nanoseconds: i64) -> Self {
        // The kernel stamps files with the clock of its last tick, 10 ms at most.
        let precision = if nanoseconds == 0 { SECOND } else { 10 * MILLISECOND };
        Self::wall(seconds.saturating_mul(SECOND).saturating_add(nanoseconds), precision)
    }

    /// The same moment on the wall clock, where the kernel's start is known or not needed.
    pub fn on_wall(self, booted: Option<Self>) -> Option<Self> {
        match self.clock {
            Clock::Wall => Some(self),
            Clock::Boot => booted.map(|booted| {
                Self::wall(booted.ns.saturating_add(self.ns), booted.precision_ns.max(self.precision_ns))
            }),
        }
    }
}

impl fmt::Display for Stamp {
    /// RFC 3339 in UTC with as many digits as the source is exact, or `12.345 s after boot`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = digits(self.precision_ns);
        match self.clock {
            Clock::Wall => f.pad(&civil::rfc3339(self.ns, digits)),
            Clock::Boot => f.pad(&format!("{} s after boot", seconds(self.ns, digits))),
        }
    }
}

/// Digits behind the decimal point that a step of the clock justifies.
fn digits(precision_ns: i64) -> usize {
    match precision_ns {
        ..=1 => 9,
        2..=1_000 => 6,
        1_001..=100_000_000 => 3,
        _ => 0,
    }
}

fn seconds(ns: i64, digits: usize) -> String {
    let text = format!("{}.{:09}", ns.div_euclid(SECOND), ns.rem_euclid(SECOND));
    let end = text.len() - 9 + digits;
    text[..end].trim_end_matches('.').to_owned()
}
