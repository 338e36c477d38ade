// SPDX-License-Identifier: Apache-2.0
//! `keep` as a service: on a scratch node whose modprobe and rmmod are scripts that do to its files what
//! the kernel would. A real kernel is in tests/kernel.rs.

mod ends;
mod entrypoint;
mod hangs;
mod told;

use crate::support::{
    self, DRIVERS, Gate, Host, LIMIT, LOCK, MARKER, Node, PROMPT, VIDEO, can_mount, code, gate, note, output,
    skip, suite, until,
};
use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Run in the node's own root: notes that it was called, and does what the kernel would.
const MODPROBE: &str = include_str!("../fakes/modprobe");

pub(crate) struct Place {
    pub(crate) node: Node,
}

impl Place {
    /// All is ready, except for `nvidia_peermem` itself.
    pub(crate) fn new() -> Option<Self> {
        Self::of(Node::ready().with_peermem("new")?)
    }

    pub(crate) fn of(node: Node) -> Option<Self> {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).expect("a mask");
        if u64::from_str_radix(mask, 16).expect("hexadecimal") & 1 << 16 == 0 {
            skip("no CAP_SYS_MODULE, without which keep does not begin");
            return None;
        }
        let place = Self { node };
        let busybox = support::mofed().join("../bin/busybox");
        fs::create_dir_all(place.node.path("bin")).expect("a directory");
        support::copy_program(busybox, &place.node.path("bin/busybox"));
        for name in ["sed", "mkdir", "mv", "rm", "grep", "sleep", "touch"] {
            symlink("busybox", place.node.path(&format!("bin/{name}"))).expect("a link");
        }
        support::write_program(&place.node.path("bin/modprobe"), MODPROBE.replace("@VIDEO@", VIDEO));
        support::write_program(&place.node.path("bin/rmmod"), support::RMMOD);
        for name in ["loading", "unloading"] {
            place.node.write(&format!("bin/{name}"), "");
        }
        place.node.write("bin/loads", support::LOADS);
        Some(place)
    }

    /// The node's root is the driver's, and the only one with an rmmod.
    pub(crate) fn keep(&self) -> Command {
        self.keep_writing_to(self.node.root())
    }

    fn keep_writing_to(&self, outputs: &Path) -> Command {
        self.keep_by(Path::new(support::GATE), outputs)
    }

    /// The same by another build.
    fn keep_by(&self, gate: &Path, outputs: &Path) -> Command {
        let mut command = support::gate_by(gate);
        command.args(["keep", "--log-format", "json", "--settle", "100ms", "--heartbeat", "1s"]);
        support::with_places(&mut command, self.node.root()).arg("--driver-root").arg(self.node.root());
        command.arg("--status-file").arg(outputs.join("status.json"));
        command.arg("--metrics-file").arg(outputs.join("metrics.prom"));
        command.arg("--termination-log").arg(self.node.path("last-words")).env("PATH", "/bin");
        command
    }

    fn status(&self) -> PathBuf {
        self.node.path("status.json")
    }

    fn start(&self) -> Gate {
        Gate::start(&mut self.keep())
    }

    /// `load` and `unload …`, as they were called.
    pub(crate) fn called(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.node.path("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    /// The status file, once this is true of it.
    fn told(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + LIMIT;
        loop {
            let text = fs::read_to_string(self.status()).unwrap_or_default();
            // Replaced atomically: never half of it.
            let status: Value =
                if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() };
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < until, "never {what}: {status:#}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn is_in(&self, state: &str) -> Value {
        self.told(state, |status| status["keep"]["state"] == state)
    }

    fn check(&self) -> (i32, String) {
        let mut check = gate();
        check.arg("check").arg("--status-file").arg(self.status()).arg("--proc").arg(self.node.path("proc"));
        let output = output(&mut check);
        (code(output.status), String::from_utf8(output.stdout).expect("text"))
    }

    /// What uses it, as the reference count tells.
    pub(crate) fn uses(&self, count: u32) {
        let modules = fs::read_to_string(self.node.path("proc/modules")).expect("modules");
        let line = modules.lines().find(|line| line.starts_with("nvidia_peermem ")).expect("it is loaded");
        let changed = modules.replace(line, &format!("nvidia_peermem 1 {count} - Live 0x0 (OE)"));
        self.node.write("next", changed);
        self.node.rename("next", "proc/modules");
    }

    /// Somebody has loaded it already.
    fn load(&self) {
        let modules = fs::read_to_string(self.node.path("proc/modules")).expect("modules");
        self.node.write("sys/module/nvidia_peermem/initstate", "live\n");
        self.node.write("sys/module/nvidia_peermem/taint", "OE\n");
        let used = modules.replace(" mlx5_ib, ", " nvidia_peermem,mlx5_ib, ");
        assert_ne!(used, modules, "MOFED's modules do not know of it");
        self.node.write("proc/modules", format!("nvidia_peermem 1 0 - Live 0x0 (OE)\n{used}"));
    }

    /// Somebody unloads it.
    fn unload(&self) {
        assert!(self.unloads());
    }

    /// Whether an rmmod finds it and unloads it.
    fn unloads(&self) -> bool {
        let mut rmmod = Command::new("chroot");
        rmmod.arg(self.node.root()).args(["/bin/busybox", "env", "PATH=/bin", "rmmod", "nvidia_peermem"]);
        output(&mut rmmod).status.success()
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.node.path("sys/module/nvidia_peermem").exists()
    }
}

fn keep_loads_unloads_and_loads_again(place: &Place) {
    let mut keep = place.start();
    let status = place.is_in("Loaded");
    assert_eq!(status["keep"]["loaded_by"], "keep", "{status:#}");
    assert_eq!(place.called(), ["load"]);
    place.told("Ready", |status| status["verdict"] == "Ready");
    let (ends, said) = place.check();
    assert_eq!(ends, 0, "{said}");
    assert!(said.starts_with("Ready: "), "{said}");

    for round in 2..5 {
        place.node.remove(MARKER);
        place.is_in("Waiting");
        assert!(!place.is_loaded());
        assert_eq!(place.check().0, 1);
        place.node.set_marker();
        place.is_in("Loaded");
        assert!(place.is_loaded());
        let loads = place.called().iter().filter(|call| *call == "load").count();
        assert_eq!(loads, round);
    }
    assert!(place.called().iter().filter(|call| *call != "load").all(|call| call == "unload nvidia_peermem"));
    keep.assert_woken();
    keep.process().signal(Signal::SIGTERM);
    assert!(keep.process().ends_within(PROMPT));
    assert_eq!(keep.ended(), 0);
    assert!(place.is_loaded(), "it stays loaded");
    assert_eq!(place.check().0, 2, "nobody keeps it any more");
    assert!(!place.node.path("metrics.prom").exists(), "nor is there a state to be scraped");
    assert!(!place.node.path("last-words").exists());
}

/// Nothing tells of a swap where MOFED's container never was: a host's MOFED may be live there, and anyone who
/// started `keep` did not say so.
fn a_missing_marker_directory_shows_a_swap_only_if_it_existed_before(place: &Place) {
    place.load();
    place.node.rename(DRIVERS, "later");
    let mut keep = place.start();
    place.told("another's", |status| status["keep"]["loaded_by"] == "another");
    keep.logs("MarkerParentMissing");
    let written = place.is_in("Loaded")["keep"]["written_s"].as_f64();
    place.told("a heartbeat", |status| status["keep"]["written_s"].as_f64() > written);
    assert!(place.called().is_empty());
    // A container begins.
    fs::create_dir(place.node.path(DRIVERS)).expect("a directory");
    place.is_in("Waiting");
    assert_eq!(place.called(), ["unload nvidia_peermem"]);
    // It is complete, and its directory goes as a whole.
    fs::remove_dir(place.node.path(DRIVERS)).expect("removed");
    place.node.rename("later", DRIVERS);
    place.is_in("Loaded");
    place.node.rename(DRIVERS, "later");
    place.is_in("Waiting");
    assert!(!place.is_loaded());
    keep.assert_woken();
}

/// The kernel has it, and what is read of that is a moment late.
fn a_load_that_becomes_visible_late_is_not_a_refusal(place: &Place) {
    // A shell opens it for what it leaves running.
    place.node.write("dev/null", "");
    place.node.write(
        "bin/loading",
        "mkdir -p /sys/module/nvidia_peermem; echo live >/sys/module/nvidia_peermem/initstate
        echo OE >/sys/module/nvidia_peermem/taint
        (sleep 0.1
        sed 's/^\\(ib_uverbs .*\\) mlx5_ib,/\\1 nvidia_peermem,mlx5_ib,/' /proc/modules >/next
        echo 'nvidia_peermem 1 0 - Live 0x0 (OE)' >>/next
        mv /next /proc/modules) &
        exit 0",
    );
    let _keep = place.start();
    let status = place.is_in("Loaded");
    assert_eq!(status["keep"]["loaded_by"], "keep", "{status:#}");
    let metrics = fs::read_to_string(place.node.path("metrics.prom")).expect("metrics");
    assert!(metrics.contains("keep_loads_total 1") && !metrics.contains("Unproven"), "{metrics}");
}

/// nvidia.ko as hosts have it, packed: to unpack it takes seconds.
fn packs_nvidia_badly(place: &Place) {
    let module = place.node.path(&format!("{VIDEO}/nvidia.ko"));
    // Behind what is read of it, something that packs badly.
    let mut state = 1u32;
    let noise = (0..24 << 20).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 26) as u8
    });
    let long = fs::read(&module).expect("a module").into_iter().chain(noise);
    fs::write(&module, long.collect::<Vec<_>>()).expect("a long one");
    let packed = output(Command::new("xz").args(["-0", "--stdout"]).arg(&module));
    fs::write(&module, packed.stdout).expect("a packed one");
}

