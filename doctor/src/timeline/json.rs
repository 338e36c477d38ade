// SPDX-License-Identifier: Apache-2.0
//! The timeline for machines.

use super::event::EventTone;
use super::{Event, Gap, Timeline, When};
use crate::finding::Id;
use crate::stamp::{SECOND, Stamp};
use crate::symptoms::logs::Logs;
use serde::{Serialize, Serializer};

/// `schema` of the object.
pub const SCHEMA: &str = "peermem-gate-timeline/v1";

/// A log that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Log {
    /// Its path.
    pub path: String,
    /// Its pod, where it is a container's and the pod is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Its container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// How often the container had been restarted before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<u32>,
    /// Lines that were read.
    pub lines: u64,
    /// Of these, sentences that are known.
    pub known: u64,
    /// Of these, not in a log's form.
    pub damaged: u64,
}

pub(super) fn logs(logs: &Logs) -> Vec<Log> {
    let mut known = vec![0; logs.files.len()];
    for found in &logs.matches {
        if let Some(known) = known.get_mut(found.file) {
            *known += found.count;
        }
    }
    let log = |(file, known): (&crate::symptoms::logs::LogFile, u64)| {
        let container = file.container.as_ref();
        Log {
            path: file.path.display().to_string(),
            pod: container.map(|log| log.pod.clone()).filter(|pod| !pod.is_empty()),
            container: container.map(|log| log.container.clone()),
            restart: container.map(|log| log.restart),
            lines: file.lines,
            known: known + file.forgotten,
            damaged: file.damaged,
        }
    };
    logs.files.iter().zip(known).map(log).collect()
}

#[derive(Serialize)]
struct ShownTimeline<'a> {
    schema: &'static str,
    version: &'static str,
    node: Option<&'a str>,
    events: Vec<ShownEvent<'a>>,
    gaps: Vec<ShownGap<'a>>,
    verdict: ShownVerdict<'a>,
    notes: &'a [String],
    logs: &'a [Log],
}

#[derive(Serialize)]
struct ShownEvent<'a> {
    /// `null` where only the order is known.
    time: Option<String>,
    /// In seconds: the event lies between `time` and so much later.
    #[serde(skip_serializing_if = "Option::is_none")]
    precision: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    count: u64,
    lane: &'static str,
    who: &'static str,
    what: &'static str,
    text: &'a str,
    /// Something went wrong.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_failure: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    restart: Option<u32>,
    /// In seconds, where the clock was set later.
    #[serde(skip_serializing_if = "Option::is_none")]
    corrected_by: Option<f64>,
    source: ShownSource,
}

#[derive(Serialize)]
struct ShownSource {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
}

#[derive(Serialize)]
struct ShownGap<'a> {
    id: &'static str,
    from: String,
    to: String,
    seconds: f64,
    text: &'a str,
}

#[derive(Serialize)]
struct ShownVerdict<'a> {
    id: &'static str,
    text: &'a str,
    /// The first root cause that `doctor` finds in the same sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    opens: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cured: Option<String>,
}

impl Serialize for Timeline {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let verdict = &self.verdict;
        let shown = ShownTimeline {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            node: self.node.as_deref(),
            events: self.events.iter().map(event).collect(),
            gaps: self.gaps.iter().map(gap).collect(),
            verdict: ShownVerdict {
                id: verdict.race.name(),
                text: &verdict.text,
                cause: verdict.cause,
                held_from: verdict.held_from_ns.map(moment),
                opens: verdict.opens_ns.map(moment),
                cured: verdict.cured_ns.map(moment),
            },
            notes: &self.notes,
            logs: &self.sources,
        };
        shown.serialize(to)
    }
}

fn event(event: &Event) -> ShownEvent<'_> {
    let shown = |stamp: Stamp| stamp.to_string();
    let (after, before) = match event.when {
        When::At(_) => (None, None),
        When::Between { after, before } => (after.map(shown), before.map(shown)),
    };
    let instance = event.instance.as_ref();
    ShownEvent {
        time: event.stamp().map(shown),
        precision: event.stamp().map(|stamp| seconds(stamp.precision_ns)),
        after,
        before,
        until: event.until.map(shown),
        count: event.count,
        lane: event.lane.name(),
        who: event.who,
        what: event.what.name(),
        text: &event.text,
        is_failure: event.tone() == EventTone::Bad,
        pod: instance.map(|instance| instance.name.as_str()).filter(|name| !name.is_empty()),
        container: instance.map(|instance| instance.container.as_str()),
        restart: instance.map(|instance| instance.restart),
        corrected_by: (event.corrected_ns != 0).then(|| seconds(event.corrected_ns)),
        source: ShownSource { path: event.source.path.display().to_string(), line: event.source.line },
    }
}

fn gap(gap: &Gap) -> ShownGap<'_> {
    let Gap { kind, from_ns, to_ns, text } = gap;
    ShownGap {
        id: kind.name(),
        from: moment(*from_ns),
        to: moment(*to_ns),
        seconds: seconds(to_ns.saturating_sub(*from_ns)),
        text,
    }
}

fn moment(ns: i64) -> String {
    Stamp::wall(ns, 1).to_string()
}

#[allow(clippy::cast_precision_loss, reason = "an interval of years is exact to the microsecond")]
fn seconds(ns: i64) -> f64 {
    ns as f64 / SECOND as f64
}
