// SPDX-License-Identifier: Apache-2.0
//! Where nvidia-peermem is rebuilt, `var/lib/peermem-gate` below the driver's root, and where it is installed.
//!
//! A build has its own directory, which is removed at its end; the next build removes what a killed one left. The
//! record is on the disk before the module, and the module is whole there before it has its name. One rebuild works
//! at a time, by a lock that ends with its holder, and that only its owner can take.

mod installed;
mod on_disk;
mod owner;
mod sources;
#[cfg(test)]
mod tests;

pub use installed::{foreign, is_listed};
pub use on_disk::flush_index;
pub use owner::{exposed, unwritable};

use crate::peermem::record::{FailedBuild, Installed, PLACE, Pair, RecordFile, RefusedVersion, record};
use crate::peermem::store::STORE;
use crate::process::directory::fd_path;
use crate::ready::files::read::beginning;
use crate::ready::files::root::resolve;
use crate::ready::node::below;
use crate::ready::sort;
use crate::rebuild::{Builder, Obstacle, Plan, Sources, preference, recipe};
use nix::errno::Errno;
use nix::fcntl::{Flock, open};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};
use on_disk::{DIRECTORY, Unfinished, depmod_d, label, updates};
pub(crate) use on_disk::{flush, made_as, put_whole};
use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::fs::{self};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

const BUILDS: &str = "build-";
/// A Module.symvers, the sources, and each of them, are far smaller.
const LARGEST: u64 = 16 << 20;

/// The directory of all that is ours below a driver's root, locked.
#[derive(Debug)]
pub struct BuildDir {
    root: PathBuf,
    directory: OwnedFd,
    _lock: Flock<OwnedFd>,
    /// As seen from inside the root.
    place: PathBuf,
}

/// A copy of the sources, removed when it is dropped.
#[derive(Debug)]
pub struct Copy {
    /// As this process sees it.
    pub outside: PathBuf,
    /// As seen from inside the driver's root.
    pub inside: PathBuf,
}

impl Drop for Copy {
    fn drop(&mut self) {
        // What stays is removed by the next rebuild.
        let _ = fs::remove_dir_all(&self.outside);
    }
}

/// Where the copy of a build would be, for a plan that is only shown.
#[must_use]
pub fn shown() -> PathBuf {
    Path::new(PLACE).join("build-NEW")
}

/// Leaves a note that the kernel refused this, where a rebuild has left its directory.
pub fn note_refusal(root: &Path, refused: &RefusedVersion) {
    if !resolve(root, &below(root, Path::new(PLACE))).is_ok_and(|real| real.is_dir()) {
        return;
    }
    if let Ok(build_dir) = BuildDir::open(root) {
        let _ = build_dir.remember(&refused.pair.kernel, refused);
    }
}

/// Removes what a build that was killed has left below this root, unless another one runs. Nothing is made.
pub fn clear_killed(root: &Path) {
    if has_killed(root) {
        // Whoever opens it clears it.
        let _ = BuildDir::open(root);
    }
}

/// A build that was killed, or one that runs, has a directory below this root.
#[must_use]
pub fn has_killed(root: &Path) -> bool {
    let entries = resolve(root, &below(root, Path::new(PLACE))).and_then(|real| real.read_dir());
    entries.is_ok_and(|entries| entries.flatten().any(|entry| is_build(&entry.file_name())))
}

fn is_build(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(BUILDS.as_bytes())
}

impl BuildDir {
    /// Opens it, and makes it if it is not there.
    ///
    /// # Errors
    /// Somebody else is at work, or nothing can be written there.
    pub fn open(root: &Path) -> Result<Self, Obstacle> {
        let unwritable = |error| owner::unwritable_here(&below(root, Path::new(PLACE)), &error);
        let (directory, place) = ours(root).map_err(unwritable)?;
        let lock = owner::locked(&directory, root)?;
        let build_dir = Self { root: root.to_owned(), directory, _lock: lock, place };
        build_dir.clean();
        Ok(build_dir)
    }

