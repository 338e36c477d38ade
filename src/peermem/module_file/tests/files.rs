// SPDX-License-Identifier: Apache-2.0
//! Files of all kinds: packed, too large, and no modules at all.

use crate::peermem::module_file;
use crate::peermem::module_file::tests::image::Image;
use crate::peermem::module_file::tests::{PACKINGS, pack, parse, unpack};
use crate::peermem::module_file::unpack::{IN_MEMORY, Packing};
use crate::peermem::module_file::{Fault, NotAModule};
use crate::ready::observation::ModuleInfo;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

fn inspect(path: &Path) -> Result<ModuleInfo, NotAModule> {
    module_file::inspect(path, &mut || false)
}

fn build_id(path: &Path) -> Result<Option<String>, NotAModule> {
    module_file::build_id(path, &mut || false)
}

/// Unpacking takes seconds, and a signal or MOFED's swap does not wait.
#[test]
fn unpacking_a_module_can_be_interrupted() {
    for packing in PACKINGS {
        let packed = pack(packing, &vec![7; 8 << 20]);
        let mut asked = 0;
        let unpacked = module_file::unpack::unpack(packing, &mut &packed[..], IN_MEMORY, &mut || {
            asked += 1;
            asked == 3
        });
        // Not damaged: it may well be a good one.
        assert!(matches!(unpacked, Err(Fault::Io(_))), "{packing:?}");
        assert_eq!(asked, 3, "{packing:?}");
    }
}

/// Members, streams and frames that unpack to nothing: 128 MiB of them took a minute that nothing could end.
#[test]
fn unpacking_can_be_interrupted_between_parts_that_are_empty() {
    for packing in PACKINGS {
        let packed = pack(packing, b"").repeat(20_000);
        let mut asked = 0;
        let unpacked = module_file::unpack::unpack(packing, &mut &packed[..], IN_MEMORY, &mut || {
            asked += 1;
            false
        });
        assert!(unpacked.is_ok_and(|bytes| bytes.is_empty()), "{packing:?}");
        assert!(asked > packed.len() / (32 * 1024), "{packing:?}: {asked} times for {} bytes", packed.len());
    }
}

/// A file that cannot be read may well be good.
#[test]
fn a_failed_read_is_no_damage_of_a_packed_file() {
    struct Failing;
    impl std::io::Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::from_raw_os_error(nix::libc::EIO))
        }
    }
    for packing in PACKINGS {
        let packed = pack(packing, &vec![7; 1 << 20]);
        let mut cut = std::io::Read::chain(&packed[..packed.len() / 2], Failing);
        let unpacked = module_file::unpack::unpack(packing, &mut cut, IN_MEMORY, &mut || false);
        let Err(Fault::Io(why)) = unpacked else { panic!("{packing:?}: {unpacked:?}") };
        assert_eq!(why.raw_os_error(), Some(nix::libc::EIO), "{packing:?}");
    }
}

#[test]
fn all_parts_of_a_compressed_file_are_unpacked() {
    for packing in PACKINGS {
        let twice = [pack(packing, b"one"), pack(packing, b"two")].concat();
        assert_eq!(unpack(packing, &twice, IN_MEMORY).unwrap(), b"onetwo", "{packing:?}");
        let Err(Fault::Damaged(why)) = unpack(packing, &twice, 5) else { panic!("{packing:?}") };
        assert!(why.contains("more than 5 bytes"), "{why}");
    }
    // pzstd writes frames to be skipped before those that count.
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0][..], b"skip"].concat();
    let packed = [&skipped, &pack(Packing::Zstd, b"one")[..], &skipped].concat();
    assert_eq!(unpack(Packing::Zstd, &packed, IN_MEMORY).unwrap(), b"one");
    assert!(unpack(Packing::Zstd, &packed[..packed.len() - 1], IN_MEMORY).is_err());
}

