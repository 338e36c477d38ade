// SPDX-License-Identifier: Apache-2.0
//! The system's modprobe, or rmmod: found, never ourselves, and run, in another root too.
//!
//! A child would inherit our blocked signals, and cannot be put into another root without unsafe
//! code. So it begins as a step of our own ([`STEP`]), which sees to both and then becomes modprobe.

use super::exec::Unrunnable;
use crate::ending::Ending;
use crate::probe;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{AccessFlags, Pid, access, chdir, chroot};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, metadata};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Called by this name, the program is [`step`] and nothing else.
pub const STEP: &str = "peermem-gate-step";

const RMMOD: &str = "rmmod";

/// In every build of this program, for it is searched for. It must never change: other versions are
/// known by it.
const MARKER: &[u8] = b"peermem-gate: this is the gate in front of modprobe, and not kmod's modprobe";

/// A modprobe that is not found in this much of a file is not ours: ours is far smaller.
const SEARCHED: u64 = 8 << 20;

/// Where modprobe is where PATH is not set, and where it is looked for behind PATH, which in
/// containers may lack the sbin directories.
const DIRECTORIES: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How much of its words is kept: the last of them, for the error stands there.
const KEPT: usize = 64 * 1024;

/// How long it may take to end once it is told to.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often its end is looked for where no closed pipe tells of it: a process that it left behind
/// may hold the pipes open.
const NAPS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// A modprobe that can be run.
#[derive(Clone, Debug)]
pub struct Modprobe {
    /// What kmod's one program is told to be.
    name: &'static str,
    root: PathBuf,
    path: PathBuf,
    step: PathBuf,
    patience: Duration,
}

/// What becomes of modprobe's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// Both outputs are kept, in English.
    Kept,
    /// They go where ours go, in whatever language; its errors are kept as well.
    Passed,
}

/// How it ran.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    /// As a shell shows it: 128+n where signal n ended it, or has not ended it a second later.
    pub code: u8,
    /// Standard output, if it was kept.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The signal that came for us meanwhile, on which it was told to end.
    pub signal: Option<u8>,
}

impl Modprobe {
    /// The first modprobe in PATH, or behind it in the usual directories, below `root`, that is not
    /// this program; or the one that is asked for, as seen from inside `root`.
    pub fn find(
        root: &Path,
        path_variable: Option<&OsStr>,
        asked: Option<&Path>,
    ) -> Result<Self, Unrunnable> {
        Self::named("modprobe", root, path_variable, asked)
    }

    /// kmod's rmmod, found in the same way: it needs nothing of the root that it runs in.
    pub fn rmmod(root: &Path, path_variable: Option<&OsStr>) -> Result<Self, Unrunnable> {
        Self::named(RMMOD, root, path_variable, None)
    }

    fn named(
        name: &'static str,
        root: &Path,
        path_variable: Option<&OsStr>,
        asked: Option<&Path>,
    ) -> Result<Self, Unrunnable> {
        let (step, patience) = (Path::new("/proc/self/exe"), PATIENCE);
        must_be_there(root)?;
        let found = |path| Self { name, root: root.to_owned(), path, step: step.to_owned(), patience };
        let below = if is_system(root) { String::new() } else { format!(" below {}", root.display()) };
        if let Some(path) = asked {
            // Inside another root the working directory is `/`.
            let base =
                if is_system(root) { std::path::absolute(path) } else { Ok(Path::new("/").join(path)) };
            let path = base.unwrap_or_else(|_| path.to_owned());
            return match runnable(root, &path) {
                Ok(()) => Ok(found(path)),
                Err(why) => Err(unrunnable_asked(&path, &below, &why)),
            };
        }
        let path_variable = path_variable.unwrap_or(OsStr::new(DIRECTORIES));
        let mut there_but = None;
        let mut ourselves = None;
        for directory in directories(root, path_variable) {
            let path = directory.join(name);
            match runnable(root, &path) {
                Ok(()) => return Ok(found(path)),
                Err(Not::There(_)) => {}
                Err(Not::Another) => ourselves = Some(path),
                Err(Not::Executable(why)) => there_but = there_but.or(Some((path, why))),
            }
        }
        let places = format!("PATH ({}) or in {DIRECTORIES}{below}", path_variable.to_string_lossy());
        let remedy = match name {
            "modprobe" => "install kmod, or name the real one with --modprobe or PEERMEM_GATE_MODPROBE",
            _ => "install kmod",
        };
        Err(match (there_but, ourselves) {
            (Some((path, why)), _) => Unrunnable {
                ending: Ending::NotExecutable,
                message: format!("{}{below} cannot be run ({why}): {remedy}", path.display()),
            },
            (None, Some(path)) => Unrunnable {
                ending: Ending::NotFound,
                message: format!(
                    "only this program is called {name} ({}) in {places}: {remedy}",
                    path.display()
                ),
            },
            (None, None) => Unrunnable {
                ending: Ending::NotFound,
                message: format!("there is no {name} in {places}: {remedy}"),
            },
        })
    }

