// SPDX-License-Identifier: Apache-2.0
//! The material for a rebuild of nvidia-peermem on the node: sources, headers, symbols, programs, room.

use crate::peermem::driver_root::{Script, driver_root, script};
use crate::peermem::look::is_in_box;
use crate::peermem::pair::pair;
use crate::peermem::store::read::stored_module;
use crate::ready::files::read::{entries, is_program, unreadable, whole};
use crate::ready::files::root::resolve;
use crate::ready::node::{Places, below};
use crate::ready::observation::{HeaderTree, Observation, Offer, Seen, Unreadable};
use crate::ready::probe::headers::kernel_symvers;
use crate::ready::{PEER_MEMORY_SYMBOLS, sort};
use crate::rebuild::{Material, Sources, Tool, recipe};
use crate::survey::pod_roots::others_in_the_pod;
use nix::sys::statvfs::statvfs;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

/// Some ten times the largest.
const SYMVERS: u64 = 16 << 20;
/// conftest.sh has a quarter of a megabyte.
const SOURCE: u64 = 4 << 20;
/// Of a memory limit, for the gate itself, make and its shells.
const KEPT: u64 = 64 << 20;
/// Packages below /usr/src.
const PACKAGES: usize = 10_000;
/// The flavors of the driver: only one (`.run` unpacked, dkms), or both beside each other (nvidia-installer).
const FLAVORS: [&str; 3] = ["", "kernel-open", "kernel"];
/// Where programs are in the images of drivers.
const PROGRAMS: [&str; 6] = ["usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin"];

/// Looks at everything that a rebuild takes. What only the builder knows (a lock, earlier attempts) is left out.
#[must_use]
pub fn material(places: &Places, seen: &Observation) -> Material {
    let release = seen.kernel.release.as_str();
    let root = driver_root(places, release).path;
    let root = root.as_path();
    let build_root = build_root(places, root, release);
    let headers = headers(&build_root, release);
    Material {
        driver_root: root.to_owned(),
        pair: pair(places, seen),
        sources: sources([root, &build_root], seen.modules.version("nvidia").unwrap_or_default()),
        headers_are_linked: headers.is_some() && headers == recipe::header_places(release).next(),
        symvers: symvers(places, seen, &build_root, headers.as_deref()),
        symvers_are_kernels: are_kernels(seen),
        headers,
        nvidia: match seen.peermem.as_ref().map(|peermem| &peermem.nvidia) {
            Some(Offer::LoadedFile(path, crcs)) => Ok((path.clone(), names_only(crcs))),
            Some(Offer::Unknown(why)) => Err(why.clone()),
            Some(Offer::Symvers(path, _)) => Err(format!("{} is not an nvidia.ko", path.display())),
            None => Err("nvidia.ko was not searched for".to_owned()),
        },
        tools: tools(root, &build_root),
        free: free(root).into_iter().chain(free(&build_root)).min(),
        build_root,
        unwritable: None,
        exposed: None,
        foreign: None,
        tried: None,
        stored: places.store.as_deref().and_then(|store| stored_module(store, &pair(places, seen))),
        signing: None,
        jobs: recipe::jobs(available_parallelism().map_or(1, NonZero::get), build_memory()),
    }
}

/// They become fields of a Module.symvers.
fn names_only(crcs: &BTreeMap<String, u32>) -> BTreeMap<String, u32> {
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    crcs.iter().filter(|(name, _)| is_name(name)).map(|(name, crc)| (name.clone(), *crc)).collect()
}

/// The root with a compiler and this kernel's headers: the driver's, or that of another container in the pod of the
/// driver's script, as `OpenShift`'s driver toolkit is. Where none has both, the driver's, which then shows what is
/// missing.
fn build_root(places: &Places, root: &Path, release: &str) -> PathBuf {
    let has_all = |root: &Path| can_build(root) && headers(root, release).is_some();
    if places.finds_driver
        && !has_all(root)
        && let Ok(Script::Runs(pid)) = script(&places.root, &places.proc)
        && let Some(other) = others_in_the_pod(&places.proc, pid).into_iter().find(|root| has_all(root))
    {
        return other;
    }
    root.to_owned()
}

