// SPDX-License-Identifier: Apache-2.0
//! Whose log a file is, by its path and by the pods that the bundle lists. A line of the log has no say in it.

use super::BundleFile;
use super::objects::{GatheredPod, Objects};
use crate::log::{LogSource, LogSources, RuleSet};
use crate::record::place::{self, LogPlace};
use crate::record::{prefixed, printed, stern, system_line};
use std::collections::BTreeMap;

/// A look of the gate, logged at `--log-level trace`.
pub(crate) const LOOK: &[u8] = b"look {";

/// Whose a log is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogOwner {
    /// Empty where neither the path nor a list says it.
    pub(crate) namespace: String,
    /// Empty likewise.
    pub(crate) pod: String,
    /// Empty where the log has lines of several containers, each with kubectl's prefix.
    pub(crate) container: String,
    /// Of the instance before the last, where the path says so.
    pub(crate) is_previous: bool,
    /// By the number in kubelet's own name for it.
    pub(crate) restart: Option<u32>,
    /// By kubelet's own name for the pod's directory; else empty.
    pub(crate) uid: String,
}

impl LogOwner {
    /// Pod, container and text of a line. Another's prefix in a container's own log is words of that container.
    pub(crate) fn of_line<'a>(&'a self, line: &'a [u8]) -> (&'a str, &'a str, &'a [u8]) {
        let is_of = |own: &str, named: &str| own.is_empty() || own == named;
        let named =
            of_line(line).filter(|(pod, name, _)| is_of(&self.pod, pod) && is_of(&self.container, name));
        named.unwrap_or((&self.pod, &self.container, line))
    }
}

/// `None` for a file whose name does not say that it is a container's log.
pub(crate) fn of(path: &str, objects: &Objects) -> Option<LogOwner> {
    let components: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let file = *components.last()?;
    let unknown = LogOwner::default();
    if let [.., directory, container, _] = components.as_slice()
        && let (Some((namespace, pod, uid)), Some(log)) = (place::pod(directory), place::log(file))
    {
        let [namespace, pod, uid, container] = [namespace, pod, uid, container].map(str::to_owned);
        return Some(LogOwner { namespace, pod, container, uid, restart: Some(log.restart), ..unknown });
    }
    if let Some(LogPlace { namespace, pod, container, is_previous }) = place::gathered(&components) {
        let [namespace, pod, container] = [namespace, pod, container].map(str::to_owned);
        return Some(LogOwner { namespace, pod, container, is_previous, ..unknown });
    }
    if !is_log(file) {
        return None;
    }
    let is_previous = file.contains("previous");
    if let Some(pod) = named(&components, objects) {
        let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
        let container = container_of(file, pod).unwrap_or_default();
        return Some(LogOwner { namespace, pod: name, container, is_previous, ..unknown });
    }
    let container = known_in(file)?.to_owned();
    let near = &components[components.len().saturating_sub(2)..];
    let is_in = |pod: &str| near.iter().any(|part| part.contains(pod));
    if let Some((namespace, pod)) = objects.untrusted.iter().find(|(_, pod)| is_in(pod)).cloned() {
        return Some(LogOwner { namespace, pod, container, is_previous, ..unknown });
    }
    Some(LogOwner { container, is_previous, ..unknown })
}

/// By its name; or by kubectl's prefix, where its lines have one.
pub(crate) fn of_file(file: &BundleFile, objects: &Objects) -> Option<LogOwner> {
    of(&file.path, objects).or_else(|| {
        let first = file.bytes.split(|byte| *byte == b'\n').find(|line| !line.is_empty())?;
        of_line(first).map(|_| LogOwner::default())
    })
}

/// Who wrote a log, by its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// Several containers, whose lines have kubectl's or stern's prefix.
    Prefixed,
    /// This container.
    One(&'static str),
    /// One of several.
    Several,
    /// Programs of the node.
    System,
    /// Nobody who is known.
    Nobody,
}

/// Counts over lines: a log is known by its content, whatever its name is.
#[derive(Debug, Default)]
pub(crate) struct Content {
    is_prefixed: bool,
    is_systems: bool,
    has_looks: bool,
    /// Lines that a container of this name may have written.
    votes: BTreeMap<&'static str, u64>,
}

impl Content {
    pub(crate) fn line(&mut self, line: &[u8], rules: &BTreeMap<&'static str, RuleSet>) {
        if of_line(line).is_some() {
            self.is_prefixed = true;
            return;
        }
        let text = printed(line).text;
        self.has_looks |= memchr::memmem::find(&text, LOOK).is_some();
        self.is_systems |= is_systems(line);
        for (container, _) in rules.iter().filter(|(_, rules)| rules.fit(&text).is_some()) {
            *self.votes.entry(container).or_default() += 1;
        }
    }

    /// The container of which the log has the most lines; where several may have written them, the one with the
    /// fewest programs.
    pub(crate) fn writer(&self, rules: &BTreeMap<&'static str, RuleSet>) -> Writer {
        let sources = |name: &&str| rules[name].sources();
        let most = self.votes.values().max();
        let first = self.votes.iter().filter(|(_, votes)| Some(*votes) == most).map(|(name, _)| *name);
        let first: Vec<_> = first.collect();
        let fewest = first.iter().map(|name| sources(name).count()).min();
        let fewest: Vec<_> = first.iter().filter(|name| Some(sources(name).count()) == fewest).collect();
        match fewest.as_slice() {
            _ if self.is_prefixed => Writer::Prefixed,
            [one, others @ ..] if others.iter().all(|name| sources(name) == sources(one)) => Writer::One(one),
            [_, ..] => Writer::Several,
            [] if self.has_looks => Writer::One("peermem-gate"),
            [] if self.is_systems => Writer::System,
            [] => Writer::Nobody,
        }
    }
}