/// MOFED that restarts again and again, beside a driver that loads the module each time: no look has the time to
/// unpack it.
fn a_look_that_swaps_break_off_again_and_again_comes_to_its_end(place: &Place) {
    packs_nvidia_badly(place);
    fs::write(place.node.path(LOCK), "").expect("a lock");
    fs::write(place.node.path("proc/locks"), "").expect("no holder");
    let keep = place.start();
    let (begun, mut swaps) = (Instant::now(), 0);
    while !place.status().exists() {
        assert!(begun.elapsed() < LIMIT / 3, "no look has ended beside {swaps} swaps");
        place.node.set_marker();
        place.load();
        place.node.remove(MARKER);
        until("it lets go", || !place.is_loaded() || place.status().exists());
        swaps += 1;
    }
    note!("{swaps} swaps in {:?}", begun.elapsed());
    assert!(swaps > 2, "{swaps}");
    drop(keep);
}

/// Neither MOFED nor a signal waits for it: what unpacks is stopped, so it never ends.
fn unpacking_a_module_does_not_delay_an_unload_or_a_signal(place: &Place) {
    packs_nvidia_badly(place);
    let unpacks = |keep: &Gate| {
        let worker = keep.worker();
        let has_it_open = |child: &str| {
            let files = fs::read_dir(format!("/proc/{child}/fd")).into_iter().flatten().flatten();
            files
                .map(|file| file.path())
                .any(|file| fs::read_link(file).is_ok_and(|to| to.ends_with("nvidia.ko")))
        };
        until("it unpacks", || {
            let children = fs::read_to_string(format!("/proc/{worker}/task/{worker}/children"));
            let children = children.unwrap_or_default();
            let child = children.split_whitespace().find(|child| has_it_open(child));
            child.is_some_and(|child| {
                kill(Pid::from_raw(child.parse().expect("a pid")), Signal::SIGSTOP).is_ok()
            })
        });
    };
    // Nobody holds MOFED's lock, so `keep` leaves the unload to no container.
    fs::write(place.node.path(LOCK), "").expect("a lock");
    fs::write(place.node.path("proc/locks"), "").expect("no holder");
    place.load();
    let mut keep = place.start();
    unpacks(&keep);
    place.node.remove(MARKER);
    until("it lets go", || !place.is_loaded());
    keep.ended_by(Signal::SIGKILL);

    place.node.set_marker();
    place.load();
    let mut keep = place.start();
    unpacks(&keep);
    assert_eq!(keep.ended_by(Signal::SIGTERM), 0);

    // MOFED is in the middle of it already, and the first look is still to come.
    place.node.remove(MARKER);
    let mut keep = place.start();
    until("it lets go", || !place.is_loaded());
    assert_eq!(keep.ended_by(Signal::SIGTERM), 0);
}

