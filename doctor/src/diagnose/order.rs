// SPDX-License-Identifier: Apache-2.0
//! The order of lives: boot, driver, each GPU, Fabric Manager, its clients. Who looks at the GPUs once, at its start,
//! does not know what came later.

use super::Case;
use super::board::FabricManagerPlace;
use crate::chain::span;
use crate::finding::fact::MANAGER_IS_OLDER;
use crate::finding::{Finding, Id};
use crate::log::{LogEvent, LogMatch};
use crate::stamp::SECOND;
use peermem_gate::survey::process::{Process, Role};

/// In seconds: a boot starts all of them within so much, in any order.
const TOGETHER: i64 = 15 * 60;

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    late_manager(case).into_iter().chain(late_gpu(case)).collect()
}

/// The first of this role that began so long before.
fn older<'c>(case: &'c Case<'_>, role: Role, than: i64) -> Option<(&'c Process, i64)> {
    let processes = case.symptoms.survey.processes.of(role);
    let mut since = processes.filter_map(|process| Some((process, than - process.started?)));
    since.find(|(_, since)| *since > TOGETHER)
}

fn late_manager(case: &Case<'_>) -> Option<Finding> {
    let is_here = case.fabric_manager_place() == Some(FabricManagerPlace::Here);
    let manager = case.symptoms.survey.processes.first(Role::FabricManager).filter(|_| is_here)?;
    let (client, since) = older(case, Role::DevicePlugin, manager.started?)?;
    let seen = format!("{} began {} before Fabric Manager", client.name, span(since));
    let finding = Finding::new(Id::FabricManagerLate, client.directory.display(), seen);
    Some(finding.seen(manager.directory.display(), "Fabric Manager"))
}

/// The kernel found a GPU on the bus after a program that looked for GPUs at its start, or after the driver where no
/// such program runs.
fn late_gpu(case: &Case<'_>) -> Option<Finding> {
    let is_here = |bdf: &str| case.symptoms.gpus().any(|gpu| gpu.address == bdf);
    let found = case.logged_apart(LogEvent::GpuAppeared, &[], |found| is_here(Case::field(found, "bdf")))?;
    let at = case.logged_at(found)? / SECOND;
    let is_fabrics = case.fabric_manager_place() == Some(FabricManagerPlace::Here);
    let clients = [Role::FabricManager, Role::DevicePlugin, Role::Persistenced];
    let clients = clients.iter().filter(|role| **role != Role::FabricManager || is_fabrics);
    let begun: Vec<_> = clients.filter(|role| case.process(**role).is_some()).collect();
    let mut loads = case.symptoms.logs.of(LogEvent::NvidiaLoaded);
    let is_older =
        |loaded: &LogMatch| case.logged_at(loaded).is_some_and(|loaded| at - loaded / SECOND > TOGETHER);
    let driver = loads.next_back().filter(|loaded| begun.is_empty() && is_older(loaded));
    let manager = older(case, Role::FabricManager, at).is_some_and(|_| is_fabrics);
    let lives = begun.into_iter().filter_map(|role| older(case, *role, at));
    let lives = lives.map(|(life, since)| {
        (life.directory.display(), format!("{} began {} before", life.name, span(since)))
    });
    let lives =
        Finding::of(Id::GpuCameLate, lives).or_else(|| Some(case.by_log(Id::GpuCameLate, driver?)))?;
    Some(case.by_log(Id::GpuCameLate, found).and(lives).with(MANAGER_IS_OLDER, manager))
}
