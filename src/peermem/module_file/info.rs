// SPDX-License-Identifier: Apache-2.0
//! A module's description of itself, from the sections that modpost and the linker made for it.

use crate::peermem::module_file::elf::{Elf, is_in_file, until_nul};
use crate::peermem::module_file::unpack::Bytes;
use crate::peermem::module_file::{Fault, damaged};
use crate::ready::observation::{ModuleInfo, REBUILT_BY};
use object::elf::{
    ELF_NOTE_GNU, EM_AARCH64, EM_PPC64, EM_RISCV, EM_X86_64, FileHeader64, Machine, NT_GNU_BUILD_ID,
    SHF_ALLOC, SHN_ABS, SHN_UNDEF, SHT_SYMTAB, STB_WEAK, Sym64,
};
use object::read::elf::NoteIterator;
use object::{LittleEndian as Little, pod};
use std::collections::{BTreeMap, BTreeSet};
use std::mem::size_of;

type Symbol = Sym64<Little>;

/// The last bytes of a signed module, behind signature and its description.
/// A signed module ends so.
pub const SIGNED: &[u8] = b"~Module signature appended~\n";
/// `struct modversion_info` of a 64-bit kernel: eight bytes of CRC, then the name.
const VERSION: usize = 64;
/// Of the entries in a note section: words of four bytes (elf(5)).
const NOTE_ALIGN: u64 = 4;
/// The bound of the names of imports and exports, each counted with the memory around it. nvidia.ko's have some
/// 100 KiB.
const NAMES: usize = 8 * 1024 * 1024;
const AROUND: usize = 96;
/// Undefined, but not imported from another module: the kernel ignores them (`ignore_undef_symbol`; `.TOC.` on
/// ppc64le).
const NOT_IMPORTED: [&str; 2] = ["_GLOBAL_OFFSET_TABLE_", ".TOC."];

pub(super) fn read(elf: &Elf) -> Result<ModuleInfo, Fault> {
    check_this_module(elf)?;
    let mut info = modinfo(elf)?;
    info.machine = machine(elf.machine());
    info.signed = elf.ends_with(SIGNED)?;
    info.build_id = build_id(elf)?;
    info.versions = versions(elf)?;
    info.extended_only = !info.versions.is_empty() && elf.bytes_of("__versions")?.is_none();
    read_symbols(elf, &mut info)?;
    Ok(info)
}

/// The GNU build id.
pub(super) fn build_id(elf: &Elf) -> Result<Option<String>, Fault> {
    Ok(elf.bytes_of(".note.gnu.build-id")?.and_then(|bytes| build_id_of_notes(&bytes)))
}

/// The module says that we rebuilt it.
pub(super) fn is_rebuilt(elf: &Elf) -> Result<bool, Fault> {
    let bytes = elf.bytes_of(".modinfo")?.unwrap_or_default();
    let (name, ours) = REBUILT_BY;
    Ok(bytes.split(|byte| *byte == 0).any(|entry| *entry == *format!("{name}={ours}").as_bytes()))
}

/// The GNU build id in an ELF note section, as a file has it or as the kernel keeps it in
/// `/sys/module/NAME/notes`. In hexadecimal.
pub fn build_id_of_notes(bytes: &[u8]) -> Option<String> {
    let notes = NoteIterator::<FileHeader64<Little>>::new(Little, NOTE_ALIGN, bytes).ok()?;
    let mut notes = notes.map_while(Result::ok);
    let note = notes.find(|note| note.name() == ELF_NOTE_GNU && note.n_type(Little) == NT_GNU_BUILD_ID)?;
    let id = note.desc().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    Some(id).filter(|id| !id.is_empty())
}

/// `struct module` itself, as its compiler saw it.
fn check_this_module(elf: &Elf) -> Result<(), Fault> {
    let name = ".gnu.linkonce.this_module";
    let section = elf.only_section(name)?;
    let is_allocated = section.sh_flags.get(Little).0 & SHF_ALLOC.0 != 0;
    if !is_in_file(section) || section.sh_size.get(Little) == 0 || !is_allocated {
        return damaged(format!("its section {name} has no contents"));
    }
    Ok(())
}

/// The list of `KEY=VALUE` that `modinfo` shows; of what must not be there twice, the first counts.
fn modinfo(elf: &Elf) -> Result<ModuleInfo, Fault> {
    elf.only_section(".modinfo")?;
    let bytes = elf.bytes_of(".modinfo")?.unwrap_or_default();
    let mut info = ModuleInfo::default();
    let mut vermagic = None;
    let mut parameters = BTreeSet::new();
    for entry in bytes.split(|byte| *byte == 0) {
        let entry = String::from_utf8_lossy(entry);
        let Some((key, value)) = entry.split_once('=') else { continue };
        match key {
            "vermagic" => _ = vermagic.get_or_insert_with(|| value.trim_end().to_owned()),
            key if key == REBUILT_BY.0 => _ = info.rebuilt_by.get_or_insert_with(|| value.to_owned()),
            "version" => _ = info.version.get_or_insert_with(|| value.to_owned()),
            "name" if info.name.is_empty() => info.name = folded(value),
            "depends" if info.depends.is_empty() => {
                info.depends = value.split(',').filter(|name| !name.is_empty()).map(folded).collect();
            }
            "parm" | "parmtype" => {
                parameters.extend(value.split_once(':').map(|(name, _)| name.to_owned()));
            }
            _ => {}
        }
    }
    let Some(vermagic) = vermagic else { return damaged("does not say for which kernel: no vermagic") };
    info.vermagic = vermagic;
    info.parameters = parameters.into_iter().collect();
    Ok(info)
}

