// SPDX-License-Identifier: Apache-2.0
//! Paths below another root, as a process chrooted there would find them.

use crate::ready::files::unread::noted;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

/// The kernel's own limit (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

/// Resolves `path`, which lies below `root`, so absolute links and `..` stay below `root`.
///
/// openat2(2) with `RESOLVE_IN_ROOT` would do the same, but is younger than RHEL 8's kernel.
///
/// # Errors
/// As lstat(2) of any component; `ELOOP` for too many links.
pub fn resolve(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let relative = match path.strip_prefix(root) {
        // The kernel follows links below `/` by itself.
        Ok(relative) if root != Path::new("/") => relative,
        _ => return Ok(path.to_owned()),
    };
    let mut here = walked(root, path);
    match walk(&mut here, root, relative, MAX_LINKS) {
        Ok(()) => Ok(here),
        Err(error) => Err(noted(&here, error)),
    }
}

/// Follows `rest` from `here`, through at most so many links.
fn walk(here: &mut PathBuf, root: &Path, rest: &Path, links: usize) -> io::Result<()> {
    let mut rest = rest.components();
    while let Some(part) = rest.next() {
        match part {
            Component::Normal(name) => here.push(name),
            Component::ParentDir => {
                leave(here, root);
                continue;
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => continue,
        }
        if !here.symlink_metadata()?.is_symlink() {
            continue;
        }
        let links = links.checked_sub(1).ok_or_else(|| io::Error::from_raw_os_error(nix::libc::ELOOP))?;
        let target = here.read_link()?;
        if target.is_absolute() {
            root.clone_into(here);
        } else {
            here.pop();
        }
        return walk(here, root, &target.join(rest.as_path()), links);
    }
    Ok(())
}

/// `root`, with room for the rest of `path`. A path that grows at each component would take memory of several sizes,
/// and musl's malloc may ask the kernel for each, at every look.
fn walked(root: &Path, path: &Path) -> PathBuf {
    let mut walked = PathBuf::with_capacity(root.as_os_str().len().max(path.as_os_str().len()) + 1);
    walked.push(root);
    walked
}

/// The directory above, which above the root is the root.
fn leave(here: &mut PathBuf, root: &Path) {
    if here != root {
        here.pop();
    }
}

/// The deepest directory on the way to `path` that exists, and the name in it that comes next: the file's, or
/// that of a directory which is still to come. Links are followed below `root`, those included that lead
/// nowhere yet.
///
/// # Errors
/// As lstat(2), except for what is absent or may not be searched; `ELOOP` for too many links.
pub fn nearest(root: &Path, path: &Path) -> io::Result<(PathBuf, OsString)> {
    // The kernel walks faster than we do.
    let beside = path.parent().zip(path.file_name()).filter(|_| root == Path::new("/"));
    if let Some((parent, name)) = beside.filter(|(parent, _)| parent.is_dir()) {
        return Ok((parent.to_owned(), name.to_owned()));
    }
    let mut todo = components(path.strip_prefix(root).unwrap_or(path));
    let mut here = walked(root, path);
    let mut links = 0;
    while let Some(next) = todo.pop() {
        if next == ".." {
            leave(&mut here, root);
            continue;
        }
        here.push(&next);
        let kind = match here.symlink_metadata() {
            Ok(metadata) if !todo.is_empty() => metadata.file_type(),
            Err(error) if !todo.is_empty() && !is_out_of_reach(&error) => return Err(error),
            _ => {
                here.pop();
                return Ok((here, next));
            }
        };
        if kind.is_symlink() {
            links += 1;
            if links > MAX_LINKS {
                return Err(io::Error::from_raw_os_error(nix::libc::ELOOP));
            }
            let target = here.read_link()?;
            here.pop();
            if target.is_absolute() {
                root.clone_into(&mut here);
            }
            todo.extend(components(&target));
        } else if !kind.is_dir() {
            here.pop();
            return Ok((here, next));
        }
    }
    Ok((here, OsString::new()))
}

fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied)
}

/// The components of a path, last first.
fn components(path: &Path) -> Vec<OsString> {
    let name = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_stay_below_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir_all(root.join("usr/src/tree")).unwrap();
        symlink("/usr/src/tree", root.join("usr/src/absolute")).unwrap();
        symlink("../../../../usr/src/tree", root.join("usr/src/climbing")).unwrap();
        symlink("absolute", root.join("usr/src/twice")).unwrap();
        symlink("loop", root.join("usr/src/loop")).unwrap();
        symlink("/etc", root.join("usr/src/dangling")).unwrap();
        for link in ["absolute", "climbing", "twice"] {
            assert_eq!(
                resolve(root, &root.join("usr/src").join(link)).unwrap(),
                root.join("usr/src/tree"),
                "{link}"
            );
        }
        let error = |name: &str| resolve(root, &root.join("usr/src").join(name)).unwrap_err();
        assert_eq!(error("loop").raw_os_error(), Some(nix::libc::ELOOP));
        assert_eq!(error("dangling").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_nearest_directory_is_found_behind_links_that_lead_nowhere_yet() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir_all(root.join("run/mellanox")).unwrap();
        std::fs::create_dir_all(root.join("mnt")).unwrap();
        symlink("/mnt/late/drivers", root.join("run/mellanox/drivers")).unwrap();
        symlink("../../../../../mnt", root.join("run/up")).unwrap();
        symlink("circle", root.join("run/circle")).unwrap();
        std::fs::write(root.join("run/file"), "").unwrap();
        for (path, directory, name) in [
            ("run/mellanox/drivers/.ready", "mnt", "late"),
            ("run/mellanox/other", "run/mellanox", "other"),
            ("run/mellanox/none/.ready", "run/mellanox", "none"),
            ("run/up/late/x", "mnt", "late"),
            ("run/file/x", "run", "file"),
            ("none", "", "none"),
        ] {
            let found = nearest(root, &root.join(path)).unwrap();
            assert_eq!(found, (root.join(directory), name.into()), "{path}");
        }
        assert!(nearest(root, &root.join("run/circle/x")).is_err());
        assert_eq!(nearest(Path::new("/"), &root.join("mnt/x")).unwrap(), (root.join("mnt"), "x".into()));
        std::fs::create_dir_all(root.join("mnt/late/drivers")).unwrap();
        let found = nearest(root, &root.join("run/mellanox/drivers/.ready")).unwrap();
        assert_eq!(found, (root.join("mnt/late/drivers"), ".ready".into()));
    }
}
