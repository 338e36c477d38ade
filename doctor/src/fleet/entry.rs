// SPDX-License-Identifier: Apache-2.0
//! One report as it comes in: of this version or another one, from `doctor` or from `check`. What
//! other versions add is passed over; what they lack is not made up.

use super::{CauseKey, VERSIONS};
use crate::finding::Id;
use crate::peer_memory::PeerMemory;
use crate::report::standing::{Standing, StandingFinding};
use peermem_gate::ready::condition::{Consequence, Reason};
use serde::Deserialize;
use std::collections::HashSet;

/// The schemas of all versions begin so.
const SCHEMA: &str = "peermem-gate/";
/// Stands for the node's name in a remedy that is reported once for all nodes.
const NODE: &str = "NODE";

/// Our own reports have a handful of root causes, and some ten steps for the longest. Others may send anything.
const MAX_CAUSES: usize = 100;
const MAX_STEPS: usize = 20;
/// Far above any of our titles or steps, in bytes.
const LONGEST: usize = 2000;

/// A word's first [`LONGEST`] bytes at most.
pub(super) fn shortened(word: &str) -> String {
    let mut end = word.len().min(LONGEST);
    while !word.is_char_boundary(end) {
        end -= 1;
    }
    word[..end].to_owned()
}

/// A root cause of a node, and its steps there.
pub(super) type CauseHere = (CauseKey, Vec<String>);

