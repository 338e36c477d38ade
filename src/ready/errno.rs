// SPDX-License-Identifier: Apache-2.0
//! The system's words for an error.

use nix::errno::Errno;
use std::io::Error;

/// As strerror(3) says it: std adds "(os error 2)", which does not help a reader.
#[must_use]
pub fn words(error: &Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), |code| Errno::from_raw(code).desc().to_owned())
}

/// The call may succeed the next time although nobody acts.
#[must_use]
pub fn may_pass(error: &Error) -> bool {
    let passing = [
        Errno::EINTR,
        Errno::EIO,
        Errno::EAGAIN,
        Errno::ENOMEM,
        Errno::EBUSY,
        Errno::ENFILE,
        Errno::EMFILE,
        Errno::ETXTBSY,
        Errno::ENOSPC,
        Errno::EDQUOT,
        Errno::ENOLCK,
        Errno::ESTALE,
        Errno::ETIMEDOUT,
        Errno::ENOTCONN,
    ];
    error.raw_os_error().is_some_and(|code| passing.contains(&Errno::from_raw(code)))
}
