// SPDX-License-Identifier: Apache-2.0
//! What a keep that ends has to say at its end.

use crate::keeper::attempt::{LoadFailure, LoadResult, Why};
use crate::ready::exit::Exit;
use crate::ready::observation::Unreadable;

/// Gathered on the way.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// The last logged line.
    pub(super) last_line: String,
    /// What modprobe ended with, if it had to run.
    pub(super) code: Option<u8>,
    /// The attempt before this wait.
    failed: Option<Why>,
    /// Whether the module is there, where a signal or the deadline came while modprobe ran.
    left: String,
}

impl Ending {
    /// An attempt has ended so; whether the module is listed now is asked where that is not known.
    pub(super) fn note(&mut self, done: &LoadResult, is_listed: impl FnOnce() -> Result<bool, Unreadable>) {
        self.failed = None;
        match done {
            LoadResult::Live(_, code) => self.code = *code,
            LoadResult::Again(why) => self.failed = Some(why.clone()),
            LoadResult::Late(_) | LoadResult::Signal(..) => self.left = left_behind(is_listed()),
            LoadResult::Overlapped(_) | LoadResult::Refused(_) | LoadResult::CannotRun { .. } => {}
        }
    }

    /// The last words. The failure of a rebuild comes before the fault that it was to cure, whose remedies are long.
    pub(super) fn sentence(&self, exit: Exit) -> String {
        let Self { last_line, failed, left, .. } = self;
        match failed {
            Some(why) if why.failure == LoadFailure::Rebuild && exit == Exit::TimedOut => {
                format!("{}; {last_line}", why.sentence)
            }
            Some(why) => format!("{last_line}; not loaded before: {}", why.sentence),
            None => format!("{last_line}{left}"),
        }
    }
}

/// Whether the module was loaded: a signal came while modprobe ran, or modprobe hangs.
fn left_behind(is_listed: Result<bool, Unreadable>) -> String {
    match is_listed {
        Ok(true) => {
            tracing::warn!("nvidia_peermem was loaded and now pins MOFED's modules");
            "; nvidia_peermem was loaded and now pins MOFED's modules".to_owned()
        }
        Ok(false) => "; nvidia_peermem is not loaded".to_owned(),
        Err(why) => format!("; whether nvidia_peermem is loaded is unknown: {why}"),
    }
}
