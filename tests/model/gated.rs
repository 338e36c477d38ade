// SPDX-License-Identifier: Apache-2.0
//! A gate that waits: the production state machine, fed with production looks. `wait` is nothing else. What such a
//! gate owes is watched here, of the one inside `load` too.

use super::eyes::{Eyes, Seen};
use super::laws::Fault;
use super::memory::{Memory, Moment};
use super::node::{Lock, Node};
use super::{Life, Pace, TICK, age};
use peermem_gate::ready::gate::{Gate, Last, Opening, Policy};
use peermem_gate::ready::look::Cause;
use peermem_gate::ready::time::BootTime;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

/// As the options say by default; only no life waits as long as they do for a suspect marker.
pub(crate) fn policy(pace: &Pace) -> Policy {
    Policy {
        timeout: None,
        proceed_on_timeout: false,
        settle: Duration::from_secs(1),
        suspect_hold: pace.suspect_hold,
        fail_fast: false,
        dry_run: false,
        heartbeat: Duration::from_secs(3600),
    }
}

/// A gate on a calm node opens within this: the settle time, which is twice as long after an opening that failed, and
/// a tick for each wake.
pub(crate) const OPENING_LIMIT: Duration = Duration::from_secs(6);

/// Since when something has been so without a break.
fn since(before: Option<BootTime>, is_so: bool, now: BootTime) -> Option<BootTime> {
    is_so.then(|| before.unwrap_or(now))
}

/// The marker may be a dead container's.
fn is_doubtful(node: &Node) -> bool {
    node.marker.is_some() && node.lock == Lock::Free
}

/// A look takes its time: this is what it began with.
#[derive(Clone, Debug)]
pub(crate) struct Half {
    begun: BootTime,
    node: Node,
    /// The node showed then that MOFED is not ready.
    pub(crate) was_unready: bool,
}

/// Why a gate may open although MOFED is not ready, or the NIC is off the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excuse {
    /// No NIC was there in this wait, and nothing spoke of MOFED.
    Untraced,
    /// The NIC has been away for `--suspect-hold`.
    Gone,
}

/// Begins a look.
pub(crate) fn begun(life: &Life, eyes: Eyes, is_believed: bool) -> Half {
    let was_unready = life.is_visibly_unready(eyes, is_believed);
    Half { begun: life.now, node: life.node.clone(), was_unready }
}

/// It ends before time passes.
impl Hash for Half {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { begun: _, node, was_unready } = self;
        (node, was_unready).hash(state);
    }
}

impl Half {
    /// It began on a node that was visibly not ready, or without a NIC: a build would become a stub.
    pub(crate) fn showed_unready(&self) -> bool {
        self.was_unready || !self.node.has_nic
    }

    /// Ends it: what is read last may be newer.
    pub(crate) fn ends(&self, node: &Node, eyes: Eyes) -> Arc<Seen> {
        eyes.look_while(&self.node, node)
    }
}

/// What a gate has been through, and what it owes.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    policy: Policy,
    started: BootTime,
    pub(crate) eyes: Eyes,
    /// Since that look the NIC has been away, as far as looks have shown.
    away: Option<BootTime>,
    /// As its look began.
    excuse: Option<Excuse>,
    /// Since then the marker has been doubtful, and this gate has waited.
    doubted: Option<BootTime>,
    /// Since then the node has shown that MOFED is ready.
    ready: Option<BootTime>,
    /// It had shown that for the settle time when the look began.
    was_settled: bool,
    /// Since then nothing has spoken against opening.
    calm: Option<BootTime>,
}

impl Watch {
    pub(crate) fn new(now: BootTime, eyes: Eyes, policy: Policy) -> Self {
        Self {
            policy,
            started: now,
            eyes: Eyes { saw_nic: false, ..eyes },
            away: None,
            excuse: None,
            doubted: None,
            ready: None,
            was_settled: false,
            calm: None,
        }
    }

    pub(crate) fn hash_at<H: Hasher>(&self, moment: Moment, state: &mut H) {
        let Self { policy, started, eyes, doubted, away, calm, .. } = self;
        self.ready.map(|since| moment.age(since, policy.settle)).hash(state);
        policy.timeout.map(|timeout| moment.to(*started + timeout)).hash(state);
        (eyes, self.was_settled).hash(state);
        away.map(|since| moment.age(since, policy.suspect_hold)).hash(state);
        doubted.map(|since| moment.age(since, policy.suspect_hold)).hash(state);
        calm.map(|since| moment.age(since, Duration::MAX)).hash(state);
    }

    /// A lock that was free for long enough proves nothing any more.
    pub(crate) fn is_believed(&self, now: BootTime) -> bool {
        self.doubted.is_some_and(|since| age(since, now) >= self.policy.suspect_hold)
    }

    /// A look begins.
    pub(crate) fn begins(&mut self, life: &Life) -> Half {
        self.eyes.saw_nic |= life.node.has_nic;
        let is_expected = self.eyes.saw_nic || life.node.is_traced();
        self.away = since(self.away, !life.node.has_nic && is_expected, life.now);
        self.excuse = self.excuse(life);
        self.was_settled = self.ready.is_some_and(|since| age(since, life.now) >= self.policy.settle);
        begun(life, self.eyes, self.is_believed(life.now))
    }

    /// The NIC has been away for so long that it counts as removed.
    pub(crate) fn is_gone(&self, now: BootTime) -> bool {
        self.away.is_some_and(|since| age(since, now) >= self.policy.suspect_hold)
    }

