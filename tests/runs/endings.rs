// SPDX-License-Identifier: Apache-2.0
//! How the gate ends: every exit code, and what it leaves behind.

use crate::support::{
    self, Gate, HOST, LIMIT, LOCK, MARKER, NO_INOTIFY, Node, PROMPT, SYMVERS, VENDOR, can, child_of, code,
    elapsed, gate, median, note, output, product, refusal, tests, text, wrapped,
};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Runs to its end, and says the exit code and the whole log.
fn exit(command: &mut Command) -> (i32, Vec<Value>) {
    let mut gate = Gate::start(command);
    let code = gate.ended();
    let lines = std::mem::take(&mut gate.lines);
    // A machine that has no inotify instance left is no matter of these tests.
    (code, lines.into_iter().filter(|line| !text(line).contains(NO_INOTIFY)).collect())
}

fn last(lines: &[Value]) -> &Value {
    lines.last().expect("a closing line")
}

fn wait_ends_with_0_on_a_ready_node() {
    let (code, lines) = exit(Node::ready().wait().args(["--settle", "100ms"]));
    assert_eq!(code, 0);
    assert!(text(last(&lines)).starts_with("open: MOFED is ready"));
    assert!(elapsed(last(&lines)) >= 0.1);
}

fn a_gate_that_does_not_apply_opens_at_once() {
    // A settle time that would be waited for is one that the test would notice.
    const SETTLE: [&str; 4] = ["--settle", "1h", "--timeout", "2h"];
    let nowhere = Node::ready().without_mofed().without_nic();
    let (code, lines) = exit(nowhere.wait().args(SETTLE));
    assert_eq!((code, &last(&lines)["reason"]), (0, &"NoRdmaDevice".into()));
    // In one line, and once in it.
    assert_eq!((lines.len(), &last(&lines)["cause"]), (1, &"start".into()), "{lines:#?}");
    assert_eq!(text(last(&lines)).matches("does not apply").count(), 1, "{lines:#?}");

    let node = Node::ready().without_marker();
    for value in ["false", "", "True", " true", "1"] {
        let (code, lines) = exit(node.wait().args(SETTLE).env("GPU_DIRECT_RDMA_ENABLED", value));
        let warned = lines.iter().any(|line| line["level"] == "WARN" && text(line).contains("only \"true\""));
        assert_eq!(warned, value != "false", "{value:?}: {lines:#?}");
        assert_eq!((code, &last(&lines)["reason"]), (0, &"RdmaNotRequested".into()), "{value:?}");
        assert!(text(last(&lines)).contains(&format!("{value:?}")), "the value is shown");
    }
    let report =
        support::Report::of(node.check().args(["--format", "json"]).env("GPU_DIRECT_RDMA_ENABLED", "false"));
    assert_eq!((report.code, report.verdict()), (0, "NotApplicable"));
}

/// Each of these traces of MOFED is enough.
fn a_nic_that_is_off_the_bus_is_waited_for_where_anything_speaks_of_mofed() {
    let only = |kept: &str| {
        let node = Node::ready().in_tree();
        let moved = node.path("kept");
        fs::rename(node.path(kept), &moved).unwrap();
        node.remove("run/mellanox");
        fs::create_dir_all(node.path(kept).parent().unwrap()).unwrap();
        fs::rename(moved, node.path(kept)).unwrap();
        node
    };
    let nodes = [
        ("all", Node::ready()),
        ("a lock that is held", Node::ready().without_marker()),
        ("a lock that nobody holds", only(LOCK)),
        ("a marker", only(MARKER)),
        ("headers", only("run/mellanox/drivers/usr/src/ofa_kernel")),
        ("modules", Node::ready().without("run/mellanox")),
        // udev has loaded it before any pod runs.
        ("the NIC's driver", Node::ready().without_mofed()),
    ];
    for (left, node) in nodes {
        node.reset_nic();
        let (code, lines) = exit(node.wait().args(["--settle", "0s", "--timeout", "300ms"]));
        assert_eq!((code, &last(&lines)["reason"]), (124, &"NicAway".into()), "{left}: {lines:#?}");
        let report = node.report();
        assert_eq!((report.code, report.reason("NicPresent")), (1, "NicAway"), "{left}");
    }
    // It is not as if there were none, if none of the bus is seen.
    let node = Node::ready().without_mofed();
    node.remove("sys/bus/pci/devices/0000:01:00.0");
    let report = node.report();
    assert_eq!((report.code, report.reason("NicPresent")), (1, "DevicesUnreadable"));
    assert!(report.message("NicPresent").contains("lists no PCI device"), "{:#}", report.json);
}

