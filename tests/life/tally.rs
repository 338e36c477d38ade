// SPDX-License-Identifier: Apache-2.0
//! What many lives came to: counts for each who waits and for each who loads, and tables of them.

use super::bars::{self, Bar};
use super::plan::{Life, Node, Place, TRACKS};
use super::truth::{Opening, Truth};
use crate::machine::Line;
use crate::picture::percentile;
use std::collections::BTreeMap;
use std::fmt;

pub(crate) mod tests;

/// Who waits before a build: the gate, and two loops. In each life they wait side by side, and before the driver's
/// pod there waits the one that the life's place says.
const WAITERS: [(&str, &str); 5] = [
    ("wait", "`peermem-gate wait`"),
    ("poll", "`until [ -f MARKER ]; do sleep 5; done`"),
    ("grep", "the same with `&& grep -q mlx5_core /proc/modules`"),
    ("pod wait", "a driver pod: `wait`"),
    ("pod poll", "a driver pod: the first loop"),
];

/// Of these, the gate, and the loops that it must not be worse than.
const RIVALS: [(&str, &[&str]); 2] = [("wait", &["poll", "grep"]), ("pod wait", &["pod poll"])];

/// What befalls a node, by the lines that say so.
const EVENTS: [(&str, &str, &str); 17] = [
    ("ready", "", "starts of MOFED"),
    ("killed", "", "its containers killed or stopped"),
    ("pod", "", "driver pods"),
    ("reset", "begins", "NIC resets"),
    ("clock", "", "clocks set"),
    ("suspends", "", "suspends"),
    ("frozen", "", "containers frozen"),
    ("restarted", "", "containers restarted"),
    ("restarted", "keeper", "keepers killed"),
    ("frozen", "keeper", "keepers frozen"),
    ("upgraded", "", "keepers upgraded"),
    ("uninstalled", "", "keepers uninstalled"),
    ("builds", "", "starts on the fast path"),
    ("reboots", "", "reboots"),
    ("cut", "", "power cuts"),
    ("inspected", "0 ", "modules that inspect says will load, and were tried"),
    ("inspected", "1 ", "modules that it says will be refused, and were tried"),
];

/// The gate's `--timeout`, in seconds.
const TIMEOUT: f64 = 1800.0;

/// Seconds in which two unloads are beside each other: MOFED lists the modules for 0.7 s at most, and rmmod takes its
/// time on that processor.
const BESIDE: f64 = 1.5;

/// In a minute of rest: the contract's looks and glances, and the wakes that they take.
const WAKES_AT_REST: u64 = 40;

/// Milliseconds of the emulated processor's in a minute of rest: a thousandth.
const CPU_AT_REST: f64 = 60.0;

