// SPDX-License-Identifier: Apache-2.0
//! How long a keep stays; and the one that ends, which is `load`: its gate says when to load and when to give up, and
//! with the first load that is proved it is done.

use super::{Action, Keep, Response};
use crate::keeper::attempt::{LoadFailure, LoadResult, Why};
use crate::ready::gate::{Effect, Level, Opening};
use crate::ready::look::{Cause, Look};
use crate::ready::time::{BootTime, Seconds};

/// How long a keep stays, and what it does for others meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// Until a signal: it unloads the module for MOFED and the driver, and loads it again.
    Yields,
    /// Until a signal: it only loads (`--no-yield`).
    NeverUnloads,
    /// Until the module is live, the policy's deadline, or a refusal. It never unloads.
    UntilLoaded,
}

impl Stay {
    /// Of a service, with `--no-yield` or without it.
    #[must_use]
    pub fn of_service(no_yield: bool) -> Self {
        if no_yield { Self::NeverUnloads } else { Self::Yields }
    }
}

impl Keep {
    /// Time has passed, and perhaps there was a look: the gate of a keep that ends decides.
    pub fn step(&mut self, now: BootTime, cause: &Cause, look: Option<Look>) -> Response {
        let mut response = Response::default();
        for effect in self.gate.step(now, cause, look) {
            match effect {
                Effect::Last(Ok(Opening::Ready)) => response.action = Some(Action::Load),
                Effect::Last(Ok(Opening::ForRebuild)) => response.action = Some(Action::Rebuild),
                effect => response.effects.push(effect),
            }
        }
        response
    }

    /// A signal ends a keep that ends.
    pub fn signaled(&mut self, now: BootTime, signal: u8) -> Vec<Effect> {
        self.gate.signaled(now, signal)
    }

    /// How a keep that ends takes in the result of a load: it ends with it, or waits until its gate opens again.
    pub(super) fn ended(&mut self, now: BootTime, done: LoadResult) -> Vec<Effect> {
        let last = done.last();
        let (level, text) = match done {
            LoadResult::Live(text, _) => (Level::Info, text),
            LoadResult::Again(why) => {
                self.gate.opening_failed();
                let pause = self.gate.rebuilds_from().saturating_sub(now);
                let is_paused = why.failure == LoadFailure::Rebuild && !pause.is_zero();
                let follows = format!("; another attempt follows in {}", Seconds(pause));
                let follows = if is_paused { follows } else { String::new() };
                (Level::Warn, format!("not loaded yet: {}{follows}", why.sentence))
            }
            LoadResult::Signal(signal, _) => return self.signaled(now, signal),
            LoadResult::Overlapped(how) => {
                let text = format!(
                    "loaded, but MOFED began to restart meanwhile ({how}): nvidia_peermem now pins its modules and \
                     keeps it from starting; what to do: run `rmmod nvidia_peermem`"
                );
                (Level::Error, text)
            }
            LoadResult::Late(why) => (Level::Error, format!("gave up: {why}")),
            LoadResult::Refused(Why { sentence: text, .. }) | LoadResult::CannotRun { message: text, .. } => {
                (Level::Error, text)
            }
        };
        [Effect::Log(self.line(now, level, text, None))].into_iter().chain(last.map(Effect::Last)).collect()
    }
}
