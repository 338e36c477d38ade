// SPDX-License-Identifier: Apache-2.0
//! journald's files: on RHCOS, Flatcar and AL2023 the only log of the kernel and of services.

use super::{DAY, Form, LogFile, LogReader, LogSource, RuleSet, Scanned};
use crate::log::{LogScanner, is_of_a_service};
use crate::probe::journal::{Journal, JournalEntry, ReadAt};
use crate::probe::tally;
use crate::stamp::Stamp;
use peermem_gate::ready::files::read::open;
use peermem_gate::ready::files::root::resolve;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// On disk, or in memory where the first directory does not exist; below each, one directory of the machine's.
const DIRECTORIES: [&str; 2] = ["var/log/journal", "run/log/journal"];
/// The end of the year 9999, in microseconds.
const LATEST: u64 = 253_402_300_799_000_000;

impl ReadAt for File {
    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, bytes, at)?;
        tally::bytes(bytes.len());
        Ok(())
    }
}

impl LogReader<'_> {
    /// The newest files of the system's journal.
    pub(super) fn journal(&mut self, rules: &RuleSet) {
        let mut files = Vec::new();
        for directory in DIRECTORIES.map(|directory| self.root.join(directory)) {
            match resolve(self.root, &directory).and_then(|real| listed(&real, &directory)) {
                Ok(found) => files.extend(found),
                Err(error) => self.cannot_read(&directory, &error),
            }
        }
        files.sort_by_key(|(modified, path)| (std::cmp::Reverse(*modified), path.clone()));
        self.logs.left_out.files += files.len().saturating_sub(self.limits.logs) as u64;
        // The newest entries of all files, as many as of the kernel's ring.
        let mut left = usize::try_from(self.limits.records).unwrap_or(usize::MAX);
        for (_, path) in files.into_iter().take(self.limits.logs) {
            match self.scan_journal(&path, &mut left, rules) {
                Ok((file, scanned)) => self.keep(LogFile { path, ..file }, scanned),
                Err(error) => self.cannot_read(&path, &error),
            }
        }
    }

    fn scan_journal(&self, path: &Path, left: &mut usize, rules: &RuleSet) -> io::Result<(LogFile, Scanned)> {
        let file = open(&resolve(self.root, path)?)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        tally::file();
        let mut journal = Journal::open(file, metadata.len(), *left)?;
        *left -= journal.count();
        let last = i64::try_from(journal.last().min(LATEST)).unwrap_or_default();
        let modified = Stamp::wall(last.saturating_mul(1000), 1000);
        let mut scanner = LogScanner::new(rules, Form::System, modified.ns.saturating_add(DAY), self.room());
        let mut damaged = journal.each(self.limits.journal, |entry| {
            if is_believed(entry) {
                lines(entry, &mut |line| scanner.push(line));
            }
        });
        let read = journal.read();
        let found = scanner.end();
        damaged += found.damaged;
        let file = LogFile { size: metadata.len(), modified: Some(modified), read, ..LogFile::default() };
        Ok((file, Scanned { damaged, ..found }))
    }
}

/// The machine's directory has the system's files beside those of its users; `~` is one that was not closed.
fn listed(real: &Path, shown: &Path) -> io::Result<Vec<(Stamp, PathBuf)>> {
    let mut files = Vec::new();
    for machine in fs::read_dir(real)? {
        let machine = machine?;
        let Ok(entries) = fs::read_dir(machine.path()) else { continue };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_systems = name == "system.journal"
                || name.starts_with("system@") && name.trim_end_matches('~').ends_with(".journal");
            if let Some(metadata) = entry.metadata().ok().filter(|metadata| is_systems && metadata.is_file())
            {
                let modified = Stamp::of_file(metadata.mtime(), metadata.mtime_nsec());
                files.push((modified, shown.join(machine.file_name()).join(&*name)));
            }
        }
    }
    Ok(files)
}

/// Whose word it is: every program that reaches journald's socket chooses its identifier. journald itself says
/// whether the kernel wrote it, and which service; a pod's processes are in none.
fn is_believed(entry: &JournalEntry) -> bool {
    match LogSource::identified(&entry.identifier) {
        Some(LogSource::Kernel) => entry.transport == b"kernel",
        // Of a user's own systemd the unit is another.
        Some(LogSource::Systemd) => entry.unit == b"init.scope",
        Some(_) => entry.unit.ends_with(b".service"),
        None => is_of_a_service(&entry.identifier) && entry.unit.ends_with(b".service"),
    }
}

/// As syslog has them.
fn lines(entry: &JournalEntry, each: &mut dyn FnMut(&[u8])) {
    let time = UNIX_EPOCH + Duration::from_micros(entry.realtime.min(LATEST));
    let mut head = format!("{} journal ", humantime::format_rfc3339_micros(time)).into_bytes();
    head.extend_from_slice(&entry.identifier);
    head.extend_from_slice(b": ");
    for line in entry.message.split(|byte| *byte == b'\n') {
        each(&[&head, line, b"\n"].concat());
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, read};
    use super::*;
    use crate::log::LogEvent;
    use crate::operators::Operators;
    use crate::probe::journal::sample::Sample;

    const AT: u64 = 1_758_400_000_000_000;
    const REFUSED: &str = "MESSAGE=nvidia: disagrees about version of symbol module_layout";

    /// The events that a node with this entry in its journal shows.
    fn events(fields: &[&str], syslog: Option<&str>) -> Vec<LogEvent> {
        let root = tempfile::tempdir().unwrap();
        let machine = root.path().join("var/log/journal/0fb0e9b4000040008000000000000001");
        fs::create_dir_all(&machine).unwrap();
        let mut sample = Sample::new(true, 4);
        let data: Vec<_> = fields.iter().map(|field| sample.data(0, field.as_bytes())).collect();
        sample.entry(AT, &data);
        fs::write(machine.join("system.journal"), sample.build()).unwrap();
        fs::write(machine.join("user-1000.journal"), "none").unwrap();
        if let Some(text) = syslog {
            fs::write(root.path().join("var/log/syslog"), text).unwrap();
        }
        let logs = read(root.path(), &root.path().join("proc"), None, &Limits::LOOK, &Operators::default());
        assert_eq!(logs.unreadable, []);
        logs.matches.iter().map(|found| found.event).collect()
    }

    #[test]
    fn only_the_kernels_own_journal_entries_count_as_kernel_lines() {
        let kernel = ["SYSLOG_IDENTIFIER=kernel", "_TRANSPORT=kernel", REFUSED];
        assert_eq!(events(&kernel, None), [LogEvent::KernelDisagreesAboutVersion]);
        assert_eq!(events(&["SYSLOG_IDENTIFIER=kernel", "_TRANSPORT=stdout", REFUSED], None), []);
    }

    #[test]
    fn the_journal_of_a_service_counts_and_that_of_a_pod_does_not() {
        let failed = "MESSAGE=E0921 14:22:03.000000    1200 run.go:74] \"command failed\" err=\"failed to run Kubelet: no swap\"";
        let of = |unit: &str| events(&["SYSLOG_IDENTIFIER=kubelet", "_TRANSPORT=stdout", unit, failed], None);
        assert_eq!(of("_SYSTEMD_UNIT=kubelet.service"), [LogEvent::KubeletFailed]);
        assert_eq!(of("_SYSTEMD_UNIT=cri-containerd-0a1b.scope"), []);
    }

    #[test]
    fn the_journal_is_not_read_where_syslog_has_it_too() {
        assert_eq!(events(&["SYSLOG_IDENTIFIER=kernel", "_TRANSPORT=kernel", REFUSED], Some("")), []);
    }
}
