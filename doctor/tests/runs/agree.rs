// SPDX-License-Identifier: Apache-2.0
//! `check --peermem` and `doctor` judge every described node by the same conditions.

use crate::fixture::{Node, Variant, scenarios};
use crate::support::tests;
use serde_json::Value;
use std::collections::BTreeMap;

/// The conditions that a verb reports: type to status and reason.
fn conditions(node: &Node, verb: &str, args: &[&str]) -> BTreeMap<String, (String, String)> {
    let out = node.asked(verb, &[&["--format", "json"], args].concat(), "80");
    let report: Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|error| panic!("{verb}: {error}: {}", String::from_utf8_lossy(&out.stderr)));
    let text = |condition: &Value, key: &str| condition[key].as_str().expect(key).to_owned();
    let all = report["conditions"].as_array().expect("conditions");
    all.iter().map(|one| (text(one, "type"), (text(one, "status"), text(one, "reason")))).collect()
}

/// Nodes on which only a log says that RDMA is wanted. `check` reads no logs.
const BY_LOG: [&str; 1] = ["fault-talos-asks-for-peermem"];

fn check_and_doctor_judge_every_node_alike() {
    let mut wrong = Vec::new();
    for scenario in scenarios() {
        let node = Node::described(&scenario.join("node"), Variant::Faulty);
        let peermem: &[&str] = if node.asks_for_peermem() { &[] } else { &["--peermem"] };
        let (check, doctor) = (conditions(&node, "check", peermem), conditions(&node, "doctor", &[]));
        for (r#type, checked) in &check {
            let diagnosed = doctor.get(r#type);
            if diagnosed != Some(checked) {
                let name = scenario.file_name().and_then(|name| name.to_str()).expect("a name");
                wrong.push((name.to_owned(), format!("{type}: check {checked:?}, doctor {diagnosed:?}")));
            }
        }
    }
    let (by_log, wrong): (Vec<_>, Vec<_>) =
        wrong.into_iter().partition(|(name, _)| BY_LOG.contains(&name.as_str()));
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(BY_LOG.iter().all(|listed| by_log.iter().any(|(name, _)| name == listed)), "{by_log:#?}");
}

tests![check_and_doctor_judge_every_node_alike,];
