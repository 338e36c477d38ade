// SPDX-License-Identifier: Apache-2.0
//! The GPU Operator's Helm values that make the toolkit configure the runtime that kubelet uses
//! (nvidia-container-toolkit, cmd/nvidia-ctk-installer and PR 1029; cloud-native-docs).

use crate::finding::Finding;
use crate::finding::fact::{CONTAINERD, CRI_O, TOOLKIT_HAS, TOOLKIT_LACKS};
use crate::symptoms::runtime::{Distribution, Runtime};
use peermem_gate::words::remedy::CommandText;
use std::collections::BTreeMap;

/// The finding, with the runtime that kubelet uses and the toolkit's settings for it. `environment` is the
/// toolkit's, where it can be read.
pub(super) fn with_values(
    finding: Finding,
    runtime: &Runtime,
    environment: Option<&BTreeMap<String, String>>,
) -> Finding {
    let is_crio = runtime.distribution == Distribution::CriO;
    let entry = |(name, value): (&'static str, CommandText)| {
        CommandText::from("{name: ").and(name).and(", value: ").and(value).and("}")
    };
    let has = |environment: &BTreeMap<String, String>, (name, value): &(&'static str, CommandText)| {
        environment.get(*name).is_some_and(|set| *set == value.to_string())
    };
    // What cannot be seen is asked for.
    let has_all = environment.is_some_and(|set| variables(runtime).iter().all(|variable| has(set, variable)));
    let entries = CommandText::joined(variables(runtime).into_iter().map(entry), ", ");
    finding
        .with(TOOLKIT_HAS, has_all)
        .with(TOOLKIT_LACKS, !has_all)
        .with(CRI_O, is_crio)
        .with(CONTAINERD, !is_crio)
        .word("runtime", runtime.distribution.name())
        .word("toolkit-env", entries)
        .word("then-restart", restart(runtime.distribution))
}

/// The variables of `toolkit.env`; none for CRI-O, which the operator finds by itself.
fn variables(runtime: &Runtime) -> Vec<(&'static str, CommandText)> {
    let socket = ("CONTAINERD_SOCKET", CommandText::plain(&runtime.socket, "SOCKET"));
    match runtime.distribution {
        Distribution::CriO => Vec::new(),
        // They look for NVIDIA's runtime when they start, and write their own configuration.
        Distribution::K3s | Distribution::Rke2 => vec![socket],
        Distribution::K0s => vec![
            ("CONTAINERD_CONFIG", "/etc/k0s/containerd.d/nvidia.toml".into()),
            socket,
            ("RUNTIME_EXECUTABLE_PATH", "/var/lib/k0s/bin/containerd".into()),
        ],
        Distribution::MicroK8s => vec![
            ("CONTAINERD_CONFIG", "/var/snap/microk8s/current/args/containerd-template.toml".into()),
            socket,
            ("RUNTIME_CONFIG_SOURCE", "file=/var/snap/microk8s/current/args/containerd.toml".into()),
        ],
        Distribution::K8sSnap | Distribution::Containerd => {
            vec![("CONTAINERD_CONFIG", CommandText::path(&runtime.config, "FILE")), socket]
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
