// SPDX-License-Identifier: Apache-2.0
//! One file for each verb, with a few lines over the same core.

mod attempt;
mod build_attempt;
mod check;
pub mod doctor;
pub mod driver_manager;
mod expected;
mod held;
mod hoard;
mod inspect;
mod install;
mod keep;
mod load;
pub mod looking;
pub mod one_look;
mod publisher;
mod rebuild;
pub mod rebuilder;
pub mod root;
pub mod shim;
mod slow_command;
mod toolkit;
mod wait;
mod watch;

use crate::act;
use crate::act::exec::Unrunnable;
use crate::act::install::NotInstalled;
use crate::act::last_words::LastWords;
use crate::act::terminal;
use crate::cli::Verb;
use crate::ending::Ending;
use crate::environment::{Invocation, Misuse, Variables};
use crate::help;
use crate::report::style::Style;
use crate::text::escaped;
use clap::error::ErrorKind;
use std::io;

/// The input of every verb.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    /// The environment.
    pub variables: &'a Variables,
    /// Reports how the program ended.
    pub last_words: LastWords,
}

/// Runs the verb.
///
/// # Errors
/// Why the verb did not begin, or did not finish.
pub fn run(invocation: Invocation, start: &Start) -> Result<Ending, Stop> {
    let disabled = invocation.disabled.as_deref();
    match invocation.verb {
        Verb::Wait(args) => wait::run(&args, disabled, start),
        Verb::Check(args) => check::run(&args, start),
        Verb::Load(args) => load::run(&args, disabled, start),
        Verb::Keep(args) => keep::run(&args, start),
        Verb::Inspect(args) => inspect::run(&args, start),
        Verb::Rebuild(args) => rebuild::run(&args, start),
        Verb::Install(args) => install::run(&args),
    }
}

/// Why a verb does not begin, or does not finish.
#[derive(Debug)]
pub enum Stop {
    /// The options contradict each other.
    Refused(Misuse),
    /// CMD, modprobe or rmmod cannot be run.
    CannotRun(Unrunnable),
    /// The gate itself failed.
    Failed(anyhow::Error),
}

impl Stop {
    /// Reports why, and ends.
    #[must_use]
    pub fn end(&self, last_words: &LastWords) -> Ending {
        match self {
            // The help or the version that was asked for.
            Self::Refused(Misuse::Usage(answer)) if !answer.use_stderr() => {
                match act::answer(&shown(answer)) {
                    Ok(()) => Ending::Opened,
                    Err(error) => failed(last_words, &error.into()),
                }
            }
            // The termination log itself was refused.
            Self::Refused(refusal @ Misuse::Misplaced(_)) => {
                LastWords::default().report(Ending::Refused, &refusal.to_string())
            }
            Self::Refused(refusal) => last_words.report(Ending::Refused, refusal.to_string().trim_end()),
            Self::CannotRun(why) => {
                last_words.report(why.ending, &format!("error: {}", escaped(&why.message)))
            }
            Self::Failed(error) => failed(last_words, error),
        }
    }
}

/// The help, wrapped; the version, which scripts read, stays on one line.
fn shown(answer: &clap::Error) -> String {
    let text = answer.to_string();
    if answer.kind() == ErrorKind::DisplayVersion {
        return text;
    }
    let style = Style::new(terminal::columns(), &std::env::vars_os().collect());
    help::fitted(&text, style.columns)
}

fn failed(last_words: &LastWords, error: &anyhow::Error) -> Ending {
    last_words.report(Ending::Failed, &format!("error: {}", escaped(&format!("{error:#}"))))
}

impl From<Misuse> for Stop {
    fn from(refusal: Misuse) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Unrunnable> for Stop {
    fn from(why: Unrunnable) -> Self {
        Self::CannotRun(why)
    }
}

impl From<NotInstalled> for Stop {
    fn from(why: NotInstalled) -> Self {
        match why {
            NotInstalled::Refused(sentence) => Self::Refused(Misuse::Message(sentence)),
            NotInstalled::Failed(sentence) => Self::Failed(anyhow::Error::msg(sentence)),
        }
    }
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.into())
    }
}
