// SPDX-License-Identifier: Apache-2.0
//! The door that only writes, and becomes CMD.

pub mod exec;
pub mod log;
pub mod metrics;
pub mod termination_log;

use std::io::{self, Write};

/// Prints an answer on standard output. A reader that went away is no fault of ours.
///
/// # Errors
/// As write(2), but for `EPIPE`.
pub fn answer(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
