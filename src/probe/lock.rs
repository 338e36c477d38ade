// SPDX-License-Identifier: Apache-2.0
//! Who holds MOFED's instance lock, from /proc/locks. The lock itself is never touched.

use super::read::{open, small, unreadable};
use super::root;
use crate::observation::{Lock, Unreadable};
use nix::sys::stat::{major, minor};
use procfs::{FromBufRead, LockType, Locks};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Above this, /proc/locks is not what it should be.
const MAX_LOCKS: u64 = 16 * 1024 * 1024;

pub(super) fn read(root: &Path, proc: &Path, path: &Path) -> Lock {
    let metadata = root::resolve(root, path).and_then(|path| path.metadata());
    let metadata = match metadata {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Lock::NoFile,
        Err(error) => return Lock::Unreadable(unreadable(path, &error)),
    };
    let locks_path = proc.join("locks");
    let locks = match open(&locks_path) {
        Ok(file) => Locks::from_buf_read(BufReader::new(file.take(MAX_LOCKS))),
        Err(error) => return Lock::Unreadable(unreadable(&locks_path, &error)),
    };
    let locks = match locks {
        Ok(Locks(locks)) => locks,
        Err(error) => return Lock::Unreadable(Unreadable { path: locks_path, why: error.to_string() }),
    };
    let on_file = |lock: &procfs::Lock| {
        lock.lock_type == LockType::FLock
            && (u64::from(lock.devmaj), u64::from(lock.devmin))
                == (major(metadata.dev()), minor(metadata.dev()))
            && lock.inode == metadata.ino()
    };
    if locks.iter().any(on_file) {
        Lock::Held
    } else if shows_the_host(proc) {
        Lock::Free
    } else {
        Lock::HolderHidden
    }
}

/// /proc/locks leaves out the locks of processes that this procfs mount does not show, whoever
/// reads it. Only the initial pid namespace has kthreadd as its process 2.
fn shows_the_host(proc: &Path) -> bool {
    matches!(small(&proc.join("2/comm")), Ok(Some(name)) if name == "kthreadd")
}
