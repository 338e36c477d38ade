// SPDX-License-Identifier: Apache-2.0
//! The first view of a node, before it is known what to expect of it.

use crate::ready::files::read::{entries, present, stat, there, whole};
use crate::ready::files::root::resolve;
use crate::ready::node::below;
use crate::ready::observation::{Seen, Unreadable};
use crate::ready::probe::{clock, kernel, modules};
use crate::survey::{Logged, Survey, pods, processes};
use std::fs::Metadata;
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
    let mut reading = SignSearch { root, unreadable: None };
    let says = reading.read(&ready, small_below(root, &ready));
    let loads_peermem = reading.loads_peermem();
    let has_peermem = reading.has_peermem(&proc.join("modules"));
    // A driver container has a link of that name, which leads to MOFED's container.
    let installed = reading.first(&INSTALLED, |metadata| !metadata.is_symlink());
    let mofed_trace = reading.first(&LEFT, |_| true);
    Survey {
        pods: pods::read(root, &processes),
        driver_ready: (ready, says),
        loads_peermem,
        has_peermem,
        installed,
        mofed_trace,
        unreadable: reading.unreadable,
        release: kernel.release,
        clock,
        processes,
        logged: Logged::default(),
    }
}

fn small_below(root: &Path, path: &Path) -> Seen<Option<String>> {
    there(path, resolve(root, path))?.map_or(Ok(None), |real| present(&real))
}

/// The search for signs, of which the first that cannot be read is kept: it may be there.
struct SignSearch<'a> {
    root: &'a Path,
    unreadable: Option<Unreadable>,
}

impl SignSearch<'_> {
    fn read<T>(&mut self, path: &Path, seen: Seen<Option<T>>) -> Option<T> {
        seen.unwrap_or_else(|why| {
            self.unreadable.get_or_insert(Unreadable { path: path.to_owned(), ..why });
            None
        })
    }

    fn first(&mut self, signs: &[&str], is_one: fn(&Metadata) -> bool) -> Option<PathBuf> {
        signs.iter().map(|sign| self.root.join(sign)).find(|path| {
            let metadata = match path.symlink_metadata() {
                Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(None),
                metadata => there(path, metadata),
            };
            self.read(path, metadata).is_some_and(|metadata| is_one(&metadata))
        })
    }

    fn has_peermem(&mut self, path: &Path) -> Option<PathBuf> {
        let modules = self.read(path, modules::read_proc(path).map(Some))?;
        modules.named(crate::ready::probe::PEERMEM).next().is_some().then(|| path.to_owned())
    }

    /// Files that have nvidia-peermem loaded at boot.
    fn loads_peermem(&mut self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for place in LOADED.iter().map(|place| below(self.root, Path::new(place))) {
            let listed = resolve(self.root, &place).and_then(|real| entries(&real, FILES));
            match listed {
                Ok(listed) => files.extend(listed.into_iter().map(|file| place.join(file.file_name()))),
                Err(error) if error.kind() == ErrorKind::NotADirectory => files.push(place),
                Err(error) => _ = self.read::<()>(&place, there(&place, Err(error))),
            }
        }
        files.retain(|path| {
            let real = resolve(self.root, path);
            if real.as_ref().is_ok_and(|real| stat(real).is_ok_and(|metadata| metadata.is_dir())) {
                return false;
            }
            let text = real.and_then(|real| whole(&real, FILE));
            let text = self.read(path, there(path, text)).unwrap_or_default();
            text.lines().any(|line| line.trim().replace('-', "_") == "nvidia_peermem")
        });
        files
    }
}
