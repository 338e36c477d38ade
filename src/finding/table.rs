// SPDX-License-Identifier: Apache-2.0
//! Every finding there is. docs/findings.md, and the remedies in docs/conditions.md, are made from
//! this table.

use super::Severity;
use super::step::{Fact, Step};

const FIND_MOFED: &str = "Find it: \
    `kubectl get pod -A -o wide -l nvidia.com/ofed-driver --field-selector spec.nodeName={node}`.";
const MOFED_LOG: &str = "Read the MOFED container's log: `kubectl logs {mofed-logs} -c mofed-container`, with `--previous` if it restarts.";
const NEW_MOFED_POD: &str =
    "Delete this node's MOFED pod, and a new one starts: `kubectl delete pod {mofed}`.";
const FIND_DRIVER: &str = "Find it: \
    `kubectl get pod -A -l app.kubernetes.io/component=nvidia-driver --field-selector spec.nodeName={node}`.";
const DRIVER_LOG: &str = "Read the driver container's log: `kubectl logs {driver-logs} -c nvidia-driver-ctr`, with \
    `--previous` if it restarts; and `dmesg` on the node.";
const MANAGER_LOG: &str =
    "Read the log of the driver pod's init container: `kubectl logs {driver-logs} -c k8s-driver-manager`.";
const NEW_DRIVER_POD: &str =
    "Delete this node's driver pod; the new pod builds the driver again: `kubectl delete pod {driver}`.";
const FAST_PATH: &str = "Remove `/run/nvidia/nvidia-driver.state` on the node before you delete the driver pod: with this file \
    the new pod skips the build.";
const TOOLKIT_BUILD: &str = "Remove the flag of the old build on the node, and the driver toolkit builds again: \
    `find {pod-directory} -name driver_built -delete`.";
const PRECOMPILED: &str = "Use a driver image whose nvidia-peermem was built against this MOFED release.";
const HOST_REBUILD: &str = "Build the driver's modules again, with MOFED's headers installed: `dkms install --force nvidia/VERSION -k \
    $(uname -r)`, or run the driver's installer again.";
const RMMOD_PEERMEM: &str = "Unload nvidia_peermem: `rmmod nvidia_peermem`. Do not use `modprobe -r`: it unloads nvidia and \
    ib_uverbs too.";
const END_GPU_PODS: &str = "End the GPU pods and processes that use RDMA on this node{holders}.";
const REMOUNT: &str = "Delete the pod whose mount is meant: only a new pod gets a new mount, a restart of its container does not.";
const MOUNT_PARENT: &str = "Mount the parent directory `/run/mellanox` with `mountPropagation: HostToContainer`, and this cannot happen again.";
const AS_HOST_ROOT: &str = "Run this as root in a privileged pod with `hostPID: true`, with the host mounted at `/host`, and with \
    `--root /host`.";
const GATE: &str = "Put `peermem-gate wait` before the build, or this can happen again at the next boot.";

macro_rules! when {
    () => {
        None
    };
    ($fact:ident) => {
        Some(Fact::$fact)
    };
}

macro_rules! findings {
    ($($name:ident: $severity:ident, $title:literal, after [$($cause:ident),* $(,)?],
        [$($(@$when:ident)? $step:expr),* $(,)?];)*) => {
        #[expect(clippy::doc_markdown, reason = "the titles are shown as plain text")]
        /// A finding's name: stable. A cause is above what follows from it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Id { $(#[doc = $title] $name,)* }

        impl Id {
            /// Every finding there is, in the order of causes.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name in reports.
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

            /// What a person can do, step by step.
            #[must_use]
            pub fn remedy(self) -> &'static [Step] {
                match self { $(Self::$name => &[$(Step { when: when!($($when)?), text: $step }),*],)* }
            }
        }
    };
}

