// SPDX-License-Identifier: Apache-2.0
//! Findings that rest on one sentence of a log. A new one is a row.

#![allow(clippy::enum_glob_use, reason = "a row is a line")]

use super::Case;
use crate::finding::{Finding, Id};
use crate::sentence::Meaning::{self, *};
use crate::stamp::SECOND;
use crate::symptoms::logs::Said;
use peermem_gate::observation::Marker;
use peermem_gate::survey::process::{Process, Role};
use std::collections::BTreeMap;

/// When a sentence still counts.
#[derive(Clone, Copy)]
enum While {
    /// nvidia is not live.
    NoDriver,
    /// nvidia is live.
    Driver,
    /// nvidia is live, and no fabric manager runs.
    NoFabricManager,
    /// nvidia is live, and the device plugin that runs is the one that said it.
    Plugin,
    /// kubelet has two driver pods on this node.
    TwoDriverPods,
    /// The container that said it has been restarted again and again, and has not brought its driver.
    Restarted,
    /// The driver or MOFED whose container that is has not come.
    Missed,
    /// No CDI specification of NVIDIA's is on the node.
    NoCdi,
    /// This module is not loaded.
    Unloaded(&'static str),
    /// The file of the readiness chain is not there.
    Without(&'static str),
    /// The driver is the host's own.
    HostDriver,
    /// The program that said it was not started again after that, or not for long.
    Unmended(Role),
    /// No NIC has a virtual function.
    NoVirtualFunction,
    /// The node has an InfiniBand port.
    Infiniband,
    Always,
}

#[derive(Clone, Copy)]
struct Row {
    id: Id,
    said: Meaning,
    /// What a field of the sentence has in it, where that decides.
    about: Option<(&'static str, &'static [&'static str])>,
    unless: &'static [Meaning],
    only: While,
    /// It must have been said in the last minutes.
    is_fleeting: bool,
}

const DRIVER: &str = "nvidia-driver-ctr";
const DRIVERS: [&str; 3] = [DRIVER, "openshift-driver-toolkit-ctr", "k8s-driver-manager"];
const MOFED: [&str; 1] = ["mofed-container"];
/// A container that was started as often has not come through.
const OFTEN: u32 = 3;
/// nvidia was loaded again. Only the kernel's own words count against the kernel's: its log may have no year.
const LOADED: &[Meaning] = &[NvidiaLoaded];
/// MOFED has got over it.
const MARKED: &[Meaning] = &[MofedMarkerSet, MofedReady];
/// The driver's container has got over it.
const INSTALLED: &[Meaning] = &[DriverReady, DriverMounted, DriverInstalled, DriverBuildFinished];

const fn row(id: Id, said: Meaning, unless: &'static [Meaning], only: While) -> Row {
    Row { id, said, about: None, unless, only, is_fleeting: false }
}

/// What kubelet says of a pod counts while it says so.
const fn fleeting(id: Id, said: Meaning, only: While) -> Row {
    Row { is_fleeting: true, ..row(id, said, &[], only) }
}

const fn about(row: Row, field: &'static str, words: &'static [&'static str]) -> Row {
    Row { about: Some((field, words)), ..row }
}

const MODULES: &[&str] =
    &["nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia-uvm", "nvidia-modeset"];

const ROWS: &[Row] = &[
    row(Id::GpuNeedsOpenModules, GpuNeedsOpenModules, LOADED, While::Always),
    row(Id::GpuNeedsProprietaryModules, GpuNeedsProprietaryModules, LOADED, While::Always),
    row(Id::GpuNotSupported, GpuNotSupported, LOADED, While::Always),
    row(Id::GpuBarUnassigned, GpuBarInvalid, LOADED, While::Always),
    row(Id::GpuFirmwareMissing, GpuFirmwareMissing, LOADED, While::Always),
    row(Id::GpuLost, GpuLost, LOADED, While::Always),
    row(Id::GpuNeedsReset, GpuNeedsReset, LOADED, While::Driver),
    row(Id::DriverVersionMismatch, DriverApiMismatch, LOADED, While::Driver),
    about(
        row(Id::GdsNeedsOpenModules, KernelUnknownSymbol, &[], While::Unloaded("nvidia_fs")),
        "module",
        &["nvidia_fs"],
    ),
    row(Id::SelinuxRefuses, SelinuxDenied, LOADED, While::NoDriver),
    about(row(Id::SelinuxRefuses, ModuleRefused, INSTALLED, While::NoDriver), "why", &["Permission denied"]),
    row(Id::DriverForOtherKernel, DriverFileMissing, INSTALLED, While::NoDriver),
    about(row(Id::DriverForOtherKernel, KernelVersionMagic, LOADED, While::NoDriver), "module", MODULES),
    about(
        row(Id::DriverForOtherKernel, KernelDisagreesAboutVersion, LOADED, While::NoDriver),
        "module",
        MODULES,
    ),
    about(row(Id::DriverModuleRefused, KernelUnknownSymbol, LOADED, While::NoDriver), "module", MODULES),
    row(Id::DiskFull, DriverDiskFull, INSTALLED, While::NoDriver),
    row(Id::DriverToolkitUnfit, ToolkitBroken, INSTALLED, While::NoDriver),
    row(Id::DriverCompilerUnfit, DriverCompilerUnfit, INSTALLED, While::NoDriver),
    row(Id::EvictionBlocked, EvictionBlocked, &[DriverManagerDone, DriverKept, DriverReady], While::Always),
    row(Id::SecondDriverPod, DriverAlreadyRunning, &[], While::TwoDriverPods),
    row(Id::DriverStopped, DriverTerminated, &[DriverReady], While::Restarted),
    about(row(Id::DriverStopped, StartupProbeFailed, &[DriverReady], While::Missed), "container", &[DRIVER]),
    row(Id::MofedStopped, MofedTerminated, MARKED, While::Restarted),
    about(row(Id::MofedStopped, StartupProbeFailed, MARKED, While::Missed), "container", &MOFED),
    row(Id::ToolkitTooOld, ToolkitTooOld, &[ToolkitReady], While::Always),
    row(Id::MigManagerFailed, MigManagerFailed, &[MigManagerDone], While::Always),
    row(Id::UnsupportedModulesRefused, MofedModuleUnsupported, MARKED, While::Always),
    row(Id::GpuInforomCorrupted, GpuInforomCorrupted, &[], While::Without("driver-ready")),
    row(Id::VgpuUnlicensed, VgpuUnlicensed, &[VgpuLicensed], While::Driver),
    row(Id::NvlsmMissing, NvlsmMissing, &[], While::NoFabricManager),
    row(Id::ImexSessionTaken, ImexSessionTaken, &[ImexReady], While::Driver),
    row(Id::SriovLockedDown, SriovLockedDown, &[], While::Always),
    row(Id::VfsWithoutRoom, VfsWithoutRoom, &[], While::NoVirtualFunction),
    fleeting(Id::KubeletFails, KubeletFailed, While::Unmended(Role::Kubelet)),
    row(Id::ContainerdWithoutCri, CriNotLoaded, &[CriLoaded], While::Unmended(Role::Runtime)),
    fleeting(Id::ToolkitRootMissing, ToolkitRootMissing, While::HostDriver),
    fleeting(Id::DeviceRulesRefused, DeviceRulesRefused, While::Always),
    fleeting(Id::ToolkitLibcTooOld, ToolkitLibcTooOld, While::Always),
    fleeting(Id::CudaNotSatisfied, CudaNotSatisfied, While::Always),
    fleeting(Id::CniPluginMissing, CniPluginMissing, While::Always),
    fleeting(Id::MultusUnauthorized, MultusUnauthorized, While::Always),
    fleeting(Id::MacvlanOnInfiniband, MacvlanRefused, While::Infiniband),
    row(Id::ImageNotPulled, ImageNotPulled, &[], While::Missed),
    row(Id::RunNotShared, MountNotShared, &[], While::Missed),
    about(fleeting(Id::RunNotShared, MountNotShared, While::Always), "why", &["\"/run"]),
    row(Id::CdiSpecMissing, CdiUnresolved, &[], While::NoCdi),
    row(Id::FabricManagerUnfit, FabricManagerUnfit, &[], While::NoFabricManager),
    about(
        row(Id::CudaNotInitialised, CudaFailed, &[], While::Without("cuda-ready")),
        "error",
        &["system not yet initialized"],
    ),
    row(Id::CudaFails, CudaFailed, &[], While::Without("cuda-ready")),
    about(
        row(Id::MigMisconfigured, DevicePluginFailed, PLUGIN, While::Plugin),
        "why",
        &["MIG configuration", "migEnabled", "not configured correctly"],
    ),
    about(
        row(Id::DriverVersionMismatch, DevicePluginFailed, PLUGIN, While::Plugin),
        "why",
        &["version mismatch"],
    ),
    about(row(Id::GpuLost, DevicePluginFailed, PLUGIN, While::Plugin), "why", &["GPU is lost"]),
    about(
        row(Id::DevicePluginWithoutDriver, DevicePluginFailed, PLUGIN, While::Plugin),
        "why",
        &["libnvidia-ml.so", "LIBRARY_NOT_FOUND"],
    ),
    about(row(Id::MpsDaemonMissing, DevicePluginFailed, PLUGIN, While::Plugin), "why", &["MPS daemon"]),
    row(Id::DevicePluginWithoutDriver, DevicePluginBlind, PLUGIN, While::Plugin),
    row(Id::DevicePluginFailed, DevicePluginFailed, PLUGIN, While::Plugin),
];
const PLUGIN: &[Meaning] = &[DevicePluginReady];

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    let found =
        ROWS.iter().filter_map(|row| row.finding(case)).chain(killed(case)).chain(of_another_stack(case));
    found.map(|finding| explained(case, finding)).collect()
}

/// With what else of the node shows why.
fn explained(case: &Case<'_>, finding: Finding) -> Finding {
    match finding.id {
        Id::CudaNotInitialised => with_modules(case, finding),
        Id::CudaNotSatisfied => with_driver(case, finding),
        Id::MigManagerFailed if case.line("nvidia_drm").is_some() => {
            finding.seen("/proc/modules", "nvidia_drm is loaded: it holds every GPU, so none can be reset")
        }
        _ => finding,
    }
}

fn with_driver(case: &Case<'_>, finding: Finding) -> Finding {
    match &case.symptoms.driver.loaded {
        (source, Ok(Some(version))) => finding.seen(source.display(), format!("the driver is {version}")),
        _ => finding,
    }
}

/// Where no switch is on the bus it may be one that Fabric Manager reaches by RDMA.
fn with_modules(case: &Case<'_>, finding: Finding) -> Finding {
    if case.symptoms.switches().next().is_some() {
        return finding;
    }
    let missing = ["mlx5_ib", "ib_umad"].into_iter().filter(|name| case.line(name).is_none());
    missing.fold(finding, |finding, name| {
        finding
            .seen("/proc/modules", format!("{name} is not loaded: without it no NVLink 5 switch is reached"))
    })
}

impl Row {
    fn finding(&self, case: &Case<'_>) -> Option<Finding> {
        let said = if self.is_fleeting {
            case.heard_lately(self.said)?
        } else {
            case.heard_apart(&[self.said], self.unless)?
        };
        (self.only.holds(case, said) && self.is_about(said)).then(|| case.by_word(self.id, said))
    }

    fn is_about(&self, said: &Said) -> bool {
        let Some((field, words)) = self.about else { return true };
        let text = Case::field(said, field);
        words.iter().any(|word| if field == "module" { text == *word } else { text.contains(word) })
    }
}

impl While {
    fn holds(self, case: &Case<'_>, said: &Said) -> bool {
        let is_live = case.is_listed_live("nvidia");
        let processes = &case.symptoms.survey.processes;
        match self {
            Self::NoDriver => !is_live,
            Self::Driver => is_live,
            Self::NoFabricManager => is_live && processes.first(Role::FabricManager).is_none(),
            Self::Plugin => {
                is_live && processes.first(Role::DevicePlugin).is_none_or(|plugin| is_its(case, plugin, said))
            }
            Self::Unmended(role) => processes.first(role).is_none_or(|process| is_its(case, process, said)),
            Self::NoVirtualFunction => {
                case.symptoms.nics.as_ref().is_ok_and(|nics| nics.iter().all(|nic| !nic.is_virtual))
            }
            Self::TwoDriverPods => {
                let pods = case.symptoms.survey.pods.all.iter();
                pods.filter(|pod| pod.is_here && pod.containers.contains(DRIVER)).count() > 1
            }
            Self::Restarted => {
                let container = case.symptoms.logs.file(said).and_then(|file| file.container.as_ref());
                container.is_some_and(|container| {
                    container.restart >= OFTEN && is_missed(case, &[container.container.as_str()])
                })
            }
            Self::Missed => is_missed(case, &[Case::field(said, "container")]),
            Self::NoCdi => case.symptoms.runtimes.toolkit.cdi_specs.as_ref().is_ok_and(BTreeMap::is_empty),
            Self::Unloaded(module) => case.seen.modules.proc.is_ok() && case.line(module).is_none(),
            Self::Infiniband => case.has_infiniband(),
            Self::HostDriver => case.is_container_driver() == Some(false),
            Self::Without(file) => case.symptoms.chain.stamp(file).written().is_none(),
            Self::Always => true,
        }
    }
}

/// A process that has run for a while since it was said has got over it, whatever its log shows.
fn is_its(case: &Case<'_>, process: &Process, said: &Said) -> bool {
    let at = case.said_at(said);
    let is_older = process.started.zip(at).is_none_or(|(started, at)| started * SECOND <= at);
    let is_new = process
        .started
        .and_then(|started| case.symptoms.chain.clock.age(started))
        .is_some_and(|age| age < 60);
    is_older || is_new
}

/// What these containers are to bring has not come.
fn is_missed(case: &Case<'_>, containers: &[&str]) -> bool {
    let are = |names: &[&str]| containers.iter().any(|name| names.contains(name));
    are(&MOFED) && !matches!(case.seen.marker, Marker::Present(_)) && !case.is_host_mofed()
        || are(&DRIVERS) && !case.is_listed_live("nvidia")
}

/// A module of neither stack that needs RDMA. Drivers of other NICs are refused on nodes that work with MOFED.
fn of_another_stack(case: &Case<'_>) -> Option<Finding> {
    const USERS: [&str; 10] = [
        "beegfs",
        "ib_iser",
        "ib_isert",
        "ib_srp",
        "ib_srpt",
        "ko2iblnd",
        "nvme_rdma",
        "nvmet_rdma",
        "rds_rdma",
        "rpcrdma",
    ];
    let is_rdma = |symbol: &str| {
        let symbol = symbol.trim_start_matches('_');
        symbol.starts_with("ib_") || symbol.starts_with("rdma_")
    };
    let said = case.symptoms.logs.saying(KernelDisagreesAboutVersion).rfind(|said| {
        let module = Case::field(said, "module");
        USERS.contains(&module) && is_rdma(Case::field(said, "symbol")) && case.line(module).is_none()
    })?;
    let is_known = case.seen.modules.proc.is_ok() && case.is_of_this_boot(said);
    is_known.then(|| case.by_word(Id::ModuleOfAnotherStack, said))
}

/// The kernel names the control group, and that the pod.
fn killed(case: &Case<'_>) -> Option<Finding> {
    let said = case.heard(&[KernelOutOfMemory], &[])?;
    let group = Case::field(said, "cgroup").replace('_', "-");
    let pods = &case.symptoms.survey.pods.all;
    let pod = pods.iter().find(|pod| !pod.uid.is_empty() && group.contains(&pod.uid))?;
    let containers: Vec<_> = pod.containers.iter().map(String::as_str).collect();
    let name = pod.name.as_ref().map_or(&pod.uid, |(_, name)| name);
    let told = format!("{} was killed in the control group of this pod", Case::field(said, "program"));
    is_missed(case, &containers)
        .then(|| case.by_word(Id::KilledForMemory, said).seen(format!("pod {name}"), told))
}
