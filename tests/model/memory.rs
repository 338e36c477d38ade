// SPDX-License-Identifier: Apache-2.0
//! The memory of a state machine, as it prints itself (`Debug`), with its times counted from now: two machines with
//! the same memory do the same from now on. So the model needs no access to their fields, and none can be forgotten.

use super::START;
use memchr::memmem;
use peermem_gate::time::BootTime;
use std::fmt::{Debug, Write};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Fields that are only counted or printed, or that matter after longer than any life of the search lasts. `since` is
/// `keep`'s own, its last one.
const UNUSED: [&str; 7] =
    [" ledger: ", " since: ", " start: ", " last_step: ", " next_heartbeat: ", " logged: ", " spent: "];
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
        let (mut hasher, mut times, mut done) = (DefaultHasher::new(), Vec::new(), 0);
        // Every time is later than the beginning of all lives, and no duration is as long.
        for at in memmem::find_iter(text.as_bytes(), START.as_secs().to_string().split_at(3).0) {
            let is_within = at < done || text.as_bytes()[..at].last().is_some_and(u8::is_ascii_digit);
            let length =
                text[at..].find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len() - at);
            let seconds = text[at..at + length].parse::<f64>().ok();
            let is_time = !is_within && text[at + length..].starts_with('s');
            if let Some(seconds) = seconds.filter(|seconds| is_time && *seconds >= START.as_secs_f64()) {
                text[done..at].hash(&mut hasher);
                times.push(BootTime::from_secs_f64(seconds));
                done = at + length;
            }
        }
        text[done..].hash(&mut hasher);
        Self { text: hasher.finish(), times }
    }

    /// The memory as it is at this time.
    pub(crate) fn hash_at<H: Hasher>(&self, now: BootTime, state: &mut H) {
        self.text.hash(state);
        self.times.iter().for_each(|time| relative(*time, now).hash(state));
    }
}

/// This time, counted from now, in milliseconds.
pub(crate) fn relative(time: BootTime, now: BootTime) -> i64 {
    let milliseconds = |time: BootTime| i64::try_from(time.as_millis()).unwrap_or_default();
    (milliseconds(time) - milliseconds(now)).max(PAST)
}

/// Cuts out the last field of this name.
fn cut(text: &mut String, field: &str) {
    let Some(at) = memmem::rfind(text.as_bytes(), field.as_bytes()) else { return };
    let mut depth = 0;
    let end = text[at..].find(|c| {
        let is_end = depth == 0 && matches!(c, ',' | '}');
        depth += i32::from(matches!(c, '{' | '[' | '(')) - i32::from(matches!(c, '}' | ']' | ')'));
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
        let mut hasher = DefaultHasher::new();
        memory.hash_at(seconds(now), &mut hasher);
        hasher.finish()
    };
    assert_eq!(at(1_000_000, 3.5, 1_000_002), at(1_000_100, 3.5, 1_000_102));
    assert_ne!(at(1_000_000, 3.5, 1_000_002), at(1_000_000, 3.5, 1_000_001));
    assert_ne!(at(1_000_000, 3.5, 1_000_002), at(1_000_000, 3.0, 1_000_002));
    assert_eq!(at(1_000_000, 0.0, 1_000_050), at(1_000_000, 1.0, 1_000_050), "long ago");
}
