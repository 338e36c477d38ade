// SPDX-License-Identifier: Apache-2.0
//! Loggers' prefixes of a message: a time, a level, a line of source.

use super::LONGEST;
use crate::record::string_end;
use crate::stamp::{self, Stamp};
use std::borrow::Cow;

/// How a line is stripped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinePrefix {
    /// Only the message.
    None,
    /// `[21-Nov-25_11:51:13] message`: entrypoint.sh.
    Bracketed,
    /// `2026-09-09T15:56:46.385Z INFO ready/ready.go:85 message {"key": …}`: zap's console.
    Zap,
    /// `time=2025-11-21T11:51:41Z level=info msg=message`, quoted or not, with a time or without: logrus, slog.
    Logrus,
    /// `I1121 11:51:41.123456       1 main.go:27] message`: klog.
    Klog,
    /// `2025/11/21 11:54:07 message`: Go's own log.
    GoLog,
    /// `Fri Nov 21 11:54:07 UTC 2025 message`: date(1).
    Dated,
    /// `[Nov 21 2025 11:52:57] [INFO] [tid 12] message`: fabric manager, IMEX.
    Threaded,
    /// `2025-11-21T11:51:41.123456Z  INFO message key=value`, or an object: tracing, our own.
    Tracing,
}

/// A message out of its prefix.
pub(super) struct Stripped<'a> {
    pub(super) prefix: LinePrefix,
    pub(super) text: Cow<'a, [u8]>,
}

/// Takes the prefix off. The text begins with a message's first byte.
pub(super) fn strip(line: &[u8]) -> Stripped<'_> {
    let line = line.trim_ascii_start();
    let stripped = match line.first() {
        Some(b'[') => bracketed(line).or_else(|| threaded(line)),
        Some(b'0'..=b'9') => leveled(line).or_else(|| go_log(line)),
        Some(b't' | b'l') => logrus(line),
        Some(b'I' | b'W' | b'E' | b'F') => klog(line).or_else(|| dated(line)),
        Some(b'M' | b'T' | b'S') => dated(line),
        Some(b'{') => object(line),
        _ => None,
    };
    stripped.unwrap_or(Stripped { prefix: LinePrefix::None, text: Cow::Borrowed(line) })
}

/// The time in a line's prefix, where it has one.
pub(super) fn stamp(line: &[u8], not_after_ns: i64) -> Option<Stamp> {
    let line = line.trim_ascii_start();
    let parsed = match line.first()? {
        b'[' => stamp::entrypoint(&line[1..]),
        b'0'..=b'9' => stamp::rfc3339(line),
        b't' => {
            let time = line.strip_prefix(b"time=")?;
            stamp::rfc3339(time.strip_prefix(b"\"").unwrap_or(time))
        }
        b'{' => stamp::rfc3339(line.strip_prefix(b"{\"timestamp\":\"")?),
        _ => stamp::date(line).or_else(|| stamp::klog(&line[1..], not_after_ns)),
    };
    parsed.map(|(stamp, _)| stamp)
}

const fn stripped(prefix: LinePrefix, text: &[u8]) -> Stripped<'_> {
    Stripped { prefix, text: Cow::Borrowed(text) }
}

fn bracketed(line: &[u8]) -> Option<Stripped<'_>> {
    let (_, length) = stamp::entrypoint(&line[1..])?;
    // What its commands print is indented.
    Some(stripped(LinePrefix::Bracketed, line[1 + length..].strip_prefix(b"] ")?.trim_ascii_start()))
}

fn threaded(line: &[u8]) -> Option<Stripped<'_>> {
    const THREAD: &[u8] = b"] [tid ";
    let at = memchr::memmem::find(&line[..line.len().min(60)], THREAD)? + THREAD.len();
    let end = line[at..].iter().position(|byte| !byte.is_ascii_digit())?;
    Some(stripped(LinePrefix::Threaded, line[at + end..].strip_prefix(b"] ")?))
}

/// A stamp, a level, and in Go's case the line of source.
fn leveled(line: &[u8]) -> Option<Stripped<'_>> {
    const LEVELS: [&str; 5] = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"];
    if line.get(10) != Some(&b'T') {
        return None;
    }
    let (_, length) = stamp::rfc3339(line)?;
    let (level, rest) = word(&line[length..])?;
    if !LEVELS.iter().any(|known| level.eq_ignore_ascii_case(known.as_bytes())) {
        return None;
    }
    match word(rest) {
        Some((caller, rest)) if is_caller(caller) => Some(stripped(LinePrefix::Zap, rest)),
        _ => Some(stripped(LinePrefix::Tracing, rest.trim_ascii_start())),
    }
}

/// Digits where `2025/11/21 11:54:07 ` has them, and nothing else between.
fn go_log(line: &[u8]) -> Option<Stripped<'_>> {
    const STAMP: &[u8] = b"0000/00/00 00:00:00 ";
    let (stamp, text) = line.split_at_checked(STAMP.len())?;
    let fits = |(is, shape): (&u8, &u8)| if *shape == b'0' { is.is_ascii_digit() } else { is == shape };
    stamp.iter().zip(STAMP).all(fits).then(|| stripped(LinePrefix::GoLog, text))
}

