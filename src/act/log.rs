// SPDX-License-Identifier: Apache-2.0
//! The log, on standard error.

use crate::cli::{Format, LogArgs};
use crate::gate::{Level, Line};
use std::io;

/// To be called once. Lines stamp themselves in UTC.
pub fn start(args: &LogArgs) {
    let builder = tracing_subscriber::fmt()
        .with_max_level(args.log_level)
        .with_writer(io::stderr)
        .with_target(false)
        // It would say so on the standard error that has just failed, and panic when that fails.
        .log_internal_errors(false);
    match args.log_format {
        Format::Text => builder.with_ansi(false).init(),
        Format::Json => builder.json().flatten_event(true).init(),
    }
}

/// Logs what the gate says.
pub fn say(line: &Line) {
    let Line { level, text, about, cause, elapsed } = line;
    let elapsed_s = (elapsed.as_secs_f64() * 1000.0).round() / 1000.0;
    let condition = about.map(|(condition, _)| tracing::field::display(condition));
    let reason = about.map(|(_, reason)| tracing::field::display(reason));
    let cause = cause.as_ref().map(tracing::field::display);
    match level {
        Level::Info => tracing::info!(condition, reason, cause, elapsed_s, "{text}"),
        Level::Warn => tracing::warn!(condition, reason, cause, elapsed_s, "{text}"),
        Level::Error => tracing::error!(condition, reason, cause, elapsed_s, "{text}"),
    }
}
