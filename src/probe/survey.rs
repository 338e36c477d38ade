// SPDX-License-Identifier: Apache-2.0
//! What can be seen of a node before it is known what to expect of it.

use super::logs::{self, Limits};
use super::read::small;
use super::root::resolve;
use super::symptoms::is_this_machine;
use super::{chain, host, kernel, modules, pods, processes};
use crate::node::below;
use crate::symptoms::logs::Logs;
use crate::symptoms::survey::Survey;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Signs of a MOFED that was installed on the host: its service, and the headers that
/// `USE_HOST_MOFED` makes the GPU driver take.
const INSTALLED: [&str; 2] = ["etc/init.d/openibd", "usr/src/ofa_kernel"];
/// What a MOFED container leaves, as the host sees it.
const LEFT: [&str; 2] = ["run/mellanox/drivers/.lock", "run/mellanox/drivers/.driver-ready"];
/// Every host has them.
const HOSTS: [&str; 3] = ["proc/modules", "proc/sys/kernel", "sys/module"];
const DRIVER_READY: &str = "/run/nvidia/validations/.driver-ctr-ready";

/// How far a survey goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breadth {
    /// What containers have said counts too.
    WithLogs,
    /// Processes, and a few files.
    Quick,
}

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
pub fn survey(root: &Path, proc: &Path, breadth: Breadth) -> Survey {
    let kernel = kernel::read(proc);
    let clock = chain::clock(proc);
    let processes = processes::read(proc, clock.boot.as_ref().ok().copied());
    let logs = match breadth {
        Breadth::WithLogs => logs::read(root, proc, is_this_machine(&kernel), &Limits::LOOK),
        Breadth::Quick => Logs::default(),
    };
    let ready = below(root, Path::new(DRIVER_READY));
    let says = resolve(root, &ready).ok().and_then(|real| small(&real).ok()?);
    Survey {
        pods: pods::read(root, &processes, &logs),
        driver_ready: (ready, says),
        loads_peermem: host::loads_peermem(root),
        has_peermem: has_peermem(proc),
        installed: first(root, &INSTALLED, is_no_link),
        left: first(root, &LEFT, |path| path.symlink_metadata().is_ok()),
        release: kernel.release,
        clock,
        processes,
        logs,
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
