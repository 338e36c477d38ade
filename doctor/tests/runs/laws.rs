// SPDX-License-Identifier: Apache-2.0
//! What holds of `doctor`'s answer on nodes that are broken here in many ways: chains that stop anywhere, and logs of
//! any content. tests/runs/nodes.rs holds every described node to the laws of remedies and exit codes.

use crate::expected::{Answer, text};
use crate::fixture::{BOOT, Node, Variant, nodes, scenarios};
use crate::support::suite;
use libtest_mimic::Trial;
use peermem_doctor::diagnose::diagnose;
use peermem_doctor::finding::Id;
use peermem_doctor::finding::fact::{
    HOLDER_IS_HARMLESS, OPENSHIFT, PRECOMPILED_IMAGE, SYSTEMD, TALOS, TOOLKIT_LACKS,
};
use peermem_doctor::log::SERVICES;
use peermem_doctor::probe::{survey, symptoms};
use peermem_doctor::stamp::{SECOND, Stamp};
use peermem_doctor::symptoms::{MountViewer, Mounts, Symptoms, View};
use peermem_gate::cli::Verb;
use peermem_gate::cli::environment::{Variables, parse};
use peermem_gate::peermem::look::NodeProbe;
use peermem_gate::ready::files::mount::Mount;
use peermem_gate::ready::node;
use peermem_gate::ready::node::PeermemExpected;
use peermem_gate::ready::observation::Observation;
use peermem_gate::ready::probe::Depth;
use peermem_gate::survey::settings::settings;
use peermem_gate::words::judge;
use peermem_gate::words::remedy::Fact;
use peermem_gate::words::remedy::fact::{DRIVER_POD, HOST_DRIVER};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

const LOGS: &str = "var/log/pods";

/// Wherever a whole chain breaks off, for longer than its next file takes, that is a finding, and the exit code is 1.
fn a_stuck_readiness_chain_is_a_finding() {
    let files = [
        "run/mellanox/drivers/.driver-ready",
        "run/nvidia/validations/.driver-ctr-ready",
        "run/nvidia/validations/driver-ready",
        "run/nvidia/validations/toolkit-ready",
        "run/nvidia/validations/cuda-ready",
    ];
    let plugin = "run/nvidia/validations/plugin-ready";
    let whole = nodes().join("healthy-both-operators/node");
    assert!(Answer::of(&Node::described(&whole, Variant::Faulty)).is_quiet());
    for first in 0..files.len() {
        let node = Node::described(&whole, Variant::Faulty);
        let gone: Vec<_> = files[first..].iter().chain([&plugin]).collect();
        for file in &gone {
            fs::remove_file(node.path(file)).expect("a file of the chain");
        }
        let answer = Answer::of(&node);
        assert_eq!(answer.code, 1, "without {gone:?}: {:#?}", answer.findings);
        assert!(!answer.findings.is_empty(), "without {gone:?}");
    }
    // Without its successors a file that is missing says as much.
    for file in files {
        let node = Node::described(&whole, Variant::Faulty);
        fs::remove_file(node.path(file)).expect("a file of the chain");
        let answer = Answer::of(&node);
        assert!(
            answer.code == 1 && !answer.findings.is_empty(),
            "without {file}: {:#?}",
            answer.report["chain"]
        );
    }
}

/// Pods that no operator has made, one of them with an operator's words and a container of its name.
fn workloads(node: &Node, lines: &str) {
    let write = |path: &str, text: &str| {
        let path = node.path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a log");
    };
    let uid = "6f1f2c1e-8f2b-4c5e-9d0a-0a1b2c3d4e5f";
    write(&format!("{LOGS}/default_train-0_{uid}/train/0.log"), lines);
    write(&format!("var/lib/kubelet/pods/{uid}/containers/train/x"), "");
}

fn cri(lines: &[&str]) -> String {
    let written: Vec<_> =
        lines.iter().map(|line| format!("2025-08-22T00:00:00.000000000Z stderr F {line}\n")).collect();
    written.concat()
}

