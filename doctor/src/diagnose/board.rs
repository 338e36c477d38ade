// SPDX-License-Identifier: Apache-2.0
//! What this machine is: how its GPUs reach each other, by their models, and who sets that up.

use super::Case;
use crate::finding::{Group, Id};
use peermem_gate::ready::observation::Management;
use std::ops::RangeInclusive;

/// How GPUs of a model reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    /// By the bus, by bridges, or by wires from one to the other: no program sets them up.
    Direct,
    /// By `NVSwitches` on their board.
    Switches,
    /// By the switches of a rack, each of which has a Fabric Manager of its own.
    Rack,
}

/// Who sets the fabric up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FabricManagerPlace {
    /// There is nothing to set up.
    Nowhere,
    Here,
    /// This is a guest, and the switches are its host's.
    Host,
    Rack,
}

/// Words of the driver's name for a model, upper case and with spaces; its links, and its ids (pci.ids). The first
/// row counts.
const MODELS: [(&str, Links, &[u16]); 23] = [
    ("NVSWITCH", Links::Switches, &[]),
    (
        "PCIE",
        Links::Direct,
        &[0x1db4, 0x1db6, 0x1df6, 0x20b1, 0x20b5, 0x20f1, 0x20f5, 0x20f6, 0x2322, 0x2331],
    ),
    (" NVL", Links::Direct, &[0x2321, 0x233a, 0x233b]),
    ("A30", Links::Direct, &[0x20b7, 0x20b9]),
    ("GH200", Links::Direct, &[0x2342, 0x2345, 0x2348]),
    ("V100 SXM2", Links::Direct, &[0x1db1, 0x1db5, 0x1df5]),
    ("V100 SXM3", Links::Switches, &[0x1db8]),
    ("A100 SXM4", Links::Switches, &[0x20b0, 0x20b2]),
    ("A800 SXM4", Links::Switches, &[0x20bd, 0x20f3]),
    ("H100 80GB HBM3", Links::Switches, &[0x2330]),
    ("H100 64GB HBM2", Links::Switches, &[0x2336, 0x2337]),
    ("H100 SXM5", Links::Switches, &[0x2338, 0x2339]),
    ("H800", Links::Switches, &[0x2324]),
    ("H200", Links::Switches, &[0x2335]),
    ("H20", Links::Switches, &[0x2329, 0x232c]),
    ("GB200", Links::Rack, &[0x2941]),
    ("GB300", Links::Rack, &[0x31a1, 0x31c2, 0x31c3]),
    ("B100", Links::Switches, &[0x2920, 0x29bc]),
    ("B200", Links::Switches, &[0x2901, 0x2909]),
    ("B300", Links::Switches, &[0x3182, 0x3183]),
    ("L40", Links::Direct, &[]),
    ("RTX", Links::Direct, &[]),
    ("TESLA T4", Links::Direct, &[]),
];
/// Chips of which a model has `NVLink` switches: GV100, GA100, GH100, GB100 and GB102, GB110. All others have none.
const SWITCHED_CHIPS: [RangeInclusive<u16>; 5] =
    [0x1d80..=0x1dff, 0x2080..=0x20ff, 0x2300..=0x23ff, 0x2900..=0x29ff, 0x3180..=0x31ff];
/// Findings of the fabric that say whose it is, or that do not need any.
const ANYWHERE: [Id; 3] = [Id::CudaNotInitialised, Id::FabricOfTheHost, Id::ImexSessionTaken];

fn of_device(device: u16) -> Option<Links> {
    let row = MODELS.iter().find(|(_, _, ids)| ids.contains(&device)).map(|(_, links, _)| *links);
    row.or_else(|| (!SWITCHED_CHIPS.iter().any(|chip| chip.contains(&device))).then_some(Links::Direct))
}

/// The driver's name of the model, or a line of lspci.
fn of_name(name: &str) -> Option<Links> {
    let id = name.split("[10de:").nth(1).and_then(|id| u16::from_str_radix(id.get(..4)?, 16).ok());
    if let Some(links) = id.and_then(of_device) {
        return Some(links);
    }
    let name = name.to_uppercase().replace('-', " ");
    MODELS.iter().find(|(words, ..)| name.contains(words)).map(|(_, links, _)| *links)
}

impl Case<'_> {
    /// `None` where the models are not known.
    pub(super) fn fabric_manager_place(&self) -> Option<FabricManagerPlace> {
        let has_management =
            self.seen.fabric.as_ref().is_some_and(|fabric| matches!(fabric.management, Management::Found(_)));
        if has_management || self.symptoms.switches().next().is_some() {
            return Some(FabricManagerPlace::Here);
        }
        let devices: Option<Vec<_>> = self.symptoms.gpus().map(|gpu| of_device(gpu.device?)).collect();
        let names = self.symptoms.driver.models.1.iter().map(|name| of_name(name));
        let models = devices.filter(|models| !models.is_empty()).or_else(|| names.collect());
        let models = models.filter(|models| !models.is_empty())?;
        Some(match (models.contains(&Links::Rack), models.contains(&Links::Switches)) {
            (true, _) => FabricManagerPlace::Rack,
            (_, true) if self.symptoms.host.is_virtual => FabricManagerPlace::Host,
            (_, true) => FabricManagerPlace::Here,
            _ => FabricManagerPlace::Nowhere,
        })
    }

    /// Where Fabric Manager is another machine's, nobody misses one here.
    pub(super) fn of_whose_machine(&self, id: Id) -> Id {
        let is_elsewhere =
            matches!(self.fabric_manager_place(), Some(FabricManagerPlace::Host | FabricManagerPlace::Rack));
        if is_elsewhere && id == Id::GpuFabricManagerMissing { Id::FabricOfTheHost } else { id }
    }

    /// A finding about this machine's own fabric, which it does not have.
    pub(super) fn is_of_another_machine(&self, id: Id) -> bool {
        id.group() == Group::Fabric
            && match self.fabric_manager_place() {
                None | Some(FabricManagerPlace::Here) => false,
                Some(FabricManagerPlace::Nowhere) => id != Id::CudaNotInitialised,
                Some(_) => !ANYWHERE.contains(&id),
            }
    }
}
