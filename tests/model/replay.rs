// SPDX-License-Identifier: Apache-2.0
//! Lives of a real node (tests/soak.rs), replayed: is there a life of the model that leaves the same lines at the
//! same times? The model keeps every life that can have come to a line, and a line that none of them can leave
//! rejects the trace. So the gate must do what the production code does in the model, when it does it, and the others
//! must be as the model has them.
//!
//! What leaves no line may happen at any time that the model allows: a module that goes, a look, the end of a pod.

use super::driver::{Driver, Loads, Phase, Wait};
use super::eyes::Eyes;
use super::gated::{Gated, policy};
use super::keeper::{Keeper, Setting};
use super::mofed::{self, Entrypoint, Mofed};
use super::node::{Abi, Node, Stack};
use super::said::{Words, generation};
use super::{Budget, Life, Pace, PeermemCtr, START, Span, Step, people};
use crate::machine::Line;
use peermem_gate::keeper::DRIVER_UNLOAD;
use peermem_gate::ready::gate::Policy;
use peermem_gate::ready::time::BootTime;
use std::cell::Cell;
use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

/// On the emulated machine of the lives: a look takes half a second, and so does a program's start beside others.
const SHORT: Pace = Pace {
    lag: Duration::from_millis(2_500),
    grain: Duration::from_millis(500),
    suspect_hold: Duration::from_secs(300),
    make: (Duration::from_secs(25), Some(Duration::from_secs(28))),
    restart: Duration::ZERO,
    nvidia: (Duration::ZERO, Some(Duration::from_secs(1))),
    leaves: (Duration::ZERO, Some(Duration::ZERO)),
    driver_unload: DRIVER_UNLOAD,
    mofed: as_in_lives,
    is_lawful: false,
};

pub(crate) static LIVES: Pace = SHORT;

/// With the whole list of symbols, a look beside two others takes 2.3 s on Ubuntu's 5.15. Its answer is too old then,
/// and the next one comes 0.7 s later.
pub(crate) static WHOLE_LISTS: Pace = Pace { lag: Duration::from_secs(3), ..SHORT };

/// tests/life/plan.rs decides how long each part takes: only the list of modules is short.
fn as_in_lives(mofed: &Mofed) -> Span {
    match mofed.phase {
        mofed::Phase::Unmarked | mofed::Phase::Listed(_) => (Duration::ZERO, Some(Duration::from_secs(2))),
        _ => (Duration::ZERO, None),
    }
}

/// More lives than this, and the trace says too little: it is explained up to there.
const MOST: usize = 8_000;

/// Seconds. A gate's opening is noted up to so long after its look, and the end of a reset after the driver's return.
const JUST_BEFORE: f64 = 0.1;

