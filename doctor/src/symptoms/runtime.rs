// SPDX-License-Identifier: Apache-2.0
//! The container runtimes of a node and how they are configured, as seen.

use peermem_gate::ready::node_clock::{NodeClock, not_looked_at};
use peermem_gate::ready::observation::{Seen, Unreadable};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The pid file of the container toolkit's container.
pub const TOOLKIT_PID: &str = "/run/nvidia/toolkit/toolkit.pid";

/// Whose containerd it is; each keeps its files elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distribution {
    /// The one of a distribution's package, which kubeadm takes.
    Containerd,
    /// k3s brings its own.
    K3s,
    /// RKE2 brings its own, at k3s' socket.
    Rke2,
    /// k0s brings its own, linked statically.
    K0s,
    /// The snap microk8s.
    MicroK8s,
    /// Canonical's snap k8s.
    K8sSnap,
    /// Not containerd at all.
    CriO,
}

named! {
    Distribution: Containerd = "containerd", K3s = "k3s", Rke2 = "RKE2", K0s = "k0s", MicroK8s = "MicroK8s",
    K8sSnap = "Canonical Kubernetes", CriO = "CRI-O"
}

/// A runtime's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeProcess {
    /// Its pid on the node.
    pub pid: u32,
    /// When it was started, in seconds since 1970.
    pub started: Option<i64>,
}

/// One entry of a table of runtimes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handler {
    /// The name that a `RuntimeClass` has as its handler.
    pub name: String,
    /// The program (`BinaryName`, `runtime_path`), where one is named.
    pub binary: Option<String>,
    /// The entry has a `runtime_type`, without which containerd starts no container with it.
    pub has_type: bool,
}

impl Handler {
    /// The program is NVIDIA's.
    pub fn is_nvidias(&self) -> bool {
        let program = self.binary.as_deref().and_then(|path| path.rsplit('/').next());
        program.is_some_and(|program| program.starts_with("nvidia-container-runtime"))
    }
}

/// One configuration file, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeSettings {
    /// `version`; 1 where there is none.
    pub version: i64,
    /// `imports`, as the file has them; `None` where there is no such key.
    pub imports: Option<Vec<String>>,
    /// The socket that it asks for.
    pub address: Option<String>,
    /// `default_runtime_name`, `default_runtime`.
    pub default_runtime: Option<String>,
    /// The runtimes in the table that a file of this version has.
    pub handlers: Vec<Handler>,
    /// Tables of other versions that name runtimes of NVIDIA's.
    pub other_tables: Vec<String>,
    /// `enable_cdi`.
    pub enable_cdi: Option<bool>,
    /// NRI is switched on or off; `None` where it is left to the default.
    pub nri: Option<bool>,
}

/// The tables of CRI runtimes, by the version of the file (containerd, docs/PLUGINS.md).
pub const CRI_TABLES: [&str; 3] = ["cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"];

/// The table in which a file of this version has its runtimes.
pub fn cri_table(version: i64) -> &'static str {
    match version {
        ..=1 => CRI_TABLES[0],
        2 => CRI_TABLES[1],
        3.. => CRI_TABLES[2],
    }
}

/// Why a file's settings are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// The file cannot be read.
    Unreadable(Unreadable),
    /// The file is not TOML; where and why.
    Broken(String),
}

/// A configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    /// Its path.
    pub path: PathBuf,
    /// When it was last written, in seconds since 1970.
    pub written: Option<i64>,
    /// The settings, or why they are not known.
    pub settings: Result<RuntimeSettings, Unusable>,
}

/// One container runtime of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// Whose.
    pub distribution: Distribution,
    /// Its main configuration file, there or not, as a path on the node.
    pub config: PathBuf,
    /// Its socket, as a path on the node.
    pub socket: String,
    /// That socket is there.
    pub has_socket: bool,
    /// Its process, where processes can be seen and there is one.
    pub process: Option<RuntimeProcess>,
    /// The main file, where there is one, and what it imports, in the order of reading.
    pub files: Vec<ConfigFile>,
    /// Files in its usual drop-in directories that nothing imports.
    pub not_imported: Vec<ConfigFile>,
    /// Templates of k3s' or RKE2's that leave their own settings out: the base template is not in them.
    pub bare_templates: Vec<PathBuf>,
}

