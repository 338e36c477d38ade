// SPDX-License-Identifier: Apache-2.0
//! The production state machines in a model of the node, searched by a model checker (stateright): every order of the
//! steps of MOFED's container, the sidecar, jobs and persons, until no new state is found. Each actor is a file; its
//! comments give the source of each fact. [`LAWS`] are the properties.

mod driver;
mod gated;
mod memory;
mod mofed;
mod node;
mod peermem_ctr;
mod sidecar;

use crate::gate::Policy;
use crate::time::BootTime;
use driver::{Driver, Wait};
use gated::Gated;
use mofed::{Mofed, Phase};
use node::{File, Node, TICK};
use sidecar::Sidecar;
use stateright::{Checker, Model, Property};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// When every life begins: later than any duration, which tells times from durations.
const START: BootTime = Duration::from_secs(1_000_000);
/// Everything is ready so many ticks at most before `nvidia_peermem` is live: the settle time, the pauses after one
/// load that failed, and one tick for each of them.
const PATIENCE: u8 = 12;

/// A search that comes to more states never ends: a mistake of the model.
const MOST: usize = 100_000;

/// A property that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    LostUnload,
    PinnedSwap,
    LoadIntoSwap,
    UnloadInUse,
    PastWake,
    NeverLive,
    EarlyOpen,
    StubBuilt,
    ModuleNotFound,
    NeverOpen,
}

/// A law, and the fault that breaks it.
type Law = (&'static str, fn(&Scene, &Life) -> bool);

/// What must be true in every state.
const LAWS: [Law; 10] = [
    ("nobody unloads what MOFED is about to unload", |_, life| life.fault != Some(Fault::LostUnload)),
    ("nvidia_peermem is not loaded when MOFED swaps", |_, life| life.fault != Some(Fault::PinnedSwap)),
    ("no load goes into a swap", |_, life| life.fault != Some(Fault::LoadIntoSwap)),
    ("no unload is tried while a job uses it", |_, life| life.fault != Some(Fault::UnloadInUse)),
    ("no wake is asked for at a time that has passed", |_, life| life.fault != Some(Fault::PastWake)),
    ("once everything is ready, nvidia_peermem becomes live", |_, life| life.fault != Some(Fault::NeverLive)),
    ("no build begins while MOFED starts", |_, life| life.fault != Some(Fault::EarlyOpen)),
    ("no driver is built without MOFED's headers", |_, life| life.fault != Some(Fault::StubBuilt)),
    ("modprobe finds nvidia-peermem.ko", |_, life| life.fault != Some(Fault::ModuleNotFound)),
    ("once everything is ready, the gate opens", |_, life| life.fault != Some(Fault::NeverOpen)),
];

/// A step of any actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Half a second passes: nobody had to act within it.
    Tick,
    Mofed(mofed::Step),
    Sidecar(sidecar::Step),
    Driver(driver::Step),
    PeermemCtr(peermem_ctr::Step),
    /// A GPU job begins to use `nvidia_peermem`, or ends.
    Job(bool),
}

/// One moment of a node's life.
#[derive(Clone, Debug)]
struct Life {
    now: BootTime,
    node: Node,
    mofed: Mofed,
    sidecar: Option<Sidecar>,
    driver: Option<Driver>,
    /// The next step of nvidia-peermem-ctr, where there is one.
    peermem_ctr: Option<peermem_ctr::Step>,
    /// How many jobs may still begin.
    jobs: u8,
    /// For so many ticks everything has been ready, and `nvidia_peermem` not live or the gate not open.
    idle: u8,
    fault: Option<Fault>,
}

/// Two moments are the same if the same can follow: the clock's own value is no part of it.
impl Hash for Life {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { now, node, mofed, sidecar, driver, peermem_ctr, jobs, idle, fault } = self;
        (node, mofed, peermem_ctr, jobs, idle, fault).hash(state);
        if let Some(driver) = driver {
            (driver.phase, driver.was_ready, driver.replacements).hash(state);
            if let Wait::Gate(gate) = &driver.wait {
                gate.hash_at(*now, state);
            }
        }
        if let Some(sidecar) = sidecar {
            sidecar.hash_at(*now, state);
        }
    }
}

impl PartialEq for Life {
    fn eq(&self, other: &Self) -> bool {
        let hash = |life| BuildHasherDefault::<DefaultHasher>::new().hash_one(life);
        hash(self) == hash(other)
    }
}

impl Life {
    fn fails(&mut self, fault: Fault) {
        self.fault = self.fault.or(Some(fault));
    }

