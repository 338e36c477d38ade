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
use peermem_gate::ready::files::read::{entries, lines, small, unreadable, whole};
use peermem_gate::ready::files::root::resolve;
use peermem_gate::ready::observation::{Kernel, Seen};
use peermem_gate::ready::probe as gate;
use peermem_gate::survey::{Survey, search};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

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

/// That there is none is an answer. The failed read itself is noted where it failed.
fn there<T>(path: &Path, read: io::Result<T>) -> Seen<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// The names in a directory of the node, of at most so many; none where they cannot be listed.
fn listed(root: &Path, directory: &Path, most: usize) -> impl Iterator<Item = String> + use<> {
    let entries = resolve(root, directory).and_then(|real| entries(&real, most)).unwrap_or_default();
    entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok())
}

/// What follows these words in the first line that begins with them.
fn line_after(path: &Path, most: u64, words: &str) -> Option<String> {
    let mut found = None;
    let read = lines(path, most, |line| match line.strip_prefix(words.as_bytes()) {
        Some(rest) => {
            found = Some(String::from_utf8_lossy(rest).trim().to_owned());
            ControlFlow::Break(())
        }
        None => ControlFlow::Continue(()),
    });
    read.ok().and(found)
}

/// The directory with one for each GPU of the driver.
fn gpus(proc: &Path) -> PathBuf {
    proc.join("driver/nvidia/gpus")
}

/// What the driver writes of a GPU: `Model: \t\t NVIDIA H100 80GB HBM3`, `GPU UUID: \t GPU-…`.
fn information(gpu: &Path, key: &str) -> Option<String> {
    /// The driver writes some 500 bytes.
    const MOST: u64 = 4096;
    let text = whole(&gpu.join("information"), MOST).ok()?;
    Some(text.lines().find_map(|line| line.strip_prefix(key))?.trim().to_owned())
}

/// Is the tree that is looked at this machine's own?
fn is_this_machine(kernel: &Kernel) -> bool {
    let boot_id = small(Path::new("/proc/sys/kernel/random/boot_id")).ok().flatten();
    kernel.boot_id.is_some() && kernel.boot_id == boot_id
}
