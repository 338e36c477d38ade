// SPDX-License-Identifier: Apache-2.0
//! This program, the link by which it is the modprobe shim, and `peermem-doctor` on demand, put into a volume.
//!
//! What is put in place is whole and has been run: it is written beside its name, and renamed.

use crate::VERSION;
use crate::cli::environment::Misuse;
use crate::cli::{InstallArgs, log};
use crate::process::directory::{Directory, fd_path};
use crate::ready::exit::Exit;
use crate::ready::files::mount;
use crate::start::VerbError;
use nix::errno::Errno;
use nix::sys::stat::{Mode, SFlag, fchmod};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const PROGRAM: &str = "peermem-gate";
const DOCTOR: &str = "peermem-doctor";
const SHIM: &str = "shim";
const LINK: &str = "modprobe";
/// Relative, because other containers mount the volume at other paths.
const TARGET: &str = "../peermem-gate";

/// For all to run, whatever the umask is.
const MODE: Mode = Mode::from_bits_truncate(0o755);

/// No install takes so long: what is older is of one that was killed.
const LEFT: Duration = Duration::from_secs(300);

/// Installs, and reports what was done. What is there already stays.
pub(crate) fn run(args: &InstallArgs) -> Result<Exit, VerbError> {
    log::start(&args.log);
    let dir = args.dir.as_path();
    let program = std::fs::read("/proc/self/exe").map_err(|error| {
        let remedy = "check that /proc is mounted and that this user may read the program";
        anyhow::anyhow!("this program cannot be read (/proc/self/exe): {error}: {remedy}")
    })?;
    let doctor = args.doctor.then(doctor).transpose()?;
    let volume = Directory::of(&dir.join(PROGRAM), None).map_err(|error| cannot("open", dir, &error))?;
    let shim = volume.subdirectory(OsStr::new(SHIM), MODE);
    let shim = shim.map_err(|error| cannot("make the directory", &dir.join(SHIM), &error))?;
    put_program(&volume, dir, PROGRAM, &program)?;
    let link = dir.join(SHIM).join(LINK);
    refuse_what_is_no_file(&shim, LINK, &link)?;
    shim.remove_leftovers(OsStr::new(LINK), LEFT);
    let is_new = shim.put_link(OsStr::new(LINK), OsStr::new(TARGET));
    say(is_new.map_err(|error| cannot("make the link", &link, &error))?, &link);
    if let Some(doctor) = doctor {
        put_program(&volume, dir, DOCTOR, &doctor)?;
    }
    tracing::info!("peermem-gate {VERSION} is in {}", dir.display());
    Ok(Exit::Opened)
}

/// peermem-doctor, which is beside this program.
fn doctor() -> Result<Vec<u8>, Misuse> {
    let path = std::env::current_exe().unwrap_or_default().with_file_name(DOCTOR);
    std::fs::read(&path).map_err(|error| {
        let remedy = "use the image peermem-doctor, which has both programs, or omit --doctor";
        Misuse::Message(format!("--doctor: {} cannot be read: {error}: {remedy}", path.display()))
    })
}

fn refuse_what_is_no_file(directory: &Directory, name: &str, path: &Path) -> Result<(), VerbError> {
    let kind = directory.kind(OsStr::new(name)).map_err(|errno| cannot("look at", path, &errno.into()))?;
    match kind {
        None | Some(SFlag::S_IFREG | SFlag::S_IFLNK) => Ok(()),
        Some(_) => Err(cannot("replace", path, &Errno::EEXIST.into())),
    }
}

fn put_program(volume: &Directory, dir: &Path, name: &str, program: &[u8]) -> Result<(), VerbError> {
    let path = dir.join(name);
    refuse_what_is_no_file(volume, name, &path)?;
    volume.remove_leftovers(OsStr::new(name), LEFT);
    if let Some(there) = found(volume, name, program) {
        prove(&there, name, &path)?;
        say(false, &path);
        return Ok(());
    }
    let new = volume.create_beside(OsStr::new(name));
    let (beside, file) = new.map_err(|errno| cannot("write", &path, &errno.into()))?;
    let put = || {
        let copy = written(file, program).map_err(|error| cannot("write", &path, &error))?;
        prove(&copy, name, &path)?;
        volume.rename(&beside, OsStr::new(name)).map_err(|errno| cannot("replace", &path, &errno.into()))
    };
    put().inspect_err(|_| _ = volume.remove(&beside))?;
    say(true, &path);
    Ok(())
}

