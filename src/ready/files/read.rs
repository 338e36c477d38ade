// SPDX-License-Identifier: Apache-2.0
//! Bounded reads that cannot hang: any of these paths may turn out to be a FIFO, a directory, or
//! a gigabyte without a newline.

use crate::ready::files::root::resolve;
use crate::ready::files::unread::noted;
use crate::ready::observation::{Seen, Unreadable};
use crate::ready::{errno, sort};
use rustix::fs::{Mode, OFlags};
use std::fs::{DirEntry, File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Far above any attribute, below one page.
const SMALL: u64 = 4000;
/// A module line with a thousand users is well below this.
const LINE: usize = 64 * 1024;
/// A node with all its virtual functions has some hundreds of RDMA devices.
const NAMES: usize = 5000;
/// The kernel gives one page a read of most of these, whatever is asked for.
pub const BUFFER: usize = 16 * 1024;

/// Opens for reading, without ever waiting for a FIFO's writer.
pub fn open(path: &Path) -> io::Result<File> {
    // One system call; musl's open(3) is two, for kernels before 2.6.23.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()));
    opened.map(File::from).map_err(|errno| noted(path, errno.into()))
}

/// The trimmed text of a small file; `None` where there is none, or where the kernel took it away
/// between open and read (`ENODEV`).
pub fn small(path: &Path) -> Seen<Option<String>> {
    match small_text(path) {
        Err(error) if error.raw_os_error() == Some(nix::libc::ENODEV) => Ok(None),
        text => there(path, text),
    }
}

/// The trimmed text of a small file; `None` only where there is none.
pub fn present(path: &Path) -> Seen<Option<String>> {
    there(path, small_text(path))
}

fn small_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::with_capacity(64);
    open(path)?.take(SMALL).read_to_end(&mut bytes).map_err(|error| noted(path, error))?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

/// A read of a file as an observation: that there is none is an answer, and any other error is not.
pub fn there<T>(path: &Path, read: io::Result<T>) -> Seen<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(path, &noted(path, error))),
    }
}

/// The text of a file of at most `limit` bytes.
///
/// # Errors
/// As open(2) and read(2); `InvalidData` when it is longer, or no UTF-8.
pub fn whole(path: &Path, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.take(limit + 1).read_to_string(&mut text).map_err(|error| noted(path, error))?;
    if text.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("longer than {limit} bytes")));
    }
    Ok(text)
}

