// SPDX-License-Identifier: Apache-2.0
//! The clock of the node that is looked at, which may be another machine's than ours.

use crate::ready::observation::{Seen, Unreadable};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The sources by which ages are measured, all from below `--proc`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeClock {
    /// When the kernel started, in seconds since 1970 (`btime` in `<proc>/stat`).
    pub boot: Seen<i64>,
    /// How long it has been running, in seconds (`<proc>/uptime`).
    pub uptime: Seen<i64>,
}

impl Default for NodeClock {
    fn default() -> Self {
        Self { boot: Err(not_looked_at()), uptime: Err(not_looked_at()) }
    }
}

/// The placeholder for a source that has not been read yet.
#[must_use]
pub fn not_looked_at() -> Unreadable {
    Unreadable { path: PathBuf::new(), why: "not looked at".to_owned() }
}

impl NodeClock {
    /// Seconds since 1970 at the time of the look, where both are known.
    #[must_use]
    pub fn now(&self) -> Option<i64> {
        Some(self.boot.as_ref().ok()? + self.uptime.as_ref().ok()?)
    }

    /// Seconds since then; negative for what lies ahead.
    #[must_use]
    pub fn age(&self, written: i64) -> Option<i64> {
        Some(self.now()? - written)
    }
}
