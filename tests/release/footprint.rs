// SPDX-License-Identifier: Apache-2.0
//! What the product weighs, and what it costs while it waits: the static release builds.

use crate::support::{
    Gate, HOST, LIMIT, Node, Process, Report, apart_from_others, can, child_of, code, gate_by, note, output,
    product, skip, tests, until, with_places, wrapped,
};
use nix::sys::signal::Signal;
use peermem_gate::rebuild::build::BUILD_GUARD;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// 1.95 MiB. For amd64 it had 1,963,952 bytes before it signed modules and unpacked large ones beside its looks.
const SIZE: u64 = 2_044_723;
/// Four looks of the safety net, each five seconds after the last, and a little for their delays.
const WATCHED: Duration = Duration::from_millis(20_500);
/// As many of these make a minute.
const A_MINUTE: usize = 3;

const ARCHITECTURES: [&str; 2] = ["x86_64", "aarch64"];

fn readelf(args: &str, file: &Path) -> String {
    let output = output(Command::new("readelf").arg(args).arg(file));
    assert_eq!(code(output.status), 0);
    String::from_utf8(output.stdout).unwrap()
}

fn the_release_program_is_small() {
    for architecture in ARCHITECTURES {
        let Some(product) = product(architecture) else { continue };
        let size = product.metadata().unwrap().len();
        note!("{architecture}: {size} bytes");
        assert!(size <= SIZE, "{architecture}: {size} bytes");
    }
}

fn the_release_program_is_static() {
    if !can(&["readelf", "--version"]) {
        return;
    }
    for (architecture, machine) in ARCHITECTURES.iter().zip(["X86-64", "AArch64"]) {
        let Some(product) = product(architecture) else { continue };
        assert!(readelf("-hW", &product).contains(machine), "{architecture}");
        assert!(!readelf("-lW", &product).contains("INTERP"), "{architecture} wants a loader");
        assert!(!readelf("-dW", &product).contains("NEEDED"), "{architecture} wants a library");
    }
}

/// Kernels for aarch64 have pages of up to 64 KiB.
fn the_program_loads_on_kernels_with_large_pages() {
    let Some(product) = product("aarch64") else { return };
    if !can(&["readelf", "--version"]) {
        return;
    }
    let headers = readelf("-lW", &product);
    let loads: Vec<_> = headers.lines().filter(|line| line.trim_start().starts_with("LOAD")).collect();
    assert!(!loads.is_empty());
    for load in loads {
        let alignment = load.split_whitespace().last().unwrap().trim_start_matches("0x");
        assert!(u64::from_str_radix(alignment, 16).unwrap() >= 0x10000, "{load}");
    }
}

fn the_release_program_of_the_other_architecture_runs() {
    let Some(product) = product("aarch64") else { return };
    let emulator: &[&str] = if HOST == "aarch64" { &["env"] } else { &["qemu-aarch64-static"] };
    if !can(&[emulator, &["--version"]].concat()) {
        return;
    }
    let run = |command: &Command| wrapped(emulator, command);
    let version = output(&mut run(Command::new(&product).arg("--version")));
    let version = String::from_utf8(version.stdout).unwrap();
    assert!(version.contains("aarch64-unknown-linux-musl"), "{version}");

    let check = |node: &Node| {
        let mut check = Command::new(&product);
        Report::of(&mut run(check.args(["check", "--format", "json", "--root"]).arg(node.root())))
    };
    let ready = check(&Node::ready());
    assert_eq!((ready.code, ready.verdict()), (0, "Ready"), "{ready:#?}");
    let waiting = check(&Node::ready().without_marker());
    assert_eq!((waiting.code, waiting.verdict()), (1, "Waiting"));
    let node = Node::ready();
    let mut wait = node.wait_by(&product);
    wait.args(["--settle", "100ms", "--", "sh", "-c", "exit 42"]);
    assert_eq!(code(output(&mut run(&wait)).status), 42);
}

/// `rebuild` runs compilers below a guard, which asks the kernel for what qemu-user may not know.
fn a_build_is_guarded_under_an_emulator_too() {
    let Some(product) = product("aarch64") else { return };
    if HOST == "aarch64" || !can(&["qemu-aarch64-static", "--version"]) {
        return;
    }
    let mut guard = Command::new("qemu-aarch64-static");
    guard.args(["-0", BUILD_GUARD]).arg(&product).args(["/", "unlimited", "/bin/sh", "-c", "exit 42"]);
    let mut child = guard.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A build ends when this does.
    let alive = child.stdin.take();
    let ended = child.wait_with_output().unwrap();
    drop(alive);
    assert_eq!(code(ended.status), 42, "{}", String::from_utf8_lossy(&ended.stderr));
}

