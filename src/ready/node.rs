// SPDX-License-Identifier: Apache-2.0
//! One node as it was described to us: where to look, and what to expect there. Plain data, made from the command
//! line and the environment.

use crate::ready::condition::ConditionType;
use crate::ready::consumer::Consumer;
use crate::ready::mofed::MofedPlace;
use crate::ready::version::Version;
use std::path::{Path, PathBuf};

/// The expectations that the judge compares an observation with.
#[derive(Clone, Debug)]
pub struct Expectations {
    /// `NODE_NAME`, if set.
    pub node_name: Option<String>,
    /// The consumers of `--for`, each once.
    pub consumers: Vec<Consumer>,
    /// `GPU_DIRECT_RDMA_ENABLED`, if set.
    pub rdma_requested: Option<String>,
    /// `USE_HOST_MOFED`, if set.
    pub use_host_mofed: Option<String>,
    /// The operator's containers are here, and none of them was asked for RDMA.
    pub rdma_not_requested: bool,
    /// How the operator's containers contradict each other about RDMA or MOFED, where nothing here says more.
    pub contradiction: Option<String>,
    /// Who provides MOFED.
    pub mofed: MofedPlace,
    /// No headers are needed.
    pub precompiled: bool,
    /// The modules that must be live, with underscores.
    pub modules: Vec<String>,
    /// The version given by `--mofed-version`.
    pub version: Option<Version>,
    /// The marker's full path, for messages.
    pub marker: PathBuf,
    /// The lock's full path, for messages.
    pub lock: PathBuf,
    /// `DRIVER_CONFIG_DIGEST` of the driver container, where it is known.
    pub driver_digest: Option<String>,
    /// The driver's container may start after this. `load` and `keep` run while it does.
    pub precedes_driver: bool,
    /// The expectations of nvidia-peermem; `None` where it is not checked.
    pub peermem: Option<PeermemExpected>,
}

impl Expectations {
    /// Whether a consumer of `--for` needs this condition.
    #[must_use]
    pub fn needs(&self, condition: ConditionType) -> bool {
        self.consumers.iter().any(|consumer| consumer.needs(condition, self.mofed))
    }

    /// Whether a consumer needs a build of the driver: nvidia-peermem does not come with the driver's image.
    #[must_use]
    pub fn needs_build(&self) -> bool {
        self.precedes_driver && self.needs(ConditionType::HeadersReady) && !self.precompiled
    }

    /// The modules that must be live, those of the consumers included.
    pub fn all_modules(&self) -> impl Iterator<Item = &str> {
        let of_consumers = self.consumers.iter().flat_map(|consumer| consumer.row().modules).copied();
        self.modules.iter().map(String::as_str).chain(of_consumers)
    }
}

/// The expectations of nvidia-peermem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeermemExpected {
    /// The parameters for it, `NAME=VALUE`.
    pub parameters: Vec<String>,
    /// This process can rebuild it: on a kernel without symbol versions, which takes what was built for any MOFED,
    /// only what we built for the live modules is good.
    pub only_ours: bool,
}

/// Where the probe looks. All paths are complete: nothing is prefixed later.
#[derive(Clone, Debug)]
pub struct Places {
    /// The prefix; absolute links are followed below it.
    pub root: PathBuf,
    /// The proc file system.
    pub proc: PathBuf,
    /// The sys file system.
    pub sys: PathBuf,
    /// MOFED's ready marker.
    pub marker: PathBuf,
    /// MOFED's instance lock.
    pub lock: PathBuf,
    /// MOFED's own root: absolute links in its header tree are followed below it.
    pub mofed_root: PathBuf,
    /// The GPU driver's root, where nvidia-peermem.ko is.
    pub driver_root: PathBuf,
    /// Where a driver container shows its root, that one counts instead, because no other was asked for.
    pub finds_driver: bool,
    /// The node's store of drivers that are gone, if this process serves the node.
    pub store: Option<PathBuf>,
}

/// One node, as the options describe it.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where to look.
    pub places: Places,
    /// The expectations of it.
    pub expected: Expectations,
}

/// `path` as it is found below `root`.
#[must_use]
pub fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
