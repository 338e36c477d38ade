// SPDX-License-Identifier: Apache-2.0
//! Remedies: what a person can do about a reason, step by step, chosen by what is known of the node.

mod command;
pub mod fact;
#[macro_use]
mod step;
mod table;
pub mod text;

pub use command::CommandText;
pub use fact::Fact;
pub use step::{DRAIN_STEP, Facts, MOFED_DRAIN_STEP, MOST, NodeName, Premise, Step, with_drain};
pub use table::{
    MOUNT_PROPAGATION_MISSING, PEERMEM_IN_USE, RDMA_BUILT_IN, STALE_MARKER, UMAD_NOT_LOADED, of,
};
