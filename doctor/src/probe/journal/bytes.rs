// SPDX-License-Identifier: Apache-2.0
//! Bytes of a file at an offset, none of them outside it.

use super::OBJECT;
use std::cell::Cell;
use std::io;

/// More than the offsets of all entries that a history asks for.
const LARGEST: usize = 16 << 20;

/// A source of bytes by their offset, such as a file.
pub trait ReadAt {
    /// Fills `bytes` from there.
    ///
    /// # Errors
    /// As pread(2); `UnexpectedEof` behind its end.
    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;
}

impl ReadAt for &[u8] {
    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let from = usize::try_from(at).ok().and_then(|at| self.get(at..)?.get(..bytes.len()));
        bytes.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A file of a size that was read before.
pub(super) struct JournalBytes<R> {
    from: R,
    size: u64,
    read: Cell<u64>,
}

impl<R: ReadAt> JournalBytes<R> {
    pub(super) fn new(from: R, size: u64) -> Self {
        Self { from, size, read: Cell::new(0) }
    }

    /// All of these.
    pub(super) fn at(&self, at: u64, length: usize) -> io::Result<Vec<u8>> {
        let is_inside = at.checked_add(length as u64).is_some_and(|end| end <= self.size);
        if !is_inside || length > LARGEST {
            return Err(damaged("an object ends behind its end"));
        }
        let mut bytes = vec![0; length];
        self.from.read_exact_at(&mut bytes, at)?;
        self.read.set(self.read.get() + length as u64);
        Ok(bytes)
    }

    /// The first bytes of an object of this kind, which has them all.
    pub(super) fn object(&self, at: u64, kind: u8, length: usize) -> io::Result<Vec<u8>> {
        let head = self.at(at, length.max(OBJECT))?;
        let is_it = head[0] == kind && number(&head, 8, 8) >= length as u64;
        if is_it { Ok(head) } else { Err(damaged("another object than expected")) }
    }

    pub(super) fn read(&self) -> u64 {
        self.read.get()
    }
}

/// A little-endian number of that many bytes; 0 where they are not there.
pub(super) fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let mut wide = [0; 8];
    if let Some(found) = bytes.get(at..at + length) {
        wide[..length].copy_from_slice(found);
    }
    u64::from_le_bytes(wide)
}

pub(super) fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
