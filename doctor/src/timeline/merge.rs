// SPDX-License-Identifier: Apache-2.0
//! All sources of one node on one clock and in one order.

use super::words::span;
use super::{Event, EventSource, History, Instance, Lane, NodeEvent, Trace, What, When};
use crate::log::{ClockStep, Drawn, LogEvent, LogMatch, LogSource};
use crate::stamp::{Clock, SECOND, Stamp};
use crate::symptoms::logs::ContainerLog;
use std::collections::BTreeSet;
use std::mem;
use std::path::Path;
use std::rc::Rc;

/// The kernel's log reaches us by two ways, and syslog's stamps may be a second late.
const SAME: i64 = 2 * SECOND;
/// Where a log does not say how long the kernel had run when its clock was set.
const EARLY: i64 = 3600 * SECOND;

/// The events, and where the wall clock was set.
pub(super) struct Merged {
    pub(super) events: Vec<Event>,
    pub(super) jumps: Vec<Jump>,
}

/// The wall clock was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Jump {
    /// Its time before that.
    pub(super) before: Stamp,
    /// Its time after that.
    pub(super) after: Stamp,
    since_boot_ns: Option<i64>,
    /// The log that shows it, and its first line after it.
    file: usize,
    line: u64,
}

/// A stamp, and by how much it was corrected.
type Corrected = (Stamp, i64);

/// Takes what was said out of the history: it may be long, and is not needed any more.
pub(super) fn merged(history: &mut History) -> Merged {
    let jumps = jumps(history);
    let mut by_file: Vec<Vec<LogMatch>> = Vec::new();
    by_file.resize_with(history.logs.files.len(), Vec::new);
    let all = mem::take(&mut history.logs.matches);
    for found in all.into_iter().filter(|found| found.event.rule().drawn != Drawn::Never) {
        if let Some(of) = by_file.get_mut(found.file) {
            of.push(found);
        }
    }
    let mut events = Vec::new();
    for (at, matches) in by_file.into_iter().enumerate() {
        events.extend(of_log(history, at, matches, &jumps));
    }
    events = once(events);
    events.extend(history.traces.iter().map(|trace| of_trace(trace, &jumps)));
    events.extend(jumps.iter().map(|jump| of_jump(history, jump)));
    // Stable: events of one log and one time keep their order.
    events.sort_by_key(|event| event.anchor_ns().unwrap_or(i64::MAX));
    Merged { events, jumps }
}

impl Jump {
    /// By how much the clock was set.
    pub(super) fn by(&self) -> i64 {
        self.after.ns.saturating_sub(self.before.ns)
    }

    /// In words.
    pub(super) fn text(&self) -> String {
        let direction = if self.by() < 0 { "back" } else { "forward" };
        format!("the clock is set {direction} by {}", span(self.by()))
    }

    fn of(step: &ClockStep, file: usize) -> Self {
        let ClockStep { before, after, since_boot, line } = *step;
        Self { before, after, since_boot_ns: since_boot.map(|since| since.ns), file, line }
    }

    fn is(&self, other: &Self) -> bool {
        let near = |one: i64, other: i64| one.abs_diff(other) < 5 * SECOND.unsigned_abs();
        near(self.by(), other.by()) && near(self.after.ns, other.after.ns)
    }

    /// A stamp that the clock showed before it was set.
    fn corrects(&self, ns: i64, file: Option<usize>, line: u64) -> bool {
        let begun = self.before.ns.saturating_sub(self.since_boot_ns.unwrap_or(EARLY));
        let is_before = (begun..=self.before.ns).contains(&ns);
        // A clock that goes back shows the same times twice: only the log itself knows which.
        is_before && (self.by() > 0 || file == Some(self.file) && line < self.line)
    }
}

