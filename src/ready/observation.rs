// SPDX-License-Identifier: Apache-2.0
//! The result of one look at the node. Plain data: no judgment here, and nothing that reads.
//!
//! A read that failed is part of what was seen ([`Unreadable`]), not an error.

use crate::ready::PEER_MEMORY_SYMBOLS;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A source that is there in principle but could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unreadable {
    /// The path of the source.
    pub path: PathBuf,
    /// Why it was not, in the system's words.
    pub why: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

/// A value that was read, or why it was not.
pub type Seen<T> = Result<T, Unreadable>;

/// Where something was seen, and what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// A file, or a command that shows the same.
    pub source: String,
    /// The words at the source.
    pub seen: String,
}

impl Evidence {
    /// Both are taken as they are.
    #[must_use]
    pub fn new(source: impl Into<String>, seen: impl Into<String>) -> Self {
        Self { source: source.into(), seen: seen.into() }
    }
}

/// Everything that one look saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The running kernel and the node's names.
    pub kernel: Kernel,
    /// The search for a Mellanox device.
    pub nic: Nic,
    /// How long the bus has been still, in a wait: since the boot, as far as it knows. `None` where no time is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus_still: Option<Duration>,
    /// The `NVLink` 5 fabric; `None` where it is not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric: Option<Fabric>,
    /// MOFED's ready marker.
    pub marker: Marker,
    /// The volume mounted over MOFED's directory or a parent of it, where it is one that later
    /// mounts of the host do not reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_mount: Option<PathBuf>,
    /// MOFED's instance lock.
    pub lock: Lock,
    /// The loaded modules, by two witnesses.
    pub modules: Modules,
    /// Who exports the peer-memory symbols.
    pub symbols: Symbols,
    /// The process that holds it, where there is a marker and /proc/locks shows it.
    #[serde(default)]
    pub lock_holder: Option<i32>,
    /// When that process started.
    #[serde(default, skip_serializing_if = "HolderStart::is_unread")]
    pub holder_start: HolderStart,
    /// MOFED's headers, as NVIDIA's build would find them.
    pub headers: Headers,
    /// Versions in the names of MOFED's header directories, each once.
    pub header_versions: Seen<Vec<String>>,
    /// The settings that the loaded nvidia was installed with, as the driver container noted them.
    #[serde(default)]
    pub driver_state: DriverState,
    /// Everything that decides whether nvidia-peermem will load; `None` where it is not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peermem: Option<Peermem>,
}

/// The running kernel and the node's names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// `uname -r`, 64k suffix and all.
    pub release: String,
    /// `uname -m`.
    pub machine: String,
    /// Differs for every boot; absent where /proc lacks it.
    pub boot_id: Option<String>,
    /// The node's own name for itself.
    pub hostname: String,
}

/// The search for a device of PCI vendor 0x15b3.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Nic {
    /// There is one, at this PCI address.
    Found(String),
    /// All devices were read, and none is one.
    None,
    /// Some or all could not be read, and none of the others is one.
    Unreadable(Unreadable),
}

/// The search for `NVLink` 5 management devices: Mellanox functions whose vpd contains `SW_MNG`. It can be read
/// before any driver is bound, by root only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Management {
    /// Their PCI addresses.
    Found(Vec<String>),
    /// All Mellanox functions were read, and none is one.
    None,
    /// Some could not be read, and none of the others is one.
    Unreadable(Unreadable),
}

/// The devices that Fabric Manager will look for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fabric {
    /// The management devices.
    pub management: Management,
    /// The RDMA devices, by the PCI addresses of their functions.
    pub rdma_devices: Seen<BTreeMap<String, String>>,
}

/// Which file it is: a marker made again differs in one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileId {
    /// Device number of the file system.
    pub device: u64,
    /// Inode number on it.
    pub inode: u64,
    /// Time of the last change, in nanoseconds since 1970.
    pub changed_ns: i128,
}

/// The file at the marker's path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Marker {
    /// A regular file.
    Present(FileId),
    /// Nothing, in a directory that is there.
    Absent,
    /// Not even its directory; this is the nearest one that exists.
    ParentMissing(PathBuf),
    /// Its directory has been deleted; only our mount keeps it alive.
    DirectoryUnlinked,
    /// Something else, in words.
    NotAFile(String),
    /// Unknown.
    Unreadable(Unreadable),
}

