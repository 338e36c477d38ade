// SPDX-License-Identifier: Apache-2.0
//! One keeper serves a node at a time. The second waits until the first has ended: otherwise each would obey the
//! other's unload, and take the other's load for its own.

use crate::process::directory::{Directory, make};
use crate::process::subtask::Subtask;
use crate::ready::errno;
use crate::ready::node::below;
use crate::ready::wake::Signals;
use nix::errno::Errno;
use nix::fcntl::AT_FDCWD;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{FileStat, Mode, fchmod, fstat, stat};
use rustix::fs::{FlockOperation, flock};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Only root can write there, and the next boot begins without it.
const PLACE: &str = "/run/peermem-gate";
const NAME: &str = "keep.lock";

/// The lock. It ends with the supervisor, because a worker may hang in the kernel for longer.
#[derive(Debug, Default)]
pub(super) struct NodeLock {
    file: RefCell<Option<File>>,
    /// Its path, and the device and inode there when it was taken.
    place: Option<(PathBuf, LockId)>,
    /// The path where no file could be locked.
    wanted: Option<PathBuf>,
}

type LockId = (u64, u64);

impl NodeLock {
    /// Takes the lock of the node with this root. Where none can be made, this process goes on without one.
    ///
    /// # Errors
    /// A signal came while another process had the lock.
    pub(super) fn take(root: &Path, signals: &Signals) -> Result<Self, u8> {
        let path = below(root, Path::new(PLACE)).join(NAME);
        let mut has_waited = false;
        loop {
            let file = match opened(&path) {
                Ok(file) => file,
                Err(error) => return Ok(Self::none(&path, &error)),
            };
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    if !std::mem::replace(&mut has_waited, true) {
                        let path = path.display();
                        tracing::warn!(
                            "another keep serves this node and has {path} locked: waiting until it ends"
                        );
                    }
                    wait(&file, signals)?;
                }
                // The file may have been removed before it was locked.
                Ok(()) if !is_at(&file, &path) => {}
                locked => {
                    if let Err(errno) = locked {
                        return Ok(Self::none(&path, &errno.into()));
                    }
                    if has_waited {
                        tracing::info!("the other keep has ended: this one serves the node now");
                    }
                    let id = fstat(&file).map(|stat| id(&stat));
                    let place = id.ok().map(|id| (path, id));
                    return Ok(Self { file: RefCell::new(Some(file)), place, wanted: None });
                }
            }
        }
    }

    fn none(path: &Path, error: &io::Error) -> Self {
        let (shown, why) = (path.display(), errno::words(error));
        tracing::warn!("cannot lock {shown}, so a second keep on this node would go unnoticed: {why}");
        Self { wanted: Some(path.to_owned()), ..Self::default() }
    }

    /// What was in the way of the lock is gone. It is only tried here: the supervisor has to take it.
    pub(super) fn is_in_reach(&self) -> bool {
        let Some(file) = self.wanted.as_ref().and_then(|path| opened(path).ok()) else { return false };
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        matches!(locked, Ok(()) | Err(rustix::io::Errno::WOULDBLOCK))
    }

    /// Closes a child process's copy: only the supervisor has the lock, and ends it.
    pub(super) fn leave_to_parent(&self) {
        drop(self.file.take());
    }

    /// The path of the file, if there is a lock.
    pub(super) fn path(&self) -> Option<&Path> {
        self.place.as_ref().map(|(path, _)| path.as_path())
    }

    /// The file was removed or replaced, so another keep can lock its own.
    pub(super) fn is_lost(&self) -> bool {
        self.place.as_ref().is_some_and(|(path, ours)| match stat(path) {
            Ok(named) => id(&named) != *ours,
            Err(errno) => errno == Errno::ENOENT,
        })
    }
}

fn id(stat: &FileStat) -> LockId {
    (stat.st_dev, stat.st_ino)
}

/// The file, in a directory that is made if it is missing.
fn opened(path: &Path) -> io::Result<File> {
    if let Some(place) = path.parent() {
        make(AT_FDCWD, place, Mode::from_bits_truncate(0o755))?;
    }
    open_private(path)
}

/// A file that only its owner can open, and so lock. An earlier release made it for all to read.
pub(super) fn open_private(path: &Path) -> io::Result<File> {
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let name = path.file_name().unwrap_or_default();
    let file = Directory::of_output(path, None)?.open_in_place(name, mode)?;
    fchmod(&file, mode)?;
    Ok(file)
}

/// The file has not been removed meanwhile.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    matches!((fstat(file), stat(path)), (Ok(ours), Ok(named)) if id(&ours) == id(&named))
}

/// Waits until the file is locked, for this process too: a child locks what both have open. A signal ends this wait,
/// but not flock(2).
fn wait(file: &File, signals: &Signals) -> Result<(), u8> {
    let lock = || flock(file, FlockOperation::LockExclusive).map_err(|errno| errno.to_string());
    let Ok(mut child) = Subtask::begin(lock) else {
        // No process can be started now: this is tried again a second later.
        signals.wait(Duration::from_secs(1));
        return signals.take_one().map_or(Ok(()), Err);
    };
    loop {
        if let Some(signal) = signals.take_one() {
            return Err(signal);
        }
        if child.wait(Duration::ZERO).is_some() {
            return Ok(());
        }
        let mut fds =
            [PollFd::new(signals.fd(), PollFlags::POLLIN), PollFd::new(child.fd(), PollFlags::POLLIN)];
        let _ = poll(&mut fds, PollTimeout::NONE);
    }
}
