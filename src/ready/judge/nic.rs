// SPDX-License-Identifier: Apache-2.0
//! `NicPresent`: a node without a NIC needs no MOFED, unless it has a trace of MOFED. Then the NIC is off the bus, as
//! during a reset.

use crate::ready::condition::{ConditionType, Reason};
use crate::ready::judge::modules::{ModuleState, Origin, state};
use crate::ready::node::Expectations;
use crate::ready::observation::{HeaderTree, Lock, Marker, Nic, Observation};
use crate::ready::time::Seconds;
use crate::ready::verdict::Condition;
use std::time::Duration;

/// Longer than a firmware reset, and than the kernel takes to find a device.
const STILL: Duration = Duration::from_secs(30);

pub(super) fn present(expected: &Expectations, seen: &Observation) -> Condition {
    let (reason, message) = match &seen.nic {
        Nic::Found(address) => (Reason::NicFound, format!("PCI device {address} is of vendor 0x15b3")),
        Nic::Unreadable(why) => {
            (Reason::DevicesUnreadable, format!("cannot tell whether there is a Mellanox device: {why}"))
        }
        Nic::None => match mofed_trace(expected, seen) {
            None => untraced(seen.bus_still),
            Some(trace) => (
                Reason::NicAway,
                format!("no PCI device is of vendor 0x15b3 (Mellanox) now, as during a reset, but {trace}"),
            ),
        },
    };
    Condition::new(ConditionType::NicPresent, reason, message)
}

/// A node that says nothing of a NIC: it has none once its bus has been still for a while. A boot, or a reset that is
/// still under way, may bring one.
fn untraced(bus_still: Option<Duration>) -> (Reason, String) {
    let none = "no PCI device is of vendor 0x15b3 (Mellanox)".to_owned();
    let Some(still) = bus_still.filter(|still| *still < STILL) else { return (Reason::NoRdmaDevice, none) };
    let yet = format!("{none} yet, but the PCI bus is known to have been still for {} only", Seconds(still));
    (Reason::DevicesUnreadable, yet)
}

/// No NIC is on the bus, but the node has a trace of MOFED.
pub(super) fn is_away(expected: &Expectations, seen: &Observation) -> bool {
    seen.nic == Nic::None && mofed_trace(expected, seen).is_some()
}

/// A trace of MOFED or of its NIC since this boot: `/run` is new at each boot, and MOFED's pod is scheduled by the
/// NIC's label (network-operator, `feature.node.kubernetes.io/pci-15b3.present`). A source that cannot be read may be
/// one.
fn mofed_trace(expected: &Expectations, seen: &Observation) -> Option<String> {
    marker(expected, &seen.marker)
        .or_else(|| lock(expected, &seen.lock))
        .or_else(|| headers(expected, seen))
        .or_else(|| modules(expected, seen))
}

fn marker(expected: &Expectations, marker: &Marker) -> Option<String> {
    let path = expected.marker.display();
    match marker {
        Marker::Present(_) => Some(format!("MOFED's marker {path} exists")),
        Marker::NotAFile(what) => Some(format!("{path} is {what}")),
        Marker::DirectoryUnlinked => Some(format!("the directory of {path} was deleted")),
        Marker::Unreadable(why) => Some(format!("MOFED's marker cannot be examined: {why}")),
        Marker::Absent | Marker::ParentMissing(_) => None,
    }
}

fn lock(expected: &Expectations, lock: &Lock) -> Option<String> {
    let path = expected.lock.display();
    match lock {
        Lock::Held => Some(format!("a running MOFED holds {path}")),
        Lock::Free | Lock::HolderHidden => Some(format!("MOFED's lock file {path} exists")),
        Lock::Unreadable(why) => Some(format!("MOFED's lock cannot be examined: {why}")),
        Lock::NoFile => None,
    }
}

/// A host's MOFED has its headers on the disk, with or without a NIC.
fn headers(expected: &Expectations, seen: &Observation) -> Option<String> {
    if expected.mofed.is_on_host() {
        return None;
    }
    match &seen.headers.tree {
        HeaderTree::Missing => None,
        HeaderTree::Unreadable(why) => Some(format!("MOFED's headers cannot be examined: {why}")),
        HeaderTree::NoCandidate(_) | HeaderTree::Taken { .. } => {
            Some(format!("MOFED's headers are in {}", seen.headers.root.display()))
        }
    }
}

fn modules(expected: &Expectations, seen: &Observation) -> Option<String> {
    rdma_modules(expected, seen).or_else(|| compat(seen)).or_else(|| driver(seen))
}

/// udev loads it where a NIC is on the bus, before any pod runs, and a reset leaves it. One that is built in says
/// nothing, and /proc/modules does not list it.
fn driver(seen: &Observation) -> Option<String> {
    let proc = seen.modules.proc.as_ref().ok()?;
    proc.named("mlx5_core").next().map(|_| "the NIC's driver mlx5_core is loaded".to_owned())
}

/// The first module that MOFED loads, after it has unloaded the kernel's own. The kernel has none of this name.
fn compat(seen: &Observation) -> Option<String> {
    let proc = seen.modules.proc.as_ref().ok()?;
    let line = proc.named("mlx_compat").find(|line| line.taint.contains('O'));
    line.map(|_| "MOFED's mlx_compat is loaded".to_owned())
}

fn rdma_modules(expected: &Expectations, seen: &Observation) -> Option<String> {
    expected.modules.iter().find_map(|name| match state(&seen.modules, name) {
        ModuleState::Live(Origin::InTree) | ModuleState::NotLoaded => None,
        ModuleState::Live(Origin::OutOfTree) => Some(format!("MOFED's {name} is live")),
        ModuleState::Live(Origin::Unknown(why)) => Some(format!("{name} is live, and may be MOFED's: {why}")),
        ModuleState::Loading | ModuleState::Unloading | ModuleState::Disagree(_) => {
            Some(format!("{name} is being loaded or unloaded"))
        }
        ModuleState::Unreadable(why) => Some(format!("RDMA modules cannot be examined: {why}")),
    })
}
