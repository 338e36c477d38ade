// SPDX-License-Identifier: Apache-2.0
//! The last words, where Kubernetes looks for them.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const DEFAULT: &str = "/dev/termination-log";

/// What was asked for, or the default where the container runtime made it.
#[must_use]
pub fn place(asked: Option<PathBuf>) -> Option<PathBuf> {
    asked.or_else(|| Some(PathBuf::from(DEFAULT)).filter(|path| path.exists()))
}

/// Writes in place: it is a bind mount, so that nothing can be renamed over it. A failure is a
/// warning, never an ending of its own.
pub fn write(path: &Path, text: &str) {
    // A FIFO without a reader is an error then, and not a wait without end.
    let flags = nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY;
    let file = super::may_be_written(path).and_then(|()| {
        OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(path)
    });
    if let Err(error) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
        tracing::warn!(
            "cannot write the termination log {}: {error}: see that its directory is there and may be written",
            path.display()
        );
    }
}
