// SPDX-License-Identifier: Apache-2.0
//! Standard input, which `-` stands for where a verb reads a file.

use super::tally::Counted;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, IsTerminal, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// For messages.
pub const NAME: &str = "standard input";

/// Whether a path means standard input.
pub fn is_named(path: &Path) -> bool {
    path == Path::new("-")
}

/// The path, for messages.
pub fn shown(path: &Path) -> Cow<'_, str> {
    if is_named(path) { NAME.into() } else { path.to_string_lossy() }
}

/// All that comes.
///
/// # Errors
/// Where nothing comes: it is a terminal, where a person would wait for us as we would for them, or it is empty.
pub fn open() -> io::Result<Box<dyn Read>> {
    let refused = |why: &str| Err(io::Error::new(ErrorKind::InvalidInput, why));
    if io::stdin().is_terminal() {
        return refused("it is a terminal: name a file, or pipe one into this command");
    }
    let mut all = BufReader::new(Counted::new(io::stdin()));
    if all.fill_buf()?.is_empty() { refused("it is empty") } else { Ok(Box::new(all)) }
}

/// A file in memory with the first `most` bytes, and a path by which it can be opened while it lives.
///
/// # Errors
/// As [`open`], and as `memfd_create(2)` and `write(2)`.
pub fn copied(most: u64) -> io::Result<(File, PathBuf)> {
    let mut copy = File::from(memfd_create(c"stdin", MFdFlags::MFD_CLOEXEC)?);
    io::copy(&mut open()?.take(most), &mut copy)?;
    let path = format!("/proc/self/fd/{}", copy.as_raw_fd()).into();
    Ok((copy, path))
}
