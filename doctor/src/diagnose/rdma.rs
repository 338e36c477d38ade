// SPDX-License-Identifier: Apache-2.0
//! RDMA beyond the modules, where it is requested: devices, ports, device files, and what keeps programs from using
//! them.

use super::{Case, DEVICES, unreadable};
use crate::finding::fact::KERNEL_LACKS_IB;
use crate::finding::{Finding, Id};
use crate::log::{LogEvent, LogMatch};
use crate::stamp::SECOND;
use crate::symptoms::PciFunction;
use crate::symptoms::rdma::{Device, Port};
use peermem_gate::survey::process::Role;

/// Modules that make the device files of programs, and the name that each makes below /dev/infiniband.
pub(super) const FOR_PROGRAMS: [(&str, &str); 2] = [("rdma_ucm", "rdma_cm"), ("ib_umad", "umad")];
const IB: &str = "mlx5_ib";
/// In seconds. Until then a node's links come up.
const BOOT: i64 = 15 * 60;
/// Below this much locked memory no RDMA program gets far.
const LITTLE: u64 = 1 << 30;

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    if !is_posted(case) && !case.is_live("mlx5_core") {
        return Vec::new();
    }
    let network = case.symptoms.rdma.network.interfaces.as_ref().err().map(unreadable);
    let some = [
        device(case),
        ports(case),
        lost(case),
        without_guid(case),
        without_gid(case),
        user_access(case),
        netns(case),
    ];
    some.into_iter().chain([iommu(case), memlock(case), plugin(case), network]).flatten().collect()
}

/// A list of the devices is all that there is of RDMA.
pub(super) fn is_posted(case: &Case<'_>) -> bool {
    case.symptoms.rdma.nodes.is_err() && case.symptoms.rdma.devices.is_ok()
}

fn nics<'a>(case: &'a Case<'_>) -> impl Iterator<Item = &'a PciFunction> {
    let nics = case.symptoms.nics.iter().flatten();
    nics.filter(|nic| nic.is_network() && nic.driver.as_deref() == Some("mlx5_core"))
}

fn devices<'a>(case: &'a Case<'_>) -> &'a [Device] {
    case.symptoms.rdma.devices.as_ref().ok().and_then(|devices| devices.as_deref()).unwrap_or_default()
}

/// Of a device that one NIC has, the others are not proven wrong: RoCE may be off on purpose.
fn device(case: &Case<'_>) -> Option<Finding> {
    let known = case.symptoms.rdma.devices.as_ref().ok()?;
    let is_of =
        |device: &Device, nic: &PciFunction| device.address.as_ref().is_none_or(|it| *it == nic.address);
    let has_one = |nic: &PciFunction| known.iter().flatten().any(|device| is_of(device, nic));
    let without: Vec<_> = nics(case).filter(|nic| !has_one(nic)).collect();
    let all = !without.is_empty() && without.len() == nics(case).count();
    let class = case.symptoms.rdma.class.display();
    let evidence = without.iter().map(|nic| (&class, format!("no device of {}", nic.address)));
    let finding = Finding::of(Id::RdmaDeviceMissing, evidence).filter(|_| all)?;
    let lacks = case.symptoms.host.lacks(IB);
    let seen = format!("this kernel has no {IB}: its package is not installed");
    Some(finding.with(KERNEL_LACKS_IB, lacks).all(lacks.then_some(("modules.dep", seen))))
}

/// One that is active is enough: others may be for storage, or not be plugged in.
fn ports(case: &Case<'_>) -> Option<Finding> {
    let nics: Vec<_> = nics(case).map(|nic| nic.address.as_str()).collect();
    let ours = |device: &Device| device.address.as_deref().is_none_or(|address| nics.contains(&address));
    let ports: Vec<_> = all_ports(case).filter(|(device, _)| ours(device)).collect();
    let is = |port: &Port, state: &str| port.state.as_deref() == Some(state);
    let is_known = ports.iter().all(|(_, port)| port.state.is_some());
    if ports.is_empty() || !is_known || ports.iter().any(|(_, port)| is(port, "ACTIVE")) {
        return None;
    }
    let waits = |port: &Port| is(port, "INIT") && port.link_layer.as_deref() != Some("Ethernet");
    let id =
        if ports.iter().any(|(_, port)| waits(port)) { Id::SubnetManagerMissing } else { Id::RdmaPortsDown };
    let evidence = ports.iter().map(|(device, port)| {
        let layer = port.link_layer.as_deref().unwrap_or("unknown link layer");
        let state = port.state.as_deref().unwrap_or_default();
        let manager = port.sm_lid.as_deref().map(|lid| format!(", subnet manager {lid}")).unwrap_or_default();
        (file_of(case, device, port, "state"), format!("{state}, {layer}{manager}"))
    });
    Finding::of(id, evidence)
}

