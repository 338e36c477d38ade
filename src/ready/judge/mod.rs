// SPDX-License-Identifier: Apache-2.0
//! From what was seen to what it means. Pure: the same observation gives the same conditions.

mod fabric;
mod headers;
mod marker;
pub mod modules;
pub mod next_build;
mod nic;
pub mod swap;

use crate::ready::condition::{ConditionType, Reason, Status};
use crate::ready::consumer;
use crate::ready::consumer::Consumer;
use crate::ready::mofed::MofedPlace;
use crate::ready::node::Expectations;
use crate::ready::observation::Observation;
use crate::ready::verdict::Condition;
use std::path::Path;

/// Judges every condition that one look can decide, except that of nvidia-peermem.ko. [`ConditionType::Settled`]
/// needs time and is the gate's to judge; here it counts as not asked for.
#[must_use]
pub fn conditions(expected: &Expectations, seen: &Observation) -> Vec<Condition> {
    let mut conditions = vec![rdma_requested(expected), nic::present(expected, seen)];
    match modules::place(expected.mofed, seen) {
        MofedPlace::Container => {
            conditions.push(marker::present(expected, seen));
            conditions.push(marker::trusted(expected, seen));
        }
        place @ (MofedPlace::Host | MofedPlace::InBox) => {
            let message = match place {
                MofedPlace::InBox => "the kernel's own RDMA stack sets no marker",
                _ => "the host's own MOFED sets no marker",
            };
            conditions.push(not_required(ConditionType::MarkerPresent, message));
            conditions.push(not_required(ConditionType::MarkerTrusted, message));
        }
    }
    conditions.extend([
        modules::live(expected, seen),
        modules::from_mofed(expected, seen),
        modules::version_matches(expected, seen),
        modules::symbols_exported(seen),
        headers::ready(expected, seen),
        not_required(ConditionType::Settled, "a single look does not settle"),
    ]);
    if expected.needs(ConditionType::ManagementDevicePresent) {
        conditions.extend(fabric::judge(expected, seen));
    }
    conditions.into_iter().map(|condition| needed(expected, condition)).collect()
}

/// The condition with the consumers that need it. With the default `--for` none is named.
#[must_use]
pub fn needed(expected: &Expectations, condition: Condition) -> Condition {
    let needs = |consumer: &Consumer| consumer.needs(condition.r#type, expected.mofed);
    let by: Vec<_> = expected.consumers.iter().copied().filter(needs).collect();
    let is_default = expected.consumers == [Consumer::DEFAULT];
    if by.is_empty() && !is_default {
        let message = format!("{} does not need it", consumer::names(&expected.consumers));
        return not_required(condition.r#type, &message);
    }
    let condition = if is_default { condition } else { condition.needed_by(by) };
    if condition.exempts() { condition.exempting() } else { condition }
}

/// `GPUDirect` RDMA is asked for.
#[must_use]
pub fn is_requested(expected: &Expectations) -> bool {
    rdma_requested(expected).status == Status::True
}

/// Behind what is not there, when it may be there and not be seen.
fn private_mount(volume: &Path) -> String {
    format!(
        "; what MOFED mounts on the host from now on never shows here, because {} is a private mount \
            (HostToContainer is missing, or the host's own is private)",
        volume.display()
    )
}

/// True when the modules are such that it makes sense to read all kernel symbols. The marker does
/// not count: it comes last, and must not find the symbols still unread.
#[must_use]
pub fn worth_reading_symbols(expected: &Expectations, seen: &Observation) -> bool {
    let may_export = match expected.mofed {
        MofedPlace::Container => !modules::from_mofed(expected, seen).is_unmet(),
        MofedPlace::Host | MofedPlace::InBox => true,
    };
    expected.needs(ConditionType::SymbolsExported) && may_export && !modules::live(expected, seen).is_unmet()
}

/// True when a module is on its way in or out, so the next look should come soon.
#[must_use]
pub fn in_transit(expected: &Expectations, seen: &Observation) -> bool {
    let peermem = expected.peermem.as_ref().map(|_| "nvidia_peermem");
    let mut names = expected.all_modules().chain(peermem);
    names.any(|name| modules::is_in_transit(&seen.modules, name))
}

pub(crate) fn not_required(r#type: ConditionType, message: &str) -> Condition {
    Condition::new(r#type, Reason::NotRequired, message)
}

fn rdma_requested(expected: &Expectations) -> Condition {
    if let Some(contradiction) = &expected.contradiction {
        let message = format!("the GPU Operator's containers contradict each other: {contradiction}");
        return Condition::new(ConditionType::RdmaRequested, Reason::SettingsContradict, message);
    }
    let (reason, message) = match expected.rdma_requested.as_deref() {
        None if expected.rdma_not_requested => {
            (Reason::RdmaNotRequested, "nothing on this node requests GPUDirect RDMA".to_owned())
        }
        None => (Reason::Requested, "GPU_DIRECT_RDMA_ENABLED is not set, which counts as true".to_owned()),
        Some("true") => (Reason::Requested, "GPU_DIRECT_RDMA_ENABLED is true".to_owned()),
        Some(other) => {
            (Reason::RdmaNotRequested, format!("GPU_DIRECT_RDMA_ENABLED is {other:?}, not \"true\""))
        }
    };
    Condition::new(ConditionType::RdmaRequested, reason, message)
}
