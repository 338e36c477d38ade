// SPDX-License-Identifier: Apache-2.0
//! The gate beside what people use in its place, all in one run: `cargo bench --bench beside [-- --svg FILE]`.
//!
//! Each waits for MOFED's marker on a node on which all else is ready, and becomes a CMD that reports the time of its
//! first instruction. Wants the static binary, gcc, strace, dash and bash, and better inotifywait; takes four
//! minutes.

mod contenders;
#[path = "../../tests/support/picture.rs"]
mod picture;
#[path = "../../tests/support/plot.rs"]
mod plot;
#[path = "../../tests/support/mod.rs"]
mod support;

use contenders::{Arena, Contender};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use picture::percentile;
use std::collections::HashSet;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

/// Of what hears events, and of all where the marker is there already.
const RUNS: usize = 100;
/// Of what polls, all at once.
const POLLS: u32 = 50;
const WAITERS: u32 = 1000;
/// Twice as long as who polls may sleep, in milliseconds.
const LIMIT: u16 = 10_000;
const IDLE_SECONDS: u64 = 60;

/// What was measured of one contender.
struct Row {
    contender: Contender,
    /// Milliseconds from the marker's creation to CMD's first instruction.
    reaction: Vec<f64>,
    /// Milliseconds from the start to CMD's first instruction where the marker is there.
    ready: Vec<f64>,
    /// System calls a minute, children's included.
    calls: usize,
    /// Milliseconds of processor time a minute, children's included.
    processor: f64,
    crowd: Crowd,
}

/// A thousand at once.
struct Crowd {
    /// KiB for each, shared pages shared out.
    memory: f64,
    /// Milliseconds from the marker's creation to CMD's first instruction.
    reaction: Vec<f64>,
    /// So many opened without a marker.
    early: usize,
}

fn main() {
    let Some(arena) = Arena::new() else { return };
    let contenders: Vec<_> = Contender::ALL.into_iter().filter(|contender| contender.is_here()).collect();
    let mut rows: Vec<_> = contenders.iter().map(|contender| row(&arena, *contender)).collect();
    for _ in 0..RUNS {
        // In turn, so what disturbs one disturbs all.
        for row in &mut rows {
            row.ready.push(already_ready(&arena, row.contender));
            if !row.contender.polls() {
                row.reaction.extend(reactions(&arena, row.contender, 1, Duration::from_millis(30)));
            }
        }
    }
    for (row, idle) in rows.iter_mut().zip(idle(&arena, &contenders)) {
        (row.calls, row.processor) = idle;
    }
    print(&rows);
    if let Some(file) = svg_file() {
        fs::write(&file, svg(&rows)).expect("a picture");
    }
}

/// With what is not measured in turns.
fn row(arena: &Arena, contender: Contender) -> Row {
    let reaction = if contender.polls() {
        reactions(arena, contender, POLLS, Duration::from_secs(6))
    } else {
        Vec::new()
    };
    let crowd = crowd(arena, contender);
    Row { contender, reaction, ready: Vec::new(), calls: 0, processor: 0.0, crowd }
}

fn svg(rows: &[Row]) -> String {
    let plot = plot::Plot {
        title: "Time until CMD's first instruction",
        panels: &["marker set → CMD's first instruction", "already ready: start → CMD's first instruction"],
        decades: -1..=4,
        names: 190.0,
    };
    let contenders = rows.iter().map(|Row { contender, reaction, ready, .. }| plot::Contender {
        name: contender.name(),
        is_gate: *contender == Contender::Gate,
        times: vec![reaction, ready],
    });
    plot.svg(&contenders.collect::<Vec<_>>())
}

fn svg_file() -> Option<PathBuf> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--svg");
    arguments.nth(1).map(PathBuf::from)
}

/// Seconds, by the clock that CMD reads.
fn now() -> f64 {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock"));
    now.as_secs_f64()
}

/// A waiter, in a process group of its own: what it has started goes with it.
struct Waiter {
    child: Child,
    pipe: ChildStdout,
}

