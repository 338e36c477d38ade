// SPDX-License-Identifier: Apache-2.0
//! What changes between two looks, or in the midst of one, and what no event tells.

use crate::support::{
    self, DRIVERS, Gate, LIMIT, LOCK, MARKER, NO_INOTIFY, Node, Numbers, SYMVERS, VENDOR, change, gate,
    output, tests, text,
};
use peermem_gate::peermem::look::NodeProbe;
use peermem_gate::ready::condition::{ConditionType, Reason};
use peermem_gate::ready::observation::{Lock, Marker, Nic, Observation};
use peermem_gate::ready::probe::Depth;
use peermem_gate::ready::verdict::Condition;
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::{Duration, Instant};
use std::{fs, thread};

const ONCE: [&str; 4] = ["--settle", "0s", "--timeout", "1h"];

/// Module.symvers is a link that only MOFED's root makes sense of.
fn with_linked_symvers() -> (Node, &'static str) {
    let node = Node::ready().without_marker();
    let real = "run/mellanox/drivers/usr/src/symvers";
    node.rename(SYMVERS, real);
    symlink("/usr/src/symvers", node.path(SYMVERS)).unwrap();
    (node, real)
}

fn headers_behind_a_link_that_turn_bad_before_the_marker_are_seen() {
    let (node, real) = with_linked_symvers();
    let mut gate = Gate::start(node.wait().args(ONCE));
    gate.logs("MarkerAbsent");
    node.write(real, "");
    node.set_marker();
    gate.logs("HeadersWithoutPeerMemory");
}

fn headers_behind_a_link_that_turn_good_are_seen() {
    let (node, real) = with_linked_symvers();
    let good = fs::read(node.path(real)).unwrap();
    node.write(real, "");
    node.set_marker();
    let mut gate = Gate::start(node.wait().args(ONCE));
    gate.logs("HeadersWithoutPeerMemory");
    change(&node.path(real), |path| fs::write(path, &good).unwrap());
    gate.assert_opened();
}

fn a_look_is_interrupted_if_modules_go_while_the_symbols_are_read() {
    let node = Node::ready();
    node.with_long_kallsyms();
    let mut gate = Gate::start(node.wait().args(ONCE));
    let io = format!("/proc/{}/io", gate.worker());
    let read = || -> u64 {
        let io = fs::read_to_string(&io).unwrap_or_default();
        io.lines().find_map(|line| line.strip_prefix("rchar: ")).map_or(0, |count| count.parse().unwrap())
    };
    let started = Instant::now();
    while read() < 2 << 20 {
        assert!(started.elapsed() < LIMIT, "it is not read");
        thread::sleep(Duration::from_millis(1));
    }
    let modules = fs::read_to_string(node.path("proc/modules")).unwrap();
    node.write("proc/modules", modules.replace("Live", "Unloading"));
    // sysfs still says live: the two witnesses disagree, and the gate must have noticed.
    gate.logs("WitnessesDisagree");
}

fn check_reports_even_if_the_marker_goes_while_the_symbols_are_read() {
    let node = Node::ready();
    node.with_long_kallsyms();
    let mut check = Gate::start(node.check().args(["--format", "json"]));
    node.remove(MARKER);
    let code = check.ended();
    assert!(code == 0 || code == 1, "{code}");
}

/// A suspect marker holds a gate for minutes, and what `keep` has loaded may be swapped meanwhile.
fn modules_that_change_under_a_suspect_marker_are_a_change() {
    let node = Node::ready();
    let config = node.config();
    let mut probe = NodeProbe::new(&config);
    probe.look(Depth::Full, &mut || false).expect("a look");
    let suspect = Condition::new(ConditionType::MarkerTrusted, Reason::MarkerSuspect, "as the test says");
    assert!(!probe.ready.changed(Some(&suspect)));
    let modules = fs::read_to_string(node.path("proc/modules")).unwrap();
    node.write("proc/modules", modules.replace("Live", "Unloading"));
    assert!(probe.ready.changed(Some(&suspect)));
}

