// SPDX-License-Identifier: Apache-2.0
//! A container of the operators that ends again and again, or waits without an end, and says why in words that are no
//! known sentence.

use super::Case;
use crate::chain::{DRIVER_CTR_READY, DRIVER_READY, FILES, MARKER, TOOLKIT_READY};
use crate::finding::fact::{INIT_WAITS, LOG_ADVISES, NO_INIT_WAITS, PEERMEM_AWAITED, SWITCHED};
use crate::finding::{Finding, Id, Severity};
use crate::log::WaitTarget;
use crate::stamp::{SECOND, Stamp};
use crate::symptoms::logs::{Failure, LoggedPod, PodContainer};
use peermem_gate::words::remedy::CommandText;

/// In seconds. kubelet waits five minutes at most before it starts a container again.
const BACK_OFF: i64 = 10 * 60;
/// In seconds. What has run for as long has come through; the slowest build takes less.
const LIFE: i64 = 60 * 60;
/// A container that was started as often has not come through.
const OFTEN: u32 = 3;
const DRIVERS: [&str; 3] = ["nvidia-driver-ctr", "openshift-driver-toolkit-ctr", "k8s-driver-manager"];
const CUDA_READY: &str = "cuda-ready";
/// The init container of MOFED's pod (network-operator, state-ofed-driver).
const MOFED_INIT: &str = "network-operator-init-container";

/// The file of the readiness chain that each container brings.
const BRINGS: [(&str, &str); 9] = [
    ("mofed-container", MARKER),
    ("k8s-driver-manager", DRIVER_CTR_READY),
    ("nvidia-driver-ctr", DRIVER_CTR_READY),
    ("openshift-driver-toolkit-ctr", DRIVER_CTR_READY),
    ("driver-validation", DRIVER_READY),
    ("nvidia-container-toolkit-ctr", TOOLKIT_READY),
    ("toolkit-validation", TOOLKIT_READY),
    ("cuda-validation", CUDA_READY),
    ("plugin-validation", "plugin-ready"),
];

/// The setting of the `ClusterPolicy` that turns an optional part off, by its container.
const SWITCHES: [(&str, &str); 6] = [
    ("nvidia-fs-ctr", "gds.enabled"),
    ("nvidia-gdrcopy-ctr", "gdrcopy.enabled"),
    ("nvidia-peermem-ctr", "driver.rdma.enabled"),
    ("nvidia-mig-manager", "migManager.enabled"),
    ("nvidia-dcgm-exporter", "dcgmExporter.enabled"),
    ("gpu-feature-discovery", "gfd.enabled"),
];

/// The steps at which the chain has stopped, and the containers that are at them.
const AT: [(Id, &[&str]); 3] = [
    (Id::DriverNotValidated, &["driver-validation"]),
    (Id::ToolkitNotReady, &["toolkit-validation"]),
    (Id::ValidationIncomplete, &["cuda-validation", "plugin-validation"]),
];

/// `found` has what is known already.
pub(super) fn judge(case: &Case<'_>, found: &[Finding]) -> Vec<Finding> {
    let all = case.troubles().filter(|(_, _, trouble)| !is_known(found, trouble));
    let mut all: Vec<_> = all.collect();
    // Without the first of the chain the others wait.
    let place = |name: &str| BRINGS.iter().position(|(container, _)| *container == name);
    all.sort_by_key(|(_, container, _)| place(&container.name).unwrap_or(BRINGS.len()));
    let has = |id: &Id| found.iter().any(|finding| finding.id == *id);
    // Nothing else explains why the driver is not loaded.
    let is_cause = has(&Id::DriverNotLoaded) && !Id::DriverNotLoaded.causes().iter().any(has);
    let id = |name: &str| {
        if is_cause && DRIVERS.contains(&name) { Id::DriverContainerFails } else { Id::ContainerRestarts }
    };
    let finding = |(pod, container, trouble): (&LoggedPod, &PodContainer, &Failure)| {
        let id = if trouble.repeats { Id::ContainerRestarts } else { id(&container.name) };
        restarts(case, id, (pod, container), trouble)
    };
    all.into_iter().map(finding).collect()
}

fn restarts(
    case: &Case<'_>,
    id: Id,
    (pod, container): (&LoggedPod, &PodContainer),
    trouble: &Failure,
) -> Finding {
    let times = container.restart.unwrap_or_default();
    let since = trouble.since.map(|at| Stamp::wall(at.saturating_mul(SECOND), SECOND));
    let since = since.map_or_else(String::new, |at| format!(" since {at}"));
    let words = trouble.output.as_ref().unwrap_or(&trouble.line);
    let seen = if trouble.repeats {
        format!("runs, and repeats this error: {words}")
    } else {
        format!("restarted {times} times{since}: {words}")
    };
    let finding = Finding::new(id, trouble.path.display(), seen).because(words);
    let after = trouble.output.as_ref().map(|_| format!("after that: {}", trouble.line));
    let finding = finding.all(after.map(|after| (trouble.path.display(), after)));
    let switch = SWITCHES.iter().find(|(name, _)| *name == container.name).map(|(_, switch)| *switch);
    let finding = finding
        .of_container(container.name.as_str())
        .with(SWITCHED, switch.is_some())
        .word("switch", switch.unwrap_or_default())
        .word("container", CommandText::plain(&container.name, "CONTAINER"))
        .word("pod", CommandText::pod(&pod.namespace, &pod.name));
    let waiters = waiters(case, &container.name);
    advised(finding.all(waiters.map(|waiters| (format!("waiting for {}", container.name), waiters))), trouble)
}

