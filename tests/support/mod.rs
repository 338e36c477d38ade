// SPDX-License-Identifier: Apache-2.0
//! A node that is ready until a test takes something away, and the gate as a child process.
//!
//! What a test waits for is an event with a hard limit far above any noise, never a pause.
#![allow(dead_code, reason = "every test file is a crate of its own and uses its part of this")]

pub(crate) mod beside;
pub(crate) mod hung;
pub(crate) mod suite;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, Uid};
use peermem_gate::cli::Verb;
use peermem_gate::cli::environment::parse;
use peermem_gate::ready::node;
use peermem_gate::ready::node::PeermemExpected;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use std::{fs, thread};
#[allow(unused_imports, reason = "every test file is a crate of its own and uses its part of this")]
pub(crate) use suite::{note, skip, suite, tests};
use tempfile::TempDir;

/// The gate. The doctor's tests find it beside the doctor, as a user does the doctor beside the gate.
pub(crate) const GATE: &str = match option_env!("CARGO_BIN_EXE_peermem-gate") {
    Some(gate) => gate,
    None => match std::str::from_utf8(&beside_the_doctor::GATE) {
        Ok(gate) => gate,
        Err(_) => panic!("a path with odd bytes"),
    },
};

mod beside_the_doctor {
    const DOCTOR: &str = match option_env!("CARGO_BIN_EXE_peermem-doctor") {
        Some(doctor) => doctor,
        None => "./peermem-doctor",
    };
    const NAME: &str = "peermem-gate";
    const DIRECTORY: usize = DOCTOR.len() - "peermem-doctor".len();
    pub(super) const GATE: [u8; DIRECTORY + NAME.len()] = {
        let mut path = [0; DIRECTORY + NAME.len()];
        let mut at = 0;
        while at < path.len() {
            path[at] = if at < DIRECTORY { DOCTOR.as_bytes()[at] } else { NAME.as_bytes()[at - DIRECTORY] };
            at += 1;
        }
        path
    };
}

/// The architecture that the tests run on.
pub(crate) const HOST: &str = std::env::consts::ARCH;

/// Far more than anything here takes; what takes longer hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// What must be at once. Loose, because processors are shared and noisy, and shorter than the safety net's five
/// seconds, which would find it in the end.
pub(crate) const PROMPT: Duration = Duration::from_millis(4500);

/// To be put before a command that somebody without any privilege runs.
pub(crate) const NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// A node's rmmod, and what its modprobes do in the kernel's place.
pub(crate) const RMMOD: &str = include_str!("../fakes/rmmod");
pub(crate) const LOADS: &str = include_str!("../fakes/loads");

pub(crate) const KERNEL: &str = "6.1.0-56-amd64";
pub(crate) const MODULES: [&str; 4] = ["ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib"];
pub(crate) const DRIVERS: &str = "run/mellanox/drivers";
pub(crate) const MARKER: &str = "run/mellanox/drivers/.driver-ready";
pub(crate) const LOCK: &str = "run/mellanox/drivers/.lock";
pub(crate) const SYMVERS: &str =
    "run/mellanox/drivers/usr/src/ofa_kernel/x86_64/6.1.0-56-amd64/Module.symvers";
pub(crate) const VIDEO: &str = "lib/modules/6.1.0-56-amd64/kernel/drivers/video";
pub(crate) const VENDOR: &str = "sys/bus/pci/devices/0000:01:00.0/vendor";

const PROC_MODULES: &str = "\
mlx5_ib 512000 0 - Live 0xffffffffc0a00000 (OE)
ib_uverbs 217088 1 mlx5_ib, Live 0xffffffffc0900000 (OE)
ib_core 557056 2 mlx5_ib,ib_uverbs, Live 0xffffffffc0800000 (OE)
mlx5_core 2342912 1 mlx5_ib, Live 0xffffffffc0330000 (OE)
mlx_compat 69632 4 mlx5_ib,ib_uverbs,ib_core,mlx5_core, Live 0xffffffffc0300000 (OE)
configfs 57344 1 - Live 0xffffffffc0200000
";

const PROC_KALLSYMS: &str = "\
0000000000000000 T _text
0000000000000000 t ib_register_peer_memory_client.cold\t[ib_uverbs]
0000000000000000 r __ksymtab_ib_register_peer_memory_client\t[ib_uverbs]
0000000000000000 T ib_unregister_peer_memory_client\t[ib_uverbs]
0000000000000000 T ib_register_peer_memory_client\t[ib_uverbs]
";

