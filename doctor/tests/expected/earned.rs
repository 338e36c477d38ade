// SPDX-License-Identifier: Apache-2.0
//! Laws of every answer, asked of the node's own files in another way than the program asks them: `ok` is earned, a
//! process outranks an inference, a step says its price, holders come in the order in which they can be unloaded.

use super::text;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Every law that this answer about the tree breaks, a line each, with the law's number.
pub(crate) fn broken(root: &Path, code: i32, findings: &[Value]) -> Vec<String> {
    let tree = Tree { root };
    let mut broken = Vec::new();
    let mut law = |number: usize, all: Vec<String>| {
        broken.extend(all.into_iter().map(|why| format!("law {number}: {why}")));
    };
    if code == 0 {
        law(1, tree.missing_signs());
    }
    law(2, tree.unsaid(findings));
    law(4, tree.contradicted(findings));
    law(5, findings.iter().flat_map(unpriced).collect());
    law(8, findings.iter().flat_map(|finding| tree.misordered(finding)).collect());
    law(8, findings.iter().flat_map(|finding| tree.unnamed(finding, findings)).collect());
    law(9, tree.unlike(findings));
    law(10, foreign_fabric(root, findings));
    broken
}

/// Titles that say that a program does not run, or never has, and the program's names in /proc.
const ABSENCES: &[(&str, &[&str])] = &[
    ("MofedNotRunning", &["entrypoint", "entrypoint.sh"]),
    ("MofedNeverCame", &["entrypoint", "entrypoint.sh"]),
    ("MofedNotYetHere", &["entrypoint", "entrypoint.sh"]),
    ("MofedStopped", &["entrypoint", "entrypoint.sh"]),
    ("GpuFabricManagerMissing", &["nv-fabricmanage"]),
    ("FabricManagerNotStarted", &["nv-fabricmanage"]),
    ("MpsDaemonMissing", &["nvidia-cuda-mps"]),
];

/// An act in a step, and words of its price, of which the step must have one.
const PRICES: &[(&str, &[&str])] = &[
    ("systemctl restart nvidia-fabricmanager", &["ends", "jobs", "workloads"]),
    ("kubectl drain", &["evicts every pod"]),
    ("--delete-emptydir-data", &["emptyDir"]),
    ("openibd restart", &["takes the NIC away"]),
    (
        "reboot",
        &["ends every", "evicts every pod", "reboot alone", "after a reboot", "If a reboot", "if a reboot"],
    ),
    ("systemctl restart containerd", &["unning containers continue"]),
    ("`driver.version`", &["whole cluster", "every node", "NVIDIADriver"]),
    ("--gpu-reset", &["nd the pods", "ends"]),
];

