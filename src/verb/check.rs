// SPDX-License-Identifier: Apache-2.0
//! `check`: one look, one verdict, no waiting.

use super::one_look::{one_look, unknown};
use super::rebuilder::knowing_rebuild;
use super::{Start, Stop, expected, root};
use crate::act;
use crate::cli::{AnswerFormat, CheckArgs};
use crate::clock;
use crate::ending::Ending;
use crate::judge::{judge, next_build};
use crate::keep::status::Stored;
use crate::node::{Node, PeermemExpected};
use crate::probe::{self, Depth, Probe};
use crate::report::style::Style;
use crate::report::{Doubt, Report};
use crate::verdict;
use anyhow::Context;
use std::path::Path;

/// Looks once and prints the report; or judges by what `keep` left.
pub(super) fn run(args: &CheckArgs, start: &Start) -> Result<Ending, Stop> {
    one_look(&args.log, args.format, start, |style| look(args, style, start))
}

fn look(args: &CheckArgs, style: Style, start: &Start) -> Result<Ending, Stop> {
    let asked = args.look.root.as_deref();
    if let Some(path) = &args.status_file {
        let node = Node::new(&args.node, &root::asked(asked, &args.node)?, None, start.variables)?;
        return by_status(path, args.format, style, &node);
    }
    let root = root::on_host(asked, &args.node)?;
    let peermem = args.look.peermem.then(PeermemExpected::default);
    let node = expected::node(&args.node, &root, peermem, start.variables)?;
    let mut probe = Probe::new(&node);
    let seen = probe.look(Depth::Full, &mut || false).context("the look was interrupted")?;
    let verdict = knowing_rebuild(&node, &seen, judge(&node.expected, &seen));
    // Without --peermem the next build does not matter either.
    let next_build = next_build(&node.expected, &seen).filter(|_| args.look.peermem);
    let report = Report::new(env!("CARGO_PKG_VERSION"), &node, &seen.kernel, &verdict, clock::wall())
        .with_next_build(next_build);
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
                    node: node.expected.node_name.as_deref(),
                    kernel: &probe::kernel(&node.places.proc),
                    r#for: &node.expected.consumers,
                    time: clock::wall(),
                },
            )
        }
    };
    answer(&text, Ending::of_check(outcome))
}

fn answer(text: &str, ending: Ending) -> Result<Ending, Stop> {
    act::answer(text).context("cannot write to standard output")?;
    Ok(ending)
}
