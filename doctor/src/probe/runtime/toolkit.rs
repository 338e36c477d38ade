// SPDX-License-Identifier: Apache-2.0
//! NVIDIA's container toolkit: whether its container runs, how it should configure the runtime,
//! and whether a container was seen to work (nvidia-container-toolkit, cmd/nvidia-ctk-installer).

use super::{entries, exists, text};
use crate::symptoms::runtime::{CdiSpec, TOOLKIT_PID, Toolkit};
use peermem_gate::ready::files::read;
use peermem_gate::ready::files::read::unreadable;
use peermem_gate::ready::node::{Places, below};
use peermem_gate::ready::observation::Seen;
use peermem_gate::survey::process::VARIABLES;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const TOOLKIT_READY: &str = "/run/nvidia/validations/toolkit-ready";
const NRI_SOCKET: &str = "/run/nri/nri.sock";
const PROGRAMS: [&str; 2] =
    ["/usr/local/nvidia/toolkit/nvidia-container-runtime", "/usr/bin/nvidia-container-runtime"];
const CDI: [&str; 2] = ["/etc/cdi", "/run/cdi"];
/// The toolkit's own configuration: the host's, and that of the operator's container.
const CONFIGURATIONS: [&str; 2] = [
    "/etc/nvidia-container-runtime/config.toml",
    "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",
];
const HOOKS: [&str; 3] = [
    "/etc/containers/oci/hooks.d/oci-nvidia-hook.json",
    "/run/containers/oci/hooks.d/oci-nvidia-hook.json",
    "/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json",
];

pub(super) fn read(places: &Places) -> Toolkit {
    let root = &places.root;
    let full = |path: &str| below(root, Path::new(path));
    let written = |path: &str| {
        let metadata = read::metadata(root, &full(path)).ok()?;
        metadata.is_file().then(|| metadata.mtime())
    };
    Toolkit {
        started: written(TOOLKIT_PID),
        environment: environment(places),
        programs: PROGRAMS.iter().filter(|path| exists(root, path)).map(|path| full(path)).collect(),
        proven: written(TOOLKIT_READY),
        cdi_specs: cdi_specs(root),
        modes: CONFIGURATIONS.iter().filter_map(|path| mode(root, full(path))).collect(),
        has_nri_socket: exists(root, NRI_SOCKET),
        has_hook: HOOKS.iter().any(|path| exists(root, path)),
    }
}

/// How the toolkit gives devices to containers, by one of its configurations.
fn mode(root: &Path, path: PathBuf) -> Option<(PathBuf, String)> {
    let text = text(root, &path).ok()?;
    Some((path, super::settings::toolkit_mode(&text)?))
}

fn cdi_specs(root: &Path) -> Seen<BTreeMap<PathBuf, CdiSpec>> {
    let mut specs = BTreeMap::new();
    for directory in CDI {
        let is_nvidias =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains("nvidia"));
        for path in entries(root, &below(root, Path::new(directory)))?.into_iter().filter(is_nvidias) {
            let text = text(root, &path).map_err(|error| unreadable(&path, &error))?;
            specs.insert(path, super::settings::cdi_spec(&text));
        }
    }
    Ok(specs)
}

/// Its pid file contains a pid of the node, because its pod has `hostPID`.
fn environment(places: &Places) -> Option<BTreeMap<String, String>> {
    let pid: u32 =
        text(&places.root, &below(&places.root, Path::new(TOOLKIT_PID))).ok()?.trim().parse().ok()?;
    let process = places.proc.join(pid.to_string());
    let name = peermem_gate::ready::files::read::small(&process.join("comm")).ok()??;
    if !name.starts_with("nvidia-") {
        return None;
    }
    let variables = peermem_gate::ready::files::read::whole(&process.join("environ"), 1024 * 1024).ok()?;
    let pairs = variables.split('\0').filter_map(|pair| pair.split_once('='));
    let ours = pairs.filter(|(name, _)| VARIABLES.contains(name));
    Some(ours.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}
