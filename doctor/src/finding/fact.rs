// SPDX-License-Identifier: Apache-2.0
//! Facts beyond the gate's own, which decide which step of a finding's remedy helps.

use super::cause::FailureCause;
use peermem_gate::words::remedy::fact::{DRIVER_POD, MOFED_POD};
use peermem_gate::words::remedy::{Fact, Facts, Premise};

macro_rules! facts {
    ($($(#[$doc:meta])* $name:ident: $phrase:literal $($off:ident)?;)*) => {
        $($(#[$doc])* pub const $name: Fact = Fact::new($phrase);)*

        /// Those that hold only of a finding that says so.
        const OFF: &[Fact] = &[$($(facts!(@$off $name),)?)*];
    };
    (@off $name:ident) => { $name };
}

facts! {
    /// The third party's module that MOFED refuses is the kernel's own `iw_cm` (doca-driver-build#298).
    REFUSES_IW_CM: "If the log names `iw_cm`";
    /// MOFED's container may not unload storage modules.
    STORAGE_KEPT: "If MOFED's container does not have `UNLOAD_STORAGE_MODULES=true`";
    /// MOFED's container may unload storage modules, and they are loaded all the same.
    STORAGE_UNLOADED: "If MOFED's container has `UNLOAD_STORAGE_MODULES=true`";
    /// MOFED's container may not unload a third party's modules.
    THIRD_PARTY_KEPT: "If MOFED's container does not have `UNLOAD_THIRD_PARTY_RDMA_MODULES=true`";
    /// MOFED's container may unload a third party's modules, and they are loaded all the same.
    THIRD_PARTY_UNLOADED: "If MOFED's container has `UNLOAD_THIRD_PARTY_RDMA_MODULES=true`";
    /// A third party's RDMA module is loaded.
    THIRD_PARTY_LOADED: "If one of them is loaded";
    /// The cluster is `OpenShift`.
    OPENSHIFT: "On OpenShift";
    /// The node is a virtual machine.
    VIRTUAL_MACHINE: "If the node is a virtual machine";
    /// `NVSwitches` connect the GPUs, and this machine sets them up.
    SWITCHES_HERE: "If there are NVSwitches";
    /// No program sets up how the GPUs reach each other.
    NO_SWITCHES: "If there is no NVSwitch";
    /// The GPUs are of a rack, whose switches are other machines.
    RACK: "In a rack (GB200, GB300)";
    /// Fabric Manager began before a GPU came onto the bus.
    MANAGER_IS_OLDER: "If Fabric Manager is older than the GPU" off;
    /// kubelet uses CRI-O.
    CRI_O: "If kubelet uses CRI-O";
    /// The toolkit's container lacks a variable that it needs for the runtime that kubelet uses.
    TOOLKIT_LACKS: "If the toolkit's container does not have these values yet";
    /// The toolkit's container has all variables that it needs for the runtime that kubelet uses.
    TOOLKIT_HAS: "If the toolkit's container has these values already";
    /// The running kernel's modules.dep lists no `mlx5_ib`.
    KERNEL_LACKS_IB: "If this kernel has no mlx5_ib";
    /// kubelet uses containerd, in whichever distribution.
    CONTAINERD: "If kubelet uses containerd";
    /// `nvidia_drm` is loaded.
    DRM_LOADED: "If nvidia_drm is loaded";
    /// The driver's pod has the gate.
    WITH_GATE: "If the driver pod has the gate";
    /// The validation waits for `nvidia_peermem`, by its own log.
    PEERMEM_AWAITED: "If the validation's log names nvidia_peermem" off;
    /// A label of the node decides whether the writer of the file runs here.
    LABELED: "If a label decides where the writer runs" off;
    /// The file that is waited for is MOFED's marker.
    MOFED_AWAITED: "If the file is MOFED's marker" off;
    /// NVIDIA's hook is called without NVIDIA's runtime.
    HOOK_ALONE: "If the hook is called directly" off;
    /// The toolkit's configuration does not say that CDI is to be used.
    NOT_CDI: "If the toolkit is not in CDI mode";
    /// A pod writes the CDI specification whenever it starts.
    SPEC_OF_POD: "If a pod writes the specification" off;
    /// An administrator or a service of the host writes the CDI specification.
    SPEC_OF_HOST: "If the host's own `nvidia-ctk` wrote the specification" off;
    /// Another CDI specification names the loaded driver.
    SPEC_REPLACED: "If another specification names the loaded driver" off;
    /// Two CDI specifications define one device.
    SPECS_CONFLICT: "If two specifications define one device" off;
    /// The container's part of the operator can be turned off.
    SWITCHED: "If that part is optional" off;
    /// The toolkit's own container is not started, because a CDI device is missing.
    TOOLKIT_HELD: "If the toolkit's own container does not start" off;
    /// systemd runs the host's services: not on Talos.
    SYSTEMD: "If systemd runs the host's services";
    /// The host is Talos: it has neither a shell nor systemd.
    TALOS: "On Talos";
    /// The host's system comes as an image, without a package manager.
    IMAGE: "If the host's system comes as an image";
    /// A disk of the node depends on the module that uses another.
    HELD_BY_DISK: "If a disk of the node depends on its holder";
    /// Neither a disk nor the network of the node depends on the module that uses another.
    HOLDER_IS_HARMLESS: "If neither a disk nor the network of the node depends on its holder";
    /// The driver's modules come with its image: for this the log counts, not only a setting.
    PRECOMPILED_IMAGE: "If the image contains modules of one kernel (precompiled)";
    /// The driver's container builds its modules.
    BUILT_DRIVER: "If the driver container builds its modules";
    /// A pod asks for a CDI device of the kind that only the operator's own pods use.
    MANAGEMENT_KIND: "If the device is of `management.nvidia.com`" off;
    /// Fabric Manager's own log says why it does not run.
    MANAGER_SAYS_WHY: "If Fabric Manager's log has the reason" off;
    /// An init container of MOFED's pod runs, and MOFED's own has not been started.
    INIT_WAITS: "If an init container of MOFED's pod waits" off;
    /// No such pod is here.
    NO_INIT_WAITS: "If no MOFED pod is on the node";
    /// A file of modprobe's, or the kernel's command line, keeps nvidia from loading.
    KEPT_OUT: "If a file of modprobe.d keeps nvidia from loading" off;
    /// The package that MOFED's container misses is one of the running kernel.
    KERNEL_PACKAGE: "If the log misses a package of this kernel" off;
    /// A security module forbids the container runtime to end a container.
    SIGNAL_DENIED: "If AppArmor or SELinux forbids the runtime's signal (`dmesg | grep DENIED`)";
    /// The log of a container names a remedy itself.
    LOG_ADVISES: "If the log itself names a remedy" off;
    /// What a service did not find at its start is here now.
    WANTED_CAME: "If the device file is here now" off;
    /// It is not known to be here.
    STILL_WANTED: "If it is still missing";
    /// What failed is not of the machine, but of the release.
    NEWER_HELPS: "If no other step fits";
    /// The driver does not support the CUDA that an image requires.
    CUDA_LACKING: "If the driver lacks that CUDA";
    /// It does now.
    CUDA_SUPPORTED: "If the driver has that CUDA by now" off;
    /// A row of a GPU's memory is marked to be remapped.
    ROW_PENDING: "If the only message is a pending row" off;
    /// The module that DKMS cannot build only gives peer memory.
    PEER_MODULE: "If the module only gives peer memory" off;
    /// No build of the driver's by DKMS has failed.
    DKMS_BUILDS: "If DKMS has not failed at it";
    /// The node is one of a Kubernetes cluster.
    KUBERNETES: "If the node is one of a Kubernetes cluster";
    /// The GPU Operator manages the node.
    GPU_OPERATOR: "If the cluster has the GPU Operator";
    /// The Network Operator manages the node.
    NETWORK_OPERATOR: "If the cluster has the Network Operator";
}

/// What a step needs by its words, whoever wrote it and whatever its own conditions are.
pub const PREMISES: &[Premise] = &[
    premise("{driver}", DRIVER_POD, &[]),
    premise("{mofed}", MOFED_POD, &[]),
    premise("NicClusterPolicy", NETWORK_OPERATOR, &[MOFED_POD]),
    premise("`spec.ofedDriver.", NETWORK_OPERATOR, &[MOFED_POD]),
    premise(" ClusterPolicy", GPU_OPERATOR, &[DRIVER_POD]),
    premise("`driver.", GPU_OPERATOR, &[DRIVER_POD]),
    premise("`toolkit.", GPU_OPERATOR, &[DRIVER_POD]),
    premise("`cdi.", GPU_OPERATOR, &[DRIVER_POD]),
    premise("kubectl ", KUBERNETES, &[DRIVER_POD, MOFED_POD, GPU_OPERATOR, NETWORK_OPERATOR, OPENSHIFT]),
    premise("`systemctl ", SYSTEMD, &[]),
    premise("`dkms autoinstall", DKMS_BUILDS, &[]),
    premise("only Fabric Manager waits", SWITCHES_HERE, &[]),
];

const fn premise(words: &'static str, fact: Fact, with: &'static [Fact]) -> Premise {
    Premise { words, fact, with }
}

macro_rules! causes {
    ($($cause:ident $fact:ident: $phrase:literal;)*) => {
        $(#[doc = $phrase] pub const $fact: Fact = Fact::new($phrase);)*

        impl FailureCause {
            /// The fact that the words of the evidence have this reason.
            pub fn fact(self) -> Fact {
                match self { $(Self::$cause => $fact,)* }
            }
        }
    };
}

causes! {
    CompilerUnfit COMPILER_UNFIT: "If they name the compiler or its options";
    SourceUnfit SOURCE_UNFIT: "If they name a function or a type of the kernel";
    HeadersMissing HEADERS_MISSING: "If they name the kernel's headers";
    SymbolMissing SYMBOL_MISSING: "If they name a symbol";
    OutOfMemory OUT_OF_MEMORY: "If memory is used up";
    KeyRejected KEY_REJECTED: "If a key was rejected";
    NoSpace NO_SPACE: "If no space is left";
    ReadOnly READ_ONLY: "If they name a read-only file system";
    QuotaExceeded QUOTA_EXCEEDED: "If they name a quota that is used up";
    RefusedByRule REFUSED_BY_RULE: "If they name a rule of the cluster that refuses";
    Forbidden FORBIDDEN: "If a service account is forbidden something";
    KindMissing KIND_MISSING: "If they name a kind that the cluster does not have";
    NoSocket NO_SOCKET: "If they name a socket that nobody listens on";
    Unreachable UNREACHABLE: "If they name an address that is out of reach";
    Certificate CERTIFICATE: "If they name a certificate";
    PortTaken PORT_TAKEN: "If an address is in use";
    OtherArchitecture OTHER_ARCHITECTURE: "If they are `exec format error`";
    LibraryMissing LIBRARY_MISSING: "If they name a library that is missing";
    AccessRefused ACCESS_REFUSED: "If access was refused";
    NotSupported NOT_SUPPORTED: "If something is not supported";
}

/// Before a finding says what it knows: no reason, and none that says what is off.
pub fn unsaid(facts: Facts) -> Facts {
    let causes = FailureCause::ALL.iter().map(|cause| cause.fact());
    causes.chain(OFF.iter().copied()).fold(facts, |facts, fact| facts.with(fact, Some(false)))
}
