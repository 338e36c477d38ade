// SPDX-License-Identifier: Apache-2.0
//! Counters and times since the start, for metrics.

use super::State;
use crate::keeper::attempt::LoadFailure;
use crate::ready::time::BootTime;
use crate::rebuild::RebuildLabel;
use std::collections::BTreeMap;
use std::time::Duration;

/// Counts and times.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    charged: BootTime,
    /// From one state to another, how often.
    pub transitions: BTreeMap<(State, State), u64>,
    /// Time in each state.
    pub spent: BTreeMap<State, Duration>,
    /// Loads that failed, by reason: an errno, or one word.
    pub refused: BTreeMap<LoadFailure, u64>,
    /// Rebuilds of nvidia-peermem.ko, by result.
    pub rebuilds: BTreeMap<RebuildLabel, u64>,
    /// Time spent on them.
    pub rebuilding: Duration,
    /// Loads that succeeded, and when the last of them did.
    pub loads: (u64, Option<BootTime>),
}

impl Ledger {
    pub(super) fn new(now: BootTime) -> Self {
        let spent = State::ALL.iter().map(|state| (*state, Duration::ZERO)).collect();
        Self { charged: now, spent, ..Self::default() }
    }

    /// The time until now was spent in this state.
    pub(super) fn charge(&mut self, state: State, now: BootTime) {
        *self.spent.entry(state).or_default() += now.saturating_sub(self.charged);
        self.charged = now;
    }

    pub(super) fn enter(&mut self, from: State, to: State) {
        *self.transitions.entry((from, to)).or_default() += 1;
    }

    pub(super) fn refused(&mut self, failure: LoadFailure) {
        *self.refused.entry(failure).or_default() += 1;
    }

    pub(super) fn rebuilt(&mut self, label: RebuildLabel, spent: Duration) {
        *self.rebuilds.entry(label).or_default() += 1;
        self.rebuilding += spent;
    }

    pub(super) fn loaded(&mut self) {
        self.loads = (self.loads.0 + 1, Some(self.charged));
    }
}
