// SPDX-License-Identifier: Apache-2.0
//! The frame of a module: the ELF file and its sections, checked as the kernel checks them before
//! it looks at anything else (kernel/module/main.c, `elf_validity_cache_copy`).

use crate::peermem::module_file::unpack::{Bytes, Contents};
use crate::peermem::module_file::{Fault, damaged};
use object::elf::{
    ELFCLASS64, ELFDATA2LSB, ELFDATA2MSB, ELFMAG, ET_REL, FileHeader64, SHT_NOBITS, SHT_NULL, SectionHeader64,
};
use object::{LittleEndian as Little, pod};
use std::mem::size_of;

pub(super) type Section = SectionHeader64<Little>;
type Header = FileHeader64<Little>;

/// A relocatable 64-bit file whose section table is sound.
pub(super) struct Elf {
    contents: Contents,
    header: Header,
    sections: Vec<Section>,
    names: Vec<u8>,
}

impl Elf {
    pub(super) fn parse(contents: Contents) -> Result<Self, Fault> {
        let header = header(&contents)?;
        let sections = sections(&contents, &header)?;
        let names = names(&contents, &header, &sections)?;
        Ok(Self { contents, header, sections, names })
    }

    pub(super) fn machine(&self) -> u16 {
        self.header.e_machine.get(Little).0
    }

    /// The bytes behind the last section's, where a signature would be, end with these.
    pub(super) fn ends_with(&self, mark: &[u8]) -> Result<bool, Fault> {
        let (size, mark_size) = (self.contents.size(), mark.len() as u64);
        let Some(at) = size.checked_sub(mark_size) else { return Ok(false) };
        Ok(*self.contents.bytes(at, mark_size)? == *mark)
    }

    /// The last bytes of the file, and no more of them than these.
    pub(super) fn end(&self, most: u64) -> Result<Bytes<'_>, Fault> {
        let size = self.contents.size();
        let length = size.min(most);
        self.contents.bytes(size - length, length)
    }

    pub(super) fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The first section of that name.
    pub(super) fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| self.is_named(section, name))
    }

    /// The one section of that name.
    pub(super) fn only_section(&self, name: &str) -> Result<&Section, Fault> {
        let mut named = self.sections.iter().filter(|section| self.is_named(section, name));
        match (named.next(), named.next()) {
            (Some(section), None) => Ok(section),
            (None, _) => damaged(format!("an object file, but not a module: it has no section {name}")),
            _ => damaged(format!("has more than one section {name}")),
        }
    }

    /// The bytes of the first section of that name, which is a list and never long.
    pub(super) fn bytes_of(&self, name: &str) -> Result<Option<Bytes<'_>>, Fault> {
        let Some(section) = self.section(name) else { return Ok(None) };
        let size = section.sh_size.get(Little);
        if is_in_file(section) && size > LIST {
            return damaged(format!("its section {name} has {size} bytes, more than any module's"));
        }
        self.bytes(section).map(Some)
    }

    /// A section's bytes; none for one that has no place in the file.
    pub(super) fn bytes(&self, section: &Section) -> Result<Bytes<'_>, Fault> {
        if !is_in_file(section) {
            return Ok(Bytes::Borrowed(&[]));
        }
        self.contents.bytes(section.sh_offset.get(Little), section.sh_size.get(Little))
    }

    /// Some bytes of a section; `None` where they do not lie in it.
    pub(super) fn bytes_in(&self, section: &Section, at: u64, size: u64) -> Result<Option<Bytes<'_>>, Fault> {
        let end = at.checked_add(size);
        if !is_in_file(section) || end.is_none_or(|end| end > section.sh_size.get(Little)) {
            return Ok(None);
        }
        self.contents.bytes(section.sh_offset.get(Little) + at, size).map(Some)
    }

    fn is_named(&self, section: &Section, name: &str) -> bool {
        let at = section.sh_name.get(Little) as usize;
        section.sh_type.get(Little) != SHT_NULL && until_nul(&self.names, at) == Some(name.as_bytes())
    }
}

/// The bound of a list in a section: descriptions, versions, notes. Each entry takes ten times its own bytes in
/// memory.
const LIST: u64 = 2 * 1024 * 1024;
/// Twice the longest name that a kernel's symbol can have (`KSYM_NAME_LEN`).
const NAME: usize = 1024;

