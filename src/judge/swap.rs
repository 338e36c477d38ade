// SPDX-License-Identifier: Apache-2.0
//! Is MOFED about to swap its modules, and may `nvidia_peermem` be let go? Judged by as little as
//! that takes: neither the kernel's symbols nor any module file must stand in an unload's way.

use super::modules::{State, state};
use crate::condition::{Condition, ConditionType, Outcome, Reason};
use crate::config::{Expectations, MofedPlace};
use crate::gate::Look;
use crate::observation::{Marker, ModuleFile, Modules, Observation};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

const NAME: &str = "nvidia_peermem";

/// `nvidia_peermem` itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// It cannot be told.
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
    Between,
}

/// What must be seen before `nvidia_peermem` is let go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glimpse {
    /// `nvidia_peermem` itself.
    pub peermem: Presence,
    /// Why MOFED is about to swap its modules, or is at it already; `None` when nothing tells of it.
    pub swap: Option<String>,
}

impl Glimpse {
    /// It has to go, and can.
    #[must_use]
    pub fn must_go(&self) -> bool {
        self.swap.is_some() && self.peermem == Presence::Live { uses: Some(0) }
    }
}

/// A whole look, as `keep` takes it in.
#[derive(Clone, Debug)]
pub struct Sight {
    /// The judged look.
    pub look: Look,
    /// What a glimpse would have seen.
    pub glimpse: Glimpse,
    /// Changes with all that a refusal can come from: file, parameters, MOFED, the kernel's modules.
    pub evidence: u64,
}

impl Sight {
    /// What this observation, judged so, means to `keep`.
    #[must_use]
    pub fn of(expected: &Expectations, seen: &Observation, mut look: Look, was_marked: bool) -> Self {
        let mut glimpse = glimpse(expected, &seen.marker, &seen.modules, was_marked);
        let peermem = look.verdict.get(ConditionType::PeermemUsable);
        if let Some(gone) = peermem.filter(|c| c.reason == Reason::LoadedOnGoneStack) {
            glimpse.swap = glimpse.swap.or_else(|| Some(gone.message.clone()));
        }
        let may_come = peermem.is_some_and(|c| c.reason == Reason::ModuleFileMissing)
            && matches!(state(&seen.modules, "nvidia"), State::NotLoaded);
        match seen.peermem.as_ref().map(|peermem| &peermem.file) {
            Some(ModuleFile::Missing(directory)) if may_come => {
                look.verdict = look.verdict.replacing(to_come(directory));
            }
            _ => {}
        }
        Self { glimpse, evidence: evidence(seen), look }
    }

    /// What blocks will not be cured by waiting.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.look.verdict.outcome == Outcome::Blocked
    }
}

/// A driver that is not loaded may still be built, for minutes: what is missing of its files is waited for, and
/// nobody is to break off the build.
fn to_come(directory: &Path) -> Condition {
    let message = format!(
        "there is no nvidia-peermem.ko below {}; the GPU driver is not loaded, so that it may still be built",
        directory.display()
    );
    Condition::new(ConditionType::PeermemUsable, Reason::DependencyNotLive, message)
}

/// The marker goes before MOFED swaps its modules; a host's MOFED has none, and some entrypoints of the
/// container leave it, so that modules that go tell as well. What cannot be read tells nothing, and neither
/// does a marker's directory that was never there: unless it was seen before (`was_marked`), no MOFED
/// container has run here since boot, and the one that is loaded may be a host's.
#[must_use]
pub fn glimpse(expected: &Expectations, marker: &Marker, modules: &Modules, was_marked: bool) -> Glimpse {
    let is_told = was_marked || !matches!(marker, Marker::ParentMissing(_));
    let no_marker = no_marker(expected, marker).filter(|_| is_told);
    Glimpse { peermem: presence(modules), swap: no_marker.or_else(|| going(expected, modules)) }
}

fn presence(modules: &Modules) -> Presence {
    match state(modules, NAME) {
        State::NotLoaded => Presence::Absent,
        State::Loading | State::Unloading | State::Disagree(_) => Presence::Between,
        State::Unreadable(_) => Presence::Unknown,
        State::Live(_) => {
            let line = modules.proc.as_ref().ok().and_then(|proc| proc.named(NAME).next());
            Presence::Live { uses: line.and_then(|line| line.refcount) }
        }
    }
}

fn no_marker(expected: &Expectations, marker: &Marker) -> Option<String> {
    let path = expected.marker.display();
    match (expected.mofed, marker) {
        (MofedPlace::Host, _) | (_, Marker::Present(_) | Marker::Unreadable(_)) => None,
        (_, Marker::Absent | Marker::ParentMissing(_)) => Some(format!("MOFED's marker {path} is gone")),
        (_, Marker::DirectoryUnlinked) => Some(format!("the directory of MOFED's marker {path} was deleted")),
        (_, Marker::NotAFile(what)) => Some(format!("in the place of MOFED's marker {path} is {what}")),
    }
}

fn going(expected: &Expectations, modules: &Modules) -> Option<String> {
    expected.modules.iter().find_map(|name| {
        let how = match state(modules, name) {
            // Two witnesses that differ are no evidence: /proc/modules is read a page at a time, and loses a line when
            // another module goes between two of them. What is really going is seen by both a moment later.
            State::Live(_) | State::Unreadable(_) | State::Disagree(_) => return None,
            State::NotLoaded => "is not loaded",
            State::Loading => "is only just loading",
            State::Unloading => "is being unloaded",
        };
        Some(format!("{name} {how}"))
    })
}

fn evidence(seen: &Observation) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut identity = seen.identity();
    identity.modules.remove(NAME);
    (identity.marker, identity.modules, &seen.peermem).hash(&mut hasher);
    for module in seen.modules.proc.iter().flat_map(|proc| &proc.modules).filter(|m| m.name != NAME) {
        (&module.name, module.state, &module.address, &module.taint).hash(&mut hasher);
    }
    hasher.finish()
}
