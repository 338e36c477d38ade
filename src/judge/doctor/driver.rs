// SPDX-License-Identifier: Apache-2.0
//! NVIDIA's driver: loaded, of one version, with its files and its device nodes.

use super::Case;
use crate::condition::Outcome;
use crate::finding::{Finding, Id};
use crate::observation::ModuleFile;
use crate::symptoms::{PciFunction, Whose};
use std::collections::BTreeSet;

const NVIDIA: &str = "nvidia";
const NODE: &str = "nvidiactl";

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    if !case.is_live(NVIDIA) {
        return not_loaded(case).into_iter().collect();
    }
    [version(case), root(case), nodes(case)].into_iter().flatten().collect()
}

/// GPUs that are there for this node, and not for a virtual machine.
fn gpus<'a>(case: &'a Case<'_>) -> Vec<&'a PciFunction> {
    let gpus = case.symptoms.gpus();
    gpus.filter(|gpu| gpu.driver.as_deref() != Some("vfio-pci")).collect()
}

fn not_loaded(case: &Case<'_>) -> Option<Finding> {
    let gpu = *gpus(case).first()?;
    if case.line(NVIDIA).is_some() || case.seen.modules.proc.is_err() {
        return None;
    }
    let driver =
        gpu.driver.as_ref().map_or_else(|| "no driver".to_owned(), |driver| format!("driver {driver}"));
    let source = format!("/sys/bus/pci/devices/{}", gpu.address);
    Some(
        Finding::new(Id::DriverNotLoaded, "/proc/modules", "nvidia is not loaded")
            .seen(source, format!("a GPU, with {driver}")),
    )
}

/// What is loaded, by the kernel's two words for it, against the files.
fn version(case: &Case<'_>) -> Option<Finding> {
    let driver = &case.symptoms.driver;
    let told = driver.told.1.iter().flatten().find_map(|line| number(line));
    let loaded = driver.loaded.1.iter().flatten().find_map(|text| number(text));
    let (source, loaded) = match (loaded, told) {
        (Some(loaded), Some(told)) if loaded != told => {
            let finding = Finding::new(Id::DriverVersionMismatch, driver.told.0.display(), told);
            return Some(finding.seen(driver.loaded.0.display(), loaded));
        }
        (Some(loaded), _) => (&driver.loaded.0, loaded),
        (None, told) => (&driver.told.0, told?),
    };
    let ModuleFile::Read { path, info, .. } = &case.seen.peermem.as_ref()?.file else { return None };
    let file = info.version.as_deref().filter(|version| *version != loaded)?;
    let finding =
        Finding::new(Id::DriverVersionMismatch, source.display(), format!("nvidia {loaded} is loaded"));
    Some(finding.seen(path.display(), format!("is of {file}")))
}

/// `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.45.04  Release Build`.
fn number(line: &str) -> Option<&str> {
    let is_number =
        |word: &&str| word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    line.split_whitespace().find(is_number)
}

fn root(case: &Case<'_>) -> Option<Finding> {
    let driver = &case.symptoms.driver;
    let ModuleFile::Missing(directory) = &case.seen.peermem.as_ref()?.file else { return None };
    // Loaded is loaded, wherever its file has gone; and without RDMA nobody needs the file.
    if case.is_live("nvidia_peermem") || case.verdict.outcome == Outcome::NotApplicable {
        return None;
    }
    if !driver.has_modules {
        let seen = "there is no lib/modules in it, and nvidia is live";
        return Some(Finding::new(Id::DriverRootMissing, driver.root.display(), seen));
    }
    let is_missing = matches!(driver.nvidia_file, Ok(None));
    let seen = "holds neither nvidia.ko nor nvidia-peermem.ko, and nvidia is live";
    is_missing.then(|| Finding::new(Id::UserspaceOnlyInstall, directory.display(), seen))
}

fn nodes(case: &Case<'_>) -> Option<Finding> {
    let nodes = &case.symptoms.driver.nodes;
    // A virtual function is its physical function's: it gets no node of its own.
    let is_shown = |gpu: &&&PciFunction| gpu.driver.as_deref() == Some(NVIDIA) && !gpu.is_virtual;
    let gpus = gpus(case).iter().filter(is_shown).count();
    if gpus == 0 || is_private(case) {
        return None;
    }
    let all = || nodes.iter().filter_map(|(_, names)| names.as_ref().ok()).flatten();
    let has = |name: &str| all().any(|node| node == name);
    let is_numbered = |node: &&String| {
        let number = node.strip_prefix(NVIDIA).unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    // Numbers may leave gaps, where a GPU was taken out.
    let too_few = all().filter(is_numbered).collect::<BTreeSet<_>>().len() < gpus;
    let uvm = case.is_listed_live("nvidia_uvm").then_some("nvidia-uvm");
    let named = [Some(NODE), uvm].into_iter().flatten().filter(|name| !has(name));
    let missing: Vec<_> = named.chain(too_few.then_some("a numbered one for each GPU")).collect();
    let (dir, _) = nodes.iter().find(|(_, names)| names.is_ok())?;
    let seen = format!("missing: {}; GPUs bound to nvidia: {gpus}", missing.join(", "));
    (!missing.is_empty()).then(|| Finding::new(Id::DeviceNodesMissing, dir.display(), seen))
}

/// A container has a `/dev` of its own, which says nothing of the host's.
fn is_private(case: &Case<'_>) -> bool {
    let own = case.symptoms.views.iter().find(|view| view.whose == Whose::Own);
    let devices = own.and_then(|view| view.mounts.as_ref().ok()?.devices.as_ref());
    devices.is_some_and(|mount| mount.fs_type != "devtmpfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_word_of_digits_and_dots() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.45.04  Release Build  (x@y)";
        assert_eq!(number(open), Some("595.45.04"));
        let closed =
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023";
        assert_eq!(number(closed), Some("535.104.05"));
        assert_eq!(number("nothing of that kind."), None);
    }
}
