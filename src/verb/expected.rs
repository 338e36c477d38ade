// SPDX-License-Identifier: Apache-2.0
//! What one look expects of a node. What neither an option nor a variable says is taken from the processes of the GPU
//! Operator's containers, where they can be seen.

use crate::cli::NodeArgs;
use crate::environment::{Misuse, Variables, value_of};
use crate::judge::wishes::{RDMA, completed, wishes};
use crate::node::{Node, PeermemExpected};
use crate::probe::{self, Breadth};
use std::path::Path;

/// The node as options, variables and the operator's processes describe it.
///
/// # Errors
/// As [`Node::new`].
pub(super) fn node(
    args: &NodeArgs,
    root: &Path,
    peermem: Option<PeermemExpected>,
    variables: &Variables,
) -> Result<Node, Misuse> {
    // Who sets this variable has said what is wanted: the search through the processes is spared.
    if value_of(variables, RDMA).is_some() {
        return Node::new(args, root, peermem, variables);
    }
    let proc = args.proc.clone().unwrap_or_else(|| root.join("proc"));
    let wishes = wishes(&probe::survey(root, &proc, Breadth::Quick), variables);
    // Without the operator its silence says nothing: a variable that is not set counts as true.
    if wishes.operator.is_none() {
        return Node::new(args, root, peermem, variables);
    }
    let mut node = Node::new(args, root, peermem, &completed(&wishes, variables))?;
    node.expected.precompiled |= wishes.precompiled.is_some();
    if !wishes.is_anything_wanted() {
        node.expected.rdma_requested = None;
        node.expected.nobody_asks = true;
    }
    Ok(node)
}
