// SPDX-License-Identifier: Apache-2.0
//! Logs that were gathered elsewhere: must-gathers, kubectl's output, the gate's own log.

use super::files::{DRIVER, REFUSED, Tree, at, bracketed, logrus};
use super::{drawn, logged, stdout, timeline, times};
use crate::support::output;
use peermem_doctor::log::LogEvent;
use peermem_doctor::timeline::When;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

pub(super) fn timeline_asks_which_node_of_a_must_gather_it_should_draw() {
    let tree = Tree::new();
    for (pod, node) in [("driver-aaaaa", "gpu-1"), ("driver-bbbbb", "gpu-2")] {
        let at_pod = format!("mg/namespaces/nvidia-gpu-operator/pods/{pod}");
        let yaml = format!(
            "kind: Pod\nmetadata:\n  name: {pod}\n  namespace: nvidia-gpu-operator\nspec:\n  containers:\n  - name: nvidia-driver-ctr\n  nodeName: {node}\nstatus:\n  containerStatuses:\n  - name: nvidia-driver-ctr\n    restartCount: 64\n"
        );
        tree.write(&format!("{at_pod}/{pod}.yaml"), yaml);
        for (file, from) in [("previous.log", 0), ("current.log", 600)] {
            let path = format!("{at_pod}/nvidia-driver-ctr/nvidia-driver-ctr/logs/{file}");
            tree.write(
                &path,
                format!("{} + modprobe nvidia-peermem\n{} {REFUSED}\n", at(from), at(from + 1)),
            );
        }
    }
    let directory = tree.root().to_str().unwrap();
    let refused = timeline(&[directory]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("choose one with --node: gpu-1, gpu-2"));
    let text = stdout(&timeline(&[directory, "--node", "gpu-2"]));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("\ngpu-2: 2025-11-21 11:51:06 to 12:01:07 UTC"), "{text}");
    assert!(words.contains("nvidia-driver-ctr restarts again: nvidia_peermem is refused"), "{text}");
    assert!(text.contains("note: the first 63 logs of nvidia-driver-ctr are gone"), "{text}");
    let absent = timeline(&[directory, "--node", "gpu-3"]);
    assert_eq!(absent.status.code(), Some(2));
}

/// The GPU Operator's must-gather had no times until 2026.
pub(super) fn events_without_times_keep_their_order() {
    let tree = Tree::new();
    let line = |container: &str, text: &str| format!("[pod/driver-564xm/{container}] {text}\n");
    let log = [
        line("k8s-driver-manager", &logrus(35, "Waiting for MOFED to be installed")),
        line("k8s-driver-manager", &logrus(36, "Driver uninstallation completed successfully")),
        line("nvidia-driver-ctr", "Compiling NVIDIA driver kernel modules..."),
        line("nvidia-driver-ctr", "+ modprobe nvidia-peermem"),
        line("nvidia-driver-ctr", REFUSED),
        line("train", REFUSED),
    ];
    tree.write("gpu_operand_pod_driver-564xm.log", log.concat());
    let timeline = drawn(&tree);
    let order = [
        LogEvent::DriverManagerAsksForMofed,
        LogEvent::DriverManagerDone,
        LogEvent::DriverBuildStarted,
        LogEvent::PeermemModprobe,
        LogEvent::PeermemRefused,
    ];
    assert_eq!(logged(&timeline), order);
    assert!(
        timeline.events[2..]
            .iter()
            .all(|event| matches!(event.when, When::Between { after: None, before: None }))
    );
    assert!(timeline.text(100).contains("(its log has no times)"), "{}", timeline.text(100));

    // With one line that has its own, the others lie before or behind it.
    let tree = Tree::new();
    let log = [
        "Loading HCA driver and Access Layer:   [  OK  ]",
        &bracketed(400, "Setting driver ready state"),
        "Unloading HCA driver:   [  OK  ]",
    ];
    tree.write("mofed-container.log", log.join("\n"));
    let timeline = drawn(&tree);
    let words = timeline.text(100).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("(before 11:57:46)") && words.contains("(after 11:57:46)"), "{words}");
}