#[test]
fn a_file_that_unpacks_to_too_much_is_refused_in_time() {
    let begin = Instant::now();
    for packing in PACKINGS {
        let packed = pack(packing, &vec![0; 100_000]);
        assert_eq!(unpack(packing, &packed, 100_000).unwrap().len(), 100_000);
        let Err(Fault::Damaged(why)) = unpack(packing, &packed, 99_999) else { panic!("{packing:?}") };
        assert!(why.contains("more than 99999 bytes"), "{why}");
    }
    // Blocks of 128 KiB zeros each, 64 GiB in all, with and without the window for them.
    for (window, expected) in [(0x50, "unpacks to more than"), (0x98, "window is too large")] {
        let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0, window];
        (0..512 * 1024).for_each(|_| bomb.extend([0x02, 0x00, 0x10, 0]));
        let Err(Fault::Damaged(why)) = unpack(Packing::Zstd, &bomb, IN_MEMORY) else { panic!() };
        assert!(why.contains(expected), "{why}");
    }
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}

#[test]
fn no_xz_dictionary_of_4_gib_is_allocated() {
    let mut packed = pack(Packing::Xz, b"small");
    // Behind the stream's header of 12 bytes: size, flags, filter, size of its one property.
    assert_eq!(packed[12..16], [2, 0, 0x21, 1]);
    packed[16] = 40;
    let mut crc = flate2::Crc::new();
    crc.update(&packed[12..20]);
    packed[20..24].copy_from_slice(&crc.sum().to_le_bytes());
    let Err(Fault::Damaged(why)) = unpack(Packing::Xz, &packed, IN_MEMORY) else { panic!() };
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
fn the_compression_is_recognized_by_the_contents_and_not_the_suffix() {
    let plain = Image::peermem().build();
    let good = parse(&plain).unwrap();
    let packed = PACKINGS.map(|packing| pack(packing, &plain));
    for contents in packed.iter().chain([&plain]) {
        for name in ["x.ko", "x.ko.gz", "x.ko.xz", "x.ko.zst"] {
            assert_eq!(inspected(name, contents).as_ref(), Ok(&good), "{name}");
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
fn a_file_that_is_no_module_is_distinguished_from_an_unreadable_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    assert_eq!(why_damaged(directory.path()), "a directory, not a file");
    nix::unistd::mkfifo(&path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(why_damaged(&path("fifo")), "not a regular file");
    for (name, contents, why) in [
        ("empty", &b""[..], "empty"),
        ("text", b"#!/bin/sh\n", "neither an ELF file nor one that gzip, xz or zstd made"),
        ("short", b"\x7f", "neither an ELF file nor one that gzip, xz or zstd made"),
        ("elf", b"\x7fELF", "cut off: 4 bytes contain no ELF header"),
    ] {
        fs::write(path(name), contents).unwrap();
        assert_eq!(why_damaged(&path(name)), why);
    }
    fs::write(path("packed"), pack(Packing::Gzip, &[b'x'; 100])).unwrap();
    assert_eq!(why_damaged(&path("packed")), "unpacks to something that is not an ELF file");
    for (name, magic) in [("gz", &b"\x1f\x8b"[..]), ("xz", b"\xfd7zXZ\0"), ("zst", b"\x28\xb5\x2f\xfd")] {
        fs::write(path(name), [magic, b"garbage, and nothing else"].concat()).unwrap();
        assert!(why_damaged(&path(name)).contains("does not unpack"));
    }
    for unreadable in [path("none"), path("empty/below")] {
        assert!(matches!(inspect(&unreadable), Err(NotAModule::Unreadable(why)) if why.path == unreadable));
    }
}

#[test]
fn only_the_needed_parts_of_a_module_file_are_read() {
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
    fs::write(&path, pack(Packing::Xz, &plain)).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(512 * 1024 * 1024).unwrap();
    assert_eq!(why_damaged(&path), "536870912 bytes compressed, more than any module has");
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
}
