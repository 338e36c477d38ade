// SPDX-License-Identifier: Apache-2.0
//! The terminal behind standard output, if there is one.

use rustix::termios::{isatty, tcgetwinsize};
use std::io::stdout;

/// How many columns the terminal has that standard output is, 0 where it does not say; `None` where
/// standard output is no terminal.
#[must_use]
pub fn columns() -> Option<u16> {
    let out = stdout();
    isatty(&out).then(|| tcgetwinsize(&out).map_or(0, |size| size.ws_col))
}
