// SPDX-License-Identifier: Apache-2.0
//! Scenes for the model of a node (tests/model/mod.rs).

#[path = "model/mod.rs"]
mod model;

use model::driver::{self, Driver, Wait};
use model::eyes::Eyes;
use model::gated::{Gated, policy};
use model::laws::{Fault, Sight};
use model::loader::Loader;
use model::mofed::{Entrypoint, Mofed, Phase};
use model::node::{Abi, File, Lock, Node};
use model::peermem_ctr::PeermemCtr;
use model::search::Scene;
use model::sidecar::{Setting, Sidecar};
use model::{Budget, Life, START};
use std::time::Duration;

/// Searches a scene, prints its size, and returns the laws that are broken.
fn broken(name: &str, life: Life, sights: &[Sight]) -> Vec<Fault> {
    let found = Scene { life, sights: sights.to_vec() }.search();
    println!("{name}: {} moments, {:?}", found.moments, found.broken);
    assert_eq!(found.unreached, [""; 0], "{name}: out of reach");
    found.broken.into_iter().map(|(fault, _)| fault).collect()
}

const NONE: [Fault; 0] = [];

fn beside_keep(setting: Setting, budget: Budget) -> Life {
    let life = Life::new(Node::ready(), Mofed::new(Phase::Ready));
    Life { sidecar: Some(Sidecar::new(START, setting)), budget, ..life }
}

const SETTING: Setting = Setting { eyes: Eyes::LOADER, rebuilds: false, is_torn: false };
const LOADED: Sight = ("nvidia_peermem is loaded", |_, life| life.node.peermem.is_some());

#[test]
fn explore_keep() {
    let once = Budget { starts: 1, stops: 1, kills: 1, ..Budget::default() };
    let torn = Setting { is_torn: true, ..SETTING };
    let blind = Setting { eyes: Eyes { sees_locks: false, ..Eyes::LOADER }, ..SETTING };
    for (name, setting, budget) in [
        ("plain", SETTING, once),
        ("torn", torn, once),
        ("blind", blind, once),
        ("rmmod", SETTING, Budget { rmmods: 1, ..once }),
        ("boot", SETTING, Budget { boots: 1, ..once }),
    ] {
        broken(name, beside_keep(setting, budget), &[LOADED]);
    }
    for haste in [2000, 3500].map(Duration::from_millis) {
        let life = beside_keep(SETTING, Budget { restarts: 1, ..once });
        broken("restart", Life { mofed: Mofed { haste, ..life.mofed.clone() }, ..life }, &[LOADED]);
    }
    let life = beside_keep(SETTING, once);
    let bash = Life {
        mofed: Mofed { entrypoint: Entrypoint::Bash, ..life.mofed.clone() },
        node: Node { lock: Lock::Absent, ..life.node.clone() },
        ..life
    };
    broken("bash", bash, &[LOADED]);
}

#[test]
fn explore_rebuild() {
    let once = Budget { starts: 1, stops: 1, kills: 1, ..Budget::default() };
    let rebuilds = Setting { rebuilds: true, ..SETTING };
    for (name, file, budget) in [
        ("stub", Some(File::Stub), once),
        ("missing", None, once),
        ("other abi", Some(File::Built(Abi::Old)), once),
        ("mishaps", Some(File::Stub), Budget { mishaps: 2, ..Budget::default() }),
        ("failure", Some(File::Stub), Budget { failures: 1, ..once }),
        ("upgrade", Some(File::Built(Abi::New)), Budget { upgrades: 1, ..once }),
    ] {
        let life = beside_keep(rebuilds, budget);
        broken(name, Life { node: Node::with_driver(file), ..life }, &[LOADED]);
    }
}

#[test]
fn explore_load() {
    let once = Budget { starts: 1, stops: 1, kills: 1, ..Budget::default() };
    for (name, file, rebuilds, timeout, torn, budget) in [
        ("load", Some(File::Built(Abi::New)), false, None, false, once),
        ("load torn", Some(File::Built(Abi::New)), false, None, true, once),
        ("load timeout", Some(File::Built(Abi::New)), false, Some(5), false, once),
        ("load rebuild", Some(File::Stub), true, None, false, once),
        ("load rebuild timeout", Some(File::Stub), true, Some(5), false, once),
        ("load mishaps", Some(File::Stub), true, None, false, Budget { mishaps: 2, ..Budget::default() }),
    ] {
        let loader = Loader::new(START, Eyes::LOADER, rebuilds, timeout.map(Duration::from_secs));
        let loader = if torn { loader.torn() } else { loader };
        let life = Life {
            loader: Some(loader),
            budget,
            ..Life::new(Node::with_driver(file), Mofed::new(Phase::Ready))
        };
        broken(name, life, &[LOADED]);
    }
}

/// A boot, and who waits for MOFED in it.
fn a_boot(wait: Wait, budget: Budget) -> Life {
    let driver = Driver::new(driver::Phase::Init, wait);
    Life { driver: Some(driver), budget, ..Life::new(Node::booted(Node::BARE), Mofed::new(Phase::Down)) }
}

fn gate() -> Wait {
    Wait::Gate(Box::new(Gated::new(START, Eyes::WAITER, policy())))
}

#[test]
fn the_upstream_actors_alone_run_into_the_known_races() {
    let once = Budget { starts: 1, ..Budget::default() };
    let again = Budget { starts: 2, kills: 1, ..once };
    // k8s-driver-manager#123. A wait for the marker mends that, until a killed container leaves its marker.
    let incident = broken("driver-manager v0.9.0", a_boot(Wait::ManagerOfIncident, once), &[driver::STUB]);
    assert!(incident.contains(&Fault::StubBuilt));
    assert_eq!(broken("driver-manager v0.9.1", a_boot(Wait::Manager, once), &[driver::READY]), NONE);
    assert!(broken("the same", a_boot(Wait::Manager, again), &[]).contains(&Fault::EarlyOpen));
    // doca-driver-build#481.
    let budget = Budget { starts: 1, stops: 1, ..Budget::default() };
    let ctr = Life {
        peermem_ctr: Some(PeermemCtr::Waits),
        budget,
        ..Life::new(Node::ready(), Mofed::new(Phase::Ready))
    };
    assert!(broken("nvidia-peermem-ctr", ctr.clone(), &[LOADED]).contains(&Fault::PinnedSwap));
    // gpu-driver-container#1019.
    let driver = Driver { has_fast_path: true, ..Driver::new(driver::Phase::Ready, Wait::Manager) };
    let budget = Budget { pods: 1, ..Budget::default() };
    let fast_path = Life { driver: Some(driver), budget, ..ctr };
    assert_eq!(broken("the fast path", fast_path, &[]), [Fault::ModuleNotFound]);
}

#[test]
fn the_gate_opens_neither_early_nor_never() {
    for (starts, kills, stops) in [(1, 0, 0), (2, 1, 1)] {
        let budget = Budget { starts, kills, stops, ..Budget::default() };
        assert_eq!(broken("wait", a_boot(gate(), budget), &[driver::READY]), NONE);
    }
}
