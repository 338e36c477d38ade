// SPDX-License-Identifier: Apache-2.0
//! The programs whose logs are read: in which containers they run, and how they print a line.

use super::prefix::LinePrefix;

/// Whose side an event is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// MOFED's container, its driver toolkit and its files.
    Mofed,
    /// The kernel, and the clock.
    Kernel,
    /// The GPU driver, and what comes after it.
    Gpu,
}

named!(Lane: Mofed = "mofed", Kernel = "kernel", Gpu = "gpu");

macro_rules! sources {
    ($($source:ident of $lane:ident: $name:literal, $read_in:literal
        $(, in [$($container:literal),*])? $(, as [$($identifier:literal),*])? $(, prefixes [$($prefix:ident),*])?;)*
    ) => {
        /// A program with known log lines.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum LogSource { $(#[doc = $name] $source,)* }

        named!(LogSource: $($source = $name),*);

        impl LogSource {
            /// Whose side it is on in a timeline.
            pub fn lane(self) -> Lane {
                match self { $(Self::$source => Lane::$lane,)* }
            }

            /// The upstream source that its patterns come from.
            pub fn read_in(self) -> &'static str {
                match self { $(Self::$source => $read_in,)* }
            }

            /// The containers that it runs in, by name.
            pub fn containers(self) -> &'static [&'static str] {
                match self { $(Self::$source => &[$($($container),*)?],)* }
            }

            /// Its names in the system's log.
            pub fn identifiers(self) -> &'static [&'static str] {
                match self { $(Self::$source => &[$($($identifier),*)?],)* }
            }

            /// The prefixes of its lines. A line without a prefix may be its too: some lines are of programs that it
            /// runs, and logs are passed on without prefixes.
            pub(super) fn prefixes(self) -> &'static [LinePrefix] {
                match self { $(Self::$source => &[$($(LinePrefix::$prefix),*)?],)* }
            }
        }
    };
}

