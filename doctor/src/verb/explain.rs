// SPDX-License-Identifier: Apache-2.0
//! `explain`: the page of a reason or a finding, on the terminal.

use crate::cli::ExplainArgs;
use anyhow::Context;
use peermem_gate::cli::Format;
use peermem_gate::process;
use peermem_gate::ready::exit::Exit;
use peermem_gate::start::{Start, VerbError};
use peermem_gate::watch::one_look::one_look;

/// Prints the page.
pub(super) fn run(args: &ExplainArgs, start: &Start) -> Result<Exit, VerbError> {
    one_look(&args.log, Format::Text.into(), start, |style| {
        process::answer(&args.topic.page(style.columns)).context("cannot write to standard output")?;
        Ok(Exit::Opened)
    })
}
