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
    use proptest::prelude::*;

    fn read(line: &str) -> Option<(String, String, bool)> {
        let record = container(line.as_bytes())?;
        let stamp = record.written.stamp(0).map(|stamp| stamp.to_string()).unwrap_or_default();
        Some((stamp, String::from_utf8_lossy(&record.text).into_owned(), record.is_partial))
    }

    fn is(line: &str, text: &str, is_partial: bool) {
        let stamp = "2025-11-21T11:58:39.123456789Z".to_owned();
        assert_eq!(read(line), Some((stamp, text.to_owned(), is_partial)), "{line}");
    }

    #[test]
    fn lines_of_the_cri_are_read() {
        is("2025-11-21T11:58:39.123456789Z stderr F a  text ", "a  text ", false);
        is("2025-11-21T11:58:39.123456789Z stdout P half of", "half of", true);
        is("2025-11-21T11:58:39.123456789Z stdout F", "", false);
        is("2025-11-21T11:58:39.123456789Z stdout F ", "", false);
        is("2025-11-21T11:58:39.123456789Z stdout P:more text", "text", true);
        for almost in words! {
            "2025-11-21T11:58:39.123456789Z stdin F text" "2025-11-21T11:58:39.123456789Z stderr X text"
            "2025-11-21T11:58:39.123456789Z stderr Full text" "2025-11-21 stderr F text"
            " 2025-11-21T11:58:39.123456789Z stderr F text" ""
        } {
            assert_eq!(read(almost), None, "{almost}");
        }
    }

    #[test]
    fn lines_of_docker_are_read() {
        let time = r#""stream":"stderr","time":"2025-11-21T11:58:39.123456789Z"}"#;
        is(&format!(r#"{{"log":"a text\n",{time}"#), "a text", false);
        is(&format!(r#"{{"log":"half of",{time}"#), "half of", true);
        is(&format!(r#"{{"log":"a \"quoted\"\ttext \u003c\n",{time}"#), "a \"quoted\"\ttext <", false);
        is(&format!(r#"{{"log":"a backslash and an n\\n",{time}"#), "a backslash and an n\\n", true);
        is(
            &format!(r#"{{"log":"\"time\":\"1999\"\n","attrs":{{"a":"b"}},{time}"#),
            "\"time\":\"1999\"",
            false,
        );
        for almost in [
            r#"{"log":"no end"#,
            r#"{"log":"\"#,
            r#"{"log":"no time\n","stream":"stderr"}"#,
            r#"{"msg":"x"}"#,
        ] {
            assert_eq!(read(almost), None, "{almost}");
        }
        assert_eq!(read(&format!(r#"{{"log":"\ud800\n",{time}"#)), None, "half a surrogate");
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
