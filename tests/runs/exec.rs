// SPDX-License-Identifier: Apache-2.0
//! CMD starts as if the gate had never been there: what it sees through the gate is compared with
//! what the same command sees without it.

use crate::support::{
    self, GATE, Gate, HOST, LIMIT, MARKER, NOBODY, Node, can, can_be_nobody, can_trace, child_of, code,
    output, product, refusal, tests, until, wrapped,
};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// What CMD writes to standard output behind a gate that has waited with every source armed.
fn through(by: &[&str], cmd: &[&OsStr], set: impl Fn(&mut Command)) -> (Gate, Vec<u8>) {
    let node = Node::ready().without_marker();
    let mut wait = node.wait();
    wait.args(["--settle", "100ms", "--metrics-file"]).arg(node.path("metrics.prom"));
    wait.arg("--termination-log").arg(node.path("termination-log"));
    wait.arg("--").args(cmd);
    let mut wait = if by.is_empty() { wait } else { wrapped(by, &wait) };
    set(&mut wait);
    let mut gate = Gate::start(&mut wait);
    gate.logs("MarkerAbsent");
    node.set_marker();
    gate.assert_opened();
    let seen = gate.stdout();
    (gate, seen)
}

/// The same without the gate.
fn directly(by: &[&str], cmd: &[&OsStr], set: impl Fn(&mut Command)) -> Vec<u8> {
    let mut plain = Command::new(cmd[0]);
    plain.args(&cmd[1..]);
    let mut plain = wrapped(by.iter().copied().chain(by.is_empty().then_some("env")), &plain);
    set(&mut plain);
    output(&mut plain).stdout
}

fn assert_same(by: &[&str], cmd: &[&OsStr], set: impl Fn(&mut Command)) -> Vec<u8> {
    let (_, through) = through(by, cmd, &set);
    let directly = directly(by, cmd, &set);
    assert!(!directly.is_empty());
    assert_eq!(
        String::from_utf8_lossy(&through),
        String::from_utf8_lossy(&directly),
        "{cmd:?} sees something else behind the gate"
    );
    assert_eq!(through, directly);
    through
}

fn words<'a>(cmd: &[&'a str]) -> Vec<&'a OsStr> {
    cmd.iter().copied().map(OsStr::new).collect()
}

/// The lines of /proc/self/status that two runs of a command have in common.
const COMMON: [&str; 9] =
    ["Umask", "Uid", "Gid", "Groups", "SigPnd", "SigBlk", "SigIgn", "SigCgt", "NoNewPrivs"];

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {status}")).trim()
}

fn mask(status: &str, name: &str) -> u64 {
    u64::from_str_radix(field(status, name), 16).unwrap()
}

fn bit(signal: Signal) -> u64 {
    1 << (signal as u64 - 1)
}

/// What CMD reads of itself; cat handles no signal of its own.
fn status(by: &[&str]) -> String {
    let cmd = words(&["cat", "/proc/self/status"]);
    let through = String::from_utf8(through(by, &cmd, |_| {}).1).unwrap();
    let directly = String::from_utf8(directly(by, &cmd, |_| {})).unwrap();
    for name in COMMON {
        assert_eq!(field(&through, name), field(&directly, name), "{name}");
    }
    through
}

fn cmd_is_the_same_process() {
    let (gate, seen) = through(&[], &words(&["cat", "/proc/self/status"]), |_| {});
    let status = String::from_utf8(seen).unwrap();
    assert_eq!(field(&status, "Pid"), gate.pid().to_string());
    assert_eq!(field(&status, "Name"), "cat");
    assert_eq!(field(&status, "Threads"), "1");
}

fn cmd_gets_the_default_signal_dispositions() {
    let status = status(&[]);
    assert_eq!(mask(&status, "SigBlk"), 0);
    assert_eq!(mask(&status, "SigCgt"), 0);
    assert_eq!(mask(&status, "SigIgn") & bit(Signal::SIGPIPE), 0, "Rust's runtime ignores it");
}

fn a_broken_pipe_ends_cmd() {
    // Without SIGPIPE `yes` would complain, and sh would see 1.
    let script = "(yes; echo $? >&2) | true";
    let (gate, _) = through(&[], &words(&["bash", "-c", script]), |_| {});
    assert!(gate.lines.iter().any(|line| *line == 141), "{:#?}", gate.lines);
}

