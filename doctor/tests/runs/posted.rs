// SPDX-License-Identifier: Apache-2.0
//! Laws 7 and 12: what people post about a node is a source, whatever the file is called and from a pipe too. Each
//! form is understood, and gives its finding, or is named as not read.

use crate::examples::examples;
use crate::expected::text;
use crate::support::{GATE, output, tests};
use peermem_doctor::log::{ActiveWhen, RULES};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

macro_rules! forms {
    ($($form:literal $words:literal $($id:literal)?;)*) => { &[$(($form, $words, [$($id,)? ""][0])),*] };
}

/// What somebody posts: the command, what it printed, and the finding that rests on it; "" where it is not read.
const FORMS: &[(&str, &str, &str)] = forms! {
    "nvidia-smi" "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n" "DriverNotLoaded";
    "nvidia-smi" "No devices were found\n" "GpuNotInitialised";
    "nvidia-smi" "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.65\n" "DriverVersionMismatch";
    "nvidia-smi -q" "==============NVSMI LOG==============\n\nAttached GPUs                             : 8\nGPU 00000000:1B:00.0\n    GPU Reset Status\n        Reset Required                    : Yes\n        Drain and Reset Recommended       : No\n" "GpuNeedsReset";
    "nvidia-smi -q, of a newer driver" "GPU 00000000:1B:00.0\n    GPU Recovery Action                   : Reset\n" "GpuNeedsReset";
    "nvidia-smi -q -d FABRIC" "GPU 00000000:1B:00.0\n    Fabric\n        State                             : In Progress\n        Status                            : N/A\n" "GpuFabricManagerMissing";
    "nvidia-smi topo -m" "        GPU0    NIC0    CPU Affinity\nGPU0     X      PIX     0-31\nNIC0    PIX      X\n";
    "nvidia-smi nvlink -s" "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-x)\n         Link 0: 26.562 GB/s\n";
    "systemctl status" "× nvidia-dcgm.service - NVIDIA DCGM service\n     Loaded: loaded (/usr/lib/systemd/system/nvidia-dcgm.service; enabled; preset: enabled)\n     \
         Active: failed (Result: exit-code) since Thu 2026-09-24 14:00:00 UTC; 5min ago\n    Process: 900 ExecStart=/usr/bin/nv-hostengine -n (code=exited, status=1/FAILURE)\n\n\
         Sep 24 14:00:00 gpu-1 nvidia-dcgm[900]: Err: Failed to start DCGM Server: -7\n\
         Sep 24 14:00:00 gpu-1 systemd[1]: nvidia-dcgm.service: Main process exited, code=exited, status=1/FAILURE\n" "HostServiceFails";
    "systemctl status nvidia-fabricmanager" "× nvidia-fabricmanager.service - NVIDIA fabric manager service\n     Active: failed (Result: exit-code) since Thu 2026-09-24 14:00:00 UTC; 5min ago\n\n\
         Sep 24 14:00:00 gpu-1 nv-fabricmanager[900]: failed to initialize NVSwitch driver: no such device\n\
         Sep 24 14:00:00 gpu-1 systemd[1]: nvidia-fabricmanager.service: Control process exited, code=exited, status=1/FAILURE\n" "HostServiceFails";
    "dkms status" "nvidia/580.65.06: added\n" "DriverForOtherKernel";
    "make.log" "DKMS make.log for nvidia-580.65.06 for kernel 6.8.0-60-generic (x86_64)\nThu Sep 24 14:00:00 UTC 2026\n\
         /var/lib/dkms/nvidia/580.65.06/build/nv.c:12:3: error: too few arguments to function 'x'\nmake[1]: *** [nv.o] Error 1\n" "DkmsBuildFailed";
    "modinfo nvidia" "modinfo: ERROR: Module nvidia not found.\n" "DriverNotLoaded";
    "modprobe nvidia" "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.8.0-60-generic\n" "DriverForOtherKernel";
    "lspci -nnk" "1b:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)\n\tSubsystem: NVIDIA Corporation Device [10de:16c1]\n\t\
         Kernel driver in use: nouveau\n\tKernel modules: nvidiafb, nouveau\n" "OtherDriverHasGpu";
    "ibv_devinfo" "No IB devices found\n";
    "kubelet's own log" "E0924 14:00:00.000000    1500 kuberuntime_manager.go:1146] \"Failed to prepare dynamic resources\" err=\"prepare dynamic resources: DRA driver gpu.nvidia.com is not registered\" pod=\"ml/a\"\n\
         E0924 14:00:20.000000    1500 kuberuntime_manager.go:1146] \"Failed to prepare dynamic resources\" err=\"prepare dynamic resources: DRA driver gpu.nvidia.com is not registered\" pod=\"ml/a\"\n\
         E0924 14:00:40.000000    1500 kuberuntime_manager.go:1146] \"Failed to prepare dynamic resources\" err=\"prepare dynamic resources: DRA driver gpu.nvidia.com is not registered\" pod=\"ml/a\"\n" "PodRefused";
    "dmesg, without times" "nvidia_fs: Unknown symbol nvidia_p2p_get_pages (err -2)\n" "GdsNeedsOpenModules";
    "docker run" "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file\n" "ToolkitFails";
};

fn report(answer: &Output, form: &str) -> Value {
    let said = String::from_utf8_lossy(&answer.stdout);
    let error = String::from_utf8_lossy(&answer.stderr);
    serde_json::from_str(&said).unwrap_or_else(|why| panic!("{form}: {why}: {said}{error}"))
}

fn of_file(path: &Path, form: &str) -> Value {
    report(&output(Command::new(GATE).arg("doctor").arg(path).args(["--format", "json"]).env_clear()), form)
}

