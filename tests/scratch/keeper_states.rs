// SPDX-License-Identifier: Apache-2.0
//! The node's keeper on nodes that are odd or hostile: one clear line each, the right end, and rest.

use crate::keeping;
use crate::rebuild::kept::KeptNode;
use crate::rest::Cost;
use crate::support::hung::{Hung, apart};
use crate::support::{self, Gate, KERNEL, Node, PROMPT, note, tests, until};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use peermem_gate::peermem::store::StoreEntry;
use peermem_gate::rebuild::{Pair, store};
use rustix::fs::{FlockOperation, flock};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// How long each row is watched once it is at rest.
const WATCHED: Duration = Duration::from_secs(8);
/// A look each five seconds, and what the state itself still causes.
const WAKES: u64 = 12;
const CPU: Duration = Duration::from_millis(500);

const PLACE: &str = "var/lib/peermem-gate";
const STORE: &str = "var/lib/peermem-gate/store";
const LOCK: &str = "run/peermem-gate/keep.lock";

/// A state of a node, the line that the keeper writes in it, and whether the module gets live.
struct Row {
    name: &'static str,
    arrange: fn(&KeptNode),
    says: &'static str,
    gets_live: bool,
    /// The reason of the metric that says that a person has to act.
    blocked: Option<&'static str>,
    /// How it ends on a signal.
    ends: i32,
    then: fn(&KeptNode),
}

const PLAIN: Row = Row {
    name: "plain",
    arrange: |_| {},
    says: "is installed and usable",
    gets_live: true,
    blocked: None,
    ends: 0,
    then: |kept| assert_eq!(kept.entries().len(), 1, "it is stored"),
};

fn has_no_module(kept: &KeptNode) {
    assert!(kept.entries().is_empty(), "{:?}", kept.entries());
}

/// A file system of its own over the place of the store.
fn mounted(kept: &KeptNode, flags: MsFlags, options: &str) {
    let place = kept.place.node.path(PLACE);
    mount(Some("none"), &place, Some("tmpfs"), flags, Some(options)).expect("a mount");
}

fn put(kept: &KeptNode, kernel: &str) {
    let pair = Pair { kernel: kernel.into(), nvidia: "4e76".into(), mofed: "4d0f".into() };
    let crcs = [("nvidia_p2p_get_pages".to_owned(), 7)].into();
    let entry = StoreEntry::new(pair, crcs, "0e".into(), b"another");
    store::put(&kept.place.node.path(PLACE), &entry, b"another").expect("an entry");
}

const ROWS: &[Row] = &[
    PLAIN,
    Row {
        name: "the node's disk is read-only",
        arrange: |kept| mounted(kept, MsFlags::MS_RDONLY, "mode=755"),
        says: "cannot store",
        then: has_no_module,
        ..PLAIN
    },
    Row {
        name: "the node's disk has no room",
        arrange: |kept| mounted(kept, MsFlags::empty(), "mode=755,size=4096"),
        says: "cannot store",
        then: has_no_module,
        ..PLAIN
    },
    Row {
        name: "the store is a link",
        arrange: |kept| {
            fs::create_dir(kept.place.node.path("elsewhere")).expect("a directory");
            symlink("../../../elsewhere", kept.place.node.path(STORE)).expect("a link");
        },
        says: "cannot store",
        then: |kept| {
            let listed = fs::read_dir(kept.place.node.path("elsewhere")).expect("a directory");
            assert_eq!(listed.count(), 0, "nothing is written through a link");
        },
        ..PLAIN
    },
    Row { name: "the store of another node", arrange: |kept| put(kept, KERNEL), then: is_whole, ..PLAIN },
    Row {
        name: "64 kernels in the store",
        arrange: |kept| {
            put(kept, "5.0");
            let one = kept.all_entries().remove(0);
            for number in 1..64 {
                let name = format!("entry-5.{number}-4e76-4d0f");
                fs::copy(&one, one.with_file_name(name)).expect("a copy");
            }
        },
        then: |kept| {
            assert!(kept.all_entries().len() <= 8, "{:?}", kept.all_entries());
            is_whole(kept);
        },
        ..PLAIN
    },
    Row {
        name: "no hostPID: /proc is not the host's",
        arrange: |kept| fs::remove_dir_all(kept.path("proc/2")).expect("removed"),
        ..PLAIN
    },
    Row {
        name: "/etc is read-only",
        arrange: |kept| {
            let flags = MsFlags::MS_RDONLY;
            mount(Some("none"), &kept.path("etc"), Some("tmpfs"), flags, Some("mode=755")).expect("a mount");
        },
        says: "depmod takes the rebuilt module only if no other one is in updates/",
        ..PLAIN
    },
    Row {
        name: "/run is read-only",
        arrange: |kept| {
            let run = kept.place.node.path("run/peermem-gate");
            fs::write(run, "in the way").expect("a file");
        },
        says: "so a second keep on this node would go unnoticed",
        ..PLAIN
    },
    Row {
        name: "signatures are enforced",
        arrange: |kept| {
            fs::create_dir_all(kept.path("sys/module/module/parameters")).expect("a directory");
            kept.write("sys/module/module/parameters/sig_enforce", "Y\n");
        },
        says: "keep cannot heal this node",
        gets_live: false,
        blocked: Some("SignaturesEnforced"),
        then: has_no_module,
        ..PLAIN
    },
    Row {
        name: "precompiled",
        arrange: |kept| fs::remove_dir_all(kept.path("usr/src")).expect("removed"),
        says: "keep cannot heal this node",
        gets_live: false,
        blocked: Some("SourcesMissing"),
        then: has_no_module,
        ..PLAIN
    },
    Row {
        name: "the driver's root hangs",
        arrange: |kept| {
            put(kept, KERNEL);
            kept.hung.set(Hung::over(kept.path("lib")));
        },
        says: "until it ends, nvidia_peermem is only unloaded when MOFED's marker or modules go",
        gets_live: false,
        ends: 143,
        then: |kept| assert_eq!(kept.all_entries().len(), 1, "nothing is lost"),
        ..PLAIN
    },
];

