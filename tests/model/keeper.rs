// SPDX-License-Identifier: Apache-2.0
//! `peermem-gate keep`, and `load` (or the modprobe shim), which is a keep that ends: the production state machine,
//! and what keeper/run does with its answers.

use super::attempt::{self, Attempt};
use super::driver::{Driver, Loads};
use super::eyes::Eyes;
use super::gated::{Half, OPENING_LIMIT, Watch, begun, policy};
use super::laws::{self, Fault};
use super::memory::{Memory, Moment};
use super::mofed::Phase;
use super::node::Node;
use super::rebuild::{self, LONGEST, Make, Rebuild};
use super::{Life, Pace, TICK, age};
use peermem_gate::keeper::{Action, Keep, LoadResult, Response, Stay};
use peermem_gate::ready::exit::Exit;
use peermem_gate::ready::gate::{Effect, Last, Opening, Policy, Rebuilt};
use peermem_gate::ready::judge::swap::{DriverSigns, Presence, SwapCheck};
use peermem_gate::ready::look::Cause;
use peermem_gate::ready::time::BootTime;
use peermem_gate::rebuild::RebuildResult;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
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
    /// The kubelet starts it again.
    Restart,
}

/// What it is at, so no look is made.
#[derive(Clone, Debug)]
enum Work {
    Nothing,
    Unload,
    Load(Attempt),
    Rebuild(Rebuild),
    /// With this exit code.
    Ended(u8),
}

/// How it was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "they are options, and each is given alone")]
pub(crate) struct Setting {
    pub(crate) eyes: Eyes,
    /// `--rebuild auto`.
    pub(crate) rebuilds: bool,
    /// Its looks take their time, so others act in the middle of them.
    pub(crate) is_torn: bool,
    /// A service of the node, and no container of the driver's pod.
    pub(crate) is_service: bool,
    /// `load`.
    pub(crate) is_load: bool,
    /// Its `--timeout`.
    pub(crate) timeout: Option<Duration>,
}

impl Setting {
    /// `keep` in a container of the driver's pod.
    pub(crate) const LOADER: Self = Self {
        eyes: Eyes::LOADER,
        rebuilds: false,
        is_torn: false,
        is_service: false,
        is_load: false,
        timeout: None,
    };

    fn policy(&self, pace: &Pace) -> Policy {
        Policy { timeout: self.timeout, fail_fast: self.is_load, ..policy(pace) }
    }
}

/// The process.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    keep: Arc<Keep>,
    memory: Arc<Memory>,
    setting: Setting,
    pace: &'static Pace,
    watch: Watch,
    was_marked: bool,
    /// Something has happened since its last look: it looks at that time at the latest.
    woken: Option<BootTime>,
    /// SIGHUP came: an earlier failure is no reason against the next rebuild.
    is_asked: bool,
    half: Option<Half>,
    work: Work,
    /// When its last step was.
    acted: BootTime,
    /// So many rebuilds failed for causes that pass.
    failed: u8,
}

impl Keeper {
    pub(crate) fn new(now: BootTime, setting: Setting, pace: &'static Pace) -> Self {
        let setting = Setting { eyes: Eyes { only_ours: setting.rebuilds, ..setting.eyes }, ..setting };
        let policy = setting.policy(pace);
        let stay = if setting.is_load { Stay::UntilLoaded } else { Stay::Yields };
        let mut keep = Keep::new(policy.clone(), stay, now);
        keep.allow_rebuild(setting.rebuilds);
        keep.with_driver_unload(pace.driver_unload);
        Self {
            memory: Arc::new(Memory::of(&keep)),
            keep: Arc::new(keep),
            setting,
            pace,
            watch: Watch::new(now, setting.eyes, policy),
            was_marked: false,
            woken: Some(now + pace.lag),
            is_asked: false,
            half: None,
            work: Work::Nothing,
            acted: now,
            failed: 0,
        }
    }

    /// Another one of the same kind starts, in another boot or container.
    pub(crate) fn afresh(&self, now: BootTime) -> Self {
        Self::new(now, self.setting, self.pace)
    }

