// SPDX-License-Identifier: Apache-2.0
//! `load`: holds until nvidia-peermem will load, loads it with the system's modprobe, and proves it live.

use super::held::{Held, Hold};
use super::last_words;
use crate::act::exec::Unrunnable;
use crate::act::modprobe::{Modprobe, Ran, Words};
use crate::condition::{ConditionType, Outcome, Reason, Status, Verdict};
use crate::ending::Ending;
use crate::gate::{Effect, Look, Opening};
use crate::judge::plan::{self, Plan};
use crate::judge::refusal::{Attempt, refusal};
use crate::observation::{Identity, ModuleFile, ModuleInfo, Observation};
use crate::probe::{self, KernelLog};
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

/// What one attempt came to.
enum Tried {
    Live(String, Option<u8>),
    /// For good.
    Refused(String),
    /// Worth another attempt once everything has held again.
    Again(String),
    Signal(u8),
    CannotRun(Unrunnable),
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
                Tried::Live(sentence, code) => {
                    tracing::info!("{sentence}");
                    return Finished::Live(code);
                }
                Tried::Refused(sentence) => return self.refused(&sentence, held.verdict()),
                Tried::Again(sentence) => {
                    tracing::warn!("not loaded yet: {sentence}");
                    last_try = format!("; not loaded before: {sentence}");
                    held.hold_on();
                }
                Tried::Signal(signal) => {
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
        if let Some(live) = held.verdict().and_then(live) {
            return Tried::Live(format!("already loaded: {live}"), None);
        }
        if let Some((why, remedy)) = probe::cannot_load(&self.hold.node.places, self.modprobe.root()) {
            return Tried::Refused(format!("not loaded: {why}; what to do: {remedy}"));
        }
        let plan = match self.plan(held) {
            Ok(plan) => plan,
            Err(tried) => return tried,
        };
        // The one look that counts: what follows it is the load itself.
        let settled = held.last_look().map(|look| look.identity.clone());
        let Some(before) = held.look_now() else {
            return Tried::Again("the last look was broken off".to_owned());
        };
        let objection = held.seen().and_then(|seen| self.objection(seen, &plan));
        let not_live = held.seen().and_then(|seen| plan::not_live(&plan, seen));
        if let Some(why) = changed(&before, settled.as_ref()) {
            return Tried::Again(why);
        }
        if let Some(why) = objection {
            return Tried::Refused(format!("not loaded: {why}"));
        }
        if let Some(name) = not_live {
            return Tried::Again(format!(
                "modprobe would load {name} as well, which is not live and not ours to load; what to do: load it, or take its \
                 softdep out of modprobe.d"
            ));
        }
        let log = KernelLog::from_now();
        tracing::info!("loading: {}", self.modprobe.shown(&self.arguments));
        let ran = match self.run_modprobe(&self.arguments, self.words, held) {
            Ok(ran) => ran,
            Err(why) => return Tried::CannotRun(why),
        };
        match ran.signal {
            Some(signal) => Tried::Signal(signal),
            None => prove(held, &before, &plan, &ran, log),
        }
    }

    /// What modprobe itself says that it would do.
    fn plan(&self, held: &Held) -> Result<Plan, Tried> {
        let mut arguments = vec![OsString::from("--show-depends")];
        arguments.extend(self.arguments.iter().cloned());
        match self.run_modprobe(&arguments, Words::Kept, held) {
            Ok(Ran { signal: Some(signal), .. }) => Err(Tried::Signal(signal)),
            Ok(Ran { code: 0, stdout, .. }) => Ok(plan::read(&stdout)),
            Ok(ran) => Err(Tried::Refused(format!(
                "not loaded: modprobe does not say what it would load ({}); what to do: run depmod in the driver's root, \
                 and see that kmod is its modprobe",
                ran.stderr.lines().last().unwrap_or_default()
            ))),
            Err(why) => Err(Tried::CannotRun(why)),
        }
    }

    fn run_modprobe(&self, arguments: &[OsString], words: Words, held: &Held) -> Result<Ran, Unrunnable> {
        let signals = held.wakes().signals();
        self.modprobe.run(arguments, words, signals.fd(), || signals.take_one())
    }

