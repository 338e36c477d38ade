// SPDX-License-Identifier: Apache-2.0
//! The sidecar as a pure state machine: when to load `nvidia_peermem`, when to let go of it, and when to
//! leave it alone. docs/sidecar.md has the diagram.
//!
//! ```text
//!             everything holds, loaded
//!   Waiting ────────────────────────────► Loaded
//!    ▲  ▲ │ ◄──────────────────────────── │    │
//!    │  │ │    somebody else unloaded     │    │ MOFED is about to swap
//!    │  │ ▼ cannot be loaded       unused ▼    ▼ in use
//!    │ Blocked                  Yielding ◄──► Busy
//!    └───────────────────────────────┴─────────┘ unloaded
//! ```
//!
//! A [`Gate`] does the waiting: settle time, belief in a suspect marker, back-off. What it never delays is
//! letting go. Time is passed in.

mod ledger;
pub mod status;

pub use ledger::Ledger;

use crate::condition::{ConditionType, Outcome, Status, Verdict};
use crate::config::Policy;
use crate::ending::Ending;
use crate::gate::{BootTime, Cause, Effect, Gate, Level, Line, Seconds, sentence};
use crate::judge::swap::{Glimpse, Presence, Sight};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// After an unload of ours, or a load that came to nothing, the next load comes no sooner, whatever
/// `--settle` says.
const PAUSE: Duration = Duration::from_secs(1);
/// How often to look whether what uses it has ended: no event tells of a reference count.
const BUSY: Duration = Duration::from_secs(1);
/// How long to wait after an unload that failed; doubled each time, up to [`BUSY`].
const RETRY: Duration = Duration::from_millis(100);
/// Refusals that lie in modprobe's own files or in what unloads the module again: neither tells of a change.
/// Tried again ever more slowly.
const UNSEEN: [&str; 2] = ["Plan", "Unproven"];
/// A module that was live this long was no vain load.
const PROVEN: Duration = Duration::from_secs(60);

/// What `keep` is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum State {
    /// `nvidia_peermem` is not loaded, and not everything holds.
    Waiting,
    /// It is live, and nothing says that MOFED is about to swap its modules.
    Loaded,
    /// MOFED is about to, and it is being unloaded.
    Yielding,
    /// It cannot be loaded, and waiting alone will not change that.
    Blocked,
    /// MOFED is about to swap, and it is in use.
    Busy,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Waiting, Self::Loaded, Self::Yielding, Self::Blocked, Self::Busy];
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

/// What is to be done now, and reported to [`Keep::done`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Load `nvidia_peermem`, with a last look before and a proof behind.
    Load,
    /// Unload it, and it alone.
    Unload,
}

/// What an action came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// It is live, by us.
    Loaded(String),
    /// It is live, and somebody else was faster.
    Found(String),
    /// It is live, by us, and MOFED has begun to swap its modules meanwhile.
    Overlapped(String),
    /// Not loaded, and another attempt at the same would end the same.
    Refused(&'static str, String),
    /// Not loaded, and worth another attempt once everything has held again.
    Postponed(&'static str, String),
    /// It is gone.
    Unloaded(String),
    /// It is not gone, and why.
    NotUnloaded(String),
}

/// What follows from a step. The action comes first: lines can wait, MOFED does not.
#[derive(Debug, Default)]
pub struct Step {
    /// To be done at once.
    pub action: Option<Action>,
    /// To be carried out then.
    pub effects: Vec<Effect>,
}

/// Who loaded what is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadedBy {
    Another,
    /// We, and the inode of its directory in sysfs, once seen: one that was loaded anew has another.
    Us(Option<u64>),
}

/// A load that was refused.
#[derive(Clone, Copy, Debug)]
struct Refusal {
    /// The evidence that it was refused on.
    on: Option<u64>,
    /// Its reason may go without a trace in the evidence.
    may_pass: bool,
}

/// The sidecar.
#[derive(Debug)]
pub struct Keep {
    gate: Gate,
    no_yield: bool,
    start: BootTime,
    state: State,
    since: BootTime,
    /// The state in one sentence.
    message: String,
    peermem: Presence,
    loaded_by: LoadedBy,
    /// The message is about a swap: not what there is to say of a module that stays.
    is_about_swap: bool,
    /// The gate has applied at some time: a NIC that is gone by now may be in a reset.
    has_applied: bool,
    /// Of the last look, if there was one.
    evidence: Option<u64>,
    refused: Option<Refusal>,
    /// What became of the last attempt to load, if it came to nothing.
    last_try: Option<String>,
    load_from: BootTime,
    unload_from: BootTime,
    retry: Duration,
    /// When to look again whether it is still in use.
    poll: BootTime,
    ledger: Ledger,
}

