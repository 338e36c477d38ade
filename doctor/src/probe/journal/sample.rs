// SPDX-License-Identifier: Apache-2.0
//! A journal file as journald writes it, without what is not read: hashes, and tables of them.

use super::HEADER;

const OFFSET: usize = 176;
const COUNT: usize = 152;
const LAST: usize = 192;

/// The file so far.
pub(crate) struct Sample {
    pub(crate) bytes: Vec<u8>,
    is_compact: bool,
    /// How many entries an array has.
    per_array: usize,
    entries: Vec<u64>,
}

impl Sample {
    pub(crate) fn new(is_compact: bool, per_array: usize) -> Self {
        let mut bytes = vec![0; HEADER + 72];
        bytes[..8].copy_from_slice(b"LPKSHHRH");
        bytes[12] = if is_compact { 0b1_1100 } else { 0b1100 };
        Self { bytes, is_compact, per_array, entries: Vec::new() }
    }

    fn object(&mut self, kind: u8, flags: u8, body: &[u8]) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = self.bytes.len() as u64;
        self.bytes.extend([kind, flags, 0, 0, 0, 0, 0, 0]);
        self.bytes.extend((16 + body.len() as u64).to_le_bytes());
        self.bytes.extend(body);
        at
    }

    /// A data object, and where it is.
    pub(crate) fn data(&mut self, flags: u8, data: &[u8]) -> u64 {
        let head = if self.is_compact { 56 } else { 48 };
        self.object(1, flags, &[&vec![0; head], data].concat())
    }

    /// An entry of these data objects, at this time in microseconds.
    pub(crate) fn entry(&mut self, realtime: u64, data: &[u64]) -> u64 {
        let mut body = vec![0; 48];
        body[8..16].copy_from_slice(&realtime.to_le_bytes());
        for at in data {
            if self.is_compact {
                body.extend(&at.to_le_bytes()[..4]);
            } else {
                body.extend(at.to_le_bytes());
                body.extend([0; 8]);
            }
        }
        let at = self.object(3, 0, &body);
        self.bytes[LAST..LAST + 8].copy_from_slice(&realtime.to_le_bytes());
        self.entries.push(at);
        at
    }

    /// An entry of the kernel's.
    pub(crate) fn kernel(&mut self, realtime: u64, message: &str) {
        let fields = ["SYSLOG_IDENTIFIER=kernel", "_TRANSPORT=kernel", "PRIORITY=4"];
        let mut data: Vec<_> = fields.map(|field| self.data(0, field.as_bytes())).into();
        data.push(self.data(0, format!("MESSAGE={message}").as_bytes()));
        self.entry(realtime, &data);
    }

    /// The whole file: the arrays of its entries, each of which names the next.
    pub(crate) fn build(mut self) -> Vec<u8> {
        let (entries, width) = (std::mem::take(&mut self.entries), if self.is_compact { 4 } else { 8 });
        self.bytes[COUNT..COUNT + 8].copy_from_slice(&(entries.len() as u64).to_le_bytes());
        let mut link = OFFSET;
        for chunk in entries.chunks(self.per_array) {
            let mut body = vec![0; 8];
            for at in chunk {
                body.extend(&at.to_le_bytes()[..width]);
            }
            // The last array has room.
            body.resize(8 + self.per_array * width, 0);
            let at = self.object(6, 0, &body);
            self.bytes[link..link + 8].copy_from_slice(&at.to_le_bytes());
            link = usize::try_from(at).expect("a small file") + 16;
        }
        self.bytes
    }
}
