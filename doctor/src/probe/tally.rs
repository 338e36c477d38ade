// SPDX-License-Identifier: Apache-2.0
//! How much of logs and bundles is read so far. A listener hears of each read, so a terminal can show it.

use std::io::{self, Read};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

static FILES: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static LISTENER: OnceLock<fn(Tally)> = OnceLock::new();

/// Files and bytes that are read so far.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    /// Files that were opened.
    pub files: u64,
    /// Bytes that were read of them: unpacked ones of a packed log, packed ones of a bundle.
    pub bytes: u64,
}

/// From now on `listener` is called after each read.
pub fn listen(listener: fn(Tally)) {
    let _ = LISTENER.set(listener);
}

/// Counts a file.
pub(super) fn file() {
    FILES.fetch_add(1, Ordering::Relaxed);
}

/// Counts bytes that were read.
pub(super) fn bytes(count: usize) {
    let bytes = BYTES.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
    if let Some(listener) = LISTENER.get() {
        listener(Tally { files: FILES.load(Ordering::Relaxed), bytes });
    }
}

/// A reader whose bytes are counted.
pub struct Counted<R>(R);

impl<R: Read> Counted<R> {
    /// One file more.
    pub fn new(reader: R) -> Self {
        file();
        Self(reader)
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        bytes(read);
        Ok(read)
    }
}
