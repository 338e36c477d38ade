// SPDX-License-Identifier: Apache-2.0
//! An ordinary pod that lies: the answer about a node stays what it is without the lie. Each paragraph of lies.txt is
//! a lie, in the language of tests/fixture. A pod of the same name that says nothing is on the node without it too.
//!
//! Every node that `doctor` judges gets all lies at once, and some get each of them alone.

use crate::fixture::{Node, Variant, scenarios};
use libtest_mimic::{Failed, Trial};
use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

const LIES: &str = include_str!("../lies.txt");
/// A pod that says nothing to the point.
const HONEST: &str = "\
says now team-a/web-0/web 0
| listening
says now my-nvidia-gpu-operator/web-0/web 0
| listening
logged kubelet[1500]
| I0823 00:30:22.000000    1500 kubelet.go:2547] \"SyncLoop ADD\" source=\"api\"
";
/// Nodes that get each lie alone: quiet, waiting, blocked, of other distributions, with words that do count.
const EACH: [&str; 12] = [
    "healthy-both-operators",
    "healthy-host-mofed-and-driver",
    "healthy-k3s",
    "healthy-openshift",
    "healthy-words-of-others",
    "doctor-mofed-never-came",
    "fault-device-rules-refused",
    "fault-driver-image-not-pulled",
    "fault-mofed-container-stopped",
    "incident-nfs-over-rdma-keeps-mofed-out",
    "incident-peermem-in-use",
    "incident-stub-in-a-crash-loop",
];

/// What counts of the answer: all but its time and what did not count.
fn answer(node: &str, more: &str) -> Value {
    let mut description = tempfile::NamedTempFile::new().expect("a file");
    write!(description, "{node}\n{HONEST}{more}\n").expect("written");
    let node = Node::described(description.path(), Variant::Faulty);
    let output = node.gate("doctor", &["--format", "json"]).output().expect("doctor runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let root = node.root().display().to_string();
    let mut answer: Value = serde_json::from_str(&text.replace(&root, ""))
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    for key in ["time", "not_counted"] {
        answer.as_object_mut().expect("a report").remove(key);
    }
    answer["exit"] = output.status.code().into();
    answer
}

fn unmoved(scenario: &Path, lies: &str) -> Result<(), Failed> {
    let node = fs::read_to_string(scenario.join("node"))?;
    let (before, after) = (answer(&node, ""), answer(&node, lies));
    let keys = before.as_object().expect("a report").keys();
    let changed: Vec<_> = keys.filter(|key| before[*key] != after[*key]).collect();
    match changed.as_slice() {
        [] => Ok(()),
        keys => {
            let both = keys.iter().map(|key| format!("{key}: {:#}\nbecomes {:#}", before[*key], after[*key]));
            Err(both.collect::<Vec<_>>().join("\n").into())
        }
    }
}

pub(crate) fn tests() -> Vec<Trial> {
    let name = |scenario: &PathBuf| scenario.file_name().expect("a name").to_string_lossy().into_owned();
    let is_doctors = |scenario: &PathBuf| {
        let text = fs::read_to_string(scenario.join("node")).unwrap_or_default();
        // A lie has a time only where the node has a clock.
        let lines = || text.lines().filter(|line| line.starts_with("expect ") || *line == "verb doctor");
        // `doctor` always looks at nvidia-peermem and has no option for it.
        let is_others = text.lines().any(|line| line == "verb paths" || line.contains("--peermem"));
        lines().next().is_some() && !is_others && !text.contains("/doctor-no-clock")
    };
    let mut tests = Vec::new();
    for scenario in scenarios().into_iter().filter(is_doctors) {
        let own = scenario.clone();
        let lies = LIES.split("\n\n").collect::<Vec<_>>().join("\n");
        tests
            .push(Trial::test(format!("liars::{}: all lies", name(&scenario)), move || unmoved(&own, &lies)));
        if !EACH.contains(&name(&scenario).as_str()) {
            continue;
        }
        for lie in LIES.split("\n\n") {
            let what = lie.lines().next().unwrap_or_default().trim_start_matches("# ");
            let own = scenario.clone();
            let of = format!("liars::{}: {what}", name(&scenario));
            tests.push(Trial::test(of, move || unmoved(&own, lie)));
        }
    }
    assert!(tests.len() > 250 && EACH.iter().all(|node| scenarios().iter().any(|one| name(one) == *node)));
    tests
}
