// SPDX-License-Identifier: Apache-2.0
//! This program, the link by which it is the modprobe shim, and `peermem-doctor` on demand, put into a volume.
//!
//! All is done below an open descriptor of DIR, and no link is followed there: whatever others plant
//! or swap in the volume, nothing outside it is written. What is put in place is whole and has been
//! run: it is written beside its name, and renamed.

use crate::VERSION;
use crate::cli::environment::Misuse;
use crate::cli::{InstallArgs, log};
use crate::process::directory::{fd_path, refuse_mofeds};
use crate::ready::clock::now;
use crate::ready::exit::Exit;
use crate::ready::files::mount;
use crate::start::VerbError;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, Flock, FlockArg, OFlag, open, openat, readlinkat, renameat};
use nix::libc;
use nix::sys::stat::{Mode, fchmod, fstat, fstatat, mkdirat};
use nix::sys::statvfs::{FsFlags, fstatvfs};
use nix::unistd::{UnlinkatFlags, fsync, symlinkat, unlinkat};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

const PROGRAM: &str = "peermem-gate";
const DOCTOR: &str = "peermem-doctor";
const SHIM: &str = "shim";
const LINK: &str = "modprobe";
/// Relative, because other containers mount the volume at other paths.
const TARGET: &str = "../peermem-gate";

/// For all to run, whatever the umask is.
const MODE: Mode = Mode::from_bits_truncate(0o755);

/// For the directory, the link, and blocks that are not filled.
const MARGIN: u64 = 64 * 1024;

/// How long another install in the same volume may take, and how often its end is looked for.
const LOCK_LIMIT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The former file at the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The very same: it stays.
    Same,
    /// Nothing.
    Nothing,
    /// Another file.
    File,
    /// A link that leads elsewhere.
    Link,
}

/// Why it is not, or not all, in the volume. Both are a sentence.
#[derive(Debug)]
pub enum NotInstalled {
    /// DIR is no place for it: another DIR, or another mount, is.
    Refused(String),
    /// DIR cannot take it now.
    Failed(String),
}

/// Installs, and reports what was done.
pub(crate) fn run(args: &InstallArgs) -> Result<Exit, VerbError> {
    log::start(&args.log);
    let mut is_changed = false;
    for (path, was) in &install(&args.dir, args.doctor)? {
        let done = match was {
            Existing::Same => "already there",
            Existing::Nothing => "installed",
            Existing::File => "installed, replacing another file",
            Existing::Link => "installed, replacing a link to another file",
        };
        tracing::info!("{done}: {}", path.display());
        is_changed |= *was != Existing::Same;
    }
    let done = if is_changed { "installed and run" } else { "nothing to do" };
    tracing::info!("{done}: peermem-gate {VERSION} is in {}", args.dir.display());
    Ok(Exit::Opened)
}

/// Puts the program and the link into the directory at `path`, and `peermem-doctor` if that is asked for; what is
/// there already is not touched.
///
/// # Errors
/// Nothing has changed then, or the program is in place and the rest is not.
pub fn install(path: &Path, with_doctor: bool) -> Result<Vec<(PathBuf, Existing)>, NotInstalled> {
    let doctor = with_doctor.then(ProgramFile::doctor).transpose()?;
    let volume = Volume::open(path)?;
    volume.refuse_mofeds()?;
    volume.refuse_noexec()?;
    let _alone = volume.lock()?;
    let was = volume.see(PROGRAM)?;
    let shim = volume.subdirectory(SHIM)?;
    let link_was = shim.as_ref().map_or(Ok(Existing::Nothing), |shim| shim.see(LINK))?;
    let program = volume.put_program(&ProgramFile::own()?, was)?;
    let shim = match shim {
        Some(shim) => shim,
        None => volume.make_subdirectory(SHIM)?,
    };
    let link = shim.put_link(link_was)?;
    let mut installed = vec![(volume.path.join(PROGRAM), program), (shim.path.join(LINK), link)];
    if let Some(doctor) = doctor {
        let was = volume.put_program(&doctor, volume.see(DOCTOR)?)?;
        installed.push((volume.path.join(DOCTOR), was));
    }
    Ok(installed)
}

