// SPDX-License-Identifier: Apache-2.0
//! The first view of a node, before it is known what to expect of it.

use super::{clock, kernel, modules, pods, processes};
use crate::files::read::{entries, small, whole};
use crate::files::root::resolve;
use crate::node::below;
use crate::observation::Kernel;
use crate::survey::{Logged, Survey};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Signs of a MOFED that was installed on the host: its service, and the headers that
/// `USE_HOST_MOFED` makes the GPU driver take.
const INSTALLED: [&str; 2] = ["etc/init.d/openibd", "usr/src/ofa_kernel"];
/// Files that a MOFED container leaves, as the host sees them.
const LEFT: [&str; 2] = ["run/mellanox/drivers/.lock", "run/mellanox/drivers/.driver-ready"];
/// Every host has them.
const HOSTS: [&str; 3] = ["proc/modules", "proc/sys/kernel", "sys/module"];
/// systemd-modules-load reads them (modules-load.d(5)); Debian's own list is the last.
const LOADED: [&str; 4] =
    ["/etc/modules-load.d", "/run/modules-load.d", "/usr/lib/modules-load.d", "/etc/modules"];
const FILES: usize = 1000;
const FILE: u64 = 64 * 1024;
const DRIVER_READY: &str = "/run/nvidia/validations/.driver-ctr-ready";

/// False only where what is below `root` cannot be a host: it has neither proc nor sys.
#[must_use]
pub fn may_be_host(root: &Path) -> bool {
    let is_empty = |name: &str| match root.join(name).read_dir() {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    };
    !["proc", "sys"].into_iter().all(is_empty)
}

/// Whether `root` is a host's, with its proc and sys, and not the one that this process has.
#[must_use]
pub fn is_another_root(root: &Path) -> bool {
    let id = |path: &Path| path.metadata().map(|found| (found.dev(), found.ino())).ok();
    let is_host = HOSTS.iter().all(|sign| root.join(sign).exists());
    is_host && id(root) != id(Path::new("/"))
}

/// Looks at the node below `root`.
#[must_use]
pub fn survey(root: &Path, proc: &Path) -> Survey {
    let kernel = kernel::read(proc);
    let clock = clock::read(proc);
    let processes = processes::read(proc, clock.boot.as_ref().ok().copied());
    let ready = below(root, Path::new(DRIVER_READY));
    let says = resolve(root, &ready).ok().and_then(|real| small(&real).ok()?);
    Survey {
        pods: pods::read(root, &processes),
        driver_ready: (ready, says),
        loads_peermem: loads_peermem(root),
        has_peermem: has_peermem(proc),
        installed: first(root, &INSTALLED, is_no_link),
        left: first(root, &LEFT, |path| path.symlink_metadata().is_ok()),
        release: kernel.release,
        clock,
        processes,
        logged: Logged::default(),
    }
}

fn first(root: &Path, signs: &[&str], is_one: fn(&Path) -> bool) -> Option<PathBuf> {
    signs.iter().map(|sign| root.join(sign)).find(|path| is_one(path))
}

/// A driver container has a link of that name, which leads to MOFED's container.
fn is_no_link(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| !metadata.is_symlink())
}

fn has_peermem(proc: &Path) -> Option<PathBuf> {
    let path = proc.join("modules");
    let modules = modules::read_proc(&path).ok()?;
    modules.named(super::PEERMEM).next().is_some().then_some(path)
}

/// Files that have nvidia-peermem loaded at boot.
fn loads_peermem(root: &Path) -> Vec<PathBuf> {
    let files = LOADED.iter().flat_map(|place| {
        let place = below(root, Path::new(place));
        let real = resolve(root, &place).unwrap_or_default();
        match entries(&real, FILES) {
            Ok(files) => files.into_iter().map(|file| place.join(file.file_name())).collect(),
            Err(_) => vec![place],
        }
    });
    let is_listed = |path: &PathBuf| {
        let text = resolve(root, path).and_then(|real| whole(&real, FILE)).unwrap_or_default();
        text.lines().any(|line| line.trim().replace('-', "_") == "nvidia_peermem")
    };
    files.filter(is_listed).collect()
}

/// Is the tree that is looked at this machine's own?
#[must_use]
pub fn is_this_machine(kernel: &Kernel) -> bool {
    let boot_id = small(Path::new("/proc/sys/kernel/random/boot_id")).ok().flatten();
    kernel.boot_id.is_some() && kernel.boot_id == boot_id
}
