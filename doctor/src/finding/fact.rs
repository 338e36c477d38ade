// SPDX-License-Identifier: Apache-2.0
//! Facts beyond the gate's own, which decide which step of a finding's remedy helps.

use super::cause::FailureCause;
use peermem_gate::words::remedy::fact::{DRIVER_POD, MOFED_POD};
use peermem_gate::words::remedy::{Fact, Facts, Premise};

/// The third party's module that MOFED refuses is the kernel's own `iw_cm` (doca-driver-build#298).
pub const REFUSES_IW_CM: Fact = Fact::new("If the log names `iw_cm`");
/// MOFED's container may not unload storage modules.
pub const STORAGE_KEPT: Fact = Fact::new("If MOFED's container does not have `UNLOAD_STORAGE_MODULES=true`");
/// MOFED's container may unload storage modules, and they are loaded all the same.
pub const STORAGE_UNLOADED: Fact = Fact::new("If MOFED's container has `UNLOAD_STORAGE_MODULES=true`");
/// MOFED's container may not unload a third party's modules.
pub const THIRD_PARTY_KEPT: Fact =
    Fact::new("If MOFED's container does not have `UNLOAD_THIRD_PARTY_RDMA_MODULES=true`");
/// MOFED's container may unload a third party's modules, and they are loaded all the same.
pub const THIRD_PARTY_UNLOADED: Fact =
    Fact::new("If MOFED's container has `UNLOAD_THIRD_PARTY_RDMA_MODULES=true`");
/// A third party's RDMA module is loaded.
pub const THIRD_PARTY_LOADED: Fact = Fact::new("If one of them is loaded");
/// The cluster is `OpenShift`.
pub const OPENSHIFT: Fact = Fact::new("On OpenShift");
/// The node is a virtual machine.
pub const VIRTUAL_MACHINE: Fact = Fact::new("If the node is a virtual machine");
/// kubelet uses CRI-O.
pub const CRI_O: Fact = Fact::new("If kubelet uses CRI-O");
/// The toolkit's container lacks a variable that it needs for the runtime that kubelet uses.
pub const TOOLKIT_LACKS: Fact = Fact::new("If the toolkit's container does not have these values yet");
/// The toolkit's container has all variables that it needs for the runtime that kubelet uses.
pub const TOOLKIT_HAS: Fact = Fact::new("If the toolkit's container has these values already");
/// The running kernel's modules.dep lists no `mlx5_ib`.
pub const KERNEL_LACKS_IB: Fact = Fact::new("If this kernel has no mlx5_ib");
/// kubelet uses containerd, in whichever distribution.
pub const CONTAINERD: Fact = Fact::new("If kubelet uses containerd");
/// `nvidia_drm` is loaded.
pub const DRM_LOADED: Fact = Fact::new("If nvidia_drm is loaded");
/// The driver's pod has the gate.
pub const WITH_GATE: Fact = Fact::new("If the driver pod has the gate");
/// The validation waits for `nvidia_peermem`, by its own log.
pub const PEERMEM_AWAITED: Fact = Fact::new("If the validation's log names nvidia_peermem");
/// A label of the node decides whether the writer of the file runs here.
pub const LABELED: Fact = Fact::new("If a label decides where the writer runs");
/// The file that is waited for is MOFED's marker.
pub const MOFED_AWAITED: Fact = Fact::new("If the file is MOFED's marker");
/// NVIDIA's hook is called without NVIDIA's runtime.
pub const HOOK_ALONE: Fact = Fact::new("If the words are that the hook is called directly");
/// The toolkit's configuration does not say that CDI is to be used.
pub const NOT_CDI: Fact = Fact::new("If the toolkit is not in CDI mode");
/// A pod writes the CDI specification whenever it starts.
pub const SPEC_OF_POD: Fact = Fact::new("If a pod writes the specification");
/// An administrator or a service of the host writes the CDI specification.
pub const SPEC_OF_HOST: Fact = Fact::new("If the host's own `nvidia-ctk` wrote the specification");
/// Another CDI specification names the loaded driver.
pub const SPEC_REPLACED: Fact = Fact::new("If another specification names the loaded driver");
/// Two CDI specifications define one device.
pub const SPECS_CONFLICT: Fact = Fact::new("If two specifications define one device");
/// The container's part of the operator can be turned off.
pub const SWITCHED: Fact = Fact::new("If that part is optional");
/// The toolkit's own container is not started, because a CDI device is missing.
pub const TOOLKIT_HELD: Fact = Fact::new("If the toolkit's own container does not start");
/// systemd runs the host's services: not on Talos.
pub const SYSTEMD: Fact = Fact::new("If systemd runs the host's services");
/// The host is Talos: it has neither a shell nor systemd.
pub const TALOS: Fact = Fact::new("On Talos");
/// The host's system comes as an image, without a package manager.
pub const IMAGE: Fact = Fact::new("If the host's system comes as an image");
/// The node's own disks may depend on the module that uses another.
pub const HELD_BY_NVME: Fact = Fact::new("If nvme or nvme_core uses it");
/// No module of the node's own disks uses another that MOFED replaces: a new start of MOFED may succeed.
pub const NOT_HELD_BY_NVME: Fact = Fact::new("If neither nvme nor nvme_core uses it");
/// Neither a disk nor the network of the node depends on the module that uses another.
pub const HOLDER_IS_HARMLESS: Fact =
    Fact::new("If neither a disk nor the network of the node depends on its holder");
