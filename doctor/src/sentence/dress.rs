// SPDX-License-Identifier: Apache-2.0
//! What loggers put before a sentence: a time, a level, a line of source.

use super::LONGEST;
use crate::record::string_end;
use crate::stamp::{self, Stamp};
use std::borrow::Cow;

/// How a line is dressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dress {
    /// The sentence alone.
    Bare,
    /// `[21-Nov-25_11:51:13] sentence`: entrypoint.sh.
    Bracketed,
    /// `2026-09-09T15:56:46.385Z INFO ready/ready.go:85 sentence {"key": …}`: zap's console.
    Zap,
    /// `time=2025-11-21T11:51:41Z level=info msg=sentence`, quoted or not, with a time or without: logrus, slog.
    Logrus,
    /// `I1121 11:51:41.123456       1 main.go:27] sentence`: klog.
    Klog,
    /// `2025/11/21 11:54:07 sentence`: Go's own log.
    GoLog,
    /// `Fri Nov 21 11:54:07 UTC 2025 sentence`: date(1).
    Dated,
    /// `[Nov 21 2025 11:52:57] [INFO] [tid 12] sentence`: fabric manager, IMEX.
    Threaded,
    /// `2025-11-21T11:51:41.123456Z  INFO sentence key=value`, or an object: tracing, our own.
    Tracing,
}

/// A sentence out of its dress.
pub(super) struct Undressed<'a> {
    pub(super) dress: Dress,
    pub(super) text: Cow<'a, [u8]>,
}

/// Takes the dress off. The text begins with a sentence's first byte.
pub(super) fn undress(line: &[u8]) -> Undressed<'_> {
    let line = line.trim_ascii_start();
    let dressed = match line.first() {
        Some(b'[') => bracketed(line).or_else(|| threaded(line)),
        Some(b'0'..=b'9') => leveled(line).or_else(|| go_log(line)),
        Some(b't' | b'l') => logrus(line),
        Some(b'I' | b'W' | b'E' | b'F') => klog(line).or_else(|| dated(line)),
        Some(b'M' | b'T' | b'S') => dated(line),
        Some(b'{') => object(line),
        _ => None,
    };
    dressed.unwrap_or(Undressed { dress: Dress::Bare, text: Cow::Borrowed(line) })
}

/// The time in a line's dress, where it has one.
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

const fn dressed(dress: Dress, text: &[u8]) -> Undressed<'_> {
    Undressed { dress, text: Cow::Borrowed(text) }
}

fn bracketed(line: &[u8]) -> Option<Undressed<'_>> {
    let (_, length) = stamp::entrypoint(&line[1..])?;
    // What its commands print is indented.
    Some(dressed(Dress::Bracketed, line[1 + length..].strip_prefix(b"] ")?.trim_ascii_start()))
}

fn threaded(line: &[u8]) -> Option<Undressed<'_>> {
    const THREAD: &[u8] = b"] [tid ";
    let at = memchr::memmem::find(&line[..line.len().min(60)], THREAD)? + THREAD.len();
    let end = line[at..].iter().position(|byte| !byte.is_ascii_digit())?;
    Some(dressed(Dress::Threaded, line[at + end..].strip_prefix(b"] ")?))
}

/// A stamp, a level, and in Go's case the line of source.
fn leveled(line: &[u8]) -> Option<Undressed<'_>> {
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
        Some((caller, rest)) if is_caller(caller) => Some(dressed(Dress::Zap, rest)),
        _ => Some(dressed(Dress::Tracing, rest.trim_ascii_start())),
    }
}

/// Digits where `2025/11/21 11:54:07 ` has them, and nothing else between.
fn go_log(line: &[u8]) -> Option<Undressed<'_>> {
    const STAMP: &[u8] = b"0000/00/00 00:00:00 ";
    let (stamp, text) = line.split_at_checked(STAMP.len())?;
    let fits = |(is, shape): (&u8, &u8)| if *shape == b'0' { is.is_ascii_digit() } else { is == shape };
    stamp.iter().zip(STAMP).all(fits).then(|| dressed(Dress::GoLog, text))
}

