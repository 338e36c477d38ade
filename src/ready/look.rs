// SPDX-License-Identifier: Apache-2.0
//! One look at the node: why it was made, and what it came to. Plain data.

use crate::ready::judge::next_build::NextBuild;
use crate::ready::observation::{Identity, Observation};
use crate::ready::verdict::Verdict;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why there was a look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The first look.
    Start,
    /// Something happened at the marker or above it.
    Marker,
    /// Something happened at the driver container's files.
    Driver,
    /// Something happened at MOFED's headers or above them.
    Headers,
    /// A mount came or went.
    Mount,
    /// A module came or went: its name.
    Module(String),
    /// A PCI device came or went.
    Device,
    /// An RDMA device came or went.
    RdmaDevice,
    /// The kernel lost events, so anything may have happened.
    EventsLost,
    /// A module was on its way in or out at the last look.
    Transit,
    /// Somebody asked for a look (SIGHUP to `keep`).
    Asked,
    /// A time of the gate's own is due.
    Timer,
    /// No event at all: the slow look found it.
    SafetyNet,
}

impl Cause {
    /// Whether something has happened: the others are times.
    #[must_use]
    pub fn is_event(&self) -> bool {
        !matches!(self, Self::Transit | Self::Timer | Self::SafetyNet)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Marker => "marker event",
            Self::Driver => "driver event",
            Self::Headers => "headers event",
            Self::Mount => "mount event",
            Self::Module(name) => return write!(f, "module event: {name}"),
            Self::Device => "device event",
            Self::RdmaDevice => "RDMA device event",
            Self::EventsLost => "events lost",
            Self::Transit => "module in transit",
            Self::Asked => "SIGHUP",
            Self::Timer => "timer",
            Self::SafetyNet => "safety net",
        })
    }
}

/// One look as `--log-level trace` logs it, to be replayed through a gate later.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recorded {
    /// Milliseconds since the gate's start.
    pub at_ms: u64,
    /// Why there was a look.
    pub cause: Cause,
    /// The observation.
    pub seen: Observation,
}

/// One judged look.
#[derive(Clone, Debug)]
pub struct Look {
    /// The judged conditions.
    pub verdict: Verdict,
    /// Who was who, to see a break between two looks.
    pub identity: Identity,
    /// The driver container's next build, where it is known to matter.
    pub next_build: Option<NextBuild>,
}