/// At a boot, or in a reset that has taken the driver along, before MOFED's first trace.
fn a_node_without_any_trace_is_looked_at_until_its_bus_has_been_still() {
    let node = Node::ready().without_mofed().without_nic();
    let up = |node: &Node, seconds: u32| {
        node.write("uptime", format!("{seconds}.37 9.00\n"));
        node.rename("uptime", "proc/uptime");
    };
    up(&node, 12);
    let mut gate = Gate::start(node.wait().args(["--settle", "10ms", "--timeout", "1m"]));
    gate.logs("to have been still for 12.4 s only");
    // It is long after the boot, but a device has come.
    node.write("sys/bus/pci/devices/0000:02:00.0/vendor", "0x10de\n");
    up(&node, 40);
    gate.logs("to have been still for 0.000 s only");
    assert!(!gate.said("open: "), "{:#?}", gate.lines);
    up(&node, 71);
    gate.logs("NoRdmaDevice");
    assert_eq!(gate.ended(), 0);

    up(&node, 12);
    let mut gate = Gate::start(node.wait().args(["--settle", "10ms", "--timeout", "1m"]));
    gate.logs("DevicesUnreadable");
    node.write("sys/bus/pci/devices/0000:03:00.0/vendor", "0x15b3\n");
    gate.logs("MarkerParentMissing");
    assert_eq!(node.report().reason("NicPresent"), "NicFound");

    // Long after the boot, and the reset has left what the driver needs.
    let node = Node::ready().without_mofed().without_nic();
    for (file, text) in [("initstate", "live\n"), ("taint", "\n")] {
        node.write(&format!("sys/module/ib_uverbs/{file}"), text);
    }
    let modules = fs::read_to_string(node.path("proc/modules")).expect("modules");
    node.write("proc/modules", format!("{modules}ib_uverbs 217088 1 rdma_ucm, Live 0xffffffffc0900000\n"));
    up(&node, 4000);
    let mut gate = Gate::start(node.wait().args(["--settle", "10ms", "--timeout", "1m"]));
    gate.logs("to have been still for 0.000 s only");
    assert!(!gate.said("open: "), "{:#?}", gate.lines);
    up(&node, 4031);
    gate.logs("NoRdmaDevice");
    assert_eq!(gate.ended(), 0);
    // Another vendor's driver needs it, too.
    node.write(
        "proc/modules",
        format!("{modules}ib_uverbs 217088 2 efa,rdma_ucm, Live 0xffffffffc0900000\n"),
    );
    let mut gate = Gate::start(node.wait().args(["--settle", "10ms", "--timeout", "1m"]));
    assert_eq!(gate.ended(), 0);
    assert!(!gate.said("DevicesUnreadable"), "{:#?}", gate.lines);
    // One look cannot wait.
    let node = Node::ready().without_mofed().without_nic();
    node.write("proc/uptime", "1.00 1.00\n");
    assert_eq!(node.report().reason("NicPresent"), "NoRdmaDevice");
}

fn a_nic_that_stays_away_counts_as_removed() {
    let node = Node::ready();
    node.reset_nic();
    let (code, lines) = exit(node.wait().args(["--settle", "10ms", "--suspect-hold", "300ms"]));
    assert_eq!((code, &last(&lines)["reason"]), (0, &"NoRdmaDevice".into()), "{lines:#?}");
    assert!(elapsed(last(&lines)) >= 0.3, "{lines:#?}");
    let warning = lines.iter().find(|line| text(line).contains("counts as removed")).expect("a warning");
    assert_eq!(warning["level"], "WARN");
}

fn a_deadline_ends_with_124() {
    let node = Node::ready().without_marker();
    let (code, lines) = exit(node.wait().args(["--settle", "0s", "--timeout", "300ms"]));
    assert_eq!((code, &last(&lines)["reason"]), (124, &"MarkerAbsent".into()));
    assert!(elapsed(last(&lines)) >= 0.3);
    assert!(text(last(&lines)).starts_with("gave up: the deadline passed"));
}

fn a_deadline_opens_the_gate_with_on_timeout_proceed() {
    let node = Node::ready().without_marker();
    let mut wait = node.wait();
    wait.args(["--settle", "0s", "--timeout", "300ms", "--on-timeout", "proceed"]);
    let (code, lines) = exit(&mut wait);
    assert_eq!((code, &last(&lines)["level"]), (0, &"WARN".into()));
    assert!(text(last(&lines)).contains("OPEN ALTHOUGH NOT READY"));
    let (code, _) = exit(wait.args(["--", "sh", "-c", "exit 42"]));
    assert_eq!(code, 42);
}

fn a_timeout_of_0_is_one_look() {
    let (code, lines) = exit(Node::ready().wait().args(["--timeout", "0s"]));
    assert_eq!(code, 0, "the default settle time does not count: {lines:#?}");
    let node = Node::ready().without_marker();
    assert_eq!(exit(node.wait().args(["--timeout", "0s"])).0, 124);
    assert_eq!(exit(node.wait().args(["--timeout", "0s", "--on-timeout", "proceed"])).0, 0);
    assert_eq!(exit(Node::ready().in_tree().wait().args(["--timeout", "0s"])).0, 124);
}

