// SPDX-License-Identifier: Apache-2.0
//! The GPU's side of the bus: who has it, whether it was given memory, and whether the kernel takes its driver.

use super::holders::in_command;
use super::{Case, DEVICES};
use crate::chain::WORKLOAD_TYPE;
use crate::finding::fact::MANAGER_SAYS_WHY;
use crate::finding::{Finding, Id};
use crate::log::LogEvent;
use crate::symptoms::PciFunction;
use peermem_gate::ready::condition::Reason;
use peermem_gate::ready::observation::{Lock, ProcState};
use peermem_gate::survey::process::Role;

const NVIDIA: &str = "nvidia";
/// The GPU Operator's workload of a node whose virtual machines get whole GPUs.
const PASSTHROUGH: &str = "vm-passthrough";
/// nvidia's own, which every driver container unloads.
const FAMILY: [&str; 5] = ["nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem"];

/// The first device id of Blackwell's (pci.ids: GB100 is 0x2901); older GPUs have lower ones.
const BLACKWELL: u16 = 0x2900;

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    let all = [bound, bar, signature, not_initialized, held, in_transit, fabric_manager];
    all.iter().filter_map(|judge| judge(case)).collect()
}

fn source(gpu: &PciFunction) -> String {
    format!("{DEVICES}/{}/driver", gpu.address)
}

/// Whose the GPUs are: another driver's, a virtual machine's where containers want them, or the other way round.
fn bound(case: &Case<'_>) -> Option<Finding> {
    let having = |id: Id, is_meant: &dyn Fn(&str) -> bool| {
        let driver = |gpu: &PciFunction| gpu.driver.clone().filter(|driver| is_meant(driver));
        Finding::of(id, case.symptoms.gpus().filter_map(|gpu| Some((source(gpu), driver(gpu)?))))
    };
    // A machine's: vfio-pci and its kin (nvgrace_gpu_vfio_pci), pci-stub, Xen's pciback.
    let for_machine = |driver: &str| ["vfio", "stub", "pciback"].iter().any(|part| driver.contains(part));
    let other = having(Id::OtherDriverHasGpu, &|driver| driver != NVIDIA && !for_machine(driver));
    if let Some(finding) = other {
        let driver = finding.evidence.first().map_or("", |one| &one.seen);
        let is_modules = |name: &&str| *name == name.to_lowercase();
        let module = in_command(module_of(case, driver).or(Some(driver).filter(is_modules)).as_slice());
        return Some(finding.word("other-driver", module));
    }
    let is_wanted = case.symptoms.settings.operator.is_some() || case.has_driver_pod();
    let workload = case.symptoms.chain.stamp(WORKLOAD_TYPE);
    if !is_wanted || case.is_for_machines() {
        // k8s-driver-manager of the vfio-manager unbinds a container's driver, and ends at the host's.
        let is_kept = workload.text() == PASSTHROUGH
            && case.symptoms.driver.is_on_host
            && case.symptoms.chain.stamp("vfio-pci-ready").written().is_none();
        let kept = having(Id::GpuKeptFromMachines, &|driver| driver == NVIDIA).filter(|_| is_kept)?;
        return Some(kept.seen("/run/nvidia/validations/workload-type", PASSTHROUGH));
    }
    let vfio = having(Id::GpuBoundToVfio, &|driver| driver == "vfio-pci");
    if vfio.is_some() && case.symptoms.gpus().all(|gpu| gpu.driver.as_deref() == Some("vfio-pci")) {
        return vfio;
    }
    let manager = case.line("nvidia_vgpu_vfio")?;
    Some(Finding::new(Id::VgpuManagerOnHost, "/proc/modules", super::listing(manager)))
}

/// The loaded module of a driver: a driver names itself as it likes (`NovaCore` of `nova_core`).
fn module_of<'a>(case: &'a Case<'_>, driver: &str) -> Option<&'a str> {
    let plain = |name: &str| name.replace(['_', '-'], "").to_lowercase();
    let mut modules = case.seen.modules.proc.iter().flat_map(|proc| &proc.modules);
    modules.find(|module| plain(&module.name) == plain(driver)).map(|module| module.name.as_str())
}

