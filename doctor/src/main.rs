// SPDX-License-Identifier: Apache-2.0
//! The binary: what was asked of it, and the exit code.
#![forbid(unsafe_code)]

use peermem_doctor::{cli, verb};
use peermem_gate::cli::environment::Variables;
use peermem_gate::ready::exit::Exit;
use peermem_gate::start::Start;
use peermem_gate::words::last_words::LastWords;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    let variables: Variables = std::env::vars_os().collect();
    // Its answers go to standard output: it has no termination log.
    let start = Start { variables: &variables, last_words: LastWords::default() };
    std::panic::set_hook(Box::new(|panic| {
        let sentence = format!("internal error (a bug in peermem-doctor); please report it: {panic}");
        std::process::exit(LastWords::default().report(Exit::Failed, &sentence).code().into());
    }));
    let ended = cli::parse(&args, &variables).map_err(Into::into).and_then(|verb| verb::run(&verb, &start));
    ended.unwrap_or_else(|stop| stop.end(&start.last_words)).into()
}
