// SPDX-License-Identifier: Apache-2.0
//! Remedies: the steps for each reason that keeps the gate closed, and for five states of a node that stand
//! behind several reasons. docs/findings.md lists the steps.

use crate::ready::condition::Reason;
use crate::words::remedy::fact::{
    BOOT_PARAMETER, BUILT_BY_DRIVER_POD, BUILT_BY_TOOLKIT, DRIVER_POD, FILE_PARAMETER, HOST_DRIVER,
    HOST_MOFED, KERNEL_STACK, MARKER_UNSET, MOFED_POD, MOFED_POD_UNNAMED, NOT_LISTED, OWN_FILE, PEERMEM_USED,
    PRECOMPILED_DRIVER, REBUILD_POSSIBLE, SHADOWED, STATE_FILE, UNDIAGNOSED, WITHOUT_UMAD,
};
use crate::words::remedy::step::Step;
use crate::words::remedy::text::{
    AS_HOST_ROOT, DRAIN, END_GPU_PODS, FAST_PATH, FIND_MOFED, HOST_REBUILD, KERNEL_HEADERS, MOFED_LOG,
    MOUNT_PARENT, NEW_DRIVER_POD, NEW_MOFED_POD, NIC_GONE, NIC_RESET, NO_FORCE_REINSTALL, PRECOMPILED,
    REBUILD_ALONE, REMOUNT, RMMOD_PEERMEM, TOOLKIT_BUILD, UNDO, UNDO_REBUILD,
};

/// `nvidia_peermem` is in use, so MOFED cannot unload the old RDMA driver.
pub const PEERMEM_IN_USE: &[Step] =
    steps![@PEERMEM_USED END_GPU_PODS, RMMOD_PEERMEM, "Wait: MOFED starts again by itself."];

/// A container's mount does not receive what MOFED mounts after the container's start.
pub const MOUNT_PROPAGATION_MISSING: &[Step] = steps![
    "Mount `{volume}` with `mountPropagation: HostToContainer` in the pod's template.",
    "Make the mount shared if the host has it private (`findmnt -o TARGET,PROPAGATION --target /run`): `mount --make-rshared $(findmnt -no TARGET --target /run)`.",
    REMOUNT,
];

/// MOFED's marker exists, and the kernel's own modules are live.
pub const STALE_MARKER: &[Step] = steps![
    NEW_MOFED_POD,
    "Do not load nvidia_peermem by hand before that: it would pin the kernel's own modules."
];

/// RDMA modules are built into the kernel, and MOFED is to replace them.
pub const RDMA_BUILT_IN: &[Step] = steps![
    "Boot a kernel that has its RDMA stack as modules: `CONFIG_INFINIBAND=m`, `CONFIG_MLX5_CORE=m`, `CONFIG_MLX5_INFINIBAND=m`.",
    "Or use DMA-BUF if `peermem-gate paths` says that it is possible, and do not load nvidia-peermem. With the GPU Operator, set `driver.rdma.enabled: false` in the ClusterPolicy.",
    "If only Fabric Manager waits here, set `USE_HOST_MOFED=true` for the gate: the kernel's own RDMA stack serves it.",
];

/// `ib_umad` is not loaded, where the host provides the RDMA stack.
pub const UMAD_NOT_LOADED: &[Step] = steps![
    @WITHOUT_UMAD "Install this kernel's extra modules: `linux-modules-extra-$(uname -r)` (`kernel-modules-extra`).",
    "Load both modules on the node: `modprobe -a mlx5_ib ib_umad`. Where the host provides the RDMA stack, also put both into `/etc/modules-load.d/ib_umad.conf`.",
    @DRIVER_POD "If the node's GPUs still fail with CUDA error 802, delete this node's driver pod: `kubectl delete pod {driver}`.",
];

macro_rules! remedies {
    ($($reason:ident: [$($steps:tt)*];)*) => {
        /// The steps for a reason; none for one that passes or exempts.
        #[must_use]
        pub fn of(reason: Reason) -> &'static [Step] {
            match reason {
                $(Reason::$reason => steps![$($steps)*],)*
                _ => &[],
            }
        }
    };
}

