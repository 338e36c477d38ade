// SPDX-License-Identifier: Apache-2.0
//! kubelet's words about a container, which the API repeats in the container's state and in events: as the lines
//! that kubelet logs, so the rules for these lines judge them too. How often and when is the file's word.

use super::sources::within;
use crate::gathered::objects::{ContainerState, GatheredEvent, GatheredPod, NOT_CREATED, REFUSAL};
use crate::log::{LogMatch, LogSource, LogSources, RuleSet};
use crate::operators::Operators;
use crate::stamp::{SECOND, Stamp};

const HEAD: &str = "E0101 00:00:00.000000    1000 pod_workers.go:1301] ";
/// The words before the cause in an event about a pod's sandbox, and about a container.
const SANDBOX_WORDS: &str = "Failed to create pod sandbox: ";
const START_WORDS: &str = "Error: ";
/// kubelet repeats an event at least as often; in seconds.
const LATELY: i64 = 15 * 60;
/// kubelet never tries a pod again that it did not admit, and such a pod stays for weeks: it counts for an hour.
const REFUSED: i64 = 60 * 60;

/// A line as kubelet logs it, with the file that shows it.
struct KubeletLine {
    file: String,
    text: String,
    /// In seconds since 1970.
    at: i64,
    count: u64,
    is_current: bool,
}

/// The lines that mean something, each with its file.
pub(super) fn of<'a>(
    pods: impl Iterator<Item = &'a GatheredPod>,
    events: impl Iterator<Item = &'a GatheredEvent>,
    operators: &Operators,
    now: i64,
) -> Vec<(String, LogMatch)> {
    let rules = RuleSet::of([LogSource::Kubelet].into_iter().collect::<LogSources>()).trusting(operators);
    let lines = pods.flat_map(|pod| states(pod, now)).chain(events.flat_map(|event| said(event, now)));
    lines.filter_map(|line| understood(&rules, line)).collect()
}

/// What the line means, with its file.
fn understood(rules: &RuleSet, line: KubeletLine) -> Option<(String, LogMatch)> {
    let KubeletLine { file, text: line, at, count, is_current } = line;
    let fit = rules.fit(line.as_bytes())?;
    let (event, source) = (fit.event, fit.pattern.source);
    let at = Stamp::wall(at.saturating_mul(SECOND), SECOND);
    let line = LogMatch::of(event, source, event.text(&fit.fields));
    let (fields, pod) = (fit.fields, fit.pod);
    let line = LogMatch { at: Some(at), until: Some(at), count, fields, pod, is_current, ..line };
    Some((file, line))
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
            let text = not_started(&container.name, reason, message, &key(&pod.namespace, &pod.name));
            lines.push(KubeletLine { file, text, at: now, count: 1, is_current: true });
        }
    }
    lines
}

/// An event as the lines that kubelet logs then.
fn said(event: &GatheredEvent, now: i64) -> Vec<KubeletLine> {
    let of = key(&event.namespace, &event.pod);
    let message = event.message.trim_start_matches("Pod was rejected: ");
    let is_refusal = event.reason == REFUSAL;
    let texts = match event.reason.as_str() {
        REFUSAL => Some(vec![format!(
            "{HEAD}\"Pod admission denied\" podUID=\"-\" {of} reason={REFUSAL:?} message={message:?}"
        )]),
        "FailedPrepareDynamicResources" => {
            let why = message.strip_prefix("Failed to prepare dynamic resources: ");
            why.map(|why| vec![line("Failed to prepare dynamic resources", why, &of)])
        }
        NOT_CREATED => {
            let why = message.strip_prefix("Error creating: ");
            let why = why.or_else(|| Some(message.split_once(" failed error: ")?.1));
            why.map(|why| vec![line("Failed creating a mirror pod", why, &of)])
        }
        "FailedCreatePodSandBox" => message.strip_prefix(SANDBOX_WORDS).map(|why| sandbox(message, why, &of)),
        // A volume is made before the sandbox.
        "FailedMount" | "FailedAttachVolume" => Some(sandbox(message, message, &of)),
        "Failed" => message.strip_prefix(START_WORDS).filter(|why| why.contains(' ')).and_then(|why| {
            Some(vec![not_started(event.container.as_ref()?, "RunContainerError", why, &of)])
        }),
        "Killing" => Some(vec![killed(message, &of)]),
        _ => None,
    };
    let container = event.container.as_deref().unwrap_or_default();
    let file = within(&event.file, &event.pod, container, "events");
    let at = if is_refusal { now } else { now - age(event, now) };
    let line = |text| KubeletLine {
        file: file.clone(),
        text,
        at,
        count: event.count,
        is_current: event.is_current || is_refusal,
    };
    let is_lately = age(event, now) <= if is_refusal { REFUSED } else { LATELY };
    texts.into_iter().filter(|_| is_lately).flatten().map(line).collect()
}

/// kubelet's key for the pod.
fn key(namespace: &str, pod: &str) -> String {
    format!("pod={:?}", format!("{namespace}/{pod}"))
}

fn not_started(container: &str, reason: &str, why: &str, of: &str) -> String {
    let inner = format!("failed to \"StartContainer\" for {container:?} with {reason}: {why:?}");
    line("Error syncing pod, skipping", &inner, of)
}

/// Both lines that kubelet logs then.
fn sandbox(message: &str, why: &str, of: &str) -> Vec<String> {
    let inner =
        format!("failed to \"CreatePodSandbox\" for \"a_b(c)\" with CreatePodSandboxError: {message:?}");
    vec![line("Failed to create sandbox for pod", why, of), line("Error syncing pod, skipping", &inner, of)]
}

/// `Container NAME failed startup probe, will be restarted`.
fn killed(message: &str, of: &str) -> String {
    let name = message.split_whitespace().nth(1).unwrap_or_default();
    format!("{HEAD}\"Message for Container of pod\" containerName={name:?} {of} containerMessage={message:?}")
}

fn line(head: &str, why: &str, of: &str) -> String {
    format!("{HEAD}{head:?} err={why:?} {of}")
}
