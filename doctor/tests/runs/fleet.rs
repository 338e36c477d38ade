// SPDX-License-Identifier: Apache-2.0
//! Reports of many nodes, rolled up.

mod equal;
mod progress;

use crate::expected::schema::check;
use crate::support::{self, LIMIT, Node, can, code, gate, output, output_within, refusal, tests, wrapped};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// What `fleet --format json` says of these lines, and its exit code.
fn rollup(lines: &str) -> (i32, Value) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), lines).unwrap();
    let output = output(gate().args(["fleet", "--format", "json"]).arg(file.path()));
    let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    check(&json);
    (code(output.status), json)
}

fn text(lines: &str) -> (i32, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), lines).unwrap();
    let output = output(gate().arg("fleet").arg(file.path()));
    let text = String::from_utf8(output.stdout).unwrap();
    (code(output.status), text.replace(&file.path().display().to_string(), "FILE"))
}

/// A report as `doctor` prints it, with one finding of this id unless it is ready.
fn report(node: &str, time: &str, verdict: &str, id: Option<&str>) -> Value {
    let findings = id.map(|id| {
        json!({
            "id": id, "severity": "critical", "title": format!("the title of {id}"),
            "evidence": [{"source": "somewhere", "seen": "something"}],
            "remedy": [format!("`kubectl delete pod --field-selector spec.nodeName={node}`.")],
        })
    });
    json!({
        "schema": "peermem-gate/v1", "version": "0.1.0", "node": node, "kernel": "5.14.0-427.el9.x86_64",
        "arch": "x86_64", "boot_id": "b", "time": time, "verdict": verdict, "conditions": [],
        "findings": findings.into_iter().collect::<Vec<_>>(), "chain": [],
    })
}

/// 64 MiB.
const MEMORY: &str = "--data=67108864";
const NOON: &str = "2026-08-20T12:00:00Z";

fn ready(node: &str) -> Value {
    report(node, NOON, "Ready", None)
}

fn lines(reports: &[Value]) -> String {
    reports.iter().fold(String::new(), |lines, report| lines + &report.to_string() + "\n")
}

