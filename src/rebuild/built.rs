// SPDX-License-Identifier: Apache-2.0
//! A module that was built, on its way to its place: judged first, then confirmed on the node as it is now. Only a
//! confirmed one is installed.

use super::recipe;
use crate::ready::condition::{ConditionType, Reason};
use crate::ready::look::Look;
use crate::ready::node::Expectations;
use crate::ready::observation::{ModuleFile, ModuleInfo, Observation};
use crate::words::judge;

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

    /// The module, by its own account.
    #[must_use]
    pub fn info(&self) -> &ModuleInfo {
        &self.0
    }

    /// Confirms it by all conditions once more, and the same modules as before the build.
    ///
    /// # Errors
    /// The change since the build began.
    pub fn confirmed(self, before: &Look, after: &Look) -> Result<Confirmed, String> {
        if let Some(how) = before.identity.difference(&after.identity) {
            return Err(how);
        }
        if after.verdict.needs_rebuild() {
            return Ok(Confirmed(self.0));
        }
        let unmet = after.verdict.unmet().find(|c| c.r#type != ConditionType::Settled);
        Err(unmet.map_or_else(
            || "nvidia-peermem.ko became usable meanwhile".to_owned(),
            |c| format!("{}: {}", c.r#type, c.message),
        ))
    }
}

/// The kernel's objection to a module, if it would refuse it on this node.
#[must_use]
pub fn objection(expected: &Expectations, seen: &Observation, info: &ModuleInfo) -> Option<(Reason, String)> {
    let mut seen = seen.clone();
    seen.peermem.as_mut()?.is_for_live = true;
    seen.peermem.as_mut()?.file = ModuleFile::Read {
        path: recipe::MODULE.into(),
        ignored_paths: Vec::new(),
        listed: Some(true),
        info: Box::new(info.clone()),
    };
    let verdict = judge(expected, &seen);
    let usable = verdict.get(ConditionType::PeermemUsable)?;
    (usable.reason != Reason::Usable).then(|| (usable.reason, usable.message.clone()))
}

/// A look's answer on the file in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileProof {
    /// The file would load.
    Usable,
    /// Another modprobe was faster: it is loaded.
    Loaded,
    /// Another file goes before it.
    Another,
    /// The file would not load, by a fault of its own.
    Faulty(String),
    /// Nobody knows: no fault of the file's.
    Unknown(String),
}

/// Reads this look: `is_ours` if the file that modprobe would take is the one that was installed, `is_loaded` if the
/// module that is live is.
#[must_use]
pub fn file_proof(look: &Look, is_ours: bool, is_loaded: bool) -> FileProof {
    match look.verdict.get(ConditionType::PeermemUsable) {
        Some(c) if c.reason == Reason::Usable && is_ours => FileProof::Usable,
        Some(c) if c.reason == Reason::Usable => FileProof::Another,
        Some(c) if c.reason == Reason::PeermemLive && is_loaded => FileProof::Loaded,
        Some(c) if c.reason.needs_rebuild() => FileProof::Faulty(c.message.clone()),
        Some(c) => FileProof::Unknown(c.message.clone()),
        None => FileProof::Unknown("it was not inspected".to_owned()),
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
    use crate::ready::observation::Identity;
    use crate::ready::verdict::{Condition, Verdict};
    use crate::rebuild::sample;

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
        let identity = Identity { modules: [("ib_core".to_owned(), inode)].into(), ..Identity::default() };
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
