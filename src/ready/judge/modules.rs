// SPDX-License-Identifier: Apache-2.0
//! `ModulesLive`, `ModulesFromMofed`, `VersionMatches` and `SymbolsExported`.

use crate::ready::condition::{ConditionType, Reason};
use crate::ready::mofed::MofedPlace;
use crate::ready::node::Expectations;
use crate::ready::observation::{
    Modules, Observation, ProcModule, ProcState, Symbols, SysModule, SysState, Unreadable,
};
use crate::ready::sort;
use crate::ready::verdict::Condition;
use crate::ready::version::Version;

const SYMBOL: &str = crate::ready::PEER_MEMORY_SYMBOLS[0];

/// One module's state by both witnesses.
#[derive(Debug, PartialEq)]
pub enum ModuleState {
    /// Usable.
    Live(Origin),
    /// Neither witness has it.
    NotLoaded,
    /// Its init function has not ended.
    Loading,
    /// Its exit function runs.
    Unloading,
    /// The witnesses differ: how.
    Disagree(String),
    /// A witness cannot be read: why.
    Unreadable(String),
}

/// Where a live module comes from: MOFED's are out-of-tree.
#[derive(Debug, PartialEq)]
pub enum Origin {
    /// Taint `O`.
    OutOfTree,
    /// The kernel's own.
    InTree,
    /// The taint cannot be read, or the witnesses differ: why.
    Unknown(String),
}

/// One module's state by both witnesses.
#[must_use]
pub fn state(modules: &Modules, name: &str) -> ModuleState {
    let proc = match &modules.proc {
        Ok(proc) => proc,
        Err(why) => return ModuleState::Unreadable(why.to_string()),
    };
    let Some(sys) = modules.sys.get(name) else {
        return ModuleState::Unreadable(format!("sysfs was not read for {name}"));
    };
    let mut lines = proc.named(name);
    match (lines.next(), lines.next(), &proc.garbled) {
        (Some(_), Some(_), _) => ModuleState::Unreadable(format!("/proc/modules lists {name} twice")),
        (Some(line), None, _) => listed(line, sys),
        (None, _, Some(garbled)) => {
            ModuleState::Unreadable(format!("{name} is not listed, but this line is malformed: {garbled:?}"))
        }
        (None, _, None) => unlisted(sys),
    }
}

fn listed(line: &ProcModule, sys: &SysModule) -> ModuleState {
    match (line.state, &sys.state) {
        (_, SysState::Unreadable(why)) => ModuleState::Unreadable(why.to_string()),
        (ProcState::Live, SysState::Live) => ModuleState::Live(origin(line, sys)),
        // Before init runs there is no directory yet, and for a moment one without attributes.
        (ProcState::Loading, SysState::Coming | SysState::NoDirectory | SysState::NoInitstate) => {
            ModuleState::Loading
        }
        // The attributes go first, then the directory.
        (ProcState::Unloading, SysState::Going | SysState::NoDirectory | SysState::NoInitstate) => {
            ModuleState::Unloading
        }
        (state, other) => ModuleState::Disagree(format!("{state:?} in /proc/modules, {other:?} in sysfs")),
    }
}

fn unlisted(sys: &SysModule) -> ModuleState {
    match &sys.state {
        SysState::NoDirectory => ModuleState::NotLoaded,
        // Part of the kernel image: always live, never MOFED's.
        SysState::NoInitstate => ModuleState::Live(Origin::InTree),
        SysState::Unreadable(why) => ModuleState::Unreadable(why.to_string()),
        other => ModuleState::Disagree(format!("not in /proc/modules, {other:?} in sysfs")),
    }
}

/// By the taint letter `O`, on which both witnesses must agree.
fn origin(line: &ProcModule, sys: &SysModule) -> Origin {
    let taint = match &sys.taint {
        Ok(Some(taint)) if taint.bytes().all(|letter| letter.is_ascii_uppercase()) => taint,
        Ok(Some(odd)) => return Origin::Unknown(format!("{odd:.20?} is not a taint")),
        Ok(None) => return Origin::Unknown("sysfs does not show its taint".to_owned()),
        Err(why) => return Origin::Unknown(why.to_string()),
    };
    match (line.taint.contains('O'), taint.contains('O')) {
        (true, true) => Origin::OutOfTree,
        (false, false) => Origin::InTree,
        _ => Origin::Unknown(format!("its taint is {:?} in /proc/modules, {taint:?} in sysfs", line.taint)),
    }
}

/// Who provides the RDMA stack, as the node shows it: where no container does and no MOFED has its headers, a live
/// in-tree module that exports peer memory is the kernel's own.
#[must_use]
pub fn place(asked: MofedPlace, seen: &Observation) -> MofedPlace {
    if asked.is_on_host() && seen.is_in_box() { MofedPlace::InBox } else { asked }
}

