// SPDX-License-Identifier: Apache-2.0
//! The fleet by the API server (`kubectl get nodes,pods -A -o json`, or `yaml`): nodes that should have reported and
//! did not, and driver pods that are missing or were made without the gate. Each object is dropped once it was read.

use super::CauseKey;
use super::rollup::{NO_REPORT, RootCause};
use crate::gathered::list::{ObjectDocument, ObjectTaker, documents};
use crate::gathered::objects::{array, string};
use crate::operators::Operators;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The driver's container in every pod of the GPU Operator (assets/state-driver/0500_daemonset.yaml).
const DRIVER: &str = "nvidia-driver-ctr";
/// Set by the GPU Operator on each GPU node; a person or an upgrade may set another value, which takes the pod away
/// (gpu-operator, `controllers/state_manager.go`).
const DEPLOY: [&str; 2] = ["nvidia.com/gpu.deploy.operands", "nvidia.com/gpu.deploy.driver"];
/// The value where the host has its own driver.
const PRE_INSTALLED: &str = "pre-installed";

/// A list of nodes and pods.
#[derive(Debug)]
pub struct Cluster {
    /// Nodes with a GPU, and the first label of [`DEPLOY`] that is not "true".
    gpu_nodes: BTreeMap<String, Option<(&'static str, String)>>,
    /// Nodes with a driver pod.
    driven: HashSet<String>,
    /// Nodes with a driver pod in which nothing is the gate's.
    ungated: BTreeSet<String>,
}

/// The objects of a cluster that matter here.
#[derive(Default)]
struct Items {
    gpu_nodes: BTreeMap<String, Option<(&'static str, String)>>,
    drivers: Vec<DriverPod>,
}

/// A pod with the driver's container.
struct DriverPod {
    namespace: String,
    node: String,
    is_privileged: bool,
    /// Something in it is the gate's.
    is_gated: bool,
}

impl ObjectTaker for Items {
    const UNREAD: &[&str] = &["annotations", "env", "managedFields", "status", "volumes"];

    fn take(&mut self, object: &Value, kind: &str) -> Result<(), &'static str> {
        let name = string(object, "/metadata/name").ok_or("an object without a name")?;
        let is_driver = |container: &&Value| container["name"] == DRIVER;
        match kind {
            "Node" if labels(object).any(is_gpus) => {
                let label = |name: &&'static str| labels(object).find(|(label, _)| label == name);
                let label = |name| label(name).map(|(_, value)| (*name, value.to_owned()));
                let kept_away = DEPLOY.iter().filter_map(label).find(|(_, value)| value != "true");
                self.gpu_nodes.insert(name, kept_away);
            }
            "Pod" => self.drivers.extend(array(object, "/spec/containers").find(is_driver).map(|driver| {
                let mut containers =
                    array(object, "/spec/initContainers").chain(array(object, "/spec/containers"));
                DriverPod {
                    namespace: string(object, "/metadata/namespace").unwrap_or_default(),
                    node: string(object, "/spec/nodeName").unwrap_or_default(),
                    is_privileged: driver["securityContext"]["privileged"] == true,
                    is_gated: containers.any(is_gated),
                }
            })),
            _ => {}
        }
        Ok(())
    }
}

fn labels(object: &Value) -> impl Iterator<Item = (&str, &str)> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    labels.into_iter().flatten().filter_map(|(label, value)| Some((label.as_str(), value.as_str()?)))
}

/// By the GPU Operator, or by node-feature-discovery: `pci-10de.present`, `pci-0302_10de.present`.
fn is_gpus((label, value): (&str, &str)) -> bool {
    let is_nvidias =
        label == "nvidia.com/gpu.present" || label.contains("pci-") && label.ends_with("10de.present");
    is_nvidias && value == "true"
}

/// The gate has a container, is what a container runs, or has a volume in it.
fn is_gated(container: &Value) -> bool {
    let names_gate = |value: &Value| value.as_str().is_some_and(|text| text.contains("peermem-gate"));
    let any = |key: &str, names_gate: &dyn Fn(&Value) -> bool| {
        container[key].as_array().into_iter().flatten().any(names_gate)
    };
    names_gate(&container["name"])
        || any("command", &names_gate)
        || any("args", &names_gate)
        || any("volumeMounts", &|mount| names_gate(&mount["mountPath"]))
}

impl Cluster {
    /// Reads what kubectl printed. A driver pod counts in a namespace of the operators, or if its container is
    /// privileged: a user may take the name, not the privilege.
    ///
    /// # Errors
    /// When it is no such list.
    pub fn read<'de, D: Deserializer<'de>>(list: D, operators: &Operators) -> Result<Self, D::Error> {
        let items = ObjectDocument::<Items>::deserialize(list)?.items();
        Ok(Self::of(items.ok_or_else(|| D::Error::missing_field("items"))?, operators))
    }

