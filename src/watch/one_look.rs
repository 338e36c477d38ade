// SPDX-License-Identifier: Apache-2.0
//! Verbs that look once and answer on standard output.

use crate::cli::environment::value_of;
use crate::cli::{AnswerFormat, LogArgs, log};
use crate::process;
use crate::process::hung::Hung;
use crate::process::supervisor;
use crate::process::supervisor::SuperviseOptions;
use crate::ready::exit::Exit;
use crate::ready::time::BootTime;
use crate::ready::wake::Signals;
use crate::ready::{clock, probe};
use crate::start::{Start, VerbError};
use crate::watch::supervised::{ONE_LOOK, SupervisedResult, log_briefly, signals, style, supervised};
use crate::words::report::Doubt;
use crate::words::report::style::Style;
use anyhow::Context;
use std::ffi::OsStr;
use std::time::Duration;

/// One millisecond more, because poll(2) counts milliseconds and must not wake too early.
const ROUNDING: Duration = Duration::from_millis(1);

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
    Looks::new(log, format, start)?.answer(look)
}

/// Looks that answer on standard output, one after another. Each has its own process, so between two of them next
/// to nothing stays in memory.
#[derive(Debug)]
pub struct Looks<'a> {
    start: &'a Start<'a>,
    format: AnswerFormat,
    style: Style,
    signals: Signals,
    /// The last look, if its process hung, and since when.
    hung: Option<(Hung, BootTime)>,
}

impl<'a> Looks<'a> {
    /// Takes the signals and starts the log.
    ///
    /// # Errors
    /// signalfd(2)'s.
    pub fn new(log: &LogArgs, format: AnswerFormat, start: &'a Start<'a>) -> Result<Self, VerbError> {
        let signals = signals()?;
        log::start(log);
        Ok(Self { start, format, style: style(start), signals, hung: None })
    }

    /// Looks once and answers. If the look hangs, or an earlier one still does, the answer says so.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn answer(&mut self, look: impl FnOnce(Style) -> Result<Exit, VerbError>) -> Result<Exit, VerbError> {
        let (mut hung, since) = match self.hung.take() {
            // Another process would hang as well, and one more at each look.
            Some(earlier) if supervisor::has_children() => earlier,
            _ => {
                let limit = Some(ONE_LOOK);
                let terms = SuperviseOptions::new(&self.signals, limit);
                let (style, since) = (self.style, clock::now());
                match supervised(terms, self.start, |_| look(style))? {
                    SupervisedResult::Ended(exit) => return Ok(exit),
                    SupervisedResult::Hung(hung) => (hung, since),
                }
            }
        };
        hung.waited = clock::now().saturating_sub(since);
        let exit = self.hangs(&hung);
        self.hung = Some((hung, since));
        exit
    }

    /// Sleeps until that time. A signal that ends the program decides the ending, even if it came earlier.
    #[must_use]
    pub fn sleep(&self, until: BootTime) -> Option<Exit> {
        loop {
            let now = clock::now();
            match self.signals.first() {
                Some(signal) => return Some(Exit::Signal(signal)),
                None if now >= until => return None,
                // The end of a child interrupts the sleep, which continues.
                None => _ = self.signals.wait(until.saturating_sub(now) + ROUNDING),
            }
        }
    }

    fn hangs(&self, hung: &Hung) -> Result<Exit, VerbError> {
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
