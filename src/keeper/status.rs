// SPDX-License-Identifier: Apache-2.0
//! Files that `keep` writes: the status file, which `check --status-file` judges by, and its own
//! part of the metrics.

use super::{Keep, KeepMemory, State};
use crate::ready::judge::swap::Presence;
use crate::ready::time::{BootTime, Seconds};
use crate::ready::verdict::{Outcome, Verdict};
use crate::rebuild::Kind;
use crate::text::{Page, json_escaped};
use crate::words::report;
use crate::words::report::style::Style;
use crate::words::report::{Metric, Report, SCHEMA, label, metric};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The report of the last look, and what `keep` makes of it.
#[derive(Debug, Serialize)]
pub struct StatusFile<'a> {
    /// As `check --format json` has it.
    #[serde(flatten)]
    pub report: Report<'a>,
    /// The sidecar's own.
    pub keep: Summary,
}

/// The state of `keep`, as the status file has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The state.
    pub state: State,
    /// The same in one sentence.
    pub message: String,
    /// `keep` or `another`; absent where nothing is loaded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loaded_by: Option<String>,
    /// Of `nvidia_peermem`; absent where it is not loaded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub refcount: Option<i64>,
    /// Processes that may be what uses it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub holders: Vec<String>,
    /// The obstacle to a rebuild that only a person can remove.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub obstacle: Option<String>,
    /// Rebuilds of nvidia-peermem.ko, by result.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub rebuilds: BTreeMap<String, u64>,
    /// Time since boot at which this was written, in seconds.
    pub written_s: f64,
    /// How often it is written at least, in seconds.
    pub heartbeat_s: f64,
}

impl Summary {
    /// The summary of this moment.
    #[must_use]
    pub fn of(keep: &Keep, holders: &[String], heartbeat: Duration, now: BootTime) -> Self {
        let loaded_by = if keep.is_ours() { "keep" } else { "another" };
        let (loaded_by, refcount) = match keep.peermem() {
            Presence::Live { uses } => (Some(loaded_by.to_owned()), uses),
            _ => (None, None),
        };
        Self {
            state: keep.state(),
            message: keep.sentence(),
            loaded_by,
            refcount,
            holders: holders.to_vec(),
            obstacle: keep.obstacle().map(|kind| kind.to_string()),
            rebuilds: keep.ledger().rebuilds.iter().map(|(what, count)| (what.to_string(), *count)).collect(),
            written_s: now.as_secs_f64(),
            heartbeat_s: heartbeat.as_secs_f64(),
        }
    }
}

/// The file beside the status file: the memory of a `keep`, for the one that is started after it.
#[derive(Debug, Serialize, Deserialize)]
pub struct MemoryFile {
    /// The boot in which it was written.
    pub boot_id: Option<String>,
    /// The memory.
    pub memory: KeepMemory,
}

impl MemoryFile {
    /// The memory, if the text is one of this boot. A damaged file is as good as none.
    #[must_use]
    pub fn of_this_boot(text: &str, boot_id: Option<&str>) -> Option<KeepMemory> {
        let file: Self = serde_json::from_str(text).ok()?;
        (boot_id.is_some() && file.boot_id.as_deref() == boot_id).then_some(file.memory)
    }
}

/// A status file that was read.
#[derive(Debug, Deserialize)]
pub struct Stored {
    schema: String,
    #[serde(default)]
    boot_id: Option<String>,
    #[serde(flatten)]
    verdict: Verdict,
    keep: Summary,
}

/// How late a heartbeat may be.
const GRACE: Duration = Duration::from_secs(10);

impl Stored {
    /// Reads it.
    ///
    /// # Errors
    /// A sentence: it is no status file, or one of another schema.
    pub fn read(text: &str) -> Result<Self, String> {
        let stored: Self =
            serde_json::from_str(text).map_err(|error| format!("it is not a status of `keep`: {error}"))?;
        if stored.verdict.conditions.is_empty() {
            return Err("it lists no conditions".to_owned());
        }
        if stored.schema == SCHEMA {
            Ok(stored)
        } else {
            Err(format!("its schema is {:?}, not {SCHEMA:?}", stored.schema))
        }
    }

    /// Why it says nothing of this moment; `None` when it does. `keep` writes it at each change and at
    /// each heartbeat, so one that is older was left behind.
    #[must_use]
    pub fn outdated(&self, boot_id: Option<&str>, now: BootTime) -> Option<String> {
        match (self.boot_id.as_deref(), boot_id) {
            (Some(then), Some(now)) if then != now => {
                return Some("it was written before this boot".to_owned());
            }
            (None, Some(_)) => return Some("it does not say in which boot it was written".to_owned()),
            _ => {}
        }
        let seconds = |s: f64| Duration::try_from_secs_f64(s).unwrap_or_default();
        let age = now.saturating_sub(seconds(self.keep.written_s));
        let limit = seconds(self.keep.heartbeat_s).saturating_mul(2).saturating_add(GRACE);
        let is_from_the_future = seconds(self.keep.written_s) > now + GRACE;
        if is_from_the_future {
            return Some("its time since boot is in the future".to_owned());
        }
        (age > limit).then(|| {
            format!("it is {} old, more than two heartbeats: `keep` hangs or has ended", Seconds(age))
        })
    }