    /// Where it is, as seen from inside the root that it runs in.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The root that it runs in.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Another program takes the hidden step: for tests, which are not this program.
    #[must_use]
    pub fn stepping_by(mut self, program: &Path) -> Self {
        program.clone_into(&mut self.step);
        self
    }

    /// How long it may take to end once it is told to.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The command line, as one would type it.
    #[must_use]
    pub fn shown(&self, args: &[OsString]) -> String {
        let mut words = vec![self.path.as_os_str()];
        if !is_system(&self.root) {
            words = vec!["chroot".as_ref(), self.root.as_os_str(), self.path.as_os_str()];
        }
        words.extend(args.iter().map(OsString::as_os_str));
        words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
    }

    /// Becomes modprobe: same pid, arguments, environment and signal mask. Its first word decides what
    /// kmod's one program is. Returns only when that failed.
    #[must_use]
    pub fn become_it(&self, argv0: &OsStr, args: &[OsString]) -> Unrunnable {
        become_below(&self.root, &self.path, argv0, args)
    }

    /// Runs it to its end, without `MODPROBE_OPTIONS`, which might have it do anything.
    ///
    /// A signal breaks it off: `take` is asked for one, and must take it, whenever `signals` can be
    /// read, and ten times a second.
    pub fn run(
        &self,
        args: &[OsString],
        words: Words,
        signals: BorrowedFd<'_>,
        mut take: impl FnMut() -> Option<u8>,
    ) -> Result<Ran, Unrunnable> {
        let mut attempt = self.start(args, words)?;
        let (status, signal) = attempt.finish(signals, &mut take, self.patience).map_err(|errno| {
            let remedy = match errno {
                Errno::ECHILD => {
                    "SIGCHLD is ignored: start the gate with its default (env --default-signal=CHLD)"
                }
                _ => "report this",
            };
            failed(&format!("how {} ended cannot be known", self.path.display()), errno, remedy)
        })?;
        let [stdout, stderr] = attempt.pipes.map(Pipe::text);
        let code = code(status);
        let said = stderr.strip_prefix(STEP).and_then(|said| said.strip_prefix(": "));
        let endings = [Ending::NotExecutable, Ending::NotFound];
        if let (Some(said), Some(ending)) = (said, endings.into_iter().find(|ending| ending.code() == code)) {
            return Err(Unrunnable { ending, message: said.trim_end().to_owned() });
        }
        Ok(Ran { code, stdout, stderr, signal })
    }

