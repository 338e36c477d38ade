// SPDX-License-Identifier: Apache-2.0
//! Times as data. The clocks that give them are in [`crate::ready::clock`].

use std::fmt;
use std::time::Duration;

/// Time since boot, suspend included (`CLOCK_BOOTTIME`).
pub type BootTime = Duration;

/// A duration for people: in seconds, with milliseconds where it is short; from two minutes on in two units.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.saturating_add(Duration::from_micros(500)).as_secs();
        match seconds {
            0..10 => write!(f, "{:.3} s", self.0.as_secs_f64()),
            10..120 => write!(f, "{:.1} s", self.0.as_secs_f64()),
            120..3600 => units(f, (seconds / 60, "m"), (seconds % 60, "s")),
            _ => units(f, (seconds / 3600, "h"), (seconds / 60 % 60, "m")),
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
        assert_eq!(Seconds(Duration::from_micros(9_999_990)).to_string(), "10.0 s", "as it is rounded");
        assert_eq!(printed(119_949), "119.9 s");
        assert_eq!(printed(120_000), "2 m");
        assert_eq!(printed(1_741_900), "29 m 1 s");
        assert_eq!(printed(3_600_000), "1 h");
        assert_eq!(printed(90_061_000), "25 h 1 m");
    }

    /// A number and its unit, in milliseconds; and what its last digit counts.
    fn part(number: &str, unit: &str) -> (u128, u128) {
        let unit: u128 = match unit {
            "h" => 3_600_000,
            "m" => 60_000,
            _ => 1000,
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let thousandths: u128 = format!("{whole}{part:0<3}").parse().unwrap();
        (thousandths * unit / 1000, unit / 10_u128.pow(u32::try_from(part.len()).unwrap()))
    }

    /// Each millisecond of three minutes, and each second of four days.
    #[test]
    fn a_duration_is_never_printed_as_another_one() {
        let short = (0..180_000).map(Duration::from_millis);
        let long = (0..4 * 86_400).map(Duration::from_secs);
        for duration in short.chain(long) {
            let printed = Seconds(duration).to_string();
            let words: Vec<_> = printed.split(' ').collect();
            let parts: Vec<_> = words.chunks(2).map(|pair| part(pair[0], pair[1])).collect();
            let printed_as: u128 = parts.iter().map(|(value, _)| value).sum();
            // Long ones are cut off at their second unit, which is left out where it is zero.
            let digit = match duration.as_secs() {
                0..120 => parts[0].1,
                120..3600 => 1000,
                _ => 60_000,
            };
            let exact = duration.as_millis();
            assert!(printed_as <= exact + digit / 2 && exact < printed_as + digit, "{exact} ms: {printed}");
        }
        assert_eq!(Seconds(Duration::MAX).to_string(), "5124095576030431 h");
    }
}
