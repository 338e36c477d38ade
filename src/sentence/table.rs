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
    says(Driver, "-", "Mellanox device found at <bdf>", NicFound),
    says(Driver, "-", "No Mellanox devices were found...", NoNic),
    says(Driver, "-", "Compiling NVIDIA driver kernel modules...", DriverBuildStarted),
    says(Driver, "24.04", "Installing Linux kernel headers...", DriverBuildStarted),
    says(Driver, "-", "Relinking NVIDIA driver kernel modules...", DriverRelinked),
    says(Driver, "-", "ERROR: Unable to build the NVIDIA kernel module.<more..>", DriverBuildFailed),
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
    says(Driver, "-", "modprobe: ERROR: could not insert '<module>': <why..>", ModuleRefused),
    says(Driver, "-", "rmmod: ERROR: Module <module> is in use by: <why..>", ModuleNotUnloaded),
    repeats(Driver, "25.3", "waiting for the mlx5_core and ib_umad kernel modules to be loaded", NvlinkAwaitsMofed),
    says(Driver, "25.3", "Starting NVIDIA fabric manager daemon for NVLink5+...", FabricManagerStarted),
    says(Driver, "-", "Starting NVIDIA fabric manager daemon...", FabricManagerStarted),
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
    says(Toolkit, "-", "Setting up runtime", RuntimeConfigured),
    says(Toolkit, "-", "Waiting for signal", ToolkitReady),
    says(DevicePlugin, "-", "Failed to create FS watcher: too many open files", TooManyOpenFiles),
    says(DevicePlugin, "-", "failed to create FS watcher for <path>: too many open files", TooManyOpenFiles),

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
    repeats(Kernel, "-", "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:", NvidiaProbeFailed),
    says(Kernel, "-", "nouveau <bdf>: NVIDIA <chip..>", NouveauTookGpu),
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

    // Clocks that jump at boot.
    says(Clock, "-", "System clock was stepped by <seconds> seconds", ClockStepped),
];
