// SPDX-License-Identifier: Apache-2.0
//! Where the words of this process go: to its standard streams, or to its supervisor if it has one.
//!
//! A worker holds no stream of its own. One that hangs in the kernel would keep it open for as long,
//! and a process that reads to its end would hang with it.

use super::lifeline::Lifeline;
use super::stderr::{Patient, Way};
use crate::wake::Signals;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

enum Outlet {
    Streams(Patient<io::Stderr>),
    /// Standard error is a file, which only the worker writes: if its file system hangs, the supervisor does not.
    File(Patient<io::Stderr>, Lifeline),
    Supervisor(Lifeline),
}

static OUTLET: LazyLock<Mutex<Outlet>> =
    LazyLock::new(|| Mutex::new(Outlet::Streams(Patient::new(io::stderr()))));

/// How the log words the line that reports dropped lines.
static LEFT_OUT: OnceLock<fn(u64) -> String> = OnceLock::new();

fn left_out(count: u64) -> String {
    format!("{count} lines were dropped\n")
}

fn outlet() -> MutexGuard<'static, Outlet> {
    OUTLET.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on the supervisor writes the log. If standard error is a file, the worker still does: then true.
pub(super) fn speak_through(lifeline: Lifeline) -> bool {
    let mut outlet = outlet();
    match std::mem::replace(&mut *outlet, Outlet::Supervisor(lifeline.clone())) {
        Outlet::Streams(stderr) if stderr.is_file() => {
            *outlet = Outlet::File(stderr, lifeline);
            true
        }
        _ => false,
    }
}

pub(super) fn word_left_out_by(words: fn(u64) -> String) {
    let _ = LEFT_OUT.set(words);
}

/// Says this on standard error. It never waits: what does not fit is left out and counted.
pub(super) fn say(text: &[u8]) {
    match &mut *outlet() {
        Outlet::Streams(stderr) | Outlet::File(stderr, _) => {
            stderr.line(text, LEFT_OUT.get().copied().unwrap_or(left_out));
        }
        Outlet::Supervisor(lifeline) => lifeline.say(text),
    }
}

/// Prints an answer on standard output. A reader that went away is not our fault.
///
/// # Errors
/// As write(2), except `EPIPE`.
pub fn answer(text: &str) -> io::Result<()> {
    if let Outlet::Supervisor(lifeline) | Outlet::File(_, lifeline) = &mut *outlet() {
        lifeline.answer(text.as_bytes());
        return Ok(());
    }
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Prints an answer on standard output. A slow reader is waited for, but only until a signal comes: it is
/// returned, and so is `came`, one that came before. For a process that has blocked its signals.
///
/// # Errors
/// As [`answer`].
pub fn answer_until_signalled(text: &[u8], signals: &Signals, came: Option<u8>) -> io::Result<Option<u8>> {
    let stdout = io::stdout();
    let mut way = Way::of(stdout.as_fd());
    let mut left = text;
    while !left.is_empty() {
        match way.write(stdout.as_fd(), left) {
            Ok(count) => left = &left[count..],
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => {}
                ErrorKind::BrokenPipe => return Ok(None),
                ErrorKind::WouldBlock if came.is_some() => return Ok(came),
                ErrorKind::WouldBlock => {
                    let mut fds = [
                        PollFd::new(stdout.as_fd(), PollFlags::POLLOUT),
                        PollFd::new(signals.fd(), PollFlags::POLLIN),
                    ];
                    let _ = poll(&mut fds, PollTimeout::NONE);
                    if let Some(signal) = signals.take_one() {
                        return Ok(Some(signal));
                    }
                }
                _ => return Err(error),
            },
        }
    }
    Ok(None)
}
