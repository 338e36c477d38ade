// SPDX-License-Identifier: Apache-2.0
//! What wakes the gate, with the kernel's own inotify, mounts and limits.

use crate::support::{
    self, DRIVERS, Gate, Host, LIMIT, MARKER, Node, PROMPT, Report, can, can_mount, can_trace, change,
    elapsed, note, tests, text, wrapped,
};
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

const AT_ONCE: [&str; 4] = ["--settle", "0s", "--timeout", "1h"];

/// A gate that waits, and hears of changes by events.
fn waiting(node: &Node, args: &[&str], reason: &str) -> Option<Gate> {
    let mut gate = Gate::start(node.wait().args(args));
    gate.logs(reason);
    gate.can_watch().then_some(gate)
}

fn a_marker_below_directories_that_come_late_wakes_the_gate() {
    let node = Node::ready();
    node.rename("run/mellanox", "prepared");
    let Some(mut gate) = waiting(&node, &AT_ONCE, "MarkerParentMissing") else { return };
    // The message names the nearest directory, so each step shows.
    fs::create_dir(node.path("run/mellanox")).unwrap();
    gate.logs("run/mellanox exists");
    fs::create_dir(node.path(DRIVERS)).unwrap();
    gate.logs("MarkerAbsent");
    node.rename("prepared/drivers/usr", "run/mellanox/drivers/usr");
    node.set_marker();
    gate.assert_opened();
    gate.assert_woken();
}

/// A change of a node.
type Change = fn(&Node);

const TREE: &str = "run/mellanox/drivers/usr/src/ofa_kernel";
const UNFINISHED: &str = "run/mellanox/drivers/.driver-ready.tmp";

/// What a ready node lacks at first, what the gate says then, and how it comes.
const COMING: [(Change, &str, Change); 5] = [
    // All directories at once.
    (
        |node| node.rename("run/mellanox", "prepared"),
        "MarkerParentMissing",
        |node| node.rename("prepared", "run/mellanox"),
    ),
    // The place that the link leads to is made elsewhere, and the link itself never changes.
    (
        |node| {
            node.rename(DRIVERS, "prepared");
            fs::create_dir_all(node.path("srv")).unwrap();
            std::os::unix::fs::symlink("../../srv/late/drivers", node.path(DRIVERS)).unwrap();
        },
        "MarkerParentMissing",
        |node| {
            fs::create_dir(node.path("srv/late")).unwrap();
            node.rename("prepared", "srv/late/drivers");
        },
    ),
    // MOFED's headers come by a mount, as a rule; a host's may be unpacked by a package.
    (|node| node.rename(TREE, "prepared"), "HeadersMissing", |node| node.rename("prepared", TREE)),
    (
        |node| node.rename(support::SYMVERS, "prepared"),
        "HeadersIncomplete",
        |node| node.rename("prepared", support::SYMVERS),
    ),
    (|node| node.rename(MARKER, UNFINISHED), "MarkerAbsent", |node| node.rename(UNFINISHED, MARKER)),
];

fn whatever_comes_last_wakes_the_gate() {
    for (lacks, reason, comes) in COMING {
        let node = Node::ready();
        lacks(&node);
        let Some(mut gate) = waiting(&node, &AT_ONCE, reason) else { return };
        comes(&node);
        gate.assert_opened();
        gate.assert_woken();
    }
}