/// A directory that is kept open: what is done in it is done there, whatever becomes of its path,
/// which is for messages.
struct Volume {
    path: PathBuf,
    fd: OwnedFd,
}

impl Volume {
    const FLAGS: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);

    fn open(path: &Path) -> Result<Self, NotInstalled> {
        match open(path, Self::FLAGS, Mode::empty()) {
            Ok(fd) => Ok(Self { path: path.to_owned(), fd }),
            Err(errno) => Err(cannot_open(path, errno)),
        }
    }

    fn refuse_mofeds(&self) -> Result<(), NotInstalled> {
        // Through the descriptor: where it really is, whatever the path leads to by now.
        let real = fd_path(&self.fd).read_link().unwrap_or_else(|_| self.path.clone());
        refuse_mofeds(&real, None).map_err(|error| {
            let path = self.path.display();
            NotInstalled::Refused(format!("cannot install into {path}: {error}: name another directory"))
        })
    }

    fn refuse_noexec(&self) -> Result<(), NotInstalled> {
        let flags = fstatvfs(&self.fd).map_or(FsFlags::empty(), |volume| volume.flags());
        if !flags.contains(FsFlags::ST_NOEXEC) {
            return Ok(());
        }
        Err(NotInstalled::Refused(format!(
            "cannot install into {}: {} is mounted noexec, so nothing in it can be run: name a directory on \
                another mount (an emptyDir, unless the node's /var is noexec too), or mount this one with exec",
            self.path.display(),
            self.mount()
        )))
    }

    /// One at a time: the names of what is unfinished are always the same, so what a dead one has
    /// left is found.
    fn lock(&self) -> Result<Flock<OwnedFd>, NotInstalled> {
        let cannot = |errno| self.cannot("lock", "", errno);
        let mut fd = self.fd.try_clone().map_err(|error| cannot(errno_of(&error)))?;
        let until = now() + LOCK_LIMIT;
        let mut is_logged = false;
        loop {
            match Flock::lock(fd, FlockArg::LockExclusiveNonblock) {
                Ok(locked) => return Ok(locked),
                Err((unlocked, Errno::EWOULDBLOCK | Errno::EINTR)) if now() < until => fd = unlocked,
                Err((_, Errno::EWOULDBLOCK)) => {
                    return Err(NotInstalled::Failed(format!(
                        "cannot install into {}: its lock has been held for {} s: end the other install that \
                            hangs, or the process that has flock(2) on that directory",
                        self.path.display(),
                        LOCK_LIMIT.as_secs()
                    )));
                }
                Err((_, errno)) => return Err(cannot(errno)),
            }
            if !is_logged {
                tracing::info!("another install is running in {}: waiting for it", self.path.display());
                is_logged = true;
            }
            sleep(POLL_INTERVAL);
        }
    }

    /// The former file at a name. Anything but a file or a link is refused, not replaced.
    fn see(&self, name: &str) -> Result<Existing, NotInstalled> {
        let stat = match fstatat(&self.fd, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::ENOENT) => return Ok(Existing::Nothing),
            Err(errno) => return Err(self.cannot("look at", name, errno)),
        };
        match stat.st_mode & libc::S_IFMT {
            libc::S_IFREG => Ok(Existing::File),
            libc::S_IFLNK => Ok(Existing::Link),
            _ => Err(NotInstalled::Refused(format!(
                "{} is in the way and is not a file: remove it",
                self.path.join(name).display()
            ))),
        }
    }

    /// A directory in this one; no link to one.
    fn subdirectory(&self, name: &str) -> Result<Option<Self>, NotInstalled> {
        let path = self.path.join(name);
        match openat(&self.fd, name, Self::FLAGS | OFlag::O_NOFOLLOW, Mode::empty()) {
            Ok(fd) => Ok(Some(Self { path, fd })),
            Err(Errno::ENOENT) => Ok(None),
            Err(Errno::ENOTDIR | Errno::ELOOP) => Err(NotInstalled::Refused(format!(
                "{} is in the way and is not a directory (links are not followed): remove it",
                path.display()
            ))),
            Err(errno) => Err(self.cannot("open", name, errno)),
        }
    }

    fn make_subdirectory(&self, name: &str) -> Result<Self, NotInstalled> {
        match mkdirat(&self.fd, name, MODE) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(self.cannot("make", name, errno)),
        }
        self.subdirectory(name)?.ok_or_else(|| self.cannot("open", name, Errno::ENOENT))
    }

    fn put_program(&self, program: &ProgramFile, was: Existing) -> Result<Existing, NotInstalled> {
        let name = program.name;
        self.remove_unfinished(name);
        if let Some(there) = self.equal(program) {
            self.prove(program, &there)?;
            return Ok(Existing::Same);
        }
        self.refuse_without_room(program.size)?;
        let done = self
            .write_beside(program)
            .and_then(|copy| self.prove(program, &copy))
            .and_then(|()| self.rename(name));
        done.inspect_err(|_| self.remove_unfinished(name))?;
        Ok(was)
    }

    fn put_link(&self, was: Existing) -> Result<Existing, NotInstalled> {
        self.open_to_all()?;
        self.remove_unfinished(LINK);
        if readlinkat(&self.fd, LINK).is_ok_and(|target| target == TARGET) {
            return Ok(Existing::Same);
        }
        let linked = symlinkat(TARGET, &self.fd, unfinished(LINK).as_str()).map_err(|errno| match errno {
            Errno::EPERM | Errno::EOPNOTSUPP => NotInstalled::Refused(format!(
                "cannot make {}: {} takes no symbolic links: name a directory on another file system",
                self.path.join(LINK).display(),
                self.mount()
            )),
            errno => self.cannot("make", &unfinished(LINK), errno),
        });
        linked.and_then(|()| self.rename(LINK)).inspect_err(|_| self.remove_unfinished(LINK))?;
        Ok(was)
    }

    /// The umask counts for what mkdir(2) makes.
    fn open_to_all(&self) -> Result<(), NotInstalled> {
        let cannot = |errno| self.cannot("open to all users", "", errno);
        let mode = Mode::from_bits_truncate(fstat(&self.fd).map_err(cannot)?.st_mode);
        let read_and_search = Mode::from_bits_truncate(0o555);
        if mode.contains(read_and_search) { Ok(()) } else { fchmod(&self.fd, mode | MODE).map_err(cannot) }
    }

    /// The file of this name, if it is the one to install.
    fn equal(&self, program: &ProgramFile) -> Option<File> {
        // Neither a FIFO nor a device can block us, should one be swapped in.
        let flags =
            OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let there = File::from(openat(&self.fd, program.name, flags, Mode::empty()).ok()?);
        let metadata = there.metadata().ok()?;
        let mode = Mode::from_bits_truncate(metadata.permissions().mode());
        let may_be = metadata.is_file() && mode == MODE && metadata.len() == program.size;
        (may_be && is_same(&there, &program.file).ok()?).then_some(there)
    }

    fn refuse_without_room(&self, size: u64) -> Result<(), NotInstalled> {
        // If this is unknown, the write will show it.
        let Ok(space) = fstatvfs(&self.fd) else { return Ok(()) };
        let free = space.blocks_available().saturating_mul(space.fragment_size());
        let needed = size + MARGIN;
        // A file system without a fixed size has no blocks at all.
        if free >= needed || space.blocks() == 0 {
            return Ok(());
        }
        Err(NotInstalled::Failed(format!(
            "no room in {}: {} has {} KiB free and {} KiB are needed, because the new copy is written before \
                the old one is removed; {} KiB are missing: make room, or enlarge the volume",
            self.path.display(),
            self.mount(),
            free / 1024,
            needed.div_ceil(1024),
            (needed - free).div_ceil(1024)
        )))
    }

    /// A whole copy under another name, on the disk, and open for reading: what is open for writing
    /// cannot be run.
    fn write_beside(&self, program: &ProgramFile) -> Result<File, NotInstalled> {
        let name = program.name;
        let cannot = |errno| self.cannot("write", &unfinished(name), errno);
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let copy = openat(&self.fd, unfinished(name).as_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR);
        let mut copy = File::from(copy.map_err(cannot)?);
        let copied = io::copy(&mut &program.file, &mut copy).map_err(|error| cannot(errno_of(&error)))?;
        if copied != program.size {
            return Err(NotInstalled::Failed(format!(
                "{name} has {} bytes, but {copied} could be read: find what changes it",
                program.size
            )));
        }
        fchmod(&copy, MODE).and_then(|()| fsync(&copy)).map_err(cannot)?;
        File::open(fd_path(&copy)).map_err(|error| cannot(errno_of(&error)))
    }

    /// Runs that very file, whatever its name leads to by now.
    fn prove(&self, program: &ProgramFile, copy: &File) -> Result<(), NotInstalled> {
        let mut command = Command::new(fd_path(copy));
        let ran = command.arg0(program.name).arg("--version").stdin(Stdio::null()).output();
        let path = self.path.join(program.name);
        let path = path.display();
        match ran {
            Ok(ran) if ran.status.success() && program.is_version(&ran.stdout) => Ok(()),
            Ok(ran) => Err(NotInstalled::Failed(format!(
                "{path} --version ended with {} and printed {:?}: report this",
                ran.status,
                String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).trim_end()
            ))),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(NotInstalled::Refused(format!(
                "{path} may not be run, although {} is not mounted noexec: check the node's audit log \
                    (SELinux, AppArmor, fapolicyd), or name another directory",
                self.mount()
            ))),
            Err(error) => Err(NotInstalled::Failed(format!(
                "{path} cannot be run: {}: check that processes may be started here (pids limit, memory, \
                    SIGCHLD not ignored)",
                errno_of(&error).desc()
            ))),
        }
    }

    /// From the unfinished name to the name itself, in one step.
    fn rename(&self, name: &str) -> Result<(), NotInstalled> {
        renameat(&self.fd, unfinished(name).as_str(), &self.fd, name)
            .map_err(|errno| self.cannot("replace", name, errno))?;
        // Without it a power cut may bring back what was there before, which is whole as well.
        let _ = fsync(&self.fd);
        Ok(())
    }

    /// Removes the file of an install that was killed, or of this one. If the file stays, the write shows it.
    fn remove_unfinished(&self, name: &str) {
        let _ = unlinkat(&self.fd, unfinished(name).as_str(), UnlinkatFlags::NoRemoveDir);
    }

    fn mount(&self) -> String {
        mount::of(self.fd.as_fd()).map_or_else(|| "its mount".to_owned(), |mount| mount.to_string())
    }

    fn cannot(&self, what: &str, name: &str, errno: Errno) -> NotInstalled {
        let place = if name.is_empty() { self.path.clone() } else { self.path.join(name) };
        let message = format!("cannot {what} {}: {}", place.display(), errno.desc());
        match errno {
            Errno::EROFS => NotInstalled::Refused(format!(
                "{message}: {} is mounted read-only: mount the volume writable here, or name another directory",
                self.mount()
            )),
            Errno::EACCES | Errno::EPERM => NotInstalled::Refused(format!(
                "{message}: {}: run as a user that may write there, or make this user the volume's owner \
                    (fsGroup, chown)",
                self.owner()
            )),
            Errno::EEXIST | Errno::EISDIR => NotInstalled::Refused(format!(
                "{message}: it is in the way and cannot be replaced: remove it"
            )),
            Errno::ENOSPC | Errno::EDQUOT => NotInstalled::Failed(format!(
                "{message}: make room on {} (df shows bytes, df -i inodes), or enlarge the volume",
                self.mount()
            )),
            _ => NotInstalled::Failed(format!(
                "{message}: read the node's kernel log, and find what else changes that directory"
            )),
        }
    }

    fn owner(&self) -> String {
        let path = self.path.display();
        match fstat(&self.fd) {
            Ok(stat) => {
                let mode = stat.st_mode & 0o7777;
                format!("{path} belongs to uid {}, gid {} and has mode {mode:o}", stat.st_uid, stat.st_gid)
            }
            Err(_) => format!("{path} cannot be looked at"),
        }
    }
}

