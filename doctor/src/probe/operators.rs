// SPDX-License-Identifier: Apache-2.0
//! Which namespaces of the node are an operator's, and which pods have devices: by its processes, by the names of the
//! directories of logs, and by kubelet's own list.

use super::checkpoint::DeviceLists;
use super::logs::pod_directories;
use crate::operators::Operators;
use crate::record::place;
use peermem_gate::survey::process::{Process, Processes, Role};
use std::collections::BTreeSet;
use std::path::Path;

/// Whose the pods of a node are.
#[derive(Debug)]
pub(super) struct PodOwners {
    pub(super) operators: Operators,
    /// The UIDs of pods with a privileged process of an operator.
    homes: BTreeSet<String>,
    /// The UIDs of pods in other namespaces.
    others: BTreeSet<String>,
    /// Some pod has a directory of logs.
    has_logs: bool,
}

impl PodOwners {
    /// By what the node shows, and by `--operator-namespace`.
    pub(super) fn read(root: &Path, processes: &Processes, named: &[String]) -> Self {
        let mut operators = Operators::named(named);
        let homes: BTreeSet<_> = processes.all().filter_map(home).map(str::to_owned).collect();
        let entries = DeviceLists::read(root).into_entries();
        for entry in &entries {
            operators.has_device(&entry.pod, &entry.resource);
        }
        let directories = pod_directories(root).unwrap_or_default();
        let pods = || directories.iter().filter_map(|directory| place::pod(directory));
        for (namespace, pod, uid) in pods() {
            if homes.contains(uid) {
                operators.live_in(namespace);
            }
            for entry in entries.iter().filter(|entry| entry.pod == uid) {
                operators.has_device(&format!("{namespace}/{pod}"), &entry.resource);
            }
        }
        let untrusted = pods().filter(|(namespace, ..)| !operators.have(namespace));
        let others = untrusted.map(|(_, _, uid)| uid.to_owned()).collect();
        Self { homes, others, has_logs: pods().next().is_some(), operators }
    }

    /// Whether the words of the pod with this UID count. kubelet makes the directory of a pod's logs before anything
    /// runs in it, so one without has no author's words, unless all logs are elsewhere.
    pub(super) fn are_operators(&self, uid: &str) -> bool {
        self.homes.contains(uid) || self.has_logs && !self.others.contains(uid)
    }
}

/// The UID of the pod of an operator's process, which has its role only with that role's capabilities.
fn home(process: &Process) -> Option<&str> {
    let is_operators = matches!(
        process.role,
        Role::Mofed
            | Role::MofedToolkit
            | Role::DriverManager
            | Role::Driver
            | Role::DriverToolkit
            | Role::Peermem
            | Role::Validator
            | Role::Toolkit
    );
    process.pod.as_deref().filter(|_| is_operators)
}
