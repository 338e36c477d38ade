// SPDX-License-Identifier: Apache-2.0
//! Where modprobe would find a module: in modules.dep, or else where depmod would find it when it runs.

use crate::ready::files::read::{entries, lines, stat, unreadable};
use crate::ready::files::root::resolve;
use crate::ready::node::below;
use crate::ready::observation::{Seen, Unreadable};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{DirEntry, Metadata};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Some twenty times the largest modules.dep.
const MODULES_DEP: u64 = 16 * 1024 * 1024;
/// A distribution's tree has some 6,000.
const MAX_ENTRIES: usize = 50_000;
const MAX_DEPTH: usize = 16;
/// Enough to name in a message.
const MAX_OTHERS: usize = 8;
/// Behind `.ko`, if anything.
const SUFFIXES: [&[u8]; 3] = [b".gz", b".xz", b".zst"];
/// Searched before all others, in this order.
const FIRST: [&str; 3] = ["updates", "extra", "weak-updates"];
/// Links to the kernel's source, and no modules; depmod leaves them out too.
const SOURCES: [&str; 2] = ["build", "source"];
/// Where installers put a second file of a module.
const USUAL: [&str; 4] = ["updates", "updates/dkms", "extra", "kernel/drivers/video"];

/// The file of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundModule {
    /// Its path as modprobe names it, below the root.
    pub path: PathBuf,
    /// The file to open: links are followed below the root.
    pub real: PathBuf,
    /// More files of the same module.
    pub ignored_paths: Vec<PathBuf>,
    /// modules.dep lists it; `None` where there is no modules.dep.
    pub listed: Option<bool>,
}

/// The directory of a kernel's modules.
#[must_use]
pub fn directory(root: &Path, release: &str) -> PathBuf {
    root.join("lib/modules").join(release)
}

/// Finds the file of the module `name` below `root`; `None` where there is none. A line of
/// modules.dep whose file is gone is as good as none.
pub fn find(root: &Path, release: &str, name: &str) -> Seen<Option<FoundModule>> {
    let directory = directory(root, release);
    let search = Search { root, name: &name.replace('-', "_") };
    let listed = search.listed(&directory)?;
    let is_known = listed.is_some();
    let mut found = search.existing(listed.unwrap_or_default())?;
    let is_listed = !found.is_empty();
    if is_listed {
        let beside = found[0].path.parent().map(Path::to_owned);
        let usual = USUAL.iter().map(|usual| directory.join(usual));
        for directory in beside.into_iter().chain(usual) {
            found.extend(search.in_directory(&directory));
        }
    } else {
        found = search.walk(&directory)?;
    }
    Ok(chosen(found, is_known.then_some(is_listed)))
}

/// All files of the module, in the order in which depmod would prefer them: the path below the root, and the file to
/// open.
///
/// # Errors
/// What could not be read before any was found.
pub fn all(root: &Path, release: &str, name: &str) -> Seen<Vec<(PathBuf, PathBuf)>> {
    let search = Search { root, name: &name.replace('-', "_") };
    let found = chosen(search.walk(&directory(root, release))?, None);
    let Some(FoundModule { path, real, ignored_paths, .. }) = found else { return Ok(Vec::new()) };
    let others = ignored_paths.into_iter().filter_map(|path| Some((search.stat(&path).ok()?.0, path)));
    Ok(std::iter::once((path, real)).chain(others.map(|(real, path)| (path, real))).collect())
}

/// The first file counts; each of the others is named once.
fn chosen(found: Vec<Candidate>, listed: Option<bool>) -> Option<FoundModule> {
    let mut found = found.into_iter();
    let first = found.next()?;
    let mut others: Vec<Candidate> = Vec::new();
    for other in found.filter(|other| other.id != first.id) {
        if others.len() < MAX_OTHERS && others.iter().all(|known| known.id != other.id) {
            others.push(other);
        }
    }
    let ignored_paths = others.into_iter().map(|other| other.path).collect();
    Some(FoundModule { path: first.path, real: first.real, ignored_paths, listed })
}

/// Paths by the names of their files.
type Sorted = BTreeMap<OsString, PathBuf>;

struct Candidate {
    path: PathBuf,
    real: PathBuf,
    /// Device and inode: two paths may lead to one file.
    id: (u64, u64),
}

struct Search<'a> {
    root: &'a Path,
    /// With underscores.
    name: &'a str,
}

