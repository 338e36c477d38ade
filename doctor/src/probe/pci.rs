// SPDX-License-Identifier: Apache-2.0
//! The functions of a vendor on the PCI bus.

use crate::symptoms::{PciFunction, Region};
use peermem_gate::ready::files::read::{entries, link, small, unreadable};
use peermem_gate::ready::observation::Seen;
use peermem_gate::ready::probe::vendor;
use peermem_gate::survey::expected::FUNCTIONS;
use std::path::Path;

/// Every function of one vendor. The look stops at the first Mellanox one; `doctor` wants them all.
pub(super) fn functions(sys: &Path, wanted: u16) -> Seen<Vec<PciFunction>> {
    let devices = sys.join("bus/pci/devices");
    let entries = entries(&devices, FUNCTIONS).map_err(|error| unreadable(&devices, &error))?;
    let mut functions = Vec::new();
    for entry in entries {
        let directory = entry.path();
        if vendor(&directory.join("vendor"))? == wanted {
            functions.push(function(&directory));
        }
    }
    functions.sort_by(|one, other| one.address.cmp(&other.address));
    Ok(functions)
}

/// One function of the bus.
pub(super) fn function(directory: &Path) -> PciFunction {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let attribute = |file: &str| small(&directory.join(file)).ok().flatten();
    let class = attribute("class").and_then(|text| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok());
    let mut function = PciFunction {
        address: name(directory).unwrap_or_default(),
        class,
        device: attribute("device").and_then(|text| u16::from_str_radix(text.strip_prefix("0x")?, 16).ok()),
        driver: link(&directory.join("driver")).ok().as_deref().and_then(name),
        is_virtual: directory.join("physfn").symlink_metadata().is_ok(),
        regions: Vec::new(),
        iommu: attribute("iommu_group/type"),
    };
    if function.is_gpu() {
        function.regions = attribute("resource").map(|text| regions(&text)).unwrap_or_default();
    }
    function
}

/// Of the first six lines, the device's own BARs: `0x00000000f0000000 0x00000000f0ffffff 0x0000000000040200`.
fn regions(resource: &str) -> Vec<Region> {
    let number = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let region = |line: &str| {
        let mut words = line.split_ascii_whitespace().map(number);
        Some(Region { start: words.next()??, end: words.next()??, flags: words.next()?? })
    };
    resource.lines().take(6).filter_map(region).collect()
}
