// SPDX-License-Identifier: Apache-2.0
//! `doctor` as a program: its forms, its ends, and what needs more than a described tree
//! (tests/nodes has those): module files, other eyes, a terminal.

use crate::support::{self, ForNobody, KERNEL, LOCK, Node, Report, VIDEO, can, code, gate, output, tests};
use peermem_doctor::finding::Id;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// What the trees of tests/nodes cannot show: it needs module files, the running kernel, or a moment.
const ELSEWHERE: [Id; 23] = [
    // Only `nvidia-smi -q` says it: tests/posted.txt.
    Id::GpuRemapFailed,
    Id::VpdUnreadable,
    Id::RdmaDevicesUnreadable,
    Id::SourceUnreadable,
    Id::MarkerDirectoryUnlinked,
    Id::MarkerUnreadable,
    Id::VersionUnreadable,
    Id::ModuleFileUnreadable,
    Id::SymbolsNotRead,
    Id::ModuleUnloading,
    Id::StubModule,
    Id::SymbolVersionMismatch,
    Id::WrongKernel,
    Id::SymbolVersionMissing,
    Id::UnsignedModule,
    Id::InstallLine,
    Id::OtherDriverLoaded,
    Id::SignatureUnknown,
    Id::BadParameter,
    Id::DependencyNotLive,
    Id::SymbolVersionUnknown,
    Id::Settling,
    Id::RuntimeConfigUnreadable,
];

fn doctor(node: &Node) -> Command {
    let mut command = gate();
    command.args(["doctor", "--root"]).arg(node.root());
    command
}

fn report(node: &Node) -> Report {
    Report::of(doctor(node).args(["--format", "json"]))
}

fn findings(report: &Report) -> Vec<&str> {
    let findings = report.json["findings"].as_array().expect("findings");
    findings.iter().map(|finding| finding["id"].as_str().expect("an id")).collect()
}

/// `nvidia_peermem` is live on the ready node.
fn loaded() -> Node {
    let node = Node::ready();
    let modules = fs::read_to_string(node.path("proc/modules")).expect("modules");
    let live = "nvidia_peermem 16384 0 - Live 0x0 (OE)\nnvidia 56000000 1 nvidia_peermem, Live 0x0 (POE)\n";
    let modules =
        modules.replace("ib_uverbs 217088 1 mlx5_ib,", "ib_uverbs 217088 2 nvidia_peermem,mlx5_ib,");
    node.write("proc/modules", format!("{live}{modules}"));
    for module in ["nvidia", "nvidia_peermem"] {
        node.write(&format!("sys/module/{module}/initstate"), "live\n");
        node.write(&format!("sys/module/{module}/taint"), "OE\n");
    }
    node
}

fn a_healthy_node_has_no_finding() {
    let report = report(&loaded());
    assert_eq!((report.code, report.verdict()), (0, "Ready"), "{:#}", report.json);
    assert_eq!(findings(&report), [""; 0]);
}

fn a_report_for_machines_is_one_line_of_the_contracts_keys() {
    let node = loaded().suspect();
    let asked = [("NODE_NAME", "gpu-7"), ("GPU_DIRECT_RDMA_ENABLED", "true")];
    let output = output(doctor(&node).args(["--format", "json"]).envs(asked));
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!((code(output.status), text.lines().count()), (1, 1), "{text}");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    for key in ["schema", "version", "node", "kernel", "arch", "boot_id", "time", "verdict", "conditions"] {
        assert!(!json[key].is_null(), "{key}");
    }
    assert_eq!((json["schema"].as_str(), json["node"].as_str()), (Some("peermem-gate/v1"), Some("gpu-7")));
    let finding = &json["findings"][0];
    assert_eq!(
        (finding["id"].as_str(), finding["severity"].as_str()),
        (Some("MarkerSuspect"), Some("critical"))
    );
    assert!(finding["title"].is_string() && finding["follows_from"].is_null());
    assert!(finding["evidence"][0]["source"].is_string() && finding["evidence"][0]["seen"].is_string());
    let steps = finding["remedy"].as_array().expect("steps");
    let names_it = |step: &Value| step.as_str().expect("a step").contains("spec.nodeName=gpu-7");
    assert!(steps.iter().any(names_it), "{finding:#}");
}

