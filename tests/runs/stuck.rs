// SPDX-License-Identifier: Apache-2.0
//! What nobody reads and what does not answer holds up neither a deadline, nor a signal, nor an opening.

use crate::support::hung::Hung;
use crate::support::{self, DRIVERS, LIMIT, NO_INOTIFY, Node, Process, gate, note, output, skip, tests};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Far more than the gate's own grace, far less than a test may take.
const SOON: Duration = Duration::from_secs(10);

// ---- standard error that nobody reads

/// A pipe with one page, and that page full.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    writer.write_all(&[b'x'; 4096]).unwrap();
    (reader, writer)
}

fn start(command: &mut Command, stderr: impl Into<Stdio>) -> Process {
    Process::new(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn().unwrap())
}

fn ends(mut process: Process, code: i32) {
    let begun = Instant::now();
    assert!(process.ends_within(SOON), "it does not end");
    assert_eq!(support::code(process.ended()), code, "after {:?}", begun.elapsed());
}

/// The verbs that wait, and the shim, on a node that is not ready.
fn stays(node: &Node) -> [(&'static str, Command, i32); 4] {
    let below = |verb: &str| {
        let mut command = gate();
        support::with_places(command.arg(verb), node.root()).arg("--driver-root").arg(node.root());
        command
    };
    let modprobe = node.path("bin/modprobe");
    fs::create_dir_all(modprobe.parent().unwrap()).unwrap();
    support::write_program(&modprobe, "#!/bin/sh\n");
    let mut shim = gate();
    shim.arg0("modprobe")
        .arg("-d")
        .arg(node.root())
        .arg("nvidia-peermem")
        .env("PEERMEM_GATE_MODPROBE", &modprobe);
    support::with_places_in_variables(&mut shim, node.root());
    [
        ("wait", node.wait(), 143),
        ("load", below("load"), 143),
        ("keep", below("keep"), 0),
        ("shim", shim, 143),
    ]
}

fn a_full_standard_error_does_not_delay_a_signal() {
    let node = Node::ready().without_marker();
    for (verb, mut command, code) in stays(&node) {
        let (_reader, writer) = full_pipe();
        let process = start(&mut command, writer);
        support::child_of(process.pid());
        process.signal(Signal::SIGTERM);
        note!("{verb}");
        ends(process, code);
    }
}

fn a_full_standard_error_does_not_delay_the_deadline() {
    let node = Node::ready().without_marker();
    for (verb, mut command, _) in stays(&node).into_iter().filter(|(verb, ..)| *verb != "keep") {
        let (_reader, writer) = full_pipe();
        command.env("PEERMEM_GATE_TIMEOUT", "300ms").env("PEERMEM_GATE_SETTLE", "0s");
        note!("{verb}");
        ends(start(&mut command, writer), 124);
    }
}

fn a_full_standard_error_does_not_delay_the_opening() {
    let node = Node::ready();
    let (_reader, writer) = full_pipe();
    let cmd = ["--settle", "100ms", "--", "touch"];
    ends(start(node.wait().args(cmd).arg(node.path("opened")), writer), 0);
    assert!(node.path("opened").exists());
}

/// CMD finds its standard error as it was: `O_NONBLOCK` would be seen by all who share it.
fn the_gate_does_not_change_the_flags_of_standard_error() {
    let node = Node::ready();
    let (reader, writer) = pipe().unwrap();
    let flags = |fd: &PipeWriter| OFlag::from_bits_truncate(fcntl(fd, FcntlArg::F_GETFL).unwrap());
    let kept = writer.try_clone().unwrap();
    let before = flags(&kept);
    ends(start(node.wait().args(["--settle", "0s"]), writer), 0);
    assert_eq!(flags(&kept), before);
    drop(reader);
}

/// A reader that stops in the midst of it, and goes on later: what was left out is counted.
fn lines_that_were_left_out_are_counted_once_somebody_reads() {
    let node = Node::ready().without_marker();
    let (mut reader, writer) = pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    let process = start(node.wait().args(["--log-level", "trace"]), writer);
    // Each wake-up logs a whole look, of which less than one fits.
    for number in 0..20 {
        node.write(&format!("{DRIVERS}/.wake"), number.to_string());
        node.set_marker();
        node.remove(support::MARKER);
        thread::sleep(Duration::from_millis(15));
    }
    fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    let until = Instant::now() + LIMIT;
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains("log lines were dropped") {
        if String::from_utf8_lossy(&text).contains(NO_INOTIFY) {
            return skip(NO_INOTIFY);
        }
        assert!(Instant::now() < until, "{}", String::from_utf8_lossy(&text));
        let _ = reader.read_to_end(&mut text);
        node.set_marker();
        node.remove(support::MARKER);
        thread::sleep(Duration::from_millis(15));
    }
    process.signal(Signal::SIGTERM);
    fcntl(&reader, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    let draining = thread::spawn(move || reader.read_to_end(&mut text).map(|_| text));
    ends(process, 143);
    let text = String::from_utf8(draining.join().unwrap().unwrap()).unwrap();
    // What fitted is whole.
    for line in text.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|_| panic!("a line was cut: {line}"));
    }
}

fn a_full_socket_on_standard_error_delays_nothing() {
    let node = Node::ready();
    let (_reader, mut writer) = UnixStream::pair().unwrap();
    writer.set_nonblocking(true).unwrap();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    writer.set_nonblocking(false).unwrap();
    let stderr = std::os::fd::OwnedFd::from(writer);
    ends(start(node.wait().args(["--settle", "0s"]), stderr), 0);
}

