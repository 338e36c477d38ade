// SPDX-License-Identifier: Apache-2.0
//! nvidia-peermem-ctr of the GPU Operator (gpu-driver-container, `reload_nvidia_peermem`): a look at the marker and
//! at `.driver-ctr-ready`, then modprobe. Its liveness probe starts it again when the module is gone.

use super::node::File;
use super::{Fault, Life, driver};

/// A step of the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// It sees the marker and the driver.
    Check,
    /// It runs modprobe, whatever has changed meanwhile (doca-driver-build#481).
    Modprobe,
}

impl Life {
    pub(super) fn peermem_ctr_steps(&self, steps: &mut Vec<Step>) {
        let has_driver = self.driver.as_ref().is_none_or(|driver| driver.phase == driver::Phase::Ready);
        match self.peermem_ctr {
            Some(Step::Check) if self.node.marker.is_some() && has_driver && self.node.peermem.is_none() => {
                steps.push(Step::Check);
            }
            Some(Step::Modprobe) => steps.push(Step::Modprobe),
            Some(Step::Check) | None => {}
        }
    }

    /// The container takes this step.
    pub(super) fn peermem_ctr(&mut self, step: Step) {
        self.peermem_ctr = Some(match step {
            Step::Check => Step::Modprobe,
            Step::Modprobe => Step::Check,
        });
        if step == Step::Modprobe && !self.node.loads() && self.node.file == File::Missing {
            // "Module nvidia-peermem not found in directory" (gpu-driver-container#1019).
            self.fails(Fault::ModuleNotFound);
        }
    }
}