impl Runtime {
    /// The runtime is running, as far as can be seen.
    pub fn is_running(&self) -> bool {
        self.process.is_some() || self.has_socket
    }

    /// The settings of all its files that could be read, in the order of reading.
    pub fn settings(&self) -> impl Iterator<Item = (&ConfigFile, &RuntimeSettings)> {
        self.files.iter().filter_map(|file| Some((file, file.settings.as_ref().ok()?)))
    }

    /// The runtimes that it would know, with the file that names each; the last file wins.
    pub fn handlers(&self) -> BTreeMap<&str, (&ConfigFile, &Handler)> {
        let mut all = BTreeMap::new();
        for (file, settings) in self.settings() {
            all.extend(settings.handlers.iter().map(|handler| (handler.name.as_str(), (file, handler))));
        }
        all
    }

    /// The newest of its files.
    pub fn written(&self) -> Option<i64> {
        self.files.iter().filter_map(|file| file.written).max()
    }
}

/// Which runtime kubelet talks to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The socket, as a path on the node.
    pub socket: String,
    /// The file or process that names the socket.
    pub source: String,
}

/// A program that a runtime's configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramState {
    /// The program is there and may be executed.
    Executable,
    /// The program is there and may not.
    NotExecutable,
    /// The program is not there.
    Missing,
    /// Unknown.
    Unreadable(Unreadable),
}

/// A CDI specification, as far as the node can be compared with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CdiSpec {
    /// The driver versions that its libraries are of.
    pub versions: BTreeSet<String>,
    /// Device nodes with the numbers that it gives them, if any.
    pub nodes: BTreeMap<String, Option<(u64, u64)>>,
}

/// NVIDIA's container toolkit on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolkit {
    /// When its container wrote its pid file, which it does before it configures a runtime and takes
    /// back when it ends; in seconds since 1970.
    pub started: Option<i64>,
    /// Its environment, as far as it decides what it configures; `None` where it cannot be read.
    pub environment: Option<BTreeMap<String, String>>,
    /// Its programs that are on the host.
    pub programs: Vec<PathBuf>,
    /// When a container was last proven to run with a GPU (`toolkit-ready`), in seconds since 1970.
    pub proven: Option<i64>,
    /// CDI specifications of NVIDIA's devices.
    pub cdi_specs: Seen<BTreeMap<PathBuf, CdiSpec>>,
    /// `mode` of the toolkit's configuration, by file.
    pub modes: Vec<(PathBuf, String)>,
    /// There is a socket for NRI plugins.
    pub has_nri_socket: bool,
    /// There is NVIDIA's OCI hook, which is CRI-O's way without a runtime of NVIDIA's.
    pub has_hook: bool,
}

impl Default for Toolkit {
    fn default() -> Self {
        Self {
            started: None,
            environment: None,
            programs: Vec::new(),
            proven: None,
            cdi_specs: Ok(BTreeMap::new()),
            modes: Vec::new(),
            has_nri_socket: false,
            has_hook: false,
        }
    }
}

/// All container runtimes of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtimes {
    /// The node's clock.
    pub clock: NodeClock,
    /// Those that run or are configured.
    pub all: Vec<Runtime>,
    /// Which one kubelet uses.
    pub endpoint: Seen<Endpoint>,
    /// The programs that their configurations name, by that name.
    pub programs: BTreeMap<String, ProgramState>,
    /// NVIDIA's container toolkit.
    pub toolkit: Toolkit,
}

impl Default for Runtimes {
    fn default() -> Self {
        Self {
            clock: NodeClock::default(),
            all: Vec::new(),
            endpoint: Err(not_looked_at()),
            programs: BTreeMap::new(),
            toolkit: Toolkit::default(),
        }
    }
}

impl Runtimes {
    /// The one that kubelet uses, where that is known.
    pub fn used(&self) -> Option<&Runtime> {
        let endpoint = self.endpoint.as_ref().ok()?;
        let mut at_socket = self.all.iter().filter(|runtime| runtime.socket == endpoint.socket);
        // RKE2 uses k3s' socket: of two at one socket, the one that runs.
        let first = at_socket.next()?;
        Some(at_socket.find(|other| other.process.is_some() && first.process.is_none()).unwrap_or(first))
    }
}
