// SPDX-License-Identifier: Apache-2.0
//! Reports of a look, for people, for machines, and for the termination log.

pub mod style;

use crate::ready::condition::{ConditionType, Reason, Status};
use crate::ready::consumer;
use crate::ready::consumer::Consumer;
use crate::ready::judge::next_build::NextBuild;
use crate::ready::node::Node;
use crate::ready::observation::Kernel;
use crate::ready::verdict::{Condition, Outcome, Verdict};
use crate::text::{LinePrefixText, Page, json, json_escaped};
use serde::Serialize;
use std::fmt;
use std::time::SystemTime;
use style::Style;

/// Kubernetes keeps more, but shows 2,048 bytes in all and shares them among containers.
const TERMINATION_LOG: usize = 1024;

/// The schema of all reports.
pub const SCHEMA: &str = "peermem-gate/v1";

/// The verdict's own headline; of one that waits for nothing, with what it rests on.
#[must_use]
pub fn headline(verdict: &Verdict) -> String {
    let peermem = verdict.get(ConditionType::PeermemUsable).filter(|c| verdict.counts(c));
    match (verdict.outcome, peermem.map(|c| c.reason)) {
        (Outcome::Ready, Some(Reason::NotRequired)) => {
            "MOFED is ready. nvidia-peermem.ko was not checked: `peermem-gate doctor` does".to_owned()
        }
        (Outcome::Ready, Some(_)) => "MOFED is ready, and nvidia-peermem is live or can be loaded".to_owned(),
        _ => verdict.headline(),
    }
}

/// One report; its JSON form is stable (contract: `peermem-gate/v1`).
#[derive(Clone, Debug, Serialize)]
pub struct Report<'a> {
    schema: &'static str,
    version: &'static str,
    /// The node's name.
    pub node: &'a str,
    /// `uname -r`.
    pub kernel: &'a str,
    /// `uname -m`.
    pub arch: &'a str,
    boot_id: Option<&'a str>,
    time: String,
    r#for: &'a [Consumer],
    /// The conditions, and their sum.
    #[serde(flatten)]
    pub verdict: &'a Verdict,
    /// What a driver container would do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_build: Option<NextBuild>,
}

impl<'a> Report<'a> {
    /// By the program of this version. A node without a name of the cluster's has the host's own.
    #[must_use]
    pub fn new(
        version: &'static str,
        node: &'a Node,
        kernel: &'a Kernel,
        verdict: &'a Verdict,
        time: SystemTime,
    ) -> Self {
        Self {
            schema: SCHEMA,
            version,
            node: node.expected.node_name.as_deref().unwrap_or(&kernel.hostname),
            kernel: &kernel.release,
            arch: &kernel.machine,
            boot_id: kernel.boot_id.as_deref(),
            time: humantime::format_rfc3339_seconds(time).to_string(),
            r#for: &node.expected.consumers,
            verdict,
            next_build: None,
        }
    }

    /// One object on one line.
    ///
    /// # Errors
    /// None for these types; the signature is serde's.
    pub fn json(&self) -> serde_json::Result<String> {
        json(self)
    }

