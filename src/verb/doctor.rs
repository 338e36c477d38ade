// SPDX-License-Identifier: Apache-2.0
//! `doctor`: one look, and all that is wrong.

use super::check::one_look;
use super::heal;
use super::{Start, Stop, window};
use crate::act;
use crate::cli::{DoctorArgs, Format};
use crate::clock;
use crate::ending::Ending;
use crate::judge::wishes::{completed, wishes};
use crate::judge::{
    doctor::{diagnose, links},
    judge,
};
use crate::node::{Node, PeermemExpected};
use crate::probe::{self, Breadth, Depth, Probe};
use crate::rebuild::is_all_that_is_missing;
use crate::report::Report;
use crate::report::doctor::{Diagnosis, Drivers};
use crate::report::style::Style;
use anyhow::Context;

/// Looks once, at more than `check` does, and prints what is wrong.
pub(super) fn run(args: &DoctorArgs, start: &Start) -> Result<Ending, Stop> {
    one_look(&args.log, args.format.into(), start, |style| look(args, style, start))
}

fn look(args: &DoctorArgs, style: Style, start: &Start) -> Result<Ending, Stop> {
    let root = window::on_host(args.root.as_deref(), &args.node)?;
    let proc = args.node.proc.clone().unwrap_or_else(|| root.join("proc"));
    // A debug pod lacks the operator's variables: only the operator's containers have them.
    let survey = probe::survey(&root, &proc, Breadth::WithLogs);
    let wishes = wishes(&survey, start.variables);
    let peermem = Some(PeermemExpected::default());
    let mut node = Node::new(&args.node, &root, peermem, &completed(&wishes, start.variables))?;
    node.expected.node_name = node.expected.node_name.or_else(|| wishes.node.clone());
    node.expected.nobody_asks = !wishes.is_anything_wanted() || probe::has_no_gpu(&node.places);
    // A host that does without a container has its nvidia-peermem: no headers are missed.
    node.expected.precompiled |=
        wishes.precompiled.is_some() || wishes.by_itself.is_some() && survey.has_peermem.is_some();
    let mut probe = Probe::new(&node);
    let mut seen = probe.look(Depth::Full, &mut || false).context("the look was interrupted")?;
    probe.look_at_fabric(&mut seen);
    let mut symptoms = probe.symptoms(&seen, survey, wishes);
    let verdict = judge(&node.expected, &seen);
    symptoms.rebuild =
        is_all_that_is_missing(&verdict).then(|| heal::possible(&node.places, &seen, &verdict));
    let findings = diagnose(&node.expected, &seen, &symptoms, &verdict);
    let chain = links(&node.expected, &seen, &symptoms, &verdict);
    let report = Report::new(&node, &seen.kernel, &verdict, clock::wall());
    let diagnosis = Diagnosis::new(report, Drivers::of(&seen), &findings, &chain, &symptoms);
    let text = match args.format {
        Format::Text if args.verbose => diagnosis.text(style),
        Format::Text => diagnosis.screen(style),
        Format::Json => diagnosis.json().context("cannot write the report")? + "\n",
    };
    act::answer(&text).context("cannot write to standard output")?;
    Ok(Ending::of_doctor(verdict.outcome, &findings))
}