impl Keep {
    /// Begins to watch now, with a policy that has no deadline.
    #[must_use]
    pub fn new(policy: Policy, no_yield: bool, now: BootTime) -> Self {
        Self {
            gate: Gate::new(policy, now),
            no_yield,
            start: now,
            state: State::Waiting,
            since: now,
            message: "not looked yet".to_owned(),
            peermem: Presence::Unknown,
            loaded_by: LoadedBy::Another,
            is_about_swap: false,
            has_applied: false,
            evidence: None,
            refused: None,
            last_try: None,
            load_from: now,
            unload_from: now,
            retry: RETRY,
            poll: now,
            ledger: Ledger::new(now),
        }
    }

    /// The gate applies: known before the first look has come to its end.
    pub fn applies(&mut self) {
        self.has_applied = true;
    }

    /// A glimpse, before anything that takes time: it can only let go.
    pub fn glimpse(&mut self, now: BootTime, cause: &Cause, glimpse: &Glimpse) -> Step {
        self.ledger.charge(self.state, now);
        let mut step = Step::default();
        if let (Presence::Live { uses }, Some(why)) = (glimpse.peermem, &glimpse.swap) {
            if self.has_applied && !self.no_yield {
                self.peermem = glimpse.peermem;
                self.let_go(now, cause, uses, why, &mut step);
            }
        }
        step
    }

    /// A whole look.
    pub fn look(&mut self, now: BootTime, cause: &Cause, sight: Sight) -> Step {
        self.ledger.charge(self.state, now);
        let is_blocked = sight.is_blocked();
        let Sight { mut look, glimpse, evidence, .. } = sight;
        // That it comes and goes is no break of what it waits for.
        let inode = look.identity.modules.remove("nvidia_peermem");
        let holds = |condition| look.verdict.get(condition).is_some_and(|c| c.status == Status::True);
        self.has_applied |= holds(ConditionType::RdmaRequested) && holds(ConditionType::NicPresent);
        let is_first = self.evidence.replace(evidence).is_none();
        let mut step = Step::default();
        let is_another = !self.recognises(inode);
        if (glimpse.peermem == Presence::Absent || is_another) && self.holds_module() {
            self.lost(now, cause, &mut step);
        }
        self.peermem = glimpse.peermem;
        if matches!(glimpse.peermem, Presence::Live { .. }) {
            // Somebody has shown that it can be loaded.
            self.refused = None;
            self.last_try = None;
        }
        step.effects.extend(self.gate.observe(now, cause, look));
        if glimpse.swap.is_some() {
            // What the old stack refused says nothing of the new one.
            self.gate.forgive();
            self.last_try = None;
        }
        match (glimpse.peermem, glimpse.swap) {
            (Presence::Unknown | Presence::Between, _) => {}
            (Presence::Live { uses }, Some(why)) if self.has_applied && !self.no_yield => {
                self.let_go(now, cause, uses, &why, &mut step);
            }
            (Presence::Live { .. }, swap) => self.live(now, cause, swap, &mut step),
            (Presence::Absent, _) => self.absent(now, is_blocked, &mut step),
        }
        if is_first && self.state == State::Blocked {
            step.effects.push(Effect::End(Ending::Blocked));
        }
        step
    }

    /// Time flies: a heartbeat, if one is due.
    pub fn tick(&mut self, now: BootTime) -> Vec<Effect> {
        self.ledger.charge(self.state, now);
        let Some(untold) = self.gate.beat(now) else { return Vec::new() };
        let level = match self.state {
            State::Blocked => Level::Error,
            State::Yielding | State::Busy => Level::Warn,
            State::Waiting | State::Loaded => Level::Info,
        };
        let spent = Seconds(now.saturating_sub(self.since));
        let text = format!("{} for {spent}: {}{untold}", self.state, self.sentence());
        vec![Effect::Say(self.line(now, level, text, None)), Effect::Publish]
    }

