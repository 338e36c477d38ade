// SPDX-License-Identifier: Apache-2.0
//! `paths`: one look, and which way `GPUDirect` RDMA can take.

use crate::cli::PathsArgs;
use crate::paths::{Choice, judge as judge_ways};
use crate::peer_memory::PeerMemory;
use crate::probe::paths;
use crate::report::paths::WaysReport;
use anyhow::Context;
use peermem_gate::act;
use peermem_gate::cli::Format;
use peermem_gate::clock;
use peermem_gate::ending::Ending;
use peermem_gate::judge::judge;
use peermem_gate::judge::settings::{completed, settings};
use peermem_gate::node::{Node, PeermemExpected};
use peermem_gate::probe::{Depth, Probe, survey};
use peermem_gate::report::Report;
use peermem_gate::report::style::Style;
use peermem_gate::verb::one_look::one_look;
use peermem_gate::verb::{Start, Stop, root};

/// Looks, and prints the ways.
pub(super) fn run(args: &PathsArgs, start: &Start) -> Result<Ending, Stop> {
    one_look(&args.log, args.format.into(), start, |style| look(args, style, start))
}

fn look(args: &PathsArgs, style: Style, start: &Start) -> Result<Ending, Stop> {
    let root = root::on_host(args.root.as_deref(), &args.node)?;
    let proc = args.node.proc.clone().unwrap_or_else(|| root.join("proc"));
    // Who provides MOFED decides where its headers and its CRCs are.
    let settings = settings(&survey(&root, &proc), start.variables);
    let variables = completed(&settings, start.variables);
    let node = Node::new(&args.node, &root, Some(PeermemExpected::default()), &variables)?;
    let seen = Probe::new(&node).look(Depth::Full, &mut || false).context("the look was interrupted")?;
    let verdict = judge(&node.expected, &seen);
    let ways = judge_ways(&paths(&node.places), &seen, &verdict);
    let now = clock::wall();
    let report = Report::new(env!("CARGO_PKG_VERSION"), &node, &seen.kernel, &verdict, now);
    let report = WaysReport::new(&report, &ways, PeerMemory::of(&seen), now);
    let text = match args.format {
        Format::Text => report.text(style),
        Format::Json => report.json().context("cannot write the report")? + "\n",
    };
    act::answer(&text).context("cannot write to standard output")?;
    // What is impossible is an answer as well.
    Ok(if ways.way == Choice::Unknown { Ending::CannotTell } else { Ending::Opened })
}
