// SPDX-License-Identifier: Apache-2.0
//! Law 10: what this machine is. Every described node that speaks of Fabric Manager is asked again as another
//! machine: with GPUs that need no fabric, as a guest whose host has the switches, as a part of a rack. No title
//! and no step then asks for what that machine does not have.

use crate::expected::{Answer, earned};
use crate::fixture::{Node, Variant, nodes, scenarios};
use crate::support::{GATE, output, tests};
use serde_json::Value;
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

/// What people post has models and guests, too: the same words of nvidia-smi, about three machines.
fn a_posted_answer_is_about_the_machine_that_is_posted_with_it() {
    const FABRIC: &str =
        "GPU 00000000:1B:00.0\n    Fabric\n        State                             : In Progress\n";
    let rows = [
        ("GPU 0: NVIDIA H200 (UUID: GPU-1)\n", "", Some("GpuFabricManagerMissing")),
        (
            "|   0  NVIDIA H200                    On  |   00000000:1B:00.0 Off |\n",
            "",
            Some("GpuFabricManagerMissing"),
        ),
        (
            "GPU 0: NVIDIA H200 (UUID: GPU-1)\n",
            "[    0.000000] Hypervisor detected: KVM\n",
            Some("FabricOfTheHost"),
        ),
        ("GPU 0: NVIDIA GB200 (UUID: GPU-1)\n", "", Some("FabricOfTheHost")),
        ("    Product Name                          : NVIDIA H100 PCIe\n", "", None),
        ("GPU 0: NVIDIA H200 NVL (UUID: GPU-1)\n", "", None),
    ];
    for (model, log, id) in rows {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, text) in [("smi.txt", format!("{model}{FABRIC}")), ("dmesg.txt", log.to_owned())] {
            fs::write(directory.path().join(name), text).expect("a file");
        }
        let mut doctor = Command::new(GATE);
        let answer =
            output(doctor.arg("doctor").arg(directory.path()).args(["--format", "json"]).env_clear());
        let report: Value = serde_json::from_slice(&answer.stdout).expect("a report");
        let first = report["findings"][0]["id"].as_str();
        assert_eq!(first, id, "{model}{log}: {report}");
    }
}

tests![
    no_answer_asks_for_a_fabric_that_the_machine_does_not_have,
    a_posted_answer_is_about_the_machine_that_is_posted_with_it,
];
