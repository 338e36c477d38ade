// SPDX-License-Identifier: Apache-2.0
//! Verbs that look once and answer on standard output.

use crate::cli::environment::value_of;
use crate::cli::{AnswerFormat, LogArgs, log};
use crate::process;
use crate::process::hung::Hung;
use crate::process::supervisor::SuperviseOptions;
use crate::ready::exit::Exit;
use crate::ready::wake::Signals;
use crate::ready::{clock, probe};
use crate::start::{Start, VerbError};
use crate::watch::supervised::{ONE_LOOK, log_briefly, signals, style, supervised};
use crate::words::report::Doubt;
use crate::words::report::style::Style;
use anyhow::Context;
use std::ffi::OsStr;

/// Runs a verb that looks once and answers. If the look hangs, the answer says so.
///
/// # Errors
/// Why there is no answer.
pub fn one_look(
    log: &LogArgs,
    format: AnswerFormat,
    start: &Start,
    look: impl FnOnce(Style) -> Result<Exit, VerbError>,
) -> Result<Exit, VerbError> {
    let looker = Looker::new(log, format, start)?;
    looker.look(look)?.or_else(|hung| looker.hangs(&hung))
}

/// Answers on standard output by looks, each in its own process.
#[derive(Debug)]
pub struct Looker<'a> {
    start: &'a Start<'a>,
    format: AnswerFormat,
    style: Style,
    /// The signals that end it.
    pub signals: Signals,
}

impl<'a> Looker<'a> {
    /// Takes the signals and starts the log.
    ///
    /// # Errors
    /// signalfd(2)'s.
    pub fn new(log: &LogArgs, format: AnswerFormat, start: &'a Start<'a>) -> Result<Self, VerbError> {
        let signals = signals()?;
        log::start(log);
        Ok(Self { start, format, style: style(start), signals })
    }

    /// Looks once and answers, unless the look hangs.
    ///
    /// # Errors
    /// Why there is neither.
    pub fn look(
        &self,
        look: impl FnOnce(Style) -> Result<Exit, VerbError>,
    ) -> Result<Result<Exit, Hung>, VerbError> {
        let terms = SuperviseOptions::new(&self.signals, Some(ONE_LOOK));
        Ok(supervised(terms, self.start, |_| look(self.style))?.end)
    }

    /// Answers that the look hangs.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn hangs(&self, hung: &Hung) -> Result<Exit, VerbError> {
        if let Some(signal) = hung.signal {
            log_briefly(|| log::print_unstamped(&hung.sentence()));
            return Ok(Exit::Signal(signal));
        }
        let node = value_of(self.start.variables, "NODE_NAME").map(OsStr::to_string_lossy);
        let doubt = Doubt {
            why: "a file system on this node does not answer",
            message: &hung.sentence(),
            detail: &hung.cause(),
            remedy: Hung::REMEDY,
            node: node.as_deref(),
            kernel: &probe::own_kernel(),
            r#for: &[],
            time: clock::wall(),
        };
        let text = unknown(self.format, self.style, &doubt);
        let signal = process::answer_until_signaled(text.as_bytes(), &self.signals, None)
            .context("cannot write to standard output")?;
        Ok(signal.map_or(Exit::CannotTell, Exit::Signal))
    }
}

/// The answer of a verb that knows nothing.
pub(crate) fn unknown(format: AnswerFormat, style: Style, doubt: &Doubt<'_>) -> String {
    match format {
        AnswerFormat::Text => doubt.text(style),
        AnswerFormat::Json => doubt.json(),
        AnswerFormat::Line => doubt.headline() + "\n",
    }
}