/// This state lasts as long as another program's locks, or until a person mends it.
fn what_cannot_be_read_is_a_change_once_it_can() {
    let node = Node::ready();
    let config = node.config();
    let mut probe = NodeProbe::new(&config);
    let mut stays = |r#type, reason, mend: &dyn Fn()| {
        let unread = Condition::new(r#type, reason, "as the test says");
        probe.look(Depth::Full, &mut || false).expect("a look");
        assert!(!probe.ready.changed(Some(&unread)), "{reason:?}");
        mend();
        assert!(probe.ready.changed(Some(&unread)), "{reason:?}");
    };
    node.write("proc/locks", "garbage\n");
    stays(ConditionType::MarkerTrusted, Reason::LocksUnreadable, &|| node.write("proc/locks", ""));
    node.rename(DRIVERS, "away");
    symlink("drivers", node.path(DRIVERS)).expect("a link to itself");
    let mend = || {
        node.remove(DRIVERS);
        node.rename("away", DRIVERS);
    };
    stays(ConditionType::MarkerPresent, Reason::MarkerUnreadable, &mend);
}

/// There is no verdict of it, so there is nothing to compare with.
fn after_a_look_that_was_broken_off_all_is_a_change() {
    let node = Node::ready();
    node.with_long_kallsyms();
    let config = node.config();
    let mut probe = NodeProbe::new(&config);
    let swapped = Condition::new(ConditionType::ModulesLive, Reason::ModuleNotLoaded, "as the test says");
    assert!(probe.look(Depth::Full, &mut || true).is_none());
    assert!(probe.ready.changed(Some(&swapped)));
    probe.look(Depth::Full, &mut || false).expect("a look");
    assert!(!probe.ready.changed(Some(&swapped)));
}

/// This state lasts minutes while the driver is built, and forever on a node that gets no driver.
fn without_the_driver_only_the_stack_is_a_change() {
    let node = Node::ready();
    let config = node.config();
    let mut probe = NodeProbe::new(&config);
    let to_come = Condition::new(ConditionType::PeermemUsable, Reason::DependencyNotLive, "as the test says");
    probe.look(Depth::Full, &mut || false).expect("a look");
    assert!(!probe.ready.changed(Some(&to_come)));
    let stub = Condition { reason: Reason::StubModule, ..to_come.clone() };
    assert!(probe.ready.changed(Some(&stub)), "another file may come");
    let modules = fs::read_to_string(node.path("proc/modules")).unwrap();
    node.write("proc/modules", format!("{modules}nvidia 56000000 0 - Live 0x0000000000000000 (POE)\n"));
    assert!(probe.ready.changed(Some(&to_come)));
    probe.look(Depth::Full, &mut || false).expect("a look");
    assert!(probe.ready.changed(Some(&to_come)), "its root may be shown without an event");
}

/// `keep` stays where there is nothing to load, and sleeps there as well as elsewhere.
fn where_the_gate_does_not_apply_only_a_device_is_a_change() {
    let node = Node::ready().without_nic();
    let config = node.config();
    let mut probe = NodeProbe::new(&config);
    probe.look(Depth::Full, &mut || false).expect("a look");
    let away = Condition::new(ConditionType::NicPresent, Reason::NoRdmaDevice, "as the test says");
    let unwanted = Condition::new(ConditionType::RdmaRequested, Reason::RdmaNotRequested, "as the test says");
    assert!(!probe.ready.changed(Some(&away)));
    assert!(!probe.ready.changed(Some(&unwanted)));
    probe.ready.forget_devices();
    assert!(probe.ready.changed(Some(&away)));
    probe.look(Depth::Full, &mut || false).expect("a look");
    node.write("sys/bus/pci/devices/0000:02:00.0/vendor", "0x15b3\n");
    assert!(probe.ready.changed(Some(&away)), "a device came, without an event");
}

/// Uevents may be missing (`hostUsers: false`), and a NIC that was found once may have gone at the look that opens.
fn a_device_that_goes_or_comes_without_an_event_is_seen_by_the_next_look() {
    let node = Node::ready();
    let config = node.config();
    let mut probe = NodeProbe::new(&config);
    let mut nic = || probe.look(Depth::Full, &mut || false).expect("a look").nic;
    assert!(matches!(nic(), Nic::Found(_)));
    node.reset_nic();
    assert_eq!(nic(), Nic::None);
    node.return_nic();
    assert!(matches!(nic(), Nic::Found(_)));

    let mut gate = Gate::start(node.wait().args(["--settle", "300ms"]));
    gate.logs("settling");
    node.reset_nic();
    gate.logs("NicAway");
    node.return_nic();
    gate.assert_opened();
}

