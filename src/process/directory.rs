// SPDX-License-Identifier: Apache-2.0
//! A directory that is kept open. What is done in it is done by its descriptor and by names without a
//! slash, so whatever others plant or swap on the way, no write is led out of it.

use crate::ready::files::mount;
use nix::NixPath;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, readlinkat, renameat};
use nix::sys::stat::{Mode, SFlag, fchmod, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};
use std::collections::hash_map::RandomState;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Where MOFED's marker and lock are. A file from us that is named like the marker would be taken for it.
const MOFED: &str = "/run/mellanox/drivers";

/// Names are random: this many clashes are no accident, but made on purpose.
const ATTEMPTS: usize = 16;

/// How the names of unfinished files end.
const TEMPORARY: &str = ".tmp";

/// All users may read it, whatever the umask is: collectors run as other users.
pub(crate) const MODE: Mode = Mode::from_bits_truncate(0o644);

/// The directory of one file, and the file's name.
pub(crate) struct Directory {
    fd: OwnedFd,
}

impl Directory {
    /// Opens the directory of `file`, which may not be one of MOFED's.
    ///
    /// # Errors
    /// As open(2); `PermissionDenied` for a directory of MOFED's.
    pub(crate) fn of(file: &Path, marker: Option<&Path>) -> io::Result<Self> {
        let path = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Neither reads the directory nor needs the right to.
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let directory = Self { fd: open(path, flags, Mode::empty())? };
        directory.refuse_mofeds(path, marker)?;
        Ok(directory)
    }

    /// The same, but no link is followed: another user may have planted one.
    ///
    /// # Errors
    /// As [`Self::of`]; `PermissionDenied` where a link leads elsewhere.
    pub(crate) fn of_output(file: &Path, marker: Option<&Path>) -> io::Result<Self> {
        let directory = Self::of(file, marker)?;
        let named = named(&std::path::absolute(file)?);
        // Through the descriptor, which no link that is planted by now changes.
        let real = fd_path(&directory.fd).read_link().or_else(|_| named.canonicalize())?;
        if real == named || Path::new("/run").join(named.strip_prefix("/var/run").unwrap_or(&named)) == real {
            return Ok(directory);
        }
        let why =
            format!("a link leads from {} to {}, and none is followed", named.display(), real.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }

    /// The directory of these names below `root`, another container's with this device and inode: made where it is
    /// missing; through no link, and onto no other mount, which may be a directory of the host's.
    ///
    /// # Errors
    /// As open(2) and mkdir(2); `ESTALE` for another root, `EXDEV` for another mount, `ENOTDIR` for a link.
    pub(crate) fn within(root: &Path, id: (u64, u64), names: &[&str]) -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        // The root itself is behind a link of the kernel's (/proc/PID/root), which is followed.
        let mut directory = open(&root.join("."), flags, Mode::empty())?;
        let stat = fstat(&directory)?;
        if (stat.st_dev, stat.st_ino) != id {
            return Err(Errno::ESTALE.into());
        }
        let mount = mount::id(directory.as_fd());
        for name in names {
            make(&directory, *name, Mode::from_bits_truncate(0o755))?;
            directory = openat(&directory, *name, flags | OFlag::O_NOFOLLOW, Mode::empty())?;
            if mount.is_none() || mount::id(directory.as_fd()) != mount {
                return Err(Errno::EXDEV.into());
            }
        }
        Ok(Self { fd: directory })
    }

    fn refuse_mofeds(&self, path: &Path, marker: Option<&Path>) -> io::Result<()> {
        // Through the descriptor: where it really is, whatever the path leads to by now.
        let real = fd_path(&self.fd).read_link().or_else(|_| path.canonicalize())?;
        refuse_mofeds(&real, marker)
    }

