// SPDX-License-Identifier: Apache-2.0
//! How `keep` ends, and starts again: signals, a kill, what blocks it at its start.

use super::Place;
use crate::support::{
    self, Gate, MARKER, Node, Numbers, PROMPT, VIDEO, can, gate, output, tests, until, wrapped,
};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

fn keep_ends_within_a_second_of_a_signal_in_any_state(place: &Place) {
    // In the middle of a load that does not end.
    place.node.write("bin/loading", "touch /loading; sleep 30");
    let mut keep = place.start();
    until("modprobe runs", || place.node.path("loading").exists());
    let told = Instant::now();
    assert_eq!(keep.ended_by(Signal::SIGTERM), 0);
    assert!(told.elapsed() < Duration::from_secs(1) + PROMPT / 2, "{:?}", told.elapsed());

    // In the middle of an unload, which is finished first.
    place.node.write("bin/loading", "");
    let mut keep = place.start();
    place.is_in("Loaded");
    place.node.write("bin/unloading", "touch /unloading; sleep 0.3");
    place.node.remove(MARKER);
    until("rmmod runs", || place.node.path("unloading").exists());
    assert_eq!(keep.ended_by(Signal::SIGTERM), 0);
    assert!(!place.is_loaded());
    assert!(!place.status().exists(), "what is left behind would say that somebody keeps it");
}

fn keep_that_gets_a_signal_does_not_wait_for_a_hung_rmmod() {
    for option in [None, Some("--unload-on-exit")] {
        let Some(place) = Place::new() else { return };
        let mut keep = Gate::start(place.keep().args(option));
        place.is_in("Loaded");
        place.node.write("bin/unloading", "trap '' TERM; touch /unloading; sleep 30");
        place.node.remove(MARKER);
        until("rmmod runs", || place.node.path("unloading").exists());
        // Meanwhile it is reported, in the state file too.
        keep.logs("unloading nvidia_peermem");
        keep.logs("rmmod nvidia_peermem has not ended after 0.2");
        let status = place.is_in("Yielding");
        assert!(status["keep"]["message"].as_str().unwrap().contains("unloading"), "{status:#}");
        let told = Instant::now();
        assert_eq!(keep.ended_by(Signal::SIGTERM), 0);
        assert!(told.elapsed() < PROMPT, "{option:?}: {:?}", told.elapsed());
        assert_eq!(place.called(), ["load", "unload nvidia_peermem"], "not a second time");
    }
}

