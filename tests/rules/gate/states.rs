// SPDX-License-Identifier: Apache-2.0
//! Every state of a gate, over a bounded alphabet of looks: what a look saw, when, and in which order. Time goes by
//! ticks until after the deadline, and gates that differ in nothing that decides are explored once. So all sequences
//! of looks are covered, not a sample of them.
//!
//! Beside each gate runs [`Spec`], which says in a few lines what a gate owes: it opens and ends exactly when the
//! specification says so. Each state is also left to itself, to see that the gate asks for the looks that it needs.

use super::{START, ms, policy};
use peermem_gate::ready::condition::{ConditionType, Reason};
use peermem_gate::ready::exit::Exit;
use peermem_gate::ready::gate::{Effect, Gate, Last, Opening, Policy};
use peermem_gate::ready::look::{Cause, Look};
use peermem_gate::ready::observation::{FileId, Identity};
use peermem_gate::ready::verdict::{Condition, Verdict};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// All times in ticks, so small that every order of them is tried.
const TICK: u64 = 500;
const SETTLE: u64 = 2;
const SUSPECT_HOLD: u64 = 3;
const TIMEOUT: u64 = 8;
/// What settles again after an opening that failed, and twice as long after the next.
const AGAIN: u64 = 2;
/// So many openings may fail, as with `load`.
const VAIN: u32 = 2;

/// What a look saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Saw {
    Ready,
    MarkerAbsent,
    MarkerSuspect,
    ModuleLoading,
    Unreadable,
    /// Waiting alone cannot cure it.
    DirectoryUnlinked,
    /// The same, and a rebuild can.
    Stub,
    /// No NIC is on the bus, and the node has no trace of MOFED. (The other conditions are met, which must not
    /// matter.)
    NoDevice,
    /// Every condition is met, except that the NIC is off the bus.
    Away,
    /// A reset took the modules as well.
    AwayNorModules,
    DevicesUnreadable,
    NotRequested,
}

/// A look: what it saw, below which marker, and of which load of the modules. `None` is one that was broken off.
type Seen = Option<(Saw, u64, u64)>;

const ALPHABET: [Seen; 17] = [
    None,
    Some((Saw::Ready, 1, 1)),
    Some((Saw::Ready, 2, 1)),
    Some((Saw::Ready, 1, 2)),
    Some((Saw::MarkerAbsent, 0, 1)),
    Some((Saw::MarkerSuspect, 1, 1)),
    Some((Saw::MarkerSuspect, 2, 1)),
    Some((Saw::ModuleLoading, 1, 1)),
    Some((Saw::Unreadable, 1, 1)),
    Some((Saw::DirectoryUnlinked, 0, 1)),
    Some((Saw::Stub, 1, 1)),
    Some((Saw::Stub, 2, 1)),
    Some((Saw::NoDevice, 1, 1)),
    Some((Saw::Away, 1, 1)),
    Some((Saw::AwayNorModules, 1, 1)),
    Some((Saw::DevicesUnreadable, 1, 1)),
    Some((Saw::NotRequested, 1, 1)),
];

