// SPDX-License-Identifier: Apache-2.0
//! How the program ends. The exit codes are here and nowhere else.

use crate::ready::verdict::Outcome;

/// Every way to end; [`Exit::code`] is what the caller sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Ready, opened, or the gate does not apply.
    Opened,
    /// `check`, `doctor`: something is not so.
    NotReady,
    /// `check`, `doctor`: nothing is known to be wrong, but something that counts cannot be seen.
    CannotTell,
    /// Bad usage, bad value, unknown variable.
    Refused,
    /// Waiting cannot cure it.
    Blocked,
    /// The deadline passed.
    TimedOut,
    /// The gate itself failed.
    Failed,
    /// CMD is there but cannot be run.
    NotExecutable,
    /// CMD is not there.
    NotFound,
    /// Ended by this signal while waiting.
    Signal(u8),
    /// The exit code of another process: modprobe, or our own that looks at the node.
    Passed(u8),
}

impl Exit {
    /// The exit code. 124, 126, 127 and 128+n are timeout(1)'s and the shell's; 0, 1 and 2 of
    /// `check` are node-problem-detector's OK, `NonOK` and Unknown.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Opened => 0,
            Self::NotReady => 1,
            Self::CannotTell | Self::Refused => 2,
            Self::Blocked => 3,
            Self::TimedOut => 124,
            Self::Failed => 125,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
            Self::Signal(signal) => 128 + signal,
            Self::Passed(code) => code,
        }
    }

    /// How `check` ends on an outcome.
    #[must_use]
    pub fn of_check(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Ready | Outcome::NotApplicable => Self::Opened,
            Outcome::Waiting | Outcome::Blocked => Self::NotReady,
            Outcome::Unknown => Self::CannotTell,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
