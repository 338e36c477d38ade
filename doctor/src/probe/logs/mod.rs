// SPDX-License-Identifier: Apache-2.0
//! Logs of containers and of the kernel: kubelet's below /var/log/pods, the kernel's in /dev/kmsg and
//! syslog's files.
//!
//! Only the logs of containers of which log rules are known are opened. Everything is bounded, and what a bound
//! leaves out is counted; what cannot be read is named with its path.

mod file;
mod gathered;
mod journal;
mod kernel_clock;
mod pods;
mod system;
pub(super) mod walk;

pub use gathered::{GatheredLogs, gather};
pub(super) use pods::directories as pod_directories;

use crate::log::{Form, LogMatch, LogScanner, LogSource, LogSources, RuleSet, Scanned};
use crate::operators::Operators;
use crate::stamp::{Clock, SECOND, Stamp};
use crate::symptoms::logs::{ContainerLog, LogFile, Logs};
use file::{Extent, OpenLog};
use peermem_gate::ready::files::read::unreadable;
use peermem_gate::ready::files::root::resolve;
use peermem_gate::ready::observation::Unreadable;
use std::io;
use std::path::{Path, PathBuf};

/// How much of the logs is read.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Directories of pods that are looked into.
    pub pods: usize,
    /// Logs of one container.
    pub logs: usize,
    /// Logs in all.
    pub files: usize,
    /// Bytes from a log's beginning, which show when its container started.
    pub head: u64,
    /// Bytes from a log's end.
    pub tail: u64,
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes of one file of the journal.
    pub journal: u64,
    /// Records of /dev/kmsg.
    pub records: u64,
    /// Matches of one log.
    pub matches: usize,
    /// Matches in all.
    pub matches_in_all: usize,
}

impl Limits {
    /// For one look: milliseconds, and some megabytes.
    pub const LOOK: Self = Self {
        pods: 1000,
        logs: 4,
        files: 200,
        head: 64 << 10,
        tail: 256 << 10,
        bytes: 8 << 20,
        journal: 256 << 20,
        records: 40_000,
        matches: 500,
        matches_in_all: 5000,
    };
    /// For a history: nearly everything.
    pub const HISTORY: Self = Self {
        pods: 10_000,
        logs: 1000,
        files: 20_000,
        head: 0,
        tail: u64::MAX,
        bytes: 64 << 30,
        journal: 64 << 30,
        records: 1_000_000,
        matches: 5000,
        matches_in_all: 10_000,
    };
}

/// Sources that cannot be read are named up to here.
const NAMED: usize = 50;
/// In nanoseconds.
const DAY: i64 = 86_400 * SECOND;

/// Reads the logs of the node below `root`. `here` is its /sys if it is this machine: only then the kernel's ring is
/// its.
pub fn read(root: &Path, proc: &Path, here: Option<&Path>, limits: &Limits, operators: &Operators) -> Logs {
    let mut reader = LogReader::new(root, limits, operators);
    reader.logs.booted = match here {
        Some(sys) => kernel_clock::zero(sys, proc),
        None => booted(proc),
    };
    reader.pods();
    reader.system(here.is_some());
    reader.done()
}

/// The logs so far, and the room for more.
struct LogReader<'a> {
    root: &'a Path,
    limits: &'a Limits,
    operators: &'a Operators,
    bytes_left: u64,
    logs: Logs,
}

impl<'a> LogReader<'a> {
    fn new(root: &'a Path, limits: &'a Limits, operators: &'a Operators) -> Self {
        Self { root, limits, operators, bytes_left: limits.bytes, logs: Logs::default() }
    }

    /// A failed read is named; that something is not there says nothing.
    fn cannot_read(&mut self, path: &Path, error: &io::Error) {
        if error.kind() != io::ErrorKind::NotFound {
            self.name(unreadable(path, error));
        }
    }

    fn name(&mut self, unreadable: Unreadable) {
        if self.logs.unreadable.len() < NAMED {
            self.logs.unreadable.push(unreadable);
        } else {
            self.logs.left_out.unreadable += 1;
        }
    }

