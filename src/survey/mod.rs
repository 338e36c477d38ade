// SPDX-License-Identifier: Apache-2.0
//! The first view of a node, before it is known what to expect of it: who is here, with which settings.

pub mod expected;
pub mod pod;
pub mod pod_roots;
pub mod pods;
pub mod process;
pub mod processes;
pub mod root;
pub mod search;
pub mod setting;
pub mod settings;
pub mod users;

use crate::ready::node_clock::NodeClock;
use crate::ready::observation::{Evidence, Unreadable};
use pod::Pods;
use process::Processes;
use std::path::PathBuf;

/// Settings found in the logs of the operators' containers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Logged {
    /// A driver container's settings ask it to load nvidia-peermem.
    pub requested: Option<Evidence>,
    /// The host tries to load nvidia-peermem by itself.
    pub requested_by_host: Option<Evidence>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// The node's clock.
    pub clock: NodeClock,
    /// The processes that matter.
    pub processes: Processes,
    /// Settings from logs, where those were read.
    pub logged: Logged,
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
    pub mofed_trace: Option<PathBuf>,
    /// Why one of these may be missing above: the first that could not be read.
    pub unreadable: Option<Unreadable>,
    /// The kernel's release.
    pub release: String,
}
