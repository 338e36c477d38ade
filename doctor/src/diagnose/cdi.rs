// SPDX-License-Identifier: Apache-2.0
//! CDI specifications, and who wrote each: its name says it.

use super::Case;
use super::facts::arguments;
use crate::finding::fact::{SPEC_OF_HOST, SPEC_OF_POD, SPEC_REPLACED, SPECS_CONFLICT};
use crate::finding::{Finding, Id};
use crate::symptoms::runtime::CdiSpec;
use peermem_gate::words::facts::UNKNOWN_POD;
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

/// Specifications that do not fit the loaded driver: a generated file is compared with what it describes, before
/// anybody complains.
pub(super) fn stale(case: &Case<'_>) -> Option<Finding> {
    let loaded = case.symptoms.driver.loaded.1.as_ref().ok()?.as_deref()?;
    let specs = case.symptoms.runtimes.toolkit.cdi_specs.as_ref().ok()?;
    let unlike = specs.iter().map(|(path, spec)| (path, differences(case, loaded, spec)));
    let old: Vec<_> = unlike.filter(|(_, differences)| !differences.is_empty()).collect();
    let evidence = old.iter().map(|(path, differences)| {
        let by = writer(path).map_or_else(String::new, |(who, _)| format!("; {who} writes it"));
        (path.display(), differences.join("; ") + &by)
    });
    let finding = Finding::of(Id::CdiSpecStale, evidence)?;
    let is_other = |path: &PathBuf| old.iter().all(|(one, _)| *one != path);
    let is_replaced = specs.iter().any(|(path, spec)| is_other(path) && spec.versions.contains(loaded));
    let of_pod = old.iter().find_map(|(path, _)| writer(path));
    let finding = of_host(finding, old.iter().map(|(path, _)| *path)).with(SPEC_OF_POD, of_pod.is_some());
    let pod = of_pod.and_then(|(_, containers)| {
        let mut pods = containers.iter().filter_map(|name| case.symptoms.survey.pods.with(name));
        pods.find_map(arguments)
    });
    let finding = finding.word("writer", pod.unwrap_or_else(|| UNKNOWN_POD.into()));
    Some(finding.with(SPEC_REPLACED, is_replaced))
}

/// How the specification differs from the driver that is loaded, and from the device files that are there now.
fn differences(case: &Case<'_>, loaded: &str, spec: &CdiSpec) -> Vec<String> {
    let driver = &case.symptoms.driver;
    let mut found = Vec::new();
    if !spec.versions.is_empty() && !spec.versions.contains(loaded) {
        let versions: Vec<_> = spec.versions.iter().map(String::as_str).collect();
        found.push(format!("names libraries of driver {}; {loaded} is loaded", versions.join(", ")));
    }
    for (path, given) in &spec.nodes {
        let Some(path) = path.strip_prefix(&*driver.root.to_string_lossy()).or(Some(path)) else { continue };
        let major = || driver.majors.get(path.strip_prefix("/dev/")?).copied();
        let minor = given.map_or(0, |(_, minor)| minor);
        let now = driver.numbers.get(path).copied().or_else(|| Some((major()?, minor)));
        if let (Some((major, minor)), Some(now)) = (given, now)
            && (*major, *minor) != now
        {
            let now = format!("the kernel has {}:{}", now.0, now.1);
            found.push(format!("gives {path} the device number {major}:{minor}; {now}"));
        }
    }
    found
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
