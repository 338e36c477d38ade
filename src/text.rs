// SPDX-License-Identifier: Apache-2.0
//! The one way out for text that people read. Names, versions and log lines come from outside: what
//! would end a line, move a terminal's cursor or turn the reading direction is shown, and never sent.

use std::borrow::Cow;
use std::fmt::Display;

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

/// Control characters, line separators, marks of direction, and what has no width.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// A text of lines. Only what is added as a line ends one.
#[derive(Clone, Debug, Default)]
pub struct Page(String);

impl Page {
    /// Adds a line.
    pub fn line(&mut self, line: impl Display) {
        self.0 += &escaped(&line.to_string());
        self.0.push('\n');
    }

    /// The whole text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }
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
        assert_eq!(page.into_text(), "one\\ntwo\n");
    }
}
