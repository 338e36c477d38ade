// SPDX-License-Identifier: Apache-2.0
//! Words that `explain` knows beside findings and the gate's own: conditions and reasons, from their page; how a node
//! stands; and the alerts, from their rules. Pure.

use super::standing::Standing;
use peermem_gate::ready::condition::Reason;
use peermem_gate::vocabulary::Word;

const CONDITIONS: &str = include_str!("../../../docs/conditions.md");
const RULES: &str = include_str!("../../../manifests/monitoring/rules.yaml");
/// The conditions, by the first table of their page.
pub(super) fn conditions() -> Vec<Word> {
    let (_, table) = CONDITIONS.split_once("| condition | True when |\n|---|---|\n").unwrap_or_default();
    let (table, _) = table.split_once("\n\n").unwrap_or_default();
    let row = |row: &'static str| row.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | ");
    let word = |(name, meaning): (&str, &str)| Word {
        name: name.to_owned(),
        list: "condition",
        meaning: format!("True when {}.", plain(meaning)),
        seen: vec![format!("`check` has a line of it; `peermem_gate_condition{{type=\"{name}\"}}`")],
        steps: Vec::new(),
        page: "conditions.md".to_owned(),
    };
    table.lines().filter_map(row).map(word).collect()
}

/// A condition's reason, by its row or its section.
pub(super) fn of_condition(reason: Reason, described: String) -> Word {
    let row = CONDITIONS.lines().find_map(|line| line.strip_prefix(&format!("| `{reason}` | ")));
    let row = row.and_then(|row| row.strip_suffix(" |")?.split_once(" | ")).map(|(_, meaning)| meaning);
    let section = CONDITIONS.split_once(&format!("\n### `{reason}`\n")).map(|(_, rest)| rest);
    let section = section.map(|rest| rest.split("\n#").next().unwrap_or_default());
    let paragraph = |head: &str| {
        let (_, text) = section?.split_once(&format!("\n- **{head}**"))?;
        let text = text.split("\n- **").next().unwrap_or_default();
        Some(plain(text.trim_start_matches(':')).trim().to_owned())
    };
    // Some have nothing to explain.
    let is_plain = row.is_none() && section.is_none();
    let shown = is_plain.then(|| "a line of `check` has it, behind its condition".to_owned());
    let seen = [
        shown,
        row.map(plain),
        paragraph("Meaning"),
        paragraph("Look at").map(|at| format!("look at: {at}")),
    ];
    Word {
        name: reason.to_string(),
        list: "reason of a condition",
        meaning: described,
        seen: seen.into_iter().flatten().collect(),
        steps: paragraph("Do").into_iter().collect(),
        page: "conditions.md".to_owned(),
    }
}

/// How a node stands.
pub(super) fn standings() -> Vec<Word> {
    let word = |standing: Standing| {
        let meaning = match standing {
            Standing::Critical => "Something is wrong that does not pass by itself.",
            Standing::Warning => "Something is wrong, or suspicious.",
            Standing::Waiting => "Nothing is wrong, and something is not finished.",
            Standing::Unknown => "Something that decides cannot be read.",
            Standing::Ok => "Nothing is wrong.",
        };
        let metric = format!("`peermem_doctor_standing{{standing=\"{}\"}}` is 1", standing.name());
        Word {
            name: standing.name().to_owned(),
            list: "how a node stands",
            meaning: meaning.to_owned(),
            seen: vec![format!("the first word of `doctor`; {metric}; `standing` in a report")],
            steps: Vec::new(),
            page: "usage.md#doctor".to_owned(),
        }
    };
    Standing::ALL.map(word).into()
}

/// The alerts, in the order of their rules.
pub(super) fn alerts() -> Vec<Word> {
    let word = |rule: &str| {
        let filled = rule.replace("{{ $labels.instance }}", "a node").replace("{{ $labels.node }}", "NODE");
        let filled = filled.replace("{{ $labels.reason }}", "REASON");
        let value = |key: &str| {
            let (_, text) = filled.split_once(&format!("  {key}: ")).unwrap_or_default();
            let ends = if text.starts_with(">-") { "\n          for:" } else { "\n" };
            let text = text.split(ends).next().unwrap_or_default().trim_start_matches(">-").trim_matches('"');
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        Word {
            name: rule.lines().next().unwrap_or_default().to_owned(),
            list: "alert",
            meaning: value("summary") + ".",
            seen: vec![format!("`{}`", value("expr"))],
            steps: vec![value("description")],
            page: value("runbook_url").rsplit("/docs/").next().unwrap_or_default().to_owned(),
        }
    };
    RULES.split("- alert: ").skip(1).map(word).collect()
}

/// Markdown as a terminal shows it: links are their words, and lines are one.
fn plain(markdown: &str) -> String {
    let (mut text, mut rest) = (String::new(), markdown);
    while let Some((before, after)) = rest.split_once("](") {
        text.extend(before.rsplit_once('[').map_or([before, ""], |(before, words)| [before, words]));
        rest = after.split_once(')').unwrap_or_default().1;
    }
    (text + rest).split_whitespace().collect::<Vec<_>>().join(" ")
}
