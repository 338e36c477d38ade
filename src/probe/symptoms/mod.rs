// SPDX-License-Identifier: Apache-2.0
//! What `doctor` looks at beyond the gate's own look.

mod driver;
mod views;

use super::Probe;
use super::read::{lines, small, unreadable};
use super::{chain, lock, marker, pci, runtime};
use crate::observation::{Kernel, Lock, Marker, Observation, Seen};
use crate::symptoms::{MofedTraces, PciFunction, Symptoms, Watching};
use inotify::Inotify;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub use driver::{Operator, driver_root};

/// Signs of a MOFED that was installed on the host: its service, and the headers that
/// `USE_HOST_MOFED` makes the GPU driver take.
const INSTALLED: [&str; 2] = ["etc/init.d/openibd", "usr/src/ofa_kernel"];
/// doca-driver-build, config.go: `OFED_BLACKLIST_MODULES_FILE`, as the host sees it.
const BLACKLIST: &str = "etc/modprobe.d/blacklist-ofed-modules.conf";
/// PCI base class of display controllers, as which GPUs count.
const DISPLAY: u32 = 0x03;
/// Far more than a line for each of a thousand processors.
const STAT: u64 = 4 * 1024 * 1024;

impl Probe<'_> {
    /// Looks at the rest. `seen` is this probe's look, which is not looked at again.
    #[must_use]
    pub fn symptoms(&mut self, seen: &Observation, operator: &Operator) -> Symptoms {
        let places = &self.node.places;
        let is_here = is_this_machine(&seen.kernel);
        let gpus = pci::functions(&places.sys, pci::NVIDIA).map(|all| {
            let is_gpu = |function: &PciFunction| function.class.is_some_and(|class| class >> 16 == DISPLAY);
            all.into_iter().filter(is_gpu).collect()
        });
        Symptoms {
            mofed: self.mofed(seen, operator),
            views: views::read(places, operator.mountinfo.as_deref(), is_here),
            inotify: watching(&places.proc, is_here),
            nics: pci::functions(&places.sys, pci::MELLANOX),
            gpus,
            driver: driver::read(places, &seen.kernel.release, &mut self.inspected),
            chain: chain::read(places),
            runtimes: runtime::read(places),
        }
    }

    /// The look has no eyes for a lock without a marker, nor for a marker under host MOFED.
    fn mofed(&self, seen: &Observation, operator: &Operator) -> MofedTraces {
        let places = &self.node.places;
        let marker = match &seen.marker {
            Marker::Present(_) => seen.marker.clone(),
            _ => marker::read(&places.root, &places.marker),
        };
        let lock = match (&seen.marker, &seen.lock) {
            (Marker::Present(_), Lock::Held | Lock::Free) => seen.lock.clone(),
            _ => lock::read(&places.root, &places.proc, &places.lock),
        };
        let blacklist = places.root.join(BLACKLIST);
        MofedTraces {
            lock,
            marker,
            blacklisted: modified(&blacklist),
            booted: booted(&places.proc),
            blacklist,
            installed: installed(&places.root),
            told_by: operator.told_by.clone(),
        }
    }
}

/// Is the tree that is looked at this machine's own?
fn is_this_machine(kernel: &Kernel) -> bool {
    let boot_id = small(Path::new("/proc/sys/kernel/random/boot_id")).ok().flatten();
    kernel.boot_id.is_some() && kernel.boot_id == boot_id
}

fn installed(root: &Path) -> Option<PathBuf> {
    INSTALLED.iter().map(|sign| root.join(sign)).find(|path| is_no_link(path))
}

/// A driver container has a link of that name, which leads to MOFED's container.
fn is_no_link(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| !metadata.is_symlink())
}

fn modified(path: &Path) -> Seen<Option<i64>> {
    match path.symlink_metadata() {
        Ok(metadata) => Ok(Some(metadata.mtime())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// `btime` in /proc/stat.
fn booted(proc: &Path) -> Option<i64> {
    let mut booted = None;
    let read = lines(&proc.join("stat"), STAT, |line| {
        let seconds = line.strip_prefix(b"btime ").and_then(|text| std::str::from_utf8(text).ok());
        booted = seconds.and_then(|text| text.parse().ok());
        if booted.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    read.ok().and(booted)
}

/// The kernel is asked for an instance, as a wait would ask: what others use up cannot be counted.
fn watching(proc: &Path, is_here: bool) -> Watching {
    let limit = |name: &str| -> (PathBuf, Seen<Option<String>>) {
        let path = proc.join("sys/fs/inotify").join(name);
        let says = small(&path);
        (path, says)
    };
    let refused = if is_here { Inotify::init().err() } else { None };
    Watching {
        refused: refused.map(|error| error.to_string()),
        limits: ["max_user_instances", "max_user_watches"].map(limit).into(),
    }
}
