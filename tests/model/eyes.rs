// SPDX-License-Identifier: Apache-2.0
//! The node as the production code sees it: an observation of the model's facts, judged by the production judge.

use super::node::{Abi, File, Load, Lock, Node, Origin, Stack, Stored};
use peermem_gate::cli::{Verb, environment};
use peermem_gate::peermem::store::StoreEntry;
use peermem_gate::ready::judge::swap;
use peermem_gate::ready::look::Look;
use peermem_gate::ready::node::{Expectations, Node as Described, PeermemExpected};
use peermem_gate::ready::observation::{
    FileId, HeaderTree, Headers, HolderStart, HolderTimes, Kernel, Marker, ModuleFile, ModuleInfo, Modules,
    Nic, Observation, Offer, OtherFile, Peermem, ProcModule, ProcModules, ProcState, Symbols, Symvers,
    SysModule, SysState,
};
use peermem_gate::ready::{PEER_MEMORY_SYMBOLS, observation};
use peermem_gate::rebuild::{Material, Pair, Sources, Tool};
use peermem_gate::watch::KeepInput;
use peermem_gate::words::judge;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const RELEASE: &str = "6.1.0-56-amd64";
const NVIDIA: &str = "595.45.04";
const DRIVERS: &str = "/lib/modules/6.1.0-56-amd64/kernel/drivers/video/nvidia-peermem.ko";
const REBUILT: &str = "/lib/modules/6.1.0-56-amd64/updates/nvidia-peermem.ko";
/// The build id of a module that the gate rebuilt.
const OURS: &str = "0e";

/// What a process of the gate's can see, and is asked to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "they are facts, and each comes and goes alone")]
pub(crate) struct Eyes {
    /// Its /proc is the host's, so it sees who holds MOFED's lock.
    pub(crate) sees_locks: bool,
    /// MOFED's own module files are where it looks, so it knows the live CRCs. Otherwise only headers tell them.
    pub(crate) sees_mofeds_files: bool,
    /// `USE_HOST_MOFED=true`.
    pub(crate) is_host: bool,
    /// `load` and `keep` look at nvidia-peermem.ko; `wait` does not.
    pub(crate) wants_peermem: bool,
    /// It may rebuild: without CRCs it trusts only its own build for the live MOFED.
    pub(crate) only_ours: bool,
    /// It has seen a NIC.
    pub(crate) saw_nic: bool,
}

impl Eyes {
    /// `load` or `keep` in a privileged pod with the host's pid namespace.
    pub(crate) const LOADER: Self = Self {
        sees_locks: true,
        sees_mofeds_files: false,
        is_host: false,
        wants_peermem: true,
        only_ours: false,
        saw_nic: false,
    };
    /// `wait` in such a pod.
    pub(crate) const WAITER: Self = Self { wants_peermem: false, ..Self::LOADER };

    /// The production code's expectations, as its command line and environment make them.
    fn expectations(self) -> Expectations {
        let args = ["peermem-gate", "keep"].map(OsString::from);
        let Verb::Keep(args) = environment::parse(&args, &Vec::new()).expect("options").verb else {
            unreachable!("keep was asked for")
        };
        let host = self.is_host.then(|| ("USE_HOST_MOFED".into(), "true".into()));
        let only_ours = self.only_ours;
        let peermem = self.wants_peermem.then(|| PeermemExpected { only_ours, ..PeermemExpected::default() });
        let variables = host.into_iter().collect();
        Described::new(&args.node, Path::new("/"), peermem, &variables).expect("options that fit").expected
    }

    /// One look at a node.
    pub(crate) fn look(self, node: &Node) -> Arc<Seen> {
        self.look_while(node, node)
    }

    /// One look during which the node changes: the marker, the lock and the modules are read first; headers, symbols
    /// and the module's file last.
    pub(crate) fn look_while(self, first: &Node, last: &Node) -> Arc<Seen> {
        type Known = HashMap<(Node, Node, Eyes), Arc<Seen>>;
        thread_local! { static KNOWN: RefCell<Known> = RefCell::default(); }
        let key = (first.clone(), last.clone(), self);
        KNOWN.with_borrow_mut(|known| {
            known.entry(key).or_insert_with(|| Arc::new(Seen::of(self, first, last))).clone()
        })
    }
}

/// A look, and what the production code makes of it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) expected: Expectations,
    pub(crate) observation: Observation,
    pub(crate) look: Look,
    /// As `keep` takes it in, before and after it has seen a marker.
    full_looks: [OnceLock<KeepInput>; 2],
}

impl Seen {
    fn of(eyes: Eyes, first: &Node, last: &Node) -> Self {
        let expected = eyes.expectations();
        let observation = observed(eyes, first, last);
        let verdict = judge(&expected, &observation);
        let look = Look { verdict, identity: observation.identity(), next_build: None };
        Self { expected, observation, look, full_looks: Default::default() }
    }

