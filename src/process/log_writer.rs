// SPDX-License-Identifier: Apache-2.0
//! Where the words of this process go: to its standard streams, or to its supervisor if it has one.
//!
//! A worker has no stream of its own. One that hangs in the kernel would keep it open for as long,
//! and a process that reads to its end would hang with it.

use crate::process::stderr::{NonBlockingWriter, WriteMode};
use crate::process::worker_pipe::{ANSWER, DRAW, LOG, WorkerPipe};
use crate::ready::wake::Signals;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::termios::isatty;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

enum LogWriter {
    Streams(NonBlockingWriter<io::Stderr>),
    /// Standard error is a file, which only the worker writes: if its file system hangs, the supervisor does not.
    File(NonBlockingWriter<io::Stderr>, WorkerPipe),
    Supervisor(WorkerPipe),
}

static LOG_WRITER: LazyLock<Mutex<LogWriter>> =
    LazyLock::new(|| Mutex::new(LogWriter::Streams(NonBlockingWriter::new(io::stderr()))));

/// How the log words the line that reports dropped lines.
static LEFT_OUT: OnceLock<fn(u64) -> String> = OnceLock::new();

fn left_out(count: u64) -> String {
    format!("{count} lines were dropped\n")
}

fn log_writer() -> MutexGuard<'static, LogWriter> {
    LOG_WRITER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on the supervisor writes the log. If standard error is a file, the worker still does: then true.
pub(crate) fn write_through(worker_pipe: WorkerPipe) -> bool {
    let mut log_writer = log_writer();
    match std::mem::replace(&mut *log_writer, LogWriter::Supervisor(worker_pipe.clone())) {
        LogWriter::Streams(stderr) if stderr.is_file() => {
            *log_writer = LogWriter::File(stderr, worker_pipe);
            true
        }
        _ => false,
    }
}

pub(crate) fn set_left_out(words: fn(u64) -> String) {
    let _ = LEFT_OUT.set(words);
}

/// Writes to standard error. A line that does not fit is left out and counted, never waited for.
pub(crate) fn write(text: &[u8]) {
    match &mut *log_writer() {
        LogWriter::Streams(stderr) | LogWriter::File(stderr, _) => {
            stderr.line(text, LEFT_OUT.get().copied().unwrap_or(left_out));
        }
        LogWriter::Supervisor(worker_pipe) => worker_pipe.send(LOG, text),
    }
}

/// Draws a line on the terminal that standard error is, over the one drawn before.
pub(crate) fn draw(text: &str) {
    match &mut *log_writer() {
        LogWriter::Streams(stderr) => stderr.draw(text),
        LogWriter::File(..) => {}
        LogWriter::Supervisor(worker_pipe) => worker_pipe.send(DRAW, text.as_bytes()),
    }
}

/// Clears the line that is drawn, if one is.
pub(crate) fn clear() {
    if let LogWriter::Streams(stderr) = &mut *log_writer() {
        stderr.clear();
    }
}

/// Clears the line too. What the terminal has not taken comes back, to be written before the answer.
fn cleared() -> Vec<u8> {
    clear();
    match &mut *log_writer() {
        LogWriter::Streams(stderr) if isatty(io::stdout()) => stderr.take_rest(),
        _ => Vec::new(),
    }
}

/// Prints an answer on standard output. A reader that went away is not our fault.
///
/// # Errors
/// As write(2), except `EPIPE`.
pub fn answer(text: &str) -> io::Result<()> {
    if let LogWriter::Supervisor(worker_pipe) | LogWriter::File(_, worker_pipe) = &mut *log_writer() {
        worker_pipe.send(ANSWER, text.as_bytes());
        return Ok(());
    }
    let cleared = cleared();
    let mut out = io::stdout().lock();
    match out.write_all(&cleared).and_then(|()| out.write_all(text.as_bytes())).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Prints an answer on standard output. A slow reader is waited for, but only until a signal comes: it is
/// returned, and so is `came`, one that came before. For a process that has blocked its signals.
///
/// # Errors
/// As [`answer`].
pub fn answer_until_signaled(text: &[u8], signals: &Signals, came: Option<u8>) -> io::Result<Option<u8>> {
    let text = [&cleared(), text].concat();
    let stdout = io::stdout();
    let mut way = WriteMode::of(stdout.as_fd());
    let mut left = text.as_slice();
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
