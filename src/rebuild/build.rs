// SPDX-License-Identifier: Apache-2.0
//! A running build: a group of processes that never outlives the process that started it.
//!
//! make starts compilers, which go on when make or the gate dies. So the build has a process group, and a guard: this
//! program again, under a hidden name, which holds the other end of a pipe. When that closes, because the build is
//! broken off or because we were killed, the guard kills the whole group. What has left the group becomes the guard's
//! own child when its parent ends, and is killed too.

use crate::process::exec::Unrunnable;
use crate::process::system_program::run::{Pipe, Running, code};
use crate::process::system_program::step::is_system;
use crate::ready::clock::now;
use crate::ready::errno;
use crate::ready::exit::Exit;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::stat::Mode;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, chdir, chroot, getpid};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// Called by this name, the program is a [`build_guard`] and nothing else.
pub const BUILD_GUARD: &str = "peermem-gate-build";

/// How much a build gives way to everything else on the node.
const NICE: i32 = 10;

/// How long the guard may take to end the build, [`REST`] included.
const END_LIMIT: Duration = Duration::from_secs(3);

/// How long the guard tries to end what is left: one that hangs in the kernel ends on no signal.
const REST: Duration = Duration::from_secs(2);

/// In place of a number of bytes.
const UNLIMITED: &str = "unlimited";

/// How soon the guard sees that the build has ended.
const POLL_INTERVAL: u8 = 20;

/// The longest line that is kept of what a build says, in characters.
const LONGEST: usize = 300;

/// Where the programs of a build are, as in the images of drivers.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program to run for a build, and its limits.
#[derive(Debug)]
pub struct BuildCommand {
    /// The root that it runs in.
    pub root: PathBuf,
    /// The program, as seen from inside that root.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The most memory that each of its processes may have, in bytes.
    pub memory: Option<u64>,
    /// Variables that it gets in addition to its environment.
    pub variables: Vec<(&'static str, OsString)>,
    /// The program gets our environment; otherwise it gets PATH and nothing else of it.
    pub inherits: bool,
}

/// How a build ended.
#[derive(Debug)]
pub struct Built<T> {
    /// As a shell shows it.
    pub code: u8,
    /// The end of what it said, in lines of a bounded length.
    pub lines: Vec<String>,
    /// Why it was broken off, if it was.
    pub broken_off: Option<T>,
}

impl BuildCommand {
    /// Runs it to its end. `break_off` is asked whenever `signals` can be read, and ten times a second; nothing of
    /// the build is left when this returns.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn run<T>(
        &self,
        signals: BorrowedFd<'_>,
        mut break_off: impl FnMut() -> Option<T>,
    ) -> Result<Built<T>, Unrunnable> {
        let mut attempt = self.start().map_err(|error| self.unrunnable(&error))?;
        let finished = attempt.finish(signals, &mut break_off, END_LIMIT);
        let (status, broken_off) = finished.map_err(|errno| self.unrunnable(&errno.into()))?;
        let [output, _] = attempt.pipes.map(Pipe::text);
        let code = code(status);
        if let Some(why) = output.strip_prefix(BUILD_GUARD).and_then(|output| output.strip_prefix(": ")) {
            return Err(Unrunnable { exit: Exit::NotExecutable, message: why.trim_end().to_owned() });
        }
        let lines = output.lines().filter(|line| !line.trim().is_empty()).map(shortened).collect();
        Ok(Built { code, lines, broken_off })
    }

    fn start(&self) -> io::Result<Running> {
        let (reader, writer) = io::pipe()?;
        let mut command = Command::new("/proc/self/exe");
        let memory = self.memory.map_or(UNLIMITED.to_owned(), |memory| memory.to_string());
        command.arg0(BUILD_GUARD).arg(&self.root).arg(memory).arg(&self.program).args(&self.arguments);
        if !self.inherits {
            command.env_clear().env("PATH", PATH).env("HOME", "/");
        }
        command.env("LC_ALL", "C").envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
        let child = command.spawn()?;
        // The command has the writing ends, and would keep the pipe open.
        drop(command);
        Ok(Running { child, pipes: [Pipe::new(Some(OwnedFd::from(reader)), false), Pipe::new(None, false)] })
    }

    fn unrunnable(&self, error: &io::Error) -> Unrunnable {
        let message = format!(
            "{} cannot be run: {}: check that processes may be started here (pids limit, memory)",
            self.program.display(),
            errno::words(error)
        );
        Unrunnable { exit: Exit::Failed, message }
    }
}

