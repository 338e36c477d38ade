// SPDX-License-Identifier: Apache-2.0
//! Two clocks in one log: the kernel's own, which starts at 0 and is never set, and the wall clock beside it.
//!
//! A line with both clocks says how far the wall clock is ahead. That distance grows for a moment where lines are
//! written down late (at boot all of them are), and for good where the clock is set.

use super::ClockStep;
use crate::stamp::{Clock, MILLISECOND, SECOND, Stamp};

/// Stamps without a fraction of a second may be off by one, and the next by none.
const TOLERANCE: i64 = 2 * SECOND;
/// Processors print side by side: the kernel's stamps are not quite in order.
const DISORDER: i64 = SECOND;
/// A clock that is set more often is itself a fault.
const FRAMES: usize = 16;

/// The clocks of one run of the kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct Boot {
    frames: Vec<Frame>,
    /// The last line's clocks: the kernel's, the wall's.
    last: Option<(i64, i64)>,
}

/// A time in which the wall clock was not set.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// Its first line, and when that was.
    line: u64,
    since_boot: Stamp,
    precision_ns: i64,
    /// How far the wall clock is ahead: the least that was seen, for lines are written down late and never early.
    ahead: i64,
    /// The time began with a wall clock that went back: no delay looks like that.
    is_sure: bool,
}

impl Boot {
    /// The kernel has started again.
    pub(super) fn is_over(&self, since_boot: Stamp) -> bool {
        self.last.is_some_and(|(last, _)| since_boot.ns < last - DISORDER)
    }

    /// A line with both clocks.
    pub(super) fn line(&mut self, line: u64, wall: Stamp, since_boot: Stamp) {
        let ahead = wall.ns.saturating_sub(since_boot.ns);
        let is_back = self.last.is_some_and(|(_, last)| wall.ns < last - TOLERANCE);
        while !is_back && self.was_delay(ahead) {
            self.frames.pop();
        }
        let is_set = |frame: &Frame| is_back || ahead > frame.ahead.saturating_add(TOLERANCE);
        let is_full = self.frames.len() == FRAMES;
        match self.frames.last_mut() {
            Some(frame) if !is_set(frame) => frame.ahead = frame.ahead.min(ahead),
            _ if is_full => {}
            _ => {
                let precision_ns = wall.precision_ns.max(MILLISECOND);
                self.frames.push(Frame { line, since_boot, precision_ns, ahead, is_sure: is_back });
            }
        }
        self.last = Some((since_boot.ns, wall.ns));
    }

    /// The distance is back to what it was: the lines between were late.
    fn was_delay(&self, ahead: i64) -> bool {
        let [.., before, last] = self.frames.as_slice() else { return false };
        !last.is_sure && ahead <= before.ahead.saturating_add(TOLERANCE)
    }

    /// When the kernel started, by the wall clock as it was last.
    pub(super) fn started(&self) -> Option<Stamp> {
        self.frames.last().map(|frame| Stamp::wall(frame.ahead, frame.precision_ns))
    }

    /// The wall clock's time at a line of this run.
    pub(super) fn wall(&self, line: u64, at: Stamp) -> Option<Stamp> {
        let frame = self.frames.iter().rev().find(|frame| frame.line <= line).or(self.frames.first())?;
        let wall = || Stamp::wall(frame.ahead.saturating_add(at.ns), frame.precision_ns.max(at.precision_ns));
        (at.clock == Clock::Boot).then(wall)
    }

    /// Where the wall clock was set.
    pub(super) fn steps(&self) -> impl Iterator<Item = ClockStep> {
        self.frames.windows(2).map(|frames| {
            let [before, after] = [frames[0], frames[1]];
            let wall =
                |ahead: i64| Stamp::wall(ahead.saturating_add(after.since_boot.ns), after.precision_ns);
            ClockStep {
                before: wall(before.ahead),
                after: wall(after.ahead),
                since_boot: Some(after.since_boot),
                line: after.line,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lines as (kernel's clock, wall clock) in seconds; the steps come back as (line, by how much).
    fn steps(lines: &[(i64, i64)]) -> Vec<(u64, i64)> {
        let boot = boot(lines);
        boot.steps().map(|step| (step.line, (step.after.ns - step.before.ns) / SECOND)).collect()
    }

    fn boot(lines: &[(i64, i64)]) -> Boot {
        let mut boot = Boot::default();
        for (line, (since_boot, wall)) in lines.iter().enumerate() {
            let wall = Stamp::wall(wall * SECOND, SECOND);
            boot.line(line as u64, wall, Stamp::boot(since_boot * SECOND, 1000));
        }
        boot
    }

    #[test]
    fn a_step_of_the_wall_clock_is_found() {
        assert_eq!(steps(&[(1, 101), (2, 102), (9, 109)]), []);
        assert_eq!(steps(&[(1, 101), (5, 3705), (9, 3709)]), [(1, 3600)]);
        assert_eq!(steps(&[(1, 3701), (5, 105), (9, 109)]), [(1, -3600)]);
        assert_eq!(steps(&[(1, 101), (5, 3705), (9, 109)]), [(1, 3600), (2, -3600)]);
    }

    #[test]
    fn lines_that_are_written_late_are_not_a_step_of_the_clock() {
        // syslog starts 20 s after the kernel and writes down all that was said before.
        let at_boot = [(0, 120), (4, 120), (11, 120), (19, 120), (21, 121), (22, 122)];
        assert_eq!(steps(&at_boot), []);
        assert_eq!(boot(&at_boot).started().map(|at| at.ns / SECOND), Some(100));
        // It hangs for a while.
        assert_eq!(steps(&[(1, 101), (5, 125), (10, 125), (25, 125), (26, 126)]), []);
    }

    #[test]
    fn a_kernel_line_gets_the_time_that_the_wall_clock_showed() {
        let boot = boot(&[(1, 101), (5, 3705)]);
        let shown =
            |line, seconds| boot.wall(line, Stamp::boot(seconds * SECOND, 1000)).map(|at| at.ns / SECOND);
        assert_eq!((shown(0, 1), shown(1, 5), shown(9, 6)), (Some(101), Some(3705), Some(3706)));
        assert_eq!(Boot::default().wall(0, Stamp::boot(1, 1)), None);
    }

    proptest! {
        #[test]
        fn random_clocks_cause_no_panic(lines in proptest::collection::vec((any::<i64>(), any::<i64>()), 0..60)) {
            let mut boot = Boot::default();
            for (line, (since_boot, wall)) in lines.into_iter().enumerate() {
                boot.line(line as u64, Stamp::wall(wall, 1), Stamp::boot(since_boot, 1));
                let _ = (boot.started(), boot.is_over(Stamp::boot(since_boot, 1)), boot.steps().count());
            }
        }
    }
}
