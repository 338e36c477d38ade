// SPDX-License-Identifier: Apache-2.0
//! Where nvidia-peermem is rebuilt, `var/lib/peermem-gate` below the driver's root, and where it is installed.
//!
//! A build has a directory of its own, which is gone afterwards; what a killed one left is removed by the next. The
//! record is on the disk before the module, and the module is whole there before it has its name. One rebuild works
//! at a time, by a lock that ends with its holder, and that only its owner can take.

use super::directory::fd_path;
use crate::clock::now;
use crate::files::read::{lines, record};
use crate::files::root::resolve;
use crate::module_file::{build_id_of_file, is_rebuilt};
use crate::node::below;
use crate::rebuild::record::{FailedBuild, Installed, PLACE, RecordFile, RefusedVersion};
use crate::rebuild::{Plan, preference, recipe, target};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag, open, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, lstat, mkdirat};
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};
use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const BUILDS: &str = "build-";
/// Nobody else can open it, and so nobody else can hold its lock.
const LOCK: &str = "lock";
/// Others must not write into the directory, and have no right to the lock at all.
const OTHERS_OF_DIRECTORY: u32 = 0o022;
const OTHERS_OF_LOCK: u32 = 0o077;
/// A Module.symvers, the sources, and each of them, are far smaller.
const LARGEST: u64 = 16 << 20;
const ENTRIES: usize = 5000;
/// How long another rebuild's last moment may take.
const PATIENCE: Duration = Duration::from_millis(500);

const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
const NEW: OFlag = OFlag::O_WRONLY
    .union(OFlag::O_CREAT)
    .union(OFlag::O_EXCL)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// Why it cannot be worked in.
#[derive(Debug)]
pub enum Closed {
    /// Somebody else is at work.
    Busy,
    /// The directory cannot be written.
    Unwritable(String),
    /// Others can write to it, or hold its lock.
    Exposed(String),
}

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

/// A file at our file's path that we did not put there. Ours carries our mark, or the record knows its build: another
/// builder's has no mark.
#[must_use]
pub fn foreign(root: &Path, release: &str) -> Option<PathBuf> {
    let path = below(root, &target(release));
    let real = resolve(root, &path).ok().filter(|real| real.symlink_metadata().is_ok())?;
    let is_recorded = || {
        let build_id = build_id_of_file(&real).filter(|build_id| !build_id.is_empty());
        let installed: Option<Installed> = record(root, release).ok().flatten();
        build_id.zip(installed).is_some_and(|(build_id, installed)| installed.build_ids.contains(&build_id))
    };
    (!is_rebuilt(&real) && !is_recorded()).then_some(path)
}

