// SPDX-License-Identifier: Apache-2.0
//! Reads for `doctor` beyond the gate's own look.

mod driver;
mod kept_out;
mod views;

use super::{chain, host, is_this_machine, listed, offer, pci, rdma, runtime, there, waits};
use crate::symptoms::logs::Logs;
use crate::symptoms::{MofedTraces, Symptoms, Watching};
use inotify::Inotify;
use peermem_gate::peermem::module_file;
use peermem_gate::ready::clock::now;
use peermem_gate::ready::files::read::small;
use peermem_gate::ready::node::Places;
use peermem_gate::ready::observation::{Lock, Marker, Observation, Seen};
use peermem_gate::ready::probe::{MELLANOX, lock, marker};
use peermem_gate::survey::Survey;
use peermem_gate::survey::expected::NVIDIA;
use peermem_gate::survey::process::Role;
use peermem_gate::survey::setting::Settings;
use peermem_gate::survey::users::users;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// doca-driver-build, config.go: `OFED_BLACKLIST_MODULES_FILE`, as the host sees it.
const BLACKLIST: &str = "etc/modprobe.d/blacklist-ofed-modules.conf";

/// How long the search for processes with devices may take.
const SEARCH: Duration = Duration::from_secs(5);

/// Looks at the rest. `seen` is what the look saw, which is not looked at again.
pub fn read(places: &Places, seen: &Observation, survey: Survey, logs: Logs, settings: Settings) -> Symptoms {
    let is_here = is_this_machine(&seen.kernel);
    let release = &seen.kernel.release;
    let nics = pci::functions(&places.sys, MELLANOX);
    let container = survey.processes.first(Role::Driver).map(|driver| driver.directory.join("mountinfo"));
    Symptoms {
        mofed: mofed(places, seen),
        views: views::read(places, container.as_deref(), is_here),
        inotify: watching(&places.proc, is_here),
        nvidias: pci::functions(&places.sys, NVIDIA),
        driver: driver::read(places, release),
        chain: chain::read(places, &survey.processes),
        runtimes: runtime::read(places, &survey.processes),
        offer: offer::read(places),
        rdma: rdma::read(places, &nics),
        host: host::read(places, &survey.processes, release),
        holders: users(&places.proc, now() + SEARCH),
        waits: waits::read(places, &survey, &logs),
        unread: Vec::new(),
        rebuild: None,
        nics,
        survey,
        logs,
        settings,
    }
}

/// The look has no eyes for a lock without a marker, nor for a marker under host MOFED.
fn mofed(places: &Places, seen: &Observation) -> MofedTraces {
    let marker = match &seen.marker {
        Marker::Present(_) => seen.marker.clone(),
        _ => marker::read(&places.root, &places.marker),
    };
    let lock = match (&seen.marker, &seen.lock) {
        (Marker::Present(_), Lock::Held | Lock::Free) => seen.lock.clone(),
        _ => lock::read(&places.root, &places.proc, &places.lock).0,
    };
    let blacklist = places.root.join(BLACKLIST);
    let release = &seen.kernel.release;
    let found = module_file::find(&places.root, release, "mlx5_core").ok().flatten();
    let host_file = found.map(|found| found.path).filter(|path| is_mofeds(path));
    let other_kernels = match host_file {
        None => other_kernels(&places.root, release, "mlx5_core", is_mofeds),
        Some(_) => Vec::new(),
    };
    MofedTraces {
        lock,
        marker,
        marked: modified(&places.marker).ok().flatten(),
        blacklisted: modified(&blacklist),
        blacklist,
        host_file,
        other_kernels,
    }
}

/// Other kernels for which the module is there, in a file that counts.
fn other_kernels(root: &Path, release: &str, name: &str, counts: fn(&Path) -> bool) -> Vec<String> {
    /// Kernels that a host keeps: a few.
    const KERNELS: usize = 16;
    let names = listed(root, &root.join("lib/modules"), 1000);
    let has_one = |kernel: &String| {
        let found = module_file::find(root, kernel, name).ok().flatten();
        found.is_some_and(|found| counts(&found.path))
    };
    let mut others: Vec<_> = names.filter(|kernel| kernel != release).take(KERNELS).filter(has_one).collect();
    others.sort();
    others
}

/// MOFED's modules lie beside the kernel's own: in `updates` (dkms), `extra` (kmod packages), `weak-updates`.
fn is_mofeds(path: &Path) -> bool {
    let mut parts = path.components().filter_map(|part| part.as_os_str().to_str());
    parts.any(|part| ["updates", "extra", "weak-updates"].contains(&part))
}

fn modified(path: &Path) -> Seen<Option<i64>> {
    there(path, path.symlink_metadata().map(|metadata| metadata.mtime()))
}

/// The kernel is asked for an instance, as a wait would ask; who has how many is counted where the limit is low.
fn watching(proc: &Path, is_here: bool) -> Watching {
    /// Above it no user has run out yet.
    const LOW: usize = 1024;
    let limit = |name: &str| -> (PathBuf, Seen<Option<String>>) {
        let path = proc.join("sys/fs/inotify").join(name);
        let text = small(&path);
        (path, text)
    };
    let limits = ["max_user_instances", "max_user_watches"].map(limit);
    let most = limits[0].1.as_ref().ok().and_then(|text| text.as_ref()?.parse::<usize>().ok());
    let refused = if is_here { Inotify::init().err() } else { None };
    Watching {
        most: most.filter(|limit| *limit <= LOW).and_then(|_| most_instances(proc)),
        refused: refused.map(|error| error.to_string()),
        limits: limits.into(),
    }
}

/// The user with the most inotify instances, by number, and how many.
fn most_instances(proc: &Path) -> Option<(String, usize)> {
    let mut users: BTreeMap<String, usize> = BTreeMap::new();
    for process in proc.read_dir().ok()?.flatten() {
        let directory = process.path();
        let fds = directory.join("fd").read_dir().into_iter().flatten().flatten();
        let is_inotify =
            |path: PathBuf| path.read_link().is_ok_and(|to| to.as_os_str() == "anon_inode:inotify");
        let count = fds.filter(|fd| is_inotify(fd.path())).count();
        if count > 0 {
            let status = small(&directory.join("status")).ok().flatten().unwrap_or_default();
            let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next());
            *users.entry(uid.unwrap_or_default().to_owned()).or_default() += count;
        }
    }
    users.into_iter().max_by_key(|(_, count)| *count)
}
