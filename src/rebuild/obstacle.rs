// SPDX-License-Identifier: Apache-2.0
//! Why nothing is rebuilt: each kind with its remedy, in one table.

use crate::ready::condition::terms;
use std::fmt;

macro_rules! kinds {
    ($($kind:ident: $doc:literal, $remedy:literal;)*) => {
        terms! {
            /// An obstacle to a rebuild, in the order in which they are looked for.
            Kind { $($kind: $doc;)* }
        }

        impl Kind {
            /// The remedy.
            #[must_use]
            pub fn remedy(self) -> &'static str {
                match self { $(Self::$kind => $remedy,)* }
            }
        }
    };
}

kinds! {
    DoesNotApply: "The gate does not apply on this node.",
        "do nothing if this node does not use GPUDirect RDMA; else give it a Mellanox device and GPU_DIRECT_RDMA_ENABLED=true";
    Loaded: "`nvidia_peermem` is loaded.",
        "unload it once nothing uses it: `rmmod nvidia_peermem`";
    NotReady: "Something other than the module file is not ready.",
        "wait until it is ready, or run `peermem-gate doctor` on this node";
    NotCurable: "A rebuild does not cure what is wrong with nvidia-peermem.",
        "read the remedy of PeermemUsable: `peermem-gate check --peermem`";
    SigningKeyUnusable: "The key to sign with cannot be used, or this kernel does not trust it.",
        "give a key that only root can read and a certificate that this kernel trusts: enroll it (`mokutil --import`) and reboot; `grep X509 /proc/keys` shows those that it has";
    SignaturesEnforced: "This kernel loads only signed modules, and there is no key to sign with.",
        "give keep a key that this kernel trusts (`--signing`; in the chart keeper.signing.secretName), or use a driver with signed modules (precompiled)";
    SignaturesUnknown: "Whether this kernel loads unsigned modules cannot be read.",
        "run it as root with the host's /sys";
    NvidiaNotLive: "nvidia is not loaded, or its version cannot be read.",
        "load the GPU driver's nvidia first: see the driver container's log";
    NvidiaFileMissing: "There is no nvidia.ko with the build id of the live nvidia, so its CRCs are unknown.",
        "remove /run/nvidia/nvidia-driver.state on the node and delete the driver pod, so the driver installs its modules again; on a host install the driver whose nvidia is loaded, or reboot";
    NvidiaWithoutVersions: "The nvidia.ko of the live nvidia does not show which symbols it exports.",
        "build the whole driver again: `rm -f /run/nvidia/nvidia-driver.state` on the node, then delete the driver pod; on a host use dkms";
    SourcesMissing: "NVIDIA's sources of nvidia-peermem are missing.",
        "use a driver image that builds its modules (not precompiled), or build the whole driver again: `rm -f /run/nvidia/nvidia-driver.state` on the node, then delete the driver pod; on a host install the driver's dkms package";
    VersionDiffers: "NVIDIA's sources and the live nvidia have different versions.",
        "load the nvidia of that version (`rm -f /run/nvidia/nvidia-driver.state` on the node, then delete the driver pod), or install the sources of the live one";
    RecipeDoesNotFit: "This version of peermem-gate does not know NVIDIA's sources of this version.",
        "build the whole driver again (`rm -f /run/nvidia/nvidia-driver.state` on the node, then delete the driver pod), and report this with the driver's version";
    HeadersMissing: "The running kernel's headers are missing.",
        "install the headers of the running kernel in the driver's root: linux-headers-$(uname -r) or kernel-devel-$(uname -r)";
    SymversUnusable: "The Module.symvers of MOFED, or of the kernel's own RDMA stack, cannot be used.",
        "delete the MOFED pod, so its headers and its modules are of one release; on a host install MOFED for this kernel again, or reboot; where the kernel's own RDMA stack is live, install the headers of exactly this kernel";
    ToolMissing: "A program that the build needs is missing.",
        "install make, gcc and kmod in the driver's root, or use a driver image that builds its modules";
    Unwritable: "The build's or the module's directory is not writable.",
        "make the driver's root writable for this process";
    Exposed: "Users other than root can write to /var/lib/peermem-gate, or hold its lock.",
        "find out what changed it, then remove /var/lib/peermem-gate in the driver's root: a rebuild makes it again";
    NoRoom: "There is not enough room for the build.",
        "make 64 MiB of room in the driver's root";
    ForeignFile: "updates/nvidia-peermem.ko exists, but peermem-gate did not install it.",
        "if you do not need that file, remove it and run depmod";
    AlreadyTried: "A rebuild for this kernel, nvidia and MOFED failed before.",
        "remove the cause; `peermem-gate rebuild` by hand always tries again, and a keeper does when sources, headers or tools have changed, or after an hour";
    Busy: "Another rebuild is running.",
        "wait for the other rebuild to end";
    CallFailed: "A system call of the rebuild failed, and may succeed later.",
        "wait: it is tried again; if it fails for minutes, read the kernel's log (`dmesg`)";
}

impl Kind {
    /// Passes by itself, or the node has changed since it was judged: a process that stays looks again.
    #[must_use]
    pub fn passes(self) -> bool {
        matches!(
            self,
            Self::DoesNotApply
                | Self::NotReady
                | Self::Loaded
                | Self::NotCurable
                | Self::NvidiaNotLive
                | Self::NoRoom
                | Self::Busy
                | Self::CallFailed
        )
    }

    /// This obstacle stays until a person acts: time alone does not end it.
    #[must_use]
    pub fn needs_a_person(self) -> bool {
        !self.passes()
    }

    /// False where no rebuild on this node can make a module that loads.
    #[must_use]
    pub fn can_be_healed(self) -> bool {
        !matches!(self, Self::SignaturesEnforced | Self::NvidiaWithoutVersions | Self::SourcesMissing)
    }

    /// A person can remove it on the node, and a rebuild is possible then.
    #[must_use]
    pub fn is_removable(self) -> bool {
        matches!(
            self,
            Self::HeadersMissing
                | Self::ToolMissing
                | Self::Exposed
                | Self::NoRoom
                | Self::ForeignFile
                | Self::AlreadyTried
        )
    }
}

/// Why nothing is rebuilt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The kind.
    pub kind: Kind,
    /// A sentence, with names and places.
    pub message: String,
}

impl Obstacle {
    /// An obstacle of this kind.
    #[must_use]
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; what to do: {}", self.kind, self.message, self.kind.remedy())
    }
}