remedies! {
    SettingsContradict: [
        "Wait until the operator has replaced the old pods, then look again.",
        "Set `GPU_DIRECT_RDMA_ENABLED` and `USE_HOST_MOFED` for this command: the environment wins.",
    ];
    DevicesUnreadable: [
        "Wait half a minute if the node has just booted, or a device was just reset.",
        "Mount the host's `/sys`, or name it with `--sys`, if `/sys/bus/pci/devices` lists no device.",
    ];
    NicAway: [NIC_RESET, NIC_GONE];
    ManagementDeviceAway: [NIC_RESET, NIC_GONE];
    VpdUnreadable: ["Run this as root: only uid 0 may read `/sys/bus/pci/devices/*/vpd`. No capability is needed."];
    MarkerAbsent: [
        "Wait while MOFED builds and loads.",
        @UNDIAGNOSED "Find what blocks MOFED: run `peermem-gate doctor` on the node.",
        MOFED_LOG,
        "Set `driver.rdma.useHostMofed: true` in the ClusterPolicy (`USE_HOST_MOFED=true`) if MOFED is installed on the host: then no container sets a marker.",
    ];
    MarkerParentMissing: ["Mount `/run/mellanox` (HostToContainer) if peermem-gate runs in a container, or correct the path.", MOFED_LOG];
    MarkerDirectoryUnlinked: [REMOUNT, MOUNT_PARENT];
    MarkerNotAFile: [
        "Check that `--marker` and `DRIVER_READY_PATH` name MOFED's marker, and not its directory.",
        "If they do, remove what is at that path (`rmdir` for a directory): MOFED creates the file itself.",
    ];
    MarkerUnreadable: ["Give this process search permission on every directory of the path, or correct `--marker`.", AS_HOST_ROOT];
    MarkerSuspect: [
        @MOFED_POD_UNNAMED FIND_MOFED,
        MOFED_LOG,
        "If the MOFED container does not run, start it: it clears the marker and sets it again.",
        "If the MOFED container runs with the older entrypoint (`USE_NEW_ENTRYPOINT=false`), remove the left-over `/run/mellanox/drivers/.lock`: then the marker is sound.",
    ];
    LocksUnreadable: ["Let this process read `/proc/locks` and the lock file, or correct `--proc`.", AS_HOST_ROOT];
    ModuleNotLoaded: [
        "Wait while MOFED restarts its driver.",
        MOFED_LOG,
        "Start MOFED again if its restart failed: until then the node may have no NIC driver.",
    ];
    ModuleLoading: ["Wait. If the load does not end, read `dmesg`; reboot the node if the module's init function hangs."];
    ModuleUnloading: ["Wait. If the unload does not end, read `dmesg`, and reboot the node."];
    WitnessesDisagree: ["Wait a second. If the two still disagree, correct `--proc` and `--sys`."];
    ModulesUnreadable: ["Mount the host's `/proc` and `/sys`, or name them with `--proc` and `--sys`."];
    ModuleInTree: [
        @MARKER_UNSET "Wait: MOFED swaps the modules before it sets the marker.",
        @MOFED_POD "Delete this node's MOFED pod if the marker is set: `kubectl delete pod {mofed}`.",
        @HOST_MOFED "Start the host's MOFED: `/etc/init.d/openibd restart`; or unset `USE_HOST_MOFED` if a container provides it.",
    ];
    MixedStack: [
        "Wait if MOFED is swapping its modules.",
        "If MOFED is not swapping its modules, end the programs that use the in-tree modules, then delete this node's MOFED pod: `kubectl delete pod {mofed}`.",
        "If something keeps them loaded, drain and reboot the node.",
    ];
    FabricDeviceMissing: [
        "Wait while MOFED loads its driver.",
        "Read the kernel's log if MOFED is ready: `dmesg | grep -i mlx5` says why the driver did not take the device.",
    ];
    RdmaDevicesUnreadable: ["Mount the host's `/sys`, or name it with `--sys`."];
    VersionMismatch: [
        @MARKER_UNSET "Wait: MOFED swaps the modules before it sets the marker.",
        "Correct `--mofed-version` if MOFED was upgraded.",
        "Delete MOFED's pod if it kept old modules although its image is new: `kubectl delete pod {mofed}`. Reboot the node if that does not help.",
    ];
    VersionUnreadable: ["Let this process read the file or directory that the message names, or name the version with `--mofed-version`."];
    SymbolMissing: ["If the live modules are MOFED's, install a MOFED that has peer memory, or use DMA-BUF."];
    SymbolsNotRead: ["Look again: modules came and went during the look."];
    HeadersMissing: [
        @MARKER_UNSET "Wait: MOFED shows its headers just before it sets the marker.",
        @MOFED_POD "Mount `/run/mellanox` with `mountPropagation: HostToContainer` if the node has the headers and the container does not.",
        @MOFED_POD "If the node has no headers although the marker is set, delete this node's MOFED pod: `kubectl delete pod {mofed}`.",
        @HOST_MOFED "Install MOFED's kernel headers on the host (`mlnx-ofa_kernel-devel`, `mlnx-ofed-kernel-dkms`).",
        @KERNEL_STACK KERNEL_HEADERS,
        @PRECOMPILED_DRIVER "Use `--precompiled`: nothing is built here, and no headers are needed.",
    ];
    HeadersForOtherKernel: [
        @MOFED_POD "Delete this node's MOFED pod: the new one builds for the running kernel: `kubectl delete pod {mofed}`.",
        @HOST_MOFED "Install MOFED for the running kernel: `dkms autoinstall -k $(uname -r)`, or `mlnxofedinstall --add-kernel-support`.",
    ];
    HeadersIncomplete: [
        "Wait a moment: MOFED writes this file last.",
        @MOFED_POD "If the file stays incomplete, delete this node's MOFED pod, and a new one starts: `kubectl delete pod {mofed}`.",
        @HOST_MOFED "If the file stays incomplete, install MOFED's kernel headers on the host again (`mlnx-ofa_kernel-devel`, `mlnx-ofed-kernel-dkms`).",
        @KERNEL_STACK KERNEL_HEADERS,
    ];
    HeadersWithoutPeerMemory: [
        @MOFED_POD "If the file is empty or old, delete this node's MOFED pod: `kubectl delete pod {mofed}`.",
        @MOFED_POD "Otherwise, install a MOFED that has peer memory, or use DMA-BUF.",
        @HOST_MOFED "Install a MOFED that has peer memory, or use DMA-BUF.",
        @KERNEL_STACK KERNEL_HEADERS,
    ];
    HeadersUnreadable: [
        "Let this process read the headers.",
        @MOFED_POD "Mount `/run/mellanox` with `mountPropagation: HostToContainer`.",
        "If the message names `/proc`, mount the host's, or name it with `--proc`.",
    ];
    LoadedOnGoneStack: [
        @PEERMEM_USED END_GPU_PODS,
        RMMOD_PEERMEM,
        @MOFED_POD NEW_MOFED_POD,
        @HOST_MOFED "Load MOFED and nvidia_peermem again: `/etc/init.d/openibd restart`, then `modprobe nvidia-peermem`.",
    ];
    BuildSkipped: [@REBUILD_POSSIBLE REBUILD_ALONE, DRAIN, FAST_PATH, NEW_DRIVER_POD, NO_FORCE_REINSTALL];
    ModuleFileMissing: [
        @REBUILD_POSSIBLE REBUILD_ALONE,
        @NOT_LISTED "Run `depmod` in the driver's root.",
        @UNDIAGNOSED "If the driver is being built, installed or loaded, wait.",
        @STATE_FILE FAST_PATH,
        @DRIVER_POD NEW_DRIVER_POD,
        @HOST_DRIVER HOST_REBUILD,
        "If the driver's root is elsewhere, name it: `--driver-root` (`/run/nvidia/driver` for a driver container's).",
    ];
    StubModule: [
        @PRECOMPILED_DRIVER PRECOMPILED,
        @REBUILD_POSSIBLE REBUILD_ALONE,
        @STATE_FILE FAST_PATH,
        @BUILT_BY_TOOLKIT TOOLKIT_BUILD,
        @DRIVER_POD @BUILT_BY_DRIVER_POD NEW_DRIVER_POD,
        @HOST_DRIVER HOST_REBUILD,
    ];
    SymbolVersionMismatch: [
        @PRECOMPILED_DRIVER PRECOMPILED,
        @SHADOWED UNDO_REBUILD,
        @REBUILD_POSSIBLE REBUILD_ALONE,
        @OWN_FILE UNDO,
        @STATE_FILE FAST_PATH,
        @BUILT_BY_TOOLKIT TOOLKIT_BUILD,
        @DRIVER_POD @BUILT_BY_DRIVER_POD NEW_DRIVER_POD,
        @HOST_DRIVER "Check that `/usr/src/ofa_kernel/default` is of this kernel.",
        @HOST_DRIVER HOST_REBUILD,
    ];
    WrongKernel: [
        @PRECOMPILED_DRIVER "Use the driver image of this kernel; note suffixes such as `+64k`.",
        @REBUILD_POSSIBLE REBUILD_ALONE,
        @OWN_FILE UNDO,
        @STATE_FILE FAST_PATH,
        @DRIVER_POD NEW_DRIVER_POD,
        @HOST_DRIVER HOST_REBUILD,
    ];
    SymbolVersionMissing: [@SHADOWED UNDO_REBUILD, @REBUILD_POSSIBLE REBUILD_ALONE, @OWN_FILE UNDO, @STATE_FILE FAST_PATH, @BUILT_BY_TOOLKIT TOOLKIT_BUILD, @DRIVER_POD @BUILT_BY_DRIVER_POD NEW_DRIVER_POD, @HOST_DRIVER HOST_REBUILD];
    UnsignedModule: [
        "Let rebuilds sign nvidia-peermem.ko with a key that the machine trusts (MOK): `--signing DIR` of `keep`, `load` or `rebuild`, in the chart `keeper.signing.secretName`.",
        "Or use a driver with signed modules.",
    ];
    LegacyClientLoaded: [
        "Unload it, and load nvidia_peermem: `rmmod nv_peer_mem`, `peermem-gate load`.",
        "Remove its package (nvidia-peer-memory or nv_peer_mem), or it returns after the next boot.",
    ];
    BadParameter: [
        @BOOT_PARAMETER "Correct the parameter in the boot loader's configuration, and reboot the node.",
        @STATE_FILE FAST_PATH,
        @FILE_PARAMETER "Correct the parameter in that file; with the GPU Operator, in the ConfigMap that `driver.kernelModuleConfig` names. Then delete this node's driver pod, if the node has one: `kubectl delete pod {driver}`.",
    ];
    InstallLine: [
        "Remove the line `install nvidia_peermem …` from the file that the evidence names.",
        "If something must run before the load, let the line run `peermem-gate load`.",
    ];
    OtherDriverLoaded: [
        @OWN_FILE UNDO,
        @STATE_FILE FAST_PATH,
        @DRIVER_POD "Delete this node's driver pod: the new one unloads the old nvidia: `kubectl delete pod {driver}`.",
        @HOST_DRIVER "Unload nvidia and load it again, or reboot the node.",
    ];
    ModuleFileDamaged: [
        @REBUILD_POSSIBLE REBUILD_ALONE,
        @OWN_FILE UNDO,
        "If the disk is full, make room: a full disk truncates files.",
        @STATE_FILE FAST_PATH,
        @DRIVER_POD NEW_DRIVER_POD,
        @HOST_DRIVER HOST_REBUILD,
    ];
    DependencyNotLive: ["Wait while the driver is loading. If the driver is not loaded in time, read the driver container's log and `dmesg`."];
    ModuleFileUnreadable: ["Run peermem-gate as root, let it read that path, or correct `--driver-root`."];
    SignatureUnknown: [AS_HOST_ROOT];
    SymbolVersionUnknown: [
        "Let the gate see the driver's root (`--driver-root`) and MOFED's headers (mount `/run/mellanox`, HostToContainer).",
        @STATE_FILE FAST_PATH,
        @DRIVER_POD "If nvidia on disk is newer than the loaded one, delete this node's driver pod: `kubectl delete pod {driver}`.",
        @HOST_DRIVER "If nvidia on disk is newer than the loaded one, reboot the node.",
    ];
    Settling: ["Wait. If the settle time never ends, read the MOFED pod's log. If the deadline passes with only `Settled` missing, the node became ready too late: the deadline wins over the settle time."];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ready::condition::Consequence;

    #[test]
    fn every_reason_that_keeps_the_gate_closed_has_a_remedy() {
        for reason in Reason::ALL {
            let is_closed = matches!(reason.consequence(), Consequence::Waits | Consequence::Blocks);
            assert_eq!(!of(*reason).is_empty(), is_closed, "{reason}");
        }
    }
}
