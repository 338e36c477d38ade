// SPDX-License-Identifier: Apache-2.0
//! `doctor --every`: a pod that reports at its start and again, and sleeps in between.

use crate::support::{self, Node, Process, code, gate, note, output, refusal, tests, until};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The shortest that is allowed.
const EVERY: Duration = Duration::from_secs(5);
/// What a signal may take on a machine that does much else.
const AT_ONCE: Duration = Duration::from_secs(20);
/// What it takes to begin a look, to pass its answer on and to sleep again.
const WAKES: u64 = 15;
const CPU: Duration = Duration::from_millis(250);

/// A `doctor` that reports again and again.
struct Pod {
    process: Process,
    reports: BufReader<ChildStdout>,
}

impl Pod {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let reports = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { process: Process::new(child), reports }
    }

    /// The next report, which is one line.
    fn report(&mut self) -> Value {
        let mut line = String::new();
        self.reports.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Until the look's process is gone.
    fn is_at_rest(&self) {
        let pid = self.process.pid();
        let children = format!("/proc/{pid}/task/{pid}/children");
        until("at rest", || fs::read_to_string(&children).is_ok_and(|children| children.trim().is_empty()));
    }

    /// How often it was woken, and its time on a processor.
    fn cost(&self) -> (u64, Duration) {
        let read = |name| fs::read_to_string(format!("/proc/{}/{name}", self.process.pid())).expect("a file");
        let status = read("status");
        let wakes = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        let schedstat = read("schedstat");
        let cpu = schedstat.split(' ').next().expect("a time").parse().expect("a number");
        (wakes.expect("a count").trim().parse().expect("a number"), Duration::from_nanos(cpu))
    }

    fn resident(&self) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.pid())).expect("a file");
        status.lines().find(|line| line.starts_with("VmRSS:")).expect("a size").to_owned()
    }
}

fn every(interval: &str, root: &Path) -> Command {
    let mut command = gate();
    command.args(["doctor", "--every", interval, "--format", "json", "--root"]).arg(root);
    command.env("NODE_NAME", "gpu-1").env("GPU_DIRECT_RDMA_ENABLED", "true");
    command
}

fn a_doctor_pod_reports_at_its_start_and_at_each_interval_and_sleeps_in_between() {
    let node = Node::ready();
    let mut pod = Pod::start(&mut every("5s", node.root()));
    let begun = Instant::now();
    assert_eq!(pod.report()["verdict"], "Blocked");
    pod.is_at_rest();
    node.remove(support::MARKER);
    // The second one comes within the interval, whatever the share is.
    let second = pod.report();
    assert!(begun.elapsed() < EVERY + AT_ONCE, "{:?}", begun.elapsed());
    // Its look may have come before the marker went.
    let waiting = if second["verdict"] == "Blocked" { pod.report() } else { second };
    assert_eq!((&waiting["verdict"], &waiting["node"]), (&"Waiting".into(), &"gpu-1".into()), "{waiting:#}");
    pod.is_at_rest();
    let (before, begun) = (pod.cost(), Instant::now());
    assert_eq!(pod.report()["verdict"], "Waiting");
    pod.is_at_rest();
    assert!(begun.elapsed() > EVERY / 2, "{:?}", begun.elapsed());
    let after = pod.cost();
    let (wakes, cpu) = (after.0 - before.0, after.1.saturating_sub(before.1));
    note!("an interval took {wakes} wakes and {cpu:?}; at rest {}", pod.resident());
    assert!(wakes <= WAKES, "{wakes} wakes");
    assert!(cpu < CPU, "{cpu:?}");
}

fn a_doctor_pod_that_gets_a_signal_while_it_sleeps_ends_at_once() {
    let node = Node::ready();
    for (signal, ends) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let mut pod = Pod::start(&mut every("1h", node.root()));
        pod.report();
        pod.is_at_rest();
        pod.process.signal(signal);
        assert!(pod.process.ends_within(AT_ONCE), "{signal}");
        assert_eq!(code(pod.process.ended()), ends);
    }
}

/// Even one that comes before or during the first look.
fn a_doctor_pod_that_gets_a_signal_during_a_look_ends_after_the_look() {
    let node = Node::ready();
    let mut pod = Pod::start(&mut every("1h", node.root()));
    let status = format!("/proc/{}/status", pod.process.pid());
    let blocks =
        |status: String| status.lines().any(|line| line.starts_with("SigBlk:") && !line.ends_with("00"));
    until("the signals are taken", || fs::read_to_string(&status).is_ok_and(blocks));
    pod.process.signal(Signal::SIGTERM);
    assert!(pod.process.ends_within(AT_ONCE * 2));
    assert_eq!(code(pod.process.ended()), 143);
}

fn a_node_of_which_nothing_can_be_read_is_reported_again_and_again() {
    let root = TempDir::new().expect("a directory");
    fs::create_dir_all(root.path().join("proc/sys")).expect("a directory");
    let mut pod = Pod::start(&mut every("5s", root.path()));
    for _ in 0..2 {
        let report = pod.report();
        assert_ne!(report["verdict"], "Ready", "{report:#}");
        assert_eq!(report["node"], "gpu-1");
    }
}

fn a_look_that_is_killed_costs_one_report_only() {
    let node = Node::ready();
    // A FIFO that nobody writes holds the look.
    node.remove("proc/modules");
    let fifo = node.path("proc/modules");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let mut pod = Pod::start(&mut every("5s", node.root()));
    let worker = support::child_of(pod.process.pid());
    nix::sys::signal::kill(worker, Signal::SIGKILL).expect("a signal can be sent");
    fs::remove_file(&fifo).expect("a file");
    fs::write(&fifo, "").expect("a file");
    assert_ne!(pod.report()["verdict"], "Ready");
}

fn the_variable_of_every_does_the_same_as_the_option() {
    let node = Node::ready();
    let mut command = gate();
    command.args(["doctor", "--format", "json", "--root"]).arg(node.root()).env("PEERMEM_GATE_EVERY", "5s");
    let mut pod = Pod::start(&mut command);
    for _ in 0..2 {
        pod.report();
    }
}

fn a_senseless_interval_is_refused_at_the_start() {
    for words in [&["--every", "4s"][..], &["--every", "5"], &["--every", "5s", "--root", "relative"]] {
        let (ends, said) = refusal(gate().arg("doctor").args(words));
        assert_eq!(ends, 2, "{words:?}: {said}");
    }
    for words in [["doctor", "--every", "-5s"], ["timeline", "--since", "-3h"]] {
        let (ends, said) = refusal(gate().args(words));
        assert!(ends == 2 && said.contains("duration") | said.contains("like 300ms"), "{words:?}: {said}");
    }
    // And so is what only the look finds.
    let node = Node::ready();
    let output = output(every("5s", node.root()).env("DRIVER_READY_PATH", "relative"));
    assert_eq!(code(output.status), 2, "{}", String::from_utf8_lossy(&output.stderr));
}

tests![
    a_doctor_pod_reports_at_its_start_and_at_each_interval_and_sleeps_in_between,
    a_doctor_pod_that_gets_a_signal_while_it_sleeps_ends_at_once,
    a_doctor_pod_that_gets_a_signal_during_a_look_ends_after_the_look,
    a_node_of_which_nothing_can_be_read_is_reported_again_and_again,
    a_look_that_is_killed_costs_one_report_only,
    the_variable_of_every_does_the_same_as_the_option,
    a_senseless_interval_is_refused_at_the_start,
];
