// SPDX-License-Identifier: Apache-2.0
//! The line that a terminal shows while gigabytes are read.

use crate::probe::tally::{self, Tally};
use crate::text::counted;
use peermem_gate::process::progress;
use std::time::Duration;

/// A bundle of a large cluster, or gigabytes of logs on a slow disk, take minutes.
pub(super) const LONGEST: Duration = Duration::from_secs(15 * 60);

/// From now on the line shows how much is read.
pub(super) fn begin() {
    tally::listen(|tally| progress::show(|spent| line(tally, spent)));
    progress::begin();
}

fn line(tally: Tally, spent: Duration) -> String {
    let files = counted(tally.files, "file");
    format!("reading: {files}, {} MB, {} s", tally.bytes / 1_000_000, spent.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_counts_files_megabytes_and_seconds() {
        let after = Duration::from_millis(12_900);
        assert_eq!(line(Tally { files: 1, bytes: 999_999 }, after), "reading: 1 file, 0 MB, 12 s");
        assert_eq!(
            line(Tally { files: 34, bytes: 1_234_567_890 }, after),
            "reading: 34 files, 1234 MB, 12 s"
        );
    }
}