const MODULE_SYMVERS: &str = "\
0x12345678\tib_unregister_peer_memory_client\tdrivers/infiniband/core/ib_uverbs\tEXPORT_SYMBOL\t
0x23456789\tib_register_peer_memory_client\tdrivers/infiniband/core/ib_uverbs\tEXPORT_SYMBOL\t
";

/// A node's tree below a directory of its own. As made it is ready: MOFED 25.07-0.9.7 is live on
/// kernel [`KERNEL`], has set its marker and holds its lock.
pub(crate) struct Node {
    directory: TempDir,
}

impl Node {
    pub(crate) fn ready() -> Self {
        let directory = tempfile::Builder::new().prefix("node").tempdir().expect("a directory");
        // For the tests that look as somebody else.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        let node = Self { directory };
        node.write("proc/modules", PROC_MODULES);
        node.write("proc/kallsyms", PROC_KALLSYMS);
        node.write("proc/2/comm", "kthreadd\n");
        node.write("proc/sys/kernel/osrelease", format!("{KERNEL}\n"));
        node.write("proc/sys/kernel/arch", "x86_64\n");
        node.write("proc/sys/kernel/hostname", "gpu-1\n");
        node.write("proc/sys/kernel/random/boot_id", "0fb0e9b4-0000-4000-8000-000000000001\n");
        node.write(VENDOR, "0x15b3\n");
        for module in MODULES {
            node.write(&format!("sys/module/{module}/initstate"), "live\n");
            node.write(&format!("sys/module/{module}/taint"), "OE\n");
        }
        node.write("sys/module/mlx5_core/version", "25.07-0.9.7\n");
        node.write(SYMVERS, MODULE_SYMVERS);
        node.write(LOCK, "");
        node.hold_lock();
        node.write(MARKER, "");
        node
    }

