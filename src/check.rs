// SPDX-License-Identifier: Apache-2.0
//! `check`: one look, one verdict, no waiting.

use crate::cli::{AnswerFormat, CheckArgs};
use crate::peermem::look::NodeProbe;
use crate::process;
use crate::ready::clock;
use crate::ready::exit::Exit;
use crate::ready::node::PeermemExpected;
use crate::ready::probe::Depth;
use crate::start::{Start, VerbError};
use crate::survey::settings::settings;
use crate::survey::{expected, root, search};
use crate::watch::Refine;
use crate::watch::one_look::one_look;
use crate::words::report::style::Style;
use crate::words::report::{self, Report};
use crate::words::{judge, next_build};
use anyhow::Context;

/// Looks once and prints the report. `refine` adds to the verdict what the judges do not know.
pub(crate) fn run(args: &CheckArgs, start: &Start, refine: Refine) -> Result<Exit, VerbError> {
    one_look(&args.log, args.format, start, |style| look(args, style, start, refine))
}

fn look(args: &CheckArgs, style: Style, start: &Start, refine: Refine) -> Result<Exit, VerbError> {
    let root = root::on_host(args.look.root.as_deref(), &args.node)?;
    let peermem = args.look.peermem.then(PeermemExpected::default);
    let proc = args.node.proc.clone().unwrap_or_else(|| root.join("proc"));
    let survey = search::survey(&root, &proc);
    let settings = settings(&survey, start.variables);
    let node = expected::described(&args.node, &root, peermem, (&survey, &settings), start.variables)?;
    let mut probe = NodeProbe::new(&node);
    let seen = probe.look(Depth::Full, &mut || false).context("the look was interrupted")?;
    let verdict = refine(&node, &seen, judge(&node.expected, &seen));
    // Without --peermem the next build does not matter either.
    let next_build = next_build(&node.expected, &seen).filter(|_| args.look.peermem);
    let mut report = Report::new(env!("CARGO_PKG_VERSION"), &node, &seen.kernel, &verdict, clock::wall());
    report.next_build = next_build;
    let text = match args.format {
        AnswerFormat::Text => report.text(style),
        AnswerFormat::Json => report.json().context("cannot write the report")? + "\n",
        AnswerFormat::Line => report::headline(&verdict) + "\n",
    };
    answer(&text, Exit::of_check(verdict.outcome))
}

pub(crate) fn answer(text: &str, exit: Exit) -> Result<Exit, VerbError> {
    process::answer(text).context("cannot write to standard output")?;
    Ok(exit)
}
