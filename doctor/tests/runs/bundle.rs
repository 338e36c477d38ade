// SPDX-License-Identifier: Apache-2.0
//! `doctor BUNDLE`: gathered files of nodes that are elsewhere. tests/bundles has one of each gatherer.

use crate::expected::schema::check;
use crate::support::{GATE, output, tests};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const MUST_GATHER: &str = "must-gather";
const SOSREPORT: &str = "sosreport";
const KUBECTL: &str = "kubectl";

fn bundle(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bundles").join(name)
}

fn doctor(bundle: &Path, args: &[&str]) -> Output {
    output(Command::new(GATE).arg("doctor").arg(bundle).args(args).env_clear())
}

/// The reports of all nodes, and how it ended.
fn reports(bundle: &Path, args: &[&str]) -> (Vec<Value>, Option<i32>) {
    let output = doctor(bundle, &[&["--format", "json"], args].concat());
    let text = String::from_utf8(output.stdout).expect("text");
    let reports: Vec<_> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    reports.iter().for_each(check);
    (reports, output.status.code())
}

/// The findings that alarm, by their ids.
fn loud(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().expect("findings").iter();
    let is_loud = |finding: &&Value| finding["severity"] == "critical" || finding["severity"] == "warning";
    findings.filter(is_loud).filter_map(|finding| finding["id"].as_str()).collect()
}

fn sources(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().expect("findings").iter();
    let evidence = findings.flat_map(|finding| finding["evidence"].as_array().expect("evidence"));
    evidence.filter_map(|evidence| evidence["source"].as_str()).collect()
}

/// A bundle of these files, as a directory.
fn of(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    directory
}

fn a_must_gather_gives_a_report_for_each_node_and_a_recovered_container_gives_no_finding() {
    let (reports, code) = reports(&bundle(MUST_GATHER), &[]);
    let nodes: Vec<_> = reports.iter().map(|report| report["node"].as_str().expect("a name")).collect();
    assert_eq!((nodes.as_slice(), code), (["gpu-1", "gpu-2"].as_slice(), Some(1)));
    assert_eq!(loud(&reports[0]), ["PeermemRefused"]);
    assert_eq!(loud(&reports[1]), Vec::<&str>::new());
    let file = "gpu_operand_pod_nvidia-driver-daemonset-aaaaa.log (nvidia-driver-daemonset-aaaaa, nvidia-driver-ctr)";
    assert!(sources(&reports[0]).contains(&file), "{:?}", sources(&reports[0]));
    for report in &reports {
        let keys = ["schema", "version", "kernel", "arch", "time", "conditions", "chain", "runtimes"];
        assert!(keys.iter().all(|key| !report[key].is_null()), "{report}");
        let missing = report["not_in_bundle"].as_array().expect("what is missing");
        assert!(missing.iter().any(|part| part == "the list of all loaded modules"), "{missing:?}");
    }
}

fn a_bundle_without_findings_lists_what_it_lacks_and_is_not_a_success() {
    let good = of(&[("nvidia-driver-ctr.log", "Done, now waiting for signal\n")]);
    let output = doctor(good.path(), &[]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.starts_with("UNKNOWN: no cause") && text.contains("not in this bundle: "), "{text}");
    assert!(!text.contains("nothing found") && !text.contains("Ready"), "{text}");
}

/// Neither a list of the pods nor the marker says anything: what MOFED logged last does.
fn mofeds_log_alone_shows_why_mofed_does_not_start() {
    let refused = "[16-Nov-26_16:11:41] Storage modules are loaded for current driver, terminating prior driver reload \
        failure due to UNLOAD_STORAGE_MODULES not set to \"true\"\n";
    let ready = "[16-Nov-26_16:14:02] Setting driver ready state\n";
    for (text, expected) in
        [(refused.to_owned(), &["StorageModulesLoaded"][..]), (refused.to_owned() + ready, &[])]
    {
        let bundle = of(&[("mofed-container.log", &text)]);
        let (reports, _) = reports(bundle.path(), &[]);
        assert_eq!(loud(&reports[0]), expected, "{text}");
    }
}