    /// Another one of the same kind starts, and reads what this one has left.
    fn again(&self, now: BootTime) -> Self {
        let mut again = self.afresh(now);
        if !self.ends() {
            again.keep_mut().recall(self.keep.memory());
            again.memory = Arc::new(Memory::of(&again.keep));
        }
        again
    }

    /// The driver's pod is replaced.
    pub(crate) fn in_another_pod(self, now: BootTime) -> Self {
        if self.setting.is_service || self.ends() { self } else { self.afresh(now) }
    }

    pub(crate) fn hash_at<H: Hasher>(&self, moment: Moment, state: &mut H) {
        let Self { keep, memory, setting, watch, was_marked, woken, is_asked, half, work, .. } = self;
        memory.hash_at(moment, state);
        watch.hash_at(moment, state);
        keep.next_look().map(|due| due <= moment.now).hash(state);
        (setting, was_marked, is_asked, half, self.failed).hash(state);
        woken.map(|due| moment.to(due)).hash(state);
        match work {
            Work::Nothing => 0.hash(state),
            Work::Unload => 1.hash(state),
            Work::Load(attempt) => (2, attempt).hash(state),
            Work::Rebuild(rebuild) => rebuild.hash_at(moment, state),
            Work::Ended(code) => (3, code, moment.age(self.acted, TICK)).hash(state),
        }
    }

    /// It acts at that time at the latest.
    pub(crate) fn latest(&self) -> Option<BootTime> {
        let pace = self.pace;
        let woken = self.woken;
        match &self.work {
            Work::Unload | Work::Load(_) => Some(self.acted + pace.lag),
            // make hears of events ten times a second.
            Work::Rebuild(rebuild) => rebuild.latest(self.acted, pace).into_iter().chain(woken).min(),
            Work::Nothing if self.half.is_some() => Some(self.acted + pace.lag),
            Work::Ended(_) => None,
            Work::Nothing => woken.into_iter().chain(self.keep.next_look().map(|due| due + pace.lag)).min(),
        }
    }

    /// modprobe comes next.
    pub(crate) fn is_asking(&self) -> bool {
        matches!(self.work, Work::Load(Attempt::LoadPermit(_)))
    }

    pub(crate) fn is_service(&self) -> bool {
        self.setting.is_service
    }

    /// It is a `load`.
    pub(crate) fn ends(&self) -> bool {
        self.setting.is_load
    }

    /// It has ended with this code.
    pub(crate) fn ended(&self) -> Option<u8> {
        match self.work {
            Work::Ended(code) => Some(code),
            _ => None,
        }
    }

    pub(crate) fn is_unloading(&self) -> bool {
        matches!(self.work, Work::Unload)
    }

    /// The next time that it waits for.
    pub(crate) fn due(&self) -> Option<BootTime> {
        match &self.work {
            Work::Nothing => self.keep.next_look(),
            Work::Rebuild(rebuild) => rebuild.due(self.pace),
            Work::Unload | Work::Load(_) | Work::Ended(_) => None,
        }
    }

    /// It has to look by then.
    pub(crate) fn wake(&mut self, due: BootTime) {
        self.woken = self.woken.into_iter().chain([due]).min();
    }

    /// A look has a reason.
    fn may_look(&self, now: BootTime) -> bool {
        self.half.is_some() || self.woken.is_some() || self.keep.next_look().is_some_and(|due| due <= now)
    }

    fn keep_mut(&mut self) -> &mut Keep {
        Arc::make_mut(&mut self.keep)
    }

    /// SIGHUP.
    pub(crate) fn ask(&mut self, now: BootTime) {
        self.keep_mut().ask();
        self.memory = Arc::new(Memory::of(&self.keep));
        self.is_asked = true;
        self.wake(now + self.pace.lag);
    }

