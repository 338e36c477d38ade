// SPDX-License-Identifier: Apache-2.0
//! `check --status-file`: the verdict by what `keep` left.

use super::status::Stored;
use crate::check::answer;
use crate::cli::{AnswerFormat, CheckArgs};
use crate::ready::exit::Exit;
use crate::ready::node::Node;
use crate::ready::{clock, probe, verdict};
use crate::start::{Start, VerbError};
use crate::survey::root;
use crate::watch::one_look::{one_look, unknown};
use crate::words::report::Doubt;
use crate::words::report::style::Style;
use std::path::Path;

/// Prints the report of the status file, if it speaks of this moment.
pub(crate) fn run(args: &CheckArgs, start: &Start) -> Result<Exit, VerbError> {
    one_look(&args.log, args.format, start, |style| {
        let root = root::asked(args.look.root.as_deref(), &args.node)?;
        let node = Node::new(&args.node, &root, None, start.variables)?;
        let path = args.status_file.as_deref().unwrap_or(Path::new(""));
        by_status(path, args.format, style, &node)
    })
}

/// By the status file and its age. An old file says nothing about the present.
fn by_status(path: &Path, format: AnswerFormat, style: Style, node: &Node) -> Result<Exit, VerbError> {
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
    answer(&text, Exit::of_check(outcome))
}
