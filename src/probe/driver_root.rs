// SPDX-License-Identifier: Apache-2.0
//! Where the GPU driver's files are, found in one way for every verb that looks for them.

use super::pods::built;
use crate::files::read::small;
use crate::files::root::resolve;
use crate::module_file;
use crate::node::{Places, below};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where a driver container shows its root once its modules are loaded (gpu-driver-container, `_mount_rootfs`).
const SHOWN: &str = "/run/nvidia/driver";
/// gpu-driver-container, `PID_FILE`: its script, which runs in the host's pid namespace, flocks it and keeps it open.
pub const PID_FILE: &str = "/run/nvidia/nvidia-driver.pid";
/// The script's name: the file outlives the process, whose number another may have by now.
const SCRIPT: &str = "nvidia-driver";

/// Where the driver container shows its root; before it does, that container's own root, if there is a driver in it;
/// else the root that was asked for. Within that container it is the same root, by its shortest name.
#[must_use]
pub fn driver_root(places: &Places, release: &str) -> PathBuf {
    if !places.finds_driver {
        return places.driver_root.clone();
    }
    let shown = below(&places.root, Path::new(SHOWN));
    if !shown.join("lib/modules").is_dir() {
        let own = of_script(&places.root, &places.proc, release);
        return own
            .filter(|own| !is_same(own, &places.driver_root))
            .unwrap_or_else(|| places.driver_root.clone());
    }
    if is_same(&shown, &places.driver_root) {
        return places.driver_root.clone();
    }
    // One that a container has left behind does not count where the root that was asked for has an nvidia-peermem
    // itself.
    let is_left = script(&places.root, &places.proc).is_none();
    if is_left && has_peermem(&places.driver_root, release) { places.driver_root.clone() } else { shown }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| path.metadata().map(|metadata| (metadata.dev(), metadata.ino())).ok();
    id(one).is_some_and(|one| Some(one) == id(other))
}

fn has_peermem(root: &Path, release: &str) -> bool {
    matches!(module_file::find(root, release, super::PEERMEM), Ok(Some(_)))
}

fn of_script(root: &Path, proc: &Path, release: &str) -> Option<PathBuf> {
    let process = proc.join(script(root, proc)?.to_string());
    let own = process.join("root");
    let has_driver = matches!(module_file::find(&own, release, "nvidia"), Ok(Some(_)));
    has_driver.then_some(own)
}

/// The pid of the driver's script, if it runs.
#[must_use]
pub fn script(root: &Path, proc: &Path) -> Option<u32> {
    named(root, proc).and_then(|(pid, is_script)| is_script.then_some(pid))
}

/// Whether the driver's script runs; `None` where its pid file or that process cannot be read.
#[must_use]
pub fn script_runs(root: &Path, proc: &Path) -> Option<bool> {
    named(root, proc).map(|(_, is_script)| is_script)
}

/// The process that the pid file names, and whether it is the script.
fn named(root: &Path, proc: &Path) -> Option<(u32, bool)> {
    let file = resolve(root, &below(root, Path::new(PID_FILE))).ok()?;
    let pid: u32 = small(&file).ok()??.trim().parse().ok()?;
    let name = small(&proc.join(pid.to_string()).join("comm")).ok()?;
    Some((pid, name.as_deref() == Some(SCRIPT)))
}

/// An nvidia-peermem.ko that was built for a driver container, and that no root shows yet: on `OpenShift` its pod's
/// volume keeps it from one crash to the next.
#[must_use]
pub fn built_for_a_container(places: &Places) -> Option<PathBuf> {
    let newest = built(&places.root).into_iter().max_by_key(|build| build.finished)?;
    newest.peermem.filter(|_| places.finds_driver)
}
