// SPDX-License-Identifier: Apache-2.0
//! While a keeper serves a node, it alone loads `nvidia_peermem`: the line in the driver's container, the lock that
//! the line asks for, and the keeper that writes and holds them.

use crate::place::TARGET;
use crate::rebuild::kept::KeptNode;
use crate::support::{KERNEL, can, output, suite, until, write_program};
use libtest_mimic::Trial;
use nix::sys::signal::Signal;
use nix::sys::stat::{major, minor};
use peermem_gate::peermem::{keeper_line, modprobe_conf};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The command of the line, below a directory in place of /run/nvidia, with a modprobe that notes its arguments.
struct Line {
    directory: tempfile::TempDir,
    command: String,
}

impl Line {
    fn new() -> Option<Self> {
        if !can(&["flock", "--version"]) {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("modprobe");
        write_program(&path, "#!/bin/sh\necho \"$@\" >>\"${0%/*}/called\"\n");
        let below = |text: &str, path| text.replace(path, directory.path().to_str().unwrap());
        let text = below(&below(&keeper_line::text(), "/run/nvidia"), "/sys/module");
        let text = text.replace("looks=180", "looks=100").replace("-w5", "-w0.02");
        let command = text.lines().find_map(|line| line.strip_prefix("install nvidia-peermem ")).unwrap();
        // kmod puts the parameters there.
        Some(Self { command: command.replace("$CMDLINE_OPTS", "peerdirect_support=1"), directory })
    }

    /// The keeper's lock, which counts until this second of the boot clock.
    fn lock_until(&self, until: u64) -> File {
        let name = Path::new(keeper_line::OWNED).file_name().unwrap();
        let path = self.directory.path().join(name);
        fs::write(&path, format!("{until}\n")).unwrap();
        let file = File::open(path).unwrap();
        // A child that another test is starting may have a copy of the one before for a moment.
        flock(&file, FlockOperation::LockExclusive).unwrap();
        file
    }

    fn lock(&self) -> File {
        self.lock_until(u64::from(u32::MAX))
    }

    /// This test has the mount namespace of the driver's script: the thread, for others of this process have left it.
    fn is_the_scripts(&self) {
        let path = self.directory.path().join("nvidia-driver.pid");
        fs::write(path, nix::unistd::gettid().to_string()).unwrap();
    }

    fn command(&self, shell: &str) -> Command {
        let path = format!("{}:/usr/bin:/bin", self.directory.path().display());
        let mut command = Command::new(shell);
        command.arg("-c").arg(&self.command).env("PATH", path).stdin(Stdio::null());
        command
    }

    fn start(&self, shell: &str) -> Child {
        self.command(shell).spawn().expect("a shell")
    }

    /// A flock(1) waits for the keeper's lock.
    fn looks(&self) -> bool {
        let lock = self.directory.path().join(".peermem-gate-keeper").metadata().unwrap();
        let locks = fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|line| line.contains("->") && line.contains(&format!(":{} ", lock.ino())))
    }

    fn runs(&self, shell: &str) -> i32 {
        self.start(shell).wait().unwrap().code().unwrap()
    }

    fn loads(&self) -> usize {
        let called = fs::read_to_string(self.directory.path().join("called")).unwrap_or_default();
        assert!(
            called.lines().all(|call| call == "--ignore-install nvidia-peermem peerdirect_support=1"),
            "{called}"
        );
        called.lines().count()
    }
}

/// The gate reads modprobe.d as kmod does.
fn the_line_is_read_back_as_a_keepers() {
    let root = tempfile::tempdir().unwrap();
    let path = keeper_line::path(root.path());
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, keeper_line::text()).unwrap();
    let given = modprobe_conf::given(root.path(), root.path(), "nvidia_peermem");
    let commands: Vec<_> = given.install.iter().map(|line| line.text.as_str()).collect();
    let [command] = commands[..] else { panic!("{commands:?}") };
    assert!(keeper_line::is_keepers(command) && command.ends_with("$CMDLINE_OPTS"), "{command}");
    for other in ["/bin/true", "flock /run/x true", "peermem-gate load"] {
        assert!(!keeper_line::is_keepers(other));
    }
}

