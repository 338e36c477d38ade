// SPDX-License-Identifier: Apache-2.0
//! `check`: one look, one verdict, no waiting.

use crate::act;
use crate::cli::{CheckArgs, Format};
use crate::condition::Outcome;
use crate::config::Node;
use crate::ending::Ending;
use crate::judge::judge;
use crate::keep::status::Stored;
use crate::probe::{self, Depth, Probe};
use crate::report::{Report, SCHEMA};
use crate::wake::now;
use anyhow::Context;
use std::path::Path;
use std::time::SystemTime;

/// Looks once and prints the report; or judges by what `keep` left.
///
/// # Errors
/// When standard output cannot be written.
pub fn run(args: &CheckArgs, node: &Node) -> anyhow::Result<Ending> {
    if let Some(path) = &args.status_file {
        return by_status(path, args.format, node);
    }
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

/// By the status file and its age. Where it says nothing of now, nothing can be told.
fn by_status(path: &Path, format: Format, node: &Node) -> anyhow::Result<Ending> {
    let (text, told) = match probe::text(path) {
        Ok(text) => {
            let told = Stored::read(&text).and_then(|stored| {
                let boot_id = probe::boot_id(&node.places.proc);
                stored.outdated(boot_id.as_deref(), now()).map_or(Ok(stored), Err)
            });
            (text, told)
        }
        Err(why) => (String::new(), Err(why)),
    };
    let (outcome, answer) = match (told, format) {
        (Ok(stored), Format::Json) => (stored.outcome(), stored.json(&text)),
        (Ok(stored), Format::Text) => (stored.outcome(), stored.text()),
        (Err(why), format) => {
            let answer = match format {
                Format::Text => {
                    format!(
                        "Unknown: the status file does not tell\n{}: {why}\n\
                         what to do: see that `keep --status-file` runs, and writes to this path\n",
                        path.display()
                    )
                }
                Format::Json => {
                    serde_json::json!({
                        "schema": SCHEMA, "verdict": Outcome::Unknown, "conditions": [],
                        "message": format!("{}: {why}", path.display()),
                    })
                    .to_string()
                        + "\n"
                }
            };
            (Outcome::Unknown, answer)
        }
    };
    act::answer(&answer).context("cannot write to standard output")?;
    Ok(Ending::of_check(outcome))
}
