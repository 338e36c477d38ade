// SPDX-License-Identifier: Apache-2.0
//! One entry of a journal: a time, and data objects of the form `FIELD=value`, which entries share.

use super::ReadAt;
use super::bytes::{JournalBytes, damaged, number};
use super::unpack::Compression;
use std::collections::HashMap;
use std::io;

const DATA: u8 = 1;
const ENTRY: u8 = 3;
/// Of an entry before its items.
const HEAD: usize = 64;
/// journald itself takes 1024.
const ITEMS: u64 = 1024;
/// An object's head, and a field's name.
const BEGINNING: usize = 64;
/// The longest packed data object that is read.
const LONGEST: u64 = 1 << 20;
/// Of one that is not packed so much is read.
const LONGEST_VALUE: u64 = 64 << 10;
/// Values that entries share and that are kept; each has some ten bytes.
const KEPT: usize = 100_000;

/// The fields of an entry that are read. Names with an underscore are journald's own words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalEntry {
    /// When journald received it, in microseconds since 1970.
    pub realtime: u64,
    /// `SYSLOG_IDENTIFIER`: what the program calls itself.
    pub identifier: Vec<u8>,
    /// `_TRANSPORT`: `kernel` for the kernel's.
    pub transport: Vec<u8>,
    /// `_SYSTEMD_UNIT`.
    pub unit: Vec<u8>,
    /// `MESSAGE`.
    pub message: Vec<u8>,
}

/// The sizes of a file's objects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    is_compact: bool,
}

impl Layout {
    pub(super) fn new(is_compact: bool) -> Self {
        Self { is_compact }
    }

    /// Of an offset in an array.
    pub(super) fn offset(self) -> usize {
        if self.is_compact { 4 } else { 8 }
    }

    /// Of an item of an entry: an offset, and its hash where there is room.
    fn item(self) -> usize {
        if self.is_compact { 4 } else { 16 }
    }

    /// Of a data object before its data.
    fn data(self) -> usize {
        if self.is_compact { 72 } else { 64 }
    }
}

/// The fields that are read, by their names with `=`.
const NAMES: [(&[u8], FieldName); 4] = [
    (b"SYSLOG_IDENTIFIER=", FieldName::Identifier),
    (b"_TRANSPORT=", FieldName::Transport),
    (b"_SYSTEMD_UNIT=", FieldName::Unit),
    (b"MESSAGE=", FieldName::Message),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldName {
    Identifier,
    Transport,
    Unit,
    Message,
}

/// Data objects by their offset: a value that entries share is read once.
#[derive(Debug)]
pub(super) struct DataObjects {
    layout: Layout,
    /// `None` for fields that are not needed.
    known: HashMap<u64, Option<(FieldName, Vec<u8>)>>,
}

impl DataObjects {
    pub(super) fn new(layout: Layout) -> Self {
        Self { layout, known: HashMap::new() }
    }

    /// The entry at this offset.
    ///
    /// # Errors
    /// As read(2); `InvalidData` where there is none.
    pub(super) fn entry<R: ReadAt>(&mut self, bytes: &JournalBytes<R>, at: u64) -> io::Result<JournalEntry> {
        let head = bytes.object(at, ENTRY, HEAD)?;
        let width = self.layout.item();
        let items = (number(&head, 8, 8) - HEAD as u64) / width as u64;
        if items > ITEMS {
            return Err(damaged("an entry with more fields than journald takes"));
        }
        let mut entry = JournalEntry { realtime: number(&head, 24, 8), ..JournalEntry::default() };
        let items = bytes.at(at + HEAD as u64, usize::try_from(items).unwrap_or_default() * width)?;
        for item in items.chunks_exact(width) {
            let at = number(item, 0, self.layout.offset());
            match self.field(bytes, at)? {
                Some((FieldName::Identifier, value)) => entry.identifier = value,
                Some((FieldName::Transport, value)) => entry.transport = value,
                Some((FieldName::Unit, value)) => entry.unit = value,
                Some((FieldName::Message, value)) => entry.message = value,
                None => {}
            }
        }
        Ok(entry)
    }

    fn field<R: ReadAt>(
        &mut self,
        bytes: &JournalBytes<R>,
        at: u64,
    ) -> io::Result<Option<(FieldName, Vec<u8>)>> {
        if let Some(known) = self.known.get(&at) {
            return Ok(known.clone());
        }
        let field = self.read(bytes, at)?;
        // Messages are rarely said twice.
        if !matches!(field, Some((FieldName::Message, _))) {
            if self.known.len() >= KEPT {
                self.known.clear();
            }
            self.known.insert(at, field.clone());
        }
        Ok(field)
    }

    fn read<R: ReadAt>(&self, bytes: &JournalBytes<R>, at: u64) -> io::Result<Option<(FieldName, Vec<u8>)>> {
        let head = bytes.object(at, DATA, self.layout.data())?;
        let from = at + self.layout.data() as u64;
        let length = number(&head, 8, 8) - self.layout.data() as u64;
        let packing =
            Compression::of(head[1]).ok_or_else(|| damaged("data that is packed in an unknown way"))?;
        if packing == Compression::None {
            let beginning = bytes.at(from, usize::try_from(length).unwrap_or(BEGINNING).min(BEGINNING))?;
            if !NAMES.iter().any(|(name, _)| beginning.starts_with(name)) {
                return Ok(None);
            }
        }
        // Packed data is of no use in part.
        let length = if packing == Compression::None { length.min(LONGEST_VALUE) } else { length };
        if length > LONGEST {
            return Ok(None);
        }
        let data = packing.unpack(&bytes.at(from, usize::try_from(length).unwrap_or_default())?)?;
        let value =
            |(name, is): &(&[u8], FieldName)| data.strip_prefix(*name).map(|value| (*is, value.to_vec()));
        Ok(NAMES.iter().find_map(value))
    }
}
