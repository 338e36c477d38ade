// SPDX-License-Identifier: Apache-2.0
//! The NICs and the GPUs on the PCI bus.

use super::{Case, DEVICES, unreadable};
use crate::finding::{Finding, Id};
use crate::log::LogEvent;
use crate::symptoms::PciFunction;
use peermem_gate::ready::condition::Reason;

const VFIO: &str = "vfio-pci";
/// The first device that `mlx5_core` drives (pci.ids); ConnectX-3 and older are of `mlx4_core`.
const CONNECT_IB: u16 = 0x1011;
/// PCI base class of network controllers; `InfiniBand` is one of its subclasses.
const NETWORK: u32 = 0x02;

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let needs = !case.has(Reason::RdmaNotRequested) || case.wants_devices();
    if case.has(Reason::NoRdmaDevice) {
        found.extend(requested_without(case));
    } else {
        match &case.symptoms.nics {
            Ok(nics) => {
                let only_vfio = only_vfio(nics).filter(|_| needs);
                let without_driver = only_vfio.or_else(|| without_driver(case, nics));
                found.extend([without_driver, firmware(case, nics)].into_iter().flatten());
            }
            // The condition says it.
            Err(_) if case.has(Reason::DevicesUnreadable) || !needs => {}
            Err(why) => found.push(unreadable(why)),
        }
    }
    if case.symptoms.nvidias.is_ok() && case.symptoms.gpus().next().is_none() && case.line("nvidia").is_none()
    {
        found.push(Finding::new(Id::NoGpu, DEVICES, "no display device is of vendor 0x10de"));
    }
    found
}

/// Since 26.3 the driver container names what the operator waits for; before, the operator did not wait.
fn requested_without(case: &Case<'_>) -> Option<Finding> {
    let (path, ready) = &case.symptoms.survey.driver_ready;
    let without = |finding: Finding| finding.seen(DEVICES, "no PCI device is of vendor 0x15b3");
    let finding =
        |source: String, seen: &str| Some(without(Finding::new(Id::RdmaRequestedWithoutNic, source, seen)));
    match ready {
        _ if case.line("nvidia_peermem").is_some() => None,
        Some(text) => {
            let line =
                text.lines().map(str::trim).find(|line| line.starts_with("GPU_DIRECT_RDMA_ENABLED:"))?;
            line.ends_with("true").then(|| finding(path.display().to_string(), line))?
        }
        _ if case.expected.rdma_requested.as_deref() == Some("true") => {
            finding("GPU_DIRECT_RDMA_ENABLED".to_owned(), "true")
        }
        _ => None,
    }
}

/// Bridges and DMA engines of a `BlueField` have no driver, and virtual functions are left unbound on purpose.
fn physical(nics: &[PciFunction]) -> impl Iterator<Item = &PciFunction> {
    nics.iter().filter(|nic| !nic.is_virtual && nic.class.is_none_or(|class| class >> 16 == NETWORK))
}

fn source(nic: &PciFunction) -> String {
    format!("{DEVICES}/{}/driver", nic.address)
}

fn only_vfio(nics: &[PciFunction]) -> Option<Finding> {
    let is_vfio = |nic: &PciFunction| nic.driver.as_deref() == Some(VFIO);
    let all = physical(nics).map(|nic| (source(nic), VFIO));
    Finding::of(Id::NicOnlyVfio, all).filter(|_| physical(nics).all(is_vfio))
}

/// Whether or not RDMA is asked for: a driver that is live takes each of its devices.
fn without_driver(case: &Case<'_>, nics: &[PciFunction]) -> Option<Finding> {
    let is_mlx5s = |nic: &&PciFunction| nic.device.is_none_or(|device| device >= CONNECT_IB);
    let unbound = physical(nics).filter(|nic| nic.driver.is_none() && nic.class.is_some()).filter(is_mlx5s);
    let unbound = unbound.map(|nic| (source(nic), "does not exist, and mlx5_core is live"));
    let finding = Finding::of(Id::NicWithoutDriver, unbound).filter(|_| case.is_live("mlx5_core"))?;
    Some(case.and_log(finding, case.logged(&[LogEvent::NicProbeFailed], &[])))
}

/// The kernel's word on a NIC that has no driver, or no RDMA device any more.
fn firmware(case: &Case<'_>, nics: &[PciFunction]) -> Option<Finding> {
    let found = case.logged(&[LogEvent::NicFirmwareFailed], &[])?;
    let devices = case.symptoms.rdma.devices.as_ref().ok().and_then(Option::as_deref).unwrap_or_default();
    let has_device = |nic: &PciFunction| devices.iter().any(|one| one.address.as_ref() == Some(&nic.address));
    let is_it = |nic: &PciFunction| {
        nic.address == Case::field(found, "bdf") && (nic.driver.is_none() || !has_device(nic))
    };
    nics.iter().any(is_it).then(|| case.by_log(Id::NicFirmwareFailed, found))
}
