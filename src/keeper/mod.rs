// SPDX-License-Identifier: Apache-2.0
//! `keep` and `load` as a pure state machine: when to load `nvidia_peermem`, when to unload it, when to do neither.
//! [`State::TRANSITIONS`] says which state may follow which.
//!
//! A [`Gate`] does the waiting: settle time, acceptance of a suspect marker, back-off. It never delays an unload.
//! Time is passed in.

mod action;
pub mod attempt;
pub(crate) mod check_status;
mod ending;
mod kmsg;
mod ledger;
mod leftovers;
pub(crate) mod load;
pub(crate) mod loader;
mod node_lock;
pub mod notify;
mod order;
mod ownership;
mod publisher;
pub mod run;
mod service;
pub mod shim;
mod state;
pub mod status;
mod stay;
mod store_writer;
mod users;
mod yielding;

pub use crate::keeper::attempt::{LoadFailure, LoadResult};
pub use action::{Action, Response};
pub use ledger::Ledger;
pub use order::{DRIVER_UNLOAD, KeepMemory};
pub use state::State;
pub use stay::Stay;

use crate::keeper::attempt::Why;
use crate::ready::condition::{ConditionType, Reason, Status};
use crate::ready::exit::Exit;
use crate::ready::gate::{Effect, Gate, Level, Line, Policy, Rebuilt, sentence};
use crate::ready::judge::swap::{DriverSigns, Presence, SwapCheck};
use crate::ready::look::Cause;
use crate::ready::observation::{FileId, Identity, LockHolder};
use crate::ready::time::{BootTime, Seconds};
use crate::ready::verdict::{Condition, Outcome, Verdict};
use crate::rebuild::{Kind, RebuildResult};
use crate::watch::KeepInput;
use order::UnloadOrder;
use state::{LoadedBy, Phase};
use std::time::Duration;

/// How long the next load waits after our own unload or a failed load, whatever `--settle` is.
const PAUSE: Duration = Duration::from_secs(1);
/// How soon to check whether the module is still in use, because no event shows a change of the reference count: the
/// first interval and the longest, which is shorter than the slow look's, or both would be due. Each is twice as long
/// as the one before, because a job may run for days.
const BUSY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(4500));
/// How long to wait after a failed unload: the first interval and the longest, doubled in the same way.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// After so many failed loads in a row the driver's script may try by itself.
const OWNED_FAILURES: u32 = 3;
/// The driver's container shows its root seconds after it has loaded nvidia, and is restarted seconds after its first
/// end. Before an upgrade k8s-driver-manager evicts pods meanwhile, for five minutes at most.
const DESERTED: Duration = Duration::from_secs(600);
/// Said then. RHEL's precompiled image (gpu-driver-container) ends so at each start, because its stub is refused.
const NO_CONTAINER: &str = "nvidia has been loaded for ten minutes without a driver container: the container is missing, waits, or ends at each start; what to do: see with `kubectl -n NAMESPACE describe pod POD` what the driver's pod is at (k8s-driver-manager may still evict pods), and read the end of its log (`kubectl -n NAMESPACE logs POD -c nvidia-driver-ctr --previous`); if the kernel refused nvidia_peermem of a precompiled driver there, that is a stub, and nothing on this node can build another: set driver.usePrecompiled to false, or use DMA-BUF and set driver.rdma.enabled to false";
/// The driver's script loads nvidia-uvm right after nvidia: one that is missing for this long does not come.
const UVM: Duration = Duration::from_secs(60);
/// Said of a driver that is ready without `nvidia_uvm`. The script's fast path asks for nvidia only
/// (gpu-driver-container#1019).
const NO_UVM: &str = "nvidia_uvm is not loaded although the driver's container is ready, so no CUDA program runs; what to do: drain the node, remove /run/nvidia/nvidia-driver.state on it and delete its driver pod, which then loads all modules again";

/// Said of a module that an ending driver does not get: on the operator's fast path its next container brings none.
const STAYS: &str = "the driver's container is ending, but nothing on this node could make nvidia_peermem again: it stays loaded";

/// Added to an obstacle that no rebuild on this node removes.
const UNHEALED: &str = "; keep cannot heal this node";
/// Added to every obstacle: it ends without a signal.
const ASKED_AGAIN: &str = "; keep asks again within a minute";
/// How long a load that the kernel refused waits for the next one if nothing changes that a look can see.
pub const REFUSED: Duration = Duration::from_secs(600);

