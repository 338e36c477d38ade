// SPDX-License-Identifier: Apache-2.0
//! `keep`: loads, stays, lets go of `nvidia_peermem` when MOFED is about to swap its modules, and loads
//! again after. [`crate::keep`] decides; here is what it sees and does.

use super::attempt::{Loader, Tried};
use super::held::Hold;
use super::last_words;
use super::outlets::{self, Outlets};
use super::vigil::Vigil;
use super::watch::Watch;
use crate::act::exec::Unrunnable;
use crate::act::log;
use crate::act::modprobe::{Modprobe, Words};
use crate::act::notify::Manager;
use crate::condition::Outcome;
use crate::ending::Ending;
use crate::gate::{BootTime, Cause, Effect, Seconds};
use crate::judge::swap::Presence;
use crate::keep::{Action, Done, Keep, State, Step};
use crate::probe;
use crate::wake::{Signals, Wake, now};
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Told to end, it ends within a second: what modprobe is given of it.
const PATIENCE: Duration = Duration::from_millis(500);
/// And an unload that is under way, which is better finished than broken off.
const UNLOAD: Duration = Duration::from_millis(700);
/// What rmmod is given then: one that hangs in the kernel ends on no signal.
const RMMOD: Duration = Duration::from_millis(100);
/// What a load and an unload take less than. Of one that lasts longer it is told, and again after ten times as
/// long.
const SLOW: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(200));
/// Of one that lasts longer than this the service manager is told nothing good any more: its watchdog goes unfed.
/// The kernel itself may wait half a minute for a module on which another depends.
const HUNG: (Duration, Duration) = (Duration::from_secs(45), Duration::from_secs(30));

/// Where kmod's programs are looked for.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The GPU driver's root.
    pub root: PathBuf,
    /// `PATH`.
    pub path: Option<OsString>,
    /// `--modprobe`.
    pub modprobe: Option<PathBuf>,
}

impl Tools {
    fn modprobe(&self) -> Result<Modprobe, Unrunnable> {
        Modprobe::find(&self.root, self.path.as_deref(), self.modprobe.as_deref())
    }

    /// Where modprobe is. The driver's root may be gone by then, and an unload needs nothing of it: so
    /// our own will do.
    fn rmmod(&self) -> Result<Modprobe, Unrunnable> {
        let path = self.path.as_deref();
        let own = || Modprobe::rmmod(Path::new("/"), path);
        let rmmod = Modprobe::rmmod(&self.root, path).or_else(|why| own().map_err(|_| why))?;
        Ok(rmmod.with_patience(RMMOD))
    }
}

/// Everything that `keep` was asked for.
#[derive(Debug)]
pub struct Service {
    /// The node, how to behave in time, and the metrics file.
    pub hold: Hold,
    /// Where modprobe and rmmod are.
    pub tools: Tools,
    /// The module's parameters.
    pub parameters: Vec<OsString>,
    /// Never unload.
    pub no_yield: bool,
    /// Unload when told to end.
    pub unload_on_exit: bool,
    /// Where the report goes.
    pub status_file: Option<PathBuf>,
    /// Where the last words go.
    pub termination_log: Option<PathBuf>,
}

impl Service {
    /// Stays until it is told to end.
    ///
    /// # Errors
    /// When modprobe or rmmod is missing in a root that will not change.
    pub fn run(&self, mut signals: Signals) -> Result<Ending, Unrunnable> {
        // What was killed left its own behind, and this one may end before it has anything to tell.
        outlets::clear(self);
        // A driver's container shows its root only once the driver is installed.
        if self.tools.root == Path::new("/") {
            self.tools.modprobe()?;
            if !self.no_yield {
                self.tools.rmmod()?;
            }
        }
        signals.serve();
        Ok(Kept::new(self, signals).run())
    }
}

/// A service under way.
struct Kept<'a> {
    asked: &'a Service,
    watch: Watch<'a>,
    keep: Keep,
    /// Found beforehand: an unload must not wait for it.
    rmmod: Option<Modprobe>,
    manager: Manager,
    outlets: Outlets<'a>,
    /// A signal that came while something else was under way, and when.
    told: Option<(u8, BootTime)>,
}

impl<'a> Kept<'a> {
    fn new(asked: &'a Service, signals: Signals) -> Self {
        let watch = Watch::new(&asked.hold.node, signals);
        let keep = Keep::new(asked.hold.policy.clone(), asked.no_yield, watch.started());
        Self {
            asked,
            watch,
            keep,
            rmmod: None,
            manager: Manager::of_environment(),
            outlets: Outlets::new(asked),
            told: None,
        }
    }

