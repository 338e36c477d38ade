// SPDX-License-Identifier: Apache-2.0
//! `--for`: whose readiness is asked for, by the verbs themselves on trees of nodes.

use crate::support::tests;
use crate::support::{self, ForNobody, Gate, Node, Report, can, code, gate, output, skip};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

const MANAGEMENT: &str = "sys/bus/pci/devices/0000:05:00.0";
const CLASS: &str = "sys/class/infiniband";

/// An `NVLink` 5 machine whose cluster uses DMA-BUF, ready except for its RDMA device.
fn machine() -> Node {
    let node = Node::ready();
    node.write(&format!("{MANAGEMENT}/vendor"), "0x15b3\n");
    node.write(&format!("{MANAGEMENT}/vpd"), b"\x82\x05\0CX-7 \x90\x0d\0SMDL\x06SW_MNG\x78");
    let modules = fs::read_to_string(node.path("proc/modules")).unwrap();
    node.write("proc/modules", format!("ib_umad 45056 0 - Live 0xffffffffc0b00000 (OE)\n{modules}"));
    node.write("sys/module/ib_umad/initstate", "live\n");
    node.write("sys/module/ib_umad/taint", "OE\n");
    fs::create_dir_all(node.path(CLASS)).unwrap();
    node
}

fn device_comes(node: &Node) {
    let function = "../../devices/pci0000:00/0000:05:00.0/infiniband/mlx5_1";
    symlink(function, node.path(CLASS).join("mlx5_1")).unwrap();
}

fn check(node: &Node, consumers: &str) -> Report {
    Report::of(
        node.check().args(["--format", "json", "--for", consumers]).env("GPU_DIRECT_RDMA_ENABLED", "false"),
    )
}

