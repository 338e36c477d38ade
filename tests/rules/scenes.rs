// SPDX-License-Identifier: Apache-2.0
//! Scenes for the model of a node (tests/model/mod.rs says how to read it): each is a beginning and what may happen
//! after it. Every order of steps is searched, and the laws of tests/model/laws.rs must be true in each.
//! `MODEL=deep` searches more: 2.3 million moments, in two CPU minutes.

use crate::machine::Line;
use crate::model::driver::{self, Driver, Loads, Wait};
use crate::model::eyes::Eyes;
use crate::model::gated::{Gated, policy};
use crate::model::keeper::{self, Keeper, Setting};
use crate::model::laws::{Fault, Sight, law};
use crate::model::mofed::{Entrypoint, Mofed, Phase};
use crate::model::node::{Abi, File, Files, Lock, Node, Stack, Stored};
use crate::model::peermem_ctr::PeermemCtr;
use crate::model::replay::{LIVES, explain};
use crate::model::search::Scene;
use crate::model::{Budget, Life, Pace, START, Step};
use peermem_gate::ready::gate::Policy;
use std::fs;
use std::path::Path;
use std::time::Duration;

const SEARCH: &Pace = &Pace::SEARCH;

/// Searches a scene, and prints its size and the shortest way to each broken law. Exactly `unreached` must be out of
/// reach.
fn broken(name: &str, life: Life, sights: &[Sight], unreached: &[Sight]) -> Vec<&'static str> {
    let found = Scene { life, sights: [sights, unreached].concat() }.search();
    println!("{name}: {} moments", found.moments);
    for (fault, steps) in &found.broken {
        println!("    broken: {}: {steps:?}", law(*fault));
    }
    let unreached: Vec<_> = unreached.iter().map(|(what, _)| *what).collect();
    assert_eq!(found.unreached, unreached, "{name}: out of reach");
    found.broken.into_iter().map(|(fault, _)| law(fault)).collect()
}

/// All laws are true in this scene.
fn obeys(name: &str, life: Life, sights: &[Sight]) {
    assert_eq!(broken(name, life, sights, &[]), [""; 0], "{name}");
}

/// All laws are true in this scene, and it never comes to that.
fn obeys_without(name: &str, life: Life, sights: &[Sight], unreached: Sight) {
    assert_eq!(broken(name, life, sights, &[unreached]), [""; 0], "{name}");
}

/// These laws, and no others, are broken: a limit that the documents name, or a race of upstream's.
fn breaks(name: &str, life: Life, faults: &[Fault]) {
    let laws: Vec<_> = faults.iter().map(|fault| law(*fault)).collect();
    assert_eq!(broken(name, life, &[], &[]), laws, "{name}");
}

/// Scenes that take long are searched only if `MODEL=deep`.
fn is_deep() -> bool {
    std::env::var("MODEL").is_ok_and(|deep| deep == "deep")
}

/// MOFED's container is stopped or killed, and starts again.
const AGAIN: Budget = Budget { starts: 1, stops: 1, kills: 1, ..Budget::NONE };

const LOADED: Sight = ("nvidia_peermem is loaded", |_, life| life.node.peermem.is_some());
const SWAPPED: Sight =
    ("MOFED has swapped its modules", |_, life| life.mofed.number > 1 && life.mofed.phase == Phase::Ready);
const REBUILT: Sight = ("what was rebuilt is loaded", |_, life| life.node.is_rebuilt_loaded);

fn ready() -> Life {
    Life::new(Node::ready(), Mofed::new(Phase::Ready))
}

fn bash(life: Life) -> Life {
    let mofed = Mofed { entrypoint: Entrypoint::Bash, ..life.mofed.clone() };
    Life { node: Node { lock: Lock::Absent, ..life.node.clone() }, mofed, ..life }
}

// --- upstream alone ----------------------------------------------------------------------------------------------

/// A boot, and who makes the driver's build wait in it.
fn a_boot(wait: Wait, budget: Budget) -> Life {
    let driver = Driver::new(driver::Phase::Init, wait);
    Life { driver: Some(driver), budget, ..Life::new(Node::booted(Node::BARE), Mofed::new(Phase::Down)) }
}

/// The model can see: without the gate it finds the races that upstream's issues report.
#[test]
fn the_upstream_actors_alone_run_into_the_known_races() {
    let once = Budget { starts: 1, ..Budget::NONE };
    breaks(
        "k8s-driver-manager#123: v0.9.0 waits for the kernel's own mlx5_core",
        a_boot(Wait::ManagerOfIncident, once),
        &[Fault::EarlyOpen, Fault::StubBuilt],
    );
    obeys("v0.9.1 waits for the marker", a_boot(Wait::Manager, once), &[driver::READY]);
    breaks(
        "v0.9.1, and a marker that a killed container left",
        a_boot(Wait::Manager, Budget { starts: 2, kills: 1, ..once }),
        &[Fault::EarlyOpen, Fault::StubBuilt],
    );
    let ctr = Life { peermem_ctr: Some(PeermemCtr::Waits), ..ready() };
    breaks(
        "doca-driver-build#481: a check that has passed is followed by modprobe, whatever happened meanwhile",
        Life { budget: Budget { stops: 1, ..once }, ..ctr.clone() },
        &[Fault::PinnedSwap],
    );
    let driver = Driver { has_fast_path: true, ..Driver::new(driver::Phase::Ready, Wait::Manager) };
    breaks(
        "gpu-driver-container#1019: the fast path builds nothing",
        Life { driver: Some(driver), budget: Budget { pods: 1, ..Budget::NONE }, ..ctr },
        &[Fault::ModuleNotFound],
    );
}

