// SPDX-License-Identifier: Apache-2.0
//! Diagnoses `GPUDirect` RDMA on a GPU node: what is wrong, what happened, and what is wrong in a fleet.
//!
//! ```text
//!  peermem_gate: survey, look ─► Observation ─► judge ─► Verdict ──┐
//!  probe: logs, runtimes, chain ─► Symptoms ───────────────────────┴─► diagnose ─► Findings ─► report, fleet
//!  probe: logs, gathered logs ─► History ─► timeline
//!  probe: a bundle's files ─► bundle ─► Symptoms of each node ─► diagnose
//! ```
//!
//! The doctor changes with the world: a new release's log line is a row here. The gate, which sits in every driver
//! pod, does not depend on it.
#![allow(clippy::must_use_candidate, reason = "nobody outside this repository calls these functions")]
#![forbid(unsafe_code)]

#[macro_use]
mod names;

pub mod bundle;
pub mod chain;
pub mod cli;
pub mod diagnose;
pub mod finding;
pub mod fleet;
pub mod gathered;
pub mod help;
pub mod log;
pub mod offline;
pub mod operators;
pub mod paths;
pub mod peer_memory;
pub mod probe;
pub mod record;
pub mod report;
pub mod signature;
pub mod stamp;
pub mod symptoms;
pub mod text;
pub mod timeline;
pub mod verb;

/// Version, commit and target of this build.
pub const VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("BUILD_COMMIT"), ", ", env!("BUILD_TARGET"), ")");