/// A mount is reported once, to the first process that polls: also in the middle of a look, which polls as well.
fn a_mount_over_the_marker_during_a_look_is_noticed(place: &Place) {
    place.node.with_long_kallsyms();
    fs::create_dir(place.node.path("empty")).expect("a directory");
    let host = Host::new(&place.node);
    let mut keep = Gate::start(&mut host.contain("slave", &place.keep()));
    place.is_in("Loaded");
    for round in 0..5 {
        let modules = fs::read_to_string(place.node.path("proc/modules")).expect("modules");
        place.node.write("next", format!("{modules}another{round} 1 0 - Live 0x0\n"));
        place.node.rename("next", "proc/modules");
        keep.process().signal(Signal::SIGHUP);
        assert!(
            host.run("mount", &[Path::new("--bind"), &place.node.path("empty"), &place.node.path(DRIVERS)])
        );
        let mounted = Instant::now();
        until("it lets go", || !place.is_loaded());
        // Else the slow look found it, whose next event then gets the credit.
        assert!(mounted.elapsed() < PROMPT, "round {round}: {:?}", mounted.elapsed());
        // A look may be in there.
        assert!(host.run("umount", &[Path::new("-l"), &place.node.path(DRIVERS)]));
        place.is_in("Loaded");
    }
}

