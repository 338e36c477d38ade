// SPDX-License-Identifier: Apache-2.0
//! The lines of the upstream programs' logs and of the kernel's, and what they mean. Pure.
//!
//! [`RULES`] is the whole knowledge. A line fits if a program that may have written that log has exactly this line,
//! behind the prefix of that program's logger. A line that almost fits means nothing. [`LogScanner`] reads a log.

mod advice;
mod awaited;
mod boots;
mod dkms;
mod kubelet;
mod pattern;
mod prefix;
mod rule;
mod scan;
mod service;
mod source;
mod table;
mod trouble;

pub use awaited::{WaitTarget, awaited};
pub use dkms::{DkmsFailure, failed_build};
pub use kubelet::About;
pub use rule::{ActiveWhen, Drawn, Pattern};
pub use scan::{ClockStep, Form, LogMatch, LogScanner, Scanned, WORDS, scan};
pub use service::{SERVICES, WatchedService, is_of_a_service};
pub use source::{Lane, LogSource, LogSources};
pub use table::{FindingRule, LogEvent, LogRule, RULES};
pub use trouble::{FailureLine, Insist, plain_trouble, trouble};

use crate::operators::Operators;
use crate::stamp::Stamp;
use kubelet::Subject;
use prefix::LinePrefix;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Of a field as much as fits a line.
const FIELD: usize = 200;
/// Of a whole text and of what went wrong more is kept: the decisive words may be anywhere in it.
const CAUSE: usize = 700;
/// No pattern is longer.
const LONGEST: usize = 4096;

/// So many bytes of a pattern are compared first.
const OPENING: usize = 4;

/// A line that fits a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// The event of the rule.
    pub event: LogEvent,
    /// The pattern.
    pub pattern: &'static Pattern,
    /// The text of the pattern's fields; hostile, like all that comes out of a log.
    pub fields: BTreeMap<String, String>,
    /// The pod that kubelet's line is about, `NAMESPACE/NAME`.
    pub pod: Option<String>,
}

/// The rules of some programs.
#[must_use]
#[derive(Clone, Debug)]
pub struct RuleSet {
    sources: LogSources,
    rows: Vec<IndexedPattern>,
    operators: Operators,
}

impl Fit {
    fn is_refusal(&self) -> bool {
        self.pattern.source == LogSource::Hook
    }
}

#[derive(Clone, Copy, Debug)]
struct IndexedPattern {
    event: LogEvent,
    pattern: &'static Pattern,
    /// The pattern's first bytes, which settle nearly every line of a log; `None` where a field comes earlier.
    opening: Option<&'static [u8; OPENING]>,
}