fn is_whole(kept: &KeptNode) {
    let mut entries = kept.entries().into_iter();
    assert!(entries.any(|entry| fs::read(entry).is_ok_and(|bytes| StoreEntry::read(&bytes).is_some())));
}

/// All rows at once, each on a node of its own.
fn a_keeper_on_an_odd_node_says_one_clear_line_and_rests() {
    let mut all = Vec::new();
    for row in ROWS {
        let Some(kept) = KeptNode::new() else { return };
        (row.arrange)(&kept);
        let keep = kept.keep();
        all.push((row, kept, keep));
    }
    for (row, kept, keep) in &mut all {
        if row.gets_live {
            until(row.name, || kept.is_loaded());
        }
        if !keep.said(row.says) {
            keep.logs(row.says);
        }
        assert_eq!(kept.is_loaded(), row.gets_live, "{}", row.name);
    }
    // The looks that follow a load are not what is counted.
    thread::sleep(Duration::from_secs(2));
    let before: Vec<_> = all.iter().map(|(.., keep)| Cost::of(keep).expect("it runs")).collect();
    thread::sleep(WATCHED);
    for ((row, kept, keep), before) in all.iter_mut().zip(before) {
        let after = Cost::of(keep).expect("it runs");
        let (wakes, cpu) = (after.wakes - before.wakes, after.cpu.saturating_sub(before.cpu));
        note!("{wakes:5} wakes {cpu:10.3?} {}", row.name);
        assert!(wakes <= WAKES && cpu <= CPU, "{}: {wakes} wakes, {cpu:?}", row.name);
        keep.process().signal(Signal::SIGTERM);
        assert!(keep.process().ends_within(PROMPT), "{}", row.name);
        assert_eq!(keep.ended(), row.ends, "{}", row.name);
        let said = keep.lines.iter().filter(|line| line.to_string().contains(row.says)).count();
        assert_eq!(said, 1, "{}: {:#?}", row.name, keep.lines);
        (row.then)(kept);
        for place in [kept.place.node.path(PLACE), kept.path("etc")] {
            let _ = umount2(&place, MntFlags::MNT_DETACH);
        }
    }
}

