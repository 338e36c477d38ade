// SPDX-License-Identifier: Apache-2.0
//! Steps that several remedies share. [`super::Facts`] fills the words in braces.
#![expect(missing_docs, reason = "a step's name and its text say the same")]

pub const AS_HOST_ROOT: &str = "Run this as root, in a privileged pod with `hostPID: true`, the host mounted at `/host`, and `--root /host`.";
pub const DRAIN: &str = "Before you delete the driver pod, end the node's GPU workloads: `kubectl drain {node} --ignore-daemonsets --delete-emptydir-data`. Once the new pod is ready: `kubectl uncordon {node}`.";
pub const DRAIN_BEFORE_MOFED: &str = "Before you delete the MOFED pod, which takes the NIC away for a while, end the node's GPU and RDMA workloads: `kubectl drain {node} --ignore-daemonsets --delete-emptydir-data`. Once the new pod is ready: `kubectl uncordon {node}`.";
pub const END_GPU_PODS: &str = "End the GPU pods and processes that use RDMA on this node{rdma-holders}. On Kubernetes, drain the node first, or new pods come: `kubectl drain {node} --ignore-daemonsets --delete-emptydir-data`. Once MOFED is ready: `kubectl uncordon {node}`.";
pub const FAST_PATH: &str = "Remove the state file before you delete the driver pod, or the new pod skips the build: `rm -f /run/nvidia/nvidia-driver.state` on the node.";
pub const FIND_MOFED: &str = "Find the MOFED pod: `kubectl get pod -A -o wide -l nvidia.com/ofed-driver --field-selector spec.nodeName={node}`.";
pub const HOST_REBUILD: &str = "Build the driver's modules again, {headers}: if `dkms status` lists nvidia, `dkms remove nvidia/{nvidia-version} -k $(uname -r)`, then `dkms install --force nvidia/{nvidia-version} -k $(uname -r)`; otherwise by the driver's installer. Then load the new file: `modprobe nvidia-peermem`. If the kernel refuses it, reboot the node.";
pub const KERNEL_HEADERS: &str =
    "Install the running kernel's headers again: `linux-headers-$(uname -r)` or `kernel-devel-$(uname -r)`.";
pub const MOFED_LOG: &str = "Read the MOFED container's log: `kubectl logs {mofed-logs} -c mofed-container`, with `--previous` if it restarts.";
pub const MOUNT_PARENT: &str =
    "To prevent this, mount the parent directory `/run/mellanox` with `mountPropagation: HostToContainer`.";
pub const NEW_DRIVER_POD: &str =
    "Delete this node's driver pod; the new pod builds the driver again: `kubectl delete pod {driver}`.";
pub const NEW_MOFED_POD: &str =
    "Delete this node's MOFED pod, and a new one starts: `kubectl delete pod {mofed}`.";
pub const NIC_GONE: &str = "If the device stays away, read the kernel's log, `dmesg | grep -iE 'mlx5|pcieport|AER'`, and check the card, its firmware and its slot: `lspci -d 15b3:` lists none.";
pub const NIC_RESET: &str = "Wait while the device is in a reset, which takes seconds. `wait`, `load` and `keep` do so for `--suspect-hold` at most.";
pub const NO_FORCE_REINSTALL: &str = "Do not set `FORCE_REINSTALL` for one node, although NVIDIA's notes of 26.3 recommend it: it changes the DaemonSet, and every node restarts its driver.";
pub const PRECOMPILED: &str = "Use a driver image whose nvidia-peermem was built against this MOFED release.";
pub const REBUILD_ALONE: &str = "Rebuild only nvidia-peermem.ko, in seconds, then load it: `peermem-gate rebuild{root-option}`, `peermem-gate load{root-option}`.";
pub const UNDO: &str = "To use the driver's own file again, remove the one that peermem-gate built: `peermem-gate rebuild{root-option} --undo`.";
pub const REMOUNT: &str = "Delete the pod that has this mount: only a new pod gets a new mount. A restart of its container keeps the old one.";
pub const RMMOD_PEERMEM: &str = "Unload nvidia_peermem on the node: `rmmod nvidia_peermem`. Do not use `modprobe -r`: it unloads nvidia and ib_uverbs too.";
pub const UNDO_REBUILD: &str = "Remove the rebuilt file, then load the driver's own: `peermem-gate rebuild --undo{root-option}`, `peermem-gate load{root-option}`.";
pub const TOOLKIT_BUILD: &str = "Remove the old build's flag: `rm -f {pod-directory}/volumes/kubernetes.io~empty-dir/shared-nvidia-driver-toolkit/driver_built` on the node. The driver toolkit then builds again, in 5 to 20 minutes. If no build has started after a minute, delete the driver pod: `kubectl delete pod {driver}`.";
