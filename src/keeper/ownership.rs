// SPDX-License-Identifier: Apache-2.0
//! While this keeper can rebuild whatever nvidia-peermem.ko the driver brings, it alone loads the module: a lock says
//! so, and a line in the modprobe.d of the driver's container asks for it ([`keeper_line`]).

use crate::keeper::Keep;
use crate::keeper::node_lock::{is_at, open_private};
use crate::peermem::driver_root::{self, PID_FILE, Script};
use crate::peermem::keeper_line;
use crate::process::directory::Directory;
use crate::process::privilege;
use crate::process::subtask::Subtask;
use crate::ready::clock::now;
use crate::ready::errno;
use crate::ready::node::{Places, below};
use crate::ready::time::BootTime;
use crate::rebuild;
use rustix::fs::{FlockOperation, flock};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long one write is waited for. A slower one goes on by itself: the container's disk may hang.
const WRITE_LIMIT: Duration = Duration::from_millis(200);
/// How often the lock's lease is renewed: each write wakes this process, which waits for the pid file beside it.
const RENEWAL: Duration = Duration::from_secs(20);
/// How soon after a line that could not be written the next one is tried.
const PAUSE: Duration = Duration::from_secs(60);

/// What this keeper owns of its node.
#[derive(Default)]
pub(super) struct Ownership {
    owned: LockFile,
    /// The pid file of the driver's script, as it was when the line was seen to.
    seen: Option<(u64, i64, i64)>,
    /// A line that is being written, and for which process.
    under_way: Option<(u32, Subtask)>,
    /// The next line is not written before.
    not_before: BootTime,
    /// What was said last of the line.
    said: String,
    /// What is built can be signed.
    signs: bool,
}

impl Ownership {
    /// Of the node with this root.
    pub(super) fn of(node_root: &Path, signs: bool) -> Self {
        let path = below(node_root, Path::new(keeper_line::OWNED));
        Self { owned: LockFile { path, ..LockFile::default() }, signs, ..Self::default() }
    }

    /// Takes in what keep decided at a look. The lock comes before the line.
    pub(super) fn follow(&mut self, places: &Places, keep: &Keep) {
        let owns = keep.owns() && (self.signs || !privilege::signatures(&places.sys).are_demanded());
        self.owned.hold(owns);
        self.write_line(places);
    }

    /// While the module is this keeper's, renews the lock's lease, and writes the line once for each start of the
    /// driver's script, which takes its lock and then writes the pid file.
    pub(super) fn write_line(&mut self, places: &Places) {
        self.wait(Duration::ZERO);
        if !self.owned.renews_lease() {
            return;
        }
        let pid_file = below(&places.root, Path::new(PID_FILE));
        let Ok(metadata) = pid_file.symlink_metadata() else { return };
        let signature = (metadata.ino(), metadata.mtime(), metadata.mtime_nsec());
        if self.under_way.is_some() || self.seen == Some(signature) && now() < self.not_before {
            return;
        }
        let Ok(Script::Runs(pid)) = driver_root::script(&places.root, &places.proc) else { return };
        let root = places.proc.join(pid.to_string()).join("root");
        // A reason against it may go, and a write that failed may succeed later.
        (self.seen, self.not_before) = (Some(signature), now() + PAUSE);
        match line_for(pid, &root, places) {
            Err(why) => self
                .say(&format!("the driver's script (process {pid}) may load nvidia_peermem itself: {why}")),
            Ok(id) => match Subtask::begin(|| written(&root, id)) {
                Ok(subtask) => {
                    self.under_way = Some((pid, subtask));
                    self.wait(WRITE_LIMIT);
                }
                Err(error) => self.say(&format!("cannot start a process: {}", errno::words(&error))),
            },
        }
    }

    fn wait(&mut self, limit: Duration) {
        let Some((pid, subtask)) = &mut self.under_way else { return };
        let (pid, Some(ended)) = (*pid, subtask.wait(limit)) else { return };
        self.under_way = None;
        match ended {
            Ok(()) => {
                self.not_before = BootTime::MAX;
                self.say(&format!(
                    "the driver's script runs (process {pid}): keep alone loads nvidia_peermem, as {} in its container says",
                    keeper_line::path(Path::new("/")).display()
                ));
            }
            Err(why) => self.say(&why),
        }
    }

    /// Each once.
    fn say(&mut self, what: &str) {
        if self.said != what {
            tracing::info!("{what}");
            what.clone_into(&mut self.said);
        }
    }
}

/// The device and inode of the root in which this process gets its line, or why it gets none. The root of the host is
/// never written: it would keep the line for good.
fn line_for(pid: u32, root: &Path, places: &Places) -> Result<(u64, u64), &'static str> {
    let process = places.proc.join(pid.to_string());
    let id = driver_root::id(root)
        .ok_or("its root cannot be entered (CAP_SYS_PTRACE is missing, or the process has ended)")?;
    let hosts = [places.root.as_path(), Path::new("/")].map(driver_root::id);
    if !privilege::may_load(&process) {
        Err("it has no CAP_SYS_MODULE")
    } else if hosts.contains(&Some(id)) {
        Err("it runs on the host, not in a container")
    } else if !rebuild::probe::can_build_in_the_pod(&places.proc, pid, root) {
        Err("its pod has no make or no compiler, so keep could not rebuild the module")
    } else {
        Ok(id)
    }
}