const SHELLS: [&str; 2] = ["dash", "bash"];

fn without_a_keeper_the_line_loads_at_once_with_the_parameters(line: &Line) {
    let mut loads = 0;
    for shell in SHELLS {
        for is_left in [false, true] {
            if is_left {
                // The keeper has been killed.
                drop(line.lock());
            }
            assert_eq!(line.runs(shell), 0);
            loads += 1;
            assert_eq!(line.loads(), loads, "{shell}");
        }
        // Several at once do not take each other for the keeper.
        let mut all: Vec<_> = (0..8).map(|_| line.start(shell)).collect();
        assert!(all.iter_mut().all(|child| child.wait().unwrap().success()));
        loads += 8;
        assert_eq!(line.loads(), loads, "{shell}");
        fs::remove_file(line.directory.path().join(".peermem-gate-keeper")).unwrap();
    }
}

/// What the keeper waits for may need the script, so the script goes on.
fn beside_a_keeper_the_drivers_script_goes_on_at_once(line: &Line) {
    line.is_the_scripts();
    let _owned = line.lock();
    for shell in SHELLS {
        let child = line.command(shell).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((child.status.code(), child.stderr), (Some(0), Vec::new()), "{shell}");
        assert_eq!(line.loads(), 0);
    }
}

/// nvidia-peermem-ctr ends with a modprobe that brings no module.
fn beside_a_keeper_another_container_waits_for_the_module_and_not_for_ever(line: &Line) {
    let _owned = line.lock();
    for shell in SHELLS {
        let mut waits = line.start(shell);
        until("it looks for the module", || line.looks());
        assert_eq!(waits.try_wait().unwrap(), None);
        let module = line.directory.path().join("nvidia_peermem");
        fs::create_dir(&module).unwrap();
        assert_eq!((waits.wait().unwrap().code(), line.loads()), (Some(0), 0), "{shell}");
        fs::remove_dir(&module).unwrap();
        assert_eq!((line.runs(shell), line.loads()), (0, 0), "{shell}: its patience ends");
    }
}

/// The driver's script unmounts the root in which nvidia-peermem-ctr waits, and the next one installs another driver.
fn another_script_of_the_driver_meanwhile_ends_the_wait_without_a_load(line: &Line) {
    for shell in SHELLS {
        let owned = line.lock();
        let mut waits = line.start(shell);
        until("it looks for the module", || line.looks());
        fs::write(line.directory.path().join("nvidia-driver.pid"), "1").unwrap();
        drop(owned);
        assert_eq!((waits.wait().unwrap().code(), line.loads()), (Some(1), 0), "{shell}");
        fs::remove_file(line.directory.path().join("nvidia-driver.pid")).unwrap();
    }
}

/// A keeper that is frozen, or whose look hangs, has its lock and loads nothing.
fn a_lock_whose_lease_is_over_keeps_nobody_from_loading(line: &Line) {
    let mut loads = 0;
    for shell in SHELLS {
        let frozen = line.lock_until(uptime() + 1);
        assert_eq!(line.runs(shell), 0);
        loads += 1;
        assert_eq!(line.loads(), loads, "{shell}");
        for text in ["", "7\n", "never\n", "9999999999 seconds\n"] {
            fs::write(line.directory.path().join(".peermem-gate-keeper"), text).unwrap();
            assert_eq!(line.runs(shell), 0);
            loads += 1;
            assert_eq!(line.loads(), loads, "{shell} {text}");
        }
        drop(frozen);
    }
}

/// Whole seconds of the boot clock.
fn uptime() -> u64 {
    fs::read_to_string("/proc/uptime").unwrap().split('.').next().unwrap().parse().unwrap()
}

