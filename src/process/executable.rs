// SPDX-License-Identifier: Apache-2.0
//! Whether a file can be run, as far as that shows before it runs.

use crate::ready::errno;
use nix::unistd::{AccessFlags, access};
use std::io;
use std::path::{Path, PathBuf};

/// Why it cannot.
#[derive(Debug)]
pub(crate) enum NotExecutable {
    /// A directory or a device.
    NotAFile,
    /// As stat(2): there is no such file, or it cannot be known whether there is one.
    NotSeen(io::Error),
    /// As access(2): the file exists.
    Denied(io::Error),
}

/// Checks that `path` is a regular file which this process may execute.
pub(crate) fn check(path: &Path) -> Result<(), NotExecutable> {
    if !path.metadata().map_err(NotExecutable::NotSeen)?.is_file() {
        return Err(NotExecutable::NotAFile);
    }
    access(path, AccessFlags::X_OK).map_err(|errno| NotExecutable::Denied(errno.into()))
}

/// The candidates of a search in PATH that could not even be seen. The search goes on behind them, as execvp(3) and
/// shells do: a directory that this user may not search says nothing about the program.
#[derive(Debug, Default)]
pub(crate) struct NotSeen(Vec<(PathBuf, io::Error)>);

impl NotSeen {
    /// Remembers a candidate, unless there certainly is no such file.
    pub(crate) fn add(&mut self, candidate: &Path, error: io::Error) {
        if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
            self.0.push((candidate.to_owned(), error));
        }
    }

    /// Half a sentence for the error where nothing was found; empty where every directory was searched.
    pub(crate) fn sentence(&self) -> String {
        let each = self.0.iter().map(|(path, error)| format!("{}: {}", path.display(), errno::words(error)));
        let all: Vec<_> = each.collect();
        if all.is_empty() { String::new() } else { format!("; cannot look for {}", all.join(", ")) }
    }
}
