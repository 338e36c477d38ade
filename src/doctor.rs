// SPDX-License-Identifier: Apache-2.0
//! The verbs of peermem-doctor: found beside this program, then in PATH, and become.

use crate::cli::environment::DOCTORS_VERBS;
use crate::process::exec::{Program, Unrunnable};
use crate::ready::exit::Exit;
use crate::start::VerbError;
use std::ffi::{OsStr, OsString};
use std::path::Path;

const NAME: &str = "peermem-doctor";

/// True when this command line is for peermem-doctor: one of its verbs, or `help` for one.
#[must_use]
pub fn is_called(args: &[OsString]) -> bool {
    called(args).is_some_and(|verb| DOCTORS_VERBS.iter().any(|other| verb == other))
}

/// The verb, also behind `help`.
fn called(args: &[OsString]) -> Option<&OsString> {
    args.iter().skip(1).find(|word| *word != "help")
}

/// Becomes peermem-doctor, with the same arguments and environment. Returns only why that failed.
#[must_use]
pub fn exec(args: &[OsString], path: Option<&OsStr>) -> VerbError {
    let words: Vec<_> = std::iter::once(NAME.into()).chain(args.iter().skip(1).cloned()).collect();
    // Without /proc only the command line names this program.
    let own = std::env::current_exe().ok().or_else(|| args.first().map(Into::into));
    let beside = own.filter(|own| own.is_absolute()).and_then(|own| Some(own.parent()?.join(NAME)));
    let found = match beside.filter(|beside| beside.is_file()) {
        Some(beside) => Program::at(&beside, &words),
        None => Program::find(&words, path),
    };
    match found {
        // The name that was typed: its answers name commands.
        Ok(Some(program)) => VerbError::CannotRun(program.called(args[0].clone()).exec()),
        Ok(None) => VerbError::CannotRun(missing(&words)),
        Err(why) if why.exit == Exit::NotFound => VerbError::CannotRun(missing(&words)),
        Err(why) => VerbError::CannotRun(why),
    }
}

fn missing(words: &[OsString]) -> Unrunnable {
    let verb = called(words).map(|verb| Path::new(verb).display().to_string()).unwrap_or_default();
    Unrunnable {
        exit: Exit::NotFound,
        message: format!(
            "`{verb}` is a verb of {NAME}, which is neither beside this program nor in PATH: install the package \
                {NAME}, or run the image {NAME}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::is_called;
    use std::ffi::OsString;

    #[test]
    fn a_verb_of_the_doctor_and_the_help_for_one_are_the_doctors() {
        let called = |line: &str| is_called(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(called("peermem-gate doctor") && called("peermem-gate help fleet"));
        for line in
            ["peermem-gate", "peermem-gate help", "peermem-gate wait doctor", "peermem-gate help wait"]
        {
            assert!(!called(line), "{line}");
        }
    }
}
