// SPDX-License-Identifier: Apache-2.0
//! A build under way: a group of processes that never outlives who started it.
//!
//! make starts compilers, and nobody's death ends those. So the build has a process group, and a guard: this program
//! again, under a hidden name, which holds the other end of a pipe. When that closes, because the build is broken off
//! or because we were killed, the guard kills the whole group.

use super::exec::Unrunnable;
use super::modprobe::run::{Pipe, Running, code};
use super::modprobe::step::is_system;
use crate::ending::Ending;
use crate::errno;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{Pid, chdir, chroot};
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Called by this name, the program is a [`build_guard`] and nothing else.
pub const WARDEN: &str = "peermem-gate-build";

/// How much a build gives way to everything else on the node.
const NICE: i32 = 10;

/// How long the guard may take to end the build.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many of the last lines are shown when a build fails.
const SHOWN: usize = 20;

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
    /// The last lines of what it said.
    pub last_lines: Vec<String>,
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
        let finished = attempt.finish(signals, &mut break_off, PATIENCE);
        let (status, broken_off) = finished.map_err(|errno| self.unrunnable(&errno.into()))?;
        let [output, _] = attempt.pipes.map(Pipe::text);
        let code = code(status);
        if let Some(why) = output.strip_prefix(WARDEN).and_then(|output| output.strip_prefix(": ")) {
            return Err(Unrunnable { ending: Ending::NotExecutable, message: why.trim_end().to_owned() });
        }
        let lines: Vec<_> =
            output.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
        let last_lines = lines[lines.len().saturating_sub(SHOWN)..].to_vec();
        Ok(Built { code, last_lines, broken_off })
    }

    fn start(&self) -> io::Result<Running> {
        let (reader, writer) = io::pipe()?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0(WARDEN).arg(&self.root).arg(&self.program).args(&self.arguments);
        if !self.inherits {
            command.env_clear().env("PATH", PATH).env("HOME", "/");
        }
        command.env("LC_ALL", "C").envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
        let child = command.spawn()?;
        // The command holds the writing ends, and would keep the pipe open.
        drop(command);
        Ok(Running { child, pipes: [Pipe::new(Some(OwnedFd::from(reader)), false), Pipe::new(None, false)] })
    }

    fn unrunnable(&self, error: &io::Error) -> Unrunnable {
        let message = format!(
            "{} cannot be run: {}: check that processes may be started here (pids limit, memory)",
            self.program.display(),
            errno::words(error)
        );
        Unrunnable { ending: Ending::Failed, message }
    }
}

/// Runs a program in a process group of its own, and kills the group when standard input ends. The arguments are
/// those after [`WARDEN`]: a root, the program below it, and its own arguments.
#[must_use]
pub fn build_guard(args: &[OsString]) -> Ending {
    let [root, program, args @ ..] = args else {
        eprintln!("{WARDEN}: a root and a program are missing: this is an internal step of peermem-gate");
        return Ending::Refused;
    };
    match guard(Path::new(root), Path::new(program), args) {
        Ok(code) => Ending::Passed(code),
        Err(error) => {
            eprintln!("{WARDEN}: {} cannot be run: {}", Path::new(program).display(), errno::words(&error));
            Ending::NotExecutable
        }
    }
}

fn guard(root: &Path, program: &Path, args: &[OsString]) -> io::Result<u8> {
    if !is_system(root) {
        chroot(root).and_then(|()| chdir("/"))?;
    }
    // Fails for no reason that would matter to the build.
    let _ = rustix::process::nice(NICE);
    SigSet::empty().thread_set_mask()?;
    let mut command = Command::new(program);
    let mut child = command.args(args).stdin(Stdio::null()).process_group(0).spawn()?;
    // A terminal's signals are for who started us, who then closes our standard input.
    SigSet::all().thread_set_mask()?;
    let group = Pid::from_raw(child.id().try_into().map_err(|_| Errno::ERANGE)?);
    thread::spawn(move || {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        let _ = killpg(group, Signal::SIGKILL);
    });
    let status = child.wait()?;
    let _ = killpg(group, Signal::SIGKILL);
    Ok(code(Some(status)))
}