    /// The contract's exceptions ("Does not apply").
    fn excuse(&self, life: &Life) -> Option<Excuse> {
        let Life { node, now, .. } = life;
        if self.is_gone(*now) {
            Some(Excuse::Gone)
        } else {
            let is_untraced = !self.eyes.saw_nic && !node.has_nic && !node.is_traced();
            // The kernel's own ib_uverbs may be what a reset has left.
            (is_untraced && node.stack.core.is_none()).then_some(Excuse::Untraced)
        }
    }

    /// It has opened because of one of the contract's exceptions.
    pub(crate) fn is_excused(&self, last: Last) -> bool {
        last == Ok(Opening::NotApplicable) && self.excuse.is_some()
    }

    /// What an opening must not be.
    pub(crate) fn fault(&self, life: &Life, last: Last, was_unready: bool) -> Option<Fault> {
        let is_late = self.policy.timeout.is_some_and(|timeout| life.now >= self.started + timeout);
        match last {
            Ok(Opening::TimedOut) if self.policy.proceed_on_timeout && is_late => None,
            Ok(_) if is_late => Some(Fault::LateOpen),
            Ok(Opening::Ready | Opening::ForRebuild) if !was_unready && self.was_settled => None,
            Ok(_) if self.is_excused(last) => None,
            Ok(_) => Some(Fault::EarlyOpen),
            Err(_) => None,
        }
    }

    /// For how long nothing has spoken against opening, and the marker has been doubtful.
    pub(crate) fn calms(&mut self, life: &Life, is_ready: bool) -> Duration {
        self.doubted = since(self.doubted, is_doubtful(&life.node), life.now);
        self.calm = since(self.calm, is_ready, life.now);
        self.calm.map_or(Duration::ZERO, |since| age(since, life.now))
    }

    /// What has been so for how long while it waits, and whether that is too long. `is_ready` if nothing but the gate
    /// itself keeps it closed.
    pub(crate) fn notes(&mut self, life: &Life, is_ready: bool, patience: Duration) -> Option<Fault> {
        let now = life.now;
        let calm = self.calms(life, is_ready);
        let is_unready = life.is_visibly_unready(self.eyes, self.is_believed(now));
        self.ready = since(self.ready, life.node.has_nic && !is_unready, now);
        match self.policy.timeout {
            Some(timeout) if now > self.started + timeout + TICK => Some(Fault::NeverEnds),
            None if calm > patience => Some(Fault::NeverOpen),
            _ => None,
        }
    }
}

/// A gate that waits.
#[derive(Clone, Debug)]
pub(crate) struct Gated {
    pub(crate) gate: Arc<Gate>,
    memory: Arc<Memory>,
    pace: &'static Pace,
    pub(crate) watch: Watch,
    /// A look is made in two halves, between which others act.
    is_torn: bool,
    half: Option<Half>,
    /// Something has happened since its last look: it looks at that time at the latest.
    woken: Option<BootTime>,
}

impl Gated {
    pub(crate) fn new(now: BootTime, eyes: Eyes, policy: Policy, pace: &'static Pace) -> Self {
        let gate = Arc::new(Gate::new(policy.clone(), now));
        let memory = Arc::new(Memory::of(&gate));
        let watch = Watch::new(now, eyes, policy);
        Self { gate, memory, pace, watch, is_torn: false, half: None, woken: Some(now + pace.lag) }
    }

    /// Its looks take their time.
    pub(crate) fn torn(self) -> Self {
        Self { is_torn: true, ..self }
    }

    /// Another one of the same kind starts.
    pub(crate) fn again(&self, now: BootTime) -> Self {
        let Watch { eyes, policy, .. } = &self.watch;
        Self { is_torn: self.is_torn, ..Self::new(now, *eyes, policy.clone(), self.pace) }
    }

    pub(crate) fn hash_at<H: Hasher>(&self, moment: Moment, state: &mut H) {
        let Self { gate, memory, watch, half, woken, .. } = self;
        watch.hash_at(moment, state);
        memory.hash_at(moment, state);
        gate.next_look().map(|due| due <= moment.now).hash(state);
        let is_excused = half.as_ref().and(watch.excuse).is_some();
        (half, is_excused, woken.map(|due| moment.to(due))).hash(state);
    }

    /// It looks at that time at the latest.
    pub(crate) fn latest(&self) -> Option<BootTime> {
        let due = self.gate.next_look().map(|due| due + self.pace.lag);
        // A look goes on at once.
        let begun = self.half.as_ref().map(|half| half.begun + self.pace.lag);
        [self.woken, due, begun].into_iter().flatten().min()
    }

    /// A look has a reason.
    pub(crate) fn may_look(&self, now: BootTime) -> bool {
        self.half.is_some() || self.woken.is_some() || self.gate.next_look().is_some_and(|due| due <= now)
    }

    /// It has to look by then.
    pub(crate) fn wake(&mut self, due: BootTime) {
        self.woken = self.woken.into_iter().chain([due]).min();
    }

    /// Looks, or goes on with it; then the production gate decides. The effect that ends the wait comes back, and
    /// whether the look began on a node that was visibly not ready.
    pub(crate) fn look(&mut self, life: &mut Life) -> Option<(Last, bool)> {
        let Some(half) = self.half.take() else {
            self.woken = None;
            self.half = Some(self.watch.begins(life));
            return if self.is_torn { None } else { self.look(life) };
        };
        let seen = half.ends(&life.node, self.watch.eyes);
        let effects = Arc::make_mut(&mut self.gate).step(life.now, &Cause::Marker, Some(seen.look.clone()));
        self.memory = Arc::new(Memory::of(&self.gate));
        let last = effects.into_iter().find_map(|effect| effect.last());
        if last.is_none() && self.gate.next_look().is_some_and(|due| due <= life.now) {
            life.fails(Fault::PastWake);
        }
        last.map(|last| (last, half.showed_unready()))
    }
}