/// Whose lines are explained. All others' are taken as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who<'a> {
    /// The driver's pod, with the gate in this place (tests/life/plan.rs).
    Pod(&'a str),
    /// The gate that only waits, with this number.
    Watcher(&'a str),
}

/// A trace, explained.
#[derive(Debug, Default)]
pub(crate) struct Explained {
    /// So many lives were kept at most.
    pub(crate) most: usize,
    /// Only up to a moment that can have come about in more ways than are looked at.
    pub(crate) is_partial: bool,
}

/// Explains the trace of a life with the gate in this place, or says which line the model cannot explain. The pod and
/// those who only wait do nothing to each other, so each is explained for itself.
pub(crate) fn explain(place: &str, lines: &[Line], timing: &'static Pace) -> Result<Explained, String> {
    let watchers =
        lines.iter().filter(|line| line.kind == "started").filter_map(|line| line.text.strip_prefix("wait "));
    // The model has no pod beside the node's keeper.
    let pod = Some(Who::Pod(place)).filter(|_| !place.starts_with("node"));
    let all = watchers.map(Who::Watcher).chain(pod);
    all.map(|who| explain_one(who, lines, timing)).try_fold(Explained::default(), |all, one| {
        let one = one?;
        Ok(Explained { most: all.most.max(one.most), is_partial: all.is_partial || one.is_partial })
    })
}

fn explain_one(who: Who, lines: &[Line], pace: &'static Pace) -> Result<Explained, String> {
    let mut replay =
        Replay { who, lines, pace, at: 0, lives: Vec::new(), most: 0, has_too_many: Cell::new(false) };
    for (at, line) in lines.iter().enumerate().take_while(|(_, line)| !is_beyond(who, line)) {
        replay.at = at;
        if is_end_of_reset(line) {
            // Everybody may act then, the driver that comes back among them.
            let before = at.checked_sub(1).map_or(line.at, |last| lines[last].at);
            replay.reach(replay.time_at((line.at - JUST_BEFORE).max(before)));
        }
        replay.reach(replay.time(line));
        if replay.has_too_many.get() {
            break;
        }
        replay.hear(line).map_err(|why| format!("{who:?}: {why}"))?;
        replay.most = replay.most.max(replay.lives.len());
        if matches!(who, Who::Watcher(own) if line.text.starts_with(&format!("wait {own} "))) {
            break;
        }
    }
    Ok(Explained { most: replay.most, is_partial: replay.has_too_many.get() })
}

/// The replay has no boot and no suspend, the model no node where nothing is to be loaded, and none of its actors
/// stands still or is restarted by others: a life is explained up to there.
fn is_beyond(who: Who, line: &Line) -> bool {
    match line.kind.as_str() {
        "reboots" | "cut" | "suspends" => true,
        // The model's pods end without a preStop and a trap.
        "prestop" => matches!(who, Who::Pod(_)),
        "frozen" | "restarted" => {
            let (container, _) = words(line);
            container == "mofed"
                || match who {
                    Who::Pod(_) => matches!(container, "init" | "driver" | "sidecar"),
                    Who::Watcher(own) => container.strip_prefix("wait.") == Some(own),
                }
        }
        "lives" => ["nicless", "unrequested", "unmanaged"].iter().any(|node| line.text.ends_with(node)),
        _ => false,
    }
}

struct Replay<'a> {
    who: Who<'a>,
    lines: &'a [Line],
    pace: &'static Pace,
    /// The line that comes next.
    at: usize,
    /// All that can have come to it.
    lives: Vec<Life>,
    most: usize,
    /// The lives of a moment were more than are looked at.
    has_too_many: Cell<bool>,
}

fn hash(life: &Life) -> u64 {
    BuildHasherDefault::<DefaultHasher>::new().hash_one(life)
}

