// SPDX-License-Identifier: Apache-2.0
//! kubelet's words about a container, which the API repeats in the container's state and in events: as the lines
//! that kubelet logs, so the rules for these lines judge them too. How often and when is the file's word.

use super::sources::within;
use crate::gathered::objects::{ContainerState, GatheredEvent, GatheredPod, REFUSAL};
use crate::log::{LogMatch, LogSource, LogSources, RuleSet};
use crate::operators::Operators;
use crate::stamp::{SECOND, Stamp};

const HEAD: &str = "E0101 00:00:00.000000    1000 pod_workers.go:1301] ";
/// The words before the cause in an event about a pod's sandbox, and about a container.
const SANDBOX_WORDS: &str = "Failed to create pod sandbox: ";
const START_WORDS: &str = "Error: ";
/// kubelet repeats an event at least as often; in seconds.
const LATELY: i64 = 15 * 60;

/// A line as kubelet logs it, with the file that shows it.
struct KubeletLine {
    file: String,
    text: String,
    /// In seconds since 1970.
    at: i64,
    count: u64,
}

/// The lines that mean something, each with its file.
pub(super) fn of(
    pods: &[&GatheredPod],
    events: &[GatheredEvent],
    operators: &Operators,
    now: i64,
) -> Vec<(String, LogMatch)> {
    let rules = RuleSet::of([LogSource::Kubelet].into_iter().collect::<LogSources>()).trusting(operators);
    let mut found = Vec::new();
    for pod in pods {
        let mut lines: Vec<_> = states(pod, now);
        let its = events.iter().filter(|event| event.namespace == pod.namespace && event.pod == pod.name);
        lines
            .extend(its.filter(|event| age(event, now) <= LATELY).flat_map(|event| warning(event, pod, now)));
        found.extend(lines.into_iter().filter_map(|line| understood(&rules, line, is_waiting(pod))));
    }
    let refusals = events.iter().filter(|event| event.reason == REFUSAL).map(|event| refused(event, now));
    found.extend(refusals.filter_map(|line| understood(&rules, line, true)));
    found
}

/// What the line means, with its file.
fn understood(rules: &RuleSet, line: KubeletLine, is_current: bool) -> Option<(String, LogMatch)> {
    let KubeletLine { file, text: line, at, count } = line;
    let fit = rules.fit(line.as_bytes())?;
    let (event, source) = (fit.event, fit.pattern.source);
    let at = Stamp::wall(at.saturating_mul(SECOND), SECOND);
    let line = LogMatch {
        event,
        source,
        at: Some(at),
        until: Some(at),
        count,
        text: event.text(&fit.fields),
        fields: fit.fields,
        line: 0,
        file: 0,
        pod: fit.pod,
        is_current,
    };
    Some((file, line))
}

/// kubelet's word about any pod, which names the device plugin.
fn refused(event: &GatheredEvent, now: i64) -> KubeletLine {
    let GatheredEvent { file, namespace, pod, reason, message, count, .. } = event;
    let message = message.trim_start_matches("Pod was rejected: ");
    let text = format!(
        "{HEAD}\"Pod admission denied\" podUID=\"-\" pod=\"{namespace}/{pod}\" reason={reason:?} message={message:?}"
    );
    KubeletLine { file: within(file, pod, "", "events"), text, at: now, count: *count }
}

/// Some container of the pod has not come through: what kubelet warned of a moment ago is still so.
fn is_waiting(pod: &GatheredPod) -> bool {
    pod.containers.iter().any(|container| match &container.state {
        ContainerState::Waiting(..) => true,
        ContainerState::Terminated(code) => *code != 0,
        ContainerState::Running(_) | ContainerState::Unknown => false,
    })
}

fn age(event: &GatheredEvent, now: i64) -> i64 {
    event.last.map(|last| now - last).or(event.ago).unwrap_or_default()
}

/// Waiting containers, and those that the runtime could not start.
fn states(pod: &GatheredPod, now: i64) -> Vec<KubeletLine> {
    let mut lines = Vec::new();
    for container in &pod.containers {
        let said = match (&container.state, &container.not_started) {
            (ContainerState::Waiting(reason, _), Some(why)) if reason == "CrashLoopBackOff" => {
                Some(("RunContainerError", why.as_str()))
            }
            (ContainerState::Waiting(reason, message), _) if !message.is_empty() => {
                Some((reason.as_str(), message.as_str()))
            }
            (ContainerState::Terminated(code), Some(why)) if *code != 0 => {
                Some(("RunContainerError", why.as_str()))
            }
            _ => None,
        };
        if let Some((reason, message)) =
            said.filter(|(reason, _)| reason.bytes().all(|b| b.is_ascii_alphabetic()))
        {
            let file = within(&pod.file, &pod.name, &container.name, "status");
            lines.push(KubeletLine {
                file,
                text: not_started(&container.name, reason, message, pod),
                at: now,
                count: 1,
            });
        }
    }
    lines
}

