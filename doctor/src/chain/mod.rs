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
    #[must_use]
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

const fn file(
    name: &'static str,
    after: Option<&'static str>,
    writer: &'static str,
    waiters: &'static [&'static str],
    needed: Needed,
    usual: i64,
) -> ChainFile {
    ChainFile { name, after, writer, waiters, needed, usual }
}

/// A file that nothing in this chain waits for.
const fn aside(name: &'static str, after: Option<&'static str>, writer: &'static str) -> ChainFile {
    file(name, after, writer, &[], Needed::Never, 0)
}

/// Every file, predecessors first.
pub const FILES: &[ChainFile] = &[
    file(
        MARKER,
        None,
        "MOFED's container",
        &["k8s-driver-manager", "nvidia-peermem-ctr"],
        Needed::WithMofed,
        MOFED_BUILD,
    ),
    file(
        DRIVER_CTR_READY,
        Some(MARKER),
        "nvidia-driver-ctr's startup probe",
        &["driver-validation", "nvidia-peermem-ctr"],
        Needed::WithDriver,
        BUILD,
    ),
    aside(DAEMONS_STATUS, Some(DRIVER_CTR_READY), "nvidia-driver-ctr"),
    file(
        DRIVER_READY,
        Some(DRIVER_CTR_READY),
        "driver-validation of nvidia-container-toolkit",
        &["nvidia-container-toolkit", "nvidia-device-plugin", "nvidia-mig-manager", "nvidia-dra-driver"],
        Needed::Always,
        VALIDATION,
    ),
    aside("nvidia-fs-ready", Some(DRIVER_READY), "nvidia-operator-validator"),
    aside("gdrcopy-ready", Some(DRIVER_READY), "nvidia-operator-validator"),
    aside("nvidia-peermem-ready", Some(DRIVER_READY), "nvidia-operator-validator"),
    file(
        TOOLKIT_READY,
        Some(DRIVER_READY),
        "toolkit-validation of nvidia-operator-validator",
        &[
            "gpu-feature-discovery",
            "nvidia-device-plugin",
            "nvidia-dcgm",
            "nvidia-dcgm-exporter",
            "nvidia-mig-manager",
            "nvidia-device-plugin-mps-control-daemon",
        ],
        Needed::Always,
        VALIDATION,
    ),
    file(
        "cuda-ready",
        Some(TOOLKIT_READY),
        "cuda-validation of nvidia-operator-validator",
        &["plugin-validation"],
        Needed::Always,
        VALIDATION,
    ),
    file(
        "plugin-ready",
        Some("cuda-ready"),
        "plugin-validation of nvidia-operator-validator",
        &["nvidia-operator-validator"],
        Needed::WithPlugin,
        VALIDATION,
    ),
    aside("host-driver-ready", None, "driver-validation up to GPU Operator 24.3"),
    aside("mofed-ready", None, "mofed-validation up to GPU Operator 23.9"),
    aside(WORKLOAD_TYPE, None, "nvidia-sandbox-validator"),
    aside("vfio-pci-ready", Some(WORKLOAD_TYPE), "nvidia-sandbox-validator"),
    aside("vgpu-manager-ready", Some(WORKLOAD_TYPE), "nvidia-sandbox-validator"),
    aside("host-vgpu-manager-ready", Some(WORKLOAD_TYPE), "nvidia-sandbox-validator"),
    aside("vgpu-devices-ready", Some(WORKLOAD_TYPE), "nvidia-sandbox-validator"),
    aside("cc-manager-ready", Some(WORKLOAD_TYPE), "nvidia-sandbox-validator"),
    aside(".cc-manager-ctr-ready", Some(WORKLOAD_TYPE), "nvidia-cc-manager"),
];
