// SPDX-License-Identifier: Apache-2.0
//! Dates and times of day in UTC, for every `i64` of nanoseconds.

use super::SECOND;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// A date and a time of day in UTC, as a log prints it.
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
        let part = |number: i64| i8::try_from(number).ok();
        let leap = i64::from(second == 60);
        let time = DateTime::new(
            i16::try_from(year).ok()?,
            part(month)?,
            part(day)?,
            part(hour)?,
            part(minute)?,
            part(second - leap)?,
            0,
        );
        let seconds = Offset::UTC.to_timestamp(time.ok()?).ok()?.as_second() + leap;
        (1970..2262).contains(&year).then_some(seconds)
    }
}

/// The year of a count of nanoseconds since 1970.
pub(super) fn year(ns: i64) -> i64 {
    i64::from(Offset::UTC.to_datetime(timestamp(ns)).year())
}

/// `2025-11-21T11:58:39.123Z`, with this many digits of a second.
pub(super) fn rfc3339(ns: i64, digits: usize) -> String {
    // Cut, not rounded: a moment lies behind what is printed.
    let step = SECOND / 10_i64.pow(u32::try_from(digits).unwrap_or(9).min(9));
    let cut = timestamp(ns.saturating_sub(ns.rem_euclid(step)));
    format!("{cut:.digits$}")
}

fn timestamp(ns: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(ns)).expect("every i64 of nanoseconds is a year from 1677 to 2262")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_printed_date_is_read_back_as_the_same_moment(seconds in 0..9_000_000_000_i64) {
            let text = rfc3339(seconds * SECOND, 0);
            prop_assert_eq!(super::super::rfc3339(text.as_bytes()).unwrap().0.ns, seconds * SECOND);
        }
    }

    #[test]
    fn a_date_that_does_not_exist_is_rejected() {
        let civil = |month, day| Civil { year: 2025, month, day, hour: 0, minute: 0, second: 0 };
        assert_eq!(civil(2, 29).unix(), None);
        assert_eq!(civil(4, 31).unix(), None);
        assert_eq!(civil(0, 1).unix(), None);
        assert_eq!(civil(12, 31).unix(), Some(1_767_139_200));
        let leap = Civil { year: 2016, month: 12, day: 31, hour: 23, minute: 59, second: 60 };
        assert_eq!(leap.unix(), Some(1_483_228_800));
    }

    #[test]
    fn every_moment_can_be_printed() {
        assert_eq!(rfc3339(-1, 3), "1969-12-31T23:59:59.999Z");
        assert_eq!(rfc3339(1_763_725_901_123_456_789, 6), "2025-11-21T11:51:41.123456Z");
        let _ = (rfc3339(i64::MIN, 0), rfc3339(i64::MAX, 9), year(i64::MIN), year(i64::MAX));
    }
}
