// SPDX-License-Identifier: Apache-2.0
//! A module that was built, on its way to its place: judged first, then confirmed on the node as it is now. Only a
//! confirmed one is installed.

use super::is_all_that_is_missing;
use crate::condition::ConditionType;
use crate::look::Look;
use crate::observation::ModuleInfo;

/// A module of the live nvidia with no known fault.
#[derive(Debug)]
pub struct JudgedModule(ModuleInfo);

/// A judged module for a node that has not changed during the build.
#[derive(Debug)]
pub struct Confirmed(ModuleInfo);

impl JudgedModule {
    /// Judges what was built for this version of nvidia; `objection` is the kernel's.
    ///
    /// # Errors
    /// Why it is not usable.
    pub fn by(
        info: ModuleInfo,
        nvidia: &str,
        objection: impl FnOnce(&ModuleInfo) -> Option<String>,
    ) -> Result<Self, String> {
        if info.version.as_deref() != Some(nvidia) {
            let version =
                info.version.as_deref().map_or("no version".into(), |version| format!("version {version}"));
            return Err(format!("its module has {version}, not {nvidia}"));
        }
        match objection(&info) {
            Some(why) => Err(why),
            None => Ok(Self(info)),
        }
    }

    /// Confirms it by all conditions once more, and the same modules as before the build.
    ///
    /// # Errors
    /// The change since the build began.
    pub fn confirmed(self, before: &Look, after: &Look) -> Result<Confirmed, String> {
        if let Some(how) = before.identity.difference(&after.identity) {
            return Err(how);
        }
        if is_all_that_is_missing(&after.verdict) {
            return Ok(Confirmed(self.0));
        }
        let holding = after.verdict.holding().find(|c| c.r#type != ConditionType::Settled);
        Err(holding.map_or_else(
            || "nvidia-peermem.ko became usable meanwhile".to_owned(),
            |c| format!("{}: {}", c.r#type, c.message),
        ))
    }
}

impl Confirmed {
    /// The module, by its own account.
    #[must_use]
    pub fn info(&self) -> &ModuleInfo {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Reason;
    use crate::observation::Identity;
    use crate::rebuild::sample;
    use crate::verdict::{Condition, Verdict};

    fn module(version: Option<&str>) -> ModuleInfo {
        ModuleInfo { version: version.map(str::to_owned), ..ModuleInfo::default() }
    }

    fn judged() -> JudgedModule {
        JudgedModule::by(module(Some(sample::VERSION)), sample::VERSION, |_| None).expect("a good one")
    }

    /// A stub is all that is wrong, unless `change` puts something else in its place; `ib_core` has this inode.
    fn look(inode: u64, change: Option<(ConditionType, Reason)>) -> Look {
        let mut verdict = Verdict::of(sample::conditions());
        if let Some((r#type, reason)) = change {
            verdict = verdict.replacing(Condition::new(r#type, reason, "as the test says"));
        }
        let identity = Identity { marker: None, modules: [("ib_core".to_owned(), inode)].into() };
        Look { verdict, identity, next_build: None }
    }

    #[test]
    fn a_module_of_another_nvidia_is_not_installed() {
        let why =
            |version| JudgedModule::by(module(version), "595.45.04", |_| None).expect_err("another nvidia's");
        assert_eq!(why(Some("595.45.03")), "its module has version 595.45.03, not 595.45.04");
        assert_eq!(why(None), "its module has no version, not 595.45.04");
        let confirmed = judged().confirmed(&look(1, None), &look(1, None)).expect("nothing has changed");
        assert_eq!(confirmed.info().version.as_deref(), Some(sample::VERSION));
    }

    #[test]
    fn a_module_that_the_kernel_would_refuse_is_not_installed() {
        let stub = |_: &ModuleInfo| Some("StubModule".to_owned());
        let why = JudgedModule::by(module(Some("595.45.04")), "595.45.04", stub).expect_err("a stub");
        assert_eq!(why, "StubModule");
    }

    #[test]
    fn a_swap_of_modules_during_the_build_stops_the_rebuild() {
        let why = judged().confirmed(&look(1, None), &look(2, None)).expect_err("ib_core is another");
        assert_eq!(why, "module ib_core was loaded again");
    }

    #[test]
    fn a_rebuild_stops_if_the_node_is_no_longer_ready_or_no_longer_needs_it() {
        let stops = |r#type, reason| {
            judged().confirmed(&look(1, None), &look(1, Some((r#type, reason)))).expect_err("it stops")
        };
        let gone = stops(ConditionType::MarkerPresent, Reason::MarkerAbsent);
        assert_eq!(gone, "MarkerPresent: as the test says");
        let cured = stops(ConditionType::PeermemUsable, Reason::Usable);
        assert_eq!(cured, "nvidia-peermem.ko became usable meanwhile");
    }
}
