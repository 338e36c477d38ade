// SPDX-License-Identifier: Apache-2.0
//! mountinfo (proc(5)): the mount that an open file is on, and all that a process sees.

use nix::fcntl::OFlag;
use std::ffi::OsString;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Some 10,000 mounts; a container's own volumes come first. Any pod of a node may have ten times as many.
const MOUNTINFO: u64 = 1 << 20;

/// A line of mountinfo (proc(5)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// `major:minor` of the file system.
    pub device: String,
    /// The directory of that file system that is mounted; ends with `//deleted` where it was deleted.
    pub root: PathBuf,
    /// Where it is mounted, as that process sees it.
    pub point: PathBuf,
    /// Is a slave or shared: a mount made below it elsewhere appears here too.
    pub propagates: bool,
    /// The file system's type.
    pub fs_type: String,
    /// The file system's own options.
    pub options: String,
}

impl Mount {
    /// A part of a file system, as the mount of a hostPath volume is. One that is whole may be
    /// private for its own good; so may what a container has as its root.
    #[must_use]
    pub fn is_volume(&self) -> bool {
        self.root != Path::new("/") && self.point != Path::new("/")
    }
}

impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.point.display(), self.fs_type)
    }
}

/// A volume in this container that will never show what the host mounts below it later
/// (`mountPropagation: None`): where it is mounted, when `directory` is on such a one.
#[must_use]
pub fn private_mount(directory: &Path) -> Option<PathBuf> {
    // Neither reads it nor needs the right to.
    let directory = OpenOptions::new().read(true).custom_flags(OFlag::O_PATH.bits()).open(directory).ok()?;
    of(directory.as_fd()).filter(|mount| mount.is_volume() && !mount.propagates).map(|mount| mount.point)
}

/// The id of the mount that this file is on, as the kernel shows it (`proc_pid_fdinfo(5)`, `mnt_id`).
#[must_use]
pub fn id(file: BorrowedFd<'_>) -> Option<String> {
    let fdinfo = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    let id = fdinfo.lines().find_map(|line| line.strip_prefix("mnt_id:"))?;
    Some(id.trim().to_owned())
}

/// Found by its id: a path would lead to it only as long as nothing is mounted over it.
pub fn of(file: BorrowedFd<'_>) -> Option<Mount> {
    let id = id(file)?;
    let mountinfo = BufReader::new(File::open("/proc/self/mountinfo").ok()?.take(MOUNTINFO));
    let is_it = |line: &Vec<u8>| line.split(|byte| *byte == b' ').next() == Some(id.as_bytes());
    mountinfo.split(b'\n').map_while(Result::ok).find(is_it).as_deref().and_then(parse)
}

/// `id parent major:minor root point options [optional…] - type source options`.
#[must_use]
pub fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ').skip(2);
    let device = text(fields.next()?);
    let root = OsString::from_vec(unescaped(fields.next()?)).into();
    let point = OsString::from_vec(unescaped(fields.next()?)).into();
    let optional: Vec<_> = fields.by_ref().skip(1).take_while(|field| *field != b"-").collect();
    let propagates =
        optional.iter().any(|field| field.starts_with(b"master:") || field.starts_with(b"shared:"));
    let fs_type = text(fields.next()?);
    let options = fields.nth(1).map(text).unwrap_or_default();
    Some(Mount { device, root, point, propagates, fs_type, options })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Blanks and backslashes are written there as three octal digits.
fn unescaped(mut text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    while let [first, rest @ ..] = text {
        let octal = rest.get(..3).filter(|_| *first == b'\\');
        let byte = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(byte.unwrap_or(*first));
        text = if byte.is_some() { &rest[3..] } else { rest };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_read_by_its_fields() {
        let line = br"36 35 98:0 /a /mnt/two\040words\134 rw,noexec master:1 shared:2 - ext3 /dev/root rw,proto=rdma";
        let mount = parse(line).unwrap();
        assert_eq!(mount.point, Path::new(r"/mnt/two words\"));
        assert_eq!(mount.to_string(), r"/mnt/two words\ (ext3)");
        assert_eq!((mount.device.as_str(), mount.root.as_path()), ("98:0", Path::new("/a")));
        assert_eq!((mount.propagates, mount.options.as_str()), (true, "rw,proto=rdma"));
        assert!(mount.is_volume());
        for (line, is_volume, propagates) in [
            (&b"36 35 98:0 / /mnt rw - ext3 /dev/root rw"[..], false, false),
            (b"36 35 98:0 /a /mnt rw - ext3 shared:1 rw", true, false),
            (b"36 35 98:0 /a /mnt rw unbindable - ext3 /dev/root rw", true, false),
            (b"36 35 98:0 / /mnt rw master:7 propagate_from:2 - ext3 /dev/root rw", false, true),
        ] {
            let mount = parse(line).unwrap();
            assert_eq!((mount.is_volume(), mount.propagates), (is_volume, propagates));
        }
        for odd in [&b""[..], b"36", b"36 35 98:0 / /mnt rw", br"36 35 98:0 / /\0 rw -"] {
            assert_eq!(parse(odd), None);
        }
        assert_eq!(unescaped(br"\9\08 \"), br"\9\08 \");
    }

    #[test]
    fn the_mount_of_an_open_file_is_found() {
        let proc = std::fs::File::open("/proc/self").unwrap();
        let mount = of(proc.as_fd()).unwrap();
        assert_eq!((mount.point.as_path(), mount.fs_type.as_str()), (Path::new("/proc"), "proc"));
        assert_eq!(private_mount(Path::new("/proc")), None);
    }
}
