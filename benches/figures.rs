// SPDX-License-Identifier: Apache-2.0
//! The figures of docs/measurements.md: `cargo bench --bench figures`.
//!
//! Each is a ratio to its rival, run in turn with it, or a time with its spread; medians count.
//! Needs the static binary (`cargo build --release --target x86_64-unknown-linux-musl`) and, for
//! the opening, strace.

#[path = "../tests/support/mod.rs"]
mod support;

use peermem_gate::peermem::module_file::inspect;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use support::Node;

const TARGET: &str = "x86_64-unknown-linux-musl";
const RUNS: usize = 100;

fn main() {
    let gate = Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join(TARGET).join("release/peermem-gate");
    assert!(gate.exists(), "build it first: cargo build --release --target {TARGET}");
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let rivals = Rivals::build(scratch.path());
    let node = Node::ready();

    let check = || command(&gate, &["check", "--root", node.root().to_str().expect("a plain path")]);
    report(
        "check, short kallsyms / a static program that does nothing",
        &ratios(check, || command(&rivals.nothing, &[])),
    );

    shows_own_kallsyms(&node);
    report(
        "check, the kernel's own kallsyms / one plain read of it",
        &ratios(check, || command(&rivals.plain_read, &["/proc/kallsyms"])),
    );

    doctor(&gate, &rivals);

    report("closing inotify with a watch in it: ms", &closings(scratch.path(), false));
    report("closing inotify with its watch taken out first: ms", &closings(scratch.path(), true));

    report("fleet, 10,000 reports of 8 KiB: s", &fleet(&gate, scratch.path()));
    inspections(scratch.path());
    report("the shim, none of its own / modprobe itself: ms more", &shim_adds(&gate, scratch.path()));

    report(
        "opening, marker last, --settle 0s: ms from its creation to execve's entry",
        &openings(&gate, Node::ready().root(), &scratch.path().join("strace")),
    );
}

/// Ten thousand reports of 8 KiB, rolled up.
fn fleet(gate: &Path, scratch: &Path) -> Vec<f64> {
    let file = scratch.join("reports");
    let condition = r#"{"type":"ModulesLive","status":"True","reason":"AllLive","message":"live: ib_core"}"#;
    let conditions = vec![condition; 95].join(",");
    let report = |n: u32| {
        format!(
            r#"{{"schema":"peermem-gate/v1","version":"0.1.0","node":"gpu-node-{n:05}","kernel":"5.14.0","arch":"x86_64","time":"2026-08-20T12:00:00Z","verdict":"Ready","conditions":[{conditions}],"findings":[],"chain":[]}}"#
        ) + "\n"
    };
    fs::write(&file, (0..10_000).map(report).collect::<String>()).expect("reports");
    let once = || {
        let started = Instant::now();
        let status =
            command(gate, &["fleet", file.to_str().expect("a plain path")]).status().expect("it runs");
        assert!(status.success());
        started.elapsed().as_secs_f64()
    };
    (0..RUNS / 10).map(|_| once()).collect()
}

/// The kernel's own symbols instead of the short list.
fn shows_own_kallsyms(node: &Node) {
    node.remove("proc/kallsyms");
    std::os::unix::fs::symlink("/proc/kallsyms", node.path("proc/kallsyms")).expect("a link");
}

/// A whole process on a node of 300 modules: with 120,000 symbols in a file, and with the kernel's own,
/// in turn with one plain read of those.
fn doctor(gate: &Path, rivals: &Rivals) {
    let node = Node::ready();
    let mut modules = fs::read_to_string(node.path("proc/modules")).expect("modules");
    let mut symbols = fs::read_to_string(node.path("proc/kallsyms")).expect("symbols");
    for number in 0..296 {
        modules += &format!("module_{number} 16384 1 module_{}, Live 0x0000000000000000\n", number + 1);
    }
    symbols = (1..120_000).fold(String::new(), |all, number| {
        all + &format!("0000000000000000 t some_function_of_the_kernel_{number}\t[module_{}]\n", number % 296)
    }) + &symbols;
    node.write("proc/modules", modules);
    node.write("proc/kallsyms", symbols);
    node.write("proc/1/mountinfo", "22 1 0:1 / / rw - ext4 /dev/x rw\n".repeat(200));
    let root = node.root().to_str().expect("a plain path");
    let doctor = || command(gate, &["doctor", "--root", root]);
    make_logs(&node);
    let what = "doctor, 300 modules, 120,000 symbols and 200 logs";
    report(&format!("{what}: ms"), &(0..RUNS).map(|_| 1000.0 * time(doctor())).collect::<Vec<_>>());
    shows_own_kallsyms(&node);
    let read = [vec!["/proc/kallsyms".to_owned()], logs_read(gate, root)].concat();
    let read: Vec<_> = read.iter().map(String::as_str).collect();
    report(
        &format!(
            "doctor, 300 modules, 200 logs, the kernel's own kallsyms / one plain read of it and of the {} logs that doctor reads",
            read.len() - 1
        ),
        &ratios(doctor, || command(&rivals.plain_read, &read)),
    );
}