    /// The GPU driver as well: `nvidia` is live, and the stand-ins' nvidia-peermem.ko of this generation
    /// (tests/vm/modules) is installed. `None`, having said so, where nobody has built them.
    pub(crate) fn with_peermem(self, generation: &str) -> Option<Self> {
        let [peermem, nvidia] = [generation, "new"].map(|generation| mofed().join(generation));
        let (peermem, nvidia) = (peermem.join("nvidia-peermem.ko"), nvidia.join("nvidia.ko"));
        if !peermem.exists() {
            skip("no module files: tests/vm/build makes them");
            return None;
        }
        self.write(&format!("{VIDEO}/nvidia-peermem.ko"), fs::read(peermem).expect("a module"));
        self.write(&format!("{VIDEO}/nvidia.ko"), fs::read(&nvidia).expect("a module"));
        let video = VIDEO.split_once(KERNEL).expect("a release").1.trim_start_matches('/');
        let dependencies = format!("{video}/nvidia.ko:\n{video}/nvidia-peermem.ko: {video}/nvidia.ko\n");
        self.write(&format!("lib/modules/{KERNEL}/modules.dep"), dependencies);
        self.write(SYMVERS, fs::read(mofed().join("new/Module.symvers")).expect("a Module.symvers"));
        self.write("sys/module/nvidia/initstate", "live\n");
        self.write("sys/module/nvidia/taint", "OE\n");
        self.write("sys/module/nvidia/notes/.note.gnu.build-id", build_id_note(&nvidia));
        self.write("proc/modules", format!("nvidia 1 0 - Live 0x0 (OE)\n{PROC_MODULES}"));
        Some(self)
    }

    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root().join(relative)
    }

    pub(crate) fn write(&self, relative: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(&path, bytes).expect("a file");
    }

    /// Whatever is there.
    pub(crate) fn remove(&self, relative: &str) {
        let path = self.path(relative);
        let is_dir = path.symlink_metadata().expect("something to remove").is_dir();
        if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("removed");
    }

    pub(crate) fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).expect("renamed");
    }

    pub(crate) fn set_marker(&self) {
        self.write(MARKER, "");
    }

    /// Somebody holds MOFED's lock, as /proc/locks tells it.
    pub(crate) fn hold_lock(&self) {
        self.hold_lock_by(4711);
    }

    pub(crate) fn hold_lock_by(&self, pid: usize) {
        let lock = self.path(LOCK).metadata().expect("a lock file");
        let (major, minor) = (nix::sys::stat::major(lock.dev()), nix::sys::stat::minor(lock.dev()));
        let line = format!("1: FLOCK  ADVISORY  WRITE {pid} {major:02x}:{minor:02x}:{} 0 EOF\n", lock.ino());
        self.write("proc/locks", line);
    }

    pub(crate) fn without(self, relative: &str) -> Self {
        self.remove(relative);
        self
    }

    pub(crate) fn without_marker(self) -> Self {
        self.without(MARKER)
    }

    /// MOFED's lock file is there and nobody holds it.
    pub(crate) fn suspect(self) -> Self {
        self.write("proc/locks", "");
        self
    }

    /// The kernel's own modules are live.
    pub(crate) fn in_tree(self) -> Self {
        self.write("proc/modules", PROC_MODULES.replace(" (OE)", ""));
        for module in MODULES {
            self.write(&format!("sys/module/{module}/taint"), "\n");
        }
        self
    }

    /// As `check --peermem` would look at it.
    pub(crate) fn config(&self) -> node::Node {
        let root = self.root().to_str().expect("a plain path");
        let args = ["peermem-gate", "check", "--peermem", "--root", root].map(OsString::from);
        let Verb::Check(args) = parse(&args, &Vec::new()).expect("options").verb else { panic!("a check") };
        let peermem = Some(PeermemExpected::default());
        node::Node::new(&args.node, args.look.root.as_deref().unwrap_or(Path::new("/")), peermem, &Vec::new())
            .expect("options")
    }

    /// A hundred mebibytes before the symbols, so the reading takes its time.
    pub(crate) fn with_long_kallsyms(&self) {
        let path = self.path("proc/kallsyms");
        let symbols = fs::read(&path).expect("symbols");
        let mut kallsyms = fs::File::create(path).expect("a file");
        kallsyms.seek(SeekFrom::Start(100 << 20)).expect("a sparse file");
        kallsyms.write_all(&[b"\n", symbols.as_slice()].concat()).expect("symbols");
    }

    /// udev has loaded no driver of it either, nor what that needs.
    pub(crate) fn without_nic(self) -> Self {
        self.write(VENDOR, "0x8086\n");
        let modules = fs::read_to_string(self.path("proc/modules")).expect("modules");
        let is_kept = |line: &&str| line.starts_with("ib_core ") || line.ends_with("(OE)");
        let kept: Vec<_> = modules.lines().filter(is_kept).collect();
        self.write("proc/modules", kept.join("\n") + "\n");
        for module in ["mlx5_core", "mlx5_ib", "ib_uverbs"] {
            let is_there = kept.iter().any(|line| line.starts_with(&format!("{module} ")));
            let _ = (!is_there).then(|| fs::remove_dir_all(self.path(&format!("sys/module/{module}"))));
        }
        self
    }

    /// It has no trace of MOFED.
    pub(crate) fn without_mofed(self) -> Self {
        self.in_tree().without("run/mellanox")
    }

    /// The NIC is off the bus, as during a reset. Another device stays.
    pub(crate) fn reset_nic(&self) {
        self.write(&VENDOR.replace("01:00", "02:00"), "0x10de\n");
        self.remove("sys/bus/pci/devices/0000:01:00.0");
    }

    pub(crate) fn return_nic(&self) {
        self.write(VENDOR, "0x15b3\n");
    }

    /// `peermem-gate wait` on this node, with a log for machines.
    pub(crate) fn wait(&self) -> Command {
        self.wait_by(Path::new(GATE))
    }

    /// The same by another build.
    pub(crate) fn wait_by(&self, gate: &Path) -> Command {
        let mut command = gate_by(gate);
        command.args(["wait", "--log-format", "json", "--root"]).arg(self.root());
        command
    }

    pub(crate) fn check(&self) -> Command {
        let mut command = gate();
        command.args(["check", "--root"]).arg(self.root());
        command
    }

    /// One report for machines.
    pub(crate) fn report(&self) -> Report {
        Report::of(self.check().args(["--format", "json"]))
    }
}

/// The same numbers in every run (Knuth's multiplier).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }
}

/// How often a test plays something: as often as this variable says, if it is set.
pub(crate) fn times(variable: &str, usually: u64) -> u64 {
    std::env::var(variable).map_or(usually, |times| times.parse().expect("a number"))
}

/// The directory of the whole repository, in a test of either package.
pub(crate) fn repository() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().find(|path| path.join("tests/nodes").is_dir()).expect("the repository")
}

