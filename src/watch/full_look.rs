// SPDX-License-Identifier: Apache-2.0
//! A whole look, as `keep` takes it in.

use crate::ready::condition::{ConditionType, Reason};
use crate::ready::judge::modules::is_not_loaded;
use crate::ready::judge::swap::{SwapCheck, glimpse};
use crate::ready::look::Look;
use crate::ready::node::Expectations;
use crate::ready::observation::{LockHolder, ModuleFile, Observation, Offer};
use crate::ready::verdict::{Condition, Outcome};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// A whole look, as `keep` takes it in.
#[derive(Clone, Debug)]
pub struct KeepInput {
    /// The judged look.
    pub look: Look,
    /// The part that a glimpse sees.
    pub glimpse: SwapCheck,
    /// Changes with all that a refusal can come from: file, parameters, MOFED, the kernel's modules.
    pub evidence: u64,
    /// nvidia is loaded, and `nvidia_uvm` is not: no CUDA program can run.
    pub lacks_uvm: bool,
    /// nvidia is loaded, and no driver's container shows its root.
    pub is_deserted: bool,
    /// `nvidia_peermem` could be made again if it were unloaded: nvidia's own file, or the node's store, has the
    /// symbol versions of the live nvidia.
    pub comes_back: bool,
}

impl KeepInput {
    /// `keep`'s view of a judged observation.
    #[must_use]
    pub fn of(expected: &Expectations, seen: &Observation, mut look: Look, was_marked: bool) -> Self {
        let mut glimpse = glimpse(expected, &seen.marker, &seen.modules, was_marked);
        glimpse.holder = LockHolder::of(&seen.lock, seen.lock_holder);
        let peermem = look.verdict.get(ConditionType::PeermemUsable);
        if let Some(gone) = peermem.filter(|c| c.reason == Reason::LoadedOnGoneStack) {
            glimpse.swap = glimpse.swap.or_else(|| Some(gone.message.clone()));
        }
        let is_missing = peermem.is_some_and(|c| c.reason == Reason::ModuleFileMissing);
        let is_unloaded = is_not_loaded(&seen.modules, "nvidia");
        let to_come = match seen.peermem.as_ref().map(|peermem| &peermem.file) {
            Some(ModuleFile::Missing(directory) | ModuleFile::Away(directory)) if is_unloaded => {
                Some(to_come(directory, "the GPU driver is not loaded, so it may still be built"))
            }
            Some(ModuleFile::Away(directory)) => Some(to_come(
                directory,
                "nvidia is loaded, but this root has no driver: its container may be starting or ending",
            )),
            _ => None,
        };
        let is_deserted = to_come.is_some() && is_missing && !is_unloaded;
        if let Some(to_come) = to_come.filter(|_| is_missing) {
            look.verdict = look.verdict.replacing(to_come);
        }
        let is_listed = |name| seen.modules.proc.as_ref().ok().map(|proc| proc.named(name).next().is_some());
        let lacks_uvm = is_listed("nvidia") == Some(true) && is_listed("nvidia_uvm") == Some(false);
        let nvidia = seen.peermem.as_ref().map(|peermem| &peermem.nvidia);
        let comes_back = matches!(nvidia, Some(Offer::LoadedFile(_, crcs)) if !crcs.is_empty());
        Self { glimpse, evidence: evidence(seen), look, lacks_uvm, is_deserted, comes_back }
    }

    /// Whether waiting cannot cure it.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.look.verdict.outcome == Outcome::Blocked
    }
}

/// `keep` waits for files that may come: those of a driver that is still being built, or whose container shows its
/// root later. To end, or to break off the build, would not help.
fn to_come(directory: &Path, why: &str) -> Condition {
    let message = format!("there is no nvidia-peermem.ko below {}; {why}", directory.display());
    Condition::new(ConditionType::PeermemUsable, Reason::DependencyNotLive, message)
}

fn evidence(seen: &Observation) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut identity = seen.identity();
    identity.modules.remove("nvidia_peermem");
    (identity.marker, identity.modules, &seen.peermem).hash(&mut hasher);
    for module in
        seen.modules.proc.iter().flat_map(|proc| &proc.modules).filter(|m| m.name != "nvidia_peermem")
    {
        (&module.name, module.state, &module.address, &module.taint).hash(&mut hasher);
    }
    hasher.finish()
}