fn nodes_are_grouped_by_root_cause_with_one_remedy() {
    let blocked = |node| report(node, NOON, "Blocked", Some("StubModule"));
    let mut waiting = report("n5", NOON, "Waiting", Some("MarkerAbsent"));
    let consequence = json!({
        "id": "ModuleInTree", "severity": "warning", "title": "t", "evidence": [], "remedy": [],
        "follows_from": "MarkerAbsent",
    });
    let info =
        json!({"id": "SeveralRuntimes", "severity": "info", "title": "t", "evidence": [], "remedy": []});
    waiting["findings"].as_array_mut().unwrap().extend([consequence, info]);
    let all = lines(&[ready("n1"), blocked("n2"), blocked("n4"), blocked("n3"), waiting]);
    let (code, json) = rollup(&all);
    assert_eq!(code, 1);
    assert_eq!(json["verdicts"], json!({"Ready": 1, "Blocked": 3, "Waiting": 1}));
    assert_eq!((&json["nodes"], &json["not_ready"]), (&json!(5), &json!(4)));
    let causes = json["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 2, "{causes:#?}");
    assert_eq!(causes[0]["id"], "StubModule");
    assert_eq!(causes[0]["nodes"], json!(["n2", "n3", "n4"]));
    // A report's own steps are that report's word: the remedy is the table's.
    assert_eq!(causes[0]["reported"], json!(["`kubectl delete pod --field-selector spec.nodeName=NODE`."]));
    let own = peermem_doctor::finding::Id::StubModule;
    assert_eq!((&causes[0]["remedy"], &causes[0]["title"]), (&json!(own.steps()), &json!(own.title())));
    assert_eq!(causes[1]["id"], "MarkerAbsent");

    let (code, text) = text(&all);
    assert_eq!(code, 1);
    assert!(text.starts_with("5 nodes: 4 critical, 1 ok (gate: 3 Blocked, 1 Ready, 1 Waiting)\n"), "{text}");
    let reported = "    only the reports say: `kubectl delete pod --field-selector \\\n";
    assert_eq!(text.matches(reported).count(), 2, "one for each cause: {text}");
    assert!(
        text.contains("critical StubModule: nvidia-peermem.ko") && text.contains("\n    on    n[2-4]\n"),
        "{text}"
    );
}

fn a_fleet_that_is_ready_ends_with_0() {
    let apart = report("n2", NOON, "NotApplicable", None);
    assert_eq!(rollup(&lines(&[ready("n1"), apart])).0, 0);
    let (code, text) = text(&lines(&[ready("n1")]));
    assert_eq!(code, 0);
    assert_eq!(text, "1 node: 1 ok (gate: 1 Ready)\n\n1 report; 0 damaged lines\n");
}

fn fleet_does_not_end_with_0_while_a_node_may_not_be_ready() {
    assert_eq!(rollup("").0, 2, "no report at all");
    assert_eq!(rollup(&lines(&[report("n1", NOON, "Unknown", None)])).0, 1);
    let cut = ready("n2").to_string();
    let damaged = format!("{}\n{}\n", ready("n1"), &cut[..cut.len() - 9]);
    assert_eq!(rollup(&damaged).0, 2, "the damaged line may be a node's that is not ready");
    // Ready, and its containers do not start.
    assert_eq!(rollup(&lines(&[report("n1", NOON, "Ready", Some("NvidiaProgramMissing"))])).0, 1);
}

fn lines_of_kubectl_logs_are_read_behind_their_prefix() {
    let prefixed = format!(
        "[pod/peermem-doctor-x7k2p/doctor] {}\n[pod/peermem-doctor-9qqzt/doctor] 2026-08-20T12:00:01.5Z {}\r\n\n",
        ready("n1"),
        ready("n2")
    );
    let (code, json) = rollup(&prefixed);
    assert_eq!((code, &json["nodes"], &json["damaged"]), (0, &json!(2), &json!(0)));
}

fn damaged_lines_are_counted_and_named_and_cost_nothing_else() {
    let whole = ready("n1").to_string();
    let input = format!(
        "{whole}\n[pod/p-1/doctor] {}\nError from server: pods not found\n{{\"schema\":\"other/v1\",\"node\":\"x\"}}\n\
         {{]\n\u{0}{{\"schema\":\"peermem-gate/v1\"}}\n{}\n",
        &whole[..60],
        ready("n2")
    );
    let (code, json) = rollup(&input);
    assert_eq!((code, &json["nodes"], &json["damaged"]), (2, &json!(2), &json!(4)));
    assert_eq!(json["other_lines"], 1);
    let named: Vec<_> = json["damages"].as_array().unwrap().iter().map(|d| (&d["line"], &d["why"])).collect();
    assert_eq!(named.iter().map(|(line, _)| line.as_u64().unwrap()).collect::<Vec<_>>(), [2, 4, 5, 6]);
    assert_eq!(json["damages"][0]["prefix"], "[pod/p-1/doctor]");
    assert_eq!(named[0].1, "cut off after 60 bytes");
    assert!(named[1].1.as_str().unwrap().contains("other/v1"), "{named:?}");
    assert!(text(&input).1.contains("FILE:2 [pod/p-1/doctor]: cut off after 60 bytes\n"));

    let many = "{\n".repeat(1000);
    let (_, json) = rollup(&many);
    assert_eq!((&json["damaged"], json["damages"].as_array().unwrap().len()), (&json!(1000), 20));
}

fn of_a_long_damaged_line_only_the_beginning_is_shown() {
    let long = "x".repeat(4000);
    let schema = format!(r#"{{"schema":"{long}"}}"#);
    for line in [format!("{long}{{no report"), schema, "\u{1}".repeat(4000) + "{"] {
        let (_, said) = text(&line);
        assert!(said.contains('…') && said.len() < 1500, "{} bytes: {said}", said.len());
    }
}

fn fleet_skips_an_endless_line_and_reads_on() {
    let mut endless = vec![b'{'; 3 << 20];
    endless.extend_from_slice(format!("\n{}", ready("n1")).as_bytes());
    let (code, json) = rollup(&String::from_utf8(endless).unwrap());
    assert_eq!((code, &json["nodes"], &json["damaged"]), (2, &json!(1), &json!(1)));
    assert_eq!(json["damages"][0]["why"], "longer than 1048576 bytes");
}

fn fleet_uses_the_newest_report_of_each_node() {
    let at = |time, verdict, id| report("n1", time, verdict, id);
    let old = at("2026-08-20T11:00:00Z", "Blocked", Some("StubModule"));
    let new = at(NOON, "Ready", None);
    for reports in [[old.clone(), new.clone()], [new.clone(), old]] {
        let (code, json) = rollup(&lines(&reports));
        assert_eq!((code, &json["superseded"]), (0, &json!(1)));
        assert_eq!(json["verdicts"], json!({"Ready": 1}));
        assert_eq!(json["causes"], json!([]), "a cause of a superseded report is none");
    }
    // At the same time, the later line; one without a time is older than any.
    let again = at(NOON, "Waiting", Some("MarkerAbsent"));
    assert_eq!(rollup(&lines(&[new.clone(), again])).1["verdicts"], json!({"Waiting": 1}));
    assert_eq!(rollup(&lines(&[new, at("soon", "Blocked", None)])).1["verdicts"], json!({"Ready": 1}));
}

fn reports_of_other_versions_count_as_far_as_they_go() {
    let mut later = report("n2", NOON, "Postponed", Some("SomethingNew"));
    later["schema"] = json!("peermem-gate/v2");
    later["version"] = json!("2.0.0");
    later["findings"][0]["severity"] = json!("fatal");
    later["findings"][0]["blast_radius"] = json!({"pods": [1, 2]});
    later["chain"] = json!([{"file": "x", "broken": true, "waited_s": 7, "new": null}]);
    let mut without = ready("n3");
    without["schema"] = json!("peermem-gate/v3");
    without.as_object_mut().unwrap().remove("node");
    let (code, json) = rollup(&lines(&[ready("n1"), later, without]));
    assert_eq!((code, &json["nodes"], &json["damaged"]), (1, &json!(2), &json!(1)));
    assert_eq!(json["causes"][0]["id"], "SomethingNew");
    assert_eq!(json["versions"]["schema"], json!({"peermem-gate/v1": 1, "peermem-gate/v2": 1}));
    assert_eq!(json["versions"]["version"], json!({"0.1.0": 1, "2.0.0": 1}));
    assert!(json["damages"][0]["why"].as_str().unwrap().contains("peermem-gate/v3"));
}

fn fleet_names_versions_that_differ_and_no_others() {
    let mut other = ready("n2");
    other["kernel"] = json!("5.14.0-503.el9.x86_64");
    other["drivers"] = json!({"mofed": "24.10-1.1.4", "nvidia": "580.65.06"});
    let mut same = ready("n3");
    same["drivers"] = json!({"mofed": "25.07-0.9.7", "nvidia": "580.65.06"});
    let (_, json) = rollup(&lines(&[ready("n1"), other, same]));
    let keys: Vec<_> = json["versions"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["kernel", "mofed"]);
    assert_eq!(json["versions"]["mofed"], json!({"24.10-1.1.4": 1, "25.07-0.9.7": 1}));
}

fn fleet_names_the_longest_waits() {
    let waiting = |n: i64| {
        let mut waiting = report(&format!("n{n}"), NOON, "Waiting", None);
        waiting["chain"] = json!([
            {"file": ".driver-ready", "broken": false},
            {"file": ".driver-ctr-ready", "broken": true, "waited_s": n * 60},
        ]);
        waiting
    };
    let (_, json) = rollup(&lines(&(1..=15).map(waiting).collect::<Vec<_>>()));
    let slowest = json["slowest"].as_array().unwrap();
    assert_eq!(slowest.len(), 10);
    assert_eq!(slowest[0], json!({"node": "n15", "file": ".driver-ctr-ready", "seconds": 900}));
}

fn fleet_reads_reports_of_check_and_doctor() {
    let node = Node::ready().without_marker();
    let gpu = "sys/bus/pci/devices/0000:41:00.0";
    node.write(&format!("{gpu}/vendor"), "0x10de\n");
    node.write(&format!("{gpu}/class"), "0x030200\n");
    let mut check = node.check();
    let check = output(check.args(["--format", "json"]).env("NODE_NAME", "by-check"));
    let mut doctor = gate();
    let doctor = output(
        doctor.args(["doctor", "--format", "json", "--root"]).arg(node.root()).env("NODE_NAME", "by-doctor"),
    );
    let all = [check.stdout, doctor.stdout].concat();
    let (code, json) = rollup(&String::from_utf8(all).unwrap());
    assert_eq!((code, &json["nodes"], &json["damaged"]), (1, &json!(2), &json!(0)), "{json:#}");
    let of = |node: &str| {
        let causes = json["causes"].as_array().unwrap();
        let of_node = |cause: &&Value| cause["nodes"].as_array().unwrap().contains(&json!(node));
        causes.iter().filter(of_node).map(|cause| cause["id"].as_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(of("by-check"), ["MarkerAbsent"]);
    assert_eq!(
        of("by-doctor").first(),
        Some(&"MofedBuilding"),
        "harmless, and what follows is not: {json:#}"
    );
}

fn a_node_whose_name_is_a_word_does_not_spoil_the_remedy() {
    let mut odd = report("a", NOON, "Blocked", Some("StubModule"));
    odd["findings"][0]["remedy"] =
        json!(["Wait a moment, then `kubectl drain a` or nodeName=a, not nodeName=abc."]);
    let (_, json) = rollup(&lines(&[odd]));
    assert_eq!(
        json["causes"][0]["reported"][0],
        "Wait a moment, then `kubectl drain a` or nodeName=NODE, not nodeName=abc."
    );
}

fn fleet_reads_files_or_standard_input() {
    let (exit, said) = refusal(gate().args(["fleet", "/nowhere/reports"]));
    assert_eq!(exit, 2);
    assert!(said.contains("/nowhere/reports") && said.contains("No such file"), "{said}");
    let (exit, said) = refusal(gate().args(["fleet", "/"]));
    assert_eq!(exit, 2);
    assert!(said.contains("it is a directory"), "{said}");
    for words in [&["fleet"][..], &["fleet", "-"]] {
        let mut fleet = gate();
        fleet.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = fleet.spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines(&[ready("n1")]).as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.stdout.starts_with(b"1 node: 1 ok"), "{output:?}");
    }
}

/// Ten thousand reports of 8 KiB each are more than the 64 MiB that it may take.
fn a_large_fleet_streams_through() {
    if !can(&["prlimit", MEMORY, "true"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("reports");
    write_large(&file);
    assert!(file.metadata().unwrap().len() > 64 << 20);
    let mut fleet = gate();
    fleet.args(["fleet", "--format", "json"]).arg(&file);
    // 64 MiB of JSON, in a build without optimization.
    let output = output_within(LIMIT * 10, &mut wrapped(["prlimit", MEMORY], &fleet));
    assert_eq!(code(output.status), 1, "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["nodes"], &json["not_ready"]), (&json!(10_000), &json!(1000)));
    assert_eq!(json["causes"][0]["count"], 1000);

    // The bound is felt: what keeps all of it does not get by.
    let mut keeps = Command::new("prlimit");
    keeps.args([MEMORY, "python3", "-c", "import sys; open(sys.argv[1]).read()"]).arg(&file);
    if can(&["python3", "--version"]) {
        assert_ne!(code(support::output(&mut keeps).status), 0);
    }
}

fn write_large(path: &Path) {
    let condition =
        json!({"type": "ModulesLive", "status": "True", "reason": "AllLive", "message": "live: ib_core"});
    let conditions = vec![condition.to_string(); 90].join(",");
    let mut file = std::io::BufWriter::new(fs::File::create(path).unwrap());
    for n in 0..10_000 {
        let id = (n % 10 == 0).then_some("StubModule");
        let verdict = if id.is_some() { "Blocked" } else { "Ready" };
        let report = report(&format!("gpu-node-{n:05}"), NOON, verdict, id).to_string();
        let report = report.replace("\"conditions\":[]", &format!("\"conditions\":[{conditions}]"));
        writeln!(file, "{report}").unwrap();
    }
}

/// Reports of anybody's making: words of their own in each, and thousands of findings in a line.
fn hostile_reports_cost_no_more_than_others() {
    if !can(&["prlimit", MEMORY, "true"]) {
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = std::io::BufWriter::new(file.as_file());
    for node in 0..100 {
        let finding = |number: usize| {
            let title = format!("{node} {number} {}", "x".repeat(20));
            json!({"id": format!("F{node}x{number}"), "severity": "critical", "title": title, "remedy": [title]})
        };
        let mut report = report(&format!("n{node}"), NOON, "Blocked", None);
        report["findings"] = (0..6000).map(finding).collect();
        let line = report.to_string();
        assert!(line.len() < 1 << 20, "{}", line.len());
        writeln!(writer, "{line}").unwrap();
    }
    writer.flush().unwrap();
    let mut fleet = gate();
    fleet.args(["fleet", "--format", "json"]).arg(file.path());
    let begun = Instant::now();
    let output = output(&mut wrapped(["prlimit", MEMORY], &fleet));
    assert_eq!(code(output.status), 1, "{}", String::from_utf8_lossy(&output.stderr));
    assert!(begun.elapsed() < LIMIT / 2, "{:?}", begun.elapsed());
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["nodes"], 100);
    assert_eq!(json["causes"][0]["id"], "OtherCauses");
}

fn a_fifo_that_nobody_writes_to_is_empty_and_one_with_a_writer_is_read_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let fleet = || output(gate().args(["fleet", "--format", "json"]).arg(&fifo));
    assert_eq!(code(fleet().status), 2);
    let mut writer = fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    let ended = thread::spawn(move || {
        // Opened for both, it never waits; the pause is no part of what is tested.
        thread::sleep(Duration::from_millis(300));
        writeln!(writer, "{}", ready("n1")).unwrap();
        thread::sleep(Duration::from_millis(300));
    });
    let output = fleet();
    ended.join().unwrap();
    assert_eq!(code(output.status), 0, "{output:?}");
}

fn fleet_reads_two_reports_on_one_line() {
    let blocked = report("b", NOON, "Blocked", Some("StubModule"));
    let (ends, all) = rollup(&format!("{}{blocked}\n", ready("a")));
    assert_eq!((ends, &all["nodes"], &all["damaged"]), (1, &json!(2), &json!(0)), "{all:#}");
    // What is neither is damage, and hides a node.
    let (ends, all) = rollup(&format!("{}{{\"half\n", ready("a")));
    assert_eq!((ends, &all["nodes"], &all["damaged"]), (2, &json!(1), &json!(1)), "{all:#}");
    let (ends, all) = rollup(&format!("pod/x {} behind it\n", ready("a")));
    assert_eq!((ends, &all["nodes"], &all["damaged"]), (0, &json!(1), &json!(0)), "{all:#}");
}

fn control_characters_in_reports_do_not_reach_the_terminal() {
    let mut hostile = report("evil\u{1b}[2J\nnode", NOON, "Blocked", Some("StubModule"));
    hostile["findings"][0]["title"] = "\u{1b}[31m red\nREADY".into();
    hostile["findings"][0]["remedy"][0] = "\u{1b}[8mhidden\r".into();
    let (_, said) = text(&lines(&[hostile]));
    assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{said:?}");
    assert!(!said.contains("\nnode") && !said.contains("\nREADY"), "{said:?}");
}

fn fleet_counts_a_cause_once_for_each_node() {
    let mut twice = report("n1", NOON, "Blocked", Some("StubModule"));
    let [one, other] = [0, 0].map(|at: usize| twice["findings"][at].clone());
    let between = json!({"id": "MarkerAbsent", "severity": "warning", "title": "t", "remedy": []});
    twice["findings"] = json!([one, between, other]);
    let (_, all) = rollup(&lines(&[twice]));
    assert_eq!(all["causes"][0]["count"], 1, "{all:#}");
}

/// What `kubectl get nodes,pods -A -o json` prints, as far as it matters.
fn cluster() -> Value {
    let node =
        |name: &str, labels: Value| json!({"kind": "Node", "metadata": {"name": name, "labels": labels}});
    let gpu = json!({"feature.node.kubernetes.io/pci-0302_10de.present": "true"});
    let deploy =
        |value: &str| json!({"nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.driver": value});
    let pod = |name: &str, on: &str, container: &str, init: Value| {
        json!({
            "kind": "Pod", "metadata": {"name": name, "namespace": "gpu-operator"},
            "spec": {"nodeName": on, "containers": [{"name": container}], "initContainers": init},
        })
    };
    let gate = json!([{"name": "k8s-driver-manager"}, {"name": "peermem-gate"}]);
    let shim = json!([{"name": "x", "volumeMounts": [{"mountPath": "/opt/peermem-gate"}]}]);
    let bare = json!([{"name": "k8s-driver-manager"}]);
    json!({"kind": "List", "items": [
        node("n-1", gpu.clone()), node("n-2", gpu.clone()), node("n-3", deploy("true")), node("n-4", gpu),
        node("n-5", deploy("paused-for-driver-upgrade")), node("n-6", deploy("pre-installed")),
        node("cpu", json!({})),
        pod("driver-1", "n-1", "nvidia-driver-ctr", gate), pod("driver-2", "n-2", "nvidia-driver-ctr", bare.clone()),
        pod("driver-3", "n-3", "nvidia-driver-ctr", shim), pod("other", "n-4", "training", bare),
    ]})
}

fn rollup_with(cluster: &str, reports: &str) -> (i32, Value) {
    rollup_of(&[], cluster, reports)
}

fn rollup_of(options: &[&str], cluster: &str, reports: &str) -> (i32, Value) {
    let directory = tempfile::tempdir().unwrap();
    let [nodes, lines] = ["nodes", "reports"].map(|name| directory.path().join(name));
    fs::write(&nodes, cluster).unwrap();
    fs::write(&lines, reports).unwrap();
    let output =
        output(gate().args(["fleet", "--format", "json"]).args(options).arg("--nodes").arg(nodes).arg(lines));
    let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    check(&json);
    (code(output.status), json)
}

fn the_clusters_nodes_and_pods_add_what_reports_lack() {
    let all = lines(&["n-1", "n-2", "n-3", "n-5", "n-6"].map(ready));
    let (code, rollup) = rollup_with(&cluster().to_string(), &all);
    // `-o yaml`, in one list or in two.
    let yaml = |value: &Value| serde_norway::to_string(value).unwrap();
    let [mut nodes, mut pods] = [(); 2].map(|()| cluster());
    for (list, kind) in [(&mut nodes, "Node"), (&mut pods, "Pod")] {
        list["items"].as_array_mut().unwrap().retain(|item| item["kind"] == kind);
    }
    let two_lists = format!("{}---\n{}", yaml(&nodes), yaml(&pods));
    for text in [yaml(&cluster()), two_lists] {
        assert_eq!(rollup_with(&text, &all), (code, rollup.clone()), "{text}");
    }
    let causes = rollup["causes"].as_array().unwrap();
    let named: Vec<_> = causes.iter().map(|cause| (cause["id"].as_str().unwrap(), &cause["nodes"])).collect();
    assert_eq!(
        named,
        [
            ("DriverPodMissing", &json!(["n-4"])),
            ("DriverPodWithoutGate", &json!(["n-2"])),
            ("LabelKeepsDriverAway", &json!(["n-5"])),
            ("NoReport", &json!(["n-4"])),
        ],
        "{rollup:#}"
    );
    assert!(
        causes[2]["title"]
            .as_str()
            .unwrap()
            .contains("nvidia.com/gpu.deploy.driver=paused-for-driver-upgrade")
    );
    assert_eq!((code, &rollup["without_report"], &rollup["nodes"]), (1, &json!(1), &json!(5)));
}

/// A user's pod may have a container of any name, but neither an operator's namespace nor its privileges.
fn a_users_pod_is_no_driver_pod() {
    let all = lines(&["n-1", "n-2", "n-3", "n-5", "n-6"].map(ready));
    let honest = cluster();
    let with = |pod: &Value| {
        let mut cluster = honest.clone();
        cluster["items"].as_array_mut().unwrap().push(pod.clone());
        cluster.to_string()
    };
    let mut lie = json!({
        "kind": "Pod", "metadata": {"name": "web-0", "namespace": "team-a"},
        "spec": {"nodeName": "n-4", "containers": [{"name": "nvidia-driver-ctr"}]},
    });
    let (_, before) = rollup_with(&honest.to_string(), &all);
    let (_, after) = rollup_with(&with(&lie), &all);
    assert_eq!(after["causes"], before["causes"]);
    let (_, named) = rollup_of(&["--operator-namespace", "team-b,team-a"], &with(&lie), &all);
    lie["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    let (_, privileged) = rollup_with(&with(&lie), &all);
    for rollup in [named, privileged] {
        let missing = json!("DriverPodMissing");
        let causes = rollup["causes"].as_array().unwrap();
        assert!(causes.iter().all(|cause| cause["id"] != missing), "it is n-4's driver pod: {rollup:#}");
    }
    let (code, said) = refusal(gate().args(["fleet", "--operator-namespace", "Team A"]));
    assert!(code == 2 && said.contains("is no namespace"), "{code}: {said}");
}

fn a_node_without_a_report_may_be_in_any_state() {
    let node = |name: &str| json!({"kind": "Node", "metadata": {"name": name, "labels": {"nvidia.com/gpu.present": "true"}}});
    let cluster = json!({"items": [node("n-1"), node("n-2")]}).to_string();
    let (code, rollup) = rollup_with(&cluster, &lines(&[ready("n-1")]));
    assert_eq!((code, &rollup["without_report"]), (2, &json!(1)), "{rollup:#}");
    // No driver pod anywhere: every driver is its host's.
    assert_eq!(rollup["causes"].as_array().unwrap().len(), 1);
    let (code, rollup) = rollup_with(&cluster, &lines(&["n-1", "n-2"].map(ready)));
    assert_eq!((code, &rollup["without_report"]), (0, &json!(0)), "{rollup:#}");
}

fn fleet_refuses_a_file_that_is_not_a_list_of_nodes() {
    for text in [
        "",
        "{}",
        "[]",
        "{\"items\": 3}",
        "{\"items\": [{\"kind\": \"Node\"}]}",
        "{\"items\": [",
        "items: 3",
        "items: [",
        "no list",
    ] {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        let (code, said) = refusal(gate().args(["fleet", "--nodes"]).arg(file.path()).arg("/dev/null"));
        assert_eq!(code, 2, "{said}");
        assert!(said.contains("cannot read nodes from"), "{text}: {said}");
    }
    let (code, said) = refusal(gate().args(["fleet", "--nodes", "/no/such/file"]));
    assert_eq!(code, 2, "{said}");
}

tests![
    nodes_are_grouped_by_root_cause_with_one_remedy,
    a_fleet_that_is_ready_ends_with_0,
    fleet_does_not_end_with_0_while_a_node_may_not_be_ready,
    lines_of_kubectl_logs_are_read_behind_their_prefix,
    damaged_lines_are_counted_and_named_and_cost_nothing_else,
    of_a_long_damaged_line_only_the_beginning_is_shown,
    fleet_skips_an_endless_line_and_reads_on,
    fleet_uses_the_newest_report_of_each_node,
    reports_of_other_versions_count_as_far_as_they_go,
    fleet_names_versions_that_differ_and_no_others,
    fleet_names_the_longest_waits,
    fleet_reads_reports_of_check_and_doctor,
    a_node_whose_name_is_a_word_does_not_spoil_the_remedy,
    fleet_reads_files_or_standard_input,
    a_large_fleet_streams_through,
    hostile_reports_cost_no_more_than_others,
    a_fifo_that_nobody_writes_to_is_empty_and_one_with_a_writer_is_read_to_its_end,
    fleet_reads_two_reports_on_one_line,
    control_characters_in_reports_do_not_reach_the_terminal,
    fleet_counts_a_cause_once_for_each_node,
    the_clusters_nodes_and_pods_add_what_reports_lack,
    a_users_pod_is_no_driver_pod,
    a_node_without_a_report_may_be_in_any_state,
    fleet_refuses_a_file_that_is_not_a_list_of_nodes,
    progress::a_terminal_shows_that_reports_are_still_read_until_the_answer,
    progress::a_stopped_terminal_keeps_no_answer_waiting,
    progress::a_stopped_terminal_gets_its_line_cleared_before_the_answer,
    progress::a_job_in_the_background_draws_no_line_and_goes_on,
    progress::a_dumb_terminal_gets_no_line,
    progress::what_is_no_terminal_gets_no_line,
    equal::sixty_equal_stubs_are_one_block_and_so_are_six_thousand,
    equal::the_commands_of_each_node_are_shown_on_request,
    equal::the_documents_sample_is_an_answer,
];
