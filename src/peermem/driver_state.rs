// SPDX-License-Identifier: Apache-2.0
//! The driver container's state file: which configuration the loaded nvidia was installed with.

use crate::ready::files::read::small;
use crate::ready::node::below;
use crate::ready::observation::{DriverState, STATE_FILE};
use std::path::Path;

pub(super) fn read(root: &Path) -> DriverState {
    let path = below(root, Path::new(STATE_FILE));
    match small(&path) {
        Ok(Some(digest)) => DriverState::Digest(digest.trim().to_owned()),
        Ok(None) if path.parent().is_some_and(Path::is_dir) => DriverState::Absent,
        Ok(None) => DriverState::NoDirectory,
        Err(why) => DriverState::Unreadable(why),
    }
}
