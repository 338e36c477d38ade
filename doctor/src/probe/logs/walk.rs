// SPDX-License-Identifier: Apache-2.0
//! The files below a directory. Links are not followed: they may lead out of it, and what they lead to within it is
//! found anyway.

use crate::gathered::BundleFile;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A sosreport has tens of thousands.
const ENTRIES: usize = 500_000;

/// A file on disk or in an archive, and whether it was named itself.
#[derive(Debug)]
pub(in crate::probe) struct FoundFile {
    /// Of an archive's file: the path of the archive, and the one in it.
    pub(in crate::probe) path: PathBuf,
    pub(in crate::probe) is_named: bool,
    pub(in crate::probe) packed: Option<Rc<BundleFile>>,
}

/// Adds what `path` is or contains, in the order of names.
pub(in crate::probe) fn walk(
    path: &Path,
    found: &mut Vec<FoundFile>,
    cannot_read: &mut dyn FnMut(&Path, &io::Error),
) {
    // What somebody names may be a link.
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => below(path.to_owned(), found, cannot_read),
        Ok(_) => found.push(FoundFile { path: path.to_owned(), is_named: true, packed: None }),
        Err(error) => cannot_read(path, &error),
    }
}

fn below(directory: PathBuf, found: &mut Vec<FoundFile>, cannot_read: &mut dyn FnMut(&Path, &io::Error)) {
    let mut left = ENTRIES;
    let mut todo = vec![directory];
    while let Some(directory) = todo.pop() {
        let listed =
            directory.read_dir().and_then(|entries| entries.take(left).collect::<io::Result<Vec<_>>>());
        let mut entries = match listed {
            Ok(entries) => entries,
            Err(error) => {
                cannot_read(&directory, &error);
                continue;
            }
        };
        left -= entries.len();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in &entries {
            match entry.file_type() {
                Ok(kind) if kind.is_file() => {
                    found.push(FoundFile { path: entry.path(), is_named: false, packed: None });
                }
                _ => {}
            }
        }
        // Last in, first out.
        let directories =
            entries.iter().rev().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        todo.extend(directories.map(std::fs::DirEntry::path));
    }
}