/// `-` and `_` are the same in a module's name.
fn folded(name: &str) -> String {
    name.replace('-', "_")
}

fn machine(number: u16) -> String {
    match Machine(number) {
        EM_X86_64 => "x86_64".to_owned(),
        EM_AARCH64 => "aarch64".to_owned(),
        EM_PPC64 => "ppc64le".to_owned(),
        EM_RISCV => "riscv64".to_owned(),
        Machine(number) => format!("ELF machine {number}"),
    }
}

/// The CRCs it was built against. Since 6.14 there may be a second form, for names of any length.
fn versions(elf: &Elf) -> Result<BTreeMap<String, u32>, Fault> {
    let bytes = elf.bytes_of("__versions")?.unwrap_or_default();
    let Some(mut versions) = fixed_versions(&bytes).or_else(|| chained_versions(&bytes)) else {
        return damaged(format!("its __versions, {} bytes, are of no known form", bytes.len()));
    };
    add_extended_versions(elf, &mut versions)?;
    Ok(versions)
}

/// `struct modversion_info` as all kernels but Ubuntu's have it; no CRC has more than 32 bits.
fn fixed_versions(bytes: &[u8]) -> Option<BTreeMap<String, u32>> {
    let mut versions = BTreeMap::new();
    let entries = bytes.chunks_exact(VERSION);
    if !entries.remainder().is_empty() {
        return None;
    }
    for entry in entries {
        let (crc, name) = entry.split_at(size_of::<u64>());
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        versions.insert(text(name), number(crc, 0).filter(|_| crc[size_of::<u32>()..] == [0; 4])?);
    }
    Some(versions)
}

/// As Ubuntu's kernels 6.8 to 6.11 have it: the offset of the next entry, the CRC, the name; zero
/// ends it. What follows the end is ignored, as the kernel does.
fn chained_versions(bytes: &[u8]) -> Option<BTreeMap<String, u32>> {
    let word = size_of::<u32>();
    let mut versions = BTreeMap::new();
    let mut rest = bytes;
    loop {
        let next = usize::try_from(number(rest, 0)?).ok()?;
        if next == 0 {
            return Some(versions);
        }
        let name = rest.get(2 * word..next)?;
        versions.insert(text(&name[..memchr::memchr(0, name)?]), number(rest, word)?);
        rest = &rest[next..];
    }
}

fn add_extended_versions(elf: &Elf, versions: &mut BTreeMap<String, u32>) -> Result<(), Fault> {
    let (crcs, names) = (elf.bytes_of("__version_ext_crcs")?, elf.bytes_of("__version_ext_names")?);
    let (crcs, names) = match (crcs, names) {
        (Some(crcs), Some(names)) => (crcs, names),
        (None, None) => return Ok(()),
        _ => return damaged("has only one of __version_ext_crcs and __version_ext_names"),
    };
    if crcs.len() % size_of::<u32>() != 0 {
        return damaged(format!("its __version_ext_crcs, {} bytes, are not made of 4 each", crcs.len()));
    }
    let mut at = 0;
    for index in 0..crcs.len() / size_of::<u32>() {
        let Some(name) = until_nul(&names, at) else {
            return damaged("has more __version_ext_crcs than __version_ext_names");
        };
        at += name.len() + 1;
        versions.insert(text(name), number(&crcs, index * size_of::<u32>()).unwrap_or_default());
    }
    Ok(())
}

/// Reads the imports, and the CRCs of the exports.
fn read_symbols(elf: &Elf, info: &mut ModuleInfo) -> Result<(), Fault> {
    let (symbols, strings) = symbol_table(elf)?;
    let Ok(symbols) = pod::slice_from_all_bytes::<Symbol>(&symbols) else {
        return damaged("its symbol table is not made of whole symbols");
    };
    let mut kept = 0;
    let mut keep = |name: &[u8]| {
        kept += name.len() + AROUND;
        if kept > NAMES { damaged("has more imports and exports than any module") } else { Ok(text(name)) }
    };
    for symbol in symbols {
        let Some(name) = until_nul(&strings, symbol.st_name.get(Little) as usize) else {
            return damaged("the name of a symbol has no end where there could be one");
        };
        if symbol.st_shndx.get(Little) != SHN_UNDEF {
            if let Some(name) = name.strip_prefix(b"__crc_")
                && let Some(crc) = crc(elf, symbol)?
            {
                info.exports.insert(keep(name)?, crc);
            }
        } else if symbol.st_bind() != STB_WEAK && !name.is_empty() {
            info.imports.insert(keep(name)?);
        }
    }
    for name in NOT_IMPORTED {
        info.imports.remove(name);
    }
    // A kernel without symbol versions has no CRCs, but names: of symbols, and of namespaces among them.
    if info.exports.is_empty() && !info.has_versions() {
        let names = elf.bytes_of("__ksymtab_strings")?.unwrap_or_default();
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            info.exports.insert(keep(name)?, 0);
        }
    }
    Ok(())
}

