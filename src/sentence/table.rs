// SPDX-License-Identifier: Apache-2.0
//! Every sentence that is understood. A new one is a line here, and a line in tests/sentences that fits and
//! one that almost does.
//!
//! The words are the upstream programs' own ([`Who::source`]); releases are those of the program that speaks
//! (`-` where no release is known to lack it). Each was read in upstream's source or in a log of a cluster.
#![allow(clippy::enum_glob_use, reason = "a row is a line")]

use super::Meaning::{self, *};
use super::Who::{self, *};

/// A sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// Who says it.
    pub who: Who,
    /// The first release that does.
    pub since: &'static str,
    /// Its words, with fields in angle brackets.
    pub words: &'static str,
    /// What it means.
    pub meaning: Meaning,
    /// It is said again and again while nothing changes.
    pub is_polled: bool,
}

const fn says(who: Who, since: &'static str, words: &'static str, meaning: Meaning) -> Sentence {
    Sentence { who, since, words, meaning, is_polled: false }
}

const fn repeats(who: Who, since: &'static str, words: &'static str, meaning: Meaning) -> Sentence {
    Sentence { who, since, words, meaning, is_polled: true }
}

/// Of two that fit, the first counts.
#[rustfmt::skip]
pub const SENTENCES: &[Sentence] = &[
    // entrypoint.sh
    says(MofedBash, "24.04", "NVIDIA driver container exec start", MofedStarted),
    says(MofedBash, "24.04", "Attempting to unload (unutilized) module: nvidia_peermem", MofedUnloadsPeermem),
    says(MofedBash, "24.04", "Module nvidia_peermem is used and will FAIL driver reload, aborting execution.", MofedPeermemInUse),
    says(MofedBash, "24.04", "Storage modules are loaded for current driver, terminating prior driver reload failure due to UNLOAD_STORAGE_MODULES not set to \"true\"", MofedStorageModulesLoaded),
    says(MofedBash, "24.04", "Unsetting driver ready state", MofedMarkerUnset),
    says(MofedBash, "24.04", "Starting driver build", MofedBuildStarted),
    repeats(MofedBash, "24.04", "Awaiting openshift driver toolkit to complete NIC driver build, next query in <number> sec", MofedAwaitsToolkit),
    says(MofedBash, "24.04", "Timeout (<number> sec.) awating DTK compilation, <path> not found", MofedBuildTimedOut),
    says(MofedBash, "24.04", "Stored driver packages at <path>", MofedBuildFinished),
    says(MofedBash, "24.04", "Skipping driver build, reusing previously built packages for kernel <version>", MofedBuildSkipped),
    says(MofedBash, "24.04", "Apply blacklisted mofed modules file to host (<path>)", MofedLoads),
    says(MofedBash, "24.04", "Command \"<command..>\" failed with exit code: <number>", MofedCommandFailed),
    says(MofedBash, "24.04", "Failed to restart openibd", MofedLoadFailed),
    says(MofedBash, "24.04", "Current mlx5_core driver version: <version>", MofedVersion),
    says(MofedBash, "24.04", "Mounting Mellanox OFED driver container shared kernel headers", MofedHeadersShown),
    repeats(MofedBash, "24.04", "Restoring SR-IOV config for device: <bdf> (VFs=<number>) netdev name: <netdev>", MofedRestoresNics),
    says(MofedBash, "24.04", "Setting driver ready state", MofedMarkerSet),
    says(MofedBash, "24.04", "NVIDIA driver container exec end, sleeping", MofedReady),
    says(MofedBash, "24.04", "Terminate event caught", MofedTerminated),
    // What its commands print: openibd, rmmod, modprobe, dnf, apt.
    says(MofedBash, "-", "Unloading HCA driver:<fill..>[ OK ]", MofedUnloaded),
    says(MofedBash, "-", "Unloading HCA driver:<fill..>[FAILED]", MofedUnloadFailed),
    says(MofedBash, "-", "Loading HCA driver and Access Layer:<fill..>[ OK ]", MofedLoaded),
    says(MofedBash, "-", "Loading HCA driver and Access Layer:<fill..>[FAILED]", MofedLoadFailed),
    says(MofedBash, "-", "Failed loading kernel module <module>:<why..>", MofedModuleRefused),
    says(MofedBash, "-", "rmmod: ERROR: Module <module> is in use by: <holders..>", MofedModuleInUse),
    says(MofedBash, "-", "rmmod: ERROR: Module <module> is in use", MofedModuleInUse),
    says(MofedBash, "-", "modprobe: ERROR: could not insert '<module>': <why..>", MofedModuleRefused),
    says(MofedBash, "-", "Error: Failed to download metadata for repo '<repo>': <why..>", MofedPackagesUnreachable),
    says(MofedBash, "-", "Error: Unable to find a match: <packages..>", MofedPackagesUnreachable),
    says(MofedBash, "-", "E: Unable to locate package <package>", MofedPackagesUnreachable),
    says(MofedBash, "-", "Failed to build <package> DEB", MofedBuildFailed),
    says(MofedBash, "-", "Failed to build <package> RPM", MofedBuildFailed),
    says(MofedBash, "-", "tar: <file..>: No space left on device", MofedDiskFull),
    says(MofedBash, "-", "cp: <file..>: No space left on device", MofedDiskFull),
    says(MofedBash, "-", "E: You don't have enough free space in <path>", MofedDiskFull),
    says(MofedBash, "-", "E: Unable to correct problems, you have held broken packages.", MofedPackagesUnreachable),
    repeats(MofedBash, "-", "- Curl error (<number>): <why..>", MofedPackagesUnreachable),

    // The Go entrypoint: default since doca-driver 26.07, in the images before that.
    says(MofedGo, "25.04", "the container already running {<context..>", MofedAlreadyRunning),
    says(MofedGo, "25.04", "NVIDIA driver container exec preStart", MofedStarted),
    says(MofedGo, "25.04", "driver ready indicator cleared {<context..>", MofedMarkerUnset),
    says(MofedGo, "25.04", "failed to unload nvidia_peermem module {\"error\": \"module is used by other modules: <holders..>", MofedPeermemInUse),
    says(MofedGo, "25.04", "failed to unload nvidia_peermem module {<context..>", MofedPeermemNotUnloaded),
    says(MofedGo, "25.04", "kernel modules check failed {\"error\": \"storage modules are loaded<context..>", MofedStorageModulesLoaded),
    says(MofedGo, "26.04", "kernel modules check failed {\"error\": \"third-party RDMA modules are loaded<context..>", MofedThirdPartyModulesLoaded),
    says(MofedGo, "26.04", "third-party RDMA modules are loaded<context..>", MofedThirdPartyModulesLoaded),
    says(MofedGo, "25.04", "exec preStart failed {<context..>", MofedStartFailed),
    says(MofedGo, "26.01", "Starting DTK driver build", MofedBuildStarted),
    repeats(MofedGo, "26.01", "Awaiting DTK compilation {<context..>", MofedAwaitsToolkit),
    says(MofedGo, "26.01", "DTK build completed", MofedBuildFinished),
    says(MofedGo, "25.04", "Driver build completed successfully {<context..>", MofedBuildFinished),
    says(MofedGo, "25.04", "Skipping driver build, reusing previously built packages {<context..>", MofedBuildSkipped),
    says(MofedGo, "25.04", "NVIDIA driver container exec start", MofedLoads),
    says(MofedGo, "25.04", "Mounting Mellanox OFED driver container shared kernel headers", MofedHeadersShown),
    says(MofedGo, "25.04", "driver ready indicator set {<context..>", MofedMarkerSet),
    says(MofedGo, "25.04", "configuration done, sleep", MofedReady),
    says(MofedGo, "25.04", "NVIDIA driver container exec stop", MofedTerminated),
    says(MofedGo, "25.04", "exec failed {<context..>", MofedFailed),

    // MOFED's driver toolkit, on OpenShift.
    says(MofedToolkit, "24.04", "Starting compilation of driver version <version>", MofedBuildStarted),
    says(MofedToolkit, "26.01", "Starting compilation of driver {\"version\": \"<version>\"}", MofedBuildStarted),
    says(MofedToolkit, "24.04", "DTK driver build script end", MofedBuildFinished),

    // k8s-driver-manager: bash up to 0.8, Go since.
    says(DriverManager, "0.9.0", "Starting driver uninstallation process", DriverManagerStarted),
    says(DriverManager, "0.6.5", "GPUDirectRDMA is enabled, validating MOFED driver installation", RdmaRequested),
    says(DriverManager, "0.9.0", "Mellanox device found at <bdf>", NicFound),
    says(DriverManager, "0.9.0", "No Mellanox devices were found", NoNic),
    says(DriverManager, "0.9.0", "Waiting for MOFED to be installed", DriverManagerAsksForMofed),
    repeats(DriverManager, "0.6.5", "Waiting for MOFED to be installed...", DriverManagerWaitsForMofed),
    says(DriverManager, "0.9.0", "Driver uninstallation completed successfully", DriverManagerDone),
    says(DriverManager, "0.10.0", "The NVIDIA driver is already loaded with the desired version and configuration, skipping the uninstallation of the driver in an attempt to not disrupt running workloads", DriverKept),
    says(DriverManager, "-", "NVIDIA GPU driver is already pre-installed on the node, disabling the containerized driver", DriverPreinstalled),
    says(DriverManager, "-", "NVIDIA GPU driver is already pre-installed on the node, disabling the containerized driver on the node", DriverPreinstalled),
    says(DriverManager, "-", "Could not unload NVIDIA driver kernel modules, driver is in use", DriverInUse),
    repeats(DriverManager, "-", "error when evicting pods/\"<pod>\" -n \"<namespace>\" (will retry after <delay>): Cannot evict pod as it would violate the pod's disruption budget.", EvictionBlocked),
    says(DriverManager, "0.9.0", "Failed to unload kernel module <module>: <why..>", ModuleNotUnloaded),
    says(DriverManager, "-", "Unable to unbind vfio-pci driver from all devices", VfioNotUnbound),

    // nvidia-driver, in the driver's container.
    says(Driver, "-", "Starting installation of NVIDIA driver version <version> for Linux kernel version <kernel>", DriverStarted),
    says(Driver, "-", "An instance of the NVIDIA driver is already running, aborting", DriverAlreadyRunning),
    repeats(Driver, "-", "Waiting for openshift-driver-toolkit-ctr container to start ...", DriverAwaitsToolkit),
    repeats(Driver, "-", "Waiting for openshift-driver-toolkit-ctr container to build the precompiled driver ...", DriverAwaitsToolkit),
    says(Driver, "-", "WARNING: broken driver toolkit detected, using entitlement-based fallback", ToolkitBroken),
    says(Driver, "26.3", "The NVIDIA driver is already loaded with the desired configuration, performing userspace-only install", UserspaceOnlyInstall),
    says(Driver, "26.3", "Fast path detected: skipping DTK build and module copy, proceeding with userspace-only install", UserspaceOnlyInstall),
    says(Driver, "-", "Stopping NVIDIA persistence daemon...", DriverUnloads),
    says(Driver, "-", "Unloading NVIDIA driver kernel modules...", DriverUnloads),
    says(Driver, "-", "Could not unload NVIDIA driver kernel modules, driver is in use", DriverInUse),
    says(Driver, "-", "FATAL: failed to reach RHEL package repositories. Ensure that the cluster can access the proper networks.", DriverPackagesUnreachable),
    says(Driver, "-", "FATAL: failed to update the dnf metadata cache after multiple attempts with releasevers <releases..>", DriverPackagesUnreachable),
    says(Driver, "-", "FATAL: failed to install elfutils-libelf-devel. RHEL entitlement may be improperly deployed.", DriverPackagesUnreachable),
    says(Driver, "-", "FATAL: failed to install elfutils-libel-devel. RHEL entitlement may be improperly deployed.", DriverPackagesUnreachable),
    says(Driver, "-", "ERROR: Failed to update package cache. Ensure that the cluster can access the proper networks.", DriverPackagesUnreachable),
    says(Driver, "-", "Could not resolve Linux kernel version", DriverPackagesUnreachable),
    says(Driver, "-", "Error: Unable to find a match: <packages..>", DriverPackagesUnreachable),
    says(Driver, "-", "E: Unable to locate package <package>", DriverPackagesUnreachable),
    repeats(Driver, "-", "E: Failed to fetch <url> <why..>", DriverPackagesUnreachable),
    repeats(Driver, "-", "curl: (6) Could not resolve host: <host>", DriverPackagesUnreachable),
    says(Driver, "-", "tar: <file..>: No space left on device", DriverDiskFull),
    says(Driver, "-", "cp: <file..>: No space left on device", DriverDiskFull),
    says(Driver, "-", "E: You don't have enough free space in <path>", DriverDiskFull),
    says(Driver, "-", "Mellanox device found at <bdf>", NicFound),
    says(Driver, "-", "No Mellanox devices were found...", NoNic),
    says(Driver, "-", "Compiling NVIDIA driver kernel modules...", DriverBuildStarted),
    says(Driver, "24.04", "Installing Linux kernel headers...", DriverBuildStarted),
    says(Driver, "-", "Relinking NVIDIA driver kernel modules...", DriverRelinked),
    says(Driver, "-", "ERROR: Unable to build the NVIDIA kernel module.<more..>", DriverBuildFailed),
    repeats(Driver, "-", "make[<number>]: *** [<target..>] Error <number>", DriverBuildFailed),
    repeats(Driver, "-", "cc: error: unrecognized command-line option <option>", DriverCompilerUnfit),
    repeats(Driver, "-", "gcc: error: unrecognized command-line option <option>", DriverCompilerUnfit),
    repeats(Driver, "-", "cc1: error: unrecognized command-line option <option>", DriverCompilerUnfit),
    says(Driver, "-", "ERROR: The kernel module failed to load, because it was not signed by a key<more..>", ModuleSignatureRejected),
    says(Driver, "-", "/usr/src/ofa_kernel/<tree..>Module.symvers: No such file or directory", MofedSymversMissing),
    says(Driver, "-", "Installing NVIDIA driver kernel modules...", DriverInstalled),
    says(Driver, "-", "Loading NVIDIA driver kernel modules...", DriverLoads),
    says(Driver, "-", "+ modprobe nvidia", DriverModprobe),
    says(Driver, "-", "+ modprobe nvidia <parameters..>", DriverModprobe),
    says(Driver, "-", "Loading NVIDIA Peer Memory kernel module...", PeermemModprobe),
    says(Driver, "-", "+ modprobe nvidia-peermem<parameters..>", PeermemModprobe),
    says(Driver, "-", "+ modprobe -a nvidia-peermem<parameters..>", PeermemModprobe),
    says(Driver, "-", "modprobe: ERROR: could not insert 'nvidia_peermem': <why..>", PeermemRefused),
    says(Driver, "-", "modprobe: FATAL: Module nvidia-peermem not found in directory <path>", PeermemFileMissing),
    says(Driver, "-", "modprobe: FATAL: Module nvidia not found in directory <path>", DriverFileMissing),
    says(Driver, "-", "modprobe: ERROR: could not insert '<module>': <why..>", ModuleRefused),
    says(Driver, "-", "rmmod: ERROR: Module <module> is in use by: <why..>", ModuleNotUnloaded),
    repeats(Driver, "25.3", "waiting for the mlx5_core and ib_umad kernel modules to be loaded", NvlinkAwaitsMofed),
    says(Driver, "25.3", "Starting NVIDIA fabric manager daemon for NVLink5+...", FabricManagerStarted),
    says(Driver, "-", "Starting NVIDIA fabric manager daemon...", FabricManagerStarted),
    says(Driver, "-", "fabric manager NVIDIA GPU driver interface version <manager> don't match with driver version <driver>. Please update with matching NVIDIA driver package.", FabricManagerUnfit),
    says(Driver, "-", "Mounting NVIDIA driver rootfs...", DriverMounted),
    says(Driver, "-", "Done, now waiting for signal", DriverReady),
    says(Driver, "-", "Caught signal", DriverTerminated),

    // The same script builds in the driver toolkit on OpenShift.
    says(DriverToolkit, "-", "Running dtk-build-driver", ToolkitStarted),
    says(DriverToolkit, "-", "WARNING: broken Driver Toolkit image detected:", ToolkitBroken),
    says(DriverToolkit, "-", "NVIDIA drivers already generated, nothing to do ...", ToolkitReusesBuild),
    says(DriverToolkit, "-", "WARNING: driver_built flag disappeared, rebuilding the drivers ...", ToolkitRebuilds),
    says(DriverToolkit, "-", "Start building nvidia.ko driver ...", DriverBuildStarted),
    says(DriverToolkit, "-", "Compiling NVIDIA driver kernel modules...", DriverBuildStarted),
    says(DriverToolkit, "-", "Relinking NVIDIA driver kernel modules...", DriverRelinked),
    says(DriverToolkit, "-", "ERROR: Unable to build the NVIDIA kernel module.<more..>", DriverBuildFailed),
    repeats(DriverToolkit, "-", "make[<number>]: *** [<target..>] Error <number>", DriverBuildFailed),
    repeats(DriverToolkit, "-", "cc: error: unrecognized command-line option <option>", DriverCompilerUnfit),
    repeats(DriverToolkit, "-", "gcc: error: unrecognized command-line option <option>", DriverCompilerUnfit),
    repeats(DriverToolkit, "-", "cc1: error: unrecognized command-line option <option>", DriverCompilerUnfit),
    says(DriverToolkit, "-", "ERROR: The kernel module failed to load, because it was not signed by a key<more..>", ModuleSignatureRejected),
    says(DriverToolkit, "-", "/usr/src/ofa_kernel/<tree..>Module.symvers: No such file or directory", MofedSymversMissing),
    says(DriverToolkit, "-", "FATAL: no NVIDIA driver generated ...", DriverBuildFailed),
    says(DriverToolkit, "-", "NVIDIA drivers generated, inform nvidia-driver-ctr container about it and sleep forever.", DriverBuildFinished),

    // nvidia-peermem-ctr
    repeats(Peermem, "-", "waiting for mellanox ofed and nvidia drivers to be installed", PeermemWaits),
    says(Peermem, "-", "successfully loaded nvidia-peermem module, now waiting for signal", PeermemLoaded),
    says(Peermem, "26.3", "nvidia-peermem module already loaded, skipping modprobe", PeermemLoaded),
    says(Peermem, "-", "modprobe: ERROR: could not insert 'nvidia_peermem': <why..>", PeermemRefused),
    says(Peermem, "-", "modprobe: FATAL: Module nvidia-peermem not found in directory <path>", PeermemFileMissing),
    says(Peermem, "-", "failed to load nvidia-peermem module", PeermemLoadFailed),

    // What comes after the driver.
    repeats(Validator, "-", "Attempting to validate a driver container installation", DriverValidationStarted),
    repeats(Validator, "-", "failed to validate the driver, retrying after <number> seconds", DriverNotValid),
    repeats(Validator, "-", "command failed, retrying after <number> seconds", ValidationFailed),
    repeats(Validator, "-", "waiting for nvidia container stack to be setup", ToolkitAwaited),
    says(Validator, "-", "Failed to allocate device vector A (error code <error..>)!", CudaFailed),
    says(Toolkit, "-", "Setting up runtime", RuntimeConfigured),
    says(Toolkit, "-", "Error: unable to load config: unsupported config version: <version>", ToolkitTooOld),
    says(Toolkit, "-", "Waiting for signal", ToolkitReady),
    says(DevicePlugin, "-", "Failed to create FS watcher: too many open files", TooManyOpenFiles),
    says(DevicePlugin, "-", "failed to create FS watcher for <path>: too many open files", TooManyOpenFiles),
    says(DevicePlugin, "-", "error starting plugins: <why..>", DevicePluginFailed),
    says(DevicePlugin, "-", "Failed to initialize NVML: <why..>", DevicePluginFailed),
    says(DevicePlugin, "-", "Detected non-NVML platform: <why..>", DevicePluginFailed),
    says(DevicePlugin, "-", "If this is a GPU node, did you configure the NVIDIA Container Toolkit?", DevicePluginBlind),
    says(DevicePlugin, "-", "At least one device with migEnabled=<why..>", DevicePluginFailed),
    says(DevicePlugin, "-", "Registered device plugin for '<resource>' with Kubelet", DevicePluginReady),
    says(DevicePlugin, "-", "Registered device plugin for '<resource>' with kubelet", DevicePluginReady),
    says(MigManager, "-", "failed to shutdown GPU clients", MigManagerFailed),
    says(MigManager, "-", "Changing the 'nvidia.com/mig.config.state' node label to 'failed'", MigManagerFailed),
    says(MigManager, "-", "Changing the 'nvidia.com/mig.config.state' node label to 'success'", MigManagerDone),
    says(RdmaPlugin, "-", "Exiting.. can not change : incorrect RDMA subsystem network namespace", RdmaPluginNetns),
    repeats(RdmaPlugin, "-", "error creating new device: \"missing RDMA device spec for device <bdf>, RDMA device \\\"<file>\\\" not found\"", RdmaPluginMisses),
    says(RdmaPlugin, "-", "exposing \"<number>\" devices", RdmaPluginExposes),

    // Our own; tests/logs.rs holds it to what the program prints.
    repeats(Gate, "0.1.0", "waiting: <what..>", GateWaits),
    repeats(Gate, "0.1.0", "still waiting <what..>", GateWaits),
    says(Gate, "0.1.0", "open: <what..>", GateOpened),
    says(Gate, "0.1.0", "give up: <what..>", GateGaveUp),

    // The kernel. Its own prefix names who was refused, whatever modprobe says.
    says(Kernel, "-", "Linux version <version> <build..>", KernelStarted),
    repeats(Kernel, "-", "mlx5_core <bdf>: firmware version: <version>", NicProbed),
    says(Kernel, "-", "Compat-mlnx-ofed backport release: <version>", MofedCompatLoaded),
    says(Kernel, "-", "NVRM: loading NVIDIA UNIX <version..>", NvidiaLoaded),
    repeats(Kernel, "-", "NVRM: GPU <gpu>: RmInitAdapter failed! <code..>", NvidiaProbeFailed),
    repeats(Kernel, "-", "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:", GpuBarInvalid),
    repeats(Kernel, "-", "NVRM: BAR<number> is 0M @ 0x0 (PCI:<gpu>)", GpuBarInvalid),
    repeats(Kernel, "-", "NVRM: installed in this system requires use of the NVIDIA open kernel modules.", GpuNeedsOpenModules),
    repeats(Kernel, "-", "NVRM: installed in this system is not supported by open", GpuNeedsProprietaryModules),
    repeats(Kernel, "-", "NVRM: installed in this system is not supported by the", GpuNotSupported),
    repeats(Kernel, "-", "NVRM: installed in this system is not supported by the NVIDIA <version> driver release.<more..>", GpuNotSupported),
    repeats(Kernel, "-", "NVRM: supported through the NVIDIA <version> <kind> drivers.<more..>", GpuNotSupported),
    repeats(Kernel, "-", "nvidia <bdf>: Direct firmware load for nvidia/<file> failed with error -<number>", GpuFirmwareMissing),
    repeats(Kernel, "-", "NVRM: RmFetchGspRmImages: No firmware image found", GpuFirmwareMissing),
    says(Kernel, "-", "NVRM: Xid (PCI:<gpu>): 79, <what..>", GpuLost),
    says(Kernel, "-", "NVRM: GPU <gpu>: GPU has fallen off the bus.", GpuLost),
    says(Kernel, "-", "NVRM: fallen off the bus and is not responding to commands.", GpuLost),
    says(Kernel, "-", "NVRM: Xid (PCI:<gpu>): 64, <what..>", GpuNeedsReset),
    says(Kernel, "-", "NVRM: Xid (PCI:<gpu>): 95, <what..>", GpuNeedsReset),
    says(Kernel, "-", "NVRM: Xid (PCI:<gpu>): 119, <what..>", GpuNeedsReset),
    says(Kernel, "-", "NVRM: Xid (PCI:<gpu>): 120, <what..>", GpuNeedsReset),
    repeats(Kernel, "-", "NVRM: API mismatch: <what..>", DriverApiMismatch),
    says(Kernel, "-", "nouveau <bdf>: NVIDIA <chip..>", NouveauTookGpu),
    says(Kernel, "-", "mlx5_core <bdf>: <place>:<number>:(pid <number>): Firmware over <number> MS in pre-initializing state, aborting", NicFirmwareFailed),
    says(Kernel, "-", "mlx5_core <bdf>: <place>:<number>:(pid <number>): device's health compromised - reached miss count", NicFirmwareFailed),
    says(Kernel, "-", "mlx5_core <bdf>: <place>:<number>:(pid <number>): health recovery failed", NicFirmwareFailed),
    says(Kernel, "-", "mlx5_core <bdf>: <place>:<number>:(pid <number>): Port module event: module <number>, Cable unplugged", PortDown),
    says(Kernel, "-", "mlx5_core <bdf> <interface>: Link down", PortDown),
    says(Kernel, "-", "mlx5_core <bdf>: probe_one:<number>:(pid <number>): mlx5_init_one failed with error code -<number>", NicProbeFailed),
    says(Kernel, "-", "mlx5_core: probe of <bdf> failed with error -<number>", NicProbeFailed),
    says(Kernel, "-", "mlx5_core <bdf>: probe with driver mlx5_core failed with error -<number>", NicProbeFailed),
    says(Kernel, "-", "oom-kill:constraint=CONSTRAINT_MEMCG,<more..>task_memcg=<cgroup>,task=<program>,pid=<number>,uid=<number>", KernelOutOfMemory),
    repeats(Kernel, "-", "audit: type=1400 audit(<stamp>): avc: denied { module_load } for <what..>", SelinuxDenied),
    says(Kernel, "-", "<module>: disagrees about version of symbol <symbol>", KernelDisagreesAboutVersion),
    says(Kernel, "-", "<module>: Unknown symbol <symbol> (err -<number>)", KernelUnknownSymbol),
    says(Kernel, "-", "<module>: gave up waiting for init of module <needed>.", KernelGaveUpWaiting),
    says(Kernel, "-", "<module>: no symbol version for <symbol>", KernelNoSymbolVersion),
    says(Kernel, "-", "<module>: version magic '<magic..>", KernelVersionMagic),
    says(Kernel, "-", "<module>: `<value..>' invalid for parameter `<parameter>'", KernelBadParameter),
    says(Kernel, "-", "<module>: exports duplicate symbol <symbol> (owned by <owner>)", KernelDuplicateSymbol),
    says(Kernel, "-", "Loading of <what..> is rejected", ModuleSignatureRejected),
    says(Kernel, "-", "Lockdown: <program>: <what..> is restricted; see man kernel_lockdown.7", KernelLockdown),
    says(Kernel, "-", "sysfs: cannot create duplicate filename '/kernel/mm/memory_peers/<client>'", PeermemNameTaken),
    says(Kernel, "-", "nvidia-peermem <place>:<number> ERROR nv_mem_client_init -- error while registering <what..> client", PeermemRegistrationFailed),
    says(Kernel, "-", "nvidia-peermem <place>:<number> ERROR invalid <parameter> param value <value>", PeermemBadParameter),

    // kubelet's, in the system's log.
    says(Kubelet, "-", "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with ImagePullBackOff: <why..>", ImageNotPulled),
    says(Kubelet, "-", "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with ErrImagePull: <why..>", ImageNotPulled),
    says(Kubelet, "-", "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with CreateContainerError: <why..>it is not a shared mount<more..>", MountNotShared),
    says(Kubelet, "-", "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with RunContainerError: <why..>unresolvable CDI devices <device..>", CdiUnresolved),
    says(Kubelet, "-", "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with CreateContainerError: <why..>unresolvable CDI devices <device..>", CdiUnresolved),

    says(Kubelet, "-", "\"Message for Container of pod\" containerName=\"<name>\" pod=\"<pod>\" containerMessage=\"Container <container> failed startup probe, will be restarted\"", StartupProbeFailed),

    // Talos, which writes no modules-load.d.
    repeats(Talos, "-", "controller failed {\"controller\": \"runtime.KernelModuleSpecController\", \"error\": \"error loading module \\\"nvidia_peermem\\\": <why..>", HostPeermemRefused),

    // Clocks that jump at boot.
    says(Clock, "-", "System clock was stepped by <seconds> seconds", ClockStepped),
];
