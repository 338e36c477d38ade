// SPDX-License-Identifier: Apache-2.0
//! The limit of this process's address space (`RLIMIT_AS`), read without the heap, which may have no room.

use std::fs::File;
use std::io::Read;

/// A little more than the file has.
const LIMITS: usize = 4096;

/// The limit in bytes; `None` where there is none, or it cannot be read.
#[must_use]
pub fn limit() -> Option<u64> {
    let mut buffer = [0; LIMITS];
    let read = File::open("/proc/self/limits").and_then(|mut file| file.read(&mut buffer)).ok()?;
    of(std::str::from_utf8(&buffer[..read]).ok()?)
}

fn of(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_space_limit_is_a_number_or_unlimited() {
        let limits =
            |soft: &str| format!("Limit  Soft Limit\nMax address space         {soft}  unlimited  bytes\n");
        assert_eq!(of(&limits("2097152")), Some(2_097_152));
        for none in [limits("unlimited"), "Max address space".to_owned(), String::new()] {
            assert_eq!(of(&none), None);
        }
    }
}
