// SPDX-License-Identifier: Apache-2.0
//! Work that may hang on a file system, done by another process.

use crate::process::fork::{OwnedChild, start};
use crate::ready::clock::now;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// A child process that does one piece of work and ends. Dropped, it is killed; one that the kernel does not let go
/// stays behind.
#[derive(Debug)]
pub struct Subtask {
    _child: OwnedChild,
    /// Closes when the child ends; what went wrong comes through it.
    report: PipeReader,
}

impl Subtask {
    /// Begins it. `work` returns what went wrong, in words.
    ///
    /// # Errors
    /// As pipe(2) and fork(2).
    pub fn begin(work: impl FnOnce() -> Result<(), String>) -> io::Result<Self> {
        let (child, report) = start(|mut writer, _| {
            let _ = set_pdeathsig(Signal::SIGKILL);
            if let Err(why) = work() {
                let _ = writer.write_all(why.as_bytes());
            }
            0
        })?;
        Ok(Self { _child: OwnedChild(child), report })
    }

    /// Readable once it has ended.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.report.as_fd()
    }

    /// Waits at most `limit` for its end, and returns how the work came out; `None` while it is under way. A child
    /// that was killed has nothing to report, and counts as done.
    pub fn wait(&mut self, limit: Duration) -> Option<Result<(), String>> {
        let until = now() + limit;
        loop {
            let mut fds = [PollFd::new(self.report.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut fds, crate::ready::wake::timeout(now(), until));
            if fds[0].any() == Some(true) {
                let mut why = String::new();
                // The whole report comes in one write, and then the end.
                let _ = self.report.read_to_string(&mut why);
                return Some(if why.is_empty() { Ok(()) } else { Err(why) });
            }
            if now() >= until {
                return None;
            }
        }
    }
}

/// Runs `work` and waits at most `limit` for it.
///
/// # Errors
/// As pipe(2) and fork(2).
pub fn briefly(limit: Duration, work: impl FnOnce()) -> io::Result<()> {
    let mut subtask = Subtask::begin(|| {
        work();
        Ok(())
    })?;
    let _ = subtask.wait(limit);
    Ok(())
}
