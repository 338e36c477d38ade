// SPDX-License-Identifier: Apache-2.0
//! Who holds the lock on a file, from /proc/locks and /proc/PID/fdinfo. The lock itself is never touched.

use crate::ready::files::read;
use crate::ready::files::read::{FileEnd, entries, lines, present, unreadable};
use crate::ready::observation::{Lock, Seen, Unreadable};
use nix::sys::stat::{major, minor};
use procfs::{FromBufRead, LockKind, LockType, Locks};
use std::fs::Metadata;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Tens of thousands of locks.
const LOCKS: u64 = 4 * 1024 * 1024;
/// Open files of a process that are searched for a lock. The driver's script has a handful.
const FILES: usize = 1000;

/// The lock, and the process that holds it if that is known.
#[must_use]
pub fn read(root: &Path, proc: &Path, path: &Path) -> (Lock, Option<i32>) {
    let metadata = read::metadata(root, path);
    let metadata = match metadata {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return (Lock::NoFile, None),
        Err(error) => return (Lock::Unreadable(unreadable(path, &error)), None),
    };
    match holder(&proc.join("locks"), &metadata) {
        Err(why) => (Lock::Unreadable(why), None),
        Ok(Some(pid)) => (Lock::Held, pid),
        Ok(None) => match shows_the_host(proc) {
            Ok(true) => (Lock::Free, None),
            Ok(false) => (Lock::HolderHidden, None),
            Err(why) => (Lock::Unreadable(why), None),
        },
    }
}