/// As in a node's own report: an operators' log of which no line is known is evidence that was not read.
fn a_bundles_log_that_is_not_understood_is_counted_and_named_with_its_last_line() {
    let pod = |name: &str| format!("namespaces/gpu-operator/pods/{name}/nvidia-fs-ctr/nvidia-fs-ctr/logs");
    let [current, previous] = ["current.log", "previous.log"].map(|log| format!("{}/{log}", pod("driver-x")));
    let driver = "namespaces/gpu-operator/pods/driver-x/nvidia-driver-ctr/nvidia-driver-ctr/logs/current.log";
    let users = pod("web-0").replace("gpu-operator", "team-a") + "/current.log";
    let files = of(&[
        (&current, "a word\nanother\n\n"),
        (&previous, "an older one\n"),
        (driver, "Done, now waiting for signal\n"),
        (&users, "a user's\n"),
    ]);
    let (reports, _) = reports(files.path(), &[]);
    let unknown =
        serde_json::json!([{"container": "gpu-operator/driver-x/nvidia-fs-ctr", "last": "another"}]);
    assert_eq!(reports.iter().map(|report| &report["not_understood"]).collect::<Vec<_>>(), [&unknown]);
    let text = String::from_utf8(doctor(files.path(), &[]).stdout).expect("text");
    assert!(text.contains("not understood: 1 log of the operators: gpu-operator/driver-x/"), "{text}");
}

fn a_dash_is_standard_input_and_an_empty_one_is_refused() {
    let fed = |verb: &str, input: &[u8]| {
        let mut doctor = Command::new(GATE);
        doctor
            .args([verb, "-"])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = doctor.spawn().expect("a child");
        // One that ends before it has read all closes the pipe.
        let _ = child.stdin.take().expect("a pipe").write_all(input);
        let output = child.wait_with_output().expect("an output");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).expect("text").replace('\n', " "))
    };
    let archive =
        Command::new("tar").arg("cC").arg(bundle("")).arg(MUST_GATHER).output().expect("tar").stdout;
    let log = "[pod/driver-x/nvidia-driver-ctr] 2025-11-21T11:50:00Z modprobe: ERROR: could not insert \
               'nvidia_peermem': Invalid argument\n";
    for (verb, input, code, words) in [
        ("doctor", archive.as_slice(), 1, "CRITICAL gpu-1"),
        ("doctor", log.as_bytes(), 1, "PeermemRefused"),
        ("timeline", log.as_bytes(), 0, "recognized: 1"),
        ("inspect", b"no module", 1, "neither an ELF file"),
        ("fleet", b"", 2, "no report"),
        ("doctor", b"", 2, "error: cannot read standard input: it is empty"),
        ("timeline", b"", 2, "error: cannot read standard input: it is empty"),
        ("inspect", b"", 2, "error: cannot read standard input: it is empty"),
        ("timeline", b"\0", 2, "error: cannot read standard input: it has no logs"),
    ] {
        let (ends, said) = fed(verb, input);
        assert!(ends == Some(code) && said.contains(words), "{verb}: {ends:?}: {said}");
    }
}

fn a_sosreport_names_the_module_that_keeps_mofed_from_starting() {
    let (reports, code) = reports(&bundle(SOSREPORT), &[]);
    assert_eq!((reports.len(), code), (1, Some(1)));
    assert_eq!(loud(&reports[0]), ["ThirdPartyRdmaModulesLoaded"]);
    let remedy = reports[0]["findings"][0]["remedy"].to_string();
    assert!(remedy.contains("rmmod mana_ib"), "{remedy}");
    // `lsmod | grep mlx` shows a part: nothing that it lacks is missing on the node.
    assert!(
        !sources(&reports[0]).iter().any(|source| source.contains("lsmod")),
        "{:?}",
        sources(&reports[0])
    );
}

fn described_pods_show_why_a_container_waits_and_a_users_log_does_not_count() {
    let (reports, _) = reports(&bundle(KUBECTL), &[]);
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert_eq!((reports[0]["node"].as_str(), loud(&reports[0])), (Some("gpu-3"), vec!["ImageNotPulled"]));
    let unread = reports[0]["not_read"].to_string();
    assert!(unread.contains("web-0 of namespace team-a does not count"), "{unread}");
    let (reports, _) = self::reports(&bundle(KUBECTL), &["--operator-namespace", "team-a"]);
    assert!(loud(&reports[0]).contains(&"MofedModuleInUse"), "{:?}", loud(&reports[0]));
}

