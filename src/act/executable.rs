// SPDX-License-Identifier: Apache-2.0
//! Whether a file can be run, as far as that shows before it runs.

use nix::unistd::{AccessFlags, access};
use std::io;
use std::path::Path;

/// Why it cannot.
#[derive(Debug)]
pub(super) enum NotExecutable {
    /// A directory or a device.
    NotAFile,
    /// As stat(2) and access(2).
    Io(io::Error),
}

/// Checks that `path` is a regular file which this process may execute.
pub(super) fn check(path: &Path) -> Result<(), NotExecutable> {
    if !path.metadata().map_err(NotExecutable::Io)?.is_file() {
        return Err(NotExecutable::NotAFile);
    }
    access(path, AccessFlags::X_OK).map_err(|errno| NotExecutable::Io(errno.into()))
}
