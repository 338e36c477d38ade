// SPDX-License-Identifier: Apache-2.0
//! The roll-up of a fleet.

use super::CauseKey;
use crate::report::standing::Standing;
use peermem_gate::ready::exit::Exit;
use serde::Serialize;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A node without a report may be in any state.
pub(super) const NO_REPORT: &str = "NoReport";

/// Waits that are reported.
const SLOWEST: usize = 10;

/// A damaged line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The file, or `standard input`.
    pub source: String,
    /// Which line of it, from 1.
    pub line: usize,
    /// The text before the report, as `kubectl logs --prefix` writes it: the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// The fault.
    pub why: String,
}

/// A root cause, and the nodes that have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RootCause {
    /// What it is.
    #[serde(flatten)]
    pub key: CauseKey,
    /// How many nodes have it.
    pub count: usize,
    /// Which, by name.
    pub nodes: Vec<String>,
    /// The steps with the words of each node, by its name, if they were asked for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub commands: BTreeMap<String, Vec<String>>,
}

/// The nodes of a cause as they are added up.
#[derive(Clone, Debug, Default)]
pub(super) struct NodesOfCause {
    names: Vec<String>,
    commands: BTreeMap<String, Vec<String>>,
}

impl NodesOfCause {
    pub(super) fn push(&mut self, name: &str, commands: &[String]) {
        self.names.push(name.to_owned());
        if !commands.is_empty() {
            self.commands.insert(name.to_owned(), commands.to_vec());
        }
    }
}

/// A node whose readiness chain has stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// The node.
    pub node: String,
    /// The file that is waited for.
    pub file: String,
    /// For how long, at the time of the report.
    pub seconds: i64,
}

/// All of it. Its JSON form is stable (`peermem-gate-fleet/v1`).
#[derive(Clone, Debug, Default, Serialize)]
pub struct Rollup {
    /// Always `peermem-gate-fleet/v1`.
    pub schema: &'static str,
    /// Nodes that have a report.
    pub nodes: usize,
    /// Those that are not ready, or have a finding that is critical or a warning: all whose standing is not `ok`.
    pub not_ready: usize,
    /// Nodes by their standing, which is the first word of `doctor`.
    pub standings: BTreeMap<Standing, usize>,
    /// Nodes by the gate's verdict.
    pub verdicts: BTreeMap<String, usize>,
    /// Root causes, worst first, then those of most nodes.
    pub causes: Vec<RootCause>,
    /// Versions that differ between nodes: nodes by value.
    pub versions: BTreeMap<String, BTreeMap<String, usize>>,
    /// The longest waits.
    pub slowest: Vec<Wait>,
    /// Nodes that wait too, and are not among these.
    #[serde(skip)]
    pub more_waits: usize,
    /// Nodes with a GPU that should have reported and did not, where the cluster's nodes are known.
    pub without_report: usize,
    /// The cluster's nodes and pods show something wrong.
    #[serde(skip)]
    pub is_cluster_wrong: bool,
    /// Reports that were read.
    pub reports: usize,
    /// Of these, those in whose place a newer one of the same node counts.
    pub superseded: usize,
    /// Lines without an object in them: logs of something else.
    pub other_lines: usize,
    /// Lines that should have been reports.
    pub damaged: usize,
    /// The first of them.
    pub damages: Vec<Damage>,
}

impl Rollup {
    /// The same, with more causes.
    pub(super) fn with(mut self, causes: Vec<RootCause>) -> Self {
        let silent = causes.iter().filter(|cause| cause.key.id == NO_REPORT).map(|cause| cause.count);
        self.without_report = silent.sum();
        self.is_cluster_wrong = causes.iter().any(|cause| rank(&cause.key.severity) < rank("unknown"));
        self.causes.extend(causes);
        sort(&mut self.causes);
        self
    }

    /// 1 when any node is not ready; 2 when that is unknown for some: a damaged line may be a node's, and a node
    /// without a report may be in any state.
    pub fn exit(&self) -> Exit {
        match self {
            Self { not_ready: 1.., .. } | Self { is_cluster_wrong: true, .. } => Exit::NotReady,
            Self { nodes: 0, .. } | Self { damaged: 1.., .. } | Self { without_report: 1.., .. } => {
                Exit::CannotTell
            }
            _ => Exit::Opened,
        }
    }
}

pub(super) fn causes(keys: Vec<Rc<CauseKey>>, nodes: Vec<NodesOfCause>) -> Vec<RootCause> {
    let cause = |(key, nodes): (Rc<CauseKey>, NodesOfCause)| RootCause {
        key: CauseKey::clone(&key),
        count: nodes.names.len(),
        nodes: nodes.names,
        commands: nodes.commands,
    };
    // A superseded report may have been the only one with its cause.
    let mut causes: Vec<_> = keys.into_iter().zip(nodes).map(cause).filter(|cause| cause.count > 0).collect();
    sort(&mut causes);
    causes
}

fn sort(causes: &mut [RootCause]) {
    causes.sort_by_key(|cause| (rank(&cause.key.severity), usize::MAX - cause.count, cause.key.id.clone()));
}

fn rank(severity: &str) -> u8 {
    match severity {
        "critical" => 0,
        "warning" => 1,
        "unknown" => 2,
        _ => 3,
    }
}

/// The longest of these waits, and how many are left.
pub(super) fn slowest(mut waits: Vec<Wait>) -> (Vec<Wait>, usize) {
    waits.sort_by(|one, other| other.seconds.cmp(&one.seconds).then_with(|| one.node.cmp(&other.node)));
    let more = waits.len().saturating_sub(SLOWEST);
    waits.truncate(SLOWEST);
    (waits, more)
}
