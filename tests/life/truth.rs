// SPDX-License-Identifier: Apache-2.0
//! Who opened too early: judged by what the scenario itself did, and by nothing that the gate looks at.

use crate::machine::Line;

/// The gate's `--suspect-hold`, in seconds.
const SUSPECT_HOLD: f64 = 300.0;

/// Between the gate's last look and CMD's first instruction lie an execve(2) and the start of a shell, or that of
/// modprobe's, on an emulated processor, in seconds. Who opens this long after the end of a state has met it.
pub(crate) const OVERLAP: f64 = 0.1;

/// As long as a gate's program may take, on that processor, from its start to its look for a NIC.
const FIRST_LOOK: f64 = OVERLAP;

/// What the scenario knows of MOFED's stack.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// There is nothing to wait for: the node has no NIC, or `GPUDirect` RDMA is not asked for.
    Exempt,
    /// A container has finished its start and lives; no NIC is in a reset.
    Ready,
    /// The same, except for a NIC that is off the bus for a moment.
    Away,
    /// The container that made the stack whole is dead since then, and its lock shows it.
    Suspect(f64),
    /// As `Suspect`, but the older entrypoint has no lock: on this node all is as it is when all is well.
    Untold,
    /// All else.
    Unready,
}

/// What an opening was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Opening {
    /// In order.
    Ready,
    /// On a node where the gate does not apply.
    Exempt,
    /// All was ready until a moment before.
    Overlapped,
    /// All was ready until a moment before, except that the container or the node stood still in that moment.
    StoodStill,
    /// By the marker of a container that has been dead for the whole suspect hold.
    Believed,
    /// By the marker of a dead container, where nothing on the node tells.
    Untold,
    /// While the NIC was off the bus, and the modules were not; or by a gate that began at such a moment, and has no
    /// business on a node without a NIC.
    Away,
    /// Too early.
    Early,
}

/// A node's life as the scenario knows it: since when each state held.
#[derive(Debug)]
pub(crate) struct Truth {
    states: Vec<(f64, State)>,
    /// From when to when a NIC was away.
    resets: Vec<(f64, f64)>,
    pauses: Vec<Pause>,
}

/// A container was frozen, or the node was suspended.
#[derive(Debug)]
struct Pause {
    /// `None` of the node.
    container: Option<String>,
    from: f64,
    to: f64,
}

/// What has happened so far.
#[derive(Default)]
struct Node {
    exempt: bool,
    marked: bool,
    /// The modules are those of one MOFED, and all of them.
    whole: bool,
    reset: Reset,
    lock: Lock,
    /// Since when no container has been up; `None` while one is: it has come to the end of its start, and lives.
    down: Option<f64>,
}

/// A reset of the NIC.
#[derive(Default, PartialEq)]
enum Reset {
    #[default]
    Over,
    /// The device is off the bus.
    Begun,
    /// And its driver is unloaded, although MOFED is idle.
    Taken,
}

/// MOFED's lock file.
#[derive(Default, PartialEq)]
enum Lock {
    /// Not there: no Go entrypoint has been here.
    #[default]
    Absent,
    Free,
    Held,
}

impl Node {
    fn take_in(&mut self, line: &Line) {
        match (line.kind.as_str(), line.text.as_str()) {
            ("begun", entrypoint) => {
                self.fall(line.at);
                if entrypoint == "go" {
                    self.lock = Lock::Held;
                }
            }
            ("unmarked", _) => {
                self.marked = false;
                self.fall(line.at);
            }
            ("swap" | "broken", _) => self.whole = false,
            ("ready", _) => {
                (self.marked, self.whole, self.down) = (true, true, None);
                // MOFED has loaded the driver meanwhile.
                if self.reset == Reset::Taken {
                    self.reset = Reset::Begun;
                }
            }
            ("failed" | "killed" | "stopped", _) => {
                self.fall(line.at);
                if self.lock == Lock::Held {
                    self.lock = Lock::Free;
                }
            }
            ("reset", "begins") => self.reset = Reset::Begun,
            ("reset", "takes") => self.reset = Reset::Taken,
            ("reset", _) => self.reset = Reset::Over,
            // Nothing of MOFED's outlives a boot.
            ("booted", _) => *self = Self::default(),
            ("lives", text) => self.exempt = text.ends_with(" nicless") || text.ends_with(" unrequested"),
            _ => {}
        }
    }

