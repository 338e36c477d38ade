// SPDX-License-Identifier: Apache-2.0

use super::sample::Sample;
use super::*;
use lzma_rust2::{XzOptions, XzWriter};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::Write;

fn read(bytes: &[u8], most: usize) -> io::Result<(Vec<(u64, String)>, u64)> {
    let mut journal = Journal::open(bytes, bytes.len() as u64, most)?;
    let mut all = Vec::new();
    let unreadable = journal.each(u64::MAX, |entry| {
        all.push((entry.realtime, String::from_utf8_lossy(&entry.message).into_owned()));
    });
    Ok((all, unreadable))
}

fn of(count: u64, is_compact: bool) -> Vec<u8> {
    let mut sample = Sample::new(is_compact, 4);
    for at in 1..=count {
        sample.kernel(at, &format!("line {at}"));
    }
    sample.build()
}

fn expected(range: std::ops::RangeInclusive<u64>) -> Vec<(u64, String)> {
    range.map(|at| (at, format!("line {at}"))).collect()
}

#[test]
fn the_last_entries_come_oldest_first_whatever_the_arrays_are() {
    for is_compact in [false, true] {
        let bytes = of(11, is_compact);
        assert_eq!(read(&bytes, 100).unwrap(), (expected(1..=11), 0));
        for most in 0..=11 {
            let expected = if most == 0 { Vec::new() } else { expected(12 - most..=11) };
            assert_eq!(read(&bytes, usize::try_from(most).unwrap()).unwrap(), (expected, 0), "{most}");
        }
    }
    assert_eq!(read(&of(0, false), 100).unwrap(), (Vec::new(), 0));
}

#[test]
fn an_entry_has_its_fields_whatever_their_order() {
    let mut sample = Sample::new(false, 4);
    let fields =
        ["_SYSTEMD_UNIT=kubelet.service", "MESSAGE=a\nb", "_TRANSPORT=stdout", "SYSLOG_IDENTIFIER=kubelet"];
    let data: Vec<_> = fields.iter().map(|field| sample.data(0, field.as_bytes())).collect();
    sample.entry(7, &data);
    let bytes = sample.build();
    let mut journal = Journal::open(&bytes[..], bytes.len() as u64, 1).unwrap();
    let mut seen = Vec::new();
    assert_eq!(journal.each(u64::MAX, |entry| seen.push(entry.clone())), 0);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let [entry] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!(
        [&entry.unit, &entry.message, &entry.transport, &entry.identifier].map(|field| text(field)),
        ["kubelet.service", "a\nb", "stdout", "kubelet"]
    );
}

#[test]
fn compressed_journal_messages_are_unpacked() {
    let long = format!("MESSAGE={}", "word ".repeat(300));
    let mut xz = XzWriter::new(Vec::new(), XzOptions::with_preset(1)).unwrap();
    xz.write_all(long.as_bytes()).unwrap();
    let lz4 = [&(long.len() as u64).to_le_bytes()[..], &lz4_flex::block::compress(long.as_bytes())].concat();
    let zstd = compress_to_vec(long.as_bytes(), CompressionLevel::Fastest);
    for (flags, packed) in [(1, xz.finish().unwrap()), (2, lz4), (4, zstd)] {
        let mut sample = Sample::new(true, 4);
        let data = sample.data(flags, &packed);
        sample.entry(7, &[data]);
        let (all, unreadable) = read(&sample.build(), 100).unwrap();
        assert_eq!(unreadable, 0, "{flags}");
        assert_eq!(all, [(7, long["MESSAGE=".len()..].to_owned())], "{flags}");
    }
}

#[test]
fn a_file_that_is_not_a_journal_is_refused() {
    for bytes in [&b""[..], b"LPKSHHRH", &[0; 300]] {
        assert!(read(bytes, 100).is_err());
    }
    let mut newer = of(1, false);
    newer[12] |= 0b10_0000;
    assert!(read(&newer, 100).is_err());
    let mut circle = of(9, false);
    let first = number(&circle, 176, 8);
    let link = usize::try_from(first).unwrap() + 16;
    circle[link..link + 8].copy_from_slice(&first.to_le_bytes());
    assert!(read(&circle, 100).is_err());
}

#[test]
fn a_damaged_journal_entry_hides_no_other_entry() {
    let bytes = of(5, false);
    let mut journal = Journal::open(&bytes[..], bytes.len() as u64, 5).unwrap();
    let third = usize::try_from(journal.entries[2]).unwrap();
    journal.entries.clear();
    let mut damaged = bytes.clone();
    damaged[third] = 9;
    let (all, unreadable) = read(&damaged, 100).unwrap();
    assert_eq!((all.len(), unreadable), (4, 1));
}

#[test]
fn a_long_message_that_all_entries_share_is_read_in_part_and_not_without_an_end() {
    let mut sample = Sample::new(false, 4);
    let data = sample.data(0, format!("MESSAGE={}", "x".repeat(1 << 20)).as_bytes());
    for at in 1..=100 {
        sample.entry(at, &[data]);
    }
    let bytes = sample.build();
    let mut journal = Journal::open(&bytes[..], bytes.len() as u64, 100).unwrap();
    let mut lengths = Vec::new();
    let unreadable = journal.each(1 << 20, |entry| lengths.push(entry.message.len()));
    assert!(lengths.iter().all(|length| (60_000..=65_536).contains(length)), "{lengths:?}");
    assert!((10..20).contains(&lengths.len()), "{}", lengths.len());
    assert_eq!(unreadable, 100 - lengths.len() as u64);
    assert!(journal.read() < 2 << 20, "{}", journal.read());
}