/// The answer about a node of this description.
fn described(text: &str) -> Answer {
    let description = tempfile::NamedTempFile::new().expect("a file");
    fs::write(&description, text).expect("a node");
    Answer::of(&Node::described(description.path(), Variant::Faulty))
}

const HEALTHY: &str = "healthy-both-operators/node";

/// A workload may print what it likes.
fn the_log_lines_of_a_workload_cause_no_finding() {
    let node = Node::described(&nodes().join(HEALTHY), Variant::Faulty);
    let patterns = peermem_doctor::log::RULES.iter().flat_map(|rule| rule.patterns);
    let lines: Vec<_> = patterns.map(|pattern| pattern.words).collect();
    workloads(&node, &cri(&lines));
    let answer = Answer::of(&node);
    assert!(answer.is_quiet(), "{:#?}", answer.findings);
}

/// What a line of an operator's container holds does not get out as it is.
fn hostile_log_lines_cause_no_alarm_and_are_escaped() {
    let hostile = [
        "\u{1b}[2J\u{1b}]0;owned\u{7} modprobe: ERROR",
        "modprobe: ERROR: could not insert 'nvidia_peermem",
        "could not insert 'nvidia_peermem': Invalid argument said the user",
        "\0\0\0\0",
        "{\"log\": \"Storage modules are loaded\", \"stream\"",
        "Setting driver ready state\r Storage modules are loaded for current driver",
        "P P P F F",
    ];
    let node = Node::described(&nodes().join(HEALTHY), Variant::Faulty);
    for entry in fs::read_dir(node.path(LOGS)).expect("logs").flatten() {
        for container in fs::read_dir(entry.path()).expect("containers").flatten() {
            let log = container.path().join("0.log");
            // Some containers have said nothing yet.
            let before = fs::read_to_string(&log).unwrap_or_default();
            fs::write(log, cri(&hostile) + &before + &cri(&hostile)).expect("a log");
        }
    }
    let answer = Answer::of(&node);
    assert!(answer.is_quiet(), "{:#?}", answer.findings);
    for args in [&[][..], &["--format", "json"], &["--verbose"]] {
        let out = node.asked("doctor", args, "80").stdout;
        let is_odd = |byte: &u8| byte.is_ascii_control() && *byte != b'\n';
        assert!(!out.iter().any(is_odd), "{}", String::from_utf8_lossy(&out));
    }
}

/// Bytes without any order, for a log and for the kernel's.
fn random_logs_cause_no_finding() {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut noise = |length: usize| -> Vec<u8> {
        let next = |_| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed.to_le_bytes()[3]
        };
        (0..length).map(next).collect()
    };
    let node = Node::described(&nodes().join(HEALTHY), Variant::Faulty);
    let logs = fs::read_dir(node.path(LOGS)).expect("logs").flatten();
    let logs: Vec<_> = logs.flat_map(|pod| fs::read_dir(pod.path()).expect("containers").flatten()).collect();
    for log in &logs {
        fs::write(log.path().join("0.log"), noise(50_000)).expect("a log");
    }
    fs::write(node.path("var/log/kern.log"), noise(50_000)).expect("a log");
    assert!(logs.len() >= 2, "logs are missing");
    let answer = Answer::of(&node);
    assert!(answer.is_quiet(), "{:#?}", answer.findings);
}

