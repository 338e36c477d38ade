// SPDX-License-Identifier: Apache-2.0
//! NVIDIA's driver: loaded, of one version, with its files and its device nodes.

use super::{Case, DEVICES};
use crate::chain::{DRIVER_CTR_READY, span};
use crate::finding::fact::KEPT_OUT;
use crate::finding::{Finding, Id};
use crate::log::LogEvent;
use crate::symptoms::{MountViewer, PciFunction};
use peermem_gate::ready::condition::ConditionType;
use peermem_gate::ready::judge::next_build::{NextBuild, needs_driver_build};
use peermem_gate::ready::observation::{Lock, ModuleFile};
use peermem_gate::ready::verdict::Outcome;
use peermem_gate::survey::process::Role;
use peermem_gate::words::next_build;
use std::collections::BTreeSet;

const NVIDIA: &str = "nvidia";
const NODE: &str = "nvidiactl";
/// In seconds. No build takes longer than this; a script that still has nothing to show then hangs.
const LONG: i64 = 45 * 60;

pub(super) fn judge(case: &Case<'_>) -> Vec<Finding> {
    let mut found: Vec<_> =
        [building(case), build_failed(case), beside(case)].into_iter().flatten().collect();
    if !case.is_live(NVIDIA) {
        found.extend(other_kernel(case));
        found.extend(root_left(case));
        found.extend(not_loaded(case));
        return found;
    }
    let root = root(case);
    let is_known = root.as_ref().is_some_and(|finding| finding.id == Id::UserspaceOnlyInstall);
    let skipped = skipped(case).filter(|_| !is_known);
    found.extend([version(case), root, skipped, nodes(case), char_links(case)].into_iter().flatten());
    found
}

/// GPUs that are there for this node, and not for a virtual machine.
fn gpus<'a>(case: &'a Case<'_>) -> Vec<&'a PciFunction> {
    let gpus = case.symptoms.gpus();
    gpus.filter(|gpu| gpu.driver.as_deref() != Some("vfio-pci")).collect()
}

/// A GPU of another driver has its own finding, and a node without NVIDIA's software needs no module.
fn not_loaded(case: &Case<'_>) -> Option<Finding> {
    let gpu = *gpus(case).first()?;
    let settings = &case.symptoms.settings;
    let driver = &case.symptoms.driver;
    let is_wanted = settings.operator.is_some()
        || case.has_driver_pod()
        || settings.rdma.is_on()
        || settings.rdma_trace.is_some()
        || matches!(driver.nvidia_file, Ok(Some(_)))
        || !driver.other_kernels.is_empty()
        || case.symptoms.chain.has_directory == Ok(true);
    let is_bound = gpus(case).iter().any(|gpu| gpu.driver.as_deref() == Some(NVIDIA));
    if case.line(NVIDIA).is_some() || case.seen.modules.proc.is_err() {
        return None;
    }
    if !is_wanted {
        return not_installed(case).filter(|_| !is_bound);
    }
    let driver =
        gpu.driver.as_ref().map_or_else(|| "no driver".to_owned(), |driver| format!("driver {driver}"));
    let source = format!("{DEVICES}/{}", gpu.address);
    // A driver container has modprobe files of its own.
    let kept_out = case.symptoms.driver.kept_out.iter().filter(|_| case.is_container_driver() == Some(false));
    let kept_out =
        Finding::of(Id::DriverNotLoaded, kept_out.map(|(path, line)| (path.display(), line.as_str())));
    let kept_out = kept_out.map(|finding| finding.with(KEPT_OUT, true));
    let not_loaded = Finding::new(Id::DriverNotLoaded, "/proc/modules", "nvidia is not loaded");
    let finding = kept_out.into_iter().chain([not_loaded]).reduce(Finding::and)?;
    let refused = case.logged(&[LogEvent::ModuleRefused], &[LogEvent::DriverReady, LogEvent::NvidiaLoaded]);
    Some(case.and_log(finding.seen(source, format!("a GPU, with {driver}")), refused))
}

