// SPDX-License-Identifier: Apache-2.0
//! The gate's pages, with the width of each character as terminals show it: pods and paths may have any name.

use peermem_gate::text::{Page, Room};
use unicode_width::UnicodeWidthChar;

/// A page so many columns wide. A path that is wider than a line stays whole, to be copied.
#[must_use]
pub fn page(columns: usize) -> Page {
    Page::new(columns).measured_by(columns_of).with_whole_words()
}

/// The columns that a text takes.
#[must_use]
pub fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// A text in lines of so many columns.
#[must_use]
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let room =
        Room { columns, first: 0, rest: 0, most: usize::MAX, measure: columns_of, has_whole_words: false };
    peermem_gate::text::wrapped(text, room)
}

fn columns_of(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// `1 line`, `2 lines`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!((width("日本"), width("ab"), width("e\u{301}")), (4, 2, 1));
        assert_eq!(wrapped("日本日本日本日本日本", 16), ["日本日本日本日本", "日本"]);
    }
}