pub(crate) fn live(expected: &Expectations, seen: &Observation) -> Condition {
    let mut not_live: Vec<_> = expected
        .modules
        .iter()
        .filter_map(|name| Some((not_live(&state(&seen.modules, name))?, name.as_str())))
        .collect();
    sort::sort(&mut not_live);
    let Some(((reason, _), _)) = not_live.first() else {
        let message = format!("live: {}", expected.modules.join(", "));
        return Condition::new(ConditionType::ModulesLive, Reason::AllLive, message);
    };
    let messages: Vec<_> = not_live
        .chunk_by(|(one, _), (next, _)| one == next)
        .map(|same| {
            let names: Vec<_> = same.iter().map(|(_, name)| *name).collect();
            format!("{}: {}", same[0].0.1, names.join(", "))
        })
        .collect();
    Condition::new(ConditionType::ModulesLive, *reason, messages.join("; "))
}

/// The modules that MOFED cannot replace, because they are part of the kernel.
#[must_use]
pub fn built_in<'a>(expected: &'a Expectations, seen: &Observation) -> Vec<&'a str> {
    expected.modules.iter().map(String::as_str).filter(|name| seen.modules.is_built_in(name)).collect()
}

/// These modules in words, for the end of a message; empty if there are none.
fn irreplaceable(expected: &Expectations, seen: &Observation) -> String {
    let built_in = built_in(expected, seen);
    if built_in.is_empty() {
        return String::new();
    }
    format!("; MOFED cannot replace what is built into the kernel: {}", built_in.join(", "))
}

/// Both witnesses say that it is not loaded.
#[must_use]
pub fn is_not_loaded(modules: &Modules, name: &str) -> bool {
    state(modules, name) == ModuleState::NotLoaded
}

/// Coming, going, or between the two witnesses.
pub(crate) fn is_in_transit(modules: &Modules, name: &str) -> bool {
    matches!(state(modules, name), ModuleState::Loading | ModuleState::Unloading | ModuleState::Disagree(_))
}

/// Why a module does not count as live, in words; `None` when it does.
pub(crate) fn not_live(state: &ModuleState) -> Option<(Reason, String)> {
    Some(match state {
        ModuleState::Live(_) => return None,
        ModuleState::NotLoaded => (Reason::ModuleNotLoaded, "not loaded".to_owned()),
        ModuleState::Loading => (Reason::ModuleLoading, "still loading".to_owned()),
        ModuleState::Unloading => (Reason::ModuleUnloading, "being unloaded".to_owned()),
        ModuleState::Disagree(how) => (Reason::WitnessesDisagree, how.clone()),
        ModuleState::Unreadable(why) => (Reason::ModulesUnreadable, format!("unknown ({why})")),
    })
}

pub(crate) fn from_mofed(expected: &Expectations, seen: &Observation) -> Condition {
    let condition =
        |reason, message: String| Condition::new(ConditionType::ModulesFromMofed, reason, message);
    let mut mofed = Vec::new();
    let mut in_tree = Vec::new();
    for name in &expected.modules {
        match state(&seen.modules, name) {
            ModuleState::Live(Origin::OutOfTree) => mofed.push(name.as_str()),
            ModuleState::Live(Origin::InTree) => in_tree.push(name.as_str()),
            ModuleState::Live(Origin::Unknown(why)) | ModuleState::Unreadable(why) => {
                return condition(
                    Reason::ModulesUnreadable,
                    format!("cannot tell whether {name} is MOFED's: {why}"),
                );
            }
            // ModulesLive is the condition for these.
            ModuleState::NotLoaded
            | ModuleState::Loading
            | ModuleState::Unloading
            | ModuleState::Disagree(_) => {}
        }
    }
    match (mofed.is_empty(), in_tree.is_empty()) {
        (false, true) if mofed.len() == expected.modules.len() => {
            condition(Reason::OutOfTree, format!("out-of-tree: {}", mofed.join(", ")))
        }
        (_, true) => condition(
            Reason::ModuleNotLoaded,
            "not all modules are live yet, so their origin is not checked".to_owned(),
        ),
        (false, false) => {
            let message = format!(
                "modules are mixed (MOFED's: {}; the kernel's own: {}){}",
                mofed.join(", "),
                in_tree.join(", "),
                irreplaceable(expected, seen)
            );
            condition(Reason::MixedStack, message)
        }
        (true, false) => in_tree_stack(expected, seen, &in_tree.join(", ")),
    }
}

/// Host MOFED may also be a kernel that carries the peer-memory patch itself.
fn in_tree_stack(expected: &Expectations, seen: &Observation, names: &str) -> Condition {
    let condition =
        |reason, message: String| Condition::new(ConditionType::ModulesFromMofed, reason, message);
    let in_tree = || {
        let stay = irreplaceable(expected, seen);
        condition(Reason::ModuleInTree, format!("the kernel's own modules are live: {names}{stay}"))
    };
    match (&expected.mofed, &seen.symbols) {
        (MofedPlace::Container, _) | (_, Symbols::Missing) => in_tree(),
        (_, Symbols::ExportedBy(_)) => condition(
            Reason::InTreeWithPeerMemory,
            format!("the kernel's own RDMA stack has peer memory: {names}"),
        ),
        (_, Symbols::Unreadable(why)) => condition(
            Reason::ModulesUnreadable,
            format!(
                "the kernel's own modules are live ({names}), and it is unknown whether they have peer memory: {why}"
            ),
        ),
        (_, Symbols::NotRead) => condition(
            Reason::SymbolsNotRead,
            format!("the kernel's own modules are live ({names}), and their symbols are not read yet"),
        ),
    }
}

