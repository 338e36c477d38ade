// SPDX-License-Identifier: Apache-2.0
//! Findings of `doctor`: the words for them, and which of them follows from which.
//!
//! A finding's id decides its severity, title, remedy and possible causes ([`Id`]); the evidence is
//! the node's. Where a finding is a condition's reason, it has the reason's name.

mod any_node;
mod by_words;
pub mod cause;
pub mod fact;
mod host;
mod own_step;
mod stage;
mod table;

use cause::FailureCause;
use peermem_gate::ready::condition::Reason;
use peermem_gate::ready::observation::Evidence;
use peermem_gate::words::remedy::{CommandText, DRAIN_STEP, Fact, Facts, MOFED_DRAIN_STEP, Step, with_drain};
use serde::{Serialize, Serializer};
use std::fmt;

pub use own_step::is_own_step;
pub use stage::Stage;
pub use table::Id;

/// How bad it is, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Does not pass by itself.
    Critical,
    /// Wrong, or suspicious; may pass.
    Warning,
    /// Not visible: a permission or a mount is missing.
    Unknown,
    /// Worth knowing; nothing is wrong with it.
    Info,
}

named!(Severity: Critical = "critical", Warning = "warning", Unknown = "unknown", Info = "info");

impl Severity {
    /// Something is wrong.
    pub fn is_problem(self) -> bool {
        matches!(self, Self::Critical | Self::Warning)
    }
}

/// The subject of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// A source that cannot be read.
    Source,
    /// A container's view of the host.
    View,
    /// A GPU.
    Gpu,
    /// The node itself: its disk, its memory, its images.
    Node,
    /// MOFED: who provides it, its marker, modules and headers.
    Mofed,
    /// Fabric Manager and the `NVLink` switches.
    Fabric,
    /// RDMA devices beyond MOFED's readiness.
    Rdma,
    /// nvidia-peermem and its build.
    Peermem,
    /// NVIDIA's driver.
    Driver,
    /// The GPU Operator's readiness chain.
    Chain,
    /// The container runtime, the toolkit and the device plugin.
    Runtime,
    /// Networks of pods.
    Network,
    /// Nothing is wrong with it: an alternative, or a help.
    Hint,
}

/// One thing that is wrong, or worth knowing.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable; docs/findings.md explains each.
    pub id: Id,
    /// `id.severity()`; `Info` for a finding that follows from another, because the cause has the alarm.
    pub severity: Severity,
    /// Always `id.title()`.
    pub title: &'static str,
    /// The sources, and the words there; never empty.
    pub evidence: Vec<Evidence>,
    /// Steps that a person can take, in this order. Set by [`ordered`].
    pub remedy: Vec<String>,
    /// The same steps with placeholders for the words of this node; none where they have no such words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Always `id.runbook_url()`.
    pub runbook_url: String,
    /// Facts beyond the node's, only for the steps of this finding.
    #[serde(skip)]
    pub facts: Facts,
    /// The step on which the container works that the evidence quotes; of several the earliest.
    #[serde(skip)]
    pub stage: Option<Stage>,
    /// The finding that it comes from: it goes when that goes. Set by [`ordered`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follows_from: Option<Id>,
}

impl Finding {
    /// With all that the id says; [`Finding::seen`] adds more evidence.
    pub fn new(id: Id, source: impl fmt::Display, seen: impl Into<String>) -> Self {
        Self {
            id,
            severity: id.severity(),
            title: id.title(),
            evidence: vec![Evidence::new(source.to_string(), seen)],
            remedy: Vec::new(),
            steps: Vec::new(),
            runbook_url: id.runbook_url(),
            facts: Facts::default(),
            stage: None,
            follows_from: None,
        }
    }

    /// One of all this evidence, each a source and the words there; none of none.
    pub fn of<S: fmt::Display, W: Into<String>>(
        id: Id,
        evidence: impl IntoIterator<Item = (S, W)>,
    ) -> Option<Self> {
        evidence.into_iter().map(|(source, seen)| Self::new(id, source, seen)).reduce(Self::and)
    }

