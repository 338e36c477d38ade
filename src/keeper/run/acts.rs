// SPDX-License-Identifier: Apache-2.0
//! What the state machine wants done: a load, the rebuild before it, an unload; or, in a dry run, only said.

use super::{LOST, Runner, UNLOAD};
use crate::cli::log;
use crate::keeper::loader::{Loader, root_to_run_in};
use crate::keeper::{Action, LoadFailure, LoadResult, Response};
use crate::peermem::driver_root;
use crate::process::exec::Unrunnable;
use crate::process::system_program::{Interruption, OutputMode, Ran, SystemProgram};
use crate::ready::clock::now;
use crate::ready::exit::Exit;
use crate::ready::gate::Effect;
use crate::ready::judge::swap::Presence;
use crate::ready::look::Cause;
use crate::ready::probe;
use crate::ready::time::{BootTime, Seconds};
use crate::rebuild::{RebuildResult, build_dir};
use crate::watch::slow_command::SlowCommandWatch;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

/// A load, and an unload, that take longer than this are slow, and are logged.
const SLOW: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(200));
/// A load, and an unload, that take longer than this hang: the watchdog is not fed. The kernel itself may wait half a
/// minute for a module on which another depends.
const HUNG: (Duration, Duration) = (Duration::from_secs(45), Duration::from_secs(30));

/// How long a load may still run when the deadline passes: after this it hangs. The kernel itself waits half a minute
/// for each symbol of a module that is still loading (`kernel/module/main.c`), and nothing is loaded before what it
/// needs is live. After a build it is depmod above all that is better finished than broken off.
const PAST_DEADLINE: Duration = Duration::from_secs(60);