/// A log that is not a file and one that may not be read are no reason to say that something is wrong.
fn odd_log_files_cause_no_finding() {
    let node = Node::described(&nodes().join(HEALTHY), Variant::Faulty);
    let pods = fs::read_dir(node.path(LOGS)).expect("logs").flatten();
    let mut containers = pods.flat_map(|pod| fs::read_dir(pod.path()).expect("containers").flatten());
    let container = containers.next().expect("a container that has said something").path();
    for (name, target) in
        [("1.log", "/dev/zero"), ("2.log", "2.log"), ("3.log", "../../../../../../../../dev/random")]
    {
        std::os::unix::fs::symlink(target, container.join(name)).expect("a link");
    }
    fs::create_dir(container.join("4.log")).expect("a directory");
    nix::unistd::mkfifo(&container.join("5.log"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    fs::create_dir_all(node.path(&format!("{LOGS}/no pod at all/x"))).expect("a directory");
    let answer = Answer::of(&node);
    let is_alarm = |finding: &&Value| ["critical", "warning"].contains(&text(finding, "severity"));
    assert_eq!(answer.findings.iter().find(is_alarm), None);
    assert_eq!(answer.code, 0, "{:#?}", answer.findings);
    assert!(Path::new(&container).exists());
}

/// Modules that are in the way of MOFED or of a driver, with a log that names the module below them.
const HOLDERS: [(&str, &str, &str); 7] = [
    ("fault-lustre-keeps-mofed-out", "ko2iblnd", "rdma_cm"),
    ("fault-openibd-refuses-for-nvme", "nvme", ""),
    ("fault-mofed-pod-crashed-at-openibd", "beegfs", "ib_umad"),
    ("fault-mofed-pod-crashed-at-openibd", "rds_rdma", "ib_umad"),
    ("fault-mofed-pod-crashed-at-openibd", "smc", "ib_umad"),
    ("incident-gdrdrv-holds-nvidia", "gdrdrv", "nvidia"),
    ("incident-gdrdrv-holds-nvidia", "nvidia_fs", "nvidia"),
];

/// A module of any name that uses another, with what `doctor` says of it, in the words of the first name.
fn held_by(scenario: &str, module: &str, name: &str, below: &str) -> (Vec<Value>, String) {
    let text = fs::read_to_string(nodes().join(scenario).join("node")).expect("a node");
    let has_it = text.contains(&format!("module {module} ")) || below.is_empty();
    let text = text.replace(module, name);
    let text = if has_it { text } else { format!("{text}\nmodule {name} {below} taint=OE\n") };
    let answer = described(&text);
    let first = answer.findings.first().cloned().unwrap_or_default();
    let ids = answer.findings.iter().map(|finding| finding["id"].clone()).collect();
    (ids, serde_json::to_string(&first["remedy"]).expect("steps").replace(name, module))
}

/// Law 8: the state decides what to do about a holder, and its name does not.
fn a_holder_with_another_name_gets_the_same_steps() {
    let unlike = HOLDERS.iter().filter_map(|(scenario, module, below)| {
        let (own, other) =
            (held_by(scenario, module, module, below), held_by(scenario, module, "zzfs", below));
        (own != other || !own.1.contains(module) && *module != "nvme")
            .then(|| format!("{scenario}, {module}:\n  {own:?}\n  {other:?}"))
    });
    let unlike: Vec<_> = unlike.collect();
    assert!(unlike.is_empty(), "{} of {}:\n{}", unlike.len(), HOLDERS.len(), unlike.join("\n"));
}

/// Law 11: of every described node the beginnings of those lives are hidden whose order matters. Nothing then is
/// older or younger that was not so before, and nobody says that all is well.
fn a_life_without_a_beginning_is_neither_old_nor_new() {
    /// Their words are that it is unknown.
    const SAY_SO: [&str; 2] = ["NotJudged", "ChainUnderWay"];
    const LIVES: [&str; 4] = ["nv-fabricmanage", "nvidia-device-p", "nvidia-persiste", "nvidia-driver"];
    let (mut broken, mut count) = (Vec::new(), 0);
    for scenario in scenarios() {
        let node = Node::described(&scenario.join("node"), Variant::Faulty);
        let processes = fs::read_dir(node.path("proc")).into_iter().flatten().flatten();
        let stats = processes.map(|entry| entry.path().join("stat")).filter(|stat| stat.exists());
        let comm = |stat: &Path| fs::read_to_string(stat.with_file_name("comm")).unwrap_or_default();
        let hidden: Vec<_> = stats.filter(|stat| LIVES.contains(&comm(stat).trim())).collect();
        if hidden.is_empty() || node.verb() != "doctor" {
            continue;
        }
        let before = Answer::of(&node);
        for stat in &hidden {
            fs::remove_file(stat).expect("a file");
        }
        let after = Answer::of(&node);
        count += 1;
        let name = scenario.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let has = |finding: &Value| before.findings.iter().any(|one| one["id"] == finding["id"]);
        let new = after.findings.iter().filter(|finding| !has(finding)).map(|finding| text(finding, "id"));
        let new: Vec<_> = new.filter(|id| !SAY_SO.contains(id)).collect();
        if !new.is_empty() || after.code == 0 {
            broken.push(format!("{name}: exit {}, new: {new:?}", after.code));
        }
    }
    assert!(count > 50, "{count} nodes have such a life");
    assert!(broken.is_empty(), "{} of {count}:\n{}", broken.len(), broken.join("\n"));
}

/// Law 2: a service that GPUs, RDMA or containers need is named with its own last words, whatever its name.
fn a_service_that_ends_is_named_with_its_own_last_words() {
    let units = [
        "dcgm-exporter",
        "dkms",
        "mlnx_interface_mgr",
        "nvidia",
        "nvidia-cdi-refresh",
        "nvidia-dcgm",
        "nvidia-imex",
        "nvidia-mig-manager",
        "nvidia-toolkit-firstboot",
        "openibd",
        "rdma-ndd",
        "slurmd",
    ];
    let healthy = fs::read_to_string(nodes().join(HEALTHY)).expect("a node");
    let silent = units.iter().filter(|unit| {
        let words = format!("the last words of {unit}: error: no such thing");
        let failed = format!(
            "{healthy}\nlogged {unit}[7001]\n| {words}\nlogged systemd[1]\n\
            | {unit}.service: Main process exited, code=exited, status=1/FAILURE\n"
        );
        let answer = described(&failed);
        let first =
            answer.findings.first().map(|finding| finding["evidence"].to_string()).unwrap_or_default();
        answer.code != 1 || !first.contains(&words) || !first.contains(*unit)
    });
    let silent: Vec<_> = silent.collect();
    assert!(silent.is_empty(), "{} of {}: {silent:?}", silent.len(), units.len());
}

/// Law 2: a failed openibd stands before the state that it leaves, with its own last error line.
fn a_failed_openibd_stands_before_the_state_that_it_leaves() {
    let words = "Failed to load Mellanox's mlx5_ib: Invalid argument";
    let failed = format!(
        "\nlogged openibd[700]\n| {words}\nlogged systemd[1]\n\
         | openibd.service: Main process exited, code=exited, status=1/FAILURE\n"
    );
    for name in words_of(
        "doctor-host-mofed-not-live fabric-host-mofed host-mofed-late incident-host-mofed-not-loaded",
    ) {
        let state = fs::read_to_string(nodes().join(name).join("node")).expect("a node");
        let findings = described(&(state + &failed)).findings;
        let state = findings.iter().find(|one| text(one, "id") == "HostMofedNotLive");
        let is_first = findings[0]["evidence"].to_string().contains(words);
        assert!(is_first && state.is_some_and(|one| one["follows_from"] == findings[0]["id"]), "{name}");
    }
}

/// Law 2 of services that run: an error that one repeats, in each form of the table, is named with its last line; one
/// that it has got over is not, nor one for each of some devices in a moment.
fn a_service_that_repeats_an_error_while_it_runs_is_named_with_its_last_line() {
    let healthy = fs::read_to_string(nodes().join(HEALTHY)).expect("a node");
    let host = fs::read_to_string(nodes().join("healthy-host-mofed-and-driver/node")).expect("a node");
    let forms = SERVICES.iter().flat_map(|service| {
        service
            .programs
            .iter()
            .flat_map(move |program| service.errors.iter().map(move |form| (service.unit, program, form)))
    });
    let wrong = forms.filter(|(unit, program, form)| {
        let node = if *unit == "nvidia-persistenced" { &host } else { &healthy };
        let answer = |end: &str, apart: u64| {
            let line = |at: usize| format!("| {}\n", form.replace('*', &format!("no such thing: try {at}")));
            let lines: String = (8..12).map(line).collect();
            let node = format!("{node}\nlogged {program}[7001] {apart}\n| starting\n{lines}{end}");
            described(&node)
        };
        let failing = answer("", 10);
        let mut said = failing.findings.iter().map(ToString::to_string);
        let is_said = said.any(|said| said.contains("try 11") && said.contains(*unit));
        let is_over = answer("| connected\n", 10).is_quiet() && answer("", 0).is_quiet();
        failing.code != 1 || !is_said || !is_over
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
}

/// Law 2 of containers: one of the operators' that ends again and again stands first, with its own last words, and a
/// command that failed says what it printed.
fn a_container_that_ends_again_and_again_is_named_with_its_own_last_words() {
    let names = words_of(
        "mofed-container network-operator-init-container k8s-driver-manager nvidia-driver-ctr nvidia-peermem-ctr \
         nvidia-fs-ctr nvidia-gdrcopy-ctr driver-validation nvidia-container-toolkit-ctr toolkit-validation \
         nvidia-device-plugin config-manager-init nvidia-mig-manager nvidia-dcgm-exporter gpu-feature-discovery \
         rdma-shared-dp kube-sriovdp sriov-network-config-daemon compute-domain-daemon a-container-of-next-year",
    );
    let healthy = fs::read_to_string(nodes().join(HEALTHY)).expect("a node");
    let logs = |name: &str| {
        let own = format!("{name}: error: no such thing");
        let command = format!("modprobe: FATAL: Module of_{} not found.", name.replace('-', "_"));
        [
            (own.clone(), format!("starting\n| {own}")),
            (
                command.clone(),
                format!(
                    "level=info msg=\"executing command\" command=modprobe\n| {command}\n| level=error msg=\"failed to run modprobe: exit status 1\""
                ),
            ),
        ]
    };
    let silent =
        names.iter().flat_map(|name| logs(name).map(|log| (*name, log))).filter(|(name, (words, log))| {
            let failed = format!("{healthy}\nsays now gpu-operator/a-pod-x7k2q/{name} 6\n| {log}\n");
            let answer = described(&failed);
            let first =
                answer.findings.first().map(|finding| finding["evidence"].to_string()).unwrap_or_default();
            answer.code != 1 || !first.contains(words.as_str())
        });
    let silent: Vec<_> = silent.map(|(name, (words, _))| format!("{name}: {words}")).collect();
    assert!(silent.is_empty(), "{} of {}:\n{}", silent.len(), 2 * names.len(), silent.join("\n"));
}

/// Law 2 of containers that run: an error that comes again and again, whatever its numbers, is named with its last
/// line; one that the container has got over is not.
fn a_container_that_repeats_an_error_while_it_runs_is_named_with_its_last_line() {
    let names = words_of(
        "mofed-container nvidia-driver-ctr nvidia-peermem-ctr nvidia-fs-ctr nvidia-container-toolkit-ctr \
         nvidia-device-plugin nvidia-dcgm-exporter gpu-feature-discovery rdma-shared-dp kube-sriovdp \
         compute-domain-daemon a-container-of-next-year",
    );
    let healthy = fs::read_to_string(nodes().join(HEALTHY)).expect("a node");
    let answer = |name: &str, end: &str| {
        let lines: String = ["7", "8", "9", "10", "11"]
            .map(|at| ["| level=error msg=\"no such thing: try ", at, "\"\n"].concat())
            .concat();
        let node = format!("{healthy}\nsays now gpu-operator/a-pod-x7k2q/{name} 0\n| starting\n{lines}{end}");
        described(&node)
    };
    let over = "| level=info msg=connected\n".repeat(3);
    let wrong = names.iter().filter(|name| {
        let failing = answer(name, "");
        let mut said = failing.findings.iter().map(|one| one["evidence"].to_string());
        failing.code != 1
            || !said.any(|said| said.contains("no such thing: try 11"))
            || !answer(name, &over).is_quiet()
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{} of {}: {wrong:?}", wrong.len(), names.len());
}

/// Law 11: a GPU that came onto the bus long after a program that looks for GPUs at its start is a finding on every
/// healthy node that has such a program, and one that was there before is none.
fn what_began_before_a_gpu_came_is_named() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for scenario in scenarios().iter().filter(|path| path.to_string_lossy().contains("/healthy-")) {
        let of = |late: bool| -> Option<Answer> {
            let node = Node::described(&scenario.join("node"), Variant::Faulty);
            let pids = fs::read_dir(node.path("proc")).ok()?.flatten().map(|entry| entry.path());
            let comm = |path: &Path| fs::read_to_string(path.join("comm")).unwrap_or_default();
            let mut names = pids.map(|path| comm(&path));
            let looks = ["nvidia-device-p", "nvidia-persiste"];
            names.find(|name| looks.contains(&name.trim()))?;
            let gpus = fs::read_dir(node.path("proc/driver/nvidia/gpus")).ok()?;
            let gpu = gpus.flatten().next()?.file_name().to_string_lossy().into_owned();
            let uptime = fs::read_to_string(node.path("proc/uptime")).ok()?;
            let uptime: i64 = uptime.split('.').next()?.parse().ok().filter(|uptime| *uptime > 3600)?;
            let at = i64::try_from(BOOT).ok()? + if late { uptime - 60 } else { 5 };
            let stamp = Stamp::wall(at * SECOND, SECOND).to_string().replace('Z', ".000001Z");
            let line = format!("{stamp} gpu-node-7 kernel: pci {gpu}: [10de:2330] type 00 class 0x030200\n");
            let log = node.path("var/log/kern.log");
            let before = fs::read_to_string(&log).unwrap_or_default();
            fs::create_dir_all(log.parent()?).ok()?;
            fs::write(&log, if late { before + &line } else { line + &before }).ok()?;
            Some(Answer::of(&node))
        };
        let Some((late, early)) = of(true).zip(of(false)) else { continue };
        count += 1;
        let is_named = |answer: &Answer| answer.findings.iter().any(|one| text(one, "id") == "GpuCameLate");
        if !is_named(&late) || is_named(&early) {
            wrong.push(format!("{}: {} {}", scenario.display(), is_named(&late), is_named(&early)));
        }
    }
    assert!(count > 3 && wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

fn words_of(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// What `doctor` saw of a tree, before it judged.
struct NodeEvent {
    node: node::Node,
    seen: Observation,
    symptoms: Symptoms,
}

impl NodeEvent {
    fn of(root: &Path) -> Self {
        let variables = Variables::new();
        let arguments = ["peermem-gate", "check", "--root", root.to_str().expect("a plain path")];
        let Ok(invocation) = parse(&arguments.map(OsString::from), &variables) else {
            panic!("these are options")
        };
        let Verb::Check(arguments) = invocation.verb else { panic!("that is check") };
        let (survey, logs) = survey(root, &root.join("proc"), &root.join("sys"), &[]);
        let settings = settings(&survey, &variables);
        let node = node::Node::new(&arguments.node, root, Some(PeermemExpected::default()), &variables);
        let node = node.expect("a node");
        let mut probe = NodeProbe::new(&node);
        let seen = probe.look(Depth::Full, &mut || false).expect("nothing breaks it off");
        let symptoms = symptoms(&node.places, &seen, survey, logs, settings);
        Self { node, seen, symptoms }
    }

    fn shows(&self, id: Id) -> bool {
        let verdict = judge(&self.node.expected, &self.seen);
        let findings = diagnose(&self.node.expected, &self.seen, &self.symptoms, &verdict);
        findings.iter().any(|finding| finding.id == id)
    }
}

/// Only a container sees its own `/dev`: no tree shows it.
fn a_containers_own_dev_is_not_taken_for_the_hosts() {
    let tree = Node::described(&nodes().join("healthy-both-operators/node"), Variant::Faulty);
    fs::remove_file(tree.path("dev/nvidia1")).expect("a device file");
    let mut node_event = NodeEvent::of(tree.root());
    assert!(node_event.shows(Id::DeviceNodesMissing));
    for (fs_type, is_the_hosts) in [("devtmpfs", true), ("tmpfs", false)] {
        let devices = Mount {
            device: "0:94".to_owned(),
            root: "/".into(),
            point: "/dev".into(),
            propagates: false,
            fs_type: fs_type.to_owned(),
            options: String::new(),
        };
        let mounts = Ok(Mounts { devices: Some(devices), ..Mounts::default() });
        let own = View { viewer: MountViewer::Own, source: "/proc/self/mountinfo".into(), mounts };
        node_event.symptoms.views = vec![own];
        assert_eq!(node_event.shows(Id::DeviceNodesMissing), is_the_hosts, "{fs_type}");
    }
}

/// Only this machine's kernel can refuse this process an inotify instance.
fn an_inotify_instance_that_is_refused_is_a_finding() {
    let tree = Node::described(&nodes().join("healthy-both-operators/node"), Variant::Faulty);
    let mut node_event = NodeEvent::of(tree.root());
    assert!(!node_event.shows(Id::InotifyExhausted));
    node_event.symptoms.inotify.refused = Some("Too many open files".to_owned());
    assert!(node_event.shows(Id::InotifyExhausted));
}

/// Words that are right on some nodes only, and the facts of which a step with them carries one.
const CONDITIONAL: [(&str, &[Fact]); 7] = [
    ("{toolkit-env}", &[TOOLKIT_LACKS]),
    ("systemctl", &[SYSTEMD]),
    ("talosctl", &[TALOS]),
    ("`oc ", &[OPENSHIFT]),
    ("usePrecompiled: false", &[PRECOMPILED_IMAGE]),
    ("unload them in this order", &[HOLDER_IS_HARMLESS]),
    ("kernelModuleType", &[DRIVER_POD, HOST_DRIVER]),
];

fn a_remedy_for_some_nodes_only_says_which_nodes() {
    let mut seen = BTreeSet::new();
    for id in Id::ALL {
        for step in id.remedy() {
            for (words, facts) in CONDITIONAL.iter().filter(|(words, _)| step.text.contains(words)) {
                seen.insert(words);
                assert!(facts.iter().any(|fact| step.when.contains(fact)), "{id}, {words}: {}", step.text);
            }
        }
    }
    assert_eq!(seen.len(), CONDITIONAL.len(), "{seen:?}");
}

pub(crate) fn tests() -> Vec<Trial> {
    suite![
        a_stuck_readiness_chain_is_a_finding,
        the_log_lines_of_a_workload_cause_no_finding,
        hostile_log_lines_cause_no_alarm_and_are_escaped,
        random_logs_cause_no_finding,
        odd_log_files_cause_no_finding,
        a_holder_with_another_name_gets_the_same_steps,
        a_life_without_a_beginning_is_neither_old_nor_new,
        a_service_that_ends_is_named_with_its_own_last_words,
        a_failed_openibd_stands_before_the_state_that_it_leaves,
        a_service_that_repeats_an_error_while_it_runs_is_named_with_its_last_line,
        a_container_that_ends_again_and_again_is_named_with_its_own_last_words,
        a_container_that_repeats_an_error_while_it_runs_is_named_with_its_last_line,
        what_began_before_a_gpu_came_is_named,
        a_containers_own_dev_is_not_taken_for_the_hosts,
        an_inotify_instance_that_is_refused_is_a_finding,
        a_remedy_for_some_nodes_only_says_which_nodes,
    ]
}
