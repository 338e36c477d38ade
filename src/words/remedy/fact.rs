// SPDX-License-Identifier: Apache-2.0
//! Facts about a node that decide which step of a remedy helps. The set is open: who diagnoses more adds its own.

/// A fact, named by its condition in words, which a reader sees where it is unknown whether the condition is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fact(&'static str);

impl Fact {
    /// The fact of this phrase, which begins with "If" or "On".
    #[must_use]
    pub const fn new(phrase: &'static str) -> Self {
        Self(phrase)
    }

    /// The condition in words.
    #[must_use]
    pub fn phrase(self) -> &'static str {
        self.0
    }
}

/// The GPU Operator's driver container is or was on this node.
pub const DRIVER_POD: Fact = Fact::new("If a driver container installs the driver");
/// The driver is installed on the host.
pub const HOST_DRIVER: Fact = Fact::new("If the driver is installed on the host");
/// nvidia-driver-ctr and its driver toolkit share a volume with a finished build in it.
pub const BUILT_BY_TOOLKIT: Fact = Fact::new("On OpenShift with the driver toolkit");
/// The driver's modules are built by the driver container itself.
pub const BUILT_BY_DRIVER_POD: Fact = Fact::new("If the driver container builds the driver");
/// `/run/nvidia/nvidia-driver.state` is there, and nvidia is loaded: a new driver pod may skip the build.
pub const STATE_FILE: Fact =
    Fact::new("If `/run/nvidia/nvidia-driver.state` exists (GPU Operator 26.3 and later)");
/// A rebuild of only nvidia-peermem cures it, and everything that it takes is here.
pub const REBUILD_POSSIBLE: Fact = Fact::new("If `peermem-gate rebuild --dry-run` finds all that it needs");
/// The file that modprobe takes is one that `rebuild` installed.
pub const OWN_FILE: Fact = Fact::new("If peermem-gate built the file");
/// The driver's modules come with its image.
pub const PRECOMPILED_DRIVER: Fact = Fact::new("If the driver image is precompiled");
/// The host provides MOFED.
pub const HOST_MOFED: Fact = Fact::new("If the host provides MOFED");
/// The live RDMA modules are the kernel's own and export peer memory, and no MOFED comes.
pub const KERNEL_STACK: Fact = Fact::new("If the node uses the kernel's own RDMA stack");
/// One of the modules that MOFED would replace is part of the kernel.
pub const BUILT_IN: Fact = Fact::new("If RDMA modules are built into the kernel");
/// A container provides MOFED.
pub const MOFED_POD: Fact = Fact::new("If a container provides MOFED");
/// The name of the driver's pod is not known.
pub const DRIVER_POD_UNNAMED: Fact = Fact::new("If you do not know the driver pod's name");
/// The name of MOFED's pod is not known.
pub const MOFED_POD_UNNAMED: Fact = Fact::new("If you do not know the MOFED pod's name");
/// `nvidia_peermem` has users.
pub const PEERMEM_USED: Fact = Fact::new("If nvidia_peermem is in use");
/// MOFED has not set its marker.
pub const MARKER_UNSET: Fact = Fact::new("If the marker is not set yet");
/// MOFED's directory is on a private mount, which later mounts of the host do not reach.
pub const PRIVATE_MOUNT: Fact = Fact::new("If MOFED's directory is on a private mount");
/// MOFED's own modules are live, and none of them exports the peer-memory symbols.
pub const WITHOUT_PEER_MEMORY: Fact = Fact::new("If the live modules are MOFED's and lack peer memory");
/// MOFED's own `mlx5_core` is live.
pub const MOFED_LIVE: Fact = Fact::new("If the live modules are MOFED's");
/// nvidia-peermem.ko is there, and modules.dep does not list it.
pub const NOT_LISTED: Fact = Fact::new("If modules.dep does not list the file");
/// Our own file comes before one that would load.
pub const SHADOWED: Fact = Fact::new("If peermem-gate rebuilt the file and another one would load");
/// The bad parameter is on the kernel's command line.
pub const BOOT_PARAMETER: Fact = Fact::new("If the kernel's command line has it");
/// The bad parameter is in a file of modprobe's.
pub const FILE_PARAMETER: Fact = Fact::new("If a file of modprobe's has it");
/// `ib_umad` or `mlx5_ib` is not installed for this kernel.
pub const WITHOUT_UMAD: Fact = Fact::new("If mlx5_ib or ib_umad is not installed");
/// nvidia is loaded: programs may use its GPUs, which a new driver pod takes away.
pub const NVIDIA_LOADED: Fact = Fact::new("If nvidia is loaded");
/// Nobody has looked for what is behind it yet.
pub const UNDIAGNOSED: Fact = Fact::new("If `peermem-gate doctor` has not run");
