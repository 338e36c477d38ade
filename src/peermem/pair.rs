// SPDX-License-Identifier: Apache-2.0
//! The build ids of loaded modules, as the kernel keeps them: which kernel, nvidia and MOFED a module is for.

use crate::peermem::module_file;
use crate::peermem::record::Pair;
use crate::ready::files::read::{beginning, unreadable};
use crate::ready::node::Places;
use crate::ready::observation::{Observation, Symbols};
use std::path::Path;

/// A note is 36 bytes with the 20 of a SHA-1 in it.
const NOTE: u64 = 1024;

/// The kernel, nvidia and MOFED that a module would be built for.
#[must_use]
pub fn pair(places: &Places, seen: &Observation) -> Pair {
    let build_id = |name: &str| loaded_build_id(&places.sys, name).unwrap_or_default();
    let exporter = match &seen.symbols {
        Symbols::ExportedBy(Some(name)) => name.as_str(),
        _ => "ib_uverbs",
    };
    Pair { kernel: seen.kernel.release.clone(), nvidia: build_id("nvidia"), mofed: build_id(exporter) }
}

/// The identity of the loaded module's build, as the kernel keeps it.
pub(crate) fn loaded_build_id(sys: &Path, name: &str) -> Result<String, String> {
    let path = sys.join("module").join(name).join("notes/.note.gnu.build-id");
    let unread = |error| format!("{name}'s build id cannot be read ({})", unreadable(&path, &error));
    let note = beginning(&path, NOTE).map_err(unread)?;
    module_file::build_id_of_notes(&note).ok_or_else(|| format!("{} contains no build id", path.display()))
}