/// The one symbol table, and the names of its symbols.
fn symbol_table(elf: &Elf) -> Result<(Bytes<'_>, Bytes<'_>), Fault> {
    let mut tables = elf.sections().iter().filter(|section| section.sh_type.get(Little) == SHT_SYMTAB);
    let (Some(table), None) = (tables.next(), tables.next()) else {
        return damaged("does not have one symbol table: it was stripped of what the kernel needs");
    };
    let index = table.sh_link.get(Little) as usize;
    let Some(names) = elf.sections().get(index).filter(|_| index != 0) else {
        return damaged(format!("the names of its symbols, in section {index}, do not exist"));
    };
    let names = elf.bytes(names)?;
    if names.first() != Some(&0) || names.last() != Some(&0) {
        return damaged("the names of its symbols do not begin and end with a NUL");
    }
    Ok((elf.bytes(table)?, names))
}

/// The CRC of an exported symbol. It is the symbol's value on older kernels. On those with `MODULE_REL_CRCS`, and on
/// all since 5.19, it lies where the symbol points.
fn crc(elf: &Elf, symbol: &Symbol) -> Result<Option<u32>, Fault> {
    let index = symbol.st_shndx.get(Little);
    let value = symbol.st_value.get(Little);
    if index == SHN_ABS {
        return Ok(u32::try_from(value & u64::from(u32::MAX)).ok());
    }
    let Some(section) = elf.sections().get(usize::from(index.0)) else { return Ok(None) };
    let bytes = elf.bytes_in(section, value, size_of::<u32>() as u64)?;
    Ok(bytes.and_then(|bytes| number(&bytes, 0)))
}

/// The four bytes at `at`.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_is_what_its_note_contains() {
        let words = [4_u32, 3, 3].map(u32::to_le_bytes).concat();
        let note = [&words[..], b"GNU\0", &[0xab, 0x01, 0xff, 0]].concat();
        assert_eq!(build_id_of_notes(&note).as_deref(), Some("ab01ff"));
        for length in 0..note.len() - 1 {
            assert_eq!(build_id_of_notes(&note[..length]), None, "{length}");
        }
        assert_eq!(build_id_of_notes(&[0xff; 64]), None);
    }

    #[test]
    fn a_number_is_read_exactly_where_all_of_it_is() {
        for length in 0..=9_usize {
            let bytes: Vec<u8> = (1..=9).take(length).collect();
            for at in (0..=10).chain(usize::MAX - 10..=usize::MAX) {
                let expected = (at <= 10 && at + 4 <= length)
                    .then(|| (0..4_u32).map(|byte| u32::from(bytes[at + byte as usize]) << (8 * byte)).sum());
                assert_eq!(number(&bytes, at), expected, "{length} {at}");
            }
        }
    }

    /// The places of a chain's entries, if it has an end.
    fn chain(bytes: &[u8]) -> Option<Vec<usize>> {
        let (mut at, mut entries) = (0_usize, Vec::new());
        loop {
            let next = u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize;
            if next == 0 {
                return Some(entries);
            }
            let is_inside = at + next <= bytes.len();
            if !is_inside || !(at + 8..at + next).any(|name| bytes[name] == 0) {
                return None;
            }
            entries.push(at);
            at += next;
        }
    }

    /// Every chain of up to five words and a part of one: offsets of zero, too short, around an entry's, beyond the
    /// end, and the largest.
    #[test]
    fn a_chain_of_versions_is_read_exactly_if_it_has_an_end() {
        const WORDS: [u32; 8] = [0, 1, 8, 9, 12, 13, 16, u32::MAX];
        for count in 0..=5_u32 {
            for number in 0..WORDS.len().pow(count) {
                let words = (0..count).map(|at| WORDS[number / WORDS.len().pow(at) % WORDS.len()]);
                let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
                for left_out in 0..4.min(bytes.len() + 1) {
                    let bytes = &bytes[..bytes.len() - left_out];
                    let read = chained_versions(bytes);
                    let entries = chain(bytes);
                    assert_eq!(read.is_some(), entries.is_some(), "{bytes:?}");
                    assert!(read.map(|read| read.len()) <= entries.map(|entries| entries.len()), "{bytes:?}");
                }
            }
        }
    }
}
