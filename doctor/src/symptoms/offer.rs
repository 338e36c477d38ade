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
    /// How many GPUs the API's object of the node counts, and how many of these it offers: of a bundle.
    pub counted: Option<(u64, u64)>,
    /// The GPUs that the loaded driver has, by PCI address, and their UUIDs: with question marks while the driver has
    /// not initialized one, `None` where it does not say.
    pub gpus: BTreeMap<String, Option<String>>,
}

impl KubeletOffer {
    /// kubelet's own socket: it runs, or ran, and takes registrations of device plugins.
    pub fn has_kubelet(&self) -> bool {
        self.has_name(|name| name == "kubelet.sock")
    }

    /// A socket of a device plugin for GPUs, NVIDIA's or another.
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
    pub fn offers_none_of_nvidia(&self) -> bool {
        let mut of_nvidia = self.of_nvidia().peekable();
        of_nvidia.peek().is_some() && of_nvidia.all(<[String]>::is_empty)
    }

    fn of_nvidia(&self) -> impl Iterator<Item = &[String]> {
        let of_gpus = self.devices.iter().filter(|(resource, _)| is_of_gpus(resource));
        of_gpus.map(|(_, ids)| ids.as_slice())
    }

    /// The UUIDs of the whole GPUs that kubelet offers; `None` where it offers parts of some, or none at all.
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

/// How many GPUs and parts of GPUs these counts of resources have; `None` where no resource is theirs.
pub(crate) fn gpus<'a>(counts: impl Iterator<Item = (&'a str, &'a str)>) -> Option<u64> {
    let counts = counts.filter(|(name, _)| is_of_gpus(name)).map(|(_, count)| count.trim().parse().ok());
    counts.reduce(|all: Option<u64>, one| all?.checked_add(one?))?
}

fn whole(id: &str) -> Option<&str> {
    id.starts_with(WHOLE).then(|| id.split("::").next().unwrap_or(id))
}