/// Where tests/vm/build leaves the stand-ins' modules.
pub(crate) fn mofed() -> PathBuf {
    repository().join("target/vm/root/mofed")
}

/// The release of the kernel that they are built for.
pub(crate) fn built_kernel() -> String {
    let stamp = fs::read_to_string(repository().join("target/vm/stamp")).expect("tests/vm/build's stamp");
    stamp.split(' ').next().expect("a release").to_owned()
}

/// The note that sysfs shows of a module that was loaded from this file.
pub(crate) fn build_id_note(file: &Path) -> Vec<u8> {
    let id = peermem_gate::peermem::module_file::build_id(file, &mut || false)
        .expect("a module")
        .expect("a build id");
    let byte = |at| u8::from_str_radix(&id[at..at + 2], 16).expect("hexadecimal");
    let id: Vec<_> = (0..id.len()).step_by(2).map(byte).collect();
    let length = u32::try_from(id.len()).expect("a short one").to_ne_bytes();
    [&4u32.to_ne_bytes()[..], &length, &3u32.to_ne_bytes(), b"GNU\0", &id].concat()
}

/// The gate, and nothing in its environment that means something to it.
pub(crate) fn gate() -> Command {
    gate_by(Path::new(GATE))
}

/// The same by another build.
pub(crate) fn gate_by(gate: &Path) -> Command {
    clean(Command::new(gate))
}

/// Each place of a node below this root by its own option, as in a pod, whose root is the container's.
pub(crate) fn with_places<'a>(command: &'a mut Command, root: &Path) -> &'a mut Command {
    let path = |relative: &str| root.join(relative);
    command.arg("--proc").arg(path("proc")).arg("--sys").arg(path("sys")).arg("--marker").arg(path(MARKER));
    command.env("MLX_DRIVERS_MOUNT", path(DRIVERS)).env("LOCK_FILE_PATH", path(LOCK))
}

/// The same for one whose command line is modprobe's.
pub(crate) fn with_places_in_variables<'a>(command: &'a mut Command, root: &Path) -> &'a mut Command {
    for (name, path) in [("PROC", "proc"), ("SYS", "sys"), ("MARKER", MARKER)] {
        command.env(format!("PEERMEM_GATE_{name}"), root.join(path));
    }
    command.env("MLX_DRIVERS_MOUNT", root.join(DRIVERS)).env("LOCK_FILE_PATH", root.join(LOCK))
}

/// The gate's command line run by other programs, such as `["env"]`.
pub(crate) fn wrapped<S: AsRef<OsStr>>(by: impl IntoIterator<Item = S>, gate: &Command) -> Command {
    let mut by = by.into_iter();
    let mut command = clean(Command::new(by.next().expect("a program")));
    command.args(by);
    carried(command, gate)
}

/// Both programs where everybody may run them: a clone may lie below a home that only its owner enters.
pub(crate) struct ForNobody(TempDir);

impl ForNobody {
    /// `None`, having said so, where nobody can be run here.
    pub(crate) fn new() -> Option<Self> {
        can_be_nobody().then(Self::copies)
    }

    /// For a test that becomes somebody else by itself.
    pub(crate) fn copies() -> Self {
        let directory = tempfile::Builder::new().prefix("programs").tempdir().expect("a directory");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        for program in [Path::new(GATE).to_owned(), Path::new(GATE).with_file_name("peermem-doctor")] {
            if program.exists() {
                copy_program(&program, &directory.path().join(program.file_name().expect("a name")));
            }
        }
        Self(directory)
    }

    /// The gate's command line, of the copy.
    pub(crate) fn copied(&self, gate: &Command) -> Command {
        let program = self.0.path().join(Path::new(gate.get_program()).file_name().expect("a name"));
        let mut copy = Command::new(program);
        copy.args(gate.get_args());
        for (name, value) in gate.get_envs() {
            match value {
                Some(value) => copy.env(name, value),
                None => copy.env_remove(name),
            };
        }
        copy
    }

    /// The gate's command line, run by somebody without any privilege.
    pub(crate) fn run(&self, gate: &Command) -> Command {
        wrapped(NOBODY, &self.copied(gate))
    }
}