/// Whether this process holds the lock on that very file. The kernel shows this in /proc/PID/fdinfo. /proc/locks has
/// the process that took the lock: for the driver's script that is flock(1), which has ended since. Where there is no
/// fdinfo, as in a copy of a node's /proc, /proc/locks decides.
///
/// # Errors
/// A file that decides it cannot be read.
pub fn is_held_by(root: &Path, proc: &Path, path: &Path, pid: u32) -> Seen<bool> {
    let metadata = read::metadata(root, path);
    let metadata = metadata.map_err(|error| unreadable(path, &error))?;
    let directory = proc.join(pid.to_string()).join("fdinfo");
    let open_files = match entries(&directory, FILES) {
        Ok(open_files) => open_files,
        Err(error) if error.kind() == ErrorKind::NotFound => return took_lock(proc, &metadata, pid),
        Err(error) => return Err(unreadable(&directory, &error)),
    };
    for open_file in open_files {
        if has_lock(&open_file.path(), &metadata)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn took_lock(proc: &Path, file: &Metadata, pid: u32) -> Seen<bool> {
    let holder = holder(&proc.join("locks"), file)?;
    Ok(holder.flatten().and_then(|holder| u32::try_from(holder).ok()) == Some(pid))
}

/// Whether this file of /proc/PID/fdinfo has a lock on `file`: `lock: 1: FLOCK …` (proc(5)).
fn has_lock(fdinfo: &Path, file: &Metadata) -> Seen<bool> {
    let mut has_lock = false;
    let ended = lines(fdinfo, LOCKS, |line| {
        let lock = line.strip_prefix(b"lock:");
        has_lock |=
            lock.is_some_and(|lock| matches!(parsed(lock), LockLine::Held(lock) if is_on(&lock, file)));
        ControlFlow::Continue(())
    });
    match ended {
        Ok(_) => Ok(has_lock),
        // It was closed meanwhile.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(unreadable(fdinfo, &error)),
    }
}

/// Which process holds a lock on that very file, by the first line of /proc/locks that is one; `None` where none
/// does.
#[expect(clippy::option_option, reason = "no process; a hidden process; a process")]
fn holder(locks: &Path, file: &Metadata) -> Seen<Option<Option<i32>>> {
    let mut held = None;
    let mut odd = None;
    let ended = lines(locks, LOCKS, |line| {
        match parsed(line) {
            LockLine::Held(lock) if held.is_none() && is_on(&lock, file) => held = Some(lock.pid),
            LockLine::Held(_) | LockLine::Ignored => {}
            LockLine::Odd => odd = Some(String::from_utf8_lossy(line).chars().take(80).collect::<String>()),
        }
        ControlFlow::Continue(())
    });
    let wrong = match (ended, odd) {
        (Err(error), _) => return Err(unreadable(locks, &error)),
        (Ok(_), _) if held.is_some() => return Ok(held),
        (Ok(FileEnd::Whole), None) => return Ok(None),
        (Ok(_), None) => "it is cut off".to_owned(),
        (Ok(_), Some(odd)) => format!("this line is malformed: {odd:?}"),
    };
    Err(Unreadable { path: locks.to_owned(), why: wrong })
}

/// A line of /proc/locks.
enum LockLine {
    /// A lock that a process has.
    Held(procfs::Lock),
    /// A process that waits for a lock (`->`), or a kind of lock that does not count here.
    Ignored,
    Odd,
}

/// A line at a time: the crate gives up all of them for one that it cannot read. It also drops the `->`.
fn parsed(line: &[u8]) -> LockLine {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).skip(1);
    if let Some(b"->" | b"POSIX" | b"OFDLCK" | b"LEASE" | b"DELEG" | b"LAYOUT") = words.next() {
        return LockLine::Ignored;
    }
    match Locks::from_buf_read(line) {
        Ok(Locks(mut locks)) => locks.pop().map_or(LockLine::Odd, LockLine::Held),
        Err(_) => LockLine::Odd,
    }
}

/// MOFED's lock and the driver's are exclusive. A shared one does not count: any process that may open the file can
/// take it.
fn is_on(lock: &procfs::Lock, file: &Metadata) -> bool {
    let device = (major(file.dev()), minor(file.dev()));
    lock.lock_type == LockType::FLock
        && matches!(lock.kind, LockKind::Write)
        && (u64::from(lock.devmaj), u64::from(lock.devmin)) == device
        && lock.inode == file.ino()
}

/// /proc/locks leaves out the locks of processes that this procfs mount does not show, no matter who
/// reads it. Only the initial pid namespace has kthreadd as its process 2.
///
/// # Errors
/// It cannot be read. Only that there is no process 2 is an answer.
pub fn shows_the_host(proc: &Path) -> Seen<bool> {
    Ok(present(&proc.join("2/comm"))?.is_some_and(|name| name == "kthreadd"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::{Flock, FlockArg};
    use std::fs::{self, File};
    use std::process::Command;

    struct Tree {
        tree: tempfile::TempDir,
        device: String,
    }

    fn tree() -> Tree {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("proc/2")).unwrap();
        fs::write(tree.path().join("proc/2/comm"), "kthreadd\n").unwrap();
        fs::write(tree.path().join(".lock"), "").unwrap();
        let file = tree.path().join(".lock").metadata().unwrap();
        let device = format!("{:02x}:{:02x}:{}", major(file.dev()), minor(file.dev()), file.ino());
        Tree { tree, device }
    }

    impl Tree {
        fn read(&self, locks: &str) -> (Lock, Option<i32>) {
            let root = self.tree.path();
            fs::write(root.join("proc/locks"), locks).unwrap();
            read(Path::new("/"), &root.join("proc"), &root.join(".lock"))
        }
    }

    #[test]
    fn locks_without_a_file_are_ignored_and_odd_lines_are_not() {
        let tree = tree();
        let ours = format!("2: FLOCK  ADVISORY  WRITE 1 {} 0 EOF\n", tree.device);
        let fileless = "1: POSIX  ADVISORY  READ 7 <none>:0 0 EOF\n";
        assert_eq!(tree.read(fileless), (Lock::Free, None));
        assert_eq!(tree.read(&format!("{fileless}{ours}")), (Lock::Held, Some(1)));
        assert_eq!(tree.read(&ours.replace("FLOCK", "POSIX")).0, Lock::Free, "MOFED's lock is an flock(2)");
        assert!(matches!(tree.read("what\n").0, Lock::Unreadable(why) if why.why.contains("what")));
        assert_eq!(tree.read(&format!("what\n{ours}")), (Lock::Held, Some(1)));
    }

    #[test]
    fn a_shared_lock_and_a_process_that_waits_are_not_mofed() {
        let tree = tree();
        for (others, kind) in [("2: ", "READ"), ("2: -> ", "WRITE"), ("2: -> ", "READ")] {
            let line = format!("{others}FLOCK  ADVISORY  {kind} 7 {} 0 EOF\n", tree.device);
            assert_eq!(tree.read(&line), (Lock::Free, None), "{line}");
        }
        let held = format!("2: FLOCK  ADVISORY  WRITE 1 {0} 0 EOF\n", tree.device);
        let waiting = format!("2: -> FLOCK  ADVISORY  WRITE 7 {0} 0 EOF\n", tree.device);
        assert_eq!(tree.read(&format!("{held}{waiting}")), (Lock::Held, Some(1)));
    }

    #[test]
    fn only_a_missing_process_2_shows_that_the_lock_holder_is_hidden() {
        let tree = tree();
        let comm = tree.tree.path().join("proc/2/comm");
        fs::remove_file(&comm).unwrap();
        assert_eq!(tree.read("").0, Lock::HolderHidden);
        fs::create_dir(&comm).unwrap();
        assert!(matches!(tree.read("").0, Lock::Unreadable(why) if why.path == comm));
        fs::remove_dir(&comm).unwrap();
        std::os::unix::fs::symlink("comm", &comm).unwrap();
        assert!(matches!(tree.read("").0, Lock::Unreadable(why) if why.path == comm));
    }

    #[test]
    fn a_process_holds_a_lock_that_its_child_took_for_it_and_another_that_has_the_file_open_does_not() {
        let tree = tempfile::tempdir().unwrap();
        let path = tree.path().join("pid");
        let held_by = |pid| is_held_by(Path::new("/"), Path::new("/proc"), &path, pid);
        let file = File::create(&path).unwrap();
        assert_eq!(held_by(std::process::id()), Ok(false));
        // As flock(1) does for the driver's script.
        let script = format!("exec 3>{0}; flock -n 3; echo; read end", path.display());
        let mut child = Command::new("sh");
        child.args(["-c", &script]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = child.spawn().unwrap();
        let mut line = [0];
        std::io::Read::read_exact(&mut child.stdout.take().unwrap(), &mut line).unwrap();
        assert_eq!((held_by(child.id()), held_by(std::process::id())), (Ok(true), Ok(false)));
        drop(child.stdin.take());
        child.wait().unwrap();
        let lock = Flock::lock(file, FlockArg::LockShared).unwrap();
        assert_eq!(held_by(std::process::id()), Ok(false), "a shared lock");
        drop(lock);
    }
}
