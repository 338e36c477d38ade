// SPDX-License-Identifier: Apache-2.0
//! What `doctor` must say of a node. Words are looked for in any case; `A|B` is either.
//!
//! - `expect root ID`: the finding that stands first;
//! - `expect cause WORDS`: its id, title or evidence has these words;
//! - `expect remedy WORDS`: one of its first three steps has them;
//! - `expect never WORDS`: no finding has them, in no field; `expect says WORDS`: one has them;
//! - `expect no ID`: no finding is of this id; `expect has ID`: one is;
//! - `expect line WORDS`: a line of the text report begins with them (doctor/tests/nodes.rs; of `check` too);
//! - `expect quiet`: exit code 0 and nothing above info; `expect calm`: nothing above info, something is under way.
//!
//! Without its fault every node must be quiet; `expect healthy no` says that it has no healthy twin.

#![allow(dead_code, reason = "every test file is a crate of its own and uses its part of this")]

pub(crate) mod alike;
pub(crate) mod conditions;
pub(crate) mod earned;
pub(crate) mod law;
pub(crate) mod not_yet;
#[path = "../../../tests/schema/mod.rs"]
pub(crate) mod schema;
pub(crate) mod way;

use crate::fixture::Node;
use peermem_doctor::finding::Id;
use serde_json::Value;

/// What one line expects.
#[derive(Clone, Debug)]
pub(crate) enum Expectation {
    Root(String),
    Cause(String),
    Remedy(String),
    Never(String),
    Says(String),
    No(String),
    Has(String),
    Quiet,
    Calm,
    NoTwin,
}

/// What `doctor` said.
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) findings: Vec<Value>,
    pub(crate) report: Value,
}

pub(crate) fn text<'a>(finding: &'a Value, key: &str) -> &'a str {
    finding[key].as_str().unwrap_or_default()
}

/// Every text in a value.
fn all(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone() + "\n",
        Value::Array(items) => items.iter().map(all).collect(),
        Value::Object(fields) => fields.values().map(all).collect(),
        _ => String::new(),
    }
}

fn has(text: &str, words: &str) -> bool {
    let text = text.to_lowercase();
    words.split('|').any(|words| text.contains(&words.to_lowercase()))
}

/// A misspelled name would never be found, so `expect no NAME` would always pass.
fn must_be_a_finding(id: &str) {
    assert!(Id::ALL.iter().any(|one| one.name() == id), "no finding has the name {id:?}");
}

impl Expectation {
    /// `None` for a line of the text report, which the `NAME` test reads.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (kind, words) = line.split_once(' ').unwrap_or((line, ""));
        if matches!(kind, "root" | "no" | "has") {
            words.split('|').for_each(must_be_a_finding);
        }
        let words = words.to_owned();
        Some(match kind {
            "root" => Self::Root(words),
            "cause" => Self::Cause(words),
            "remedy" => Self::Remedy(words),
            "never" => Self::Never(words),
            "says" => Self::Says(words),
            "no" => Self::No(words),
            "has" => Self::Has(words),
            "quiet" => Self::Quiet,
            "calm" => Self::Calm,
            "healthy" => Self::NoTwin,
            "line" => return None,
            other => panic!("`expect {other}` is unknown"),
        })
    }

    /// The reason why this expectation is not met.
    pub(crate) fn unmet(&self, answer: &Answer) -> Option<String> {
        let first = answer.findings.first();
        let ids = || answer.findings.iter().map(|finding| text(finding, "id")).collect::<Vec<_>>().join(" ");
        let (is_met, why) = match self {
            Self::NoTwin => (true, String::new()),
            Self::Root(wanted) => {
                let id = first.map_or("", |finding| text(finding, "id"));
                (
                    wanted.split('|').any(|wanted| wanted == id),
                    format!("the first finding is not {wanted}: {}", ids()),
                )
            }
            Self::Cause(words) => {
                let is_met = first.is_some_and(|finding| {
                    let fields = [all(&finding["id"]), all(&finding["title"]), all(&finding["evidence"])];
                    has(&fields.concat(), words)
                });
                (is_met, format!("the first of {} lacks {words:?}", ids()))
            }
            Self::Remedy(words) => {
                let steps = first.and_then(|finding| finding["remedy"].as_array());
                let is_met =
                    steps.is_some_and(|steps| steps.iter().take(3).any(|step| has(&all(step), words)));
                (is_met, format!("no remedy of the first of {} says {words:?}", ids()))
            }
            Self::Never(words) => {
                let who = answer.findings.iter().find(|finding| has(&all(finding), words));
                (who.is_none(), format!("{} says {words:?}", who.map_or("", |who| text(who, "id"))))
            }
            Self::Says(words) => (
                answer.findings.iter().any(|finding| has(&all(finding), words)),
                format!("no finding says {words:?}"),
            ),
            Self::Has(id) => {
                let is_met = answer.findings.iter().any(|finding| text(finding, "id") == id);
                (is_met, format!("{id} is missing in: {}", ids()))
            }
            Self::No(id) => (
                answer.findings.iter().all(|finding| text(finding, "id") != id),
                format!("{id} was found, and should not be"),
            ),
            Self::Calm => (answer.loud().is_empty(), answer.loud()),
            Self::Quiet => (answer.is_quiet(), format!("exit {} and {}", answer.code, answer.loud())),
        };
        (!is_met).then_some(why)
    }
}

impl Answer {
    /// What it says of this node.
    pub(crate) fn of(node: &Node) -> Self {
        let out = node.asked("doctor", &["--format", "json"], "80");
        let report: Value = serde_json::from_slice(&out.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)));
        schema::check(&report);
        let findings = report["findings"].as_array().expect("findings").clone();
        Self { code: out.status.code().expect("an exit code"), findings, report }
    }

    /// Exit code 0 and nothing above info.
    pub(crate) fn is_quiet(&self) -> bool {
        self.code == 0 && self.loud().is_empty()
    }

    /// The ids of what is above info.
    fn loud(&self) -> String {
        let is_loud = |finding: &&Value| text(finding, "severity") != "info";
        self.findings.iter().filter(is_loud).map(|finding| text(finding, "id")).collect::<Vec<_>>().join(" ")
    }
}