/// A program to install, open.
struct ProgramFile {
    name: &'static str,
    file: File,
    size: u64,
}

impl ProgramFile {
    fn own() -> Result<Self, NotInstalled> {
        Self::open(PROGRAM, Path::new("/proc/self/exe")).map_err(|error| {
            let why = errno_of(&error).desc();
            let remedy = "check that /proc is mounted and that this user may read the program";
            NotInstalled::Failed(format!("this program cannot be read (/proc/self/exe): {why}: {remedy}"))
        })
    }

    fn doctor() -> Result<Self, NotInstalled> {
        let own = std::env::current_exe().unwrap_or_default();
        let path = own.with_file_name(DOCTOR);
        Self::open(DOCTOR, &path).map_err(|error| {
            let why = errno_of(&error).desc();
            let remedy = "use the image peermem-doctor, which has both programs, or omit --doctor";
            NotInstalled::Refused(format!("--doctor: {} cannot be read: {why}: {remedy}", path.display()))
        })
    }

    fn open(name: &'static str, path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.size();
        Ok(Self { name, file, size })
    }

    /// Whether `--version` says so. The doctor is released by itself.
    fn is_version(&self, said: &[u8]) -> bool {
        let said = String::from_utf8_lossy(said);
        match said.strip_suffix('\n').and_then(|said| said.strip_prefix(self.name)?.strip_prefix(' ')) {
            Some(version) => self.name != PROGRAM || version == VERSION,
            None => false,
        }
    }
}

