// SPDX-License-Identifier: Apache-2.0
//! A second worker beside one that hangs in the kernel, for work that cannot wait until the first one continues.

use crate::process::fork::{OwnedChild, start};
use crate::process::hung::{Hung, LATE, place};
use crate::process::worker::become_worker;
use crate::process::worker_pipe::{Message, MessageReader, WorkerPipe};
use crate::process::{log_writer, subtask};
use crate::ready::clock::now;
use crate::ready::time::BootTime;
use nix::unistd::Pid;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// A worker that has not run for this long hangs: a healthy one wakes at least twice in that time.
const CHECK: Duration = Duration::from_secs(12);
/// The time for a line of the log, whose file system may hang.
const LINE: Duration = Duration::from_millis(200);

/// The work of a second worker, which returns its exit code.
pub type Work<'a> = &'a dyn Fn(&WorkerPipe, &Hung) -> u8;

/// Checks every twelve seconds whether the worker has run, and keeps a second one as long as it has not.
pub(super) struct StandIn<'a> {
    work: Work<'a>,
    next_check: BootTime,
    /// The worker's account of its runs, and when that changed last.
    ran: (Vec<u8>, BootTime),
    /// Where the kernel keeps that account.
    schedstat: Option<File>,
    under_way: Option<Worker>,
}

impl<'a> StandIn<'a> {
    pub(super) fn new(work: Work<'a>) -> Self {
        Self { work, next_check: now() + CHECK, ran: (Vec::new(), now()), schedstat: None, under_way: None }
    }

    /// When to check next.
    pub(super) fn due(&self) -> BootTime {
        self.next_check
    }

    /// Readable when the second worker says something.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.under_way.as_ref().map(|worker| worker.line.reader.as_fd())
    }

    /// Passes on the second worker's log.
    pub(super) fn listen(&mut self) {
        let Some(worker) = &mut self.under_way else { return };
        let is_open = worker.line.read();
        while let Some(message) = worker.line.next() {
            if let Message::Log(text) = message {
                log_writer::write(&text);
            }
        }
        if !is_open {
            self.under_way = None;
        }
    }

    /// Begins or ends the second worker, if a check is due.
    pub(super) fn check(&mut self, worker: Pid) {
        if now() < self.next_check {
            return;
        }
        // After a freeze the worker must have run once before its account means anything.
        let is_late = now() > self.next_check + LATE;
        self.next_check = now() + CHECK;
        // Without it that is unknown, and nothing is begun.
        let Some(ran) = self.account(worker) else { return };
        if ran != self.ran.0 {
            if self.under_way.take().is_some() {
                let waited = now().saturating_sub(self.ran.1).as_secs();
                let report = || tracing::info!("the look at the node that hung has ended after {waited} s");
                let _ = subtask::briefly(LINE, report);
            }
            self.ran = (ran, now());
        } else if is_late {
            self.ran.1 = now();
        } else if self.under_way.is_none() {
            let hung = Hung { signal: None, place: place(worker), waited: now().saturating_sub(self.ran.1) };
            // Without a process there is nothing to do, and the next check tries again.
            self.under_way = Worker::begin(self.work, &hung).ok();
        }
    }
}

impl StandIn<'_> {
    /// The time that the worker has run, and how often: one call each time, as long as `keep` lives.
    fn account(&mut self, worker: Pid) -> Option<Vec<u8>> {
        if self.schedstat.is_none() {
            self.schedstat = File::open(format!("/proc/{worker}/schedstat")).ok();
        }
        let mut account = vec![0; 128];
        let read = self.schedstat.as_ref()?.read_at(&mut account, 0).ok()?;
        account.truncate(read);
        Some(account)
    }
}

/// The second worker. Dropped, it is killed.
struct Worker {
    _child: OwnedChild,
    line: MessageReader,
}

impl Worker {
    fn begin(work: Work<'_>, hung: &Hung) -> io::Result<Self> {
        let (child, reader) = start(|writer, supervisor| {
            let worker_pipe = WorkerPipe::new(writer);
            become_worker(supervisor, &worker_pipe, false);
            work(&worker_pipe, hung)
        })?;
        Ok(Self { _child: OwnedChild(child), line: MessageReader::new(reader) })
    }
}
