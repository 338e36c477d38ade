// SPDX-License-Identifier: Apache-2.0
//! The page of a reason or a finding: its meaning, how it is recognized and the steps, from the tables of findings,
//! log rules and reasons, which docs/findings.md is made of too. Pure.

use crate::finding::Id;
use crate::log::{LogSource, RULES};
use peermem_gate::ready::condition::{Consequence, Reason};
use peermem_gate::text::{LinePrefixText, Page};
use std::str::FromStr;

/// The subject of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A finding of `doctor`; a reason of the same name is a part of it.
    Finding(Id),
    /// A reason that has no finding, because nothing is wrong with it.
    Reason(Reason),
}

impl Topic {
    /// The finding or the reason of this name, in any case.
    ///
    /// # Errors
    /// Nothing has this name; the message names some that have it as a part.
    pub fn parse(name: &str) -> Result<Self, String> {
        Self::from_str(name)
    }

    /// Its page for a terminal so many columns wide.
    #[must_use]
    pub fn page(self, columns: usize) -> String {
        let mut page = Page::new(columns).with_whole_words();
        match self {
            Self::Finding(id) => of_finding(id, &mut page),
            Self::Reason(reason) => of_reason(reason, &mut page),
        }
        page.into_text()
    }
}

/// Where names are explained that are no finding's and no reason's.
const ELSEWHERE: &str = concat!(
    env!("CARGO_PKG_REPOSITORY"),
    "/blob/main/docs has exit codes in usage.md, why a rebuild is refused in heal.md, and the states of keep in sidecar.md"
);

impl FromStr for Topic {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let is_it = |other: &str| other.eq_ignore_ascii_case(name);
        let finding = Id::ALL.iter().find(|id| is_it(id.name())).map(|id| Self::Finding(*id));
        let reason = || Reason::ALL.iter().find(|one| is_it(&one.to_string())).map(|one| Self::Reason(*one));
        finding.or_else(reason).ok_or_else(|| {
            let part = name.to_lowercase();
            let reasons = Reason::ALL.iter().map(ToString::to_string);
            let all = Id::ALL.iter().map(ToString::to_string).chain(reasons);
            let mut alike: Vec<_> =
                all.filter(|one| !part.is_empty() && one.to_lowercase().contains(&part)).collect();
            alike.sort();
            alike.dedup();
            alike.truncate(5);
            let hint =
                if alike.is_empty() { String::new() } else { format!("; similar: {}", alike.join(", ")) };
            format!("unknown name of a finding or reason{hint} ({ELSEWHERE})")
        })
    }
}

fn of_finding(id: Id, page: &mut Page) {
    page.entry(&LinePrefixText::new(0, ""), format_args!("{id} ({}): {}", id.severity(), id.title()));
    let rules = RULES.iter().filter(|rule| rule.findings.iter().any(|finding| finding.id == id));
    let lines = rules.flat_map(|rule| rule.patterns.iter().map(move |pattern| (rule, pattern)));
    page.blank();
    page.line("how it is recognized");
    if let Some(by) = id.recognized_by() {
        page.entry(&LinePrefixText::new(2, "seen   "), by);
    }
    if let Some(reason) = id.reason() {
        page.entry(&LinePrefixText::new(2, "check  "), described(reason));
    }
    for (rule, pattern) in lines {
        // kubelet's lines have a form of their own, which tells a person nothing.
        let words = if pattern.source == LogSource::Kubelet { rule.phrase } else { pattern.words };
        page.entry(&LinePrefixText::new(2, "log    "), format_args!("{}: {words}", pattern.source));
    }
    related(page, "may follow from", id.causes().iter().copied());
    related(page, "may bring", Id::ALL.iter().copied().filter(|other| other.causes().contains(&id)));
    page.blank();
    page.line("what to do");
    for (at, step) in id.steps().into_iter().enumerate() {
        page.entry(&LinePrefixText::new(2, &format!("{}. ", at + 1)), step);
    }
    page.blank();
    page.line(id.runbook_url());
}

fn related(page: &mut Page, head: &str, ids: impl Iterator<Item = Id>) {
    let names: Vec<_> = ids.map(Id::name).collect();
    if !names.is_empty() {
        page.blank();
        page.line(head);
        page.entry(&LinePrefixText::new(2, ""), names.join(", "));
    }
}

fn of_reason(reason: Reason, page: &mut Page) {
    page.entry(&LinePrefixText::new(0, ""), format_args!("{reason}: {}", described(reason)));
}

fn described(reason: Reason) -> String {
    let consequence = match reason.consequence() {
        Consequence::Passes => "the gate does not wait for it",
        Consequence::Waits => "the gate waits until the condition is met",
        Consequence::Blocks => "the gate stays closed, and waiting does not help",
        Consequence::Exempts => "the gate does not apply to this node",
    };
    format!("{} ({}; {consequence})", reason.summary(), reason.status())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_and_every_reason_has_a_page_with_what_to_do() {
        for id in Id::ALL {
            let page = id.name().parse::<Topic>().unwrap().page(80);
            assert!(!page.contains("recognized\n\n"), "nothing says how it is recognized: {page}");
            assert!(
                page.starts_with(id.name()) && page.contains("\n  1. ") && page.contains("docs/findings.md#"),
                "{page}"
            );
        }
        for reason in Reason::ALL {
            let page = reason.to_string().parse::<Topic>().unwrap().page(80);
            let words: String = page.split_whitespace().collect();
            let summary: String = reason.summary().split_whitespace().collect();
            assert!(words.contains(&summary), "{page}");
        }
    }

    #[test]
    fn a_name_is_found_in_any_case_and_an_unknown_one_gets_names_like_it() {
        assert_eq!("stubmodule".parse(), Ok(Topic::Finding(Id::StubModule)));
        let unknown = "Stub".parse::<Topic>().unwrap_err();
        assert!(unknown.contains("StubModule"), "{unknown}");
        assert!("".parse::<Topic>().is_err() && "no such".parse::<Topic>().is_err());
    }
}