/// A load that was refused.
#[derive(Clone, Copy, Debug)]
struct RefusedLoad {
    /// A hash of the evidence when it was refused.
    on: Option<u64>,
    /// The cause may disappear without a change of the evidence, so from then on the load is tried again.
    again: BootTime,
}

/// A `keep`, or a `load`.
#[derive(Clone, Debug)]
pub struct Keep {
    gate: Gate,
    stay: Stay,
    start: BootTime,
    phase: Phase,
    since: BootTime,
    /// The phase in one sentence.
    message: String,
    peermem: Presence,
    /// The gate applied at an earlier look, or `nvidia_peermem` was live: a NIC that is not there may be in a reset.
    has_applied: bool,
    /// The hash of the last look's evidence, if there was a look.
    evidence: Option<u64>,
    /// The inode of the live nvidia's directory in sysfs: a driver that was loaded again has another.
    nvidia: Option<u64>,
    /// Why the last rebuild was refused, if only a person can change that.
    obstacle: Option<Kind>,
    /// MOFED's marker at the last look.
    marker: Option<FileId>,
    /// The process that held the lock when the marker was seen first, unless an earlier container may have set it.
    made_marker: LockHolder,
    /// The earliest time of the next load.
    load_from: BootTime,
    /// [`DRIVER_UNLOAD`], except in tests.
    driver_unload: Duration,
    /// The marker and the modules beside which the module was live last, until its unload was seen.
    live_beside: Option<Identity>,
    /// Another process unloaded the module.
    order: Option<UnloadOrder>,
    /// What the driver's container said at the last look.
    driver: Option<DriverSigns>,
    /// The driver's container ends: until then nothing is loaded, unless the driver is ready or new before.
    driver_ends: Option<BootTime>,
    /// At the last look `nvidia_peermem` could be made again if it were unloaded.
    comes_back: bool,
    /// A load was asked for, and its result is not known.
    is_loading: bool,
    /// Since when the driver is ready without `nvidia_uvm`, and whether that was said.
    no_uvm: Option<(BootTime, bool)>,
    /// Since when nvidia is loaded without a driver's container.
    deserted: Option<BootTime>,
    ledger: Ledger,
}

impl Keep {
    /// Begins to watch now. Only of one that ends may the policy have a deadline.
    #[must_use]
    pub fn new(policy: Policy, stay: Stay, now: BootTime) -> Self {
        Self {
            gate: Gate::new(policy, now),
            stay,
            start: now,
            phase: Phase::WAITING,
            since: now,
            message: "not looked yet".to_owned(),
            peermem: Presence::Unknown,
            has_applied: false,
            evidence: None,
            nvidia: None,
            obstacle: None,
            marker: None,
            made_marker: LockHolder::Unknown,
            load_from: now,
            driver_unload: DRIVER_UNLOAD,
            live_beside: None,
            order: None,
            driver: None,
            driver_ends: None,
            comes_back: true,
            is_loading: false,
            no_uvm: None,
            deserted: None,
            ledger: Ledger::new(now),
        }
    }

    /// Whether it ends once the module is live.
    pub(crate) fn ends(&self) -> bool {
        self.stay == Stay::UntilLoaded
    }

    /// Whether nvidia-peermem.ko is rebuilt when only that is wrong.
    pub fn allow_rebuild(&mut self, rebuilds: bool) {
        self.gate.allow_rebuild(rebuilds);
    }

    /// Only nvidia-peermem.ko is wrong, and it may be rebuilt; also before the first look.
    #[must_use]
    pub fn is_rebuild_due(&self) -> bool {
        self.gate.verdict().is_none_or(|verdict| self.gate.may_rebuild(verdict))
    }

    /// Takes in how a rebuild ended, and how long it took. A load follows one that succeeded.
    ///
    /// # Errors
    /// What else to report to [`Keep::done`].
    pub fn rebuilt(
        &mut self,
        now: BootTime,
        end: &RebuildResult,
        spent: Duration,
    ) -> Result<String, LoadResult> {
        let pause = self.gate.rebuilt(now, end.for_gate());
        let again = match end.for_gate() {
            // The same words each time: they are logged once.
            Rebuilt::Obstructed => Some(ASKED_AGAIN.to_owned()),
            _ => pause.map(|pause| format!("; another attempt follows in {}", Seconds(pause))),
        };
        self.obstacle = end.obstacle().filter(|kind| kind.needs_a_person());
        let helps = self.obstacle.filter(|kind| !kind.can_be_healed()).map(|_| UNHEALED);
        let sentence = match self.stay {
            Stay::UntilLoaded => end.sentence(),
            _ => end.sentence() + helps.unwrap_or_default() + &again.unwrap_or_default(),
        };
        if !self.is_refused_as_before(&sentence) {
            self.ledger.rebuilt(end.label(), spent);
        }
        let next = LoadResult::after_rebuild(end, sentence);
        self.is_loading |= next.is_ok();
        next
    }

