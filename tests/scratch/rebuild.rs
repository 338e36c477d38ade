// SPDX-License-Identifier: Apache-2.0
//! `rebuild`, and what `load`, `keep` and `wait` do with `--rebuild`: on a scratch node whose make, depmod, modprobe
//! and rmmod are scripts. NVIDIA's real sources and a real compiler are at the end; a real kernel is in
//! tests/kernel.rs.

use crate::place::{CONFTEST, DKMS, PREFERENCE, Place, SOURCES, TARGET, WORKSHOP};
use crate::support::hung::Hung;
use crate::support::{
    self, DRIVERS, Gate, KERNEL, LIMIT, LOCK, MARKER, Node, PROMPT, SYMVERS, VIDEO, can, can_mount, code,
    note, output, refusal, skip, suite,
};
use libtest_mimic::Trial;
use nix::sys::signal::Signal;
use peermem_gate::peermem::module_file;
use peermem_gate::rebuild::Kind;
use serde_json::Value;
use std::cell::Cell;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// What is taken away or put in the way.
type Change<'a> = &'a dyn Fn(&Node);
pub(crate) type BoxedChange = Box<dyn Fn(&Node)>;

/// MOFED's container shows its /usr/src in the driver's, too.
const MOFED_SHOWS: &str = "run/mellanox/drivers/usr/src";

fn until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < until, "never: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn is_alive(pid: &str) -> bool {
    // A zombie that nobody has reaped yet runs no more.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn a_stub_is_planned_rebuilt_used_and_undone() {
    let Some(place) = Place::new() else { return };
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