/// Nobody needs to wait for a driver that nothing here brings.
fn not_installed(case: &Case<'_>) -> Option<Finding> {
    let bare: Vec<_> = gpus(case).into_iter().filter(|gpu| !gpu.is_virtual).collect();
    let first = bare.first()?;
    let bound = first.driver.as_deref().unwrap_or("no driver");
    let seen = format!("GPUs that are bound to {bound}: {}", bare.len());
    let finding = Finding::new(Id::DriverNotInstalled, format!("{DEVICES}/{}", first.address), seen);
    let release = &case.seen.kernel.release;
    let finding =
        finding.seen(format!("/lib/modules/{release}"), "has no nvidia.ko: the driver is not installed");
    Some(case.and_log(finding, case.logged(&[LogEvent::PackageNotInstalled], &[LogEvent::NvidiaLoaded])))
}

/// Its script still runs: whatever is missing may still come.
fn building(case: &Case<'_>) -> Option<Finding> {
    let seen = &case.symptoms.chain;
    let script = case.process(Role::Driver)?;
    let is_ready = seen.stamp(DRIVER_CTR_READY).written() >= script.started && script.started.is_some();
    let has_root =
        case.is_live(NVIDIA) && case.symptoms.driver.has_modules && !case.symptoms.driver.is_on_host;
    if is_ready || has_root {
        return None;
    }
    let age = script.started.and_then(|started| seen.clock.age(started)).filter(|age| *age < LONG)?;
    let source = script.directory.join("cmdline");
    let finding = Finding::new(Id::DriverBuilding, source.display(), script.arguments.join(" "));
    let finding = finding.seen(script.directory.join("stat").display(), format!("started {} ago", span(age)));
    Some(case.and_log(finding, case.logged(&[LogEvent::DriverBuildStarted], &[LogEvent::DriverReady])))
}

fn build_failed(case: &Case<'_>) -> Option<Finding> {
    use LogEvent::{DriverBuildFinished, DriverBuildStarted, DriverInstalled, DriverMounted, DriverReady};
    let overcome = [DriverReady, DriverMounted, DriverInstalled, DriverBuildFinished];
    let failed = case.logged(&[LogEvent::DriverBuildFailed], &overcome);
    // A repository that was out of reach for a moment does not matter to a build that has started since.
    let has_gone_on = [overcome.as_slice(), &[DriverBuildStarted]].concat();
    let found = failed.or_else(|| case.logged(&[LogEvent::DriverPackagesUnreachable], &has_gone_on))?;
    (!case.is_listed_live(NVIDIA))
        .then(|| case.and_trouble_of(case.by_log(Id::DriverBuildFailed, found), "nvidia-driver-ctr"))
}

/// The host's own driver for this kernel, and a container that brings another, or tries to.
fn beside(case: &Case<'_>) -> Option<Finding> {
    let file = case.symptoms.driver.on_host.as_ref()?;
    if case.logged(&[LogEvent::DriverPreinstalled], &[LogEvent::DriverReady]).is_some() {
        return None;
    }
    let finding = Finding::new(Id::HostDriverBesideContainer, file.display(), "belongs to the host");
    let runs = case.process(Role::Driver).filter(|driver| driver.pod.is_some());
    if let Some(container) = runs {
        return Some(finding.seen(container.directory.display(), "is a driver container's script"));
    }
    let refused =
        case.logged(&[LogEvent::DriverInUse], &[LogEvent::DriverReady, LogEvent::DriverManagerDone])?;
    Some(case.and_log(finding, Some(refused)))
}

/// A driver container mounts its root once its modules are loaded, and takes it away before it unloads them
/// (gpu-driver-container, `_mount_rootfs`). Without nvidia it is an earlier container's.
fn root_left(case: &Case<'_>) -> Option<Finding> {
    let host = case.host_view()?;
    let mount = host.mounts.as_ref().ok()?.driver_roots.last()?;
    let is_gone = case.is_loaded(&[NVIDIA]) == Some(false);
    let manager = case.process(Role::DriverManager);
    let is_at_work = case.symptoms.chain.driver_runs == Some(true) || manager.is_some();
    let seen =
        format!("{mount} is mounted, though nvidia is not loaded: an earlier driver container left it");
    let finding = Finding::new(Id::DriverRootLeft, host.source.display(), seen);
    (is_gone && !is_at_work).then(|| case.and_trouble_of(finding, "nvidia-driver-ctr"))
}

