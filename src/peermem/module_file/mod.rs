// SPDX-License-Identifier: Apache-2.0
//! Module files (.ko): where modprobe would find one, and what it contains, before it is loaded. A stub shows here,
//! hours before its EINVAL.

mod elf;
mod find;
mod info;
#[cfg(test)]
pub(crate) mod tests;
mod unpack;

pub use find::{FoundModule, all, directory, find};
pub use info::{SIGNED, build_id_of_notes};

use crate::ready::files::read::unreadable;
use crate::ready::observation::{ModuleInfo, Unreadable};
use elf::Elf;
use serde::{Deserialize, Serialize};
use std::io::{self, Read};
use std::path::Path;
use unpack::Contents;

/// Why a file has nothing to say as a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotAModule {
    /// The file cannot be read; it may well be a good one.
    Unreadable(Unreadable),
    /// The file was read, and is none that the kernel could load.
    Damaged(Unreadable),
}

/// A [`NotAModule`] that does not know its path yet.
#[derive(Debug)]
enum Fault {
    Io(io::Error),
    Damaged(String),
}

impl Fault {
    fn at(self, path: &Path) -> NotAModule {
        match self {
            Self::Io(error) => NotAModule::Unreadable(unreadable(path, &error)),
            Self::Damaged(why) => NotAModule::Damaged(Unreadable { path: path.to_owned(), why }),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A [`Fault`] of the file itself.
fn damaged<T>(why: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Damaged(why.into()))
}

/// Asked now and then while a file is unpacked; true breaks it off, and the file counts as unreadable then.
pub type Interrupted<'a> = &'a mut dyn FnMut() -> bool;

fn parsed<T>(
    path: &Path,
    interrupted: Interrupted<'_>,
    read: impl FnOnce(&Elf) -> Result<T, Fault>,
) -> Result<T, NotAModule> {
    let elf = Contents::open(path, interrupted).and_then(Elf::parse);
    elf.and_then(|elf| read(&elf)).map_err(|fault| fault.at(path))
}

/// Reads the module file at `path`, compressed or not.
pub fn inspect(path: &Path, interrupted: Interrupted<'_>) -> Result<ModuleInfo, NotAModule> {
    parsed(path, interrupted, info::read)
}

/// Whether to unpack it takes seconds.
#[must_use]
pub fn takes_long(path: &Path) -> bool {
    unpack::takes_long(path).unwrap_or(false)
}

/// The same, and the last bytes of the unpacked file, at most so many of them: its signature is there.
pub fn inspect_with_end(
    path: &Path,
    most: u64,
    interrupted: Interrupted<'_>,
) -> Result<(ModuleInfo, Vec<u8>), NotAModule> {
    parsed(path, interrupted, |elf| {
        Ok((info::read(elf)?, elf.end(most).map(|end| end.to_vec()).unwrap_or_default()))
    })
}

/// Only the build id. Of an uncompressed file some kilobytes are read, however large it is, and only those are
/// checked.
pub fn build_id(path: &Path, interrupted: Interrupted<'_>) -> Result<Option<String>, NotAModule> {
    parsed(path, interrupted, info::build_id)
}

/// The module at `path` says that we rebuilt it. False where it cannot be read.
#[must_use]
pub fn is_rebuilt(path: &Path) -> bool {
    parsed(path, &mut || false, info::is_rebuilt).is_ok_and(|is_rebuilt| is_rebuilt)
}

/// The whole module at `path`, unpacked; `None` where it cannot be read, or is not smaller than `limit`.
#[must_use]
pub fn unpacked(path: &Path, limit: u64) -> Option<Vec<u8>> {
    let bytes = match Contents::open(path, &mut || false).ok()? {
        Contents::Plain(file, _) => {
            let mut bytes = Vec::new();
            file.take(limit).read_to_end(&mut bytes).ok()?;
            bytes
        }
        Contents::Unpacked(bytes) => bytes,
    };
    ((bytes.len() as u64) < limit).then_some(bytes)
}

/// The build id of a module's file; `None` where it has none, or cannot be read.
#[must_use]
pub fn build_id_of_file(path: &Path) -> Option<String> {
    build_id(path, &mut || false).ok().flatten()
}
