// SPDX-License-Identifier: Apache-2.0
//! What one look takes from the processes of the GPU Operator's containers, where no variable says it.

use crate::support::{Node, Report, code, output, tests};
use std::process::Command;

const POD: &str =
    "0::/kubepods.slice/kubepods-pod6f1f2c1e_8f2b_4c5e_9d0a_0a1b2c3d4e5f.slice/cri-containerd-ab.scope\n";

/// A process of the operator's, with this environment.
fn with(node: Node, pid: u32, name: &str, environment: &str) -> Node {
    let arguments = format!("{name}\0");
    let environment = format!("PATH=/bin\0{environment}\0");
    let files = [
        ("comm", name),
        ("cmdline", &arguments),
        ("cgroup", POD),
        ("environ", &environment),
        ("status", "CapEff:\t000001ffffffffff\n"),
    ];
    for (file, text) in files {
        node.write(&format!("proc/{pid}/{file}"), text);
    }
    node
}

/// No MOFED has been here: nothing but a wish can ask for RDMA.
fn without_mofed() -> Node {
    Node::ready().in_tree().without("run/mellanox")
}

fn look(node: &Node) -> Report {
    Report::of(node.check().args(["--format", "json"]))
}

fn ends(command: &mut Command) -> i32 {
    code(output(command).status)
}

fn if_the_operators_processes_do_not_request_rdma_the_gate_does_not_apply() {
    for node in [
        with(without_mofed(), 700, "nvidia-toolkit", ""),
        with(without_mofed(), 700, "driver-manager", ""),
        with(Node::ready().without_marker(), 700, "nvidia-driver", ""),
    ] {
        let report = look(&node);
        assert_eq!((report.code, report.verdict()), (0, "NotApplicable"), "{:#}", report.json);
        assert_eq!(report.reason("RdmaRequested"), "RdmaNotRequested");
        let message = report.message("RdmaRequested");
        assert!(message.contains("nothing on this node requests GPUDirect RDMA"), "{message}");
        // A wait acts on its answer, and believes no process.
        assert_eq!(ends(node.wait().args(["--timeout", "0s"])), 124);
    }
}

fn a_process_without_privileges_is_ignored_whatever_its_name() {
    let said = "GPU_DIRECT_RDMA_ENABLED=true\0USE_HOST_MOFED=true";
    // All capabilities, but in a user namespace of its own; and those of an ordinary container.
    for (file, text) in
        [("uid_map", "         0       1000          1\n"), ("status", "CapEff:\t00000000a80425fb\n")]
    {
        for (name, environment) in [("nvidia-driver", ""), ("driver-manager", said), ("nvidia-toolkit", "")] {
            let node = with(Node::ready().without_marker(), 9001, name, environment);
            node.write(&format!("proc/9001/{file}"), text);
            let report = look(&node);
            assert_eq!((report.code, report.reason("MarkerPresent")), (1, "MarkerAbsent"), "{name}, {file}");
            assert_eq!(report.reason("RdmaRequested"), "Requested", "{name}, {file}");
        }
    }
}

fn two_containers_that_contradict_each_other_make_the_setting_unknown() {
    let yes = "GPU_DIRECT_RDMA_ENABLED=true\0USE_HOST_MOFED=true";
    for (other, variable) in [
        ("", "GPU_DIRECT_RDMA_ENABLED"),
        ("GPU_DIRECT_RDMA_ENABLED=true", "USE_HOST_MOFED"),
        ("GPU_DIRECT_RDMA_ENABLED=true\0USE_HOST_MOFED=false", "USE_HOST_MOFED"),
    ] {
        let node = with(with(Node::ready(), 700, "driver-manager", yes), 800, "nvidia-driver", other);
        let report = look(&node);
        assert_eq!((report.code, report.verdict()), (2, "Unknown"), "{other:?}: {:#}", report.json);
        assert_eq!(report.reason("RdmaRequested"), "SettingsContradict");
        let message = report.message("RdmaRequested");
        assert!(message.contains("700/environ") && message.contains("800/environ"), "{message}");
        assert!(message.contains(variable), "{message}");
        let mut given = node.check();
        given.env("GPU_DIRECT_RDMA_ENABLED", "true").env("USE_HOST_MOFED", "false");
        assert_eq!(ends(&mut given), 0, "what is given here wins");
    }
}

fn the_operators_setting_counts_and_a_variable_of_the_command_wins() {
    let node = with(without_mofed(), 700, "driver-manager", "GPU_DIRECT_RDMA_ENABLED=true");
    assert_eq!(look(&node).reason("RdmaRequested"), "Requested");
    let node = with(without_mofed(), 700, "driver-manager", "");
    let mut given = node.check();
    let report = Report::of(given.env("GPU_DIRECT_RDMA_ENABLED", "true").args(["--format", "json"]));
    assert_eq!((report.code, report.reason("RdmaRequested")), (1, "Requested"));
}

fn the_hosts_mofed_is_known_from_the_operator() {
    let said = "GPU_DIRECT_RDMA_ENABLED=true\0USE_HOST_MOFED=true";
    let node = with(Node::ready(), 700, "driver-manager", said);
    std::fs::create_dir_all(node.path("usr/src")).unwrap();
    node.rename("run/mellanox/drivers/usr/src/ofa_kernel", "usr/src/ofa_kernel");
    let node = node.without("run/mellanox");
    let report = look(&node);
    assert_eq!((report.code, report.reason("MarkerPresent")), (0, "NotRequired"), "{:#}", report.json);
    let mut given = node.check();
    assert_eq!(ends(given.env("USE_HOST_MOFED", "false")), 1);
}

/// The contract's "not set counts as true".
fn without_the_operators_processes_rdma_counts_as_requested() {
    for node in [without_mofed(), with(without_mofed(), 700, "bash", "")] {
        let report = look(&node);
        assert_eq!((report.code, report.reason("RdmaRequested")), (1, "Requested"), "{:#}", report.json);
    }
    // What lies here was brought by somebody who wants it, and who would say no is not here.
    let implied = with(Node::ready().without_marker(), 700, "nvidia-toolkit", "");
    assert_eq!(look(&implied).reason("RdmaRequested"), "Requested");
    // Who would say it cannot be seen.
    let hidden = with(without_mofed(), 700, "driver-manager", "").without("proc/2");
    assert_eq!(look(&hidden).reason("RdmaRequested"), "Requested");
}

fn a_process_name_that_reverses_text_is_escaped() {
    let node = Node::ready();
    let mut check = node.check();
    let said = output(check.args(["--format", "json"]).env("NODE_NAME", "gpu-1\u{202e}\u{ad}"));
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(text.contains(r#""node":"gpu-1\u202e\u00ad""#), "{text}");
    let mut refused = node.check();
    let said = output(refused.args(["--log-format", "json", "--mofed-version", "https://me:secret@h/x"]));
    let text = String::from_utf8(said.stderr).unwrap();
    assert!(text.contains("https://***@h/x") && !text.contains("secret"), "{text}");
}

tests![
    if_the_operators_processes_do_not_request_rdma_the_gate_does_not_apply,
    a_process_without_privileges_is_ignored_whatever_its_name,
    two_containers_that_contradict_each_other_make_the_setting_unknown,
    the_operators_setting_counts_and_a_variable_of_the_command_wins,
    the_hosts_mofed_is_known_from_the_operator,
    without_the_operators_processes_rdma_counts_as_requested,
    a_process_name_that_reverses_text_is_escaped,
];