fn a_report_names_the_consumers_that_it_is_for() {
    let node = machine();
    device_comes(&node);
    let mut plain = node.report();
    assert_eq!(plain.json["for"], json!(["peermem"]));
    assert!(plain.json["conditions"].as_array().unwrap().iter().all(|c| c.get("for").is_none()));
    assert_eq!(check(&node, "any").json["for"], json!(["peermem", "fabric"]));
    assert_eq!(check(&node, "fabric,peermem,fabric").json["for"], json!(["peermem", "fabric"]), "each once");
    let fabric = check(&node, "fabric");
    assert_eq!((&fabric.json["for"], fabric.verdict()), (&json!(["fabric"]), "Ready"));
    let umad =
        fabric.json["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "UmadLive").unwrap();
    assert_eq!(umad["for"], json!(["fabric"]));
    // The mirror says the same, and who asks for peermem asks for what was always asked for.
    let mut by_variable =
        Report::of(node.check().args(["--format", "json"]).env("PEERMEM_GATE_FOR", "peermem"));
    for report in [&mut plain, &mut by_variable] {
        report.json["time"] = Value::Null;
    }
    assert_eq!(plain.json, by_variable.json);
}

fn an_unknown_consumer_is_refused() {
    let node = machine();
    for wrong in ["", "gds", "Fabric", "peermem,,fabric", "all"] {
        assert_eq!(code(output(node.check().arg(format!("--for={wrong}"))).status), 2, "{wrong:?}");
        assert_eq!(code(output(node.check().env("PEERMEM_GATE_FOR", wrong)).status), 2, "{wrong:?}");
    }
    for verb in ["load", "keep"] {
        let refused = output(gate().args([verb, "--for", "fabric"]));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(code(refused.status), 2, "{said}");
        assert!(said.contains(&format!("`{verb}` is for peermem")), "{said}");
    }
}

fn a_node_without_any_consumer_opens_at_once_and_says_why_for_each() {
    let node = machine().without(MANAGEMENT).without_marker();
    let opened = output(
        node.wait().args(["--for", "any", "--timeout", "60s"]).env("GPU_DIRECT_RDMA_ENABLED", "false"),
    );
    let said = String::from_utf8_lossy(&opened.stderr).into_owned();
    assert_eq!(code(opened.status), 0, "{said}");
    for why in ["peermem needs no MOFED", "fabric needs no MOFED", "open: the gate does not apply"] {
        assert!(said.contains(why), "{why}: {said}");
    }
}

/// The class directory comes last: nothing tells of it but the slow look.
fn a_wait_for_fabric_ends_when_the_management_device_appears() {
    let node = machine();
    let mut command = node.wait();
    command.args(["--for", "any", "--settle", "300ms", "--timeout", "60s"]);
    let mut waiting = Gate::start(command.env("GPU_DIRECT_RDMA_ENABLED", "false"));
    waiting.logs("RdmaDevicePresent");
    device_comes(&node);
    assert_eq!(waiting.ended(), 0);
}

/// The vpd is root's: without that right nobody can tell, and the report says what it takes.
fn without_permission_to_read_the_vpd_the_management_device_is_unknown() {
    let Some(nobody) = ForNobody::new() else { return };
    let node = machine();
    device_comes(&node);
    fs::set_permissions(node.path(MANAGEMENT).join("vpd"), Permissions::from_mode(0o600)).unwrap();
    let by_nobody = |consumers: &str| {
        let mut command = node.check();
        command.args(["--format", "json", "--for", consumers]).env("GPU_DIRECT_RDMA_ENABLED", "false");
        output(&mut nobody.run(&command))
    };
    for consumers in ["fabric", "any"] {
        let told = by_nobody(consumers);
        let report: Value = serde_json::from_slice(&told.stdout).unwrap();
        assert_eq!(code(told.status), 2, "{report}");
        let conditions = report["conditions"].as_array().unwrap();
        let present = conditions.iter().find(|c| c["type"] == "ManagementDevicePresent").unwrap();
        assert_eq!((&present["status"], &present["reason"]), (&json!("Unknown"), &json!("VpdUnreadable")));
        assert!(present["message"].as_str().unwrap().contains("Permission denied"), "{present}");
        assert!(present["remedy"].as_str().unwrap().starts_with("Run this as root"), "{present}");
    }
    assert_eq!(code(by_nobody("peermem").status), 0, "peermem needs no such right");
}

/// On a node without a management device, `--for any` asks each PCI device once more whether it has a vpd, reads that
/// of the Mellanox ones, and lists the RDMA devices.
fn for_any_costs_few_system_calls_on_a_node_without_a_management_device() {
    if !can(&["strace", "-V"]) {
        skip("no strace");
        return;
    }
    let node = Node::ready();
    let mut symbols = fs::read_to_string(node.path("proc/kallsyms")).unwrap();
    for number in 0..150_000 {
        symbols += &format!("ffffffff{number:08x} t a_function_of_the_kernel_{number}\n");
    }
    node.write("proc/kallsyms", symbols);
    for number in 0..24 {
        node.write(&format!("sys/bus/pci/devices/0000:80:{number:02x}.0/vendor"), "0x8086\n");
    }
    let calls = |consumers: &str| -> usize {
        let log = node.path("strace");
        let mut command = Command::new("strace");
        command.args(["-f", "-o"]).arg(&log).arg(support::GATE).args(["check", "--for", consumers, "--root"]);
        assert_eq!(code(output(command.arg(node.root())).status), 0);
        fs::read_to_string(log).unwrap().lines().count()
    };
    let (peermem, any) = (calls("peermem"), calls("any"));
    println!("{peermem} system calls for peermem, {any} for any");
    assert!(any <= peermem + 25 + 30, "{peermem} for peermem, {any} for any, with 25 devices");
}

tests![
    a_report_names_the_consumers_that_it_is_for,
    an_unknown_consumer_is_refused,
    a_node_without_any_consumer_opens_at_once_and_says_why_for_each,
    a_wait_for_fabric_ends_when_the_management_device_appears,
    without_permission_to_read_the_vpd_the_management_device_is_unknown,
    for_any_costs_few_system_calls_on_a_node_without_a_management_device,
];