fn keep_names_the_users_of_the_module_and_unloads_it_afterwards(place: &Place) {
    let mut keep = place.start();
    place.is_in("Loaded");
    place.uses(2);
    // As the node's proc shows it: a GPU job.
    place.node.write("proc/4711/comm", "trainer\n");
    fs::create_dir_all(place.node.path("proc/4711/fd")).expect("a directory");
    symlink("/dev/nvidia0", place.node.path("proc/4711/fd/7")).expect("a link");
    place.node.remove(MARKER);
    let status = place.is_in("Busy");
    assert_eq!(status["keep"]["refcount"], 2, "{status:#}");
    keep.logs("it is in use (reference count 2); what to do: end what uses it (GPU pods)");
    // A search of its own finds their names: nothing waits for them.
    keep.logs("trainer (4711)");
    place.told("who uses it", |status| status["keep"]["holders"][0] == "trainer (4711)");
    assert_eq!(place.called(), ["load"], "it did not even try");
    let (ends, said) = place.check();
    assert_eq!(ends, 1, "{said}");
    assert!(said.contains("keep: Busy: "), "{said}");
    assert!(said.contains("open on GPU or RDMA devices: trainer (4711)\n"), "{said}");
    place.uses(0);
    place.is_in("Waiting");
    assert_eq!(place.called(), ["load", "unload nvidia_peermem"]);
}

fn keep_with_no_yield_does_not_unload_for_a_swap(place: &Place) {
    let mut keep = Gate::start(place.keep().arg("--no-yield"));
    place.is_in("Loaded");
    place.node.remove(MARKER);
    keep.logs("left alone (--no-yield)");
    place.told("Waiting", |status| status["verdict"] == "Waiting");
    assert_eq!(place.called(), ["load"]);
    assert_eq!(keep.ended_by(Signal::SIGINT), 0);
    assert!(place.is_loaded());
}

/// A module that another process has loaded stays loaded.
fn a_dry_run_of_keep_unloads_nothing_and_says_so(place: &Place) {
    let keep = Gate::start(&mut place.keep());
    place.is_in("Loaded");
    let mut keep = keep;
    assert_eq!(keep.ended_by(Signal::SIGTERM), 0);
    let mut keep = Gate::start(place.keep().arg("--dry-run"));
    place.is_in("Loaded");
    place.node.remove(MARKER);
    keep.logs("dry run: would run `rmmod nvidia_peermem`");
    place.is_in("Yielding");
    assert_eq!(place.called(), ["load"]);
    assert!(place.is_loaded());
    assert_eq!(keep.ended_by(Signal::SIGTERM), 0);
    let both = support::refusal(place.keep().args(["--dry-run", "--unload-on-exit"]));
    assert_eq!((both.0, both.1.contains("--unload-on-exit")), (2, true), "{}", both.1);
}

