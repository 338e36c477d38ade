// SPDX-License-Identifier: Apache-2.0
//! The words of the gate: condition types, statuses and reasons. [`crate::ready::verdict`] adds them up.
//!
//! The vocabulary is Kubernetes'. The reason decides the status and the consequence, so no two places can
//! disagree about whether the gate waits for something.

use serde::{Deserialize, Serialize};

/// The end of a message that exempts the whole node.
pub const DOES_NOT_APPLY: &str = "the gate does not apply";

/// An enum of words with a meaning each. A word is shown as it is spelled here, or as the text behind it.
macro_rules! terms {
    (@ $term:ident) => { stringify!($term) };
    (@ $term:ident $text:literal) => { $text };
    ($(#[$about:meta])* $terms:ident { $($term:ident $(as $text:literal)?: $meaning:literal;)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $terms { $(#[doc = $meaning] $term,)* }

        impl $terms {
            /// All of them, in order.
            pub const ALL: &[Self] = &[$(Self::$term,)*];

            /// Its meaning.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$term => $meaning,)* }
            }
        }

        impl std::fmt::Display for $terms {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self { $(Self::$term => terms!(@ $term $($text)?),)* })
            }
        }
    };
}
pub(crate) use terms;

terms! {
    /// A condition, judged at every look. The order is that of the report, and of what is waited for.
    #[derive(Serialize, Deserialize)]
    ConditionType {
        RdmaRequested: "The cluster asks for `GPUDirect` RDMA at all.";
        NicPresent: "The node has a Mellanox device.";
        ManagementDevicePresent: "The node has an `NVLink` 5 management device.";
        MarkerPresent: "MOFED has set its ready marker.";
        MarkerTrusted: "The marker was not left behind by a dead MOFED container.";
        ModulesLive: "The RDMA modules are live.";
        ModulesFromMofed: "The live modules are MOFED's, not the kernel's own.";
        UmadLive: "`ib_umad` is live, and MOFED's.";
        RdmaDevicePresent: "The management device has an RDMA device.";
        VersionMatches: "`mlx5_core` has the version that is expected.";
        SymbolsExported: "A live module exports the peer-memory symbols.";
        HeadersReady: "nvidia-peermem can be built against MOFED's headers.";
        PeermemUsable: "The nvidia-peermem.ko at hand will load.";
        Settled: "All of the above were met without a break.";
    }
}

terms! {
    /// Kubernetes' three values: `Unknown` is not `False`, and is not ready either.
    #[derive(Serialize, Deserialize)]
    Status {
        True: "The condition is met.";
        False: "The condition is not met, or exempts this node.";
        Unknown: "What decides the condition cannot be read, or does not exist here.";
    }
}

/// The consequence of a reason for the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// The gate does not wait for this condition.
    Passes,
    /// The gate waits until the condition is met.
    Waits,
    /// The gate stays closed, and waiting cannot cure it.
    Blocks,
    /// The gate does not apply to this node.
    Exempts,
}

macro_rules! reasons {
    ($($name:ident: $status:ident $consequence:ident, $meaning:literal;)*) => {
        terms! {
            /// Why a condition has its status, by condition, and there the one to give first when several fit. Names
            /// are stable; docs/conditions.md explains each. A meaning is a few ASCII words, fit for a line of 80
            /// bytes behind the name.
            #[expect(clippy::doc_markdown, reason = "the meanings are shown as plain text")]
            #[derive(Serialize, Deserialize)]
            Reason { $($name: $meaning;)* }
        }

        impl Reason {
            /// The status of a condition with this reason.
            #[must_use]
            pub fn status(self) -> Status {
                match self { $(Self::$name => Status::$status,)* }
            }

            /// The consequence for the gate.
            #[must_use]
            pub fn consequence(self) -> Consequence {
                match self { $(Self::$name => Consequence::$consequence,)* }
            }
        }
    };
}

