// SPDX-License-Identifier: Apache-2.0
//! The kind of a file, by its name and its beginning.

use super::super::file::OpenLog;
use super::super::walk::FoundFile;
use crate::gathered::owner::{is_systems, of_line};
use crate::log::RuleSet;
use crate::record::{self, Lines};
use std::collections::BTreeMap;
use std::io;

/// How much of a file's beginning is looked at.
const HEAD: u64 = 256 << 10;
/// More is read of a file that the user names.
const NAMED_HEAD: u64 = 8 << 20;
const LOOK: &[u8] = b"look {";

/// The kind of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// Output of containers; the container, where its lines have no prefix.
    Streams(Option<&'static str>),
    /// A system log.
    System {
        /// Whether gzip has compressed it.
        is_gz: bool,
    },
    /// Nothing that is known, and why.
    Other(&'static str),
}

/// Counts over the beginning of a file.
#[derive(Debug, Default)]
struct Beginning {
    /// Kinds of lines, as bits.
    kinds: u8,
    /// Lines that a container of this name may have written.
    votes: BTreeMap<&'static str, u64>,
}

const PREFIXED: u8 = 1;
const SYSTEM: u8 = 2;
const LOOKS: u8 = 4;
const BINARY: u8 = 8;

pub(super) fn kind(found: &FoundFile, rule_sets: &BTreeMap<&'static str, RuleSet>) -> io::Result<FileKind> {
    const ARCHIVES: [&str; 7] = [".tar", ".tgz", ".tar.gz", ".tar.xz", ".tar.bz2", ".zip", ".xz"];
    let FoundFile { path, is_named, .. } = found;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if ARCHIVES.iter().any(|archive| name.ends_with(archive)) {
        return Ok(FileKind::Other("an archive: unpack it, and name the directory"));
    }
    let mut log = OpenLog::found(found)?;
    let is_gz = log.is_gz()?;
    let seen = seen(log, if *is_named { NAMED_HEAD } else { HEAD }, rule_sets)?;
    Ok(match seen.winner(rule_sets) {
        _ if seen.has(BINARY) => FileKind::Other("not a text"),
        _ if seen.has(PREFIXED) => FileKind::Streams(None),
        Winner::One(container) => FileKind::Streams(Some(container)),
        Winner::Several => FileKind::Other(
            "two containers may have written it: name it after its container (nvidia-driver-ctr.log), or \
                take `kubectl logs --prefix`",
        ),
        Winner::Nobody if seen.has(LOOKS) => FileKind::Streams(Some("peermem-gate")),
        Winner::Nobody if seen.has(SYSTEM) => FileKind::System { is_gz },
        Winner::Nobody => FileKind::Other(
            "none of its lines is known: name it after its container (nvidia-driver-ctr.log), or take \
                `kubectl logs --prefix`",
        ),
    })
}

fn seen(log: OpenLog, head: u64, rule_sets: &BTreeMap<&'static str, RuleSet>) -> io::Result<Beginning> {
    let (mut seen, mut lines) = (Beginning::default(), Lines::of_any_length());
    log.decoded(head, &mut |bytes| {
        seen.mark(BINARY, memchr::memchr(0, bytes).is_some());
        lines.push(bytes, |line| seen.line(line, rule_sets));
    })?;
    lines.end(|line| seen.line(line, rule_sets));
    Ok(seen)
}

enum Winner {
    One(&'static str),
    Several,
    Nobody,
}

impl Beginning {
    fn has(&self, kind: u8) -> bool {
        self.kinds & kind != 0
    }

    fn mark(&mut self, kind: u8, is_it: bool) {
        self.kinds |= if is_it { kind } else { 0 };
    }

    fn line(&mut self, line: &[u8], rule_sets: &BTreeMap<&'static str, RuleSet>) {
        if of_line(line).is_some() {
            return self.mark(PREFIXED, true);
        }
        let text = record::printed(line).text;
        self.mark(LOOKS, memchr::memmem::find(&text, LOOK).is_some());
        for (container, rules) in rule_sets {
            if rules.fit(&text).is_some() {
                *self.votes.entry(container).or_default() += 1;
            }
        }
        self.mark(SYSTEM, is_systems(line));
    }

    /// The container of which the log has the most lines; where several may have written them, the one with the
    /// fewest programs.
    fn winner(&self, rule_sets: &BTreeMap<&'static str, RuleSet>) -> Winner {
        let Some(most) = self.votes.values().max() else { return Winner::Nobody };
        let first: Vec<_> =
            self.votes.iter().filter(|(_, votes)| *votes == most).map(|(name, _)| *name).collect();
        let sources = |name: &&str| rule_sets[name].sources();
        let fewest = first.iter().map(|name| sources(name).count()).min();
        let fewest: Vec<_> = first.iter().filter(|name| Some(sources(name).count()) == fewest).collect();
        if fewest.iter().all(|name| sources(name) == sources(fewest[0])) {
            Winner::One(fewest[0])
        } else {
            Winner::Several
        }
    }
}
