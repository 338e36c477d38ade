// SPDX-License-Identifier: Apache-2.0
//! The parts of a log rule.

use super::source::LogSource;
use peermem_gate::survey::process::Role;

/// A line of a program's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The program that writes it.
    pub source: LogSource,
    /// The first release that does.
    pub since: &'static str,
    /// The line's words, with fields in angle brackets.
    pub words: &'static str,
    /// The program repeats the line while nothing changes.
    pub is_polled: bool,
}

impl Pattern {
    /// The words are known by their form only: a pattern that knows more of the line goes before it.
    pub fn is_general(&self) -> bool {
        self.words.ends_with("<cause..>")
    }
}

/// How a timeline draws an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// As a failure.
    Bad,
    /// As something that others wait for.
    Good,
    /// As a step by which a race is known.
    Step,
    /// As a step like others.
    Plain,
    /// Not at all: kubelet's words about any pod, which may be no step of MOFED's or the driver's.
    Never,
}

/// The state of the node in which an event still counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActiveWhen {
    /// nvidia is not live, and the node has a GPU, or its bus was not read.
    NoDriver,
    /// nvidia is live.
    Driver,
    /// nvidia is live, and no fabric manager runs.
    NoFabricManager,
    /// nvidia is live, and the device plugin that runs is the one that wrote the line.
    Plugin,
    /// kubelet has two driver pods on this node.
    TwoDriverPods,
    /// The container that wrote the line was restarted several times, and its driver is not there.
    Restarted,
    /// The driver, or MOFED, of the container is not there.
    Missed,
    /// No CDI specification of NVIDIA's is on the node.
    NoCdi,
    /// The module that was refused is not loaded.
    Refused,
    /// This file of the readiness chain is missing.
    Without(&'static str),
    /// The driver is installed on the host.
    HostDriver,
    /// The program that wrote the line was not started again since, or only a moment ago.
    Unmended(Role),
    /// No NIC has a virtual function.
    NoVirtualFunction,
    /// The node has an `InfiniBand` port.
    Infiniband,
    /// There is a CDI specification of NVIDIA's, or they could not be read.
    Cdi,
    /// kubelet's runtime has no entry for NVIDIA's, and no toolkit is about to write one.
    NoHandler,
    /// No container with a GPU was shown to run since the line was written, and kubelet repeats the line.
    Unproven,
    /// kubelet repeats the line, last at most so many seconds ago, and nothing has started since.
    Persists(i64),
    /// kubelet repeats the line, last at most so many seconds ago.
    Repeats(i64),
    /// The driver is installed on the host and live, and its validation is overdue.
    HostDriverUnseen,
    /// Any.
    Always,
}
