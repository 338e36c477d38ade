// SPDX-License-Identifier: Apache-2.0
//! The files by which the GPU Operator's containers signal each other that they are ready, as seen.

use peermem_gate::ready::node_clock::{NodeClock, not_looked_at};
use peermem_gate::ready::observation::{Lock, Seen, Unreadable};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// One file of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileState {
    /// Nothing.
    Absent,
    /// A file.
    Present {
        /// When it was last written, in seconds since 1970.
        written: i64,
        /// Its content, as far as it means something.
        text: String,
    },
    /// Unknown.
    Unreadable(Unreadable),
}

impl FileState {
    /// When it was written, if it is there.
    pub fn written(&self) -> Option<i64> {
        match self {
            Self::Present { written, .. } => Some(*written),
            Self::Absent | Self::Unreadable(_) => None,
        }
    }

    /// Its content; empty where it is not there.
    pub fn text(&self) -> &str {
        match self {
            Self::Present { text, .. } => text,
            Self::Absent | Self::Unreadable(_) => "",
        }
    }
}

/// Everything that one look saw of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The node's clock.
    pub clock: NodeClock,
    /// Where the GPU Operator's files are.
    pub directory: PathBuf,
    /// That directory is there.
    pub has_directory: Seen<bool>,
    /// Full paths and what is there, by the file's name.
    pub files: BTreeMap<String, (PathBuf, FileState)>,
    /// Where nvidia-driver-ctr writes its pid, and holds a lock on it as long as it runs.
    pub driver_pid: PathBuf,
    /// Who holds that lock.
    pub driver: Lock,
    /// The process of that pid is the driver's script; `None` where there is no pid to be read.
    pub driver_runs: Option<bool>,
}

impl Default for Chain {
    fn default() -> Self {
        Self {
            clock: NodeClock::default(),
            directory: PathBuf::new(),
            has_directory: Err(not_looked_at()),
            files: BTreeMap::new(),
            driver_pid: PathBuf::new(),
            driver: Lock::NoFile,
            driver_runs: None,
        }
    }
}

impl Chain {
    /// One file by its name; what was not looked for is absent.
    pub fn stamp(&self, name: &str) -> &FileState {
        self.files.get(name).map_or(&FileState::Absent, |(_, stamp)| stamp)
    }
}
