// SPDX-License-Identifier: Apache-2.0
//! `install`: puts this program, and the modprobe shim, into a shared volume.

use crate::VERSION;
use crate::act::install::{self, NotInstalled, Was};
use crate::ending::Ending;
use std::path::Path;

/// Installs, and says what there was to do.
///
/// # Errors
/// When DIR is no place for it, or it cannot be done.
pub fn run(dir: &Path) -> Result<Ending, NotInstalled> {
    let installed = install::install(dir)?;
    let mut is_changed = false;
    for (path, was) in &installed {
        let done = match was {
            Was::Same => "already there",
            Was::Nothing => "installed",
            Was::File => "installed in the place of another file",
            Was::Link => "installed in the place of a link that led elsewhere",
        };
        tracing::info!("{done}: {}", path.display());
        is_changed |= *was != Was::Same;
    }
    let done = if is_changed { "installed and run" } else { "nothing to do" };
    tracing::info!("{done}: peermem-gate {VERSION} is in {}", dir.display());
    Ok(Ending::Opened)
}