/// MOFED's instance lock, as /proc/locks shows it. It is never taken, not even for a moment: a
/// MOFED that starts in that moment would give up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Lock {
    /// No lock file: MOFED's older entrypoints keep none.
    NoFile,
    /// A process holds it.
    Held,
    /// The file exists, and no process holds the lock.
    Free,
    /// This /proc is not that of the host's pid namespace, and does not list the host's locks.
    HolderHidden,
    /// Unknown.
    Unreadable(Unreadable),
}

/// Who holds MOFED's instance lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockHolder {
    /// Unknown: hidden, unreadable, or not looked for.
    #[default]
    Unknown,
    /// Nobody, or there is no lock file.
    Nobody,
    /// This process.
    Process(i32),
}

impl LockHolder {
    /// The holder of this lock, where /proc/locks shows the process.
    #[must_use]
    pub fn of(lock: &Lock, process: Option<i32>) -> Self {
        match (lock, process) {
            (Lock::NoFile | Lock::Free, _) => Self::Nobody,
            (Lock::Held, Some(process)) => Self::Process(process),
            (Lock::Held | Lock::HolderHidden | Lock::Unreadable(_), _) => Self::Unknown,
        }
    }
}

/// When the process started that holds MOFED's lock. A marker that is older was set by another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HolderStart {
    /// Nobody holds the lock, or this /proc does not show the process.
    #[default]
    NotRead,
    /// Its start, and the clocks to compare it with the marker.
    Known(HolderTimes),
    /// Unknown.
    Unreadable(Unreadable),
}

impl HolderStart {
    fn is_unread(&self) -> bool {
        *self == Self::NotRead
    }
}

/// The times of the process that holds MOFED's lock. All but two count from the boot, which no setting of the clock
/// changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderTimes {
    /// When the process started.
    pub started: Duration,
    /// When it was looked at.
    pub now: Option<Duration>,
    /// When this very marker was seen first, where an earlier look has seen it.
    pub marker_seen: Option<Duration>,
    /// When the kernel started by the clock of now, in seconds since 1970.
    pub booted: Option<i64>,
    /// When sysfs was mounted by the clock of then, in nanoseconds since 1970.
    pub sysfs_mounted_ns: Option<i128>,
}

/// The driver container's state file (gpu-driver-container, `DRIVER_CONFIG_STATE_FILE`).
pub const STATE_FILE: &str = "/run/nvidia/nvidia-driver.state";

/// The driver container's state file, `/run/nvidia/nvidia-driver.state` (GPU Operator 26.3 and later).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DriverState {
    /// Nobody asks.
    #[default]
    NotRead,
    /// There is no such file in the driver container's directory.
    Absent,
    /// Not even that directory: no driver container was here, or its directory is not mounted here.
    NoDirectory,
    /// The digest of the configuration that nvidia was installed with.
    Digest(String),
    /// Unknown.
    Unreadable(Unreadable),
}

/// A module's state in /proc/modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the kernel's words")]
pub enum ProcState {
    Live,
    Loading,
    Unloading,
}

/// One line of /proc/modules.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcModule {
    /// With underscores.
    pub name: String,
    /// In bytes.
    pub size: u64,
    /// How many use it; -1 while unloading, absent where the kernel cannot unload.
    pub refcount: Option<i64>,
    /// The modules that use it.
    pub users: Vec<String>,
    /// Live, loading or unloading.
    pub state: ProcState,
    /// Load address as text; zero without `CAP_SYSLOG`.
    pub address: String,
    /// Taint letters without brackets and signs, such as `OE`.
    pub taint: String,
}

/// /proc/modules, line by line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcModules {
    /// The lines that make sense.
    pub modules: Vec<ProcModule>,
    /// The first line that does not, shortened.
    pub garbled: Option<String>,
}

impl ProcModules {
    /// The lines of one module; more than one line is a fault of the file.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a ProcModule> {
        self.modules.iter().filter(move |m| m.name == name)
    }
}

/// A module's state in sysfs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SysState {
    /// No directory.
    NoDirectory,
    /// A directory without `initstate` and `taint`: part of the kernel image, or half made.
    NoInitstate,
    /// Usable.
    Live,
    /// Its init function runs.
    Coming,
    /// Its exit function runs.
    Going,
    /// Unknown.
    Unreadable(Unreadable),
}

/// One module in sysfs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SysModule {
    /// Its state.
    pub state: SysState,
    /// Inode of its directory: grows with every load, so a reload shows.
    pub inode: Option<u64>,
    /// Taint letters; `None` where there is no such attribute.
    pub taint: Seen<Option<String>>,
    /// Its version; `None` where it has none.
    pub version: Seen<Option<String>>,
}