/// The first bytes of a file, `limit` at most.
///
/// # Errors
/// As open(2) and read(2).
pub fn beginning(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The entries of a directory. The limit keeps an endless one from outlasting deadline, signals and memory.
///
/// # Errors
/// As opendir(3) and readdir(3); more than `limit` entries.
pub fn entries(directory: &Path, limit: usize) -> io::Result<Vec<DirEntry>> {
    let mut listing = directory.read_dir().map_err(|error| noted(directory, error))?;
    let entries = listing.by_ref().take(limit).collect::<io::Result<Vec<_>>>();
    let entries = entries.map_err(|error| noted(directory, error))?;
    match listing.next() {
        None => Ok(entries),
        Some(_) => Err(io::Error::other(format!("it lists more than {limit} names"))),
    }
}

/// The names in a directory; `None` where it is not there.
///
/// # Errors
/// As [`entries`].
pub fn names(directory: &Path) -> Seen<Option<Vec<String>>> {
    match entries(directory, NAMES) {
        Ok(entries) => {
            let mut names: Vec<_> =
                entries.into_iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
            sort::sort(&mut names);
            Ok(Some(names))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(directory, &error)),
    }
}

/// How a file ended.
#[derive(Debug, PartialEq)]
pub enum FileEnd {
    /// With a newline, or empty.
    Whole,
    /// In the middle of a line.
    Truncated,
    /// Not reached: the caller broke off.
    NotReached,
}

/// Calls `each` with every line of the first `limit` bytes, without its newline; what is longer than
/// a line can be is cut. The limit keeps an endless file from outlasting deadline and signals.
pub fn lines(path: &Path, limit: u64, mut each: impl FnMut(&[u8]) -> ControlFlow<()>) -> io::Result<FileEnd> {
    let mut file = open(path)?.take(limit);
    // On the stack: the slow look reads every few seconds, and need not ask for memory each time.
    let mut buffer = [0; BUFFER];
    let mut begun = Vec::new();
    loop {
        let read = file.read(&mut buffer).map_err(|error| noted(path, error))?;
        if read == 0 {
            break;
        }
        let mut rest = &buffer[..read];
        while let Some(at) = memchr::memchr(b'\n', rest) {
            let flow = if begun.is_empty() {
                each(&rest[..at])
            } else {
                begin(&mut begun, &rest[..at]);
                let flow = each(&begun);
                begun.clear();
                flow
            };
            if flow.is_break() {
                return Ok(FileEnd::NotReached);
            }
            rest = &rest[at + 1..];
        }
        begin(&mut begun, rest);
    }
    if !begun.is_empty() && each(&begun).is_break() {
        return Ok(FileEnd::NotReached);
    }
    Ok(if begun.is_empty() && file.limit() > 0 { FileEnd::Whole } else { FileEnd::Truncated })
}

/// Keeps the beginning of a line whose end is still to be read.
fn begin(begun: &mut Vec<u8>, more: &[u8]) {
    let room = LINE.saturating_sub(begun.len());
    begun.extend_from_slice(&more[..more.len().min(room)]);
}

/// The metadata of `path`, which lies below `root`.
///
/// # Errors
/// As stat(2), and as [`resolve`].
pub fn metadata(root: &Path, path: &Path) -> io::Result<Metadata> {
    stat(&resolve(root, path)?)
}

/// The metadata of a path, its links followed.
///
/// # Errors
/// As stat(2).
pub fn stat(path: &Path) -> io::Result<Metadata> {
    path.metadata().map_err(|error| noted(path, error))
}

/// The metadata of a path itself, be it a link.
///
/// # Errors
/// As lstat(2).
pub fn lstat(path: &Path) -> io::Result<Metadata> {
    path.symlink_metadata().map_err(|error| noted(path, error))
}

/// Where a link leads.
///
/// # Errors
/// As readlink(2); `InvalidInput` where it is no link.
pub fn link(path: &Path) -> io::Result<PathBuf> {
    let is_no_link = |error: &io::Error| error.kind() == ErrorKind::InvalidInput;
    path.read_link().map_err(|error| if is_no_link(&error) { error } else { noted(path, error) })
}

/// A file that some user may run. Whether this process may does not matter: it only looks.
#[must_use]
pub fn is_program(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
}

/// A failed read as part of what was seen.
#[must_use]
pub fn unreadable(path: &Path, error: &io::Error) -> Unreadable {
    Unreadable { path: path.to_owned(), why: errno::words(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(bytes: &[u8]) -> (Vec<Vec<u8>>, FileEnd) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let mut all = Vec::new();
        let ended = lines(file.path(), 1 << 20, |line| {
            all.push(line.to_vec());
            ControlFlow::Continue(())
        });
        (all, ended.unwrap())
    }

    #[test]
    fn a_file_without_a_final_newline_is_read_as_cut_off() {
        assert_eq!(collect(b""), (vec![], FileEnd::Whole));
        assert_eq!(collect(b"a\nb\n"), (vec![b"a".to_vec(), b"b".to_vec()], FileEnd::Whole));
        assert_eq!(collect(b"a\nb"), (vec![b"a".to_vec(), b"b".to_vec()], FileEnd::Truncated));
    }

    #[test]
    fn the_tail_of_an_endless_line_is_not_a_separate_line() {
        let mut bytes = vec![b'x'; LINE];
        bytes.extend_from_slice(b"tail\nnext\n");
        let (all, ended) = collect(&bytes);
        assert_eq!((all.len(), ended), (2, FileEnd::Whole));
        assert_eq!(all[1], b"next");
    }

    #[test]
    fn reading_a_fifo_does_not_hang_and_reading_a_directory_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(small(&fifo), Ok(Some(String::new())));
        assert_eq!(small(dir.path()).unwrap_err().why, "Is a directory");
        assert_eq!(small(&dir.path().join("none")), Ok(None));
    }
}
