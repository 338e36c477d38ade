// SPDX-License-Identifier: Apache-2.0
//! The kernel's log from a moment on: /dev/kmsg gives one record a read, and is never prefixed.

use crate::ready::files::read::{open, unreadable};
use crate::ready::observation::{Seen, Unreadable};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

const KMSG: &str = "/dev/kmsg";
/// A flood of other messages must not keep us here.
const MAX_RECORDS: usize = 5000;
/// The kernel's own limit is below it.
const RECORD: usize = 8192;

/// Stands at the end of the log as it was.
#[derive(Debug)]
pub(super) struct KernelLog(Result<File, Unreadable>);

impl KernelLog {
    /// Remembers this moment.
    #[must_use]
    pub(super) fn from_now() -> Self {
        let path = Path::new(KMSG);
        let file = open(path).and_then(|mut file| file.seek(SeekFrom::End(0)).map(|_| file));
        Self(file.map_err(|error| unreadable(path, &error)))
    }

    /// The lines since then, without time stamps; those that have been overwritten meanwhile are left out.
    pub(super) fn lines(self) -> Seen<Vec<String>> {
        let mut file = self.0?;
        let mut lines = Vec::new();
        let mut record = [0; RECORD];
        for _ in 0..MAX_RECORDS {
            match file.read(&mut record) {
                Ok(0) => break,
                Ok(length) => lines.extend(text(&record[..length])),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // EPIPE: older records are gone; EINTR: nothing was read.
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) => {}
                Err(error) => return Err(unreadable(Path::new(KMSG), &error)),
            }
        }
        Ok(lines)
    }
}

/// `priority,sequence,time,flags;text`, then lines of key and value that begin with a space.
fn text(record: &[u8]) -> Option<String> {
    let record = String::from_utf8_lossy(record);
    let (_, text) = record.split_once(';')?;
    Some(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_kernel_ring_record_is_read() {
        let record = b"4,1234,5678,-;nvidia_peermem: Unknown symbol x (err -2)\n SUBSYSTEM=module\n";
        assert_eq!(text(record).unwrap(), "nvidia_peermem: Unknown symbol x (err -2)");
        assert_eq!(text(b"garbage"), None);
        assert_eq!(text(b"6,1,2,-;").unwrap(), "");
    }
}
