// SPDX-License-Identifier: Apache-2.0
//! Every log line that is understood: a block for each event.
//!
//! ```text
//! Event: "phrase for people", how it is drawn of the pods about which kubelet's line counts {
//!     Source "first release" "pattern" polled;                 one or more lines that mean it
//!     => Finding while When about "field" [words] until [events];  a finding that rests on it
//!     ~> Finding …;                                            one that counts only for minutes
//! }
//! ```
//!
//! The patterns are upstream's own words ([`LogSource::read_in`]), with fields in angle brackets. The release is the
//! first that has the line (`-` where no release is known to lack it). `polled`: the program repeats the line while
//! nothing changes. Each new pattern needs a line in `tests/log_lines` that fits and one that almost does.
#![allow(clippy::enum_glob_use, reason = "a row is a line")]

use super::kubelet::About;
use super::rule::{ActiveWhen, Drawn, Pattern};
use super::source::LogSource;
use crate::finding::Id;
use peermem_gate::survey::process::Role;
use std::collections::BTreeMap;

/// A row of the table: an event, the lines that mean it, and the findings that rest on it.
#[derive(Clone, Copy, Debug)]
pub struct LogRule {
    /// The event.
    pub event: LogEvent,
    /// In words for people; `<why>` is replaced by that field of the line.
    pub phrase: &'static str,
    /// How a timeline draws it.
    pub drawn: Drawn,
    /// The pods about which a line of kubelet's counts.
    pub about: About,
    /// The lines that mean it.
    pub patterns: &'static [Pattern],
    /// The findings that rest on it.
    pub findings: &'static [FindingRule],
}