pub(crate) fn version_matches(expected: &Expectations, seen: &Observation) -> Condition {
    let condition = |reason, message: String| Condition::new(ConditionType::VersionMatches, reason, message);
    let (wanted, source) = match expected_version(expected, seen) {
        Ok(Some(expected)) => expected,
        Ok(None) => {
            let message = match place(expected.mofed, seen) {
                MofedPlace::InBox => "version not checked: the kernel's own RDMA stack has none",
                _ => "version not checked: no --mofed-version, and MOFED's headers do not name exactly one",
            };
            return condition(Reason::VersionNotExpected, message.to_owned());
        }
        Err(why) => {
            let message = format!("cannot read which version MOFED's headers name: {why}");
            return condition(Reason::VersionUnreadable, message);
        }
    };
    let version = seen.modules.sys.get("mlx5_core").map(|sys| &sys.version);
    match version {
        Some(Err(why)) => {
            condition(Reason::VersionUnreadable, format!("cannot read mlx5_core's version: {why}"))
        }
        None | Some(Ok(None)) => condition(
            Reason::VersionMismatch,
            format!("mlx5_core has no version, but {wanted} is expected ({source})"),
        ),
        Some(Ok(Some(found))) if found.parse().is_ok_and(|v: Version| v.agrees_with(&wanted)) => condition(
            Reason::VersionAgrees,
            format!("mlx5_core has version {found}, which agrees with the expected {wanted} ({source})"),
        ),
        Some(Ok(Some(found))) => {
            let message = format!("mlx5_core has version {found:?}, but {wanted} is expected ({source})");
            condition(Reason::VersionMismatch, message)
        }
    }
}

/// The version that was asked for, or else that of the one header directory with a version in its name.
fn expected_version<'a>(
    expected: &Expectations,
    seen: &'a Observation,
) -> Result<Option<(Version, &'static str)>, &'a Unreadable> {
    if let Some(version) = &expected.version {
        return Ok(Some((version.clone(), "--mofed-version")));
    }
    let named = seen.header_versions.as_ref()?;
    Ok(match named.as_slice() {
        [one] => one.parse().ok().map(|version| (version, "MOFED's header directory")),
        _ => None,
    })
}

pub(crate) fn symbols_exported(seen: &Observation) -> Condition {
    let condition = |reason, message: String| Condition::new(ConditionType::SymbolsExported, reason, message);
    match &seen.symbols {
        Symbols::ExportedBy(None) => {
            condition(Reason::SymbolExported, format!("the kernel itself exports {SYMBOL}"))
        }
        Symbols::ExportedBy(Some(name)) => match state(&seen.modules, name) {
            ModuleState::Live(_) => condition(Reason::SymbolExported, format!("{name} exports {SYMBOL}")),
            ModuleState::Unreadable(why) => condition(
                Reason::ModulesUnreadable,
                format!("{name} exports {SYMBOL}, but cannot tell whether it is live: {why}"),
            ),
            _ => condition(Reason::SymbolMissing, format!("{name}, which exports {SYMBOL}, is not live")),
        },
        Symbols::Missing => condition(Reason::SymbolMissing, format!("no module exports {SYMBOL}")),
        Symbols::NotRead => condition(
            Reason::SymbolsNotRead,
            "the kernel's symbols are read only once MOFED's modules are live".to_owned(),
        ),
        Symbols::Unreadable(why) => {
            condition(Reason::SymbolsUnreadable, format!("cannot read the kernel's symbols: {why}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ready::observation::ProcModules;

    #[test]
    fn a_module_that_is_not_loaded_is_absent_for_both_witnesses() {
        let modules = |state: SysState, garbled: Option<&str>| {
            let sys = SysModule { state, inode: None, taint: Ok(None), version: Ok(None) };
            let proc = Ok(ProcModules { modules: vec![], garbled: garbled.map(str::to_owned) });
            Modules { proc, sys: [("nvidia".to_owned(), sys)].into() }
        };
        assert!(is_not_loaded(&modules(SysState::NoDirectory, None), "nvidia"));
        assert!(!is_not_loaded(&modules(SysState::Live, None), "nvidia"));
        assert!(!is_not_loaded(&modules(SysState::NoDirectory, Some("nvidia 1")), "nvidia"));
        assert!(!is_not_loaded(&modules(SysState::NoDirectory, None), "nvidia_peermem"), "not asked");
    }
}