    fn fall(&mut self, at: f64) {
        self.down.get_or_insert(at);
    }

    fn state(&self) -> State {
        if self.exempt {
            return State::Exempt;
        }
        if self.reset == Reset::Taken || !self.marked || !self.whole {
            return State::Unready;
        }
        match (self.down, &self.lock) {
            (None, _) if self.reset == Reset::Begun => State::Away,
            (None, _) => State::Ready,
            (Some(_), Lock::Held) => State::Unready,
            (Some(since), Lock::Free) => State::Suspect(since),
            (Some(_), Lock::Absent) => State::Untold,
        }
    }
}

impl Pause {
    /// Of what a line says, the beginning or the end. A boot ends all.
    fn take_in(pauses: &mut Vec<Self>, line: &Line) {
        let container = match line.kind.as_str() {
            "frozen" | "thawed" => Some(&line.text),
            "suspends" | "resumed" | "booted" => None,
            _ => return,
        };
        match line.kind.as_str() {
            "frozen" | "suspends" => {
                pauses.push(Self { container: container.cloned(), from: line.at, to: f64::INFINITY });
            }
            kind => {
                let open = pauses.iter_mut().filter(|pause| pause.to.is_infinite());
                open.filter(|pause| kind == "booted" || pause.container.as_ref() == container)
                    .for_each(|pause| pause.to = line.at);
            }
        }
    }
}

impl Truth {
    pub(crate) fn of(lines: &[Line]) -> Self {
        let (mut node, mut states) = (Node::default(), vec![(0.0, State::Unready)]);
        let (mut resets, mut pauses) = (Vec::<(f64, f64)>::new(), Vec::new());
        for line in lines {
            let was_reset = node.reset != Reset::Over;
            node.take_in(line);
            match (was_reset, node.reset != Reset::Over) {
                (false, true) => resets.push((line.at, f64::INFINITY)),
                (true, false) => {
                    if let Some(reset) = resets.last_mut() {
                        reset.1 = line.at;
                    }
                }
                _ => {}
            }
            Pause::take_in(&mut pauses, line);
            states.push((line.at, node.state()));
        }
        Self { states, resets, pauses }
    }

    /// What an opening at this time is, by somebody in this container who has waited since.
    pub(crate) fn opening(&self, at: f64, since: f64, container: &str) -> Opening {
        let meets = |from, wanted: &dyn Fn(State) -> bool| self.states_between(from, at).any(wanted);
        let is_ready = |state| state == State::Ready;
        let now = self.states_between(at, at).last().unwrap_or(State::Unready);
        // A moment of the container's own time.
        let moment = self.ran_before(at, OVERLAP, container);
        match now {
            State::Exempt => Opening::Exempt,
            State::Ready => Opening::Ready,
            State::Suspect(down) if at - down.max(since) >= SUSPECT_HOLD => Opening::Believed,
            State::Untold => Opening::Untold,
            State::Away => Opening::Away,
            _ if meets(at - OVERLAP, &is_ready) => Opening::Overlapped,
            _ if meets(moment, &is_ready) => Opening::StoodStill,
            _ if meets(moment, &|state| state == State::Untold) => Opening::Untold,
            _ if self.began_in_a_reset(since, container) => Opening::Away,
            _ => Opening::Early,
        }
    }

    /// A program starts before it looks, and may stand still between the two.
    fn began_in_a_reset(&self, since: f64, container: &str) -> bool {
        let met =
            |(from, to): &(f64, f64)| since < *to && self.ran_before(*from, FIRST_LOOK, container) <= since;
        self.resets.iter().any(met)
    }

    /// When this container had so many seconds to run until this time.
    fn ran_before(&self, at: f64, seconds: f64, container: &str) -> f64 {
        let of_it = |pause: &&Pause| pause.container.as_deref().is_none_or(|name| name == container);
        let mut pauses: Vec<_> = self.pauses.iter().filter(of_it).collect();
        pauses.sort_by(|one, other| other.to.total_cmp(&one.to));
        let (mut end, mut left) = (at, seconds);
        for pause in pauses.into_iter().filter(|pause| pause.from < at) {
            let ran = end - pause.to.min(end);
            if ran >= left {
                break;
            }
            left -= ran;
            end = pause.from.min(end);
        }
        end - left
    }