    /// Ready is a node on which every condition is met and `nvidia_peermem` is live.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match (self.verdict.outcome, self.keep.state) {
            (Outcome::Ready, State::Loaded) => Outcome::Ready,
            (_, State::Blocked) => Outcome::Blocked,
            (Outcome::Ready, _) => Outcome::Waiting,
            (other, _) => other,
        }
    }

    /// The file's `text` as it was, except for a verdict that `keep`'s state contradicts.
    #[must_use]
    pub fn json(&self, text: &str) -> String {
        let outcome = self.outcome();
        match serde_json::from_str(text) {
            Ok(serde_json::Value::Object(mut all)) if outcome != self.verdict.outcome => {
                all.insert("verdict".to_owned(), serde_json::json!(outcome));
                json_escaped(&serde_json::Value::Object(all).to_string()).into_owned() + "\n"
            }
            _ => text.split('\n').map(json_escaped).collect::<Vec<_>>().join("\n"),
        }
    }

    /// Cause first, ASCII, at most 80 bytes.
    #[must_use]
    pub fn headline(&self) -> String {
        match (self.outcome(), self.verdict.outcome) {
            (Outcome::Ready, _) => "Ready: nvidia_peermem is live, and MOFED is ready".to_owned(),
            (_, Outcome::Ready) => format!("{}: nvidia_peermem is not usable now", self.keep.state),
            _ => self.verdict.headline(),
        }
    }

    /// The headline, the sidecar's state, and a line for each condition.
    #[must_use]
    pub fn text(&self, style: Style) -> String {
        let Summary { state, message, holders, .. } = &self.keep;
        let mut page = Page::new(style.columns);
        page.painted(self.headline(), style.outcome(self.outcome()));
        page.line(format_args!("keep: {state}: {message}"));
        if !holders.is_empty() {
            page.line(format_args!("open on GPU or RDMA devices: {}", holders.join(", ")));
        }
        report::conditions(&self.verdict, style, &mut page);
        page.into_text()
    }
}

/// The metrics of `keep`.
const METRICS: [Metric; 9] = [
    ("gauge", "peermem_gate_keep_state", "Whether keep is in this state (1) or not (0)."),
    (
        "gauge",
        "peermem_gate_keep_blocked",
        "Whether this keeps nvidia-peermem.ko from being rebuilt (1) until a person acts.",
    ),
    ("counter", "peermem_gate_keep_state_seconds_total", "Time in this state."),
    ("counter", "peermem_gate_keep_transitions_total", "How often keep went from one state to another."),
    ("counter", "peermem_gate_keep_refused_loads_total", "Loads that failed."),
    ("counter", "peermem_gate_keep_rebuilds_total", "Rebuilds of nvidia-peermem.ko, by result."),
    ("counter", "peermem_gate_keep_rebuild_seconds_total", "Time spent on rebuilds."),
    ("counter", "peermem_gate_keep_loads_total", "Loads that succeeded."),
    ("gauge", "peermem_gate_keep_last_success_timestamp_seconds", "When a load last succeeded."),
];

/// The sidecar's part of the Prometheus textfile. `wall` is the time of the last successful load, in
/// seconds since 1970.
#[must_use]
pub fn metrics(keep: &Keep, wall: Option<f64>) -> String {
    let ledger = keep.ledger();
    let is = |is: bool| u8::from(is).to_string();
    let only = |value: String| vec![(String::new(), value)];
    let people = Kind::ALL.iter().filter(|kind| kind.needs_a_person());
    let spent = |spent: &Duration| format!("{:.3}", spent.as_secs_f64());
    let went = |from, to| format!("{{from=\"{from}\",to=\"{to}\"}}");
    let samples: [Vec<_>; 8] = [
        State::ALL.iter().map(|state| (label("state", state), is(*state == keep.state()))).collect(),
        people.map(|kind| (label("reason", kind), is(keep.obstacle() == Some(*kind)))).collect(),
        ledger.spent.iter().map(|(state, time)| (label("state", state), spent(time))).collect(),
        ledger.transitions.iter().map(|((from, to), count)| (went(from, to), count.to_string())).collect(),
        ledger.refused.iter().map(|(why, count)| (label("reason", why.label()), count.to_string())).collect(),
        ledger.rebuilds.iter().map(|(result, count)| (label("result", result), count.to_string())).collect(),
        only(spent(&ledger.rebuilding)),
        only(ledger.loads.0.to_string()),
    ];
    let last = wall.map(|wall| only(format!("{wall:.3}")));
    // Without a load there is no time of the last one.
    let all = METRICS.into_iter().zip(samples.into_iter().chain(last));
    all.map(|(head, samples)| metric(head, samples)).collect()
}
