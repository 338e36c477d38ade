// SPDX-License-Identifier: Apache-2.0
//! nvidia-peermem beyond its condition: who is registered, and whether one could do without it.

use super::{Case, listing};
use crate::finding::{Finding, Group, Id, Severity};
use peermem_gate::ready::condition::Reason;
use peermem_gate::ready::verdict::Outcome;
use peermem_gate::survey::pod::Pod;
use peermem_gate::survey::process::{Process, Role};
use peermem_gate::survey::setting::Setting;

/// nvidia-peermem-ctr looks every ten seconds; so may `keep`, after a swap.
const JUST_STARTED: i64 = 5 * 60;

pub(super) fn judge(case: &Case<'_>, found: &[Finding]) -> Vec<Finding> {
    let all = [legacy_client(case), two_clients(case), not_loaded(case, found), consumer_cards(case)];
    all.into_iter().flatten().collect()
}

/// Findings that follow from a driver that was built, or loaded nvidia-peermem, before MOFED was ready.
const TOO_EARLY: [Id; 11] = ids! {
    LoadedOnGoneStack MarkerSuspect StaleMarker HeaderMountStale HeadersMissing HeadersForOtherKernel
    HeadersWithoutPeerMemory BuildWithoutMofed StubModule BuiltBeforeMofed PeermemRefused
};

/// An alternative, or a help, is offered only where a root cause is one that it would cure.
pub(super) fn hints(case: &Case<'_>, found: &[Finding]) -> Vec<Finding> {
    if case.verdict.outcome == Outcome::NotApplicable {
        return Vec::new();
    }
    let is_root = |finding: &&Finding| finding.severity == Severity::Critical && finding.is_root();
    let roots: Vec<_> = found.iter().filter(is_root).map(|finding| finding.id).collect();
    let without_mofed = roots.iter().any(|root| matches!(root.group(), Group::Mofed | Group::Peermem));
    let by_waiting = roots.iter().any(|root| TOO_EARLY.contains(root));
    let hints = [without_mofed.then(|| dma_buf(case)).flatten(), by_waiting.then(|| gate(case)).flatten()];
    hints.into_iter().flatten().collect()
}

/// `GeForce` cards: NVIDIA's driver registers none of their memory for RDMA (NVIDIA's list of supported GPUs).
fn consumer_cards(case: &Case<'_>) -> Option<Finding> {
    let (source, models) = &case.symptoms.driver.models;
    let is_consumer = |model: &String| model.contains("GeForce");
    let all = !models.is_empty() && models.iter().all(is_consumer);
    let is_used = case.symptoms.settings.rdma.is_on() || case.line("nvidia_peermem").is_some();
    (all && is_used).then(|| Finding::new(Id::GpuWithoutRdma, source.display(), models.join(", ")))
}

/// A usable module is not loaded yet: a program must load it, and not every such program can be seen from here.
fn not_loaded(case: &Case<'_>, found: &[Finding]) -> Option<Finding> {
    let Setting::On(set) = case.symptoms.settings.rdma.clone() else { return None };
    let is_due =
        case.has(Reason::Usable) && case.line("nvidia_peermem").is_none() && case.is_listed_live("nvidia");
    if !is_due || found.iter().any(|finding| finding.id == Id::DriverBuilding) {
        return None;
    }
    let processes = &case.symptoms.survey.processes;
    let is_fresh =
        |started: Option<i64>| started.and_then(|at| case.age(at)).is_some_and(|age| age < JUST_STARTED);
    let loader = processes.first(Role::Peermem).or_else(|| keeper(case));
    if loader.is_some_and(|loader| is_fresh(loader.started))
        || processes.of(Role::Driver).any(|driver| is_fresh(driver.started))
    {
        return None;
    }
    let finding = Finding::new(Id::PeermemNotLoaded, "/proc/modules", "nvidia_peermem is not loaded")
        .seen(set.source, set.seen);
    let finding = case.and_trouble_of(finding, "nvidia-peermem-ctr");
    Some(match loader {
        Some(loader) => {
            let seen = format!("{} is running, should load it, and has not", loader.name);
            finding.seen(loader.directory.display(), seen)
        }
        None => {
            finding.seen("/proc", "neither nvidia-peermem-ctr nor `peermem-gate keep` is running to load it")
        }
    })
}

