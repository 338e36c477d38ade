// SPDX-License-Identifier: Apache-2.0
//! The waits of the operators' containers. Plain data.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// For files that are not there.
    pub files: Vec<FileWait>,
    /// The UIDs of the operators' pods with a process beyond the one that only keeps a pod's namespaces; `None` where
    /// processes are not visible.
    pub alive: Option<BTreeSet<String>>,
}

/// A container that waits for a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileWait {
    /// The file, as the node names it.
    pub path: PathBuf,
    /// The pod's namespace and name.
    pub pod: (String, String),
    /// The container, where it is known.
    pub container: Option<String>,
    /// The process or the log that says so.
    pub source: PathBuf,
    /// Its words.
    pub words: String,
    /// Since when, in seconds since 1970.
    pub since: Option<i64>,
}
