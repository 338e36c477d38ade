// SPDX-License-Identifier: Apache-2.0
//! Gathered files of a cluster or a node, as the symptoms of each node. Pure: files in, symptoms out.
//!
//! A bundle has a part of what a node shows. All else is unread, never absent: the judges get "not in this bundle" in
//! its place, and evidence that rests on no file of the bundle is no evidence ([`BundleNode::reliable`]).

mod machine;
mod node;
mod posted;
mod said;
mod scan;
mod sources;
mod unread;

pub use node::BundleNode;

use crate::gathered::objects::{Objects, REFUSAL};
use crate::gathered::{self, Bundle, BundleFile, owner};
use crate::log::failed_build;
use scan::NodeFiles;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// More nodes are no bundle's.
const NODES: usize = 10_000;

/// The name of a bundle's only node, where nothing names it. No command has it.
pub const UNKNOWN_NODE: &str = "unknown";

/// The nodes that the bundle describes, by name. `named` are namespaces of operators.
pub fn nodes(bundle: &Bundle, named: &[String]) -> Vec<BundleNode> {
    let (objects, operators) = gathered::listed(bundle.files.iter().map(Cow::Borrowed), named);
    let homes: Vec<_> = bundle.files.iter().filter_map(machine::home).collect();
    // What a gatherer writes has names; what somebody posts has any.
    let is_posted = bundle.files.len() <= gathered::POSTED;
    let rules = if is_posted { owner::rules_by_container() } else { BTreeMap::new() };
    let owner = |file: &BundleFile| {
        let strange = || failed_build(&file.bytes).is_none() && !gathered::is_list(&file.bytes);
        let named = owner::of_file(file, &objects);
        named.or_else(|| strange().then(|| owner::by_content(file, &rules)).flatten())
    };
    let owners: Vec<_> = bundle.files.iter().map(owner).collect();
    let found = names(bundle, &objects);
    let is_alone = found.len() == 1;
    let nodes = found.iter().take(NODES);
    let of = |node: &String| {
        let (objects, operators, homes, owners) = (&objects, &operators, &homes, &owners);
        node::read(NodeFiles { bundle, objects, operators, node, is_alone, homes, owners })
    };
    nodes.map(of).collect()
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
    // kubelet refuses pods on nodes of which nothing else is here.
    let refusals = objects.events.iter().filter(|event| event.reason == REFUSAL);
    names.extend(refusals.filter_map(|event| event.node.clone()));
    if names.is_empty() {
        names.extend(objects.events.iter().filter_map(|event| event.node.clone()));
    }
    if names.is_empty() {
        // Of several none is more likely than another.
        let only = objects.nodes.first().filter(|_| objects.nodes.len() == 1);
        names.insert(only.map_or_else(|| UNKNOWN_NODE.to_owned(), |node| node.name.clone()));
    }
    names
}
