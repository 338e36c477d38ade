// SPDX-License-Identifier: Apache-2.0
//! What the upstream programs and the kernel say in their logs, and what it means. Pure.
//!
//! [`SENTENCES`] is the whole knowledge, a row each. A line is understood when a program that may have
//! written that log says exactly this, in the dress that the program's logger puts on. A line that almost
//! fits means nothing: nothing is guessed. [`Listener`] reads a whole log that way.

mod boots;
mod dress;
mod listen;
mod meaning;
mod pattern;
mod program;
mod table;
mod trouble;

pub use listen::{ClockStep, Form, Heard, Listener, Saying, hear, speaker};
pub use meaning::Meaning;
pub use program::{Speakers, Who};
pub use table::{SENTENCES, Sentence};
pub use trouble::trouble;

use crate::stamp::Stamp;
use dress::Dress;
use std::collections::BTreeMap;

/// Of a field and of a text as much as fits a line.
const FIELD: usize = 200;
/// No sentence is longer.
const LONGEST: usize = 4096;

/// A line that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Understood {
    /// The sentence that it is.
    pub sentence: &'static Sentence,
    /// What is in the sentence's fields; hostile, like all that comes out of a log.
    pub fields: BTreeMap<String, String>,
}

/// Finds sentences quickly: nearly every line of a log is none.
#[derive(Clone, Debug)]
pub struct Table {
    speakers: Speakers,
    rows: Vec<&'static Sentence>,
    /// The first bytes of all rows, hashed: what is not in here is no sentence.
    openings: [u64; 64],
    /// A row begins with a field: every line must be looked at.
    has_open_row: bool,
}

/// How many first bytes are hashed.
const KEY: usize = 4;

impl Table {
    /// The sentences of these programs.
    #[must_use]
    pub fn of(speakers: Speakers) -> Self {
        let rows: Vec<_> = SENTENCES.iter().filter(|sentence| speakers.contain(sentence.who)).collect();
        let mut openings = [0; 64];
        let mut has_open_row = false;
        for row in &rows {
            match pattern::opening(row.words).as_bytes().first_chunk::<KEY>() {
                Some(key) => openings[hash(*key) / 64] |= 1 << (hash(*key) % 64),
                None => has_open_row = true,
            }
        }
        Self { speakers, rows, openings, has_open_row }
    }

    /// Whose sentences these are.
    #[must_use]
    pub fn speakers(&self) -> Speakers {
        self.speakers
    }

    /// The sentence that this line is, if it is one.
    #[must_use]
    pub fn understand(&self, line: &[u8]) -> Option<Understood> {
        let line = &line[..line.len().min(LONGEST)];
        let undressed = dress::undress(line);
        if !self.may_be_known(&undressed.text) {
            return None;
        }
        let text = smoothed(&undressed.text);
        let wears =
            |row: &Sentence| undressed.dress == Dress::Bare || row.who.dresses().contains(&undressed.dress);
        let mut fitting = self.rows.iter().filter(|row| wears(row));
        let (sentence, fields) = fitting.find_map(|row| Some((*row, pattern::fit(row.words, &text)?)))?;
        let short = if sentence.who == Who::Kubelet { ending } else { shortened };
        let fields = fields.into_iter().map(|(name, field)| (name.to_owned(), short(field)));
        Some(Understood { sentence, fields: fields.collect() })
    }

    fn may_be_known(&self, text: &[u8]) -> bool {
        // An escape sequence may stand before the words.
        self.has_open_row
            || text.first() == Some(&ESCAPE)
            || text
                .first_chunk::<KEY>()
                .is_some_and(|key| self.openings[hash(*key) / 64] >> (hash(*key) % 64) & 1 != 0)
    }
}

/// To a number below 4,096.
fn hash(key: [u8; KEY]) -> usize {
    (u32::from_le_bytes(key).wrapping_mul(0x9E37_79B1) >> 20) as usize
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
fn shortened(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(FIELD)]);
    if bytes.len() > FIELD { format!("{}…", text.trim_end_matches('\u{fffd}')) } else { text.into_owned() }
}

