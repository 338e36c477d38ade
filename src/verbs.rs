// SPDX-License-Identifier: Apache-2.0
//! Which verb runs, and what `wait` and `check` get from the rooms that they do not know.

use crate::cli::Verb;
use crate::cli::environment::Invocation;
use crate::ready::exit::Exit;
use crate::rebuild::rebuilder;
use crate::start::{Start, VerbError};
use crate::{check, install, keeper, rebuild, wait};

/// Runs the verb.
///
/// # Errors
/// Why the verb did not begin, or did not finish.
pub fn run(invocation: Invocation, start: &Start) -> Result<Exit, VerbError> {
    let disabled = invocation.disabled.as_deref();
    match invocation.verb {
        Verb::Wait(args) => wait::run(&args, disabled, start),
        Verb::Check(args) if args.status_file.is_some() => keeper::check_status::run(&args, start),
        Verb::Check(args) => check::run(&args, start, rebuilder::knowing_rebuild),
        Verb::Load(args) => keeper::load::run(&args, disabled, start),
        Verb::Keep(args) => keeper::run::run(&args, start),
        Verb::Rebuild(args) => rebuild::run::run(&args, start),
        Verb::Install(args) => install::run(&args),
    }
}
