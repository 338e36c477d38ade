// SPDX-License-Identifier: Apache-2.0
//! The memory of a state machine, as it prints itself, with its times counted from now: two machines with the same
//! memory do the same from now on. So the model needs no access to their fields, and none can be forgotten.

use super::START;
use crate::time::BootTime;

/// Fields that are only counted, printed, or waited for longer than any life of the model lasts. `since` is `keep`'s
/// own, its last one.
const UNUSED: [&str; 7] = ["ledger", "since", "start", "last_step", "next_heartbeat", "logged", "spent"];
/// No time of the model matters that lies longer ago: settle times after failures are the longest.
const PAST: f64 = -4.5;

/// This memory, without the clock's own value.
pub(super) fn relative(memory: &str, now: BootTime) -> String {
    let memory = UNUSED.iter().fold(memory.to_owned(), |memory, field| without(memory, field));
    let mut told = String::with_capacity(memory.len());
    let mut rest = memory.as_str();
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let length = rest[at..].find(|c| !is_number(c)).unwrap_or(rest.len() - at);
        let (before, number, after) = (&rest[..at], &rest[at..at + length], &rest[at + length..]);
        let seconds = number.parse::<f64>().ok().filter(|_| after.starts_with('s'));
        told += before;
        match seconds.filter(|seconds| *seconds >= START.as_secs_f64()) {
            Some(seconds) => told += &format!("{:+.1}", (seconds - now.as_secs_f64()).max(PAST)),
            None => told += number,
        }
        rest = after;
    }
    told + rest
}

/// Without the last field of this name.
fn without(mut memory: String, field: &str) -> String {
    let Some(at) = memory.rfind(&format!(" {field}: ")) else { return memory };
    let mut depth = 0;
    let end = memory[at..].find(|c| {
        let is_end = depth == 0 && matches!(c, ',' | '}');
        depth += i32::from(matches!(c, '{' | '[' | '(')) - i32::from(matches!(c, '}' | ']' | ')'));
        is_end
    });
    if let Some(length) = end {
        memory.replace_range(at..at + length, "");
    }
    memory
}

#[test]
fn a_memory_is_the_same_whenever_it_is_told() {
    let at = |start: u64, now| {
        let memory = format!(
            "Keep {{ start: {start}s, from: {}.5s, pause: 1.5s, spent: [(A, 3s)], n: 2 }}",
            start + 3
        );
        relative(&memory, BootTime::from_secs(now))
    };
    assert_eq!(at(1_000_000, 1_000_002), "Keep {, from: +1.5s, pause: 1.5s,, n: 2 }");
    assert_eq!(at(1_000_000, 1_000_002), at(1_000_100, 1_000_102));
    assert_ne!(at(1_000_000, 1_000_002), at(1_000_000, 1_000_001));
}
