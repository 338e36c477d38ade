// SPDX-License-Identifier: Apache-2.0
//! Who speaks in logs: the upstream programs, in which containers they run, and how they print a line.

use super::dress::Dress;
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! programs {
    ($($who:ident: $name:literal, $source:literal, in [$($container:literal),*], [$($dress:ident),*];)*) => {
        /// A program whose sentences we know.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Who { $(#[doc = $name] $who,)* }

        impl Who {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$who,)*];

            /// Its name for people.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$who => $name,)* }
            }

            /// Where its sentences were read.
            #[must_use]
            pub fn source(self) -> &'static str {
                match self { $(Self::$who => $source,)* }
            }

            /// The containers that it runs in, by name.
            #[must_use]
            pub fn containers(self) -> &'static [&'static str] {
                match self { $(Self::$who => &[$($container),*],)* }
            }

            /// What it puts before a sentence. A line without any such thing may be its too: some of its
            /// lines are other programs', and logs are passed on without it.
            pub(super) fn dresses(self) -> &'static [Dress] {
                match self { $(Self::$who => &[$(Dress::$dress),*],)* }
            }
        }
    };
}

programs! {
    MofedBash: "MOFED (bash entrypoint)", "doca-driver-build, entrypoint.sh", in ["mofed-container"], [Bracketed];
    MofedGo: "MOFED (Go entrypoint)", "doca-driver-build, entrypoint/", in ["mofed-container"], [Zap, Tracing, Logrus];
    MofedToolkit: "MOFED's driver toolkit", "doca-driver-build, dtk_nic_driver_build.sh and entrypoint/internal/dtk",
        in ["openshift-driver-toolkit-ctr"], [Bracketed, Zap];
    DriverManager: "k8s-driver-manager", "k8s-driver-manager, cmd/driver-manager and driver-manager",
        in ["k8s-driver-manager"], [Logrus];
    Driver: "nvidia-driver-ctr", "gpu-driver-container, nvidia-driver and ocp_dtk_entrypoint",
        in ["nvidia-driver-ctr"], [Dated];
    DriverToolkit: "the GPU driver's driver toolkit", "gpu-driver-container, ocp_dtk_entrypoint",
        in ["openshift-driver-toolkit-ctr"], [];
    Peermem: "nvidia-peermem-ctr", "gpu-driver-container, nvidia-driver reload_nvidia_peermem",
        in ["nvidia-peermem-ctr"], [];
    Validator: "the operator's validator", "gpu-operator, cmd/nvidia-validator and assets/",
        in ["driver-validation", "toolkit-validation", "cuda-validation", "plugin-validation", "mofed-validation",
            "nvidia-operator-validator"], [Logrus];
    Toolkit: "nvidia-container-toolkit", "nvidia-container-toolkit, cmd/nvidia-ctk-installer",
        in ["nvidia-container-toolkit-ctr"], [Logrus];
    DevicePlugin: "nvidia-device-plugin", "k8s-device-plugin, cmd/nvidia-device-plugin",
        in ["nvidia-device-plugin", "nvidia-device-plugin-ctr"], [Klog];
    MigManager: "nvidia-mig-manager", "mig-parted, cmd/nvidia-mig-manager and pkg/mig/reconfigure",
        in ["nvidia-mig-manager"], [Logrus];
    RdmaPlugin: "the RDMA shared device plugin", "k8s-rdma-shared-dev-plugin, pkg/resources",
        in ["rdma-shared-dp", "k8s-rdma-shared-dp-ds", "kube-rdma-shared-dp"], [GoLog];
    SriovDaemon: "the SR-IOV operator's daemon", "sriov-network-operator, pkg/plugins/mellanox",
        in ["sriov-network-config-daemon"], [Zap];
    ImexDaemon: "nvidia-imex", "nvidia-imex; k8s-dra-driver-gpu, cmd/compute-domain-daemon",
        in ["compute-domain-daemon"], [Threaded];
    Gate: "peermem-gate", "this program",
        in ["peermem-gate", "peermem-gate-keep", "nvidia-driver-ctr", "nvidia-peermem-ctr", "k8s-driver-manager"], [Tracing];
    Kernel: "the kernel", "Linux, kernel/module and kernel/params.c; nvidia, mlx5_core and mlx_compat", in [], [];
    Kubelet: "kubelet", "kubernetes, pkg/kubelet/pod_workers.go; containerd", in [], [Klog];
    Containerd: "containerd", "containerd, cmd/containerd/server and internal/cri", in [], [Logrus];
    Gridd: "nvidia-gridd", "NVIDIA's vGPU guest driver", in [], [];
    FabricManagerStart: "nvidia-fabricmanager-start.sh", "NVIDIA's fabric manager", in [], [];
    // A service, whose log has that name.
    Talos: "Talos", "talos, internal/app/machined, KernelModuleSpecController", in ["controller-runtime"], [Tracing];
    Clock: "chronyd", "chrony, sys_generic.c and reference.c", in [], [];
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Programs that may have written a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speakers(u32);

impl Speakers {
    /// Those that run in a container of this name; none where no sentence of such a container is known.
    #[must_use]
    pub fn in_container(name: &str) -> Self {
        Who::ALL.iter().copied().filter(|who| who.containers().contains(&name)).collect()
    }

    /// Is it among them?
    #[must_use]
    pub fn contain(self, who: Who) -> bool {
        self.0 & 1 << who as u16 != 0
    }

    /// There is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many there are.
    #[must_use]
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Any of these.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
}

impl FromIterator<Who> for Speakers {
    fn from_iter<I: IntoIterator<Item = Who>>(all: I) -> Self {
        Self(all.into_iter().fold(0, |set, who| set | 1 << who as u16))
    }
}
