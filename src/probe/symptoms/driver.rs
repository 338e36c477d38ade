// SPDX-License-Identifier: Apache-2.0
//! NVIDIA's driver: its root, its versions, its devices.

use crate::node::{Places, below};
use crate::observation::{Seen, Unreadable};
use crate::probe::driver_root::driver_root;
use crate::probe::peermem::Inspected;
use crate::probe::read::{small, unreadable};
use crate::probe::{PEERMEM, module_file};
use crate::symptoms::Driver;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// gpu-driver-container, `DRIVER_CONFIG_STATE_FILE`.
const STATE: &str = "/run/nvidia/nvidia-driver.state";

pub(super) fn read(places: &Places, release: &str, inspected: &mut Inspected) -> Driver {
    let file = |path: PathBuf| {
        let line =
            small(&path).map(|text| text.map(|text| text.lines().next().unwrap_or_default().to_owned()));
        (path, line)
    };
    let root = driver_root(places, release);
    let dev = below(&places.root, Path::new("/dev"));
    let char = char_links(&dev.join("char"));
    let mut dev_dirs = vec![dev, root.join("dev")];
    dev_dirs.dedup();
    let nvidia_file = inspected.find(&root, release, "nvidia").map(|found| found.map(|found| found.path));
    let peermem = inspected.find(&root, release, PEERMEM).ok().flatten().map(|found| found.real);
    let peermem = peermem.or_else(|| crate::probe::driver_root::built_for_a_container(places));
    Driver {
        is_on_host: root == places.root,
        has_modules: module_file::directory(&root, "").is_dir(),
        other_kernels: match nvidia_file {
            Ok(None) => module_file::other_kernels(&root, release, "nvidia", |_| true),
            _ => Vec::new(),
        },
        on_host: inspected.find(&places.root, release, "nvidia").ok().flatten().map(|found| found.path),
        nvidia_file,
        told: file(places.proc.join("driver/nvidia/version")),
        loaded: file(places.sys.join("module/nvidia/version")),
        client: file(places.sys.join("kernel/mm/memory_peers/nv_mem/version")),
        state: file(below(&places.root, Path::new(STATE))),
        nodes: dev_dirs.into_iter().map(|dir| (dir.clone(), nodes(&dir))).collect(),
        char_links: char,
        peermem_written: peermem.and_then(|path| path.metadata().ok()).map(|metadata| metadata.mtime()),
        root,
    }
}

fn char_links(directory: &Path) -> Seen<Option<Vec<String>>> {
    match directory.read_dir() {
        Ok(entries) => Ok(Some(
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect(),
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(directory, &error)),
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
