// SPDX-License-Identifier: Apache-2.0
//! The roots of the containers of one pod, by the control groups of its processes.

use crate::process::privilege::may_load;
use crate::ready::files::read::small;
use crate::survey::processes::pod;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The roots (`<proc>/PID/root`) of the other containers in the pod of this process, each once. None where the
/// process is in no pod, or where they cannot be entered.
#[must_use]
pub fn others_in_the_pod(proc: &Path, pid: u32) -> Vec<PathBuf> {
    let pod_of = |pid: u32| pod(&small(&proc.join(pid.to_string()).join("cgroup")).ok()??);
    let is_privileged = |pid: u32| may_load(&proc.join(pid.to_string()));
    let Some(wanted) = pod_of(pid).filter(|_| is_privileged(pid)) else { return Vec::new() };
    let root = |pid: u32| proc.join(pid.to_string()).join("root");
    let id = |root: &Path| root.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
    let mut known: BTreeSet<_> =
        [root(pid), proc.join("1/root")].iter().filter_map(|root| id(root)).collect();
    let entries = proc.read_dir().into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let of_the_pod = pids.filter(|pid| pod_of(*pid).as_deref() == Some(&wanted));
    // What a build runs there gets this process's privileges. The toolkit's container is privileged itself.
    let of_the_pod = of_the_pod.filter(|pid| is_privileged(*pid)).map(root);
    of_the_pod.filter(|root| id(root).is_some_and(|id| known.insert(id))).collect()
}
