// SPDX-License-Identifier: Apache-2.0
//! Where the words of this process go: to its standard streams, or to its supervisor if it has one.
//!
//! A worker holds no stream of its own. One that hangs in the kernel would keep it open for as long,
//! and whoever reads to its end would hang with it.

use super::lifeline::Lifeline;
use super::stderr::Patient;
use std::io::{self, ErrorKind, Write};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

enum Outlet {
    Streams(Patient<io::Stderr>),
    Supervisor(Lifeline),
}

static OUTLET: LazyLock<Mutex<Outlet>> =
    LazyLock::new(|| Mutex::new(Outlet::Streams(Patient::new(io::stderr()))));

/// How the log words the line that tells of those that were left out.
static LEFT_OUT: OnceLock<fn(u64) -> String> = OnceLock::new();

fn left_out(count: u64) -> String {
    format!("{count} lines were left out\n")
}

fn outlet() -> MutexGuard<'static, Outlet> {
    OUTLET.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on the supervisor says it all.
pub(super) fn speak_through(lifeline: Lifeline) {
    *outlet() = Outlet::Supervisor(lifeline);
}

pub(super) fn word_left_out_by(words: fn(u64) -> String) {
    let _ = LEFT_OUT.set(words);
}

/// Says this on standard error. It never waits: what does not fit is left out and counted.
pub(super) fn say(text: &[u8]) {
    match &mut *outlet() {
        Outlet::Streams(stderr) => {
            stderr.line(text, LEFT_OUT.get().copied().unwrap_or(left_out));
        }
        Outlet::Supervisor(lifeline) => lifeline.say(text),
    }
}

/// Prints an answer on standard output. A reader that went away is no fault of ours.
///
/// # Errors
/// As write(2), except `EPIPE`.
pub fn answer(text: &str) -> io::Result<()> {
    if let Outlet::Supervisor(lifeline) = &mut *outlet() {
        lifeline.answer(text.as_bytes());
        return Ok(());
    }
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
