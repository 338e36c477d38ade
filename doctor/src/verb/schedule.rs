// SPDX-License-Identifier: Apache-2.0
//! When reports that repeat come.

use peermem_gate::ready::time::BootTime;
use std::time::Duration;

/// One report in each interval. The second one comes after a part of it: a fleet's pods start together, and their
/// later reports must not.
#[derive(Debug)]
pub(super) struct ReportSchedule {
    every: Duration,
    due: BootTime,
}

impl ReportSchedule {
    /// The second report comes after this share of 2^32 of the interval.
    pub(super) fn new(start: BootTime, every: Duration, share: u32) -> Self {
        let part = every.as_secs_f64() * f64::from(share) / 2_f64.powi(32);
        Self { every, due: start + Duration::from_secs_f64(part) }
    }

    /// When the next report comes. What was missed, as by a suspended node, is not made up for.
    pub(super) fn next(&mut self, now: BootTime) -> BootTime {
        if self.due <= now {
            let missed = now.saturating_sub(self.due).as_nanos() / self.every.as_nanos() + 1;
            self.due += self.every * u32::try_from(missed).unwrap_or(u32::MAX);
        }
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(300);
    const START: BootTime = Duration::from_secs(1000);

    fn seconds(seconds: u64) -> BootTime {
        START + Duration::from_secs(seconds)
    }

    #[test]
    fn the_second_report_comes_after_a_part_of_the_interval_and_the_others_after_all_of_it() {
        let mut schedule = ReportSchedule::new(START, EVERY, 1 << 30);
        assert_eq!(schedule.next(seconds(1)), seconds(75));
        assert_eq!(schedule.next(seconds(76)), seconds(375));
        assert_eq!(schedule.next(seconds(375)), seconds(675));
    }

    #[test]
    fn no_report_is_later_than_the_interval_whatever_the_share_is() {
        for share in [0, 1, u32::MAX] {
            let due = ReportSchedule::new(START, EVERY, share).next(START);
            assert!(START < due && due <= seconds(300), "{share}: {due:?}");
        }
    }

    #[test]
    fn missed_reports_are_not_made_up_for() {
        let mut schedule = ReportSchedule::new(START, EVERY, 0);
        assert_eq!(schedule.next(seconds(100_000)), seconds(100_200));
    }
}
