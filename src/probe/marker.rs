// SPDX-License-Identifier: Apache-2.0
//! MOFED's ready marker, by its path and never through a descriptor: what is mounted there changes.

use super::read::unreadable;
use super::root;
use crate::observation::{FileId, Marker};
use std::fs::{FileType, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

pub(super) fn read(root: &Path, path: &Path) -> Marker {
    let metadata = place(root, path).and_then(|path| path.symlink_metadata());
    match metadata {
        Ok(metadata) if metadata.is_file() => Marker::Present(id(&metadata)),
        Ok(metadata) => Marker::NotAFile(kind(metadata.file_type()).to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => absent(root, path),
        Err(error) => Marker::Unreadable(unreadable(path, &error)),
    }
}

/// The marker's own path, its directory resolved below `root`; the plain path where `root` is `/`.
fn place(root: &Path, path: &Path) -> io::Result<PathBuf> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if root != Path::new("/") => Ok(root::resolve(root, parent)?.join(name)),
        _ => Ok(path.to_owned()),
    }
}

/// Nothing is there: in a directory, in a deleted one, or not even that.
fn absent(root: &Path, path: &Path) -> Marker {
    let directory = place(root, path).map(|path| path.parent().map_or_else(PathBuf::new, Path::to_owned));
    match directory.and_then(|directory| directory.metadata()) {
        // A bind mount keeps a deleted directory alive: no event tells, only the count of its names.
        Ok(metadata) if metadata.nlink() == 0 => Marker::DirectoryUnlinked,
        Ok(_) => Marker::Absent,
        Err(_) => Marker::ParentMissing(nearest_ancestor(path)),
    }
}

/// The deepest directory above `path` that exists.
#[must_use]
pub fn nearest_ancestor(path: &Path) -> PathBuf {
    let mut ancestors = path.ancestors().skip(1);
    ancestors.find(|dir| dir.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

fn id(metadata: &Metadata) -> FileId {
    FileId {
        device: metadata.dev(),
        inode: metadata.ino(),
        changed_ns: i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec()),
    }
}

fn kind(file_type: FileType) -> &'static str {
    if file_type.is_dir() {
        "a directory"
    } else if file_type.is_symlink() {
        "a symbolic link"
    } else if file_type.is_fifo() {
        "a FIFO"
    } else if file_type.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}
