// SPDX-License-Identifier: Apache-2.0
//! Every verb that stays, in every state that can last, at rest: it sleeps. Each node is a tree of tests/nodes, and
//! all of them are watched at once.

use crate::fixture;
use crate::fixture::Variant;
use crate::support::{self, Gate, apart_from_others, clean, note, tests};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// States of a node that nothing ends but an event.
const NODES: [&str; 26] = [
    "clean-boot",
    "doctor-nic-without-driver",
    "doctor-peermem-in-use",
    "fabric-umad-missing",
    "half-swapped",
    "headers-missing",
    "headers-one-symbol",
    "host-mofed-late",
    "in-tree-without-marker",
    "kernel-release-unreadable",
    "lock-holder-hidden",
    "locks-unreadable",
    "marker-directory-missing",
    "marker-is-a-directory",
    "mlx5-core-loading",
    "modules-garbled",
    "no-nic",
    "no-pci",
    "no-proc-modules",
    "openibd-restarting",
    "rdma-not-requested",
    "ready-with-lock",
    "stale-marker-lock-free",
    "symbol-missing",
    "version-mismatch",
    "witnesses-disagree",
];

const VERBS: [&[&str]; 5] =
    [&["wait"], &["wait", "--peermem"], &["wait", "--for", "any"], &["load"], &["keep"]];

/// Longer than the safety net's five seconds, twice.
const WATCHED: Duration = Duration::from_secs(10);
/// The contract's 15 looks and glances a minute, and those that the start causes: module files, more watches, and
/// what comes or goes is looked at soon again.
const WAKES: u64 = 15 * WATCHED.as_secs() / 60 + 6;
/// A twentieth. What spins beside a few others gets far more, and what is at rest takes a hundredth of that.
const CPU: Duration = Duration::from_millis(500);

/// A verb on a node, and what it had cost when it was counted first.
struct Sleeper {
    name: String,
    gate: Gate,
    before: Option<Cost>,
}

/// What its processes have taken so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) wakes: u64,
    pub(crate) cpu: Duration,
}

impl Cost {
    /// `None` of one that ends.
    pub(crate) fn of(gate: &Gate) -> Option<Self> {
        let mut cost = Self::default();
        let workers = gate.workers_now();
        workers.first()?;
        for pid in [gate.pid()].into_iter().chain(workers) {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let wakes = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            cost.wakes += wakes.trim().parse::<u64>().expect("a number");
            let schedstat = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
            let cpu = schedstat.split(' ').next().expect("a time");
            cost.cpu += Duration::from_nanos(cpu.parse().expect("a number"));
        }
        Some(cost)
    }
}

/// The verb on this node, wherever the verb takes its places from.
fn on(node: &fixture::Node, verb: &[&str]) -> Command {
    let mut command = clean(Command::new(support::GATE));
    command.args(verb).args(["--log-format", "json", "--heartbeat", "1h", "--settle", "100ms"]);
    command.envs(node.variables().iter().cloned());
    if verb != ["keep"] {
        command.args(["--timeout", "none"]);
    }
    if verb[0] == "wait" {
        command.arg("--root").arg(node.root());
        return command;
    }
    support::with_places(&mut command, node.root()).arg("--driver-root").arg(node.root()).env("PATH", "/bin");
    command
}

fn each_verb_sleeps_in_every_state_that_can_last() {
    let described = |name: &'static str| {
        let node = fixture::Node::described(&fixture::nodes().join(name).join("node"), Variant::Faulty);
        for program in ["modprobe", "rmmod"] {
            fs::create_dir_all(node.path("bin")).expect("a directory");
            // To be found, and never run.
            let program = node.path("bin").join(program);
            fs::write(&program, "#!/nowhere\n").expect("a file");
            fs::set_permissions(program, Permissions::from_mode(0o755)).expect("a mode");
        }
        (name, node)
    };
    let begun = Instant::now();
    let nodes: Vec<_> = NODES.into_iter().map(described).collect();
    let mut all = Vec::new();
    for (name, node) in &nodes {
        for verb in VERBS {
            let Some(mut gate) = apart_from_others(&on(node, verb)) else { return };
            let gate = Gate::start(&mut gate);
            all.push(Sleeper { name: format!("{} on {name}", verb.join(" ")), gate, before: None });
        }
    }
    // Once it has said what it waits for, or has ended.
    for sleeper in &mut all {
        sleeper.gate.says_something();
    }
    note!("the start took {:?}", begun.elapsed());
    let begun = Instant::now();
    all.retain_mut(|sleeper| {
        sleeper.before = Cost::of(&sleeper.gate);
        sleeper.before.is_some()
    });
    // One that was about to open is not at rest.
    all.retain_mut(|sleeper| !sleeper.gate.process().ends_within(WATCHED.saturating_sub(begun.elapsed())));
    let mut restless = Vec::new();
    for sleeper in &all {
        let (before, after) = sleeper.before.zip(Cost::of(&sleeper.gate)).expect("it runs");
        let (wakes, cpu) = (after.wakes - before.wakes, after.cpu.saturating_sub(before.cpu));
        note!("{wakes:5} wakes {cpu:10.3?} {}", sleeper.name);
        if wakes > WAKES || cpu > CPU {
            restless.push(format!("{}: {wakes} wakes, {cpu:?}", sleeper.name));
        }
    }
    if std::env::var_os("CALLS").is_some() {
        count_calls(&all);
    }
    assert!(restless.is_empty(), "of {} that rest, in {WATCHED:?}: {restless:#?}", all.len());
    assert!(all.len() > 80, "only {} stay", all.len());
}

/// Prints how many system calls each makes in a minute, with strace: `CALLS=yes cargo test --test scratch rest:: --
/// --nocapture`.
fn count_calls(all: &[Sleeper]) {
    const COUNTED: u64 = 20;
    let trace = |sleeper: &Sleeper| {
        let mut strace = Command::new("timeout");
        strace.args(["-s", "INT", &COUNTED.to_string(), "strace", "-qq", "-c", "-U", "calls,name"]);
        for pid in [sleeper.gate.pid()].into_iter().chain(sleeper.gate.workers_now()) {
            strace.arg("-p").arg(pid.to_string());
        }
        strace.stderr(Stdio::piped()).spawn().expect("strace")
    };
    let traced: Vec<_> = all.iter().map(|sleeper| (&sleeper.name, trace(sleeper))).collect();
    for (name, child) in traced {
        let said = child.wait_with_output().expect("an end").stderr;
        let said = String::from_utf8_lossy(&said).into_owned();
        let total =
            said.lines().find_map(|line| line.trim().strip_suffix(" total")?.trim().parse::<u64>().ok());
        println!("{:6} calls a minute: {name}", total.unwrap_or_default() * 60 / COUNTED);
    }
}

tests![each_verb_sleeps_in_every_state_that_can_last,];