impl Replay<'_> {
    fn time(&self, line: &Line) -> BootTime {
        self.time_at(line.at)
    }

    /// Of these seconds on the machine's clock.
    fn time_at(&self, at: f64) -> BootTime {
        START + Duration::from_secs_f64(at - self.lines[0].at)
    }

    /// Time passes up to the next line. On the way only those act for whom a time has come; at a line, everybody may.
    fn reach(&mut self, until: BootTime) {
        let times = |life: &Life| [life.latest(), life.due(), unseen(life)].into_iter().flatten().min();
        loop {
            let next = self.lives.iter().filter_map(times).min().filter(|next| *next < until);
            let has_come = |life: &Life| next.is_some() && times(life) == next;
            let lives = std::mem::take(&mut self.lives);
            let (mut acting, others) = lives.into_iter().partition::<Vec<_>, _>(has_come);
            self.lives = others;
            let now = next.unwrap_or(until);
            self.lives.iter_mut().chain(&mut acting).for_each(|life| life.passes(now));
            if next.is_none() {
                break;
            }
            self.lives.extend(self.closure(acting, until));
        }
        let lives = std::mem::take(&mut self.lives);
        self.lives = self.closure(lives, BootTime::ZERO);
    }

    /// These lives, and all that can have happened at this moment without a line. A process of the gate's that can
    /// act now, and has to before the next line, acts now: nobody could tell.
    fn closure(&self, lives: Vec<Life>, next_line: BootTime) -> Vec<Life> {
        let mut known: HashSet<u64> = HashSet::new();
        let mut all: Vec<_> = lives.into_iter().filter(|life| known.insert(hash(life))).collect();
        let is_pods = matches!(self.who, Who::Pod(_));
        let has_more_pods = is_pods && self.lines[self.at..].iter().any(|line| line.kind == "pod");
        let (mut at, mut kept) = (0, Vec::new());
        while at < all.len() && all.len() < MOST {
            let life = &all[at];
            let (mut next, mut is_pending) = (Vec::new(), false);
            for step in life.steps() {
                let silent = self.silent_step(life, step);
                is_pending |= silent.is_some() && life.is_of_gate(step);
                next.extend(silent);
            }
            next.extend(life.driver.as_ref().filter(|_| has_more_pods).map(|_| without_pod(life)));
            next.extend(with_toolkit(life));
            next.extend(driver_is_back(life).filter(|_| self.next_of_reset() == Some("ends")));
            // Who had to act by now, and has left no line, is in no real life.
            let has_time =
                life.latest().is_none_or(|latest| latest > life.now && !(is_pending && latest < next_line));
            kept.push(has_time || next_line == BootTime::ZERO);
            all.extend(next.into_iter().filter(|life| known.insert(hash(life))));
            at += 1;
        }
        self.has_too_many.set(self.has_too_many.get() || all.len() >= MOST);
        kept.resize(all.len(), true);
        let mut kept = kept.into_iter();
        all.retain(|_| kept.next() == Some(true));
        all
    }

    fn hear(&mut self, line: &Line) -> Result<(), String> {
        if self.lives.is_empty() && line.kind == "life" {
            return Ok(());
        }
        let lives = std::mem::take(&mut self.lives);
        let (first, number) = words(line);
        let heard: Vec<_> = match (line.kind.as_str(), first, self.who) {
            _ if self.is_others(line) => lives.clone(),
            ("lives", stack, _) => vec![self.begins(stack)],
            ("person", ..) => lives.iter().flat_map(|life| [life.clone(), unloaded(life)]).collect(),
            ("unversioned", ..) => lives.iter().cloned().map(Life::unversioned).collect(),
            ("reset", what, _) => lives.iter().filter_map(|life| reset(life, what)).collect(),
            ("broken", ..) => lives.iter().filter(|life| life.node.stack.nic.is_none()).cloned().collect(),
            ("begun", entrypoint, _) => lives.iter().flat_map(|life| self.begun(life, entrypoint)).collect(),
            ("crashed", "toolkit", _) => lives.iter().flat_map(toolkit_crashes).collect(),
            ("unmarked" | "swap" | "ready" | "stopped" | "answered" | "crashed", ..)
            | ("failed", "collision" | "held", Who::Pod(_)) => leaves(&lives, line),
            ("built", "pod", _) => self.builds(&lives, line),
            ("opened", "pod", _) => self.opens(&lives, line),
            ("killed", ..) => {
                let is_down = |life: &&Life| life.mofed.phase == mofed::Phase::Down;
                lives.iter().filter(is_down).cloned().chain(leaves(&lives, line)).collect()
            }
            ("failed", ..) => lives.iter().filter_map(ended).collect(),
            ("started", "wait", _) => lives.iter().map(watches).collect(),
            ("opened", "wait", Who::Watcher(own)) if own == number => self.opens(&lives, &as_pod(line)),
            ("built", "wait", Who::Watcher(own)) if own == number => self.builds(&lives, &as_pod(line)),
            ("opened", "poll" | "grep", _) => marked(&lives),
            ("built", "wait" | "poll" | "grep", _) => {
                let is_near = self.is_near_reset(line);
                lives.iter().filter(|life| finds(life, line, is_near)).cloned().collect()
            }
            ("pod", kind, Who::Pod(place)) => lives
                .iter()
                .flat_map(|life| [Some(new_pod(life, place, kind)), pod_of_the_host(life, place)])
                .flatten()
                .collect(),
            ("started", "pod", _) => lives.iter().filter_map(starts_to_wait).collect(),
            ("started", "loader", Who::Pod(place)) => {
                lives.iter().flat_map(|life| starts_loader(life, place)).chain(leaves(&lives, line)).collect()
            }
            ("asked", ..) => lives.iter().filter(|life| life.is_asking()).cloned().collect(),
            // What must not be in a real life.
            ("never" | "stuck" | "ended", ..) => Vec::new(),
            _ => return Err(format!("tests/model/replay.rs does not know the line {line:?}: teach it")),
        };
        if heard.is_empty() {
            return Err(format!("line {}, {line:?}: {}", self.at, told(&lives)));
        }
        let next = self.lines.get(self.at + 1).map_or(BootTime::MAX, |next| self.time(next));
        self.lives = self.closure(heard, next);
        Ok(())
    }

    /// A line of the plan's or the harness's own, or of somebody who is not explained here.
    fn is_others(&self, line: &Line) -> bool {
        let (first, number) = words(line);
        let is_plans = match line.kind.as_str() {
            "life" | "done" | "rests" | "clock" | "left" | "rest" | "over" | "end" | "inspected"
            | "inserts" | "frozen" | "thawed" | "restarted" | "unloads" | "unload_failed" | "builds"
            | "upgraded" | "uninstalled" | "prestop" | "in_use" | "refused" | "probe_failed" | "declined"
            | "without_uvm" => true,
            "person" => first == "pod",
            "crashed" => first.starts_with("wait."),
            "started" | "opened" => first == "wait" && self.who != Who::Watcher(number),
            _ => false,
        };
        is_plans || matches!(self.who, Who::Watcher(_)) && is_pods(line)
    }

    /// A gate opens by what it sees now; or just after the end of a reset, if it has looked just before it.
    fn opens(&self, lives: &[Life], line: &Line) -> Vec<Life> {
        let mut opened = leaves(lives, line);
        let end = self.lines[..self.at].iter().rev().find(|earlier| is_end_of_reset(earlier));
        if end.is_some_and(|end| line.at - end.at <= JUST_BEFORE) {
            let away: Vec<_> = lives.iter().map(|life| with_nic(life, false)).collect();
            opened.extend(leaves(&away, line).iter().map(|life| with_nic(life, true)));
        }
        opened
    }

    /// A NIC leaves the bus just after the line that says so, and is back just before that: a build that asks then
    /// may find it or not.
    fn builds(&self, lives: &[Life], line: &Line) -> Vec<Life> {
        let mut built = leaves(lives, line);
        if self.is_near_reset(line) {
            let others: Vec<_> = lives.iter().map(|life| with_nic(life, !life.node.has_nic)).collect();
            built.extend(leaves(&others, line).iter().map(|life| with_nic(life, !life.node.has_nic)));
        }
        built
    }

    fn is_near_reset(&self, line: &Line) -> bool {
        let resets = self.lines.iter().filter(|other| other.kind == "reset");
        resets.into_iter().any(|reset| (reset.at - line.at).abs() <= JUST_BEFORE)
    }

    /// The next line of a reset.
    fn next_of_reset(&self) -> Option<&str> {
        self.lines[self.at..].iter().find(|line| line.kind == "reset").map(|line| line.text.as_str())
    }

    /// A step that leaves no line. A NIC that comes back leaves one, except in older traces; its driver never does.
    fn silent_step(&self, life: &Life, step: Step) -> Option<Life> {
        let is_back = step == Step::People(people::Step::Reset(false));
        silent(life, step).filter(|_| !is_back || self.next_of_reset() == Some("ends"))
    }

    fn begins(&self, stack: &str) -> Life {
        let mut node = Node::booted(Node::BARE);
        if stack == "none" {
            node.stack = Stack::default();
        }
        let budget = Budget { starts: u8::MAX, kills: u8::MAX, stops: u8::MAX, ..Budget::NONE };
        let mut life = Life { pace: self.pace, budget, ..Life::new(node, Mofed::new(mofed::Phase::Down)) };
        life.now = self.time(&self.lines[self.at]);
        life
    }

    /// The release is known when the container is ready; if it never is, it may be either.
    fn begun(&self, life: &Life, entrypoint: &str) -> Vec<Life> {
        let later = self.lines[self.at + 1..].iter().take_while(|line| line.kind != "begun");
        let ready = later.clone().find(|line| line.kind == "ready").map(|line| line.text.clone());
        let is_it = |abi: &Abi| ready.as_deref().is_none_or(|ready| ready == generation(*abi));
        let entrypoint = if entrypoint == "go" { Entrypoint::Go } else { Entrypoint::Bash };
        if life.mofed.phase != mofed::Phase::Down {
            return Vec::new();
        }
        let begins = |abi| {
            let mofed = Mofed { entrypoint, abi, ..life.mofed.clone() };
            Life { mofed, ..life.clone() }.take(Step::Mofed(mofed::Step::On))
        };
        [Abi::Old, Abi::New].into_iter().filter(is_it).map(begins).collect()
    }
}

