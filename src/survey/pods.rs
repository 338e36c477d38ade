// SPDX-License-Identifier: Apache-2.0
//! kubelet's own directories: the pods that it has, and what the driver's containers share in one of their volumes.

use crate::ready::files::read;
use crate::ready::files::read::{unreadable, whole};
use crate::ready::files::root::resolve;
use crate::ready::node::below;
use crate::ready::sort;
use crate::survey::pod::{Build, Pod, Pods, is_of_an_operator};
use crate::survey::process::{Environment, Processes, Role, VARIABLES};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The default of kubelet's `--root-dir`.
const KUBELET: &str = "/var/lib/kubelet";
/// The volume shared by the driver's container and its driver toolkit on `OpenShift`.
const SHARED: &str = "volumes/kubernetes.io~empty-dir/shared-nvidia-driver-toolkit";
/// kubelet's logs.
const LOGS: &str = "/var/log/pods";
/// kubelet has 110 unless configured otherwise.
const PODS: usize = 5000;
const NAMES: usize = 1000;
/// Directories and files below a volume that are looked through for a module.
const ENTRIES: usize = 20_000;
const PEERMEM: &str = "nvidia-peermem.ko";
const ENVIRONMENT: u64 = 256 * 1024;

/// Every pod that kubelet has.
#[must_use]
pub fn read(root: &Path, processes: &Processes) -> Pods {
    let directory = below(root, &kubelet(processes).join("pods"));
    let uids = resolve(root, &directory).and_then(|real| read::entries(&real, PODS));
    match uids {
        Ok(uids) => {
            let mut names: Vec<_> =
                uids.into_iter().filter_map(|entry| entry.file_name().into_string().ok()).collect();
            sort::sort(&mut names);
            let logged = logged(root);
            let has_process = |uid: &str| {
                let mut privileged = processes.all().filter(|process| process.role.is_privileged());
                privileged.any(|process| process.pod.as_deref() == Some(uid))
            };
            let pod = |uid: String| {
                let name = logged.get(&uid).cloned();
                let is_operators = is_operators(&logged, &uid) || has_process(&uid);
                Pod { name, is_operators, ..pod(root, &directory.join(&uid), uid) }
            };
            let pods = names.into_iter().map(pod).collect();
            Pods { all: pods, is_complete: true, unreadable: Vec::new() }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Pods::default(),
        Err(error) => Pods { unreadable: vec![unreadable(&directory, &error)], ..Pods::default() },
    }
}

/// Namespaces and names of pods by their UIDs, from the directories of their logs (`NAMESPACE_NAME_UID`).
fn logged(root: &Path) -> BTreeMap<String, (String, String)> {
    let directory = below(root, Path::new(LOGS));
    let mut logged = BTreeMap::new();
    for name in names_within(root, &directory, PODS) {
        if let [namespace, pod, uid] = name.split('_').collect::<Vec<_>>()[..] {
            logged.insert(uid.to_owned(), (namespace.to_owned(), pod.to_owned()));
        }
    }
    logged
}

/// Whether the pod's namespace is an operator's. kubelet makes a directory for logs before a container starts. The
/// namespace of a pod without one, which was evicted, is unknown, and so is nobody's.
fn is_operators(logged: &BTreeMap<String, (String, String)>, uid: &str) -> bool {
    logged.get(uid).is_some_and(|(namespace, _)| is_of_an_operator(namespace))
}

/// Builds for driver containers of the operator's namespaces, only below kubelet's usual directory.
#[must_use]
pub fn built(root: &Path) -> Vec<Build> {
    let directory = below(root, Path::new(KUBELET)).join("pods");
    let uids = names_within(root, &directory, PODS);
    let logged = if uids.is_empty() { BTreeMap::new() } else { logged(root) };
    let uids = uids.into_iter().filter(|uid| is_operators(&logged, uid));
    uids.filter_map(|uid| build(root, directory.join(uid).join(SHARED))).collect()
}

fn kubelet(processes: &Processes) -> PathBuf {
    let option = processes.of(Role::Kubelet).find_map(|kubelet| kubelet.option(&["--root-dir"]));
    option.map_or_else(|| KUBELET.into(), PathBuf::from)
}

fn pod(root: &Path, directory: &Path, uid: String) -> Pod {
    let containers = names_within(root, &directory.join("containers"), NAMES).into_iter().collect();
    let build = build(root, directory.join(SHARED));
    Pod { uid, name: None, is_operators: false, containers, is_here: true, build }
}

fn names_within(root: &Path, directory: &Path, limit: usize) -> Vec<String> {
    let entries = resolve(root, directory).and_then(|real| read::entries(&real, limit));
    entries.unwrap_or_default().into_iter().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn build(root: &Path, directory: PathBuf) -> Option<Build> {
    let real = resolve(root, &directory).ok()?;
    read::stat(&real).ok().filter(std::fs::Metadata::is_dir)?;
    let written = |name: &str| read::lstat(&real.join(name)).ok().map(|metadata| metadata.mtime());
    Some(Build {
        started: written("driver_build_started"),
        finished: written("driver_built"),
        environment: environment(&real.join("env")),
        peermem: find(&directory, &real.join("modules")),
        pod_directory: pod_directory(root, &directory),
        directory,
    })
}

/// The volume is `pods/UID/volumes/PLUGIN/NAME`.
fn pod_directory(root: &Path, volume: &Path) -> PathBuf {
    let pod = volume.ancestors().nth(3).unwrap_or(volume);
    Path::new("/").join(pod.strip_prefix(root).unwrap_or(pod))
}

/// `NAME="VALUE"`, as the driver's script writes it. A link may lead out of the volume.
fn environment(path: &Path) -> Option<Environment> {
    read::lstat(path).ok().filter(std::fs::Metadata::is_file)?;
    let text = whole(path, ENVIRONMENT).ok()?;
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let ours = pairs.filter(|(name, _)| VARIABLES.contains(name));
    Some(ours.map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned())).collect())
}