    fn start(&self, args: &[OsString], words: Words) -> Result<Attempt, Unrunnable> {
        let is_direct = self.name == RMMOD && is_system(&self.root);
        let mut command = if is_direct {
            // It comes sooner without the step; that it inherits our blocked signals only keeps an unload from
            // being cut short, and nobody waits longer than their patience for it.
            Command::new(&self.path)
        } else {
            let mut step = Command::new(&self.step);
            step.arg0(STEP).arg(self.name).arg(&self.root).arg(&self.path);
            step
        };
        command.args(args).env_remove("MODPROBE_OPTIONS");
        command.stderr(Stdio::piped());
        if words == Words::Kept {
            command.stdout(Stdio::piped()).env("LC_ALL", "C");
        }
        let mut child = command.spawn().map_err(|error| {
            let errno = Errno::from_raw(error.raw_os_error().unwrap_or_default());
            let what = if is_direct {
                format!("{} cannot be started", self.path.display())
            } else {
                format!("{} cannot be started for {}", self.step.display(), self.name)
            };
            failed(&what, errno, "see that /proc is mounted, and that processes may be started")
        })?;
        let pipes = [
            Pipe::new(child.stdout.take().map(OwnedFd::from), false),
            Pipe::new(child.stderr.take().map(OwnedFd::from), words == Words::Passed),
        ];
        Ok(Attempt { child, pipes })
    }
}

fn must_be_there(root: &Path) -> Result<(), Unrunnable> {
    match root.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Unrunnable {
            ending: Ending::NotFound,
            message: format!(
                "the driver's root {} is not there: start the driver's container, mount its root here, or correct \
                 --driver-root",
                root.display()
            ),
        }),
        // What else may be wrong with it shows in the search.
        _ => Ok(()),
    }
}

/// True for this program under whatever name, copied or linked, and for other versions of it. A
/// script that calls it is not.
#[must_use]
pub fn is_ourselves(candidate: &Path) -> bool {
    let Ok(found) = candidate.metadata() else { return false };
    let same = |ours: Metadata| (ours.dev(), ours.ino()) == (found.dev(), found.ino());
    found.is_file()
        && (metadata("/proc/self/exe").is_ok_and(same) || holds_marker(candidate).unwrap_or(false))
}

/// What follows [`STEP`]: a name, a root, the program below it that is called so, and its arguments.
/// Returns only when that program could not be become, having said why.
#[must_use]
pub fn step(args: &[OsString]) -> Ending {
    let why = match args {
        [name, root, program, args @ ..] => {
            // What is pending comes now. Fails only for a wrong constant.
            let _ = SigSet::empty().thread_set_mask();
            become_below(Path::new(root), Path::new(program), name, args)
        }
        _ => Unrunnable {
            ending: Ending::Refused,
            message: "a name, a root and a program are missing: this is a step of peermem-gate's own"
                .to_owned(),
        },
    };
    // Nothing is left to be done about a standard error that is gone.
    let _ = io::stderr().write_all(format!("{STEP}: {}\n", why.message).as_bytes());
    why.ending
}

fn become_below(root: &Path, modprobe: &Path, argv0: &OsStr, args: &[OsString]) -> Unrunnable {
    // The working directory stays where the root does: a module may be named by its path.
    if !is_system(root) {
        if let Err(errno) = chroot(root).and_then(|()| chdir("/")) {
            let remedy = match errno {
                Errno::EPERM => "it needs CAP_SYS_CHROOT, as a privileged container has",
                _ => "see that --driver-root is where the driver container puts its root",
            };
            let message = format!("{} cannot be entered: {}: {remedy}", root.display(), errno.desc());
            return Unrunnable { ending: Ending::NotExecutable, message };
        }
    }
    // std's exec also gives SIGPIPE its default back, which Rust's runtime took away.
    let error = Command::new(modprobe).arg0(argv0).args(args).exec();
    let (ending, remedy) = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => (
            Ending::NotFound,
            "install kmod there; if the file is there, what its #! line or its program header names is not",
        ),
        _ => (Ending::NotExecutable, "it must be a program of this machine that may be executed"),
    };
    let below = if is_system(root) { String::new() } else { format!(" below {}", root.display()) };
    let message = format!("{}{below} cannot be run: {}: {remedy}", modprobe.display(), words_of(&error));
    Unrunnable { ending, message }
}

fn is_system(root: &Path) -> bool {
    root == Path::new("/")
}

