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

        named!(Meaning: $($name),*);

        impl Meaning {
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
    MofedDiskFull: "MOFED cannot write its files: the disk is full";
    MofedBuildFailed: "MOFED's build of <package> fails";
    MofedModuleInUse: "<module> cannot be unloaded: <holders>";
    MofedUnloaded: "MOFED has unloaded the old driver";
    MofedUnloadFailed: "MOFED cannot unload the old driver";
    MofedLoaded: "MOFED has loaded its driver";
    MofedLoadFailed: "MOFED cannot load its driver";
    MofedModuleRefused: "MOFED's <module> is refused: <why>";
    MofedModuleUnsupported: "MOFED's <module> is refused: SUSE does not support it";
    MofedVersion: "mlx5_core reports <version>";
    MofedHeadersShown: "MOFED shows its headers";
    MofedRestoresNics: "MOFED restores SR-IOV";
    MofedMarkerSet: "MOFED sets its marker";
    MofedReady: "MOFED is done";
    MofedTerminated: "the MOFED container gets a signal to end";
    MofedFailed: "MOFED's start fails: <context>";

    // k8s-driver-manager.
    DriverManagerStarted: "k8s-driver-manager starts";
    DriverManagerAsksForMofed: "k8s-driver-manager asks for MOFED";
    DriverManagerWaitsForMofed: "k8s-driver-manager waits for MOFED";
    EvictionBlocked: "pod <pod> of namespace <namespace> cannot be evicted: a disruption budget keeps it";
    DriverManagerDone: "k8s-driver-manager is done";
    DriverKept: "k8s-driver-manager keeps the loaded driver";
    DriverPreinstalled: "a GPU driver is installed on the host";
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
    ToolkitReusesBuild: "the driver toolkit has already built and builds nothing";
    ToolkitRebuilds: "the driver toolkit builds again";
    DriverBuildStarted: "the GPU driver's build starts";
    DriverRelinked: "the GPU driver's modules are linked";
    DriverBuildFinished: "the GPU driver's build ends";
    DriverBuildFailed: "the GPU driver's build fails";
    DriverDiskFull: "the GPU driver's container cannot write its files: the disk is full";
    DriverCompilerUnfit: "the GPU driver's build: the compiler does not know an option of the kernel's: <option>";
    DriverFileMissing: "modprobe finds no nvidia";
    DriverPackagesUnreachable: "the GPU driver's container cannot get packages";
    MofedSymversMissing: "the GPU driver's build finds no Module.symvers from MOFED";
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
    FabricManagerUnfit: "Fabric Manager <manager> refuses driver <driver>";
    DriverMounted: "nvidia-driver-ctr mounts the driver's root";
    DriverReady: "the GPU driver is ready";
    DriverTerminated: "the driver container gets a signal to end";

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
    ToolkitTooOld: "the toolkit cannot read the runtime's configuration of version <version>";
    CudaFailed: "a CUDA program fails: <error>";
    DevicePluginFailed: "the device plugin fails: <why>";
    DevicePluginBlind: "the device plugin finds no driver";
    DevicePluginReady: "the device plugin has registered <resource>";
    TooManyOpenFiles: "the limit of inotify instances is reached";

    GpuInforomCorrupted: "the infoROM of <bdf> is corrupted";
    SriovLockedDown: "the SR-IOV operator changes no NIC: the kernel is locked down";
    ImexSessionTaken: "the IMEX daemon gets no session: another one has it";
    ImexReady: "the IMEX domain is ready";
    MigManagerFailed: "mig-manager fails";
    MigManagerDone: "mig-manager has applied its configuration";
    RdmaPluginNetns: "the RDMA device plugin ends: RDMA devices are in exclusive network namespace mode";
    RdmaPluginMisses: "the RDMA device plugin leaves out <bdf>: it finds no <file>";
    RdmaPluginSelectsNone: "the RDMA device plugin finds no RDMA device for <resource>";
    RdmaPluginExposes: "the RDMA device plugin offers <number> devices";

    // kubelet.
    ImageNotPulled: "the image of <container> cannot be pulled: <why>";
    MountNotShared: "<container> is not started: <why>it is not a shared mount";
    ToolkitRootMissing: "<container> is not started: the container toolkit finds no driver root";
    DeviceRulesRefused: "<container> is not started: the kernel refuses the container toolkit's device filter";
    ToolkitLibcTooOld: "<container> is not started: the container toolkit needs glibc <libc>";
    CudaNotSatisfied: "<container> is not started: its image requires CUDA <cuda>";
    CniPluginMissing: "a pod gets no network: <plugin> is not on the node";
    MacvlanRefused: "a pod gets no network: the kernel refuses a macvlan";
    MultusUnauthorized: "a pod gets no network: the API server rejects the token of multus";
    KubeletFailed: "kubelet ends: <why>";
    StartupProbeFailed: "kubelet ends <container>: its startup probe has failed";
    CdiUnresolved: "<container> is not started: there is no CDI device <device>";

    // The gate.
    GateWaits: "the gate waits: <what>";
    GateOpened: "the gate opens";
    GateGaveUp: "the gate gives up: <what>";

    // The host's services.
    CriNotLoaded: "containerd runs without its CRI plugin: <why>";
    CriLoaded: "containerd starts its CRI plugin";
    VgpuUnlicensed: "the vGPU gets no licence";
    VgpuLicensed: "the vGPU has its licence";
    NvlsmMissing: "Fabric Manager finds no NVLSM";

    // The kernel.
    KernelStarted: "the kernel starts: <version>";
    NicProbed: "mlx5_core takes <bdf>";
    MofedCompatLoaded: "MOFED's mlx_compat is loaded";
    NvidiaLoaded: "nvidia is loaded: <version>";
    NvidiaProbeFailed: "nvidia cannot use a GPU";
    GpuBarInvalid: "nvidia refuses a GPU: a BAR has no address";
    GpuNeedsOpenModules: "nvidia refuses a GPU: it needs the open kernel modules";
    GpuNeedsProprietaryModules: "nvidia refuses a GPU: the open kernel modules do not support it";
    GpuNotSupported: "nvidia refuses a GPU: this driver release does not support it";
    GpuFirmwareMissing: "nvidia finds no firmware for a GPU";
    GpuLost: "a GPU has fallen off the bus";
    GpuNeedsReset: "a GPU reports an error that only a reset clears";
    DriverApiMismatch: "a program's driver libraries are of another version than nvidia";
    KernelOutOfMemory: "the kernel kills <program> in <cgroup>: its memory limit is reached";
    SelinuxDenied: "SELinux forbids the load of a module";
    NicFirmwareFailed: "the firmware of <bdf> does not answer";
    NicProbeFailed: "mlx5_core cannot use <bdf>";
    PortDown: "the link of <bdf> is down";
    NouveauTookGpu: "nouveau takes <bdf>";
    VfsWithoutRoom: "<bdf> gets no virtual functions: their memory has no room";
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
    HostPeermemRefused: "Talos cannot load nvidia_peermem: <why>";

    // Clocks.
    ClockStepped: "the system clock is stepped by <seconds> s";
}

impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Meaning {
    /// kubelet's words about any pod, which need be no step of MOFED's or the driver's.
    #[must_use]
    pub fn is_of_any_pod(self) -> bool {
        matches!(
            self,
            Self::CudaNotSatisfied | Self::CniPluginMissing | Self::MacvlanRefused | Self::MultusUnauthorized
        )
    }

    /// The phrase with the sentence's fields in it, as they came: escape it where it is printed.
    #[must_use]
    pub fn text(self, fields: &BTreeMap<String, String>) -> String {
        let mut text = self.phrase().to_owned();
        for (name, value) in fields {
            text = text.replace(&format!("<{name}>"), value);
        }
        text
    }
}