    /// What an action has come to.
    pub fn done(&mut self, now: BootTime, done: Done) -> Vec<Effect> {
        self.ledger.charge(self.state, now);
        self.is_about_swap = matches!(done, Done::Overlapped(_));
        let (state, level, text) = match done {
            Done::Loaded(said) | Done::Overlapped(said) => {
                self.ledger.loaded();
                self.loaded_by = LoadedBy::Us(None);
                self.peermem = Presence::Live { uses: Some(0) };
                (State::Loaded, Level::Info, said)
            }
            Done::Found(said) => {
                // The look that follows sees by whom, and how it is used.
                self.peermem = Presence::Unknown;
                (State::Loaded, Level::Info, said)
            }
            Done::Refused(reason, said) => {
                self.ledger.refused(reason);
                self.refused = Some(Refusal { on: self.evidence, may_pass: UNSEEN.contains(&reason) });
                self.hold_on(now);
                (State::Blocked, Level::Error, said)
            }
            Done::Postponed(reason, said) => {
                self.ledger.refused(reason);
                self.hold_on(now);
                self.last_try = Some(said.clone());
                (State::Waiting, Level::Warn, format!("not loaded yet: {said}"))
            }
            Done::Unloaded(said) => {
                self.gone(now);
                self.load_from = now + PAUSE;
                (State::Waiting, Level::Info, said)
            }
            Done::NotUnloaded(said) => {
                self.unload_from = now + self.retry;
                self.retry = (self.retry * 2).min(BUSY);
                (State::Yielding, Level::Warn, said)
            }
        };
        let mut step = Step::default();
        if (self.state, &self.message) != (state, &text) {
            self.enter(now, state, level, text, None, &mut step);
        }
        step.effects
    }

    /// Somebody asks for a look (SIGHUP): what was refused or came to nothing before is tried anew.
    pub fn ask(&mut self) {
        self.refused = None;
        self.last_try = None;
        self.gate.forgive();
    }

    /// When it must be stepped again with a look, even if nothing happens.
    #[must_use]
    pub fn next_look(&self) -> Option<BootTime> {
        // What cannot be seen, or is on its way, is the slow look's.
        let own = match (self.state, self.peermem) {
            (State::Waiting | State::Blocked, Presence::Absent)
                if self.is_to_be_tried() && self.is_ready() =>
            {
                Some(self.load_from)
            }
            (State::Yielding, Presence::Live { .. }) => Some(self.unload_from),
            (State::Busy, Presence::Live { .. }) => Some(self.poll),
            _ => None,
        };
        self.gate.next_look().into_iter().chain(own).min()
    }

    /// When it must be stepped again, look or no look.
    #[must_use]
    pub fn next_heartbeat(&self) -> BootTime {
        self.gate.next_heartbeat()
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// `nvidia_peermem` as it was seen last.
    #[must_use]
    pub fn peermem(&self) -> Presence {
        self.peermem
    }

    /// We loaded what is loaded.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        matches!(self.loaded_by, LoadedBy::Us(_))
    }

    /// The gate has applied at some time.
    #[must_use]
    pub fn has_applied(&self) -> bool {
        self.has_applied
    }

