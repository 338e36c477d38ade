// SPDX-License-Identifier: Apache-2.0
//! Module files made by hand: an ELF header, the sections, and their headers at the end, as the
//! linker puts them.

const SHT_PROGBITS: u32 = 1;
const SHT_SYMTAB: u32 = 2;
const SHT_STRTAB: u32 = 3;
const SHT_NOTE: u32 = 7;
const SHT_NOBITS: u32 = 8;
const GLOBAL: u8 = 1 << 4;
const WEAK: u8 = 2 << 4;
const ABSOLUTE: u16 = 0xfff1;

#[derive(Clone)]
struct Section {
    name: String,
    kind: u32,
    bytes: Vec<u8>,
}

/// The content of a module file.
#[derive(Clone)]
pub(crate) struct Image {
    sections: Vec<Section>,
    symbols: Vec<(String, u8, u16, u64)>,
}

impl Image {
    /// The parts that every module needs, and a section that has no bytes in the file.
    pub(crate) fn new(modinfo: &[&str]) -> Self {
        let mut image = Self { sections: Vec::new(), symbols: Vec::new() };
        let modinfo: Vec<u8> = modinfo.iter().flat_map(|entry| [entry.as_bytes(), b"\0"].concat()).collect();
        image.section(".modinfo", &modinfo);
        image.section(".gnu.linkonce.this_module", &[0; 64]);
        image.section(".bss", &[0; 8]);
        image.sections[2].kind = SHT_NOBITS;
        image.symbol("init_module", GLOBAL, 1, 0);
        image
    }

    /// nvidia-peermem as it is built with MOFED's headers.
    pub(crate) fn peermem() -> Self {
        let mut image = Self::new(&[
            "version=595.45.04",
            "license=Dual BSD/GPL",
            "parm=peerdirect_support:Set level of support (int)",
            "parmtype=peerdirect_support:int",
            "parmtype=persistent_api_support:int",
            "depends=nvidia,ib-uverbs",
            "name=nvidia-peermem",
            "vermagic=6.1.0-56-amd64 SMP preempt mod_unload modversions ",
        ]);
        image.versions(&[("module_layout", 0x0dff_b1ea), ("ib_register_peer_memory_client", 0x9ca7_61a2)]);
        image.build_id(&[0xab, 0x01, 0xff]);
        image.import("ib_register_peer_memory_client");
        image.symbol("optional", WEAK, 0, 0);
        image.symbol("_GLOBAL_OFFSET_TABLE_", GLOBAL, 0, 0);
        image
    }

    pub(crate) fn section(&mut self, name: &str, bytes: &[u8]) {
        self.sections.push(Section { name: name.to_owned(), kind: SHT_PROGBITS, bytes: bytes.to_owned() });
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.sections.retain(|section| section.name != name);
        self
    }

    fn symbol(&mut self, name: &str, info: u8, section: u16, value: u64) {
        self.symbols.push((name.to_owned(), info, section, value));
    }

    pub(crate) fn import(&mut self, name: &str) {
        self.symbol(name, GLOBAL, 0, 0);
    }

    pub(crate) fn versions(&mut self, versions: &[(&str, u64)]) {
        let entry = |(name, crc): &(&str, u64)| {
            let mut entry = [&crc.to_le_bytes(), name.as_bytes()].concat();
            entry.resize(64, 0);
            entry
        };
        self.section("__versions", &versions.iter().flat_map(entry).collect::<Vec<_>>());
    }

    /// As Ubuntu's kernels 6.8 to 6.11 have them.
    pub(crate) fn chained_versions(&mut self, versions: &[(&str, u64)]) {
        let entry = |(name, crc): &(&str, u64)| {
            let length = (8 + name.len() + 1).next_multiple_of(4);
            let next = u32::try_from(length).unwrap().to_le_bytes();
            let mut entry = [&next[..], &crc.to_le_bytes()[..4], name.as_bytes()].concat();
            entry.resize(length, 0);
            entry
        };
        let end = [0; 9];
        let entries: Vec<_> = versions.iter().flat_map(entry).chain(end).collect();
        self.section("__versions", &entries);
    }

    pub(crate) fn build_id(&mut self, id: &[u8]) {
        let length = u32::try_from(id.len()).unwrap().to_le_bytes();
        let note = [&4_u32.to_le_bytes()[..], &length, &3_u32.to_le_bytes(), b"GNU\0", id];
        self.section(".note.gnu.build-id", &note.concat());
        self.sections.last_mut().unwrap().kind = SHT_NOTE;
    }

    /// As before 5.19: the CRC is the symbol's value.
    pub(crate) fn export_absolute(&mut self, name: &str, crc: u32) {
        self.symbol(&format!("__crc_{name}"), GLOBAL, ABSOLUTE, crc.into());
    }

    /// As since 5.19: the symbol is a local one, and points at the CRC in the last section.
    pub(crate) fn export_at(&mut self, name: &str, at: u64) {
        let section = u16::try_from(self.sections.len()).unwrap();
        self.symbol(&format!("__crc_{name}"), 0, section, at);
    }

    /// The file.
    pub(crate) fn build(&self) -> Vec<u8> {
        let mut all = self.clone();
        let (symbols, names) = self.symbol_table();
        all.section(".symtab", &symbols);
        all.sections.last_mut().unwrap().kind = SHT_SYMTAB;
        all.section(".strtab", &names);
        all.section(".shstrtab", b"");
        let mut names = vec![0];
        let mut headers = vec![0; 64];
        let mut file = vec![0; 64];
        let last = all.sections.len();
        let at: Vec<_> = all
            .sections
            .iter()
            .map(|section| {
                let at = u32::try_from(names.len()).unwrap();
                names.extend_from_slice(section.name.as_bytes());
                names.push(0);
                at
            })
            .collect();
        all.sections[last - 1].bytes = names;
        for (section, name) in all.sections.iter().zip(at) {
            let link = if section.kind == SHT_SYMTAB { last as u64 - 1 } else { 0 };
            let kind = if section.name.ends_with("strtab") { SHT_STRTAB } else { section.kind };
            headers.extend([name.to_le_bytes(), kind.to_le_bytes()].concat());
            let (begin, length) = (file.len() as u64, section.bytes.len() as u64);
            headers.extend([2, 0, begin, length, link, 4, 0].map(u64::to_le_bytes).concat());
            if kind != SHT_NOBITS {
                file.extend_from_slice(&section.bytes);
            }
        }
        let begin = file.len() as u64;
        file.extend(headers);
        let count = u16::try_from(last + 1).unwrap();
        file[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x3e\0");
        file[40..48].copy_from_slice(&begin.to_le_bytes());
        file[58..64].copy_from_slice(&[64, count, count - 1].map(u16::to_le_bytes).concat());
        file
    }

    fn symbol_table(&self) -> (Vec<u8>, Vec<u8>) {
        let (mut symbols, mut names) = (vec![0; 24], vec![0]);
        for (name, info, section, value) in &self.symbols {
            symbols.extend(u32::try_from(names.len()).unwrap().to_le_bytes());
            symbols.extend([*info, 0]);
            symbols.extend(section.to_le_bytes());
            symbols.extend([*value, 0].map(u64::to_le_bytes).concat());
            names.extend_from_slice(name.as_bytes());
            names.push(0);
        }
        (symbols, names)
    }
}