    /// The gate applies. The caller knows that before the first look has ended.
    pub fn note_applies(&mut self) {
        self.has_applied = true;
    }

    /// The marker exists, and this process holds MOFED's lock. If another process holds it later, that is a new
    /// container.
    pub fn marked_by(&mut self, holder: LockHolder) {
        self.made_marker = holder;
    }

    /// Takes in a glimpse, before anything slow. It can only lead to an unload.
    pub fn glimpse(&mut self, now: BootTime, cause: &Cause, glimpse: &SwapCheck) -> Response {
        self.ledger.charge(self.state(), now);
        self.follow_driver(now, glimpse.driver);
        let mut response = Response::default();
        if let Presence::Live { uses } = glimpse.peermem
            && let Some(go) = self.yields(uses, glimpse)
        {
            self.peermem = glimpse.peermem;
            self.yield_module(now, cause, &go, &mut response);
        }
        response
    }

    /// Takes in a whole look.
    pub fn look(&mut self, now: BootTime, cause: &Cause, full_look: KeepInput) -> Response {
        self.ledger.charge(self.state(), now);
        let is_blocked = full_look.is_blocked() && !self.gate.may_rebuild(&full_look.look.verdict);
        let KeepInput { mut look, glimpse, evidence, lacks_uvm, is_deserted, comes_back } = full_look;
        self.deserted = is_deserted.then(|| self.deserted.unwrap_or(now));
        let is_deserted = self.deserted.is_some_and(|since| now >= since + DESERTED);
        if is_deserted {
            let reason = Reason::DependencyNotLive;
            look.verdict =
                look.verdict.replacing(Condition::new(ConditionType::PeermemUsable, reason, NO_CONTAINER));
        }
        let is_unmet = |c: &Condition| c.r#type == ConditionType::PeermemUsable;
        let is_blocked = is_blocked || is_deserted && look.verdict.deciding().is_some_and(is_unmet);
        self.comes_back = comes_back;
        // A load or unload of the module itself does not break the settle time.
        let inode = look.identity.modules.remove("nvidia_peermem");
        let is_met = |condition| look.verdict.get(condition).is_some_and(|c| c.status == Status::True);
        let is_live = matches!(glimpse.peermem, Presence::Live { .. });
        let nic = look.verdict.get(ConditionType::NicPresent).map(|c| c.reason);
        let has_nic = matches!(nic, Some(Reason::NicFound | Reason::NicAway));
        self.has_applied |= is_met(ConditionType::RdmaRequested) && (has_nic || is_live);
        // A new container takes the lock before it clears the old marker, so its lock does not prove that it set this
        // marker.
        if look.identity.marker.is_some() && self.marker != look.identity.marker {
            self.marker = look.identity.marker;
            let is_its_own = is_met(ConditionType::MarkerTrusted);
            self.made_marker = if is_its_own { glimpse.holder } else { LockHolder::Unknown };
        }
        let is_first = self.evidence.replace(evidence).is_none();
        let mut response = Response::default();
        self.follow_driver(now, glimpse.driver);
        let is_another = !self.phase.recognizes(inode);
        let is_new_order = self.follow_order(now, glimpse.peermem, glimpse.swap.is_some(), &look.identity);
        if (glimpse.peermem == Presence::Absent || is_another) && self.phase.loaded_by().is_some() {
            self.lost(now, cause, &mut response);
        } else if is_new_order {
            // It was unloaded before this process started.
            self.phase.reset_backoff();
            let text = self.order_sentence().unwrap_or_default();
            response.effects.push(Effect::Log(self.line(now, Level::Info, text, Some(cause))));
        }
        self.peermem = glimpse.peermem;
        let nvidia = look.identity.modules.get("nvidia").copied();
        if let Some(nvidia) = nvidia {
            let before = self.nvidia.replace(nvidia);
            if before != Some(nvidia) {
                // A failure beside the old driver says nothing about the new one.
                self.gate.reset_backoff();
            }
            self.driver_ends.take_if(|_| before.is_some_and(|before| before != nvidia));
        }
        response.effects.extend(self.gate.observe(now, cause, look));
        if glimpse.swap.is_some() {
            // A refusal by the old stack says nothing about the new one.
            self.gate.reset_backoff();
            if let Phase::Waiting { last_try } = &mut self.phase {
                *last_try = None;
            }
        }
        match glimpse.peermem {
            Presence::Unknown | Presence::InTransit => {}
            Presence::Live { uses } => match self.yields(uses, &glimpse) {
                Some(go) => self.yield_module(now, cause, &go, &mut response),
                None => self.live(now, cause, glimpse.swap, &mut response),
            },
            Presence::Absent => self.absent(now, is_blocked, &mut response),
        }
        let lacks_uvm = lacks_uvm && glimpse.driver.is_some_and(|signs| signs.is_ready);
        self.no_uvm = lacks_uvm.then(|| self.no_uvm.unwrap_or((now, false)));
        if is_first && self.state() == State::Blocked {
            response.effects.push(Effect::Last(Err(Exit::Blocked)));
        }
        response
    }

