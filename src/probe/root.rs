// SPDX-License-Identifier: Apache-2.0
//! Paths below another root, as a process chrooted there would find them.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The kernel's own limit (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

/// Resolves `path`, which lies below `root`, so that absolute links and `..` stay below `root`.
///
/// openat2(2) with `RESOLVE_IN_ROOT` would do the same, but is younger than RHEL 8's kernel.
///
/// # Errors
/// As lstat(2) of any component; `ELOOP` for too many links.
pub(crate) fn resolve(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let relative = match path.strip_prefix(root) {
        // The kernel follows links below `/` by itself.
        Ok(relative) if root != Path::new("/") => relative,
        _ => return Ok(path.to_owned()),
    };
    let mut todo: Vec<OsString> = components(relative);
    let mut done = PathBuf::new();
    let mut links = 0;
    while let Some(next) = todo.pop() {
        if next == ".." {
            done.pop();
            continue;
        }
        let here = root.join(&done).join(&next);
        if !here.symlink_metadata()?.is_symlink() {
            done.push(next);
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(io::Error::from_raw_os_error(nix::libc::ELOOP));
        }
        let target = here.read_link()?;
        if target.is_absolute() {
            done.clear();
        }
        todo.extend(components(&target));
    }
    Ok(root.join(done))
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
}