fn signals_that_were_blocked_at_start_stay_blocked() {
    if !can(&["env", "--block-signal=USR1", "true"]) {
        return;
    }
    let status = status(&["env", "--block-signal=USR1", "--block-signal=TERM"]);
    assert_eq!(mask(&status, "SigBlk"), bit(Signal::SIGUSR1) | bit(Signal::SIGTERM));
}

fn signals_that_were_ignored_at_start_stay_ignored() {
    let by = ["sh", "-c", r#"trap "" HUP USR2; exec "$0" "$@""#];
    let status = status(&by);
    for ignored in [Signal::SIGHUP, Signal::SIGUSR2] {
        assert_ne!(mask(&status, "SigIgn") & bit(ignored), 0, "{ignored}");
    }
    assert_eq!(mask(&status, "SigIgn") & bit(Signal::SIGPIPE), 0);
    assert_eq!(mask(&status, "SigBlk"), 0);
}

fn a_signal_that_was_ignored_at_start_does_not_end_the_gate() {
    let node = Node::ready().without_marker();
    let nohup = ["sh", "-c", r#"trap "" HUP; exec "$0" "$@""#];
    let mut gate = Gate::start(&mut wrapped(nohup, node.wait().args(["--settle", "100ms", "--", "true"])));
    gate.logs("MarkerAbsent");
    gate.process().signal(Signal::SIGHUP);
    node.set_marker();
    gate.assert_opened();
}

fn a_signal_that_was_blocked_at_start_ends_the_gate() {
    if !can(&["env", "--block-signal=TERM", "true"]) {
        return;
    }
    let node = Node::ready().without_marker();
    let mut gate = Gate::start(&mut wrapped(["env", "--block-signal=TERM"], &node.wait()));
    gate.logs("MarkerAbsent");
    assert_eq!(gate.ended_by(Signal::SIGTERM), 143);
}

fn cmd_has_the_same_arguments() {
    let odd = [&b"\xff\xfe"[..], b"", b"a b", b"--", b"--timeout", b"-h", b"*", b"new\nline", b"\xc3\xa4"];
    let mut cmd = words(&["cat", "/proc/self/cmdline", "--"]);
    // cat takes none of these for an option, and complains of each; its command line is what counts.
    cmd.extend(odd.iter().map(|arg| OsStr::from_bytes(arg)));
    let node = Node::ready();
    let gate = Gate::start(node.wait().args(["--settle", "0s", "--"]).args(&cmd));
    let seen = gate.stdout();
    let mut expected = Vec::new();
    for arg in &cmd {
        expected.extend_from_slice(arg.as_bytes());
        expected.push(0);
    }
    assert_eq!(seen, expected, "argv[0] is as typed, though CMD was found by PATH");
}

fn cmd_has_the_same_environment() {
    let set = |command: &mut Command| {
        command.env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("EMPTY", "").env("SPACE", " a b\n");
        command.env(OsStr::from_bytes(b"ODD\xff"), OsStr::from_bytes(b"\xfe=\xfd"));
        command.env("GPU_DIRECT_RDMA_ENABLED", "true").env("PEERMEM_GATE_HEARTBEAT", "30s");
    };
    let seen = assert_same(&[], &words(&["cat", "/proc/self/environ"]), set);
    assert!(seen.windows(5).any(|bytes| bytes == b"ODD\xff="));
    assert!(seen.windows(22).any(|bytes| bytes == b"PEERMEM_GATE_HEARTBEAT"));
}

fn cmd_has_the_same_working_directory() {
    let directory = tempfile::tempdir().unwrap();
    let seen = assert_same(&[], &words(&["pwd", "-P"]), |command| {
        command.current_dir(directory.path());
    });
    let path = directory.path().canonicalize().unwrap();
    assert_eq!(seen.trim_ascii_end(), path.as_os_str().as_bytes());
}

fn cmd_has_no_descriptor_of_the_gate() {
    let seen = assert_same(&[], &words(&["ls", "/proc/self/fd"]), |_| {});
    assert!(seen.starts_with(b"0\n1\n"));
}

fn cmd_keeps_an_inherited_descriptor() {
    let by = ["sh", "-c", r#"exec 7</dev/null; exec "$0" "$@""#];
    let seen = assert_same(&by, &words(&["ls", "/proc/self/fd"]), |_| {});
    assert!(seen.split(|byte| *byte == b'\n').any(|name| name == b"7"));
}

fn cmd_has_the_same_limits() {
    assert_same(&[], &words(&["cat", "/proc/self/limits", "/proc/self/oom_score_adj"]), |_| {});
}

fn signals_end_cmd() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        let node = Node::ready();
        let cmd = ["--settle", "0s", "--", "sh", "-c", "echo running >&2; exec sleep 1000"];
        let mut gate = Gate::start(node.wait().args(cmd));
        gate.logs("running");
        gate.process().signal(signal);
        assert!(gate.process().ends_within(LIMIT));
        assert_eq!(gate.ended(), 128 + signal as i32);
    }
}

fn the_exit_status_of_cmd_is_passed_on() {
    let node = Node::ready();
    for wanted in [0, 1, 42, 124, 255] {
        let script = format!("exit {wanted}");
        let output = output(node.wait().args(["--settle", "0s", "--", "sh", "-c", &script]));
        assert_eq!(code(output.status), wanted);
    }
}

/// A directory with programs and what looks like them.
fn programs() -> (tempfile::TempDir, impl Fn(&str) -> PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().to_owned();
    let place = move |name: &str| root.join(name);
    let write = |name: &str, text: &str, mode: u32| {
        fs::create_dir_all(place(name).parent().unwrap()).unwrap();
        support::write_program(&place(name), text);
        fs::set_permissions(place(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    write("first/tool", "#!/bin/sh\necho first\n", 0o644);
    write("second/tool", "#!/bin/sh\necho second \"$0\"\n", 0o755);
    write("third/tool", "#!/bin/sh\necho third\n", 0o755);
    write("plain", "", 0o644);
    write("without-interpreter", "echo ran\n", 0o755);
    write("wrong-interpreter", "#!/nowhere/at/all\n", 0o755);
    fs::create_dir(place("directory")).unwrap();
    symlink("directory", place("link-to-directory")).unwrap();
    symlink("nowhere", place("dangling")).unwrap();
    (directory, place)
}

fn cmd_is_found_by_path() {
    let (_directory, place) = programs();
    let node = Node::ready();
    let mut path: OsString = place("none").into();
    for entry in ["plain", "first", "second", "third"] {
        path.push(":");
        path.push(place(entry));
    }
    // What is not executable is passed over, as execvp(3) does.
    let output = output(node.wait().args(["--settle", "0s", "--", "tool"]).env("PATH", path));
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, format!("second {}\n", place("second/tool").display()));
}

/// The marker is absent and the gate would wait forever.
fn refused_at_once(cmd: &OsStr, wanted: i32, set: impl Fn(&mut Command)) {
    let node = Node::ready().without_marker();
    let log = node.path("termination-log");
    let mut wait = node.wait();
    wait.args(["--timeout", "none", "--termination-log"]).arg(&log).arg("--").arg(cmd);
    set(&mut wait);
    let (exit, said) = refusal(&mut wait);
    assert_eq!(exit, wanted, "{}: {said}", cmd.display());
    for text in [&said, &fs::read_to_string(log).unwrap()] {
        assert!(text.contains(&*cmd.to_string_lossy()), "{} is not named: {text}", cmd.display());
        assert!(!text.contains("MarkerAbsent"));
    }
}

fn a_cmd_that_cannot_be_run_is_refused_before_the_wait() {
    let (_directory, place) = programs();
    for name in ["plain", "directory", "link-to-directory"] {
        refused_at_once(place(name).as_os_str(), 126, |_| {});
    }
    let first = place("first");
    refused_at_once(OsStr::new("tool"), 126, |wait| {
        wait.env("PATH", &first);
    });
}

fn a_cmd_that_is_not_there_is_refused_before_the_wait() {
    let (_directory, place) = programs();
    for name in ["missing", "missing/too", "plain/below", "dangling"] {
        refused_at_once(place(name).as_os_str(), 127, |_| {});
    }
    refused_at_once(OsStr::new("no-such-program-anywhere"), 127, |_| {});
    refused_at_once(OsStr::new("sh"), 127, |wait| {
        wait.env("PATH", place("third"));
    });
}

fn a_cmd_that_only_exec_refuses_is_reported_in_the_termination_log() {
    let (_directory, place) = programs();
    let node = Node::ready();
    let log = node.path("termination-log");
    let run = |gate: &Path, name: &str| {
        let mut wait = node.wait_by(gate);
        wait.args(["--settle", "0s", "--termination-log"]).arg(&log).arg("--").arg(place(name));
        let output = output(&mut wait);
        assert!(output.stdout.is_empty(), "{name} ran");
        let last = fs::read_to_string(&log).unwrap();
        assert!(last.contains(name), "{last}");
        code(output.status)
    };
    assert_eq!(run(Path::new(GATE), "wrong-interpreter"), 127);
    // glibc's execvp(3) would hand this one to a shell. The product is linked with musl.
    if let Some(product) = product(HOST) {
        assert_eq!(run(&product, "without-interpreter"), 126);
    }
}

fn a_cmd_that_disappears_during_the_wait_ends_with_127() {
    let (_directory, place) = programs();
    let node = Node::ready().without_marker();
    let mut wait = node.wait();
    let mut gate = Gate::start(wait.args(["--settle", "0s", "--"]).arg(place("third/tool")));
    gate.logs("MarkerAbsent");
    fs::remove_file(place("third/tool")).unwrap();
    node.set_marker();
    assert_eq!(gate.ended(), 127);
    assert!(gate.said("third/tool"));
}

fn a_cmd_without_permission_ends_with_126() {
    let (directory, place) = programs();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(place("second/tool"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(place("third"), fs::Permissions::from_mode(0o700)).unwrap();
    let program = directory.path().join("peermem-gate");
    support::copy_program(support::GATE, &program);
    for cmd in ["second/tool", "third/tool"] {
        let mut command = Command::new(&program);
        command.args(["wait", "--timeout", "none", "--"]).arg(place(cmd));
        let (exit, said) = refusal(&mut wrapped(NOBODY, &command));
        assert_eq!(exit, 126, "{cmd}: {said}");
    }
}

/// As execvp(3) and every shell do: whether CMD is in a directory that may not be searched cannot be known.
fn a_directory_of_path_that_may_not_be_searched_is_passed_over() {
    let (directory, place) = programs();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(place("third"), fs::Permissions::from_mode(0o700)).unwrap();
    let program = directory.path().join("peermem-gate");
    support::copy_program(support::GATE, &program);
    // Without RDMA the gate opens at the first look.
    let found = |path: &[&str]| {
        let path = std::env::join_paths(path.iter().map(|name| place(name))).unwrap();
        let environment = format!("PATH={}", path.display());
        let by = [&NOBODY[..], &["env", "GPU_DIRECT_RDMA_ENABLED=false", &environment]].concat();
        let mut command = Command::new(&program);
        output(&mut wrapped(by, command.args(["wait", "--", "tool"])))
    };
    let ran = found(&["third", "second"]);
    assert!(ran.stdout.starts_with(b"second "), "{}", String::from_utf8_lossy(&ran.stderr));
    for (path, exit, sentence) in [
        (
            &["third"][..],
            127,
            format!("; cannot look for {}: Permission denied", place("third/tool").display()),
        ),
        (
            &["third", "first"],
            126,
            format!("{} cannot be run: Permission denied", place("first/tool").display()),
        ),
        (
            &["first", "third"],
            126,
            format!("{} cannot be run: Permission denied", place("first/tool").display()),
        ),
    ] {
        let ran = found(path);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(code(ran.status), exit, "{path:?}: {said}");
        assert!(said.contains(&sentence), "{path:?}: {said}");
    }
}

/// What CMD says of its children, behind a gate that closes inotify only after CMD has begun.
const CHILDREN: [&str; 3] =
    ["bash", "-c", "read -r children </proc/$$/task/$$/children; echo \"[$children]\""];
/// Makes itself the one who inherits orphans, and becomes what follows.
const SUBREAPER: [&str; 3] = [
    "python3",
    "-c",
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1); os.execvp(sys.argv[1], sys.argv[1:])",
];

/// Nor as the first process of a pid namespace, as a subreaper, or where SIGCHLD is ignored.
fn cmd_has_no_child_that_it_did_not_start() {
    let first = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let ignores = ["sh", "-c", r#"trap "" CHLD; exec "$0" "$@""#];
    for by in [&[][..], &first, &SUBREAPER, &ignores] {
        if can(&[by, &["true"]].concat()) {
            assert_eq!(assert_same(by, &words(&CHILDREN), |_| {}), b"[]\n", "{by:?}");
        }
    }
}

/// A gate that waits for CMD's sake: its process, the worker's parent and the worker.
fn three_processes(node: &Node, timeout: &str) -> (Gate, [Pid; 2]) {
    let mut gate = Gate::start(node.wait().args(["--timeout", timeout, "--", "true"]));
    gate.logs("MarkerAbsent");
    let parent = child_of(gate.pid());
    let worker = child_of(parent);
    let name = |pid: Pid| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    assert_eq!([parent, worker].map(name), ["peermem-parent\n", "peermem-worker\n"]);
    (gate, [parent, worker])
}

fn is_gone(pid: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.is_empty() || field(&status, "State").starts_with('Z')
}

fn a_killed_gate_takes_its_worker_along() {
    let node = Node::ready().without_marker();
    let (mut gate, others) = three_processes(&node, "none");
    gate.process().signal(Signal::SIGKILL);
    for pid in others {
        until("it ends too", || is_gone(pid));
    }
}

fn a_killed_worker_or_its_killed_parent_is_reported() {
    let signals = [
        (Signal::SIGKILL, "killed by signal 9 (SIGKILL): look for an out-of-memory kill"),
        (Signal::SIGSYS, "killed by signal 31 (SIGSYS): a seccomp profile"),
        (Signal::SIGUSR1, "killed by signal 10 (SIGUSR1): find out who sent"),
    ];
    for (killed, (signal, sentence)) in (0..2).flat_map(|killed| signals.map(|signal| (killed, signal))) {
        let node = Node::ready().without_marker();
        let (mut gate, others) = three_processes(&node, "none");
        nix::sys::signal::kill(others[killed], signal).unwrap();
        assert_eq!(gate.ended(), 125);
        assert!(gate.said(sentence), "{:#?}", gate.lines);
        for pid in others {
            until("it ends too", || is_gone(pid));
        }
    }
}

/// All of a container's processes are frozen, or those of a suspended node. The supervisor is the first to run again.
fn a_deadline_that_passes_in_a_freeze_is_no_look_that_hangs() {
    let node = Node::ready().without_marker();
    let (mut gate, others) = three_processes(&node, "2s");
    gate.process().signal(Signal::SIGSTOP);
    for pid in others {
        nix::sys::signal::kill(pid, Signal::SIGSTOP).unwrap();
    }
    // Time itself is what passes.
    std::thread::sleep(Duration::from_millis(5500));
    gate.process().signal(Signal::SIGCONT);
    std::thread::sleep(Duration::from_millis(300));
    for pid in others {
        let _ = nix::sys::signal::kill(pid, Signal::SIGCONT);
    }
    assert_eq!(gate.ended(), 124);
    assert!(gate.said("the deadline passed") && gate.said("MarkerAbsent"), "{:#?}", gate.lines);
    assert!(!gate.said("has not answered"), "{:#?}", gate.lines);
}

/// A container may be frozen, and a node suspended, between the answer and the exec. `stopped` is done meanwhile.
fn frozen_before_its_answer(options: &[&str], node: &Node, stopped: impl FnOnce()) -> Gate {
    let mut wait = node.wait();
    wait.args(["--settle", "200ms"]).args(options).args(["--", "touch"]).arg(node.path("opened"));
    let mut gate = Gate::start(&mut wait);
    gate.logs("settling");
    gate.process().signal(Signal::SIGSTOP);
    // The worker's own parent, if it has one, ends after it.
    let child = format!("/proc/{}/stat", gate.worker());
    until("the worker has ended", || fs::read_to_string(&child).is_ok_and(|stat| stat.contains(") Z ")));
    stopped();
    // Time itself is what makes an answer old.
    std::thread::sleep(Duration::from_millis(1200));
    gate.process().signal(Signal::SIGCONT);
    gate
}

fn a_late_answer_is_confirmed_by_another_look() {
    let node = Node::ready();
    let mut gate = frozen_before_its_answer(&[], &node, || node.remove(MARKER));
    gate.logs("asking again");
    gate.logs("MarkerAbsent");
    assert!(!node.path("opened").exists(), "CMD ran by a verdict that no longer held");
    node.set_marker();
    gate.assert_opened();
    assert!(node.path("opened").exists());
}

/// The NIC goes, and MOFED's container with all that it left: the next worker knows no more of it than the wait does.
fn what_was_seen_before_a_freeze_belongs_to_the_wait() {
    let node = Node::ready();
    let mut gate = frozen_before_its_answer(&[], &node, || {
        node.reset_nic();
        node.remove("run/mellanox");
        fs::write(node.path("proc/modules"), "").unwrap();
        node.remove("sys/module");
    });
    gate.logs("asking again");
    gate.logs("NicAway");
    assert!(!node.path("opened").exists(), "CMD ran by a gate that had forgotten the NIC");
    assert_eq!(gate.ended_by(Signal::SIGTERM), 143);
}

/// The worker of a gate on this node. Its parent may be anybody.
fn worker_on(node: &Node) -> Option<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let root = node.root().to_str().unwrap();
    let is_its = |process: &PathBuf| {
        let read = |file: &str| fs::read_to_string(process.join(file)).unwrap_or_default();
        read("comm") == "peermem-worker\n" && read("cmdline").contains(root)
    };
    processes.into_iter().find(is_its)
}

/// It stands still after it has seen the marker, and the marker goes meanwhile.
fn the_answer_of_a_stalled_look_is_as_old_as_its_beginning() {
    let node = Node::ready();
    let mut wait = node.wait();
    wait.args(["--settle", "200ms", "--", "touch"]).arg(node.path("opened"));
    // The fifth time is in the look that ends the settle time, after it has read the marker.
    let symvers = node.path(support::SYMVERS).display().to_string();
    let stall = [
        "strace",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-P",
        &symvers,
        "-e",
        "inject=statx:delay_exit=3500000:when=5",
    ];
    let mut gate = Gate::start(&mut wrapped(stall, &wait));
    gate.logs("settling");
    let is_stalled = || {
        let stat = worker_on(&node).and_then(|worker| fs::read_to_string(worker.join("stat")).ok());
        stat.is_some_and(|stat| stat.contains(") t "))
    };
    let since = Cell::new(Instant::now());
    until("a look stalls", || {
        if !is_stalled() {
            since.set(Instant::now());
        }
        since.get().elapsed() > Duration::from_millis(300)
    });
    node.remove(MARKER);
    gate.logs("asking again");
    gate.logs("MarkerAbsent");
    assert!(!node.path("opened").exists(), "CMD ran by what a look had seen before it stalled");
    // strace, killed at the end of this test, would leave it behind.
    node.set_marker();
    gate.assert_opened();
}

fn an_answer_after_the_deadline_does_not_open_the_gate() {
    for (action, code) in [("fail", 124), ("proceed", 0)] {
        let node = Node::ready();
        let options = ["--timeout", "1s", "--on-timeout", action];
        let mut gate = frozen_before_its_answer(&options, &node, || ());
        assert_eq!(gate.ended(), code, "{:#?}", gate.lines);
        assert!(gate.said("the deadline passed"), "{:#?}", gate.lines);
        assert_eq!(node.path("opened").exists(), code == 0);
    }
}

tests![
    [
        a_deadline_that_passes_in_a_freeze_is_no_look_that_hangs,
        a_late_answer_is_confirmed_by_another_look,
        what_was_seen_before_a_freeze_belongs_to_the_wait,
        an_answer_after_the_deadline_does_not_open_the_gate,
        cmd_is_the_same_process,
        cmd_gets_the_default_signal_dispositions,
        a_broken_pipe_ends_cmd,
        signals_that_were_blocked_at_start_stay_blocked,
        signals_that_were_ignored_at_start_stay_ignored,
        a_signal_that_was_ignored_at_start_does_not_end_the_gate,
        a_signal_that_was_blocked_at_start_ends_the_gate,
        cmd_has_the_same_arguments,
        cmd_has_the_same_environment,
        cmd_has_the_same_working_directory,
        cmd_has_no_descriptor_of_the_gate,
        cmd_keeps_an_inherited_descriptor,
        cmd_has_the_same_limits,
        signals_end_cmd,
        the_exit_status_of_cmd_is_passed_on,
        cmd_is_found_by_path,
        a_cmd_that_cannot_be_run_is_refused_before_the_wait,
        a_cmd_that_is_not_there_is_refused_before_the_wait,
        a_cmd_that_only_exec_refuses_is_reported_in_the_termination_log,
        a_cmd_that_disappears_during_the_wait_ends_with_127,
        cmd_has_no_child_that_it_did_not_start,
        a_killed_gate_takes_its_worker_along,
        a_killed_worker_or_its_killed_parent_is_reported,
    ],
    if can_be_nobody [
        a_cmd_without_permission_ends_with_126,
        a_directory_of_path_that_may_not_be_searched_is_passed_over,
    ],
    if can_trace [the_answer_of_a_stalled_look_is_as_old_as_its_beginning],
];
