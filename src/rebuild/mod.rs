// SPDX-License-Identifier: Apache-2.0
//! Rebuilding only nvidia-peermem: when that is a cure, what it takes, and how it is done. Pure; docs/heal.md is the
//! description for users.
//!
//! [`plan`] turns what was found on the node ([`Material`]) into a [`Plan`], or into the [`Obstacle`] that is in the
//! way.

mod attempt;
pub mod build;
pub mod build_dir;
mod built;
mod failure;
mod inputs;
mod material;
mod obstacle;
mod plan;
pub mod preference;
pub mod probe;
pub mod rebuilder;
pub mod recipe;
mod result;
pub mod run;
#[cfg(test)]
pub(crate) mod sample;
pub mod signing;
pub mod store;

pub use crate::peermem::record::Pair;
use crate::ready::condition::terms;
pub use built::{Confirmed, FileProof, JudgedModule, file_proof, objection};
pub use failure::{BuildFailure, ended};
pub use inputs::fingerprint;
pub use material::{Material, Sources, Tool};
pub use obstacle::{Kind, Obstacle};
pub use plan::{Builder, Plan, plan, target};
pub use result::RebuildResult;
pub use signing::Signing;

/// The most bytes that a build takes, with a kernel's debug information in it.
const ROOM: u64 = 64 << 20;

terms! {
    /// The result of a rebuild: the labels of `keep`'s metrics.
    RebuildLabel {
        Installed as "installed": "A usable file is installed.";
        Refused as "refused": "Something is in the way; nothing was built.";
        Failed as "failed": "The build failed, or its result was not usable.";
        TimedOut as "timed_out": "The build took too long.";
        BrokenOff as "broken_off": "MOFED began to swap its modules, or a signal came.";
        Undone as "undone": "An earlier rebuild stood before a usable file, and was removed.";
    }
}
