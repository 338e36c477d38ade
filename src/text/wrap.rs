// SPDX-License-Identifier: Apache-2.0
//! Lines broken at words, so no line is wider than the page. A command between backticks is kept
//! on one line where it fits; where it does not, the shell's `\` ends each line: it can still be copied.
//! A setting (`name: value`) is not a command and gets none.

/// The columns that a character takes in a terminal.
pub type Measure = fn(char) -> usize;

/// Every character takes one column: so do the names and paths of a node.
pub const ONE_COLUMN: Measure = |_| 1;

fn width(text: &str, measure: Measure) -> usize {
    text.chars().map(measure).sum()
}

/// `text` cut to so many columns, with `…` where something is missing.
fn clipped(text: &str, limit: usize, measure: Measure) -> String {
    if width(text, measure) <= limit {
        return text.to_owned();
    }
    let (head, _) = split(text, limit.saturating_sub(1), measure);
    head.trim_end().to_owned() + "…"
}

/// The part of `text` that fits, at least one character, and the rest.
fn split(text: &str, limit: usize, measure: Measure) -> (&str, &str) {
    let mut used = 0;
    let fits = |(at, c): &(usize, char)| {
        used += measure(*c);
        used <= limit || *at == 0
    };
    let end = text.char_indices().take_while(fits).last().map_or(0, |(at, c)| at + c.len_utf8());
    text.split_at(end)
}

/// Something that is kept together.
struct WrapUnit<'a> {
    /// Spaces before it, where no line begins.
    spaces: usize,
    text: &'a str,
    /// The continuation of a command that began on an earlier piece.
    continues: bool,
}

/// The room for a text.
#[derive(Clone, Copy, Debug)]
pub struct TextBox {
    /// How wide the page is.
    pub columns: usize,
    /// Columns of the first line that are taken.
    pub first: usize,
    /// Columns of each further line that are taken.
    pub rest: usize,
    /// How many lines the text may take.
    pub most: usize,
    /// How wide a character is.
    pub measure: Measure,
    /// A word that is wider than a line stays whole: a path can be copied.
    pub has_whole_words: bool,
}

impl TextBox {
    /// Columns that are left on the line of this number.
    fn left(&self, line: usize) -> usize {
        /// Nobody reads a narrower column.
        const NARROWEST: usize = 16;
        let taken = if line == 0 { self.first } else { self.rest };
        self.columns.saturating_sub(taken).max(NARROWEST)
    }
}

/// `text` in lines.
#[must_use]
pub fn wrapped(text: &str, room: TextBox) -> Vec<String> {
    let width = |text: &str| width(text, room.measure);
    if width(text) <= room.left(0) {
        return vec![text.to_owned()];
    }
    if room.most == 1 {
        return vec![clipped(text, room.left(0), room.measure)];
    }
    let pieces = pieces(text, room.left(1), room.measure);
    let mut lines = vec![String::new()];
    for (at, piece) in pieces.iter().enumerate() {
        let lines_before = lines.len() - 1;
        let limit = room.left(lines_before);
        let Some(line) = lines.last_mut() else { break };
        // A line that a command goes on behind ends with the shell's ` \`.
        let next = pieces.get(at + 1).filter(|next| next.continues);
        let reserved = if next.is_some() { 2 } else { 0 };
        // No line ends with only the first word of a command, if the next line has room for more.
        let more = next.filter(|_| !piece.continues).map_or(0, |next| next.spaces + width(next.text));
        let more = if width(piece.text) + more + reserved > room.left(lines_before + 1) { 0 } else { more };
        if at > 0 && width(line) + piece.spaces + width(piece.text) + more + reserved > limit {
            if piece.continues {
                line.push_str(" \\");
            }
            lines.push(String::new());
        } else if piece.spaces + 2 <= limit {
            line.push_str(&" ".repeat(piece.spaces));
        }
        if room.has_whole_words {
            lines.last_mut().into_iter().for_each(|line| line.push_str(piece.text));
        } else {
            place(piece.text, &mut lines, room.measure, |line| room.left(line) - reserved);
        }
        if lines.len() > room.most {
            return cut(lines, room);
        }
    }
    lines
}

/// As many lines as may be, the last with a sign that something is missing.
fn cut(mut lines: Vec<String>, room: TextBox) -> Vec<String> {
    lines.truncate(room.most);
    if let Some(last) = lines.last_mut() {
        let limit = room.left(room.most - 1);
        let mut whole = last.trim_end_matches([' ', '\\']).to_owned();
        // A path that is cut in its middle misleads: whole words go.
        while width(&whole, room.measure) + 2 > limit && whole.contains(' ') {
            whole.truncate(whole.trim_end().rfind(' ').unwrap_or_default());
        }
        let ending = format!("{} …", whole.trim_end());
        let is_one_word = room.has_whole_words && !whole.trim_end().contains(' ');
        *last = if is_one_word { ending } else { clipped(&ending, limit, room.measure) };
    }
    lines
}

/// Puts a piece on the last line; one that is wider than a line is cut.
fn place(mut text: &str, lines: &mut Vec<String>, measure: Measure, limit: impl Fn(usize) -> usize) {
    loop {
        let limit = limit(lines.len() - 1);
        let Some(line) = lines.last_mut() else { return };
        let left = limit.saturating_sub(width(line, measure));
        if width(text, measure) <= left {
            line.push_str(text);
            return;
        }
        let (head, tail) = split(text, left, measure);
        line.push_str(head);
        text = tail;
        lines.push(String::new());
    }
}