/// A finding that rests on an event.
#[derive(Clone, Copy, Debug)]
pub struct FindingRule {
    /// The finding.
    pub id: Id,
    /// The state of the node in which the event still counts.
    pub when: ActiveWhen,
    /// A field of the line, and words of which it must have one. The field `module` must equal one.
    pub about: Option<(&'static str, &'static [&'static str])>,
    /// Later events that clear it.
    pub until: &'static [LogEvent],
    /// The line must have been written in the last minutes: kubelet repeats what is still so.
    pub is_fleeting: bool,
}

impl LogEvent {
    /// Its row of the table.
    pub fn rule(self) -> &'static LogRule {
        &RULES[self as usize]
    }

    /// Its phrase with the line's fields in it, as they came: escape it where it is printed. A line may lack a field.
    pub fn text(self, fields: &BTreeMap<String, String>) -> String {
        let phrase = self.rule().phrase;
        let names = phrase.split('<').skip(1).filter_map(|rest| rest.split('>').next());
        names.fold(phrase.to_owned(), |text, name| {
            let field = format!("<{name}>");
            match fields.get(name) {
                Some(value) => text.replace(&field, value),
                None => text.replace(&format!(": {field}"), "").replace(&field, &format!("a {name}")),
            }
        })
    }
}

macro_rules! finding_rule {
    ($is_fleeting:literal, $id:ident $(while $when:ident $(($argument:expr))?)?
        $(about $field:literal $about:tt)? $(until [$($until:ident),*])?) => {
        FindingRule {
            id: Id::$id,
            when: first!($(ActiveWhen::$when $(($argument))?,)? ActiveWhen::Always),
            about: first!($(Some(($field, &$about)),)? None),
            until: &[$($(LogEvent::$until),*)?],
            is_fleeting: $is_fleeting,
        }
    };
}

macro_rules! log_rules {
    ($($event:ident: $phrase:literal $(, $drawn:ident)? $(of $about_pods:ident)? {
        $($source:ident $since:literal $words:literal $($polled:ident)?;)*
        $(=> $id:ident $(while $when:ident $(($argument:expr))?)? $(about $field:literal $about:tt)?
            $(until [$($until:ident),*])?;)*
        $(~> $fleeting:ident $(while $fleeting_when:ident $(($fleeting_argument:expr))?)?
            $(about $fleeting_field:literal $fleeting_about:tt)?;)*
    })*) => {
        /// An event that log lines report. Lines of several programs, or of releases of one, may report the same.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum LogEvent { $(#[doc = concat!("``", $phrase, "``")] $event,)* }

        named!(LogEvent: $($event),*);

        /// The whole table, in the order of the events.
        pub static RULES: &[LogRule] = &[$(LogRule {
            event: LogEvent::$event,
            phrase: $phrase,
            drawn: first!($(Drawn::$drawn,)? Drawn::Plain),
            about: first!($(About::$about_pods,)? About::Node),
            patterns: &[$(Pattern {
                source: LogSource::$source,
                since: $since,
                words: $words,
                is_polled: !stringify!($($polled)?).is_empty(),
            }),*],
            findings: &[
                $(finding_rule!(false, $id $(while $when $(($argument))?)? $(about $field $about)?
                    $(until [$($until),*])?),)*
                $(finding_rule!(true, $fleeting $(while $fleeting_when $(($fleeting_argument))?)?
                    $(about $fleeting_field $fleeting_about)?),)*
            ],
        }),*];
    };
}

/// In seconds: kubelet waits five minutes at most before it starts a container again.
const CONTAINER: i64 = 7 * 60;
/// In seconds: it tries again to make a pod's sandbox after a quarter of a minute.
const SANDBOX: i64 = 3 * 60;
/// In seconds: a `DaemonSet`'s pod comes again at once, and goes when its container has filled the disk again.
const EVICTION: i64 = 30 * 60;
/// The modules of NVIDIA's driver that a machine with GPUs cannot do without.
const MODULES: [&str; 6] =
    ["nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia-uvm", "nvidia-modeset"];
/// Modules of neither stack that need RDMA. Drivers of other NICs are refused on nodes that work with MOFED.
const USERS: [&str; 10] = words! {
    "beegfs" "ib_iser" "ib_isert" "ib_srp" "ib_srpt" "ko2iblnd" "nvme_rdma" "nvmet_rdma" "rds_rdma" "rpcrdma"
};

log_rules! {
    // MOFED.
    MofedStarted: "the MOFED container starts", Step {
        MofedBash "24.04" "NVIDIA driver container exec start";
        MofedGo "25.04" "NVIDIA driver container exec preStart";
    }
    MofedAlreadyRunning: "another MOFED container holds the lock" {
        MofedGo "25.04" "the container already running {<context..>";
    }
    MofedMarkerUnset: "MOFED removes its marker" {
        MofedBash "24.04" "Unsetting driver ready state";
        MofedGo "25.04" "driver ready indicator cleared {<context..>";
    }
    MofedStorageModulesLoaded: "MOFED refuses to start: storage modules are loaded", Bad {
        MofedBash "24.04" "Storage modules are loaded for current driver, terminating prior driver reload failure due to UNLOAD_STORAGE_MODULES not set to \"true\"";
        MofedGo "25.04" "kernel modules check failed {\"error\": \"storage modules are loaded<context..>";
    }
    MofedUnloadsStorage: "MOFED is to unload storage modules (UNLOAD_STORAGE_MODULES)" {
        MofedBash "24.04" "Function: unload_storage_modules";
    }
    MofedThirdPartyModulesLoaded: "MOFED refuses to start: third-party RDMA modules are loaded", Bad {
        MofedGo "26.04" "kernel modules check failed {\"error\": \"third-party RDMA modules are loaded<context..>";
        MofedGo "26.04" "third-party RDMA modules are loaded<context..>";
    }
    MofedPeermemInUse: "MOFED refuses to start: nvidia_peermem is in use", Bad {
        MofedBash "24.04" "Module nvidia_peermem is used and will FAIL driver reload, aborting execution.";
        MofedGo "25.04" "failed to unload nvidia_peermem module {\"error\": \"module is used by other modules: <holders..>";
    }
    MofedUnloadsPeermem: "MOFED unloads nvidia_peermem" {
        MofedBash "24.04" "Attempting to unload (unutilized) module: nvidia_peermem";
    }
    MofedPeermemNotUnloaded: "MOFED cannot unload nvidia_peermem", Bad {
        MofedGo "25.04" "failed to unload nvidia_peermem module {<context..>";
    }
    MofedStartFailed: "MOFED's preparation fails", Bad { MofedGo "25.04" "exec preStart failed {<context..>"; }
    MofedBuildStarted: "MOFED's build starts" {
        MofedBash "24.04" "Starting driver build";
        MofedGo "26.01" "Starting DTK driver build";
        MofedToolkit "24.04" "Starting compilation of driver version <version>";
        MofedToolkit "26.01" "Starting compilation of driver {\"version\": \"<version>\"}";
    }
    MofedAwaitsToolkit: "MOFED waits for its driver toolkit" {
        MofedBash "24.04" "Awaiting openshift driver toolkit to complete NIC driver build, next query in <number> sec" polled;
        MofedGo "26.01" "Awaiting DTK compilation {<context..>" polled;
    }
    MofedBuildFinished: "MOFED's build ends" {
        MofedBash "24.04" "Stored driver packages at <path>";
        MofedGo "26.01" "DTK build completed";
        MofedGo "25.04" "Driver build completed successfully {<context..>";
        MofedToolkit "24.04" "DTK driver build script end";
    }
    MofedBuildSkipped: "MOFED reuses an earlier build" {
        MofedBash "24.04" "Skipping driver build, reusing previously built packages for kernel <version>";
        MofedGo "25.04" "Skipping driver build, reusing previously built packages {<context..>";
    }
    MofedBuildTimedOut: "MOFED gives up waiting for its driver toolkit", Bad {
        MofedBash "24.04" "Timeout (<number> sec.) awating DTK compilation, <path> not found";
    }
    MofedPackagesUnreachable: "MOFED cannot get packages" {
        MofedBash "-" "Error: Failed to download metadata for repo '<repo>': <why..>";
        MofedBash "-" "Error: Unable to find a match: <packages..>";
        MofedBash "-" "E: Unable to locate package <package>";
        MofedBash "-" "E: Unable to correct problems, you have held broken packages.";
        MofedBash "-" "<package> : Depends: <needed..> but it is not installable";
        MofedBash "-" "<package> : Depends: <needed..> but it is not going to be installed";
        MofedBash "-" "- Curl error (<number>): <why..>" polled;
    }
    MofedLoads: "MOFED starts to swap modules" {
        MofedBash "24.04" "Apply blacklisted mofed modules file to host (<path>)";
        MofedGo "25.04" "NVIDIA driver container exec start";
    }
    MofedCommandFailed: "MOFED: `<command>` fails with <number>" {
        MofedBash "24.04" "Command \"<command..>\" failed with exit code: <number>";
    }
    MofedDiskFull: "MOFED cannot write its files: the disk is full" {
        MofedBash "-" "tar: <file..>: No space left on device";
        MofedBash "-" "cp: <file..>: No space left on device";
        MofedBash "-" "E: You don't have enough free space in <path>";
    }
    MofedBuildFailed: "MOFED's build of <package> fails" {
        MofedBash "-" "Failed to build <package> DEB";
        MofedBash "-" "Failed to build <package> RPM";
    }
    MofedModuleInUse: "<module> is in use and cannot be unloaded: <holders>", Bad {
        MofedBash "-" "rmmod: ERROR: Module <module> is in use by: <holders..>";
        MofedBash "-" "rmmod: ERROR: Module <module> is in use";
        MofedBash "25.10" "Cannot restart driver: modprobe: FATAL: Module <module> is in use.<more..>";
        MofedGo "26.7" "Please unload module <holders> before stopping the driver: <why..>";
    }
    MofedUnloaded: "MOFED has unloaded the old driver" { MofedBash "-" "Unloading HCA driver:<fill..>[ OK ]"; }
    MofedUnloadFailed: "MOFED cannot unload the old driver", Bad {
        MofedBash "-" "Unloading HCA driver:<fill..>[FAILED]";
    }
    MofedLoaded: "MOFED has loaded its driver" { MofedBash "-" "Loading HCA driver and Access Layer:<fill..>[ OK ]"; }
    MofedLoadFailed: "MOFED cannot load its driver", Bad {
        MofedBash "24.04" "Failed to restart openibd";
        MofedBash "-" "Loading HCA driver and Access Layer:<fill..>[FAILED]";
    }
    MofedModuleRefused: "MOFED's <module> is refused: <why>", Bad {
        MofedBash "-" "Failed loading kernel module <module>:<why..>";
        MofedBash "-" "modprobe: ERROR: could not insert '<module>': <why..>";
    }
    MofedModuleUnsupported: "MOFED's <module> is refused: SUSE does not support it" {
        MofedBash "-" "modprobe: ERROR: module '<module>' is unsupported";
        => UnsupportedModulesRefused until [MofedMarkerSet, MofedReady];
    }
    MofedVersion: "mlx5_core reports <version>" { MofedBash "24.04" "Current mlx5_core driver version: <version>"; }
    MofedHeadersShown: "MOFED shows its headers" {
        MofedBash "24.04" "Mounting Mellanox OFED driver container shared kernel headers";
        MofedGo "25.04" "Mounting Mellanox OFED driver container shared kernel headers";
    }
    MofedRestoresNics: "MOFED restores SR-IOV" {
        MofedBash "24.04" "Restoring SR-IOV config for device: <bdf> (VFs=<number>) netdev name: <netdev>" polled;
    }
    MofedMarkerSet: "MOFED sets its marker", Good {
        MofedBash "24.04" "Setting driver ready state";
        MofedGo "25.04" "driver ready indicator set {<context..>";
    }
    MofedReady: "MOFED is done" {
        MofedBash "24.04" "NVIDIA driver container exec end, sleeping";
        MofedGo "25.04" "configuration done, sleep";
    }
    MofedTerminated: "the MOFED container gets a signal to end" {
        MofedBash "24.04" "Terminate event caught";
        MofedGo "25.04" "NVIDIA driver container exec stop";
        => MofedStopped while Restarted until [MofedMarkerSet, MofedReady];
    }
    MofedFailed: "MOFED's start fails: <context>", Bad { MofedGo "25.04" "exec failed {<context..>"; }
    // k8s-driver-manager.
    DriverManagerStarted: "k8s-driver-manager starts" {
        DriverManager "0.9.0" "Starting driver uninstallation process";
    }
    DriverManagerAsksForMofed: "k8s-driver-manager asks for MOFED", Step {
        DriverManager "0.9.0" "Waiting for MOFED to be installed";
    }
    DriverManagerWaitsForMofed: "k8s-driver-manager waits for MOFED" {
        DriverManager "0.6.5" "Waiting for MOFED to be installed..." polled;
    }
    EvictionBlocked: "pod <pod> of namespace <namespace> cannot be evicted: a disruption budget keeps it" {
        DriverManager "-" "error when evicting pods/\"<pod>\" -n \"<namespace>\" (will retry after <delay>): Cannot evict pod as it would violate the pod's disruption budget." polled;
        => EvictionBlocked until [DriverManagerDone, DriverKept, DriverReady];
    }
    DriverManagerDone: "k8s-driver-manager is done", Step {
        DriverManager "0.9.0" "Driver uninstallation completed successfully";
    }
    DriverKept: "k8s-driver-manager keeps the loaded driver" {
        DriverManager "0.10.0" "The NVIDIA driver is already loaded with the desired version and configuration, skipping the uninstallation of the driver in an attempt to not disrupt running workloads";
    }
    DriverPreinstalled: "a GPU driver is installed on the host" {
        DriverManager "-" "NVIDIA GPU driver is already pre-installed on the node, disabling the containerized driver";
        DriverManager "-" "NVIDIA GPU driver is already pre-installed on the node, disabling the containerized driver on the node";
    }
    RdmaRequested: "GPUDirect RDMA is enabled" {
        DriverManager "0.6.5" "GPUDirectRDMA is enabled, validating MOFED driver installation";
    }
    NicFound: "a Mellanox device is at <bdf>" {
        DriverManager "0.9.0" "Mellanox device found at <bdf>";
        Driver "-" "Mellanox device found at <bdf>";
    }
    NoNic: "no Mellanox device is found" {
        DriverManager "0.9.0" "No Mellanox devices were found";
        Driver "-" "No Mellanox devices were found...";
    }
    DriverInUse: "the loaded GPU driver cannot be unloaded: it is in use" {
        DriverManager "-" "Could not unload NVIDIA driver kernel modules, driver is in use";
        Driver "-" "Could not unload NVIDIA driver kernel modules, driver is in use";
    }
    ModuleNotUnloaded: "<module> cannot be unloaded: <why>" {
        DriverManager "0.9.0" "Failed to unload kernel module <module>: <why..>";
        Driver "-" "rmmod: ERROR: Module <module> is in use by: <why..>";
    }
    VfioNotUnbound: "vfio-pci cannot be unbound from the GPUs" {
        DriverManager "-" "Unable to unbind vfio-pci driver from all devices";
    }
    // The driver's container and its toolkit.
    DriverStarted: "the GPU driver's installation starts", Step {
        Driver "-" "Starting installation of NVIDIA driver version <version> for Linux kernel version <kernel>";
    }
    DriverAlreadyRunning: "another driver container holds the lock" {
        Driver "-" "An instance of the NVIDIA driver is already running, aborting";
        => SecondDriverPod while TwoDriverPods;
    }
    DriverAwaitsToolkit: "nvidia-driver-ctr waits for its driver toolkit" {
        Driver "-" "Waiting for openshift-driver-toolkit-ctr container to start ..." polled;
        Driver "-" "Waiting for openshift-driver-toolkit-ctr container to build the precompiled driver ..." polled;
    }
    ToolkitStarted: "the GPU driver's driver toolkit starts" { DriverToolkit "-" "Running dtk-build-driver"; }
    ToolkitBroken: "the driver toolkit does not fit this kernel" {
        Driver "-" "WARNING: broken driver toolkit detected, using entitlement-based fallback";
        DriverToolkit "-" "WARNING: broken Driver Toolkit image detected:";
        => DriverToolkitUnfit while NoDriver until [DriverReady, DriverMounted, DriverInstalled, DriverBuildFinished];
    }
    ToolkitReusesBuild: "the driver toolkit has already built and builds nothing" {
        DriverToolkit "-" "NVIDIA drivers already generated, nothing to do ...";
    }
    ToolkitRebuilds: "the driver toolkit builds again" {
        DriverToolkit "-" "WARNING: driver_built flag disappeared, rebuilding the drivers ...";
    }
    DriverBuildStarted: "the GPU driver's build starts", Step {
        Driver "-" "Compiling NVIDIA driver kernel modules...";
        Driver "24.04" "Installing Linux kernel headers...";
        DriverToolkit "-" "Start building nvidia.ko driver ...";
        DriverToolkit "-" "Compiling NVIDIA driver kernel modules...";
    }
    DriverRelinked: "the GPU driver's modules are linked" {
        Driver "-" "Relinking NVIDIA driver kernel modules...";
        DriverToolkit "-" "Relinking NVIDIA driver kernel modules...";
    }
    DriverBuildFinished: "the GPU driver's build ends", Step {
        DriverToolkit "-" "NVIDIA drivers generated, inform nvidia-driver-ctr container about it and sleep forever.";
    }
    DriverBuildFailed: "the GPU driver's build fails", Bad {
        Driver "-" "ERROR: Unable to build the NVIDIA kernel module.<more..>";
        Driver "-" "make[<number>]: *** [<target..>] Error <number>" polled;
        DriverToolkit "-" "ERROR: Unable to build the NVIDIA kernel module.<more..>";
        DriverToolkit "-" "make[<number>]: *** [<target..>] Error <number>" polled;
        DriverToolkit "-" "FATAL: no NVIDIA driver generated ...";
    }
    DriverDiskFull: "the GPU driver's container cannot write its files: the disk is full" {
        Driver "-" "tar: <file..>: No space left on device";
        Driver "-" "cp: <file..>: No space left on device";
        Driver "-" "E: You don't have enough free space in <path>";
        => DiskFull while NoDriver until [DriverReady, DriverMounted, DriverInstalled, DriverBuildFinished];
    }
    DriverCompilerUnfit: "the GPU driver's build: the compiler does not know an option of the kernel's: <option>" {
        Driver "-" "<compiler>: error: unrecognized command-line option <option>" polled;
        DriverToolkit "-" "<compiler>: error: unrecognized command-line option <option>" polled;
        => DriverCompilerUnfit while NoDriver until [DriverReady, DriverMounted, DriverInstalled, DriverBuildFinished];
    }
    DriverFileMissing: "modprobe finds no nvidia" {
        Driver "-" "modprobe: FATAL: Module nvidia not found in directory <path>";
        => DriverForOtherKernel while NoDriver until [DriverReady, DriverMounted, DriverInstalled, DriverBuildFinished];
    }
    DriverPackagesUnreachable: "the GPU driver's container cannot get packages" {
        Driver "-" "FATAL: failed to reach RHEL package repositories. Ensure that the cluster can access the proper networks.";
        Driver "-" "FATAL: failed to update the dnf metadata cache after multiple attempts with releasevers <releases..>";
        Driver "-" "FATAL: failed to install elfutils-libelf-devel. RHEL entitlement may be improperly deployed.";
        Driver "-" "FATAL: failed to install elfutils-libel-devel. RHEL entitlement may be improperly deployed.";
        Driver "-" "ERROR: Failed to update package cache. Ensure that the cluster can access the proper networks.";
        Driver "-" "Could not resolve Linux kernel version";
        Driver "-" "Error: Unable to find a match: <packages..>";
        Driver "-" "E: Unable to locate package <package>";
        Driver "-" "E: Failed to fetch <url> <why..>" polled;
        Driver "-" "curl: (6) Could not resolve host: <host>" polled;
    }
    MofedSymversMissing: "the GPU driver's build finds no Module.symvers from MOFED", Bad {
        Driver "-" "/usr/src/ofa_kernel/<tree..>Module.symvers: No such file or directory";
        DriverToolkit "-" "/usr/src/ofa_kernel/<tree..>Module.symvers: No such file or directory";
    }
    DriverInstalled: "the GPU driver's modules are installed" {
        Driver "-" "Installing NVIDIA driver kernel modules...";
    }
    UserspaceOnlyInstall: "nvidia-driver-ctr installs without kernel modules" {
        Driver "26.3" "The NVIDIA driver is already loaded with the desired configuration, performing userspace-only install";
        Driver "26.3" "Fast path detected: skipping DTK build and module copy, proceeding with userspace-only install";
    }
    DriverUnloads: "nvidia-driver-ctr unloads its modules" {
        Driver "-" "Stopping NVIDIA persistence daemon...";
        Driver "-" "Unloading NVIDIA driver kernel modules...";
    }
    DriverLoads: "nvidia-driver-ctr loads its modules" { Driver "-" "Loading NVIDIA driver kernel modules..."; }
    DriverModprobe: "modprobe nvidia" {
        Driver "-" "+ modprobe nvidia";
        Driver "-" "+ modprobe nvidia <parameters..>";
    }
    PeermemModprobe: "modprobe nvidia-peermem", Step {
        Driver "-" "Loading NVIDIA Peer Memory kernel module...";
        Driver "-" "+ modprobe nvidia-peermem<parameters..>";
        Driver "-" "+ modprobe -a nvidia-peermem<parameters..>";
    }
    PeermemRefused: "nvidia_peermem is refused: <why>", Bad {
        Driver "-" "modprobe: ERROR: could not insert 'nvidia_peermem': <why..>";
        Peermem "-" "modprobe: ERROR: could not insert 'nvidia_peermem': <why..>";
    }
    PeermemFileMissing: "modprobe finds no nvidia-peermem", Bad {
        Driver "-" "modprobe: FATAL: Module nvidia-peermem not found in directory <path>";
        Peermem "-" "modprobe: FATAL: Module nvidia-peermem not found in directory <path>";
    }
    ModuleRefused: "<module> is refused: <why>", Bad {
        Driver "-" "modprobe: ERROR: could not insert '<module>': <why..>";
        => SelinuxRefuses while NoDriver about "why" ["Permission denied"] until [DriverReady, DriverMounted, DriverInstalled, DriverBuildFinished];
    }
    NvlinkAwaitsMofed: "nvidia-driver-ctr waits for mlx5_core and ib_umad" {
        Driver "25.3" "waiting for the mlx5_core and ib_umad kernel modules to be loaded" polled;
    }
    FabricManagerStartRefused: "Fabric Manager's start script refuses an option: <option>" {
        Driver "25.3" "Unknown option: <option>";
    }
    FabricManagerStarted: "Fabric Manager starts" {
        Driver "25.3" "Starting NVIDIA fabric manager daemon for NVLink5+...";
        Driver "-" "Starting NVIDIA fabric manager daemon...";
    }
    FabricManagerUnfit: "Fabric Manager <manager> refuses driver <driver>" {
        Driver "-" "fabric manager NVIDIA GPU driver interface version <manager> don't match with driver version <driver>. Please update with matching NVIDIA driver package.";
        => FabricManagerUnfit while NoFabricManager;
    }
    DriverMounted: "nvidia-driver-ctr mounts the driver's root" { Driver "-" "Mounting NVIDIA driver rootfs..."; }
    DriverReady: "the GPU driver is ready", Good { Driver "-" "Done, now waiting for signal"; }
    DriverTerminated: "the driver container gets a signal to end" {
        Driver "-" "Caught signal";
        => DriverStopped while Restarted until [DriverReady];
    }
    // nvidia-peermem-ctr.
    PeermemWaits: "nvidia-peermem-ctr waits for MOFED and the driver" {
        Peermem "-" "waiting for mellanox ofed and nvidia drivers to be installed" polled;
    }
    PeermemLoaded: "nvidia-peermem-ctr has loaded nvidia_peermem", Good {
        Peermem "-" "successfully loaded nvidia-peermem module, now waiting for signal";
        Peermem "26.3" "nvidia-peermem module already loaded, skipping modprobe";
    }
    PeermemLoadFailed: "nvidia-peermem-ctr fails", Bad { Peermem "-" "failed to load nvidia-peermem module"; }
    // What comes after the driver.
    DriverValidationStarted: "the validator looks for the driver" {
        Validator "-" "Attempting to validate a driver container installation" polled;
        => HostDriverNotFound while HostDriverUnseen until [HostDriverFound];
    }
    HostDriverFound: "the validator finds the host's driver" {
        Validator "-" "Detected pre-installed driver on the host";
        Validator "-" "Detected a pre-installed driver on the host";
    }
    DriverNotValid: "the validator does not find the driver ready", Step {
        Validator "-" "failed to validate the driver, retrying after <number> seconds" polled;
    }
    ValidationFailed: "a validation fails" { Validator "-" "command failed, retrying after <number> seconds" polled; }
    ToolkitAwaited: "a pod waits for the toolkit's validation" {
        Validator "-" "waiting for nvidia container stack to be setup" polled;
    }
    RuntimeConfigured: "the toolkit configures the container runtime" { Toolkit "-" "Setting up runtime"; }
    ToolkitReady: "the toolkit is ready" { Toolkit "-" "Waiting for signal"; }
    ToolkitTooOld: "the toolkit cannot read the runtime's configuration of version <version>" {
        Toolkit "-" "Error: unable to load config: unsupported config version: <version>";
        => ToolkitTooOld until [ToolkitReady];
    }
    CudaFailed: "a CUDA program fails: <error>" {
        Validator "-" "Failed to allocate device vector A (error code <error..>)!";
        => CudaNotInitialised while Without("cuda-ready") about "error" ["system not yet initialized"];
        => CudaFails while Without("cuda-ready");
    }
    DevicePluginFailed: "the device plugin fails: <why>" {
        DevicePlugin "-" "error starting plugins: <why..>";
        DevicePlugin "-" "Failed to start plugin: <why..>" polled;
        DevicePlugin "-" "Failed to initialize NVML: <why..>";
        DevicePlugin "-" "Detected non-NVML platform: <why..>";
        DevicePlugin "-" "At least one device with migEnabled=<why..>";
        => MigMisconfigured while Plugin about "why" ["MIG configuration", "migEnabled", "not configured correctly"] until [DevicePluginReady];
        => DriverVersionMismatch while Plugin about "why" ["version mismatch"] until [DevicePluginReady];
        => GpuLost while Plugin about "why" ["GPU is lost"] until [DevicePluginReady];
        => DevicePluginWithoutDriver while Plugin about "why" ["libnvidia-ml.so", "LIBRARY_NOT_FOUND"] until [DevicePluginReady];
        => MpsDaemonMissing while Plugin about "why" ["MPS daemon"] until [DevicePluginReady];
        => DevicePluginFailed while Plugin until [DevicePluginReady];
    }
    DevicePluginUnwatched: "the device plugin checks no GPU's health: <why>" {
        DevicePlugin "-" "Failed to start health check: <why..>" polled;
        => DevicePluginUnsound while Plugin;
    }
    DevicePluginBlind: "the device plugin finds no driver" {
        DevicePlugin "-" "If this is a GPU node, did you configure the NVIDIA Container Toolkit?";
        => DevicePluginWithoutDriver while Plugin until [DevicePluginReady];
    }
    DevicePluginReady: "the device plugin has registered <resource>" {
        DevicePlugin "-" "Registered device plugin for '<resource>' with <name>";
    }
    TooManyOpenFiles: "the limit of inotify instances is reached" {
        DevicePlugin "-" "Failed to create FS watcher: too many open files";
        DevicePlugin "-" "failed to create FS watcher for <path>: too many open files";
    }
    GpuInforomCorrupted: "the infoROM of <bdf> is corrupted" {
        Validator "-" "WARNING: infoROM is corrupted at gpu <bdf>" polled;
        => GpuInforomCorrupted while Without("driver-ready");
    }
    SriovLockedDown: "the SR-IOV operator changes no NIC: the kernel is locked down" {
        SriovDaemon "-" "Lockdown mode detected, failing on interface update for mellanox devices" polled;
        => SriovLockedDown;
    }
    SriovConfigFailed: "the SR-IOV operator cannot configure a NIC: <why>" {
        SriovDaemon "-" "configSriovPFDevice(): fail to set NumVfs for device {\"device\": \"<bdf>\", \"error\": \"<why..>\"}" polled;
        SriovDaemon "-" "configSriovInterfaces(): fail to configure sriov interface. resetting interface. {\"address\": \"<bdf>\", \"error\": \"<why..>\"}" polled;
        => SriovConfigFailed while NoVirtualFunction;
    }
    ImexSessionTaken: "the IMEX daemon gets no session: another one has it" {
        ImexDaemon "-" "Failed to allocate Imex session: NV_ERR_IN_USE" polled;
        ImexDaemon "-" "Failed to allocate Imex session (NV_ERR_IN_USE)" polled;
        => ImexSessionTaken while Driver until [ImexReady];
    }
    ImexReady: "the IMEX domain is ready" { ImexDaemon "-" "IMEX Domain is READY"; }
    MigManagerFailed: "mig-manager fails" {
        MigManager "-" "failed to shutdown GPU clients";
        MigManager "-" "Error: failed to shutdown GPU clients: <why..>";
        MigManager "-" "Changing the 'nvidia.com/mig.config.state' node label to 'failed'";
        => MigManagerFailed until [MigManagerDone];
    }
    MigManagerDone: "mig-manager has applied its configuration" {
        MigManager "-" "Changing the 'nvidia.com/mig.config.state' node label to 'success'";
    }
    RdmaPluginNetns: "the RDMA device plugin ends: RDMA devices are in exclusive network namespace mode" {
        RdmaPlugin "-" "Exiting.. can not change : incorrect RDMA subsystem network namespace";
    }
    RdmaPluginMisses: "the RDMA device plugin leaves out <bdf>: it finds no <file>" {
        RdmaPlugin "-" "error creating new device: \"missing RDMA device spec for device <bdf>, RDMA device \\\"<file>\\\" not found\"" polled;
    }
    RdmaPluginSelectsNone: "the RDMA device plugin finds no RDMA device for <resource>" {
        RdmaPlugin "-" "Warning: no Rdma Devices were found for resource <resource>";
    }
    RdmaPluginExposes: "the RDMA device plugin offers <number> devices" {
        RdmaPlugin "-" "exposing \"<number>\" devices";
    }
    // kubelet.
    ImageNotPulled: "the image of <container> cannot be pulled: <why>" of Operators {
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with ImagePullBackOff: <why..>" polled;
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with ErrImagePull: <why..>" polled;
        => ImageNotPulled while Missed;
        ~> ContainerNotStarted while Persists(CONTAINER);
    }
    MountNotShared: "<container> is not started: <place> is mounted on <mount>, which is not a shared mount" of Operators {
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with CreateContainerError: \\\"<chain..>path \\\\\\\"<place>\\\\\\\" is mounted on \\\\\\\"<mount>\\\\\\\" but it is not a shared mount<more..>";
        => RunNotShared while Missed;
        ~> RunNotShared about "place" ["/run"];
    }
    ToolkitRootMissing: "<container> is not started: the container toolkit finds no driver root" of Hook {
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with <kind>: \\\"<chain..>change root failed<more..>" polled;
        Hook "-" "nvidia-container-cli: <kind> error: change root failed<more..>" polled;
        ~> ToolkitRootMissing while HostDriver;
    }
    DeviceRulesRefused: "<container> is not started: the kernel refuses the container toolkit's device filter" of Hook {
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with <kind>: \\\"<chain..>failed to add device rules: unable to <doing> new device filter<more..>" polled;
        Hook "-" "nvidia-container-cli: mount error: failed to add device rules: unable to <doing> new device filter<more..>" polled;
        ~> DeviceRulesRefused;
    }
    ToolkitLibcTooOld: "<container> is not started: the container toolkit needs glibc <libc>" of Hook {
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with <kind>: \\\"<chain..>version `GLIBC_<libc>' not found<more..>" polled;
        Hook "-" "version `GLIBC_<libc>' not found<more..>" polled;
        ~> ToolkitLibcTooOld;
    }
    CudaNotSatisfied: "<container> is not started: its image requires CUDA <cuda>", Never of Hook {
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with <kind>: \\\"<chain..>unsatisfied condition: cuda<cuda>, please update your driver<more..>" polled;
        Hook "-" "nvidia-container-cli: requirement error: unsatisfied condition: cuda<cuda..>" polled;
        Hook "-" "requirements not met: unsatisfied condition: cuda<cuda..>" polled;
        ~> CudaNotSatisfied;
    }
    CniPluginMissing: "a pod gets no network: <plugin> is not on the node", Never of Devices {
        Kubelet "-" "\"Failed to create sandbox for pod\" err=\"<chain..>failed to find plugin \\\"<plugin>\\\" in path <more..>" polled;
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"<chain..>failed to find plugin \\\\\\\"<plugin>\\\\\\\" in path <more..>" polled;
        ~> CniPluginMissing;
    }
    MacvlanRefused: "a pod gets no network: the kernel refuses a macvlan", Never of Devices {
        Kubelet "-" "\"Failed to create sandbox for pod\" err=\"<chain..>failed to create macvlan: invalid argument<more..>" polled;
        ~> MacvlanOnInfiniband while Infiniband;
    }
    MultusUnauthorized: "a pod gets no network: the API server rejects the token of multus", Never of Devices {
        Kubelet "-" "\"Failed to create sandbox for pod\" err=\"<chain..>Multus: [<pod>]: error getting pod: Unauthorized<more..>" polled;
        Kubelet "-" "\"Failed to create sandbox for pod\" err=\"<chain..>Multus: [<pod>]: error waiting for pod: Unauthorized<more..>" polled;
        ~> MultusUnauthorized;
    }
    KubeletFailed: "kubelet ends: <why>" {
        Kubelet "-" "\"command failed\" err=\"failed to run Kubelet: <why..>" polled;
        Kubelet "-" "\"Failed to start ContainerManager\" err=\"<why..>" polled;
        ~> KubeletFails while Unmended(Role::Kubelet);
    }
    KubeletCutOff: "kubelet does not get through to the API server: <why>" {
        Kubelet "-" "\"Unable to register node with API server\" err=\"<why..>" polled;
        Kubelet "-" "\"Error updating node status, will retry\" err=\"<why..>" polled;
        Kubelet "-" "\"Failed to ensure lease exists, will retry\" err=\"<why..>" polled;
        ~> KubeletCutOff while Repeats(CONTAINER);
    }
    StartupProbeFailed: "kubelet ends <container>: its startup probe has failed" of Operators {
        Kubelet "-" "\"Message for Container of pod\" containerName=\"<name>\" pod=\"<pod>\" containerMessage=\"Container <container> failed startup probe, will be restarted\"";
        => DriverStopped while Missed about "container" ["nvidia-driver-ctr"] until [DriverReady];
        => MofedStopped while Missed about "container" ["mofed-container"] until [MofedMarkerSet, MofedReady];
    }
    // A pod's author may ask for any device.
    CdiUnresolved: "<container> is not started: there is no CDI device <device>" of Devices {
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with <kind>: \\\"<chain..>unresolvable CDI devices <device..>" polled;
        => CdiSpecMissing while NoCdi about "device" ["nvidia"];
        ~> CdiDeviceUnknown while Cdi about "device" ["nvidia"];
    }
    ToolkitCdiUnresolved: "<container> is not started: NVIDIA's runtime finds no CDI device <device>", Never of Hook {
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with <kind>: \\\"<chain..>could not apply required modification to OCI specification: error modifying OCI spec: failed to inject CDI devices: unresolvable CDI devices <device..>" polled;
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with <kind>: \\\"<chain..>could not apply required modification to OCI specification: error injecting CDI devices: unresolvable CDI devices <device..>" polled;
        Hook "-" "unresolvable CDI devices <device..>" polled;
        => CdiSpecMissing while NoCdi about "device" ["nvidia"];
        ~> CdiDeviceUnknown while Cdi about "device" ["nvidia"];
    }
    RuntimeHandlerMissing: "a pod is not started: the container runtime has no handler <handler>" of Operators {
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"<chain..>no runtime for <handler> is configured<more..>" polled;
        Kubelet "-" "\"Failed to create sandbox for pod\" err=\"<chain..>no runtime for <handler> is configured<more..>" polled;
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"<chain..>failed to find runtime handler <handler> from runtime list <more..>" polled;
        Kubelet "-" "\"Failed to create sandbox for pod\" err=\"<chain..>failed to find runtime handler <handler> from runtime list <more..>" polled;
        ~> RuntimeHandlerMissing while NoHandler about "handler" ["nvidia"];
        ~> RuntimeHandlerMissing while Persists(SANDBOX) about "handler" ["nvidia"];
    }
    ToolkitHookFailed: "<container> is not started: the container toolkit's hook fails: <cause>", Never of Hook {
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with <kind>: \\\"<chain..>nvidia-container-cli: <stage> error: <cause..>" polled;
        Hook "-" "nvidia-container-cli: <stage> error: <cause..>" polled;
        Hook "-" "nvidia-container-cli: mount error: stat failed: <cause..>" polled;
        ~> ToolkitFails while Unproven;
    }
    DockerLacksToolkit: "Docker knows no driver of GPUs", Never {
        Hook "-" "could not select device driver \"\" with capabilities: [[gpu<more..>" polled;
        Hook "-" "could not select device driver \"nvidia\" with capabilities: [[gpu<more..>" polled;
        Hook "-" "unknown or invalid runtime name: nvidia<more..>" polled;
        ~> DockerLacksToolkit while Unproven;
    }
    HookCalledDirectly: "NVIDIA's hook is called by itself, which the toolkit's mode does not support" of Hook {
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with <kind>: \\\"<chain..>invoking the NVIDIA Container Runtime Hook directly <more..>" polled;
        Hook "-" "invoking the NVIDIA Container Runtime Hook directly <more..>" polled;
        ~> ToolkitFails while Unproven;
    }
    HookFailed: "<container> is not started: its hook <hook> fails", Never of Devices {
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with <kind>: \\\"<chain..>error executing hook `<hook>` (exit code: <number>)<more..>" polled;
        Hook "-" "error executing hook `<hook>` (exit code: <number>)<more..>" polled;
        ~> ToolkitFails while Unproven about "hook" ["nvidia"];
    }
    NvidiaRuntimeFailed: "<container> is not started: NVIDIA's runtime fails: <cause>", Never of Hook {
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with <kind>: \\\"<chain..>could not apply required modification to OCI specification: <cause..>" polled;
        Hook "-" "could not apply required modification to OCI specification: <cause..>" polled;
        Hook "-" "failed to generate CDI spec: <cause..>" polled;
        ~> ToolkitFails while Unproven;
    }
    NetworkRefused: "a pod gets no network: <plugin> fails: <cause>", Never of Devices {
        Kubelet "-" "\"Failed to create sandbox for pod\" err=\"<chain..>plugin type=<plugin> <cause..>" polled;
        ~> NetworkPluginFails while Persists(SANDBOX);
    }
    FabricNetworkRefused: "a pod gets no RDMA network: <fabric> fails: <cause>", Never of Hook {
        Kubelet "-" "\"Failed to create sandbox for pod\" err=\"<chain..>plugin type=<fabric> <cause..>" polled;
        ~> NetworkPluginFails while Persists(SANDBOX);
    }
    ContainerNotStarted: "<container> is not started: <cause>" of Operators {
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"<container>\\\" with <failure>: \\\"<cause..>" polled;
        ~> ContainerNotStarted while Persists(CONTAINER);
    }
    SandboxNotCreated: "a pod of the operators is not started: <cause>" of Operators {
        Kubelet "-" "\"Failed to create sandbox for pod\" err=\"<cause..>" polled;
        ~> ContainerNotStarted while Persists(SANDBOX);
    }
    ContainerNotStopped: "<container> cannot be stopped: <cause>" of Operators {
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"failed to \\\"KillContainer\\\" for \\\"<container>\\\" with KillContainerError: \\\"<cause..>" polled;
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"[failed to \\\"KillContainer\\\" for \\\"<container>\\\" with KillContainerError: \\\"<cause..>" polled;
        ~> ContainerNotStopped while Repeats(CONTAINER);
    }
    SandboxNotStopped: "a pod of the operators cannot be stopped: <cause>" of Operators {
        Kubelet "-" "\"Error syncing pod, skipping\" err=\"failed to \\\"KillPodSandbox\\\" for \\\"<sandbox>\\\" with KillPodSandboxError: \\\"<cause..>" polled;
        ~> ContainerNotStopped while Repeats(CONTAINER);
    }
    AdmissionRefused: "kubelet refuses a pod: <why>", Never of Hook {
        Kubelet "-" "\"Pod admission denied\" podUID=\"<uid>\" pod=\"<pod>\" reason=\"UnexpectedAdmissionError\" message=\"Allocate failed due to <why..>" polled;
        ~> DevicePluginUnsound about "why" ["nvml", "NVML", "ibnvidia-ml"];
        ~> PodRefused while Plugin about "why" ["nvidia"];
        ~> PodRefused about "why" ["rdma", "mellanox", "mlnx"];
    }
    ResourcesNotPrepared: "kubelet refuses a pod: <why>", Never of Hook {
        Kubelet "-" "\"Failed to prepare dynamic resources\" err=\"<why..>" polled;
        ~> PodRefused while Repeats(CONTAINER) about "why" ["nvidia", "rdma", "mellanox"];
    }
    // The API server's words, which kubelet passes on; of other pods a controller's event has the same.
    PodWithoutQuota: "the API server refuses a pod of the operators: insufficient <what>", Never of Operators {
        Kubelet "-" "\"Failed creating a mirror pod\" err=\"insufficient <what..>" polled;
        ~> PodRefused while Repeats(EVICTION);
    }
    PodNotCreated: "the API server refuses a pod of the operators: <cause>", Never of Operators {
        Kubelet "-" "\"Failed creating a mirror pod\" err=\"pods <name> is forbidden: <cause..>" polled;
        ~> PodRefused while Repeats(EVICTION);
    }
    WebhookRefused: "the webhook <webhook> refuses a pod: <cause>", Never of Hook {
        Kubelet "-" "\"Failed creating a mirror pod\" err=\"admission webhook <webhook> denied the request: <cause..>" polled;
        Kubelet "-" "\"Failed creating a mirror pod\" err=\"Internal error occurred: failed calling webhook <webhook> <cause..>" polled;
        ~> PodRefused while Repeats(EVICTION) about "webhook" ["nvidia", "mellanox", "sriov", "network-resources-injector"];
    }
    EvictionStarted: "kubelet must free <resource>" {
        Kubelet "-" "\"Eviction manager: attempting to reclaim\" resourceName=\"<resource>\"" polled;
    }
    PodEvicted: "kubelet evicts a pod of the operators" of Operators {
        Kubelet "-" "\"Eviction manager: pod is evicted successfully\" pod=\"<pod>\"" polled;
        ~> PodsEvicted while Repeats(EVICTION);
    }
    // The gate.
    GateWaits: "the gate waits: <what>" {
        Gate "0.1.0" "waiting: <what..>" polled;
        Gate "0.1.0" "still waiting <what..>" polled;
    }
    GateOpened: "the gate opens", Good { Gate "0.1.0" "open: <what..>"; }
    GateGaveUp: "the gate gives up: <what>", Bad {
        Gate "0.1.0" "give up: <what..>";
        Gate "0.4.0" "gave up: <what..>";
    }
    // The host's services.
    ServiceFailed: "<unit> ends with an error" {
        Systemd "-" "<unit>: <kind> process exited, code=<how>, status=<status>" polled;
    }
    ServiceStarted: "<unit> has started" {
        Systemd "-" "Started <unit> - <name..>" polled;
        Systemd "-" "Finished <unit> - <name..>" polled;
    }
    // Counted over the whole log: `SERVICES` has their errors.
    ServiceRepeats: "<unit> repeats an error while it runs" {}
    CriNotLoaded: "containerd runs without its CRI plugin: <why>" {
        Containerd "-" "failed to load plugin io.containerd.grpc.v1.cri error=\"<why..>";
        Containerd "2.0" "failed to load plugin error=\"<why..>\" id=io.containerd.cri.v1.runtime<more..>";
        => ContainerdWithoutCri while Unmended(Role::Runtime) until [CriLoaded];
    }
    CriLoaded: "containerd starts its CRI plugin" {
        Containerd "-" "Start cri plugin with config <config..>";
        Containerd "2.0" "starting cri plugin <config..>";
    }
    VgpuUnlicensed: "the vGPU gets no license" {
        Gridd "-" "Failed to acquire license from <server..>" polled;
        Gridd "-" "Failed to acquire/renew license from license server <why..>" polled;
        Smi "-" "License Status : Unlicensed (Restricted)" polled;
        => VgpuUnlicensed while Driver until [VgpuLicensed];
    }
    VgpuLicensed: "the vGPU has its license" {
        Gridd "-" "License acquired successfully<more..>";
        Gridd "-" "License renewed successfully<more..>";
    }
    NvlsmMissing: "Fabric Manager finds no NVLSM" {
        FabricManagerStart "-" "Please install \"Nvidia NVLink Subnet Manager\" (nvlsm) package";
        => NvlsmMissing while NoFabricManager;
    }
    FabricManagerFailed: "Fabric Manager fails: <why>" {
        FabricManager "-" "request to query NVSwitch device information from NVSwitch driver failed with error:<why..>" polled;
        FabricManager "-" "detected number of NVSwitches don't match with any supported system topology, aborting fabric manager" polled;
        FabricManager "-" "<program>: error while loading shared libraries: <why..>" polled;
    }
    FabricNotInitialised: "the NVLink fabric of <device> is not initialized" {
        Persistenced "-" "device <device> - Could not enable UVM Persistence mode because the NVLink fabric is not initialized." polled;
    }
    // Installers.
    PackageNotInstalled: "a package is not installed: <package>" {
        Installer "-" "E: Package '<package>' has no installation candidate";
        Installer "-" "E: Unable to locate package <package>";
        Installer "-" "E: Version '<version>' for '<package>' was not found";
        Installer "-" "Error: Unable to find a match: <package..>";
        Installer "-" "No match for argument: <package>";
    }
    // The kernel.
    KernelStarted: "the kernel starts: <version>" { Kernel "-" "Linux version <version> <build..>"; }
    NicProbed: "mlx5_core takes <bdf>" { Kernel "-" "mlx5_core <bdf>: firmware version: <version>" polled; }
    MofedCompatLoaded: "MOFED's mlx_compat is loaded" { Kernel "-" "Compat-mlnx-ofed backport release: <version>"; }
    NvidiaLoaded: "nvidia is loaded: <version>" { Kernel "-" "NVRM: loading NVIDIA UNIX <version..>"; }
    GpuAppeared: "the kernel finds the GPU <bdf>" {
        Kernel "-" "pci <bdf>: [10de:<device>] type 00 class 0x03<class..>";
    }
    NvidiaProbeFailed: "nvidia cannot use a GPU" {
        Kernel "-" "NVRM: GPU <gpu>: RmInitAdapter failed! <code..>" polled;
    }
    GpuBarInvalid: "nvidia refuses a GPU: a BAR has no address" {
        Kernel "-" "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:" polled;
        Kernel "-" "NVRM: BAR<number> is 0M @ 0x0 (PCI:<gpu>)" polled;
        => GpuBarUnassigned until [NvidiaLoaded];
    }
    GpuNeedsOpenModules: "nvidia refuses a GPU: it needs the open kernel modules" {
        Kernel "-" "NVRM: installed in this system requires use of the NVIDIA open kernel modules." polled;
        => GpuNeedsOpenModules until [NvidiaLoaded];
    }
    GpuNeedsProprietaryModules: "nvidia refuses a GPU: the open kernel modules do not support it" {
        Kernel "-" "NVRM: installed in this system is not supported by open" polled;
        => GpuNeedsProprietaryModules until [NvidiaLoaded];
    }
    GpuNotSupported: "nvidia refuses a GPU: this driver release does not support it" {
        Kernel "-" "NVRM: installed in this system is not supported by the" polled;
        Kernel "-" "NVRM: installed in this system is not supported by the NVIDIA <version> driver release.<more..>" polled;
        Kernel "-" "NVRM: supported through the NVIDIA <version> <kind> drivers.<more..>" polled;
        => GpuNotSupported until [NvidiaLoaded];
    }
    GpuFirmwareMissing: "nvidia finds no firmware for a GPU" {
        Kernel "-" "nvidia <bdf>: Direct firmware load for nvidia/<file> failed with error -<number>" polled;
        Kernel "-" "NVRM: RmFetchGspRmImages: No firmware image found" polled;
        => GpuFirmwareMissing until [NvidiaLoaded];
    }
    GpuLost: "a GPU has fallen off the bus" {
        Kernel "-" "NVRM: Xid (PCI:<gpu>): 79, <what..>";
        Kernel "-" "NVRM: GPU <gpu>: GPU has fallen off the bus.";
        Kernel "-" "NVRM: fallen off the bus and is not responding to commands.";
        Smi "-" "Unable to determine the device handle for GPU<bdf>: GPU is lost. <more..>";
        Smi "-" "Unable to determine the device handle for GPU <bdf>: GPU is lost. <more..>";
        => GpuLost until [NvidiaLoaded];
    }
    GpuRemapFailed: "a GPU cannot replace a bad row of its memory" {
        Smi "-" "Remapping Failure Occurred : Yes" polled;
        => GpuRemapFailed while Driver;
    }
    GpuRowPending: "a bad row of a GPU's memory is replaced at the GPU's next reset" {
        Kernel "-" "NVRM: Xid (PCI:<gpu>): 63, <what..>";
        Smi "-" "Pending : Yes" polled;
        Smi "-" "Pending Page Blacklist : Yes" polled;
        => GpuNeedsReset while Driver until [NvidiaLoaded, GpuRecovered];
    }
    GpuNeedsReset: "a GPU reports an error that only a reset clears" {
        Kernel "-" "NVRM: Xid (PCI:<gpu>): <xid>, <what..>";
        Kernel "-" "NVRM: Xid (PCI:<gpu>): 94, <what..>. RST: Yes, D-RST: <drain>";
        Kernel "-" "NVRM: Xid (PCI:<gpu>): 94, <what..>. RST: <reset>, D-RST: Yes";
        => GpuNeedsReset while Driver until [NvidiaLoaded, GpuRecovered];
    }
    GpuRecoveryNeeded: "the driver asks for a GPU's recovery" {
        Kernel "-" "NVRM: Xid (PCI:<gpu>): 154, <what..> to <code> (<action..>";
        Smi "-" "Reset Required : Yes" polled;
        Smi "-" "Drain and Reset Recommended : Yes" polled;
        Smi "-" "GPU Recovery Action : Reset" polled;
        Smi "-" "GPU Recovery Action : Reboot" polled;
        Smi "-" "GPU Recovery Action : Drain and Reset" polled;
        => GpuNeedsReset while Driver until [NvidiaLoaded, GpuRecovered];
    }
    GpuRecovered: "a GPU needs no reset anymore" { Kernel "-" "NVRM: Xid (PCI:<gpu>): 154, <what..> to <code> (None)"; }
    DriverUnreachable: "there is no nvidia driver" {
        Smi "-" "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.<more..>" polled;
        Installer "-" "modinfo: ERROR: Module nvidia not found.";
        => DriverNotLoaded while NoDriver until [NvidiaLoaded];
    }
    DkmsOnlyAdded: "DKMS has nvidia <version>, and has not built it" {
        Installer "-" "nvidia/<version>: added" polled;
        Installer "-" "nvidia, <version>: added" polled;
        => DriverForOtherKernel while NoDriver until [NvidiaLoaded];
    }
    NoGpuFound: "nvidia-smi finds no GPU" {
        Smi "-" "No devices were found" polled;
        => GpuNotInitialised while Driver until [NvidiaLoaded];
    }
    FabricInProgress: "the NVLink fabric is not set up" {
        Smi "-" "State : In Progress" polled;
        => GpuFabricManagerMissing while NoFabricManager;
    }
    DriverApiMismatch: "a program's driver libraries are of another version than nvidia" {
        Kernel "-" "NVRM: API mismatch: <what..>" polled;
        Smi "-" "Failed to initialize NVML: Driver/library version mismatch";
        => DriverVersionMismatch while Driver until [NvidiaLoaded];
    }
    KernelOutOfMemory: "the kernel kills <program> in <cgroup>: its memory limit is reached" {
        Kernel "-" "oom-kill:constraint=CONSTRAINT_MEMCG,<more..>task_memcg=<cgroup>,task=<program>,pid=<number>,uid=<number>";
    }
    SelinuxDenied: "SELinux forbids the load of a module" {
        Kernel "-" "audit: type=1400 audit(<stamp>): avc: denied { module_load } for <what..>" polled;
        => SelinuxRefuses while NoDriver until [NvidiaLoaded];
    }
    TaskHangs: "<task> hangs in the kernel" {
        Kernel "-" "INFO: task <task> blocked for more than <number> seconds." polled;
        => TaskHangs while Without("driver-ready") about "task" ["nvidia", "nv_", "modprobe", "rmmod", "mlx5"];
    }
    RuntimeSignalDenied: "AppArmor forbids <program> to end a container" {
        Kernel "-" "audit: type=1400 audit(<stamp>): apparmor=\"DENIED\" operation=\"signal\" <more..> comm=<program> <rest..>" polled;
    }
    NicFirmwareFailed: "the firmware of <bdf> does not answer" {
        Kernel "-" "mlx5_core <bdf>: <place>:<number>:(pid <number>): Firmware over <number> MS in pre-initializing state, aborting";
        Kernel "-" "mlx5_core <bdf>: <place>:<number>:(pid <number>): device's health compromised - reached miss count";
        Kernel "-" "mlx5_core <bdf>: <place>:<number>:(pid <number>): health recovery failed";
    }
    NicProbeFailed: "mlx5_core cannot use <bdf>" {
        Kernel "-" "mlx5_core <bdf>: probe_one:<number>:(pid <number>): mlx5_init_one failed with error code -<number>";
        Kernel "-" "mlx5_core: probe of <bdf> failed with error -<number>";
        Kernel "-" "mlx5_core <bdf>: probe with driver mlx5_core failed with error -<number>";
    }
    PortDown: "the link of <bdf> is down" {
        Kernel "-" "mlx5_core <bdf>: <place>:<number>:(pid <number>): Port module event: module <number>, Cable unplugged";
        Kernel "-" "mlx5_core <bdf> <interface>: Link down";
    }
    NouveauTookGpu: "nouveau takes <bdf>" { Kernel "-" "nouveau <bdf>: NVIDIA <chip..>"; }
    VfsWithoutRoom: "<bdf> gets no virtual functions: their memory has no room" {
        Kernel "-" "mlx5_core <bdf>: not enough MMIO resources for SR-IOV" polled;
        => VfsWithoutRoom while NoVirtualFunction;
    }
    KernelDisagreesAboutVersion: "the kernel refuses <module>: another version of <symbol>", Bad {
        Kernel "-" "<module>: disagrees about version of symbol <symbol>";
        => DriverForOtherKernel while NoDriver about "module" MODULES until [NvidiaLoaded];
        => ModuleOfAnotherStack while Refused about "module" USERS;
    }
    KernelUnknownSymbol: "the kernel refuses <module>: <symbol> is missing (<number>)", Bad {
        Kernel "-" "<module>: Unknown symbol <symbol> (err -<number>)";
        => GdsNeedsOpenModules while Refused about "module" ["nvidia_fs"];
        => DriverModuleRefused while NoDriver about "module" MODULES until [NvidiaLoaded];
    }
    KernelGaveUpWaiting: "the kernel gives up waiting for <needed>, which <module> needs" {
        Kernel "-" "<module>: gave up waiting for init of module <needed>.";
    }
    KernelNoSymbolVersion: "the kernel refuses <module>: it has no version of <symbol>", Bad {
        Kernel "-" "<module>: no symbol version for <symbol>";
    }
    KernelVersionMagic: "the kernel refuses <module>: built for another kernel", Bad {
        Kernel "-" "<module>: version magic '<magic..>";
        => DriverForOtherKernel while NoDriver about "module" MODULES until [NvidiaLoaded];
    }
    KernelBadParameter: "the kernel refuses <module>: <value> for <parameter>" {
        Kernel "-" "<module>: `<value..>' invalid for parameter `<parameter>'";
    }
    ModuleSignatureRejected: "the kernel refuses a module without a valid signature", Bad {
        Driver "-" "ERROR: The kernel module failed to load, because it was not signed by a key<more..>";
        DriverToolkit "-" "ERROR: The kernel module failed to load, because it was not signed by a key<more..>";
        Kernel "-" "Loading of <what..> is rejected";
    }
    KernelLockdown: "the kernel is locked down: <what>" {
        Kernel "-" "Lockdown: <program>: <what..> is restricted; see man kernel_lockdown.7";
    }
    KernelDuplicateSymbol: "the kernel refuses <module>: <symbol> exists already" {
        Kernel "-" "<module>: exports duplicate symbol <symbol> (owned by <owner>)";
    }
    PeermemNameTaken: "another client has registered as nv_mem" {
        Kernel "-" "sysfs: cannot create duplicate filename '/kernel/mm/memory_peers/<client>'";
    }
    PeermemRegistrationFailed: "nvidia_peermem cannot register", Bad {
        Kernel "-" "nvidia-peermem <place>:<number> ERROR nv_mem_client_init -- error while registering <what..> client";
    }
    PeermemBadParameter: "nvidia_peermem refuses a parameter" {
        Kernel "-" "nvidia-peermem <place>:<number> ERROR invalid <parameter> param value <value>";
    }
    HostPeermemRefused: "Talos cannot load nvidia_peermem: <why>" {
        Talos "-" "controller failed {\"controller\": \"runtime.KernelModuleSpecController\", \"error\": \"error loading module \\\"nvidia_peermem\\\": <why..>" polled;
    }
    // Clocks.
    ClockStepped: "the system clock is stepped by <seconds> s" {
        Clock "-" "System clock was stepped by <seconds> seconds";
    }
}
