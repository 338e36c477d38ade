// SPDX-License-Identifier: Apache-2.0
//! Every finding there is, with its remedy. docs/findings.md lists them.
#![allow(clippy::wildcard_imports, reason = "a step's premise is a word")]

use super::fact::*;
use super::{Group, Severity};
use peermem_gate::ready::condition::Reason;
use peermem_gate::steps;
use peermem_gate::words::remedy;
use peermem_gate::words::remedy::fact::*;
use peermem_gate::words::remedy::text::*;
use peermem_gate::words::remedy::{
    MOUNT_PROPAGATION_MISSING, PEERMEM_IN_USE, RDMA_BUILT_IN, STALE_MARKER, Step, UMAD_NOT_LOADED,
};

const FIND_DRIVER: &str = "Find the driver pod: `kubectl get pod -A -l app.kubernetes.io/component=nvidia-driver --field-selector spec.nodeName={node}`.";
const DRIVER_LOG: &str = "Read the driver container's log: `kubectl logs {driver-logs} -c nvidia-driver-ctr`, with `--previous` if it restarts; and `dmesg` on the node.";
const MANAGER_LOG: &str =
    "Read the log of the driver pod's init container: `kubectl logs {driver-logs} -c k8s-driver-manager`.";
const NOT_ON_TALOS: &str = "Do without the operator's validation: it does not find the driver of Talos in `/usr/local`. Install NVIDIA's device plugin by itself, as Talos documents it.";
const GATE: &str = "To prevent this at the next boot, install the keeper: `helm install peermem-gate oci://ghcr.io/peermem-gate/charts/peermem-gate --namespace kube-system`.";

const HELM_CRI_O: &str =
    "Let the GPU Operator find CRI-O by itself; where it does not, set `RUNTIME=crio` in `toolkit.env`.";
const HELM_CONTAINERD: &str =
    "Set the GPU Operator's Helm values for {runtime}: `toolkit.env: [{toolkit-env}]`{then-restart}.";
const TOOLKIT_ANEW: &str = "Delete the toolkit's pod, which writes the runtime's configuration at its start: `kubectl delete pod {toolkit}`. Its settings are right for {runtime} already{then-restart}.";

const CONTAINER_RESTARTS: &[Step] = steps![
    "Read the log of container {container}: `kubectl logs {pod} -c {container}`, with `--previous` if it restarts.",
    "Correct what that line names. Compare the ClusterPolicy and the NicClusterPolicy with the operators' defaults, and remove versions of your own (such as `toolkit.version`).",
    @SWITCHED "If nothing on the cluster needs that part, turn it off: `{switch}: false` in the ClusterPolicy.",
    "Update the operator if a newer release has repaired that container.",
];

/// A row's remedy: its own steps, those of a reason (`of_reason`), or those of a state that reasons share.
macro_rules! remedy {
    ($name:ident, of_reason) => {
        remedy::of(Reason::$name)
    };
    ($name:ident, like $steps:ident) => {
        $steps
    };
    ($name:ident, [$($steps:tt)*]) => {
        steps![$($steps)*]
    };
}

macro_rules! reason {
    ($name:ident, of_reason) => {
        Some(Reason::$name)
    };
    ($name:ident, $($other:tt)*) => {
        None
    };
}

macro_rules! findings {
    ($($group:ident { $($name:ident: $severity:ident, $title:literal
        $(, by $by:literal)? $(, after [$($cause:ident),* $(,)?])? => $remedy:tt $($like:ident)?;)* })*) => {
        #[expect(clippy::doc_markdown, reason = "the titles are shown as plain text")]
        /// A finding's name: stable. A cause is above what follows from it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Id { $($(#[doc = $title] $name,)*)* }

        named!(Id: $($($name),*),*);

        impl Id {
            /// The subject.
            pub fn group(self) -> Group {
                match self { $($(Self::$name => Group::$group,)*)* }
            }

            /// How bad it is.
            pub fn severity(self) -> Severity {
                match self { $($(Self::$name => Severity::$severity,)*)* }
            }

            /// The fault, in a few words.
            pub fn title(self) -> &'static str {
                match self { $($(Self::$name => $title,)*)* }
            }

            /// Possible causes: the first of these that was found too is the cause.
            pub fn causes(self) -> &'static [Self] {
                match self { $($(Self::$name => &[$($(Self::$cause),*)?],)*)* }
            }

            /// What shows it, where neither a reason's check nor a line of a log does: the places, and what is there.
            pub fn recognized_by(self) -> Option<&'static str> {
                match self { $($(Self::$name => [$($by)?].first().copied(),)*)* }
            }

            /// The remedy, step by step.
            pub fn remedy(self) -> &'static [Step] {
                match self { $($(Self::$name => remedy!($name, $remedy $($like)?),)*)* }
            }

            /// The reason that it is the finding of.
            pub fn reason(self) -> Option<Reason> {
                match self { $($(Self::$name => reason!($name, $remedy $($like)?),)*)* }
            }
        }
    };
}