/// `ready/ready.go:85`
fn is_caller(word: &[u8]) -> bool {
    let file = word.split(|byte| *byte == b':').next().unwrap_or_default();
    file.len() < word.len() && file.ends_with(b".go")
}

/// The first word and what stands behind it, blanks trimmed.
fn word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let bytes = bytes.trim_ascii_start();
    let end = bytes.iter().position(u8::is_ascii_whitespace)?;
    Some((&bytes[..end], bytes[end..].trim_ascii_start()))
}

/// Keys before the message are few and short; what follows it belongs to the sentence.
fn logrus(line: &[u8]) -> Option<Undressed<'_>> {
    const HEAD: usize = 120;
    const MESSAGE: &[u8] = b"msg=";
    if !line.starts_with(b"time=") && !line.starts_with(b"level=") {
        return None;
    }
    let at = memchr::memmem::find(&line[..line.len().min(HEAD)], MESSAGE)? + MESSAGE.len();
    let message = &line[at..];
    let Some(quoted) = message.strip_prefix(b"\"") else {
        return Some(dressed(Dress::Logrus, message));
    };
    // Of a line that was cut, such as containerd's with its whole configuration, the end is missing.
    let end = string_end(quoted).or((line.len() == LONGEST).then_some(quoted.len()))?;
    let mut text = unescaped(&quoted[..end]);
    text.extend_from_slice(quoted.get(end + 1..).unwrap_or_default());
    Some(Undressed { dress: Dress::Logrus, text: Cow::Owned(text) })
}

/// Go's quoting, as far as sentences need it: `\"` and `\\`; any other escape becomes a blank.
fn unescaped(quoted: &[u8]) -> Vec<u8> {
    let mut bytes = quoted.iter().copied();
    let mut text = Vec::with_capacity(quoted.len());
    while let Some(byte) = bytes.next() {
        let mut escaped = || bytes.next().filter(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(b' ');
        text.push(if byte == b'\\' { escaped() } else { byte });
    }
    text
}

fn klog(line: &[u8]) -> Option<Undressed<'_>> {
    // The year does not matter here.
    let (_, length) = stamp::klog(&line[1..], i64::MAX)?;
    let rest = &line[1 + length..];
    let end = memchr::memmem::find(&rest[..rest.len().min(120)], b"] ")?;
    Some(dressed(Dress::Klog, &rest[end + 2..]))
}

fn dated(line: &[u8]) -> Option<Undressed<'_>> {
    let (_, length) = stamp::date(line)?;
    Some(dressed(Dress::Dated, line[length..].strip_prefix(b" ")?))
}

