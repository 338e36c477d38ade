// SPDX-License-Identifier: Apache-2.0
//! `peermem-gate load`, and the modprobe shim, which does the same: a wait, an attempt, and a rebuild where that is
//! the cure, as keeper/run puts them together; `keeper::Stay` has what it decides.

use super::attempt::{self, Attempt};
use super::eyes::Eyes;
use super::gated::{Gated, policy};
use super::laws::Fault;
use super::memory::Moment;
use super::rebuild::{self, Make, Rebuild};
use super::sidecar::patience;
use super::{Life, Pace, laws};
use peermem_gate::keeper::attempt::LoadResult;
use peermem_gate::ready::exit::Exit;
use peermem_gate::ready::gate::{Opening, Policy, Rebuilt};
use peermem_gate::ready::time::BootTime;
use peermem_gate::rebuild::RebuildResult;
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// A step of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// It wakes and looks, or goes on with that.
    Look,
    /// What it does comes one step further.
    Act,
    /// make ends like this.
    Make(Make),
    /// After an end that was no success, the kubelet starts it again.
    Restart,
}

#[derive(Clone, Debug)]
enum Work {
    Wait,
    Load(Attempt),
    Rebuild(Rebuild),
    /// With this exit code.
    Ended(u8),
}

/// The process.
#[derive(Clone, Debug)]
pub(crate) struct Loader {
    held: Gated,
    rebuilds: bool,
    was_marked: bool,
    work: Work,
    /// When its last step was.
    acted: BootTime,
    /// So many rebuilds failed for causes that pass.
    failed: u8,
}

impl Loader {
    pub(crate) fn new(
        now: BootTime,
        eyes: Eyes,
        rebuilds: bool,
        timeout: Option<Duration>,
        pace: &'static Pace,
    ) -> Self {
        let eyes = Eyes { only_ours: rebuilds, ..eyes };
        let mut held = Gated::new(now, eyes, Policy { timeout, fail_fast: true, ..policy(pace) }, pace);
        held.needs_driver_build(rebuilds);
        Self { held, rebuilds, was_marked: false, work: Work::Wait, acted: now, failed: 0 }
    }

    pub(crate) fn torn(self) -> Self {
        Self { held: self.held.torn(), ..self }
    }

    /// Another one of the same kind starts.
    pub(crate) fn again(self, now: BootTime) -> Self {
        let mut held = self.held.again(now);
        held.needs_driver_build(self.rebuilds);
        Self { held, was_marked: false, work: Work::Wait, acted: now, failed: 0, ..self }
    }

    pub(crate) fn hash_at<H: Hasher>(&self, moment: Moment, state: &mut H) {
        let Self { held, rebuilds, was_marked, work, failed, .. } = self;
        held.hash_at(moment, state);
        (rebuilds, was_marked, failed).hash(state);
        match work {
            Work::Wait => 0.hash(state),
            Work::Load(attempt) => (1, attempt).hash(state),
            Work::Rebuild(rebuild) => rebuild.hash_at(moment, state),
            Work::Ended(code) => (2, code).hash(state),
        }
    }

    /// It acts at that time at the latest.
    pub(crate) fn latest(&self) -> Option<BootTime> {
        let pace = self.held.pace();
        let woken = self.held.woken();
        match &self.work {
            Work::Wait => self.held.latest(),
            Work::Load(_) => Some(self.acted + pace.lag),
            Work::Rebuild(rebuild) => rebuild.latest(self.acted, pace).into_iter().chain(woken).min(),
            Work::Ended(_) => None,
        }
    }

    /// The next time that it waits for.
    pub(crate) fn due(&self) -> Option<BootTime> {
        match &self.work {
            Work::Wait => self.held.gate.next_look(),
            Work::Rebuild(rebuild) => rebuild.due(self.held.pace()),
            Work::Load(_) | Work::Ended(_) => None,
        }
    }

    pub(crate) fn wake(&mut self, due: BootTime) {
        self.held.wake(due);
    }

    /// modprobe comes next.
    pub(crate) fn is_asking(&self) -> bool {
        matches!(self.work, Work::Load(Attempt::LoadPermit(_)))
    }

    /// It ended with this code.
    pub(crate) fn ended(&self) -> Option<u8> {
        match self.work {
            Work::Ended(code) => Some(code),
            _ => None,
        }
    }

