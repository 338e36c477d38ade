// SPDX-License-Identifier: Apache-2.0
//! Reads of a node beyond the gate's own look.

pub mod bundle;
mod chain;
mod checkpoint;
mod history;
mod host;
pub mod journal;
pub mod logs;
mod offer;
mod operators;
mod paths;
mod pci;
mod peer_memory;
mod rdma;
pub mod runtime;
pub mod stdin;
mod symptoms;
pub mod symvers;
pub mod tally;
mod waits;

pub use history::{gathered, of_node};
pub use paths::paths;
pub use peer_memory::rdma_users;
pub use symptoms::read as symptoms;

use crate::symptoms::logs::Logs;
use logs::Limits;
use operators::PodOwners;
use peermem_gate::ready::files::read::small;
use peermem_gate::ready::observation::Kernel;
use peermem_gate::ready::probe as gate;
use peermem_gate::survey::{Survey, search};
use std::path::Path;

/// The gate's survey, completed by the operators' logs, and these logs. Other pods are left out. `named` are
/// namespaces of operators.
pub fn survey(root: &Path, proc: &Path, sys: &Path, named: &[String]) -> (Survey, Logs) {
    let is_here = is_this_machine(&gate::kernel::read(proc));
    let survey = search::survey(root, proc);
    let owners = PodOwners::read(root, &survey.processes, named);
    let logs = logs::read(root, proc, is_here.then_some(sys), &Limits::LOOK, &owners.operators);
    let mut pods = logs.name(survey.pods);
    pods.all.retain(|pod| owners.are_operators(&pod.uid));
    for pod in &mut pods.all {
        pod.is_operators = true;
    }
    let processes = survey.processes.counted(|uid| owners.are_operators(uid));
    (Survey { pods, processes, logged: logs.settings(), ..survey }, logs)
}

/// Is the tree that is looked at this machine's own?
fn is_this_machine(kernel: &Kernel) -> bool {
    let boot_id = small(Path::new("/proc/sys/kernel/random/boot_id")).ok().flatten();
    kernel.boot_id.is_some() && kernel.boot_id == boot_id
}
