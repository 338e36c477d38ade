// SPDX-License-Identifier: Apache-2.0
//! Findings that a log shows by itself, where what would show them on the node is not read.

use super::Case;
use super::mofed::third_parties;
use crate::finding::fact::THIRD_PARTY_LOADED;
use crate::finding::{Finding, Id};
use crate::log::LogEvent;
use peermem_gate::ready::observation::ModuleFile;
use peermem_gate::words::remedy::CommandText;

/// In nvidia-driver-ctr's log once it has seen the management device.
const NVLINK5: &str = "NVLink5";

pub(super) fn judge(case: &Case<'_>, found: &[Finding]) -> Vec<Finding> {
    let has_modules = case.seen.modules.proc.is_ok();
    let third_party = if has_modules { None } else { third_party(case) };
    let fabric = if case.seen.fabric.is_some() { None } else { fabric_manager(case) };
    let refused = if has_modules { None } else { refused(case, found) };
    let stub = if has_modules { None } else { stub(case) };
    third_party.into_iter().chain(fabric).chain(refused).chain(stub).collect()
}

/// modinfo's words, without a list of modules.
fn stub(case: &Case<'_>) -> Option<Finding> {
    let ModuleFile::Read { path, info, .. } = &case.seen.peermem.as_ref()?.file else { return None };
    let seen =
        format!("{} depends on no module of RDMA's: it was built without MOFED's headers", path.display());
    info.is_stub().then(|| Finding::new(Id::StubModule, "nvidia-peermem.ko", seen))
}

/// The kernel refuses a module of the driver, and no line says more of why.
fn refused(case: &Case<'_>, found: &[Finding]) -> Option<Finding> {
    let until = [LogEvent::DriverReady, LogEvent::DriverMounted, LogEvent::NvidiaLoaded];
    let line = case.logged(&[LogEvent::ModuleRefused], &until)?;
    let is_known = found.iter().any(|one| Id::DriverNotLoaded.causes().contains(&one.id));
    let container = case.container_of(line)?;
    let finding = || case.by_log(Id::DriverContainerFails, line).because(&line.text).of_container(container);
    (!is_known).then(|| finding().word("container", CommandText::plain(container, "CONTAINER")))
}

/// MOFED could not unload the old RDMA core, and names a third party's module as its holder.
fn third_party(case: &Case<'_>) -> Option<Finding> {
    let found =
        case.logged(&[LogEvent::MofedModuleInUse], &[LogEvent::MofedMarkerSet, LogEvent::MofedReady])?;
    let theirs = third_parties(found);
    let finding = (!theirs.is_empty()).then(|| case.by_log(Id::ThirdPartyRdmaModulesLoaded, found))?;
    Some(finding.with(THIRD_PARTY_LOADED, true).word("third-party", CommandText::joined(theirs, " ")))
}

/// The driver's container found `NVLink` 5, and its start script refuses to start Fabric Manager.
fn fabric_manager(case: &Case<'_>) -> Option<Finding> {
    let started = case.logged(&[LogEvent::FabricManagerStarted], &[])?;
    let refused = case.logged(&[LogEvent::FabricManagerStartRefused], &[])?;
    let finding = case.by_log(Id::FabricManagerNotStarted, started);
    started.text.contains(NVLINK5).then(|| case.and_log(finding, Some(refused)))
}