fn bar(case: &Case<'_>) -> Option<Finding> {
    let gpus = case.symptoms.gpus().filter(|gpu| !gpu.is_virtual);
    let evidence = gpus.flat_map(|gpu| {
        let missing = gpu.regions.iter().enumerate().filter(|(_, region)| region.is_unassigned());
        missing.map(|(number, region)| {
            let source = format!("{DEVICES}/{}/resource", gpu.address);
            (source, format!("BAR {number} has no address (flags {:#x})", region.flags))
        })
    });
    Finding::of(Id::GpuBarUnassigned, evidence)
}

fn signature(case: &Case<'_>) -> Option<Finding> {
    if case.is_listed_live(NVIDIA) {
        return None;
    }
    let refused = case.logged(&[LogEvent::ModuleRefused], &[LogEvent::NvidiaLoaded, LogEvent::DriverReady]);
    let keys = ["Key was rejected", "Required key not available", "Operation not permitted"];
    let by_key = refused.filter(|found| keys.iter().any(|key| Case::field(found, "why").contains(key)));
    let kernel = [LogEvent::ModuleSignatureRejected, LogEvent::KernelLockdown];
    let found = case.logged(&kernel, &[LogEvent::NvidiaLoaded]).filter(|found| {
        found.event == LogEvent::ModuleSignatureRejected || Case::field(found, "program") == "modprobe"
    });
    let lockdown = case.symptoms.host.signatures.lockdown.as_ref().ok().and_then(Option::as_deref);
    let lockdown = lockdown.filter(|lockdown| *lockdown != "none");
    let finding = if let Some(first) = found.or(by_key) {
        case.and_log(case.by_log(Id::ModuleSignatureRejected, first), by_key.filter(|_| found.is_some()))
    } else {
        // What is unsigned beside it is so too.
        let condition = case.verdict.conditions.iter().find(|one| one.reason == Reason::UnsignedModule)?;
        Finding::new(Id::ModuleSignatureRejected, "nvidia-peermem.ko", condition.message.clone())
    };
    Some(finding.all(lockdown.map(|lockdown| ("/sys/kernel/security/lockdown", lockdown))))
}

fn not_initialized(case: &Case<'_>) -> Option<Finding> {
    let unbound = case.symptoms.gpus().find(|gpu| gpu.driver.is_none() && !gpu.is_virtual);
    let found = case.logged(&[LogEvent::NvidiaProbeFailed], &[LogEvent::NvidiaLoaded]);
    let unbound = unbound.filter(|_| case.is_listed_live(NVIDIA));
    let finding = match (found, unbound) {
        (Some(found), _) => case.by_log(Id::GpuNotInitialised, found),
        (None, Some(gpu)) => {
            Finding::new(Id::GpuNotInitialised, source(gpu), "does not exist, and nvidia is live")
        }
        (None, None) => uninitialized(case)?,
    };
    Some(needs_open(case, finding))
}

/// The driver has never initialized a GPU, although a program that opens all of them runs. Of a GPU that nobody has
/// opened the driver knows no UUID either.
fn uninitialized(case: &Case<'_>) -> Option<Finding> {
    /// In seconds. With many GPUs the first program takes minutes.
    const START: i64 = 15 * 60;
    let survey = &case.symptoms.survey;
    let is_old = |started: i64| case.age(started).is_some_and(|age| age > START);
    let mut openers =
        [Role::Persistenced, Role::DevicePlugin].iter().flat_map(|role| survey.processes.of(*role));
    let opener = openers.find(|process| process.started.is_some_and(is_old))?;
    let unknown = case.symptoms.offer.gpus.iter();
    let unknown = unknown.filter(|(_, uuid)| uuid.as_deref().is_some_and(|uuid| uuid.contains('?')));
    let evidence = unknown.map(|(address, uuid)| {
        (format!("/proc/driver/nvidia/gpus/{address}/information"), uuid.as_deref().unwrap_or_default())
    });
    let finding = Finding::of(Id::GpuNotInitialised, evidence)?;
    Some(finding.seen(opener.directory.display(), "has run for a while, and opens every GPU"))
}

