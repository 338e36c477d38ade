// SPDX-License-Identifier: Apache-2.0
//! The node's memory of drivers that are gone: an entry is a header line of JSON, then the module's bytes. Pure; what
//! does not fit in every point is no entry.

pub mod read;

use crate::peermem::record::Pair;
use flate2::Crc;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// The directory on the node, beside the records of rebuilds.
pub const STORE: &str = "/var/lib/peermem-gate/store";
/// A newer form has another number, and counts as none for this program.
const FORM: u32 = 1;
/// The header lists ten symbols.
const HEADER: usize = 64 << 10;
/// The most entries that are kept: a node has few kernels, drivers and MOFEDs at a time.
pub const MOST: usize = 8;
/// The largest module. With debug information nvidia-peermem.ko has one megabyte.
pub const LARGEST: u64 = 16 << 20;

/// The header of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreEntry {
    form: u32,
    /// The kernel, nvidia and MOFED that it is for; without a module, the MOFED is empty.
    pub pair: Pair,
    /// The CRCs of nvidia's exports.
    pub nvidia: BTreeMap<String, u32>,
    /// The build id of the module, as the kernel had it when it was live.
    pub build_id: String,
    size: u64,
    crc32: u32,
}

impl StoreEntry {
    /// An entry for this module, or for nvidia's symbols only if there are no bytes.
    #[must_use]
    pub fn new(pair: Pair, nvidia: BTreeMap<String, u32>, build_id: String, module: &[u8]) -> Self {
        let (size, crc32) = (module.len() as u64, crc32(module));
        Self { form: FORM, pair, nvidia, build_id, size, crc32 }
    }

    /// The file's name: it can only be what [`Self::new`] was given.
    #[must_use]
    pub fn name(&self) -> String {
        name(&self.pair)
    }

    /// The file.
    #[must_use]
    pub fn bytes(&self, module: &[u8]) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes.extend(module);
        bytes
    }

    /// The entry of these bytes and its module; `None` where they are damaged.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let end = bytes.iter().take(HEADER).position(|byte| *byte == b'\n')?;
        let entry: Self = serde_json::from_slice(&bytes[..end]).ok()?;
        let module = &bytes[end + 1..];
        let is_whole =
            entry.form == FORM && entry.size == module.len() as u64 && entry.crc32 == crc32(module);
        is_whole.then_some((entry, module))
    }

    /// Its nvidia is the live one, on this kernel.
    #[must_use]
    pub fn is_of_nvidia(&self, pair: &Pair) -> bool {
        let is_known = !pair.nvidia.is_empty() && !pair.kernel.is_empty();
        is_known && (&self.pair.kernel, &self.pair.nvidia) == (&pair.kernel, &pair.nvidia)
    }

    /// Its module was built for exactly what is live.
    #[must_use]
    pub fn has_module_for(&self, pair: &Pair) -> bool {
        self.is_of_nvidia(pair) && !pair.mofed.is_empty() && self.pair == *pair && self.size > 0
    }
}

/// No protection against a person: only root can write there.
fn crc32(module: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(module);
    crc.sum()
}

/// The name of an entry's file. Releases and build ids come from the kernel, but a name is no path.
#[must_use]
pub fn name(pair: &Pair) -> String {
    let plain = |text: &str| -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "+._-".contains(c);
        text.chars().map(|c| if is_plain(c) { c } else { '_' }).take(80).collect()
    };
    format!("entry-{}-{}-{}", plain(&pair.kernel), plain(&pair.nvidia), plain(&pair.mofed))
}

/// The names to remove so one more entry has room: the oldest.
#[must_use]
pub fn superfluous(mut entries: Vec<(SystemTime, String)>) -> Vec<String> {
    crate::ready::sort::sort(&mut entries);
    let count = (entries.len() + 1).saturating_sub(MOST);
    entries.into_iter().take(count).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn pair() -> Pair {
        Pair { kernel: "6.1.0".into(), nvidia: "4e76".into(), mofed: "4d0f".into() }
    }

    fn entry(module: &[u8]) -> StoreEntry {
        StoreEntry::new(pair(), [("nvidia_p2p_get_pages".to_owned(), 7)].into(), "0e".into(), module)
    }

    #[test]
    fn an_entry_is_read_as_it_was_written_and_not_at_all_where_a_bit_differs() {
        let module = b"\x7fELF\nmodule";
        let bytes = entry(module).bytes(module);
        assert_eq!(StoreEntry::read(&bytes), Some((entry(module), &module[..])));
        for at in 0..bytes.len() {
            assert_eq!(StoreEntry::read(&bytes[..at]), None, "cut at {at}");
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            if let Some((read, _)) = StoreEntry::read(&damaged) {
                // In the header's own words: then it is of something else.
                assert_ne!(read, entry(module), "at {at}");
            }
        }
    }

    #[test]
    fn an_entry_counts_only_if_every_build_id_fits() {
        let of = entry(b"module");
        assert!(of.has_module_for(&pair()) && of.is_of_nvidia(&pair()));
        assert!(!entry(b"").has_module_for(&pair()) && entry(b"").is_of_nvidia(&pair()));
        for (kernel, nvidia, mofed) in
            [("6.1.1", "4e76", "4d0f"), ("6.1.0", "4e77", "4d0f"), ("", "4e76", "4d0f")]
        {
            let other = Pair { kernel: kernel.into(), nvidia: nvidia.into(), mofed: mofed.into() };
            assert!(!of.has_module_for(&other) && !of.is_of_nvidia(&other), "{other:?}");
        }
        let other = Pair { mofed: "4d10".into(), ..pair() };
        assert!(!of.has_module_for(&other) && of.is_of_nvidia(&other));
        let unknown = Pair { nvidia: String::new(), mofed: String::new(), ..pair() };
        let of_unknown = StoreEntry::new(unknown.clone(), BTreeMap::new(), String::new(), b"module");
        assert!(!of_unknown.has_module_for(&unknown), "two that are unknown are not the same");
    }

    #[test]
    fn a_name_is_no_path_and_the_oldest_go() {
        let odd = Pair { kernel: "../../etc".into(), nvidia: "a/b".into(), mofed: "x\0".into() };
        assert_eq!(name(&odd), "entry-.._.._etc-a_b-x_");
        let at = |second: u64| (UNIX_EPOCH + Duration::from_secs(second), format!("entry-{second}"));
        assert!(superfluous((1..8).map(at).collect()).is_empty());
        assert_eq!(superfluous((1..=64).rev().map(at).collect()).len(), 57);
        assert_eq!(superfluous((1..=9).rev().map(at).collect()), ["entry-1", "entry-2"]);
    }
}
