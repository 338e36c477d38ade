// SPDX-License-Identifier: Apache-2.0
//! Two verbs never disagree: what `timeline` draws as a failure is a finding of `doctor`, of the same node and of
//! each of its logs alone; its first sentence says what `doctor` says first; and `explain` says how each finding is
//! recognized.

use super::{Answer, text};
use crate::fixture::Node;
use peermem_doctor::report::explain::Topic;
use peermem_doctor::timeline::Race;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sentences about a race that say these findings, too.
const SAYS: &[(Race, &[&str])] = &[
    (Race::StubBuilt, &["StubModule", "BuiltBeforeMofed", "PeermemRefused", "BuildWithoutMofed"]),
    (Race::StubWithoutMofed, &["StubModule"]),
    (Race::LoadedTooEarly, &["PeermemRefused"]),
    (Race::SwappedAfterBuild, &["SymbolVersionMismatch"]),
    (Race::PeermemPinsMofed, &["PeermemInUse", "LoadedOnGoneStack"]),
    (Race::StorageHoldsMofed, &["StorageModulesLoaded"]),
    (Race::ThirdPartyHoldsMofed, &["ThirdPartyRdmaModulesLoaded"]),
    (Race::MofedNotReady, &["MofedBuilding", "MarkerAbsent"]),
    (Race::RefusedUnexplained, &["PeermemRefused"]),
];
const UNKNOWN: &str = "Whether there was a race is unknown";

/// Every disagreement about this node, a line each.
pub(crate) fn broken(node: &Node, answer: &Answer) -> Vec<String> {
    // Options that only `doctor` has are refused.
    let drawn = serde_json::from_slice(&node.asked("timeline", &["--format", "json"], "80").stdout);
    if let Ok(drawn) = &drawn {
        super::schema::check(drawn);
    }
    let of_node = drawn.ok().and_then(|drawn: Value| unlike(&drawn, &answer.findings, answer.code == 0));
    let mut broken: Vec<_> = of_node.into_iter().collect();
    for log in logs(&node.path("var/log")) {
        let asked = |verb: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_peermem-doctor"));
            let out =
                command.arg(verb).arg(&log).args(["--format", "json"]).env_clear().output().expect("it runs");
            let report = serde_json::from_slice::<Value>(&out.stdout).ok();
            report.inspect(super::schema::check)
        };
        if let (Some(drawn), Some(judged)) = (asked("timeline"), asked("doctor")) {
            let findings = judged["findings"].as_array().cloned().unwrap_or_default();
            broken.extend(unlike(&drawn, &findings, false).map(|why| format!("{}: {why}", log.display())));
        }
    }
    broken
}

/// What `explain` says of how a finding is recognized has the source that shows it here: a reason's check, a log's
/// line, or a path.
pub(crate) fn unexplained(finding: &Value) -> Option<String> {
    let id = text(finding, "id");
    let page = Topic::parse(id).expect("a finding").page(10_000);
    let (_, how) = page.split_once("\nhow it is recognized\n").unwrap_or_default();
    let how = how.split("\n\n").next().unwrap_or_default();
    let first = &finding["evidence"][0];
    let source = text(first, "source");
    let is_log = source.contains("/log/") || source.contains(".log") || source.contains("journal");
    let words = how.split([' ', ',', '`', ';', '\n']).filter(|word| !word.is_empty());
    let mut places =
        words.map(|word| word.trim_end_matches(['.', ':']).split('*').next().unwrap_or_default());
    let is_named = places.any(|place| match place {
        "/" => source.ends_with('/'),
        place => place.len() > 2 && source.contains(place.trim_end_matches('/')),
    });
    let is_checked = how.lines().any(|line| line.starts_with("  check "));
    let is_logged = is_log && how.contains("log");
    (!is_named && !is_checked && !is_logged).then(|| format!("{id}|{source}|{}", text(first, "seen")))
}

/// Why the picture and the findings do not say the same.
fn unlike(drawn: &Value, findings: &[Value], is_well: bool) -> Option<String> {
    let sentence = drawn["verdict"]["text"].as_str().unwrap_or_default();
    let is_loud = |finding: &&Value| ["critical", "warning"].contains(&text(finding, "severity"));
    let mut failures =
        drawn["events"].as_array().into_iter().flatten().filter(|event| event["is_failure"] == true);
    let Some(first) = findings.iter().find(is_loud) else {
        let last = failures.next_back()?["text"].as_str()?;
        let is_told =
            sentence.starts_with("Nothing is wrong now") || sentence.starts_with("There was no race");
        let is_under_way = findings.iter().any(|finding| text(finding, "id").ends_with("Building"));
        return (!(is_well && is_told || is_under_way))
            .then(|| format!("drawn as a failure, and no finding: {last}"));
    };
    let (id, title) = (text(first, "id"), text(first, "title"));
    let says = |(race, ids): &(Race, &[&str])| drawn["verdict"]["id"] == race.name() && ids.contains(&id);
    let begins = sentence.get(..title.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(title));
    let is_said = begins || SAYS.iter().any(says) && !sentence.starts_with(UNKNOWN);
    (!is_said).then(|| format!("doctor says {id} first, and timeline: {sentence}"))
}

/// The files that may be logs.
fn logs(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(logs(&entry.path())),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}