/// The incident: `OpenShift`'s toolkit builds a stub once, and no restart of the container cures that. A keeper
/// builds nvidia-peermem in the toolkit's container, and no script ends because of it.
#[test]
fn a_stub_that_the_toolkit_built_stays_unless_a_keeper_serves() {
    let openshift = || {
        let life = a_boot(Wait::Nobody, Budget { starts: 1, ..Budget::NONE });
        let driver = life.driver.clone().expect("a pod");
        let driver = Driver { has_toolkit: true, loads: Loads::Modprobe, ..driver };
        // It has built too early, and crashes since then.
        let node =
            Node { files: Files { toolkit: Some(File::Stub), ..life.node.files }, ..life.node.clone() };
        Life { node, driver: Some(Driver { phase: driver::Phase::Ended, ..driver }), ..life }
    };
    obeys_without("without the gate", openshift(), &[], driver::READY);
    let keeper = Some(Keeper::new(START, OWNER, SEARCH));
    obeys("a keeper", Life { keeper, ..openshift() }, &[driver::READY, REBUILT]);
}

// --- wait --------------------------------------------------------------------------------------------------------

fn waiting(policy: Policy) -> Wait {
    Wait::Gate(Box::new(Gated::new(START, Eyes::WAITER, policy, SEARCH)))
}

fn gate() -> Wait {
    waiting(policy(SEARCH))
}

const BELIEVED: Sight = ("a dead container's marker is accepted", |_, life| {
    life.node.lock == Lock::Free && life.driver.as_ref().is_some_and(Driver::is_ready)
});

#[test]
fn the_gate_opens_neither_early_nor_never() {
    let twice = Budget { starts: 2, ..AGAIN };
    obeys("a boot", a_boot(gate(), Budget { starts: 1, ..Budget::NONE }), &[driver::READY]);
    obeys("a container that ends, and another", a_boot(gate(), twice), &[driver::READY, BELIEVED]);
    obeys("the older entrypoint", bash(a_boot(gate(), twice)), &[driver::READY]);
    let both = bash(a_boot(gate(), twice));
    let both = Life { node: Node { lock: Lock::Free, ..both.node.clone() }, ..both };
    obeys("the older entrypoint beside a lock file of the newer one", both, &[driver::READY, BELIEVED]);
    let boots = Budget { starts: 1, boots: 1, ..Budget::NONE };
    obeys("the node boots again", a_boot(gate(), boots), &[driver::READY]);
    if is_deep() {
        let torn = Gated::new(START, Eyes::WAITER, policy(SEARCH), SEARCH).torn();
        obeys("others act during its looks", a_boot(Wait::Gate(Box::new(torn)), twice), &[driver::READY]);
        obeys("a boot among them", a_boot(gate(), Budget { boots: 1, ..twice }), &[driver::READY]);
    }
}

/// The NIC leaves the bus at any time, in any order with the others, and comes back or not.
const RESET: Budget = Budget { starts: 1, resets: 1, ..Budget::NONE };

/// The NIC is off the bus when the scene begins.
fn away(life: Life) -> Life {
    let mut node = life.node.clone();
    (node.has_nic, node.stack.nic) = (false, None);
    Life { node, ..life }
}

fn with_pod(life: Life) -> Life {
    Life { driver: Some(Driver::new(driver::Phase::Init, gate())), ..life }
}

/// MOFED's first container of a boot has begun.
fn beginning() -> Life {
    let node = Node { lock: Lock::Held(1), ..Node::booted(Node::BARE) };
    Life::new(node, Mofed::new(Phase::Begun))
}

fn opens_without_nic(life: &Life) -> bool {
    life.driver.as_ref().is_some_and(|driver| driver.phase == driver::Phase::Started) && !life.node.has_nic
}

