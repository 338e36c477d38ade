// SPDX-License-Identifier: Apache-2.0
//! Gathered files of a cluster or a node, as the symptoms of each node. Pure: files in, symptoms out.
//!
//! A bundle has a part of what a node shows. All else is unread, never absent: the judges get "not in this bundle" in
//! its place, and evidence that rests on no file of the bundle is no evidence ([`BundleNode::believed`]).

mod describe;
mod machine;
mod node;
mod objects;
mod owner;
mod said;
mod scan;
mod sources;
mod unread;

pub use node::BundleNode;

use crate::operators::Operators;
use objects::Objects;
use scan::{NodeFiles, owner_of};
use std::collections::BTreeSet;

/// One file of a bundle, unpacked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleFile {
    /// Its path in the bundle, as evidence names it. Nothing is opened by it.
    pub path: String,
    /// Its beginning, as much as the bound allows.
    pub bytes: Vec<u8>,
    /// When it was written, in seconds since 1970.
    pub modified: Option<i64>,
}

/// All files that were read, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    /// In the order of their paths.
    pub files: Vec<BundleFile>,
    /// Files that were not read, or not to their end, each with the reason.
    pub left_out: Vec<String>,
    /// More of them than are named.
    pub more_left_out: u64,
}

/// More nodes are no bundle's.
const NODES: usize = 10_000;

/// The nodes that the bundle describes, by name. `named` are namespaces of operators.
#[must_use]
pub fn nodes(bundle: &Bundle, named: &[String]) -> Vec<BundleNode> {
    let mut objects = Objects::default();
    for file in &bundle.files {
        if !objects.read(file) {
            describe::read(&mut objects, file);
        }
    }
    let operators = operators(&objects, named);
    objects.divide(|pod| operators.have(&pod.namespace));
    let homes: Vec<_> = bundle.files.iter().filter_map(machine::home).collect();
    let owners: Vec<_> = bundle.files.iter().map(|file| owner_of(file, &objects)).collect();
    let found = names(bundle, &objects);
    let is_alone = found.len() == 1;
    let nodes = found.iter().take(NODES);
    let of = |node: &String| {
        let (objects, operators, homes, owners) = (&objects, &operators, &homes, &owners);
        node::read(NodeFiles { bundle, objects, operators, node, is_alone, homes, owners })
    };
    nodes.map(of).collect()
}

/// Whose words count. A privileged container of an operator's name shows that its namespace is an operator's, as its
/// process does on a node.
fn operators(objects: &Objects, named: &[String]) -> Operators {
    let mut operators = Operators::named(named);
    for pod in &objects.pods {
        if pod.containers.iter().any(|one| one.is_privileged && node::is_driver(&one.name)) {
            operators.live_in(&pod.namespace);
        }
        for resource in &pod.resources {
            operators.has_device(&format!("{}/{}", pod.namespace, pod.name), resource);
        }
    }
    operators
}

/// Nodes of the operators' pods, nodes with devices, and nodes that files are named after. A bundle that names none
/// is of one node.
fn names(bundle: &Bundle, objects: &Objects) -> BTreeSet<String> {
    let of_pods =
        objects.pods.iter().filter(|pod| pod.containers.iter().any(|one| node::is_operand(&one.name)));
    let with_devices = objects.nodes.iter().filter(|node| node.has_devices());
    let of_files = bundle.files.iter().filter_map(machine::node_of);
    let mut names: BTreeSet<String> = of_pods.filter_map(|pod| pod.node.clone()).collect();
    names.extend(with_devices.map(|node| node.name.clone()));
    names.extend(of_files);
    if names.is_empty() {
        // Of several none is more likely than another.
        let only = objects.nodes.first().filter(|_| objects.nodes.len() == 1);
        names.insert(only.map_or_else(|| "unknown".to_owned(), |node| node.name.clone()));
    }
    names
}

/// Whether a file may be evidence: most of a report of sos is not.
#[must_use]
pub fn is_wanted(file: &BundleFile) -> bool {
    const NAMES: [&str; 14] = [
        "log",
        "dmesg",
        "journal",
        "messages",
        "lsmod",
        "lspci",
        "proc/modules",
        "hostname",
        "nvidia-bug-report",
        "kubelet",
        ".txt",
        "driver/nvidia/version",
        "containerd",
        "-ctr",
    ];
    const TEXT: usize = 8 * 1024;
    let is_text = memchr::memchr(0, &file.bytes[..file.bytes.len().min(TEXT)]).is_none();
    let is_named = || NAMES.iter().any(|name| file.path.contains(name));
    let is_described = || file.bytes.starts_with(b"Name:") || file.bytes.starts_with(b"NAMESPACE ");
    is_text && !file.bytes.is_empty() && (is_named() || is_described() || objects::has_objects(&file.bytes))
}
