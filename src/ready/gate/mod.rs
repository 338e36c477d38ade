// SPDX-License-Identifier: Apache-2.0
//! The gate as a pure state machine: settle time, deadline, heartbeat, the suspect marker's time, and
//! the endings. Time is passed in, so a test of a 40-minute wait takes a microsecond.

mod devices;
mod log_lines;
mod policy;
mod step;

pub(crate) use log_lines::sentence;
pub use policy::Policy;
pub use step::{Effect, Last, Level, Line, Opening, Rebuilt};

use crate::ready::condition::{ConditionType, Reason};
use crate::ready::exit::Exit;
use crate::ready::look::{Cause, Look};
use crate::ready::observation::{FileId, Identity};
use crate::ready::time::{BootTime, Seconds};
use crate::ready::verdict::{Condition, Outcome, Verdict};
use devices::DeviceMemory;
use log_lines::{LoggedParts, logged_parts};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Transitions logged between two heartbeats; a flapping node must not fill the disk.
const MAX_LOGGED: u32 = 50;

/// After a failed opening every condition must be met for this long again, and twice as long after each further one,
/// up to the limit.
const SETTLE_AGAIN: Duration = Duration::from_secs(1);
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// After a rebuild that failed for a temporary cause, the next one comes this much later, and twice as late after
/// each further one, up to the limit: each takes seconds of a processor.
const REBUILD_AGAIN: Duration = Duration::from_secs(10);
const REBUILD_PAUSE_LIMIT: Duration = Duration::from_secs(600);
/// The limit of the pause after an obstacle: to ask again whether it is still there takes one look.
const OBSTACLE_PAUSE_LIMIT: Duration = Duration::from_secs(60);

/// A look that differs from the one before.
struct Change {
    /// The change that broke the settle time, if any did.
    broke: Option<String>,
}

/// A time during which every condition was met.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Settling {
    since: BootTime,
    identity: Identity,
}

/// The memory of a wait. It belongs to the wait and not to a worker: if a worker's answer is too old, the next
/// worker's gate begins with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Memory {
    start: BootTime,
    settling: Option<Settling>,
    /// The marker that is not trusted, who held the lock then, and since when.
    suspect: Option<(FileId, Option<i32>, BootTime)>,
    devices: DeviceMemory,
}

impl Memory {
    /// Of a wait that begins now.
    #[must_use]
    pub fn new(start: BootTime) -> Self {
        Self { start, settling: None, suspect: None, devices: DeviceMemory::default() }
    }
}

/// The gate.
#[derive(Clone, Debug)]
pub struct Gate {
    policy: Policy,
    memory: Memory,
    last_step: BootTime,
    next_heartbeat: BootTime,
    look: Option<Look>,
    /// When the gate opens, if every look until then says that it does not apply.
    exempt: Option<BootTime>,
    /// Where the time went, in the order of the first appearance.
    spent: Vec<(ConditionType, Duration)>,
    logged: u32,
    /// The logged parts of the look before an opening that failed.
    logged_before: Option<LoggedParts>,
    /// How often an opening failed.
    failed_openings: u32,
    /// nvidia-peermem.ko may be rebuilt when only that is wrong.
    rebuilds: bool,
    /// How often a rebuild failed for a temporary cause, and when it is tried again.
    failed_rebuilds: (u32, BootTime),
}

impl Gate {
    /// A gate that starts to wait now.
    #[must_use]
    pub fn new(policy: Policy, now: BootTime) -> Self {
        Self::resume(policy, Memory::new(now), now)
    }

    /// A gate that continues a wait now.
    #[must_use]
    pub fn resume(policy: Policy, memory: Memory, now: BootTime) -> Self {
        Self {
            memory,
            last_step: now,
            next_heartbeat: now + policy.heartbeat,
            policy,
            look: None,
            exempt: None,
            spent: Vec::new(),
            logged: 0,
            logged_before: None,
            failed_openings: 0,
            rebuilds: false,
            failed_rebuilds: (0, BootTime::default()),
        }
    }

