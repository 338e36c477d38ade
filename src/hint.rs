// SPDX-License-Identifier: Apache-2.0
//! What a refusal adds to what clap says: which verb has the option, and why this one has not.

use clap::Command;
use clap::error::{ContextKind, ContextValue};

/// Options that make a verb wait.
const WAITING: &[&str] =
    &["timeout", "on-timeout", "fail-fast", "dry-run", "settle", "suspect-hold", "heartbeat"];

/// Verbs, options that they do not have, and why.
const REASONS: &[(&[&str], &[&str], &str)] = &[
    (&["check", "doctor"], WAITING, "looks once and does not wait"),
    (&["check", "doctor", "fleet", "install"], &["termination-log"], "answers on standard output"),
    (&["fleet", "install"], &["root", "proc", "sys", "marker"], "does not look at a node"),
    (
        &["load", "keep"],
        &["root"],
        "changes the kernel that is running, so it reads only this machine; --driver-root is the driver's root",
    ),
    (&["load", "keep", "doctor"], &["peermem"], "always inspects nvidia-peermem.ko"),
    (&["load"], &["fail-fast"], "always ends at once when it is blocked"),
    (&["load"], &["on-timeout"], "never loads what is not ready"),
    (&["keep"], &["timeout", "on-timeout", "fail-fast"], "runs until it is told to end"),
];

/// For an option that `verb` does not have and others have: their names, and the reason if one is known.
#[must_use]
pub fn of_another_verb(command: &Command, verb: &str, option: &str) -> Option<String> {
    let option = option.strip_prefix("--")?.split('=').next()?;
    let owners: Vec<_> = command
        .get_subcommands()
        .filter(|other| other.get_arguments().any(|arg| arg.get_long() == Some(option)))
        .map(Command::get_name)
        .collect();
    if owners.is_empty() {
        return None;
    }
    let why = REASONS.iter().find(|(verbs, options, _)| verbs.contains(&verb) && options.contains(&option));
    let why = why.map(|(.., why)| format!("; `{verb}` {why}")).unwrap_or_default();
    Some(format!("--{option} is an option of {}{why}", owners.join(", ")))
}

/// The mirror of an option: `on-timeout` is `ON_TIMEOUT`, behind `PEERMEM_GATE_`.
#[must_use]
pub fn mirror(option: &str) -> String {
    option.to_ascii_uppercase().replace('-', "_")
}

/// The mirror, of any verb's option, that a misspelt one comes closest to by clap's own measure.
#[must_use]
pub fn similar_mirror(command: &Command, misspelt: &str) -> Option<String> {
    let mut all = Command::new("peermem-gate").disable_help_flag(true);
    for option in command.get_subcommands().flat_map(Command::get_opts) {
        if !all.get_opts().any(|known| known.get_long() == option.get_long()) {
            all = all.arg(option.clone());
        }
    }
    let option = format!("--{}", misspelt.to_ascii_lowercase().replace('_', "-"));
    let error = all.try_get_matches_from(["peermem-gate", &option]).err()?;
    match error.get(ContextKind::SuggestedArg)? {
        ContextValue::String(option) => Some(mirror(option.trim_start_matches("--"))),
        _ => None,
    }
}
