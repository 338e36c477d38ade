// SPDX-License-Identifier: Apache-2.0
//! Input and output of a gate's step: only data.

use crate::ready::condition::{ConditionType, Reason};
use crate::ready::exit::Exit;
use crate::ready::look::Cause;
use std::time::Duration;

/// Why the gate opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Every condition was met.
    Ready,
    /// The gate has no business here.
    NotApplicable,
    /// The time is up and `--on-timeout=proceed`.
    TimedOut,
    /// `--dry-run`.
    DryRun,
    /// Every condition but that of nvidia-peermem.ko was met, and a rebuild may cure that.
    ForRebuild,
}

/// The end of a rebuild, as far as the gate must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebuilt {
    /// The file is usable now.
    Usable,
    /// Its failure may pass: after a pause it is tried again.
    Later,
    /// Somebody has to act first: after a pause it is asked again.
    Obstructed,
    /// Neither: what follows is not the gate's.
    Neither,
}

/// How loud a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Level {
    Debug,
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
    /// The condition that the line is about, and its reason.
    pub about: Option<(ConditionType, Reason)>,
    /// The cause of the look.
    pub cause: Option<Cause>,
    /// Time since the gate's start.
    pub elapsed: Duration,
}

/// An effect of a step, for the caller to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Log this.
    Log(Line),
    /// The published state changed.
    Publish,
    /// How it ends: step no more.
    Last(Last),
}

/// How a gate ends: it opens, or it does not.
pub type Last = Result<Opening, Exit>;

impl Effect {
    /// How the gate ends, if this ends it.
    #[must_use]
    pub fn last(&self) -> Option<Last> {
        if let Self::Last(last) = self { Some(*last) } else { None }
    }
}
