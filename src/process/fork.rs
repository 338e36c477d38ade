// SPDX-License-Identifier: Apache-2.0
//! A second process of this program.

use nix::unistd::{ForkResult, fork};
use std::time::Duration;

/// How long a killed process is waited for. One that the kernel does not let go stays behind.
pub(super) const DEATH: Duration = Duration::from_millis(200);

/// The one place without the compiler's guard.
#[expect(unsafe_code, reason = "fork(2) is safe in a process with one thread, and this one has no other")]
pub(super) fn begin() -> nix::Result<ForkResult> {
    // SAFETY: no other thread exists that could hold a lock which the child would wait for.
    unsafe { fork() }
}
