// SPDX-License-Identifier: Apache-2.0
//! The texts in sources: comments, and the sentences that a program says.

use std::fmt::Write;

/// Fewer words are a name or a fragment.
const SENTENCE: usize = 4;

/// What a Rust source says, tests in it left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rust {
    /// Comments; the lines of one are joined.
    pub comments: Vec<String>,
    /// String literals with the form of a sentence.
    pub sentences: Vec<String>,
}

/// Reads comments and string literals. Everything else is code.
pub(super) fn rust(text: &str) -> Rust {
    let mut found = Rust::default();
    let mut rest = text;
    let mut is_comment = false;
    while let Some(c) = rest.chars().next() {
        if let Some(line) = rest.strip_prefix("//") {
            let (line, after) = line.split_once('\n').unwrap_or((line, ""));
            let line = line.trim_start_matches(['/', '!']).trim();
            match found.comments.last_mut().filter(|_| is_comment && !line.is_empty()) {
                Some(comment) => write!(comment, " {line}").expect("a string"),
                None => found.comments.push(line.to_owned()),
            }
            (rest, is_comment) = (after, !line.is_empty());
            continue;
        }
        is_comment &= c.is_whitespace();
        rest = if let Some(raw) = raw(rest) {
            &rest[raw..]
        } else if let Some(character) = character(rest) {
            &rest[character..]
        } else if let Some(literal) = rest.strip_prefix('"') {
            let end = end(literal);
            let sentence = joined(&literal[..end]);
            if sentence.split_whitespace().count() >= SENTENCE {
                found.sentences.push(sentence);
            }
            literal.get(end + 1..).unwrap_or_default()
        } else {
            &rest[c.len_utf8()..]
        };
    }
    found
}

/// The comments of YAML and of scripts; the lines of one are joined.
pub(super) fn hashes(text: &str) -> Vec<String> {
    let mut comments: Vec<String> = Vec::new();
    let mut is_comment = false;
    for line in text.lines() {
        let comment = line.trim_start().strip_prefix('#').filter(|comment| !comment.starts_with('!'));
        let words =
            comment.map(|comment| comment.trim_start_matches('#').trim()).filter(|words| !words.is_empty());
        match (words, comments.last_mut().filter(|_| is_comment)) {
            (Some(words), Some(last)) => write!(last, " {words}").expect("a string"),
            (Some(words), None) => comments.push(words.to_owned()),
            (None, _) => {}
        }
        is_comment = words.is_some();
    }
    comments
}

/// The length of a raw string: nobody reads what a program embeds.
fn raw(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = body.find(&close)?;
    Some(1 + hashes + 1 + end + close.len())
}

/// The length of a character literal; a lifetime is none.
fn character(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix('\'')?;
    let mut characters = body.char_indices();
    let (_, first) = characters.next()?;
    if first == '\\' {
        return body[2..].find('\'').map(|end| end + 4);
    }
    characters.next().filter(|(_, second)| *second == '\'').map(|(at, _)| at + 2)
}

/// Where a string literal ends.
fn end(literal: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in literal.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at,
            _ => {}
        }
    }
    literal.len()
}

/// A literal of several lines in one, as the program says it.
fn joined(literal: &str) -> String {
    let mut lines = literal.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |text, line| text + line.trim_start())
}

#[test]
fn the_style_test_finds_comments_and_sentences_in_sources() {
    let text = "//! One,\n//! two.\n\nfn f<'a>(c: char) -> &'a str {\n    // Three.\n    let x = '\"'; // four\n    \
                log!(\"so {x} that \\\n         it ends\", '\\'', \"a b\");\n    r#\"so that \"nobody\" reads it\"#\n}\n";
    let found = rust(text);
    assert_eq!(found.comments, ["One, two.", "Three.", "four"]);
    assert_eq!(found.sentences, ["so {x} that it ends"]);
    assert_eq!(hashes("#!/bin/sh\n# One\n# two\nx=1\n  # three\n"), ["One two", "three"]);
}