    /// How long the node has slept between these times.
    pub(crate) fn slept(&self, from: f64, to: f64) -> f64 {
        let of_the_node = self.pauses.iter().filter(|pause| pause.container.is_none());
        of_the_node.map(|pause| (pause.to.min(to) - pause.from.max(from)).max(0.0)).sum()
    }

    /// The last state before `from`, and those that came until `to`.
    fn states_between(&self, from: f64, to: f64) -> impl Iterator<Item = State> {
        let first = self.states.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        self.states[first..].iter().take_while(move |(at, _)| *at <= to).map(|(_, state)| *state)
    }

    /// Since when the node has been ready, at this time.
    pub(crate) fn ready_since(&self, at: f64) -> Option<f64> {
        let until = self.states.partition_point(|(time, _)| *time <= at);
        let ready = self.states[..until].iter().rev().take_while(|(_, state)| *state == State::Ready);
        ready.last().map(|(time, _)| *time)
    }
}

/// What an opening at this time is, after these lines, by somebody who began to wait at 0.
fn opening_after(lines: &str, at: f64) -> Opening {
    let lines: Vec<_> = lines.lines().map(|line| Line::parse(line.trim()).expect("a line")).collect();
    Truth::of(&lines).opening(at, 0.0, "init")
}

const STARTED_BY_GO: &str = "@1 begun go\n@2 unmarked\n@3 swap\n@4 ready new\n";
const STARTED_BY_BASH: &str = "@1 begun bash\n@2 unmarked\n@3 swap\n@4 ready new\n";

pub(crate) fn before_a_start_has_ended_all_are_early() {
    assert_eq!(opening_after("@1 lives none", 2.0), Opening::Early);
    assert_eq!(opening_after(STARTED_BY_GO, 3.9), Opening::Early);
    assert_eq!(opening_after(STARTED_BY_GO, 4.0), Opening::Ready);
    assert_eq!(opening_after(STARTED_BY_BASH, 100.0), Opening::Ready);
}

pub(crate) fn a_dead_containers_marker_is_suspect_where_there_is_a_lock_and_untold_where_there_is_none() {
    let killed = |start: &str| start.to_owned() + "@10 killed kill\n";
    assert_eq!(opening_after(&killed(STARTED_BY_GO), 20.0), Opening::Early);
    assert_eq!(opening_after(&killed(STARTED_BY_GO), 311.0), Opening::Believed);
    assert_eq!(opening_after(&killed(STARTED_BY_BASH), 20.0), Opening::Untold);
    // The lock file of an earlier container is there, and nobody holds it.
    let both = "@0.1 begun go\n@0.2 failed storage\n".to_owned() + &killed(STARTED_BY_BASH);
    assert_eq!(opening_after(&both, 20.0), Opening::Early);
    // The next one of the older kind clears the marker late.
    let next = killed(STARTED_BY_BASH) + "@20 begun bash\n@30 unmarked\n";
    assert_eq!(opening_after(&next, 29.0), Opening::Untold);
    assert_eq!(opening_after(&next, 31.0), Opening::Early);
}

pub(crate) fn who_opens_a_moment_after_the_end_has_met_it() {
    let ends = STARTED_BY_GO.to_owned() + "@10 unmarked\n";
    assert_eq!(opening_after(&ends, 10.0 + OVERLAP / 2.0), Opening::Overlapped);
    assert_eq!(opening_after(&ends, 10.0 + OVERLAP * 2.0), Opening::Early);
}

