// SPDX-License-Identifier: Apache-2.0
//! Files from elsewhere may be of several nodes: a timeline is of one.

use super::History;
use crate::symptoms::logs::{ContainerLog, LogFile};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The files are of more than one node, and `--node` is not given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mixed {
    /// These nodes.
    Nodes(BTreeSet<String>),
    /// Two pods that each have this container and ran at the same time, so on two nodes.
    Pods(String, [String; 2]),
    /// The node that was asked for is not among these.
    Absent(BTreeSet<String>),
}

impl fmt::Display for Mixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |nodes: &BTreeSet<String>| nodes.iter().cloned().collect::<Vec<_>>().join(", ");
        match self {
            Self::Nodes(nodes) => {
                write!(f, "the files are of several nodes: choose one with --node: {}", listed(nodes))
            }
            Self::Pods(container, [one, two]) => write!(
                f,
                "{one} and {two} both ran {container} at the same time, so they are of two nodes: name the \
                    files of one"
            ),
            Self::Absent(nodes) if nodes.is_empty() => {
                write!(
                    f,
                    "the files do not say which node a pod is on: omit --node, and name the files of one node"
                )
            }
            Self::Absent(nodes) => write!(f, "the files do not have that node; they have {}", listed(nodes)),
        }
    }
}

/// Leaves only what is known, or may well be, of one node.
///
/// # Errors
/// Where that is not clear.
pub fn only(mut history: History, asked: Option<&str>) -> Result<History, Mixed> {
    let known: BTreeSet<String> =
        containers(&history).filter_map(|(_, log)| history.nodes.get(&log.pod).cloned()).collect();
    let node = match asked {
        Some(node) if known.contains(node) => Some(node.to_owned()),
        Some(_) => return Err(Mixed::Absent(known)),
        None if known.len() > 1 => return Err(Mixed::Nodes(known)),
        None => known.into_iter().next(),
    };
    if let Some(node) = &node {
        let files = &history.logs.files;
        let is_elsewhere = |file: &LogFile| {
            let pod = file.container.as_ref().map(|log| &log.pod);
            pod.and_then(|pod| history.nodes.get(pod)).is_some_and(|of| of != node)
        };
        let elsewhere: BTreeSet<_> = (0..files.len()).filter(|at| is_elsewhere(&files[*at])).collect();
        history.logs.matches.retain(|found| !elsewhere.contains(&found.file));
        history.node.get_or_insert_with(|| node.clone());
    }
    match beside(&history) {
        Some(mixed) => Err(mixed),
        None => Ok(history),
    }
}

/// Logs that say something, with whose they are.
fn containers(history: &History) -> impl Iterator<Item = (usize, &ContainerLog)> {
    let speaking: BTreeSet<_> = history.logs.matches.iter().map(|found| found.file).collect();
    let files = history.logs.files.iter().enumerate().filter(move |(at, _)| speaking.contains(at));
    files.filter_map(|(at, file)| Some((at, file.container.as_ref()?)))
}

/// A `DaemonSet` has one pod at a time on a node.
fn beside(history: &History) -> Option<Mixed> {
    /// By name, one a node.
    const ONCE: [&str; 3] = ["mofed-container", "nvidia-driver-ctr", "k8s-driver-manager"];
    let mut spans: BTreeMap<(&str, &str), (i64, i64)> = BTreeMap::new();
    for found in &history.logs.matches {
        let Some(log) = history.logs.files.get(found.file).and_then(|file| file.container.as_ref()) else {
            continue;
        };
        let Some(at) = found.at.and_then(|at| history.logs.on_wall(at)) else { continue };
        let until = found.until.map_or(at.ns, |until| until.ns);
        if let Some(container) = ONCE.iter().find(|name| **name == log.container && !log.pod.is_empty()) {
            let span = spans.entry((container, &log.pod)).or_insert((at.ns, until));
            *span = (span.0.min(at.ns), span.1.max(until));
        }
    }
    let all: Vec<_> = spans.into_iter().collect();
    let mut pairs =
        all.iter().enumerate().flat_map(|(at, one)| all[at + 1..].iter().map(move |two| (one, two)));
    pairs.find_map(|((one, first), (two, second))| {
        let is_beside = one.0 == two.0 && first.0.max(second.0) < first.1.min(second.1);
        is_beside.then(|| Mixed::Pods(one.0.to_owned(), [one.1.to_owned(), two.1.to_owned()]))
    })
}
