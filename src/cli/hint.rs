// SPDX-License-Identifier: Apache-2.0
//! Hints added to clap's refusals: which verb has the option, and why this one has not.

use clap::Command;
use clap::error::{ContextKind, ContextValue};

/// Options that make a verb wait.
pub const WAITING: &[&str] =
    &["timeout", "on-timeout", "fail-fast", "dry-run", "settle", "suspect-hold", "heartbeat"];
/// Options of a load.
pub const LOADING: &[&str] = &["modprobe", "no-yield", "unload-on-exit", "node-root"];
const ANY: &[&str] = &[];

/// Verbs, options that they do not have, and why.
pub type Hint = (&'static [&'static str], &'static [&'static str], &'static str);

/// The first row that fits counts.
pub const OF_GATE: &[Hint] = &[
    (&["check"], &["termination-log"], "answers on standard output"),
    (&["install"], ANY, "only copies the program and the shim"),
    (&["wait", "check", "load", "keep", "rebuild"], &["doctor"], "copies no program"),
    (&["check", "rebuild"], WAITING, "looks once and does not wait"),
    (&["check", "rebuild"], &["metrics-file"], "runs once and writes no metrics"),
    (
        &["load", "keep", "rebuild"],
        &["root"],
        "changes the kernel that is running, so it reads only this machine; --driver-root is the driver's root",
    ),
    (&["load", "keep", "rebuild"], &["peermem"], "always inspects nvidia-peermem.ko"),
    (&["load"], &["fail-fast"], "always ends at once when it is blocked"),
    (&["load"], &["on-timeout"], "never loads what is not ready"),
    (&["keep"], WAITING, "runs until it gets a signal"),
    (&["wait", "check"], LOADING, "does not load or unload modules"),
    (&["load"], LOADING, "ends when the module is live; `keep` stays and unloads it"),
    (&["rebuild"], LOADING, "builds the module file and does not load it"),
    (&["wait", "check"], &["rebuild", "rebuild-timeout", "signing"], "changes nothing on the node"),
    (
        &["wait", "check", "load", "keep", "rebuild"],
        &["symvers", "kernel"],
        "finds both on the node; `inspect` judges files without a node",
    ),
    (&["wait", "check", "load", "keep"], &["undo"], "does not remove module files"),
    (
        &["wait", "load", "keep", "rebuild"],
        &["format"],
        "answers by its log and exit code; `check` prints a report",
    ),
    (
        &["wait", "load", "rebuild"],
        &["status-file"],
        "looks at the node itself; `keep` writes that file and `check` reads it",
    ),
];

/// For an option that `verb` does not have and others have: their names, and the reason if one is known.
#[must_use]
pub fn of_another_verb(command: &Command, hints: &[Hint], verb: &str, option: &str) -> Option<String> {
    let option = option.strip_prefix("--")?.split('=').next()?;
    let owners: Vec<_> = command
        .get_subcommands()
        .filter(|other| other.get_arguments().any(|arg| arg.get_long() == Some(option)))
        .map(Command::get_name)
        .collect();
    if owners.is_empty() {
        return None;
    }
    let why = hints.iter().find(|(verbs, options, _)| {
        verbs.contains(&verb) && (options.is_empty() || options.contains(&option))
    });
    let why = why.map(|(.., why)| format!("; `{verb}` {why}")).unwrap_or_default();
    Some(format!("--{option} is an option of {}{why}", owners.join(", ")))
}

/// The mirror of an option: `on-timeout` is `ON_TIMEOUT`, behind `PEERMEM_GATE_`.
#[must_use]
pub fn mirror(option: &str) -> String {
    option.to_ascii_uppercase().replace('-', "_")
}

/// The mirror, of any verb's option, that a misspelled one comes closest to by clap's own measure.
#[must_use]
pub fn similar_mirror(command: &Command, misspelled: &str) -> Option<String> {
    let mut all = Command::new("peermem-gate").disable_help_flag(true);
    for option in command.get_subcommands().flat_map(Command::get_opts) {
        if !all.get_opts().any(|known| known.get_long() == option.get_long()) {
            all = all.arg(option.clone());
        }
    }
    let option = format!("--{}", misspelled.to_ascii_lowercase().replace('_', "-"));
    let error = all.try_get_matches_from(["peermem-gate", &option]).err()?;
    match error.get(ContextKind::SuggestedArg)? {
        ContextValue::String(option) => Some(mirror(option.trim_start_matches("--"))),
        _ => None,
    }
}
