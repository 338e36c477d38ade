// SPDX-License-Identifier: Apache-2.0
//! The facts of a node that the actors share, and how the production code sees them.

use crate::judge::judge;
use crate::look::Look;
use crate::node::Expectations;
use crate::observation::{
    FileId, HeaderTree, HolderStart, HolderTimes, Lock, Marker, ModuleFile, ModuleInfo, Observation, Offer,
    ProcModule, ProcModules, ProcState, Symbols, Symvers, SysState,
};
use crate::rebuild::sample;
use crate::time::BootTime;
use std::collections::BTreeMap;
use std::time::Duration;

/// How far the model's clock goes at once. MOFED's own rmmod comes 0.1 to 0.7 s after the marker is gone, so two of
/// these are longer than that, and shorter than the 1.5 s that `keep` leaves it.
pub(super) const TICK: Duration = Duration::from_millis(500);
/// All modules of an RDMA stack that `--module` names by default.
const STACK: [&str; 4] = ["ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib"];
const BOOT: i64 = 1_700_000_000;

/// The RDMA modules that are live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stack {
    /// Between an unload and a load.
    None,
    /// The kernel's own, as after a boot: its `mlx5_core` is enough for k8s-driver-manager v0.9.0.
    InTree,
    /// MOFED's: the number tells one load of it from the next.
    Mofed(u8),
}

/// The nvidia-peermem.ko that modprobe would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum File {
    /// None: the driver is not built, or a restarted container took the fast path (gpu-driver-container#1019).
    Missing,
    /// Built without MOFED's headers: the kernel refuses it with EINVAL.
    Stub,
    /// Built with them.
    Good,
}

/// A node with one Mellanox NIC.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    /// `.driver-ready`: the number of the container that made it.
    pub marker: Option<u8>,
    /// Who holds `.lock`: the number of the container.
    pub lock: Option<u8>,
    pub stack: Stack,
    /// MOFED's headers are mounted, for the container with this number.
    pub headers: Option<u8>,
    pub file: File,
    /// nvidia is loaded, so nvidia-peermem can be.
    pub has_nvidia: bool,
    /// `nvidia_peermem` is loaded: which load of it.
    pub peermem: Option<u8>,
    /// The number of its last load.
    pub loads: u8,
    /// A GPU job uses it.
    pub is_used: bool,
}

impl Node {
    /// After a boot: the kernel's own stack, no MOFED, no driver.
    pub(super) fn booted() -> Self {
        Self {
            marker: None,
            lock: None,
            stack: Stack::InTree,
            headers: None,
            file: File::Missing,
            has_nvidia: false,
            peermem: None,
            loads: 0,
            is_used: false,
        }
    }

    /// Everything is ready, and `nvidia_peermem` can be loaded.
    pub(super) fn ready() -> Self {
        let driver = Self { file: File::Good, has_nvidia: true, ..Self::booted() };
        Self { marker: Some(1), lock: Some(1), stack: Stack::Mofed(1), headers: Some(1), ..driver }
    }

    /// The kernel loads it: every symbol that a good file imports is there.
    pub(super) fn loads(&mut self) -> bool {
        let fits = self.file == File::Good && matches!(self.stack, Stack::Mofed(_)) && self.has_nvidia;
        if fits && self.peermem.is_none() {
            // A number of its own, and few of them: only the last load is ever compared with the next.
            self.loads = self.loads % 3 + 1;
            self.peermem = Some(self.loads);
        }
        fits
    }

    /// The kernel unloads it unless it is in use.
    pub(super) fn unloads(&mut self) -> bool {
        let may = self.peermem.is_some() && !self.is_used;
        if may {
            self.peermem = None;
        }
        may
    }

    /// One look of the production code: observed, then judged.
    pub(super) fn look(&self, now: BootTime, sees_locks: bool) -> (Expectations, Observation, Look) {
        let expected = expected();
        let seen = self.observation(now, sees_locks);
        let look = Look { verdict: judge(&expected, &seen), identity: seen.identity(), next_build: None };
        (expected, seen, look)
    }

    fn observation(&self, now: BootTime, sees_locks: bool) -> Observation {
        let mut seen = sample::seen();
        seen.marker = self.marker.map_or(Marker::Absent, |by| Marker::Present(marker_file(by)));
        (seen.lock, seen.lock_holder) = self.lock(sees_locks);
        seen.holder_start = match seen.lock_holder {
            // A marker of an earlier container was seen before this one started.
            Some(holder) => HolderStart::Known(HolderTimes {
                started: now.saturating_sub(Duration::from_secs(1)),
                now: Some(now),
                marker_seen: self.marker.filter(|by| i32::from(*by) != holder).map(|_| Duration::ZERO),
                booted: Some(BOOT),
                sysfs_mounted_ns: None,
            }),
            None => HolderStart::NotRead,
        };
        self.modules(&mut seen);
        seen.symbols = match self.stack {
            Stack::Mofed(_) => Symbols::ExportedBy(Some("ib_uverbs".to_owned())),
            Stack::None | Stack::InTree => Symbols::Missing,
        };
        if self.headers.is_none() {
            seen.headers.tree = HeaderTree::Missing;
        } else if let HeaderTree::Taken { symvers, .. } = &mut seen.headers.tree {
            *symvers = Symvers::WithPeerMemory;
        }
        if let Some(peermem) = &mut seen.peermem {
            peermem.file = self.module_file();
            if !matches!(self.stack, Stack::Mofed(_)) {
                peermem.peer_memory = Offer::Unknown("ib_uverbs is not loaded".to_owned());
            }
        }
        seen
    }

