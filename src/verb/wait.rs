// SPDX-License-Identifier: Apache-2.0
//! `wait`: holds until MOFED is ready; then exits, or becomes CMD.

use super::held::{Held, Hold};
use super::last_words;
use crate::act::exec::Program;
use crate::ending::Ending;
use crate::gate::Effect;
use crate::wake::Signals;
use std::path::PathBuf;

/// What is behind the gate, and where the last words go.
#[derive(Debug)]
pub struct Door {
    /// What to become; without it, the gate exits.
    pub program: Option<Program>,
    /// The termination log.
    pub termination_log: Option<PathBuf>,
}

impl Door {
    /// Opens without a look.
    #[must_use]
    pub fn disabled(&self, reason: &str, signals: &Signals) -> Ending {
        tracing::warn!("open: the gate is disabled: {reason}");
        self.open(signals.restore())
    }

    /// Becomes CMD, unless a signal came at the last moment.
    fn open(&self, signal: Option<u8>) -> Ending {
        if let Some(signal) = signal {
            let sentence = format!("ended by signal {signal} while opening");
            tracing::warn!("{sentence}");
            return last_words(self.termination_log.as_deref(), Ending::Signal(signal), &sentence, None);
        }
        let Some(program) = &self.program else { return Ending::Opened };
        let failed = program.become_it();
        tracing::error!("{}", failed.message);
        last_words(self.termination_log.as_deref(), failed.ending, &failed.message, None)
    }
}

/// Waits, and returns only when there is no CMD to become.
#[must_use]
pub fn run(asked: &Hold, door: &Door, signals: Signals) -> Ending {
    let mut held = Held::new(asked, signals);
    match held.hold() {
        Effect::End(ending) => {
            last_words(door.termination_log.as_deref(), ending, held.last_words(), held.verdict())
        }
        _ => door.open(held.wakes().restore_signals()),
    }
}