/// Writes the line in this root, in one step.
fn written(root: &Path, id: (u64, u64)) -> Result<(), String> {
    let name = OsStr::new(keeper_line::FILE);
    let directory = Directory::within(root, id, &keeper_line::DIRECTORY);
    directory.and_then(|directory| directory.put(name, &keeper_line::text())).map_err(|error| {
        format!(
            "cannot write {}: {}; the driver's script and nvidia-peermem-ctr load nvidia-peermem themselves, as without keep",
            keeper_line::path(root).display(),
            errno::words(&error)
        )
    })
}

/// A lock that ends with this process.
#[derive(Default)]
struct LockFile {
    path: PathBuf,
    file: Option<File>,
    /// The lease is not renewed before.
    renew_from: BootTime,
    /// It was not to be had at the last look. A modprobe in the container has it for a moment, which is no fault.
    was_held: bool,
    /// Why it could not be taken, as it was said.
    said: String,
}

impl LockFile {
    /// Takes the lock, or gives it back. Where /run/nvidia is missing there is no driver's container.
    fn hold(&mut self, holds: bool) {
        if !holds {
            // A child process that is ending may have a copy.
            let _ = self.file.take().map(|file| flock(file, FlockOperation::Unlock));
            return;
        }
        if self.file.as_ref().is_some_and(|file| is_at(file, &self.path)) {
            return;
        }
        self.file = None;
        match self.taken() {
            Ok(file) => {
                (self.file, self.was_held, self.renew_from) = (Some(file), false, BootTime::default());
            }
            Err(error) => self.say(&error),
        }
    }

    /// Says until when the lock counts from now on, if it is held.
    fn renews_lease(&mut self) -> bool {
        let Some(file) = &self.file else { return false };
        if now() >= self.renew_from {
            self.renew_from = now() + RENEWAL;
            // The number of digits only grows. What cannot be written lets others load, as without keep.
            let until = (now() + keeper_line::LEASE).as_secs();
            if let Err(error) = file.write_all_at(format!("{until}\n").as_bytes(), 0) {
                self.say(&error);
            }
        }
        true
    }

    /// Each reason once.
    fn say(&mut self, error: &io::Error) {
        let is_held = error.kind() == ErrorKind::WouldBlock;
        if error.kind() == ErrorKind::NotFound || is_held && !std::mem::replace(&mut self.was_held, true) {
            return;
        }
        let why = if is_held {
            "another process holds it, and `lslocks` on the node names that process".to_owned()
        } else {
            errno::words(error)
        };
        let said = format!(
            "cannot lock {}: {why}; until then modprobe in a driver container does not wait for keep",
            self.path.display()
        );
        if self.said != said {
            tracing::warn!("{said}");
            self.said = said;
        }
    }

    fn taken(&self) -> io::Result<File> {
        let file = open_private(&self.path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebuild::sample;
    use nix::sys::stat::{major, minor};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A reason against the line, such as a compiler that is still being installed, may go while the script runs.
    #[test]
    fn a_line_that_was_refused_is_tried_again_after_a_pause() {
        let tree = tempfile::tempdir().unwrap();
        let places = sample::node(tree.path()).places;
        let write = |path: &str, text: &str| {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let program = |path: &str| {
            write(path, "");
            fs::set_permissions(tree.path().join(path), fs::Permissions::from_mode(0o755)).unwrap();
        };
        write("proc/2/comm", "kthreadd\n");
        write("proc/4242/status", "CapEff:\t000001ffffffffff\n");
        write("run/nvidia/nvidia-driver.pid", "4242\n");
        write("container/etc/hostname", "");
        program("container/usr/bin/make");
        symlink(tree.path().join("container"), tree.path().join("proc/4242/root")).unwrap();
        let file = tree.path().join("run/nvidia/nvidia-driver.pid").metadata().unwrap();
        let (major, minor, inode) = (major(file.dev()), minor(file.dev()), file.ino());
        write(
            "proc/locks",
            &format!("1: FLOCK  ADVISORY  WRITE 4242 {major:02x}:{minor:02x}:{inode} 0 EOF\n"),
        );
        let mut ownership = Ownership::of(tree.path(), false);
        ownership.owned.hold(true);
        assert!(ownership.owned.file.is_some());
        let line = keeper_line::path(&tree.path().join("container"));
        ownership.write_line(&places);
        assert!(ownership.said.contains("no compiler"), "{}", ownership.said);
        program("container/usr/bin/gcc");
        ownership.write_line(&places);
        assert!(!line.exists() && ownership.not_before > now(), "the pause is not over");
        ownership.not_before = now();
        ownership.write_line(&places);
        ownership.wait(Duration::from_secs(10));
        assert!(line.exists(), "{}", ownership.said);
        assert_eq!(ownership.not_before, BootTime::MAX);
        let lease = ownership.owned.path.clone();
        fs::write(&lease, "").unwrap();
        ownership.write_line(&places);
        assert_eq!(fs::read_to_string(&lease).unwrap(), "", "a renewal is not due");
        ownership.owned.renew_from = now();
        ownership.write_line(&places);
        let until = fs::read_to_string(&lease).unwrap().trim().parse().map(Duration::from_secs).unwrap();
        assert!(until > now() + Duration::from_secs(100));
    }
}
