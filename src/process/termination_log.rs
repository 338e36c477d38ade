// SPDX-License-Identifier: Apache-2.0
//! The last words, where Kubernetes looks for them.

use crate::process::directory::{Directory, MODE};
use crate::process::output::{cannot_write, file_name, refuse_irregular};
use crate::ready::errno;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const DEFAULT: &str = "/dev/termination-log";

/// Where the last words go.
#[derive(Clone, Debug)]
pub struct TerminationLog {
    /// Their file.
    pub path: PathBuf,
    /// Nothing is written beside MOFED's marker, once it is known where that is.
    marker: Option<PathBuf>,
}

impl TerminationLog {
    /// The usual place, if the container runtime made a file there.
    #[must_use]
    pub fn usual() -> Option<Self> {
        let is_regular = |path: &PathBuf| path.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
        Some(PathBuf::from(DEFAULT)).filter(is_regular).map(Self::at)
    }

    /// A path that was asked for.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path, marker: None }
    }

    /// Nothing is written beside this marker either.
    ///
    /// # Errors
    /// The path leads into a directory of MOFED's, or what is there is not a regular file.
    pub fn away_from(self, marker: &Path) -> io::Result<Self> {
        let log = Self { marker: Some(marker.to_owned()), ..self };
        match Directory::of_output(&log.path, log.marker.as_deref()) {
            Ok(directory) => refuse_irregular(&directory, file_name(&log.path)?)?,
            // That it cannot be written is said when it is.
            Err(error) if error.raw_os_error().is_some() => {}
            Err(error) => return Err(error),
        }
        Ok(log)
    }

    /// Writes in place: it is a bind mount, so nothing can be renamed over it. A failure is a warning and
    /// never another ending.
    pub fn write(&self, text: &str) {
        if let Err(error) = self.try_write(text) {
            tracing::warn!("{}", cannot_write("termination log", &self.path, &errno::words(&error)));
        }
    }

    fn try_write(&self, text: &str) -> io::Result<()> {
        let (directory, name) =
            (Directory::of_output(&self.path, self.marker.as_deref())?, file_name(&self.path)?);
        refuse_irregular(&directory, name)?;
        let mut file = directory.open_in_place(name, MODE)?;
        // It may have been replaced since.
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        file.set_len(0)?;
        file.write_all(text.as_bytes())
    }
}
