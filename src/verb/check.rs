// SPDX-License-Identifier: Apache-2.0
//! `check`: one look, one verdict, no waiting.

use super::looking::{ONE_LOOK, Outcome, say_briefly, signals, style, supervised};
use super::{Start, Stop, expected, window};
use crate::act::supervisor::{Hung, Terms};
use crate::act::{self, log};
use crate::cli::{AnswerFormat, CheckArgs, LogArgs};
use crate::clock;
use crate::ending::Ending;
use crate::judge::{judge, next_build};
use crate::keep::status::Stored;
use crate::node::{Node, PeermemExpected};
use crate::probe::{self, Depth, Probe};
use crate::report::style::Style;
use crate::report::{Doubt, Report};
use crate::verdict;
use crate::wake::Signals;
use anyhow::Context;
use std::path::Path;

/// Looks once and prints the report; or judges by what `keep` left.
pub(super) fn run(args: &CheckArgs, start: &Start) -> Result<Ending, Stop> {
    one_look(&args.log, args.format, start, |style| look(args, style, start))
}

/// Runs a verb that looks once and answers. If the look hangs, the answer says so.
pub(super) fn one_look(
    log: &LogArgs,
    format: AnswerFormat,
    start: &Start,
    look: impl FnOnce(Style) -> Result<Ending, Stop>,
) -> Result<Ending, Stop> {
    let signals = signals()?;
    log::start(log);
    let terms = Terms { signals: &signals, limit: Some(ONE_LOOK), keeps_stdout: false };
    let style = style(start);
    match supervised(terms, start, |_| look(style))? {
        Outcome::Ended(ending) => Ok(ending),
        Outcome::Hung(hung) => hangs(&hung, format, style, &signals),
    }
}

fn look(args: &CheckArgs, style: Style, start: &Start) -> Result<Ending, Stop> {
    let asked = args.look.root.as_deref();
    if let Some(path) = &args.status_file {
        let node = Node::new(&args.node, &window::asked(asked, &args.node)?, None, start.variables)?;
        return by_status(path, args.format, style, &node);
    }
    let root = window::on_host(asked, &args.node)?;
    let peermem = args.look.peermem.then(PeermemExpected::default);
    let node = expected::node(&args.node, &root, peermem, start.variables)?;
    let mut probe = Probe::new(&node);
    let seen = probe.look(Depth::Full, &mut || false).context("the look was interrupted")?;
    let verdict = judge(&node.expected, &seen);
    // Who does not ask for the module file does not ask for its build.
    let next_build = next_build(&node.expected, &seen).filter(|_| args.look.peermem);
    let report = Report::new(&node, &seen.kernel, &verdict, clock::wall()).with_next_build(next_build);
    let text = match args.format {
        AnswerFormat::Text => report.text(style),
        AnswerFormat::Json => report.json().context("cannot write the report")? + "\n",
        AnswerFormat::Line => verdict.headline() + "\n",
    };
    answer(&text, Ending::of_check(verdict.outcome))
}

/// By the status file and its age. An old file says nothing about the present.
fn by_status(path: &Path, format: AnswerFormat, style: Style, node: &Node) -> Result<Ending, Stop> {
    let (text, stored) = match probe::text(path) {
        Ok(text) => {
            let stored = Stored::read(&text).and_then(|stored| {
                let boot_id = probe::boot_id(&node.places.proc);
                stored.outdated(boot_id.as_deref(), clock::now()).map_or(Ok(stored), Err)
            });
            (text, stored)
        }
        Err(why) => (String::new(), Err(why)),
    };
    let outcome = stored.as_ref().map_or(verdict::Outcome::Unknown, Stored::outcome);
    let text = match (stored, format) {
        (Ok(stored), AnswerFormat::Json) => stored.json(&text),
        (Ok(stored), AnswerFormat::Text) => stored.text(style),
        (Ok(stored), AnswerFormat::Line) => stored.headline() + "\n",
        (Err(why), format) => {
            let detail = format!("{}: {why}", path.display());
            unknown(
                format,
                style,
                &Doubt {
                    why: "the status file is missing, stale or unreadable",
                    message: &detail,
                    detail: &detail,
                    remedy: "make sure that `keep --status-file` runs and writes to this path",
                },
            )
        }
    };
    answer(&text, Ending::of_check(outcome))
}

fn hangs(hung: &Hung, format: AnswerFormat, style: Style, signals: &Signals) -> Result<Ending, Stop> {
    if let Some(signal) = hung.signal {
        say_briefly(|| log::exclaim(&hung.sentence()));
        return Ok(Ending::Signal(signal));
    }
    let doubt = Doubt {
        why: "a file system on this node does not answer",
        message: &hung.sentence(),
        detail: &hung.cause(),
        remedy: Hung::REMEDY,
    };
    let text = unknown(format, style, &doubt);
    let signal = act::answer_until_signalled(text.as_bytes(), signals, None)
        .context("cannot write to standard output")?;
    Ok(signal.map_or(Ending::CannotTell, Ending::Signal))
}

fn unknown(format: AnswerFormat, style: Style, doubt: &Doubt<'_>) -> String {
    match format {
        AnswerFormat::Text => doubt.text(style),
        AnswerFormat::Json => doubt.json(),
        AnswerFormat::Line => doubt.headline() + "\n",
    }
}

fn answer(text: &str, ending: Ending) -> Result<Ending, Stop> {
    act::answer(text).context("cannot write to standard output")?;
    Ok(ending)
}
