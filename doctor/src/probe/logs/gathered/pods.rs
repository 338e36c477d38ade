// SPDX-License-Identifier: Apache-2.0
//! Pods as `kubectl get pods -o yaml` (or `json`) and must-gathers print them: which node a pod is on, and how often
//! its containers were restarted.

use crate::operators::Operators;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::collections::BTreeMap;
use std::io::Read;

/// One pod, as the lists have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodFacts {
    /// The node's name.
    pub(super) node: Option<String>,
    /// Restarts, by the container's name.
    pub(super) restarts: BTreeMap<String, u32>,
}

/// More pods are no node's, and no must-gather's of the operators.
const PODS: usize = 20_000;
/// Bytes: a list of all pods of a large cluster.
const LARGEST: u64 = 256 << 20;
/// Nodes of the document's tree: a pod has some hundreds.
const NODES: usize = 100_000_000;

/// An object of the API, or a list of them.
#[derive(Deserialize)]
struct Object {
    kind: Option<String>,
    #[serde(default)]
    metadata: Lenient<PodMetadata>,
    #[serde(default)]
    spec: Lenient<PodSpec>,
    #[serde(default)]
    status: Lenient<PodStatus>,
    items: Option<Vec<Object>>,
}

#[derive(Default, Deserialize)]
struct PodMetadata {
    name: Option<String>,
    namespace: Option<String>,
}

#[derive(Default, Deserialize)]
struct PodSpec {
    #[serde(rename = "nodeName")]
    node: Option<String>,
}

#[derive(Default, Deserialize)]
struct PodStatus {
    #[serde(default, rename = "containerStatuses")]
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    name: String,
    #[serde(rename = "restartCount")]
    restarts: u32,
}

/// A part that has another form in objects of other kinds.
#[derive(Deserialize)]
#[serde(untagged, bound = "T: DeserializeOwned")]
enum Lenient<T> {
    Known(T),
    Other(IgnoredAny),
}

impl<T: Default> Lenient<T> {
    fn known(self) -> T {
        match self {
            Self::Known(known) => known,
            Self::Other(_) => T::default(),
        }
    }
}

impl<T: Default> Default for Lenient<T> {
    fn default() -> Self {
        Self::Known(T::default())
    }
}

/// Adds the operators' pods of a YAML or JSON stream to `pods`, by name. Others may have the same names.
///
/// # Errors
/// In words: it is neither, or too long. The pods of the documents before stay.
pub(super) fn read(
    pods: &mut BTreeMap<String, PodFacts>,
    text: impl Read,
    operators: &Operators,
) -> Result<(), String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: NODES,
            max_nodes: NODES,
            max_total_scalar_bytes: usize::try_from(LARGEST).unwrap_or(usize::MAX),
        },
    };
    let mut text = text.take(LARGEST);
    for object in serde_saphyr::read_with_options::<_, Object>(&mut text, options) {
        add(pods, object.map_err(|error| error.to_string())?, operators);
    }
    Ok(())
}

fn add(pods: &mut BTreeMap<String, PodFacts>, object: Object, operators: &Operators) {
    let Object { kind, metadata, spec, status, items } = object;
    for item in items.into_iter().flatten() {
        add(pods, item, operators);
    }
    let PodMetadata { name, namespace } = metadata.known();
    let is_operators = namespace.is_none_or(|namespace| operators.have(&namespace));
    let name = name.filter(|_| is_operators && kind.is_none_or(|kind| kind == "Pod"));
    let Some(name) = name.filter(|name| pods.len() < PODS || pods.contains_key(name)) else { return };
    let restarts = status.known().containers.into_iter().map(|one| (one.name, one.restarts));
    pods.insert(name, PodFacts { node: spec.known().node, restarts: restarts.collect() });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIST: &str = "\
apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata:
    labels:
      name: not-this
      nodeName: not-this
    name: nvidia-driver-daemonset-564xm
    ownerReferences:
    - apiVersion: apps/v1
      name: nvidia-driver-daemonset
  spec:
    containers:
    - name: nvidia-driver-ctr
    nodeName: gpu-1
  status:
    containerStatuses:
    - containerID: cri-o://x
      lastState:
        terminated:
          exitCode: 1
      name: nvidia-driver-ctr
      ready: false
      restartCount: 64
- apiVersion: v1
  metadata:
    name: other
  spec:
    nodeName: \"gpu-2\"
---
kind: ConfigMap
metadata: {name: no-pod}
spec: of another form
---
kind: Pod
metadata: {name: third, labels: {nodeName: gpu-1}}
spec: {nodeName: gpu-3}
";

    fn read_all(text: &str) -> Result<BTreeMap<String, PodFacts>, String> {
        let mut pods = BTreeMap::new();
        read(&mut pods, text.as_bytes(), &Operators::default()).map(|()| pods)
    }

    #[test]
    fn pods_have_nodes_and_restarts() {
        let pods = read_all(LIST).unwrap();
        let driver = &pods["nvidia-driver-daemonset-564xm"];
        assert_eq!(driver.node.as_deref(), Some("gpu-1"));
        assert_eq!(driver.restarts, BTreeMap::from([("nvidia-driver-ctr".to_owned(), 64)]));
        assert_eq!(pods["other"].node.as_deref(), Some("gpu-2"));
        assert_eq!(pods["third"].node.as_deref(), Some("gpu-3"));
        assert_eq!(pods.len(), 3);
    }

    #[test]
    fn a_pod_of_another_namespace_does_not_count() {
        let other = "---\nkind: Pod\nmetadata: {name: other, namespace: team-a}\nspec: {nodeName: gpu-9}\n";
        let pods = read_all(&format!("{LIST}{other}")).unwrap();
        assert_eq!(pods["other"].node.as_deref(), Some("gpu-2"));
    }

    #[test]
    fn lists_of_pods_are_read_as_json_too() {
        let pods = read_all(
            r#"{"kind": "PodList", "items": [{"metadata": {"name": "a"}, "spec": {"nodeName": "n"}}]}"#,
        );
        assert_eq!(pods.unwrap()["a"].node.as_deref(), Some("n"));
    }

    #[test]
    fn broken_yaml_is_an_error_and_the_pods_before_it_stay() {
        let mut pods = BTreeMap::new();
        assert!(read(&mut pods, format!("{LIST}---\n\"x").as_bytes(), &Operators::default()).is_err());
        assert_eq!(pods.len(), 3);
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nitems: [*c,*c,*c]\n";
        assert!(read(&mut pods, bomb.as_bytes(), &Operators::default()).is_err());
    }

    proptest! {
        #[test]
        fn random_lines_cause_no_panic(lines in proptest::collection::vec("[ a-zA-Z:-]{0,40}", 0..20)) {
            let _ = read_all(&lines.join("\n"));
        }
    }
}