    fn run(&mut self) -> Ending {
        if let Some(sentence) = self.hopeless() {
            tracing::error!("{sentence}");
            return last_words(self.asked.termination_log.as_deref(), Ending::Blocked, &sentence, None);
        }
        if !self.asked.no_yield {
            self.watch.be_alert();
        }
        if self.watch.applies() {
            self.keep.applies();
        }
        let (mut cause, mut is_ready) = (Some(Cause::Start), false);
        loop {
            if let Some(Cause::Asked) = &cause {
                self.keep.ask();
            }
            let attended = match &cause {
                Some(cause) => self.attend(cause),
                None => ControlFlow::Continue(()),
            };
            let beat = self.keep.tick(now());
            let carried = attended.is_continue().then(|| self.carry_out(beat));
            if let ControlFlow::Break(ending) = carried.unwrap_or(attended) {
                return self.end(ending);
            }
            if !is_ready && self.keep.verdict().is_some() {
                is_ready = true;
                self.manager.ready();
            }
            self.manager.attend();
            if let Some((signal, since)) = self.told {
                return self.told_to_end(signal, since);
            }
            cause = match self.watch.sleep(self.due()) {
                Wake::Signal(signal) => return self.told_to_end(signal, now()),
                Wake::Event(cause) => Some(cause),
                Wake::Due => self.watch.due_cause(self.keep.next_look()),
            };
        }
    }

    /// There is nothing to stay for where nothing can be loaded; unless there is nothing to load.
    fn hopeless(&mut self) -> Option<String> {
        let (why, remedy) = probe::cannot_load(&self.asked.hold.node.places, &self.asked.tools.root)?;
        let outcome = loop {
            if let Some(look) = self.watch.look(&Cause::Start, None) {
                break look.verdict.outcome;
            }
            // A signal broke it off, or the marker's loss.
            self.told = self.watch.wakes().take_signal().map(|signal| (signal, now()));
            if self.told.is_some() {
                return None;
            }
        };
        (outcome != Outcome::NotApplicable).then(|| format!("give up: {why}; what to do: {remedy}"))
    }

    fn due(&self) -> Option<BootTime> {
        let own = [self.keep.next_look(), Some(self.keep.next_heartbeat()), self.manager.next_due()];
        own.into_iter().flatten().min()
    }

    /// First what cannot wait, by a glimpse; then a whole look, and another after all that is done.
    fn attend(&mut self, cause: &Cause) -> ControlFlow<Ending> {
        if *cause != Cause::SafetyNet {
            self.glimpse(cause)?;
        }
        let mut cause = cause;
        // Told to end meanwhile, it does not begin with anything else.
        while self.told.is_none() {
            let Some(look) = self.watch.look(cause, self.keep.verdict()) else { break };
            let Some(sight) = self.watch.sight(look) else { break };
            let step = self.keep.look(now(), cause, sight);
            let is_done = step.action.is_none();
            self.take(step)?;
            if is_done || self.told.is_some() {
                break;
            }
            cause = &Cause::Timer;
            self.glimpse(cause)?;
        }
        if self.rmmod.is_none() && self.keep.state() == State::Loaded {
            self.rmmod = self.asked.tools.rmmod().ok();
        }
        ControlFlow::Continue(())
    }

    fn glimpse(&mut self, cause: &Cause) -> ControlFlow<Ending> {
        let glimpse = self.watch.glimpse();
        let step = self.keep.glimpse(now(), cause, &glimpse);
        self.take(step)
    }

    /// The action, then the lines.
    fn take(&mut self, step: Step) -> ControlFlow<Ending> {
        let Step { action, mut effects } = step;
        match action {
            Some(Action::Unload) => {
                let done = self.unload(&mut effects);
                effects.extend(self.keep.done(now(), done));
            }
            Some(Action::Load) => {
                self.carry_out(effects)?;
                effects = match self.load() {
                    Some(done) => self.keep.done(now(), done),
                    None => Vec::new(),
                };
            }
            None => {}
        }
        self.carry_out(effects)
    }

    fn carry_out(&mut self, effects: Vec<Effect>) -> ControlFlow<Ending> {
        let mut is_new = false;
        for effect in effects {
            match effect {
                Effect::Say(line) => log::say(&line),
                Effect::Publish | Effect::Open(_) => is_new = true,
                Effect::End(ending) => return ControlFlow::Break(ending),
            }
        }
        if is_new {
            self.outlets.publish(&self.keep, &self.watch, &self.manager);
        }
        ControlFlow::Continue(())
    }

