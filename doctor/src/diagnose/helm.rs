// SPDX-License-Identifier: Apache-2.0
//! The GPU Operator's Helm values that make the toolkit configure the runtime that kubelet uses
//! (nvidia-container-toolkit, cmd/nvidia-ctk-installer and PR 1029; cloud-native-docs).

use crate::finding::Finding;
use crate::finding::fact::{CONTAINERD, CRI_O};
use crate::symptoms::runtime::{Distribution, Runtime};

/// The finding, with which runtime kubelet uses and what the toolkit must be told of it.
pub(super) fn with_values(finding: Finding, runtime: &Runtime) -> Finding {
    let is_crio = runtime.distribution == Distribution::CriO;
    let entries: Vec<_> =
        variables(runtime).iter().map(|(name, value)| format!("{{name: {name}, value: {value}}}")).collect();
    finding
        .with(CRI_O, is_crio)
        .with(CONTAINERD, !is_crio)
        .word("runtime", runtime.distribution.to_string())
        .word("toolkit-env", entries.join(", "))
        .word("then-restart", restart(runtime.distribution))
}

/// The variables of `toolkit.env`; none for CRI-O, which the operator finds by itself.
fn variables(runtime: &Runtime) -> Vec<(&'static str, String)> {
    let socket = ("CONTAINERD_SOCKET", runtime.socket.clone());
    match runtime.distribution {
        Distribution::CriO => Vec::new(),
        // They look for NVIDIA's runtime when they start, and write their own configuration.
        Distribution::K3s | Distribution::Rke2 => vec![socket],
        Distribution::K0s => vec![
            ("CONTAINERD_CONFIG", "/etc/k0s/containerd.d/nvidia.toml".to_owned()),
            socket,
            ("RUNTIME_EXECUTABLE_PATH", "/var/lib/k0s/bin/containerd".to_owned()),
        ],
        Distribution::MicroK8s => vec![
            ("CONTAINERD_CONFIG", "/var/snap/microk8s/current/args/containerd-template.toml".to_owned()),
            socket,
            ("RUNTIME_CONFIG_SOURCE", "file=/var/snap/microk8s/current/args/containerd.toml".to_owned()),
        ],
        Distribution::K8sSnap | Distribution::Containerd => {
            vec![("CONTAINERD_CONFIG", runtime.config.display().to_string()), socket]
        }
    }
}

fn restart(distribution: Distribution) -> &'static str {
    match distribution {
        Distribution::K3s => "; then restart k3s, which looks for NVIDIA's runtime when it starts",
        Distribution::Rke2 => "; then restart RKE2, which looks for NVIDIA's runtime when it starts",
        _ => "",
    }
}
