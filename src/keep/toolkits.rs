// SPDX-License-Identifier: Apache-2.0
//! `OpenShift`: what a driver toolkit built without MOFED. The driver's script there loads nvidia-peermem before it
//! shows its root, so nothing that is installed in a root ends its restarts; another build of the toolkit does
//! (gpu-driver-container, `ocp_dtk_entrypoint`).

use crate::keep::{Keep, State};
use crate::process::subtask::Subtask;
use crate::ready::clock::now;
use crate::ready::time::BootTime;
use crate::rebuild::{is_ready_for_a_build, toolkit};
use crate::survey::pods;
use crate::watch::Watch;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// How long MOFED must be ready, and nvidia away, before the volumes are searched.
const SETTLE: Duration = Duration::from_secs(10);
/// The longest pause between two searches.
const LONGEST: Duration = Duration::from_secs(60);
/// What was judged longer ago is not acted upon: the disk hung meanwhile.
const FRESH: Duration = Duration::from_secs(5);

/// The toolkits of the driver pods on this node.
#[derive(Default)]
pub(super) struct Toolkits {
    /// When the next search is due, and the pause after it.
    due: Option<(BootTime, Duration)>,
    /// The volumes are kubelet's, and their disk may hang.
    under_way: Option<Subtask>,
    /// The last refusal: each is said once.
    refusal: String,
}

impl Toolkits {
    /// Takes in a look. Where MOFED is ready and no driver is loaded, a toolkit that has built a stub, or for another
    /// MOFED, builds again. Not beside a loaded nvidia: nvidia-installer unloads what it finds, and the running
    /// driver container takes no new module.
    pub(super) fn see(&mut self, node_root: &Path, watch: &Watch, keep: &Keep) {
        self.hear();
        let is_ready = keep.verdict().is_some_and(is_ready_for_a_build) && keep.state() != State::Loaded;
        if !is_ready || !has_no_driver(&watch.node().places.sys) {
            self.due = None;
            return;
        }
        let (due, pause) = *self.due.get_or_insert_with(|| (now() + SETTLE, SETTLE));
        if now() >= due && self.under_way.is_none() {
            let pause = LONGEST.min(pause * 2);
            self.due = Some((now() + pause, pause));
            self.under_way = Subtask::begin(|| all(node_root, watch, keep)).ok();
        }
    }

    /// What the search said, once it has ended.
    fn hear(&mut self) {
        let Some(ended) = self.under_way.as_mut().and_then(|subtask| subtask.wait(Duration::ZERO)) else {
            return;
        };
        self.under_way = None;
        if let Err(refusal) = ended
            && refusal != self.refusal
        {
            self.refusal.clone_from(&refusal);
            toolkit::say(Err(refusal));
        }
    }
}

/// nvidia is surely not loaded, nor on its way: MOFED's modules were seen below the same directory.
fn has_no_driver(sys: &Path) -> bool {
    sys.join("module/nvidia").symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Looks at each of them. What was done is logged, the first refusal comes back.
fn all(node_root: &Path, watch: &Watch, keep: &Keep) -> Result<(), String> {
    for build in pods::built(node_root).into_iter().filter(|build| build.finished.is_some()) {
        let until = now() + FRESH;
        let order = toolkit::order(&build.directory, watch.node(), keep.gate());
        if let Some(order) = order.filter(|_| now() < until && has_no_driver(&watch.node().places.sys)) {
            toolkit::say(Ok(order.give().map_err(|obstacle| obstacle.to_string())?));
        }
    }
    Ok(())
}
