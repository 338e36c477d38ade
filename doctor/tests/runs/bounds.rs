// SPDX-License-Identifier: Apache-2.0
//! What `doctor` reads of a node whose logs have no end: counted, and not timed, because processors are shared.

use crate::fixture::{Node, Variant, nodes};
use crate::support::{output, tests};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

const LOGS: &str = "var/log/pods";
const MEBIBYTE: u64 = 1 << 20;
/// Both ends of the endless log and of the last starts of a container (`probe::logs::Limits::LOOK`).
const BYTES: u64 = MEBIBYTE;
/// For a handful of logs more.
const READS: u64 = 200;
/// In KiB, as the kernel counts a process's memory.
const EIGHT_MEBIBYTES: i64 = 8 << 10;

/// What a run of `doctor` cost.
#[derive(Debug, Deserialize, Serialize)]
struct Cost {
    findings: Value,
    read: u64,
    reads: u64,
    /// The most memory that it had, in KiB.
    memory: i64,
}

/// Names the program that [`child_measures`] runs with the arguments of its own.
const MEASURED: &str = "BOUNDS_OF";

/// Measured by a process of its own: the kernel adds up the memory of all that a process has run, and other tests of
/// this one run programs at the same time.
fn cost(node: &Node) -> Cost {
    let doctor = node.gate("doctor", &["--format", "json"]);
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.env(MEASURED, doctor.get_program()).args(doctor.get_args());
    for (name, value) in doctor.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    serde_json::from_slice(&output(&mut command).stdout).expect("its cost")
}

/// Run by [`cost`]. False in every other process.
pub(crate) fn child_measures() -> bool {
    let Some(program) = std::env::var_os(MEASURED) else { return false };
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).env_remove(MEASURED).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the gate");
    let mut text = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    // It has ended and is still there: its counts can be read.
    waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).expect("its end");
    let io = fs::read_to_string(format!("/proc/{pid}/io")).expect("its counts");
    let count = |name: &str| -> u64 {
        let line = io.lines().find_map(|line| line.strip_prefix(name)).expect("a count");
        line.trim().parse().expect("a number")
    };
    child.wait().expect("its end");
    let report: Value = serde_json::from_str(&text).expect("a report");
    let cost = Cost {
        findings: report["findings"].clone(),
        read: count("rchar:"),
        reads: count("syscr:"),
        memory: getrusage(UsageWho::RUSAGE_CHILDREN).expect("usage").max_rss(),
    };
    println!("{}", serde_json::to_string(&cost).expect("JSON"));
    true
}

fn log(node: &Node, pod: &str, container: &str) -> PathBuf {
    let pods = fs::read_dir(node.path(LOGS)).expect("logs").flatten();
    let mut pods = pods.filter(|entry| entry.file_name().to_string_lossy().contains(pod));
    pods.next().expect("a pod").path().join(container).join("0.log")
}

fn endless_logs_cost_no_more_than_their_ends() {
    let node = Node::described(&nodes().join("healthy-both-operators/node"), Variant::Faulty);
    let before = cost(&node);
    assert_eq!(before.findings, serde_json::json!([]));

    // A log of 1 GiB, whose last line is the driver's usual one.
    let endless = log(&node, "nvidia-driver", "nvidia-driver-ctr");
    let mut file = File::options().append(true).open(endless).expect("a log");
    file.set_len(1 << 30).expect("a length");
    file.write_all(b"\n2025-08-20T00:46:00.000000000Z stderr F Done, now waiting for signal\n")
        .expect("a line");
    // 10,000 others: 4,000 starts of one container, 2,000 containers of one pod, 4,000 pods.
    let starts = log(&node, "mofed", "mofed-container");
    let starts = starts.parent().expect("a directory");
    let line = "2025-08-20T00:35:21.000000000Z stderr F a line that nobody knows\n".repeat(100);
    for number in 1..=4000 {
        fs::write(starts.join(format!("{number}.log")), &line).expect("a log");
    }
    for number in 0..2000 {
        let container = starts.with_file_name(format!("sidecar-{number}"));
        fs::create_dir(&container).expect("a directory");
        fs::write(container.join("0.log"), &line).expect("a log");
    }
    for number in 0..4000 {
        let pod =
            node.path(&format!("{LOGS}/default_train-{number}_6f1f2c1e-8f2b-4c5e-9d0a-0a1b2c3d4e5f/train"));
        fs::create_dir_all(&pod).expect("a directory");
        fs::write(pod.join("0.log"), &line).expect("a log");
    }
    let after = cost(&node);
    println!("{before:?}\n{after:?}");
    assert_eq!(after.findings, before.findings);
    assert!(after.read < before.read + BYTES, "{before:?} {after:?}");
    assert!(after.reads < before.reads + READS, "{before:?} {after:?}");
    assert!(after.memory < before.memory + EIGHT_MEBIBYTES, "{before:?} {after:?}");
}

tests![endless_logs_cost_no_more_than_their_ends,];
