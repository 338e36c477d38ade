// SPDX-License-Identifier: Apache-2.0
//! The kernel's log and the services': the ring that /dev/kmsg shows, and what syslog or journald has put on disk.

use super::{Form, LogFile, LogReader, LogSource, LogSources, RuleSet, services};
use crate::log::LogScanner;
use peermem_gate::ready::files::read::{lstat, open};
use peermem_gate::ready::files::root::resolve;
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
/// Services that write their own log: Fabric Manager (on Talos an extension), Talos' controllers, kubelet and
/// containerd of RKE2 and k3s.
const OWN: [(&str, LogSource); 11] = [
    ("var/log/cloud-init-output.log", LogSource::Installer),
    ("var/log/nvidia-installer.log", LogSource::Installer),
    ("var/log/kubelet.log", LogSource::Kubelet),
    ("var/log/fabricmanager.log", LogSource::FabricManager),
    ("run/nvidia/driver/var/log/fabricmanager.log", LogSource::FabricManager),
    ("var/log/ext-nvidia-fabricmanager.log", LogSource::FabricManager),
    ("var/log/controller-runtime.log", LogSource::Talos),
    ("var/lib/rancher/rke2/agent/logs/kubelet.log", LogSource::Kubelet),
    ("var/lib/rancher/k3s/agent/logs/kubelet.log", LogSource::Kubelet),
    ("var/lib/rancher/rke2/agent/containerd/containerd.log", LogSource::Containerd),
    ("var/lib/rancher/k3s/agent/containerd/containerd.log", LogSource::Containerd),
];

impl LogReader<'_> {
    /// The log of the kernel and of services, of this boot and before.
    pub(super) fn system(&mut self, is_here: bool) {
        let rules = RuleSet::of(LogSources::of_the_system()).trusting(self.operators);
        if is_here {
            self.ring(&rules);
        }
        let first = FILES.into_iter().find(|name| self.is_there(&Path::new(DIRECTORY).join(name)).is_some());
        for path in self.files(first) {
            let is_gz = path.extension().is_some_and(|extension| extension == "gz");
            self.scan(path, None, Form::System, is_gz, &rules);
        }
        // Beside a kern.log, Debian's syslog has the kernel's lines once more, and the services'.
        let syslog = Path::new(DIRECTORY).join(SYSLOG);
        if first == Some(FILES[0]) && self.is_there(&syslog) == Some(true) {
            let services = RuleSet::of(services()).trusting(self.operators);
            self.scan(self.root.join(syslog), None, Form::System, false, &services);
        }
        // What rsyslog writes it has from the journal.
        if first.is_none() {
            self.journal(&rules);
        }
        for (path, source) in OWN {
            if self.is_there(Path::new(path)) == Some(true) {
                let rules = RuleSet::of(LogSources::from_iter([source])).trusting(self.operators);
                self.scan(self.root.join(path), None, Form::Bare, false, &rules);
            }
        }
    }

    /// Whether something is there, and is a file. What cannot be looked at is said to be unread.
    fn is_there(&mut self, path: &Path) -> Option<bool> {
        let path = self.root.join(path);
        match resolve(self.root, &path).and_then(|real| lstat(&real)) {
            Ok(metadata) => Some(metadata.is_file()),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => None,
            Err(error) => {
                self.cannot_read(&path, &error);
                None
            }
        }
    }

    /// The log of this name, and the one before it, newest first.
    fn files(&mut self, name: Option<&str>) -> Vec<PathBuf> {
        let directory = self.root.join(DIRECTORY);
        let Some(name) = name else { return Vec::new() };
        let mut files = vec![directory.join(name)];
        match resolve(self.root, &directory).and_then(|real| rotated(&real, name)) {
            Ok(rotated) => files.extend(rotated.map(|rotated| directory.join(rotated))),
            Err(error) => self.cannot_read(&directory, &error),
        }
        files
    }

    fn ring(&mut self, rules: &RuleSet) {
        let path = Path::new(RING);
        // Its stamps are the kernel's own: no year is guessed.
        let mut scanner = LogScanner::new(rules, Form::System, 0, self.room());
        match ring(self.limits.records, &mut scanner) {
            Ok(read) => {
                let file = LogFile { path: path.to_owned(), size: read, read, ..LogFile::default() };
                self.keep(file, scanner.end());
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
    let entries = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
    let names = entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter(is_rotated).max())
}

/// Record by record, from the oldest that is still there.
fn ring(most: u64, scanner: &mut LogScanner<'_>) -> io::Result<u64> {
    let mut file = open(Path::new(RING))?;
    let mut record = [0; RECORD];
    let mut all = 0;
    for _ in 0..most {
        match file.read(&mut record) {
            Ok(0) => break,
            Ok(length) => {
                scanner.ring(&record[..length]);
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

#[cfg(test)]
mod tests {
    use super::super::{Limits, read};
    use super::*;
    use crate::operators::Operators;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_log_that_cannot_be_looked_at_is_unread_and_not_absent() {
        let root = tempfile::tempdir().unwrap();
        let logs = root.path().join(DIRECTORY);
        fs::create_dir_all(&logs).unwrap();
        fs::write(logs.join(FILES[0]), "").unwrap();
        let unread = || {
            let logs =
                read(root.path(), &root.path().join("proc"), None, &Limits::LOOK, &Operators::default());
            logs.unreadable.into_iter().map(|unread| unread.path).collect::<Vec<_>>()
        };
        assert!(unread().is_empty(), "what is not there says nothing");
        // A chain of links without an end.
        for name in [SYSLOG, "kubelet.log"] {
            symlink(name, logs.join(name)).unwrap();
        }
        assert_eq!(unread(), [SYSLOG, "kubelet.log"].map(|name| logs.join(name)));
    }
}
