// SPDX-License-Identifier: Apache-2.0
//! docs/findings.md: a head, written by hand, and what the table of findings says. What many entries say is said
//! once: conditions and prices have a short form, and a step of several findings has a section of its own.

use peermem_doctor::finding::{Id, steps_by_words};
use std::collections::{BTreeMap, BTreeSet};

/// What many steps say, and its short form in this page, which a list explains. The longer text comes first.
const SHORT: [(&str, &str); 20] = [
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
    ("If `peermem-gate rebuild --dry-run` finds all that it needs: ", "*Rebuild possible:* "),
    ("If a driver container installs the driver and nvidia is loaded: ", "*Driver container, live:* "),
    ("If you do not know the MOFED pod's name: ", "*Pod unknown:* "),
    ("If a container provides MOFED: ", "*MOFED container:* "),
    ("If the host provides MOFED: ", "*Host's MOFED:* "),
    ("On OpenShift with the driver toolkit: ", "*OpenShift, driver toolkit:* "),
    ("Running containers continue.", "*(No job ends.)*"),
];

/// Commands that delete a pod, their short form, and how the step begins that comes before each of them.
const DELETIONS: [(&str, &str, &str); 2] = [
    (
        "`kubectl delete pod -A -l app.kubernetes.io/component=nvidia-driver --field-selector spec.nodeName=NODE`",
        "`DELETE-DRIVER-POD`",
        "If a driver container installs the driver and nvidia is loaded: before you delete the driver pod, ",
    ),
    (
        "`kubectl delete pod -A -l nvidia.com/ofed-driver --field-selector spec.nodeName=NODE`",
        "`DELETE-MOFED-POD`",
        "If a container provides MOFED: before you delete the MOFED pod, ",
    ),
];

/// What every step with an act says, the act in the list, and words of it.
const IMPLIED: [(&str, &str, &[&str]); 8] = [
    (
        " The drain evicts every pod of the node, and deletes the data in their emptyDir volumes.",
        "a drain",
        &["drain"],
    ),
    (
        " The restart ends every CUDA job on the node.",
        "`systemctl restart nvidia-fabricmanager`",
        &["`systemctl restart nvidia-fabricmanager`"],
    ),
    (" The restart takes the NIC away for a while.", "`/etc/init.d/openibd restart`", &["openibd restart"]),
    (" That ends every job on the node.", "a reboot, or off and on", &["eboot", "off and on"]),
    (
        " This setting is of the whole cluster: with `driver.upgradePolicy.autoUpgrade` the operator then drains and restarts the driver on every node.",
        "`driver.…`, but for an NVIDIADriver or a label",
        &["`driver."],
    ),
    (" of the NicClusterPolicy", "`spec.ofedDriver.…`", &["`spec.ofedDriver."]),
    (
        " This setting is of the whole cluster: with `ofedDriver.upgradePolicy.autoUpgrade` the operator then drains and restarts MOFED on every node.",
        "`spec.ofedDriver.…`",
        &["`spec.ofedDriver."],
    ),
    (" in the ClusterPolicy", "a setting of no named object", &["` in the ClusterPolicy"]),
];

/// Words of a link to a step of several findings.
const LINK: usize = 8;

/// The page behind its head, which ends before the list of short forms.
pub(crate) fn page(conditions: &str) -> String {
    let shared = shared();
    let all: Vec<_> = Id::ALL.iter().flat_map(|id| id.steps()).collect();
    let used = |long: &str| all.iter().any(|step| step.contains(long));
    let mut text = String::new();
    for (command, short, opening) in DELETIONS {
        let first = all.iter().find(|step| step.starts_with(opening)).expect("a step before the deletion");
        text += &filled(&format!("- {short}: {} Then: {command}.", shortened(first)), "  ");
    }
    for (long, act, _) in IMPLIED {
        assert!(used(long), "no step says this any more: {long}");
        text += &filled(&format!("- {act}: {}", long.trim()), "  ");
    }
    for (long, short) in SHORT {
        assert!(used(long), "no step says this any more: {long}");
        // Behind another condition a short form means the same.
        if !short.starts_with(',') {
            text += &filled(&format!("- {} {}", short.trim_end(), long.trim()), "  ");
        }
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
    let deletions = DELETIONS.iter().map(|(command, short, _)| (command, short));
    let short = deletions.chain(SHORT.iter().map(|(long, short)| (long, short)));
    let step = short.fold(step.to_owned(), |step, (long, short)| step.replace(long, short));
    let is_act = |step: &str, acts: &[&str]| acts.iter().any(|act| step.contains(act));
    IMPLIED.iter().fold(
        step,
        |step, (long, _, acts)| {
            if is_act(&step, acts) { step.replace(long, "") } else { step }
        },
    )
}

/// Its steps, without those that a short form says with its command. A build that begins without a new pod needs
/// them before it.
fn steps(id: Id) -> Vec<String> {
    let all = id.steps();
    if all.iter().any(|step| step.contains("/driver_built`")) {
        return all;
    }
    let is_said = |step: &String| {
        let said = |(command, _, opening): &(&str, &str, &str)| {
            step.starts_with(opening) && all.iter().any(|other| other.contains(command))
        };
        DELETIONS.iter().any(said)
    };
    all.iter().filter(|step| !is_said(step)).cloned().collect()
}

/// Steps that are shorter as a section of their own with links to it, with their numbers.
fn shared() -> BTreeMap<String, usize> {
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    let rows: BTreeSet<_> = Id::ALL.iter().map(|id| steps(*id)).collect();
    for step in rows.into_iter().flatten() {
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
    let severity = if conditions.contains(&format!("\n### `{id}`\n")) {
        format!("[**{}**](conditions.md#{})", id.severity(), anchor(id))
    } else {
        format!("**{}**", id.severity())
    };
    let lead = format!("{severity}: {}.", id.title());
    let step = |(at, step): (usize, String)| {
        let text = match shared.get(&step) {
            Some(number) => linked(&shortened(&step), *number),
            None => shortened(&step),
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

/// The condition of a step, and its first clause, or the first words of a long one, as a link to the whole step.
fn linked(step: &str, number: usize) -> String {
    let (condition, step) = match step.strip_prefix('*').and_then(|rest| rest.split_once(":* ")) {
        Some((condition, step)) => (format!("*{condition}:* "), step),
        None => (String::new(), step),
    };
    let is_plain = |at: usize| step[..at].matches('`').count() % 2 == 0;
    let mut ends = step.char_indices().filter(|(at, mark)| ",:;.(".contains(*mark) && is_plain(*at));
    let clause = ends.next().map_or(step, |(at, _)| step[..at].trim_end());
    let words: Vec<_> = clause.split(' ').collect();
    let text = if words.len() <= 12 { clause.to_owned() } else { format!("{} …", words[..LINK].join(" ")) };
    format!("{condition}[{text}](#step-{number})")
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
