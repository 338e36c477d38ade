// SPDX-License-Identifier: Apache-2.0
//! The timeline in a terminal: two lanes, and the kernel across both.

use super::fold::Row;
use super::words::{day, span, time_of_day};
use super::{Event, Lane, NodeEvent, Timeline, What, When};
use crate::stamp::{MILLISECOND, SECOND};
use crate::text::{counted, wrapped};
use peermem_gate::text::escaped;
use std::collections::BTreeMap;

/// No line is longer, however wide the terminal is.
pub const WIDEST: usize = 100;
/// Two lanes need as much.
pub const NARROWEST: usize = 60;
/// Milliseconds matter where all happened within this.
const SHORT: i64 = 120 * SECOND;
const BETWEEN: usize = 2;

/// The columns of the parts of a line.
struct Columns {
    time: usize,
    lane: usize,
    all: usize,
    with_milliseconds: bool,
}

impl Timeline {
    /// At most so many columns wide.
    pub fn text(&self, columns: usize) -> String {
        let all = columns.clamp(NARROWEST, WIDEST);
        let with_milliseconds = self.with_milliseconds();
        let time = if with_milliseconds { 12 } else { 8 };
        let columns = Columns { time, lane: (all - time - 2 * BETWEEN) / 2, all, with_milliseconds };
        let mut lines = wrapped(&escaped(&self.verdict.text), all);
        lines.push(String::new());
        lines.extend(wrapped(&self.title(), all));
        if !self.rows.is_empty() {
            lines.push(String::new());
            lines.push(columns.line("time", "MOFED", "GPU driver"));
            self.body(&columns, &mut lines);
        }
        self.findings(&columns, &mut lines);
        lines.iter().fold(String::new(), |text, line| text + line.trim_end() + "\n")
    }

    /// Whose timeline it is, and of which time.
    pub(super) fn title(&self) -> String {
        let node = self.node.as_deref().map_or("timeline".into(), escaped);
        match self.span() {
            Some((from, to)) => {
                let until =
                    if day(from) == day(to) { time_of_day(to, false) } else { super::words::moment(to) };
                format!("{node}: {} to {until} UTC, not to scale", super::words::moment(from))
            }
            None => format!("{node}: no known event has a time"),
        }
    }

    pub(super) fn span(&self) -> Option<(i64, i64)> {
        let from = self.events.iter().filter_map(Event::anchor_ns).min()?;
        Some((from, self.events.iter().filter_map(Event::end_ns).max()?))
    }

    pub(super) fn with_milliseconds(&self) -> bool {
        let is_exact = |event: &Event| event.stamp().is_some_and(|stamp| stamp.precision_ns <= MILLISECOND);
        let is_short = self.span().is_some_and(|(from, to)| to.saturating_sub(from) < SHORT);
        is_short && self.events.iter().any(is_exact)
    }

    fn body(&self, columns: &Columns, lines: &mut Vec<String>) {
        let pods = several_pods(&self.events);
        let mut today = self.span().map(|(from, _)| day(from));
        for row in &self.rows {
            let event = &self.events[row.event];
            if let Some(pause) = row.pause_ns {
                lines.push(format!("{:>width$}  {}", "⋮", span(pause), width = columns.time));
            }
            let date = event.anchor_ns().map(day);
            if date.is_some() && date != today {
                lines.push(format!("── {} ", date.clone().unwrap_or_default()));
                today = date;
            }
            let time = event.ns().map_or(String::new(), |ns| time_of_day(ns, columns.with_milliseconds));
            let text = row.text(event, &pods, columns.with_milliseconds);
            columns.row(&time, event.lane, &text, lines);
        }
    }

    /// Gaps and notes.
    fn findings(&self, columns: &Columns, lines: &mut Vec<String>) {
        lines.push(String::new());
        for gap in &self.gaps {
            let times = gap.times(columns.with_milliseconds);
            hanging("- ", &format!("{} ({times})", escaped(&gap.text)), columns.all, lines);
        }
        for note in &self.notes {
            hanging("note: ", &escaped(note), columns.all, lines);
        }
        hanging("read: ", &self.read(), columns.all, lines);
    }

