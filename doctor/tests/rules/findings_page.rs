// SPDX-License-Identifier: Apache-2.0
//! docs/findings.md: a head, written by hand, and what the table of findings says. What many entries say is said
//! once: conditions and prices have a short form, and a step of several findings has a section of its own.

use peermem_doctor::finding::{Id, steps_by_words};
use std::collections::BTreeMap;

/// What many steps say, and its short form in this page, which a table explains. The longer text comes first.
const SHORT: [(&str, &str); 19] = [
    (
        "If a driver container installs the driver and the driver container builds the driver: ",
        "*Driver container that builds:* ",
    ),
    ("If a driver container installs the driver and nvidia is loaded: ", "*Driver container, live:* "),
    ("If a driver container installs the driver: ", "*Driver container:* "),
    (
        "If the driver is installed on the host and systemd runs the host's services: ",
        "*Host's driver, systemd:* ",
    ),
    ("If the driver is installed on the host: ", "*Host's driver:* "),
    ("If systemd runs the host's services: ", "*systemd:* "),
    ("If the node is a virtual machine: ", "*Guest:* "),
    ("If a container provides MOFED: ", "*MOFED container:* "),
    ("If the host provides MOFED: ", "*Host's MOFED:* "),
    ("On OpenShift with the driver toolkit: ", "*OpenShift, driver toolkit:* "),
    ("The drain evicts every pod of the node, and deletes the data in their emptyDir volumes.", "*(Drain.)*"),
    (
        "This setting is of the whole cluster: with `driver.upgradePolicy.autoUpgrade` the operator then drains and restarts the driver on every node.",
        "*(Every node's driver.)*",
    ),
    (
        "This setting is of the whole cluster: with `ofedDriver.upgradePolicy.autoUpgrade` the operator then drains and restarts MOFED on every node.",
        "*(Every node's MOFED.)*",
    ),
    ("That ends every job on the node.", "*(Ends all jobs.)*"),
    ("The restart ends every CUDA job on the node.", "*(Ends CUDA jobs.)*"),
    ("Running containers continue.", "*(No job ends.)*"),
    (
        "before you delete the driver pod, end the node's GPU workloads: ",
        "end GPU workloads, before the driver pod goes: ",
    ),
    (
        "before you delete the MOFED pod, which takes the NIC away for a while, end the node's GPU and RDMA workloads: ",
        "end GPU and RDMA workloads, before the MOFED pod and the NIC go: ",
    ),
    (
        "remove the state file before you delete the driver pod, or the new pod skips the build: ",
        "remove the state file first, or nothing is built: ",
    ),
];

/// Words of a link to a step of several findings.
const LINK: usize = 8;

/// The page behind its head, which ends before the table of short forms.
pub(crate) fn page(conditions: &str) -> String {
    let shared = shared();
    let used = |long: &str| Id::ALL.iter().flat_map(|id| id.steps()).any(|step| step.contains(long));
    let mut text = "| short form | in full |\n|---|---|\n".to_owned();
    for (long, short) in SHORT {
        assert!(used(long), "no step says this any more: {long}");
        text += &format!("| {} | {} |\n", short.trim(), long.trim());
    }
    text.extend(Id::ALL.iter().map(|id| explained(*id, conditions, &shared)));
    text += "\n## Steps of several findings\n";
    let mut steps: Vec<_> = shared.iter().collect();
    steps.sort_by_key(|(_, number)| **number);
    text.extend(
        steps
            .into_iter()
            .map(|(step, number)| format!("\n### Step {number}\n\n{}", filled(&shortened(step), ""))),
    );
    text += "\n## Reasons in words\n\nA container, kubelet or a service may say why it fails. These steps come first then.\n\n";
    text.extend(steps_by_words().iter().map(|step| filled(&format!("- {}", shortened(step)), "  ")));
    text
}

fn shortened(step: &str) -> String {
    SHORT.iter().fold(step.to_owned(), |step, (long, short)| step.replace(long, short))
}

/// Steps that are shorter as a section of their own with links to it, with their numbers.
fn shared() -> BTreeMap<String, usize> {
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    for step in Id::ALL.iter().flat_map(|id| id.steps()) {
        *uses.entry(step).or_default() += 1;
    }
    let words = |step: &str| shortened(step).split_whitespace().count();
    let is_shorter = |(step, uses): &(&String, &usize)| {
        **uses > 1 && **uses * words(step).saturating_sub(LINK) > words(step) + 3
    };
    uses.iter().filter(is_shorter).enumerate().map(|(at, (step, _))| (step.clone(), at + 1)).collect()
}

fn anchor(id: Id) -> String {
    id.name().to_lowercase()
}

/// The section of a finding: its title, and the steps of its remedy.
fn explained(id: Id, conditions: &str, shared: &BTreeMap<String, usize>) -> String {
    let mut lead = format!("**{}**: {}.", id.severity(), id.title());
    if conditions.contains(&format!("\n### `{id}`\n")) {
        lead += &format!(" [The condition](conditions.md#{}).", anchor(id));
    }
    let step = |(at, step): (usize, String)| {
        let text = match shared.get(&step) {
            Some(number) => format!("{}: [step {number}](#step-{number})", opening(&shortened(&step))),
            None => shortened(&step),
        };
        filled(&format!("{}. {text}", at + 1), "   ")
    };
    let steps: String = id.steps().into_iter().enumerate().map(step).collect();
    format!("\n## `{id}`\n\n{}\n{steps}", filled(&lead, ""))
}

/// The condition of a step and its first clause, or the first words of a long one: what stands before a link.
fn opening(step: &str) -> String {
    let (condition, step) = match step.strip_prefix('*').and_then(|rest| rest.split_once(":* ")) {
        Some((condition, step)) => (format!("*{condition}:* "), step),
        None => (String::new(), step),
    };
    let is_plain = |at: usize| step[..at].matches('`').count() % 2 == 0;
    let mut ends = step.char_indices().filter(|(at, mark)| ",:;.(".contains(*mark) && is_plain(*at));
    let clause = ends.next().map_or(step, |(at, _)| step[..at].trim_end());
    let words: Vec<_> = clause.split(' ').collect();
    let text = if words.len() <= 12 { clause.to_owned() } else { format!("{} …", words[..LINK].join(" ")) };
    condition + &text
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
