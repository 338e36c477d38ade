// SPDX-License-Identifier: Apache-2.0
//! Stamps at the beginning of bytes, in the forms that logs have.

use super::civil::{Civil, year};
use super::{SECOND, Stamp};

/// A stamp, and how many bytes it took.
pub type Parsed = Option<(Stamp, usize)>;

const MONTHS: [&[u8]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
const WEEKDAYS: [&[u8]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];

/// Reads from the front of some bytes.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Exactly this many digits.
    fn digits(&mut self, count: usize) -> Option<i64> {
        let digits = self.bytes.get(self.at..self.at + count)?;
        self.at += count;
        digits.iter().try_fold(0, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'))
        })
    }

    /// A date and a time in this form: `Y` and `y` for years of four and two digits, `M` for a month's number and
    /// `N` for its name, `D` for a day and `d` for one of one digit with a blank before it or two, `h`, `m`, `s`,
    /// and what else there is for itself.
    fn civil(&mut self, form: &str) -> Option<Civil> {
        let mut civil = Civil { year: 0, month: 0, day: 0, hour: 0, minute: 0, second: 0 };
        for part in form.bytes() {
            match part {
                b'Y' => civil.year = self.digits(4)?,
                b'y' => civil.year = 2000 + self.digits(2)?,
                b'M' => civil.month = self.digits(2)?,
                b'N' => civil.month = self.one_of(&MONTHS)? + 1,
                b'D' => civil.day = self.digits(2)?,
                b'd' => civil.day = if self.skip(b' ').is_some() { self.digits(1)? } else { self.digits(2)? },
                b'h' => civil.hour = self.digits(2)?,
                b'm' => civil.minute = self.digits(2)?,
                b's' => civil.second = self.digits(2)?,
                other => self.skip(other)?,
            }
        }
        Some(civil)
    }

    /// `.123456`, or nothing: nanoseconds and the clock's step. More than nine digits are cut.
    fn fraction(&mut self) -> Option<(i64, i64)> {
        if !matches!(self.peek(), Some(b'.' | b',')) {
            return Some((0, SECOND));
        }
        self.at += 1;
        let (mut ns, mut step, mut count) = (0, SECOND, 0);
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            if step > 1 {
                step /= 10;
                ns += i64::from(digit - b'0') * step;
            }
            count += 1;
            self.at += 1;
        }
        (count > 0).then_some((ns, step))
    }

    /// `Z`, `+01:00` or `+0100`, in seconds east of UTC.
    fn zone(&mut self) -> Option<i64> {
        if self.skip(b'Z').is_some() {
            return Some(0);
        }
        let sign = match self.peek()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        self.at += 1;
        let hours = self.digits(2)?;
        let _ = self.skip(b':');
        Some(sign * (hours * 3600 + self.digits(2)? * 60))
    }

    fn one_of(&mut self, names: &[&[u8]]) -> Option<i64> {
        let name = self.bytes.get(self.at..self.at + 3)?;
        let found = names.iter().position(|known| *known == name)?;
        self.at += 3;
        i64::try_from(found).ok()
    }

    fn done(&self, civil: Civil, ns: i64, zone: i64, step: i64) -> Parsed {
        let seconds = civil.unix()? - zone;
        Some((Stamp::wall(seconds.checked_mul(SECOND)?.checked_add(ns)?, step), self.at))
    }

    /// Without a year or a zone: UTC is assumed, and the latest year in which it is not later than `not_after_ns`.
    fn done_before(&self, not_after_ns: i64, civil: Civil, ns: i64, step: i64) -> Parsed {
        let latest = year(not_after_ns);
        // 29 February comes every fourth year only.
        let in_years =
            (latest - 8..=latest).rev().filter_map(|year| self.done(Civil { year, ..civil }, ns, 0, step));
        in_years.into_iter().find(|(stamp, _)| stamp.ns <= not_after_ns)
    }
}

/// `2025-11-21T11:58:39.123456789Z`, also with a blank for the T and with `+0100` for the zone
/// (`journalctl -o short-iso-precise`). A stamp without a zone is none.
pub fn rfc3339(bytes: &[u8]) -> Parsed {
    let mut cursor = Cursor::new(bytes);
    let is_blank = bytes.get(10) == Some(&b' ');
    let civil = cursor.civil(if is_blank { "Y-M-D h:m:s" } else { "Y-M-DTh:m:s" })?;
    let (ns, step) = cursor.fraction()?;
    let zone = cursor.zone()?;
    cursor.done(civil, ns, zone, step)
}

/// `21-Nov-25_11:51:13`, as doca-driver-build's entrypoint.sh prints it, in the container's zone (UTC).
pub fn entrypoint(bytes: &[u8]) -> Parsed {
    let mut cursor = Cursor::new(bytes);
    let civil = cursor.civil("D-N-y_h:m:s")?;
    cursor.done(civil, 0, 0, SECOND)
}

/// `Nov 21 11:58:39`, as syslog has always written it. `not_after_ns` is in nanoseconds since 1970.
pub fn classic(bytes: &[u8], not_after_ns: i64) -> Parsed {
    let mut cursor = Cursor::new(bytes);
    let civil = cursor.civil("N d h:m:s")?;
    cursor.done_before(not_after_ns, civil, 0, SECOND)
}