/// An operators' log of which no line is known is evidence that was not read.
fn a_log_that_is_not_understood_is_counted_and_named_with_its_last_line() {
    let node = loaded();
    let pod = "var/log/pods/gpu-operator_driver-x_6f1f2c1e-8f2b-4c5e-9d0a-0a1b2c3d4e5f";
    node.write(
        &format!("{pod}/nvidia-fs-ctr/0.log"),
        "2025-11-21T11:50:00.0Z stdout F a word\n2025-11-21T11:50:01.0Z stdout F another\n",
    );
    let unknown = &report(&node).json["not_understood"];
    let log = "gpu-operator/driver-x/nvidia-fs-ctr";
    assert_eq!(*unknown, serde_json::json!([{"container": log, "last": "another"}]));
    let text = output(doctor(&node).arg("--verbose"));
    let text = String::from_utf8(text.stdout).expect("text");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(&format!("1 log of the operators: {log} (\"another\")")), "{text}");
}

/// `explain` knows every finding that a report can have, by its name in any case.
fn explain_prints_the_page_of_a_finding_or_names_those_that_are_alike() {
    let explain = |id: &str| output(gate().args(["explain", id]));
    let page = |id: &str| {
        let said = explain(id);
        assert!(said.status.success(), "{id}: {said:?}");
        String::from_utf8(said.stdout).expect("text")
    };
    for id in Id::ALL.iter().step_by(20) {
        let text = page(id.name());
        assert!(text.starts_with(&format!("{id} ({}): ", id.severity())), "{text}");
        assert!(text.contains("\nwhat to do\n"), "{text}");
    }
    assert_eq!(page("stubmodule"), page("StubModule"));
    let refused = explain("Stub");
    assert_eq!(code(refused.status), 2, "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("StubModule"), "{refused:?}");
}

fn every_finding_has_a_node_or_says_why_not() {
    let nodes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/nodes");
    let mut shown = BTreeSet::new();
    for scenario in nodes.read_dir().expect("scenarios") {
        let path = scenario.expect("an entry").path().join("node");
        let text = fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().filter_map(|line| {
            line.strip_prefix("expect root ").or_else(|| line.strip_prefix("expect has "))
        });
        let named: BTreeSet<_> = lines.flat_map(|names| names.split('|')).collect();
        shown.extend(Id::ALL.iter().filter(|id| named.contains(id.name())).copied());
    }
    let missing: Vec<_> =
        Id::ALL.iter().filter(|id| !shown.contains(id) && !ELSEWHERE.contains(id)).collect();
    assert!(missing.is_empty(), "no node shows {missing:?}");
}

fn doctor_ends_with_2_only_if_something_that_the_gate_needs_is_unknown() {
    let node = loaded();
    node.write("proc/1/mountinfo", "");
    fs::set_permissions(node.path("proc/1/mountinfo"), fs::Permissions::from_mode(0o000)).expect("chmod");
    let Some(nobody) = ForNobody::new() else { return };
    let look = |node: &Node| nobody.run(doctor(node).args(["--format", "json"]));
    let unseen = Report::of(&mut look(&node));
    assert_eq!((unseen.code, findings(&unseen)), (0, vec!["SourceUnreadable"]), "{:#}", unseen.json);
    let finding = &unseen.json["findings"][0];
    assert!(finding["evidence"][0]["seen"].as_str().expect("why").contains("Permission denied"));
    assert!(finding["remedy"][0].as_str().expect("a step").contains("hostPID: true"));

    fs::set_permissions(node.path("proc/locks"), fs::Permissions::from_mode(0o000)).expect("chmod");
    let needed = Report::of(&mut look(&node));
    assert_eq!((needed.code, needed.verdict()), (2, "Unknown"), "{:#}", needed.json);
    assert_eq!(findings(&needed), ["SourceUnreadable", "LocksUnreadable"]);
}

fn an_unreadable_marker_is_unknown() {
    let node = loaded();
    fs::set_permissions(node.path(support::DRIVERS), fs::Permissions::from_mode(0o700)).expect("chmod");
    let Some(nobody) = ForNobody::new() else { return };
    let report = Report::of(&mut nobody.run(doctor(&node).args(["--format", "json"])));
    for condition in ["MarkerPresent", "MarkerTrusted"] {
        assert_eq!(report.reason(condition), "MarkerUnreadable", "{:#}", report.json);
    }
    assert!(findings(&report).contains(&"MarkerUnreadable"), "{:#}", report.json);
}

/// If `doctor` may not read the containers' logs, it names the permission.
fn logs_that_cannot_be_read_are_unknown() {
    let node = loaded();
    let logs = "var/log/pods";
    node.write(&format!("{logs}/gpu-operator_driver_0c9b/nvidia-driver-ctr/0.log"), "");
    fs::set_permissions(node.path(logs), fs::Permissions::from_mode(0o700)).expect("chmod");
    let Some(nobody) = ForNobody::new() else { return };
    let report = Report::of(&mut nobody.run(doctor(&node).args(["--format", "json"])));
    assert_eq!((report.code, findings(&report)), (0, vec!["SourceUnreadable"]), "{:#}", report.json);
    let finding = &report.json["findings"][0];
    assert!(finding["evidence"][0]["source"].as_str().expect("a path").ends_with(logs), "{finding:#}");
    assert_eq!(finding["evidence"][0]["seen"], "Permission denied");
    assert!(finding["remedy"][0].as_str().expect("a step").starts_with("Run this as root"));
}

/// The container runtime's, of mode 600 on many a node.
fn a_configuration_that_cannot_be_read_is_unknown() {
    let node = loaded();
    node.write("run/containerd/containerd.sock", "");
    let config = "etc/containerd/config.toml";
    node.write(config, "version = 2");
    fs::set_permissions(node.path(config), fs::Permissions::from_mode(0o600)).expect("chmod");
    let Some(nobody) = ForNobody::new() else { return };
    let report = Report::of(&mut nobody.run(doctor(&node).args(["--format", "json"])));
    assert_eq!((report.code, findings(&report)), (0, vec!["RuntimeConfigUnreadable"]), "{:#}", report.json);
    let finding = &report.json["findings"][0];
    assert!(finding["evidence"][0]["source"].as_str().expect("a file").ends_with(config));
    assert_eq!(finding["evidence"][0]["seen"], "Permission denied");
}

fn without_the_hosts_processes_whether_mofed_runs_is_unknown() {
    let node = loaded().without_marker();
    node.remove("proc/2/comm");
    node.write("proc/locks", "");
    let report = report(&node);
    assert!(findings(&report).contains(&"SourceUnreadable"), "{:#}", report.json);
    for guess in ["MofedNeverCame", "MofedNotRunning", "MofedBuilding"] {
        assert!(!findings(&report).contains(&guess), "{guess}");
    }
}

fn a_stub_is_found_while_mofed_is_at_work() {
    let Some(node) = Node::ready().with_peermem("stub") else { return };
    assert_eq!(findings(&report(&node)), ["StubModule"]);
    let node = node.without_marker();
    let report = report(&node);
    let ids = findings(&report);
    assert!(ids.contains(&"MofedBuilding") && ids.contains(&"StubModule"), "{ids:?}");
    assert_eq!(ids[0], "StubModule", "it does not go by itself: {ids:?}");
}

fn a_module_of_another_mofed_is_found() {
    let Some(node) = Node::ready().with_peermem("old") else { return };
    let report = report(&node);
    assert_eq!((report.code, findings(&report)), (1, vec!["SymbolVersionMismatch"]), "{:#}", report.json);
}

fn files_of_another_release_than_the_loaded_nvidia_are_found() {
    let Some(node) = Node::ready().with_peermem("new") else { return };
    assert_eq!(findings(&report(&node)), [""; 0]);
    node.write("sys/module/nvidia/version", "1.2.3\n");
    let report = report(&node);
    assert_eq!(findings(&report), ["DriverVersionMismatch"], "{:#}", report.json);
}

fn a_missing_dependency_of_nvidia_peermem_is_found() {
    let Some(node) = Node::ready().with_peermem("new") else { return };
    let modules = fs::read_to_string(node.path("proc/modules")).expect("modules");
    node.write("proc/modules", modules.replace("nvidia 1 0 - Live", "nvidia 1 1 - Loading"));
    node.write("sys/module/nvidia/initstate", "coming\n");
    assert_eq!(findings(&report(&node))[0], "NvidiaInTransit");
}

fn a_bad_parameter_and_a_missing_signature_are_found() {
    let Some(node) = Node::ready().with_peermem("new") else { return };
    node.write("etc/modprobe.d/peermem.conf", "options nvidia-peermem peerdirect_support=7\n");
    assert_eq!(findings(&report(&node)), ["BadParameter"]);
    node.write("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
    assert_eq!(findings(&report(&node)), ["UnsignedModule"]);
}

/// A driver container shows its root there.
fn the_driver_containers_root_is_found() {
    let Some(node) = Node::ready().with_peermem("stub") else { return };
    fs::create_dir_all(node.path("run/nvidia/driver/lib")).expect("directories");
    node.rename("lib/modules", "run/nvidia/driver/lib/modules");
    let report = report(&node);
    assert_eq!(findings(&report), ["StubModule"]);
    let message = report.json["findings"][0]["evidence"][0]["seen"].as_str().expect("a file").to_owned();
    assert!(message.contains(&format!("run/nvidia/driver/{VIDEO}")), "{message}");
}

fn a_pid_file_that_names_another_process_is_ignored() {
    let node = loaded().without_marker();
    node.remove(LOCK);
    node.write("run/nvidia/nvidia-driver.pid", "4242\n");
    node.write("proc/4242/environ", "USE_HOST_MOFED=true\0");
    node.write("proc/4242/cmdline", "/bin/bash\0/usr/local/bin/nvidia-driver\0init\0");
    node.write("proc/4242/comm", "bash\n");
    node.write("proc/4242/status", "CapEff:\t000001ffffffffff\n");
    assert_eq!(report(&node).reason("MarkerPresent"), "MarkerAbsent");
    node.write("proc/4242/comm", "nvidia-driver\n");
    assert_eq!(report(&node).reason("MarkerPresent"), "NotRequired");
    let told = Report::of(doctor(&node).args(["--format", "json"]).env("USE_HOST_MOFED", "false"));
    assert_eq!(told.reason("MarkerPresent"), "MarkerAbsent", "its own environment wins");
}

fn answers_are_colored_only_on_terminals_and_as_the_variables_ask() {
    let script = ["script", "-qec"];
    if !can(&["script", "--version"]) {
        return;
    }
    let node = loaded().suspect();
    let on_terminal = |verb: &str, before: &str, name: &str, value: &str| {
        let line = format!("{before}{} {verb} --root {}", support::GATE, node.root().display());
        let mut command = Command::new(script[0]);
        let output =
            output(command.args([script[1], &line, "/dev/null"]).env("TERM", "xterm").env(name, value));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for verb in ["doctor", "doctor -v", "check"] {
        assert!(on_terminal(verb, "", "NO_COLOR", "").contains("\x1b["), "{verb}");
        assert!(!on_terminal(verb, "", "NO_COLOR", "1").contains("\x1b["), "{verb}");
        assert!(!on_terminal(verb, "", "TERM", "dumb").contains("\x1b["), "{verb}");
    }
    let piped = |force: &str| {
        let output = output(doctor(&node).env("CLICOLOR_FORCE", force));
        String::from_utf8_lossy(&output.stdout).contains('\x1b')
    };
    assert!(!piped("0") && piped("1"), "{KERNEL}");
    let wide = on_terminal("check", "stty cols 200; ", "NO_COLOR", "1");
    let narrow = on_terminal("check", "stty cols 60; ", "NO_COLOR", "1");
    // A path stays whole, however long it is.
    let has_path = |line: &&str| line.split(' ').any(|word| word.len() > 40);
    let widest = |text: &str| {
        let lines = text.lines().filter(|line| !has_path(line));
        lines.map(|line| line.trim_end().len()).max().unwrap_or_default()
    };
    assert!(widest(&wide) > 80 && widest(&narrow) <= 60, "{wide}{narrow}");
}

/// This process's own mounts and limits, in a mount namespace and a user namespace of its own.
fn a_private_mount_and_used_up_inotify_instances_are_found() {
    let unshare = ["unshare", "--user", "--map-root-user", "--mount"];
    if !can(&[&unshare[..], &["true"]].concat()) {
        return;
    }
    let here = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot id");
    let node = loaded();
    node.write("proc/sys/kernel/random/boot_id", here);
    node.write("source/drivers/.driver-ready", "");
    let limit = "/proc/sys/user/max_inotify_instances";
    let script = format!(
        "mount --bind source/drivers run/mellanox/drivers; mount --make-private run/mellanox/drivers; echo 0 > {limit}; \
         exec \"$0\" doctor --root \"$PWD\" --precompiled=$1 --format json"
    );
    let run = |precompiled: &str| {
        let mut command = Command::new(unshare[0]);
        let command = command.args(&unshare[1..]).args(["sh", "-c", &script, support::GATE, precompiled]);
        Report::of(command.current_dir(node.root()).env_remove("NODE_NAME"))
    };
    let report = run("false");
    let ids = findings(&report);
    assert!(
        ids.contains(&"MountPropagationMissing") && ids.contains(&"InotifyExhausted"),
        "{:#}",
        report.json
    );
    assert!(!findings(&run("true")).contains(&"MountPropagationMissing"), "no headers are asked for");
}

/// For a pod that looks at a node by a volume of its own.
fn install_puts_both_programs_into_a_volume() {
    let volume = tempfile::tempdir().expect("a directory");
    let beside = Path::new(support::GATE).parent().expect("a directory");
    let installed =
        output(Command::new(beside.join("peermem-gate")).args(["install", "--doctor"]).arg(volume.path()));
    assert_eq!(code(installed.status), 0, "{}", String::from_utf8_lossy(&installed.stderr));
    let explained = output(Command::new(volume.path().join("peermem-gate")).args(["explain", "StubModule"]));
    assert_eq!(code(explained.status), 0, "it finds the doctor beside it");

    let alone = tempfile::tempdir().expect("a directory");
    support::copy_program(beside.join("peermem-gate"), &alone.path().join("peermem-gate"));
    let refused = output(
        Command::new(alone.path().join("peermem-gate")).args(["install", "--doctor"]).arg(volume.path()),
    );
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        code(refused.status) == 2 && said.contains("/peermem-doctor cannot be read: No such file"),
        "{said}"
    );
    assert!(said.contains("use the image peermem-doctor"), "{said}");
}

tests![
    a_healthy_node_has_no_finding,
    a_report_for_machines_is_one_line_of_the_contracts_keys,
    a_log_that_is_not_understood_is_counted_and_named_with_its_last_line,
    explain_prints_the_page_of_a_finding_or_names_those_that_are_alike,
    every_finding_has_a_node_or_says_why_not,
    doctor_ends_with_2_only_if_something_that_the_gate_needs_is_unknown,
    an_unreadable_marker_is_unknown,
    logs_that_cannot_be_read_are_unknown,
    a_configuration_that_cannot_be_read_is_unknown,
    without_the_hosts_processes_whether_mofed_runs_is_unknown,
    a_stub_is_found_while_mofed_is_at_work,
    a_module_of_another_mofed_is_found,
    files_of_another_release_than_the_loaded_nvidia_are_found,
    a_missing_dependency_of_nvidia_peermem_is_found,
    a_bad_parameter_and_a_missing_signature_are_found,
    the_driver_containers_root_is_found,
    a_pid_file_that_names_another_process_is_ignored,
    answers_are_colored_only_on_terminals_and_as_the_variables_ask,
    a_private_mount_and_used_up_inotify_instances_are_found,
    install_puts_both_programs_into_a_volume,
];