fn a_dry_run_opens_after_one_look() {
    let node = Node::ready().without_marker();
    let mut wait = node.wait();
    let (code, lines) = exit(wait.arg("--dry-run"));
    assert_eq!((code, &last(&lines)["level"]), (0, &"WARN".into()));
    assert!(
        text(last(&lines)).contains("dry run") && last(&lines)["condition"] == "MarkerPresent",
        "{lines:#?}"
    );
    assert_eq!(exit(wait.args(["--", "sh", "-c", "exit 42"])).0, 42);
    let node = Node::ready();
    let metrics = node.path("metrics");
    let (code, lines) = exit(node.wait().arg("--dry-run").arg("--metrics-file").arg(&metrics));
    assert_eq!(code, 0);
    assert!(text(last(&lines)).contains("every condition is met"), "{lines:#?}");
    let metrics = fs::read_to_string(metrics).unwrap();
    assert!(
        metrics.contains("peermem_gate_verdict{verdict=\"Ready\"} 1"),
        "one look has no settle time: {metrics}"
    );
}

/// It needs no modprobe, and says that there is none.
fn a_dry_run_of_a_load_needs_no_modprobe() {
    let node = Node::ready().without_marker();
    let empty = node.path("empty");
    fs::create_dir(&empty).unwrap();
    let mut load = gate();
    support::with_places(load.args(["load", "--dry-run", "--driver-root"]).arg(&empty), node.root());
    let (code, said) = refusal(&mut load);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("dry run: a load would fail: there is no modprobe in PATH"), "{said}");
    assert!(said.contains("dry run: would wait for MarkerPresent"), "{said}");
    let (code, said) =
        refusal(load.env("PEERMEM_GATE_DRY_RUN", "true").env("PEERMEM_GATE_DISABLED", "drill 7"));
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("disabled") && !said.contains("MarkerPresent"), "{said}");
}

fn a_disabled_gate_opens_whatever_other_variables_are() {
    let node = Node::ready().without_marker();
    let mut wait = node.wait();
    wait.args(["--timeout", "none", "--", "sh", "-c", "exit 42"]);
    let garbage = [
        ("PEERMEM_GATE_TIMEOUT", "30"),
        ("PEERMEM_GATE_SETTLE", ""),
        ("PEERMEM_GATE_NONSENSE", "1"),
        ("PEERMEM_GATE_LOG_LEVEL", "loud"),
        ("DRIVER_READY_PATH", "relative"),
        ("MLX_DRIVERS_MOUNT", "relative"),
    ];
    wait.envs(garbage);
    assert_eq!(exit(&mut wait).0, 2, "the garbage is refused");
    let (code, lines) = exit(wait.env("PEERMEM_GATE_DISABLED", "incident 4711"));
    assert_eq!(code, 42);
    assert_eq!(last(&lines)["level"], "WARN");
    assert!(text(last(&lines)).contains("incident 4711"), "{lines:#?}");
}

fn check_ends_with_0_1_or_2() {
    let report = |node: Node| {
        let report = node.report();
        (report.code, report.verdict().to_owned())
    };
    assert_eq!(report(Node::ready()), (0, "Ready".into()));
    assert_eq!(report(Node::ready().without_mofed().without_nic()), (0, "NotApplicable".into()));
    assert_eq!(report(Node::ready().without_nic()), (1, "Waiting".into()));
    assert_eq!(report(Node::ready().without_marker()), (1, "Waiting".into()));
    assert_eq!(report(Node::ready().in_tree()), (1, "Waiting".into()));
    assert_eq!(report(Node::ready().suspect()), (1, "Waiting".into()));
    assert_eq!(report(Node::ready().without("proc/modules")), (2, "Unknown".into()));
    assert_eq!(report(Node::ready().without("sys/bus")), (2, "Unknown".into()));
    assert_eq!(refusal(gate().args(["check", "--nonsense"])).0, 2);
}

fn the_gates_own_failure_ends_with_125() {
    let node = Node::ready().without_marker();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut check = node.check();
    let mut child = check.stdout(full).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(code(child.wait().unwrap()), 125, "an answer that cannot be given is no answer");
}

fn wait_without_descriptors_fails_and_says_so() {
    // Descriptor 0 is for the loader, and then for Rust's runtime, which wants all three open.
    let script = r#"exec <&- && ulimit -n 3 && exec "$0" "$@""#;
    let (code, said) = refusal(&mut wrapped(["sh", "-c", script], &Node::ready().wait()));
    assert_eq!(code, 125, "{said}");
    assert!(said.contains("signals"), "{said}");
}

fn can_prlimit() -> bool {
    can(&["prlimit", "--version"])
}

fn a_panic_ends_with_125() {
    let node = Node::ready().without_marker();
    let log = node.path("termination-log");
    let mut gate = Gate::start(node.wait().arg("--termination-log").arg(&log));
    gate.logs("MarkerAbsent");
    // poll(2) with more descriptors than may be open fails, and nothing can be done about it.
    let pid = gate.worker().to_string();
    assert!(Command::new("prlimit").args(["--nofile=1:1", "--pid", &pid]).status().unwrap().success());
    node.write("run/mellanox/drivers/wake", "");
    node.set_marker();
    assert_eq!(gate.ended(), 125);
    assert!(gate.said("please report it"), "{:#?}", gate.lines);
}

