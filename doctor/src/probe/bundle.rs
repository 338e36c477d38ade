// SPDX-License-Identifier: Apache-2.0
//! A bundle's files: a directory, or a tar archive, packed by gzip or xz or not at all.
//!
//! Nothing of an archive is written anywhere, and no path in it is opened: its files come as bytes with a name. Links
//! are not followed. Everything is bounded, and what a bound leaves out is named.

use super::logs::walk;
use super::stdin;
use super::tally::Counted;
use crate::gathered::{Bundle, BundleFile, POSTED, is_text, is_wanted};
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use peermem_gate::ready::clock::wall;
use peermem_gate::ready::errno;
use peermem_gate::ready::files::read::open;
use std::fs::{File, FileType};
use std::io::{self, Cursor, ErrorKind, Read};
use std::net::IpAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use tar::{Archive, EntryType, PaxExtensions};

/// Bounds on what is read of a bundle.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Files that are kept.
    files: usize,
    /// Files of an archive that are looked at.
    entries: usize,
    /// Bytes of one file: of a longer one, its end.
    file: usize,
    /// Bytes of all files that are kept.
    all: usize,
    /// Bytes of an archive, unpacked.
    archive: u64,
    /// Names of files that are left out.
    named: usize,
}

const BOUNDS: Bounds = Bounds {
    files: 50_000,
    entries: 1_000_000,
    file: 32 << 20,
    all: 512 << 20,
    archive: 32 << 30,
    named: 20,
};
/// A tar header.
const BLOCK: usize = 512;
const GZIP: &[u8] = &[0x1f, 0x8b];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];

/// Reads all that may be evidence.
///
/// # Errors
/// As open(2) and read(2) for the bundle itself. Files within it that fail are named in the answer.
pub fn read(path: &Path) -> io::Result<Bundle> {
    let mut reader = BundleReader::default();
    if stdin::is_named(path) {
        let now = wall().duration_since(UNIX_EPOCH).ok().and_then(|now| now.as_secs().try_into().ok());
        // Of a text: its lines say what it is.
        reader.packed("stdin.txt", now, stdin::open()?)?;
    } else if path.metadata()?.is_dir() {
        reader.directory(path);
    } else {
        reader.archive(path)?;
    }
    if reader.bundle.files.len() > POSTED {
        reader.bundle.files.retain(is_wanted);
    }
    reader.bundle.files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(reader.bundle)
}

/// All of these as one; of several each file's name begins with the path. `None` where they have more bytes, or one
/// is standard input, which cannot be read twice.
pub fn read_all(paths: &[PathBuf], most: u64) -> Option<Bundle> {
    let mut found = Vec::new();
    for path in paths {
        walk::walk(path, &mut found, &mut |_, _| {});
    }
    let bytes = found.iter().filter_map(|one| Some(one.path.metadata().ok()?.len()));
    if paths.iter().any(|path| stdin::is_named(path)) || bytes.sum::<u64>() > most {
        return None;
    }
    let mut all = Bundle::default();
    for path in paths {
        let mut one = read(path).ok()?;
        if paths.len() > 1 && path.is_dir() {
            let place = |file: &BundleFile| path.join(&file.path).to_string_lossy().into_owned();
            one.files.iter_mut().for_each(|file| file.path = place(file));
        }
        all.files.append(&mut one.files);
    }
    Some(all)
}

/// As [`read`], where the file is an archive, a single file packed by xz, or standard input.
///
/// # Errors
/// As [`read`].
pub(super) fn packed(path: &Path) -> io::Result<Option<Bundle>> {
    if stdin::is_named(path) {
        return read(path).map(Some);
    }
    if path.metadata()?.is_dir() {
        return Ok(None);
    }
    let (head, file) = headed(Box::new(regular(path)?))?;
    let is_archive = head.starts_with(XZ) || is_tar(&headed(unpacked(file)?)?.0);
    if is_archive || node_before(&head).is_some() { read(path).map(Some) } else { Ok(None) }
}

fn is_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar".as_slice())
}

/// As [`read`], of the bytes of a file with this name.
pub fn of_bytes(name: &str, bytes: &[u8]) -> Bundle {
    let mut reader = BundleReader::default();
    if let Err(error) = reader.packed(name, None, Box::new(Cursor::new(bytes.to_vec()))) {
        reader.leave_out(name, &error.to_string());
    }
    reader.bundle
}

/// The node's address that talosctl writes before each line.
fn node_before(text: &[u8]) -> Option<&[u8]> {
    const COLON: &[u8] = b": ";
    let end = memchr::memmem::find(&text[..text.len().min(64)], COLON)?;
    let address = std::str::from_utf8(&text[..end]).ok()?;
    address.parse::<IpAddr>().is_ok().then(|| &text[..end + COLON.len()])
}