sources! {
    MofedBash of Mofed: "MOFED (bash entrypoint)", "doca-driver-build, entrypoint.sh",
        in ["mofed-container"], prefixes [Bracketed];
    MofedGo of Mofed: "MOFED (Go entrypoint)", "doca-driver-build, entrypoint/",
        in ["mofed-container"], prefixes [Zap, Tracing, Logrus];
    MofedToolkit of Mofed: "MOFED's driver toolkit", "doca-driver-build, dtk_nic_driver_build.sh and entrypoint/internal/dtk",
        in ["openshift-driver-toolkit-ctr"], prefixes [Bracketed, Zap];
    DriverManager of Gpu: "k8s-driver-manager", "k8s-driver-manager, cmd/driver-manager and driver-manager",
        in ["k8s-driver-manager"], prefixes [Logrus];
    Driver of Gpu: "nvidia-driver-ctr", "gpu-driver-container, nvidia-driver and ocp_dtk_entrypoint",
        in ["nvidia-driver-ctr"], prefixes [Dated];
    DriverToolkit of Gpu: "the GPU driver's driver toolkit", "gpu-driver-container, ocp_dtk_entrypoint",
        in ["openshift-driver-toolkit-ctr"];
    Peermem of Gpu: "nvidia-peermem-ctr", "gpu-driver-container, nvidia-driver reload_nvidia_peermem",
        in ["nvidia-peermem-ctr"];
    Validator of Gpu: "the operator's validator", "gpu-operator, cmd/nvidia-validator and assets/",
        in ["driver-validation", "toolkit-validation", "cuda-validation", "plugin-validation", "mofed-validation",
            "nvidia-operator-validator"],
        prefixes [Logrus];
    Toolkit of Gpu: "nvidia-container-toolkit", "nvidia-container-toolkit, cmd/nvidia-ctk-installer",
        in ["nvidia-container-toolkit-ctr"], prefixes [Logrus];
    DevicePlugin of Gpu: "nvidia-device-plugin", "k8s-device-plugin, cmd/nvidia-device-plugin",
        in ["nvidia-device-plugin", "nvidia-device-plugin-ctr"], prefixes [Klog];
    MigManager of Gpu: "nvidia-mig-manager", "mig-parted, cmd/nvidia-mig-manager and pkg/mig/reconfigure",
        in ["nvidia-mig-manager"], prefixes [Logrus];
    RdmaPlugin of Gpu: "the RDMA shared device plugin", "k8s-rdma-shared-dev-plugin, pkg/resources",
        in ["rdma-shared-dp", "k8s-rdma-shared-dp-ds", "kube-rdma-shared-dp"], prefixes [GoLog];
    SriovDaemon of Gpu: "the SR-IOV operator's daemon", "sriov-network-operator, pkg/plugins/mellanox",
        in ["sriov-network-config-daemon"], prefixes [Zap];
    ImexDaemon of Gpu: "nvidia-imex", "nvidia-imex; k8s-dra-driver-gpu, cmd/compute-domain-daemon",
        in ["compute-domain-daemon"], prefixes [Threaded];
    Gate of Gpu: "peermem-gate", "this program",
        in ["peermem-gate", "peermem-gate-keep", "nvidia-driver-ctr", "nvidia-peermem-ctr", "k8s-driver-manager"],
        prefixes [Tracing];
    Kernel of Kernel: "the kernel", "Linux, kernel/module and kernel/params.c; nvidia, mlx5_core and mlx_compat",
        as ["kernel"];
    Kubelet of Gpu: "kubelet", "kubernetes, pkg/kubelet/pod_workers.go; containerd",
        as ["kubelet", "kubenswrapper", "hyperkube", "k3s", "rke2", "microk8s.daemon-kubelite"], prefixes [Klog];
    Containerd of Kernel: "containerd", "containerd, cmd/containerd/server and internal/cri",
        as ["containerd"], prefixes [Logrus];
    Systemd of Kernel: "systemd", "systemd, src/core/service.c", as ["systemd"];
    Crio of Kernel: "CRI-O", "cri-o, server", as ["crio"], prefixes [Logrus];
    // What they print becomes words of whoever runs the container. What docker(1) logs may be the container's.
    Hook of Kernel: "NVIDIA's container toolkit", "libnvidia-container, src/cli; nvidia-container-toolkit; moby, daemon",
        as ["nvidia-container-runtime", "nvidia-container-runtime-hook", "nvidia-ctk"];
    Dockerd of Kernel: "dockerd", "moby, daemon", as ["dockerd"], prefixes [Logrus];
    Gridd of Kernel: "nvidia-gridd", "NVIDIA's vGPU guest driver", as ["nvidia-gridd"];
    FabricManagerStart of Kernel: "nvidia-fabricmanager-start.sh", "NVIDIA's fabric manager",
        as ["nvidia-fabricmanager-start.sh"];
    FabricManager of Kernel: "Fabric Manager", "NVIDIA's fabric manager; its lines as public reports have them",
        as ["nv-fabricmanager"], prefixes [Threaded];
    Persistenced of Kernel: "nvidia-persistenced", "nvidia-persistenced, nvidia-persistenced.c", as ["nvidia-persistenced"];
    Smi of Kernel: "nvidia-smi", "nvidia-smi, as people post it", as ["nvidia-smi"];
    Installer of Kernel: "an installer", "apt and dnf, as cloud-init keeps their words; NVIDIA's installer", as ["cloud-init"];
    // A service, whose log has that name.
    Talos of Kernel: "Talos", "talos, internal/app/machined, KernelModuleSpecController",
        in ["controller-runtime"], prefixes [Tracing];
    Clock of Kernel: "chronyd", "chrony, sys_generic.c and reference.c", as ["chronyd"];
}

impl LogSource {
    /// Whether a line of this program's may have the words of that one.
    pub(super) fn tells_of(self, other: Self) -> bool {
        self == other || other == Self::Hook && matches!(self, Self::Containerd | Self::Crio | Self::Dockerd)
    }

    /// The program that has this name in the system's log.
    pub fn identified(name: &[u8]) -> Option<Self> {
        let is_its = |source: &Self| source.identifiers().iter().any(|own| own.as_bytes() == name);
        Self::ALL.iter().copied().find(is_its)
    }
}

/// Programs that may have written a log.
#[must_use]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSources(u32);

impl LogSources {
    /// Those that run in a container of this name; none where no line of such a container is known.
    pub fn in_container(name: &str) -> Self {
        LogSource::ALL.iter().copied().filter(|source| source.containers().contains(&name)).collect()
    }

    /// Those that write to the system's log.
    pub fn of_the_system() -> Self {
        LogSource::ALL.iter().copied().filter(|source| !source.identifiers().is_empty()).collect()
    }

    /// Is it among them?
    pub fn contain(self, source: LogSource) -> bool {
        self.0 & 1 << source as u16 != 0
    }

    /// Each of them.
    #[must_use = "an iterator does nothing by itself"]
    pub fn iter(self) -> impl Iterator<Item = LogSource> {
        LogSource::ALL.iter().copied().filter(move |source| self.contain(*source))
    }

    /// There is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many there are.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Any of these.
    pub fn or(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
}

impl FromIterator<LogSource> for LogSources {
    fn from_iter<I: IntoIterator<Item = LogSource>>(all: I) -> Self {
        Self(all.into_iter().fold(0, |set, source| set | 1 << source as u16))
    }
}
