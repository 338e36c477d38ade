// SPDX-License-Identifier: Apache-2.0
//! `paths`: one look, and which way `GPUDirect` RDMA can take.

use crate::cli::PathsArgs;
use crate::paths::{Choice, judge as judge_ways};
use crate::peer_memory::PeerMemory;
use crate::probe::paths;
use crate::report::paths::WaysReport;
use crate::verb::{json, print};
use anyhow::Context;
use peermem_gate::cli::Format;
use peermem_gate::peermem::look::NodeProbe;
use peermem_gate::ready::clock;
use peermem_gate::ready::exit::Exit;
use peermem_gate::ready::node::{Node, PeermemExpected};
use peermem_gate::ready::probe::Depth;
use peermem_gate::start::{Start, VerbError};
use peermem_gate::survey::root;
use peermem_gate::survey::search::survey;
use peermem_gate::survey::settings::{completed, settings};
use peermem_gate::watch::one_look::one_look;
use peermem_gate::words::judge;
use peermem_gate::words::report::Report;
use peermem_gate::words::report::style::Style;

/// Looks, and prints the ways.
pub(super) fn run(args: &PathsArgs, start: &Start) -> Result<Exit, VerbError> {
    one_look(&args.log, args.format.into(), start, |style| look(args, style, start))
}

fn look(args: &PathsArgs, style: Style, start: &Start) -> Result<Exit, VerbError> {
    let root = root::on_host(args.root.as_deref(), &args.node)?;
    let proc = args.node.proc.clone().unwrap_or_else(|| root.join("proc"));
    // Who provides MOFED decides where its headers and its CRCs are.
    let settings = settings(&survey(&root, &proc), start.variables);
    let variables = completed(&settings, start.variables);
    let node = Node::new(&args.node, &root, Some(PeermemExpected::default()), &variables)?;
    let seen = NodeProbe::new(&node).look(Depth::Full, &mut || false).context("the look was interrupted")?;
    let verdict = judge(&node.expected, &seen);
    let ways = judge_ways(&paths(&node.places), &seen, &verdict);
    let now = clock::wall();
    let report = Report::new(env!("CARGO_PKG_VERSION"), &node, &seen.kernel, &verdict, now);
    let report = WaysReport::new(&report, &ways, PeerMemory::of(&seen), now);
    let text = match args.format {
        Format::Text => report.text(style),
        Format::Json => json(&report)?,
    };
    print(&text)?;
    // What is impossible is an answer as well.
    Ok(if ways.way == Choice::Unknown { Exit::CannotTell } else { Exit::Opened })
}