/// The words of the command that failed, where the container only passes on that it did, and then its own.
fn with_words_of(finding: Finding, trouble: &Failure) -> Finding {
    let words =
        trouble.output.iter().chain([&trouble.line]).map(|words| (trouble.path.display(), words.as_str()));
    finding.because(trouble.output.as_ref().unwrap_or(&trouble.line)).all(words)
}

/// With the remedy that the log itself names.
fn advised(finding: Finding, trouble: &Failure) -> Finding {
    let finding = finding.with(LOG_ADVISES, trouble.advice.is_some());
    match &trouble.advice {
        Some(advice) => {
            // A setting is the commonest part of it.
            let parts = advice.split('=').map(CommandText::mention);
            finding.word("advice", CommandText::joined(parts, "="))
        }
        None => finding,
    }
}

/// Who does not go on while this container does not come through.
fn waiters(case: &Case<'_>, container: &str) -> Option<String> {
    // For virtual machines, k8s-driver-manager is the vfio-manager's.
    let (_, name) = BRINGS.iter().find(|(one, _)| *one == container && !case.is_for_machines())?;
    let file = FILES.iter().find(|file| file.name == *name)?;
    let is_missing = case.symptoms.chain.stamp(name).written().is_none();
    (is_missing && !file.waiters.is_empty()).then(|| file.waiters.join(", "))
}

/// With the words of the container at a step where the chain has stopped: it waits and is not restarted.
pub(super) fn with_words(case: &Case<'_>, finding: Finding) -> Finding {
    let Some((_, names)) = AT.iter().find(|(id, _)| *id == finding.id) else { return finding };
    let waits = |container: &PodContainer| {
        let is_at_it = names.contains(&container.name.as_str());
        is_at_it && container.restart.is_none_or(|count| count < OFTEN)
    };
    match case.trouble_of(waits) {
        Some(trouble) => awaiting(case, finding.seen(trouble.path.display(), trouble.line.clone()), trouble),
        None => finding,
    }
}

/// With the module for which it waits, by its log.
fn awaiting(case: &Case<'_>, finding: Finding, trouble: &Failure) -> Finding {
    let Some(WaitTarget::Module(module)) = &trouble.awaits else { return finding };
    let is_missing = case.seen.modules.proc.is_ok() && case.line(module).is_none();
    let finding = finding.with(PEERMEM_AWAITED, is_missing && module == "nvidia_peermem");
    let seen = format!("it waits for the module {module}, which is not loaded");
    if is_missing { finding.seen(trouble.path.display(), seen) } else { finding }
}

/// A finding that alarms rests on a line of the same container.
fn is_known(found: &[Finding], trouble: &Failure) -> bool {
    let Some(directory) = trouble.path.parent().map(|path| path.display().to_string()) else { return false };
    let is_loud = |finding: &&Finding| matches!(finding.severity, Severity::Critical | Severity::Warning);
    let mut sources = found.iter().filter(is_loud).flat_map(|finding| &finding.evidence);
    sources.any(|evidence| evidence.source.starts_with(&directory))
}

impl Case<'_> {
    /// The operators' containers whose pods are here.
    pub(super) fn containers_here(&self) -> impl Iterator<Item = (&LoggedPod, &PodContainer)> {
        let pods = &self.symptoms.survey.pods;
        let is_here = |pod: &&LoggedPod| pods.of(&pod.uid).is_none_or(|known| known.is_here);
        let all = self.symptoms.logs.pods.iter().filter(is_here);
        all.flat_map(|pod| pod.containers.iter().map(move |container| (pod, container)))
    }

    /// Containers that end again and again, or repeat an error, now, and whose pods are here.
    fn troubles(&self) -> impl Iterator<Item = (&LoggedPod, &PodContainer, &Failure)> {
        let is_now = |trouble: &&Failure| {
            let lived = trouble.started.map_or(0, |started| trouble.modified.saturating_sub(started));
            let is_new = self.age(trouble.modified).is_some_and(|age| age <= BACK_OFF);
            is_new && (trouble.repeats || lived <= LIFE)
        };
        let is_restarted = |container: &PodContainer| container.restart.is_some_and(|count| count >= OFTEN);
        self.containers_here().filter_map(move |(pod, container)| {
            let trouble = container.trouble.as_ref().filter(is_now)?;
            (trouble.repeats || is_restarted(container)).then_some((pod, container, trouble))
        })
    }

    /// The finding, with the words of the init container of MOFED's pod if that waits.
    pub(super) fn and_init_container(&self, finding: Finding) -> Finding {
        let Some((pod, container)) = self.containers_here().find(|(_, one)| one.name == MOFED_INIT) else {
            return finding;
        };
        let finding = match &container.trouble {
            Some(trouble) => finding.seen(trouble.path.display(), trouble.line.as_str()),
            None => {
                finding.seen(format!("pod {}", pod.name), format!("its container {MOFED_INIT} has started"))
            }
        };
        let finding = finding.word("init", CommandText::pod(&pod.namespace, &pod.name));
        finding.with(INIT_WAITS, true).with(NO_INIT_WAITS, false)
    }

    /// The finding, with what a container says at its end.
    pub(super) fn and_trouble_of(&self, finding: Finding, container: &str) -> Finding {
        match self.trouble_of(|one| one.name == container) {
            Some(trouble) => with_words_of(finding, trouble),
            None => finding,
        }
    }

    /// The words of such a container: it is not well now, whenever it said so last since the boot.
    fn trouble_of(&self, is_it: impl Fn(&PodContainer) -> bool) -> Option<&Failure> {
        let boot = self.symptoms.chain.clock.boot.as_ref().copied().unwrap_or(i64::MIN);
        let mut all = self.containers_here().filter(|(_, one)| is_it(one));
        all.find_map(|(_, one)| one.trouble.as_ref().filter(|trouble| trouble.modified >= boot))
    }
}