/// 200 logs of 20 KiB as kubelet keeps them: the operators' containers with their restarts, others, the kernel's.
fn make_logs(node: &Node) {
    let line = |text: &str| format!("2026-08-20T00:35:21.000000000Z stderr F {text}\n");
    let text = line("a line that nobody knows, as long as such lines are on most nodes").repeat(190);
    let write = |path: String, text: &str| node.write(&format!("var/log/{path}"), text);
    let uid = "6f1f2c1e-8f2b-4c5e-9d0a-0a1b2c3d4e";
    let pods = [
        ("nvidia-network-operator_mofed-ubuntu22.04-ds-x7k2p", &["mofed-container"][..]),
        (
            "gpu-operator_nvidia-driver-daemonset-564xm",
            &["k8s-driver-manager", "nvidia-driver-ctr", "nvidia-peermem-ctr"],
        ),
        (
            "gpu-operator_nvidia-container-toolkit-daemonset-9wqlt",
            &["driver-validation", "nvidia-container-toolkit-ctr"],
        ),
        (
            "gpu-operator_nvidia-operator-validator-7m2vx",
            &["driver-validation", "toolkit-validation", "cuda-validation"],
        ),
    ];
    let mut written = 0;
    for (number, (pod, containers)) in pods.iter().enumerate() {
        for (container, start) in containers.iter().flat_map(|container| [(container, 0), (container, 1)]) {
            write(format!("pods/{pod}_{uid}{number:02}/{container}/{start}.log"), &text);
            written += 1;
        }
    }
    for number in written..200 {
        write(format!("pods/default_train-{number}_{uid}{:02}/train/0.log", number % 100), &text);
    }
    write(
        "kern.log".to_owned(),
        &"Aug 20 00:35:21 gpu-1 kernel: [    1.000000] a line that nobody knows\n".repeat(300),
    );
}

/// The logs that `doctor` opens.
fn logs_read(gate: &Path, root: &str) -> Vec<String> {
    let log = Path::new(root).join("strace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", "trace=open,openat", "-o"]).arg(&log).arg(gate).args(["doctor", "--root", root]);
    strace.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("strace");
    let trace = fs::read_to_string(log).expect("a trace");
    let opened = trace
        .lines()
        .filter_map(|line| line.split('"').nth(1))
        .filter(|path| Path::new(path).extension().is_some_and(|suffix| suffix == "log"));
    let opened: std::collections::BTreeSet<_> = opened.map(str::to_owned).collect();
    assert!(!opened.is_empty(), "doctor reads no log");
    opened.into_iter().collect()
}

/// Inspecting the real module file whose size is nearest to 100 KiB, plain and packed.
fn inspections(scratch: &Path) {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/vm");
    let find = Command::new("find").arg(&tree).args(["-path", "*/debian-*", "-name", "*.ko"]).output();
    let files = String::from_utf8(find.expect("find runs").stdout).expect("plain paths");
    let size = |path: &&str| fs::metadata(path).map_or(u64::MAX, |metadata| metadata.len());
    let Some(nearest) = files.lines().min_by_key(|path| size(path).abs_diff(100 * 1024)) else {
        println!("inspecting a module file: tests/vm/build fetches some");
        return;
    };
    let pack = |program: &str| {
        let packed = Command::new(program).args(["-c", nearest]).output().expect("it packs").stdout;
        let file = scratch.join(program);
        fs::write(&file, packed).expect("a file");
        file
    };
    for file in [PathBuf::from(nearest), pack("gzip"), pack("xz"), pack("zstd")] {
        let inspect = || {
            let start = Instant::now();
            inspect(&file, &mut || false).expect("a module");
            start.elapsed().as_secs_f64() * 1000.0
        };
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let what = format!("inspecting a module file of {} bytes, {name}: ms", size(&nearest));
        report(&what, &(0..RUNS).map(|_| inspect()).collect::<Vec<_>>());
    }
}

