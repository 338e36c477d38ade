// SPDX-License-Identifier: Apache-2.0
//! Devices and functions that decide which way `GPUDirect` RDMA can take on a node, as seen.

use super::PciFunction;
use peermem_gate::ready::observation::Seen;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A GPU on the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuDevice {
    /// The PCI function.
    pub function: PciFunction,
    /// The model, as the loaded driver names it.
    pub model: Option<String>,
    /// The bridges above it.
    pub above: Vec<BridgeControl>,
}

/// An RDMA device, or a Mellanox function that has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicDevice {
    /// The RDMA device, such as `mlx5_0`.
    pub name: Option<String>,
    /// The PCI function.
    pub function: PciFunction,
    /// The module that makes RDMA devices of Mellanox functions is live: then one that is missing may be hidden.
    pub has_rdma_driver: bool,
    /// The PCI vendor.
    pub vendor: Option<u16>,
    /// `p2p` of Amazon's own driver, which takes NVIDIA's memory in its own way.
    pub own_way: Option<String>,
    /// The bridges above it.
    pub above: Vec<BridgeControl>,
}

/// A PCI bridge, and its control of peer-to-peer traffic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BridgeControl {
    /// Its address.
    pub address: String,
    /// The ACS control register; `None` where the bridge has none.
    pub control: Result<Option<u16>, String>,
}

/// The kernel's functions for DMA-BUF, by /proc/kallsyms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DmaBufSymbols {
    /// The kernel itself lists functions.
    pub has_core: bool,
    /// The kernel has `CONFIG_PCI_P2PDMA`.
    pub has_p2pdma: bool,
    /// Modules that list functions.
    pub modules: BTreeSet<String>,
    /// RDMA drivers that register DMA-BUFs.
    pub registering: BTreeSet<String>,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathsSeen {
    /// The GPUs.
    pub gpus: Seen<Vec<GpuDevice>>,
    /// The RDMA NICs.
    pub nics: Seen<Vec<NicDevice>>,
    /// The functions for DMA-BUF.
    pub symbols: (PathBuf, Seen<DmaBufSymbols>),
    /// `/proc/driver/nvidia/version`, first line.
    pub driver: (PathBuf, Seen<Option<String>>),
    /// sysfs shows the peer-memory client.
    pub client: (PathBuf, bool),
    /// Memory regions that the client has registered.
    pub registered: Option<u64>,
    /// The kernel runs in a virtual machine.
    pub is_guest: bool,
}
