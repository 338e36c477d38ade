// SPDX-License-Identifier: Apache-2.0
//! The logs of one node in a bundle.

use super::machine;
use super::sources::within;
use crate::gathered::objects::{ContainerState, GatheredContainer, GatheredEvent, GatheredPod, Objects};
use crate::gathered::owner::{LogOwner, is_systems};
use crate::gathered::{Bundle, BundleFile, POSTED};
use crate::log::{
    DkmsFailure, Drawn, Form, Insist, LogEvent, LogMatch, LogScanner, LogSource, LogSources, RuleSet,
    Scanned, failed_build,
};
use crate::operators::Operators;
use crate::record::printed;
use crate::stamp::{SECOND, Stamp};
use crate::symptoms::logs::{ContainerLog, LogFile, Logs, UnknownLog};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Matches of one log, and of a node.
const MATCHES: usize = 500;
const MATCHES_IN_ALL: usize = 5000;
/// Containers with a log.
const CONTAINERS: usize = 2000;
/// In nanoseconds: clocks differ.
const DAY: i64 = 86_400 * SECOND;
/// Bytes at the end of a log that may say why its container ends.
const TAIL: usize = 16 * 1024;

/// The matches in a node's logs, and the ends of these logs.
#[derive(Debug, Default)]
pub(super) struct ScannedNode {
    pub(super) logs: Logs,
    /// The ends of the containers' logs, in the CRI's form, by pod and container.
    pub(super) tails: BTreeMap<(String, String), (String, Vec<u8>)>,
    /// System logs.
    pub(super) system: BTreeSet<String>,
    /// The times of the oldest and the newest line, in seconds since 1970.
    pub(super) first: Option<i64>,
    pub(super) last: Option<i64>,
    /// Files of the node of which something was understood.
    pub(super) understood: BTreeSet<String>,
    /// Builds of DKMS that failed, each with its file.
    pub(super) failed_builds: Vec<(PathBuf, DkmsFailure)>,
    /// Logs of which nobody knows the container or the node, and why.
    pub(super) unplaced: BTreeSet<String>,
}

/// The files of one node among all.
pub(super) struct NodeFiles<'a> {
    pub(super) bundle: &'a Bundle,
    pub(super) objects: &'a Objects,
    pub(super) operators: &'a Operators,
    pub(super) node: &'a str,
    /// The bundle is of this node only.
    pub(super) is_alone: bool,
    /// Directories with one node's own tree, with the node.
    pub(super) homes: &'a [(String, String)],
    /// Whose log each file of the bundle is, in the same order.
    pub(super) owners: &'a [Option<LogOwner>],
}

impl NodeFiles<'_> {
    /// All files, each with its owner.
    fn owned(&self) -> impl Iterator<Item = (&BundleFile, Option<&LogOwner>)> {
        self.bundle.files.iter().zip(self.owners.iter().map(Option::as_ref))
    }

    /// Files of the node itself.
    pub(super) fn machine(&self) -> impl Iterator<Item = &BundleFile> {
        let is_its = |(file, owner): &(&BundleFile, Option<&LogOwner>)| match machine::node_of(file) {
            _ if owner.is_some() => false,
            Some(node) => node == self.node,
            None => match self.home(&file.path) {
                Some(node) => node == self.node,
                None if self.is_of_another(&file.path) => false,
                None => self.is_alone || file.path.split('/').any(|part| part == self.node),
            },
        };
        self.owned().filter(is_its).map(|(file, _)| file)
    }

    /// A part of its path names another node of the cluster, or control planes, of which the operators know nothing.
    fn is_of_another(&self, path: &str) -> bool {
        let is_control = |part: &str| matches!(part, "master" | "masters" | "control-plane");
        let is_other = |part: &str| {
            part != self.node && self.objects.nodes.iter().any(|node| node.name == part) || is_control(part)
        };
        path.split('/').any(is_other)
    }

    /// The node whose tree the file is in.
    fn home(&self, path: &str) -> Option<&str> {
        let mut homes = self.homes.iter().filter(|(directory, _)| path.starts_with(directory.as_str()));
        homes.next().map(|(_, node)| node.as_str())
    }

    /// The operators' pods on it.
    pub(super) fn pods(&self) -> impl Iterator<Item = &GatheredPod> {
        let is_here =
            |pod: &&GatheredPod| pod.node.as_deref().map_or(self.is_alone, |node| node == self.node);
        self.objects.pods.iter().filter(is_here)
    }

    /// Events about the pods that it has or should have, whoever's they are.
    pub(super) fn events(&self) -> impl Iterator<Item = &GatheredEvent> {
        let is_here = |event: &&GatheredEvent| event.node.as_ref().is_none_or(|node| node == self.node);
        self.objects.events.iter().filter(is_here)
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<&GatheredPod> {
        self.pods().find(|pod| pod.name == name && (namespace.is_empty() || pod.namespace == namespace))
    }
}