    /// What speaks against it.
    fn objection(&self, seen: &Observation, plan: &Plan) -> Option<String> {
        let inspected = file(seen).map(|(path, _)| path)?;
        let (root, places) = (self.modprobe.root(), &self.hold.node.places);
        plan::objection(plan, inspected, |planned| probe::is_same_file(root, planned, places, inspected))
    }
}

/// Whether it is live now; if not, why.
fn prove(held: &mut Held, before: &Look, plan: &Plan, ran: &Ran, log: KernelLog) -> Tried {
    let said = log.said();
    let info = held.seen().and_then(file).map(|(_, info)| info.clone());
    let after = match look_to_the_end(held) {
        Ok(after) => after,
        Err(signal) => return Tried::Signal(signal),
    };
    let peermem = after.verdict.get(ConditionType::PeermemUsable);
    let is_loaded =
        peermem.is_some_and(|c| matches!(c.reason, Reason::PeermemLive | Reason::LoadedOnGoneStack));
    if is_loaded {
        return match overlapped(before, &after) {
            None => {
                let message = peermem.map(|c| c.message.clone()).unwrap_or_default();
                Tried::Live(format!("loaded: {message}"), Some(ran.code))
            }
            Some(how) => Tried::Refused(format!(
                "loaded, but MOFED began to restart meanwhile ({how}): nvidia_peermem now holds its modules and keeps it \
                 from coming; what to do: `rmmod nvidia_peermem`"
            )),
        };
    }
    if ran.code == 0 {
        return Tried::Refused(
            "modprobe says that it succeeded, and nvidia_peermem is not live; what to do: look for an install line in \
             modprobe.d, and for what unloads it (k8s-driver-manager)"
                .to_owned(),
        );
    }
    let attempt = Attempt {
        code: ran.code,
        stderr: &ran.stderr,
        log: &said,
        file: info.as_ref(),
        others: &plan.others,
    };
    let why = refusal(&attempt);
    for line in ran.stderr.lines() {
        tracing::info!("modprobe: {line}");
    }
    for line in &why.lines {
        tracing::info!("kernel: {line}");
    }
    if why.transient { Tried::Again(why.to_string()) } else { Tried::Refused(format!("refused: {why}")) }
}

/// A look that only a signal breaks off: the marker's loss is what it may have to see.
fn look_to_the_end(held: &mut Held) -> Result<Look, u8> {
    loop {
        if let Some(look) = held.look_now() {
            return Ok(look);
        }
        if let Some(signal) = held.wakes().take_signal() {
            return Err(signal);
        }
    }
}

/// The message of a verdict that says it is live already.
fn live(verdict: &Verdict) -> Option<&str> {
    let condition = verdict.get(ConditionType::PeermemUsable)?;
    (condition.reason == Reason::PeermemLive).then_some(condition.message.as_str())
}

fn file(seen: &Observation) -> Option<(&Path, &ModuleInfo)> {
    match &seen.peermem.as_ref()?.file {
        ModuleFile::Read { path, info, .. } => Some((path, info)),
        _ => None,
    }
}

/// Why a look is no longer what everything settled to.
fn changed(look: &Look, settled: Option<&Identity>) -> Option<String> {
    if look.verdict.outcome != Outcome::Ready {
        let holding = look.verdict.deciding();
        return Some(
            holding.map_or_else(|| look.verdict.headline(), |c| format!("{}: {}", c.r#type, c.message)),
        );
    }
    settled.and_then(|settled| settled.difference(&look.identity))
}

/// What of MOFED changed while modprobe ran. What cannot be told at this moment has not changed.
fn overlapped(before: &Look, after: &Look) -> Option<String> {
    let mut identity = after.identity.clone();
    // Its own directory is new.
    identity.modules.remove("nvidia_peermem");
    let gone = after.verdict.holding().find(|c| c.status == Status::False);
    gone.map(|c| format!("{}: {}", c.r#type, c.message)).or_else(|| before.identity.difference(&identity))
}
