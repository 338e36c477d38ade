// SPDX-License-Identifier: Apache-2.0
//! The program of that name behind this one in PATH, run to its end with our streams, environment and signals.

use crate::process::system_program::SystemProgram;
use crate::process::system_program::run::code;
use crate::process::system_program::step::{CHROOT_EXEC, SEEN_SHIMS};
use crate::ready::wake::Signals;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

/// How often the child is looked for where its end is no signal.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

impl SystemProgram {
    /// Runs it to its end, and hands it every signal that can be caught: of one that ended us, it would run on alone.
    /// Its exit code as a shell shows it (126 and 127 where it cannot be run), and the last signal that ends the
    /// gate.
    ///
    /// # Errors
    /// As fork(2), execve(2), wait(2) and signalfd(2).
    pub fn pass(&self, args: &[OsString], signals: &Signals) -> io::Result<(u8, Option<u8>)> {
        let signals = signals.and_others()?;
        let mut step = Command::new(&self.step);
        step.arg0(CHROOT_EXEC).arg(self.is.name).arg(&self.root).arg(&self.path).args(args);
        let mut child = step.env(SEEN_SHIMS, self.with_tried()).spawn()?;
        let mut last = None;
        loop {
            while let Some(came) = signals.take_one() {
                last = if came.is_ending { Some(came.signal as u8) } else { last };
                hand_on(&child, came.signal);
            }
            if let Some(status) = child.try_wait()? {
                return Ok((code(Some(status)), last));
            }
            signals.wait(POLL_INTERVAL);
        }
    }
}

/// A child that has not been waited for still has its pid.
fn hand_on(child: &Child, signal: Signal) {
    if let Ok(pid) = child.id().try_into() {
        let _ = kill(Pid::from_raw(pid), signal);
    }
}
