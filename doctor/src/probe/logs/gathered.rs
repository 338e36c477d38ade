// SPDX-License-Identifier: Apache-2.0
//! Logs that somebody gathered elsewhere: must-gathers, sosreports, what `kubectl logs` and journalctl printed,
//! and the gate's own log with its looks; in directories, and in archives.

mod sniff;
mod streams;

use super::file::OpenLog;
use super::walk::{self, FoundFile};
use super::{ContainerLog, Form, Limits, LogFile, LogReader, Logs, RuleSet};
use crate::gathered::objects::Objects;
use crate::gathered::owner::{self, LogOwner};
use crate::gathered::{self, Bundle, BundleFile};
use crate::log::LogSources;
use crate::probe::{bundle, stdin};
use crate::timeline::Trace;
use peermem_gate::ready::files::read::unreadable;
use peermem_gate::ready::observation::Unreadable;
use sniff::FileKind;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use streams::Streams;

/// The beginning of a file that shows whether it is a list of objects.
const HEAD: u64 = 64 << 10;
/// Bytes: a list of all pods of a large cluster.
const LARGEST: u64 = 256 << 20;

/// The content of files from elsewhere.
#[derive(Debug, Default)]
pub struct GatheredLogs {
    /// The logs.
    pub logs: Logs,
    /// Traces in the gate's recorded looks.
    pub looks: Vec<Trace>,
    /// The nodes of pods, by the pod's name.
    pub nodes: BTreeMap<String, String>,
    /// What came from standard input, which cannot be read again.
    pub posted: Option<Bundle>,
}

/// Reads files and archives, and all files in directories. `named` are namespaces of operators.
pub fn gather(paths: &[PathBuf], limits: &Limits, named: &[String]) -> GatheredLogs {
    let mut unread = Unread::default();
    let found = found(paths, &mut unread);
    let (lists, logs): (Vec<_>, Vec<_>) = found.into_iter().partition(is_list);
    let lists = lists.iter().filter_map(|list| match whole(list) {
        Ok(file) => Some(Cow::Owned(file)),
        Err(error) => {
            unread.named.push(unreadable(&list.path, &error));
            None
        }
    });
    let (objects, operators) = gathered::listed(lists, named);
    let mut reader = LogReader::new(Path::new("/"), limits, &operators);
    let broken = objects.unreadable.iter();
    let broken = broken.map(|(path, why)| Unreadable { path: path.into(), why: why.clone() });
    for unreadable in std::mem::take(&mut unread.named).into_iter().chain(broken) {
        reader.name(unreadable);
    }
    reader.logs.left_out.unreadable += unread.more;
    let packed = logs.iter().filter(|found| found.packed.is_some());
    let packed = packed.map(|found| found.path.clone()).collect();
    let (looks, rule_sets) = (Vec::new(), owner::rules_by_container());
    let mut gatherer = Gatherer { reader, objects: &objects, packed, looks, rule_sets };
    for found in &logs {
        gatherer.file(found);
    }
    let Gatherer { reader, looks, .. } = gatherer;
    let logs = reader.done();
    let nodes = objects.pods.into_iter().filter_map(|pod| Some((pod.name, pod.node?))).collect();
    GatheredLogs { logs, looks, nodes, posted: unread.posted }
}

/// Files that were not read.
#[derive(Default)]
struct Unread {
    named: Vec<Unreadable>,
    more: u64,
    posted: Option<Bundle>,
}

/// All files, those of archives in memory.
fn found(paths: &[PathBuf], unread: &mut Unread) -> Vec<FoundFile> {
    let mut found = Vec::new();
    for path in paths {
        let is_stdin = stdin::is_named(path);
        let archive = match bundle::packed(path) {
            Ok(Some(archive)) => archive,
            Err(error) if is_stdin => {
                unread.named.push(unreadable(Path::new(stdin::NAME), &error));
                continue;
            }
            _ => {
                walk::walk(path, &mut found, &mut |path, error| unread.named.push(unreadable(path, error)));
                continue;
            }
        };
        unread.posted = is_stdin.then(|| archive.clone()).or(unread.posted.take());
        let (name, directory) =
            if is_stdin { (Path::new(stdin::NAME), Path::new("")) } else { (path.as_path(), path.as_path()) };
        let is_named = is_stdin && archive.files.len() == 1;
        let nothing = "it has no logs and no output of kubectl".to_owned();
        let nothing = Some(nothing).filter(|_| archive.files.is_empty());
        let left_out = archive.left_out.into_iter().chain(nothing);
        unread.named.extend(left_out.map(|why| Unreadable { path: name.to_owned(), why }));
        unread.more += archive.more_left_out;
        found.extend(archive.files.into_iter().map(|file| {
            // A path in an archive is only a name.
            let path = directory.join(file.path.trim_start_matches('/'));
            FoundFile { path, is_named, packed: Some(Rc::new(file)) }
        }));
    }
    found
}

struct Gatherer<'a> {
    reader: LogReader<'a>,
    objects: &'a Objects,
    /// Of the files in archives.
    packed: BTreeSet<PathBuf>,
    looks: Vec<Trace>,
    /// By container.
    rule_sets: BTreeMap<&'static str, RuleSet>,
}

/// Whether it lists objects of the API. A file with a log's name is a log, whatever it begins with.
fn is_list(found: &FoundFile) -> bool {
    let path = found.path.to_string_lossy();
    let is_log = || path.ends_with(".log") || owner::of(&path, &Objects::default()).is_some();
    !is_log() && content(found, HEAD).is_ok_and(|head| gathered::is_list(&head))
}