#[test]
fn without_a_nic_the_gate_waits_where_anything_speaks_of_mofed() {
    const GONE: Sight =
        ("it opens once the NIC was away for the whole hold", |_, life| opens_without_nic(life));
    const UNTRACED: Sight = ("it opens in a reset before MOFED's first trace", |_, life| {
        opens_without_nic(life) && !life.node.is_traced()
    });
    obeys("a NIC is reset", a_boot(gate(), RESET), &[driver::READY, GONE]);
    obeys("a NIC is reset, older entrypoint", bash(a_boot(gate(), RESET)), &[driver::READY, GONE]);
    // Nothing has loaded the NIC's driver, or what that needs: docs/design.md names this limit.
    let bare = away(a_boot(gate(), RESET));
    let bare = Life { node: Node { stack: Stack::default(), ..bare.node.clone() }, ..bare };
    obeys("a boot in a reset without any module", bare, &[UNTRACED, driver::STUB, driver::READY]);
    let booted = a_boot(gate(), Budget { starts: 1, ..Budget::NONE });
    let driver = Life { node: Node { has_nic: false, ..booted.node.clone() }, ..booted.clone() };
    obeys_without("a boot in a reset that leaves the driver", driver, &[driver::READY, GONE], UNTRACED);
    let taken = away(booted);
    obeys_without("a boot in a reset that takes the driver along", taken, &[driver::READY, GONE], UNTRACED);
    obeys("a pod starts in a reset", away(with_pod(ready())), &[driver::READY, GONE]);
    obeys("a pod starts in a reset while MOFED starts", away(with_pod(beginning())), &[driver::READY, GONE]);
    breaks("a loop for the marker asks for no NIC", a_boot(Wait::Manager, RESET), &[Fault::StubBuilt]);
    if is_deep() {
        let twice = Budget { starts: 2, resets: 2, ..AGAIN };
        obeys("NICs are reset, containers end", a_boot(gate(), twice), &[driver::READY, BELIEVED]);
        let torn = Gated::new(START, Eyes::WAITER, policy(SEARCH), SEARCH).torn();
        obeys("during its looks", a_boot(Wait::Gate(Box::new(torn)), RESET), &[driver::READY]);
    }
}

#[test]
fn load_and_keep_in_a_reset() {
    let stopped = Budget { resets: 1, ..Budget { kills: 0, ..AGAIN } };
    obeys("load, a NIC is reset", loading(GOOD, false, None, stopped), &[LOADED, keeper::LOADED]);
    obeys(
        "load starts in a reset",
        away(loading(GOOD, false, None, Budget::NONE)),
        &[LOADED, keeper::LOADED],
    );
    // The marker's end is reason enough: MOFED needs its modules, whatever the NIC does.
    let live = away(keeping(KEEP, Budget { kills: 0, ..AGAIN }));
    let live = Life { node: Node { peermem: Some(2), loads: 2, ..live.node.clone() }, ..live };
    obeys("keep starts in a reset, and nvidia_peermem is live", live, &[LOADED, SWAPPED]);
    obeys("keep, a NIC is reset", keeping(KEEP, stopped), &[LOADED, SWAPPED]);
}

#[test]
fn a_gate_with_a_deadline_ends_at_it_and_opens_after_it_only_if_told_to() {
    const EARLY: Duration = Duration::from_secs(4);
    let timed = |proceed_on_timeout| {
        let policy = Policy { timeout: Some(EARLY), proceed_on_timeout, ..policy(SEARCH) };
        a_boot(waiting(policy), Budget { starts: 1, ..Budget::NONE })
    };
    obeys("--timeout", timed(false), &[driver::READY]);
    breaks("--on-timeout proceed opens without headers", timed(true), &[Fault::StubBuilt]);
}

/// Init containers do not run again when the driver's container starts again (docs/integration.md).
#[test]
fn an_init_container_guards_one_build_and_a_wrapper_each() {
    let restarts = Budget { starts: 2, stops: 1, crashes: 1, ..Budget::NONE };
    breaks("an init container", a_boot(gate(), restarts), &[Fault::StubBuilt]);
    let wrapped = a_boot(gate(), restarts);
    let driver = wrapped.driver.clone().map(|driver| Driver { is_wrapped: true, ..driver });
    obeys("a wrapper", Life { driver, ..wrapped }, &[driver::READY]);
}

// --- load --------------------------------------------------------------------------------------------------------

fn loading(file: Option<File>, rebuilds: bool, timeout: Option<u64>, budget: Budget) -> Life {
    let setting = Setting { rebuilds, timeout: timeout.map(Duration::from_secs), ..LOAD };
    Life { node: Node::with_driver(file), ..keeping(setting, budget) }
}

const GOOD: Option<File> = Some(File::Built(Abi::New));

#[test]
fn load_goes_into_no_swap_and_comes_to_an_end() {
    obeys("load", loading(GOOD, false, None, AGAIN), &[LOADED, keeper::LOADED]);
    obeys("load, older entrypoint", bash(loading(GOOD, false, None, AGAIN)), &[LOADED, SWAPPED]);
    let torn = keeping(Setting { is_torn: true, ..LOAD }, AGAIN);
    obeys("load, others act during its looks", torn, &[LOADED, keeper::LOADED]);
    let stopped = Budget { kills: 0, ..AGAIN };
    obeys("load --timeout", loading(GOOD, false, Some(4), stopped), &[LOADED]);
    if is_deep() {
        obeys("load --timeout, and kills", loading(GOOD, false, Some(4), AGAIN), &[LOADED]);
        obeys(
            "load is started again",
            loading(GOOD, false, None, Budget { restarts: 1, ..AGAIN }),
            &[LOADED],
        );
    }
}

// --- keep --------------------------------------------------------------------------------------------------------

const KEEP: Setting = Setting::LOADER;
const LOAD: Setting = Setting { is_load: true, ..KEEP };
const REBUILDS: Setting = Setting { rebuilds: true, ..KEEP };
const BLIND: Eyes = Eyes { sees_locks: false, ..Eyes::LOADER };

fn keeping(setting: Setting, budget: Budget) -> Life {
    Life { keeper: Some(Keeper::new(START, setting, SEARCH)), budget, ..ready() }
}