impl Search<'_> {
    /// The paths that modules.dep gives the module; `None` where there is no modules.dep.
    fn listed(&self, directory: &Path) -> Seen<Option<Vec<PathBuf>>> {
        let path = directory.join("modules.dep");
        let mut listed = Vec::new();
        let read = resolve(self.root, &path).and_then(|real| {
            lines(&real, MODULES_DEP, |line| {
                let file = memchr::memchr(b':', line).map_or(line, |end| &line[..end]);
                if self.is_named(file) {
                    let file = Path::new(OsStr::from_bytes(file));
                    // Relative to modules.dep, or absolute below the root.
                    listed.push(if file.is_absolute() {
                        below(self.root, file)
                    } else {
                        directory.join(file)
                    });
                }
                ControlFlow::Continue(())
            })
        });
        match read {
            Ok(_) => Ok(Some(listed)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(unreadable(&path, &error)),
        }
    }

    /// Is this the path of a file of the module? `-` and `_` are the same.
    fn is_named(&self, path: &[u8]) -> bool {
        let packed = SUFFIXES.iter().find_map(|suffix| path.strip_suffix(*suffix)).unwrap_or(path);
        let Some(stem) = packed.strip_suffix(b".ko") else { return false };
        let Some(begin) = stem.len().checked_sub(self.name.len()) else { return false };
        let mut both = stem[begin..].iter().zip(self.name.as_bytes());
        let is_name = both.all(|(a, b)| a == b || (*a, *b) == (b'-', b'_'));
        is_name && matches!(stem[..begin].last(), None | Some(b'/'))
    }

    fn existing(&self, paths: Vec<PathBuf>) -> Seen<Vec<Candidate>> {
        paths.into_iter().filter_map(|path| self.candidate(path).transpose()).collect()
    }

    fn candidate(&self, path: PathBuf) -> Seen<Option<Candidate>> {
        match self.stat(&path) {
            Ok((real, metadata)) => Ok(Some(Candidate { path, real, id: id(&metadata) })),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(unreadable(&path, &error)),
        }
    }

    fn stat(&self, path: &Path) -> io::Result<(PathBuf, Metadata)> {
        let real = resolve(self.root, path)?;
        let metadata = stat(&real)?;
        Ok((real, metadata))
    }

    /// The module's files in one directory; none where it cannot be read.
    fn in_directory(&self, directory: &Path) -> impl Iterator<Item = Candidate> {
        let entries = resolve(self.root, directory).and_then(|real| entries(&real, MAX_ENTRIES));
        let names = entries.into_iter().flatten().map(|entry| entry.file_name());
        let mut files = Sorted::new();
        for name in names.filter(|name| self.is_named(name.as_bytes())) {
            let path = directory.join(&name);
            files.insert(name, path);
        }
        files.into_values().filter_map(|path| self.candidate(path).ok()?)
    }

    /// All files of the module, in the order in which depmod would prefer them.
    fn walk(&self, directory: &Path) -> Seen<Vec<Candidate>> {
        let mut walk =
            Walk { search: self, seen: BTreeSet::new(), left: MAX_ENTRIES, found: Vec::new(), failed: None };
        for place in FIRST.map(|first| directory.join(first)).iter().chain([&directory.to_owned()]) {
            walk.visit(place, resolve(self.root, place), 0);
        }
        walk.failed.map_or(Ok(walk.found), Err)
    }
}

/// A search through a whole tree, which may be of any size and shape.
struct Walk<'a> {
    search: &'a Search<'a>,
    /// Directories, by device and inode: links may lead in a circle.
    seen: BTreeSet<(u64, u64)>,
    left: usize,
    found: Vec<Candidate>,
    /// The first directory or file that could not be read before any file was found. The file that modprobe
    /// would take may be there.
    failed: Option<Unreadable>,
}

impl Walk<'_> {
    /// Takes the module's files from a directory and from those below it. `real` is where it is,
    /// every link followed.
    fn visit(&mut self, directory: &Path, real: io::Result<PathBuf>, depth: usize) {
        match real.and_then(|real| self.subdirectories(directory, &real)) {
            Ok(subdirectories) if depth < MAX_DEPTH => {
                for (name, real) in subdirectories {
                    self.visit(&directory.join(name), Ok(real), depth + 1);
                }
            }
            Err(error) if !is_absent(&error) => self.fail(unreadable(directory, &error)),
            _ => {}
        }
    }

    fn fail(&mut self, why: Unreadable) {
        if self.found.is_empty() {
            self.failed.get_or_insert(why);
        }
    }

    fn subdirectories(&mut self, directory: &Path, real: &Path) -> io::Result<Sorted> {
        let (mut files, mut subdirectories) = (Sorted::new(), Sorted::new());
        if !self.seen.insert(id(&stat(real)?)) {
            return Ok(subdirectories);
        }
        for entry in entries(real, MAX_ENTRIES)? {
            self.left =
                self.left.checked_sub(1).ok_or_else(|| io::Error::other("too many files to search"))?;
            let (name, path) = (entry.file_name(), directory.join(entry.file_name()));
            if let Some(real) = self.as_directory(&entry, &path)? {
                if !SOURCES.iter().any(|source| name == *source) {
                    subdirectories.insert(name, real);
                }
            } else if self.search.is_named(name.as_bytes()) {
                files.insert(name, path);
            }
        }
        for path in files.into_values() {
            match self.search.candidate(path) {
                Ok(candidate) => self.found.extend(candidate),
                Err(why) => self.fail(why),
            }
        }
        Ok(subdirectories)
    }

    /// Where the directory is that the entry is, or leads to.
    fn as_directory(&self, entry: &DirEntry, path: &Path) -> io::Result<Option<PathBuf>> {
        let kind = entry.file_type()?;
        if kind.is_dir() {
            return Ok(Some(entry.path()));
        }
        let to = kind.is_symlink().then(|| self.search.stat(path).ok()).flatten();
        Ok(to.and_then(|(real, metadata)| metadata.is_dir().then_some(real)))
    }
}

fn id(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
