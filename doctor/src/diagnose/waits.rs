// SPDX-License-Identifier: Apache-2.0
//! Containers that wait and are no link of the readiness chain, and those that were created and never started.

use super::Case;
use crate::chain::{self, Link, LinkState, MARKER, broken_at, span};
use crate::finding::fact::{LABELED, MOFED_AWAITED};
use crate::finding::{Finding, Id};
use crate::log::{LogMatch, LogSource};
use crate::symptoms::logs::{LoggedPod, PodContainer};
use crate::symptoms::waits::FileWait;
use peermem_gate::survey::pod::Pod;
use peermem_gate::words::remedy::CommandText;

/// In seconds. A file that no link of the chain is may take as long; and so long a container may be between its
/// creation and its start.
const USUAL: i64 = 15 * 60;

/// Who writes a file: by a container of its name, or by a pod whose name begins so.
struct Provider {
    files: &'static [&'static str],
    name: &'static str,
    containers: &'static [&'static str],
    pods: &'static [&'static str],
    /// The label by which its `DaemonSet` selects nodes (gpu-operator, assets/).
    label: &'static str,
}

macro_rules! providers {
    ($($name:literal of [$($pod:literal)+] in [$($container:literal)+] by $label:literal: $($file:literal)+;)+) => {
        [$(Provider {
            files: &[$($file),+],
            name: $name,
            containers: &[$($container),+],
            pods: &[$($pod),+],
            label: $label,
        }),+]
    };
}

const PROVIDERS: [Provider; 5] = providers! {
    "MOFED's container" of ["mofed-"] in ["mofed-container"] by "": ".driver-ready";
    "the driver's pod" of ["nvidia-driver-daemonset" "nvidia-gpu-driver"]
        in ["nvidia-driver-ctr" "openshift-driver-toolkit-ctr" "k8s-driver-manager"]
        by "nvidia.com/gpu.deploy.driver=true": ".driver-ctr-ready";
    "nvidia-container-toolkit or nvidia-operator-validator" of ["nvidia-container-toolkit" "nvidia-operator-validator"]
        in ["driver-validation"] by "nvidia.com/gpu.deploy.container-toolkit=true": "driver-ready";
    "nvidia-operator-validator" of ["nvidia-operator-validator"] in ["nvidia-operator-validator"]
        by "nvidia.com/gpu.deploy.operator-validator=true": "toolkit-ready" "cuda-ready" "plugin-ready";
    "nvidia-sandbox-validator" of ["nvidia-sandbox-validator"] in ["nvidia-sandbox-validator"]
        by "nvidia.com/gpu.deploy.sandbox-validator=true": "cc-manager-ready" "host-vgpu-manager-ready"
            "vfio-pci-ready" "vgpu-devices-ready" "vgpu-manager-ready" "workload-type";
};

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    let waits = case.overdue_waits().map(|(wait, age)| waiting(case, wait, age));
    waits.flatten().chain(never_started(case)).collect()
}

/// The wait, and that nothing will end it.
fn waiting(case: &Case<'_>, wait: &FileWait, age: i64) -> Vec<Finding> {
    let (namespace, pod) = &wait.pod;
    let whom = wait.container.as_ref().map_or_else(|| format!("pod {namespace}/{pod}"), Clone::clone);
    let seen = format!("{whom} has waited for {} for {}", span(age), wait.path.display());
    let container = wait.container.as_deref().or_else(|| case.first_container(&wait.pod));
    let waits = Finding::new(Id::ContainerWaits, wait.path.display(), "it does not exist");
    let waits = waits.seen(wait.source.display(), format!("{seen}: {}", wait.words)).of_container(container);
    let missing = provider(wait).filter(|provider| case.has_none(provider)).map(|provider| {
        let words = format!("no pod or process on this node is {}, which writes it", provider.name);
        let finding = Finding::new(Id::ProviderMissing, wait.path.display(), words);
        finding
            .seen(wait.source.display(), seen.clone())
            .of_container(container)
            .with(LABELED, !provider.label.is_empty())
            .with(MOFED_AWAITED, provider.files.contains(&MARKER))
            .word("provider", provider.name)
            .word("label", provider.label)
    });
    std::iter::once(waits).chain(missing).collect()
}

fn provider(wait: &FileWait) -> Option<&'static Provider> {
    let name = name(wait)?;
    PROVIDERS.iter().find(|provider| provider.files.contains(&name))
}

