// SPDX-License-Identifier: Apache-2.0
//! The node's past, as far as it still shows: logs, the times of files, and when processes were started.

use super::is_this_machine;
use super::logs::{self, GatheredLogs, Limits};
use super::operators::PodOwners;
use crate::chain::FILES;
use crate::stamp::{SECOND, Stamp};
use crate::timeline::{History, NodeEvent, Trace};
use peermem_gate::peermem::{driver_root, module_file};
use peermem_gate::ready::files::read::{self, small};
use peermem_gate::ready::files::root::resolve;
use peermem_gate::ready::node::{Places, below};
use peermem_gate::ready::observation::Kernel;
use peermem_gate::ready::probe::{clock as node_clock, headers, kernel};
use peermem_gate::ready::{PEER_MEMORY_SYMBOLS, clock};
use peermem_gate::survey::pod::Build;
use peermem_gate::survey::process::{Process, Role};
use peermem_gate::survey::{pods, processes};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

const VALIDATIONS: &str = "/run/nvidia/validations";
/// doca-driver-build, config.go: `OFED_BLACKLIST_MODULES_FILE`, as the host sees it.
const BLACKLIST: &str = "/etc/modprobe.d/blacklist-ofed-modules.conf";

/// The past of the node below `places.root`. `named` are namespaces of operators.
pub fn of_node(places: &Places, name: Option<String>, named: &[String]) -> History {
    let kernel = kernel::read(&places.proc);
    let is_here = is_this_machine(&kernel);
    let booted = node_clock::read(&places.proc).boot.ok();
    let processes = processes::read(&places.proc, booted);
    let owners = PodOwners::read(&places.root, &processes, named);
    let here = is_here.then_some(places.sys.as_path());
    let logs = logs::read(&places.root, &places.proc, here, &Limits::HISTORY, &owners.operators);
    let mut traces = files(places, &kernel);
    let is_operators = |build: &Build| {
        let uid = build.pod_directory.file_name().and_then(OsStr::to_str).unwrap_or_default();
        owners.are_operators(uid)
    };
    let builds = pods::built(&places.root).into_iter().filter(is_operators);
    traces.extend(builds.flat_map(|build| built(places, &build)));
    traces.extend(peermem(places, &kernel));
    let processes = processes.counted(|uid| owners.are_operators(uid));
    traces.extend(processes.all().filter_map(started));
    let wall = clock::wall().duration_since(UNIX_EPOCH).ok().filter(|_| is_here);
    let now = wall.and_then(|wall| i64::try_from(wall.as_nanos()).ok()).map(|ns| Stamp::wall(ns, 1));
    // Of another tree without that file the kernel would be this machine's.
    let hostname = small(&places.proc.join("sys/kernel/hostname")).ok().flatten();
    let node = name.or_else(|| hostname.map(|hostname| hostname.to_lowercase()));
    History { node: node.filter(|node| !node.is_empty()), logs, traces, now, ..History::default() }
}

/// The past in files and directories from elsewhere. `named` are namespaces of operators.
pub fn gathered(paths: &[PathBuf], named: &[String]) -> History {
    let GatheredLogs { logs, looks, nodes, posted } = logs::gather(paths, &Limits::HISTORY, named);
    History { logs, traces: looks, nodes, posted, ..History::default() }
}

/// The times of files with fixed places.
fn files(places: &Places, kernel: &Kernel) -> Vec<Trace> {
    let at_root = |path: &str| below(&places.root, Path::new(path));
    let mut files = vec![
        (NodeEvent::MarkerWritten, places.marker.clone(), String::new()),
        (NodeEvent::LockWritten, places.lock.clone(), String::new()),
        (NodeEvent::BlacklistWritten, at_root(BLACKLIST), String::new()),
    ];
    let symvers =
        headers::candidates(&places.mofed_root, kernel).map(|directory| directory.join("Module.symvers"));
    let is_there = |path: &PathBuf| resolve(&places.mofed_root, path).is_ok_and(|real| real.is_file());
    files.extend(
        symvers.into_iter().find(is_there).map(|path| (NodeEvent::SymversWritten, path, String::new())),
    );
    let of_chain = FILES.iter().filter(|file| !file.is_mofeds());
    files.extend(of_chain.map(|file| {
        let path = at_root(VALIDATIONS).join(file.name);
        (NodeEvent::ValidationWritten, path, file.name.to_owned())
    }));
    let trace = |(node_event, path, it)| written(&places.root, node_event, path, it);
    files.into_iter().filter_map(trace).collect()
}