/// The product as it waits for this, with all its sources armed. inotify instances are shared by all of root's
/// processes on this machine, and may be used up.
fn waiting(mut wait: Command, reason: &str) -> Option<Gate> {
    let mut gate = Gate::start(&mut apart_from_others(wait.args(["--timeout", "1h", "--heartbeat", "1h"]))?);
    gate.logs(reason);
    if gate.said("the limit of inotify instances is reached") {
        skip(
            "the limit of inotify instances is reached on this machine: raise fs.inotify.max_user_instances",
        );
        return None;
    }
    assert!(!gate.said("cannot"), "a source is missing");
    Some(gate)
}

/// The node's own files in their own places: no root but `/`, as in a pod.
fn in_a_pod(node: &Node, product: &Path) -> Command {
    let mut wait = gate_by(product);
    with_places(wait.args(["wait", "--log-format", "json"]), node.root());
    wait
}

fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = line.unwrap_or_else(|| panic!("no {name} in {text}")).trim();
    value.split(' ').next().unwrap().parse().unwrap()
}

fn waiting_takes_little_memory_and_time() {
    takes_little(&[], 2);
}

/// The worker then has a parent of its own.
fn waiting_to_become_cmd_takes_little_memory_and_time() {
    takes_little(&["--", "true"], 3);
}

