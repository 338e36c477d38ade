// SPDX-License-Identifier: Apache-2.0
//! The pods that kubelet has on this node, by its own directories and those of their logs.

use crate::ready::observation::Unreadable;
use crate::survey::process::Environment;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Where the operators' own documents, charts and catalogs install them, and whether others live there too.
const NAMESPACES: [(&str, bool); 13] = [
    ("gpu-operator", false),
    ("nvidia-gpu-operator", false),
    ("gpu-operator-resources", false),
    ("network-operator", false),
    ("nvidia-network-operator", false),
    ("nvidia-network-operator-resources", false),
    ("sriov-network-operator", false),
    ("openshift-sriov-network-operator", false),
    ("nvidia-device-plugin", false),
    ("nvidia-dra-driver-gpu", false),
    // The catalogs of operators, with and without OpenShift.
    ("openshift-operators", true),
    ("operators", true),
    // The device plugin's manifest, and the drivers of some clouds.
    ("kube-system", true),
];

/// Whether this is an operator's namespace by default. No ordinary user makes pods there.
#[must_use]
pub fn is_of_an_operator(namespace: &str) -> bool {
    NAMESPACES.iter().any(|(name, _)| *name == namespace)
}

/// Whether this is one of those where others live too.
#[must_use]
pub fn is_shared(namespace: &str) -> bool {
    NAMESPACES.contains(&(namespace, true))
}

/// A pod, as far as the node knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its UID.
    pub uid: String,
    /// Its namespace and its name, where it has logs.
    pub name: Option<(String, String)>,
    /// Its containers.
    pub containers: BTreeSet<String>,
    /// An operator's: by its namespace, or because one of the operator's processes runs in it. Any pod can
    /// choose a container's name.
    pub is_operators: bool,
    /// kubelet has a directory of it: logs may outlive their pod.
    pub is_here: bool,
    /// The build of its containers, where they share a volume for that.
    pub build: Option<Build>,
}

/// The volume shared by nvidia-driver-ctr and openshift-driver-toolkit-ctr (gpu-driver-container,
/// `ocp_dtk_entrypoint`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Build {
    /// The volume.
    pub directory: PathBuf,
    /// kubelet's directory of the pod, as the node itself names it.
    pub pod_directory: PathBuf,
    /// When `driver_build_started` was made, in seconds since 1970.
    pub started: Option<i64>,
    /// When `driver_built` was made.
    pub finished: Option<i64>,
    /// The environment of nvidia-driver-ctr, which it leaves for its driver toolkit.
    pub environment: Option<Environment>,
    /// The nvidia-peermem.ko that was built.
    pub peermem: Option<PathBuf>,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pods {
    /// In the order of their UIDs.
    pub all: Vec<Pod>,
    /// kubelet's directory was read: what is not in it is not on this node.
    pub is_complete: bool,
    /// Sources that could not be read.
    pub unreadable: Vec<Unreadable>,
}

impl Pods {
    /// The operators' pod that has this container; rather one that kubelet still has than one of which only logs are
    /// left.
    #[must_use]
    pub fn with(&self, container: &str) -> Option<&Pod> {
        let mut having = self.operators().filter(|pod| pod.containers.contains(container));
        let first = having.clone().next();
        having.find(|pod| pod.is_here).or(first)
    }

    fn operators(&self) -> impl Iterator<Item = &Pod> + Clone {
        self.all.iter().filter(|pod| pod.is_operators)
    }

    /// By its UID.
    #[must_use]
    pub fn of(&self, uid: &str) -> Option<&Pod> {
        self.all.iter().find(|pod| pod.uid == uid)
    }

    /// Running and finished builds for the driver's containers on this node.
    pub fn builds(&self) -> impl Iterator<Item = (&Pod, &Build)> {
        self.operators().filter_map(|pod| Some((pod, pod.build.as_ref()?)))
    }
}