    /// A whole look. Before it a keep that stays takes a glimpse, which takes no time.
    fn looks(&mut self, life: &mut Life) {
        let Some(half) = self.half.take() else {
            self.woken = None;
            if self.ends() {
                self.was_marked |= life.node.marker.is_some();
                self.half = Some(self.watch.begins(life));
            } else {
                let glimpse = self.glimpses(life);
                let response = self.keep_mut().glimpse(life.now, &Cause::Marker, &glimpse);
                if self.begins(life, &response, &glimpse) {
                    return;
                }
                self.half = Some(begun(life, self.watch.eyes, self.watch.is_believed(life.now)));
            }
            if !self.setting.is_torn {
                self.looks(life);
            }
            return;
        };
        let is_at_rest = if self.ends() { self.waits(life, &half) } else { self.watches(life, &half) };
        if is_at_rest && self.keep.next_look().is_some_and(|due| due <= life.now) {
            life.fails(Fault::PastWake);
        }
    }

    /// The look of a keep that ends. Whether there is nothing to do.
    fn waits(&mut self, life: &mut Life, half: &Half) -> bool {
        let seen = half.ends(&life.node, self.watch.eyes);
        let response = self.keep_mut().step(life.now, &Cause::Marker, Some(seen.look.clone()));
        let last = opening(&response);
        if let Some(last) = last
            && let Some(fault) = self.watch.fault(life, last, half.showed_unready())
        {
            life.fails(fault);
        }
        let glimpse = seen.glimpse(self.was_marked);
        self.begins(life, &response, &glimpse);
        last.is_none()
    }

    /// The look of a keep that stays. Whether there is nothing to do.
    fn watches(&mut self, life: &mut Life, half: &Half) -> bool {
        let eyes = self.watch.eyes;
        let seen = half.ends(&life.node, eyes);
        let mut full_look = seen.full_look(self.was_marked);
        self.was_marked |= seen.is_marked();
        full_look.glimpse = eyes.look(&life.node).completed(full_look.glimpse);
        full_look.glimpse.driver = self.driver(life);
        let glimpse = full_look.glimpse.clone();
        let response = self.keep_mut().look(life.now, &Cause::Marker, full_look);
        self.owns(life);
        let is_at_rest = !self.begins(life, &response, &glimpse);
        // The wish is for the fault of now.
        self.is_asked &= self.keep.is_rebuild_due();
        is_at_rest
    }

    fn glimpses(&mut self, life: &Life) -> SwapCheck {
        let seen = self.watch.eyes.look(&life.node);
        let glimpse = seen.glimpse(self.was_marked);
        self.was_marked |= seen.is_marked();
        SwapCheck { driver: self.driver(life), ..glimpse }
    }

    /// The files of the driver's container, which only the node's keeper looks for.
    fn driver(&self, life: &Life) -> Option<DriverSigns> {
        let signs = DriverSigns { is_ready: life.node.is_driver_ready, daemons: life.node.daemons };
        self.setting.is_service.then_some(signs)
    }

    /// keeper/ownership.rs: the lock, and the line in the container whose script runs.
    fn owns(&self, life: &mut Life) {
        if self.setting.is_service {
            life.node.is_owned = self.keep.owns();
            self.writes_line(life);
        }
    }

    fn writes_line(&self, life: &mut Life) {
        if self.setting.is_service && life.node.is_owned {
            life.driver.iter_mut().for_each(Driver::gets_line);
        }
    }

    /// Begins what the state machine wants done, if anything.
    fn begins(&mut self, life: &mut Life, response: &Response, seen: &SwapCheck) -> bool {
        match response.action {
            None => self.hears(life, &response.effects),
            Some(Action::Unload) => {
                if seen.peermem != (Presence::Live { uses: Some(0) }) {
                    life.fails(Fault::UnloadInUse);
                }
                self.work = Work::Unload;
            }
            Some(Action::Load) => self.load(life),
            Some(Action::Rebuild) => {
                let is_asked = std::mem::take(&mut self.is_asked);
                match rebuild::begins(life, self.keep.gate(), self.watch.eyes, is_asked) {
                    rebuild::Next::Goes(rebuild) => self.work = Work::Rebuild(rebuild),
                    rebuild::Next::Ends(end) => self.rebuilt(life, &end),
                }
            }
        }
        response.action.is_some()
    }

    fn hears(&mut self, life: &mut Life, effects: &[Effect]) {
        if let Some(last) = effects.iter().find_map(Effect::last) {
            self.work = Work::Ended(last.err().unwrap_or(Exit::Opened).code());
            if self.setting.is_service {
                life.node.gives_lock_back();
            }
        }
    }