    fn tick(&mut self) {
        self.now += TICK;
        self.mofed.ages();
        let is_idle = self.sidecar.is_some() && self.is_ready() && self.node.peermem.is_none();
        let is_gated = self.mofed.phase == Phase::Ready && self.driver.as_ref().is_some_and(Driver::is_gated);
        self.idle = if is_idle || is_gated { self.idle + 1 } else { 0 };
        if self.idle > PATIENCE {
            self.fails(if is_gated { Fault::NeverOpen } else { Fault::NeverLive });
        }
    }

    fn is_ready(&self) -> bool {
        self.mofed.phase == Phase::Ready && self.node.file == File::Good
    }

    fn is_urgent(&self) -> bool {
        let sidecar = self.sidecar.as_ref();
        let driver = self.driver.as_ref();
        let is_driver_urgent = driver.is_some_and(|driver| driver.is_urgent(self.now));
        is_driver_urgent
            || self.mofed.is_urgent()
            || sidecar.is_some_and(|sidecar| sidecar.is_urgent(self.now))
    }
}

/// How a life begins, and so what can happen in it.
#[derive(Clone, Debug)]
struct Scene {
    node: Node,
    mofed: Mofed,
    /// Whether there is a sidecar; if so, whether it sees MOFED's lock, and how often it may start again.
    sidecar: Option<(bool, u8)>,
    driver: Option<Driver>,
    has_peermem_ctr: bool,
    jobs: u8,
}

impl Model for Scene {
    type State = Life;
    type Action = Step;

    fn init_states(&self) -> Vec<Life> {
        let Self { node, mofed, sidecar, driver, has_peermem_ctr, jobs } = self.clone();
        let peermem_ctr = has_peermem_ctr.then_some(peermem_ctr::Step::Check);
        let sidecar = sidecar.map(|(sees_locks, restarts)| Sidecar::new(START, sees_locks, restarts));
        vec![Life { now: START, node, mofed, sidecar, driver, peermem_ctr, jobs, idle: 0, fault: None }]
    }

    fn actions(&self, life: &Life, steps: &mut Vec<Step>) {
        if life.fault.is_some() {
            return;
        }
        let mut mofed = Vec::new();
        // The sidecar's rmmod takes 0.12 s at most, and MOFED reads the list no sooner than 0.1 s after the marker's
        // end.
        let is_overtaken =
            life.mofed.phase == Phase::Cleared && life.sidecar.as_ref().is_some_and(Sidecar::acts);
        if !is_overtaken {
            life.mofed.steps(&life.node, &mut mofed);
        }
        steps.extend(mofed.into_iter().map(Step::Mofed));
        let mut own = Vec::new();
        if let Some(sidecar) = &life.sidecar {
            sidecar.steps(life.now, life.mofed.phase != Phase::Ready, &mut own);
        }
        steps.extend(own.into_iter().map(Step::Sidecar));
        let mut driver = Vec::new();
        if let Some(pod) = &life.driver {
            pod.steps(&life.node, life.now, &mut driver);
        }
        steps.extend(driver.into_iter().map(Step::Driver));
        let mut peermem_ctr = Vec::new();
        life.peermem_ctr_steps(&mut peermem_ctr);
        steps.extend(peermem_ctr.into_iter().map(Step::PeermemCtr));
        match life.node.is_used {
            true => steps.push(Step::Job(false)),
            false if life.jobs > 0 && life.node.peermem.is_some() => steps.push(Step::Job(true)),
            false => {}
        }
        if !life.is_urgent() {
            steps.push(Step::Tick);
        }
    }

    fn next_state(&self, last: &Life, step: Step) -> Option<Life> {
        let mut life = last.clone();
        match step {
            Step::Tick => life.tick(),
            Step::Mofed(step) => life.mofed(step),
            Step::Sidecar(step) => life.sidecar(step),
            Step::Driver(step) => life.driver(step),
            Step::PeermemCtr(step) => life.peermem_ctr(step),
            Step::Job(begins) => {
                life.node.is_used = begins;
                life.jobs -= u8::from(begins);
            }
        }
        // A reference count makes no event; everything else does.
        let is_event = !matches!(step, Step::Sidecar(_) | Step::Job(_)) && life.node != last.node;
        if let Some(sidecar) = life.sidecar.as_mut().filter(|_| is_event) {
            sidecar.wakes();
        }
        if let Some(driver) = life.driver.as_mut().filter(|_| is_event) {
            driver.wakes();
        }
        Some(life)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        LAWS.map(|(name, law)| Property::always(name, law)).into()
    }
}

fn policy() -> Policy {
    Policy {
        timeout: None,
        proceed_on_timeout: false,
        settle: Duration::from_secs(1),
        suspect_hold: Duration::from_secs(3),
        fail_fast: false,
        dry_run: false,
        heartbeat: Duration::from_secs(3600),
    }
}

