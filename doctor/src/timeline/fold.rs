// SPDX-License-Identifier: Apache-2.0
//! From events to the rows of a picture: restarts that end alike are one row, and so is what the kernel repeats.

use super::event::EventTone;
use super::{Event, Gap, GapKind, Lane, NodeEvent, What};
use crate::log::Drawn;
use crate::stamp::SECOND;
use std::collections::{BTreeMap, BTreeSet};

/// A pause that is longer is named.
const PAUSE: i64 = 5 * 60 * SECOND;
/// One step in two sentences.
const NEAR: i64 = 10 * SECOND;

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The event that it shows, or the first of them.
    pub(super) event: usize,
    /// How often it happened, all in all.
    pub(super) count: u64,
    /// When it happened last, in nanoseconds since 1970; `None` where it happened once.
    pub(super) until_ns: Option<i64>,
    /// Restarts that it replaces.
    pub(super) restarts: Option<Restarts>,
    /// How long nothing happened before it, where that is long.
    pub(super) pause_ns: Option<i64>,
    /// A build ends here, and nvidia-peermem.ko is a stub.
    pub(super) is_stub: bool,
}

/// Restarts of a container that all went the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Restarts {
    pub(super) container: String,
    /// The restart that is shown in full.
    pub(super) like: u32,
    /// The last of them.
    pub(super) last: u32,
    /// How many logs of them were read.
    pub(super) logs: usize,
}

impl Restarts {
    /// How many there were: those whose logs are gone lie between.
    pub(super) fn times(&self) -> u32 {
        self.last - self.like
    }
}

/// All rows, in the order of the events.
pub(super) fn rows(events: &[Event]) -> Vec<Row> {
    let (mut rows, hidden) = restarts(events);
    let single = |(event, e): (usize, &Event)| Row {
        event,
        count: e.count,
        until_ns: e.until.map(|until| until.ns),
        restarts: None,
        pause_ns: None,
        is_stub: false,
    };
    let shown = events.iter().enumerate().filter(|(at, _)| !hidden.contains(at));
    rows.extend(shown.map(single));
    rows.sort_by_key(|row| row.event);
    let mut rows = repeated(rows, events);
    pauses(&mut rows, events);
    rows
}

/// Marks the row in which the stub came to be.
pub(super) fn name_stub(rows: &mut [Row], events: &[Event], gaps: &[Gap]) {
    let is_written = |row: &Row| events[row.event].what == What::Seen(NodeEvent::StubWritten);
    let ends: Vec<_> =
        gaps.iter().filter(|gap| gap.kind == GapKind::BuiltBeforeMarker).map(|gap| gap.from_ns).collect();
    let is_built = |row: &Row| {
        let event = &events[row.event];
        event.lane == Lane::Gpu && ends.iter().any(|end| event.ns() == Some(*end))
    };
    let stub = rows.iter().rposition(is_written).or_else(|| rows.iter().position(is_built));
    if let Some(row) = stub.and_then(|at| rows.get_mut(at)) {
        row.is_stub = true;
    }
}

/// Only what decides stays: failures, restarts, and the steps by which a race is known.
pub(super) fn keep_decisive(rows: &mut Vec<Row>, events: &[Event]) {
    rows.retain(|row| row.is_stub || row.restarts.is_some() || is_decisive(events[row.event].what));
    pauses(rows, events);
}

fn is_decisive(what: What) -> bool {
    use NodeEvent::{DriverBuildBegun, DriverBuilt, MarkerWritten, MofedProcess, PeermemWritten};
    what.tone() != EventTone::Plain
        || match what {
            What::Logged(event) => event.rule().drawn == Drawn::Step,
            What::Seen(seen) => {
                matches!(seen, MarkerWritten | MofedProcess | DriverBuildBegun | DriverBuilt | PeermemWritten)
            }
            What::ClockSet => true,
        }
}