fn symbols_that_can_be_read_later_open_the_gate() {
    let node = Node::ready().in_tree();
    node.rename("proc/kallsyms", "kallsyms");
    fs::create_dir_all(node.path("usr/src")).unwrap();
    fs::rename(node.path(DRIVERS).join("usr/src/ofa_kernel"), node.path("usr/src/ofa_kernel")).unwrap();
    let mut gate = Gate::start(node.wait().args(ONCE).env("USE_HOST_MOFED", "true"));
    gate.logs("ModulesUnreadable");
    node.rename("kallsyms", "proc/kallsyms");
    gate.assert_opened();
}

/// A whole look, in the midst of whose reading of the symbols this happens.
fn seen_despite(node: &Node, happens: impl Fn()) -> Observation {
    node.with_long_kallsyms();
    let config = node.config();
    let mut has_happened = false;
    let mut interrupted = || {
        if !std::mem::replace(&mut has_happened, true) {
            happens();
        }
        false
    };
    let seen = NodeProbe::new(&config).look(Depth::Full, &mut interrupted).expect("a look");
    assert!(has_happened, "the symbols were not read");
    seen
}

fn a_lock_released_or_taken_while_the_symbols_are_read_is_noticed() {
    let node = Node::ready();
    let seen = seen_despite(&node, || node.write("proc/locks", ""));
    assert_eq!(seen.lock, Lock::Free);
    let node = Node::ready().suspect();
    assert_eq!(seen_despite(&node, || node.hold_lock()).lock, Lock::Held);
}

fn a_marker_recreated_while_the_symbols_are_read_is_noticed() {
    let node = Node::ready();
    node.write("next", "");
    let inode = node.path("next").metadata().unwrap().ino();
    let seen = seen_despite(&node, || node.rename("next", MARKER));
    let Marker::Present(id) = seen.marker else { panic!("{:?}", seen.marker) };
    assert_eq!(id.inode, inode);
}

/// What could not be read once is read again at the next look, though nothing tells of a change.
fn a_failed_read_is_not_remembered_for_the_next_look() {
    for path in [SYMVERS, VENDOR] {
        let node = Node::ready();
        let good = fs::read(node.path(path)).unwrap();
        node.remove(path);
        fs::create_dir(node.path(path)).unwrap();
        let config = node.config();
        let mut probe = NodeProbe::new(&config);
        let mut look = || {
            let seen = probe.look(Depth::Full, &mut || false).expect("a look");
            (seen.headers.is_readable(), !matches!(seen.nic, Nic::Unreadable(_)))
        };
        assert_eq!(look(), (path != SYMVERS, path != VENDOR));
        node.remove(path);
        node.write(path, &good);
        assert_eq!(look(), (true, true), "{path}");
    }
}

/// What a waiting `wait` knows of MOFED, by the lock of MOFED's container.
fn wait_says_at_once_whether_a_mofed_container_runs() {
    for state in ["held", "free", "unknown"] {
        let node = Node::ready().without_marker();
        match state {
            "held" => node.hold_lock(),
            "free" => node.write("proc/locks", ""),
            _ => node.remove(LOCK),
        }
        let mut gate = Gate::start(node.wait().args(ONCE));
        let line = gate.logs_that("its first line", |line| !text(line).contains(NO_INOTIFY));
        let (marker, lock) = (node.path(MARKER), node.path(LOCK));
        let known = match state {
            "held" => {
                format!("; the MOFED container is running and has not finished: it holds {}", lock.display())
            }
            "free" => format!("; no MOFED container holds {} (an older MOFED keeps no lock)", lock.display()),
            _ => String::new(),
        };
        let waiting = format!("waiting: MOFED has not set its marker {}{known}", marker.display());
        assert_eq!(text(&line), waiting, "{state}");
        assert_eq!(line["reason"], "MarkerAbsent", "{state}");
    }
}

