// SPDX-License-Identifier: Apache-2.0
//! The rules for sources, documents and log lines, and the parsers on their corpora.

mod corpus;
mod docs;
#[path = "../examples/mod.rs"]
mod examples;
mod explain;
mod findings;
mod findings_page;
mod house;
mod log_rules;
mod readings;
#[path = "../../../tests/schema/mod.rs"]
mod schema;
mod schemas;
mod style;
#[allow(unreachable_pub, dead_code, reason = "a crate of its own for the fuzzer")]
#[path = "../../../fuzz/src/lib.rs"]
mod targets;
#[path = "../tree/mod.rs"]
mod tree;
mod upstream;
