// SPDX-License-Identifier: Apache-2.0
//! Pods as `kubectl get pods -o yaml` and must-gathers print them: which node a pod is on, and how often its
//! containers were restarted. Line by line: such a list may be long, and nothing else of it matters.

use std::collections::BTreeMap;

/// What is known of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// The node's name.
    pub node: Option<String>,
    /// Restarts, by the container's name.
    pub restarts: BTreeMap<String, u32>,
}

/// Reads pods out of YAML, a line at a time.
#[derive(Debug, Default)]
pub struct PodList {
    pods: BTreeMap<String, PodFacts>,
    /// Where `metadata:` stands, and the pod that it belongs to.
    metadata: Option<usize>,
    pod: Option<String>,
    /// The last `name:`, and where it stands.
    name: Option<(usize, String)>,
}

/// More pods are no node's, and no must-gather's of the operators.
const PODS: usize = 20_000;

impl PodList {
    /// One line.
    pub fn line(&mut self, line: &[u8]) {
        let Ok(line) = std::str::from_utf8(line) else { return };
        let trimmed = line.trim_start_matches([' ', '-']);
        let indent = line.len() - trimmed.len();
        let Some((key, value)) = trimmed.trim_end().split_once(':') else { return };
        let value = value.trim().trim_matches(['"', '\'']);
        if self.metadata.is_some_and(|metadata| indent <= metadata) {
            self.metadata = None;
        }
        match key {
            "metadata" if value.is_empty() => self.metadata = Some(indent),
            "name" if self.metadata == Some(indent.wrapping_sub(2)) => self.pod = Some(value.to_owned()),
            "name" => self.name = Some((indent, value.to_owned())),
            "nodeName" => {
                if let Some(pod) = self.pod() {
                    pod.node = Some(value.to_owned());
                }
            }
            "restartCount" => {
                let name = self.name.take().filter(|(at, _)| *at == indent);
                if let (Some((_, container)), Ok(count)) = (name, value.parse()) {
                    self.pod().map(|pod| pod.restarts.insert(container, count));
                }
            }
            _ => {}
        }
    }

    fn pod(&mut self) -> Option<&mut PodFacts> {
        let pod = self.pod.clone()?;
        (self.pods.len() < PODS || self.pods.contains_key(&pod)).then(|| self.pods.entry(pod).or_default())
    }

    /// All of them, by name.
    #[must_use]
    pub fn end(self) -> BTreeMap<String, PodFacts> {
        self.pods
    }
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
";

    #[test]
    fn pods_have_nodes_and_restarts() {
        let mut list = PodList::default();
        LIST.lines().for_each(|line| list.line(line.as_bytes()));
        let pods = list.end();
        let driver = &pods["nvidia-driver-daemonset-564xm"];
        assert_eq!(driver.node.as_deref(), Some("gpu-1"));
        assert_eq!(driver.restarts, BTreeMap::from([("nvidia-driver-ctr".to_owned(), 64)]));
        assert_eq!(pods["other"].node.as_deref(), Some("gpu-2"));
        assert_eq!(pods.len(), 2);
    }

    proptest! {
        #[test]
        fn no_line_is_too_odd(lines in proptest::collection::vec("[ a-zA-Z:-]{0,40}", 0..20)) {
            let mut list = PodList::default();
            for line in &lines {
                list.line(line.as_bytes());
            }
            let _ = list.end();
        }
    }
}