/// At 80 columns: what is not met comes first, a message has lines of its own, and a path stays whole.
fn check_fits_80_columns_and_begins_with_what_is_not_met() {
    let node = Node::ready().without_marker();
    let mut command = gate();
    command.args(["check", "--root"]).arg(node.root()).env_remove("COLUMNS");
    let answer = String::from_utf8(output(&mut command).stdout).unwrap();
    let has_path = |line: &str| line.split(' ').any(|word| word.contains('/') && word.len() > 40);
    let wide: Vec<_> = answer.lines().filter(|line| line.chars().count() > 80 && !has_path(line)).collect();
    assert_eq!(wide, [""; 0], "{answer}");
    let status = |line: &str| ["False", "Unknown", "True"].iter().position(|word| line.starts_with(word));
    let statuses: Vec<_> = answer.lines().filter_map(status).collect();
    assert_eq!(statuses.first(), Some(&0), "{answer}");
    let last_unmet = statuses.iter().rposition(|status| *status == 0).expect("one");
    let first_met = statuses.iter().position(|status| *status == 2).expect("one");
    assert!(last_unmet < first_met, "{answer}");
    let lines: Vec<_> = answer.lines().collect();
    let at = lines.iter().position(|line| line.starts_with("False    MarkerPresent")).expect("a line");
    assert!(lines[at + 1].starts_with("         MOFED has not set its marker"), "{answer}");
    let marker = node.path(MARKER).display().to_string();
    assert!(answer.split_whitespace().any(|word| word.trim_end_matches(';') == marker), "{answer}");
    let end = "For the root cause and every step, run peermem-doctor on this node.";
    assert_eq!(lines.last(), Some(&end), "{answer}");
}

/// The marker goes before the modules come, and comes after they have gone, as fast as files change: a look sees half
/// of each. `RACES=324 cargo test --test runs never_ready`.
fn a_node_that_is_never_ready_opens_no_gate_however_fast_it_changes() {
    let race = |seed: u64| {
        let node = Node::ready().without_marker();
        let mut numbers = Numbers(seed);
        let mut wait = node.wait();
        let mut gate = Gate::start(wait.args(["--settle", "1ms", "--timeout", "700ms"]));
        let pause = |numbers: &mut Numbers| {
            thread::sleep(Duration::from_micros(u64::try_from(numbers.below(1500)).expect("a small number")));
        };
        let rounds = (0..).take_while(|_| !gate.process().ends_within(Duration::ZERO)).map(|_| {
            node.rename("sys/module/mlx5_ib", "away");
            pause(&mut numbers);
            node.set_marker();
            pause(&mut numbers);
            node.remove(MARKER);
            pause(&mut numbers);
            node.rename("away", "sys/module/mlx5_ib");
            pause(&mut numbers);
        });
        let rounds = rounds.count();
        (gate.ended(), rounds)
    };
    let mut all = 0;
    for seed in 0..support::times("RACES", 6) {
        let (code, rounds) = race(seed);
        assert_eq!(code, 124, "race {seed}, after {rounds} rounds");
        all += rounds;
    }
    assert!(all > 20, "only {all} rounds");
}

tests![
    a_node_that_is_never_ready_opens_no_gate_however_fast_it_changes,
    wait_says_at_once_whether_a_mofed_container_runs,
    check_fits_80_columns_and_begins_with_what_is_not_met,
    a_lock_released_or_taken_while_the_symbols_are_read_is_noticed,
    a_marker_recreated_while_the_symbols_are_read_is_noticed,
    a_failed_read_is_not_remembered_for_the_next_look,
    headers_behind_a_link_that_turn_bad_before_the_marker_are_seen,
    headers_behind_a_link_that_turn_good_are_seen,
    a_look_is_interrupted_if_modules_go_while_the_symbols_are_read,
    check_reports_even_if_the_marker_goes_while_the_symbols_are_read,
    modules_that_change_under_a_suspect_marker_are_a_change,
    where_the_gate_does_not_apply_only_a_device_is_a_change,
    what_cannot_be_read_is_a_change_once_it_can,
    after_a_look_that_was_broken_off_all_is_a_change,
    without_the_driver_only_the_stack_is_a_change,
    a_device_that_goes_or_comes_without_an_event_is_seen_by_the_next_look,
    symbols_that_can_be_read_later_open_the_gate,
];