/// The directories of PATH, then the usual ones, as seen from inside `root`. Those that depend on the
/// working directory mean nothing in another root.
fn directories(root: &Path, path_variable: &OsStr) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    for entry in std::env::split_paths(path_variable).chain(std::env::split_paths(DIRECTORIES)) {
        let directory = if is_system(root) {
            // An empty entry is the working directory.
            std::path::absolute(Path::new(".").join(&entry)).unwrap_or(entry)
        } else {
            entry
        };
        if directory.is_absolute() && !all.contains(&directory) {
            all.push(directory);
        }
    }
    all
}

/// Why a file is not the modprobe to run.
enum Not {
    There(io::Error),
    Executable(String),
    /// It is this program.
    Another,
}

fn runnable(root: &Path, path: &Path) -> Result<(), Not> {
    let not = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Not::There(error),
        _ => Not::Executable(words_of(&error)),
    };
    let inside = path.strip_prefix("/").unwrap_or(path);
    let real = probe::root::resolve(root, &root.join(inside)).map_err(not)?;
    if !real.metadata().map_err(not)?.is_file() {
        return Err(Not::Executable("not a regular file".to_owned()));
    }
    access(&real, AccessFlags::X_OK).map_err(|errno| Not::Executable(errno.desc().to_owned()))?;
    if is_ourselves(&real) { Err(Not::Another) } else { Ok(()) }
}

fn unrunnable_asked(path: &Path, below: &str, why: &Not) -> Unrunnable {
    let remedy = "correct --modprobe or PEERMEM_GATE_MODPROBE";
    let (ending, why) = match why {
        Not::There(error) => (Ending::NotFound, words_of(error)),
        Not::Executable(why) => (Ending::NotExecutable, why.clone()),
        Not::Another => (Ending::NotExecutable, "it is this program, not kmod's modprobe".to_owned()),
    };
    Unrunnable {
        ending,
        message: format!("modprobe {}{below} cannot be run: {why}: {remedy}", path.display()),
    }
}

/// A program with [`MARKER`] in it. Only ELF files are read through.
fn holds_marker(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?.take(SEARCHED);
    let search = memchr::memmem::Finder::new(MARKER);
    let mut buffer = vec![0; 64 * 1024];
    let mut filled = 0;
    let mut is_elf = false;
    loop {
        let read = file.read(&mut buffer[filled..])?;
        if read == 0 {
            return Ok(false);
        }
        filled += read;
        if !is_elf {
            if filled < 4 {
                continue;
            }
            if !buffer.starts_with(b"\x7fELF") {
                return Ok(false);
            }
            is_elf = true;
        }
        if search.find(&buffer[..filled]).is_some() {
            return Ok(true);
        }
        // It may lie across two reads.
        let overlap = filled.min(MARKER.len() - 1);
        buffer.copy_within(filled - overlap..filled, 0);
        filled = overlap;
    }
}

/// modprobe under way.
#[derive(Debug)]
struct Attempt {
    child: Child,
    /// Standard output and standard error.
    pipes: [Pipe; 2],
}

impl Attempt {
    /// How it ended, if it did, and the signal that broke it off.
    fn finish(
        &mut self,
        signals: BorrowedFd<'_>,
        take: &mut impl FnMut() -> Option<u8>,
        patience: Duration,
    ) -> nix::Result<(Option<ExitStatus>, Option<u8>)> {
        if let Some(signal) = self.wait(Some(signals), take)? {
            // It has not been waited for, so that its pid is still its own.
            if let Ok(pid) = self.child.id().try_into() {
                let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
            }
            let until = Instant::now() + patience;
            self.wait(None, &mut || (Instant::now() >= until).then_some(()))?;
            return Ok((self.ended()?, Some(signal)));
        }
        Ok((self.ended()?, None))
    }

