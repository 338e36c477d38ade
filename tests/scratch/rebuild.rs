// SPDX-License-Identifier: Apache-2.0
//! `rebuild`, and what `load`, `keep` and `wait` do with `--rebuild`: on a scratch node whose make, depmod, modprobe
//! and rmmod are scripts. A real kernel is in tests/kernel.rs.

mod builds;
pub(crate) mod failures;
pub(crate) mod kept;

use crate::place::{DKMS, PREFERENCE, Place, SOURCES, TARGET, WORKSHOP};
use crate::support::{self, Gate, KERNEL, Node, VIDEO, can_trace, note, output, refusal, suite, until};
use libtest_mimic::Trial;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

/// What is taken away or put in the way.
type Change<'a> = &'a dyn Fn(&Node);

fn a_stub_is_planned_rebuilt_used_and_undone(place: &Place) {
    let stub = fs::read(place.node.path(&format!("{VIDEO}/nvidia-peermem.ko"))).expect("a stub");
    let (ends, said) = place.rebuild(&["--dry-run"]);
    assert_eq!(ends, 0, "{said}");
    for words in [
        "StubModule",
        "sources: /usr/src/nvidia-595.45.04",
        "make -C",
        "OFA_DIR=",
        "0x86ac1260 nvidia_p2p_get_pages",
        "updates/nvidia-peermem.ko",
        "depmod",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(place.called().is_empty() && !place.node.path(WORKSHOP).exists(), "a plan changes nothing");

    let (ends, said) = place.rebuild(&[]);
    assert_eq!(ends, 0, "{said}");
    assert!(said.contains("is installed and usable"), "{said}");
    let made = fs::read(place.node.path("made/0x065554c2.ko")).expect("a module");
    assert_eq!(fs::read(place.node.path(TARGET)).expect("it is there"), made);
    assert_eq!(place.node.path(TARGET).metadata().expect("it is there").permissions().mode() & 0o777, 0o644);
    assert_eq!(fs::read(place.node.path(&format!("{VIDEO}/nvidia-peermem.ko"))).expect("a stub"), stub);
    assert_eq!(place.builds(), 0);

    let (ends, said) = place.rebuild(&[]);
    assert_eq!((ends, place.makes()), (0, 1), "{said}");
    assert!(said.contains("nothing to do") && said.contains("peermem-gate rebuilt it"), "{said}");
    let (ends, said) = place.rebuild(&["--undo"]);
    assert_eq!(ends, 0, "{said}");
    place.assert_clean();
    let (ends, said) = place.rebuild(&["--undo"]);
    assert!(ends == 0 && said.contains("nothing to remove"), "{said}");
    assert_eq!(place.called().iter().filter(|call| call.starts_with("depmod")).count(), 2);
}

/// A node that was booted with another kernel since, and a kernel that is gone.
fn an_undo_removes_what_was_installed_for_every_kernel() {
    const OTHER: &str = "6.1.0-51-amd64";
    const GONE: &str = "6.1.0-40-amd64";
    let Some(place) = Place::new() else { return };
    let (ends, said) = place.rebuild(&[]);
    assert_eq!(ends, 0, "{said}");
    let path = |path: &str| place.node.path(path);
    let of = |path: &str, other: &str| place.node.path(&path.replace(KERNEL, other));
    fs::create_dir_all(of(TARGET, OTHER).parent().expect("a directory")).expect("directories");
    for file in [TARGET, PREFERENCE] {
        fs::copy(path(file), of(file, OTHER)).expect("a copy");
    }
    fs::copy(path(PREFERENCE), of(PREFERENCE, GONE)).expect("a copy");
    for other in [OTHER, GONE] {
        let record = format!("{WORKSHOP}/installed.{KERNEL}");
        fs::copy(path(&record), of(&record, other)).expect("a copy");
    }
    let (ends, said) = place.rebuild(&["--undo"]);
    assert_eq!(ends, 0, "{said}");
    for (done, release) in [("removed", KERNEL), ("removed", OTHER), ("nothing to remove", GONE)] {
        let line = format!("{done}: /lib/modules/{release}/updates/nvidia-peermem.ko\n");
        assert!(said.contains(&line), "{line} is not in {said}");
        assert!(!of(TARGET, release).exists() && !of(PREFERENCE, release).exists(), "{release}");
    }
    let depmods: Vec<_> = place.called().into_iter().filter(|call| call.starts_with("depmod")).collect();
    assert!(depmods.iter().any(|call| call.contains(OTHER)) && depmods.len() == 3, "{depmods:?}");
    // A file of another builder's for an older kernel stays, and is told; the rest goes.
    let (ends, said) = place.rebuild(&[]);
    assert_eq!(ends, 0, "{said}");
    fs::write(of(TARGET, OTHER), "another builder's").expect("a file");
    fs::write(place.node.path(&format!("{WORKSHOP}/installed.{OTHER}")), "{}").expect("a record");
    let (ends, said) = place.rebuild(&["--undo"]);
    assert!(ends == 3 && said.contains("ForeignFile") && of(TARGET, OTHER).exists(), "{said}");
    assert!(!path(TARGET).exists(), "{said}");
}

fn modprobe_takes_the_rebuilt_file_beside_a_dkms_file(place: &Place) {
    place.dkms_has("stub");
    let (ends, said) = place.rebuild(&[]);
    assert_eq!(ends, 0, "{said}");
    let listed =
        || fs::read_to_string(place.node.path(&format!("lib/modules/{KERNEL}/modules.dep"))).unwrap();
    assert!(listed().contains("updates/nvidia-peermem.ko:"), "{}", listed());
    let (ends, said) = place.rebuild(&["--undo"]);
    assert!(ends == 0 && !place.is_installed() && !place.node.path(PREFERENCE).exists(), "{said}");
    assert!(listed().contains("updates/dkms/nvidia-peermem.ko:"), "{}", listed());
}

/// Somebody else's line goes before ours: modprobe says so, and no success is told.
fn a_rebuilt_file_that_modprobe_would_not_take_is_removed(place: &Place) {
    let modprobe = fs::read_to_string(place.node.path("bin/modprobe")).unwrap();
    let theirs =
        modprobe.replace("/lib/modules/6.1.0-56-amd64/$file", &format!("/{VIDEO}/nvidia-peermem.ko"));
    support::write_program(&place.node.path("bin/modprobe"), theirs);
    let (ends, said) = place.rebuild(&[]);
    assert!(ends == 125 && said.contains("modprobe would still load"), "{said}");
    assert!(said.contains("remove other lines `override nvidia-peermem`"), "{said}");
    assert!(!place.is_installed() && !place.node.path(PREFERENCE).exists());
}

/// MOFED is rolled back, and DKMS has what fits it.
fn rolled_back(place: &Place) {
    let (ends, said) = place.rebuild(&[]);
    assert_eq!(ends, 0, "{said}");
    place.mofed_is("old", 2);
}

fn a_rebuilt_file_is_removed_once_the_drivers_own_file_is_usable() {
    for verb in ["load", "keep", "rebuild"] {
        let Some(place) = Place::new() else { return };
        rolled_back(&place);
        place.dkms_has("old");
        let (ends, said) = place.rebuild(&["--dry-run"]);
        assert!(
            ends == 0 && said.contains("remove: /lib/modules") && said.contains("updates/dkms"),
            "{said}"
        );
        let report = support::Report::of(place.node.check().args(["--peermem", "--format", "json"]));
        assert_eq!(report.reason("PeermemUsable"), "SymbolVersionMismatch", "{}", report.json);
        let said = report.json.to_string();
        let words =
            ["peermem-gate rebuilt it, and", "would load in its place", "peermem-gate rebuild --undo"];
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        let loads = |place: &Place| place.called().iter().any(|call| call.contains("load updates/dkms/"));
        match verb {
            "keep" => {
                let mut keep = Gate::start(&mut place.run("keep", &["--rebuild", "auto"]));
                until("it loads", || loads(&place));
                assert_eq!(keep.ended_by(Signal::SIGTERM), 0);
            }
            "load" => {
                let (ends, said) = refusal(&mut place.run("load", &["--rebuild", "auto"]));
                assert!(ends == 0 && loads(&place), "{said}");
            }
            _ => {
                let (ends, said) = place.rebuild(&[]);
                assert!(ends == 0 && said.contains("which was rebuilt for another MOFED"), "{said}");
            }
        }
        assert_eq!(place.makes(), 1, "{verb}: nothing is built");
        place.node.remove(DKMS);
        fs::remove_dir(place.node.path(DKMS).parent().unwrap()).unwrap();
        place.assert_clean();
    }
}

fn if_the_drivers_own_file_does_not_load_the_module_is_rebuilt_again(place: &Place) {
    place.dkms_has("stub");
    rolled_back(place);
    let (ends, said) = refusal(&mut place.run("load", &["--rebuild", "auto"]));
    assert_eq!((ends, place.makes()), (0, 2), "{said}");
    assert!(place.called().iter().any(|call| call.contains("load updates/nvidia-peermem.ko")));
    let made = fs::read(place.node.path("made/0x3016e014.ko")).expect("a module");
    assert_eq!(fs::read(place.node.path(TARGET)).expect("it is there"), made);
}

/// A remedy names what is possible on this node, and `--undo` where our own file is what is wrong.
fn a_remedy_names_a_rebuild_where_it_is_possible_and_undo_where_our_file_is_wrong(place: &Place) {
    let check = || {
        let mut check = place.node.check();
        check.args(["--peermem", "--format", "json"]);
        let report: Value = serde_json::from_slice(&output(&mut check).stdout).expect("a report");
        let conditions = report["conditions"].as_array().expect("conditions");
        let peermem = conditions.iter().find(|c| c["type"] == "PeermemUsable").expect("one");
        peermem["remedy"].as_str().expect("a remedy").to_owned()
    };
    let remedy = check();
    assert!(remedy.starts_with("Rebuild only nvidia-peermem.ko") && !remedy.contains("--undo"), "{remedy}");
    let sources = place.node.path(SOURCES);
    fs::rename(&sources, place.node.path("sources")).expect("renamed");
    let remedy = check();
    assert!(!remedy.contains("peermem-gate rebuild"), "there are no sources: {remedy}");
    fs::rename(place.node.path("sources"), sources).expect("renamed");
    // The files of a rebuild that lacks room, or tools, can be had.
    place.node.rename("usr/bin/gcc", "gcc");
    let remedy = check();
    assert!(remedy.starts_with("If `peermem-gate rebuild --dry-run` finds all"), "{remedy}");
    place.node.rename("gcc", "usr/bin/gcc");

    let (ends, said) = place.rebuild(&[]);
    assert_eq!(ends, 0, "{said}");
    place.mofed_is("old", 2);
    let remedy = check();
    assert!(remedy.contains("`peermem-gate rebuild") && remedy.contains("--undo`"), "{remedy}");
}

/// Headers of another MOFED than the live one, whose own file cannot be seen: only the kernel can tell, and is asked
/// once. (The kernel's part is in tests/vm/scenarios/rebuild.)
fn a_module_that_the_kernel_refused_stays_unusable_until_the_right_headers_come(place: &Place) {
    let new = fs::read(place.node.path("made/0x065554c2.ko")).expect("a module");
    place.node.write(&format!("{VIDEO}/nvidia-peermem.ko"), new);
    // On a page of 80 columns messages have several lines.
    let check = || {
        let text = String::from_utf8(output(place.node.check().arg("--peermem")).stdout).expect("text");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let said = check();
    assert!(said.contains("nothing was compared with it"), "{said}");
    let nvidia = fs::read(place.node.path("sys/module/nvidia/notes/.note.gnu.build-id")).expect("a note");
    let nvidia = nvidia[16..].iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    let pair = serde_json::json!({"kernel": KERNEL, "nvidia": nvidia, "mofed": "01".repeat(20)});
    let refused = serde_json::json!(
        {"pair": pair, "symbol": "ib_register_peer_memory_client", "crc": 0x0655_54c2}
    );
    place.node.write(&format!("{WORKSHOP}/refused.{KERNEL}"), refused.to_string());
    let said = check();
    assert!(said.contains("SymbolVersionMismatch") && said.contains("which the kernel refused"), "{said}");
    let (ends, said) = place.rebuild(&[]);
    assert!(ends == 3 && place.makes() == 0, "{said}");
    assert!(said.contains("SymversUnusable") && said.contains("is not of the live RDMA stack"), "{said}");

    let mut keep = Gate::start(&mut place.run("keep", &["--rebuild", "auto"]));
    keep.logs("SymversUnusable");
    place.mofed_is("old", 1);
    until("it is built and loaded", || place.called().iter().any(|call| call.starts_with("load updates/")));
    assert_eq!(place.makes(), 1);
}

/// `SELinux` lets the kernel read modules of certain labels only.
/// The proof is modprobe's, and it may lack the time or the memory: that says nothing about the module.
fn a_modprobe_that_cannot_answer_does_not_remove_a_good_module(place: &Place) {
    let modprobe = fs::read_to_string(place.node.path("bin/modprobe")).expect("a script");
    let fails = modprobe.replace("for word; do", "echo 'out of memory' >&2; exit 137; for word; do");
    support::write_program(&place.node.path("bin/modprobe"), fails);
    let (ends, said) = place.rebuild(&[]);
    assert!(ends == 125 && said.contains("is installed, but not proven"), "{said}");
    assert!(place.is_installed() && !place.has_failed_for_good(), "{said}");
    support::write_program(&place.node.path("bin/modprobe"), modprobe);
    let (ends, said) = place.rebuild(&[]);
    assert_eq!((ends, place.makes()), (0, 1), "{said}");
}

/// An install line in modprobe.d, as docs/host.md has it, hides which file would load.
fn a_rebuild_with_an_install_line_in_modprobe_d_is_proven_too(place: &Place) {
    let modprobe = fs::read_to_string(place.node.path("bin/modprobe")).expect("a script");
    let hides =
        "case \" $* \" in *\" --ignore-install \"*) ;; *) echo 'install /usr/bin/peermem-gate'; exit ;; esac";
    let script = modprobe.replace("for word; do", &format!("{hides}\nfor word; do"));
    support::write_program(&place.node.path("bin/modprobe"), script);
    let (ends, said) = place.rebuild(&[]);
    assert_eq!((ends, place.is_installed()), (0, true), "{said}");
}

/// Another modprobe, such as a reloader's loop, loads the new file before it is proven.
fn a_rebuilt_module_that_is_loaded_before_its_proof_stays(place: &Place) {
    let new = place.node.path("made/0x065554c2.ko");
    let note = support::build_id_note(&new);
    place.node.write("note", note);
    let depmod = fs::read_to_string(place.node.path("usr/sbin/depmod")).expect("a script");
    let loads = "/bin/modprobe nvidia-peermem\nmkdir -p /sys/module/nvidia_peermem/notes\n\
                 cp /note /sys/module/nvidia_peermem/notes/.note.gnu.build-id\n";
    support::write_program(&place.node.path("usr/sbin/depmod"), depmod + loads);
    let (ends, said) = place.rebuild(&[]);
    assert_eq!((ends, place.is_installed()), (0, true), "{said}");
    assert!(!place.has_failed_for_good(), "{said}");
}

/// `modprobe -d ROOT nvidia-peermem`, as the driver's container calls it.
fn the_shim_rebuilds_before_it_loads(place: &Place) {
    let root = place.node.root().display();
    let modprobe = format!(
        "#!/bin/sh\nwhile [ \"$1\" = -d ]; do shift 2; done\n\
         chroot {root} /bin/modprobe \"$@\" | sed 's#^insmod /#insmod {root}/#'\n"
    );
    fs::create_dir(place.node.path("outside")).expect("a directory");
    support::write_program(&place.node.path("outside/modprobe"), modprobe);
    symlink(support::GATE, place.node.path("modprobe")).expect("a link");
    let mut shim = support::gate_by(&place.node.path("modprobe"));
    let path = |relative: &str| place.node.path(relative);
    shim.args(["-d".as_ref(), place.node.root().as_os_str(), "nvidia-peermem".as_ref()]);
    shim.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", path("outside").display()))
        .env("PEERMEM_GATE_REBUILD", "auto")
        .env("PEERMEM_GATE_TERMINATION_LOG", path("last-words"))
        .env("PEERMEM_GATE_SETTLE", "100ms")
        .env("PEERMEM_GATE_TIMEOUT", "20s");
    let (ends, said) = refusal(support::with_places_in_variables(&mut shim, place.node.root()));
    assert_eq!(ends, 0, "{said}");
    assert_eq!(place.called().last().map(String::as_str), Some("load updates/nvidia-peermem.ko"), "{said}");
}

fn load_rebuilds_only_when_asked_and_loads_what_was_built(place: &Place) {
    let (ends, said) = refusal(&mut place.run("load", &["--timeout", "20s"]));
    assert!(ends == 3 && said.contains("is a stub") && place.called().is_empty(), "{said}");
    let remedy = format!("`peermem-gate rebuild --driver-root {}`", place.node.root().display());
    assert!(said.contains(&remedy) && !said.contains("--dry-run"), "{said}");
    let mut load = place.run("load", &["--timeout", "20s"]);
    let (ends, said) = refusal(load.env("PEERMEM_GATE_REBUILD", "auto"));
    assert_eq!(ends, 0, "{said}");
    assert!(!said.contains("what to do"), "advice against the build that follows: {said}");
    let called = place.called();
    let verbs: Vec<_> = called.iter().map(|call| call.split(' ').next().unwrap()).collect();
    assert_eq!(verbs, ["make", "depmod", "load"], "{said}");
    assert_eq!(called[2], "load updates/nvidia-peermem.ko");
}

/// Off costs nothing: `wait` and `check` touch no file of a rebuild, and `load` only the note of who built the
/// module.
fn without_the_option_rebuild_no_file_of_a_rebuild_is_touched() {
    for verb in ["wait", "check", "load"] {
        let Some(place) = Place::new() else { return };
        let usable = fs::read(place.node.path("made/0x065554c2.ko")).unwrap();
        place.node.write(&format!("{VIDEO}/nvidia-peermem.ko"), usable);
        let mut gate = match verb {
            "wait" => place.node.wait(),
            "check" => place.node.check(),
            _ => place.run(verb, &[]),
        };
        gate.env("PATH", "/bin:/usr/bin");
        let trace = place.node.path("trace");
        let by = ["strace", "-f", "-e", "trace=%file", "-o"].map(PathBuf::from);
        let (ends, said) = refusal(&mut support::wrapped(by.into_iter().chain([trace.clone()]), &gate));
        assert_eq!(ends, 0, "{said}");
        let trace = fs::read_to_string(trace).expect("a trace");
        let named = |name: &str| trace.lines().filter(|line| line.contains(name)).collect::<Vec<_>>();
        for name in ["usr/src/nvidia", "usr/bin/make", "usr/bin/gcc", "autoconf.h", "driver_built", "/build-"]
        {
            assert!(named(name).is_empty(), "{verb}: {:#?}", named(name));
        }
        let notes = named(WORKSHOP);
        note!("{verb}: {} calls with a file's name, {} of the note", trace.lines().count(), notes.len());
        assert!(notes.is_empty() || verb == "load" && notes.len() <= 16, "{verb}: {notes:#?}");
    }
}

fn the_messages_of_rebuild_and_undo_match_what_happened(place: &Place) {
    place.node.write(TARGET, fs::read(place.node.path("made/0x3016e014.ko")).unwrap());
    let (ends, said) = place.rebuild(&["--undo"]);
    assert!(ends == 3 && said.contains("not undone: ForeignFile") && !said.contains("not rebuilt"), "{said}");
    place.node.remove(TARGET);
    place.node.remove("dev/null");
    let (ends, said) = place.rebuild(&[]);
    assert!(ends == 125 && said.contains("there is no /dev/null below"), "{said}");
    assert!(!said.contains("make cannot be run"), "{said}");
}

pub(crate) fn tests() -> Vec<Trial> {
    let own = suite![
        on Place::new [
            a_stub_is_planned_rebuilt_used_and_undone,
            modprobe_takes_the_rebuilt_file_beside_a_dkms_file,
            a_rebuilt_file_that_modprobe_would_not_take_is_removed,
            if_the_drivers_own_file_does_not_load_the_module_is_rebuilt_again,
            a_module_that_the_kernel_refused_stays_unusable_until_the_right_headers_come,
            a_remedy_names_a_rebuild_where_it_is_possible_and_undo_where_our_file_is_wrong,
            a_modprobe_that_cannot_answer_does_not_remove_a_good_module,
            a_rebuild_with_an_install_line_in_modprobe_d_is_proven_too,
            a_rebuilt_module_that_is_loaded_before_its_proof_stays,
            the_shim_rebuilds_before_it_loads,
            load_rebuilds_only_when_asked_and_loads_what_was_built,
            the_messages_of_rebuild_and_undo_match_what_happened,
        ],
        [
            an_undo_removes_what_was_installed_for_every_kernel,
            a_rebuilt_file_is_removed_once_the_drivers_own_file_is_usable,
        ],
        if can_trace [without_the_option_rebuild_no_file_of_a_rebuild_is_touched],
    ];
    let parts = [builds::tests(), failures::tests(), kept::tests()];
    own.into_iter().chain(parts.into_iter().flatten()).collect()
}
