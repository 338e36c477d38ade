// SPDX-License-Identifier: Apache-2.0
//! MOFED: its container with each of its entrypoints, and the kubelet that starts it again; or the host's own.
//!
//! Go (doca-driver-build, `entrypoint.go`: `run`, `preStart`, `start`, `stop`; `driver/driver.go`: `Load`): takes the
//! lock, clears the marker, reads the list of modules, unloads `nvidia_peermem`, builds, swaps. Bash
//! (`entrypoint.sh`): has no lock, unloads `nvidia_peermem` first, and clears a marker that a killed container left
//! seconds to minutes later. Both then mount their headers and make the marker. A host's openibd has neither lock nor
//! marker, and its headers are files.

use super::memory::Moment;
use super::node::{Abi, Load, Lock, Node, Origin, Stack};
use super::{Fault, Life, Pace, Span, TICK, age};
use peermem_gate::ready::time::BootTime;
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// The programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Entrypoint {
    Go,
    Bash,
    /// openibd of the host, at the boot and when a person restarts it.
    Host,
}

/// How far the container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// It does not run.
    Down,
    /// Its program has begun. Go holds the lock; the marker of an earlier container may still be there.
    Begun,
    /// Go's `preStart` has cleared the marker, first of all.
    Unmarked,
    /// It has read the list of modules; if `nvidia_peermem` was in it, its own rmmod follows.
    Listed(bool),
    /// Bash prepares a compiler, with the marker of an earlier container still there.
    Preparing,
    /// It builds or installs its modules.
    Building,
    /// openibd has unloaded `mlx5_core`.
    WithoutNic,
    /// And `ib_core`.
    WithoutCore,
    /// It has loaded the new `ib_core`.
    WithCore,
    /// The new stack is live. The headers come next, then the marker.
    Live,
    /// Its headers are on the host.
    Mounted,
    /// The marker is there.
    Ready,
    /// SIGTERM: the marker is gone, the lock is still held, the headers and the modules are still there.
    Stopping,
    /// `RESTORE_DRIVER_ON_POD_TERMINATION`: it has unloaded `mlx5_core`; `ib_core` and the kernel's own come next.
    Restoring,
}

/// A step of the container, or what happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// It goes on to its next phase.
    On,
    /// `start` finds modules of the same srcversion loaded: "skipping reload".
    SkipReload,
    /// SIGTERM, as when its pod is deleted.
    Stop,
    /// SIGKILL, or an end in the middle: what it has done so far stays.
    Kill,
}

/// The container, and those that come after it.
#[derive(Clone, Debug)]
pub(crate) struct Mofed {
    pub(crate) entrypoint: Entrypoint,
    /// The release that the next container brings.
    pub(crate) abi: Abi,
    pub(crate) phase: Phase,
    /// When it entered the phase, or cleared the marker.
    pub(crate) since: BootTime,
    /// `RESTORE_DRIVER_ON_POD_TERMINATION=true`.
    pub(crate) restores: bool,
    /// Its number: each start has the next.
    pub(crate) number: u8,
    /// So long after the marker's end it unloads its old modules, at the earliest.
    pub(crate) haste: Duration,
}

/// MOFED needs `ib_uverbs` only seconds after it has cleared the marker.
pub(crate) const HASTE: Duration = Duration::from_secs(2);

/// As short as life allows, because a search takes longer with each tick.
pub(crate) fn search(mofed: &Mofed) -> Span {
    match mofed.phase {
        // A pod's successor, or a container that the kubelet starts again, comes after more than two seconds.
        Phase::Down => (Duration::from_secs(2), None),
        Phase::Building => (mofed.haste, Some(mofed.haste + TICK)),
        // Minutes in life: what counts is that others may act meanwhile.
        Phase::Preparing => (Duration::ZERO, Some(TICK * 3)),
        Phase::Ready => (Duration::ZERO, None),
        // mlx5_core takes seconds to go, and at least as long as `keep` takes for an rmmod.
        Phase::Restoring => (TICK, Some(TICK * 2)),
        Phase::WithoutNic if mofed.entrypoint == Entrypoint::Host => (TICK, Some(TICK * 2)),
        // 0.1 to 0.7 s from the marker's end to rmmod (docs/measurements.md); the others are as short here.
        Phase::Begun
        | Phase::Unmarked
        | Phase::Listed(_)
        | Phase::WithoutNic
        | Phase::WithoutCore
        | Phase::WithCore
        | Phase::Live
        | Phase::Mounted
        | Phase::Stopping => (Duration::ZERO, Some(TICK)),
    }
}

