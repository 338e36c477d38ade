// SPDX-License-Identifier: Apache-2.0
//! The sources of a timeline: logs, and what files, processes and the gate's looks show. Plain data.

use super::Lane;
use crate::gathered::Bundle;
use crate::stamp::Stamp;
use crate::symptoms::logs::Logs;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// All that is known of one node's past.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The node's name, where it is known.
    pub node: Option<String>,
    /// The logs of containers and the kernel.
    pub logs: Logs,
    /// Everything else that has a time.
    pub traces: Vec<Trace>,
    /// When it was gathered, if on the node itself.
    pub now: Option<Stamp>,
    /// The nodes of pods, by the pod's name, as far as files say.
    pub nodes: BTreeMap<String, String>,
    /// What came from standard input, for `doctor`.
    pub posted: Option<Bundle>,
}

/// Something that has a time and is no sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Its kind.
    pub node_event: NodeEvent,
    /// When: a file's time, a process's start, a look's.
    pub at: Stamp,
    /// Fills `<it>` in the phrase, as it came: escape it where it is printed.
    pub it: String,
    /// The file, or the process's directory.
    pub path: PathBuf,
}

macro_rules! node_events {
    ($($name:ident: $lane:ident, $who:literal, $phrase:literal;)*) => {
        /// The kind of a trace.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum NodeEvent { $(#[doc = concat!("``", $phrase, "``")] $name,)* }

        named!(NodeEvent: $($name),*);

        impl NodeEvent {
            /// A phrase for people, with `<it>` for what the trace names.
            pub fn phrase(self) -> &'static str {
                match self { $(Self::$name => $phrase,)* }
            }

            /// Whose side it is on.
            pub fn lane(self) -> Lane {
                match self { $(Self::$name => Lane::$lane,)* }
            }

            /// The kind of source.
            pub fn who(self) -> &'static str {
                match self { $(Self::$name => $who,)* }
            }
        }
    };
}

node_events! {
    MarkerWritten: Mofed, "a file's time", "MOFED's marker is written";
    LockWritten: Mofed, "a file's time", "MOFED's lock file is written";
    SymversWritten: Mofed, "a file's time", "MOFED's Module.symvers is written";
    BlacklistWritten: Mofed, "a file's time", "MOFED blacklists the kernel's own modules";
    MofedProcess: Mofed, "a process's start", "<it> starts";
    DriverBuildBegun: Gpu, "a file's time", "the driver toolkit begins to build";
    DriverBuilt: Gpu, "a file's time", "the driver toolkit has built the GPU driver";
    PeermemWritten: Gpu, "a file's time", "nvidia-peermem.ko is written: no stub";
    StubWritten: Gpu, "a file's time", "nvidia-peermem.ko is written: a stub";
    ValidationWritten: Gpu, "a file's time", "<it> is written";
    GpuProcess: Gpu, "a process's start", "<it> starts";
    LookMarkerSet: Mofed, "the gate's look", "MOFED's marker exists";
    LookMarkerGone: Mofed, "the gate's look", "MOFED's marker does not exist";
    LookStackLive: Kernel, "the gate's look", "<it> are live";
    LookStackGone: Kernel, "the gate's look", "<it> not live";
    LookPeermemLive: Kernel, "the gate's look", "nvidia_peermem is loaded";
    LookPeermemGone: Kernel, "the gate's look", "nvidia_peermem is not loaded";
}
