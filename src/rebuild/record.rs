// SPDX-License-Identifier: Apache-2.0
//! Records of a rebuild, kept below the driver's root for each kernel: JSON, one object a file.

use super::Pair;
use crate::node::below;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The directory of all that `rebuild` writes, as seen from inside the driver's root.
pub const PLACE: &str = "/var/lib/peermem-gate";

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

/// The modules that were installed for a kernel, the last one last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    /// Their build ids: a file of another build is not ours.
    pub build_ids: Vec<String>,
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

/// The last attempt for a kernel that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedBuild {
    /// Which modules it was for.
    pub pair: Pair,
    /// Why it failed.
    pub why: String,
}

impl RecordFile for FailedBuild {
    const NAME: &'static str = "tried";
}
