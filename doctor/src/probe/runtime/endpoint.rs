// SPDX-License-Identifier: Apache-2.0
//! Which runtime kubelet uses: by its command line, by its configuration, or because there is only
//! one.

use super::{DEFAULT_SOCKET, K3S_SOCKET, text};
use crate::symptoms::runtime::{Endpoint, Runtime};
use peermem_gate::ready::node::{Places, below};
use peermem_gate::ready::observation::{Seen, Unreadable};
use peermem_gate::survey::process::{Process, Processes, Role, option};
use std::path::Path;

const OPTION: &[&str] = &["--container-runtime-endpoint"];
/// kubelet's own configuration (kubelet.config.k8s.io/v1beta1).
const KEY: &str = "containerRuntimeEndpoint:";

/// Where kubelet's options and configuration are, for a look that cannot see its process.
const FILES: [&str; 5] = words! {
    "/var/lib/kubelet/kubeadm-flags.env" "/var/lib/kubelet/instance-config.yaml" "/var/lib/kubelet/config.yaml"
    "/var/snap/microk8s/current/args/kubelet" "/var/snap/k8s/common/args/kubelet"
};

fn is_k3s(name: &str) -> bool {
    matches!(name, "k3s" | "k3s-server" | "k3s-agent")
}

/// A socket's path, without the scheme, and below /run.
pub(super) fn socket(endpoint: &str) -> String {
    let path = endpoint.trim_matches('"').trim_start_matches("unix://");
    path.strip_prefix("/var/run/").map_or_else(|| path.to_owned(), |rest| format!("/run/{rest}"))
}

pub(super) fn read(places: &Places, processes: &Processes, all: &[Runtime]) -> Seen<Endpoint> {
    let nothing = || Unreadable { path: places.proc.clone(), why: "no kubelet is running".to_owned() };
    match processes.first(Role::Kubelet) {
        Some(kubelet) => Ok(of_process(places, kubelet)),
        None => of_files(&places.root)
            .or_else(|| the_only_one(all))
            .ok_or_else(|| processes.hidden().cloned().unwrap_or_else(nothing)),
    }
}

fn of_process(places: &Places, kubelet: &Process) -> Endpoint {
    let endpoint = |socket, source: &str| Endpoint { socket, source: source.to_owned() };
    let line = "kubelet's command line";
    if let Some(asked) = kubelet.option(OPTION) {
        return endpoint(socket(asked), line);
    }
    if is_k3s(&kubelet.name) {
        return endpoint(K3S_SOCKET.to_owned(), "k3s, which has its own");
    }
    for path in ["--config", "--kubelet-args-file"].iter().filter_map(|name| kubelet.option(&[name])) {
        if let Some(asked) = in_file(&places.root, path) {
            return endpoint(asked, path);
        }
    }
    // KubeletConfiguration's default since Kubernetes 1.27.
    endpoint(DEFAULT_SOCKET.to_owned(), "kubelet's default")
}

/// Those files that there are must agree.
fn of_files(root: &Path) -> Option<Endpoint> {
    let asked = FILES.iter().filter_map(|path| Some((in_file(root, path)?, *path)));
    let mut asked: Vec<_> = asked.collect();
    asked.dedup_by(|one, other| one.0 == other.0);
    match asked.as_slice() {
        [(socket, path)] => Some(Endpoint { socket: socket.clone(), source: (*path).to_owned() }),
        _ => None,
    }
}

fn the_only_one(all: &[Runtime]) -> Option<Endpoint> {
    let mut running = all.iter().filter(|runtime| runtime.has_socket);
    let only = running.next().filter(|_| running.next().is_none())?;
    Some(Endpoint { socket: only.socket.clone(), source: "no other runtime has a socket here".to_owned() })
}

/// YAML's one key at the top, or options as a shell would read them: neither is worth a parser.
fn in_file(root: &Path, path: &str) -> Option<String> {
    let text = text(root, &below(root, Path::new(path))).ok()?;
    let key = text.lines().find_map(|line| line.strip_prefix(KEY));
    let words = || text.split(|c: char| c.is_whitespace() || c == '"').flat_map(|word| word.split("ARGS="));
    let asked = key.map(str::trim).or_else(|| option(words(), OPTION)).filter(|value| !value.is_empty())?;
    let snap = path.strip_prefix("/var/snap/").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let asked = asked.trim_matches(['"', '\'']);
    Some(socket(&asked.replace("${SNAP_COMMON}", &format!("/var/snap/{snap}/common"))))
}
