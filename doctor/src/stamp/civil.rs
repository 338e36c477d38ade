// SPDX-License-Identifier: Apache-2.0
//! Days and dates in the Gregorian calendar, for every `i64` of nanoseconds.

use super::SECOND;

const DAY: i64 = 86_400;

/// A date and a time of day in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Civil {
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
}

impl Civil {
    /// Seconds since 1970; `None` where a part is out of its range. A leap second counts as the next second.
    pub(super) fn unix(self) -> Option<i64> {
        let Self { year, month, day, hour, minute, second } = self;
        let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
        let is_date = (1970..2262).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
        if !is_time || !is_date || day > days_in(year, month) {
            return None;
        }
        Some(days(year, month, day) * DAY + hour * 3600 + minute * 60 + second)
    }

    /// The date and time of a count of seconds since 1970.
    pub(super) fn of_unix(seconds: i64) -> Self {
        let (day_number, of_day) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        let (year, month, day) = date(day_number);
        Self { year, month, day, hour: of_day / 3600, minute: of_day / 60 % 60, second: of_day % 60 }
    }
}

fn days_in(year: i64, month: i64) -> i64 {
    let (next_year, next) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days(next_year, next, 1) - days(year, month, 1)
}

/// Days since 1970-01-01. Years are counted from March, so the leap day is a year's last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a number of days since 1970-01-01.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// `2025-11-21T11:58:39.123Z`, with this many digits of a second.
pub(super) fn rfc3339(ns: i64, digits: usize) -> String {
    let Civil { year, month, day, hour, minute, second } = Civil::of_unix(ns.div_euclid(SECOND));
    let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if digits > 0 {
        text += &format!(".{:09}", ns.rem_euclid(SECOND))[..=digits];
    }
    text.push('Z');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, UNIX_EPOCH};

    proptest! {
        #[test]
        fn dates_are_those_of_a_crate_that_knows_them(ns in 0..i64::MAX) {
            let time = UNIX_EPOCH + Duration::from_nanos(ns.unsigned_abs());
            prop_assert_eq!(rfc3339(ns, 9), humantime::format_rfc3339_nanos(time).to_string());
            let seconds = ns / SECOND;
            let civil = Civil::of_unix(seconds);
            prop_assert_eq!(civil.unix(), (civil.year < 2262).then_some(seconds));
        }
    }

    #[test]
    fn a_date_that_does_not_exist_is_none() {
        let civil = |month, day| Civil { year: 2025, month, day, hour: 0, minute: 0, second: 0 };
        assert_eq!(civil(2, 29).unix(), None);
        assert_eq!(civil(4, 31).unix(), None);
        assert_eq!(civil(0, 1).unix(), None);
        assert!(civil(12, 31).unix().is_some());
        assert_eq!(rfc3339(-1, 3), "1969-12-31T23:59:59.999Z");
    }
}
