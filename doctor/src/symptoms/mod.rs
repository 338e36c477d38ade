// SPDX-License-Identifier: Apache-2.0
//! Symptoms beyond the gate's own look. Plain data, like [`peermem_gate::ready::observation`].

pub mod chain;
pub mod host;
pub mod logs;
pub mod offer;
pub mod paths;
pub mod rdma;
pub mod runtime;
pub mod waits;

use peermem_gate::ready::files::mount::Mount;
use peermem_gate::ready::observation::{Lock, Marker, Seen, Unreadable};
use peermem_gate::rebuild::Obstacle;
use peermem_gate::survey::Survey;
use peermem_gate::survey::expected::DISPLAY_CONTROLLER;
use peermem_gate::survey::setting::Settings;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Symptoms {
    /// The operators' processes and pods on this node, and their settings.
    pub survey: Survey,
    /// Who wants RDMA, and who is to provide MOFED.
    pub settings: Settings,
    /// Matches in the logs.
    pub logs: logs::Logs,
    /// MOFED's traces on a node.
    pub mofed: MofedTraces,
    /// The mounts of the host, of the driver container, and our own.
    pub views: Vec<View>,
    /// Can a wait watch for the marker?
    pub inotify: Watching,
    /// The Mellanox functions on the PCI bus.
    pub nics: Seen<Vec<PciFunction>>,
    /// NVIDIA's functions on it: GPUs, and switches between them.
    pub nvidias: Seen<Vec<PciFunction>>,
    /// NVIDIA's driver.
    pub driver: Driver,
    /// The readiness chain's files.
    pub chain: chain::Chain,
    /// The container runtimes.
    pub runtimes: runtime::Runtimes,
    /// The devices that kubelet offers to pods.
    pub offer: offer::KubeletOffer,
    /// RDMA beyond the modules.
    pub rdma: rdma::Rdma,
    /// The host itself.
    pub host: host::Host,
    /// Where only nvidia-peermem.ko is wrong: the driver's root in which `peermem-gate rebuild` can build another
    /// one, or why it cannot.
    pub rebuild: Option<Result<PathBuf, Obstacle>>,
    /// Processes that have GPUs or RDMA devices open: `name (pid)`.
    pub holders: Vec<String>,
    /// The waits of the operators' containers.
    pub waits: waits::Waits,
    /// All that could not be read, whether or not a part of this says so.
    pub unread: Vec<Unreadable>,
}

impl Symptoms {
    /// The GPUs on the bus; none where it cannot be read.
    pub fn gpus(&self) -> impl Iterator<Item = &PciFunction> {
        self.nvidias.iter().flatten().filter(|function| function.is_gpu())
    }

    /// The switches between GPUs.
    pub fn switches(&self) -> impl Iterator<Item = &PciFunction> {
        self.nvidias.iter().flatten().filter(|function| function.is_bridge())
    }
}

/// MOFED's traces on a node.
#[derive(Clone, Debug, PartialEq)]
pub struct MofedTraces {
    /// Its lock, where there is no marker and under host MOFED too.
    pub lock: Lock,
    /// Its marker, under host MOFED too.
    pub marker: Marker,
    /// When the marker was set, in seconds since 1970.
    pub marked: Option<i64>,
    /// The file by which it keeps modules from loading while it works (doca-driver-build, config.go).
    pub blacklist: PathBuf,
    /// When it was made, in seconds since 1970; `None` where it is not there.
    pub blacklisted: Seen<Option<i64>>,
    /// MOFED's `mlx5_core.ko` for this kernel on the host's own disk.
    pub host_file: Option<PathBuf>,
    /// Other kernels for which the host has one.
    pub other_kernels: Vec<String>,
}

/// One process's mounts, as far as they matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Who sees them.
    pub viewer: MountViewer,
    /// The mountinfo file that was read.
    pub source: PathBuf,
    /// The mounts.
    pub mounts: Seen<Mounts>,
}

/// Who sees the mounts so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountViewer {
    /// The node itself: process 1 of the host.
    Host,
    /// The GPU driver's container.
    Driver,
    /// This process.
    Own,
}

/// The mounts of one view that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounts {
    /// The mount of the marker's directory.
    pub marker: Option<Mount>,
    /// The mount of MOFED's header tree, `usr/src` beside the marker.
    pub headers: Option<Mount>,
    /// The mount of `/dev`.
    pub devices: Option<Mount>,
    /// Mounts at the directory where a driver container shows its root.
    pub driver_roots: Vec<Mount>,
    /// NFS over RDMA.
    pub nfs_rdma: Vec<Mount>,
    /// Devices with a mounted file system, by their names below `/dev`, and where it is.
    pub disks: Vec<(String, PathBuf)>,
}

