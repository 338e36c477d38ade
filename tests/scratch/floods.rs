// SPDX-License-Identifier: Apache-2.0
//! What any pod or user of a node can have very many of: a look takes as many system calls beside it. They are
//! counted, because a time says little on a busy machine.

use crate::keeping;
use crate::reasons::verb;
use crate::support::hung::apart;
use crate::support::{
    self, DRIVERS, Gate, MARKER, Node, can_mount, can_trace, note, output, tests, until, wrapped,
};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType};
use nix::sys::socket::{sendto, socket};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

type Flood = (&'static str, fn(&Node));

const MANY: usize = 4_000;
/// Calls that a flood may add.
const MORE: usize = 60;

const FLOODS: [Flood; 5] = [
    ("files beside the marker", |node| {
        (0..MANY).for_each(|number| node.write(&format!("{DRIVERS}/{number}"), ""));
    }),
    ("files beside the headers", |node| {
        (0..MANY).for_each(|number| node.write(&format!("{DRIVERS}/usr/src/ofa_kernel/{number}"), ""));
    }),
    ("open files of a process", |node| {
        (0..MANY).for_each(|number| node.write(&format!("proc/4000/fd/{number}"), ""));
    }),
    ("others' locks", |node| {
        let mofeds = fs::read_to_string(node.path("proc/locks")).expect("locks");
        let line = |at| format!("{at}: POSIX  ADVISORY  WRITE 4000 00:2a:{at} {at} {at}\n");
        node.write("proc/locks", (2..=3 * MANY).map(line).collect::<String>() + &mofeds);
    }),
    ("processes", |node| {
        (10_000..10_000 + MANY).for_each(|pid| node.write(&format!("proc/{pid}/comm"), "x\n"));
    }),
];

/// The system calls of one look, by strace.
fn calls_of_a_look(look: &Command) -> Option<usize> {
    let mut look = wrapped(["strace", "-f", "-qq", "-c", "-U", "calls,name"], look);
    let said = look.args(["--timeout", "0s"]).output().ok()?.stderr;
    let said = String::from_utf8_lossy(&said).into_owned();
    said.lines().find_map(|line| line.trim().strip_suffix(" total")?.trim().parse().ok())
}

fn a_look_takes_as_many_calls_beside_a_flood() {
    let plain = calls_of_a_look(&Node::ready().wait()).expect("a number");
    for (what, flood) in FLOODS {
        let node = Node::ready();
        flood(&node);
        let calls = calls_of_a_look(&node.wait()).expect("a number");
        note!("{calls} calls beside {what}, {plain} without");
        assert!(calls < plain + MORE, "{calls} calls beside {what}, {plain} without");
    }
}

/// Lines of a shell that mount a directory below itself: twice as many mounts each time.
fn mounts(directory: &Path, times: u32) -> String {
    let directory = directory.display();
    let doubled = (1..=times).map(|number| format!(" && mkdir -p {number} && mount --rbind . {number}"));
    let doubled: String = doubled.collect();
    format!("mkdir -p {directory} && mount -t tmpfs none {directory} && cd {directory}{doubled} && cd /")
}

/// The mount that a file is on is searched for in a list of all mounts.
fn a_look_takes_as_many_calls_beside_very_many_mounts() {
    let node = Node::ready();
    let path = |relative: &str| node.path(relative);
    let look = || {
        let mut look = support::gate();
        support::with_places(look.args(["wait", "--log-format", "json"]), node.root());
        look
    };
    let plain = calls_of_a_look(&look()).expect("a number");
    let script = format!("{} && exec \"$@\"", mounts(&path("mounts"), 12));
    let trace = path("trace").display().to_string();
    let by = ["unshare", "-m", "sh", "-c", &script, "sh", "strace", "-f", "-qq", "-o", &trace];
    assert!(output(wrapped(by, &look()).args(["--timeout", "0s"])).status.success(), "it opens");
    let calls = fs::read_to_string(trace).expect("a trace").lines().count();
    note!("{calls} calls beside 4,096 mounts, {plain} without");
    assert!(calls < plain + MORE, "{calls} calls beside 4,096 mounts, {plain} without");
}

/// strace beside the process of a gate that looks.
struct Traced {
    strace: Child,
    trace: PathBuf,
    begun: Instant,
}

impl Traced {
    fn of(gate: &Gate, node: &Node) -> Self {
        let trace = node.path("trace");
        let mut strace = Command::new("strace");
        strace.arg("-o").arg(&trace).arg("-p").arg(gate.worker().to_string()).stderr(Stdio::piped());
        let mut strace = strace.spawn().expect("strace");
        let mut said = String::new();
        let read = BufReader::new(strace.stderr.as_mut().expect("a pipe")).read_line(&mut said);
        assert!(read.is_ok() && said.contains("attached"), "{said}");
        Self { strace, trace, begun: Instant::now() }
    }

    /// The looks so far, each of which opens the list of modules, and all calls until the last of them does.
    fn calls(&self) -> (usize, usize) {
        const LOOK: &str = "proc/modules\"";
        let trace = fs::read_to_string(&self.trace).unwrap_or_default();
        let looked = &trace[..trace.rfind(LOOK).unwrap_or(0)];
        (looked.lines().count(), trace.matches(LOOK).count())
    }

    fn has_looked(&self, times: usize) {
        until("looks", || self.calls().1 >= times);
    }

    /// The calls of a look, and the looks.
    fn ended(mut self) -> (usize, usize, Duration) {
        let lasted = self.begun.elapsed();
        let pid = Pid::from_raw(self.strace.id().try_into().expect("a pid"));
        kill(pid, Signal::SIGINT).expect("it runs");
        self.strace.wait().expect("an end");
        let (calls, looks) = self.calls();
        (calls / looks.max(1), looks, lasted)
    }
}

/// The calls of a look that something asks for.
fn calls_of_an_asked_look(gate: &Gate, node: &Node, ask: impl Fn()) -> usize {
    const LOOKS: usize = 6;
    let traced = Traced::of(gate, node);
    while traced.calls().1 < LOOKS {
        let (_, before) = traced.calls();
        ask();
        traced.has_looked(before + 1);
    }
    traced.ended().0
}

/// It searches for the module's users meanwhile, in a process of its own.
fn a_keeper_whose_module_is_in_use_takes_as_many_calls_beside_a_flood() {
    let mut plain = None;
    for (what, flood) in [("nothing", (|_| ()) as fn(&Node))].into_iter().chain(FLOODS) {
        let Some(place) = keeping::Place::new() else { return };
        let mut keep = verb(&place, "keep", &[]);
        keep.logs("loaded: ");
        flood(&place.node);
        place.uses(1);
        place.node.remove(MARKER);
        keep.logs("in use");
        let pid = keep.pid();
        let calls =
            calls_of_an_asked_look(&keep, &place.node, || kill(pid, Signal::SIGHUP).expect("it runs"));
        let plain = *plain.get_or_insert(calls);
        note!("{calls} calls beside {what}, {plain} without");
        assert!(calls < plain + MORE, "{calls} calls beside {what}, {plain} without");
    }
}

/// A socket that the kernel's uevents could come from.
fn kernel() -> OwnedFd {
    let protocol = SockProtocol::NetlinkKObjectUEvent;
    socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol).expect("a socket")
}

