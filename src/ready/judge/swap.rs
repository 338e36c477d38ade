// SPDX-License-Identifier: Apache-2.0
//! Is MOFED about to swap its modules, and may `nvidia_peermem` be let go? Judged by as little as
//! that takes: neither the kernel's symbols nor any module file must delay an unload.

use crate::ready::judge::modules::{ModuleState, state};
use crate::ready::mofed::MofedPlace;
use crate::ready::node::Expectations;
use crate::ready::observation::{LockHolder, Marker, Modules};
use serde::{Deserialize, Serialize};

const NAME: &str = "nvidia_peermem";

/// `nvidia_peermem` itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// Unknown.
    #[default]
    Unknown,
    /// Not loaded.
    Absent,
    /// Live.
    Live {
        /// Its reference count; `None` where the kernel cannot unload modules.
        uses: Option<i64>,
    },
    /// On its way in or out.
    InTransit,
}

impl Presence {
    /// The state of `nvidia_peermem` that `keep` leaves behind, in a clause.
    #[must_use]
    pub fn left_behind(self) -> &'static str {
        match self {
            Self::Absent => "nvidia_peermem is not loaded",
            Self::Live { .. } => "nvidia_peermem stays loaded",
            Self::InTransit => "nvidia_peermem is being loaded or unloaded",
            Self::Unknown => "whether nvidia_peermem is loaded cannot be read",
        }
    }
}

/// The few facts that an unload of `nvidia_peermem` depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwapCheck {
    /// `nvidia_peermem` itself.
    pub peermem: Presence,
    /// Why MOFED is about to swap its modules, or has begun; `None` when nothing shows that.
    pub swap: Option<String>,
    /// The modules themselves are going or gone: a MOFED that unloads `nvidia_peermem` has done so before.
    pub has_begun: bool,
    /// Who holds MOFED's lock, where that was looked for.
    pub holder: LockHolder,
    /// What the driver's container says of itself; `None` where nobody looked.
    pub driver: Option<DriverSigns>,
}

/// What the driver's container says of itself below /run/nvidia/validations. kubelet runs its preStop, which removes
/// both files, before TERM (gpu-operator, `assets/state-driver`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverSigns {
    /// Its startup probe has made `.driver-ctr-ready`: at the earliest a minute after the container began.
    pub is_ready: bool,
    /// Whether `.driver-daemons-status` says `Ready`. Its script makes the file when it begins, since 26.7.
    pub daemons: Option<bool>,
}

impl DriverSigns {
    /// Its preStop has run since.
    #[must_use]
    pub fn is_taken_back(self, before: Self) -> bool {
        before.is_ready && !self.is_ready || before.daemons.is_some() && self.daemons.is_none()
    }

    /// The driver is there. Before 26.7 preStop leaves the file of the daemons: it counts only when it changes.
    #[must_use]
    pub fn is_up(self, before: Self) -> bool {
        self.is_ready || self.daemons == Some(true) && before.daemons != Some(true)
    }
}

impl SwapCheck {
    /// Whether the module has to go, and can.
    #[must_use]
    pub fn must_go(&self) -> bool {
        self.swap.is_some() && self.peermem == Presence::Live { uses: Some(0) }
    }
}

/// MOFED cannot unload `ib_uverbs` while `nvidia_peermem` uses it, and its own list of modules to unload lacks
/// `nvidia_peermem` (doca-driver-build#481). The marker goes before MOFED swaps its modules; a host's MOFED has
/// none, and some entrypoints of the container leave it, so modules that go show it as well. What cannot be
/// read shows nothing, and neither does a marker's directory that was never there: unless it was seen before
/// (`was_marked`), no MOFED container has run here since boot, and the one that is loaded may be a host's.
#[must_use]
pub fn glimpse(expected: &Expectations, marker: &Marker, modules: &Modules, was_marked: bool) -> SwapCheck {
    let is_evidence = was_marked || !matches!(marker, Marker::ParentMissing(_));
    let no_marker = no_marker(expected, marker).filter(|_| is_evidence);
    let going = going(expected, modules);
    let has_begun = going.is_some();
    let swap = no_marker.or(going);
    SwapCheck { peermem: presence(modules), swap, has_begun, holder: LockHolder::Unknown, driver: None }
}

fn presence(modules: &Modules) -> Presence {
    match state(modules, NAME) {
        ModuleState::NotLoaded => Presence::Absent,
        ModuleState::Loading | ModuleState::Unloading | ModuleState::Disagree(_) => Presence::InTransit,
        ModuleState::Unreadable(_) => Presence::Unknown,
        ModuleState::Live(_) => {
            let line = modules.proc.as_ref().ok().and_then(|proc| proc.named(NAME).next());
            Presence::Live { uses: line.and_then(|line| line.refcount) }
        }
    }
}

fn no_marker(expected: &Expectations, marker: &Marker) -> Option<String> {
    let path = expected.marker.display();
    match (expected.mofed, marker) {
        (MofedPlace::Host | MofedPlace::InBox, _) | (_, Marker::Present(_) | Marker::Unreadable(_)) => None,
        (_, Marker::Absent | Marker::ParentMissing(_)) => Some(format!("MOFED's marker {path} is gone")),
        (_, Marker::DirectoryUnlinked) => Some(format!("the directory of MOFED's marker {path} was deleted")),
        (_, Marker::NotAFile(what)) => Some(format!("at the path of MOFED's marker {path} is {what}")),
    }
}

fn going(expected: &Expectations, modules: &Modules) -> Option<String> {
    expected.modules.iter().find_map(|name| {
        let how = match state(modules, name) {
            // Two witnesses that differ are no evidence: /proc/modules is read a page at a time, and loses a line
            // when another module goes between two of them. What is really going is seen by both a moment later.
            ModuleState::Live(_) | ModuleState::Unreadable(_) | ModuleState::Disagree(_) => return None,
            ModuleState::NotLoaded => "is not loaded",
            ModuleState::Loading => "is still loading",
            ModuleState::Unloading => "is being unloaded",
        };
        Some(format!("{name} {how}"))
    })
}
