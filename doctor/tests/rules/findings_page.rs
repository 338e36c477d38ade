// SPDX-License-Identifier: Apache-2.0
//! docs/findings.md: a head, written by hand, and what the table of findings says. What many entries say is said
//! once: conditions and prices have a short form, and a step of several findings has a section of its own.

use peermem_doctor::finding::{Id, steps_by_words};
use std::collections::{BTreeMap, BTreeSet};

/// What many steps say, and its short form in this page, which a list explains. The longer text comes first.
const SHORT: [(&str, &str); 27] = [
    (
        "If a driver container installs the driver and the driver container builds the driver: ",
        "*Driver container that builds:* ",
    ),
    ("If a driver container installs the driver: ", "*Driver container:* "),
    (
        "If the driver is installed on the host and systemd runs the host's services: ",
        "*Host's driver, systemd:* ",
    ),
    ("If the driver is installed on the host: ", "*Host's driver:* "),
    ("If systemd runs the host's services: ", "*systemd:* "),
    (
        " and the driver is installed on the host and systemd runs the host's services: ",
        ", *host's driver, systemd:* ",
    ),
    (" and systemd runs the host's services: ", ", *systemd:* "),
    ("If neither a disk nor the network of the node depends on its holder: ", "*Holder not needed:* "),
    ("If the driver image is precompiled: ", "*Precompiled driver:* "),
    ("If the node is a virtual machine: ", "*Guest:* "),
    (
        "If kubelet uses containerd and the toolkit's container does not have these values yet: ",
        "*containerd, values missing:* ",
    ),
    (
        "If kubelet uses containerd and the toolkit's container has these values already: ",
        "*containerd, values there:* ",
    ),
    ("If kubelet uses CRI-O: ", "*CRI-O:* "),
    ("If `/run/nvidia/nvidia-driver.state` exists (GPU Operator 26.3 and later): ", "*State file:* "),
    ("If `peermem-gate rebuild --dry-run` finds all that it needs: ", "*Rebuild possible:* "),
    ("If a driver container installs the driver and nvidia is loaded: ", "*Driver container, live:* "),
    ("If you do not know the MOFED pod's name: ", "*Pod unknown:* "),
    ("If a container provides MOFED: ", "*MOFED container:* "),
    ("If the host provides MOFED: ", "*Host's MOFED:* "),
    ("On OpenShift with the driver toolkit: ", "*OpenShift, driver toolkit:* "),
    (
        "The drain evicts every pod of the node, and deletes the data in their emptyDir volumes.",
        "*(Evicts all pods.)*",
    ),
    ("That ends every job on the node.", "*(Ends all jobs.)*"),
    ("The restart ends every CUDA job on the node.", "*(Ends CUDA jobs.)*"),
    ("The restart takes the NIC away for a while.", "*(Takes the NIC away.)*"),
    (
        "This setting is of the whole cluster: with `driver.upgradePolicy.autoUpgrade` the operator then drains and restarts the driver on every node.",
        "*(May restart every node's driver.)*",
    ),
    (
        "This setting is of the whole cluster: with `ofedDriver.upgradePolicy.autoUpgrade` the operator then drains and restarts MOFED on every node.",
        "*(May restart every node's MOFED.)*",
    ),
    ("Running containers continue.", "*(No job ends.)*"),
];