fn signals_end_wait_with_their_number() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        let node = Node::ready().without_marker();
        let mut gate = Gate::start(node.wait().args(["--timeout", "none"]));
        gate.logs("MarkerAbsent");
        assert_eq!(gate.ended_by(signal), 128 + signal as i32);
        let line = text(gate.lines.last().unwrap()).to_owned();
        assert!(line.starts_with(&format!("ended by signal {}", signal as i32)), "{line}");
    }
}

/// No signal ends the first process of a pid namespace by default.
fn signals_end_wait_promptly_as_the_first_process() {
    let by = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    if !can(&[&by[..], &["true"]].concat()) {
        return;
    }
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut times = Vec::new();
        for _ in 0..7 {
            let node = Node::ready().without_marker();
            let mut gate = Gate::start(&mut wrapped(by, &node.wait()));
            gate.logs("MarkerAbsent");
            let sent = Instant::now();
            kill(child_of(gate.pid()), signal).unwrap();
            assert_eq!(gate.ended(), 128 + signal as i32);
            times.push(sent.elapsed());
        }
        note!("{signal}: {times:?}");
        assert!(median(times) < PROMPT);
    }
}

fn a_signal_interrupts_a_long_read() {
    let node = Node::ready();
    // A hole is as long to read as any file.
    let kallsyms = File::create(node.path("proc/kallsyms")).unwrap();
    kallsyms.set_len(64 << 30).unwrap();
    let mut gate = Gate::start(node.wait().args(["--settle", "0s"]));
    let io = format!("/proc/{}/io", gate.worker());
    let started = Instant::now();
    let read = || -> u64 {
        let io = fs::read_to_string(&io).unwrap();
        io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
    };
    while read() < 20 << 20 {
        assert!(started.elapsed() < LIMIT, "it is not read");
        thread::sleep(Duration::from_millis(1));
    }
    let sent = Instant::now();
    assert_eq!(gate.ended_by(Signal::SIGTERM), 143);
    assert!(sent.elapsed() < PROMPT, "ended after {:?}", sent.elapsed());
    assert!(!gate.said("SymbolMissing"));
}

fn a_deadline_interrupts_a_long_read() {
    let node = Node::ready();
    let kallsyms = File::create(node.path("proc/kallsyms")).unwrap();
    kallsyms.set_len(64 << 30).unwrap();
    let started = Instant::now();
    let (code, lines) = exit(node.wait().args(["--settle", "0s", "--timeout", "300ms"]));
    assert_eq!(code, 124);
    assert!(started.elapsed() < PROMPT, "ended after {:?}", started.elapsed());
    assert!(text(lines.last().unwrap()).starts_with("gave up: the deadline passed"), "{lines:#?}");
}

fn the_termination_log_is_written_in_place_and_short() {
    let node = Node::ready().without_marker();
    let log = node.path("termination-log");
    fs::write(&log, "x".repeat(5000)).unwrap();
    let inode = log.metadata().unwrap().ino();
    let far = format!("/{}", ["directory"; 300].join("/"));
    let mut wait = node.wait();
    wait.arg("--termination-log").arg(&log).args(["--timeout", "0s"]);
    let words = |wait: &mut Command, wanted: i32| {
        let (code, lines) = exit(wait);
        assert_eq!(code, wanted, "{lines:#?}");
        assert_eq!(log.metadata().unwrap().ino(), inode, "it is a bind mount in a pod");
        let text = fs::read_to_string(&log).unwrap();
        assert!(!text.is_empty() && text.len() <= 1024, "{} bytes", text.len());
        text
    };
    let text = words(&mut wait, 124);
    let (sentence, conditions) = text.split_once('\n').unwrap();
    assert!(sentence.starts_with("gave up: the deadline passed"), "{text}");
    assert!(conditions.starts_with("MarkerPresent MarkerAbsent: "), "{text}");
    let text = words(wait.env("DRIVER_READY_PATH", &far), 124);
    assert!(text.starts_with("gave up: the deadline passed"), "{text}");
    assert!(words(wait.env("PEERMEM_GATE_SETTLE", "30"), 2).contains("PEERMEM_GATE_SETTLE"));
    wait.env_remove("PEERMEM_GATE_SETTLE");
    assert!(words(wait.args(["--", "/no/such/program"]), 127).contains("/no/such/program"));

    let mut gate = Gate::start(node.wait().arg("--termination-log").arg(&log));
    gate.logs("MarkerAbsent");
    assert_eq!(gate.ended_by(Signal::SIGTERM), 143);
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.starts_with("ended by signal 15") && text.contains("MarkerPresent MarkerAbsent"), "{text}");
}