fn look((saw, marker, modules): (Saw, u64, u64)) -> Look {
    let is = |wanted: Saw, then: Reason, or: Reason| if saw == wanted { then } else { or };
    let nic = match saw {
        Saw::NoDevice => Reason::NoRdmaDevice,
        Saw::Away | Saw::AwayNorModules => Reason::NicAway,
        Saw::DevicesUnreadable => Reason::DevicesUnreadable,
        _ => Reason::NicFound,
    };
    let present = match saw {
        Saw::MarkerAbsent => Reason::MarkerAbsent,
        Saw::DirectoryUnlinked => Reason::MarkerDirectoryUnlinked,
        _ => Reason::MarkerFound,
    };
    let live = match saw {
        Saw::ModuleLoading => Reason::ModuleLoading,
        Saw::Unreadable => Reason::ModulesUnreadable,
        Saw::AwayNorModules => Reason::ModuleNotLoaded,
        _ => Reason::AllLive,
    };
    let conditions = [
        (ConditionType::RdmaRequested, is(Saw::NotRequested, Reason::RdmaNotRequested, Reason::Requested)),
        (ConditionType::NicPresent, nic),
        (ConditionType::MarkerPresent, present),
        (ConditionType::MarkerTrusted, is(Saw::MarkerSuspect, Reason::MarkerSuspect, Reason::LockHeld)),
        (ConditionType::ModulesLive, live),
        (ConditionType::PeermemUsable, is(Saw::Stub, Reason::StubModule, Reason::Usable)),
        (ConditionType::Settled, Reason::NotRequired),
    ];
    let conditions = conditions.map(|(r#type, reason)| Condition::new(r#type, reason, "as the test says"));
    let marker = (marker > 0).then_some(FileId { device: 1, inode: marker, changed_ns: 0 });
    let modules = [("ib_core".to_owned(), modules)].into();
    Look {
        verdict: Verdict::of(conditions.to_vec()),
        identity: Identity { marker, modules, ..Identity::default() },
        next_build: None,
    }
}

/// What a gate owes, in ticks since its start.
#[derive(Clone, Debug, Default, Hash)]
struct Spec {
    /// Since the start, or since an opening that failed.
    has_looked: bool,
    /// A NIC was seen in this wait, or something that spoke of MOFED.
    has_nic: bool,
    /// For how long looks have seen that NIC away, and the last look.
    away: Option<(u64, u64)>,
    /// Every condition has been met since then, with this marker and these modules.
    held: Option<(u64, u64, u64)>,
    /// This marker has been suspect since then.
    suspect: Option<(u64, u64)>,
    /// When it opens if no look until then, and none at that time, says that it applies.
    exempt: Option<u64>,
    failed_openings: u32,
}

impl Spec {
    /// What the contract demands at this time, after this look.
    fn owes(&mut self, case: &Case, now: u64, seen: Seen) -> Option<Last> {
        let is_late = case.deadline().is_some_and(|deadline| now >= deadline);
        let demands = seen.and_then(|seen| self.looks(case, now, seen, is_late));
        let is_over = is_late || case.is_one_look() && self.has_looked;
        demands.or_else(|| is_over.then(|| case.too_late()))
    }

    fn looks(&mut self, case: &Case, now: u64, seen: (Saw, u64, u64), is_late: bool) -> Option<Last> {
        let (saw, marker, modules) = seen;
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        let is_gone = self.is_gone(saw, now);
        if saw != Saw::MarkerSuspect || self.suspect.is_none_or(|(same, _)| same != marker) {
            self.suspect = (saw == Saw::MarkerSuspect).then_some((marker, now));
        }
        if saw == Saw::NotRequested || is_gone {
            self.held = None;
            let opens = *self.exempt.get_or_insert(if is_first { now } else { now + self.settle(case) });
            let is_due = now >= opens;
            return if is_due {
                Some(Ok(Opening::NotApplicable))
            } else {
                case.policy.dry_run.then_some(Ok(Opening::DryRun))
            };
        }
        self.exempt = None;
        let is_believed = self.suspect.is_some_and(|(_, since)| now >= since + SUSPECT_HOLD);
        let cures = saw == Saw::Stub && case.cures;
        let holds = saw == Saw::Ready || is_believed || cures;
        let same = self.held.filter(|held| holds && (held.1, held.2) == (marker, modules));
        self.held = holds.then(|| same.unwrap_or((now, marker, modules)));
        let is_settled = self.held.is_some_and(|(since, ..)| now >= since + self.settle(case));
        if case.policy.dry_run {
            Some(Ok(Opening::DryRun))
        } else if is_settled && !is_late && !(case.is_one_look() && self.failed_openings > 0) {
            Some(Ok(if cures { Opening::ForRebuild } else { Opening::Ready }))
        } else if case.policy.fail_fast
            && (saw == Saw::DirectoryUnlinked || saw == Saw::Stub && (is_late || !cures))
        {
            Some(Err(Exit::Blocked))
        } else {
            None
        }
    }

    /// This node has no NIC: none was seen and there is no trace of MOFED, or it has been away for the whole hold.
    fn is_gone(&mut self, saw: Saw, now: u64) -> bool {
        match saw {
            Saw::NoDevice if !self.has_nic => true,
            Saw::NoDevice | Saw::Away | Saw::AwayNorModules => {
                let (watched, last) = self.away.unwrap_or((0, now));
                (self.has_nic, self.away) = (true, Some((watched + now - last, now)));
                watched + now - last >= SUSPECT_HOLD
            }
            // Nothing can be told, and that time does not count.
            Saw::DevicesUnreadable => {
                self.away = self.away.map(|(watched, _)| (watched, now));
                false
            }
            _ => {
                (self.has_nic, self.away) = (true, None);
                false
            }
        }
    }

    fn settle(&self, case: &Case) -> u64 {
        let again = if self.failed_openings > 0 { AGAIN << (self.failed_openings - 1) } else { 0 };
        if case.is_one_look() { 0 } else { case.settle.max(again) }
    }
}

/// A policy, in ticks where the specification counts in them.
#[derive(Clone, Debug)]
struct Case {
    policy: Policy,
    settle: u64,
    cures: bool,
    is_load: bool,
}

impl Case {
    fn new(timeout: Option<u64>, settle: u64) -> Self {
        let ticks = |ticks| ms(ticks * TICK);
        let policy = Policy {
            timeout: timeout.map(ticks),
            settle: ticks(settle),
            suspect_hold: ticks(SUSPECT_HOLD),
            heartbeat: Duration::from_secs(3600),
            ..policy()
        };
        Self { policy, settle, cures: false, is_load: false }
    }

    fn is_one_look(&self) -> bool {
        self.policy.dry_run || self.policy.timeout == Some(Duration::ZERO)
    }

    fn deadline(&self) -> Option<u64> {
        let timeout = self.policy.timeout.filter(|_| !self.is_one_look());
        timeout.map(|timeout| u64::try_from(timeout.as_millis()).expect("a small number") / TICK)
    }

    fn too_late(&self) -> Last {
        if self.policy.proceed_on_timeout { Ok(Opening::TimedOut) } else { Err(Exit::TimedOut) }
    }
}

/// A gate and what it owes, at a time.
#[derive(Clone, Debug)]
struct State {
    gate: Gate,
    spec: Spec,
    now: u64,
}

fn at(tick: u64) -> Duration {
    START + ms(tick * TICK)
}

impl State {
    fn start(case: &Case) -> Self {
        let mut gate = Gate::new(case.policy.clone(), at(0));
        gate.allow_rebuild(case.cures);
        Self { gate, spec: Spec::default(), now: 0 }
    }

    /// Steps the gate, and asserts that it does what it owes. `None` once it has ended.
    fn step(mut self, case: &Case, now: u64, seen: Seen) -> Option<Self> {
        let owed = self.spec.owes(case, now, seen);
        let did = last(self.gate.step(at(now), &Cause::Timer, seen.map(look)));
        assert_eq!(did, owed, "at tick {now}, with {seen:?}, {case:?}: {self:#?}");
        self.now = now;
        if did.is_none() {
            self.asks_for_no_passed_time(seen);
        }
        match did {
            None => Some(self),
            Some(Ok(Opening::Ready)) if case.is_load && self.spec.failed_openings < VAIN => {
                self.gate.opening_failed();
                self.spec.failed_openings += 1;
                (self.spec.held, self.spec.has_looked) = (None, false);
                Some(self)
            }
            Some(_) => None,
        }
    }

    /// A look has answered everything that was due. One that was broken off is due again.
    fn asks_for_no_passed_time(&self, seen: Seen) {
        let due = self.gate.next_look().filter(|due| *due <= at(self.now));
        assert!(seen.is_none() || due.is_none(), "{due:?} at tick {}, with {seen:?}: {self:#?}", self.now);
    }

    /// The gate inside `keep`, which only observes: it owes nothing, and asks for looks all the same.
    fn observe(mut self, now: u64, seen: Seen) -> Self {
        let Some(saw) = seen else { return Self { now, ..self } };
        let effects = self.gate.observe(at(now), &Cause::Timer, look(saw));
        assert!(!effects.iter().any(|effect| effect.last().is_some()), "{effects:?}");
        self.now = now;
        self.asks_for_no_passed_time(seen);
        self
    }

    /// Apart from the account of where the time went, which decides nothing.
    fn key(&self) -> u64 {
        let gate = format!("{:?}", self.gate);
        let (before, spent) = gate.split_once("spent: [").expect("an account");
        let (_, after) = spent.split_once("failed_openings: ").expect("what follows it");
        let mut hasher = DefaultHasher::new();
        (before, after, &self.spec, self.now).hash(&mut hasher);
        hasher.finish()
    }

    /// Sees this again and again, at the times that the gate itself asks for. How many ticks until it has ended.
    fn rests_on(&self, case: &Case, seen: Seen) -> Option<u64> {
        let mut state = self.clone();
        let mut now = self.now;
        for _ in 0..100 {
            match state.step(case, now, seen) {
                None => return Some(now - self.now),
                Some(next) => state = next,
            }
            // After an opening that failed a look follows at once.
            if state.gate.verdict().is_some() || seen.is_none() {
                let due = state.gate.next_look()?.saturating_sub(START).as_millis();
                let due = u64::try_from(due).expect("a small number");
                let is_hot = due <= now * TICK && seen.is_some();
                assert!(!is_hot, "a hot loop at tick {now}, with {seen:?}: {state:#?}");
                now = due.div_ceil(TICK).max(now + 1);
            }
        }
        panic!("it does not come to rest: {state:#?}");
    }

    fn lives(&self, case: &Case) {
        let settle = self.spec.settle(case);
        let vain_at_most = if case.is_load { 4 * settle + 8 * AGAIN } else { 0 };
        let left = case.deadline().map(|deadline| deadline.saturating_sub(self.now));
        // Every condition is met from now on.
        let ready = self.rests_on(case, Some((Saw::Ready, 1, 1)));
        let limit = left.unwrap_or(u64::MAX).min(settle + vain_at_most);
        assert!(ready.is_some_and(|ticks| ticks <= limit), "{ready:?} of {limit}: {self:#?}");
        // A suspect marker, which is believed in the end.
        let believed = self.rests_on(case, Some((Saw::MarkerSuspect, 1, 1)));
        let limit = left.unwrap_or(u64::MAX).min(SUSPECT_HOLD + settle + vain_at_most);
        assert!(believed.is_some_and(|ticks| ticks <= limit), "{believed:?} of {limit}: {self:#?}");
        // No device: it does not apply, and a moment is enough to be sure. One that was seen, or is to be expected,
        // has to be away for the whole hold.
        for saw in [Saw::NoDevice, Saw::Away, Saw::AwayNorModules] {
            let exempt = self.rests_on(case, Some((saw, 1, 1)));
            assert!(exempt.is_some_and(|ticks| ticks <= limit), "{exempt:?} of {limit}, {saw:?}: {self:#?}");
        }
        // No look comes to an end any more, or none finds anything: the deadline ends it, at its very tick.
        for seen in [None, Some((Saw::MarkerAbsent, 0, 1)), Some((Saw::Unreadable, 1, 1))] {
            // A look that is broken off again and again is broken off by the deadline, or by a signal.
            if seen.is_none() && left.is_none() {
                continue;
            }
            let ended = self.rests_on(case, seen);
            assert!(ended == left || case.is_one_look(), "{ended:?} of {left:?}: {self:#?}");
        }
        // A signal ends it whatever it is at.
        let signaled = last(self.gate.clone().signaled(at(self.now), 15));
        assert_eq!(signaled, Some(Err(Exit::Signal(15))));
    }
}

fn last(mut effects: Vec<Effect>) -> Option<Last> {
    assert!(effects.iter().rev().skip(1).all(|effect| effect.last().is_none()), "{effects:?}");
    effects.pop()?.last()
}

/// Explores all that can become of a gate with this policy; answers with the number of its states.
fn explored(case: &Case) -> usize {
    let mut known = HashSet::new();
    let mut open = vec![State::start(case)];
    while let Some(state) = open.pop() {
        if !known.insert(state.key()) {
            continue;
        }
        state.lives(case);
        for seen in ALPHABET {
            for now in [state.now, state.now + 1] {
                if now <= TIMEOUT + 1 {
                    open.extend(state.clone().step(case, now, seen));
                }
            }
        }
    }
    println!("{} states", known.len());
    known.len()
}

#[test]
fn a_gate_that_only_observes_never_asks_for_a_past_time() {
    let case = Case::new(None, SETTLE);
    let mut known = HashSet::new();
    let mut open = vec![State::start(&case)];
    while let Some(state) = open.pop() {
        if !known.insert(state.key()) {
            continue;
        }
        let times = [state.now, state.now + 1].into_iter().filter(|now| *now <= TIMEOUT + 1);
        open.extend(times.flat_map(|now| ALPHABET.map(|seen| state.clone().observe(now, seen))));
    }
    println!("{} states", known.len());
}

#[test]
fn a_gate_opens_and_ends_exactly_when_the_contract_says() {
    let states = explored(&Case::new(Some(TIMEOUT), SETTLE));
    assert!(states > 300, "{states} states");
}

#[test]
fn a_gate_without_a_deadline_or_a_settle_time_keeps_the_contracts_times() {
    explored(&Case::new(None, SETTLE));
    explored(&Case::new(Some(TIMEOUT), 0));
}

#[test]
fn a_gate_that_opens_at_its_deadline_or_fails_fast_keeps_the_contracts_times() {
    let case = Case::new(Some(TIMEOUT), SETTLE);
    explored(&Case { policy: Policy { proceed_on_timeout: true, ..case.policy.clone() }, ..case.clone() });
    explored(&Case { policy: Policy { fail_fast: true, ..case.policy.clone() }, ..case });
}

#[test]
fn a_gate_with_a_single_look_keeps_the_contracts_times() {
    explored(&Case::new(Some(0), SETTLE));
    explored(&Case { is_load: true, ..Case::new(Some(0), SETTLE) });
    let case = Case::new(Some(TIMEOUT), SETTLE);
    explored(&Case { policy: Policy { dry_run: true, ..case.policy.clone() }, ..case });
}

#[test]
fn a_gate_before_a_load_or_a_rebuild_keeps_the_contracts_times() {
    let case = Case::new(Some(TIMEOUT), SETTLE);
    explored(&Case { is_load: true, ..case.clone() });
    explored(&Case { is_load: true, ..Case::new(Some(TIMEOUT), 0) });
    explored(&Case { cures: true, ..case });
}