/// Of the live version first, and the driver's before the build's.
fn sources(roots: [&Path; 2], version: &str) -> Vec<Sources> {
    let mut all: Vec<_> = sources_in(roots[0]);
    if roots[0] != roots[1] {
        all.extend(sources_in(roots[1]));
    }
    sort::sort_by_key(&mut all, |sources| sources.version.as_deref() != Some(version));
    all
}

fn sources_in(root: &Path) -> Vec<Sources> {
    let directory = below(root, Path::new("/usr/src"));
    let listed = resolve(root, &directory).and_then(|real| entries(&real, PACKAGES)).unwrap_or_default();
    let mut names: Vec<OsString> = listed.into_iter().map(|entry| entry.file_name()).collect();
    names.retain(|name| name.as_encoded_bytes().starts_with(b"nvidia"));
    sort::sort(&mut names);
    let packages = names.iter().map(|name| Path::new("/usr/src").join(name));
    let all = packages.flat_map(|package| FLAVORS.map(|flavor| package.join(flavor)));
    all.filter_map(|directory| source(root, &directory)).collect()
}

fn source(root: &Path, directory: &Path) -> Option<Sources> {
    let real = |name: &str| resolve(root, &below(root, &directory.join(name))).ok();
    let text = |name: &str| real(name).and_then(|real| whole(&real, SOURCE).ok());
    real(recipe::KNOWN_BY).filter(|file| file.is_file())?;
    let missing = recipe::SOURCES.iter().find(|name| real(name).is_none_or(|real| !real.exists()));
    let fits = || text("conftest.sh").and_then(|text| recipe::conftest(&text, Path::new("/")));
    let misfit = match missing {
        Some(name) => Some(format!("there is no {name}")),
        None if fits().is_none() => {
            Some("conftest.sh does not name /usr/src/ofa_kernel in exactly the one known line".to_owned())
        }
        None => None,
    };
    let version = text("Kbuild").and_then(|text| recipe::version(&text).map(str::to_owned));
    Some(Sources { root: root.to_owned(), directory: directory.components().collect(), version, misfit })
}

fn headers(root: &Path, release: &str) -> Option<PathBuf> {
    let is_tree = |path: &PathBuf| {
        let has = |name: &str| resolve(root, &below(root, &path.join(name))).is_ok_and(|real| real.is_file());
        has("Makefile") && (has("include/generated/autoconf.h") || has("include/config/auto.conf"))
    };
    recipe::header_places(release).find(is_tree)
}

/// The symbols come from the kernel's build tree: its own RDMA stack is live, or there are no headers of MOFED's.
fn are_kernels(seen: &Observation) -> bool {
    let has_headers = matches!(seen.headers.tree, HeaderTree::Taken { other_kernel: None, .. });
    seen.headers.kernel_build.is_some() && (is_in_box(seen) || !has_headers)
}

/// The one that NVIDIA's build would take.
fn symvers(
    places: &Places,
    seen: &Observation,
    build_root: &Path,
    headers: Option<&Path>,
) -> Seen<(PathBuf, String)> {
    let (path, root) = match &seen.headers.tree {
        // In the very tree that the build uses.
        _ if are_kernels(seen) => {
            let inside = headers.map(|headers| headers.join("Module.symvers"));
            let path = inside.map(|inside| below(build_root, &inside));
            (path.unwrap_or_else(|| kernel_symvers(build_root, &seen.kernel.release)), build_root)
        }
        HeaderTree::Taken { directory, other_kernel: None, .. } => {
            (directory.join("Module.symvers"), places.mofed_root.as_path())
        }
        _ => {
            let why = "MOFED shows no headers for this kernel".to_owned();
            return Err(Unreadable { path: seen.headers.root.clone(), why });
        }
    };
    let text = resolve(root, &path).and_then(|real| whole(&real, SYMVERS));
    let text = text.map_err(|error| unreadable(&path, &error))?;
    let is_whole = text.ends_with('\n') && PEER_MEMORY_SYMBOLS.iter().all(|symbol| text.contains(symbol));
    if is_whole {
        return Ok((path, text));
    }
    Err(Unreadable { path, why: "it is cut off, or lacks the peer-memory symbols".to_owned() })
}