/// `Fri Nov 21 11:54:07 UTC 2025`, as date(1) prints it in English, also with AM or PM.
pub fn date(bytes: &[u8]) -> Parsed {
    let mut cursor = Cursor::new(bytes);
    cursor.one_of(&WEEKDAYS)?;
    let mut civil = cursor.civil(" N d h:m:s ")?;
    if let half @ (b"AM " | b"PM ") = cursor.bytes.get(cursor.at..cursor.at + 3)? {
        civil.hour = civil.hour % 12 + if half == b"PM " { 12 } else { 0 };
        cursor.at += 3;
    }
    // dmesg -T prints no zone.
    if cursor.bytes.get(cursor.at..)?.starts_with(b"UTC ") {
        cursor.at += 4;
    }
    let year = cursor.digits(4)?;
    cursor.done(Civil { year, ..civil }, 0, 0, SECOND)
}

/// `1121 11:51:41.123456`, what follows klog's letter. As [`classic`].
pub fn klog(bytes: &[u8], not_after_ns: i64) -> Parsed {
    let mut cursor = Cursor::new(bytes);
    let civil = cursor.civil("MD h:m:s")?;
    let (ns, step) = cursor.fraction()?;
    cursor.done_before(not_after_ns, civil, ns, step)
}

/// `[ 1234.567890]`, as the kernel prints the time since its start.
pub fn since_boot(bytes: &[u8]) -> Parsed {
    let mut cursor = Cursor::new(bytes);
    cursor.skip(b'[')?;
    while cursor.skip(b' ').is_some() {}
    let (mut seconds, mut count) = (0_i64, 0);
    while let Some(digit @ b'0'..=b'9') = cursor.peek() {
        seconds = seconds.checked_mul(10)?.checked_add(i64::from(digit - b'0'))?;
        count += 1;
        cursor.at += 1;
    }
    let (ns, step) = cursor.fraction()?;
    // A thread's number, as in `[ 12.345678][ T1]`, follows where CONFIG_PRINTK_CALLER is set.
    cursor.skip(b']').filter(|()| count > 0 && step < SECOND)?;
    Some((Stamp::boot(seconds.checked_mul(SECOND)?.checked_add(ns)?, step), cursor.at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(parsed: Parsed) -> Option<(String, usize)> {
        parsed.map(|(stamp, length)| (stamp.to_string(), length))
    }

    fn is(parsed: Parsed, text: &str, length: usize) {
        assert_eq!(shown(parsed), Some((text.to_owned(), length)));
    }

    const END_OF_2025: i64 = 1_767_225_599 * SECOND;

    #[test]
    fn every_form_of_a_time_stamp_is_read() {
        is(rfc3339(b"2025-11-21T11:58:39.123456789Z stderr"), "2025-11-21T11:58:39.123456789Z", 30);
        is(rfc3339(b"2025-11-21T12:58:39.5+01:00"), "2025-11-21T11:58:39.500Z", 27);
        is(rfc3339(b"2025-11-21T06:58:39.123456-0500 host"), "2025-11-21T11:58:39.123456Z", 31);
        is(rfc3339(b"2025-11-21 11:58:39Z"), "2025-11-21T11:58:39Z", 20);
        is(entrypoint(b"21-Nov-25_11:51:13] DTK"), "2025-11-21T11:51:13Z", 18);
        is(classic(b"Nov 21 11:51:13 host", END_OF_2025), "2025-11-21T11:51:13Z", 15);
        is(classic(b"Sep  8 17:16:02 host", END_OF_2025), "2025-09-08T17:16:02Z", 15);
        is(date(b"Fri Nov 21 11:54:07 UTC 2025 Waiting"), "2025-11-21T11:54:07Z", 28);
        is(date(b"Fri Nov 21 11:54:07 PM UTC 2025"), "2025-11-21T23:54:07Z", 31);
        is(date(b"Fri Nov 21 11:54:07 2025] text"), "2025-11-21T11:54:07Z", 24);
        is(klog(b"1121 11:51:41.123456       1 main.go", END_OF_2025), "2025-11-21T11:51:41.123456Z", 20);
        is(since_boot(b"[ 1234.567890] text"), "1234.567890 s after boot", 14);
        is(since_boot(b"[    0.000000]"), "0.000000 s after boot", 14);
    }

    #[test]
    fn a_stamp_without_a_year_is_of_the_past() {
        let new_year = 1_767_225_600 * SECOND;
        is(classic(b"Dec 31 23:59:59 host", new_year), "2025-12-31T23:59:59Z", 15);
        is(classic(b"Jan  1 00:00:00 host", new_year), "2026-01-01T00:00:00Z", 15);
        is(classic(b"Feb 29 12:00:00 host", new_year), "2024-02-29T12:00:00Z", 15);
    }

    #[test]
    fn text_that_resembles_a_time_stamp_is_rejected() {
        let almost: [&[u8]; 8] = [
            b"2025-11-21T11:58:39",
            b"2025-11-21T11:58:39.Z",
            b"2025-13-21T11:58:39Z",
            b"2025-02-29T11:58:39Z",
            b"2025-11-21T24:58:39Z",
            b"0000-11-21T11:58:39Z",
            b"9999-11-21T11:58:39Z",
            b"2025-11-21t11:58:39Z",
        ];
        for text in almost {
            assert_eq!(rfc3339(text), None, "{}", String::from_utf8_lossy(text));
        }
        assert_eq!(classic(b"Nov 31 11:51:13 host", END_OF_2025), None);
        assert_eq!(since_boot(b"[  OK  ] Started"), None);
        assert_eq!(since_boot(b"[12]"), None);
        assert_eq!(since_boot(b"[99999999999999999999.1]"), None);
    }

    proptest! {
        /// Up to the year 2261: the last one that 64 bits hold whole.
        #[test]
        fn a_printed_time_stamp_is_read_back(ns in 0..9_190_000_000_000_000_000_i64) {
            prop_assert_eq!(rfc3339(Stamp::wall(ns, 1).to_string().as_bytes()).map(|(s, _)| s), Some(Stamp::wall(ns, 1)));
        }
    }
}
