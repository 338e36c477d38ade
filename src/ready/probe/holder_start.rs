// SPDX-License-Identifier: Apache-2.0
//! When the process started that holds MOFED's lock, and the clocks by which that compares with the marker.

use crate::ready::files::read::{beginning, small, unreadable};
use crate::ready::node::Places;
use crate::ready::observation::{HolderStart, HolderTimes, Unreadable};
use crate::ready::probe::clock;
use nix::sys::stat::major;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// `USER_HZ`: 100 for every program on every architecture that Linux still has.
pub(crate) const TICKS: u64 = 100;

/// One line of numbers.
const STAT: u64 = 4000;

/// The start of this process. `marker_seen` is when an earlier look saw the marker first, if one did.
pub(super) fn read(places: &Places, pid: Option<i32>, marker_seen: Option<Duration>) -> HolderStart {
    let Some(pid) = pid.filter(|pid| *pid > 0) else { return HolderStart::NotRead };
    let path = places.proc.join(pid.to_string()).join("stat");
    let text = match beginning(&path, STAT) {
        Ok(text) => text,
        Err(error) if is_not_shown(&error) => return HolderStart::NotRead,
        Err(error) => return HolderStart::Unreadable(unreadable(&path, &error)),
    };
    let Some(ticks) = start_ticks(&String::from_utf8_lossy(&text)) else {
        return HolderStart::Unreadable(Unreadable { path, why: "it is malformed".to_owned() });
    };
    let node_clock = clock::read(&places.proc);
    match node_clock.boot {
        Err(why) if marker_seen.is_none() => HolderStart::Unreadable(why),
        booted => HolderStart::Known(HolderTimes {
            started: Duration::from_millis(ticks.saturating_mul(1000 / TICKS)),
            now: uptime(&places.proc),
            marker_seen,
            booted: booted.ok(),
            sysfs_mounted_ns: mounted_ns(&places.sys),
        }),
    }
}

/// The process has ended, or this /proc hides it (`hidepid`): that stays so, and must not delay a healthy node.
fn is_not_shown(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
        || error.raw_os_error() == Some(nix::libc::ESRCH)
}

/// Time since boot, to a hundredth of a second.
pub(super) fn uptime(proc: &Path) -> Option<Duration> {
    let text = small(&proc.join("uptime")).ok().flatten()?;
    let (seconds, rest) = text.split_once('.')?;
    let hundredths: u64 = rest.get(..2)?.parse().ok()?;
    Some(Duration::from_secs(seconds.parse().ok()?) + Duration::from_millis(hundredths * 10))
}

/// When this file system was mounted, if it is one of the kernel's own: its root was made then, and nothing changes
/// it.
fn mounted_ns(root: &Path) -> Option<i128> {
    /// Of the root of every such file system.
    const INODE: u64 = 1;
    let metadata = root.metadata().ok()?;
    let is_mount = metadata.ino() == INODE && major(metadata.dev()) == 0;
    is_mount.then(|| i128::from(metadata.ctime()) * 1_000_000_000 + i128::from(metadata.ctime_nsec()))
}

/// The 22nd field of <pid>/stat (proc(5)); the name before it may contain spaces and brackets. The procfs
/// crate panics where a line is cut off.
pub(crate) fn start_ticks(stat: &str) -> Option<u64> {
    let (_, behind_the_name) = stat.rsplit_once(')')?;
    behind_the_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uptime_is_read_to_the_hundredth() {
        let dir = tempfile::tempdir().unwrap();
        let of = |text: &str| {
            std::fs::write(dir.path().join("uptime"), text).unwrap();
            uptime(dir.path())
        };
        assert_eq!(of("26658.14 34327.93\n"), Some(Duration::from_millis(26_658_140)));
        for odd in ["", "soon", "1", "1.", "1.x"] {
            assert_eq!(of(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn a_directory_that_is_not_a_mount_has_no_mount_time() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(mounted_ns(&dir.path().join("none")), None);
        std::fs::create_dir(dir.path().join("sys")).unwrap();
        assert_eq!(mounted_ns(&dir.path().join("sys")), None);
    }
}