/// A module comes. What finds a socket full is lost.
fn comes(kernel: &OwnedFd) {
    let group = NetlinkAddr::new(0, 1);
    let _ = sendto(kernel.as_raw_fd(), b"add@/module/flood\0", &group, MsgFlags::empty());
}

type Storm = (&'static str, fn(&Gate, &Node));

const STORMS: [Storm; 2] = [
    ("modules that come", |_, _| {
        let kernel = kernel();
        (0..MANY).for_each(|_| comes(&kernel));
    }),
    ("mounts", |gate, node| {
        let directory = node.path("mounts");
        let script = format!("{} && umount -R {}", mounts(&directory, 8), directory.display());
        let mut storm = Command::new("nsenter");
        storm.args(["-m", "-t", &gate.pid().to_string(), "sh", "-c", &script]);
        assert!(output(&mut storm).status.success(), "mounted");
    }),
];

/// However many events come, there are ten milliseconds between two looks.
fn a_storm_of_events_causes_few_looks_of_as_many_calls() {
    const PACE: Duration = Duration::from_millis(10);
    /// Events that are taken before a look: when the first comes, and after the pause.
    const TAKEN: usize = 2 * 64;
    for (what, storm) in STORMS {
        let node = Node::ready().without_marker();
        let mut gate = Gate::start(&mut wrapped(["unshare", "-m"], &node.wait()));
        gate.logs("MarkerAbsent");
        let kernel = kernel();
        let plain = calls_of_an_asked_look(&gate, &node, || comes(&kernel));
        let traced = Traced::of(&gate, &node);
        storm(&gate, &node);
        traced.has_looked(1);
        let (calls, looks, lasted) = traced.ended();
        note!("{what}: {looks} looks in {lasted:?}, {calls} calls each, {plain} without");
        assert!(calls < plain + MORE + TAKEN, "{what}: {calls} calls of a look, {plain} without");
        let most = lasted.as_millis() / PACE.as_millis() + 2;
        assert!(looks as u128 <= 2 * most, "{what}: {looks} looks in {lasted:?}");
    }
}

tests![
    if can_trace if can_mount if apart [a_storm_of_events_causes_few_looks_of_as_many_calls],
    if can_trace [
        a_look_takes_as_many_calls_beside_a_flood,
        a_keeper_whose_module_is_in_use_takes_as_many_calls_beside_a_flood,
    ],
    if can_trace if can_mount [a_look_takes_as_many_calls_beside_very_many_mounts],
];