/// depmod has listed our file, and it is gone: an undo was interrupted before depmod.
#[must_use]
pub fn is_listed(root: &Path, release: &str) -> bool {
    /// A hundred times a distribution's.
    const LONGEST: u64 = 128 << 20;
    let modules = Path::new("/lib/modules").join(release);
    let Ok(list) = resolve(root, &below(root, &modules.join("modules.dep"))) else { return false };
    let ours = format!("updates/{}:", recipe::MODULE);
    let mut is_listed = false;
    let _ = lines(&list, LONGEST, |line| {
        is_listed |= line.starts_with(ours.as_bytes());
        if is_listed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    is_listed
}

/// Puts on the disk what depmod wrote for this kernel, and nothing else: a sync of the whole disk would wait for
/// everybody's writes.
pub fn flush_index(root: &Path, release: &str) {
    let flush = || -> io::Result<()> {
        let modules = resolve(root, &below(root, &Path::new("/lib/modules").join(release)))?;
        let directory = open(&modules, DIRECTORY, Mode::empty())?;
        for entry in fd_path(&directory).read_dir()? {
            let entry = entry?;
            let is_index = entry.file_name().as_encoded_bytes().starts_with(b"modules.");
            if is_index && entry.file_type()?.is_file() {
                let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
                fsync(openat(&directory, entry.file_name().as_os_str(), flags, Mode::empty())?)?;
            }
        }
        Ok(fsync(&directory)?)
    };
    if let Err(error) = flush() {
        let why = crate::errno::words(&error);
        tracing::warn!("cannot flush modules.dep of {release} to the disk, a power cut may undo it: {why}");
    }
}

/// Why the directory, or its lock, is not ours alone; nothing is made.
#[must_use]
pub fn exposed(root: &Path) -> Option<String> {
    let path = resolve(root, &below(root, Path::new(PLACE))).ok()?;
    let directory = |stat: FileStat| is_exposed(&path, &stat, OTHERS_OF_DIRECTORY);
    let lock = path.join(LOCK);
    let of_lock = |stat: FileStat| is_exposed(&lock, &stat, OTHERS_OF_LOCK);
    lstat(&path).ok().and_then(directory).or_else(|| lstat(&lock).ok().and_then(of_lock))
}

fn is_exposed(path: &Path, stat: &FileStat, others: u32) -> Option<String> {
    let why = if stat.st_uid != rustix::process::geteuid().as_raw() {
        "it belongs to another user".to_owned()
    } else if stat.st_mode & others != 0 {
        format!("its mode is {:04o}", stat.st_mode & 0o7777)
    } else {
        return None;
    };
    Some(format!("{}: {why}", path.display()))
}

/// Where the copy of a build would be, for a plan that is only shown.
#[must_use]
pub fn shown() -> PathBuf {
    Path::new(PLACE).join("build-NEW")
}

/// Why nothing could be written below the driver's root; nothing is made.
#[must_use]
pub fn unwritable(root: &Path, release: &str) -> Option<String> {
    let is_there = |path: &Path| resolve(root, &below(root, path)).is_ok_and(|real| real.is_dir());
    // In a read-only root this directory may be a mount of its own.
    let builds = if is_there(Path::new(PLACE)) { PLACE } else { "/var/lib" };
    let depmod = Path::new(preference::DEPMOD).ancestors().find(|path| is_there(path));
    let modules = Path::new("/lib/modules").join(release);
    let places = [Path::new(builds), &modules, depmod.unwrap_or(Path::new("/"))];
    places.into_iter().find_map(|place| {
        let path = below(root, place);
        let real = match resolve(root, &path) {
            Ok(real) => real,
            Err(error) => return Some(format!("{}: {}", path.display(), crate::errno::words(&error))),
        };
        let access = nix::unistd::access(&real, nix::unistd::AccessFlags::W_OK);
        access.err().map(|errno| format!("{}: {}", path.display(), errno.desc()))
    })
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

impl BuildDir {
    /// Opens it, and makes it if it is not there.
    ///
    /// # Errors
    /// Somebody else is at work, or nothing can be written there.
    pub fn open(root: &Path) -> Result<Self, Closed> {
        let path = below(root, Path::new(PLACE));
        let cannot = |error: &io::Error| {
            Closed::Unwritable(format!("{}: {}", path.display(), crate::errno::words(error)))
        };
        let (directory, place) = ours(root).map_err(|error| cannot(&error))?;
        let is_ours = |fd: &OwnedFd, path: &Path, others| {
            let stat = fstat(fd).map_err(|errno| cannot(&errno.into()))?;
            is_exposed(path, &stat, others).map_or(Ok(stat), |why| Err(Closed::Exposed(why)))
        };
        is_ours(&directory, &path, OTHERS_OF_DIRECTORY)?;
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = openat(&directory, LOCK, flags, Mode::S_IRUSR | Mode::S_IWUSR);
        let file = file.map_err(|errno| cannot(&errno.into()))?;
        let stat = is_ours(&file, &path.join(LOCK), OTHERS_OF_LOCK)?;
        if SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) != SFlag::S_IFREG {
            return Err(Closed::Exposed(format!("{}: it is not a regular file", path.join(LOCK).display())));
        }
        let lock = lock(file).map_err(|errno| match errno {
            Errno::EWOULDBLOCK => Closed::Busy,
            errno => cannot(&errno.into()),
        })?;
        let build_dir = Self { root: root.to_owned(), directory, _lock: lock, place };
        build_dir.clean();
        Ok(build_dir)
    }

    /// A copy of the sources for this plan, with MOFED's and nvidia's symbols in it; empty for another builder.
    ///
    /// # Errors
    /// As open(2), read(2) and write(2).
    pub fn copy(&self, plan: &Plan, sources: Option<&Path>) -> io::Result<Copy> {
        let name = format!("{BUILDS}{:016x}", RandomState::new().build_hasher().finish());
        mkdirat(&self.directory, name.as_str(), Mode::S_IRWXU)?;
        let copy = Copy { outside: self.here().join(&name), inside: self.place.join(&name) };
        let release = &plan.kernel.0;
        let symvers =
            plan.extra_symvers().ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "no symbols"))?;
        let ofa = copy.outside.join(recipe::OFA).join(release);
        fs::create_dir_all(&ofa)?;
        fs::write(ofa.join("Module.symvers"), symvers)?;
        fs::create_dir(copy.outside.join("tmp"))?;
        if let Some(sources) = sources {
            self.copy_sources(sources, &copy)?;
        }
        Ok(copy)
    }

    fn copy_sources(&self, sources: &Path, copy: &Copy) -> io::Result<()> {
        let mut left = ENTRIES;
        for name in recipe::SOURCES.iter().chain(&recipe::OPTIONAL) {
            let path = below(&self.root, &sources.join(name));
            let real = match resolve(&self.root, &path) {
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
        let edited = edited
            .ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "conftest.sh has an unknown form"))?;
        fs::write(conftest, edited)
    }

    /// Puts the module in its place, in one step, with the label of `neighbour` where files have one.
    ///
    /// # Errors
    /// As open(2), write(2) and rename(2); nothing has changed then.
    pub fn install(&self, module: &Path, build_id: &str, release: &str, neighbour: &Path) -> io::Result<()> {
        const KEPT: usize = 8;
        let mut ours = record::<Installed>(&self.root, release).ok().flatten().unwrap_or_default();
        ours.build_ids.drain(..(ours.build_ids.len() + 1).saturating_sub(KEPT));
        ours.build_ids.push(build_id.to_owned());
        let directory = updates(&self.root, release, true)?;
        let unfinished = format!(".{}.unfinished", recipe::MODULE);
        let _ = unlinkat(&directory, unfinished.as_str(), UnlinkatFlags::NoRemoveDir);
        let mut bytes = Vec::new();
        File::open(module)?.take(LARGEST).read_to_end(&mut bytes)?;
        let put = || -> io::Result<()> {
            let mut file =
                File::from(openat(&directory, unfinished.as_str(), NEW, Mode::from_bits_truncate(0o644))?);
            file.write_all(&bytes)?;
            fchmod(&file, Mode::from_bits_truncate(0o644))?;
            label(&file, neighbour);
            fsync(&file)?;
            // First the record: a file without one would be somebody else's forever.
            self.remember(release, &ours)?;
            // Without the module, depmod passes it over.
            self.prefer(release)?;
            renameat(&directory, unfinished.as_str(), &directory, recipe::MODULE)?;
            flush(&directory);
            Ok(())
        };
        put().inspect_err(|_| {
            let _ = unlinkat(&directory, unfinished.as_str(), UnlinkatFlags::NoRemoveDir);
        })
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
                removed
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        match removed {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
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
        let is_build = |name: &OsStr| name.as_encoded_bytes().starts_with(BUILDS.as_bytes());
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
    match mkdirat(&directory, name, Mode::from_bits_truncate(0o755)) {
        Ok(()) => flush(&directory),
        Err(Errno::EEXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let fd = openat(&directory, name, DIRECTORY, Mode::empty())?;
    let inside = parent.strip_prefix(root).unwrap_or(&parent);
    Ok((fd, Path::new("/").join(inside).join(name)))
}

/// A file with these bytes, on the disk before it has its name.
fn put_whole(directory: &OwnedFd, name: &str, bytes: &[u8]) -> io::Result<()> {
    let unfinished = format!(".{name}.unfinished");
    let mode = Mode::from_bits_truncate(0o644);
    let _ = unlinkat(directory, unfinished.as_str(), UnlinkatFlags::NoRemoveDir);
    let put = || -> io::Result<()> {
        let mut file = File::from(openat(directory, unfinished.as_str(), NEW, mode)?);
        file.write_all(bytes)?;
        fchmod(&file, mode)?;
        fsync(&file)?;
        renameat(directory, unfinished.as_str(), directory, name)?;
        flush(directory);
        Ok(())
    };
    put().inspect_err(|_| {
        let _ = unlinkat(directory, unfinished.as_str(), UnlinkatFlags::NoRemoveDir);
    })
}

/// The directory of depmod's files.
fn depmod_d(root: &Path, makes: bool) -> io::Result<OwnedFd> {
    let path = Path::new(preference::DEPMOD);
    let etc = path.parent().unwrap_or(path);
    let opened = resolve(root, &below(root, etc))
        .and_then(|real| open(&real, DIRECTORY, Mode::empty()).map_err(io::Error::from));
    let parent = match opened {
        // A root of modules alone. It may itself be a link of the kernel's, which is followed.
        Err(error) if makes && error.kind() == ErrorKind::NotFound => {
            let root = open(&root.join("."), DIRECTORY, Mode::empty())?;
            made(&root, etc.file_name().unwrap_or_default(), true)?
        }
        opened => opened?,
    };
    made(&parent, path.file_name().unwrap_or_default(), makes)
}

/// A directory that everybody may read, made if it is not there.
fn made(parent: &OwnedFd, name: &OsStr, makes: bool) -> io::Result<OwnedFd> {
    if makes {
        match mkdirat(parent, name, Mode::from_bits_truncate(0o755)) {
            Ok(()) => {
                fchmod(&openat(parent, name, DIRECTORY, Mode::empty())?, Mode::from_bits_truncate(0o755))?;
                flush(parent);
            }
            Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(openat(parent, name, DIRECTORY, Mode::empty())?)
}

/// Puts the names in a directory on the disk, where its file system can.
fn flush(directory: impl AsFd) {
    let _ = fsync(directory);
}

fn lock(mut fd: OwnedFd) -> nix::Result<Flock<OwnedFd>> {
    let until = now() + PATIENCE;
    loop {
        match Flock::lock(fd, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => return Ok(locked),
            Err((unlocked, Errno::EINTR)) if now() < until => fd = unlocked,
            Err((_, errno)) => return Err(errno),
        }
    }
}

/// The kernel's directory of modules that come before all others.
fn updates(root: &Path, release: &str, makes: bool) -> io::Result<OwnedFd> {
    let modules = resolve(root, &below(root, &Path::new("/lib/modules").join(release)))?;
    made(&open(&modules, DIRECTORY, Mode::empty())?, OsStr::new("updates"), makes)
}

/// `SELinux` lets the kernel read modules of certain labels only.
fn label(file: &File, neighbour: &Path) {
    const NAME: &str = "security.selinux";
    let mut label = [0; 512];
    let Ok(length) = rustix::fs::getxattr(neighbour, NAME, &mut label[..]) else { return };
    let flags = rustix::fs::XattrFlags::empty();
    if let Err(errno) = rustix::fs::fsetxattr(file, NAME, &label[..length], flags) {
        tracing::warn!("cannot give nvidia-peermem.ko the SELinux label of {}: {errno}", neighbour.display());
    }
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
    let mut bytes = Vec::new();
    File::open(from)?.take(LARGEST).read_to_end(&mut bytes)?;
    // Makefiles run scripts by name. No bit of another user's goes with them.
    fs::write(to, bytes)?;
    fs::set_permissions(to, fs::Permissions::from_mode(kind.permissions().mode() & 0o755))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module_file::tests::image::Image;
    use crate::rebuild::Pair;
    use crate::rebuild::sample::RELEASE;
    use tempfile::TempDir;

    /// A driver's root without any module.
    fn root() -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for directory in ["var/lib", &format!("lib/modules/{RELEASE}")] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        root
    }

    /// A module of this build, in a file below the root, and where it is to be installed.
    fn module(root: &TempDir, build_id: u8) -> (PathBuf, PathBuf) {
        let mut image = Image::peermem().without(".note.gnu.build-id");
        image.build_id(&[build_id; 20]);
        let path = root.path().join("built.ko");
        fs::write(&path, image.build()).unwrap();
        (path, below(root.path(), &target(RELEASE)))
    }

    fn install(root: &TempDir, build_id: u8) -> io::Result<PathBuf> {
        let (built, installed) = module(root, build_id);
        let build_id = build_id_of_file(&built).expect("a build id");
        let build_dir = BuildDir::open(root.path()).expect("nobody else is at work");
        build_dir.install(&built, &build_id, RELEASE, &built).map(|()| installed)
    }

    fn recorded(root: &TempDir) -> Vec<String> {
        record::<Installed>(root.path(), RELEASE).unwrap().unwrap_or_default().build_ids
    }

    #[test]
    fn what_is_installed_is_recorded_as_ours() {
        let root = root();
        for build in 1..=2 {
            let installed = install(&root, build).unwrap();
            assert_eq!(installed.metadata().unwrap().permissions().mode() & 0o777, 0o644);
            assert_eq!(recorded(&root).last(), build_id_of_file(&installed).as_ref());
            assert_eq!(foreign(root.path(), RELEASE), None);
        }
        assert_eq!(recorded(&root).len(), 2);
        assert!(BuildDir::open(root.path()).unwrap().remove(RELEASE).unwrap());
        assert_eq!((recorded(&root), foreign(root.path(), RELEASE)), (Vec::new(), None));
    }

    #[test]
    fn a_file_that_the_record_does_not_name_is_foreign() {
        let root = root();
        assert_eq!(foreign(root.path(), RELEASE), None, "there is none");
        let installed = install(&root, 1).unwrap();
        let (another, _) = module(&root, 2);
        for theirs in [fs::read(another).unwrap(), b"garbage".to_vec()] {
            fs::write(&installed, theirs).unwrap();
            assert_eq!(foreign(root.path(), RELEASE), Some(installed.clone()));
        }
        fs::remove_file(&installed).unwrap();
        std::os::unix::fs::symlink("/no/such/file", &installed).unwrap();
        assert_eq!(foreign(root.path(), RELEASE), None, "modprobe finds nothing there");
    }

    #[test]
    fn depmods_file_comes_and_goes_with_the_module() {
        let root = root();
        let file = below(root.path(), &preference::path(RELEASE));
        install(&root, 1).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), preference::text(RELEASE));
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o644);
        fs::write(&file, "torn").unwrap();
        install(&root, 2).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), preference::text(RELEASE));
        let theirs = file.with_file_name("ubuntu.conf");
        fs::write(&theirs, "search updates\n").unwrap();
        let build_dir = BuildDir::open(root.path()).unwrap();
        assert!(build_dir.remove(RELEASE).unwrap());
        assert!(!file.exists() && theirs.exists());
        assert_eq!(file.parent().unwrap().read_dir().unwrap().count(), 1, "no unfinished file");
    }

    /// A link that somebody planted is not followed.
    #[test]
    fn without_depmods_file_nothing_is_installed() {
        let root = root();
        let outside = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("etc")).unwrap();
        std::os::unix::fs::symlink(outside.path(), root.path().join("etc/depmod.d")).unwrap();
        assert!(install(&root, 1).is_err());
        assert!(!below(root.path(), &target(RELEASE)).exists());
        assert_eq!(outside.path().read_dir().unwrap().count(), 0);
    }

    /// As a power cut left it, when the record was renamed before it was on the disk.
    #[test]
    fn a_module_that_carries_our_mark_is_ours_whatever_the_record_says() {
        let root = root();
        let mut image = Image::new(&["vermagic=6.1", "depends=", "rebuilt_by=peermem-gate"]);
        image.build_id(&[7; 20]);
        let built = root.path().join("built.ko");
        fs::write(&built, image.build()).unwrap();
        let build_dir = BuildDir::open(root.path()).unwrap();
        build_dir.install(&built, &"07".repeat(20), RELEASE, &built).unwrap();
        drop(build_dir);
        let file = Installed::path(root.path(), RELEASE);
        for damage in ["", "{", "\0\0\0\0", r#"{"build_ids":[]}"#] {
            fs::write(&file, damage).unwrap();
            assert_eq!(foreign(root.path(), RELEASE), None, "{damage:?}");
        }
        fs::remove_file(&file).unwrap();
        assert_eq!(foreign(root.path(), RELEASE), None);
        // The mark is the name and ours behind it, and no less.
        for theirs in ["rebuilt_by=another", "xrebuilt_by=peermem-gate", "author=peermem-gate"] {
            let image = Image::new(&["vermagic=6.1", "depends=", theirs]);
            fs::write(below(root.path(), &target(RELEASE)), image.build()).unwrap();
            assert!(foreign(root.path(), RELEASE).is_some(), "{theirs}");
        }
        let unreadable = install(&root, 1).unwrap();
        fs::write(&file, "").unwrap();
        assert_eq!(foreign(root.path(), RELEASE), Some(unreadable), "another builder's has no mark");
        install(&root, 2).unwrap();
        assert_eq!(recorded(&root), ["02".repeat(20)], "a damaged record is replaced");
    }

    #[test]
    fn nobody_else_can_hold_the_lock_or_write_beside_it() {
        let root = root();
        let held = BuildDir::open(root.path()).unwrap();
        assert!(matches!(BuildDir::open(root.path()), Err(Closed::Busy)));
        drop(held);
        let place = below(root.path(), Path::new(PLACE));
        let lock = place.join(LOCK);
        assert_eq!(lock.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(exposed(root.path()), None);
        // Every process that can open the directory can lock that, which delays no rebuild.
        let directory = File::open(&place).unwrap();
        let _lock = Flock::lock(directory, FlockArg::LockExclusiveNonblock).unwrap();
        assert!(BuildDir::open(root.path()).is_ok());
        for (path, mode) in [(&place, 0o777), (&place, 0o1775), (&lock, 0o644), (&lock, 0o660)] {
            let before = path.metadata().unwrap().permissions();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            let words = format!("its mode is {mode:04o}");
            assert!(exposed(root.path()).unwrap().ends_with(&words));
            assert!(
                matches!(BuildDir::open(root.path()), Err(Closed::Exposed(why)) if why.ends_with(&words))
            );
            fs::set_permissions(path, before).unwrap();
        }
        for make in [
            |path: &Path| nix::unistd::mkfifo(path, Mode::S_IRUSR).unwrap(),
            |path: &Path| std::os::unix::fs::symlink("/etc/passwd", path).unwrap(),
        ] {
            fs::remove_file(&lock).unwrap();
            make(&lock);
            assert!(BuildDir::open(root.path()).is_err());
        }
    }

    #[test]
    fn no_bit_of_another_user_is_copied() {
        let root = root();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        fs::write(&from, "#!/bin/sh").unwrap();
        for (mode, copied) in [(0o6777, 0o755), (0o1644, 0o644), (0o555, 0o555)] {
            fs::set_permissions(&from, fs::Permissions::from_mode(mode)).unwrap();
            copy_all(&from, &to, &mut 1).unwrap();
            assert_eq!(to.metadata().unwrap().permissions().mode() & 0o7777, copied);
            fs::remove_file(&to).unwrap();
        }
    }

    #[test]
    fn an_undo_that_ended_before_depmod_is_seen_in_modules_dep() {
        let root = root();
        assert!(!is_listed(root.path(), RELEASE));
        let list = root.path().join(format!("lib/modules/{RELEASE}/modules.dep"));
        let theirs = "updates/dkms/nvidia-peermem.ko: x.ko\nkernel/updates/nvidia-peermem.ko:\n";
        fs::write(&list, theirs).unwrap();
        assert!(!is_listed(root.path(), RELEASE));
        fs::write(&list, format!("{theirs}updates/nvidia-peermem.ko: x.ko\n")).unwrap();
        assert!(is_listed(root.path(), RELEASE));
    }

    /// A file without a record would be foreign forever.
    #[test]
    fn the_record_comes_before_the_file() {
        let root = root();
        let installed = below(root.path(), &target(RELEASE));
        // No file can have this name.
        fs::create_dir_all(installed.join("full")).unwrap();
        assert!(install(&root, 1).is_err());
        assert_eq!(recorded(&root), ["01".repeat(20)]);
        assert_eq!(installed.parent().unwrap().read_dir().unwrap().count(), 1, "no unfinished file");
    }

    #[test]
    fn a_refusal_is_noted_only_where_something_was_built() {
        let root = root();
        let pair = Pair { kernel: RELEASE.into(), nvidia: "4e".into(), mofed: "4d".into() };
        let refused = RefusedVersion { pair, symbol: "ib_register_peer_memory_client".to_owned(), crc: 7 };
        note_refusal(root.path(), &refused);
        assert!(!root.path().join("var/lib/peermem-gate").exists());
        drop(BuildDir::open(root.path()).unwrap());
        note_refusal(root.path(), &refused);
        assert_eq!(record(root.path(), RELEASE), Ok(Some(refused)));
        BuildDir::open(root.path()).unwrap().forget_refusal(RELEASE);
        assert_eq!(record::<RefusedVersion>(root.path(), RELEASE), Ok(None));
    }

    #[test]
    fn an_attempt_is_noted_until_it_is_forgotten() {
        let root = root();
        let build_dir = BuildDir::open(root.path()).unwrap();
        let pair = Pair { kernel: RELEASE.into(), nvidia: "4e".into(), mofed: "4d".into() };
        let tried = FailedBuild { pair, why: "make ended with 2".to_owned() };
        build_dir.note(&tried);
        assert_eq!(record(root.path(), RELEASE), Ok(Some(tried)));
        build_dir.forget_attempt(RELEASE);
        assert_eq!(record::<FailedBuild>(root.path(), RELEASE), Ok(None));
    }
}
