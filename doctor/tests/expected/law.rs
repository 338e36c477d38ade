// SPDX-License-Identifier: Apache-2.0
//! What holds of `doctor`'s answer on every node.

use super::{Answer, text};
use crate::fixture::Node;
use std::fs;

/// No person reads more.
const STEPS: usize = 5;

/// Whose traces a node has.
struct Traces {
    /// `NAMESPACE_POD` of each pod that has logs.
    pods: Vec<String>,
    has_driver_pod: bool,
    has_mofed_pod: bool,
}

/// Every law that `doctor` breaks on this node, a line each.
pub(crate) fn broken(node: &Node, answer: &Answer) -> Vec<String> {
    let traces = Traces::of(node);
    let mut broken = Vec::new();
    for finding in &answer.findings {
        let id = text(finding, "id");
        let steps = finding["remedy"].as_array().expect("a remedy");
        let steps: Vec<_> = steps.iter().map(|step| step.as_str().expect("a step")).collect();
        if steps.len() > STEPS {
            broken.push(format!("{id} has {} steps", steps.len()));
        }
        for (at, step) in steps.iter().enumerate() {
            let why = [
                (steps[..at].contains(step), "stands there twice"),
                (is_unfilled(step), "has a word that nobody filled in"),
                (traces.lacks_pod_of(step), "deletes a pod that is not there"),
            ];
            broken.extend(
                why.iter().filter(|(is_so, _)| *is_so).map(|(_, why)| format!("{id}: {why}: {step}")),
            );
        }
        let is_loud = ["critical", "warning"].contains(&text(finding, "severity"));
        if is_loud && finding["follows_from"].is_null() && answer.code == 0 {
            broken.push(format!("exit code 0 beside {id}"));
        }
    }
    if answer.findings.is_empty() && answer.code != 0 {
        broken.push(format!("exit code {}, and nothing found", answer.code));
    }
    broken
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