    /// Opens a log, if there is still room for it, and keeps what it says.
    fn scan(
        &mut self,
        path: PathBuf,
        container: Option<ContainerLog>,
        form: Form,
        is_gz: bool,
        rules: &RuleSet,
    ) {
        let root = self.root;
        let open = |path: &Path| resolve(root, path).and_then(|real| OpenLog::open(&real));
        self.scan_opened(path, container, form, is_gz, rules, &open);
    }

    fn scan_opened(
        &mut self,
        path: PathBuf,
        container: Option<ContainerLog>,
        form: Form,
        is_gz: bool,
        rules: &RuleSet,
        open: &dyn Fn(&Path) -> io::Result<OpenLog>,
    ) {
        if !self.takes_more() {
            return;
        }
        match open(&path).and_then(|log| self.scanned(log, is_gz, form, rules)) {
            Ok((file, scanned)) => self.keep(LogFile { path, container, ..file }, scanned),
            Err(error) => self.cannot_read(&path, &error),
        }
    }

    /// Whether there is room for another log; if there is none, the log is counted as left out.
    fn takes_more(&mut self) -> bool {
        let is_full = self.logs.files.len() >= self.limits.files || self.bytes_left == 0 || self.room() == 0;
        self.logs.left_out.files += u64::from(is_full);
        !is_full
    }

    /// For more matches.
    fn room(&self) -> usize {
        self.limits.matches.min(self.limits.matches_in_all.saturating_sub(self.logs.matches.len()))
    }

    fn scanned(
        &self,
        log: OpenLog,
        is_gz: bool,
        form: Form,
        rules: &RuleSet,
    ) -> io::Result<(LogFile, Scanned)> {
        let (size, modified) = (log.size, log.modified);
        // Clocks differ, and local time may be ahead of UTC by 14 hours.
        let not_after_ns = modified.ns.saturating_add(DAY);
        let mut scanner = LogScanner::new(rules, form, not_after_ns, self.room());
        let (head, tail) = (self.limits.head.min(self.bytes_left), self.limits.tail.min(self.bytes_left));
        let Extent { read, left_out } = if is_gz {
            log.unpacked(head.saturating_add(tail), &mut scanner)?
        } else {
            log.ends(head, tail, &mut scanner)?
        };
        let file = LogFile { size, modified: Some(modified), read, left_out, ..LogFile::default() };
        Ok((file, scanner.end()))
    }

    fn keep(&mut self, file: LogFile, scanned: Scanned) {
        let index = self.logs.files.len();
        let Scanned { matches, first, last, is_local, steps, lines, damaged, forgotten, .. } = scanned;
        self.bytes_left = self.bytes_left.saturating_sub(file.read);
        self.logs.left_out.bytes += file.left_out;
        self.logs.left_out.matches += forgotten;
        self.logs.files.push(LogFile { lines, damaged, forgotten, first, last, is_local, steps, ..file });
        self.logs.matches.extend(matches.into_iter().map(|found| LogMatch { file: index, ..found }));
    }

    fn done(mut self) -> Logs {
        let booted = self.logs.booted;
        let wall = |found: &LogMatch| found.at.and_then(|at| at.on_wall(booted)).map_or(i64::MAX, |at| at.ns);
        // Stable: what has the same time, or none, stays in the order of its log.
        self.logs.matches.sort_by_key(wall);
        self.logs.pods.sort();
        self.logs.untrusted.sort();
        self.logs
    }
}

/// When another machine's kernel was started. `btime` is cut to a second.
fn booted(proc: &Path) -> Option<Stamp> {
    let seconds = peermem_gate::ready::probe::clock::read(proc).boot.ok()?;
    Some(Stamp { clock: Clock::Wall, ns: seconds.checked_mul(SECOND)?, precision_ns: SECOND })
}

/// The programs that write to the system's log, but not to a log of only the kernel. Both show the clock's steps.
fn services() -> LogSources {
    let is_service = |source: &LogSource| !matches!(source, LogSource::Kernel | LogSource::Clock);
    LogSources::of_the_system().iter().filter(is_service).collect()
}