fn the_modules_parameters_are_passed_on_and_judged(place: &Place) {
    place.node.write("bin/loading", "echo \"$*\" >/parameters");
    let _keep = Gate::start(place.keep().args(["--", "peerdirect_support=1"]));
    place.is_in("Loaded");
    let parameters = fs::read_to_string(place.node.path("parameters")).expect("parameters");
    assert_eq!(parameters, "nvidia-peermem peerdirect_support=1\n");
    let Some(place) = Place::new() else { return };
    let mut keep = Gate::start(place.keep().args(["--", "peerdirect_support=2"]));
    assert_eq!(keep.ended(), 3);
    assert!(keep.said("peerdirect_support"), "{:#?}", keep.lines);
    assert!(place.called().is_empty());
}

/// As `install`-less hardening does it: a program of that name which does nothing.
fn an_rmmod_that_ends_with_0_without_effect_is_not_repeated_in_a_loop(place: &Place) {
    let mut keep = place.start();
    place.is_in("Loaded");
    support::write_program(&place.node.path("bin/rmmod"), "#!/bin/busybox sh\necho \"unload $*\" >>/calls\n");
    place.node.remove(MARKER);
    let line = keep.logs("still loaded");
    assert!(line["level"] == "WARN", "{line}");
    thread::sleep(Duration::from_secs(3));
    let unloads = place.called().iter().filter(|call| call.starts_with("unload")).count();
    assert!((2..=8).contains(&unloads), "{unloads} in 3 s");
    place.is_in("Yielding");
}

fn a_failed_unload_is_reported_with_its_remedy(place: &Place) {
    let mut keep = place.start();
    place.is_in("Loaded");
    place.node.write("bin/unloading", "echo 'rmmod: ERROR: Operation not permitted' >&2; exit 1");
    place.node.remove(MARKER);
    let line = keep.logs_that("Yielding", |line| line.to_string().contains("still yielding after"));
    assert_eq!(line["level"], "WARN", "{line}");
    let said = line["message"].as_str().expect("words");
    assert!(
        said.contains("Operation not permitted; what to do: check that this process has CAP_SYS_MODULE"),
        "{said}"
    );
    place.node.write("bin/unloading", "");
    place.is_in("Waiting");
}

fn keep_says_that_a_disabled_gate_does_not_disable_it(place: &Place) {
    let mut keep = Gate::start(place.keep().env("PEERMEM_GATE_DISABLED", "an incident"));
    let line = keep.logs("PEERMEM_GATE_DISABLED");
    assert!(line["level"] == "WARN" && line.to_string().contains("--no-yield"), "{line}");
    place.is_in("Loaded");
}

/// What is mended in modprobe's own files shows in nothing that is watched.
fn a_modprobe_configuration_that_is_mended_is_noticed_without_an_event(place: &Place) {
    let broken = "#!/bin/busybox sh\necho 'modprobe: FATAL: Module nvidia-peermem not found' >&2; exit 1\n";
    place.node.rename("bin/modprobe", "bin/good");
    support::write_program(&place.node.path("bin/modprobe"), broken);
    let _keep = place.start();
    let status = place.is_in("Blocked");
    assert!(status["keep"]["message"].as_str().unwrap().contains("what to do: run depmod"), "{status:#}");
    place.node.rename("bin/good", "bin/modprobe");
    place.is_in("Loaded");
    assert_eq!(place.called(), ["load"]);
}

/// A driver that is not loaded may still be built: nothing to end for.
fn keep_waits_for_a_driver_that_is_not_loaded_yet(place: &Place) {
    let modules = fs::read_to_string(place.node.path("proc/modules")).expect("modules");
    let file = format!("{VIDEO}/nvidia-peermem.ko");
    place.node.rename(&file, "later.ko");
    place.node.rename("sys/module/nvidia", "later");
    place.node.write("proc/modules", modules.replace("nvidia 1 0 - Live 0x0 (OE)\n", ""));
    // Nor while MOFED itself is still to come.
    place.node.remove(MARKER);
    let mut keep = place.start();
    let status = place.is_in("Waiting");
    assert_eq!(status["verdict"], "Waiting", "{status:#}");
    place.node.set_marker();
    keep.logs("there is no nvidia-peermem.ko");
    keep.logs("it may still be built");
    place.told("a heartbeat", |later| {
        later["keep"]["written_s"].as_f64() > status["keep"]["written_s"].as_f64()
    });
    // Nobody is to break off the build.
    assert!(!keep.said("ERROR") && !keep.said("delete its pod"), "{:#?}", keep.lines);
    place.node.rename("later.ko", &file);
    place.node.rename("later", "sys/module/nvidia");
    place.node.write("next", modules);
    place.node.rename("next", "proc/modules");
    place.is_in("Loaded");
}

