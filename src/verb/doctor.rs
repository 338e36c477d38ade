// SPDX-License-Identifier: Apache-2.0
//! `doctor`: one look, and all that is wrong.

use crate::act;
use crate::cli::{DoctorArgs, Format};
use crate::config::Node;
use crate::ending::Ending;
use crate::judge::{
    doctor::{diagnose, links},
    judge,
};
use crate::probe::{Depth, Operator, Probe};
use crate::report::Report;
use crate::report::doctor::{Diagnosis, Drivers, Paint};
use anyhow::Context;
use std::io::{IsTerminal, stdout};
use std::time::SystemTime;

/// Looks once, at more than `check` does, and prints what is wrong. `colour` is wanted on a terminal.
///
/// # Errors
/// When standard output cannot be written.
pub fn run(args: &DoctorArgs, node: &Node, operator: &Operator, colour: bool) -> anyhow::Result<Ending> {
    let mut probe = Probe::new(node);
    let seen = probe.look(Depth::Full, &mut || false).context("the look was broken off")?;
    let symptoms = probe.symptoms(&seen, operator);
    let verdict = judge(&node.expected, &seen);
    let name = node.name.as_deref().unwrap_or(&seen.kernel.hostname);
    let findings = diagnose(&node.expected, &seen, &symptoms, &verdict, name);
    let chain = links(&node.expected, &seen, &symptoms, &verdict);
    let report = Report::new(node.name.as_deref(), &seen.kernel, &verdict, SystemTime::now());
    let diagnosis = Diagnosis::new(report, Drivers::of(&seen), &findings, &chain, &symptoms);
    let text = match args.format {
        Format::Text => diagnosis.text(Paint::new(colour && stdout().is_terminal())),
        Format::Json => diagnosis.json()? + "\n",
    };
    act::answer(&text).context("cannot write to standard output")?;
    Ok(Ending::of_doctor(verdict.outcome, &findings))
}
