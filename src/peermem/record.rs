// SPDX-License-Identifier: Apache-2.0
//! Records of a rebuild, kept below the driver's root for each kernel: JSON, one object a file.

use crate::ready::files::read::{unreadable, whole};
use crate::ready::files::root::resolve;
use crate::ready::node::below;
use crate::ready::observation::Seen;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The directory of all that `rebuild` writes, as seen from inside the driver's root.
pub const PLACE: &str = "/var/lib/peermem-gate";

/// A record contains some build ids, or the last lines of a compiler.
const RECORD: u64 = 64 * 1024;

/// A record's kind: its file is `PLACE/NAME.RELEASE`.
pub trait RecordFile: Serialize + DeserializeOwned {
    /// The file's name before the kernel's release.
    const NAME: &'static str;

    /// The file, as this process sees it.
    #[must_use]
    fn path(root: &Path, release: &str) -> PathBuf {
        below(root, Path::new(PLACE)).join(format!("{}.{release}", Self::NAME))
    }
}

/// The kernel, nvidia and MOFED that a module is built for. One attempt is made for each.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pair {
    /// The kernel's release.
    pub kernel: String,
    /// The build id of the live nvidia.
    pub nvidia: String,
    /// The build id of the live module that exports peer memory.
    pub mofed: String,
}

/// The modules that were installed for a kernel, the last one last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    /// Their build ids: a file of another build is not ours.
    pub build_ids: Vec<String>,
    /// What the last one was built for.
    #[serde(default)]
    pub pair: Pair,
}

impl Installed {
    /// The module of this build id is the last one, and was built for exactly what is live; what is not known is not
    /// the same.
    #[must_use]
    pub fn is_for(&self, build_id: Option<&String>, live: &Pair) -> bool {
        let is_known = !live.nvidia.is_empty() && !live.mofed.is_empty();
        is_known && build_id.is_some() && self.build_ids.last() == build_id && self.pair == *live
    }
}

impl RecordFile for Installed {
    const NAME: &'static str = "installed";
}

/// A symbol's CRC that the kernel refused: the live modules have another one, whatever the headers say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedVersion {
    /// Which modules were live.
    pub pair: Pair,
    /// The symbol.
    pub symbol: String,
    /// The CRC that the refused file wanted.
    pub crc: u32,
}

impl RecordFile for RefusedVersion {
    const NAME: &'static str = "refused";
}

/// How long a failed build is not tried again with the same inputs.
const FAILED_FOR: Duration = Duration::from_secs(3600);

/// The last attempt for a kernel that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedBuild {
    /// Which modules it was for.
    pub pair: Pair,
    /// Why it failed.
    pub why: String,
    /// What it read, as one number: another one makes it worth another attempt.
    #[serde(default)]
    pub inputs: u64,
}

/// The build for this pair and of these inputs that failed less than an hour ago.
pub fn failed(root: &Path, pair: &Pair, inputs: u64) -> Seen<Option<FailedBuild>> {
    let tried = record::<FailedBuild>(root, &pair.kernel)?;
    let noted = FailedBuild::path(root, &pair.kernel).metadata().and_then(|noted| noted.modified());
    // A clock that was set back says nothing: one attempt too many costs seconds.
    let is_new = noted.is_ok_and(|noted| noted.elapsed().is_ok_and(|age| age < FAILED_FOR));
    Ok(tried.filter(|tried| is_new && (&tried.pair, tried.inputs) == (pair, inputs)))
}

impl RecordFile for FailedBuild {
    const NAME: &'static str = "tried";
}

/// The record of a rebuild for this kernel release; `None` where there is none. What is not a regular file, too long,
/// or not of this kind cannot be read.
pub fn record<R: RecordFile>(root: &Path, release: &str) -> Seen<Option<R>> {
    let path = R::path(root, release);
    let read = resolve(root, &path).and_then(|real| {
        if !real.metadata()?.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidData, "it is not a regular file"));
        }
        if real.parent().is_some_and(|place| place.metadata().is_ok_and(|place| place.mode() & 0o022 != 0)) {
            return Err(io::Error::new(ErrorKind::InvalidData, "others can write to its directory"));
        }
        let text = whole(&real, RECORD)?;
        serde_json::from_str(&text).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    });
    match read {
        Ok(record) => Ok(Some(record)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(&path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_build_is_over_after_an_hour_or_when_its_inputs_are_others() {
        let root = tempfile::tempdir().unwrap();
        let pair = Pair { kernel: "6.1.0".to_owned(), nvidia: "4e".to_owned(), mofed: "4d".to_owned() };
        let tried = FailedBuild { pair: pair.clone(), why: "make ended with 2".to_owned(), inputs: 7 };
        let path = FailedBuild::path(root.path(), "6.1.0");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, serde_json::to_string(&tried).unwrap()).unwrap();
        assert_eq!(failed(root.path(), &pair, 7), Ok(Some(tried)));
        assert_eq!(failed(root.path(), &pair, 8), Ok(None));
        assert_eq!(failed(root.path(), &Pair { mofed: "50".to_owned(), ..pair.clone() }, 7), Ok(None));
        let file = std::fs::File::options().append(true).open(&path).unwrap();
        for (ago, is_over) in [(Duration::from_secs(3540), false), (FAILED_FOR, true)] {
            file.set_modified(std::time::SystemTime::now() - ago).unwrap();
            assert_eq!(failed(root.path(), &pair, 7).unwrap().is_none(), is_over, "{ago:?}");
        }
    }

    #[test]
    fn a_record_that_is_a_fifo_or_a_link_to_one_cannot_be_read() {
        let root = tempfile::tempdir().unwrap();
        let path = Installed::path(root.path(), "6.1.0");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let read = || record::<Installed>(root.path(), "6.1.0");
        assert_eq!(read(), Ok(None));
        let fifo = root.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink("/fifo", &path).unwrap();
        assert_eq!(read().unwrap_err().why, "it is not a regular file");
        std::fs::rename(&fifo, &path).unwrap();
        assert_eq!(read().unwrap_err().why, "it is not a regular file");
    }
}