fn restoring(life: Life) -> Life {
    Life { mofed: Mofed { restores: true, ..life.mofed.clone() }, ..life }
}

#[test]
fn keep_never_stands_in_mofeds_way() {
    let stopped = Budget { kills: 0, ..AGAIN };
    obeys("keep", keeping(KEEP, AGAIN), &[LOADED, SWAPPED]);
    obeys("keep, lock's holder hidden", keeping(Setting { eyes: BLIND, ..KEEP }, AGAIN), &[LOADED, SWAPPED]);
    obeys("keep, older entrypoint", bash(keeping(KEEP, AGAIN)), &[LOADED, SWAPPED]);
    obeys("keep, MOFED restores the kernel's own", restoring(keeping(KEEP, stopped)), &[LOADED]);
    obeys("keep, a job", keeping(KEEP, Budget { jobs: 1, ..stopped }), &[LOADED, SWAPPED]);
    let people = Budget { rmmods: 1, hups: 1, ..Budget::NONE };
    obeys("keep, a person unloads the module, and sends SIGHUP", keeping(KEEP, people), &[LOADED]);
    obeys("keep, the node boots", keeping(KEEP, Budget { boots: 1, ..Budget::NONE }), &[LOADED, SWAPPED]);
    // A restart begins the courtesy of 1.5 s again.
    let restarted = |budget| {
        let life = keeping(KEEP, Budget { restarts: 1, ..budget });
        let mofed = Mofed { haste: Duration::from_millis(3500), ..life.mofed.clone() };
        Life { mofed, ..life }
    };
    let killed = Budget { stops: 0, ..AGAIN };
    obeys("keep is restarted, MOFED is killed", restarted(killed), &[LOADED, SWAPPED]);
    if is_deep() {
        let torn = Setting { is_torn: true, ..KEEP };
        for (name, setting, budget) in [
            ("others act during its looks", torn, AGAIN),
            ("a job", KEEP, Budget { jobs: 1, ..AGAIN }),
            ("people, and MOFED", KEEP, Budget { rmmods: 1, hups: 1, ..AGAIN }),
            ("a NIC is reset, and kills", KEEP, Budget { resets: 1, ..AGAIN }),
            ("MOFED, and a boot", KEEP, Budget { boots: 1, ..AGAIN }),
            ("MOFED starts twice", KEEP, Budget { starts: 2, stops: 2, ..stopped }),
        ] {
            obeys(&format!("keep, {name}"), keeping(setting, budget), &[LOADED, SWAPPED]);
        }
        obeys("keep is restarted", restarted(AGAIN), &[LOADED, SWAPPED]);
    }
}

/// k8s-driver-manager and the driver container's own EXIT trap unload `nvidia_peermem`, then nvidia.
#[test]
fn a_keeper_of_the_node_never_keeps_others_from_unloading_the_driver() {
    const SERVICE: Setting = Setting { is_service: true, ..KEEP };
    const HASTY: &Pace = &Pace { driver_unload: Duration::ZERO, ..Pace::SEARCH };
    let beside = |pace, budget| {
        let driver = Driver { leaves: true, ..Driver::new(driver::Phase::Ready, Wait::Manager) };
        let keeper = Some(Keeper::new(START, SERVICE, pace));
        Life { pace, keeper, driver: Some(driver), budget, ..ready() }
    };
    let pods = Budget { pods: 1, ..Budget::NONE };
    let crashes = Budget { crashes: 1, ..Budget::NONE };
    let sights = [LOADED, driver::LEFT, driver::READY];
    obeys("the pod is replaced", beside(SEARCH, pods), &sights);
    obeys("its container ends", beside(SEARCH, crashes), &sights);
    obeys("keep is started again", beside(SEARCH, Budget { restarts: 1, ..pods }), &sights);
    let ctr = Life { peermem_ctr: Some(PeermemCtr::Waits), ..beside(SEARCH, pods) };
    // docs/sidecar.md names the limit: a load and its unload that `keep` has not seen are no order.
    let faults = [Fault::LoadIntoUnload, Fault::ModuleNotFound];
    breaks("nvidia-peermem-ctr loads, and the pod is replaced, before keep looks", ctr, &faults);
    obeys("MOFED, too", beside(SEARCH, Budget { starts: 1, stops: 1, ..pods }), &[LOADED, SWAPPED]);
    breaks("a keep that loads again at once", beside(HASTY, pods), &[Fault::LoadIntoUnload]);
}

// --- one owner -----------------------------------------------------------------------------------------------------

/// A boot with the node's keeper and a script that loads nvidia-peermem itself.
fn owned(loads: Loads, wait: Wait, budget: Budget) -> Life {
    let life = a_boot(wait, budget);
    let driver = life.driver.clone().map(|driver| Driver { loads, ..driver });
    Life { driver, keeper: Some(Keeper::new(START, OWNER, SEARCH)), ..life }
}

const OWNER: Setting = Setting { is_service: true, ..REBUILDS };