fn without(node: &[u8], text: &[u8]) -> Vec<u8> {
    let lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_prefix(node).unwrap_or(line));
    lines.collect::<Vec<_>>().join(&b'\n')
}

#[derive(Default)]
struct BundleReader {
    bundle: Bundle,
    bytes: usize,
}

impl BundleReader {
    fn directory(&mut self, root: &Path) {
        let mut found = Vec::new();
        let mut unread: Vec<(PathBuf, String)> = Vec::new();
        walk::walk(root, &mut found, &mut |path, error| unread.push((path.to_owned(), errno::words(error))));
        let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
        for (path, why) in unread {
            self.leave_out(&name(&path), &why);
        }
        for one in found {
            let name = name(&one.path);
            if is_journal(&name) {
                self.leave_out(&name, JOURNAL);
                continue;
            }
            let read = regular(&one.path).and_then(|file| {
                let modified = file.metadata().ok().map(|metadata| metadata.mtime());
                self.file(&name, modified, Box::new(Counted::new(file)))
            });
            if let Err(error) = read {
                self.leave_out(&name, &errno::words(&error));
            }
        }
    }

    fn archive(&mut self, path: &Path) -> io::Result<()> {
        // Of a single log its directories may say whose it is.
        let name = path.to_string_lossy();
        let file = regular(path)?;
        let modified = file.metadata()?.mtime();
        self.packed(&name, Some(modified), Box::new(Counted::new(file)))
    }

    /// An archive, or one file.
    fn packed(&mut self, name: &str, modified: Option<i64>, from: Box<dyn Read>) -> io::Result<()> {
        let (head, from) = headed(unpacked(from)?)?;
        if !is_tar(&head) {
            return self.file(name, modified, from);
        }
        let mut archive = Archive::new(from.take(BOUNDS.archive));
        let mut named = None;
        // Raw: the entries with a long name are bounded here, and not read whole.
        for entry in archive.entries()?.raw(true).take(BOUNDS.entries) {
            // Behind a damaged header, no other is found.
            let Ok(mut entry) = entry else {
                self.leave_out(name, "the archive is damaged, or ends early");
                break;
            };
            match entry.header().entry_type() {
                EntryType::GNULongName => named = bounded(&mut entry).map(|bytes| until_nul(&bytes)),
                EntryType::XHeader => {
                    named = bounded(&mut entry).and_then(|bytes| pax_path(&bytes)).or(named);
                }
                EntryType::GNULongLink | EntryType::XGlobalHeader => {}
                kind if !kind.is_file() => named = None,
                _ => {}
            }
            if !entry.header().entry_type().is_file() {
                continue;
            }
            let path = named.take().unwrap_or_else(|| entry.path_bytes().into_owned());
            let path = String::from_utf8_lossy(&path).trim_start_matches("./").to_owned();
            if is_journal(&path) {
                self.leave_out(&path, JOURNAL);
                continue;
            }
            let modified = entry.header().mtime().ok().and_then(|at| i64::try_from(at).ok());
            let Ok((kept, is_whole)) = ending(entry) else {
                self.leave_out(&path, "the archive is damaged, or ends early");
                break;
            };
            if let Err(error) = self.keep(&path, modified, kept, is_whole) {
                self.leave_out(&path, &error.to_string());
            }
        }
        Ok(())
    }

    fn file(&mut self, name: &str, modified: Option<i64>, from: Box<dyn Read>) -> io::Result<()> {
        let (kept, is_whole) = ending(from)?;
        self.keep(name, modified, kept, is_whole)
    }

    /// Keeps a file, unpacked, if it may be evidence and there is room for it.
    fn keep(&mut self, path: &str, modified: Option<i64>, bytes: Vec<u8>, is_whole: bool) -> io::Result<()> {
        if [".tar", ".tgz", ".tar.gz", ".tar.xz", ".zip"].iter().any(|end| path.ends_with(end)) {
            self.leave_out(path, "an archive in the bundle: unpack it, and name it");
            return Ok(());
        }
        let is_packed = bytes.starts_with(GZIP) || bytes.starts_with(XZ);
        let (bytes, is_whole) =
            if is_packed { ending(unpacked(Box::new(Cursor::new(bytes)))?)? } else { (bytes, is_whole) };
        let bytes = match node_before(&bytes).map(<[u8]>::to_vec) {
            Some(node) => without(&node, &bytes),
            None => bytes,
        };
        let file = BundleFile { path: path.to_owned(), bytes, modified };
        let is_cut_and_packed = !is_whole && [".gz", ".xz"].iter().any(|end| path.ends_with(end));
        if is_cut_and_packed {
            self.leave_out(path, "too long to be unpacked here: unpack it in the bundle");
            return Ok(());
        }
        if !is_text(&file) || self.bundle.files.len() >= POSTED && !is_wanted(&file) {
            return Ok(());
        }
        if self.bundle.files.len() >= BOUNDS.files || self.bytes + file.bytes.len() > BOUNDS.all {
            self.leave_out(path, "the bundle is too large");
            return Ok(());
        }
        if !is_whole {
            self.leave_out(path, "too long: only its end was read");
        }
        self.bytes += file.bytes.len();
        self.bundle.files.push(file);
        Ok(())
    }

