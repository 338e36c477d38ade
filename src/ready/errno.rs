// SPDX-License-Identifier: Apache-2.0
//! The system's words for an error.

use nix::errno::Errno;
use std::io::Error;

/// As strerror(3) says it: std adds "(os error 2)", which does not help a reader.
#[must_use]
pub fn words(error: &Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), |code| Errno::from_raw(code).desc().to_owned())
}
