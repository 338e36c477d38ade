// SPDX-License-Identifier: Apache-2.0
//! `fleet --symvers`: what another MOFED would do to a fleet.

use crate::expected::schema::check;
use crate::fixture::{Node, Variant, nodes};
use crate::support::{code, gate, output, tests};
use serde_json::{Value, json};
use std::fs;
use std::process::Output;

const REGISTER: &str = "ib_register_peer_memory_client";
const UNREGISTER: &str = "ib_unregister_peer_memory_client";
/// The CRCs of MOFED's two symbols.
const CRCS: [&str; 2] = ["0x9ca761a2", "0xbde5c050"];

fn symvers([register, unregister]: [&str; 2]) -> String {
    let line =
        |crc, symbol| format!("{crc}\t{symbol}\t/build/drivers/infiniband/core/ib_uverbs\tEXPORT_SYMBOL\t\n");
    format!(
        "0x1a2b3c4d\tib_alloc_device\t/build/ib_core\tEXPORT_SYMBOL\t\n{}{}",
        line(register, REGISTER),
        line(unregister, UNREGISTER)
    )
}

/// A report of a node that runs RDMA, with other facts about its peer memory.
fn report(node: &str, other: &Value) -> Value {
    let crcs = json!({REGISTER: CRCS[0], UNREGISTER: CRCS[1]});
    let mut facts = json!({
        "exporter": "ib_uverbs", "offered": crcs, "file": "Real", "wanted": crcs, "live": true, "users": 0,
        "rebuild": "Possible",
    });
    for (key, value) in other.as_object().expect("facts") {
        facts[key] = value.clone();
    }
    json!({
        "schema": "peermem-gate/v1", "version": "0.4.0", "node": node, "kernel": "6.8.0-90-generic", "arch": "x86_64",
        "time": "2026-11-20T12:00:00Z", "verdict": "Ready", "conditions": [], "findings": [], "chain": [],
        "peer_memory": facts,
    })
}

fn asked(reports: &[Value], symvers: &str, options: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let [lines, file] = ["reports", "Module.symvers"].map(|name| directory.path().join(name));
    let all: String = reports.iter().map(|report| report.to_string() + "\n").collect();
    fs::write(&lines, all).unwrap();
    fs::write(&file, symvers).unwrap();
    output(gate().arg("fleet").arg(&lines).arg("--symvers").arg(&file).args(options))
}

fn forecast(reports: &[Value], symvers: &str, options: &[&str]) -> (i32, Value) {
    let output = asked(reports, symvers, &[&["--format", "json"], options].concat());
    let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    check(&json);
    (code(output.status), json)
}

/// The nodes of each list, with their reasons.
fn named(forecast: &Value, list: &str) -> Vec<String> {
    let all = forecast[list].as_array().expect("a list").iter();
    all.map(|node| format!("{} {}", node["node"].as_str().unwrap(), node["reason"].as_str().unwrap()))
        .collect()
}

fn a_module_with_the_same_crcs_needs_no_rebuild() {
    let reports = [report("n1", &json!({})), report("n2", &json!({"live": false, "offered": {}}))];
    let (code, answer) = forecast(&reports, &symvers(CRCS), &[]);
    assert_eq!(code, 0, "{answer:#}");
    assert_eq!(answer["schema"], "peermem-gate-upgrade/v1");
    assert_eq!(named(&answer, "nothing"), ["n1 SymbolVersionsAgree", "n2 SymbolVersionsAgree"]);
    for list in ["rebuild", "drain", "unknown"] {
        assert_eq!(answer[list], json!([]), "{list}");
    }
}

/// One CRC of two is enough.
fn a_module_with_other_crcs_needs_a_rebuild() {
    for crcs in [["0x11111111", CRCS[1]], [CRCS[0], "0x22222222"]] {
        let reports = [
            report("built", &json!({})),
            report(
                "stub",
                &json!({"file": "Stub", "wanted": {}, "live": false, "rebuild": "SourcesMissing"}),
            ),
            report("without", &json!({"file": "WithoutCrcs", "wanted": {}, "live": false})),
            report("only-live", &json!({"file": "Unknown", "wanted": {}})),
        ];
        let (code, answer) = forecast(&reports, &symvers(crcs), &[]);
        assert_eq!(code, 1, "{answer:#}");
        let rebuilt = [
            "built SymbolVersionMismatch",
            "only-live SymbolVersionMismatch",
            "stub StubModule",
            "without SymbolVersionMissing",
        ];
        assert_eq!(named(&answer, "rebuild"), rebuilt);
        assert_eq!(answer["rebuild"][0]["rebuild"], "Possible");
        assert_eq!(answer["rebuild"][2]["rebuild"], "SourcesMissing");
        assert_eq!(answer["nothing"], json!([]));
    }
}

fn jobs_that_use_rdma_are_drained_whether_or_not_the_module_fits() {
    let reports = [report("busy", &json!({"users": 8})), report("idle", &json!({}))];
    let (code, answer) = forecast(&reports, &symvers(CRCS), &[]);
    assert_eq!(
        (code, named(&answer, "drain"), named(&answer, "nothing")),
        (1, vec!["busy InUse".to_owned()], vec!["idle SymbolVersionsAgree".to_owned()])
    );
    assert_eq!(answer["drain"][0]["users"], 8);
    let (_, answer) = forecast(&reports, &symvers(["0x11111111", CRCS[1]]), &[]);
    assert_eq!(named(&answer, "drain"), ["busy InUse"]);
    assert_eq!(named(&answer, "rebuild").len(), 2);
}

