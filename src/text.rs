// SPDX-License-Identifier: Apache-2.0
//! Text that people read: escaped, and wrapped at words. Names, versions and log lines come from
//! outside: a character that would end a line, move a cursor or turn the reading direction is shown
//! as an escape and never sent.

mod wrap;

use serde::Serialize;
use std::borrow::Cow;
use std::fmt::{Display, Write};

pub use wrap::{Measure, ONE_COLUMN, TextBox, wrapped};

/// `text` with every such character shown as an escape: `\n`, `\u{1b}`. Passwords in URLs are left out.
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    escaped_by(text, |c, shown| shown.extend(c.escape_default()))
}

/// A JSON text with every such character in its strings as JSON escapes it, except those that JSON itself escapes.
#[must_use]
pub fn json_escaped(json: &str) -> Cow<'_, str> {
    escaped_by(json, |c, shown| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(shown, "\\u{unit:04x}");
        }
    })
}

/// A value as JSON on one line, fit to be shown.
///
/// # Errors
/// As `serde_json`'s.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(json_escaped(&serde_json::to_string(value)?).into_owned())
}

fn escaped_by(text: &str, escape: fn(char, &mut String)) -> Cow<'_, str> {
    let text = without_passwords(text);
    if !text.contains(is_deceptive) {
        return text;
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_deceptive(c) {
            escape(c, &mut shown);
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// `https://USER:PASSWORD@HOST` as `https://***@HOST` (RFC 3986, 3.2.1): logs have such URLs of proxies and
/// repositories.
fn without_passwords(text: &str) -> Cow<'_, str> {
    const SCHEME_END: &str = "://";
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(SCHEME_END) {
        let (before, behind) = rest.split_at(at + SCHEME_END.len());
        let ends = |c: char| c.is_whitespace() || c.is_control() || "/?#\"'<>`".contains(c);
        let authority = &behind[..behind.find(ends).unwrap_or(behind.len())];
        shown += before;
        rest = behind;
        if let Some(at) = authority.rfind('@') {
            shown += "***";
            rest = &behind[at..];
        }
    }
    shown += rest;
    if shown == text { Cow::Borrowed(text) } else { Cow::Owned(shown) }
}

/// Control characters, line separators, marks of direction, and characters without a width: Unicode's Cc, Cf, Zl, Zp.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}'
            | '\u{8e2}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0001}'..='\u{e007f}')
}

/// Labels left of a text: on its first line, and on the lines that it is wrapped to. Both are
/// ours: neither is escaped.
#[derive(Clone, Debug, Default)]
pub struct LinePrefixText {
    /// Before the first line.
    pub first: String,
    /// Before each further line.
    pub rest: String,
    /// The color of `first`, as a terminal's escape sequence names it (`1;31`).
    pub color: Option<&'static str>,
}

impl LinePrefixText {
    /// `label` behind so many spaces; further lines begin below the text.
    #[must_use]
    pub fn new(indent: usize, label: &str) -> Self {
        let first = format!("{:indent$}{label}", "");
        Self { rest: " ".repeat(first.chars().count()), first, color: None }
    }