/// The gate with mounts and a network of its own, as in a pod: what other programs of this machine mount, and the
/// uevents that they send, do not wake it.
pub(crate) fn apart_from_others(gate: &Command) -> Option<Command> {
    if Uid::effective().is_root() {
        return hung::apart().then(|| wrapped(["env"], gate));
    }
    can(&["unshare", "-Urmn", "true"]).then(|| wrapped(["unshare", "-Urmn"], gate))
}

/// The gate's command line, environment and directory behind another program.
fn carried(mut command: Command, gate: &Command) -> Command {
    command.arg(gate.get_program()).args(gate.get_args()).stdin(Stdio::null());
    if let Some(directory) = gate.get_current_dir() {
        command.current_dir(directory);
    }
    for (name, value) in gate.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

pub(crate) fn clean(mut command: Command) -> Command {
    const OTHERS: [&str; 6] = [
        "GPU_DIRECT_RDMA_ENABLED",
        "USE_HOST_MOFED",
        "DRIVER_READY_PATH",
        "LOCK_FILE_PATH",
        "MLX_DRIVERS_MOUNT",
        "NODE_NAME",
    ];
    for (name, _) in std::env::vars_os() {
        let ours = name.as_encoded_bytes().starts_with(b"PEERMEM_GATE_");
        if ours || OTHERS.iter().any(|other| name == *other) {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// Runs to the end, which must come.
pub(crate) fn output(command: &mut Command) -> Output {
    output_within(LIMIT, command)
}

/// The same of a program that has so much to do that a busy machine takes longer.
pub(crate) fn output_within(limit: Duration, command: &mut Command) -> Output {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program can be run");
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.expect("a pipe").read_to_end(&mut bytes).expect("read");
            bytes
        })
    };
    let stdout = read(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let stderr = read(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    let mut process = Process::new(child);
    process.ends_within(limit);
    let status = process.ended();
    Output {
        status,
        stdout: stdout.join().expect("standard output"),
        stderr: stderr.join().expect("standard error"),
    }
}

/// The exit code, and what went to standard error.
pub(crate) fn refusal(command: &mut Command) -> (i32, String) {
    let output = output(command);
    (code(output.status), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The exit code as a shell shows it.
pub(crate) fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().expect("a code or a signal"))
}

/// A child that never outlives its test.
pub(crate) struct Process {
    child: Child,
    /// Reports the end without reaping, so the pid stays ours until `status` is set.
    end: Receiver<()>,
    status: Option<ExitStatus>,
}

impl Process {
    pub(crate) fn new(child: Child) -> Self {
        let (sender, end) = mpsc::channel();
        let pid = pid(&child);
        thread::spawn(move || {
            while waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(Errno::EINTR) {}
            let _ = sender.send(());
        });
        Self { child, end, status: None }
    }

    pub(crate) fn pid(&self) -> Pid {
        pid(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        assert!(self.status.is_none(), "it has ended");
        kill(self.pid(), signal).expect("a signal can be sent");
    }

    /// True when it ended within this time.
    pub(crate) fn ends_within(&mut self, limit: Duration) -> bool {
        if self.status.is_none() && self.end.recv_timeout(limit).is_ok() {
            self.status = Some(self.child.wait().expect("an exit status"));
        }
        self.status.is_some()
    }

    pub(crate) fn ended(&mut self) -> ExitStatus {
        assert!(self.ends_within(LIMIT), "it does not end");
        self.status.expect("it ended")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().try_into().expect("a pid"))
}

/// A mount namespace that stands for the host: its mounts below the node's root are shared, and
/// nothing of it reaches the machine.
pub(crate) struct Host {
    process: Process,
}

impl Host {
    pub(crate) fn new(node: &Node) -> Self {
        const SCRIPT: &str = r#"mount --bind "$0" "$0" && mount --make-shared "$0" && echo up && exec cat"#;
        let mut command = Command::new("unshare");
        command.args(["-m", "--propagation", "private", "sh", "-c", SCRIPT]).arg(node.root());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut up = [0; 3];
        child.stdout.as_mut().unwrap().read_exact(&mut up).expect("a mount namespace");
        Self { process: Process::new(child) }
    }

    /// What to put before a command to run it on the host.
    fn enter(&self) -> Vec<OsString> {
        vec!["nsenter".into(), format!("--mount=/proc/{}/ns/mnt", self.process.pid()).into()]
    }

    pub(crate) fn run(&self, program: &str, args: &[&Path]) -> bool {
        let enter = self.enter();
        let mut command = Command::new(&enter[0]);
        command.args(&enter[1..]).arg(program).args(args).stdout(Stdio::null()).status().unwrap().success()
    }

    /// A gate in a container of this host.
    pub(crate) fn contain(&self, propagation: &str, gate: &Command) -> Command {
        let unshare = ["unshare", "-m", "--propagation", propagation].map(OsString::from);
        wrapped(self.enter().into_iter().chain(unshare), gate)
    }
}

pub(crate) fn can_mount() -> bool {
    can(&["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]) && can(&["nsenter", "--version"])
}

pub(crate) fn can_unshare() -> bool {
    can(&["unshare", "-m", "true"])
}

pub(crate) fn can_chroot() -> bool {
    can(&["chroot", "/", "true"])
}

pub(crate) fn can_trace() -> bool {
    can(&["strace", "-qq", "true"])
}

pub(crate) fn can_be_nobody() -> bool {
    can(&[&NOBODY[..], &["true"]].concat())
}

/// A gate that waits, and its log.
pub(crate) struct Gate {
    process: Process,
    log: Receiver<String>,
    /// What was read of the log so far.
    pub(crate) lines: Vec<Value>,
    stdout: Receiver<Vec<u8>>,
}

impl Gate {
    /// Starts it. Its log must be for machines.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program can be run");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, log) = mpsc::channel();
        thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut pipe = child.stdout.take().expect("a pipe");
        let (sender, stdout) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.read_to_end(&mut bytes);
            let _ = sender.send(bytes);
        });
        Self { process: Process::new(child), log, lines: Vec::new(), stdout }
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    pub(crate) fn pid(&self) -> Pid {
        self.process.pid()
    }

    /// The process that looks: the only child of the one that was started.
    pub(crate) fn worker(&self) -> Pid {
        child_of(self.pid())
    }

    /// The workers that there are now: a second one beside a look that hangs.
    pub(crate) fn workers_now(&self) -> Vec<Pid> {
        let pid = self.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        children.split_whitespace().filter_map(|pid| pid.parse().ok().map(Pid::from_raw)).collect()
    }

    /// The next log line of which this is true.
    pub(crate) fn logs_that(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + LIMIT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(line) = self.log.recv_timeout(left) else {
                panic!("the log never says {what}; it says {:#?}", self.lines)
            };
            let line = self.keep(&line);
            if wanted(&line) {
                return line;
            }
        }
    }

    /// Once it has logged a line, or has ended without one.
    pub(crate) fn says_something(&mut self) {
        if let Ok(line) = self.log.recv_timeout(LIMIT) {
            self.keep(&line);
        }
    }

    /// The next log line that contains these words, in whatever field.
    pub(crate) fn logs(&mut self, words: &str) -> Value {
        self.logs_that(words, |line| line.to_string().contains(words))
    }

    fn keep(&mut self, line: &str) -> Value {
        note!("{line}");
        let line = serde_json::from_str(line).unwrap_or_else(|_| Value::String(line.to_owned()));
        self.lines.push(line.clone());
        line
    }

    /// Its exit code as a shell shows it; its whole log is in `lines` then.
    pub(crate) fn ended(&mut self) -> i32 {
        let status = self.process.ended();
        while let Ok(line) = self.log.recv_timeout(LIMIT) {
            self.keep(&line);
        }
        code(status)
    }

    /// The same after this signal.
    pub(crate) fn ended_by(&mut self, signal: Signal) -> i32 {
        self.process.signal(signal);
        self.ended()
    }

    /// All that it, and CMD, wrote to standard output.
    pub(crate) fn stdout(&self) -> Vec<u8> {
        self.stdout.recv_timeout(LIMIT).expect("the end of standard output")
    }

    /// What the log says by now, without waiting.
    pub(crate) fn said(&mut self, words: &str) -> bool {
        while let Ok(line) = self.log.try_recv() {
            self.keep(&line);
        }
        self.lines.iter().any(|line| line.to_string().contains(words))
    }

    /// It opened because all was ready: the time since its start that it says.
    pub(crate) fn assert_opened(&mut self) -> f64 {
        let exit = self.ended();
        assert_eq!(exit, 0, "{:#?}", self.lines);
        let open = self.lines.iter().find(|line| text(line).starts_with("open: MOFED is ready"));
        elapsed(open.expect("a line that says so"))
    }

    /// It has an inotify instance. They are few and belong to all of root's processes on this machine: a gate that
    /// got none is no fault of the gate.
    pub(crate) fn can_watch(&mut self) -> bool {
        let can = !self.said(NO_INOTIFY);
        if !can {
            skip(&format!("{NO_INOTIFY} on this machine: raise fs.inotify.max_user_instances"));
        }
        can
    }

    /// It found all that it found by events.
    pub(crate) fn assert_woken(&mut self) {
        if !self.can_watch() {
            return;
        }
        assert!(!self.said("safety net"), "found by the safety net: {:#?}", self.lines);
    }
}

/// What a gate says that got no inotify instance.
pub(crate) const NO_INOTIFY: &str = "the limit of inotify instances is reached";

pub(crate) fn text(line: &Value) -> &str {
    line["message"].as_str().unwrap_or_default()
}

/// Seconds since the gate's start.
pub(crate) fn elapsed(line: &Value) -> f64 {
    line["elapsed_s"].as_f64().expect("a line with a time")
}

/// What `check --format json` said.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) code: i32,
    pub(crate) json: Value,
}

impl Report {
    pub(crate) fn of(check: &mut Command) -> Self {
        let output = output(check);
        let text = String::from_utf8_lossy(&output.stdout);
        let json = serde_json::from_str(&text).unwrap_or_else(|error| {
            panic!("{error} in {text:?}; standard error: {}", String::from_utf8_lossy(&output.stderr))
        });
        Self { code: code(output.status), json }
    }

    pub(crate) fn verdict(&self) -> &str {
        self.json["verdict"].as_str().expect("a verdict")
    }

    pub(crate) fn reason(&self, condition: &str) -> &str {
        self.word(condition, "reason")
    }

    pub(crate) fn message(&self, condition: &str) -> &str {
        self.word(condition, "message")
    }

    fn word(&self, condition: &str, key: &str) -> &str {
        let conditions = self.json["conditions"].as_array().expect("conditions");
        let found = conditions.iter().find(|c| c["type"] == condition).expect("such a condition");
        found[key].as_str().expect("such a word")
    }
}

/// Changes an existing file until its change time is another one: the clock that stamps files
/// moves in steps of some milliseconds.
pub(crate) fn change(path: &Path, how: impl Fn(&Path)) {
    let changed = || path.metadata().map(|m| (m.ctime(), m.ctime_nsec())).expect("a file to change");
    let before = changed();
    while changed() == before {
        how(path);
    }
}

/// A program that the test is going to run, written by a child. Had this process it open for writing,
/// a child that another test forks meanwhile would have it too for a moment, and the kernel refuses
/// to run what somebody writes ("Text file busy").
pub(crate) fn write_program(path: &Path, bytes: impl AsRef<[u8]>) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "cat >\"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut child = shell.spawn().expect("sh runs");
    child.stdin.take().expect("a pipe").write_all(bytes.as_ref()).expect("written");
    assert!(child.wait().expect("ended").success(), "{}", path.display());
}

/// The same for a program that is there already.
pub(crate) fn copy_program(from: impl AsRef<Path>, to: &Path) {
    write_program(to, fs::read(from).expect("a program"));
}

/// True when this can be run here and succeeds; says so when not.
pub(crate) fn can(command: &[&str]) -> bool {
    let status = Command::new(command[0]).args(&command[1..]).stdin(Stdio::null()).output();
    let can = status.as_ref().is_ok_and(|output| output.status.success());
    if !can {
        skip(&format!("`{}` cannot be run here: {status:?}", command.join(" ")));
    }
    can
}

/// The static release build for this architecture, which is what users get.
pub(crate) fn product(architecture: &str) -> Option<PathBuf> {
    let target = repository().join("target");
    let product = target.join(format!("{architecture}-unknown-linux-musl/release/peermem-gate"));
    if !product.exists() {
        skip(&format!("no static release build for {architecture}: image/build makes it"));
        return None;
    }
    Some(product)
}

/// The middle one.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Waits for what sends no event.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < until, "never: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The only child of a process, once there is one.
pub(crate) fn child_of(parent: Pid) -> Pid {
    let children = format!("/proc/{parent}/task/{parent}/children");
    let until = Instant::now() + LIMIT;
    loop {
        if let Ok(child) = fs::read_to_string(&children).unwrap_or_default().trim().parse() {
            return Pid::from_raw(child);
        }
        assert!(Instant::now() < until, "{parent} has no child, or more than one");
        thread::sleep(Duration::from_millis(1));
    }
}
