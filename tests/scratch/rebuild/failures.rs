// SPDX-License-Identifier: Apache-2.0
//! What is in the way of a rebuild, what breaks it off, and what it leaves then.

use super::builds::has_no_rdma;
use super::kept::KeptNode;
use super::until;
use crate::place::{Place, SOURCES, TARGET, WORKSHOP};
use crate::support::{self, Gate, KERNEL, MARKER, Node, PROMPT, SYMVERS, VIDEO, can_mount, refusal, tests};
use nix::sys::signal::Signal;
use peermem_gate::rebuild::Kind;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) type BoxedChange = Box<dyn Fn(&Node)>;

pub(super) fn is_alive(pid: &str) -> bool {
    // A zombie that nobody has reaped yet runs no more.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// What puts each of them in the way.
pub(crate) fn obstacles() -> Vec<(Kind, BoxedChange)> {
    let remove = |relative: &'static str| move |node: &Node| node.remove(relative);
    vec![
        (Kind::DoesNotApply, Box::new(has_no_rdma)),
        (
            Kind::Loaded,
            Box::new(|node| {
                node.write("sys/module/nvidia_peermem/initstate", "live\n");
                let modules = fs::read_to_string(node.path("proc/modules")).unwrap();
                node.write("proc/modules", format!("nvidia_peermem 1 0 - Live 0x0 (OE)\n{modules}"));
            }),
        ),
        (Kind::NotReady, Box::new(remove(MARKER))),
        (
            Kind::NotCurable,
            Box::new(|node| {
                let modules = fs::read_to_string(node.path("proc/modules")).unwrap();
                node.write(
                    &format!("{VIDEO}/nvidia-peermem.ko"),
                    fs::read(node.path("made/0x065554c2.ko")).unwrap(),
                );
                node.write("proc/modules", format!("nv_peer_mem 1 0 - Live 0x0 (OE)\n{modules}"));
            }),
        ),
        (
            Kind::SignaturesEnforced,
            Box::new(|node| node.write("sys/module/module/parameters/sig_enforce", "Y\n")),
        ),
        (
            Kind::SignaturesEnforced,
            Box::new(|node| node.write("sys/kernel/security/lockdown", "none [integrity]\n")),
        ),
        (
            Kind::SignaturesUnknown,
            Box::new(|node| fs::create_dir_all(node.path("sys/kernel/security/lockdown")).unwrap()),
        ),
        (Kind::NvidiaNotLive, Box::new(remove("sys/module/nvidia/version"))),
        (
            Kind::NvidiaFileMissing,
            Box::new(|node| {
                node.write(
                    "sys/module/nvidia/notes/.note.gnu.build-id",
                    support::build_id_note(&node.path("made/0x065554c2.ko")),
                );
            }),
        ),
        (
            Kind::NvidiaWithoutVersions,
            Box::new(|node| {
                // A module that exports nothing.
                let other = node.path("made/0x065554c2.ko");
                node.write(&format!("{VIDEO}/nvidia.ko"), fs::read(&other).unwrap());
                node.write("sys/module/nvidia/notes/.note.gnu.build-id", support::build_id_note(&other));
            }),
        ),
        (Kind::SourcesMissing, Box::new(remove(SOURCES))),
        (Kind::VersionDiffers, Box::new(|node| node.write("sys/module/nvidia/version", "580.1\n"))),
        (
            Kind::RecipeDoesNotFit,
            Box::new(|node| node.write(&format!("{SOURCES}/conftest.sh"), "#!/bin/sh\n")),
        ),
        (Kind::RecipeDoesNotFit, Box::new(|node| node.remove(&format!("{SOURCES}/nvidia/nv-p2p.h")))),
        (Kind::HeadersMissing, Box::new(|node| node.remove(&format!("lib/modules/{KERNEL}/build/Makefile")))),
        (
            Kind::SymversUnusable,
            Box::new(|node| {
                // The file of the live ib_uverbs is there, and the headers are of another MOFED.
                let live = support::mofed().join("new/ib_uverbs.ko");
                node.write(&format!("lib/modules/{KERNEL}/updates/ib_uverbs.ko"), fs::read(&live).unwrap());
                node.write("sys/module/ib_uverbs/notes/.note.gnu.build-id", support::build_id_note(&live));
                let symvers = fs::read_to_string(node.path(SYMVERS)).unwrap();
                node.write(SYMVERS, symvers.replace("0x065554c2", "0x3016e014"));
            }),
        ),
        (Kind::ToolMissing, Box::new(remove("usr/bin/make"))),
        (Kind::ToolMissing, Box::new(remove("usr/bin/gcc"))),
        (Kind::ToolMissing, Box::new(remove("usr/sbin/depmod"))),
        (Kind::Unwritable, Box::new(remove("var"))),
        (
            Kind::Exposed,
            Box::new(|node| {
                let directory = node.path(WORKSHOP);
                fs::create_dir(&directory).unwrap();
                fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
            }),
        ),
        (
            Kind::ForeignFile,
            Box::new(|node| {
                node.write(TARGET, fs::read(node.path("made/0x3016e014.ko")).unwrap());
            }),
        ),
    ]
}

fn every_obstacle_is_a_refusal_with_its_reason() {
    let obstacles = obstacles();
    // These have tests of their own below, and in signing.rs.
    let elsewhere =
        [Kind::NoRoom, Kind::AlreadyTried, Kind::Busy, Kind::CallFailed, Kind::SigningKeyUnusable];
    for kind in Kind::ALL {
        assert!(elsewhere.contains(kind) || obstacles.iter().any(|(other, _)| other == kind), "{kind}");
    }
    for (kind, change) in obstacles {
        for more in [&["--dry-run"][..], &[]] {
            let Some(place) = Place::new() else { return };
            change(&place.node);
            let before = place.node.path(TARGET).metadata().ok().map(|metadata| metadata.len());
            let (ends, said) = place.rebuild(more);
            assert_eq!(ends, 3, "{kind}: {said}");
            assert!(said.contains(&format!("not rebuilt: {kind}: ")), "{kind}: {said}");
            assert!(said.contains(&kind.remedy().replace('"', "\\\"")), "{kind}: {said}");
            assert!(place.called().is_empty(), "{kind}: nothing is run");
            assert_eq!(place.node.path(TARGET).metadata().ok().map(|metadata| metadata.len()), before);
            let words = fs::read_to_string(place.node.path("last-words")).expect("last words");
            assert!(words.contains(&kind.to_string()), "{words}");
        }
    }
}

/// As systemd's `StateDirectory=` shows a service its file systems.
fn a_rebuild_needs_only_its_own_directory_of_var_lib_to_be_writable(place: &Place) {
    let own = place.node.path(WORKSHOP);
    fs::create_dir(&own).expect("a directory");
    let command = place.run("rebuild", &[]);
    let mounts = r#"set -e; for at in "$1" "$2"; do mount --bind "$at" "$at"; done; mount -o remount,bind,ro "$1"; shift 2; exec "$@""#;
    let mut alone = Command::new("unshare");
    alone.args(["-m", "sh", "-c", mounts, "sh"]).args([own.parent().expect("a parent"), &own]);
    alone.arg(command.get_program()).args(command.get_args());
    alone
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("PATH", "/usr/bin:/bin");
    let (ends, said) = refusal(&mut alone);
    assert_eq!(ends, 0, "{said}");
    assert!(place.is_installed());
}

fn a_failed_build_installs_nothing() {
    for (making, words) in [
        (
            "i=0; while [ $i -lt 30 ]; do i=$((i + 1)); echo \"line $i.\"; echo; done; exit 2",
            "ended with 2: line 30.",
        ),
        ("true", "it did not write nvidia-peermem.ko"),
        ("echo garbage >$copy/nvidia-peermem.ko", "its nvidia-peermem.ko is not a module"),
        ("cp /lib/modules/6.1.0-56-amd64/kernel/drivers/video/nvidia-peermem.ko $copy", "StubModule"),
        ("cp /made/0x3016e014.ko $copy/nvidia-peermem.ko", "SymbolVersionMismatch"),
        (
            "touch /elsewhere; ln -s /made/0x065554c2.ko $copy/nvidia-peermem.ko",
            "it did not write nvidia-peermem.ko",
        ),
    ] {
        let Some(place) = Place::new() else { return };
        symlink("busybox", place.node.path("bin/ln")).expect("a link");
        place.making(making);
        let (ends, said) = place.rebuild(&[]);
        assert_eq!(ends, 125, "{making}: {said}");
        assert!(said.contains(words), "{making}: {said}");
        if making.starts_with("i=0") {
            assert!(
                said.contains("build: line 11.") && !said.contains("build: line 10."),
                "the last 20: {said}"
            );
        }
        place.assert_clean();
        // By itself it does not try again; a person may.
        let (ends, said) = refusal(&mut place.run("load", &["--rebuild", "auto", "--timeout", "20s"]));
        assert_eq!((ends, place.makes()), (3, 1), "{said}");
        assert!(said.contains("AlreadyTried") && said.contains(words), "{said}");
        place.making("cp $made $copy/nvidia-peermem.ko");
        assert_eq!(place.rebuild(&[]).0, 0);
        assert!(place.is_installed());
    }
}

fn a_rebuild_on_a_full_disk_is_refused_or_leaves_nothing_behind() {
    let updates = format!("lib/modules/{KERNEL}/updates");
    for (place_of_mount, size, ends, words) in
        [("var/lib", "1m", 3, "NoRoom"), (updates.as_str(), "8k", 125, "No space left on device")]
    {
        let Some(place) = Place::new() else { return };
        fs::create_dir_all(place.node.path(place_of_mount)).expect("a directory");
        let script = "mount -t tmpfs -o size=$1 none $2 && shift 2 && \"$@\"; status=$?; ls -A $UPDATES >&2; exit $status";
        let mount = place.node.path(place_of_mount);
        let by = ["unshare", "-m", "sh", "-c", script, "sh", size].map(PathBuf::from);
        let mut rebuild = place.run("rebuild", &[]);
        rebuild.env("UPDATES", place.node.path(&updates)).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let (ended, said) = refusal(&mut support::wrapped(by.into_iter().chain([mount]), &rebuild));
        assert_eq!(ended, ends, "{said}");
        assert!(said.contains(words), "{said}");
        let listed: Vec<_> = said
            .lines()
            .filter(|line| [".ko", ".unfinished"].iter().any(|end| line.ends_with(end)))
            .collect();
        assert!(listed.is_empty(), "{listed:?}");
        place.assert_clean();
    }
}

/// A build that does not end, and a process of its.
fn building(place: &Place, verb: &str) -> (Gate, String) {
    place.making("sleep 1000 & echo $! >/child; wait");
    let options: &[&str] = if verb == "keep" { &["--rebuild", "auto"] } else { &[] };
    let rebuild = Gate::start(&mut place.run(verb, options));
    let child = || fs::read_to_string(place.node.path("child")).unwrap_or_default();
    until("it builds", || !child().is_empty());
    (rebuild, child().trim().to_owned())
}

fn the_leftovers_of_a_killed_rebuild_are_ended_and_removed(place: &Place) {
    let (mut rebuild, child) = building(place, "rebuild");
    // One at a time.
    let (ends, said) = place.rebuild(&[]);
    assert!(ends == 3 && said.contains("not rebuilt: Busy"), "{said}");
    rebuild.ended_by(Signal::SIGKILL);
    until("its build is gone", || !is_alive(&child));
    assert!(!place.is_installed());
    assert_eq!(place.builds(), 1, "it could not clean up");
    place.making("cp $made $copy/nvidia-peermem.ko");
    until("the lock is free", || place.rebuild(&[]).0 == 0);
    assert_eq!(place.builds(), 0);
    assert!(place.is_installed());
}

fn a_signal_ends_a_build_at_once_and_decides_the_exit_code() {
    for (verb, ends) in [("rebuild", 128 + 15), ("keep", 0)] {
        let Some(place) = Place::new() else { return };
        let (mut gate, child) = building(&place, verb);
        gate.process().signal(Signal::SIGTERM);
        assert!(gate.process().ends_within(PROMPT), "{verb}");
        assert_eq!(gate.ended(), ends, "{verb}");
        until("its build is gone", || !is_alive(&child));
        place.assert_clean();
    }
}

/// On a slow disk it takes seconds, and the supervisor gives two.
fn a_signal_does_not_wait_for_a_slow_depmod(kept: &KeptNode) {
    support::write_program(&kept.path("bin/depmod"), "#!/bin/busybox sh\ntouch /depmods\nsleep 8\n");
    let mut keep = kept.keep();
    until("depmod runs", || kept.path("depmods").exists());
    keep.process().signal(Signal::SIGTERM);
    assert!(keep.process().ends_within(PROMPT));
    assert_eq!(keep.ended(), 0, "{:#?}", keep.lines);
    assert!(!keep.said("has not answered"), "{:#?}", keep.lines);
}

fn mofed_that_begins_its_swap_ends_a_build(place: &Place) {
    let (mut rebuild, child) = building(place, "rebuild");
    place.node.remove(MARKER);
    assert_eq!(rebuild.ended(), 3, "{:#?}", rebuild.lines);
    assert!(rebuild.said("nothing is installed"));
    until("its build is gone", || !is_alive(&child));
    place.assert_clean();
    // That was no failure of the build's.
    place.node.set_marker();
    place.making("cp $made $copy/nvidia-peermem.ko");
    let (ends, said) = refusal(&mut place.run("load", &["--rebuild", "auto", "--timeout", "20s"]));
    assert_eq!(ends, 0, "{said}");
}

/// A host's own MOFED has no marker that goes.
fn a_hosts_mofed_that_begins_its_swap_ends_a_build(kept: &KeptNode) {
    let node = &kept.place.node;
    node.remove(MARKER);
    fs::create_dir_all(node.path("usr/src")).expect("a directory");
    node.rename("run/mellanox/drivers/usr/src/ofa_kernel", "usr/src/ofa_kernel");
    kept.write("bin/making", "touch /building; sleep 1000");
    let mut keep = Gate::start(kept.keeper().env("USE_HOST_MOFED", "true"));
    until("it builds", || kept.path("building").exists());
    fs::rename(kept.path("sys/module/mlx5_ib"), kept.path("gone")).expect("renamed");
    let modules = fs::read_to_string(kept.path("proc/modules")).expect("modules");
    let rest: Vec<_> = modules.lines().filter(|line| !line.starts_with("mlx5_ib ")).collect();
    kept.write("next", rest.join("\n") + "\n");
    fs::rename(kept.path("next"), kept.path("proc/modules")).expect("renamed");
    let line = keep.logs("the rebuild was interrupted").to_string();
    assert!(line.contains("nothing is installed: mlx5_ib is not loaded"), "{line}");
    KeptNode::ends(keep);
}

/// Between the look before the build and the one after it MOFED was another.
fn a_module_built_for_replaced_mofed_modules_is_not_installed(place: &Place) {
    place.making("rm -r /sys/module/ib_core.new; cp -r /sys/module/ib_core /sys/module/ib_core.new; mv /sys/module/ib_core /gone; mv /sys/module/ib_core.new /sys/module/ib_core; cp $made $copy/nvidia-peermem.ko");
    let (ends, said) = place.rebuild(&[]);
    assert_eq!(ends, 3, "{said}");
    assert!(said.contains("nothing is installed"), "{said}");
    place.assert_clean();
}

/// A stub, and the old client is loaded, too: the build is good, and the node is not.
fn a_fault_that_no_build_cures_is_not_remembered_as_a_failed_build(place: &Place) {
    let modules = fs::read_to_string(place.node.path("proc/modules")).expect("modules");
    place.node.write("proc/modules", format!("nv_peer_mem 1 0 - Live 0x0 (OE)\n{modules}"));
    place.node.write("sys/module/nv_peer_mem/initstate", "live\n");
    let (ends, said) = place.rebuild(&[]);
    assert!(ends != 0 && !place.is_installed() && !place.has_failed_for_good(), "{ends}: {said}");
    assert!(said.contains("nv_peer_mem"), "{said}");
    place.node.write("proc/modules", modules);
    place.node.remove("sys/module/nv_peer_mem");
    let (ends, said) = place.rebuild(&[]);
    assert_eq!((ends, place.is_installed()), (0, true), "{said}");
}

/// A pipe holds up nobody, and a record that cannot be read is no verdict: the next one takes its place.
fn build_records_that_are_pipes_do_not_hang_and_are_replaced(place: &Place) {
    let records = place.node.path("var/lib/peermem-gate");
    fs::create_dir_all(&records).expect("a directory");
    for name in ["tried", "installed"] {
        let path = records.join(format!("{name}.{KERNEL}"));
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    }
    let (ends, said) = place.rebuild(&["--dry-run"]);
    assert_eq!(ends, 0, "{said}");
    place.making("exit 1");
    let mut keep = Gate::start(&mut place.run("keep", &["--rebuild", "auto"]));
    keep.logs("the rebuild failed");
    assert!(place.has_failed_for_good());
    keep.process().signal(Signal::SIGTERM);
    assert_eq!((keep.ended(), place.makes()), (0, 1));
    // As a power cut left it.
    fs::write(records.join(format!("tried.{KERNEL}")), "").expect("it can be written");
    place.making("cp $made $copy/nvidia-peermem.ko");
    let (ends, said) = refusal(&mut place.run("load", &["--rebuild", "auto", "--timeout", "20s"]));
    assert_eq!((ends, place.makes()), (0, 2), "{said}");
}

/// What was killed says nothing about the sources, and is no verdict.
fn a_temporary_build_failure_is_tried_again() {
    for (making, words) in [
        ("kill -9 $$", "was ended by SIGKILL"),
        ("kill $$", "was ended by SIGTERM"),
        ("echo 'gcc: fatal error: Killed signal terminated program cc1'; exit 2", "terminated program cc1"),
        ("echo 'x.c:1: fatal error: x.o: No space left on device'; exit 2", "the disk is full"),
    ] {
        let Some(place) = Place::new() else { return };
        place.making(making);
        let (ends, said) = place.rebuild(&[]);
        assert!(ends == 125 && said.contains(words), "{ends}: {said}");
        let mut load = Gate::start(&mut place.run("load", &["--rebuild", "auto", "--timeout", "60s"]));
        let line = load.logs("another attempt follows in 10.0 s").to_string();
        assert!(line.contains(words), "{line}");
        load.process().signal(Signal::SIGTERM);
        assert_eq!((load.ended(), place.makes()), (128 + 15, 2), "{making}");
        assert!(!place.has_failed_for_good());
        place.assert_clean();
        let mut keep = Gate::start(&mut place.run("keep", &["--rebuild", "auto"]));
        keep.logs("another attempt follows in 10.0 s");
        place.making("cp $made $copy/nvidia-peermem.ko");
        keep.process().signal(Signal::SIGHUP);
        keep.logs("is installed and usable");
        assert_eq!(place.makes(), 4);
    }
}

fn the_last_words_at_the_deadline_begin_with_the_rebuild_that_failed(place: &Place) {
    place.making("kill -9 $$");
    let (ends, said) = refusal(&mut place.run("load", &["--rebuild", "auto", "--timeout", "5s"]));
    assert_eq!((ends, place.makes()), (124, 1), "{said}");
    let words = fs::read_to_string(place.node.path("last-words")).expect("last words");
    assert!(
        words.starts_with("the rebuild failed, and may succeed later: /usr/bin/make was ended by"),
        "{words}"
    );
}

/// All of `load` ends at its deadline, and what that cuts short was no failure of the build's.
fn the_deadline_of_load_ends_a_build_or_the_wait_for_another(place: &Place) {
    place.making("echo $$ >/make; sleep 1000");
    let load = |timeout: &str| refusal(&mut place.run("load", &["--rebuild", "auto", "--timeout", timeout]));
    let begun = Instant::now();
    let (ends, said) = load("2s");
    assert!(ends == 124 && said.contains("the deadline passed before the build ended"), "{ends}: {said}");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(!place.has_failed_for_good());
    place.assert_clean();

    fs::remove_file(place.node.path("make")).expect("it was written");
    let mut rebuild = Gate::start(&mut place.run("rebuild", &[]));
    until("it builds", || fs::read_to_string(place.node.path("make")).is_ok_and(|pid| !pid.is_empty()));
    for timeout in ["4s", "0s"] {
        let (ends, said) = load(timeout);
        assert!(
            ends == 124 && said.contains("Busy: another rebuild is running"),
            "{timeout}: {ends}: {said}"
        );
    }
    assert_eq!(rebuild.ended_by(Signal::SIGTERM), 128 + 15);
    place.making("cp $made $copy/nvidia-peermem.ko");
    assert_eq!(load("20s").0, 0);
}

/// A build that hangs is ended, and a session of its own is no way out of any.
fn a_process_that_leaves_the_builds_group_ends_with_the_build() {
    for (after, options, ends) in [
        ("cp $made $copy/nvidia-peermem.ko", &[][..], 0),
        ("exit 1", &[], 125),
        ("echo $$ >/make; sleep 1000 & wait", &["--rebuild-timeout", "1s"], 124),
    ] {
        let Some(place) = Place::new() else { return };
        let leaver = "busybox setsid sh -c 'echo $$ >/child; exec sleep 1000' >/dev/null 2>&1 &\n\
                      until [ -s /child ]; do busybox usleep 1000; done\n";
        place.making(&format!("{leaver}{after}"));
        let begun = Instant::now();
        let (ended, said) = place.rebuild(options);
        assert_eq!(ended, ends, "{said}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        let child = fs::read_to_string(place.node.path("child")).expect("a pid");
        assert!(!is_alive(child.trim()), "{after}");
        if ends == 124 {
            assert!(said.contains("it has not ended after 1"), "{said}");
            let make = fs::read_to_string(place.node.path("make")).expect("a pid");
            until("it is gone", || !is_alive(make.trim()));
            place.assert_clean();
        }
    }
}

fn a_failed_build_is_reported_with_its_first_error(place: &Place) {
    place.making(
        "echo 'x.c:1:2: error: #error no'; echo 'make[1]: *** [Makefile:9: x.o] Error 1'; \
         echo 'make: *** [Makefile:9: modules] Error 2'; exit 2",
    );
    let (ends, said) = place.rebuild(&[]);
    assert!(ends == 125 && said.contains("ended with 2: x.c:1:2: error: #error no"), "{said}");
    assert!(place.called()[0].contains("--no-print-directory"), "{:?}", place.called());
    let words = fs::read_to_string(place.node.path("last-words")).expect("last words");
    assert!(words.contains("ended with 2: x.c:1:2: error: #error no"), "{words}");
    // One line of 200 KB.
    place.making("busybox head -c 200000 /hole | busybox tr '\\0' x; exit 2");
    place.node.write("hole", vec![0; 200_000]);
    let (ends, said) = place.rebuild(&[]);
    assert!(ends == 125 && said.contains("xxx…") && said.len() < 4000, "{} bytes", said.len());
    assert!(place.has_failed_for_good(), "the record can be read");
}

tests![
    [
        a_signal_ends_a_build_at_once_and_decides_the_exit_code,
        every_obstacle_is_a_refusal_with_its_reason,
        a_failed_build_installs_nothing,
        a_temporary_build_failure_is_tried_again,
        a_process_that_leaves_the_builds_group_ends_with_the_build,
    ],
    if can_mount on Place::new [a_rebuild_needs_only_its_own_directory_of_var_lib_to_be_writable],
    if can_mount [a_rebuild_on_a_full_disk_is_refused_or_leaves_nothing_behind],
    on Place::new [
        the_leftovers_of_a_killed_rebuild_are_ended_and_removed,
        mofed_that_begins_its_swap_ends_a_build,
        a_module_built_for_replaced_mofed_modules_is_not_installed,
        a_fault_that_no_build_cures_is_not_remembered_as_a_failed_build,
        build_records_that_are_pipes_do_not_hang_and_are_replaced,
        the_last_words_at_the_deadline_begin_with_the_rebuild_that_failed,
        the_deadline_of_load_ends_a_build_or_the_wait_for_another,
        a_failed_build_is_reported_with_its_first_error,
    ],
    on KeptNode::new [
        a_hosts_mofed_that_begins_its_swap_ends_a_build,
        a_signal_does_not_wait_for_a_slow_depmod,
    ],
];