findings! {
    // What cannot be seen.
    Source {
        NotJudged: Unknown, "not judged: a sign on which an all-clear would rest cannot be seen from here",
            by "/sys/bus/pci/devices, /proc or another place does not show a sign that an all-clear needs" => [
                "Run a CUDA program in a container, such as NVIDIA's `vectorAdd`: if it succeeds, nothing is wrong with what could not be seen.",
                AS_HOST_ROOT];
        SourceUnreadable: Unknown, "a source of further evidence cannot be read",
            by "/proc/*/environ, /proc/*/mountinfo or another file fails to be read" => [AS_HOST_ROOT];
        SettingsContradict: Unknown, "two GPU Operator containers contradict each other" => of_reason;
        DevicesUnreadable: Unknown, "unknown whether there is a Mellanox device: the PCI bus cannot be read, or has just changed" => of_reason;
        VpdUnreadable: Unknown, "unknown whether this is an NVLink 5 machine: a device's vpd cannot be read" => of_reason;
        RdmaDevicesUnreadable: Unknown, "RDMA devices cannot be read" => of_reason;
        MarkerUnreadable: Unknown, "MOFED's marker cannot be examined" => of_reason;
        LocksUnreadable: Unknown, "the system's locks cannot be read" => of_reason;
        ModulesUnreadable: Unknown, "module states cannot be read" => of_reason;
        VersionUnreadable: Unknown, "mlx5_core's version cannot be read" => of_reason;
        SymbolsNotRead: Unknown, "the kernel's symbols were not read" => of_reason;
        HeadersUnreadable: Unknown, "MOFED's headers cannot be read" => of_reason;
        SignatureUnknown: Unknown, "unknown whether the kernel loads unsigned modules" => of_reason;
        ModuleFileUnreadable: Unknown, "nvidia-peermem.ko cannot be read" => of_reason;
    }

    // The view: what keeps this process, or the driver container, from seeing what MOFED does.
    View {
        MarkerDirectoryUnlinked: Critical, "this mount shows a deleted directory: no marker can appear in it" => of_reason;
        RunNotShared: Critical, "the host's /run is a private mount: containers do not see each other's mounts",
            by "/proc/*/mountinfo: the host's /run is private" => [
                "Make the mount that contains `/run` shared: `mount --make-rshared $(findmnt -no TARGET --target /run)` on the node, then delete the operators' pods there.",
                "Find what made the mount private: `findmnt -o TARGET,PROPAGATION --target /run`; systemd makes it shared at boot."];
        MountPinned: Critical, "a container's mount shows a tree that the host has replaced",
            by "/proc/*/mountinfo: a container's mount is of another file system than the host's", after [MarkerDirectoryUnlinked, RunNotShared] => [REMOUNT, MOUNT_PARENT];
        MountPropagationMissing: Warning, "a container does not see what MOFED mounts after the container's start",
            by "/proc/*/mountinfo: a container's mount is neither shared nor a slave", after [RunNotShared] => like MOUNT_PROPAGATION_MISSING;
        InotifyExhausted: Warning, "the limit of inotify instances is reached",
            by "/proc/sys/fs/inotify/max_user_instances is reached by the instances in /proc/*/fd, or this program gets none" => [
                "Raise the limit on the node: `sysctl -w fs.inotify.max_user_instances=8192`, and write it to `/etc/sysctl.d/90-inotify.conf`.",
                "Find who uses inotify instances: `find /proc/*/fd -lname 'anon_inode:inotify' 2>/dev/null | cut -d/ -f3 | sort | uniq -c`.",
                "Then delete the pods that failed with `too many open files`."];
        MarkerNotAFile: Critical, "the marker's path is not a regular file" => of_reason;
    }

    // The buses.
    Rdma {
        NicAway: Warning, "MOFED is on this node, but no Mellanox device is on the PCI bus" => of_reason;
        ManagementDeviceAway: Warning, "the NVLink 5 management device is not on the PCI bus",
            after [NicAway] => of_reason;
        RdmaRequestedWithoutNic: Warning, "RDMA is requested on a node without a Mellanox device",
            by "/run/nvidia/validations/.driver-ctr-ready or /proc/*/environ: GPU_DIRECT_RDMA_ENABLED is true, and the bus has no Mellanox device" => [
                "Exclude such nodes from `driver.rdma.enabled`: give them an NVIDIADriver of their own (nodeSelector) with `rdma.enabled: false`. From GPU Operator 26.3 on, the validator waits forever there.",
                "If it should have one, repair the hardware or the pass-through."];
        NicOnlyVfio: Warning, "every Mellanox device is bound to vfio-pci, for virtual machines",
            by "/sys/bus/pci/devices/*/driver is vfio-pci for all Mellanox devices" => [
                "If this node should use RDMA itself, bind one device back: remove it from the `vfio-pci` configuration and reboot, or `echo ADDRESS > /sys/bus/pci/drivers/vfio-pci/unbind`, then `echo ADDRESS > /sys/bus/pci/drivers_probe`.",
                "Otherwise, set `driver.rdma.enabled: false` for such nodes."];
    }

    Gpu {
        OtherDriverHasGpu: Critical, "another driver is bound to the GPU: NVIDIA's driver cannot use it",
            by "/sys/bus/pci/devices/*/driver is neither nvidia nor one for virtual machines (nouveau, nova_core)" => [
                @OPENSHIFT "Add the kernel argument `modprobe.blacklist={other-driver}` with a MachineConfig; the node reboots.",
                "Blacklist it: write `blacklist {other-driver}` (for nouveau, also `options nouveau modeset=0`) to `/etc/modprobe.d/blacklist-{other-driver}.conf`, run `update-initramfs -u` (or `dracut --force`), and reboot the node."];
        GpuBoundToVfio: Warning, "the GPUs are bound to vfio-pci, for virtual machines: NVIDIA's driver cannot use them",
            by "/sys/bus/pci/devices/*/driver is vfio-pci for all GPUs, and something here wants NVIDIA's driver" => [
                "Label the node `nvidia.com/gpu.workload.config=container` if containers are to use its GPUs: the operator unbinds those that it has bound.",
                "Remove the GPUs from the host's vfio configuration (`/etc/modprobe.d`, kernel argument `vfio-pci.ids`) if it has one, and reboot the node.",
                "Otherwise, label the node `nvidia.com/gpu.workload.config=vm-passthrough`: no driver container is placed on it then."];
        GpuKeptFromMachines: Warning, "the GPUs are for virtual machines (vfio-pci), but the driver installed on the host is bound to them",
            by "workload-type of /run/nvidia/validations is vm-passthrough, and the host's driver has the GPUs" => [
                "Remove the host's driver with its module packages (`nvidia-driver-*`, `nvidia-dkms-*`, `linux-modules-nvidia-*`, by apt or dnf), and reboot: the operator unbinds only a driver of its own container.",
                "If containers are to use the GPUs, label the node `nvidia.com/gpu.workload.config=container`."];
        VgpuManagerOnHost: Warning, "the host's vGPU manager uses the GPUs: a driver container cannot run beside it",
            by "/proc/modules has nvidia_vgpu_vfio, and a driver container is to come" => [
                "Label the node `nvidia.com/gpu.workload.config=vm-vgpu` if virtual machines use its GPUs.",
                "Remove the vGPU manager from the host and reboot if containers are to use them."];
        GpuBarUnassigned: Critical, "the firmware assigned no address space (BAR) to a GPU: the driver cannot use it" => [
                "Enable `Above 4G decoding` (and `Resizable BAR`, or a large MMIO size) in the firmware's setup, and reboot.",
                "Update the firmware, or add the kernel argument `pci=realloc`, if the setting is already there.",
                "Enlarge the MMIO window of a virtual machine (`pciPassthru.64bitMMIOSizeGB`, OVMF's `X-PciMmio64Mb`)."];
    }

    Driver {
        ModuleSignatureRejected: Critical, "the kernel rejected a module's signature (Secure Boot)",
            by "the log of the kernel or of the driver's container names a signature, a key or lockdown; or nvidia-peermem.ko is unsigned and the kernel demands signatures" => [
                "Use a driver whose modules are signed with a key that this machine trusts: a precompiled driver of the distribution.",
                "Enroll the key that signed them: `mokutil --import KEY.der`, then reboot and confirm."];
        SelinuxRefuses: Critical, "SELinux refuses the driver's modules: permission denied" => [
                "Read the denial: `ausearch -m avc -c modprobe`.",
                "Update `container-selinux` on the node and the GPU Operator: their policies let the driver's container load modules."];
    }

    Driver {
        DkmsBuildFailed: Warning, "DKMS cannot build a module that GPUs or RDMA need for this kernel",
            by "/var/lib/dkms/*/build/make.log, or that log as posted, ends with an error of the compiler" => [
                @NEWER_HELPS "Install a newer release of {dkms-module}, which supports this kernel: its package, or `dkms install`.",
                @PEER_MODULE "Or do without that module: DMA-BUF needs Linux 5.12, NVIDIA's open kernel modules and CUDA 11.7.",
                "Or boot a kernel that this release supports, and keep it: DKMS does not build more by itself."];
    }

    Gpu {
        GpuNeedsOpenModules: Critical, "a GPU needs NVIDIA's open kernel modules, and the proprietary ones were loaded",
            by "/proc/driver/nvidia/version names the proprietary modules, and a GPU is a Blackwell or newer" => [
                @DRIVER_POD "Set `driver.kernelModuleType: open` in the ClusterPolicy (`auto` chooses by the GPU since GPU Operator 25.3); the driver pods then start again.",
                @HOST_DRIVER "Install the open kernel modules on the host (`nvidia-open`, `nvidia-driver-VERSION-open`, or the installer's `--kernel-module-type=open`), and reboot.",
                "Remove `KERNEL_MODULE_TYPE=proprietary` from the driver's environment if it is set there."];
        GpuNeedsProprietaryModules: Critical, "a GPU is too old for NVIDIA's open kernel modules, and they were loaded" => [
                @DRIVER_POD "Set `driver.kernelModuleType: proprietary` in the ClusterPolicy, or in an NVIDIADriver for nodes with such GPUs.",
                @HOST_DRIVER "Install the proprietary kernel modules on the host, and reboot."];
        GpuNotSupported: Critical, "this release of NVIDIA's driver does not support a GPU of this node",
            after [GpuNeedsOpenModules, GpuNeedsProprietaryModules] => [
                "Read which release supports it: `dmesg | grep -A 4 'NVRM: The NVIDIA GPU'`.",
                @DRIVER_POD "Set `driver.version` to such a release, in an NVIDIADriver of its own if other nodes have newer GPUs.",
                @HOST_DRIVER "Install such a release on the host, and reboot.",
                @VIRTUAL_MACHINE "If its GPU is a vGPU, use NVIDIA's vGPU guest driver (GRID) and a license instead: the data center driver supports no vGPU. Or pass the whole GPU through."];
        GpuFirmwareMissing: Critical, "nvidia finds no firmware (GSP) for a GPU: it cannot start it" => [
                @DRIVER_POD "Delete this node's driver pod: it brings the firmware, and writes its place to `/sys/module/firmware_class/parameters/path`: `kubectl delete pod {driver}`.",
                @HOST_DRIVER "Install the firmware of exactly the loaded driver's version below `/lib/firmware/nvidia/VERSION` (package `nvidia-firmware-VERSION`, or the driver's installer), then load nvidia again.",
                "If the version in the message differs from `/sys/module/nvidia/version`, reboot the node: an update on disk has removed the loaded driver's firmware."];
        GpuLost: Critical, "a GPU has fallen off the bus: nothing reaches it until a reset" => [
                "Drain the node and reboot it, or power it off and on: `kubectl drain {node} --ignore-daemonsets --delete-emptydir-data`.",
                "If it is lost again, replace or reseat it, its cable or riser, and check power and temperature (`nvidia-bug-report.sh`)."];
        GpuInforomCorrupted: Critical, "a GPU's infoROM is corrupted: nvidia-smi fails, so the operator finds no driver",
            after [GpuLost] => [
                "Drain the node and switch it off and on; if it stays, have the GPU replaced.",
                @DRIVER_POD "To take the GPU out of use until then, drain the node and send the driver pod away, whose nvidia-persistenced has the GPU open: `kubectl label node {node} --overwrite nvidia.com/gpu.deploy.driver=false`. Bind the GPU to vfio-pci (`driverctl set-override ADDRESS vfio-pci`), and set the label to true.",
                @HOST_DRIVER @SYSTEMD "Take the GPU out of use until then: `systemctl stop nvidia-persistenced`, `driverctl set-override ADDRESS vfio-pci`."];
        GpuRemapFailed: Critical, "a GPU cannot replace bad memory by spare rows: the GPU itself has to be replaced",
            after [GpuLost] => [
                "Have the GPU replaced (RMA), and take it out of use until then: `nvidia-smi -q -d ROW_REMAPPER` shows which it is; collect `nvidia-bug-report.sh` for the vendor."];
        GpuNeedsReset: Warning, "a GPU reported an error that only a reset clears",
            after [GpuLost, GpuRemapFailed] => [
                @ROW_PENDING "Choose the time: until the reset the bad row is out of use, and other programs run on. The GPU need not be replaced.",
                "End the pods, jobs and services (nvidia-persistenced, DCGM) on that GPU and reset it: `nvidia-smi --gpu-reset -i INDEX`; or, and where the message asks for it, drain and reboot the node.",
                "Look up its Xid in NVIDIA's catalog, and the driver's advice: `nvidia-smi -q | grep -A 3 'GPU Recovery'`.",
                "Replace the GPU if the error comes back, or `nvidia-smi -q -d ROW_REMAPPER` shows a failure (`nvidia-bug-report.sh`)."];
        GpuNotInitialised: Critical, "nvidia is loaded but cannot initialize a GPU",
            by "the kernel's log; or /sys/bus/pci/devices/*/driver is missing beside a live nvidia; or /proc/driver/nvidia/gpus/ has a GPU without a UUID", after [GpuBarUnassigned, GpuNeedsOpenModules, GpuNeedsProprietaryModules, GpuNotSupported, GpuFirmwareMissing, GpuLost] => [
                "Read `dmesg | grep -iE 'NVRM|Xid'`.",
                @DRIVER_POD "Choose the other kind of kernel modules if NVRM asks for it: `driver.kernelModuleType: open` from Turing on (Blackwell needs it), `proprietary` for older GPUs.",
                "Power the node off and on; replace or reseat a GPU that falls off the bus again."];
    }

    // What takes the ground from under any container.
    Node {
        DiskFull: Critical, "no space is left on the disk: a driver's container cannot write its files" => [
                "Find what fills it: `df -h /var/lib/containerd /var/lib/containers /var/lib/kubelet`, `du -xsh` of these and `/var/log`.",
                "Find who uses most: `kubectl get --raw /api/v1/nodes/{node}/proxy/stats/summary | jq -r '.pods[] | [.\"ephemeral-storage\".usedBytes, .podRef.name] | @tsv' | sort -n | tail`.",
                "Remove unused images (`crictl rmi --prune`), old logs and pods.",
                "Raise the container's own limit if it has one: `ephemeral-storage`, or the size of an emptyDir."];
        PodsEvicted: Warning, "kubelet evicts the operators' pods again and again: the node lacks disk space or memory",
            after [DiskFull] => [
                "See what is short: `kubectl describe node {node}` (`DiskPressure`, `MemoryPressure`), `df -h /var/lib/kubelet /var/lib/containerd /var/lib/containers`.",
                "Remove unused images (`crictl rmi --prune`), old logs and pods.",
                "Give the node more of it if its own pods need it."];
        ImageNotPulled: Critical, "kubelet cannot pull the image of a driver's container" => [
                "Read the reason and the image's name in the `Events` of `kubectl describe pod`.",
                @PRECOMPILED_IMAGE "Set `driver.usePrecompiled: false` with a full `driver.version` if no image has that tag, or boot a kernel that has an image.",
                @BUILT_DRIVER "Set a `driver.version` that has an image for this node's operating system if no image has that tag.",
                "If the node cannot reach the registry, repair that: pull secret (`imagePullSecrets`), proxy, mirror or DNS."];
        KilledForMemory: Critical, "the kernel killed a process of a driver's container: its memory limit is too low",
            by "the kernel's log: an oom-kill in the control group of a driver's pod" => [
                "Raise that container's memory limit: a build takes some GiB. MOFED: `spec.ofedDriver.containerResources` of the NicClusterPolicy; GPU driver: `driver.resources` of the ClusterPolicy.",
                "A LimitRange may set it: `kubectl get limitrange -A`."];
    }

    // What keeps MOFED out.
    Mofed {
        StorageModulesLoaded: Critical, "storage modules over RDMA are loaded: MOFED cannot start",
            by "/proc/modules has a storage module over RDMA, and MOFED is not there; or the log of MOFED's container says it" => [
                "End what uses these modules: unmount NFS over RDMA, log out of iSER, SRP and NVMe over RDMA; then unload them (`rmmod {storage}`), and MOFED starts by itself. Do not touch a root disk that is reached over RDMA.",
                @STORAGE_UNLOADED "Leave `UNLOAD_STORAGE_MODULES=true`, which had no effect: the module is used, or this MOFED image does not find it (then use a newer one).",
                @STORAGE_KEPT "Set `UNLOAD_STORAGE_MODULES=true` in `spec.ofedDriver.env` of the NicClusterPolicy instead. File systems over RDMA then stall while MOFED swaps the modules, which are not loaded again.",
                "Or drain and reboot the node, and mount such volumes only after MOFED is ready."];
        ThirdPartyRdmaModulesLoaded: Critical, "third-party RDMA modules keep MOFED from starting",
            by "/proc/modules has a third party's RDMA module, and MOFED refuses to start; or the log of MOFED's container says it" => [
                @REFUSES_IW_CM "Update the MOFED image: this release takes the kernel's own iw_cm for a third party's module; a newer one does not.",
                @THIRD_PARTY_LOADED "Unload these modules if nothing uses them (`rmmod {third-party}`), and blacklist them in `/etc/modprobe.d`; then delete this node's MOFED pod: `kubectl delete pod {mofed}`.",
                @THIRD_PARTY_UNLOADED "Leave `UNLOAD_THIRD_PARTY_RDMA_MODULES=true`, which does not help here: a module that is used stays.",
                @THIRD_PARTY_KEPT "Set `UNLOAD_THIRD_PARTY_RDMA_MODULES=true` in `spec.ofedDriver.env` of the NicClusterPolicy instead: programs that use those devices lose RDMA."];
        PeermemInUse: Critical, "nvidia_peermem is in use, so MOFED cannot unload the old RDMA driver",
            by "/proc/modules: nvidia_peermem has a use count, and MOFED is not there; or the log of MOFED's container says it" => like PEERMEM_IN_USE;
        LoadedOnGoneStack: Critical, "nvidia_peermem is loaded against RDMA modules that are gone, and blocks MOFED",
            after [PeermemInUse] => of_reason;
        MofedModuleInUse: Critical, "MOFED cannot unload the old RDMA driver: a module is in use",
            by "the log of MOFED's container names a module that it cannot unload, and no marker came since", after [StorageModulesLoaded, ThirdPartyRdmaModulesLoaded, PeermemInUse, LoadedOnGoneStack] => [
                @HELD_BY_DISK "Leave the module loaded, and use a MOFED image that does not replace it (another release in `spec.ofedDriver.version`, or one without `USE_DKMS`). Then drain the node and reboot it.",
                @HOLDER_IS_HARMLESS "End what uses these modules (unmount file systems, stop their services), and unload them in this order: `rmmod {in-order}` (Lustre: `lustre_rmmod`). Let nothing load them before MOFED is ready: `/etc/modules-load.d`, services, `/etc/modprobe.d`.",
                @HOLDER_IS_HARMLESS NEW_MOFED_POD,
                @HOLDER_IS_HARMLESS "If something keeps them loaded, drain and reboot the node."];
        MofedBuildFailed: Critical, "MOFED's build fails: most likely this MOFED release does not support this kernel",
            by "the log of MOFED's container says which package does not build, and no marker came since", after [DiskFull, KilledForMemory] => [
                @NEWER_HELPS "Use a MOFED release that supports this kernel (its release notes say it): a newer image in `spec.ofedDriver.version` of the NicClusterPolicy.",
                "Or boot a kernel that this release supports, or use a precompiled image for this kernel.",
                @MOFED_POD_UNNAMED FIND_MOFED,
                "Read the compiler's error: `kubectl logs {mofed-logs} -c mofed-container --previous`; the log names the build's own log."];
        MofedCannotBuild: Critical, "MOFED's container cannot build its driver, or cannot get its packages",
            by "the log of MOFED's container says that it gets no packages, or waits for its toolkit in vain, and no marker came since", after [DiskFull, KilledForMemory, MofedBuildFailed] => [
                "Make the repository that the log names reachable from the node: check DNS, the proxy (`spec.ofedDriver.env`) and the mirror.",
                @KERNEL_PACKAGE "Boot a kernel whose packages the repositories still have, or mirror those of this kernel.",
                "Give the node a valid entitlement (subscription) on RHEL, or use the driver toolkit on OpenShift.",
                "If the repositories stay out of reach, use a precompiled MOFED image for this kernel (`spec.ofedDriver.version`).",
                @MOFED_POD_UNNAMED FIND_MOFED,
                MOFED_LOG];
        ManagementOnMellanox: Critical, "the node's own network uses a Mellanox NIC, which goes down when MOFED reloads",
            by "/etc/netplan, /etc/NetworkManager, /etc/sysconfig or /etc/systemd/network configures Mellanox interfaces, none is up, and there is no default route" => [
                "Bring the network up again from the console: `networkctl reconfigure {interfaces}`, `netplan apply`, or `nmcli connection up NAME`.",
                "Keep the node's management network off the NICs that MOFED drives: use another NIC for the default route.",
                "If it must stay on that NIC, set `RESTORE_DRIVER_ON_POD_TERMINATION=false`, and drain the node before each update of MOFED."];

    // Who provides MOFED.
        DriverManagerWaitsWrongly: Critical, "k8s-driver-manager 0.9.0 waits for a MOFED container although the host provides MOFED",
            by "/proc/*/environ: USE_HOST_MOFED is true, mlx5_core is live, and k8s-driver-manager waits for minutes" => [
                "Update k8s-driver-manager to 0.9.1 or newer (GPU Operator 25.10.1 or newer): 0.9.0 has the two cases swapped. Setting `driver.manager.version: v0.9.1` is enough.",
                "Or create the marker for this boot: `mkdir -p /run/mellanox/drivers && touch /run/mellanox/drivers/.driver-ready` on the node. Remove it after the update."];
        HostMofedNotAnnounced: Critical, "MOFED is installed on the host, but the operator is set to wait for a MOFED container",
            by "/etc/init.d/openibd or another sign of a MOFED on the host, its modules are live, and the operator waits for a container" => [
                "Set `driver.rdma.useHostMofed: true` in the ClusterPolicy: it gives the containers `USE_HOST_MOFED=true`.",
                "Or remove MOFED from the host and let the Network Operator's container provide it. Never use both.",
                "If the operator already has this setting, run this command with `USE_HOST_MOFED=true`."];
        HostMofedAssumed: Info, "no setting says who provides MOFED; the host's MOFED is live and is assumed",
            by "/etc/init.d/openibd or another sign of a MOFED on the host, its modules are live, and no setting says so" => [
                "Do nothing if the host should provide MOFED, as on DGX OS. Where the GPU Operator runs, set `driver.rdma.useHostMofed: true`.",
                "Set `USE_HOST_MOFED=true` to confirm it here, or `USE_HOST_MOFED=false` if a container should provide it."];
        ContainerMofedIgnored: Critical, "a MOFED container is here, but the operator is set to use the host's MOFED",
            by "/run/mellanox/drivers/ has a MOFED container's lock or marker, and USE_HOST_MOFED is true" => [
                "Set `driver.rdma.useHostMofed: false` in the ClusterPolicy: otherwise nothing waits for that container.",
                "Or exclude this node from the NicClusterPolicy's `ofedDriver`. Never use both."];
        RdmaStackBuiltIn: Critical, "RDMA modules are built into this kernel: MOFED cannot replace them",
            by "/sys/module has RDMA modules without initstate, which /proc/modules does not list" => like RDMA_BUILT_IN;
        HostMofedForOtherKernel: Critical, "the host's MOFED was installed for another kernel, so this kernel has only its own modules",
            by "/lib/modules has MOFED's mlx5_core.ko for other kernels only", after [RdmaStackBuiltIn] => [
                "Build MOFED for this kernel and restart it: `dkms autoinstall -k $(uname -r)`, or run `mlnxofedinstall --add-kernel-support`; then `/etc/init.d/openibd restart`.",
                "Or boot the kernel for which it was installed."];
        PeermemWithoutMofed: Warning, "nvidia-peermem is to be loaded, and nothing on this node provides peer memory",
            by "/etc/modules-load.d or Talos' log asks for nvidia-peermem, and nothing on the host exports peer memory", after [ContainerMofedIgnored, RdmaStackBuiltIn] => [
                "Use DMA-BUF, and stop loading nvidia-peermem at boot: remove it from the file that the evidence names (Talos: from `machine.kernel.modules`). DMA-BUF needs Linux 5.12, the open kernel modules and CUDA 11.7.",
                "Or install MOFED (DOCA-OFED) on the host, and build the driver's modules again after it.",
                "Set `USE_HOST_MOFED=false` for this command if a container should provide MOFED."];
        HostMofedNotLive: Critical, "MOFED is installed on the host, but the kernel's own modules are live",
            by "/proc/modules: the kernel's own modules are live, or some are missing, and the host is to provide MOFED", after [DkmsBuildFailed, ContainerMofedIgnored, LoadedOnGoneStack, HostMofedForOtherKernel, RdmaStackBuiltIn] => [
                "Start the host's MOFED and read its output: `/etc/init.d/openibd restart`. Reboot if modules are in use.",
                "Rebuild the initramfs if the kernel's own modules come back at boot: `update-initramfs -u` or `dracut --force`.",
                "Set `driver.rdma.useHostMofed: false` in the ClusterPolicy if a container should provide MOFED."];

    // The marker.
        UnsupportedModulesRefused: Critical, "modprobe refuses one of MOFED's modules: SUSE does not support it" => [
                "Use a newer MOFED image, which passes `--allow-unsupported`.",
                "Write `allow_unsupported_modules 1` to `/etc/modprobe.d/10-unsupported-modules.conf` where that modprobe runs: in MOFED's container, or on the node if MOFED is the host's own."];
        MofedStopped: Critical, "the MOFED container is stopped before it is ready: most likely its startup probe fails",
            after [KilledForMemory, RdmaStackBuiltIn] => [
                "Give it more time: raise `spec.ofedDriver.startupProbe` (`failureThreshold`, `periodSeconds`) of the NicClusterPolicy. A build takes 5 to 40 minutes.",
                "Use a precompiled MOFED image for this kernel, which builds nothing.",
                "Look for `Startup probe failed`: `kubectl describe pod {mofed-logs}`."];
        MofedBuilding: Info, "MOFED is starting: its container builds or loads the driver",
            by "/proc/locks: a MOFED holds its lock; or /proc shows its entrypoint, or pod states that its container runs, without a marker", after [MofedStopped, RdmaStackBuiltIn] => [
                "Wait: a build takes 5 to 40 minutes.",
                @MOFED_POD_UNNAMED FIND_MOFED,
                "Read the container's log if the build takes longer: `kubectl logs {mofed-logs} -c mofed-container`."];
        MofedNotRunning: Critical, "the MOFED container ran on this node earlier and is not running now",
            by "/run/mellanox/drivers/.lock exists, and no process holds it; or the pod of MOFED has no process", after [PodsEvicted, StorageModulesLoaded, ThirdPartyRdmaModulesLoaded, PeermemInUse, LoadedOnGoneStack, MofedModuleInUse,
                DiskFull, ImageNotPulled, KilledForMemory, MofedBuildFailed, MofedCannotBuild, MofedStopped, UnsupportedModulesRefused, RdmaStackBuiltIn] => [
                @MOFED_POD_UNNAMED FIND_MOFED,
                MOFED_LOG,
                "If every start ends at the same line, use a newer MOFED release: `spec.ofedDriver.version` of the NicClusterPolicy.",
                "If there is no such pod, see why MOFED's DaemonSet places none here: node labels, taints, and the DaemonSet of this kernel."];
        MofedNotYetHere: Info, "the node has just booted, and no MOFED container has started yet",
            by "/run/mellanox/drivers/.lock does not exist, and the node has booted less than 15 minutes ago", after [PeermemInUse] => ["Wait: the MOFED pod starts some minutes after the node.", FIND_MOFED];
        MofedNeverCame: Critical, "no MOFED container has run on this node since it booted",
            by "/run/mellanox/drivers/.lock and the marker do not exist, and no pod has a container of MOFED's", after [PeermemInUse, HostMofedNotAnnounced] => [
                @INIT_WAITS "See what the pod's init container waits for: `kubectl logs {init} --all-containers`. With `upgradePolicy.safeLoad` it waits for the upgrade controller's drain: `kubectl get node {node} -o yaml | grep ofed-driver-upgrade`.",
                @INIT_WAITS "Turn on `ofedDriver.upgradePolicy.autoUpgrade` if `safeLoad` is on, or drain the node and turn `safeLoad` off: without the controller the wait has no end.",
                @NO_INIT_WAITS "See whether a MOFED pod is scheduled here: `kubectl get pod -A -o wide -l nvidia.com/ofed-driver --field-selector spec.nodeName={node}`.",
                @NO_INIT_WAITS "Check the node's labels: `kubectl get node {node} --show-labels` must have `feature.node.kubernetes.io/pci-15b3.present=true`, and the DaemonSet's kernel and OS version.",
                "Set `driver.rdma.useHostMofed: true` in the ClusterPolicy if the host should provide MOFED."];
        MarkerSuspect: Critical, "suspect marker: it may be left over from a MOFED container that was killed",
            after [StorageModulesLoaded, ThirdPartyRdmaModulesLoaded, PeermemInUse, LoadedOnGoneStack, MofedModuleInUse,
                DiskFull, ImageNotPulled, KilledForMemory, MofedBuildFailed, MofedCannotBuild] => of_reason;
        StaleMarker: Critical, "stale marker: MOFED's marker exists but its modules are not loaded",
            by "/run/mellanox/drivers/.driver-ready exists, and /proc/modules has none of MOFED's modules", after [MarkerSuspect, StorageModulesLoaded, ThirdPartyRdmaModulesLoaded, PeermemInUse, LoadedOnGoneStack,
                MofedModuleInUse, MofedCannotBuild, RdmaStackBuiltIn] => like STALE_MARKER;
        BlacklistLeftBehind: Warning, "MOFED's blacklist was left behind: the NIC driver does not load at boot",
            by "/etc/modprobe.d/blacklist-ofed-modules.conf exists beside a marker, without a MOFED, or from before the boot", after [MarkerSuspect, LoadedOnGoneStack, MofedModuleInUse, MofedNotRunning] => [
                "Wait if MOFED's container is starting: it removes the file itself.",
                "If MOFED does not come back, remove the file and load the driver: `rm /etc/modprobe.d/blacklist-ofed-modules.conf`, `modprobe -a mlx5_core mlx5_ib` on the node."];
        MarkerAbsent: Warning, "MOFED has not set its marker",
            after [MarkerDirectoryUnlinked, RunNotShared, MountPinned, DriverManagerWaitsWrongly, HostMofedNotAnnounced, StorageModulesLoaded,
                ThirdPartyRdmaModulesLoaded, PeermemInUse, LoadedOnGoneStack, MofedModuleInUse, DiskFull, ImageNotPulled, KilledForMemory, MofedBuildFailed, MofedCannotBuild,
                RdmaStackBuiltIn, MofedNotRunning, MofedNeverCame, MofedNotYetHere, MofedStopped, MofedBuilding, MountPropagationMissing] => of_reason;
        MarkerParentMissing: Warning, "the marker's directory does not exist",
            after [DriverManagerWaitsWrongly, HostMofedNotAnnounced, StorageModulesLoaded, ThirdPartyRdmaModulesLoaded,
                PeermemInUse, LoadedOnGoneStack, MofedModuleInUse, DiskFull, ImageNotPulled, KilledForMemory, MofedBuildFailed, MofedCannotBuild, RdmaStackBuiltIn, MofedNotRunning, MofedNeverCame,
                MofedNotYetHere, MofedBuilding] => of_reason;

    // The modules.
        ModuleLoading: Warning, "a module is still loading" => of_reason;
        ModuleUnloading: Warning, "a module is being unloaded" => of_reason;
        WitnessesDisagree: Warning, "/proc/modules and /sys/module disagree on a module",
            after [ModuleLoading, ModuleUnloading] => of_reason;
        MixedStack: Critical, "MOFED's and in-tree modules are mixed",
            after [RdmaStackBuiltIn, StorageModulesLoaded, ThirdPartyRdmaModulesLoaded, LoadedOnGoneStack, MofedModuleInUse, MofedBuilding] => of_reason;
        ModuleInTree: Warning, "the kernel's own RDMA modules are live instead of MOFED's",
            after [PeermemWithoutMofed, DriverManagerWaitsWrongly, MofedModuleInUse, DiskFull, ImageNotPulled, KilledForMemory, MofedBuildFailed, MofedCannotBuild, HostMofedForOtherKernel, RdmaStackBuiltIn, HostMofedNotLive,
                MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing] => of_reason;
        ModuleNotLoaded: Warning, "an RDMA module is not loaded",
            after [PeermemWithoutMofed, MixedStack, LoadedOnGoneStack, MofedModuleInUse, HostMofedForOtherKernel, RdmaStackBuiltIn, HostMofedNotLive, MarkerSuspect, StaleMarker,
                BlacklistLeftBehind, MarkerAbsent, MarkerParentMissing, ModuleLoading, ModuleUnloading] => of_reason;
        VersionMismatch: Warning, "mlx5_core does not have the expected version",
            after [HostMofedNotLive, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, MixedStack,
                ModuleInTree, ModuleNotLoaded] => of_reason;
        SymbolMissing: Warning, "no live module exports peer memory",
            after [PeermemWithoutMofed, HostMofedForOtherKernel, RdmaStackBuiltIn, HostMofedNotLive, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, MixedStack,
                ModuleInTree, ModuleNotLoaded, ModuleLoading, ModuleUnloading, WitnessesDisagree] => of_reason;
    }

    // Fabric Manager, on a machine with NVLink 5 switches.
    Fabric {
        UmadNotLoaded: Critical, "ib_umad is not loaded: Fabric Manager cannot reach the NVLink 5 switches",
            by "/sys/bus/pci/devices/*/vpd: an NVLink 5 machine, and /proc/modules lacks ib_umad", after [MixedStack] => like UMAD_NOT_LOADED;
        FabricDeviceMissing: Warning, "an NVLink 5 management device has no RDMA device",
            after [MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, MixedStack, ModuleNotLoaded, ModuleLoading,
                ModuleUnloading] => of_reason;
        NvlsmMissing: Critical, "Fabric Manager does not start: NVLSM, NVIDIA's NVLink subnet manager, is not installed" => [
                @HOST_DRIVER @SYSTEMD "Install the package `nvlsm` (its versions are dates), then `systemctl restart nvidia-fabricmanager`.",
                @DRIVER_POD "Use a driver image that contains `nvlsm`."];
        FabricManagerTooEarly: Critical, "Fabric Manager started without the NVLink 5 devices: CUDA error 802 on all GPUs",
            by "/sys/bus/pci/devices/*/vpd: an NVLink 5 machine; Fabric Manager is older than MOFED's devices, or runs without them", after [NvlsmMissing, UmadNotLoaded] => [
                @DRIVER_POD "Wait until MOFED is ready (`peermem-gate wait --for fabric`), then delete this node's driver pod, because Fabric Manager looks for the devices only when it starts: `kubectl delete pod {driver}`.",
                @HOST_DRIVER @SYSTEMD "Wait until MOFED is ready (`peermem-gate wait --for fabric`), then start Fabric Manager again: `systemctl restart nvidia-fabricmanager`.",
                "Put `peermem-gate wait --for any` before the driver's container (`manifests/wait/init-container.yaml`), or this can happen again."];
        FabricNotReady: Warning, "not ready for Fabric Manager: a start now would end in CUDA error 802",
            by "/sys/bus/pci/devices/*/vpd: an NVLink 5 machine; ib_umad or the RDMA devices of its switches are missing", after [UmadNotLoaded, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, MixedStack, ModuleNotLoaded,
                ModuleLoading, ModuleUnloading, FabricDeviceMissing] => [
                "Wait until MOFED has loaded its driver: `peermem-gate wait --for fabric`. Do not restart the driver's container earlier.",
                "Put `peermem-gate wait --for any` before the driver's container: `manifests/wait/init-container.yaml`."];
    }

    // The headers.
    Mofed {
        HeaderMountStale: Critical, "stale header mount: it shows the headers of a MOFED container that has ended",
            by "/run/mellanox/drivers/usr/src is mounted and shows no headers for this kernel, beside a marker", after [MarkerSuspect] => [NEW_MOFED_POD, "If the stale mount stays, unmount it: `umount -l /run/mellanox/drivers/usr/src` on the node, then delete the MOFED pod once more."];
        HeadersMissing: Critical, "MOFED's headers are missing",
            after [PeermemWithoutMofed, ContainerMofedIgnored, HeaderMountStale, MarkerDirectoryUnlinked, RunNotShared, MountPinned, MountPropagationMissing, DriverManagerWaitsWrongly,
                HostMofedForOtherKernel, HostMofedNotLive, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, ModuleInTree] => of_reason;
        HeadersForOtherKernel: Critical, "MOFED's headers are for another kernel",
            after [HeaderMountStale, MountPinned, HostMofedForOtherKernel, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing] => of_reason;
        HeadersIncomplete: Warning, "MOFED's Module.symvers is incomplete: NVIDIA's build would fail",
            after [MountPinned, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing] => of_reason;
        HeadersWithoutPeerMemory: Critical, "MOFED's headers lack peer memory: nvidia-peermem would become a stub",
            after [MountPinned, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing] => of_reason;
    }

    // The NIC behind the modules.
    Rdma {
        NicFirmwareFailed: Warning, "the firmware of a Mellanox NIC does not start or does not answer",
            by "the kernel's log: mlx5_core says that the NIC's firmware does not answer" => [
                "Power the node off and on: a reboot alone does not always restart the NIC's firmware.",
                "Reset or update the firmware: `mstfwreset -d ADDRESS reset`, `mstflint -d ADDRESS query`, `mlxfwmanager --query`.",
                "Replace the NIC if its firmware does not start after that."];
        NicWithoutDriver: Warning, "a Mellanox network device has no driver",
            by "/sys/bus/pci/devices/*/driver is missing for a Mellanox device, and mlx5_core is live", after [NicFirmwareFailed, MixedStack, LoadedOnGoneStack, MofedModuleInUse, HostMofedNotLive] => [
                "Read the reason in the kernel's log: `dmesg | grep -i mlx5` (old firmware, firmware that does not start, no memory for its BAR).",
                "Offer the device to the driver again: `echo ADDRESS > /sys/bus/pci/drivers_probe`.",
                "Query the firmware (`mlxfwmanager --query`, `mstflint -d ADDRESS query`), update it, or power the node off and on."];
        RdmaDeviceMissing: Warning, "a Mellanox NIC has a driver but no RDMA device",
            by "/sys/class/infiniband has no device of a NIC that mlx5_core drives", after [NicFirmwareFailed, UmadNotLoaded, MofedBuilding, MixedStack, ModuleInTree, ModuleNotLoaded, MarkerAbsent, MarkerSuspect, StaleMarker] => [
                @KERNEL_LACKS_IB "Install this kernel's extra modules: `linux-modules-extra-$(uname -r)` (`kernel-modules-extra`).",
                "Load mlx5_ib if it is missing: `modprobe mlx5_ib`, and name it in `/etc/modules-load.d/mlx5_ib.conf` for the next boot; read `dmesg | grep -i mlx5`.",
                "Enable RoCE on the device if it is off: `devlink dev param show pci/ADDRESS name enable_roce`.",
                "Reset the device, or reboot the node, if mlx5_ib could not bind to it."];
        RdmaPortsDown: Warning, "no RDMA port of this node is active",
            by "/sys/class/infiniband/*/ports/*/state is ACTIVE nowhere", after [RdmaDeviceMissing, ManagementOnMellanox] => [
                "Check the cable, the switch port and the link type: `ibstat`, `mlxlink -d DEVICE`; `ip link set INTERFACE up` for Ethernet.",
                "Start a subnet manager if ports are in state INIT: enable it on the InfiniBand switch, or run opensm."];
        RdmaPortLost: Warning, "an RDMA port has lost its link, and others of this node have theirs",
            by "the kernel's log: a port went down, and /sys/class/infiniband shows it down and others up", after [NicFirmwareFailed, ManagementOnMellanox] => [
                "Check the cable, the transceiver and the switch port: `mlxlink -d DEVICE`, `ibstat DEVICE`; reseat or replace them.",
                "Keep jobs off that port until then: leave it out of `NCCL_IB_HCA`, or cordon the node: `kubectl cordon {node}`."];
        VirtualFunctionWithoutGuid: Warning, "InfiniBand virtual functions have no GUID: their ports stay down",
            by "/sys/class/infiniband/*/node_guid of a virtual function is zero, and its port is down" => [
                "Give each virtual function its GUIDs before it is bound: `ip link set PF vf N node_guid GUID`, `ip link set PF vf N port_guid GUID`; in a cluster, ib-kubernetes does that.",
                "Let the virtual function's port follow the physical port: `ip link set PF vf N state auto`.",
                "Turn virtualization on in the subnet manager: `virt_enabled 2` in `opensm.conf`."];
        SubnetManagerMissing: Warning, "InfiniBand ports wait in state INIT: no subnet manager configures them",
            by "/sys/class/infiniband/*/ports/*/state is INIT", after [RdmaDeviceMissing] => [
                "Start a subnet manager in this fabric: on the switch, with UFM, or `opensm` on one host.",
                "Check that the port is in the right fabric and partition: `ibstat`, `sminfo`."];
        RdmaGidsMissing: Warning, "no active RoCE port has a GID: programs cannot address anything through them",
            by "/sys/class/infiniband/*/ports/*/gids are all zero on active RoCE ports" => [
                "See which interface the device belongs to, and whether it is on the host: `rdma link`, `ip -br link`. An interface in a pod's or another network namespace has its GIDs there.",
                "See whether the NIC is in switchdev mode: `devlink dev eswitch show pci/ADDRESS`. Its own ports have no GIDs then; programs use the virtual functions."];
        RdmaUserAccessMissing: Warning, "a module for RDMA programs is not loaded: their device files are missing",
            by "/proc/modules lacks ib_uverbs, rdma_ucm or ib_umad", after [UmadNotLoaded, RdmaDeviceMissing, ModuleNotLoaded, MixedStack, ModuleInTree, MarkerAbsent, MarkerSuspect, StaleMarker] => [
                "Load the module: `modprobe {rdma-modules}`, and name it in `/etc/modules-load.d/rdma.conf`.",
                "Delete the RDMA device plugin's pod afterwards: it looks for devices only at its start."];
        ModuleOfAnotherStack: Warning, "the kernel refuses a module that was built for another RDMA stack",
            by "the kernel's log: it disagrees about the version of an RDMA symbol that the module wants", after [MixedStack, ModuleInTree] => [
                "Build that module again for the RDMA stack that is loaded, or install the package that is made for it. Lustre: `--with-o2ib=/usr/src/ofa_kernel/default`.",
                "Install MOFED with `--with-nvmf` (`mlnx-nvme`) for `nvme_rdma` or another NVMe-oF module.",
                "If nothing needs the module, stop loading it: see `/etc/modules-load.d` and the service that asks for it."];
        SriovLockedDown: Warning, "the SR-IOV operator cannot change the NICs' firmware: the kernel is locked down (Secure Boot)" => [
                "Set SR-IOV and the number of virtual functions on the NIC's page of the firmware's setup (UEFI), which Secure Boot allows; reboot.",
                "Set `disablePlugins: [mellanox]` in the SriovOperatorConfig, so the operator leaves the firmware alone."];
        VfsWithoutRoom: Warning, "a NIC gets no virtual functions: the machine has no address space for their memory" => [
                "Enable SR-IOV and `Above 4G Decoding` in the BIOS (UEFI).",
                "If that is not enough, boot with `pci=realloc`, or ask for fewer virtual functions."];
        SriovConfigFailed: Warning, "the SR-IOV operator cannot configure a NIC: it has no virtual functions",
            after [SriovLockedDown, VfsWithoutRoom] => [
                "If the error names the eSwitch mode, update the SR-IOV operator: a newer one asks for switchdev before the virtual functions; older firmware refuses it afterwards.",
                "Update the NIC's firmware (`mlxfwmanager`), or do without switchdev: `eSwitchMode: legacy` in the SriovNetworkNodePolicy.",
                "Read the kernel's reason: `dmesg | grep mlx5_core`."];
        RdmaPluginOffersNone: Warning, "the RDMA shared device plugin offers no device, and the node has RDMA devices",
            by "the log of the RDMA shared device plugin: it offers no device, and /sys/class/infiniband has some", after [RdmaUserAccessMissing, MofedBuilding, MarkerAbsent, ModuleNotLoaded] => [
                "Delete the device plugin's pod: it may have looked before MOFED had made the devices.",
                "If it misses `issm`, update the RDMA device plugin: RoCE ports have no such device, and only newer releases know that.",
                "Compare the selectors of its ConfigMap (`vendors`, `deviceIDs`, `drivers`, `ifNames`, `linkTypes`) with the node's NICs: `lspci -nn -d 15b3:`, `ip -br link`."];
        NetnsExclusive: Warning, "RDMA devices are in exclusive network namespace mode: pods with the shared device plugin see none",
            by "/sys/module/ib_core/parameters/netns_mode is N" => [
                "Set the shared mode: `rdma system set netns shared` on the node, before any pod uses RDMA.",
                "Write `options ib_core netns_mode=1` to `/etc/modprobe.d/ib_core.conf` to keep it after a reboot.",
                "Or keep the exclusive mode and use host-device or SR-IOV networks with the RDMA CNI in place of the shared device plugin."];
        IommuTranslates: Warning, "the IOMMU translates the devices' addresses: GPUDirect RDMA fails or is slow",
            by "/sys/bus/pci/devices/*/iommu_group/type is DMA or DMA-FQ for GPU and NIC" => [
                "For fast GPUDirect RDMA ask the owners of the node's security for the IOMMU's pass-through mode (iommu=pt): it takes the host's own devices out of DMA protection.",
                "If GPUDirect RDMA stays slow, see whether PCIe ACS sends the traffic through the processor: `lspci -vvv | grep ACSCtl` on the bridges between GPU and NIC."];
        MemlockLimited: Warning, "the container runtime limits locked memory: RDMA programs cannot register memory",
            by "/proc/*/limits of the container runtime limits locked memory" => [
                @SYSTEMD "Raise the limit: `systemctl edit containerd` (or `crio`), add `[Service]` and `LimitMEMLOCK=infinity`, then `systemctl restart` it.",
                "Or give the pods the capability `IPC_LOCK`."];
    }

    Driver {
        DriverVersionMismatch: Warning, "the driver's files and the loaded nvidia have different versions" => [
                @STATE_FILE FAST_PATH,
                @DRIVER_POD "Delete this node's driver pod: the new one unloads the old nvidia: `kubectl delete pod {driver}`.",
                @HOST_DRIVER "Unload nvidia and load it again once nothing uses a GPU, or drain and reboot the node.",
                @HOST_DRIVER "If a reboot does not help, two packages bring two drivers: install modules and libraries of one version."];
    }

    // The build of nvidia-peermem.
    Peermem {
        BuildWithoutMofed: Critical, "the driver is being built without MOFED's headers: nvidia-peermem will be a stub",
            by "/proc/*/cmdline shows a build of the driver, or /var/lib/kubelet/pods/ one that has begun, and MOFED has neither marker nor headers" => [
                "Wait until MOFED has set its marker: every build before that makes a stub.",
                @STATE_FILE FAST_PATH,
                @BUILT_BY_TOOLKIT TOOLKIT_BUILD,
                @BUILT_BY_DRIVER_POD "Then delete the driver pod, and the new one builds again: `kubectl delete pod {driver}`.",
                GATE];
        StubModule: Critical, "nvidia-peermem.ko was built without MOFED: it is a stub that no kernel loads",
            after [PeermemWithoutMofed, HostMofedForOtherKernel] => of_reason;
        SymbolVersionMismatch: Critical, "nvidia-peermem.ko is for another ABI: symbol versions (CRC) differ",
            after [DriverVersionMismatch, MixedStack, HostMofedForOtherKernel] => of_reason;
        WrongKernel: Critical, "nvidia-peermem.ko is for another kernel" => of_reason;
        SymbolVersionMissing: Critical, "nvidia-peermem.ko lacks symbol versions" => of_reason;
        UnsignedModule: Critical, "nvidia-peermem.ko is not signed, and the kernel loads only signed modules",
            after [ModuleSignatureRejected] => of_reason;
        ModuleFileDamaged: Critical, "nvidia-peermem.ko is damaged" => of_reason;
        BadParameter: Critical, "a parameter of nvidia-peermem has a bad value" => of_reason;
        InstallLine: Critical, "modprobe.d runs a command instead of loading nvidia-peermem" => of_reason;
        GpuWithoutRdma: Warning, "the GPUs are GeForce cards: NVIDIA's driver does not support GPUDirect RDMA on them",
            by "/proc/driver/nvidia/gpus names GeForce cards only, and RDMA is asked for" => [
                "Use data center or professional cards for GPUDirect RDMA: nvidia-peermem loads here, but every registration of GPU memory fails (`Bad address`).",
                "Run without GPUDirect RDMA if you keep the cards: `NCCL_NET_GDR_LEVEL=LOC`, and `driver.rdma.enabled: false` in the ClusterPolicy."];
        LegacyClientLoaded: Critical, "nv_peer_mem is loaded in nvidia_peermem's place" => of_reason;
        TwoPeerClients: Warning, "a peer-memory client other than nvidia_peermem is registered",
            by "/sys/kernel/mm/memory_peers/*/version is not nvidia's, or /proc/modules has both clients", after [LegacyClientLoaded] => ["Unload nv_peer_mem if it is loaded: `rmmod nv_peer_mem`.",
                "Unload nvidia_peermem if it is loaded: `rmmod nvidia_peermem`. Then load it: `peermem-gate load`."];
        BuiltBeforeMofed: Critical, "the driver was built before MOFED was ready: its nvidia-peermem is a stub",
            by "/var/lib/kubelet/pods/ has driver_built, older than MOFED's marker", after [StubModule, SymbolVersionMismatch] => [
                @STATE_FILE FAST_PATH,
                @BUILT_BY_TOOLKIT TOOLKIT_BUILD,
                @BUILT_BY_DRIVER_POD NEW_DRIVER_POD,
                GATE];
        PeermemRefused: Critical, "the kernel refused nvidia-peermem: most likely it was built before MOFED was ready, and is a stub",
            by "the log of the driver's container: modprobe could not insert nvidia_peermem, and it was not loaded since", after [PeermemWithoutMofed, ModuleSignatureRejected, StubModule, SymbolVersionMismatch, WrongKernel, SymbolVersionMissing, UnsignedModule,
                BadParameter, LegacyClientLoaded, BuiltBeforeMofed, MarkerSuspect, StaleMarker, MixedStack, MofedNotRunning] => [
                @STATE_FILE FAST_PATH,
                @BUILT_BY_TOOLKIT TOOLKIT_BUILD,
                @BUILT_BY_DRIVER_POD "Delete the driver pod once MOFED has set its marker, and the new one builds again: `kubectl delete pod {driver}`.",
                GATE];
    }

    // NVIDIA's driver.
    Driver {
        NoGpu: Info, "this node has no NVIDIA GPU",
            by "/sys/bus/pci/devices has no display device of vendor 0x10de" => ["If the node should have a GPU, repair the hardware or the pass-through. Otherwise, do nothing."];
        HostDriverBesideContainer: Critical, "a driver is installed on the host, and the driver container installs another",
            by "/lib/modules/ has an nvidia.ko of the host's, and a driver container runs" => [
                "Set `driver.enabled: false` in the ClusterPolicy (or label the node `nvidia.com/gpu.deploy.driver=false`) to use the host's driver.",
                "Or remove the driver from the host (`apt purge 'nvidia-*'`, `dnf remove 'nvidia-*'`, `nvidia-uninstall`) and reboot."];
        DriverToolkitUnfit: Critical, "the driver toolkit image does not fit this kernel: the driver container needs packages instead" => [
                @OPENSHIFT "See whether the cluster has the driver toolkit of this release: `oc get -n openshift imagestream/driver-toolkit`; in a disconnected cluster mirror its image.",
                @OPENSHIFT "See that Node Feature Discovery shows this node's current release: `oc get node {node} --show-labels | tr , '\\n' | grep OSTREE_VERSION`. After an upgrade an old label picks an old image; restart the nfd-worker, and update NFD.",
                "Give the cluster an entitlement for the RHEL repositories if neither helps: the container then installs the headers itself.",
                DRIVER_LOG];
        DriverHeldByModule: Critical, "another module uses nvidia: the driver container cannot unload the old driver",
            by "/proc/modules: another module uses nvidia, and the log of the driver's container says that it cannot unload it" => [
                "Unload what uses nvidia, in this order: `rmmod {in-order}`; then the container's next start continues. Let nothing load it before the driver: `/etc/modules-load.d`, services, `/etc/modprobe.d`.",
                "If it is gdrdrv or nvidia_fs, use a newer driver image and GPU Operator: they unload these themselves.",
                "If something keeps them loaded, drain and reboot the node."];
        EvictionBlocked: Critical, "k8s-driver-manager cannot drain the node: a disruption budget keeps a pod with a GPU" => [
                "If its work allows it, end the pod that the evidence names yourself; k8s-driver-manager then continues.",
                "Make the PodDisruptionBudget allow one more, or give its Deployment one more replica on another node: `kubectl get pdb -A`."];
        DriverInUse: Critical, "processes use the GPUs: the driver container cannot unload the old driver",
            by "/proc/modules: nvidia is in use, and the log of the driver's container says that it cannot unload it", after [HostDriverBesideContainer, DriverHeldByModule, EvictionBlocked] => [
                "End the processes that have GPUs open{holders}, or drain the node: `kubectl drain {node} --ignore-daemonsets --delete-emptydir-data`.",
                "Stop services on the host that use GPUs (nvidia-persistenced, dcgm, a display manager).",
                "If something still uses the driver, reboot the node."];
        DriverForOtherKernel: Critical, "the driver was built for another kernel: this kernel has no nvidia.ko",
            by "/lib/modules/ has nvidia.ko for other kernels only", after [DkmsBuildFailed] => [
                @DRIVER_POD @PRECOMPILED_IMAGE "Use the driver image of this kernel: its tag names the kernel. If there is none yet, set `driver.usePrecompiled: false` with a full `driver.version`.",
                @DRIVER_POD @BUILT_DRIVER "Use the driver image of this node's operating system: its tag ends in that system's name, such as `-ubuntu24.04`.",
                @HOST_DRIVER "Install this kernel's headers and build the driver for it: `dkms autoinstall -k $(uname -r)`, then `modprobe nvidia`.",
                "Or boot the kernel that the driver was built for.",
                @DRIVER_POD "Delete this node's driver pod if the operator does not replace it: `kubectl delete pod {driver}`."];
        DriverCompilerUnfit: Critical, "the driver container's compiler is too old for this kernel: it does not know the kernel's options" => [
                "Use a newer driver image (`driver.version`): its gcc must not be older than the kernel's (`cat /proc/version`).",
                "Or use a precompiled driver for this kernel (`driver.usePrecompiled: true`).",
                "Or boot a kernel for which the image's gcc can build."];
        DriverModuleRefused: Critical, "the kernel refuses a module of NVIDIA's driver: a symbol is missing",
            after [DriverForOtherKernel] => [
                "Find the module that has the symbol and load it: `modprobe --resolve-alias symbol:SYMBOL`; it may be in `linux-modules-extra-$(uname -r)` (`kernel-modules-extra`).",
                "Use a driver release that supports this kernel if no module of the kernel has it.",
                @DRIVER_POD DRIVER_LOG];
        DriverBuildFailed: Critical, "the driver container cannot build or install the driver",
            by "the log of the driver's container: a build, or a package, fails, and nvidia is not live since", after [DiskFull, KilledForMemory, DriverToolkitUnfit, DriverCompilerUnfit, HeadersIncomplete, MofedBuilding] => [
                @DRIVER_POD_UNNAMED FIND_DRIVER,
                DRIVER_LOG,
                "If the log names a repository, make it reachable (DNS, proxy in `driver.env`, mirror, entitlement).",
                @NEWER_HELPS "Use a newer driver release, which supports this kernel, or a precompiled one."];
        TaskHangs: Warning, "a process of the driver hangs in the kernel: only a reboot ends it",
            after [GpuLost, GpuNeedsReset] => [
                "See where: `dmesg | grep -A 20 'blocked for more than'`.",
                "Drain and reboot the node. If it hangs again, have the GPU checked (`nvidia-bug-report.sh`)."];
        DriverStopped: Warning, "the driver container is stopped before it is ready: most likely its startup probe fails",
            after [KilledForMemory, GpuLost, GpuNotInitialised] => [
                "Look for `Startup probe failed`: `kubectl describe pod {driver-logs}`.",
                "Give it more time: raise `driver.startupProbe.timeoutSeconds` and `failureThreshold` in the ClusterPolicy. The first `nvidia-smi` takes minutes with many GPUs.",
                "Read `dmesg | grep -iE 'NVRM|Xid'` if `nvidia-smi` never ends: a GPU does not start then."];
        SecondDriverPod: Warning, "two driver pods are on this node: the second restarts again and again" => [
                "Find both: `kubectl get pod -A -o wide -l app.kubernetes.io/component=nvidia-driver --field-selector spec.nodeName={node}`.",
                "Delete the DaemonSet that is left over. A node belongs to the ClusterPolicy's driver or to one NVIDIADriver, never to both: `kubectl get nvidiadriver,daemonset -A`."];
        DriverBuilding: Info, "the GPU driver is being built, installed or loaded by its container",
            by "/proc/*/cmdline shows the driver container's script, which is not done", after [BuildWithoutMofed, StubModule, SymbolVersionMismatch, BuiltBeforeMofed, PeermemRefused, DriverHeldByModule, DriverInUse,
                DiskFull, KilledForMemory, DriverToolkitUnfit, DriverForOtherKernel, DriverCompilerUnfit, DriverModuleRefused,
                DriverBuildFailed, OtherDriverHasGpu, GpuBarUnassigned, ModuleSignatureRejected, SelinuxRefuses] => [
                "Wait: a build takes 5 to 20 minutes.",
                "Read the container's log if the build takes longer: `kubectl logs {driver-logs} -c nvidia-driver-ctr`."];
        NvidiaInTransit: Warning, "an NVIDIA module is still loading or unloading",
            by "/proc/modules: a module of NVIDIA's is Loading or Unloading", after [TaskHangs, DriverBuilding] => ["Wait a minute and look again.", "If the module is still in that state, read `dmesg` and reboot the node: a module that hangs cannot be unloaded."];
        DriverRootLeft: Critical, "an earlier driver container's root is still mounted at /run/nvidia/driver: no new driver can be installed",
            by "/proc/*/mountinfo: the driver's root is mounted at /run/nvidia/driver, and nvidia is not loaded" => [
                "Unmount it on the node, as root, while the driver container waits for its next start (`crictl ps --name nvidia-driver-ctr` lists none): `umount -R /run/nvidia/driver`, with `-l` if it is busy.",
                @STATE_FILE FAST_PATH,
                @DRIVER_POD NEW_DRIVER_POD,
                "Update the GPU Operator: a newer k8s-driver-manager unmounts it by itself. If it cannot be unmounted, drain and reboot the node."];
        ProviderMissing: Warning, "a container of the operators waits for a file that nothing on this node will write",
            by "/run/nvidia/validations/ or /run/mellanox/drivers lacks a file whose writer has neither pod nor process here" => [
                @LABELED "Let {provider} run on this node: its DaemonSet selects nodes by the label `{label}`. Compare `kubectl get node {node} --show-labels`; if it is missing: `kubectl label node {node} --overwrite {label}`.",
                @MOFED_AWAITED "Let MOFED's pod run on this node: `spec.ofedDriver` of a NicClusterPolicy, and the labels that its DaemonSet selects (`feature.node.kubernetes.io/pci-15b3.present=true`): `kubectl get ds -A -o wide | grep mofed`.",
                @MOFED_AWAITED "Set `driver.rdma.enabled: false` in the ClusterPolicy if this node needs no GPUDirect RDMA, or `driver.rdma.useHostMofed: true` if the host provides MOFED.",
                "If nothing is to write that file here, remove what waits for it: its DaemonSet selects this node by a label, too."];
        ContainerWaits: Warning, "a container of the operators has waited for a file for longer than its writer may take",
            by "/run/nvidia/validations/ or /run/mellanox/drivers lacks the file for which a container waits, for longer than its writer may take", after [ProviderMissing] => [
                "Read the log of who writes that file: the evidence names both.",
                "Delete the writer's pod if it logs nothing: a new pod starts."];
        DriverContainerFails: Warning, "the driver container ends with an error, again and again: the GPU driver is not loaded",
            by "the log of the driver's container ends with an error, and nothing else explains why nvidia is not loaded", after [DriverRootLeft] => like CONTAINER_RESTARTS;
        DriverNotLoaded: Warning, "the node has a GPU, but the module nvidia is not loaded",
            by "/proc/modules lacks nvidia, /sys/bus/pci/devices has a GPU, and something here wants the driver; or a file of /etc/modprobe.d keeps it out", after [DkmsBuildFailed, PodsEvicted, TaskHangs, DriverRootLeft, OtherDriverHasGpu, GpuBoundToVfio, VgpuManagerOnHost, GpuBarUnassigned, ModuleSignatureRejected, SelinuxRefuses,
                GpuNeedsOpenModules, GpuNeedsProprietaryModules, GpuNotSupported, GpuFirmwareMissing, GpuLost, GpuNotInitialised, DiskFull,
                ImageNotPulled, KilledForMemory, RunNotShared, StorageModulesLoaded, ThirdPartyRdmaModulesLoaded, PeermemInUse, MofedModuleInUse, MofedBuildFailed, MofedCannotBuild, ManagementOnMellanox,
                DriverManagerWaitsWrongly, HostMofedNotAnnounced, ContainerMofedIgnored, HostMofedForOtherKernel, HostMofedNotLive,
                MofedNotRunning, MofedNeverCame, MarkerSuspect, StaleMarker,
                BuildWithoutMofed, StubModule, SymbolVersionMismatch, WrongKernel, SymbolVersionMissing, UnsignedModule, ModuleFileDamaged,
                BadParameter, LegacyClientLoaded, BuiltBeforeMofed, PeermemRefused, DriverHeldByModule, DriverInUse, HostDriverBesideContainer,
                DriverToolkitUnfit, DriverForOtherKernel, DriverCompilerUnfit, DriverModuleRefused, DriverBuildFailed, DriverStopped,
                DriverBuilding, NvidiaInTransit, MarkerAbsent, MarkerParentMissing, MixedStack, ModuleInTree, ModuleNotLoaded,
                HeadersMissing, HeadersForOtherKernel, HeadersIncomplete, HeadersWithoutPeerMemory, DriverContainerFails] => [
                @DRIVER_POD_UNNAMED FIND_DRIVER,
                @DRIVER_POD DRIVER_LOG,
                @DRIVER_POD MANAGER_LOG,
                @KEPT_OUT "Remove the line that the evidence names if containers are to use the GPUs. Then run `update-initramfs -u` (or `dracut --force`) and load it: `modprobe nvidia`.",
                @HOST_DRIVER "Load nvidia, and read the reason if the kernel refuses it: `modprobe nvidia`, then `dmesg | tail`.",
                @WITH_GATE "Wait until the gate opens; its log names the condition for which it waits."];
        DriverNotInstalled: Warning, "no driver is bound to the GPUs, and nothing on this node would bring one: none is installed",
            by "/sys/bus/pci/devices: no driver is bound to the GPUs, and no nvidia.ko, container or setting would bring one", after [OtherDriverHasGpu, GpuBoundToVfio, VgpuManagerOnHost, ModuleSignatureRejected, DkmsBuildFailed, DriverForOtherKernel, DriverCompilerUnfit] => [
                "Install NVIDIA's driver on the host: `apt install nvidia-driver-BRANCH-server` or `dnf install nvidia-driver`; name no exact version, or one that the repositories still have. Then load it: `modprobe nvidia`.",
                @KUBERNETES "Or let the GPU Operator bring it: it needs to run in this cluster, and this node its labels (`feature.node.kubernetes.io/pci-10de.present=true`).",
                "If virtual machines are to use the GPUs, bind them to vfio-pci."];
        DriverRootMissing: Critical, "nvidia is loaded, but its driver's root file system is not mounted",
            by "/run/nvidia/driver shows no root of the driver, or / has no modules, and nvidia is live", after [DriverHeldByModule, DriverInUse, DriverBuilding] => [
                @STATE_FILE FAST_PATH,
                @DRIVER_POD "Delete this node's driver pod: the container that loaded nvidia is gone: `kubectl delete pod {driver}`.",
                "If the driver's root is elsewhere, name it: `--driver-root` (`/run/nvidia/driver` for a driver container's, `/` for the host's)."];
        UserspaceOnlyInstall: Critical, "the driver container installed no kernel modules (userspace only): nvidia-peermem.ko is missing",
            by "/run/nvidia/driver/lib/modules/ has no nvidia.ko, and nvidia is live", after [DriverBuilding] => [
                DRAIN,
                "Reboot the node: no driver module is loaded then, and the next container builds the driver. Or do the next two steps.",
                FAST_PATH,
                NEW_DRIVER_POD,
                NO_FORCE_REINSTALL];
    }

    Fabric {
        FabricManagerUnfit: Critical, "Fabric Manager is of another version than the driver and refuses to start: CUDA fails with error 802",
            after [DriverBuilding, DriverNotLoaded] => [
                @DRIVER_POD "Use another driver image (`driver.version`): this one contains a Fabric Manager of another version than its driver.",
                @HOST_DRIVER @SYSTEMD "Install the fabric manager of exactly the driver's version and pin both: `apt install nvidia-fabricmanager-BRANCH=VERSION-1`, `apt-mark hold`; then `systemctl restart nvidia-fabricmanager`."];
        FabricManagerNotStarted: Critical, "the driver container could not start Fabric Manager: CUDA error 802 on all GPUs",
            by "/sys/bus/pci/devices/*/vpd: an NVLink 5 machine; the log of the driver's container says that it starts Fabric Manager, and /proc has none", after [NvlsmMissing, UmadNotLoaded] => [
                @DRIVER_POD "Read the log right after `Starting NVIDIA fabric manager daemon for NVLink5+`: `kubectl logs {driver-logs} -c nvidia-driver-ctr`.",
                @DRIVER_POD "Use another driver image (`driver.version`) if its start script refuses an option or misses a file: the script and Fabric Manager come with the image."];
        FabricOfTheHost: Critical, "the NVLink fabric is not initialized, and no NVSwitch is this machine's own: CUDA fails (802)",
            by "the log of nvidia-persistenced, or nvidia-smi, says that the fabric is not initialized, in a guest without an NVSwitch or a machine of a rack", after [DriverNotLoaded] => [
                @RACK "Look at Fabric Manager on the rack's NVLink switches: `nv show cluster apps`.",
                @VIRTUAL_MACHINE "Let the hypervisor's Fabric Manager set the fabric up, with `FABRIC_MODE=1` (shared NVSwitch). Then activate there the partition of exactly this guest's GPUs: `fmpm -l`, `fmpm -a PARTITION`.",
                @VIRTUAL_MACHINE "Or pass all eight GPUs and the NVSwitches to one guest, and run Fabric Manager there.",
                @VIRTUAL_MACHINE "If its programs need no peer, give the guest a partition of one GPU."];
        GpuFabricManagerMissing: Critical, "the node has NVSwitches but no fabric manager runs: CUDA fails with error 802",
            by "/sys/bus/pci/devices has an NVSwitch or an NVLink 5 management device, and /proc no nv-fabricmanager", after [FabricManagerUnfit, NvlsmMissing, UmadNotLoaded, FabricManagerTooEarly, FabricManagerNotStarted, FabricNotReady, DriverBuilding, DriverNotLoaded] => [
                @DRIVER_POD DRIVER_LOG,
                @MANAGER_SAYS_WHY @HOST_DRIVER @SYSTEMD "Correct its configuration as its words say, then start it again: `systemctl restart nvidia-fabricmanager`.",
                @HOST_DRIVER @SYSTEMD "Start Fabric Manager in the driver's own version: `systemctl enable --now nvidia-fabricmanager`.",
                @HOST_DRIVER @SYSTEMD "If Fabric Manager is not installed, install it and, for NVLink 5 (HGX B200, B300), the package `nvlsm`.",
                @MANAGER_SAYS_WHY @TALOS "Correct what its words name in the extension's `ExtensionServiceConfig`, or use a newer Talos and extension.",
                @TALOS "Read why Fabric Manager's extension ends: `talosctl -n {node} logs ext-nvidia-fabricmanager`. Use an extension of the driver's version; if it lacks a library, another release of Talos.",
                @DRIVER_POD "Use another driver image (`driver.version`) if Fabric Manager refuses to start."];
    }

    Gpu {
        GpuCameLate: Warning, "a GPU was found on the bus after programs that look for GPUs only at their start",
            by "the kernel's log has `pci ADDRESS: [10de:…] type 00 class 0x03…`, and /proc an older Fabric Manager, device plugin or nvidia-persistenced" => [
                @MANAGER_IS_OLDER @HOST_DRIVER @SYSTEMD "Start Fabric Manager again: `systemctl restart nvidia-fabricmanager`.",
                @MANAGER_IS_OLDER @DRIVER_POD "Delete this node's driver pod, with which Fabric Manager starts: `kubectl delete pod {driver}`.",
                @KUBERNETES "Delete the device plugin's pod: `kubectl delete pod {plugin}`."];
    }

    Driver {
        GdsNeedsOpenModules: Critical, "nvidia_fs (GPUDirect Storage) cannot use NVIDIA's proprietary kernel modules: it needs the open ones" => [
                @DRIVER_POD "Set `driver.kernelModuleType: open` in the ClusterPolicy; the driver pods then start again.",
                @HOST_DRIVER "Install the open kernel modules on the host (`nvidia-open`), and reboot.",
                "If nothing uses GPUDirect Storage, set `gds.enabled: false`."];
    }

    Fabric {
        ImexSessionTaken: Warning, "an IMEX daemon gets no session: another one has it" => [
                @SYSTEMD "Stop the host's service if `systemctl is-active nvidia-imex` says active: `systemctl disable --now nvidia-imex`. The ComputeDomain brings its own daemon.",
                "Delete the ComputeDomain daemon's pod afterwards, so it tries again."];
        FabricManagerLate: Warning, "Fabric Manager is younger than its clients: what began before it fails (802) until it starts again",
            by "/proc: a device plugin is older than nv-fabricmanager" => [
                @DRIVER_POD "Delete the pods that began before it, the device plugin's first: they look at the fabric once. Their containers start again, others go on.",
                @HOST_DRIVER "Start the programs again that began before it. Jobs on these GPUs end with them."];
        CudaNotInitialised: Critical, "CUDA does not start (error 802, system not yet initialized)",
            after [FabricManagerLate, FabricOfTheHost, FabricManagerUnfit, GpuFabricManagerMissing, NvlsmMissing, FabricManagerNotStarted, FabricManagerTooEarly, UmadNotLoaded, FabricNotReady, GpuLost] => [
                @NO_SWITCHES "If confidential computing is on (`nvidia-smi conf-compute -f`), set the GPUs ready: `nvidia-smi conf-compute -srs 1`.",
                @SWITCHES_HERE "Load the modules by which Fabric Manager reaches NVLink 5 switches: `modprobe -a mlx5_ib ib_umad`, with `linux-modules-extra-$(uname -r)` installed if they are not there. Keep them in `/etc/modules-load.d`.",
                @SWITCHES_HERE @DRIVER_POD "Delete this node's driver pod afterwards: `kubectl delete pod {driver}`.",
                @SWITCHES_HERE @HOST_DRIVER @SYSTEMD "Start Fabric Manager in the driver's own version: `systemctl restart nvidia-fabricmanager`."];
    }

    Runtime {
        CdiSpecStale: Warning, "NVIDIA's CDI specification does not fit the loaded driver: containers with GPUs lack libraries or devices",
            by "/etc/cdi or /run/cdi: a specification's numbers, paths or version are not those of /dev, /proc/devices and the loaded driver", after [DriverVersionMismatch] => [
                @SPEC_OF_POD "Delete the pod that wrote it; the new one writes it for the loaded driver: `kubectl delete pod {writer}`.",
                @SPEC_OF_HOST @SPEC_REPLACED "Remove the old file: `rm {host-spec}` on the node.",
                @SPEC_OF_HOST "Write the specification again on the node if the host's own toolkit is in use: `nvidia-ctk cdi generate --output={host-spec}`, or start `nvidia-cdi-refresh.service`."];
    }

    Driver {
        DeviceNodesMissing: Warning, "device files of the loaded driver are missing below /dev, or have old numbers",
            by "/dev lacks a file of NVIDIA's driver, or it has another major number than /proc/devices; or /proc/modules lacks nvidia_uvm", after [DriverBuilding] => [
                "Make the device files: `nvidia-modprobe -c 0 -u` on the node; in a driver container run `nvidia-smi`.",
                "If they vanish again, check udev and what is mounted over `/dev`."];
        VgpuUnlicensed: Warning, "the vGPU has no license: NVIDIA's driver slows it down and then refuses CUDA" => [
                "Put a valid client configuration token into `/etc/nvidia/ClientConfigToken/` (GPU Operator: `driver.licensingConfig`), and restart nvidia-gridd.",
                "Check that the node reaches the license server: DNS, firewall, proxy, and its clock.",
                "Read the state: `nvidia-smi -q | grep -A 2 License`."];
        CudaFails: Warning, "a CUDA test program fails on this node",
            after [GpuLost, GpuNeedsReset, GpuNotInitialised, DriverVersionMismatch, CdiSpecStale, DeviceNodesMissing, CudaNotInitialised] => [
                "Look up the error that the evidence names. `driver version is insufficient` asks for a newer driver, or an older CUDA image.",
                "Read the test's whole log: `kubectl logs {validator-logs} -c cuda-validation`; and see what `nvidia-smi` says in the driver's container."];
        MigManagerFailed: Warning, "mig-manager failed: the GPUs' clients may still be paused" => [
                @DRM_LOADED "Unload nvidia_drm, which uses every GPU (`rmmod nvidia_drm`), and keep it from loading (`/etc/modprobe.d`: `blacklist nvidia_drm`); or reboot.",
                "Delete mig-manager's pod; the new one applies the configuration again: `kubectl delete pod -A -l app=nvidia-mig-manager --field-selector spec.nodeName={node}`.",
                "If labels `nvidia.com/gpu.deploy.*` are still `paused-for-mig-change`, set each to `true`: `kubectl label node {node} --overwrite nvidia.com/gpu.deploy.device-plugin=true`.",
                "End the pods that use the GPUs before you change `nvidia.com/mig.config`."];
        MigMisconfigured: Warning, "the device plugin refuses the GPUs: MIG is on, and its instances do not fit the plugin's strategy" => [
                "Give every GPU in MIG mode its instances: label the node `nvidia.com/mig.config=all-1g.10gb` (or another layout of `default-mig-parted-config`), and the MIG manager makes them.",
                "Set `mig.strategy: mixed` in the ClusterPolicy if the GPUs of the node have different layouts: `single` needs one layout for all.",
                "Turn MIG off if the node needs none: label the node `nvidia.com/mig.config=all-disabled`."];
        DevCharLinksMissing: Warning, "links below /dev/char to NVIDIA's devices are missing: pods lose their GPUs at the next systemd reload",
            by "/dev/char has no link with the number of NVIDIA's devices, 195", after [DeviceNodesMissing, DriverBuilding] => [
                "Make the links: `nvidia-ctk system create-dev-char-symlinks --create-all` on the node, and at every boot.",
                "If `DISABLE_DEV_CHAR_SYMLINK_CREATION` is set, unset it and restart the driver's validator, which makes them too."];
    }

    // nvidia-peermem.
    Peermem {
        ModuleFileMissing: Critical, "modprobe finds no nvidia-peermem.ko",
            after [DkmsBuildFailed, PeermemWithoutMofed, DriverRootMissing, UserspaceOnlyInstall, DriverForOtherKernel, GpuBoundToVfio, VgpuManagerOnHost, DriverBuilding, NvidiaInTransit,
                DriverNotLoaded, NoGpu] => of_reason;
        OtherDriverLoaded: Critical, "nvidia-peermem.ko and the loaded nvidia have different versions",
            after [DriverVersionMismatch] => of_reason;
        BuildSkipped: Critical, "a new driver pod will build nothing: its configuration equals the loaded driver's",
            after [StubModule, SymbolVersionMismatch, WrongKernel, SymbolVersionMissing, ModuleFileDamaged, DriverRootMissing, ModuleFileMissing,
                OtherDriverLoaded] => of_reason;
        DependencyNotLive: Warning, "a module that nvidia-peermem needs is not live",
            after [DriverBuilding, HostMofedNotLive, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, ModuleInTree, ModuleNotLoaded,
                SymbolMissing, NvidiaInTransit, DriverNotLoaded] => of_reason;
        SymbolVersionUnknown: Unknown, "symbol versions cannot be compared",
            after [DriverBuilding, HostMofedNotLive, MarkerSuspect, StaleMarker, MarkerAbsent, MarkerParentMissing, ModuleInTree, ModuleNotLoaded,
                HeadersMissing, DriverVersionMismatch] => of_reason;
        PeermemNotLoaded: Warning, "nvidia_peermem is not loaded, and nothing will load it",
            by "/proc/modules lacks nvidia_peermem, its file is usable, RDMA is on, and nothing that would load it runs", after [GpuNotInitialised, DriverHeldByModule, DriverInUse, DriverBuilding, DriverNotLoaded, NvidiaInTransit] => [
                @HOST_DRIVER "Load nvidia_peermem: `modprobe nvidia-peermem` on the node.",
                @DRIVER_POD "Load nvidia_peermem: `chroot /run/nvidia/driver modprobe nvidia-peermem` on the node.",
                "Install the keeper, which loads nvidia_peermem after each boot and reload of MOFED: peermem-gate's Helm chart, or its packages (docs/host.md).",
                @DRIVER_POD "Restart nvidia-peermem-ctr only, which loads it once at its start: `crictl stop $(crictl ps -q --name nvidia-peermem-ctr)` on the node."];
    }

    Chain {
        ContainerNeverStarted: Warning, "a container of the operators was created and never started: kubelet does not try again",
            by "kubelet's log: a start that failed once, and /var/log/pods has no log of that container", after [PodsEvicted, DriverNotLoaded] => [
                "Delete its pod; the DaemonSet makes another one: `kubectl delete pod {pod}`.",
                "If the container runtime was restarted at that moment (`toolkit.env`), expect it again with the next update."];
        ContainerRestarts: Warning, "a container of the operators ends again and again, or repeats an error",
            by "the log of a container of the operators that was started again three times and more: its last error; of one that runs: an error that came as often, and with which the log ends" => like CONTAINER_RESTARTS;

        ContainerNotStarted: Warning, "kubelet cannot start a container of the operators",
            after [PodsEvicted, ImageNotPulled, RunNotShared, DriverBuilding, NvidiaInTransit, DriverContainerFails, DriverNotLoaded] => [
                "Correct what the end of kubelet's message names: a runtime, a file, an image, a Secret or a permission.",
                "Use the previous version if this began with an update of the node's image, of the operator or of the toolkit.",
                "Look at the pod's events: `kubectl get events -A --field-selector type=Warning --sort-by=.lastTimestamp`, and `kubectl describe pod` for the evidence's pod."];
        ContainerNotStopped: Warning, "kubelet cannot stop a container of the operators: its pod stays, and no new one comes" => [
                @SIGNAL_DENIED "Update containerd (or CRI-O), runc and their profiles. Until then drain and reboot the node.",
                "If a process of the container hangs in the kernel (`ps -eo pid,stat,comm | awk '$2 ~ /^D/'`), drain and reboot the node.",
                "Restart the container runtime if neither is so; running containers continue."];
        HostDriverNotFound: Warning, "the operator's validation does not find the host's driver, which is loaded" => [
                @TALOS NOT_ON_TALOS,
                @SYSTEMD "Name the directory of the host's driver: `hostPaths.driverInstallDir` in the ClusterPolicy. The validation looks there, then in the usual directories of the host's root.",
                @SYSTEMD "Run `nvidia-smi` on the node: the validation runs it in the host's root, and a driver without `nvidia-smi` does not count."];

    // The GPU Operator's readiness chain.
        DriverCtrReadyStale: Warning, "`.driver-ctr-ready` was left behind by a driver container that ended",
            by "/run/nvidia/validations/.driver-ctr-ready is older than the boot or the driver's container", after [DriverHeldByModule, DriverInUse, DriverBuilding, DriverNotLoaded, StubModule, SymbolVersionMismatch, WrongKernel, SymbolVersionMissing,
                UnsignedModule, BadParameter, ModuleFileDamaged] => [
                @DRIVER_POD_UNNAMED FIND_DRIVER,
                "Read why the driver container ended: `kubectl logs {driver-logs} -c nvidia-driver-ctr --previous`. Its next complete start replaces the file.",
                "If no driver container is starting, remove the file, on which nvidia-peermem-ctr and driver-validation rely: `rm /run/nvidia/validations/.driver-ctr-ready` on the node."];
        DriverCtrNotReady: Warning, "the driver container has not become ready in the time that a build takes",
            by "/run/nvidia/validations/.driver-ctr-ready is missing for longer than a build takes", after [TaskHangs, DriverHeldByModule, DriverInUse, GpuBoundToVfio, DriverBuilding, DriverNotLoaded, HeadersForOtherKernel,
                HeadersIncomplete, HeadersMissing, ModuleFileMissing, StubModule, SymbolVersionMismatch, WrongKernel, SymbolVersionMissing, UnsignedModule, LegacyClientLoaded, BadParameter,
                ModuleFileDamaged] => [@DRIVER_POD_UNNAMED FIND_DRIVER, DRIVER_LOG, MANAGER_LOG];
        DriverNotValidated: Warning, "driver-ready is missing: the driver's validation never finished",
            by "/run/nvidia/validations/driver-ready is missing for longer than the validation takes", after [TaskHangs, RunNotShared, RdmaRequestedWithoutNic, GpuInforomCorrupted, DriverCtrReadyStale, DriverCtrNotReady,
                HostDriverNotFound, ContainerRestarts] => [
                "Read the log of the validation: `kubectl logs {validation-logs} -c driver-validation`.",
                @TALOS NOT_ON_TALOS,
                @HOST_DRIVER @SYSTEMD "See where the validation looks for the host's driver: at `hostPaths.driverInstallDir` of the ClusterPolicy, then in the usual directories of the host's root.",
                @PEERMEM_AWAITED "See why nvidia_peermem is not loaded: from GPU Operator 26.3 on the validation waits for it too where GPUDirect RDMA is on."];

        ChainUnderWay: Info, "the operator's readiness chain is still in progress",
            by "/run/nvidia/validations/ lacks a file that may still come", after [RdmaRequestedWithoutNic] => ["Wait: the file is not overdue yet. If it becomes overdue, run `peermem-doctor doctor` again."];
    }

    // The container runtime.
    Runtime {
        ContainerdWithoutCri: Critical, "containerd refuses the configuration of its CRI plugin and runs without it: kubelet cannot work" => [
                "Correct the setting that the evidence names in `/etc/containerd/config.toml`, and restart containerd. For `systemd_cgroup`: remove it, and set `SystemdCgroup = true` in the `options` of each runtime.",
                "Compare with the defaults: `containerd config default`."];
        RuntimeCgroupsDiffer: Critical, "the container runtime does not use systemd's cgroups, and kubelet does: systemd ends the pods",
            by "/proc/*/cgroup has kubelet's words for systemd as a path" => [
                "Set `SystemdCgroup = true` in the `options` of every runtime of containerd's configuration, the nvidia one included, and restart containerd and kubelet.",
                "If `nvidia-ctk` made that file from nothing, write it again: back it up, write `containerd config default`, set `SystemdCgroup = true` for runc, then run `nvidia-ctk runtime configure`."];
        ToolkitRootMissing: Critical, "the container toolkit looks for the driver in a directory that does not exist: no container with a GPU starts",
            after [DriverRootMissing] => [
                "Remove the line `root = …` from `/etc/nvidia-container-runtime/config.toml` (or set `root = \"/\"`) where the driver is the host's own.",
                "If the toolkit's container configures the runtime, correct its own file: `/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml`."];
        DeviceRulesRefused: Critical, "the container toolkit cannot give GPUs to containers: the kernel refuses its device rules (BPF)" => [
                @CRI_O "Update crun with the operating system (OpenShift 4.18.24 and newer have a repaired one), or let CRI-O use runc: `default_runtime = \"runc\"` in `/etc/crio/crio.conf.d`.",
                "Use CDI, which leaves the rules to the runtime: `cdi.enabled: true` in the ClusterPolicy, and `cdi.default: true` before operator 25.10. It works with a hardened BPF compiler, too.",
                "Update nvidia-container-toolkit (libnvidia-container)."];
        ToolkitLibcTooOld: Critical, "the host's C library (glibc) is too old for the container toolkit's programs: no container with a GPU starts" => [
                "Use the toolkit's image for an older system: `toolkit.version`, such as `v1.17.8-ubi8`.",
                "Install the toolkit of the host's own distribution if there is no such image, and set `toolkit.enabled: false`.",
                "Move the node to a newer operating system if neither helps."];
        CudaNotSatisfied: Warning, "images require a newer CUDA than the GPU driver supports: their containers do not start" => [
                @CUDA_SUPPORTED "Start the container again. If it is refused again, the toolkit sees another driver: `nvidia-container-cli info`.",
                @CUDA_LACKING @DRIVER_POD "Update to {cuda-driver}: `driver.version` in the ClusterPolicy.",
                @CUDA_LACKING @HOST_DRIVER "Install {cuda-driver} on the host, and reboot.",
                @CUDA_LACKING "Or use images of an older CUDA; if it is the operator's validator, an older operator.",
                @CUDA_LACKING "To skip the check, set `NVIDIA_DISABLE_REQUIRE=true` in the container: what needs the newer CUDA fails there."];
    }

    Network {
        CniPluginMissing: Warning, "pods get no network: a CNI plugin is not in its directory on the node" => [
                "Install the plugin that the evidence names: `secondaryNetwork` in the NicClusterPolicy brings the RDMA networks' plugins; `ib-sriov` comes with ib-sriov-cni of the SR-IOV operator.",
                "Check its DaemonSet's pod on this node, which copies it to `/opt/cni/bin`.",
                "If the cluster's own plugins are in another directory, see whether the container toolkit has replaced `bin_dir` in containerd's configuration: set `RUNTIME_CONFIG_SOURCE=file` in `toolkit.env`, and restore it."];
        MultusUnauthorized: Warning, "pods get no second network: the API server rejects the token of multus" => [
                "Restart multus on the node, which writes a new token: `kubectl delete pod -A -l app=multus --field-selector spec.nodeName={node}`.",
                "Use a multus that refreshes its token: the thick plugin, or a newer release."];
        MacvlanOnInfiniband: Warning, "pods get no network: a macvlan cannot be made on an InfiniBand interface" => [
                "Use an IPoIBNetwork in place of the MacvlanNetwork: macvlan needs Ethernet.",
                "Give pods a device of their own if they need one: HostDeviceNetwork or SR-IOV (ib-sriov)."];
        NetworkPluginFails: Warning, "pods get no network: a CNI plugin fails",
            after [CniPluginMissing, MultusUnauthorized, MacvlanOnInfiniband] => [
                "Correct what the plugin's message names: an interface, a virtual function, an address range or a permission.",
                "Compare with the network's definition: `kubectl get network-attachment-definitions -A -o yaml`.",
                "Check the plugin's own pod on this node: `kubectl get pod -A --field-selector spec.nodeName={node}`."];
    }

    Runtime {
        RuntimeConfigBroken: Critical, "the container runtime's configuration is broken: its next start fails",
            by "/etc/containerd, /etc/crio, /var/lib/rancher, /etc/k0s or /var/snap: a file is no TOML, or an import does not exist" => [
                "Correct the file at the line that the evidence names, or remove a drop-in that you do not need.",
                "Check it before you restart the runtime: `containerd --config FILE config dump >/dev/null`."];
        KubeletFails: Critical, "kubelet does not start: it ends with an error again and again",
            after [ContainerdWithoutCri, RuntimeConfigBroken] => [
                "Read why kubelet ends, and correct that: `journalctl -u kubelet -n 20`.",
                @SYSTEMD "If the log names the container runtime's socket, check the runtime first: `systemctl status containerd`, `crictl info`."];
        KubeletCutOff: Warning, "kubelet does not get through to the API server: the node becomes NotReady, and no pod changes",
            after [ManagementOnMellanox, KubeletFails] => [
                "Replace kubelet's own certificate if the words name it, as the distribution documents it: kubelet does so itself only before it has expired.",
                "Compare with a node that is Ready: `kubectl get node -o wide`, `kubectl describe node {node}`.",
                "Restart kubelet once the cause is gone."];
        HostServiceFails: Warning, "a service of the host that GPUs or containers need ends with an error",
            by "systemd's log: the service's main process has ended with an error, and /proc has none of it", after [ContainerdWithoutCri, RuntimeConfigBroken] => [
                @WANTED_CAME @SYSTEMD "Start it again: `systemctl restart {unit}`. For the next boot, order it after the driver (`systemctl edit {unit}`): `After=` and `Wants=nvidia-persistenced.service`.",
                @STILL_WANTED @SYSTEMD "Correct what its last words name: `journalctl -u {unit} -n 30`; then start it again: `systemctl restart {unit}`."];
        HostServiceRepeats: Warning, "a service that GPUs or containers need repeats an error",
            by "its lines in the log: the same error three times in more than ten seconds, within the last hour, and nothing new since", after [HostServiceFails, FabricOfTheHost] => [
                @SYSTEMD "Correct what its last error names: `journalctl -u {unit} -n 30`."];
        HostServiceMissing: Warning, "a service of the host that starts at every boot does not run now",
            by "/etc/systemd/system enables the unit, and /proc has no process of it, ten minutes after the boot", after [HostServiceFails, KubeletFails] => [
                @SYSTEMD "See why it does not run, then start it: `systemctl status {unit}`, `journalctl -u {unit} -b`, `systemctl start {unit}`.",
                "Do nothing if it is stopped for maintenance."];
        ToolkitFails: Warning, "NVIDIA's container toolkit fails to prepare a container: a container with a GPU does not start",
            after [HostServiceFails, GpuLost, GpuNeedsReset, GpuNotInitialised, DriverVersionMismatch, DriverBuilding, NvidiaInTransit, DriverNotLoaded,
                DriverRootMissing, DeviceNodesMissing, ToolkitRootMissing, DeviceRulesRefused, ToolkitLibcTooOld, CudaNotSatisfied] => [
                @HOOK_ALONE "Start containers with NVIDIA's runtime, which calls the hook itself: as the runtime's default or the pod's RuntimeClass. Remove the hook's file from `hooks.d`, or set `mode = \"auto\"` in the toolkit's `config.toml`.",
                "Correct what the toolkit's message names: a driver that does not answer, a library or a program that is missing, or a permission.",
                "Run `nvidia-container-cli -k -d /dev/tty info` on the node, which shows the same error; the operator's is in `/usr/local/nvidia/toolkit`.",
                @NOT_CDI "Use CDI, which needs no hook: `cdi.enabled: true` in the ClusterPolicy, and `cdi.default: true` before operator 25.10."];
        DockerLacksToolkit: Warning, "Docker found no NVIDIA container toolkit when it started: no container gets a GPU" => [
                "Install nvidia-container-toolkit, and set it up: `nvidia-ctk runtime configure --runtime=docker`.",
                @SYSTEMD "Then restart Docker, which ends its containers unless live-restore is set: `systemctl restart docker`."];
        DropInVersionTooHigh: Critical, "a drop-in has a higher version than the main configuration",
            by "/etc/containerd or /var/lib/rancher: a drop-in's version is above the main file's" => [
                @SYSTEMD "Remove the drop-in that the evidence names, and start containerd again if it does not run: `systemctl restart containerd`.",
                "Let the toolkit read the file instead of `containerd config dump`, or it writes the drop-in again: set `RUNTIME_CONFIG_SOURCE=file` in `toolkit.env`.",
                "Or bring the main file to the same version: `containerd config migrate`. Otherwise containerd refuses the drop-in, or ignores the main file."];
        DropInNotImported: Critical, "NVIDIA's drop-in is not covered by `imports`: containerd does not read it",
            by "/etc/containerd or /var/lib/rancher: no import of the main file covers the drop-in with NVIDIA's runtime" => [
                @CRI_O HELM_CRI_O,
                @CONTAINERD @TOOLKIT_LACKS HELM_CONTAINERD, @CONTAINERD @TOOLKIT_HAS TOOLKIT_ANEW,
                "Add its directory to `imports` at the top of the main configuration, such as `imports = [\"/etc/containerd/conf.d/*.toml\"]`, and restart the runtime.",
                "Update nvidia-container-toolkit to 1.18.1 or newer if the drop-in is in `config.d`: 1.18.0 put it there."];
        DropInElsewhere: Critical, "NVIDIA's drop-in is in a directory that CRI-O does not read",
            by "/etc/crio/conf.d has NVIDIA's runtime, and CRI-O reads /etc/crio/crio.conf.d" => [
                @SYSTEMD "Move it to the directory that CRI-O reads, and restart CRI-O: `mv /etc/crio/conf.d/{drop-in} /etc/crio/crio.conf.d/ && systemctl restart crio`.",
                "Name that directory when you configure it again: `nvidia-ctk runtime configure --runtime=crio --drop-in-config=/etc/crio/crio.conf.d/99-nvidia.toml`.",
                "Update nvidia-container-toolkit to a release that puts the file where CRI-O looks: 1.19.0 did not."];
        CriTableIgnored: Critical, "NVIDIA's runtime is in a table that this configuration version ignores",
            by "/etc/containerd or /var/lib/rancher: NVIDIA's runtime is in a table that the file's version does not have" => [
                @CRI_O HELM_CRI_O,
                @CONTAINERD @TOOLKIT_LACKS HELM_CONTAINERD, @CONTAINERD @TOOLKIT_HAS TOOLKIT_ANEW,
                "Move it into the table of the file's `version`: 1 `plugins.cri`, 2 `plugins.\"io.containerd.grpc.v1.cri\"`, 3 and 4 `plugins.\"io.containerd.cri.v1.runtime\"`; or run `containerd config migrate`."];
        RuntimeTemplateIncomplete: Critical, "a template replaces the runtime's whole configuration: k3s' or RKE2's own settings are missing",
            by "/var/lib/rancher/ has a template of the runtime's configuration without the base" => [
                "Remove the template, or begin it with `{{ template \"base\" . }}`; then restart k3s or RKE2. They write the configuration from the template only, so CNI, runc and the sandbox image are missing.",
                "Let the toolkit write a drop-in instead: set `CONTAINERD_CONFIG` in `toolkit.env` to a file in the directory `config.toml.d`, not to the template. Current k3s and RKE2 find the toolkit's runtime by themselves."];
        RuntimeTypeMissing: Critical, "NVIDIA's runtime has no `runtime_type`: containerd starts no container with it",
            by "/etc/containerd or /var/lib/rancher: the entry of NVIDIA's runtime has no runtime_type" => [
                "Add `runtime_type = \"io.containerd.runc.v2\"` to the runtime's table in the file that the evidence names, and restart containerd.",
                "Update the container toolkit (`toolkit.version`): a newer one does not copy a table without it."];
        ToolkitTooOld: Critical, "the container toolkit cannot read the configuration of this containerd: it is too old" => [
                "Remove `toolkit.version` from the GPU Operator's values, so it uses its own, or set a newer toolkit: containerd 2 needs 1.17.4 or newer (configuration version 3).",
                "Update the GPU Operator if its own toolkit is older."];
        NvidiaRuntimeElsewhere: Critical, "NVIDIA's runtime is configured in a runtime that kubelet does not use",
            by "/etc/containerd, /etc/crio or /var/lib/rancher: NVIDIA's runtime is in another runtime's files than those of the one that kubelet uses" => [@CRI_O HELM_CRI_O, @CONTAINERD @TOOLKIT_LACKS HELM_CONTAINERD, @CONTAINERD @TOOLKIT_HAS TOOLKIT_ANEW, "Restart the toolkit's pod after that: `kubectl delete pod {toolkit}`."];
        NvidiaRuntimeMissing: Critical, "the toolkit runs, but kubelet's container runtime has no nvidia runtime",
            by "/etc/containerd, /etc/crio, /var/lib/rancher, /etc/k0s or /var/snap: the files of kubelet's runtime have no entry of NVIDIA's, and nothing does without", after [RuntimeConfigBroken, DropInNotImported, DropInElsewhere, CriTableIgnored, NvidiaRuntimeElsewhere] => [@CRI_O HELM_CRI_O, @CONTAINERD @TOOLKIT_LACKS HELM_CONTAINERD, @CONTAINERD @TOOLKIT_HAS TOOLKIT_ANEW, "Read the toolkit's log; it says which file it wrote: `kubectl logs {toolkit-logs} -c nvidia-container-toolkit-ctr`."];
        NvidiaRuntimeUnclear: Unknown, "no nvidia runtime is configured, which is right only in NRI mode",
            by "/etc/containerd, /etc/crio, /var/lib/rancher, /etc/k0s or /var/snap: the files of kubelet's runtime have no entry of NVIDIA's, and it may need none", after [RuntimeConfigBroken, DropInNotImported, DropInElsewhere, CriTableIgnored, NvidiaRuntimeElsewhere] => [
                @CRI_O HELM_CRI_O,
                @CONTAINERD @TOOLKIT_LACKS HELM_CONTAINERD, @CONTAINERD @TOOLKIT_HAS TOOLKIT_ANEW,
                "Check whether the cluster uses NRI (`cdi.nriPluginEnabled`): then nothing is wrong. `kubectl get clusterpolicy -o jsonpath='{.items[*].spec.cdi}'`.",
                AS_HOST_ROOT];
        NvidiaProgramMissing: Critical, "NVIDIA's runtime is configured, but its program is not on the host",
            by "/etc/containerd, /etc/crio or /var/lib/rancher names a program of NVIDIA's that is missing or cannot be executed", after [OtherDriverHasGpu, GpuBoundToVfio, DriverBuilding, NvidiaInTransit, DriverNotLoaded] => [
                "Restart the toolkit's pod, which installs it: `kubectl delete pod {toolkit}`.",
                "If its path is not the toolkit's (`/usr/local/nvidia/toolkit` unless `toolkit.installDir` is set), correct or remove the entry: it belongs to another installation."];
        RuntimeHandlerMissing: Critical, "the container runtime has no handler for NVIDIA's RuntimeClass: pods that name it do not start",
            after [RuntimeConfigBroken, DropInNotImported, DropInElsewhere, CriTableIgnored, NvidiaRuntimeElsewhere, NvidiaRuntimeMissing,
                NvidiaRuntimeUnclear] => [
                "Let the operator's toolkit configure the runtime if the host has none: `toolkit.enabled: true` in the ClusterPolicy.",
                @SYSTEMD "If the host has a toolkit of its own, configure the runtime that kubelet uses with it: `nvidia-ctk runtime configure --runtime=NAME` (containerd or crio), and restart that runtime.",
                "Compare the names: `kubectl get runtimeclass` shows the handlers, `crictl info` those that the runtime has."];
        DefaultRuntimeUndefined: Critical, "the default runtime is not configured: no container will start",
            by "/etc/containerd, /etc/crio, /var/lib/rancher, /etc/k0s or /var/snap: the default runtime is none of those that are defined", after [RuntimeConfigBroken, DropInNotImported, DropInElsewhere, CriTableIgnored] => ["Correct `default_runtime_name` (CRI-O: `default_runtime`), or configure the runtime that it names. Then restart the container runtime."];
        NodeServiceMissing: Critical, "kubelet or the container runtime does not run: no pod is started or restarted on this node",
            by "/proc has no kubelet or no container runtime, and kubelet's socket is there", after [ContainerdWithoutCri, RuntimeConfigBroken, KubeletFails, HostServiceFails, DropInVersionTooHigh, RuntimeTemplateIncomplete,
                RuntimeTypeMissing, DefaultRuntimeUndefined] => [
                @SYSTEMD "See why, and start it: `systemctl status kubelet containerd crio`, `journalctl -u kubelet -n 30`, then `systemctl start` the one that does not run.",
                @TALOS "See why: `talosctl -n {node} service kubelet`, `talosctl -n {node} service cri`, and their logs.",
                "Do nothing if it is stopped for maintenance."];
        RuntimeNameMismatch: Warning, "no configured runtime has the name that the RuntimeClass asks for",
            by "/etc/containerd, /etc/crio or /var/lib/rancher: NVIDIA's runtime has another name than the one that is asked for" => [
                "Give the RuntimeClass's handler and the configured runtime one name, in lower case: `kubectl get runtimeclass nvidia -o jsonpath={.handler}` shows the first.",
                "Set `operator.runtimeClass` in the GPU Operator's values, or `NVIDIA_RUNTIME_NAME` in `toolkit.env`, to that name."];
        CdiSpecMissing: Warning, "CDI is enabled, but NVIDIA's CDI specification is not on the node: pods with GPUs do not start",
            by "/etc/cdi and /run/cdi have no specification of NVIDIA's, and the toolkit is to write one", after [OtherDriverHasGpu, GpuBoundToVfio, DriverBuilding, NvidiaInTransit, DriverNotLoaded, DeviceNodesMissing] => [
                @TOOLKIT_HELD "Write the specification that it asks for by hand, and the container starts: `nvidia-ctk cdi generate --mode=management --vendor=management.nvidia.com --output=/var/run/cdi/management.nvidia.com-gpu.yaml` on the node. Add `--driver-root=/run/nvidia/driver` for a driver container's driver; the toolkit's `nvidia-ctk` is in `/usr/local/nvidia/toolkit`.",
                "Restart the toolkit's pod, which writes the specification: `kubectl delete pod {toolkit}`; its log says why if it does not.",
                "If the toolkit still writes none, write it by hand: `nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml` on the node."];
        CdiDeviceUnknown: Warning, "a pod asks for a CDI device that no specification on this node has: it does not start",
            after [DriverBuilding, NvidiaInTransit, DriverNotLoaded, CdiSpecMissing] => [
                @MANAGEMENT_KIND "Use `runtimeClassName: nvidia` in the pod in place of `nvidia-cdi`, which asks for `management.nvidia.com/gpu`: devices of the operator's own pods.",
                @MANAGEMENT_KIND "Let the device plugin hand out CDI devices in another way: `DEVICE_LIST_STRATEGY=cdi-annotations` (or `cdi-cri`) in `devicePlugin.env` of the ClusterPolicy.",
                @SPECS_CONFLICT "Remove the specification that nobody writes anymore: `rm {host-spec}` on the node. Of two, neither counts.",
                "Compare with the devices that exist: `nvidia-ctk cdi list` on the node.",
                "Write the specification again if the device is missing there: restart the toolkit's pod (`kubectl delete pod {toolkit}`), or start `nvidia-cdi-refresh.service` if the toolkit is the host's."];
        RuntimeConfigNotInForce: Warning, "the container runtime was started before its configuration was changed",
            by "/etc/containerd or /var/lib/rancher: a file is newer than the process of the runtime" => [@SYSTEMD "Restart the container runtime: `systemctl restart containerd` (k3s, rke2, k0s and snaps have their own service; CRI-O's is `crio`). Running containers continue."];
    }

    Chain {
        ToolkitNotReady: Warning, "toolkit-ready is missing: no container with a GPU has been shown to run",
            by "/run/nvidia/validations/toolkit-ready is missing for longer than the validation takes", after [DriverCtrReadyStale, DriverNotValidated, RuntimeConfigBroken, DropInVersionTooHigh, NvidiaRuntimeMissing, NvidiaProgramMissing,
                DefaultRuntimeUndefined, NvidiaRuntimeElsewhere, DropInNotImported, CriTableIgnored, RuntimeNameMismatch,
                RuntimeConfigNotInForce, NvidiaRuntimeUnclear, RuntimeTemplateIncomplete, RuntimeTypeMissing, ToolkitTooOld, GdsNeedsOpenModules, ContainerRestarts,
                ContainerdWithoutCri, KubeletFails, RuntimeCgroupsDiffer, ToolkitRootMissing, DeviceRulesRefused, ToolkitLibcTooOld,
                CudaNotSatisfied, ToolkitFails, DropInElsewhere, RuntimeHandlerMissing, CdiDeviceUnknown, ContainerNotStarted] => [
                "Read the log of the validation: `kubectl logs {validator-logs} -c toolkit-validation`.",
                "Look for `no runtime for \"nvidia\" is configured`: `kubectl describe pod {validator-logs}`."];
    }

    Runtime {
        DevicePluginWithoutDriver: Warning, "the device plugin runs without NVIDIA's runtime: it sees no driver, and offers no GPU",
            after [NvidiaRuntimeElsewhere, NvidiaRuntimeMissing] => [
                "Let the device plugin's pod use NVIDIA's runtime: `runtimeClassName: nvidia` in its DaemonSet.",
                @SYSTEMD "Make nvidia the runtime's default instead: `nvidia-ctk runtime configure --runtime=containerd --set-as-default`, then `systemctl restart containerd`.",
                "Delete the device plugin's pod afterwards: it looks for the driver only at its start."];
        SeveralDevicePlugins: Warning, "more than one device plugin for GPUs runs: kubelet uses the last to register and drops the others",
            by "/proc has device plugins for GPUs of several pods" => [
                "Keep one of them: keep another's DaemonSet off this node (`nodeSelector`, affinity), or switch the operating system's own one off.",
                "Restart the remaining device plugin afterwards, so it registers again."];
        MpsDaemonMissing: Warning, "the device plugin waits for an MPS control daemon that does not run: the node offers no GPU" => [
                "Let the daemon's DaemonSet run here: the node needs the label `nvidia.com/mps.capable=true`, which gpu-feature-discovery sets: `kubectl label node {node} nvidia.com/mps.capable=true`.",
                "Use `sharing.timeSlicing` to do without MPS, in place of `sharing.mps` in the device plugin's configuration."];
        DevicePluginFailed: Warning, "the device plugin ends with an error",
            after [GpuLost, GpuNeedsReset, GpuNotInitialised, DriverVersionMismatch, InotifyExhausted, MigMisconfigured, DevicePluginWithoutDriver, MpsDaemonMissing] => [
                "Read the device plugin's log: `kubectl logs {plugin-logs} -c nvidia-device-plugin --previous`.",
                "Compare with `nvidia-smi` on the node or in the driver's container."];
        DevicePluginUnsound: Warning, "the device plugin has lost the driver (NVML): pods are refused, and no GPU's health is checked",
            after [GpuLost, GpuNeedsReset, GpuNotInitialised, DriverVersionMismatch, DevicePluginFailed] => [
                "Restart the device plugin, which asks the driver only at its start: `kubectl delete pod {plugin}`. Running pods keep their GPUs.",
                "Set `FAIL_ON_INIT_ERROR=true` in the plugin's environment: without the driver it then ends, and kubelet starts it again.",
                "Compare with `nvidia-smi` on the node or in the driver's container."];
        GpusNotOffered: Warning, "kubelet offers no GPU of this node: no device plugin has registered a healthy one",
            by "/var/lib/kubelet/device-plugins has no socket or no device of a plugin for GPUs, and one was here; or the node's `allocatable` has no GPU", after [GpuLost, GpuNeedsReset, GpuNotInitialised, GpuNeedsOpenModules, GpuInforomCorrupted, DriverVersionMismatch, DriverNotValidated,
                CudaNotInitialised, GpuFabricManagerMissing, FabricManagerUnfit, InotifyExhausted, MigManagerFailed, MigMisconfigured,
                ContainerdWithoutCri, RuntimeCgroupsDiffer, ToolkitRootMissing, DeviceRulesRefused, ToolkitLibcTooOld, RuntimeConfigBroken,
                KubeletFails, DropInVersionTooHigh, DropInNotImported, CriTableIgnored, RuntimeTemplateIncomplete, RuntimeTypeMissing,
                ToolkitTooOld, NvidiaRuntimeElsewhere, NvidiaRuntimeMissing, NvidiaProgramMissing, DefaultRuntimeUndefined,
                RuntimeNameMismatch, CdiSpecMissing, RuntimeConfigNotInForce, ToolkitNotReady, DevicePluginWithoutDriver,
                SeveralDevicePlugins, MpsDaemonMissing, DevicePluginFailed, ContainerRestarts] => [
                "See whether the device plugin's pod is on the node: `kubectl get pod -A -l app=nvidia-device-plugin-daemonset --field-selector spec.nodeName={node}`. If it is, read its log: `kubectl logs {plugin-logs} -c nvidia-device-plugin`.",
                "If there is none, look at the label `nvidia.com/gpu.deploy.device-plugin`, which must be `true`, and is `paused-for-mig-change` for a while: `kubectl get node {node} --show-labels`.",
                "Delete the pod if it runs and has not registered: it registers at its start, and when kubelet is restarted."];
        PodRefused: Warning, "pods are refused: a device plugin, a DRA driver, a webhook or a policy does not let them start",
            after [GpuLost, GpuNeedsReset, GpuNotInitialised, DriverVersionMismatch, DriverNotLoaded, KubeletFails, CdiSpecMissing, ToolkitNotReady,
                SeveralDevicePlugins, MpsDaemonMissing, DevicePluginFailed, DevicePluginUnsound, ContainerRestarts, GpusNotOffered] => [
                "Read the log of the part that the words name: the device plugin, the DRA driver, or the webhook's operator.",
                "In the operators' own namespace, allow what their pods need: a ResourceQuota for `system-node-critical`, or the label `pod-security.kubernetes.io/enforce=privileged`. Elsewhere the pod has to change.",
                "Delete each pod with the state UnexpectedAdmissionError after that: kubelet does not try it again."];
        FewerGpusOffered: Warning, "kubelet offers fewer GPUs than the node has",
            by "/var/lib/kubelet/device-plugins has fewer GPUs than are bound to nvidia, or the node's `allocatable` fewer than its `capacity`", after [GpuLost, GpuNeedsReset, GpuNotInitialised, GpuNeedsOpenModules, GpuInforomCorrupted] => [
                "See why a GPU was taken out: `kubectl logs {plugin-logs} -c nvidia-device-plugin | grep -i unhealthy`, `dmesg | grep Xid`.",
                "Reset or replace the GPU as NVIDIA's Xid catalog asks; drain the node first.",
                "Delete the device plugin's pod afterwards: a GPU that it has marked unhealthy stays out until its next start."];
    }

    Chain {
        ValidationIncomplete: Warning, "cuda-ready or plugin-ready is missing: the operator's final validation has not finished",
            by "/run/nvidia/validations/cuda-ready or plugin-ready is missing for longer than the validation takes", after [ToolkitNotReady, FabricManagerUnfit, GpuFabricManagerMissing, CudaNotInitialised, CudaFails, MigMisconfigured,
                DevicePluginWithoutDriver, DevicePluginFailed, MpsDaemonMissing, GpusNotOffered, InotifyExhausted, MigManagerFailed, ContainerRestarts] => ["Read the validator's log: `kubectl logs {validator-logs} --all-containers`."];
    }

    Runtime {
        RuntimeConfigUnreadable: Unknown, "the container runtime's configuration cannot be read",
            by "/etc/containerd, /etc/crio, /var/lib/rancher, /etc/k0s or /var/snap: a read fails" => [AS_HOST_ROOT];
        RuntimeInUseUnknown: Unknown, "unknown which container runtime kubelet uses",
            by "/proc does not show kubelet's arguments, or /var/lib/kubelet its configuration" => ["Let the gate see the host's processes: `hostPID: true`, and `--proc` or `--root` of the host.", AS_HOST_ROOT];
        SeveralRuntimes: Info, "more than one container runtime is on this node",
            by "/run or /var/lib: the sockets of several container runtimes, each with a process" => ["Do nothing if NVIDIA's tools are configured for the one that kubelet uses."];
        RuntimeNotSeen: Info, "no container runtime's configuration is visible from here",
            by "/etc/containerd, /etc/crio, /var/lib/rancher, /etc/k0s and /var/snap have no configuration, and no socket is there" => [AS_HOST_ROOT];
    }

    Hint {
        DmaBufPossible: Info, "DMA-BUF would work without nvidia-peermem here",
            by "/proc/driver/nvidia/version names the open kernel modules, and the kernel is 5.12 or newer" => [
                "Set `driver.rdma.enabled: false` in the ClusterPolicy to use DMA-BUF, as NVIDIA recommends: this kernel (5.12 and later) and these open kernel modules allow it. It needs CUDA 11.7 and libraries that support it (UCX, NCCL)."];
        GateMissing: Info, "this node's driver pod was created without the gate",
            by "a pod with nvidia-driver-ctr has no container peermem-gate" => [GATE];
    }

    Mofed {
        Settling: Info, "every condition is met; the gate waits for the settle time" => of_reason;
    }
}