/// The loaded modules, by two witnesses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Modules {
    /// The first witness.
    pub proc: Seen<ProcModules>,
    /// The second, for the modules that matter.
    pub sys: BTreeMap<String, SysModule>,
}

impl Modules {
    /// The version of a loaded module, where it shows one.
    #[must_use]
    pub fn version(&self, name: &str) -> Option<&str> {
        self.sys.get(name)?.version.as_ref().ok()?.as_deref()
    }

    /// Whether a module is part of the kernel: /sys/module shows it without a state, and /proc/modules does
    /// not list it. One without a parameter, a version or (in newer kernels) a driver is not even in /sys/module.
    #[must_use]
    pub fn is_built_in(&self, name: &str) -> bool {
        let is_unlisted =
            self.proc.as_ref().is_ok_and(|proc| proc.named(name).next().is_none() && proc.garbled.is_none());
        is_unlisted && self.sys.get(name).is_some_and(|sys| sys.state == SysState::NoInitstate)
    }
}

/// Who exports `ib_register_peer_memory_client`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Symbols {
    /// This module, or the kernel image itself.
    ExportedBy(Option<String>),
    /// Nobody.
    Missing,
    /// Not looked for, because something cheaper to see already keeps the gate closed.
    NotRead,
    /// Unknown.
    Unreadable(Unreadable),
}

/// A Module.symvers file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Symvers {
    /// There is none.
    Missing,
    /// Its last line has no end: it is still being written.
    Truncated,
    /// This line is none of a Module.symvers: the build would fail on it.
    Garbled(String),
    /// Whole, without both peer-memory symbols.
    WithoutPeerMemory,
    /// Whole, with both.
    WithPeerMemory,
    /// Unknown.
    Unreadable(Unreadable),
}

/// The header directory that NVIDIA's build would take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HeaderTree {
    /// There is no `ofa_kernel` directory.
    Missing,
    /// There is one, but no directory in it that the build would take; those for other kernels.
    NoCandidate(Vec<String>),
    /// The first one that the build would take.
    Taken {
        /// Its path as the build names it.
        directory: PathBuf,
        /// The other kernel whose tree it really is (`default` leads there).
        other_kernel: Option<String>,
        /// Its Module.symvers.
        symvers: Symvers,
    },
    /// Unknown.
    Unreadable(Unreadable),
}

/// MOFED's headers, as NVIDIA's build would find them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Headers {
    /// The path of `ofa_kernel`.
    pub root: PathBuf,
    /// MOFED's tree.
    pub tree: HeaderTree,
    /// The kernel's own Module.symvers, where host MOFED makes it count.
    pub kernel_build: Option<(PathBuf, Symvers)>,
}

impl Headers {
    /// False when a part could not be read.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        let tree = match &self.tree {
            HeaderTree::Unreadable(_) => false,
            HeaderTree::Taken { symvers, .. } => !matches!(symvers, Symvers::Unreadable(_)),
            HeaderTree::Missing | HeaderTree::NoCandidate(_) => true,
        };
        tree && !matches!(self.kernel_build, Some((_, Symvers::Unreadable(_))))
    }
}

/// A module file's own data, as far as the kernel reads it before a load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModuleInfo {
    /// The ELF machine, in `uname -m`'s words; `ELF machine N` for what has none here.
    pub machine: String,
    /// Its own name, with underscores; empty where the file lacks it.
    pub name: String,
    /// The kernel it was built for: release, then flags.
    pub vermagic: String,
    /// `MODULE_VERSION`.
    pub version: Option<String>,
    /// The modules it was linked against, with underscores.
    pub depends: Vec<String>,
    /// The parameters it declares.
    pub parameters: Vec<String>,
    /// A signature is appended; only the kernel knows whether it is trusted.
    pub signed: bool,
    /// Identity of the build, in hexadecimal.
    pub build_id: Option<String>,
    /// The symbols that others must export when it is loaded: undefined and not weak.
    pub imports: BTreeSet<String>,
    /// The CRC of each symbol it was built against, `module_layout` included; empty where none was recorded.
    pub versions: BTreeMap<String, u32>,
    /// They are recorded in the newer form alone, `__version_ext_crcs`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub extended_only: bool,
    /// The CRC of each symbol it exports, as far as the file shows them; 0 for all where the kernel has none.
    pub exports: BTreeMap<String, u32>,
    /// Who rebuilt it, by its own account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuilt_by: Option<String>,
}

