// SPDX-License-Identifier: Apache-2.0
//! NVIDIA's driver: its root, its versions, its devices.

use super::super::{gpus, information};
use super::kept_out;
use crate::symptoms::Driver;
use nix::sys::stat::{major, minor};
use peermem_gate::peermem::driver_root::driver_root;
use peermem_gate::peermem::module_file;
use peermem_gate::ready::files::read;
use peermem_gate::ready::files::read::{entries, names, small, unreadable, whole};
use peermem_gate::ready::node::{Places, below};
use peermem_gate::ready::observation::{STATE_FILE as STATE, Seen};
use peermem_gate::ready::probe::PEERMEM;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Far more than /dev has.
const DEVICE_FILES: usize = 100_000;
/// The most that is read of the list of drivers with device files.
const DEVICES: u64 = 64 * 1024;

pub(super) fn read(places: &Places, release: &str) -> Driver {
    let file = |path: PathBuf| {
        let line =
            small(&path).map(|text| text.map(|text| text.lines().next().unwrap_or_default().to_owned()));
        (path, line)
    };
    let root = driver_root(places, release).path;
    let dev = below(&places.root, Path::new("/dev"));
    let char = names(&dev.join("char"));
    let numbers = numbers(&places.root, &dev);
    let mut dev_dirs = vec![dev, root.join("dev")];
    dev_dirs.dedup();
    let nvidia_file = module_file::find(&root, release, "nvidia").map(|found| found.map(|found| found.path));
    let peermem = module_file::find(&root, release, PEERMEM).ok().flatten().map(|found| found.real);
    let peermem = peermem.or_else(|| peermem_gate::peermem::driver_root::built_for_a_container(places));
    Driver {
        is_on_host: root == places.root,
        has_modules: module_file::directory(&root, "").is_dir(),
        other_kernels: match nvidia_file {
            Ok(None) => super::other_kernels(&root, release, "nvidia", |_| true),
            _ => Vec::new(),
        },
        on_host: module_file::find(&places.root, release, "nvidia").ok().flatten().map(|found| found.path),
        nvidia_file,
        version_file: file(places.proc.join("driver/nvidia/version")),
        models: models(gpus(&places.proc)),
        loaded: file(places.sys.join("module/nvidia/version")),
        cuda: None,
        library: library(&root),
        client: file(places.sys.join("kernel/mm/memory_peers/nv_mem/version")),
        state: file(below(&places.root, Path::new(STATE))),
        nodes: dev_dirs.into_iter().map(|dir| (dir.clone(), nodes(&dir))).collect(),
        numbers,
        majors: majors(&places.proc.join("devices")),
        char_links: char,
        kept_out: kept_out::read(places),
        peermem_written: peermem.and_then(|path| read::stat(&path).ok()).map(|metadata| metadata.mtime()),
        root,
    }
}

/// None where that of one GPU cannot be read.
fn models(directory: PathBuf) -> (PathBuf, Vec<String>) {
    let gpus = names(&directory).ok().flatten().unwrap_or_default();
    let models: Option<BTreeSet<_>> =
        gpus.iter().map(|gpu| information(&directory.join(gpu), "Model:")).collect();
    (directory, models.into_iter().flatten().collect())
}

/// ldconfig links the name to the version that is installed last.
fn library(root: &Path) -> Option<(PathBuf, String)> {
    const DIRECTORIES: [&str; 3] = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"];
    const NAME: &str = "libnvidia-ml.so.";
    let links =
        DIRECTORIES.iter().map(|directory| below(root, Path::new(directory)).join(NAME.to_owned() + "1"));
    links.into_iter().find_map(|link| {
        let target = read::link(&link).ok()?;
        let version = target.file_name()?.to_str()?.strip_prefix(NAME)?.to_owned();
        Some((link, version))
    })
}

/// Of `/dev/nvidia*`, and of those one directory below.
fn numbers(root: &Path, dev: &Path) -> BTreeMap<String, (u64, u64)> {
    let mut numbers = BTreeMap::new();
    let links = entries(&dev.join("char"), DEVICE_FILES).unwrap_or_default();
    for link in links {
        let name = link.file_name().to_string_lossy().into_owned();
        let pair =
            name.split_once(':').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let target = read::link(&link.path()).ok();
        let target = target.and_then(|path| Some(path.to_str()?.trim_start_matches("../").to_owned()));
        if let (Some(pair), Some(target)) = (pair, target.filter(|target| target.starts_with("nvidia"))) {
            numbers.insert(format!("/dev/{target}"), pair);
        }
    }
    let names = nodes(dev).unwrap_or_default();
    let caps = nodes(&dev.join("nvidia-caps")).unwrap_or_default();
    let names = names.into_iter().chain(caps.into_iter().map(|name| format!("nvidia-caps/{name}")));
    for name in names {
        let Ok(metadata) = read::metadata(root, &dev.join(&name)) else { continue };
        if metadata.file_type().is_char_device() {
            numbers.insert(format!("/dev/{name}"), (major(metadata.rdev()), minor(metadata.rdev())));
        }
    }
    numbers
}

/// Behind `Character devices:`, a number and a name in each line.
fn majors(path: &Path) -> BTreeMap<String, u64> {
    let text = whole(path, DEVICES).unwrap_or_default();
    let lines =
        text.lines().skip_while(|line| *line != "Character devices:").take_while(|line| !line.is_empty());
    let pairs = lines.filter_map(|line| line.trim().split_once(' '));
    pairs.filter_map(|(number, name)| Some((name.to_owned(), number.parse().ok()?))).collect()
}

fn nodes(directory: &Path) -> Seen<Vec<String>> {
    let entries = entries(directory, DEVICE_FILES).map_err(|error| unreadable(directory, &error))?;
    let names = entries.into_iter().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("nvidia")).collect();
    names.sort();
    Ok(names)
}
