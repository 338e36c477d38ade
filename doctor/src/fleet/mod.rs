// SPDX-License-Identifier: Apache-2.0
//! Reports of many nodes, rolled up. Pure: lines go in one at a time, and of each no more is kept than
//! the roll-up needs, so a fleet of any size streams through.

mod cluster;
mod entry;
mod names;
mod rollup;
mod text;
mod upgrade;

pub use cluster::Cluster;
pub use rollup::{Damage, Rollup, RootCause, Wait};
pub use upgrade::{Forecast, Release};

use crate::finding::{Id, is_own_step};
use crate::peer_memory::PeerMemory;
use crate::report::standing::Standing;
use entry::{CauseHere, Entry, shortened};
use rollup::NodesOfCause;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::rc::Rc;

/// Root causes that are kept apart. There are some hundred; only remedies of other versions add to them.
const MAX_CAUSES: usize = 5000;
/// Damaged lines that are named; the rest is only counted.
const NAMED: usize = 20;

/// The kept part of each node's newest report.
#[derive(Debug)]
struct Newest {
    /// Seconds since 1970.
    time: u64,
    /// The line that it came from, counted over all sources: of two at the same time the later wins.
    order: usize,
    verdict: u32,
    standing: Standing,
    /// Its root causes, each with the commands of this node, if they are kept.
    causes: Vec<(u32, Vec<String>)>,
    /// The values of [`VERSIONS`].
    versions: [u32; VERSIONS.len()],
    /// The file that it has waited for, and for how many seconds.
    wait: Option<(u32, i64)>,
    /// Its peer memory, where the report has it.
    peer_memory: Option<u32>,
}

/// Values that may differ across a fleet, by the report's keys.
const VERSIONS: [&str; 6] = ["schema", "version", "kernel", "arch", "mofed", "nvidia"];

/// A root cause, whichever nodes have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct CauseKey {
    /// The finding's id, or the condition's reason.
    pub id: String,
    /// The finding's; `info` only where something worse follows from it.
    pub severity: String,
    /// The finding's title, or the condition's message.
    pub title: String,
    /// The steps, with NODE for a node's name.
    pub remedy: Vec<String>,
    /// Steps that only the reports have, and this program does not: their author's word.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reported: Vec<String>,
}

impl CauseKey {
    /// For causes that are no longer kept apart.
    fn others() -> Self {
        let title = format!(
            "more than {MAX_CAUSES} different root causes were reported: the rest are counted together"
        );
        Self { severity: "critical".to_owned(), id: "OtherCauses".to_owned(), title, ..Self::default() }
    }

    /// For a finding of our own table, of which a report has these steps.
    fn known(id: Id, steps: Vec<String>) -> Self {
        let (own, reported): (Vec<_>, Vec<_>) = steps.into_iter().partition(|step| is_own_step(id, step));
        let remedy = if own.is_empty() { id.steps() } else { own };
        let (severity, name, title) = (id.severity().to_string(), id.to_string(), id.title().to_owned());
        Self { severity, id: name, title, remedy, reported }
    }
}

/// Lines in, a [`Rollup`] out.
#[must_use]
#[derive(Debug, Default)]
pub struct Fleet {
    keeps_commands: bool,
    nodes: HashMap<String, Newest>,
    words: Table<String>,
    causes: Table<CauseKey>,
    peer_memories: Table<PeerMemory>,
    lines: usize,
    reports: usize,
    superseded: usize,
    /// Lines without any object in them.
    others: usize,
    damaged: usize,
    damages: Vec<Damage>,
}

impl Fleet {
    /// The same, which also keeps the commands of each node.
    pub fn keeping_commands(self, keeps_commands: bool) -> Self {
        Self { keeps_commands, ..self }
    }

    /// Takes one line, without its newline; `source` and `number` are for naming it when it is damaged.
    pub fn line(&mut self, source: &str, number: usize, line: &[u8]) {
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        self.lines += 1;
        let begin = |text: &[u8]| text.iter().position(|byte| *byte == b'{');
        let Some(mut at) = begin(line) else {
            let is_text = Standing::ALL.iter().any(|standing| is_headline(line, *standing));
            if is_text {
                let why = "the text of `doctor`: fleet reads what `doctor --format json` prints";
                return self.damage(source, number, b"", why);
            }
            self.others += 1;
            return;
        };
        // Files that lack their last newline make one line of two reports. What else some collectors
        // put behind a report is passed over.
        loop {
            let (prefix, object) = line.split_at(at);
            match self.report(object) {
                Ok(length) => match begin(&object[length..]) {
                    Some(next) => at += length + next,
                    None => return,
                },
                Err(why) => return self.damage(source, number, prefix, &why),
            }
        }
    }

    /// A line that is too long to be kept.
    pub fn overlong(&mut self, source: &str, number: usize, limit: usize) {
        self.lines += 1;
        self.damage(source, number, b"", &format!("longer than {limit} bytes"));
    }

    fn damage(&mut self, source: &str, number: usize, prefix: &[u8], why: &str) {
        self.damaged += 1;
        if self.damages.len() < NAMED {
            // The pod's name, and not a whole report before this one.
            let prefix = prefix.split(|byte| *byte == b'{').next().unwrap_or_default();
            let [prefix, why] = [String::from_utf8_lossy(prefix).trim(), why].map(cut);
            self.damages.push(Damage { source: source.to_owned(), line: number, prefix, why });
        }
    }

