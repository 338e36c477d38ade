// SPDX-License-Identifier: Apache-2.0
//! Every condition that holds the gate back is a finding of its reason's name.

use super::Case;
use crate::condition::{Condition, ConditionType, Reason};
use crate::finding::{Finding, Id};

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    let finding = |condition: &Condition| {
        let id = Id::of(condition.reason)?;
        let finding = Finding::new(id, source(case, condition.r#type), condition.message.clone());
        Some(match super::build::history(case).filter(|_| condition.reason == Reason::StubModule) {
            Some(history) => finding.seen("times of the files", history),
            None => finding,
        })
    };
    // That their origin is open while not all are loaded says nothing new.
    let is_said =
        |c: &&Condition| c.r#type == ConditionType::ModulesFromMofed && c.reason == Reason::ModuleNotLoaded;
    // Whom nobody told may look for headers where they are not; a live nvidia-peermem needs none.
    let is_guessed =
        |c: &&Condition| c.r#type == ConditionType::HeadersReady && case.symptoms.wishes.by_itself.is_some();
    case.verdict.holding().filter(|c| !is_said(c) && !is_guessed(c)).filter_map(finding).collect()
}

/// Where a condition looks.
fn source(case: &Case<'_>, r#type: ConditionType) -> String {
    match r#type {
        ConditionType::RdmaRequested => "GPU_DIRECT_RDMA_ENABLED".to_owned(),
        ConditionType::NicPresent | ConditionType::ManagementDevicePresent => {
            "/sys/bus/pci/devices".to_owned()
        }
        ConditionType::RdmaDevicePresent => "/sys/class/infiniband".to_owned(),
        ConditionType::MarkerPresent => case.expected.marker.display().to_string(),
        ConditionType::MarkerTrusted => format!("/proc/locks, {}", case.expected.lock.display()),
        ConditionType::ModulesLive | ConditionType::ModulesFromMofed | ConditionType::UmadLive => {
            "/proc/modules, /sys/module".to_owned()
        }
        ConditionType::VersionMatches => "/sys/module/mlx5_core/version".to_owned(),
        ConditionType::SymbolsExported => "/proc/kallsyms".to_owned(),
        ConditionType::HeadersReady => case.seen.headers.root.display().to_string(),
        ConditionType::PeermemUsable => "nvidia-peermem.ko".to_owned(),
        ConditionType::Settled => "the gate's clock".to_owned(),
    }
}