/// A log that its content shows to be a container's.
pub(crate) fn by_content(file: &BundleFile, rules: &BTreeMap<&'static str, RuleSet>) -> Option<LogOwner> {
    const LINES: usize = 5000;
    let mut content = Content::default();
    file.bytes.split(|byte| *byte == b'\n').take(LINES).for_each(|line| content.line(line, rules));
    match content.writer(rules) {
        Writer::One(container) => Some(LogOwner { container: container.to_owned(), ..LogOwner::default() }),
        _ => None,
    }
}

/// The rules of each container of which lines are known.
pub(crate) fn rules_by_container() -> BTreeMap<&'static str, RuleSet> {
    let names = LogSource::ALL.iter().flat_map(|source| source.containers()).copied();
    names.map(|name| (name, RuleSet::of(LogSources::in_container(name)))).collect()
}

/// The line is of a program of the node that is known.
pub(crate) fn is_systems(line: &[u8]) -> bool {
    let known = |program: &[u8]| program == b"systemd" || LogSource::identified(program).is_some();
    system_line(line).is_some_and(|line| known(line.program))
}

/// Pod, container and text of a line with kubectl's prefix, or with stern's before a container that is known.
pub(crate) fn of_line(line: &[u8]) -> Option<(&str, &str, &[u8])> {
    prefixed(line).or_else(|| stern(line).filter(|(_, name, _)| !LogSources::in_container(name).is_empty()))
}

fn is_log(file: &str) -> bool {
    const NOT: [&str; 9] =
        [".yaml", ".yml", ".json", ".descr", ".describe", ".status", ".html", ".list", ".labels"];
    !NOT.iter().any(|end| file.ends_with(end))
}

/// The listed pod with the longest name that the file's name, or its directory's, has.
fn named<'a>(components: &[&str], objects: &'a Objects) -> Option<&'a GatheredPod> {
    let near = &components[components.len().saturating_sub(2)..];
    let has = |pod: &&GatheredPod| near.iter().any(|part| part.contains(pod.name.as_str()));
    objects.pods.iter().filter(has).max_by_key(|pod| pod.name.len())
}

/// The container of the pod that the rest of the name has; of a pod of one container, that one.
fn container_of(file: &str, pod: &GatheredPod) -> Option<String> {
    let rest = file.replacen(pod.name.as_str(), "", 1);
    let named = pod.containers.iter().filter(|one| rest.contains(one.name.as_str()));
    let named = named.max_by_key(|one| one.name.len());
    let alone = if let [one] = pod.containers.as_slice() { Some(one) } else { None };
    named.or(alone).map(|one| one.name.clone())
}

/// The longest known container's name in a file's name.
fn known_in(file: &str) -> Option<&'static str> {
    let names = LogSource::ALL.iter().flat_map(|source| source.containers()).copied();
    names.filter(|name| file.contains(name)).max_by_key(|name| name.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gathered::objects::GatheredContainer;

    fn objects() -> Objects {
        let container =
            |name: &str| GatheredContainer { name: name.to_owned(), ..GatheredContainer::default() };
        let pod = |namespace: &str, name: &str, containers: &[&str]| GatheredPod {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            containers: containers.iter().map(|name| container(name)).collect(),
            ..GatheredPod::default()
        };
        let driver = ["k8s-driver-manager", "nvidia-driver-ctr", "nvidia-peermem-ctr"];
        Objects {
            pods: vec![
                pod("gpu-operator", "nvidia-driver-daemonset-x7k2p", &driver),
                pod("nvidia-network-operator", "mofed-ubuntu22.04-ds-k2x8q", &["mofed-container"]),
            ],
            ..Objects::default()
        }
    }

    #[test]
    fn a_path_names_pod_and_container_as_each_gatherer_writes_it() {
        let uid = "6f1f2c1e-8f2b-4c5e-9d0a-0a1b2c3d4e5f";
        let driver = "nvidia-driver-daemonset-x7k2p";
        for (path, namespace, container, is_previous) in [
            (format!("mg/gpu_operand_pod_{driver}.log"), "gpu-operator", "", false),
            (format!("mg/gpu_operand_pod_{driver}.previous.log"), "gpu-operator", "", true),
            (
                "sos/operator/components/ofed-driver/pods/mofed-ubuntu22.04-ds-k2x8q-mofed-container-previous.log"
                    .to_owned(),
                "nvidia-network-operator",
                "mofed-container",
                true,
            ),
            (format!("logs/{driver}/nvidia-driver-ctr.txt"), "gpu-operator", "nvidia-driver-ctr", false),
            (format!("var/log/pods/a_b_{uid}/nvidia-driver-ctr/3.log"), "a", "nvidia-driver-ctr", false),
            (
                "mg/namespaces/a/pods/b/nvidia-driver-ctr/nvidia-driver-ctr/logs/previous.log".to_owned(),
                "a",
                "nvidia-driver-ctr",
                true,
            ),
            ("nvidia-driver-ctr.log".to_owned(), "", "nvidia-driver-ctr", false),
        ] {
            let owner = of(&path, &objects()).unwrap_or_else(|| panic!("{path}"));
            let seen = (owner.namespace.as_str(), owner.container.as_str(), owner.is_previous);
            assert_eq!(seen, (namespace, container, is_previous), "{path}");
        }
        for other in words! {
            "" "notes.txt" "gpu_operand_pods.yaml" "mg/gpu_operand_pod_nvidia-driver-daemonset-x7k2p.descr"
        } {
            assert_eq!(of(other, &objects()), None, "{other}");
        }
    }
}
