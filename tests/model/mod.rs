// SPDX-License-Identifier: Apache-2.0
//! A model of a node's life, in which the production code decides: its judge, its gate, its keeper and its rebuild
//! are called as the programs call them, and only files, modules and processes are replaced by [`node::Node`].
//!
//! How to read it:
//! - A [`Life`] is one moment: the node's facts, and how far each actor is. An actor is a file: `mofed` is MOFED's
//!   container, `driver` the GPU driver's pod, `keeper` is `keep` and `load`, and so on. Comments give the source of
//!   each fact.
//! - An actor offers the [`Step`]s that it may take now, and [`Life::take`] carries one out. Time is a step, too:
//!   [`Step::Tick`] is possible only when nobody has to act at once.
//! - `search` tries every order of steps (stateright), until no new moment is found. [`laws::LAWS`] must be true in
//!   each, and what a scene is about must be reached in one.
//! - Two moments are the same if the same can follow: times are counted from now ([`memory`]), and the number of
//!   times that a thing may still happen ([`Budget`]) is part of the moment, so a search ends.
//! - `replay` asks whether the model can do what a real node did (tests/traces/lives).
#![allow(dead_code, reason = "tests/rules/scenes.rs searches, and tests/soak.rs replays")]

pub(crate) mod attempt;
pub(crate) mod driver;
pub(crate) mod eyes;
pub(crate) mod gated;
pub(crate) mod keeper;
pub(crate) mod laws;
pub(crate) mod memory;
pub(crate) mod mofed;
pub(crate) mod node;
pub(crate) mod owner;
pub(crate) mod peermem_ctr;
pub(crate) mod people;
pub(crate) mod rebuild;
pub(crate) mod replay;
pub(crate) mod said;
pub(crate) mod search;

use driver::Driver;
use eyes::Eyes;
use keeper::Keeper;
use laws::Fault;
use memory::Moment;
use mofed::Mofed;
use node::{Lock, Node};
use peermem_ctr::PeermemCtr;
use peermem_gate::ready::time::BootTime;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// When every life begins: later than any duration, which tells times from durations.
pub(crate) const START: BootTime = Duration::from_secs(1_000_000);

/// No event tells of the end of a job: `keep` looks for that every five seconds at the latest.
const BUSY: Duration = Duration::from_secs(5);

/// A process of the gate's looks so often without any event.
const SAFETY_NET: Duration = Duration::from_secs(5);

/// How far the clock goes at once. MOFED's own rmmod comes 0.1 to 0.7 s after the marker's end, so two of these are
/// longer than that, and shorter than the 1.5 s that `keep` leaves it.
pub(crate) const TICK: Duration = Duration::from_millis(500);

/// The earliest and the latest that something ends, counted from when it began.
pub(crate) type Span = (Duration, Option<Duration>);

/// How long things take. A search needs few times, and a replay those of the machine.
#[derive(Debug)]
pub(crate) struct Pace {
    /// A process of the gate's hears of an event, or of a time that is due, and acts.
    pub(crate) lag: Duration,
    /// Times that differ by less are taken for the same.
    pub(crate) grain: Duration,
    /// `--suspect-hold`.
    pub(crate) suspect_hold: Duration,
    /// make builds nvidia-peermem.
    pub(crate) make: Span,
    /// The kubelet starts a container again.
    pub(crate) restart: Duration,
    /// The driver's container loads nvidia once its modules are installed.
    pub(crate) nvidia: Span,
    /// The driver is unloaded once its `nvidia_peermem` is.
    pub(crate) leaves: Span,
    /// How long `keep` obeys an unload by another process: longer than that.
    pub(crate) driver_unload: Duration,
    /// MOFED's container comes from one phase to the next.
    pub(crate) mofed: fn(&Mofed) -> Span,
    /// A broken law ends a life. A real one goes on.
    pub(crate) is_lawful: bool,
}

impl Pace {
    pub(crate) const SEARCH: Self = Self {
        lag: Duration::ZERO,
        grain: Duration::from_millis(1),
        suspect_hold: Duration::from_secs(3),
        make: (TICK, Some(rebuild::LONGEST)),
        restart: TICK,
        nvidia: (Duration::ZERO, None),
        leaves: (Duration::ZERO, Some(Duration::from_secs(2))),
        driver_unload: Duration::from_secs(3),
        mofed: mofed::search,
        is_lawful: true,
    };
}

