// SPDX-License-Identifier: Apache-2.0
//! Public incidents and healthy nodes, scored by a program that is not part of this repository: it lies in
//! ../shared/cases beside the checkout, or where `CASEBOOK` says. The same incidents are scenarios of our own in
//! tests/nodes, which a clone tests by itself.

use crate::expected::earned;
use crate::support::{self, GATE, can, note, output, skip, tests};
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// As many known incidents must be hit, of 29.
const HITS: u32 = 27;

/// `29/29 hit, 0 partly, …` of one set; a set that is missing is a failure.
fn said_of<'a>(summary: &'a str, set: &str) -> &'a str {
    let sets = summary.split("; ");
    let mut of_set = sets.filter_map(|said| said.strip_prefix(set)?.strip_prefix(' '));
    of_set.next().unwrap_or_else(|| panic!("nothing of {set}: {summary}"))
}

/// The number before a word.
fn number(said: &str, word: &str) -> (u32, Option<u32>) {
    let part =
        said.split(", ").find_map(|part| part.strip_suffix(word)).unwrap_or_else(|| panic!("{word}: {said}"));
    let (count, of) =
        part.trim().split_once('/').map_or((part.trim(), None), |(count, of)| (count, Some(of)));
    let parse = |text: &str| text.parse().unwrap_or_else(|_| panic!("{text}: {said}"));
    (parse(count), of.map(parse))
}

/// The scorer, ready to be called; `None` where it cannot be here.
fn scorer() -> Option<Command> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases");
    let scorer = env::var_os("CASEBOOK").map_or_else(beside, PathBuf::from).join("score.py");
    if !scorer.is_file() {
        support::suite::set_aside("there is no casebook beside this checkout (CASEBOOK names its directory)");
        return None;
    }
    if fs::metadata("/proc/self").is_ok_and(|own| own.uid() != 0) {
        skip("the casebook makes device files, which only root may");
        return None;
    }
    if !can(&["python3", "--version"]) || !can(&["gcc", "--version"]) {
        return None;
    }
    let mut score = Command::new("python3");
    score.arg(&scorer).args(["--gate", GATE, "--set", "all"]).env("PYTHONDONTWRITEBYTECODE", "1");
    Some(score)
}

fn doctor_names_the_root_cause_of_every_case_in_the_casebook() {
    let Some(mut score) = scorer() else { return };
    // Fifty nodes take longer than any one command of the other tests may.
    let output = score.output().expect("python3 runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    note!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the casebook cannot be scored");
    let summary = text.lines().last().unwrap_or_default();
    let seen = said_of(summary, "seen");
    assert!(number(seen, "hit").0 >= HITS && number(seen, "false").0 == 0, "{summary}");
    let (quiet, of) = number(said_of(summary, "healthy"), "quiet");
    assert_eq!(Some(quiet), of, "an alarm on a healthy node: {summary}");
    let liars = said_of(summary, "liars");
    for (right, of) in [number(liars, "hit"), number(liars, "quiet")] {
        assert_eq!(Some(right), of, "a user's pod changes the answer: {summary}");
    }
}

fn every_answer_about_the_casebook_keeps_the_laws() {
    let Some(mut score) = scorer() else { return };
    let trees = tempfile::tempdir().expect("a directory");
    assert!(score.arg("--keep").arg(trees.path()).output().expect("python3 runs").status.success());
    let entries = fs::read_dir(trees.path()).expect("trees").flatten().map(|entry| entry.path());
    let mut broken = Vec::new();
    for root in entries.filter(|root| root.join("proc").is_dir()) {
        let mut doctor = Command::new(GATE);
        let doctor = output(doctor.args(["doctor", "--format", "json", "--root"]).arg(&root).env_clear());
        let report: Value = serde_json::from_slice(&doctor.stdout).expect("a report");
        let findings = report["findings"].as_array().expect("findings");
        let code = doctor.status.code().expect("an exit code");
        let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        broken.extend(earned::broken(&root, code, findings).into_iter().map(|why| format!("{name}: {why}")));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

tests![
    doctor_names_the_root_cause_of_every_case_in_the_casebook,
    every_answer_about_the_casebook_keeps_the_laws,
];