fn tools(driver_root: &Path, build_root: &Path) -> BTreeMap<Tool, PathBuf> {
    let find = |root, names: &[&str]| names.iter().find_map(|name| program(root, OsStr::new(name)));
    let all = [
        (Tool::Make, find(build_root, &["make", "gmake"])),
        (Tool::Compiler, find(build_root, &["cc", "gcc", "clang"])),
        (Tool::Depmod, find(driver_root, &["depmod"])),
    ];
    all.into_iter().filter_map(|(tool, path)| Some((tool, path?))).collect()
}

/// Whether a build could be done in this root, by its programs: not with a precompiled driver.
#[must_use]
pub(crate) fn can_build(root: &Path) -> bool {
    let tools = tools(root, root);
    [Tool::Make, Tool::Compiler].iter().all(|tool| tools.contains_key(tool))
}

/// The same for the root of this process of the driver's, or another container of its pod.
#[must_use]
pub(crate) fn can_build_in_the_pod(proc: &Path, pid: u32, root: &Path) -> bool {
    can_build(root) || others_in_the_pod(proc, pid).iter().any(|root| can_build(root))
}

/// As seen from inside the root.
fn program(root: &Path, name: &OsStr) -> Option<PathBuf> {
    let is_program = |directory: &&&str| {
        let real = resolve(root, &root.join(directory).join(name)).and_then(|real| real.metadata());
        real.is_ok_and(|metadata| is_program(&metadata))
    };
    let directory = PROGRAMS.iter().find(is_program)?;
    Some(Path::new("/").join(directory).join(name))
}

/// How many processes of the node the kernel has killed because memory was short (since Linux 4.13).
#[must_use]
pub fn memory_kills(proc: &Path) -> Option<u64> {
    let text = whole(&proc.join("vmstat"), SOURCE).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// What the memory limits of our cgroup and of those above it leave a build, in bytes. kubelet sets memory.oom.group
/// (cgroup v2), so a compiler that ran into such a limit would take this process along.
#[must_use]
pub fn build_memory() -> Option<u64> {
    let own = whole(Path::new("/proc/self/cgroup"), SOURCE).ok()?;
    memory_limit(&own, Path::new("/sys/fs/cgroup")).map(|limit| limit - KEPT.min(limit / 2))
}

fn memory_limit(own: &str, root: &Path) -> Option<u64> {
    let own = root.join(own.lines().find_map(|line| line.strip_prefix("0::/"))?);
    let limit = |group: &Path| whole(&group.join("memory.max"), SOURCE).ok()?.trim().parse().ok();
    own.ancestors().take_while(|group| group.starts_with(root)).filter_map(limit).min()
}

/// Free bytes where a build would be; `None` where that is not known.
#[must_use]
pub fn free(root: &Path) -> Option<u64> {
    let real = resolve(root, &below(root, Path::new("/var/lib"))).unwrap_or_else(|_| root.to_owned());
    let space = statvfs(&real).ok()?;
    // A file system without a fixed size has no blocks at all.
    (space.blocks() > 0).then(|| space.blocks_available().saturating_mul(space.fragment_size()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_a_cgroup_and_those_above_it_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (root, pod) = (dir.path(), dir.path().join("kubepods/pod1"));
        std::fs::create_dir_all(pod.join("keeper")).unwrap();
        let of = |own: &str| memory_limit(own, root);
        let own = "1:name=systemd:/\n0::/kubepods/pod1/keeper\n";
        assert_eq!(of(own), None, "none is readable");
        for (group, limit) in
            [("kubepods/pod1/keeper", "max"), ("kubepods/pod1", "268435456"), ("kubepods", "1073741824")]
        {
            std::fs::write(root.join(group).join("memory.max"), format!("{limit}\n")).unwrap();
        }
        assert_eq!(of(own), Some(256 << 20));
        // A container's own namespace, and what no container shows.
        assert_eq!((of("0::/\n"), of("4:memory:/docker/x\n"), of("")), (None, None, None));
        std::fs::write(root.join("memory.max"), "4096\n").unwrap();
        assert_eq!((of("0::/\n"), of("0::/../../other\n")), (Some(4096), Some(4096)));
    }
}
