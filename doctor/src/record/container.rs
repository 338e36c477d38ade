// SPDX-License-Identifier: Apache-2.0
//! The CRI's format (kubelet, `pkg/kubelet/kuberuntime/logs`) and Docker's `json-file`.

use super::{Record, Written};
use std::borrow::Cow;

/// Longer than any RFC 3339 stamp.
const STAMP: usize = 40;

/// Splits a line of a container's log; `None` where it is in neither format.
pub fn container(line: &[u8]) -> Option<Record<'_>> {
    match line.first()? {
        b'{' => docker(line),
        b'0'..=b'9' => cri(line),
        _ => None,
    }
}

/// `2025-11-21T11:58:39.123456789Z stderr F text`. The tag is F or P, perhaps with more behind colons.
fn cri(line: &[u8]) -> Option<Record<'_>> {
    let end = memchr::memchr(b' ', &line[..line.len().min(STAMP)])?;
    let (stamp, rest) = (&line[..end], &line[end + 1..]);
    if stamp.get(10) != Some(&b'T') {
        return None;
    }
    let rest = rest.strip_prefix(b"stdout ").or_else(|| rest.strip_prefix(b"stderr "))?;
    let is_partial = match rest.first()? {
        b'F' => false,
        b'P' => true,
        _ => return None,
    };
    let text = match rest.get(1) {
        None => &[],
        Some(b' ') => &rest[2..],
        Some(b':') => &rest[memchr::memchr(b' ', rest)? + 1..],
        Some(_) => return None,
    };
    Some(Record { written: Written::Rfc3339(stamp), text: Cow::Borrowed(text), is_partial })
}

/// `{"log":"text\n","stream":"stderr","time":"2025-11-21T11:58:39.123456789Z"}`. Docker cuts long lines:
/// what does not end with a newline goes on.
fn docker(line: &[u8]) -> Option<Record<'_>> {
    const TIME: &[u8] = b"\"time\":\"";
    let rest = line.strip_prefix(b"{\"log\":\"")?;
    let (log, rest) = rest.split_at(string_end(rest)?);
    let time = memchr::memmem::find(rest, TIME)? + TIME.len();
    let time = &rest[time..];
    let stamp = &time[..memchr::memchr(b'"', &time[..time.len().min(STAMP)])?];
    let (text, is_partial) = unescaped(log)?;
    Some(Record { written: Written::Rfc3339(stamp), text, is_partial })
}

/// Where the quote is that ends a string in which a backslash takes away the next byte's meaning: JSON's, Go's.
pub(crate) fn string_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// A JSON string's bytes without the newline at its end, and whether there was none.
fn unescaped(log: &[u8]) -> Option<(Cow<'_, [u8]>, bool)> {
    let (body, is_partial) = match log.strip_suffix(b"\\n") {
        // `\\n` would be a backslash and an n.
        Some(body) if !ends_in_half_an_escape(body) => (body, false),
        _ => (log, true),
    };
    if memchr::memchr(b'\\', body).is_none() {
        return Some((Cow::Borrowed(body), is_partial));
    }
    let quoted = [b"\"", body, b"\""].concat();
    let text: String = serde_json::from_slice(&quoted).ok()?;
    Some((Cow::Owned(text.into_bytes()), is_partial))
}

fn ends_in_half_an_escape(body: &[u8]) -> bool {
    body.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::examples;
    use proptest::prelude::*;

    fn read(line: &str) -> Option<(String, String, bool)> {
        let record = container(line.as_bytes())?;
        let stamp = record.written.stamp(0).map(|stamp| stamp.to_string()).unwrap_or_default();
        Some((stamp, String::from_utf8_lossy(&record.text).into_owned(), record.is_partial))
    }

    /// Of the CRI and of Docker, whole and in parts.
    #[test]
    fn lines_of_container_runtimes_are_read() {
        for (line, expected) in examples(include_str!("../../tests/words/container_lines")) {
            let seen = read(&line).map_or_else(
                || "nothing".to_owned(),
                |(stamp, text, is_partial)| {
                    let part = if is_partial { "part" } else { "line" };
                    format!("{stamp} {part}: {}", text.replace('\t', "<TAB>"))
                },
            );
            assert_eq!(seen, expected, "{line}");
        }
        assert_eq!(read(""), None);
    }

    proptest! {
        #[test]
        fn escapes_in_dockers_json_log_are_decoded(text in "[^\n]{0,60}") {
            let line = serde_json::json!({"log": format!("{text}\n"), "stream": "stdout", "time": "2025-11-21T11:58:39Z"});
            // serde_json sorts the keys; Docker writes the log first.
            let line = line.to_string();
            prop_assert_eq!(read(&line).map(|read| read.1), Some(text));
        }
    }
}