/// The next time at which the driver may come to its next phase without a line, where a sidecar waits for that. Once
/// a second is often enough.
fn unseen(life: &Life) -> Option<BootTime> {
    let goes_on = |driver: &Driver| matches!(driver.phase, Phase::Started | Phase::Compiling(_));
    let is_awaited = life.keeper.as_ref().is_some_and(|keeper| !keeper.ends())
        && life.driver.as_ref().is_some_and(goes_on);
    is_awaited.then(|| BootTime::from_secs(life.now.as_secs() + 1))
}

/// The lives that leave this line now.
fn leaves(lives: &[Life], line: &Line) -> Vec<Life> {
    let next = |life: &Life| {
        let steps = life.steps().into_iter().filter(|step| *step != Step::Tick);
        let taken = steps.filter_map(|step| {
            let after = life.take(step);
            let (kind, text) = life.said(step, &after)?;
            is_said((kind, text), line).then(|| not_started(life, after))
        });
        taken.collect::<Vec<_>>()
    };
    lives.iter().flat_map(next).collect()
}

/// An answer's text is longer than the model's: `1 modprobe: ERROR: could not insert …: Invalid argument`.
fn is_said((kind, text): Words, line: &Line) -> bool {
    // Who got an answer stands at its end.
    let heard = line.text.split_once(" @").map_or(line.text.as_str(), |(heard, _)| heard);
    let mut words = text.splitn(2, ' ');
    let begins = heard.starts_with(words.next().unwrap_or_default());
    kind == line.kind
        && (heard == text
            || begins && words.next().is_some_and(|rest| heard.contains(rest))
            || kind == "killed"
            || matches!(kind, "failed" | "crashed") && begins)
}

