// SPDX-License-Identifier: Apache-2.0
//! The readiness chain: each file that one container writes and others wait for, from MOFED's marker
//! to the operator's last validation. Pure; [`peermem_gate::ready::probe`] sees the files.
//!
//! Writers and waiters are those of gpu-operator 25.3 to 26.7 (cmd/nvidia-validator, assets/) and
//! gpu-driver-container.

mod draw;
mod link;

pub(crate) use draw::span;
pub use draw::{draw, end};
pub use link::{ChainContext, Link, LinkState, broken_at, links};

/// When a file of the chain is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// Where MOFED comes in a container and `GPUDirect` RDMA is wanted.
    WithMofed,
    /// Where the GPU driver comes in a container.
    WithDriver,
    /// Wherever the GPU Operator prepares the node for containers.
    Always,
    /// Where the operator's validator also validates the device plugin. It does not where DRA hands out the GPUs.
    WithPlugin,
    /// No container waits for it, or only with other features: it is shown if it exists.
    Never,
}

/// One file of the chain, as upstream defines it.
#[derive(Debug)]
pub struct ChainFile {
    /// The file's name.
    pub name: &'static str,
    /// The file that its writer waits for.
    pub after: Option<&'static str>,
    /// Who writes it.
    pub writer: &'static str,
    /// Who does not start, or not go on, without it.
    pub waiters: &'static [&'static str],
    /// When it is waited for.
    pub needed: Needed,
    /// How long after its predecessor it may well take, in seconds: a build of the driver has 21
    /// minutes before its startup probe ends it, a build of MOFED takes up to 40, a validation takes some.
    pub usual: i64,
}

impl ChainFile {
    /// MOFED's marker lies elsewhere than the GPU Operator's files.
    pub fn is_mofeds(&self) -> bool {
        self.name == MARKER
    }
}

/// MOFED's marker.
pub const MARKER: &str = ".driver-ready";
/// Left by the driver's container, also after a crash.
pub const DRIVER_CTR_READY: &str = ".driver-ctr-ready";
/// The state of the driver's daemons, by its scripts (since August 2026).
pub const DAEMONS_STATUS: &str = ".driver-daemons-status";
/// Left by the validation of the driver, with the driver's root in it.
pub const DRIVER_READY: &str = "driver-ready";
/// Left by the validation of the container runtime.
pub const TOOLKIT_READY: &str = "toolkit-ready";
/// `container`, or `vm-…` where GPUs go to virtual machines.
pub const WORKLOAD_TYPE: &str = "workload-type";

const MOFED_BUILD: i64 = 40 * 60;
const BUILD: i64 = 30 * 60;
const VALIDATION: i64 = 10 * 60;

macro_rules! files {
    ($($name:expr, after $after:expr, by $writer:literal
        $(, needed $needed:ident within $usual:ident by $($waiter:literal)+)?;)+) => {
        &[$(files!(@ $name, $after, $writer $(, $needed, $usual, [$($waiter),+])?)),+]
    };
    // A file that nothing in this chain waits for.
    (@ $name:expr, $after:expr, $writer:literal) => {
        ChainFile { name: $name, after: $after, writer: $writer, waiters: &[], needed: Needed::Never, usual: 0 }
    };
    (@ $name:expr, $after:expr, $writer:literal, $needed:ident, $usual:ident, $waiters:expr) => {
        ChainFile {
            name: $name,
            after: $after,
            writer: $writer,
            waiters: &$waiters,
            needed: Needed::$needed,
            usual: $usual,
        }
    };
}

/// Every file, predecessors first.
pub const FILES: &[ChainFile] = files! {
    MARKER, after None, by "MOFED's container",
        needed WithMofed within MOFED_BUILD by "k8s-driver-manager" "nvidia-peermem-ctr";
    DRIVER_CTR_READY, after Some(MARKER), by "nvidia-driver-ctr's startup probe",
        needed WithDriver within BUILD by "driver-validation" "nvidia-peermem-ctr";
    DAEMONS_STATUS, after Some(DRIVER_CTR_READY), by "nvidia-driver-ctr";
    DRIVER_READY, after Some(DRIVER_CTR_READY), by "driver-validation of nvidia-container-toolkit",
        needed Always within VALIDATION
        by "nvidia-container-toolkit" "nvidia-device-plugin" "nvidia-mig-manager" "nvidia-dra-driver";
    "nvidia-fs-ready", after Some(DRIVER_READY), by "nvidia-operator-validator";
    "gdrcopy-ready", after Some(DRIVER_READY), by "nvidia-operator-validator";
    "nvidia-peermem-ready", after Some(DRIVER_READY), by "nvidia-operator-validator";
    TOOLKIT_READY, after Some(DRIVER_READY), by "toolkit-validation of nvidia-operator-validator",
        needed Always within VALIDATION
        by "gpu-feature-discovery" "nvidia-device-plugin" "nvidia-dcgm" "nvidia-dcgm-exporter" "nvidia-mig-manager"
            "nvidia-device-plugin-mps-control-daemon";
    "cuda-ready", after Some(TOOLKIT_READY), by "cuda-validation of nvidia-operator-validator",
        needed Always within VALIDATION by "plugin-validation";
    "plugin-ready", after Some("cuda-ready"), by "plugin-validation of nvidia-operator-validator",
        needed WithPlugin within VALIDATION by "nvidia-operator-validator";
    "host-driver-ready", after None, by "driver-validation up to GPU Operator 24.3";
    "mofed-ready", after None, by "mofed-validation up to GPU Operator 23.9";
    WORKLOAD_TYPE, after None, by "nvidia-sandbox-validator";
    "vfio-pci-ready", after Some(WORKLOAD_TYPE), by "nvidia-sandbox-validator";
    "vgpu-manager-ready", after Some(WORKLOAD_TYPE), by "nvidia-sandbox-validator";
    "host-vgpu-manager-ready", after Some(WORKLOAD_TYPE), by "nvidia-sandbox-validator";
    "vgpu-devices-ready", after Some(WORKLOAD_TYPE), by "nvidia-sandbox-validator";
    "cc-manager-ready", after Some(WORKLOAD_TYPE), by "nvidia-sandbox-validator";
    ".cc-manager-ctr-ready", after Some(WORKLOAD_TYPE), by "nvidia-cc-manager";
};
