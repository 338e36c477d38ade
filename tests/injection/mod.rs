// SPDX-License-Identifier: Apache-2.0
//! System calls that fail: each call that a program makes, at each of its occurrences, with each errno that is
//! plausible for it, by strace's injection.
//!
//! `cargo test` takes a sample, spread over all of them; `FAULTS=all cargo test --test faults -- --nocapture` takes
//! all, which is a day, and `FAULTS=500` so many of each case.

use crate::support::{code, note, output, wrapped};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use std::{env, fs};

/// So many of each case's faults are tried where `FAULTS` is not set.
const SAMPLE: usize = 30;

/// Far more than what is run here takes: what takes longer hangs.
const AT_MOST: Duration = Duration::from_secs(20);

/// Calls that cannot fail, or whose failure is the system's way to say that there is no memory or no program.
const LEFT_OUT: [&str; 25] = [
    "arch_prctl",
    "getegid",
    "geteuid",
    "getgid",
    "getpid",
    "getppid",
    "gettid",
    "getuid",
    "brk",
    "execve",
    "exit",
    "exit_group",
    "mmap",
    "futex",
    "mprotect",
    "mremap",
    "munmap",
    "rseq",
    // timeout(1) would end the tests' own group.
    "setpgid",
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

/// One call that fails once, in each process that makes it so often.
#[derive(Debug)]
#[allow(dead_code, reason = "not every test file tries them by itself")]
pub(crate) struct Fault {
    pub(crate) call: String,
    pub(crate) errno: &'static str,
    pub(crate) occurrence: usize,
}

fn traced(options: &[String], trace: &Path, program: &Command) -> Command {
    let by = ["strace", "-f", "-qq", "-o"].map(str::to_owned).into_iter();
    let by = by.chain([trace.display().to_string()]).chain(options.iter().cloned());
    wrapped(by, program)
}

/// What a program ends with where one call fails, and the calls that did.
pub(crate) fn with_fault(call: &str, errno: &str, occurrence: usize, program: &Command) -> (Output, String) {
    let trace = tempfile::NamedTempFile::new().expect("a file");
    let option = format!("inject={call}:error={errno}:when={occurrence}");
    let ended = output(&mut traced(&["-e".to_owned(), option], trace.path(), program));
    let text = String::from_utf8_lossy(&fs::read(trace.path()).expect("a trace")).into_owned();
    let failed: Vec<_> = text.lines().filter(|line| line.contains("(INJECTED)")).collect();
    (ended, failed.join("\n"))
}

/// How often it makes each of its calls where nothing fails, in the process that makes most of them.
fn calls(program: &Command) -> BTreeMap<String, usize> {
    let trace = tempfile::NamedTempFile::new().expect("a file");
    output(&mut traced(&[], trace.path(), program));
    let mut calls: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let text = fs::read(trace.path()).expect("a trace");
    let text = String::from_utf8_lossy(&text);
    for line in text.lines() {
        let call = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let pid = &line[..line.len() - call.len()];
        let Some((name, _)) = call.trim_start().split_once('(') else { continue };
        if !name.contains(' ') && !LEFT_OUT.contains(&name) {
            *calls.entry((name, pid)).or_default() += 1;
        }
    }
    let mut most: BTreeMap<String, usize> = BTreeMap::new();
    for ((name, _), count) in calls {
        let so_far = most.entry(name.to_owned()).or_default();
        *so_far = count.max(*so_far);
    }
    most
}

/// The faults to try of those that this program can have: so many, if `FAULTS` does not say how many.
pub(crate) fn faults(program: &Command, sample: usize) -> Vec<Fault> {
    let of = |(call, count): (String, usize)| {
        errnos(&call).iter().flat_map(move |errno| {
            let call = call.clone();
            (1..=count).map(move |occurrence| Fault { call: call.clone(), errno, occurrence })
        })
    };
    let faults: Vec<_> = calls(program).into_iter().flat_map(of).collect();
    let wanted = match env::var("FAULTS").as_deref() {
        Ok("all") => faults.len(),
        Ok(number) => number.parse().expect("FAULTS is a number, or all"),
        Err(_) => sample,
    };
    let step = faults.len().div_ceil(wanted).max(1);
    note!("every {step}. of {} faults", faults.len());
    faults.into_iter().step_by(step).collect()
}

/// Runs the program with every fault. `wrong` says what is wrong with an ending.
pub(crate) fn inject(program: impl Fn() -> Command, wrong: impl Fn(&Output) -> Option<String>) {
    let mut all = Vec::new();
    let mut codes: BTreeMap<i32, usize> = BTreeMap::new();
    for Fault { call, errno, occurrence } in faults(&program(), SAMPLE) {
        let started = Instant::now();
        let (ended, failed) = with_fault(&call, errno, occurrence, &program());
        *codes.entry(code(ended.status)).or_default() += 1;
        let errors = String::from_utf8_lossy(&ended.stderr);
        // Not the program yet: the static build has no loader.
        if errors.contains("error while loading shared libraries") {
            continue;
        }
        let what = if errors.contains("please report") || errors.contains("panicked") {
            Some("it panicked".to_owned())
        } else if started.elapsed() > AT_MOST {
            Some(format!("it hung for {:?}", started.elapsed()))
        } else {
            wrong(&ended)
        };
        all.extend(
            what.map(|what| format!("number {occurrence}, {failed}: {what}; {}: {errors}", ended.status)),
        );
    }
    note!("exit codes, and how often: {codes:?}");
    assert!(all.is_empty(), "{} of {}:\n{}", all.len(), codes.values().sum::<usize>(), all.join("\n"));
}

/// An ending with any other exit code is wrong.
#[allow(dead_code, reason = "not every test file judges by the code alone")]
pub(crate) fn only(codes: &[i32]) -> impl Fn(&Output) -> Option<String> {
    |ended| (!codes.contains(&code(ended.status))).then(|| "a wrong exit code".to_owned())
}