impl Mofed {
    pub(crate) fn new(phase: Phase) -> Self {
        let (entrypoint, abi) = (Entrypoint::Go, Abi::New);
        Self { entrypoint, abi, phase, since: BootTime::ZERO, restores: false, number: 1, haste: HASTE }
    }

    pub(super) fn hash_at<H: Hasher>(&self, moment: Moment, pace: &Pace, state: &mut H) {
        let Self { entrypoint, abi, phase, since, restores, number, haste } = self;
        let (earliest, latest) = (pace.mofed)(self);
        (entrypoint, abi, phase, restores, number, haste).hash(state);
        moment.age(*since, latest.unwrap_or(earliest)).hash(state);
    }

    /// It will not wait any longer than that.
    pub(super) fn latest(&self, pace: &Pace) -> Option<BootTime> {
        Some(self.since + (pace.mofed)(self).1?)
    }

    /// A program of this container's runs.
    fn is_up(&self) -> bool {
        self.phase != Phase::Down
    }

    /// The bash entrypoint has set its traps only when it clears the marker.
    fn hears_signals(&self) -> bool {
        match self.phase {
            Phase::Down | Phase::Begun | Phase::Stopping | Phase::Restoring | Phase::Preparing => false,
            Phase::Listed(_) => self.entrypoint == Entrypoint::Go,
            _ => self.entrypoint != Entrypoint::Host,
        }
    }

    /// It runs, and is not ready: a marker that is there now is an old one.
    pub(crate) fn is_starting(&self) -> bool {
        !matches!(self.phase, Phase::Down | Phase::Ready | Phase::Stopping | Phase::Restoring)
    }

    /// It unloads modules and loads its own; others are kept from loading (`blacklist-ofed-modules.conf`).
    pub(crate) fn is_swapping(&self) -> bool {
        matches!(self.phase, Phase::WithoutNic | Phase::WithoutCore | Phase::WithCore | Phase::Restoring)
    }

    fn enter(&mut self, phase: Phase, now: BootTime) {
        let is_timed_by_marker = matches!(phase, Phase::Listed(_) | Phase::Building);
        if !is_timed_by_marker || self.entrypoint == Entrypoint::Bash {
            self.since = now;
        }
        self.phase = phase;
    }
}

impl Life {
    pub(super) fn mofed_steps(&self, steps: &mut Vec<super::Step>) {
        let Self { mofed, node, budget, .. } = self;
        let mut own = Vec::new();
        let is_host = mofed.entrypoint == Entrypoint::Host;
        let may_go_on = match mofed.phase {
            Phase::Down => budget.starts > 0,
            Phase::Ready => is_host && budget.starts > 0,
            _ => true,
        };
        // The gate's rmmod takes 0.12 s at most, and MOFED reads the list no sooner than 0.1 s after the marker's
        // end.
        let is_overtaken = mofed.phase == Phase::Unmarked && self.is_unloading();
        let is_due = age(mofed.since, self.now) >= (self.pace.mofed)(mofed).0;
        if may_go_on && !is_overtaken && is_due {
            own.push(Step::On);
            if mofed.phase == Phase::Building && !is_host && node.stack.abi() == Some(mofed.abi) {
                own.push(Step::SkipReload);
            }
        }
        if mofed.hears_signals() && budget.stops > 0 {
            own.push(Step::Stop);
        }
        if mofed.is_up() && !is_host && budget.kills > 0 {
            own.push(Step::Kill);
        }
        steps.extend(own.into_iter().map(super::Step::Mofed));
    }

    /// The container takes this step.
    pub(super) fn mofed(&mut self, step: Step) {
        match step {
            Step::On => self.mofed_goes_on(),
            Step::SkipReload => self.mofed_enters(Phase::Live),
            Step::Stop => {
                self.budget.stops -= 1;
                self.node.marker = None;
                self.mofed_enters(Phase::Stopping);
            }
            Step::Kill => {
                self.budget.kills -= 1;
                self.mofed_ends();
            }
        }
    }

    fn mofed_enters(&mut self, phase: Phase) {
        self.mofed.enter(phase, self.now);
    }

