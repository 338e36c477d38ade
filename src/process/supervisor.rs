// SPDX-License-Identifier: Apache-2.0
//! Two processes: a worker looks, and a supervisor watches the clock, the signals and the worker.
//!
//! A read can block in the kernel without an end (FUSE, NFS, an overlay on either), and then no signal ends the
//! process that reads, `SIGKILL` included. A thread would not help: a process ends only when all its threads have. So
//! the supervisor touches no file system while the worker lives. It is the process that was started, so it is also
//! the one that becomes CMD.

use crate::process::fork::{DEATH, start};
use crate::process::hung::{Hung, LATE, place};
use crate::process::stand_in::StandIn;
use crate::process::worker::become_worker;
use crate::process::worker_pipe::{Decision, ENDED, Message, MessageReader, WorkerPipe};
use crate::process::{double_fork, log_writer, stand_in};
use crate::ready::clock::now;
use crate::ready::exit::Exit;
use crate::ready::time::BootTime;
use crate::ready::wake::Signals;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::io::{self, PipeReader};
use std::os::fd::AsFd;
use std::time::Duration;

/// How long the worker may take to end by itself once it must. A running modprobe gets a second of it.
pub const GRACE: Duration = Duration::from_secs(2);

/// How often to check for the worker's end where no signal reports it (SIGCHLD is ignored).
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How the worker ended, or did not.
#[derive(Debug)]
pub enum WorkerResult {
    /// The worker ended with this exit code, and has written its last line.
    Ended(u8),
    /// The worker gave an answer that cannot be written to standard output.
    AnswerLost(io::Error),
    /// The worker was killed, by this signal if that is known.
    Killed(Option<i32>),
    /// The worker hangs in the kernel, and its time is up.
    Hung(Hung),
}

/// How the worker ended, and since when its answer may be old.
#[derive(Debug)]
pub struct Supervised<End> {
    /// How it ended.
    pub end: End,
    /// Its decision, if it said so. The whole container may be frozen after that.
    pub decided: Option<Decision>,
    /// A signal asked it to end.
    pub was_signaled: bool,
}

/// The conditions under which a worker works.
#[derive(Clone, Copy)]
pub struct SuperviseOptions<'a> {
    /// The signals that end the worker, within [`GRACE`].
    pub signals: &'a Signals,
    /// How long the worker may take; `None` is without a limit.
    pub limit: Option<Duration>,
    /// Programs that it starts print to our standard output.
    pub keeps_stdout: bool,
    /// Its supervisor becomes another program, and must not wait until the kernel has closed its files.
    pub execs_after: bool,
    /// As long as the worker hangs, a second one does this.
    pub stand_in: Option<stand_in::Work<'a>>,
}

impl<'a> SuperviseOptions<'a> {
    /// Those of most verbs: nothing else prints to our standard output, and the supervisor only ends.
    #[must_use]
    pub fn new(signals: &'a Signals, limit: Option<Duration>) -> Self {
        Self { signals, limit, keeps_stdout: false, execs_after: false, stand_in: None }
    }
}

/// Has `work` done by another process, and waits for it. `work` returns its exit code.
///
/// # Errors
/// As pipe(2) and fork(2).
pub fn run(
    terms: SuperviseOptions<'_>,
    work: impl FnOnce(&WorkerPipe) -> u8,
) -> io::Result<Supervised<WorkerResult>> {
    let started = now();
    let detached = terms.execs_after && double_fork::is_possible(terms.signals);
    let (child, reader) = start(|writer, supervisor| {
        let worker_pipe = WorkerPipe::new(writer);
        let parent = if detached {
            double_fork::with_a_parent(supervisor, &worker_pipe, terms.signals)
        } else {
            supervisor
        };
        become_worker(parent, &worker_pipe, terms.keeps_stdout);
        let code = work(&worker_pipe);
        worker_pipe.send(ENDED, &[code]);
        code
    })?;
    let mut supervisor = Supervisor { detached, ..Supervisor::new(&terms, child, reader, started) };
    let end = supervisor.watch();
    log_writer::clear();
    Ok(Supervised { end, decided: supervisor.decided, was_signaled: supervisor.signal.is_some() })
}

/// The end of a supervisor's sleep.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    /// The worker has sent a message, or has ended.
    Words,
    /// A signal has come.
    Signal,
    /// Neither.
    None,
}