/// A match with the moment by which it is ordered: that of the line before, where it has none.
struct Placed {
    order: i64,
    found: LogMatch,
}

struct NodeScan<'a> {
    files: &'a NodeFiles<'a>,
    rule_sets: BTreeMap<String, RuleSet>,
    placed: Vec<Placed>,
    /// By namespace, pod and container: the last line of its newest log; `None` where some line of it is known.
    last_lines: BTreeMap<(String, String, String), Option<UnknownLog>>,
    done: ScannedNode,
}

/// Reads all logs of a node.
pub(super) fn scan(files: &NodeFiles<'_>) -> ScannedNode {
    let mut scan = NodeScan {
        files,
        rule_sets: BTreeMap::new(),
        placed: Vec::new(),
        last_lines: BTreeMap::new(),
        done: ScannedNode::default(),
    };
    for (file, owner) in files.owned() {
        if let Some(owner) = owner {
            scan.container_log(file, owner);
        }
    }
    let system = RuleSet::of(LogSources::of_the_system()).trusting(files.operators);
    for file in files.machine() {
        if is_system(file) {
            scan.system_log(file, &system, Form::System);
        } else if let Some(build) = failed_build(&file.bytes) {
            scan.done.understood.insert(file.path.clone());
            scan.done.system.insert(file.path.clone());
            scan.done.failed_builds.push((PathBuf::from(&file.path), build));
        } else if files.bundle.files.len() <= POSTED {
            scan.system_log(file, &system, Form::Bare);
        }
    }
    scan.end()
}

/// Some line near its beginning is of a program that is known.
fn is_system(file: &BundleFile) -> bool {
    const NEAR: usize = 2000;
    if machine::is_bug_report(file) {
        return true;
    }
    file.bytes.split(|byte| *byte == b'\n').take(NEAR).any(is_systems)
}

