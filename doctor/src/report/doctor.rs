// SPDX-License-Identifier: Apache-2.0
//! The whole answer of `doctor`: the verdict first, then root causes, and under each what follows
//! from it, then the chain, the runtimes and the conditions. `screen` has the short form.

use super::coverage::Coverage;
use super::evidence::line_of;
use super::runtime;
use crate::chain::{self, Link};
use crate::finding::{Finding, Severity, urgency};
use crate::peer_memory::PeerMemory;
use crate::symptoms::Symptoms;
use crate::symptoms::logs::UntrustedLog;
use peermem_gate::ready::observation::Observation;
use peermem_gate::ready::verdict::Outcome;
use peermem_gate::text::{LinePrefixText, Page};
use peermem_gate::words::report;
use peermem_gate::words::report::Report;
use peermem_gate::words::report::style::{Style, Tone};
use serde::Serialize;

/// Columns before a finding that is below its cause.
const INDENT: usize = 8;

/// A report, and what is wrong. Its JSON form is stable (contract: `peermem-gate/v1`).
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis<'a> {
    #[serde(flatten)]
    report: Report<'a>,
    pub(super) findings: &'a [Finding],
    drivers: Drivers<'a>,
    pub(super) chain: &'a [Link],
    runtimes: Vec<runtime::RuntimeSummary<'a>>,
    #[serde(flatten)]
    pub(super) coverage: Option<Coverage>,
    /// Logs that were not read: no operator's.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    not_counted: &'a [UntrustedLog],
    #[serde(skip_serializing_if = "Option::is_none")]
    peer_memory: Option<PeerMemory>,
    #[serde(skip)]
    pub(super) symptoms: &'a Symptoms,
}

