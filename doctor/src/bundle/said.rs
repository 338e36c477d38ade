// SPDX-License-Identifier: Apache-2.0
//! kubelet's words about a container, which the API repeats in the container's state and in events: as the lines
//! that kubelet logs, so the rules for these lines judge them too.

use super::objects::{ContainerState, GatheredEvent, GatheredPod};
use super::sources::within;
use crate::log::{LogMatch, LogSource, LogSources, RuleSet};
use crate::operators::Operators;
use crate::stamp::{SECOND, Stamp};

/// How often a log must have a line before its form is enough.
const OFTEN: u64 = 3;

const HEAD: &str = "E0101 00:00:00.000000    1000 pod_workers.go:1301] ";
/// Events with such a reason say why a pod's sandbox is not made.
const SANDBOX: &str = "FailedCreatePodSandBox";
const SANDBOX_WORDS: &str = "Failed to create pod sandbox: ";
/// kubelet repeats an event at least as often; in seconds.
const LATELY: i64 = 15 * 60;

/// The lines that mean something, each with its file.
pub(super) fn of(
    pods: &[&GatheredPod],
    events: &[GatheredEvent],
    operators: &Operators,
    now: i64,
) -> Vec<(String, LogMatch)> {
    let rules = RuleSet::of([LogSource::Kubelet].into_iter().collect::<LogSources>()).believing(operators);
    let mut found = Vec::new();
    let at = Stamp::wall(now.saturating_mul(SECOND), SECOND);
    for pod in pods {
        let mut lines = states(pod);
        let its = events.iter().filter(|event| event.namespace == pod.namespace && event.pod == pod.name);
        let lately = its.filter(|event| event.last.is_none_or(|last| now - last <= LATELY));
        lines.extend(lately.flat_map(|event| sandbox(event, pod)));
        for (file, line) in lines {
            let Some(fit) = rules.fit(line.as_bytes()) else { continue };
            let (event, source) = (fit.event, fit.pattern.source);
            let text = event.text(&fit.fields);
            let fields = fit.fields;
            let line = LogMatch {
                event,
                source,
                at: Some(at),
                until: Some(at),
                // The state is present, and kubelet tries again and again.
                count: OFTEN,
                fields,
                text,
                line: 0,
                file: 0,
                pod: fit.pod,
            };
            found.push((file, line));
        }
    }
    found
}

/// Waiting containers, and those that the runtime could not start.
fn states(pod: &GatheredPod) -> Vec<(String, String)> {
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
            let inner =
                format!("failed to \"StartContainer\" for {:?} with {reason}: {message:?}", container.name);
            let file = within(&pod.file, &pod.name, &container.name, "status");
            lines.push((file, line("Error syncing pod, skipping", &inner, pod)));
        }
    }
    lines
}

/// Both lines that kubelet logs then.
fn sandbox(event: &GatheredEvent, pod: &GatheredPod) -> Vec<(String, String)> {
    let Some(why) = event.message.strip_prefix(SANDBOX_WORDS).filter(|_| event.reason == SANDBOX) else {
        return Vec::new();
    };
    let inner = format!(
        "failed to \"CreatePodSandbox\" for {:?} with CreatePodSandboxError: {:?}",
        format!("{}_{}({})", pod.name, pod.namespace, pod.uid),
        event.message
    );
    let file = within(&event.file, &pod.name, "", "events");
    let both = [("Failed to create sandbox for pod", why), ("Error syncing pod, skipping", inner.as_str())];
    both.map(|(head, why)| (file.clone(), line(head, why, pod))).to_vec()
}

fn line(head: &str, why: &str, pod: &GatheredPod) -> String {
    let of = format!("{}/{}", pod.namespace, pod.name);
    format!("{HEAD}{head:?} err={why:?} pod={of:?} podUID={:?}", pod.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::objects::GatheredContainer;
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
}