pub(super) fn the_gates_own_log_is_read_as_text_and_as_json() {
    let text = |seconds: i64, message: &str| format!("{}  INFO {message}\n", at(seconds));
    let json = |seconds: i64, message: &str| {
        format!("{{\"timestamp\":\"{}\",\"level\":\"INFO\",\"message\":\"{message}\"}}\n", at(seconds))
    };
    for line in [&text as &dyn Fn(i64, &str) -> String, &json] {
        let tree = Tree::new();
        tree.write(
            "gate.log",
            [
                line(0, "waiting: MOFED has not set its marker /x condition=MarkerPresent cause=start"),
                line(453, "open: all conditions hold"),
            ]
            .concat(),
        );
        let timeline = drawn(&tree);
        assert_eq!(logged(&timeline), [LogEvent::GateWaits, LogEvent::GateOpened]);
        assert_eq!(times(&timeline), [0, 453]);
        assert_eq!(timeline.events[0].text, "the gate waits: MOFED has not set its marker /x");
    }
}

/// A wait that was recorded at `--log-level trace`, with the stamps that the log has.
pub(super) fn recorded_looks_show_what_changed() {
    let trace =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/traces/incident.trace"))
            .expect("a trace");
    let looks: Vec<&str> = trace.lines().filter(|line| line.starts_with("{\"at_ms\"")).collect();
    let stamped = |as_json: bool| {
        let line = |look: &&str| {
            let ms = serde_json::from_str::<Value>(look).unwrap()["at_ms"].as_i64().unwrap();
            let stamp = at(ms / 1000);
            if as_json {
                let message = serde_json::to_string(&format!("look {look}")).unwrap();
                format!("{{\"timestamp\":\"{stamp}\",\"level\":\"TRACE\",\"message\":{message}}}\n")
            } else {
                format!("{stamp} TRACE look {look}\n")
            }
        };
        looks.iter().map(line).collect::<Vec<_>>().concat()
    };
    for as_json in [false, true] {
        let tree = Tree::new();
        tree.write("wait.log", stamped(as_json));
        let timeline = drawn(&tree);
        let what: Vec<_> = timeline.events.iter().map(|event| event.what.name()).collect();
        assert_eq!(
            what,
            ["LookStackLive", "LookStackGone", "LookMarkerSet", "LookStackLive"],
            "{timeline:#?}"
        );
    }
}

pub(super) fn a_line_that_two_sources_have_is_one_event() {
    let tree = Tree::new();
    tree.stub_race();
    let copy = fs::read_to_string(tree.root().join(DRIVER.log("0.log"))).unwrap();
    let prefixed: Vec<String> = copy
        .lines()
        .map(|line| {
            let mut parts = line.splitn(4, ' ');
            let (stamp, text) = (parts.next().unwrap(), parts.nth(2).unwrap());
            format!("[pod/{}/nvidia-driver-ctr] {stamp} {text}\n", DRIVER.pod)
        })
        .collect();
    let alone = drawn(&tree).events.len();
    tree.write("kubectl-logs.txt", prefixed.concat());
    assert_eq!(drawn(&tree).events.len(), alone);
}

