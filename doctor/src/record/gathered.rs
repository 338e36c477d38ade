// SPDX-License-Identifier: Apache-2.0
//! Lines as `kubectl logs` prints them, with `--prefix` and `--timestamps` or without.

use super::place::is_name;
use super::{Record, Written, container};
use std::borrow::Cow;

/// Splits `[pod/NAME/CONTAINER] text` into pod, container and text.
pub fn prefixed(line: &[u8]) -> Option<(&str, &str, &[u8])> {
    let rest = line.strip_prefix(b"[pod/")?;
    let end = memchr::memmem::find(&rest[..rest.len().min(600)], b"] ")?;
    let (pod, container) = std::str::from_utf8(&rest[..end]).ok()?.split_once('/')?;
    (is_name(pod, "-.") && is_name(container, "-.")).then_some((pod, container, &rest[end + 2..]))
}

/// Splits stern's `POD CONTAINER text` into pod, container and text. Prose has the same form: the caller must know
/// the container.
pub fn stern(line: &[u8]) -> Option<(&str, &str, &[u8])> {
    let mut parts = line.splitn(3, |byte| *byte == b' ');
    let [pod, container, text] = [parts.next()?, parts.next()?, parts.next()?];
    let is_name = |name: &&str| is_name(name, "-.");
    let name = |bytes| std::str::from_utf8(bytes).ok().filter(is_name);
    // A pod of a DaemonSet or a Deployment has its owner's name and a hash.
    Some((name(pod).filter(|pod| pod.contains('-'))?, name(container)?, text))
}

/// A line that a container printed: as the runtimes keep it, behind kubectl's stamp, or as it is.
pub fn printed(line: &[u8]) -> Record<'_> {
    container(line).unwrap_or_else(|| {
        let (written, text) = stamped(line).unwrap_or((Written::Nothing, line));
        Record { written, text: Cow::Borrowed(text), is_partial: false }
    })
}

/// kubectl puts its stamp and one blank before the line. Loggers write a level behind theirs.
fn stamped(line: &[u8]) -> Option<(Written<'_>, &[u8])> {
    const LEVELS: [&[u8]; 5] = [b"TRACE", b"DEBUG", b"INFO", b"WARN", b"ERROR"];
    let end = memchr::memchr(b' ', &line[..line.len().min(40)])?;
    let (stamp, text) = (&line[..end], &line[end + 1..]);
    let is_stamp =
        stamp.len() >= 20 && stamp[10] == b'T' && (stamp[end - 1] == b'Z' || stamp[end - 3] == b':');
    let is_loggers = LEVELS.iter().any(|level| text.trim_ascii_start().starts_with(level));
    (is_stamp && !is_loggers && crate::stamp::rfc3339(stamp).is_some())
        .then_some((Written::Rfc3339(stamp), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stern_puts_pod_and_container_before_the_line() {
        let line = b"nvidia-driver-daemonset-564xm nvidia-driver-ctr a  text";
        let expected = ("nvidia-driver-daemonset-564xm", "nvidia-driver-ctr", &b"a  text"[..]);
        assert_eq!(stern(line), Some(expected));
        for odd in ["", "a-b c", "a-b  c", "A-b c d", "word nvidia-driver-ctr text", "a-b \u{1b}c d"] {
            assert_eq!(stern(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn the_time_that_kubectl_adds_is_not_the_programs_own() {
        let is = |line: &str, stamp: Option<&str>, text: &str| {
            let record = printed(line.as_bytes());
            let seen = record.written.stamp(0).map(|stamp| stamp.to_string());
            assert_eq!((seen.as_deref(), &*record.text), (stamp, text.as_bytes()), "{line}");
        };
        is("2025-11-21T11:58:39.123456789Z a text", Some("2025-11-21T11:58:39.123456789Z"), "a text");
        is("2025-11-21T12:58:39.123456789+01:00 a text", Some("2025-11-21T11:58:39.123456789Z"), "a text");
        is(
            "2025-11-21T11:58:39Z [21-Nov-25_11:58:39] a text",
            Some("2025-11-21T11:58:39Z"),
            "[21-Nov-25_11:58:39] a text",
        );
        is("2025-11-21T11:58:39Z stderr F a text", Some("2025-11-21T11:58:39Z"), "a text");
        let zap = "2025-11-21T11:58:39.123Z\tINFO\tready/ready.go:85\ta text";
        is(&format!("2025-11-21T11:58:39.5Z {zap}"), Some("2025-11-21T11:58:39.500Z"), zap);
        for own in [
            zap,
            "2025-11-21T11:58:39.123Z INFO ready/ready.go:85 a text",
            "2025-11-21T11:58:39.123456Z  INFO a text",
            "a text",
        ] {
            is(own, None, own);
        }
    }
}
