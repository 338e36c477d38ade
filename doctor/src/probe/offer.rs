// SPDX-License-Identifier: Apache-2.0
//! The node's devices as kubelet offers them: its directory of sockets, its checkpoint, and the driver's own GPUs.

use super::checkpoint::{DIRECTORY, DeviceLists};
use crate::symptoms::offer::KubeletOffer;
use peermem_gate::ready::files::read::{names, stat, unreadable, whole};
use peermem_gate::ready::files::root::resolve;
use peermem_gate::ready::node::Places;
use peermem_gate::ready::observation::Seen;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The DRA driver of NVIDIA's GPUs registers here (k8s-dra-driver-gpu, cmd/gpu-kubelet-plugin).
const DRA: &str = "var/lib/kubelet/plugins/gpu.nvidia.com";
/// The most that is read of a GPU's `information`; the driver writes some 500 bytes.
const INFORMATION: u64 = 4096;
const UUID: &str = "GPU UUID:";
const EXCLUDED: &str = "GPU Excluded:";

pub(super) fn read(places: &Places) -> KubeletOffer {
    let directory = places.root.join(DIRECTORY);
    let gpus = places.proc.join("driver/nvidia/gpus");
    let addresses = names(&gpus).ok().flatten().unwrap_or_default();
    KubeletOffer {
        names: below_root(&places.root, &directory),
        changed: resolve(&places.root, &directory)
            .and_then(|real| stat(&real))
            .ok()
            .map(|metadata| metadata.mtime()),
        directory,
        devices: DeviceLists::read(&places.root).into_offered(),
        counted: None,
        has_dra: resolve(&places.root, &places.root.join(DRA)).is_ok_and(|real| real.is_dir()),
        gpus: addresses.into_iter().map(|address| (address.clone(), uuid(&gpus.join(&address)))).collect(),
    }
}

fn below_root(root: &Path, directory: &Path) -> Seen<Option<Vec<String>>> {
    match resolve(root, directory) {
        Ok(real) => names(&real),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(directory, &error)),
    }
}

/// `GPU UUID: \t GPU-…`; none of a GPU that the driver's parameters leave out.
fn uuid(gpu: &Path) -> Option<String> {
    let text = whole(&gpu.join("information"), INFORMATION).ok()?;
    let is_excluded = |line: &str| line.strip_prefix(EXCLUDED).is_some_and(|value| value.trim() == "Yes");
    if text.lines().any(is_excluded) {
        return None;
    }
    text.lines().find_map(|line| line.strip_prefix(UUID)).map(|uuid| uuid.trim().to_owned())
}