impl Waiter {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).process_group(0).spawn().expect("it runs");
        let pipe = child.stdout.take().expect("a pipe");
        Self { child, pipe }
    }

    /// The time of CMD's first instruction; `None` where it came to none. Who begins to watch after the marker came
    /// would wait for good.
    fn first_instruction(&mut self) -> Option<f64> {
        let mut time = [0; 16];
        let mut pipe = [PollFd::new(self.pipe.as_fd(), PollFlags::POLLIN)];
        poll(&mut pipe, PollTimeout::from(LIMIT)).ok().filter(|count| *count > 0)?;
        self.pipe.read_exact(&mut time).ok()?;
        let (seconds, nanoseconds) = time.split_at(8);
        let number = |bytes: &[u8]| i64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        #[expect(clippy::cast_precision_loss, reason = "exact to a microsecond")]
        Some(number(seconds) as f64 + number(nanoseconds) as f64 / 1e9)
    }

    fn group(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().expect("a pid"))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let _ = killpg(self.group(), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// Milliseconds from the start to CMD's first instruction.
fn already_ready(arena: &Arena, contender: Contender) -> f64 {
    arena.node.set_marker();
    let started = now();
    let mut waiter = Waiter::start(&mut arena.command(contender));
    (waiter.first_instruction().expect("it opens") - started) * 1000.0
}

/// Milliseconds from the marker's creation to CMD's first instruction, of so many that have waited so long.
fn reactions(arena: &Arena, contender: Contender, count: u32, wait: Duration) -> Vec<f64> {
    let _ = fs::remove_file(arena.marker());
    // Those that poll are not to do so in step.
    let apart = (wait / count).min(Duration::from_millis(100));
    let start = |_| {
        let waiter = Waiter::start(&mut arena.command(contender));
        thread::sleep(if count > 1 { apart } else { wait });
        waiter
    };
    let mut waiters: Vec<_> = (0..count).map(start).collect();
    let created = now();
    arena.node.set_marker();
    waiters
        .iter_mut()
        .map(|waiter| (waiter.first_instruction().expect("it opens") - created) * 1000.0)
        .collect()
}

/// Many wait on one marker.
fn crowd(arena: &Arena, contender: Contender) -> Crowd {
    let _ = fs::remove_file(arena.marker());
    let start = |_| Waiter::start(&mut arena.command(contender));
    let mut waiters: Vec<_> = (0..WAITERS).map(start).collect();
    // The last of them are asleep by then, on a slow machine too.
    thread::sleep(Duration::from_secs(3));
    let groups: HashSet<_> = waiters.iter().map(|waiter| waiter.child.id()).collect();
    let memory = memory_of(&groups) / f64::from(WAITERS);
    let created = now();
    arena.node.set_marker();
    let opened = waiters.iter_mut().filter_map(Waiter::first_instruction).map(|at| (at - created) * 1000.0);
    let (reaction, early): (Vec<_>, Vec<_>) = opened.partition(|ms| *ms >= 0.0);
    Crowd { memory, reaction, early: early.len() }
}

/// KiB of all processes of these groups.
fn memory_of(groups: &HashSet<u32>) -> f64 {
    let processes = glob::glob("/proc/[0-9]*").expect("a pattern").flatten();
    let memory = |process: PathBuf| -> Option<f64> {
        let stat = fs::read_to_string(process.join("stat")).ok()?;
        // PID (COMM) STATE PPID PGRP
        let group = stat.rsplit_once(')')?.1.split(' ').nth(3)?.parse().ok()?;
        let rollup =
            fs::read_to_string(process.join("smaps_rollup")).ok().filter(|_| groups.contains(&group))?;
        rollup.lines().find_map(|line| line.strip_prefix("Pss:")?.trim().trim_end_matches(" kB").parse().ok())
    };
    processes.filter_map(memory).sum()
}

/// System calls and milliseconds of processor time in a minute of waiting for nothing, of all of them at once.
fn idle(arena: &Arena, contenders: &[Contender]) -> Vec<(usize, f64)> {
    let _ = fs::remove_file(arena.marker());
    let scratch = tempfile::tempdir().expect("a directory");
    let log = |contender: &Contender| scratch.path().join(format!("{contender:?}"));
    let strace = |contender: &Contender| {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o"]).arg(log(contender));
        Waiter::start(wrap(&mut command, &arena.command(*contender)))
    };
    let usage = |contender: &Contender| {
        let mut command = Command::new(arena.program("usage"));
        command.arg((IDLE_SECONDS + 2).to_string());
        Waiter::start(wrap(&mut command, &arena.command(*contender)))
    };
    let traced: Vec<_> = contenders.iter().map(strace).collect();
    let mut used: Vec<_> = contenders.iter().map(usage).collect();
    let lines =
        |contender: &Contender| fs::read_to_string(log(contender)).map_or(0, |log| log.lines().count());
    // What it does at its start is not idleness.
    thread::sleep(Duration::from_secs(2));
    let before: Vec<_> = contenders.iter().map(lines).collect();
    thread::sleep(Duration::from_secs(IDLE_SECONDS));
    let calls: Vec<_> =
        contenders.iter().map(lines).zip(before).map(|(after, before)| after - before).collect();
    drop(traced);
    let processor = used.iter_mut().map(|waiter| {
        let mut text = String::new();
        waiter.pipe.read_to_string(&mut text).expect("a text");
        text.trim().parse::<f64>().expect("microseconds") / 1000.0
    });
    calls.into_iter().zip(processor).collect()
}

/// The command line of one run by another.
fn wrap<'a>(by: &'a mut Command, command: &Command) -> &'a mut Command {
    by.arg(which(command.get_program().to_str().expect("a plain path"))).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => by.env(name, value),
            None => by.env_remove(name),
        };
    }
    by.stdin(Stdio::null()).stderr(Stdio::null())
}

