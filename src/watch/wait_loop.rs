// SPDX-License-Identifier: Apache-2.0
//! Waiting until the gate opens or ends: what `wait` and `rebuild` have in common.

use crate::cli::log;
use crate::process::output::OutputFile;
use crate::ready::clock::now;
use crate::ready::exit::Exit;
use crate::ready::gate::{Effect, Gate, Memory, Opening, Policy};
use crate::ready::look::{Cause, Look};
use crate::ready::node::Node;
use crate::ready::wake::{Signals, Wake};
use crate::watch::Watch;
use crate::watch::supervised::warn_of_odd_request;
use crate::words::report;

/// The node, the policy and the metrics of a wait.
#[derive(Debug)]
pub(crate) struct WaitRequest {
    /// The node to look at.
    pub(crate) node: Node,
    /// When to open and when to give up.
    pub(crate) policy: Policy,
    /// The Prometheus textfile.
    pub(crate) metrics: Option<OutputFile>,
    /// The memory of this wait, if another worker began it.
    pub(crate) memory: Option<Memory>,
}

/// A running wait.
pub(crate) struct WaitLoop<'a> {
    pub(crate) asked: &'a WaitRequest,
    pub(crate) watch: Watch<'a>,
    pub(crate) gate: Gate,
    /// The last logged verdict, in one sentence.
    pub(crate) last_words: String,
}

impl<'a> WaitLoop<'a> {
    pub(crate) fn new(asked: &'a WaitRequest, signals: &'a Signals) -> Self {
        warn_of_odd_request(&asked.node);
        let mut watch = Watch::new(&asked.node, signals);
        let now = watch.started;
        let memory = asked.memory.clone().unwrap_or_else(|| Memory::new(now));
        let gate = Gate::resume(asked.policy.clone(), memory, now);
        watch.deadline = gate.deadline();
        Self { asked, watch, gate, last_words: String::new() }
    }

    /// Arms the watches, looks and sleeps until the gate opens.
    ///
    /// # Errors
    /// How the wait ended instead.
    pub(crate) fn wait(&mut self) -> Result<Opening, Exit> {
        let mut effects = self.look_before_arming();
        let mut cause = Some(Cause::Start);
        loop {
            if !effects.iter().any(|effect| effect.last().is_some()) {
                let look = cause.as_ref().and_then(|cause| self.watch.look(cause, self.gate.verdict()));
                effects.extend(self.step(cause.as_ref().unwrap_or(&Cause::Timer), look));
            }
            if let Some(last) = self.carry_out(std::mem::take(&mut effects)) {
                return last;
            }
            let due = self.gate.next_look().into_iter().chain([self.gate.next_heartbeat()]).min();
            cause = match self.watch.sleep(due) {
                Wake::Signal(signal) => return Err(self.signaled(signal)),
                Wake::Event(cause) => Some(cause),
                Wake::Due => self.watch.due_cause(self.gate.next_look()),
            };
        }
    }

    /// Where nothing has to settle, the first look may be the last one. It needs no watch then: closing an
    /// inotify instance takes longer than all the rest. Otherwise an armed look follows before a line is logged.
    fn look_before_arming(&mut self) -> Vec<Effect> {
        if !self.gate.opens_at_one_look() {
            return Vec::new();
        }
        let look = self.watch.look_unarmed();
        self.step(&Cause::Start, look)
    }

    fn step(&mut self, cause: &Cause, look: Option<Look>) -> Vec<Effect> {
        // A look takes a while. A signal that came during it comes before the deadline.
        match self.watch.wakes.take_signal() {
            Some(signal) => self.gate.signaled(now(), signal),
            None => self.gate.step(now(), cause, look),
        }
    }

    pub(crate) fn signaled(&mut self, signal: u8) -> Exit {
        let effects = self.gate.signaled(now(), signal);
        let _ = self.carry_out(effects);
        Exit::Signal(signal)
    }

    /// Carries out the gate's effects, and returns how the wait ends if one of them ends it.
    fn carry_out(&mut self, effects: Vec<Effect>) -> Option<Result<Opening, Exit>> {
        for effect in effects {
            match effect {
                Effect::Log(line) => {
                    log::write(&line);
                    self.last_words = line.text;
                }
                Effect::Publish => self.publish(),
                Effect::Last(last) => return Some(last),
            }
        }
        None
    }

    fn publish(&self) {
        if let (Some(file), Some(verdict)) = (&self.asked.metrics, self.gate.verdict()) {
            file.publish(&report::metrics(verdict, self.watch.elapsed()));
        }
    }
}
