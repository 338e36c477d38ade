// SPDX-License-Identifier: Apache-2.0
//! systemd's journal, read from its end as far back as is asked for (systemd's `JOURNAL_FILE_FORMAT`).
//!
//! A file that is written meanwhile, was not closed, or is damaged gives what can still be read: every offset and
//! every length is checked before it is used, and nothing grows with what the file claims.

mod bytes;
mod entry;
#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
mod unpack;

pub use bytes::ReadAt;
pub use entry::JournalEntry;

use bytes::{JournalBytes, damaged, number};
use entry::{DataObjects, Layout};
use std::io;

const SIGNATURE: &[u8] = b"LPKSHHRH";
/// As far as the fields that are read here; newer headers are longer.
const HEADER: usize = 200;
/// Packed data (xz, lz4, zstd), keyed hashes, and the compact layout: all that systemd 257 knows.
const KNOWN: u64 = 0b1_1111;
const COMPACT: u64 = 0b1_0000;
const OBJECT: usize = 16;
const ENTRY_ARRAY: u8 = 6;
/// Of an array before its items.
const ARRAY: usize = 24;

/// One file of a journal.
pub struct Journal<R> {
    bytes: JournalBytes<R>,
    fields: DataObjects,
    /// Where its entries are, oldest first.
    entries: Vec<u64>,
    last: u64,
}

impl<R: ReadAt> Journal<R> {
    /// The last `most` entries of a file of this size.
    ///
    /// # Errors
    /// As read(2); `InvalidData` for what is no journal, or has a layout that is not known.
    pub fn open(from: R, size: u64, most: usize) -> io::Result<Self> {
        let bytes = JournalBytes::new(from, size);
        let header = bytes.at(0, HEADER)?;
        if !header.starts_with(SIGNATURE) {
            return Err(damaged("no journal file"));
        }
        let features = number(&header, 12, 4);
        if features & !KNOWN != 0 {
            return Err(damaged("a journal file of a newer format"));
        }
        let layout = Layout::new(features & COMPACT != 0);
        let (count, first) = (number(&header, 152, 8), number(&header, 176, 8));
        let entries = entries(&bytes, layout, count, first, most)?;
        Ok(Self { bytes, fields: DataObjects::new(layout), entries, last: number(&header, 192, 8) })
    }

    /// Gives each entry, oldest first, until so many bytes were read: entries may share a long message, so the file's
    /// size is no bound. How many could not be read, or were left.
    pub fn each(&mut self, most_bytes: u64, mut each: impl FnMut(&JournalEntry)) -> u64 {
        let mut unreadable = 0;
        for at in std::mem::take(&mut self.entries) {
            let has_room = self.bytes.read() <= most_bytes;
            match has_room.then(|| self.fields.entry(&self.bytes, at)) {
                Some(Ok(entry)) => each(&entry),
                Some(Err(_)) | None => unreadable += 1,
            }
        }
        unreadable
    }

    /// How many entries [`Self::each`] has to give.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// The time of its last entry, in microseconds since 1970. journald writes by mmap(2), so the file's own time is
    /// another.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// How many bytes were read.
    pub fn read(&self) -> u64 {
        self.bytes.read()
    }
}

/// The offsets of the last `most` of `count` entries. Each array of the chain names the next, which lies behind it.
fn entries<R: ReadAt>(
    bytes: &JournalBytes<R>,
    layout: Layout,
    count: u64,
    first: u64,
    most: usize,
) -> io::Result<Vec<u64>> {
    let mut skipped = count.saturating_sub(most as u64);
    let (mut left, mut at) = (count, first);
    let mut entries = Vec::new();
    while at != 0 && left > 0 {
        let head = bytes.object(at, ENTRY_ARRAY, ARRAY)?;
        let width = layout.offset();
        let items = (number(&head, 8, 8).saturating_sub(ARRAY as u64) / width as u64).min(left);
        let skip = skipped.min(items);
        let (from, used) = (at + ARRAY as u64 + skip * width as u64, items - skip);
        let all = bytes.at(from, usize::try_from(used).unwrap_or(usize::MAX).saturating_mul(width))?;
        entries.extend(all.chunks_exact(width).map(|item| number(item, 0, width)).filter(|at| *at != 0));
        (left, skipped) = (left - items, skipped - skip);
        let next = number(&head, 16, 8);
        if next != 0 && next <= at || items == 0 {
            return Err(damaged("its entries are in a circle"));
        }
        at = next;
    }
    Ok(entries)
}
