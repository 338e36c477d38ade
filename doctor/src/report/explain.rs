// SPDX-License-Identifier: Apache-2.0
//! The page of a word that a log, a metric, an alert or a finding has: its meaning, how it is recognized and the
//! steps, each from the table or the enum that the programs take the word from. Pure.

use super::words::{alerts, conditions, of_condition, standings};
use crate::finding::{DOCS, Id};
use crate::log::{LogSource, RULES};
use peermem_gate::ready::condition::{Consequence, Reason};
use peermem_gate::text::{LinePrefixText, Page};
use peermem_gate::vocabulary::{self, Word};

/// What has a page of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Explained {
    /// A finding of `doctor`; a reason of the same name is a part of it.
    Finding(Id),
    /// Another word.
    Word(Word),
}

/// The subject of a page: everything that has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic(Vec<Explained>);

impl Topic {
    /// What has this name, in any case.
    ///
    /// # Errors
    /// Nothing has this name; the message names some that have it as a part.
    pub fn parse(name: &str) -> Result<Self, String> {
        let (found, others): (Vec<_>, Vec<_>) =
            entries().into_iter().partition(|entry| entry.name().eq_ignore_ascii_case(name));
        if !found.is_empty() {
            return Ok(Self(found));
        }
        let part = name.to_lowercase();
        let is_alike = |one: &&str| !part.is_empty() && one.to_lowercase().contains(&part);
        let mut alike: Vec<_> = others.iter().map(Explained::name).filter(is_alike).collect();
        alike.sort_unstable();
        alike.dedup();
        alike.truncate(5);
        let hint = if alike.is_empty() { String::new() } else { format!("; similar: {}", alike.join(", ")) };
        Err(format!("unknown word{hint} (`peermem-gate explain` lists all that are known)"))
    }

    /// Its page for a terminal so many columns wide.
    pub fn page(&self, columns: usize) -> String {
        let mut page = Page::new(columns).with_whole_words();
        for (at, entry) in self.0.iter().enumerate() {
            if at > 0 {
                page.blank();
            }
            match entry {
                Explained::Finding(id) => of_finding(*id, &mut page),
                Explained::Word(word) => of_word(word, &mut page),
            }
        }
        page.into_text()
    }
}

impl Explained {
    fn name(&self) -> &str {
        match self {
            Self::Finding(id) => id.name(),
            Self::Word(word) => &word.name,
        }
    }

    /// What it is a word for, and its meaning.
    fn head(&self) -> (&'static str, &str) {
        match self {
            Self::Finding(id) => ("finding of `doctor`", id.title()),
            Self::Word(word) => (word.list, &word.meaning),
        }
    }
}

/// Every word that there is a page of, list by list.
fn entries() -> Vec<Explained> {
    let reason = |reason: &Reason| match Id::of(*reason) {
        Some(_) => None,
        None => Some(of_condition(*reason, described(*reason))),
    };
    let words = conditions().into_iter().chain(Reason::ALL.iter().filter_map(reason));
    let words = words.chain(vocabulary::words()).chain(standings()).chain(alerts());
    Id::ALL.iter().map(|id| Explained::Finding(*id)).chain(words.map(Explained::Word)).collect()
}

/// Every word with its meaning, list by list, for a terminal so many columns wide.
pub fn list(columns: usize) -> String {
    let mut page = Page::new(columns).with_whole_words();
    let mut previous = "";
    for entry in entries() {
        let (list, meaning) = entry.head();
        if list != previous {
            if !previous.is_empty() {
                page.blank();
            }
            page.line(list);
            previous = list;
        }
        page.entry(&LinePrefixText::new(2, &format!("{}  ", entry.name())), meaning);
    }
    page.into_text()
}

fn of_finding(id: Id, page: &mut Page) {
    page.entry(&LinePrefixText::new(0, ""), format_args!("{id} ({}): {}", id.severity(), id.title()));
    let rules = RULES.iter().filter(|rule| rule.findings.iter().any(|finding| finding.id == id));
    let lines = rules.flat_map(|rule| rule.patterns.iter().map(move |pattern| (rule, pattern)));
    page.blank();
    page.line(RECOGNIZED);
    if let Some(by) = id.recognized_by() {
        page.entry(&LinePrefixText::new(2, "seen   "), by);
    }
    if let Some(reason) = id.reason() {
        page.entry(&LinePrefixText::new(2, "check  "), described(reason));
        of_condition(reason, String::new()).seen.iter().for_each(|seen| {
            page.entry(&LinePrefixText::new(2, "       "), seen);
        });
    }
    for (rule, pattern) in lines {
        // kubelet's lines have a form of their own, which tells a person nothing.
        let words = if pattern.source == LogSource::Kubelet { rule.phrase } else { pattern.words };
        page.entry(&LinePrefixText::new(2, "log    "), format_args!("{}: {words}", pattern.source));
    }
    related(page, "may follow from", id.causes().iter().copied());
    related(page, "may bring", Id::ALL.iter().copied().filter(|other| other.causes().contains(&id)));
    steps(page, &id.steps());
    page.blank();
    page.line(id.runbook_url());
}

const RECOGNIZED: &str = "how it is recognized";

fn of_word(word: &Word, page: &mut Page) {
    page.entry(&LinePrefixText::new(0, ""), format_args!("{} ({}): {}", word.name, word.list, word.meaning));
    page.blank();
    page.line(RECOGNIZED);
    word.seen.iter().for_each(|seen| page.entry(&LinePrefixText::new(2, ""), seen));
    if !word.steps.is_empty() {
        steps(page, &word.steps);
    }
    page.blank();
    page.line(format_args!("{DOCS}{}", word.page));
}

fn steps(page: &mut Page, steps: &[String]) {
    page.blank();
    page.line("what to do");
    for (at, step) in steps.iter().enumerate() {
        page.entry(&LinePrefixText::new(2, &format!("{}. ", at + 1)), step);
    }
}

fn related(page: &mut Page, head: &str, ids: impl Iterator<Item = Id>) {
    let names: Vec<_> = ids.map(Id::name).collect();
    if !names.is_empty() {
        page.blank();
        page.line(head);
        page.entry(&LinePrefixText::new(2, ""), names.join(", "));
    }
}

fn described(reason: Reason) -> String {
    let consequence = match reason.consequence() {
        Consequence::Passes => "the gate does not wait for it",
        Consequence::Waits => "the gate waits until the condition is met",
        Consequence::Blocks => "the gate stays closed, and waiting does not help",
        Consequence::Exempts => "the gate does not apply to this node",
    };
    format!("{} ({}; {consequence})", reason.meaning(), reason.status())
}