    /// A driver without `nvidia_uvm` is none for CUDA, although all else is well.
    fn say_no_uvm(&mut self, now: BootTime) -> Option<Effect> {
        let (since, was_said) = self.no_uvm?;
        let is_said = now >= since + UVM;
        self.no_uvm = Some((since, is_said));
        (is_said && !was_said).then(|| Effect::Log(self.line(now, Level::Error, NO_UVM.to_owned(), None)))
    }

    /// Time has passed: the heartbeat, if one is due. Where the gate does not apply, it logs nothing.
    pub fn tick(&mut self, now: BootTime) -> Vec<Effect> {
        if self.ends() {
            // Its gate has said it at each step.
            return Vec::new();
        }
        let no_uvm = self.say_no_uvm(now);
        no_uvm.into_iter().chain(self.heartbeat(now)).collect()
    }

    fn heartbeat(&mut self, now: BootTime) -> Vec<Effect> {
        self.ledger.charge(self.state(), now);
        let Some(untold) = self.gate.heartbeat_due(now) else { return Vec::new() };
        // The gate has logged that once, which is enough on the many nodes of a mixed fleet where it does not apply.
        let applies = self.verdict().is_none_or(|verdict| verdict.outcome != Outcome::NotApplicable);
        if untold.is_empty() && !applies {
            return vec![Effect::Publish];
        }
        let level = match self.state() {
            State::Blocked => Level::Error,
            State::Yielding | State::Busy => Level::Warn,
            State::Waiting | State::Loaded => Level::Info,
        };
        let spent = Seconds(now.saturating_sub(self.since));
        let state = self.state().to_string().to_lowercase();
        let sentence = self.sentence();
        // The state's name already says it.
        let cause = if sentence.to_lowercase() == state { String::new() } else { format!(": {sentence}") };
        let text = format!("still {state} after {spent}{cause}{untold}");
        vec![Effect::Log(self.line(now, level, text, None)), Effect::Publish]
    }

    /// Takes in the result of a load, or of the rebuild before it. A signal that broke it off says nothing of the
    /// module.
    pub fn done(&mut self, now: BootTime, done: LoadResult) -> Vec<Effect> {
        if self.ends() {
            return self.ended(now, done);
        }
        self.ledger.charge(self.state(), now);
        let Some((phase, level, text)) = self.after_load(now, done) else { return Vec::new() };
        self.report(now, phase, level, text)
    }

    /// Takes in the result of an unload: how the module went, or why it is still there.
    pub fn unloaded(&mut self, now: BootTime, done: Result<String, String>) -> Vec<Effect> {
        self.ledger.charge(self.state(), now);
        match done {
            Ok(message) => {
                self.gone();
                self.live_beside = None;
                self.load_from = now + PAUSE;
                self.report(now, Phase::WAITING, Level::Info, message)
            }
            Err(message) => {
                let (by, retry) = match self.phase {
                    Phase::Yielding { by, retry, .. } => (by, retry),
                    _ => (self.phase.loaded_by().unwrap_or(LoadedBy::Another), RETRY.0),
                };
                let phase = Phase::Yielding { by, from: now + retry, retry: (retry * 2).min(RETRY.1) };
                self.report(now, phase, Level::Warn, message)
            }
        }
    }

