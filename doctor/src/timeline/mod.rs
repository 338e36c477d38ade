// SPDX-License-Identifier: Apache-2.0
//! The past of a node, drawn from its logs and files. Pure: a [`History`] goes in, and text, SVG or JSON comes out.
//! The probe gathers it.
//!
//! ```text
//!  History ─► merge (one clock, one order) ─► Event… ─► story ─► gaps, verdict
//!                                               └─► fold ─► Row… ─► text, svg;   Event… ─► json
//! ```

mod event;
mod fold;
mod gap;
mod history;
pub mod json;
mod merge;
mod nodes;
mod notes;
mod story;
mod svg;
pub mod text;
mod verdict;
mod words;

pub use crate::log::Lane;
pub use event::{Event, EventSource, Instance, What, When};
pub use gap::{Gap, GapKind};
pub use history::{History, NodeEvent, Trace};
pub use nodes::{Mixed, only};
pub use story::{DriverBuild, Story};
pub use verdict::{Race, RaceVerdict};

use crate::finding::Id;
use crate::stamp::{SECOND, Stamp};
use fold::Row;

/// From when on events are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Since {
    /// The last start of the kernel, where one is known and something came after it.
    #[default]
    Boot,
    /// This moment, in nanoseconds since 1970.
    Moment(i64),
    /// So many nanoseconds before the end of what is known.
    Last(i64),
}

/// What `doctor` says of the same sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoctorAnswer {
    /// Its first root cause, where something is wrong or not finished.
    pub cause: Option<Id>,
    /// It has judged all, and nothing is wrong.
    pub is_well: bool,
    /// Something asks for `GPUDirect` RDMA, or that is not known.
    pub wants_rdma: bool,
}

impl DoctorAnswer {
    /// Nobody has judged.
    pub const NOT: Self = Self { cause: None, is_well: false, wants_rdma: true };
}

/// All that is drawn.
#[must_use]
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The node's name, where it is known.
    pub node: Option<String>,
    /// In the order of time.
    pub events: Vec<Event>,
    /// The intervals that decided.
    pub gaps: Vec<Gap>,
    /// The race, if there was one.
    pub verdict: RaceVerdict,
    /// Limits of the drawing: lost logs, clocks, sources that cannot be read.
    pub notes: Vec<String>,
    /// The logs, as they were read.
    pub sources: Vec<json::Log>,
    rows: Vec<Row>,
}

impl Timeline {
    /// Draws what is known.
    pub fn new(mut history: History, since: Since, judged: DoctorAnswer) -> Self {
        let sources = json::logs(&history.logs);
        // Without a wish for it, a stub is as good as no file.
        history.traces.retain(|trace| judged.wants_rdma || trace.node_event != NodeEvent::StubWritten);
        let merged = merge::merged(&mut history);
        let (events, earlier) = since.split(merged.events, &history);
        let story = Story::of(&events);
        let gaps = gap::gaps(&story);
        let verdict = verdict::of(&story, &gaps, &events, judged);
        let mut notes = notes::notes(&history, &merged.jumps, &earlier);
        notes.extend(notes::early_markers(&story));
        notes.extend(notes::lost_logs(&history, &story));
        let mut rows = fold::rows(&events);
        if verdict.race == Race::StubBuilt {
            fold::name_stub(&mut rows, &events, &gaps);
        }
        Self { node: history.node, events, gaps, verdict, notes, sources, rows }
    }

    /// The same, drawn with the decisive events only.
    pub fn brief(mut self) -> Self {
        fold::keep_decisive(&mut self.rows, &self.events);
        self
    }
}

impl Since {
    /// The events that are drawn, and those that are not.
    fn split(self, events: Vec<Event>, history: &History) -> (Vec<Event>, Vec<Event>) {
        let from = match self {
            Self::Moment(ns) => Some(ns),
            Self::Last(ns) => last(&events, history).map(|last| last.saturating_sub(ns)),
            Self::Boot => booted(&events, history),
        };
        let Some(from) = from else { return (events, Vec::new()) };
        let is_drawn = |event: &Event| event.end_ns().is_none_or(|end| end >= from);
        let (drawn, earlier): (Vec<_>, Vec<_>) = events.into_iter().partition(is_drawn);
        if drawn.is_empty() && self == Self::Boot { (earlier, drawn) } else { (drawn, earlier) }
    }
}

fn last(events: &[Event], history: &History) -> Option<i64> {
    history.now.map(|now| now.ns).or_else(|| events.iter().filter_map(Event::end_ns).max())
}

/// The kernel's last start, by its own first sentence or by its clock.
fn booted(events: &[Event], history: &History) -> Option<i64> {
    use crate::log::LogEvent::KernelStarted;
    let logged = events.iter().rev().find(|event| event.what == What::Logged(KernelStarted));
    let logged = logged.and_then(Event::ns);
    let by_clock = history.logs.booted.map(|Stamp { ns, .. }| ns.saturating_sub(SECOND));
    logged.max(by_clock)
}