/// A step of any actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// Half a second passes: nobody had to act within it.
    Tick,
    Mofed(mofed::Step),
    Driver(driver::Step),
    PeermemCtr(peermem_ctr::Step),
    Keeper(keeper::Step),
    People(people::Step),
}

/// How often each thing may still happen in this life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// MOFED's container starts, is stopped, is killed.
    pub(crate) starts: u8,
    pub(crate) stops: u8,
    pub(crate) kills: u8,
    /// A process of the gate's is started again.
    pub(crate) restarts: u8,
    /// The driver's container ends, and the kubelet starts it again; its pod is deleted, and another takes its place.
    pub(crate) crashes: u8,
    pub(crate) pods: u8,
    /// A GPU job begins to use `nvidia_peermem`.
    pub(crate) jobs: u8,
    /// A build ends with an error that passes; with one of its own.
    pub(crate) mishaps: u8,
    pub(crate) failures: u8,
    /// The NIC goes away for a moment; the node boots.
    pub(crate) resets: u8,
    pub(crate) boots: u8,
    /// A person unloads `nvidia_peermem`; sends SIGHUP to `keep`; gives MOFED's container another release.
    pub(crate) rmmods: u8,
    pub(crate) hups: u8,
    pub(crate) upgrades: u8,
}

impl Budget {
    /// Nothing comes from outside.
    pub(crate) const NONE: Self = Self {
        starts: 0,
        stops: 0,
        kills: 0,
        restarts: 0,
        crashes: 0,
        pods: 0,
        jobs: 0,
        mishaps: 0,
        failures: 0,
        resets: 0,
        boots: 0,
        rmmods: 0,
        hups: 0,
        upgrades: 0,
    };
}

/// One moment of a node's life.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) now: BootTime,
    pub(crate) pace: &'static Pace,
    pub(crate) node: Node,
    pub(crate) mofed: Mofed,
    pub(crate) driver: Option<Driver>,
    pub(crate) peermem_ctr: Option<PeermemCtr>,
    /// `keep`, or `load`.
    pub(crate) keeper: Option<Keeper>,
    pub(crate) budget: Budget,
    /// A job had `nvidia_peermem` open, up to this time.
    pub(crate) used_until: Option<BootTime>,
    /// `load` found that MOFED had begun while its modprobe ran: it has ended, and a person is told to unload the
    /// module.
    pub(crate) is_excused: bool,
    /// A law that was broken; nothing follows.
    pub(crate) fault: Option<Fault>,
}

impl Life {
    /// The same on a kernel that compares no CRC.
    pub(crate) fn unversioned(self) -> Self {
        Self { node: Node { compares_crcs: false, ..self.node }, ..self }
    }

    /// A node, MOFED's container and nobody else.
    pub(crate) fn new(node: Node, mofed: Mofed) -> Self {
        Self {
            now: START,
            pace: &Pace::SEARCH,
            node,
            mofed,
            driver: None,
            peermem_ctr: None,
            keeper: None,
            budget: Budget::NONE,
            used_until: None,
            is_excused: false,
            fault: None,
        }
    }