    /// The headline, the conditions that are not met, what a person must do, then the conditions that are met.
    #[must_use]
    pub fn text(&self, style: Style) -> String {
        let mut page = Page::new(style.columns).with_whole_words();
        page.painted(headline(self.verdict), style.outcome(self.verdict.outcome));
        // Behind a gate that does not apply no condition matters.
        if self.verdict.outcome == Outcome::NotApplicable {
            return page.into_text();
        }
        let is_closed = self.verdict.outcome != Outcome::Ready;
        let (unmet, met): (Vec<_>, Vec<_>) = self.verdict.conditions.iter().partition(|c| self.is_unmet(c));
        for c in unmet {
            condition(self.verdict, c, style, &mut page);
        }
        if let Some(next) = &self.next_build {
            page.entry(&hanging(4), format_args!("next build: {}", next.message));
        }
        // Other conditions may be met once this one is.
        if let Some(c) = self.verdict.deciding().filter(|c| c.is_unmet())
            && let Some(remedy) = &c.remedy
        {
            page.entry(&hanging(4), format_args!("what to do about {}: {remedy}", c.r#type));
        }
        for c in met {
            condition(self.verdict, c, style, &mut page);
        }
        if is_closed {
            page.line("For the root cause and every step, run peermem-doctor on this node.");
        }
        page.into_text()
    }

    /// The condition keeps the gate closed.
    fn is_unmet(&self, condition: &Condition) -> bool {
        condition.is_unmet() && self.verdict.counts(condition)
    }
}

/// A line for each condition.
pub fn conditions(verdict: &Verdict, style: Style, page: &mut Page) {
    for c in &verdict.conditions {
        condition(verdict, c, style, page);
    }
}

/// Status, type and reason; the message on separate lines where it does not fit behind them.
fn condition(verdict: &Verdict, c: &Condition, style: Style, page: &mut Page) {
    let by = match c.r#for.as_slice() {
        [] => String::new(),
        by if verdict.counts(c) => format!(" [{}]", consumer::names(by)),
        by => format!(" [not needed: {} does not apply]", consumer::names(by)),
    };
    let status = format!("{:<8} ", c.status);
    let names = format!("{:<17} {:<24}", c.r#type, c.reason);
    let message = format!("{}{by}", c.message);
    let status = LinePrefixText::new(0, &status).colored(style.condition(c));
    let width = status.first.len() + names.len() + 1 + message.chars().count();
    if width <= style.columns {
        page.entry(&status, format_args!("{names} {message}"));
    } else {
        page.entry(&status, names.trim_end());
        page.entry(&LinePrefixText::new(status.first.len(), ""), message);
    }
}

/// A line whose later lines hang below its text.
#[must_use]
pub fn hanging(indent: usize) -> LinePrefixText {
    LinePrefixText { rest: " ".repeat(indent), ..LinePrefixText::default() }
}

/// Why nothing can be said about the node.
#[derive(Clone, Copy, Debug)]
pub struct Doubt<'a> {
    /// In a few ASCII words.
    pub why: &'a str,
    /// In one sentence, for machines.
    pub message: &'a str,
    /// In detail, for people.
    pub detail: &'a str,
    /// The remedy.
    pub remedy: &'a str,
    /// The node's name, if a variable has it.
    pub node: Option<&'a str>,
    /// The kernel, as far as it is known.
    pub kernel: &'a Kernel,
    /// The consumers that were asked for.
    pub r#for: &'a [Consumer],
    /// When this was said.
    pub time: SystemTime,
}

impl Doubt<'_> {
    /// ASCII, at most 80 bytes.
    #[must_use]
    pub fn headline(&self) -> String {
        format!("Unknown: {}", self.why)
    }

    /// For people.
    #[must_use]
    pub fn text(&self, style: Style) -> String {
        let mut page = Page::new(style.columns);
        page.painted(self.headline(), style.outcome(Outcome::Unknown));
        page.line(self.detail);
        page.entry(&hanging(4), format_args!("what to do: {}", self.remedy));
        page.into_text()
    }

    /// For machines: an object on one line, with every key of a report.
    #[must_use]
    pub fn json(&self) -> String {
        let Kernel { release, machine, boot_id, hostname } = self.kernel;
        let report = serde_json::json!({
            "schema": SCHEMA, "version": env!("CARGO_PKG_VERSION"),
            "node": self.node.unwrap_or(hostname), "kernel": release, "arch": machine, "boot_id": boot_id,
            "time": humantime::format_rfc3339_seconds(self.time).to_string(), "for": self.r#for,
            "verdict": Outcome::Unknown, "conditions": [], "message": self.message,
        });
        json_escaped(&report.to_string()).into_owned() + "\n"
    }
}