fn a_keeper_that_cannot_heal_says_so_in_a_metric() {
    for row in ROWS {
        let Some(reason) = row.blocked else { continue };
        let Some(kept) = KeptNode::new() else { return };
        (row.arrange)(&kept);
        let mut keep = kept.keep();
        keep.logs(row.says);
        let told = Instant::now();
        let is_one = format!("peermem_gate_keep_blocked{{reason=\"{reason}\"}} 1");
        let metrics = || fs::read_to_string(kept.place.node.path("metrics.prom")).unwrap_or_default();
        until(&is_one, || metrics().contains(&is_one));
        assert!(told.elapsed() < Duration::from_secs(10), "not before the heartbeat");
        let metrics = metrics();
        let ones = metrics.lines().filter(|line| line.starts_with("peermem_gate_keep_blocked{"));
        assert_eq!(ones.filter(|line| line.ends_with(" 1")).count(), 1, "{metrics}");
        KeptNode::ends(keep);
    }
}

/// Each would take the other's load for its own, and obey its unload.
fn of_two_keepers_on_a_node_the_second_waits(place: &keeping::Place) {
    let mut first = Gate::start(&mut place.keeper());
    place.is_in("Loaded");
    let waits = || {
        let mut second = Gate::start(&mut place.keeper());
        second.logs("another keep serves this node");
        second
    };
    let (mut second, mut third) = (waits(), waits());
    // The process that waits for the lock is begun after the line.
    until("it waits", || Cost::of(&second).is_some());
    let before = Cost::of(&second).expect("it runs");
    thread::sleep(Duration::from_secs(2));
    let after = Cost::of(&second).expect("it runs");
    assert!(after.wakes <= before.wakes + 1, "{before:?} {after:?}");
    assert_eq!(place.called(), ["load"], "only one of them acts");
    third.process().signal(Signal::SIGTERM);
    assert!(third.process().ends_within(PROMPT));
    assert_eq!(third.ended(), 0);
    // Killed, with whatever it has open.
    assert_eq!(first.ended_by(Signal::SIGKILL), 128 + 9);
    second.logs("this one serves the node now");
    second.logs("loaded by another process");
    assert_eq!(place.called(), ["load"]);
    assert_eq!(second.ended_by(Signal::SIGTERM), 0);
    let lines = second.lines.iter().filter(|line| line.to_string().contains("another keep serves"));
    assert_eq!(lines.count(), 1, "{:#?}", second.lines);
}

/// A directory that a service manager removes and makes again: a lock that nobody else finds is no lock.
fn a_lock_file_that_was_removed_meanwhile_is_made_again(place: &keeping::Place) {
    let mut first = Gate::start(&mut place.keeper());
    place.is_in("Loaded");
    let mut second = Gate::start(&mut place.keeper());
    second.logs("another keep serves this node");
    fs::remove_file(place.node.path(LOCK)).expect("a lock");
    assert_eq!(first.ended_by(Signal::SIGTERM), 0);
    second.logs("this one serves the node now");
    let mut third = Gate::start(&mut place.keeper());
    third.logs("another keep serves this node");
    [third, second].into_iter().for_each(KeptNode::ends);
}