/// What the shim adds to a call of modprobe that is none of its own: milliseconds, in turn.
fn shim_adds(gate: &Path, scratch: &Path) -> Vec<f64> {
    let shim = scratch.join("modprobe");
    let _ = fs::remove_file(&shim);
    std::os::unix::fs::symlink(gate, &shim).expect("a link");
    let time = |program: &Path| {
        let start = Instant::now();
        command(program, &["--version"]).status().expect("it runs");
        start.elapsed().as_secs_f64() * 1000.0
    };
    let real = Path::new("/sbin/modprobe");
    (0..5 * RUNS).map(|_| time(&shim) - time(real)).collect()
}

/// What closing an inotify descriptor costs, with its watch in it or taken out first.
fn closings(directory: &Path, take_out: bool) -> Vec<f64> {
    let close = || {
        let inotify = inotify::Inotify::init().expect("an inotify instance");
        let watch = inotify.watches().add(directory, inotify::WatchMask::CREATE).expect("a watch");
        std::thread::sleep(Duration::from_millis(30));
        if take_out {
            inotify.watches().remove(watch).expect("the watch");
        }
        let start = Instant::now();
        drop(inotify);
        start.elapsed().as_secs_f64() * 1000.0
    };
    (0..RUNS).map(|_| close()).collect()
}

struct Rivals {
    nothing: PathBuf,
    plain_read: PathBuf,
}

impl Rivals {
    fn build(directory: &Path) -> Self {
        let build = |name: &str, source: &str| {
            let file = directory.join(name).with_extension("rs");
            fs::write(&file, source).expect("a source");
            let built = Command::new("rustc")
                .args(["--target", TARGET, "-O", "-C", "panic=abort", "--out-dir"])
                .args([directory, &file])
                .status()
                .expect("rustc runs");
            assert!(built.success(), "{name}");
            directory.join(name)
        };
        let read = "use std::io::Read; fn main() { for path in std::env::args().skip(1) { \
                    let mut f = std::fs::File::open(path).unwrap(); \
                    let mut b = [0; 16384]; while f.read(&mut b).unwrap() > 0 {} } }";
        Self { nothing: build("nothing", "fn main() {}"), plain_read: build("plain_read", read) }
    }
}

fn command(program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Seconds.
fn time(mut command: Command) -> f64 {
    let start = Instant::now();
    command.status().expect("it runs");
    start.elapsed().as_secs_f64()
}

fn ratios(ours: impl Fn() -> Command, theirs: impl Fn() -> Command) -> Vec<f64> {
    (0..RUNS).map(|_| time(ours()) / time(theirs())).collect()
}

/// strace stops the gate at execve alone, and stamps that entry.
fn openings(gate: &Path, node: &Path, log: &Path) -> Vec<f64> {
    let marker = node.join("run/mellanox/drivers/.driver-ready");
    let open = || -> Option<f64> {
        let _ = fs::remove_file(&marker);
        let mut waiting = Command::new("strace")
            .args(["-f", "--seccomp-bpf", "-e", "trace=execve", "-ttt", "-o"])
            .args([log, gate])
            .args(["wait", "--settle", "0s", "--root"])
            .arg(node)
            .args(["--", "/bin/true"])
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        let mut said = BufReader::new(waiting.stderr.take()?);
        said.read_line(&mut String::new()).ok()?;
        // It has said what it waits for; this lets it fall asleep.
        std::thread::sleep(Duration::from_millis(30));
        let created = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
        fs::write(&marker, "").ok()?;
        said.read_to_string(&mut String::new()).ok()?;
        waiting.wait().ok()?;
        let trace = fs::read_to_string(log).ok()?;
        let entry = trace.lines().find(|line| line.contains("execve(\"/bin/true\""))?;
        Some((entry.split_whitespace().nth(1)?.parse::<f64>().ok()? - created) * 1000.0)
    };
    (0..RUNS).filter_map(|_| open()).collect()
}

fn report(what: &str, values: &[f64]) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at =
        |share: usize| sorted.get(sorted.len().saturating_sub(1) * share / 100).copied().unwrap_or(f64::NAN);
    println!(
        "{what}:\n    median {:.2}, 10th to 90th percentile {:.2} to {:.2}, most {:.2}, n {}",
        at(50),
        at(10),
        at(90),
        at(100),
        sorted.len()
    );
}
