// SPDX-License-Identifier: Apache-2.0
//! Whether the driver container that starts next installs kernel modules.
//!
//! Since GPU Operator 26.3 k8s-driver-manager and the driver container unload, build and load nothing if nvidia is
//! loaded and `/run/nvidia/nvidia-driver.state` equals `DRIVER_CONFIG_DIGEST` (k8s-driver-manager,
//! `shouldUpdateDriverConfig`; gpu-driver-container, `_userspace_install`). The digest does not cover MOFED, so a new
//! container may have no nvidia-peermem.ko (gpu-operator#2619), or one for another MOFED (gpu-operator#2868).

use crate::ready::condition::{Reason, Status};
use crate::ready::judge::is_requested;
use crate::ready::node::Expectations;
use crate::ready::observation::{DriverState, Nic, Observation, STATE_FILE as STATE, Seen};
use serde::Serialize;
use std::fmt;

/// The next start of the driver container: whether it builds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NextBuild {
    /// Whether it installs kernel modules.
    pub status: Status,
    /// A sentence that says why.
    pub message: String,
    /// nvidia-peermem is not loaded, and no build may come that could cure it.
    #[serde(skip)]
    pub is_missed: bool,
    /// How to get a build on this node, where none would come. `judge` adds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl fmt::Display for NextBuild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.remedy.iter().try_for_each(|remedy| write!(f, "; what to do: {remedy}"))
    }
}

impl NextBuild {
    /// No kernel module will be built or loaded.
    #[must_use]
    pub fn is_skipped(&self) -> bool {
        self.status == Status::False
    }
}

/// A build of the whole driver is what cures it.
#[must_use]
pub fn needs_driver_build(reason: Reason) -> bool {
    reason.needs_rebuild() || reason == Reason::OtherDriverLoaded
}

/// The next build; `None` where no driver container is known that may skip its build, or no build is needed.
pub(crate) fn next_build(expected: &Expectations, seen: &Observation) -> Option<NextBuild> {
    let has_nic = matches!(seen.nic, Nic::Found(_));
    if !expected.needs_build() || !is_requested(expected) || !has_nic {
        return None;
    }
    let digest = expected.driver_digest.as_deref();
    let state = match (&seen.driver_state, digest) {
        // Releases before 26.3, which always build; or a host without a driver container.
        (DriverState::NotRead, _) | (DriverState::Absent | DriverState::NoDirectory, None) => return None,
        (state, _) => state,
    };
    let (status, why) = match loaded(seen, "nvidia") {
        Ok(false) => (Status::True, "nvidia is not loaded".to_owned()),
        Err(why) => (Status::Unknown, why.to_string()),
        Ok(true) => loaded_with(state, digest),
    };
    let mut message = match status {
        Status::True => format!("a driver container that starts now will install its kernel modules: {why}"),
        Status::False => format!("a driver container that starts now will build and load no module: {why}"),
        Status::Unknown => format!("whether the next driver container builds is unknown: {why}"),
    };
    // The fast path is made for this: what works stays.
    let stays = status != Status::True && loaded(seen, "nvidia_peermem") == Ok(true);
    if stays {
        message += "; nvidia_peermem stays loaded";
    }
    let is_missed = status != Status::True && !stays;
    Some(NextBuild { status, message, is_missed, remedy: None })
}

/// The file in sysfs that upstream looks at comes and goes with the line in /proc/modules.
fn loaded(seen: &Observation, module: &str) -> Seen<bool> {
    seen.modules.proc.as_ref().map(|proc| proc.named(module).next().is_some()).map_err(Clone::clone)
}

fn loaded_with(state: &DriverState, digest: Option<&str>) -> (Status, String) {
    match (state, digest) {
        (DriverState::Digest(noted), Some(digest)) if noted == digest => (
            Status::False,
            format!("nvidia is loaded, and {STATE} equals the driver's configuration ({digest})"),
        ),
        (DriverState::Digest(noted), Some(digest)) => {
            (Status::True, format!("{STATE} is {noted}, and the driver's configuration is {digest}"))
        }
        (DriverState::Digest(_), None) => (
            Status::Unknown,
            format!("nvidia is loaded, {STATE} exists, and DRIVER_CONFIG_DIGEST is not set"),
        ),
        (DriverState::Absent, _) => (Status::True, format!("{STATE} does not exist")),
        (DriverState::Unreadable(why), _) => (Status::Unknown, why.to_string()),
        (DriverState::NoDirectory | DriverState::NotRead, _) => {
            (Status::Unknown, format!("nvidia is loaded, and the directory of {STATE} is not mounted here"))
        }
    }
}
