// SPDX-License-Identifier: Apache-2.0
//! Short lives, and what they are counted as.

use super::super::plan::{Life, Node, Place, TRACKS};
use super::{Tally, on_one_clock};
use crate::machine::Line;

/// A life with these lines, which has come to its end: the counts, and what must not be.
fn tally_of(place: Place, node: Node, lines: &str) -> (Tally, Vec<String>) {
    let done = TRACKS.map(|track| format!("@9000 done {track}")).join("\n");
    let text = format!("@1 life 1\n{lines}\n{done}\n@9000 over");
    let lines: Vec<_> = text.lines().filter_map(Line::parse).collect();
    let mut tally = Tally::default();
    let faults = tally.add("6.1", &Life { seed: 1, plan: 1, place, node, parts: Vec::new() }, &lines);
    (tally, faults)
}

fn faults_of(place: Place, node: Node, lines: &str) -> String {
    tally_of(place, node, lines).1.join("; ")
}

const STARTED: &str = "@1 lives none used\n@2 begun go\n@3 unmarked\n@4 swap\n@10 ready new\n";

pub(crate) fn a_module_is_usable_so_long_after_the_last_readiness() {
    let loads = "@20 asked\n@20.5 answered 1 modprobe: Invalid argument\n@30 asked\n@30.5 answered 0\n";
    let (tally, faults) = tally_of(Place::NodeHost, Node::Used, &(STARTED.to_owned() + loads));
    let counts = &tally.places[&Place::NodeHost];
    assert_eq!((counts.times.as_slice(), counts.einval, faults), (&[20.5][..], 1, Vec::new()));
    // The node has slept for eight of these seconds.
    let slept = STARTED.to_owned() + "@12 suspends\n@20 resumed\n@30 asked\n@30.5 answered 0\n";
    assert_eq!(tally_of(Place::NodeHost, Node::Used, &slept).0.places[&Place::NodeHost].times, [12.5]);
    // It was never usable.
    let never = STARTED.to_owned() + loads + "@900 never\n";
    assert!(tally_of(Place::NodeHost, Node::Used, &never).0.places[&Place::NodeHost].times.is_empty());
}

pub(crate) fn a_place_is_compared_with_the_loop_in_the_same_plan() {
    let mut tally = Tally::default();
    for (plan, place, live) in [(7, Place::Poll, 30), (7, Place::NodeRhel, 32), (8, Place::NodeRhel, 90)] {
        let text = format!("@1 life 1\n{STARTED}@20 asked\n@{live} answered 0\n@9000 over");
        let lines: Vec<_> = text.lines().filter_map(Line::parse).collect();
        let life = Life { seed: 1, plan, place, node: Node::Used, parts: Vec::new() };
        let _ = tally.add("6.1", &life, &lines);
    }
    assert_eq!(tally.later_than_the_loop(Place::NodeRhel), [2.0]);
}

pub(crate) fn a_gate_that_is_early_is_a_fault_and_a_loop_that_is_early_is_counted() {
    let early = "@1 lives none used\n@2 begun go\n@3 started wait 1\n@5 opened poll 1\n";
    let (tally, faults) = tally_of(Place::Bare, Node::Used, &format!("{early}@5 asked\n@5 answered 1\n"));
    assert_eq!((tally.kernels["6.1"].early, faults), (0, Vec::new()));
    assert!(tally.waiters["poll"].shown_openings().starts_with("1 | 1 |"));
    assert!(tally.places[&Place::Bare].shown_openings().starts_with("1 | 1 |"));
    let (tally, faults) = tally_of(Place::Bare, Node::Used, &format!("{early}@6 opened wait 1\n"));
    assert_eq!(
        (tally.kernels["6.1"].early, faults),
        (1, vec!["early (Early), at 6.000: opened wait 1".to_owned()])
    );
    let away =
        STARTED.to_owned() + "@11 started wait 1\n@12 reset begins\n@13 opened wait 1\n@13 opened poll 1\n";
    let (tally, faults) = tally_of(Place::Bare, Node::Used, &away);
    assert_eq!(faults, ["early (Away), at 13.000: opened wait 1"]);
    assert!(tally.waiters["poll"].shown_openings().starts_with("1 | 0 | 1 |"));
}