fn a_value_that_a_report_lacks_is_unknown_to_upgrade() {
    let mut old = report("old", &json!({}));
    old.as_object_mut().unwrap().remove("peer_memory");
    let mut elsewhere = report("elsewhere", &json!({}));
    elsewhere["kernel"] = json!("5.15.0-119-generic");
    let mut storage =
        report("storage", &json!({"file": "Missing", "wanted": {}, "offered": {}, "live": false}));
    storage["verdict"] = json!("NotApplicable");
    let reports = [
        old,
        elsewhere,
        storage,
        report("hidden", &json!({"users": null})),
        report("unversioned", &json!({"file": "Unversioned", "wanted": {}})),
        report("of-the-future", &json!({"file": "Quantum", "wanted": {}, "offered": {}})),
    ];
    let (code, answer) = forecast(&reports, &symvers(CRCS), &["--kernel", "6.8.0-90-generic"]);
    assert_eq!(code, 2, "{answer:#}");
    assert_eq!(
        named(&answer, "unknown"),
        [
            "elsewhere OtherKernel",
            "hidden UseHidden",
            "of-the-future ModuleFileUnreadable",
            "old NoReportOfPeerMemory",
            "unversioned NoSymbolVersions"
        ]
    );
    assert_eq!(named(&answer, "nothing"), ["storage NotApplicable"]);
    assert_eq!(self::code(asked(&[], &symvers(CRCS), &[]).status), 2, "no report");
}

fn the_upgrade_forecast_names_the_nodes_and_what_to_do() {
    let reports: Vec<_> = (0..10).map(|n| report(&format!("gpu-{n}"), &json!({}))).collect();
    let output = asked(&reports, &symvers(["0x11111111", CRCS[1]]), &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    for words in [
        "10 rebuild, 0 drain, 0 nothing, 0 unknown",
        "rebuild: nvidia-peermem must be built again for this MOFED (10 nodes)",
        "wants ib_register_peer_memory_client with CRC 0x9ca761a2, and this MOFED has 0x11111111",
        "on    gpu-0, gpu-1, gpu-2, gpu-3, gpu-4, gpu-5, gpu-6, gpu-7, and 2 more",
        "`--rebuild auto`",
        "10 reports; 0 damaged lines",
    ] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
}

/// `doctor`'s own reports, of nodes with a good nvidia-peermem.ko, with a stub, and with none.
fn reports_of_doctor_are_compared() {
    let report = |name: &str| -> Value {
        let node = Node::described(&nodes().join(name).join("node"), Variant::Faulty);
        serde_json::from_slice(&node.asked("doctor", &["--format", "json"], "80").stdout).expect("a report")
    };
    let good = report("healthy-both-operators");
    let facts = &good["peer_memory"];
    assert_eq!((&facts["file"], &facts["live"], &facts["users"]), (&json!("Real"), &json!(true), &json!(0)));
    assert_eq!(facts["wanted"], json!({REGISTER: CRCS[0], UNREGISTER: CRCS[1]}));
    let stub = report("stub-that-a-rebuild-cures");
    assert_eq!(
        (&stub["peer_memory"]["file"], &stub["peer_memory"]["rebuild"]),
        (&json!("Stub"), &json!("Possible"))
    );
    let (_, answer) = forecast(std::slice::from_ref(&good), &symvers(CRCS), &[]);
    assert_eq!(named(&answer, "nothing").len(), 1, "{answer:#}");
    let (_, answer) = forecast(&[good], &symvers(["0x11111111", CRCS[1]]), &[]);
    assert_eq!(named(&answer, "rebuild").len(), 1, "{answer:#}");
}

/// What blocks a node today is gone tomorrow, if it is a CRC of today's MOFED; nothing else is.
fn a_node_blocked_only_for_another_mofed_needs_nothing_with_its_own() {
    let said = |name: &str, list: &str| {
        let node = Node::described(&nodes().join(name).join("node"), Variant::Faulty);
        let output = node.asked("doctor", &["--format", "json"], "80").stdout;
        let report: Value = serde_json::from_slice(&output).expect("a report");
        assert_eq!(report["verdict"], "Blocked", "{name}");
        let wanted = report["peer_memory"]["wanted"].as_object().expect("CRCs");
        let [register, unregister] = [REGISTER, UNREGISTER].map(|symbol| wanted[symbol].as_str().unwrap());
        let (_, answer) = forecast(std::slice::from_ref(&report), &symvers([register, unregister]), &[]);
        let reasons = answer[list].as_array().expect("a list").iter().map(|node| node["reason"].clone());
        reasons.collect::<Vec<_>>()
    };
    assert_eq!(said("incident-peermem-of-another-mofed", "nothing"), ["SymbolVersionsAgree"]);
    assert_eq!(said("incident-host-built-against-another-nvidia", "unknown"), ["BlockedToday"]);
}

/// As `inspect` refuses it.
fn a_symvers_without_peer_memory_is_refused() {
    for (symvers, words) in [
        (
            "0x1a2b3c4d\tib_alloc_device\t/build/ib_core\tEXPORT_SYMBOL\t\n",
            "does not list ib_register_peer_memory_client",
        ),
        ("<html>\n", "it is no Module.symvers"),
    ] {
        let output = asked(&[report("n1", &json!({}))], symvers, &[]);
        assert_eq!(code(output.status), 2);
        assert!(String::from_utf8_lossy(&output.stderr).contains(words), "{output:?}");
    }
}

tests![
    a_module_with_the_same_crcs_needs_no_rebuild,
    a_module_with_other_crcs_needs_a_rebuild,
    jobs_that_use_rdma_are_drained_whether_or_not_the_module_fits,
    a_value_that_a_report_lacks_is_unknown_to_upgrade,
    the_upgrade_forecast_names_the_nodes_and_what_to_do,
    reports_of_doctor_are_compared,
    a_node_blocked_only_for_another_mofed_needs_nothing_with_its_own,
    a_symvers_without_peer_memory_is_refused,
];
