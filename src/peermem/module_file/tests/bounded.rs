// SPDX-License-Identifier: Apache-2.0
//! The frame of a module, with every combination of the values at which its arithmetic could go wrong.

use crate::peermem::module_file::elf::{is_in_file, until_nul};
use crate::peermem::module_file::tests::image::Image;
use crate::peermem::module_file::tests::{Contents, Elf};
use object::LittleEndian as Little;

/// Field, place and length in the file header, and in a section's.
const TABLE_AT: (usize, usize) = (40, 8);
const TABLE_ENTRIES: (usize, usize) = (60, 2);
const NAMES: (usize, usize) = (62, 2);
const TYPE: (usize, usize) = (4, 4);
const OFFSET: (usize, usize) = (24, 8);
const SIZE: (usize, usize) = (32, 8);

fn put(file: &mut [u8], at: usize, (field, length): (usize, usize), value: u64) {
    file[at + field..at + field + length].copy_from_slice(&value.to_le_bytes()[..length]);
}

/// The ends of the numbers, and those around each of these.
fn around(these: &[u64]) -> Vec<u64> {
    let near = these.iter().flat_map(|one| [one.wrapping_sub(1), *one, one.wrapping_add(1)]);
    near.chain([0, 1, 63, 64, u64::MAX / 2, u64::MAX - 63, u64::MAX - 1, u64::MAX]).collect()
}

/// If the frame is accepted, every section that is in the file lies in it, counted without any overflow.
fn is_sound(file: &[u8]) -> bool {
    let Ok(elf) = Elf::parse(Contents::Unpacked(file.to_owned())) else { return false };
    for section in elf.sections() {
        let (at, size) = (section.sh_offset.get(Little), section.sh_size.get(Little));
        let end = u128::from(at) + u128::from(size);
        assert!(!is_in_file(section) || end <= file.len() as u128, "{at} {size}");
        let bytes = elf.bytes(section).expect("it lies in the file");
        assert_eq!(bytes.len() as u64, if is_in_file(section) { size } else { 0 });
    }
    true
}

#[test]
fn no_section_table_makes_the_frame_larger_than_the_file() {
    let file = Image::new(&["vermagic=6.1"]).build();
    let (size, table) = (file.len() as u64, u64::from_le_bytes(file[40..48].try_into().unwrap()));
    let mut sound = 0;
    for at in around(&[table, size - 64, size]) {
        for entries in around(&[(size - table) / 64, u16::MAX.into()]) {
            for names in around(&[(size - table) / 64]) {
                let mut file = file.clone();
                for (field, value) in [(TABLE_AT, at), (TABLE_ENTRIES, entries), (NAMES, names)] {
                    put(&mut file, 0, field, value);
                }
                sound += u32::from(is_sound(&file));
            }
        }
    }
    assert!(sound > 0, "the good one is among them");
}

#[test]
fn a_section_is_accepted_exactly_if_it_lies_in_the_file_or_has_no_place_in_it() {
    let file = Image::new(&["vermagic=6.1"]).build();
    let (size, table) = (file.len() as u64, u64::from_le_bytes(file[40..48].try_into().unwrap()));
    let first = usize::try_from(table).unwrap() + 64;
    for kind in 0..=9 {
        for at in around(&[size, table]) {
            for length in around(&[size, size - table, size.wrapping_neg()]) {
                let mut file = file.clone();
                for (field, value) in [(TYPE, kind), (OFFSET, at), (SIZE, length)] {
                    put(&mut file, first, field, value);
                }
                // A section of no type, and one of memory only.
                let fits = matches!(kind, 0 | 8) || u128::from(at) + u128::from(length) <= u128::from(size);
                assert_eq!(is_sound(&file), fits, "type {kind}, {length} bytes at {at}");
            }
        }
    }
}

#[test]
fn a_string_ends_at_its_first_nul() {
    for length in 0..=8_usize {
        for bits in 0..1_u32 << length {
            let text: Vec<u8> = (0..length).map(|at| if bits >> at & 1 == 0 { 0 } else { b'a' }).collect();
            for at in 0..=length + 1 {
                let end = (at..length).find(|end| text[*end] == 0);
                assert_eq!(until_nul(&text, at), end.map(|end| &text[at..end]), "{text:?} at {at}");
            }
            assert_eq!(until_nul(&text, usize::MAX), None);
        }
    }
    for (length, is_found) in [(1023, true), (1024, false), (1025, false)] {
        let text = [vec![b'a'; length], vec![0]].concat();
        assert_eq!(until_nul(&text, 0).is_some(), is_found, "{length}");
    }
}
