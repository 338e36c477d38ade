// SPDX-License-Identifier: Apache-2.0
//! kubelet's own list of devices: which it offers, and which pods got some (kubernetes,
//! `pkg/kubelet/cm/devicemanager/checkpoint`).

use peermem_gate::ready::files::read::whole;
use peermem_gate::ready::files::root::resolve;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Where kubelet keeps it, and the sockets of device plugins beside it.
pub(super) const DIRECTORY: &str = "var/lib/kubelet/device-plugins";
const FILE: &str = "kubelet_internal_checkpoint";
/// Bytes: of hundreds of pods with a device each.
const LONGEST: u64 = 16 << 20;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Checkpoint {
    data: DeviceLists,
}

/// The two lists.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct DeviceLists {
    /// The devices that pods got.
    pod_device_entries: Option<Vec<DeviceEntry>>,
    /// The healthy devices by resource.
    registered_devices: Option<BTreeMap<String, Option<Vec<String>>>>,
}

/// Devices of one resource that a container got.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct DeviceEntry {
    /// The pod's UID.
    #[serde(rename = "PodUID")]
    pub(super) pod: String,
    /// Such as `nvidia.com/gpu`.
    #[serde(rename = "ResourceName")]
    pub(super) resource: String,
}

impl DeviceLists {
    /// Nothing where there is none, or where it cannot be understood.
    pub(super) fn read(root: &Path) -> Self {
        let path = root.join(DIRECTORY).join(FILE);
        let text = resolve(root, &path).and_then(|real| whole(&real, LONGEST));
        let checkpoint: Checkpoint =
            text.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        checkpoint.data
    }

    /// The devices that pods got.
    pub(super) fn into_entries(self) -> Vec<DeviceEntry> {
        self.pod_device_entries.unwrap_or_default()
    }

    /// The healthy devices of each resource.
    pub(super) fn into_offered(self) -> BTreeMap<String, Vec<String>> {
        let lists = self.registered_devices.unwrap_or_default().into_iter();
        lists.map(|(resource, devices)| (resource, devices.unwrap_or_default())).collect()
    }
}
