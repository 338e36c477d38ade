// SPDX-License-Identifier: Apache-2.0
//! The readiness chain's files: whether they are there, when they were written, and the few words
//! that some of them hold.

use super::there;
use crate::chain::FILES;
use crate::symptoms::chain::{Chain, FileState};
use peermem_gate::peermem::driver_root;
use peermem_gate::peermem::driver_root::Script;
use peermem_gate::ready::files::read::small;
use peermem_gate::ready::files::{read, root};
use peermem_gate::ready::node::{Places, below};
use peermem_gate::ready::observation::{Seen, Unreadable};
use peermem_gate::ready::probe::{clock, lock};
use peermem_gate::survey::process::{Processes, Role};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// gpu-operator, cmd/nvidia-validator/main.go.
const VALIDATIONS: &str = "/run/nvidia/validations";

/// Looks at all files of the chain.
pub(super) fn read(places: &Places, processes: &Processes) -> Chain {
    let directory = below(&places.root, Path::new(VALIDATIONS));
    let driver_pid = below(&places.root, Path::new(driver_root::PID_FILE));
    let files = FILES.iter().map(|file| {
        let path = if file.is_mofeds() { places.marker.clone() } else { directory.join(file.name) };
        let seen = stamp(&places.root, &path);
        (file.name.to_owned(), (path, seen))
    });
    Chain {
        clock: clock::read(&places.proc),
        has_directory: is_there(&places.root, &directory),
        files: files.collect(),
        driver: lock::read(&places.root, &places.proc, &driver_pid).0,
        driver_runs: driver_runs(places, processes),
        directory,
        driver_pid,
    }
}

/// Whether the driver's script runs, by its lock or as one of the operator's processes; `None` where that is unknown.
fn driver_runs(places: &Places, processes: &Processes) -> Option<bool> {
    match driver_root::script(&places.root, &places.proc).ok()? {
        Script::Runs(_) => Some(true),
        Script::Another(pid) => Some(processes.of(Role::Driver).any(|process| process.pid == pid)),
        Script::Gone => Some(false),
        Script::Hidden => None,
    }
}

fn is_there(root: &Path, path: &Path) -> Seen<bool> {
    there(path, read::metadata(root, path)).map(|found| found.is_some_and(|metadata| metadata.is_dir()))
}

fn stamp(root: &Path, path: &Path) -> FileState {
    let found = root::resolve(root, path).and_then(|real| Ok((read::stat(&real)?, real)));
    match there(path, found) {
        // Some only root may read; that it exists is enough.
        Ok(Some((metadata, real))) if metadata.is_file() => FileState::Present {
            written: metadata.mtime(),
            text: small(&real).ok().flatten().unwrap_or_default(),
        },
        Ok(Some(_)) => {
            FileState::Unreadable(Unreadable { path: path.to_owned(), why: "not a regular file".to_owned() })
        }
        Ok(None) => FileState::Absent,
        Err(why) => FileState::Unreadable(why),
    }
}
