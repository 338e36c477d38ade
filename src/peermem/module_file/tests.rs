// SPDX-License-Identifier: Apache-2.0
//! Good files say what they are; of bad ones, none is taken for a good one, and none costs more
//! than its refusal.

mod bounded;
mod files;
mod find;
pub(crate) mod image;

use crate::peermem::module_file::unpack::{Contents, IN_MEMORY, Packing};
use crate::peermem::module_file::{Elf, Fault, info, unpack};
use crate::ready::observation::ModuleInfo;
use image::Image;
use lzma_rust2::{LzmaOptions, XzOptions, XzWriter};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::Write;

const SIGNATURE: &[u8] = b"PKCS#7 and its description~Module signature appended~\n";
const PACKINGS: [Packing; 3] = [Packing::Gzip, Packing::Xz, Packing::Zstd];

fn unpack(packing: Packing, packed: &[u8], limit: u64) -> Result<Vec<u8>, Fault> {
    unpack::unpack(packing, &mut &*packed, limit, &mut || false)
}

fn parse(file: &[u8]) -> Result<ModuleInfo, Fault> {
    Elf::parse(Contents::Unpacked(file.to_owned())).and_then(|elf| info::read(&elf))
}

/// Why this is no module.
#[track_caller]
fn fault(file: &[u8]) -> String {
    match parse(file) {
        Err(Fault::Damaged(why)) => why,
        other => panic!("{other:?}"),
    }
}

fn pack(packing: Packing, bytes: &[u8]) -> Vec<u8> {
    match packing {
        Packing::Gzip => {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packed.write_all(bytes).unwrap();
            packed.finish().unwrap()
        }
        Packing::Xz => {
            let mut options = XzOptions::with_preset(0);
            options.lzma_options = LzmaOptions { dict_size: 64 * 1024, ..options.lzma_options };
            let mut packed = XzWriter::new(Vec::new(), options).unwrap();
            packed.write_all(bytes).unwrap();
            packed.finish().unwrap()
        }
        Packing::Zstd => compress_to_vec(bytes, CompressionLevel::Fastest),
    }
}

#[test]
fn the_metadata_of_a_module_file_are_read() {
    let info = parse(&Image::peermem().build()).unwrap();
    let expected = ModuleInfo {
        machine: "x86_64".to_owned(),
        name: "nvidia_peermem".to_owned(),
        vermagic: "6.1.0-56-amd64 SMP preempt mod_unload modversions".to_owned(),
        version: Some("595.45.04".to_owned()),
        depends: vec!["nvidia".to_owned(), "ib_uverbs".to_owned()],
        extended_only: false,
        parameters: vec!["peerdirect_support".to_owned(), "persistent_api_support".to_owned()],
        signed: false,
        build_id: Some("ab01ff".to_owned()),
        imports: ["ib_register_peer_memory_client".to_owned()].into(),
        versions: [
            ("ib_register_peer_memory_client".to_owned(), 0x9ca7_61a2),
            ("module_layout".to_owned(), 0x0dff_b1ea),
        ]
        .into(),
        exports: [].into(),
        rebuilt_by: None,
    };
    assert_eq!(info, expected);
}

#[test]
fn a_stub_imports_nothing_of_mofed() {
    let info = parse(&Image::new(&["vermagic=6.1", "depends="]).build()).unwrap();
    assert_eq!((info.depends.len(), info.imports.len(), info.versions.len()), (0, 0, 0));
    assert_eq!((info.version, info.build_id, info.name), (None, None, String::new()));
}

#[test]
fn crcs_of_exports_are_read_where_the_kernel_put_them() {
    let mut image = Image::new(&["vermagic=5.14"]);
    image.export_absolute("old", 0xfa14_6601);
    image.section("__kcrctab", &[1, 0, 0, 0, 0x78, 0x56, 0x34, 0x12, 9, 9]);
    image.export_at("new", 4);
    image.export_at("first", 0);
    image.export_at("behind", 8);
    image.export_at("far_behind", u64::MAX);
    let expected = [("old", 0xfa14_6601), ("new", 0x1234_5678), ("first", 1)];
    let expected = expected.map(|(name, crc)| (name.to_owned(), crc)).into();
    assert_eq!(parse(&image.build()).unwrap().exports, expected);
}

