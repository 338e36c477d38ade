// SPDX-License-Identifier: Apache-2.0
//! The kernel's log: in syslog's files, and record by record from /dev/kmsg.

use super::Written;
use crate::stamp::{self, Stamp};

/// A line of a system log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemLine<'a> {
    /// When, by the wall clock.
    pub written: Written<'a>,
    /// When, by the kernel's own clock, where the line has that too.
    pub since_boot: Option<Stamp>,
    /// The program's name: `kernel`, `chronyd`.
    pub program: &'a [u8],
    /// The message.
    pub text: &'a [u8],
}

/// Splits `STAMP HOST PROGRAM[PID]: text`, as rsyslog and journalctl write it, with an RFC 3339 or a classic
/// stamp; also what dmesg and talosctl print, which has no host and is always the kernel's. `None` for anything else.
pub fn system_line(line: &[u8]) -> Option<SystemLine<'_>> {
    if line.first() == Some(&b'[') {
        return printed(line);
    }
    if let Some(rest) = line.strip_prefix(b"kern:") {
        return talos(rest);
    }
    let (written, rest) = written(line)?;
    let (_host, rest) = word(rest)?;
    let colon = memchr::memchr(b':', rest).filter(|at| memchr::memchr(b' ', &rest[..*at]).is_none())?;
    let program = rest[..colon].split(|byte| *byte == b'[').next()?;
    let text = rest[colon + 1..].strip_prefix(b" ")?;
    let (since_boot, text) = if program == b"kernel" { boot(text) } else { (None, text) };
    Some(SystemLine { written, since_boot, program, text })
}

/// dmesg's `[ 1234.567890] text`, or `[Fri Nov 21 11:58:39 2025] text`.
fn printed(line: &[u8]) -> Option<SystemLine<'_>> {
    if let (Some(since_boot), text) = boot(line) {
        return Some(SystemLine {
            written: Written::Nothing,
            since_boot: Some(since_boot),
            program: b"kernel",
            text,
        });
    }
    let (stamp, length) = stamp::date(&line[1..])?;
    let text = line[1 + length..].strip_prefix(b"] ")?;
    Some(SystemLine { written: Written::Read(stamp), since_boot: None, program: b"kernel", text })
}

/// Behind its facility, talosctl's `    err: [2025-11-21T11:58:39.123456789Z]: text`.
fn talos(rest: &[u8]) -> Option<SystemLine<'_>> {
    let (_level, rest) = rest.split_at_checked(memchr::memmem::find(rest, b": [")? + 3)?;
    let (stamp, text) = rest.split_at_checked(memchr::memchr(b']', rest)?)?;
    let text = text.strip_prefix(b"]: ")?;
    Some(SystemLine { written: Written::Rfc3339(stamp), since_boot: None, program: b"kernel", text })
}

fn written(line: &[u8]) -> Option<(Written<'_>, &[u8])> {
    /// `Nov 21 11:58:39`.
    const CLASSIC: usize = 15;
    if line.first()?.is_ascii_digit() {
        let (stamp, rest) = word(line)?;
        return (stamp.get(10) == Some(&b'T')).then_some((Written::Rfc3339(stamp), rest));
    }
    let (stamp, rest) = line.split_at_checked(CLASSIC)?;
    let is_stamp = stamp[3] == b' ' && stamp[6] == b' ' && stamp[9] == b':' && stamp[12] == b':';
    let rest = rest.strip_prefix(b" ").filter(|_| is_stamp)?;
    Some((Written::Classic(stamp), rest))
}

fn word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b' ', bytes).filter(|end| *end > 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// The kernel's own stamp, and the number of the thread or processor where `CONFIG_PRINTK_CALLER` is set.
fn boot(text: &[u8]) -> (Option<Stamp>, &[u8]) {
    let Some((stamp, length)) = stamp::since_boot(text) else { return (None, text) };
    let mut rest = &text[length..];
    if let Some(caller) = rest.strip_prefix(b"[") {
        rest = memchr::memchr(b']', caller).map_or(rest, |end| &caller[end + 1..]);
    }
    (Some(stamp), rest.strip_prefix(b" ").unwrap_or(rest))
}

/// Splits a record of /dev/kmsg, `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;text` and then lines of keys (kernel,
/// Documentation/ABI/testing/dev-kmsg). `None` also for what a program has written there: its facility is
/// not the kernel's.
pub fn ring(record: &[u8]) -> Option<(Stamp, &[u8])> {
    const MICROSECOND: i64 = 1_000;
    let (head, text) = record.split_at(memchr::memchr(b';', record)?);
    let mut fields = head.split(|byte| *byte == b',');
    let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse::<i64>().ok();
    let (priority, _sequence, microseconds) = (number()?, number()?, number()?);
    let is_kernels = (0..8).contains(&priority) && microseconds >= 0;
    let text = text[1..].split(|byte| *byte == b'\n').next().filter(|_| is_kernels)?;
    Some((Stamp::boot(microseconds.checked_mul(MICROSECOND)?, MICROSECOND), text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::examples;

    /// The time, the time since the boot, the program and the text of each.
    #[test]
    fn lines_of_a_system_log_are_read() {
        const END_OF_2025: i64 = 1_767_225_599 * stamp::SECOND;
        for (line, expected) in examples(include_str!("../../tests/words/system_lines")) {
            let seen = system_line(line.as_bytes()).map(|line| {
                let stamps = [line.written.stamp(END_OF_2025), line.since_boot];
                let [written, since] = stamps.map(|at| at.map(|at| at.to_string()).unwrap_or_default());
                let [program, text] = [line.program, line.text].map(String::from_utf8_lossy);
                format!("{written} | {since} | {program} | {text}")
            });
            assert_eq!(seen.as_deref().unwrap_or("nothing"), expected, "{line}");
        }
        assert_eq!(system_line(b""), None);
    }

    #[test]
    fn records_of_the_kernels_ring_are_read() {
        let record = b"4,1234,5678901,-;nvidia_peermem: Unknown symbol x (err -2)\n SUBSYSTEM=module\n";
        let (stamp, text) = ring(record).unwrap();
        assert_eq!(
            (stamp.to_string().as_str(), text),
            ("5.678901 s after boot", &b"nvidia_peermem: Unknown symbol x (err -2)"[..])
        );
        // systemd says this, not the kernel.
        assert_eq!(ring(b"30,1,2,-;systemd[1]: x"), None);
        assert_eq!(ring(b"garbage"), None);
        assert_eq!(ring(b"6,1,-2,-;x"), None);
    }
}