/// The name under which a module says who rebuilt it, and ours there.
pub const REBUILT_BY: (&str, &str) = ("rebuilt_by", "peermem-gate");

impl ModuleInfo {
    /// An nvidia-peermem that was built without MOFED's headers. It is known by what it does not want: version,
    /// srcversion and parameters are the real one's.
    #[must_use]
    pub fn is_stub(&self) -> bool {
        !self.imports.contains(PEER_MEMORY_SYMBOLS[0])
    }

    /// Whether the kernel compares CRCs instead of releases: where there is a `__versions` (`check_modinfo` in
    /// kernel/module/main.c; still so in 7.0, which reads CRCs of the newer form too).
    #[must_use]
    pub fn is_of_any_release(&self) -> bool {
        !self.versions.is_empty() && !self.extended_only
    }

    /// It was built for a kernel with symbol versions (`CONFIG_MODVERSIONS`), by its own account.
    #[must_use]
    pub fn has_versions(&self) -> bool {
        self.vermagic.split(' ').any(|word| word == "modversions") || !self.versions.is_empty()
    }

    /// The release of the kernel that it was built for.
    #[must_use]
    pub fn release(&self) -> &str {
        self.vermagic.split(' ').next().unwrap_or_default()
    }
}

/// A module file as modprobe would find it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ModuleFile {
    /// There is none below this directory of modules.
    Missing(PathBuf),
    /// Likewise, and there is no driver in this root: the driver's container may be starting or ending.
    Away(PathBuf),
    /// The file cannot be read.
    Unreadable(Unreadable),
    /// The file is there, and is no module that the kernel could load.
    Damaged(Unreadable),
    /// The file was read.
    Read {
        /// Its path.
        path: PathBuf,
        /// More files of the same module, which modprobe ignores.
        ignored_paths: Vec<PathBuf>,
        /// modules.dep lists it; `None` where there is no modules.dep.
        listed: Option<bool>,
        /// Its own data.
        info: Box<ModuleInfo>,
    },
}

impl ModuleFile {
    /// What was read of it.
    #[must_use]
    pub fn info(&self) -> Option<&ModuleInfo> {
        if let Self::Read { info, .. } = self { Some(info) } else { None }
    }
}

/// A parameter that will be given to a module without being asked for again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GivenParameter {
    /// The file that gives it.
    pub source: PathBuf,
    /// `NAME=VALUE`, or only `NAME`.
    pub text: String,
}

/// Everything that decides whether nvidia-peermem will load.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Peermem {
    /// The root of the driver's files: the one that was asked for, or where a driver container shows its own.
    #[serde(default)]
    pub root: PathBuf,
    /// The process that the driver's pid file names and that does not hold the lock on it: its root does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_pid: Option<u32>,
    /// The file that modprobe would take.
    pub file: ModuleFile,
    /// The parameters that modprobe would give it by itself.
    pub parameters: Vec<GivenParameter>,
    /// Where more of them may be.
    pub parameters_unreadable: Vec<Unreadable>,
    /// The commands that modprobe would run instead of loading it: `install` lines, without their first two words.
    #[serde(default)]
    pub install: Vec<GivenParameter>,
    /// The CRCs of the peer-memory symbols that are live.
    pub peer_memory: Offer,
    /// The CRCs of the live nvidia's symbols.
    pub nvidia: Offer,
    /// Files that the running kernel has accepted.
    pub accepted: Vec<Accepted>,
    /// The kernel's rule for signatures.
    pub signatures: Signatures,
    /// Build ids of the modules that `rebuild` installed for this kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rebuilt: Vec<String>,
    /// The file that modprobe would take is the last that we installed, built for the live nvidia and MOFED.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_for_live: bool,
    /// A symbol and its CRC that the kernel refused while the same modules were live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<(String, u32)>,
    /// Further files of the module, where the one that modprobe would take is ours: it may come before a better one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_files: Vec<OtherFile>,
    /// The build id of the `nvidia_peermem` that is loaded, where `rebuild` installed any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded: Option<String>,
}

/// A file of the module that modprobe ignores.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OtherFile {
    /// Its path.
    pub path: PathBuf,
    /// Its own data.
    pub info: Box<ModuleInfo>,
}

impl Peermem {
    /// The file that modprobe would take is one that we rebuilt.
    #[must_use]
    pub fn is_rebuilt(&self) -> bool {
        let build_id = self.file.info().and_then(|info| info.build_id.as_ref());
        build_id.is_some_and(|id| self.rebuilt.contains(id))
    }