#[test]
fn while_a_keeper_serves_it_alone_loads_and_no_script_ends() {
    const DECLINED: Sight = ("modprobe in the container loads nothing", |_, life| {
        life.driver.as_ref().is_some_and(|driver| driver.is_ready() && driver.has_line)
            && life.node.peermem.is_none()
    });
    let once = Budget { starts: 1, ..Budget::NONE };
    let sights = [driver::STUB, DECLINED, REBUILT, driver::READY];
    obeys("RHEL's script, a parallel boot", owned(Loads::Modprobe, Wait::Nobody, once), &sights);
    obeys("Ubuntu's script, a parallel boot", owned(Loads::GoesOn, Wait::Nobody, once), &sights);
    obeys(
        "RHEL's script, after the marker",
        owned(Loads::Modprobe, Wait::Manager, once),
        &[DECLINED, LOADED],
    );
    let again = Budget { restarts: 1, ..once };
    obeys("the keeper is started again", owned(Loads::Modprobe, Wait::Manager, again), &[DECLINED, LOADED]);
    let ends = Budget { crashes: 1, ..once };
    obeys("the container ends", owned(Loads::Modprobe, Wait::Nobody, ends), &sights);
    if is_deep() {
        let stopped = Budget { kills: 0, ..AGAIN };
        obeys("MOFED swaps", owned(Loads::Modprobe, Wait::Nobody, stopped), &[DECLINED, SWAPPED]);
    }
}

/// The line stays in the container, and nobody holds the lock: its modprobe does at once what it does without us.
#[test]
fn without_a_keeper_the_line_loads() {
    let life = a_boot(Wait::Manager, Budget { starts: 1, crashes: 1, ..Budget::NONE });
    let driver = Driver {
        loads: Loads::Modprobe,
        has_line: true,
        ..Driver::new(driver::Phase::Loading, Wait::Nobody)
    };
    obeys("a keeper was here", Life { driver: Some(driver), ..ready() }, &[LOADED, driver::READY]);
    obeys("no keeper was", Life { keeper: None, ..life }, &[driver::READY]);
    // The law can be broken: a lock that outlives its process.
    let driver = Driver {
        loads: Loads::Modprobe,
        has_line: true,
        ..Driver::new(driver::Phase::Loading, Wait::Nobody)
    };
    let held = Life { node: Node { is_owned: true, ..Node::ready() }, driver: Some(driver), ..ready() };
    breaks("a lock that nobody holds", held, &[Fault::NobodyLoads]);
}

#[test]
fn a_keeper_yields_to_a_driver_that_is_deleted() {
    let beside = |setting, budget| {
        let driver =
            Driver { leaves: true, is_rhel: true, ..Driver::new(driver::Phase::Ready, Wait::Manager) };
        let keeper = Some(Keeper::new(START, setting, SEARCH));
        let node = Node { is_driver_ready: true, ..Node::ready() };
        Life { node, keeper, driver: Some(driver), budget, ..ready() }
    };
    let looked = |life: Life| life.take(Step::Keeper(keeper::Step::Look));
    let pods = Budget { pods: 1, ..Budget::NONE };
    let sights = [LOADED, driver::LEFT, driver::READY];
    obeys("RHEL's script, the pod is deleted", looked(beside(OWNER, pods)), &sights);
    let mut young = beside(OWNER, pods);
    (young.node.is_driver_ready, young.node.daemons) = (false, Some(true));
    young.driver = young.driver.map(|driver| Driver { has_daemons_file: true, ..driver });
    obeys("the same, in its first minute", looked(young), &sights);
    // docs/sidecar.md names the limits: a keeper that starts while the driver ends has not seen that it was ready,
    // and a container that ends alone says nothing before.
    breaks("the keeper starts meanwhile", beside(OWNER, pods), &[Fault::UvmLost]);
    let crashes = Budget { crashes: 1, ..Budget::NONE };
    breaks("its container ends alone", beside(OWNER, crashes), &[Fault::UvmLost]);
    breaks("a sidecar looks for no driver", beside(REBUILDS, pods), &[Fault::UvmLost]);
}

/// docs/sidecar.md names these limits.
#[test]
fn a_keep_that_starts_again_may_collide_with_mofed() {
    let stopped = Budget { restarts: 1, ..Budget { kills: 0, ..AGAIN } };
    let blind = keeping(Setting { eyes: BLIND, ..KEEP }, stopped);
    breaks("holder hidden: it is faster than MOFED's own rmmod", blind, &[Fault::LostUnload]);
    let killed = keeping(KEEP, Budget { restarts: 1, ..Budget { stops: 0, ..AGAIN } });
    breaks("it waits once more, and MOFED swaps within 3 s", killed, &[Fault::PinnedSwap]);
}

// --- rebuild -----------------------------------------------------------------------------------------------------

const OTHER: Option<File> = Some(File::Built(Abi::Old));

fn with_driver(file: Option<File>, life: Life) -> Life {
    Life { node: Node::with_driver(file), ..life }
}