impl Runner<'_> {
    /// Carries out the action, then writes the lines.
    pub(super) fn take(&mut self, response: Response) -> ControlFlow<Exit> {
        let Response { action, mut effects } = response;
        match action {
            Some(action) if self.service.dry_run => {
                self.carry_out(effects)?;
                effects = match action {
                    Action::Unload => {
                        let would = "dry run: would run `rmmod nvidia_peermem`".to_owned();
                        self.keep.unloaded(now(), Err(would))
                    }
                    Action::Load => self.keep.done(now(), self.planned_load()),
                    Action::Rebuild => {
                        let planned = self.planned_rebuild();
                        self.keep.done(now(), planned)
                    }
                };
            }
            Some(Action::Unload) => {
                let done = self.unload(&mut effects);
                effects.extend(self.keep.unloaded(now(), done));
            }
            Some(action) => {
                self.carry_out(effects)?;
                effects = if action == Action::Rebuild { self.rebuild() } else { self.load() };
            }
            None => {}
        }
        self.carry_out(effects)
    }

    /// A dry run's load: what would be run. Asked again, it is the same, so the log has it once.
    fn planned_load(&self) -> LoadResult {
        match self.service.tools.modprobe(root_to_run_in(&self.watch)) {
            Ok(modprobe) => dry(&format!("run `{}`", modprobe.shown(&self.service.arguments))),
            Err(why) => LoadResult::again(LoadFailure::NoModprobe, why.message),
        }
    }

    /// A dry run's rebuild: its plan.
    fn planned_rebuild(&mut self) -> LoadResult {
        let plan = match self.watch.look(&Cause::Timer, self.keep.verdict()) {
            Some(look) => self.service.rebuilder.plan(&self.watch, &look).map(|(plan, ..)| plan),
            None => return dry("rebuild nvidia-peermem.ko"),
        };
        match plan {
            Ok(plan) => {
                let steps = steps(&plan.text(&build_dir::shown()));
                dry(&format!("rebuild nvidia-peermem.ko, and load it: {steps}"))
            }
            Err(obstacle) => {
                let end = RebuildResult::Refused(obstacle);
                let next = self.keep.rebuilt(now(), &end, Duration::ZERO);
                next.map_or_else(|done| done, |sentence| dry(&sentence))
            }
        }
    }

    pub(super) fn carry_out(&mut self, effects: Vec<Effect>) -> ControlFlow<Exit> {
        let mut is_new = false;
        for effect in effects {
            match effect {
                Effect::Log(line) => {
                    log::write(&line);
                    self.ending.last_line = line.text;
                }
                Effect::Publish => is_new = true,
                Effect::Last(last) => {
                    if is_new && self.ends() {
                        self.publisher.publish(&self.keep, &self.watch);
                    }
                    return ControlFlow::Break(last.err().unwrap_or(Exit::Opened));
                }
            }
        }
        if is_new {
            self.publisher.publish(&self.keep, &self.watch);
        }
        ControlFlow::Continue(())
    }

    /// Rebuilds the module, and then loads it.
    fn rebuild(&mut self) -> Vec<Effect> {
        let (keep, publisher, ownership) = (&self.keep, &mut self.publisher, &mut self.ownership);
        let heartbeat = self.service.policy.heartbeat;
        let mut slow_command = SlowCommandWatch::over("rebuilding nvidia-peermem.ko", heartbeat, heartbeat);
        let mut rebuilder = self.service.rebuilder.clone();
        rebuilder.is_asked = std::mem::take(&mut self.is_asked);
        rebuilder.deadline = keep.gate().deadline();
        let (worker_pipe, mut next) = (self.worker_pipe, Duration::ZERO);
        let end = rebuilder.rebuild(&mut self.watch, keep.gate(), &mut |watch| {
            // It has its own limit.
            publisher.systemd.feed();
            if let Some(worker_pipe) = worker_pipe.filter(|_| slow_command.spent() >= next) {
                worker_pipe.needs(PAST_DEADLINE);
                next = slow_command.spent() + Duration::from_secs(1);
            }
            // A container that starts meanwhile comes to its modprobe within seconds.
            if let Some(ownership) = ownership {
                ownership.write_line(&watch.node.places);
            }
            if slow_command.warn_if_slow() {
                publisher.publish(keep, watch);
            }
        });
        match self.keep.rebuilt(now(), &end, slow_command.spent()) {
            Ok(message) => {
                tracing::info!("{message}");
                self.load()
            }
            Err(done) => self.report(done),
        }
    }

    /// Loads the module.
    fn load(&mut self) -> Vec<Effect> {
        let done = self.try_to_load();
        self.report(done)
    }

    fn report(&mut self, done: LoadResult) -> Vec<Effect> {
        match done {
            _ if self.ends() => self.ending.note(&done, || probe::is_listed(&self.service.node.places)),
            LoadResult::Signal(signal, since) => self.signal = Some((signal, since)),
            _ => {}
        }
        self.keep.done(now(), done)
    }

    fn try_to_load(&mut self) -> LoadResult {
        if let Some(why) = self.ends_meanwhile() {
            return LoadResult::again(LoadFailure::LastLook, format!("not loaded: {why}"));
        }
        let has_deadline = self.worker_pipe.map(|worker_pipe| worker_pipe.needs(PAST_DEADLINE)).is_some();
        let modprobe = match self.service.tools.modprobe(root_to_run_in(&self.watch)) {
            Ok(modprobe) => modprobe,
            Err(why) => return LoadResult::again(LoadFailure::NoModprobe, why.message),
        };
        self.publisher.remember(&self.keep, &self.watch);
        let (keep, publisher) = (&self.keep, &mut self.publisher);
        let mut slow_command =
            SlowCommandWatch::over("loading nvidia_peermem", SLOW.0, self.service.policy.heartbeat);
        let mut loader = Loader {
            modprobe,
            arguments: &self.service.arguments,
            output: self.service.output,
            is_late: &mut |watch| {
                if slow_command.spent() < HUNG.0 {
                    publisher.systemd.feed();
                }
                if slow_command.warn_if_slow() {
                    publisher.publish(keep, watch);
                }
                // A service waits for a modprobe that hangs.
                has_deadline && slow_command.spent() >= PAST_DEADLINE
            },
        };
        loader.attempt(&mut self.watch, self.keep.gate())
    }

    /// Why nothing is loaded after all: a build takes a minute, in which the driver's container may begin to end.
    fn ends_meanwhile(&mut self) -> Option<&'static str> {
        if self.ends() {
            return None;
        }
        let glimpse = self.watch.glimpse();
        let lost = || self.lock.is_lost().then_some(LOST);
        self.keep.ends_meanwhile(now(), &glimpse).or_else(lost)
    }

    /// Unloads the module: how it went, or why it is still there. The waiting messages are written afterwards, so the
    /// unload is not late; unless it hangs.
    pub(super) fn unload(&mut self, waiting: &mut Vec<Effect>) -> Result<String, String> {
        let places = &self.service.node.places;
        // Before the first look has ended, it is not known where the driver is. Beside a look that hangs, nothing new
        // is searched for there.
        let found = (self.watch.seen().is_none() && self.search.is_none())
            .then(|| driver_root::driver_root_now(places))
            .filter(|root| driver_root::may_run_in(places, root).is_ok());
        let (tools, root) =
            (&self.service.tools, found.as_deref().unwrap_or_else(|| root_to_run_in(&self.watch)));
        let answers = self.search.as_mut().is_none_or(|search| search.answers(tools, root));
        let find = || tools.rmmod(if answers { root } else { Path::new("/") });
        let may_run =
            |rmmod: &SystemProgram| driver_root::may_run_in(&self.watch.node.places, rmmod.root()).is_ok();
        let rmmod = match self.rmmod.take().filter(may_run).map_or_else(find, Ok) {
            Ok(rmmod) => rmmod,
            Err(why) => {
                return Err(format!("cannot unload nvidia_peermem: {}", why.message));
            }
        };
        let signals = self.watch.wakes.signals();
        let mut slow_command =
            SlowCommandWatch::over("rmmod nvidia_peermem", SLOW.1, self.service.policy.heartbeat);
        let begun = slow_command.begun;
        let ran = rmmod.run(&["nvidia_peermem".into()], OutputMode::Kept, signals.fd(), || {
            if slow_command.is_long() {
                waiting.retain(|effect| match effect {
                    Effect::Log(line) => {
                        log::write(line);
                        false
                    }
                    _ => true,
                });
            }
            if slow_command.spent() < HUNG.1 {
                self.publisher.systemd.feed();
            }
            if slow_command.warn_if_slow() {
                self.publisher.publish(&self.keep, &self.watch);
            }
            // Each signal must be read, but the first counts.
            let came = signals.take_one().map(|signal| (signal, now()));
            self.signal = self.signal.or(came);
            let is_late = |(_, since): &(u8, BootTime)| now() >= *since + UNLOAD;
            self.signal.filter(is_late).map(|(signal, _)| Interruption::Signal(signal))
        });
        let took = Seconds(now().saturating_sub(begun));
        if self.watch.glimpse().peermem != Presence::Absent {
            return Err(not_unloaded(&rmmod, ran));
        }
        match ran {
            Ok(ran) if ran.code == 0 => {
                self.rmmod = Some(rmmod);
                let goes_on =
                    if self.keep.driver_ends().is_some() { "the driver's container" } else { "MOFED" };
                Ok(format!("unloaded nvidia_peermem in {took}: {goes_on} can continue"))
            }
            _ => Ok("nvidia_peermem is unloaded: another process was faster".to_owned()),
        }
    }
}

