// SPDX-License-Identifier: Apache-2.0
//! `ModulesLive`, `ModulesFromMofed`, `VersionMatches` and `SymbolsExported`.

use crate::condition::{Condition, ConditionType, Reason};
use crate::config::{Expectations, MofedPlace};
use crate::observation::{Modules, Observation, ProcModule, ProcState, Symbols, SysModule, SysState};
use crate::version::Version;

const SYMBOL: &str = crate::PEER_MEMORY_SYMBOLS[0];

/// What both witnesses together say of one module.
#[derive(Debug, PartialEq)]
enum State {
    Live { out_of_tree: bool },
    NotLoaded,
    Loading,
    Unloading,
    Disagree(String),
    Unreadable(String),
}

fn state(modules: &Modules, name: &str) -> State {
    let proc = match &modules.proc {
        Ok(proc) => proc,
        Err(why) => return State::Unreadable(why.to_string()),
    };
    let Some(sys) = modules.sys.get(name) else {
        return State::Unreadable(format!("sysfs was not asked for {name}"));
    };
    let mut lines = proc.named(name);
    match (lines.next(), lines.next(), &proc.garbled) {
        (Some(_), Some(_), _) => State::Unreadable(format!("/proc/modules lists {name} twice")),
        (Some(line), None, _) => listed(line, sys),
        (None, _, Some(garbled)) => {
            State::Unreadable(format!("{name} is not listed, but this line makes no sense: {garbled:?}"))
        }
        (None, _, None) => unlisted(sys),
    }
}

fn listed(line: &ProcModule, sys: &SysModule) -> State {
    match (line.state, &sys.state) {
        (_, SysState::Unreadable(why)) => State::Unreadable(why.to_string()),
        (ProcState::Live, SysState::Live) => State::Live { out_of_tree: out_of_tree(line, sys) },
        // Before init runs there is no directory yet, and for a moment one without attributes.
        (ProcState::Loading, SysState::Coming | SysState::NoDirectory | SysState::NoInitstate) => {
            State::Loading
        }
        // The attributes go first, then the directory.
        (ProcState::Unloading, SysState::Going | SysState::NoDirectory | SysState::NoInitstate) => {
            State::Unloading
        }
        (state, other) => State::Disagree(format!("{state:?} in /proc/modules, {other:?} in sysfs")),
    }
}

fn unlisted(sys: &SysModule) -> State {
    match &sys.state {
        SysState::NoDirectory => State::NotLoaded,
        // Part of the kernel image: always live, never MOFED's.
        SysState::NoInitstate => State::Live { out_of_tree: false },
        SysState::Unreadable(why) => State::Unreadable(why.to_string()),
        other => State::Disagree(format!("not in /proc/modules, {other:?} in sysfs")),
    }
}

/// Only MOFED's modules are out-of-tree; both witnesses must say so where both can.
fn out_of_tree(line: &ProcModule, sys: &SysModule) -> bool {
    line.taint.contains('O') && sys.taint.as_ref().is_none_or(|taint| taint.contains('O'))
}

