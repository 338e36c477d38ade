// SPDX-License-Identifier: Apache-2.0
//! The container runtimes: which there are, which one kubelet uses, and how each is configured.
//!
//! No runtime is asked: only root may use their sockets, and one that hangs would hang us.

mod endpoint;
mod files;
pub mod settings;
mod toolkit;

use super::there;
use crate::symptoms::runtime::{self as seen, Distribution, Handler, ProgramState, Runtime, Runtimes};
use peermem_gate::ready::files::{read, root};
use peermem_gate::ready::node::{Places, below};
use peermem_gate::ready::observation::Seen;
use peermem_gate::ready::probe::clock;
use peermem_gate::survey::process::{Process, Processes, Role};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Where a distribution keeps its runtime's files.
struct Home {
    distribution: Distribution,
    config: &'static str,
    socket: &'static str,
    drop_ins: &'static [&'static str],
}

/// `distribution: file, socket, [directories of drop-ins]`.
macro_rules! homes {
    ($($distribution:ident: $config:literal, $socket:expr, [$($drop_in:literal),*];)*) => {
        &[$(Home {
            distribution: Distribution::$distribution,
            config: $config,
            socket: $socket,
            drop_ins: &[$($drop_in),*],
        }),*]
    };
}

/// The documents of each; nvidia-container-toolkit, cmd/nvidia-ctk-installer, for the drop-ins (its
/// 1.18.0 wrote into `config.d`); canonical/k8s-snap, src/k8s/pkg/snap.
const HOMES: &[Home] = homes! {
    Containerd: "/etc/containerd/config.toml", "/run/containerd/containerd.sock",
        ["/etc/containerd/conf.d", "/etc/containerd/config.d"];
    K3s: "/var/lib/rancher/k3s/agent/etc/containerd/config.toml", K3S_SOCKET,
        ["/var/lib/rancher/k3s/agent/etc/containerd/config.toml.d",
        "/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d"];
    Rke2: "/var/lib/rancher/rke2/agent/etc/containerd/config.toml", K3S_SOCKET,
        ["/var/lib/rancher/rke2/agent/etc/containerd/config.toml.d",
        "/var/lib/rancher/rke2/agent/etc/containerd/config-v3.toml.d"];
    K0s: "/etc/k0s/containerd.toml", "/run/k0s/containerd.sock", ["/etc/k0s/containerd.d"];
    MicroK8s: "/var/snap/microk8s/current/args/containerd.toml", "/var/snap/microk8s/common/run/containerd.sock", [];
    K8sSnap: "/var/snap/k8s/common/etc/containerd/config.toml",
        "/var/snap/k8s/common/run/containerd/containerd.sock", ["/var/snap/k8s/common/etc/containerd/conf.d"];
    K8sSnap: "/var/lib/k8s-containerd/k8s-containerd/etc/containerd/config.toml",
        "/var/lib/k8s-containerd/k8s-containerd/run/containerd/containerd.sock",
        ["/var/lib/k8s-containerd/k8s-containerd/etc/containerd/conf.d"];
    CriO: "/etc/crio/crio.conf", "/run/crio/crio.sock", ["/etc/crio/crio.conf.d"];
};

/// RKE2's too.
const K3S_SOCKET: &str = "/run/k3s/containerd/containerd.sock";
const DEFAULT_SOCKET: &str = "/run/containerd/containerd.sock";
/// Where a service without its own PATH finds programs.
const PATH: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Looks at all of them.
pub fn read(places: &Places, processes: &Processes) -> Runtimes {
    let clock = clock::read(&places.proc);
    let all = runtimes(&places.root, processes);
    let endpoint = endpoint::read(places, processes, &all);
    let programs = programs(&places.root, &all);
    let toolkit = toolkit::read(places);
    Runtimes { clock, all, endpoint, programs, toolkit }
}

/// Those that run, then those that have files or a socket.
fn runtimes(root: &Path, processes: &Processes) -> Vec<Runtime> {
    let mut all: Vec<Runtime> = Vec::new();
    for called in processes.of(Role::Runtime) {
        let runtime = of_process(root, called);
        // A restart may leave two for a moment.
        if all.iter().all(|other| other.config != runtime.config) {
            all.push(runtime);
        }
    }
    let (with_files, without): (Vec<_>, Vec<_>) = HOMES.iter().partition(|home| has_files(root, home));
    for home in with_files {
        let config = real(root, Path::new(home.config));
        if all.iter().all(|other| real(root, &other.config) != config) {
            all.push(of_home(root, home));
        }
    }
    for home in without {
        if exists(root, home.socket) && all.iter().all(|other| other.socket != home.socket) {
            all.push(of_home(root, home));
        }
    }
    all
}

fn has_files(root: &Path, home: &Home) -> bool {
    // CRI-O needs no main file.
    let drop_ins = home.drop_ins.iter().any(|directory| exists(root, directory));
    exists(root, home.config) || home.distribution == Distribution::CriO && drop_ins
}

