// SPDX-License-Identifier: Apache-2.0
//! The expectations of one look at a node. Values that neither an option nor a variable gives come from the
//! processes of the GPU Operator's containers, where those can be seen.

use crate::cli::NodeArgs;
use crate::cli::environment::{Misuse, RDMA, Variables, value_of};
use crate::ready::node::{Node, PeermemExpected};
use crate::survey::search;
use crate::survey::settings::{completed, settings};
use std::path::Path;

/// The node as options, variables and the operator's processes describe it, for a verb that only answers.
///
/// # Errors
/// As [`Node::new`].
pub(crate) fn node(
    args: &NodeArgs,
    root: &Path,
    peermem: Option<PeermemExpected>,
    variables: &Variables,
) -> Result<Node, Misuse> {
    // This variable decides, so the search through the processes is not needed.
    if value_of(variables, RDMA).is_some() {
        return Node::new(args, root, peermem, variables);
    }
    let proc = args.proc.clone().unwrap_or_else(|| root.join("proc"));
    let settings = settings(&search::survey(root, &proc), variables);
    // Without the operator's processes nothing is known: a variable that is not set counts as true.
    if settings.operator.is_none() {
        return Node::new(args, root, peermem, variables);
    }
    let mut node = Node::new(args, root, peermem, &completed(&settings, variables))?;
    node.expected.precompiled |= settings.precompiled.is_some();
    node.expected.contradiction = settings.contradiction();
    if !settings.is_rdma_used() {
        node.expected.rdma_requested = None;
        node.expected.rdma_not_requested = true;
    }
    Ok(node)
}