/// Why the gate ended: one sentence, then a line for each condition that is not met.
#[must_use]
pub fn termination_log(sentence: &str, verdict: Option<&Verdict>) -> String {
    let mut page = Page::default();
    page.line(sentence);
    for c in verdict.iter().flat_map(|verdict| verdict.unmet()) {
        page.line(format_args!("{} {}: {}", c.r#type, c.reason, c.message));
    }
    shortened(page.into_text(), TERMINATION_LOG)
}

fn shortened(mut text: String, bytes: usize) -> String {
    const MORE: &str = "...\n";
    if text.len() > bytes {
        let mut end = bytes - MORE.len();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text += MORE;
    }
    text
}

/// Its type, its name and what it is.
pub type Metric = (&'static str, &'static str, &'static str);

/// A metric as a Prometheus textfile has it: its samples, each with its labels.
#[must_use]
pub fn metric((kind, name, help): Metric, samples: impl IntoIterator<Item = (String, String)>) -> String {
    let mut text = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
    for (labels, value) in samples {
        text += &format!("{name}{labels} {value}\n");
    }
    text
}

/// A metric's only label.
#[must_use]
pub fn label(name: &str, value: impl fmt::Display) -> String {
    format!("{{{name}=\"{value}\"}}")
}

/// The state as a Prometheus textfile.
#[must_use]
pub fn metrics(verdict: &Verdict, waited: std::time::Duration) -> String {
    let info = ("gauge", "peermem_gate_info", "The version of peermem-gate that wrote this.");
    let waiting = ("gauge", "peermem_gate_waited_seconds", "How long the gate has waited.");
    metric(info, [(label("version", env!("CARGO_PKG_VERSION")), "1".to_owned())])
        + &verdict_metrics(verdict)
        + &metric(waiting, [(String::new(), format!("{:.3}", waited.as_secs_f64()))])
}

/// The verdict and the conditions as metrics. Every verdict and every status is a series of 0 or 1, so no label
/// changes its value and no series goes stale at a transition. A condition that nobody asked for has none.
#[must_use]
pub fn verdict_metrics(verdict: &Verdict) -> String {
    let is = "Whether the last look came to this verdict (1) or not (0).";
    let outcome = |one: &Outcome| (label("verdict", one), u8::from(*one == verdict.outcome).to_string());
    let has = "Whether the condition has this status (1) or not (0).";
    let asked = verdict.conditions.iter().filter(|c| c.reason != Reason::NotRequired);
    let status = |(c, status): (&Condition, Status)| {
        let is = u8::from(c.status == status).to_string();
        (format!("{{type=\"{}\",status=\"{status}\"}}", c.r#type), is)
    };
    let conditions = asked.flat_map(|c| Status::ALL.iter().map(move |status| (c, *status))).map(status);
    metric(("gauge", "peermem_gate_verdict", is), Outcome::ALL.iter().map(outcome))
        + &metric(("gauge", "peermem_gate_condition", has), conditions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ready::verdict::Condition;

    #[test]
    fn a_transition_changes_values_of_metrics_and_no_series() {
        let of = |reason| {
            let marker = Condition::new(ConditionType::MarkerPresent, reason, "");
            let text = metrics(&Verdict::of(vec![marker]), std::time::Duration::from_secs(1));
            let samples = text.lines().filter(|line| !line.starts_with('#'));
            let pair = |line: &str| line.rsplit_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned()));
            samples.filter_map(pair).collect::<Vec<_>>()
        };
        let series =
            |samples: &[(String, String)]| samples.iter().map(|(s, _)| s.clone()).collect::<Vec<_>>();
        let states = [Reason::MarkerFound, Reason::MarkerAbsent, Reason::MarkerUnreadable].map(of);
        for samples in &states {
            assert_eq!(series(samples), series(&states[0]));
            for name in ["peermem_gate_verdict{", "peermem_gate_condition{type=\"MarkerPresent\""] {
                let of_name = samples.iter().filter(|(series, _)| series.starts_with(name));
                assert_eq!(of_name.filter(|(_, value)| value == "1").count(), 1, "{samples:?}");
            }
        }
        assert_eq!(
            series(&states[0]).iter().filter(|name| name.starts_with("peermem_gate_verdict")).count(),
            5
        );
    }

    #[test]
    fn what_is_not_met_comes_first_with_its_paths_whole_and_the_last_line_names_doctor() {
        let path = format!("/run/{}/nvidia-peermem.ko", "a-long-name/".repeat(8));
        let conditions = vec![
            Condition::new(ConditionType::NicPresent, Reason::NicFound, "PCI device 0000:18:00.0"),
            Condition::new(ConditionType::MarkerPresent, Reason::MarkerAbsent, format!("no {path}")),
        ];
        let verdict = Verdict::of(conditions);
        let report = Report {
            schema: SCHEMA,
            version: "",
            node: "n",
            kernel: "k",
            arch: "a",
            boot_id: None,
            time: String::new(),
            r#for: &[],
            verdict: &verdict,
            next_build: None,
        };
        let text = report.text(Style::default());
        let expected = [
            "MarkerAbsent: MOFED has not set its marker",
            "False    MarkerPresent     MarkerAbsent",
            "         no",
            &format!("         {path}"),
            "True     NicPresent        NicFound                 PCI device 0000:18:00.0",
            "For the root cause and every step, run peermem-doctor on this node.",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_termination_log_is_short_and_keeps_characters_whole() {
        let long = Condition::new(ConditionType::MarkerPresent, Reason::MarkerAbsent, "ä".repeat(2000));
        let text = termination_log("x", Some(&Verdict::of(vec![long])));
        assert!(text.len() <= 1024 && text.len() > 1020 && text.ends_with("ä...\n"));
    }
}