struct Supervisor<'a> {
    signals: &'a Signals,
    /// The worker, or its parent.
    child: Pid,
    /// The child is the worker's parent.
    detached: bool,
    /// The worker, once it has said so.
    worker: Option<Pid>,
    line: MessageReader,
    /// The second worker, while the first one hangs.
    stand_in: Option<StandIn<'a>>,
    started: BootTime,
    limit: Option<BootTime>,
    /// The limit was put off once, because this process had not run when it came.
    was_put_off: bool,
    /// The first signal that asks us to end, and when.
    signal: Option<(u8, BootTime)>,
    /// The exit code that the worker has named.
    ended: Option<u8>,
    decided: Option<Decision>,
    /// The signal that killed it, as its parent says.
    killed: Option<i32>,
    /// Why its answer could not be written.
    answer_error: Option<io::Error>,
    /// The signal that came while the answer was being printed.
    cut_short: Option<u8>,
    /// How the child ended.
    status: Option<WaitStatus>,
}

impl<'a> Supervisor<'a> {
    fn new(terms: &SuperviseOptions<'a>, child: Pid, reader: PipeReader, started: BootTime) -> Self {
        Self {
            signals: terms.signals,
            child,
            detached: false,
            worker: None,
            line: MessageReader::new(reader),
            stand_in: terms.stand_in.map(StandIn::new),
            started,
            limit: terms.limit.map(|limit| started + limit),
            was_put_off: false,
            signal: None,
            ended: None,
            decided: None,
            killed: None,
            answer_error: None,
            cut_short: None,
            status: None,
        }
    }

    fn watch(&mut self) -> WorkerResult {
        loop {
            // A process that it left behind may keep the pipe open. So the worker's end counts, once all its messages
            // are read.
            let is_gone = self.status.is_some();
            let due = self.signal.map(|(_, at)| at + GRACE).into_iter().chain(self.limit).min();
            let check = self.stand_in.as_ref().map(StandIn::due);
            let wake = due.into_iter().chain(check).min();
            let news = self.sleep(if is_gone { Some(now()) } else { wake });
            if let Some(stand_in) = self.stand_in.as_mut().filter(|_| !is_gone) {
                stand_in.check(self.child);
                if news == News::None && due.is_none_or(|due| now() < due) {
                    continue;
                }
            }
            let has_words = news == News::Words;
            self.pass_on();
            self.reap_all();
            if has_words {
                let is_open = self.line.read();
                self.listen();
                if let Some(signal) = self.cut_short {
                    let _ = kill(self.child, Signal::SIGKILL);
                    self.reap(Some(now() + DEATH));
                    return WorkerResult::Ended(Exit::Signal(signal).code());
                }
                if let Some(code) = self.ended {
                    if self.detached {
                        // The worker has finished, and only the kernel still closes its files.
                        let _ = kill(self.child, Signal::SIGKILL);
                    }
                    self.reap(None);
                    return self
                        .answer_error
                        .take()
                        .map_or(WorkerResult::Ended(code), WorkerResult::AnswerLost);
                }
                if !is_open {
                    return self.died();
                }
            } else if is_gone {
                return self.died();
            } else if due.is_some_and(|due| now() > due + LATE) && !self.was_put_off {
                self.put_off();
            } else if due.is_some_and(|due| now() >= due) {
                return self.give_up();
            }
        }
    }

    /// Sleeps until the worker sends a message or ends, a signal comes, or `due`.
    fn sleep(&mut self, due: Option<BootTime>) -> News {
        let timeout = due.map_or(PollTimeout::NONE, |due| crate::ready::wake::timeout(now(), due));
        let of_stand_in = self.stand_in.as_ref().and_then(StandIn::fd);
        let sources = [self.signals.fd(), self.line.reader.as_fd()].into_iter().chain(of_stand_in);
        let mut fds: Vec<_> = sources.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let is_awake = poll(&mut fds, timeout).is_ok();
        let has_news = |at: usize| is_awake && fds.get(at).and_then(PollFd::any) == Some(true);
        let (is_signaled, has_words, has_stand_in_words) = (has_news(0), has_news(1), has_news(2));
        if let Some(stand_in) = self.stand_in.as_mut().filter(|_| has_stand_in_words) {
            stand_in.listen();
        }
        match (has_words, is_signaled) {
            (true, _) => News::Words,
            (false, true) => News::Signal,
            (false, false) => News::None,
        }
    }

    /// Passes signals on to the worker, which knows how to end, and what another signal means.
    fn pass_on(&mut self) {
        while let Some(signal) = self.signals.take_one() {
            self.signal.get_or_insert((signal, now()));
            if let Ok(signal) = Signal::try_from(i32::from(signal)) {
                let _ = kill(self.child, signal);
            }
        }
        if self.signals.take_hangup() {
            let _ = kill(self.child, Signal::SIGHUP);
        }
    }