fn modprobe_takes_the_rebuilt_file_beside_a_dkms_file() {
    let Some(place) = Place::new() else { return };
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
fn a_rebuilt_file_that_modprobe_would_not_take_is_removed() {
    let Some(place) = Place::new() else { return };
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
                keep.process().signal(Signal::SIGTERM);
                assert_eq!(keep.ended(), 0);
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

fn if_the_drivers_own_file_does_not_load_the_module_is_rebuilt_again() {
    let Some(place) = Place::new() else { return };
    place.dkms_has("stub");
    rolled_back(&place);
    let (ends, said) = refusal(&mut place.run("load", &["--rebuild", "auto"]));
    assert_eq!((ends, place.makes()), (0, 2), "{said}");
    assert!(place.called().iter().any(|call| call.contains("load updates/nvidia-peermem.ko")));
    let made = fs::read(place.node.path("made/0x3016e014.ko")).expect("a module");
    assert_eq!(fs::read(place.node.path(TARGET)).expect("it is there"), made);
}

fn the_build_directory_has_only_the_sources_symbols_and_mofeds_path() {
    let Some(place) = Place::new() else { return };
    place.making(
        "cat $copy/conftest.sh $copy/nvidia-peermem/nvidia-peermem.c $symvers >/seen; ls -R $copy >/listed; cp $made $copy/nvidia-peermem.ko",
    );
    symlink("busybox", place.node.path("bin/ls")).expect("a link");
    let (ends, said) = place.rebuild(&[]);
    assert_eq!(ends, 0, "{said}");
    let seen = fs::read_to_string(place.node.path("seen")).expect("it was seen");
    assert!(
        !seen.contains("/usr/src/ofa_kernel")
            && seen.contains("MLNX_OFED_KERNEL_DIR=/var/lib/peermem-gate/build-"),
        "{seen}"
    );
    let mark = "MODULE_INFO(rebuilt_by, \"peermem-gate\");";
    assert!(seen.contains(mark), "{seen}");
    let source = fs::read_to_string(place.node.path(&format!("{SOURCES}/nvidia-peermem/nvidia-peermem.c")));
    assert!(!source.expect("text").contains(mark), "in the copy only");
    let theirs = fs::read_to_string(support::mofed().join("../../modules/new/Module.symvers"))
        .expect("a Module.symvers");
    for line in theirs.lines().filter(|line| line.contains("nvidia_p2p")) {
        let (crc, rest) = line.split_once('\t').expect("fields");
        let symbol = rest.split('\t').next().expect("a symbol");
        assert!(seen.contains(&format!("{crc}\t{symbol}\tnvidia\tEXPORT_SYMBOL")), "{line} in {seen}");
    }
    let listed = fs::read_to_string(place.node.path("listed")).expect("it was listed");
    assert!(listed.contains("nv-p2p.h") && !listed.contains("nv.c"), "{listed}");
    assert_eq!(
        fs::read_to_string(place.node.path(&format!("{SOURCES}/conftest.sh"))).expect("text"),
        CONFTEST
    );
}

/// Where no MOFED is, as on AKS: modpost would refuse to see the kernel's own symbols twice.
fn the_kernels_own_rdma_stack_is_built_against_the_kernels_own_symbols() {
    let Some(place) = Place::new() else { return };
    place.is_in_box();
    place.making(
        "if grep -q peer_memory $symvers; then echo 'exported twice'; exit 2; fi
        grep -q nvidia_p2p_get_pages $symvers && cp /made/0x065554c2.ko $copy/nvidia-peermem.ko",
    );
    let run = |verb: &str, more: &[&str]| {
        let output = output(place.run(verb, more).env("USE_HOST_MOFED", "true"));
        let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
        (code(output.status), said)
    };
    let (ends, said) = place.rebuild(&[]);
    assert_eq!((ends, place.makes()), (3, 0), "nobody says that no container comes: {said}");
    let (ends, said) = run("rebuild", &["--dry-run"]);
    assert_eq!(ends, 0, "{said}");
    assert!(said.contains("the kernel's own RDMA stack: symbols from"), "{said}");
    let (ends, said) = run("rebuild", &[]);
    assert_eq!((ends, place.is_installed()), (0, true), "{said}");
    let (ends, said) = run("load", &["--timeout", "20s"]);
    assert_eq!(ends, 0, "{said}");
}

/// Headers of a MOFED mean that it is still to load its modules: what is live then is not what will stay.
fn the_kernels_own_stack_is_accepted_only_if_no_mofed_has_headers() {
    let Some(place) = Place::new() else { return };
    place.is_in_box();
    let check = || {
        let mut check = place.node.check();
        check.args(["--peermem", "--format", "json"]).env("USE_HOST_MOFED", "true");
        let report: Value = serde_json::from_slice(&output(&mut check).stdout).expect("a report");
        let conditions = report["conditions"].as_array().expect("conditions").clone();
        move |name: &str| conditions.iter().find(|c| c["type"] == name).expect(name).clone()
    };
    let made = |crc: &str| {
        let module = fs::read(place.node.path(&format!("made/{crc}.ko"))).expect("a module");
        place.node.write(&format!("{VIDEO}/nvidia-peermem.ko"), module);
    };
    made("0x3016e014");
    let condition = check();
    for (name, reason) in [
        ("MarkerPresent", "NotRequired"),
        ("ModulesFromMofed", "InTreeWithPeerMemory"),
        ("VersionMatches", "VersionNotExpected"),
        ("HeadersReady", "HeadersComplete"),
        ("PeermemUsable", "SymbolVersionMismatch"),
    ] {
        let condition = condition(name);
        assert_eq!(condition["reason"], reason, "{condition:#}");
        let message = condition["message"].as_str().expect("text");
        assert!(message.contains("kernel's own RDMA stack"), "{message}");
    }
    made("0x065554c2");
    let usable = check()("PeermemUsable");
    assert_eq!(usable["reason"], "Usable", "{usable:#}");
    place.has_a_mofed_to_come();
    let late = check();
    let version = late("VersionMatches");
    assert_eq!(
        (&version["reason"], &version["status"]),
        (&"VersionMismatch".into(), &"False".into()),
        "{version:#}"
    );
    place.node.remove("usr/src/ofa_kernel");
    place.node.remove("usr/src/mlnx-ofa_kernel-24.04");
    // Without the kernel's headers nothing can be built.
    place.node.remove(&format!("lib/modules/{KERNEL}/build/Module.symvers"));
    let headers = check()("HeadersReady");
    assert_eq!(headers["reason"], "HeadersMissing", "{headers:#}");
    assert!(headers["remedy"].as_str().is_some_and(|remedy| remedy.contains("linux-headers")), "{headers:#}");
}

/// A remedy names what is possible on this node, and `--undo` where our own file is what is wrong.
fn a_remedy_names_a_rebuild_where_it_is_possible_and_undo_where_our_file_is_wrong() {
    let Some(place) = Place::new() else { return };
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
fn a_module_that_the_kernel_refused_stays_unusable_until_the_right_headers_come() {
    let Some(place) = Place::new() else { return };
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

/// Three nodes first: what it would do is said once, and nothing of it is done, not even by a signal.
fn a_dry_run_of_keep_says_what_it_would_rebuild_and_load_and_does_nothing() {
    let Some(place) = Place::new() else { return };
    let loads = || place.called().iter().any(|call| call.starts_with("load "));
    let mut keep = Gate::start(place.run("keep", &["--rebuild", "auto"]).arg("--dry-run"));
    keep.logs("dry run: keep logs what it would load, unload, build and write");
    keep.logs("not loaded yet: dry run: would rebuild nvidia-peermem.ko, and load it: driver's root: ");
    keep.process().signal(Signal::SIGHUP);
    place.becomes_usable();
    keep.logs("not loaded yet: dry run: would run `");
    assert_eq!((place.makes(), place.is_installed(), loads()), (0, false, false), "{:?}", place.called());
    keep.process().signal(Signal::SIGTERM);
    assert_eq!(keep.ended(), 0);
    assert!(!loads(), "{:?}", place.called());
    place.assert_clean();
}

/// Whatever directory holds the sources, and whatever MOFED's tree looks like.
fn every_layout_of_sources_and_headers_is_found() {
    let tree = format!("{DRIVERS}/usr/src/ofa_kernel");
    let shown = format!("{DRIVERS}/usr/src");
    let build = format!("lib/modules/{KERNEL}/build");
    let layouts: [(&str, Change<'_>); 9] = [
        ("nvidia-installer's", &|node| {
            node.rename(SOURCES, "usr/src/kernel-open");
            fs::create_dir(node.path(SOURCES)).unwrap();
            node.rename("usr/src/kernel-open", &format!("{SOURCES}/kernel-open"));
        }),
        ("the proprietary flavor", &|node| {
            node.rename(SOURCES, "usr/src/kernel");
            fs::create_dir(node.path(SOURCES)).unwrap();
            node.rename("usr/src/kernel", &format!("{SOURCES}/kernel"));
        }),
        ("a distribution's", &|node| node.rename(SOURCES, "usr/src/nvidia-current-595.45.04")),
        ("MOFED without the machine", &|node| {
            node.rename(&format!("{tree}/x86_64/{KERNEL}"), &format!("{tree}/{KERNEL}"));
        }),
        ("MOFED's absolute default link", &|node| {
            node.rename(&format!("{tree}/x86_64/{KERNEL}"), &format!("{tree}/built"));
            symlink("/usr/src/ofa_kernel/built", node.path(&format!("{tree}/default"))).unwrap();
        }),
        ("headers that nobody links", &|node| {
            node.rename(&build, &format!("usr/src/linux-headers-{KERNEL}"));
        }),
        ("headers of RHEL", &|node| {
            fs::create_dir(node.path("usr/src/kernels")).unwrap();
            node.rename(&build, &format!("usr/src/kernels/{KERNEL}"));
        }),
        // A link of the image's to a package that is not in it.
        ("headers that MOFED's container shows", &|node| {
            node.rename(&build, &format!("{shown}/linux-headers-{KERNEL}"));
            symlink(format!("/usr/src/linux-headers-{KERNEL}"), node.path(&build)).unwrap();
        }),
        ("headers that MOFED's container shows, of RHEL", &|node| {
            fs::create_dir(node.path(&shown).join("kernels")).unwrap();
            node.rename(&build, &format!("{shown}/kernels/{KERNEL}"));
        }),
    ];
    for (what, change) in layouts {
        let Some(place) = Place::new() else { return };
        change(&place.node);
        let (ends, said) = place.rebuild(&[]);
        assert!(ends == 0 && place.is_installed(), "{what}: {said}");
        let call = &place.called()[0];
        assert_eq!(call.contains("SYSSRC="), what.starts_with("headers"), "{what}: {call}");
    }
}

/// Neither of another kernel, nor incomplete.
fn only_headers_of_the_running_kernel_that_are_complete_are_taken() {
    let shown = format!("{DRIVERS}/usr/src");
    let build = format!("lib/modules/{KERNEL}/build");
    let others: [(&str, Change<'_>); 3] = [
        ("of another kernel", &|node| node.rename(&build, &format!("{shown}/linux-headers-6.1.0-57-amd64"))),
        ("of a kernel whose name begins so", &|node| {
            node.rename(&build, &format!("{shown}/linux-headers-{KERNEL}-lowlatency"));
        }),
        ("incomplete", &|node| {
            node.rename(&build, &format!("{shown}/linux-headers-{KERNEL}"));
            node.remove(&format!("{shown}/linux-headers-{KERNEL}/include/generated/autoconf.h"));
        }),
    ];
    for (what, change) in others {
        let Some(place) = Place::new() else { return };
        change(&place.node);
        let (ends, said) = place.rebuild(&[]);
        assert!(ends == 3 && place.makes() == 0, "{what}: {said}");
        assert!(said.contains("HeadersMissing") && said.contains("/run/mellanox/drivers"), "{what}: {said}");
    }
}

fn a_rebuild_on_arm64_uses_the_arm64_directory() {
    let Some(place) = Place::new() else { return };
    // The modules are x86_64's: a machine that calls itself aarch64 refuses what was built.
    place.node.write("proc/sys/kernel/arch", "aarch64\n");
    let tree = format!("{DRIVERS}/usr/src/ofa_kernel");
    place.node.rename(&format!("{tree}/x86_64"), &format!("{tree}/aarch64"));
    let (ends, said) = place.rebuild(&[]);
    assert_eq!((ends, place.makes()), (125, 1), "{said}");
    assert!(said.contains("is for x86_64, but this machine is aarch64"), "{said}");
    place.assert_clean();
}

/// No NIC, and no trace of MOFED.
fn has_no_rdma(node: &Node) {
    node.reset_nic();
    node.remove("run/mellanox");
    node.write("proc/modules", "nvidia 1 0 - Live 0x0 (OE)\n");
    for module in support::MODULES {
        node.remove(&format!("sys/module/{module}"));
    }
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
fn a_rebuild_needs_only_its_own_directory_of_var_lib_to_be_writable() {
    if !can_mount() {
        return;
    }
    let Some(place) = Place::new() else { return };
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
    if !can_mount() {
        return;
    }
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

fn a_build_that_hangs_is_ended_with_all_its_processes() {
    let Some(place) = Place::new() else { return };
    place.making("sleep 1000 & echo $! >/child; echo $$ >/make; wait");
    let begun = Instant::now();
    let (ends, said) = place.rebuild(&["--rebuild-timeout", "1s"]);
    assert_eq!(ends, 124, "{said}");
    assert!(said.contains("it has not ended after 1"), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    for name in ["make", "child"] {
        let pid = fs::read_to_string(place.node.path(name)).expect("a pid");
        until("it is gone", || !is_alive(pid.trim()));
    }
    place.assert_clean();
}

fn the_leftovers_of_a_killed_rebuild_are_ended_and_removed() {
    let Some(place) = Place::new() else { return };
    place.making("sleep 1000 & echo $! >/child; wait");
    let mut rebuild = Gate::start(&mut place.run("rebuild", &[]));
    until("it builds", || fs::read_to_string(place.node.path("child")).is_ok_and(|pid| !pid.is_empty()));
    // One at a time.
    let (ends, said) = place.rebuild(&[]);
    assert!(ends == 3 && said.contains("not rebuilt: Busy"), "{said}");
    let child = fs::read_to_string(place.node.path("child")).expect("a pid");
    rebuild.process().signal(Signal::SIGKILL);
    rebuild.ended();
    until("its build is gone", || !is_alive(child.trim()));
    assert!(!place.is_installed());
    assert_eq!(place.builds(), 1, "it could not clean up");
    place.making("cp $made $copy/nvidia-peermem.ko");
    until("the lock is free", || place.rebuild(&[]).0 == 0);
    assert_eq!(place.builds(), 0);
    assert!(place.is_installed());
}

fn a_signal_ends_a_build_and_decides_the_exit_code() {
    let Some(place) = Place::new() else { return };
    place.making("sleep 1000 & echo $! >/child; wait");
    let mut rebuild = Gate::start(&mut place.run("rebuild", &[]));
    until("it builds", || fs::read_to_string(place.node.path("child")).is_ok_and(|pid| !pid.is_empty()));
    let child = fs::read_to_string(place.node.path("child")).expect("a pid");
    rebuild.process().signal(Signal::SIGTERM);
    assert_eq!(rebuild.ended(), 128 + 15);
    until("its build is gone", || !is_alive(child.trim()));
    place.assert_clean();
}

/// On a slow disk it takes seconds, and the supervisor gives two.
fn a_signal_does_not_wait_for_a_slow_depmod() {
    let Some(kept) = KeptNode::new() else { return };
    support::write_program(&kept.path("bin/depmod"), "#!/bin/busybox sh\ntouch /depmods\nsleep 8\n");
    let mut keep = kept.keep();
    until("depmod runs", || kept.path("depmods").exists());
    keep.process().signal(Signal::SIGTERM);
    assert!(keep.process().ends_within(PROMPT));
    assert_eq!(keep.ended(), 0, "{:#?}", keep.lines);
    assert!(!keep.said("has not answered"), "{:#?}", keep.lines);
}

fn mofed_that_begins_its_swap_ends_a_build() {
    let Some(place) = Place::new() else { return };
    place.making("sleep 1000 & echo $! >/child; wait");
    let mut rebuild = Gate::start(&mut place.run("rebuild", &[]));
    until("it builds", || fs::read_to_string(place.node.path("child")).is_ok_and(|pid| !pid.is_empty()));
    let child = fs::read_to_string(place.node.path("child")).expect("a pid");
    place.node.remove(MARKER);
    assert_eq!(rebuild.ended(), 3, "{:#?}", rebuild.lines);
    assert!(rebuild.said("nothing is installed"));
    until("its build is gone", || !is_alive(child.trim()));
    place.assert_clean();
    // That was no failure of the build's.
    place.node.set_marker();
    place.making("cp $made $copy/nvidia-peermem.ko");
    let (ends, said) = refusal(&mut place.run("load", &["--rebuild", "auto", "--timeout", "20s"]));
    assert_eq!(ends, 0, "{said}");
}

/// A host's own MOFED has no marker that goes.
fn a_hosts_mofed_that_begins_its_swap_ends_a_build() {
    let Some(kept) = KeptNode::new() else { return };
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
fn a_module_built_for_replaced_mofed_modules_is_not_installed() {
    let Some(place) = Place::new() else { return };
    place.making("rm -r /sys/module/ib_core.new; cp -r /sys/module/ib_core /sys/module/ib_core.new; mv /sys/module/ib_core /gone; mv /sys/module/ib_core.new /sys/module/ib_core; cp $made $copy/nvidia-peermem.ko");
    let (ends, said) = place.rebuild(&[]);
    assert_eq!(ends, 3, "{said}");
    assert!(said.contains("nothing is installed"), "{said}");
    place.assert_clean();
}

fn a_users_builder_gets_its_inputs_in_variables() {
    let Some(place) = Place::new() else { return };
    let builder = place.node.path("builder");
    support::write_program(
        &builder,
        "#!/bin/sh\nset -e\nenv | grep ^PEERMEM_GATE_ >\"$PEERMEM_GATE_DRIVER_ROOT/told\"\n\
         grep -q nvidia_p2p_get_pages \"$PEERMEM_GATE_NVIDIA_SYMVERS\"\n\
         grep -q ib_register_peer_memory_client \"$PEERMEM_GATE_SYMVERS\"\n\
         cp \"$PEERMEM_GATE_DRIVER_ROOT/made/0x065554c2.ko\" \"$PEERMEM_GATE_OUT\"\n",
    );
    // It needs neither sources nor a compiler below the driver's root.
    place.node.remove(SOURCES);
    place.node.remove("usr/bin/gcc");
    let mut command = place.run("rebuild", &["--rebuild", builder.to_str().unwrap()]);
    command.env("PATH", "/bin:/usr/bin");
    let (ends, said) = refusal(&mut command);
    assert_eq!(ends, 0, "{said}");
    assert!(place.is_installed());
    let told = fs::read_to_string(place.node.path("told")).expect("it was told");
    for line in [
        "PEERMEM_GATE_KERNEL=6.1.0-56-amd64",
        "PEERMEM_GATE_ARCH=x86_64",
        "PEERMEM_GATE_NVIDIA_VERSION=595.45.04",
        "PEERMEM_GATE_REASON=StubModule",
    ] {
        assert!(told.lines().any(|told| told == line), "{line} in {told}");
    }
    for name in ["HEADERS", "SYMVERS", "NVIDIA_SYMVERS", "DRIVER_ROOT", "OUT"] {
        assert!(told.contains(&format!("PEERMEM_GATE_{name}=/")), "{name} in {told}");
    }
}

/// What it leaves is judged as what `make` leaves.
fn a_users_builder_that_fails_installs_nothing() {
    for (script, ends, words) in [
        ("echo 'no compiler' >&2; exit 7", 125, "ended with 7: no compiler"),
        (":", 125, "it did not write nvidia-peermem.ko"),
        ("echo garbage >\"$PEERMEM_GATE_OUT\"", 125, "its nvidia-peermem.ko is not a module"),
        (
            "cp \"$PEERMEM_GATE_DRIVER_ROOT/@VIDEO@/nvidia-peermem.ko\" \"$PEERMEM_GATE_OUT\"",
            125,
            "StubModule",
        ),
        ("echo $$ >\"$PEERMEM_GATE_DRIVER_ROOT/make\"; exec sleep 1000", 124, "it has not ended after 1"),
    ] {
        let Some(place) = Place::new() else { return };
        let builder = place.node.path("builder");
        support::write_program(&builder, format!("#!/bin/sh\n{}\n", script.replace("@VIDEO@", VIDEO)));
        let limit = if ends == 124 { "1s" } else { "60s" };
        let options = ["--rebuild", builder.to_str().unwrap(), "--rebuild-timeout", limit];
        let mut rebuild = place.run("rebuild", &options);
        let (ended, said) = refusal(rebuild.env("PATH", "/bin:/usr/bin"));
        assert_eq!(ended, ends, "{script}: {said}");
        assert!(said.contains(words), "{script}: {said}");
        if let Ok(pid) = fs::read_to_string(place.node.path("make")) {
            until("it is gone", || !is_alive(pid.trim()));
        }
        place.assert_clean();
    }
}

/// `SELinux` lets the kernel read modules of certain labels only.
/// The proof is modprobe's, and it may lack the time or the memory: that says nothing about the module.
fn a_modprobe_that_cannot_answer_does_not_remove_a_good_module() {
    let Some(place) = Place::new() else { return };
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
fn a_rebuild_with_an_install_line_in_modprobe_d_is_proven_too() {
    let Some(place) = Place::new() else { return };
    let modprobe = fs::read_to_string(place.node.path("bin/modprobe")).expect("a script");
    let hides =
        "case \" $* \" in *\" --ignore-install \"*) ;; *) echo 'install /usr/bin/peermem-gate'; exit ;; esac";
    let script = modprobe.replace("for word; do", &format!("{hides}\nfor word; do"));
    support::write_program(&place.node.path("bin/modprobe"), script);
    let (ends, said) = place.rebuild(&[]);
    assert_eq!((ends, place.is_installed()), (0, true), "{said}");
}

/// Another modprobe, such as a reloader's loop, loads the new file before it is proven.
fn a_rebuilt_module_that_is_loaded_before_its_proof_stays() {
    let Some(place) = Place::new() else { return };
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

/// A stub, and the old client is loaded, too: the build is good, and the node is not.
fn a_fault_that_no_build_cures_is_not_remembered_as_a_failed_build() {
    let Some(place) = Place::new() else { return };
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

fn the_module_gets_the_label_of_its_neighbor() {
    const LABEL: &str = "security.selinux";
    let Some(place) = Place::new() else { return };
    let context = b"system_u:object_r:modules_object_t:s0\0";
    let neighbor = place.node.path(&format!("{VIDEO}/nvidia.ko"));
    let flags = rustix::fs::XattrFlags::empty();
    if let Err(errno) = rustix::fs::setxattr(&neighbor, LABEL, context, flags) {
        return skip(&format!("no label can be set here: {errno}"));
    }
    let (ends, said) = place.rebuild(&[]);
    assert_eq!(ends, 0, "{said}");
    let mut label = [0; 64];
    let length = rustix::fs::getxattr(place.node.path(TARGET), LABEL, &mut label[..]).expect("a label");
    assert_eq!(&label[..length], context);
}

/// `modprobe -d ROOT nvidia-peermem`, as the driver's container calls it.
fn the_shim_rebuilds_before_it_loads() {
    let Some(place) = Place::new() else { return };
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
        .env("PEERMEM_GATE_PROC", path("proc"))
        .env("PEERMEM_GATE_SYS", path("sys"))
        .env("PEERMEM_GATE_MARKER", path(MARKER))
        .env("PEERMEM_GATE_TERMINATION_LOG", path("last-words"))
        .env("PEERMEM_GATE_SETTLE", "100ms")
        .env("PEERMEM_GATE_TIMEOUT", "20s")
        .env("MLX_DRIVERS_MOUNT", path(DRIVERS))
        .env("LOCK_FILE_PATH", path(LOCK));
    let (ends, said) = refusal(&mut shim);
    assert_eq!(ends, 0, "{said}");
    assert_eq!(place.called().last().map(String::as_str), Some("load updates/nvidia-peermem.ko"), "{said}");
}

fn load_rebuilds_only_when_asked_and_loads_what_was_built() {
    let Some(place) = Place::new() else { return };
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
    if !can(&["strace", "--version"]) {
        return;
    }
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

fn nothing_is_rebuilt_before_everything_else_has_settled() {
    let Some(place) = Place::new() else { return };
    place.node.remove(MARKER);
    let mut load = Gate::start(&mut place.run("load", &["--rebuild", "auto", "--timeout", "60s"]));
    load.logs("MarkerAbsent");
    assert!(place.called().is_empty());
    place.node.set_marker();
    assert_eq!(load.ended(), 0, "{:#?}", load.lines);
    assert_eq!(place.makes(), 1);
}

/// A MOFED upgrade with another ABI: no drain, no new pod.
/// A driver container shows its root below the node's.
pub(crate) struct KeptNode {
    /// What hangs there. It ends before the files are removed.
    pub(crate) hung: Cell<Option<Hung>>,
    pub(crate) place: Place,
}

impl KeptNode {
    pub(crate) fn new() -> Option<Self> {
        let place = Place::new()?;
        let node = &place.node;
        for name in ["bin", "usr", "lib", "var", "etc", "dev", "made", "proc", "sys"] {
            fs::create_dir_all(node.path("run/nvidia/driver")).expect("a directory");
            node.rename(name, &format!("run/nvidia/driver/{name}"));
        }
        fs::create_dir_all(node.path("var/lib/peermem-gate")).expect("a directory");
        let kept = Self { hung: Cell::default(), place };
        // The kernel shows the build id of what it has loaded.
        kept.write("note", support::build_id_note(&kept.path("made/0x065554c2.ko")));
        let modprobe = fs::read_to_string(kept.path("bin/modprobe")).expect("a script");
        let notes = "/sys/module/nvidia_peermem/notes";
        let shows_it = format!("mkdir -p {notes}; cp /note {notes}/.note.gnu.build-id\n");
        support::write_program(&kept.path("bin/modprobe"), modprobe + &shows_it);
        Some(kept)
    }

    /// In the driver's root.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.place.node.path("run/nvidia/driver").join(relative)
    }

    pub(crate) fn write(&self, relative: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(relative), bytes).expect("a file");
    }

    pub(crate) fn keep(&self) -> Gate {
        Gate::start(&mut self.keeper())
    }

    pub(crate) fn keeper(&self) -> Command {
        let mut command = support::gate();
        command.args(["keep", "--log-format", "json", "--settle", "100ms", "--rebuild", "auto"]);
        command.arg("--proc").arg(self.path("proc")).arg("--sys").arg(self.path("sys"));
        command.arg("--node-root").arg(self.place.node.root()).env("PATH", "/bin");
        command.arg("--metrics-file").arg(self.place.node.path("metrics.prom"));
        command.arg("--termination-log").arg(self.place.node.path("last-words"));
        command
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.path("sys/module/nvidia_peermem/notes/.note.gnu.build-id").exists()
    }

    pub(crate) fn ends(mut keep: Gate) {
        keep.process().signal(Signal::SIGTERM);
        assert_eq!(keep.ended(), 0);
    }

    /// Another container takes the fast path: nvidia stays, and its root has no sources and, as Ubuntu's image, no
    /// /lib/modules at all (gpu-operator#2619).
    pub(crate) fn takes_the_fast_path(&self) {
        let mut rmmod = Command::new("chroot");
        rmmod.arg(self.path("")).args(["/bin/busybox", "env", "PATH=/bin", "rmmod", "nvidia_peermem"]);
        assert!(output(&mut rmmod).status.success());
        for name in ["usr/src", "etc/depmod.d", "var/lib/peermem-gate"] {
            let _ = fs::remove_dir_all(self.path(name));
        }
        // The headers that a build needs were installed for it; what MOFED's container installed is shown here, too.
        let build = self.path(&format!("lib/modules/{KERNEL}/build"));
        if build.exists() {
            fs::create_dir_all(self.path(MOFED_SHOWS)).expect("a directory");
            fs::rename(build, self.mofeds_headers()).expect("headers");
        }
        fs::remove_dir_all(self.path("lib/modules")).expect("a directory");
    }

    pub(crate) fn mofeds_headers(&self) -> PathBuf {
        self.path(MOFED_SHOWS).join(format!("linux-headers-{KERNEL}"))
    }

    /// Another MOFED is live, and its headers are there.
    fn mofed_is(&self, generation: &str, build: u8) {
        self.place.mofed_is(generation, build);
        let note = "sys/module/ib_uverbs/notes/.note.gnu.build-id";
        fs::rename(self.place.node.path(note), self.path(note)).expect("a note");
    }

    pub(crate) fn makes(&self) -> usize {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        calls.lines().filter(|call| call.starts_with("make ")).count()
    }

    pub(crate) fn all_entries(&self) -> Vec<PathBuf> {
        let store = self.place.node.path("var/lib/peermem-gate/store");
        fs::read_dir(store).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }

    /// The store's entries that have a module.
    pub(crate) fn entries(&self) -> Vec<PathBuf> {
        let has_module = |path: &PathBuf| fs::metadata(path).is_ok_and(|entry| entry.len() > 1500);
        self.all_entries().into_iter().filter(has_module).collect()
    }
}

fn a_driver_that_built_nothing_gets_its_module_from_the_nodes_store() {
    let Some(kept) = KeptNode::new() else { return };
    let keep = kept.keep();
    until("it is loaded", || kept.is_loaded());
    until("it is stored", || !kept.entries().is_empty());
    KeptNode::ends(keep);
    let copied = output(Command::new("cp").arg("-r").arg(kept.path("usr/src")).arg(kept.path("kept")));
    assert!(copied.status.success());
    kept.takes_the_fast_path();
    let mut keep = kept.keep();
    keep.logs("taking the module from");
    until("it is loaded again", || kept.is_loaded());
    assert_eq!(kept.makes(), 1, "nothing was built");
    let same = |one: &str, other: &str| fs::read(kept.path(one)).ok() == fs::read(kept.path(other)).ok();
    assert!(same(TARGET, "made/0x065554c2.ko"));
    KeptNode::ends(keep);
    kept.takes_the_fast_path();
    // Without the module, the stored symbols of nvidia and the image's own sources make one.
    fs::rename(kept.path("kept"), kept.path("usr/src")).expect("sources");
    let damage = |entries: Vec<PathBuf>| entries.iter().for_each(|entry| fs::write(entry, "{}\n").unwrap());
    damage(kept.entries());
    let keep = kept.keep();
    until("it is loaded once more", || kept.is_loaded());
    assert_eq!(kept.makes(), 2, "the symbols' entry was enough");
    KeptNode::ends(keep);
    // A damaged store is no store.
    kept.takes_the_fast_path();
    damage(kept.all_entries());
    let mut keep = kept.keep();
    keep.logs("NvidiaFileMissing");
    assert!(!kept.is_loaded() && !kept.path(TARGET).exists());
    KeptNode::ends(keep);
}

/// A MOFED of another ABI: the store has no module for it, and the image no kernel headers.
fn on_the_fast_path_the_headers_of_mofeds_container_make_a_module_for_a_new_mofed() {
    let Some(kept) = KeptNode::new() else { return };
    let keep = kept.keep();
    until("it is loaded", || kept.is_loaded());
    until("it is stored", || !kept.entries().is_empty());
    KeptNode::ends(keep);
    fs::rename(kept.path("usr/src"), kept.path("kept")).expect("renamed");
    kept.takes_the_fast_path();
    fs::rename(kept.path("kept"), kept.path("usr/src")).expect("sources");
    kept.mofed_is("old", 2);
    kept.write("note", support::build_id_note(&kept.path("made/0x3016e014.ko")));
    let headers = kept.mofeds_headers();
    let others = headers.with_file_name("linux-headers-6.1.0-57-amd64");
    fs::rename(&headers, &others).expect("renamed");
    let mut keep = kept.keep();
    keep.logs("HeadersMissing");
    assert_eq!(kept.makes(), 1, "not with the headers of another kernel");
    KeptNode::ends(keep);
    fs::rename(&others, &headers).expect("renamed");
    let keep = kept.keep();
    until("it is loaded again", || kept.is_loaded());
    let calls = fs::read_to_string(kept.path("calls")).expect("calls");
    let given = format!("SYSSRC=/run/mellanox/drivers/usr/src/linux-headers-{KERNEL}");
    assert!(calls.lines().any(|call| call.starts_with("make ") && call.contains(&given)), "{calls}");
    assert_eq!(fs::read(kept.path(TARGET)).ok(), fs::read(kept.path("made/0x3016e014.ko")).ok());
    until("both are stored", || kept.entries().len() == 2);
    KeptNode::ends(keep);
}

fn keep_rebuilds_for_each_mofed_and_loads_again() {
    let Some(place) = Place::new() else { return };
    let status = place.node.path("status.json");
    let mut command = place.run("keep", &["--rebuild", "auto"]);
    command.arg("--status-file").arg(&status).arg("--metrics-file").arg(place.node.path("metrics.prom"));
    let _keep = Gate::start(&mut command);
    let is_in = |state: &str| {
        until(state, || {
            let text = fs::read_to_string(&status).unwrap_or_default();
            serde_json::from_str::<Value>(&text).is_ok_and(|status| status["keep"]["state"] == state)
        });
    };
    is_in("Loaded");
    assert_eq!(place.makes(), 1);
    place.node.remove(MARKER);
    is_in("Waiting");
    place.mofed_is("old", 2);
    place.node.set_marker();
    is_in("Loaded");
    assert_eq!(place.makes(), 2);
    assert_eq!(
        fs::read(place.node.path(TARGET)).unwrap(),
        fs::read(place.node.path("made/0x3016e014.ko")).unwrap(),
        "the other one"
    );
    let metrics = fs::read_to_string(place.node.path("metrics.prom")).expect("metrics");
    assert!(metrics.contains("peermem_gate_keep_rebuilds_total{result=\"installed\"} 2"), "{metrics}");
    let text = fs::read_to_string(&status).expect("a status");
    let status: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(status["keep"]["rebuilds"]["installed"], 2, "{text}");
}

fn keep_stays_blocked_after_a_failure_until_mofed_is_another() {
    let Some(place) = Place::new() else { return };
    place.making("exit 1");
    let mut keep = Gate::start(&mut place.run("keep", &["--rebuild", "auto"]));
    keep.logs("the rebuild failed");
    place.node.remove(MARKER);
    keep.logs("MarkerAbsent");
    place.node.set_marker();
    keep.logs("AlreadyTried");
    assert_eq!(place.makes(), 1);
    place.making("cp $made $copy/nvidia-peermem.ko");
    place.node.remove(MARKER);
    keep.logs("MarkerAbsent");
    place.mofed_is("old", 2);
    place.node.set_marker();
    keep.logs("is installed and usable");
    assert_eq!(place.makes(), 2);
}

/// A pipe holds up nobody, and a record that cannot be read is no verdict: the next one takes its place.
fn build_records_that_are_pipes_do_not_hang_and_are_replaced() {
    let Some(place) = Place::new() else { return };
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

fn the_last_words_at_the_deadline_begin_with_the_rebuild_that_failed() {
    let Some(place) = Place::new() else { return };
    place.making("kill -9 $$");
    let (ends, said) = refusal(&mut place.run("load", &["--rebuild", "auto", "--timeout", "5s"]));
    assert_eq!((ends, place.makes()), (124, 1), "{said}");
    let words = fs::read_to_string(place.node.path("last-words")).expect("last words");
    assert!(
        words.starts_with("the rebuild failed, and may succeed later: /usr/bin/make was ended by"),
        "{words}"
    );
}

/// As docs/sidecar.md says.
fn a_signal_makes_keep_try_again_what_failed_for_good() {
    let Some(place) = Place::new() else { return };
    place.making("exit 1");
    let mut keep = Gate::start(&mut place.run("keep", &["--rebuild", "auto"]));
    keep.logs("the rebuild failed");
    place.making("cp $made $copy/nvidia-peermem.ko");
    keep.process().signal(Signal::SIGHUP);
    keep.logs("is installed and usable");
    assert_eq!(place.makes(), 2);
}

/// All of `load` ends at its deadline, and what that cuts short was no failure of the build's.
fn the_deadline_of_load_ends_a_build_or_the_wait_for_another() {
    let Some(place) = Place::new() else { return };
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
    rebuild.process().signal(Signal::SIGTERM);
    assert_eq!(rebuild.ended(), 128 + 15);
    place.making("cp $made $copy/nvidia-peermem.ko");
    assert_eq!(load("20s").0, 0);
}

/// A session of its own is no way out of a build, whether it ends or is ended.
fn a_process_that_leaves_the_builds_group_ends_with_the_build() {
    for (after, options, ends) in [
        ("cp $made $copy/nvidia-peermem.ko", &[][..], 0),
        ("exit 1", &[], 125),
        ("sleep 1000", &["--rebuild-timeout", "1s"], 124),
    ] {
        let Some(place) = Place::new() else { return };
        let leaver = "busybox setsid sh -c 'echo $$ >/child; exec sleep 1000' >/dev/null 2>&1 &\n\
                      until [ -s /child ]; do busybox usleep 1000; done\n";
        place.making(&format!("{leaver}{after}"));
        let (ended, said) = place.rebuild(options);
        assert_eq!(ended, ends, "{said}");
        let child = fs::read_to_string(place.node.path("child")).expect("a pid");
        assert!(!is_alive(child.trim()), "{after}");
    }
}

fn a_failed_build_is_reported_with_its_first_error() {
    let Some(place) = Place::new() else { return };
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

fn the_messages_of_rebuild_and_undo_match_what_happened() {
    let Some(place) = Place::new() else { return };
    place.node.write(TARGET, fs::read(place.node.path("made/0x3016e014.ko")).unwrap());
    let (ends, said) = place.rebuild(&["--undo"]);
    assert!(ends == 3 && said.contains("not undone: ForeignFile") && !said.contains("not rebuilt"), "{said}");
    place.node.remove(TARGET);
    place.node.remove("dev/null");
    let (ends, said) = place.rebuild(&[]);
    assert!(ends == 125 && said.contains("there is no /dev/null below"), "{said}");
    assert!(!said.contains("make cannot be run"), "{said}");
}

fn keep_that_gets_a_signal_ends_its_build_at_once() {
    let Some(place) = Place::new() else { return };
    place.making("sleep 1000 & echo $! >/child; wait");
    let mut keep = Gate::start(&mut place.run("keep", &["--rebuild", "auto"]));
    until("it builds", || fs::read_to_string(place.node.path("child")).is_ok_and(|pid| !pid.is_empty()));
    let child = fs::read_to_string(place.node.path("child")).expect("a pid");
    keep.process().signal(Signal::SIGTERM);
    assert!(keep.process().ends_within(Duration::from_secs(2)));
    assert_eq!(keep.ended(), 0);
    until("its build is gone", || !is_alive(child.trim()));
    place.assert_clean();
}

/// NVIDIA's own sources (tests/vm/real), and a real compiler. Both traps are real, and neither is stepped into: a
/// second `make` in the same tree ends with 0 and makes what the first one made. The second time `load` does all, and
/// its time is shown beside that of a plain `make`.
fn nvidias_own_sources_are_rebuilt_for_one_mofed_after_the_other() {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/vm");
    let source = target.join("nvidia-open-kernel-source");
    if !source.exists() {
        return skip("no sources of NVIDIA's: tests/vm/real fetches them");
    }
    if !can_mount() {
        return;
    }
    let Some(place) = Place::new() else { return };
    let stamp = fs::read_to_string(target.join("stamp")).expect("a stamp");
    let [release, debian] = [0, 1].map(|field| stamp.split(' ').nth(field).expect("a field").to_owned());
    // Debian's, of the day.
    let kbuild = fs::read_to_string(source.join("Kbuild")).expect("theirs");
    let version = kbuild.split("DNV_VERSION_STRING=\\\"").nth(1).and_then(|rest| rest.split('\\').next());
    let version = version.expect("a version");
    place.node.write("sys/module/nvidia/version", format!("{version}\n"));
    let headers = target.join(format!("debian-{debian}/usr/src/linux-headers-{release}"));
    for (first, generation, build) in [("", "new", 1), ("new", "old", 2)] {
        place.mofed_is(generation, build);
        let root = Path::new("/mnt/root");
        let mut rebuild = match first {
            "" => place.run_below(root, "rebuild", &[]),
            _ => place.run_below(root, "load", &["--rebuild", "auto", "--settle", "1s", "--timeout", "10m"]),
        };
        rebuild.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let script = REAL.replace("@KERNEL@", KERNEL).replace("@VERSION@", version);
        let by = ["unshare", "-m", "sh", "-euc", &script, "sh", first, generation].map(PathBuf::from);
        let paths = [place.node.root().into(), source.clone(), headers.clone(), target.clone()];
        let ran = support::wrapped(by.into_iter().chain(paths), &rebuild).output().expect("it runs");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(code(ran.status), 0, "{generation}: {said}");
        note!("{}", String::from_utf8_lossy(&ran.stdout));

        let symvers = fs::read_to_string(place.node.path(SYMVERS)).expect("a Module.symvers");
        let crc = |name: &str| {
            let info = module_file::inspect(&place.node.path(name), &mut || false).expect("a module");
            assert_eq!(info.version.as_deref(), Some(version));
            info.versions.get("ib_register_peer_memory_client").copied()
        };
        let is_live = |crc: u32| symvers.contains(&format!("{crc:#010x}\tib_register_peer_memory_client"));
        assert!(crc("rebuilt.ko").is_some_and(is_live), "{generation}");
        assert!(!crc("trap.ko").is_some_and(is_live), "a second make in place made what is right");
    }
}

/// The machine's programs, and our files over them; nothing of the machine is written to.
const REAL: &str = r#"
    first=$1 generation=$2 node=$3 source=$4 headers=$5 target=$6
    shift 6
    mount -t tmpfs none /mnt
    mkdir /mnt/upper /mnt/work /mnt/root
    root=/mnt/root
    mount -t overlay -o "lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work" none $root
    mount --rbind /proc $root/proc
    mount --rbind /dev $root/dev
    mkdir -p "$root$target" $root/usr/src $root/lib/modules/@KERNEL@
    mount --bind "$target" "$root$target"
    cp -r "$node/lib/modules/@KERNEL@/kernel" $root/lib/modules/@KERNEL@/
    cp -r "$source" $root/usr/src/nvidia-@VERSION@
    ln -s "$headers" $root/lib/modules/@KERNEL@/build
    # Debian's kernel of the day goes by the name of the node's.
    echo '#define UTS_RELEASE "@KERNEL@"' >/mnt/utsrelease.h
    sed 's/^\(override KERNELRELEASE = \).*/\1@KERNEL@/' "$headers/.kernelvariables" >/mnt/kernelvariables
    mount --bind /mnt/utsrelease.h "$root$headers/include/generated/utsrelease.h"
    mount --bind /mnt/kernelvariables "$root$headers/.kernelvariables"
    ln -s "${headers%-amd64}-common" $root/lib/modules/@KERNEL@/source
    depmod -b $root @KERNEL@ 2>/dev/null
    # In place, for what was there first, and again for what is there now.
    in_place() {
        chroot $root make -C /usr/src/nvidia-@VERSION@ -j2 modules NV_KERNEL_MODULES=nvidia-peermem \
            KERNEL_UNAME=@KERNEL@ >/mnt/log 2>&1 || { cat /mnt/log >&2; exit 1; }
    }
    ofa=$root/usr/src/ofa_kernel/@KERNEL@
    mofed() {
        mkdir -p $ofa
        cp "$target/modules/$1/Module.symvers" $ofa/
    }
    rm -rf $root/usr/src/ofa_kernel
    if [ "$first" ]; then mofed "$first"; fi
    now() { read -r uptime _ </proc/uptime; echo "$uptime"; }
    begun=$(now)
    in_place
    made=$(now)
    mofed "$generation"
    in_place
    cp $root/usr/src/nvidia-@VERSION@/nvidia-peermem.ko "$node/trap.ko"
    # The kernel's part of a load.
    mkdir -p "$root$node" && mount --bind "$node" "$root$node"
    rm $root/usr/sbin/modprobe
    cat >$root/usr/sbin/modprobe <<MODPROBE
#!/bin/sh
modules=/lib/modules/@KERNEL@
for word; do
    [ "\$word" != --show-depends ] || { echo "insmod \$modules/kernel/drivers/video/nvidia.ko"; echo "insmod \$modules/updates/nvidia-peermem.ko"; exit; }
done
mkdir -p $node/sys/module/nvidia_peermem
echo live >$node/sys/module/nvidia_peermem/initstate
echo OE >$node/sys/module/nvidia_peermem/taint
sed -i 's/^\(ib_uverbs .*\) mlx5_ib,/\1 nvidia_peermem,mlx5_ib,/' $node/proc/modules
echo "nvidia_peermem 1 0 - Live 0x0 (OE)" >>$node/proc/modules
MODPROBE
    chmod 755 $root/usr/sbin/modprobe
    ready=$(now)
    "$@"
    echo "plain make from $begun to $made, from ready to the end from $ready to $(now)"
    cp $root/lib/modules/@KERNEL@/updates/nvidia-peermem.ko "$node/rebuilt.ko"
"#;

pub(crate) fn tests() -> Vec<Trial> {
    suite![
        a_stub_is_planned_rebuilt_used_and_undone,
        modprobe_takes_the_rebuilt_file_beside_a_dkms_file,
        a_rebuilt_file_that_modprobe_would_not_take_is_removed,
        a_rebuilt_file_is_removed_once_the_drivers_own_file_is_usable,
        if_the_drivers_own_file_does_not_load_the_module_is_rebuilt_again,
        the_build_directory_has_only_the_sources_symbols_and_mofeds_path,
        the_kernels_own_rdma_stack_is_built_against_the_kernels_own_symbols,
        the_kernels_own_stack_is_accepted_only_if_no_mofed_has_headers,
        a_module_that_the_kernel_refused_stays_unusable_until_the_right_headers_come,
        a_remedy_names_a_rebuild_where_it_is_possible_and_undo_where_our_file_is_wrong,
        every_layout_of_sources_and_headers_is_found,
        only_headers_of_the_running_kernel_that_are_complete_are_taken,
        a_rebuild_on_arm64_uses_the_arm64_directory,
        every_obstacle_is_a_refusal_with_its_reason,
        a_rebuild_needs_only_its_own_directory_of_var_lib_to_be_writable,
        a_failed_build_installs_nothing,
        a_rebuild_on_a_full_disk_is_refused_or_leaves_nothing_behind,
        a_build_that_hangs_is_ended_with_all_its_processes,
        the_leftovers_of_a_killed_rebuild_are_ended_and_removed,
        a_signal_ends_a_build_and_decides_the_exit_code,
        mofed_that_begins_its_swap_ends_a_build,
        a_hosts_mofed_that_begins_its_swap_ends_a_build,
        a_signal_does_not_wait_for_a_slow_depmod,
        a_module_built_for_replaced_mofed_modules_is_not_installed,
        a_users_builder_gets_its_inputs_in_variables,
        a_users_builder_that_fails_installs_nothing,
        a_modprobe_that_cannot_answer_does_not_remove_a_good_module,
        a_rebuild_with_an_install_line_in_modprobe_d_is_proven_too,
        a_rebuilt_module_that_is_loaded_before_its_proof_stays,
        a_fault_that_no_build_cures_is_not_remembered_as_a_failed_build,
        the_module_gets_the_label_of_its_neighbor,
        the_shim_rebuilds_before_it_loads,
        load_rebuilds_only_when_asked_and_loads_what_was_built,
        without_the_option_rebuild_no_file_of_a_rebuild_is_touched,
        nothing_is_rebuilt_before_everything_else_has_settled,
        keep_rebuilds_for_each_mofed_and_loads_again,
        a_dry_run_of_keep_says_what_it_would_rebuild_and_load_and_does_nothing,
        a_driver_that_built_nothing_gets_its_module_from_the_nodes_store,
        on_the_fast_path_the_headers_of_mofeds_container_make_a_module_for_a_new_mofed,
        keep_stays_blocked_after_a_failure_until_mofed_is_another,
        build_records_that_are_pipes_do_not_hang_and_are_replaced,
        a_temporary_build_failure_is_tried_again,
        the_last_words_at_the_deadline_begin_with_the_rebuild_that_failed,
        a_signal_makes_keep_try_again_what_failed_for_good,
        the_deadline_of_load_ends_a_build_or_the_wait_for_another,
        a_process_that_leaves_the_builds_group_ends_with_the_build,
        a_failed_build_is_reported_with_its_first_error,
        the_messages_of_rebuild_and_undo_match_what_happened,
        keep_that_gets_a_signal_ends_its_build_at_once,
        nvidias_own_sources_are_rebuilt_for_one_mofed_after_the_other
    ]
}