/// Counts of everything.
#[derive(Default)]
pub(crate) struct Tally {
    waiters: BTreeMap<&'static str, Counts>,
    places: BTreeMap<Place, Counts>,
    kernels: BTreeMap<String, Kernel>,
    events: BTreeMap<&'static str, u32>,
    rest: BTreeMap<(&'static str, Node), Rest>,
    lives: u32,
    /// What is counted for each plan of who waits: paired copies of one are not independent.
    by_plan: BTreeMap<&'static str, BTreeMap<u64, Counts>>,
    /// For each plan, after how many seconds the module was usable in each place.
    usable: BTreeMap<u64, BTreeMap<Place, f64>>,
    /// A person had to help beside the keeper, and in which life.
    helped: Vec<String>,
    /// Containers that ended because of nvidia-peermem while a keeper owned it, and in which life.
    ended: Vec<String>,
    /// Lives that the model explains up to a moment that can have come about in too many ways.
    pub(crate) explained_in_part: u32,
    /// Of the nodes, awake and asleep.
    hours: f64,
    slept: f64,
}

#[derive(Default)]
struct Counts {
    lives: u32,
    openings: BTreeMap<Opening, u32>,
    builds: u32,
    stubs: u32,
    /// Stubs where the gate beside a loop left none, or all loops beside the gate.
    lone: u32,
    /// The file that modprobe would load at the end is a stub, or of another MOFED.
    left: u32,
    einval: u32,
    /// Of these, the gate's.
    own_einval: u32,
    /// k8s-driver-manager or the driver's trap could not unload the driver.
    kept: u32,
    /// MOFED could not unload its modules because of `nvidia_peermem`.
    held: u32,
    /// MOFED's own unload of `nvidia_peermem` failed because somebody else was doing it.
    collisions: u32,
    /// Containers that ended because of nvidia-peermem.
    refused: u32,
    /// Nodes without `nvidia_uvm` at the end: there is no CUDA.
    without_uvm: u32,
    /// A person had to delete the driver's pod.
    persons: u32,
    never: u32,
    /// Seconds, from when the node was ready to the opening, or to a live `nvidia_peermem`.
    times: Vec<f64>,
}

/// What was played on one kernel.
#[derive(Default)]
struct Kernel {
    lives: u32,
    gates_openings: u32,
    early: u32,
    faults: usize,
}

/// Of one verb on one kind of node, in a minute in which nothing happens.
#[derive(Default)]
struct Rest {
    wakes: Vec<f64>,
    /// Milliseconds.
    cpu: Vec<f64>,
}

/// A build that followed an opening, and what that was.
struct Build<'a> {
    who: &'static str,
    /// Those of one number began to wait side by side.
    number: &'a str,
    at: f64,
    is_stub: bool,
    opening: Opening,
}

/// A life as it was: its lines, and what they say.
struct Lived<'a> {
    lines: &'a [Line],
    truth: Truth,
    place: Place,
    node: Node,
    plan: u64,
}

impl Tally {
    pub(crate) fn lives(&self) -> u32 {
        self.lives
    }

    /// Counts a life. What must not be comes back.
    pub(crate) fn add(&mut self, kernel: &str, life: &Life, lines: &[Line]) -> Vec<String> {
        let lines = &on_one_clock(lines);
        let lived =
            Lived { lines, truth: Truth::of(lines), place: life.place, node: life.node, plan: life.plan };
        self.lives += 1;
        if let (Some(first), Some(last)) = (lines.first(), lines.last()) {
            let slept = lived.truth.slept(first.at, last.at) / 3600.0;
            self.hours += (last.at - first.at) / 3600.0 - slept;
            self.slept += slept;
        }
        for (kind, begins, name) in EVENTS {
            *self.events.entry(name).or_default() += lived.count(kind, begins);
        }
        let mut faults = lived.unfinished();
        faults.extend(lived.disturbed());
        let (mut openings, mut last, mut builds) = (Vec::new(), BTreeMap::new(), Vec::new());
        for line in lines {
            let (opening, is_gates) = self.add_opening(&lived, line).unzip();
            let of_gate = opening.filter(|_| is_gates == Some(true));
            if let Some(opening) = of_gate.filter(|opening| opening.is_early()) {
                faults.push(format!("early ({opening:?}), at {:.3}: {} {}", line.at, line.kind, line.text));
            }
            openings.extend(of_gate);
            last.extend(opening.map(|opening| (line.text.as_str(), opening)));
            builds.extend(self.add_build(&lived, line, &mut last));
            faults.extend(contradiction(line));
            faults.extend(lived.own_refusal(line));
            faults.extend(lived.in_the_way(line));
            faults.extend(lived.refused_script(line));
            faults.extend(lived.crash(line));
            faults.extend(self.add_rest(&lived, line));
        }
        if life.node == Node::Used {
            let took = self.places.entry(life.place).or_default().add_life(&lived);
            self.usable.entry(life.plan).or_default().extend(took.map(|took| (life.place, took)));
            if life.place.has_keeper() && lived.count("person", "pod") > 0 {
                self.helped.push(format!("seed {}: {}", life.seed, life.place.name()));
            }
            let ended = lines.iter().filter(|line| lived.is_refused_beside_keeper(line));
            self.ended.extend(ended.map(|line| {
                format!("seed {}, at {:.3}: {} beside {}", life.seed, line.at, line.text, life.place.name())
            }));
            faults.extend(self.add_stubs(&lived, &builds));
        }
        let of_kernel = self.kernels.entry(kernel.to_owned()).or_default();
        of_kernel.lives += 1;
        of_kernel.faults += faults.len();
        for opening in openings {
            of_kernel.gates_openings += 1;
            of_kernel.early += u32::from(opening.is_early());
        }
        faults
    }