    /// The look as `keep` takes it in.
    pub(crate) fn full_look(&self, was_marked: bool) -> KeepInput {
        let full_look = self.full_looks[usize::from(was_marked)]
            .get_or_init(|| KeepInput::of(&self.expected, &self.observation, self.look.clone(), was_marked));
        full_look.clone()
    }

    /// The part that an unload depends on.
    pub(crate) fn glimpse(&self, was_marked: bool) -> swap::SwapCheck {
        let seen = &self.observation;
        self.completed(swap::glimpse(&self.expected, &seen.marker, &seen.modules, was_marked))
    }

    /// As src/watch completes a glimpse.
    pub(crate) fn completed(&self, glimpse: swap::SwapCheck) -> swap::SwapCheck {
        if !glimpse.must_go() {
            return glimpse;
        }
        let has_begun = glimpse.has_begun && self.observation.nic != Nic::None;
        swap::SwapCheck { has_begun, holder: self.holder(), ..glimpse }
    }

    /// Who holds the lock.
    pub(crate) fn holder(&self) -> observation::LockHolder {
        observation::LockHolder::of(&self.observation.lock, self.observation.lock_holder)
    }

    pub(crate) fn is_marked(&self) -> bool {
        matches!(self.observation.marker, Marker::Present(_))
    }
}

/// A look that saw a Mellanox device and nothing else; what a look of today has beyond that is as in an older trace.
pub(crate) fn recorded() -> Observation {
    static RECORDED: LazyLock<Observation> =
        LazyLock::new(|| serde_json::from_str(include_str!("../traces/seen.json")).expect("a look"));
    RECORDED.clone()
}

fn observed(eyes: Eyes, first: &Node, last: &Node) -> Observation {
    let (lock, lock_holder) = lock(eyes, first);
    Observation {
        kernel: Kernel { release: RELEASE.into(), machine: "x86_64".into(), ..Kernel::default() },
        nic: if first.has_nic { Nic::Found("0000:01:00.0".to_owned()) } else { Nic::None },
        // No life waits until a bus without a NIC counts as still.
        bus_still: first.stack.core.filter(|_| !eyes.saw_nic).map(|_| Duration::ZERO),
        marker: marker(eyes, first),
        lock,
        modules: modules(first),
        symbols: match last.stack.core.map(|core| core.from) {
            Some(Origin::Mofed(_)) => Symbols::ExportedBy(Some("ib_uverbs".to_owned())),
            Some(Origin::Kernel) | None => Symbols::Missing,
        },
        lock_holder,
        holder_start: lock_holder.map_or(HolderStart::NotRead, |holder| HolderStart::Known(start(holder))),
        headers: headers(last),
        peermem: eyes.wants_peermem.then(|| peermem(eyes, last)),
        ..recorded()
    }
}

/// A container starts so long before it makes its marker, and the next starts so long after that.
const START: i64 = 100;
const BOOT: i64 = 1_700_000_000;

fn marker(eyes: Eyes, node: &Node) -> Marker {
    match node.marker.filter(|_| !eyes.is_host) {
        Some(by) => {
            let seconds = BOOT + i64::from(by) * 2 * START;
            let changed_ns = i128::from(seconds) * 1_000_000_000;
            Marker::Present(FileId { device: 1, inode: by.into(), changed_ns })
        }
        None => Marker::Absent,
    }
}

/// When the container with this number started, by the clock that its marker has. A new gate knows no more.
fn start(holder: i32) -> HolderTimes {
    let seconds = i64::from(holder) * 2 * START - START;
    let started = Duration::from_secs(seconds.unsigned_abs());
    HolderTimes {
        started,
        now: Some(started + Duration::from_secs(1)),
        marker_seen: None,
        booted: Some(BOOT),
        sysfs_mounted_ns: None,
    }
}

fn lock(eyes: Eyes, node: &Node) -> (observation::Lock, Option<i32>) {
    match node.lock {
        Lock::Absent => (observation::Lock::NoFile, None),
        _ if !eyes.sees_locks => (observation::Lock::HolderHidden, None),
        Lock::Free => (observation::Lock::Free, None),
        Lock::Held(holder) => (observation::Lock::Held, Some(holder.into())),
    }
}

fn modules(node: &Node) -> Modules {
    let nvidia = node.has_nvidia.then_some(Load { number: node.nvidia, from: Origin::Mofed(Abi::New) });
    let peermem = node.peermem.map(|number| Load { number, from: Origin::Mofed(Abi::New) });
    let Stack { core, nic } = node.stack;
    let all = [
        ("ib_core", core),
        ("ib_uverbs", core),
        ("mlx5_core", nic),
        ("mlx5_ib", nic),
        ("nvidia", nvidia),
        ("nvidia_peermem", peermem),
    ];
    let lines = all.into_iter().filter_map(|(name, load)| Some(line(node, name, load?)));
    Modules {
        proc: Ok(ProcModules { modules: lines.collect(), garbled: None }),
        sys: all.into_iter().map(|(name, load)| (name.to_owned(), sys(name, load))).collect(),
    }
}

