// SPDX-License-Identifier: Apache-2.0
//! Our module's path: whose file lies there, and whether depmod has it in its list.

use crate::peermem::module_file::{build_id_of_file, is_rebuilt};
use crate::peermem::record::{Installed, record};
use crate::ready::files::read::lines;
use crate::ready::files::root::resolve;
use crate::ready::node::below;
use crate::rebuild::{recipe, target};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// A file at our file's path that we did not put there. Ours carries our mark, or the record knows its build: another
/// builder's has no mark.
#[must_use]
pub fn foreign(root: &Path, release: &str) -> Option<PathBuf> {
    let path = below(root, &target(release));
    let real = resolve(root, &path).ok().filter(|real| real.symlink_metadata().is_ok())?;
    let is_recorded = || {
        let build_id = build_id_of_file(&real).filter(|build_id| !build_id.is_empty());
        let installed: Option<Installed> = record(root, release).ok().flatten();
        build_id.zip(installed).is_some_and(|(build_id, installed)| installed.build_ids.contains(&build_id))
    };
    (!is_rebuilt(&real) && !is_recorded()).then_some(path)
}

/// depmod has listed our file, and it is gone: an undo was interrupted before depmod.
#[must_use]
pub fn is_listed(root: &Path, release: &str) -> bool {
    /// A hundred times a distribution's.
    const LONGEST: u64 = 128 << 20;
    let modules = Path::new("/lib/modules").join(release);
    let Ok(list) = resolve(root, &below(root, &modules.join("modules.dep"))) else { return false };
    let ours = format!("updates/{}:", recipe::MODULE);
    let mut is_listed = false;
    let _ = lines(&list, LONGEST, |line| {
        is_listed |= line.starts_with(ours.as_bytes());
        if is_listed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    is_listed
}
