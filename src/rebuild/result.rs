// SPDX-License-Identifier: Apache-2.0
//! How a rebuild ends, and what follows from that: for `load`, `keep`, the log, the metrics and the next attempt.

use super::{Kind, Obstacle, RebuildLabel};
use crate::ready::gate::Rebuilt;
use crate::ready::time::BootTime;

/// The result of a rebuild.
#[derive(Debug)]
pub enum RebuildResult {
    /// A usable file is installed.
    Installed(String),
    /// Our file is removed, and modprobe finds the usable one behind it.
    Undone(String),
    /// Something is in the way; nothing was built.
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

impl RebuildResult {
    /// The label of `keep`'s metrics.
    #[must_use]
    pub fn label(&self) -> RebuildLabel {
        match self {
            Self::Installed(_) => RebuildLabel::Installed,
            Self::Undone(_) => RebuildLabel::Undone,
            Self::Refused(_) => RebuildLabel::Refused,
            Self::Failed(_) | Self::Passing(_) => RebuildLabel::Failed,
            Self::TimedOut(_) => RebuildLabel::TimedOut,
            Self::Deadline(_) | Self::Swapping(_) | Self::Signal(..) => RebuildLabel::BrokenOff,
        }
    }

    /// The obstacle, if one was in the way.
    #[must_use]
    pub fn obstacle(&self) -> Option<Kind> {
        if let Self::Refused(obstacle) = self { Some(obstacle.kind) } else { None }
    }

    /// The same, as far as the gate must know: whether the file is usable now, and whether another rebuild may end
    /// otherwise.
    #[must_use]
    pub fn for_gate(&self) -> Rebuilt {
        match self {
            Self::Installed(_) | Self::Undone(_) => Rebuilt::Usable,
            Self::Passing(_) | Self::TimedOut(_) => Rebuilt::Later,
            Self::Refused(obstacle) if obstacle.kind.passes() => Rebuilt::Neither,
            Self::Refused(_) | Self::Failed(_) => Rebuilt::Obstructed,
            Self::Swapping(_) | Self::Deadline(_) | Self::Signal(..) => Rebuilt::Neither,
        }
    }

    /// The result and its remedy, in words.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Installed(message) | Self::Undone(message) => message.clone(),
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
