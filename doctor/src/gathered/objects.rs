// SPDX-License-Identifier: Apache-2.0
//! Objects of the API as `kubectl get -o yaml` or `-o json` and must-gathers print them: pods, nodes, events.
//!
//! Other programs write these files, so no shape is relied on: what is not where it should be is unknown.

use super::BundleFile;
use super::list::{ObjectTaker, documents};
use crate::stamp::{SECOND, rfc3339};
use crate::symptoms::PciFunction;
use crate::symptoms::offer::gpus;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// All that a bundle contains about the cluster.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) pods: Vec<GatheredPod>,
    pub(crate) nodes: Vec<GatheredNode>,
    pub(crate) events: Vec<GatheredEvent>,
    /// The Mellanox functions of a node, by the SR-IOV operator's state of it.
    pub(crate) functions: BTreeMap<String, Vec<PciFunction>>,
    /// Pods that are no operator's: namespace and name.
    pub(crate) untrusted: Vec<(String, String)>,
    /// Files that are not in their form, and why.
    pub(crate) unreadable: Vec<(String, String)>,
    /// Where a pod is among all that were read, by namespace and name.
    pub(crate) places: BTreeMap<(String, String), usize>,
}

/// A pod, with the state of its containers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GatheredPod {
    /// The file that describes it.
    pub(crate) file: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) node: Option<String>,
    pub(crate) containers: Vec<GatheredContainer>,
    /// The extended resources that it asks for.
    pub(crate) resources: BTreeSet<String>,
    /// When kubelet took it in, in seconds since 1970.
    pub(crate) since: Option<i64>,
    /// kubelet's reason and message, where kubelet has refused the pod.
    pub(crate) refused: Option<(String, String)>,
}

/// A container of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GatheredContainer {
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) is_privileged: bool,
    /// Its variables that are set to a value; `None` where the file does not list them.
    pub(crate) environment: Option<BTreeMap<String, String>>,
    pub(crate) state: ContainerState,
    pub(crate) is_ready: bool,
    /// Its startup probe has succeeded, or it has none.
    pub(crate) has_started: bool,
    pub(crate) restarts: Option<u32>,
    /// Why the runtime could not start its last instance.
    pub(crate) not_started: Option<String>,
}

/// The state of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum ContainerState {
    #[default]
    Unknown,
    /// With kubelet's reason, and its message.
    Waiting(String, String),
    /// Since then, in seconds since 1970.
    Running(Option<i64>),
    /// With its exit code.
    Terminated(i64),
}

/// A node, as the cluster knows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GatheredNode {
    pub(crate) file: String,
    pub(crate) name: String,
    pub(crate) kernel: Option<String>,
    pub(crate) arch: Option<String>,
    pub(crate) boot_id: Option<String>,
    pub(crate) image: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    /// GPUs, whole or in parts, that kubelet counts, and those that it offers; `None` where no plugin has registered.
    pub(crate) offered: Option<(u64, u64)>,
}

/// kubelet's word about a pod, or a controller's about one that it cannot create, as an event.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GatheredEvent {
    pub(crate) file: String,
    pub(crate) namespace: String,
    pub(crate) pod: String,
    /// The container, where the event names it.
    pub(crate) container: Option<String>,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// In seconds since 1970.
    pub(crate) last: Option<i64>,
    /// The same in seconds before the file was written.
    pub(crate) ago: Option<i64>,
    /// How often, by the file.
    pub(crate) count: u64,
    /// The pod's node; `None` where nothing names it.
    pub(crate) node: Option<String>,
    /// The pod still waits for what the event is about.
    pub(crate) is_current: bool,
}

/// Labels of Node Feature Discovery and of the GPU Operator for NVIDIA's devices and Mellanox's.
pub(crate) const GPU_LABELS: [&str; 4] = words! {
    "nvidia.com/gpu.present" "feature.node.kubernetes.io/pci-10de.present"
    "feature.node.kubernetes.io/pci-0302_10de.present" "feature.node.kubernetes.io/pci-0300_10de.present"
};
pub(crate) const NIC_LABELS: [&str; 4] = words! {
    "feature.node.kubernetes.io/pci-15b3.present" "feature.node.kubernetes.io/pci-0200_15b3.present"
    "feature.node.kubernetes.io/pci-0207_15b3.present" "feature.node.kubernetes.io/pci-02_15b3.present"
};

