// SPDX-License-Identifier: Apache-2.0
//! A second process of this program.

use crate::ready::clock::now;
use nix::poll::{PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid};
use std::io::{self, PipeReader, PipeWriter};
use std::time::Duration;

/// How long a killed process is waited for. One that the kernel does not let go stays behind.
pub(super) const DEATH: Duration = Duration::from_millis(200);

/// The one place without the compiler's guard.
#[expect(unsafe_code, reason = "fork(2) is safe in a process with one thread, and this one has no other")]
pub(super) fn begin() -> nix::Result<ForkResult> {
    // SAFETY: no other thread exists that could hold a lock which the child would wait for.
    unsafe { fork() }
}

/// Has `work` done by another process, which writes to this one. `work` gets the pid of its parent, and returns its
/// exit code.
pub(super) fn start(work: impl FnOnce(PipeWriter, Pid) -> u8) -> io::Result<(Pid, PipeReader)> {
    let parent = getpid();
    let (reader, writer) = io::pipe()?;
    match begin()? {
        ForkResult::Child => {
            drop(reader);
            std::process::exit(work(writer, parent).into());
        }
        ForkResult::Parent { child } => Ok((child, reader)),
    }
}

/// A child process. Dropped, it is killed; one that the kernel does not let go stays behind.
#[derive(Debug)]
pub(super) struct OwnedChild(pub(super) Pid);

impl Drop for OwnedChild {
    fn drop(&mut self) {
        let until = now() + DEATH;
        // A process that was reaped is no longer a child, and its pid may be another process's.
        while waitpid(self.0, Some(WaitPidFlag::WNOHANG)) == Ok(WaitStatus::StillAlive) && now() < until {
            let _ = kill(self.0, Signal::SIGKILL);
            // A pause of 1 ms. poll(2) is in the seccomp profile of `wait`.
            let _ = poll(&mut [], PollTimeout::from(1u8));
        }
    }
}