    /// The memory of this wait until now.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Whether it opens for a rebuild of nvidia-peermem, once only that is wrong.
    pub fn allow_rebuild(&mut self, rebuilds: bool) {
        self.rebuilds = rebuilds;
    }

    /// Takes in what a rebuild came to. One that is tried again makes a pause before the next one, which is the
    /// answer; a cure makes the next pause the shortest again.
    pub fn rebuilt(&mut self, now: BootTime, rebuilt: Rebuilt) -> Option<Duration> {
        match rebuilt {
            Rebuilt::Usable => {
                self.failed_rebuilds = (0, BootTime::default());
                None
            }
            Rebuilt::Later => Some(self.pause_rebuilds(now, REBUILD_PAUSE_LIMIT)),
            Rebuilt::Obstructed => Some(self.pause_rebuilds(now, OBSTACLE_PAUSE_LIMIT)),
            Rebuilt::Neither => None,
        }
    }

    fn pause_rebuilds(&mut self, now: BootTime, limit: Duration) -> Duration {
        let (failed, _) = self.failed_rebuilds;
        let pause = REBUILD_AGAIN.saturating_mul(1 << failed).min(limit);
        // The longest pause stays as it is: so does the machine.
        self.failed_rebuilds = (failed + u32::from(pause < limit), now + pause);
        pause
    }

    /// What was in the way of a rebuild may be gone: the next one waits for no pause.
    pub fn forget_obstacle(&mut self) {
        self.failed_rebuilds = (0, BootTime::default());
    }

    /// Only nvidia-peermem.ko is wrong, every other condition was met for the settle time, and it may be rebuilt now.
    #[must_use]
    pub fn is_rebuild_due(&self) -> bool {
        let is_settled = |verdict: &&Verdict| {
            verdict.get(ConditionType::Settled).is_some_and(|c| c.reason == Reason::Held)
        };
        let is_paused = self.last_step < self.failed_rebuilds.1;
        !is_paused && self.verdict().filter(is_settled).is_some_and(|verdict| self.may_rebuild(verdict))
    }

    /// Before this time no rebuild begins, because the last one failed.
    #[must_use]
    pub fn rebuilds_from(&self) -> BootTime {
        self.failed_rebuilds.1
    }

    /// How many openings have failed in a row.
    #[must_use]
    pub fn failed_openings(&self) -> u32 {
        self.failed_openings
    }

    /// Whether nvidia-peermem.ko may be rebuilt at all.
    #[must_use]
    pub fn rebuilds(&self) -> bool {
        self.rebuilds
    }

    /// Only nvidia-peermem.ko is wrong at this look, and it may be rebuilt.
    #[must_use]
    pub fn may_rebuild(&self, verdict: &Verdict) -> bool {
        self.rebuilds && verdict.needs_rebuild()
    }

    /// Continues to wait after a failed opening. The deadline stays the same.
    pub fn opening_failed(&mut self) {
        self.failed_openings += 1;
        self.memory.settling = None;
        self.logged_before =
            self.look.take().map(|look| logged_parts(&look.verdict)).or(self.logged_before.take());
    }

    /// Forgets earlier failures: the settle time is again the one that was asked for.
    pub fn reset_backoff(&mut self) {
        self.failed_openings = 0;
        self.failed_rebuilds = (0, BootTime::default());
    }

    /// A look beside the gate's own, with the device that the gate remembers and the suspect marker that it accepted.
    #[must_use]
    pub fn with_accepted(&self, look: Look) -> Look {
        let Look { verdict, identity, next_build } = look;
        let verdict = self.memory.devices.recall(verdict);
        let is_same =
            |last: &&Look| (last.identity.marker, last.identity.holder) == (identity.marker, identity.holder);
        let trusted = self.look.as_ref().filter(is_same);
        let trusted = trusted.and_then(|last| last.verdict.get(ConditionType::MarkerTrusted));
        let verdict = match trusted.filter(|trusted| trusted.reason == Reason::MarkerBelieved) {
            Some(accepted) => verdict.replacing(accepted.clone()),
            None => verdict,
        };
        Look { verdict, identity, next_build }
    }

