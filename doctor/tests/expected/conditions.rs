// SPDX-License-Identifier: Apache-2.0
//! The condition of every step that `doctor` gives is true of the tree: asked of the tree's own files, in another way
//! than the program asks it. A condition that is printed with its step ("If …") is the reader's to judge.

use super::text;
use crate::fixture::Node;
use peermem_doctor::finding::cause::FailureCause;
use peermem_doctor::finding::{Id, all_steps, fact as doctors};
use peermem_gate::words::remedy::{Fact, Facts, Step, fact};
use serde_json::Value;
use std::fs;

/// Whether a fact is so in a tree, as far as its files say it.
type Truth = fn(&Tree<'_>) -> Option<bool>;

/// The facts that a tree's files decide. Any other is of a log's words, or of what was read.
const TRUTHS: &[(Fact, Truth)] = &[
    (fact::STATE_FILE, |tree| Some(tree.has("run/nvidia/nvidia-driver.state"))),
    (fact::NVIDIA_LOADED, |tree| Some(tree.module("nvidia").is_some())),
    (fact::MARKER_UNSET, |tree| Some(!tree.has("run/mellanox/drivers/.driver-ready"))),
    (fact::PEERMEM_USED, |tree| tree.module("nvidia_peermem").map(|module| module[2] != "0").or(Some(false))),
    (fact::DRIVER_POD, |tree| Some(tree.has_driver_pod())),
    (fact::HOST_DRIVER, |tree| Some(!tree.has_driver_pod())),
    (doctors::PEERMEM_AWAITED, |tree| Some(tree.module("nvidia_peermem").is_none())),
    (doctors::DRM_LOADED, |tree| Some(tree.module("nvidia_drm").is_some())),
    (doctors::KUBERNETES, |tree| tree.is_of_kubernetes()),
    (doctors::GPU_OPERATOR, |tree| tree.is_of_kubernetes()),
    (doctors::NETWORK_OPERATOR, |tree| tree.is_of_kubernetes()),
    (doctors::TALOS, |tree| tree.is("talos")),
    (doctors::SYSTEMD, |tree| tree.is("talos").map(|is_talos| !is_talos)),
    (doctors::OPENSHIFT, |tree| {
        Some(tree.os().contains("OPENSHIFT_VERSION") || tree.is("rhcos") == Some(true))
    }),
    (doctors::KERNEL_LACKS_IB, |tree| Some(!tree.lists_module("mlx5_ib"))),
    (doctors::KEPT_OUT, |tree| Some(tree.modprobe_names("nvidia"))),
    (doctors::INIT_WAITS, |tree| Some(tree.has_container("network-operator-init-container"))),
    (doctors::NO_INIT_WAITS, |tree| Some(!tree.has_container("network-operator-init-container"))),
    (doctors::CRI_O, |tree| Some(tree.runs("crio"))),
    (doctors::CONTAINERD, |tree| Some(!tree.runs("crio") || tree.runs("containerd"))),
];

/// Facts that the finding's own evidence must have the words for.
const IN_EVIDENCE: &[(Fact, &[&str])] = &[
    (doctors::REFUSES_IW_CM, &["iw_cm"]),
    (doctors::HELD_BY_DISK, &["is mounted at"]),
    (doctors::MANAGEMENT_KIND, &["management.nvidia.com"]),
    (doctors::TOOLKIT_HELD, &["nvidia-container-toolkit-ctr"]),
    (doctors::SIGNAL_DENIED, &["DENIED"]),
    (doctors::PEERMEM_AWAITED, &["nvidia_peermem"]),
    (doctors::MOFED_AWAITED, &[".driver-ready"]),
];

/// Programs of an ordinary host: Talos has none of them, and no shell.
const OF_A_HOST: &[&str] = &[
    "apt",
    "ausearch",
    "chroot",
    "crictl",
    "depmod",
    "df",
    "dkms",
    "dmesg",
    "dnf",
    "dracut",
    "du",
    "findmnt",
    "ibstat",
    "ip",
    "journalctl",
    "lsmod",
    "mlxfwmanager",
    "modprobe",
    "mokutil",
    "mount",
    "mstflint",
    "nmcli",
    "nvidia-ctk",
    "nvidia-smi",
    "ps",
    "rdma",
    "rmmod",
    "sminfo",
    "ss",
    "sysctl",
    "systemctl",
    "umount",
    "update-initramfs",
];
/// Package managers, and what they keep up to date: systems that come as an image have none.
const OF_PACKAGES: &[&str] = &["apt", "dkms", "dnf", "dracut", "update-initramfs"];
const IMAGES: &[&str] = &["bottlerocket", "cos", "flatcar", "rhcos", "talos"];

/// Every condition that is not so, a line each.
pub(crate) fn broken(node: &Node, findings: &[Value]) -> Vec<String> {
    let tree = Tree { node };
    findings.iter().flat_map(|finding| of_finding(&tree, finding)).collect()
}

fn of_finding(tree: &Tree<'_>, finding: &Value) -> Vec<String> {
    let name = text(finding, "id");
    let id = Id::ALL.iter().find(|id| id.name() == name).expect("a finding");
    let table = all_steps(*id);
    let steps = finding["remedy"].as_array().expect("a remedy").iter().filter_map(Value::as_str);
    let mut broken = Vec::new();
    for step in steps {
        let Some((row, is_given)) = table.iter().find_map(|row| Some((row, matched(step, row)?))) else {
            broken.push(format!("{name}: no row of the table has this step: {step}"));
            continue;
        };
        let unmet = needs(row).into_iter().filter(|fact| !is_given.contains(fact));
        let unmet = unmet.filter(|fact| is_unmet(tree, finding, *fact));
        broken.extend(unmet.map(|fact| format!("{name}: not so here, {:?}: {step}", fact.phrase())));
        let is_conditional = !is_given.is_empty() || super::law::is_conditional(step);
        let foreign = commands(step).into_iter().filter(|command| !is_conditional && tree.lacks(command));
        broken.extend(foreign.map(|command| format!("{name}: this host has no {command}: {step}")));
    }
    broken
}

/// What must be so for this step: its own conditions, and the premises of its words.
fn needs(row: &Step) -> Vec<Fact> {
    Facts::default().premises(doctors::PREMISES).conditions(row)
}

fn is_unmet(tree: &Tree<'_>, finding: &Value, fact: Fact) -> bool {
    let evidence = super::all(&finding["evidence"]);
    let truth = TRUTHS.iter().find(|(known, _)| *known == fact);
    let words = IN_EVIDENCE.iter().find(|(known, _)| *known == fact);
    let cause = FailureCause::ALL.iter().find(|cause| cause.fact() == fact);
    truth.is_some_and(|(_, truth)| truth(tree) == Some(false))
        || words.is_some_and(|(_, words)| !words.iter().any(|word| evidence.contains(word)))
        || cause.is_some_and(|cause| !evidence.lines().any(|line| FailureCause::of(line) == Some(*cause)))
}

/// The facts of the row with which the step begins ("If …: "), if it is a step of this row.
fn matched(step: &str, row: &Step) -> Option<Vec<Fact>> {
    let text = row.under(std::iter::empty());
    if fits(step, &text) {
        return Some(Vec::new());
    }
    let given: Vec<_> = needs(row).into_iter().filter(|fact| step.contains(phrase(*fact).as_str())).collect();
    let lower = text.chars().next()?.to_lowercase().chain(text.chars().skip(1)).collect::<String>();
    let is_it = !given.is_empty()
        && step.match_indices(": ").any(|(at, colon)| fits(&step[at + colon.len()..], &lower));
    is_it.then_some(given)
}

/// As it stands after the first word of a sentence.
fn phrase(fact: Fact) -> String {
    let phrase = fact.phrase();
    let rest = phrase.strip_prefix("If ").unwrap_or(phrase);
    rest.chars().skip(1).collect()
}

/// The step is this text, with anything for the words in braces.
fn fits(step: &str, text: &str) -> bool {
    let step = step.trim_end_matches(" (The node's name is guessed from its hostname.)");
    let mut pieces = pieces(text).into_iter();
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = step.strip_prefix(first) else { return false };
    let mut is_at_end = rest.is_empty();
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
        is_at_end = rest.is_empty() || piece.is_empty();
    }
    is_at_end
}

