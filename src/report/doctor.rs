// SPDX-License-Identifier: Apache-2.0
//! What `doctor` says: the verdict first, then root causes, and under each what follows from it.

use super::{Report, runtime};
use crate::chain::{self, Link};
use crate::finding::{Finding, Severity};
use crate::observation::Observation;
use crate::symptoms::Symptoms;
use serde::Serialize;
use std::fmt::Write;

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
        let mut text = self.headline(paint) + "\n" + &self.about() + "\n\n";
        for finding in self.findings {
            text += &told(finding, paint);
        }
        text += &(chain::draw(&self.symptoms.chain, self.chain) + "\n");
        let runtimes = runtime::text(&self.symptoms.runtimes);
        if !runtimes.is_empty() {
            text += &(runtimes + "\n");
        }
        text + "conditions\n" + &self.report.conditions()
    }

    fn headline(&self, paint: Paint) -> String {
        let outcome = self.report.verdict.outcome;
        match self.findings.first().filter(|root| root.severity != Severity::Info) {
            None => self.report.verdict.headline(),
            Some(root) => paint.severity(root.severity, &format!("{outcome}: {}: {}", root.id, root.title)),
        }
    }

    fn about(&self) -> String {
        let Report { node, kernel, arch, .. } = &self.report;
        let count = |severity| self.findings.iter().filter(|f| f.severity == severity).count();
        let all = [Severity::Critical, Severity::Warning, Severity::Unknown, Severity::Info];
        let counts: Vec<_> = all.into_iter().map(|s| (count(s), s)).filter(|(n, _)| *n > 0).collect();
        let counts: Vec<_> = counts.iter().map(|(n, severity)| format!("{n} {severity}")).collect();
        let found = if counts.is_empty() { "nothing found".to_owned() } else { counts.join(", ") };
        format!("{node}, kernel {kernel} ({arch}): {found}")
    }
}

/// The cure of a root cause is the cure of what follows from it, which needs none of its own.
fn told(finding: &Finding, paint: Paint) -> String {
    let severity = paint.severity(finding.severity, &format!("{:<8}", finding.severity));
    let (indent, from) = match finding.follows_from {
        None => ("", String::new()),
        Some(cause) => ("    ", format!(" (from {cause})")),
    };
    let mut text = format!("{indent}{severity} {}: {}{from}\n", finding.id, finding.title);
    for evidence in &finding.evidence {
        let _ = writeln!(text, "{indent}    seen  {}: {}", evidence.source, evidence.seen);
    }
    if finding.follows_from.is_none() {
        for step in &finding.remedy {
            let _ = writeln!(text, "{indent}    do    {step}");
        }
    }
    text + "\n"
}
