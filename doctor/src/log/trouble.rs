// SPDX-License-Identifier: Apache-2.0
//! The line by which a program says why it ends, in a log of which no sentence is known.

use super::shortened;
use crate::record::container;
use crate::stamp::Stamp;

/// Parts of words that programs use for it, in either case of the first letter.
const WORDS: [&str; 13] = [
    "rror",
    "atal",
    "FATAL",
    "ailed",
    "ailure",
    "annot",
    "ould not",
    "nable to",
    "unbound variable",
    "enied",
    "anic:",
    "efused",
    "o such ",
];

/// The last such line of a container's log, and its time. The first line of `tail` may be cut.
#[must_use]
pub fn trouble(tail: &[u8], not_after_ns: i64) -> Option<(Option<Stamp>, String)> {
    let records = tail.split(|byte| *byte == b'\n').rev().filter_map(container);
    let mut lines = records.filter_map(|record| {
        let text = String::from_utf8_lossy(record.text.trim_ascii()).into_owned();
        let is_trouble = WORDS.iter().any(|word| text.contains(word));
        is_trouble.then(|| (record.written.stamp(not_after_ns), shortened(text.as_bytes())))
    });
    lines.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_trouble_counts() {
        let line = |text: &str| format!("2025-11-21T11:58:39.5Z stderr F {text}\n");
        let log = [
            "half a line that failed\n".to_owned(),
            line("level=error msg=\"first\""),
            line("/usr/local/bin/nvidia-driver: line 769: RHEL_VERSION: unbound variable"),
            line("Shutting Down"),
        ];
        let (at, text) = trouble(log.concat().as_bytes(), i64::MAX).unwrap();
        assert!(at.is_some() && text.ends_with("RHEL_VERSION: unbound variable"), "{text}");
        assert_eq!(trouble(line("all is well").as_bytes(), i64::MAX), None);
        assert_eq!(trouble(b"\xff\xfe error\n", i64::MAX), None, "not in a log's form");
    }
}