findings! {
    // What cannot be seen.
    SourceUnreadable: Unknown, "a source that would tell more cannot be read",
        after [],
        [AS_HOST_ROOT];
    DevicesUnreadable: Unknown, "the PCI devices cannot be read",
        after [],
        ["Mount the host's `/sys`, or name it with `--sys`."];
    VpdUnreadable: Unknown, "whether this is an NVLink 5 machine cannot be read",
        after [],
        ["Run it as root: only uid 0 may read `/sys/bus/pci/devices/*/vpd`, and it needs no capability for that."];
    RdmaDevicesUnreadable: Unknown, "RDMA devices cannot be read",
        after [],
        ["Mount the host's `/sys`, or name it with `--sys`."];
    MarkerUnreadable: Unknown, "MOFED's marker cannot be looked at",
        after [],
        ["Let this process search every directory of the path, or correct `--marker`.", AS_HOST_ROOT];
    LocksUnreadable: Unknown, "the holders of locks cannot be read",
        after [],
        ["Let this process read `/proc/locks` and the lock file, or correct `--proc`.", AS_HOST_ROOT];
    ModulesUnreadable: Unknown, "the states of modules cannot be read",
        after [],
        ["Mount the host's `/proc` and `/sys`, or name them with `--proc` and `--sys`."];
    VersionUnreadable: Unknown, "mlx5_core's version cannot be read",
        after [],
        ["Let this process read `/sys`, or correct `--sys`."];
    SymbolsNotRead: Unknown, "the kernel's symbols were not read",
        after [],
        ["Look again: modules came and went during the look."];
    HeadersUnreadable: Unknown, "MOFED's headers cannot be read",
        after [],
        ["Let this process read them, and mount `/run/mellanox/drivers` with `mountPropagation: HostToContainer`."];
    SignatureUnknown: Unknown, "whether the kernel takes unsigned modules cannot be read",
        after [],
        [AS_HOST_ROOT];
    ModuleFileUnreadable: Unknown, "nvidia-peermem.ko cannot be read",
        after [],
        ["Run this as root, let it read that path, or correct `--driver-root`."];

    // The view: what keeps this process, or the driver container, from seeing what MOFED does.
    MarkerDirectoryUnlinked: Critical, "this mount shows a deleted directory: no marker will ever appear in it",
        after [],
        [REMOUNT, MOUNT_PARENT];
    RunNotShared: Critical, "the host's /run is a private mount: containers do not see each other's mounts",
        after [],
        [
            "Make the mount shared on the node: `mount --make-rshared /run`, then delete the pods of both operators on it.",
            "Find what made it private: `findmnt -o TARGET,PROPAGATION /run`; systemd makes it shared at boot.",
        ];
    MountPinned: Critical, "a container's mount shows a tree that the host has replaced",
        after [MarkerDirectoryUnlinked],
        [REMOUNT, MOUNT_PARENT];
    MountPropagationMissing: Warning, "a container does not see what MOFED mounts after the container's start",
        after [RunNotShared],
        [
            "Mount `/run/mellanox` (or `/run/mellanox/drivers`) with `mountPropagation: HostToContainer` in the pod's template.",
            "Make the mount shared if the host has it private (`findmnt -o TARGET,PROPAGATION`): `mount --make-rshared /run`.",
            REMOUNT,
        ];
    InotifyExhausted: Warning, "the kernel gives no more inotify instances: a limit is used up",
        after [],
        [
            "Raise the limit on the node: `sysctl -w fs.inotify.max_user_instances=8192`, and write it to \
                `/etc/sysctl.d/90-inotify.conf`.",
            "Find what uses them: `find /proc/*/fd -lname 'anon_inode:inotify' 2>/dev/null | cut -d/ -f3 | sort | uniq -c`.",
            "Then delete the pods that failed with `too many open files`.",
        ];
    MarkerNotAFile: Critical, "the marker's path is not a regular file",
        after [],
        [
            "Check that `--marker` and `DRIVER_READY_PATH` name MOFED's marker, and not its directory.",
            "Remove what is there if they do (`rmdir` for a directory): MOFED makes the file itself.",
        ];

    // The buses.
    RdmaRequestedWithoutNic: Warning, "RDMA is asked for on a node without a Mellanox device",
        after [],
        [
            "Exclude such nodes from `driver.rdma.enabled`: give them an NVIDIADriver of their own, selected by nodeSelector, with \
                `rdma.enabled: false`. From GPU Operator 26.3 on the validator waits here without end.",
            "Repair the hardware or the pass-through if the node has such a device.",
        ];
    NicOnlyVfio: Warning, "every Mellanox device is given to virtual machines (vfio-pci)",
        after [],
        [
            "Bind one back if this node is to use RDMA itself: remove it from the `vfio-pci` configuration and reboot, or \
                `echo ADDRESS > /sys/bus/pci/drivers/vfio-pci/unbind`, then `echo ADDRESS > /sys/bus/pci/drivers_probe`.",
            "Set `driver.rdma.enabled: false` for such nodes otherwise.",
        ];
    NouveauHasGpu: Critical, "the nouveau driver has the GPU: NVIDIA's driver cannot take it",
        after [],
        [
            @OpenShift "Add the kernel argument `modprobe.blacklist=nouveau` with a MachineConfig; the node reboots.",
            "Blacklist nouveau: write `blacklist nouveau` and `options nouveau modeset=0` to \
                `/etc/modprobe.d/blacklist-nouveau.conf`, run `update-initramfs -u` (or `dracut --force`), and reboot the node.",
        ];
    GpuBoundToVfio: Warning, "the GPUs are given to virtual machines (vfio-pci): NVIDIA's driver cannot take them",
        after [],
        [
            "Label the node `nvidia.com/gpu.workload.config=container` if containers are to use its GPUs, and reboot it.",
            "Remove the GPUs from the host's vfio configuration (`/etc/modprobe.d`, kernel argument `vfio-pci.ids`) if it has one.",
            "Label it `nvidia.com/gpu.workload.config=vm-passthrough` otherwise: then no driver container is placed here.",
        ];
    VgpuManagerOnHost: Warning, "the vGPU manager has the GPUs: a container driver does not fit beside it",
        after [],
        [
            "Label the node `nvidia.com/gpu.workload.config=vm-vgpu` if virtual machines use its GPUs.",
            "Remove the vGPU manager from the host and reboot if containers are to use them.",
        ];
    GpuBarUnassigned: Critical, "the firmware gave a GPU no address space (BAR): the driver cannot use it",
        after [],
        [
            "Enable `Above 4G decoding` (and `Resizable BAR`, or a large MMIO size) in the firmware's setup, and reboot.",
            "Update the firmware, or add the kernel argument `pci=realloc`, if the setting is there already.",
            "Enlarge the MMIO window of a virtual machine (`pciPassthru.64bitMMIOSizeGB`, OVMF's `X-PciMmio64Mb`).",
        ];
    ModuleSignatureRejected: Critical, "the kernel takes signed modules only (Secure Boot), and a module's signature was rejected",
        after [],
        [
            "Use a driver whose modules are signed with a key that this machine trusts: a precompiled driver of the distribution.",
            "Enroll the key that signed them: `mokutil --import KEY.der`, then reboot and confirm.",
            "Turn Secure Boot off in the firmware's setup if nothing else needs it.",
        ];
    GpuNotInitialised: Critical, "nvidia is loaded and cannot start a GPU",
        after [GpuBarUnassigned],
        [
            "Read the reason: `dmesg | grep -iE 'NVRM|Xid'`.",
            "Choose the other kind of kernel modules if NVRM says that the GPU needs it: `driver.kernelModuleType: open` \
                from Turing on (Blackwell needs it), `proprietary` for older GPUs.",
            "Power the node off and on; if a GPU has fallen off the bus again, replace or reseat it.",
        ];

    // What keeps MOFED out.
    StorageModulesLoaded: Critical, "storage modules over RDMA are loaded: MOFED refuses to start",
        after [],
        [
            "End what uses them: unmount NFS over RDMA, log out of iSER, SRP and NVMe over RDMA; then unload them \
                (`rmmod rpcrdma`, `rmmod nvme_rdma`), and MOFED starts by itself.",
            "Or set `UNLOAD_STORAGE_MODULES=true` in `spec.ofedDriver.env` of the NicClusterPolicy. What is mounted over RDMA \
                then stalls while MOFED swaps the modules (27 s in one test), and the modules are not loaded again.",
            "Or drain and reboot the node, and mount such volumes only after MOFED is ready.",
        ];
    ThirdPartyRdmaModulesLoaded: Critical, "third-party RDMA modules keep MOFED from starting",
        after [],
        [
            @RefusesIwCm "Update the MOFED image: this release takes the kernel's own iw_cm for a third party's, a newer one \
                does not. Until then set `UNLOAD_THIRD_PARTY_RDMA_MODULES=true` in `spec.ofedDriver.env`.",
            "Unload them if nothing uses them (`rmmod {third-party}`), and blacklist them in `/etc/modprobe.d`; then delete this \
                node's MOFED pod: `kubectl delete pod {mofed}`.",
            "Or set `UNLOAD_THIRD_PARTY_RDMA_MODULES=true` in `spec.ofedDriver.env` of the NicClusterPolicy: what uses those \
                devices loses RDMA.",
        ];
    PeermemInUse: Critical, "nvidia_peermem is in use, which keeps MOFED from unloading the old RDMA driver",
        after [],
        [END_GPU_PODS, RMMOD_PEERMEM, "Wait for MOFED's next start; it comes by itself."];
    LoadedOnGoneStack: Critical, "nvidia_peermem holds ib_uverbs of a MOFED that is gone, and keeps the new one out",
        after [PeermemInUse],
        [END_GPU_PODS, RMMOD_PEERMEM, NEW_MOFED_POD];
    MofedModuleInUse: Critical, "MOFED cannot unload the old RDMA driver: a module is in use",
        after [StorageModulesLoaded, ThirdPartyRdmaModulesLoaded, PeermemInUse, LoadedOnGoneStack],
        [
            "End what uses the module that the evidence names, and unload its holder with `rmmod`.",
            NEW_MOFED_POD,
            "Drain and reboot the node if nothing lets go.",
        ];
    MofedCannotBuild: Critical, "MOFED's container cannot build its driver, or cannot get its packages",
        after [],
        [
            "Make the package repositories reachable from the node: check DNS, the proxy (`spec.ofedDriver.env`) and the mirror; \
                the log names the repository.",
            "Give the node a valid entitlement (subscription) on RHEL, or use the driver toolkit on OpenShift.",
            "Use a precompiled MOFED image for this kernel (`spec.ofedDriver.version`) if repositories stay out of reach.",
            MOFED_LOG,
            @MofedPodUnnamed FIND_MOFED,
        ];
    ManagementOnMellanox: Critical, "the node's own network runs over a Mellanox NIC that MOFED's reload takes down",
        after [],
        [
            "Bring the network up again from the console: `networkctl reconfigure INTERFACE`, `netplan apply`, or \
                `nmcli connection up NAME`.",
            "Keep the node's management network off the NICs that MOFED drives: use another NIC for the default route.",
            "Set `RESTORE_DRIVER_ON_POD_TERMINATION=false` and drain the node before MOFED is updated if it must stay there.",
        ];

    // Who provides MOFED.
    DriverManagerWaitsWrongly: Critical, "k8s-driver-manager waits for a MOFED container though the host provides MOFED: a bug of 0.9.0",
        after [],
        [
            "Update k8s-driver-manager to 0.9.1 or newer (GPU Operator 25.10.1 or newer): 0.9.0 has the two cases swapped. \
                `driver.manager.version: v0.9.1` is enough.",
            "Or create the marker for this boot: `mkdir -p /run/mellanox/drivers && touch /run/mellanox/drivers/.driver-ready` on \
                the node. Remove it after the update.",
        ];
    HostMofedNotAnnounced: Critical, "the host has a MOFED of its own, and a container's MOFED is waited for",
        after [],
        [
            "Set `driver.rdma.useHostMofed: true` in the ClusterPolicy: it gives the containers `USE_HOST_MOFED=true`.",
            "Or remove MOFED from the host and let the Network Operator's container bring it; never both.",
            "Set `USE_HOST_MOFED=true` for this look if the operator says so already.",
        ];
    HostMofedAssumed: Info, "nobody says who provides MOFED; the host's own is at work and is taken to be meant",
        after [],
        [
            "Do nothing if that is right, as on DGX OS. Where the GPU Operator runs, set `driver.rdma.useHostMofed: true`.",
            "Set `USE_HOST_MOFED=true` to say it here; `USE_HOST_MOFED=false` if a container is to provide it.",
        ];
    ContainerMofedIgnored: Critical, "a MOFED container is here, and the operator says that the host provides MOFED",
        after [],
        [
            "Set `driver.rdma.useHostMofed: false` in the ClusterPolicy: otherwise nothing waits for that container.",
            "Or exclude this node from the NicClusterPolicy's `ofedDriver`; never both.",
        ];
    HostMofedForOtherKernel: Critical, "the host's MOFED was installed for another kernel: this kernel has its own modules only",
        after [],
        [
            "Build MOFED for this kernel and restart it: `dkms autoinstall -k $(uname -r)`, or run `mlnxofedinstall \
                --add-kernel-support`; then `/etc/init.d/openibd restart`.",
            "Or boot the kernel that it was installed for.",
        ];
    HostMofedNotLive: Critical, "MOFED is installed on the host, and its modules are not live: the kernel's own are",
        after [ContainerMofedIgnored, LoadedOnGoneStack, HostMofedForOtherKernel],
        [
            "Start the host's MOFED and read what it says: `/etc/init.d/openibd restart`. Reboot if modules are in use.",
            "Rebuild the initramfs if the kernel's own modules come back at boot: `update-initramfs -u` or `dracut --force`.",
            "Set `driver.rdma.useHostMofed: false` in the ClusterPolicy if a container is to provide MOFED.",
        ];

    // The marker.
    MofedBuilding: Info, "MOFED is at work: its container builds or loads the driver",
        after [],
        [
            "Wait: a build takes 5 to 40 minutes.",
            "Read its log if it takes longer: `kubectl logs {mofed-logs} -c mofed-container`.",
            @MofedPodUnnamed FIND_MOFED,
        ];
    MofedNotRunning: Critical, "MOFED's container has been here and does not run",
        after [StorageModulesLoaded, ThirdPartyRdmaModulesLoaded, PeermemInUse, LoadedOnGoneStack, MofedModuleInUse,
            MofedCannotBuild],
        [
            MOFED_LOG,
            @MofedPodUnnamed FIND_MOFED,
            "See why its DaemonSet places none here if there is no such pod: node labels, taints, and the DaemonSet of this kernel.",
        ];
    MofedNotYetHere: Info, "the node has just booted, and no MOFED container has been here yet",
        after [PeermemInUse],
        ["Wait: its pod comes some minutes after the node.", FIND_MOFED];
    MofedNeverCame: Critical, "no MOFED container has been on this node since it booted",
        after [PeermemInUse, HostMofedNotAnnounced],
        [
            "See whether a MOFED pod is scheduled here: `kubectl get pod -A -o wide -l nvidia.com/ofed-driver --field-selector \
                spec.nodeName={node}`.",
            "Check the node's labels: `kubectl get node {node} --show-labels` must have \
                `feature.node.kubernetes.io/pci-15b3.present=true`, and the kernel and OS version that the DaemonSet selects.",
            "Set `driver.rdma.useHostMofed: true` in the ClusterPolicy if the host is to provide MOFED.",
        ];
    MarkerSuspect: Critical, "suspect marker: nobody holds MOFED's lock, so MOFED may have been killed",
        after [StorageModulesLoaded, ThirdPartyRdmaModulesLoaded, PeermemInUse, LoadedOnGoneStack, MofedModuleInUse,
            MofedCannotBuild],
        [
            MOFED_LOG,
            @MofedPodUnnamed FIND_MOFED,
            "Start it if it does not run: it clears the marker and sets it again.",
            "Remove the left-over `/run/mellanox/drivers/.lock` while it runs with the older entrypoint \
                (`USE_NEW_ENTRYPOINT=false`): then the marker is sound.",
        ];
    StaleMarker: Critical, "stale marker: MOFED's marker exists but its modules are not loaded",
        after [MarkerSuspect, StorageModulesLoaded, ThirdPartyRdmaModulesLoaded, PeermemInUse, LoadedOnGoneStack,
            MofedModuleInUse, MofedCannotBuild],
        [NEW_MOFED_POD, "Do not load nvidia_peermem by hand before that: it would pin the kernel's own modules."];
    BlacklistLeftBehind: Warning, "MOFED's blacklist was left behind: the NIC driver does not load at boot",
        after [MarkerSuspect, LoadedOnGoneStack, MofedModuleInUse, MofedNotRunning],
        [
            "Wait if MOFED's container is starting: it removes the file itself.",
            "Remove it if MOFED does not come back: `rm /etc/modprobe.d/blacklist-ofed-modules.conf` on the node.",
        ];
    MarkerAbsent: Warning, "MOFED has not set its marker",
        after [MarkerDirectoryUnlinked, RunNotShared, MountPinned, DriverManagerWaitsWrongly, HostMofedNotAnnounced, StorageModulesLoaded,
            ThirdPartyRdmaModulesLoaded, PeermemInUse, LoadedOnGoneStack, MofedModuleInUse, MofedCannotBuild,
            MofedNotRunning, MofedNeverCame, MofedNotYetHere, MofedBuilding, MountPropagationMissing],
        [
            "Wait while MOFED builds and loads. `peermem-gate doctor` on the node names what keeps it from coming.",
            MOFED_LOG,
            "Set `driver.rdma.useHostMofed: true` in the ClusterPolicy (`USE_HOST_MOFED=true`) if the host has a MOFED of its own: \
                then no container sets a marker.",
        ];
    MarkerParentMissing: Warning, "the marker's directory does not exist",
        after [DriverManagerWaitsWrongly, HostMofedNotAnnounced, StorageModulesLoaded, ThirdPartyRdmaModulesLoaded,
            PeermemInUse, LoadedOnGoneStack, MofedModuleInUse, MofedCannotBuild, MofedNotRunning, MofedNeverCame,
            MofedNotYetHere, MofedBuilding],
        ["Mount `/run/mellanox` (HostToContainer), or correct the path.", MOFED_LOG];

    // The modules.
    ModuleLoading: Warning, "a module is still loading",
        after [],
        ["Wait; if it does not end, read `dmesg`. Reboot the node if its init function hangs."];
    ModuleUnloading: Warning, "a module is being unloaded",
        after [],
        ["Wait; if it does not end, read `dmesg`, and reboot the node."];
    WitnessesDisagree: Warning, "/proc/modules and /sys/module disagree on a module",
        after [ModuleLoading, ModuleUnloading],
        ["Wait a second. If it stays, correct `--proc` and `--sys`."];
    MixedStack: Critical, "MOFED's and in-tree modules are mixed",
        after [StorageModulesLoaded, ThirdPartyRdmaModulesLoaded, LoadedOnGoneStack, MofedModuleInUse, MofedBuilding],
        [
            "Wait if MOFED swaps its modules now.",
            "End what uses the in-tree modules otherwise, then delete this node's MOFED pod: `kubectl delete pod {mofed}`.",
            "Drain and reboot the node if nothing lets go.",
        ];
    ModuleInTree: Warning, "the kernel's own RDMA modules are live, and not MOFED's",
        after [DriverManagerWaitsWrongly, MofedModuleInUse, MofedCannotBuild, HostMofedForOtherKernel, HostMofedNotLive,
            MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing],
        [
            "Wait if the marker is not set yet.",
            @MofedPod "Delete this node's MOFED pod if the marker is set: `kubectl delete pod {mofed}`.",
            @HostMofed "Start the host's MOFED: `/etc/init.d/openibd restart`; or unset `USE_HOST_MOFED` if a container provides it.",
        ];
    ModuleNotLoaded: Warning, "an RDMA module is not loaded",
        after [MixedStack, LoadedOnGoneStack, MofedModuleInUse, HostMofedForOtherKernel, HostMofedNotLive, MarkerSuspect, StaleMarker,
            BlacklistLeftBehind, MarkerAbsent, MarkerParentMissing, ModuleLoading, ModuleUnloading],
        [
            "Wait while MOFED restarts its driver.",
            MOFED_LOG,
            "Start MOFED again if its restart failed: until then the node may have no NIC driver.",
        ];
    VersionMismatch: Warning, "mlx5_core is not of the expected version",
        after [HostMofedNotLive, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, MixedStack,
            ModuleInTree, ModuleNotLoaded],
        [
            "Wait if the marker is not set yet. Correct `--mofed-version` if MOFED was upgraded.",
            "Delete MOFED's pod if it kept old modules although its image is new: `kubectl delete pod {mofed}`. Reboot the node if that does not help.",
        ];
    SymbolMissing: Warning, "no live module exports peer memory",
        after [HostMofedForOtherKernel, HostMofedNotLive, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, MixedStack,
            ModuleInTree, ModuleNotLoaded, ModuleLoading, ModuleUnloading, WitnessesDisagree],
        ["Install a MOFED that has peer memory if the live modules are MOFED's, or use DMA-BUF."];

    // Fabric Manager, on a machine with NVLink 5 switches.
    UmadNotLoaded: Critical, "ib_umad is not loaded: Fabric Manager cannot reach the NVLink 5 switches",
        after [MixedStack],
        [
            "Load it on the node: `modprobe ib_umad`. Where the host provides the RDMA stack, also put `ib_umad` into \
                `/etc/modules-load.d/ib_umad.conf`.",
            @DriverPod "Delete this node's driver pod if its GPUs end with CUDA error 802 even then: `kubectl delete pod {driver}`.",
        ];
    FabricDeviceMissing: Warning, "an NVLink 5 management device has no RDMA device",
        after [MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, MixedStack, ModuleNotLoaded, ModuleLoading,
            ModuleUnloading],
        [
            "Wait while MOFED loads its driver.",
            "Read the kernel's log if MOFED is ready: `dmesg | grep -i mlx5` says why the driver did not take the device.",
        ];
    FabricManagerTooEarly: Critical, "Fabric Manager began without the NVLink 5 devices: CUDA error 802 on all GPUs",
        after [UmadNotLoaded],
        [
            @DriverPod "Wait until MOFED is ready (`peermem-gate wait --for fabric`), then delete this node's driver pod, because \
                Fabric Manager looks for the devices only when it starts: `kubectl delete pod {driver}`.",
            @HostDriver "Wait until MOFED is ready (`peermem-gate wait --for fabric`), then start Fabric Manager again: \
                `systemctl restart nvidia-fabricmanager`.",
            "Put `peermem-gate wait --for any` before the driver's container (`manifests/overlays/nvlink5`), or this can happen \
                again.",
        ];
    FabricNotReady: Warning, "not ready for Fabric Manager: a start now would end in CUDA error 802",
        after [UmadNotLoaded, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, MixedStack, ModuleNotLoaded,
            ModuleLoading, ModuleUnloading, FabricDeviceMissing],
        [
            "Wait until MOFED has loaded its driver: `peermem-gate wait --for fabric`. Do not restart the driver's container \
                before.",
            "Put `peermem-gate wait --for any` before the driver's container: `manifests/overlays/nvlink5`.",
        ];

    // The headers.
    HeaderMountStale: Critical, "stale header mount: it shows the headers of a MOFED container that is gone",
        after [MarkerSuspect],
        [NEW_MOFED_POD, "Unmount it if it stays: `umount -l /run/mellanox/drivers/usr/src` on the node, then delete the MOFED pod once more."];
    HeadersMissing: Critical, "MOFED's headers are missing",
        after [HeaderMountStale, MarkerDirectoryUnlinked, RunNotShared, MountPinned, MountPropagationMissing, DriverManagerWaitsWrongly,
            HostMofedForOtherKernel, HostMofedNotLive, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, ModuleInTree],
        [
            "Wait if the marker is not set yet.",
            "Mount `/run/mellanox` with `mountPropagation: HostToContainer` if the node has them and the container does not.",
            @MofedPod "Delete this node's MOFED pod if the node has none although the marker is set: `kubectl delete pod {mofed}`.",
            @HostMofed "Install MOFED's kernel headers on the host (`mlnx-ofa_kernel-devel`, `mlnx-ofed-kernel-dkms`).",
            @Precompiled "Say `--precompiled`: nothing is built here, and no headers are needed.",
        ];
    HeadersForOtherKernel: Critical, "MOFED's headers are for another kernel",
        after [HeaderMountStale, MountPinned, HostMofedForOtherKernel, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing],
        [
            @MofedPod "Delete this node's MOFED pod: the new one builds for the running kernel: `kubectl delete pod {mofed}`.",
            @HostMofed "Install MOFED for the running kernel: `dkms autoinstall -k $(uname -r)`, or `mlnxofedinstall --add-kernel-support`.",
        ];
    HeadersIncomplete: Warning, "MOFED's Module.symvers is incomplete: NVIDIA's build would fail",
        after [MountPinned, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing],
        ["Wait a moment: MOFED writes it last.", NEW_MOFED_POD];
    HeadersWithoutPeerMemory: Critical, "MOFED's headers lack peer memory: nvidia-peermem would become a stub",
        after [MountPinned, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing],
        [
            "Delete this node's MOFED pod if the file is empty or old: `kubectl delete pod {mofed}`.",
            "Install a MOFED that has peer memory otherwise, or use DMA-BUF.",
        ];

    // The NIC behind the modules.
    NicWithoutDriver: Warning, "a Mellanox network device has no driver",
        after [MixedStack, LoadedOnGoneStack, MofedModuleInUse, BlacklistLeftBehind, HostMofedNotLive],
        [
            "Read why: `dmesg | grep -i mlx5` (old firmware, firmware that does not start, no memory for its BAR).",
            "Offer it to the driver again: `echo ADDRESS > /sys/bus/pci/drivers_probe`.",
            "Query the firmware (`mlxfwmanager --query`, `mstflint -d ADDRESS query`), update it, or power the node off and on.",
        ];
    RdmaDeviceMissing: Warning, "a Mellanox NIC has a driver and no RDMA device",
        after [MofedBuilding, MixedStack, ModuleInTree, ModuleNotLoaded, MarkerAbsent, MarkerSuspect, StaleMarker],
        [
            "Load mlx5_ib if it is missing: `modprobe mlx5_ib`; read `dmesg | grep -i mlx5`.",
            "Enable RoCE on the device if it is off: `devlink dev param show pci/ADDRESS name enable_roce`.",
            "Reset the device, or reboot the node, if mlx5_ib could not take it.",
        ];
    RdmaPortsDown: Warning, "no RDMA port of this node is active",
        after [RdmaDeviceMissing, ManagementOnMellanox],
        [
            "Check cable, switch port and link type: `ibstat`, `mlxlink -d DEVICE`; `ip link set INTERFACE up` for Ethernet.",
            "Start a subnet manager if ports are in state INIT: enable it on the InfiniBand switch, or run opensm.",
        ];
    SubnetManagerMissing: Warning, "InfiniBand ports wait in state INIT: no subnet manager configures them",
        after [RdmaDeviceMissing],
        [
            "Start a subnet manager in this fabric: on the switch, with UFM, or `opensm` on one host.",
            "Check that the port is in the right fabric and partition: `ibstat`, `sminfo`.",
        ];
    RdmaUserAccessMissing: Warning, "a module for RDMA programs is not loaded: their device files are missing",
        after [UmadNotLoaded, RdmaDeviceMissing, ModuleNotLoaded, MixedStack, ModuleInTree, MarkerAbsent, MarkerSuspect, StaleMarker],
        [
            "Load it: `modprobe {rdma-modules}`, and name it in `/etc/modules-load.d/rdma.conf`.",
            "Delete the RDMA device plugin's pod afterwards: it looks for devices only at its start.",
        ];
    NetnsExclusive: Warning, "RDMA devices are in exclusive network namespace mode: pods with the shared device plugin see none",
        after [],
        [
            "Set the shared mode: `rdma system set netns shared` on the node, before any pod uses RDMA.",
            "Write `options ib_core netns_mode=1` to `/etc/modprobe.d/ib_core.conf` to keep it after a reboot.",
            "Or keep the exclusive mode and use host-device or SR-IOV networks with the RDMA CNI in place of the shared device plugin.",
        ];
    IommuTranslates: Warning, "the IOMMU translates the devices' addresses: GPUDirect RDMA fails or is slow",
        after [],
        [
            "Set the IOMMU to pass-through: add the kernel argument `iommu=pt` and reboot; or turn the IOMMU (VT-d, AMD-Vi) off in the firmware's setup.",
            "Turn PCIe ACS off on the bridges between GPU and NIC if it stays slow (`lspci -vvv | grep ACSCtl`).",
        ];
    MemlockLimited: Warning, "the container runtime limits locked memory: RDMA programs cannot register memory",
        after [],
        [
            "Raise the limit: `systemctl edit containerd` (or `crio`), add `[Service]` and `LimitMEMLOCK=infinity`, then \
                `systemctl restart` it.",
            "Or give the pods the capability `IPC_LOCK`.",
        ];

    DriverVersionMismatch: Warning, "the driver's files are of another version than the nvidia that is loaded",
        after [],
        [
            @DriverPod "Delete this node's driver pod: the new one unloads the old nvidia: `kubectl delete pod {driver}`.",
            @HostDriver "Reboot the node, or unload nvidia and load it again.",
        ];

    // The build of nvidia-peermem.
    BuildWithoutMofed: Critical, "the driver is being built now without MOFED's headers: its nvidia-peermem will be a stub",
        after [],
        [
            "Delete the driver pod as soon as MOFED has set its marker; only a new pod builds again: `kubectl delete pod {driver}`.",
            @ToolkitBuild TOOLKIT_BUILD,
            @DriverPodUnnamed FIND_DRIVER,
            GATE,
        ];
    StubModule: Critical, "nvidia-peermem.ko was built without MOFED: it is a stub that no kernel loads",
        after [HostMofedForOtherKernel],
        [
            @FastPath FAST_PATH,
            @ToolkitBuild TOOLKIT_BUILD,
            @DriverPod NEW_DRIVER_POD,
            @HostDriver HOST_REBUILD,
            @Precompiled PRECOMPILED,
        ];
    SymbolVersionMismatch: Critical, "nvidia-peermem.ko is for another ABI: symbol versions (CRC) differ",
        after [DriverVersionMismatch, MixedStack, HostMofedForOtherKernel],
        [
            @FastPath FAST_PATH,
            @ToolkitBuild TOOLKIT_BUILD,
            @DriverPod NEW_DRIVER_POD,
            @HostDriver "Build the driver's modules again against the modules of this kernel, all of one release: `dkms install --force \
                nvidia/VERSION -k $(uname -r)`. Check first that `/usr/src/ofa_kernel/default` is of this kernel.",
            @Precompiled PRECOMPILED,
        ];
    WrongKernel: Critical, "nvidia-peermem.ko is for another kernel",
        after [],
        [
            @DriverPod NEW_DRIVER_POD,
            @HostDriver HOST_REBUILD,
            @Precompiled "Use the driver image of this kernel; note suffixes such as `+64k`.",
        ];
    SymbolVersionMissing: Critical, "nvidia-peermem.ko lacks symbol versions",
        after [],
        [@FastPath FAST_PATH, @ToolkitBuild TOOLKIT_BUILD, @DriverPod NEW_DRIVER_POD, @HostDriver HOST_REBUILD];
    UnsignedModule: Critical, "nvidia-peermem.ko is not signed, and the kernel takes signed modules only",
        after [ModuleSignatureRejected],
        ["Sign it with a key that the machine trusts (MOK), use a driver with signed modules, or turn Secure Boot off."];
    ModuleFileDamaged: Critical, "nvidia-peermem.ko is damaged",
        after [],
        ["Make room if the disk is full: a full disk cuts files off.", @DriverPod NEW_DRIVER_POD, @HostDriver HOST_REBUILD];
    BadParameter: Critical, "a parameter of nvidia-peermem has a bad value",
        after [],
        [
            "Correct it where it comes from (GPU Operator: the ConfigMap that `driver.kernelModuleConfig` names).",
            @DriverPod NEW_DRIVER_POD,
        ];
    InstallLine: Critical, "modprobe.d runs a command instead of loading nvidia-peermem",
        after [],
        [
            "Remove the line `install nvidia_peermem …` from the file that the evidence names.",
            "Let the line run `peermem-gate load` if something must run before the load.",
        ];
    LegacyClientLoaded: Critical, "nv_peer_mem is loaded in nvidia_peermem's place",
        after [],
        ["Unload it (`rmmod nv_peer_mem`) and remove its package (nvidia-peer-memory or nv_peer_mem), or it is back after the next \
            boot."];
    TwoPeerClients: Warning, "another peer-memory client than nvidia_peermem is registered",
        after [LegacyClientLoaded],
        ["Unload it (`rmmod nv_peer_mem`), then load nvidia_peermem again: `rmmod nvidia_peermem`, `peermem-gate load`."];
    BuiltBeforeMofed: Critical, "the driver was built before MOFED was ready: its nvidia-peermem is a stub",
        after [StubModule, SymbolVersionMismatch],
        [
            @FastPath FAST_PATH,
            @ToolkitBuild TOOLKIT_BUILD,
            NEW_DRIVER_POD,
            @DriverPodUnnamed FIND_DRIVER,
            GATE,
        ];
    PeermemRefused: Critical, "the kernel refused nvidia-peermem: most likely it was built before MOFED was ready, and is a stub",
        after [ModuleSignatureRejected, StubModule, SymbolVersionMismatch, WrongKernel, SymbolVersionMissing, UnsignedModule,
            BadParameter, LegacyClientLoaded, BuiltBeforeMofed, MarkerSuspect, StaleMarker, MixedStack, MofedNotRunning],
        [
            @FastPath FAST_PATH,
            @ToolkitBuild TOOLKIT_BUILD,
            "Delete the driver pod once MOFED has set its marker; only a new pod builds again: `kubectl delete pod {driver}`.",
            @DriverPodUnnamed FIND_DRIVER,
            GATE,
        ];

    // NVIDIA's driver.
    NoGpu: Info, "this node has no NVIDIA GPU",
        after [],
        ["Do nothing on a node without a GPU. Repair the hardware or the pass-through otherwise."];
    HostDriverBesideContainer: Critical, "a driver is installed on the host, and the driver container installs another",
        after [],
        [
            "Set `driver.enabled: false` in the ClusterPolicy (or label the node `nvidia.com/gpu.deploy.driver=false`) to use the \
                host's driver.",
            "Or remove the driver from the host (`apt purge 'nvidia-*'`, `dnf remove 'nvidia-*'`, `nvidia-uninstall`) and reboot.",
        ];
    DriverHeldByModule: Critical, "another module holds nvidia: the driver container cannot unload the old driver",
        after [],
        [
            "Unload the module that holds it: `rmmod {nvidia-holders}`; then the container's next start goes on.",
            "Use a newer driver image and GPU Operator: they unload gdrdrv and nvidia_fs themselves.",
            "Drain and reboot the node if nothing lets go.",
        ];
    DriverInUse: Critical, "processes use the GPUs: the driver container cannot unload the old driver",
        after [HostDriverBesideContainer, DriverHeldByModule],
        [
            "End the processes that have GPUs open{holders}, or drain the node: `kubectl drain {node} --ignore-daemonsets \
                --delete-emptydir-data`.",
            "Stop services on the host that use GPUs (nvidia-persistenced, dcgm, a display manager).",
            "Reboot the node if nothing lets go.",
        ];
    DriverForOtherKernel: Critical, "the driver was built for another kernel: this kernel has no nvidia.ko",
        after [],
        [
            "Install this kernel's headers and build the driver for it: `dkms autoinstall -k $(uname -r)`, then `modprobe nvidia`.",
            "Or boot the kernel that the driver was built for.",
            @DriverPod NEW_DRIVER_POD,
        ];
    DriverBuildFailed: Critical, "the driver container cannot build or install the driver",
        after [HeadersIncomplete, MofedBuilding],
        [
            DRIVER_LOG,
            "Make the package repositories reachable from the node (DNS, proxy in `driver.env`, mirror, entitlement) if the log names one.",
            "Use a driver release that supports this kernel, or a precompiled one, if the compiler failed.",
            @DriverPodUnnamed FIND_DRIVER,
        ];
    DriverBuilding: Info, "the GPU driver is being built, installed or loaded: its container is at work",
        after [BuildWithoutMofed, StubModule, SymbolVersionMismatch, BuiltBeforeMofed, PeermemRefused, DriverHeldByModule, DriverInUse,
            DriverBuildFailed, NouveauHasGpu, GpuBarUnassigned, ModuleSignatureRejected],
        [
            "Wait: a build takes 5 to 20 minutes.",
            "Read its log if it takes longer: `kubectl logs {driver-logs} -c nvidia-driver-ctr`.",
        ];
    NvidiaInTransit: Warning, "a module of NVIDIA's is neither live nor gone",
        after [DriverBuilding],
        ["Wait a minute and look again.", "Read `dmesg` if it stays so, and reboot the node: a module that hangs cannot be unloaded."];
    DriverNotLoaded: Warning, "a GPU is here, and the module nvidia is not loaded",
        after [NouveauHasGpu, GpuBoundToVfio, VgpuManagerOnHost, GpuBarUnassigned, ModuleSignatureRejected, GpuNotInitialised,
            RunNotShared, StorageModulesLoaded, ThirdPartyRdmaModulesLoaded, PeermemInUse, MofedModuleInUse, MofedCannotBuild, ManagementOnMellanox,
            DriverManagerWaitsWrongly, HostMofedNotAnnounced, ContainerMofedIgnored, HostMofedForOtherKernel, HostMofedNotLive,
            MofedNotRunning, MofedNeverCame, MarkerSuspect, StaleMarker,
            BuildWithoutMofed, StubModule, SymbolVersionMismatch, WrongKernel, SymbolVersionMissing, UnsignedModule, ModuleFileDamaged,
            BadParameter, LegacyClientLoaded, BuiltBeforeMofed, PeermemRefused, DriverHeldByModule, DriverInUse, HostDriverBesideContainer,
            DriverForOtherKernel, DriverBuildFailed, DriverBuilding, NvidiaInTransit,
            MarkerAbsent, MarkerParentMissing, MixedStack, ModuleInTree, ModuleNotLoaded,
            HeadersMissing, HeadersForOtherKernel, HeadersIncomplete, HeadersWithoutPeerMemory],
        [
            @DriverPod DRIVER_LOG,
            @DriverPod MANAGER_LOG,
            @HostDriver "Load it and read why it is refused: `modprobe nvidia`, then `dmesg | tail`.",
            @DriverPodUnnamed FIND_DRIVER,
            "Wait if the gate holds the driver back: its log says for what.",
        ];
    DriverRootMissing: Critical, "nvidia is loaded, and the root file system of its driver is not mounted",
        after [DriverHeldByModule, DriverInUse, DriverBuilding],
        [
            @DriverPod "Delete this node's driver pod: the container that loaded nvidia is gone: `kubectl delete pod {driver}`.",
            "Name the driver's root if it is elsewhere: `--driver-root` (`/run/nvidia/driver` for a driver container's, `/` for the host's).",
        ];
    UserspaceOnlyInstall: Critical, "the driver container installed no kernel modules (userspace only): nvidia-peermem.ko is missing",
        after [DriverBuilding],
        [
            "Remove the file that lets it skip the build, then delete the driver pod: `rm -f /run/nvidia/nvidia-driver.state` on the \
                node, and `kubectl delete pod {driver}`. GPU pods on the node must end for it.",
            "Or reboot the node: then nothing is loaded that lets it skip the build.",
            "Do not set `FORCE_REINSTALL` for one node: it changes the DaemonSet, and every node restarts its driver.",
        ];
    GpuFabricManagerMissing: Critical, "the node has NVSwitches and no fabric manager runs: CUDA fails with error 802",
        after [DriverBuilding, DriverNotLoaded],
        [
            @DriverPod DRIVER_LOG,
            @HostDriver "Start it, in the driver's own version: `systemctl enable --now nvidia-fabricmanager`.",
            "Install the fabric manager of exactly the driver's version if it refuses to start.",
        ];
    DeviceNodesMissing: Warning, "device files of the loaded driver are missing below /dev",
        after [DriverBuilding],
        [
            "Make them: `nvidia-modprobe -c 0 -u` on the node; in a driver container run `nvidia-smi`.",
            "Check udev and what is mounted over `/dev` if they vanish again.",
        ];
    DevCharLinksMissing: Warning, "links below /dev/char to NVIDIA's devices are missing: pods lose their GPUs at the next systemd reload",
        after [DeviceNodesMissing, DriverBuilding],
        [
            "Make them: `nvidia-ctk system create-dev-char-symlinks --create-all` on the node, and at every boot.",
            "Restart the validator of the driver, which makes them too, if `DISABLE_DEV_CHAR_SYMLINK_CREATION` is set: unset it.",
        ];

    // nvidia-peermem.
    ModuleFileMissing: Critical, "modprobe finds no nvidia-peermem.ko",
        after [DriverRootMissing, UserspaceOnlyInstall, DriverForOtherKernel, GpuBoundToVfio, VgpuManagerOnHost, DriverBuilding, NvidiaInTransit,
            DriverNotLoaded, NoGpu],
        [
            "Run `depmod` in the driver's root if the file is there and not listed.",
            @FastPath FAST_PATH,
            @DriverPod NEW_DRIVER_POD,
            @HostDriver HOST_REBUILD,
            "Name the driver's root if it is elsewhere: `--driver-root` (`/run/nvidia/driver` for a driver container's).",
        ];
    OtherDriverLoaded: Critical, "nvidia-peermem.ko is of another driver than the nvidia that is loaded",
        after [DriverVersionMismatch],
        [
            @DriverPod "Delete this node's driver pod: the new one unloads the old nvidia: `kubectl delete pod {driver}`.",
            @HostDriver "Unload nvidia and load it again, or reboot the node.",
        ];
    DependencyNotLive: Warning, "what nvidia-peermem needs is not live",
        after [DriverBuilding, HostMofedNotLive, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, ModuleInTree, ModuleNotLoaded,
            SymbolMissing, NvidiaInTransit, DriverNotLoaded],
        ["Wait while the driver is loading. If it does not come, its container's log or `dmesg` says why."];
    SymbolVersionUnknown: Unknown, "symbol versions cannot be compared",
        after [DriverBuilding, HostMofedNotLive, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, ModuleInTree, ModuleNotLoaded,
            HeadersMissing, DriverVersionMismatch],
        [
            "Let the gate see the driver's root (`--driver-root`) and MOFED's headers (mount `/run/mellanox`, HostToContainer).",
            "Delete the driver pod if nvidia on disk is newer than the one that is loaded; on a host reboot.",
        ];
    PeermemNotLoaded: Warning, "nvidia_peermem is not loaded, and nobody loads it",
        after [GpuNotInitialised, DriverHeldByModule, DriverInUse, DriverBuilding, DriverNotLoaded, NvidiaInTransit],
        [
            "Load it: `peermem-gate load` on the node, or `modprobe nvidia-peermem`.",
            "Run `peermem-gate keep` on such nodes: it loads nvidia_peermem again after every reload of MOFED.",
            @DriverPod "Restart nvidia-peermem-ctr, which loads it once at its start: `kubectl delete pod {driver}`.",
        ];

    // The GPU Operator's readiness chain.
    DriverCtrReadyStale: Warning, "`.driver-ctr-ready` was left behind by a driver container that ended",
        after [DriverHeldByModule, DriverInUse, DriverBuilding, DriverNotLoaded, StubModule, SymbolVersionMismatch, WrongKernel, SymbolVersionMissing,
            UnsignedModule, BadParameter, ModuleFileDamaged],
        [
            "Read why the driver container ended: `kubectl logs {driver-logs} -c nvidia-driver-ctr --previous`. Its next start sets \
                things right if it comes to its end.",
            @DriverPodUnnamed FIND_DRIVER,
            "Remove the file if no driver container is starting: nvidia-peermem-ctr and driver-validation believe it.",
        ];
    DriverCtrNotReady: Warning, "the driver container is not ready, for longer than a build takes",
        after [DriverBuilding, DriverNotLoaded, HeadersForOtherKernel, HeadersIncomplete, HeadersMissing, ModuleFileMissing, StubModule,
            SymbolVersionMismatch, WrongKernel, SymbolVersionMissing, UnsignedModule, LegacyClientLoaded, BadParameter,
            ModuleFileDamaged],
        [DRIVER_LOG, MANAGER_LOG, @DriverPodUnnamed FIND_DRIVER];
    DriverNotValidated: Warning, "driver-ready is missing: the validation of the driver never came to its end",
        after [DriverCtrReadyStale, DriverCtrNotReady],
        [
            "Read the log of the validation: `kubectl logs {validation-logs} -c driver-validation`.",
            "Set `driver.enabled: false` in the ClusterPolicy if the driver is the host's own: then the validation takes it.",
            "Check RDMA on this node: from GPU Operator 26.3 on the validation waits for nvidia_peermem too, where GPUDirect RDMA \
                is on for the cluster.",
        ];

    ChainUnderWay: Info, "the operator's readiness chain is under way",
        after [],
        ["Wait: the file is not overdue yet. Look again when it is."];

    // The container runtime.
    RuntimeConfigBroken: Critical, "the container runtime's configuration is broken: its next start fails",
        after [],
        [
            "Correct the file at the line that the evidence names, or remove the drop-in if it is not needed.",
            "Check it before you restart the runtime: `containerd --config FILE config dump >/dev/null`.",
        ];
    DropInVersionTooHigh: Critical, "a drop-in has a higher version than the main configuration",
        after [],
        [
            "Let the toolkit read the file instead of `containerd config dump`: set `RUNTIME_CONFIG_SOURCE=file` in `toolkit.env`, \
                and remove the drop-in.",
            "Or bring the main file to the same version: `containerd config migrate`. By its version containerd refuses the drop-in, \
                or loses what the main file says (registry mirrors, sandbox image).",
        ];
    DropInNotImported: Critical, "NVIDIA's drop-in is not covered by `imports`: containerd does not read it",
        after [],
        [
            "Add its directory to `imports` at the top of the main configuration, such as \
                `imports = [\"/etc/containerd/conf.d/*.toml\"]`, and restart the runtime.",
            "Update nvidia-container-toolkit to 1.18.1 or newer if the drop-in is in `config.d`: 1.18.0 put it there.",
        ];
    CriTableIgnored: Critical, "NVIDIA's runtime is in a table that this configuration version ignores",
        after [],
        [
            "Move it into the table of the file's `version`: 1 `plugins.cri`, 2 `plugins.\"io.containerd.grpc.v1.cri\"`, 3 \
                and 4 `plugins.\"io.containerd.cri.v1.runtime\"`; or run `containerd config migrate`.",
        ];
    NvidiaRuntimeElsewhere: Critical, "NVIDIA's runtime is configured in a runtime that kubelet does not use",
        after [],
        ["Restart the toolkit's pod after that: `kubectl delete pod {toolkit}`."];
    NvidiaRuntimeMissing: Critical, "the toolkit runs, and kubelet's container runtime has no nvidia runtime",
        after [RuntimeConfigBroken, DropInNotImported, CriTableIgnored, NvidiaRuntimeElsewhere],
        ["Read the toolkit's log; it says which file it wrote: `kubectl logs {toolkit-logs} -c nvidia-container-toolkit-ctr`."];
    NvidiaRuntimeUnclear: Unknown, "no nvidia runtime is configured, which is right only in NRI mode",
        after [RuntimeConfigBroken, DropInNotImported, CriTableIgnored, NvidiaRuntimeElsewhere],
        [
            "Look whether the cluster uses NRI (`cdi.nriPluginEnabled`): then all is well. `kubectl get clusterpolicy -o \
                jsonpath='{.items[*].spec.cdi}'`.",
            AS_HOST_ROOT,
        ];
    NvidiaProgramMissing: Critical, "NVIDIA's runtime is configured, and its program is not on the host",
        after [NouveauHasGpu, GpuBoundToVfio, DriverBuilding, NvidiaInTransit, DriverNotLoaded],
        [
            "Restart the toolkit's pod, which installs it: `kubectl delete pod {toolkit}`.",
            "Correct or remove the entry if its path is not the toolkit's (`/usr/local/nvidia/toolkit` unless `toolkit.installDir` \
                says otherwise): it is of another installation.",
        ];
    DefaultRuntimeUndefined: Critical, "the default runtime is not configured: no container will start",
        after [RuntimeConfigBroken, DropInNotImported, CriTableIgnored],
        ["Correct `default_runtime_name` (CRI-O: `default_runtime`), or add that runtime, and restart the container runtime."];
    RuntimeNameMismatch: Warning, "no configured runtime has the name that the RuntimeClass asks for",
        after [],
        [
            "Give the RuntimeClass's handler and the configured runtime one name, in lower case: `kubectl get \
                runtimeclass nvidia -o jsonpath={.handler}` shows the first.",
            "Set `operator.runtimeClass` in the GPU Operator's values, or `NVIDIA_RUNTIME_NAME` in `toolkit.env`, to that name.",
        ];
    CdiSpecMissing: Warning, "CDI is enabled, and no CDI specification of NVIDIA's is on the node: pods with GPUs do not start",
        after [NouveauHasGpu, GpuBoundToVfio, DriverBuilding, NvidiaInTransit, DriverNotLoaded, DeviceNodesMissing],
        [
            "Restart the toolkit's pod, which writes it: `kubectl delete pod {toolkit}`; its log says why if it does not.",
            "Write it by hand until then: `nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml` on the node.",
        ];
    RuntimeConfigNotInForce: Warning, "the container runtime was started before its configuration was changed",
        after [],
        ["Restart it: `systemctl restart containerd` (k3s, rke2, k0s and snaps have a service of their own, CRI-O is `crio`); \
            running containers go on."];
    ToolkitNotReady: Warning, "toolkit-ready is missing: no container with a GPU was proven to run",
        after [DriverCtrReadyStale, DriverNotValidated, RuntimeConfigBroken, DropInVersionTooHigh, NvidiaRuntimeMissing, NvidiaProgramMissing,
            DefaultRuntimeUndefined, NvidiaRuntimeElsewhere, DropInNotImported, CriTableIgnored, RuntimeNameMismatch,
            RuntimeConfigNotInForce, NvidiaRuntimeUnclear],
        [
            "Read the log of the validation: `kubectl logs {validator-logs} -c toolkit-validation`.",
            "Look for `no runtime for \"nvidia\" is configured`: `kubectl describe pod {validator}`.",
        ];
    ValidationIncomplete: Warning, "cuda-ready or plugin-ready is missing: the operator's last validations never came to their end",
        after [ToolkitNotReady, GpuFabricManagerMissing, InotifyExhausted],
        ["Read the validator's log: `kubectl logs {validator-logs} --all-containers`."];
    RuntimeConfigUnreadable: Unknown, "the container runtime's configuration cannot be read",
        after [],
        [AS_HOST_ROOT];
    RuntimeInUseUnknown: Unknown, "which container runtime kubelet uses is not known",
        after [],
        ["Let it see the host's processes: `hostPID: true`, and `--proc` or `--root` of the host.", AS_HOST_ROOT];
    SeveralRuntimes: Info, "more than one container runtime is on this node",
        after [],
        ["Do nothing if NVIDIA's tools point at the one that kubelet uses."];
    RuntimeNotSeen: Info, "no container runtime's configuration is visible from here",
        after [],
        [AS_HOST_ROOT];
    DmaBufPossible: Info, "DMA-BUF would work without nvidia-peermem here",
        after [],
        [
            "Set `driver.rdma.enabled: false` in the ClusterPolicy to use DMA-BUF: this kernel (5.12 and later) and these open \
                kernel modules can share GPU memory that way, and NVIDIA recommends it. It takes CUDA 11.7 and libraries that use it \
                (UCX, NCCL).",
        ];
    GateMissing: Info, "this node's driver pod was made without the gate",
        after [],
        ["Install the gate's policy, and the next driver pod waits for MOFED: see docs/integration.md."];
    Settling: Info, "everything holds; the gate waits for the settle time",
        after [],
        ["Wait. If it never ends, read the MOFED pod's log. If it ends at the deadline with `Settled` as the last word, \
            the node became ready too late: the deadline wins over the settle time."];
}