/// kubelet's reason where a device plugin fails at a pod's admission.
pub(crate) const REFUSAL: &str = "UnexpectedAdmissionError";
/// A controller's reason where the API server does not take a pod.
pub(crate) const NOT_CREATED: &str = "FailedCreate";

/// Pods, nodes and events of a file, and about in all.
const MOST: usize = 100_000;

impl GatheredContainer {
    /// It has not come through.
    fn is_waiting(&self) -> bool {
        match &self.state {
            ContainerState::Waiting(..) => true,
            ContainerState::Terminated(code) => *code != 0,
            ContainerState::Running(_) | ContainerState::Unknown => false,
        }
    }
}

impl GatheredNode {
    /// Somebody found a GPU or a Mellanox NIC in it.
    pub(crate) fn has_devices(&self) -> bool {
        self.is_labeled(&GPU_LABELS) || self.is_labeled(&NIC_LABELS)
    }

    pub(crate) fn is_labeled(&self, labels: &[&str]) -> bool {
        labels.iter().any(|label| self.labels.get(*label).is_some_and(|value| value == "true"))
    }
}

impl ObjectTaker for Objects {
    const UNREAD: &[&str] = &["managedFields"];

    fn take(&mut self, object: &Value, kind: &str) -> Result<(), &'static str> {
        if self.is_full() {
            return Ok(());
        }
        let is_pod = kind == "Pod" || kind.is_empty() && object.pointer("/spec/nodeName").is_some();
        match kind {
            _ if is_pod => self.keep(pod(object).unwrap_or_default()),
            "Node" => self.nodes.extend(node(object)),
            "Event" => self.events.extend(event(object)),
            "SriovNetworkNodeState" => {
                let name = string(object, "/metadata/name").unwrap_or_default();
                self.functions.extend(functions(object).map(|functions| (name, functions)));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Objects {
    /// Sets the pods aside that are no operator's, after they have said where their events belong.
    pub(crate) fn drop_untrusted(&mut self, is_operators: impl Fn(&GatheredPod) -> bool) {
        for event in &mut self.events {
            let place = self.places.get(&(event.namespace.clone(), event.pod.clone()));
            let Some(pod) = place.and_then(|place| self.pods.get(*place)) else { continue };
            let waiting = pod.containers.iter().find(|container| container.is_waiting());
            event.node = event.node.take().or_else(|| pod.node.clone());
            event.is_current |= waiting.is_some();
            event.container = event.container.take().or_else(|| waiting.map(|one| one.name.clone()));
        }
        let (ours, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.pods).into_iter().partition(is_operators);
        self.pods = ours;
        self.untrusted = others.into_iter().map(|pod| (pod.namespace, pod.name)).collect();
    }

    /// The operators' pod of this name; the namespace may be empty, which is any.
    pub(crate) fn pod(&self, namespace: &str, name: &str) -> Option<&GatheredPod> {
        self.pods.iter().find(|pod| pod.name == name && (namespace.is_empty() || pod.namespace == namespace))
    }

    /// The namespace of a user's pod, which may have the name of an operators' pod: then it does not count here.
    pub(crate) fn untrusted(&self, pod: &str) -> Option<&str> {
        let mut untrusted = self.untrusted.iter().filter(|(_, name)| name == pod);
        untrusted.next().filter(|_| self.pod("", pod).is_none()).map(|(namespace, _)| namespace.as_str())
    }

    /// Whether the file is one of objects.
    pub(crate) fn read(&mut self, file: &BundleFile) -> bool {
        if !has_objects(&file.bytes) {
            return false;
        }
        let mut text = file.bytes.as_slice();
        for document in documents(&mut text) {
            match document {
                Ok(Some(document)) => self.add(document.objects(), &file.path),
                Ok(None) => {}
                Err(why) => {
                    self.unreadable.push((file.path.clone(), why));
                    break;
                }
            }
        }
        true
    }

    fn is_full(&self) -> bool {
        self.pods.len() + self.nodes.len() + self.events.len() >= MOST
    }

    /// Adds the objects of this file.
    fn add(&mut self, found: Self, file: &str) {
        if self.is_full() {
            return;
        }
        let Self { pods, nodes, events, functions, .. } = found;
        let file = || file.to_owned();
        for pod in pods {
            self.keep(GatheredPod { file: file(), ..pod });
        }
        self.nodes.extend(nodes.into_iter().map(|node| GatheredNode { file: file(), ..node }));
        self.events.extend(events.into_iter().map(|event| GatheredEvent { file: file(), ..event }));
        self.functions.extend(functions);
    }

    /// The same pod may be in several files: the one with more of it stays.
    pub(crate) fn keep(&mut self, pod: GatheredPod) {
        if pod.name.is_empty() {
            return;
        }
        // kubelet's word, whoever's pod it is.
        if let Some((reason, message)) = pod.refused.clone().filter(|(reason, _)| reason == REFUSAL) {
            self.events.push(GatheredEvent {
                file: pod.file.clone(),
                namespace: pod.namespace.clone(),
                pod: pod.name.clone(),
                reason,
                message,
                last: pod.since,
                count: 1,
                ..GatheredEvent::default()
            });
        }
        let place = *self.places.entry((pod.namespace.clone(), pod.name.clone())).or_insert(self.pods.len());
        match self.pods.get_mut(place) {
            Some(known) if known.containers.len() >= pod.containers.len() => {}
            Some(known) => *known = pod,
            None => self.pods.push(pod),
        }
    }
}

/// Kinds that matter, in YAML or JSON. A must-gather has thousands of other files.
pub(crate) fn has_objects(bytes: &[u8]) -> bool {
    const FORMS: [&[u8]; 3] = [b"kind: ", b"\"kind\": \"", b"\"kind\":\""];
    const KINDS: [&[u8]; 5] = [b"Pod", b"Node", b"Event", b"List", b"SriovNetworkNodeState"];
    let is_text = matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'a'..=b'z' | b'-'));
    let has = |form: &&[u8]| {
        let mut found = memchr::memmem::find_iter(bytes, form).take(1000);
        found.any(|at| KINDS.iter().any(|kind| bytes[at + form.len()..].starts_with(kind)))
    };
    is_text && FORMS.iter().any(has)
}

pub(crate) fn string(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer)?.as_str().map(str::to_owned)
}

