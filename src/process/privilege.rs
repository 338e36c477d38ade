// SPDX-License-Identifier: Apache-2.0
//! Privileges: whether this process may load modules at all, and the capabilities of others.

use crate::ready::files::read::{present, small};
use crate::ready::node::Places;
use crate::ready::observation::{Seen, Signatures, Unreadable};
use std::path::Path;

/// Capabilities (linux/capability.h).
pub const SYS_MODULE: u32 = 16;

/// A capability (linux/capability.h).
const SYS_CHROOT: u32 = 18;
/// The content of `uid_map` in the initial user namespace (`user_namespaces(7)`).
const ALL_IDS: [&str; 3] = ["0", "0", "4294967295"];

/// The effective capabilities that a process has in the initial user namespace, as a mask. In another user namespace
/// any process may have all of them.
///
/// # Errors
/// They cannot be read, or are not there.
pub fn effective(process: &Path) -> Seen<u64> {
    let path = process.join("status");
    let mask = present(&path)?.and_then(|status| capabilities(&status));
    let without = || Unreadable { path, why: "it has no CapEff".to_owned() };
    let mask = mask.ok_or_else(without)?;
    // A kernel without user namespaces has no uid_map.
    let uid_map = present(&process.join("uid_map"))?;
    let is_initial = uid_map.is_none_or(|map| map.split_ascii_whitespace().eq(ALL_IDS));
    Ok(if is_initial { mask } else { 0 })
}

/// Whether a process has `CAP_SYS_MODULE`; what cannot be read has none.
#[must_use]
pub fn may_load(process: &Path) -> bool {
    effective(process).is_ok_and(|mask| mask & (1 << SYS_MODULE) != 0)
}

/// Why this process cannot load modules by a modprobe in this root, and the remedy; `None` when
/// nothing visible forbids it.
#[must_use]
pub fn cannot_load(places: &Places, modprobe_root: &Path) -> Option<(String, &'static str)> {
    let disabled = places.proc.join("sys/kernel/modules_disabled");
    if small(&disabled) == Ok(Some("1".to_owned())) {
        let why = format!("{} is 1: this kernel no longer loads modules", disabled.display());
        return Some((why, "reboot, and load nvidia-peermem before kernel.modules_disabled is set"));
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lacks = |capability: u32| capabilities(&status).is_some_and(|mask| mask & (1u64 << capability) == 0);
    if lacks(SYS_MODULE) {
        let why = "this process lacks CAP_SYS_MODULE, so the kernel lets it load no module".to_owned();
        return Some((why, "run it as root in a privileged container, or add the capability SYS_MODULE"));
    }
    if lacks(SYS_CHROOT) && modprobe_root != Path::new("/") {
        let why = format!("this process lacks CAP_SYS_CHROOT, and cannot enter {}", modprobe_root.display());
        return Some((why, "run it as root in a privileged container, or add the capability SYS_CHROOT"));
    }
    None
}

fn capabilities(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// The kernel's rule for signatures, as far as it shows that.
#[must_use]
pub fn signatures(sys: &Path) -> Signatures {
    let enforced = small(&sys.join("module/module/parameters/sig_enforce"));
    let lockdown = small(&sys.join("kernel/security/lockdown"));
    // `none [integrity] confidentiality`: the one in brackets is in force.
    let chosen = |all: String| all.split(['[', ']']).nth(1).map(str::to_owned);
    Signatures {
        enforced: enforced.map(|value| value.map(|value| value == "Y")),
        lockdown: lockdown.map(|all| all.and_then(chosen)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_a_mask() {
        let status = "Name:\tx\nCapPrm:\t0\nCapEff:\t000001ffffffffff\n";
        assert_eq!(capabilities(status), Some(0x1ff_ffff_ffff));
        assert_eq!(capabilities("CapEff:\tnonsense\n"), None);
    }

    #[test]
    fn the_lockdown_mode_in_force_is_the_one_in_brackets() {
        let tree = tempfile::tempdir().unwrap();
        let security = tree.path().join("kernel/security");
        std::fs::create_dir_all(&security).unwrap();
        std::fs::write(security.join("lockdown"), "none [integrity] confidentiality\n").unwrap();
        let signatures = signatures(tree.path());
        assert_eq!((signatures.enforced, signatures.lockdown), (Ok(None), Ok(Some("integrity".to_owned()))));
    }
}