    /// Answers with what it was, and whether it was the gate's.
    fn add_opening(&mut self, lived: &Lived, line: &Line) -> Option<(Opening, bool)> {
        let (who, number) = line.text.split_once(' ').unwrap_or((&line.text, ""));
        let (is_gate, began, container) = match (line.kind.as_str(), who) {
            ("opened", "pod") => (lived.place.waits_by_gate(), "pod".to_owned(), Place::WAITS_IN.to_owned()),
            // They begin together, and the gate says so.
            ("opened", _) => (who == "wait", format!("wait {number}"), format!("wait.{number}")),
            ("asked", _) => (lived.place.is_loader(who), loader_in(who).to_owned(), who.to_owned()),
            _ => return None,
        };
        let began = lived.started(&began, line.at);
        // Only a gate asks at its beginning whether there is a NIC.
        let opening = lived.truth.opening(line.at, if is_gate { began } else { 0.0 }, &container);
        if lived.node == Node::Used {
            let row = lived.waiter(who).filter(|_| line.kind == "opened");
            if let Some(waiter) = row {
                let of_plan = self.by_plan.entry(waiter).or_default().entry(lived.plan).or_default();
                *of_plan.openings.entry(opening).or_default() += 1;
            }
            let counts = match row {
                Some(waiter) => self.waiters.entry(waiter).or_default(),
                None => self.places.entry(lived.place).or_default(),
            };
            *counts.openings.entry(opening).or_default() += 1;
            let ready = lived.truth.ready_since(line.at);
            let waited = ready.filter(|ready| line.kind == "opened" && *ready > began);
            counts.times.extend(waited.map(|ready| line.at - ready - lived.truth.slept(ready, line.at)));
        }
        Some((opening, is_gate))
    }

