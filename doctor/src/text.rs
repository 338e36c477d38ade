// SPDX-License-Identifier: Apache-2.0
//! The gate's pages, with the width of each character as terminals show it: pods and paths may have any name.

use peermem_gate::text::{Page, TextBox};
use unicode_width::UnicodeWidthChar;

/// A page so many columns wide. A path that is wider than a line stays whole, to be copied.
pub fn page(columns: usize) -> Page {
    Page::new(columns).measured_by(columns_of).with_whole_words()
}

/// The columns that a text takes.
pub fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// A text in lines of so many columns. A length of time, such as `6 m 57 s`, stays on one line.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let room =
        TextBox { columns, first: 0, rest: 0, most: usize::MAX, measure: columns_of, has_whole_words: false };
    let lines = peermem_gate::text::wrapped(&joined(text), room);
    lines.iter().map(|line| line.replace(JOINT, " ")).collect()
}

/// A space at which no line ends.
const JOINT: &str = "\u{a0}";

/// `text` with each length of time, and each `× 64`, as one word.
fn joined(text: &str) -> String {
    let words: Vec<_> = text.split(' ').collect();
    let is_number = |at: usize| {
        let word = words.get(at).map(|word| word.trim_start_matches('('));
        word.is_some_and(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || c == '.'))
    };
    let is_unit = |at: usize| {
        let word = words.get(at).map(|word| word.trim_end_matches([',', '.', ':', ';', ')']));
        word.is_some_and(|word| matches!(word, "d" | "h" | "m" | "s" | "ms"))
    };
    let is_joined = |at: usize| {
        let is_first_unit = at > 0 && is_number(at - 1) && matches!(words[at], "d" | "h" | "m");
        is_number(at) && is_unit(at + 1)
            || is_first_unit && is_number(at + 1) && is_unit(at + 2)
            || words[at].ends_with('×')
    };
    let mut joined = String::with_capacity(text.len());
    for (at, word) in words.iter().enumerate() {
        let gap = if is_joined(at) { JOINT } else { " " };
        joined += word;
        joined += if at + 1 < words.len() { gap } else { "" };
    }
    joined
}

fn columns_of(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// `1 line`, `2 lines`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Examples for tests, a line each: `WORDS => MEANING`. `<TAB>` and `<NL>` stand for what they say.
#[cfg(test)]
pub(crate) fn examples(text: &'static str) -> impl Iterator<Item = (String, &'static str)> {
    let rows = text.lines().filter(|row| !row.is_empty() && !row.starts_with("# "));
    rows.map(|row| {
        let (words, meaning) = row.rsplit_once(" => ").unwrap_or_else(|| panic!("{row}"));
        (words.replace("<TAB>", "\t").replace("<NL>", "\n"), meaning)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_stays_on_one_line() {
        let lines = wrapped("modprobe nvidia-peermem came 1 m 52 s before MOFED's marker", 30);
        assert_eq!(lines, ["modprobe nvidia-peermem came", "1 m 52 s before MOFED's marker"]);
        assert_eq!(wrapped("looks for the driver (× 21, last 15:20:07)", 24)[1], "(× 21, last 15:20:07)");
        assert_eq!(wrapped("MOFED took 7 modules in 1 m 3 s (2 lines).", 27)[1], "1 m 3 s (2 lines).");
        assert_eq!(wrapped("a  b ", 80), ["a  b "]);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!((width("日本"), width("ab"), width("e\u{301}")), (4, 2, 1));
        assert_eq!(wrapped("日本日本日本日本日本", 16), ["日本日本日本日本", "日本"]);
    }
}
