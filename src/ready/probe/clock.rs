// SPDX-License-Identifier: Apache-2.0
//! The node's own clock, from below its /proc.

use crate::ready::files::read::{lines, small, unreadable};
use crate::ready::node_clock::NodeClock;
use crate::ready::observation::{Seen, Unreadable};
use std::ops::ControlFlow;
use std::path::Path;

/// A thousand processors have a line each before `btime`.
const STAT: u64 = 1024 * 1024;

/// When it was started, and how long it has run.
#[must_use]
pub fn read(proc: &Path) -> NodeClock {
    NodeClock { boot: boot(&proc.join("stat")), uptime: uptime(&proc.join("uptime")) }
}

fn boot(stat: &Path) -> Seen<i64> {
    let mut boot = None;
    let read = lines(stat, STAT, |line| match line.strip_prefix(b"btime ").map(String::from_utf8_lossy) {
        Some(seconds) => {
            boot = Some(seconds.trim().parse());
            ControlFlow::Break(())
        }
        None => ControlFlow::Continue(()),
    });
    match (read, boot) {
        (Err(error), _) => Err(unreadable(stat, &error)),
        (Ok(_), Some(Ok(seconds))) => Ok(seconds),
        (Ok(_), _) => Err(Unreadable { path: stat.to_owned(), why: "no line says btime".to_owned() }),
    }
}

fn uptime(path: &Path) -> Seen<i64> {
    let why = |why: &str| Unreadable { path: path.to_owned(), why: why.to_owned() };
    let text = small(path)?.ok_or_else(|| why("No such file or directory"))?;
    let seconds = text.split('.').next().and_then(|seconds| seconds.parse().ok());
    seconds.ok_or_else(|| why("it does not begin with a number of seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_below_another_root_uses_the_clock_of_that_tree() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("stat", "cpu  1 2 3\nctxt 5\nbtime 1755650000\nprocesses 7\n");
        write("uptime", "3600.25 99.00\n");
        assert_eq!(read(dir.path()).now(), Some(1_755_653_600));
        assert_eq!(read(dir.path()).age(1_755_653_000), Some(600));
        write("stat", "cpu 1\nbtime soon\n");
        assert_eq!(read(dir.path()).boot.unwrap_err().why, "no line says btime");
        write("uptime", "\n");
        assert!(read(dir.path()).uptime.is_err());
        assert_eq!(read(&dir.path().join("none")).now(), None);
    }
}