/// The string that begins at `at`, without the NUL that must end it.
pub(super) fn until_nul(strings: &[u8], at: usize) -> Option<&[u8]> {
    let rest = strings.get(at..)?;
    let rest = &rest[..rest.len().min(NAME)];
    Some(&rest[..memchr::memchr(0, rest)?])
}

fn header(contents: &Contents) -> Result<Header, Fault> {
    if contents.size() < size_of::<Header>() as u64 {
        return damaged(format!("cut off: {} bytes contain no ELF header", contents.size()));
    }
    let bytes = contents.bytes(0, size_of::<Header>() as u64)?;
    let Ok((header, _)) = pod::from_bytes::<Header>(&bytes) else { return damaged("no ELF header") };
    let ident = &header.e_ident;
    if ident.magic != ELFMAG {
        return damaged("unpacks to something that is not an ELF file");
    }
    if ident.class != ELFCLASS64 {
        return damaged("an ELF file, but not a 64-bit one");
    }
    if ident.data == ELFDATA2MSB {
        return damaged("an ELF file, but a big-endian one");
    }
    if ident.data != ELFDATA2LSB {
        return damaged("an ELF file of unknown byte order");
    }
    let kind = header.e_type.get(Little);
    if kind != ET_REL {
        return damaged(format!("an ELF file of type {}, not a relocatable one (1)", kind.0));
    }
    Ok(*header)
}

fn sections(contents: &Contents, header: &Header) -> Result<Vec<Section>, Fault> {
    let each = header.e_shentsize.get(Little);
    if usize::from(each) != size_of::<Section>() {
        return damaged(format!("its section headers are of {each} bytes, not {}", size_of::<Section>()));
    }
    let (at, size) = (header.e_shoff.get(Little), contents.size());
    let table = u64::from(header.e_shnum.get(Little)) * u64::from(each);
    if table == 0 || at == 0 {
        return damaged("has no sections");
    }
    if at.checked_add(table).is_none_or(|end| end > size) {
        return damaged(format!(
            "cut off: its section headers, {table} bytes at {at}, end behind it ({size})"
        ));
    }
    let bytes = contents.bytes(at, table)?;
    let Ok(sections) = pod::slice_from_all_bytes::<Section>(&bytes) else { return damaged("no sections") };
    if sections.first().is_none_or(|first| !is_null(first)) {
        return damaged("its first section header is not empty");
    }
    let outside = |section: &Section| {
        let end = section.sh_offset.get(Little).checked_add(section.sh_size.get(Little));
        is_in_file(section) && end.is_none_or(|end| end > size)
    };
    if let Some(index) = sections.iter().position(outside) {
        let (at, length) = (sections[index].sh_offset.get(Little), sections[index].sh_size.get(Little));
        return damaged(format!("cut off: section {index}, {length} bytes at {at}, ends behind it ({size})"));
    }
    Ok(sections.to_vec())
}

/// The table of the sections' names.
fn names(contents: &Contents, header: &Header, sections: &[Section]) -> Result<Vec<u8>, Fault> {
    let index = usize::from(header.e_shstrndx.get(Little).0);
    let Some(table) = sections.get(index).filter(|table| index != 0 && is_in_file(table)) else {
        return damaged(format!("its section names, in section {index}, do not exist"));
    };
    let names = contents.bytes(table.sh_offset.get(Little), table.sh_size.get(Little))?.into_owned();
    if names.last() != Some(&0) {
        return damaged("its section names do not end with a NUL");
    }
    let nameless = |section: &Section| {
        section.sh_type.get(Little) != SHT_NULL && section.sh_name.get(Little) as usize >= names.len()
    };
    match sections.iter().position(nameless) {
        Some(index) => damaged(format!("the name of section {index} lies behind the names")),
        None => Ok(names),
    }
}

fn is_null(section: &Section) -> bool {
    let (size, address) = (section.sh_size.get(Little), section.sh_addr.get(Little));
    section.sh_type.get(Little) == SHT_NULL && size == 0 && address == 0
}

/// Some sections have a size only in memory.
pub(super) fn is_in_file(section: &Section) -> bool {
    !matches!(section.sh_type.get(Little), SHT_NULL | SHT_NOBITS)
}