/// From Blackwell on there are only open kernel modules (the driver's README, chapter on open kernel modules); the
/// proprietary one loads, and fails at the GPU.
fn needs_open(case: &Case<'_>, finding: Finding) -> Finding {
    let new = case.symptoms.gpus().find(|gpu| gpu.device.is_some_and(|device| device >= BLACKWELL));
    let (path, version) = &case.symptoms.driver.version_file;
    // The open ones say `Open Kernel Module`.
    let is_proprietary = |line: &&String| line.contains(" Kernel Module ") && !line.contains(" Open Kernel ");
    let line = version.iter().flatten().find(is_proprietary);
    let (Some(gpu), Some(line)) = (new, line) else { return finding };
    let Finding { evidence, .. } = finding;
    let seen = format!("{line}: the proprietary kernel module");
    let finding = Finding::new(Id::GpuNeedsOpenModules, path.display(), seen);
    let device = format!("device {:#06x}: Blackwell or newer", gpu.device.unwrap_or_default());
    let finding = finding.seen(format!("{DEVICES}/{}/device", gpu.address), device);
    finding.all(evidence.into_iter().map(|one| (one.source, one.seen)))
}

/// The driver container wants to replace a loaded driver, and cannot.
fn held(case: &Case<'_>) -> Option<Finding> {
    let nvidia = case.line(NVIDIA)?;
    let overcome =
        [LogEvent::DriverReady, LogEvent::DriverMounted, LogEvent::DriverManagerDone, LogEvent::DriverKept];
    let found = case.logged(&[LogEvent::DriverInUse, LogEvent::ModuleNotUnloaded], &overcome);
    let runs = case.symptoms.chain.driver == Lock::Held || case.symptoms.chain.driver_runs == Some(true);
    if found.is_none() || runs {
        return None;
    }
    let holders = case.outside(NVIDIA, |name| FAMILY.contains(&name));
    let (id, seen) = if holders.is_empty() {
        let seen = match case.symptoms.holders.as_slice() {
            [] => format!("nvidia is in use (refcount {})", nvidia.refcount.unwrap_or_default()),
            processes => format!("open in {}", processes.join(", ")),
        };
        (Id::DriverInUse, seen)
    } else {
        (Id::DriverHeldByModule, format!("nvidia is used by {}", holders.join(", ")))
    };
    let finding = Finding::new(id, "/proc/modules", seen);
    Some(case.and_log(finding.word("in-order", in_command(&case.in_order(&holders))), found))
}

/// Coming or going, and no container is at work on it.
fn in_transit(case: &Case<'_>) -> Option<Finding> {
    Finding::of(Id::NvidiaInTransit, moving(case).map(|seen| ("/proc/modules", seen)))
}

/// `NAME is STATE` of NVIDIA's modules that are loading or unloading.
fn moving<'a>(case: &'a Case<'_>) -> impl Iterator<Item = String> + 'a {
    let modules = case.seen.modules.proc.iter().flat_map(|proc| &proc.modules);
    let moving = modules.filter(|module| {
        module.state != ProcState::Live
            && FAMILY.contains(&module.name.as_str())
            && module.name != "nvidia_peermem"
    });
    moving.map(|module| format!("{} is {:?}", module.name, module.state))
}

/// A hanging process, with the modules that it keeps between two states.
pub(super) fn with_moving(case: &Case<'_>, finding: Finding) -> Finding {
    finding.all(moving(case).map(|seen| ("/proc/modules", seen)))
}

/// `NVSwitches` of the generations that a fabric manager drives. A virtual machine's are its host's.
fn fabric_manager(case: &Case<'_>) -> Option<Finding> {
    let switch = case.symptoms.switches().find(|switch| switch.driver.as_deref() != Some("vfio-pci"))?;
    (case.lacks(Role::FabricManager) && case.is_listed_live(NVIDIA)).then(|| {
        let source = format!("{DEVICES}/{}", switch.address);
        no_fabric_manager(case, Finding::new(Id::GpuFabricManagerMissing, source, "an NVSwitch"))
    })
}

/// The finding, with what shows that none runs, and its own last words.
pub(super) fn no_fabric_manager(case: &Case<'_>, finding: Finding) -> Finding {
    let finding = finding.seen("/proc", "no process has the name nv-fabricmanager");
    let failed = case.logged(&[LogEvent::FabricManagerFailed], &[]);
    let finding = case.and_log(finding, failed);
    let said = finding.evidence.len();
    let finding = case.and_failed_service(finding, "nvidia-fabricmanager.service", Role::FabricManager);
    let says_why = failed.is_some() || finding.evidence.len() > said;
    finding.with(MANAGER_SAYS_WHY, says_why)
}

impl Case<'_> {
    /// The node's label says that its GPUs are for virtual machines.
    pub(super) fn is_for_machines(&self) -> bool {
        self.symptoms.chain.stamp(WORKLOAD_TYPE).text().starts_with("vm-")
    }
}
