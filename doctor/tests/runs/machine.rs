// SPDX-License-Identifier: Apache-2.0
//! Law 10: what this machine is. Every described node that speaks of Fabric Manager is asked again as another
//! machine: with GPUs that need no fabric, as a guest whose host has the switches, as a part of a rack. No title
//! and no step then asks for what that machine does not have.

use crate::expected::{Answer, earned};
use crate::fixture::{Node, Variant, nodes, scenarios};
use crate::support::{GATE, output, tests};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A model of GPU as the bus and the driver name it, and whether the machine is a guest.
struct Machine {
    name: &'static str,
    device: &'static str,
    model: &'static str,
    is_guest: bool,
}

const MACHINES: [Machine; 7] = [
    Machine { name: "A100 PCIe", device: "0x20b5", model: "NVIDIA A100 80GB PCIe", is_guest: false },
    Machine { name: "H100 PCIe", device: "0x2331", model: "NVIDIA H100 PCIe", is_guest: false },
    Machine { name: "H100 NVL", device: "0x2321", model: "NVIDIA H100 NVL", is_guest: false },
    Machine { name: "H200 NVL", device: "0x233b", model: "NVIDIA H200 NVL", is_guest: false },
    Machine { name: "L40S", device: "0x26b9", model: "NVIDIA L40S", is_guest: false },
    Machine { name: "GB200", device: "0x2941", model: "NVIDIA GB200", is_guest: false },
    Machine { name: "guest with H200 SXM", device: "0x2335", model: "NVIDIA H200", is_guest: true },
];

/// nvidia-smi's words about a GPU whose fabric is not ready.
const FABRIC: &str =
    "GPU 00000000:1B:00.0\n    Fabric\n        State                             : In Progress\n";

const LSCPU: &str = "Architecture:      x86_64\nHypervisor vendor: KVM\n";

/// What is said of a posted text.
fn findings_of(text: &str) -> Vec<Value> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), text).expect("a file");
    let mut doctor = Command::new(GATE);
    let answer = output(doctor.arg("doctor").arg(file.path()).args(["--format", "json"]).env_clear());
    let report: Value = serde_json::from_slice(&answer.stdout).expect("a report");
    report["findings"].as_array().expect("findings").clone()
}

/// Its GPUs are of this model, and it has no switch.
fn become_one(node: &Node, machine: &Machine) {
    let devices = node.path("sys/bus/pci/devices");
    for entry in fs::read_dir(&devices).into_iter().flatten().flatten() {
        let text = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let is_nvidias = text("vendor").starts_with("0x10de");
        if is_nvidias && text("class").starts_with("0x03") {
            fs::write(entry.path().join("device"), format!("{}\n", machine.device)).expect("a device");
        }
        let vpd = fs::read(entry.path().join("vpd")).unwrap_or_default();
        if is_nvidias && text("class").starts_with("0x0680") {
            fs::remove_file(entry.path()).expect("a link");
        } else if vpd.windows(6).any(|part| part == b"SW_MNG") {
            fs::remove_file(entry.path().join("vpd")).expect("a file");
        }
    }
    for entry in fs::read_dir(node.path("proc/driver/nvidia/gpus")).into_iter().flatten().flatten() {
        let path = entry.path().join("information");
        let told = fs::read_to_string(&path).unwrap_or_default();
        let lines = told.lines().map(|line| match line.strip_prefix("Model:") {
            Some(_) => format!("Model: \t\t {}\n", machine.model),
            None => format!("{line}\n"),
        });
        fs::write(&path, lines.collect::<String>()).expect("a file");
    }
    if machine.is_guest {
        fs::write(node.path("proc/cpuinfo"), "processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n")
            .expect("a file");
    }
}

/// The description, with all that it includes.
fn described(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let included = text.lines().filter_map(|line| line.strip_prefix("include "));
    let others: String = included.map(|name| described(&nodes().join("common").join(name.trim()))).collect();
    text + &others
}

fn speaks_of_a_fabric(scenario: &Path) -> bool {
    let text = described(&scenario.join("node")).to_lowercase();
    ["fabric", "802", "nvswitch", "0x0680", "nvlink"].iter().any(|word| text.contains(word))
}

fn no_answer_asks_for_a_fabric_that_the_machine_does_not_have() {
    let all: Vec<_> = scenarios().into_iter().filter(|scenario| speaks_of_a_fabric(scenario)).collect();
    assert!(all.len() > 30, "{} nodes speak of a fabric", all.len());
    let mut broken = Vec::new();
    let mut count = 0;
    for scenario in &all {
        for machine in &MACHINES {
            let node = Node::described(&scenario.join("node"), Variant::Faulty);
            become_one(&node, machine);
            let findings = Answer::of(&node).findings;
            let why = earned::foreign_fabric(node.root(), &findings);
            count += 1;
            let name = scenario.file_name().unwrap_or_default().to_string_lossy().into_owned();
            broken.extend(why.first().map(|why| format!("{name} as {}: {why}", machine.name)));
        }
    }
    assert!(broken.is_empty(), "{} of {count}:\n{}", broken.len(), broken.join("\n"));
}

/// The bus of a node as lspci lists it: with drivers and numbers, and with numbers only.
fn lists(node: &Node) -> [String; 2] {
    let mut lists = ["00:1f.0 ISA bridge [0601]: Intel [8086:1b81]\n".to_owned(), String::new()];
    for entry in fs::read_dir(node.path("sys/bus/pci/devices")).into_iter().flatten().flatten() {
        let text = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let [vendor, device, class] = ["vendor", "device", "class"].map(|file| text(file).trim().to_owned());
        let numbers = [&vendor, &device, &class].map(|number| number.strip_prefix("0x").unwrap_or_default());
        let [vendor, device, class] = numbers;
        let address = entry.file_name().to_string_lossy().into_owned();
        let line = format!(
            "{address} Device [{}]: Device [{vendor}:{device}]\n",
            class.get(..4).unwrap_or_default()
        );
        lists[0] += &format!("{line}\tKernel driver in use: x\n");
        lists[1] += &line;
    }
    lists
}

/// Law 10 of bundles: of each described node whose models are known, itself and as each machine, lspci's list is
/// posted, beside a GPU whose fabric is not ready. The model says whose the fabric is, and whether there is any.
fn a_list_of_the_bus_says_whose_the_fabric_is() {
    let mut asked = BTreeSet::new();
    let mut broken = Vec::new();
    for scenario in scenarios() {
        let others = if speaks_of_a_fabric(&scenario) { MACHINES.as_slice() } else { &[] };
        for machine in others.iter().map(Some).chain([None]) {
            let node = Node::described(&scenario.join("node"), Variant::Faulty);
            if let Some(machine) = machine {
                become_one(&node, machine);
            }
            let cpu = fs::read_to_string(node.path("proc/cpuinfo")).unwrap_or_default();
            let log = if cpu.contains(" hypervisor") { LSCPU } else { "" };
            for list in lists(&node) {
                let posted = format!("{list}{FABRIC}{log}");
                if !list.contains("[10de:") || list.contains("[10de:]") || !asked.insert(posted.clone()) {
                    continue;
                }
                let why = earned::foreign_fabric(node.root(), &findings_of(&posted));
                broken.extend(why.first().map(|why| format!("{posted}: {why}")));
            }
        }
    }
    assert!(asked.len() > 40, "{} lists", asked.len());
    assert!(broken.is_empty(), "{} of {}:\n{}", broken.len(), asked.len(), broken.join("\n"));
}

tests![
    a_list_of_the_bus_says_whose_the_fabric_is,
    no_answer_asks_for_a_fabric_that_the_machine_does_not_have,
];