/// Two signals, and the second is no reason to run in circles.
fn a_second_signal_during_an_unload_costs_nothing(place: &Place) {
    let mut keep = place.start();
    place.is_in("Loaded");
    place.node.write("bin/unloading", "trap '' TERM; touch /unloading; sleep 30");
    place.node.remove(MARKER);
    until("rmmod runs", || place.node.path("unloading").exists());
    let stat = format!("/proc/{}/stat", keep.pid());
    let spent = || -> u64 {
        let stat = fs::read_to_string(&stat).expect("a process");
        let fields = stat.rsplit_once(") ").expect("a name").1.split(' ');
        fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
    };
    let before = spent();
    keep.process().signal(Signal::SIGTERM);
    keep.process().signal(Signal::SIGINT);
    // Not waited for yet, so its times can still be read.
    until("it ends", || fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z ")));
    let ticks = spent() - before;
    assert!(ticks < 20, "{ticks} ticks of 10 ms in 0.8 s");
    assert_eq!(keep.ended(), 0);
}

/// Nor for one that hangs only at the end, and for both together: what modprobe took of a second, rmmod does not get.
fn a_modprobe_and_an_rmmod_that_hang_take_no_more_than_a_second() {
    let hangs = "trap '' TERM; touch /hangs; sleep 30";
    let live = "echo 'nvidia_peermem 1 0 - Live 0x0 (OE)' >>/proc/modules; mkdir -p /sys/module/nvidia_peermem; \
                echo live >/sys/module/nvidia_peermem/initstate; ";
    // The best of three: what else the machine does is not keep's.
    let took = (0..3).map_while(|_| {
        let place = Place::new()?;
        place.node.write("bin/loading", format!("{live}{hangs}"));
        place.node.write("bin/unloading", hangs);
        let mut keep = Gate::start(place.keep().arg("--unload-on-exit"));
        until("modprobe hangs", || place.node.path("hangs").exists());
        let told = Instant::now();
        assert_eq!(keep.ended_by(Signal::SIGTERM), 0);
        assert_eq!(place.called()[0], "load");
        Some(told.elapsed())
    });
    if let Some(took) = took.min() {
        assert!(took < Duration::from_millis(1900), "{took:?}");
    }
}

fn keep_unloads_at_its_end_with_unload_on_exit(place: &Place) {
    let mut keep = Gate::start(place.keep().arg("--unload-on-exit"));
    place.is_in("Loaded");
    assert_eq!(keep.ended_by(Signal::SIGTERM), 0);
    assert!(!place.is_loaded());
    // But nothing where the gate does not apply.
    place.node.set_marker();
    place.load();
    let mut keep = Gate::start(place.keep().arg("--unload-on-exit").env("GPU_DIRECT_RDMA_ENABLED", "false"));
    place.told("NotApplicable", |status| status["verdict"] == "NotApplicable");
    assert_eq!(keep.ended_by(Signal::SIGTERM), 0);
    assert!(place.is_loaded());
    // Nor what is in use.
    let mut keep = Gate::start(place.keep().arg("--unload-on-exit"));
    place.is_in("Loaded");
    place.uses(1);
    keep.process().signal(Signal::SIGTERM);
    keep.logs("ended by signal 15: nvidia_peermem stays loaded");
    assert_eq!(keep.ended(), 0);
    assert!(place.is_loaded());
    // Nothing is said of a module that cannot be read.
    let mut keep = place.start();
    place.is_in("Loaded");
    place.node.rename("proc/modules", "modules");
    keep.process().signal(Signal::SIGTERM);
    keep.logs("ended by signal 15: whether nvidia_peermem is loaded cannot be read");
    assert_eq!(keep.ended(), 0);
}

fn a_hangup_asks_for_a_look_and_ends_nothing(place: &Place) {
    place.node.write("bin/loading", "echo \"modprobe: ERROR: could not insert 'nvidia_peermem': Key was rejected by service\" >&2; exit 1");
    let mut keep = place.start();
    place.is_in("Blocked");
    let status = place.told("what was refused looks good", |status| status["verdict"] == "Ready");
    assert_eq!(status["keep"]["state"], "Blocked", "{status:#}");
    assert_eq!(place.check().0, 1);
    let mut check = gate();
    check.args(["check", "--format", "json", "--status-file"]).arg(place.status());
    let answer = output(check.arg("--proc").arg(place.node.path("proc")));
    let answer: Value = serde_json::from_slice(&answer.stdout).expect("JSON");
    assert_eq!(answer["verdict"], "Blocked", "as the exit code has it: {answer:#}");
    let written = status["keep"]["written_s"].as_f64();
    place.told("a heartbeat", |status| status["keep"]["written_s"].as_f64() > written);
    assert_eq!(place.called(), ["load"], "it is not tried again");
    place.node.write("bin/loading", "");
    keep.process().signal(Signal::SIGHUP);
    place.is_in("Loaded");
    let metrics = fs::read_to_string(place.node.path("metrics.prom")).expect("metrics");
    for line in [
        "peermem_gate_keep_state{state=\"Loaded\"} 1",
        "peermem_gate_keep_state{state=\"Blocked\"} 0",
        "peermem_gate_keep_transitions_total{from=\"Blocked\",to=\"Waiting\"} 1",
        "peermem_gate_keep_refused_loads_total{reason=\"EKEYREJECTED\"} 1",
        "peermem_gate_keep_loads_total 1",
    ] {
        assert!(metrics.contains(line), "no {line} in {metrics}");
    }
    let last = metrics
        .lines()
        .find_map(|line| line.strip_prefix("peermem_gate_keep_last_success_timestamp_seconds "));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let ago = now.as_secs_f64() - last.expect("a time").parse::<f64>().expect("a number");
    assert!((0.0..60.0).contains(&ago), "{ago} s ago");
}

fn a_condition_that_blocks_at_the_start_ends_keep_with_its_reason() {
    let Some(stub) = Node::ready().with_peermem("stub").and_then(Place::of) else { return };
    let mut keep = stub.start();
    assert_eq!(keep.ended(), 3);
    let words = fs::read_to_string(stub.node.path("last-words")).expect("last words");
    assert!(words.contains("is a stub"), "{words}");
}

/// Where the gate does not apply, it does not matter that nothing can be loaded.
fn no_right_to_load_ends_keep_only_where_there_is_something_to_load() {
    let disable = |place: &Place| place.node.write("proc/sys/kernel/modules_disabled", "1\n");
    let Some(place) = Place::new() else { return };
    disable(&place);
    assert_eq!(place.start().ended(), 3);
    let words = fs::read_to_string(place.node.path("last-words")).expect("last words");
    assert!(words.contains("modules_disabled is 1") && words.contains("what to do: "), "{words}");
    let stays = |place: &Place, keep: &mut Command| {
        let mut keep = Gate::start(keep);
        place.told("NotApplicable", |status| status["verdict"] == "NotApplicable");
        assert_eq!(keep.ended_by(Signal::SIGTERM), 0);
    };
    stays(&place, place.keep().env("GPU_DIRECT_RDMA_ENABLED", "false"));
    let Some(place) = Place::of(Node::ready().without_mofed().without_nic()) else { return };
    disable(&place);
    stays(&place, &mut place.keep());
}

/// The same of a process that lacks the capability.
fn no_capability_to_load_ends_keep_only_where_there_is_something_to_load() {
    let without = ["setpriv", "--bounding-set", "-sys_module", "--inh-caps", "-sys_module"];
    if !can(&[&without[..], &["true"]].concat()) {
        return;
    }
    let Some(place) = Place::new() else { return };
    let mut keep = Gate::start(&mut wrapped(without, &place.keep()));
    assert_eq!(keep.ended(), 3);
    let words = fs::read_to_string(place.node.path("last-words")).expect("last words");
    assert!(words.contains("CAP_SYS_MODULE") && words.contains("what to do: "), "{words}");
    let mut keep = Gate::start(&mut wrapped(without, place.keep().env("GPU_DIRECT_RDMA_ENABLED", "false")));
    place.told("NotApplicable", |status| status["verdict"] == "NotApplicable");
    assert_eq!(keep.ended_by(Signal::SIGTERM), 0);
}

/// In every state: what is started again goes on from what it finds.
fn keep_killed_in_any_state_and_started_again_converges(place: &Place) {
    place.node.remove(MARKER);
    let kill = |mut keep: Gate| {
        assert_eq!(keep.ended_by(Signal::SIGKILL), 128 + 9);
        // Whole, and from now on old.
        let text = fs::read_to_string(place.status()).unwrap_or_default();
        assert!(text.is_empty() || serde_json::from_str::<Value>(&text).is_ok(), "{text}");
        let _ = fs::remove_file(place.status());
    };
    // Waiting; and what it waits for comes while nobody is there.
    let keep = place.start();
    place.is_in("Waiting");
    kill(keep);
    place.node.set_marker();
    let keep = place.start();
    place.is_in("Loaded");
    // Loaded; and the marker goes while nobody is there.
    kill(keep);
    place.node.remove(MARKER);
    let keep = place.start();
    place.told("let go", |status| status["keep"]["state"] == "Waiting" && !place.is_loaded());
    kill(keep);
    // In the middle of a load: modprobe goes on without it.
    place.node.write("bin/loading", "touch /loading; sleep 0.2");
    place.node.set_marker();
    let keep = place.start();
    until("modprobe runs", || place.node.path("loading").exists());
    kill(keep);
    let keep = place.start();
    let status = place.is_in("Loaded");
    assert!(place.is_loaded(), "{status:#}");
    // Yielding: rmmod goes on without it.
    place.node.write("bin/unloading", "touch /unloading; sleep 0.2");
    place.node.remove(MARKER);
    until("rmmod runs", || place.node.path("unloading").exists());
    kill(keep);
    let keep = place.start();
    place.told("let go", |status| status["keep"]["state"] == "Waiting" && !place.is_loaded());
    kill(keep);
    // Busy.
    for name in ["loading", "unloading"] {
        place.node.write(&format!("bin/{name}"), "");
    }
    place.node.set_marker();
    let keep = place.start();
    place.is_in("Loaded");
    place.uses(1);
    place.node.remove(MARKER);
    place.is_in("Busy");
    kill(keep);
    let keep = place.start();
    place.told("Busy again", |status| {
        status["keep"]["state"] == "Busy" && status["keep"]["loaded_by"] == "another"
    });
    place.uses(0);
    place.is_in("Waiting");
    kill(keep);
    // Blocked: at a start it ends with its reason, until the file is repaired.
    let file = place.node.path(&format!("{VIDEO}/nvidia-peermem.ko"));
    let good = fs::read(&file).expect("a module");
    fs::write(&file, &good[..100]).expect("a damaged module");
    let keep = place.start();
    place.is_in("Waiting");
    place.node.set_marker();
    place.is_in("Blocked");
    kill(keep);
    assert_eq!(place.start().ended(), 3);
    fs::write(&file, good).expect("a module");
    let _keep = place.start();
    place.is_in("Loaded");
}

/// `KILLS=60 cargo test --test scratch random_moments`.
fn keep_killed_at_random_moments_loads_nothing_early_and_converges(place: &Place) {
    // modprobe and rmmod, which outlive it.
    let is_idle = || {
        let root = |entry: fs::DirEntry| entry.path().join("root").read_link().ok();
        let mut roots = fs::read_dir("/proc").expect("processes").flatten().filter_map(root);
        roots.all(|root| root != place.node.root())
    };
    place.node.write("bin/loading", format!("[ -e /{MARKER} ] || echo early >>/calls"));
    for seed in 0..support::times("KILLS", 12) {
        let mut numbers = Numbers(seed);
        let is_marked = place.node.path(MARKER).exists();
        match numbers.below(3) {
            0 if is_marked => place.node.remove(MARKER),
            1 => place.node.set_marker(),
            _ => {}
        }
        let mut keep = place.start();
        let lives = u64::try_from(numbers.below(400)).expect("a small number");
        if !keep.process().ends_within(Duration::from_millis(lives)) {
            keep.process().signal(Signal::SIGKILL);
        }
        assert_eq!(keep.ended(), 128 + 9, "{:#?}", keep.lines);
        until("nothing of it is left", is_idle);
    }
    assert!(!place.called().contains(&"early".to_owned()), "{:?}", place.called());
    let _ = fs::remove_file(place.status());
    // What is half done is undone or finished by the next one.
    let mut keep = place.start();
    place.node.set_marker();
    until("it is loaded", || place.is_loaded());
    place.node.remove(MARKER);
    until("it is unloaded", || !place.is_loaded());
    assert_eq!(keep.ended_by(Signal::SIGTERM), 0);
}

tests![
    on Place::new [
        keep_ends_within_a_second_of_a_signal_in_any_state,
        a_second_signal_during_an_unload_costs_nothing,
        keep_unloads_at_its_end_with_unload_on_exit,
        a_hangup_asks_for_a_look_and_ends_nothing,
        keep_killed_in_any_state_and_started_again_converges,
        keep_killed_at_random_moments_loads_nothing_early_and_converges,
    ],
    [
        a_condition_that_blocks_at_the_start_ends_keep_with_its_reason,
        keep_that_gets_a_signal_does_not_wait_for_a_hung_rmmod,
        a_modprobe_and_an_rmmod_that_hang_take_no_more_than_a_second,
        no_right_to_load_ends_keep_only_where_there_is_something_to_load,
        no_capability_to_load_ends_keep_only_where_there_is_something_to_load,
    ],
];
