// SPDX-License-Identifier: Apache-2.0
//! Hints added to clap's refusals: which verbs have the option, and which variable was meant.

use clap::Command;
use clap::error::{ContextKind, ContextValue};

/// For an option that a verb does not have and others have: their names.
#[must_use]
pub fn of_another_verb(command: &Command, option: &str) -> Option<String> {
    let option = option.strip_prefix("--")?.split('=').next()?;
    let has_it = |other: &&Command| other.get_arguments().any(|arg| arg.get_long() == Some(option));
    let owners: Vec<_> = command.get_subcommands().filter(has_it).map(Command::get_name).collect();
    (!owners.is_empty()).then(|| format!("--{option} is an option of {}", owners.join(", ")))
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
