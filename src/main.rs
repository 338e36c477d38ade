// SPDX-License-Identifier: Apache-2.0
//! The binary: by which name it was called, what was asked of it, and the exit code.
#![deny(unsafe_code)]

use peermem_gate::cli::environment::{self, LastWordsPlace, Variables};
use peermem_gate::keeper::shim;
use peermem_gate::process::address_space;
use peermem_gate::process::system_program::{CHROOT_EXEC, step};
use peermem_gate::process::termination_log::TerminationLog;
use peermem_gate::ready::exit::Exit;
use peermem_gate::rebuild::build;
use peermem_gate::start::{Start, VerbError};
use peermem_gate::words::last_words::LastWords;
use peermem_gate::{doctor, verbs};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

/// With less than this, memory runs out before the first line of the log.
const LEAST_ADDRESS_SPACE: u64 = 4 << 20;

/// The name of the program in whose place this one may be called.
const SHIM: &str = "modprobe";

fn main() -> ExitCode {
    if let Some(limit) = address_space::limit().filter(|limit| *limit < LEAST_ADDRESS_SPACE) {
        // Without the heap, and so without a log.
        eprintln!(
            "error: the limit of the address space (RLIMIT_AS, `ulimit -v`) is {limit} bytes: raise it to \
                {LEAST_ADDRESS_SPACE} at least"
        );
        return Exit::Failed.into();
    }
    let args: Vec<_> = std::env::args_os().collect();
    let name = args.first().and_then(|name| Path::new(name).file_name());
    if name == Some(OsStr::new(CHROOT_EXEC)) {
        return step(&args[1..]).into();
    }
    if name == Some(OsStr::new(build::BUILD_GUARD)) {
        return build::build_guard(&args[1..]).into();
    }
    let variables: Variables = std::env::vars_os().collect();
    let is_shim = name == Some(OsStr::new(SHIM));
    // Another program's options are not ours.
    let options: &[_] = if is_shim { &[] } else { &args };
    let log = match environment::last_words_place(options, &variables) {
        LastWordsPlace::Nowhere => None,
        LastWordsPlace::Usual => TerminationLog::usual(),
        LastWordsPlace::Asked(path) => Some(TerminationLog::at(path)),
    };
    let last_words = LastWords { log };
    end_panics_with(&last_words);
    let start = Start { variables: &variables, last_words: last_words.clone() };
    let exit = if is_shim { shim::run(&args, &start) } else { run(&args, &start) };
    exit.unwrap_or_else(|stop| stop.end(&last_words)).into()
}

fn run(args: &[OsString], start: &Start) -> Result<Exit, VerbError> {
    if doctor::is_called(args) {
        return Err(doctor::exec(args, environment::value_of(start.variables, "PATH")));
    }
    verbs::run(environment::parse(args, start.variables)?, start)
}

/// A panic exits like any failure: with 125, and not the 134 of an abort.
fn end_panics_with(last_words: &LastWords) {
    let last_words = last_words.clone();
    std::panic::set_hook(Box::new(move |panic| {
        let sentence = format!("internal error (a bug in peermem-gate); please report it: {panic}");
        std::process::exit(last_words.report(Exit::Failed, &sentence).code().into());
    }));
}
