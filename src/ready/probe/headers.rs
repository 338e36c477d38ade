// SPDX-License-Identifier: Apache-2.0
//! MOFED's headers as NVIDIA's Kbuild would find them: the first existing of
//! `ofa_kernel/{<arch>/<release>,<release>,default}` (open-gpu-kernel-modules,
//! nvidia-peermem.Kbuild). Its fourth candidate, DKMS's build directory, is never mounted into a
//! driver container.

use crate::ready::PEER_MEMORY_SYMBOLS;
use crate::ready::files::read::{FileEnd, entries, lines, unreadable};
use crate::ready::files::root::resolve;
use crate::ready::node::below;
use crate::ready::observation::{HeaderTree, Kernel, Seen, Symvers, Unreadable};
use crate::ready::version::Version;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Some five times the largest.
pub const SYMVERS: u64 = 16 * 1024 * 1024;
/// A tree has a directory for each kernel, and usr/src one for each package.
const ENTRIES: usize = 10_000;
/// Enough other kernels to name in a message.
const MAX_OTHERS: usize = 4;

/// The path of `ofa_kernel`, before any link is followed.
#[must_use]
pub fn ofa_kernel(mofed_root: &Path) -> PathBuf {
    mofed_root.join("usr/src/ofa_kernel")
}

/// The Module.symvers of the kernel's build tree.
#[must_use]
pub fn kernel_symvers(root: &Path, release: &str) -> PathBuf {
    root.join("lib/modules").join(release).join("build/Module.symvers")
}

/// Kbuild's candidates, in its order.
#[must_use]
pub fn candidates(mofed_root: &Path, kernel: &Kernel) -> [PathBuf; 3] {
    let tree = ofa_kernel(mofed_root);
    [tree.join(&kernel.machine).join(&kernel.release), tree.join(&kernel.release), tree.join("default")]
}

/// The header directory that NVIDIA's build would take.
#[must_use]
pub fn read(mofed_root: &Path, kernel: &Kernel) -> HeaderTree {
    let tree = match directory(mofed_root, &ofa_kernel(mofed_root)) {
        Ok(Some(tree)) => tree,
        Ok(None) => return HeaderTree::Missing,
        Err(why) => return HeaderTree::Unreadable(why),
    };
    for candidate in candidates(mofed_root, kernel) {
        match directory(mofed_root, &candidate) {
            Ok(None) => {}
            Ok(Some(real)) => {
                return HeaderTree::Taken {
                    other_kernel: other_kernel(&real, kernel),
                    symvers: symvers(mofed_root, &real.join("Module.symvers")),
                    directory: candidate,
                };
            }
            Err(why) => return HeaderTree::Unreadable(why),
        }
    }
    others(&tree).map_or_else(HeaderTree::Unreadable, HeaderTree::NoCandidate)
}

