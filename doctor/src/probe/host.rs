// SPDX-License-Identifier: Apache-2.0
//! The host itself: its distribution, its boot, what it loads by itself and what it allows.

use super::paths::is_guest;
use super::{line_after, listed, there};
use crate::log::{DkmsFailure, failed_build};
use crate::symptoms::host::Host;
use flate2::read::GzDecoder;
use peermem_gate::process::privilege::signatures;
use peermem_gate::ready::files::read::{FileEnd, lines, open, small, whole};
use peermem_gate::ready::files::root::resolve;
use peermem_gate::ready::node::{Places, below};
use peermem_gate::survey::process::{Processes, Role};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

const FILE: u64 = 64 * 1024;
/// A kernel's configuration has some 300 KiB.
const CONFIGURATION: u64 = 4 * 1024 * 1024;
const P2PDMA_OFF: &str = "# CONFIG_PCI_P2PDMA is not set";
/// Vendors that sell no physical machine with GPUs.
const HYPERVISORS: [&str; 6] = ["QEMU", "OpenStack", "VMware", "Red Hat", "Nutanix", "Xen"];
/// A kernel has some thousands of modules, and for each a line of some hundred bytes.
const DEPENDENCIES: u64 = 16 * 1024 * 1024;
const OF_FABRIC: [&str; 2] = ["mlx5_ib", "ib_umad"];
const LIMITS: u64 = 16 * 1024;
/// Far more than any host has.
const UNITS: usize = 10_000;

pub(super) fn read(places: &Places, processes: &Processes, release: &str) -> Host {
    let root = &places.root;
    let full = |path: &str| below(root, Path::new(path));
    let text =
        |path: &str| there(&full(path), resolve(root, &full(path)).and_then(|real| whole(&real, FILE)));
    let os_release = match text("/etc/os-release") {
        Ok(None) => text("/usr/lib/os-release"),
        found => found,
    };
    let os_release = os_release.map(Option::unwrap_or_default);
    let distribution = os_release.clone().map(|text| value(&text, "ID").unwrap_or_default());
    let is_openshift = os_release.is_ok_and(|text| value(&text, "OPENSHIFT_VERSION").is_some());
    let vendor = small(&places.sys.join("class/dmi/id/sys_vendor")).ok().flatten().unwrap_or_default();
    let is_virtual = HYPERVISORS.iter().any(|name| vendor.contains(name))
        || is_guest(&places.proc.join("cpuinfo"))
        || places.sys.join("hypervisor/type").exists();
    Host {
        is_openshift: distribution.as_ref().ok().map(|id| id == "rhcos" || is_openshift),
        distribution,
        is_virtual,
        command_line: small(&places.proc.join("cmdline")),
        signatures: signatures(&places.sys),
        without_p2pdma: without_p2pdma(places, release),
        lacks: lacks(root, release),
        enabled: enabled(root),
        failed_builds: failed_builds(root),
        memlock: memlock(processes),
    }
}

/// A value of os-release(5).
fn value(text: &str, name: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
    Some(value.trim_matches(['"', '\'']).to_owned())
}

fn without_p2pdma(places: &Places, release: &str) -> Option<PathBuf> {
    let packed = places.proc.join("config.gz");
    let plain = below(&places.root, Path::new("/boot")).join(format!("config-{release}"));
    let in_packed = || -> Option<bool> {
        let text = GzDecoder::new(open(&packed).ok()?).take(CONFIGURATION);
        Some(BufReader::new(text).lines().map_while(Result::ok).any(|line| line == P2PDMA_OFF))
    };
    let in_plain = || -> Option<bool> {
        let text = whole(&resolve(&places.root, &plain).ok()?, CONFIGURATION).ok()?;
        Some(text.lines().any(|line| line == P2PDMA_OFF))
    };
    match in_packed() {
        Some(is_off) => is_off.then_some(packed),
        None => in_plain()?.then_some(plain),
    }
}

/// None where there is no modules.dep: then it is unknown.
fn lacks(root: &Path, release: &str) -> Vec<&'static str> {
    let path = below(root, Path::new("/lib/modules")).join(release).join("modules.dep");
    let mut lacks = OF_FABRIC.to_vec();
    let read = resolve(root, &path).and_then(|real| {
        lines(&real, DEPENDENCIES, |line| {
            let name =
                line.split(|byte| *byte == b':').next().and_then(|file| file.rsplit(|b| *b == b'/').next());
            let stem = name.and_then(|name| name.split(|byte| *byte == b'.').next()).unwrap_or_default();
            lacks.retain(|module| module.as_bytes() != stem);
            ControlFlow::Continue(())
        })
    });
    if matches!(read, Ok(FileEnd::Whole)) { lacks } else { Vec::new() }
}

/// DKMS leaves `build` behind only where the build failed.
fn failed_builds(root: &Path) -> Vec<(PathBuf, DkmsFailure)> {
    let below_it = |path: PathBuf| listed(root, &path, UNITS).map(move |name| path.join(name));
    let modules = below_it(below(root, Path::new("/var/lib/dkms")));
    let logs = modules.flat_map(below_it).map(|version| version.join("build/make.log"));
    let failed = |path: PathBuf| {
        let text = whole(&resolve(root, &path).ok()?, CONFIGURATION).ok()?;
        Some((path, failed_build(text.as_bytes())?))
    };
    logs.filter_map(failed).collect()
}

/// The links that `systemctl enable` makes.
fn enabled(root: &Path) -> BTreeSet<String> {
    let base = below(root, Path::new("/etc/systemd/system"));
    let is_wants = |name: &String| Path::new(name).extension().is_some_and(|it| it == "wants");
    let wants = listed(root, &base, UNITS).filter(is_wants);
    wants.flat_map(|name| listed(root, &base.join(name), UNITS)).collect()
}

fn memlock(processes: &Processes) -> Option<(PathBuf, String)> {
    let path = processes.first(Role::Runtime)?.directory.join("limits");
    let limits = line_after(&path, LIMITS, "Max locked memory")?;
    Some((path, limits))
}
