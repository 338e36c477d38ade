// SPDX-License-Identifier: Apache-2.0
//! What `doctor` looks at beyond the gate's own look. Plain data, like [`crate::observation`].

pub mod chain;
pub mod runtime;

use crate::observation::{Lock, Marker, Seen, Unreadable};
use std::fmt;
use std::path::{Path, PathBuf};

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Symptoms {
    /// What MOFED leaves on a node.
    pub mofed: MofedTraces,
    /// The mounts of the host, of the driver container, and our own.
    pub views: Vec<View>,
    /// Can a wait watch for the marker?
    pub inotify: Watching,
    /// The Mellanox functions on the PCI bus.
    pub nics: Seen<Vec<PciFunction>>,
    /// The NVIDIA GPUs on it.
    pub gpus: Seen<Vec<PciFunction>>,
    /// NVIDIA's driver.
    pub driver: Driver,
    /// The readiness chain's files.
    pub chain: chain::Chain,
    /// The container runtimes.
    pub runtimes: runtime::Runtimes,
}

/// What MOFED leaves on a node.
#[derive(Clone, Debug, PartialEq)]
pub struct MofedTraces {
    /// Its lock, where there is no marker and under host MOFED too.
    pub lock: Lock,
    /// Its marker, under host MOFED too.
    pub marker: Marker,
    /// The file by which it keeps modules from loading while it works (doca-driver-build, config.go).
    pub blacklist: PathBuf,
    /// When it was made, in seconds since 1970; `None` where it is not there.
    pub blacklisted: Seen<Option<i64>>,
    /// When the kernel was booted, in seconds since 1970.
    pub booted: Option<i64>,
    /// The first sign of a MOFED that is installed on the host itself.
    pub installed: Option<PathBuf>,
    /// From where we know what the operator says.
    pub told_by: ToldBy,
}

/// From where we know whether the operator wants RDMA, and whose MOFED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToldBy {
    /// Our own variables, set or not.
    Ourselves,
    /// The running driver container's environment, a file below `<proc>`.
    DriverContainer(PathBuf),
    /// There is a driver container, whose environment cannot be read.
    Unreadable(Unreadable),
    /// Nobody: a host that runs a MOFED of its own, by this sign, is taken for what it looks like.
    Nobody(PathBuf),
}

/// One process's mounts, as far as they matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Whose.
    pub whose: Whose,
    /// The mountinfo file that was read.
    pub source: PathBuf,
    /// What it says.
    pub mounts: Seen<Mounts>,
}

/// Who sees the mounts so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
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
    /// What the marker's directory is on.
    pub marker: Option<Mount>,
    /// What MOFED's header tree, `usr/src` beside the marker, is on.
    pub headers: Option<Mount>,
    /// What `/dev` is on.
    pub devices: Option<Mount>,
    /// NFS over RDMA.
    pub nfs_rdma: Vec<Mount>,
}

/// A line of mountinfo (proc(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// `major:minor` of the file system.
    pub device: String,
    /// The directory of that file system that is mounted; ends with `//deleted` where it was deleted.
    pub root: PathBuf,
    /// Where it is mounted, as that process sees it.
    pub point: PathBuf,
    /// What is mounted below it elsewhere comes here too: it is a slave or shared.
    pub propagates: bool,
    /// The file system's type.
    pub fs_type: String,
    /// The file system's own options.
    pub options: String,
}

impl Mount {
    /// A part of a file system, as the mount of a hostPath volume is. One that is whole may be
    /// private for its own good; so may what a container has as its root.
    #[must_use]
    pub fn is_volume(&self) -> bool {
        self.root != Path::new("/") && self.point != Path::new("/")
    }
}

impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.point.display(), self.fs_type)
    }
}

/// Can a wait watch for the marker?
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watching {
    /// Why the kernel gives this process no inotify instance; `None` when it does, or on another machine's tree.
    pub refused: Option<String>,
    /// The limits, each a file and what it says.
    pub limits: Vec<(PathBuf, Seen<Option<String>>)>,
}

/// A function on the PCI bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciFunction {
    /// Such as `0000:01:00.0`.
    pub address: String,
    /// Class, subclass and interface; `None` where it is not told.
    pub class: Option<u32>,
    /// The driver that it is bound to.
    pub driver: Option<String>,
    /// A virtual function: often left unbound on purpose.
    pub is_virtual: bool,
}

/// NVIDIA's driver on the node.
#[derive(Clone, Debug, PartialEq)]
pub struct Driver {
    /// Where its files are looked for.
    pub root: PathBuf,
    /// There is a directory of modules in it.
    pub has_modules: bool,
    /// There is an nvidia.ko for this kernel in it.
    pub nvidia_file: Seen<Option<PathBuf>>,
    /// `/proc/driver/nvidia/version`, first line.
    pub told: (PathBuf, Seen<Option<String>>),
    /// The loaded nvidia's version by sysfs.
    pub loaded: (PathBuf, Seen<Option<String>>),
    /// The version of the peer-memory client that is registered as `nv_mem`.
    pub client: (PathBuf, Seen<Option<String>>),
    /// What the driver container left for those who wait for it.
    pub ready: (PathBuf, Seen<Option<String>>),
    /// Directories of device nodes, with the names in them that begin with `nvidia`.
    pub nodes: Vec<(PathBuf, Seen<Vec<String>>)>,
}