/// The directory at `path`, links followed below `root`; `None` where there is none.
fn directory(root: &Path, path: &Path) -> Result<Option<PathBuf>, Unreadable> {
    match resolve(root, path).and_then(|real| Ok((real.metadata()?.is_dir(), real))) {
        Ok((is_dir, real)) => Ok(is_dir.then_some(real)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// `default` may lead to the tree of another kernel, which the build takes all the same.
fn other_kernel(real: &Path, kernel: &Kernel) -> Option<String> {
    let name = real.file_name()?.to_string_lossy();
    (is_release(&name) && name != kernel.release).then(|| name.into_owned())
}

/// The kernels that the tree has directories for, each once.
fn others(tree: &Path) -> Seen<Vec<String>> {
    let mut names = directories(tree)?;
    for architecture in names.clone().into_iter().filter(|name| !is_release(name)) {
        names.extend(directories(&tree.join(architecture))?);
    }
    let releases: BTreeSet<_> = names.into_iter().filter(|name| is_release(name)).collect();
    Ok(releases.into_iter().take(MAX_OTHERS).collect())
}

/// The names of the directories in a directory.
fn directories(directory: &Path) -> Seen<Vec<String>> {
    let names = entries(directory, ENTRIES).and_then(|entries| {
        let mut names = Vec::new();
        for entry in entries {
            if entry.file_type()?.is_dir() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(names)
    });
    names.map_err(|error| unreadable(directory, &error))
}

fn is_release(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_digit()) && name.contains('.')
}

/// Reads a Module.symvers: is it whole, and does it have both symbols?
#[must_use]
pub fn symvers(root: &Path, path: &Path) -> Symvers {
    let mut found = [false; 2];
    let mut garbled = None;
    let ended = resolve(root, path).and_then(|real| {
        lines(&real, SYMVERS, |line| {
            let Some(symbol) = exported(line) else {
                garbled = Some(String::from_utf8_lossy(line).chars().take(40).collect());
                return ControlFlow::Break(());
            };
            for (found, wanted) in found.iter_mut().zip(PEER_MEMORY_SYMBOLS) {
                *found |= symbol == wanted.as_bytes();
            }
            ControlFlow::Continue(())
        })
    });
    match (ended, garbled) {
        (Err(error), _) if error.kind() == io::ErrorKind::NotFound => Symvers::Missing,
        (Err(error), _) => Symvers::Unreadable(unreadable(path, &error)),
        (Ok(FileEnd::Truncated), _) => Symvers::Truncated,
        (Ok(_), Some(line)) => Symvers::Garbled(line),
        (Ok(_), None) if found == [true, true] => Symvers::WithPeerMemory,
        (Ok(_), None) => Symvers::WithoutPeerMemory,
    }
}

/// The peer-memory symbols in a Module.symvers: their CRCs, and the module that exports them.
pub fn peer_memory(root: &Path, path: &Path) -> Seen<(BTreeMap<String, u32>, Option<String>)> {
    let mut crcs = BTreeMap::new();
    let mut exporter = None;
    let read = resolve(root, path).and_then(|real| {
        lines(&real, SYMVERS, |line| {
            let symbol = exported(line).unwrap_or_default();
            if let Some(name) = PEER_MEMORY_SYMBOLS.iter().find(|name| name.as_bytes() == symbol) {
                let line = String::from_utf8_lossy(line);
                crcs.extend(crc(&line).map(|crc| ((*name).to_owned(), crc)));
                exporter = module(&line);
            }
            ControlFlow::Continue(())
        })
    });
    read.map(|_| (crcs, exporter)).map_err(|error| unreadable(path, &error))
}

/// The CRC of a line of a Module.symvers.
#[must_use]
pub fn crc(line: &str) -> Option<u32> {
    u32::from_str_radix(line.split('\t').next()?.strip_prefix("0x")?, 16).ok()
}

/// The last part of the module's path, which comes before `EXPORT_SYMBOL…`; with underscores.
fn module(line: &str) -> Option<String> {
    let fields: Vec<_> = line.split('\t').collect();
    let export = fields.iter().position(|field| field.starts_with("EXPORT_"))?;
    let path = fields.get(export.checked_sub(1)?)?;
    Some(path.rsplit('/').next()?.replace('-', "_"))
}

/// The symbol of a line `CRC, symbol, module, EXPORT_SYMBOL…, namespace`, separated by tabs;
/// kernels 5.4 to 5.8 put the namespace third. `None` for what modpost cannot parse either.
#[must_use]
pub fn exported(line: &[u8]) -> Option<&[u8]> {
    let mut fields = line.split(|byte| *byte == b'\t');
    let crc = fields.next()?.strip_prefix(b"0x")?;
    let symbol = fields.next()?;
    let is_hex = !crc.is_empty() && crc.iter().all(u8::is_ascii_hexdigit);
    (is_hex && fields.any(|field| field.starts_with(b"EXPORT_"))).then_some(symbol)
}

/// The versions in the names of `ofa_kernel-V` and `mlnx-ofa_kernel-V`, each once.
pub fn versions(mofed_root: &Path) -> Seen<Vec<String>> {
    let path = below(mofed_root, Path::new("/usr/src"));
    let entries = match resolve(mofed_root, &path).and_then(|source| entries(&source, ENTRIES)) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(unreadable(&path, &error)),
    };
    let version = |name: &str| {
        let version = name.strip_prefix("mlnx-").unwrap_or(name).strip_prefix("ofa_kernel-")?;
        version.parse::<Version>().is_ok().then(|| version.to_owned())
    };
    let names = entries.into_iter().map(|entry| entry.file_name());
    let versions: BTreeSet<_> = names.filter_map(|name| version(&name.to_string_lossy())).collect();
    Ok(versions.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A first field, whether it is one of a Module.symvers, and its CRC.
    const CRCS: [(&str, bool, Option<u32>); 8] = [
        ("0x0", true, Some(0)),
        ("0x9ca761a2", true, Some(0x9ca7_61a2)),
        ("0xFFFFFFFF", true, Some(u32::MAX)),
        ("0x100000000", true, None),
        ("0x", false, None),
        ("0xg", false, None),
        ("9ca761a2", false, None),
        ("", false, None),
    ];
    const FIELDS: [&str; 6] =
        ["", "symbol", "drivers/ib-core", "EXPORT_SYMBOL", "EXPORT_SYMBOL_GPL", "xEXPORT_"];

    /// Every line of up to five of these fields.
    fn lines() -> impl Iterator<Item = (usize, Vec<&'static str>)> {
        let rests = (0..=4_u32).flat_map(|count| {
            let field = move |number: usize, at| FIELDS[number / FIELDS.len().pow(at) % FIELDS.len()];
            (0..FIELDS.len().pow(count)).map(move |number| (0..count).map(|at| field(number, at)).collect())
        });
        rests.flat_map(|rest: Vec<_>| (0..CRCS.len()).map(move |first| (first, rest.clone())))
    }

    #[test]
    fn a_line_of_module_symvers_is_read_exactly_if_modpost_could() {
        let mut read = 0;
        for (first, rest) in lines() {
            let (text, is_hex, value) = CRCS[first];
            let fields = [&[text], &rest[..]].concat();
            let line = fields.join("\t");
            let export = fields.iter().position(|field| field.starts_with("EXPORT_"));
            let is_whole = is_hex && rest.iter().skip(1).any(|field| field.starts_with("EXPORT_"));
            let symbol = rest.first().filter(|_| is_whole);
            assert_eq!(exported(line.as_bytes()), symbol.map(|symbol| symbol.as_bytes()), "{line:?}");
            assert_eq!(crc(&line), value, "{line:?}");
            let exporter = export.map(|at| match fields[at - 1] {
                "drivers/ib-core" => "ib_core",
                other => other,
            });
            assert_eq!(module(&line).as_deref(), exporter, "{line:?}");
            read += u32::from(is_whole);
        }
        assert!(read > 1000, "{read}");
    }
}