/// The text between the words in braces.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut from = 0;
    while let Some(at) = rest[from..].find('{').map(|at| at + from) {
        let end = rest[at..].find('}').map_or(rest.len(), |end| at + end);
        let is_word = rest[at + 1..end].bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        if is_word && end > at + 1 {
            pieces.push(&rest[..at]);
            rest = &rest[end + 1..];
            from = 0;
        } else {
            from = at + 1;
        }
    }
    pieces.push(rest);
    pieces
}

/// The first words of the commands in backticks.
fn commands(step: &str) -> Vec<&str> {
    let quoted = step.split('`').skip(1).step_by(2);
    let parts = quoted.flat_map(|text| text.split(" && ")).flat_map(|text| text.split(" | "));
    parts.filter_map(|command| command.split(' ').next().filter(|_| command.contains(' '))).collect()
}

/// A node's files.
struct Tree<'n> {
    node: &'n Node,
}

impl Tree<'_> {
    fn has(&self, path: &str) -> bool {
        self.node.path(path).symlink_metadata().is_ok()
    }

    fn read(&self, path: &str) -> String {
        fs::read(self.node.path(path))
            .map_or_else(|_| String::new(), |text| String::from_utf8_lossy(&text).into_owned())
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.node.path(directory)).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    fn os(&self) -> String {
        self.read("etc/os-release") + &self.read("usr/lib/os-release")
    }

    fn is(&self, id: &str) -> Option<bool> {
        let os = self.os();
        (!os.is_empty()).then(|| os.lines().any(|line| line.replace('"', "") == format!("ID={id}")))
    }

    /// The words of the module's line.
    fn module(&self, name: &str) -> Option<Vec<String>> {
        let lines = self.read("proc/modules");
        let line = lines.lines().find(|line| line.split(' ').next() == Some(name))?;
        Some(line.split(' ').map(str::to_owned).collect())
    }

    fn lists_module(&self, name: &str) -> bool {
        let release = self.read("proc/sys/kernel/osrelease");
        ["lib", "usr/lib"].iter().any(|lib| {
            let list = self.read(&format!("{lib}/modules/{}/modules.dep", release.trim()));
            list.lines()
                .any(|line| line.split(':').next().is_some_and(|file| file.contains(&format!("/{name}.ko"))))
        })
    }

    fn modprobe_names(&self, module: &str) -> bool {
        let directories = ["etc", "usr/lib", "lib", "run"].map(|base| format!("{base}/modprobe.d"));
        let files = directories.iter().flat_map(|directory| {
            self.names(directory).into_iter().map(move |name| format!("{directory}/{name}"))
        });
        let mut texts: Vec<_> = files.map(|file| self.read(&file)).collect();
        texts.push(self.read("proc/cmdline").replace(['=', ','], " "));
        texts.iter().any(|text| text.split_whitespace().any(|word| word == module))
    }

    fn has_container(&self, name: &str) -> bool {
        self.names("var/log/pods").iter().any(|pod| self.has(&format!("var/log/pods/{pod}/{name}")))
    }

    /// A kubelet, pods, or files of the GPU Operator.
    fn is_of_kubernetes(&self) -> Option<bool> {
        let is_one = ["var/lib/kubelet", "var/log/pods", "run/nvidia/validations", "run/mellanox/drivers"]
            .iter()
            .any(|path| self.has(path))
            || ["kubelet", "k3s", "k3s-server", "k3s-agent", "kubelite"].iter().any(|name| self.runs(name))
            || self.has_driver_pod();
        let has_processes = self.names("proc").iter().any(|name| name.parse::<u32>().is_ok());
        if is_one { Some(true) } else { has_processes.then_some(false) }
    }

    fn runs(&self, name: &str) -> bool {
        self.names("proc").iter().any(|pid| self.read(&format!("proc/{pid}/comm")).trim() == name)
    }

    /// By its own files, its script, or the names of its pods and containers.
    fn has_driver_pod(&self) -> bool {
        let files = ["nvidia-driver.pid", "validations/.driver-ctr-ready", "driver/lib", "driver/usr"];
        let containers =
            ["nvidia-driver-ctr", "k8s-driver-manager", "nvidia-peermem-ctr", "openshift-driver-toolkit-ctr"];
        let in_kubelet = |pod: &String| {
            containers.iter().any(|name| self.has(&format!("var/lib/kubelet/pods/{pod}/containers/{name}")))
        };
        let builds = |pod: &String| {
            let volumes = format!("var/lib/kubelet/pods/{pod}/volumes/kubernetes.io~empty-dir");
            self.has(&format!("{volumes}/shared-nvidia-driver-toolkit"))
        };
        let pods = self.names("var/lib/kubelet/pods");
        files.iter().any(|file| self.has(&format!("run/nvidia/{file}")))
            || containers.iter().any(|name| self.has_container(name))
            || pods.iter().any(|pod| in_kubelet(pod) || builds(pod))
            || ["nvidia-driver", "driver-manager", "ocp_dtk_entrypo"].iter().any(|name| self.runs(name))
    }

    /// This host does not have this program.
    fn lacks(&self, program: &str) -> bool {
        let is_image = IMAGES.iter().any(|id| self.is(id) == Some(true));
        self.is("talos") == Some(true) && OF_A_HOST.contains(&program)
            || is_image && OF_PACKAGES.contains(&program)
    }
}