    /// Listens until it ends, or until it is to be broken off.
    fn wait<T>(
        &mut self,
        signals: Option<BorrowedFd<'_>>,
        broken_off: &mut impl FnMut() -> Option<T>,
    ) -> nix::Result<Option<T>> {
        let mut nap = NAPS.0;
        loop {
            // A pipe that closes is most often its end, which then is a moment away.
            nap = if self.listen(signals, nap) { NAPS.0 } else { (nap * 2).min(NAPS.1) };
            if self.ended()?.is_some() {
                // All that it said lies in the pipes by now; one that it left behind may go on talking.
                let most = (1 << 20) / BUFFER;
                let _ = (0..most).find(|_| !self.listen(None, Duration::ZERO));
                return Ok(None);
            }
            let why = broken_off();
            if why.is_some() {
                return Ok(why);
            }
        }
    }

    fn ended(&mut self) -> nix::Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or_default()))
    }

    /// Waits for something to read, and reads it. True when there was something, or an end of it.
    fn listen(&mut self, signals: Option<BorrowedFd<'_>>, limit: Duration) -> bool {
        let timeout = PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO);
        let open = self.pipes.iter().filter_map(|pipe| pipe.file.as_ref()).map(File::as_fd);
        let mut fds: Vec<_> = open.chain(signals).map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        if !poll(&mut fds, timeout).is_ok_and(|ready| ready > 0) {
            return false;
        }
        let mut ready: Vec<_> = fds.iter().map(|fd| fd.any() == Some(true)).collect::<Vec<_>>();
        ready.reverse();
        let mut heard = false;
        for pipe in self.pipes.iter_mut().filter(|pipe| pipe.file.is_some()) {
            if ready.pop() == Some(true) {
                pipe.read();
                heard = true;
            }
        }
        heard
    }
}

const BUFFER: usize = 16 * 1024;

/// What modprobe says into one pipe.
#[derive(Debug)]
struct Pipe {
    file: Option<File>,
    kept: Vec<u8>,
    is_cut: bool,
    /// Also written to our own standard error.
    is_passed: bool,
}

impl Pipe {
    fn new(fd: Option<OwnedFd>, is_passed: bool) -> Self {
        Self { file: fd.map(File::from), kept: Vec::new(), is_cut: false, is_passed }
    }

    fn read(&mut self) {
        let Some(file) = &mut self.file else { return };
        let mut buffer = [0; BUFFER];
        match file.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => self.file = None,
            Ok(read) => {
                self.kept.extend_from_slice(&buffer[..read]);
                // The caller says what our own step says.
                if self.is_passed && !self.kept.starts_with(STEP.as_bytes()) {
                    let _ = io::stderr().write_all(&buffer[..read]);
                }
                if self.kept.len() > KEPT + 2 * BUFFER {
                    self.cut();
                }
            }
        }
    }

    fn cut(&mut self) {
        let over = self.kept.len().saturating_sub(KEPT);
        self.is_cut |= over > 0;
        self.kept.drain(..over);
    }

    /// Whole lines.
    fn text(mut self) -> String {
        self.cut();
        let begin = if self.is_cut { memchr::memchr(b'\n', &self.kept).map_or(0, |at| at + 1) } else { 0 };
        String::from_utf8_lossy(&self.kept[begin..]).into_owned()
    }
}

/// As a shell shows it.
fn code(status: Option<ExitStatus>) -> u8 {
    let signal = |signal: Option<i32>| 128 + signal.unwrap_or(Signal::SIGTERM as i32);
    let code = status.and_then(|status| status.code());
    let code = code.unwrap_or_else(|| signal(status.and_then(|status| status.signal())));
    u8::try_from(code).unwrap_or(u8::MAX)
}

fn failed(what: &str, errno: Errno, remedy: &str) -> Unrunnable {
    Unrunnable { ending: Ending::Failed, message: format!("{what}: {}: {remedy}", errno.desc()) }
}

/// std adds "(os error 2)", which helps nobody.
fn words_of(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), |code| Errno::from_raw(code).desc().to_owned())
}

