// SPDX-License-Identifier: Apache-2.0
//! Whose the directory is: only its owner writes there, and takes the lock.

use crate::peermem::record::PLACE;
use crate::ready::clock::now;
use crate::ready::files::root::resolve;
use crate::ready::node::below;
use crate::rebuild::{Kind, Obstacle};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, lstat};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// Only root can open it, so only root can hold its lock.
pub(super) const LOCK: &str = "lock";
/// Others must not write into the directory, and have no right to the lock at all.
const OTHERS_OF_DIRECTORY: u32 = 0o022;
const OTHERS_OF_LOCK: u32 = 0o077;
/// How long another rebuild's last moment may take.
const LOCK_LIMIT: Duration = Duration::from_millis(500);

/// Why others can write to the directory, or hold its lock; nothing is made.
#[must_use]
pub fn exposed(root: &Path) -> Option<String> {
    let path = resolve(root, &below(root, Path::new(PLACE))).ok()?;
    let directory = |stat: FileStat| is_exposed(&path, &stat, OTHERS_OF_DIRECTORY);
    let lock = path.join(LOCK);
    let of_lock = |stat: FileStat| is_exposed(&lock, &stat, OTHERS_OF_LOCK);
    lstat(&path).ok().and_then(directory).or_else(|| lstat(&lock).ok().and_then(of_lock))
}

fn is_exposed(path: &Path, stat: &FileStat, others: u32) -> Option<String> {
    let why = if stat.st_uid != rustix::process::geteuid().as_raw() {
        "it belongs to another user".to_owned()
    } else if stat.st_mode & others != 0 {
        format!("its mode is {:04o}", stat.st_mode & 0o7777)
    } else {
        return None;
    };
    Some(format!("{}: {why}", path.display()))
}

/// Why nothing could be written below the driver's root; nothing is made. A call that may succeed the next time is no
/// reason.
#[must_use]
pub fn unwritable(root: &Path, release: &str) -> Option<String> {
    let is_there = |path: &Path| resolve(root, &below(root, path)).is_ok_and(|real| real.is_dir());
    // In a read-only root this directory may be a separate mount.
    let builds = if is_there(Path::new(PLACE)) { PLACE } else { "/var/lib" };
    let modules = Path::new("/lib/modules").join(release);
    // The root of a driver that built nothing has none for this kernel, or none at all: it is made.
    let modules = if is_there(&modules) { modules } else { "/lib/modules".into() };
    let modules = if is_there(&modules) { modules } else { "/lib".into() };
    // Without a line in /etc/depmod.d the file is installed all the same, and modprobe says whether it takes it.
    [Path::new(builds), &modules].into_iter().find_map(|place| {
        let path = below(root, place);
        let real = match resolve(root, &path) {
            Ok(real) => real,
            Err(error) if may_pass(&error) => return None,
            Err(error) => return Some(format!("{}: {}", path.display(), crate::ready::errno::words(&error))),
        };
        let refused = nix::unistd::access(&real, nix::unistd::AccessFlags::W_OK).err();
        let refused = refused.filter(|errno| !may_pass(&(*errno).into()));
        refused.map(|errno| format!("{}: {}", path.display(), errno.desc()))
    })
}

/// The directory's lock, if no other user can write to either.
pub(super) fn locked(directory: &OwnedFd, root: &Path) -> Result<Flock<OwnedFd>, Obstacle> {
    let path = &below(root, Path::new(PLACE));
    let cannot = |errno: Errno| unwritable_here(path, &errno.into());
    let is_ours = |fd: &OwnedFd, path: &Path, others| {
        let stat = fstat(fd).map_err(cannot)?;
        is_exposed(path, &stat, others).map_or(Ok(stat), |why| Err(Obstacle::new(Kind::Exposed, why)))
    };
    is_ours(directory, path, OTHERS_OF_DIRECTORY)?;
    let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = openat(directory, LOCK, flags, Mode::S_IRUSR | Mode::S_IWUSR).map_err(cannot)?;
    let stat = is_ours(&file, &path.join(LOCK), OTHERS_OF_LOCK)?;
    if SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) != SFlag::S_IFREG {
        let why = format!("{}: it is not a regular file", path.join(LOCK).display());
        return Err(Obstacle::new(Kind::Exposed, why));
    }
    let busy = || Obstacle::new(Kind::Busy, format!("another rebuild is running below {}", root.display()));
    lock(file).map_err(|errno| if errno == Errno::EWOULDBLOCK { busy() } else { cannot(errno) })
}

/// The call may succeed the next time although nobody acts.
fn may_pass(error: &io::Error) -> bool {
    let passing = [
        Errno::EINTR,
        Errno::EIO,
        Errno::EAGAIN,
        Errno::ENOMEM,
        Errno::EBUSY,
        Errno::ENFILE,
        Errno::EMFILE,
        Errno::ETXTBSY,
        Errno::ENOSPC,
        Errno::EDQUOT,
        Errno::ENOLCK,
        Errno::ESTALE,
        Errno::ETIMEDOUT,
        Errno::ENOTCONN,
    ];
    error.raw_os_error().is_some_and(|code| passing.contains(&Errno::from_raw(code)))
}

pub(super) fn unwritable_here(path: &Path, error: &io::Error) -> Obstacle {
    let why = format!("{}: {}", path.display(), crate::ready::errno::words(error));
    Obstacle::new(if may_pass(error) { Kind::CallFailed } else { Kind::Unwritable }, why)
}

fn lock(mut fd: OwnedFd) -> nix::Result<Flock<OwnedFd>> {
    let until = now() + LOCK_LIMIT;
    loop {
        match Flock::lock(fd, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => return Ok(locked),
            Err((unlocked, Errno::EINTR)) if now() < until => fd = unlocked,
            Err((_, errno)) => return Err(errno),
        }
    }
}