impl RuleSet {
    /// The rules of these programs.
    pub fn of(sources: LogSources) -> Self {
        let rows = RULES.iter().flat_map(|rule| {
            let row = |pattern: &'static Pattern| IndexedPattern {
                event: rule.event,
                pattern,
                opening: pattern::opening(pattern.words).as_bytes().first_chunk(),
            };
            rule.patterns.iter().filter(move |pattern| sources.contain(pattern.source)).map(row)
        });
        Self { sources, rows: rows.collect(), operators: Operators::default() }
    }

    /// With the operators of a node, whose pods kubelet's lines must be about.
    pub fn trusting(self, operators: &Operators) -> Self {
        Self { operators: operators.clone(), ..self }
    }

    /// The programs.
    pub fn sources(&self) -> LogSources {
        self.sources
    }

    /// The rule that this line fits, if there is one. Of several patterns that fit, the one with the most words of
    /// its own counts. Who refuses a container is known behind a chain of causes, too.
    pub fn fit(&self, line: &[u8]) -> Option<Fit> {
        let line = &line[..line.len().min(LONGEST)];
        let has = |word: &&str| memchr::memmem::find(line, word.as_bytes()).is_some();
        let is_about = || ["nvidia", "OCI ", "NVIDIA", "gpu", "CDI "].iter().any(has);
        self.fit_whole(line).or_else(|| {
            let may_refuse = self.sources.contain(LogSource::Hook) && !is_indented(line) && is_about();
            let stripped = Some(prefix::strip(line)).filter(|_| may_refuse)?;
            let is_kubelets = stripped.prefix == LinePrefix::Klog;
            let words = (!is_kubelets).then(|| kubelet::refusals(&stripped.text))?;
            words.into_iter().find_map(|words| self.fit_whole(words).filter(Fit::is_refusal))
        })
    }

    fn fit_whole(&self, line: &[u8]) -> Option<Fit> {
        let stripped = prefix::strip(line);
        // An escape sequence may precede the words.
        let text = match stripped.text.first() {
            Some(&ESCAPE) => Cow::Owned(smoothed(&stripped.text)),
            _ => stripped.text,
        };
        let opening = text.first_chunk();
        let mut rows =
            self.rows.iter().filter(|row| row.opening.is_none() || row.opening == opening).peekable();
        rows.peek()?;
        let text = smoothed(&text);
        let has_prefix = |row: &&IndexedPattern| match row.pattern.source {
            LogSource::Kubelet => stripped.prefix == LinePrefix::Klog && !is_indented(line),
            LogSource::Hook => stripped.prefix == LinePrefix::None && !is_indented(line),
            source => stripped.prefix == LinePrefix::None || source.prefixes().contains(&stripped.prefix),
        };
        let subject = Subject::of(&prefix::strip(line).text);
        let counts = |row: &&IndexedPattern| {
            row.pattern.source != LogSource::Kubelet
                || kubelet::counts(row.event.rule().about, subject.as_ref(), &self.operators)
        };
        let rows = rows.filter(has_prefix).filter(counts);
        let fitting = rows.filter_map(|row| Some((row, pattern::fit(row.pattern.words, &text)?)));
        let knowledge =
            |row: &IndexedPattern| (!row.pattern.is_general(), pattern::own_words(row.pattern.words));
        let (row, fields) = fitting.max_by_key(|(row, _)| (knowledge(row), Reverse(row.event)))?;
        let short = |name: &str, field: &[u8]| match (row.pattern.source, name) {
            (LogSource::Kubelet, "why") => ending(field, CAUSE),
            (LogSource::Kubelet, "cause") => kubelet::without_code(&ending(kubelet::cause(field), CAUSE)),
            (LogSource::Kubelet, "fabric" | "handler" | "plugin" | "webhook") => {
                ending(field, FIELD).replace('"', "").trim_end_matches(':').to_owned()
            }
            (LogSource::Kubelet, "device") => kubelet::without_code(&ending(field, FIELD)),
            (LogSource::Kubelet, _) => ending(field, FIELD),
            _ => shortened(field, if name == "cause" { CAUSE } else { FIELD }),
        };
        let fields = fields.into_iter().map(|(name, field)| (name.to_owned(), short(name, field)));
        let pod = subject.filter(|_| row.pattern.source == LogSource::Kubelet).map(|subject| subject.pod);
        Some(Fit { event: row.event, pattern: row.pattern, fields: fields.collect(), pod })
    }
}

/// As what a probe prints is in kubelet's log, and a container's command in what kubectl describes.
fn is_indented(line: &[u8]) -> bool {
    line.starts_with(b" ") || line.starts_with(b"\t")
}

const ESCAPE: u8 = 0x1b;

/// Without a terminal's escape sequences, and with one blank where there are several: openibd puts its `[ OK ]` into
/// column 60 by one or the other.
fn smoothed(text: &[u8]) -> Vec<u8> {
    let mut smooth = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            ESCAPE => {
                // CSI: `ESC [`, parameters, and a letter.
                let _ = bytes.find(u8::is_ascii_alphabetic);
            }
            b' ' | b'\t' | b'\r' if smooth.last() == Some(&b' ') => {}
            b'\t' | b'\r' => smooth.push(b' '),
            byte => smooth.push(byte),
        }
    }
    while smooth.last() == Some(&b' ') {
        smooth.pop();
    }
    smooth
}

/// Hostile bytes as a text of bounded length. Control characters stay: who prints it escapes them.
fn shortened(bytes: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(most)]);
    if bytes.len() > most { format!("{}…", text.trim_end_matches('\u{fffd}')) } else { text.into_owned() }
}

/// The same of its end: kubelet puts what it did before what went wrong, and the pod's name behind it.
fn ending(bytes: &[u8], most: usize) -> String {
    let end = memchr::memmem::find(bytes, b"\" pod=").unwrap_or(bytes.len());
    let bytes = bytes[..end].strip_suffix(b"\"").unwrap_or(&bytes[..end]);
    // Go has quoted it again and again.
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(most)..]).replace("\\n", " ");
    let text = text.replace('\\', "");
    if bytes.len() > most { format!("…{}", text.trim_start_matches('\u{fffd}')) } else { text }
}

