// SPDX-License-Identifier: Apache-2.0
//! What sentences mean: a closed list, with words for people.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

macro_rules! meanings {
    ($($name:ident: $phrase:literal;)*) => {
        /// What a sentence means. Several programs, or releases of one, may mean the same.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Meaning { $(#[doc = concat!("``", $phrase, "``")] $name,)* }

        impl Meaning {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its stable name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// A phrase for people; `<why>` stands for that field of the sentence.
            #[must_use]
            pub fn phrase(self) -> &'static str {
                match self { $(Self::$name => $phrase,)* }
            }
        }
    };
}

meanings! {
    // MOFED.
    MofedStarted: "the MOFED container starts";
    MofedAlreadyRunning: "another MOFED container holds the lock";
    MofedMarkerUnset: "MOFED removes its marker";
    MofedStorageModulesLoaded: "MOFED refuses to start: storage modules are loaded";
    MofedThirdPartyModulesLoaded: "MOFED refuses to start: third-party RDMA modules are loaded";
    MofedPeermemInUse: "MOFED refuses to start: nvidia_peermem is in use";
    MofedUnloadsPeermem: "MOFED unloads nvidia_peermem";
    MofedPeermemNotUnloaded: "MOFED cannot unload nvidia_peermem";
    MofedStartFailed: "MOFED's preparation fails";
    MofedBuildStarted: "MOFED's build starts";
    MofedAwaitsToolkit: "MOFED waits for its driver toolkit";
    MofedBuildFinished: "MOFED's build ends";
    MofedBuildSkipped: "MOFED reuses an earlier build";
    MofedBuildTimedOut: "MOFED gives up waiting for its driver toolkit";
    MofedPackagesUnreachable: "MOFED cannot get packages";
    MofedLoads: "MOFED starts to swap modules";
    MofedCommandFailed: "MOFED: `<command>` fails with <number>";
    MofedModuleInUse: "<module> cannot be unloaded: <holders>";
    MofedUnloaded: "MOFED has unloaded the old driver";
    MofedUnloadFailed: "MOFED cannot unload the old driver";
    MofedLoaded: "MOFED has loaded its driver";
    MofedLoadFailed: "MOFED cannot load its driver";
    MofedModuleRefused: "MOFED's <module> is refused: <why>";
    MofedVersion: "mlx5_core reports <version>";
    MofedHeadersShown: "MOFED shows its headers";
    MofedRestoresNics: "MOFED restores SR-IOV";
    MofedMarkerSet: "MOFED sets its marker";
    MofedReady: "MOFED is done";
    MofedTerminated: "the MOFED container is told to end";
    MofedFailed: "MOFED's start fails: <context>";

    // k8s-driver-manager.
    DriverManagerStarted: "k8s-driver-manager starts";
    DriverManagerAsksForMofed: "k8s-driver-manager asks for MOFED";
    DriverManagerWaitsForMofed: "k8s-driver-manager waits for MOFED";
    DriverManagerDone: "k8s-driver-manager is done";
    DriverKept: "k8s-driver-manager keeps the loaded driver";
    DriverPreinstalled: "the host has a GPU driver of its own";
    RdmaRequested: "GPUDirect RDMA is enabled";
    NicFound: "a Mellanox device is at <bdf>";
    NoNic: "no Mellanox device is found";
    DriverInUse: "the loaded GPU driver cannot be unloaded: it is in use";
    ModuleNotUnloaded: "<module> cannot be unloaded: <why>";
    VfioNotUnbound: "vfio-pci cannot be unbound from the GPUs";

    // The driver's container and its toolkit.
    DriverStarted: "the GPU driver's installation starts";
    DriverAlreadyRunning: "another driver container holds the lock";
    DriverAwaitsToolkit: "nvidia-driver-ctr waits for its driver toolkit";
    ToolkitStarted: "the GPU driver's driver toolkit starts";
    ToolkitBroken: "the driver toolkit does not fit this kernel";
    ToolkitReusesBuild: "the driver toolkit has built already and builds nothing";
    ToolkitRebuilds: "the driver toolkit builds again";
    DriverBuildStarted: "the GPU driver's build starts";
    DriverRelinked: "the GPU driver's modules are linked";
    DriverBuildFinished: "the GPU driver's build ends";
    DriverBuildFailed: "the GPU driver's build fails";
    DriverPackagesUnreachable: "the GPU driver's container cannot get packages";
    MofedSymversMissing: "the GPU driver's build finds no Module.symvers of MOFED's";
    DriverInstalled: "the GPU driver's modules are installed";
    UserspaceOnlyInstall: "nvidia-driver-ctr installs without kernel modules";
    DriverUnloads: "nvidia-driver-ctr unloads its modules";
    DriverLoads: "nvidia-driver-ctr loads its modules";
    DriverModprobe: "modprobe nvidia";
    PeermemModprobe: "modprobe nvidia-peermem";
    PeermemRefused: "nvidia_peermem is refused: <why>";
    PeermemFileMissing: "modprobe finds no nvidia-peermem";
    ModuleRefused: "<module> is refused: <why>";
    NvlinkAwaitsMofed: "nvidia-driver-ctr waits for mlx5_core and ib_umad";
    FabricManagerStarted: "Fabric Manager starts";
    DriverMounted: "nvidia-driver-ctr mounts the driver's root";
    DriverReady: "the GPU driver is ready";
    DriverTerminated: "the driver container is told to end";

    // nvidia-peermem-ctr.
    PeermemWaits: "nvidia-peermem-ctr waits for MOFED and the driver";
    PeermemLoaded: "nvidia-peermem-ctr has loaded nvidia_peermem";
    PeermemLoadFailed: "nvidia-peermem-ctr fails";

    // What comes after the driver.
    DriverValidationStarted: "the validator looks for the driver";
    DriverNotValid: "the validator does not find the driver ready";
    ValidationFailed: "a validation fails";
    ToolkitAwaited: "a pod waits for the toolkit's validation";
    RuntimeConfigured: "the toolkit configures the container runtime";
    ToolkitReady: "the toolkit is ready";
    TooManyOpenFiles: "the kernel gives no more inotify instances";

    // The gate.
    GateWaits: "the gate waits: <what>";
    GateOpened: "the gate opens";
    GateGaveUp: "the gate gives up: <what>";

    // The kernel.
    KernelStarted: "the kernel starts: <version>";
    NicProbed: "mlx5_core takes <bdf>";
    MofedCompatLoaded: "MOFED's mlx_compat is loaded";
    NvidiaLoaded: "nvidia is loaded: <version>";
    NvidiaProbeFailed: "nvidia cannot use a GPU";
    NouveauTookGpu: "nouveau takes <bdf>";
    KernelDisagreesAboutVersion: "the kernel refuses <module>: another version of <symbol>";
    KernelUnknownSymbol: "the kernel refuses <module>: <symbol> is missing (<number>)";
    KernelGaveUpWaiting: "the kernel gives up waiting for <needed>, which <module> needs";
    KernelNoSymbolVersion: "the kernel refuses <module>: it has no version of <symbol>";
    KernelVersionMagic: "the kernel refuses <module>: built for another kernel";
    KernelBadParameter: "the kernel refuses <module>: <value> for <parameter>";
    ModuleSignatureRejected: "the kernel refuses a module without a valid signature";
    KernelLockdown: "the kernel is locked down: <what>";
    KernelDuplicateSymbol: "the kernel refuses <module>: <symbol> exists already";
    PeermemNameTaken: "another client has registered as nv_mem";
    PeermemRegistrationFailed: "nvidia_peermem cannot register";
    PeermemBadParameter: "nvidia_peermem refuses a parameter";

    // Clocks.
    ClockStepped: "the system clock is stepped by <seconds> s";
}

impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Meaning {
    /// The phrase with the sentence's fields in it, as they came: escape it where it is printed.
    #[must_use]
    pub fn told(self, fields: &BTreeMap<String, String>) -> String {
        let mut told = self.phrase().to_owned();
        for (name, value) in fields {
            told = told.replace(&format!("<{name}>"), value);
        }
        told
    }
}