/// The price of what a finding's steps do is in their words. A step that only names what the reader may do later
/// ("if it hangs again") is no other.
fn unpriced(finding: &Value) -> Vec<String> {
    let steps: Vec<_> =
        finding["remedy"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let rows = |step: &str| -> Vec<&str> {
        let acts = PRICES.iter().filter(|(act, _)| step.contains(act));
        acts.filter(|(_, words)| !words.iter().any(|word| step.contains(word))).map(|(act, _)| *act).collect()
    };
    let id = text(finding, "id");
    steps
        .iter()
        .flat_map(|step| {
            rows(step).into_iter().map(move |act| format!("{id}: {act} without its price: {step}"))
        })
        .collect()
}

/// GPUs that switches connect (pci.ids): A100, A800, H100, H800, H20, H200, B200 and B300 on a board of eight.
const SWITCHED: &[&str] = &[
    "0x20b0", "0x20b2", "0x20bd", "0x20f3", "0x2324", "0x2329", "0x2330", "0x2335", "0x2901", "0x2909",
    "0x3182",
];
/// GB200 and GB300: the switches are elsewhere in the rack.
const RACK: &[&str] = &["0x2941", "0x31c2"];
/// Findings that say that something is wrong with this machine's own switches or Fabric Manager.
const OF_SWITCHES: &[&str] = &[
    "FabricManagerLate",
    "FabricManagerNotStarted",
    "FabricManagerTooEarly",
    "FabricManagerUnfit",
    "FabricNotReady",
    "GpuFabricManagerMissing",
    "NvlsmMissing",
    "UmadNotLoaded",
];

/// Law 10: a machine that has no switch and needs none, or whose host or rack has them, gets no finding about its
/// own, and no step for it.
pub(crate) fn foreign_fabric(root: &Path, findings: &[Value]) -> Vec<String> {
    let tree = Tree { root };
    let nvidias = tree.nvidias();
    let gpus: Vec<_> = nvidias.iter().filter(|(_, _, class, _)| class.starts_with("0x03")).collect();
    let has = |ids: &[&str]| gpus.iter().any(|(_, device, ..)| ids.contains(&device.as_str()));
    let is_guest = tree.text("proc/cpuinfo").contains(" hypervisor");
    let is_elsewhere = has(RACK) || has(SWITCHED) && is_guest;
    let has_switch =
        nvidias.iter().any(|(_, _, class, _)| class.starts_with("0x0680")) || tree.has_management();
    if gpus.is_empty() || has_switch || has(SWITCHED) && !is_guest {
        return Vec::new();
    }
    let words: &[&str] = if is_elsewhere {
        &["nvidia-fabricmanager", "nvlsm", "Delete this node's driver pod afterwards: Fabric Manager"]
    } else {
        &["abric Manager", "abric manager", "abricmanager", "nvlsm", "NVSwitch", "NVLink 5"]
    };
    let foreign = |finding: &Value| {
        let id = text(finding, "id").to_owned();
        let steps = finding["remedy"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let step = steps.into_iter().find(|step| words.iter().any(|word| step.contains(word)));
        let is_so = OF_SWITCHES.contains(&id.as_str()) || id == "FabricOfTheHost" && !is_elsewhere;
        (is_so || step.is_some()).then(|| format!("{id}: {}", step.unwrap_or_default()))
    };
    findings.iter().filter_map(foreign).collect()
}

struct Tree<'a> {
    root: &'a Path,
}

impl Tree<'_> {
    fn text(&self, path: &str) -> String {
        let bytes = fs::read(self.root.join(path)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }

    fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(path)).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// Processes with every capability, or on the host: their names.
    fn processes(&self) -> Vec<(String, String)> {
        let pids = self.names("proc").into_iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit()));
        let privileged = |pid: &String| {
            let status = self.text(&format!("proc/{pid}/status"));
            let mask =
                status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or("0").trim().to_owned();
            u64::from_str_radix(&mask, 16).is_ok_and(|mask| mask >> 21 & 1 == 1)
        };
        let pids: Vec<_> = pids.filter(privileged).collect();
        pids.into_iter()
            .map(|pid| (self.text(&format!("proc/{pid}/comm")), self.text(&format!("proc/{pid}/cgroup"))))
            .collect()
    }

    /// A process of this name is older than ten minutes; proc(5).
    fn runs_for_long(&self, name: &str) -> bool {
        let uptime = self.text("proc/uptime");
        let uptime: f64 = uptime.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or_default();
        let pids =
            self.names("proc").into_iter().filter(|pid| self.text(&format!("proc/{pid}/comm")) == name);
        let stats: Vec<_> = pids.map(|pid| self.text(&format!("proc/{pid}/stat"))).collect();
        let started = |stat: &String| -> Option<f64> {
            let ticks: f64 = stat.rsplit(')').next()?.split_whitespace().nth(19)?.parse().ok()?;
            Some(ticks / 100.0)
        };
        stats.iter().filter_map(started).any(|started| uptime - started > 600.0)
    }

    fn modules(&self) -> BTreeMap<String, Vec<String>> {
        let text = self.text("proc/modules");
        let lines =
            text.lines().map(|line| line.split(' ').collect::<Vec<_>>()).filter(|line| line.len() > 4);
        let users = |field: &str| {
            field.split(',').filter(|user| !user.is_empty() && *user != "-").map(str::to_owned).collect()
        };
        lines.map(|line| (line[0].to_owned(), users(line[3]))).collect()
    }

    /// Device, class and driver of each of NVIDIA's functions.
    fn nvidias(&self) -> Vec<(String, String, String, String)> {
        let devices = self.names("sys/bus/pci/devices").into_iter().map(|address| {
            let of = |file: &str| self.text(&format!("sys/bus/pci/devices/{address}/{file}"));
            let driver = fs::read_link(self.root.join(format!("sys/bus/pci/devices/{address}/driver")))
                .unwrap_or_default();
            let driver =
                driver.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            (of("vendor"), (address.clone(), of("device"), of("class"), driver))
        });
        devices.filter(|(vendor, _)| vendor == "0x10de").map(|(_, device)| device).collect()
    }

    /// A NIC that leads to the switches of the fifth generation.
    fn has_management(&self) -> bool {
        let vpds = self.names("sys/bus/pci/devices").into_iter();
        vpds.into_iter()
            .any(|address| self.text(&format!("sys/bus/pci/devices/{address}/vpd")).contains("SW_MNG"))
    }

    /// Law 1: what an all-clear stands on, and is not there.
    fn missing_signs(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let (nvidias, modules, processes) = (self.nvidias(), self.modules(), self.processes());
        let runs = |names: &[&str]| processes.iter().any(|(comm, _)| names.contains(&comm.as_str()));
        let gpus: Vec<_> = nvidias.iter().filter(|(_, _, class, _)| class.starts_with("0x03")).collect();
        for (address, _, _, driver) in &gpus {
            let is_virtual =
                self.root.join(format!("sys/bus/pci/devices/{address}/physfn")).symlink_metadata().is_ok();
            if !["nvidia", "vfio-pci"].contains(&driver.as_str()) && !is_virtual {
                missing.push(format!("the GPU {address} is bound to {driver:?}"));
            }
        }
        let is_used = gpus.iter().any(|(.., driver)| driver == "nvidia");
        if is_used && modules.contains_key("nvidia_uvm") {
            missing.extend(self.wrong_number("nvidia-uvm"));
        }
        if is_used
            && self.runs_for_long("nvidia-device-p")
            && self.root.join("var/lib/kubelet/device-plugins/kubelet.sock").symlink_metadata().is_ok()
        {
            let names = self.names("var/lib/kubelet/device-plugins");
            if !names
                .iter()
                .any(|name| name.contains(".sock") && (name.contains("nvidia") || name.contains("gpu")))
            {
                missing.push("a device plugin runs, and has no socket".to_owned());
            }
        }
        let wanted = self.names("etc/systemd/system/multi-user.target.wants");
        for (unit, comm) in [
            ("nvidia-persistenced.service", "nvidia-persiste"),
            ("nvidia-fabricmanager.service", "nv-fabricmanage"),
        ] {
            let has_switch = nvidias.iter().any(|(_, _, class, _)| class.starts_with("0x0680"));
            let is_needed = comm == "nvidia-persiste" || has_switch;
            if is_used && is_needed && wanted.iter().any(|name| name == unit) && !runs(&[comm]) {
                missing.push(format!("{unit} is enabled and does not run"));
            }
        }
        // SXM modules have no NVLink bridge of their own: a switch connects them, wherever it is.
        let is_sxm = gpus
            .iter()
            .any(|(_, device, _, driver)| driver == "nvidia" && SWITCHED.contains(&device.as_str()));
        let has_failed =
            self.logs().contains("not initialized") || self.logs().contains("not yet initialized");
        if is_sxm && has_failed && !runs(&["nv-fabricmanage"]) {
            missing.push("the GPUs' fabric is not initialized, by their programs' logs".to_owned());
        }
        missing
    }

    /// The number that a device file has, and the one that the kernel has for its driver.
    fn wrong_number(&self, name: &str) -> Option<String> {
        let devices = self.text("proc/devices");
        let major =
            devices.lines().find_map(|line| line.trim().strip_suffix(name)?.trim().parse::<u64>().ok())?;
        let metadata = fs::metadata(self.root.join("dev").join(name)).ok()?;
        let is_other =
            metadata.file_type().is_char_device() && nix::sys::stat::major(metadata.rdev()) != major;
        is_other.then(|| format!("/dev/{name} does not have the major number {major}"))
    }

    fn logs(&self) -> String {
        [
            "var/log/syslog",
            "var/log/messages",
            "var/log/kern.log",
            "var/log/fabricmanager.log",
            "var/log/ext-nvidia-fabricmanager.log",
        ]
        .iter()
        .map(|path| self.text(path) + "\n")
        .collect()
    }

    /// Law 2: a service that GPUs, RDMA or containers need has ended with an error, and no finding names it with the
    /// last error line of its own program, known sentence or not.
    fn unsaid(&self, findings: &[Value]) -> Vec<String> {
        const OURS: [&str; 9] =
            ["nvidia", "openibd", "dkms", "imex", "dcgm", "slurmd", "kubelet", "containerd", "crio"];
        let said = serde_json::to_string(findings).unwrap_or_default();
        let (logs, processes) = (self.logs(), self.processes());
        let lines: Vec<_> = logs.lines().collect();
        let mut broken = Vec::new();
        let mut last: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, line) in lines.iter().enumerate() {
            let Some((_, text)) = line.split_once(" systemd[1]: ") else { continue };
            if let Some((unit, rest)) = text.split_once(".service: ")
                && OURS.iter().any(|part| unit.contains(part))
                && rest.contains("process exited, code=")
                && !rest.contains("status=0")
            {
                last.insert(unit, at);
            } else if let Some(unit) =
                text.strip_prefix("Started ").and_then(|rest| rest.split_once(".service "))
            {
                last.remove(unit.0);
            }
        }
        let has_fabric = self.nvidias().iter().any(|(_, _, class, _)| class.starts_with("0x0680"))
            || logs.contains("fabric is not initialized");
        for (unit, at) in last {
            let runs = processes.iter().any(|(comm, _)| unit.contains(comm.as_str()) || comm.contains(unit));
            let is_needed = match unit {
                "nvidia-fabricmanager" => has_fabric,
                "nvidia-persistenced" => self.processes_of_a_driver_container() == 0,
                _ => true,
            };
            if runs || !is_needed {
                continue;
            }
            if !said.contains(unit) {
                broken.push(format!("{unit} has failed, and no finding names it"));
            }
            let is_its = |line: &&&str| {
                let program = line.split(' ').nth(4).unwrap_or_default().split(['[', ':']).next();
                program.is_some_and(|program| unit.contains(program) || program.contains(unit))
            };
            let errors = ["rror", "ailed", "not found", "annot", "fatal"];
            let own = lines[..at]
                .iter()
                .rev()
                .find(|line| is_its(line) && errors.iter().any(|word| line.contains(word)));
            let words = own.and_then(|line| line.split_once("]: ")).map(|(_, words)| words);
            let part =
                |words: &str| words.chars().take(40).filter(|c| c.is_alphanumeric()).collect::<String>();
            let plain: String = said.chars().filter(|c| c.is_alphanumeric()).collect();
            broken.extend(
                words
                    .filter(|words| !plain.contains(&part(words)))
                    .map(|words| format!("{unit} has failed, and its own last words are not there: {words}")),
            );
        }
        broken
    }

    fn processes_of_a_driver_container(&self) -> usize {
        self.processes()
            .iter()
            .filter(|(comm, group)| comm == "nvidia-driver" && group.contains("pod"))
            .count()
    }

    /// Law 4.
    fn contradicted(&self, findings: &[Value]) -> Vec<String> {
        let processes = self.processes();
        let rows =
            ABSENCES.iter().filter(|(id, _)| findings.iter().any(|finding| text(finding, "id") == *id));
        let found = rows.filter_map(|(id, names)| {
            let is_it = |(comm, cgroup): &&(String, String)| {
                names.contains(&comm.as_str()) && (!comm.starts_with("entrypoint") || cgroup.contains("pod"))
            };
            processes.iter().find(is_it).map(|(comm, _)| format!("{id}, and /proc shows {comm}"))
        });
        found.collect()
    }

    /// Law 8: `rmmod` of a module before its user.
    fn misordered(&self, finding: &Value) -> Vec<String> {
        let modules = self.modules();
        let mut found = Vec::new();
        for step in finding["remedy"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            for command in step.split("`rmmod ").skip(1).filter_map(|rest| rest.split('`').next()) {
                let names: Vec<_> = command.split(' ').collect();
                for (at, name) in names.iter().enumerate() {
                    let users = modules.get(*name).into_iter().flatten();
                    let late = users.filter(|user| !names[..at].contains(&user.as_str()));
                    found.extend(late.map(|user| {
                        format!("{}: `rmmod {name}` while {user} uses it: {step}", text(finding, "id"))
                    }));
                }
            }
        }
        found
    }

    /// Law 8: a log says that a module is in use, and neither the finding nor what it follows from names each module
    /// that uses it.
    fn unnamed(&self, finding: &Value, findings: &[Value]) -> Vec<String> {
        let cause = findings.iter().find(|cause| finding["follows_from"] == cause["id"]);
        let modules = self.modules();
        let said = serde_json::to_string(&[Some(finding), cause]).unwrap_or_default();
        let lines = finding["evidence"].as_array().into_iter().flatten().map(|one| text(one, "seen"));
        let held = lines.filter_map(|line| line.split_once("odule ")?.1.split_once(" is in use"));
        let users = held.flat_map(|(module, _)| modules.get(module).cloned().unwrap_or_default());
        let unnamed = users.filter(|user| !is_of_the_stack(user) && !said.contains(user.as_str()));
        unnamed.map(|user| format!("{}: {user} uses it, and is not named", text(finding, "id"))).collect()
    }

    /// Law 9: a CDI specification with a number that the kernel does not have, or a path that is not there.
    fn unlike(&self, findings: &[Value]) -> Vec<String> {
        let said = findings.iter().any(|finding| text(finding, "id").starts_with("CdiSpec"));
        let mut found = Vec::new();
        for directory in ["etc/cdi", "run/cdi", "var/run/cdi"] {
            for name in self.names(directory) {
                let spec = self.text(&format!("{directory}/{name}"));
                let mut path = String::new();
                for line in spec.lines() {
                    if let Some((_, rest)) = line.split_once("path: /dev/") {
                        rest.trim().clone_into(&mut path);
                    }
                    let major = line.trim().strip_prefix("major: ").and_then(|text| text.parse::<u64>().ok());
                    let metadata = fs::metadata(self.root.join("dev").join(&path));
                    if let (Some(major), Ok(metadata)) = (major, metadata)
                        && metadata.file_type().is_char_device()
                        && nix::sys::stat::major(metadata.rdev()) != major
                        && !said
                    {
                        found.push(format!("{directory}/{name}: {path} has another major than {major}"));
                    }
                }
            }
        }
        found
    }
}

/// MOFED unloads these itself.
fn is_of_the_stack(module: &str) -> bool {
    ["ib_", "iw_", "rdma_", "mlx", "nvidia"].iter().any(|begin| module.starts_with(begin))
}
