// SPDX-License-Identifier: Apache-2.0
//! Peer memory on a node, in a few facts: `doctor` reports them, and `fleet` compares them with another MOFED.

use peermem_gate::ready::PEER_MEMORY_SYMBOLS;
use peermem_gate::ready::condition::{ConditionType, Reason};
use peermem_gate::ready::node::Expectations;
use peermem_gate::ready::observation::{
    ModuleFile, ModuleInfo, Observation, Offer, ProcState, Symbols, SysState,
};
use peermem_gate::ready::verdict::{Condition, Outcome, Verdict};
use peermem_gate::words::judge;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kernel's name for nvidia-peermem.
const NAME: &str = "nvidia_peermem";

/// The kind of nvidia-peermem.ko that modprobe would take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PeermemKind {
    /// Both symbols are wanted, with their CRCs.
    Real,
    /// Built without MOFED.
    Stub,
    /// The symbols are wanted without CRCs, on a kernel that may ask for them.
    WithoutCrcs,
    /// Its kernel compares no CRCs.
    Unversioned,
    /// There is none.
    Missing,
    /// Unreadable, or a later version of the doctor names it otherwise.
    #[default]
    #[serde(other)]
    Unknown,
}

impl PeermemKind {
    fn of(file: &ModuleFile) -> Self {
        let info = match file {
            // What modules.dep does not list, modprobe does not find.
            ModuleFile::Missing(_) | ModuleFile::Away(_) | ModuleFile::Read { listed: Some(false), .. } => {
                return Self::Missing;
            }
            ModuleFile::Read { info, .. } => info,
            ModuleFile::Unreadable(_) | ModuleFile::Damaged(_) => return Self::Unknown,
        };
        let has_all = PEER_MEMORY_SYMBOLS.iter().all(|symbol| info.versions.contains_key(*symbol));
        match &**info {
            info if info.is_stub() => Self::Stub,
            _ if has_all => Self::Real,
            ModuleInfo { versions, .. } if versions.is_empty() => Self::Unversioned,
            _ => Self::WithoutCrcs,
        }
    }
}

/// The facts. Its JSON form is a part of the report `peermem-gate/v1`.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PeerMemory {
    /// The live module that exports peer memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exporter: Option<String>,
    /// The CRCs of its symbols.
    pub offered: BTreeMap<String, String>,
    /// The file of nvidia-peermem.
    pub file: PeermemKind,
    /// The CRCs that the file wants.
    pub wanted: BTreeMap<String, String>,
    /// nvidia-peermem is live.
    pub live: bool,
    /// Processes that have RDMA devices open; absent where that is hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<usize>,
    /// `Possible`, or the first obstacle to a rebuild.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<String>,
    /// The node is blocked, and only because the CRCs differ: with another MOFED it may be well.
    pub only_versions_block: bool,
}

impl PeerMemory {
    /// Of a look. `users`, `rebuild` and `only_versions_block` come from elsewhere.
    pub fn of(seen: &Observation) -> Self {
        let exporter = match &seen.symbols {
            Symbols::ExportedBy(name) => Some(name.clone().unwrap_or_else(|| "kernel".to_owned())),
            _ => None,
        };
        let Some(peermem) = &seen.peermem else { return Self { exporter, ..Self::default() } };
        let offered = match &peermem.peer_memory {
            // A Module.symvers may be of another build than the live stack.
            Offer::LoadedFile(_, crcs) => shown(crcs),
            Offer::Symvers(..) | Offer::Unknown(_) => BTreeMap::new(),
        };
        let wanted = match &peermem.file {
            ModuleFile::Read { info, .. } => shown(&info.versions),
            _ => BTreeMap::new(),
        };
        let live = |module: &peermem_gate::ready::observation::ProcModule| module.state == ProcState::Live;
        let live = seen.modules.proc.as_ref().is_ok_and(|proc| proc.named(NAME).any(live));
        Self { exporter, offered, file: PeermemKind::of(&peermem.file), wanted, live, ..Self::default() }
    }
}

impl PeerMemory {
    /// Only what is compared, and no more of it than there can be: others may send anything.
    pub fn bounded(mut self) -> Self {
        const CRC: usize = "0x9ca761a2".len();
        const LONGEST: usize = 64;
        for crcs in [&mut self.offered, &mut self.wanted] {
            crcs.retain(|symbol, crc| PEER_MEMORY_SYMBOLS.contains(&symbol.as_str()) && crc.len() == CRC);
        }
        self.exporter = None;
        self.rebuild = self.rebuild.filter(|obstacle| obstacle.len() <= LONGEST);
        self
    }
}

/// The peer-memory symbols, as Module.symvers writes CRCs.
pub fn shown(crcs: &BTreeMap<String, u32>) -> BTreeMap<String, String> {
    let ours = crcs.iter().filter(|(symbol, _)| PEER_MEMORY_SYMBOLS.contains(&symbol.as_str()));
    ours.map(|(symbol, crc)| (symbol.clone(), format!("{crc:#010x}"))).collect()
}

/// The same node, as if its nvidia-peermem had just become unfit: what a rebuild would find then.
pub fn as_if_unfit(seen: &Observation, verdict: &Verdict) -> (Observation, Verdict) {
    let mut seen = seen.clone();
    if let Ok(proc) = &mut seen.modules.proc {
        proc.modules.retain(|module| module.name != NAME);
    }
    if let Some(module) = seen.modules.sys.get_mut(NAME) {
        module.state = SysState::NoDirectory;
    }
    let unfit = Condition::new(ConditionType::PeermemUsable, Reason::SymbolVersionMismatch, "");
    (seen, verdict.clone().replacing(unfit))
}

/// Whether a MOFED with the CRCs that nvidia-peermem.ko wants would be all that this blocked node needs.
pub fn only_versions_block(expected: &Expectations, seen: &Observation, verdict: &Verdict) -> bool {
    let mut seen = seen.clone();
    if let Some(peermem) = &mut seen.peermem
        && let ModuleFile::Read { path, info, .. } = &peermem.file
    {
        peermem.peer_memory = Offer::Symvers(path.clone(), info.versions.clone());
        peermem.refused = None;
    }
    verdict.outcome == Outcome::Blocked && judge(expected, &seen).outcome != Outcome::Blocked
}