    fn mofed_ends(&mut self) {
        if let Lock::Held(_) = self.node.lock {
            self.node.lock = Lock::Free;
        }
        self.mofed_enters(Phase::Down);
    }

    fn mofed_goes_on(&mut self) {
        let number = self.mofed.number;
        let is_go = self.mofed.entrypoint == Entrypoint::Go;
        let is_host = self.mofed.entrypoint == Entrypoint::Host;
        match self.mofed.phase {
            Phase::Down | Phase::Ready => {
                self.budget.starts -= 1;
                self.mofed.number += 1;
                if is_go {
                    self.node.lock = Lock::Held(self.mofed.number);
                }
                self.mofed_enters(if is_host { Phase::Building } else { Phase::Begun });
            }
            Phase::Begun if is_go => {
                self.node.marker = None;
                self.mofed_enters(Phase::Unmarked);
            }
            Phase::Begun | Phase::Unmarked => self.mofed_lists(),
            Phase::Listed(true) => self.mofed_unloads_peermem(),
            Phase::Listed(false) => self.mofed_builds(),
            Phase::Preparing => {
                self.node.marker = None;
                self.mofed_enters(Phase::Building);
            }
            Phase::Building => {
                self.node.stack.nic = None;
                self.mofed_enters(Phase::WithoutNic);
            }
            Phase::WithoutNic => self.mofed_unloads_core(),
            Phase::WithoutCore => {
                self.node.stack.core = Some(self.node.load_mofed(self.mofed.abi));
                self.mofed_enters(Phase::WithCore);
            }
            Phase::WithCore => {
                self.node.stack.nic = Some(self.node.load_mofed(self.mofed.abi));
                self.mofed_enters(Phase::Live);
            }
            // An earlier container's are taken away first (a lazy unmount, and a mount 0.09 s later).
            Phase::Live if !is_host && self.node.headers.is_some() => {
                self.node.headers = None;
                self.mofed_enters(Phase::Live);
            }
            Phase::Live => {
                self.node.headers = Some(self.mofed.abi);
                self.mofed_enters(if is_host { Phase::Ready } else { Phase::Mounted });
            }
            Phase::Mounted => {
                self.node.marker = Some(number);
                self.mofed_enters(Phase::Ready);
            }
            Phase::Stopping if self.mofed.restores => {
                self.node.stack.nic = None;
                self.mofed_enters(Phase::Restoring);
            }
            Phase::Stopping => {
                self.node.headers = None;
                self.mofed_ends();
            }
            Phase::Restoring => self.mofed_restores(),
        }
    }

    /// "module `nvidia_peermem` is used by other modules": its start fails, as a person must expect.
    fn mofed_lists(&mut self) {
        let is_loaded = self.node.peermem.is_some();
        if is_loaded && self.node.is_used {
            self.mofed_ends();
        } else {
            self.mofed_enters(Phase::Listed(is_loaded));
        }
    }

    fn mofed_unloads_peermem(&mut self) {
        if self.node.peermem.is_none() {
            // "Module nvidia_peermem is not currently loaded", which ends its start.
            self.fails(Fault::LostUnload);
        }
        if self.node.unloads_peermem() { self.mofed_builds() } else { self.mofed_ends() }
    }

    fn mofed_builds(&mut self) {
        let is_go = self.mofed.entrypoint == Entrypoint::Go;
        self.mofed_enters(if is_go { Phase::Building } else { Phase::Preparing });
    }

    /// openibd does not unload `nvidia_peermem` (doca-driver-build#481).
    fn mofed_unloads_core(&mut self) {
        if self.node.peermem.is_some() {
            self.is_pinned();
            self.mofed_ends();
            return;
        }
        self.node.stack.core = None;
        self.mofed_enters(Phase::WithoutCore);
    }
}

impl Life {
    fn mofed_restores(&mut self) {
        if self.node.peermem.is_some() {
            self.is_pinned();
        } else {
            let own = Load { number: self.node.next_load(), from: Origin::Kernel };
            self.node.stack = Stack { core: Some(own), nic: Some(own) };
        }
        self.node.headers = None;
        self.mofed_ends();
    }
}

impl Node {
    fn load_mofed(&mut self, abi: Abi) -> Load {
        Load { number: self.next_load(), from: Origin::Mofed(abi) }
    }
}