fn takes_little(cmd: &[&str], processes: usize) {
    let Some(product) = product(HOST) else { return };
    let node = Node::ready().without_marker();
    let mut wait = in_a_pod(&node, &product);
    wait.args(cmd);
    let Some(mut gate) = waiting(wait, "MarkerAbsent") else { return };
    let mut all = vec![gate.pid()];
    for _ in 1..processes {
        all.push(child_of(*all.last().expect("the gate")));
    }
    let read = |file: &str| {
        all.iter().map(|pid| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap()).collect::<Vec<_>>()
    };
    let sum = |file: &str, name: &str| read(file).iter().map(|text| number(text, name)).sum::<u64>();
    let on_cpu = || -> u64 {
        read("schedstat").iter().map(|text| text.split(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    let (before, since) = (on_cpu(), Instant::now());
    // It must not end; there is nothing else to wait for.
    assert!(!gate.process().ends_within(WATCHED));
    let share = Duration::from_nanos(on_cpu() - before).as_secs_f64() / since.elapsed().as_secs_f64();
    // Pages that they share count once.
    let anonymous = sum("smaps_rollup", "Pss_Anon");
    note!(
        "{anonymous} KiB anonymous, {} KiB resident, {:.4} % of a core",
        sum("smaps_rollup", "Pss"),
        share * 100.0
    );
    assert_eq!(sum("status", "Threads"), processes as u64, "a thread each");
    assert!(anonymous <= 512, "{anonymous} KiB");
    // Calls are counted below. What a call costs is the machine's: others' mounts wake it, and make caches cold.
    assert!(share <= 0.02, "it turns: {:.4} % of a core", share * 100.0);
}

fn assert_few_system_calls(mut gate: Gate) {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let mut strace = Command::new("strace");
    let both = [gate.pid(), gate.worker()].map(|pid| format!("--attach={pid}"));
    // The allocator's calls come and go with the lengths of paths.
    strace.args(["-f", "-r", "--trace=!%memory"]).args(&both).arg("-o").arg(&trace);
    let mut strace = Process::new(strace.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let traced = || {
        let tracer = |pid| fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        [gate.pid(), gate.worker()].iter().all(|pid| number(&tracer(pid), "TracerPid") != 0)
    };
    let started = Instant::now();
    while !traced() {
        assert!(started.elapsed() < LIMIT, "strace does not attach");
        thread::sleep(Duration::from_millis(1));
    }
    assert!(!gate.process().ends_within(WATCHED));
    strace.signal(Signal::SIGINT);
    strace.ended();
    let trace = fs::read_to_string(&trace).unwrap();
    // Neither the second half of a call that was told in two, nor a signal or an exit, nor a call that lasted on.
    let is_call =
        |line: &&str| ![" resumed>", " --- ", " +++ ", "<detached "].iter().any(|other| line.contains(other));
    // Mounts and devices of other programs cause events: what reads one ends with the next sleep.
    let mut is_event = false;
    let is_rest = |line: &&str| {
        is_event |= line.contains("recvfrom(") && line.contains("@/");
        let is_rest = !is_event;
        is_event &= !line.contains("poll(");
        is_rest
    };
    let a_minute = trace.lines().filter(is_call).filter(is_rest).count() * A_MINUTE;
    note!("{a_minute} system calls a minute");
    // A dozen glances, or three more, each at the marker, the modules and MOFED's lock.
    assert!((1..=400).contains(&a_minute), "{a_minute} system calls a minute:\n{trace}");
}

/// The sidecar at rest: `nvidia_peermem` is live, and nothing happens.
fn keeping_a_loaded_module_takes_few_system_calls() {
    let Some(product) = product(HOST).filter(|_| can(&["strace", "true"])) else { return };
    let Some(node) = Node::ready().with_peermem("new") else { return };
    let modules = fs::read_to_string(node.path("proc/modules")).unwrap();
    let modules =
        modules.replace(" 1 mlx5_ib, Live 0xffffffffc0900000", " 2 nvidia_peermem,mlx5_ib, Live 0x0");
    node.write("proc/modules", format!("nvidia_peermem 1 0 - Live 0x0 (OE)\n{modules}"));
    node.write("sys/module/nvidia_peermem/initstate", "live\n");
    node.write("sys/module/nvidia_peermem/taint", "OE\n");
    let mut keep = gate_by(&product);
    keep.args(["keep", "--log-format", "json", "--heartbeat", "1h", "--settle", "100ms"]);
    // Not in a directory that is watched.
    let outputs = tempfile::tempdir().unwrap();
    let status = outputs.path().join("status.json");
    with_places(&mut keep, node.root()).arg("--driver-root").arg(node.root());
    keep.arg("--status-file").arg(&status);
    let Some(mut keep) = apart_from_others(&keep) else { return };
    let mut gate = Gate::start(&mut keep);
    gate.logs("loaded by another process");
    gate.logs("every condition is met");
    assert!(!gate.said("cannot"), "a source is missing");
    // What comes after the line is not rest: a child process of the worker writes the status file.
    let status = || fs::read_to_string(&status).unwrap_or_default();
    let worker = gate.worker();
    let children = || fs::read_to_string(format!("/proc/{worker}/task/{worker}/children")).unwrap();
    // It is written once while things settle, and once more when they have.
    let is_last =
        |status: &str| [r#""state":"Loaded""#, r#""verdict":"Ready""#].iter().all(|all| status.contains(all));
    until("the last status is written", || is_last(&status()) && children().is_empty());
    assert_few_system_calls(gate);
}

/// For the marker, for modules, and below another root.
fn waiting_takes_few_system_calls() {
    let Some(product) = product(HOST).filter(|_| can(&["strace", "true"])) else { return };
    let (absent, in_tree) = (Node::ready().without_marker(), Node::ready().in_tree());
    for (wait, reason) in [
        (in_a_pod(&absent, &product), "MarkerAbsent"),
        (in_a_pod(&in_tree, &product), "ModuleInTree"),
        (absent.wait_by(&product), "MarkerAbsent"),
    ] {
        let Some(gate) = waiting(wait, reason) else { return };
        assert_few_system_calls(gate);
    }
}

fn too_little_address_space_ends_with_an_error_message() {
    let Some(product) = product(HOST) else { return };
    let mut check = Command::new("sh");
    check.args(["-c", "ulimit -v 2304; exec \"$0\" check"]).arg(&product);
    let output = output(&mut check);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(code(output.status), 125, "{said}");
    assert!(said.contains("RLIMIT_AS"), "{said}");
}

tests![
    too_little_address_space_ends_with_an_error_message,
    the_release_program_is_small,
    the_release_program_is_static,
    the_program_loads_on_kernels_with_large_pages,
    the_release_program_of_the_other_architecture_runs,
    a_build_is_guarded_under_an_emulator_too,
    waiting_takes_little_memory_and_time,
    waiting_to_become_cmd_takes_little_memory_and_time,
    keeping_a_loaded_module_takes_few_system_calls,
    waiting_takes_few_system_calls,
];
