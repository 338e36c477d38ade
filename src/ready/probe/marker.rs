// SPDX-License-Identifier: Apache-2.0
//! MOFED's ready marker, by its path and never through a descriptor: what is mounted there changes.

use crate::ready::files::read::unreadable;
use crate::ready::files::root;
use crate::ready::observation::{FileId, Marker};
use std::fs::{FileType, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Reads the marker's path.
#[must_use]
pub fn read(root: &Path, path: &Path) -> Marker {
    let directory = match root::resolve(root, path.parent().unwrap_or(root)) {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return without_directory(path),
        Err(error) => return Marker::Unreadable(unreadable(path, &error)),
    };
    match directory.join(path.file_name().unwrap_or_default()).symlink_metadata() {
        Ok(metadata) if metadata.is_file() => Marker::Present(id(&metadata)),
        Ok(metadata) => Marker::NotAFile(kind(metadata.file_type()).to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => absent(&directory, path),
        Err(error) => Marker::Unreadable(unreadable(path, &error)),
    }
}

/// Nothing is there: in a directory, in a deleted one, or not even that.
fn absent(directory: &Path, path: &Path) -> Marker {
    match directory.metadata() {
        // A bind mount keeps a deleted directory alive: no event announces that, only its link count.
        Ok(metadata) if metadata.nlink() == 0 => Marker::DirectoryUnlinked,
        Ok(_) => Marker::Absent,
        Err(_) => without_directory(path),
    }
}

fn without_directory(path: &Path) -> Marker {
    let nearest = nearest_ancestor(path);
    match nearest.metadata() {
        // A mount of a directory further up can be of a deleted one just as well.
        Ok(metadata) if metadata.nlink() == 0 => Marker::DirectoryUnlinked,
        _ => Marker::ParentMissing(nearest),
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