fn quoted(word: &OsStr) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_=./,:+@%".contains(byte);
    let text = word.to_string_lossy();
    let is_plain = !text.is_empty() && text.bytes().all(|byte| is_plain(&byte));
    if is_plain { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tempfile::TempDir;

    /// A root with directories of programs.
    fn root(directories: &[&str]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for directory in directories {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        root
    }

    fn program(path: &Path, bytes: &[u8]) {
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }

    fn find(root: &TempDir, path: &str) -> Result<PathBuf, Unrunnable> {
        Modprobe::find(root.path(), Some(path.as_ref()), None).map(|modprobe| modprobe.path)
    }

    fn asked(root: &TempDir, path: &str) -> Result<PathBuf, Unrunnable> {
        Modprobe::find(root.path(), None, Some(path.as_ref())).map(|modprobe| modprobe.path)
    }

    #[test]
    fn the_first_in_path_then_the_usual_places() {
        let root = root(&["opt", "usr/bin", "usr/sbin", "empty"]);
        let at = |path: &str| root.path().join(path);
        program(&at("usr/sbin/modprobe"), b"#!/bin/sh\n");
        for path in ["/opt:/usr/sbin", "/none:/empty", "", "relative:opt", "/usr/sbin/modprobe"] {
            assert_eq!(find(&root, path).unwrap(), Path::new("/usr/sbin/modprobe"), "{path}");
        }
        // Neither hides the one behind it.
        fs::write(at("usr/bin/modprobe"), "not executable").unwrap();
        fs::create_dir(at("opt/modprobe")).unwrap();
        assert_eq!(find(&root, "/usr/bin:/opt:/usr/sbin").unwrap(), Path::new("/usr/sbin/modprobe"));
        fs::set_permissions(at("usr/bin/modprobe"), Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find(&root, "/usr/bin:/usr/sbin").unwrap(), Path::new("/usr/bin/modprobe"));
    }

    #[test]
    fn links_are_followed_inside_the_root() {
        let root = root(&["usr/sbin", "usr/bin"]);
        let at = |path: &str| root.path().join(path);
        program(&at("usr/bin/kmod"), b"#!/bin/sh\n");
        symlink("/usr/bin/kmod", at("usr/sbin/modprobe")).unwrap();
        symlink("usr/sbin", at("sbin")).unwrap();
        assert_eq!(
            find(&root, "/sbin").unwrap(),
            Path::new("/sbin/modprobe"),
            "the name decides what kmod is"
        );
        fs::remove_file(at("usr/bin/kmod")).unwrap();
        let why = find(&root, "/sbin").unwrap_err();
        assert_eq!(why.ending, Ending::NotFound, "outside there may be one: {}", why.message);
    }

    #[test]
    fn the_systems_own_root() {
        let bin = root(&["a", "b"]);
        program(&bin.path().join("b/modprobe"), b"#!/bin/sh\n");
        let path = std::env::join_paths([bin.path().join("a"), bin.path().join("b")]).unwrap();
        let modprobe = Modprobe::find(Path::new("/"), Some(&path), None).unwrap();
        assert_eq!(modprobe.path(), bin.path().join("b/modprobe"));
        assert_eq!(
            modprobe.shown(&["-q".into(), "it's".into()]),
            format!(r"{} -q 'it'\''s'", bin.path().join("b/modprobe").display())
        );
        assert_eq!(directories(Path::new("/"), OsStr::new(""))[0], std::env::current_dir().unwrap());
    }

    #[test]
    fn ourselves_are_never_found() {
        let root = root(&["link", "hard", "copy", "again", "real", "script"]);
        let at = |path: &str| root.path().join(path);
        let ourselves = std::env::current_exe().unwrap();
        fs::copy(&ourselves, at("copy/modprobe")).unwrap();
        fs::copy(at("copy/modprobe"), at("again/modprobe")).unwrap();
        fs::hard_link(at("copy/modprobe"), at("hard/modprobe")).unwrap();
        symlink("/copy/modprobe", at("link/modprobe")).unwrap();
        let path = "/link:/hard:/copy:/again";
        for directory in path.split(':') {
            let why = asked(&root, &format!("{directory}/modprobe")).unwrap_err();
            assert_eq!(why.ending, Ending::NotExecutable, "{}", why.message);
            assert!(why.message.contains("it is this program"), "{}", why.message);
        }
        assert!(is_ourselves(&ourselves) && is_ourselves(Path::new("/proc/self/exe")));
        let why = find(&root, path).unwrap_err();
        assert_eq!(why.ending, Ending::NotFound);
        assert!(
            why.message.contains("only this program is called modprobe (/again/modprobe)"),
            "{}",
            why.message
        );
        assert!(why.message.contains(&root.path().display().to_string()), "{}", why.message);
        assert!(why.message.contains("install kmod") && why.message.contains("PEERMEM_GATE_MODPROBE"));
        // A text that says what we say is not us.
        let script = [b"#!/bin/sh\n# ", MARKER, b"\nexec peermem-gate\n"].concat();
        program(&at("script/modprobe"), &script);
        assert_eq!(find(&root, &format!("{path}:/script")).unwrap(), Path::new("/script/modprobe"));
    }

    #[test]
    fn the_marker_is_found_wherever_it_lies() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        let holds = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            is_ourselves(&path)
        };
        let with_marker_at = |at: usize| {
            let mut bytes = b"\x7fELF".to_vec();
            bytes.resize(at, 0);
            [&bytes, MARKER].concat()
        };
        for at in [4, 64 * 1024 - 40, 64 * 1024 - MARKER.len(), 128 * 1024 - 100, 1 << 20] {
            assert!(holds(&with_marker_at(at)), "{at}");
        }
        assert!(!holds(&with_marker_at(usize::try_from(SEARCHED).unwrap())), "far behind any build of ours");
        for other in [&b""[..], b"\x7f", b"\x7fELF", MARKER] {
            assert!(!holds(other), "{other:?}");
        }
        assert!(!is_ourselves(dir.path()) && !is_ourselves(&dir.path().join("none")));
    }

    #[test]
    fn the_one_that_is_asked_for_or_none() {
        let root = root(&["usr/sbin", "opt"]);
        let at = |path: &str| root.path().join(path);
        program(&at("usr/sbin/modprobe"), b"#!/bin/sh\n");
        program(&at("opt/kmod-modprobe"), b"#!/bin/sh\n");
        assert_eq!(asked(&root, "/opt/kmod-modprobe").unwrap(), Path::new("/opt/kmod-modprobe"));
        assert_eq!(asked(&root, "opt/kmod-modprobe").unwrap(), Path::new("/opt/kmod-modprobe"));
        let why = asked(&root, "/opt/none").unwrap_err();
        assert_eq!(why.ending, Ending::NotFound);
        assert!(why.message.contains("/opt/none below /"), "{}", why.message);
        assert!(why.message.ends_with("correct --modprobe or PEERMEM_GATE_MODPROBE"), "{}", why.message);
        fs::set_permissions(at("opt/kmod-modprobe"), Permissions::from_mode(0o644)).unwrap();
        for path in ["/opt/kmod-modprobe", "/opt"] {
            assert_eq!(asked(&root, path).unwrap_err().ending, Ending::NotExecutable, "{path}");
        }
    }

    #[test]
    fn none_at_all() {
        let root = root(&["usr/sbin"]);
        let why = find(&root, "/usr/sbin").unwrap_err();
        assert_eq!(why.ending, Ending::NotFound);
        assert!(why.message.starts_with("there is no modprobe in PATH (/usr/sbin)"), "{}", why.message);
        fs::write(root.path().join("usr/sbin/modprobe"), "").unwrap();
        let why = find(&root, "/usr/sbin").unwrap_err();
        assert_eq!(why.ending, Ending::NotExecutable);
        assert!(why.message.contains("/usr/sbin/modprobe below /"), "{}", why.message);
    }

    #[test]
    fn the_last_words_are_kept_as_whole_lines() {
        let mut pipe = Pipe::new(None, false);
        for line in 0..20_000 {
            pipe.kept.extend_from_slice(format!("line {line}\n").as_bytes());
        }
        let text = pipe.text();
        assert!(text.len() <= KEPT && text.len() > KEPT - 20, "{}", text.len());
        assert!(text.starts_with("line ") && text.ends_with("\nline 19999\n"));
    }
}
