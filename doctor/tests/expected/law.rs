// SPDX-License-Identifier: Apache-2.0
//! Rules that every answer of `doctor` keeps, on every node.
//!
//! What broke a law before the program kept it, and breaks none now:
//!
//! | law | broken |
//! |---|---|
//! | 2, a service's own last words | 9 of 12 units that end on a healthy node |
//! | 2, an error that a container repeats while it runs | 12 of 12 containers |
//! | 2, an error that a service repeats while it runs | 25 of 25 forms of 11 services |
//! | 2, a failed openibd before the state that it leaves | 4 of 4 nodes |
//! | 3, who refuses a pod | 14 of 17 refusals in kubelet's log, 16 of 17 in what kubectl prints |
//! | 6, `timeline` and `doctor` agree | 61 of 68 nodes, 21 of 338 logs |
//! | 7, a finding's own line alone, and its condition in words | 11 of 76 findings |
//! | 7 and 12, what people post, whatever it is called | 18 of 18 forms as a file, 11 of 18 from a pipe |
//! | 8, holders from the state | 6 of 7 nodes whose holder gets another name |
//! | 10, another machine's fabric | 33 of 581: each node that speaks of a fabric, as seven other machines |
//! | 11, a GPU younger than what looks for GPUs | 27 of 27 healthy nodes |
//! | 13, how a finding is recognized | 115 of 222 findings |

use super::{Answer, text};
use crate::fixture::Node;
use std::fs;

/// The most steps of a remedy that a person reads.
const STEPS: usize = 5;

/// Traces of pods on a node.
struct Traces {
    /// `NAMESPACE_POD` of each pod that has logs.
    pods: Vec<String>,
    has_driver_pod: bool,
    has_mofed_pod: bool,
}

/// Every law that `doctor` breaks on this node, a line each.
pub(crate) fn broken(node: &Node, answer: &Answer) -> Vec<String> {
    let (traces, host) = (Traces::of(node), TreeHost::of(node));
    let mut broken = Vec::new();
    for finding in &answer.findings {
        let id = text(finding, "id");
        let steps = finding["remedy"].as_array().expect("a remedy");
        let steps: Vec<_> = steps.iter().map(|step| step.as_str().expect("a step")).collect();
        if steps.len() > STEPS {
            broken.push(format!("{id} has {} steps: at most {STEPS} are allowed", steps.len()));
        }
        for (at, step) in steps.iter().enumerate() {
            let why = [
                (steps[..at].contains(step), "this step is listed twice"),
                (is_unfilled(step), "this step has a placeholder that was not filled in"),
                (traces.lacks_pod_of(step), "this step deletes a pod that the node does not have"),
                (host.misfits(step), "this step is for another kind of host"),
                (host.is_told_already(step), "this step asks for a setting that is set already"),
                (
                    host.frees_what_is_not_there(step),
                    "this step unloads a module that is not loaded, or that a disk needs",
                ),
            ];
            broken.extend(
                why.iter().filter(|(is_so, _)| *is_so).map(|(_, why)| format!("{id}: {why}: {step}")),
            );
        }
        let is_loud = ["critical", "warning"].contains(&text(finding, "severity"));
        if is_loud && finding["follows_from"].is_null() && answer.code == 0 {
            broken.push(format!("the exit code is 0, although {id} is a root cause"));
        }
    }
    broken.extend(super::conditions::broken(node, &answer.findings));
    broken.extend(super::alike::broken(node, answer).into_iter().map(|why| format!("law 6: {why}")));
    broken.extend(
        answer.findings.iter().filter_map(super::alike::unexplained).map(|why| format!("law 13: {why}")),
    );
    broken.extend(super::earned::broken(node.root(), answer.code, &answer.findings));
    if answer.findings.is_empty() && answer.code != 0 {
        broken.push(format!("the exit code is {}, although nothing was found", answer.code));
    }
    broken
}

/// The host of a tree, by its own files.
struct TreeHost {
    os_release: String,
    modules: Vec<String>,
    nvidia: String,
    /// The variables of every process.
    variables: Vec<String>,
}

impl TreeHost {
    fn of(node: &Node) -> Self {
        let text = |path: &str| fs::read_to_string(node.path(path)).unwrap_or_default();
        let entries = fs::read_dir(node.path("proc")).into_iter().flatten().flatten();
        let environs = entries.filter_map(|entry| fs::read_to_string(entry.path().join("environ")).ok());
        let lines = text("proc/modules");
        Self {
            os_release: text("etc/os-release"),
            modules: lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect(),
            nvidia: text("proc/driver/nvidia/version"),
            variables: environs
                .flat_map(|all| all.split('\0').map(str::to_owned).collect::<Vec<_>>())
                .collect(),
        }
    }