/// Each jump once; what shows both clocks is more exact.
fn jumps(history: &History) -> Vec<Jump> {
    let files = history.logs.files.iter().enumerate();
    let steps = files.flat_map(|(index, file)| file.steps.iter().map(move |step| Jump::of(step, index)));
    let mut all: Vec<Jump> = steps.chain(stepped(history)).collect();
    all.sort_by_key(|jump| (jump.since_boot_ns.is_none(), jump.after.ns));
    let mut jumps: Vec<Jump> = Vec::new();
    for jump in all {
        // A clock that goes back is found in every log by itself, and each knows its own lines.
        let is_known =
            jumps.iter().any(|known| known.is(&jump) && (jump.by() > 0 || known.file == jump.file));
        if !is_known {
            jumps.push(jump);
        }
    }
    jumps
}

/// chronyd's own word: it is written once the clock is set.
fn stepped(history: &History) -> Vec<Jump> {
    let steps = history.logs.of(LogEvent::ClockStepped);
    let jump = |found: &LogMatch| {
        let after = found.at.filter(|at| at.clock == Clock::Wall)?;
        let by = nanoseconds(found.fields.get("seconds")?)?;
        let before = Stamp::wall(after.ns.checked_sub(by)?, after.precision_ns);
        Some(Jump { before, after, since_boot_ns: None, file: found.file, line: found.line })
    };
    steps.filter_map(jump).collect()
}