    /// The type of the file at a name; links are not followed. `None` where there is none.
    pub(crate) fn kind(&self, name: &OsStr) -> nix::Result<Option<SFlag>> {
        match fstatat(&self.fd, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()))),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Opens an existing file for writing, or makes it; never through a link, and never waiting.
    pub(crate) fn open_in_place(&self, name: &OsStr, mode: Mode) -> nix::Result<File> {
        let flags = OFlag::O_CREAT | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        openat(&self.fd, name, WRITE | flags, mode).map(File::from)
    }

    /// Opens an existing file for reading; never through a link, and never waiting.
    pub(crate) fn open_to_read(&self, name: &OsStr) -> nix::Result<File> {
        let flags =
            OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        openat(&self.fd, name, flags, Mode::empty()).map(File::from)
    }

    /// The directory at a name, made where it is missing, and open to all whatever the umask is; no link to one.
    ///
    /// # Errors
    /// As mkdir(2) and open(2).
    pub(crate) fn subdirectory(&self, name: &OsStr, mode: Mode) -> io::Result<Self> {
        make(&self.fd, name, mode)?;
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd = openat(&self.fd, name, flags, Mode::empty())?;
        let now = Mode::from_bits_truncate(fstat(&fd)?.st_mode);
        if !now.contains(mode) {
            std::fs::set_permissions(fd_path(&fd), Permissions::from_mode((now | mode).bits()))?;
        }
        Ok(Self { fd })
    }

    /// Makes or replaces the link `name`, in one step: false where it is there already.
    ///
    /// # Errors
    /// As symlink(2) and rename(2).
    pub(crate) fn put_link(&self, name: &OsStr, target: &OsStr) -> io::Result<bool> {
        if readlinkat(&self.fd, name).is_ok_and(|there| there == target) {
            return Ok(false);
        }
        let temporary = random_name(name);
        symlinkat(target, &self.fd, temporary.as_os_str())?;
        self.rename(&temporary, name).inspect_err(|_| _ = self.remove(&temporary))?;
        Ok(true)
    }

    /// A new file with a random name beside `name`.
    pub(crate) fn create_beside(&self, name: &OsStr) -> nix::Result<(OsString, File)> {
        let mut attempts = 0;
        loop {
            let temporary = random_name(name);
            match openat(&self.fd, temporary.as_os_str(), WRITE | OFlag::O_CREAT | OFlag::O_EXCL, MODE) {
                Ok(file) => {
                    fchmod(&file, MODE)?;
                    return Ok((temporary, file.into()));
                }
                Err(Errno::EEXIST) if attempts < ATTEMPTS => attempts += 1,
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Removes what [`Self::create_beside`] has made for `name` so long ago that its process is dead.
    pub(crate) fn remove_leftovers(&self, name: &OsStr, age: Duration) {
        let beside = format!(".{}.", name.display());
        let is_ours = |name: &OsString| {
            name.to_str().is_some_and(|name| name.starts_with(&beside) && name.ends_with(TEMPORARY))
        };
        for entry in fd_path(&self.fd).read_dir().into_iter().flatten().filter_map(Result::ok) {
            let changed = entry.metadata().and_then(|metadata| metadata.modified());
            let is_old = changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|elapsed| elapsed > age));
            if is_ours(&entry.file_name()) && is_old {
                let _ = self.remove(&entry.file_name());
            }
        }
    }

    /// Replaces a file by one that is written beside it.
    pub(crate) fn put(&self, name: &OsStr, text: &str) -> io::Result<()> {
        let (temporary, mut file) = self.create_beside(name)?;
        let written = file.write_all(text.as_bytes());
        written.and_then(|()| Ok(self.rename(&temporary, name)?)).inspect_err(|_| _ = self.remove(&temporary))
    }

    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr) -> nix::Result<()> {
        renameat(&self.fd, from, &self.fd, to)
    }

    pub(crate) fn remove(&self, name: &OsStr) -> nix::Result<()> {
        unlinkat(&self.fd, name, UnlinkatFlags::NoRemoveDir)
    }
}

const WRITE: OFlag = OFlag::O_WRONLY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Refuses a directory that is MOFED's: the usual one, and the one of the marker that was asked for.
///
/// # Errors
/// `PermissionDenied`, with the reason.
pub(crate) fn refuse_mofeds(real: &Path, marker: Option<&Path>) -> io::Result<()> {
    let asked = marker.and_then(Path::parent);
    for directory in [Path::new(MOFED)].into_iter().chain(asked) {
        let is_below = |above: &Path| real.starts_with(above);
        if is_below(directory) || directory.canonicalize().is_ok_and(|directory| is_below(&directory)) {
            let why = format!("nothing may be written below {}, which belongs to MOFED", directory.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
    }
    Ok(())
}

/// The directory of this file if there were no links.
fn named(file: &Path) -> PathBuf {
    let mut named = PathBuf::new();
    for part in file.parent().unwrap_or(file).components() {
        match part {
            Component::ParentDir => _ = named.pop(),
            part => named.push(part),
        }
    }
    named
}

/// Makes a directory, unless it is there.
pub(crate) fn make(parent: impl AsFd, name: &(impl NixPath + ?Sized), mode: Mode) -> nix::Result<()> {
    mkdirat(parent, name, mode).or_else(|errno| if errno == Errno::EEXIST { Ok(()) } else { Err(errno) })
}

/// A hidden name, so no collector takes the file, and a random one, so nothing can have been planted there before.
fn random_name(name: &OsStr) -> OsString {
    let random = RandomState::new().build_hasher().finish();
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{random:016x}{TEMPORARY}"));
    temporary
}

/// The very file that is open, for calls that take paths.
pub(crate) fn fd_path(file: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of a container's process may be another's by now, and so its root.
    #[test]
    fn nothing_is_opened_below_another_root_than_the_one_that_was_judged() {
        let [judged, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let stat = nix::sys::stat::stat(judged.path()).unwrap();
        let id = (stat.st_dev, stat.st_ino);
        let error = Directory::within(other.path(), id, &["etc"]).err().expect("another root");
        assert_eq!(error.raw_os_error(), Some(Errno::ESTALE as i32));
        assert!(!other.path().join("etc").exists());
        assert!(Directory::within(judged.path(), id, &["etc"]).is_ok() && judged.path().join("etc").exists());
    }
}
