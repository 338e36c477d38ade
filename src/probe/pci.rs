// SPDX-License-Identifier: Apache-2.0
//! The search for a Mellanox device: only by vendor, as NVIDIA's driver container searches.

use crate::files::read::{small, unreadable};
use crate::observation::{Nic, Unreadable};
use std::path::Path;

/// The PCI vendor.
pub const MELLANOX: u16 = 0x15b3;

pub(super) fn read(sys: &Path) -> Nic {
    let devices = sys.join("bus/pci/devices");
    let entries = match devices.read_dir() {
        Ok(entries) => entries,
        Err(error) => return Nic::Unreadable(unreadable(&devices, &error)),
    };
    let mut unreadable_one = None;
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return Nic::Unreadable(unreadable(&devices, &error)),
        };
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