fn taint(load: Load) -> String {
    if load.from == Origin::Kernel { "" } else { "OE" }.to_owned()
}

fn line(node: &Node, name: &str, load: Load) -> ProcModule {
    let is_pinned = name == "ib_uverbs" && node.peermem.is_some();
    ProcModule {
        name: name.to_owned(),
        size: 1,
        refcount: Some(i64::from(name == "nvidia_peermem" && node.is_used)),
        users: is_pinned.then(|| "nvidia_peermem".to_owned()).into_iter().collect(),
        state: ProcState::Live,
        address: "0x0".to_owned(),
        taint: taint(load),
    }
}

fn sys(name: &str, load: Option<Load>) -> SysModule {
    let version = match (name, load.map(|load| load.from)) {
        ("nvidia" | "nvidia_peermem", Some(_)) => Some(NVIDIA),
        ("mlx5_core", Some(Origin::Mofed(abi))) => Some(release(abi)),
        _ => None,
    };
    SysModule {
        state: if load.is_some() { SysState::Live } else { SysState::NoDirectory },
        inode: load.map(|load| load.number.into()),
        taint: Ok(load.map(taint)),
        version: Ok(version.map(str::to_owned)),
    }
}

fn release(abi: Abi) -> &'static str {
    match abi {
        Abi::Old => "24.04-0.6.6",
        Abi::New => "25.07-0.9.7",
    }
}

fn headers(node: &Node) -> Headers {
    let taken = HeaderTree::Taken {
        directory: "/usr/src/ofa_kernel/x86_64".into(),
        other_kernel: None,
        symvers: Symvers::WithPeerMemory,
    };
    Headers {
        root: "/usr/src/ofa_kernel".into(),
        tree: node.headers.map_or(HeaderTree::Missing, |_| taken),
        kernel_build: None,
    }
}

/// The CRC of both peer-memory symbols; 0 where a kernel has none.
fn crc(node: &Node, abi: Abi) -> u32 {
    match abi {
        _ if !node.compares_crcs => 0,
        Abi::Old => 0x2404_0606,
        Abi::New => 0x2507_0907,
    }
}

fn crcs(node: &Node, abi: Abi) -> BTreeMap<String, u32> {
    PEER_MEMORY_SYMBOLS.map(|symbol| (symbol.to_owned(), crc(node, abi))).into()
}

fn nvidias(node: &Node) -> BTreeMap<String, u32> {
    let crc = if node.compares_crcs { 0x86ac_1260 } else { 0 };
    [("nvidia_p2p_get_pages".to_owned(), crc)].into()
}

/// What a file says of itself.
pub(crate) fn info(node: &Node, file: File, is_rebuilt: bool) -> ModuleInfo {
    let mut versions = BTreeMap::from([("module_layout".to_owned(), 1)]);
    if let File::Built(abi) = file {
        versions.extend(crcs(node, abi));
        versions.extend(nvidias(node));
    }
    let imports = versions.keys().filter(|symbol| *symbol != "module_layout").cloned().collect();
    versions.retain(|_, _| node.compares_crcs);
    let modversions = if node.compares_crcs { "modversions " } else { "" };
    ModuleInfo {
        machine: "x86_64".to_owned(),
        name: "nvidia_peermem".to_owned(),
        vermagic: format!("{RELEASE} SMP mod_unload {modversions}"),
        version: Some(NVIDIA.to_owned()),
        depends: if file == File::Stub {
            Vec::new()
        } else {
            vec!["ib_uverbs".to_owned(), "nvidia".to_owned()]
        },
        build_id: Some(if is_rebuilt { OURS } else { "1d" }.to_owned()),
        imports,
        versions,
        ..ModuleInfo::default()
    }
}

