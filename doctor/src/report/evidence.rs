// SPDX-License-Identifier: Apache-2.0
//! Evidence as a line: its source and its words, whole, or short enough for a screen.

use crate::text::width;
use peermem_gate::ready::observation::Evidence;
use std::borrow::Cow;

/// kubelet's directory of logs.
const PODS: &str = "/var/log/pods/";
/// The directory of logs.
const LOGS: &str = "/var/log/";
/// The end of the name of a service.
const SERVICE: &str = ".service";
/// Between the beginning and the end of words that are too long.
const GAP: &str = " … ";
/// The end has so many times the columns of the beginning.
const ENDS: usize = 2;

/// The words of the evidence and their source; a source that the words name already is not named twice.
pub(super) fn line_of(evidence: &Evidence) -> String {
    line(sources(evidence).map(Cow::Borrowed), &evidence.seen)
}

/// The same, with at most so many columns for the words of a log. Their beginning says who failed, their end why: the
/// middle is left out. The path of a container's log is left out up to the container, because a remedy's command
/// names the pod.
pub(super) fn short(evidence: &Evidence, columns: usize) -> String {
    if is_of_a_log(&evidence.source) {
        line(sources(evidence).map(of_container), &ends(&evidence.seen, columns))
    } else {
        line_of(evidence)
    }
}

fn sources(evidence: &Evidence) -> impl Iterator<Item = &str> {
    let is_named = |source: &&str| !evidence.seen.contains(*source);
    evidence.source.split(", ").filter(is_named)
}

fn line<'a>(sources: impl Iterator<Item = Cow<'a, str>>, seen: &str) -> String {
    let sources: Vec<_> = sources.collect();
    if sources.is_empty() { seen.to_owned() } else { format!("{}: {seen}", sources.join(", ")) }
}

/// A text, then its ever shorter beginnings that end with a clause.
pub(super) fn beginnings(text: &str) -> impl Iterator<Item = &str> {
    let heads = text.rmatch_indices([';', '(']).map(|(at, _)| text[..at].trim_end());
    std::iter::once(text).chain(heads.filter(|head| head.matches('(').count() == head.matches(')').count()))
}

/// Whether these are words of a container, of a service or of the kernel.
pub(super) fn is_of_a_log(source: &str) -> bool {
    source.contains(LOGS) || source.ends_with(SERVICE)
}

/// `…/CONTAINER/N.log`
fn of_container(source: &str) -> Cow<'_, str> {
    let log = source.split_once(PODS).and_then(|(_, rest)| rest.split_once('/'));
    log.map_or(Cow::Borrowed(source), |(_pod, log)| Cow::Owned(format!("…/{log}")))
}

/// The beginning and the end of a text that takes more columns, cut between words where it has any.
fn ends(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let room = columns.saturating_sub(width(GAP));
    let first = taken(text.chars(), room / (ENDS + 1));
    let last = taken(text.chars().rev(), room - room / (ENDS + 1));
    let (head, tail) = (&text[..first], &text[text.len() - last..]);
    let head = head.rsplit_once(' ').map_or(head, |(words, _)| words);
    let tail = tail.split_once(' ').map_or(tail, |(_, words)| words);
    Cow::Owned(format!("{head}{GAP}{tail}"))
}

/// The bytes of the characters for which there is room.
fn taken(characters: impl Iterator<Item = char>, mut room: usize) -> usize {
    let mut buffer = [0; 4];
    let fits = characters.take_while(|c| {
        let columns = width(c.encode_utf8(&mut buffer));
        let is_room = columns <= room;
        room = room.saturating_sub(columns);
        is_room
    });
    fits.map(char::len_utf8).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn evidence_names_a_path_only_once() {
        for (source, seen, text) in [
            ("/a/b", "/a/b is not there", "/a/b is not there"),
            ("/proc/locks, /a/lock", "nobody holds /a/lock", "/proc/locks: nobody holds /a/lock"),
            ("/a/b", "is there", "/a/b: is there"),
        ] {
            assert_eq!(line_of(&Evidence::new(source, seen)), text);
        }
    }

    #[test]
    fn a_path_is_not_shortened_where_no_log_is_quoted() {
        let path = format!("/{}.ko is a stub", "x".repeat(200));
        assert_eq!(short(&Evidence::new("", path.as_str()), 120), path);
    }

    #[test]
    fn long_words_keep_their_beginning_and_their_end() {
        let long = format!("Error: cannot start: {}nvidia-modeset: exists", "failed to load: ".repeat(40));
        let shown = short(
            &Evidence::new("/host/var/log/pods/gpu-operator_a-1_uid/driver-validation/3.log", long),
            120,
        );
        let words = shown.strip_prefix("…/driver-validation/3.log: Error: cannot start: failed").unwrap();
        assert!(words.ends_with("failed to load: nvidia-modeset: exists"), "{shown}");
        assert!(width(&shown) <= 120 + width("…/driver-validation/3.log: "), "{shown}");
        assert_eq!(
            short(&Evidence::new("/var/log/syslog", "short words"), 120),
            "/var/log/syslog: short words"
        );
    }

    #[test]
    fn a_text_is_shortened_by_whole_clauses() {
        let heads: Vec<_> =
            beginnings("CRC differs (/a; /b (the loaded file)); a build makes none (3)").collect();
        let expected = [
            "CRC differs (/a; /b (the loaded file)); a build makes none",
            "CRC differs (/a; /b (the loaded file))",
            "CRC differs",
        ];
        assert_eq!(heads[1..], expected);
    }

    proptest! {
        #[test]
        fn random_words_fit_their_columns(text in ".{0,200}", columns in 10..100_usize) {
            prop_assert!(width(&ends(&text, columns)) <= columns);
        }
    }
}
