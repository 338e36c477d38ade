// SPDX-License-Identifier: Apache-2.0
//! Lengths of time and times of day.

use crate::stamp::{MILLISECOND, SECOND, Stamp};

/// A length of time in its two largest units: `3 m 37 s`, `2.4 s`, `350 ms`.
pub(super) fn span(ns: i64) -> String {
    let ns = ns.unsigned_abs();
    let (second, millisecond) = (SECOND.unsigned_abs(), MILLISECOND.unsigned_abs());
    if ns < second {
        return format!("{} ms", ns / millisecond);
    }
    if ns < 10 * second {
        let tenths = ns / (second / 10);
        return if tenths.is_multiple_of(10) {
            format!("{} s", tenths / 10)
        } else {
            format!("{}.{} s", tenths / 10, tenths % 10)
        };
    }
    let seconds = ns / second;
    let units =
        [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let first = units.iter().position(|(number, _)| *number > 0).unwrap_or(3);
    let shown = units[first..].iter().take(2).filter(|(number, _)| *number > 0);
    shown.map(|(number, unit)| format!("{number} {unit}")).collect::<Vec<_>>().join(" ")
}

/// The day of a moment: `2025-11-21`.
pub(super) fn day(ns: i64) -> String {
    Stamp::wall(ns, SECOND).to_string()[..10].to_owned()
}

/// The time of day: `11:58:39`, with milliseconds where they matter.
pub(super) fn time_of_day(ns: i64, with_milliseconds: bool) -> String {
    let text = Stamp::wall(ns, if with_milliseconds { MILLISECOND } else { SECOND }).to_string();
    text.get(11..).unwrap_or_default().trim_end_matches('Z').to_owned()
}

/// Day and time, to the second.
pub(super) fn moment(ns: i64) -> String {
    format!("{} {}", day(ns), time_of_day(ns, false))
}

/// `once`, `twice`, `64 times`.
pub(super) fn times(count: u64) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}