    /// It follows from no other.
    pub fn is_root(&self) -> bool {
        self.follows_from.is_none()
    }

    /// The same, with one more piece of evidence.
    pub fn seen(mut self, source: impl fmt::Display, seen: impl Into<String>) -> Self {
        self.evidence.push(Evidence::new(source.to_string(), seen));
        self
    }

    /// The same, with all of this.
    pub fn all<S: fmt::Display, W: Into<String>>(self, evidence: impl IntoIterator<Item = (S, W)>) -> Self {
        evidence.into_iter().fold(self, |finding, (source, seen)| finding.seen(source, seen))
    }

    /// The same, as the words of this container, or about it.
    pub fn of_container<'n>(mut self, name: impl Into<Option<&'n str>>) -> Self {
        self.stage = name.into().and_then(Stage::of_container).or(self.stage);
        self
    }

    /// The same, with what is known of a fact that its steps depend on.
    pub fn with(mut self, fact: Fact, holds: bool) -> Self {
        self.facts = self.facts.with(fact, Some(holds));
        self
    }

    /// The same, with the text for a word in its steps' braces.
    pub fn word(mut self, name: &'static str, text: impl Into<CommandText>) -> Self {
        self.facts = self.facts.word(name, text);
        self
    }

    /// The same, with the reason that its words name: it decides the first step.
    pub fn because(mut self, words: &str) -> Self {
        if let Some(cause) = FailureCause::of(words) {
            let newer = Some(cause.is_of_the_release());
            self.facts = self.facts.with(cause.fact(), Some(true)).with(fact::NEWER_HELPS, newer);
        }
        self.word("kernel-compiler", "the compiler that built the kernel")
    }

    /// The same, with the evidence of another of its id; the same evidence is reported once.
    pub fn and(mut self, other: Self) -> Self {
        self.stage = self.stage.into_iter().chain(other.stage).min();
        for evidence in other.evidence {
            if !self.evidence.contains(&evidence) {
                self.evidence.push(evidence);
            }
        }
        self
    }
}

/// Every step that a finding may have on some node: those of its row, then those that any finding may have.
pub fn all_steps(id: Id) -> Vec<Step> {
    [id.remedy(), by_words::STEPS, host::INSTEAD, &[DRAIN_STEP, MOFED_DRAIN_STEP]].concat()
}

/// The steps that a reason in the words of the evidence decides, for a reader without a node.
pub fn steps_by_words() -> Vec<String> {
    let facts = any_node::of_none();
    by_words::STEPS.iter().map(|step| facts.fill(&step.conditional())).collect()
}

/// Where the pages of this release are: at its tag.
pub const DOCS: &str =
    concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/peermem-doctor-v", env!("CARGO_PKG_VERSION"), "/docs/");

impl Id {
    /// Where its remedy is explained, for a reader without the program. A title's anchor is the id in lower case.
    pub fn runbook_url(self) -> String {
        format!("{DOCS}findings.md#{}", self.name().to_lowercase())
    }

    /// The steps of its remedy for any node, with their conditions and with placeholders.
    pub fn steps(self) -> Vec<String> {
        let facts = any_node::of_none();
        with_drain(self.remedy().to_vec()).iter().map(|step| facts.fill(&step.conditional())).collect()
    }

    /// The finding of a reason; every reason that keeps the gate closed has one.
    pub fn of(reason: Reason) -> Option<Self> {
        Self::ALL.iter().copied().find(|id| id.reason() == Some(reason))
    }