/// The driver's modules come with its image: for this the log counts, not only a setting.
pub const PRECOMPILED_IMAGE: Fact = Fact::new("If the image contains modules of one kernel (precompiled)");
/// The driver's container builds its modules.
pub const BUILT_DRIVER: Fact = Fact::new("If the driver container builds its modules");
/// A pod asks for a CDI device of the kind that only the operator's own pods use.
pub const MANAGEMENT_KIND: Fact = Fact::new("If the device is of `management.nvidia.com`");
/// Fabric Manager's own log says why it does not run.
pub const MANAGER_SAYS_WHY: Fact = Fact::new("If Fabric Manager's log has the reason");
/// An init container of MOFED's pod runs, and MOFED's own has not been started.
pub const INIT_WAITS: Fact = Fact::new("If an init container of MOFED's pod waits");
/// No such pod is here.
pub const NO_INIT_WAITS: Fact = Fact::new("If no MOFED pod is on the node");
/// A file of modprobe's, or the kernel's command line, keeps nvidia from loading.
pub const KEPT_OUT: Fact = Fact::new("If a file of modprobe.d keeps nvidia from loading");
/// The package that MOFED's container misses is one of the running kernel.
pub const KERNEL_PACKAGE: Fact = Fact::new("If the log misses a package of this kernel");
/// A security module forbids the container runtime to end a container.
pub const SIGNAL_DENIED: Fact =
    Fact::new("If AppArmor or SELinux forbids the runtime's signal (`dmesg | grep DENIED`)");
/// The log of a container names a remedy itself.
pub const LOG_ADVISES: Fact = Fact::new("If the log itself names a remedy");

/// The module that DKMS cannot build only gives peer memory.
pub const PEER_MODULE: Fact = Fact::new("If the module only gives peer memory");
/// No build of the driver's by DKMS has failed.
pub const DKMS_BUILDS: Fact = Fact::new("If DKMS has not failed at it");
/// The node is one of a Kubernetes cluster.
pub const KUBERNETES: Fact = Fact::new("If the node is one of a Kubernetes cluster");
/// The GPU Operator manages the node.
pub const GPU_OPERATOR: Fact = Fact::new("If the cluster has the GPU Operator");
/// The Network Operator manages the node.
pub const NETWORK_OPERATOR: Fact = Fact::new("If the cluster has the Network Operator");

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
];

const fn premise(words: &'static str, fact: Fact, with: &'static [Fact]) -> Premise {
    Premise { words, fact, with }
}

macro_rules! causes {
    ($($cause:ident $fact:ident: $phrase:literal;)*) => {
        $(#[doc = $phrase] pub const $fact: Fact = Fact::new($phrase);)*

        impl FailureCause {
            /// The fact that the words of the evidence have this reason.
            #[must_use]
            pub fn fact(self) -> Fact {
                match self { $(Self::$cause => $fact,)* }
            }
        }
    };
}

causes! {
    KeyRejected KEY_REJECTED: "If the words say that a key was rejected";
    NoSpace NO_SPACE: "If the words say that no space is left";
    ReadOnly READ_ONLY: "If the words name a read-only file system";
    QuotaExceeded QUOTA_EXCEEDED: "If the words name a quota that is used up";
    RefusedByRule REFUSED_BY_RULE: "If the words name a rule of the cluster that refuses";
    Forbidden FORBIDDEN: "If the words say that a service account is forbidden something";
    KindMissing KIND_MISSING: "If the words name a kind that the cluster does not have";
    NoSocket NO_SOCKET: "If the words name a socket that nobody listens on";
    Unreachable UNREACHABLE: "If the words name an address that is out of reach";
    Certificate CERTIFICATE: "If the words name a certificate";
    PortTaken PORT_TAKEN: "If the words say that an address is in use";
    OtherArchitecture OTHER_ARCHITECTURE: "If the words are `exec format error`";
    LibraryMissing LIBRARY_MISSING: "If the words name a library that is missing";
    AccessRefused ACCESS_REFUSED: "If the words say that access was refused";
    NotSupported NOT_SUPPORTED: "If the words say that something is not supported";
}

/// None of the reasons is known, before a finding says which of them its evidence names.
#[must_use]
pub fn without_cause(facts: Facts) -> Facts {
    FailureCause::ALL.iter().fold(facts, |facts, cause| facts.with(cause.fact(), Some(false)))
}
