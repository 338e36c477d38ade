// SPDX-License-Identifier: Apache-2.0
//! The race for Fabric Manager on an `NVLink` 5 machine: before, during and after. All GPUs of a node that lost it
//! end with CUDA error 802, whether or not the cluster asks for nvidia-peermem.

use super::Case;
use crate::chain::MARKER;
use crate::finding::{Finding, Id};
use crate::log::LogEvent;
use peermem_gate::ready::consumer::UMAD;
use peermem_gate::ready::observation::Management;
use peermem_gate::survey::process::{Process, Role};
use peermem_gate::words::remedy::fact::WITHOUT_UMAD;

const IB: &str = "mlx5_ib";
const RDMA_DEVICES: &str = "/sys/class/infiniband";
/// nvidia-driver-ctr starts nvidia-persistenced, and right behind it Fabric Manager. It takes that long at most.
const START: i64 = 60;
/// In nvidia-driver-ctr's log once it has seen the management device (gpu-driver-container).
const FOUND: &str = "NVLink5";

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    let Some(race) = FabricRace::of(case) else { return Vec::new() };
    let missing = race.missing();
    let began = race.began_without();
    let waits = match (&missing, &began) {
        (Some(what), None) if !race.is_undated() => {
            Some(race.finding(Id::FabricNotReady).seen(what.0, what.1.clone()))
        }
        _ => None,
    };
    let failed = race.not_started();
    let nobody = race.nobody().filter(|_| began.is_none() && failed.is_none());
    race.without_umad().into_iter().chain(waits).chain(began).chain(failed).chain(nobody).collect()
}

/// In a virtual machine without switches: a daemon of NVIDIA's says that the fabric is not initialized, or Fabric
/// Manager that there is nothing for it to do.
pub(super) fn of_the_host(case: &Case<'_>) -> Option<Finding> {
    let found = case.logged(&[LogEvent::FabricNotInitialised], &[])?;
    let finding = case.by_log(Id::FabricOfTheHost, found);
    let finding =
        finding.seen("/sys/bus/pci/devices", "this is a virtual machine: it has GPUs, and no NVSwitch");
    let finding = case.and_log(finding, case.logged(&[LogEvent::FabricManagerFailed], &[]));
    Some(case.and_failed_service(finding, "nvidia-fabricmanager.service", Role::FabricManager))
}

struct FabricRace<'a> {
    case: &'a Case<'a>,
    /// The PCI addresses of the management devices.
    management: &'a [String],
}

impl<'a> FabricRace<'a> {
    /// `None` where there is no management device.
    fn of(case: &'a Case<'a>) -> Option<Self> {
        match &case.seen.fabric.as_ref()?.management {
            Management::Found(management) => Some(Self { case, management }),
            Management::None | Management::Unreadable(_) => None,
        }
    }

    fn finding(&self, id: Id) -> Finding {
        let first = self.management.first().map_or("", String::as_str);
        Finding::new(id, format!("/sys/bus/pci/devices/{first}/vpd"), "contains SW_MNG: an NVLink 5 machine")
    }

    /// Whether the driver's container has gone past its start of Fabric Manager, nobody can say.
    fn is_undated(&self) -> bool {
        let processes = &self.case.symptoms.survey.processes;
        let mut all = [Role::Persistenced, Role::FabricManager].iter().flat_map(|role| processes.of(*role));
        all.any(|process| process.started.is_none())
    }

    /// The device or module that Fabric Manager would not find if it started now, and the source that shows that.
    fn missing(&self) -> Option<(&'static str, String)> {
        if self.is_umad_missing() {
            return Some(("/proc/modules", format!("{UMAD} is not loaded")));
        }
        let devices = self.case.seen.fabric.as_ref()?.rdma_devices.as_ref().ok()?;
        let without: Vec<_> = self.management.iter().filter(|a| !devices.contains_key(*a)).cloned().collect();
        (!without.is_empty()).then(|| (RDMA_DEVICES, format!("no device of {}", without.join(", "))))
    }

    fn is_umad_missing(&self) -> bool {
        let modules = &self.case.seen.modules;
        modules.proc.is_ok() && self.case.line(UMAD).is_none() && !modules.is_built_in(UMAD)
    }