    /// The same in a color.
    #[must_use]
    pub fn colored(self, color: Option<&'static str>) -> Self {
        Self { color, ..self }
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
    has_whole_words: bool,
    /// Rows of a terminal so many columns wide: a line that is wider takes more than one.
    rows: usize,
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
        Self {
            lines: Vec::new(),
            columns,
            most: usize::MAX,
            measure: ONE_COLUMN,
            has_whole_words: false,
            rows: 0,
        }
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

    /// The same, where a word that is wider than the page is not cut.
    #[must_use]
    pub fn with_whole_words(self) -> Self {
        Self { has_whole_words: true, ..self }
    }

    /// Adds a line; one that is too long is wrapped.
    pub fn line(&mut self, line: impl Display) {
        self.entry(&LinePrefixText::default(), line);
    }

    /// Adds a line in a color.
    pub fn painted(&mut self, line: impl Display, color: Option<&'static str>) {
        for line in self.wrapped(&line.to_string(), 0, 0) {
            self.push(painted(&line, color), &line);
        }
    }

    /// Adds a text with something to the left of it.
    pub fn entry(&mut self, lead: &LinePrefixText, text: impl Display) {
        let wrapped = self.wrapped(&text.to_string(), lead.first.chars().count(), lead.rest.chars().count());
        for (at, line) in wrapped.into_iter().enumerate() {
            let plain = if at == 0 { &lead.first } else { &lead.rest };
            let left = if at == 0 { painted(plain, lead.color) } else { plain.clone() };
            self.push((left + &line).trim_end().to_owned(), &format!("{plain}{line}"));
        }
    }

    /// Adds a line, which without its colors is `plain`.
    fn push(&mut self, line: String, plain: &str) {
        let width: usize = plain.trim_end().chars().map(self.measure).sum();
        self.rows += width.div_ceil(self.columns.max(1)).max(1);
        self.lines.push(line);
    }

    fn wrapped(&self, text: &str, first: usize, rest: usize) -> Vec<String> {
        let Self { columns, most, measure, has_whole_words, .. } = *self;
        wrapped(&escaped(text), TextBox { columns, first, rest, most, measure, has_whole_words })
    }

    /// Adds an empty line.
    pub fn blank(&mut self) {
        self.push(String::new(), "");
    }

    /// Adds the lines of another page.
    pub fn append(&mut self, other: Self) {
        self.rows += other.rows;
        self.lines.extend(other.lines);
    }

    /// An empty page of the same kind.
    #[must_use]
    pub fn sibling(&self) -> Self {
        Self { lines: Vec::new(), rows: 0, ..*self }
    }

    /// How many rows of a terminal the text takes.
    #[must_use]
    pub fn height(&self) -> usize {
        self.rows
    }

    /// The whole text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.lines.into_iter().fold(String::new(), |text, line| text + &line + "\n")
    }
}

fn painted(text: &str, color: Option<&'static str>) -> String {
    color.map_or_else(|| text.to_owned(), |color| format!("\x1b[{color}m{text}\x1b[0m"))
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
        page.entry(&LinePrefixText::new(2, "seen ").colored(Some("31")), "\u{1b}[2Jx");
        assert_eq!(page.into_text(), "one\\ntwo\n\u{1b}[31m  seen \u{1b}[0m\\u{1b}[2Jx\n");
    }

    #[test]
    fn json_escapes_characters_that_reverse_text() {
        let text = "a\u{202e}b\u{9b}c\u{7f}\u{e0041}\u{ad}\n\"é";
        let shown = json(&text).unwrap();
        assert_eq!(shown, r#""a\u202eb\u009bc\u007f\udb40\udc41\u00ad\n\"é""#);
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text, "a machine reads what was there");
    }

    #[test]
    fn passwords_in_urls_are_left_out() {
        for (text, shown) in [
            ("E: https://user:s3cret@repo.example/x failed", "E: https://***@repo.example/x failed"),
            ("http://token@h, ftp://a:b@c:d@e/f@g", "http://***@h, ftp://***@e/f@g"),
            ("proxy=\"http://u:p@h:3128\"", "proxy=\"http://***@h:3128\""),
            ("http://", "http://"),
        ] {
            assert_eq!(escaped(text), shown);
            assert_eq!(json_escaped(text), shown);
        }
        for plain in ["https://repo.example/a@b", "user@host", "tcp://10.0.0.1:80", "a://b c@d"] {
            assert!(matches!(escaped(plain), Cow::Borrowed(same) if same == plain), "{plain}");
        }
    }

    #[test]
    fn wrapped_lines_are_indented_below_the_first() {
        let mut page = Page::new(24);
        page.entry(&LinePrefixText::new(2, "do  "), "see what its log says");
        assert_eq!(page.into_text(), "  do  see what its log\n      says\n");
    }
}