    /// All steps that can be taken now.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.fault.is_some() {
            return steps;
        }
        self.mofed_steps(&mut steps);
        self.driver_steps(&mut steps);
        self.peermem_ctr_steps(&mut steps);
        self.keeper_steps(&mut steps);
        self.people_steps(&mut steps);
        if self.latest().is_none_or(|latest| latest > self.now) {
            steps.push(Step::Tick);
        }
        steps
    }

    /// The moment after this step.
    #[must_use]
    pub(crate) fn take(&self, step: Step) -> Self {
        let mut life = self.clone();
        match step {
            Step::Tick => life.passes(self.now + TICK),
            Step::Mofed(step) => life.mofed(step),
            Step::Driver(step) => life.driver(step),
            Step::PeermemCtr(step) => life.peermem_ctr(step),
            Step::Keeper(step) => life.keeper(step),
            Step::People(step) => life.people(step),
        }
        life.wake_after(&self.node);
        life
    }

    /// What happens on a node makes an event, except a reference count. A lock makes none, either: the safety net
    /// finds MOFED's, at any time within five seconds.
    fn wake_after(&mut self, before: &Node) {
        let Node { lock, is_owned, is_used, .. } = self.node;
        let is_event = Node { lock, is_owned, is_used, ..before.clone() } != self.node;
        if is_event || lock != before.lock {
            let due = self.now + if is_event { self.pace.lag } else { SAFETY_NET };
            self.keeper.iter_mut().for_each(|keeper| keeper.wake(due));
            self.driver.iter_mut().for_each(|driver| driver.wake(due));
        }
        self.is_excused &= self.node.peermem.is_some();
        self.notes();
    }

    /// Time passes.
    pub(crate) fn passes(&mut self, now: BootTime) {
        self.now = now;
        self.notes();
    }

    /// What has been so for how long, and whether that is too long.
    fn notes(&mut self) {
        if self.node.is_used {
            self.used_until = Some(self.now);
        }
        self.driver_notes();
        self.keeper_notes();
    }

    /// Somebody has to act by then.
    pub(crate) fn latest(&self) -> Option<BootTime> {
        let Self { now, pace, .. } = self;
        let actors = [
            self.mofed.latest(pace),
            self.driver.as_ref().and_then(|driver| driver.latest(pace)),
            self.keeper.as_ref().and_then(Keeper::latest),
        ];
        actors.into_iter().flatten().min().map(|latest| latest.max(*now))
    }

    /// The next time at which somebody may act who may not yet.
    pub(crate) fn due(&self) -> Option<BootTime> {
        let actors = [self.driver.as_ref().and_then(Driver::due), self.keeper.as_ref().and_then(Keeper::due)];
        actors.into_iter().flatten().filter(|due| *due > self.now).min()
    }

    /// rmmod of the gate's runs.
    fn is_unloading(&self) -> bool {
        self.keeper.as_ref().is_some_and(Keeper::is_unloading)
    }

    pub(crate) fn fails(&mut self, fault: Fault) {
        self.fault = self.fault.or(self.pace.is_lawful.then_some(fault));
    }

    /// MOFED cannot unload `ib_core`. A job is a person's to end, and so is what `load` has left behind.
    fn is_pinned(&mut self) {
        let was_used = self.used_until.is_some_and(|until| self.now <= until + BUSY);
        if !was_used && !self.is_excused {
            self.fails(Fault::PinnedSwap);
        }
    }

    /// Something on the node shows these eyes that MOFED is not ready: by the model's own rules, which are not the
    /// judge's. A marker without a lock shows nothing (the older entrypoint, upstream.md); neither does a free lock
    /// once the marker has been doubted for long enough.
    pub(crate) fn is_visibly_unready(&self, eyes: Eyes, is_believed: bool) -> bool {
        let Node { marker, lock, stack, headers, .. } = &self.node;
        let is_whole = stack.abi().is_some() && headers.is_some();
        let shows = match lock {
            Lock::Held(holder) => marker.is_some_and(|by| by != *holder),
            Lock::Free => !is_believed,
            Lock::Absent => false,
        };
        !is_whole || !eyes.is_host && (marker.is_none() || shows && eyes.sees_locks)
    }
}

/// Two moments are the same if the same can follow: the clock's own value is no part of it.
impl Hash for Life {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { now, pace, node, mofed, driver, peermem_ctr, keeper, budget, .. } = self;
        (node, peermem_ctr, budget, self.is_excused, self.fault).hash(state);
        let moment = Moment { now: *now, grain: pace.grain };
        self.used_until.map(|until| moment.age(until, BUSY)).hash(state);
        mofed.hash_at(moment, pace, state);
        if let Some(driver) = driver {
            driver.hash_at(moment, state);
        }
        if let Some(keeper) = keeper {
            keeper.hash_at(moment, state);
        }
    }
}

/// For how long something has been so.
pub(crate) fn age(since: BootTime, now: BootTime) -> Duration {
    now.saturating_sub(since)
}

impl PartialEq for Life {
    fn eq(&self, other: &Self) -> bool {
        let hash = |life| BuildHasherDefault::<DefaultHasher>::new().hash_one(life);
        hash(self) == hash(other)
    }
}

impl Eq for Life {}
