// SPDX-License-Identifier: Apache-2.0
//! What comes from outside: jobs, people, the hardware, a boot.

use super::mofed::{Mofed, Phase};
use super::node::{Abi, Files, Load, Node};
use super::{Life, Step as Any};

/// Something from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// A GPU job begins to use `nvidia_peermem`, or ends.
    Job(bool),
    /// A person runs rmmod.
    Rmmod,
    /// A person sends SIGHUP to `keep`.
    Hup,
    /// A person gives MOFED's next container another release.
    Upgrade,
    /// The NIC leaves the bus, and its driver goes with it; it comes back. Whatever MOFED is at.
    Reset(bool),
    /// The node boots: what is in memory is gone, what is on a disk stays.
    Boot,
}

impl Life {
    pub(super) fn people_steps(&self, steps: &mut Vec<Any>) {
        let Self { node, mofed, budget, .. } = self;
        let is_idle = mofed.phase == Phase::Ready;
        let offered = [
            (Step::Job(false), node.is_used),
            (Step::Job(true), budget.jobs > 0 && node.peermem.is_some() && !node.is_used),
            (Step::Rmmod, budget.rmmods > 0 && is_idle && node.peermem.is_some() && !node.is_used),
            (Step::Hup, budget.hups > 0 && self.keeper.as_ref().is_some_and(|keeper| !keeper.ends())),
            (Step::Upgrade, budget.upgrades > 0 && is_idle),
            (Step::Reset(true), budget.resets > 0 && node.has_nic),
            (Step::Reset(false), !node.has_nic),
            (Step::Boot, budget.boots > 0),
        ];
        steps.extend(offered.into_iter().filter(|(_, may)| *may).map(|(step, _)| Any::People(step)));
    }

    /// This happens.
    pub(super) fn people(&mut self, step: Step) {
        let Self { node, mofed, budget, .. } = self;
        match step {
            Step::Job(begins) => {
                node.is_used = begins;
                budget.jobs -= u8::from(begins);
            }
            Step::Rmmod => {
                budget.rmmods -= 1;
                node.unloads_peermem();
            }
            Step::Hup => {
                budget.hups -= 1;
                let now = self.now;
                self.keeper.iter_mut().for_each(|keeper| keeper.ask(now));
            }
            Step::Upgrade => {
                budget.upgrades -= 1;
                mofed.abi = if mofed.abi == Abi::Old { Abi::New } else { Abi::Old };
            }
            Step::Reset(true) => {
                budget.resets -= 1;
                node.has_nic = false;
                if !mofed.is_swapping() {
                    node.stack.nic = None;
                }
            }
            Step::Reset(false) => {
                node.has_nic = true;
                if !mofed.is_swapping() {
                    node.nic_driver_is_back();
                }
            }
            Step::Boot => self.boots(),
        }
    }

    fn boots(&mut self) {
        self.budget.boots -= 1;
        self.budget.starts = self.budget.starts.max(1);
        self.mofed = Mofed { phase: Phase::Down, since: self.now, ..self.mofed.clone() };
        let files = self.node.files;
        let has_pod = self.driver.is_some();
        // A container's root is new after a boot; a pod's volume and a host's root are not.
        let files = if has_pod { Files { toolkit: files.toolkit, ..Node::BARE } } else { files };
        let compares_crcs = self.node.compares_crcs;
        let stored = self.node.stored;
        self.node = Node { has_nvidia: !has_pod, compares_crcs, stored, ..Node::booted(files) };
        self.driver = self.driver.take().map(|driver| driver.after_boot(self.now));
        self.keeper = self.keeper.take().map(|keeper| keeper.afresh(self.now));
        self.peermem_ctr = self.peermem_ctr.map(|_| super::PeermemCtr::Waits);
    }
}

impl Node {
    /// The kernel loads the driver of a device that appears, unless MOFED is swapping or has loaded it meanwhile.
    pub(super) fn nic_driver_is_back(&mut self) {
        if let (Some(core), None) = (self.stack.core, self.stack.nic) {
            self.stack.nic = Some(Load { number: self.next_load(), ..core });
        }
    }
}