/// `-3.217154` as chronyd prints it, to the microsecond.
fn nanoseconds(seconds: &str) -> Option<i64> {
    let (is_back, digits) = seconds.strip_prefix('-').map_or((false, seconds), |digits| (true, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.starts_with(['-', '+']) {
        return None;
    }
    let fraction = format!("{fraction:0<9}");
    let ns = whole.parse::<i64>().ok()?.checked_mul(SECOND)?;
    let ns = ns.checked_add(fraction.get(..9)?.parse().ok()?)?;
    Some(if is_back { -ns } else { ns })
}

/// On the clock as it is after the last time that it was set.
fn corrected(stamp: Stamp, jumps: &[Jump], file: Option<usize>, line: u64) -> Corrected {
    let by = jumps.iter().filter(|jump| jump.corrects(stamp.ns, file, line)).map(Jump::by).sum();
    (Stamp { ns: stamp.ns.saturating_add(by), ..stamp }, by)
}

fn of_log(history: &History, file: usize, mut matches: Vec<LogMatch>, jumps: &[Jump]) -> Vec<Event> {
    matches.sort_by_key(|found| found.line);
    let wall = |found: &LogMatch, at: Option<Stamp>| {
        let at = at?;
        let stamp = at.on_wall(history.logs.booted)?;
        // The kernel's own clock is never set.
        let jumps = if at.clock == Clock::Boot { &[] } else { jumps };
        Some(corrected(stamp, jumps, Some(file), found.line))
    };
    let stamps: Vec<_> = matches.iter().map(|found| wall(found, found.at)).collect();
    let next = |from: usize| stamps[from..].iter().flatten().next().map(|(stamp, _)| *stamp);
    let log = &history.logs.files[file];
    let (path, instance): (Rc<Path>, _) =
        (log.path.as_path().into(), log.container.as_ref().map(|log| Rc::new(instance(log))));
    let mut last = None;
    let mut events = Vec::with_capacity(matches.len());
    for (at, found) in matches.into_iter().enumerate() {
        let (when, corrected_ns) = match stamps[at] {
            Some((stamp, by)) => (When::At(stamp), by),
            None => (When::Between { after: last, before: next(at) }, 0),
        };
        last = stamps[at].map(|(stamp, _)| stamp).or(last);
        // A jump is a separate event.
        if found.source == LogSource::Clock {
            continue;
        }
        events.push(Event {
            when,
            until: wall(&found, found.until).map(|(until, _)| until).filter(|_| found.count > 1),
            count: found.count,
            lane: found.source.lane(),
            who: found.source.name(),
            what: What::Logged(found.event),
            text: text_of(&found),
            module: found.fields.get("module").map(|module| module.replace('-', "_")),
            instance: instance.clone(),
            source: EventSource { path: Rc::clone(&path), line: Some(found.line + 1) },
            corrected_ns,
        });
    }
    events
}

/// The gate's log has keys behind its sentences.
fn text_of(found: &LogMatch) -> String {
    const KEYS: [&str; 3] = [" condition=", " cause=", " elapsed_s="];
    let mut text = found.event.text(&found.fields);
    if found.source == LogSource::Gate {
        let end = KEYS.iter().filter_map(|key| text.find(key)).min();
        text.truncate(end.unwrap_or(text.len()));
    }
    text
}

fn instance(log: &ContainerLog) -> Instance {
    let ContainerLog { pod, uid, container, restart, .. } = log;
    let of = if uid.is_empty() { pod } else { uid };
    Instance { pod: of.clone(), name: pod.clone(), container: container.clone(), restart: *restart }
}

fn of_trace(trace: &Trace, jumps: &[Jump]) -> Event {
    let Trace { node_event, at, it, path } = trace;
    // The kernel counts a process's start from its own.
    let jumps =
        if matches!(node_event, NodeEvent::MofedProcess | NodeEvent::GpuProcess) { &[] } else { jumps };
    let (stamp, corrected_ns) = corrected(*at, jumps, None, 0);
    Event {
        when: When::At(stamp),
        until: None,
        count: 1,
        lane: node_event.lane(),
        who: node_event.who(),
        what: What::Seen(*node_event),
        text: node_event.phrase().replace("<it>", it),
        module: None,
        instance: None,
        source: EventSource { path: path.as_path().into(), line: None },
        corrected_ns,
    }
}

fn of_jump(history: &History, jump: &Jump) -> Event {
    let path = history.logs.files.get(jump.file).map_or(Path::new(""), |file| &file.path).into();
    Event {
        when: When::At(jump.after),
        until: None,
        count: 1,
        lane: Lane::Kernel,
        who: LogSource::Clock.name(),
        what: What::ClockSet,
        text: jump.text(),
        module: None,
        instance: None,
        source: EventSource { path, line: Some(jump.line + 1) },
        corrected_ns: 0,
    }
}

/// If two sources have the same line at one moment, it is one event: the ring and syslog's file, a pod's log and a
/// copy of it. If one source has it twice, it is two events.
fn once(events: Vec<Event>) -> Vec<Event> {
    let mut kept: Vec<Event> = Vec::with_capacity(events.len());
    // What was said, when, and where it is kept.
    let mut known: BTreeSet<(What, i64, usize)> = BTreeSet::new();
    for event in events {
        let Some(ns) = event.ns() else {
            kept.push(event);
            continue;
        };
        let near =
            (event.what, ns.saturating_sub(SAME), 0)..=(event.what, ns.saturating_add(SAME), usize::MAX);
        let copied = known.range(near).map(|(.., at)| *at).find(|at| is_copy(&event, &kept[*at]));
        match copied {
            Some(at) if precision(&event) < precision(&kept[at]) => kept[at] = event,
            Some(_) => {}
            None => {
                known.insert((event.what, ns, kept.len()));
                kept.push(event);
            }
        }
    }
    kept
}

fn is_copy(event: &Event, other: &Event) -> bool {
    let (Some(one), Some(two)) = (event.stamp(), other.stamp()) else { return false };
    let near = match event.lane {
        Lane::Kernel => SAME,
        Lane::Mofed | Lane::Gpu => one.precision_ns.max(two.precision_ns) - 1,
    };
    let containers = event.instance.as_ref().zip(other.instance.as_ref());
    let is_same_container = containers.is_none_or(|(one, two)| {
        one.container == two.container && (one.name == two.name || one.name.is_empty() || two.name.is_empty())
    });
    event.source.path != other.source.path
        && event.text == other.text
        && is_same_container
        && one.ns.abs_diff(two.ns) <= near.unsigned_abs()
}

fn precision(event: &Event) -> i64 {
    event.stamp().map_or(i64::MAX, |stamp| stamp.precision_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seconds_of_a_step_that_chronyd_logs_are_read() {
        assert_eq!(nanoseconds("-3.217154"), Some(-3_217_154_000));
        assert_eq!(nanoseconds("3600.5"), Some(3_600_500_000_000));
        assert_eq!(nanoseconds("7"), Some(7 * SECOND));
        for odd in ["", "x", "1.x", "--1", "99999999999999999999"] {
            assert_eq!(nanoseconds(odd), None, "{odd:?}");
        }
    }
}
