// SPDX-License-Identifier: Apache-2.0
//! What hangs beside `keep`: a look, an output, modprobe, rmmod.

use super::Place;
use crate::support::hung::{Hung, apart};
use crate::support::{self, DRIVERS, Gate, LIMIT, MARKER, PROMPT, gate, tests, until};
use nix::sys::signal::Signal;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// A status or metrics file on a dead NFS server must not cost the node its MOFED.
fn outputs_that_hang_do_not_delay_a_load_or_an_unload(place: &Place) {
    fs::create_dir(place.node.path("outputs")).expect("a directory");
    let mut keep = Gate::start(&mut place.keep_writing_to(&place.node.path("outputs")));
    until("it loads", || place.is_loaded() && place.node.path("outputs/status.json").exists());
    let Some(_hung) = Hung::over(place.node.path("outputs")) else { return };
    keep.logs("its file system does not answer");
    for _ in 0..3 {
        place.node.remove(MARKER);
        until("it lets go", || !place.is_loaded());
        place.node.set_marker();
        until("it loads again", || place.is_loaded());
    }
    keep.assert_woken();
    keep.process().signal(Signal::SIGTERM);
    assert!(keep.process().ends_within(PROMPT));
    assert_eq!(keep.ended(), 0);
}

/// What keeps MOFED from coming is no mere information.
/// `load` has no watchdog: it says so itself, and ends.
fn a_load_whose_modprobe_hangs_is_reported_and_ends(place: &Place) {
    let load = |verb: &[&str]| {
        let command = place.keep();
        let words: Vec<_> = command.get_args().skip(1).map(ToOwned::to_owned).collect();
        let is_keeps = |word: &std::ffi::OsStr| word == "--status-file";
        let at = words.iter().position(|word| is_keeps(word)).expect("an option");
        let mut load = gate();
        load.args(verb).args(&words[..at]).args(&words[at + 2..]);
        command.get_envs().for_each(|(name, value)| {
            load.env(name, value.expect("a value"));
        });
        load
    };
    // It does not even say what it would load.
    place.node.write("bin/loading", "trap '' TERM; touch /loading; sleep 100");
    let mut gate = Gate::start(&mut load(&["load"]));
    until("modprobe runs", || place.node.path("loading").exists());
    let line = gate.logs("has not ended after 2.");
    assert_eq!(line["level"], "WARN");
    gate.logs("has not ended after 3.");
    let told = Instant::now();
    assert_eq!(gate.ended_by(Signal::SIGTERM), 143);
    assert!(told.elapsed() < Duration::from_secs(1) + PROMPT, "{:?}", told.elapsed());
    let words = fs::read_to_string(place.node.path("last-words")).expect("last words");
    assert!(words.contains("ended by signal 15"), "{words}");

    fs::remove_file(place.node.path("loading")).expect("a file");
    let mut gate = Gate::start(&mut load(&["load"]));
    until("modprobe runs", || place.node.path("loading").exists());
    assert!(gate.process().ends_within(Duration::from_secs(100)), "it does not end");
    assert_eq!(gate.ended(), 124);
    let words = fs::read_to_string(place.node.path("last-words")).expect("last words");
    assert!(words.contains("has not ended after 6") && words.contains("dmesg"), "{words}");
    assert!(words.contains("nvidia_peermem is not loaded"), "{words}");
}

/// A look stats MOFED's headers, and then no signal reaches it any more.
fn keep_unloads_beside_a_look_that_hangs() {
    unloads_beside_a_look_that_hangs(Place::keep, &format!("{DRIVERS}/usr/src"));
}

/// To find out who provides MOFED it looks for the headers, too.
fn a_nodes_keeper_unloads_beside_a_look_that_hangs() {
    unloads_beside_a_look_that_hangs(Place::keeper, &format!("{DRIVERS}/usr/src"));
}

fn a_nodes_keeper_unloads_beside_a_drivers_root_that_hangs() {
    unloads_beside_a_look_that_hangs(Place::keeper, "run/nvidia/driver");
}

/// An unload needs nothing of that root, if there is another rmmod.
fn keep_unloads_beside_a_drivers_root_that_hangs(place: &Place) {
    let own = tempfile::tempdir().expect("a directory");
    let unload =
        "sed -e '/^nvidia_peermem /d' -e 's/ nvidia_peermem,/ /' proc/modules >next && mv next proc/modules";
    let script = format!(
        "#!/bin/sh\ncd {} && {unload} && rm -r sys/module/nvidia_peermem\n",
        place.node.root().display()
    );
    support::write_program(&own.path().join("rmmod"), script);
    let mut keep = Gate::start(place.keep().env("PATH", format!("{}:/usr/bin:/bin", own.path().display())));
    place.is_in("Loaded");
    let hangs = ["bin", "lib"].map(|name| Hung::over(place.node.path(name)));
    if hangs.iter().any(Option::is_none) {
        return;
    }
    keep.logs("has hung in the kernel");
    place.node.remove(MARKER);
    until("it is unloaded", || !place.is_loaded());
    assert_eq!(keep.ended_by(Signal::SIGTERM), 143);
}

