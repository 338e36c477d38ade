// SPDX-License-Identifier: Apache-2.0
//! One file a verb.

pub mod bundle;
mod doctor;
mod explain;
mod fleet;
mod inspect;
mod long_read;
mod looks;
mod paths;
mod schedule;
mod timeline;

use crate::cli::Verb;
use peermem_gate::ready::exit::Exit;
use peermem_gate::start::{Start, VerbError};

/// Does what was asked for.
///
/// # Errors
/// Why the verb did not begin, or did not finish.
pub fn run(verb: &Verb, start: &Start) -> Result<Exit, VerbError> {
    match verb {
        Verb::Paths(args) => paths::run(args, start),
        Verb::Inspect(args) => inspect::run(args, start),
        Verb::Explain(args) => explain::run(args, start),
        Verb::Fleet(args) => fleet::run(args, start),
        Verb::Doctor(args) => match &args.bundle {
            Some(path) => bundle::run(path, args, start),
            None => doctor::run(args, start),
        },
        Verb::Timeline(args) => timeline::run(args, start),
    }
}