    /// Enters a phase, or stays there with the same words, which are not logged again.
    fn report(&mut self, now: BootTime, phase: Phase, level: Level, text: String) -> Vec<Effect> {
        self.is_loading = false;
        let mut response = Response::default();
        if (self.state(), &self.message) == (phase.state(), &text) {
            self.phase = phase;
        } else {
            self.enter(now, phase, level, text, None, &mut response);
        }
        response.effects
    }

    fn after_load(&mut self, now: BootTime, done: LoadResult) -> Option<(Phase, Level, String)> {
        Some(match done {
            LoadResult::Live(message, Some(0)) => self.record_load(false, message),
            LoadResult::Overlapped(how) => {
                let message = format!("loaded, but MOFED began to swap its modules meanwhile ({how})");
                self.record_load(true, message)
            }
            LoadResult::Live(message, _) => {
                self.obstacle = None;
                self.note_live();
                // The next look shows which process loaded it, and whether it is in use.
                self.peermem = Presence::Unknown;
                (Phase::Loaded { by: LoadedBy::Another, is_about_swap: false }, Level::Info, message)
            }
            LoadResult::Refused(why) => self.record_refusal(now, why),
            LoadResult::Again(why) => self.postpone(now, why.failure, why.sentence),
            LoadResult::CannotRun { message, .. } => self.postpone(now, LoadFailure::NoModprobe, message),
            LoadResult::Late(message) => self.postpone(now, LoadFailure::Late, message),
            LoadResult::Signal(..) => return None,
        })
    }

    fn record_load(&mut self, is_about_swap: bool, message: String) -> (Phase, Level, String) {
        self.ledger.loaded();
        self.obstacle = None;
        self.peermem = Presence::Live { uses: Some(0) };
        self.note_live();
        (Phase::Loaded { by: LoadedBy::Us(None), is_about_swap }, Level::Info, message)
    }

    fn record_refusal(&mut self, now: BootTime, Why { failure, sentence }: Why) -> (Phase, Level, String) {
        if failure == LoadFailure::Unproven {
            self.note_live();
        }
        let mut again = now;
        if failure == LoadFailure::Rebuild {
            // The gate itself makes the pause.
            if !self.is_refused_as_before(&sentence) {
                self.ledger.refused(failure);
            }
        } else {
            self.ledger.refused(failure);
            self.opening_failed(now);
            again += if failure.may_pass_unseen() { Duration::ZERO } else { REFUSED };
        }
        let refused = RefusedLoad { on: self.evidence, again };
        (Phase::Blocked { refused: Some(refused) }, Level::Error, sentence)
    }

    fn postpone(&mut self, now: BootTime, failure: LoadFailure, message: String) -> (Phase, Level, String) {
        self.ledger.refused(failure);
        self.opening_failed(now);
        let text = format!("not loaded yet: {message}");
        (Phase::Waiting { last_try: Some(message) }, Level::Warn, text)
    }

    /// The same refusal as the last time, which is neither logged nor counted again.
    fn is_refused_as_before(&self, sentence: &str) -> bool {
        matches!(self.phase, Phase::Blocked { refused: Some(_) }) && self.message == sentence
    }

    /// SIGHUP asks for a look: what was refused, failed or unloaded before is tried again.
    pub fn ask(&mut self) {
        self.phase.reset_backoff();
        self.gate.reset_backoff();
        (self.order, self.driver_ends) = (None, None);
    }

    /// The time of the next look, even if no event comes.
    #[must_use]
    pub fn next_look(&self) -> Option<BootTime> {
        // Unknown and transitional states are re-checked by the periodic poll.
        let own = match (&self.phase, self.peermem) {
            (Phase::Waiting { .. } | Phase::Blocked { .. }, Presence::Absent)
                if self.is_ready() || self.gate.is_rebuild_due() =>
            {
                let from = self.try_from();
                Some(self.ordered_until().map_or(from, |until| until.max(from)))
            }
            (Phase::Yielding { from, .. }, Presence::Live { .. }) => Some(*from),
            (Phase::Busy { poll, .. }, Presence::Live { .. }) => Some(*poll),
            _ => None,
        };
        self.gate.next_look().into_iter().chain(own).min()
    }

