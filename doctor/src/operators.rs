// SPDX-License-Identifier: Apache-2.0
//! Whose words count: those of pods in an operator's namespace. A pod's author chooses every name and every line in
//! it, but not its namespace. Pure.

use peermem_gate::survey::pod::{is_of_an_operator, is_shared};
use std::collections::BTreeSet;

/// The resources of pods whose errors matter here: GPUs, and RDMA devices.
const RESOURCES: [&str; 2] = ["nvidia.com/", "rdma/"];

/// The operators' namespaces on a node or in a cluster, and the pods that got devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operators {
    named: BTreeSet<String>,
    homes: BTreeSet<String>,
    with_devices: BTreeSet<String>,
}

impl Operators {
    /// The default namespaces, and these.
    pub fn named(namespaces: &[String]) -> Self {
        Self { named: namespaces.iter().cloned().collect(), ..Self::default() }
    }

    /// A privileged process of an operator lives in this namespace.
    pub fn live_in(&mut self, namespace: &str) {
        self.homes.insert(namespace.to_owned());
    }

    /// kubelet has given a device of this resource to this pod, a UID or `NAMESPACE/NAME`.
    pub fn has_device(&mut self, pod: &str, resource: &str) {
        if RESOURCES.iter().any(|one| resource.starts_with(one)) {
            self.with_devices.insert(pod.to_owned());
        }
    }

    /// Whether the words of a pod in this namespace count.
    pub fn have(&self, namespace: &str) -> bool {
        self.named.contains(namespace) || self.homes.contains(namespace) || is_of_an_operator(namespace)
    }

    /// Whether only operators' pods live in this namespace, as far as is known.
    pub fn have_alone(&self, namespace: &str) -> bool {
        self.have(namespace) && !is_shared(namespace)
    }

    /// Whether this pod asked for a GPU or an RDMA device, and got it.
    pub fn gave_devices_to(&self, pod: &str) -> bool {
        self.with_devices.contains(pod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_an_operators_only_by_its_whole_name() {
        let mut operators = Operators::named(&["platform".to_owned()]);
        for (namespace, is_one) in [
            ("gpu-operator", true),
            ("platform", true),
            ("team-gpu-operator", false),
            ("gpu-operator-team", false),
            ("default", false),
            ("", false),
        ] {
            assert_eq!(operators.have(namespace), is_one, "{namespace}");
        }
        operators.live_in("home");
        assert!(operators.have("home") && operators.have_alone("home"));
        assert!(operators.have("kube-system") && !operators.have_alone("kube-system"));
    }

    #[test]
    fn only_nvidia_and_rdma_resources_give_a_pod_devices() {
        let mut operators = Operators::default();
        operators.has_device("a", "nvidia.com/gpu");
        operators.has_device("b", "rdma/shared");
        operators.has_device("c", "devices.kubevirt.io/kvm");
        assert!(operators.gave_devices_to("a") && operators.gave_devices_to("b"));
        assert!(!operators.gave_devices_to("c"));
    }
}
