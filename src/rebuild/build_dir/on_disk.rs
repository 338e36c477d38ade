// SPDX-License-Identifier: Apache-2.0
//! Files and directories that a power cut leaves whole: on the disk first, then named.

use crate::process::directory::fd_path;
use crate::ready::files::root::resolve;
use crate::ready::node::below;
use crate::rebuild::preference;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, renameat};
use nix::sys::stat::{Mode, fchmod, mkdirat};
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

pub(super) const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
const NEW: OFlag = OFlag::O_WRONLY
    .union(OFlag::O_CREAT)
    .union(OFlag::O_EXCL)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// A new file that all users may read, without its name. It is gone if it is dropped before it is named.
pub(super) struct Unfinished<'a> {
    directory: &'a OwnedFd,
    name: String,
    pub(super) file: File,
}

impl<'a> Unfinished<'a> {
    /// With these bytes, not yet on the disk.
    pub(super) fn new(directory: &'a OwnedFd, name: &str, bytes: &[u8]) -> io::Result<Self> {
        let unfinished = hidden(name);
        let mode = Mode::from_bits_truncate(0o644);
        let _ = unlinkat(directory, unfinished.as_str(), UnlinkatFlags::NoRemoveDir);
        let file = File::from(openat(directory, unfinished.as_str(), NEW, mode)?);
        let mut file = Self { directory, name: name.to_owned(), file };
        file.file.write_all(bytes)?;
        fchmod(&file.file, mode)?;
        Ok(file)
    }

    /// Gives it its name; it is on the disk by then.
    pub(super) fn named(self) -> io::Result<()> {
        fsync(&self.file)?;
        renameat(self.directory, hidden(&self.name).as_str(), self.directory, self.name.as_str())?;
        flush(self.directory);
        Ok(())
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let _ = unlinkat(self.directory, hidden(&self.name).as_str(), UnlinkatFlags::NoRemoveDir);
    }
}

fn hidden(name: &str) -> String {
    format!(".{name}.unfinished")
}

/// A file with these bytes, on the disk before it has its name.
pub(crate) fn put_whole(directory: &OwnedFd, name: &str, bytes: &[u8]) -> io::Result<()> {
    Unfinished::new(directory, name, bytes)?.named()
}

/// A directory that all users may read, made if it is missing.
pub(super) fn made(parent: &OwnedFd, name: &OsStr, makes: bool) -> io::Result<OwnedFd> {
    if makes {
        match mkdirat(parent, name, Mode::from_bits_truncate(0o755)) {
            Ok(()) => {
                fchmod(&openat(parent, name, DIRECTORY, Mode::empty())?, Mode::from_bits_truncate(0o755))?;
                flush(parent);
            }
            Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(openat(parent, name, DIRECTORY, Mode::empty())?)
}

/// A directory, made with this mode if it is missing.
pub(crate) fn made_as(parent: &OwnedFd, name: &OsStr, mode: Mode) -> io::Result<OwnedFd> {
    match mkdirat(parent, name, mode) {
        Ok(()) => flush(parent),
        Err(Errno::EEXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    Ok(openat(parent, name, DIRECTORY, Mode::empty())?)
}

/// Puts the names in a directory on the disk, where its file system can.
pub(crate) fn flush(directory: impl AsFd) {
    let _ = fsync(directory);
}

/// The directory of depmod's files.
pub(super) fn depmod_d(root: &Path, makes: bool) -> io::Result<OwnedFd> {
    let path = Path::new(preference::DEPMOD);
    let etc = path.parent().unwrap_or(path);
    let opened = resolve(root, &below(root, etc))
        .and_then(|real| open(&real, DIRECTORY, Mode::empty()).map_err(io::Error::from));
    let parent = match opened {
        // A root with only modules. It may itself be a link of the kernel's, which is followed.
        Err(error) if makes && error.kind() == ErrorKind::NotFound => {
            let root = open(&root.join("."), DIRECTORY, Mode::empty())?;
            made(&root, etc.file_name().unwrap_or_default(), true)?
        }
        opened => opened?,
    };
    made(&parent, path.file_name().unwrap_or_default(), makes)
}

/// The kernel's directory of modules that come before all others.
pub(super) fn updates(root: &Path, release: &str, makes: bool) -> io::Result<OwnedFd> {
    let path = below(root, &Path::new("/lib/modules").join(release));
    let modules = match resolve(root, &path) {
        // The root of a driver that built nothing has none for this kernel, and Ubuntu's image has none at all.
        Err(error) if makes && error.kind() == ErrorKind::NotFound => {
            let lib = resolve(root, &below(root, Path::new("/lib")))?;
            let modules = made(&open(&lib, DIRECTORY, Mode::empty())?, OsStr::new("modules"), true)?;
            made(&modules, OsStr::new(release), true)?;
            resolve(root, &path)?
        }
        modules => modules?,
    };
    made(&open(&modules, DIRECTORY, Mode::empty())?, OsStr::new("updates"), makes)
}

/// `SELinux` lets the kernel read modules of certain labels only.
pub(super) fn label(file: &File, neighbor: &Path) {
    const NAME: &str = "security.selinux";
    let mut label = [0; 512];
    let Ok(length) = rustix::fs::getxattr(neighbor, NAME, &mut label[..]) else { return };
    let flags = rustix::fs::XattrFlags::empty();
    if let Err(errno) = rustix::fs::fsetxattr(file, NAME, &label[..length], flags) {
        tracing::warn!("cannot give nvidia-peermem.ko the SELinux label of {}: {errno}", neighbor.display());
    }
}

/// Puts on the disk what depmod wrote for this kernel, and nothing else: a sync of the whole disk would wait for
/// the writes of every process.
pub fn flush_index(root: &Path, release: &str) {
    let flush = || -> io::Result<()> {
        let modules = resolve(root, &below(root, &Path::new("/lib/modules").join(release)))?;
        let directory = open(&modules, DIRECTORY, Mode::empty())?;
        for entry in fd_path(&directory).read_dir()? {
            let entry = entry?;
            let is_index = entry.file_name().as_encoded_bytes().starts_with(b"modules.");
            if is_index && entry.file_type()?.is_file() {
                let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
                fsync(openat(&directory, entry.file_name().as_os_str(), flags, Mode::empty())?)?;
            }
        }
        Ok(fsync(&directory)?)
    };
    if let Err(error) = flush() {
        let why = crate::ready::errno::words(&error);
        tracing::warn!("cannot flush modules.dep of {release} to the disk, a power cut may undo it: {why}");
    }
}