pub(crate) fn a_reset_takes_the_modules_or_only_the_device() {
    let reset = STARTED_BY_GO.to_owned() + "@10 reset begins\n";
    assert_eq!(opening_after(&reset, 20.0), Opening::Away);
    let taken = reset + "@10.001 reset takes\n";
    assert_eq!(opening_after(&taken, 20.0), Opening::Early);
    assert_eq!(opening_after(&(taken.clone() + "@15 reset ends\n"), 20.0), Opening::Ready);
    // MOFED has swapped its modules, and made them whole, while the device was away.
    assert_eq!(
        opening_after(&(taken + "@11 begun go\n@12 unmarked\n@13 swap\n@14 ready new\n"), 20.0),
        Opening::Away
    );
    // A gate that begins while there is none has no business on the node.
    let lines = "@1 reset begins\n@5 reset ends".lines().filter_map(Line::parse).collect::<Vec<_>>();
    assert_eq!(Truth::of(&lines).opening(2.0, 1.5, "init"), Opening::Away);
    assert_eq!(
        Truth::of(&lines).opening(2.0, 0.95, "init"),
        Opening::Away,
        "a program starts before it looks"
    );
    assert_eq!(Truth::of(&lines).opening(2.0, 0.5, "init"), Opening::Early);
}

pub(crate) fn who_stood_still_may_open_by_what_was_ready_then() {
    let ends = |pause: &str| STARTED_BY_GO.to_owned() + "@9.95 " + pause + "\n@9.99 unmarked\n";
    let frozen = ends("frozen init") + "@40 thawed init\n";
    assert_eq!(opening_after(&frozen, 40.02), Opening::StoodStill);
    assert_eq!(opening_after(&frozen, 40.2), Opening::Early, "it has run for longer since");
    assert_eq!(opening_after(&(ends("frozen sidecar") + "@40 thawed sidecar\n"), 40.02), Opening::Early);
    let suspended = ends("suspends") + "@4000 resumed\n";
    assert_eq!(opening_after(&suspended, 4000.02), Opening::StoodStill);
    // Twice, and both at once for a while.
    let twice = ends("frozen init") + "@30 suspends\n@4000 resumed\n@4000 thawed init\n";
    assert_eq!(opening_after(&twice, 4000.02), Opening::StoodStill);
    assert_eq!(opening_after(&twice, 4000.2), Opening::Early);
}

pub(crate) fn a_container_that_stands_still_before_its_first_look_looks_later() {
    let lines = "@1 frozen init\n@2 reset begins\n@3 thawed init\n@9 reset ends";
    let truth = Truth::of(&lines.lines().filter_map(Line::parse).collect::<Vec<_>>());
    assert_eq!(truth.opening(4.0, 0.95, "init"), Opening::Away);
    assert_eq!(truth.opening(4.0, 0.95, "wait.1"), Opening::Early);
    assert_eq!(truth.opening(4.0, 0.5, "init"), Opening::Early, "it has looked before");
}

pub(crate) fn nothing_of_mofed_outlives_a_boot() {
    let booted = STARTED_BY_GO.to_owned() + "@10 reset begins\n@11 frozen init\n@12 cut\n@12.1 booted\n";
    assert_eq!(opening_after(&booted, 13.0), Opening::Early);
    // Its lock file is gone, too: what the next one leaves without a lock is untold.
    let next = booted + "@20 begun bash\n@21 unmarked\n@22 swap\n@23 ready new\n@30 killed kill\n";
    assert_eq!(opening_after(&next, 25.0), Opening::Ready);
    assert_eq!(opening_after(&next, 40.0), Opening::Untold);
}

pub(crate) fn on_a_node_without_a_nic_everyone_may_open() {
    assert_eq!(opening_after("@1 lives none nicless", 2.0), Opening::Exempt);
    assert_eq!(opening_after("@1 lives none unrequested", 2.0), Opening::Exempt);
    assert_eq!(opening_after("@1 lives none unmanaged", 2.0), Opening::Early);
    assert_eq!(opening_after("@1 lives none nicless\n@2 booted\n@3 lives none used", 4.0), Opening::Early);
}

pub(crate) fn the_node_sleeps_and_a_container_does_not() {
    let lines = "@1 suspends\n@11 resumed\n@20 frozen init\n@30 thawed init\n@40 suspends\n@50 resumed";
    let truth = Truth::of(&lines.lines().filter_map(Line::parse).collect::<Vec<_>>());
    assert!((truth.slept(5.0, 45.0) - 11.0).abs() < 1e-9);
}