    /// The last look as the gate sees it.
    #[must_use]
    pub fn last_look(&self) -> Option<&Look> {
        self.look.as_ref()
    }

    /// The verdict as the gate sees it: with the settle time, and with the suspect marker that it accepted.
    #[must_use]
    pub fn verdict(&self) -> Option<&Verdict> {
        self.look.as_ref().map(|look| &look.verdict)
    }

    /// Time has passed, and perhaps there was a look.
    pub fn step(&mut self, now: BootTime, cause: &Cause, look: Option<Look>) -> Vec<Effect> {
        self.charge(now);
        let mut effects = Vec::new();
        let (has_looked, is_first) = (look.is_some(), self.look.is_none());
        let change = look.and_then(|look| self.take(now, look, &mut effects));
        if has_looked {
            self.exempt_or_not(now, is_first);
        }
        let last = self.decide(now, has_looked);
        let is_change = change.is_some();
        if let Some(change) = change.filter(|change| last.is_none() || self.has_more_than_close(change)) {
            effects.extend(self.log_change(now, cause, change));
        }
        if let Some(last) = last {
            effects.extend(self.close(now, last, Some(cause).filter(|_| is_change)));
        } else if let Some(left_out) = self.heartbeat_due(now) {
            effects.push(Effect::Log(self.heartbeat(now, &left_out)));
            effects.push(Effect::Publish);
        }
        effects
    }

    /// Takes a look in and returns what changed, without any decision: `keep` makes its own. It never opens because
    /// the gate does not apply, so it waits for no such time.
    pub fn observe(&mut self, now: BootTime, cause: &Cause, look: Look) -> Vec<Effect> {
        self.charge(now);
        let mut effects = Vec::new();
        if let Some(change) = self.take(now, look, &mut effects) {
            effects.extend(self.log_change(now, cause, change));
        }
        effects
    }

    /// Whether a heartbeat is due; if so, what it adds about changes that were not logged.
    pub fn heartbeat_due(&mut self, now: BootTime) -> Option<String> {
        if now < self.next_heartbeat {
            return None;
        }
        while self.next_heartbeat <= now {
            self.next_heartbeat += self.policy.heartbeat;
        }
        let left_out = self.logged.saturating_sub(MAX_LOGGED);
        self.logged = 0;
        let more = format!(" ({left_out} more changes since the last heartbeat)");
        Some(if left_out > 0 { more } else { String::new() })
    }

    /// Whether one more change may be logged before the next heartbeat.
    pub fn may_log(&mut self) -> bool {
        self.logged += 1;
        self.logged <= MAX_LOGGED
    }

    /// A signal ends the gate.
    pub fn signaled(&mut self, now: BootTime, signal: u8) -> Vec<Effect> {
        self.charge(now);
        self.close(now, Err(Exit::Signal(signal)), None)
    }

    /// When the gate must be stepped again with a look, even if nothing happens: the deadline, the
    /// end of the settle time, the end of the suspect marker's time.
    #[must_use]
    pub fn next_look(&self) -> Option<BootTime> {
        let settles = self.verdict().and_then(|v| v.get(ConditionType::Settled));
        let is_settling = settles.is_some_and(|c| c.reason == Reason::Settling);
        let settling = self.memory.settling.as_ref().filter(|_| is_settling);
        let settled = settling.map(|settling| settling.since + self.settle());
        let trusted = self.verdict().and_then(|v| v.get(ConditionType::MarkerTrusted));
        let doubted = trusted.is_some_and(|c| c.reason == Reason::MarkerSuspect);
        let accepted =
            self.memory.suspect.filter(|_| doubted).map(|(.., since)| since + self.policy.suspect_hold);
        let device = self.memory.devices.next_look(self.policy.suspect_hold);
        let again = Some(self.failed_rebuilds.1).filter(|again| self.last_step < *again);
        let again = again.filter(|_| self.verdict().is_some_and(|verdict| self.may_rebuild(verdict)));
        [self.deadline(), settled, accepted, device, self.exempt, again].into_iter().flatten().min()
    }