#[test]
fn a_stub_and_rebuild_auto_are_live_in_the_end() {
    let killed = Budget { stops: 0, ..AGAIN };
    for (name, file) in [("a stub", Some(File::Stub)), ("no file", None), ("a file of another ABI", OTHER)] {
        let calm = with_driver(file, keeping(REBUILDS, Budget::NONE));
        obeys(&format!("keep --rebuild auto, {name}"), calm, &[REBUILT]);
        obeys(&format!("load --rebuild auto, {name}"), loading(file, true, None, Budget::NONE), &[REBUILT]);
    }
    let stub = Some(File::Stub);
    obeys(
        "keep --rebuild auto beside MOFED",
        with_driver(stub, keeping(REBUILDS, killed)),
        &[REBUILT, SWAPPED],
    );
    obeys("load --rebuild auto beside MOFED", loading(stub, true, None, killed), &[REBUILT, keeper::LOADED]);
    let mishaps = Budget { mishaps: 2, ..Budget::NONE };
    obeys("builds that are killed", with_driver(stub, keeping(REBUILDS, mishaps)), &[REBUILT]);
    obeys("the same, load", loading(stub, true, None, mishaps), &[REBUILT]);
    let failures = Budget { failures: 1, hups: 1, ..Budget::NONE };
    obeys("a build that fails, and SIGHUP", with_driver(stub, keeping(REBUILDS, failures)), &[REBUILT]);
    obeys("load --rebuild auto --timeout", loading(stub, true, Some(4), Budget::NONE), &[REBUILT]);
    if is_deep() {
        let sees = Setting { eyes: Eyes { sees_mofeds_files: true, ..Eyes::LOADER }, ..REBUILDS };
        let torn = Setting { is_torn: true, ..REBUILDS };
        for (name, setting, budget) in [
            ("MOFED ends and is killed", REBUILDS, AGAIN),
            ("MOFED's files are known", sees, AGAIN),
            ("others act during its looks", torn, killed),
            ("MOFED is upgraded", REBUILDS, Budget { upgrades: 1, ..AGAIN }),
            ("a build fails or is killed", REBUILDS, Budget { failures: 1, mishaps: 1, ..killed }),
            ("keep is restarted", REBUILDS, Budget { restarts: 1, starts: 1, ..Budget::NONE }),
            ("the node boots", REBUILDS, Budget { boots: 1, ..killed }),
        ] {
            let life = with_driver(stub, keeping(setting, budget));
            obeys(&format!("keep --rebuild auto, {name}"), life, &[REBUILT]);
        }
        obeys("load --rebuild auto --timeout beside MOFED", loading(stub, true, Some(4), AGAIN), &[REBUILT]);
    }
}

/// MOFED's next release has another ABI: what was rebuilt for the last one stands before the driver's file then.
#[test]
fn what_was_rebuilt_for_another_mofed_is_removed_or_rebuilt() {
    const UNDONE: Sight = ("what was rebuilt is removed", |_, life| {
        life.node.files.rebuilt.is_none() && life.node.peermem.is_some()
    });
    const UPGRADED: Sight = ("the next release is loaded, and nvidia_peermem", |_, life| {
        life.node.live_abi() == Some(Abi::Old) && life.node.is_rebuilt_loaded
    });
    let rebuilt = |driver| {
        let life = keeping(REBUILDS, Budget::NONE);
        let files = Files { driver, rebuilt: Some(Abi::Old), ..life.node.files };
        Life { node: Node { files, ..life.node.clone() }, ..life }
    };
    obeys("the driver's own fits", rebuilt(GOOD), &[UNDONE]);
    obeys("the driver's own is a stub", rebuilt(Some(File::Stub)), &[REBUILT]);
    let upgraded = keeping(REBUILDS, Budget { starts: 1, stops: 1, upgrades: 1, ..Budget::NONE });
    obeys("MOFED is upgraded", upgraded, &[UPGRADED]);
}

/// The fast path: the driver's container has neither a module nor sources, and the node has a store.
#[test]
fn a_stored_module_is_used_only_if_every_build_id_fits() {
    let fits = Stored { abi: Abi::New, is_damaged: false, is_of_nvidia: true };
    let node = |stored| {
        let life = keeping(REBUILDS, Budget { starts: 1, stops: 1, upgrades: 1, ..Budget::NONE });
        let files = Files { driver: None, has_sources: false, ..life.node.files };
        Life { node: Node { files, stored: Some(stored), ..life.node.clone() }, ..life }
    };
    obeys("the store's module fits", node(fits), &[REBUILT, SWAPPED]);
    obeys_without("a damaged store", node(Stored { is_damaged: true, ..fits }), &[SWAPPED], LOADED);
    obeys_without("of another nvidia", node(Stored { is_of_nvidia: false, ..fits }), &[SWAPPED], LOADED);
    obeys("of the next MOFED", node(Stored { abi: Abi::Old, ..fits }), &[REBUILT, SWAPPED]);
    let sources = node(Stored { is_damaged: true, ..fits });
    let files = Files { has_sources: true, ..sources.node.files };
    let sources = Life { node: Node { files, ..sources.node.clone() }, ..sources };
    obeys("a damaged store, and sources", sources, &[REBUILT, SWAPPED]);
}