/// Links are not followed: they may lead out of the volume.
fn find(shared: &Path, modules: &Path) -> Option<PathBuf> {
    read::lstat(modules).ok().filter(std::fs::Metadata::is_dir)?;
    let mut todo = vec![(modules.to_owned(), shared.join("modules"))];
    let mut left = ENTRIES;
    while let Some((real, shown)) = todo.pop() {
        for entry in read::entries(&real, left).ok()? {
            left = left.saturating_sub(1);
            let name = entry.file_name();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => todo.push((entry.path(), shown.join(&name))),
                Ok(kind) if kind.is_file() && name.to_string_lossy().starts_with(PEERMEM) => {
                    return Some(shown.join(name));
                }
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    const UID: &str = "6f1f2c1e-8f2b-4c11-9d1b-0123456789ab";

    fn node() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let shared = root.path().join("var/lib/kubelet/pods").join(UID).join(SHARED);
        fs::create_dir_all(shared.join("modules")).unwrap();
        fs::write(shared.join("modules/nvidia-peermem.ko"), "").unwrap();
        fs::write(shared.join("env"), "DRIVER_CONFIG_DIGEST=\"1\"\n").unwrap();
        fs::create_dir_all(logs(root.path(), "gpu-operator")).unwrap();
        root
    }

    fn logs(root: &Path, namespace: &str) -> PathBuf {
        root.join(format!("var/log/pods/{namespace}_nvidia-driver-x_{UID}"))
    }

    /// kubelet removes the logs of a pod that was evicted, and its volumes may stay.
    #[test]
    fn a_pod_without_logs_is_nobodys() {
        let root = node();
        let judged = || {
            let pods = read(root.path(), &Processes(Ok(Vec::new()))).all;
            (built(root.path()).len(), pods[0].is_operators)
        };
        assert_eq!(judged(), (1, true));
        fs::rename(logs(root.path(), "gpu-operator"), logs(root.path(), "team")).unwrap();
        assert_eq!(judged(), (0, false), "another namespace");
        fs::remove_dir(logs(root.path(), "team")).unwrap();
        assert_eq!(judged(), (0, false), "no logs");
    }

    #[test]
    fn no_link_leads_out_of_a_volume() {
        let root = node();
        let shared = root.path().join("var/lib/kubelet/pods").join(UID).join(SHARED);
        let found = || built(root.path()).remove(0);
        assert!(found().peermem.is_some() && found().environment.is_some());
        for name in ["modules", "env"] {
            fs::rename(shared.join(name), root.path().join(name)).unwrap();
            symlink(root.path().join(name), shared.join(name)).unwrap();
        }
        assert!(found().peermem.is_none() && found().environment.is_none());
    }
}
