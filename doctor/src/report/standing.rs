// SPDX-License-Identifier: Apache-2.0
//! How a node stands, in one word: the first word of a report, which decides its exit code. `fleet` counts by it.

use crate::finding::Id;
use peermem_gate::ready::exit::Exit;
use serde::Serialize;
use std::fmt;

/// How a node stands, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// Something is wrong that does not pass by itself.
    Critical,
    /// Something is wrong, or suspicious.
    Warning,
    /// Nothing is wrong, and something is not finished.
    Waiting,
    /// Something that decides cannot be read.
    Unknown,
    /// Nothing is wrong.
    Ok,
}

/// A finding as far as it decides: of this program's own reports, and of those that `fleet` reads.
#[derive(Clone, Copy, Debug)]
pub struct StandingFinding<'a> {
    /// Its name.
    pub id: &'a str,
    /// Its severity, in lower case.
    pub severity: &'a str,
    /// No other finding is its cause.
    pub is_root: bool,
}

impl Standing {
    /// Every one there is.
    pub const ALL: [Self; 5] = [Self::Critical, Self::Warning, Self::Waiting, Self::Unknown, Self::Ok];

    /// By the gate's verdict and the findings; `None` for a report of `check`, which has none.
    pub fn of<'a>(verdict: &str, findings: Option<impl IntoIterator<Item = StandingFinding<'a>>>) -> Self {
        let by_gate = match verdict {
            "Ready" | "NotApplicable" => Self::Ok,
            // A driver that is being built cures a missing file: only without findings, nothing speaks for that.
            "Blocked" if findings.is_none() => Self::Critical,
            "Waiting" | "Blocked" => Self::Waiting,
            _ => Self::Unknown,
        };
        let by_finding = |finding: StandingFinding<'_>| match finding.severity {
            "critical" if finding.is_root => Self::Critical,
            "warning" if finding.is_root => Self::Warning,
            // Nothing is wrong in a chain that is not at its end, and yet no pod gets a GPU.
            _ if finding.id == Id::ChainUnderWay.name() => Self::Waiting,
            // An all-clear is earned: a sign that cannot be seen is none.
            _ if finding.id == Id::NotJudged.name() && finding.is_root => Self::Unknown,
            _ => Self::Ok,
        };
        findings.into_iter().flatten().map(by_finding).fold(by_gate, Self::min)
    }

    /// How a program ends that reports this.
    pub fn exit(self) -> Exit {
        match self {
            Self::Critical | Self::Warning | Self::Waiting => Exit::NotReady,
            Self::Unknown => Exit::CannotTell,
            Self::Ok => Exit::Opened,
        }
    }

    /// In lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Waiting => "waiting",
            Self::Unknown => "unknown",
            Self::Ok => "ok",
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name().to_uppercase())
    }
}