fn unloads_beside_a_look_that_hangs(command: fn(&Place) -> Command, hangs: &str) {
    let Some(place) = Place::new().filter(|_| apart()) else { return };
    let mut keep = Gate::start(&mut command(&place));
    place.is_in("Loaded");
    // A mount is a reason to look.
    let Some(hung) = Hung::over(place.node.path(hangs)) else { return };
    let line = keep.logs("has hung in the kernel");
    assert!(line.to_string().contains("findmnt"), "no remedy: {line}");
    assert!(place.is_loaded());
    for _ in 0..2 {
        place.node.remove(MARKER);
        let begun = Instant::now();
        until("it is unloaded", || !place.is_loaded());
        assert!(begun.elapsed() < PROMPT, "after {:?}", begun.elapsed());
        keep.logs("MOFED can continue");
        place.node.set_marker();
        place.load();
    }
    // It answers again, with an error.
    drop(hung);
    keep.logs("has ended after");
    place.is_in("Loaded");
    let only_one = || {
        let children = format!("/proc/{0}/task/{0}/children", keep.pid());
        fs::read_to_string(children).unwrap().split_whitespace().count() == 1
    };
    until("the second process has ended", only_one);
    assert_eq!(keep.ended_by(Signal::SIGTERM), 0);
}

/// kubelet makes the marker's directory on every node, so an empty one shows no container.
fn beside_a_look_that_hangs_the_module_of_a_hosts_own_mofed_stays_until_a_container_comes(place: &Place) {
    place.has_the_hosts_own_mofed();
    let mut keep = Gate::start(&mut place.keeper());
    place.is_in("Loaded");
    let Some(_hung) = Hung::over(place.node.path("usr/src")) else { return };
    keep.logs("has hung in the kernel");
    // Once the second process has seen the node with a container's marker, it has seen it without.
    place.node.set_marker();
    keep.logs("a container brings MOFED");
    assert_eq!(place.called(), ["load"], "{:#?}", keep.lines);
    place.node.remove(MARKER);
    until("it is unloaded", || !place.is_loaded());
    assert_eq!(keep.ended_by(Signal::SIGTERM), 143);
}

/// The second process has nothing to do then, and sleeps; a signal is not delayed.
fn keep_that_never_unloads_sleeps_beside_a_look_that_hangs(place: &Place) {
    let mut keep = Gate::start(place.keep().arg("--no-yield"));
    place.is_in("Loaded");
    let Some(_hung) = Hung::over(place.node.path(DRIVERS).join("usr/src")) else { return };
    keep.logs("has hung in the kernel");
    let on_cpu = || -> u64 {
        let children = format!("/proc/{0}/task/{0}/children", keep.pid());
        let children = fs::read_to_string(children).unwrap();
        let of = |pid: &str| fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
        children
            .split_whitespace()
            .map(|pid| of(pid).split(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    };
    let before = on_cpu();
    // Two of its glimpses fall into this time.
    thread::sleep(Duration::from_secs(9));
    let used = Duration::from_nanos(on_cpu() - before);
    assert!(used < Duration::from_secs(1), "{used:?} of 9 s");
    let begun = Instant::now();
    assert_eq!(keep.ended_by(Signal::SIGTERM), 143);
    assert!(begun.elapsed() < PROMPT, "after {:?}", begun.elapsed());
}

/// An rmmod that hangs for good must not look alive: after a while the watchdog goes unfed.
fn a_hung_unload_stops_feeding_the_watchdog() {
    goes_unfed("bin/unloading", Duration::from_secs(30), |place| {
        place.is_in("Loaded");
        place.node.remove(MARKER);
    });
}

/// Nor must a modprobe.
fn a_hung_load_is_reported_and_stops_feeding_the_watchdog() {
    goes_unfed("bin/loading", Duration::from_secs(45), |place| {
        let loading = "every condition is met: loading nvidia_peermem";
        place.told("that it is loading", |status| status["keep"]["message"] == loading);
    });
}

fn goes_unfed(script: &str, after: Duration, begin: impl Fn(&Place)) {
    let Some(place) = Place::new() else { return };
    let path = place.node.path("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    let mut keep = place.keep();
    keep.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "3000000");
    place.node.write(script, "touch /hangs; sleep 100");
    let mut keep = Gate::start(&mut keep);
    begin(&place);
    until("it hangs", || place.node.path("hangs").exists());
    let hung = Instant::now();
    keep.logs("has not ended after");
    // As systemd counts: unfed for its time, it would be ended.
    manager.set_read_timeout(Some(Duration::from_secs(4))).expect("a limit");
    let mut buffer = [0; 4096];
    let mut fed = hung;
    while let Ok(length) = manager.recv(&mut buffer) {
        if buffer[..length] == *b"WATCHDOG=1" {
            fed = Instant::now();
        }
        assert!(hung.elapsed() < LIMIT, "it is fed forever");
    }
    let fed = fed - hung;
    let slack = Duration::from_secs(5);
    assert!(fed + slack > after && fed < after + slack, "the last after {fed:?}");
}

tests![
    on Place::new [a_load_whose_modprobe_hangs_is_reported_and_ends],
    [
        a_hung_load_is_reported_and_stops_feeding_the_watchdog,
        a_hung_unload_stops_feeding_the_watchdog,
        keep_unloads_beside_a_look_that_hangs,
        a_nodes_keeper_unloads_beside_a_look_that_hangs,
        a_nodes_keeper_unloads_beside_a_drivers_root_that_hangs,
    ],
    if apart on Place::new [
        outputs_that_hang_do_not_delay_a_load_or_an_unload,
        keep_unloads_beside_a_drivers_root_that_hangs,
        beside_a_look_that_hangs_the_module_of_a_hosts_own_mofed_stays_until_a_container_comes,
        keep_that_never_unloads_sleeps_beside_a_look_that_hangs,
    ],
];