fn peermem(eyes: Eyes, node: &Node) -> Peermem {
    let drivers = node.files.driver.map(|file| (PathBuf::from(DRIVERS), Box::new(info(node, file, false))));
    let ours = |abi| (PathBuf::from(REBUILT), Box::new(info(node, File::Built(abi), true)));
    let ours = node.files.rebuilt.map(ours);
    let theirs = drivers.clone().filter(|_| ours.is_some());
    let file = match ours.clone().or(drivers) {
        Some((path, info)) => ModuleFile::Read { path, ignored_paths: Vec::new(), listed: Some(true), info },
        None => ModuleFile::Missing("/lib/modules".into()),
    };
    let file = if node.is_root_hidden { ModuleFile::Away("/lib/modules".into()) } else { file };
    let refused = node.files.refused.filter(|(live, _)| node.compares_crcs && node.live_abi() == Some(*live));
    Peermem {
        file,
        peer_memory: offer(eyes, node),
        nvidia: Offer::LoadedFile("/lib/modules/nvidia.ko".into(), nvidias(node)),
        rebuilt: ours.map(|_| OURS.to_owned()).into_iter().collect(),
        is_for_live: node.files.rebuilt.is_some() && node.files.rebuilt == node.live_abi(),
        refused: refused.map(|(_, wanted)| (PEER_MEMORY_SYMBOLS[0].to_owned(), crc(node, wanted))),
        other_files: theirs.into_iter().map(|(path, info)| OtherFile { path, info }).collect(),
        loaded: node.is_rebuilt_loaded.then(|| OURS.to_owned()),
        ..recorded().peermem.expect("nvidia-peermem is looked at")
    }
}

fn offer(eyes: Eyes, node: &Node) -> Offer {
    match (node.live_abi(), node.headers) {
        (Some(abi), _) if eyes.sees_mofeds_files => {
            Offer::LoadedFile("/lib/modules/ib_uverbs.ko".into(), crcs(node, abi))
        }
        (_, Some(abi)) => Offer::Symvers("/usr/src/ofa_kernel/x86_64/Module.symvers".into(), crcs(node, abi)),
        _ => Offer::Unknown("ib_uverbs is not loaded".to_owned()),
    }
}

/// All that a rebuild finds.
pub(crate) fn material(node: &Node) -> Material {
    let symvers = |abi| {
        let (crc, release) = (crc(node, abi), release(abi));
        let line =
            |symbol: &str| format!("{crc:#010x}\t{symbol}\t/ofa/{release}/ib_uverbs\tEXPORT_SYMBOL\t\n");
        (PathBuf::from("/usr/src/ofa_kernel/x86_64/Module.symvers"), PEER_MEMORY_SYMBOLS.map(line).concat())
    };
    let unreadable = observation::Unreadable { path: "/usr/src".into(), why: "no such file".to_owned() };
    let sources = Sources {
        root: PathBuf::new(),
        directory: format!("/usr/src/nvidia-{NVIDIA}").into(),
        version: Some(NVIDIA.to_owned()),
        misfit: None,
    };
    let has_sources = node.files.has_sources;
    let nvidia = ("/lib/modules/nvidia.ko".into(), nvidias(node));
    let tried = node.files.tried.filter(|abi| node.live_abi() == Some(*abi));
    let pair = Pair {
        kernel: RELEASE.to_owned(),
        nvidia: "4e76".to_owned(),
        mofed: node.live_abi().map_or("in-tree", release).to_owned(),
    };
    let stored = node.stored.and_then(|stored| found_in_store(stored, &pair));
    let nvidia = (has_sources || stored.is_some()).then_some(nvidia);
    let tools = [(Tool::Make, "make"), (Tool::Compiler, "gcc"), (Tool::Depmod, "depmod")];
    Material {
        build_root: PathBuf::new(),
        driver_root: "/run/nvidia/driver".into(),
        pair,
        sources: has_sources.then_some(sources).into_iter().collect(),
        headers: Some(format!("/lib/modules/{RELEASE}/build").into()),
        headers_are_linked: true,
        symvers: node.headers.map(symvers).ok_or(unreadable),
        symvers_are_kernels: false,
        nvidia: nvidia.ok_or_else(|| "there is no nvidia.ko".to_owned()),
        tools: tools.map(|(tool, name)| (tool, format!("/usr/bin/{name}").into())).into(),
        free: None,
        unwritable: None,
        exposed: None,
        foreign: None,
        tried: tried.map(|_| "make ended with 2".to_owned()),
        stored,
        signing: None,
        jobs: 4,
    }
}

/// The store's entry, as the production code reads it.
fn found_in_store(stored: Stored, pair: &Pair) -> Option<PathBuf> {
    let nvidia = if stored.is_of_nvidia { "4e76" } else { "4e77" };
    let of = Pair { nvidia: nvidia.to_owned(), mofed: release(stored.abi).to_owned(), ..pair.clone() };
    let mut bytes = StoreEntry::new(of, BTreeMap::new(), OURS.to_owned(), b"module").bytes(b"module");
    if stored.is_damaged {
        bytes.pop();
    }
    let (entry, _) = StoreEntry::read(&bytes)?;
    entry.has_module_for(pair).then(|| entry.name().into())
}

/// The release whose headers a build was planned with.
pub(crate) fn planned_for(symvers: &str) -> Abi {
    if symvers.contains(release(Abi::Old)) { Abi::Old } else { Abi::New }
}