    /// `None` when a signal broke it off.
    fn load(&mut self) -> Option<Done> {
        let modprobe = match self.asked.tools.modprobe() {
            Ok(modprobe) => modprobe.with_patience(PATIENCE),
            Err(why) => return Some(Done::Postponed("NoModprobe", why.message)),
        };
        let arguments = [&["nvidia-peermem".into()], self.asked.parameters.as_slice()].concat();
        let (keep, manager, outlets) = (&self.keep, &self.manager, &mut self.outlets);
        let mut vigil = Vigil::over("loading nvidia_peermem", SLOW.0, HUNG.0);
        let mut loader = Loader {
            modprobe: &modprobe,
            arguments: &arguments,
            words: Words::Kept,
            meanwhile: &mut |watch| {
                if vigil.keeps(manager) {
                    outlets.publish(keep, watch, manager);
                }
            },
        };
        Some(match loader.attempt(&mut self.watch, self.keep.gate()) {
            Tried::Live(sentence, Some(0)) => Done::Loaded(sentence),
            Tried::Live(sentence, _) => Done::Found(sentence),
            Tried::Overlapped(how) => {
                Done::Overlapped(format!("loaded, but MOFED began to swap its modules meanwhile ({how})"))
            }
            Tried::Refused(why) => Done::Refused(why.reason, why.sentence),
            Tried::Again(why) => Done::Postponed(why.reason, why.sentence),
            Tried::CannotRun(why) => Done::Postponed("NoModprobe", why.message),
            Tried::Signal(signal, since) => {
                self.told = Some((signal, since));
                return None;
            }
        })
    }

    /// What is still to be told comes after it, so that it is not late; unless it hangs.
    fn unload(&mut self, untold: &mut Vec<Effect>) -> Done {
        let rmmod = match self.rmmod.take().map_or_else(|| self.asked.tools.rmmod(), Ok) {
            Ok(rmmod) => rmmod,
            Err(why) => return Done::NotUnloaded(format!("cannot unload nvidia_peermem: {}", why.message)),
        };
        let signals = self.watch.wakes().signals();
        let mut vigil = Vigil::over("rmmod nvidia_peermem", SLOW.1, HUNG.1);
        let begun = vigil.begun;
        let ran = rmmod.run(&["nvidia_peermem".into()], Words::Kept, signals.fd(), || {
            if vigil.is_long() {
                untold.retain(|effect| match effect {
                    Effect::Say(line) => {
                        log::say(line);
                        false
                    }
                    _ => true,
                });
            }
            if vigil.keeps(&self.manager) {
                self.outlets.publish(&self.keep, &self.watch, &self.manager);
            }
            // Each must be taken, but the first counts.
            let came = signals.take_one().map(|signal| (signal, now()));
            self.told = self.told.or(came);
            self.told.filter(|(_, since)| now() >= *since + UNLOAD).map(|(signal, _)| signal)
        });
        let took = Seconds(now().saturating_sub(begun));
        let why = match ran {
            Ok(ran) if ran.code == 0 => {
                self.rmmod = Some(rmmod);
                return Done::Unloaded(format!("unloaded nvidia_peermem in {took}: MOFED may go on"));
            }
            Ok(ran) => ran.stderr.lines().last().unwrap_or("rmmod does not say why").to_owned(),
            // It may be found elsewhere by now.
            Err(why) => why.message,
        };
        if self.watch.glimpse().peermem == Presence::Absent {
            return Done::Unloaded("nvidia_peermem is gone: somebody else was faster".to_owned());
        }
        let remedy = if why.contains("not permitted") {
            "; what to do: see that this process has CAP_SYS_MODULE and that kernel.modules_disabled is 0, or `rmmod \
             nvidia_peermem` by hand"
        } else {
            ""
        };
        Done::NotUnloaded(format!("cannot unload nvidia_peermem: {why}{remedy}"))
    }

    fn end(&self, ending: Ending) -> Ending {
        let sentence = self.keep.sentence();
        tracing::error!("give up: {sentence}");
        last_words(self.asked.termination_log.as_deref(), ending, &sentence, self.keep.verdict())
    }

    /// A service that is told to end has done well.
    fn told_to_end(&mut self, signal: u8, since: BootTime) -> Ending {
        self.manager.stopping();
        let mut glimpse = self.watch.glimpse();
        let is_unused = glimpse.peermem == (Presence::Live { uses: Some(0) });
        // Not where one was broken off just now, and nothing is touched where the gate does not apply.
        let may = self.asked.unload_on_exit && self.keep.has_applied();
        if may && is_unused && now() < since + UNLOAD {
            self.told = Some((signal, since));
            if let Done::NotUnloaded(why) = self.unload(&mut Vec::new()) {
                tracing::warn!("{why}");
            }
            glimpse = self.watch.glimpse();
        }
        let left = match glimpse.peermem {
            Presence::Absent => "is not loaded",
            _ => "stays as it is",
        };
        tracing::info!("ended by signal {signal}: nvidia_peermem {left}");
        outlets::clear(self.asked);
        Ending::Opened
    }
}
