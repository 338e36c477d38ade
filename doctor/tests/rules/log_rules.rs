// SPDX-License-Identifier: Apache-2.0
//! Every pattern of the log rules has a line in `tests/log_lines` that fits, and one that almost does.

use crate::examples::{examples, patterns};
use peermem_doctor::log::{LogSource, LogSources, RuleSet};

/// The rules of every program that may write where this one does.
fn rules_beside(source: LogSource) -> RuleSet {
    let there = source.containers().iter().map(|name| LogSources::in_container(name));
    RuleSet::of(there.fold(LogSources::from_iter([source]), LogSources::or))
}

#[test]
fn every_log_pattern_has_sample_lines() {
    let examples = examples();
    for (_, pattern) in patterns() {
        let name = format!("{:?}: {}", pattern.source, pattern.words);
        let example = examples.iter().find(|example| example.pattern == pattern);
        let example =
            example.unwrap_or_else(|| panic!("add sample lines for {name} to doctor/tests/log_lines"));
        assert!(!example.fits.is_empty(), "{name}: add a line that matches to doctor/tests/log_lines");
        assert!(
            !example.almost.is_empty(),
            "{name}: add a line that almost matches to doctor/tests/log_lines"
        );
    }
}

#[test]
fn every_sample_line_matches_its_pattern_and_no_similar_line_matches() {
    for example in examples() {
        let pattern = example.pattern;
        let rules = rules_beside(pattern.source);
        for line in &example.fits {
            let fit = rules.fit(line.as_bytes()).unwrap_or_else(|| panic!("{line:?} matches no pattern"));
            assert_eq!(fit.pattern, pattern, "{line:?}");
        }
        for line in &example.almost {
            // A rule that knows only the form may have it.
            let fit = rules.fit(line.as_bytes());
            let is_general =
                fit.as_ref().is_none_or(|fit| fit.pattern.is_general() && fit.pattern != pattern);
            assert!(is_general, "{line:?} must not match: {fit:?}");
        }
    }
}

/// A log of somebody else may hold the very same words.
#[test]
fn log_lines_of_an_unknown_container_match_no_pattern() {
    let untrusted_log = RuleSet::of(LogSources::in_container("train"));
    for line in examples().iter().flat_map(|example| &example.fits) {
        assert_eq!(untrusted_log.fit(line.as_bytes()), None, "{line:?}");
    }
}

#[test]
fn half_a_line_or_a_line_with_an_extra_word_does_not_match() {
    for example in examples() {
        let pattern = example.pattern;
        let rules = rules_beside(pattern.source);
        let fits = |line: &str| rules.fit(line.as_bytes()).is_some_and(|fit| fit.pattern == pattern);
        if pattern.words.ends_with('>') {
            continue;
        }
        for line in &example.fits {
            let has_more = |end: usize| !line[end..].trim_matches(['"', ' ']).is_empty();
            for end in line.char_indices().map(|(end, _)| end).filter(|end| has_more(*end)) {
                assert!(!fits(&line[..end]), "{:?} of {line:?}", &line[..end]);
            }
            assert!(!fits(&format!("{line} more")), "{line:?} and a word more");
            assert!(!fits(&format!("so: {line}")), "a word before {line:?}");
        }
    }
}