impl NodeScan<'_> {
    fn container_log(&mut self, file: &BundleFile, owner: &LogOwner) {
        if !owner.namespace.is_empty() && !self.files.operators.have(&owner.namespace) {
            return self.note_untrusted(owner);
        }
        // Lines are parted only where they may be this node's.
        if !owner.pod.is_empty() && !self.is_here(file, owner) {
            return;
        }
        let mut parts: BTreeMap<(String, String), Vec<&[u8]>> = BTreeMap::new();
        for line in file.bytes.split(|byte| *byte == b'\n') {
            let (pod, container, text) = owner.of_line(line);
            let key = (pod.to_owned(), container.to_owned());
            if !container.is_empty() && (parts.contains_key(&key) || parts.len() < CONTAINERS) {
                parts.entry(key).or_default().push(text);
            }
        }
        if parts.is_empty() && !file.bytes.is_empty() {
            let path = &file.path;
            self.done.unplaced.insert(format!("{path}: its lines do not say of which container they are"));
        }
        for ((pod, container), lines) in parts {
            let of = LogOwner { pod, container, ..owner.clone() };
            let untrusted_log = self.files.objects.untrusted(&of.pod).filter(|_| of.namespace.is_empty());
            let is_here = self.is_here(file, &of);
            match untrusted_log {
                Some(namespace) => self.note_untrusted(&LogOwner { namespace: namespace.to_owned(), ..of }),
                None if is_here => self.stream(file, &of, &lines),
                None => {}
            }
        }
    }

    /// Of a pod that no list has, nobody says where it is.
    fn is_here(&mut self, file: &BundleFile, owner: &LogOwner) -> bool {
        if let Some(node) = self.files.home(&file.path) {
            return node == self.files.node;
        }
        if self.files.objects.pods.iter().any(|pod| pod.name == owner.pod) {
            return self.files.pod(&owner.namespace, &owner.pod).is_some();
        }
        if !self.files.is_alone && !LogSources::in_container(&owner.container).is_empty() {
            let LogOwner { container, pod, .. } = owner;
            let why =
                format!("the log of {container} in pod {pod}: no list of pods says on which node it is");
            self.done.unplaced.insert(why);
        }
        self.files.is_alone
    }

    fn note_untrusted(&mut self, owner: &LogOwner) {
        if !LogSources::in_container(&owner.container).is_empty() {
            self.done.logs.does_not_count(&owner.namespace, &owner.pod, &owner.container);
        }
    }

    fn stream(&mut self, file: &BundleFile, owner: &LogOwner, lines: &[&[u8]]) {
        let pod = self.files.pod(&owner.namespace, &owner.pod);
        let status = pod.and_then(|pod| pod.containers.iter().find(|one| one.name == owner.container));
        let restarts = status.and_then(|one| one.restarts).or(owner.restart);
        let count = restarts.unwrap_or_default();
        let name = if owner.is_previous { "previous" } else { "current" };
        let path = within(&file.path, &owner.pod, &owner.container, name);
        self.tail(owner, &path, lines);
        let rules = self.rule_sets.entry(owner.container.clone());
        let rules = rules.or_insert_with(|| RuleSet::of(LogSources::in_container(&owner.container)));
        let not_after =
            file.modified.map_or(i64::MAX / 2, |at| at.saturating_mul(SECOND)).saturating_add(DAY);
        let mut scanner = LogScanner::new(rules, Form::Container, not_after, MATCHES);
        for line in lines {
            scanner.record(printed(line));
        }
        let container = ContainerLog {
            namespace: pod.map_or_else(|| owner.namespace.clone(), |pod| pod.namespace.clone()),
            pod: owner.pod.clone(),
            uid: pod.map(|pod| pod.uid.clone()).unwrap_or_default(),
            container: owner.container.clone(),
            restart: if owner.is_previous { count.saturating_sub(1) } else { count },
        };
        let ended = scanner.end();
        self.last_line(&container, owner.is_previous, ended.matches.is_empty(), lines);
        let log = LogFile { path: path.into(), container: Some(container), ..LogFile::default() };
        let started = match status.map(|one| &one.state) {
            Some(ContainerState::Running(Some(at))) if !owner.is_previous => Some(*at),
            _ => None,
        };
        let before = started.map_or(i64::from(!owner.is_previous), |at| at.saturating_mul(SECOND));
        let is_over = status.is_some_and(is_over);
        self.keep(log, ended, before, |found| !is_over || still_counts(found.event));
    }

    /// Notes whether a line of the container's logs is known.
    fn last_line(&mut self, of: &ContainerLog, is_previous: bool, is_unknown: bool, lines: &[&[u8]]) {
        let is_known_container = || !LogSources::in_container(&of.container).is_empty();
        let is_operators =
            self.files.operators.have_alone(&of.namespace) || of.namespace.is_empty() && is_known_container();
        let mut texts = lines.iter().rev().map(|line| printed(line).text);
        let Some(last) = texts.find(|text| !text.trim_ascii().is_empty()) else { return };
        if !is_operators {
            return;
        }
        let key = (of.namespace.clone(), of.pod.clone(), of.container.clone());
        let log = is_unknown.then(|| UnknownLog::new(of, &last));
        match self.last_lines.get_mut(&key) {
            Some(known) if known.is_some() && (log.is_none() || !is_previous) => *known = log,
            Some(_) => {}
            None => {
                self.last_lines.insert(key, log);
            }
        }
    }

    /// The end of the newest log of each container that has one.
    fn tail(&mut self, owner: &LogOwner, path: &str, lines: &[&[u8]]) {
        let mut tail: Vec<&[u8]> = Vec::new();
        let mut left = TAIL;
        for line in lines.iter().rev() {
            let Some(room) = left.checked_sub(line.len() + 1) else { break };
            left = room;
            tail.push(line);
        }
        let mut text = Vec::new();
        for line in tail.into_iter().rev().filter(|line| !line.is_empty()) {
            let record = printed(line);
            text.extend_from_slice(b"1970-01-01T00:00:00Z stderr F ");
            text.extend_from_slice(&record.text);
            text.push(b'\n');
        }
        let key = (owner.pod.clone(), owner.container.clone());
        let tails = &mut self.done.tails;
        // A container that has just been started again has said nothing yet: then the instance before counts.
        let is_better = tails
            .get(&key)
            .is_none_or(|(_, known)| crate::log::trouble(known, i64::MAX, Insist::No).is_none());
        if is_better || !owner.is_previous && crate::log::trouble(&text, i64::MAX, Insist::No).is_some() {
            tails.insert(key, (path.to_owned(), text));
        }
    }

    fn system_log(&mut self, file: &BundleFile, rules: &RuleSet, form: Form) {
        let not_after =
            file.modified.map_or(i64::MAX / 2, |at| at.saturating_mul(SECOND)).saturating_add(DAY);
        let mut scanner = LogScanner::new(rules, form, not_after, MATCHES);
        scanner.push(&file.bytes);
        let ended = scanner.end();
        if !ended.matches.is_empty() {
            self.done.understood.insert(file.path.clone());
        }
        // What has neither times nor programs' names is no log of the system's.
        if form == Form::System {
            self.done.system.insert(file.path.clone());
        } else if ended.matches.is_empty() {
            return;
        }
        let log = LogFile { path: file.path.clone().into(), ..LogFile::default() };
        let is_driver_ready = self
            .files
            .pods()
            .flat_map(|pod| &pod.containers)
            .any(|one| one.name == "nvidia-driver-ctr" && is_over(one));
        let is_peermems =
            |found: &LogMatch| found.fields.get("module").is_some_and(|module| module.contains("peermem"));
        // Of an event, and of a pod's state, the API says how old it is.
        let objects = self.files.objects;
        let mut told =
            objects.events.iter().map(|event| &event.file).chain(objects.pods.iter().map(|pod| &pod.file));
        let is_told = told.any(|path| *path == file.path);
        let counts = |found: &LogMatch| {
            let is_over = is_driver_ready && !is_peermems(found) && !still_counts(found.event);
            !(is_over || is_told && found.source == LogSource::Hook)
        };
        self.keep(log, ended, 0, counts);
    }

    fn keep(&mut self, log: LogFile, scanned: Scanned, before: i64, counts: impl Fn(&LogMatch) -> bool) {
        let index = self.done.logs.files.len();
        let Scanned { matches, first, last, lines, .. } = scanned;
        let wall = |at: Stamp| at.on_wall(None).map(|at| at.ns);
        let mut order = before;
        for found in matches {
            let at = found.until.or(found.at).and_then(wall);
            order = at.unwrap_or(order);
            self.time(at);
            if counts(&found) && self.placed.len() < MATCHES_IN_ALL {
                self.placed.push(Placed { order, found: LogMatch { file: index, ..found } });
            }
        }
        self.time(first.and_then(wall));
        self.time(last.and_then(wall));
        self.done.logs.files.push(LogFile { lines, first, last, ..log });
    }

    fn time(&mut self, at: Option<i64>) {
        let Some(at) = at.map(|ns| ns / SECOND) else { return };
        self.done.first = Some(self.done.first.map_or(at, |first| first.min(at)));
        self.done.last = self.done.last.max(Some(at));
    }

    fn end(mut self) -> ScannedNode {
        self.placed.sort_by_key(|placed| placed.order);
        self.done.logs.matches = self.placed.into_iter().map(|placed| placed.found).collect();
        let mut unknown: Vec<_> = self.last_lines.into_values().flatten().collect();
        unknown.iter_mut().skip(UnknownLog::SHOWN).for_each(|log| log.last.clear());
        self.done.logs.not_understood = unknown;
        self.done
    }
}

/// Its startup probe, or its end without an error, shows that what it was to bring is there.
fn is_over(container: &GatheredContainer) -> bool {
    match container.state {
        ContainerState::Running(_) => container.has_started && container.is_ready,
        ContainerState::Terminated(code) => code == 0,
        ContainerState::Waiting(..) | ContainerState::Unknown => false,
    }
}

/// Whether the line counts although its container got over it: nothing bad, or bad for those that come after it.
fn still_counts(event: LogEvent) -> bool {
    use crate::log::ActiveWhen::{Missed, NoDriver, Refused, Restarted};
    let rule = event.rule();
    let is_of_start = |when| matches!(when, NoDriver | Missed | Refused | Restarted);
    rule.drawn != Drawn::Bad || rule.findings.iter().any(|row| !is_of_start(row.when))
}
