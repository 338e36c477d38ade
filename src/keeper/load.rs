// SPDX-License-Identifier: Apache-2.0
//! `load`: waits until nvidia-peermem will load, loads it with the system's modprobe, and proves it live.

use crate::cli::environment::value_of;
use crate::cli::{LoadArgs, log};
use crate::keeper::run::until_loaded;
use crate::keeper::service::Service;
use crate::peermem::driver_root;
use crate::process::WorkerPipe;
use crate::process::supervisor::SuperviseOptions;
use crate::process::system_program::{Interruption, MODPROBE, OutputMode, Ran, SystemProgram};
use crate::ready::exit::Exit;
use crate::ready::gate::Policy;
use crate::ready::wake::Signals;
use crate::start::{Start, VerbError};
use crate::watch::supervised::{limit, refuse_others, signals, supervised};
use std::ffi::OsString;
use std::path::Path;

/// Loads, and reports the result.
pub(crate) fn run(args: &LoadArgs, disabled: Option<&str>, start: &Start) -> Result<Exit, VerbError> {
    let signals = signals()?;
    log::start(&args.log);
    let policy = Policy::of_load(&args.waiting)?;
    refuse_others("load", &args.node)?;
    let work = |worker_pipe: &WorkerPipe| {
        let arguments = arguments(args, start);
        if let Some(reason) = disabled {
            return without_a_look(reason, args, &arguments, start, &signals);
        }
        let mut service = service(args, policy.clone(), start, (arguments, OutputMode::Kept))?;
        let root = driver_root::driver_root_now(&service.node.places);
        match service.require_modprobe(&root) {
            Err(why) if policy.dry_run => tracing::warn!("dry run: a load would fail: {}", why.message),
            found => found?,
        }
        Ok(until_loaded(&service, &signals, worker_pipe).map_or_else(|exit| exit, |_| Exit::Opened))
    };
    // Without a look there is no gate, so only modprobe's end ends it.
    let limit = limit(&policy).filter(|_| disabled.is_none());
    let terms = SuperviseOptions { keeps_stdout: true, ..SuperviseOptions::new(&signals, limit) };
    Ok(supervised(terms, start, work)?.exit(start))
}

fn arguments(args: &LoadArgs, start: &Start) -> Vec<OsString> {
    // If the module's own install line runs us, modprobe would run us again.
    let option = is_by_install_line(start).then(|| OsString::from("--ignore-install"));
    let name = OsString::from("nvidia-peermem");
    option.into_iter().chain([name]).chain(args.parameters.iter().cloned()).collect()
}

/// modprobe sets it for the commands of its install lines.
fn is_by_install_line(start: &Start) -> bool {
    value_of(start.variables, "MODPROBE_MODULE").is_some_and(|name| name == "nvidia_peermem")
}

/// The settings of a load with these arguments of modprobe's.
pub(crate) fn service(
    args: &LoadArgs,
    policy: Policy,
    start: &Start,
    call: (Vec<OsString>, OutputMode),
) -> Result<Service, VerbError> {
    let mut service = Service::until_loaded(args, policy, start, call)?;
    // The modprobe that runs us is in the right root.
    service.node.places.finds_driver &= !is_by_install_line(start);
    Ok(service)
}

/// As modprobe would have loaded it without the gate.
fn without_a_look(
    reason: &str,
    args: &LoadArgs,
    arguments: &[OsString],
    start: &Start,
    signals: &Signals,
) -> Result<Exit, VerbError> {
    let root = args.node.driver_root.as_deref().unwrap_or(Path::new("/"));
    let path = value_of(start.variables, "PATH");
    let modprobe = SystemProgram::find(&MODPROBE, root, path, args.modprobe.as_deref());
    if args.waiting.dry_run {
        if let Err(why) = modprobe {
            tracing::warn!("dry run: a load would fail: {}", why.message);
        }
        tracing::warn!("the gate is disabled, and this is a dry run: nothing is loaded");
        return Ok(Exit::Opened);
    }
    tracing::warn!("loading without a look: the gate is disabled: {reason}");
    let ran = modprobe?
        .run(arguments, OutputMode::Passed, signals.fd(), || signals.take_one().map(Interruption::Signal))?;
    Ok(match ran {
        Ran { broken_off: Some(Interruption::Signal(signal)), .. } => Exit::Signal(signal),
        Ran { code: 0, .. } => Exit::Opened,
        ran => {
            let sentence = format!("modprobe ended with {}: {}", ran.code, ran.stderr.trim_end());
            tracing::error!("{sentence}");
            start.last_words.leave(Exit::Blocked, &sentence, None)
        }
    })
}