/// Runs a program in its own process group, and kills the group when standard input ends. The arguments are
/// those after [`BUILD_GUARD`]: a root, the memory of each process, the program below the root, and its arguments.
#[must_use]
pub fn build_guard(args: &[OsString]) -> Exit {
    let [root, memory, program, args @ ..] = args else {
        eprintln!(
            "{BUILD_GUARD}: a root, a limit and a program are missing: this is an internal step of peermem-gate"
        );
        return Exit::Refused;
    };
    bound_memory(memory);
    match guard(Path::new(root), Path::new(program), args) {
        Ok(code) => Exit::Passed(code),
        Err(error) => {
            eprintln!(
                "{BUILD_GUARD}: {} cannot be run: {}",
                Path::new(program).display(),
                errno::words(&error)
            );
            Exit::NotExecutable
        }
    }
}

/// What runs into this limit gets no memory, and says so. At the cgroup's limit the kernel would kill all that is in
/// it, the keeper too (memory.oom.group).
fn bound_memory(memory: &OsStr) {
    let limit = getrlimit(Resource::Data);
    if let Some(memory) = memory.to_str().and_then(|memory| memory.parse().ok()) {
        let least = |before: Option<u64>| Some(before.map_or(memory, |before| before.min(memory)));
        let bound = Rlimit { current: least(limit.current), maximum: least(limit.maximum) };
        // Only lowered, which nothing forbids.
        let _ = setrlimit(Resource::Data, bound);
    }
}

fn guard(root: &Path, program: &Path, args: &[OsString]) -> io::Result<u8> {
    // An emulator of programs may not know this call (qemu-user 7.2). Then what leaves the group outlives a build.
    set_child_subreaper(true).or_else(|errno| if errno == Errno::EINVAL { Ok(()) } else { Err(errno) })?;
    // The build's own root need not have these.
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let (proc, null) = (open("/proc", flags, Mode::empty())?, File::open("/dev/null")?);
    if !is_system(root) {
        chroot(root).and_then(|()| chdir("/"))?;
    }
    // Fails for no reason that would matter to the build.
    let _ = rustix::process::nice(NICE);
    SigSet::empty().thread_set_mask()?;
    let mut command = Command::new(program);
    let mut child = command.args(args).stdin(null).process_group(0).spawn()?;
    // A terminal's signals are for who started us, who then closes our standard input.
    SigSet::all().thread_set_mask()?;
    let group = Pid::from_raw(child.id().try_into().map_err(|_| Errno::ERANGE)?);
    let status: Option<ExitStatus> = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if is_closed(&io::stdin()) {
            // Nobody has waited for it, so the group is still its own.
            let _ = killpg(group, Signal::SIGKILL);
            break None;
        }
    };
    end_rest(&proc);
    Ok(code(status))
}

/// Waits a moment, and says whether who started us wants an end: nothing is ever written there.
fn is_closed(stdin: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::from(POLL_INTERVAL)).is_ok_and(|ready| ready > 0)
}

/// Kills all that is left of a build. Each process that ends makes its children ours.
fn end_rest(proc: &OwnedFd) {
    let until = now() + REST;
    while now() < until {
        for child in children(proc) {
            // Only we wait for it, so the pid is still its own.
            let _ = kill(child, Signal::SIGKILL);
        }
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => break,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return,
            }
        }
        let _ = poll(&mut [], PollTimeout::from(1u8));
    }
}

/// Our own, by what /proc says of all.
fn children(proc: &OwnedFd) -> Vec<Pid> {
    let parent_of = |pid: &str| {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let mut stat = String::new();
        let file = openat(proc, format!("{pid}/stat").as_str(), flags, Mode::empty()).ok()?;
        File::from(file).read_to_string(&mut stat).ok()?;
        // The name in brackets may contain anything; the state and the parent follow it.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let Ok(listing) = rustix::fs::Dir::read_from(proc) else { return Vec::new() };
    let names = listing.filter_map(Result::ok).map(|entry| entry.file_name().to_string_lossy().into_owned());
    let pids = names.filter(|name| parent_of(name) == Some(getpid().as_raw()));
    pids.filter_map(|pid| pid.parse().ok().map(Pid::from_raw)).collect()
}

/// The beginning of a line that may have no end.
fn shortened(line: &str) -> String {
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlong_line_of_a_build_is_cut() {
        assert_eq!(shortened("as it is"), "as it is");
        let cut = shortened(&"é".repeat(65_536));
        assert_eq!((cut.chars().count(), cut.ends_with("é…")), (LONGEST + 1, true));
    }
}