    /// Answers with the build if it followed an opening. Each opening counts once: a container that starts again
    /// builds without a wait.
    fn add_build<'a>(
        &mut self,
        lived: &Lived,
        line: &'a Line,
        openings: &mut BTreeMap<&str, Opening>,
    ) -> Option<Build<'a>> {
        let (of, found) = line.text.rsplit_once(' ').filter(|_| line.kind == "built")?;
        let (name, number) = of.split_once(' ').unwrap_or((of, ""));
        let is_stub = found == "stub";
        if lived.node != Node::Used {
            return None;
        }
        if name == "pod" {
            self.places.entry(lived.place).or_default().add_build(is_stub);
        }
        let (who, opening) = (lived.waiter(name)?, openings.remove(of)?);
        self.waiters.entry(who).or_default().add_build(is_stub);
        self.by_plan.entry(who).or_default().entry(lived.plan).or_default().add_build(is_stub);
        Some(Build { who, number, at: line.at, is_stub, opening })
    }

    /// Compares the builds of those who waited side by side. A stub of the gate's that no loop beside it left is a
    /// fault, unless its opening was in order, and what befell the node came between that and the build: so it would
    /// have been with a loop that opened then.
    fn add_stubs(&mut self, lived: &Lived, builds: &[Build]) -> Vec<String> {
        let mut faults = Vec::new();
        for build in builds.iter().filter(|build| build.is_stub) {
            let Build { who, number, at, opening, .. } = build;
            let is_gates = who.ends_with("wait");
            let of_others = |other: &&Build| {
                other.number == *number && !number.is_empty() && other.who.ends_with("wait") != is_gates
            };
            let mut others = builds.iter().filter(of_others).peekable();
            let is_lone = others.peek().is_some() && others.all(|other| !other.is_stub);
            self.waiters.entry(who).or_default().lone += u32::from(is_lone);
            if !is_gates {
                continue;
            }
            let what = format!("a stub of {who} {number} at {at:.3}, after an opening that was {opening:?}");
            if lived.truth.is_ready(*at) {
                faults.push(format!("{what}, on a node that was ready"));
            } else if is_lone && opening.is_early() {
                faults.push(format!("{what}; no loop left one"));
            }
        }
        faults
    }

    /// How many seconds later than beside the loop the module was usable in this place, plan by plan.
    fn later_than_the_loop(&self, place: Place) -> Vec<f64> {
        let of = |plan: &BTreeMap<Place, f64>| Some(plan.get(&place)? - plan.get(&Place::Poll)?);
        self.usable.values().filter_map(of).collect()
    }

    /// The columns in which the gate came off worse than the best loop of this run, by more than chance explains: the
    /// two rates differ by more than three standard errors.
    pub(crate) fn worse(&self) -> Vec<String> {
        let mut worse = Vec::new();
        for (gate, loops) in RIVALS {
            for (column, count) in COLUMNS {
                let of = |who| self.by_plan.get(who).map(|plans| in_plans(plans, count));
                let Some(gates) = of(gate) else { continue };
                let of_loops = loops.iter().filter_map(|name| of(name)).filter(|(_, of)| *of > 0.0);
                let Some(best) = of_loops.min_by(|one, other| rate(*one).total_cmp(&rate(*other))) else {
                    continue;
                };
                if is_higher(gates, best) {
                    let [(gates, plans), (best, others)] = [gates, best];
                    worse.push(format!(
                        "{gate} has more {column} than the best loop: {gates:.1} of {plans} plans, {best:.1} of {others}"
                    ));
                }
            }
        }
        worse
    }

    /// Answers with a fault where it was no rest.
    fn add_rest(&mut self, lived: &Lived, line: &Line) -> Option<String> {
        if line.kind != "rest" {
            return None;
        }
        let mut words = line.text.split(' ');
        let container = words.next()?;
        let (wakes, nanoseconds): (u64, u64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        #[expect(clippy::cast_precision_loss, reason = "a minute's")]
        let (wakes_shown, cpu) = (wakes as f64, nanoseconds as f64 / 1e6);
        let verb = if lived.place.is_loader(container) { "keep" } else { "wait" };
        let rest = self.rest.entry((verb, lived.node)).or_default();
        rest.wakes.push(wakes_shown);
        rest.cpu.push(cpu);
        let is_fault = wakes > WAKES_AT_REST || cpu > CPU_AT_REST;
        is_fault.then(|| format!("no rest: {container} woke {wakes} times and took {cpu:.1} ms in a minute"))
    }
}