fn keeper<'a>(case: &'a Case<'_>) -> Option<&'a Process> {
    let mut gates = case.symptoms.survey.processes.of(Role::Gate);
    gates.find(|gate| gate.arguments.iter().any(|argument| argument == "keep"))
}

/// A driver pod without the gate's container, where RDMA is asked for and a driver pod is here.
fn gate(case: &Case<'_>) -> Option<Finding> {
    let pod = case.driver_pod().filter(|_| case.symptoms.settings.rdma.is_on())?;
    let name = pod.name.as_ref().map_or(&pod.uid, |(_, name)| name);
    (case.has_gate() == Some(false))
        .then(|| Finding::new(Id::GateMissing, format!("pod {name}"), "has no peermem-gate container"))
}

impl Case<'_> {
    /// The one that is here now.
    fn driver_pod(&self) -> Option<&Pod> {
        self.symptoms.survey.pods.with("nvidia-driver-ctr").filter(|pod| pod.is_here)
    }

    /// Whether the driver's pod has the gate; `None` where no such pod is seen that could be to come.
    pub(super) fn has_gate(&self) -> Option<bool> {
        let processes = &self.symptoms.survey.processes;
        let Some(pod) = self.driver_pod() else {
            return (self.is_container_driver() == Some(false)).then_some(false);
        };
        let is_listed = pod.containers.iter().any(|name| name.contains("peermem-gate"));
        Some(is_listed || processes.of(Role::Gate).any(|gate| gate.pod.as_ref() == Some(&pod.uid)))
    }
}

/// Whatever else keeps nvidia-peermem from loading, and the condition says first.
fn legacy_client(case: &Case<'_>) -> Option<Finding> {
    let line = case.line("nv_peer_mem")?;
    Some(Finding::new(Id::LegacyClientLoaded, "/proc/modules", listing(line)))
}

/// Both register the name `nv_mem`, whose version is nvidia's only if `nvidia_peermem` was first.
fn two_clients(case: &Case<'_>) -> Option<Finding> {
    let driver = &case.symptoms.driver;
    // What is cut off or garbled is no other version.
    let version = |text: &&String| text.starts_with(|c: char| c.is_ascii_digit()) && text.contains('.');
    let loaded = driver.loaded.1.iter().flatten().find(version);
    let client = driver.client.1.iter().flatten().find(version);
    let foreign = client.zip(loaded).filter(|(client, loaded)| client != loaded).map(|(client, loaded)| {
        Finding::new(Id::TwoPeerClients, driver.client.0.display(), client.clone())
            .seen(driver.loaded.0.display(), loaded.clone())
    });
    let are_loaded = ["nv_peer_mem", "nvidia_peermem"].iter().all(|name| case.line(name).is_some());
    let seen = "both nv_peer_mem and nvidia_peermem are loaded";
    let both = are_loaded.then(|| Finding::new(Id::TwoPeerClients, "/proc/modules", seen));
    both.or(foreign)
}

/// NVIDIA's terms for it: open kernel modules, and Linux 5.12 (cloud-native-docs, gpu-operator-rdma.rst).
fn dma_buf(case: &Case<'_>) -> Option<Finding> {
    let (path, lines) = &case.symptoms.driver.version_file;
    let open = lines.iter().flatten().find(|line| line.contains("Open Kernel Module"))?;
    let release = &case.seen.kernel.release;
    (is_since_5_12(release) && case.symptoms.host.without_p2pdma.is_none()).then(|| {
        Finding::new(Id::DmaBufPossible, path.display(), open.clone())
            .seen("/proc/sys/kernel/osrelease", release.clone())
    })
}

fn is_since_5_12(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (5, 12))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_numbers() {
        assert!(is_since_5_12("5.14.0-427.96.1.el9_4.aarch64+64k") && is_since_5_12("6.1.0-56-amd64"));
        assert!(!is_since_5_12("5.4.0-1-generic") && !is_since_5_12("4.18.0-553.el8") && !is_since_5_12(""));
    }
}