    fn leave_out(&mut self, path: &str, why: &str) {
        if self.bundle.left_out.len() < BOUNDS.named {
            self.bundle.left_out.push(format!("{path}: {why}"));
        } else {
            self.bundle.more_left_out += 1;
        }
    }
}

/// Opens a regular file. Anything else may have no end, or wait for a writer that never comes.
fn regular(path: &Path) -> io::Result<File> {
    let refused = |kind: FileType| {
        let what = match kind {
            kind if kind.is_fifo() => "a pipe",
            kind if kind.is_socket() => "a socket",
            kind if kind.is_dir() => "a directory",
            _ => "a device",
        };
        Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {what}: name a directory or an archive")))
    };
    // A socket cannot be opened.
    let kind = path.metadata()?.file_type();
    if !kind.is_file() {
        return refused(kind);
    }
    let file = open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() { Ok(file) } else { refused(kind) }
}

/// The bytes of an entry that names the next one; `None` where it cannot be read, or is longer than any name.
fn bounded(entry: &mut impl Read) -> Option<Vec<u8>> {
    const NAME: u64 = 64 * 1024;
    let mut bytes = Vec::new();
    entry.take(NAME + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= NAME).then_some(bytes)
}

fn until_nul(bytes: &[u8]) -> Vec<u8> {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}

/// The name in an extended header (POSIX pax).
fn pax_path(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut records = PaxExtensions::new(bytes).filter_map(Result::ok);
    records.find(|record| record.key_bytes() == b"path").map(|record| record.value_bytes().to_vec())
}

const JOURNAL: &str = "systemd's journal is not read in a bundle: add the output of journalctl";

fn is_journal(path: &str) -> bool {
    path.ends_with(".journal") || path.ends_with(".journal~")
}

/// The first block, and all of it again.
fn headed(mut from: Box<dyn Read>) -> io::Result<(Vec<u8>, Box<dyn Read>)> {
    let mut head = Vec::new();
    from.by_ref().take(BLOCK as u64).read_to_end(&mut head)?;
    let all = Cursor::new(head.clone()).chain(from);
    Ok((head, Box::new(all)))
}

fn unpacked(from: Box<dyn Read>) -> io::Result<Box<dyn Read>> {
    let (head, from) = headed(from)?;
    Ok(if head.starts_with(GZIP) {
        Box::new(MultiGzDecoder::new(from))
    } else if head.starts_with(XZ) {
        Box::new(XzReader::new(from, true))
    } else {
        from
    })
}

/// The last bytes, as many as are kept of a file, and whether these are all.
fn ending(mut from: impl Read) -> io::Result<(Vec<u8>, bool)> {
    let mut kept = Vec::new();
    let mut is_whole = true;
    loop {
        let room = (2 * BOUNDS.file - kept.len()) as u64;
        if from.by_ref().take(room).read_to_end(&mut kept)? == 0 {
            break;
        }
        if kept.len() > BOUNDS.file {
            is_whole = false;
            kept.drain(..kept.len() - BOUNDS.file);
        }
    }
    Ok((kept, is_whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tar::{Builder, Header};

    fn entry(archive: &mut Builder<Vec<u8>>, kind: EntryType, name: &str, bytes: &[u8]) {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(bytes.len() as u64);
        header.set_path(name).unwrap();
        header.set_cksum();
        archive.append(&header, bytes).unwrap();
    }

    fn paths(bundle: &Bundle) -> Vec<&str> {
        bundle.files.iter().map(|file| file.path.as_str()).collect()
    }

    #[test]
    fn an_overlong_name_in_an_archive_is_ignored() {
        let mut archive = Builder::new(Vec::new());
        entry(&mut archive, EntryType::GNULongName, "././@LongLink", b"node/dmesg.log\0");
        entry(&mut archive, EntryType::Regular, "short", b"a line\n");
        entry(&mut archive, EntryType::XHeader, "x", b"27 path=other/messages.log\n");
        entry(&mut archive, EntryType::Regular, "short", b"a line\n");
        entry(&mut archive, EntryType::GNULongName, "././@LongLink", &vec![b'a'; 1 << 20]);
        entry(&mut archive, EntryType::Regular, "kern.log", b"a line\n");
        let bundle = of_bytes("x.tar", &archive.into_inner().unwrap());
        assert_eq!(paths(&bundle), ["node/dmesg.log", "other/messages.log", "kern.log"]);
    }
}
