// SPDX-License-Identifier: Apache-2.0
//! Daemons of which a node can have one, container engines, and processes that have devices open: whose each is.

use std::path::PathBuf;

/// Things that one process of a node can have, and the programs that take them, on the host and in pods
/// (k8s-dra-driver-gpu, cmd/compute-domain-daemon).
pub const EXCLUSIVE: [(&str, &[&str]); 5] = [
    ("the driver's IMEX session", &["nvidia-imex", "compute-domain-daemon"]),
    ("the NVSwitches", &["nv-fabricmanager"]),
    ("the GPUs' persistence", &["nvidia-persistenced"]),
    ("the port and the counters of DCGM", &["nv-hostengine"]),
    ("the GPUs' MPS", &["nvidia-cuda-mps-control"]),
];
/// Docker's daemon.
pub const DOCKERD: &str = "dockerd";
/// In the name of a container's group that systemd has made: containerd's, Docker's, CRI-O's and podman's.
const SCOPES: [&str; 4] = ["cri-containerd-", "docker-", "crio-", "libpod-"];

/// A process, by its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Daemon {
    /// Its program, without directories.
    pub program: String,
    /// Its directory below `<proc>`.
    pub directory: PathBuf,
    /// When it was started, in seconds since 1970.
    pub started: Option<i64>,
    /// Its control groups, as `/proc` has them.
    pub groups: String,
    /// It has a GPU open.
    pub has_gpu: bool,
}

impl Daemon {
    /// The service of the system's own service manager that it is of.
    pub fn unit(&self) -> Option<&str> {
        let path = self.groups.lines().find_map(|line| Some(line.split_once(":/system.slice/")?.1))?;
        path.split('/').next().filter(|unit| unit.ends_with(".service"))
    }

    /// A user's own service manager has started it: a rootless engine.
    pub fn is_users(&self) -> bool {
        self.groups.contains("/user.slice/")
    }

    /// systemd has the rules of its container's devices.
    pub fn is_in_scope(&self) -> bool {
        self.groups.contains(".scope") && SCOPES.iter().any(|scope| self.groups.contains(scope))
    }
}