fn of_process(root: &Path, called: &Process) -> Runtime {
    let program = called.arguments.first().map_or("", String::as_str);
    let asked = called.option(&["-c", "--config"]);
    let default = if called.name == "crio" { Distribution::CriO } else { Distribution::Containerd };
    let is_default = |home: &&Home| home.distribution == default;
    let real_config = asked.and_then(|path| real(root, Path::new(path)));
    let by_path = |home: &&Home| real_config.is_some() && real_config == real(root, Path::new(home.config));
    let home = HOMES.iter().find(by_path).or_else(|| HOMES.iter().find(is_default)).unwrap_or(&HOMES[0]);
    let config = asked.unwrap_or(home.config);
    let distribution = match [config, program] {
        [_, program] if program.contains("/snap/k8s/") => Distribution::K8sSnap,
        [_, program] if program.contains("/snap/microk8s/") => Distribution::MicroK8s,
        [config, program] if config.contains("/rke2/") || program.contains("/rke2/") => Distribution::Rke2,
        [config, program] if config.contains("/k3s/") || program.contains("/k3s/") => Distribution::K3s,
        [config, program] if config.contains("/k0s/") || program.contains("/k0s/") => Distribution::K0s,
        _ => home.distribution,
    };
    let asked_socket = called.option(&["-a", "--address", "--listen"]).map(endpoint::socket);
    // crio(8); containerd has no such option.
    let asked_directory =
        called.option(&["-d", "--config-dir"]).filter(|_| distribution == Distribution::CriO);
    let asked_directory = asked_directory.as_slice();
    let drop_ins = if asked_directory.is_empty() { home.drop_ins } else { asked_directory };
    let mut runtime = files::runtime(root, distribution, config, drop_ins);
    runtime.socket = asked_socket.unwrap_or_else(|| socket_of(&runtime, home.socket));
    runtime.has_socket = exists(root, &runtime.socket);
    runtime.process = Some(seen::RuntimeProcess { pid: called.pid, started: called.started });
    runtime
}

fn of_home(root: &Path, home: &Home) -> Runtime {
    let distribution = match home.distribution {
        // That snap puts its containerd in the usual place, unless configured otherwise.
        Distribution::Containerd if exists(root, "/var/snap/k8s/common") => Distribution::K8sSnap,
        other => other,
    };
    let mut runtime = files::runtime(root, distribution, home.config, home.drop_ins);
    runtime.socket = socket_of(&runtime, home.socket);
    runtime.has_socket = exists(root, &runtime.socket);
    runtime
}

/// The socket that its files ask for, or its default.
fn socket_of(runtime: &Runtime, default: &str) -> String {
    let asked = runtime.settings().filter_map(|(_, settings)| settings.address.as_deref()).last();
    // A template's variable names no path.
    let asked = asked.filter(|address| address.starts_with('/') || address.starts_with("unix:"));
    endpoint::socket(asked.unwrap_or(default))
}

/// The programs of NVIDIA's runtimes: those of others are not our business.
fn programs(root: &Path, all: &[Runtime]) -> BTreeMap<String, ProgramState> {
    let handlers =
        all.iter().flat_map(|runtime| runtime.handlers().into_values().map(|(_, handler)| handler.clone()));
    let nvidias: Vec<Handler> = handlers.filter(Handler::is_nvidias).collect();
    nvidias
        .into_iter()
        .filter_map(|handler| handler.binary)
        .map(|name| (name.clone(), program(root, &name)))
        .collect()
}

fn program(root: &Path, name: &str) -> ProgramState {
    if name.starts_with('/') {
        return at(root, Path::new(name));
    }
    let found = PATH.iter().map(|directory| at(root, &Path::new(directory).join(name)));
    found.into_iter().find(|program| *program != ProgramState::Missing).unwrap_or(ProgramState::Missing)
}

fn at(root: &Path, path: &Path) -> ProgramState {
    let full = below(root, path);
    match there(&full, read::metadata(root, &full)) {
        Ok(Some(metadata)) if read::is_program(&metadata) => ProgramState::Executable,
        Ok(Some(_)) => ProgramState::NotExecutable,
        Ok(None) => ProgramState::Missing,
        Err(why) => ProgramState::Unreadable(why),
    }
}

fn exists(root: &Path, path: &str) -> bool {
    real(root, Path::new(path)).is_some()
}

/// Where a path of the node really leads: two names of one file must not count as two.
fn real(root: &Path, path: &Path) -> Option<PathBuf> {
    // Below `/` the kernel follows links by itself.
    root::resolve(root, &below(root, path)).ok()?.canonicalize().ok()
}

/// The text of a file of the node, with the links of its path followed below its root.
fn text(root: &Path, full: &Path) -> io::Result<String> {
    /// Far more than any configuration.
    const LIMIT: u64 = 1024 * 1024;
    read::whole(&root::resolve(root, full)?, LIMIT)
}

/// The entries of a directory of the node, by name; none where it is not there.
fn entries(root: &Path, full: &Path) -> Seen<Vec<PathBuf>> {
    /// Far more than any directory of configurations has.
    const LIMIT: usize = 1000;
    let listed = there(full, root::resolve(root, full).and_then(|real| read::entries(&real, LIMIT)))?;
    let mut paths: Vec<_> = listed.into_iter().flatten().map(|entry| full.join(entry.file_name())).collect();
    paths.sort();
    Ok(paths)
}
