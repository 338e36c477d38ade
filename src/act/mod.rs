// SPDX-License-Identifier: Apache-2.0
//! The door that only writes, and becomes CMD.

pub mod exec;
pub mod install;
pub mod log;
pub mod metrics;
pub mod modprobe;
pub mod notify;
pub mod termination_log;

use std::io::{self, Write};
use std::path::Path;

/// Where MOFED's marker and lock are: nothing of ours is ever written there.
const MOFED_DIRECTORY: &str = "/run/mellanox/drivers";

/// Refuses a file below MOFED's directory: one named like the marker would be taken for it.
///
/// # Errors
/// `PermissionDenied`, with the reason.
fn may_be_written(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
    let mofed = Path::new(MOFED_DIRECTORY);
    let mofed_real = mofed.canonicalize().unwrap_or_else(|_| mofed.to_owned());
    if real.starts_with(&mofed_real) || real.starts_with(mofed) || parent.starts_with(mofed) {
        let why = format!("nothing may be written below {MOFED_DIRECTORY}, which is MOFED's");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

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