    /// The same, of one list or several as YAML.
    ///
    /// # Errors
    /// In words, when it is no such list.
    pub fn read_yaml(mut text: &[u8], operators: &Operators) -> Result<Self, String> {
        let mut all: Option<Items> = None;
        for list in documents::<Items>(&mut text) {
            let Some(list) = list? else { continue };
            let Items { gpu_nodes, drivers } = list.items().ok_or("missing field `items`")?;
            let known = all.get_or_insert_default();
            known.gpu_nodes.extend(gpu_nodes);
            known.drivers.extend(drivers);
        }
        Ok(Self::of(all.ok_or("it is empty")?, operators))
    }

    fn of(Items { gpu_nodes, drivers }: Items, operators: &Operators) -> Self {
        let counts = |pod: &&DriverPod| operators.have(&pod.namespace) || pod.is_privileged;
        let ungated = drivers.iter().filter(counts).filter(|pod| !pod.is_gated).map(|pod| pod.node.clone());
        let driven = drivers.iter().filter(counts).map(|pod| pod.node.clone()).collect();
        Self { ungated: ungated.collect(), driven, gpu_nodes }
    }

    /// The root causes, where `reported` says whether a node has a report.
    pub(super) fn causes(&self, reported: impl Fn(&str) -> bool) -> Vec<RootCause> {
        let Self { gpu_nodes, driven, ungated } = self;
        let silent = gpu_nodes.keys().filter(|name| !reported(name)).cloned().collect();
        let undriven = || gpu_nodes.iter().filter(|(name, _)| !driven.contains(*name));
        let mut kept_away: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
        let mut without = Vec::new();
        for (name, label) in undriven() {
            match label {
                Some((_, value)) if value == PRE_INSTALLED => {}
                Some((label, value)) => {
                    kept_away.entry((*label, value.as_str())).or_default().push(name.clone());
                }
                // Where no node has a driver pod, every driver is its host's.
                None if driven.is_empty() => {}
                None => without.push(name.clone()),
            }
        }
        let named = |name: &&String| !name.is_empty();
        let mut causes = vec![
            cause(
                NO_REPORT,
                "unknown",
                "the node has a GPU and no report",
                silent,
                &[
                    "Find out why its pod does not report: `kubectl get pods -A -o wide -l \
                        app.kubernetes.io/name=peermem-doctor \
                 --field-selector spec.nodeName=NODE`.",
                    "If the node does not answer (`kubectl get node NODE`), repair it first.",
                ],
            ),
            cause(
                "DriverPodMissing",
                "warning",
                "the node has a GPU and no driver pod",
                without,
                &["Check which DaemonSet should have placed a pod there, and its node selector: `kubectl \
                        get daemonsets -A -l \
                 app.kubernetes.io/component=nvidia-driver`; `kubectl get node NODE --show-labels`."],
            ),
            cause(
                "DriverPodWithoutGate",
                "warning",
                "the driver pod was created without the gate",
                ungated.iter().filter(named).cloned().collect(),
                &[
                    "If the gate's policy or patch is in place now, delete the pod: a new one gets the gate. \
                        `kubectl delete pod -A -l \
                 app.kubernetes.io/component=nvidia-driver --field-selector spec.nodeName=NODE`.",
                    "If new pods have no gate either, look at the policy and its binding: `kubectl get \
                 mutatingadmissionpolicies,mutatingadmissionpolicybindings`.",
                ],
            ),
        ];
        causes.extend(kept_away.into_iter().map(|((label, value), nodes)| {
            let title = format!("the label {label}={value} keeps the driver pod away");
            cause(
                "LabelKeepsDriverAway",
                "warning",
                &title,
                nodes,
                &["If nobody set it on purpose and no upgrade is running, set it to `true` again: `kubectl \
                    label node NODE \
                 LABEL=true --overwrite` with the label above."],
            )
        }));
        causes.retain(|cause| cause.count > 0);
        causes
    }
}

fn cause(id: &str, severity: &str, title: &str, nodes: Vec<String>, remedy: &[&str]) -> RootCause {
    let [id, severity, title] = [id, severity, title].map(str::to_owned);
    let remedy = remedy.iter().map(|step| (*step).to_owned()).collect();
    RootCause {
        key: CauseKey { id, severity, title, remedy, reported: Vec::new() },
        count: nodes.len(),
        nodes,
        commands: BTreeMap::new(),
    }
}