fn a_keeper_that_ends_while_the_line_waits_leaves_the_load_to_it(line: &Line) {
    let owned = line.lock();
    let mut waits = line.start("dash");
    until("it looks for the module", || line.looks());
    drop(owned);
    assert_eq!((waits.wait().unwrap().code(), line.loads()), (Some(0), 1));
}

const PRIVILEGED: &str = "Name:\tnvidia-driver\nCapEff:\t000001ffffffffff\n";

/// A driver's container whose script runs as process 4242 of the scratch node.
struct Container<'a> {
    kept: &'a KeptNode,
    root: PathBuf,
}

impl<'a> Container<'a> {
    fn new(kept: &'a KeptNode) -> Self {
        let root = kept.place.node.path("container");
        for directory in ["etc", "usr/bin"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for program in ["make", "gcc"] {
            write_program(&root.join("usr/bin").join(program), "#!/bin/sh\n");
        }
        let container = Self { kept, root };
        container.process("comm", "nvidia-driver\n");
        container.process("status", PRIVILEGED);
        fs::write(kept.path("proc/2/comm"), "kthreadd\n").unwrap();
        symlink(&container.root, kept.path("proc/4242/root")).unwrap();
        container
    }

    fn process(&self, file: &str, text: &str) {
        let path = self.kept.path("proc/4242").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The script takes its lock, and then writes its number.
    fn begins(&self) {
        let pid_file = self.kept.place.node.path("run/nvidia/nvidia-driver.pid");
        fs::write(&pid_file, "").unwrap();
        let (device, inode) = (pid_file.metadata().unwrap().dev(), pid_file.metadata().unwrap().ino());
        let lock = format!(
            "1: FLOCK  ADVISORY  WRITE 4242 {:02x}:{:02x}:{inode} 0 EOF",
            major(device),
            minor(device)
        );
        self.process("fdinfo/3", &format!("pos:\t5\nlock:\t{lock}\n"));
        fs::write(&pid_file, "4242\n").unwrap();
    }

    fn line(&self) -> PathBuf {
        keeper_line::path(&self.root)
    }
}

/// `OpenShift`: compiler and kernel headers are in the toolkit's container only, which stays in the driver's pod.
fn a_module_is_built_in_another_container_of_the_drivers_pod_and_in_no_other_pods(kept: &KeptNode) {
    let container = Container::new(kept);
    let toolkit = kept.place.node.path("toolkit");
    let copied = output(Command::new("cp").arg("-a").arg(kept.path("")).arg(&toolkit));
    assert!(copied.status.success());
    for gone in ["usr/bin/make", "usr/bin/gcc"] {
        fs::remove_file(kept.path(gone)).unwrap();
    }
    for gone in ["build", "updates"] {
        let _ = fs::remove_dir_all(kept.path(&format!("lib/modules/{KERNEL}/{gone}")));
    }
    let _ = fs::remove_dir_all(toolkit.join("usr/src"));
    let pod = |uid: &str| format!("0::/kubepods.slice/kubepods-pod{uid}.slice/crio-1.scope\n");
    let (ours, theirs) = ("6f1f2c1e_8f2b_4c11_9d1b_0123456789ab", "00000000_8f2b_4c11_9d1b_0123456789ab");
    container.process("cgroup", &pod(ours));
    fs::create_dir_all(kept.path("proc/4343")).unwrap();
    symlink(&toolkit, kept.path("proc/4343/root")).unwrap();
    fs::write(kept.path("proc/4343/cgroup"), pod(theirs)).unwrap();
    fs::write(kept.path("proc/4343/status"), PRIVILEGED).unwrap();
    container.begins();
    let mut keep = kept.keep();
    keep.logs("HeadersMissing");
    assert!(!kept.is_loaded());
    fs::write(kept.path("proc/4343/cgroup"), pod(ours)).unwrap();
    keep.process().signal(Signal::SIGHUP);
    until("it is loaded", || kept.is_loaded());
    let calls = |root: &Path| fs::read_to_string(root.join("calls")).unwrap_or_default();
    assert!(calls(&toolkit).contains("make ") && !calls(&toolkit).contains("depmod"), "{}", calls(&toolkit));
    assert!(calls(&kept.path("")).contains("depmod") && kept.path(TARGET).exists());
    assert!(!toolkit.join(TARGET).exists());
    KeptNode::ends(keep);
}

fn is_locked(kept: &KeptNode, path: &str) -> bool {
    let path = kept.place.node.path(path.strip_prefix('/').unwrap());
    let Ok(file) = File::open(path) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

fn a_keeper_owns_the_module_from_the_start_of_the_drivers_script_until_it_ends(kept: &KeptNode) {
    let container = Container::new(kept);
    let mut keep = kept.keep();
    until("it owns the module", || is_locked(kept, keeper_line::OWNED));
    let owned = kept.place.node.path(keeper_line::OWNED.strip_prefix('/').unwrap());
    let lease = || fs::read_to_string(&owned).unwrap_or_default().trim().parse::<u64>().unwrap_or(0);
    until("it says for how long", || lease() > uptime() + 100);
    until("it is loaded", || kept.is_loaded());
    assert!(!container.line().exists());
    container.begins();
    until("the line is there", || container.line().exists());
    assert_eq!(fs::read_to_string(container.line()).unwrap(), keeper_line::text());
    keep.logs("keep alone loads nvidia_peermem");
    // The container restarts: its root is a new one.
    fs::remove_file(container.line()).unwrap();
    container.begins();
    until("the line is there again", || container.line().exists());
    KeptNode::ends(keep);
    until("nobody owns the module", || !is_locked(kept, keeper_line::OWNED));
    assert!(container.line().exists());
}

/// A make that waits for a word.
const STOPS: &str =
    "touch /begun; while [ ! -e /goes-on ]; do sleep 0.01; done; cp $made $copy/nvidia-peermem.ko\n";

/// The container restarts while make runs, and comes to its modprobe before make has ended.
fn a_container_that_starts_during_a_build_gets_its_line_at_once(kept: &KeptNode) {
    let container = Container::new(kept);
    kept.write("bin/making", STOPS);
    let keep = kept.keep();
    until("make runs", || kept.path("begun").exists());
    container.begins();
    until("the line is there", || container.line().exists());
    assert!(!kept.is_loaded() && is_locked(kept, keeper_line::OWNED));
    kept.write("goes-on", "");
    until("it is loaded", || kept.is_loaded());
    KeptNode::ends(keep);
}

/// What a container may have in the way: the line is not written, and the keeper goes on.
fn no_link_and_no_foreign_mount_leads_the_line_elsewhere(kept: &KeptNode) {
    let container = Container::new(kept);
    let elsewhere = kept.place.node.path("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    symlink(&elsewhere, container.root.join("etc/modprobe.d")).unwrap();
    let mut keep = kept.keep();
    container.begins();
    keep.logs("cannot write");
    until("it is loaded all the same", || kept.is_loaded());
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    KeptNode::ends(keep);
}

fn a_container_that_cannot_build_and_a_process_that_cannot_load_get_no_line(kept: &KeptNode) {
    let container = Container::new(kept);
    let mut keep = kept.keep();
    container.process("status", "Name:\tx\nCapEff:\t0\n");
    container.begins();
    keep.logs("it has no CAP_SYS_MODULE");
    container.process("status", PRIVILEGED);
    fs::remove_file(container.root.join("usr/bin/gcc")).unwrap();
    container.begins();
    keep.logs("no compiler");
    let root = kept.path("proc/4242/root");
    fs::remove_file(&root).unwrap();
    symlink(kept.place.node.root(), &root).unwrap();
    container.begins();
    keep.logs("it runs on the host");
    assert!(!container.line().exists() && !keeper_line::path(kept.place.node.root()).exists());
    KeptNode::ends(keep);
}

/// The driver's container says that it is ready, in this file.
fn is_up(kept: &KeptNode) -> PathBuf {
    let ready = kept.place.node.path("run/nvidia/validations/.driver-ctr-ready");
    fs::create_dir_all(ready.parent().unwrap()).unwrap();
    fs::write(&ready, "").unwrap();
    ready
}

/// preStop takes `.driver-ctr-ready` back before TERM.
fn the_module_goes_when_the_drivers_container_says_that_it_ends(kept: &KeptNode) {
    let ready = is_up(kept);
    let mut keep = kept.keep();
    until("it is loaded", || kept.is_loaded());
    fs::remove_file(&ready).unwrap();
    keep.logs("the driver's container is ending");
    until("it is unloaded", || !kept.is_loaded());
    keep.logs("the driver's container can continue");
    fs::write(&ready, "").unwrap();
    until("it is loaded again", || kept.is_loaded());
    KeptNode::ends(keep);
}

/// A keeper that came after the driver's last build has stored nothing, and the fast path's root has no module.
fn the_module_stays_where_nothing_could_make_it_again(kept: &KeptNode) {
    let ready = is_up(kept);
    let keep = kept.keep();
    until("it is loaded", || kept.is_loaded());
    KeptNode::ends(keep);
    fs::remove_dir_all(kept.place.node.path("var/lib/peermem-gate/store")).unwrap();
    fs::remove_dir_all(kept.path("lib/modules")).unwrap();
    let mut keep = kept.keep();
    keep.logs("loaded by another process");
    fs::remove_file(&ready).unwrap();
    keep.logs("it stays loaded");
    assert!(kept.is_loaded());
    KeptNode::ends(keep);
}

/// A build takes a minute, in which preStop may begin.
fn a_module_that_was_built_while_the_driver_began_to_end_is_not_loaded(kept: &KeptNode) {
    let ready = is_up(kept);
    kept.write("bin/making", STOPS);
    let mut keep = kept.keep();
    until("make runs", || kept.path("begun").exists());
    fs::remove_file(&ready).unwrap();
    kept.write("goes-on", "");
    keep.logs("not loaded: ");
    assert!(!fs::read_to_string(kept.path("calls")).unwrap().contains("load "));
    fs::write(&ready, "").unwrap();
    until("it is loaded once the driver is back", || kept.is_loaded());
    KeptNode::ends(keep);
}

pub(crate) fn tests() -> Vec<Trial> {
    suite![
        [the_line_is_read_back_as_a_keepers],
        on Line::new [
            without_a_keeper_the_line_loads_at_once_with_the_parameters,
            beside_a_keeper_the_drivers_script_goes_on_at_once,
            beside_a_keeper_another_container_waits_for_the_module_and_not_for_ever,
            another_script_of_the_driver_meanwhile_ends_the_wait_without_a_load,
            a_lock_whose_lease_is_over_keeps_nobody_from_loading,
            a_keeper_that_ends_while_the_line_waits_leaves_the_load_to_it,
        ],
        on KeptNode::new [
            a_keeper_owns_the_module_from_the_start_of_the_drivers_script_until_it_ends,
            a_container_that_starts_during_a_build_gets_its_line_at_once,
            no_link_and_no_foreign_mount_leads_the_line_elsewhere,
            a_container_that_cannot_build_and_a_process_that_cannot_load_get_no_line,
            a_module_is_built_in_another_container_of_the_drivers_pod_and_in_no_other_pods,
            the_module_goes_when_the_drivers_container_says_that_it_ends,
            the_module_stays_where_nothing_could_make_it_again,
            a_module_that_was_built_while_the_driver_began_to_end_is_not_loaded,
        ],
    ]
}