/// usage(1) of our own knows no PATH.
fn which(program: &str) -> String {
    let found = Command::new("which").arg(program).output().expect("which runs");
    String::from_utf8(found.stdout).expect("a plain path").trim().to_owned()
}

fn print(rows: &[Row]) {
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").unwrap_or_default();
    println!("fs.inotify.max_user_instances: {}\n", limit.trim());
    println!(
        "| | reaction: ms | already ready: ms | idle, a minute: system calls | processor: ms | of {WAITERS} at once, KiB each | opened, and without a marker | reaction: ms, and the last |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for row in rows {
        let Row { reaction, ready, calls, processor, crowd, .. } = row;
        println!(
            "| {} | {} | {} | {calls} | {processor:.1} | {:.0} | {}, {} | {:.0}, {:.0} |",
            row.contender.name(),
            spread(reaction),
            spread(ready),
            crowd.memory,
            crowd.reaction.len(),
            crowd.early,
            percentile(&crowd.reaction, 50),
            percentile(&crowd.reaction, 100),
        );
    }
    let [gate, dnotify, dash] = [Contender::Gate, Contender::Dnotify, Contender::Dash]
        .map(|wanted| rows.iter().find(|row| row.contender == wanted));
    if let (Some(gate), Some(dnotify), Some(dash)) = (gate, dnotify, dash) {
        let ratio = |ours: &[f64], theirs: &[f64]| percentile(ours, 50) / percentile(theirs, 50);
        println!(
            "\nreaction: {:.1} times dnotify's; already ready: {:.1} times dash's",
            ratio(&gate.reaction, &dnotify.reaction),
            ratio(&gate.ready, &dash.ready)
        );
    }
}

/// The median, and in brackets the 10th and the 90th percentile.
fn spread(times: &[f64]) -> String {
    let [median, low, high] = [50, 10, 90].map(|percent| percentile(times, percent));
    let digits = if median < 100.0 { 2 } else { 0 };
    format!("{median:.digits$} ({low:.digits$} to {high:.digits$})")
}
