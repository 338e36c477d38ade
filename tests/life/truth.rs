// SPDX-License-Identifier: Apache-2.0
//! Who opened too early: judged by what the scenario itself did, and by nothing that the gate looks at.

use crate::machine::Line;

/// The gate's `--suspect-hold`, in seconds.
const SUSPECT_HOLD: f64 = 300.0;

/// Between the gate's last look and CMD's first instruction lie an execve(2) and the start of a shell, or that of
/// modprobe's, on an emulated processor, in seconds. Who opens this long after the end of a state has met it.
pub(crate) const OVERLAP: f64 = 0.1;

/// What the scenario knows of MOFED's stack, whatever the NIC does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// There is nothing to wait for: the node has no NIC, or `GPUDirect` RDMA is not asked for.
    Exempt,
    /// A container has finished its start and lives.
    Ready,
    /// The container that made the stack whole is dead since then, and its lock shows it.
    Suspect(f64),
    /// As `Suspect`, but the older entrypoint has no lock: on this node all is as it is when all is well.
    Untold,
    /// All else.
    Unready,
}

/// What a node is like at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Moment {
    mofed: State,
    /// Since when the NIC has been off the bus.
    away: Option<f64>,
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
    /// The NIC has been off the bus for the whole suspect hold.
    Gone,
    /// MOFED was ready, and the NIC off the bus: a driver that is built then becomes a stub (gpu-driver-container,
    /// `_gpu_direct_rdma_enabled`).
    Away,
    /// MOFED was not ready.
    Early,
}

impl Opening {
    /// A gate must not open so.
    pub(crate) fn is_early(self) -> bool {
        matches!(self, Self::Early | Self::Away)
    }
}

