// SPDX-License-Identifier: Apache-2.0
//! Verbs that look once and answer on standard output.

use super::looking::{ONE_LOOK, SupervisedEnd, log_briefly, signals, style, supervised};
use super::{Start, Stop};
use crate::act::hung::Hung;
use crate::act::supervisor::Terms;
use crate::act::{self, log};
use crate::cli::{AnswerFormat, LogArgs};
use crate::ending::Ending;
use crate::report::Doubt;
use crate::report::style::Style;
use crate::wake::Signals;
use anyhow::Context;

/// Runs a verb that looks once and answers. If the look hangs, the answer says so.
///
/// # Errors
/// Why there is no answer.
pub fn one_look(
    log: &LogArgs,
    format: AnswerFormat,
    start: &Start,
    look: impl FnOnce(Style) -> Result<Ending, Stop>,
) -> Result<Ending, Stop> {
    let signals = signals()?;
    log::start(log);
    let terms = Terms { signals: &signals, limit: Some(ONE_LOOK), keeps_stdout: false, may_outlive: false };
    let style = style(start);
    match supervised(terms, start, |_| look(style))? {
        SupervisedEnd::Ended(ending) => Ok(ending),
        SupervisedEnd::Hung(hung) => hangs(&hung, format, style, &signals),
    }
}

fn hangs(hung: &Hung, format: AnswerFormat, style: Style, signals: &Signals) -> Result<Ending, Stop> {
    if let Some(signal) = hung.signal {
        log_briefly(|| log::exclaim(&hung.sentence()));
        return Ok(Ending::Signal(signal));
    }
    let doubt = Doubt {
        why: "a file system on this node does not answer",
        message: &hung.sentence(),
        detail: &hung.cause(),
        remedy: Hung::REMEDY,
    };
    let text = unknown(format, style, &doubt);
    let signal = act::answer_until_signalled(text.as_bytes(), signals, None)
        .context("cannot write to standard output")?;
    Ok(signal.map_or(Ending::CannotTell, Ending::Signal))
}

/// The answer of a verb that knows nothing.
pub(super) fn unknown(format: AnswerFormat, style: Style, doubt: &Doubt<'_>) -> String {
    match format {
        AnswerFormat::Text => doubt.text(style),
        AnswerFormat::Json => doubt.json(),
        AnswerFormat::Line => doubt.headline() + "\n",
    }
}
