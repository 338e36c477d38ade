// SPDX-License-Identifier: Apache-2.0
//! System calls that fail (tests/injection says how) in `doctor`, judged by what it says of the same tree where none
//! does: a fault may make a thing unknown. It may not make a condition or the verdict better, nor take a finding away
//! without a word.

#[path = "../../tests/fixture/mod.rs"]
mod fixture;
#[path = "../../tests/injection/mod.rs"]
mod injection;
#[path = "../../tests/support/mod.rs"]
mod support;

use fixture::{Node, Variant, nodes};
use injection::inject;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::{Command, ExitCode, Output};
use support::{can, code, output, suite};

/// Findings and conditions of one report.
struct Answer {
    code: i32,
    report: Value,
}

impl Answer {
    /// `None` where there is no whole report.
    fn of(ended: &Output) -> Option<Self> {
        Some(Self { code: code(ended.status), report: serde_json::from_slice(&ended.stdout).ok()? })
    }

    fn verdict(&self) -> &str {
        self.report["verdict"].as_str().expect("a verdict")
    }

    fn all(&self, list: &str, key: &str, is_wanted: impl Fn(&Value) -> bool) -> BTreeSet<&str> {
        let all = self.report[list].as_array().expect("a list");
        all.iter().filter(|one| is_wanted(one)).map(|one| one[key].as_str().expect("a word")).collect()
    }

    fn holding(&self) -> BTreeSet<&str> {
        self.all("conditions", "type", |condition| condition["status"] != "True")
    }

    fn alarms(&self) -> BTreeSet<&str> {
        self.all("findings", "id", |finding| {
            ["critical", "warning"].map(Value::from).contains(&finding["severity"])
        })
    }

    fn unknowns(&self) -> BTreeSet<&str> {
        self.all("findings", "id", |finding| finding["severity"] == "unknown")
    }

    /// What is better here than in the answer without a fault.
    fn better_than(&self, sound: &Self) -> Option<String> {
        let is_fine = |answer: &Self| ["Ready", "NotApplicable"].contains(&answer.verdict());
        if is_fine(self) && !is_fine(sound) {
            return Some(format!("the verdict is {}", self.verdict()));
        }
        if let Some(condition) = sound.holding().difference(&self.holding()).next() {
            return Some(format!("{condition} is True"));
        }
        let lost = sound.alarms().difference(&self.alarms()).next().copied();
        let is_told = self.unknowns().difference(&sound.unknowns()).next().is_some();
        let is_silent = self.code == 0 && sound.code != 0;
        match lost {
            Some(lost) if !is_told => Some(format!("{lost} is gone, and nothing is unknown")),
            None if is_silent => Some("nothing is wrong any more".to_owned()),
            _ => None,
        }
    }
}

fn doctor(node: &Node) -> Command {
    node.gate("doctor", &["--format", "json"])
}

fn failing_calls_make_nothing_better_on(scenarios: &[&str]) {
    if !can(&["strace", "true"]) {
        return;
    }
    for scenario in scenarios {
        let node = Node::described(&nodes().join(scenario).join("node"), Variant::Faulty);
        let sound = Answer::of(&output(&mut doctor(&node))).expect("a report");
        inject(
            || doctor(&node),
            |ended| match Answer::of(ended) {
                Some(answer) => answer.better_than(&sound),
                None => (code(ended.status) == 0).then(|| "no report, and exit code 0".to_owned()),
            },
        );
    }
}

/// A fault of each kind of source: module files, the chain's files, devices, logs, kubelet's directories, runtimes.
const MOFED: [&str; 3] =
    ["doctor-mofed-crash-looping", "doctor-storage-modules", "incident-stub-in-a-crash-loop"];
const DRIVER: [&str; 3] =
    ["chain-stale-nobody-holds-it", "doctor-device-nodes-missing", "fault-driver-disk-full"];
const AROUND: [&str; 3] = ["fault-gpu-lost", "fault-bar-not-assigned", "fault-cdi-device-unresolved"];

fn failing_calls_hide_no_fault_of_mofed() {
    failing_calls_make_nothing_better_on(&MOFED);
}

fn failing_calls_hide_no_fault_of_the_driver() {
    failing_calls_make_nothing_better_on(&DRIVER);
}

fn failing_calls_hide_no_fault_around_them() {
    failing_calls_make_nothing_better_on(&AROUND);
}

fn main() -> ExitCode {
    support::beside::build_the_gate();
    let tests = suite![
        failing_calls_hide_no_fault_of_mofed,
        failing_calls_hide_no_fault_of_the_driver,
        failing_calls_hide_no_fault_around_them
    ];
    support::suite::run(tests, None)
}
