// SPDX-License-Identifier: Apache-2.0
//! NVIDIA's driver: its container, its root, its versions, its devices.

use super::installed;
use crate::config::{Places, below};
use crate::environment::Variables;
use crate::observation::{ProcState, Seen, Unreadable};
use crate::probe::peermem::Inspected;
use crate::probe::read::{open, small, unreadable};
use crate::probe::{module_file, modules};
use crate::symptoms::{Driver, ToldBy};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// gpu-driver-container: the pid file of its `nvidia-driver` script, which runs in the host's pid namespace.
const PID_FILE: &str = "run/nvidia/nvidia-driver.pid";
const SCRIPT: &str = "nvidia-driver";
/// Where a driver container shows its root.
const ROOT: &str = "run/nvidia/driver";
/// What the operator tells its containers, and so would tell the gate.
const TOLD: [&str; 2] = ["GPU_DIRECT_RDMA_ENABLED", USE_HOST_MOFED];
const USE_HOST_MOFED: &str = "USE_HOST_MOFED";
/// What a MOFED container leaves, as the host sees it.
const LOCK: &str = "run/mellanox/drivers/.lock";
const MARKER: &str = "run/mellanox/drivers/.driver-ready";
/// An environment is at most a few pages.
const ENVIRON: u64 = 256 * 1024;

/// What the operator says on this node, as far as a process can know that nobody told.
#[derive(Clone, Debug)]
pub struct Operator {
    /// From where it is known.
    pub told_by: ToldBy,
    /// Our own variables, completed by it.
    pub variables: Variables,
    /// The mounts' file of the driver container that runs on this node.
    pub mountinfo: Option<PathBuf>,
}

impl Operator {
    /// Asks our own variables, where they say nothing the driver container's, found by its pid file,
    /// and where there is none the host.
    #[must_use]
    pub fn ask(root: &Path, proc: &Path, own: &Variables) -> Self {
        let is_told = |name: &str| own.iter().any(|(known, _)| known == name);
        let completed = |by: &[(&str, &str)]| {
            let new = by.iter().filter(|(name, _)| !is_told(name));
            own.iter().cloned().chain(new.map(|(name, value)| ((*name).into(), (*value).into()))).collect()
        };
        let container = container(root, proc);
        let mountinfo = container.as_ref().map(|directory| directory.join("mountinfo"));
        let (told_by, variables) = match container {
            _ if TOLD.iter().all(|name| is_told(name)) => (ToldBy::Ourselves, own.clone()),
            Some(directory) => match environment(&directory.join("environ")) {
                // The operator sets them where they are true, and nowhere else (gpu-operator,
                // manifests/state-driver/0500_daemonset.yaml).
                Ok(said) => {
                    let told = TOLD.map(|name| (name, said.get(name).map_or("false", String::as_str)));
                    (ToldBy::DriverContainer(directory.join("environ")), completed(&told))
                }
                Err(why) => (ToldBy::Unreadable(why), own.clone()),
            },
            None => match host_mofed(root, proc).filter(|_| !is_told(USE_HOST_MOFED)) {
                Some(sign) => (ToldBy::Nobody(sign), completed(&[(USE_HOST_MOFED, "true")])),
                None => (ToldBy::Ourselves, own.clone()),
            },
        };
        Self { told_by, variables, mountinfo }
    }
}

/// The directory of the driver container's process.
fn container(root: &Path, proc: &Path) -> Option<PathBuf> {
    let pid: u32 = small(&root.join(PID_FILE)).ok()??.trim().parse().ok()?;
    let directory = proc.join(pid.to_string());
    // The file outlives the process, whose number another may have by now.
    (small(&directory.join("comm")) == Ok(Some(SCRIPT.to_owned()))).then_some(directory)
}

/// Another user's is shown to who may trace that process only (proc(5)).
fn environment(path: &Path) -> Seen<BTreeMap<String, String>> {
    let mut bytes = Vec::new();
    let read = open(path).and_then(|file| file.take(ENVIRON).read_to_end(&mut bytes));
    let without = |why: &str| Unreadable {
        path: path.to_owned(),
        why: format!(
            "{why}: what the operator says is not known; it takes uid 0 and CAP_SYS_PTRACE, or {} set here",
            TOLD.join(" and ")
        ),
    };
    read.map_err(|error| without(&unreadable(path, &error).why))?;
    if bytes.is_empty() {
        // As of a process that ends.
        return Err(without("is empty"));
    }
    let text = String::from_utf8_lossy(&bytes);
    let pairs = text.split('\0').filter_map(|entry| entry.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// The sign of a MOFED on the host, where one is at work and no container's ever was: nvidia-peermem
/// is live on an out-of-tree `ib_core`, as on DGX OS.
fn host_mofed(root: &Path, proc: &Path) -> Option<PathBuf> {
    let sign = installed(root)?;
    if [LOCK, MARKER].iter().any(|file| root.join(file).symlink_metadata().is_ok()) {
        return None;
    }
    let modules = modules::read_proc(&proc.join("modules")).ok()?;
    let is = |name: &str, taint: &str| {
        let live = modules.named(name).filter(|module| module.state == ProcState::Live);
        live.into_iter().any(|module| module.taint.contains(taint))
    };
    (is("nvidia_peermem", "") && is("ib_core", "O")).then_some(sign)
}

/// The root of the container's driver, if one shows its own on this node.
#[must_use]
pub fn driver_root(root: &Path) -> Option<PathBuf> {
    let shown = root.join(ROOT);
    shown.join("lib/modules").is_dir().then_some(shown)
}

pub(super) fn read(places: &Places, release: &str, inspected: &mut Inspected) -> Driver {
    let file = |path: PathBuf| {
        let line =
            small(&path).map(|text| text.map(|text| text.lines().next().unwrap_or_default().to_owned()));
        (path, line)
    };
    let ready = places.root.join("run/nvidia/validations/.driver-ctr-ready");
    let dev = below(&places.root, Path::new("/dev"));
    let mut dev_dirs = vec![dev, places.driver_root.join("dev")];
    dev_dirs.dedup();
    Driver {
        root: places.driver_root.clone(),
        has_modules: module_file::directory(&places.driver_root, "").is_dir(),
        nvidia_file: inspected
            .find(&places.driver_root, release, "nvidia")
            .map(|found| found.map(|f| f.path)),
        told: file(places.proc.join("driver/nvidia/version")),
        loaded: file(places.sys.join("module/nvidia/version")),
        client: file(places.sys.join("kernel/mm/memory_peers/nv_mem/version")),
        ready: (ready.clone(), small(&ready)),
        nodes: dev_dirs.into_iter().map(|dir| (dir.clone(), nodes(&dir))).collect(),
    }
}

fn nodes(directory: &Path) -> Seen<Vec<String>> {
    let failed = |error: std::io::Error| -> Unreadable { unreadable(directory, &error) };
    let mut names = Vec::new();
    for entry in directory.read_dir().map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        if name.starts_with("nvidia") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
