// SPDX-License-Identifier: Apache-2.0
//! The node's processes that matter here: the operators', the container runtime's, NVIDIA's daemons.

use crate::process::privilege::SYS_MODULE;
use crate::ready::observation::{Seen, Unreadable};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The role of a process on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// kubelet, by itself or in k3s, RKE2 or `MicroK8s`.
    Kubelet,
    /// containerd or CRI-O, the node's own.
    Runtime,
    /// MOFED's container.
    Mofed,
    /// MOFED's driver toolkit, on `OpenShift`.
    MofedToolkit,
    /// k8s-driver-manager, which waits before the driver's container starts.
    DriverManager,
    /// The script of nvidia-driver-ctr.
    Driver,
    /// The GPU driver's toolkit, which builds on `OpenShift`.
    DriverToolkit,
    /// nvidia-peermem-ctr.
    Peermem,
    /// nvidia-operator-validator, and its init containers in other pods.
    Validator,
    /// nvidia-container-toolkit's container.
    Toolkit,
    /// NVIDIA's device plugin.
    DevicePlugin,
    /// The RDMA shared device plugin.
    RdmaDevicePlugin,
    /// NVIDIA's fabric manager.
    FabricManager,
    /// nvidia-persistenced.
    Persistenced,
    /// This program, in a pod.
    Gate,
    /// A compiler or linker, or who calls them.
    Build,
}

/// How a process is known.
#[derive(Debug)]
pub struct ProcessSignature {
    /// The role of a process with this sign.
    pub role: Role,
    /// Its names, of at most 15 bytes as the kernel cuts them.
    pub names: &'static [&'static str],
    /// The end of one of its arguments; empty where any will do.
    pub argument: &'static str,
    /// Whether it runs in a pod; `None` where either will do.
    pub in_pod: Option<bool>,
    /// The operator has put its settings into its environment.
    pub has_settings: bool,
    /// The capabilities without which a process of this name is another's, as a mask.
    pub capabilities: u64,
}

const SYS_ADMIN: u32 = 21;

const fn sign(
    role: Role,
    names: &'static [&'static str],
    argument: &'static str,
    in_pod: Option<bool>,
    has_settings: bool,
) -> ProcessSignature {
    ProcessSignature { role, names, argument, in_pod, has_settings, capabilities: capabilities(role) }
}

/// Who loads modules must be able to, and `keep` needs no more. The others run in privileged containers, or on the
/// host, where a distribution may take module loading from all of them (Talos).
const fn capabilities(role: Role) -> u64 {
    match role {
        Role::Mofed
        | Role::MofedToolkit
        | Role::DriverManager
        | Role::Driver
        | Role::DriverToolkit
        | Role::Peermem => 1 << SYS_ADMIN | 1 << SYS_MODULE,
        Role::Gate => 1 << SYS_MODULE,
        Role::Kubelet
        | Role::Runtime
        | Role::Validator
        | Role::Toolkit
        | Role::RdmaDevicePlugin
        | Role::FabricManager
        | Role::Build => 1 << SYS_ADMIN,
        // NVIDIA's manifest takes all from the one, and the other lays them down on a host.
        Role::DevicePlugin | Role::Persistenced => 0,
    }
}

impl Role {
    /// Whether no ordinary pod has the capabilities without which a process has not this role.
    #[must_use]
    pub fn is_privileged(self) -> bool {
        capabilities(self) != 0
    }
}

/// The first that fits counts. doca-driver-build, k8s-driver-manager, gpu-driver-container, gpu-operator,
/// k8s-device-plugin, k8s-rdma-shared-dev-plugin.
pub const SIGNATURES: &[ProcessSignature] = &[
    sign(Role::Kubelet, &["kubelet", "kubelite", "k3s", "k3s-server", "k3s-agent"], "", Some(false), false),
    // In a pod it is a cluster's within the cluster, and not the node's.
    sign(Role::Runtime, &["containerd", "crio"], "", Some(false), false),
    sign(Role::Mofed, &["entrypoint", "entrypoint.sh"], "/entrypoint", Some(true), true),
    sign(Role::Mofed, &["entrypoint.sh"], "/entrypoint.sh", Some(true), true),
    sign(Role::MofedToolkit, &["dtk_nic_driver_"], "", Some(true), false),
    sign(Role::DriverManager, &["driver-manager", "k8s-driver-mana"], "", Some(true), true),
    sign(Role::Peermem, &["nvidia-driver"], "reload_nvidia_peermem", Some(true), true),
    sign(Role::Driver, &["nvidia-driver"], "", None, true),
    sign(Role::Driver, &["ocp_dtk_entrypo"], "nv-ctr-run-with-dtk", Some(true), true),
    sign(Role::DriverToolkit, &["ocp_dtk_entrypo"], "dtk-build-driver", Some(true), false),
    sign(Role::Validator, &["nvidia-validato"], "", Some(true), true),
    sign(Role::Toolkit, &["nvidia-ctk-inst", "nvidia-toolkit"], "", Some(true), true),
    sign(Role::DevicePlugin, &["nvidia-device-p"], "", None, false),
    sign(Role::RdmaDevicePlugin, &["k8s-rdma-shared"], "", None, false),
    sign(Role::FabricManager, &["nv-fabricmanage"], "", None, false),
    sign(Role::Persistenced, &["nvidia-persiste"], "", None, false),
    sign(Role::Gate, &["peermem-gate"], "", Some(true), true),
    sign(Role::Build, &["make", "cc1", "ld", "nvidia-installe"], "", Some(true), false),
];