pub(crate) fn array<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// Seconds since 1970.
pub(crate) fn time(text: &str) -> Option<i64> {
    rfc3339(text.as_bytes()).map(|(stamp, _)| stamp.ns / SECOND)
}

fn pod(object: &Value) -> Option<GatheredPod> {
    let name = string(object, "/metadata/name")?;
    let namespace = string(object, "/metadata/namespace").unwrap_or_default();
    let specs = array(object, "/spec/initContainers").chain(array(object, "/spec/containers"));
    let statuses: BTreeMap<&str, &Value> = array(object, "/status/initContainerStatuses")
        .chain(array(object, "/status/containerStatuses"))
        .filter_map(|status| Some((status.get("name")?.as_str()?, status)))
        .collect();
    let (mut containers, mut resources) = (Vec::new(), BTreeSet::new());
    for spec in specs {
        let asked = spec.pointer("/resources/limits").and_then(Value::as_object);
        resources.extend(asked.into_iter().flatten().map(|(name, _)| name.clone()));
        containers.extend(container(spec, &statuses));
    }
    let uid = string(object, "/metadata/uid").unwrap_or_else(|| format!("{namespace}/{name}"));
    let node = string(object, "/spec/nodeName");
    let refused = string(object, "/status/reason").zip(string(object, "/status/message"));
    let since = string(object, "/status/startTime").and_then(|at| time(&at));
    let pod = GatheredPod { namespace, name, uid, node, since, ..GatheredPod::default() };
    Some(GatheredPod { containers, resources, refused, ..pod })
}