/// The time in a line's own prefix, for logs without times.
pub fn own_stamp(line: &[u8], not_after_ns: i64) -> Option<Stamp> {
    prefix::stamp(line, not_after_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns() -> impl Iterator<Item = &'static Pattern> {
        RULES.iter().flat_map(|rule| rule.patterns)
    }

    #[test]
    fn every_log_pattern_is_well_formed() {
        for row in patterns() {
            let opens = row.words.matches('<').count();
            assert_eq!(opens, row.words.matches('>').count(), "{}", row.words);
            assert!(row.words.len() <= LONGEST && !row.words.is_empty(), "{}", row.words);
            // Smoothed texts have no such blanks: such a row would never fit.
            assert_eq!(smoothed(row.words.as_bytes()), row.words.as_bytes(), "{}", row.words);
            let inner = row.words.matches("..>").count() - usize::from(row.words.ends_with("..>"));
            assert!(inner <= 1, "{}: two fields without an end take time without one", row.words);
        }
    }

    /// kubelet repeats a pod's author. What comes behind a field that may contain anything may be that author's.
    #[test]
    fn kubelets_words_are_not_searched_for_after_those_of_a_pods_author() {
        for rule in RULES {
            let kubelets = rule.patterns.iter().filter(|pattern| pattern.source == LogSource::Kubelet);
            for Pattern { words, .. } in kubelets {
                let open = words.match_indices("..>").filter(|(at, end)| at + end.len() < words.len());
                let is_chain = |(at, _): (usize, &str)| words[..at].ends_with("<chain");
                assert!(open.clone().all(is_chain), "{words}");
                let of_node = words! {
                    "\"command failed\"" "\"Failed to start " "\"Eviction manager: attempting "
                    "\"Unable to register " "\"Error updating node" "\"Failed to ensure lease"
                };
                let is_about_pods = !of_node.iter().any(|of_node| words.starts_with(of_node));
                assert_eq!(rule.about != About::Node, is_about_pods, "{words}: whose pods?");
            }
        }
    }

    #[test]
    fn no_log_pattern_is_listed_twice() {
        for row in patterns() {
            let same = |other: &&Pattern| other.source == row.source && other.words == row.words;
            assert_eq!(patterns().filter(same).count(), 1, "{}", row.words);
        }
    }

    #[test]
    fn a_phrase_shows_no_field_that_its_line_lacks() {
        for rule in RULES {
            let text = rule.event.text(&BTreeMap::new());
            assert!(!text.contains(['<', '>']) && !text.ends_with(':'), "{}: {text}", rule.event);
        }
        let fields = BTreeMap::from([("module".to_owned(), "ib_core".to_owned())]);
        assert_eq!(LogEvent::MofedModuleInUse.text(&fields), "ib_core is in use and cannot be unloaded");
    }

    #[test]
    fn every_field_of_a_phrase_is_in_a_pattern() {
        for rule in RULES {
            for field in rule.phrase.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
                let has = |pattern: &Pattern| {
                    pattern.words.contains(&format!("<{field}>"))
                        || pattern.words.contains(&format!("<{field}..>"))
                };
                let is_counted = rule.patterns.is_empty();
                assert!(
                    is_counted || rule.patterns.iter().any(has),
                    "{}: no pattern has {field}",
                    rule.event
                );
            }
        }
    }

    #[test]
    fn every_event_is_a_row_of_the_table_of_rules() {
        assert!(RULES.iter().all(|rule| std::ptr::eq(rule.event.rule(), rule)));
    }

    #[test]
    fn a_pattern_matches_only_in_the_log_of_its_program() {
        let means = |container: &str, line: &str| {
            RuleSet::of(LogSources::in_container(container)).fit(line.as_bytes()).map(|fit| fit.event)
        };
        let set = "[21-Nov-25_11:58:39] Setting driver ready state";
        assert_eq!(means("mofed-container", set), Some(LogEvent::MofedMarkerSet));
        assert_eq!(means("nvidia-driver-ctr", set), None, "another container");
        assert_eq!(means("train", set), None);
        // The same words mean something else behind another program's prefix.
        let start = "NVIDIA driver container exec start";
        assert_eq!(
            means("mofed-container", &format!("[21-Nov-25_11:51:06] {start}")),
            Some(LogEvent::MofedStarted)
        );
        let go = format!("2026-09-09T15:56:46.385Z\tINFO\tentrypoint/entrypoint.go:106\t{start}");
        assert_eq!(means("mofed-container", &go), Some(LogEvent::MofedLoads));
        assert_eq!(
            means("mofed-container", &format!("level=info msg=\"{start}\"")),
            Some(LogEvent::MofedLoads)
        );
        assert_eq!(means("mofed-container", &format!("Fri Nov 21 11:54:07 UTC 2025 {start}")), None);
    }

    #[test]
    fn escape_sequences_of_terminals_are_removed() {
        let rules = RuleSet::of(LogSources::in_container("mofed-container"));
        for line in [
            "Loading HCA driver and Access Layer:\u{1b}[60G[\u{1b}[0;32m  OK  \u{1b}[0;39m]",
            "Loading HCA driver and Access Layer:                       [  OK  ]\r",
            "Loading HCA driver and Access Layer:[60G[  OK  ]",
        ] {
            let event = rules.fit(line.as_bytes()).map(|fit| fit.event);
            assert_eq!(event, Some(LogEvent::MofedLoaded), "{line:?}");
        }
    }
}