/// The operators' variables that matter here. Nothing else is kept of an environment.
pub const VARIABLES: &[&str] = &[
    "GPU_DIRECT_RDMA_ENABLED",
    "USE_HOST_MOFED",
    "NODE_NAME",
    "DRIVER_VERSION",
    "DRIVER_CONFIG_DIGEST",
    "FORCE_REINSTALL",
    "NVIDIA_NIC_DRIVER_VER",
    "UNLOAD_STORAGE_MODULES",
    "UNLOAD_THIRD_PARTY_RDMA_MODULES",
    "CDI_ENABLED",
    "NVIDIA_RUNTIME_NAME",
    "CONTAINERD_RUNTIME_CLASS",
    "ENABLE_NRI_PLUGIN",
    "NO_RUNTIME_CONFIG",
    "RUNTIME_CONFIG",
    "CONTAINERD_CONFIG",
    "RUNTIME_SOCKET",
    "CONTAINERD_SOCKET",
    "RUNTIME_CONFIG_SOURCE",
    "RUNTIME_DROP_IN_CONFIG",
    "RUNTIME_EXECUTABLE_PATH",
    "RUNTIME_RESTART_MODE",
];

/// An environment, as far as it matters ([`VARIABLES`]).
pub type Environment = BTreeMap<String, String>;

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its pid on the node.
    pub pid: u32,
    /// The role.
    pub role: Role,
    /// Its name; at most 15 bytes.
    pub name: String,
    /// Its arguments, the program's name included.
    pub arguments: Vec<String>,
    /// When it was started, in seconds since 1970.
    pub started: Option<i64>,
    /// The UID of its pod.
    pub pod: Option<String>,
    /// Its control group has the name that systemd was to make a group from: its runtime does not ask systemd.
    pub has_literal_cgroup: bool,
    /// Its directory below `<proc>`.
    pub directory: PathBuf,
    /// Its settings; `None` for a process that gets none from the operator.
    pub environment: Option<Seen<Environment>>,
}

impl Process {
    /// The value of an option, by any of its spellings: `--name value`, `--name=value`, `-n value`.
    #[must_use]
    pub fn option(&self, names: &[&str]) -> Option<&str> {
        option(self.arguments.iter().map(String::as_str), names)
    }

    /// The value of one of its variables.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.as_ref()?.as_ref().ok()?.get(name).map(String::as_str)
    }
}

/// The value of an option in any list of arguments.
pub fn option<'a>(arguments: impl IntoIterator<Item = &'a str>, names: &[&str]) -> Option<&'a str> {
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument, None),
        };
        if names.contains(&name) {
            return value.or_else(|| arguments.next());
        }
    }
    None
}

/// All of them, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processes(pub Seen<Vec<Process>>);

impl Default for Processes {
    fn default() -> Self {
        Self(Ok(Vec::new()))
    }
}

impl Processes {
    /// Without those of ordinary pods: a role that needs no privilege is had on the host itself, or in a pod of which
    /// `is_operators` is true.
    #[must_use]
    pub fn counted(self, is_operators: impl Fn(&str) -> bool) -> Self {
        let counts = |process: &Process| {
            process.role.is_privileged() || process.pod.as_deref().is_none_or(&is_operators)
        };
        Self(self.0.map(|all| all.into_iter().filter(counts).collect()))
    }

    /// Those of a role; none where processes cannot be seen.
    pub fn of(&self, role: Role) -> impl Iterator<Item = &Process> {
        self.all().filter(move |process| process.role == role)
    }

    /// All that are visible.
    pub fn all(&self) -> impl Iterator<Item = &Process> {
        self.0.iter().flatten()
    }

    /// The first of a role: what it has started has its name, and comes later.
    #[must_use]
    pub fn first(&self, role: Role) -> Option<&Process> {
        self.of(role).next()
    }

    /// Why they cannot be seen.
    #[must_use]
    pub fn hidden(&self) -> Option<&Unreadable> {
        self.0.as_ref().err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_options_are_read_in_both_spellings() {
        let line = ["containerd", "-c", "/a.toml", "--address=/run/a.sock", "--log-level", "info"];
        assert_eq!(option(line, &["-c", "--config"]), Some("/a.toml"));
        assert_eq!(option(line, &["-a", "--address"]), Some("/run/a.sock"));
        assert_eq!(option(line, &["--state"]), None);
        assert_eq!(option(["containerd", "-c"], &["-c"]), None);
    }

    #[test]
    fn names_are_as_the_kernel_cuts_them() {
        assert!(SIGNATURES.iter().flat_map(|sign| sign.names).all(|name| name.len() <= 15));
    }
}
