// SPDX-License-Identifier: Apache-2.0
//! Law 3: whoever refuses a pod (kubelet, the container runtime, a plugin, a webhook), whosever pod it is, says
//! something about the part that he names. It is a finding with those words, from kubelet's log and from what kubectl
//! prints.

use crate::expected::{Answer, text};
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

/// What refuses, in which words, and the words of it that name the part: none names no part of the stack.
type Row = (Refusal, String, &'static str);

fn rows() -> impl Iterator<Item = Row> {
    let lines = include_str!("../refusals.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let (name, rest) = line.split_once(" | ").expect("what refuses");
        let all = [Admission, Resources, Sandbox, Start, Creation];
        let refusal = all.into_iter().find(|one| format!("{one:?}") == name).expect("what refuses");
        let (why, words) = rest.split_once(" | ").unwrap_or((rest, ""));
        (refusal, why.replace("{hook}", HOOK), words)
    })
}

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

/// As kubelet logs it.
fn logged(refusal: Refusal, why: &str) -> String {
    format!("E0823 00:30:22.000000    1500 pod_workers.go:1301] {}", refusal.line(why))
}

/// What is said of a healthy node whose kubelet has logged these lines three times.
fn answer(lines: &str) -> Answer {
    let healthy = fs::read_to_string(nodes().join("healthy-both-operators/node")).expect("a node");
    let lines = [lines; 3].join("\n| ");
    let description = tempfile::NamedTempFile::new().expect("a file");
    fs::write(&description, format!("{healthy}\nlogged kubelet[1500]\n| {lines}\n")).expect("a node");
    Answer::of(&Node::described(description.path(), Variant::Faulty))
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

/// As the cluster's list of events has it.
fn listed(refusal: Refusal, why: &str) -> String {
    let (reason, message, from, kind) = refusal.event(why);
    let event = serde_json::json!({
        "kind": "Event", "apiVersion": "v1", "count": 5, "reason": reason, "message": message, "type": "Warning",
        "involvedObject": {
            "kind": kind, "namespace": "ml", "name": "train-0", "fieldPath": "spec.containers{a}",
        },
        "source": {"component": from},
    });
    let list = serde_json::json!({"kind": "List", "apiVersion": "v1", "items": [event]});
    serde_json::to_string_pretty(&list).expect("JSON")
}

fn report_of(text: &str, suffix: &str) -> Value {
    let file = tempfile::Builder::new().suffix(suffix).tempfile().expect("a file");
    fs::write(&file, text).expect("a text");
    report(file.path())
}

/// In kubelet's log, in what kubectl describes, and in the cluster's events.
fn a_refusal_is_a_finding_with_its_words_wherever_it_is_said() {
    type Report = fn(Refusal, &str) -> Value;
    let ways: [(&str, Report); 3] = [
        ("kubelet's log", |refusal, why| answer(&logged(refusal, why)).report),
        ("described", |refusal, why| report_of(&described(refusal, why, "2m (x5 over 4m)"), ".txt")),
        ("an event", |refusal, why| report_of(&listed(refusal, why), ".json")),
    ];
    let (mut count, mut silent) = (0, Vec::new());
    for (refusal, why, words) in rows().filter(|(.., words)| !words.is_empty()) {
        count += 1;
        let ways = ways.iter().filter(|(_, report)| !is_said(&report(refusal, &why), words));
        silent.extend(ways.map(|(way, _)| format!("{way}, {refusal:?}: {why}")));
    }
    assert!(count == 14 && silent.is_empty(), "{} of {}:\n{}", silent.len(), 3 * count, silent.join("\n"));
}

/// kubelet and the controllers repeat an event while it is so; only an admission is not tried again.
fn an_old_event_is_no_finding() {
    for (refusal, why, words) in
        rows().filter(|(refusal, _, words)| *refusal != Admission && !words.is_empty())
    {
        let report = report_of(&described(refusal, &why, "3h (x5 over 4h)"), ".txt");
        assert!(!is_said(&report, words), "{refusal:?}: {why}");
    }
}

/// What a user's pod is refused for by its own author's fault, or another's part.
fn a_refusal_that_names_no_part_of_the_stack_is_no_finding() {
    let others: Vec<_> = rows().filter(|(.., words)| words.is_empty()).collect();
    assert_eq!(others.len(), 9);
    let lines: Vec<_> = others.iter().map(|(refusal, why, _)| logged(*refusal, why)).collect();
    let answer = answer(&lines.join("\n| "));
    assert!(answer.is_quiet(), "{:#?}", answer.findings);
}

tests![
    a_refusal_that_names_no_part_of_the_stack_is_no_finding,
    an_old_event_is_no_finding,
    a_refusal_is_a_finding_with_its_words_wherever_it_is_said,
];
