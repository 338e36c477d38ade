// SPDX-License-Identifier: Apache-2.0
//! The mount that a file is on, to be named where a mount is what is wrong.

use nix::fcntl::OFlag;
use std::ffi::OsString;
use std::fmt;
use std::fs::OpenOptions;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A line of /proc/self/mountinfo.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Where it is mounted, as this process sees it.
    pub(crate) point: PathBuf,
    /// Its file system's type.
    pub(crate) fs_type: String,
    /// It shows a part of its file system only, as the mount of a hostPath volume does.
    is_part: bool,
    /// Mounts made elsewhere come here too: it is a peer or a slave of another mount.
    follows: bool,
}

impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.point.display(), self.fs_type)
    }
}

/// A volume in this container that will never show what the host mounts below it later
/// (`mountPropagation: None`): where it is mounted, when `directory` is on such a one.
///
/// A mount that is whole counts as none: it may be private for its own good. So does a container's root.
pub(crate) fn cut_off(directory: &Path) -> Option<PathBuf> {
    let mut options = OpenOptions::new();
    // Neither reads it nor needs the right to.
    let directory = options.read(true).custom_flags(OFlag::O_PATH.bits()).open(directory).ok()?;
    let mount = of(directory.as_fd())?;
    (mount.is_part && !mount.follows && mount.point != Path::new("/")).then_some(mount.point)
}

/// Found by its id: a path would lead to it only as long as nothing is mounted over it.
pub(crate) fn of(file: BorrowedFd<'_>) -> Option<Mount> {
    let fdinfo = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    let id = fdinfo.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
    let mountinfo = std::fs::read("/proc/self/mountinfo").ok()?;
    mountinfo.split(|byte| *byte == b'\n').find_map(|line| read(line, id))
}

/// `id parent major:minor root point options [optional…] - type source options`.
fn read(line: &[u8], id: &str) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    if fields.next()? != id.as_bytes() {
        return None;
    }
    let is_part = fields.nth(2)? != b"/";
    let point = OsString::from_vec(unescaped(fields.next()?)).into();
    let mut follows = false;
    for optional in fields.by_ref().skip(1).take_while(|field| *field != b"-") {
        follows |= optional.starts_with(b"shared:") || optional.starts_with(b"master:");
    }
    let fs_type = String::from_utf8_lossy(fields.next()?).into_owned();
    Some(Mount { point, fs_type, is_part, follows })
}

/// Blanks and backslashes stand there as three octal digits.
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
    fn a_line_is_read_by_its_fields() {
        let line = br"36 35 98:0 /a /mnt/two\040words\134 rw,noexec master:1 shared:2 - ext3 /dev/root rw";
        let mount = read(line, "36").unwrap();
        assert_eq!(mount.point, Path::new(r"/mnt/two words\"));
        assert_eq!(mount.to_string(), r"/mnt/two words\ (ext3)");
        assert!(mount.is_part && mount.follows);
        for (line, is_part, follows) in [
            (&b"36 35 98:0 / /mnt rw - ext3 /dev/root rw"[..], false, false),
            (b"36 35 98:0 /a /mnt rw - ext3 shared:1 rw", true, false),
            (b"36 35 98:0 /a /mnt rw unbindable - ext3 /dev/root rw", true, false),
            (b"36 35 98:0 / /mnt rw master:7 propagate_from:2 - ext3 /dev/root rw", false, true),
        ] {
            let mount = read(line, "36").unwrap();
            assert_eq!((mount.is_part, mount.follows), (is_part, follows));
        }
        assert_eq!(read(line, "3"), None);
        for odd in [&b""[..], b"36", b"36 35 98:0 / /mnt rw", br"36 35 98:0 / /\0 rw -"] {
            assert_eq!(read(odd, "36"), None);
        }
        assert_eq!(unescaped(br"\9\08 \"), br"\9\08 \");
    }

    #[test]
    fn the_mount_of_an_open_file() {
        let proc = std::fs::File::open("/proc/self").unwrap();
        let mount = of(proc.as_fd()).unwrap();
        assert_eq!((mount.point, mount.fs_type), ("/proc".into(), "proc".to_owned()));
        assert_eq!(cut_off(Path::new("/proc")), None);
    }
}
