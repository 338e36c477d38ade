// SPDX-License-Identifier: Apache-2.0
//! One file a verb.

pub mod bundle;
mod doctor;
mod explain;
mod fleet;
mod inspect;
mod long_read;
mod looks;
mod paths;
mod schedule;
mod timeline;

use crate::chain::Link;
use crate::cli::Verb;
use crate::finding::Finding;
use crate::probe::symvers;
use crate::report::doctor::{Diagnosis, Drivers};
use crate::symptoms::Symptoms;
use anyhow::Context;
use peermem_gate::cli::environment::Misuse;
use peermem_gate::process;
use peermem_gate::ready::exit::Exit;
use peermem_gate::ready::node::Node;
use peermem_gate::ready::observation::Observation;
use peermem_gate::ready::verdict::Verdict;
use peermem_gate::ready::{PEER_MEMORY_SYMBOLS, clock};
use peermem_gate::start::{Start, VerbError};
use peermem_gate::text;
use peermem_gate::words::report::Report;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Does what was asked for.
///
/// # Errors
/// Why the verb did not begin, or did not finish.
pub fn run(verb: &Verb, start: &Start) -> Result<Exit, VerbError> {
    match verb {
        Verb::Paths(args) => paths::run(args, start),
        Verb::Inspect(args) => inspect::run(args, start),
        Verb::Explain(args) => explain::run(args, start),
        Verb::Fleet(args) => fleet::run(args, start),
        Verb::Doctor(args) => match &args.bundle {
            Some(path) => bundle::run(path, args, start),
            None => doctor::run(args, start),
        },
        Verb::Timeline(args) => timeline::run(args, start),
    }
}

fn json(answer: &impl Serialize) -> anyhow::Result<String> {
    Ok(text::json(answer).context("cannot write the answer")? + "\n")
}

fn print(answer: &str) -> Result<(), VerbError> {
    Ok(process::answer(answer).context("cannot write to standard output")?)
}

/// The CRCs of `--symvers`. With one that has no peer memory nothing could be compared.
fn symvers_crcs(path: &Path) -> Result<BTreeMap<String, u32>, Misuse> {
    let refused = |why: String| Misuse::Message(format!("--symvers: {why}"));
    let crcs = symvers::crcs(path).map_err(|why| refused(why.to_string()))?;
    let Some(symbol) = PEER_MEMORY_SYMBOLS.into_iter().find(|symbol| !crcs.contains_key(*symbol)) else {
        return Ok(crcs);
    };
    let why = "give MOFED's, or the one of a kernel that exports it";
    Err(refused(format!("{} does not list {symbol}: {why}", path.display())))
}

/// What is said of a node.
struct JudgedNode {
    node: Node,
    verdict: Verdict,
    findings: Vec<Finding>,
    chain: Vec<Link>,
}

impl JudgedNode {
    fn diagnosis<'a>(&'a self, seen: &'a Observation, symptoms: &'a Symptoms) -> Diagnosis<'a> {
        let Self { node, verdict, findings, chain } = self;
        let report = Report::new(env!("CARGO_PKG_VERSION"), node, &seen.kernel, verdict, clock::wall());
        Diagnosis::new(report, Drivers::of(seen), findings, chain, symptoms)
    }
}