    /// A copy of the sources for this plan, with MOFED's and nvidia's symbols in it; empty for another builder.
    ///
    /// # Errors
    /// As open(2), read(2) and write(2).
    pub fn copy(&self, plan: &Plan, sources: Option<&Sources>) -> io::Result<Copy> {
        let name = format!("{BUILDS}{:016x}", RandomState::new().build_hasher().finish());
        mkdirat(&self.directory, name.as_str(), Mode::S_IRWXU)?;
        let copy = Copy { outside: self.here().join(&name), inside: self.place.join(&name) };
        if matches!(plan.builder, Builder::Stored(..)) {
            fs::create_dir(&copy.outside).or_else(|error| match error.kind() {
                ErrorKind::AlreadyExists => Ok(()),
                _ => Err(error),
            })?;
            return Ok(copy);
        }
        let release = &plan.kernel.0;
        let symvers =
            plan.extra_symvers().ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "no symbols"))?;
        let ofa = copy.outside.join(recipe::OFA).join(release);
        fs::create_dir_all(&ofa)?;
        fs::write(ofa.join("Module.symvers"), symvers)?;
        fs::create_dir(copy.outside.join("tmp"))?;
        if let Some(sources) = sources {
            sources::copy(&sources.root, &sources.directory, &copy)?;
        }
        Ok(copy)
    }

    /// Puts the module in its place, in one step, with the label of `neighbor` where files have one.
    ///
    /// # Errors
    /// As open(2), write(2) and rename(2); nothing has changed then.
    pub fn install(&self, module: &Path, build_id: &str, pair: &Pair, neighbor: &Path) -> io::Result<()> {
        const KEPT: usize = 8;
        let release = pair.kernel.as_str();
        let mut ours = record::<Installed>(&self.root, release).ok().flatten().unwrap_or_default();
        ours.build_ids.drain(..(ours.build_ids.len() + 1).saturating_sub(KEPT));
        ours.build_ids.push(build_id.to_owned());
        ours.pair = pair.clone();
        let directory = updates(&self.root, release, true)?;
        let module = Unfinished::new(&directory, recipe::MODULE, &beginning(module, LARGEST)?)?;
        // The store's files have another label than modules.
        if neighbor.parent().and_then(Path::file_name) != Path::new(STORE).file_name() {
            label(&module.file, neighbor);
        }
        fsync(&module.file)?;
        // First the record: without one the file would count as foreign forever.
        self.remember(release, &ours)?;
        // Without the module, depmod passes it over.
        self.prefer(release).or_else(|error| match error.kind() {
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
                tracing::warn!(
                    "cannot write {}: {}: depmod takes the rebuilt module only if no other one is in updates/",
                    preference::path(release).display(),
                    crate::ready::errno::words(&error)
                );
                Ok(())
            }
            _ => Err(error),
        })?;
        module.named()
    }

    /// Makes depmod take our file.
    fn prefer(&self, release: &str) -> io::Result<()> {
        put_whole(
            &depmod_d(&self.root, true)?,
            &preference::name(release),
            preference::text(release).as_bytes(),
        )
    }

    /// Leaves the choice to depmod again.
    fn unprefer(&self, release: &str) -> io::Result<()> {
        let removed = match depmod_d(&self.root, false) {
            Ok(directory) => {
                let name = preference::name(release);
                let removed = unlinkat(&directory, name.as_str(), UnlinkatFlags::NoRemoveDir);
                flush(&directory);
                let is_gone = !fd_path(&directory).join(&name).exists();
                removed.or_else(|errno| if is_gone { Ok(()) } else { Err(errno) })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        Ok(removed?)
    }

    /// The kernels that something was installed for, by the records of it.
    #[must_use]
    pub fn installed(&self) -> Vec<String> {
        let entries = self.here().read_dir().into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let release = |name: String| Some(name.strip_prefix(Installed::NAME)?.strip_prefix('.')?.to_owned());
        let mut releases: Vec<_> = names.filter_map(release).collect();
        sort::sort(&mut releases);
        releases
    }

    /// Removes the module that was installed for this kernel. False where there was none.
    ///
    /// # Errors
    /// As unlink(2).
    pub fn remove(&self, release: &str) -> io::Result<bool> {
        let removed = match updates(&self.root, release, false) {
            Ok(directory) => {
                let removed = unlinkat(&directory, recipe::MODULE, UnlinkatFlags::NoRemoveDir);
                // A module that comes back after a power cut must find its record.
                flush(&directory);
                removed
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Errno::ENOENT),
            Err(error) => return Err(error),
        };
        if matches!(removed, Ok(()) | Err(Errno::ENOENT)) {
            self.unprefer(release)?;
            self.forget::<Installed>(release);
        }
        match removed {
            Ok(()) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Leaves a note that this attempt failed.
    pub fn note(&self, tried: &FailedBuild) {
        // A disk that is full then keeps no note, and the attempt is made again.
        let _ = self.remember(&tried.pair.kernel, tried);
    }

    /// Forgets an attempt that failed.
    pub fn forget_attempt(&self, release: &str) {
        self.forget::<FailedBuild>(release);
    }

    /// Forgets what the kernel refused.
    pub fn forget_refusal(&self, release: &str) {
        self.forget::<RefusedVersion>(release);
    }

    fn forget<R: RecordFile>(&self, release: &str) {
        let name = format!("{}.{release}", R::NAME);
        if unlinkat(&self.directory, name.as_str(), UnlinkatFlags::NoRemoveDir).is_ok() {
            flush(&self.directory);
        }
    }

    fn remember<R: RecordFile>(&self, release: &str, record: &R) -> io::Result<()> {
        let name = format!("{}.{release}", R::NAME);
        put_whole(&self.directory, &name, serde_json::to_string(record)?.as_bytes())
    }

    fn here(&self) -> PathBuf {
        fd_path(&self.directory)
    }

    /// Removes what builds that were killed have left. No other build runs, because we have the lock.
    fn clean(&self) {
        let Ok(entries) = self.here().read_dir() else { return };
        for entry in entries.flatten().filter(|entry| is_build(&entry.file_name())) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn ours(root: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    let place = Path::new(PLACE);
    let parent = resolve(root, &below(root, place.parent().unwrap_or(place)))?;
    let directory = open(&parent, DIRECTORY, Mode::empty())?;
    let name = place.file_name().unwrap_or_default();
    let fd = made_as(&directory, name, Mode::from_bits_truncate(0o755))?;
    let inside = parent.strip_prefix(root).unwrap_or(&parent);
    Ok((fd, Path::new("/").join(inside).join(name)))
}
