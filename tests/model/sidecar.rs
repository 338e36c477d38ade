// SPDX-License-Identifier: Apache-2.0
//! `peermem-gate keep`: the production state machine, fed by production judgments of the node.

use super::memory::relative;
use super::node::Node;
use super::{Fault, Life, policy};
use crate::judge::swap::{Glimpse, Presence, glimpse};
use crate::keep::{Action, Done, FullLook, Keep, LoadFailure, Response};
use crate::look::Cause;
use crate::observation::LockHolder;
use crate::time::BootTime;
use std::hash::{Hash, Hasher};

/// A step of the sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It wakes and looks.
    Look,
    /// The program that it started comes to its end.
    Act,
    /// A person or the kubelet starts it again.
    Restart,
}

/// The sidecar.
#[derive(Clone, Debug)]
pub(super) struct Sidecar {
    keep: Keep,
    /// Its /proc is the host's, so it sees who holds MOFED's lock.
    sees_locks: bool,
    was_marked: bool,
    /// Something happened since its last look.
    is_woken: bool,
    /// What it does now: a look can be made again only when that has ended.
    action: Option<Action>,
    /// How often it may start again in this life.
    restarts: u8,
}

impl Hash for Sidecar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { keep: _, sees_locks: _, was_marked, is_woken, action, restarts } = self;
        (was_marked, is_woken, restarts).hash(state);
        action.map(|action| action as u8).hash(state);
    }
}

impl Sidecar {
    pub(super) fn new(now: BootTime, sees_locks: bool, restarts: u8) -> Self {
        let keep = Keep::new(policy(), false, now);
        Self { keep, sees_locks, was_marked: false, is_woken: true, action: None, restarts }
    }

    /// The state machine itself, by all that it remembers.
    pub(super) fn hash_at<H: Hasher>(&self, now: BootTime, state: &mut H) {
        relative(&format!("{:?}", self.keep), now).hash(state);
        self.hash(state);
    }

    /// An event has woken it, or its program is about to end.
    pub(super) fn is_urgent(&self, now: BootTime) -> bool {
        self.action.is_some() || self.is_awake(now)
    }

    fn is_awake(&self, now: BootTime) -> bool {
        self.is_woken || self.keep.next_look().is_some_and(|due| due <= now)
    }

    /// A program that it started runs.
    pub(super) fn acts(&self) -> bool {
        self.action.is_some()
    }

    pub(super) fn wakes(&mut self) {
        self.is_woken = true;
    }

    pub(super) fn steps(&self, now: BootTime, may_restart: bool, steps: &mut Vec<Step>) {
        match self.action {
            Some(_) => steps.push(Step::Act),
            None if self.is_awake(now) => steps.push(Step::Look),
            None => {}
        }
        if self.restarts > 0 && may_restart {
            steps.push(Step::Restart);
        }
    }

    fn look(&mut self, now: BootTime, node: &Node) -> Option<Fault> {
        self.is_woken = false;
        let (expected, seen, look) = node.look(now, self.sees_locks);
        self.was_marked |= node.marker.is_some();
        let mut quick = glimpse(&expected, &seen.marker, &seen.modules, self.was_marked);
        if quick.must_go() {
            quick.holder = LockHolder::of(&seen.lock, seen.lock_holder);
        }
        let response = self.keep.glimpse(now, &Cause::Marker, &quick);
        if response.action.is_some() {
            return self.begin(&response, &quick);
        }
        let full_look = FullLook::of(&expected, &seen, look, self.was_marked);
        let quick = full_look.glimpse.clone();
        let response = self.keep.look(now, &Cause::Marker, full_look);
        if response.action.is_some() {
            return self.begin(&response, &quick);
        }
        self.keep.next_look().filter(|due| *due <= now).map(|_| Fault::PastWake)
    }

    fn begin(&mut self, response: &Response, seen: &Glimpse) -> Option<Fault> {
        self.action = response.action;
        let is_unload = self.action == Some(Action::Unload);
        (is_unload && seen.peermem != Presence::Live { uses: Some(0) }).then_some(Fault::UnloadInUse)
    }
}

impl Life {
    /// The sidecar takes this step.
    pub(super) fn sidecar(&mut self, step: Step) {
        let Some(mut sidecar) = self.sidecar.take() else { return };
        match step {
            Step::Restart => {
                sidecar = Sidecar::new(self.now, sidecar.sees_locks, sidecar.restarts - 1);
            }
            Step::Look => {
                if let Some(fault) = sidecar.look(self.now, &self.node) {
                    self.fails(fault);
                }
            }
            Step::Act => {
                let done = match sidecar.action.take() {
                    Some(Action::Load) => self.load(&sidecar),
                    Some(Action::Unload) => self.unload(),
                    Some(Action::Rebuild) | None => return,
                };
                let _ = sidecar.keep.done(self.now, done);
                sidecar.is_woken = true;
            }
        }
        self.sidecar = Some(sidecar);
    }

    /// A last look, then modprobe.
    fn load(&mut self, sidecar: &Sidecar) -> Done {
        let (.., look) = self.node.look(self.now, sidecar.sees_locks);
        let look = sidecar.keep.gate().believing(look);
        if let Some(changed) = look.verdict.deciding() {
            return Done::Postponed(LoadFailure::LastLook, changed.reason.to_string());
        }
        if self.node.peermem.is_some() {
            return Done::Found("nvidia_peermem is live".to_owned());
        }
        if self.mofed.is_at_swap() {
            self.fails(Fault::LoadIntoSwap);
        }
        if self.node.loads() {
            Done::Loaded("nvidia_peermem is live".to_owned())
        } else {
            Done::Refused(LoadFailure::Errno("EINVAL"), "refused".to_owned())
        }
    }

    /// rmmod.
    fn unload(&mut self) -> Done {
        if self.node.peermem.is_none() || self.node.unloads() {
            Done::Unloaded("nvidia_peermem is unloaded".to_owned())
        } else {
            Done::NotUnloaded("in use".to_owned())
        }
    }
}