    /// Whether this, which is wrong, may stop that step of the readiness chain. A file that was left behind is no
    /// step; no RDMA port and no link below /dev/char is needed for one; and the container runtime only for those
    /// that come after the driver.
    fn may_stop(self, step: Self) -> bool {
        let is_late = matches!(step, Self::ToolkitNotReady | Self::ValidationIncomplete);
        match self.group() {
            _ if self == Self::DevCharLinksMissing || step == Self::DriverCtrReadyStale => false,
            Group::Chain | Group::Rdma => false,
            Group::Runtime | Group::Network => is_late,
            _ => true,
        }
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One finding an id, with the evidence of all; root causes first, worst first, and under each what
/// follows from it. The remedies are chosen by what is known of this node.
pub fn ordered(found: Vec<Finding>, facts: &Facts) -> Vec<Finding> {
    let mut all = merged(found);
    all.sort_by_key(|finding| finding.id);
    let causes: Vec<_> = all.iter().map(|finding| cause(finding, &all)).collect();
    for (finding, cause) in all.iter_mut().zip(causes) {
        finding.follows_from = cause;
        let facts = facts.clone().and(&finding.facts);
        let remedy = host::possible(&[by_words::STEPS, finding.id.remedy()].concat(), &facts);
        finding.remedy = facts.choose(&remedy);
        let steps = any_node::facts(&facts).choose(&remedy);
        finding.steps = if steps == finding.remedy { Vec::new() } else { steps };
    }
    stopped_by_the_worst(&mut all);
    for finding in all.iter_mut().filter(|finding| finding.follows_from.is_some()) {
        finding.severity = Severity::Info;
    }
    let mut roots: Vec<_> = all.iter().filter(|f| f.is_root()).map(|f| f.id).collect();
    roots.sort_by_key(|id| (urgency(*id, &all), id.severity(), *id));
    let mut order = Vec::with_capacity(all.len());
    for root in roots {
        descend(root, &all, &mut order);
    }
    all.sort_by_key(|finding| order.iter().position(|id| *id == finding.id));
    all
}

/// The first of the table's causes that was found too, else the words that explain a state. A cause is above what
/// follows from it in the table, and no words follow from a state that they explain, so there is no circle.
fn cause(finding: &Finding, all: &[Finding]) -> Option<Id> {
    let found = |id: &Id| all.iter().any(|other| other.id == *id);
    let mut causes = finding.id.causes().iter().copied();
    let by_table = causes.find(|cause| found(cause) && !stage::explains(finding, *cause));
    let words = || all.iter().filter(|other| stage::explains(other, finding.id));
    by_table.or_else(|| words().min_by_key(|other| (other.stage, other.id)).map(|other| other.id))
}

/// A step of the readiness chain is stopped by the worst of what may stop it, though nothing says so.
fn stopped_by_the_worst(all: &mut [Finding]) {
    let is_loud = |finding: &&Finding| matches!(finding.severity, Severity::Critical | Severity::Warning);
    let roots = all.iter().filter(|finding| finding.is_root()).filter(is_loud);
    let mut roots: Vec<_> = roots.map(|finding| (finding.severity, finding.id)).collect();
    roots.sort_unstable();
    for step in all.iter_mut().filter(|finding| finding.id.group() == Group::Chain) {
        let worst = roots.iter().map(|(_, root)| *root).find(|root| root.may_stop(step.id));
        step.follows_from = step.follows_from.or(worst);
    }
}

fn merged(found: Vec<Finding>) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::with_capacity(found.len());
    for finding in found {
        match all.iter_mut().find(|other| other.id == finding.id) {
            None => all.push(finding),
            Some(other) => *other = other.clone().and(finding),
        }
    }
    all
}

/// The severity for the order of root causes. A harmless one comes before the unknown if others come from it: it
/// explains them. But that there is no GPU explains nothing that is wrong.
pub fn urgency(root: Id, all: &[Finding]) -> Severity {
    let explains = root != Id::NoGpu && all.iter().any(|finding| finding.follows_from == Some(root));
    if explains { root.severity().min(Severity::Warning) } else { root.severity() }
}

fn descend(cause: Id, all: &[Finding], order: &mut Vec<Id>) {
    order.push(cause);
    for finding in all.iter().filter(|finding| finding.follows_from == Some(cause)) {
        descend(finding.id, all, order);
    }
}
