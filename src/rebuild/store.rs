// SPDX-License-Identifier: Apache-2.0
//! Writes the node's store: root's alone, whole or not at all, and bounded.

use crate::peermem::record::Pair;
use crate::peermem::store::{STORE, StoreEntry, name, superfluous};
use crate::process::directory::fd_path;
use crate::rebuild::build_dir::{flush, made_as, put_whole};
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::io;
use std::path::Path;

/// Puts an entry into the store below this directory, which is there, and removes the oldest.
///
/// # Errors
/// As open(2), write(2) and rename(2); what was there stays.
pub fn put(place: &Path, entry: &StoreEntry, module: &[u8]) -> io::Result<()> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let parent = open(place, flags, Mode::empty())?;
    let store = made_as(&parent, Path::new(STORE).file_name().unwrap_or_default(), Mode::S_IRWXU)?;
    let mut others = Vec::new();
    for file in fd_path(&store).read_dir()?.flatten() {
        let file_name = file.file_name().to_string_lossy().into_owned();
        if file_name.starts_with(".entry-") {
            // A writer was killed; there is one at a time.
            let _ = unlinkat(&store, file_name.as_str(), UnlinkatFlags::NoRemoveDir);
        } else if file_name.starts_with("entry-") && file_name != entry.name() {
            others.push((file.metadata().and_then(|metadata| metadata.modified())?, file_name));
        }
    }
    for name in superfluous(others) {
        let _ = unlinkat(&store, name.as_str(), UnlinkatFlags::NoRemoveDir);
    }
    put_whole(&store, &entry.name(), &entry.bytes(module))?;
    flush(&store);
    Ok(())
}

/// Removes the entry for these modules: the kernel has refused its module.
pub fn forget(store: &Path, pair: &Pair) {
    let _ = std::fs::remove_file(store.join(name(pair)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peermem::store::read::{stored_module, stored_nvidia};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn pair(mofed: u8) -> Pair {
        Pair { kernel: "6.1.0".into(), nvidia: "4e76".into(), mofed: format!("4d{mofed:02x}") }
    }

    fn put_one(place: &Path, mofed: u8) -> io::Result<()> {
        let crcs = [("nvidia_p2p_get_pages".to_owned(), 7)].into();
        put(place, &StoreEntry::new(pair(mofed), crcs, "0e".into(), b"module"), b"module")
    }

    #[test]
    fn what_is_put_is_found_and_few_are_kept() {
        let place = tempfile::tempdir().unwrap();
        let store = place.path().join("store");
        for mofed in 0..64 {
            put_one(place.path(), mofed).unwrap();
        }
        assert_eq!(fs::read_dir(&store).unwrap().count(), 8);
        // Writers that were killed leave their files.
        for killed in 0..64 {
            fs::write(store.join(format!(".entry-{killed}.unfinished")), "half").unwrap();
        }
        put_one(place.path(), 63).unwrap();
        assert_eq!(fs::read_dir(&store).unwrap().count(), 8);
        assert!(stored_module(&store, &pair(63)).is_some());
        assert_eq!(stored_module(&store, &pair(70)), None);
        assert_eq!(stored_nvidia(&store, &pair(70)).unwrap().1["nvidia_p2p_get_pages"], 7);
        assert_eq!(fs::metadata(&store).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_store_that_is_damaged_exposed_or_a_link_is_no_store() {
        let place = tempfile::tempdir().unwrap();
        let store = place.path().join("store");
        put_one(place.path(), 1).unwrap();
        let entry = stored_module(&store, &pair(1)).unwrap();
        let whole = fs::read(&entry).unwrap();
        for damaged in [&whole[..whole.len() - 1], &whole[..9], b""] {
            fs::write(&entry, damaged).unwrap();
            assert_eq!(stored_module(&store, &pair(1)), None);
        }
        fs::write(&entry, &whole).unwrap();
        fs::set_permissions(&store, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(stored_module(&store, &pair(1)), None, "others can write there");
        fs::set_permissions(&store, fs::Permissions::from_mode(0o700)).unwrap();
        let elsewhere = place.path().join("elsewhere");
        fs::rename(&entry, &elsewhere).unwrap();
        symlink(&elsewhere, &entry).unwrap();
        assert_eq!(stored_module(&store, &pair(1)), None, "an entry that is a link");
        fs::rename(&store, place.path().join("other")).unwrap();
        symlink("other", &store).unwrap();
        assert_eq!(stored_nvidia(&store, &pair(1)), None);
        assert!(put_one(place.path(), 2).is_err(), "nothing is written through a link");
    }
}
