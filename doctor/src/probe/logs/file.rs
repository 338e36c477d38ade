// SPDX-License-Identifier: Apache-2.0
//! One log's bytes: its beginning and its end, or all of it; packed or not.

use super::walk::FoundFile;
use crate::gathered::BundleFile;
use crate::log::LogScanner;
use crate::probe::tally;
use crate::stamp::Stamp;
use flate2::read::MultiGzDecoder;
use peermem_gate::ready::files::read::open;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;

/// How much one read asks for.
const CHUNK: usize = 64 * 1024;

/// The bytes of a file, or those that an archive had of it.
trait LogBytes: Read + Seek {}

impl<T: Read + Seek> LogBytes for T {}

/// A log that is open.
pub(super) struct OpenLog {
    file: Box<dyn LogBytes>,
    pub(super) size: u64,
    pub(super) modified: Stamp,
}

/// Shared, because a log is opened once to see its kind and once to read it.
struct PackedBytes(Rc<BundleFile>);

impl AsRef<[u8]> for PackedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

/// How much of a log was read, and how much was not.
#[derive(Debug)]
pub(super) struct Extent {
    pub(super) read: u64,
    pub(super) left_out: u64,
}

impl OpenLog {
    /// # Errors
    /// As open(2); `InvalidInput` for what is no regular file.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let modified = Stamp::of_file(metadata.mtime(), metadata.mtime_nsec());
        tally::file();
        Ok(Self { file: Box::new(file), size: metadata.len(), modified })
    }

    /// # Errors
    /// As [`Self::open`].
    pub(super) fn found(found: &FoundFile) -> io::Result<Self> {
        found.packed.as_ref().map_or_else(|| Self::open(&found.path), |packed| Ok(Self::packed(packed)))
    }

    /// A file of an archive.
    fn packed(file: &Rc<BundleFile>) -> Self {
        let modified = Stamp::of_file(file.modified.unwrap_or(i64::from(u32::MAX)), 0);
        let size = file.bytes.len() as u64;
        Self { file: Box::new(Cursor::new(PackedBytes(Rc::clone(file)))), size, modified }
    }

    /// Gives the first `head` and the last `tail` bytes to the scanner.
    ///
    /// # Errors
    /// As read(2).
    pub(super) fn ends(self, head: u64, tail: u64, scanner: &mut LogScanner<'_>) -> io::Result<Extent> {
        let Self { mut file, size, .. } = self;
        let Some(from) = size.checked_sub(tail).filter(|from| *from > head) else {
            // What is written meanwhile belongs to the next look.
            return Ok(Extent { read: push(&mut file.take(size), scanner)?, left_out: 0 });
        };
        let mut read = push(&mut file.by_ref().take(head), scanner)?;
        scanner.gap();
        // One byte earlier: where that is a newline, the tail begins with a whole line.
        file.seek(SeekFrom::Start(from - 1))?;
        read += push(&mut file.take(tail + 1), scanner)?;
        Ok(Extent { read, left_out: size.saturating_sub(read) })
    }

    /// Gives the last `most` bytes.
    ///
    /// # Errors
    /// As read(2).
    pub(super) fn tail(mut self, most: u64, each: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
        self.file.seek(SeekFrom::Start(self.size.saturating_sub(most)))?;
        feed(&mut self.file.take(most), each)
    }

    /// Whether gzip has compressed it.
    ///
    /// # Errors
    /// As read(2).
    pub(super) fn is_gz(&mut self) -> io::Result<bool> {
        let mut magic = Vec::new();
        self.file.by_ref().take(2).read_to_end(&mut magic)?;
        self.file.rewind()?;
        Ok(magic == [0x1f, 0x8b])
    }

    /// Gives its first `most` bytes, unpacked where they are packed.
    ///
    /// # Errors
    /// As read(2); `InvalidInput` or `InvalidData` for what does not unpack.
    pub(super) fn decoded(mut self, most: u64, each: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
        if self.is_gz()? {
            return feed(&mut MultiGzDecoder::new(self.file).take(most), each);
        }
        feed(&mut self.file.take(most), each)
    }

    /// Unpacks a log that gzip has packed, and gives its first `most` bytes to the scanner. How many more there are
    /// is unknown.
    ///
    /// # Errors
    /// As read(2); `InvalidInput` or `InvalidData` for what does not unpack.
    pub(super) fn unpacked(self, most: u64, scanner: &mut LogScanner<'_>) -> io::Result<Extent> {
        let read = push(&mut MultiGzDecoder::new(self.file).take(most), scanner)?;
        Ok(Extent { read, left_out: 0 })
    }
}

fn push(from: &mut dyn Read, scanner: &mut LogScanner<'_>) -> io::Result<u64> {
    feed(from, &mut |bytes| scanner.push(bytes))
}

fn feed(from: &mut dyn Read, each: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
    let mut buffer = vec![0; CHUNK];
    let mut all = 0;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(all),
            Ok(read) => {
                tally::bytes(read);
                each(&buffer[..read]);
                all += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