/// The same of its end: kubelet puts what it did before what went wrong, and the pod's name behind it.
fn ending(bytes: &[u8]) -> String {
    let end = memchr::memmem::find(bytes, b"\" pod=").unwrap_or(bytes.len());
    let bytes = bytes[..end].strip_suffix(b"\"").unwrap_or(&bytes[..end]);
    // Go has quoted it again and again.
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(FIELD)..]).replace("\\n", " ");
    let text = text.replace('\\', "");
    if bytes.len() > FIELD { format!("…{}", text.trim_start_matches('\u{fffd}')) } else { text }
}

/// The time in a line's own prefix, for logs without times of their own.
#[must_use]
pub fn own_stamp(line: &[u8], not_after_ns: i64) -> Option<Stamp> {
    dress::stamp(line, not_after_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_sound() {
        for row in SENTENCES {
            let opens = row.words.matches('<').count();
            assert_eq!(opens, row.words.matches('>').count(), "{}", row.words);
            assert!(row.words.len() <= LONGEST && !row.words.is_empty(), "{}", row.words);
            // Smoothed texts have no such blanks: such a row would never fit.
            assert_eq!(smoothed(row.words.as_bytes()), row.words.as_bytes(), "{}", row.words);
            let is_kernels = row.who.containers().is_empty();
            let opening = pattern::opening(row.words);
            assert!(
                is_kernels || opening.len() >= KEY,
                "{}: every line would have to be looked at",
                row.words
            );
            let inner = row.words.matches("..>").count() - usize::from(row.words.ends_with("..>"));
            assert!(inner <= 1, "{}: two fields without an end take time without one", row.words);
        }
    }

    #[test]
    fn no_row_hides_another() {
        for (at, row) in SENTENCES.iter().enumerate() {
            let same = |other: &&Sentence| other.who == row.who && other.words == row.words;
            assert_eq!(SENTENCES.iter().filter(same).count(), 1, "{} {}", at, row.words);
        }
    }

    #[test]
    fn every_meaning_is_somebodys() {
        for meaning in Meaning::ALL {
            assert!(SENTENCES.iter().any(|row| row.meaning == *meaning), "{meaning}: no sentence");
        }
        for row in SENTENCES {
            for field in row.meaning.phrase().split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
                let has =
                    row.words.contains(&format!("<{field}>")) || row.words.contains(&format!("<{field}..>"));
                let others = SENTENCES
                    .iter()
                    .any(|r| r.meaning == row.meaning && r.words.contains(&format!("<{field}")));
                assert!(has || others, "{}: {field} is nowhere in {}", row.meaning, row.words);
            }
        }
    }

    #[test]
    fn a_line_is_a_sentence_of_who_may_say_it() {
        let means = |container: &str, line: &str| {
            Table::of(Speakers::in_container(container))
                .understand(line.as_bytes())
                .map(|u| u.sentence.meaning)
        };
        let set = "[21-Nov-25_11:58:39] Setting driver ready state";
        assert_eq!(means("mofed-container", set), Some(Meaning::MofedMarkerSet));
        assert_eq!(means("nvidia-driver-ctr", set), None, "another container");
        assert_eq!(means("train", set), None);
        // The same words are another sentence in another program's dress.
        let start = "NVIDIA driver container exec start";
        assert_eq!(
            means("mofed-container", &format!("[21-Nov-25_11:51:06] {start}")),
            Some(Meaning::MofedStarted)
        );
        let go = format!("2026-09-09T15:56:46.385Z\tINFO\tentrypoint/entrypoint.go:106\t{start}");
        assert_eq!(means("mofed-container", &go), Some(Meaning::MofedLoads));
        assert_eq!(
            means("mofed-container", &format!("level=info msg=\"{start}\"")),
            Some(Meaning::MofedLoads)
        );
        assert_eq!(means("mofed-container", &format!("Fri Nov 21 11:54:07 UTC 2025 {start}")), None);
    }

    #[test]
    fn terminals_leave_no_trace() {
        let table = Table::of(Speakers::in_container("mofed-container"));
        for line in [
            "Loading HCA driver and Access Layer:\u{1b}[60G[\u{1b}[0;32m  OK  \u{1b}[0;39m]",
            "Loading HCA driver and Access Layer:                       [  OK  ]\r",
            "Loading HCA driver and Access Layer:[60G[  OK  ]",
        ] {
            let understood = table.understand(line.as_bytes()).map(|u| u.sentence.meaning);
            assert_eq!(understood, Some(Meaning::MofedLoaded), "{line:?}");
        }
    }
}
