// SPDX-License-Identifier: Apache-2.0
//! Judged conditions, and the verdict that they add up to.

use crate::ready::condition::{ConditionType, Consequence, DOES_NOT_APPLY, Reason, Status, terms};
use crate::ready::consumer::Consumer;
use crate::ready::{consumer, sort};
use serde::{Deserialize, Serialize};

/// One judged condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Which one.
    pub r#type: ConditionType,
    /// Always `reason.status()`; kept so a report is complete in itself.
    pub status: Status,
    /// Why.
    pub reason: Reason,
    /// A sentence that names the thing and the place.
    pub message: String,
    /// The remedy, where a person must act.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub remedy: Option<String>,
    /// The consumers that need it; empty where all of `--for` do.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub r#for: Vec<Consumer>,
}

impl Condition {
    /// A condition without a remedy.
    #[must_use]
    pub fn new(r#type: ConditionType, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            r#type,
            status: reason.status(),
            reason,
            message: message.into(),
            remedy: None,
            r#for: Vec::new(),
        }
    }

    /// The same, needed by these only.
    #[must_use]
    pub fn needed_by(mut self, consumers: Vec<Consumer>) -> Self {
        self.r#for = consumers;
        self
    }

    /// The same, and its message ends with what follows for those that need it.
    #[must_use]
    pub fn exempting(mut self) -> Self {
        let consequence = match self.r#for.as_slice() {
            [] => DOES_NOT_APPLY.to_owned(),
            by => format!("{} needs no MOFED", consumer::names(by)),
        };
        self.message += &format!(": {consequence}");
        self
    }

    /// True where no consumer that needs this condition needs MOFED on this node.
    #[must_use]
    pub fn exempts(&self) -> bool {
        self.reason.consequence() == Consequence::Exempts
    }

    /// True when this condition keeps the gate closed.
    #[must_use]
    pub fn is_unmet(&self) -> bool {
        matches!(self.reason.consequence(), Consequence::Waits | Consequence::Blocks)
    }
}

terms! {
    /// The sum of all conditions.
    #[derive(Serialize, Deserialize)]
    Outcome {
        Ready: "Every condition is met.";
        Waiting: "A condition is not met yet.";
        Blocked: "A condition is not met that waiting cannot cure.";
        NotApplicable: "A condition exempts this node: it needs no MOFED.";
        Unknown: "Nothing is known to be wrong, but something that counts cannot be read.";
    }
}

/// Every condition, in order, and what they add up to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The sum.
    #[serde(rename = "verdict")]
    pub outcome: Outcome,
    /// In the order of [`ConditionType`].
    pub conditions: Vec<Condition>,
}