/// Nothing was tried, and this would have been done.
fn dry(would: &str) -> LoadResult {
    LoadResult::again(LoadFailure::DryRun, format!("dry run: would {would}"))
}

/// Of a plan what would be done, on a line.
fn steps(plan: &str) -> String {
    let is_step = |line: &&str| {
        ["driver's root: ", "build: ", "module: ", "install: "].iter().any(|step| line.starts_with(step))
    };
    plan.lines().filter(is_step).collect::<Vec<_>>().join("; ")
}

/// Why `nvidia_peermem` is still loaded.
fn not_unloaded(rmmod: &SystemProgram, ran: Result<Ran, Unrunnable>) -> String {
    let why = match ran {
        Ok(Ran { code: 0, .. }) => format!(
            "{} reported success, but nvidia_peermem is still loaded; what to do: check that it is kmod's rmmod, and run `rmmod nvidia_peermem` by hand",
            rmmod.path().display()
        ),
        Ok(ran) => ran.stderr.lines().last().unwrap_or("rmmod gives no reason").to_owned(),
        // rmmod may be found elsewhere by now.
        Err(why) => why.message,
    };
    let remedy = if why.contains("not permitted") {
        "; what to do: check that this process has CAP_SYS_MODULE and that kernel.modules_disabled is 0, or run `rmmod nvidia_peermem` by hand"
    } else {
        ""
    };
    format!("cannot unload nvidia_peermem: {why}{remedy}")
}