    /// How long a look may last that begins now. If the time of an unload has passed, the glimpse before this look
    /// saw no swap any more, and the look has to find out why.
    #[must_use]
    pub fn look_limit(&self, now: BootTime) -> Option<BootTime> {
        self.unload_due().filter(|due| *due > now).or(self.gate.deadline())
    }

    /// The time at which the module must be unloaded.
    #[must_use]
    pub fn unload_due(&self) -> Option<BootTime> {
        match (&self.phase, self.peermem) {
            (Phase::Yielding { from, .. }, Presence::Live { uses: Some(0) }) => Some(*from),
            _ => None,
        }
    }

    /// The time of the next heartbeat, with or without a look.
    #[must_use]
    pub fn next_heartbeat(&self) -> BootTime {
        self.gate.next_heartbeat()
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> State {
        self.phase.state()
    }

    /// The state of `nvidia_peermem` at the last look or glimpse.
    #[must_use]
    pub fn peermem(&self) -> Presence {
        self.peermem
    }

    /// The module is live, and `keep` loaded it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        matches!(self.phase.loaded_by(), Some(LoadedBy::Us(_)))
    }

    /// The gate applied at an earlier look.
    #[must_use]
    pub fn has_applied(&self) -> bool {
        self.has_applied
    }

    /// The state in one sentence, with what a person can do about it.
    #[must_use]
    pub fn sentence(&self) -> String {
        let no_uvm = self.no_uvm.filter(|(_, is_said)| *is_said).map(|_| format!("; {NO_UVM}"));
        self.sentence_of_state() + &no_uvm.unwrap_or_default()
    }

    fn sentence_of_state(&self) -> String {
        let Some(verdict) = self.verdict() else { return self.message.clone() };
        match (&self.phase, verdict.deciding()) {
            (Phase::Waiting { last_try }, deciding) => {
                let last = last_try.as_ref().map(|last| format!("; not loaded before: {last}"));
                let now = match deciding {
                    _ if self.is_ready_but_ordered(verdict) => self.order_sentence().unwrap_or_default(),
                    None => "every condition is met: loading nvidia_peermem".to_owned(),
                    Some(c) if self.gate.may_rebuild(verdict) => {
                        format!("nvidia-peermem.ko will be rebuilt, if possible: {}", c.message)
                    }
                    Some(c) => sentence(c),
                };
                now + &last.unwrap_or_default()
            }
            (Phase::Blocked { refused: None }, Some(c)) => sentence(c),
            _ => self.message.clone(),
        }
    }

    /// The verdict as the gate sees it: with the settle time, and with the suspect marker that it accepted.
    #[must_use]
    pub fn verdict(&self) -> Option<&Verdict> {
        self.gate.verdict()
    }

    /// The obstacle to a rebuild that only a person can remove, as long as it blocks.
    #[must_use]
    pub fn obstacle(&self) -> Option<Kind> {
        self.obstacle.filter(|_| self.state() == State::Blocked)
    }

    /// Whether nobody else has to load the module: this node needs it, and `keep` can rebuild whatever file comes.
    #[must_use]
    pub fn owns(&self) -> bool {
        let is_coming = self.verdict().is_none_or(|verdict| self.is_coming(verdict));
        let is_willing = self.has_applied && self.gate.rebuilds() && self.state() != State::Blocked;
        is_willing && is_coming && self.obstacle.is_none() && self.gate.failed_openings() < OWNED_FAILURES
    }

    /// Only MOFED, the driver or the module file keeps the module from being loaded, and each of them comes or can be
    /// rebuilt. On anything else the driver's own script would not wait.
    fn is_coming(&self, verdict: &Verdict) -> bool {
        let is_waiting = verdict.outcome != Outcome::NotApplicable && verdict.outcome != Outcome::Blocked;
        let comes = |c: &Condition| {
            let is_mofeds = matches!(
                c.r#type,
                ConditionType::NicPresent
                    | ConditionType::MarkerPresent
                    | ConditionType::MarkerTrusted
                    | ConditionType::ModulesLive
                    | ConditionType::ModulesFromMofed
                    | ConditionType::SymbolsExported
                    | ConditionType::PeermemUsable
            );
            is_mofeds && c.status == Status::False || c.r#type == ConditionType::Settled
        };
        self.gate.may_rebuild(verdict) || is_waiting && verdict.deciding().is_none_or(comes)
    }

