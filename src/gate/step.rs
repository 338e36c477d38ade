// SPDX-License-Identifier: Apache-2.0
//! What goes into a gate's step and what comes out of it: data alone.

use crate::condition::{ConditionType, Reason, Verdict};
use crate::ending::Ending;
use crate::observation::{Identity, Observation};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Why there was a look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The first look.
    Start,
    /// Something happened at the marker or above it.
    Marker,
    /// A mount came or went.
    Mount,
    /// A module came or went: its name.
    Module(String),
    /// A PCI device came or went.
    Device,
    /// The kernel lost events, so that anything may have happened.
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

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Marker => "marker event",
            Self::Mount => "mount event",
            Self::Module(name) => return write!(f, "module event: {name}"),
            Self::Device => "device event",
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
    /// What it saw.
    pub seen: Observation,
}

/// One judged look.
#[derive(Clone, Debug)]
pub struct Look {
    /// What it came to.
    pub verdict: Verdict,
    /// Who was who, to see a break between two looks.
    pub identity: Identity,
}

/// Why the gate opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Everything held.
    Ready,
    /// The gate has no business here.
    NotApplicable,
    /// The time is up and `--on-timeout=proceed`.
    TimedOut,
    /// `--dry-run`.
    DryRun,
}

/// How loud a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Level {
    Info,
    Warn,
    Error,
}

/// One line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How loud.
    pub level: Level,
    /// The sentence.
    pub text: String,
    /// The condition that it speaks of, and its reason.
    pub about: Option<(ConditionType, Reason)>,
    /// What led to it.
    pub cause: Option<Cause>,
    /// Time since the gate's start.
    pub elapsed: Duration,
}

/// What is to be done after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Log this.
    Say(Line),
    /// The published state changed.
    Publish,
    /// Open, and step no more.
    Open(Opening),
    /// End, and step no more.
    End(Ending),
}