    /// How long the report is that was taken.
    fn report(&mut self, object: &[u8]) -> Result<usize, String> {
        let (mut entry, length) = Entry::read(object)?;
        let object = &object[..length];
        let name = entry.node.as_str();
        self.reports += 1;
        let (time, order) = (seconds(&entry.time), self.lines);
        let known = self.nodes.get(name);
        self.superseded += usize::from(known.is_some());
        if known.is_some_and(|known| (known.time, known.order) > (time, order)) {
            return Ok(length);
        }
        let mut causes = entry.causes(object);
        if self.causes.all.len() >= MAX_CAUSES {
            causes.retain(|(cause, _)| self.causes.numbers.contains_key(cause));
            causes.push((CauseKey::others(), Vec::new()));
        }
        let versions = entry.versions().map(|value| self.words.number(shortened(value)));
        let peer_memory = entry.peer_memory.take().map(PeerMemory::bounded);
        let kept = Newest {
            peer_memory: peer_memory.map(|peer_memory| self.peer_memories.number(peer_memory)),
            time,
            order,
            verdict: self.words.number(shortened(&entry.verdict)),
            standing: entry.standing(),
            causes: causes.into_iter().map(|cause| self.numbered(cause)).collect(),
            versions,
            wait: entry.wait().map(|(file, seconds)| (self.words.number(shortened(file)), seconds)),
        };
        self.nodes.insert(shortened(name), kept);
        Ok(length)
    }

    /// A cause by its number, with the steps that are this node's own.
    fn numbered(&mut self, (cause, mut own): CauseHere) -> (u32, Vec<String>) {
        own.retain(|step| self.keeps_commands && !cause.remedy.contains(step));
        (self.causes.number(cause), own)
    }

    /// The same, with what the API server also knows.
    pub fn rollup_in(self, cluster: &Cluster) -> Rollup {
        let causes = cluster.causes(|node| self.nodes.contains_key(node));
        self.rollup().with(causes)
    }

    /// All that was said, added up.
    pub fn rollup(self) -> Rollup {
        let mut nodes: Vec<_> = self.nodes.into_iter().collect();
        nodes.sort_by(|one, other| one.0.cmp(&other.0));
        let word = |number: u32| self.words.all[number as usize].as_str();
        let mut standings: BTreeMap<Standing, usize> = BTreeMap::new();
        let mut verdicts: BTreeMap<String, usize> = BTreeMap::new();
        let mut causes = vec![NodesOfCause::default(); self.causes.all.len()];
        let mut versions: BTreeMap<&str, BTreeMap<String, usize>> = BTreeMap::new();
        let mut slowest = Vec::new();
        let mut not_ready = 0;
        for (name, kept) in &nodes {
            let verdict = word(kept.verdict);
            *verdicts.entry(verdict.to_owned()).or_default() += 1;
            *standings.entry(kept.standing).or_default() += 1;
            not_ready += usize::from(kept.standing != Standing::Ok);
            for (cause, commands) in &kept.causes {
                causes[*cause as usize].push(name, commands);
            }
            for (key, value) in VERSIONS.iter().zip(kept.versions) {
                *versions.entry(key).or_default().entry(word(value).to_owned()).or_default() += 1;
            }
            if let Some((file, seconds)) = kept.wait {
                slowest.push(Wait { node: name.clone(), file: word(file).to_owned(), seconds });
            }
        }
        // What a report does not have is not a version that differs.
        for values in versions.values_mut() {
            values.remove("");
        }
        versions.retain(|_, values| values.len() > 1);
        let (slowest, more_waits) = rollup::slowest(slowest);
        Rollup {
            schema: "peermem-gate-fleet/v1",
            nodes: nodes.len(),
            not_ready,
            standings,
            verdicts,
            causes: rollup::causes(self.causes.all, causes),
            versions: versions.into_iter().map(|(key, values)| (key.to_owned(), values)).collect(),
            slowest,
            more_waits,
            reports: self.reports,
            superseded: self.superseded,
            other_lines: self.others,
            damaged: self.damaged,
            damages: self.damages,
            ..Rollup::default()
        }
    }
}

/// The same value once, by a number.
#[derive(Debug)]
struct Table<T> {
    all: Vec<Rc<T>>,
    numbers: HashMap<Rc<T>, u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { all: Vec::new(), numbers: HashMap::new() }
    }
}

impl<T: Eq + Hash> Table<T> {
    fn number(&mut self, value: T) -> u32 {
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let value = Rc::new(value);
        self.all.push(Rc::clone(&value));
        self.numbers.insert(value, number);
        number
    }
}

/// The beginning of what a damaged line has: enough for a pod's name, and anybody's bytes may follow.
fn cut(text: &str) -> String {
    const SHOWN: usize = 200;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether a line begins a report of `doctor` for people.
fn is_headline(line: &[u8], standing: Standing) -> bool {
    let rest = line.strip_prefix(standing.to_string().as_bytes());
    rest.is_some_and(|rest| rest.starts_with(b": ") || rest.starts_with(b" "))
}

/// A time that cannot be read is older than any that can.
fn seconds(time: &str) -> u64 {
    let read = time.parse::<jiff::Timestamp>();
    read.ok().and_then(|time| time.as_second().try_into().ok()).unwrap_or(0)
}