/// This step, if it leaves no line.
fn silent(life: &Life, step: Step) -> Option<Life> {
    if step == Step::Tick {
        return None;
    }
    let after = life.take(step);
    life.said(step, &after).is_none().then(|| not_started(life, after))
}

/// A gate's process that is to start next leaves a line when it does.
fn not_started(before: &Life, mut after: Life) -> Life {
    let phase = |life: &Life| life.driver.as_ref().map(|driver| driver.phase);
    if phase(before) == phase(&after) {
        return after;
    }
    if let Some(driver) = &mut after.driver {
        let is_waiting = driver.is_waiting();
        driver.wait = match std::mem::replace(&mut driver.wait, Wait::Nobody) {
            Wait::Gate(gate) if is_waiting => Wait::Unstarted(gate),
            wait => wait,
        };
        if driver.phase == Phase::Loading && matches!(driver.loads, Loads::Gate(_)) {
            after.keeper = None;
        }
    }
    after
}

/// The first two words of its text.
fn words(line: &Line) -> (&str, &str) {
    let mut words = line.text.split(' ');
    (words.next().unwrap_or_default(), words.next().unwrap_or_default())
}

fn is_end_of_reset(line: &Line) -> bool {
    line.kind == "reset" && line.text == "ends"
}

fn is_pods(line: &Line) -> bool {
    matches!(line.kind.as_str(), "pod" | "asked" | "answered" | "crashed")
        || matches!(line.text.split(' ').next(), Some("pod" | "loader" | "keeper"))
}