/// Versions on the node, by which `fleet` compares nodes.
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
        let runtimes = runtime::summaries(&symptoms.runtimes);
        let (coverage, not_counted) = (Some(Coverage::of(symptoms)), symptoms.logs.strangers.as_slice());
        Self {
            report,
            findings,
            drivers,
            chain,
            runtimes,
            coverage,
            not_counted,
            peer_memory: None,
            symptoms,
        }
    }

    /// The same, with the facts that `fleet --symvers` compares.
    #[must_use]
    pub fn with_peer_memory(self, peer_memory: PeerMemory) -> Self {
        Self { peer_memory: Some(peer_memory), ..self }
    }

    /// The same of a node that was not looked at: its report says by itself what it rests on.
    #[must_use]
    pub(super) fn without_coverage(self) -> Self {
        Self { coverage: None, ..self }
    }

    /// One object on one line.
    ///
    /// # Errors
    /// None for these types; the signature is serde's.
    pub fn json(&self) -> serde_json::Result<String> {
        peermem_gate::text::json(self)
    }

    /// The verdict, all findings, the chain, the runtimes, and every condition.
    #[must_use]
    pub fn text(&self, style: Style) -> String {
        let mut page = crate::text::page(style.columns);
        self.headline(style, &mut page);
        page.line(self.about(""));
        self.coverage_of_quiet(&mut page);
        let mut is_under_root = false;
        for finding in self.findings {
            match (finding.follows_from.is_some(), is_under_root) {
                (false, _) => page.blank(),
                (true, true) => page.line("    and so"),
                (true, false) => {}
            }
            is_under_root = finding.follows_from.is_none();
            if is_under_root { root(finding, style, &mut page) } else { consequence(finding, &mut page) }
        }
        page.blank();
        chain::draw(&self.symptoms.chain, self.chain, &mut page);
        runtime::text(&self.symptoms.runtimes, &mut page);
        for stranger in self.not_counted {
            let remedy = format!("--operator-namespace {} counts it", stranger.namespace);
            page.line(format_args!("not read: {stranger}: {remedy}"));
        }
        page.blank();
        page.line("conditions");
        report::conditions(self.report.verdict, style, &mut page);
        page.into_text()
    }

    /// The verdict, and the first root cause or what the conditions say.
    pub(super) fn headline(&self, style: Style, page: &mut Page) {
        let outcome = self.report.verdict.outcome;
        // A driver that is being built cures a missing file: nothing is blocked for good.
        let is_quiet = self.findings.iter().all(|finding| finding.severity == Severity::Info);
        let outcome = if outcome == Outcome::Blocked && is_quiet { Outcome::Waiting } else { outcome };
        let Some(root) = self.first_cause() else {
            let headline = self.report.verdict.headline();
            // Only of Ready the conditions' headline begins with the verdict.
            let verdict = if outcome == Outcome::Ready { String::new() } else { format!("{outcome}: ") };
            return page.painted(verdict + &headline, style.outcome(outcome));
        };
        let but = match outcome {
            Outcome::Ready | Outcome::NotApplicable => ", but",
            Outcome::Waiting | Outcome::Blocked | Outcome::Unknown => ":",
        };
        page.painted(format_args!("{outcome}{but} {}: {}", root.id, root.title), tone(style, root.severity));
    }

    /// The root cause that the headline names, if anything is wrong.
    pub(super) fn first_cause(&self) -> Option<&Finding> {
        self.findings.first().filter(|root| urgency(root.id, self.findings) != Severity::Info)
    }

    /// Where nothing alarms, what that rests on.
    pub(super) fn coverage_of_quiet(&self, page: &mut Page) {
        if let Some(coverage) = self.coverage.as_ref().filter(|_| self.first_cause().is_none()) {
            coverage.text(page);
        }
    }

    /// Which node, and how much was found; behind the count of consequences, what becomes of them here.
    pub(super) fn about(&self, consequences_are: &str) -> String {
        let Report { node, kernel, arch, .. } = &self.report;
        let (roots, following): (Vec<_>, Vec<_>) =
            self.findings.iter().partition(|finding| finding.follows_from.is_none());
        let count = |severity| roots.iter().filter(|root| root.severity == severity).count();
        let all = [Severity::Critical, Severity::Warning, Severity::Unknown, Severity::Info];
        let counts =
            all.map(|severity| (count(severity), severity)).into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<_> = counts.map(|(count, severity)| format!("{count} {severity}")).collect();
        let follow =
            |more| format!("{more} consequence{}{consequences_are}", if more == 1 { "" } else { "s" });
        let found = match (roots.len(), following.len()) {
            (0, _) => "nothing found".to_owned(),
            (1, 0) => format!("1 root cause ({})", roots[0].severity),
            (1, more) => format!("1 root cause ({}); {}", roots[0].severity, follow(more)),
            (n, 0) => format!("{n} root causes ({})", counts.join(", ")),
            (n, more) => format!("{n} root causes ({}); {}", counts.join(", "), follow(more)),
        };
        format!("{node}, kernel {kernel} ({arch}): {found}")
    }
}

pub(super) fn tone(style: Style, severity: Severity) -> Option<&'static str> {
    style.tone(match severity {
        Severity::Critical => Tone::Bad,
        Severity::Warning => Tone::Doubtful,
        Severity::Unknown => Tone::Unknown,
        Severity::Info => Tone::Plain,
    })
}

pub(super) fn root(finding: &Finding, style: Style, page: &mut Page) {
    page.entry(&label(finding, style), title(finding));
    for evidence in &finding.evidence {
        page.entry(&LinePrefixText::new(4, "seen  "), line_of(evidence));
    }
    for step in &finding.remedy {
        page.entry(&LinePrefixText::new(4, "do    "), step);
    }
}

/// The cure of a root cause is the cure of what follows from it, which is no alarm by itself.
pub(super) fn consequence(finding: &Finding, page: &mut Page) {
    let from = finding.follows_from.map(|cause| format!(" (from {cause})")).unwrap_or_default();
    page.entry(&LinePrefixText::new(INDENT, ""), format_args!("{}{from}", title(finding)));
    for evidence in &finding.evidence {
        page.entry(&LinePrefixText::new(INDENT + 4, "seen  "), line_of(evidence));
    }
}

pub(super) fn label(finding: &Finding, style: Style) -> LinePrefixText {
    LinePrefixText::new(0, &format!("{:<8} ", finding.severity)).colored(tone(style, finding.severity))
}

pub(super) fn title(finding: &Finding) -> String {
    format!("{}: {}", finding.id, finding.title)
}