/// A node's life as the scenario knows it: since when it was like that.
#[derive(Debug)]
pub(crate) struct Truth {
    moments: Vec<(f64, Moment)>,
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
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Default)]
struct Node {
    exempt: bool,
    marked: bool,
    /// The modules are those of one MOFED, and all of them.
    whole: bool,
    /// Since when the NIC has been off the bus.
    away: Option<f64>,
    /// A reset has unloaded the NIC's driver, although MOFED is idle.
    taken: bool,
    lock: Lock,
    /// Since when no container has been up; `None` while one is: it has come to the end of its start, and lives.
    down: Option<f64>,
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
            // MOFED has loaded a driver that a reset took.
            ("ready", _) => {
                (self.marked, self.whole, self.taken) = (true, true, false);
                self.down = None;
            }
            ("failed" | "killed" | "stopped", _) => {
                self.fall(line.at);
                if self.lock == Lock::Held {
                    self.lock = Lock::Free;
                }
            }
            ("reset", "begins") => self.away = Some(line.at),
            ("reset", "takes") => self.taken = true,
            ("reset", "plugs") => self.away = None,
            ("reset", _) => (self.away, self.taken) = (None, false),
            // Nothing of MOFED's outlives a boot.
            ("booted", _) => *self = Self::default(),
            ("lives", text) => self.exempt = text.ends_with(" nicless") || text.ends_with(" unrequested"),
            _ => {}
        }
    }

    fn fall(&mut self, at: f64) {
        self.down.get_or_insert(at);
    }

    fn moment(&self) -> Moment {
        Moment { mofed: self.mofed(), away: self.away }
    }

    fn mofed(&self) -> State {
        if self.exempt {
            return State::Exempt;
        }
        if self.taken || !self.marked || !self.whole {
            return State::Unready;
        }
        match (self.down, &self.lock) {
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
        let (mut node, mut pauses) = (Node::default(), Vec::new());
        let mut moments = vec![(0.0, node.moment())];
        for line in lines {
            node.take_in(line);
            Pause::take_in(&mut pauses, line);
            moments.push((line.at, node.moment()));
        }
        Self { moments, pauses }
    }

    /// What an opening at this time is, by somebody in this container who has waited since.
    pub(crate) fn opening(&self, at: f64, since: f64, container: &str) -> Opening {
        let kinds = |from: f64| -> Vec<Opening> {
            self.moments(from, at).map(|moment| Self::kind(moment, at, since)).collect()
        };
        let now = kinds(at).pop().unwrap_or(Opening::Early);
        if !now.is_early() {
            return now;
        }
        // A moment of the container's own time.
        let before = kinds(self.ran_before(at, OVERLAP, container));
        if kinds(at - OVERLAP).contains(&Opening::Ready) {
            Opening::Overlapped
        } else if before.contains(&Opening::Ready) {
            Opening::StoodStill
        } else {
            before.into_iter().rev().find(|kind| !kind.is_early()).unwrap_or(now)
        }
    }

    /// What it would be if nothing had changed on the node since this moment. MOFED counts first, then the NIC.
    fn kind(moment: Moment, at: f64, since: f64) -> Opening {
        let has_held = |from: f64| at - from.max(since) >= SUSPECT_HOLD;
        let with_nic = match moment.mofed {
            State::Exempt => return Opening::Exempt,
            State::Ready => Opening::Ready,
            State::Suspect(down) if has_held(down) => Opening::Believed,
            State::Untold => Opening::Untold,
            State::Suspect(_) | State::Unready => Opening::Early,
        };
        match moment.away {
            None => with_nic,
            Some(from) if has_held(from) => Opening::Gone,
            Some(_) if with_nic == Opening::Early => Opening::Early,
            Some(_) => Opening::Away,
        }
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

    /// The last moment before `from`, and those that came until `to`.
    fn moments(&self, from: f64, to: f64) -> impl Iterator<Item = Moment> {
        let first = self.moments.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        self.moments[first..].iter().take_while(move |(at, _)| *at <= to).map(|(_, moment)| *moment)
    }

    /// All was ready a moment before this time and at it.
    pub(crate) fn is_ready(&self, at: f64) -> bool {
        self.moments(at - OVERLAP, at).all(|moment| moment.mofed == State::Ready && moment.away.is_none())
    }

    /// Since when the node has been ready, with its NIC, at this time.
    pub(crate) fn ready_since(&self, at: f64) -> Option<f64> {
        let until = self.moments.partition_point(|(time, _)| *time <= at);
        let is_ready = |moment: &Moment| moment.mofed == State::Ready && moment.away.is_none();
        let ready = self.moments[..until].iter().rev().take_while(|(_, moment)| is_ready(moment));
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

pub(crate) fn in_a_reset_mofed_counts_first() {
    let reset = STARTED_BY_GO.to_owned() + "@10 reset begins\n";
    assert_eq!(opening_after(&reset, 20.0), Opening::Away, "MOFED is ready, and a build becomes a stub");
    assert_eq!(opening_after(&reset, 10.05), Opening::Overlapped);
    let taken = reset.clone() + "@10.001 reset takes\n";
    assert_eq!(opening_after(&taken, 20.0), Opening::Early);
    assert_eq!(opening_after(&(taken.clone() + "@14 reset plugs\n"), 14.5), Opening::Early);
    assert_eq!(opening_after(&(taken.clone() + "@14 reset plugs\n@15 reset ends\n"), 20.0), Opening::Ready);
    // MOFED has swapped its modules, and made them whole, while the device was away.
    assert_eq!(
        opening_after(&(taken + "@11 begun go\n@12 unmarked\n@13 swap\n@14 ready new\n"), 20.0),
        Opening::Away
    );
    assert_eq!(opening_after(&(reset + "@11 unmarked\n"), 20.0), Opening::Early, "as without a reset");
    let bash = STARTED_BY_BASH.to_owned() + "@5 killed kill\n@10 reset begins\n";
    assert_eq!(opening_after(&bash, 20.0), Opening::Away, "an untold marker");
}

pub(crate) fn a_nic_that_is_away_for_the_whole_hold_is_gone() {
    for begins in ["", STARTED_BY_GO, "@1 begun go\n"] {
        let away = begins.to_owned() + "@10 reset begins\n";
        assert!(opening_after(&away, 309.0).is_early(), "{begins}");
        assert_eq!(opening_after(&away, 311.0), Opening::Gone, "{begins}");
    }
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
