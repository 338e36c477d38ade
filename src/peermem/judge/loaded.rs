// SPDX-License-Identifier: Apache-2.0
//! A `nvidia_peermem` that is loaded already, or on its way.

use crate::peermem::judge::{NAME, PeermemCase};
use crate::ready::condition::{ConditionType, Reason};
use crate::ready::judge::modules::{ModuleState, is_not_loaded, state};
use crate::ready::mofed::MofedPlace;
use crate::ready::observation::Symbols;
use crate::ready::verdict::Condition;

impl PeermemCase<'_> {
    /// A module that is loaded already, or on its way, is not judged by its file.
    pub(super) fn loaded(&self) -> Option<Condition> {
        let condition =
            |reason, message: String| Some(Condition::new(ConditionType::PeermemUsable, reason, message));
        match state(&self.seen.modules, NAME) {
            ModuleState::NotLoaded => None,
            ModuleState::Live(_) => Some(self.live()),
            ModuleState::Loading => condition(Reason::ModuleLoading, format!("{NAME} is still loading")),
            ModuleState::Unloading => condition(Reason::ModuleUnloading, format!("{NAME} is being unloaded")),
            ModuleState::Disagree(how) => condition(Reason::WitnessesDisagree, format!("{NAME}: {how}")),
            ModuleState::Unreadable(why) => {
                condition(Reason::ModulesUnreadable, format!("cannot tell whether {NAME} is loaded: {why}"))
            }
        }
    }

    fn live(&self) -> Condition {
        let uses = self.uses();
        let held = match &self.seen.symbols {
            Symbols::ExportedBy(Some(provider)) => uses.contains(&provider.as_str()),
            Symbols::ExportedBy(None) | Symbols::NotRead | Symbols::Unreadable(_) => true,
            Symbols::Missing => false,
        };
        let gone: Vec<_> = self
            .expected
            .modules
            .iter()
            .filter(|name| is_not_loaded(&self.seen.modules, name))
            .cloned()
            .collect();
        let uses = if uses.is_empty() { "nothing".to_owned() } else { uses.join(", ") };
        if held && gone.is_empty() {
            let mut message = format!("{NAME} is live and uses {uses}");
            if self.peermem.is_rebuilt_loaded() {
                message += "; peermem-gate rebuilt it";
            }
            return Condition::new(ConditionType::PeermemUsable, Reason::PeermemLive, message);
        }
        let missing = if gone.is_empty() {
            "another live module, or none, exports peer memory now".to_owned()
        } else {
            let is = if gone.len() == 1 { "is" } else { "are" };
            format!("{} {is} not loaded", gone.join(", "))
        };
        let consequence = match self.expected.mofed {
            MofedPlace::Container => "it keeps MOFED from starting",
            MofedPlace::Host | MofedPlace::InBox => "it keeps the host's MOFED from loading",
        };
        let message = format!("{NAME} is loaded and uses {uses}, but {missing}: {consequence}");
        Condition::new(ConditionType::PeermemUsable, Reason::LoadedOnGoneStack, message)
    }

    /// The modules that `nvidia_peermem` uses.
    fn uses(&self) -> Vec<&str> {
        let lines = self.seen.modules.proc.iter().flat_map(|proc| &proc.modules);
        lines.filter(|m| m.users.iter().any(|user| user == NAME)).map(|m| m.name.as_str()).collect()
    }
}
