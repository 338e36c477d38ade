// SPDX-License-Identifier: Apache-2.0
//! The CRCs of symbols: what the file wants, against what the running modules offer. They differ after an upgrade
//! of MOFED, because the driver is not built again then (gpu-operator#2868).

use crate::peermem::judge::{Answer, LAYOUT, PeermemCase};
use crate::ready::PEER_MEMORY_SYMBOLS;
use crate::ready::condition::Reason;
use crate::ready::judge::modules::place;
use crate::ready::mofed::MofedPlace;
use crate::ready::observation::{ModuleInfo, Offer};
use std::collections::BTreeMap;

impl PeermemCase<'_> {
    /// The kernel has the last word, also where all that can be read agrees with the file.
    pub(super) fn refused(&self, info: &ModuleInfo) -> Answer {
        let (symbol, crc) = self.peermem.refused.as_ref()?;
        let is_known = matches!(self.offer_of(symbol), Some(Offer::LoadedFile(..)));
        (!is_known && info.versions.get(symbol) == Some(crc)).then(|| {
            let why = match self.offer_of(symbol) {
                Some(Offer::Unknown(why)) => format!(": {why}"),
                _ => String::new(),
            };
            let message = format!(
                "{} needs {symbol} with CRC {crc:#010x}, which the kernel refused: the live module has another{why}",
                self.path()
            );
            (Reason::SymbolVersionMismatch, message)
        })
    }

    pub(super) fn mismatch(&self, info: &ModuleInfo) -> Answer {
        let differs = |offer: &dyn Fn(&str) -> Option<(u32, String)>| {
            let wanted = info.versions.iter().filter(|(symbol, _)| *symbol != LAYOUT);
            wanted
                .filter_map(|(symbol, crc)| Some((symbol, *crc, offer(symbol)?)))
                .find(|(_, crc, (found, _))| crc != found)
        };
        // The numbers first: a line that is cut loses the paths.
        let message = |symbol: &str, (wanted, found): (u32, u32), why: &str, source: &str| {
            format!(
                "CRC {wanted:#010x} of {symbol} in nvidia-peermem.ko is {found:#010x} in the live modules: it was {why} \
                    ({}; {source})",
                self.path()
            )
        };
        let (peer_memory, nvidia) = (&self.peermem.peer_memory, &self.peermem.nvidia);
        if let Some((symbol, wanted, (found, source))) = differs(&|symbol| offered(peer_memory, symbol)) {
            let why = match place(self.expected.mofed, self.seen) {
                MofedPlace::InBox => "not built against the kernel's own RDMA stack, which is live",
                MofedPlace::Host | MofedPlace::Container => "built against another MOFED",
            };
            return Some((Reason::SymbolVersionMismatch, message(symbol, (wanted, found), why, &source)));
        }
        if let Some((symbol, wanted, (found, source))) = differs(&|symbol| offered(nvidia, symbol)) {
            let why = "built against another nvidia than the loaded one";
            return Some((Reason::SymbolVersionMismatch, message(symbol, (wanted, found), why, &source)));
        }
        let of_kernel = |symbol: &str| {
            let mut accepted = self.peermem.accepted.iter();
            accepted.find_map(|a| Some((*a.versions.get(symbol)?, a.path.display().to_string())))
        };
        let (symbol, wanted, (found, source)) = differs(&of_kernel)?;
        let why = "built for another kernel or MOFED";
        Some((
            Reason::SymbolVersionMismatch,
            message(symbol, (wanted, found), why, &format!("{source}, which is loaded")),
        ))
    }

    pub(super) fn version_missing(&self, info: &ModuleInfo) -> Answer {
        if !info.has_versions() && !self.kernel_has_versions() {
            return self.not_for_live();
        }
        let mut without = info.imports.iter().filter(|symbol| !info.versions.contains_key(*symbol));
        let missing = without.find(|symbol| self.must_have_version(info, symbol))?;
        Some((
            Reason::SymbolVersionMissing,
            format!(
                "{} has no CRC for {missing}, which this kernel may require: it was built without the \
                    Module.symvers that lists it",
                self.path()
            ),
        ))
    }

    /// Such a kernel takes what was built for any MOFED. Who can rebuild it trusts only what was built here, for the
    /// modules that are live; the kernel's own RDMA stack is of the kernel that the file says it is for.
    fn not_for_live(&self) -> Answer {
        let is_mofeds = place(self.expected.mofed, self.seen) != MofedPlace::InBox;
        (self.asked.only_ours && is_mofeds && !self.peermem.is_for_live).then(|| {
            (
                Reason::SymbolVersionMissing,
                format!(
                    "this kernel has no symbol versions (CONFIG_MODVERSIONS), so nothing shows for which MOFED and \
                        nvidia {} was built: peermem-gate has not built it for those that are live",
                    self.path()
                ),
            )
        })
    }

    /// Whether this import needs a CRC. A symbol exported without a CRC is imported without one, in an otherwise
    /// sound file; kernels load it. Most load the rest too, with a warning and an ABI that was not compared:
    /// Debian's do not.
    fn must_have_version(&self, info: &ModuleInfo, symbol: &str) -> bool {
        let is_odd = || info.versions.keys().any(|name| name != LAYOUT && !info.imports.contains(name));
        let is_offered = || self.peermem.accepted.iter().any(|a| a.versions.contains_key(symbol));
        info.versions.is_empty() || self.offer_of(symbol).is_some() || is_offered() || is_odd()
    }

    /// By the word in an accepted vermagic, or by what MOFED was built with.
    fn kernel_has_versions(&self) -> bool {
        let by_symvers = || {
            let crc = |symbol| offered(&self.peermem.peer_memory, symbol);
            PEER_MEMORY_SYMBOLS.into_iter().any(|symbol| crc(symbol).is_some())
        };
        match self.peermem.accepted.first() {
            Some(accepted) => accepted.vermagic.split(' ').any(|word| word == "modversions"),
            None => by_symvers(),
        }
    }

    /// A driver's package was upgraded under the nvidia that is loaded. Its file is gone, so nothing is left
    /// to compare but the two versions: nvidia-peermem's `MODULE_VERSION` is the driver's.
    pub(super) fn other_driver(&self, info: &ModuleInfo) -> Answer {
        let wants_nvidia = |symbol: &String| symbol.starts_with("nvidia_p2p_");
        let is_open =
            matches!(self.peermem.nvidia, Offer::Unknown(_)) && info.versions.keys().any(wants_nvidia);
        let nvidia = self.seen.modules.sys.get("nvidia").filter(|_| is_open)?;
        let (Ok(Some(loaded)), Some(built)) = (&nvidia.version, &info.version) else { return None };
        (loaded != built).then(|| {
            (
                Reason::OtherDriverLoaded,
                format!("{} is of driver {built}, but the loaded nvidia is {loaded}", self.path()),
            )
        })
    }

    pub(super) fn version_unknown(&self, info: &ModuleInfo) -> Answer {
        let recorded = |symbol: &&String| info.versions.contains_key(*symbol);
        let unknown = |symbol: &&String| {
            let offer = self.offer_of(symbol)?;
            offered(offer, symbol).is_none().then_some(offer)
        };
        let (symbol, offer) =
            info.imports.iter().filter(recorded).find_map(|symbol| Some((symbol, unknown(&symbol)?)))?;
        let why = match offer {
            Offer::Unknown(why) => why.clone(),
            Offer::LoadedFile(path, _) | Offer::Symvers(path, _) => {
                format!("{} does not list it with a CRC", path.display())
            }
        };
        Some((
            Reason::SymbolVersionUnknown,
            format!("cannot compare the CRC of {symbol}, which {} needs: {why}", self.path()),
        ))
    }

    /// Who has to offer this symbol; `None` for the kernel's own.
    fn offer_of(&self, symbol: &str) -> Option<&Offer> {
        if PEER_MEMORY_SYMBOLS.contains(&symbol) {
            Some(&self.peermem.peer_memory)
        } else if symbol.starts_with("nvidia_p2p_") {
            Some(&self.peermem.nvidia)
        } else {
            None
        }
    }
}

/// The CRC and where it comes from. A kernel without symbol versions has 0 for all of them in its Module.symvers.
pub(super) fn offered(offer: &Offer, symbol: &str) -> Option<(u32, String)> {
    let crc = |crcs: &BTreeMap<String, u32>| crcs.get(symbol).copied().filter(|crc| *crc != 0);
    match offer {
        Offer::LoadedFile(path, crcs) => {
            Some((crc(crcs)?, format!("{} (the loaded module's file)", path.display())))
        }
        Offer::Symvers(path, crcs) => Some((crc(crcs)?, path.display().to_string())),
        Offer::Unknown(_) => None,
    }
}