/// The directory comes between the gate's search for it and its watch above it.
fn a_directory_that_comes_while_the_watch_is_set_is_not_missed() {
    let node = Node::ready();
    node.rename("run/mellanox/drivers", "prepared");
    let trace = node.path("trace");
    let delay = [
        "strace",
        "-f",
        "-qq",
        "-e",
        "trace=inotify_add_watch",
        "-e",
        "inject=inotify_add_watch:delay_enter=3s",
    ];
    let by = delay.map(OsString::from).into_iter().chain(["-o".into(), trace.clone().into()]);
    let mut gate = Gate::start(&mut wrapped(by, node.wait().args(AT_ONCE)));
    // strace writes the call's name when it begins.
    let until = Instant::now() + LIMIT;
    while fs::read(&trace).map_or(0, |bytes| bytes.len()) == 0 {
        assert!(Instant::now() < until, "no watch is ever set");
        if !gate.can_watch() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert!(!gate.said("MarkerParentMissing"), "too late to prove anything");
    fs::create_dir(node.path(DRIVERS)).unwrap();
    gate.logs("MarkerAbsent");
    node.rename("prepared/usr", "run/mellanox/drivers/usr");
    node.set_marker();
    gate.assert_opened();
    gate.assert_woken();
}

/// Touched, given another mode, which neither opens nor writes it, or replaced.
fn a_marker_that_changes_restarts_the_settle_time() {
    const SETTLE: f64 = 5.0;
    let changes: [fn(&Node); 3] = [
        |node| {
            change(&node.path(MARKER), |marker| {
                let marker = File::options().write(true).open(marker).unwrap();
                marker.set_modified(SystemTime::now()).unwrap();
            });
        },
        |node| {
            change(&node.path(MARKER), |marker| {
                fs::set_permissions(marker, fs::Permissions::from_mode(0o600)).unwrap();
            });
        },
        |node| {
            node.write("other", "");
            node.rename("other", MARKER);
        },
    ];
    let mut gates = Vec::new();
    for changes in changes {
        let node = Node::ready();
        let Some(gate) = waiting(&node, &["--settle", "5s"], "settling") else { return };
        changes(&node);
        gates.push((node, gate));
    }
    for (_node, gate) in &mut gates {
        let broken = gate.logs("the marker was created again");
        assert_eq!((&broken["level"], &broken["cause"]), (&"WARN".into(), &"marker event".into()));
        assert!(elapsed(&broken) < SETTLE, "too late to prove anything");
        let opened = gate.assert_opened();
        assert!(opened >= elapsed(&broken) + SETTLE, "opened after {opened} s");
    }
}

fn a_directory_that_goes_and_comes_again_stays_watched() {
    let node = Node::ready();
    node.rename(DRIVERS, "prepared");
    fs::create_dir(node.path(DRIVERS)).unwrap();
    let Some(mut gate) = waiting(&node, &AT_ONCE, "MarkerAbsent") else { return };
    fs::remove_dir(node.path(DRIVERS)).unwrap();
    gate.logs("MarkerParentMissing");
    fs::create_dir(node.path(DRIVERS)).unwrap();
    gate.logs("MarkerAbsent");
    node.rename("prepared/usr", "run/mellanox/drivers/usr");
    node.set_marker();
    gate.assert_opened();
    gate.assert_woken();
}

/// MOFED's older container binds its root over the directory; the marker is inside.
fn mounted_over(propagation: &str, args: &[&str]) -> Option<Gate> {
    if !can_mount() {
        return None;
    }
    let node = Node::ready();
    node.rename(DRIVERS, "mofed");
    fs::create_dir(node.path(DRIVERS)).unwrap();
    let host = Host::new(&node);
    let mut gate = Gate::start(&mut host.contain(propagation, node.wait().args(args)));
    gate.logs("MarkerAbsent");
    assert!(host.run("mount", &[Path::new("--bind"), &node.path("mofed"), &node.path(DRIVERS)]));
    assert!(host.run("ls", &[&node.path(MARKER)]), "the host sees the marker");
    gate.ended();
    Some(gate)
}

fn a_mount_over_the_directory_is_seen_with_mount_propagation() {
    let Some(mut gate) = mounted_over("slave", &AT_ONCE) else { return };
    gate.assert_opened();
    gate.assert_woken();
    assert!(gate.said("mount event"));
}

fn a_mount_over_the_directory_is_never_seen_without_mount_propagation() {
    let args = ["--settle", "0s", "--timeout", "7s"];
    let Some(mut gate) = mounted_over("private", &args) else { return };
    assert_eq!(gate.ended(), 124);
    assert!(!gate.said("mount event"));
    assert_eq!(gate.lines.last().unwrap()["reason"], "MarkerAbsent");
}

/// A container's mount of a directory that is then deleted on the host.
fn unlinked(args: &[&str]) -> Option<(Node, Host, Gate)> {
    if !can_mount() {
        return None;
    }
    let node = Node::ready().without_marker();
    node.rename(DRIVERS, "deleted");
    fs::create_dir(node.path(DRIVERS)).unwrap();
    let host = Host::new(&node);
    assert!(host.run("mount", &[Path::new("--bind"), &node.path("deleted"), &node.path(DRIVERS)]));
    let mut gate = Gate::start(&mut host.contain("private", node.wait().args(args)));
    gate.logs("MarkerAbsent");
    node.remove("deleted");
    Some((node, host, gate))
}

fn a_deleted_directory_behind_a_mount_blocks_the_gate() {
    let Some((node, host, mut gate)) = unlinked(&["--timeout", "1h"]) else { return };
    let line = gate.logs("MarkerDirectoryUnlinked");
    assert_eq!(line["level"], "ERROR");
    assert!(text(&line).contains("Delete the pod that has this mount"), "{line}");
    assert!(!gate.process().ends_within(Duration::from_millis(500)), "only --fail-fast ends it");
    let report = Report::of(host.contain("private", &node.check()).args(["--format", "json"]));
    assert_eq!((report.code, report.verdict()), (1, "Blocked"));
    assert_eq!(report.reason("MarkerPresent"), "MarkerDirectoryUnlinked");
}

fn a_deleted_directory_behind_a_mount_ends_a_gate_that_fails_fast() {
    let Some((_node, _host, mut gate)) = unlinked(&["--timeout", "1h", "--fail-fast"]) else { return };
    assert_eq!(gate.ended(), 3);
    assert_eq!(gate.lines.last().unwrap()["reason"], "MarkerDirectoryUnlinked");
}

/// A gate in a user namespace without inotify of this kind, and in a mount namespace that nothing changes: the safety
/// net must find the marker.
fn without_inotify(limit: &str, sysctl: &str) {
    let set = format!(r#"echo 0 > /proc/sys/user/{limit} && exec "$0" "$@""#);
    let by = ["unshare", "-U", "-r", "-m", "sh", "-c", &set];
    if !can(&[&by[..], &["true"]].concat()) {
        return;
    }
    let node = Node::ready().without_marker();
    let mut gate = Gate::start(&mut wrapped(by, node.wait().args(AT_ONCE)));
    gate.logs("MarkerAbsent");
    node.set_marker();
    gate.assert_opened();
    if limit == "max_inotify_watches" && !gate.can_watch() {
        return;
    }
    let warnings: Vec<_> = gate.lines.iter().filter(|line| line["level"] == "WARN").collect();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(text(warnings[0]).contains(sysctl), "{warnings:#?}");
    assert!(gate.said("safety net"), "{:#?}", gate.lines);
}

fn without_inotify_instances_the_periodic_look_finds_changes() {
    without_inotify("max_inotify_instances", "fs.inotify.max_user_instances");
}

fn without_inotify_watches_the_periodic_look_finds_changes() {
    without_inotify("max_inotify_watches", "fs.inotify.max_user_watches");
}

/// The calls of a wait that has nothing to wait for.
fn calls_when_ready(args: &[&str]) -> Option<String> {
    if !can(&["strace", "true"]) {
        return None;
    }
    let node = Node::ready();
    let trace = node.path("trace");
    let by = ["strace", "-f", "-qq", "-o"].map(OsString::from).into_iter().chain([trace.clone().into()]);
    let mut gate = Gate::start(&mut wrapped(by, node.wait().args(args)));
    gate.assert_opened();
    gate.can_watch().then(|| fs::read_to_string(trace).unwrap())
}

/// To close an inotify instance takes ten times as long as all the rest of an opening.
fn without_a_settle_time_a_ready_node_opens_without_an_inotify_instance() {
    let Some(calls) = calls_when_ready(&["--settle", "0s"]) else { return };
    assert!(!calls.contains("inotify_"), "{calls}");
}

fn a_ready_node_is_watched_during_the_settle_time() {
    let Some(calls) = calls_when_ready(&["--settle", "100ms"]) else { return };
    assert!(calls.contains("inotify_add_watch"), "{calls}");
}

fn a_gate_without_proc_modules_never_opens() {
    let node = Node::ready().without("proc/modules");
    assert_never_opens(&node, &node.path("proc"), "ModulesUnreadable");
    // Nothing is known to be wrong; then something is.
    let report = node.report();
    assert_eq!((report.code, report.verdict()), (2, "Unknown"), "{report:#?}");
    node.remove(MARKER);
    let report = node.report();
    assert_eq!((report.code, report.verdict()), (1, "Waiting"), "{report:#?}");
}

fn assert_never_opens(node: &Node, proc: &Path, reason: &str) {
    let mut wait = node.wait();
    wait.args(["--settle", "0s", "--timeout", "2s", "--precompiled", "--proc"]).arg(proc);
    let mut gate = Gate::start(&mut wait);
    assert_eq!(gate.ended(), 124);
    assert_eq!(gate.lines.last().unwrap()["reason"], reason);
}

/// Creates and deletes these names as fast as it goes, for this long and 10,000 times a second.
fn storm(directory: &Path, names: &[&str], least: Duration) {
    let start = Instant::now();
    let mut changes = 0_u32;
    while start.elapsed() < least || f64::from(changes) < 10_000.0 * least.as_secs_f64() {
        for name in names {
            File::create(directory.join(name)).unwrap();
            fs::remove_file(directory.join(name)).unwrap();
            changes += 2;
        }
    }
    note!("{:.0} changes a second", f64::from(changes) / start.elapsed().as_secs_f64());
}

fn a_storm_of_events_neither_opens_nor_blocks_the_gate() {
    const STORM: Duration = Duration::from_secs(5);
    let node = Node::ready().without_marker();
    let Some(mut patient) = waiting(&node, &["--settle", "3s"], "MarkerAbsent") else { return };
    let Some(mut ended) = waiting(&node, &["--settle", "3s"], "MarkerAbsent") else { return };
    let storms = AtomicBool::new(true);
    thread::scope(|scope| {
        let storm = scope.spawn(|| {
            storm(&node.path(DRIVERS), &["foreign", ".driver-ready", "another"], STORM);
            storms.store(false, Ordering::SeqCst);
        });
        ended.logs("settling");
        let sent = Instant::now();
        assert_eq!(ended.ended_by(Signal::SIGTERM), 143);
        assert!(sent.elapsed() < PROMPT, "ended after {:?}", sent.elapsed());
        assert!(storms.load(Ordering::SeqCst), "too late to prove anything");
        storm.join().unwrap();
    });
    assert!(!patient.said("open:"), "opened in a storm");
    // A flapping node must not fill the disk: 50 lines between two heartbeats.
    assert!(patient.lines.len() < 110, "{} lines", patient.lines.len());
    node.set_marker();
    patient.assert_opened();
    patient.assert_woken();
}

/// A storm of unrelated events, until this gate has ended.
fn until_its_end(gate: &mut Gate, node: &Node) -> i32 {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                storm(&node.path(DRIVERS), &["foreign"], Duration::from_millis(10));
            }
        });
        let ended = gate.process().ends_within(LIMIT);
        over.store(true, Ordering::SeqCst);
        assert!(ended, "it does not end");
    });
    gate.ended()
}

