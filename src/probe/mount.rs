// SPDX-License-Identifier: Apache-2.0
//! The mount that an open file is on, to be named where a mount is what is wrong.

use std::ffi::OsString;
use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A line of /proc/self/mountinfo.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Where it is mounted, as this process sees it.
    pub(crate) point: PathBuf,
    /// Its file system's type.
    pub(crate) fs_type: String,
}

impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.point.display(), self.fs_type)
    }
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
    let point = OsString::from_vec(unescaped(fields.nth(3)?)).into();
    let fs_type = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(Mount { point, fs_type: String::from_utf8_lossy(fs_type).into_owned() })
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
    use std::os::fd::AsFd;
    use std::path::Path;

    #[test]
    fn a_line_is_read_by_its_fields() {
        let line = br"36 35 98:0 /a /mnt/two\040words\134 rw,noexec master:1 shared:2 - ext3 /dev/root rw";
        let mount = read(line, "36").unwrap();
        assert_eq!(mount.point, Path::new(r"/mnt/two words\"));
        assert_eq!(mount.to_string(), r"/mnt/two words\ (ext3)");
        assert_eq!(read(line, "3"), None);
        for odd in [&b""[..], b"36", b"36 35 98:0 / /mnt rw", br"36 35 98:0 / /\0 rw -"] {
            assert_eq!(read(odd, "36"), None);
        }
        assert_eq!(unescaped(br"\9\08 \"), br"\9\08 \");
    }

    #[test]
    fn the_mount_of_an_open_file() {
        let proc = std::fs::File::open("/proc/self").unwrap();
        assert_eq!(of(proc.as_fd()), Some(Mount { point: "/proc".into(), fs_type: "proc".to_owned() }));
    }
}
