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

/// The next step of the verb that rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// A load: the file is usable now.
    Load,
    /// Another rebuild once every other condition is met again.
    Wait,
    /// The same after a pause, longer each time.
    Pause,
    /// None: the next rebuild would end the same, until somebody acts. A process that stays asks again.
    GiveUp,
    /// None: the time is up.
    TimeOut,
    /// The end of the verb, by this signal that came at this time.
    End(u8, BootTime),
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
        match self {
            Self::Refused(obstacle) => Some(obstacle.kind),
            _ => None,
        }
    }

    /// The verb's next step.
    #[must_use]
    pub fn next_step(&self) -> NextStep {
        match self {
            Self::Installed(_) | Self::Undone(_) => NextStep::Load,
            Self::Swapping(_) => NextStep::Wait,
            Self::Refused(obstacle) if obstacle.kind.passes() => NextStep::Wait,
            Self::Passing(_) | Self::TimedOut(_) => NextStep::Pause,
            Self::Refused(_) | Self::Failed(_) => NextStep::GiveUp,
            Self::Deadline(_) => NextStep::TimeOut,
            Self::Signal(signal, since) => NextStep::End(*signal, *since),
        }
    }

    /// The same, as far as the gate must know.
    #[must_use]
    pub fn for_gate(&self) -> Rebuilt {
        match self.next_step() {
            NextStep::Load => Rebuilt::Usable,
            NextStep::Pause => Rebuilt::Later,
            NextStep::GiveUp => Rebuilt::Obstructed,
            NextStep::Wait | NextStep::TimeOut | NextStep::End(..) => Rebuilt::Neither,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_end_that_may_be_another_next_time_is_followed_by_another_rebuild() {
        let refused = |kind| RebuildResult::Refused(Obstacle::new(kind, "as the test says"));
        let text = String::new;
        for (end, next) in [
            (RebuildResult::Installed(text()), NextStep::Load),
            (RebuildResult::Undone(text()), NextStep::Load),
            (RebuildResult::Swapping(text()), NextStep::Wait),
            (refused(Kind::Busy), NextStep::Wait),
            (RebuildResult::Passing(text()), NextStep::Pause),
            (RebuildResult::TimedOut(text()), NextStep::Pause),
            (refused(Kind::SourcesMissing), NextStep::GiveUp),
            (RebuildResult::Failed(text()), NextStep::GiveUp),
            (RebuildResult::Deadline(text()), NextStep::TimeOut),
            (RebuildResult::Signal(15, BootTime::ZERO), NextStep::End(15, BootTime::ZERO)),
        ] {
            assert_eq!(end.next_step(), next, "{end:?}");
        }
    }
}