fn a_storm_of_unrelated_events_hides_no_change() {
    let node = Node::ready().without_marker();
    let Some(mut gate) = waiting(&node, &AT_ONCE, "MarkerAbsent") else { return };
    storm(&node.path(DRIVERS), &["foreign"], Duration::from_secs(2));
    assert!(!gate.said("open:"));
    assert_eq!(gate.lines.len(), 1, "foreign names are no news: {:#?}", gate.lines);
    node.set_marker();
    assert_eq!(until_its_end(&mut gate, &node), 0);
    gate.assert_opened();
    gate.assert_woken();
}

fn a_storm_of_events_does_not_delay_the_deadline() {
    let node = Node::ready().without_marker();
    let mut gate = Gate::start(node.wait().args(["--settle", "0s", "--timeout", "2s"]));
    assert_eq!(until_its_end(&mut gate, &node), 124);
}

tests![
    [
        a_marker_below_directories_that_come_late_wakes_the_gate,
        whatever_comes_last_wakes_the_gate,
        a_marker_that_changes_restarts_the_settle_time,
        a_directory_that_goes_and_comes_again_stays_watched,
        a_mount_over_the_directory_is_seen_with_mount_propagation,
        a_mount_over_the_directory_is_never_seen_without_mount_propagation,
        a_deleted_directory_behind_a_mount_blocks_the_gate,
        a_deleted_directory_behind_a_mount_ends_a_gate_that_fails_fast,
        without_inotify_instances_the_periodic_look_finds_changes,
        without_inotify_watches_the_periodic_look_finds_changes,
        without_a_settle_time_a_ready_node_opens_without_an_inotify_instance,
        a_ready_node_is_watched_during_the_settle_time,
        a_gate_without_proc_modules_never_opens,
        a_storm_of_events_neither_opens_nor_blocks_the_gate,
        a_storm_of_unrelated_events_hides_no_change,
        a_storm_of_events_does_not_delay_the_deadline,
    ],
    if can_trace [a_directory_that_comes_while_the_watch_is_set_is_not_missed],
];
