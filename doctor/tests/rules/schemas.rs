// SPDX-License-Identifier: Apache-2.0
//! The JSON Schemas of docs/schemas, which each golden report is checked against where it is made.

use crate::schema::{check, names, objections};
use crate::tree::{files_with, read};
use peermem_gate::keeper::State;
use peermem_gate::keeper::status::Summary;
use serde_json::{Value, json};

#[test]
fn each_schema_is_known_to_the_tests_and_named_in_the_pages() {
    let there: Vec<_> = files_with("json")
        .into_iter()
        .filter_map(|path| Some(path.strip_prefix("docs/schemas/")?.to_owned()))
        .collect();
    assert_eq!(there, Vec::from_iter(names()));
    let page = read("docs/usage.md");
    for name in there {
        assert!(page.contains(&name), "docs/usage.md does not name {name}");
    }
}

fn report() -> Value {
    json!({
        "schema": "peermem-gate/v1", "version": "0.1.0", "node": "n1", "kernel": "6.8.0", "arch": "x86_64",
        "boot_id": null, "time": "2026-11-28T12:00:00Z", "for": ["peermem"], "verdict": "Ready",
        "conditions": [{"type": "MarkerPresent", "status": "True", "reason": "MarkerFound", "message": "there"}],
    })
}

#[test]
fn a_report_that_lacks_a_key_or_has_another_value_or_a_new_key_is_objected_to() {
    check(&report());
    for (key, value) in [
        ("verdict", json!("Readyish")),
        ("node", json!(7)),
        ("conditions", json!([{"type": "MarkerPresent"}])),
        ("invented", json!(true)),
        ("schema", json!("peermem-gate/v9")),
    ] {
        let mut other = report();
        other[key] = value;
        assert!(!objections(&other).is_empty(), "{key}");
    }
    let mut less = report();
    less.as_object_mut().expect("an object").remove("time");
    assert!(!objections(&less).is_empty());
}

/// The status file is a report with the state of `keep`, every state of it.
#[test]
fn the_status_of_a_keeper_is_as_the_schema_has_it() {
    for state in State::ALL.iter().copied() {
        let summary = Summary {
            state,
            message: "as the test says".to_owned(),
            loaded_by: Some("keep".to_owned()),
            refcount: Some(2),
            holders: vec!["job (pid 7)".to_owned()],
            obstacle: Some("SourcesMissing".to_owned()),
            rebuilds: [("failed".to_owned(), 3)].into(),
            written_s: 1000.25,
            heartbeat_s: 30.0,
        };
        let mut status = report();
        status["keep"] = serde_json::to_value(&summary).expect("JSON");
        check(&status);
    }
}