    fn listen(&mut self) {
        while let Some(word) = self.line.next() {
            match word {
                Message::Log(text) => log_writer::write(&text),
                Message::Draw(text) => log_writer::draw(&String::from_utf8_lossy(&text)),
                Message::Answer(text) => {
                    let came = self.signal.map(|(signal, _)| signal);
                    match log_writer::answer_until_signaled(&text, self.signals, came) {
                        Ok(signal) => self.cut_short = signal,
                        Err(error) => self.answer_error = Some(error),
                    }
                }
                Message::Needs(seconds) => self.extend(Duration::from_secs(seconds.into())),
                Message::Ended(code) => self.ended = Some(code),
                Message::Killed(signal) => self.killed = Some(signal.into()),
                Message::Decided(decision) => self.decided = Some(decision),
                Message::Begun(worker) => self.worker = Some(worker),
            }
        }
    }

    fn extend(&mut self, time: Duration) {
        self.limit = self.limit.map(|limit| limit.max(now() + time + GRACE));
    }

    /// After a freeze, or the node's suspend, the worker must have had its turn before it is called hung.
    fn put_off(&mut self) {
        self.was_put_off = true;
        self.limit = self.limit.map(|limit| limit.max(now() + GRACE));
        self.signal = self.signal.map(|(signal, _)| (signal, now()));
    }

    fn died(&mut self) -> WorkerResult {
        match self.reap(None) {
            _ if self.killed.is_some() => WorkerResult::Killed(self.killed),
            Some(WaitStatus::Signaled(_, signal, _)) => WorkerResult::Killed(Some(signal as i32)),
            Some(WaitStatus::Exited(_, code)) => WorkerResult::Ended(u8::try_from(code).unwrap_or(u8::MAX)),
            _ => WorkerResult::Killed(None),
        }
    }

    fn give_up(&mut self) -> WorkerResult {
        let place = place(self.worker.unwrap_or(self.child));
        let _ = kill(self.child, Signal::SIGKILL);
        self.reap(Some(now() + DEATH));
        let since = self.signal.map_or(self.started, |(_, at)| at);
        let waited = now().saturating_sub(since);
        WorkerResult::Hung(Hung { signal: self.signal.map(|(signal, _)| signal), place, waited })
    }

    /// Takes every child that has ended; false when none is left. As PID 1 the supervisor inherits every process that
    /// has lost its parent.
    fn reap_all(&mut self) -> bool {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => return true,
                Ok(status) if status.pid() == Some(self.child) => self.status = Some(status),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Waits for the child's end, so CMD is not left with a child that it does not know.
    fn reap(&mut self, until: Option<BootTime>) -> Option<WaitStatus> {
        loop {
            // Where SIGCHLD is ignored the kernel reaps, and nothing is left to wait for.
            if !self.reap_all() || self.status.is_some() {
                return self.status;
            }
            if until.is_some_and(|until| now() >= until) {
                return None;
            }
            // The next signal is most often SIGCHLD.
            self.signals.wait(POLL_INTERVAL);
            let _ = self.signals.take_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::getpid;

    /// The time at which a supervisor gives up once its worker has asked for this much.
    fn limit_after(asked: &[u64], limit: Option<BootTime>) -> Option<BootTime> {
        let signals = Signals::take().expect("signals");
        let (reader, writer) = io::pipe().expect("a pipe");
        let worker_pipe = WorkerPipe::new(writer);
        for seconds in asked {
            worker_pipe.needs(Duration::from_secs(*seconds));
        }
        let terms = SuperviseOptions::new(&signals, None);
        let mut supervisor = Supervisor { limit, ..Supervisor::new(&terms, getpid(), reader, now()) };
        assert!(supervisor.line.read());
        supervisor.listen();
        let _ = signals.restore();
        supervisor.limit
    }

    #[test]
    fn work_that_is_better_finished_outlasts_the_deadline() {
        let (begun, minute) = (now(), Duration::from_secs(60));
        for asked in [&[60][..], &[1, 60], &[60, 1]] {
            let limit = limit_after(asked, Some(begun + Duration::from_secs(1))).expect("a limit");
            assert!(limit >= begun + minute + GRACE, "{asked:?}");
            assert!(limit <= now() + minute + GRACE, "{asked:?}");
        }
    }

    #[test]
    fn a_deadline_that_is_late_enough_does_not_move() {
        let late = Some(now() + Duration::from_secs(3600));
        assert_eq!(limit_after(&[60], late), late);
        assert_eq!(limit_after(&[60], None), None);
    }
}
