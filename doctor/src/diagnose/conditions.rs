// SPDX-License-Identifier: Apache-2.0
//! Every condition that is not met is a finding of its reason's name.

use super::Case;
use crate::finding::{Finding, Id};
use peermem_gate::ready::condition::{ConditionType, Reason};
use peermem_gate::ready::observation::ModuleFile;
use peermem_gate::ready::verdict::Condition;
use peermem_gate::rebuild::Kind;
use peermem_gate::words::facts::driver_root_option;
use peermem_gate::words::remedy::fact::REBUILD_POSSIBLE;

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    let finding = |condition: &Condition| {
        let id = match condition.reason {
            // What is wrong with the file comes first; that no build cures it is a finding below it.
            Reason::BuildSkipped if is_there(case) => Id::StubModule,
            Reason::BuildSkipped => Id::ModuleFileMissing,
            reason => Id::of(reason)?,
        };
        let finding = Finding::new(id, source(case, condition.r#type), condition.message.clone());
        let history = super::build::history(case).filter(|_| id == Id::StubModule);
        let finding = finding.all(history.map(|history| ("times of the files", history)));
        let is_of_file = condition.r#type == ConditionType::PeermemUsable;
        Some(if is_of_file { rebuild(case, finding) } else { finding })
    };
    // That their origin is open while not all are loaded says nothing new.
    let is_logged =
        |c: &&Condition| c.r#type == ConditionType::ModulesFromMofed && c.reason == Reason::ModuleNotLoaded;
    // Without settings, headers may be searched in the wrong place; a live nvidia-peermem needs none.
    let is_guessed = |c: &&Condition| {
        c.r#type == ConditionType::HeadersReady && case.symptoms.settings.host_provides_rdma.is_some()
    };
    case.verdict.unmet().filter(|c| !is_logged(c) && !is_guessed(c)).filter_map(finding).collect()
}

/// Whether `rebuild` cures it, where the file is all that is wrong. Without a live nvidia, and with the driver
/// toolkit, the cure is the driver's own build.
fn rebuild(case: &Case<'_>, finding: Finding) -> Finding {
    let is_toolkits = case.symptoms.survey.pods.builds().any(|build| build.1.finished.is_some());
    match case.symptoms.rebuild.as_ref().filter(|_| !is_toolkits) {
        None => finding,
        Some(Err(obstacle)) if obstacle.kind == Kind::NvidiaNotLive => finding,
        Some(Err(obstacle)) => {
            // What cannot be removed leaves the finding's own remedies, which know the node.
            let why = if obstacle.kind.is_removable() {
                obstacle.to_string()
            } else {
                format!("{}: {}", obstacle.kind, obstacle.message)
            };
            finding.seen("peermem-gate rebuild --dry-run", format!("not possible here: {why}"))
        }
        Some(Ok(root)) => finding
            .with(REBUILD_POSSIBLE, true)
            .word("root-option", driver_root_option(root))
            .seen("peermem-gate rebuild --dry-run", "possible here: everything it takes is there"),
    }
}

fn is_there(case: &Case<'_>) -> bool {
    case.seen
        .peermem
        .as_ref()
        .is_some_and(|peermem| !matches!(peermem.file, ModuleFile::Missing(_) | ModuleFile::Away(_)))
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