    /// The gate that does the waiting.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Counters and times since the start.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The module is live, and stays.
    fn live(&mut self, now: BootTime, cause: &Cause, swap: Option<String>, response: &mut Response) {
        let by = self.phase.loaded_by().unwrap_or(LoadedBy::Another);
        let swap = swap.filter(|_| self.has_applied);
        let stays = self.driver_ends.is_some() && !self.comes_back && self.stay == Stay::Yields;
        let is_about_swap = swap.is_some() || stays;
        let text = match swap {
            Some(why) => format!("{why}; nvidia_peermem is left alone (--no-yield)"),
            None if stays => STAYS.to_owned(),
            None if self.is_ours() => "nvidia_peermem is live".to_owned(),
            None => "nvidia_peermem is live, loaded by another process: keep treats it as its own".to_owned(),
        };
        let phase = Phase::Loaded { by, is_about_swap };
        let was_about_swap = matches!(self.phase, Phase::Loaded { is_about_swap: true, .. });
        let is_known = self.message == text || !is_about_swap && !was_about_swap;
        if self.state() == State::Loaded && is_known {
            self.phase = phase;
        } else {
            self.enter(now, phase, Level::Info, text, Some(cause), response);
        }
    }

    /// The module is not loaded: to be loaded, waited for, or given up until something changes.
    fn absent(&mut self, now: BootTime, is_blocked: bool, response: &mut Response) {
        if let Phase::Blocked { refused } = &mut self.phase {
            let had_refused = refused.is_some();
            *refused = refused.filter(|refused| refused.on == self.evidence);
            if had_refused && refused.is_none() {
                self.gate.forget_obstacle();
            }
        }
        if !matches!(self.phase, Phase::Blocked { refused: Some(_) }) {
            let phase = if is_blocked { Phase::Blocked { refused: None } } else { Phase::WAITING };
            if self.state() != phase.state() {
                // The gate has logged why.
                self.change(now, phase, String::new(), response);
            }
        }
        if now >= self.try_from() && self.ordered_until().is_none() {
            let rebuild = self.gate.is_rebuild_due().then_some(Action::Rebuild);
            response.action = if self.is_ready() { Some(Action::Load) } else { rebuild };
            self.is_loading = self.is_ready();
        }
    }

    /// The earliest time of the next load or rebuild.
    fn try_from(&self) -> BootTime {
        match self.phase {
            Phase::Blocked { refused: Some(refused) } => self.load_from.max(refused.again),
            _ => self.load_from,
        }
    }

    fn is_ready(&self) -> bool {
        self.verdict().is_some_and(|verdict| verdict.outcome == Outcome::Ready)
    }

    /// Another process unloaded the module.
    fn lost(&mut self, now: BootTime, cause: &Cause, response: &mut Response) {
        self.gone();
        // The order keeps two programs from loading and unloading in a loop. A restart of the driver is no failure.
        self.load_from = now + PAUSE;
        let text =
            self.order_sentence().unwrap_or_else(|| "another process unloaded nvidia_peermem".to_owned());
        self.enter(now, Phase::WAITING, Level::Info, text, Some(cause), response);
    }

    fn opening_failed(&mut self, now: BootTime) {
        self.gate.opening_failed();
        self.load_from = now + PAUSE;
    }

    /// The module was loaded, and is gone: earlier failures are over.
    fn gone(&mut self) {
        self.gate.reset_backoff();
        self.peermem = Presence::Absent;
    }

    fn enter(
        &mut self,
        now: BootTime,
        phase: Phase,
        level: Level,
        text: String,
        cause: Option<&Cause>,
        response: &mut Response,
    ) {
        if self.gate.may_log() {
            response.effects.push(Effect::Log(self.line(now, level, text.clone(), cause)));
        }
        self.change(now, phase, text, response);
    }

    fn change(&mut self, now: BootTime, phase: Phase, message: String, response: &mut Response) {
        let (from, to) = (self.state(), phase.state());
        if from != to {
            debug_assert!(from.may_become(to), "{from} must not become {to}");
            self.ledger.enter(from, to);
            self.since = now;
        }
        self.phase = phase;
        self.message = message;
        response.effects.push(Effect::Publish);
    }

    fn line(&self, now: BootTime, level: Level, text: String, cause: Option<&Cause>) -> Line {
        let elapsed = now.saturating_sub(self.start);
        Line { level, text, about: None, cause: cause.cloned(), elapsed }
    }
}
