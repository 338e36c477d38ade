// SPDX-License-Identifier: Apache-2.0
//! `peermem-gate wait`: the production gate, fed by production judgments of the node.

use super::memory::relative;
use super::{Fault, Life, policy};
use crate::gate::{Effect, Gate};
use crate::look::Cause;
use crate::time::BootTime;
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// The gate, and whether something has happened since its last look.
#[derive(Clone, Debug)]
pub(super) struct Gated {
    gate: Gate,
    pub(super) is_woken: bool,
}

impl Gated {
    /// Longer than any life of the model: a suspect marker is not believed in it.
    pub(super) fn new(now: BootTime) -> Self {
        let policy = crate::gate::Policy { suspect_hold: Duration::from_secs(600), ..policy() };
        Self { gate: Gate::new(policy, now), is_woken: true }
    }

    pub(super) fn is_awake(&self, now: BootTime) -> bool {
        self.is_woken || self.gate.next_look().is_some_and(|due| due <= now)
    }

    /// A look, and whether the gate opens after it.
    pub(super) fn opens(&mut self, life: &mut Life) -> bool {
        self.is_woken = false;
        let (mut expected, seen, mut look) = life.node.look(life.now, true);
        expected.peermem = None;
        look.verdict = crate::judge::judge(&expected, &seen);
        let effects = self.gate.step(life.now, &Cause::Marker, Some(look));
        let opens = effects.iter().any(|effect| matches!(effect, Effect::Open(_)));
        if !opens && self.gate.next_look().is_some_and(|due| due <= life.now) {
            life.fails(Fault::PastWake);
        }
        opens
    }

    pub(super) fn hash_at<H: Hasher>(&self, now: BootTime, state: &mut H) {
        self.is_woken.hash(state);
        relative(&format!("{:?}", self.gate), now).hash(state);
    }
}