fn a_users_prefixed_lines_do_not_count() {
    let list = r#"{"kind": "List", "items": [
        {"kind": "Pod", "metadata": {"name": "web-0", "namespace": "team-a"}, "spec": {"nodeName": "n1",
            "containers": [{"name": "mofed-container"}]}},
        {"kind": "Node", "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.present": "true"}}}]}"#;
    let lie = "rmmod: ERROR: Module ib_core is in use by: rpcrdma";
    let all =
        format!("[pod/web-0/mofed-container] {lie}\n[pod/web-0/x] [pod/mofed-x/mofed-container] {lie}\n");
    let (reports, code) = reports(of(&[("pods.json", list), ("all.log", &all)]).path(), &[]);
    assert_eq!((loud(&reports[0]), code), (vec![], Some(2)));
}

fn a_report_of_one_node_shows_its_modules_and_its_kernels_log() {
    let kernel =
        "[   97.000000] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n";
    let modules = "nvidia 56823808 5 nvidia_uvm, Live 0x0000000000000000 (POE)\n\
        mlx5_core 2342912 1 mlx5_ib, Live 0x0000000000000000 (OE)\n";
    let files = [
        ("sos/sos_commands/host/hostname", "gpu-9\n"),
        ("sos/sos_commands/kernel/dmesg", kernel),
        ("sos/proc/modules", modules),
        (
            "sos/var/log/pods/gpu-operator_driver-x_6f1f2c1e-8f2b-4c5e-9d0a-0a1b2c3d4e5f/nvidia-peermem-ctr/0.log",
            "2026-11-20T10:00:00.0Z stdout F waiting for mellanox ofed and nvidia drivers to be installed\n",
        ),
    ];
    let (reports, _) = reports(of(&files).path(), &[]);
    assert_eq!(reports[0]["node"], "gpu-9");
    let missing = reports[0]["not_in_bundle"].to_string();
    assert!(!missing.contains("loaded modules") && !missing.contains("kernel's log"), "{missing}");
    assert!(loud(&reports[0]).contains(&"SymbolVersionMismatch"), "{:?}", loud(&reports[0]));
}

fn reports_of_several_nodes_side_by_side_are_kept_apart() {
    let log = "var/log/pods/nvidia-network-operator_mofed-x_6f1f2c1e-8f2b-4c5e-9d0a-0a1b2c3d4e5f/mofed-container/9.log";
    let line = "2026-11-20T10:00:00.0Z stderr F rmmod: ERROR: Module ib_uverbs is in use by: mana_ib\n";
    let (first, second) = (format!("sos-a/{log}"), "sos-b/sos_commands/host/hostname");
    let files =
        [("sos-a/sos_commands/host/hostname", "gpu-a\n"), (first.as_str(), line), (second, "gpu-b\n")];
    let (reports, _) = reports(of(&files).path(), &[]);
    assert_eq!(reports.iter().map(loud).collect::<Vec<_>>(), [vec!["ThirdPartyRdmaModulesLoaded"], vec![]]);
}

fn a_table_of_pods_says_which_node_a_log_is_of_and_a_log_of_no_listed_pod_is_named_as_unread() {
    let table = "NAMESPACE                 NAME      READY   STATUS             RESTARTS        AGE   IP        NODE    NOMINATED NODE\n\
        nvidia-network-operator   mofed-a   0/1     CrashLoopBackOff   64 (3m ago)     5h    10.0.0.1  n1      <none>\n\
        nvidia-network-operator   mofed-b   1/1     Running            0               5h    10.0.0.2  n2      <none>\n";
    let prefixed = |pod: &str| {
        format!("[pod/{pod}/mofed-container] rmmod: ERROR: Module ib_uverbs is in use by: mana_ib\n")
    };
    let nodes = "kind: List\nitems:\n- kind: Node\n  metadata: {name: n1, labels: {nvidia.com/gpu.present: 'true'}}\n\
        - kind: Node\n  metadata: {name: n2, labels: {nvidia.com/gpu.present: 'true'}}\n";
    let (a, c) = (prefixed("mofed-a"), prefixed("mofed-c"));
    let files = [("pods.txt", table), ("nodes.yaml", nodes), ("a.log", a.as_str()), ("c.log", c.as_str())];
    let (reports, _) = reports(of(&files).path(), &[]);
    assert_eq!(reports.iter().map(loud).collect::<Vec<_>>(), [vec!["ThirdPartyRdmaModulesLoaded"], vec![]]);
    let unread = reports[1]["not_read"].to_string();
    assert!(unread.contains("pod mofed-c: no list of pods says on which node"), "{unread}");
}

