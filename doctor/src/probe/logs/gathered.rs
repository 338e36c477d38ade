// SPDX-License-Identifier: Apache-2.0
//! Logs that somebody gathered elsewhere: must-gathers, sosreports, what `kubectl logs` and journalctl printed,
//! and the gate's own log with its looks.

mod pods;
mod sniff;
mod streams;
pub(in crate::probe) mod walk;

use super::file::OpenLog;
use super::{ContainerLog, Limits, LogFile, LogReader, Logs, RuleSet};
use crate::log::{LogSource, LogSources};
use crate::operators::Operators;
use crate::record::place::{self, LogPlace};
use crate::timeline::Trace;
use peermem_gate::ready::files::read::{open, unreadable};
use peermem_gate::ready::observation::Unreadable;
use pods::PodFacts;
use sniff::FileKind;
use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use streams::Streams;
use walk::FoundFile;

/// The content of files from elsewhere.
#[derive(Debug, Default)]
pub struct GatheredLogs {
    /// The logs.
    pub logs: Logs,
    /// Traces in the gate's recorded looks.
    pub looks: Vec<Trace>,
    /// The nodes of pods, by the pod's name.
    pub nodes: BTreeMap<String, String>,
}

/// Reads files, and all files in directories.
#[must_use]
pub fn gather(paths: &[PathBuf], limits: &Limits, operators: &Operators) -> GatheredLogs {
    let mut reader = LogReader::new(Path::new("/"), limits, operators);
    let mut found = Vec::new();
    for path in paths {
        walk::walk(path, &mut found, &mut |path, error| reader.cannot_read(path, error));
    }
    let (lists, found): (Vec<_>, Vec<_>) = found.into_iter().partition(|found| is_list(&found.path));
    let pods = listed(&lists, &mut reader);
    let mut gatherer = Gatherer { reader, pods, looks: Vec::new(), rule_sets: rule_sets() };
    for found in &found {
        gatherer.file(found, found_beside(&found.path).as_ref());
    }
    let Gatherer { reader, pods, looks, .. } = gatherer;
    let nodes = pods.into_iter().filter_map(|(pod, facts)| Some((pod, facts.node?))).collect();
    GatheredLogs { logs: reader.done(), looks, nodes }
}

struct Gatherer<'a> {
    reader: LogReader<'a>,
    pods: BTreeMap<String, PodFacts>,
    looks: Vec<Trace>,
    /// By container.
    rule_sets: BTreeMap<&'static str, RuleSet>,
}

/// The rules for every container that is known.
fn rule_sets() -> BTreeMap<&'static str, RuleSet> {
    let names = LogSource::ALL.iter().flat_map(|source| source.containers()).copied();
    names.map(|name| (name, RuleSet::of(LogSources::in_container(name)))).collect()
}

fn is_list(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// The pods of all lists.
fn listed(lists: &[FoundFile], reader: &mut LogReader<'_>) -> BTreeMap<String, PodFacts> {
    let mut all = BTreeMap::new();
    for FoundFile { path, .. } in lists {
        match open(path).map(BufReader::new) {
            Ok(text) => {
                if let Err(why) = pods::read(&mut all, text, reader.operators) {
                    reader.name(Unreadable { path: path.clone(), why });
                }
            }
            Err(error) => reader.cannot_read(path, &error),
        }
    }
    all
}

/// The log of the instance before, where it is gathered too.
fn found_beside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let previous = match name {
        "current.log" => "previous.log".to_owned(),
        name => format!("{}.previous.log", name.strip_suffix(".log")?),
    };
    let previous = path.with_file_name(previous);
    previous.metadata().is_ok_and(|metadata| metadata.len() > 0).then_some(previous)
}