    fn load(&mut self, life: &mut Life) {
        let is_believed = self.watch.is_believed(life.now);
        match attempt::begins(life, self.keep.gate(), self.watch.eyes, is_believed) {
            attempt::Next::Goes(attempt) => self.work = Work::Load(attempt),
            attempt::Next::Ends(tried) => self.done(life, tried),
        }
    }

    fn acts(&mut self, life: &mut Life, make: Option<Make>) {
        let eyes = self.watch.eyes;
        match std::mem::replace(&mut self.work, Work::Nothing) {
            Work::Nothing => {}
            Work::Ended(code) => self.work = Work::Ended(code),
            Work::Unload => {
                let is_gone = life.node.peermem.is_none() || life.node.unloads_peermem();
                let done = if is_gone { Ok } else { Err };
                let _ = self.keep_mut().unloaded(life.now, done("rmmod has ended".to_owned()));
                self.wake(life.now + self.pace.lag);
            }
            Work::Load(attempt) => {
                // What stays is alert: what it loaded into a swap goes before any proof.
                let glimpse = (!self.ends()).then(|| self.glimpses(life));
                let swap = glimpse.filter(SwapCheck::must_go).and_then(|glimpse| glimpse.swap);
                match attempt.goes_on(life, self.keep.gate(), eyes, swap) {
                    attempt::Next::Goes(attempt) => self.work = Work::Load(attempt),
                    attempt::Next::Ends(tried) => self.done(life, tried),
                }
            }
            Work::Rebuild(rebuild) => {
                // make hears of events, too, and the line is written meanwhile.
                self.woken = self.woken.filter(|_| make.is_some());
                self.writes_line(life);
                match rebuild.goes_on(life, self.keep.gate(), eyes, self.was_marked, make) {
                    rebuild::Next::Goes(rebuild) => self.work = Work::Rebuild(rebuild),
                    rebuild::Next::Ends(end) => self.rebuilt(life, &end),
                }
            }
        }
    }

    fn rebuilt(&mut self, life: &mut Life, end: &RebuildResult) {
        self.failed += u8::from(end.for_gate() == Rebuilt::Later);
        match self.keep_mut().rebuilt(life.now, end, Duration::ZERO) {
            Ok(_) => self.load(life),
            Err(done) => self.done(life, done),
        }
    }

    fn done(&mut self, life: &mut Life, done: LoadResult) {
        // Nobody is left to unload it (docs/loading.md): a person is told to.
        life.is_excused |= self.ends() && matches!(done, LoadResult::Overlapped(_));
        let effects = self.keep_mut().done(life.now, done);
        // keeper/run looks again after all that it has done.
        self.wake(life.now + self.pace.lag);
        self.hears(life, &effects);
    }
}

/// How the gate inside has opened or ended.
fn opening(response: &Response) -> Option<Last> {
    match response.action {
        Some(Action::Load) => Some(Ok(Opening::Ready)),
        Some(Action::Rebuild) => Some(Ok(Opening::ForRebuild)),
        Some(Action::Unload) | None => response.effects.iter().find_map(Effect::last),
    }
}

/// What has nothing in its way comes within this: a gate's patience, the time of a build, and the pauses after builds
/// that failed, each twice as long as the one before.
pub(crate) fn patience(failed: u8) -> Duration {
    OPENING_LIMIT + LONGEST + Duration::from_secs(10) * ((1 << failed) - 1)
}

