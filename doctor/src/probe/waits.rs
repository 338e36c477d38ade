// SPDX-License-Identifier: Apache-2.0
//! The waits of the operators' containers: by the command lines of their processes, and by their logs.

use crate::log::{WaitTarget, awaited};
use crate::symptoms::logs::{LoggedPod, Logs};
use crate::symptoms::waits::{FileWait, Waits};
use peermem_gate::ready::files::read::{metadata, small, whole};
use peermem_gate::ready::node::Places;
use peermem_gate::survey::Survey;
use peermem_gate::survey::pod::{Pod, Pods};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Directories that the operators' containers share with the node under the same name.
const SHARED: [&str; 2] = ["/run/nvidia/", "/run/mellanox/"];
/// So much is read of a command line, whose process may have filled it.
const COMMAND_LINE: u64 = 4 * 1024;
/// The process that keeps a pod's namespaces, and does nothing else.
const PAUSE: &str = "pause";

pub(super) fn read(places: &Places, survey: &Survey, logs: &Logs) -> Waits {
    let mut waits = Waits { files: by_logs(logs), alive: None };
    if survey.processes.hidden().is_none() {
        let booted = survey.clock.boot.as_ref().ok().copied();
        let mut alive = BTreeSet::new();
        for directory in places.proc.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()) {
            let Some(pod) = pod_of(&directory, &survey.pods) else { continue };
            let name = small(&directory.join("comm")).ok().flatten().unwrap_or_default();
            if name != PAUSE {
                alive.insert(pod.uid.clone());
                waits.files.extend(by_command(&directory, pod, booted));
            }
        }
        waits.alive = Some(alive);
    }
    waits.files.retain(|wait| is_missing(&places.root, &wait.path));
    waits.files.sort();
    waits
}

/// The operators' pod whose control group the process is in.
fn pod_of<'p>(directory: &Path, pods: &'p Pods) -> Option<&'p Pod> {
    let is_process = directory.file_name()?.to_str()?.bytes().all(|byte| byte.is_ascii_digit());
    let cgroup = small(&directory.join("cgroup")).ok().flatten().filter(|_| is_process)?.replace('_', "-");
    pods.all.iter().find(|pod| pod.is_operators && !pod.uid.is_empty() && cgroup.contains(&pod.uid))
}

fn by_command(directory: &Path, pod: &Pod, booted: Option<i64>) -> Option<FileWait> {
    let line = whole(&directory.join("cmdline"), COMMAND_LINE).ok()?.replace('\0', " ");
    let Some(WaitTarget::File(path)) = awaited(&line) else { return None };
    Some(FileWait {
        path: shared(&path)?,
        pod: pod.name.clone().unwrap_or_default(),
        container: None,
        source: directory.join("cmdline"),
        words: line.trim().to_owned(),
        since: started(directory, booted),
    })
}

/// In seconds since 1970: the 22nd field of its `stat`, in ticks since the boot (proc(5)).
fn started(directory: &Path, booted: Option<i64>) -> Option<i64> {
    const TICKS: i64 = 100;
    let stat = small(&directory.join("stat")).ok()??;
    let ticks: i64 = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()?;
    booted?.checked_add(ticks / TICKS)
}

fn by_logs(logs: &Logs) -> Vec<FileWait> {
    let of = |pod: &LoggedPod| -> Vec<FileWait> {
        let waits = pod.containers.iter().filter_map(|container| {
            let trouble = container.trouble.as_ref()?;
            let Some(WaitTarget::File(path)) = &trouble.awaits else { return None };
            Some(FileWait {
                path: shared(path)?,
                pod: (pod.namespace.clone(), pod.name.clone()),
                container: Some(container.name.clone()),
                source: trouble.path.clone(),
                words: trouble.line.clone(),
                since: trouble.started,
            })
        });
        waits.collect()
    };
    logs.pods.iter().flat_map(of).collect()
}

fn shared(path: &str) -> Option<PathBuf> {
    SHARED.iter().any(|directory| path.starts_with(directory)).then(|| PathBuf::from(path))
}

/// A file that cannot be looked for is not said to be missing.
fn is_missing(root: &Path, path: &Path) -> bool {
    metadata(root, &root.join(path.strip_prefix("/").unwrap_or(path)))
        .is_err_and(|error| error.kind() == ErrorKind::NotFound)
}
