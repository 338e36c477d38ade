// SPDX-License-Identifier: Apache-2.0
//! Lengths of time, times of day, and what one must know to trust a timeline.

use super::merge::Jump;
use super::{Event, History, Story};
use crate::stamp::{MILLISECOND, SECOND, Stamp};
use std::collections::BTreeMap;

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

/// `1 line`, `2 lines`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// What a jump of the clock is, in words.
pub(super) fn jump(jump: &Jump) -> String {
    let direction = if jump.by() < 0 { "back" } else { "forward" };
    format!("the clock is set {direction} by {}", span(jump.by()))
}

/// What was corrected, left out or not read.
pub(super) fn notes(history: &History, jumps: &[Jump], earlier: &[Event]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for jump in jumps {
        let to = moment(jump.after.ns);
        notes.push(format!("{} at {to}: earlier times are corrected by that much", self::jump(jump)));
    }
    if let Some(last) = earlier.iter().filter_map(Event::end_ns).max() {
        let left_out = counted(earlier.len() as u64, "earlier event");
        notes.push(format!("{left_out}, up to {}, left out: --since shows them", moment(last)));
    }
    for unreadable in &history.logs.unreadable {
        notes.push(format!("cannot read {unreadable}"));
    }
    let left_out = &history.logs.left_out;
    let amounts = [
        (left_out.pods, "pod"),
        (left_out.files, "log"),
        (left_out.bytes, "byte"),
        (left_out.said, "sentence"),
        (left_out.unreadable, "more source that cannot be read"),
    ];
    let named = amounts.iter().filter(|(count, _)| *count > 0).map(|(count, noun)| counted(*count, noun));
    let named: Vec<_> = named.collect();
    if !named.is_empty() {
        notes.push(format!("too much to read, left out: {}", named.join(", ")));
    }
    notes
}

/// Containers whose first logs are gone: what they did then is not known.
pub(super) fn lost_logs(history: &History, story: &Story) -> Vec<String> {
    let mut first: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for log in history.logs.files.iter().filter_map(|file| file.container.as_ref()) {
        let least = first.entry((&log.pod, &log.container)).or_insert(log.restart);
        *least = (*least).min(log.restart);
    }
    let lost = first.into_iter().filter(|(_, restart)| *restart > 0);
    let sentence = |((_, container), restart): ((&str, &str), u32)| {
        let builds = container == "nvidia-driver-ctr" && story.builds.is_empty();
        let what = if builds { "; when it built the driver is not known" } else { "" };
        let logs = if restart == 1 { "log".to_owned() } else { format!("{restart} logs") };
        format!("the first {logs} of {container} {} gone{what}", if restart == 1 { "is" } else { "are" })
    };
    lost.map(sentence).collect()
}

/// Lines of at most so many characters, broken at blanks where there are any.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        for c in word.chars() {
            if used == width {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(c);
            used += 1;
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_two_units() {
        for (ns, text) in [
            (0, "0 ms"),
            (350 * MILLISECOND, "350 ms"),
            (2 * SECOND + 400 * MILLISECOND, "2.4 s"),
            (9 * SECOND, "9 s"),
            (217 * SECOND, "3 m 37 s"),
            (720 * SECOND, "12 m"),
            (3600 * SECOND + 5 * SECOND, "1 h"),
            (2 * 86_400 * SECOND + 3600 * SECOND, "2 d 1 h"),
            (-112 * SECOND, "1 m 52 s"),
        ] {
            assert_eq!(span(ns), text);
        }
        let _ =
            (span(i64::MIN), span(i64::MAX), moment(i64::MIN), moment(i64::MAX), time_of_day(i64::MAX, true));
    }

    #[test]
    fn times_of_day_are_as_exact_as_asked() {
        let ns = 1_763_725_901 * SECOND + 123_456_789;
        assert_eq!(
            (time_of_day(ns, false).as_str(), time_of_day(ns, true).as_str()),
            ("11:51:41", "11:51:41.123")
        );
        assert_eq!(moment(ns), "2025-11-21 11:51:41");
    }

    #[test]
    fn lines_break_at_blanks_and_never_exceed() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one", 7), ["one"]);
        assert_eq!(wrapped("abcdefghij k", 4), ["abcd", "efgh", "ij k"]);
        assert_eq!(wrapped("", 4), [""]);
        assert_eq!(wrapped("ab", 0), ["a", "b"]);
    }
}