/// The deletion of a pod and the drain before it: a section of the page, to which steps lead.
struct Deletion {
    title: &'static str,
    command: &'static str,
    /// How the program's step with the drain begins.
    opening: &'static str,
    /// In the section: before the drain, behind the deletion, and before what follows when the new pod is ready.
    words: [&'static str; 3],
}

const DELETIONS: [Deletion; 2] = [
    Deletion {
        title: "Delete the driver pod",
        command: "`kubectl delete pod -A -l app.kubernetes.io/component=nvidia-driver --field-selector spec.nodeName=NODE`",
        opening: "If a driver container installs the driver and nvidia is loaded: before you delete the driver pod",
        words: ["If nvidia is loaded, drain the node first", "", ", and if you drained the node"],
    },
    Deletion {
        title: "Delete the MOFED pod",
        command: "`kubectl delete pod -A -l nvidia.com/ofed-driver --field-selector spec.nodeName=NODE`",
        opening: "If a container provides MOFED: before you delete the MOFED pod",
        words: ["Drain the node first", " That takes the NIC away for a while.", ""],
    },
];

impl Deletion {
    /// From the program's step: the drain, then the deletion, and what follows when the new pod is ready.
    fn section(&self, steps: &[String]) -> String {
        let step = steps.iter().find(|step| step.starts_with(self.opening)).expect("a step with the drain");
        let parts: Vec<_> = step.split('`').collect();
        let [before, behind, ready] = self.words;
        let lines = [
            format!("1. {before}: `{}`{}", parts[1], parts[4]),
            format!("2. Delete the pod: {}.{behind}", self.command),
            format!("3. Once the new pod is ready{ready}: `{}`.", parts[3]),
        ];
        format!("\n## {}\n\n{}", self.title, lines.map(|line| filled(&line, "   ")).concat())
    }