reasons! {
    Requested: True Passes, "GPUDirect RDMA is requested";
    RdmaNotRequested: False Exempts, "GPUDirect RDMA is not requested";
    SettingsContradict: Unknown Waits, "two GPU Operator containers contradict each other";

    NicFound: True Passes, "a Mellanox device exists";
    NicAway: False Waits, "the Mellanox device is off the PCI bus";
    NoRdmaDevice: False Exempts, "no Mellanox device on this node";
    DevicesUnreadable: Unknown Waits, "PCI devices cannot be read, or just changed";

    ManagementDeviceFound: True Passes, "an NVLink 5 management device exists";
    ManagementDeviceAway: False Waits, "the NVLink 5 device is off the PCI bus";
    NoManagementDevice: False Exempts, "no NVLink 5 management device";
    VpdUnreadable: Unknown Waits, "a Mellanox device's vpd cannot be read";

    MarkerFound: True Passes, "MOFED's marker exists";
    MarkerAbsent: False Waits, "MOFED has not set its marker";
    MarkerParentMissing: False Waits, "the marker's directory does not exist";
    MarkerDirectoryUnlinked: False Blocks, "this mount shows a deleted directory";
    MarkerNotAFile: False Waits, "the marker's path is not a regular file";
    MarkerUnreadable: Unknown Waits, "the marker cannot be examined";

    LockHeld: True Passes, "MOFED holds its lock";
    NoMarker: True Passes, "there is no marker to check";
    MarkerBelieved: True Passes, "the suspect marker is accepted now";
    MarkerSuspect: False Waits, "the marker may be left over from a dead MOFED";
    NoLockFile: Unknown Passes, "this MOFED has no lock file";
    LockHolderHidden: Unknown Passes, "lock holders are hidden from here";
    LocksUnreadable: Unknown Waits, "lock holders cannot be read";

    AllLive: True Passes, "all RDMA modules are live";
    ModuleNotLoaded: False Waits, "an RDMA module is not loaded";
    ModuleLoading: False Waits, "an RDMA module is still loading";
    ModuleUnloading: False Waits, "an RDMA module is being unloaded";
    WitnessesDisagree: False Waits, "procfs and sysfs disagree on a module";
    ModulesUnreadable: Unknown Waits, "module states cannot be read";

    OutOfTree: True Passes, "the modules are MOFED's";
    InTreeWithPeerMemory: True Passes, "the kernel's own stack has peer memory";
    ModuleInTree: False Waits, "the kernel's own RDMA modules are live";
    MixedStack: False Waits, "MOFED's and in-tree modules are mixed";

    RdmaDeviceFound: True Passes, "the management device has an RDMA device";
    FabricDeviceMissing: False Waits, "a management device has no RDMA device";
    RdmaDevicesUnreadable: Unknown Waits, "RDMA devices cannot be read";

    VersionAgrees: True Passes, "mlx5_core has the expected version";
    VersionMismatch: False Waits, "mlx5_core is not of the expected version";
    VersionNotExpected: Unknown Passes, "no version is expected";
    VersionUnreadable: Unknown Waits, "mlx5_core's version cannot be read";

    SymbolExported: True Passes, "peer-memory symbols are exported";
    SymbolMissing: False Waits, "no live module exports peer memory";
    SymbolsNotRead: Unknown Waits, "symbols are not read yet";
    SymbolsUnreadable: Unknown Passes, "kernel symbols cannot be read";

    HeadersComplete: True Passes, "MOFED's headers are complete";
    HeadersMissing: False Waits, "MOFED's headers are missing";
    HeadersForOtherKernel: False Waits, "MOFED's headers are for other kernels";
    HeadersIncomplete: False Waits, "MOFED's Module.symvers is incomplete";
    HeadersWithoutPeerMemory: False Waits, "MOFED's headers lack peer memory";
    HeadersUnreadable: Unknown Waits, "MOFED's headers cannot be read";

    PeermemLive: True Passes, "nvidia_peermem is live";
    Usable: True Passes, "nvidia-peermem.ko will load";
    LoadedOnGoneStack: False Blocks, "nvidia_peermem uses replaced modules";
    BuildSkipped: False Blocks, "no usable nvidia-peermem.ko, and the next driver pod builds none";
    ModuleFileMissing: False Blocks, "modprobe finds no nvidia-peermem.ko";
    StubModule: False Blocks, "nvidia-peermem.ko was built without MOFED";
    SymbolVersionMismatch: False Blocks, "nvidia-peermem.ko is for another ABI";
    WrongKernel: False Blocks, "nvidia-peermem.ko is for another kernel";
    SymbolVersionMissing: False Blocks, "nvidia-peermem.ko lacks symbol versions";
    UnsignedModule: False Blocks, "nvidia-peermem.ko is not signed";
    LegacyClientLoaded: False Blocks, "nv_peer_mem is loaded";
    BadParameter: False Blocks, "a parameter has a bad value";
    InstallLine: False Blocks, "modprobe.d runs a command instead";
    OtherDriverLoaded: False Blocks, "nvidia-peermem.ko is of another driver";
    ModuleFileDamaged: False Blocks, "nvidia-peermem.ko is damaged";
    DependencyNotLive: False Waits, "a needed module is not live";
    ModuleFileUnreadable: Unknown Waits, "nvidia-peermem.ko cannot be read";
    SignatureUnknown: Unknown Waits, "the signature policy is unknown";
    SymbolVersionUnknown: Unknown Waits, "symbol versions cannot be compared";

    Held: True Passes, "every condition was met for the settle time";
    Settling: False Waits, "every condition is met; the settle time runs";

    NotRequired: True Passes, "not required";
}

impl Reason {
    /// Only the file of nvidia-peermem is wrong: a rebuild of that file cures it.
    #[must_use]
    pub fn needs_rebuild(self) -> bool {
        matches!(
            self,
            Self::BuildSkipped
                | Self::StubModule
                | Self::SymbolVersionMismatch
                | Self::SymbolVersionMissing
                | Self::ModuleFileMissing
                | Self::WrongKernel
                | Self::UnsignedModule
                | Self::ModuleFileDamaged
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_true_condition_never_closes_the_gate_and_a_false_one_never_passes() {
        for reason in Reason::ALL {
            match reason.status() {
                Status::True => assert_eq!(reason.consequence(), Consequence::Passes, "{reason}"),
                Status::False => assert_ne!(reason.consequence(), Consequence::Passes, "{reason}"),
                Status::Unknown => {}
            }
        }
    }

    #[test]
    fn headlines_are_short_ascii_lines() {
        for reason in Reason::ALL {
            let line = format!("{reason}: {}", reason.meaning());
            assert!(line.len() <= 80 && line.is_ascii() && !line.contains('\n'), "{line}");
        }
    }
}
