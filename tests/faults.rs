// SPDX-License-Identifier: Apache-2.0
//! System calls that fail: each call that a wait makes, at each of its occurrences, with each errno that is plausible
//! for it, by strace's injection. A node that is not ready is never opened, nothing hangs, and nothing panics.
//!
//! `cargo test` takes a sample, spread over all of them; `FAULTS=all cargo test --test faults -- --nocapture` takes
//! all, which is an hour, and `FAULTS=500` so many of each tree.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, fs};
use support::{Node, can, note, output, suite, wrapped};

/// So many of each tree's faults are tried where `FAULTS` is not set.
const SAMPLE: usize = 60;

/// Far more than the wait's own 300 ms: what takes longer hangs.
const AT_MOST: Duration = Duration::from_secs(20);

/// Calls that cannot fail, or whose failure is the system's way to say that there is no memory or no program.
const LEFT_OUT: [&str; 19] = [
    "arch_prctl",
    "getpid",
    "getppid",
    "gettid",
    "brk",
    "execve",
    "exit",
    "exit_group",
    "mmap",
    "mprotect",
    "mremap",
    "munmap",
    "rseq",
    "rt_sigaction",
    "rt_sigreturn",
    "set_robust_list",
    "set_tid_address",
    "sigaltstack",
    "restart_syscall",
];

/// What a call may fail with. Not ENOENT: what is said not to be there is not there.
fn errnos(call: &str) -> &'static [&'static str] {
    match call {
        "open" | "openat" | "openat2" => &["EACCES", "EIO", "EMFILE", "ENFILE", "ENOMEM", "ELOOP"],
        "read" | "pread64" | "readv" | "getdents64" => &["EIO", "EINTR", "EISDIR", "ENOMEM"],
        "stat" | "lstat" | "fstat" | "newfstatat" | "statx" | "readlink" | "readlinkat" | "access"
        | "faccessat2" => &["EACCES", "EIO", "ENOMEM"],
        "inotify_init" | "inotify_init1" | "inotify_add_watch" => &["EMFILE", "ENOSPC", "ENOMEM", "EACCES"],
        "poll" | "ppoll" => &["EINTR", "ENOMEM"],
        "write" | "writev" | "sendto" | "sendmsg" => &["EAGAIN", "EPIPE", "ENOSPC", "EIO"],
        "fork" | "vfork" | "clone" | "clone3" => &["EAGAIN", "ENOMEM"],
        "wait4" | "waitid" | "close" => &["EINTR"],
        "socket" | "socketpair" | "bind" | "pipe2" | "signalfd4" | "fcntl" | "dup" | "dup3" => {
            &["EMFILE", "EPERM", "EACCES"]
        }
        _ => &["EPERM", "ENOSYS"],
    }
}

/// One call that fails once.
#[derive(Debug)]
struct Fault {
    call: String,
    errno: &'static str,
    occurrence: usize,
}

fn wait(node: &Node) -> Command {
    let mut wait = node.wait();
    wait.args(["--settle", "10ms", "--timeout", "300ms"]);
    wait
}

fn traced(options: &[String], trace: &Path, node: &Node) -> Command {
    let by = ["strace", "-f", "-qq", "-o"].map(str::to_owned).into_iter();
    let by = by.chain([trace.display().to_string()]).chain(options.iter().cloned());
    wrapped(by, &wait(node))
}

/// How often the wait makes each of its calls where nothing fails.
fn calls(node: &Node) -> BTreeMap<String, usize> {
    let trace = node.path("trace");
    output(&mut traced(&[], &trace, node));
    let mut calls = BTreeMap::new();
    for line in fs::read_to_string(trace).expect("a trace").lines() {
        let call = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        let Some((name, _)) = call.split_once('(').filter(|(name, _)| !name.contains(' ')) else { continue };
        if !LEFT_OUT.contains(&name) {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    calls
}

fn faults(node: &Node) -> Vec<Fault> {
    let of = |(call, count): (String, usize)| {
        errnos(&call).iter().flat_map(move |errno| {
            let call = call.clone();
            (1..=count).map(move |occurrence| Fault { call: call.clone(), errno, occurrence })
        })
    };
    let faults: Vec<_> = calls(node).into_iter().flat_map(of).collect();
    let wanted = match env::var("FAULTS").as_deref() {
        Ok("all") => faults.len(),
        Ok(number) => number.parse().expect("FAULTS is a number, or all"),
        Err(_) => SAMPLE,
    };
    let step = faults.len().div_ceil(wanted).max(1);
    note!("every {step}. of {} faults", faults.len());
    faults.into_iter().step_by(step).collect()
}

/// Every fault on this node; `is_right` judges the exit code.
fn inject(node: &Node, is_right: fn(i32) -> bool) {
    if !can(&["strace", "true"]) {
        return;
    }
    let mut wrong = Vec::new();
    let mut codes: BTreeMap<i32, usize> = BTreeMap::new();
    for fault in faults(node) {
        let option = format!("inject={}:error={}:when={}", fault.call, fault.errno, fault.occurrence);
        let started = Instant::now();
        let ended = output(&mut traced(&["-e".to_owned(), option], &node.path("trace"), node));
        let code = support::code(ended.status);
        *codes.entry(code).or_default() += 1;
        let said = String::from_utf8_lossy(&ended.stderr);
        // Not the gate yet: the static build has no loader.
        if said.contains("error while loading shared libraries") {
            continue;
        }
        let panics = said.contains("please report") || said.contains("panicked");
        if panics || !is_right(code) || started.elapsed() > AT_MOST {
            wrong.push(format!("{fault:?}: {code} after {:?}: {said}", started.elapsed()));
        }
    }
    note!("exit codes, and how often: {codes:?}");
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), codes.values().sum::<usize>(), wrong.join("\n"));
}

/// It may open, give up, or say that it cannot run.
fn failing_calls_on_a_ready_node_end_in_words() {
    inject(&Node::ready(), |code| [0, 2, 124, 125].contains(&code));
}

/// The kernel may have no memory for a moment, and the wait goes on.
fn a_poll_for_which_there_is_no_memory() {
    if !can(&["strace", "true"]) {
        return;
    }
    let node = Node::ready();
    for occurrence in 1..=4 {
        let option = format!("inject=poll:error=ENOMEM:when={occurrence}");
        let ended = output(&mut traced(&["-e".to_owned(), option], &node.path("trace"), &node));
        assert_eq!(support::code(ended.status), 0, "{}", String::from_utf8_lossy(&ended.stderr));
    }
}

fn is_closed(code: i32) -> bool {
    [2, 124, 125].contains(&code)
}

fn failing_calls_open_no_node_without_a_marker() {
    inject(&Node::ready().without_marker(), is_closed);
}

fn failing_calls_open_no_node_with_the_kernels_own_modules() {
    inject(&Node::ready().in_tree(), is_closed);
}

fn failing_calls_open_no_node_without_headers() {
    inject(&Node::ready().without(support::SYMVERS), is_closed);
}

fn main() -> ExitCode {
    suite![
        a_poll_for_which_there_is_no_memory,
        failing_calls_on_a_ready_node_end_in_words,
        failing_calls_open_no_node_without_a_marker,
        failing_calls_open_no_node_with_the_kernels_own_modules,
        failing_calls_open_no_node_without_headers
    ]
}