/// Can a wait watch for the marker?
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watching {
    /// The user with the most instances, and how many: counted where the limit is low.
    pub most: Option<(String, usize)>,
    /// Why the kernel gives this process no inotify instance; `None` when it does, or on another machine's tree.
    pub refused: Option<String>,
    /// The limits, each a file and what it says.
    pub limits: Vec<(PathBuf, Seen<Option<String>>)>,
}

/// A device's request to the bus, and the place that it got: a line of `resource` in sysfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its first address; 0 where it has none.
    pub start: u64,
    /// Its last.
    pub end: u64,
    /// The kernel's flags (linux/ioport.h).
    pub flags: u64,
}

impl Region {
    /// The request got no place: `IORESOURCE_UNSET`, or an address of 0.
    pub fn is_unassigned(&self) -> bool {
        const MEMORY: u64 = 0x200;
        const UNSET: u64 = 0x2000_0000;
        self.flags & MEMORY != 0 && (self.start == 0 || self.flags & UNSET != 0)
    }

    /// In bytes.
    pub fn size(&self) -> u64 {
        if self.start == 0 { 0 } else { self.end.saturating_sub(self.start) + 1 }
    }
}

/// A function on the PCI bus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PciFunction {
    /// Such as `0000:01:00.0`.
    pub address: String,
    /// Class, subclass and interface; `None` where it is unknown.
    pub class: Option<u32>,
    /// The vendor's id of it.
    pub device: Option<u16>,
    /// The driver that it is bound to.
    pub driver: Option<String>,
    /// A virtual function: often left unbound on purpose.
    pub is_virtual: bool,
    /// Its memory, where it was read: of GPUs.
    pub regions: Vec<Region>,
    /// How the IOMMU treats it: `identity`, `DMA`, `DMA-FQ`; `None` where there is none.
    pub iommu: Option<String>,
}

impl PciFunction {
    /// A display controller, as which GPUs count.
    pub fn is_gpu(&self) -> bool {
        self.class.is_some_and(|class| class >> 16 == DISPLAY_CONTROLLER)
    }

    /// Neither memory nor network: an `NVSwitch` says that it is some other bridge.
    pub fn is_bridge(&self) -> bool {
        self.class.is_some_and(|class| class >> 8 == 0x0680)
    }

    /// A network controller; `InfiniBand` is one of its subclasses.
    pub fn is_network(&self) -> bool {
        self.class.is_none_or(|class| class >> 16 == 0x02)
    }
}

/// NVIDIA's driver on the node.
#[derive(Clone, Debug, PartialEq)]
pub struct Driver {
    /// Where its files are looked for.
    pub root: PathBuf,
    /// The driver's root is the host's own, and not a container's.
    pub is_on_host: bool,
    /// There is a directory of modules in it.
    pub has_modules: bool,
    /// There is an nvidia.ko for this kernel in it.
    pub nvidia_file: Seen<Option<PathBuf>>,
    /// The nvidia.ko of the host's own disk for this kernel, whatever a container shows.
    pub on_host: Option<PathBuf>,
    /// Other kernels that have one, where this kernel has none.
    pub other_kernels: Vec<String>,
    /// `/proc/driver/nvidia/version`, first line.
    pub version_file: (PathBuf, Seen<Option<String>>),
    /// Where the loaded driver names its GPUs' models, and each model once; none unless all are known.
    pub models: (PathBuf, Vec<String>),
    /// The loaded nvidia's version by sysfs.
    pub loaded: (PathBuf, Seen<Option<String>>),
    /// The newest CUDA that nvidia-smi says it supports, where somebody posts that.
    pub cuda: Option<String>,
    /// The driver's library for programs, and the version that its link names.
    pub library: Option<(PathBuf, String)>,
    /// The version of the peer-memory client that is registered as `nv_mem`.
    pub client: (PathBuf, Seen<Option<String>>),
    /// The digest of the settings that the loaded driver was installed with: k8s-driver-manager and the driver's
    /// container do nothing while it is the same.
    pub state: (PathBuf, Seen<Option<String>>),
    /// Directories of device nodes, with the names in them that begin with `nvidia`.
    pub nodes: Vec<(PathBuf, Seen<Vec<String>>)>,
    /// The numbers that NVIDIA's device nodes have, by path: as themselves, or by a link below `/dev/char`.
    pub numbers: BTreeMap<String, (u64, u64)>,
    /// The major numbers that the kernel has now, by driver (`/proc/devices`); empty where it cannot be read.
    pub majors: BTreeMap<String, u64>,
    /// The names in /dev/char, `MAJOR:MINOR`; `None` where it is not there.
    pub char_links: Seen<Option<Vec<String>>>,
    /// Lines that keep nvidia from loading in the host's root, with their files.
    pub kept_out: Vec<(PathBuf, String)>,
    /// When the nvidia-peermem.ko was written that is looked at, in seconds since 1970.
    pub peermem_written: Option<i64>,
}
