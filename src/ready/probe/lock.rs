// SPDX-License-Identifier: Apache-2.0
//! Who holds the lock on a file, from /proc/locks and /proc/PID/fdinfo. The lock itself is never touched.

use crate::ready::files::read;
use crate::ready::files::read::{FileEnd, entries, lines, present, unreadable};
use crate::ready::observation::{Lock, Seen, Unreadable};
use nix::sys::stat::{major, minor};
use procfs::{FromBufRead, LockKind, LockType, Locks};
use std::collections::BTreeMap;
use std::fs::{DirEntry, Metadata};
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};

/// Some 4,000 locks, in 4 ms. For each page of /proc/locks the kernel walks all locks before it: 60,000 take half a
/// second, 200,000 take 14 s. Any user may have so many, so the processes themselves are asked then.
const LOCKS: u64 = 256 * 1024;
/// Open files of a process that are searched for a lock. The driver's script has a handful.
const FILES: usize = 1000;
/// The same in a search through all processes, of the lock's user only; MOFED's entrypoint has a handful.
const FEW: usize = 64;
/// Open files that are looked at in such a search, which takes some 2 µs each.
const LINKS: usize = 5000;
/// Processes of a node.
const PROCESSES: usize = 100_000;

/// The process that had MOFED's lock last: a hint, which is checked each time.
static LAST: AtomicI32 = AtomicI32::new(0);

