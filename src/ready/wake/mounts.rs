// SPDX-License-Identifier: Apache-2.0
//! Mounts that come and go in this mount namespace. Something mounted over the watched directory
//! gives no inotify event at all; only this shows it. A marker's directory can so be another one than MOFED's
//! (gpu-operator#448).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

#[derive(Debug)]
pub(super) struct MountWatch(File);

impl MountWatch {
    pub(super) fn open() -> io::Result<Self> {
        File::open("/proc/self/mountinfo").map(Self)
    }

    /// Polled for `POLLPRI`; each change reports once, and nothing need be read.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
