// SPDX-License-Identifier: Apache-2.0
//! Every finding there is. docs/findings.md, and the remedies in docs/conditions.md, are made from
//! this table.

use super::Severity;

const MOFED_POD: &str = "Look at this node's MOFED pod and its log: \
    `kubectl get pod -A -o wide -l nvidia.com/ofed-driver --field-selector spec.nodeName={node}`.";
const DRIVER_POD: &str = "This node's driver pod: \
    `kubectl get pod -A -l app.kubernetes.io/component=nvidia-driver --field-selector spec.nodeName={node}`.";
const TOOLKIT_POD: &str = "This node's toolkit pod: \
    `kubectl get pod -A -l app=nvidia-container-toolkit-daemonset --field-selector spec.nodeName={node}`.";
const VALIDATOR_POD: &str = "This node's validator pod: \
    `kubectl get pod -A -l app=nvidia-operator-validator --field-selector spec.nodeName={node}`.";
const NEW_MOFED_POD: &str = "Delete this node's MOFED pod, a new one starts from the beginning: \
    `kubectl delete pod -A -l nvidia.com/ofed-driver --field-selector spec.nodeName={node}`.";
const NEW_DRIVER_POD: &str = "Delete this node's driver pod, so that the driver is built anew; a restart of its container \
    keeps the bad module: `kubectl delete pod -A -l app.kubernetes.io/component=nvidia-driver --field-selector \
    spec.nodeName={node}`.";
const NOT_BUILT: &str =
    "If the driver is not built even then, set `FORCE_REINSTALL=true` on the driver container.";
const PRECOMPILED: &str =
    "Precompiled: take a driver image whose nvidia-peermem was built against this MOFED.";
const DKMS: &str = "On a host without a driver container: build it again (dkms).";
const NEVER_MODPROBE_R: &str =
    "Then `rmmod nvidia_peermem`; never `modprobe -r`, which takes nvidia and ib_uverbs along.";
const REMOUNT: &str = "Delete the pod that looks (the gate's, or the driver's): only a new pod mounts anew, a restart of its \
    container does not.";
const MOUNT_PARENT: &str = "Mount the parent `/run/mellanox` with `mountPropagation: HostToContainer`, and it cannot happen \
    again.";
const AS_HOST_ROOT: &str = "Look as root, privileged, with the host's file systems: `hostPID: true`, the host mounted at \
    `/host`, and `--root /host`.";

macro_rules! findings {
    ($($name:ident: $severity:ident, $title:literal, after [$($cause:ident),*], [$($step:expr),* $(,)?];)*) => {
        #[expect(clippy::doc_markdown, reason = "the titles are shown as plain text")]
        /// A finding's name: stable. A cause stands above what follows from it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Id { $(#[doc = $title] $name,)* }

        impl Id {
            /// Every finding there is, in the order of causes.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// As it stands in reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// How bad it is.
            #[must_use]
            pub fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity,)* }
            }

            /// What is wrong, in a few words.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }

            /// What it may come from: the first of these that was found too is its cause.
            #[must_use]
            pub fn causes(self) -> &'static [Self] {
                match self { $(Self::$name => &[$(Self::$cause),*],)* }
            }

            /// What a person can do, step by step; `{node}` stands for the node's name.
            #[must_use]
            pub fn remedy(self) -> &'static [&'static str] {
                match self { $(Self::$name => &[$($step),*],)* }
            }
        }
    };
}

