// SPDX-License-Identifier: Apache-2.0
//! How a keeper owns `nvidia_peermem` on its node: an `install` line in the modprobe.d of a driver **container**,
//! whose command asks for a lock of the keeper's. While the keeper holds the lock, `modprobe nvidia-peermem` there
//! loads nothing and succeeds. Without a keeper the same command loads the module at once, with its parameters, so
//! nothing has to be cleaned up.
//!
//! flock(1) is in each driver image, because the driver's script uses it (gpu-driver-container, `PID_FILE`), and
//! `/run/nvidia` is the same directory in the driver's container, in nvidia-peermem-ctr's chroot and on the node.

use crate::peermem::driver_root::PID_FILE;
use std::path::Path;
use std::time::Duration;

/// Held while a keeper owns `nvidia_peermem` on this node. It contains the second of the boot clock until which that
/// counts: the lock of a keeper that is frozen, or whose look hangs, must not keep everyone else from loading.
pub const OWNED: &str = "/run/nvidia/.peermem-gate-keeper";
/// How long the lock counts. A keeper that works renews it three times a minute.
pub const LEASE: Duration = Duration::from_secs(120);
/// The line's directory in the container's root, from the top.
pub const DIRECTORY: [&str; 2] = ["etc", "modprobe.d"];
/// The line's file. kmod reads files that end with `.conf` (modprobe.d(5)).
pub const FILE: &str = "peermem-gate.conf";
/// How often nvidia-peermem-ctr's modprobe looks for the module, and how long one look lasts unless the keeper ends,
/// in seconds. Together less than the 20 minutes of that container's startup probe, and more than the longest known
/// waits: `--suspect-hold`, then a build. Its probes may restart it before.
const LOOKS: u32 = 180;
const LOOK: u32 = 5;
/// The first words of the command. They do nothing, and identify the line of any release.
const MARK: &str = ": peermem-gate;";

/// The file's text. kmod replaces `$CMDLINE_OPTS` by the parameters; the rest is for sh(1). A shared lock never makes
/// another command believe that a keeper is here.
///
/// The driver's script goes on at once: what the keeper waits for may need the script. nvidia-peermem-ctr, which ends
/// if its modprobe brings no module, waits for it. It is in another mount namespace than the script. If the script is
/// another meanwhile, or has unmounted this root with all in it (`_unmount_rootfs`), this modprobe would load from a
/// driver that is gone: it fails, and the container starts again.
#[must_use]
pub fn text() -> String {
    format!(
        "# While peermem-gate's keeper serves this node, it alone loads nvidia-peermem. Without it this loads it at once.\n\
         install nvidia-peermem {MARK} serves() {{ read until <{OWNED} && read up rest </proc/uptime && \
         [ ${{up%.*}} -lt $until ] && {{ flock -s -E 9 $1 {OWNED} true; [ $? = 9 ]; }}; }} 2>/dev/null; \
         script=$(cat {PID_FILE} 2>/dev/null); looks={LOOKS}; \
         if serves -n; then [ /proc/self/ns/mnt -ef /proc/$script/ns/mnt ] || {{ \
         echo peermem-gate: waiting until the keeper has loaded nvidia-peermem >&2; \
         until [ -e /sys/module/nvidia_peermem ] || [ $looks = 0 ] || ! serves -w{LOOK}; do looks=$((looks-1)); done; \
         [ -e /proc/self ] && [ x$(cat {PID_FILE} 2>/dev/null) = x$script ] || exit 1; }}; \
         if serves -n; then exit 0; fi; fi; \
         exec modprobe --ignore-install nvidia-peermem $CMDLINE_OPTS\n"
    )
}

/// Whether this command of an `install` line is a keeper's.
#[must_use]
pub fn is_keepers(command: &str) -> bool {
    command.trim_start().starts_with(MARK)
}

/// The path of the line in this root, for messages.
#[must_use]
pub fn path(root: &Path) -> std::path::PathBuf {
    DIRECTORY.iter().fold(root.to_owned(), |path, part| path.join(part)).join(FILE)
}