/// So many of how many.
type Share = (f64, f64);
type Column = (&'static str, fn(&Counts) -> (u32, u32));

/// What must not be worse than with a loop.
const COLUMNS: [Column; 3] = [
    ("early openings", |counts| (counts.of(Opening::Early) + counts.of(Opening::Away), counts.all())),
    ("untold openings", |counts| (counts.of(Opening::Untold), counts.all())),
    ("stubs", |counts| (counts.stubs, counts.builds)),
];

/// Each plan counts once, by its own share: what befalls one life of it befalls all.
fn in_plans(plans: &BTreeMap<u64, Counts>, column: fn(&Counts) -> (u32, u32)) -> Share {
    let shares = plans.values().map(column).filter(|(_, of)| *of > 0);
    let rates = shares.map(|(count, of)| f64::from(count) / f64::from(of));
    rates.fold((0.0, 0.0), |(sum, plans), rate| (sum + rate, plans + 1.0))
}

fn rate((count, of): Share) -> f64 {
    count / of.max(1.0)
}

/// The first share is higher, by more than three standard errors of the difference.
fn is_higher(one: Share, other: Share) -> bool {
    let both = rate((one.0 + other.0, one.1 + other.1));
    let error = (both * (1.0 - both) * (1.0 / one.1.max(1.0) + 1.0 / other.1.max(1.0))).sqrt();
    rate(one) - rate(other) > 3.0 * error
}

/// As the line of its start names it.
fn loader_in(container: &str) -> &str {
    if container == "keeper" { "keeper" } else { "loader" }
}

/// Who got this answer of modprobe's.
fn asker(line: &Line) -> Option<&str> {
    line.text.rsplit_once('@').filter(|_| line.kind == "answered").map(|(_, who)| who)
}

/// The kernel says otherwise than `inspect` did. "Unknown symbol" is of a module that is not loaded, not of the file.
fn contradiction(line: &Line) -> Option<String> {
    let mut words = line.text.splitn(3, ' ').filter(|_| line.kind == "inspected");
    let (fit, status, said) = (words.next()?, words.next()?, words.next().unwrap_or_default());
    let is_fault = match fit {
        "0" => said.contains("Invalid argument") || said.contains("Exec format error"),
        "1" => status == "0",
        _ => false,
    };
    is_fault.then(|| format!("inspect and the kernel disagree, at {:.3}: {}", line.at, line.text))
}

/// A node's boot clock begins again at each boot, and a life's does not.
fn on_one_clock(lines: &[Line]) -> Vec<Line> {
    let (mut booted, mut last) = (0.0, 0.0);
    let mut moved = |line: &Line| {
        if line.kind == "booted" {
            booted = last;
        }
        last = booted + line.at;
        Line { at: last, ..line.clone() }
    };
    lines.iter().map(&mut moved).collect()
}

impl Counts {
    /// Answers with the seconds until the module was usable.
    fn add_life(&mut self, lived: &Lived) -> Option<f64> {
        self.lives += 1;
        self.held += lived.count("failed", "held");
        self.collisions += lived.count("failed", "collision");
        self.persons += u32::from(lived.count("person", "pod") > 0);
        self.kept += lived.count("unload_failed", "");
        self.refused += lived.count("refused", "") + lived.count("probe_failed", "");
        self.without_uvm += lived.count("without_uvm", "");
        self.own_einval += lived.lines.iter().map(|line| u32::from(lived.is_own_refusal(line))).sum::<u32>();
        self.never += lived.count("never", "");
        self.left += lived.count("left", "1");
        let mut answers = lived.lines.iter().filter(|line| line.kind == "answered");
        self.einval +=
            answers.clone().map(|line| u32::from(line.text.contains("Invalid argument"))).sum::<u32>();
        let live = answers.rfind(|line| line.text.starts_with('0')).filter(|_| lived.count("never", "") == 0);
        let ready = lived.truth.ready_since(f64::INFINITY);
        let took =
            |(live, ready): (&Line, f64)| (live.at - ready).max(0.0) - lived.truth.slept(ready, live.at);
        let took = live.zip(ready).map(took);
        self.times.extend(took);
        took
    }
}

impl Lived<'_> {
    /// The row of the one that a line names first.
    fn waiter(&self, who: &str) -> Option<&'static str> {
        let name = match (who, self.place) {
            ("pod", place) if place.waits_by_gate() => "pod wait",
            ("pod", _) => "pod poll",
            _ => who,
        };
        WAITERS.iter().map(|(waiter, _)| *waiter).find(|waiter| *waiter == name)
    }

    fn count(&self, kind: &str, begins: &str) -> u32 {
        let all = self.lines.iter().filter(|line| line.kind == kind && line.text.starts_with(begins));
        u32::try_from(all.count()).expect("a small number")
    }

    /// When the wait that opened at this time began.
    fn started(&self, who: &str, at: f64) -> f64 {
        let mut starts =
            self.lines.iter().filter(|line| line.kind == "started" && line.text == who && line.at <= at);
        starts.next_back().map_or(0.0, |line| line.at)
    }

    /// What did not come to its end: a track of the plan's last part, a gate on a node that is ready, the life
    /// itself.
    fn unfinished(&self) -> Vec<String> {
        let ended = self
            .lines
            .iter()
            .filter(|line| matches!(line.kind.as_str(), "stuck" | "failed_undo" | "left_behind"));
        let mut faults: Vec<_> = ended.map(|line| format!("{} {}", line.kind, line.text)).collect();
        let last = self.lines.iter().rposition(|line| line.kind == "booted").map_or(0, |booted| booted + 1);
        for track in TRACKS {
            if !self.lines[last..].iter().any(|line| line.kind == "done" && line.text == track) {
                faults.push(format!("the plan's {track} broke off"));
            }
        }
        if self.lines.last().is_none_or(|line| line.kind != "over") {
            faults.push("the life did not end".to_owned());
        }
        faults
    }

    /// What must not happen on such a node.
    fn disturbed(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let (mut booted, mut announced) = (0, 0);
        for line in self.lines {
            match line.kind.as_str() {
                "reboots" | "cut" => announced += 1,
                "booted" => booted += 1,
                "asked" | "loaded" | "rebuilt" if self.node != Node::Used => {
                    faults.push(format!("{} on a node with nothing to load, at {:.3}", line.kind, line.at));
                }
                "awake" => faults.push(format!("no suspend, at {:.3}", line.at)),
                _ => {}
            }
        }
        if booted != announced {
            faults.push(format!("{booted} boots after {announced} resets"));
        }
        if self.place.rebuilds() && self.count("left", "1") > 0 {
            faults.push("a stub is left after a heal".to_owned());
        }
        if self.place.has_keeper() && self.count("never", "") > 0 {
            faults.push("nvidia_peermem is not loaded beside the keeper".to_owned());
        }
        faults
    }

    /// The kernel refused a module that the gate had found good. Without symbol versions nobody can tell.
    fn own_refusal(&self, line: &Line) -> Option<String> {
        let is_fault = self.is_own_refusal(line) && self.count("unversioned", "") == 0;
        is_fault.then(|| format!("a load by the gate was refused, at {:.3}: {}", line.at, line.text))
    }

    fn is_own_refusal(&self, line: &Line) -> bool {
        line.text.contains("Invalid argument") && asker(line).is_some_and(|who| self.place.is_loader(who))
    }

    /// Another's unload failed because of the keeper: it had loaded the module again, or unloaded it just before.
    fn in_the_way(&self, line: &Line) -> Option<String> {
        let before = |seconds: f64| {
            self.lines.iter().rev().filter(move |one| one.at <= line.at && one.at >= line.at - seconds)
        };
        let unloads = |who: &Line| who.kind == "unloads" && self.place.is_loader(&who.text);
        let is_fault = match (line.kind.as_str(), line.text.starts_with("collision")) {
            // Without preStop nobody can see it coming, and a sidecar does not look. RHEL's own order refuses it
            // (docs/upstream.md).
            ("unload_failed", _)
                if line.text.starts_with("driver")
                    && !(self.place.has_keeper() && self.is_announced(line)) =>
            {
                false
            }
            ("unload_failed", _) => {
                let last = before(line.at).find(|one| asker(one).is_some() && one.text.starts_with('0'));
                last.and_then(asker).is_some_and(|who| self.place.is_loader(who))
                    || before(BESIDE).any(unloads)
            }
            ("failed", true) => before(BESIDE).any(unloads),
            _ => false,
        };
        is_fault.then(|| format!("the gate was in the way, at {:.3}: {} {}", line.at, line.kind, line.text))
    }

    /// The pod that the driver's container is in is being deleted.
    fn is_announced(&self, line: &Line) -> bool {
        let mut before = self.lines.iter().rev().filter(|one| one.at <= line.at);
        before
            .find(|one| matches!(one.kind.as_str(), "prestop" | "pod" | "booted"))
            .is_some_and(|last| last.kind == "prestop")
    }

    /// A container ended because of nvidia-peermem while a keeper that runs owned it.
    fn is_refused_beside_keeper(&self, line: &Line) -> bool {
        let is_keepers =
            |one: &&Line| matches!(one.kind.as_str(), "frozen" | "thawed") && one.text == "keeper";
        let mut before = self.lines.iter().rev().filter(|one| one.at <= line.at);
        line.kind == "refused"
            && line.text.ends_with(" owned")
            && before.find(is_keepers).is_none_or(|last| last.kind == "thawed")
    }

    /// The same of the driver's script. nvidia-peermem-ctr may come while MOFED is not ready.
    fn refused_script(&self, line: &Line) -> Option<String> {
        let is_fault = self.is_refused_beside_keeper(line) && line.text.starts_with("driver");
        is_fault.then(|| format!("the driver's script ended beside a keeper, at {:.3}", line.at))
    }

    /// A gate that ended by itself, and not as it should.
    fn crash(&self, line: &Line) -> Option<String> {
        let (container, status) = line.text.split_once(' ').filter(|_| line.kind == "crashed")?;
        let (who, may) = match container {
            "sidecar" if self.place == Place::Sidecar => ("loader".to_owned(), status == "3"),
            "keeper" => ("keeper".to_owned(), false),
            // k8s-driver-manager may have failed before.
            "init" if self.place.waits_by_gate() => ("pod".to_owned(), status == "1"),
            _ => (container.strip_prefix("wait.").map(|number| format!("wait {number}"))?, false),
        };
        let waited = line.at - self.started(&who, line.at);
        let ends = [format!("{container} TERM"), format!("{container} KILL")];
        let is_ended = self
            .lines
            .iter()
            .any(|line| line.kind == "reboots" || line.kind == "restarted" && ends.contains(&line.text));
        let may =
            may || is_ended && matches!(status, "0" | "137" | "143") || status == "124" && waited >= TIMEOUT;
        (!may).then(|| format!("{container} ended with {status}, at {:.3}", line.at))
    }
}

