// SPDX-License-Identifier: Apache-2.0
//! The node's store of drivers that are gone. What others than root could have written, or is damaged, is not there.

use crate::peermem::module_file::{build_id_of_file, unpacked};
use crate::peermem::record::Pair;
use crate::peermem::store::{LARGEST, StoreEntry};
use crate::ready::files::read::{beginning, entries};
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// More than this program keeps there.
const MOST_LOOKED_AT: usize = 64;

fn is_roots_alone(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0
}

/// The first whole entry that counts, with its file and its module.
fn found(
    store: &Path,
    mut counts: impl FnMut(&StoreEntry) -> bool,
) -> Option<(PathBuf, StoreEntry, Vec<u8>)> {
    let directory = store.symlink_metadata().ok()?;
    if !directory.is_dir() || !is_roots_alone(&directory) {
        return None;
    }
    let files = entries(store, MOST_LOOKED_AT).ok()?;
    let read = |path: &Path| -> Option<(StoreEntry, Vec<u8>)> {
        let metadata = path.symlink_metadata().ok()?;
        if !metadata.is_file() || !is_roots_alone(&metadata) {
            return None;
        }
        let bytes = beginning(path, LARGEST).ok()?;
        let (entry, module) = StoreEntry::read(&bytes)?;
        Some((entry, module.to_vec()))
    };
    let of_store =
        files.into_iter().filter(|file| file.file_name().as_encoded_bytes().starts_with(b"entry-"));
    of_store.map(|file| file.path()).find_map(|path| {
        let (entry, module) = read(&path).filter(|(entry, _)| counts(entry))?;
        Some((path, entry, module))
    })
}

/// The CRCs of the live nvidia's exports, and the entry that has them.
#[must_use]
pub fn stored_nvidia(store: &Path, pair: &Pair) -> Option<(PathBuf, BTreeMap<String, u32>)> {
    let (path, entry, _) = found(store, |entry| entry.is_of_nvidia(pair) && !entry.nvidia.is_empty())?;
    Some((path, entry.nvidia))
}

/// The entry with a module for exactly what is live.
#[must_use]
pub fn stored_module(store: &Path, pair: &Pair) -> Option<PathBuf> {
    found(store, |entry| entry.has_module_for(pair)).map(|(path, ..)| path)
}

/// The module of this entry, if it is still whole and for this.
#[must_use]
pub fn module_of(entry: &Path, pair: &Pair) -> Option<Vec<u8>> {
    let (_, _, module) = found(entry.parent()?, |entry| entry.has_module_for(pair))?;
    Some(module)
}

/// A file of a module whose build id is that of the live `nvidia_peermem`: the kernel has accepted it.
#[must_use]
pub fn live_module(sys: &Path, path: &Path) -> Option<(String, Vec<u8>)> {
    let live = crate::peermem::pair::loaded_build_id(sys, "nvidia_peermem").ok()?;
    if build_id_of_file(path)? != live {
        return None;
    }
    Some((live, unpacked(path, LARGEST)?))
}
