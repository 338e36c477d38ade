// SPDX-License-Identifier: Apache-2.0
//! The machine that `tests/vm/build` makes, booted by `tests/vm/boot`.
//!
//! A scenario leaves lines `@SECONDS KIND TEXT`, timed by the guest's boot clock.
#![allow(dead_code, reason = "every test file is a crate of its own and uses its part of this")]

use nix::sys::memfd::{MFdFlags, memfd_create};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// One line of a scenario's.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Seconds since the guest's boot.
    pub(crate) at: f64,
    pub(crate) kind: String,
    pub(crate) text: String,
}

impl Line {
    /// `@SECONDS KIND TEXT`; everything else is the kernel's or a tool's.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (at, rest) = line.strip_prefix('@')?.split_once(' ')?;
        let (kind, text) = rest.split_once(' ').unwrap_or((rest, ""));
        Some(Self { at: at.parse().ok()?, kind: kind.into(), text: text.into() })
    }
}

/// The program under test: `GATE_BINARY`, or the static release build.
pub(crate) fn gate() -> PathBuf {
    let built =
        || repository().join(format!("target/{}-unknown-linux-musl/release/peermem-gate", architecture()));
    env::var_os("GATE_BINARY").map_or_else(built, PathBuf::from)
}

/// Why nothing can be booted here.
pub(crate) fn missing(gate: &Path) -> Option<String> {
    if !made().join("stamp").exists() {
        return Some("no machine to boot: tests/vm/build makes it".into());
    }
    for program in [gate.to_owned(), gate.with_file_name("peermem-doctor")] {
        if !program.exists() {
            return Some(format!("no static binary at {}", program.display()));
        }
    }
    let qemu = format!("qemu-system-{}", architecture());
    if Command::new(&qemu).arg("--version").stdout(Stdio::null()).status().is_err() {
        return Some(format!("no {qemu}"));
    }
    None
}

/// Of the machine, as uname(2) has it.
pub(crate) fn architecture() -> String {
    fs::read_to_string(made().join("architecture"))
        .map_or_else(|_| "x86_64".into(), |text| text.trim().into())
}

/// Where `tests/vm/build` left the machine: `MACHINE` is another kernel's (tests/kernels).
pub(crate) fn made() -> PathBuf {
    env::var_os("MACHINE").map_or_else(|| repository().join("target/vm"), PathBuf::from)
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Lines of a machine that are shown if it does not end.
const LAST: usize = 40;

/// Two machines at a time: each keeps a processor busy.
static FREE: (Mutex<usize>, Condvar) = (Mutex::new(2), Condvar::new());

struct Slot;

impl Slot {
    fn take() -> Self {
        let free = FREE.0.lock().expect("no panic while held");
        *FREE.1.wait_while(free, |free| *free == 0).expect("no panic while held") -= 1;
        Self
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *FREE.0.lock().expect("no panic while held") += 1;
        FREE.1.notify_one();
    }
}

/// Killed whichever way the test ends: `boot` has become qemu, so the child is the machine.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Plays a scenario (a name, or a path) to its end; every line that the machine says goes to `heard`. What is left to
/// chance in it, `seed` decides.
pub(crate) fn boot(scenario: &str, gate: &Path, seed: u32, silence: Duration, heard: impl FnMut(&str)) {
    let _slot = Slot::take();
    let said = listen(start(command(scenario, gate).env("BOOT_SEED", seed.to_string())), silence, heard);
    end(&said.unwrap_or_else(|failed| panic!("{scenario}: {failed}")), scenario);
}

/// Plays a scenario on this machine, as many at a time as the caller likes. It may reset the
/// machine, once it has said `reboots` or `cut`: the machine boots again then, with the disk that it had. An error
/// says what a machine that did not end said last.
pub(crate) fn play(
    machine: &Path,
    scenario: &str,
    gate: &Path,
    silence: Duration,
    mut heard: impl FnMut(&str),
) -> Result<(), String> {
    // The child inherits it.
    let ram = memfd_create(c"ram", MFdFlags::empty()).expect("memory");
    let mut after = 0.0;
    loop {
        let mut command = command(scenario, gate);
        command.env("MACHINE", machine).env("BOOT_RAM", format!("/proc/self/fd/{}", ram.as_raw_fd()));
        command.env("BOOT_AFTER", format!("{after:.0}"));
        let (mut is_reset, mut last) = (false, 0.0);
        let said = listen(start(&mut command), silence, |line| {
            heard(line);
            if let Some(line) = Line::parse(line) {
                is_reset |= matches!(line.kind.as_str(), "reboots" | "cut");
                last = line.at;
            }
        })?;
        if !is_reset {
            end(&said, scenario);
            return Ok(());
        }
        after += last;
    }
}

fn command(scenario: &str, gate: &Path) -> Command {
    let mut command = Command::new(repository().join("tests/vm/boot"));
    command.arg(scenario).arg(gate).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

fn start(command: &mut Command) -> Machine {
    Machine(command.spawn().expect("tests/vm/boot can be run"))
}

/// What a machine says until its end; the last of it comes back. It is taken for hung after so much silence: a busy
/// host may take any time for what the machine's clock counts. An error says that, or how the machine failed.
fn listen(
    mut machine: Machine,
    silence: Duration,
    mut heard: impl FnMut(&str),
) -> Result<VecDeque<String>, String> {
    let mut deadline = Instant::now() + silence;
    let console = BufReader::new(machine.0.stdout.take().expect("a pipe"));
    let (sender, receiver) = mpsc::channel();
    // Ends with the machine: its end of the pipe closes.
    thread::spawn(move || console.split(b'\n').map_while(Result::ok).try_for_each(|line| sender.send(line)));

    let mut said: VecDeque<String> = VecDeque::with_capacity(LAST);
    let failed = loop {
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                let line = String::from_utf8_lossy(&line);
                let line = line.trim_end();
                heard(line);
                if Line::parse(line).is_some() {
                    deadline = Instant::now() + silence;
                }
                if said.len() == LAST {
                    said.pop_front();
                }
                said.push_back(line.to_owned());
            }
            // A guest that panics resets the machine, which ends with success: another status is the machine's own.
            Err(RecvTimeoutError::Disconnected) => match machine.0.wait().expect("a child") {
                status if status.success() => return Ok(said),
                status => break format!("the machine itself failed ({status})"),
            },
            Err(RecvTimeoutError::Timeout) => break format!("nothing for {silence:?}"),
        }
    };
    Err(format!("{failed}; it said last:\n{}", said.make_contiguous().join("\n")))
}

/// The scenario's last line has to say that it came to a good end.
fn end(said: &VecDeque<String>, scenario: &str) {
    let last = said.iter().rev().find_map(|line| Line::parse(line));
    let is_good = last.is_some_and(|line| (line.kind.as_str(), line.text.as_str()) == ("end", "0"));
    assert!(is_good, "{scenario} did not come to a good end; the machine said last:\n{said:#?}");
}