impl Tally {
    /// A picture of the nodes that needed a person: a bar for each place, and one for all of the keeper's.
    pub(crate) fn svg(&self) -> String {
        let (keepers, others): (Vec<_>, Vec<_>) =
            self.places.iter().partition(|(place, _)| place.has_keeper());
        let sum = |of: fn(&Counts) -> u32| keepers.iter().map(|(_, counts)| of(counts)).sum();
        let keeper = Bar {
            name: "the keeper",
            is_gate: true,
            count: sum(|counts| counts.persons),
            of: sum(|counts| counts.lives),
        };
        let bar = |(place, counts): &(&Place, &Counts)| Bar {
            name: place.name(),
            is_gate: false,
            count: counts.persons,
            of: counts.lives,
        };
        let bars: Vec<_> = others.iter().map(bar).chain([keeper]).collect();
        let each = others.iter().map(|(_, counts)| counts.lives).max().unwrap_or_default();
        bars::svg(&format!("Nodes that needed a person, of {each} simulated boots each"), &bars)
    }
}

/// A table's head.
fn head(f: &mut fmt::Formatter<'_>, columns: &[&str]) -> fmt::Result {
    writeln!(f, "\n| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()))
}

const OPENINGS: [&str; 8] =
    ["openings", "early", "NIC away", "untold", "overlapped", "stood still", "believed", "NIC gone"];

/// As tables of Markdown.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lives, hours, slept, .. } = self;
        writeln!(f, "{lives} lives, {hours:.0} hours of nodes awake and {slept:.0} asleep\n")?;
        for (_, _, name) in EVENTS {
            writeln!(f, "- {name}: {}", self.events.get(name).copied().unwrap_or_default())?;
        }
        writeln!(f, "- lives with too many explanations for the model: {}", self.explained_in_part)?;
        writeln!(f, "- lives in which a person had to help beside the keeper: {}", self.helped.len())?;
        for helped in &self.helped {
            writeln!(f, "  - {helped}")?;
        }
        writeln!(
            f,
            "- containers that ended because of nvidia-peermem beside the keeper: {}",
            self.ended.len()
        )?;
        for ended in &self.ended {
            writeln!(f, "  - {ended}")?;
        }
        head(f, &["kernel", "lives", "the gate's openings and loads", "early", "faults"])?;
        for (name, Kernel { lives, gates_openings, early, faults }) in &self.kernels {
            writeln!(f, "| {name} | {lives} | {gates_openings} | {early} | {faults} |")?;
        }
        head(
            f,
            &[&["who waits before a build"], &OPENINGS[..], &["builds", "stubs", "lone", "opens after: s"]]
                .concat(),
        )?;
        for (waiter, name) in WAITERS {
            let Some(counts) = self.waiters.get(waiter) else { continue };
            let Counts { builds, stubs, lone, times, .. } = counts;
            let (openings, times) = (counts.shown_openings(), spread(times));
            writeln!(f, "| {name} | {openings} | {builds} | {stubs} | {lone} | {times} |")?;
        }
        let loads = [
            "EINVAL",
            "the gate's",
            "built stubs",
            "unfit at the end",
            "MOFED held",
            "collisions",
            "failed unloads",
            "ended",
            "no uvm",
            "a person",
            "never",
            "usable after: s",
            "later than the loop: s",
        ];
        head(f, &[&["who loads", "lives"], &OPENINGS[..], &loads].concat())?;
        for (place, counts) in &self.places {
            let Counts { lives, einval, own_einval, stubs, left, .. } = counts;
            let Counts { held, collisions, kept, refused, without_uvm, persons, never, times, .. } = counts;
            writeln!(
                f,
                "| {} | {lives} | {} | {einval} | {own_einval} | {stubs} | {left} | {held} | {collisions} | {kept} | {refused} | {without_uvm} | {persons} | {never} | {} | {} |",
                place.name(),
                counts.shown_openings(),
                spread(times),
                spread(&self.later_than_the_loop(*place))
            )?;
        }
        head(f, &["at rest for a minute", "node", "gates", "wakes", "at most", "CPU: ms", "at most"])?;
        for ((verb, node), Rest { wakes, cpu }) in &self.rest {
            let [wake, most_wakes, took, most_cpu] = [(wakes, 50), (wakes, 100), (cpu, 50), (cpu, 100)]
                .map(|(all, percent)| percentile(all, percent));
            let (name, count) = (node.name(), wakes.len());
            writeln!(
                f,
                "| `{verb}` | {name} | {count} | {wake} | {most_wakes} | {took:.2} | {most_cpu:.2} |"
            )?;
        }
        Ok(())
    }
}

impl Counts {
    fn shown_openings(&self) -> String {
        let columns = [
            Opening::Early,
            Opening::Away,
            Opening::Untold,
            Opening::Overlapped,
            Opening::StoodStill,
            Opening::Believed,
            Opening::Gone,
        ];
        let counts = columns.map(|opening| self.of(opening));
        let shown: Vec<_> =
            std::iter::once(self.all()).chain(counts).map(|count| count.to_string()).collect();
        shown.join(" | ")
    }

    fn of(&self, opening: Opening) -> u32 {
        self.openings.get(&opening).copied().unwrap_or_default()
    }

    /// Every opening.
    fn all(&self) -> u32 {
        self.openings.values().sum()
    }

    fn add_build(&mut self, is_stub: bool) {
        self.builds += 1;
        self.stubs += u32::from(is_stub);
    }
}

/// The median, and in brackets the 90th and the 99th percentile.
fn spread(times: &[f64]) -> String {
    let [median, most, nearly_all] = [50, 90, 99].map(|percent| percentile(times, percent));
    format!("{median:.1} ({most:.1}, {nearly_all:.1})")
}
