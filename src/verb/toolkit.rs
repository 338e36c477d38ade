// SPDX-License-Identifier: Apache-2.0
//! `OpenShift`: the driver toolkit's container builds once, and waits as long as `driver_built` is there. Where it built a
//! stub, that file is removed, and the container ends, starts again and builds again (gpu-driver-container,
//! `ocp_dtk_entrypoint`).

use crate::act::order;
use crate::condition::{ConditionType, Reason};
use crate::environment::{Variables, value_of};
use crate::judge::judge;
use crate::node::{Node, PeermemExpected};
use crate::observation::{ModuleFile, Observation};
use crate::probe::module_file::inspect;
use crate::probe::{self, Depth, Probe};
use crate::rebuild::{Kind, Obstacle};
use std::path::{Path, PathBuf};

const SHARED: &str = "/mnt/shared-nvidia-driver-toolkit";
const BUILT: &str = "driver_built";

/// What the toolkit's next build would make otherwise.
const CURABLE: [Reason; 3] =
    [Reason::StubModule, Reason::SymbolVersionMismatch, Reason::SymbolVersionMissing];

/// Where the driver's containers share files.
pub(super) fn directory(variables: &Variables) -> PathBuf {
    value_of(variables, "DRIVER_TOOLKIT_SHARED_DIR").map_or_else(|| SHARED.into(), PathBuf::from)
}

/// For the wrapper, once the gate is open: it has not looked at any module file.
pub(super) fn order_when_open(shared: &Path, node: &Node) -> Option<Result<String, Obstacle>> {
    if !shared.join(BUILT).is_file() {
        return None;
    }
    let mut node = node.clone();
    node.expected.peermem = Some(PeermemExpected::default());
    node.places.finds_driver = false;
    let seen = Probe::new(&node).look(Depth::Full, &mut || false)?;
    order(shared, &node, &seen)
}

/// Has the toolkit build again, if it is at hand, has built, and what it built is a stub or of another ABI. `None` where
/// there is nothing to order. MOFED must be ready.
pub(super) fn order(shared: &Path, node: &Node, seen: &Observation) -> Option<Result<String, Obstacle>> {
    let built = shared.join(BUILT);
    if !built.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
        return None;
    }
    let module = probe::module_in(shared)?;
    let info = inspect(&module, &mut || false).ok()?;
    let mut seen = seen.clone();
    seen.peermem.as_mut()?.file =
        ModuleFile::Read { path: module, others: Vec::new(), listed: Some(true), info: Box::new(info) };
    let verdict = judge(&node.expected, &seen);
    let usable = verdict.get(ConditionType::PeermemUsable).filter(|c| CURABLE.contains(&c.reason))?;
    let mofed = probe::pair(&node.places, &seen).mofed;
    Some(match order::again(shared, BUILT, &mofed) {
        Ok(true) => Ok(format!(
            "REMOVED {}: {}; the driver toolkit's container will end, start again and build against this MOFED",
            built.display(),
            usable.message
        )),
        Ok(false) => {
            let why =
                format!("the driver toolkit was told to build for this MOFED before, and {}", usable.message);
            Err(Obstacle::new(Kind::AlreadyTried, why))
        }
        Err(error) => {
            let why = format!("cannot remove {}: {}", built.display(), crate::errno::words(&error));
            Err(Obstacle::new(Kind::Unwritable, why))
        }
    })
}