fn cannot_open(path: &Path, errno: Errno) -> NotInstalled {
    let message = format!("cannot install into {}: {}", path.display(), errno.desc());
    match errno {
        Errno::ENOENT => NotInstalled::Refused(format!(
            "{message}: mount the volume there, or create the directory; install does not create it, because it \
                would lie outside the volume"
        )),
        Errno::ENOTDIR | Errno::ELOOP | Errno::ENAMETOOLONG => {
            NotInstalled::Refused(format!("{message}: name the directory at which the volume is mounted"))
        }
        Errno::EACCES | Errno::EPERM => {
            NotInstalled::Refused(format!("{message}: run as a user that may read and write that directory"))
        }
        _ => NotInstalled::Failed(format!("{message}: read the node's kernel log")),
    }
}

/// Never what a program or a link is looked for by.
fn unfinished(name: &str) -> String {
    format!(".{name}.unfinished")
}

/// From the beginning of both; both are of one size.
fn is_same(one: &File, other: &File) -> io::Result<bool> {
    let mut buffers = [vec![0; 64 * 1024], vec![0; 64 * 1024]];
    let mut at = 0;
    loop {
        let [mine, yours] = &mut buffers;
        let read = one.read_at(mine, at)?;
        if read == 0 {
            return Ok(true);
        }
        other.read_exact_at(&mut yours[..read], at)?;
        if mine[..read] != yours[..read] {
            return Ok(false);
        }
        at += read as u64;
    }
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

impl From<NotInstalled> for VerbError {
    fn from(why: NotInstalled) -> Self {
        match why {
            NotInstalled::Refused(sentence) => Self::Refused(Misuse::Message(sentence)),
            NotInstalled::Failed(sentence) => Self::Failed(anyhow::Error::msg(sentence)),
        }
    }
}
