// SPDX-License-Identifier: Apache-2.0
//! Good files say what they are; of bad ones, none is taken for a good one, and none costs more
//! than its refusal.

mod image;

use self::image::Image;
use super::unpack::{Contents, Format, IN_MEMORY, unpack};
use super::{Elf, Fault, NotAModule, build_id, info, inspect, read};
use crate::observation::{ModuleFile, ModuleInfo};
use lzma_rust2::{LzmaOptions, XzOptions, XzWriter};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const SIGNATURE: &[u8] = b"PKCS#7 and its description~Module signature appended~\n";
const FORMATS: [Format; 3] = [Format::Gzip, Format::Xz, Format::Zstd];

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

fn pack(format: Format, bytes: &[u8]) -> Vec<u8> {
    match format {
        Format::Elf => bytes.to_owned(),
        Format::Gzip => {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packed.write_all(bytes).unwrap();
            packed.finish().unwrap()
        }
        Format::Xz => {
            let mut options = XzOptions::with_preset(0);
            options.lzma_options = LzmaOptions { dict_size: 64 * 1024, ..options.lzma_options };
            let mut packed = XzWriter::new(Vec::new(), options).unwrap();
            packed.write_all(bytes).unwrap();
            packed.finish().unwrap()
        }
        Format::Zstd => compress_to_vec(bytes, CompressionLevel::Fastest),
    }
}

#[test]
fn a_module_says_what_it_is() {
    let info = parse(&Image::peermem().build()).unwrap();
    let expected = ModuleInfo {
        machine: "x86_64".to_owned(),
        name: "nvidia_peermem".to_owned(),
        vermagic: "6.1.0-56-amd64 SMP preempt mod_unload modversions".to_owned(),
        version: Some("595.45.04".to_owned()),
        depends: vec!["nvidia".to_owned(), "ib_uverbs".to_owned()],
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
    let names = parse(&whole.clone().without("__versions").build()).unwrap().versions;
    assert_eq!(names, expected);
    assert!(fault(&whole.clone().without("__version_ext_names").build()).contains("only one of"));
    assert!(fault(&whole.without("__version_ext_crcs").build()).contains("only one of"));
    for names in [&b"short\0"[..], b"short\0long", b""] {
        assert!(fault(&extended(names).build()).contains("more __version_ext_crcs"));
    }
}

#[test]
fn a_signature_is_seen_and_changes_nothing_else() {
    let plain = Image::peermem().build();
    let signed = [&plain, SIGNATURE].concat();
    let expected = ModuleInfo { signed: true, ..parse(&plain).unwrap() };
    assert_eq!(parse(&signed).unwrap(), expected);
    for format in FORMATS {
        assert_eq!(unpack(format, &pack(format, &signed), IN_MEMORY).unwrap(), signed, "{format:?}");
    }
}

#[test]
fn what_the_kernel_would_refuse_is_damaged() {
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
        ("no ELF", with(0, b"x")),
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
        ("not made of 64", with(section(4, 32), &[65])),
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
    for format in FORMATS {
        let packed = pack(format, &whole);
        for length in 0..packed.len() {
            let unpacked = unpack(format, &packed[..length], IN_MEMORY);
            assert!(!matches!(unpacked, Ok(bytes) if bytes == whole), "{format:?} {length}");
        }
    }
}

#[test]
fn no_flipped_bit_makes_it_panic() {
    let mut image = Image::peermem();
    image.section("__kcrctab", &[1, 0, 0, 0]);
    image.export_at("exported", 0);
    let whole = image.build();
    for (at, bit) in (0..whole.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut file = whole.clone();
        file[at] ^= 1 << bit;
        drop(parse(&file));
    }
    for format in FORMATS {
        let packed = pack(format, &whole);
        for (at, bit) in (0..packed.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut file = packed.clone();
            file[at] ^= 1 << bit;
            // Some bits, such as a time stamp's, mean nothing.
            if let Ok(unpacked) = unpack(format, &file, IN_MEMORY) {
                assert_eq!(unpacked, whole, "{format:?} {at} {bit}");
            }
        }
    }
}

#[test]
fn what_unpacks_to_too_much_is_refused_in_time() {
    let begin = Instant::now();
    for format in FORMATS {
        let packed = pack(format, &vec![0; 100_000]);
        assert_eq!(unpack(format, &packed, 100_000).unwrap().len(), 100_000);
        let Err(Fault::Damaged(why)) = unpack(format, &packed, 99_999) else { panic!("{format:?}") };
        assert!(why.contains("more than 99999 bytes"), "{why}");
    }
    // Blocks of 128 KiB zeros each, 64 GiB in all, with and without the window for them.
    for (window, expected) in [(0x50, "unpacks to more than"), (0x98, "window is too large")] {
        let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0, window];
        (0..512 * 1024).for_each(|_| bomb.extend([0x02, 0x00, 0x10, 0]));
        let Err(Fault::Damaged(why)) = unpack(Format::Zstd, &bomb, IN_MEMORY) else { panic!() };
        assert!(why.contains(expected), "{why}");
    }
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}