/// The whole copy, on the disk and open for reading: what is open for writing cannot be run.
fn written(mut file: File, program: &[u8]) -> io::Result<File> {
    file.write_all(program)?;
    fchmod(&file, MODE)?;
    file.sync_all()?;
    File::open(fd_path(&file))
}

fn say(is_new: bool, path: &Path) {
    tracing::info!("{}: {}", if is_new { "installed" } else { "already there" }, path.display());
}

/// That very program, if it is there for all to run.
fn found(volume: &Directory, name: &str, program: &[u8]) -> Option<File> {
    let mut file = volume.open_to_read(OsStr::new(name)).ok()?;
    let metadata = file.metadata().ok()?;
    let mode = metadata.permissions().mode() & 0o7777;
    let mut there = Vec::new();
    let is_it = metadata.is_file()
        && mode == MODE.bits()
        && metadata.len() == program.len() as u64
        && file.read_to_end(&mut there).is_ok()
        && there == program;
    is_it.then_some(file)
}

/// Runs that very file, whatever its name leads to by now.
fn prove(copy: &File, name: &str, path: &Path) -> Result<(), VerbError> {
    let mut command = Command::new(fd_path(copy));
    let ran = command.arg0(name).arg("--version").stdin(Stdio::null()).output();
    match ran {
        Ok(ran) if ran.status.success() && ran.stdout.starts_with(name.as_bytes()) => Ok(()),
        Ok(ran) => Err(VerbError::Failed(anyhow::anyhow!(
            "{} --version ended with {} and printed {:?}: report this",
            path.display(),
            ran.status,
            String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).trim_end()
        ))),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let mount =
                mount::of(copy.as_fd()).map_or_else(|| "its mount".to_owned(), |mount| mount.to_string());
            Err(VerbError::Refused(Misuse::Message(format!(
                "{} may not be run: {mount} is mounted noexec, or SELinux, AppArmor or fapolicyd forbids it (the \
                 node's audit log): name a directory on another mount, or mount this one with exec",
                path.display()
            ))))
        }
        Err(error) => Err(cannot("run", path, &error)),
    }
}

/// What was not done, and why: a refusal where another DIR or another mount cures it.
fn cannot(what: &str, path: &Path, error: &io::Error) -> VerbError {
    let (is_refusal, remedy) = match error.raw_os_error().map(Errno::from_raw) {
        None => (true, "name another directory"),
        Some(Errno::ENOENT) => (true, "mount the volume there, or create the directory"),
        Some(Errno::ENOTDIR | Errno::ELOOP | Errno::ENAMETOOLONG) => {
            (true, "name the directory at which the volume is mounted, and remove links and files in the way")
        }
        Some(Errno::EEXIST | Errno::EISDIR | Errno::ENOTEMPTY) => (true, "it is in the way: remove it"),
        Some(Errno::EACCES | Errno::EPERM | Errno::EOPNOTSUPP) => (
            true,
            "run as a user that may write there, make this user the volume's owner (fsGroup, chown), or name a \
             directory on a file system that takes symbolic links",
        ),
        Some(Errno::EROFS) => (true, "mount the volume writable here, or name another directory"),
        Some(Errno::ENOSPC | Errno::EDQUOT) => {
            (false, "make room (df shows bytes, df -i inodes), or enlarge the volume")
        }
        Some(Errno::EAGAIN | Errno::ENOMEM) => {
            (false, "check that processes may be started here (pids limit, memory)")
        }
        Some(_) => (false, "read the node's kernel log"),
    };
    let sentence = format!("cannot {what} {}: {error}: {remedy}", path.display());
    if is_refusal {
        VerbError::Refused(Misuse::Message(sentence))
    } else {
        VerbError::Failed(anyhow::Error::msg(sentence))
    }
}
