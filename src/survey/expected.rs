// SPDX-License-Identifier: Apache-2.0
//! The expectations of one look at a node, the same for every verb that only answers. Values that neither an option
//! nor a variable gives come from the processes and files of the operators, where those can be seen.

use crate::cli::NodeArgs;
use crate::cli::environment::{Misuse, RDMA, Variables, value_of};
use crate::ready::files::read::{entries, small};
use crate::ready::node::{Node, PeermemExpected, Places};
use crate::ready::node_clock::NodeClock;
use crate::ready::probe::{modules, vendor};
use crate::survey::Survey;
use crate::survey::setting::Settings;
use crate::survey::settings::completed;
use std::path::Path;

/// NVIDIA's number as a PCI vendor.
pub const NVIDIA: u16 = 0x10de;
/// Far more than a node has, with all virtual functions.
pub const FUNCTIONS: usize = 20_000;
/// The class of GPUs.
pub const DISPLAY_CONTROLLER: u32 = 0x03;
/// After a boot the operators' containers start within so many seconds: until then, their silence is no answer.
const OPERATORS_START: i64 = 30 * 60;

/// The node as options, variables and the node itself describe it. `settings` are those of the survey.
///
/// # Errors
/// As [`Node::new`].
pub fn described(
    args: &NodeArgs,
    root: &Path,
    peermem: Option<PeermemExpected>,
    (survey, settings): (&Survey, &Settings),
    variables: &Variables,
) -> Result<Node, Misuse> {
    let mut node = Node::new(args, root, peermem, &completed(settings, variables))?;
    // Who would ask for RDMA may not be here yet, and a GPU may not be on the bus.
    let is_settled = !may_have_just_booted(&survey.clock);
    let is_answered = is_settled || settings.operator.is_some() || settings.rdma.is_off();
    let is_without_gpu = has_no_gpu(&node.places);
    let is_unwanted = !settings.is_rdma_used() && is_answered;
    let expected = &mut node.expected;
    expected.node_name = expected.node_name.take().or_else(|| settings.node.clone());
    expected.contradiction = settings.contradiction();
    expected.rdma_not_requested = is_unwanted || is_settled && is_without_gpu;
    if is_unwanted && value_of(variables, RDMA).is_none() {
        expected.rdma_requested = None;
    }
    // A host that does without a container has its nvidia-peermem: no headers are missed.
    expected.precompiled |= settings.precompiled.is_some()
        || settings.host_provides_rdma.is_some() && survey.has_peermem.is_some();
    Ok(node)
}

/// Also where no clock can be read.
fn may_have_just_booted(clock: &NodeClock) -> bool {
    clock.uptime.as_ref().map_or(true, |uptime| *uptime < OPERATORS_START)
}

/// The bus was read, no GPU of NVIDIA's is on it, and nvidia is not loaded.
fn has_no_gpu(places: &Places) -> bool {
    let is_loaded = modules::read_proc(&places.proc.join("modules"))
        .is_ok_and(|proc| proc.named("nvidia").next().is_some());
    let is_other = |directory: &Path| match vendor(&directory.join("vendor")) {
        Ok(NVIDIA) => {
            let class = small(&directory.join("class")).ok().flatten();
            let class = class.and_then(|text| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok());
            class.is_some_and(|class| class >> 16 != DISPLAY_CONTROLLER)
        }
        vendor => vendor.is_ok(),
    };
    let devices = entries(&places.sys.join("bus/pci/devices"), FUNCTIONS);
    !is_loaded && devices.is_ok_and(|all| all.iter().all(|entry| is_other(&entry.path())))
}
