// SPDX-License-Identifier: Apache-2.0
//! kubelet's logs: `/var/log/pods/NAMESPACE_POD_UID/CONTAINER/N.log`, or links from there to Docker's files.

use super::file::OpenLog;
use super::{DAY, Form, LogReader, LogSources, RuleSet};
use crate::log::{FailureLine, Insist, trouble};
use crate::record;
use crate::record::place::{self, LogName};
use crate::stamp::SECOND;
use crate::symptoms::logs::{ContainerLog, Failure, LoggedPod, PodContainer, UnknownLog};
use peermem_gate::ready::files::read::lstat;
use peermem_gate::ready::files::root::resolve;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

const PODS: &str = "var/log/pods";

/// A container that was started as often has not come through.
const OFTEN: u32 = 3;

/// Containers that wait without an end rather than be restarted: a step of the readiness chain waits for each.
const AWAITED: [&str; 3] = ["network-operator-init-container", "nvidia-mig-manager", "k8s-driver-manager"];
/// The end of the names of those that validate a step.
const VALIDATION: &str = "-validation";

/// Of a pod so many may repeat an error while they run; more than any pod of the operators has.
const CONTAINERS: usize = 16;

/// The part that is read of a log whose sentences are unknown, in bytes.
const TAIL: u64 = 16 * 1024;

/// A log that may be opened.
struct LogCandidate {
    name: LogName,
    path: PathBuf,
    container: ContainerLog,
}

