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
use std::path::Path;
use std::time::Duration;

/// How long MOFED must be ready before a toolkit is told to build, and how often the volumes are looked through.
const PERIOD: Duration = Duration::from_secs(10);

/// The toolkits of the driver pods on this node.
#[derive(Default)]
pub(super) struct Toolkits {
    /// Since when MOFED is ready, and when it is time for the next search.
    due: Option<BootTime>,
    /// The volumes are kubelet's, and their disk may hang.
    under_way: Option<Subtask>,
    /// The last refusal: each is said once.
    refusal: String,
}

impl Toolkits {
    /// Takes in a look. Where MOFED is ready and `nvidia_peermem` is not loaded, a toolkit that has built a stub, or
    /// for another MOFED, builds again: once for each MOFED.
    pub(super) fn see(&mut self, node_root: &Path, watch: &Watch, keep: &Keep) {
        self.hear();
        let is_ready = keep.verdict().is_some_and(is_ready_for_a_build) && keep.state() != State::Loaded;
        let due = *self.due.get_or_insert_with(|| now() + PERIOD);
        if !is_ready {
            self.due = None;
        } else if now() >= due && self.under_way.is_none() {
            self.due = Some(now() + PERIOD);
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
            tracing::error!("{refusal}");
            self.refusal = refusal;
        }
    }
}

/// Looks at each of them. What was done is logged, what was refused comes back.
fn all(node_root: &Path, watch: &Watch, keep: &Keep) -> Result<(), String> {
    let orders = pods::built(node_root).into_iter().filter(|build| build.finished.is_some());
    let given = orders.filter_map(|build| toolkit::ordered(&build.directory, watch.node(), keep.gate()));
    let refused: Vec<_> = given
        .filter_map(|order| order.inspect(|done| tracing::warn!("{done}")).err())
        .map(|obstacle| obstacle.to_string())
        .collect();
    if refused.is_empty() { Ok(()) } else { Err(refused.join("; ")) }
}