    /// The module that is loaded is one that we rebuilt.
    #[must_use]
    pub fn is_rebuilt_loaded(&self) -> bool {
        self.loaded.as_ref().is_some_and(|id| self.rebuilt.contains(id))
    }
}

/// The CRCs that a live module offers for its symbols.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Offer {
    /// From the loaded module's own file: their build ids are the same.
    LoadedFile(PathBuf, BTreeMap<String, u32>),
    /// From the Module.symvers of the build that it should come from.
    Symvers(PathBuf, BTreeMap<String, u32>),
    /// Nothing that could be trusted can be read.
    Unknown(String),
}

/// The kernel's traits in the file of a loaded module: the kernel agreed by loading it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Accepted {
    /// The file.
    pub path: PathBuf,
    /// Its vermagic.
    pub vermagic: String,
    /// The CRCs it was built against.
    pub versions: BTreeMap<String, u32>,
}

/// The kernel's rule for a module's signature.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Signatures {
    /// `module.sig_enforce`; `None` where the kernel knows no signatures.
    pub enforced: Seen<Option<bool>>,
    /// The lockdown that is in force, such as `integrity`; `None` where the kernel has none, or securityfs is
    /// not mounted.
    pub lockdown: Seen<Option<String>>,
}

impl Signatures {
    /// Whether this kernel loads only signed modules, as far as that is known: what cannot be read may demand them.
    #[must_use]
    pub fn are_demanded(&self) -> bool {
        let is_off = matches!(self.enforced, Ok(None | Some(false)));
        let is_open = match &self.lockdown {
            Ok(mode) => mode.as_deref().is_none_or(|mode| mode == "none"),
            Err(_) => false,
        };
        !(is_off && is_open)
    }
}

impl Default for Signatures {
    fn default() -> Self {
        Self { enforced: Ok(None), lockdown: Ok(None) }
    }
}

/// The identities at one look. Marker and modules must stay the same for the settle time to go on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The marker's file.
    pub marker: Option<FileId>,
    /// The process that holds MOFED's lock, where there is a marker.
    pub holder: Option<i32>,
    /// Inodes of the modules' directories in /sys/module.
    pub modules: BTreeMap<String, u64>,
}

impl Observation {
    /// The kernel's own RDMA stack is live, and no MOFED of the host's is to come: it would have its headers here.
    #[must_use]
    pub fn is_in_box(&self) -> bool {
        let has_no_headers = matches!(self.headers.tree, HeaderTree::Missing);
        let names_no_version = self.header_versions.as_ref().is_ok_and(Vec::is_empty);
        has_no_headers && names_no_version && self.is_exporter_in_tree()
    }

    /// The live module that exports peer memory is the kernel's own, or the kernel itself: by both witnesses.
    #[must_use]
    pub fn is_exporter_in_tree(&self) -> bool {
        let name = match &self.symbols {
            Symbols::ExportedBy(None) => return true,
            Symbols::ExportedBy(Some(name)) => name,
            Symbols::Missing | Symbols::NotRead | Symbols::Unreadable(_) => return false,
        };
        let (Ok(proc), Some(sys)) = (&self.modules.proc, self.modules.sys.get(name)) else { return false };
        let is_own = |taint: &str| !taint.contains('O');
        match proc.named(name).next() {
            Some(line) => {
                let is_live = line.state == ProcState::Live && sys.state == SysState::Live;
                is_live && is_own(&line.taint) && matches!(&sys.taint, Ok(Some(taint)) if is_own(taint))
            }
            None => self.modules.is_built_in(name),
        }
    }

    /// Who is who at this look.
    #[must_use]
    pub fn identity(&self) -> Identity {
        let inode = |(name, module): (&String, &SysModule)| Some((name.clone(), module.inode?));
        Identity {
            marker: match self.marker {
                Marker::Present(id) => Some(id),
                _ => None,
            },
            holder: self.lock_holder,
            modules: self.modules.sys.iter().filter_map(inode).collect(),
        }
    }
}

impl Identity {
    /// The difference in words, if there is one.
    #[must_use]
    pub fn difference(&self, later: &Self) -> Option<String> {
        if self.marker != later.marker {
            return Some("the marker was created again".to_owned());
        }
        let reloaded = |name: &&String| self.modules.get(*name) != later.modules.get(*name);
        let names = self.modules.keys().chain(later.modules.keys());
        let how = |name| if later.modules.contains_key(name) { "was loaded again" } else { "is gone" };
        names.into_iter().find(reloaded).map(|name| format!("module {name} {}", how(name)))
    }
}