pub(super) fn live(expected: &Expectations, seen: &Observation) -> Condition {
    let states: Vec<_> = expected.modules.iter().map(|name| (name, state(&seen.modules, name))).collect();
    let all = |wanted: fn(&State) -> bool| -> Option<String> {
        let names: Vec<_> = states.iter().filter(|(_, s)| wanted(s)).map(|(name, _)| name.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let detail =
        |wanted: fn(&State) -> Option<&String>| states.iter().find_map(|(name, s)| Some((name, wanted(s)?)));
    let condition = |reason, message: String| Condition::new(ConditionType::ModulesLive, reason, message);
    if let Some(names) = all(|s| *s == State::NotLoaded) {
        condition(Reason::ModuleNotLoaded, format!("not loaded: {names}"))
    } else if let Some(names) = all(|s| *s == State::Loading) {
        condition(Reason::ModuleLoading, format!("still loading: {names}"))
    } else if let Some(names) = all(|s| *s == State::Unloading) {
        condition(Reason::ModuleUnloading, format!("being unloaded: {names}"))
    } else if let Some((name, how)) = detail(|s| if let State::Disagree(how) = s { Some(how) } else { None })
    {
        condition(Reason::WitnessesDisagree, format!("{name} is {how}"))
    } else if let Some((name, why)) =
        detail(|s| if let State::Unreadable(why) = s { Some(why) } else { None })
    {
        condition(Reason::ModulesUnreadable, format!("cannot tell the state of {name}: {why}"))
            .with_remedy("mount the host's /proc and /sys, or name them with --proc and --sys")
    } else {
        condition(Reason::AllLive, format!("live: {}", expected.modules.join(", ")))
    }
}

pub(super) fn from_mofed(expected: &Expectations, seen: &Observation) -> Condition {
    let condition =
        |reason, message: String| Condition::new(ConditionType::ModulesFromMofed, reason, message);
    let mut mofed = Vec::new();
    let mut in_tree = Vec::new();
    for name in &expected.modules {
        match state(&seen.modules, name) {
            State::Live { out_of_tree: true } => mofed.push(name.as_str()),
            State::Live { out_of_tree: false } => in_tree.push(name.as_str()),
            State::Unreadable(why) => {
                return condition(Reason::ModulesUnreadable, format!("cannot tell whose {name} is: {why}"));
            }
            // ModulesLive speaks of these.
            State::NotLoaded | State::Loading | State::Unloading | State::Disagree(_) => {}
        }
    }
    match (mofed.is_empty(), in_tree.is_empty()) {
        (false, true) if mofed.len() == expected.modules.len() => {
            condition(Reason::OutOfTree, format!("out-of-tree: {}", mofed.join(", ")))
        }
        (_, true) => condition(
            Reason::ModuleNotLoaded,
            "not all modules are live, so that their origin is open".to_owned(),
        ),
        (false, false) => condition(
            Reason::MixedStack,
            format!("MOFED's {} on the kernel's own {}", mofed.join(", "), in_tree.join(", ")),
        )
        .with_remedy("MOFED could not unload the kernel's own modules: see its log for what uses them"),
        (true, false) => in_tree_stack(expected, seen, &in_tree.join(", ")),
    }
}

/// Host MOFED may also be a kernel that carries the peer-memory patch itself.
fn in_tree_stack(expected: &Expectations, seen: &Observation, names: &str) -> Condition {
    let condition =
        |reason, message: String| Condition::new(ConditionType::ModulesFromMofed, reason, message);
    match (&expected.mofed, &seen.symbols) {
        (MofedPlace::Host, Symbols::ExportedBy(_)) => {
            condition(Reason::InTreeWithPeerMemory, format!("the kernel's own {names}, with peer memory"))
        }
        (MofedPlace::Host, Symbols::Unreadable(why)) => condition(
            Reason::ModulesUnreadable,
            format!("the kernel's own {names}, and whether they have peer memory cannot be read: {why}"),
        ),
        (MofedPlace::Host, Symbols::NotRead) => condition(
            Reason::SymbolsNotRead,
            format!("the kernel's own {names}; their symbols are not read yet"),
        ),
        _ => condition(Reason::ModuleInTree, format!("the kernel's own modules are live: {names}")),
    }
}

pub(super) fn version_matches(expected: &Expectations, seen: &Observation) -> Condition {
    let condition = |reason, message: String| Condition::new(ConditionType::VersionMatches, reason, message);
    let Some((wanted, source)) = expected_version(expected, seen) else {
        return condition(
            Reason::VersionNotExpected,
            "no version is expected: none was given, and MOFED's header tree names none".to_owned(),
        );
    };
    let version = seen.modules.sys.get("mlx5_core").map(|sys| &sys.version);
    match version {
        Some(Err(why)) => {
            condition(Reason::VersionUnreadable, format!("cannot read mlx5_core's version: {why}"))
        }
        None | Some(Ok(None)) => condition(
            Reason::VersionMismatch,
            format!("mlx5_core has no version, {wanted} is expected ({source})"),
        ),
        Some(Ok(Some(found))) if found.parse().is_ok_and(|v: Version| v.agrees_with(&wanted)) => {
            condition(Reason::VersionAgrees, format!("mlx5_core is {found}, {wanted} is expected ({source})"))
        }
        Some(Ok(Some(found))) => condition(
            Reason::VersionMismatch,
            format!("mlx5_core is {found:?}, {wanted} is expected ({source})"),
        )
        .with_remedy("MOFED has not swapped the modules, or --mofed-version is not this node's release"),
    }
}

/// What was asked for, or else what the one header directory with a version in its name says.
fn expected_version(expected: &Expectations, seen: &Observation) -> Option<(Version, &'static str)> {
    if let Some(version) = &expected.version {
        return Some((version.clone(), "--mofed-version"));
    }
    match seen.header_versions.as_slice() {
        [one] => Some((one.parse().ok()?, "MOFED's header directory")),
        _ => None,
    }
}

pub(super) fn symbols_exported(seen: &Observation) -> Condition {
    let condition = |reason, message: String| Condition::new(ConditionType::SymbolsExported, reason, message);
    match &seen.symbols {
        Symbols::ExportedBy(None) => {
            condition(Reason::SymbolExported, format!("the kernel itself exports {SYMBOL}"))
        }
        Symbols::ExportedBy(Some(name)) => match state(&seen.modules, name) {
            State::Live { .. } => condition(Reason::SymbolExported, format!("{name} exports {SYMBOL}")),
            _ => condition(Reason::SymbolMissing, format!("{name}, which exports {SYMBOL}, is not live")),
        },
        Symbols::Missing => condition(Reason::SymbolMissing, format!("no module exports {SYMBOL}"))
            .with_remedy("the live RDMA modules are not MOFED's: see the MOFED pod's log"),
        Symbols::NotRead => {
            condition(Reason::SymbolsNotRead, "not read before the modules are live".to_owned())
        }
        Symbols::Unreadable(why) => {
            condition(Reason::SymbolsUnreadable, format!("cannot read the kernel's symbols: {why}"))
        }
    }
}
