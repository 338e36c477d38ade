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

impl Word {
    fn new(
        (list, page): (&'static str, &str),
        name: &impl ToString,
        meaning: &str,
        seen: Vec<String>,
        step: Option<String>,
    ) -> Self {
        let (name, meaning, page) = (name.to_string(), meaning.to_owned(), page.to_owned());
        Self { name, list, meaning, seen, steps: step.into_iter().collect(), page }
    }
}

/// All of them, list by list.
#[must_use]
pub fn words() -> Vec<Word> {
    let verdicts = Status::ALL.iter().copied().map(status).chain(Outcome::ALL.iter().copied().map(verdict));
    let states = verdicts.chain(State::ALL.iter().copied().map(state));
    let obstacles = states.chain(Kind::ALL.iter().copied().map(obstacle));
    obstacles.chain(failures()).chain(RebuildLabel::ALL.iter().copied().map(result)).collect()
}

fn status(status: Status) -> Word {
    let seen =
        format!("the first word of a line of `check`; `peermem_gate_condition{{status=\"{status}\"}}`");
    Word::new(("status of a condition", "conditions.md"), &status, status.meaning(), vec![seen], None)
}

fn verdict(outcome: Outcome) -> Word {
    let is_wrong = !matches!(outcome, Outcome::Ready | Outcome::NotApplicable);
    let ask = "Run `peermem-gate doctor` on the node: it names the cause and what to do.";
    let seen =
        format!("`peermem_gate_verdict{{verdict=\"{outcome}\"}}` is 1; `verdict` in a report of `check`");
    let step = is_wrong.then(|| ask.to_owned());
    Word::new(("verdict of the gate", "conditions.md"), &outcome, outcome.meaning(), vec![seen], step)
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
    let follows = follows.map(|(_, to, why)| format!("it becomes {to}: {why}"));
    let seen = [log, metric].into_iter().chain(follows).collect();
    let step = step.map(str::to_owned);
    Word::new(("state of `keep`", "sidecar.md#states"), &state, state.meaning(), seen, step)
}

fn obstacle(kind: Kind) -> Word {
    let metric = format!("; `peermem_gate_keep_blocked{{reason=\"{kind}\"}}` is 1");
    let metric = if kind.needs_a_person() { metric } else { String::new() };
    let seen = format!("a log has \"not rebuilt: {kind}\", of `keep`, `load` or `rebuild`{metric}");
    let of = ("obstacle to a rebuild", "heal.md#when-nothing-is-rebuilt");
    Word::new(of, &kind, kind.meaning(), vec![seen], Some(sentence(kind.remedy())))
}

fn failures() -> impl Iterator<Item = Word> {
    let word = |label: &str, meaning: &str, more: Option<String>, remedy: &str| {
        let metric = format!(
            "`peermem_gate_keep_refused_loads_total{{reason=\"{label}\"}}` grows; the log of `keep` or `load` has why"
        );
        let seen = more.into_iter().chain([metric]).collect();
        let step = Some(sentence(remedy)).filter(|_| !remedy.is_empty());
        Word::new(("load that failed", "loading.md#what-you-see"), &label, meaning, seen, step)
    };
    let own = LoadFailure::ALL.iter().map(move |(failure, meaning)| {
        word(failure.label(), meaning, None, "read the line of the log: it says what to do")
    });
    let errnos = refusal::errnos().map(move |(errno, texts, why)| {
        let says = format!("modprobe says \"{}\"", texts.join("\" or \""));
        word(errno, &sentence(&why.verdict), Some(says), why.remedy)
    });
    let other = "modprobe failed without an errno that is known.";
    own.chain(errnos).chain([word(OTHER, other, None, "read modprobe's words in the log")])
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
    let seen = format!("`peermem_gate_keep_rebuilds_total{{result=\"{label}\"}}` grows");
    let (of, step) = (("result of a rebuild", "heal.md#when-a-build-fails"), step.map(str::to_owned));
    Word::new(of, &label, label.meaning(), vec![seen], step)
}

/// The same with a capital and a full stop.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let is_command = text.starts_with("modprobe");
    if is_command { format!("{text}.") } else { format!("{first}{}.", chars.as_str()) }
}
