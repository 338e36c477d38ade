// SPDX-License-Identifier: Apache-2.0
//! Text that people read: escaped, and wrapped at words. Names, versions and log lines come from
//! outside: a character that would end a line, move a cursor or turn the reading direction is shown
//! as an escape and never sent.

mod wrap;

use std::borrow::Cow;
use std::fmt::Display;

pub use wrap::{Measure, ONE_COLUMN, Room, wrapped};

/// `text` with every such character shown as an escape: `\n`, `\u{1b}`.
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_deceptive) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_deceptive(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Control characters, line separators, marks of direction, and characters without a width.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Labels left of a text: on its first line, and on the lines that it is wrapped to. Both are
/// ours: neither is escaped.
#[derive(Clone, Debug, Default)]
pub struct Lead {
    /// Before the first line.
    pub first: String,
    /// Before each further line.
    pub rest: String,
    /// The colour of `first`, as a terminal's escape sequence names it (`1;31`).
    pub colour: Option<&'static str>,
}

impl Lead {
    /// `label` behind so many spaces; further lines begin below the text.
    #[must_use]
    pub fn new(indent: usize, label: &str) -> Self {
        let first = format!("{:indent$}{label}", "");
        Self { rest: " ".repeat(first.chars().count()), first, colour: None }
    }

    /// The same in a colour.
    #[must_use]
    pub fn coloured(self, colour: Option<&'static str>) -> Self {
        Self { colour, ..self }
    }
}

/// A text of lines. Only what is added as a line ends one.
#[derive(Clone, Debug)]
pub struct Page {
    lines: Vec<String>,
    columns: usize,
    /// Lines that one entry may take.
    most: usize,
    measure: Measure,
}

impl Default for Page {
    /// A page without an edge: nothing is wrapped.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Page {
    /// A page so many columns wide.
    #[must_use]
    pub fn new(columns: usize) -> Self {
        Self { lines: Vec::new(), columns, most: usize::MAX, measure: ONE_COLUMN }
    }

    /// The same, where whatever is added is cut after so many lines.
    #[must_use]
    pub fn with_entries_of(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// The same, where characters are as wide as this says.
    #[must_use]
    pub fn measured_by(self, measure: Measure) -> Self {
        Self { measure, ..self }
    }

    /// Adds a line; one that is too long is wrapped.
    pub fn line(&mut self, line: impl Display) {
        self.entry(&Lead::default(), line);
    }

    /// Adds a line in a colour.
    pub fn painted(&mut self, line: impl Display, colour: Option<&'static str>) {
        let wrapped = self.wrapped(&line.to_string(), 0, 0);
        self.lines.extend(wrapped.into_iter().map(|line| painted(&line, colour)));
    }

    /// Adds a text with something to the left of it.
    pub fn entry(&mut self, lead: &Lead, text: impl Display) {
        let wrapped = self.wrapped(&text.to_string(), lead.first.chars().count(), lead.rest.chars().count());
        for (at, line) in wrapped.into_iter().enumerate() {
            let left = if at == 0 { painted(&lead.first, lead.colour) } else { lead.rest.clone() };
            self.lines.push((left + &line).trim_end().to_owned());
        }
    }

    fn wrapped(&self, text: &str, first: usize, rest: usize) -> Vec<String> {
        let Self { columns, most, measure, .. } = *self;
        wrapped(&escaped(text), Room { columns, first, rest, most, measure })
    }

    /// Adds an empty line.
    pub fn blank(&mut self) {
        self.lines.push(String::new());
    }

    /// Adds the lines of another page.
    pub fn append(&mut self, other: Self) {
        self.lines.extend(other.lines);
    }

    /// An empty page of the same kind.
    #[must_use]
    pub fn sibling(&self) -> Self {
        Self { lines: Vec::new(), ..*self }
    }

    /// How many lines there are.
    #[must_use]
    pub fn height(&self) -> usize {
        self.lines.len()
    }

    /// The whole text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.lines.into_iter().fold(String::new(), |text, line| text + &line + "\n")
    }
}

fn painted(text: &str, colour: Option<&'static str>) -> String {
    colour.map_or_else(|| text.to_owned(), |colour| format!("\x1b[{colour}m{text}\x1b[0m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_stays_as_it_is() {
        for text in ["", "mlx5_core is 25.07-0.9.7", "Gerät ä 日本 – “x”"] {
            assert!(matches!(escaped(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn nothing_from_outside_ends_a_line_or_steers_a_terminal() {
        for (text, shown) in [
            ("a\nReady: all is well", r"a\nReady: all is well"),
            ("\u{1b}[2J\u{1b}]0;x\u{7}", r"\u{1b}[2J\u{1b}]0;x\u{7}"),
            ("a\r\tb\u{7f}\u{9b}31m", r"a\r\tb\u{7f}\u{9b}31m"),
            ("\u{202e}txt.ok\u{2066}\u{200b}\u{feff}", r"\u{202e}txt.ok\u{2066}\u{200b}\u{feff}"),
            ("x\u{2028}y\u{85}z", r"x\u{2028}y\u{85}z"),
        ] {
            assert_eq!(escaped(text), shown);
        }
        let mut page = Page::default();
        page.line("one\ntwo");
        page.entry(&Lead::new(2, "seen ").coloured(Some("31")), "\u{1b}[2Jx");
        assert_eq!(page.into_text(), "one\\ntwo\n\u{1b}[31m  seen \u{1b}[0m\\u{1b}[2Jx\n");
    }

    #[test]
    fn a_text_hangs_below_its_lead() {
        let mut page = Page::new(24);
        page.entry(&Lead::new(2, "do  "), "see what its log says");
        assert_eq!(page.into_text(), "  do  see what its log\n      says\n");
    }
}
