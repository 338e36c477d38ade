// SPDX-License-Identifier: Apache-2.0
//! From what was seen to what is wrong, and what to do. Pure, like all judging.
//!
//! Each group of judges gives its findings; [`diagnose`] puts them in order. What follows from what
//! stands in the table of findings, and nowhere here.

mod chain;
mod conditions;
mod helm;
mod runtime;

use crate::chain::Link;
use crate::condition::{Outcome, Verdict};
use crate::config::Expectations;
use crate::finding::{Finding, ordered};
use crate::observation::Observation;
use crate::symptoms::Symptoms;

/// All that a judge may know.
pub(super) struct Case<'a> {
    expected: &'a Expectations,
    seen: &'a Observation,
    symptoms: &'a Symptoms,
    verdict: &'a Verdict,
}

/// The readiness chain, judged by all that was seen.
#[must_use]
pub fn links(
    expected: &Expectations,
    seen: &Observation,
    symptoms: &Symptoms,
    verdict: &Verdict,
) -> Vec<Link> {
    Case { expected, seen, symptoms, verdict }.links()
}

/// What is wrong on this node, root cause first. `node` is its name, for the remedies.
#[must_use]
pub fn diagnose(
    expected: &Expectations,
    seen: &Observation,
    symptoms: &Symptoms,
    verdict: &Verdict,
    node: &str,
) -> Vec<Finding> {
    let case = Case { expected, seen, symptoms, verdict };
    let mut found = Vec::new();
    // Where the gate has no business, what it would wait for is no finding.
    if verdict.outcome != Outcome::NotApplicable {
        found.extend(conditions::judge(&case));
    }
    found.extend(chain::judge(&case));
    found.extend(runtime::judge(&case));
    ordered(found, node)
}
