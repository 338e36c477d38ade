// SPDX-License-Identifier: Apache-2.0
//! Law 3: whoever refuses a pod (kubelet, the container runtime, a plugin, a webhook), whosever pod it is, says
//! something about the part that he names. It is a finding with those words, from kubelet's log and from what kubectl
//! prints.

use crate::expected::text;
use crate::fixture::{Node, Variant, nodes};
use crate::support::{GATE, output, tests};
use serde_json::Value;
use std::fs;
use std::process::Command;

/// Who refuses, and so how it is logged and shown.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Refusal {
    /// kubelet's device manager.
    Admission,
    /// kubelet, for a driver of dynamic resources.
    Resources,
    /// The container runtime, or a plugin of it, for the pod.
    Sandbox,
    /// The container runtime, or a hook of it, for a container.
    Start,
    /// The API server, or a webhook.
    Creation,
}
use Refusal::{Admission, Creation, Resources, Sandbox, Start};

const HOOK: &str =
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: ";

/// A refusal, and the words of it that name the part. A CDI device, a runtime class or a hook that a pod's author may
/// have made up is none: tests/lies.txt has them.
const REFUSALS: [(Refusal, &str, &str); 14] = [
    (
        Admission,
        "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected",
        "nvidia.com/gpu",
    ),
    (
        Admission,
        "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected",
        "no healthy devices",
    ),
    (
        Admission,
        "Allocate failed due to can't allocate unregistered device rdma/hca_shared_devices_a, which is unexpected",
        "rdma/hca_shared_devices_a",
    ),
    (
        Admission,
        "Allocate failed due to device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Unknown desc = error calling nvml.Init: Unknown Error, which is unexpected",
        "nvml.Init",
    ),
    (
        Admission,
        "Allocate failed due to rpc error: code = Unavailable desc = connection error: dial unix /var/lib/kubelet/device-plugins/nvidia-gpu.sock: connect: connection refused, which is unexpected",
        "nvidia-gpu.sock",
    ),
    (
        Resources,
        "prepare dynamic resources: DRA driver compute-domain.nvidia.com is not registered",
        "compute-domain.nvidia.com",
    ),
    (
        Resources,
        "prepare dynamic resources: NodePrepareResources failed for ResourceClaim gpu-tpghv: error preparing devices for claim: gpu.nvidia.com: unable to create CDI spec",
        "unable to create CDI spec",
    ),
    (
        Sandbox,
        "rpc error: code = Unknown desc = failed to setup network for sandbox \"0a1b2c\": plugin type=\"multus\" name=\"multus-cni-network\" failed (add): [ml/train-0/6f1c:roce]: error adding container to network \"roce\": plugin type=\"ib-sriov\" failed (add): failed to move 0000:1a:00.2 into the namespace: device busy",
        "device busy",
    ),
    (
        Start,
        "{hook}could not apply required modification to OCI specification: error injecting CDI devices: unresolvable CDI devices nvidia.com/mig=7: unknown",
        "nvidia.com/mig=7",
    ),
    (
        Start,
        "{hook}could not apply required modification to OCI specification: failed to parse toolkit.pid: unknown",
        "toolkit.pid",
    ),
    (
        Start,
        "{hook}runc create failed: unable to start container process: error during container init: error running prestart hook #0: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\\nnvidia-container-cli: ldcache error: open failed: /sbin/ldconfig.real: no such file or directory: unknown",
        "ldconfig.real",
    ),
    (
        Creation,
        "admission webhook \"operator-webhook.sriovnetwork.openshift.io\" denied the request: no such pool",
        "operator-webhook.sriovnetwork.openshift.io",
    ),
    (
        Creation,
        "Internal error occurred: failed calling webhook \"network-resources-injector-config.k8s.io\": failed to call webhook: Post \"https://x.svc:443/mutate?timeout=10s\": context deadline exceeded",
        "network-resources-injector-config.k8s.io",
    ),
    (
        Creation,
        "Internal error occurred: failed calling webhook \"validate.gpu.nvidia.com\": no endpoints available for service \"gpu-webhook\"",
        "validate.gpu.nvidia.com",
    ),
];

