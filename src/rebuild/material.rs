// SPDX-License-Identifier: Apache-2.0
//! The material for a rebuild, as found on the node. Plain data; [`crate::rebuild::probe::material`] reads it.

use super::{Pair, Signing};
use crate::ready::observation::Seen;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// NVIDIA's sources of nvidia-peermem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// The root that they are in, as this process sees it.
    pub root: PathBuf,
    /// Their directory, as seen from inside that root.
    pub directory: PathBuf,
    /// The version that their Kbuild file gives.
    pub version: Option<String>,
    /// Why the recipe does not fit them, if it does not.
    pub misfit: Option<String>,
}

/// A program that a build needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of the programs")]
pub enum Tool {
    Make,
    Compiler,
    Depmod,
}

impl Material {
    /// The root in which this program is looked for.
    #[must_use]
    pub fn root_of(&self, tool: Tool) -> &Path {
        if tool == Tool::Depmod { &self.driver_root } else { &self.build_root }
    }
}

/// Everything that was found.
#[derive(Clone, Debug)]
pub struct Material {
    /// The driver's root, as this process sees it.
    pub driver_root: PathBuf,
    /// The root of the compiler and the kernel's headers: the driver's, or another container's of the same pod.
    pub build_root: PathBuf,
    /// The kernel, nvidia and MOFED to build for.
    pub pair: Pair,
    /// The directories in which sources were looked for, and those that were found, best first.
    pub sources: Vec<Sources>,
    /// The kernel's build tree, as seen from inside the build's root; `None` where there is none.
    pub headers: Option<PathBuf>,
    /// The kernel's build tree is where the running kernel's modules say that it is.
    pub headers_are_linked: bool,
    /// The Module.symvers with the peer-memory symbols, and its text.
    pub symvers: Seen<(PathBuf, String)>,
    /// That file is the kernel's own: the build finds its symbols without us.
    pub symvers_are_kernels: bool,
    /// The file of the live nvidia and the CRCs of its exports, or why there is none.
    pub nvidia: Result<(PathBuf, BTreeMap<String, u32>), String>,
    /// Where each program is, as seen from inside the build's root; depmod, inside the driver's.
    pub tools: BTreeMap<Tool, PathBuf>,
    /// Free bytes for the build, if known.
    pub free: Option<u64>,
    /// Why nothing can be written where the build and the module go.
    pub unwritable: Option<String>,
    /// Why others can write to the build's directory.
    pub exposed: Option<String>,
    /// A foreign file at our file's path.
    pub foreign: Option<PathBuf>,
    /// Why an attempt for the same pair failed before.
    pub tried: Option<String>,
    /// The store's entry with a module for this pair.
    pub stored: Option<PathBuf>,
    /// With what a module is signed where the kernel demands that, if a key was given.
    pub signing: Option<Signing>,
    /// How many jobs make may run at a time.
    pub jobs: usize,
}