    fn lock(&self, sees_locks: bool) -> (Lock, Option<i32>) {
        match self.lock {
            _ if !sees_locks => (Lock::HolderHidden, None),
            Some(holder) => (Lock::Held, Some(holder.into())),
            None => (Lock::Free, None),
        }
    }

    fn modules(&self, seen: &mut Observation) {
        let stack = match self.stack {
            Stack::None => None,
            Stack::InTree => Some((0, "")),
            Stack::Mofed(load) => Some((load, "OE")),
        };
        let stack = STACK.map(|name| (name, stack));
        let peermem = ("nvidia_peermem", self.peermem.map(|load| (load, "OE")));
        let nvidia = ("nvidia", self.has_nvidia.then_some((1, "OE")));
        let mut lines = Vec::new();
        for (name, loaded) in stack.into_iter().chain([peermem, nvidia]) {
            let state = if loaded.is_some() { SysState::Live } else { SysState::NoDirectory };
            let version = if name == "nvidia" { sample::VERSION } else { "25.07-0.9.7" };
            let mut module = sample::sys_module(state, Some(version));
            module.inode = loaded.map(|(load, _)| load.into());
            if let Some((_, taint)) = loaded {
                module.taint = Ok(Some(taint.to_owned()));
                let refcount = Some(i64::from(name == "nvidia_peermem" && self.is_used));
                let is_used = name == "ib_uverbs" && self.peermem.is_some();
                let users = is_used.then(|| "nvidia_peermem".to_owned()).into_iter().collect();
                lines.push(ProcModule { users, ..line(name, refcount, taint) });
            }
            seen.modules.sys.insert(name.to_owned(), module);
        }
        seen.modules.proc = Ok(ProcModules { modules: lines, garbled: None });
    }

    fn module_file(&self) -> ModuleFile {
        let symbols = |crc| match self.file {
            File::Good => sample::offered(crc),
            File::Missing | File::Stub => BTreeMap::new(),
        };
        if self.file == File::Missing {
            return ModuleFile::Missing("/lib/modules".into());
        }
        let mut versions = symbols(sample::CRC);
        versions.extend(sample::nvidia());
        let info = ModuleInfo {
            machine: "x86_64".to_owned(),
            name: "nvidia_peermem".to_owned(),
            vermagic: format!("{} SMP mod_unload modversions ", sample::RELEASE),
            version: Some(sample::VERSION.to_owned()),
            depends: vec!["nvidia".to_owned()],
            imports: versions.keys().cloned().collect(),
            versions,
            ..ModuleInfo::default()
        };
        let path = "/lib/modules/nvidia-peermem.ko".into();
        ModuleFile::Read { path, others: Vec::new(), listed: Some(true), info: Box::new(info) }
    }
}

fn marker_file(by: u8) -> FileId {
    // Long after the boot, and after its container's start.
    let seconds = BOOT + 2_000_000 + i64::from(by);
    FileId { device: 1, inode: by.into(), changed_ns: i128::from(seconds) * 1_000_000_000 }
}

fn line(name: &str, refcount: Option<i64>, taint: &str) -> ProcModule {
    ProcModule {
        name: name.to_owned(),
        size: 1,
        refcount,
        users: Vec::new(),
        state: ProcState::Live,
        address: "0x0".to_owned(),
        taint: taint.to_owned(),
    }
}

fn expected() -> Expectations {
    let mut expected = sample::node("/".as_ref()).expected;
    expected.modules = STACK.map(str::to_owned).into();
    expected
}

#[test]
fn the_production_code_calls_the_ready_node_ready() {
    let (.., look) = Node::ready().look(Duration::from_secs(1_000_000), true);
    assert_eq!(look.verdict.deciding(), None);
    for (spoilt, file) in [("StubModule", File::Stub), ("ModuleFileMissing", File::Missing)] {
        let (.., look) = Node { file, ..Node::ready() }.look(Duration::from_secs(1_000_000), true);
        assert_eq!(look.verdict.deciding().map(|c| c.reason.to_string()), Some(spoilt.to_owned()));
    }
}
