// SPDX-License-Identifier: Apache-2.0
//! Who needs MOFED on a node. A closed set, one row each: what asks for it, which conditions and modules it needs,
//! what its readiness means, and what it pins afterwards.

use crate::ready::condition::{ConditionType, ConditionType as C};
use crate::ready::mofed::MofedPlace;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The module without which no program can talk to a subnet manager or be one.
pub const UMAD: &str = "ib_umad";

/// A consumer of MOFED, as `--for` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Consumer {
    /// nvidia-peermem: `GPUDirect` RDMA by peer memory.
    Peermem,
    /// Fabric Manager, which drives the `NVLink` switches of an `NVLink` 5 machine over `InfiniBand`.
    Fabric,
}

/// One consumer. The sentences are also those of docs/integration.md.
#[derive(Debug)]
pub struct ConsumerRow {
    /// Its name on the command line and in reports.
    pub name: &'static str,
    /// A description of it.
    pub what: &'static str,
    /// The setting or program that asks for it.
    pub asked_by: &'static str,
    /// The conditions that it needs.
    pub needs: &'static [ConditionType],
    /// Those of them that it needs only where MOFED comes in a container.
    pub in_container_only: &'static [ConditionType],
    /// The modules that must be live for it, beyond those of `--module`.
    pub modules: &'static [&'static str],
    /// The programs that may start once it is ready.
    pub ready: &'static str,
    /// The modules that it then keeps MOFED from swapping.
    pub pins: &'static str,
}

const PEERMEM: ConsumerRow = ConsumerRow {
    name: "peermem",
    what: "nvidia-peermem",
    asked_by: "`GPU_DIRECT_RDMA_ENABLED` is `true` or not set, and the node has a Mellanox device",
    needs: &[
        C::RdmaRequested,
        C::NicPresent,
        C::MarkerPresent,
        C::MarkerTrusted,
        C::ModulesLive,
        C::ModulesFromMofed,
        C::VersionMatches,
        C::SymbolsExported,
        C::HeadersReady,
        C::PeermemUsable,
        C::Settled,
    ],
    in_container_only: &[],
    modules: &[],
    ready: "the GPU driver can be built and nvidia-peermem loaded",
    pins: "ib_uverbs and ib_core, while nvidia_peermem is loaded",
};

/// gpu-driver-container: `_assert_nvlink5_system`, `_ensure_nvlink5_prerequisites`.
const FABRIC: ConsumerRow = ConsumerRow {
    name: "fabric",
    what: "Fabric Manager on an NVLink 5 machine",
    asked_by: "the `vpd` of a Mellanox device contains `SW_MNG`: the machine has NVLink 5 switches",
    needs: &[
        C::ManagementDevicePresent,
        C::MarkerPresent,
        C::MarkerTrusted,
        C::ModulesLive,
        C::ModulesFromMofed,
        C::UmadLive,
        C::RdmaDevicePresent,
        C::Settled,
    ],
    // The kernel's own stack serves Fabric Manager as well, unless MOFED is about to swap it. Without ib_umad it
    // finds no switch, and every GPU ends with error 802 (gpu-operator#2781).
    in_container_only: &[C::MarkerPresent, C::MarkerTrusted, C::ModulesFromMofed],
    modules: &[UMAD],
    ready: "Fabric Manager can start and finds the NVLink switches",
    pins: "ib_umad and mlx5_ib, while Fabric Manager runs",
};

impl Consumer {
    /// Every consumer there is.
    pub const ALL: [Self; 2] = [Self::Peermem, Self::Fabric];

    /// The consumer without `--for`.
    pub const DEFAULT: Self = Self::Peermem;

    /// All that is known of it.
    #[must_use]
    pub fn row(self) -> &'static ConsumerRow {
        match self {
            Self::Peermem => &PEERMEM,
            Self::Fabric => &FABRIC,
        }
    }

    /// Whether a condition matters to it.
    #[must_use]
    pub fn needs(self, condition: ConditionType, mofed: MofedPlace) -> bool {
        let row = self.row();
        let is_excused = mofed.is_on_host() && row.in_container_only.contains(&condition);
        row.needs.contains(&condition) && !is_excused
    }
}

impl fmt::Display for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.row().name)
    }
}

/// Their names, for people.
#[must_use]
pub fn names(consumers: &[Consumer]) -> String {
    consumers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