/// A pod that kubelet refused concerns its node, whether or not an operator's pod is there; one that no controller
/// could create has no node, so it concerns them all.
fn a_refusal_is_said_of_each_node_that_it_concerns() {
    let list = include_str!("../bundles/refused.yaml");
    let of_list = |list: &str| -> Vec<String> {
        let (reports, _) = reports(of(&[("pods.yaml", list)]).path(), &[]);
        reports.iter().map(|report| format!("{} {:?}", report["node"], loud(report))).collect()
    };
    let (pods, _) = list.split_once("- kind: Event").expect("an event");
    assert_eq!(of_list(pods), [r#""n1" []"#, r#""n2" ["PodRefused"]"#, r#""n3" ["PodRefused"]"#]);
    assert_eq!(of_list(list), ["n1", "n2", "n3"].map(|node| format!("{node:?} [\"PodRefused\"]")));
}

/// The state lists all functions of the node's NICs: no virtual one is among them.
fn the_sriov_operators_state_shows_that_no_virtual_function_is_there() {
    let state = "kind: List\nitems:\n- kind: SriovNetworkNodeState\n  metadata: {name: n1}\n\
        \x20 status: {interfaces: [{pciAddress: '0000:18:00.0', vendor: 15b3, driver: mlx5_core VFS}]}\n\
        - kind: Node\n  metadata: {name: n1, labels: {nvidia.com/gpu.present: 'true'}}\n";
    let log = "2024-01-06T10:20:47.174441773Z\tERROR\tsriov/sriov.go:681\tconfigSriovInterfaces(): fail to configure \
        sriov interface. resetting interface.\t{\"address\": \"0000:18:00.0\", \"error\": \"can't set eSwitch mode\"}\n";
    let daemon = "sriov-network-config-daemon.log";
    for (functions, expected) in
        [("", vec!["SriovConfigFailed"]), (", Vfs: [{pciAddress: '0000:18:00.1'}]", vec![])]
    {
        let state = state.replace(" VFS", functions);
        let (reports, _) = reports(of(&[("all.yaml", state.as_str()), (daemon, log)]).path(), &[]);
        assert_eq!(loud(&reports[0]), expected, "{functions}");
    }
    let (reports, _) = reports(of(&[(daemon, log)]).path(), &[]);
    assert_eq!(loud(&reports[0]), ["SriovConfigFailed"], "nobody lists the functions: missing is not false");
    let words = reports[0]["findings"][0].to_string();
    assert!(words.contains("this counts if the NIC has no virtual functions now"), "{words}");
}

/// Virtual machines, no device plugin, mig-manager at work: kubelet goes on counting 0 of what a plugin once offered.
fn a_node_that_is_to_offer_no_gpus_is_not_missed() {
    let ids = |labels: &str, capacity: u8| {
        let node = format!(
            r#"{{"kind": "Node", "metadata": {{"name": "n", "labels": {{{labels}}}}}, "status": {{"capacity":
                {{"nvidia.com/gpu": "{capacity}"}}, "allocatable": {{"nvidia.com/gpu": "0"}}}}}}"#
        );
        let (reports, _) = reports(of(&[("node.json", &node)]).path(), &[]);
        loud(&reports[0]).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    for label in [
        r#""nvidia.com/gpu.workload.config": "vm-passthrough""#,
        r#""nvidia.com/gpu.deploy.device-plugin": "paused-for-mig-change""#,
        r#""nvidia.com/mig.config.state": "pending""#,
    ] {
        assert_eq!(ids(label, 8), [""; 0], "{label}");
    }
    assert_eq!(ids("", 0), [""; 0]);
    assert_eq!(ids("", 8), ["GpusNotOffered"]);
    assert_eq!(ids(r#""nvidia.com/gpu.deploy.device-plugin": "true""#, 0), ["GpusNotOffered"]);
}

/// Gatherers name a node's files after it, and write `unknown` where they do not know it.
fn a_file_of_an_unknown_node_is_no_node() {
    let line = "[   97.0] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n";
    let files = ["gpu-2", "unknown"].map(|node| format!("ofed-driver/diagnostics/{node}-dmesg.txt"));
    let (reports, _) = reports(of(&files.each_ref().map(|file| (file.as_str(), line))).path(), &[]);
    let nodes: Vec<_> = reports.iter().map(|report| report["node"].as_str()).collect();
    assert_eq!(nodes, [Some("gpu-2")]);
}

/// Law 2: of a posted `systemctl status`, what the service itself said last is evidence, too.
fn a_posted_services_own_last_words_are_said() {
    let status = "Jul 20 16:15:36 h x-start.sh[2291]: Kernel module \"ib_umad\" has not been loaded, x cannot be started\n\
                  Jul 20 16:15:36 h systemd[1]: x.service: Control process exited, code=exited, status=1/FAILURE\n";
    let status = status.replace(" x", " nvidia-fabricmanager");
    let (reports, _) = reports(of(&[("s.txt", &status)]).path(), &[]);
    assert_eq!(loud(&reports[0]), ["HostServiceFails"]);
    assert!(reports[0]["findings"].to_string().contains("has not been loaded"), "{reports:?}");
}

/// Whatever somebody calls a file that he posts, and a file of which no line is known is named.
/// Law 2: of a posted file without a known sentence its own last error is said, as text.
fn a_strange_files_own_last_error_is_said() {
    let errors = [
        "gb300:61204:61257 [0] misc/mlx5dvwrap.cc:77 NCCL WARN Call to mlx5dv_reg_dmabuf_mr failed with error Operation not supported",
        "slurmd: error: Waiting for gres.conf file /dev/nvidia7",
        "[1732190000.1] [gpu-1:77] ib_device.c:1330 UCX ERROR ibv_create_ah failed: Connection timed out",
        "dcgmi: Error: unable to establish a connection to the specified host: localhost",
        "Couldn't allocate MR: failed to create mr \u{1b}[2J",
    ];
    for error in errors {
        let files = of(&[("posted.txt", &format!("step 1\n{error}\nstep 2\n"))]);
        let (reports, _) = reports(files.path(), &[]);
        let unread = reports[0]["not_read"][0].as_str().unwrap_or_default().to_owned();
        assert!(unread.ends_with(&format!("its own last error: {error}")), "{unread}");
        let shown = doctor(files.path(), &[]).stdout;
        assert!(!shown.contains(&0x1b), "{error:?}");
    }
}

/// kubelet's refusal of a user's pod is an observation about the device plugin, in each form that kubectl shows.
fn a_refused_pod_is_a_word_about_the_device_plugin() {
    let why = "Allocate failed due to device plugin GetPreferredAllocation rpc failed with err: rpc error: code = \
        Unknown desc = error calling nvml.Init: Unknown Error, which is unexpected";
    let described = format!(
        "Name:             x\nNamespace:        ml\nNode:             n1/\nStatus:           Failed\nReason:           \
         UnexpectedAdmissionError\nMessage:          Pod was rejected: {why}\nContainers:\n  server:\n    Image:      a\n"
    );
    let listed = format!(
        "kind: Pod\nmetadata: {{name: x, namespace: ml}}\nspec: {{nodeName: n1, containers: [{{name: server}}]}}\n\
         status: {{phase: Failed, reason: UnexpectedAdmissionError, message: '{why}'}}\n"
    );
    for (name, text) in [("pod.txt", &described), ("pod.yaml", &listed)] {
        let (reports, _) = reports(of(&[(name, text.as_str())]).path(), &[]);
        assert_eq!(loud(&reports[0]), ["DevicePluginUnsound"], "{name}: {reports:?}");
        let other = text.replace("nvml", "cpu").replace("UnexpectedAdmissionError", "OutOfcpu");
        let (quiet, _) = self::reports(of(&[(name, other.as_str())]).path(), &[]);
        assert_eq!(loud(&quiet[0]), Vec::<&str>::new(), "{name}");
    }
    // Such a pod stays after its cause: the newest time of the bundle is a month later.
    let later = "---\nkind: Event\nmetadata: {name: e, namespace: ml}\nsource: {component: kubelet, host: n1}\n\
                 involvedObject: {kind: Pod, name: y, namespace: ml}\nreason: BackOff\nmessage: Back-off\n\
                 lastTimestamp: '2026-03-01T00:00:00Z'\n";
    for (day, ids) in [("2026-02-01", &[][..]), ("2026-03-01", &["DevicePluginUnsound"])] {
        let taken_in = format!("status: {{startTime: '{day}T00:00:00Z', ");
        let both = listed.replace("status: {", &taken_in) + later;
        let (reports, _) = reports(of(&[("pod.yaml", both.as_str())]).path(), &[]);
        assert_eq!(loud(&reports[0]), ids, "{day}");
    }
}

fn archives_are_read_packed_or_not_and_nothing_of_them_is_written() {
    let scratch = tempfile::tempdir().expect("a directory");
    let tar = |options: &str, name: &str| {
        let archive = scratch.path().join(name);
        let mut made = Command::new("tar");
        made.arg(options).arg(&archive).arg("-C").arg(bundle(SOSREPORT)).arg(".");
        assert!(output(&mut made).status.success());
        archive
    };
    let (expected, _) = reports(&bundle(SOSREPORT), &[]);
    for (options, name) in [("-cf", "a.tar"), ("-czf", "a.tar.gz"), ("-czf", "b.tgz")] {
        let (reports, code) = self::reports(&tar(options, name), &[]);
        assert_eq!((loud(&reports[0]), code), (loud(&expected[0]), Some(1)), "{name}");
        assert_eq!(sources(&reports[0]), sources(&expected[0]), "{name}");
    }
    let mut xz = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::default()).expect("an encoder");
    std::io::Write::write_all(&mut xz, &fs::read(scratch.path().join("a.tar")).expect("an archive"))
        .expect("xz");
    let packed = xz.finish().expect("xz");
    fs::write(scratch.path().join("a.tar.xz"), packed).expect("a file");
    let (reports, _) = reports(&scratch.path().join("a.tar.xz"), &[]);
    assert_eq!(loud(&reports[0]), loud(&expected[0]));
    let whole = fs::read(scratch.path().join("a.tar.gz")).expect("an archive");
    let cut = tempfile::Builder::new().suffix(".tar.gz").tempfile().expect("a file");
    fs::write(cut.path(), &whole[..whole.len() / 2]).expect("half an archive");
    let said = doctor(cut.path(), &[]);
    let said = [said.stdout, said.stderr].concat();
    assert!(String::from_utf8_lossy(&said).contains("ends early"), "{}", String::from_utf8_lossy(&said));
    let mut names: Vec<_> = fs::read_dir(scratch.path())
        .expect("names")
        .map(|entry| entry.expect("a name").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["a.tar", "a.tar.gz", "a.tar.xz", "b.tgz"]);
}