/// The same line as if the pod had left it.
fn as_pod(line: &Line) -> Line {
    let rest = line.text.splitn(3, ' ').nth(2).map_or_else(String::new, |rest| format!(" {rest}"));
    Line { text: format!("pod{rest}"), ..line.clone() }
}

/// A loop that looks for the marker has found it.
fn marked(lives: &[Life]) -> Vec<Life> {
    lives.iter().filter(|life| life.node.marker.is_some()).cloned().collect()
}

/// A build finds these headers; without a NIC it finds none.
fn finds(life: &Life, built: &Line, is_near_reset: bool) -> bool {
    let found = built.text.rsplit(' ').next().unwrap_or_default();
    let Node { has_nic, headers, .. } = life.node;
    (has_nic || is_near_reset) && headers.map_or("stub", generation) == found
        || (!has_nic || is_near_reset) && found == "stub"
}

fn with_nic(life: &Life, has_nic: bool) -> Life {
    Life { node: Node { has_nic, ..life.node.clone() }, ..life.clone() }
}

/// The NIC is on the bus again: its driver follows.
fn driver_is_back(life: &Life) -> Option<Life> {
    let mut node = life.node.clone();
    node.nic_driver_is_back();
    let is_back = node.has_nic && node != life.node && !life.mofed.is_swapping();
    is_back.then(|| life.with(node))
}

/// MOFED's container ends by what the model does not have: storage modules, an insmod that fails.
fn ended(life: &Life) -> Option<Life> {
    (life.mofed.phase != mofed::Phase::Down).then(|| life.take(Step::Mofed(mofed::Step::Kill)))
}

/// A person may have unloaded the module.
fn unloaded(life: &Life) -> Life {
    let mut life = life.clone();
    life.node.unloads_peermem();
    life
}

/// The NIC leaves the bus, its driver goes, and both come back.
fn reset(life: &Life, what: &str) -> Option<Life> {
    let mut node = life.node.clone();
    match what {
        "begins" => node.has_nic = false,
        "takes" => node.stack.nic = None,
        "plugs" => node.has_nic = true,
        // They came back a moment before the line.
        _ => return node.has_nic.then(|| life.clone()),
    }
    Some(life.with(node))
}

impl Life {
    /// A process of the gate's takes it.
    fn is_of_gate(&self, step: Step) -> bool {
        match step {
            Step::Keeper(_) => true,
            Step::Driver(_) => self.driver.as_ref().is_some_and(Driver::is_waiting),
            Step::Mofed(_) | Step::PeermemCtr(_) | Step::People(_) | Step::Tick => false,
        }
    }

    /// The node is like this now.
    fn with(&self, node: Node) -> Self {
        let mut life = Self { node, ..self.clone() };
        life.wake_after(&self.node);
        life
    }
}

/// A gate of the lives.
fn waiter(life: &Life) -> Box<Gated> {
    let policy = Policy { timeout: Some(Duration::from_secs(1800)), ..policy(life.pace) };
    Box::new(Gated::new(life.now, Eyes::WAITER, policy, life.pace))
}

/// A gate that only waits begins, in the place of a pod's.
fn watches(life: &Life) -> Life {
    let gate = waiter(life);
    Life { driver: Some(Driver::new(Phase::Init, Wait::Gate(gate))), ..life.clone() }
}

/// The driver's pod with the gate in this place: tests/vm/guest/life/pod.
fn new_pod(life: &Life, place: &str, kind: &str) -> Life {
    let mut life = without_pod(life);
    life.unload_driver();
    let gate = || Wait::Unstarted(waiter(&life));
    let (wait, is_wrapped) = match place {
        "init" | "load" | "shim" | "keep" | "manager" => (gate(), false),
        "wrapper" => (gate(), true),
        "poll" | "grep" | "ctr" => (Wait::Manager, false),
        _ => (Wait::Nobody, false),
    };
    let loads = match place {
        "load" | "shim" => Loads::Gate(Box::new(loader(&life))),
        "keep" | "parallel" | "sidecar" => Loads::Nobody,
        "ctr" if kind.is_empty() => Loads::Nobody,
        "ctr" if kind != "ocp" => Loads::GoesOn,
        "retry" => Loads::Retry,
        _ => Loads::Modprobe,
    };
    life.peermem_ctr = (place == "ctr").then_some(PeermemCtr::Waits);
    life.driver = Some(Driver { is_wrapped, loads, has_own_root: false, ..Driver::new(Phase::Init, wait) });
    life
}

