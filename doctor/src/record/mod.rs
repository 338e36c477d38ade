// SPDX-License-Identifier: Apache-2.0
//! One line of a log file: when it was written, and what it says. Pure: bytes in, parts of them out.
//!
//! kubelet keeps what containers print in the CRI's format, or in Docker's behind links; the kernel's log
//! lies in syslog's files or comes from /dev/kmsg. Stamps are read only when they are needed, because nearly
//! every line of a log means nothing to us.

mod container;
mod gathered;
mod kernel;
mod lines;
pub mod place;

pub use container::container;
pub(crate) use container::string_end;
pub use gathered::{prefixed, printed, stern};
pub use kernel::{SystemLine, ring, system_line};
pub use lines::Lines;

use crate::stamp::{self, Stamp};
use std::borrow::Cow;

/// A stamp that is not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written<'a> {
    /// RFC 3339, with a zone.
    Rfc3339(&'a [u8]),
    /// syslog's classic stamp, without a year.
    Classic(&'a [u8]),
    /// Read already.
    Read(Stamp),
    /// There is none.
    Nothing,
}

impl Written<'_> {
    /// Reads it. What has no year is of the last year in which it is not later than `not_after_ns`
    /// (nanoseconds since 1970).
    pub fn stamp(self, not_after_ns: i64) -> Option<Stamp> {
        match self {
            Self::Rfc3339(bytes) => stamp::rfc3339(bytes).map(|(stamp, _)| stamp),
            Self::Classic(bytes) => stamp::classic(bytes, not_after_ns).map(|(stamp, _)| stamp),
            Self::Read(stamp) => Some(stamp),
            Self::Nothing => None,
        }
    }
}

/// A container's output, as kubelet keeps it: a line, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When the runtime read it.
    pub written: Written<'a>,
    /// Without the line's end.
    pub text: Cow<'a, [u8]>,
    /// More of the same line follows.
    pub is_partial: bool,
}