impl Refusal {
    /// kubelet's line about the pod.
    fn line(self, why: &str) -> String {
        let pod = "pod=\"ml/train-0\"";
        match self {
            Admission => format!(
                "\"Pod admission denied\" podUID=\"0a\" {pod} reason=\"UnexpectedAdmissionError\" message={why:?}"
            ),
            Resources => format!("\"Failed to prepare dynamic resources\" err={why:?} {pod}"),
            Sandbox => format!("\"Failed to create sandbox for pod\" err={why:?} {pod}"),
            Creation => format!("\"Failed creating a mirror pod\" err={why:?} {pod}"),
            Start => {
                let inner = format!("failed to \"StartContainer\" for \"a\" with RunContainerError: {why:?}");
                format!("\"Error syncing pod, skipping\" err={inner:?} {pod} podUID=\"0a\"")
            }
        }
    }

    /// The event that kubectl shows: its reason, its message, its author, and the kind of its object.
    fn event(self, why: &str) -> (&'static str, String, &'static str, &'static str) {
        match self {
            Admission => ("UnexpectedAdmissionError", why.to_owned(), "kubelet", "Pod"),
            Resources => (
                "FailedPrepareDynamicResources",
                format!("Failed to prepare dynamic resources: {why}"),
                "kubelet",
                "Pod",
            ),
            Sandbox => {
                ("FailedCreatePodSandBox", format!("Failed to create pod sandbox: {why}"), "kubelet", "Pod")
            }
            Start => ("Failed", format!("Error: {why}"), "kubelet", "Pod"),
            Creation => ("FailedCreate", format!("Error creating: {why}"), "job-controller", "Job"),
        }
    }
}

fn report(path: &std::path::Path) -> Value {
    let answer = output(Command::new(GATE).arg("doctor").arg(path).args(["--format", "json"]).env_clear());
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    serde_json::from_str(text.lines().next().unwrap_or_default())
        .unwrap_or_else(|why| panic!("{why}: {text}"))
}

/// A finding that alarms has the words, as evidence.
fn is_said(report: &Value, words: &str) -> bool {
    let findings = report["findings"].as_array().expect("findings").iter();
    let loud = |finding: &&Value| ["critical", "warning"].contains(&text(finding, "severity"));
    findings.filter(loud).any(|finding| {
        let evidence = finding["evidence"].as_array().expect("evidence").iter();
        evidence.map(|one| text(one, "seen")).any(|seen| seen.contains(words))
    })
}

fn refusals() -> impl Iterator<Item = (Refusal, String, &'static str)> {
    REFUSALS.iter().map(|(refusal, why, words)| (*refusal, why.replace("{hook}", HOOK), *words))
}

fn none_is_silent(silent: &[String]) {
    assert!(silent.is_empty(), "{} of {}:\n{}", silent.len(), REFUSALS.len(), silent.join("\n"));
}

fn a_refusal_in_kubelets_log_is_a_finding_with_its_words() {
    let healthy = fs::read_to_string(nodes().join("healthy-both-operators/node")).expect("a node");
    let silent = refusals().filter(|(refusal, why, words)| {
        let line = format!("E0823 00:30:22.000000    1500 pod_workers.go:1301] {}", refusal.line(why));
        let lines = [line.as_str(); 3].join("\n| ");
        let description = tempfile::NamedTempFile::new().expect("a file");
        fs::write(&description, format!("{healthy}\nlogged kubelet[1500]\n| {lines}\n")).expect("a node");
        let node = Node::described(description.path(), Variant::Faulty);
        !is_said(&crate::expected::Answer::of(&node).report, words)
    });
    none_is_silent(&silent.map(|(refusal, why, _)| format!("{refusal:?}: {why}")).collect::<Vec<_>>());
}

/// As `kubectl describe` prints a pod with this event, or the Job that cannot create it.
fn described(refusal: Refusal, why: &str, age: &str) -> String {
    let (reason, message, from, _) = refusal.event(why);
    let body = match refusal {
        Creation => "Parallelism:      1\nPod Template:\n  Containers:\n   a:\n    Image:  a\n",
        _ => {
            "Node:             gpu-1/10.0.0.1\nContainers:\n  a:\n    Image:      a\n    State:          Waiting\n      \
             Reason:       ContainerCreating\n    Ready:          False\n"
        }
    };
    format!(
        "Name:             train-0\nNamespace:        ml\n{body}Events:\n  Type     Reason  Age  From  Message\n  ----     \
         ------  ----  ----  -------\n  Warning  {reason}  {age}  {from}  {message}\n"
    )
}