impl Verdict {
    /// The file of nvidia-peermem is all that is wrong, and a rebuild cures that.
    #[must_use]
    pub fn needs_rebuild(&self) -> bool {
        let others = self.unmet().filter(|c| c.r#type != ConditionType::Settled);
        let mut others = others.map(|c| (c.r#type, c.reason));
        let is_rebuild_due =
            |(r#type, reason): (_, Reason)| r#type == ConditionType::PeermemUsable && reason.needs_rebuild();
        self.outcome == Outcome::Blocked
            && others.next().is_some_and(is_rebuild_due)
            && others.next().is_none()
    }

    /// Sorts the conditions and adds them up.
    #[must_use]
    pub fn of(mut conditions: Vec<Condition>) -> Self {
        sort::sort_by_key(&mut conditions, |c| c.r#type);
        Self { outcome: outcome(&conditions), conditions }
    }

    /// The same verdict with one condition put in place of its namesake, or added.
    #[must_use]
    pub fn replacing(mut self, mut condition: Condition) -> Self {
        if let Some(namesake) = self.get(condition.r#type) {
            condition.r#for.clone_from(&namesake.r#for);
        }
        self.conditions.retain(|c| c.r#type != condition.r#type);
        self.conditions.push(condition);
        Self::of(self.conditions)
    }

    /// The conditions that are not met, first the one that is waited for.
    pub fn unmet(&self) -> impl Iterator<Item = &Condition> {
        self.conditions.iter().filter(|c| c.is_unmet() && self.counts(c))
    }

    /// A consumer on this node needs it.
    #[must_use]
    pub fn counts(&self, condition: &Condition) -> bool {
        counts(&self.conditions, condition)
    }

    /// Why the gate does not apply here: the first reason of each consumer.
    #[must_use]
    pub fn exemptions(&self) -> Vec<&Condition> {
        let mut reasons: Vec<&Condition> = Vec::new();
        for condition in self.conditions.iter().filter(|c| c.exempts()) {
            let is_listed = reasons.iter().any(|listed| listed.r#for == condition.r#for);
            if !is_listed {
                reasons.push(condition);
            }
        }
        reasons
    }

    /// The condition of one type, if it was judged.
    #[must_use]
    pub fn get(&self, r#type: ConditionType) -> Option<&Condition> {
        self.conditions.iter().find(|c| c.r#type == r#type)
    }

    /// The one that decides: it exempts or blocks the gate, or is the first that is not met.
    #[must_use]
    pub fn deciding(&self) -> Option<&Condition> {
        match self.outcome {
            Outcome::Ready => None,
            Outcome::NotApplicable => self.conditions.iter().find(|c| c.exempts()),
            Outcome::Blocked => self.unmet().find(|c| c.reason.consequence() == Consequence::Blocks),
            Outcome::Unknown | Outcome::Waiting => self.unmet().next(),
        }
    }

    /// A condition that is not waited for yet, and will block once it is.
    #[must_use]
    pub fn blocking_later(&self) -> Option<&Condition> {
        let is_waiting = matches!(self.outcome, Outcome::Waiting | Outcome::Unknown);
        self.unmet().find(|c| is_waiting && c.reason.consequence() == Consequence::Blocks)
    }

    /// Cause first, ASCII, at most 80 bytes: what node-problem-detector shows.
    #[must_use]
    pub fn headline(&self) -> String {
        let exemptions = self.exemptions();
        match self.deciding() {
            None => "MOFED is ready".to_owned(),
            Some(_) if self.outcome == Outcome::NotApplicable && exemptions.len() > 1 => {
                let reasons: Vec<_> = exemptions.iter().map(|c| c.reason.to_string()).collect();
                format!("{}: nothing here needs MOFED", reasons.join(", "))
            }
            Some(c) => format!("{}: {}", c.reason, c.reason.meaning()),
        }
    }
}

fn outcome(conditions: &[Condition]) -> Outcome {
    let unmet: Vec<_> = conditions.iter().filter(|c| c.is_unmet() && counts(conditions, c)).collect();
    // A deleted directory never comes back, whatever else is still to come.
    let unlinked = unmet.iter().any(|c| c.reason == Reason::MarkerDirectoryUnlinked);
    match unmet.first() {
        _ if is_exempt(conditions) => Outcome::NotApplicable,
        None => Outcome::Ready,
        Some(_) if unlinked => Outcome::Blocked,
        Some(first) if first.reason.consequence() == Consequence::Blocks => Outcome::Blocked,
        Some(_) if is_undecided(&unmet) => Outcome::Unknown,
        Some(_) => Outcome::Waiting,
    }
}

/// One of those who need it is not exempted.
fn counts(conditions: &[Condition], condition: &Condition) -> bool {
    let has_business = |one| !conditions.iter().any(|c| c.exempts() && c.r#for.contains(one));
    condition.r#for.is_empty() || condition.r#for.iter().any(has_business)
}

/// No consumer on this node needs MOFED.
fn is_exempt(conditions: &[Condition]) -> bool {
    let mut exempting = conditions.iter().filter(|c| c.exempts()).peekable();
    let needs = conditions.iter().filter(|c| !c.r#for.is_empty());
    exempting.peek().is_some()
        && (exempting.any(|c| c.r#for.is_empty()) || !needs.into_iter().any(|c| counts(conditions, c)))
}

/// Settling waits for the others, so it does not count as something that is known to be wrong.
fn is_undecided(unmet: &[&Condition]) -> bool {
    let mut others = unmet.iter().filter(|c| c.r#type != ConditionType::Settled).peekable();
    others.peek().is_some() && others.all(|c| c.status == Status::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unlinked_directory_blocks_even_behind_something_unknown() {
        let verdict = Verdict::of(vec![
            Condition::new(ConditionType::MarkerPresent, Reason::MarkerDirectoryUnlinked, ""),
            Condition::new(ConditionType::NicPresent, Reason::DevicesUnreadable, ""),
        ]);
        assert_eq!(verdict.outcome, Outcome::Blocked);
        assert_eq!(verdict.deciding().unwrap().reason, Reason::MarkerDirectoryUnlinked);
    }

    fn with_reasons(reasons: &[(ConditionType, Reason)]) -> Verdict {
        Verdict::of(reasons.iter().map(|(r#type, reason)| Condition::new(*r#type, *reason, "")).collect())
    }

    #[test]
    fn a_rebuild_is_for_the_file_and_for_nothing_else() {
        use ConditionType::{HeadersReady, MarkerPresent, PeermemUsable, Settled};
        for reason in Reason::ALL.iter().copied() {
            let alone = with_reasons(&[(PeermemUsable, reason), (Settled, Reason::Settling)]);
            assert_eq!(alone.needs_rebuild(), reason.needs_rebuild(), "{reason}");
            let late = with_reasons(&[(PeermemUsable, reason), (MarkerPresent, Reason::MarkerAbsent)]);
            assert!(!late.needs_rebuild(), "{reason}");
            let unseen = with_reasons(&[(PeermemUsable, reason), (HeadersReady, Reason::HeadersUnreadable)]);
            assert!(!unseen.needs_rebuild(), "{reason}");
        }
        let settled = with_reasons(&[(PeermemUsable, Reason::StubModule), (Settled, Reason::Held)]);
        assert!(settled.needs_rebuild());
    }
}
