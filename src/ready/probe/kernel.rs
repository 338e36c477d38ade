// SPDX-License-Identifier: Apache-2.0
//! The running kernel and the node's names: below `--proc`, so another machine's tree can be
//! judged anywhere; uname(2) where a file is missing.

use crate::ready::files::read::small;
use crate::ready::observation::Kernel;
use std::ffi::OsStr;
use std::path::Path;

/// The running kernel and the node's names.
#[must_use]
pub fn read(proc: &Path) -> Kernel {
    let file = |name: &str| match small(&proc.join("sys/kernel").join(name)) {
        // These become parts of paths.
        Ok(text) => text.map(|text| if text.contains('/') { String::new() } else { text }),
        Err(_) => Some(String::new()),
    };
    let uname = nix::sys::utsname::uname().ok();
    let or_uname = |name: &str, field: fn(&nix::sys::utsname::UtsName) -> &OsStr| {
        let own = || uname.as_ref().map(|uname| field(uname).to_string_lossy().into_owned());
        file(name).or_else(own).unwrap_or_default()
    };
    Kernel {
        release: or_uname("osrelease", |uname| uname.release()),
        machine: or_uname("arch", |uname| uname.machine()),
        boot_id: boot_id(proc),
        hostname: or_uname("hostname", |uname| uname.nodename()),
    }
}

/// The running kernel and the node's names by uname(2), which reads no file system.
#[must_use]
pub fn own() -> Kernel {
    let uname = nix::sys::utsname::uname().ok();
    let or_empty = |field: fn(&nix::sys::utsname::UtsName) -> &OsStr| {
        uname.as_ref().map(|uname| field(uname).to_string_lossy().into_owned()).unwrap_or_default()
    };
    Kernel {
        release: or_empty(|uname| uname.release()),
        machine: or_empty(|uname| uname.machine()),
        boot_id: None,
        hostname: or_empty(|uname| uname.nodename()),
    }
}

/// Differs for every boot.
#[must_use]
pub fn boot_id(proc: &Path) -> Option<String> {
    let id = small(&proc.join("sys/kernel/random/boot_id")).ok().flatten();
    id.filter(|id| !id.is_empty() && !id.contains('/'))
}
