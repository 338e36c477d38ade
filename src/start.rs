// SPDX-License-Identifier: Apache-2.0
//! How a verb starts, and why it stops early.

use crate::cli::environment::{Misuse, Variables};
use crate::cli::help;
use crate::process;
use crate::process::exec::Unrunnable;
use crate::process::terminal;
use crate::ready::exit::Exit;
use crate::text::escaped;
use crate::words::last_words::LastWords;
use crate::words::report::style::Style;
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

/// Why a verb does not begin, or does not finish.
#[derive(Debug)]
pub enum VerbError {
    /// The options contradict each other.
    Refused(Misuse),
    /// CMD, modprobe or rmmod cannot be run.
    CannotRun(Unrunnable),
    /// The gate itself failed.
    Failed(anyhow::Error),
}

impl VerbError {
    /// Reports why, and ends.
    #[must_use]
    pub fn end(&self, last_words: &LastWords) -> Exit {
        match self {
            // The help or the version that was asked for.
            Self::Refused(Misuse::Usage(answer)) if !answer.use_stderr() => {
                match process::answer(&shown(answer)) {
                    Ok(()) => Exit::Opened,
                    Err(error) => failed(last_words, &error.into()),
                }
            }
            // The termination log itself was refused.
            Self::Refused(refusal @ Misuse::Misplaced(_)) => {
                LastWords::default().report(Exit::Refused, &refusal.to_string())
            }
            Self::Refused(refusal) => last_words.report(Exit::Refused, refusal.to_string().trim_end()),
            Self::CannotRun(why) => last_words.report(why.exit, &format!("error: {}", escaped(&why.message))),
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

fn failed(last_words: &LastWords, error: &anyhow::Error) -> Exit {
    last_words.report(Exit::Failed, &format!("error: {}", escaped(&format!("{error:#}"))))
}

impl From<Misuse> for VerbError {
    fn from(refusal: Misuse) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Unrunnable> for VerbError {
    fn from(why: Unrunnable) -> Self {
        Self::CannotRun(why)
    }
}

impl From<anyhow::Error> for VerbError {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<io::Error> for VerbError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.into())
    }
}