    fn looks(&mut self, life: &mut Life) {
        self.was_marked |= life.node.marker.is_some();
        let Some((last, was_unready)) = self.held.look(life) else { return };
        if let Some(fault) = self.held.fault(life, last, was_unready) {
            life.fails(fault);
        }
        match last {
            Ok(Opening::Ready) => self.loads(life),
            Ok(Opening::ForRebuild) => match rebuild::begins(life, &self.held.gate, self.held.eyes, false) {
                rebuild::Next::Goes(rebuild) => self.work = Work::Rebuild(rebuild),
                rebuild::Next::Ends(end) => self.rebuilt(life, &end),
            },
            Ok(_) => self.work = Work::Ended(Exit::Opened.code()),
            Err(exit) => self.work = Work::Ended(exit.code()),
        }
    }

    fn loads(&mut self, life: &mut Life) {
        let is_believed = self.held.is_believed(life.now);
        match attempt::begins(life, &self.held.gate, self.held.eyes, is_believed) {
            attempt::Next::Goes(attempt) => self.work = Work::Load(attempt),
            attempt::Next::Ends(tried) => self.tried(life, &tried),
        }
    }

    fn acts(&mut self, life: &mut Life, make: Option<Make>) {
        let eyes = self.held.eyes;
        match std::mem::replace(&mut self.work, Work::Wait) {
            Work::Wait | Work::Ended(_) => {}
            Work::Load(attempt) => match attempt.goes_on(life, &self.held.gate, eyes, None) {
                attempt::Next::Goes(attempt) => self.work = Work::Load(attempt),
                attempt::Next::Ends(tried) => self.tried(life, &tried),
            },
            Work::Rebuild(rebuild) => {
                if make.is_none() {
                    self.held.rest();
                }
                match rebuild.goes_on(life, &self.held.gate, eyes, self.was_marked, make) {
                    rebuild::Next::Goes(rebuild) => self.work = Work::Rebuild(rebuild),
                    rebuild::Next::Ends(end) => self.rebuilt(life, &end),
                }
            }
        }
    }

    fn tried(&mut self, life: &mut Life, tried: &LoadResult) {
        // Nobody is left to unload it (docs/loading.md): a person is told to.
        life.is_excused |= matches!(tried, LoadResult::Overlapped(_));
        self.work = if let Some(last) = tried.last() {
            Work::Ended(last.err().unwrap_or(Exit::Opened).code())
        } else {
            self.held.opening_failed(life.now);
            Work::Wait
        };
    }

    fn rebuilt(&mut self, life: &mut Life, end: &RebuildResult) {
        self.held.rebuilt(life.now, end);
        self.failed += u8::from(end.for_gate() == Rebuilt::Later);
        match LoadResult::after_rebuild(end, end.sentence()) {
            Ok(_) => self.loads(life),
            Err(ended) => self.tried(life, &ended),
        }
    }
}

impl Life {
    pub(super) fn loader_steps(&self, steps: &mut Vec<super::Step>) {
        let Some(loader) = &self.loader else { return };
        let mut own = Vec::new();
        match &loader.work {
            Work::Wait if loader.held.may_look(self.now) => own.push(Step::Look),
            Work::Wait => {}
            Work::Load(_) => own.push(Step::Act),
            Work::Rebuild(rebuild) => {
                own.extend(rebuild.ends(self).into_iter().map(Step::Make));
                if !rebuild.is_building() || loader.held.woken().is_some() {
                    own.push(Step::Act);
                }
            }
            Work::Ended(code) => {
                if *code != 0 && self.budget.restarts > 0 {
                    own.push(Step::Restart);
                }
            }
        }
        steps.extend(own.into_iter().map(super::Step::Loader));
    }

    /// The process takes this step.
    pub(super) fn loader(&mut self, step: Step) {
        let Some(mut loader) = self.loader.take() else { return };
        loader.acted = self.now;
        match step {
            Step::Look => loader.looks(self),
            Step::Act => loader.acts(self, None),
            Step::Make(make) => loader.acts(self, Some(make)),
            Step::Restart => {
                self.budget.restarts -= 1;
                loader = loader.again(self.now);
            }
        }
        self.loader = Some(loader);
    }

    pub(super) fn loader_notes(&mut self) {
        let Some(mut loader) = self.loader.take() else { return };
        let is_believed = loader.held.is_believed(self.now);
        let is_loadable = self.is_loadable(loader.held.eyes, is_believed, loader.rebuilds);
        let is_waiting = loader.ended().is_none();
        let patience = patience(loader.failed);
        let fault = loader.held.notes(self, is_loadable && is_waiting, patience);
        match fault.filter(|_| is_waiting) {
            Some(Fault::NeverOpen) => self.fails(Fault::NeverLive),
            Some(fault) => self.fails(fault),
            None => {}
        }
        self.loader = Some(loader);
    }
}

/// It has loaded the module.
pub(crate) const LOADED: laws::Sight =
    ("load ends well", |_, life| life.loader.as_ref().is_some_and(|loader| loader.ended() == Some(0)));