findings! {
    // What cannot be seen.
    SourceUnreadable: Unknown, "something that would tell more cannot be read",
        after [],
        [AS_HOST_ROOT];
    DevicesUnreadable: Unknown, "PCI devices cannot be read",
        after [],
        ["Mount the host's `/sys`, or name it with `--sys`."];
    VpdUnreadable: Unknown, "whether this is an NVLink 5 machine cannot be read",
        after [],
        ["Run it as root: only uid 0 may read `/sys/bus/pci/devices/*/vpd`, and it needs no capability for that."];
    RdmaDevicesUnreadable: Unknown, "RDMA devices cannot be read",
        after [],
        ["Mount the host's `/sys`, or name it with `--sys`."];
    MarkerUnreadable: Unknown, "the marker cannot be looked at",
        after [],
        ["Let this process search every directory on the way, or correct `--marker`.", AS_HOST_ROOT];
    LocksUnreadable: Unknown, "lock holders cannot be read",
        after [],
        ["Let this process read `/proc/locks` and the lock file, or correct `--proc`.", AS_HOST_ROOT];
    ModulesUnreadable: Unknown, "module states cannot be read",
        after [],
        ["Mount the host's `/proc` and `/sys`, or name them with `--proc` and `--sys`."];
    VersionUnreadable: Unknown, "mlx5_core's version cannot be read",
        after [],
        ["Let this process read `/sys`, or correct `--sys`."];
    SymbolsNotRead: Unknown, "kernel symbols were not read",
        after [],
        ["Nothing about this one: modules came and went while they were read. Look again."];
    HeadersUnreadable: Unknown, "MOFED's headers cannot be read",
        after [],
        ["Let this process read them, and mount `/run/mellanox/drivers` with `mountPropagation: HostToContainer`."];
    SignatureUnknown: Unknown, "whether unsigned modules may be loaded cannot be read",
        after [],
        [AS_HOST_ROOT];
    ModuleFileUnreadable: Unknown, "nvidia-peermem.ko cannot be read",
        after [],
        ["Run it as root, let it read that path, or correct `--driver-root`."];

    // The view: what keeps this process, or the driver container, from seeing what MOFED does.
    MarkerDirectoryUnlinked: Critical, "this mount shows a deleted directory: no marker will ever be seen",
        after [],
        [REMOUNT, MOUNT_PARENT];
    MountPinned: Critical, "a container's mount hangs on a tree that the host has replaced",
        after [MarkerDirectoryUnlinked],
        [REMOUNT, MOUNT_PARENT];
    MountPropagationMissing: Warning, "a container does not see what MOFED mounts after its start",
        after [],
        [
            "Mount `/run/mellanox` (or `/run/mellanox/drivers`) with `mountPropagation: HostToContainer` in the pod's template.",
            "Where the host itself has it as a private mount (`findmnt -o TARGET,PROPAGATION`): `mount --make-rshared` it.",
            REMOUNT,
        ];
    InotifyExhausted: Warning, "the kernel gives no inotify instance: a wait looks every five seconds only",
        after [],
        [
            "Raise the limit on the node: `sysctl -w fs.inotify.max_user_instances=8192`, and in `/etc/sysctl.d`.",
            "Find what uses them up: `find /proc/*/fd -lname 'anon_inode:inotify' 2>/dev/null | cut -d/ -f3 | sort | uniq -c`.",
        ];
    MarkerNotAFile: Critical, "the marker's path is not a regular file",
        after [],
        ["See that `--marker` and `DRIVER_READY_PATH` name MOFED's marker, and not its directory.",
         "If they do, remove what is there (a directory by `rmdir`, never with all that is in it): MOFED makes the file itself."];

    // The devices.
    RdmaRequestedWithoutNic: Warning, "RDMA is asked for on a node without a Mellanox device",
        after [],
        [
            "The operator's validator may wait here for ever for nvidia_peermem (GPU Operator 26.3 and later).",
            "Take such nodes out of `driver.rdma.enabled`: an NVIDIADriver of their own, by nodeSelector, with \
                `rdma.enabled: false`.",
            "If the node has such a device: repair the hardware, or the pass-through.",
        ];
    NicOnlyVfio: Warning, "every Mellanox device is given to virtual machines (vfio-pci)",
        after [],
        [
            "Bind one back, if this node is to use RDMA itself: take it out of the `vfio-pci` configuration and reboot, or \
                `echo ADDRESS > /sys/bus/pci/drivers/vfio-pci/unbind`, then `echo ADDRESS > /sys/bus/pci/drivers_probe`.",
            "If it is not, set `driver.rdma.enabled: false` for such nodes.",
        ];

    // The modules that keep MOFED out.
    StorageModulesLoaded: Critical, "storage modules over RDMA are loaded: MOFED refuses to start",
        after [],
        [
            "End what uses them: unmount NFS over RDMA, log out of iSER, SRP and NVMe over RDMA; then unload them \
                (`rmmod rpcrdma`, `rmmod nvme_rdma`, …), and MOFED comes by itself.",
            "Or set `UNLOAD_STORAGE_MODULES=true` in `spec.ofedDriver.env` of the NicClusterPolicy. Side effect: what is \
                mounted over RDMA stalls while MOFED swaps the modules, writers on it included (27 s in one test), and the \
                modules are not loaded again afterwards.",
            "Or drain the node and reboot it, and mount such volumes only once MOFED is ready.",
        ];
    ThirdPartyRdmaModulesLoaded: Warning, "other vendors' RDMA modules are loaded: MOFED may refuse to start",
        after [],
        [
            "Unload them, if nothing uses them (`rmmod`), and keep them from loading (`/etc/modprobe.d`, `blacklist`).",
            "Or set `UNLOAD_THIRD_PARTY_RDMA_MODULES=true` in `spec.ofedDriver.env` of the NicClusterPolicy: what uses those \
                devices loses RDMA.",
        ];
    PeermemInUse: Critical, "nvidia_peermem is in use, which keeps MOFED from coming",
        after [],
        ["End the GPU pods that use it.", NEVER_MODPROBE_R];
    LoadedOnGoneStack: Critical, "nvidia_peermem holds a stack that is gone",
        after [PeermemInUse],
        ["End the GPU pods that use it.", NEVER_MODPROBE_R, NEW_MOFED_POD];

    // Who provides MOFED.
    HostMofedNotAnnounced: Critical, "the host has a MOFED of its own, and a container's is waited for",
        after [],
        [
            "Set `driver.rdma.useHostMofed: true` in the ClusterPolicy, which gives the containers `USE_HOST_MOFED=true`.",
            "Or take MOFED off the host and let the Network Operator's container bring it; not both.",
            "If the operator says so already, look from where its containers can be seen, or set `USE_HOST_MOFED=true` here.",
        ];
    HostMofedAssumed: Info, "nobody says who provides MOFED; the host's own is at work, and taken to be meant",
        after [],
        [
            "Nothing, if it is so, as on DGX OS. Where the GPU Operator runs, set `driver.rdma.useHostMofed: true` in the ClusterPolicy.",
            "To say it here: `USE_HOST_MOFED=true`; `USE_HOST_MOFED=false` where a container is to provide it.",
        ];
    ContainerMofedIgnored: Critical, "a MOFED container is here, and the operator says that the host provides MOFED",
        after [],
        [
            "Set `driver.rdma.useHostMofed: false` in the ClusterPolicy: otherwise nothing waits for that container.",
            "Or take this node out of the NicClusterPolicy's `ofedDriver`; not both.",
        ];
    HostMofedNotLive: Critical, "the host is to provide MOFED, and its modules are not live",
        after [ContainerMofedIgnored, LoadedOnGoneStack],
        [
            "Start the host's MOFED and read what it says: `/etc/init.d/openibd restart`.",
            "If a container is to provide it, set `driver.rdma.useHostMofed: false` in the ClusterPolicy.",
        ];

    // The marker.
    MofedBuilding: Info, "MOFED is at work: its container builds or loads the driver",
        after [],
        [
            "Wait: a build takes 5 to 40 minutes. It cures by itself what follows from it.",
            "If it takes longer, read its log (`kubectl logs -n NAMESPACE POD`, or on the node `crictl logs`).",
            MOFED_POD,
        ];
    MofedNotRunning: Critical, "MOFED's container has been here, and does not run",
        after [StorageModulesLoaded, ThirdPartyRdmaModulesLoaded, PeermemInUse, LoadedOnGoneStack],
        [
            MOFED_POD,
            "If it is there and restarts again and again, its log says why: `kubectl logs -n NAMESPACE POD \
                --previous`.",
            MOFED_POD,
            "If there is none, see why its DaemonSet does not schedule one here: node labels, taints, and the DaemonSet of \
                this kernel.",
        ];
    MofedNotYetHere: Info, "the node has just booted, and no MOFED container has been here yet",
        after [PeermemInUse],
        ["Wait: its pod comes some minutes after the node. It cures by itself what follows from it.", MOFED_POD];
    MofedNeverCame: Critical, "no MOFED container has been on this node since it booted",
        after [PeermemInUse, HostMofedNotAnnounced],
        [
            "See whether it is scheduled here: `kubectl get pod -A -o wide -l nvidia.com/ofed-driver --field-selector \
                spec.nodeName={node}`.",
            "Its DaemonSet is made for one kernel and one OS: after an upgrade another one must come first. \
                `kubectl get node {node} --show-labels` must have `feature.node.kubernetes.io/pci-15b3.present=true` and the \
                kernel version that the DaemonSet selects.",
            "An older entrypoint keeps no lock file and leaves no sign before it is ready: if its pod runs, wait.",
        ];
    MarkerSuspect: Critical, "MOFED was killed and left its marker: nobody holds its lock",
        after [StorageModulesLoaded, ThirdPartyRdmaModulesLoaded, PeermemInUse, LoadedOnGoneStack],
        [
            MOFED_POD,
            "If it does not run, start it; it clears the marker and sets it again.",
            "If it runs with the older entrypoint (`USE_NEW_ENTRYPOINT=false`), the marker is sound: remove the left-over \
                `/run/mellanox/drivers/.lock` while it runs.",
        ];
    StaleMarker: Critical, "the marker is there, and the stack that it speaks of is not",
        after [MarkerSuspect, StorageModulesLoaded, ThirdPartyRdmaModulesLoaded, PeermemInUse, LoadedOnGoneStack],
        [NEW_MOFED_POD, "Do not load nvidia_peermem by hand before: it would pin the kernel's own modules."];
    BlacklistLeftBehind: Warning, "MOFED was killed and left its blacklist: the NIC driver does not load at boot",
        after [MarkerSuspect, MofedNotRunning],
        [
            "Once MOFED has come, it removes the file itself.",
            "If MOFED is not to come back: `rm /etc/modprobe.d/blacklist-ofed-modules.conf` on the node.",
        ];
    MarkerAbsent: Warning, "MOFED has not set its marker",
        after [MarkerDirectoryUnlinked, MountPinned, HostMofedNotAnnounced, StorageModulesLoaded,
            ThirdPartyRdmaModulesLoaded, PeermemInUse, LoadedOnGoneStack, MofedNotRunning, MofedNeverCame, MofedNotYetHere,
            MofedBuilding,
            MountPropagationMissing],
        [
            "Wait while MOFED builds and loads. `peermem-gate doctor` on the node names what keeps it from coming.",
            MOFED_POD,
            "If the host has a MOFED of its own, no container will ever set a marker: set `driver.rdma.useHostMofed` in \
                the ClusterPolicy (`USE_HOST_MOFED=true`).",
        ];
    MarkerParentMissing: Warning, "the marker's directory is not there",
        after [HostMofedNotAnnounced, StorageModulesLoaded, ThirdPartyRdmaModulesLoaded, PeermemInUse,
            LoadedOnGoneStack, MofedNeverCame, MofedNotYetHere],
        ["Mount `/run/mellanox` (HostToContainer), or correct the path.", MOFED_POD];

    // The modules.
    ModuleLoading: Warning, "a module is still loading",
        after [],
        ["Wait; if it does not end, read `dmesg`. A reboot is the cure for an init function that hangs."];
    ModuleUnloading: Warning, "a module is being unloaded",
        after [],
        ["Wait; if it does not end, read `dmesg`."];
    WitnessesDisagree: Warning, "procfs and sysfs disagree on a module",
        after [ModuleLoading, ModuleUnloading],
        ["Wait a second. If it stays, correct `--proc` and `--sys`."];
    MixedStack: Critical, "MOFED's and in-tree modules are mixed",
        after [StorageModulesLoaded, ThirdPartyRdmaModulesLoaded, LoadedOnGoneStack, MofedBuilding],
        [
            "During a swap, wait.",
            "Otherwise end what uses the in-tree ones.",
            NEW_MOFED_POD,
            "If nothing will let go, drain and reboot the node.",
        ];
    ModuleInTree: Warning, "the kernel's own RDMA modules are live",
        after [HostMofedNotLive, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing],
        [
            "Without the marker, wait. With it:",
            NEW_MOFED_POD,
            "In host mode start the host's MOFED (`/etc/init.d/openibd restart`), or unset `USE_HOST_MOFED` if a container \
                provides it.",
        ];
    ModuleNotLoaded: Warning, "an RDMA module is not loaded",
        after [BlacklistLeftBehind, MixedStack, LoadedOnGoneStack, HostMofedNotLive, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, ModuleLoading,
            ModuleUnloading],
        [
            "Wait while MOFED restarts its driver.",
            MOFED_POD,
            "A MOFED whose restart failed may leave the node without a NIC driver until a later start succeeds.",
        ];
    VersionMismatch: Warning, "mlx5_core is not the expected version",
        after [HostMofedNotLive, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, MixedStack,
            ModuleInTree, ModuleNotLoaded],
        [
            "Before the marker is set, wait. With `--mofed-version`, correct it when MOFED was upgraded.",
            "If MOFED kept old modules although its image is new, delete its pod; if that does not help, reboot the node.",
        ];
    SymbolMissing: Warning, "no live module exports peer memory",
        after [HostMofedNotLive, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, MixedStack,
            ModuleInTree, ModuleNotLoaded, ModuleLoading, ModuleUnloading, WitnessesDisagree],
        ["If the modules are live and MOFED's, install a MOFED that has peer memory, or use DMA-BUF."];

    // Fabric Manager, on a machine with NVLink 5 switches.
    UmadNotLoaded: Critical, "ib_umad is not loaded: Fabric Manager cannot reach the NVLink 5 switches",
        after [MixedStack],
        [
            "`modprobe ib_umad` on the node, then delete this node's driver pod.",
            "On a host with its own RDMA stack, load it at every boot: put `ib_umad` into `/etc/modules-load.d/ib_umad.conf`.",
            DRIVER_POD,
        ];
    RdmaDeviceMissing: Warning, "an NVLink 5 management device has no RDMA device",
        after [MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, MixedStack, ModuleNotLoaded, ModuleLoading,
            ModuleUnloading],
        [
            "Wait while MOFED loads its driver.",
            "If MOFED is ready, `dmesg | grep -i mlx5` says why the driver did not take the device.",
            MOFED_POD,
        ];
    FabricManagerTooEarly: Critical, "Fabric Manager began without the NVLink 5 devices: CUDA error 802 on all GPUs",
        after [UmadNotLoaded],
        [
            "Wait until MOFED is ready on this node: `peermem-gate check --for fabric`.",
            "Then delete this node's driver pod: Fabric Manager looks for the devices only when it starts: \
                `kubectl delete pod -A -l app.kubernetes.io/component=nvidia-driver --field-selector spec.nodeName={node}`.",
            "Put `peermem-gate wait --for any` before the driver's container, or it happens again: `manifests/components/nvlink5`.",
        ];
    FabricNotReady: Warning, "the NVLink 5 devices are not ready: a Fabric Manager that starts now ends in CUDA error 802",
        after [UmadNotLoaded, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, MixedStack, ModuleNotLoaded,
            ModuleLoading, ModuleUnloading, RdmaDeviceMissing],
        [
            "Wait until MOFED has loaded its driver, and do not restart the driver's container before.",
            "Have the driver's pod wait for it: `peermem-gate wait --for any`, `manifests/components/nvlink5`.",
            MOFED_POD,
        ];

    // The headers.
    HeaderMountStale: Critical, "MOFED's header mount is that of a container that is gone",
        after [MarkerSuspect],
        [NEW_MOFED_POD, "If the mount stays: `umount -l /run/mellanox/drivers/usr/src` on the node, then delete the pod once more."];
    HeadersMissing: Critical, "MOFED's headers are not there",
        after [HeaderMountStale, MarkerDirectoryUnlinked, MountPinned, MountPropagationMissing, HostMofedNotLive, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing,
            ModuleInTree],
        [
            "Before the marker is set, wait.",
            "If the node has them and the gate does not, mount with `mountPropagation: HostToContainer`.",
            "If the node has none although the marker is set:",
            NEW_MOFED_POD,
            "If the driver images are precompiled, nothing is built here: say `--precompiled`.",
        ];
    HeadersForOtherKernel: Critical, "MOFED's headers are for other kernels",
        after [HeaderMountStale, MountPinned, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing],
        ["Have MOFED build for the running kernel.", NEW_MOFED_POD];
    HeadersIncomplete: Warning, "MOFED's Module.symvers is incomplete: NVIDIA's build would fail",
        after [MountPinned, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing],
        ["Wait a moment. A good `default` beside it does not help: the first existing directory counts.", NEW_MOFED_POD];
    HeadersWithoutPeerMemory: Critical, "MOFED's headers lack peer memory: nvidia-peermem would become a stub",
        after [MountPinned, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing],
        [
            "If the file is empty or old:",
            NEW_MOFED_POD,
            "Otherwise this MOFED has no peer memory: install one that has, or use DMA-BUF.",
        ];

    // The NIC behind the modules.
    NicWithoutDriver: Warning, "a Mellanox network device has no driver",
        after [MixedStack],
        [
            "The driver gave it up, or was never offered it: `dmesg | grep -i mlx5` says why (firmware that is too old or does \
                not start, no memory for its BAR).",
            "Offer it again: `echo ADDRESS > /sys/bus/pci/drivers_probe`.",
            "Firmware: `mlxfwmanager --query`, or `mstflint -d ADDRESS query`; then update it, or power the node off and on.",
        ];

    // NVIDIA's driver.
    NoGpu: Info, "there is no NVIDIA GPU on this node",
        after [],
        ["Nothing, on a node without a GPU. Otherwise repair the hardware, or the pass-through."];
    DriverNotLoaded: Warning, "there is a GPU, and nvidia is not loaded",
        after [MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, MixedStack, ModuleInTree, ModuleNotLoaded,
            HeadersMissing, HeadersForOtherKernel, HeadersIncomplete, HeadersWithoutPeerMemory],
        [
            "While the gate holds the driver back, wait.",
            "Otherwise the driver container's log says why: `kubectl logs -n NAMESPACE POD -c nvidia-driver-ctr`, and `dmesg`.",
            DRIVER_POD,
            "If nouveau has the GPU: blacklist it (`/etc/modprobe.d`), and reboot.",
        ];
    DriverVersionMismatch: Warning, "the driver's files are of another version than the nvidia that is loaded",
        after [],
        ["The loaded one was not unloaded at an upgrade.", NEW_DRIVER_POD, "On a host: reboot, or unload nvidia and load it again."];
    DriverRootMissing: Critical, "nvidia is loaded, and its driver's root is not to be seen",
        after [],
        [
            "The driver container that loaded it has gone, or its root is not mounted here.",
            "If the driver is elsewhere, say `--driver-root` (`/run/nvidia/driver` for the driver container's root, `/` for a \
                driver of the host).",
            NEW_DRIVER_POD,
        ];
    UserspaceOnlyInstall: Critical, "the driver was installed without its kernel modules",
        after [],
        [
            "The driver container took its fast path: nvidia was loaded already, and only the userspace was installed.",
            "Set `FORCE_REINSTALL=true` on the driver container (`driver.manager.env`, `driver.env`).",
            NEW_DRIVER_POD,
        ];
    DeviceNodesMissing: Warning, "nvidia is loaded, and device nodes are missing",
        after [],
        [
            "Make them: `nvidia-modprobe -c 0 -u`, in the driver container `nvidia-smi`.",
            "If they vanish again, look at udev and at what mounts over `/dev`.",
        ];

    // nvidia-peermem.
    ModuleFileMissing: Critical, "modprobe finds no nvidia-peermem.ko",
        after [DriverRootMissing, UserspaceOnlyInstall, DriverNotLoaded, NoGpu],
        [
            "The driver was installed without kernel modules, or for another kernel.",
            NEW_DRIVER_POD,
            NOT_BUILT,
            "If it is there and not listed, run `depmod` in that root.",
            "If the driver is elsewhere, say `--driver-root` (`/run/nvidia/driver` for the driver container's root).",
        ];
    StubModule: Critical, "nvidia-peermem.ko was built without MOFED: no kernel will load it",
        after [],
        [
            NEW_DRIVER_POD,
            NOT_BUILT,
            "Put `peermem-gate wait` before the build, or it happens again.",
            PRECOMPILED,
            DKMS,
        ];
    SymbolVersionMismatch: Critical, "nvidia-peermem.ko is for another ABI",
        after [DriverVersionMismatch, MixedStack],
        [
            NEW_DRIVER_POD,
            NOT_BUILT,
            "If it is the nvidia that is loaded that differs: a new driver pod unloads it; on a host reboot, or install both \
                from one release.",
            "If the CRC came from a Module.symvers that is not of the MOFED that runs (a mount that was left over), delete \
                the pod in which the gate runs, and the MOFED pod if it shows the wrong tree.",
            PRECOMPILED,
            DKMS,
        ];
    WrongKernel: Critical, "nvidia-peermem.ko is for another kernel",
        after [],
        [NEW_DRIVER_POD, "Precompiled: take the image of this kernel, and mind suffixes such as `+64k`."];
    SymbolVersionMissing: Critical, "nvidia-peermem.ko lacks symbol versions",
        after [],
        ["Build it with MOFED's headers in sight.", NEW_DRIVER_POD];
    UnsignedModule: Critical, "nvidia-peermem.ko is not signed, and the kernel asks for a signature",
        after [],
        ["Sign it with a key that the machine trusts (MOK), take a driver with signed modules, or turn Secure Boot off."];
    LegacyClientLoaded: Critical, "nv_peer_mem is loaded, in nvidia_peermem's place",
        after [],
        ["`rmmod nv_peer_mem`, and remove its package (nvidia-peer-memory or nv_peer_mem), or it is back after the next \
            boot."];
    TwoPeerClients: Warning, "another peer-memory client than nvidia_peermem is registered",
        after [LegacyClientLoaded],
        ["`rmmod nv_peer_mem`, then load nvidia_peermem again: `rmmod nvidia_peermem`, `peermem-gate load`."];
    BadParameter: Critical, "a parameter of nvidia-peermem has a bad value",
        after [],
        [
            "Correct it where it comes from (GPU Operator: the ConfigMap that `driver.kernelModuleConfig` names).",
            NEW_DRIVER_POD,
        ];
    InstallLine: Critical, "modprobe.d runs a command instead of loading nvidia-peermem",
        after [],
        [
            "Remove the line `install nvidia_peermem …` from the file that the evidence names.",
            "If something must run before the load, have the line run `peermem-gate load`.",
        ];
    OtherDriverLoaded: Critical, "nvidia-peermem.ko is of another driver than the nvidia that is loaded",
        after [],
        [
            "Delete this node's driver pod: the new one unloads the old nvidia: `kubectl delete pod -A -l \
             app.kubernetes.io/component=nvidia-driver --field-selector spec.nodeName={node}`.",
            "On a host without a driver container: unload nvidia, or reboot.",
        ];
    ModuleFileDamaged: Critical, "nvidia-peermem.ko is damaged",
        after [],
        ["Make room if the disk is full, which cuts files off.", NEW_DRIVER_POD];
    DependencyNotLive: Warning, "what nvidia-peermem needs is not live",
        after [HostMofedNotLive, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, ModuleInTree, ModuleNotLoaded,
            SymbolMissing, DriverNotLoaded],
        ["Wait while the driver is loading. If it does not come, its container's log or `dmesg` says why."];
    SymbolVersionUnknown: Unknown, "symbol versions cannot be compared",
        after [HostMofedNotLive, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, ModuleInTree, ModuleNotLoaded,
            HeadersMissing, DriverVersionMismatch],
        [
            "Let the gate see the driver's root (`--driver-root`) and MOFED's headers (mount `/run/mellanox`, \
                HostToContainer).",
            "If nvidia on disk is newer than the one that is loaded, delete the driver pod; on a host reboot.",
        ];
    // The GPU Operator's readiness chain.
    DriverCtrReadyStale: Warning, "`.driver-ctr-ready` was left behind by a driver container that ended",
        after [DriverNotLoaded, StubModule, SymbolVersionMismatch, WrongKernel, SymbolVersionMissing, UnsignedModule,
            BadParameter, ModuleFileDamaged],
        [
            "Nothing may be concluded from it: nvidia-peermem-ctr and driver-validation believe it nevertheless.",
            "Look why the driver container ended: `kubectl logs -n NAMESPACE POD -c nvidia-driver-ctr --previous`. Its next \
                start sets things right, if it comes to its end.",
            DRIVER_POD,
            "If the file stays although no driver container is starting, remove it.",
        ];
    DriverCtrNotReady: Warning, "the driver container is not ready, for longer than a build takes",
        after [DriverNotLoaded, HeadersForOtherKernel, HeadersIncomplete, HeadersMissing, ModuleFileMissing, StubModule,
            SymbolVersionMismatch, WrongKernel, SymbolVersionMissing, UnsignedModule, LegacyClientLoaded, BadParameter,
            ModuleFileDamaged],
        [
            "Read its log: `kubectl logs -n NAMESPACE POD -c nvidia-driver-ctr`. Before it runs, k8s-driver-manager does: `-c \
                k8s-driver-manager` in the same command.",
            DRIVER_POD,
        ];
    DriverNotValidated: Warning, "the driver is loaded, and its validation does not come to an end",
        after [DriverCtrReadyStale],
        [
            "Read the log of the validation: `kubectl logs -n NAMESPACE POD -c driver-validation`.",
            TOOLKIT_POD,
            "Since GPU Operator 26.3 it waits for nvidia_peermem too, where GPUDirect RDMA is on for the cluster: on a node \
                without a Mellanox device for ever.",
        ];

    // The container runtime.
    RuntimeConfigBroken: Critical, "the container runtime's configuration is broken: its next start fails",
        after [],
        [
            "Correct the file at the line that is named, or remove a drop-in that is not needed.",
            "Ask the runtime before it is restarted: `containerd --config FILE config dump >/dev/null` with the file named above, `crio config --help` for CRI-O's keys.",
        ];
    DropInVersionTooHigh: Critical, "a drop-in has a higher version than the main configuration",
        after [],
        [
            "containerd refuses it, or loses what the main file says (registry mirrors, sandbox image), by its version.",
            "Have the toolkit read the file instead of `containerd config dump`: `RUNTIME_CONFIG_SOURCE=file` in \
                `toolkit.env`; or bring the main file to the same version: `containerd config migrate`.",
        ];
    DropInNotImported: Critical, "NVIDIA's drop-in is not covered by `imports`",
        after [],
        [
            "Add its directory to `imports` at the top of the main configuration, such as \
                `imports = [\"/etc/containerd/conf.d/*.toml\"]`, and restart the runtime.",
            "A drop-in in `config.d` is of nvidia-container-toolkit 1.18.0: take 1.18.1 or later.",
        ];
    CriTableIgnored: Critical, "NVIDIA's runtime stands in a table that this configuration version ignores",
        after [],
        [
            "Move it into the table of the file's `version`: 1 `plugins.cri`, 2 `plugins.\"io.containerd.grpc.v1.cri\"`, 3 \
                and 4 `plugins.\"io.containerd.cri.v1.runtime\"`; or `containerd config migrate`.",
        ];
    NvidiaRuntimeElsewhere: Critical, "NVIDIA's runtime is configured in a runtime that kubelet does not use",
        after [],
        ["Tell the toolkit which one kubelet uses, and restart its pod."];
    NvidiaRuntimeMissing: Critical, "the toolkit runs, and kubelet's container runtime has no nvidia runtime",
        after [RuntimeConfigBroken, DropInNotImported, CriTableIgnored, NvidiaRuntimeElsewhere],
        [
            "Read the toolkit's log, it says which file it wrote: `kubectl logs -n NAMESPACE POD`.",
            TOOLKIT_POD,
        ];
    NvidiaRuntimeUnclear: Unknown, "no nvidia runtime is configured, which is right only in NRI mode",
        after [RuntimeConfigBroken, DropInNotImported, CriTableIgnored, NvidiaRuntimeElsewhere],
        [
            "Look whether the cluster uses NRI (`cdi.nriPluginEnabled`): then all is well. `kubectl get clusterpolicy -o \
                jsonpath='{.items[*].spec.cdi}'`.",
            AS_HOST_ROOT,
        ];
    NvidiaProgramMissing: Critical, "NVIDIA's runtime is configured, and its program is not on the host",
        after [],
        [
            "Restart the toolkit's pod, which installs it: `kubectl delete pod -n gpu-operator -l \
                app=nvidia-container-toolkit-daemonset --field-selector spec.nodeName={node}`.",
            "If the path is another than the toolkit's (`/usr/local/nvidia/toolkit` unless `toolkit.installDir` says \
                otherwise), the entry is of another installation: remove it, or correct it.",
        ];
    DefaultRuntimeUndefined: Critical, "the default runtime is not configured: no container will start",
        after [RuntimeConfigBroken, DropInNotImported, CriTableIgnored],
        ["Correct `default_runtime_name` (CRI-O: `default_runtime`), or add that runtime, and restart the container runtime."];
    RuntimeNameMismatch: Warning, "no configured runtime has the name that the RuntimeClass asks for",
        after [],
        [
            "The handler of a RuntimeClass and the name in the configuration must be the same, in lower case: `kubectl get \
                runtimeclass nvidia -o jsonpath={.handler}`.",
            "Set `operator.runtimeClass` in the GPU Operator's values, or `NVIDIA_RUNTIME_NAME` in `toolkit.env`, so that \
                both agree.",
        ];
    RuntimeConfigNotInForce: Warning, "the container runtime was started before its configuration was changed",
        after [],
        ["Restart it (`systemctl restart containerd`; k3s, rke2, k0s and snaps have a service of their own, CRI-O is `crio`); running containers go on."];
    ToolkitNotReady: Warning, "no container with a GPU was proven to run",
        after [DriverCtrReadyStale, RuntimeConfigBroken, DropInVersionTooHigh, NvidiaRuntimeMissing, NvidiaProgramMissing,
            DefaultRuntimeUndefined, NvidiaRuntimeElsewhere, DropInNotImported, CriTableIgnored, RuntimeNameMismatch,
            RuntimeConfigNotInForce, NvidiaRuntimeUnclear],
        [
            "`toolkit-ready` is written by nvidia-operator-validator, not by the toolkit: `kubectl logs -n NAMESPACE POD -c \
                toolkit-validation`, and `kubectl describe` of that pod for `no runtime for \"nvidia\" is configured`.",
            VALIDATOR_POD,
        ];
    ValidationIncomplete: Warning, "the operator's last validations do not come to an end",
        after [ToolkitNotReady],
        [
            "Read the validator's log: `kubectl logs -n NAMESPACE POD --all-containers`.",
            VALIDATOR_POD,
        ];
    RuntimeConfigUnreadable: Unknown, "the container runtime's configuration cannot be read",
        after [],
        [AS_HOST_ROOT];
    RuntimeInUseUnknown: Unknown, "which container runtime kubelet uses cannot be told",
        after [],
        ["Let it see the host's processes (`hostPID: true`, and `--proc` or `--root` so that they are the host's).", AS_HOST_ROOT];
    SeveralRuntimes: Info, "more than one container runtime is on this node",
        after [],
        ["Nothing, as long as NVIDIA's tools are pointed at the one that kubelet uses."];
    RuntimeNotSeen: Info, "no container runtime's configuration can be seen from here",
        after [],
        [AS_HOST_ROOT];
    DmaBufPossible: Info, "DMA-BUF would do without nvidia-peermem here",
        after [],
        [
            "This kernel (5.12 and later) and these open kernel modules can share GPU memory by DMA-BUF: NVIDIA recommends it. \
                It needs neither nvidia-peermem nor this gate, but CUDA 11.7 and libraries that use it (UCX, NCCL).",
            "Then set `driver.rdma.enabled: false` in the ClusterPolicy.",
        ];
    Settling: Info, "everything holds; settling",
        after [],
        ["Nothing. If it never ends, read the MOFED pod's log. If it ends at the deadline with `Settled` as the last word, \
            the node became ready too late: the deadline wins over the settle time."];
}