// ---- a file system that does not answer

/// A node whose MOFED directory does not answer.
fn hung_node() -> Option<(Node, Hung)> {
    let node = Node::ready();
    node.remove(DRIVERS);
    let hung = Hung::over(node.path(DRIVERS))?;
    Some((node, hung))
}

fn said(command: &mut Command) -> (i32, String) {
    let begun = Instant::now();
    let output = output(command);
    assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (support::code(output.status), said)
}

fn a_look_that_hangs_does_not_delay_the_deadline() {
    let Some((node, _hung)) = hung_node() else { return };
    let log = node.path("last-words");
    let (code, said) =
        said(node.wait().args(["--timeout", "300ms", "--settle", "0s", "--termination-log"]).arg(&log));
    assert_eq!(code, 124, "{said}");
    let hung = "has hung in the kernel";
    assert!(said.contains(hung), "{said}");
    assert!(said.contains("findmnt"), "no remedy: {said}");
    assert!(fs::read_to_string(log).unwrap().contains(hung));
}

fn a_look_that_hangs_does_not_delay_a_signal() {
    let Some((node, _hung)) = hung_node() else { return };
    for (verb, mut command, _) in stays(&node).into_iter().chain([("check", node.check(), 143)]) {
        let process = start(&mut command, Stdio::null());
        let worker = support::child_of(process.pid());
        hangs(worker.as_raw());
        process.signal(Signal::SIGTERM);
        note!("{verb}");
        ends(process, 143);
    }
}

/// Once the kernel says that it waits for an answer.
fn hangs(pid: i32) {
    let until = Instant::now() + LIMIT;
    let place = || fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    while !place().contains("request_wait_answer") {
        assert!(Instant::now() < until, "it does not hang, but is in {:?}", place());
        thread::sleep(Duration::from_millis(1));
    }
}

fn a_look_that_hangs_opens_where_the_deadline_is_to_open() {
    let Some((node, _hung)) = hung_node() else { return };
    let mut wait = node.wait();
    wait.args(["--timeout", "300ms", "--settle", "0s", "--on-timeout", "proceed", "--", "touch"]);
    let (code, said) = said(wait.arg(node.path("opened")));
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("OPEN ALTHOUGH NOT READY"), "{said}");
    assert!(node.path("opened").exists());
}

fn an_output_that_hangs_does_not_delay_the_deadline_or_the_opening() {
    for (node, ends_with) in [(Node::ready().without_marker(), 124), (Node::ready(), 0)] {
        let Some(_hung) = Hung::over(node.path("metrics")) else { return };
        let mut wait = node.wait();
        wait.args(["--timeout", "1s", "--settle", "0s", "--metrics-file"])
            .arg(node.path("metrics/gate.prom"));
        let (code, said) = said(wait.args(["--", "touch"]).arg(node.path("opened")));
        assert_eq!(code, ends_with, "{said}");
        assert_eq!(node.path("opened").exists(), ends_with == 0);
        assert!(said.contains("its file system does not answer") && said.contains("findmnt"), "{said}");
    }
}

/// The gate ends in time although it cannot write its termination log.
fn a_termination_log_that_hangs_does_not_delay_the_deadline_or_a_signal() {
    let node = Node::ready().without_marker();
    let Some(_hung) = Hung::over(node.path("log")) else { return };
    let wait = || {
        let mut wait = node.wait();
        wait.args(["--settle", "0s", "--termination-log"]).arg(node.path("log/last-words"));
        wait
    };
    let process = start(wait().args(["--timeout", "300ms"]), Stdio::null());
    ends(process, 124);
    let process = start(&mut wait(), Stdio::null());
    support::child_of(process.pid());
    process.signal(Signal::SIGTERM);
    ends(process, 143);
}

/// It sleeps and has no worker that lives. On a busy machine it reaps the worker before anyone sees that one.
fn only_prints(supervisor: Pid) -> bool {
    let is = |pid: &str, state: &str| {
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(state))
    };
    let pid = supervisor.to_string();
    let children = || fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let has_ended = |child: &str| is(child, ") Z ") || !Path::new("/proc").join(child).exists();
    // Before it has a worker it never sleeps.
    is(&pid, ") S ") && children().split_whitespace().all(has_ended) && is(&pid, ") S ")
}

fn an_answer_that_nobody_reads_does_not_delay_a_signal() {
    let node = Node::ready();
    for verb in ["check", "doctor"] {
        let (_reader, stdout) = full_pipe();
        let mut command = gate();
        command.arg(verb).arg("--root").arg(node.root());
        let process =
            Process::new(command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null()).spawn().unwrap());
        support::until("the supervisor only prints", || only_prints(process.pid()));
        process.signal(Signal::SIGTERM);
        note!("{verb}");
        ends(process, 143);
    }
}

tests![
    a_full_standard_error_does_not_delay_a_signal,
    a_full_standard_error_does_not_delay_the_deadline,
    a_full_standard_error_does_not_delay_the_opening,
    the_gate_does_not_change_the_flags_of_standard_error,
    lines_that_were_left_out_are_counted_once_somebody_reads,
    a_full_socket_on_standard_error_delays_nothing,
    a_look_that_hangs_does_not_delay_the_deadline,
    a_look_that_hangs_does_not_delay_a_signal,
    a_look_that_hangs_opens_where_the_deadline_is_to_open,
    an_output_that_hangs_does_not_delay_the_deadline_or_the_opening,
    a_termination_log_that_hangs_does_not_delay_the_deadline_or_a_signal,
    an_answer_that_nobody_reads_does_not_delay_a_signal,
];