/// As after a kernel update: the files exist, for the previous kernel.
fn other_kernel(case: &Case<'_>) -> Option<Finding> {
    let driver = &case.symptoms.driver;
    let first = driver.other_kernels.first()?;
    let is_waiting = case.process(Role::DriverManager).is_some();
    (driver.is_on_host && !is_waiting && !case.has_driver_pod()).then(|| {
        let kernels = driver.other_kernels.join(", ");
        let source = driver.root.join("lib/modules").join(first);
        let release = &case.seen.kernel.release;
        Finding::new(Id::DriverForOtherKernel, source.display(), format!("nvidia.ko exists for {kernels}"))
            .seen("/proc/sys/kernel/osrelease", format!("{release} is running and has none"))
    })
}

/// runc allows devices by these links once systemd writes its own device rules again.
fn char_links(case: &Case<'_>) -> Option<Finding> {
    /// The device files' major number (linux/Documentation/admin-guide/devices.txt).
    const MAJOR: &str = "195:";
    let links = case.symptoms.driver.char_links.as_ref().ok()?.as_deref().unwrap_or_default();
    let (dir, nodes) = case.symptoms.driver.nodes.iter().find(|(_, names)| names.is_ok())?;
    let has_nodes = nodes.iter().flatten().any(|node| node == NODE);
    let is_operators = case.symptoms.chain.stamp(crate::chain::DRIVER_READY).written().is_some();
    let is_missing = !links.iter().any(|link| link.starts_with(MAJOR));
    let seen = format!("no link begins with {MAJOR}, the number of NVIDIA's devices");
    (has_nodes && is_operators && is_missing && !is_private(case))
        .then(|| Finding::new(Id::DevCharLinksMissing, dir.join("char").display(), seen))
}

/// The loaded module's version, by both of the kernel's sources, against the files.
fn version(case: &Case<'_>) -> Option<Finding> {
    let driver = &case.symptoms.driver;
    let read = driver.version_file.1.iter().flatten().find_map(|line| number(line));
    let loaded = driver.loaded.1.iter().flatten().find_map(|text| number(text));
    let (source, loaded) = match (loaded, read) {
        (Some(loaded), Some(read)) if loaded != read => {
            let finding = Finding::new(Id::DriverVersionMismatch, driver.version_file.0.display(), read);
            return Some(finding.seen(driver.loaded.0.display(), loaded));
        }
        (Some(loaded), _) => (&driver.loaded.0, loaded),
        (None, read) => (&driver.version_file.0, read?),
    };
    let finding =
        Finding::new(Id::DriverVersionMismatch, source.display(), format!("nvidia {loaded} is loaded"));
    let is_other = |version: &str| number(version).is_some_and(|version| version != loaded);
    if let Some((path, version)) = driver.library.as_ref().filter(|(_, version)| is_other(version)) {
        return Some(finding.seen(path.display(), format!("programs use the library of {version}")));
    }
    let ModuleFile::Read { path, info, .. } = &case.seen.peermem.as_ref()?.file else { return None };
    let file = info.version.as_deref().filter(|version| *version != loaded)?;
    Some(finding.seen(path.display(), format!("is of {file}")))
}

/// `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.45.04  Release Build`.
fn number(line: &str) -> Option<&str> {
    let is_number =
        |word: &&str| word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    line.split_whitespace().find(is_number)
}

