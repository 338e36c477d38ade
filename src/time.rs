// SPDX-License-Identifier: Apache-2.0
//! Times as data. The clocks that give them are in [`crate::clock`].

use std::fmt;
use std::time::Duration;

/// Time since boot, suspend included (`CLOCK_BOOTTIME`).
pub type BootTime = Duration;

/// A duration for people: in seconds, with milliseconds where it is short; from two minutes on in two units.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, minutes) = (self.0.as_secs(), self.0.as_secs() / 60);
        match seconds {
            0..10 => write!(f, "{:.3} s", self.0.as_secs_f64()),
            10..120 => write!(f, "{:.1} s", self.0.as_secs_f64()),
            120..3600 => units(f, (minutes, "m"), (seconds % 60, "s")),
            _ => units(f, (minutes / 60, "h"), (minutes % 60, "m")),
        }
    }
}

fn units(f: &mut fmt::Formatter<'_>, (large, unit): (u64, &str), (small, part): (u64, &str)) -> fmt::Result {
    write!(f, "{large} {unit}")?;
    if small > 0 { write!(f, " {small} {part}") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_duration_is_printed_in_two_units() {
        let printed = |millis| Seconds(Duration::from_millis(millis)).to_string();
        assert_eq!(printed(9_999), "9.999 s");
        assert_eq!(printed(119_949), "119.9 s");
        assert_eq!(printed(120_000), "2 m");
        assert_eq!(printed(1_741_900), "29 m 1 s");
        assert_eq!(printed(3_600_000), "1 h");
        assert_eq!(printed(90_061_000), "25 h 1 m");
    }
}
