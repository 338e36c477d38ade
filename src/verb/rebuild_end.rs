// SPDX-License-Identifier: Apache-2.0
//! How a rebuild ends, for the log, the metrics and the next attempt.

use crate::rebuild::{Conclusion, Obstacle};
use crate::time::BootTime;

/// The result of a rebuild.
#[derive(Debug)]
pub(super) enum RebuildEnd {
    /// A usable file is installed.
    Installed(String),
    /// The driver toolkit builds again.
    Ordered(String),
    /// Our file is removed, and modprobe finds the usable one behind it.
    Undone(String),
    Refused(Obstacle),
    /// The rebuild would fail again with the same MOFED, nvidia and kernel.
    Failed(String),
    /// The build used up its time.
    TimedOut(String),
    /// The failure is temporary: it is tried again.
    Passing(String),
    /// The deadline passed before the rebuild ended.
    Deadline(String),
    /// MOFED began to swap its modules.
    Swapping(String),
    /// A signal came, and when.
    Signal(u8, BootTime),
}

impl RebuildEnd {
    pub(super) fn conclusion(&self) -> Conclusion {
        match self {
            Self::Installed(_) => Conclusion::Installed,
            Self::Ordered(_) => Conclusion::Ordered,
            Self::Undone(_) => Conclusion::Undone,
            Self::Refused(_) => Conclusion::Refused,
            Self::Failed(_) | Self::Passing(_) => Conclusion::Failed,
            Self::TimedOut(_) => Conclusion::TimedOut,
            Self::Deadline(_) | Self::Swapping(_) | Self::Signal(..) => Conclusion::BrokenOff,
        }
    }

    /// The result and its remedy, in words.
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Installed(message) | Self::Ordered(message) | Self::Undone(message) => message.clone(),
            Self::Refused(obstacle) => format!("not rebuilt: {obstacle}"),
            Self::Failed(why) => format!("the rebuild failed: {why}"),
            Self::TimedOut(why) => format!("the rebuild took too long: {why}"),
            Self::Passing(why) => format!("the rebuild failed, and may succeed later: {why}"),
            Self::Deadline(why) => format!("the rebuild was interrupted, nothing is installed: {why}"),
            Self::Swapping(how) => format!("the rebuild was interrupted, nothing is installed: {how}"),
            Self::Signal(signal, _) => {
                format!("the rebuild was interrupted by signal {signal}, nothing is installed")
            }
        }
    }
}