fn root(case: &Case<'_>) -> Option<Finding> {
    let (driver, chain) = (&case.symptoms.driver, &case.symptoms.chain);
    let (ModuleFile::Missing(directory) | ModuleFile::Away(directory)) = &case.seen.peermem.as_ref()?.file
    else {
        return None;
    };
    // A loaded module needs no file, and neither does a node without RDMA.
    if case.is_live("nvidia_peermem") || case.verdict.outcome == Outcome::NotApplicable {
        return None;
    }
    let by_log = case.logged(&[LogEvent::UserspaceOnlyInstall], &[]);
    if driver.is_on_host && !driver.has_modules && by_log.is_none() {
        let seen = "it has no lib/modules, but nvidia is live";
        return Some(Finding::new(Id::DriverRootMissing, driver.root.display(), seen));
    }
    // The host's root says nothing of what a container that has ended had installed.
    let has_ended = matches!(chain.driver, Lock::Free | Lock::NoFile) && chain.driver_runs != Some(true);
    if driver.is_on_host && driver.on_host.is_none() && case.has_driver_pod() && has_ended && by_log.is_none()
    {
        let seen = "no driver container runs and shows one, but nvidia is live";
        return Some(Finding::new(Id::DriverRootMissing, "/run/nvidia/driver", seen));
    }
    let is_missing = matches!(driver.nvidia_file, Ok(None));
    let seen = "has neither nvidia.ko nor nvidia-peermem.ko, but nvidia is live";
    let finding = is_missing.then(|| Finding::new(Id::UserspaceOnlyInstall, directory.display(), seen))?;
    let finding = case.and_log(finding, by_log);
    let (path, state) = &driver.state;
    let digest = state.iter().flatten();
    let settings = digest.map(|digest| format!("{digest}: the settings with which nvidia was loaded"));
    Some(finding.all(settings.map(|seen| (path.display(), seen))))
}

/// Whatever is wrong with nvidia-peermem.ko, a new driver pod does not cure it.
fn skipped(case: &Case<'_>) -> Option<Finding> {
    next_build(case.expected, case.seen).filter(NextBuild::is_skipped)?;
    let digest = case.expected.driver_digest.as_deref()?;
    let usable = case.verdict.get(ConditionType::PeermemUsable);
    usable.filter(|condition| needs_driver_build(condition.reason) && case.verdict.counts(condition))?;
    let state = case.symptoms.driver.state.0.display();
    let seen = format!("the file has {digest}, the value of the driver pod's DRIVER_CONFIG_DIGEST");
    Some(Finding::new(Id::BuildSkipped, state, seen).seen("/proc/modules", "nvidia is loaded"))
}

fn nodes(case: &Case<'_>) -> Option<Finding> {
    let nodes = &case.symptoms.driver.nodes;
    // A virtual function is its physical function's: it gets no device file.
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
    // The validator may be ready without it (gpu-operator#2685).
    let uvm = case.is_listed_live("nvidia_uvm").then_some("nvidia-uvm");
    let named = [Some(NODE), uvm].into_iter().flatten().filter(|name| !has(name));
    let missing: Vec<_> = named.chain(too_few.then_some("one with a number for each GPU")).collect();
    let (dir, _) = nodes.iter().find(|(_, names)| names.is_ok())?;
    let seen = format!("missing: {}; GPUs bound to nvidia: {gpus}", missing.join(", "));
    let lacks = (!missing.is_empty()).then(|| (dir.display().to_string(), seen));
    Finding::of(Id::DeviceNodesMissing, lacks.into_iter().chain(old_numbers(case)))
}

/// A node that was made for another boot has the number that its driver had then.
fn old_numbers(case: &Case<'_>) -> impl Iterator<Item = (String, String)> {
    let driver = &case.symptoms.driver;
    driver.numbers.iter().filter_map(|(path, (major, _))| {
        let now = driver.majors.get(path.strip_prefix("/dev/")?).filter(|now| *now != major)?;
        Some((path.clone(), format!("has the major number {major}; the kernel's is {now} (/proc/devices)")))
    })
}

/// A container has its own `/dev`, which shows nothing of the host's.
fn is_private(case: &Case<'_>) -> bool {
    let own = case.symptoms.views.iter().find(|view| view.viewer == MountViewer::Own);
    let devices = own.and_then(|view| view.mounts.as_ref().ok()?.devices.as_ref());
    devices.is_some_and(|mount| mount.fs_type != "devtmpfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_word_made_of_digits_and_dots() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.45.04  Release Build  (x@y)";
        assert_eq!(number(open), Some("595.45.04"));
        let closed =
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023";
        assert_eq!(number(closed), Some("535.104.05"));
        assert_eq!(number("nothing of that kind."), None);
    }
}
