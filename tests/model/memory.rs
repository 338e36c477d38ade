// SPDX-License-Identifier: Apache-2.0
//! The memory of a state machine, as it prints itself (`Debug`), with its times counted from now: two machines with
//! the same memory do the same from now on. So the model needs no access to their fields, and none can be forgotten.

use super::{START, age};
use memchr::memmem;
use peermem_gate::ready::time::BootTime;
use std::fmt::{Debug, Write};
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// Fields that are only counted or printed, or that matter after longer than any life of the search lasts. `since` is
/// `keep`'s own, its last one.
const UNUSED: [&str; 7] =
    [" ledger: ", " since: ", " start: ", " last_step: ", " next_heartbeat: ", " logged: ", " spent: "];
/// How every time of a life begins: [`START`] is a million seconds.
const TIME: &[u8] = b"100";
/// No time matters that lies longer ago: the settle times after failures are the longest.
const PAST: i64 = -4_500;

/// The memory of a machine: the text without its times, and the times.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    text: u64,
    times: Vec<BootTime>,
}

impl Memory {
    pub(crate) fn of(machine: &impl Debug) -> Self {
        let mut text = String::with_capacity(8192);
        write!(text, "{machine:?}").expect("a string takes it");
        for field in UNUSED {
            cut(&mut text, field);
        }
        let (mut digest, mut times, mut done) = (0, Vec::new(), 0);
        // Every time is later than the beginning of all lives, and no duration is as long.
        for at in memmem::find_iter(text.as_bytes(), TIME) {
            let number = number(&text.as_bytes()[at..]);
            let is_time = at >= done && text[at + number.len()..].starts_with('s');
            let seconds = is_time.then(|| str::from_utf8(number).ok()?.parse::<f64>().ok()).flatten();
            if let Some(seconds) = seconds.filter(|seconds| *seconds >= START.as_secs_f64()) {
                digest = digested(digest, &text.as_bytes()[done..at]);
                times.push(BootTime::from_secs_f64(seconds));
                done = at + number.len();
            }
        }
        Self { text: digested(digest, &text.as_bytes()[done..]), times }
    }

    /// The memory as it is at this moment.
    pub(crate) fn hash_at<H: Hasher>(&self, moment: Moment, state: &mut H) {
        self.text.hash(state);
        self.times.iter().for_each(|time| moment.to(*time).hash(state));
    }
}

/// A time from which others are counted, and how finely.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: BootTime,
    pub(crate) grain: Duration,
}

impl Moment {
    /// To that time, in grains. Long ago is all the same.
    pub(crate) fn to(self, time: BootTime) -> i64 {
        let milliseconds = |time: BootTime| i64::try_from(time.as_millis()).unwrap_or_default();
        let to = (milliseconds(time) - milliseconds(self.now)).max(PAST);
        to.div_euclid(milliseconds(self.grain))
    }

    /// For how long something has been so, up to the last that matters.
    pub(crate) fn age(self, since: BootTime, most: Duration) -> u128 {
        age(since, self.now).min(most).as_millis() / self.grain.as_millis()
    }
}

/// The digits at the beginning.
fn number(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.');
    &text[..end.unwrap_or(text.len())]
}

/// A digest of both (FNV-1a, eight bytes at a time): the standard one takes ten times as long in a test's build.
fn digested(digest: u64, text: &[u8]) -> u64 {
    let mut digest = digest ^ text.len() as u64;
    for bytes in text.chunks(8) {
        let mut eight = [0; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        digest = (digest ^ u64::from_le_bytes(eight)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    }
    digest
}

/// Cuts out the last field of this name.
fn cut(text: &mut String, field: &str) {
    let Some(at) = memmem::rfind(text.as_bytes(), field.as_bytes()) else { return };
    let mut depth = 0;
    let end = text.as_bytes()[at..].iter().position(|byte| {
        let is_end = depth == 0 && matches!(byte, b',' | b'}');
        match byte {
            b'{' | b'[' | b'(' => depth += 1,
            b'}' | b']' | b')' => depth -= 1,
            _ => {}
        }
        is_end
    });
    if let Some(length) = end {
        text.replace_range(at..at + length, "");
    }
}

#[test]
fn a_memory_is_the_same_whenever_it_is_told() {
    #[derive(Debug)]
    #[expect(dead_code, reason = "only printed")]
    struct Machine {
        start: BootTime,
        from: BootTime,
        pause: BootTime,
        spent: Vec<(u8, BootTime)>,
        n: u32,
    }
    let at = |start: u64, from: f64, now: u64| {
        let seconds = BootTime::from_secs;
        let from = seconds(start) + BootTime::from_secs_f64(from);
        let spent = vec![(1, seconds(start)), (2, seconds(3))];
        let memory =
            Memory::of(&Machine { start: seconds(start), from, pause: seconds(1), spent, n: 1_000_000 });
        assert_eq!(memory.times, [from]);
        let mut hasher = std::hash::DefaultHasher::new();
        let grain = Duration::from_millis(1);
        memory.hash_at(Moment { now: seconds(now), grain }, &mut hasher);
        hasher.finish()
    };
    assert_eq!(at(1_000_000, 3.5, 1_000_002), at(1_000_100, 3.5, 1_000_102));
    assert_ne!(at(1_000_000, 3.5, 1_000_002), at(1_000_000, 3.5, 1_000_001));
    assert_ne!(at(1_000_000, 3.5, 1_000_002), at(1_000_000, 3.0, 1_000_002));
    assert_eq!(at(1_000_000, 0.0, 1_000_050), at(1_000_000, 1.0, 1_000_050), "long ago");
}
