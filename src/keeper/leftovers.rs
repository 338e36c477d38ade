// SPDX-License-Identifier: Apache-2.0
//! What a keep that was killed has left in the driver's root: the copy of a build. The next rebuild would remove it,
//! and may never come.

use crate::peermem::driver_root;
use crate::process::subtask::Subtask;
use crate::rebuild::build_dir;
use crate::watch::Watch;
use std::time::Duration;

/// How long the removal is waited for. A slower one goes on by itself: the disk may hang.
const LIMIT: Duration = Duration::from_millis(200);

/// The driver's root that was seen to, and a removal that has not ended.
#[derive(Default)]
pub(super) struct Leftovers {
    seen: Option<(u64, u64)>,
    under_way: Option<Subtask>,
}

impl Leftovers {
    /// Removes them, once for each driver's root.
    pub(super) fn clear(&mut self, watch: &Watch) {
        self.wait(Duration::ZERO);
        let Some(root) = watch.seen().and_then(|seen| Some(&seen.peermem.as_ref()?.root)) else { return };
        let id = driver_root::id(root);
        if id.is_none() || self.seen == id || driver_root::may_run_in(&watch.node.places, root).is_err() {
            return;
        }
        self.seen = id;
        if build_dir::has_killed(root) {
            tracing::info!("removing what a build that was killed has left below {}", root.display());
            let clear = || {
                build_dir::clear_killed(root);
                Ok(())
            };
            self.under_way = Subtask::begin(clear).ok();
            self.wait(LIMIT);
        }
    }

    fn wait(&mut self, limit: Duration) {
        self.under_way.take_if(|subtask| subtask.wait(limit).is_some());
    }
}
