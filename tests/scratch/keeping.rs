// SPDX-License-Identifier: Apache-2.0
//! `keep` as a service: on a scratch node whose modprobe and rmmod are scripts that do to its files what
//! the kernel would. A real kernel is in tests/kernel.rs.

mod entrypoint;

use crate::support::hung::{Hung, mounts_apart};
use crate::support::{
    self, DRIVERS, Gate, Host, LIMIT, LOCK, MARKER, Node, PROMPT, VIDEO, can, can_mount, code, gate, note,
    output, skip, suite, until, wrapped,
};
use libtest_mimic::Trial;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Run in the node's own root: notes that it was called, and does what the kernel would, all of it in one
/// rename of /proc/modules.
const MODPROBE: &str = r#"#!/bin/busybox sh
for word; do
    if [ "$word" = --show-depends ]; then
        echo "insmod /@VIDEO@/nvidia.ko"
        echo "insmod /@VIDEO@/nvidia-peermem.ko"
        exit
    fi
done
echo load >>/calls
. /bin/loading
if grep -q '^nvidia_peermem ' /proc/modules; then exit 0; fi
mkdir -p /sys/module/nvidia_peermem
echo live >/sys/module/nvidia_peermem/initstate
echo OE >/sys/module/nvidia_peermem/taint
sed 's/^\(ib_uverbs .*\) mlx5_ib,/\1 nvidia_peermem,mlx5_ib,/' /proc/modules >/next
echo "nvidia_peermem 1 0 - Live 0x0 (OE)" >>/next
mv /next /proc/modules
"#;

const RMMOD: &str = r#"#!/bin/busybox sh
echo "unload $*" >>/calls
. /bin/unloading
if ! grep -q '^nvidia_peermem 1 0 ' /proc/modules; then
    echo "rmmod: ERROR: Module nvidia_peermem is in use" >&2
    exit 1
fi
sed -e '/^nvidia_peermem /d' -e 's/ nvidia_peermem,/ /' /proc/modules >/next.$$
mv /next.$$ /proc/modules
rm -r /sys/module/nvidia_peermem
"#;

