// SPDX-License-Identifier: Apache-2.0
//! The JSON Schemas of docs/schemas, and what of a report they do not describe. A key that no schema names is an
//! objection here, so a new key is described; for users additional keys are allowed.

#![allow(dead_code, reason = "every test file is a crate of its own and uses its part of this")]

use serde_json::Value;
use std::collections::BTreeSet;

const SCHEMAS: [(&str, &str); 5] = [
    ("peermem-gate/v1", include_str!("../../docs/schemas/peermem-gate-v1.json")),
    ("peermem-gate-fleet/v1", include_str!("../../docs/schemas/peermem-gate-fleet-v1.json")),
    ("peermem-gate-paths/v1", include_str!("../../docs/schemas/peermem-gate-paths-v1.json")),
    ("peermem-gate-timeline/v1", include_str!("../../docs/schemas/peermem-gate-timeline-v1.json")),
    ("peermem-gate-upgrade/v1", include_str!("../../docs/schemas/peermem-gate-upgrade-v1.json")),
];

/// Keywords that say nothing about a value.
const REMARKS: [&str; 5] = ["$schema", "$id", "$defs", "title", "description"];

/// Panics unless the schema that the report names describes all of it.
pub(crate) fn check(report: &Value) {
    let objections = objections(report);
    assert!(objections.is_empty(), "docs/schemas: {objections:#?}");
}

/// What of a report the schema that it names does not describe, a line each.
pub(crate) fn objections(report: &Value) -> Vec<String> {
    let name = report["schema"].as_str().unwrap_or_default();
    let Some((_, text)) = SCHEMAS.iter().find(|(known, _)| *known == name) else {
        return vec![format!("no schema has the name {name:?}")];
    };
    let root: Value = serde_json::from_str(text).expect("a schema is JSON");
    let mut objections = Vec::new();
    judge(&root, &root, report, "", &mut objections);
    objections
}

fn judge(root: &Value, schema: &Value, value: &Value, at: &str, objections: &mut Vec<String>) {
    let known = schema["properties"].as_object();
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        let is_met = match keyword.as_str() {
            "$ref" => {
                let path = rule.as_str().and_then(|path| path.strip_prefix('#')).expect("a reference inside");
                judge(root, root.pointer(path).expect("its definition"), value, at, objections);
                true
            }
            "anyOf" => {
                let ways = rule.as_array().expect("schemas").iter().map(|way| {
                    let mut against = Vec::new();
                    judge(root, way, value, at, &mut against);
                    against
                });
                objections.extend(ways.min_by_key(Vec::len).expect("one schema"));
                true
            }
            "type" => match rule {
                Value::Array(types) => types.iter().any(|one| is_of_type(value, one)),
                one => is_of_type(value, one),
            },
            "const" => value == rule,
            "enum" => rule.as_array().expect("values").contains(value),
            "required" => {
                let keys = rule.as_array().expect("keys").iter().map(|key| key.as_str().expect("a key"));
                keys.into_iter().all(|key| value.get(key).is_some())
            }
            "properties" => {
                for (key, found) in value.as_object().into_iter().flatten() {
                    match rule.get(key) {
                        Some(rule) => judge(root, rule, found, &format!("{at}/{key}"), objections),
                        None => objections.push(format!("{at}/{key} is not described")),
                    }
                }
                true
            }
            "additionalProperties" => {
                for (key, found) in value.as_object().into_iter().flatten() {
                    if known.is_none_or(|known| !known.contains_key(key)) {
                        judge(root, rule, found, &format!("{at}/{key}"), objections);
                    }
                }
                true
            }
            "items" => {
                for (number, found) in value.as_array().into_iter().flatten().enumerate() {
                    judge(root, rule, found, &format!("{at}/{number}"), objections);
                }
                true
            }
            other => {
                assert!(REMARKS.contains(&other), "this test does not know the keyword {other}: teach it");
                true
            }
        };
        if !is_met {
            objections.push(format!("{at} is {value}, and {keyword} is {rule}"));
        }
    }
}

fn is_of_type(value: &Value, name: &Value) -> bool {
    match name.as_str().expect("the name of a type") {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("{other} is no type of JSON"),
    }
}

/// Each file of docs/schemas is one of these, with its own address.
pub(crate) fn names() -> BTreeSet<String> {
    let named = SCHEMAS.iter().map(|(name, text)| {
        let schema: Value = serde_json::from_str(text).expect("a schema is JSON");
        let file = name.replace('/', "-") + ".json";
        let id = schema["$id"].as_str().expect("an address");
        assert!(id.ends_with(&format!("/docs/schemas/{file}")), "{id} is not the address of {file}");
        file
    });
    named.collect()
}