    /// The step with a link to the section in the place of the command.
    fn linked(&self, step: &str) -> String {
        let Some((before, behind)) = step.split_once(&format!(": {}.", self.command)) else {
            assert!(!step.contains(self.command), "say the command at the end of a sentence: {step}");
            return step.to_owned();
        };
        let from = before.rfind("elete ").expect("a verb before the command") - 1;
        let end = from + before[from..].find(" pod").expect("what it deletes") + " pod".len();
        let anchor = self.title.to_lowercase().replace(' ', "-");
        let (words, rest) = (&before[from..end], &before[end..]);
        format!("{}[{words}](#{anchor}){rest}. *(Drain first.)*{behind}", &before[..from])
    }
}

/// Words of a link to a step of several findings.
const LINK: usize = 8;

/// The page behind its head, which ends before the list of short forms.
pub(crate) fn page(conditions: &str) -> String {
    let shared = shared();
    let all: Vec<_> = Id::ALL.iter().flat_map(|id| id.steps()).collect();
    let used = |long: &str| all.iter().any(|step| step.contains(long));
    let mut text = String::new();
    for (long, short) in SHORT {
        assert!(used(long), "no step says this any more: {long}");
        // Behind another condition a short form means the same.
        if !short.starts_with(',') {
            text += &filled(&format!("- {} {}", short.trim_end(), long.trim()), "  ");
        }
    }
    text.extend(Id::ALL.iter().map(|id| explained(*id, conditions, &shared)));
    text.extend(DELETIONS.iter().map(|deletion| deletion.section(&all)));
    text += "\n## Steps of several findings\n";
    let mut steps: Vec<_> = shared.iter().collect();
    steps.sort_by_key(|(_, number)| **number);
    text.extend(
        steps.into_iter().map(|(step, number)| format!("\n### Step {number}\n\n{}", filled(step, ""))),
    );
    text += "\n## Reasons in words\n\nA container, kubelet or a service may say why it fails. By its words these steps come first.\n\n";
    text.extend(steps_by_words().iter().map(|step| filled(&format!("- {}", shortened(step)), "  ")));
    text
}

fn shortened(step: &str) -> String {
    SHORT.iter().fold(step.to_owned(), |step, (long, short)| step.replace(long, short))
}

/// Its steps as the page has them. A drain that comes just before a deletion is in the section of the deletion; a
/// build that begins without a new pod needs it earlier, and then the page has the program's own steps.
fn steps(id: Id) -> Vec<String> {
    let mut all = id.steps();
    if !all.iter().any(|step| step.contains("/driver_built`")) {
        for deletion in &DELETIONS {
            if let Some(at) = all.iter().position(|step| step.starts_with(deletion.opening)) {
                all.remove(at);
                all = all.iter().map(|step| deletion.linked(step)).collect();
            }
        }
    }
    all.iter().map(|step| shortened(step)).collect()
}

/// Steps that are shorter as a section of their own with links to it, with their numbers.
fn shared() -> BTreeMap<String, usize> {
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    let rows: BTreeSet<_> = Id::ALL.iter().map(|id| steps(*id)).collect();
    for step in rows.into_iter().flatten() {
        *uses.entry(step).or_default() += 1;
    }
    let words = |step: &str| step.split_whitespace().count();
    let is_shorter = |(step, uses): &(&String, &usize)| {
        !step.contains("](#") && **uses > 1 && **uses * words(step).saturating_sub(LINK) > words(step) + 3
    };
    uses.iter().filter(is_shorter).enumerate().map(|(at, (step, _))| (step.clone(), at + 1)).collect()
}

fn anchor(id: Id) -> String {
    id.name().to_lowercase()
}

/// The section of a finding: its title, and the steps of its remedy.
fn explained(id: Id, conditions: &str, shared: &BTreeMap<String, usize>) -> String {
    let severity = if conditions.contains(&format!("\n### `{id}`\n")) {
        format!("[**{}**](conditions.md#{})", id.severity(), anchor(id))
    } else {
        format!("**{}**", id.severity())
    };
    let lead = format!("{severity}: {}.", id.title());
    let step = |(at, step): (usize, String)| {
        let text = match shared.get(&step) {
            Some(number) => linked(&step, *number),
            None => step,
        };
        filled(&format!("{}. {text}", at + 1), "   ")
    };
    let own = steps(id);
    let like = Id::ALL.iter().take_while(|other| **other != id).find(|other| steps(**other) == own);
    let steps: String = match like.filter(|_| own.len() > 1) {
        Some(other) => format!("Remedy: that of [`{other}`](#{}).\n", anchor(*other)),
        None => own.into_iter().enumerate().map(step).collect(),
    };
    format!("\n## `{id}`\n\n{}\n{steps}", filled(&lead, ""))
}

/// The condition of a step, its first clause, or the first words of a long one, as a link to the whole step, and its
/// prices.
fn linked(step: &str, number: usize) -> String {
    let mut ends =
        [("*", ":* "), ("If ", ": "), ("On ", ": ")].into_iter().filter(|(start, _)| step.starts_with(start));
    let condition = ends.find_map(|(_, end)| Some(step.find(end)? + end.len())).unwrap_or(0);
    let (condition, rest) = step.split_at(condition);
    let is_plain = |at: usize| rest[..at].matches('`').count() % 2 == 0;
    let mut ends = rest.char_indices().filter(|(at, mark)| ",:;.(".contains(*mark) && is_plain(*at));
    let is_aim = ["before ", "to "].iter().any(|start| rest.to_lowercase().starts_with(start));
    let clause = ends.nth(usize::from(is_aim)).map_or(rest, |(at, _)| rest[..at].trim_end());
    let words: Vec<_> = clause.split(' ').collect();
    let text = if words.len() <= 14 { clause.to_owned() } else { format!("{} …", words[..LINK].join(" ")) };
    let has = |short: &&str| short.ends_with(".)*") && step.contains(short);
    let prices = SHORT.iter().map(|(_, short)| *short).filter(has);
    let prices = prices.fold(String::new(), |all, price| all + " " + price);
    format!("{condition}[{text}](#step-{number}){prices}")
}

/// Lines of 118 characters; further ones begin with the indent. A command stays on one line where it fits.
fn filled(text: &str, indent: &str) -> String {
    const WIDTH: usize = 118;
    const KEPT: &str = "\u{1}";
    let is_short = |command: &str| command.chars().count() + indent.len() + 6 <= WIDTH;
    let part = |(at, part): (usize, &str)| {
        if at % 2 == 1 && is_short(part) { part.replace(' ', KEPT) } else { part.to_owned() }
    };
    let text: Vec<_> = text.split('`').enumerate().map(part).collect();
    let mut lines = vec![String::new()];
    for word in text.join("`").split(' ') {
        let line = lines.last_mut().expect("a line");
        let width = line.chars().count() + 1 + word.chars().count();
        if line.is_empty() {
            *line += word;
        } else if width <= WIDTH {
            *line += &format!(" {word}");
        } else {
            lines.push(format!("{indent}{word}"));
        }
    }
    lines.join("\n").replace(KEPT, " ") + "\n"
}
