// SPDX-License-Identifier: Apache-2.0
//! What `doctor` says: the verdict first, then root causes, and under each what follows from it.

use super::{Report, runtime};
use crate::chain::{self, Link};
use crate::condition::Outcome;
use crate::finding::{Finding, Severity, urgency};
use crate::observation::Observation;
use crate::symptoms::Symptoms;
use crate::text::Page;
use serde::Serialize;
use std::fmt::Write;

/// What follows stands under its cause.
const INDENT: &str = "        ";

/// A report, and what is wrong. Its JSON form is stable (contract: `peermem-gate/v1`).
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis<'a> {
    #[serde(flatten)]
    report: Report<'a>,
    findings: &'a [Finding],
    drivers: Drivers<'a>,
    chain: &'a [Link],
    runtimes: Vec<runtime::RuntimeSummary<'a>>,
    #[serde(skip)]
    symptoms: &'a Symptoms,
}

/// What runs on the node: a fleet is to be compared by it.
#[derive(Clone, Debug, Serialize)]
pub struct Drivers<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    mofed: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nvidia: Option<&'a str>,
}

impl<'a> Drivers<'a> {
    /// By the modules that are loaded; of MOFED's only `mlx5_core` has a version.
    #[must_use]
    pub fn of(seen: &'a Observation) -> Self {
        let version = |name| seen.modules.sys.get(name)?.version.as_ref().ok()?.as_deref();
        Self { mofed: version("mlx5_core"), nvidia: version("nvidia") }
    }
}

/// Colour, for terminals alone.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// `on` only where a person reads.
    #[must_use]
    pub fn new(on: bool) -> Self {
        Self { on }
    }

    fn severity(self, severity: Severity, text: &str) -> String {
        let code = match severity {
            Severity::Critical => "1;31",
            Severity::Warning => "33",
            Severity::Unknown => "35",
            Severity::Info => "36",
        };
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

impl<'a> Diagnosis<'a> {
    /// `findings` are in order, and so is `chain`.
    #[must_use]
    pub fn new(
        report: Report<'a>,
        drivers: Drivers<'a>,
        findings: &'a [Finding],
        chain: &'a [Link],
        symptoms: &'a Symptoms,
    ) -> Self {
        Self { report, findings, drivers, chain, runtimes: runtime::summaries(&symptoms.runtimes), symptoms }
    }

    /// One object on one line.
    ///
    /// # Errors
    /// None for these types; the signature is serde's.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// The verdict, the findings, and every condition.
    #[must_use]
    pub fn text(&self, paint: Paint) -> String {
        let mut text = self.headline(paint) + "\n" + &self.about() + "\n";
        let mut under_root = false;
        for finding in self.findings {
            let follows = finding.follows_from.is_some();
            text += match (follows, under_root) {
                (false, _) => "\n",
                (true, true) => "    and so\n",
                (true, false) => "",
            };
            text += &told(finding, if follows { INDENT } else { "" }, paint);
            under_root = !follows;
        }
        text += &("\n".to_owned() + &chain::draw(&self.symptoms.chain, self.chain));
        let runtimes = runtime::text(&self.symptoms.runtimes);
        if !runtimes.is_empty() {
            text += &("\n".to_owned() + &runtimes);
        }
        let mut page = Page::default();
        super::conditions(self.report.verdict, &mut page);
        text + "\nconditions\n" + &page.into_text()
    }

    /// A root cause, or what the conditions say.
    fn headline(&self, paint: Paint) -> String {
        let outcome = self.report.verdict.outcome;
        let root = self.findings.first().filter(|root| urgency(root.id, self.findings) != Severity::Info);
        let Some(root) = root else { return self.report.verdict.headline() };
        let but = match outcome {
            Outcome::Ready | Outcome::NotApplicable => ", but",
            Outcome::Waiting | Outcome::Blocked | Outcome::Unknown => ":",
        };
        paint.severity(root.severity, &format!("{outcome}{but} {}: {}", root.id, root.title))
    }

    fn about(&self) -> String {
        let Report { node, kernel, arch, .. } = &self.report;
        let (roots, following): (Vec<_>, Vec<_>) =
            self.findings.iter().partition(|finding| finding.follows_from.is_none());
        let count = |severity| roots.iter().filter(|root| root.severity == severity).count();
        let all = [Severity::Critical, Severity::Warning, Severity::Unknown, Severity::Info];
        let counts =
            all.map(|severity| (count(severity), severity)).into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<_> = counts.map(|(count, severity)| format!("{count} {severity}")).collect();
        let found = match (counts.is_empty(), following.len()) {
            (true, _) => "nothing found".to_owned(),
            (false, 0) => counts.join(", "),
            (false, more) => format!("{}, and {more} more from that", counts.join(", ")),
        };
        format!("{node}, kernel {kernel} ({arch}): {found}")
    }
}

/// The cure of a root cause is the cure of what follows from it, which needs none of its own.
fn told(finding: &Finding, indent: &str, paint: Paint) -> String {
    let severity = paint.severity(finding.severity, &format!("{:<8}", finding.severity));
    let from = finding.follows_from.map(|cause| format!(" (from {cause})")).unwrap_or_default();
    let mut text = format!("{indent}{severity} {}: {}{from}\n", finding.id, finding.title);
    for evidence in &finding.evidence {
        let _ = writeln!(text, "{indent}    seen  {}: {}", evidence.source, evidence.seen);
    }
    for step in finding.remedy.iter().filter(|_| finding.follows_from.is_none()) {
        let _ = writeln!(text, "{indent}    do    {step}");
    }
    text
}
