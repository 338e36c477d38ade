// SPDX-License-Identifier: Apache-2.0
//! NVIDIA's sources, copied into the directory of one build.

use crate::ready::files::read::beginning;
use crate::ready::files::root::resolve;
use crate::ready::node::below;
use crate::rebuild::build_dir::{Copy, LARGEST};
use crate::rebuild::recipe;
use std::fs::{self};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// They have some hundred files.
const ENTRIES: usize = 5000;

/// Copies the files that a build needs, with our mark in them; MOFED's headers are found in the copy.
pub(super) fn copy(root: &Path, sources: &Path, copy: &Copy) -> io::Result<()> {
    let mut left = ENTRIES;
    for name in recipe::SOURCES.iter().chain(&recipe::OPTIONAL) {
        let path = below(root, &sources.join(name));
        let real = match resolve(root, &path) {
            Err(error) if error.kind() == ErrorKind::NotFound && recipe::OPTIONAL.contains(name) => {
                continue;
            }
            real => real?,
        };
        if !real.exists() && recipe::OPTIONAL.contains(name) {
            continue;
        }
        let to = copy.outside.join(name);
        fs::create_dir_all(to.parent().unwrap_or(&copy.outside))?;
        copy_all(&real, &to, &mut left)?;
    }
    let source = copy.outside.join(recipe::SOURCE);
    fs::write(&source, recipe::marked(&fs::read_to_string(&source)?))?;
    let conftest = copy.outside.join("conftest.sh");
    let edited = recipe::conftest(&fs::read_to_string(&conftest)?, &copy.inside.join(recipe::OFA));
    let edited =
        edited.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "conftest.sh has an unknown form"))?;
    fs::write(conftest, edited)
}

/// Files and directories; a link is none of NVIDIA's.
fn copy_all(from: &Path, to: &Path, left: &mut usize) -> io::Result<()> {
    *left = left
        .checked_sub(1)
        .ok_or_else(|| io::Error::other("more files than expected in NVIDIA's sources"))?;
    let kind = from.symlink_metadata()?;
    if kind.is_dir() {
        fs::create_dir(to)?;
        for entry in from.read_dir()? {
            let entry = entry?;
            copy_all(&entry.path(), &to.join(entry.file_name()), left)?;
        }
        return Ok(());
    }
    if !kind.is_file() || kind.len() > LARGEST {
        let why = format!("{} is not a source file", from.display());
        return Err(io::Error::new(ErrorKind::InvalidData, why));
    }
    // Makefiles run scripts by name. No bit of another user's goes with them.
    fs::write(to, beginning(from, LARGEST)?)?;
    fs::set_permissions(to, fs::Permissions::from_mode(kind.permissions().mode() & 0o755))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_setuid_bit_and_no_write_permission_of_others_is_copied() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        fs::write(&from, "#!/bin/sh").unwrap();
        for (mode, copied) in [(0o6777, 0o755), (0o1644, 0o644), (0o555, 0o555)] {
            fs::set_permissions(&from, fs::Permissions::from_mode(mode)).unwrap();
            copy_all(&from, &to, &mut 1).unwrap();
            assert_eq!(to.metadata().unwrap().permissions().mode() & 0o7777, copied);
            fs::remove_file(&to).unwrap();
        }
    }
}