/// As k8s-driver-manager does, and the driver container's own trap: nvidia is next, without `nvidia_peermem`.
fn an_unload_by_another_process_is_obeyed_also_by_the_next_keep(place: &Place) {
    let mut keep = place.start();
    place.is_in("Loaded");
    place.unload();
    let status = place.is_in("Waiting");
    assert!(status["keep"]["message"].as_str().unwrap().contains("another process unloaded"), "{status:#}");
    place.told("Ready", |status| status["verdict"] == "Ready");
    thread::sleep(Duration::from_secs(3));
    assert_eq!(place.called(), ["load", "unload nvidia_peermem"]);
    assert_eq!(keep.ended_by(Signal::SIGKILL), 128 + 9);
    let mut keep = place.start();
    place.told("Ready again", |status| status["verdict"] == "Ready");
    thread::sleep(Duration::from_secs(3));
    assert_eq!(place.called(), ["load", "unload nvidia_peermem"]);
    // Another driver is loaded.
    let modules = fs::read_to_string(place.node.path("proc/modules")).expect("modules");
    let without = modules.replace("nvidia 1 0 - Live 0x0 (OE)\n", "");
    assert_ne!(modules, without);
    place.node.write("proc/modules", without);
    place.node.rename("sys/module/nvidia", "old");
    place.told("nvidia is gone", |status| status["verdict"] == "Waiting");
    let copied = output(Command::new("cp").arg("-r").arg(place.node.path("old")).arg(place.node.path("new")));
    assert!(copied.status.success());
    place.node.rename("new", "sys/module/nvidia");
    place.node.write("next", modules);
    place.node.rename("next", "proc/modules");
    place.is_in("Loaded");
    // A person asks.
    place.unload();
    place.is_in("Waiting");
    keep.process().signal(Signal::SIGHUP);
    place.is_in("Loaded");
}

/// Lazily unmounted, none at all, then another container's.
fn a_drivers_root_that_goes_and_comes_is_waited_for(place: &Place) {
    place.node.rename("lib", "away");
    let mut keep = place.start();
    let status = place.is_in("Waiting");
    assert_eq!(status["verdict"], "Waiting", "{status:#}");
    keep.logs("this root has no driver: its container may be starting or ending");
    place.node.rename("away", "lib");
    place.is_in("Loaded");
    place.node.rename("lib", "away");
    place.unload();
    place.is_in("Waiting");
    keep.process().signal(Signal::SIGHUP);
    thread::sleep(Duration::from_secs(1));
    place.node.rename("away", "lib");
    place.is_in("Loaded");
    assert!(!keep.said("ERROR"), "{:#?}", keep.lines);
}

impl Place {
    /// The node's service, which is told nothing but where the node is.
    /// A host's own has its headers in /usr/src, and nothing in /run.
    fn has_the_hosts_own_mofed(&self) {
        self.node.remove(MARKER);
        let _ = fs::remove_file(self.node.path(LOCK));
        fs::create_dir_all(self.node.path("usr/src")).expect("a directory");
        self.node.rename(&format!("{DRIVERS}/usr/src/ofa_kernel"), "usr/src/ofa_kernel");
    }

    pub(crate) fn keeper(&self) -> Command {
        let mut command = support::gate();
        command.args(["keep", "--log-format", "json", "--settle", "100ms", "--heartbeat", "1s"]);
        command.args(["--suspect-hold", "3s", "--node-root"]).arg(self.node.root());
        command.arg("--status-file").arg(self.node.path("status.json"));
        command.arg("--metrics-file").arg(self.node.path("metrics.prom"));
        command.arg("--termination-log").arg(self.node.path("last-words")).env("PATH", "/bin");
        command
    }
}

