// SPDX-License-Identifier: Apache-2.0
//! The lines of `tests/log_lines`.
#![allow(dead_code, reason = "shared by tests")]

use peermem_doctor::log::{LogEvent, Pattern, RULES};
use std::fs;
use std::path::Path;

/// The lines of a pattern.
pub(crate) struct Example {
    pub(crate) event: LogEvent,
    pub(crate) pattern: &'static Pattern,
    pub(crate) fits: Vec<String>,
    pub(crate) almost: Vec<String>,
}

/// Every pattern of the table, with its event.
pub(crate) fn patterns() -> impl Iterator<Item = (LogEvent, &'static Pattern)> {
    RULES.iter().flat_map(|rule| rule.patterns.iter().map(|pattern| (rule.event, pattern)))
}

/// All of them. Panics where the file names a pattern that the table does not have.
pub(crate) fn examples() -> Vec<Example> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/log_lines");
    let text = fs::read_to_string(path).expect("tests/log_lines");
    let mut all: Vec<Example> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let bytes = |line: &str| line.replace("<TAB>", "\t").replace("<ESC>", "\u{1b}");
        if let Some(fits) = line.strip_prefix("+ ") {
            all.last_mut().expect("a pattern before it").fits.push(bytes(fits));
        } else if let Some(almost) = line.strip_prefix("- ") {
            all.last_mut().expect("a pattern before it").almost.push(bytes(almost));
        } else {
            let is_it = |pattern: &Pattern| line == format!("{:?}: {}", pattern.source, pattern.words);
            let (event, pattern) = patterns()
                .find(|(_, pattern)| is_it(pattern))
                .unwrap_or_else(|| panic!("no pattern: {line}"));
            all.push(Example { event, pattern, fits: Vec::new(), almost: Vec::new() });
        }
    }
    all
}
