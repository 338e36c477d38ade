// SPDX-License-Identifier: Apache-2.0
//! The log, on standard error. A line never waits, and never contains what would forge another.

use crate::cli::{Format, LogArgs};
use crate::process::log_writer;
use crate::ready::clock;
use crate::ready::gate::{Level, Line};
use crate::text::{Page, escaped, json_escaped};
use humantime::format_rfc3339_micros;
use std::borrow::Cow;
use std::io::{self, Write};

/// To be called once. Lines stamp themselves in UTC.
pub fn start(args: &LogArgs) {
    let builder = tracing_subscriber::fmt()
        .with_max_level(args.log_level)
        .with_target(false)
        // It would say so on the standard error that has just failed, and panic when that fails.
        .log_internal_errors(false);
    match args.log_format {
        Format::Text => builder.with_writer(|| LineWriter(escaped)).with_ansi(false).init(),
        Format::Json => builder.with_writer(|| LineWriter(json_escaped)).json().flatten_event(true).init(),
    }
    log_writer::set_left_out(match args.log_format {
        Format::Text => left_out,
        Format::Json => left_out_as_json,
    });
}

/// One write is one line: tracing-subscriber gives it whole.
struct LineWriter(fn(&str) -> Cow<'_, str>);

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line));
        log_writer::write(format!("{}\n", (self.0)(&text)).as_bytes());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn left_out(count: u64) -> String {
    format!("{}  WARN {}\n", format_rfc3339_micros(clock::wall()), left_out_sentence(count))
}

fn left_out_as_json(count: u64) -> String {
    let time = format_rfc3339_micros(clock::wall()).to_string();
    let line = serde_json::json!({"timestamp": time, "level": "WARN", "message": left_out_sentence(count)});
    format!("{line}\n")
}

fn left_out_sentence(count: u64) -> String {
    format!("{count} log lines were dropped, because nothing read standard error")
}

/// Says one sentence without a stamp, before there is a log or after it has ended.
pub fn print_unstamped(sentence: &str) {
    let mut page = Page::default();
    sentence.lines().for_each(|line| page.line(line));
    log_writer::write(page.into_text().as_bytes());
}

/// Logs what the gate says.
pub fn write(line: &Line) {
    let Line { level, text, about, cause, elapsed } = line;
    let elapsed_s = (elapsed.as_secs_f64() * 1000.0).round() / 1000.0;
    let condition = about.map(|(condition, _)| tracing::field::display(condition));
    let reason = about.map(|(_, reason)| tracing::field::display(reason));
    let cause = cause.as_ref().map(tracing::field::display);
    match level {
        Level::Debug => tracing::debug!(condition, reason, cause, elapsed_s, "{text}"),
        Level::Info => tracing::info!(condition, reason, cause, elapsed_s, "{text}"),
        Level::Warn => tracing::warn!(condition, reason, cause, elapsed_s, "{text}"),
        Level::Error => tracing::error!(condition, reason, cause, elapsed_s, "{text}"),
    }
}