/// An event as the lines that kubelet logs then.
fn warning(event: &GatheredEvent, pod: &GatheredPod, now: i64) -> Vec<KubeletLine> {
    let message = event.message.as_str();
    let texts = match event.reason.as_str() {
        "FailedCreatePodSandBox" => message.strip_prefix(SANDBOX_WORDS).map(|why| sandbox(message, why, pod)),
        // A volume is made before the sandbox.
        "FailedMount" | "FailedAttachVolume" => Some(sandbox(message, message, pod)),
        "Failed" => message.strip_prefix(START_WORDS).filter(|why| why.contains(' ')).and_then(|why| {
            let waits = pod.containers.iter().find(|one| matches!(one.state, ContainerState::Waiting(..)));
            let name = event.container.as_ref().or(waits.map(|one| &one.name))?;
            Some(vec![not_started(name, "RunContainerError", why, pod)])
        }),
        "Killing" => Some(vec![killed(message, pod)]),
        _ => None,
    };
    let container = event.container.as_deref().unwrap_or_default();
    let file = within(&event.file, &pod.name, container, "events");
    let (at, count) = (now - age(event, now), event.count);
    let line = |text| KubeletLine { file: file.clone(), text, at, count };
    texts.into_iter().flatten().map(line).collect()
}

fn not_started(container: &str, reason: &str, why: &str, pod: &GatheredPod) -> String {
    let inner = format!("failed to \"StartContainer\" for {container:?} with {reason}: {why:?}");
    line("Error syncing pod, skipping", &inner, pod)
}

/// Both lines that kubelet logs then.
fn sandbox(message: &str, why: &str, pod: &GatheredPod) -> Vec<String> {
    let inner = format!(
        "failed to \"CreatePodSandbox\" for {:?} with CreatePodSandboxError: {message:?}",
        format!("{}_{}({})", pod.name, pod.namespace, pod.uid),
    );
    vec![line("Failed to create sandbox for pod", why, pod), line("Error syncing pod, skipping", &inner, pod)]
}

/// `Container NAME failed startup probe, will be restarted`.
fn killed(message: &str, pod: &GatheredPod) -> String {
    let name = message.split_whitespace().nth(1).unwrap_or_default();
    let of = format!("{}/{}", pod.namespace, pod.name);
    format!(
        "{HEAD}\"Message for Container of pod\" containerName={name:?} pod={of:?} containerMessage={message:?}"
    )
}

fn line(head: &str, why: &str, pod: &GatheredPod) -> String {
    let of = format!("{}/{}", pod.namespace, pod.name);
    format!("{HEAD}{head:?} err={why:?} pod={of:?} podUID={:?}", pod.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gathered::objects::GatheredContainer;
    use crate::log::LogEvent;

    fn pod(namespace: &str, state: ContainerState) -> GatheredPod {
        let container =
            GatheredContainer { name: "nvidia-driver-ctr".to_owned(), state, ..GatheredContainer::default() };
        GatheredPod {
            file: "pods.yaml".to_owned(),
            namespace: namespace.to_owned(),
            name: "driver-x".to_owned(),
            containers: vec![container],
            ..GatheredPod::default()
        }
    }

    #[test]
    fn the_message_of_a_waiting_container_counts_as_kubelets() {
        let message = "Back-off pulling image \"registry.example/driver:1-ubuntu26.04\"".to_owned();
        let waits = ContainerState::Waiting("ImagePullBackOff".to_owned(), message);
        let events = |namespace: &str| {
            let pod = pod(namespace, waits.clone());
            let all = of(&[&pod], &[], &Operators::default(), 1_790_000_000);
            all.into_iter().map(|(file, found)| (file, found.event)).collect::<Vec<_>>()
        };
        let file = "pods.yaml!/driver-x/nvidia-driver-ctr/status".to_owned();
        assert_eq!(events("gpu-operator"), [(file, LogEvent::ImageNotPulled)]);
        assert_eq!(events("team-a"), []);
    }

    #[test]
    fn an_event_counts_as_often_and_as_long_ago_as_its_file_says() {
        let message = "MountVolume.SetUp failed for volume \"host-sys\" : hostPath type check failed: /sys/x is not a directory";
        let event = GatheredEvent {
            file: "describe.txt".to_owned(),
            namespace: "gpu-operator".to_owned(),
            pod: "driver-x".to_owned(),
            reason: "FailedMount".to_owned(),
            message: message.to_owned(),
            ago: Some(120),
            count: 12,
            ..GatheredEvent::default()
        };
        let waits = ContainerState::Waiting("ContainerCreating".to_owned(), String::new());
        let found = |state: ContainerState, event: &GatheredEvent| {
            let pod = pod("gpu-operator", state);
            let all = of(&[&pod], std::slice::from_ref(event), &Operators::default(), 1_790_000_000);
            all.into_iter().map(|(_, found)| found).next()
        };
        let mount = found(waits.clone(), &event).unwrap();
        let (at, count) = (mount.at.map(|at| at.ns / SECOND), mount.count);
        assert_eq!(
            (mount.event, at, count, mount.is_current),
            (LogEvent::SandboxNotCreated, Some(1_789_999_880), 12, true)
        );
        assert!(mount.text.contains("/sys/x is not a directory"), "{}", mount.text);
        assert!(
            !found(ContainerState::Running(None), &event).unwrap().is_current,
            "the pod has come through"
        );
        let old = GatheredEvent { ago: Some(3600), ..event };
        assert_eq!(found(waits, &old), None);
    }
}