    /// The state in one sentence, with what a person can do about it.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Some(verdict) = self.verdict() else { return self.message.clone() };
        let last =
            self.last_try.as_ref().map_or(String::new(), |last| format!("; not loaded before: {last}"));
        match (self.state, verdict.deciding()) {
            (State::Waiting, Some(c)) => sentence(c) + &last,
            (State::Waiting, None) => format!("everything holds: loading nvidia_peermem{last}"),
            (State::Blocked, Some(c)) if self.refused.is_none() => sentence(c),
            _ => self.message.clone(),
        }
    }

    /// The verdict as the gate sees it: with the settle time, and with its belief in the marker.
    #[must_use]
    pub fn verdict(&self) -> Option<&Verdict> {
        self.gate.verdict()
    }

    /// The gate that does the waiting.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// What has happened so far.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// A module was there at the last look.
    fn holds_module(&self) -> bool {
        matches!(self.state, State::Loaded | State::Yielding | State::Busy)
    }

    fn let_go(&mut self, now: BootTime, cause: &Cause, uses: Option<i64>, why: &str, step: &mut Step) {
        let whose = if self.is_ours() { "" } else { " (loaded by somebody else)" };
        self.refused = None;
        if uses == Some(0) {
            if now >= self.unload_from {
                step.action = Some(Action::Unload);
            }
            if self.state != State::Yielding {
                let text = format!("{why}: unloading nvidia_peermem{whose}");
                self.enter(now, State::Yielding, Level::Info, text, Some(cause), step);
            }
            return;
        }
        self.poll = now + BUSY;
        let obstacle = match uses {
            Some(uses) => {
                format!("it is in use (reference count {uses}); what to do: end what uses it (GPU pods)")
            }
            None => {
                "this kernel cannot unload modules; what to do: drain and reboot the node for MOFED's swap"
                    .to_owned()
            }
        };
        let text = format!("{why}, and nvidia_peermem{whose} cannot be unloaded: {obstacle}");
        if self.state != State::Busy || self.message != text {
            self.enter(now, State::Busy, Level::Warn, text, Some(cause), step);
        }
    }

    /// It is live, and stays.
    fn live(&mut self, now: BootTime, cause: &Cause, swap: Option<String>, step: &mut Step) {
        let swap = swap.filter(|_| self.has_applied);
        let is_about_swap = swap.is_some();
        let text = match swap {
            Some(why) => format!("{why}; nvidia_peermem is left alone (--no-yield)"),
            None if self.is_ours() => "nvidia_peermem is live".to_owned(),
            None => "nvidia_peermem is live: loaded by somebody else, and treated the same".to_owned(),
        };
        (self.retry, self.unload_from) = (RETRY, now);
        let is_said = self.message == text || !is_about_swap && !self.is_about_swap;
        self.is_about_swap = is_about_swap;
        if self.state != State::Loaded || !is_said {
            self.enter(now, State::Loaded, Level::Info, text, Some(cause), step);
        }
    }

    /// It is not loaded: to be loaded, waited for, or given up until something changes.
    fn absent(&mut self, now: BootTime, is_blocked: bool, step: &mut Step) {
        self.refused = self.refused.filter(|refused| refused.on == self.evidence);
        if self.refused.is_none() {
            let state = if is_blocked { State::Blocked } else { State::Waiting };
            if self.state != state {
                // The gate has said why.
                self.change(now, state, String::new(), step);
            }
        }
        if self.is_to_be_tried() && self.is_ready() && now >= self.load_from {
            step.action = Some(Action::Load);
        }
    }

    fn is_to_be_tried(&self) -> bool {
        self.refused.is_none_or(|refused| refused.may_pass)
    }

    fn is_ready(&self) -> bool {
        self.verdict().is_some_and(|verdict| verdict.outcome == Outcome::Ready)
    }

    /// What is loaded is still what we loaded, if it was we.
    fn recognises(&mut self, inode: Option<u64>) -> bool {
        match (self.loaded_by, inode) {
            (LoadedBy::Us(None), Some(inode)) => {
                self.loaded_by = LoadedBy::Us(Some(inode));
                true
            }
            (LoadedBy::Us(Some(ours)), Some(inode)) => ours == inode,
            _ => true,
        }
    }

    /// Somebody else took it away.
    fn lost(&mut self, now: BootTime, cause: &Cause, step: &mut Step) {
        let was_loaded = self.state == State::Loaded;
        let lasted = now.saturating_sub(self.since) >= PROVEN;
        self.gone(now);
        if was_loaded {
            if lasted {
                self.gate.forgive();
            }
            // No race of loading and unloading: each time it settles longer.
            self.hold_on(now);
        }
        let text = "somebody else unloaded nvidia_peermem".to_owned();
        self.enter(now, State::Waiting, Level::Info, text, Some(cause), step);
    }

    fn hold_on(&mut self, now: BootTime) {
        self.gate.hold_on();
        self.load_from = now + PAUSE;
    }

    fn gone(&mut self, now: BootTime) {
        if self.state != State::Loaded {
            self.gate.forgive();
        }
        self.peermem = Presence::Absent;
        self.loaded_by = LoadedBy::Another;
        self.retry = RETRY;
        self.unload_from = now;
    }

    fn enter(
        &mut self,
        now: BootTime,
        state: State,
        level: Level,
        text: String,
        cause: Option<&Cause>,
        step: &mut Step,
    ) {
        if self.gate.may_tell() {
            step.effects.push(Effect::Say(self.line(now, level, text.clone(), cause)));
        }
        self.change(now, state, text, step);
    }

    fn change(&mut self, now: BootTime, state: State, message: String, step: &mut Step) {
        if self.state != state {
            self.ledger.enter(self.state, state);
            self.since = now;
            self.state = state;
        }
        self.message = message;
        step.effects.push(Effect::Publish);
    }

    fn line(&self, now: BootTime, level: Level, text: String, cause: Option<&Cause>) -> Line {
        let elapsed = now.saturating_sub(self.start);
        Line { level, text, about: None, cause: cause.cloned(), elapsed }
    }
}