/// Words, and commands that fit on a line; of others the words.
fn pieces(text: &str, room: usize, measure: Measure) -> Vec<WrapUnit<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    loop {
        let word = rest.trim_start_matches(' ');
        if word.is_empty() {
            return pieces;
        }
        let spaces = rest.len() - word.len();
        let end = end_of_word(word);
        let (whole, behind) = word.split_at(end);
        rest = behind;
        if width(whole, measure) <= room || !whole.contains(' ') {
            pieces.push(WrapUnit { spaces, text: whole, continues: false });
            continue;
        }
        let is_command = !is_setting(whole);
        for (at, text) in whole.split(' ').enumerate() {
            let spaces = if at == 0 { spaces } else { 1 };
            pieces.push(WrapUnit { spaces, text, continues: is_command && at > 0 });
        }
    }
}

/// `name: value` or `name = value`.
fn is_setting(text: &str) -> bool {
    let mut words = text.split(' ');
    words.next().is_some_and(|name| name.ends_with(':')) || words.next() == Some("=")
}

/// A space between two backticks ends no word; a backtick without another is a character like others.
fn end_of_word(text: &str) -> usize {
    let mut at = 0;
    while let Some(found) = text[at..].find([' ', '`']) {
        let here = at + found;
        if text.as_bytes()[here] == b' ' {
            return here;
        }
        at = text[here + 1..].find('`').map_or(here + 1, |closing| here + 1 + closing + 1);
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(text: &str, columns: usize) -> Vec<String> {
        wrapped(
            text,
            TextBox {
                columns,
                first: 0,
                rest: 0,
                most: usize::MAX,
                measure: ONE_COLUMN,
                has_whole_words: false,
            },
        )
    }

    #[test]
    fn lines_end_at_words() {
        assert_eq!(lines("one two three four", 80), ["one two three four"]);
        assert_eq!(lines("one two three four five", 18), ["one two three four", "five"]);
        assert_eq!(lines("a  b   cccccccccccccccc", 20), ["a  b", "cccccccccccccccc"]);
    }

    #[test]
    fn a_command_stays_whole_or_can_be_copied() {
        assert_eq!(lines("unload it: `rmmod rpcrdma`.", 20), ["unload it:", "`rmmod rpcrdma`."]);
        assert_eq!(lines("`kubectl get pod -A -o wide`", 18), ["`kubectl get pod \\", "-A -o wide`"]);
        let log = "its log: `kubectl logs -n gpu a-pod -c a-container`";
        assert_eq!(lines(log, 20), ["its log:", "`kubectl logs -n \\", "gpu a-pod -c \\", "a-container`"]);
        assert_eq!(lines("`env: [{name: A, value: B}]`", 18), ["`env: [{name: A,", "value: B}]`"]);
        assert_eq!(lines("an odd ` and no other one", 20), ["an odd ` and no", "other one"]);
    }

    #[test]
    fn a_text_takes_at_most_the_given_number_of_lines() {
        let room = |most| TextBox {
            columns: 16,
            first: 0,
            rest: 0,
            most,
            measure: ONE_COLUMN,
            has_whole_words: false,
        };
        assert_eq!(wrapped("one two three four five", room(1)), ["one two three f…"]);
        assert_eq!(wrapped("one two three four five", room(2)), ["one two three", "four five"]);
        assert_eq!(wrapped("/a/very/long/path/indeed", room(1)), ["/a/very/long/pa…"]);
    }

    #[test]
    fn a_path_stays_whole_where_words_do() {
        let room = |columns| TextBox {
            columns,
            first: 0,
            rest: 0,
            most: usize::MAX,
            measure: ONE_COLUMN,
            has_whole_words: true,
        };
        let text = "there is no /a/very/long/path/indeed here";
        assert_eq!(wrapped(text, room(16)), ["there is no", "/a/very/long/path/indeed", "here"]);
    }

    #[test]
    fn a_word_wider_than_a_line_is_cut() {
        assert_eq!(lines("/a/very/long/path/indeed", 16), ["/a/very/long/pat", "h/indeed"]);
        let two_columns: Measure = |_| 2;
        assert_eq!(clipped("日本日本", 5, two_columns), "日本…");
        assert_eq!(clipped("12345", 5, ONE_COLUMN), "12345");
    }

    /// `/var/lib/kubelet/po…` looks like a path and is none.
    #[test]
    fn a_text_that_is_cut_ends_with_a_whole_word() {
        let room =
            TextBox { columns: 20, first: 0, rest: 0, most: 2, measure: ONE_COLUMN, has_whole_words: false };
        let cut = |text: &str| wrapped(text, room)[1].clone();
        assert_eq!(cut("one two three four /a/path/of20c more words"), "/a/path/of20c more …");
        // "six /path/of16ch…" would look like a path.
        assert_eq!(cut("one two three four six /path/of16chars more"), "six …");
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_page(
            text in "[a日` ]{0,200}", columns in 16..90_usize, first in 0..20_usize, most in 1..9_usize,
        ) {
            let measure: Measure = |c| if c == '日' { 2 } else { 1 };
            let room = TextBox { columns, first, rest: 4, most, measure, has_whole_words: false };
            let lines = wrapped(&text, room);
            prop_assert!(lines.len() <= most);
            for (at, line) in lines.iter().enumerate() {
                prop_assert!(width(line, measure) <= room.left(at), "{line:?}");
            }
        }

        #[test]
        fn wrapping_loses_no_word(text in "[a日` ]{0,200}", columns in 16..90_usize) {
            let kept = |text: &str| text.replace(['\\', ' '], "");
            prop_assert_eq!(kept(&lines(&text, columns).concat()), kept(&text));
        }
    }
}
