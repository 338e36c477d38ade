// SPDX-License-Identifier: Apache-2.0
//! modprobe under way: what it says, how it ends, and how it is broken off.

use crate::process::exec::Unrunnable;
use crate::process::log_writer;
use crate::process::system_program::step::{CHROOT_EXEC, SEEN_SHIMS, is_system};
use crate::process::system_program::{Interruption, OutputMode, RMMOD, Ran, SystemProgram};
use crate::ready::clock::now;
use crate::ready::exit::Exit;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How much of its output is kept: the end, which has the error.
const KEPT: usize = 64 * 1024;

/// How often its end is looked for where no closed pipe reports it: a process that it left behind
/// may hold the pipes open.
const NAPS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

const BUFFER: usize = 16 * 1024;

impl SystemProgram {
    /// Runs it to its end, without `MODPROBE_OPTIONS`, which might have it do anything.
    ///
    /// `break_off` is asked whenever `signals` can be read, and ten times a second.
    pub fn run(
        &self,
        args: &[OsString],
        output: OutputMode,
        signals: BorrowedFd<'_>,
        mut break_off: impl FnMut() -> Option<Interruption>,
    ) -> Result<Ran, Unrunnable> {
        // One copy of what waits serves every caller.
        let mut break_off: &mut dyn FnMut() -> Option<Interruption> = &mut break_off;
        let mut attempt = self.start(args, output)?;
        let (status, broken_off) =
            attempt.finish(signals, &mut break_off, self.patience).map_err(|errno| {
                let remedy = match errno {
                    Errno::ECHILD => {
                        "SIGCHLD is ignored: start the gate with its default (env --default-signal=CHLD)"
                    }
                    _ => "report this",
                };
                failed(&format!("the exit status of {} is unknown", self.path.display()), errno, remedy)
            })?;
        let [stdout, stderr] = attempt.pipes.map(Pipe::text);
        let code = code(status);
        let message = stderr.strip_prefix(CHROOT_EXEC).and_then(|message| message.strip_prefix(": "));
        let endings = [Exit::NotExecutable, Exit::NotFound];
        if let (Some(message), Some(exit)) = (message, endings.into_iter().find(|exit| exit.code() == code)) {
            return Err(Unrunnable { exit, message: message.trim_end().to_owned() });
        }
        Ok(Ran { code, stdout, stderr, broken_off })
    }

    fn start(&self, args: &[OsString], output: OutputMode) -> Result<Running, Unrunnable> {
        let is_direct = self.is == &RMMOD && is_system(&self.root);
        let mut command = if is_direct {
            // It starts sooner without the step. It inherits our blocked signals, which only keeps an unload from
            // being cut short: every caller bounds its wait.
            Command::new(&self.path)
        } else {
            let mut step = Command::new(&self.step);
            step.arg0(CHROOT_EXEC).arg(self.is.name).arg(&self.root).arg(&self.path);
            step
        };
        command.args(args).env_remove("MODPROBE_OPTIONS").env(SEEN_SHIMS, self.with_tried());
        command.stderr(Stdio::piped());
        if output == OutputMode::Kept {
            command.stdout(Stdio::piped()).env("LC_ALL", "C");
        }
        let mut child = command.spawn().map_err(|error| {
            let errno = Errno::from_raw(error.raw_os_error().unwrap_or_default());
            let what = if is_direct {
                format!("{} cannot be started", self.path.display())
            } else {
                format!("{} cannot be started for {}", self.step.display(), self.is.name)
            };
            failed(&what, errno, "check that /proc is mounted and that processes may be started")
        })?;
        let pipes = [
            Pipe::new(child.stdout.take().map(OwnedFd::from), false),
            Pipe::new(child.stderr.take().map(OwnedFd::from), output == OutputMode::Passed),
        ];
        Ok(Running { child, pipes })
    }
}

/// modprobe under way.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) child: Child,
    /// Standard output and standard error.
    pub(crate) pipes: [Pipe; 2],
}

impl Running {
    /// How it ended, if it did, and why it was broken off.
    pub(crate) fn finish<T>(
        &mut self,
        signals: BorrowedFd<'_>,
        break_off: &mut impl FnMut() -> Option<T>,
        patience: Duration,
    ) -> nix::Result<(Option<ExitStatus>, Option<T>)> {
        if let Some(why) = self.wait(Some(signals), break_off)? {
            self.stop();
            let until = now() + patience;
            self.wait(None, &mut || (now() >= until).then_some(()))?;
            return Ok((self.ended()?, Some(why)));
        }
        Ok((self.ended()?, None))
    }

    /// Who watches over a build ends it when its standard input closes.
    fn stop(&mut self) {
        if self.child.stdin.take().is_some() {
            return;
        }
        // It has not been waited for, so its pid is still its own.
        if let Ok(pid) = self.child.id().try_into() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
    }

    /// Listens until it ends, or until it must be interrupted.
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
        let mut has_read = false;
        for pipe in self.pipes.iter_mut().filter(|pipe| pipe.file.is_some()) {
            if ready.pop() == Some(true) {
                pipe.read();
                has_read = true;
            }
        }
        has_read
    }
}

/// A pipe from one of modprobe's outputs.
#[derive(Debug)]
pub(crate) struct Pipe {
    file: Option<File>,
    kept: Vec<u8>,
    is_cut: bool,
    /// Also written to our own standard error.
    is_passed: bool,
}

impl Pipe {
    pub(crate) fn new(fd: Option<OwnedFd>, is_passed: bool) -> Self {
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
                if self.is_passed && !self.kept.starts_with(CHROOT_EXEC.as_bytes()) {
                    log_writer::write(&buffer[..read]);
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
    pub(crate) fn text(mut self) -> String {
        self.cut();
        let begin = if self.is_cut { memchr::memchr(b'\n', &self.kept).map_or(0, |at| at + 1) } else { 0 };
        String::from_utf8_lossy(&self.kept[begin..]).into_owned()
    }
}

/// As a shell shows it.
pub(crate) fn code(status: Option<ExitStatus>) -> u8 {
    let signal = |signal: Option<i32>| 128 + signal.unwrap_or(Signal::SIGTERM as i32);
    let code = status.and_then(|status| status.code());
    let code = code.unwrap_or_else(|| signal(status.and_then(|status| status.signal())));
    u8::try_from(code).unwrap_or(u8::MAX)
}

fn failed(what: &str, errno: Errno, remedy: &str) -> Unrunnable {
    Unrunnable { exit: Exit::Failed, message: format!("{what}: {}: {remedy}", errno.desc()) }
}

#[cfg(test)]
mod tests {
    use super::*;

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
