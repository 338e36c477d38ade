// SPDX-License-Identifier: Apache-2.0
//! Matches in the logs of containers, of the kernel and of services. Plain data.

use crate::log::{ClockStep, LogEvent, LogMatch, WaitTarget};
use crate::stamp::Stamp;
use peermem_gate::ready::observation::{Evidence, Unreadable};
use peermem_gate::survey::pod::{Pods, is_of_an_operator};
use peermem_gate::survey::{self, Logged};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logs {
    /// The lines that fit a log rule, in the order of time; those without a time come last.
    pub matches: Vec<LogMatch>,
    /// The logs that were read.
    pub files: Vec<LogFile>,
    /// The operators' pods that kubelet has or had here, by namespace and name.
    pub pods: Vec<LoggedPod>,
    /// Sources that could not be read.
    pub unreadable: Vec<Unreadable>,
    /// Logs that were left out because there was too much.
    pub left_out: LeftOut,
    /// When the kernel was started, by the wall clock.
    pub booted: Option<Stamp>,
    /// The operators' logs of which no line is known.
    pub not_understood: Vec<UnknownLog>,
    /// Containers with an operator's name outside the operators' namespaces: their logs were not read.
    pub untrusted: Vec<UntrustedLog>,
}

/// A container with an operator's name outside the operators' namespaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct UntrustedLog {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The container's name.
    pub container: String,
}

impl fmt::Display for UntrustedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, pod, container } = self;
        write!(f, "the log of {container} in pod {pod} of namespace {namespace} does not count")
    }
}

/// A log of an operators' container of which no line is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct UnknownLog {
    /// `NAMESPACE/POD/CONTAINER`.
    pub container: String,
    /// Its last line, shortened, as it came: escape it where it is printed.
    pub last: String,
}

impl UnknownLog {
    /// So many are shown with their last line. The others count without it: a pod may have thousands of containers.
    pub const SHOWN: usize = 20;
    /// Characters of a line.
    const LONGEST: usize = 200;

    /// `last` is empty where it is not shown.
    pub fn new(of: &ContainerLog, last: &[u8]) -> Self {
        let parts = [&of.namespace, &of.pod, &of.container].map(String::as_str);
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let last = String::from_utf8_lossy(last.trim_ascii()).chars().take(Self::LONGEST).collect();
        Self { container: parts.join("/"), last }
    }
}

/// A log that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFile {
    /// Its path as kubelet or syslog names it, below the root that was asked for.
    pub path: PathBuf,
    /// The container that writes it; `None` for the kernel's.
    pub container: Option<ContainerLog>,
    /// Its size in bytes.
    pub size: u64,
    /// When it was written to last.
    pub modified: Option<Stamp>,
    /// Bytes that were read, unpacked where they are packed.
    pub read: u64,
    /// Bytes that were left out: the middle of a long log. 0 for a packed one of which it is not known.
    pub left_out: u64,
    /// Lines that were read, and how many of them are not in a log's form.
    pub lines: u64,
    /// Of these, not in the form of such a log.
    pub damaged: u64,
    /// Matches that were dropped because there were too many; the last are kept.
    pub forgotten: u64,
    /// The stamp of the first line: about when the container started.
    pub first: Option<Stamp>,
    /// The stamp of the last line.
    pub last: Option<Stamp>,
    /// The stamps have the node's zone and do not say which.
    pub is_local: bool,
    /// Where the wall clock was set while it was written.
    pub steps: Vec<ClockStep>,
}

/// Whose log it is, by its path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerLog {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// The container's name.
    pub container: String,
    /// How often the container had been restarted before.
    pub restart: u32,
}

/// A pod that kubelet has or had on this node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoggedPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its containers that have a log.
    pub containers: Vec<PodContainer>,
}

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodContainer {
    /// Its name.
    pub name: String,
    /// The restart count of its newest log; `None` where it has none, or where the log was not read: the container is
    /// not the operators', and none of its sentences is known.
    pub restart: Option<u32>,
    /// When its newest log was written to last, in seconds since 1970, where it is the operators'.
    pub written: Option<i64>,
    /// Its newest log has no line, where it is the operators'.
    pub is_silent: bool,
    /// Why it ends, where it is the operators' and has been restarted again and again.
    pub trouble: Option<Failure>,
}

