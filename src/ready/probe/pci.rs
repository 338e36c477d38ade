// SPDX-License-Identifier: Apache-2.0
//! The search for a Mellanox device: only by vendor, as NVIDIA's driver container searches.

use crate::ready::files::read::{entries, small, unreadable};
use crate::ready::observation::{Nic, Seen, Unreadable};
use std::fs::DirEntry;
use std::path::Path;

/// The PCI vendor.
pub const MELLANOX: u16 = 0x15b3;

/// Far more PCI functions than any machine has.
const DEVICES: usize = 100_000;

/// The functions on the PCI bus.
///
/// # Errors
/// The list cannot be read, or is empty: every GPU node has PCI devices, so they are hidden here or not enumerated
/// yet.
pub(super) fn functions(sys: &Path) -> Seen<Vec<DirEntry>> {
    let devices = sys.join("bus/pci/devices");
    match entries(&devices, DEVICES) {
        Ok(functions) if functions.is_empty() => {
            let why = "it lists no PCI device: they are hidden here, or not enumerated yet".to_owned();
            Err(Unreadable { path: devices, why })
        }
        Ok(functions) => Ok(functions),
        Err(error) => Err(unreadable(&devices, &error)),
    }
}

/// A signature of the names on the PCI bus, without a list of them: it is compared at every look. Events may be
/// missing (`hostUsers: false`), and a device that was found may have gone.
pub(super) fn signature(sys: &Path) -> u64 {
    let Ok(listing) = sys.join("bus/pci/devices").read_dir() else { return 0 };
    let names = listing.take(DEVICES).filter_map(|entry| Some(super::hash(&entry.ok()?.file_name())));
    // In any order.
    names.fold(1, u64::wrapping_add)
}

/// The search itself.
#[must_use]
pub fn read(sys: &Path) -> Nic {
    let functions = match functions(sys) {
        Ok(functions) => functions,
        Err(why) => return Nic::Unreadable(why),
    };
    let mut unreadable_one = None;
    for entry in functions {
        match vendor(&entry.path().join("vendor")) {
            Ok(MELLANOX) => return Nic::Found(entry.file_name().to_string_lossy().into_owned()),
            Ok(_) => {}
            Err(why) => unreadable_one = Some(why),
        }
    }
    unreadable_one.map_or(Nic::None, Nic::Unreadable)
}

/// The vendor in a function's file `vendor`.
///
/// # Errors
/// The file cannot be read, or contains no vendor.
pub fn vendor(path: &Path) -> Result<u16, Unreadable> {
    let text = small(path)?.unwrap_or_default();
    // Four digits, as the kernel prints it: a shorter one is cut off, and no other vendor's.
    let hex = text.strip_prefix("0x").filter(|hex| hex.len() == 4);
    let number = hex.and_then(|hex| u16::from_str_radix(hex, 16).ok());
    number.ok_or_else(|| {
        let shown: String = text.chars().take(20).collect();
        Unreadable { path: path.to_owned(), why: format!("{shown:?} is not a PCI vendor") }
    })
}