/// A port of this node is an `InfiniBand` port.
pub(super) fn has_infiniband(case: &Case<'_>) -> bool {
    all_ports(case).any(|(_, port)| port.link_layer.as_deref() == Some("InfiniBand"))
}

fn all_ports<'a>(case: &'a Case<'_>) -> impl Iterator<Item = (&'a Device, &'a Port)> {
    devices(case).iter().flat_map(|device| device.ports.iter().map(move |port| (device, port)))
}

/// Of a port.
fn file_of(case: &Case<'_>, device: &Device, port: &Port, name: &str) -> String {
    format!("{}/{}/ports/{}/{name}", case.symptoms.rdma.class.display(), device.name, port.number)
}

/// A port that had its link, while others of the node have theirs. At boot the kernel says the same of a port that
/// never had a cable.
fn lost(case: &Case<'_>) -> Option<Finding> {
    let logs = &case.symptoms.logs;
    let clock = &case.symptoms.chain.clock;
    let is_late = |found: &LogMatch| {
        let at = found.until.or(found.at).and_then(|at| logs.on_wall(at));
        at.zip(clock.boot.as_ref().ok()).is_some_and(|(at, boot)| at.ns / SECOND - boot > BOOT)
    };
    let is_active = |device: &Device| device.ports.iter().any(|port| port.state.as_deref() == Some("ACTIVE"));
    let down = devices(case).iter().filter(|device| !is_active(device));
    let findings = down.filter_map(|device| {
        let address = device.address.as_deref()?;
        let found = logs.of(LogEvent::PortDown).rfind(|found| Case::field(found, "bdf") == address)?;
        is_late(found).then(|| {
            let seen = format!("{} of {address} is not active", device.name);
            case.by_log(Id::RdmaPortLost, found).seen(case.symptoms.rdma.class.display(), seen)
        })
    });
    findings.reduce(Finding::and).filter(|_| devices(case).iter().any(is_active))
}

/// A virtual function of `InfiniBand` comes without one, and its port stays down until it has one.
fn without_guid(case: &Case<'_>) -> Option<Finding> {
    let is_unnamed = |device: &&Device| {
        let is_down = |port: &Port| {
            port.state.as_deref() == Some("DOWN") && port.link_layer.as_deref() != Some("Ethernet")
        };
        let guid = device.guid.as_deref().unwrap_or_default();
        !guid.is_empty()
            && guid.bytes().all(|byte| matches!(byte, b'0' | b':'))
            && device.ports.iter().any(is_down)
    };
    let class = case.symptoms.rdma.class.display();
    let evidence = devices(case).iter().filter(is_unnamed).map(|device| {
        let port = device.address.as_deref().unwrap_or_default();
        let seen = format!("is zero, and the port of virtual function {port} is DOWN");
        (format!("{class}/{}/node_guid", device.name), seen)
    });
    Finding::of(Id::VirtualFunctionWithoutGuid, evidence)
}

/// An active `RoCE` port has the GIDs of its interface's addresses, at least one made of the MAC address. One such
/// port is enough: ports of an eSwitch in switchdev mode have none, and others may be for storage.
fn without_gid(case: &Case<'_>) -> Option<Finding> {
    let is = |port: &Port, what: Option<bool>| {
        let is_active = port.state.as_deref() == Some("ACTIVE");
        is_active && port.link_layer.as_deref() == Some("Ethernet") && port.has_gid == what
    };
    let is_used = |(_, port): (&Device, &Port)| {
        is(port, Some(true)) || is(port, None) || port.link_layer.as_deref() == Some("InfiniBand")
    };
    if all_ports(case).any(is_used) {
        return None;
    }
    let without = all_ports(case).filter(|(_, port)| is(port, Some(false)));
    let seen = "every GID is zero, and the port is ACTIVE";
    let evidence = without.map(|(device, port)| (file_of(case, device, port, "gids"), seen));
    Finding::of(Id::RdmaGidsMissing, evidence)
}

