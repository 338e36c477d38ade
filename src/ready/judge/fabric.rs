// SPDX-License-Identifier: Apache-2.0
//! `ManagementDevicePresent`, `UmadLive` and `RdmaDevicePresent`: would Fabric Manager find the `NVLink` 5 switches
//! now?
//!
//! Fabric Manager looks once, when it starts, at `/sys/class/infiniband/*/device/vpd` (gpu-driver-container,
//! `_assert_nvlink5_system`). An RDMA device that comes later is not seen, and every GPU of the node ends with CUDA
//! error 802.

use crate::ready::condition::{ConditionType, Reason};
use crate::ready::consumer::UMAD;
use crate::ready::judge::modules::{ModuleState, Origin, not_live, state};
use crate::ready::judge::nic;
use crate::ready::mofed::MofedPlace;
use crate::ready::node::Expectations;
use crate::ready::observation::{Fabric, Management, Observation};
use crate::ready::verdict::Condition;

/// Nothing, where that was not looked at.
pub(super) fn judge(expected: &Expectations, seen: &Observation) -> Vec<Condition> {
    let Some(fabric) = &seen.fabric else { return Vec::new() };
    vec![
        management_device_present(expected, seen, fabric),
        umad_live(expected, seen),
        rdma_device_present(fabric),
    ]
}

fn management_device_present(expected: &Expectations, seen: &Observation, fabric: &Fabric) -> Condition {
    let condition =
        |reason, message: String| Condition::new(ConditionType::ManagementDevicePresent, reason, message);
    match &fabric.management {
        Management::Found(addresses) => condition(
            Reason::ManagementDeviceFound,
            format!("the vpd of PCI device {} contains SW_MNG", addresses.join(", ")),
        ),
        Management::None if nic::is_away(expected, seen) => condition(
            Reason::ManagementDeviceAway,
            "no Mellanox device is on the PCI bus now, so none can be an NVLink 5 management device"
                .to_owned(),
        ),
        Management::None => condition(
            Reason::NoManagementDevice,
            "no Mellanox PCI device's vpd contains SW_MNG (NVLink 5)".to_owned(),
        ),
        Management::Unreadable(why) => condition(
            Reason::VpdUnreadable,
            format!("cannot tell whether there is an NVLink 5 management device: {why}"),
        ),
    }
}

fn umad_live(expected: &Expectations, seen: &Observation) -> Condition {
    let condition = |reason, message: String| Condition::new(ConditionType::UmadLive, reason, message);
    let state = state(&seen.modules, UMAD);
    if let Some((reason, how)) = not_live(&state) {
        return condition(reason, format!("{UMAD}: {how}"));
    }
    match (state, expected.mofed) {
        (ModuleState::Live(Origin::InTree), MofedPlace::Container) => {
            condition(Reason::ModuleInTree, format!("{UMAD} is live, but it is the kernel's own"))
        }
        (ModuleState::Live(Origin::Unknown(why)), MofedPlace::Container) => {
            condition(Reason::ModulesUnreadable, format!("cannot tell whether {UMAD} is MOFED's: {why}"))
        }
        _ => condition(Reason::AllLive, format!("{UMAD} is live")),
    }
}

fn rdma_device_present(fabric: &Fabric) -> Condition {
    let condition =
        |reason, message: String| Condition::new(ConditionType::RdmaDevicePresent, reason, message);
    let devices = match &fabric.rdma_devices {
        Ok(devices) => devices,
        Err(why) => {
            return condition(Reason::RdmaDevicesUnreadable, format!("cannot read the RDMA devices: {why}"));
        }
    };
    let addresses = match &fabric.management {
        Management::Found(addresses) => addresses,
        Management::None => {
            return condition(
                Reason::FabricDeviceMissing,
                "no RDMA device is needed, because there is no management device".to_owned(),
            );
        }
        Management::Unreadable(why) => {
            return condition(
                Reason::VpdUnreadable,
                format!("cannot tell which RDMA device is needed: {why}"),
            );
        }
    };
    let missing: Vec<_> =
        addresses.iter().filter(|address| !devices.contains_key(*address)).cloned().collect();
    if missing.is_empty() {
        let found = addresses.iter().map(|address| format!("{} of {address}", devices[address]));
        return condition(Reason::RdmaDeviceFound, found.collect::<Vec<_>>().join(", "));
    }
    condition(
        Reason::FabricDeviceMissing,
        format!("no device in /sys/class/infiniband is of PCI device {}", missing.join(", ")),
    )
}