fn sterns_lines_are_of_their_containers_and_a_strange_line_of_talosctls_is_named_as_not_read() {
    let refused = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument";
    let stern = format!("driver-x nvidia-driver-ctr {refused}\ndriver-x train {refused}\n");
    let bundle = of(&[("stern.txt", &stern), ("logs/kubelet.log", "10.5.0.2: {\"msg\":\"a word\"}\n")]);
    let (reports, _) = reports(bundle.path(), &[]);
    assert_eq!(loud(&reports[0]), ["PeermemRefused"]);
    assert!(
        sources(&reports[0]).contains(&"stern.txt (driver-x, nvidia-driver-ctr)"),
        "{:?}",
        sources(&reports[0])
    );
    let unread = reports[0]["not_read"].to_string();
    assert!(unread.contains("logs/kubelet.log: none of its lines is known"), "{unread}");
}

/// A path in an archive is a name, and a link in it is nothing.
fn paths_and_links_of_a_hostile_archive_lead_nowhere() {
    let scratch = tempfile::tempdir().expect("a directory");
    let archive = scratch.path().join("hostile.tar");
    let mut tar = tar::Builder::new(fs::File::create(&archive).expect("a file"));
    let words = b"rmmod: ERROR: Module ib_uverbs is in use by: mana_ib\n";
    let mut header = tar::Header::new_gnu();
    header.set_size(words.len() as u64);
    let name = b"../../../mofed-container.log";
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_cksum();
    tar.append(&header, words.as_slice()).expect("an entry");
    let mut link = tar::Header::new_gnu();
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_size(0);
    tar.append_link(&mut link, "nvidia-driver-ctr.log", "/etc/passwd").expect("a link");
    drop(tar);
    let (reports, _) = reports(&archive, &[]);
    assert_eq!(loud(&reports[0]), ["ThirdPartyRdmaModulesLoaded"]);
    assert!(!scratch.path().join("../../../mofed-container.log").exists());
    assert!(!reports[0]["looked_at"].to_string().contains("driver's containers"), "{}", reports[0]);

    let directory = of(&[("mofed-container.log", "Setting driver ready state\n")]);
    std::os::unix::fs::symlink("/etc/passwd", directory.path().join("nvidia-driver-ctr.log"))
        .expect("a link");
    let (reports, _) = self::reports(directory.path(), &[]);
    assert!(!reports[0]["looked_at"].to_string().contains("driver's containers"), "{}", reports[0]);
}

