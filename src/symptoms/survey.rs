// SPDX-License-Identifier: Apache-2.0
//! What can be seen of a node before it is known what to expect of it: who is here, with which settings.

use super::chain::Clock;
use super::logs::Logs;
use super::pod::Pods;
use super::process::Processes;
use std::path::PathBuf;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// The node's clock.
    pub clock: Clock,
    /// The processes that matter.
    pub processes: Processes,
    /// What was said, where logs were read.
    pub logs: Logs,
    /// The pods that kubelet has.
    pub pods: Pods,
    /// `.driver-ctr-ready`, which since GPU Operator 26.3 says what was asked of the driver.
    pub driver_ready: (PathBuf, Option<String>),
    /// Files that have nvidia-peermem loaded at boot.
    pub loads_peermem: Vec<PathBuf>,
    /// `nvidia_peermem` is in /proc/modules.
    pub has_peermem: Option<PathBuf>,
    /// The first sign of a MOFED that is installed on the host itself.
    pub installed: Option<PathBuf>,
    /// The first sign of a MOFED container: its lock, its marker.
    pub left: Option<PathBuf>,
    /// The kernel's release.
    pub release: String,
}