/// A row for each run of restarts that are like the one before, and the events that it hides.
fn restarts(events: &[Event]) -> (Vec<Row>, BTreeSet<usize>) {
    let mut containers: BTreeMap<(&str, &str), BTreeMap<u32, Vec<usize>>> = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        if let Some(instance) = &event.instance {
            let restarts = containers.entry((&instance.pod, &instance.container)).or_default();
            restarts.entry(instance.restart).or_default().push(at);
        }
    }
    let (mut rows, mut hidden) = (Vec::new(), BTreeSet::new());
    for ((_, container), restarts) in containers {
        let all: Vec<_> = restarts.into_iter().collect();
        let is_alike = |one: &(u32, Vec<usize>), other: &(u32, Vec<usize>)| {
            // How long one waited makes no difference.
            let steps = |at: &&usize| !events[**at].what.is_polled();
            let words = |at: &usize| (events[*at].what, events[*at].text.as_str());
            one.1.iter().filter(steps).map(words).eq(other.1.iter().filter(steps).map(words))
        };
        for run in all.chunk_by(is_alike).filter(|run| run.len() > 1) {
            let (like, last) = (run[0].0, run[run.len() - 1].0);
            let folded: Vec<usize> = run[1..].iter().flat_map(|(_, events)| events.iter().copied()).collect();
            let times = folded.iter().filter_map(|at| events[*at].end_ns());
            rows.push(Row {
                event: outcome(&run[1].1, events),
                count: 1,
                until_ns: times.max(),
                restarts: Some(Restarts { container: container.to_owned(), like, last, logs: run.len() - 1 }),
                pause_ns: None,
                is_stub: false,
            });
            hidden.extend(folded);
        }
    }
    (rows, hidden)
}

/// The event that is shown for a restart: the last that went wrong, or else the last.
fn outcome(restart: &[usize], events: &[Event]) -> usize {
    let wrong = restart.iter().rev().find(|at| events[**at].tone() == EventTone::Bad);
    wrong.or(restart.last()).copied().unwrap_or_default()
}

/// One program says the same in several sentences, and the kernel at each restart: once is enough, until something
/// else happens on either side.
fn repeated(rows: Vec<Row>, events: &[Event]) -> Vec<Row> {
    let mut kept: Vec<Row> = Vec::with_capacity(rows.len());
    let mut since_a_step: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        let event = &events[row.event];
        if let Some(last) =
            kept.last_mut().filter(|last| row.restarts.is_none() && is_same(last, event, events))
        {
            // One step in two sentences, or the same step again.
            let is_near = last_time(last, &events[last.event]).zip(event.ns());
            if is_near.is_some_and(|(last, at)| at.saturating_sub(last) < NEAR) {
                last.count = last.count.max(row.count);
            } else {
                last.count += row.count;
                last.until_ns = event.end_ns().or(last.until_ns);
            }
            continue;
        }
        if event.lane != Lane::Kernel {
            // A run of restarts is no step.
            if row.restarts.is_none() {
                since_a_step.clear();
            }
            kept.push(row);
            continue;
        }
        if let Some(at) = since_a_step.get(event.text.as_str()) {
            kept[*at].count += row.count;
            kept[*at].until_ns = event.end_ns().or(kept[*at].until_ns);
        } else {
            since_a_step.insert(&event.text, kept.len());
            kept.push(row);
        }
    }
    kept
}

fn last_time(row: &Row, event: &Event) -> Option<i64> {
    row.until_ns.or_else(|| event.ns())
}

/// The same words of the same pod, and nothing else between them.
fn is_same(last: &Row, event: &Event, events: &[Event]) -> bool {
    let pod =
        |event: &Event| event.instance.as_ref().map(|instance| (instance.pod.clone(), instance.restart));
    let before = &events[last.event];
    let pause = last_time(last, before).zip(event.ns()).map(|(one, two)| two.saturating_sub(one));
    last.restarts.is_none()
        && event.instance.is_some()
        && pod(before) == pod(event)
        && before.text == event.text
        && pause.is_some_and(|pause| pause < PAUSE)
}

fn pauses(rows: &mut [Row], events: &[Event]) {
    let mut last: Option<i64> = None;
    for row in rows {
        let at = events[row.event].anchor_ns();
        row.pause_ns = last.zip(at).map(|(last, at)| at.saturating_sub(last)).filter(|pause| *pause >= PAUSE);
        last = at.into_iter().chain(row.until_ns).chain(last).max();
    }
}