/// Within a second, on a machine that has other things to do.
const SECOND: Duration = Duration::from_millis(1500);

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
        support::write_program(&place.node.path("bin/rmmod"), RMMOD);
        for name in ["loading", "unloading"] {
            place.node.write(&format!("bin/{name}"), "");
        }
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
        let path = |relative: &str| self.node.path(relative);
        let mut command = support::gate_by(gate);
        command.args(["keep", "--log-format", "json", "--settle", "100ms", "--heartbeat", "1s"]);
        command.arg("--proc").arg(path("proc")).arg("--sys").arg(path("sys"));
        command.arg("--marker").arg(path(MARKER)).arg("--driver-root").arg(self.node.root());
        command.arg("--status-file").arg(outputs.join("status.json"));
        command.arg("--metrics-file").arg(outputs.join("metrics.prom"));
        command.arg("--termination-log").arg(path("last-words"));
        command.env("PATH", "/bin");
        command.env("MLX_DRIVERS_MOUNT", path(DRIVERS)).env("LOCK_FILE_PATH", path(LOCK));
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
    fn uses(&self, count: u32) {
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

fn keep_loads_unloads_and_loads_again() {
    let Some(place) = Place::new() else { return };
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
fn a_missing_marker_directory_shows_a_swap_only_if_it_existed_before() {
    let Some(place) = Place::new() else { return };
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
fn a_load_that_becomes_visible_late_is_not_a_refusal() {
    let Some(place) = Place::new() else { return };
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
fn a_look_that_swaps_break_off_again_and_again_comes_to_its_end() {
    let Some(place) = Place::new() else { return };
    packs_nvidia_badly(&place);
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

/// Neither MOFED nor a signal waits for it.
fn unpacking_a_module_does_not_delay_an_unload_or_a_signal() {
    let Some(place) = Place::new() else { return };
    packs_nvidia_badly(&place);
    let unpacks = |keep: &mut Gate| {
        let worker = keep.worker();
        until("it unpacks", || {
            let children = fs::read_to_string(format!("/proc/{worker}/task/{worker}/children"));
            children.is_ok_and(|children| !children.trim().is_empty())
        });
        Instant::now()
    };
    // Nobody holds MOFED's lock, so `keep` leaves the unload to no container.
    fs::write(place.node.path(LOCK), "").expect("a lock");
    fs::write(place.node.path("proc/locks"), "").expect("no holder");
    place.load();
    let mut keep = place.start();
    let begun = unpacks(&mut keep);
    place.node.remove(MARKER);
    until("it lets go", || !place.is_loaded());
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
    keep.process().signal(Signal::SIGKILL);
    keep.ended();

    place.node.set_marker();
    place.load();
    let mut keep = place.start();
    let begun = unpacks(&mut keep);
    keep.process().signal(Signal::SIGTERM);
    assert_eq!(keep.ended(), 0);
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());

    // MOFED is in the middle of it already, and the first look is still to come.
    place.node.remove(MARKER);
    let begun = Instant::now();
    let mut keep = place.start();
    until("it lets go", || !place.is_loaded());
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
    keep.process().signal(Signal::SIGTERM);
    assert_eq!(keep.ended(), 0);
}

/// A status or metrics file on a dead NFS server must not cost the node its MOFED.
fn outputs_that_hang_do_not_delay_a_load_or_an_unload() {
    let Some(place) = Place::new().filter(|_| mounts_apart()) else { return };
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

/// A mount is reported once, to the first process that polls: also in the middle of a look, which polls as well.
fn a_mount_over_the_marker_during_a_look_is_noticed() {
    if !can_mount() {
        return;
    }
    let Some(place) = Place::new() else { return };
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

fn keep_names_the_users_of_the_module_and_unloads_it_afterwards() {
    let Some(place) = Place::new() else { return };
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

fn keep_with_no_yield_does_not_unload_for_a_swap() {
    let Some(place) = Place::new() else { return };
    let mut keep = Gate::start(place.keep().arg("--no-yield"));
    place.is_in("Loaded");
    place.node.remove(MARKER);
    keep.logs("left alone (--no-yield)");
    place.told("Waiting", |status| status["verdict"] == "Waiting");
    assert_eq!(place.called(), ["load"]);
    keep.process().signal(Signal::SIGINT);
    assert_eq!(keep.ended(), 0);
    assert!(place.is_loaded());
}

/// A module that another process has loaded stays loaded.
fn a_dry_run_of_keep_unloads_nothing_and_says_so() {
    let Some(place) = Place::new() else { return };
    let keep = Gate::start(&mut place.keep());
    place.is_in("Loaded");
    let mut keep = keep;
    keep.process().signal(Signal::SIGTERM);
    assert_eq!(keep.ended(), 0);
    let mut keep = Gate::start(place.keep().arg("--dry-run"));
    place.is_in("Loaded");
    place.node.remove(MARKER);
    keep.logs("dry run: would run `rmmod nvidia_peermem`");
    place.is_in("Yielding");
    assert_eq!(place.called(), ["load"]);
    assert!(place.is_loaded());
    keep.process().signal(Signal::SIGTERM);
    assert_eq!(keep.ended(), 0);
    let both = support::refusal(place.keep().args(["--dry-run", "--unload-on-exit"]));
    assert_eq!((both.0, both.1.contains("--unload-on-exit")), (2, true), "{}", both.1);
}

fn the_modules_parameters_are_passed_on_and_judged() {
    let Some(place) = Place::new() else { return };
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

/// What keeps MOFED from coming is no mere information.
/// `load` has no watchdog: it says so itself, and ends.
fn a_load_whose_modprobe_hangs_is_reported_and_ends() {
    let Some(place) = Place::new() else { return };
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
    gate.process().signal(Signal::SIGTERM);
    assert_eq!(gate.ended(), 143);
    assert!(told.elapsed() < SECOND + PROMPT, "{:?}", told.elapsed());
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

/// As `install`-less hardening does it: a program of that name which does nothing.
fn an_rmmod_that_ends_with_0_without_effect_is_not_repeated_in_a_loop() {
    let Some(place) = Place::new() else { return };
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

fn a_failed_unload_is_reported_with_its_remedy() {
    let Some(place) = Place::new() else { return };
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

fn keep_says_that_a_disabled_gate_does_not_disable_it() {
    let Some(place) = Place::new() else { return };
    let mut keep = Gate::start(place.keep().env("PEERMEM_GATE_DISABLED", "an incident"));
    let line = keep.logs("PEERMEM_GATE_DISABLED");
    assert!(line["level"] == "WARN" && line.to_string().contains("--no-yield"), "{line}");
    place.is_in("Loaded");
}

fn keep_ends_within_a_second_of_a_signal_in_any_state() {
    let Some(place) = Place::new() else { return };
    // In the middle of a load that does not end.
    place.node.write("bin/loading", "touch /loading; sleep 30");
    let mut keep = place.start();
    until("modprobe runs", || place.node.path("loading").exists());
    let told = Instant::now();
    keep.process().signal(Signal::SIGTERM);
    assert_eq!(keep.ended(), 0);
    assert!(told.elapsed() < Duration::from_secs(1) + PROMPT / 2, "{:?}", told.elapsed());

    // In the middle of an unload, which is finished first.
    place.node.write("bin/loading", "");
    let mut keep = place.start();
    place.is_in("Loaded");
    place.node.write("bin/unloading", "touch /unloading; sleep 0.3");
    place.node.remove(MARKER);
    until("rmmod runs", || place.node.path("unloading").exists());
    keep.process().signal(Signal::SIGTERM);
    assert_eq!(keep.ended(), 0);
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
        keep.process().signal(Signal::SIGTERM);
        assert_eq!(keep.ended(), 0);
        assert!(told.elapsed() < SECOND, "{option:?}: {:?}", told.elapsed());
        assert_eq!(place.called(), ["load", "unload nvidia_peermem"], "not a second time");
    }
}

/// Two signals, and the second is no reason to run in circles.
fn a_second_signal_during_an_unload_costs_nothing() {
    let Some(place) = Place::new() else { return };
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

/// Nor for one that hangs only at the end.
fn an_unload_at_the_end_takes_no_more_than_a_second() {
    let Some(place) = Place::new() else { return };
    let mut keep = Gate::start(place.keep().arg("--unload-on-exit"));
    place.is_in("Loaded");
    place.node.write("bin/unloading", "trap '' TERM; sleep 30");
    let told = Instant::now();
    keep.process().signal(Signal::SIGTERM);
    assert_eq!(keep.ended(), 0);
    assert!(told.elapsed() < SECOND, "{:?}", told.elapsed());
    assert_eq!(place.called(), ["load", "unload nvidia_peermem"]);
}

/// And for both together: what modprobe took of that second, rmmod does not get.
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
        keep.process().signal(Signal::SIGTERM);
        assert_eq!(keep.ended(), 0);
        assert_eq!(place.called()[0], "load");
        Some(told.elapsed())
    });
    if let Some(took) = took.min() {
        assert!(took < Duration::from_millis(1200), "{took:?}");
    }
}

fn keep_unloads_at_its_end_with_unload_on_exit() {
    let Some(place) = Place::new() else { return };
    let mut keep = Gate::start(place.keep().arg("--unload-on-exit"));
    place.is_in("Loaded");
    keep.process().signal(Signal::SIGTERM);
    assert_eq!(keep.ended(), 0);
    assert!(!place.is_loaded());
    // But nothing where the gate does not apply.
    place.node.set_marker();
    place.load();
    let mut keep = Gate::start(place.keep().arg("--unload-on-exit").env("GPU_DIRECT_RDMA_ENABLED", "false"));
    place.told("NotApplicable", |status| status["verdict"] == "NotApplicable");
    keep.process().signal(Signal::SIGTERM);
    assert_eq!(keep.ended(), 0);
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

fn a_hangup_asks_for_a_look_and_ends_nothing() {
    let Some(place) = Place::new() else { return };
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
    let Some(place) = Place::new() else { return };
    let Some(stub) = Node::ready().with_peermem("stub").and_then(Place::of) else { return };
    let mut keep = stub.start();
    assert_eq!(keep.ended(), 3);
    let words = fs::read_to_string(stub.node.path("last-words")).expect("last words");
    assert!(words.contains("is a stub"), "{words}");
    // Later it stays, and looks again when the file has changed.
    place.node.remove(MARKER);
    let good = place.node.path(&format!("{VIDEO}/nvidia-peermem.ko"));
    let bytes = fs::read(&good).expect("a module");
    fs::copy(stub.node.path(&format!("{VIDEO}/nvidia-peermem.ko")), &good).expect("a copy");
    let mut keep = place.start();
    place.is_in("Waiting");
    place.node.set_marker();
    let status = place.is_in("Blocked");
    assert!(status["keep"]["message"].as_str().unwrap().contains("what to do: "), "{status:#}");
    keep.logs("is a stub");
    fs::write(&good, bytes).expect("a module");
    place.is_in("Loaded");
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
        keep.process().signal(Signal::SIGTERM);
        assert_eq!(keep.ended(), 0);
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
    keep.process().signal(Signal::SIGTERM);
    assert_eq!(keep.ended(), 0);
}

/// What is mended in modprobe's own files shows in nothing that is watched.
fn a_modprobe_configuration_that_is_mended_is_noticed_without_an_event() {
    let Some(place) = Place::new() else { return };
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
fn keep_waits_for_a_driver_that_is_not_loaded_yet() {
    let Some(place) = Place::new() else { return };
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
fn an_unload_by_another_process_is_obeyed_also_by_the_next_keep() {
    let Some(place) = Place::new() else { return };
    let mut keep = place.start();
    place.is_in("Loaded");
    place.unload();
    let status = place.is_in("Waiting");
    assert!(status["keep"]["message"].as_str().unwrap().contains("another process unloaded"), "{status:#}");
    place.told("Ready", |status| status["verdict"] == "Ready");
    thread::sleep(Duration::from_secs(3));
    assert_eq!(place.called(), ["load", "unload nvidia_peermem"]);
    keep.process().signal(Signal::SIGKILL);
    assert_eq!(keep.ended(), 128 + 9);
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
fn a_drivers_root_that_goes_and_comes_is_waited_for() {
    let Some(place) = Place::new() else { return };
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

fn a_nodes_keeper_finds_mofed_in_a_container_and_on_the_host() {
    let Some(place) = Place::new() else { return };
    let mut keep = Gate::start(&mut place.keeper());
    place.is_in("Loaded");
    keep.process().signal(Signal::SIGTERM);
    assert_eq!(keep.ended(), 0);
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
fn a_nodes_keeper_takes_what_it_cannot_read_for_a_container() {
    let Some(place) = Place::new() else { return };
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

fn a_nodes_keeper_stays_where_only_a_person_can_help() {
    let Some(place) = Node::ready().with_peermem("stub").and_then(Place::of) else { return };
    let mut keep = Gate::start(&mut place.keeper());
    place.is_in("Blocked");
    let written = place.is_in("Blocked")["keep"]["written_s"].as_f64();
    place.told("a heartbeat", |status| status["keep"]["written_s"].as_f64() > written);
    let metrics = fs::read_to_string(place.node.path("metrics.prom")).expect("metrics");
    assert!(metrics.contains("peermem_gate_keep_state{state=\"Blocked\"} 1"), "{metrics}");
    keep.process().signal(Signal::SIGTERM);
    assert_eq!(keep.ended(), 0);
}

/// In every state: what is started again goes on from what it finds.
fn keep_killed_in_any_state_and_started_again_converges() {
    let Some(place) = Place::new() else { return };
    place.node.remove(MARKER);
    let kill = |mut keep: Gate| {
        keep.process().signal(Signal::SIGKILL);
        assert_eq!(keep.ended(), 128 + 9);
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

/// What a dead one says of a node that was well is not said when the next one ends at once.
fn the_status_file_of_a_dead_keep_is_not_accepted() {
    let Some(place) = Place::new() else { return };
    let mut keep = place.start();
    place.told("Ready", |status| status["verdict"] == "Ready" && status["keep"]["state"] == "Loaded");
    keep.process().signal(Signal::SIGKILL);
    keep.ended();
    assert_eq!(place.check().0, 0);
    place.unload();
    let file = place.node.path(&format!("{VIDEO}/nvidia-peermem.ko"));
    fs::write(&file, "no module").expect("a damaged module");
    assert_eq!(place.start().ended(), 3);
    assert_eq!(place.check().0, 2);
    assert!(!place.node.path("metrics.prom").exists());
}

fn keep_notifies_the_service_manager() {
    let Some(place) = Place::new() else { return };
    let path = place.node.path("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager.set_read_timeout(Some(LIMIT)).expect("a limit");
    let hear = |wanted: &str| {
        let mut buffer = [0; 4096];
        loop {
            let length = manager.recv(&mut buffer).unwrap_or_else(|error| panic!("never {wanted}: {error}"));
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if text.starts_with(wanted) {
                return;
            }
        }
    };
    let mut keep = place.keep();
    keep.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "300000");
    let mut keep = Gate::start(&mut keep);
    hear("READY=1");
    hear("STATUS=Loaded: ");
    let begun = Instant::now();
    (0..10).for_each(|_| hear("WATCHDOG=1"));
    assert!(begun.elapsed() < Duration::from_secs(3) + PROMPT, "{:?}", begun.elapsed());
    place.node.remove(MARKER);
    hear("STATUS=Waiting: MOFED has not set its marker");
    keep.process().signal(Signal::SIGTERM);
    hear("STOPPING=1");
    assert_eq!(keep.ended(), 0);
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
fn keep_unloads_beside_a_drivers_root_that_hangs() {
    let Some(place) = Place::new().filter(|_| mounts_apart()) else { return };
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
    keep.process().signal(Signal::SIGTERM);
    assert_eq!(keep.ended(), 143);
}

/// A pipe or a link there is nobody's order, and no reason to end: `keep` would be started again and again.
fn whatever_is_at_the_memorys_path_ends_no_keep() {
    let put: [fn(&Path); 3] = [
        |path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe"),
        |path| symlink("/etc/passwd", path).expect("a link"),
        |path| fs::create_dir(path).expect("a directory"),
    ];
    for put in put {
        let Some(place) = Place::new() else { return };
        put(&place.node.path("status.json.memory"));
        let mut keep = place.start();
        keep.logs("the next keep will not know of an order to unload");
        place.is_in("Loaded");
    }
}

/// Its directory may be mounted later.
fn the_memory_is_written_as_soon_as_it_can_be() {
    let Some(place) = Place::new() else { return };
    let outputs = place.node.path("outputs");
    let keep = Gate::start(&mut place.keep_writing_to(&outputs));
    until("it is loaded", || place.is_loaded());
    thread::sleep(Duration::from_secs(1));
    fs::create_dir(&outputs).expect("a directory");
    until("it is written", || outputs.join("status.json.memory").exists());
    drop(keep);
}

fn unloads_beside_a_look_that_hangs(command: fn(&Place) -> Command, hangs: &str) {
    let Some(place) = Place::new().filter(|_| mounts_apart()) else { return };
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
    keep.process().signal(Signal::SIGTERM);
    assert_eq!(keep.ended(), 0);
}

/// kubelet makes the marker's directory on every node, so an empty one shows no container.
fn beside_a_look_that_hangs_the_module_of_a_hosts_own_mofed_stays_until_a_container_comes() {
    let Some(place) = Place::new().filter(|_| mounts_apart()) else { return };
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
    keep.process().signal(Signal::SIGTERM);
    assert_eq!(keep.ended(), 143);
}

fn a_look_that_hangs_in_keep_does_not_delay_a_signal() {
    let Some(place) = Place::new().filter(|_| mounts_apart()) else { return };
    let mut keep = place.start();
    place.is_in("Loaded");
    let Some(_hung) = Hung::over(place.node.path(DRIVERS).join("usr/src")) else { return };
    keep.logs("has hung in the kernel");
    let begun = Instant::now();
    keep.process().signal(Signal::SIGTERM);
    assert_eq!(keep.ended(), 143);
    assert!(begun.elapsed() < PROMPT, "after {:?}", begun.elapsed());
}

/// The second process has nothing to do then, and sleeps.
fn keep_that_never_unloads_sleeps_beside_a_look_that_hangs() {
    let Some(place) = Place::new().filter(|_| mounts_apart()) else { return };
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
    keep.process().signal(Signal::SIGTERM);
    assert_eq!(keep.ended(), 143);
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

/// It gets earlier messages once it reads.
fn a_service_manager_that_reads_late_still_gets_ready() {
    let Some(place) = Place::new() else { return };
    let path = place.node.path("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    let filler = UnixDatagram::unbound().expect("a socket");
    filler.set_nonblocking(true).expect("a flag");
    while filler.send_to(b"STATUS=full", &path).is_ok() {}
    let _keep = Gate::start(place.keep().env("NOTIFY_SOCKET", &path));
    place.is_in("Loaded");
    manager.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut owed = vec!["READY=1", "STATUS=Loaded: "];
    while !owed.is_empty() {
        let mut buffer = [0; 4096];
        let length = manager.recv(&mut buffer).unwrap_or_else(|error| panic!("never {owed:?}: {error}"));
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        owed.retain(|wanted| !text.starts_with(wanted));
    }
}

fn a_service_manager_that_does_not_read_delays_nothing() {
    let Some(place) = Place::new() else { return };
    let path = place.node.path("notify");
    let _unread = UnixDatagram::bind(&path).expect("a socket");
    let filler = UnixDatagram::unbound().expect("a socket");
    filler.set_nonblocking(true).expect("a flag");
    while filler.send_to(b"STATUS=full", &path).is_ok() {}
    let mut keep = place.keep();
    keep.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "300000");
    let mut keep = Gate::start(&mut keep);
    place.is_in("Loaded");
    place.node.remove(MARKER);
    place.is_in("Waiting");
    assert!(!place.is_loaded());
    let told = Instant::now();
    keep.process().signal(Signal::SIGTERM);
    assert_eq!(keep.ended(), 0);
    assert!(told.elapsed() < SECOND, "{:?}", told.elapsed());
}

fn the_service_manager_may_listen_on_an_abstract_socket() {
    let Some(place) = Place::new() else { return };
    let name = format!("peermem-gate-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("an address");
    let manager = UnixDatagram::bind_addr(&address).expect("a socket");
    manager.set_read_timeout(Some(LIMIT)).expect("a limit");
    let _keep = Gate::start(place.keep().env("NOTIFY_SOCKET", format!("@{name}")));
    let mut buffer = [0; 4096];
    loop {
        let length = manager.recv(&mut buffer).expect("never READY=1");
        if buffer[..length] == *b"READY=1" {
            return;
        }
    }
}

fn a_status_file_is_judged_by_its_age_and_its_boot() {
    let Some(place) = Place::new() else { return };
    let mut keep = place.start();
    place.told("Ready", |s| s["verdict"] == "Ready" && s["keep"]["state"] == "Loaded");
    keep.process().signal(Signal::SIGKILL);
    keep.ended();
    let text = fs::read_to_string(place.status()).expect("a status");
    assert_eq!(place.check().0, 0, "it is not old yet");
    let with = |change: &dyn Fn(&mut Value)| {
        let mut status: Value = serde_json::from_str(&text).expect("a status");
        change(&mut status);
        fs::write(place.status(), status.to_string()).expect("a status");
        place.check()
    };
    let older = |seconds: f64| {
        move |status: &mut Value| {
            let written = status["keep"]["written_s"].as_f64().unwrap();
            status["keep"]["written_s"] = (written - seconds).into();
        }
    };
    let (ends, said) = with(&older(60.0));
    assert_eq!(ends, 2, "{said}");
    assert!(said.starts_with("Unknown: ") && said.contains("more than two heartbeats"), "{said}");
    let (ends, said) = with(&|status| status["boot_id"] = "another".into());
    assert_eq!((ends, said.contains("before this boot")), (2, true), "{said}");
    assert_eq!(with(&|status| status["schema"] = "another/v1".into()).0, 2);
    assert_eq!(with(&|status| status["verdict"] = "Nonsense".into()).0, 2);
    for lacking in ["boot_id", "conditions"] {
        let without = |status: &mut Value| _ = status.as_object_mut().expect("an object").remove(lacking);
        assert_eq!(with(&without).0, 2, "{lacking}");
    }
    let (ends, said) = with(&|status| status["conditions"] = Value::Array(Vec::new()));
    assert_eq!((ends, said.contains("lists no conditions")), (2, true), "{said}");
    for garbage in ["", "{", "[]", "nonsense", "{\"schema\":\"peermem-gate/v1\"}"] {
        fs::write(place.status(), garbage).expect("a file");
        assert_eq!(place.check().0, 2, "{garbage}");
    }
    fs::remove_file(place.status()).expect("removed");
    let (ends, said) = place.check();
    assert_eq!(ends, 2, "{said}");
    assert!(said.lines().next().unwrap().len() <= 80 && said.is_ascii(), "{said}");
    let as_json = || {
        let mut check = gate();
        check.args(["check", "--format", "json", "--status-file"]).arg(place.status());
        String::from_utf8(output(check.arg("--proc").arg(place.node.path("proc"))).stdout).unwrap()
    };
    // A reader of reports finds each key in an answer that knows nothing.
    let answer: Value = serde_json::from_str(&as_json()).expect("JSON");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    for (key, value) in report.as_object().expect("an object").iter().filter(|(key, _)| *key != "keep") {
        assert!(!answer[key].is_null(), "{key} is missing: {answer:#}");
        if ["node", "kernel", "arch", "boot_id", "version", "for"].contains(&key.as_str()) {
            assert_eq!(&answer[key], value, "{key}");
        }
    }
    // As JSON it is what keep wrote.
    fs::write(place.status(), &text).expect("a status");
    assert_eq!(as_json(), text);
}

fn keep_refuses_contradictions_and_mofeds_directory() {
    let Some(place) = Place::new() else { return };
    let both = support::refusal(place.keep().args(["--no-yield", "--unload-on-exit"]));
    assert_eq!((both.0, both.1.contains("--unload-on-exit")), (2, true), "{}", both.1);
    for option in ["--status-file", "--metrics-file", "--termination-log"] {
        let mut keep = gate();
        keep.arg("keep").arg("--marker").arg(place.node.path(MARKER));
        let (code, said) = support::refusal(keep.arg(option).arg(place.node.path(&format!("{DRIVERS}/x"))));
        assert_eq!((code, said.contains(option)), (2, true), "{said}");
    }
    let (code, said) = support::refusal(gate().args(["keep", "--modprobe", "/no/such/modprobe"]));
    assert_eq!(code, 127, "{said}");
}

pub(crate) fn tests() -> Vec<Trial> {
    suite![
        // The longest begin first.
        a_load_whose_modprobe_hangs_is_reported_and_ends,
        a_hung_load_is_reported_and_stops_feeding_the_watchdog,
        a_hung_unload_stops_feeding_the_watchdog,
        keep_loads_unloads_and_loads_again,
        entrypoint::keep_leaves_the_unload_to_a_new_mofed_container_and_is_not_late,
        entrypoint::keep_leaves_the_unload_to_a_new_mofed_container_also_while_a_nic_is_reset,
        a_missing_marker_directory_shows_a_swap_only_if_it_existed_before,
        a_load_that_becomes_visible_late_is_not_a_refusal,
        unpacking_a_module_does_not_delay_an_unload_or_a_signal,
        a_look_that_swaps_break_off_again_and_again_comes_to_its_end,
        outputs_that_hang_do_not_delay_a_load_or_an_unload,
        a_mount_over_the_marker_during_a_look_is_noticed,
        keep_names_the_users_of_the_module_and_unloads_it_afterwards,
        keep_with_no_yield_does_not_unload_for_a_swap,
        a_dry_run_of_keep_unloads_nothing_and_says_so,
        the_modules_parameters_are_passed_on_and_judged,
        an_rmmod_that_ends_with_0_without_effect_is_not_repeated_in_a_loop,
        a_failed_unload_is_reported_with_its_remedy,
        keep_says_that_a_disabled_gate_does_not_disable_it,
        keep_ends_within_a_second_of_a_signal_in_any_state,
        keep_that_gets_a_signal_does_not_wait_for_a_hung_rmmod,
        a_second_signal_during_an_unload_costs_nothing,
        an_unload_at_the_end_takes_no_more_than_a_second,
        a_modprobe_and_an_rmmod_that_hang_take_no_more_than_a_second,
        keep_unloads_at_its_end_with_unload_on_exit,
        a_hangup_asks_for_a_look_and_ends_nothing,
        a_condition_that_blocks_at_the_start_ends_keep_with_its_reason,
        no_right_to_load_ends_keep_only_where_there_is_something_to_load,
        no_capability_to_load_ends_keep_only_where_there_is_something_to_load,
        a_modprobe_configuration_that_is_mended_is_noticed_without_an_event,
        keep_waits_for_a_driver_that_is_not_loaded_yet,
        an_unload_by_another_process_is_obeyed_also_by_the_next_keep,
        a_drivers_root_that_goes_and_comes_is_waited_for,
        a_nodes_keeper_finds_mofed_in_a_container_and_on_the_host,
        a_nodes_keeper_takes_what_it_cannot_read_for_a_container,
        a_nodes_keeper_waits_for_a_container_before_it_takes_the_kernels_own_stack,
        a_nodes_keeper_stays_where_only_a_person_can_help,
        keep_killed_in_any_state_and_started_again_converges,
        the_status_file_of_a_dead_keep_is_not_accepted,
        keep_notifies_the_service_manager,
        keep_unloads_beside_a_look_that_hangs,
        a_nodes_keeper_unloads_beside_a_look_that_hangs,
        a_nodes_keeper_unloads_beside_a_drivers_root_that_hangs,
        keep_unloads_beside_a_drivers_root_that_hangs,
        the_memory_is_written_as_soon_as_it_can_be,
        whatever_is_at_the_memorys_path_ends_no_keep,
        beside_a_look_that_hangs_the_module_of_a_hosts_own_mofed_stays_until_a_container_comes,
        keep_that_never_unloads_sleeps_beside_a_look_that_hangs,
        a_look_that_hangs_in_keep_does_not_delay_a_signal,
        a_service_manager_that_reads_late_still_gets_ready,
        a_service_manager_that_does_not_read_delays_nothing,
        the_service_manager_may_listen_on_an_abstract_socket,
        a_status_file_is_judged_by_its_age_and_its_boot,
        keep_refuses_contradictions_and_mofeds_directory
    ]
}