/// Why a container ends, in its own words.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure {
    /// The log.
    pub path: PathBuf,
    /// When it was written to last, in seconds since 1970.
    pub modified: i64,
    /// When its first line was written, in seconds since 1970: the container's last start.
    pub started: Option<i64>,
    /// When the first line of the container's oldest log was written.
    pub since: Option<i64>,
    /// The container runs, and repeats the line.
    pub repeats: bool,
    /// The line that is the cause, as it came: escape it where it is printed.
    pub line: String,
    /// The last words of the command that failed, where the line only passes on that it did; as they came.
    pub output: Option<String>,
    /// The remedy that the log itself names, as it came.
    pub advice: Option<String>,
    /// The file or module that the container waits for, by its log.
    pub awaits: Option<WaitTarget>,
}

/// How much was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Directories of pods that were not looked into.
    pub pods: u64,
    /// Logs that were not opened.
    pub files: u64,
    /// Bytes of the logs that were opened.
    pub bytes: u64,
    /// Matches.
    pub matches: u64,
    /// Sources that cannot be read, beyond those that are named.
    pub unreadable: u64,
}

impl Logs {
    /// A log that does not count is named once, and not more of them than a person reads.
    pub fn does_not_count(&mut self, namespace: &str, pod: &str, container: &str) {
        const NAMED: usize = 50;
        let [namespace, pod, container] = [namespace, pod, container].map(str::to_owned);
        let log = UntrustedLog { namespace, pod, container };
        if self.untrusted.len() < NAMED && !self.untrusted.contains(&log) {
            self.untrusted.push(log);
        }
    }

    /// The log that has this line.
    pub fn file(&self, found: &LogMatch) -> Option<&LogFile> {
        self.files.get(found.file)
    }

    /// The lines of one event, in the order of time.
    #[must_use = "an iterator does nothing by itself"]
    pub fn of(&self, event: LogEvent) -> impl DoubleEndedIterator<Item = &LogMatch> {
        self.matches.iter().filter(move |found| found.event == event)
    }

    /// The lines after this one, in the order of time.
    #[must_use = "an iterator does nothing by itself"]
    pub fn after(&self, found: &LogMatch) -> impl Iterator<Item = &LogMatch> {
        let is_it = |other: &LogMatch| (other.file, other.line) == (found.file, found.line);
        self.matches.iter().skip_while(move |other| !is_it(other)).skip(1)
    }

    /// The operator's settings in the logs. The driver's script loads nvidia-peermem only if one asks for it.
    pub fn settings(&self) -> Logged {
        let requests = [
            LogEvent::RdmaRequested,
            LogEvent::PeermemModprobe,
            LogEvent::PeermemWaits,
            LogEvent::PeermemRefused,
        ];
        let last = |event| -> Option<Evidence> {
            let found = self.of(event).next_back()?;
            Some(Evidence::new(self.file(found)?.path.display().to_string(), found.text.clone()))
        };
        Logged {
            requested: requests.into_iter().find_map(last),
            requested_by_host: last(LogEvent::HostPeermemRefused),
        }
    }

    /// The pods that kubelet has, with the names that the paths of their logs have, and those of which only logs are
    /// left.
    pub fn name(&self, pods: Pods) -> Pods {
        let mut all: BTreeMap<_, _> = pods.all.into_iter().map(|pod| (pod.uid.clone(), pod)).collect();
        for logged in &self.pods {
            let pod = all.entry(logged.uid.clone()).or_insert_with(|| survey::pod::Pod {
                uid: logged.uid.clone(),
                ..survey::pod::Pod::default()
            });
            pod.is_operators |= is_of_an_operator(&logged.namespace);
            pod.name = Some((logged.namespace.clone(), logged.name.clone()));
            pod.containers.extend(logged.containers.iter().map(|container| container.name.clone()));
        }
        Pods { all: all.into_values().collect(), ..pods }
    }

    /// A stamp on the wall clock, where the kernel's start is known or not needed.
    pub fn on_wall(&self, stamp: Stamp) -> Option<Stamp> {
        stamp.on_wall(self.booted)
    }
}