fn container(spec: &Value, statuses: &BTreeMap<&str, &Value>) -> Option<GatheredContainer> {
    let name = string(spec, "/name")?;
    let status = statuses.get(name.as_str()).copied().unwrap_or(&Value::Null);
    let variable = |entry: &Value| Some((string(entry, "/name")?, string(entry, "/value")?));
    let is_true = |pointer: &str| status.pointer(pointer).and_then(Value::as_bool) == Some(true);
    let restarts = status.get("restartCount").and_then(Value::as_u64);
    // With another reason, the message is the container's own.
    let is_runtimes = |pointer: &str| {
        string(status, pointer).is_some_and(|reason| reason == "StartError" || reason == "ContainerCannotRun")
    };
    let ends = ["/state/terminated", "/lastState/terminated"];
    let mut ends = ends.into_iter().filter(|end| is_runtimes(&format!("{end}/reason")));
    Some(GatheredContainer {
        image: string(spec, "/image").unwrap_or_default(),
        is_privileged: spec.pointer("/securityContext/privileged").and_then(Value::as_bool) == Some(true),
        environment: Some(array(spec, "/env").filter_map(variable).collect()),
        state: state(status),
        is_ready: is_true("/ready"),
        has_started: is_true("/started"),
        restarts: restarts.and_then(|count| count.try_into().ok()),
        not_started: ends.find_map(|end| string(status, &format!("{end}/message"))),
        name,
    })
}

fn state(status: &Value) -> ContainerState {
    let Some(state) = status.get("state") else { return ContainerState::Unknown };
    let text = |pointer: &str| string(state, pointer).unwrap_or_default();
    if state.get("waiting").is_some() {
        return ContainerState::Waiting(text("/waiting/reason"), text("/waiting/message"));
    }
    if state.get("running").is_some() {
        return ContainerState::Running(time(&text("/running/startedAt")));
    }
    match state.pointer("/terminated/exitCode").and_then(Value::as_i64) {
        Some(code) => ContainerState::Terminated(code),
        None => ContainerState::Unknown,
    }
}

fn node(object: &Value) -> Option<GatheredNode> {
    let info = |name: &str| string(object, &format!("/status/nodeInfo/{name}"));
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let label = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    let count = |key: &str| {
        let of_node = object.pointer(key)?.as_object()?.iter();
        gpus(of_node.filter_map(|(name, count)| Some((name.as_str(), count.as_str()?))))
    };
    Some(GatheredNode {
        offered: count("/status/capacity").zip(count("/status/allocatable")),
        file: String::new(),
        name: string(object, "/metadata/name")?,
        kernel: info("kernelVersion"),
        arch: info("architecture"),
        boot_id: info("bootID"),
        image: info("osImage"),
        labels: labels.into_iter().flatten().filter_map(label).collect(),
    })
}

/// The operator's daemon lists each interface of the node, with its virtual functions.
fn functions(object: &Value) -> Option<Vec<PciFunction>> {
    object.pointer("/status/interfaces")?;
    let one = |entry: &Value, is_virtual: bool| {
        Some(PciFunction {
            address: string(entry, "/pciAddress")?,
            class: Some(0x02_0000),
            device: string(entry, "/deviceID").and_then(|id| u16::from_str_radix(&id, 16).ok()),
            driver: string(entry, "/driver"),
            is_virtual,
            ..PciFunction::default()
        })
    };
    let interfaces = array(object, "/status/interfaces");
    let interfaces =
        interfaces.filter(|entry| string(entry, "/vendor").is_some_and(|vendor| vendor == "15b3"));
    let all = interfaces.flat_map(|entry| {
        one(entry, false).into_iter().chain(array(entry, "/Vfs").filter_map(|vf| one(vf, true)))
    });
    Some(all.collect())
}