impl LogReader<'_> {
    /// All pods' names, and what their containers said.
    pub(super) fn pods(&mut self) {
        let mut rounds: Vec<Vec<LogCandidate>> = Vec::new();
        for directory in self.pod_directories() {
            for logs in self.pod(&directory) {
                for (round, log) in logs.into_iter().enumerate() {
                    if round == rounds.len() {
                        rounds.push(Vec::new());
                    }
                    rounds[round].push(log);
                }
            }
        }
        let newest: Vec<_> = rounds
            .first()
            .into_iter()
            .flatten()
            .map(|log| (log.path.clone(), log.container.clone()))
            .collect();
        // The newest log of every container before the second newest of any.
        for LogCandidate { name, path, container } in rounds.into_iter().flatten() {
            let rules = RuleSet::of(LogSources::in_container(&container.container));
            self.scan(path, Some(container), Form::Container, name.is_gz, &rules);
        }
        for (path, container) in newest {
            self.not_understood(&path, &container);
        }
    }

    /// Names the log if no line of the container's logs is known, with its last line.
    fn not_understood(&mut self, path: &Path, container: &ContainerLog) {
        let is_its = |log: &ContainerLog| log.uid == container.uid && log.container == container.container;
        let files = &self.logs.files;
        let is_known =
            self.logs.matches.iter().any(|found| {
                files.get(found.file).and_then(|file| file.container.as_ref()).is_some_and(is_its)
            });
        if is_known || !self.operators.have_alone(&container.namespace) {
            return;
        }
        let is_shown = self.logs.not_understood.len() < UnknownLog::SHOWN;
        let last = if is_shown { self.last_line(path) } else { Some(Vec::new()) };
        self.logs.not_understood.extend(last.map(|last| UnknownLog::new(container, &last)));
    }

    /// The last line that says anything; `None` of a log that is empty, or that is compressed.
    fn last_line(&self, path: &Path) -> Option<Vec<u8>> {
        const LINE: u64 = 4096;
        let mut tail = Vec::new();
        self.opened(path)?.tail(LINE, &mut |bytes| tail.extend_from_slice(bytes)).ok()?;
        let mut records = tail.rsplit(|byte| *byte == b'\n').filter_map(record::container);
        Some(records.find(|record| !record.text.trim_ascii().is_empty())?.text.to_vec())
    }

    /// The names in a directory; none where it cannot be read, which is said.
    fn listed(&mut self, directory: &Path) -> Vec<String> {
        let listed = resolve(self.root, directory).and_then(|real| names(&real));
        listed.unwrap_or_else(|error| {
            self.cannot_read(directory, &error);
            Vec::new()
        })
    }

    /// Those of the operators' pods come first.
    fn pod_directories(&mut self) -> Vec<PathBuf> {
        let pods = self.root.join(PODS);
        let mut names = self.listed(&pods);
        names.retain(|name| place::pod(name).is_some());
        let is_operators =
            |name: &String| place::pod(name).is_some_and(|(namespace, ..)| self.operators.have(namespace));
        names.sort_by_key(|name| (!is_operators(name), name.clone()));
        self.logs.left_out.pods += names.len().saturating_sub(self.limits.pods) as u64;
        names.truncate(self.limits.pods);
        names.into_iter().map(|name| pods.join(name)).collect()
    }

    /// The logs of each container of a pod, newest first.
    fn pod(&mut self, directory: &Path) -> Vec<Vec<LogCandidate>> {
        let name = directory.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let Some((namespace, pod, uid)) = place::pod(name) else { return Vec::new() };
        let [namespace, pod, uid] = [namespace, pod, uid].map(str::to_owned);
        let mut containers = self.listed(directory);
        containers.sort();
        let is_known = |container: &String| !LogSources::in_container(container).is_empty();
        if !self.operators.have(&namespace) {
            let untrusted = containers.into_iter().filter(is_known);
            untrusted.for_each(|container| self.logs.does_not_count(&namespace, &pod, &container));
            return Vec::new();
        }
        let (mut listed, mut logs) = (Vec::new(), Vec::new());
        let is_operators = self.operators.have_alone(&namespace);
        for container in containers {
            let is_known = is_known(&container);
            let candidates = if is_known || is_operators {
                self.logs_of(directory, (&namespace, &pod, &uid), &container)
            } else {
                Vec::new()
            };
            let restart = candidates.first().map(|log| log.name.restart);
            let is_restarted = restart.is_some_and(|count| count >= OFTEN);
            let waits = container.ends_with(VALIDATION) || AWAITED.contains(&container.as_str());
            let is_looked_at = is_operators && (is_restarted || waits || listed.len() < CONTAINERS);
            let insist = match (is_restarted, waits) {
                (true, _) => Insist::after(restart),
                (_, true) => Insist::LastWords,
                _ => Insist::Repeated,
            };
            let since = || self.first_line(&candidates.last()?.path);
            let read: Vec<_> = candidates
                .iter()
                .take(if insist == Insist::Repeated { 1 } else { 2 })
                .filter(|log| is_looked_at && !log.name.is_gz)
                .collect();
            let trouble = |insist| read.iter().find_map(|log| self.trouble(&log.path, insist));
            let found = trouble(if insist == Insist::Repeated { insist } else { Insist::No });
            let found = found.or_else(|| trouble(insist));
            let newest = candidates.first().filter(|_| is_operators);
            let newest =
                newest.and_then(|log| resolve(self.root, &log.path).and_then(|real| lstat(&real)).ok());
            listed.push(PodContainer {
                trouble: found.map(|trouble| Failure { since: since(), ..trouble }),
                is_silent: newest.as_ref().is_some_and(|file| file.len() == 0),
                written: newest.map(|file| file.mtime()),
                restart,
                name: container,
            });
            if let Some(log) = candidates.first().filter(|_| !is_known && is_operators) {
                self.not_understood(&log.path, &log.container);
            }
            logs.push(if is_known { candidates } else { Vec::new() });
        }
        self.logs.pods.push(LoggedPod { namespace, name: pod, uid, containers: listed });
        logs
    }

    /// The trouble at the end of a container's log.
    fn trouble(&self, path: &Path, insist: Insist) -> Option<Failure> {
        let log = self.opened(path)?;
        let modified = log.modified.ns;
        let mut tail = Vec::new();
        log.tail(TAIL, &mut |bytes| tail.extend_from_slice(bytes)).ok()?;
        let found = trouble(&tail, modified.saturating_add(DAY), insist)?;
        let FailureLine { at, text: line, output, advice, awaits } = found;
        let repeats = insist == Insist::Repeated;
        let modified = at.filter(|_| repeats).map_or(modified, |at| at.ns);
        let started = self.first_line(path);
        let (path, modified) = (path.to_owned(), modified / SECOND);
        Some(Failure { path, modified, started, since: None, repeats, line, output, advice, awaits })
    }

    /// When a log's first line was written, in seconds since 1970.
    fn first_line(&self, path: &Path) -> Option<i64> {
        /// Of a line so much has its stamp.
        const STAMP: u64 = 128;
        let log = self.opened(path)?;
        let not_after_ns = log.modified.ns.saturating_add(DAY);
        let mut head = Vec::new();
        log.decoded(STAMP, &mut |bytes| head.extend_from_slice(bytes)).ok()?;
        let first = head.split(|byte| *byte == b'\n').next()?;
        Some(record::container(first)?.written.stamp(not_after_ns)?.ns / SECOND)
    }

    fn opened(&self, path: &Path) -> Option<OpenLog> {
        resolve(self.root, path).and_then(|real| OpenLog::open(&real)).ok()
    }

    fn logs_of(&mut self, pod: &Path, of: (&str, &str, &str), container: &str) -> Vec<LogCandidate> {
        let directory = pod.join(container);
        let log = |file: String| Some((place::log(&file)?, directory.join(file)));
        let mut logs: Vec<_> = self.listed(&directory).into_iter().filter_map(log).collect();
        logs.sort_by(|one, other| other.cmp(one));
        self.logs.left_out.files += logs.len().saturating_sub(self.limits.logs) as u64;
        logs.truncate(self.limits.logs);
        let candidate = |(name, path): (LogName, PathBuf)| {
            let (namespace, pod, uid) = of;
            let container = ContainerLog {
                namespace: namespace.to_owned(),
                pod: pod.to_owned(),
                uid: uid.to_owned(),
                container: container.to_owned(),
                restart: name.restart,
            };
            LogCandidate { name, path, container }
        };
        logs.into_iter().map(candidate).collect()
    }
}

/// The names of the pods' directories.
///
/// # Errors
/// As readdir(3).
pub(in super::super) fn directories(root: &Path) -> io::Result<Vec<String>> {
    resolve(root, &root.join(PODS)).and_then(|real| names(&real))
}

/// The names in a directory that are text; any other is none of kubelet's.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    /// Far more than a directory of kubelet's has, and a bound on the memory for one that was filled on purpose.
    const NAMES: usize = 100_000;
    let entries = fs::read_dir(directory)?.take(NAMES).collect::<io::Result<Vec<_>>>()?;
    Ok(entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok()).collect())
}
