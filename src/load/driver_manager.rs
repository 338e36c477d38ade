// SPDX-License-Identifier: Apache-2.0
//! Called as `driver-manager`: runs the image's own k8s-driver-manager, and after `uninstall_driver` waits for MOFED.
//!
//! The GPU Operator's `DaemonSets` run `driver-manager uninstall_driver` as init container before every driver
//! container, found by PATH (k8s-driver-manager 0.12, gpu-operator v25.3 to v26.7). By itself k8s-driver-manager
//! waits only until the marker exists, and in v0.9.0 not at all (k8s-driver-manager#123). It unloads before it waits,
//! and so does this: in the other order MOFED and the driver wait for each other (k8s-driver-manager#7).

use crate::cli::environment::{HOST_MOFED, value_of};
use crate::cli::{LogArgs, WaitArgs, environment, log};
use crate::process::rights;
use crate::process::system_program::{DRIVER_MANAGER, SystemProgram};
use crate::ready::exit::Exit;
use crate::start::{Start, VerbError};
use crate::watch::supervised::signals;
use crate::{VERSION, process, wait};
use anyhow::Context;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The name that this program is called by.
pub const NAME: &str = DRIVER_MANAGER.name;

/// The command that the driver's container comes after.
const UNINSTALL: &str = "uninstall_driver";

/// An argument that no driver-manager knows: the build of an image asks by it which program its PATH finds.
const QUESTION: &str = "peermem-gate";

/// Where the operator's `DaemonSets` mount the host's root.
const HOST: &str = "/host";

/// Runs the original driver-manager, and then waits if that uninstalled the driver.
///
/// # Errors
/// The original cannot be run, or the wait did not begin.
pub fn run(words: &[OsString], start: &Start) -> Result<Exit, VerbError> {
    let original =
        SystemProgram::find(&DRIVER_MANAGER, Path::new("/"), value_of(start.variables, "PATH"), None)?;
    let arguments = words.get(1..).unwrap_or_default();
    let exec = || Err(original.exec(OsStr::new(NAME), arguments).into());
    if arguments == [QUESTION] {
        return answer(&original);
    }
    if !uninstalls(arguments) {
        return exec();
    }
    if let Some(reason) = environment::disabled(start.variables)? {
        log::start(&LogArgs::default());
        tracing::warn!("driver-manager is called directly: the gate is disabled: {reason}");
        return exec();
    }
    // A variable is refused before driver-manager evicts pods.
    let args = with_hosts_root(environment::wait_args(start.variables)?, start);
    let signals = signals()?;
    log::start(&args.log);
    let (code, signal) = original.pass(arguments, &signals).context("driver-manager cannot be run")?;
    match (code, signal) {
        (0, None) => {}
        // The signal also ends the wait.
        (0, Some(signal)) => return Ok(Exit::Signal(signal)),
        _ => return Ok(Exit::Passed(code)),
    }
    tracing::info!("driver-manager ended with 0: now the gate waits");
    if let Err(error) = rights::give_up() {
        tracing::warn!("cannot give up the container's privileges before the wait: {error}");
    }
    wait::until_ready(&args, start, &signals)
}

/// Whether this call is the one before the driver's container. Options of driver-manager may come before the word.
fn uninstalls(arguments: &[OsString]) -> bool {
    arguments.iter().any(|word| word == UNINSTALL)
}

/// The answer for the build of an image: PATH finds this program, and the original behind it.
fn answer(original: &SystemProgram) -> Result<Exit, VerbError> {
    process::answer(&format!("peermem-gate {VERSION}, in front of {}\n", original.path().display()))?;
    Ok(Exit::Opened)
}

/// A MOFED of the host's has its headers there, and only the host's root shows them.
fn with_hosts_root(mut args: WaitArgs, start: &Start) -> WaitArgs {
    let is_host = value_of(start.variables, HOST_MOFED).is_some_and(|value| value == "true");
    if is_host && args.look.root.is_none() && Path::new(HOST).join("proc/modules").exists() {
        args.look.root = Some(HOST.into());
    }
    args
}
