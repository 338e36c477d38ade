// SPDX-License-Identifier: Apache-2.0
//! The Prometheus textfile: written beside itself and renamed, so that a collector never reads half.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Replaces the file at `path`.
///
/// # Errors
/// As open(2), write(2) and rename(2).
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    super::may_be_written(path)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    // The collector takes *.prom alone.
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = File::create(&temporary).and_then(|mut file| file.write_all(text.as_bytes()));
    written.and_then(|()| std::fs::rename(&temporary, path)).inspect_err(|_| {
        let _ = std::fs::remove_file(&temporary);
    })
}
