// SPDX-License-Identifier: Apache-2.0
//! The whole answer of `doctor`: how the node stands, then root causes, and under each what follows
//! from it, then the chain, the runtimes and the conditions. `screen` has the short form.

use super::coverage::Coverage;
use super::evidence::line_of;
use super::runtime;
use super::standing::{Standing, StandingFinding};
use crate::chain::{self, Link};
use crate::finding::{Finding, Id, Severity, urgency};
use crate::peer_memory::PeerMemory;
use crate::symptoms::Symptoms;
use crate::symptoms::logs::UntrustedLog;
use crate::text::counted;
use crate::timeline::DoctorAnswer;
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
#[must_use]
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
    /// How the node stands.
    pub(super) standing: Standing,
    #[serde(skip)]
    pub(super) symptoms: &'a Symptoms,
    /// The user that looked at this node.
    #[serde(skip)]
    user: Option<u32>,
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
    pub fn of(seen: &'a Observation) -> Self {
        let version = |name| seen.modules.sys.get(name)?.version.as_ref().ok()?.as_deref();
        Self { mofed: version("mlx5_core"), nvidia: version("nvidia") }
    }
}

impl<'a> Diagnosis<'a> {
    /// `findings` are in order, and so is `chain`.
    pub fn new(
        report: Report<'a>,
        drivers: Drivers<'a>,
        findings: &'a [Finding],
        chain: &'a [Link],
        symptoms: &'a Symptoms,
    ) -> Self {
        let runtimes = runtime::summaries(&symptoms.runtimes);
        let of_standing = |finding: &'a Finding| StandingFinding {
            id: finding.id.name(),
            severity: finding.severity.name(),
            is_root: finding.is_root(),
        };
        let standing =
            Standing::of(&report.verdict.outcome.to_string(), Some(findings.iter().map(of_standing)));
        let (coverage, not_counted) = (Some(Coverage::of(symptoms)), symptoms.logs.untrusted.as_slice());
        Self {
            report,
            findings,
            drivers,
            chain,
            runtimes,
            coverage,
            not_counted,
            peer_memory: None,
            standing,
            symptoms,
            user: None,
        }
    }

    /// The same, of a look by this user.
    pub fn by_user(self, user: u32) -> Self {
        Self { user: Some(user), ..self }
    }

    /// How the node stands.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// The same, with the facts that `fleet --symvers` compares.
    pub fn with_peer_memory(self, peer_memory: PeerMemory) -> Self {
        Self { peer_memory: Some(peer_memory), ..self }
    }

    /// The same of a node that was not looked at: its report says by itself what it rests on.
    pub(super) fn without_coverage(self) -> Self {
        Self { coverage: None, ..self }
    }

    /// How the node stands, its root causes and its conditions as a Prometheus textfile.
    pub fn metrics(&self) -> String {
        let mut text = format!(
            "# HELP peermem_doctor_info The version of peermem-doctor that wrote this.\n\
             # TYPE peermem_doctor_info gauge\n\
             peermem_doctor_info{{version=\"{}\"}} 1\n\
             # HELP peermem_doctor_standing Whether the node stood so at the last look (1) or not (0).\n\
             # TYPE peermem_doctor_standing gauge\n",
            env!("CARGO_PKG_VERSION")
        );
        for standing in Standing::ALL {
            let is = u8::from(standing == self.standing);
            text += &format!("peermem_doctor_standing{{standing=\"{}\"}} {is}\n", standing.name());
        }
        text += "# HELP peermem_doctor_problem The root causes that are critical or a warning, 1 each.\n\
             # TYPE peermem_doctor_problem gauge\n";
        for root in self.roots().filter(|root| root.severity.is_problem()) {
            text +=
                &format!("peermem_doctor_problem{{id=\"{}\",severity=\"{}\"}} 1\n", root.id, root.severity);
        }
        text + &report::verdict_metrics(self.report.verdict)
    }

    /// The headline, all findings, the chain, the runtimes, and every condition.
    pub fn text(&self, style: Style) -> String {
        let mut page = crate::text::page(style.columns);
        page.painted(self.headline(), self.color(style));
        page.line(self.about(""));
        self.coverage_of_quiet(&mut page);
        let mut is_under_root = false;
        for finding in self.findings {
            match (finding.follows_from.is_some(), is_under_root) {
                (false, _) => page.blank(),
                (true, true) => page.line("    and so"),
                (true, false) => {}
            }
            is_under_root = finding.is_root();
            if is_under_root { root(finding, style, &mut page) } else { consequence(finding, &mut page) }
        }
        page.blank();
        chain::draw(&self.symptoms.chain, self.chain, &mut page);
        runtime::text(&self.symptoms.runtimes, &mut page);
        for untrusted_log in self.not_counted {
            let remedy = format!("--operator-namespace {} counts it", untrusted_log.namespace);
            page.line(format_args!("not read: {untrusted_log}: {remedy}"));
        }
        page.blank();
        match self.report.verdict.deciding() {
            // Behind a gate that does not apply no condition matters.
            Some(condition) if self.report.verdict.outcome == Outcome::NotApplicable => {
                page.line(format_args!("{}: {}", self.gate(), condition.message));
            }
            _ => {
                page.line(self.gate());
                report::conditions(self.report.verdict, style, &mut page);
            }
        }
        page.into_text()
    }

    /// The verdict of the gate, which is one line of the answer.
    pub(super) fn gate(&self) -> String {
        let verdict = self.report.verdict;
        let why = verdict.deciding().map(|condition| format!(" ({})", condition.reason));
        format!("gate: {}{}", verdict.outcome, why.unwrap_or_default())
    }

    /// One ASCII sentence of at most 80 bytes: how the node stands, and why.
    pub fn line(&self) -> String {
        one_line(&self.headline())
    }

    /// How the node stands, and the root cause or the condition that decides that.
    pub(super) fn headline(&self) -> String {
        let standing = self.standing;
        if let Some(sentence) = self.cannot_diagnose() {
            return format!("{standing}: {sentence}");
        }
        match self.first_cause() {
            Some(root) => format!("{standing} {}: {}", root.id, root.title),
            None if standing == Standing::Ok => {
                format!("{standing}: {}", report::headline(self.report.verdict))
            }
            None => format!("{standing} {}", report::headline(self.report.verdict)),
        }
    }

    /// Nothing is known to be wrong, because this user may not read what would show it.
    fn cannot_diagnose(&self) -> Option<String> {
        let is_unread = |f: &&Finding| f.severity == Severity::Unknown && f.id.name().ends_with("Unreadable");
        let unread = self.findings.iter().filter(is_unread);
        let sources: usize = unread.map(|finding| finding.evidence.len()).sum();
        let user = self.user.filter(|user| *user != 0)?;
        let is_blind = self.standing == Standing::Unknown && sources > 0;
        let sources = if sources == 1 { "1 source is".to_owned() } else { format!("{sources} sources are") };
        is_blind.then(|| format!("cannot diagnose: {sources} unreadable for user {user}. Run it as root"))
    }

    /// The color of the headline.
    pub(super) fn color(&self, style: Style) -> Option<&'static str> {
        style.tone(match self.standing {
            Standing::Critical => Tone::Bad,
            Standing::Warning | Standing::Waiting => Tone::Doubtful,
            Standing::Unknown => Tone::Unknown,
            Standing::Ok => Tone::Good,
        })
    }

    /// The same for `timeline`.
    pub fn judged(&self) -> DoctorAnswer {
        let first = self.first_cause().filter(|_| self.standing != Standing::Unknown);
        DoctorAnswer {
            cause: first.map(|first| first.id),
            is_well: self.standing == Standing::Ok,
            wants_rdma: self.symptoms.settings.is_rdma_used(),
        }
    }

    pub(super) fn roots(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.is_root())
    }

    /// The root cause that the headline names, if one decides how the node stands.
    pub(super) fn first_cause(&self) -> Option<&Finding> {
        let mut roots = self.roots();
        match self.standing {
            Standing::Critical | Standing::Warning => roots.next(),
            Standing::Waiting => roots.find(|root| {
                root.id == Id::ChainUnderWay
                    || root.severity == Severity::Info && urgency(root.id, self.findings) != Severity::Info
            }),
            Standing::Unknown => roots.find(|root| root.severity == Severity::Unknown),
            Standing::Ok => None,
        }
    }

    /// Where nothing is wrong, the sources on which that rests.
    pub(super) fn coverage_of_quiet(&self, page: &mut Page) {
        let is_quiet = !self.findings.iter().any(|finding| finding.severity.is_problem());
        if let Some(coverage) = self.coverage.as_ref().filter(|_| is_quiet && self.first_cause().is_none()) {
            coverage.text(page);
        }
    }

    /// The node, and how much is wrong there; of an answer that shows less than all, what is
    /// left out.
    pub(super) fn about(&self, left_out: &str) -> String {
        let Report { node, kernel, arch, .. } = &self.report;
        let node = if node.is_empty() { "this node" } else { node };
        let kernel =
            if kernel.is_empty() { "kernel unknown".to_owned() } else { format!("kernel {kernel} ({arch})") };
        let count = |severity| self.roots().filter(|root| root.severity == severity).count();
        let (critical, warnings, unknown) =
            (count(Severity::Critical), count(Severity::Warning), count(Severity::Unknown));
        let problems = match (critical, warnings) {
            (0, 0) => "no problem found".to_owned(),
            (1, 0) => "1 problem (critical)".to_owned(),
            (0, 1) => "1 problem (warning)".to_owned(),
            (n, 0) => format!("{n} problems (critical)"),
            (0, n) => format!("{n} problems (warnings)"),
            (n, m) => format!("{} problems ({n} critical, {})", n + m, counted(m as u64, "warning")),
        };
        let unknown = if unknown > 0 { format!(", {unknown} unknown") } else { String::new() };
        format!("{node}, {kernel}: {problems}{unknown}{left_out}")
    }
}

/// ASCII, at most 80 bytes, cut between words.
pub(super) fn one_line(text: &str) -> String {
    const BYTES: usize = 80;
    const MORE: &str = " ...";
    let text: String = text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect();
    if text.len() <= BYTES {
        return text;
    }
    let head = &text[..BYTES - MORE.len()];
    head.rsplit_once(' ').map_or(head, |(words, _)| words).trim_end_matches([':', ',']).to_owned() + MORE
}

fn tone(style: Style, severity: Severity) -> Option<&'static str> {
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
