// SPDX-License-Identifier: Apache-2.0
//! What `paths` must say of a node. WAY is `dma_buf` or `nvidia_peermem`.
//!
//! - `expect way SUM`: `Both`, `DmaBuf`, `NvidiaPeermem`, `None` or `Unknown`, with its exit code;
//! - `expect WAY STATUS REASON`: of the node; `expect gpu ADDRESS WAY STATUS REASON`: of one GPU;
//! - `expect note ID`, `expect no-note ID`.

use crate::fixture::Node;
use serde_json::Value;

/// What of it is not met, a line each.
pub(crate) fn unmet(node: &Node) -> Vec<String> {
    let out = node.asked("paths", &["--format", "json"], "80");
    let report: Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)));
    super::schema::check(&report);
    assert!(!node.expectations.is_empty(), "this node has no `expect` line");
    let code = out.status.code();
    node.expectations.iter().filter_map(|line| unmet_line(line, &report, code)).collect()
}

fn unmet_line(line: &str, report: &Value, code: Option<i32>) -> Option<String> {
    let words: Vec<_> = line.split(' ').collect();
    let has_note = |id: &str| report["notes"].as_array().expect("notes").iter().any(|note| note["id"] == id);
    let is = |way: &Value, status: &str, reason: &str| way["status"] == status && way["reason"] == reason;
    let (is_met, found) = match words.as_slice() {
        ["way", sum] => {
            let exit = if *sum == "Unknown" { 2 } else { 0 };
            (report["way"] == *sum && code == Some(exit), format!("{} with exit {code:?}", report["way"]))
        }
        ["note", id] => (has_note(id), report["notes"].to_string()),
        ["no-note", id] => (!has_note(id), report["notes"].to_string()),
        ["gpu", address, way, status, reason] => {
            let gpus = report["gpus"].as_array().expect("GPUs");
            let gpu = gpus.iter().find(|gpu| gpu["address"] == *address).expect("this GPU");
            (is(&gpu[way], status, reason), gpu[way].to_string())
        }
        [way @ ("dma_buf" | "nvidia_peermem"), status, reason] => {
            (is(&report[way], status, reason), report[way].to_string())
        }
        _ => panic!("`expect {line}` is unknown"),
    };
    (!is_met).then(|| format!("{line}, and not {found}"))
}
