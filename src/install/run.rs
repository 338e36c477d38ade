// SPDX-License-Identifier: Apache-2.0
//! `install`: puts this program, and the modprobe shim, into a shared volume.

use crate::VERSION;
use crate::cli::{InstallArgs, log};
use crate::install::{Existing, install};
use crate::ready::ending::Ending;
use crate::start::Stop;

/// Installs, and reports what was done.
pub(crate) fn run(args: &InstallArgs) -> Result<Ending, Stop> {
    log::start(&args.log);
    let mut is_changed = false;
    for (path, was) in &install(&args.dir)? {
        let done = match was {
            Existing::Same => "already there",
            Existing::Nothing => "installed",
            Existing::File => "installed, replacing another file",
            Existing::Link => "installed, replacing a link to another file",
        };
        tracing::info!("{done}: {}", path.display());
        is_changed |= *was != Existing::Same;
    }
    let done = if is_changed { "installed and run" } else { "nothing to do" };
    tracing::info!("{done}: peermem-gate {VERSION} is in {}", args.dir.display());
    Ok(Ending::Opened)
}
