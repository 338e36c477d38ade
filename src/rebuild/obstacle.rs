// SPDX-License-Identifier: Apache-2.0
//! Why nothing is rebuilt: each kind with its remedy, in one table.

use std::fmt;

macro_rules! kinds {
    ($($kind:ident: $doc:literal, $remedy:literal;)*) => {
        /// What is in the way of a rebuild.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $(#[doc = $doc] $kind,)*
        }

        impl Kind {
            /// All of them, in the order in which they are looked for.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// What it means.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$kind => $doc,)* }
            }

            /// What a person can do about it.
            #[must_use]
            pub fn remedy(self) -> &'static str {
                match self { $(Self::$kind => $remedy,)* }
            }
        }
    };
}

kinds! {
    DoesNotApply: "The gate does not apply on this node.",
        "set GPU_DIRECT_RDMA_ENABLED=true if this node is to use GPUDirect RDMA";
    Loaded: "`nvidia_peermem` is loaded.",
        "unload it first, once nothing uses it: `rmmod nvidia_peermem`";
    NotReady: "Something other than the module file is not ready.",
        "wait for that, or run `peermem-gate doctor` on this node";
    NotCurable: "A rebuild does not cure what is wrong with nvidia-peermem.",
        "see the remedy of PeermemUsable: `peermem-gate check --peermem`";
    SignaturesEnforced: "This kernel loads only signed modules, and nothing here can sign one.",
        "take a driver with signed modules (precompiled), sign nvidia-peermem.ko with a key that the kernel trusts, or turn Secure Boot off";
    SignaturesUnknown: "Whether this kernel loads unsigned modules cannot be read.",
        "run it as root with the host's /sys";
    NvidiaNotLive: "nvidia is not loaded, or its version cannot be read.",
        "load the GPU driver's nvidia first: see the driver container's log";
    NvidiaFileMissing: "There is no nvidia.ko with the build id of the live nvidia, so its CRCs are unknown.",
        "remove /run/nvidia/nvidia-driver.state on the node and delete the driver pod, so the driver installs its modules again";
    NvidiaWithoutVersions: "The nvidia.ko of the live nvidia has no CRCs: this kernel has no symbol versions.",
        "build the whole driver again: delete the driver pod; on a host use dkms";
    SourcesMissing: "NVIDIA's sources of nvidia-peermem are not there.",
        "take a driver image that builds its modules (not precompiled), or build the whole driver again: delete the driver pod";
    VersionDiffers: "NVIDIA's sources are of another version than the live nvidia.",
        "load the nvidia of that version (delete the driver pod), or install the sources of the live one";
    RecipeDoesNotFit: "NVIDIA's sources are not as this version of peermem-gate knows them.",
        "build the whole driver again: delete the driver pod; and report this with the version of the driver";
    HeadersMissing: "The running kernel's headers are not there.",
        "install the headers of the running kernel in the driver's root";
    SymversUnusable: "MOFED's Module.symvers cannot be used.",
        "see that MOFED's headers are those of the live MOFED: `peermem-gate check`";
    ToolMissing: "A program that a build needs is not there.",
        "install make, gcc and kmod in the driver's root, or take a driver image that builds its modules";
    Unwritable: "The build's directory or the module's cannot be written.",
        "make the driver's root writable for this process";
    NoRoom: "There is no room for the build.",
        "make room in the driver's root: 64 MiB";
    ForeignFile: "There is an updates/nvidia-peermem.ko that peermem-gate did not put there.",
        "move that file away, and run depmod, if it is not needed";
    AlreadyTried: "A rebuild for this kernel, nvidia and MOFED failed before.",
        "remove the cause, then run `peermem-gate rebuild` by hand, which always tries again";
    Busy: "Another rebuild is under way.",
        "wait for the other rebuild to end";
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

/// Why nothing is rebuilt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The kind.
    pub kind: Kind,
    /// What is so, with names and places.
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
