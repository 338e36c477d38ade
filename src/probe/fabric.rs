// SPDX-License-Identifier: Apache-2.0
//! What Fabric Manager will look for: the `NVLink` 5 management devices, and their RDMA devices.

use super::rdma::{address, names};
use super::read::{open, unreadable};
use crate::observation::{Management, Seen, Unreadable};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// In the keyword `SMDL` of the Vital Product Data of the `ConnectX`-7 functions that lead to the switches.
const SIGN: &[u8] = b"SW_MNG";
/// PCI addresses Vital Product Data with 15 bits.
const VPD: u64 = 32 * 1024;

/// `functions` are the Mellanox functions; `hidden` is a device that may be one more.
pub(super) fn management(functions: &[PathBuf], hidden: Option<&Unreadable>) -> Management {
    let mut found = Vec::new();
    let mut unread = hidden.cloned();
    for function in functions {
        match is_management(&function.join("vpd")) {
            Ok(true) => found.extend(function.file_name().map(|name| name.to_string_lossy().into_owned())),
            Ok(false) => {}
            Err(why) => unread = Some(why),
        }
    }
    found.sort();
    match unread {
        _ if !found.is_empty() => Management::Found(found),
        Some(why) => Management::Unreadable(why),
        None => Management::None,
    }
}

/// A virtual function has no vpd, and a device may have none.
fn is_management(vpd: &Path) -> Seen<bool> {
    let read = || -> io::Result<bool> {
        let mut bytes = Vec::new();
        open(vpd)?.take(VPD).read_to_end(&mut bytes)?;
        Ok(memchr::memmem::find(&bytes, SIGN).is_some())
    };
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        read => read.map_err(|error| unreadable(vpd, &error)),
    }
}

/// The RDMA devices by the PCI addresses of their functions; none where the class is not there.
pub(super) fn rdma_devices(sys: &Path) -> Seen<BTreeMap<String, String>> {
    let class = sys.join("class/infiniband");
    let devices = names(&class)?.unwrap_or_default();
    Ok(devices.into_iter().filter_map(|name| Some((address(&class.join(&name))?, name))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn told(vpd: Option<&[u8]>) -> Management {
        let function = tempfile::tempdir().unwrap();
        if let Some(bytes) = vpd {
            fs::write(function.path().join("vpd"), bytes).unwrap();
        }
        management(&[function.path().to_owned()], None)
    }

    #[test]
    fn the_sign_is_found_anywhere_in_it_and_nowhere_behind_it() {
        let at = |offset: usize| [&vec![0xff; offset], b"SMDL\x06SW_MNG".as_slice()].concat();
        let end = usize::try_from(VPD).unwrap();
        for offset in [0, 1, 4000, end - 11] {
            assert!(matches!(told(Some(&at(offset))), Management::Found(_)), "{offset}");
        }
        assert_eq!(told(Some(&at(end - 10))), Management::None, "cut by the end");
        assert_eq!(told(Some(&at(end))), Management::None, "behind the end");
    }

    #[test]
    fn garbage_and_nothing_are_no_management_device() {
        for vpd in [b"".as_slice(), b"SW_MN", b"sw_mng", b"\0\xff\xfe", b"SW MNG"] {
            assert_eq!(told(Some(vpd)), Management::None);
        }
        assert_eq!(told(None), Management::None);
    }

    #[test]
    fn what_cannot_be_read_is_unknown_unless_another_is_one() {
        let functions = tempfile::tempdir().unwrap();
        let [one, other] = ["0000:18:00.0", "0000:19:00.0"].map(|name| functions.path().join(name));
        fs::create_dir_all(one.join("vpd")).unwrap();
        fs::create_dir(&other).unwrap();
        let both = [one.clone(), other.clone()];
        assert!(
            matches!(management(&both, None), Management::Unreadable(why) if why.path == one.join("vpd"))
        );
        fs::write(other.join("vpd"), "SW_MNG").unwrap();
        assert_eq!(management(&both, None), Management::Found(vec!["0000:19:00.0".to_owned()]));
        let hidden = Unreadable { path: "/vendor".into(), why: "no vendor".to_owned() };
        assert_eq!(management(&[], Some(&hidden)), Management::Unreadable(hidden));
    }

    #[test]
    fn a_fifo_in_its_place_does_not_hang() {
        let function = tempfile::tempdir().unwrap();
        nix::unistd::mkfifo(&function.path().join("vpd"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(management(&[function.path().to_owned()], None), Management::None);
    }
}
