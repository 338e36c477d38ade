// SPDX-License-Identifier: Apache-2.0
//! The words of the gate's logs, metrics and reports beside conditions and their reasons, each from the enum that the
//! program itself takes it from. `peermem-doctor explain` prints them. Pure.

use crate::keeper::State;
use crate::keeper::attempt::{LoadFailure, OTHER};
use crate::peermem::refusal;
use crate::ready::condition::Status;
use crate::ready::verdict::Outcome;
use crate::rebuild::{Kind, RebuildLabel};

/// A word, and what a person wants to know who reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word.
    pub name: String,
    /// What it is a word for.
    pub list: &'static str,
    /// Its meaning.
    pub meaning: String,
    /// Where it is read, and what shows it.
    pub seen: Vec<String>,
    /// What to do; empty where nothing is wrong, or time cures it.
    pub steps: Vec<String>,
    /// The page and its section, below docs/.
    pub page: String,
}

/// All of them, list by list.
#[must_use]
pub fn words() -> Vec<Word> {
    let verdicts = Status::ALL.map(status).into_iter().chain(Outcome::ALL.map(verdict));
    let states = State::ALL.map(state).into_iter();
    let obstacles = Kind::ALL.iter().map(|kind| obstacle(*kind));
    let labels = RebuildLabel::ALL.iter().map(|label| result(*label));
    verdicts.chain(states).chain(obstacles).chain(failures()).chain(labels).collect()
}

fn status(status: Status) -> Word {
    let meaning = match status {
        Status::True => "The condition is met.",
        Status::False => "The condition is not met, or exempts this node.",
        Status::Unknown => "What decides the condition cannot be read, or does not exist here.",
    };
    Word {
        name: status.to_string(),
        list: "status of a condition",
        meaning: meaning.to_owned(),
        seen: vec![format!(
            "the first word of a line of `check`; `peermem_gate_condition{{status=\"{status}\"}}`"
        )],
        steps: Vec::new(),
        page: "conditions.md".to_owned(),
    }
}

fn verdict(outcome: Outcome) -> Word {
    let meaning = match outcome {
        Outcome::Ready => "Every condition is met.",
        Outcome::Waiting => "A condition is not met yet.",
        Outcome::Blocked => "A condition is not met that waiting cannot cure.",
        Outcome::NotApplicable => "A condition exempts this node: it needs no MOFED.",
        Outcome::Unknown => "Nothing is known to be wrong, but something that counts cannot be read.",
    };
    let is_wrong = !matches!(outcome, Outcome::Ready | Outcome::NotApplicable);
    let ask = "Run `peermem-gate doctor` on the node: it names the cause and what to do.";
    Word {
        name: outcome.to_string(),
        list: "verdict of the gate",
        meaning: meaning.to_owned(),
        seen: vec![format!(
            "`peermem_gate_verdict{{verdict=\"{outcome}\"}}` is 1; `verdict` in a report of `check`"
        )],
        steps: is_wrong.then(|| ask.to_owned()).into_iter().collect(),
        page: "conditions.md".to_owned(),
    }
}

fn state(state: State) -> Word {
    let follows = State::TRANSITIONS.iter().filter(|(from, ..)| *from == state);
    let log =
        format!("the log of `keep` has \"still {}\" at each heartbeat", state.to_string().to_lowercase());
    let metric =
        format!("`peermem_gate_keep_state{{state=\"{state}\"}}` is 1; `check --status-file` has it, too");
    let step = match state {
        State::Waiting | State::Loaded | State::Yielding => None,
        State::Blocked => {
            Some("Read the last error in the log of `keep`: it names the reason and what to do.")
        }
        State::Busy => Some("End the GPU jobs that the log of `keep` names, or drain the node."),
    };
    Word {
        name: state.to_string(),
        list: "state of `keep`",
        meaning: state.meaning().to_owned(),
        seen: [log, metric]
            .into_iter()
            .chain(follows.map(|(_, to, why)| format!("it becomes {to}: {why}")))
            .collect(),
        steps: step.map(str::to_owned).into_iter().collect(),
        page: "sidecar.md#states".to_owned(),
    }
}

fn obstacle(kind: Kind) -> Word {
    let metric = format!("; `peermem_gate_keep_blocked{{reason=\"{kind}\"}}` is 1");
    let metric = if kind.needs_a_person() { metric } else { String::new() };
    Word {
        name: kind.to_string(),
        list: "obstacle to a rebuild",
        meaning: kind.meaning().to_owned(),
        seen: vec![format!("a log has \"not rebuilt: {kind}\", of `keep`, `load` or `rebuild`{metric}")],
        steps: vec![sentence(kind.remedy())],
        page: "heal.md#when-nothing-is-rebuilt".to_owned(),
    }
}

fn failures() -> impl Iterator<Item = Word> {
    let word = |label: &str, meaning: String, more: Option<String>, remedy: &str| Word {
        name: label.to_owned(),
        list: "load that failed",
        meaning,
        seen: more.into_iter().chain([metric_of_refusals(label)]).collect(),
        steps: Some(sentence(remedy)).filter(|_| !remedy.is_empty()).into_iter().collect(),
        page: "loading.md#what-you-see".to_owned(),
    };
    let own = LoadFailure::ALL.iter().map(move |(failure, meaning)| {
        word(failure.label(), (*meaning).to_owned(), None, "read the line of the log: it says what to do")
    });
    let errnos = refusal::errnos().map(move |(errno, texts, why)| {
        let says = format!("modprobe says \"{}\"", texts.join("\" or \""));
        word(errno, sentence(&why.verdict), Some(says), why.remedy)
    });
    let other = "modprobe failed without an errno that is known.".to_owned();
    own.chain(errnos).chain([word(OTHER, other, None, "read modprobe's words in the log")])
}

fn metric_of_refusals(label: &str) -> String {
    format!(
        "`peermem_gate_keep_refused_loads_total{{reason=\"{label}\"}}` grows; the log of `keep` or `load` has why"
    )
}

fn result(label: RebuildLabel) -> Word {
    let step = match label {
        RebuildLabel::Installed | RebuildLabel::Undone | RebuildLabel::BrokenOff => None,
        RebuildLabel::Refused => {
            Some("Read the obstacle in the log of `keep`: it has a page of its own here.")
        }
        RebuildLabel::Failed | RebuildLabel::TimedOut => {
            Some("Read the build's last lines in the log of `keep`.")
        }
    };
    Word {
        name: label.to_string(),
        list: "result of a rebuild",
        meaning: label.meaning().to_owned(),
        seen: vec![format!("`peermem_gate_keep_rebuilds_total{{result=\"{label}\"}}` grows")],
        steps: step.map(str::to_owned).into_iter().collect(),
        page: "heal.md#when-a-build-fails".to_owned(),
    }
}

/// The same with a capital and a full stop.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let is_command = text.starts_with("modprobe");
    if is_command { format!("{text}.") } else { format!("{first}{}.", chars.as_str()) }
}