    /// When the gate was stepped last: an opening is as old as that.
    #[must_use]
    pub fn last_step(&self) -> BootTime {
        self.last_step
    }

    /// When the gate must be stepped again, look or no look.
    #[must_use]
    pub fn next_heartbeat(&self) -> BootTime {
        self.next_heartbeat
    }

    fn elapsed(&self, now: BootTime) -> Duration {
        now.saturating_sub(self.memory.start)
    }

    /// When the wait ends, even during a look; `None` without a deadline, and for a single look.
    #[must_use]
    pub fn deadline(&self) -> Option<BootTime> {
        self.policy.timeout.filter(|_| !self.one_look()).map(|timeout| self.memory.start + timeout)
    }

    fn one_look(&self) -> bool {
        self.policy.dry_run || self.policy.timeout == Some(Duration::ZERO)
    }

    /// A single look at which every condition is met opens it.
    #[must_use]
    pub fn opens_at_one_look(&self) -> bool {
        self.settle().is_zero()
    }

    fn settle(&self) -> Duration {
        match self.policy.settle {
            _ if self.one_look() => Duration::ZERO,
            settle if self.failed_openings > 0 => {
                let doubled = SETTLE_AGAIN.saturating_mul(1 << (self.failed_openings - 1).min(10));
                settle.max(doubled.min(SETTLE_LIMIT))
            }
            settle => settle,
        }
    }

