// SPDX-License-Identifier: Apache-2.0
//! Called as `modprobe`: gates `nvidia-peermem`, and hands everything else to the real modprobe.

use crate::cli::arguments::Load;
use crate::cli::environment::{Variables, value_of};
use crate::cli::{LoadArgs, LogArgs, arguments, environment, log};
use crate::keeper::load::service;
use crate::keeper::run::until_loaded;
use crate::process::WorkerPipe;
use crate::process::exec::Unrunnable;
use crate::process::supervisor::SuperviseOptions;
use crate::process::system_program::{Interruption, MODPROBE, OutputMode, Ran, SystemProgram};
use crate::ready::exit::Exit;
use crate::ready::gate::Policy;
use crate::ready::wake::Signals;
use crate::start::{Start, VerbError};
use crate::watch::supervised::{limit, signals, supervised};
use anyhow::Context;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Reads the call, and gates it or hands it over before anything else is read.
///
/// # Errors
/// Why the gated load did not begin, or why the real modprobe cannot be run.
pub fn run(words: &[OsString], start: &Start) -> Result<Exit, VerbError> {
    let Some(call) = read(words, start.variables) else {
        return Err(hand_over(words, start.variables).into());
    };
    if let Some(reason) = environment::disabled(start.variables)? {
        log::start(&LogArgs::default());
        tracing::warn!("modprobe is called directly: the gate is disabled: {reason}");
        return Err(hand_over(words, start.variables).into());
    }
    let signals = signals()?;
    let asked = load_args(&call, start)?;
    log::start(&asked.log);
    let policy = Policy::of_load(&asked.waiting)?;
    let work = |worker_pipe: &WorkerPipe| gated(&call, &asked, policy.clone(), start, &signals, worker_pipe);
    let terms = SuperviseOptions { keeps_stdout: true, ..SuperviseOptions::new(&signals, limit(&policy)) };
    Ok(supervised(terms, start, work)?.exit(start))
}

/// Reads a call of `modprobe`.
fn read(argv: &[OsString], variables: &Variables) -> Option<Load> {
    let words = argv.get(1..).unwrap_or_default();
    let of = arguments::ModprobeVariables {
        modprobe_options: value_of(variables, "MODPROBE_OPTIONS"),
        posixly_correct: value_of(variables, "POSIXLY_CORRECT").is_some(),
    };
    arguments::read(words, of)
}

/// Becomes the real modprobe, with arguments untouched. Returns only when that failed.
fn hand_over(argv: &[OsString], variables: &Variables) -> Unrunnable {
    let asked = value_of(variables, "PEERMEM_GATE_MODPROBE").map(Path::new);
    let name = argv.first().map_or(OsStr::new("modprobe"), OsString::as_os_str);
    match SystemProgram::find(&MODPROBE, Path::new("/"), value_of(variables, "PATH"), asked) {
        Ok(modprobe) => modprobe.exec(name, argv.get(1..).unwrap_or_default()),
        Err(why) => why,
    }
}

/// The shim has no options: only the environment sets its settings.
fn load_args(call: &arguments::Load, start: &Start) -> Result<LoadArgs, VerbError> {
    let mut args = environment::load_args(start.variables)?;
    // The shim is called in the driver's root; `-d` names another.
    let dirname = call.dirname.as_deref().unwrap_or(Path::new("/"));
    args.node.driver_root = Some(std::path::absolute(dirname).context("-d has no absolute path")?);
    args.parameters.clone_from(&call.parameters);
    Ok(args)
}

/// The other modules first, which need no gate; then `nvidia_peermem` behind the gate.
fn gated(
    call: &arguments::Load,
    args: &LoadArgs,
    policy: Policy,
    start: &Start,
    signals: &Signals,
    worker_pipe: &WorkerPipe,
) -> Result<Exit, VerbError> {
    let path = value_of(start.variables, "PATH");
    let modprobe = SystemProgram::find(&MODPROBE, Path::new("/"), path, args.modprobe.as_deref())?;
    let mut service = service(args, policy, start, (call.peermem.clone(), OutputMode::Passed))?;
    service.require_modprobe(Path::new("/"))?;
    if call.forced {
        tracing::warn!("modprobe's force options are dropped: a module that fits loads without them");
    }
    let others = match &call.others {
        Some(words) => pass(&modprobe, words, signals)?,
        None => Exit::Passed(0),
    };
    if let Exit::Signal(_) = others {
        return Ok(others);
    }
    let own = match until_loaded(&service, signals, worker_pipe) {
        Ok(Some(code)) => Exit::Passed(code),
        // The module is loaded, or the gate does not apply: modprobe itself answers.
        Ok(None) => pass(&modprobe, &call.peermem, signals)?,
        Err(exit) => exit,
    };
    Ok(if own.code() == 0 { others } else { own })
}

fn pass(modprobe: &SystemProgram, words: &[OsString], signals: &Signals) -> Result<Exit, VerbError> {
    let signal = || signals.take_one().map(Interruption::Signal);
    Ok(match modprobe.run(words, OutputMode::Passed, signals.fd(), signal)? {
        Ran { broken_off: Some(Interruption::Signal(signal)), .. } => Exit::Signal(signal),
        ran => Exit::Passed(ran.code),
    })
}