/// A gate that sees MOFED's own files gives the kernel no file of another ABI, and builds none with other headers.
#[test]
fn a_gate_that_sees_mofeds_files_asks_the_kernel_for_nothing_that_they_refuse() {
    const SEES: Eyes = Eyes { sees_mofeds_files: true, ..Eyes::LOADER };
    let killed = Budget { stops: 0, ..AGAIN };
    let other = with_driver(OTHER, keeping(Setting { eyes: SEES, ..KEEP }, killed));
    obeys_without("a file of another ABI, keep without a rebuild", other, &[SWAPPED], LOADED);
    // Somebody has put the last MOFED's headers there; the next swap brings the right ones.
    let stub = with_driver(Some(File::Stub), keeping(Setting { eyes: SEES, ..REBUILDS }, killed));
    let stub = Life { node: Node { headers: Some(Abi::Old), ..stub.node.clone() }, ..stub };
    obeys("headers of another MOFED", stub, &[SWAPPED, REBUILT]);
}

/// Without CRCs the kernel takes a file of any ABI. Who rebuilds gives it only what was built for the live MOFED, as
/// MOFED's own files show; who cannot see these gives it nothing.
#[test]
fn on_a_kernel_without_symbol_versions_only_a_build_for_the_live_mofed_is_loaded() {
    const OTHERS: Sight = ("a file of another ABI is loaded", |_, life| {
        life.node.peermem.is_some() && life.node.files.driver == OTHER
    });
    const SEES: Eyes = Eyes { sees_mofeds_files: true, ..Eyes::LOADER };
    let killed = Budget { stops: 0, ..AGAIN };
    let rebuilds = Setting { eyes: SEES, ..REBUILDS };
    let keep = |file| with_driver(file, keeping(rebuilds, killed)).unversioned();
    for (what, file) in [("another ABI", OTHER), ("this one", GOOD), ("a stub", Some(File::Stub))] {
        obeys(&format!("keep --rebuild auto, a file of {what}"), keep(file), &[REBUILT, SWAPPED]);
    }
    let load = with_driver(OTHER, keeping(Setting { is_load: true, ..rebuilds }, killed));
    obeys("load --rebuild auto", load.unversioned(), &[keeper::LOADED]);
    let upgraded = keeping(rebuilds, Budget { starts: 1, stops: 1, upgrades: 1, ..Budget::NONE });
    obeys("MOFED is upgraded", upgraded.unversioned(), &[SWAPPED, REBUILT]);
    let blind = with_driver(GOOD, keeping(REBUILDS, killed)).unversioned();
    obeys_without("MOFED's files are not seen", blind, &[SWAPPED], LOADED);
    let without = with_driver(OTHER, keeping(KEEP, killed)).unversioned();
    obeys("keep without a rebuild takes what the kernel takes", without, &[OTHERS, SWAPPED]);
}

/// The driver builds while MOFED starts, and `keep --rebuild auto` rebuilds its stub (docs/heal.md).
#[test]
fn a_parallel_boot_ends_live() {
    let boot = a_boot(Wait::Nobody, Budget { starts: 1, ..Budget::NONE });
    let keeper = Some(Keeper::new(START, REBUILDS, SEARCH));
    obeys("a parallel boot", Life { keeper, ..boot.clone() }, &[driver::STUB, REBUILT]);
    let loader = Keeper::new(START, Setting { is_load: true, ..REBUILDS }, SEARCH);
    let driver = boot.driver.clone().map(|driver| Driver { loads: Loads::Gate(Box::new(loader)), ..driver });
    obeys("the same with load in the driver's container", Life { driver, ..boot }, &[driver::STUB, REBUILT]);
}

// --- a host's MOFED ----------------------------------------------------------------------------------------------

#[test]
fn a_hosts_mofed_is_waited_for_and_gets_its_modules_back() {
    const HOST: Eyes = Eyes { is_host: true, ..Eyes::LOADER };
    let hosts = |life: Life| {
        let mofed = Mofed { entrypoint: Entrypoint::Host, ..life.mofed.clone() };
        Life { node: Node { marker: None, lock: Lock::Absent, ..life.node.clone() }, mofed, ..life }
    };
    let restarts = Budget { starts: 2, ..Budget::NONE };
    let keep = keeping(Setting { eyes: HOST, ..REBUILDS }, restarts);
    obeys("keep", hosts(keep.clone()), &[LOADED, SWAPPED]);
    obeys("keep, a stub", hosts(with_driver(Some(File::Stub), keep)), &[REBUILT, SWAPPED]);
    let gated = Gated::new(START, Eyes { wants_peermem: false, ..HOST }, policy(SEARCH), SEARCH);
    let booted = hosts(a_boot(Wait::Gate(Box::new(gated)), restarts));
    obeys("wait, at a boot", booted, &[driver::READY]);
}

// --- real lives --------------------------------------------------------------------------------------------------

/// Recorded lives, by their files: PLACE or PLACE.WHAT.
fn traces() -> impl Iterator<Item = (String, Vec<Line>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces/lives");
    let mut files: Vec<_> =
        fs::read_dir(directory).expect("traces").map(|file| file.expect("a file").path()).collect();
    files.sort();
    files.into_iter().map(|file| {
        let text = fs::read_to_string(&file).expect("a text");
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        (name, text.lines().filter_map(Line::parse).collect())
    })
}

/// The place in which the gate is (tests/life/plan.rs).
fn place(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}

/// The model is no fiction: what a real kernel, MOFED's steps in a shell and the program did, it can do.
#[test]
fn the_model_explains_real_lives() {
    for (name, lines) in traces() {
        let most = explain(place(&name), &lines, &LIVES).unwrap_or_else(|why| panic!("{name}: {why}")).most;
        println!("{name}: {} lines, {most} lives at most", lines.len());
    }
}