fn is_locked(place: &keeping::Place) -> bool {
    let file = fs::File::open(place.node.path(LOCK));
    file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

/// Whoever empties /run/peermem-gate must not get a second keeper beside the first.
fn a_keeper_whose_lock_file_is_removed_takes_it_again_at_once(place: &keeping::Place) {
    let mut first = Gate::start(&mut place.keeper());
    place.is_in("Loaded");
    fs::remove_dir_all(place.node.path(LOCK).parent().expect("a directory")).expect("removed");
    let removed = Instant::now();
    until("it is locked again", || is_locked(place));
    assert!(removed.elapsed() < PROMPT, "only by the safety net: {:?}", removed.elapsed());
    let mut second = Gate::start(&mut place.keeper());
    second.logs("another keep serves this node");
    assert!(first.said("keep's lock file was removed") && place.is_loaded(), "{:#?}", first.lines);
    [second, first].into_iter().for_each(KeptNode::ends);
    assert_eq!(place.called(), ["load"]);
}

/// Nothing is for good, a lock that could not be made at the start neither.
fn a_keeper_that_could_not_lock_its_file_does_so_once_it_can(place: &keeping::Place) {
    let parent = place.node.path(LOCK).parent().expect("a directory").to_owned();
    let _ = fs::remove_dir_all(&parent);
    fs::write(&parent, "no directory").expect("a file");
    let mut first = Gate::start(&mut place.keeper());
    first.logs("so a second keep on this node would go unnoticed");
    place.is_in("Loaded");
    fs::remove_file(&parent).expect("removed");
    first.logs("keep's lock file can be locked now");
    until("it is locked", || is_locked(place));
    let mut second = Gate::start(&mut place.keeper());
    second.logs("another keep serves this node");
    [second, first].into_iter().for_each(KeptNode::ends);
    assert_eq!(place.called(), ["load"]);
}

/// The second one came while the first was frozen.
fn a_keeper_whose_lock_another_one_has_waits_for_it(place: &keeping::Place) {
    let mut first = Gate::start(&mut place.keeper());
    place.is_in("Loaded");
    let pids: Vec<_> = first.workers_now().into_iter().chain([first.pid()]).collect();
    let all = |signal| {
        for pid in &pids {
            kill(*pid, signal).expect("it runs");
        }
    };
    all(Signal::SIGSTOP);
    fs::remove_file(place.node.path(LOCK)).expect("a lock");
    let mut second = Gate::start(&mut place.keeper());
    second.logs("loaded by another process");
    all(Signal::SIGCONT);
    first.logs("another keep serves this node");
    assert_eq!(second.ended_by(Signal::SIGTERM), 0);
    first.logs("this one serves the node now");
    assert_eq!(first.ended_by(Signal::SIGTERM), 0);
    assert_eq!(place.called(), ["load"]);
}

/// No rebuild may ever come here that would remove it.
fn what_a_killed_build_has_left_goes_with_the_next_keeper(kept: &KeptNode) {
    fs::copy(kept.path("made/0x065554c2.ko"), kept.path(support::VIDEO).join("nvidia-peermem.ko"))
        .expect("a usable module");
    let left = kept.path(PLACE).join("build-0123456789abcdef/ofa");
    fs::create_dir_all(&left).expect("a directory");
    let keep = kept.keep();
    until("it is loaded", || kept.is_loaded());
    until("nothing of the build is left", || !left.parent().expect("a parent").exists());
    assert_eq!(kept.makes(), 0);
    KeptNode::ends(keep);
}

/// Talos, or a minimal host: the driver's container brings modprobe.
fn a_keeper_on_a_host_without_modprobe_waits_for_a_drivers_root(kept: &KeptNode) {
    let driver = kept.place.node.path("run/nvidia/driver");
    let (away, proc) = (kept.place.node.path("away"), ["proc", "sys"]);
    for name in proc {
        fs::rename(driver.join(name), kept.place.node.path(name)).expect("renamed");
        symlink(format!("../../../{name}"), driver.join(name)).expect("a link");
    }
    fs::rename(&driver, &away).expect("renamed");
    let mut command = support::gate();
    command.args(["keep", "--log-format", "json", "--settle", "100ms", "--rebuild", "auto", "--node-root"]);
    let mut keep = Gate::start(command.arg(kept.place.node.root()).env("PATH", "/bin"));
    keep.logs("waiting for the root of a driver container that has modprobe");
    thread::sleep(Duration::from_secs(1));
    fs::rename(&away, &driver).expect("renamed");
    keep.logs("is installed and usable");
    keep.logs("loading: chroot");
    let lines = keep.lines.iter().filter(|line| line.to_string().contains("waiting for the root")).count();
    assert_eq!(lines, 1, "{:#?}", keep.lines);
    KeptNode::ends(keep);
}

/// The container ends while make runs: the build goes on in its root, which nobody else sees any more, and the next
/// container's root gets the module at once.
fn a_build_whose_root_is_unmounted_ends_and_serves_the_next_root(kept: &KeptNode) {
    let root = kept.place.node.path("run/nvidia/driver");
    // As the container's own mount and the one that it shows to the node.
    let container = kept.place.node.path("container");
    fs::rename(&root, &container).expect("renamed");
    fs::create_dir(&root).expect("a directory");
    let shown = |from: &Path| {
        mount(Some(from), &root, None::<&str>, MsFlags::MS_BIND, None::<&str>).expect("a mount");
    };
    let next = kept.place.node.path("next");
    let copied = support::output(Command::new("cp").arg("-a").arg(&container).arg(&next));
    assert!(copied.status.success());
    // One kernel has both.
    for name in ["proc", "sys"] {
        fs::rename(container.join(name), kept.place.node.path(name)).expect("renamed");
        fs::remove_dir_all(next.join(name)).expect("removed");
        for root in [&container, &next] {
            symlink(format!("../{name}"), root.join(name)).expect("a link");
        }
    }
    fs::write(
        container.join("bin/making"),
        "touch /building; while [ ! -e /go ]; do sleep 0.05; done; cp $made $copy/nvidia-peermem.ko",
    )
    .expect("a script");
    shown(&container);
    let mut command = support::gate();
    command.args(["keep", "--log-format", "json", "--settle", "100ms", "--rebuild", "auto", "--node-root"]);
    let mut keep = Gate::start(command.arg(kept.place.node.root()).env("PATH", "/bin"));
    until("make runs", || container.join("building").exists());
    umount2(&root, MntFlags::MNT_DETACH).expect("unmounted");
    thread::sleep(Duration::from_millis(500));
    fs::write(container.join("go"), "").expect("a file");
    keep.logs("the module is stored");
    assert_eq!(kept.entries().len(), 1);
    shown(&next);
    keep.logs("taking the module from");
    keep.logs("is installed and usable");
    assert!(!next.join("building").exists(), "nothing is built there");
    KeptNode::ends(keep);
    let _ = umount2(&root, MntFlags::MNT_DETACH);
}

/// As distributions install modules.
fn a_packed_module_is_stored_and_used_unpacked() {
    for (program, ending) in [("xz", "xz"), ("zstd", "zst"), ("gzip", "gz")] {
        let Some(kept) = KeptNode::new() else { return };
        let made = kept.path("made/0x065554c2.ko");
        let video = kept.path("lib/modules").join(KERNEL).join("kernel/drivers/video/nvidia-peermem.ko");
        let packed = support::output(Command::new(program).args(["--stdout", "--force"]).arg(&made)).stdout;
        fs::write(video.with_extension(format!("ko.{ending}")), packed).expect("a module");
        fs::remove_file(&video).expect("removed");
        let dep = kept.path("lib/modules").join(KERNEL).join("modules.dep");
        let listed = fs::read_to_string(&dep).expect("a list");
        fs::write(&dep, listed.replace("nvidia-peermem.ko:", &format!("nvidia-peermem.ko.{ending}:")))
            .expect("a list");
        let modprobe = fs::read_to_string(kept.path("bin/modprobe")).expect("a script");
        let any = modprobe.replace("nvidia-peermem.ko\\):", "nvidia-peermem.ko[.a-z]*\\):");
        assert_ne!(any, modprobe);
        support::write_program(&kept.path("bin/modprobe"), any);
        let keep = kept.keep();
        until("it is loaded", || kept.is_loaded());
        until("it is stored", || !kept.entries().is_empty());
        KeptNode::ends(keep);
        let entry = fs::read(kept.entries().remove(0)).expect("an entry");
        let (_, module) = StoreEntry::read(&entry).expect("a whole entry");
        assert_eq!(module, fs::read(&made).expect("a module"), "{ending}");
        assert_eq!(kept.makes(), 0);
    }
}

/// Nothing of a driver is there, nor will be.
fn a_keeper_without_run_nvidia_waits() {
    let Some(place) = keeping::Place::of(Node::ready()) else { return };
    let mut keep = Gate::start(&mut place.keeper());
    keep.logs("the GPU driver is not loaded, so it may still be built");
    assert!(!place.is_loaded());
    KeptNode::ends(keep);
}

tests![
    if apart [a_keeper_on_an_odd_node_says_one_clear_line_and_rests],
    [
        a_keeper_that_cannot_heal_says_so_in_a_metric,
        a_packed_module_is_stored_and_used_unpacked,
        a_keeper_without_run_nvidia_waits,
    ],
    on keeping::Place::new [
        of_two_keepers_on_a_node_the_second_waits,
        a_lock_file_that_was_removed_meanwhile_is_made_again,
        a_keeper_whose_lock_file_is_removed_takes_it_again_at_once,
        a_keeper_that_could_not_lock_its_file_does_so_once_it_can,
        a_keeper_whose_lock_another_one_has_waits_for_it,
    ],
    on KeptNode::new [
        what_a_killed_build_has_left_goes_with_the_next_keeper,
        a_keeper_on_a_host_without_modprobe_waits_for_a_drivers_root,
    ],
    if apart on KeptNode::new [a_build_whose_root_is_unmounted_ends_and_serves_the_next_root],
];