fn user_access(case: &Case<'_>) -> Option<Finding> {
    if devices(case).is_empty() || !case.is_live("ib_uverbs") {
        return None;
    }
    let nodes = case.symptoms.rdma.nodes.as_ref().ok()?;
    let missing = FOR_PROGRAMS.iter().filter(|(module, node)| {
        case.line(module).is_none() && !nodes.iter().any(|name| name.starts_with(node))
    });
    let evidence = missing.flat_map(|(module, node)| {
        let not_loaded = ("/proc/modules", format!("{module} is not loaded"));
        [not_loaded, ("/dev/infiniband", format!("{node} is missing"))]
    });
    Finding::of(Id::RdmaUserAccessMissing, evidence)
}

/// The shared device plugin offers none, though devices are there.
fn plugin(case: &Case<'_>) -> Option<Finding> {
    // A plugin that offers nothing may not say so, but only what it left out.
    let last = [LogEvent::RdmaPluginExposes, LogEvent::RdmaPluginSelectsNone];
    let found = case.logged(&last, &[])?;
    let offers_none = Case::field(found, "number").bytes().all(|digit| digit == b'0');
    (offers_none && !devices(case).is_empty()).then(|| {
        let finding = case.by_log(Id::RdmaPluginOffersNone, found);
        let finding = case.and_log(finding, case.logged(&[LogEvent::RdmaPluginMisses], &[]));
        case.and_log(finding, case.logged(&[LogEvent::RdmaPluginSelectsNone], &[]))
    })
}

fn netns(case: &Case<'_>) -> Option<Finding> {
    let (path, mode) = &case.symptoms.rdma.netns_mode;
    let is_exclusive = mode.as_ref().ok()?.as_deref() == Some("N");
    let plugin = case.process(Role::RdmaDevicePlugin);
    let found = case.logged(&[LogEvent::RdmaPluginNetns], &[LogEvent::RdmaPluginExposes]);
    let is_asked = plugin.is_some() || found.is_some();
    let plugin =
        plugin.map(|it| (it.directory.display(), format!("{} is the shared device plugin", it.name)));
    let finding = Finding::new(Id::NetnsExclusive, path.display(), "N: exclusive").all(plugin);
    (is_exclusive && is_asked).then(|| case.and_log(finding, found))
}

/// Not on Arm: its servers are made to translate for GPUs.
fn iommu(case: &Case<'_>) -> Option<Finding> {
    if case.seen.kernel.machine == "aarch64" || !case.has_gpu() {
        return None;
    }
    let translated =
        |function: &&PciFunction| function.iommu.as_deref().is_some_and(|r#type| r#type.starts_with("DMA"));
    let evidence = case.symptoms.gpus().chain(nics(case)).filter(translated).map(|function| {
        let source = format!("{DEVICES}/{}/iommu_group/type", function.address);
        (source, function.iommu.clone().unwrap_or_default())
    });
    Finding::of(Id::IommuTranslates, evidence).or_else(|| iommu_by_command_line(case))
}

/// Without a group, the kernel's arguments decide.
fn iommu_by_command_line(case: &Case<'_>) -> Option<Finding> {
    let has_types = case.symptoms.gpus().any(|gpu| gpu.iommu.is_some());
    let line = case.symptoms.host.command_line.as_ref().ok()?.as_ref().filter(|_| !has_types)?;
    let has = |argument: &str| line.split_ascii_whitespace().any(|word| word == argument);
    let is_on = ["intel_iommu=on", "amd_iommu=on", "iommu=force", "iommu.passthrough=0", "iommu.strict=1"]
        .into_iter()
        .find(|argument| has(argument))?;
    let passes = has("iommu=pt") || has("iommu.passthrough=1");
    let seen = format!("{is_on}, and neither iommu=pt nor iommu.passthrough=1");
    (!passes).then(|| Finding::new(Id::IommuTranslates, "/proc/cmdline", seen))
}

fn memlock(case: &Case<'_>) -> Option<Finding> {
    let (path, limit) = case.symptoms.host.memlock.as_ref()?;
    let soft = limit.split_ascii_whitespace().next()?;
    let bytes: u64 = soft.parse().ok()?;
    let seen = format!("Max locked memory: {bytes} bytes");
    (bytes < LITTLE).then(|| Finding::new(Id::MemlockLimited, path.display(), seen))
}
