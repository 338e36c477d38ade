// SPDX-License-Identifier: Apache-2.0
//! The host itself: its distribution, its boot, what it loads by itself and what it allows.

use super::privilege::signatures;
use super::read::{entries, lines, open, small, whole};
use super::root::resolve;
use crate::node::{Places, below};
use crate::symptoms::host::Host;
use crate::symptoms::process::{Processes, Role};
use flate2::read::GzDecoder;
use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// systemd-modules-load reads them (modules-load.d(5)); Debian's own list is the last.
const LOADED: [&str; 4] =
    ["/etc/modules-load.d", "/run/modules-load.d", "/usr/lib/modules-load.d", "/etc/modules"];
const FILES: usize = 1000;
const FILE: u64 = 64 * 1024;
/// A kernel's configuration has some 300 KiB.
const CONFIGURATION: u64 = 4 * 1024 * 1024;
const P2PDMA_OFF: &str = "# CONFIG_PCI_P2PDMA is not set";
const LIMITS: u64 = 16 * 1024;
const MEMLOCK: &[u8] = b"Max locked memory";

pub(super) fn read(places: &Places, processes: &Processes, release: &str) -> Host {
    let root = &places.root;
    let full = |path: &str| below(root, Path::new(path));
    let text = |path: &str| whole(&resolve(root, &full(path)).ok()?, FILE).ok();
    let release_file = text("/etc/os-release").or_else(|| text("/usr/lib/os-release")).unwrap_or_default();
    let value = |name: &str| {
        let line = release_file.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map(|value| value.trim_matches(['"', '\'']).to_owned())
    };
    let distribution = value("ID").unwrap_or_default();
    Host {
        is_openshift: distribution == "rhcos" || value("OPENSHIFT_VERSION").is_some(),
        distribution,
        command_line: small(&places.proc.join("cmdline")),
        signatures: signatures(&places.sys),
        without_p2pdma: without_p2pdma(places, release),
        memlock: memlock(processes),
    }
}

pub(super) fn loads_peermem(root: &Path) -> Vec<PathBuf> {
    let files = LOADED.iter().flat_map(|place| {
        let place = below(root, Path::new(place));
        let real = resolve(root, &place).unwrap_or_default();
        match entries(&real, FILES) {
            Ok(files) => files.into_iter().map(|file| place.join(file.file_name())).collect(),
            Err(_) => vec![place],
        }
    });
    let is_listed = |path: &PathBuf| {
        let text = resolve(root, path).and_then(|real| whole(&real, FILE)).unwrap_or_default();
        text.lines().any(|line| line.trim().replace('-', "_") == "nvidia_peermem")
    };
    files.filter(is_listed).collect()
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

fn memlock(processes: &Processes) -> Option<(PathBuf, String)> {
    let path = processes.first(Role::Runtime)?.directory.join("limits");
    let mut found = None;
    let read = lines(&path, LIMITS, |line| match line.strip_prefix(MEMLOCK) {
        Some(limits) => {
            found = Some(String::from_utf8_lossy(limits).trim().to_owned());
            ControlFlow::Break(())
        }
        None => ControlFlow::Continue(()),
    });
    read.ok()?;
    Some((path, found?))
}