impl Life {
    /// Nothing is in the way of a load, or of a rebuild and a load.
    fn is_loadable(&self, keeper: &Keeper) -> bool {
        let Keeper { watch, setting: Setting { rebuilds, .. }, .. } = keeper;
        let (eyes, is_believed) = (watch.eyes, watch.is_believed(self.now));
        let Node { has_nic, has_nvidia, compares_crcs, peermem, headers, files, .. } = &self.node;
        let is_good = self.node.file().is_some_and(|file| self.node.fits(file));
        let live = self.node.live_abi();
        let is_shadowed = files.rebuilt.is_some() && files.driver.is_some_and(|file| self.node.fits(file));
        let is_stored = self.node.stored.is_some_and(|stored| self.node.fits_stored(stored));
        // Without CRCs only MOFED's own files tell which MOFED the headers are of, and only our build is trusted.
        let has_headers = *headers == live && (*compares_crcs || eyes.sees_mofeds_files);
        let has_material = files.has_sources && has_headers || is_stored;
        let is_good =
            is_good && (*compares_crcs || !rebuilds || files.rebuilt.is_some() && files.rebuilt == live);
        let is_rebuild_due = *rebuilds && (is_shadowed || has_material && files.tried != live);
        let is_ready = *has_nic && *has_nvidia && !self.is_visibly_unready(eyes, is_believed);
        is_ready && peermem.is_none() && !self.node.is_root_hidden && (is_good || is_rebuild_due)
    }

    /// The keeper goes with the driver's container that runs it, or is started afresh in the next one.
    pub(super) fn keeper_leaves(&mut self, loads: &Loads) {
        let is_inside = matches!(loads, Loads::Gate(_));
        self.keeper = self.keeper.take().filter(|keeper| !(keeper.ends() && is_inside));
    }

    pub(super) fn keeper_steps(&self, steps: &mut Vec<super::Step>) {
        let Some(keeper) = &self.keeper else { return };
        let mut own = Vec::new();
        match &keeper.work {
            Work::Nothing if keeper.may_look(self.now) => own.push(Step::Look),
            Work::Nothing => {}
            Work::Ended(code) => {
                let is_restarted = if keeper.ends() {
                    *code != 0 && self.budget.restarts > 0
                } else {
                    age(keeper.acted, self.now) >= self.pace.restart
                };
                steps.extend(is_restarted.then_some(super::Step::Keeper(Step::Restart)));
                return;
            }
            Work::Unload | Work::Load(_) => own.push(Step::Act),
            Work::Rebuild(rebuild) => {
                own.extend(rebuild.ends(self).into_iter().map(Step::Make));
                if !rebuild.is_building() || keeper.woken.is_some() {
                    own.push(Step::Act);
                }
            }
        }
        // At rest a restart changes nothing that the next look does not show.
        let is_at_rest = self.mofed.phase == Phase::Ready && matches!(keeper.work, Work::Nothing);
        if self.budget.restarts > 0 && !is_at_rest && !keeper.ends() {
            own.push(Step::Restart);
        }
        steps.extend(own.into_iter().map(super::Step::Keeper));
    }

    /// The process takes this step.
    pub(super) fn keeper(&mut self, step: Step) {
        let Some(mut keeper) = self.keeper.take() else { return };
        keeper.acted = self.now;
        match step {
            Step::Look => keeper.looks(self),
            Step::Act => keeper.acts(self, None),
            Step::Make(make) => keeper.acts(self, Some(make)),
            Step::Restart => {
                self.budget.restarts -= u8::from(keeper.ends() || keeper.ended().is_none());
                if keeper.is_service() {
                    self.node.gives_lock_back();
                }
                keeper = keeper.again(self.now);
            }
        }
        keeper.memory = Arc::new(Memory::of(&keeper.keep));
        self.keeper = Some(keeper);
    }

    pub(super) fn keeper_notes(&mut self) {
        let Some(mut keeper) = self.keeper.take() else { return };
        let patience = patience(keeper.failed);
        let is_loadable = self.is_loadable(&keeper);
        let fault = if keeper.ends() {
            let is_waiting = keeper.ended().is_none();
            keeper.watch.notes(self, is_loadable && is_waiting, patience).filter(|_| is_waiting)
        } else {
            let calm = keeper.watch.calms(self, is_loadable);
            (calm > patience + self.pace.driver_unload).then_some(Fault::NeverOpen)
        };
        match fault {
            Some(Fault::NeverOpen) => self.fails(Fault::NeverLive),
            Some(fault) => self.fails(fault),
            None => {}
        }
        self.keeper = Some(keeper);
    }
}

/// It has loaded the module.
pub(crate) const LOADED: laws::Sight =
    ("load ends well", |_, life| life.keeper.as_ref().is_some_and(|keeper| keeper.ended() == Some(0)));
