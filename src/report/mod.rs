// SPDX-License-Identifier: Apache-2.0
//! What a look came to, for people, for machines, and for the termination log.

pub mod doctor;
pub mod runtime;

use crate::condition::{Outcome, Verdict};
use crate::consumer::{self, Consumer};
use crate::node::Node;
use crate::observation::Kernel;
use crate::text::Page;
use serde::Serialize;
use std::fmt::Write;
use std::time::SystemTime;

/// Kubernetes keeps more, but shows 2,048 bytes in all and shares them among containers.
const TERMINATION_LOG: usize = 1024;

/// The schema of all reports.
pub const SCHEMA: &str = "peermem-gate/v1";

/// One report; its JSON form is stable (contract: `peermem-gate/v1`).
#[derive(Clone, Debug, Serialize)]
pub struct Report<'a> {
    schema: &'static str,
    version: &'static str,
    node: &'a str,
    kernel: &'a str,
    arch: &'a str,
    boot_id: Option<&'a str>,
    time: String,
    r#for: &'a [Consumer],
    #[serde(flatten)]
    verdict: &'a Verdict,
}

impl<'a> Report<'a> {
    /// A node without a name of the cluster's has the host's own.
    #[must_use]
    pub fn new(node: &'a Node, kernel: &'a Kernel, verdict: &'a Verdict, time: SystemTime) -> Self {
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            node: node.name.as_deref().unwrap_or(&kernel.hostname),
            kernel: &kernel.release,
            arch: &kernel.machine,
            boot_id: kernel.boot_id.as_deref(),
            time: humantime::format_rfc3339_seconds(time).to_string(),
            r#for: &node.expected.consumers,
            verdict,
        }
    }

    /// One object on one line.
    ///
    /// # Errors
    /// None for these types; the signature is serde's.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// The headline, a line for each condition, and what a person must do.
    #[must_use]
    pub fn text(&self) -> String {
        let mut page = Page::default();
        page.line(self.verdict.headline());
        conditions(self.verdict, &mut page);
        // Nobody need do anything for a gate that does not apply.
        let applies = self.verdict.outcome != Outcome::NotApplicable;
        for c in self.verdict.holding().filter(|_| applies) {
            if let Some(remedy) = &c.remedy {
                page.line(format_args!("what to do about {}: {remedy}", c.r#type));
            }
        }
        page.into_text()
    }
}

/// A line for each condition.
pub fn conditions(verdict: &Verdict, page: &mut Page) {
    for c in &verdict.conditions {
        let by = match c.r#for.as_slice() {
            [] => String::new(),
            by if verdict.counts(c) => format!(" [{}]", consumer::names(by)),
            by => format!(" [not needed: {} does not apply]", consumer::names(by)),
        };
        page.line(format_args!("{:<8} {:<17} {:<24} {}{by}", c.status, c.r#type, c.reason, c.message));
    }
}

/// The answer where nothing can be told: why, in a few words and in detail, and what to do about it.
#[must_use]
pub fn unknown(why: &str, detail: &str, remedy: &str) -> String {
    let mut page = Page::default();
    page.line(format_args!("Unknown: {why}"));
    page.line(detail);
    page.line(format_args!("what to do: {remedy}"));
    page.into_text()
}

/// The same for machines.
#[must_use]
pub fn unknown_as_json(message: &str) -> String {
    let report = serde_json::json!({
        "schema": SCHEMA, "verdict": Outcome::Unknown, "conditions": [], "message": message,
    });
    format!("{report}\n")
}

/// Why the gate ended: one sentence, then a line for each condition that holds it back.
#[must_use]
pub fn termination_log(sentence: &str, verdict: Option<&Verdict>) -> String {
    let mut page = Page::default();
    page.line(sentence);
    for c in verdict.iter().flat_map(|verdict| verdict.holding()) {
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

/// The state as a Prometheus textfile.
#[must_use]
pub fn metrics(verdict: &Verdict, waited: std::time::Duration) -> String {
    let mut text = String::from(
        "# HELP peermem_gate_condition Whether the condition has this status (1) or not (0).\n\
         # TYPE peermem_gate_condition gauge\n",
    );
    for c in &verdict.conditions {
        for status in [
            crate::condition::Status::True,
            crate::condition::Status::False,
            crate::condition::Status::Unknown,
        ] {
            let _ = writeln!(
                text,
                "peermem_gate_condition{{type=\"{}\",status=\"{status}\",reason=\"{}\"}} {}",
                c.r#type,
                c.reason,
                u8::from(c.status == status)
            );
        }
    }
    let _ = write!(
        text,
        "# HELP peermem_gate_verdict The verdict of the last look.\n\
         # TYPE peermem_gate_verdict gauge\n\
         peermem_gate_verdict{{verdict=\"{}\"}} 1\n\
         # HELP peermem_gate_waited_seconds How long the gate has held.\n\
         # TYPE peermem_gate_waited_seconds gauge\n\
         peermem_gate_waited_seconds {:.3}\n",
        verdict.outcome,
        waited.as_secs_f64()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::{Condition, ConditionType, Reason};

    #[test]
    fn the_termination_log_is_short_and_keeps_characters_whole() {
        let long = Condition::new(ConditionType::MarkerPresent, Reason::MarkerAbsent, "ä".repeat(2000));
        let text = termination_log("x", Some(&Verdict::of(vec![long])));
        assert!(text.len() <= 1024 && text.len() > 1020 && text.ends_with("ä...\n"));
    }
}