fn report_of(text: &str, suffix: &str) -> Value {
    let file = tempfile::Builder::new().suffix(suffix).tempfile().expect("a file");
    fs::write(&file, text).expect("a text");
    report(file.path())
}

fn a_refusal_in_what_kubectl_describes_is_a_finding_with_its_words() {
    let silent = refusals().filter(|(refusal, why, words)| {
        !is_said(&report_of(&described(*refusal, why, "2m (x5 over 4m)"), ".txt"), words)
    });
    none_is_silent(&silent.map(|(refusal, why, _)| format!("{refusal:?}: {why}")).collect::<Vec<_>>());
}

/// kubelet and the controllers repeat an event while it is so; only an admission is not tried again.
fn an_old_event_is_no_finding() {
    for (refusal, why, words) in refusals().filter(|(refusal, ..)| *refusal != Admission) {
        let report = report_of(&described(refusal, &why, "3h (x5 over 4h)"), ".txt");
        assert!(!is_said(&report, words), "{refusal:?}: {why}");
    }
}

fn a_refusal_in_the_clusters_events_is_a_finding_with_its_words() {
    let silent = refusals().filter(|(refusal, why, words)| {
        let (reason, message, from, kind) = refusal.event(why);
        let event = serde_json::json!({
            "kind": "Event", "apiVersion": "v1", "count": 5, "reason": reason, "message": message, "type": "Warning",
            "involvedObject": {
                "kind": kind, "namespace": "ml", "name": "train-0", "fieldPath": "spec.containers{a}",
            },
            "source": {"component": from},
        });
        let list = serde_json::json!({"kind": "List", "apiVersion": "v1", "items": [event]});
        !is_said(&report_of(&serde_json::to_string_pretty(&list).expect("JSON"), ".json"), words)
    });
    none_is_silent(&silent.map(|(refusal, why, _)| format!("{refusal:?}: {why}")).collect::<Vec<_>>());
}

/// What a user's pod is refused for by its own author's fault, or another's part.
fn a_refusal_that_names_no_part_of_the_stack_is_no_finding() {
    let others = [
        (
            Admission,
            "Allocate failed due to requested number of devices unavailable for smarter-devices/fuse. Requested: 1, Available: 0, which is unexpected",
        ),
        (Resources, "prepare dynamic resources: DRA driver tape.example.com is not registered"),
        (
            Sandbox,
            "rpc error: code = Unknown desc = failed to setup network for sandbox \"0a1b2c\": plugin type=\"calico\" failed (add): error getting ClusterInformation: connection is unauthorized",
        ),
        (
            Sandbox,
            "rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for \"kata\" is configured",
        ),
        (Start, "CDI device injection failed: unresolvable CDI devices vendor.example/tape=9"),
        (
            Start,
            "{hook}runc create failed: unable to start container process: exec: \"nvidia-container-cli: ldcache error: x\": not found",
        ),
        (Start, "container create failed: error executing hook `/usr/bin/oci-seccomp-hook` (exit code: 1)"),
        (Creation, "admission webhook \"policy.kyverno.svc\" denied the request: no label nvidia"),
        (
            Creation,
            "pods \"train-0\" is forbidden: violates PodSecurity \"restricted:latest\": hostPath volumes",
        ),
    ];
    let healthy = fs::read_to_string(nodes().join("healthy-both-operators/node")).expect("a node");
    let lines = others.map(|(refusal, why)| {
        let line = refusal.line(&why.replace("{hook}", HOOK));
        format!("E0823 00:30:22.000000    1500 pod_workers.go:1301] {line}")
    });
    let lines = [lines.join("\n| ").as_str(); 3].join("\n| ");
    let description = tempfile::NamedTempFile::new().expect("a file");
    fs::write(&description, format!("{healthy}\nlogged kubelet[1500]\n| {lines}\n")).expect("a node");
    let answer = crate::expected::Answer::of(&Node::described(description.path(), Variant::Faulty));
    assert!(answer.is_quiet(), "{:#?}", answer.findings);
}

tests![
    a_refusal_that_names_no_part_of_the_stack_is_no_finding,
    an_old_event_is_no_finding,
    a_refusal_in_kubelets_log_is_a_finding_with_its_words,
    a_refusal_in_what_kubectl_describes_is_a_finding_with_its_words,
    a_refusal_in_the_clusters_events_is_a_finding_with_its_words,
];