fn written(root: &Path, node_event: NodeEvent, path: PathBuf, it: String) -> Option<Trace> {
    let metadata = read::metadata(root, &path).ok().filter(std::fs::Metadata::is_file)?;
    let at = Stamp::of_file(metadata.mtime(), metadata.mtime_nsec());
    Some(Trace { node_event, at, it, path })
}

/// The files that a driver toolkit leaves in its pod's volume.
fn built(places: &Places, build: &Build) -> Vec<Trace> {
    let file =
        |node_event, name: &str| written(&places.root, node_event, build.directory.join(name), String::new());
    let marks = [
        file(NodeEvent::DriverBuildBegun, "driver_build_started"),
        file(NodeEvent::DriverBuilt, "driver_built"),
    ];
    let module = build.peermem.as_ref().and_then(|path| module(&places.root, path.clone()));
    marks.into_iter().flatten().chain(module).collect()
}

/// The nvidia-peermem.ko that would be loaded, where a driver's root shows one.
fn peermem(places: &Places, kernel: &Kernel) -> Option<Trace> {
    let root = driver_root::driver_root(places, &kernel.release).path;
    let found = module_file::find(&root, &kernel.release, peermem_gate::ready::probe::PEERMEM).ok()??;
    let metadata = found.real.metadata().ok()?;
    let at = Stamp::of_file(metadata.mtime(), metadata.mtime_nsec());
    Some(Trace { node_event: node_event(&found.real)?, at, it: String::new(), path: found.path })
}

fn module(root: &Path, path: PathBuf) -> Option<Trace> {
    let real = resolve(root, &path).ok()?;
    written(root, node_event(&real)?, path, String::new())
}

/// A stub does not ask for MOFED's symbols. A file that cannot be read as a module says nothing.
fn node_event(real: &Path) -> Option<NodeEvent> {
    let info = module_file::inspect(real, &mut || false).ok()?;
    let is_stub = !info.imports.contains(PEER_MEMORY_SYMBOLS[0]);
    Some(if is_stub { NodeEvent::StubWritten } else { NodeEvent::PeermemWritten })
}

fn started(process: &Process) -> Option<Trace> {
    let (node_event, it) = match process.role {
        Role::Mofed => (NodeEvent::MofedProcess, "MOFED's entrypoint"),
        Role::MofedToolkit => (NodeEvent::MofedProcess, "MOFED's driver toolkit"),
        Role::DriverManager => (NodeEvent::GpuProcess, "k8s-driver-manager"),
        Role::Driver => (NodeEvent::GpuProcess, "nvidia-driver-ctr's script"),
        Role::DriverToolkit => (NodeEvent::GpuProcess, "the GPU driver's driver toolkit"),
        Role::Peermem => (NodeEvent::GpuProcess, "nvidia-peermem-ctr"),
        Role::FabricManager => (NodeEvent::GpuProcess, "Fabric Manager"),
        Role::Persistenced => (NodeEvent::GpuProcess, "nvidia-persistenced"),
        Role::Gate => (NodeEvent::GpuProcess, "peermem-gate"),
        Role::Kubelet
        | Role::Runtime
        | Role::Validator
        | Role::Toolkit
        | Role::DevicePlugin
        | Role::RdmaDevicePlugin
        | Role::Build => return None,
    };
    let at = Stamp::wall(process.started?.checked_mul(SECOND)?, SECOND);
    let it = format!("{it} (process {})", process.pid);
    Some(Trace { node_event, at, it, path: process.directory.clone() })
}
