// SPDX-License-Identifier: Apache-2.0
//! What the GPU Operator's Helm values must say for the toolkit to configure the runtime that
//! kubelet uses (nvidia-container-toolkit, cmd/nvidia-ctk-installer and PR 1029; cloud-native-docs).

use crate::symptoms::runtime::{Distribution, Runtime};

/// A step of a remedy.
pub(super) fn values(runtime: &Runtime) -> String {
    let config = runtime.config.display().to_string();
    let socket = runtime.socket.as_str();
    let pairs: Vec<(&str, String)> = match runtime.distribution {
        Distribution::CriO => {
            return "For CRI-O the GPU Operator finds the runtime by itself; without it: `toolkit.env` with \
                `RUNTIME=crio`."
                .to_owned();
        }
        // They look for NVIDIA's runtime when they start, and write their own configuration.
        Distribution::K3s | Distribution::Rke2 => vec![("CONTAINERD_SOCKET", socket.to_owned())],
        Distribution::K0s => vec![
            ("CONTAINERD_CONFIG", "/etc/k0s/containerd.d/nvidia.toml".to_owned()),
            ("CONTAINERD_SOCKET", socket.to_owned()),
            ("RUNTIME_EXECUTABLE_PATH", "/var/lib/k0s/bin/containerd".to_owned()),
        ],
        Distribution::MicroK8s => vec![
            ("CONTAINERD_CONFIG", "/var/snap/microk8s/current/args/containerd-template.toml".to_owned()),
            ("CONTAINERD_SOCKET", socket.to_owned()),
            ("RUNTIME_CONFIG_SOURCE", "file=/var/snap/microk8s/current/args/containerd.toml".to_owned()),
        ],
        Distribution::K8sSnap | Distribution::Containerd => {
            vec![("CONTAINERD_CONFIG", config), ("CONTAINERD_SOCKET", socket.to_owned())]
        }
    };
    let entries: Vec<_> =
        pairs.iter().map(|(name, value)| format!("{{name: {name}, value: {value}}}")).collect();
    let restart = match runtime.distribution {
        Distribution::K3s => "; then restart k3s, which looks for NVIDIA's runtime when it starts",
        Distribution::Rke2 => "; then restart RKE2, which looks for NVIDIA's runtime when it starts",
        _ => "",
    };
    format!(
        "Set the GPU Operator's Helm values for {}: `toolkit.env: [{}]`{restart}.",
        runtime.distribution,
        entries.join(", ")
    )
}
