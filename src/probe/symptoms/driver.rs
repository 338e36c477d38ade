// SPDX-License-Identifier: Apache-2.0
//! NVIDIA's driver: its container, its root, its versions, its devices.

use crate::config::{Places, below};
use crate::environment::Variables;
use crate::observation::{Seen, Unreadable};
use crate::probe::module_file;
use crate::probe::peermem::Inspected;
use crate::probe::read::{open, small, unreadable};
use crate::symptoms::Driver;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// gpu-driver-container: the pid file of its `nvidia-driver` script, which runs in the host's pid namespace.
const PID_FILE: &str = "run/nvidia/nvidia-driver.pid";
const SCRIPT: &str = "nvidia-driver";
/// Where a driver container shows its root.
const ROOT: &str = "run/nvidia/driver";
/// What the operator tells its containers, and so would tell the gate.
const TOLD: [&str; 2] = ["GPU_DIRECT_RDMA_ENABLED", "USE_HOST_MOFED"];
/// An environment is at most a few pages.
const ENVIRON: u64 = 256 * 1024;

/// The driver container that runs on this node.
#[derive(Clone, Debug)]
pub struct Container {
    /// Its environment's file.
    pub environ: PathBuf,
    /// Its mounts' file.
    pub mountinfo: PathBuf,
    /// What the operator tells it.
    pub told: Variables,
}

impl Container {
    /// Found by its pid file; `None` where there is none, or its environment cannot be read.
    #[must_use]
    pub fn find(root: &Path, proc: &Path) -> Option<Self> {
        let pid: u32 = small(&root.join(PID_FILE)).ok()??.trim().parse().ok()?;
        let directory = proc.join(pid.to_string());
        // The file outlives the process, whose number another may have by now.
        if small(&directory.join("comm")) != Ok(Some(SCRIPT.to_owned())) {
            return None;
        }
        let environ = directory.join("environ");
        let mut bytes = Vec::new();
        open(&environ).and_then(|file| file.take(ENVIRON).read_to_end(&mut bytes)).ok()?;
        let told = bytes.split(|byte| *byte == 0).filter_map(|entry| {
            let at = entry.iter().position(|byte| *byte == b'=')?;
            let [name, value] =
                [&entry[..at], &entry[at + 1..]].map(|text| OsString::from_vec(text.to_vec()));
            TOLD.iter().any(|told| name == *told).then_some((name, value))
        });
        Some(Self { told: told.collect(), mountinfo: directory.join("mountinfo"), environ })
    }

    /// Our own variables, and where they say nothing, the container's.
    #[must_use]
    pub fn completed(&self, own: &Variables) -> Variables {
        let is_new = |name: &OsStr| own.iter().all(|(known, _)| known != name);
        own.iter().chain(self.told.iter().filter(|(name, _)| is_new(name))).cloned().collect()
    }
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
