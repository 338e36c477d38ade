// SPDX-License-Identifier: Apache-2.0
//! Holding until the gate opens or ends: what `wait` and `load` have in common.

use crate::act::{log, metrics};
use crate::condition::Verdict;
use crate::config::{Node, Policy};
use crate::ending::Ending;
use crate::gate::{BootTime, Cause, Effect, Gate, Look, Recorded};
use crate::judge::{in_transit, judge};
use crate::observation::Observation;
use crate::probe::{Depth, Probe};
use crate::report;
use crate::wake::{Signals, Wake, Wakes, now};
use std::path::PathBuf;
use std::time::Duration;

/// How often to look without any reason; only what no event told is found this late.
const SAFETY_NET: Duration = Duration::from_secs(5);
/// How often to look while a module comes or goes, for which there is no event.
const TRANSIT: Duration = Duration::from_millis(100);

/// What to hold for.
#[derive(Clone, Debug)]
pub struct Hold {
    /// The node to look at.
    pub node: Node,
    /// When to open and when to give up.
    pub policy: Policy,
    /// The Prometheus textfile.
    pub metrics_file: Option<PathBuf>,
}

/// A hold under way.
pub(super) struct Held<'a> {
    asked: &'a Hold,
    wakes: Wakes,
    probe: Probe<'a>,
    gate: Gate,
    started: BootTime,
    last_look: BootTime,
    /// A module was coming or going at the last look.
    in_transit: bool,
    /// What was seen last.
    seen: Option<Observation>,
    /// What the log said last: the verdict in one sentence.
    last_words: String,
    metrics_warned: bool,
}

impl<'a> Held<'a> {
    pub(super) fn new(asked: &'a Hold, signals: Signals) -> Self {
        let started = now();
        Self {
            asked,
            wakes: Wakes::new(signals, &asked.node.places.marker),
            probe: Probe::new(&asked.node),
            gate: Gate::new(asked.policy.clone(), started),
            started,
            last_look: started,
            in_transit: false,
            seen: None,
            last_words: String::new(),
            metrics_warned: false,
        }
    }

    /// Arm, look, sleep; returns the effect that ends the hold.
    pub(super) fn hold(&mut self) -> Effect {
        let mut cause = Some(Cause::Start);
        loop {
            let look = cause.as_ref().and_then(|cause| self.look(cause));
            // A look takes its time; a signal that came meanwhile goes before the deadline.
            if let Some(signal) = self.wakes.take_signal() {
                return Effect::End(self.signalled(signal));
            }
            let effects = self.gate.step(now(), cause.as_ref().unwrap_or(&Cause::Timer), look);
            if let Some(last) = self.carry_out(effects) {
                return last;
            }
            cause = match self.wakes.sleep(self.due(), self.last_look) {
                Wake::Signal(signal) => return Effect::End(self.signalled(signal)),
                Wake::Event(cause) => Some(cause),
                Wake::Due => self.due_cause(),
            };
        }
    }

    pub(super) fn signalled(&mut self, signal: u8) -> Ending {
        let effects = self.gate.signalled(now(), signal);
        let _ = self.carry_out(effects);
        Ending::Signal(signal)
    }

    /// One armed look. `None` when it was broken off, or was a glance that saw nothing new.
    fn look(&mut self, cause: &Cause) -> Option<Look> {
        self.wakes.arm();
        self.last_look = now();
        match cause {
            Cause::SafetyNet if !self.glance() => return None,
            Cause::Device | Cause::EventsLost => self.probe.forget_devices(),
            _ => {}
        }
        let wakes = &self.wakes;
        // Broken off by a signal or by the marker's loss, both of which wake us again.
        let seen = self.probe.look(Depth::Frugal, &mut || wakes.signalled())?;
        let seen = self.recorded(cause, seen);
        let expected = &self.asked.node.expected;
        self.in_transit = in_transit(expected, &seen);
        let verdict = judge(expected, &seen);
        let look = Look { verdict, identity: seen.identity() };
        self.seen = Some(seen);
        Some(look)
    }

    /// The slow look begins with a glance; without a verdict there is nothing to compare.
    fn glance(&self) -> bool {
        self.gate.verdict().and_then(Verdict::deciding).is_none_or(|holding| self.probe.changed(holding))
    }

    /// At trace level, logs the look in a form that tests can replay.
    fn recorded(&self, cause: &Cause, seen: Observation) -> Observation {
        if !tracing::enabled!(tracing::Level::TRACE) {
            return seen;
        }
        let at_ms = u64::try_from(now().saturating_sub(self.started).as_millis()).unwrap_or(u64::MAX);
        let recorded = Recorded { at_ms, cause: cause.clone(), seen };
        tracing::trace!("look {}", serde_json::to_string(&recorded).unwrap_or_default());
        recorded.seen
    }

    /// When to wake at the latest.
    fn due(&self) -> BootTime {
        let next = [self.gate.next_look(), Some(self.gate.next_heartbeat()), Some(self.next_slow_look())];
        next.into_iter().flatten().min().unwrap_or(self.last_look)
    }

    fn next_slow_look(&self) -> BootTime {
        self.last_look + if self.in_transit { TRANSIT } else { SAFETY_NET }
    }

    /// What a wake without an event is for; `None` for a heartbeat, which needs no look.
    fn due_cause(&self) -> Option<Cause> {
        let now = now();
        if self.gate.next_look().is_some_and(|due| now >= due) {
            Some(Cause::Timer)
        } else if now < self.next_slow_look() {
            None
        } else if self.in_transit {
            Some(Cause::Transit)
        } else {
            Some(Cause::SafetyNet)
        }
    }

    /// Carries out what the gate wants, and hands back the effect that ends the wait.
    fn carry_out(&mut self, effects: Vec<Effect>) -> Option<Effect> {
        for effect in effects {
            match effect {
                Effect::Say(line) => {
                    log::say(&line);
                    self.last_words = line.text;
                }
                Effect::Publish => self.publish(),
                last @ (Effect::Open(_) | Effect::End(_)) => return Some(last),
            }
        }
        None
    }

    fn publish(&mut self) {
        let (Some(path), Some(verdict)) = (&self.asked.metrics_file, self.gate.verdict()) else { return };
        let written = metrics::replace(path, &report::metrics(verdict, now().saturating_sub(self.started)));
        match written {
            Err(error) if !self.metrics_warned => {
                self.metrics_warned = true;
                tracing::warn!("cannot write the metrics file {}: {error}", path.display());
            }
            _ => {}
        }
    }

    /// Holds on after an opening that came to nothing.
    pub(super) fn hold_on(&mut self) {
        self.gate.hold_on();
    }

    /// One look beside the gate, at this moment; `None` when a signal or the marker's loss broke it off.
    pub(super) fn look_now(&mut self) -> Option<Look> {
        let look = self.look(&Cause::Timer)?;
        Some(self.gate.believing(look))
    }

    /// The look that the gate judged last.
    pub(super) fn last_look(&self) -> Option<&Look> {
        self.gate.last_look()
    }

    /// What was seen last.
    pub(super) fn seen(&self) -> Option<&Observation> {
        self.seen.as_ref()
    }

    /// What the log said last: the verdict in one sentence.
    pub(super) fn last_words(&self) -> &str {
        &self.last_words
    }

    /// The verdict as the gate sees it.
    pub(super) fn verdict(&self) -> Option<&Verdict> {
        self.gate.verdict()
    }

    pub(super) fn wakes(&self) -> &Wakes {
        &self.wakes
    }
}
