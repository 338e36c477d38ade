// SPDX-License-Identifier: Apache-2.0
//! The mounts of the host, of the driver container, and our own.

use crate::symptoms::{MountViewer, Mounts, View};
use peermem_gate::ready::files::mount::{Mount, parse};
use peermem_gate::ready::files::read::{lines, unreadable};
use peermem_gate::ready::node::{Places, below};
use peermem_gate::ready::observation::Seen;
use peermem_gate::ready::probe::lock::shows_the_host;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Tens of thousands of mounts.
const MOUNTS: u64 = 16 * 1024 * 1024;

/// Where a driver container shows its root (gpu-driver-container, nvidia-driver: `RUN_DIR/driver`).
const DRIVER_ROOT: &str = "/run/nvidia/driver";

/// `container`: the mountinfo of the driver container. `is_here`: the tree is this machine's, so our own mounts mean
/// something.
pub(super) fn read(places: &Places, container: Option<&Path>, is_here: bool) -> Vec<View> {
    let mut views = Vec::new();
    let view = |viewer, source: PathBuf, root: &Path| {
        let mut disks = Vec::new();
        let mounts =
            all(&source, &mut disks).map(|all| Mounts { disks, ..those_that_matter(&all, places, root) });
        View { viewer, source, mounts }
    };
    let root = Path::new("/");
    let host = places.proc.join("1/mountinfo");
    match shows_the_host(&places.proc) {
        Ok(true) if host.symlink_metadata().is_ok() => views.push(view(MountViewer::Host, host, root)),
        Ok(_) => {}
        Err(why) => views.push(View { viewer: MountViewer::Host, mounts: Err(why), source: host }),
    }
    if let Some(container) = container {
        views.push(view(MountViewer::Driver, container.to_owned(), root));
    }
    if is_here {
        views.push(view(MountViewer::Own, "/proc/self/mountinfo".into(), &places.root));
    }
    views
}

/// `root` is where that process sees what we see below `places.root`.
fn those_that_matter(all: &[Mount], places: &Places, root: &Path) -> Mounts {
    let seen_at = |path: &Path| below(root, path.strip_prefix(&places.root).unwrap_or(path));
    let directory = seen_at(places.marker.parent().unwrap_or(&places.marker));
    let is_nfs_rdma = |mount: &&Mount| {
        mount.fs_type.starts_with("nfs") && mount.options.split(',').any(|option| option == "proto=rdma")
    };
    Mounts {
        headers: covering(all, &directory.join("usr/src")).cloned(),
        marker: covering(all, &directory).cloned(),
        devices: covering(all, &below(root, Path::new("/dev"))).cloned(),
        driver_roots: all
            .iter()
            .filter(|mount| mount.point == below(root, Path::new(DRIVER_ROOT)))
            .cloned()
            .collect(),
        nfs_rdma: all.iter().filter(is_nfs_rdma).cloned().collect(),
        disks: Vec::new(),
    }
}

/// Every mount that makes sense, in the order in which they were made, and the devices of those that have one.
fn all(path: &Path, disks: &mut Vec<(String, PathBuf)>) -> Seen<Vec<Mount>> {
    let mut all = Vec::new();
    let read = lines(path, MOUNTS, |line| {
        let mount = parse(line);
        let text = String::from_utf8_lossy(line);
        let source = text.split(" - ").nth(1).and_then(|rest| rest.split(' ').nth(1)?.strip_prefix("/dev/"));
        disks.extend(source.zip(mount.as_ref()).map(|(name, mount)| (name.to_owned(), mount.point.clone())));
        all.extend(mount);
        ControlFlow::Continue(())
    });
    read.map(|_| all).map_err(|error| unreadable(path, &error))
}

/// The mount of a path: the deepest above it, and of several at one place the last.
fn covering<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    above.max_by_key(|mount| mount.point.components().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_on_the_deepest_mount_and_on_the_last_of_several() {
        let lines = ["/ a", "/run b", "/run/mellanox/drivers c", "/run/mellanox/drivers d", "/run/mell e"];
        let mounts: Vec<_> = lines
            .iter()
            .map(|line| line.split_once(' ').unwrap())
            .map(|(point, fs)| parse(format!("1 1 0:1 / {point} rw - {fs} none rw").as_bytes()).unwrap())
            .collect();
        let on = |path: &str| covering(&mounts, Path::new(path)).unwrap().fs_type.as_str();
        assert_eq!(on("/run/mellanox/drivers"), "d");
        assert_eq!((on("/run/mellanox"), on("/etc")), ("b", "a"));
    }
}