pub(crate) fn what_a_build_leaves_is_counted() {
    let lines = STARTED.to_owned()
        + "@10 started pod\n@11 opened pod\n@11 started wait 1\n@12.5 opened wait 1\n@13 unmarked\n\
           @14 built pod stub\n@15 built pod new\n@16 built wait 1 stub\n@900 left 1\n";
    let (tally, faults) = tally_of(Place::Init, Node::Used, &lines);
    let counts = |counts: &super::Counts| (counts.builds, counts.stubs, counts.left);
    assert_eq!((counts(&tally.places[&Place::Init]), faults), ((2, 1, 1), Vec::new()));
    assert_eq!(counts(&tally.waiters["wait"]), (1, 1, 0));
    assert_eq!(counts(&tally.waiters["pod wait"]), (1, 1, 0), "only the first build follows the wait");
    assert!(tally.to_string().contains("\n| a driver pod: `wait` | 1 |"));
    assert_eq!(faults_of(Place::Sidecar, Node::Used, &lines), "a stub is left after a heal");
}

pub(crate) fn a_load_by_the_gate_that_the_kernel_refuses_is_a_fault() {
    let of = |place, who: &str, more: &str| {
        let refused =
            format!("{STARTED}{more}@20 asked {who}\n@20.5 answered 1 modprobe: Invalid argument @{who}\n");
        let (tally, faults) = tally_of(place, Node::Used, &refused);
        let counts = &tally.places[&place];
        ((counts.einval, counts.own_einval), faults.join("; "))
    };
    let fault = "a load by the gate was refused, at 20.500: 1 modprobe: Invalid argument @";
    assert_eq!(of(Place::NodeRhel, "keeper", ""), ((1, 1), format!("{fault}keeper")));
    assert_eq!(of(Place::Sidecar, "sidecar", ""), ((1, 1), format!("{fault}sidecar")));
    assert_eq!(of(Place::NodeRhel, "driver", ""), ((1, 0), String::new()));
    assert_eq!(of(Place::NodeCtr, "sidecar", ""), ((1, 0), String::new()));
    assert_eq!(
        of(Place::Sidecar, "sidecar", "@11 unversioned\n"),
        ((1, 1), String::new()),
        "nobody can tell"
    );
}

pub(crate) fn an_unload_by_others_that_fails_because_of_the_keeper_is_a_fault() {
    let of = |place, lines: &str| {
        let (tally, faults) = tally_of(place, Node::Used, &format!("{STARTED}{lines}\n"));
        (tally.places[&place].kept, faults.join("; "))
    };
    let fails = "@29 prestop\n@30 unload_failed driver rmmod: nvidia is in use by: nvidia_peermem";
    let fault =
        "the gate was in the way, at 30.000: unload_failed driver rmmod: nvidia is in use by: nvidia_peermem";
    let loads = |who: &str| format!("@28 asked {who}\n@28.5 answered 0 @{who}\n{fails}");
    assert_eq!(of(Place::NodeRhel, &loads("keeper")), (1, fault.to_owned()));
    assert_eq!(
        of(Place::NodeRhel, &loads("keeper").replace("prestop", "pod")),
        (1, String::new()),
        "a restart"
    );
    assert_eq!(of(Place::NodeCtr, &loads("sidecar")), (1, String::new()), "nvidia-peermem-ctr loaded it");
    assert_eq!(of(Place::Sidecar, &loads("sidecar")), (1, String::new()), "a sidecar sees no preStop");
    let absent =
        "@29.9 unloads keeper\n@30 unload_failed manager rmmod: nvidia_peermem is not currently loaded";
    assert!(of(Place::NodeUbuntu, absent).1.starts_with("the gate was in the way"));
    assert_eq!(of(Place::NodeUbuntu, &absent.replace("@29.9", "@20")).1, "");
    let collides = "@29.5 unloads keeper\n@30 failed collision rmmod: not currently loaded";
    assert!(of(Place::NodeHost, collides).1.starts_with("the gate was in the way"));
    assert_eq!(of(Place::NodeHost, &collides.replace("keeper", "init")).1, "");
}

pub(crate) fn beside_the_keeper_a_person_is_counted_and_a_module_that_never_loads_is_a_fault() {
    let of = |place, lines: &str| tally_of(place, Node::Used, &format!("{STARTED}{lines}\n"));
    let (tally, faults) = of(Place::NodeRhel, "@1000 person pod\n@1900 person pod");
    assert_eq!((tally.places[&Place::NodeRhel].persons, faults), (1, Vec::new()));
    assert!(tally.to_string().contains("\n  - seed 1: keeper, RHEL's script"));
    assert!(of(Place::Bare, "@1000 person pod").0.helped.is_empty());
    assert_eq!(of(Place::NodeRhel, "@1900 never").1, ["nvidia_peermem is not loaded beside the keeper"]);
    assert!(of(Place::Bare, "@1900 never").1.is_empty());
    assert!(of(Place::NodeFast, "@900 left 1").1.contains(&"a stub is left after a heal".to_owned()));
}

