// SPDX-License-Identifier: Apache-2.0
//! The kind of a file, by its name and its beginning.

use super::super::file::OpenLog;
use super::super::walk::FoundFile;
use crate::gathered::owner::{Content, Writer};
use crate::log::RuleSet;
use crate::record::Lines;
use std::collections::BTreeMap;
use std::io;

/// How much of a file's beginning is looked at.
const HEAD: u64 = 256 << 10;
/// More is read of a file that the user names.
const NAMED_HEAD: u64 = 8 << 20;

/// The kind of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// Output of containers; the container, where its lines have no prefix.
    Streams(Option<&'static str>),
    /// A system log.
    System {
        /// Whether gzip has compressed it.
        is_gz: bool,
    },
    /// Nothing that is known, and why.
    Other(&'static str),
}

pub(super) fn kind(found: &FoundFile, rule_sets: &BTreeMap<&'static str, RuleSet>) -> io::Result<FileKind> {
    const ARCHIVES: [&str; 7] = [".tar", ".tgz", ".tar.gz", ".tar.xz", ".tar.bz2", ".zip", ".xz"];
    let FoundFile { path, is_named, .. } = found;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if ARCHIVES.iter().any(|archive| name.ends_with(archive)) {
        return Ok(FileKind::Other("an archive: unpack it, and name the directory"));
    }
    let mut log = OpenLog::found(found)?;
    let is_gz = log.is_gz()?;
    let head = if *is_named { NAMED_HEAD } else { HEAD };
    let (mut content, mut lines, mut is_binary) = (Content::default(), Lines::of_any_length(), false);
    log.decoded(head, &mut |bytes| {
        is_binary |= memchr::memchr(0, bytes).is_some();
        lines.push(bytes, |line| content.line(line, rule_sets));
    })?;
    lines.end(|line| content.line(line, rule_sets));
    Ok(match content.writer(rule_sets) {
        _ if is_binary => FileKind::Other("not a text"),
        Writer::Prefixed => FileKind::Streams(None),
        Writer::One(container) => FileKind::Streams(Some(container)),
        Writer::System => FileKind::System { is_gz },
        Writer::Several => FileKind::Other(
            "two containers may have written it: name it after its container (nvidia-driver-ctr.log), or \
                take `kubectl logs --prefix`",
        ),
        Writer::Nobody => FileKind::Other(
            "none of its lines is known: name it after its container (nvidia-driver-ctr.log), or take \
                `kubectl logs --prefix`",
        ),
    })
}