fn event(object: &Value) -> Option<GatheredEvent> {
    let is_pods = string(object, "/involvedObject/kind").is_some_and(|kind| kind == "Pod");
    let text = |pointer: &str| string(object, pointer).unwrap_or_default();
    let is_kubelets =
        [text("/source/component"), text("/reportingComponent")].iter().any(|who| who == "kubelet");
    let at = [text("/lastTimestamp"), text("/series/lastObservedTime"), text("/eventTime")];
    (is_pods && is_kubelets || text("/reason") == NOT_CREATED).then(|| GatheredEvent {
        file: String::new(),
        namespace: text("/involvedObject/namespace"),
        pod: text("/involvedObject/name"),
        // `spec.containers{NAME}`
        container: text("/involvedObject/fieldPath").split(['{', '}']).nth(1).map(str::to_owned),
        reason: text("/reason"),
        message: text("/message"),
        last: at.iter().find_map(|at| time(at)),
        ago: None,
        count: ["/count", "/series/count"].iter().find_map(|at| object.pointer(at)?.as_u64()).unwrap_or(1),
        node: string(object, "/source/host"),
        is_current: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata:
    labels:
      nodeName: not-this
    name: nvidia-driver-daemonset-564xm
  spec:
    containers:
    - name: nvidia-driver-ctr
    nodeName: gpu-1
  status:
    containerStatuses:
    - name: nvidia-driver-ctr
      restartCount: 64
- metadata:
    name: other
  spec:
    nodeName: \"gpu-2\"
kind: PodList
---
kind: ConfigMap
metadata: {name: no-pod}
spec: of another form
---
kind: List
items:
- kind: NodeList
  items:
  - metadata: {name: gpu-3}
- {kind: Pod, metadata: {name: third, labels: {nodeName: gpu-1}}, spec: {nodeName: gpu-3}}
";

    fn read_all(text: &str) -> Objects {
        let mut objects = Objects::default();
        objects.read(&BundleFile { path: "a file".to_owned(), bytes: text.into(), modified: None });
        objects
    }

    fn nodes_of_pods(objects: &Objects) -> Vec<(&str, Option<&str>)> {
        objects.pods.iter().map(|pod| (pod.name.as_str(), pod.node.as_deref())).collect()
    }

    #[test]
    fn lists_of_any_kind_have_pods_and_nodes() {
        let objects = read_all(LIST);
        let [first, others @ ..] = nodes_of_pods(&objects).try_into().unwrap_or([("", None); 3]);
        assert_eq!(first, ("nvidia-driver-daemonset-564xm", Some("gpu-1")));
        assert_eq!(others, [("other", Some("gpu-2")), ("third", Some("gpu-3"))]);
        assert_eq!(objects.pods[0].containers[0].restarts, Some(64));
        assert_eq!(objects.nodes.iter().map(|node| &*node.name).collect::<Vec<_>>(), ["gpu-3"]);
        assert!(objects.pods.iter().all(|pod| pod.file == "a file") && objects.unreadable.is_empty());
        let json =
            r#"{"kind": "PodList", "items": [{"metadata": {"name": "a"}, "spec": {"nodeName": "n"}}]}"#;
        assert_eq!(nodes_of_pods(&read_all(json)), [("a", Some("n"))]);
    }

    #[test]
    fn a_users_pod_with_the_name_of_an_operators_is_no_stranger() {
        let mut objects = read_all(LIST);
        objects.drop_untrusted(|pod| pod.name != "other");
        assert_eq!((objects.untrusted("other"), objects.untrusted("third")), (Some(""), None));
        objects.untrusted.push(("team-a".to_owned(), "third".to_owned()));
        assert_eq!(objects.untrusted("third"), None);
    }

    #[test]
    fn a_broken_list_is_named_and_the_pods_before_it_stay() {
        let objects = read_all(&format!("{LIST}---\n\"x"));
        assert_eq!((objects.pods.len(), objects.unreadable.len()), (3, 1));
        let bomb = "kind: Pod\na: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n\
            c: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nitems: [*c,*c,*c]\n";
        assert_eq!(read_all(bomb).unreadable.len(), 1);
    }
}