fn unreadable_files_of_a_bundle_are_named() {
    let deep = format!("kind: Pod\nmetadata: {}\n", "[".repeat(100_000));
    let directory =
        of(&[("pods.yaml", &deep), ("mofed-container.log", "x\n"), ("system.journal", "LPKSHHRH")]);
    let (reports, code) = reports(directory.path(), &[]);
    let unread = reports[0]["not_read"].to_string();
    assert!(unread.contains("pods.yaml: ") && unread.contains("system.journal: "), "{unread}");
    assert_eq!(code, Some(2));

    let scratch = tempfile::tempdir().expect("a directory");
    let archive = scratch.path().join("cut.tar");
    let mut made = Command::new("tar");
    made.arg("-cf").arg(&archive).arg("-C").arg(bundle(MUST_GATHER)).arg(".");
    assert!(output(&mut made).status.success());
    let bytes = fs::read(&archive).expect("an archive");
    fs::write(&archive, &bytes[..bytes.len() / 2 - 100]).expect("a part of it");
    let (reports, _) = self::reports(&archive, &[]);
    assert!(reports[0]["not_read"].to_string().contains("cut"), "{}", reports[0]["not_read"]);
}

fn a_path_that_is_not_a_bundle_is_refused() {
    let empty = tempfile::tempdir().expect("a directory");
    for path in [empty.path().to_owned(), empty.path().join("missing.tar.gz")] {
        let output = doctor(&path, &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("cannot read"), "{said}");
    }
    let root = empty.path().join("host");
    for directory in ["proc/1", "sys/module"] {
        std::fs::create_dir_all(root.join(directory)).expect("a directory");
    }
    let said = doctor(&root, &[]);
    assert_eq!(said.status.code(), Some(2), "{said:?}");
    assert!(
        String::from_utf8_lossy(&said.stderr).contains(&format!("use --root {}", root.display())),
        "{said:?}"
    );
    // None of these has an end.
    let pipe = empty.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let socket = empty.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    for (path, what) in [(&pipe, "a pipe"), (&socket, "a socket"), (&PathBuf::from("/dev/zero"), "a device")]
    {
        let output = output(Command::new("timeout").arg("60").arg(GATE).arg("doctor").arg(path));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("it is {what}: name a directory or an archive")), "{said}");
    }
    let output = doctor(&bundle(SOSREPORT), &["--every", "1h"]);
    assert_eq!(output.status.code(), Some(2));
}