/// The picture without its line breaks.
fn words(args: &[&str]) -> String {
    stdout(&timeline(args)).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An archive says the same as the directory that was packed, and its logs are named by their place in it.
pub(super) fn timeline_reads_an_archive_like_its_directory() {
    let tree = Tree::new();
    tree.stub_race();
    let uid = "00000000-8f2b-4c5e-9d0a-0a1b2c3d4e5f";
    tree.write(&format!("var/log/pods/team-a_web-0_{uid}/mofed-container/0.log"), "a user's\n");
    let events = |json: &str| -> Vec<Value> {
        let json: Value = serde_json::from_str(json).expect("JSON");
        let without_path = |event: &Value| [&event["what"], &event["time"], &event["text"]].map(Value::clone);
        json["events"].as_array().expect("events").iter().map(|event| without_path(event).into()).collect()
    };
    let directory = tree.root().to_str().expect("a path");
    let expected = events(&stdout(&timeline(&[directory, "--format", "json"])));
    assert!(expected.len() > 5, "{expected:?}");
    let scratch = Tree::new();
    for (options, name) in [("-cf", "logs.tar"), ("-czf", "logs.tgz")] {
        let archive = scratch.root().join(name);
        let mut made = Command::new("tar");
        made.arg(options).arg(&archive).args(["-C", directory, "."]);
        assert!(output(&mut made).status.success());
        let archive = archive.to_str().expect("a path");
        let json = stdout(&timeline(&[archive, "--format", "json"]));
        assert_eq!(events(&json), expected, "{name}");
        assert!(json.contains(&format!("{archive}/{}", DRIVER.log("0.log"))), "{json}");
        assert!(words(&[archive]).contains("of namespace team-a does not count"));
    }
}

pub(super) fn an_archive_without_logs_is_named() {
    let tree = Tree::new();
    tree.write("binary", [0, 1, 2, 3]);
    let archive = tree.root().join("other.tar");
    let mut made = Command::new("tar");
    made.arg("-cf").arg(&archive).arg("-C").arg(tree.root()).arg("binary");
    assert!(output(&mut made).status.success());
    let text = words(&[archive.to_str().expect("a path")]);
    assert!(text.contains("it has no logs and no output of kubectl"), "{text}");
}

/// Whose log a file is: lists in every form of kubectl's decide it for `timeline` as they do for `doctor`.
pub(super) fn timeline_and_doctor_agree_whose_log_a_file_is() {
    let bundle = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bundles/kubectl");
    let bundle = bundle.to_str().expect("a path");
    // `kubectl describe` lists web-0 in a user's namespace, and the log is named after it.
    let text = words(&[bundle]);
    assert!(text.contains("pod web-0 of namespace team-a does not count"), "{text}");
    let said = "ib_core is in use and cannot be unloaded";
    assert!(!text.contains(said), "{text}");
    let counted = words(&[bundle, "--operator-namespace", "team-a"]);
    assert!(counted.contains(said), "{counted}");

    // A list as JSON says on which node the pod is, and stern's lines are of its containers.
    let tree = Tree::new();
    let list = r#"{"apiVersion": "v1", "items": [{"metadata": {"name": "driver-x", "namespace": "gpu-operator"},
        "spec": {"nodeName": "gpu-7", "containers": [{"name": "nvidia-driver-ctr"}]},
        "status": {"containerStatuses": [{"name": "nvidia-driver-ctr", "restartCount": 3}]}}], "kind": "PodList"}"#;
    tree.write("pods.json", list);
    tree.write("stern.txt", format!("driver-x nvidia-driver-ctr {} {REFUSED}\n", at(10)));
    let timeline = drawn(&tree);
    assert_eq!(logged(&timeline), [LogEvent::PeermemRefused]);
    assert_eq!(
        timeline.notes,
        ["the first 3 logs of nvidia-driver-ctr are gone; when it built the driver is not known"]
    );
    assert!(timeline.text(100).contains("gpu-7: "), "{}", timeline.text(100));
}

pub(super) fn timeline_refuses_wrong_arguments_and_names_files_that_are_not_logs() {
    let missing = timeline(&["/nowhere/at-all"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot read /nowhere/at-all"));
    let tree = Tree::new();
    tree.write("a.tar.gz", "x");
    tree.write("binary", [0, 1, 2, 3]);
    tree.write("novel.txt", "It was a dark and stormy night.\n");
    tree.write("both.log", "Compiling NVIDIA driver kernel modules...\n");
    // A host's root without anything in it: not this machine's past, and not its name.
    let empty = Tree::new();
    let drawn = timeline(&["--root", empty.root().to_str().unwrap(), "--format", "json"]);
    assert_eq!(drawn.status.code(), Some(2));
    let drawn: serde_json::Value = serde_json::from_slice(&drawn.stdout).expect("JSON");
    assert!(drawn["node"].is_null(), "{drawn:#}");
    assert_eq!(timeline(&["/dev/zero"]).status.code(), Some(2));
    for (file, why) in [
        ("a.tar.gz", "an archive: unpack it"),
        ("binary", "not a text"),
        ("novel.txt", "none of its lines is known"),
        ("both.log", "two containers may have written it"),
    ] {
        let path = tree.root().join(file);
        let drawn = timeline(&[path.to_str().unwrap()]);
        assert_eq!(drawn.status.code(), Some(2), "{file}");
        let text = stdout(&drawn);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(why), "{file}: {text}");
        assert!(words.contains("or when MOFED was ready. timeline: no known event has a time"), "{text}");
    }
    // A directory holds many such files, and nobody asked about them.
    assert!(!stdout(&timeline(&[tree.root().to_str().unwrap()])).contains("note:"));
}