fn whole(found: &FoundFile) -> io::Result<BundleFile> {
    let path = found.path.to_string_lossy().into_owned();
    Ok(BundleFile { path, bytes: content(found, LARGEST)?, modified: None })
}

fn content(found: &FoundFile, most: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    OpenLog::found(found)?.decoded(most, &mut |bytes| content.extend_from_slice(bytes))?;
    Ok(content)
}

/// The log of the instance before.
fn previous_of(path: &Path) -> Option<PathBuf> {
    let previous = match path.file_name()?.to_str()? {
        "current.log" => "previous.log".to_owned(),
        name => format!("{}.previous.log", name.strip_suffix(".log")?),
    };
    Some(path.with_file_name(previous))
}

impl Gatherer<'_> {
    fn file(&mut self, found: &FoundFile) {
        let path = &found.path;
        let owner = owner::of(&path.to_string_lossy(), self.objects);
        if let Some(LogOwner { namespace, pod, container, .. }) = &owner
            && !namespace.is_empty()
            && !self.reader.operators.have(namespace)
        {
            if self.rule_sets.contains_key(container.as_str()) {
                self.reader.logs.does_not_count(namespace, pod, container);
            }
            return;
        }
        if let Some(owner) = owner.as_ref().filter(|owner| !owner.container.is_empty()) {
            let of = self.container(owner, found);
            match self.rule_sets.get(owner.container.as_str()) {
                // In kubelet's own form and place.
                Some(rules) if owner.restart.is_some() => {
                    let is_gz = path.extension().is_some_and(|extension| extension == "gz");
                    let open = |_: &Path| OpenLog::found(found);
                    self.reader.scan_opened(path.clone(), Some(of), Form::Container, is_gz, rules, &open);
                }
                Some(_) => self.streams(found, owner),
                None => {}
            }
            return;
        }
        let is_previous = path.file_name().is_some_and(|name| name.to_string_lossy().contains("previous"));
        self.unknown(found, owner.unwrap_or_else(|| LogOwner { is_previous, ..LogOwner::default() }));
    }

    /// A file of which neither the path nor a list says the container: its lines do.
    fn unknown(&mut self, found: &FoundFile, owner: LogOwner) {
        let path = &found.path;
        match sniff::kind(found, &self.rule_sets) {
            Ok(FileKind::Streams(container)) => {
                self.streams(
                    found,
                    &LogOwner { container: container.unwrap_or_default().to_owned(), ..owner },
                );
            }
            Ok(FileKind::System { is_gz }) => {
                let rules = RuleSet::of(LogSources::of_the_system()).trusting(self.reader.operators);
                let open = |_: &Path| OpenLog::found(found);
                self.reader.scan_opened(path.clone(), None, Form::System, is_gz, &rules, &open);
            }
            Ok(FileKind::Other(why)) if found.is_named => {
                self.reader.name(Unreadable { path: path.clone(), why: why.to_owned() });
            }
            Ok(FileKind::Other(_)) => {}
            Err(error) => self.reader.cannot_read(path, &error),
        }
    }

    /// The container of a log. Where its path does not say how often the container was restarted, the lists of pods
    /// do.
    fn container(&self, owner: &LogOwner, found: &FoundFile) -> ContainerLog {
        let LogOwner { namespace, pod, container, is_previous, uid, restart } = owner.clone();
        let listed = self.objects.pod(&namespace, &pod);
        let known = listed.and_then(|pod| pod.containers.iter().find(|one| one.name == container)?.restarts);
        let has_previous = || {
            previous_of(&found.path).is_some_and(|previous| match found.packed {
                Some(_) => self.packed.contains(&previous),
                None => previous.metadata().is_ok_and(|metadata| metadata.len() > 0),
            })
        };
        let current = known.unwrap_or_else(|| u32::from(is_previous || has_previous()));
        let counted = if is_previous { current.saturating_sub(1) } else { current };
        let namespace = listed.map_or(namespace, |pod| pod.namespace.clone());
        ContainerLog { namespace, pod, uid, container, restart: restart.unwrap_or(counted) }
    }

    /// Lines of one container or, with a prefix each, of several.
    fn streams(&mut self, found: &FoundFile, owner: &LogOwner) {
        if !self.reader.takes_more() {
            return;
        }
        match self.scanned(found, owner) {
            Ok(logs) => {
                for (file, scanned) in logs {
                    let of = file.container.as_ref().filter(|of| of.namespace.is_empty());
                    match of.and_then(|of| Some((self.objects.untrusted(&of.pod)?, of))) {
                        Some((namespace, of)) => {
                            self.reader.logs.does_not_count(namespace, &of.pod, &of.container);
                        }
                        None => self.reader.keep(file, scanned),
                    }
                }
            }
            Err(error) => self.reader.name(unreadable(&found.path, &error)),
        }
    }

    fn scanned(&mut self, found: &FoundFile, owner: &LogOwner) -> io::Result<streams::ScannedLogs> {
        let log = OpenLog::found(found)?;
        let (size, modified) = (log.size, log.modified);
        let container = |pod: &str, container: &str| {
            let [pod, container] = [pod, container].map(str::to_owned);
            self.container(&LogOwner { pod, container, ..owner.clone() }, found)
        };
        let mut streams = Streams::new(&self.rule_sets, modified, self.reader.room(), owner);
        let read = log.decoded(self.reader.bytes_left, &mut |bytes| streams.push(bytes))?;
        let path = found.path.clone();
        let file = LogFile { path, size, modified: Some(modified), read, ..LogFile::default() };
        let (logs, looks) = streams.end(&file, &container);
        self.looks.extend(looks);
        Ok(logs)
    }
}
