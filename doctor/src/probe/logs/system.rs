// SPDX-License-Identifier: Apache-2.0
//! The kernel's log: the ring that /dev/kmsg shows, and what syslog has put on disk.

use super::{Form, LogFile, Reader, Speakers, Table, Who, services, system_speakers};
use crate::sentence::Listener;
use peermem_gate::files::read::open;
use peermem_gate::files::root::resolve;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

const RING: &str = "/dev/kmsg";
/// The kernel's own limit for a record is below it.
const RECORD: usize = 8192;
const DIRECTORY: &str = "var/log";
/// Where distributions put what the kernel says. Debian has it in kern.log and again in syslog, so the first that is
/// there counts.
const FILES: [&str; 3] = ["kern.log", "messages", SYSLOG];
const SYSLOG: &str = "syslog";
/// Talos' controllers.
const TALOS: &str = "var/log/controller-runtime.log";

impl Reader<'_> {
    /// What the kernel said, now and before.
    pub(super) fn system(&mut self, is_here: bool) {
        let table = Table::of(system_speakers());
        if is_here {
            self.ring(&table);
        }
        for path in self.files() {
            let is_gz = path.extension().is_some_and(|extension| extension == "gz");
            self.listen(path, None, is_gz, &table);
        }
        // Beside a kern.log, Debian's syslog has the kernel's lines once more, and the services'.
        let syslog = self.root.join(DIRECTORY).join(SYSLOG);
        if self.first() == Some(FILES[0]) && resolve(self.root, &syslog).is_ok_and(|real| real.is_file()) {
            self.listen(syslog, None, false, &Table::of(services()));
        }
        let talos = self.root.join(TALOS);
        if resolve(self.root, &talos).is_ok_and(|real| real.is_file()) {
            self.listen_as(talos, None, Form::Bare, false, &Table::of(Speakers::from_iter([Who::Talos])));
        }
    }

    /// The file that has what the kernel says.
    fn first(&self) -> Option<&'static str> {
        let directory = self.root.join(DIRECTORY);
        let is_there = |name: &&&str| {
            resolve(self.root, &directory.join(name)).is_ok_and(|real| real.symlink_metadata().is_ok())
        };
        FILES.iter().find(is_there).copied()
    }

    /// The log, and the one before it, newest first.
    fn files(&mut self) -> Vec<PathBuf> {
        let directory = self.root.join(DIRECTORY);
        let Some(name) = self.first() else { return Vec::new() };
        let mut files = vec![directory.join(name)];
        match resolve(self.root, &directory).and_then(|real| rotated(&real, name)) {
            Ok(rotated) => files.extend(rotated.map(|rotated| directory.join(rotated))),
            Err(error) => self.cannot_read(&directory, &error),
        }
        files
    }

    fn ring(&mut self, table: &Table) {
        let path = Path::new(RING);
        // Its stamps are the kernel's own: no year is guessed.
        let mut listener = Listener::new(table, Form::System, 0, self.room());
        match ring(self.limits.records, &mut listener) {
            Ok(read) => {
                let file = LogFile { path: path.to_owned(), size: read, read, ..LogFile::default() };
                self.keep(file, listener.end());
            }
            Err(error) => self.cannot_read(path, &error),
        }
    }
}

/// logrotate's `.1`, `.1.gz`, or the newest `-20251121`: the one before the log that is written.
fn rotated(directory: &Path, name: &str) -> io::Result<Option<String>> {
    let is_rotated = |file: &String| {
        let rest = file.strip_prefix(name).map(|rest| rest.strip_suffix(".gz").unwrap_or(rest));
        rest.is_some_and(|rest| {
            let date = rest
                .strip_prefix('-')
                .is_some_and(|date| date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()));
            rest == ".1" || date
        })
    };
    let names = fs::read_dir(directory)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names.filter(is_rotated).max())
}

/// Record by record, from the oldest that is still there.
fn ring(most: u64, listener: &mut Listener<'_>) -> io::Result<u64> {
    let mut file = open(Path::new(RING))?;
    let mut record = [0; RECORD];
    let mut all = 0;
    for _ in 0..most {
        match file.read(&mut record) {
            Ok(0) => break,
            Ok(length) => {
                listener.ring(&record[..length]);
                all += length as u64;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // EPIPE: records were overwritten before they could be read.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}