    /// How much was read, and how much of it is known: the rest is not guessed.
    pub(super) fn read(&self) -> String {
        let lines: u64 = self.sources.iter().map(|log| log.lines).sum();
        let known: u64 = self.sources.iter().map(|log| log.known).sum();
        let damaged: u64 = self.sources.iter().map(|log| log.damaged).sum();
        let mut text = format!(
            "{} with {}; recognized: {}",
            counted(self.sources.len() as u64, "log"),
            counted(lines, "line"),
            known
        );
        if damaged > 0 {
            text += &format!("; not in a log's form: {damaged}");
        }
        text
    }
}

impl Row {
    /// The text in the lane, escaped.
    pub(super) fn text(
        &self,
        event: &Event,
        pods: &BTreeMap<String, String>,
        with_milliseconds: bool,
    ) -> String {
        let mut text = match &self.restarts {
            None => event.text.clone(),
            Some(restarts) => {
                let times = restarts.times();
                let left = if restarts.logs < times as usize {
                    format!(" ({} left)", counted(restarts.logs as u64, "log"))
                } else {
                    String::new()
                };
                let how =
                    if times == 1 { "again".to_owned() } else { format!("× {times}{left}, each time") };
                format!("{} restarts {how}: {}", restarts.container, event.text)
            }
        };
        if self.is_stub && event.what != What::Seen(NodeEvent::StubWritten) {
            text += ": nvidia-peermem.ko is a stub";
        }
        if let Some(pod) = event.instance.as_ref().and_then(|instance| pods.get(&instance.pod)) {
            text += &format!(" [{pod}]");
        }
        if let When::Between { after, before } = event.when {
            text += &match (after, before) {
                (Some(after), Some(before)) => format!(
                    " (between {} and {})",
                    time_of_day(after.ns, with_milliseconds),
                    time_of_day(before.ns, with_milliseconds)
                ),
                (Some(after), None) => format!(" (after {})", time_of_day(after.ns, with_milliseconds)),
                (None, Some(before)) => format!(" (before {})", time_of_day(before.ns, with_milliseconds)),
                (None, None) => " (its log has no times)".to_owned(),
            };
        }
        if let Some(until) = self.until_ns {
            let start = event.anchor_ns().unwrap_or(until);
            let day = if day(start) == day(until) { String::new() } else { day(until) + " " };
            let times = if self.count > 1 { format!("× {}, ", self.count) } else { String::new() };
            text += &format!(" ({times}last {day}{})", time_of_day(until, with_milliseconds));
        }
        escaped(&text).into_owned()
    }
}

/// The ends of pods' names, where one `DaemonSet` has more than one pod.
pub(super) fn several_pods(events: &[Event]) -> BTreeMap<String, String> {
    let mut pods: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for instance in events.iter().filter_map(|event| event.instance.as_ref()) {
        let (owner, end) = instance.name.rsplit_once('-').unwrap_or_default();
        pods.entry(owner).or_default().insert(&instance.pod, end);
    }
    let several = pods.into_values().filter(|pods| pods.len() > 1).flatten();
    several.map(|(pod, end)| (pod.to_owned(), end.to_owned())).collect()
}

impl Columns {
    fn line(&self, time: &str, mofed: &str, gpu: &str) -> String {
        let Self { time: width, lane, .. } = self;
        format!("{time:width$}  {mofed:lane$}  {gpu}")
    }

    /// One row, in as many lines as its text needs.
    fn row(&self, time: &str, lane: Lane, text: &str, lines: &mut Vec<String>) {
        /// Before and behind the kernel's words.
        const MARK: &str = "───── ";
        let of_kernel = lane == Lane::Kernel;
        let width = if of_kernel { self.all - self.time - BETWEEN - MARK.chars().count() } else { self.lane };
        for (at, part) in wrapped(text, width).iter().enumerate() {
            let time = if at == 0 { time } else { "" };
            lines.push(match lane {
                Lane::Mofed => self.line(time, part, ""),
                Lane::Gpu => self.line(time, "", part),
                Lane::Kernel if at == 0 => format!("{time:width$}  {MARK}{part}", width = self.time),
                Lane::Kernel => format!("{:width$}  {part}", "", width = self.time + MARK.chars().count()),
            });
        }
    }
}

/// With its further lines below the text.
fn hanging(lead: &str, text: &str, columns: usize, lines: &mut Vec<String>) {
    for (at, part) in wrapped(text, columns - lead.len()).iter().enumerate() {
        let lead = if at == 0 { lead.to_owned() } else { " ".repeat(lead.len()) };
        lines.push(lead + part);
    }
}