fn a_refused_command_line_has_its_last_words_too() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let inline = format!("--termination-log={}", log.display());
    let apart = ["--termination-log", log.to_str().unwrap()];
    let read = |command: &mut Command| {
        fs::write(&log, "").unwrap();
        assert_eq!(refusal(command).0, 2);
        fs::read_to_string(&log).unwrap()
    };
    assert!(read(gate().args(["wait", &inline, "--nonsense"])).contains("--nonsense"));
    assert!(read(gate().args(["wait", "--nonsense"]).args(apart)).contains("--nonsense"));
    assert!(read(gate().arg("wait").args(apart).args(["--timeout", "30"])).contains("--timeout"));
    assert!(read(gate().arg("wait").args(apart).env("PEERMEM_GATE_X", "")).contains("PEERMEM_GATE_X"));
    let mirror = read(gate().args(["wait", "--nonsense"]).env("PEERMEM_GATE_TERMINATION_LOG", &log));
    assert!(mirror.contains("--nonsense"));
    // CMD's own options are not the gate's.
    assert_eq!(read(gate().args(["wait", "--nonsense", "--"]).args(apart)), "");
    let many = vec!["--nonsense"; 500].concat();
    let text = read(gate().args(["wait", &inline, &many]));
    assert!(!text.is_empty() && text.len() <= 1024, "{} bytes", text.len());
}

fn a_gate_that_opens_does_not_write_the_termination_log() {
    let node = Node::ready();
    node.write("termination-log", "kept");
    let mut wait = node.wait();
    wait.args(["--settle", "0s", "--termination-log"]).arg(node.path("termination-log"));
    assert_eq!(exit(&mut wait).0, 0);
    assert_eq!(fs::read(node.path("termination-log")).unwrap(), b"kept");
}

/// The metrics that the gate wrote, by name and labels.
fn metrics(text: &str) -> Vec<(&str, f64)> {
    assert!(text.ends_with('\n'), "half a file: {text:?}");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            (name, value.parse().expect("a number"))
        })
        .collect()
}

