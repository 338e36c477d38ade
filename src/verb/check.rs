// SPDX-License-Identifier: Apache-2.0
//! `check`: one look, one verdict, no waiting.

use super::looking::{ONE_LOOK, Outcome, refuse_absent, signals, supervised};
use super::{Start, Stop};
use crate::act::supervisor::{Hung, Terms};
use crate::act::{self, log};
use crate::cli::{CheckArgs, Format};
use crate::clock;
use crate::condition;
use crate::ending::Ending;
use crate::judge::judge;
use crate::keep::status::Stored;
use crate::node::{Node, PeermemExpected};
use crate::probe::{self, Depth, Probe};
use crate::report::{self, Report};
use anyhow::Context;
use std::path::Path;

/// Looks once and prints the report; or judges by what `keep` left.
pub(super) fn run(args: &CheckArgs, start: &Start) -> Result<Ending, Stop> {
    let signals = signals()?;
    log::start(&args.log);
    let terms = Terms { signals: &signals, limit: Some(ONE_LOOK), keeps_stdout: false };
    match supervised(terms, start, |_| look(args, start))? {
        Outcome::Ended(ending) => Ok(ending),
        Outcome::Hung(hung) => hangs(&hung, args.format),
    }
}

fn look(args: &CheckArgs, start: &Start) -> Result<Ending, Stop> {
    refuse_absent(&args.look.root)?;
    let peermem = args.look.peermem.then(PeermemExpected::default);
    let node = Node::new(&args.node, &args.look.root, peermem, start.variables)?;
    if let Some(path) = &args.status_file {
        return by_status(path, args.format, &node);
    }
    let mut probe = Probe::new(&node);
    let seen = probe.look(Depth::Full, &mut || false).context("the look was broken off")?;
    let verdict = judge(&node.expected, &seen);
    let report = Report::new(&node, &seen.kernel, &verdict, clock::wall());
    let text = match args.format {
        Format::Text => report.text(),
        Format::Json => report.json().context("cannot write the report")? + "\n",
    };
    answer(&text, Ending::of_check(verdict.outcome))
}

/// By the status file and its age. Where it says nothing of now, nothing can be told.
fn by_status(path: &Path, format: Format, node: &Node) -> Result<Ending, Stop> {
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
    let outcome = stored.as_ref().map_or(condition::Outcome::Unknown, Stored::outcome);
    let text = match (stored, format) {
        (Ok(stored), Format::Json) => stored.json(&text),
        (Ok(stored), Format::Text) => stored.text(),
        (Err(why), Format::Json) => report::unknown_as_json(&format!("{}: {why}", path.display())),
        (Err(why), Format::Text) => report::unknown(
            "the status file is missing, stale or unreadable",
            &format!("{}: {why}", path.display()),
            "make sure that `keep --status-file` runs and writes to this path",
        ),
    };
    answer(&text, Ending::of_check(outcome))
}

pub(super) fn hangs(hung: &Hung, format: Format) -> Result<Ending, Stop> {
    if let Some(signal) = hung.signal {
        log::exclaim(&hung.sentence());
        return Ok(Ending::Signal(signal));
    }
    let text = match format {
        Format::Json => report::unknown_as_json(&hung.sentence()),
        Format::Text => {
            report::unknown("a file system on this node does not answer", &hung.cause(), Hung::REMEDY)
        }
    };
    answer(&text, Ending::CannotTell)
}

fn answer(text: &str, ending: Ending) -> Result<Ending, Stop> {
    act::answer(text).context("cannot write to standard output")?;
    Ok(ending)
}
