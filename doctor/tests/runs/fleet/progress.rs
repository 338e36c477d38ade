// SPDX-License-Identifier: Apache-2.0
//! The line on a terminal while reports are still read. They come through a FIFO, so the test decides how long.

use crate::support::{GATE, LIMIT, Process, can, until};
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// To the line's beginning, and all of the line erased.
const CLEAR: &str = "\r\x1b[K";
/// ^S and ^Q.
const STOP: &[u8] = b"\x13";
const GO_ON: &[u8] = b"\x11";

/// `fleet` below `script`, which gives it a terminal.
struct Shown {
    _dir: tempfile::TempDir,
    answer: PathBuf,
    reports: Option<File>,
    process: Process,
    keyboard: std::process::ChildStdin,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Shown {
    /// `command` is the shell's, where FLEET stands for the call of `fleet`.
    fn start(command: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let [fifo, answer] = ["fifo", "answer"].map(|name| dir.path().join(name));
        mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        // Read as well as written, so neither side waits for the other to open it.
        let reports = OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
        let line = command.replace("FLEET", &format!("{GATE} fleet {}", fifo.display()));
        let mut script = Command::new("script");
        script.args(["-qefc", &line, "/dev/null"]).current_dir(dir.path());
        script.env_remove("COLUMNS").env("TERM", "xterm");
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (keyboard, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, screen) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut buffer) {
                let _ = sender.send(buffer[..read].to_vec());
            }
        });
        let process = Process::new(child);
        Self { _dir: dir, answer, reports: Some(reports), process, keyboard, screen, seen: String::new() }
    }

    /// A terminal that is stopped (^S) once it shows the line.
    fn stopped(command: &str) -> Self {
        let mut shown = Self::start(command);
        shown.feed(has_line);
        shown.keyboard.write_all(STOP).unwrap();
        shown.feed(|_, spent| spent > Duration::from_millis(500));
        drop(shown.reports.take());
        shown
    }

    /// Feeds empty lines until the screen has these words, or as long as asked.
    fn feed(&mut self, is_enough: impl Fn(&str, Duration) -> bool) {
        let started = Instant::now();
        while !is_enough(&self.seen, started.elapsed()) {
            assert!(started.elapsed() < LIMIT, "{:?}", self.seen);
            self.reports.as_ref().unwrap().write_all(b"\n").unwrap();
            if let Ok(bytes) = self.screen.recv_timeout(Duration::from_millis(20)) {
                self.seen += &String::from_utf8_lossy(&bytes);
            }
        }
    }

    /// The reports end, and so does `fleet`.
    fn ended(mut self) -> String {
        drop(self.reports.take());
        self.process.ended();
        while let Ok(bytes) = self.screen.recv_timeout(LIMIT) {
            self.seen += &String::from_utf8_lossy(&bytes);
        }
        self.seen
    }
}

fn has_line(seen: &str, _: Duration) -> bool {
    seen.contains("reading: 1 file, 0 MB, ")
}

pub(crate) fn a_terminal_shows_that_reports_are_still_read_until_the_answer() {
    if !can(&["script", "--version"]) {
        return;
    }
    let mut shown = Shown::start("FLEET");
    shown.feed(has_line);
    let seen = shown.ended();
    let (lines, answer) = seen.rsplit_once(CLEAR).expect("the line is cleared");
    assert!(lines.starts_with(CLEAR) && !lines.contains('\n'), "{seen:?}");
    assert!(!answer.contains("reading: ") && !answer.trim().is_empty(), "{seen:?}");
}

pub(crate) fn a_stopped_terminal_keeps_no_answer_waiting() {
    if !can(&["script", "--version"]) {
        return;
    }
    let mut shown = Shown::stopped("FLEET >answer; echo >ended");
    let ended = shown.answer.with_file_name("ended");
    until("the program ends although its terminal is stopped", || ended.exists());
    assert!(is_answer(&shown.answer));
    shown.keyboard.write_all(GO_ON).unwrap();
    shown.ended();
}

/// The terminal took no more when the line was to be cleared.
pub(crate) fn a_stopped_terminal_gets_its_line_cleared_before_the_answer() {
    if !can(&["script", "--version"]) {
        return;
    }
    let mut shown = Shown::stopped("FLEET");
    let fifo = shown.answer.with_file_name("fifo");
    let has_reader =
        || OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&fifo).is_ok();
    until("the reports are read", || !has_reader());
    shown.keyboard.write_all(GO_ON).unwrap();
    let seen = shown.ended();
    let (_, answer) = seen.rsplit_once(CLEAR).expect("the line is cleared");
    assert!(!answer.contains("reading: ") && !answer.trim().is_empty(), "{seen:?}");
}

/// A terminal with TOSTOP stops a background job that writes to it.
pub(crate) fn a_job_in_the_background_draws_no_line_and_goes_on() {
    if !can(&["script", "--version"]) {
        return;
    }
    let mut shown = Shown::start("set -m; stty tostop; FLEET >answer & wait; echo >ended");
    shown.feed(|_, spent| spent > Duration::from_millis(1500));
    drop(shown.reports.take());
    let ended = shown.answer.with_file_name("ended");
    until("the job ends", || ended.exists());
    assert!(is_answer(&shown.answer));
    assert!(!shown.ended().contains("reading"));
}

/// An editor's shell, or a log that calls itself a terminal, shows the codes.
pub(crate) fn a_dumb_terminal_gets_no_line() {
    if !can(&["script", "--version"]) {
        return;
    }
    let mut shown = Shown::start("TERM=dumb FLEET");
    shown.feed(|_, spent| spent > Duration::from_millis(1500));
    assert!(!shown.ended().contains("reading"));
}

pub(crate) fn what_is_no_terminal_gets_no_line() {
    if !can(&["script", "--version"]) {
        return;
    }
    let mut shown = Shown::start("FLEET 2>errors >answer");
    // Longer than a terminal waits for its line.
    shown.feed(|_, spent| spent > Duration::from_millis(1500));
    let (errors, answer) = (shown.answer.with_file_name("errors"), shown.answer.clone());
    drop(shown.reports.take());
    until("the answer is written", || is_answer(&answer));
    assert!(!fs::read_to_string(errors).unwrap().contains("reading"), "{:?}", shown.seen);
    assert!(!shown.ended().contains("reading"));
}

fn is_answer(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| !text.is_empty())
}