pub(crate) fn a_container_that_ends_because_of_the_module_is_counted_and_beside_a_keeper_named() {
    let of = |lines: &str| {
        let (tally, faults) = tally_of(Place::NodeRhel, Node::Used, &format!("{STARTED}{lines}\n"));
        (tally.places[&Place::NodeRhel].refused, tally.ended.len(), faults.join("; "))
    };
    assert_eq!(of("@20 refused driver"), (1, 0, String::new()), "nobody serves");
    let fault = "the driver's script ended beside a keeper, at 20.000";
    assert_eq!(of("@20 refused driver owned"), (1, 1, fault.to_owned()));
    assert_eq!(of("@20 refused sidecar owned"), (1, 1, String::new()));
    assert_eq!(of("@19 frozen keeper\n@20 refused driver owned"), (1, 0, String::new()));
    assert_eq!(of("@18 frozen keeper\n@19 thawed keeper\n@20 refused driver owned").1, 1);
    assert_eq!(of("@20 probe_failed sidecar"), (1, 0, String::new()));
    let tally = tally_of(Place::NodeRhel, Node::Used, &format!("{STARTED}@20 without_uvm\n")).0;
    assert_eq!(tally.places[&Place::NodeRhel].without_uvm, 1);
}

pub(crate) fn the_picture_has_a_bar_for_each_place_and_one_for_the_keeper() {
    let mut tally = tally_of(Place::Init, Node::Used, &format!("{STARTED}@1000 person pod\n")).0;
    for place in [Place::NodeRhel, Place::NodeFast] {
        let life = Life { seed: 2, plan: 2, place, node: Node::Used, parts: Vec::new() };
        tally.add("6.1", &life, &[]);
    }
    let svg = tally.svg();
    assert!(svg.contains("viewBox=\"0 0 760 "), "{svg}");
    assert!(svg.contains("of 1 simulated boots each</title>"), "{svg}");
    for (name, numbers) in [(Place::Init.name(), "1 of 1"), ("the keeper", "0 of 2")] {
        let bar =
            svg.split_once(&format!(">{name}<")).map(|(_, rest)| rest.lines().nth(2).unwrap_or_default());
        assert!(bar.is_some_and(|bar| bar.contains(numbers)), "{name}: {svg}");
    }
}

pub(crate) fn a_stub_of_the_gates_that_no_loop_left_is_a_fault_unless_it_came_after_the_opening() {
    let of = |lines: &str| {
        let (tally, faults) = tally_of(Place::Bare, Node::Used, lines);
        let lone = ["wait", "poll"].map(|who| tally.waiters.get(who).map_or(0, |counts| counts.lone));
        (lone, faults.join("; "))
    };
    let opened = STARTED.to_owned() + "@11 started wait 1\n@12.5 opened wait 1\n@13 opened poll 1\n";
    let ready = of(&(opened.clone() + "@14 built wait 1 stub\n@14 built poll 1 new\n"));
    assert_eq!(ready.0, [1, 0]);
    assert!(
        ready.1.ends_with(
            "a stub of wait 1 at 14.000, after an opening that was Ready, on a node that was ready"
        )
    );
    let ended = of(&(opened.clone() + "@14 unmarked\n@15 built wait 1 stub\n@15 built poll 1 new\n"));
    assert_eq!(ended, ([1, 0], String::new()));
    let reset = of(&(opened.clone() + "@14 reset begins\n@15 built wait 1 new\n@15 built poll 1 stub\n"));
    assert_eq!(reset, ([0, 1], String::new()));
    let both = of(&(opened + "@14 unmarked\n@15 built wait 1 stub\n@15 built poll 1 stub\n"));
    assert_eq!(both, ([0, 0], String::new()));
    let early = "@1 lives none used\n@2 begun go\n@3 started wait 1\n@5 opened wait 1\n@6 built wait 1 stub\n\
                 @10 ready new\n@11 opened poll 1\n@12 built poll 1 new\n";
    assert!(
        of(early).1.ends_with("a stub of wait 1 at 6.000, after an opening that was Early; no loop left one")
    );
}

