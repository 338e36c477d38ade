// SPDX-License-Identifier: Apache-2.0
//! The positive signs on which an all-clear rests, beside those that other judges look for: each is seen, not asked
//! for here, missing, or cannot be seen, and then nobody says that all is well.

use super::Case;
use super::board::FabricManagerPlace;
use crate::finding::{Finding, Id};
use peermem_gate::survey::process::Role;

/// In seconds: what a boot starts runs by then.
const BOOT: i64 = 10 * 60;
const CUDA_READY: &str = "cuda-ready";

/// How a sign stands.
enum Sign {
    /// It is there, or this node does not need it.
    Fine,
    /// Something that this node needs is not there.
    Missing(Finding),
    /// The source, and why it shows nothing.
    Unseen(String, &'static str),
}

/// All of them.
const SIGNS: [fn(&Case<'_>) -> Sign; 4] = [services, unified_memory, fabric, lives];
/// Who looks at the GPUs once, at its start, or brings them.
const LIVES: [Role; 4] = [Role::Driver, Role::FabricManager, Role::DevicePlugin, Role::Persistenced];

/// Units that may be enabled, and the role of their process.
const UNITS: [(&str, Role); 4] = [
    ("nvidia-persistenced.service", Role::Persistenced),
    ("kubelet.service", Role::Kubelet),
    ("containerd.service", Role::Runtime),
    ("crio.service", Role::Runtime),
];

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    let (mut unseen, mut found) = (Vec::new(), Vec::new());
    for sign in SIGNS {
        match sign(case) {
            Sign::Fine => {}
            Sign::Missing(finding) => found.push(finding),
            Sign::Unseen(source, why) => unseen.push((source, why)),
        }
    }
    found.extend(Finding::of(Id::NotJudged, unseen));
    found
}

/// A unit that systemd starts at each boot, and that has no process long after it.
fn services(case: &Case<'_>) -> Sign {
    let is_needed = |role| role != Role::Persistenced || case.has_live_host_driver();
    let is_gone = |(unit, role): &&(&str, Role)| {
        case.symptoms.host.enabled.contains(*unit) && is_needed(*role) && case.lacks(*role)
    };
    let findings = UNITS.iter().filter(is_gone).filter(|_| case.is_up()).map(|(unit, ..)| {
        let seen = format!("{unit} is enabled, and no process is its");
        Finding::new(Id::HostServiceMissing, "/etc/systemd/system", seen).word("unit", *unit)
    });
    findings.reduce(Finding::and).map_or(Sign::Fine, Sign::Missing)
}

/// CUDA needs `nvidia_uvm`, and in a container nobody loads it.
fn unified_memory(case: &Case<'_>) -> Sign {
    let is_bound = case.symptoms.gpus().any(|gpu| gpu.driver.as_deref() == Some("nvidia"));
    let has_node = case.symptoms.driver.nodes.iter().flat_map(|(_, names)| names.iter().flatten());
    let has_node = has_node.into_iter().any(|name| name == "nvidia-uvm");
    let is_known =
        case.is_listed_live("nvidia") && case.symptoms.driver.nodes.iter().any(|(_, names)| names.is_ok());
    if !is_bound || !is_known || has_node || case.line("nvidia_uvm").is_some() || case.is_for_machines() {
        return Sign::Fine;
    }
    let seen =
        "nvidia_uvm is not loaded, and /dev/nvidia-uvm does not exist: no CUDA program starts in a container";
    Sign::Missing(Finding::new(Id::DeviceNodesMissing, "/proc/modules", seen))
}

impl Case<'_> {
    /// What a boot starts runs by now.
    pub(super) fn is_up(&self) -> bool {
        let boot = self.symptoms.survey.clock.boot.as_ref();
        boot.is_ok_and(|boot| self.age(*boot).is_some_and(|age| age > BOOT))
    }
}

/// A virtual machine with some GPUs of a board with switches has none of these: its host sets up their fabric.
fn fabric(case: &Case<'_>) -> Sign {
    let is_hosts = case.fabric_manager_place() == Some(FabricManagerPlace::Host);
    if !is_hosts
        || !case.is_listed_live("nvidia")
        || case.symptoms.chain.stamp(CUDA_READY).written().is_some()
    {
        return Sign::Fine;
    }
    super::fabric::of_the_host(case).map_or(
        Sign::Unseen(
            "/sys/bus/pci/devices".to_owned(),
            "GPUs of a board with NVSwitches in a virtual machine without them: the hypervisor's Fabric Manager has \
                to give them a partition, which no file here shows",
        ),
        Sign::Missing,
    )
}

/// Whose beginning cannot be seen is neither older nor younger than anybody. A bundle lists what it lacks.
fn lives(case: &Case<'_>) -> Sign {
    let survey = &case.symptoms.survey;
    let processes = LIVES.iter().flat_map(|role| survey.processes.of(*role));
    // Without a clock the report says that all ages are unknown.
    let processes = processes.filter(|_| survey.clock.boot.is_ok());
    let unseen = processes.into_iter().find(|process| process.started.is_none() && process.pid != 0);
    unseen.map_or(Sign::Fine, |process| {
        let why =
            "its start time cannot be read, so whether it is older than the GPUs or the driver is unknown";
        Sign::Unseen(process.directory.join("stat").display().to_string(), why)
    })
}
