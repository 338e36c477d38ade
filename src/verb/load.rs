// SPDX-License-Identifier: Apache-2.0
//! `load`: holds until nvidia-peermem will load, loads it with the system's modprobe, and proves it live.

use super::attempt::{Loader, Tried};
use super::held::{Held, Hold};
use super::last_words;
use crate::act::exec::Unrunnable;
use crate::act::modprobe::{Modprobe, Ran, Words};
use crate::condition::{ConditionType, Outcome, Reason, Verdict};
use crate::ending::Ending;
use crate::gate::{Effect, Opening};
use crate::probe;
use crate::wake::Signals;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Everything that a load was asked for.
#[derive(Debug)]
pub struct Load {
    /// What to hold for.
    pub hold: Hold,
    /// The modprobe to run, and where.
    pub modprobe: Modprobe,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// What becomes of its words.
    pub words: Words,
    /// Where the last words go.
    pub termination_log: Option<PathBuf>,
}

/// How a load came out.
#[derive(Debug)]
pub enum Finished {
    /// `nvidia_peermem` is live. What modprobe ended with, if it had to be run.
    Live(Option<u8>),
    /// The gate opened, and there was nothing to load or it was not to be loaded.
    Open,
    /// It did not come to that.
    Ended(Ending),
}

/// Loads without a look, as modprobe alone would have.
///
/// # Errors
/// When modprobe cannot be run.
pub fn disabled(
    reason: &str,
    modprobe: &Modprobe,
    arguments: &[OsString],
    termination_log: Option<&Path>,
    signals: &Signals,
) -> Result<Ending, Unrunnable> {
    tracing::warn!("loading without a look: the gate is disabled: {reason}");
    let ran = modprobe.run(arguments, Words::Passed, signals.fd(), || signals.take_one())?;
    Ok(match ran {
        Ran { signal: Some(signal), .. } => Ending::Signal(signal),
        Ran { code: 0, .. } => Ending::Opened,
        ran => {
            let sentence = format!("modprobe ended with {}: {}", ran.code, ran.stderr.trim_end());
            tracing::error!("{sentence}");
            last_words(termination_log, Ending::Blocked, &sentence, None)
        }
    })
}

impl Load {
    /// Holds, loads, proves.
    #[must_use]
    pub fn run(&self, signals: Signals) -> Finished {
        let mut held = Held::new(&self.hold, signals);
        if let Some(sentence) = self.hopeless(&mut held) {
            return self.refused(&sentence, None);
        }
        let mut last_try = String::new();
        loop {
            match held.hold() {
                Effect::Open(Opening::Ready) => {}
                Effect::Open(_) => return self.open(&held),
                Effect::End(ending) => return self.ended(&held, ending, &last_try),
                Effect::Say(_) | Effect::Publish => continue,
            }
            match self.attempt(&mut held) {
                Tried::Overlapped(how) => {
                    let sentence = format!(
                        "loaded, but MOFED began to restart meanwhile ({how}): nvidia_peermem now holds its modules and keeps \
                         it from coming; what to do: `rmmod nvidia_peermem`"
                    );
                    return self.refused(&sentence, held.verdict());
                }
                Tried::Live(sentence, code) => {
                    tracing::info!("{sentence}");
                    return Finished::Live(code);
                }
                Tried::Refused(why) => return self.refused(&why.sentence, held.verdict()),
                Tried::Again(why) => {
                    let sentence = why.sentence;
                    tracing::warn!("not loaded yet: {sentence}");
                    last_try = format!("; not loaded before: {sentence}");
                    held.hold_on();
                }
                Tried::Signal(signal, _) => {
                    let ending = held.signalled(signal);
                    return self.ended(&held, ending, self.whether_it_is_there());
                }
                Tried::CannotRun(why) => return self.cannot_run(&why),
            }
        }
    }

    /// A signal came while modprobe ran: what it leaves behind must not go unnoticed.
    fn whether_it_is_there(&self) -> &'static str {
        if probe::is_listed(&self.hold.node.places) {
            tracing::warn!("nvidia_peermem is there: it holds MOFED's modules from now on");
            "; nvidia_peermem is there and holds MOFED's modules"
        } else {
            "; nvidia_peermem is not loaded"
        }
    }

    /// There is nothing to wait for where nothing can be loaded; unless there is nothing to load.
    fn hopeless(&self, held: &mut Held) -> Option<String> {
        let (why, remedy) = probe::cannot_load(&self.hold.node.places, self.modprobe.root())
            .filter(|_| !self.hold.policy.dry_run)?;
        let verdict = held.look_now()?.verdict;
        let peermem = verdict.get(ConditionType::PeermemUsable).map(|c| c.reason);
        let is_done = verdict.outcome == Outcome::NotApplicable
            || matches!(peermem, Some(Reason::PeermemLive | Reason::LoadedOnGoneStack));
        (!is_done).then(|| format!("give up: {why}; what to do: {remedy}"))
    }

    fn cannot_run(&self, why: &Unrunnable) -> Finished {
        tracing::error!("{}", why.message);
        let log = self.termination_log.as_deref();
        Finished::Ended(last_words(log, why.ending, &why.message, None))
    }

    fn open(&self, held: &Held) -> Finished {
        // A signal that came while opening is heeded.
        match held.wakes().restore_signals() {
            Some(signal) => self.ended(held, Ending::Signal(signal), ""),
            None => Finished::Open,
        }
    }

    fn ended(&self, held: &Held, ending: Ending, last_try: &str) -> Finished {
        let log = self.termination_log.as_deref();
        let sentence = format!("{}{last_try}", held.last_words());
        Finished::Ended(last_words(log, ending, &sentence, held.verdict()))
    }

    fn refused(&self, sentence: &str, verdict: Option<&Verdict>) -> Finished {
        tracing::error!("{sentence}");
        Finished::Ended(last_words(self.termination_log.as_deref(), Ending::Blocked, sentence, verdict))
    }

    fn attempt(&self, held: &mut Held) -> Tried {
        let mut loader = Loader {
            modprobe: &self.modprobe,
            arguments: &self.arguments,
            words: self.words,
            meanwhile: &mut |_| {},
        };
        loader.attempt(&mut held.watch, &held.gate)
    }
}
