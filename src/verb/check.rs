// SPDX-License-Identifier: Apache-2.0
//! `check`: one look, one verdict, no waiting.

use crate::act;
use crate::cli::{CheckArgs, Format};
use crate::config::Node;
use crate::ending::Ending;
use crate::judge::judge;
use crate::probe::{Depth, Probe};
use crate::report::Report;
use anyhow::Context;
use std::time::SystemTime;

/// Looks once and prints the report.
///
/// # Errors
/// When standard output cannot be written.
pub fn run(args: &CheckArgs, node: &Node) -> anyhow::Result<Ending> {
    let mut probe = Probe::new(node);
    let seen = probe.look(Depth::Full, &mut || false).context("the look was broken off")?;
    let verdict = judge(&node.expected, &seen);
    let report = Report::new(node.name.as_deref(), &seen.kernel, &verdict, SystemTime::now());
    let text = match args.format {
        Format::Text => report.text(),
        Format::Json => report.json()? + "\n",
    };
    act::answer(&text).context("cannot write to standard output")?;
    Ok(Ending::of_check(verdict.outcome))
}
