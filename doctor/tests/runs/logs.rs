// SPDX-License-Identifier: Apache-2.0
//! Logs of containers and of the kernel, read from disk.

use super::timeline::files::Tree;
use crate::support::{self, NOBODY, can, note, output, skip, tests};
use memchr::memmem;
use peermem_doctor::log::{Form, LogEvent, LogMatch, LogSource, LogSources, RULES, scan};
use peermem_doctor::operators::Operators;
use peermem_doctor::probe::logs::{Limits, read};
use peermem_doctor::symptoms::logs::Logs;
use peermem_gate::ready::observation::Unreadable;
use proptest::prelude::*;
use std::fs::{self, File};
use std::io::Write;
use std::ops::Deref;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, UNIX_EPOCH};

const UID: &str = "6f1f2c1e-8f2b-4c5e-9d0a-0a1b2c3d4e5f";
/// When the node was started: 2025-11-21T11:50:00Z.
const BOOT: i64 = 1_763_725_800;

/// A node's logs below a directory of their own.
struct Node(Tree);

impl Deref for Node {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        &self.0
    }
}

impl Node {
    fn new() -> Self {
        let node = Self(Tree::new());
        fs::set_permissions(node.root(), fs::Permissions::from_mode(0o755)).expect("chmod");
        node.write("proc/stat", format!("cpu 1 2 3\nbtime {BOOT}\n"));
        node
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// What has no year is of the year in which its file was written to.
    fn touch(&self, path: &str, at: &str) {
        let at = peermem_doctor::stamp::rfc3339(at.as_bytes()).expect("a stamp").0;
        let at = UNIX_EPOCH + Duration::from_nanos(at.ns.unsigned_abs());
        File::options()
            .append(true)
            .open(self.path(path))
            .and_then(|file| file.set_modified(at))
            .expect("touched");
    }

    /// The driver's log of this start, from a minute after the boot on.
    fn driver(&self, name: &str, lines: &[&str]) {
        self.log(DRIVER, "nvidia-driver-ctr", name, "2025-11-21T11:51:00Z", lines);
    }

    /// A log of a container, one line a second from this time on, as containerd writes it.
    fn log(&self, pod: &str, container: &str, name: &str, from: &str, lines: &[&str]) {
        self.write(&log_path(pod, container, name), cri(from, lines));
    }

    fn read(&self) -> Logs {
        self.read_within(&Limits::LOOK)
    }

    fn read_within(&self, limits: &Limits) -> Logs {
        read(self.root(), &self.path("proc"), None, limits, &Operators::default())
    }
}

fn log_path(pod: &str, container: &str, name: &str) -> String {
    format!("var/log/pods/{pod}_{UID}/{container}/{name}")
}

fn cri(from: &str, lines: &[&str]) -> String {
    let from = peermem_doctor::stamp::rfc3339(from.as_bytes()).expect("a stamp").0;
    let line = |(at, line): (i64, &&str)| {
        let stamp = peermem_doctor::stamp::Stamp::wall(from.ns + at * 1_000_000_000, 1);
        format!("{stamp} stderr F {line}\n")
    };
    (0..).zip(lines).map(line).collect()
}

const MOFED: &str = "nvidia-network-operator_mofed-rhcos4.18-554bdbd7cf-ds-x7k2p";
const DRIVER: &str = "gpu-operator_nvidia-driver-daemonset-564xm";
const REFUSED: &str = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument";

fn meanings(logs: &Logs) -> Vec<LogEvent> {
    logs.matches.iter().map(|found| found.event).collect()
}

fn at(found: &LogMatch) -> String {
    found.at.map(|at| at.to_string()).unwrap_or_default()
}

fn only(logs: &Logs, meaning: LogEvent) -> &LogMatch {
    let all: Vec<_> = logs.of(meaning).collect();
    assert_eq!(all.len(), 1, "{meaning}: {all:#?}");
    all[0]
}

fn a_match_has_its_source_time_and_file() {
    let node = Node::new();
    node.log(
        DRIVER,
        "nvidia-driver-ctr",
        "64.log",
        "2025-11-21T11:57:58.5Z",
        &["+ modprobe -a nvidia-peermem", REFUSED],
    );
    node.log(
        MOFED,
        "mofed-container",
        "0.log",
        "2025-11-21T11:58:39Z",
        &["[21-Nov-25_11:58:39] Setting driver ready state"],
    );
    node.log(MOFED, "train", "0.log", "2025-11-21T11:58:39Z", &["Setting driver ready state"]);
    let logs = node.read();
    assert_eq!(
        meanings(&logs),
        [LogEvent::PeermemModprobe, LogEvent::PeermemRefused, LogEvent::MofedMarkerSet]
    );
    let refused = only(&logs, LogEvent::PeermemRefused);
    assert_eq!(at(refused), "2025-11-21T11:57:59.500000000Z");
    assert_eq!((refused.source, refused.text.as_str()), (LogSource::Driver, REFUSED));
    assert_eq!(refused.fields["why"], "Invalid argument");
    assert_eq!(refused.event.text(&refused.fields), "nvidia_peermem is refused: Invalid argument");
    let file = logs.file(refused).expect("its log");
    let container = file.container.as_ref().expect("a container's");
    assert_eq!(file.path, node.path(&log_path(DRIVER, "nvidia-driver-ctr", "64.log")));
    assert_eq!(
        (container.namespace.as_str(), container.pod.as_str()),
        ("gpu-operator", "nvidia-driver-daemonset-564xm")
    );
    assert_eq!(
        (container.uid.as_str(), container.container.as_str(), container.restart),
        (UID, "nvidia-driver-ctr", 64)
    );
    assert_eq!(
        file.first.map(|first| first.to_string()).unwrap_or_default(),
        "2025-11-21T11:57:58.500000000Z"
    );
    // The workload's log has the very same words, and was not opened.
    assert_eq!(logs.files.len(), 2);
    let pods: Vec<_> = logs.pods.iter().map(|pod| (pod.name.as_str(), pod.containers.len())).collect();
    assert_eq!(pods, [("nvidia-driver-daemonset-564xm", 1), ("mofed-rhcos4.18-554bdbd7cf-ds-x7k2p", 2)]);
    let other = &logs.pods[1].containers[1];
    assert_eq!((other.restart, &other.trouble), (Some(0), &None), "it was not opened");
    assert_eq!(logs.unreadable, []);
}

fn parts_of_a_log_line_are_joined() {
    let node = Node::new();
    let (one, two) = REFUSED.split_at(30);
    let parts = format!(
        "2025-11-21T11:57:58Z stderr P {one}\n2025-11-21T11:57:59Z stderr F {two}\n\
         2025-11-21T11:58:00Z stderr P {one}\n2025-11-21T11:58:01Z stdout F something else\n"
    );
    node.write(&log_path(DRIVER, "nvidia-driver-ctr", "0.log"), parts);
    let logs = node.read();
    assert_eq!(at(only(&logs, LogEvent::PeermemRefused)), "2025-11-21T11:57:58Z", "of the first part");
    assert_eq!(logs.files[0].lines, 4);

    // A line of parts that never ends takes no more memory than its first ones.
    let endless = format!("2025-11-21T11:57:58Z stderr P {}\n", "x".repeat(16 * 1024)).repeat(200);
    node.write(&log_path(DRIVER, "nvidia-driver-ctr", "0.log"), endless);
    assert_eq!((node.read().matches.len(), node.read().files[0].damaged), (0, 1));
}

fn rotated_and_packed_logs_belong_to_their_container() {
    let node = Node::new();
    let name = |name: &str| log_path(MOFED, "mofed-container", name);
    let unset = "[21-Nov-25_11:51:06] Unsetting driver ready state";
    node.gz(&name("0.log.20251121-115200.gz"), &cri("2025-11-21T11:51:06Z", &[unset]));
    let built = "[21-Nov-25_11:52:30] Starting driver build";
    node.write(&name("0.log.20251121-115300"), cri("2025-11-21T11:52:30Z", &[built]));
    let set = "[21-Nov-25_11:58:39] Setting driver ready state";
    node.write(&name("0.log"), cri("2025-11-21T11:58:39Z", &[set]));
    node.write(&name("0.log.20251121-115400.tmp"), "unfinished");
    let logs = node.read();
    assert_eq!(
        meanings(&logs),
        [LogEvent::MofedMarkerUnset, LogEvent::MofedBuildStarted, LogEvent::MofedMarkerSet]
    );
    assert_eq!(logs.files.len(), 3);

    node.write(&name("0.log.20251121-115200.gz"), "no gzip");
    let logs = node.read();
    assert_eq!((logs.matches.len(), logs.unreadable.len()), (2, 1), "{:#?}", logs.unreadable);
    assert_eq!(logs.unreadable[0].path, node.path(&name("0.log.20251121-115200.gz")));
}

fn only_the_last_restarts_of_a_container_are_read() {
    let node = Node::new();
    for restart in 0..=64 {
        let from = format!("2025-11-21T{:02}:{:02}:00Z", 12 + restart / 30, restart * 2 % 60);
        node.log(DRIVER, "nvidia-driver-ctr", &format!("{restart}.log"), &from, &[REFUSED]);
    }
    let logs = node.read();
    let restarts: Vec<_> = logs.files.iter().map(|file| file.container.as_ref().map(|c| c.restart)).collect();
    assert_eq!(restarts, [Some(64), Some(63), Some(62), Some(61)]);
    assert_eq!(logs.left_out.files, 61);
    assert_eq!(logs.pods[0].containers[0].restart, Some(64));
    let all = node.read_within(&Limits::HISTORY);
    assert_eq!((all.matches.len(), all.left_out.files), (65, 0));
}

fn when_matches_are_too_many_those_of_the_newest_restarts_stay() {
    let node = Node::new();
    for restart in 0..4 {
        node.driver(&format!("{restart}.log"), &[REFUSED; 3]);
    }
    let logs = node.read_within(&Limits { matches_in_all: 5, matches: 3, ..Limits::LOOK });
    let mut restarts: Vec<_> =
        logs.matches.iter().filter_map(|found| Some(logs.file(found)?.container.as_ref()?.restart)).collect();
    restarts.sort_unstable_by(|one, other| other.cmp(one));
    assert_eq!(restarts, [3, 3, 3, 2, 2]);
    assert_eq!((logs.left_out.matches, logs.left_out.files), (1, 2));
}

fn dockers_logs_are_read_through_links() {
    let node = Node::new();
    let id = "f".repeat(64);
    let real = format!("var/lib/docker/containers/{id}/{id}-json.log");
    let text = serde_json::to_string(&format!("{REFUSED}\n")).unwrap();
    node.write(
        &real,
        format!("{{\"log\":{text},\"stream\":\"stderr\",\"time\":\"2025-11-21T11:57:58.123456789Z\"}}\n"),
    );
    let link = node.path(&log_path(DRIVER, "nvidia-driver-ctr", "0.log"));
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink(format!("/{real}"), &link).unwrap();
    let logs = node.read();
    assert_eq!(at(only(&logs, LogEvent::PeermemRefused)), "2025-11-21T11:57:58.123456789Z");
    assert_eq!(logs.files[0].path, link);

    // A link that leads out of the tree leads into it.
    fs::remove_file(&link).unwrap();
    symlink("../../../../../../../../../../../../etc/hostname", &link).unwrap();
    assert_eq!(node.read().files.len(), 0);
}

fn polled_lines_are_one_match() {
    let node = Node::new();
    let waits = ["waiting for mellanox ofed and nvidia drivers to be installed"; 100];
    node.log(DRIVER, "nvidia-peermem-ctr", "0.log", "2025-11-21T11:51:00Z", &waits);
    let logs = node.read();
    let found = only(&logs, LogEvent::PeermemWaits);
    assert_eq!(
        (found.count, found.until.map(|until| until.to_string()).as_deref()),
        (100, Some("2025-11-21T11:52:39.000000000Z"))
    );

    // Two that take turns are two; what comes between them begins a new one.
    let turns = [
        "msg=\"Attempting to validate a driver container installation\"",
        "msg=\"failed to validate the driver, retrying after 5 seconds\\n\"",
    ];
    let turns: Vec<_> = turns.iter().map(|turn| format!("level=info {turn}")).collect();
    let turns: Vec<&str> = turns.iter().map(String::as_str).cycle().take(60).collect();
    node.log(
        "gpu-operator_nvidia-operator-validator-5tr8v",
        "driver-validation",
        "0.log",
        "2025-11-21T11:51:00Z",
        &turns,
    );
    let logs = node.read();
    assert_eq!(only(&logs, LogEvent::DriverNotValid).count, 30);
    let waits = [waits[0], waits[0], "failed to load nvidia-peermem module", waits[0]];
    node.log(DRIVER, "nvidia-peermem-ctr", "0.log", "2025-11-21T11:51:00Z", &waits);
    assert_eq!(node.read().of(LogEvent::PeermemWaits).map(|found| found.count).collect::<Vec<_>>(), [2, 1]);
}

fn the_kernels_log_is_read_from_whichever_of_three_files_exists() {
    let node = Node::new();
    let kernel = "Nov 21 11:57:59 gpu-1 kernel: [  479.250000] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)\n";
    let others = "Nov 21 11:57:59 gpu-1 sudo: nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)\n\
                  Nov 21 11:57:59 gpu-1 kernel: xfs: Unknown symbol ib_register_peer_memory_client (err -22)\n\
                  Nov 21 11:57:58 gpu-1 chronyd[901]: System clock was stepped by 3600.100000 seconds\n";
    for file in ["kern.log", "messages", "syslog"] {
        node.write(&format!("var/log/{file}"), format!("{kernel}{others}"));
        node.touch(&format!("var/log/{file}"), "2025-11-21T12:00:00Z");
        let logs = node.read();
        assert_eq!(meanings(&logs), [LogEvent::ClockStepped, LogEvent::KernelUnknownSymbol], "{file}");
        let unknown = only(&logs, LogEvent::KernelUnknownSymbol);
        assert_eq!(at(unknown), "2025-11-21T11:57:59Z");
        assert_eq!(unknown.fields["module"], "nvidia_peermem");
        fs::remove_file(node.path(&format!("var/log/{file}"))).unwrap();
    }
}

fn each_start_of_the_kernel_has_a_clock_of_its_own() {
    let node = Node::new();
    let line = |wall: &str, boot: &str| {
        format!("2025-11-{wall}+00:00 gpu-1 kernel: [{boot}] nvidia_peermem: no symbol version for x\n")
    };
    let lines = [
        line("20T10:00:25.000000", "   25.000000"),
        // Written down when syslog started.
        line("21T11:50:30.000000", "    3.000000"),
        line("21T11:50:30.000000", "   29.500000"),
    ];
    node.write("var/log/kern.log", lines.concat());
    let logs = node.read();
    let times: Vec<_> = logs.matches.iter().map(at).collect();
    assert_eq!(times, ["2025-11-20T10:00:25.000Z", "2025-11-21T11:50:03.500Z", "2025-11-21T11:50:30.000Z"]);
    assert!(logs.files[0].steps.is_empty());
}

fn the_kernels_last_log_but_one_is_read_too() {
    let node = Node::new();
    let line = |second: u32, module: &str| {
        format!("Nov 21 11:57:{second:02} gpu-1 kernel: {module}: no symbol version for x\n")
    };
    node.write("var/log/messages", line(30, "nvidia_peermem"));
    node.write("var/log/messages-20251120", line(10, "mlx5_ib"));
    node.gz("var/log/messages-20251121.gz", &line(20, "ib_core"));
    node.write("var/log/messages-other", line(40, "ib_umad"));
    let logs = node.read();
    let modules: Vec<_> = logs.matches.iter().map(|found| found.fields["module"].as_str()).collect();
    assert_eq!(modules, ["ib_core", "nvidia_peermem"]);
}

fn unreadable_files_are_named() {
    if !can(&["setpriv", "--version"]) {
        return;
    }
    let node = Node::new();
    node.log(DRIVER, "nvidia-driver-ctr", "0.log", "2025-11-21T11:57:58Z", &[REFUSED]);
    node.log(MOFED, "mofed-container", "0.log", "2025-11-21T11:57:58Z", &["Setting driver ready state"]);
    node.write("var/log/kern.log", "");
    let forbid =
        |path: &str| fs::set_permissions(node.path(path), fs::Permissions::from_mode(0o000)).unwrap();
    let driver = log_path(DRIVER, "nvidia-driver-ctr", "0.log");
    let mofed = format!("var/log/pods/{MOFED}_{UID}");
    forbid(&driver);
    forbid(&mofed);
    forbid("var/log/kern.log");
    let Some(unreadable) = unreadable_for_nobody(node.root()) else { return };
    let mut paths: Vec<_> = unreadable.iter().map(|unreadable| unreadable.path.clone()).collect();
    paths.sort();
    let mut expected = [driver.as_str(), &mofed, "var/log/kern.log"].map(|path| node.path(path));
    expected.sort();
    assert_eq!(paths, expected);
    assert!(unreadable.iter().all(|unreadable| unreadable.why == "Permission denied"), "{unreadable:#?}");
}

/// This test itself, run by somebody without any privilege.
fn unreadable_for_nobody(root: &Path) -> Option<Vec<Unreadable>> {
    let me = std::env::current_exe().expect("this test");
    let copy = tempfile::Builder::new()
        .prefix("logs-test")
        .permissions(fs::Permissions::from_mode(0o755))
        .tempfile()
        .unwrap()
        // What is open for writing cannot be run.
        .into_temp_path();
    support::copy_program(me, &copy);
    let mut command = Command::new(NOBODY[0]);
    command.args(&NOBODY[1..]).arg(&*copy);
    let output = output(command.env("LOGS_ROOT", root));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let Some(json) = text.lines().find_map(|line| line.strip_prefix("READ ")) else {
        skip(&format!("nobody cannot run this test: {text} {}", String::from_utf8_lossy(&output.stderr)));
        return None;
    };
    let read: serde_json::Value = serde_json::from_str(json).expect("JSON");
    Some(serde_json::from_value(read["unreadable"].clone()).expect("what cannot be read"))
}

/// Run by other tests, in a process of its own. False in every other process.
pub(crate) fn child_reads() -> bool {
    let Some(root) = std::env::var_os("LOGS_ROOT") else { return false };
    let root = Path::new(&root);
    let before = high_water();
    let begun = Instant::now();
    let logs = read(root, &root.join("proc"), None, &Limits::LOOK, &Operators::default());
    let (took, grown) = (begun.elapsed(), high_water() - before);
    let read = serde_json::json!({
        "unreadable": logs.unreadable, "ms": took.as_millis(), "kib": grown, "said": logs.matches.len(),
        "files": logs.files.len(), "left_out": format!("{:?}", logs.left_out),
    });
    println!("READ {read}");
    true
}

/// The most memory that this process has had so far, in KiB.
fn high_water() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("VmHWM");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

/// What a child says of itself after it has read this node's logs.
fn measured(node: &Node) -> serde_json::Value {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.env("LOGS_ROOT", node.root());
    let text = String::from_utf8_lossy(&output(&mut command).stdout).into_owned();
    let json = text.lines().find_map(|line| line.strip_prefix("READ ")).unwrap_or_else(|| panic!("{text}"));
    note!("{json}");
    serde_json::from_str(json).expect("JSON")
}

/// In milliseconds; a build for tests on a busy machine takes a second. docs/measurements.md has the figures.
const SLOW: u64 = 10_000;
/// The pages of this test program that are read meanwhile are among them: up to five of a build for tests.
const TWELVE_MEBIBYTES: u64 = 12 << 10;

fn a_log_of_a_gigabyte_costs_no_more_than_its_two_ends() {
    let node = Node::new();
    node.driver("0.log", &["Loading NVIDIA driver kernel modules..."]);
    let path = node.path(&log_path(DRIVER, "nvidia-driver-ctr", "0.log"));
    let mut file = File::options().append(true).open(&path).unwrap();
    file.set_len(1 << 30).unwrap();
    file.write_all(format!("\n{}", cri("2025-11-21T11:57:58Z", &[REFUSED])).as_bytes()).unwrap();
    let logs = node.read();
    assert_eq!(meanings(&logs), [LogEvent::DriverLoads, LogEvent::PeermemRefused]);
    assert!(logs.files[0].left_out > 1 << 29 && logs.left_out.bytes == logs.files[0].left_out);
    let measured = measured(&node);
    assert!(measured["ms"].as_u64().unwrap() < SLOW, "{measured}");
    assert!(measured["kib"].as_u64().unwrap() < TWELVE_MEBIBYTES, "{measured}");
}

fn ten_thousand_logs_cost_no_more_than_the_newest() {
    let node = Node::new();
    // In one container's directory, in many containers', in many pods'.
    for restart in 0..3000 {
        node.log(DRIVER, "nvidia-driver-ctr", &format!("{restart}.log"), "2025-11-21T11:57:58Z", &[REFUSED]);
    }
    for container in 0..2000 {
        node.log(MOFED, &format!("c{container}"), "0.log", "2025-11-21T11:57:58Z", &[REFUSED]);
    }
    for pod in 0..5000 {
        node.write(&format!("var/log/pods/default_train-{pod}_{UID}/train/0.log"), "");
    }
    let logs = node.read();
    assert_eq!(logs.files.len(), 4);
    assert_eq!((logs.pods.len(), logs.left_out.pods), (2, 4002));
    assert!(logs.pods.iter().any(|pod| pod.name.starts_with("mofed")), "the operators' come first");
    let measured = measured(&node);
    assert!(measured["ms"].as_u64().unwrap() < SLOW, "{measured}");
    assert!(measured["kib"].as_u64().unwrap() < TWELVE_MEBIBYTES, "{measured}");
}

fn large_logs_share_what_may_be_read() {
    let node = Node::new();
    let noise = cri("2025-11-21T11:51:00Z", &vec!["noise of a build, line after line"; 40_000]);
    for pod in 0..60 {
        let pod = format!("gpu-operator_nvidia-driver-daemonset-{pod}");
        node.write(
            &log_path(&pod, "nvidia-driver-ctr", "0.log"),
            format!("{noise}{}", cri("2025-11-21T12:57:58Z", &[REFUSED])),
        );
    }
    let logs = node.read();
    let read: u64 = logs.files.iter().map(|file| file.read).sum();
    assert!(read <= Limits::LOOK.bytes + (1 << 20), "{read}");
    assert!(logs.left_out.files > 0 && logs.left_out.bytes > 0, "{:?}", logs.left_out);
    let measured = measured(&node);
    assert!(measured["kib"].as_u64().unwrap() < TWELVE_MEBIBYTES, "{measured}");
}

fn a_log_that_is_not_a_regular_file_is_named_and_does_not_hang() {
    let node = Node::new();
    let path = |name: &str| node.path(&log_path(DRIVER, "nvidia-driver-ctr", name));
    fs::create_dir_all(path("0.log")).unwrap();
    nix::unistd::mkfifo(&path("1.log"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    symlink("/dev/zero", path("2.log")).unwrap();
    node.write("dev/zero", "no device in here");
    node.write("var/log/pods/a file", "");
    node.write("var/log/pods/default_pod_file", "");
    let logs = node.read();
    let mut unreadable: Vec<_> = logs.unreadable.iter().map(|u| (u.path.clone(), u.why.as_str())).collect();
    unreadable.sort();
    let pods = node.path("var/log/pods/default_pod_file");
    assert_eq!(
        unreadable,
        [
            (pods, "Not a directory"),
            (path("0.log"), "not a regular file"),
            (path("1.log"), "not a regular file")
        ]
    );
    assert_eq!(logs.files.len(), 1);
}

fn a_node_without_logs_is_not_an_error() {
    assert_eq!(Node(Tree::new()).read(), Logs::default());
    let pods = Node::new();
    pods.write("var/log/pods", "a file in its place");
    assert_eq!(pods.read().unreadable.len(), 1);
}

/// The ring is this machine's, whatever the tree is.
fn the_kernels_ring_buffer_is_read_or_named_as_unreadable() {
    let logs = read(
        Path::new("/nowhere"),
        Path::new("/proc"),
        Some(Path::new("/sys")),
        &Limits::LOOK,
        &Operators::default(),
    );
    let ring = logs.files.iter().any(|file| file.path == Path::new("/dev/kmsg"));
    let refused = logs.unreadable.iter().any(|unreadable| unreadable.path == Path::new("/dev/kmsg"));
    assert!(ring || refused || !Path::new("/dev/kmsg").exists());
    assert!(logs.booted.is_some());
    assert_eq!(
        read(Path::new("/nowhere"), Path::new("/nowhere"), None, &Limits::LOOK, &Operators::default()),
        Logs::default()
    );
}

/// The table holds our own words; this holds the table to them.
fn the_gates_own_log_is_understood() {
    let node = support::Node::ready().without_marker();
    for format in ["text", "json"] {
        let mut wait = support::gate();
        wait.args(["wait", "--timeout", "100ms", "--settle", "50ms", "--log-format", format, "--root"])
            .arg(node.root());
        let log = output(&mut wait).stderr;
        let scanned = scan(LogSources::in_container("peermem-gate"), Form::Bare, &log, i64::MAX);
        let waits = scanned.matches.iter().find(|found| found.event == LogEvent::GateWaits);
        assert!(waits.is_some_and(|found| found.at.is_some()), "{}", String::from_utf8_lossy(&log));
    }
    let node = support::Node::ready();
    let log = output(node.wait().args(["--settle", "50ms", "--timeout", "10s"])).stderr;
    let scanned = scan(LogSources::in_container("peermem-gate"), Form::Bare, &log, i64::MAX);
    assert!(
        scanned.matches.iter().any(|found| found.event == LogEvent::GateOpened),
        "{}",
        String::from_utf8_lossy(&log)
    );
}

fn everybody() -> LogSources {
    LogSource::ALL.iter().copied().collect()
}

proptest! {
    fn random_bytes_match_no_log_pattern(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        for form in [Form::Container, Form::System, Form::Bare] {
            prop_assert_eq!(scan(everybody(), form, &bytes, i64::MAX).matches, []);
        }
    }

    fn random_texts_match_no_log_pattern(texts in proptest::collection::vec("[ -~]{0,120}", 0..20)) {
        let lines: Vec<_> = texts.iter().map(String::as_str).collect();
        prop_assert_eq!(scan(everybody(), Form::Container, cri("2025-11-21T11:51:00Z", &lines).as_bytes(), 0).matches, []);
        let kernel: String = texts.iter().fold(String::new(), |log, text| log + "Nov 21 11:57:59 gpu-1 kernel: " + text + "\n");
        prop_assert_eq!(scan(everybody(), Form::System, kernel.as_bytes(), i64::MAX).matches, []);
    }

    /// Whatever stands around a known line, and however the bytes come, it is found once.
    fn a_known_line_is_found_once_in_any_surroundings(before in "[ -~\n]{0,200}", after in "[ -~\n]{0,200}") {
        let noise = |text: &str| cri("2025-11-21T11:51:00Z", &text.lines().collect::<Vec<_>>());
        let log = [noise(&before), cri("2025-11-21T11:57:58Z", &[REFUSED]), noise(&after)].concat();
        let scanned = scan(LogSources::in_container("nvidia-driver-ctr"), Form::Container, log.as_bytes(), 0);
        prop_assert_eq!(scanned.matches.iter().map(|s| s.event).collect::<Vec<_>>(), [LogEvent::PeermemRefused]);
    }

    fn hostile_texts_stay_short(text in "\\PC{0,2000}") {
        let line = format!("modprobe: ERROR: could not insert 'nvidia_peermem': {text}\n");
        let scanned = scan(LogSources::in_container("nvidia-driver-ctr"), Form::Bare, line.as_bytes(), 0);
        for found in &scanned.matches {
            prop_assert!(found.text.len() < 1000 && found.fields.values().all(|field| field.len() < 1000));
        }
    }
}

/// A kernel's line may be known to both: the gate names the cause of a refusal that it got itself.
fn the_gate_links_no_log_rule() {
    let program = Path::new(env!("CARGO_BIN_EXE_peermem-doctor"));
    let [doctor, gate] =
        [program.to_owned(), program.with_file_name("peermem-gate")].map(|path| std::fs::read(path).unwrap());
    let patterns = RULES.iter().flat_map(|rule| rule.patterns).map(|pattern| pattern.words);
    // A short one can be a part of anything.
    let patterns: Vec<_> = patterns.filter(|words| words.len() > 16).collect();
    assert!(patterns.len() > 100, "only {} log patterns were found", patterns.len());
    for words in patterns {
        assert!(
            memmem::find(&doctor, words.as_bytes()).is_some(),
            "peermem-doctor does not contain the log pattern {words:?}"
        );
        assert!(
            memmem::find(&gate, words.as_bytes()).is_none(),
            "peermem-gate contains the log pattern {words:?}: move the code that uses it to the doctor"
        );
    }
}

tests![
    a_match_has_its_source_time_and_file,
    parts_of_a_log_line_are_joined,
    rotated_and_packed_logs_belong_to_their_container,
    only_the_last_restarts_of_a_container_are_read,
    when_matches_are_too_many_those_of_the_newest_restarts_stay,
    dockers_logs_are_read_through_links,
    polled_lines_are_one_match,
    the_kernels_log_is_read_from_whichever_of_three_files_exists,
    each_start_of_the_kernel_has_a_clock_of_its_own,
    the_kernels_last_log_but_one_is_read_too,
    unreadable_files_are_named,
    a_log_of_a_gigabyte_costs_no_more_than_its_two_ends,
    ten_thousand_logs_cost_no_more_than_the_newest,
    large_logs_share_what_may_be_read,
    a_log_that_is_not_a_regular_file_is_named_and_does_not_hang,
    a_node_without_logs_is_not_an_error,
    the_kernels_ring_buffer_is_read_or_named_as_unreadable,
    the_gates_own_log_is_understood,
    random_bytes_match_no_log_pattern,
    random_texts_match_no_log_pattern,
    a_known_line_is_found_once_in_any_surroundings,
    hostile_texts_stay_short,
    the_gate_links_no_log_rule,
];