/// The lock, and the process that holds it if that is known.
#[must_use]
pub fn read(root: &Path, proc: &Path, path: &Path) -> (Lock, Option<i32>) {
    let metadata = read::metadata(root, path);
    let metadata = match metadata {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return (Lock::NoFile, None),
        Err(error) => return (Lock::Unreadable(unreadable(path, &error)), None),
    };
    let listed = holder(&proc.join("locks"), &metadata);
    let found = match listed {
        Err(Listed::TooMany(most)) => {
            search(proc, path, &metadata).map(|pid| pid.map(Some)).ok_or_else(|| too_many(proc, most))
        }
        Err(Listed::Unreadable(why)) => Err(why),
        Ok(found) => Ok(found),
    };
    match found {
        Err(why) => (Lock::Unreadable(why), None),
        Ok(Some(pid)) => {
            LAST.store(pid.unwrap_or_default(), Ordering::Relaxed);
            (Lock::Held, pid)
        }
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
    let holder = holder(&proc.join("locks"), file).map_err(|why| match why {
        Listed::Unreadable(why) => why,
        Listed::TooMany(most) => too_many(proc, most),
    })?;
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
fn holder(locks: &Path, file: &Metadata) -> Result<Option<Option<i32>>, Listed> {
    let (mut held, mut odd, mut size) = (None, None, 0);
    let mut owners: BTreeMap<_, u32> = BTreeMap::new();
    let ended = lines(locks, LOCKS, |line| {
        size += line.len() as u64 + 1;
        let owner = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).nth(4);
        *owners.entry(owner.and_then(|pid| str::from_utf8(pid).ok()?.parse().ok())).or_default() += 1;
        match parsed(line) {
            LockLine::Held(lock) if held.is_none() && is_on(&lock, file) => held = Some(lock.pid),
            LockLine::Held(_) | LockLine::Ignored => {}
            LockLine::Odd => odd = Some(String::from_utf8_lossy(line).chars().take(80).collect::<String>()),
        }
        ControlFlow::Continue(())
    });
    let wrong = match (ended, odd) {
        (Err(error), _) => return Err(Listed::Unreadable(unreadable(locks, &error))),
        (Ok(_), _) if held.is_some() => return Ok(held),
        (Ok(FileEnd::Truncated), _) if size >= LOCKS => {
            let most = owners.iter().max_by_key(|(_, count)| **count);
            return Err(Listed::TooMany(most.and_then(|(pid, _)| *pid)));
        }
        (Ok(FileEnd::Whole), None) => return Ok(None),
        (Ok(_), None) => "it is cut off".to_owned(),
        (Ok(_), Some(odd)) => format!("this line is malformed: {odd:?}"),
    };
    Err(Listed::Unreadable(Unreadable { path: locks.to_owned(), why: wrong }))
}

/// Why /proc/locks does not say who holds a lock.
enum Listed {
    Unreadable(Unreadable),
    /// There are too many; this process holds most of those that were read.
    TooMany(Option<u32>),
}

fn too_many(proc: &Path, most: Option<u32>) -> Unreadable {
    let whose = most.map_or_else(String::new, |pid| {
        let comm = present(&proc.join(pid.to_string()).join("comm")).ok().flatten().unwrap_or_default();
        format!(": most are of process {pid} ({comm}); what to do: end it")
    });
    Unreadable { path: proc.join("locks"), why: format!("there are too many locks to read{whose}") }
}

/// Which process has that lock, asked of the processes that may have it: those of the file's owner and of root.
/// `None` where not all of them could be asked.
#[expect(clippy::option_option, reason = "unknown; no process; a process")]
fn search(proc: &Path, path: &Path, file: &Metadata) -> Option<Option<i32>> {
    let mut left = LINKS;
    let last = LAST.load(Ordering::Relaxed);
    if last != 0 && asked(proc, last, path, file, &mut left) == Some(true) {
        return Some(Some(last));
    }
    let mut has_asked = false;
    for process in entries(proc, PROCESSES).ok()? {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if read::stat(&process.path()).is_ok_and(|of| of.uid() == file.uid() || of.uid() == 0) {
            if asked(proc, pid, path, file, &mut left)? {
                return Some(Some(pid));
            }
            has_asked |= process.path().join("fd").exists();
        }
    }
    has_asked.then_some(None)
}

/// Whether this process has the file open and locked; `None` where that cannot be read, or `left` is used up. A
/// process with many open files is not MOFED's entrypoint.
fn asked(proc: &Path, pid: i32, path: &Path, file: &Metadata, left: &mut usize) -> Option<bool> {
    let process = proc.join(pid.to_string());
    let open_files = match entries(&process.join("fd"), FEW) {
        Ok(open_files) => open_files,
        Err(error) if error.raw_os_error().is_none() || error.kind() == ErrorKind::NotFound => {
            return Some(false);
        }
        Err(_) => return None,
    };
    *left = left.checked_sub(open_files.len())?;
    // Its own mount namespace shows the file at another path, but by the same name.
    let is_open =
        |fd: &DirEntry| fd.path().read_link().is_ok_and(|link| link.file_name() == path.file_name());
    let mut open = open_files.iter().filter(|fd| is_open(fd));
    Some(open.any(|fd| has_lock(&process.join("fdinfo").join(fd.file_name()), file) == Ok(true)))
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

    /// Any user can have a hundred thousand locks. MOFED's holder is found beside them, without a read of them all,
    /// and where nobody holds the lock that is known, too.
    #[test]
    fn beside_a_flood_of_locks_the_processes_themselves_are_asked() {
        let tree = tree();
        let flood = "1: POSIX  ADVISORY  WRITE 4711 08:01:42 0 EOF\n".repeat(20_000);
        let ours = format!("2: FLOCK  ADVISORY  WRITE 7 {} 0 EOF\n", tree.device);
        assert_eq!(tree.read(&format!("{ours}{flood}")), (Lock::Held, Some(7)), "it is among the first");
        let flooded = || tree.read(&format!("{flood}{ours}"));
        let Lock::Unreadable(why) = flooded().0 else { panic!("no process can be asked") };
        assert!(why.why.contains("too many locks to read: most are of process 4711"), "{why}");
        let root = tree.tree.path();
        let opens = |pid: u32, file: &str, locks: &str| {
            let process = root.join(format!("proc/{pid}"));
            fs::create_dir_all(process.join("fdinfo")).unwrap();
            fs::create_dir_all(process.join("fd")).unwrap();
            let _ = fs::remove_file(process.join("fd/3"));
            std::os::unix::fs::symlink(file, process.join("fd/3")).unwrap();
            fs::write(process.join("fdinfo/3"), locks).unwrap();
        };
        opens(8, "/dev/null", "pos:\t0\n");
        assert_eq!(flooded(), (Lock::Free, None), "each was asked, and nobody has it");
        let lock = format!("lock:\t1: FLOCK  ADVISORY  WRITE 7 {} 0 EOF\n", tree.device);
        opens(9, "/drivers/.lock", &lock.replace("WRITE", "READ"));
        assert_eq!(flooded(), (Lock::Free, None), "a shared lock");
        opens(9, "/drivers/.lock", &lock);
        assert_eq!(flooded(), (Lock::Held, Some(9)));
        // A process with very many open files is passed over, and ends no search.
        (0..FEW * 2).for_each(|file| {
            std::os::unix::fs::symlink("/x", root.join(format!("proc/8/fd/{file}x"))).unwrap();
        });
        assert_eq!(flooded(), (Lock::Held, Some(9)));
    }

    /// The kernel takes the longer for each page, the more locks there are: what counts is how much is read.
    #[test]
    fn no_look_reads_more_of_the_locks_than_its_bound() {
        let tree = tree();
        let flood = "1: POSIX  ADVISORY  WRITE 4711 08:01:42 0 EOF\n".repeat(200_000);
        fs::write(tree.tree.path().join("proc/locks"), flood).unwrap();
        let read = || fs::read_to_string("/proc/thread-self/io").unwrap();
        let chars =
            |io: &str| io.lines().next().unwrap().trim_start_matches("rchar: ").parse::<u64>().unwrap();
        let before = chars(&read());
        let root = tree.tree.path();
        assert!(matches!(
            super::read(Path::new("/"), &root.join("proc"), &root.join(".lock")).0,
            Lock::Unreadable(_)
        ));
        let taken = chars(&read()) - before;
        assert!((LOCKS..LOCKS * 2).contains(&taken), "{taken} bytes were read");
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