    fn charge(&mut self, now: BootTime) {
        let passed = now.saturating_sub(self.last_step);
        self.last_step = now;
        let Some(waited_for) = self.verdict().and_then(|v| v.deciding()).map(|c| c.r#type) else { return };
        match self.spent.iter_mut().find(|(r#type, _)| *r#type == waited_for) {
            Some((_, total)) => *total += passed,
            None => self.spent.push((waited_for, passed)),
        }
    }

    fn take(&mut self, now: BootTime, look: Look, effects: &mut Vec<Effect>) -> Option<Change> {
        let Look { verdict, identity, next_build } = look;
        let verdict = self.remember_devices(now, verdict, effects);
        let verdict = self.believe(now, verdict, &identity, effects);
        let broke = self.settle_or_break(now, &verdict, &identity);
        let verdict = verdict.replacing(self.settled(now));
        let before = self.logged_before.take().or(self.verdict().map(logged_parts));
        let is_change = before.as_ref() != Some(&logged_parts(&verdict)) || broke.is_some();
        self.look = Some(Look { verdict, identity, next_build });
        is_change.then_some(Change { broke })
    }

    /// At the first look the gate knows at once that it does not apply; later this settles like the rest.
    fn exempt_or_not(&mut self, now: BootTime, is_first: bool) {
        let is_exempt = self.verdict().is_some_and(|verdict| verdict.outcome == Outcome::NotApplicable);
        let opens = if is_first { now } else { now + self.settle() };
        self.exempt = is_exempt.then(|| self.exempt.unwrap_or(opens));
    }

    /// A device that is away longer than `--suspect-hold` counts as removed, with a warning.
    fn remember_devices(&mut self, now: BootTime, verdict: Verdict, effects: &mut Vec<Effect>) -> Verdict {
        let (verdict, removed) = self.memory.devices.remember(verdict, now, self.policy.suspect_hold);
        effects.extend(removed.map(|condition| self.warning(now, &condition)));
        verdict
    }

    /// The gate accepts by time what it did not accept before.
    fn warning(&self, now: BootTime, accepted: &Condition) -> Effect {
        Effect::Log(Line {
            level: Level::Warn,
            text: accepted.message.clone(),
            about: Some((accepted.r#type, accepted.reason)),
            cause: None,
            elapsed: self.elapsed(now),
        })
    }

    /// A suspect marker that outlives `--suspect-hold` is accepted: a MOFED with the older entrypoint may
    /// have set it, beside the lock file of a newer one. When another process takes the lock, the hold begins again:
    /// a new MOFED is about to clear the marker.
    fn believe(
        &mut self,
        now: BootTime,
        verdict: Verdict,
        identity: &Identity,
        effects: &mut Vec<Effect>,
    ) -> Verdict {
        let trusted = verdict.get(ConditionType::MarkerTrusted);
        let (Some(condition), Some(marker)) =
            (trusted.filter(|c| c.reason == Reason::MarkerSuspect), identity.marker)
        else {
            self.memory.suspect = None;
            return verdict;
        };
        let since = match self.memory.suspect {
            Some((same, holder, since)) if (same, holder) == (marker, identity.holder) => since,
            _ => now,
        };
        self.memory.suspect = Some((marker, identity.holder, since));
        if now < since + self.policy.suspect_hold {
            return verdict;
        }
        let hold = self.policy.suspect_hold;
        let message = format!("accepted after {}: {}", Seconds(hold), condition.message);
        let accepted = Condition::new(ConditionType::MarkerTrusted, Reason::MarkerBelieved, message);
        let before = self.verdict().and_then(|v| v.get(ConditionType::MarkerTrusted));
        if before.is_none_or(|c| c.reason != Reason::MarkerBelieved) {
            effects.push(self.warning(now, &accepted));
        }
        verdict.replacing(accepted)
    }

    /// Starts, continues or ends the settle time; says what broke it.
    fn settle_or_break(&mut self, now: BootTime, verdict: &Verdict, identity: &Identity) -> Option<String> {
        if verdict.outcome != Outcome::Ready && !self.may_rebuild(verdict) {
            self.memory.settling = None;
            return None;
        }
        let difference =
            self.memory.settling.as_ref().and_then(|settling| settling.identity.difference(identity));
        if self.memory.settling.is_none() || difference.is_some() {
            self.memory.settling = Some(Settling { since: now, identity: identity.clone() });
        }
        difference
    }

    fn settled(&self, now: BootTime) -> Condition {
        let settle = Seconds(self.settle());
        let (reason, message) = match &self.memory.settling {
            Some(settling) if now >= settling.since + self.settle() => {
                (Reason::Held, format!("every condition was met for {settle} without a break"))
            }
            Some(_) => {
                (Reason::Settling, format!("every condition must be met for {settle} without a break"))
            }
            None => (Reason::Settling, "not every condition is met yet".to_owned()),
        };
        Condition::new(ConditionType::Settled, reason, message)
    }

    /// The effect that is due now, if any. The gate never opens by time only: it needs a look at this moment.
    fn decide(&self, now: BootTime, has_looked: bool) -> Option<Last> {
        let late = self.deadline().is_some_and(|deadline| now >= deadline);
        // The deadline wins over the settle time, and a single look opens only once.
        let is_over = late || self.failed_openings > 0 && self.one_look();
        // The first look has not ended.
        let Some(verdict) = self.verdict() else {
            return late.then(|| self.too_late());
        };
        let outcome = verdict.outcome;
        let is_exempt = has_looked && self.exempt.is_some_and(|opens| now >= opens);
        match outcome {
            Outcome::NotApplicable if is_exempt => Some(Ok(Opening::NotApplicable)),
            _ if self.policy.dry_run => Some(Ok(Opening::DryRun)),
            Outcome::Ready if !is_over => Some(Ok(Opening::Ready)),
            Outcome::Blocked if self.may_rebuild(verdict) && !is_over => {
                self.is_rebuild_due().then_some(Ok(Opening::ForRebuild))
            }
            // The time passed with what keeps the rebuild from beginning.
            Outcome::Blocked if self.may_rebuild(verdict) => Some(self.too_late()),
            Outcome::Blocked if self.policy.fail_fast => Some(Err(Exit::Blocked)),
            _ if !late && !self.one_look() => None,
            _ => Some(self.too_late()),
        }
    }

    fn too_late(&self) -> Last {
        if self.policy.proceed_on_timeout { Ok(Opening::TimedOut) } else { Err(Exit::TimedOut) }
    }
}