tests![
    a_must_gather_gives_a_report_for_each_node_and_a_recovered_container_gives_no_finding,
    a_bundle_without_findings_lists_what_it_lacks_and_is_not_a_success,
    mofeds_log_alone_shows_why_mofed_does_not_start,
    a_bundles_log_that_is_not_understood_is_counted_and_named_with_its_last_line,
    a_dash_is_standard_input_and_an_empty_one_is_refused,
    a_sosreport_names_the_module_that_keeps_mofed_from_starting,
    described_pods_show_why_a_container_waits_and_a_users_log_does_not_count,
    a_users_prefixed_lines_do_not_count,
    a_report_of_one_node_shows_its_modules_and_its_kernels_log,
    reports_of_several_nodes_side_by_side_are_kept_apart,
    a_table_of_pods_says_which_node_a_log_is_of_and_a_log_of_no_listed_pod_is_named_as_unread,
    a_refusal_is_said_of_each_node_that_it_concerns,
    the_sriov_operators_state_shows_that_no_virtual_function_is_there,
    a_node_that_is_to_offer_no_gpus_is_not_missed,
    a_file_of_an_unknown_node_is_no_node,
    a_posted_services_own_last_words_are_said,
    a_strange_files_own_last_error_is_said,
    a_refused_pod_is_a_word_about_the_device_plugin,
    archives_are_read_packed_or_not_and_nothing_of_them_is_written,
    sterns_lines_are_of_their_containers_and_a_strange_line_of_talosctls_is_named_as_not_read,
    paths_and_links_of_a_hostile_archive_lead_nowhere,
    unreadable_files_of_a_bundle_are_named,
    a_path_that_is_not_a_bundle_is_refused,
];
