// SPDX-License-Identifier: Apache-2.0
//! The node's devices as kubelet offers them to pods. Plain data.

use peermem_gate::ready::observation::Seen;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The prefix of a whole GPU's id in NVIDIA's device plugin. A share of one has `::` and a number behind it.
const WHOLE: &str = "GPU-";

/// kubelet's devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletOffer {
    /// Where the device plugins have their sockets.
    pub directory: PathBuf,
    /// The names there; `None` where there is no such directory.
    pub names: Seen<Option<Vec<String>>>,
    /// The healthy devices of each resource, by kubelet's checkpoint.
    pub devices: BTreeMap<String, Vec<String>>,
    /// When a socket there came or went last, in seconds since 1970; `None` where that is unknown.
    pub changed: Option<i64>,
    /// A DRA driver of GPUs has its directory: then no device plugin is needed.
    pub has_dra: bool,
    /// The GPUs that the loaded driver has, by PCI address, and their UUIDs: with question marks while the driver has
    /// not initialized one, `None` where it does not say.
    pub gpus: BTreeMap<String, Option<String>>,
}

impl KubeletOffer {
    /// kubelet's own socket: it runs, or ran, and takes registrations of device plugins.
    #[must_use]
    pub fn has_kubelet(&self) -> bool {
        self.has_name(|name| name == "kubelet.sock")
    }

    /// A socket of a device plugin for GPUs, NVIDIA's or another.
    #[must_use]
    pub fn has_gpu_plugin(&self) -> bool {
        self.has_name(|name| {
            let is_gpus =
                |stem: &str| ["nvidia", "gpu"].iter().any(|word| stem.to_ascii_lowercase().contains(word));
            name.strip_suffix(".sock").is_some_and(is_gpus)
        })
    }

    fn has_name(&self, is_it: impl Fn(&str) -> bool) -> bool {
        self.names.iter().flatten().flatten().any(|name| is_it(name))
    }

    /// A resource of NVIDIA's is registered, and no healthy device of any.
    #[must_use]
    pub fn offers_none_of_nvidia(&self) -> bool {
        let mut of_nvidia = self.of_nvidia().peekable();
        of_nvidia.peek().is_some() && of_nvidia.all(<[String]>::is_empty)
    }

    fn of_nvidia(&self) -> impl Iterator<Item = &[String]> {
        let of_gpus = self.devices.iter().filter(|(resource, _)| is_of_gpus(resource));
        of_gpus.map(|(_, ids)| ids.as_slice())
    }

    /// The UUIDs of the whole GPUs that kubelet offers; `None` where it offers parts of some, or none at all.
    #[must_use]
    pub fn whole_gpus(&self) -> Option<BTreeSet<&str>> {
        let ids: Vec<_> = self.of_nvidia().flatten().map(String::as_str).collect();
        let whole: Option<BTreeSet<_>> = ids.iter().map(|id| whole(id)).collect();
        whole.filter(|whole| !whole.is_empty())
    }
}

/// SR-IOV device plugins offer virtual functions below the same domain.
fn is_of_gpus(resource: &str) -> bool {
    resource
        .strip_prefix("nvidia.com/")
        .is_some_and(|name| name.starts_with("gpu") || name.starts_with("mig-"))
}

fn whole(id: &str) -> Option<&str> {
    id.starts_with(WHOLE).then(|| id.split("::").next().unwrap_or(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offering(resource: &str, ids: &[&str]) -> KubeletOffer {
        let ids = ids.iter().map(ToString::to_string).collect();
        KubeletOffer {
            directory: PathBuf::new(),
            names: Ok(None),
            devices: BTreeMap::from([(resource.to_owned(), ids)]),
            changed: None,
            has_dra: false,
            gpus: BTreeMap::new(),
        }
    }

    #[test]
    fn a_gpu_counts_once_however_often_it_is_shared() {
        let shared = offering("nvidia.com/gpu.shared", &["GPU-a::0", "GPU-a::1", "GPU-b::0"]);
        assert_eq!(shared.whole_gpus().map(|gpus| gpus.len()), Some(2));
    }

    #[test]
    fn parts_of_gpus_are_not_counted() {
        for (resource, ids) in [
            ("nvidia.com/gpu", ["GPU-a", "MIG-b"].as_slice()),
            ("nvidia.com/GH100_H100_SXM5_80GB", &["0", "1"]),
            ("rdma/shared", &["0", "1"]),
            ("nvidia.com/hostdev", &["0000:18:00.2"]),
            ("nvidia.com/gpu", &[]),
        ] {
            assert_eq!(offering(resource, ids).whole_gpus(), None, "{resource} {ids:?}");
        }
    }
}