/// A kernel without `CONFIG_MODVERSIONS` keeps only the names.
#[test]
fn exports_without_crcs_are_read_by_name_where_the_kernel_has_no_versions() {
    let exports = |vermagic| {
        let mut image = Image::new(&[vermagic]);
        image.section("__ksymtab_strings", b"nvidia_p2p_get_pages\0NAMESPACE\0\0nvidia_p2p_put_pages");
        parse(&image.build()).unwrap().exports
    };
    let names = ["NAMESPACE", "nvidia_p2p_get_pages", "nvidia_p2p_put_pages"];
    assert_eq!(exports("vermagic=7.2 SMP mod_unload"), names.map(|name| (name.to_owned(), 0)).into());
    assert!(exports("vermagic=7.2 SMP mod_unload modversions").is_empty());
}

#[test]
fn ubuntus_versions_are_chained() {
    // 64 bytes of names, and many more: the length is not the only difference between the two forms.
    for long in [23, 24, 25, 26, 27, 100] {
        let name = "x".repeat(long);
        let versions = [("module_layout", 1), (name.as_str(), 2), ("z", 3)];
        let mut image = Image::new(&["vermagic=6.8"]);
        image.chained_versions(&versions);
        let expected = versions.map(|(name, crc)| (name.to_owned(), u32::try_from(crc).unwrap()));
        assert_eq!(parse(&image.build()).unwrap().versions, expected.into());
    }
    for odd in [&[1, 0, 0, 0][..], &[200, 0, 0, 0, 1, 0, 0, 0, b'a', 0], &[9, 0, 0, 0, 1, 0, 0, 0, b'a', 0]] {
        let mut image = Image::new(&["vermagic=6.8"]);
        image.section("__versions", odd);
        assert!(fault(&image.build()).contains("of no known form"), "{odd:?}");
    }
}

#[test]
fn extended_versions_have_names_of_any_length() {
    let long = "x".repeat(300);
    let extended = |names: &[u8]| {
        let mut image = Image::new(&["vermagic=6.14"]);
        image.versions(&[("short", 1)]);
        image.section("__version_ext_crcs", &[1, 0, 0, 0, 2, 0, 0, 0]);
        image.section("__version_ext_names", names);
        image
    };
    let whole = extended(&[b"short\0", long.as_bytes(), b"\0"].concat());
    let expected = [("short".to_owned(), 1), (long.clone(), 2)].into();
    assert_eq!(parse(&whole.build()).unwrap().versions, expected);
    assert!(parse(&whole.build()).unwrap().is_of_any_release());
    let alone = parse(&whole.clone().without("__versions").build()).unwrap();
    assert_eq!(alone.versions, expected);
    assert!(!alone.is_of_any_release());
    assert!(fault(&whole.clone().without("__version_ext_names").build()).contains("only one of"));
    assert!(fault(&whole.without("__version_ext_crcs").build()).contains("only one of"));
    for names in [&b"short\0"[..], b"short\0long", b""] {
        assert!(fault(&extended(names).build()).contains("more __version_ext_crcs"));
    }
}

/// A few bytes of a file may ask for gigabytes of memory: names may lie in each other, and sections too.
#[test]
fn what_is_kept_of_a_module_is_bounded() {
    let long = vec![b'a'; 3 << 20];
    for name in ["__versions", "__version_ext_names", ".note.gnu.build-id"] {
        let mut image = Image::new(&["vermagic=6.1"]);
        image.section("__version_ext_crcs", &[]);
        image.section(name, &long);
        assert!(fault(&image.build()).contains(&format!("{name} has 3145728 bytes")), "{name}");
    }
    let modinfo = Image::new(&["vermagic=6.1", &String::from_utf8(long).unwrap()]);
    assert!(fault(&modinfo.build()).contains(".modinfo has"));
    let mut image = Image::new(&["vermagic=6.1"]);
    (0..20_000).for_each(|number| image.import(&format!("{number:0>400}")));
    assert!(fault(&image.build()).contains("more imports and exports"));
    let mut image = Image::new(&["vermagic=6.1"]);
    (0..20_000).for_each(|number| image.import(&format!("import{number}")));
    assert_eq!(parse(&image.build()).unwrap().imports.len(), 20_000);
}

