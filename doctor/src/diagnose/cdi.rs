// SPDX-License-Identifier: Apache-2.0
//! CDI specifications, and who wrote each: its name says it.

use super::Case;
use crate::finding::fact::{SPEC_OF_HOST, SPEC_OF_POD, SPEC_REPLACED, SPECS_CONFLICT};
use crate::finding::{Finding, Id};
use peermem_gate::words::remedy::CommandText;
use std::path::{Path, PathBuf};

/// The beginning of a specification's name, its writer, and the container in which that program runs
/// (k8s-dra-driver-gpu, k8s-device-plugin, nvidia-container-toolkit).
const WRITERS: [(&str, &str, &[&str]); 3] = [
    ("k8s.gpu.nvidia.com", "the DRA driver's kubelet plugin", &["gpus"]),
    (
        "k8s.device-plugin.nvidia.com",
        "the device plugin",
        &["nvidia-device-plugin", "nvidia-device-plugin-ctr"],
    ),
    ("management.nvidia.com", "the toolkit's container", &["nvidia-container-toolkit-ctr"]),
];
/// In a message of the runtime about two specifications that define one device (cdi, `pkg/cdi/cache.go`).
const CONFLICT: &str = "conflicting device";

/// Specifications with libraries of a driver that was here before.
pub(super) fn stale(case: &Case<'_>) -> Option<Finding> {
    let loaded = case.symptoms.driver.loaded.1.as_ref().ok()?.as_deref()?;
    let specs = case.symptoms.runtimes.toolkit.cdi_specs.as_ref().ok()?;
    let old: Vec<_> = specs.iter().filter(|(_, of)| !of.is_empty() && !of.contains(loaded)).collect();
    let findings = old.iter().map(|(path, versions)| {
        let versions: Vec<_> = versions.iter().map(String::as_str).collect();
        let by = writer(path).map_or_else(String::new, |(who, _)| format!("; {who} writes it"));
        let seen = format!("names libraries of driver {}; {loaded} is loaded{by}", versions.join(", "));
        Finding::new(Id::CdiSpecStale, path.display(), seen)
    });
    let finding = findings.reduce(Finding::and)?;
    let is_replaced = specs.values().any(|versions| versions.contains(loaded));
    let of_pod = old.iter().find_map(|(path, _)| writer(path));
    let finding = of_host(finding, old.iter().map(|(path, _)| *path)).with(SPEC_OF_POD, of_pod.is_some());
    let pod = of_pod.and_then(|(_, containers)| {
        let mut pods = containers.iter().filter_map(|name| case.symptoms.survey.pods.with(name));
        pods.find_map(|pod| pod.name.as_ref())
    });
    let finding = match pod {
        Some((namespace, name)) => finding.word("writer", CommandText::pod(namespace, name)),
        None => finding.word("writer", "-n NAMESPACE POD"),
    };
    Some(finding.with(SPEC_REPLACED, is_replaced))
}

/// With the file of the host's own, if two specifications define the device that the finding names.
pub(super) fn with_conflict(case: &Case<'_>, finding: Finding) -> Finding {
    let Ok(specs) = &case.symptoms.runtimes.toolkit.cdi_specs else { return finding };
    let words: String = finding.evidence.iter().map(|evidence| evidence.seen.as_str()).collect();
    let named: Vec<_> = specs.keys().filter(|path| words.contains(&*on_node(path))).collect();
    let is_conflict = words.contains(CONFLICT);
    let finding = of_host(finding, named.into_iter());
    let has_file = finding.facts.is(SPEC_OF_HOST) == Some(true);
    finding.with(SPECS_CONFLICT, is_conflict && has_file)
}

/// With the first of these that no pod writes.
fn of_host<'p>(finding: Finding, mut specs: impl Iterator<Item = &'p PathBuf>) -> Finding {
    match specs.find(|path| writer(path).is_none()) {
        Some(path) => {
            finding.with(SPEC_OF_HOST, true).word("host-spec", CommandText::plain(&on_node(path), "FILE"))
        }
        None => finding,
    }
}

/// The path as the node names it, whatever root was looked at.
fn on_node(path: &Path) -> String {
    let path = path.to_string_lossy();
    let at = ["/etc/cdi/", "/run/cdi/"].iter().filter_map(|directory| path.rfind(directory)).max();
    path[at.unwrap_or_default()..].to_owned()
}

fn writer(path: &Path) -> Option<(&'static str, &'static [&'static str])> {
    let name = path.file_name()?.to_str()?;
    WRITERS
        .iter()
        .find(|(prefix, ..)| name.starts_with(prefix))
        .map(|(_, who, containers)| (*who, *containers))
}