/// As they are.
fn own(steps: &[String]) -> Vec<String> {
    steps.iter().take(MAX_STEPS).map(|step| shortened(step)).collect()
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Entry {
    schema: String,
    version: String,
    pub(super) node: String,
    kernel: String,
    arch: String,
    pub(super) time: String,
    pub(super) verdict: String,
    findings: Option<Vec<Found>>,
    chain: Vec<Link>,
    drivers: Drivers,
    pub(super) peer_memory: Option<PeerMemory>,
}

#[derive(Debug, Default, Deserialize)]
struct Drivers {
    mofed: Option<String>,
    nvidia: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Found {
    id: String,
    #[serde(default)]
    severity: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    remedy: Vec<String>,
    /// The remedy with placeholders for the words of this node, where it has such words.
    #[serde(default)]
    steps: Vec<String>,
    follows_from: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Link {
    file: String,
    broken: bool,
    waited_s: Option<i64>,
}

/// Only of reports without findings.
#[derive(Debug, Deserialize)]
struct Judged {
    conditions: Vec<Condition>,
}

#[derive(Debug, Deserialize)]
struct Condition {
    status: String,
    reason: String,
    remedy: Option<String>,
}

impl Entry {
    /// The report with which this begins, and how many bytes it has.
    ///
    /// # Errors
    /// In words, when it is no report that names a node and a verdict.
    pub(super) fn read(object: &[u8]) -> Result<(Self, usize), String> {
        let mut all = serde_json::Deserializer::from_slice(object).into_iter::<Self>();
        let entry = match all.next() {
            Some(Ok(entry)) => entry,
            Some(Err(error)) if error.is_eof() => {
                return Err(format!("cut off after {} bytes", object.len()));
            }
            Some(Err(error)) => return Err(format!("not a report: {error}")),
            None => return Err("not a report".to_owned()),
        };
        if !entry.schema.starts_with(SCHEMA) {
            return Err(format!("not a report of peermem-gate (schema {:?})", entry.schema));
        }
        if entry.node.is_empty() || entry.verdict.is_empty() {
            return Err(format!("a report of schema {:?} without a node or a verdict", entry.schema));
        }
        Ok((entry, all.byte_offset()))
    }

    /// In the order of [`VERSIONS`]; empty where the report does not have it.
    pub(super) fn versions(&self) -> [&str; VERSIONS.len()] {
        let Drivers { mofed, nvidia } = &self.drivers;
        let [mofed, nvidia] = [mofed, nvidia].map(|version| version.as_deref().unwrap_or_default());
        [&self.schema, &self.version, &self.kernel, &self.arch, mofed, nvidia]
    }

    /// Where the readiness chain stops, and for how many seconds it has.
    pub(super) fn wait(&self) -> Option<(&str, i64)> {
        let broken = self.chain.iter().find(|step| step.broken)?;
        Some((&broken.file, broken.waited_s?))
    }

    /// How the node stands, by the rule of `doctor`.
    pub(super) fn standing(&self) -> Standing {
        let findings = self.findings.as_ref().map(|findings| {
            findings.iter().map(|found| StandingFinding {
                id: &found.id,
                severity: &found.severity,
                is_root: found.follows_from.is_none(),
            })
        });
        Standing::of(&self.verdict, findings)
    }

    /// The root causes, without findings that follow from them. `object` is the report itself.
    pub(super) fn causes(&self, object: &[u8]) -> Vec<CauseHere> {
        let Some(findings) = &self.findings else { return self.deciding(object).into_iter().collect() };
        let followed: HashSet<_> =
            findings.iter().filter_map(|other| other.follows_from.as_deref()).collect();
        let is_cause = |found: &&Found| {
            found.follows_from.is_none() && (found.severity != "info" || followed.contains(&*found.id))
        };
        let roots = findings.iter().filter(is_cause).take(MAX_CAUSES);
        let cause = |found: &Found| {
            let steps =
                if found.steps.is_empty() { self.without_names(&found.remedy) } else { own(&found.steps) };
            let (severity, name) = (shortened(&found.severity), shortened(&found.id));
            let key = match Id::ALL.iter().copied().find(|id| id.name() == name) {
                Some(id) => CauseKey { severity, ..CauseKey::known(id, steps) },
                // A finding of another version: all of it is that node's word.
                None => CauseKey {
                    severity,
                    id: name,
                    title: shortened(&found.title),
                    reported: steps,
                    ..CauseKey::default()
                },
            };
            (key, own(&found.remedy))
        };
        let mut known = HashSet::new();
        roots.map(cause).filter(|(cause, _)| known.insert(cause.clone())).collect()
    }

    fn without_names(&self, steps: &[String]) -> Vec<String> {
        steps.iter().take(MAX_STEPS).map(|step| shortened(&self.without_name(step))).collect()
    }

    /// `check` reports conditions only: the one that decides is the cause.
    fn deciding(&self, object: &[u8]) -> Option<CauseHere> {
        if self.standing() == Standing::Ok {
            return None;
        }
        let is_blocked = self.verdict == "Blocked";
        let wanted = if is_blocked { Consequence::Blocks } else { Consequence::Waits };
        let mut all = serde_json::Deserializer::from_slice(object).into_iter::<Judged>();
        let conditions = all.next().and_then(Result::ok).map(|judged| judged.conditions).unwrap_or_default();
        let known = |condition: &Condition| {
            Reason::ALL.iter().copied().find(|reason| reason.to_string() == condition.reason)
        };
        let decides = |condition: &&Condition| match known(condition) {
            Some(reason) => reason.consequence() == wanted,
            // A reason of another version: the gate waits for what is False.
            None => condition.status == "False",
        };
        let severity = if is_blocked { "critical" } else { "warning" }.to_owned();
        let Some(condition) = conditions.iter().find(decides) else {
            let title = "no condition says why".to_owned();
            let id = shortened(&self.verdict);
            return Some((CauseKey { id, severity, title, ..CauseKey::default() }, Vec::new()));
        };
        let remedy = condition.remedy.as_slice();
        let key = match known(condition) {
            Some(reason) => CauseKey {
                severity,
                id: reason.to_string(),
                title: reason.meaning().to_owned(),
                remedy: Id::of(reason).map(Id::steps).unwrap_or_default(),
                ..CauseKey::default()
            },
            None => CauseKey {
                severity,
                id: shortened(&condition.reason),
                title: "a reason of another version of peermem-gate".to_owned(),
                reported: self.without_names(remedy),
                ..CauseKey::default()
            },
        };
        Some((key, own(remedy)))
    }

    /// The step with NODE in place of this node's name. Words that happen to be the node's name stay: a name in a
    /// command follows one of a few characters.
    fn without_name(&self, step: &str) -> String {
        let name = self.node.as_str();
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        let mut text = String::with_capacity(step.len());
        let mut rest = step;
        while let Some(at) = rest.find(name) {
            let (before, after) = (&rest[..at], &rest[at + name.len()..]);
            text += before;
            let is_named = before.ends_with(['=', '/', '`', '\'', '"']) && !after.starts_with(is_part);
            text += if is_named { NODE } else { name };
            rest = after;
        }
        text + rest
    }
}
