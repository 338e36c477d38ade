// SPDX-License-Identifier: Apache-2.0
//! Who holds MOFED's instance lock, from /proc/locks. The lock itself is never touched.

use crate::files::read::{Ended, lines, small, unreadable};
use crate::files::root;
use crate::observation::{Lock, Unreadable};
use nix::sys::stat::{major, minor};
use procfs::{FromBufRead, LockType, Locks};
use std::fs::Metadata;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Tens of thousands of locks.
const LOCKS: u64 = 4 * 1024 * 1024;

/// The lock, and the process that holds it if that is known.
#[must_use]
pub fn read(root: &Path, proc: &Path, path: &Path) -> (Lock, Option<i32>) {
    let metadata = root::resolve(root, path).and_then(|path| path.metadata());
    let metadata = match metadata {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return (Lock::NoFile, None),
        Err(error) => return (Lock::Unreadable(unreadable(path, &error)), None),
    };
    let locks = proc.join("locks");
    match holder(&locks, &metadata) {
        Err(why) => (Lock::Unreadable(why), None),
        Ok(Some(pid)) => (Lock::Held, pid),
        Ok(None) if shows_the_host(proc) => (Lock::Free, None),
        Ok(None) => (Lock::HolderHidden, None),
    }
}

/// Who holds a lock on that very file, by the first line of /proc/locks that is one; `None` where nobody does.
#[expect(clippy::option_option, reason = "nobody; a process that is not told; a process")]
fn holder(locks: &Path, file: &Metadata) -> Result<Option<Option<i32>>, Unreadable> {
    let mut held = None;
    let mut odd = None;
    let ended = lines(locks, LOCKS, |line| {
        // A line at a time: the crate gives up all of them for one that it cannot read.
        match Locks::from_buf_read(line) {
            Ok(Locks(locks)) => {
                held = held.or(locks.iter().find(|lock| is_on(lock, file)).map(|lock| lock.pid));
            }
            Err(_) if is_of_another_kind(line) => {}
            Err(_) => odd = Some(String::from_utf8_lossy(line).chars().take(80).collect::<String>()),
        }
        ControlFlow::Continue(())
    });
    let wrong = match (ended, odd) {
        (Err(error), _) => return Err(unreadable(locks, &error)),
        (Ok(_), _) if held.is_some() => return Ok(held),
        (Ok(Ended::Whole), None) => return Ok(None),
        (Ok(_), None) => "it is cut off".to_owned(),
        (Ok(_), Some(odd)) => format!("this line is malformed: {odd:?}"),
    };
    Err(Unreadable { path: locks.to_owned(), why: wrong })
}

/// MOFED's lock is an flock(2). Of the other kinds the crate does not know every field.
fn is_of_another_kind(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == b' ').skip(1);
    let kind = words.find(|word| !word.is_empty() && *word != b"->");
    kind.is_some_and(|kind| [&b"POSIX"[..], b"OFDLCK", b"LEASE", b"DELEG", b"LAYOUT"].contains(&kind))
}

fn is_on(lock: &procfs::Lock, file: &Metadata) -> bool {
    let device = (major(file.dev()), minor(file.dev()));
    lock.lock_type == LockType::FLock
        && (u64::from(lock.devmaj), u64::from(lock.devmin)) == device
        && lock.inode == file.ino()
}

/// /proc/locks leaves out the locks of processes that this procfs mount does not show, no matter who
/// reads it. Only the initial pid namespace has kthreadd as its process 2.
#[must_use]
pub fn shows_the_host(proc: &Path) -> bool {
    matches!(small(&proc.join("2/comm")), Ok(Some(name)) if name == "kthreadd")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_without_a_file_are_passed_over_and_odd_lines_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let (file, locks) = (dir.path().join(".lock"), dir.path().join("locks"));
        std::fs::write(&file, "").unwrap();
        let metadata = file.metadata().unwrap();
        let device = format!("{:02x}:{:02x}", major(metadata.dev()), minor(metadata.dev()));
        let ours = format!("2: FLOCK  ADVISORY  WRITE 1 {device}:{} 0 EOF\n", metadata.ino());
        let holder = |text: &str| {
            std::fs::write(&locks, text).unwrap();
            holder(&locks, &metadata)
        };
        let fileless = "1: POSIX  ADVISORY  READ 7 <none>:0 0 EOF\n";
        assert_eq!(holder(fileless), Ok(None));
        assert_eq!(holder(&format!("{fileless}{ours}")), Ok(Some(Some(1))));
        assert_eq!(holder(&ours.replace("FLOCK", "POSIX")), Ok(None), "MOFED's lock is an flock(2)");
        assert!(holder("what\n").unwrap_err().why.contains("what"));
        assert_eq!(holder(&format!("what\n{ours}")), Ok(Some(Some(1))));
    }
}
