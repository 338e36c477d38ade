// SPDX-License-Identifier: Apache-2.0
//! MOFED's container with the Go entrypoint (doca-driver-build, `entrypoint.go`: `run`, `preStart`, `start`, `stop`;
//! `driver/driver.go`: `Load`), and the kubelet that starts it again.

use super::node::{Node, Stack};
use super::{Fault, Life};

/// How far the container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// It does not run.
    Down,
    /// It holds `.lock`; the marker of an earlier container may still be there.
    Locked,
    /// `preStart` has cleared the marker, first of all.
    Cleared,
    /// It has read the list of modules; if `nvidia_peermem` was in it, its own rmmod follows.
    Listed(bool),
    /// It builds or installs its modules.
    Building,
    /// openibd has unloaded the old stack, and not loaded the new one yet.
    Swapping,
    /// The new stack is live. The headers come next, then the marker.
    Live,
    /// Its headers are on the host.
    Mounted,
    /// The marker is there.
    Ready,
}

/// A step of the container, or what happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It goes on to its next phase.
    On,
    /// `start` finds modules of the same srcversion loaded: "skipping reload".
    SkipReload,
    /// SIGTERM: it clears the marker and unmounts the headers. The modules stay.
    Stop,
    /// SIGKILL: marker and headers stay.
    Kill,
}

/// The container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mofed {
    pub phase: Phase,
    /// Ticks since it entered the phase, or cleared the marker: up to the last that matters.
    pub age: u8,
    /// Its number: each start has the next.
    pub number: u8,
    /// How often it may start in this life.
    pub starts: u8,
}

const AGED: u8 = 6;

impl Mofed {
    pub(super) fn new(phase: Phase, starts: u8) -> Self {
        Self { phase, age: AGED, number: 1, starts }
    }

    pub(super) fn ages(&mut self) {
        self.age = (self.age + 1).min(AGED);
    }

    /// When its next phase begins at the earliest and at the latest, in ticks.
    fn due(&self) -> (u8, Option<u8>) {
        match self.phase {
            // A pod's successor comes after more than two seconds.
            Phase::Down => (4, None),
            // It needs ib_uverbs only seconds after it has cleared the marker.
            Phase::Building => (4, Some(5)),
            // 0.1 to 0.7 s from the marker's end to rmmod (docs/measurements.md); the others are as short here.
            Phase::Locked
            | Phase::Cleared
            | Phase::Listed(_)
            | Phase::Swapping
            | Phase::Live
            | Phase::Mounted => (0, Some(1)),
            Phase::Ready => (u8::MAX, None),
        }
    }

    /// It will not wait for another tick.
    pub(super) fn is_urgent(&self) -> bool {
        self.due().1.is_some_and(|latest| self.age >= latest)
    }

    /// The old stack is about to go, or the new one is not whole yet.
    pub(super) fn is_at_swap(&self) -> bool {
        matches!(
            self.phase,
            Phase::Cleared
                | Phase::Listed(_)
                | Phase::Building
                | Phase::Swapping
                | Phase::Live
                | Phase::Mounted
        )
    }

    /// It runs, and is not ready: a marker that is there now is an old one.
    pub(super) fn is_starting(&self) -> bool {
        self.phase == Phase::Locked || self.is_at_swap()
    }

    pub(super) fn steps(&self, node: &Node, steps: &mut Vec<Step>) {
        let may_start = self.phase != Phase::Down || self.starts > 0;
        if may_start && self.age >= self.due().0 {
            steps.push(Step::On);
            if self.phase == Phase::Building && matches!(node.stack, Stack::Mofed(_)) {
                steps.push(Step::SkipReload);
            }
        }
        if self.phase == Phase::Ready && self.starts > 0 {
            steps.extend([Step::Stop, Step::Kill]);
        }
    }

    fn enter(&mut self, phase: Phase) {
        let is_timed_by_marker = matches!(phase, Phase::Listed(_) | Phase::Building);
        if !is_timed_by_marker {
            self.age = 0;
        }
        self.phase = phase;
    }
}

impl Life {
    /// The container takes this step.
    pub(super) fn mofed(&mut self, step: Step) {
        match step {
            Step::On => self.mofed_goes_on(),
            Step::SkipReload => self.mofed.enter(Phase::Live),
            Step::Stop => {
                (self.node.marker, self.node.headers) = (None, None);
                self.mofed_ends();
            }
            Step::Kill => self.mofed_ends(),
        }
    }

    fn mofed_ends(&mut self) {
        self.node.lock = None;
        self.mofed.enter(Phase::Down);
    }

    fn mofed_goes_on(&mut self) {
        let Self { mofed, node, .. } = self;
        let number = mofed.number;
        match mofed.phase {
            Phase::Down => {
                mofed.starts -= 1;
                mofed.number += 1;
                node.lock = Some(mofed.number);
                mofed.enter(Phase::Locked);
            }
            Phase::Locked => {
                node.marker = None;
                mofed.enter(Phase::Cleared);
            }
            // "module nvidia_peermem is used by other modules": its start fails, as a person must expect.
            Phase::Cleared if node.peermem.is_some() && node.is_used => self.mofed_ends(),
            Phase::Cleared => mofed.enter(Phase::Listed(node.peermem.is_some())),
            Phase::Listed(true) if node.peermem.is_none() => self.fails(Fault::LostUnload),
            Phase::Listed(true) if !node.unloads() => self.mofed_ends(),
            Phase::Listed(_) => mofed.enter(Phase::Building),
            // openibd does not unload nvidia_peermem (doca-driver-build#481).
            Phase::Building if node.peermem.is_some() => self.fails(Fault::PinnedSwap),
            Phase::Building => {
                node.stack = Stack::None;
                mofed.enter(Phase::Swapping);
            }
            Phase::Swapping => {
                node.stack = Stack::Mofed(number);
                mofed.enter(Phase::Live);
            }
            Phase::Live => {
                node.headers = Some(number);
                mofed.enter(Phase::Mounted);
            }
            Phase::Mounted => {
                node.marker = Some(number);
                mofed.enter(Phase::Ready);
            }
            Phase::Ready => {}
        }
    }
}
