// SPDX-License-Identifier: Apache-2.0
//! The GPU driver's pod: its wait for MOFED, then its build and load (gpu-driver-container, `nvidia-driver`).

use super::gated::Gated;
use super::node::{File, Node, Stack};
use super::{Fault, Life};
use crate::time::BootTime;

/// Who makes the build wait for MOFED.
#[derive(Clone, Debug)]
pub(super) enum Wait {
    /// k8s-driver-manager v0.9.0: /proc/modules has `mlx5_core`, which the kernel's own satisfies
    /// (k8s-driver-manager#123).
    ManagerOfIncident,
    /// k8s-driver-manager v0.9.1 and later: the marker exists.
    Manager,
    /// `peermem-gate wait`.
    Gate(Box<Gated>),
}

/// How far the pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Waiting,
    Building,
    /// nvidia is loaded: `.driver-ctr-ready`.
    Ready,
}

/// A step of the pod, or what happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It looks whether it may go on, or goes on.
    On,
    /// A person deletes the pod. The new one has an empty root, and an equal digest with nvidia loaded: it takes the
    /// fast path, without a build (gpu-driver-container 85678ce).
    Replace,
}

/// The pod.
#[derive(Clone, Debug)]
pub(super) struct Driver {
    pub(super) phase: Phase,
    pub(super) wait: Wait,
    /// MOFED was ready when the wait ended. If it ends before the build, no wait can help: `load` finds the stub.
    pub(super) was_ready: bool,
    /// How often it may be replaced in this life.
    pub(super) replacements: u8,
}

impl Driver {
    pub(super) fn is_urgent(&self, now: BootTime) -> bool {
        matches!((&self.wait, self.phase), (Wait::Gate(gate), Phase::Waiting) if gate.is_awake(now))
    }

    pub(super) fn is_gated(&self) -> bool {
        matches!(self.wait, Wait::Gate(_)) && self.phase == Phase::Waiting
    }

    pub(super) fn wakes(&mut self) {
        if let Wait::Gate(gate) = &mut self.wait {
            gate.is_woken = true;
        }
    }

    pub(super) fn steps(&self, node: &Node, now: BootTime, steps: &mut Vec<Step>) {
        let may_go_on = match (self.phase, &self.wait) {
            (Phase::Waiting, Wait::ManagerOfIncident) => node.stack != Stack::None,
            (Phase::Waiting, Wait::Manager) => node.marker.is_some(),
            (Phase::Waiting, Wait::Gate(gate)) => gate.is_awake(now),
            (Phase::Building, _) => true,
            (Phase::Ready, _) => false,
        };
        if may_go_on {
            steps.push(Step::On);
        }
        if self.phase == Phase::Ready && self.replacements > 0 {
            steps.push(Step::Replace);
        }
    }
}

impl Life {
    /// The pod takes this step.
    pub(super) fn driver(&mut self, step: Step) {
        let Some(mut driver) = self.driver.take() else { return };
        match (step, driver.phase) {
            (Step::Replace, _) => {
                driver.replacements -= 1;
                self.node.file = File::Missing;
            }
            (Step::On, Phase::Waiting) => {
                let opens = match &mut driver.wait {
                    Wait::Gate(gate) => gate.opens(self),
                    Wait::ManagerOfIncident | Wait::Manager => true,
                };
                if opens {
                    driver.phase = Phase::Building;
                    driver.was_ready = self.mofed.phase == super::mofed::Phase::Ready;
                    if self.mofed.is_starting() {
                        self.fails(Fault::EarlyOpen);
                    }
                }
            }
            (Step::On, _) => {
                // The build takes the headers that it finds; without them nvidia-peermem is a stub.
                self.node.file = if self.node.headers.is_some() { File::Good } else { File::Stub };
                self.node.has_nvidia = true;
                driver.phase = Phase::Ready;
                if self.node.file == File::Stub && !driver.was_ready {
                    self.fails(Fault::StubBuilt);
                }
            }
        }
        self.driver = Some(driver);
    }
}