pub(crate) fn the_gate_is_worse_than_a_loop_if_chance_does_not_explain_it() {
    // So many stubs in 300 plans, each with as many builds as it has copies.
    let of_plans = |stubs: u64, copies| -> std::collections::BTreeMap<_, _> {
        let counts = |plan| super::Counts {
            builds: copies,
            stubs: if plan < stubs { copies } else { 0 },
            ..super::Counts::default()
        };
        (0..300).map(|plan| (plan, counts(plan))).collect()
    };
    let worse = |gate, poll, grep| {
        let by_plan = [("wait", gate), ("poll", poll), ("grep", grep)].into();
        Tally { by_plan, ..Tally::default() }.worse().join("; ")
    };
    assert_eq!(worse(of_plans(22, 1), of_plans(20, 1), of_plans(30, 1)), "");
    assert_eq!(worse(of_plans(0, 1), of_plans(20, 1), of_plans(30, 1)), "");
    let higher = "wait has more stubs than the best loop: 60.0 of 300 plans, 20.0 of 300";
    assert_eq!(worse(of_plans(60, 1), of_plans(60, 1), of_plans(20, 1)), higher);
    assert_eq!(worse(of_plans(60, 18), of_plans(60, 18), of_plans(20, 3)), higher, "each plan counts once");
    assert_eq!(
        worse(of_plans(36, 18), of_plans(36, 18), of_plans(20, 18)),
        "",
        "18 copies of a plan are one"
    );
    assert_eq!(worse(of_plans(300, 1), of_plans(0, 0), of_plans(0, 0)), "", "nothing to compare with");
}

pub(crate) fn inspect_must_say_what_the_kernel_says() {
    let of = |said: &str| faults_of(Place::Bare, Node::Used, &format!("{STARTED}@20 inspected {said}\n"));
    for said in ["0 0", "1 1 modprobe: Invalid argument", "0 1 modprobe: Unknown symbol", "2 0"] {
        assert_eq!(of(said), "", "{said}");
    }
    for said in ["1 0", "0 1 modprobe: Invalid argument", "0 1 modprobe: Exec format error"] {
        assert!(of(said).starts_with("inspect and the kernel disagree"), "{said}");
    }
}

pub(crate) fn on_a_node_with_nothing_to_load_a_gate_rests_and_loads_nothing() {
    let of =
        |said: &str| faults_of(Place::Sidecar, Node::Nicless, &format!("@2 lives none nicless\n{said}\n"));
    assert_eq!(of("@80 rest sidecar 18 4500000"), "");
    for (said, fault) in [
        ("@80 rest sidecar 41 4500000", "no rest: sidecar woke 41 times"),
        ("@80 rest sidecar 18 61000000", "no rest: sidecar woke 18 times and took 61.0 ms"),
        ("@80 asked", "asked on a node with nothing to load"),
        ("@80 loaded", "loaded on a node with nothing to load"),
        ("@80 rebuilt", "rebuilt on a node with nothing to load"),
    ] {
        assert!(of(said).contains(fault), "{said}: {}", of(said));
    }
}

pub(crate) fn a_gate_may_end_if_it_was_ended() {
    let of = |said: &str| faults_of(Place::Sidecar, Node::Used, &(STARTED.to_owned() + said));
    for said in [
        "@20 restarted sidecar TERM\n@20.1 crashed sidecar 0",
        "@20 restarted sidecar KILL\n@20.1 crashed sidecar 137",
        "@20 crashed sidecar 3",
        "@20 crashed driver 1",
        "@20 started wait 1\n@1820 crashed wait.1 124",
    ] {
        assert_eq!(of(said), "", "{said}");
    }
    for said in [
        "@20 crashed sidecar 0",
        "@20 restarted init KILL\n@20.1 crashed sidecar 137",
        "@20 restarted sidecar KILL\n@20.1 crashed sidecar 101",
        "@20 started wait 1\n@1000 crashed wait.1 124",
    ] {
        assert!(of(said).contains(" ended with "), "{said}");
    }
}

pub(crate) fn each_reset_is_one_boot_and_time_goes_on() {
    let lines = "@100 reboots\n@2 booted\n@10 lives none used\n@50 cut\n@2 booted\n@3 life";
    let lines: Vec<_> = lines.lines().filter_map(Line::parse).collect();
    let times: Vec<_> = on_one_clock(&lines).iter().map(|line| line.at).collect();
    assert_eq!(times, [100.0, 102.0, 110.0, 150.0, 152.0, 153.0]);
    let of = |said: &str| faults_of(Place::Bare, Node::Used, said);
    assert_eq!(of("@100 reboots\n@2 booted\n@50 cut\n@2 booted"), "");
    assert!(of("@100 reboots\n@2 booted\n@2 booted").contains("2 boots after 1 resets"));
}

pub(crate) fn runs_of_two_kernels_are_counted_apart_and_together() {
    let (mut tally, _) = tally_of(Place::Bare, Node::Used, STARTED);
    let life = Life { seed: 2, plan: 2, place: Place::Bare, node: Node::Used, parts: Vec::new() };
    assert!(!tally.add("6.8", &life, &[]).is_empty(), "a life without an end");
    assert_eq!((tally.lives(), tally.places[&Place::Bare].lives), (2, 2));
    assert_eq!(tally.kernels.values().map(|kernel| kernel.lives).collect::<Vec<_>>(), [1, 1]);
    assert!(tally.to_string().starts_with("2 lives, "));
}