    /// A command that this host does not have, in a step without a condition.
    fn misfits(&self, step: &str) -> bool {
        let is = |id: &str| self.os_release.lines().any(|line| line.replace('"', "") == format!("ID={id}"));
        let is_open = self.nvidia.contains(" Open Kernel ");
        let rows = [
            ("systemctl ", is("talos")),
            ("talosctl ", !is("talos")),
            ("`oc ", !is("rhcos") && !self.os_release.contains("OPENSHIFT_VERSION")),
            ("`driver.kernelModuleType: open`", is_open),
        ];
        !is_conditional(step) && rows.iter().any(|(words, is_wrong)| *is_wrong && step.contains(words))
    }

    /// `{name: NAME, value: VALUE}`, all of which some container has.
    fn is_told_already(&self, step: &str) -> bool {
        let entries = step.split("{name: ").skip(1).filter_map(|rest| rest.split('}').next());
        let entries: Vec<_> = entries.filter_map(|entry| entry.split_once(", value: ")).collect();
        let has = |(name, value): &(&str, &str)| self.variables.contains(&format!("{name}={value}"));
        !is_conditional(step) && !entries.is_empty() && entries.iter().all(has)
    }

    /// Names in upper case are for a person to fill in.
    fn frees_what_is_not_there(&self, step: &str) -> bool {
        let commands = step.split("`rmmod ").skip(1).filter_map(|rest| rest.split('`').next());
        let mut names = commands.flat_map(|names| names.split(' ')).filter(|name| {
            !name.starts_with('-')
                && name.bytes().all(|byte| byte.is_ascii_lowercase() || b"_0123456789".contains(&byte))
        });
        let is_wrong = |name: &str| {
            name.starts_with("nvme") && name != "nvme_rdma" || !self.modules.iter().any(|one| one == name)
        };
        !is_conditional(step) && names.any(is_wrong)
    }
}

/// A person decides whether it fits.
pub(super) fn is_conditional(step: &str) -> bool {
    ["If ", "Or ", "On "].iter().any(|word| step.starts_with(word)) || step.contains(" if ")
}

/// Words in braces are those of the table of findings.
fn is_unfilled(step: &str) -> bool {
    let is_word = |rest: &str| {
        rest.split_once('}')
            .is_some_and(|(word, _)| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'))
    };
    step.split('{').skip(1).any(is_word)
}

impl Traces {
    fn of(node: &Node) -> Self {
        let names = |directory: &str| -> Vec<String> {
            let entries = fs::read_dir(node.path(directory)).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        };
        let logs = names("var/log/pods");
        let pods: Vec<_> = logs.iter().filter_map(|name| Some(name.rsplit_once('_')?.0.to_owned())).collect();
        let processes = names("proc");
        let comm =
            |pid: &String| fs::read_to_string(node.path(&format!("proc/{pid}/comm"))).unwrap_or_default();
        let processes: Vec<_> = processes.iter().map(comm).collect();
        let runs = |names: &[&str]| processes.iter().any(|comm| names.contains(&comm.trim()));
        let is_there = |paths: &[&str]| paths.iter().any(|path| node.path(path).exists());
        let has_pod = |part: &str| pods.iter().any(|pod| pod.contains(part));
        let driver = ["nvidia-driver.pid", "validations/.driver-ctr-ready", "driver/lib"];
        let driver = driver.map(|path| format!("run/nvidia/{path}"));
        let mofed = [
            "run/mellanox/drivers/.lock",
            "run/mellanox/drivers/.driver-ready",
            "etc/modprobe.d/blacklist-ofed-modules.conf",
        ];
        Self {
            has_driver_pod: is_there(&driver.each_ref().map(String::as_str))
                || runs(&["nvidia-driver", "driver-manager", "ocp_dtk_entrypo"])
                || has_pod("nvidia-driver"),
            has_mofed_pod: is_there(&mofed) || runs(&["entrypoint", "entrypoint.sh"]) || has_pod("mofed"),
            pods,
        }
    }

    /// Whether a step deletes a pod that is not there; one that names its condition may.
    fn lacks_pod_of(&self, step: &str) -> bool {
        let Some((before, command)) = step.split_once("kubectl delete pod ") else { return false };
        let words: Vec<_> = command.split(['`', ' ']).collect();
        match words.as_slice() {
            ["-n", namespace, name, ..] if !name.starts_with('-') => {
                !self.pods.contains(&format!("{namespace}_{name}"))
            }
            _ if before.starts_with("If ") || before.starts_with("Or ") => false,
            _ if command.contains("nvidia-driver") => !self.has_driver_pod,
            _ if command.contains("ofed") => !self.has_mofed_pod,
            _ => false,
        }
    }
}