/// Our own log for machines.
fn object(line: &[u8]) -> Option<Undressed<'_>> {
    if !line.starts_with(b"{\"timestamp\":\"") {
        return None;
    }
    let object: serde_json::Value = serde_json::from_slice(line).ok()?;
    let message = object.get("message")?.as_str()?.to_owned();
    Some(Undressed { dress: Dress::Tracing, text: Cow::Owned(message.into_bytes()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is(line: &str, dress: Dress, text: &str) {
        let undressed = undress(line.as_bytes());
        let seen = String::from_utf8_lossy(&undressed.text).into_owned();
        assert_eq!((undressed.dress, seen.as_str()), (dress, text), "{line}");
    }

    #[test]
    fn every_dress_comes_off() {
        is("a sentence", Dress::Bare, "a sentence");
        is("[21-Nov-25_11:51:13] a sentence", Dress::Bracketed, "a sentence");
        is(
            "2026-09-09T15:56:46.385Z\tINFO\tready/ready.go:85\ta sentence\t{\"path\": \"x\"}",
            Dress::Zap,
            "a sentence\t{\"path\": \"x\"}",
        );
        is("2026-09-09T15:56:46.385Z INFO ready/ready.go:85 a sentence", Dress::Zap, "a sentence");
        is("2025-11-21T11:51:41.123456Z  INFO a sentence key=1", Dress::Tracing, "a sentence key=1");
        is(
            "{\"timestamp\":\"2025-11-21T11:51:41Z\",\"level\":\"INFO\",\"message\":\"a sentence\"}",
            Dress::Tracing,
            "a sentence",
        );
        is("time=2025-11-21T11:51:41Z level=info msg=a sentence", Dress::Logrus, "a sentence");
        is(
            "time=\"2025-11-21T11:51:41Z\" level=info msg=\"a \\\"sentence\\\"\\n\" key=1",
            Dress::Logrus,
            "a \"sentence\"  key=1",
        );
        is("level=error msg=\"a sentence\"", Dress::Logrus, "a sentence");
        is("2025/11/21 11:54:07 a sentence", Dress::GoLog, "a sentence");
        is("[Nov 21 2025 11:52:57] [INFO] [tid 12] a sentence", Dress::Threaded, "a sentence");
        is("I1121 11:51:41.123456       1 main.go:27] a sentence", Dress::Klog, "a sentence");
        is("Fri Nov 21 11:54:07 UTC 2025 a sentence", Dress::Dated, "a sentence");
        is("Fri Nov 21 11:54:07 AM UTC 2025 a sentence", Dress::Dated, "a sentence");
    }

    #[test]
    fn of_a_line_that_was_cut_the_beginning_counts() {
        let line = format!("time=1 level=info msg=\"Start cri plugin {}", "x".repeat(LONGEST));
        let cut = undress(&line.as_bytes()[..LONGEST]);
        assert!(cut.dress == Dress::Logrus && cut.text.starts_with(b"Start cri plugin x"));
        assert_eq!(undress(&line.as_bytes()[..LONGEST - 1]).dress, Dress::Bare);
    }

    #[test]
    fn what_is_almost_a_dress_is_a_part_of_the_sentence() {
        for line in [
            "[21-Nov-25] a sentence",
            "[Nov 21 2025 11:52:57] [INFO] [tid x] a sentence",
            "2026-09-09T15:56:46.385Z NOTE a sentence",
            "2026-09-09 INFO a sentence",
            "2026/09/09 a sentence",
            "level=info a sentence",
            "time=1 msg=\"no end",
            "I1121 a sentence",
            "Friday a sentence",
            "{\"timestamp\":\"x\"",
        ] {
            is(line, Dress::Bare, line);
        }
    }

    #[test]
    fn a_dress_may_tell_the_time() {
        for line in [
            "[21-Nov-25_11:51:41] x",
            "2025-11-21T11:51:41Z\tINFO\tx.go:1\tx",
            "time=2025-11-21T11:51:41Z level=info msg=x",
            "time=\"2025-11-21T12:51:41+01:00\" level=info msg=x",
            "{\"timestamp\":\"2025-11-21T11:51:41Z\",\"message\":\"x\"}",
            "Fri Nov 21 11:51:41 UTC 2025 x",
            "I1121 11:51:41.000000 1 main.go:27] x",
        ] {
            let stamp = stamp(line.as_bytes(), 1_767_225_599 * stamp::SECOND).map(|stamp| stamp.ns);
            assert_eq!(stamp, Some(1_763_725_901 * stamp::SECOND), "{line}");
        }
        assert_eq!(stamp(b"level=info msg=x", 0), None);
        assert_eq!(stamp(b"", 0), None);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..200), head in 0..8_usize) {
            let heads: [&[u8]; 8] = [b"", b"[", b"2026-09-09T15:56:46.385Z INFO ", b"time=\"x\" msg=\"", b"I1121 11:51:41.1", b"Fri Nov 21 ", b"{\"timestamp\":\"", b"level="];
            let line = [heads[head], bytes.as_slice()].concat();
            let _ = (undress(&line), stamp(&line, 0));
        }
    }
}
