// SPDX-License-Identifier: Apache-2.0
//! One thing that happened.

use super::NodeEvent;
use crate::log::{Drawn, Lane, LogEvent};
use crate::stamp::Stamp;
use std::path::Path;
use std::rc::Rc;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// A log line.
    Logged(LogEvent),
    /// A file, a process or a look of the gate shows it.
    Seen(NodeEvent),
    /// The wall clock was set.
    ClockSet,
}

impl What {
    /// Its stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Logged(event) => event.name(),
            Self::Seen(node_event) => node_event.name(),
            Self::ClockSet => "ClockSet",
        }
    }
}

/// How it turned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventTone {
    /// Something went wrong.
    Bad,
    /// Something that others wait for is there.
    Good,
    /// A step like others.
    Plain,
}

impl What {
    /// Its program repeats the line while nothing changes.
    pub fn is_polled(self) -> bool {
        matches!(self, Self::Logged(event) if event.rule().patterns.iter().any(|pattern| pattern.is_polled))
    }

    /// How it turned out.
    pub fn tone(self) -> EventTone {
        match self {
            Self::Logged(event) => match event.rule().drawn {
                Drawn::Bad => EventTone::Bad,
                Drawn::Good => EventTone::Good,
                Drawn::Step | Drawn::Plain | Drawn::Never => EventTone::Plain,
            },
            Self::Seen(NodeEvent::StubWritten) => EventTone::Bad,
            Self::Seen(_) | Self::ClockSet => EventTone::Plain,
        }
    }
}

/// When it happened, on the node's wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Then.
    At(Stamp),
    /// Its source has no times: between its neighbors in the same source that have one.
    Between {
        /// Not before this.
        after: Option<Stamp>,
        /// Not after this.
        before: Option<Stamp>,
    },
}

/// Which instance of which container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instance {
    /// The pod's UID, or its name where the UID is not known.
    pub pod: String,
    /// The pod's name; empty where it is not known.
    pub name: String,
    /// The container's name.
    pub container: String,
    /// How often it had been restarted before.
    pub restart: u32,
}

/// Where an event was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSource {
    /// A log, a file, a process's directory.
    pub path: Rc<Path>,
    /// The line, from 1.
    pub line: Option<u64>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, the first time.
    pub when: When,
    /// When, the last time, if it happened more than once.
    pub until: Option<Stamp>,
    /// How often.
    pub count: u64,
    /// Whose side.
    pub lane: Lane,
    /// Who says so, or what kind of witness.
    pub who: &'static str,
    /// Its kind.
    pub what: What,
    /// In words, as it came: escape it where it is printed.
    pub text: String,
    /// The module that it is about, with underscores.
    pub module: Option<String>,
    /// Which instance of a container said it.
    pub instance: Option<Rc<Instance>>,
    /// Where it was found.
    pub source: EventSource,
    /// By how many nanoseconds its stamp was corrected, because the clock was set later.
    pub corrected_ns: i64,
}

impl Event {
    /// When, in nanoseconds since 1970; `None` where only its order is known.
    pub fn ns(&self) -> Option<i64> {
        self.stamp().map(|stamp| stamp.ns)
    }

    /// When, where that is known.
    pub fn stamp(&self) -> Option<Stamp> {
        match self.when {
            When::At(stamp) => Some(stamp),
            When::Between { .. } => None,
        }
    }

    /// Where it is drawn: its time, or the nearest one that is known.
    pub fn anchor_ns(&self) -> Option<i64> {
        match self.when {
            When::At(stamp) => Some(stamp.ns),
            When::Between { after, before } => after.or(before).map(|stamp| stamp.ns),
        }
    }

    /// The last time that is known of it.
    pub fn end_ns(&self) -> Option<i64> {
        self.until.map(|until| until.ns).or(self.anchor_ns())
    }

    /// How it turned out. A refused module that is neither the driver's nor of the RDMA stack stops nothing here.
    pub(super) fn tone(&self) -> EventTone {
        const OURS: [&str; 5] = ["nvidia", "mlx", "ib_", "rdma_", "iw_cm"];
        let is_ours = |module: &String| OURS.iter().any(|begin| module.starts_with(begin));
        if self.module.as_ref().is_none_or(is_ours) { self.what.tone() } else { EventTone::Plain }
    }

    /// Whether it is this event of a log.
    pub fn is_logged(&self, event: LogEvent) -> bool {
        self.what == What::Logged(event)
    }
}
