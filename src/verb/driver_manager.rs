// SPDX-License-Identifier: Apache-2.0
//! Called as `driver-manager`: runs the image's own k8s-driver-manager, and after `uninstall_driver` waits for MOFED.
//!
//! The GPU Operator's DaemonSets run `driver-manager uninstall_driver` as init container before every driver
//! container, found by PATH (k8s-driver-manager 0.12, gpu-operator v25.3 to v26.7).

use super::looking::signals;
use super::{Start, Stop, wait};
use crate::act::modprobe::{DRIVER_MANAGER, Modprobe};
use crate::act::{log, rights};
use crate::cli::LogArgs;
use crate::ending::Ending;
use crate::environment::{self, value_of};
use anyhow::Context;
use std::ffi::{OsStr, OsString};

/// The name that this program is called by.
pub const NAME: &str = DRIVER_MANAGER;

/// The command that the driver's container comes after.
const UNINSTALL: &str = "uninstall_driver";

/// Runs the original driver-manager, and then waits if that uninstalled the driver.
///
/// # Errors
/// The original cannot be run, or the wait did not begin.
pub fn run(words: &[OsString], start: &Start) -> Result<Ending, Stop> {
    let original = Modprobe::driver_manager(value_of(start.variables, "PATH"))?;
    let arguments = words.get(1..).unwrap_or_default();
    let become_it = || Err(original.become_it(OsStr::new(NAME), arguments).into());
    if !uninstalls(arguments) {
        return become_it();
    }
    if let Some(reason) = environment::disabled(start.variables)? {
        log::start(&LogArgs::default());
        tracing::warn!("driver-manager is called directly: the gate is disabled: {reason}");
        return become_it();
    }
    // A variable that is refused should not cost an eviction.
    let args = environment::wait_args(start.variables)?;
    let signals = signals()?;
    log::start(&args.log);
    let (code, signal) = original.pass(arguments, &signals).context("driver-manager cannot be run")?;
    match (code, signal) {
        (0, None) => {}
        // It ended the wait as well.
        (0, Some(signal)) => return Ok(Ending::Signal(signal)),
        _ => return Ok(Ending::Passed(code)),
    }
    tracing::info!("driver-manager ended with 0: now the gate waits");
    if let Err(error) = rights::give_up() {
        tracing::warn!("cannot give up the container's privileges before the wait: {error}");
    }
    wait::until_ready(&args, start, &signals)
}

/// Whether this call is the one before the driver's container. Its settings come by environment alone.
fn uninstalls(arguments: &[OsString]) -> bool {
    let is_option = |word: &&OsString| word.as_encoded_bytes().starts_with(b"-");
    arguments.iter().find(|word| !is_option(word)).is_some_and(|word| word == UNINSTALL)
}
