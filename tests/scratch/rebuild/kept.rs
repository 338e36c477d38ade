// SPDX-License-Identifier: Apache-2.0
//! A node's keeper that rebuilds, its store, and the fast path.

use super::builds::MOFED_SHOWS;
use super::until;
use crate::place::{Place, TARGET};
use crate::support::hung::Hung;
use crate::support::{self, Gate, KERNEL, MARKER, output, tests};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Three nodes first: what it would do is said once, and nothing of it is done, not even by a signal.
fn a_dry_run_of_keep_says_what_it_would_rebuild_and_load_and_does_nothing(place: &Place) {
    let loads = || place.called().iter().any(|call| call.starts_with("load "));
    let mut keep = Gate::start(place.run("keep", &["--rebuild", "auto"]).arg("--dry-run"));
    keep.logs("dry run: keep logs what it would load, unload, build and write");
    keep.logs("not loaded yet: dry run: would rebuild nvidia-peermem.ko, and load it: driver's root: ");
    keep.process().signal(Signal::SIGHUP);
    place.becomes_usable();
    keep.logs("not loaded yet: dry run: would run `");
    assert_eq!((place.makes(), place.is_installed(), loads()), (0, false, false), "{:?}", place.called());
    assert_eq!(keep.ended_by(Signal::SIGTERM), 0);
    assert!(!loads(), "{:?}", place.called());
    place.assert_clean();
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
        assert_eq!(keep.ended_by(Signal::SIGTERM), 0);
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

fn a_driver_that_built_nothing_gets_its_module_from_the_nodes_store(kept: &KeptNode) {
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
fn on_the_fast_path_the_headers_of_mofeds_container_make_a_module_for_a_new_mofed(kept: &KeptNode) {
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

fn keep_rebuilds_for_each_mofed_and_loads_again(place: &Place) {
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

fn keep_stays_blocked_after_a_failure_until_mofed_is_another(place: &Place) {
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

/// As docs/sidecar.md says.
fn a_signal_makes_keep_try_again_what_failed_for_good(place: &Place) {
    place.making("exit 1");
    let mut keep = Gate::start(&mut place.run("keep", &["--rebuild", "auto"]));
    keep.logs("the rebuild failed");
    place.making("cp $made $copy/nvidia-peermem.ko");
    keep.process().signal(Signal::SIGHUP);
    keep.logs("is installed and usable");
    assert_eq!(place.makes(), 2);
}

/// MOFED is about to swap its modules already, and only the driver's root has an rmmod.
fn before_its_first_look_a_keeper_unloads_with_the_drivers_own_rmmod(kept: &KeptNode) {
    let modules = fs::read_to_string(kept.path("proc/modules")).expect("modules");
    let used = modules.replace(" mlx5_ib, ", " nvidia_peermem,mlx5_ib, ");
    kept.write("proc/modules", format!("nvidia_peermem 1 0 - Live 0x0 (OE)\n{used}"));
    fs::create_dir_all(kept.path("sys/module/nvidia_peermem")).expect("a directory");
    kept.write("sys/module/nvidia_peermem/initstate", "live\n");
    kept.write("sys/module/nvidia_peermem/taint", "OE\n");
    // Nobody holds MOFED's lock, so the unload is left to no container.
    kept.write("proc/locks", "");
    kept.place.node.remove(MARKER);
    let mut keep = kept.keep();
    keep.logs("unloaded nvidia_peermem in");
    assert!(keep.lines.iter().all(|line| line["level"] == "INFO"), "at the first try: {:#?}", keep.lines);
    KeptNode::ends(keep);
}

tests![
    on Place::new [
        keep_rebuilds_for_each_mofed_and_loads_again,
        a_dry_run_of_keep_says_what_it_would_rebuild_and_load_and_does_nothing,
        keep_stays_blocked_after_a_failure_until_mofed_is_another,
        a_signal_makes_keep_try_again_what_failed_for_good,
    ],
    on KeptNode::new [
        a_driver_that_built_nothing_gets_its_module_from_the_nodes_store,
        before_its_first_look_a_keeper_unloads_with_the_drivers_own_rmmod,
        on_the_fast_path_the_headers_of_mofeds_container_make_a_module_for_a_new_mofed,
    ],
];