#[test]
fn all_parts_of_a_packed_file_count() {
    for format in FORMATS {
        let twice = [pack(format, b"one"), pack(format, b"two")].concat();
        assert_eq!(unpack(format, &twice, IN_MEMORY).unwrap(), b"onetwo", "{format:?}");
        let Err(Fault::Damaged(why)) = unpack(format, &twice, 5) else { panic!("{format:?}") };
        assert!(why.contains("more than 5 bytes"), "{why}");
    }
    // pzstd writes frames to be skipped before those that count.
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0][..], b"skip"].concat();
    let packed = [&skipped, &pack(Format::Zstd, b"one")[..], &skipped].concat();
    assert_eq!(unpack(Format::Zstd, &packed, IN_MEMORY).unwrap(), b"one");
    assert!(unpack(Format::Zstd, &packed[..packed.len() - 1], IN_MEMORY).is_err());
}

#[test]
fn a_dictionary_of_4_gib_is_not_made() {
    let mut packed = pack(Format::Xz, b"small");
    // Behind the stream's header of 12 bytes: size, flags, filter, size of its one property.
    assert_eq!(packed[12..16], [2, 0, 0x21, 1]);
    packed[16] = 40;
    let mut crc = flate2::Crc::new();
    crc.update(&packed[12..20]);
    packed[20..24].copy_from_slice(&crc.sum().to_le_bytes());
    let Err(Fault::Damaged(why)) = unpack(Format::Xz, &packed, IN_MEMORY) else { panic!() };
    assert!(why.contains("mem_limit"), "{why}");
}

/// A file with these contents, and what it says.
fn inspected(name: &str, contents: &[u8]) -> Result<ModuleInfo, NotAModule> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, contents).unwrap();
    let info = inspect(&path);
    if let Ok(info) = &info {
        assert_eq!(build_id(&path), Ok(info.build_id.clone()));
    }
    info
}

#[test]
fn the_contents_count_and_not_the_suffix() {
    let plain = Image::peermem().build();
    let good = parse(&plain).unwrap();
    for format in [Format::Elf, Format::Gzip, Format::Xz, Format::Zstd] {
        for name in ["x.ko", "x.ko.gz", "x.ko.xz", "x.ko.zst"] {
            assert_eq!(inspected(name, &pack(format, &plain)).as_ref(), Ok(&good), "{format:?} in {name}");
        }
    }
}

#[track_caller]
fn why_damaged(path: &Path) -> String {
    match (inspect(path), build_id(path)) {
        (Err(NotAModule::Damaged(inspected)), Err(NotAModule::Damaged(identified))) => {
            assert_eq!(inspected, identified);
            assert_eq!(inspected.path, path);
            inspected.why
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_module_file_is_told_from_what_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    assert_eq!(why_damaged(directory.path()), "a directory, not a file");
    nix::unistd::mkfifo(&path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(why_damaged(&path("fifo")), "not a regular file");
    for (name, contents, why) in [
        ("empty", &b""[..], "empty"),
        ("text", b"#!/bin/sh\n", "neither an ELF file nor one that gzip, xz or zstd made"),
        ("short", b"\x7f", "neither an ELF file nor one that gzip, xz or zstd made"),
        ("elf", b"\x7fELF", "cut off: 4 bytes hold no ELF header"),
    ] {
        fs::write(path(name), contents).unwrap();
        assert_eq!(why_damaged(&path(name)), why);
    }
    fs::write(path("packed"), pack(Format::Gzip, &[b'x'; 100])).unwrap();
    assert_eq!(why_damaged(&path("packed")), "unpacks to something that is no ELF file");
    for (name, magic) in [("gz", &b"\x1f\x8b"[..]), ("xz", b"\xfd7zXZ\0"), ("zst", b"\x28\xb5\x2f\xfd")] {
        fs::write(path(name), [magic, b"garbage, and nothing else"].concat()).unwrap();
        assert!(why_damaged(&path(name)).contains("does not unpack"));
    }
    for unreadable in [path("none"), path("empty/below")] {
        assert!(matches!(inspect(&unreadable), Err(NotAModule::Unreadable(why)) if why.path == unreadable));
    }
}

#[test]
fn a_file_is_not_read_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.ko");
    let plain = Image::peermem().build();
    fs::write(&path, &plain).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let begin = Instant::now();
    file.set_len(512 * 1024 * 1024).unwrap();
    assert_eq!(inspect(&path), parse(&plain).map_err(|fault| fault.at(&path)));
    assert_eq!(build_id(&path), Ok(Some("ab01ff".to_owned())));
    file.set_len(2 * 1024 * 1024 * 1024).unwrap();
    assert_eq!(why_damaged(&path), "2147483648 bytes, more than any module has");
    fs::write(&path, pack(Format::Xz, &plain)).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(512 * 1024 * 1024).unwrap();
    assert_eq!(why_damaged(&path), "536870912 bytes compressed, more than any module has");
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
}

#[test]
fn one_reading_finds_and_inspects() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("lib/modules/6.1");
    let find = || read(root.path(), "6.1", "nvidia_peermem");
    assert_eq!(find(), ModuleFile::Missing(directory.clone()));
    fs::create_dir_all(directory.join("extra")).unwrap();
    let path = directory.join("extra/nvidia-peermem.ko");
    fs::write(&path, b"").unwrap();
    assert!(matches!(find(), ModuleFile::Damaged(why) if why.path == path));
    let plain = Image::peermem().build();
    fs::write(&path, &plain).unwrap();
    let info = Box::new(parse(&plain).unwrap());
    assert_eq!(find(), ModuleFile::Read { path, others: vec![], listed: None, info });
    fs::create_dir(directory.join("modules.dep")).unwrap();
    assert!(matches!(find(), ModuleFile::Unreadable(why) if why.path == directory.join("modules.dep")));
}