#[test]
fn a_signature_is_seen_and_changes_nothing_else() {
    let plain = Image::peermem().build();
    let signed = [&plain, SIGNATURE].concat();
    let expected = ModuleInfo { signed: true, ..parse(&plain).unwrap() };
    assert_eq!(parse(&signed).unwrap(), expected);
    for packing in PACKINGS {
        assert_eq!(unpack(packing, &pack(packing, &signed), IN_MEMORY).unwrap(), signed, "{packing:?}");
    }
}

#[test]
fn a_module_file_that_the_kernel_would_refuse_is_damaged() {
    let good = Image::peermem().build();
    let with = |at: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        fault(&file)
    };
    let far = u64::MAX.to_le_bytes();
    let section = |index: usize, field: usize| {
        usize::try_from(u64::from_le_bytes(good[40..48].try_into().unwrap())).unwrap() + index * 64 + field
    };
    let (modinfo, symbols, names) = (1, 6, 8);
    for (expected, why) in [
        ("not an ELF file", with(0, b"x")),
        ("not a 64-bit", with(4, &[1])),
        ("big-endian", with(5, &[2])),
        ("unknown byte order", with(5, &[3])),
        ("of type 3", with(16, &[3])),
        ("of 40 bytes", with(58, &[40])),
        ("no sections", with(60, &[0])),
        ("cut off", with(60, &[0xff, 0xff])),
        ("cut off", with(40, &far)),
        ("in section 0", with(62, &[0])),
        ("in section 200", with(62, &[200])),
        ("first section header", with(section(0, 32), &[1])),
        ("cut off: section 1", with(section(modinfo, 32), &far)),
        ("cut off: section 1", with(section(modinfo, 24), &far)),
        ("the name of section 1", with(section(modinfo, 0), &[0xff, 0xff])),
        ("no section .modinfo", with(section(modinfo, 0), &[0])),
        ("has no contents", with(section(2, 8), &[0])),
        ("has no contents", with(section(2, 4), &[8])),
        ("one symbol table", with(section(symbols, 4), &[1])),
        ("in section 99", with(section(symbols, 40), &[99])),
        ("whole symbols", with(section(symbols, 32), &[25])),
        ("begin and end with a NUL", with(section(7, 32), &[9])),
        ("do not end with a NUL", with(section(names, 32), &[9])),
        ("of no known form", with(section(4, 32), &[65])),
        ("no vermagic", fault(&Image::new(&["name=x"]).build())),
        ("no section .gnu.linkonce", fault(&Image::peermem().without(".gnu.linkonce.this_module").build())),
    ] {
        assert!(why.contains(expected), "{why}, not {expected}");
    }
    let mut twice = Image::peermem();
    twice.section(".modinfo", b"vermagic=other\0");
    assert_eq!(fault(&twice.build()), "has more than one section .modinfo");
}

#[test]
fn no_piece_of_a_module_is_taken_for_the_whole() {
    let whole = [&Image::peermem().build(), SIGNATURE].concat();
    let good = parse(&whole).unwrap();
    for length in 0..whole.len() {
        assert!(!matches!(parse(&whole[..length]), Ok(info) if info == good), "{length}");
    }
    for packing in PACKINGS {
        let packed = pack(packing, &whole);
        for length in 0..packed.len() {
            let unpacked = unpack(packing, &packed[..length], IN_MEMORY);
            assert!(!matches!(unpacked, Ok(bytes) if bytes == whole), "{packing:?} {length}");
        }
    }
}

#[test]
fn no_flipped_bit_makes_the_reader_panic() {
    let mut image = Image::peermem();
    image.section("__kcrctab", &[1, 0, 0, 0]);
    image.export_at("exported", 0);
    let whole = image.build();
    for (at, bit) in (0..whole.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut file = whole.clone();
        file[at] ^= 1 << bit;
        drop(parse(&file));
    }
    for packing in PACKINGS {
        let packed = pack(packing, &whole);
        for (at, bit) in (0..packed.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut file = packed.clone();
            file[at] ^= 1 << bit;
            // Some bits, such as a time stamp's, mean nothing.
            if let Ok(unpacked) = unpack(packing, &file, IN_MEMORY) {
                assert_eq!(unpacked, whole, "{packing:?} {at} {bit}");
            }
        }
    }
}