fn a_nodes_keeper_finds_mofed_in_a_container_and_on_the_host(place: &Place) {
    let mut keep = Gate::start(&mut place.keeper());
    place.is_in("Loaded");
    assert_eq!(keep.ended_by(Signal::SIGTERM), 0);
    place.unload();
    fs::remove_file(place.node.path("status.json.memory")).expect("a memory");

    place.has_the_hosts_own_mofed();
    let mut keep = Gate::start(&mut place.keeper());
    place.is_in("Loaded");
    // A container comes after all, and with it the rule that its marker is needed.
    place.node.set_marker();
    keep.logs("a container brings MOFED");
    // The next container builds for minutes before it leaves a trace: until then no other MOFED counts.
    place.node.remove(MARKER);
    until("it is unloaded", || !place.is_loaded());
    thread::sleep(Duration::from_secs(4));
    assert_eq!(place.is_in("Waiting")["verdict"], "Waiting");
    assert!(!keep.said("MOFED is installed on the host") && !keep.said("ERROR"), "{:#?}", keep.lines);
}

/// What cannot be read may be a container's.
fn a_nodes_keeper_takes_what_it_cannot_read_for_a_container(place: &Place) {
    place.has_the_hosts_own_mofed();
    place.node.remove(DRIVERS);
    symlink("drivers", place.node.path(DRIVERS)).expect("a link that leads to itself");
    let mut keep = Gate::start(&mut place.keeper());
    keep.logs("cannot tell whether the marker exists");
    thread::sleep(Duration::from_secs(4));
    assert!(!place.is_loaded() && !keep.said("MOFED is installed on the host"), "{:#?}", keep.lines);
}

/// Without any trace of a container, the kernel's own stack may be all that there is.
fn a_nodes_keeper_waits_for_a_container_before_it_takes_the_kernels_own_stack() {
    let Some(node) = Node::ready().with_peermem("new").map(Node::without_mofed) else { return };
    let Some(place) = Place::of(node) else { return };
    let mut keep = Gate::start(&mut place.keeper());
    keep.logs("Marker");
    keep.logs("nothing shows a MOFED container, so the kernel's own RDMA stack counts");
}

pub(crate) fn tests() -> Vec<Trial> {
    let own = suite![
        on Place::new [
            keep_loads_unloads_and_loads_again,
            entrypoint::keep_leaves_the_unload_to_a_new_mofed_container_and_is_not_late,
            entrypoint::keep_leaves_the_unload_to_a_new_mofed_container_also_while_a_nic_is_reset,
            a_missing_marker_directory_shows_a_swap_only_if_it_existed_before,
            a_load_that_becomes_visible_late_is_not_a_refusal,
            unpacking_a_module_does_not_delay_an_unload_or_a_signal,
            a_look_that_swaps_break_off_again_and_again_comes_to_its_end,
            keep_names_the_users_of_the_module_and_unloads_it_afterwards,
            keep_with_no_yield_does_not_unload_for_a_swap,
            a_dry_run_of_keep_unloads_nothing_and_says_so,
            the_modules_parameters_are_passed_on_and_judged,
            an_rmmod_that_ends_with_0_without_effect_is_not_repeated_in_a_loop,
            a_failed_unload_is_reported_with_its_remedy,
            keep_says_that_a_disabled_gate_does_not_disable_it,
            a_modprobe_configuration_that_is_mended_is_noticed_without_an_event,
            keep_waits_for_a_driver_that_is_not_loaded_yet,
            an_unload_by_another_process_is_obeyed_also_by_the_next_keep,
            a_drivers_root_that_goes_and_comes_is_waited_for,
            a_nodes_keeper_finds_mofed_in_a_container_and_on_the_host,
            a_nodes_keeper_takes_what_it_cannot_read_for_a_container,
        ],
        if can_mount on Place::new [a_mount_over_the_marker_during_a_look_is_noticed],
        [
            a_nodes_keeper_waits_for_a_container_before_it_takes_the_kernels_own_stack,
        ],
    ];
    let parts = [ends::tests(), hangs::tests(), told::tests()];
    own.into_iter().chain(parts.into_iter().flatten()).collect()
}