impl Gatherer<'_> {
    fn file(&mut self, found: &FoundFile, previous: Option<&PathBuf>) {
        let path = &found.path;
        let components: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
        if let [.., directory, container, file] = components.as_slice()
            && let (Some((namespace, pod, uid)), Some(log)) = (place::pod(directory), place::log(file))
        {
            let [namespace, pod, uid, container] = [namespace, pod, uid, container].map(str::to_owned);
            let of = ContainerLog { namespace, pod, uid, container, restart: log.restart };
            if !self.reader.operators.have(&of.namespace) {
                return self.strangers(&of);
            }
            return self.kubelets(path.clone(), of, log.is_gz);
        }
        let is_previous = components.last().is_some_and(|name| name.contains("previous"));
        if let Some(place) = place::gathered(&components) {
            let LogPlace { namespace, pod, container, is_previous } = place;
            let of = self.container(namespace, pod, container, is_previous, previous.is_some());
            if !namespace.is_empty() && !self.reader.operators.have(namespace) {
                return self.strangers(&of);
            }
            if self.rule_sets.contains_key(container) {
                self.streams(path, Some(of));
            }
            return;
        }
        match sniff::kind(path, found.is_named, &self.rule_sets) {
            Ok(FileKind::Streams(container)) => {
                let of = container
                    .map(|container| self.container("", "", container, is_previous, previous.is_some()));
                self.streams(path, of);
            }
            Ok(FileKind::System { is_gz }) => {
                let rules = RuleSet::of(LogSources::of_the_system()).believing(self.reader.operators);
                self.reader.scan(path.clone(), None, is_gz, &rules);
            }
            Ok(FileKind::Other(why)) if found.is_named => {
                self.reader.name(Unreadable { path: path.clone(), why: why.to_owned() });
            }
            Ok(FileKind::Other(_)) => {}
            Err(error) => self.reader.cannot_read(path, &error),
        }
    }

    /// A log outside the operators' namespaces.
    fn strangers(&mut self, of: &ContainerLog) {
        if self.rule_sets.contains_key(of.container.as_str()) {
            self.reader.does_not_count(&of.namespace, &of.pod, &of.container);
        }
    }

    /// In kubelet's own form and place.
    fn kubelets(&mut self, path: PathBuf, of: ContainerLog, is_gz: bool) {
        let sources = LogSources::in_container(&of.container);
        if !sources.is_empty() {
            self.reader.scan(path, Some(of), is_gz, &RuleSet::of(sources));
        }
    }

    /// A container's log. Where its path does not say how often the container was restarted, the lists of pods do.
    fn container(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        is_previous: bool,
        has_previous: bool,
    ) -> ContainerLog {
        let known = self.pods.get(pod).and_then(|facts| facts.restarts.get(container)).copied();
        let current = known.unwrap_or(u32::from(has_previous || is_previous));
        let restart = if is_previous { current.saturating_sub(1) } else { current };
        let [namespace, pod, container] = [namespace, pod, container].map(str::to_owned);
        ContainerLog { namespace, pod, uid: String::new(), container, restart }
    }

    /// Lines of one container or, with a prefix each, of several.
    fn streams(&mut self, path: &Path, own: Option<ContainerLog>) {
        let limits = self.reader.limits;
        if self.reader.logs.files.len() >= limits.files
            || self.reader.bytes_left == 0
            || self.reader.room() == 0
        {
            self.reader.logs.left_out.files += 1;
            return;
        }
        let scanned = self.scanned(path, own);
        match scanned {
            Ok(logs) => {
                for (file, scanned) in logs {
                    self.reader.keep(file, scanned);
                }
            }
            Err(error) => self.reader.name(unreadable(path, &error)),
        }
    }

    fn scanned(&mut self, path: &Path, own: Option<ContainerLog>) -> io::Result<streams::ScannedLogs> {
        let log = OpenLog::open(path)?;
        let (size, modified) = (log.size, log.modified);
        let is_previous = path.file_name().is_some_and(|name| name.to_string_lossy().contains("previous"));
        let has_previous = found_beside(path).is_some();
        let container =
            |pod: &str, container: &str| self.container("", pod, container, is_previous, has_previous);
        let mut streams = Streams::new(&self.rule_sets, modified, self.reader.room(), own);
        let read = log.decoded(self.reader.bytes_left, &mut |bytes| streams.push(bytes))?;
        let file =
            LogFile { path: path.to_owned(), size, modified: Some(modified), read, ..LogFile::default() };
        let (heards, looks) = streams.end(&file, &container);
        self.looks.extend(looks);
        Ok(heards)
    }
}