fn name(wait: &FileWait) -> Option<&str> {
    wait.path.file_name()?.to_str()
}

/// kubelet has made the container, its start failed, and kubelet does not try again: its log is empty, its pod has no
/// process, and no other container of the pod came after it (containerd#10437).
fn never_started(case: &Case<'_>) -> Vec<Finding> {
    let Some(alive) = &case.symptoms.waits.alive else { return Vec::new() };
    let found = case.containers_here().filter_map(|(pod, container)| {
        let written = container.written.filter(|_| container.is_silent && !alive.contains(&pod.uid))?;
        let age = case.age(written).filter(|age| *age > USUAL)?;
        let is_last = pod.containers.iter().all(|other| other.written.is_none_or(|at| at <= written));
        let said = case.refused_start(pod, container).filter(|_| is_last)?;
        let log = format!("/var/log/pods/{}_{}_{}/{}", pod.namespace, pod.name, pod.uid, container.name);
        let finding = case.by_log(Id::ContainerNeverStarted, said);
        let words = format!("its log has been empty for {}, and its pod has no process", span(age));
        let finding = finding.seen(log, words).of_container(container.name.as_str());
        Some(finding.word("pod", CommandText::pod(&pod.namespace, &pod.name)))
    });
    found.collect()
}

impl Case<'_> {
    /// Waits that last longer than the file's writer may take, and that the readiness chain does not show as stopped
    /// there.
    pub(super) fn overdue_waits(&self) -> impl Iterator<Item = (&FileWait, i64)> {
        let links = chain::links(&self.symptoms.chain, self.around());
        let shown: Vec<_> =
            links.iter().filter(|link| link.state == LinkState::Absent).map(|link| link.file).collect();
        self.symptoms.waits.files.iter().filter_map(move |wait| {
            let age = self.age(wait.since?)?;
            let file = name(wait).and_then(|name| chain::FILES.iter().find(|file| file.name == name));
            let usual = file.map_or(USUAL, |file| file.usual.max(USUAL));
            let is_shown = file.is_some_and(|file| shown.contains(&file.name));
            (age > usual && (!is_shown || provider(wait).is_some_and(|one| self.has_none(one))))
                .then_some((wait, age))
        })
    }

    /// The chain with what waits, where it is no link of the usual chain.
    pub(super) fn with_waits(&self, mut links: Vec<Link>) -> Vec<Link> {
        for (wait, age) in self.overdue_waits() {
            let Some(file) = chain::FILES.iter().find(|file| Some(file.name) == name(wait)) else { continue };
            let broken = broken_at(&links).is_none();
            let note = Some(format!("{}/{} waits for it", wait.pod.0, wait.pod.1));
            match links.iter_mut().find(|link| link.file == file.name) {
                Some(link) if link.state == LinkState::NotExpected => {
                    (link.state, link.broken, link.waited_s, link.note) =
                        (LinkState::Absent, broken, Some(age), note);
                }
                Some(_) => {}
                None => links.push(Link::awaited(file, wait.path.clone(), age, broken, note)),
            }
        }
        links
    }

    /// Nothing of it is on this node; only where kubelet's pods and the node's processes were read.
    fn has_none(&self, provider: &Provider) -> bool {
        let pods = &self.symptoms.survey.pods;
        let is_its = |pod: &Pod| {
            let is_one = |name: &str| provider.pods.iter().any(|one| name.starts_with(one));
            let is_named = pod.name.as_ref().is_some_and(|(_, name)| is_one(name));
            is_named || provider.containers.iter().any(|name| pod.containers.contains(*name))
        };
        pods.is_complete && self.symptoms.waits.alive.is_some() && !pods.all.iter().any(is_its)
    }

    /// A container of this pod: all of a pod work on one step.
    fn first_container(&self, (namespace, name): &(String, String)) -> Option<&str> {
        let mut pods = self.symptoms.logs.pods.iter();
        let pod = pods.find(|pod| pod.namespace == *namespace && pod.name == *name)?;
        pod.containers.first().map(|container| container.name.as_str())
    }

    /// kubelet's word that this container was not started.
    fn refused_start(&self, pod: &LoggedPod, container: &PodContainer) -> Option<&LogMatch> {
        let name = format!("{}/{}", pod.namespace, pod.name);
        self.symptoms.logs.matches.iter().rfind(|found| {
            found.source == LogSource::Kubelet
                && found.pod.as_ref() == Some(&name)
                && Case::field(found, "container") == container.name
        })
    }
}