fn loader(life: &Life) -> Keeper {
    let setting = Setting { is_load: true, timeout: Some(Duration::from_secs(1800)), ..Setting::LOADER };
    Keeper::new(life.now, setting, life.pace)
}

/// A pod whose container starts again may be one of `OpenShift`'s, which builds no second time.
fn with_toolkit(life: &Life) -> Option<Life> {
    let is_other = |driver: &&Driver| driver.phase == Phase::Ended && !driver.has_toolkit;
    life.driver.as_ref().filter(is_other).map(|_| with_what_is_built(life.clone()))
}

/// The model has the files that the toolkit's container leaves, and not the container. If it is killed before it has
/// noted its build, it builds again after its restart.
fn toolkit_crashes(life: &Life) -> Vec<Life> {
    let mut again = life.clone();
    if let Some(driver) = again.driver.as_mut().filter(|driver| matches!(driver.phase, Phase::Compiling(_))) {
        driver.phase = Phase::Building;
        return vec![life.clone(), again];
    }
    vec![again]
}

/// Where the driver is the host's, a new pod takes what was built in an earlier one.
fn pod_of_the_host(life: &Life, place: &str) -> Option<Life> {
    life.node.files.driver.map(|_| with_what_is_built(new_pod(life, place, "host")))
}

fn with_what_is_built(mut life: Life) -> Life {
    life.node.files.toolkit = life.node.files.driver;
    if let Some(driver) = &mut life.driver {
        driver.has_toolkit = true;
    }
    life
}

/// The pod is killed, and all of its processes.
fn without_pod(life: &Life) -> Life {
    Life { driver: None, keeper: None, peermem_ctr: None, ..life.clone() }
}

/// The pod's gate begins to wait.
fn starts_to_wait(life: &Life) -> Option<Life> {
    let (gate, mut life) = (waiter(life), life.clone());
    let driver = life.driver.as_mut().filter(|driver| driver.is_waiting())?;
    driver.wait = Wait::Gate(gate);
    Some(life)
}

/// `load`, the shim or `keep` begins. Where the driver is the host's, its root has MOFED's own files.
fn starts_loader(life: &Life, place: &str) -> Vec<Life> {
    let Some(driver) = &life.driver else { return Vec::new() };
    let with = |eyes| {
        let rebuilds = place != "keep";
        let setting = Setting { eyes, rebuilds, ..Setting::LOADER };
        Life { keeper: Some(Keeper::new(life.now, setting, life.pace)), ..life.clone() }
    };
    match place {
        "sidecar" if !life.node.compares_crcs => {
            let eyes = Eyes { only_ours: true, ..Eyes::LOADER };
            [false, true].map(|sees_mofeds_files| with(Eyes { sees_mofeds_files, ..eyes })).into()
        }
        "keep" | "parallel" | "sidecar" => vec![with(Eyes::LOADER)],
        _ if driver.phase == Phase::Loading => vec![Life { keeper: Some(loader(life)), ..life.clone() }],
        _ => Vec::new(),
    }
}

/// What the lives that were kept are at.
fn told(lives: &[Life]) -> String {
    let phases: HashSet<_> = lives
        .iter()
        .map(|life| {
            format!("{:?} {:?} {:?}", life.mofed.phase, life.driver.as_ref().map(|d| d.phase), life.node)
        })
        .collect();
    let mut phases: Vec<_> = phases.into_iter().collect();
    phases.sort();
    format!("no life of {} leaves it: {}", lives.len(), phases.join("; "))
}
