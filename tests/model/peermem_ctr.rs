// SPDX-License-Identifier: Apache-2.0
//! nvidia-peermem-ctr of the GPU Operator (gpu-driver-container, `reload_nvidia_peermem`): a look at the marker and
//! at `.driver-ctr-ready`, then modprobe, then sleep. Its liveness probe (`probe_nvidia_peermem`) has the kubelet
//! start it again when `mlx5_core` is loaded and `nvidia_peermem` is not.

use super::Life;
use super::laws::Fault;

/// A step of the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// It sees the marker and the driver.
    Check,
    /// It runs modprobe, whatever has changed meanwhile (doca-driver-build#481).
    Modprobe,
    /// Its liveness probe fails, or it ended: the kubelet starts it again.
    Restart,
}

/// How far the container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PeermemCtr {
    /// It looks every ten seconds: the model looks at any time.
    Waits,
    Checked,
    /// It sleeps after it has loaded the module.
    Sleeps,
    /// modprobe failed.
    Ended,
}

impl Life {
    pub(super) fn peermem_ctr_steps(&self, steps: &mut Vec<super::Step>) {
        let has_driver = self.driver.as_ref().is_none_or(super::driver::Driver::is_ready);
        let step = match self.peermem_ctr {
            Some(PeermemCtr::Waits) if self.node.marker.is_some() && has_driver => Step::Check,
            Some(PeermemCtr::Checked)
                if self.driver.as_ref().is_none_or(|driver| self.is_answered(driver)) =>
            {
                Step::Modprobe
            }
            Some(PeermemCtr::Sleeps) if self.node.stack.nic.is_some() && self.node.peermem.is_none() => {
                Step::Restart
            }
            Some(PeermemCtr::Ended) => Step::Restart,
            Some(PeermemCtr::Waits | PeermemCtr::Checked | PeermemCtr::Sleeps) | None => return,
        };
        steps.push(super::Step::PeermemCtr(step));
    }

    /// The container takes this step.
    pub(super) fn peermem_ctr(&mut self, step: Step) {
        self.peermem_ctr = Some(match step {
            // gpu-driver-container#683: what is loaded is not loaded again.
            Step::Check if self.node.peermem.is_some() => PeermemCtr::Sleeps,
            Step::Check => PeermemCtr::Checked,
            Step::Restart => PeermemCtr::Waits,
            Step::Modprobe => {
                let driver = self.driver.take();
                match &driver {
                    Some(driver) => _ = self.asks_modprobe(driver),
                    None => _ = self.node.loads_peermem(),
                }
                let has_line = driver.as_ref().is_some_and(|driver| driver.has_line);
                self.driver = driver;
                // It asks for the module, whatever modprobe says.
                let is_live = self.node.peermem.is_some();
                if self.node.file().is_none() && !is_live && !has_line {
                    // "Module nvidia-peermem not found in directory" (gpu-driver-container#1019).
                    self.fails(Fault::ModuleNotFound);
                }
                if is_live { PeermemCtr::Sleeps } else { PeermemCtr::Ended }
            }
        });
    }
}