fn of_pipe(words: &str, form: &str) -> Value {
    let mut child = Command::new(GATE)
        .args(["doctor", "-", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    child.stdin.take().expect("a pipe").write_all(words.as_bytes()).expect("a reader");
    report(&child.wait_with_output().expect("an end"), form)
}

/// Why this report is no answer to the form.
fn wrong(report: &Value, finding: &str) -> Option<String> {
    let ids: Vec<_> = report["findings"].as_array()?.iter().map(|finding| text(finding, "id")).collect();
    let unread = report["not_read"].to_string();
    let is_named = unread.contains("none of its lines is known");
    match finding {
        "" if is_named && ids.is_empty() => None,
        id if ids.first() == Some(&id) && !is_named => None,
        _ => Some(format!("{ids:?}, not read: {unread}")),
    }
}

fn each_form_that_people_post_is_understood_or_named_as_not_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("x");
    let mut unlike = Vec::new();
    for (form, words, finding) in FORMS {
        fs::write(&path, words).expect("a file");
        for (way, report) in [("a file", of_file(&path, form)), ("a pipe", of_pipe(words, form))] {
            unlike.extend(wrong(&report, finding).map(|why| format!("{form}, from {way}: {why}")));
        }
    }
    assert!(unlike.is_empty(), "{} of {}:\n{}", unlike.len(), 2 * FORMS.len(), unlike.join("\n"));
}

/// Law 7: the line by which a finding is recognized, alone in a log, brings that finding, with a condition in words
/// for each state of the node that the log does not show.
fn each_findings_line_alone_brings_the_finding() {
    let directory = tempfile::tempdir().expect("a directory");
    let examples = examples();
    let (mut count, mut silent) = (0, Vec::new());
    for rule in RULES {
        // Two states make a fault of a step of a healthy life.
        let is_step = |when| matches!(when, ActiveWhen::Restarted | ActiveWhen::HostDriverUnseen);
        for row in rule.findings.iter().filter(|row| !is_step(row.when)) {
            let its = examples.iter().filter(|one| one.event == rule.event);
            let mut lines = its.flat_map(|one| one.fits.iter().map(move |line| (one.pattern.source, line)));
            let is_about = |line: &str| match row.about {
                Some(("module", names)) => names.iter().any(|name| line.starts_with(&format!("{name}: "))),
                Some((_, words)) => words.iter().any(|word| line.contains(word)),
                None => true,
            };
            let Some((source, line)) = lines.find(|(_, line)| is_about(line)) else { continue };
            count += 1;
            let (name, lines) = match source.identifiers().first() {
                Some(name) => (
                    "messages".to_owned(),
                    [0, 1, 2].map(|at| format!("Sep 24 14:0{at}:00 gpu-1 {name}[900]: {line}\n")).concat(),
                ),
                None => (format!("{}.log", source.containers()[0]), format!("{line}\n").repeat(3)),
            };
            let path = directory.path().join(name);
            fs::write(&path, lines).expect("a file");
            let report = of_file(&path, line);
            let is_of_log = |when: ActiveWhen| {
                use ActiveWhen::{Always, Cdi, Persists, Repeats, Unproven};
                matches!(when, Always | Cdi | Persists(_) | Repeats(_) | Unproven)
            };
            let is_sure = rule.findings.iter().any(|one| one.id == row.id && is_of_log(one.when));
            let mut found = report["findings"].as_array().expect("findings").iter();
            let said = found.find(|one| text(one, "id") == row.id.name());
            let is_open = |one: &Value| one["evidence"].to_string().contains("this counts if ");
            if said.is_none_or(|one| !is_sure && !is_open(one)) {
                silent.push(format!("{} {} while {:?}: {line}", rule.event, row.id, row.when));
            }
        }
    }
    assert!(count > 50 && silent.is_empty(), "{} of {count}:\n{}", silent.len(), silent.join("\n"));
}

/// What is listed as looked at was understood, by its content.
fn a_posted_form_is_listed_as_looked_at() {
    let rows = [(0, "nvidia-smi"), (14, "the PCI devices with their drivers"), (16, "kubelet")];
    for (row, words) in rows {
        let looked = of_pipe(FORMS[row].1, FORMS[row].0)["looked_at"].to_string();
        assert!(looked.contains(words), "{}: {looked}", FORMS[row].0);
    }
}

/// A node's first boot may ask for a driver that nothing there needs.
fn a_driver_is_missed_only_where_a_gpu_may_be() {
    let directory = tempfile::tempdir().expect("a directory");
    let asked = FORMS.iter().find(|form| form.0 == "modinfo nvidia").expect("a form").1;
    fs::write(directory.path().join("cloud-init-output.log"), asked).expect("a file");
    for (device, ids) in [
        ("Ethernet controller [0200]: Intel [8086:100e]", 0),
        ("3D controller [0302]: NVIDIA [10de:2330]", 1),
    ] {
        let listed = format!("00:03.0 {device}\n\tKernel modules: x\n");
        fs::write(directory.path().join("lspci.txt"), listed).expect("a file");
        let report = of_file(directory.path(), device);
        let found = report["findings"].as_array().expect("findings").iter();
        assert_eq!(
            found.filter(|one| text(one, "id") == "DriverNotLoaded").count(),
            ids,
            "{device}: {report}"
        );
    }
}

tests![
    a_driver_is_missed_only_where_a_gpu_may_be,
    each_findings_line_alone_brings_the_finding,
    each_form_that_people_post_is_understood_or_named_as_not_read,
    a_posted_form_is_listed_as_looked_at,
];
