// SPDX-License-Identifier: Apache-2.0
//! The devices that Fabric Manager will look for: `NVLink` 5 management devices, and their RDMA devices.

use crate::ready::files::read::{beginning, link, lstat, names, unreadable};
use crate::ready::observation::{Management, Seen};
use crate::ready::probe::pci::{MELLANOX, functions, vendor};
use crate::ready::sort;
use memchr::memmem;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

/// In the keyword `SMDL` of the Vital Product Data of the `ConnectX`-7 functions that lead to the switches.
const SIGN: &[u8] = b"SW_MNG";
/// PCI addresses Vital Product Data with 15 bits.
const VPD: u64 = 32 * 1024;

/// Most devices have no vpd, so one call per device shows that; reading a vendor takes five.
pub(super) fn management(sys: &Path) -> Management {
    let functions = match functions(sys) {
        Ok(functions) => functions,
        Err(why) => return Management::Unreadable(why),
    };
    let mut found = Vec::new();
    let mut unread = None;
    for function in functions {
        match is_management(&function.path()) {
            Ok(true) => found.push(function.file_name().to_string_lossy().into_owned()),
            Ok(false) => {}
            Err(why) => unread = Some(why),
        }
    }
    sort::sort(&mut found);
    match unread {
        _ if !found.is_empty() => Management::Found(found),
        Some(why) => Management::Unreadable(why),
        None => Management::None,
    }
}

/// A vpd that cannot be read counts only of a Mellanox function.
fn is_management(function: &Path) -> Seen<bool> {
    let vpd = function.join("vpd");
    if lstat(&vpd).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(false);
    }
    if vendor(&function.join("vendor"))? != MELLANOX {
        return Ok(false);
    }
    let bytes = beginning(&vpd, VPD).map_err(|error| unreadable(&vpd, &error))?;
    Ok(memmem::find(&bytes, SIGN).is_some())
}

/// The RDMA devices by the PCI addresses of their functions; none where the class is not there.
pub(super) fn rdma_devices(sys: &Path) -> Seen<BTreeMap<String, String>> {
    let class = sys.join("class/infiniband");
    let devices = names(&class)?.unwrap_or_default();
    Ok(devices.into_iter().filter_map(|name| Some((address(&class.join(&name))?, name))).collect())
}

/// The PCI function that a class device is of: `…/0000:18:00.0/infiniband/mlx5_0`, or by its link `device`.
#[must_use]
pub fn address(device: &Path) -> Option<String> {
    let by_device = link(&device.join("device")).ok();
    let by_path = || link(device).ok()?.parent()?.parent().map(Path::to_owned);
    let function = by_device.or_else(by_path)?;
    let name = function.file_name()?.to_str()?;
    name.contains(':').then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Devices by their names, each with its vendor and vpd.
    fn machine(devices: &[(&str, &str, Option<&[u8]>)]) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        fs::create_dir_all(sys.path().join("bus/pci/devices")).unwrap();
        for (name, vendor, vpd) in devices {
            let directory = sys.path().join("bus/pci/devices").join(name);
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("vendor"), vendor).unwrap();
            if let Some(vpd) = vpd {
                fs::write(directory.join("vpd"), vpd).unwrap();
            }
        }
        sys
    }

    const NAME: &str = "0000:18:00.0";

    fn judged(vpd: Option<&[u8]>) -> Management {
        management(machine(&[(NAME, "0x15b3", vpd)]).path())
    }

    #[test]
    fn the_sign_of_the_management_device_is_found_anywhere_in_the_vpd_and_not_after_it() {
        let at = |offset: usize| [&vec![0xff; offset], b"SMDL\x06SW_MNG".as_slice()].concat();
        let end = usize::try_from(VPD).unwrap();
        for offset in [0, 1, 4000, end - 11] {
            assert!(matches!(judged(Some(&at(offset))), Management::Found(_)), "{offset}");
        }
        assert_eq!(judged(Some(&at(end - 10))), Management::None, "cut by the end");
        assert_eq!(judged(Some(&at(end))), Management::None, "behind the end");
    }

    #[test]
    fn garbage_and_an_empty_vpd_are_not_a_management_device() {
        for vpd in [b"".as_slice(), b"SW_MN", b"sw_mng", b"\0\xff\xfe", b"SW MNG"] {
            assert_eq!(judged(Some(vpd)), Management::None);
        }
        assert_eq!(judged(None), Management::None);
    }

    #[test]
    fn an_unreadable_vpd_is_unknown_unless_another_device_is_the_management_device() {
        let other = "0000:19:00.0";
        let sys = machine(&[(NAME, "0x15b3", None), (other, "0x15b3", None)]);
        let [vpd, good] = [NAME, other].map(|name| sys.path().join("bus/pci/devices").join(name).join("vpd"));
        fs::create_dir(&vpd).unwrap();
        assert!(matches!(management(sys.path()), Management::Unreadable(why) if why.path == vpd));
        fs::write(good, "SW_MNG").unwrap();
        assert_eq!(management(sys.path()), Management::Found(vec![other.to_owned()]));
        let nowhere = tempfile::tempdir().unwrap();
        assert!(matches!(management(nowhere.path()), Management::Unreadable(_)));
    }

    #[test]
    fn only_the_vpd_of_mellanox_counts() {
        let sign = Some(SIGN);
        assert_eq!(management(machine(&[(NAME, "0x10de", sign)]).path()), Management::None);
        let hidden = machine(&[(NAME, "odd", sign)]);
        assert!(
            matches!(management(hidden.path()), Management::Unreadable(why) if why.path.ends_with("vendor"))
        );
        assert_eq!(management(machine(&[(NAME, "odd", None)]).path()), Management::None);
    }

    /// Each GPU and disk has a vpd that only root may read.
    #[test]
    fn the_vpd_of_other_vendors_is_not_opened() {
        let sys = machine(&[(NAME, "0x10de", None)]);
        let vpd = sys.path().join("bus/pci/devices").join(NAME).join("vpd");
        std::os::unix::fs::symlink("vpd", vpd).unwrap();
        let _ = crate::ready::files::unread::taken();
        assert_eq!(management(sys.path()), Management::None);
        assert_eq!(crate::ready::files::unread::taken(), [], "it cannot be opened");
    }

    #[test]
    fn a_vpd_that_is_a_fifo_does_not_hang() {
        let sys = machine(&[(NAME, "0x15b3", None)]);
        let vpd = sys.path().join("bus/pci/devices").join(NAME).join("vpd");
        nix::unistd::mkfifo(&vpd, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(management(sys.path()), Management::None);
    }
}
