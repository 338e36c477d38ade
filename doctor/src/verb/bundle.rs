// SPDX-License-Identifier: Apache-2.0
//! `doctor BUNDLE`: the causes on each node, from gathered files.

use crate::bundle::{self, BundleNode, UNKNOWN_NODE};
use crate::cli::DoctorArgs;
use crate::diagnose::{diagnose_reliable, links};
use crate::gathered::Bundle;
use crate::probe::{self, stdin};
use crate::report::bundle::BundleReport;
use crate::timeline::DoctorAnswer;
use crate::verb::{JudgedNode, json, long_read, print};
use peermem_gate::cli::AnswerFormat;
use peermem_gate::cli::environment::{Misuse, Variables};
use peermem_gate::ready::errno;
use peermem_gate::ready::exit::Exit;
use peermem_gate::ready::node::{Node, PeermemExpected};
use peermem_gate::ready::verdict::Outcome;
use peermem_gate::start::{Start, VerbError};
use peermem_gate::survey::settings::completed;
use peermem_gate::watch::supervised::style;
use peermem_gate::words::judge;
use peermem_gate::words::report::style::Style;
use std::path::Path;

/// Reads the bundle and reports each node of it.
pub(super) fn run(path: &Path, args: &DoctorArgs, start: &Start) -> Result<Exit, VerbError> {
    let style = style(start);
    long_read::supervise(&args.log, start, || report(path, args, style))
}

fn report(path: &Path, args: &DoctorArgs, style: Style) -> Result<Exit, VerbError> {
    long_read::begin();
    // A sosreport has some of these directories too.
    let is_there = |name: &str| path.join(name).is_dir();
    if is_there("proc/1") && is_there("sys/module") && !is_there("sos_commands") {
        let root = path.display();
        Err(Misuse::Message(format!("{root} is the root of a node and no bundle: use --root {root}")))?;
    }
    let refused = |why: String| Misuse::Message(format!("cannot read {}: {why}", stdin::shown(path)));
    let bundle = probe::bundle::read(path).map_err(|error| refused(errno::words(&error)))?;
    if bundle.files.is_empty() {
        let more = bundle.left_out.first().map(|why| format!(" ({why})")).unwrap_or_default();
        Err(refused(format!("it has no logs and no output of kubectl{more}")))?;
    }
    let (answer, is_wrong) = answer(&bundle, path, args, style)?;
    print(&answer)?;
    // Some part of a node is never in a bundle, so no bundle shows that all is well.
    Ok(if is_wrong { Exit::NotReady } else { Exit::CannotTell })
}

/// The reports of all nodes of the bundle at `path`, and whether something is wrong on one.
///
/// # Errors
/// Options that contradict each other.
pub fn answer(
    bundle: &Bundle,
    path: &Path,
    args: &DoctorArgs,
    style: Style,
) -> Result<(String, bool), VerbError> {
    let mut answer = String::new();
    let mut is_wrong = false;
    for node in &bundle::nodes(bundle, &args.operators.namespaces) {
        let (text, has_cause) = of_node(node, bundle, path, args, style)?;
        if args.format == AnswerFormat::Text && !answer.is_empty() {
            answer.push('\n');
        }
        answer += &text;
        is_wrong |= has_cause;
    }
    Ok((answer, is_wrong))
}

/// What `doctor` says of that node of the bundle, or of its only one, to `timeline`.
pub(super) fn judged(bundle: &Bundle, node: Option<&str>, args: &DoctorArgs) -> Option<DoctorAnswer> {
    let nodes = bundle::nodes(bundle, &args.operators.namespaces);
    let seen_in = nodes.iter().find(|one| node.is_none_or(|node| one.name == node)).or(nodes.first())?;
    Some(JudgedNode::of(seen_in, args).ok()?.diagnosis(&seen_in.seen, &seen_in.symptoms).judged())
}

impl JudgedNode {
    /// Of a bundle.
    fn of(seen_in: &BundleNode, args: &DoctorArgs) -> Result<Self, VerbError> {
        let BundleNode { seen, symptoms, .. } = seen_in;
        let settings = &symptoms.settings;
        // Our own environment is another machine's.
        let variables = completed(settings, &Variables::new());
        let mut node = Node::new(&args.node, Path::new("/"), Some(PeermemExpected::default()), &variables)?;
        node.expected.node_name = Some(seen_in.name.clone()).filter(|name| name != UNKNOWN_NODE);
        node.expected.contradiction = settings.contradiction();
        node.expected.rdma_not_requested = !settings.is_rdma_used();
        let mut verdict = judge(&node.expected, seen);
        let reliable = |finding| seen_in.reliable(finding);
        let findings = diagnose_reliable(&node.expected, seen, symptoms, &verdict, &reliable);
        let chain = links(&node.expected, seen, symptoms, &verdict);
        if matches!(verdict.outcome, Outcome::Ready | Outcome::NotApplicable) {
            verdict.outcome = Outcome::Unknown;
        }
        Ok(Self { node, verdict, findings, chain })
    }
}

/// The node's report, and whether something is wrong.
fn of_node(
    seen_in: &BundleNode,
    bundle: &Bundle,
    path: &Path,
    args: &DoctorArgs,
    style: Style,
) -> Result<(String, bool), VerbError> {
    let judged = JudgedNode::of(seen_in, args)?;
    let diagnosis = judged.diagnosis(&seen_in.seen, &seen_in.symptoms);
    let path = stdin::shown(path);
    let answer = BundleReport::new(diagnosis, &path, seen_in, bundle);
    let text = match args.format {
        AnswerFormat::Text => answer.text(style, args.verbose),
        AnswerFormat::Line => answer.line() + "\n",
        AnswerFormat::Json => json(&answer)?,
    };
    Ok((text, judged.findings.iter().any(|finding| finding.severity.is_problem())))
}
