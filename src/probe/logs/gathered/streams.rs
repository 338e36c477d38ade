// SPDX-License-Identifier: Apache-2.0
//! What `kubectl logs` printed: lines of one container, or of several with a prefix each; and the looks that the
//! gate logs at `--log-level trace`.

use super::super::{ContainerLog, LogFile};
use crate::look::Recorded;
use crate::observation::{Marker, SysState};
use crate::record::{Lines, prefixed, printed};
use crate::sentence::{Heard, Listener, Table, own_stamp};
use crate::stamp::Stamp;
use crate::timeline::{Sight, Trace};
use std::collections::BTreeMap;
use std::path::Path;

/// In nanoseconds: clocks differ, and local time may be ahead of UTC.
const DAY: i64 = 86_400 * crate::stamp::SECOND;
/// Pods and containers in one file.
const STREAMS: usize = 2000;
/// A look of a node with thousands of modules.
const LOOK: &[u8] = b"look {";

/// A log each.
pub(super) type Heards = Vec<(LogFile, Heard)>;
type Name<'a> = &'a dyn Fn(&str, &str) -> ContainerLog;

pub(super) struct Streams<'t> {
    tables: &'t BTreeMap<&'static str, Table>,
    not_after_ns: i64,
    room: usize,
    lines: Lines,
    heard: Hearing<'t>,
}

struct Hearing<'t> {
    own: Option<(ContainerLog, Listener<'t>)>,
    of: BTreeMap<(String, String), Option<Listener<'t>>>,
    /// Of containers of which nothing is known.
    others: u64,
    looks: Vec<(Stamp, Recorded)>,
}

impl<'t> Streams<'t> {
    pub(super) fn new(
        tables: &'t BTreeMap<&'static str, Table>,
        modified: Stamp,
        room: usize,
        own: Option<ContainerLog>,
    ) -> Self {
        let not_after_ns = modified.ns.saturating_add(DAY);
        let listener =
            |container: &str| tables.get(container).map(|table| listener(table, not_after_ns, room));
        let own = own.and_then(|of| listener(&of.container).map(|listener| (of, listener)));
        let heard = Hearing { own, of: BTreeMap::new(), others: 0, looks: Vec::new() };
        Self { tables, not_after_ns, room, lines: Lines::of_any_length(), heard }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let Self { tables, not_after_ns, room, lines, heard } = self;
        lines.push(bytes, |line| heard.line(line, tables, *not_after_ns, *room));
    }

    pub(super) fn end(mut self, file: &LogFile, name: Name<'_>) -> (Heards, Vec<Trace>) {
        let Self { tables, not_after_ns, room, lines, heard } = &mut self;
        lines.end(|line| heard.line(line, tables, *not_after_ns, *room));
        let Hearing { own, of, others, looks } = self.heard;
        let looks = shown(&looks, &file.path);
        let mut logs: Heards = Vec::new();
        let with = |container| LogFile { container, read: 0, ..file.clone() };
        logs.extend(own.map(|(of, listener)| (with(Some(of)), listener.end())));
        for ((pod, container), listener) in of {
            if let Some(listener) = listener {
                logs.push((with(Some(name(&pod, &container))), listener.end()));
            }
        }
        if logs.is_empty() || others > 0 {
            logs.push((with(None), Heard { lines: others, ..Heard::default() }));
        }
        // What was read counts once.
        logs[0].0.read = file.read;
        (logs, looks)
    }
}

fn listener(table: &Table, not_after_ns: i64, room: usize) -> Listener<'_> {
    Listener::new(table, crate::sentence::Form::Container, not_after_ns, room)
}

impl<'t> Hearing<'t> {
    fn line(
        &mut self,
        line: &[u8],
        tables: &'t BTreeMap<&'static str, Table>,
        not_after_ns: i64,
        room: usize,
    ) {
        let Some((pod, container, text)) = prefixed(line) else {
            self.look(line, not_after_ns);
            match &mut self.own {
                Some((_, listener)) => listener.record(printed(line)),
                None => self.others += 1,
            }
            return;
        };
        self.look(text, not_after_ns);
        let key = (pod.to_owned(), container.to_owned());
        if !self.of.contains_key(&key) && self.of.len() < STREAMS {
            let listener = tables.get(container).map(|table| listener(table, not_after_ns, room));
            self.of.insert(key.clone(), listener);
        }
        match self.of.get_mut(&key) {
            Some(Some(listener)) => listener.record(printed(text)),
            _ => self.others += 1,
        }
    }

    fn look(&mut self, line: &[u8], not_after_ns: i64) {
        if memchr::memmem::find(line, LOOK).is_none() {
            return;
        }
        let record = printed(line);
        let stamp = own_stamp(&record.text, not_after_ns).or_else(|| record.written.stamp(not_after_ns));
        if let Some(look) = stamp.zip(recorded(&record.text)) {
            self.looks.push(look);
        }
    }
}

/// `… look {…}`, or the same as a string in an object.
fn recorded(text: &[u8]) -> Option<Recorded> {
    if text.first() == Some(&b'{') {
        let object: serde_json::Value = serde_json::from_slice(text).ok()?;
        return serde_json::from_str(object.get("message")?.as_str()?.strip_prefix("look ")?).ok();
    }
    let at = memchr::memmem::find(text, LOOK)? + LOOK.len() - 1;
    serde_json::from_slice(&text[at..]).ok()
}

/// What changed from one look to the next.
fn shown(looks: &[(Stamp, Recorded)], path: &Path) -> Vec<Trace> {
    let mut traces = Vec::new();
    let mut before = State::default();
    for (at, Recorded { seen, .. }) in looks {
        let now = State {
            is_marked: matches!(seen.marker, Marker::Present(_)),
            stack: stack(seen),
            has_peermem: seen
                .modules
                .proc
                .as_ref()
                .is_ok_and(|proc| proc.named("nvidia_peermem").next().is_some()),
        };
        let mut add =
            |sight, it: &str| traces.push(Trace { sight, at: *at, it: it.to_owned(), path: path.to_owned() });
        if now.is_marked != before.is_marked {
            add(if now.is_marked { Sight::LookMarkerSet } else { Sight::LookMarkerGone }, "");
        }
        if now.stack != before.stack {
            match now.stack {
                Some(whose) => add(Sight::LookStackLive, whose),
                None => add(Sight::LookStackGone, "the RDMA modules are"),
            }
        }
        if now.has_peermem != before.has_peermem {
            add(if now.has_peermem { Sight::LookPeermemLive } else { Sight::LookPeermemGone }, "");
        }
        before = now;
    }
    traces
}

#[derive(Default)]
struct State {
    is_marked: bool,
    stack: Option<&'static str>,
    has_peermem: bool,
}

/// Whose RDMA modules are live, where all of them are.
fn stack(seen: &crate::observation::Observation) -> Option<&'static str> {
    const STACK: [&str; 4] = ["ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib"];
    let modules: Option<Vec<_>> = STACK.iter().map(|name| seen.modules.sys.get(*name)).collect();
    let modules = modules.filter(|modules| modules.iter().all(|module| module.state == SysState::Live))?;
    let is_mofeds = |taint: &crate::observation::Seen<Option<String>>| {
        taint.as_ref().is_ok_and(|taint| taint.as_ref().is_some_and(|taint| taint.contains('O')))
    };
    let all = modules.iter().all(|module| is_mofeds(&module.taint));
    Some(if all { "MOFED's RDMA modules" } else { "RDMA modules of the kernel" })
}