    /// The rest of the stack is live, or no MOFED will come: no program is going to load it.
    fn without_umad(&self) -> Option<Finding> {
        let (case, settings) = (self.case, &self.case.symptoms.settings);
        let has_ib = case.line(IB).is_some();
        let is_ours =
            case.is_live("mlx5_core") && settings.in_container.is_none() && settings.on_host.is_none();
        if !self.is_umad_missing() || !(case.is_live(IB) || is_ours && !has_ib) {
            return None;
        }
        let finding = self.finding(Id::UmadNotLoaded);
        let is_is_not = if has_ib { "is live, and" } else { "is not loaded, and" };
        let finding = finding.seen("/proc/modules", format!("{IB} {is_is_not} {UMAD} is not loaded"));
        let missing: Vec<_> = [IB, UMAD].into_iter().filter(|name| case.symptoms.host.lacks(name)).collect();
        let seen = format!("this kernel has no {}: its package is not installed", missing.join(", no "));
        Some(match missing.as_slice() {
            [] => finding,
            _ => finding.seen("modules.dep", seen).with(WITHOUT_UMAD, true),
        })
    }

    /// Fabric Manager has begun, and did not see the management device, or cannot see it now.
    fn began_without(&self) -> Option<Finding> {
        let manager = self.case.process(Role::FabricManager);
        // The driver container's last word was that of a machine without `NVLink` 5.
        let elsewhere = self.started().filter(|(_, line)| !line.contains(FOUND));
        let early = manager.and_then(|manager| self.is_older_than_mofed(manager));
        let saw_devices = self.started().is_some_and(|(_, line)| line.contains(FOUND));
        let skipped = self.is_past_start().filter(|_| manager.is_none() && !saw_devices);
        let skipped = skipped.map(|(process, age)| {
            (process, format!("nvidia-persistenced has run for {age} s, but Fabric Manager was not started"))
        });
        let blind = manager.zip(self.missing()).map(|(manager, (source, what))| {
            (format!("{}, {source}", manager.directory.display()), format!("Fabric Manager runs, and {what}"))
        });
        let signs: Vec<_> = [elsewhere, early, skipped, blind].into_iter().flatten().collect();
        (!signs.is_empty()).then(|| self.finding(Id::FabricManagerTooEarly).all(signs))
    }

    /// The log and the last line with which the driver container started Fabric Manager.
    fn started(&self) -> Option<(String, String)> {
        let logs = &self.case.symptoms.logs;
        let last = logs.of(LogEvent::FabricManagerStarted).next_back()?;
        Some((logs.file(last)?.path.display().to_string(), last.text.clone()))
    }

    /// The driver container saw the management device, and what it started is not there.
    fn not_started(&self) -> Option<Finding> {
        let (path, line) = self.started().filter(|(_, line)| line.contains(FOUND))?;
        let (process, age) = self.is_past_start()?;
        let is_missing = self.case.process(Role::FabricManager).is_none();
        let refused = self.case.logged(&[LogEvent::FabricManagerStartRefused], &[]);
        is_missing.then(|| {
            let running = format!("nvidia-persistenced has run for {age} s, and no Fabric Manager runs");
            let finding = self.finding(Id::FabricManagerNotStarted).seen(path, line);
            self.case.and_log(finding, refused).seen(process, running)
        })
    }

    /// On a host whose driver no container brings, no fabric manager runs, long after the boot.
    fn nobody(&self) -> Option<Finding> {
        let case = self.case;
        (case.is_up() && case.has_live_host_driver() && case.lacks(Role::FabricManager))
            .then(|| super::gpu::no_fabric_manager(case, self.finding(Id::GpuFabricManagerMissing)))
    }

    /// The driver's container has gone past the place where it starts Fabric Manager: nvidia-persistenced, and for
    /// how many seconds it has run. With a management device and without `ib_umad` it waits at that place, and
    /// nothing is lost yet.
    fn is_past_start(&self) -> Option<(String, i64)> {
        let survey = &self.case.symptoms.survey;
        let devices = self.case.seen.fabric.as_ref()?.rdma_devices.as_ref().ok()?;
        let waits = self.is_umad_missing() && self.management.iter().any(|a| devices.contains_key(a));
        let persistenced = survey.processes.first(Role::Persistenced).filter(|_| !waits)?;
        let age = survey.clock.age(persistenced.started?).filter(|age| *age > START)?;
        let is_live = self.case.is_listed_live("nvidia");
        is_live.then(|| (persistenced.directory.display().to_string(), age))
    }

    /// Started before the marker that is there now, and not connected: who has a umad device open uses `ib_umad`. A
    /// marker that is set again without a swap proves nothing.
    fn is_older_than_mofed(&self, manager: &Process) -> Option<(String, String)> {
        let marked = self.case.symptoms.chain.stamp(MARKER).written()?;
        let is_unused = self.case.line(UMAD)?.refcount == Some(0);
        let seconds = marked.checked_sub(manager.started?).filter(|seconds| *seconds > 0 && is_unused)?;
        let source = format!("{}, {}", manager.directory.display(), self.case.expected.marker.display());
        let seen =
            format!("Fabric Manager is {seconds} s older than MOFED's marker, and no process uses {UMAD}");
        Some((source, seen))
    }
}