fn the_metrics_file_is_always_whole() {
    let node = Node::ready().without_marker();
    node.rename(SYMVERS, "prepared");
    let place = node.path("metrics/gate.prom");
    fs::create_dir(node.path("metrics")).unwrap();
    let mut wait = node.wait();
    wait.args(["--settle", "0s", "--metrics-file"]).arg(&place);
    let mut gate = Gate::start(&mut wait);
    gate.logs("MarkerAbsent");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut inodes = std::collections::BTreeSet::new();
            while !over.load(Ordering::SeqCst) {
                let Ok(text) = fs::read_to_string(&place) else { continue };
                assert!(metrics(&text).iter().any(|(name, _)| *name == "peermem_gate_waited_seconds"));
                inodes.extend(place.metadata().map(|m| m.ino()));
            }
            inodes.len()
        });
        // Each change is published.
        for _ in 0..20 {
            node.set_marker();
            gate.logs("HeadersIncomplete");
            node.remove(MARKER);
            gate.logs("MarkerAbsent");
        }
        over.store(true, Ordering::SeqCst);
        assert!(reader.join().expect("whole files") > 1, "it was never replaced");
    });
    let absent = r#"peermem_gate_condition{type="MarkerPresent",status="False"}"#;
    // The line is logged before the file is replaced.
    let until = Instant::now() + LIMIT;
    let text = loop {
        let text = fs::read_to_string(&place).unwrap();
        if text.contains(&format!("{absent} 1")) {
            break text;
        }
        assert!(Instant::now() < until, "{text}");
    };
    let before = metrics(&text);
    let value =
        |metrics: &[(&str, f64)], name: &str| metrics.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
    assert_eq!(value(&before, r#"peermem_gate_verdict{verdict="Waiting"}"#), Some(1.0));
    assert_eq!(value(&before, absent), Some(1.0));
    node.rename("prepared", SYMVERS);
    node.set_marker();
    gate.assert_opened();
    let text = fs::read_to_string(&place).unwrap();
    assert_eq!(value(&metrics(&text), r#"peermem_gate_verdict{verdict="Ready"}"#), Some(1.0), "{text}");
    assert_eq!(fs::read_dir(node.path("metrics")).unwrap().count(), 1, "nothing is left beside it");
}

/// The kernel's signal for it would kill the gate; the write fails and is reported, as on a full disk.
fn a_file_size_limit_costs_the_file_and_nothing_else() {
    let node = Node::ready();
    let (metrics, opened) = (node.path("gate.prom"), node.path("opened"));
    let mut wait = node.wait();
    wait.args(["--settle", "200ms", "--metrics-file"]).arg(&metrics).args(["--", "touch"]).arg(&opened);
    let (code, lines) = exit(&mut wrapped(["prlimit", "--fsize=0"], &wait));
    assert_eq!(code, 0, "{lines:#?}");
    assert!(opened.exists() && !metrics.exists());
    let warned = |line: &Value| text(line).contains("cannot write the metrics file");
    assert_eq!(lines.iter().filter(|line| warned(line)).count(), 1, "{lines:#?}");
    assert_eq!(
        fs::read_dir(node.root())
            .unwrap()
            .filter(|e| { e.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tmp") })
            .count(),
        0,
        "left behind"
    );
}

/// The first process of a pid namespace inherits any process that lost its parent, and nobody else takes its end.
fn wait_as_the_first_process_leaves_no_zombies() {
    let by = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    if !can(&[&by[..], &["true"]].concat()) {
        return;
    }
    let node = Node::ready().without_marker();
    // Its own child ends while the gate waits, and that child's child is nobody's.
    let script = r#"(sh -c 'sleep 0.2 & sleep 0.1' &) ; exec "$0" "$@""#;
    let wait = wrapped(["sh", "-c", script], &node.wait());
    let mut gate = Gate::start(&mut wrapped(by, &wait));
    gate.logs("MarkerAbsent");
    let first = child_of(gate.pid());
    let children = format!("/proc/{first}/task/{first}/children");
    let count = || fs::read_to_string(&children).unwrap().split_whitespace().count();
    let until = Instant::now() + LIMIT;
    // All that is left is its worker.
    while count() != 1 || fs::read_to_string(format!("/proc/{first}/stat")).is_err() {
        assert!(Instant::now() < until, "{:?}", fs::read_to_string(&children));
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_millis(500));
    assert_eq!(count(), 1);
}

/// A FIFO would hang it, a link would lead it elsewhere, a device would be replaced by a file.
fn an_output_that_is_not_a_regular_file_is_refused() {
    let node = Node::ready();
    node.write("theirs", "theirs");
    nix::unistd::mkfifo(&node.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink(node.path("theirs"), node.path("link")).unwrap();
    std::os::unix::fs::symlink(node.path(MARKER), node.path("to-the-marker")).unwrap();
    for option in ["--metrics-file", "--termination-log"] {
        for place in ["fifo", "link", "to-the-marker", "proc", "/dev/null"] {
            let mut wait = node.wait();
            wait.args(["--settle", "0s", option]).arg(node.root().join(place));
            let (code, said) = refusal(&mut wait);
            assert!(code == 2 && said.contains(option), "{option} {place}: {code} {said}");
            assert!(said.contains("not a regular file"), "{option} {place}: {said}");
        }
    }
    assert_eq!(fs::read_to_string(node.path("theirs")).unwrap(), "theirs");
}

fn the_json_report_is_one_line_with_stable_keys() {
    let node = Node::ready();
    let output = output(node.check().args(["--format", "json"]).env("NODE_NAME", "node-7"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.matches('\n').count(), 1);
    assert!(text.ends_with('\n'));
    let report: Value = serde_json::from_str(&text).unwrap();
    let expected = [
        ("schema", "peermem-gate/v1"),
        ("version", env!("CARGO_PKG_VERSION")),
        ("node", "node-7"),
        ("kernel", support::KERNEL),
        ("arch", "x86_64"),
        ("boot_id", "0fb0e9b4-0000-4000-8000-000000000001"),
        ("verdict", "Ready"),
    ];
    for (key, value) in expected {
        assert_eq!(report[key], value, "{key}");
    }
    let time = report["time"].as_str().unwrap();
    assert!(time.len() >= 20 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
    let types = [
        "RdmaRequested",
        "NicPresent",
        "MarkerPresent",
        "MarkerTrusted",
        "ModulesLive",
        "ModulesFromMofed",
        "VersionMatches",
        "SymbolsExported",
        "HeadersReady",
        "PeermemUsable",
        "Settled",
    ];
    let conditions = report["conditions"].as_array().unwrap();
    assert_eq!(conditions.iter().map(|c| c["type"].as_str().unwrap()).collect::<Vec<_>>(), types);
    for condition in conditions {
        for key in ["status", "reason", "message"] {
            assert!(condition[key].is_string(), "{key} of {condition}");
        }
    }
    assert_eq!(Node::ready().report().json["node"], "gpu-1", "without NODE_NAME the host's own name");
}

fn the_text_report_begins_with_a_short_sentence() {
    let long = format!("/{}/ä", ["directory"; 100].join("/"));
    let nodes = [
        Node::ready(),
        Node::ready().without_marker(),
        Node::ready().without_nic(),
        Node::ready().suspect(),
        Node::ready().in_tree(),
        Node::ready().without("proc/modules"),
        Node::ready().without(VENDOR),
        Node::ready().without(support::SYMVERS),
        Node::ready().without("run/mellanox"),
    ];
    for node in nodes {
        for marker in [None, Some(&long)] {
            let mut check = node.check();
            if let Some(marker) = marker {
                check.env("DRIVER_READY_PATH", marker);
            }
            let output = output(&mut check);
            let text = String::from_utf8(output.stdout).unwrap();
            let first = text.lines().next().unwrap();
            assert!(first.is_ascii() && !first.is_empty() && first.len() <= 80, "{first:?}");
            assert!(output.stderr.is_empty(), "an answer is no log");
        }
    }
}

fn every_line_of_a_json_log_is_an_object() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing/log");
    let node = Node::ready().without_marker();
    for (args, wanted) in [
        (&["--timeout", "0s"][..], 124),
        (&["--timeout", "0s", "--on-timeout", "proceed"], 0),
        (&["--dry-run"], 0),
        (&["--settle", "0s", "--timeout", "1500ms", "--heartbeat", "1s"], 124),
    ] {
        let mut wait = node.wait();
        wait.arg("--termination-log").arg(&missing).arg("--metrics-file").arg(&missing);
        let (code, lines) = exit(wait.args(args).args(["--log-level", "trace"]));
        assert_eq!(code, wanted, "outputs that cannot be written change nothing");
        let warned = |what: &str| lines.iter().any(|l| l["level"] == "WARN" && text(l).contains(what));
        assert!(warned("metrics file") && (code == 0 || warned("termination log")), "{lines:#?}");
        for line in lines {
            for key in ["timestamp", "level", "message"] {
                assert!(line[key].is_string(), "{key} of {line}");
            }
        }
    }
}

fn closed_and_broken_outputs_are_no_failure() {
    let node = Node::ready();
    for closed in [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"] {
        let script = format!(r#"exec "$0" "$@" {closed}"#);
        let by = ["sh", "-c", &script];
        assert_eq!(code(output(&mut wrapped(by, &node.check())).status), 0, "check {closed}");
        let wait = &mut node.wait();
        assert_eq!(code(output(&mut wrapped(by, wait.args(["--settle", "0s"]))).status), 0, "wait {closed}");
    }
    for format in ["text", "json"] {
        let mut check = node.check();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = check.args(["--format", format]).stdout(writer).spawn().unwrap();
        assert_eq!(code(child.wait().unwrap()), 0, "nobody reads, and the node is ready");
    }
}

/// What reads the log may go away while the gate waits.
fn a_log_that_nobody_reads_is_no_failure() {
    let node = Node::ready().without_marker();
    let mut wait = node.wait();
    wait.args(["--settle", "0s", "--metrics-file"]).arg(node.path("metrics"));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut process = support::Process::new(wait.stderr(writer).spawn().unwrap());
    let started = Instant::now();
    // Its log is gone; that it waits shows here.
    while !node.path("metrics").exists() && !process.ends_within(Duration::from_millis(5)) {
        assert!(started.elapsed() < LIMIT, "it does not wait");
    }
    node.set_marker();
    assert_eq!(code(process.ended()), 0);
}

fn a_suspect_marker_keeps_the_gate_closed_and_is_accepted_later() {
    let node = Node::ready().suspect();
    let mut wait = node.wait();
    wait.args(["--settle", "0s"]);
    let (ended, lines) = exit(wait.args(["--suspect-hold", "300ms"]));
    assert_eq!(ended, 0);
    assert_eq!(lines[0]["reason"], "MarkerSuspect");
    let believed = lines.iter().find(|line| line["reason"] == "MarkerBelieved").expect("a warning");
    assert_eq!(believed["level"], "WARN");
    assert!(elapsed(believed) >= 0.3, "{believed}");
    let warnings = lines.iter().filter(|line| line["level"] == "WARN");
    assert_eq!(warnings.count(), 1);
}

fn a_lock_that_mofed_takes_makes_a_suspect_marker_trusted() {
    let node = Node::ready().suspect();
    let mut gate = Gate::start(node.wait().args(["--settle", "0s", "--suspect-hold", "1h"]));
    gate.logs("MarkerSuspect");
    // /proc has no events: the safety net must find it.
    node.hold_lock();
    gate.assert_opened();
    // Other programs on this machine may mount something meanwhile, which is a reason to look, too.
    assert!(gate.said("safety net") || gate.said("mount event"), "{:#?}", gate.lines);
    assert!(!gate.said("MarkerBelieved"));
    node.remove(LOCK);
    assert_eq!(node.report().reason("MarkerTrusted"), "NoLockFile");
}

/// The lock's holder started so many seconds after the boot, and the marker was set at 1,000 s.
fn held_by_one_that_started_at(node: &Node, seconds: u64) {
    let stat = format!("4711 (entrypoint) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 9 0 {} 0 0\n", seconds * 100);
    node.write("proc/4711/stat", stat);
    let boot = node.path(MARKER).metadata().unwrap().ctime() - 1000;
    node.write("proc/stat", format!("cpu 1\nbtime {boot}\n"));
    node.write("proc/uptime", format!("{}.50 1.00\n", seconds + 9));
    node.hold_lock();
}

fn a_marker_that_is_older_than_the_locks_holder_is_suspect() {
    let node = Node::ready();
    let trusted = |started| {
        held_by_one_that_started_at(&node, started);
        let report = node.report();
        (report.code, report.reason("MarkerTrusted").to_owned())
    };
    assert_eq!(trusted(900), (0, "LockHeld".to_owned()));
    assert_eq!(trusted(1001), (0, "LockHeld".to_owned()), "less than the clocks' precision");
    assert_eq!(trusted(1010), (1, "MarkerSuspect".to_owned()));
    assert!(node.report().message("MarkerTrusted").contains("(pid 4711)"));
    // After ten minutes the marker must be its own, and the clock was set.
    node.write("proc/uptime", "1700.00 1.00\n");
    assert_eq!(node.report().reason("MarkerTrusted"), "LockHeld");
    // A process that is not shown is not doubted, and one that cannot be read is.
    node.remove("proc/4711/stat");
    assert_eq!(node.report().reason("MarkerTrusted"), "LockHeld");
    fs::create_dir(node.path("proc/4711/stat")).unwrap();
    let report = node.report();
    assert_eq!((report.code, report.reason("MarkerTrusted")), (2, "LocksUnreadable"));
}

fn help_and_version_go_to_standard_output_and_end_with_0() {
    for args in [&["--help"][..], &["--version"], &["wait", "--help"], &["check", "-h"]] {
        let output = output(gate().args(args).env("PEERMEM_GATE_NONSENSE", "1"));
        assert_eq!(code(output.status), 0, "{args:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{args:?}");
    }
    let version = output(gate().arg("--version"));
    let version = String::from_utf8(version.stdout).unwrap();
    assert!(version.starts_with(&format!("peermem-gate {} (", env!("CARGO_PKG_VERSION"))), "{version}");
    if let Some(product) = product(HOST) {
        let version = output(Command::new(product).arg("--version"));
        let version = String::from_utf8(version.stdout).unwrap();
        assert!(version.contains(&format!("{HOST}-unknown-linux-musl")), "{version}");
    }
}

fn nothing_is_written_beside_the_marker() {
    let node = Node::ready().without_marker();
    for option in ["--termination-log", "--metrics-file"] {
        let place = node.path(MARKER);
        let (code, said) = refusal(node.wait().args(["--timeout", "0s", option]).arg(&place));
        assert!(code == 2 && said.contains("another place"), "{code} {said}");
        assert!(!place.exists(), "{option} made the marker");
    }
}

fn a_misspelled_option_names_no_termination_log() {
    let node = Node::ready();
    node.write("precious", "kept");
    let (code, _) = refusal(node.wait().arg("--termination-logfile").arg(node.path("precious")));
    assert_eq!(code, 2);
    assert_eq!(fs::read_to_string(node.path("precious")).unwrap(), "kept");
    let (code, _) =
        refusal(node.wait().args(["--termination-log", "--timeout", "30"]).current_dir(node.root()));
    assert!(code == 2 && !node.path("--timeout").exists());
}

tests![
    [
        wait_ends_with_0_on_a_ready_node,
        a_gate_that_does_not_apply_opens_at_once,
        a_nic_that_is_off_the_bus_is_waited_for_where_anything_speaks_of_mofed,
        a_node_without_any_trace_is_looked_at_until_its_bus_has_been_still,
        a_nic_that_stays_away_counts_as_removed,
        a_deadline_ends_with_124,
        a_deadline_opens_the_gate_with_on_timeout_proceed,
        a_timeout_of_0_is_one_look,
        a_dry_run_opens_after_one_look,
        a_dry_run_of_a_load_needs_no_modprobe,
        a_disabled_gate_opens_whatever_other_variables_are,
        check_ends_with_0_1_or_2,
        the_gates_own_failure_ends_with_125,
        wait_without_descriptors_fails_and_says_so,
        signals_end_wait_with_their_number,
        signals_end_wait_promptly_as_the_first_process,
        a_signal_interrupts_a_long_read,
        a_deadline_interrupts_a_long_read,
        the_termination_log_is_written_in_place_and_short,
        a_refused_command_line_has_its_last_words_too,
        a_gate_that_opens_does_not_write_the_termination_log,
        the_metrics_file_is_always_whole,
        wait_as_the_first_process_leaves_no_zombies,
        an_output_that_is_not_a_regular_file_is_refused,
        the_json_report_is_one_line_with_stable_keys,
        the_text_report_begins_with_a_short_sentence,
        every_line_of_a_json_log_is_an_object,
        closed_and_broken_outputs_are_no_failure,
        a_log_that_nobody_reads_is_no_failure,
        a_suspect_marker_keeps_the_gate_closed_and_is_accepted_later,
        a_lock_that_mofed_takes_makes_a_suspect_marker_trusted,
        a_marker_that_is_older_than_the_locks_holder_is_suspect,
        help_and_version_go_to_standard_output_and_end_with_0,
        nothing_is_written_beside_the_marker,
        a_misspelled_option_names_no_termination_log,
    ],
    if can_prlimit [
        a_panic_ends_with_125,
        a_file_size_limit_costs_the_file_and_nothing_else,
    ],
];
