// SPDX-License-Identifier: Apache-2.0
//! A test harness that can say "ignored" of a test that finds out, while it runs, that it cannot be run here. The
//! standard one would say "ok". A test program uses it with `harness = false` in Cargo.toml and functions without
//! `#[test]`: each of its files ends with `tests![first, second];`, and its `main` hands all of them to [`run`]. The
//! compiler warns of a function that the list leaves out.

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use nix::sys::signal::Signal;
use std::cell::{Cell, RefCell};
use std::os::unix::process::CommandExt;
use std::process::{self, Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, fs, panic};

/// What tests show is shown at once (`--nocapture`), also of those that pass.
static SHOWS_ALL: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// A test of [`run`]'s is on this thread.
    static CAN_SKIP: Cell<bool> = const { Cell::new(false) };
    /// Why the test on this thread cannot be run here.
    static SKIPPED: Cell<Option<String>> = const { Cell::new(None) };
    /// What the test on this thread shows when it fails; `None` where it shows all at once.
    static NOTES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// These functions as tests, named after their module and themselves. Those of a group are run `if` this is true, and
/// `on` what that makes; where it cannot be had, it has said why:
/// `suite![[first, second], if can_mount [third], on Place::new [fourth]]`.
#[allow(unused_macros, reason = "every test program is a crate of its own, and some have no suite")]
macro_rules! suite {
    ($($(if $can:ident)* $(on $new:path)? [$($test:path),+ $(,)?]),+ $(,)?) => {
        std::iter::empty()$(.chain($crate::support::suite::group!(($(if $can)* $(on $new)?) $($test),+)))+
            .collect::<Vec<_>>()
    };
    ($($test:path),+ $(,)?) => {
        $crate::support::suite::group!(() $($test),+)
    };
}
#[allow(unused_imports, reason = "the same")]
pub(crate) use suite;

/// One group of a suite.
#[allow(unused_macros, reason = "the same")]
macro_rules! group {
    ($given:tt $($test:path),+) => {
        $crate::support::suite::trials(
            module_path!(),
            &[$((stringify!($test), (|| $crate::support::suite::given!($given $test)) as fn())),+],
        )
    };
}
#[allow(unused_imports, reason = "the same")]
pub(crate) use group;

/// Runs a test where that can be had which its group asks for.
#[allow(unused_macros, reason = "the same")]
macro_rules! given {
    (() $test:path) => {
        $test()
    };
    ((if $can:ident $($more:tt)*) $test:path) => {
        if $can() {
            $crate::support::suite::given!(($($more)*) $test)
        }
    };
    ((on $new:path) $test:path) => {
        if let Some(mut it) = $new() {
            #[allow(clippy::unnecessary_mut_passed, reason = "few tests change what they are given")]
            $test(&mut it)
        }
    };
}
#[allow(unused_imports, reason = "the same")]
pub(crate) use given;

/// The same as all tests of a file, which hands them to its program's `main`: `tests![first, second];` at its end.
#[allow(unused_macros, reason = "the same")]
macro_rules! tests {
    ($($suite:tt)+) => {
        pub(crate) fn tests() -> Vec<libtest_mimic::Trial> {
            $crate::support::suite![$($suite)+]
        }
    };
}
#[allow(unused_imports, reason = "the same")]
pub(crate) use tests;

/// Tests of `module`: below the root of the test program its name begins theirs.
pub(crate) fn trials(module: &str, tests: &[(&str, fn())]) -> Vec<Trial> {
    let prefix = module.split_once("::").map_or_else(String::new, |(_, module)| format!("{module}::"));
    let trial = |&(name, test): &(&str, fn())| {
        Trial::ignorable_test(format!("{prefix}{name}"), move || {
            CAN_SKIP.set(true);
            SKIPPED.set(None);
            NOTES.set((!SHOWS_ALL.load(Ordering::Relaxed)).then(Vec::new));
            let ended = panic::catch_unwind(test);
            let notes = NOTES.take().unwrap_or_default().join("\n");
            match (ended, SKIPPED.take()) {
                (Err(_), _) => Err(Failed::from(notes)),
                (Ok(()), Some(reason)) => Ok(Completion::ignored_with(reason)),
                (Ok(()), None) => Ok(Completion::Completed),
            }
        })
    };
    tests.iter().map(trial).collect()
}

/// Runs those that the command line asks for, `threads` at a time where they mostly wait. The options are the
/// standard harness's.
pub(crate) fn run(tests: Vec<Trial>, threads: Option<usize>) -> ExitCode {
    heed_signals();
    let (first, filters) = filters(env::args().collect());
    let mut arguments = Arguments::from_iter(first);
    let is_asked = |test: &Trial| {
        let name = test.name();
        filters.is_empty()
            || filters
                .iter()
                .any(|filter| if arguments.exact { name == filter } else { name.contains(filter) })
    };
    let tests = tests.into_iter().filter(is_asked).collect();
    arguments.test_threads = arguments.test_threads.or(threads);
    SHOWS_ALL.store(arguments.nocapture, Ordering::Relaxed);
    panic::set_hook(Box::new(|panicked| keep_note(&panicked.to_string())));
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// The command line without its filters, and these: the standard harness takes several, and libtest-mimic one.
fn filters(args: Vec<String>) -> (Vec<String>, Vec<String>) {
    const WITH_VALUE: [&str; 5] = ["--test-threads", "--skip", "--logfile", "--color", "--format"];
    let (mut others, mut filters) = (Vec::new(), Vec::new());
    for arg in args {
        let is_value = others.last().is_none_or(|last: &String| WITH_VALUE.contains(&last.as_str()));
        if is_value || arg.starts_with('-') { others.push(arg) } else { filters.push(arg) }
    }
    (others, filters)
}

/// Under nohup SIGHUP is ignored, and so it is in every child: no gate would heed it. A process gives signals their
/// default back only by unsafe code, so this one becomes itself by way of env(1).
fn heed_signals() {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0").trim();
    let ignored = u64::from_str_radix(mask, 16).unwrap_or_default();
    let exit = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];
    if exit.iter().all(|signal| ignored & 1 << (*signal as u64 - 1) == 0) {
        return;
    }
    let mut again = Command::new("env");
    again.arg("--default-signal=HUP,INT,QUIT,TERM").args(env::args_os());
    panic!("env cannot be run: {}", again.exec());
}

/// Shows a line as `println!` does, but only when the test fails, or with `--nocapture`.
macro_rules! note {
    ($($text:tt)*) => {
        $crate::support::suite::keep_note(&format!($($text)*))
    };
}
pub(crate) use note;

pub(crate) fn keep_note(line: &str) {
    let kept = NOTES.with_borrow_mut(|notes| notes.as_mut().map(|notes| notes.push(line.to_owned())));
    if kept.is_none() {
        println!("{line}");
    }
}

/// Says why a test cannot be run here, which is a failure where none may be skipped.
pub(crate) fn skip(reason: &str) {
    assert!(std::env::var_os("NO_SKIPPED_TESTS").is_none(), "must not be skipped: {reason}");
    set_aside(reason);
}

/// The same of a test that may be skipped everywhere.
pub(crate) fn set_aside(reason: &str) {
    if !CAN_SKIP.get() {
        // A benchmark, or a test of the standard harness, which would print "ok".
        eprintln!("cannot be run here: {reason}");
        process::exit(1);
    }
    keep_note(&format!("skipped: {reason}"));
    SKIPPED.set(Some(reason.to_owned()));
}