/// All that can happen, or the first order of steps that breaks this law.
fn search(scene: Scene) -> (usize, Vec<(&'static str, Vec<Step>)>) {
    let checker = scene.checker().target_state_count(MOST).spawn_bfs().join();
    let mut broken: Vec<_> =
        checker.discoveries().into_iter().map(|(law, path)| (law, path.into_actions())).collect();
    broken.sort_by_key(|(law, _)| *law);
    (checker.unique_state_count(), broken)
}

fn a_sidecar(sees_locks: bool) -> Scene {
    Scene {
        node: Node::ready(),
        mofed: Mofed::new(Phase::Ready, 1),
        sidecar: Some((sees_locks, 0)),
        driver: None,
        has_peermem_ctr: false,
        jobs: 0,
    }
}

/// Scenes that take longer are searched only if `MODEL=deep`.
fn is_deep() -> bool {
    std::env::var("MODEL").is_ok_and(|deep| deep == "deep")
}

/// With and without the host's pid namespace, started again while MOFED starts, beside a job, and at two swaps.
#[test]
fn a_sidecar_never_stands_in_mofeds_way() {
    let short = [(true, 0, 0, 1), (false, 0, 0, 1), (true, 1, 0, 1)];
    let deep = [(true, 0, 1, 1), (true, 1, 1, 1), (true, 0, 0, 2)];
    for (sees_locks, restarts, jobs, starts) in
        short.into_iter().chain(deep.into_iter().filter(|_| is_deep()))
    {
        let mofed = Mofed::new(Phase::Ready, starts);
        let scene = Scene { mofed, sidecar: Some((sees_locks, restarts)), jobs, ..a_sidecar(sees_locks) };
        println!("sees locks: {sees_locks}, restarts: {restarts}, jobs: {jobs}, MOFED's starts: {starts}");
        assert_eq!(laws_broken(scene), [""; 0]);
    }
}

/// docs/sidecar.md names this limit: the lock's holder is hidden, and a container starts while `keep` waits.
#[test]
fn a_blind_sidecar_that_starts_again_can_be_faster_than_mofed() {
    let scene = Scene { sidecar: Some((false, 1)), ..a_sidecar(false) };
    assert_eq!(laws_broken(scene), ["nobody unloads what MOFED is about to unload"]);
}

/// A boot, with so many starts of MOFED's container.
fn a_boot(wait: Wait, starts: u8) -> Scene {
    let driver = Driver { phase: driver::Phase::Waiting, wait, was_ready: false, replacements: 0 };
    let mofed = Mofed::new(Phase::Down, starts);
    Scene { node: Node::booted(), mofed, sidecar: None, driver: Some(driver), ..a_sidecar(true) }
}

fn gate() -> Wait {
    Wait::Gate(Box::new(Gated::new(START)))
}

fn laws_broken(scene: Scene) -> Vec<&'static str> {
    let (states, broken) = search(scene);
    println!("{states} states: {broken:?}");
    assert!(states > 5 && states < MOST, "{states} states");
    broken.into_iter().map(|(law, _)| law).collect()
}

/// The model can see: without the gate it finds the races that upstream's issues report.
#[test]
fn the_upstream_actors_alone_run_into_the_known_races() {
    let (early, stub) = ("no build begins while MOFED starts", "no driver is built without MOFED's headers");
    // k8s-driver-manager#123. A wait for the marker mends that, until a killed container leaves its marker.
    assert!(laws_broken(a_boot(Wait::ManagerOfIncident, 1)).contains(&stub));
    assert_eq!(laws_broken(a_boot(Wait::Manager, 1)), [""; 0]);
    assert!(laws_broken(a_boot(Wait::Manager, 2)).contains(&early));
    // doca-driver-build#481.
    let ctr = Scene { sidecar: None, has_peermem_ctr: true, ..a_sidecar(true) };
    assert!(laws_broken(ctr.clone()).contains(&"nvidia_peermem is not loaded when MOFED swaps"));
    // gpu-driver-container#1019.
    let driver =
        Driver { phase: driver::Phase::Ready, wait: Wait::Manager, was_ready: true, replacements: 1 };
    let fast_path = Scene { mofed: Mofed::new(Phase::Ready, 0), driver: Some(driver), ..ctr };
    assert_eq!(laws_broken(fast_path), ["modprobe finds nvidia-peermem.ko"]);
}

/// MOFED's container may be killed or stopped, and start again.
#[test]
fn the_gate_opens_neither_early_nor_never() {
    for starts in [1, 2] {
        assert_eq!(laws_broken(a_boot(gate(), starts)), [""; 0], "{starts} starts");
    }
}