/// `ready/ready.go:85`
fn is_caller(word: &[u8]) -> bool {
    let file = word.split(|byte| *byte == b':').next().unwrap_or_default();
    file.len() < word.len() && file.ends_with(b".go")
}

/// The first word and the rest, blanks trimmed.
fn word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let bytes = bytes.trim_ascii_start();
    let end = bytes.iter().position(u8::is_ascii_whitespace)?;
    Some((&bytes[..end], bytes[end..].trim_ascii_start()))
}

/// Keys before the message are few and short; what follows it belongs to the message.
fn logrus(line: &[u8]) -> Option<Stripped<'_>> {
    const HEAD: usize = 120;
    const MESSAGE: &[u8] = b"msg=";
    if !line.starts_with(b"time=") && !line.starts_with(b"level=") {
        return None;
    }
    let at = memchr::memmem::find(&line[..line.len().min(HEAD)], MESSAGE)? + MESSAGE.len();
    let message = &line[at..];
    let Some(quoted) = message.strip_prefix(b"\"") else {
        return Some(stripped(LinePrefix::Logrus, message));
    };
    // Of a line that was cut, such as containerd's with its whole configuration, the end is missing.
    let end = string_end(quoted).or((line.len() == LONGEST).then_some(quoted.len()))?;
    let mut text = unescaped(&quoted[..end]);
    text.extend_from_slice(quoted.get(end + 1..).unwrap_or_default());
    Some(Stripped { prefix: LinePrefix::Logrus, text: Cow::Owned(text) })
}

/// Go's quoting, as far as messages need it: `\"` and `\\`; any other escape becomes a blank.
fn unescaped(quoted: &[u8]) -> Vec<u8> {
    let mut bytes = quoted.iter().copied();
    let mut text = Vec::with_capacity(quoted.len());
    while let Some(byte) = bytes.next() {
        let mut escaped = || bytes.next().filter(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(b' ');
        text.push(if byte == b'\\' { escaped() } else { byte });
    }
    text
}

fn klog(line: &[u8]) -> Option<Stripped<'_>> {
    // The year does not matter here.
    let (_, length) = stamp::klog(&line[1..], i64::MAX)?;
    let rest = &line[1 + length..];
    let end = memchr::memmem::find(&rest[..rest.len().min(120)], b"] ")?;
    Some(stripped(LinePrefix::Klog, &rest[end + 2..]))
}

fn dated(line: &[u8]) -> Option<Stripped<'_>> {
    let (_, length) = stamp::date(line)?;
    Some(stripped(LinePrefix::Dated, line[length..].strip_prefix(b" ")?))
}

/// Our own log for machines.
fn object(line: &[u8]) -> Option<Stripped<'_>> {
    if !line.starts_with(b"{\"timestamp\":\"") {
        return None;
    }
    let object: serde_json::Value = serde_json::from_slice(line).ok()?;
    let message = object.get("message")?.as_str()?.to_owned();
    Some(Stripped { prefix: LinePrefix::Tracing, text: Cow::Owned(message.into_bytes()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::examples;

    /// An incomplete one stays a part of the message.
    #[test]
    fn every_known_prefix_of_a_log_line_is_removed() {
        for (line, expected) in examples(include_str!("../../tests/words/prefixes")) {
            let Stripped { prefix, text } = strip(line.as_bytes());
            let seen = format!("{prefix:?}: {}", String::from_utf8_lossy(&text).replace('\t', "<TAB>"));
            let expected = if expected == "None" { format!("None: {line}") } else { expected.to_owned() };
            assert_eq!(seen, expected, "{line}");
        }
    }

    #[test]
    fn a_line_that_was_cut_counts_by_its_beginning() {
        let line = format!("time=1 level=info msg=\"Start cri plugin {}", "x".repeat(LONGEST));
        let cut = strip(&line.as_bytes()[..LONGEST]);
        assert!(cut.prefix == LinePrefix::Logrus && cut.text.starts_with(b"Start cri plugin x"));
        assert_eq!(strip(&line.as_bytes()[..LONGEST - 1]).prefix, LinePrefix::None);
    }

    #[test]
    fn a_prefix_of_a_log_line_may_have_the_time() {
        for line in words! {
            "[21-Nov-25_11:51:41] x" "2025-11-21T11:51:41Z\tINFO\tx.go:1\tx"
            "time=2025-11-21T11:51:41Z level=info msg=x" "time=\"2025-11-21T12:51:41+01:00\" level=info msg=x"
            "{\"timestamp\":\"2025-11-21T11:51:41Z\",\"message\":\"x\"}" "Fri Nov 21 11:51:41 UTC 2025 x"
            "I1121 11:51:41.000000 1 main.go:27] x"
        } {
            let stamp = stamp(line.as_bytes(), 1_767_225_599 * stamp::SECOND).map(|stamp| stamp.ns);
            assert_eq!(stamp, Some(1_763_725_901 * stamp::SECOND), "{line}");
        }
        assert_eq!(stamp(b"level=info msg=x", 0), None);
        assert_eq!(stamp(b"", 0), None);
    }
}
