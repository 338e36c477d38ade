// SPDX-License-Identifier: Apache-2.0
//! Nodes with the same trouble: one block, however many they are. The reports are the real ones of described nodes;
//! each copy has names of its own.

use super::{gate, output, rollup, text};
use crate::fixture::{Node, Variant, nodes};
use serde_json::Value;
use std::fs;
use std::path::Path;

const STUB: &str = "incident-stub-in-a-crash-loop";
const BUILDS: &str = "doctor-mofed-building";
/// The names in the description, and the end of each pod's.
const NODE: &str = "gpu-node-7";
const POD: &str = "x7k2p";
/// A sample stands between these lines of the document.
const SAMPLE: (&str, &str) = ("## Output\n\n```text\n", "```\n");

/// What `doctor` says of a described node.
fn described(scenario: &str, variant: Variant) -> Value {
    let node = Node::described(&nodes().join(scenario).join("node"), variant);
    let mut report: Value = serde_json::from_slice(&node.asked("doctor", &["--format", "json"], "80").stdout)
        .unwrap_or_else(|error| panic!("{scenario}: {error}"));
    report["node"] = NODE.into();
    // Only what a person may look for: a test of thousands of nodes copies it thousands of times.
    report["conditions"] = Value::Array(Vec::new());
    report
}

/// The same reports of so many nodes, with names and UIDs from this number on.
fn copies(report: &Value, from: usize, count: usize) -> String {
    let text = report.to_string();
    let uid = text.split("var/lib/kubelet/pods/").nth(1).and_then(|behind| behind.get(..8));
    let one = |n: usize| {
        let named = text.replace(NODE, &format!("gpu-{n:04}")).replace(POD, &format!("p{n:04}"));
        uid.map_or(named.clone(), |uid| named.replace(uid, &format!("{n:08}"))) + "\n"
    };
    (from..from + count).map(one).collect()
}

pub(crate) fn sixty_equal_stubs_are_one_block_and_so_are_six_thousand() {
    let stub = described(STUB, Variant::Faulty);
    let all = copies(&stub, 1, 6000);
    assert!(all.contains("-p0001") && all.contains("-p6000"), "each report names its node's own pod");
    let of = |count: usize| {
        let reports: String = all.lines().take(count).map(|line| line.to_owned() + "\n").collect();
        text(&reports).1
    };
    let [few, many] = [60, 6000].map(of);
    for (text, nodes) in [(&few, "gpu-[0001-0060]"), (&many, "gpu-[0001-6000]")] {
        assert_eq!(text.matches("critical StubModule").count(), 1, "{text}");
        assert!(text.contains(nodes) && !text.contains("different root causes"), "{text}");
        assert!(text.lines().count() <= 24, "{} lines: {text}", text.lines().count());
        let fits = |line: &str| line.chars().count() <= 80 || !line.trim().contains(' ');
        assert!(text.lines().all(fits), "only a path is wider than the screen: {text}");
        assert!(!text.contains("-p0001"), "a step for all nodes names no node's pod: {text}");
    }
    assert_eq!(few.lines().count(), many.lines().count());
}

pub(crate) fn the_commands_of_each_node_are_shown_on_request() {
    let all = copies(&described(STUB, Variant::Faulty), 1, 3);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), all).unwrap();
    let asked = |args: &[&str]| output(gate().arg("fleet").args(args).arg(file.path())).stdout;
    let text = String::from_utf8(asked(&["--commands"])).unwrap();
    for n in 1..=3 {
        let own = format!("    gpu-{n:04}:\n        ");
        assert!(text.contains(&own) && text.contains(&format!("nvidia-driver-daemonset-p{n:04}")), "{text}");
    }
    let json: Value = serde_json::from_slice(&asked(&["--commands", "--format", "json"])).unwrap();
    let commands = json["causes"][0]["commands"].as_object().unwrap();
    assert_eq!(commands.keys().collect::<Vec<_>>(), ["gpu-0001", "gpu-0002", "gpu-0003"]);
    let (_, json) = rollup(&fs::read_to_string(file.path()).unwrap());
    assert!(json["causes"][0].get("commands").is_none(), "nobody has asked: {json:#}");
}

pub(crate) fn the_documents_sample_is_an_answer() {
    let mut other = described(STUB, Variant::Healthy);
    other["kernel"] = "5.14.0-503.11.1.el9_5.x86_64".into();
    let reports = [
        copies(&described(STUB, Variant::Faulty), 7, 60),
        copies(&described(BUILDS, Variant::Faulty), 101, 3),
        copies(&described(STUB, Variant::Healthy), 201, 9900),
        copies(&other, 110, 37),
    ];
    let (exit, answer) = text(&reports.concat());
    assert_eq!(exit, 1);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fleet.md");
    let document = fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once(SAMPLE.0).expect("a sample");
    let (_, after) = rest.split_once(SAMPLE.1).expect("its end");
    let (answer, _) = answer.rsplit_once("\ninfo ").expect("the block of a second cause");
    let document_of_run = format!("{before}{}{answer}…\n{}{after}", SAMPLE.0, SAMPLE.1);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &document_of_run).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == document_of_run,
        "docs/fleet.md does not show this answer (BLESS=1 writes it again):\n{answer}"
    );
}
