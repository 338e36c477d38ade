// SPDX-License-Identifier: Apache-2.0
//! The line that a terminal shows while gigabytes are read.

use crate::probe::tally::{self, Tally};
use crate::text::counted;
use peermem_gate::cli::{LogArgs, log};
use peermem_gate::process::progress;
use peermem_gate::process::supervisor::SuperviseOptions;
use peermem_gate::ready::exit::Exit;
use peermem_gate::start::{Start, VerbError};
use peermem_gate::watch::supervised::{log_briefly, signals, supervised};
use std::time::Duration;

/// A bundle of a large cluster, or gigabytes of logs on a slow disk, take minutes.
pub(super) const LONGEST: Duration = Duration::from_secs(15 * 60);

/// Does the work in a process of its own, which may take so long.
pub(super) fn supervise(
    options: &LogArgs,
    start: &Start,
    work: impl FnOnce() -> Result<Exit, VerbError>,
) -> Result<Exit, VerbError> {
    let signals = signals()?;
    log::start(options);
    let terms = SuperviseOptions::new(&signals, Some(LONGEST));
    Ok(supervised(terms, start, |_| work())?.end.unwrap_or_else(|hung| {
        log_briefly(|| log::print_unstamped(&hung.sentence()));
        hung.signal.map_or(Exit::Failed, Exit::Signal)
    }))
}

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
