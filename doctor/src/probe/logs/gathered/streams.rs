// SPDX-License-Identifier: Apache-2.0
//! The output of `kubectl logs`: lines of one container, or of several with a prefix each; and the looks that the
//! gate logs at `--log-level trace`.

use super::super::{ContainerLog, LogFile};
use crate::gathered::owner::{LOOK, LogOwner};
use crate::log::{LogScanner, RuleSet, Scanned, own_stamp};
use crate::record::{Lines, printed};
use crate::stamp::Stamp;
use crate::timeline::{NodeEvent, Trace};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// In nanoseconds: clocks differ, and local time may be ahead of UTC.
const DAY: i64 = 86_400 * crate::stamp::SECOND;
/// Pods and containers in one file.
const STREAMS: usize = 2000;

/// A log each.
pub(super) type ScannedLogs = Vec<(LogFile, Scanned)>;
type Name<'a> = &'a dyn Fn(&str, &str) -> ContainerLog;

pub(super) struct Streams<'t> {
    lines: Lines,
    scanners: Scanners<'t>,
}

struct Scanners<'t> {
    rule_sets: &'t BTreeMap<&'static str, RuleSet>,
    not_after_ns: i64,
    room: usize,
    /// Of lines without a prefix.
    owner: &'t LogOwner,
    /// By pod and container; `None` for containers of which nothing is known.
    of: BTreeMap<(String, String), Option<LogScanner<'t>>>,
    /// Lines of such containers.
    others: u64,
    looks: Vec<(Stamp, LookState)>,
}

impl<'t> Streams<'t> {
    pub(super) fn new(
        rule_sets: &'t BTreeMap<&'static str, RuleSet>,
        modified: Stamp,
        room: usize,
        owner: &'t LogOwner,
    ) -> Self {
        let not_after_ns = modified.ns.saturating_add(DAY);
        let of = BTreeMap::new();
        let mut scanners =
            Scanners { rule_sets, not_after_ns, room, owner, of, others: 0, looks: Vec::new() };
        scanners.scanner(&owner.pod, &owner.container);
        Self { lines: Lines::of_any_length(), scanners }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let Self { lines, scanners } = self;
        lines.push(bytes, |line| scanners.line(line));
    }

    pub(super) fn end(mut self, file: &LogFile, name: Name<'_>) -> (ScannedLogs, Vec<Trace>) {
        let Self { lines, scanners } = &mut self;
        lines.end(|line| scanners.line(line));
        let Scanners { of, others, looks, .. } = self.scanners;
        let looks = shown(&looks, &file.path);
        let with = |container| LogFile { container, read: 0, ..file.clone() };
        let known = of.into_iter().filter_map(|(of, scanner)| Some((of, scanner?)));
        let mut logs: ScannedLogs = known
            .map(|((pod, container), scanner)| (with(Some(name(&pod, &container))), scanner.end()))
            .collect();
        if logs.is_empty() || others > 0 {
            logs.push((with(None), Scanned { lines: others, ..Scanned::default() }));
        }
        // What was read counts once.
        logs[0].0.read = file.read;
        (logs, looks)
    }
}

impl<'t> Scanners<'t> {
    fn line(&mut self, line: &[u8]) {
        let (pod, container, text) = self.owner.of_line(line);
        self.look(text);
        match self.scanner(pod, container) {
            Some(scanner) => scanner.record(printed(text)),
            None => self.others += 1,
        }
    }

    fn scanner(&mut self, pod: &str, container: &str) -> Option<&mut LogScanner<'t>> {
        let key = (pod.to_owned(), container.to_owned());
        if !self.of.contains_key(&key) && self.of.len() < STREAMS {
            let form = crate::log::Form::Container;
            let rules = self.rule_sets.get(container);
            let scanner = rules.map(|rules| LogScanner::new(rules, form, self.not_after_ns, self.room));
            self.of.insert(key.clone(), scanner);
        }
        self.of.get_mut(&key)?.as_mut()
    }

    fn look(&mut self, line: &[u8]) {
        if memchr::memmem::find(line, LOOK).is_none() {
            return;
        }
        let record = printed(line);
        let stamp = own_stamp(&record.text, self.not_after_ns);
        let stamp = stamp.or_else(|| record.written.stamp(self.not_after_ns));
        if let Some(look) = stamp.zip(recorded(&record.text)) {
            self.looks.push(look);
        }
    }
}

/// `… look {…}`, or the same as a string in an object ([`peermem_gate::ready::look::Recorded`]).
fn recorded(text: &[u8]) -> Option<LookState> {
    let look: Value = if text.first() == Some(&b'{') {
        let object: Value = serde_json::from_slice(text).ok()?;
        serde_json::from_str(object.get("message")?.as_str()?.strip_prefix("look ")?).ok()?
    } else {
        let at = memchr::memmem::find(text, LOOK)? + LOOK.len() - 1;
        serde_json::from_slice(&text[at..]).ok()?
    };
    LookState::of(look.get("seen")?)
}

/// The changes from one look to the next.
fn shown(looks: &[(Stamp, LookState)], path: &Path) -> Vec<Trace> {
    let mut traces = Vec::new();
    let mut before = LookState::default();
    for (at, now) in looks {
        let mut add = |node_event, it: &str| {
            traces.push(Trace { node_event, at: *at, it: it.to_owned(), path: path.to_owned() });
        };
        if now.is_marked != before.is_marked {
            add(if now.is_marked { NodeEvent::LookMarkerSet } else { NodeEvent::LookMarkerGone }, "");
        }
        if now.stack != before.stack {
            match now.stack {
                Some(whose) => add(NodeEvent::LookStackLive, whose),
                None => add(NodeEvent::LookStackGone, "the RDMA modules are"),
            }
        }
        if now.has_peermem != before.has_peermem {
            add(if now.has_peermem { NodeEvent::LookPeermemLive } else { NodeEvent::LookPeermemGone }, "");
        }
        before = *now;
    }
    traces
}

/// As much of a look as a timeline shows. An `Observation` is not read as a whole: what a later release adds to it
/// does not matter here.
#[derive(Clone, Copy, Default)]
struct LookState {
    is_marked: bool,
    stack: Option<&'static str>,
    has_peermem: bool,
}

impl LookState {
    fn of(seen: &Value) -> Option<Self> {
        let modules = seen.get("modules")?;
        let listed = modules.pointer("/proc/Ok/modules").and_then(Value::as_array);
        let is_peermem =
            |module: &Value| module.get("name").and_then(Value::as_str) == Some("nvidia_peermem");
        Some(Self {
            is_marked: seen.get("marker")?.get("Present").is_some(),
            stack: stack(modules.get("sys")?),
            has_peermem: listed.is_some_and(|listed| listed.iter().any(is_peermem)),
        })
    }
}

/// Whose RDMA modules are live, where all of them are.
fn stack(sys: &Value) -> Option<&'static str> {
    const STACK: [&str; 4] = ["ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib"];
    let modules: Vec<_> = STACK.iter().map(|name| sys.get(name)).collect::<Option<_>>()?;
    let is_live = |module: &&Value| module.get("state").and_then(Value::as_str) == Some("Live");
    let is_mofeds = |module: &&Value| {
        module.pointer("/taint/Ok").and_then(Value::as_str).is_some_and(|taint| taint.contains('O'))
    };
    let whose =
        if modules.iter().all(is_mofeds) { "MOFED's RDMA modules" } else { "RDMA modules of the kernel" };
    modules.iter().all(is_live).then_some(whose)
}
