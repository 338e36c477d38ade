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
pub use built::{Confirmed, FileProof, JudgedModule, file_proof, objection};
pub use failure::{BuildFailure, ended};
pub use inputs::fingerprint;
pub use material::{Material, Sources, Tool};
pub use obstacle::{Kind, Obstacle};
pub use plan::{Builder, Plan, plan, target};
pub use result::RebuildResult;
pub use signing::Signing;

use std::fmt;

/// The most bytes that a build takes, with a kernel's debug information in it.
const ROOM: u64 = 64 << 20;

/// The result of a rebuild: the labels of `keep`'s metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RebuildLabel {
    /// A usable file is installed.
    Installed,
    /// Something is in the way; nothing was built.
    Refused,
    /// The build failed, or its result was not usable.
    Failed,
    /// The build took too long.
    TimedOut,
    /// MOFED began to swap its modules, or a signal came.
    BrokenOff,
    /// An earlier rebuild stood before a usable file, and was removed.
    Undone,
}

impl RebuildLabel {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Installed, Self::Refused, Self::Failed, Self::TimedOut, Self::BrokenOff, Self::Undone];
}

impl fmt::Display for RebuildLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Installed => "installed",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::BrokenOff => "broken_off",
            Self::Undone => "undone",
        })
    }
}
