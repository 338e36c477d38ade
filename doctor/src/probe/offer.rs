// SPDX-License-Identifier: Apache-2.0
//! The node's devices as kubelet offers them: its directory of sockets, its checkpoint, and the driver's own GPUs.

use super::checkpoint::{DIRECTORY, DeviceLists};
use super::{gpus, information, there};
use crate::symptoms::offer::KubeletOffer;
use peermem_gate::ready::files::read::{names, stat};
use peermem_gate::ready::files::root::resolve;
use peermem_gate::ready::node::Places;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The DRA driver of NVIDIA's GPUs registers here (k8s-dra-driver-gpu, cmd/gpu-kubelet-plugin).
const DRA: &str = "var/lib/kubelet/plugins/gpu.nvidia.com";

pub(super) fn read(places: &Places) -> KubeletOffer {
    let directory = places.root.join(DIRECTORY);
    let real = resolve(&places.root, &directory);
    let gpus = gpus(&places.proc);
    let addresses = names(&gpus).ok().flatten().unwrap_or_default();
    KubeletOffer {
        changed: real.as_ref().ok().and_then(|real| stat(real).ok()).map(|metadata| metadata.mtime()),
        names: there(&directory, real).and_then(|real| real.map_or(Ok(None), |real| names(&real))),
        directory,
        devices: DeviceLists::read(&places.root).into_offered(),
        counted: None,
        has_dra: resolve(&places.root, &places.root.join(DRA)).is_ok_and(|real| real.is_dir()),
        gpus: addresses.into_iter().map(|address| (address.clone(), uuid(&gpus.join(&address)))).collect(),
    }
}

/// None of a GPU that the driver's parameters leave out.
fn uuid(gpu: &Path) -> Option<String> {
    let is_excluded = information(gpu, "GPU Excluded:").is_some_and(|value| value == "Yes");
    information(gpu, "GPU UUID:").filter(|_| !is_excluded)
}