/// A change of a trace: the line of this kind that its text begins with, the first one at this time or later, is
/// moved by so many seconds, gets another text, or goes. That is refused at this line, or at the one that misses it.
enum Change {
    Moved(f64),
    Says(&'static str, &'static str),
    MissedBy(&'static str, &'static str),
}

#[test]
fn the_model_explains_no_life_that_did_not_happen() {
    use Change::{MissedBy, Moved, Says};
    let all: Vec<_> = traces().collect();
    for (what, name, (kind, text, from), change) in [
        ("wait opens before everything has settled", "keep", ("opened", "pod", 0.0), Moved(-0.5)),
        ("wait opens seconds too late", "wrapper", ("opened", "pod", 0.0), Moved(4.0)),
        ("wait opens on a suspect marker before its hold", "bare", ("opened", "wait 1", 0.0), Moved(-10.0)),
        (
            "wait opens before a second has passed since a reset",
            "init.reset",
            ("opened", "wait 1", 0.0),
            Moved(-0.2),
        ),
        (
            "keep loads before a second has passed since a reset",
            "parallel.reset",
            ("asked", "", 130.0),
            Moved(-0.3),
        ),
        ("keep loads during a reset", "parallel.reset", ("asked", "", 130.0), Moved(-3.0)),
        (
            "keep does not load after a reset",
            "parallel.reset",
            ("answered", "0", 130.0),
            MissedBy("left", "0"),
        ),
        ("wait does not open", "manager", ("opened", "pod", 0.0), MissedBy("built", "wait 1 old")),
        ("a build finds headers that are not there", "keep", ("built", "pod", 0.0), Says("built", "pod old")),
        ("keep loads before everything has settled", "keep", ("asked", "", 40.0), Moved(-0.6)),
        ("keep does not load", "keep", ("answered", "0", 40.0), MissedBy("killed", "kill")),
        (
            "the kernel refuses a file that fits",
            "keep",
            ("answered", "0", 40.0),
            Says("answered", "1 Invalid argument"),
        ),
        ("the kernel loads a file of another ABI", "ctr", ("answered", "1", 0.0), Says("answered", "0")),
        (
            "the same on a kernel with CRCs",
            "shim.unversioned",
            ("unversioned", "", 0.0),
            MissedBy("asked", ""),
        ),
        ("keep leaves the module to MOFED's swap", "keep", ("ready", "new", 40.0), Says("failed", "held")),
        ("keep is faster than MOFED's own rmmod", "keep", ("swap", "", 80.0), Says("failed", "collision")),
        ("keep rebuilds in no time", "parallel", ("asked", "", 100.0), Moved(-10.0)),
        (
            "MOFED is ready before it has cleared its marker",
            "shim",
            ("unmarked", "", 0.0),
            MissedBy("swap", ""),
        ),
    ] {
        let (_, lines) = all.iter().find(|(file, _)| file == name).expect("a trace");
        // A boot's clock begins at zero, and a replay ends there.
        let mut lines: Vec<_> = lines.iter().take_while(|line| line.kind != "booted").cloned().collect();
        let is_it = |line: &Line| line.kind == kind && line.text.starts_with(text) && line.at >= from;
        let at = lines.iter().position(is_it).expect("such a line");
        let line = lines[at].clone();
        let seconds = line.at;
        let with =
            |kind: &str, text: &str| Line { at: seconds, kind: kind.to_owned(), text: text.to_owned() };
        let (changed, refused) = match change {
            Moved(by) => (Some(Line { at: line.at + by, ..line.clone() }), line),
            Says(kind, text) => (Some(with(kind, text)), with(kind, text)),
            MissedBy(kind, text) => (None, with(kind, text)),
        };
        lines.splice(at..=at, changed);
        lines.sort_by(|one, other| one.at.total_cmp(&other.at));
        let Err(why) = explain(place(name), &lines, &LIVES) else { panic!("explained: {what}") };
        let refused = format!("kind: {:?}, text: {:?} }}: no life of ", refused.kind, refused.text);
        assert!(why.contains(&refused), "{what}: {why}");
        println!("{what}: {}", why.split(": no life").next().unwrap_or_default());
    }
    let (name, mut lines) = all.into_iter().next().expect("a trace");
    lines[5].kind = "moved".to_owned();
    assert!(
        explain(place(&name), &lines, &LIVES).is_err_and(|why| why.contains("teach it")),
        "a kind that nobody has taught"
    );
}

// --- the model itself --------------------------------------------------------------------------------------------

#[test]
fn the_production_code_calls_the_ready_node_ready() {
    let reason = |node: &Node| {
        let seen = Eyes::LOADER.look(node);
        seen.look.verdict.deciding().map(|condition| condition.reason.to_string())
    };
    assert_eq!(reason(&Node::ready()), None);
    for (spoilt, file) in [
        ("StubModule", Some(File::Stub)),
        ("ModuleFileMissing", None),
        ("SymbolVersionMismatch", Some(File::Built(Abi::Old))),
    ] {
        assert_eq!(reason(&Node::with_driver(file)).as_deref(), Some(spoilt));
    }
}
