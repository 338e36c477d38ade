// SPDX-License-Identifier: Apache-2.0
//! Whole nodes, described in `tests/nodes/<scenario>/node` (the language is in tests/fixture) and judged by the real
//! `check`, or the verb that the description names. Each directory is up to five tests of its name:
//!
//! - `NAME`: the text report (of `doctor`: the whole one) begins with a verdict, a reason or a way and has the lines
//!   that `expect line` names. Of a golden node it equals `report` beside it (`BLESS=1` writes it). The golden nodes
//!   show each form of an answer; an empty file `report` makes a node golden. A test that fails prints the report;
//! - `NAME::screen`: of `doctor` the short answer fits a screen, and is the one in `screen`, where there is one;
//! - `NAME::expected`: `doctor`, or `paths`, says what the description expects; `doctor` keeps the laws of
//!   fixture/law.rs;
//! - `NAME::elsewhere`: with Talos or Flatcar in place of its system, no step asks for what that does not have;
//! - `NAME::healthy`: without the `fault` of the description, `doctor` finds nothing above info.
//!
//! `cargo test` plays the first and `expected` of each node, and all of the golden ones; the lane `nodes` the rest.
//! `cargo test stub` runs those with "stub" in the name, `cargo test nodes::` all of them. [`not_yet::NOT_YET`] lists
//! what `doctor` does not say yet; a test of that list fails once it does.

use crate::expected::not_yet::NOT_YET;
use crate::expected::{Answer, Expectation, conditions, law, way};
use crate::fixture::{Node, Variant, scenarios};
use libtest_mimic::{Failed, Trial};
use peermem_doctor::paths::Choice;
use peermem_doctor::report::standing::Standing;
use peermem_gate::ready::condition::Reason;
use similar::TextDiff;
use std::fs;
use std::path::{Path, PathBuf};

/// The difference between the report beside the node and the one that it gets now, a line each.
fn difference(expected: &str, report: &str) -> String {
    let lines = TextDiff::from_lines(expected, report);
    lines.unified_diff().context_radius(2).header("expected", "found").to_string()
}

fn description(scenario: &Path) -> PathBuf {
    scenario.join("node")
}

/// More golden reports would make a new wording a change of many files.
const MOST_GOLDEN: usize = 50;

/// The sentence of `check` where nothing is wrong.
const READY: &str = "MOFED is ready";

/// Whether an answer begins with how the node stands (`doctor`), with a cause (`check`), or with a way (`paths`).
fn begins_with_one_verdict(report: &str) -> bool {
    let head = report.split([':', ',', ' ', '\n']).next().unwrap_or_default();
    Standing::ALL.iter().any(|standing| standing.to_string() == head)
        || report.starts_with(READY)
        || Reason::ALL.iter().any(|reason| reason.to_string() == head)
        || Choice::ALL.iter().any(|way| format!("{way:?}") == head)
}

/// A line of the report begins with these words; spaces that align columns count as one.
fn has_line(report: &str, words: &str) -> bool {
    report.lines().any(|line| {
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        line.strip_prefix(words).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    })
}

fn judged(scenario: &Path) -> Result<(), Failed> {
    let node = Node::described(&description(scenario), Variant::Faulty);
    let report = node.report();
    if !begins_with_one_verdict(&report) {
        return Err(format!("begin with a verdict, a reason or a way:\n{report}").into());
    }
    let lines = node.expectations.iter().filter_map(|line| line.strip_prefix("line "));
    let missing: Vec<_> = lines.filter(|words| !has_line(&report, words)).collect();
    if !missing.is_empty() {
        return Err(format!("no line begins with {missing:?}:\n{report}").into());
    }
    let golden = scenario.join("report");
    if golden.exists() { compared(&golden, &report) } else { Ok(()) }
}

fn compared(expected: &Path, text: &str) -> Result<(), Failed> {
    if std::env::var_os("BLESS").is_some() {
        return Ok(fs::write(expected, text)?);
    }
    let expected = fs::read_to_string(expected)?;
    if expected == text { Ok(()) } else { Err(difference(&expected, text).into()) }
}

/// The first line with more than 80 columns that is not one word, a path, behind its label.
fn too_wide(text: &str) -> Option<&str> {
    let has_more = |line: &&str| {
        let words = line.trim_end_matches(" \\").trim_end_matches(" …");
        words.rsplit_once(' ').is_some_and(|(before, _)| before.split_whitespace().count() > 1)
    };
    text.lines().filter(|line| line.chars().count() > 80).find(has_more)
}

/// The paths in the evidence of a whole report.
fn paths(report: &str) -> Vec<&str> {
    let evidence = report.lines().filter_map(|line| line.trim_start().strip_prefix("seen  "));
    let words = evidence.flat_map(|text| text.split(' '));
    let words = words.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric() && !"/._-*".contains(c)));
    words.filter(|word| word.starts_with('/') && word.len() > 1).collect()
}

/// The paths of the evidence that these lines cut or break.
fn broken_paths<'a>(report: &'a str, wrapped: &str) -> Vec<&'a str> {
    paths(report).into_iter().filter(|path| !wrapped.lines().any(|line| line.contains(path))).collect()
}

/// At most 24 lines of 80 columns, with the first line, the ending and every root cause of the whole report; of those
/// that are only worth knowing, `-v` has the rest.
fn fits(scenario: &Path) -> Result<(), Failed> {
    let node = Node::described(&description(scenario), Variant::Faulty);
    let whole = node.report();
    let screen = node.answer(&[], "80");
    let wrapped = node.answer(&["--verbose"], "80");
    let broken: Vec<_> = ["80", "100"]
        .iter()
        .flat_map(|columns| broken_paths(&whole, &node.answer(&["--verbose"], columns)))
        .collect();
    if !broken.is_empty() {
        return Err(format!("broken paths: {broken:?}\n{wrapped}").into());
    }
    let (text, exit) = screen.rsplit_once("exit ").ok_or("no exit code")?;
    let first = text.lines().next().unwrap_or_default().trim_end_matches('…');
    let has_problem = whole.starts_with("CRITICAL") || whole.starts_with("WARNING");
    let severities = ["critical ", "warning  ", "unknown  ", "info     "];
    let severities = &severities[..if has_problem { 3 } else { 4 }];
    let root = |line: &str| {
        let found = severities.iter().find_map(|severity| line.strip_prefix(severity))?;
        Some(found.split(':').next()?.to_owned())
    };
    let faults = [
        (text.lines().count() > 24, "more than 24 lines"),
        (too_wide(text).or_else(|| too_wide(&wrapped)).is_some(), "more than 80 columns"),
        (!whole.ends_with(&format!("exit {exit}")), "another ending"),
        (!whole.starts_with(first), "another headline"),
        (!whole.lines().filter_map(root).all(|id| text.contains(&id)), "a root cause is missing"),
    ];
    if let Some((_, fault)) = faults.iter().find(|(is_so, _)| *is_so) {
        return Err(format!("{fault}:\n{screen}\n{wrapped}").into());
    }
    let expected = scenario.join("screen");
    if expected.exists() { compared(&expected, &screen) } else { Ok(()) }
}

/// What is not as expected, a line each.
fn unmet(scenario: &Path) -> Vec<String> {
    let node = Node::described(&description(scenario), Variant::Faulty);
    let answer = Answer::of(&node);
    let expected = node.expectations.iter().filter_map(|line| Expectation::parse(line));
    let unmet = expected.filter_map(|expected| expected.unmet(&answer));
    unmet.chain(law::broken(&node, &answer)).collect()
}

/// The same node with another system gets no step that this system cannot do.
fn impossible_elsewhere(scenario: &Path) -> Vec<String> {
    let of = |id: &'static str| {
        let node = Node::described(&description(scenario), Variant::Faulty);
        let release = node.path("etc/os-release");
        fs::create_dir_all(release.parent().expect("a directory")).expect("a directory");
        fs::write(release, format!("ID={id}\n")).expect("a file");
        let broken = conditions::broken(&node, &Answer::of(&node).findings);
        broken.into_iter().map(move |why| format!("on {id}: {why}"))
    };
    of("talos").chain(of("flatcar")).collect()
}

/// The same of `paths`.
fn unmet_ways(scenario: &Path) -> Vec<String> {
    way::unmet(&Node::described(&description(scenario), Variant::Faulty))
}

fn alarms(scenario: &Path) -> Vec<String> {
    let answer = Answer::of(&Node::described(&description(scenario), Variant::Healthy));
    Expectation::Quiet.unmet(&answer).into_iter().collect()
}

/// A case of the list must be wrong, any other right.
fn held_against_the_list(name: &str, scenario: &Path, wrong: &[String]) -> Result<(), Failed> {
    let listed = NOT_YET.iter().find(|(listed, _)| *listed == name);
    match listed {
        None if wrong.is_empty() => Ok(()),
        None => {
            let report = Node::described(&description(scenario), Variant::Faulty).report();
            Err(format!("{}\n{report}", wrong.join("\n")).into())
        }
        Some(_) if wrong.is_empty() => {
            Err(format!("{name} passes now: remove it from NOT_YET in doctor/tests/expected/not_yet.rs")
                .into())
        }
        Some(_) => Ok(()),
    }
}

/// Those of one node that `cargo test` plays, or those that it leaves to the lane.
fn tests_of(scenario: &Path, is_lane: bool) -> Vec<Trial> {
    let name = scenario.file_name().and_then(|name| name.to_str()).expect("a plain name").to_owned();
    let text = fs::read_to_string(description(scenario)).unwrap_or_default();
    let has = |directive: &str| text.lines().any(|line| line.split(' ').next() == Some(directive));
    let expects = text.lines().any(|line| line.starts_with("expect ") && !line.starts_with("expect line "));
    let trial = |suffix: &str, wrong: fn(&Path) -> Vec<String>| {
        let (name, scenario) = (format!("{name}::{suffix}"), scenario.to_owned());
        Trial::test(format!("nodes::{name}"), move || {
            held_against_the_list(&name, &scenario, &wrong(&scenario))
        })
    };
    let is_paths = text.lines().any(|line| line == "verb paths");
    let is_doctors = !is_paths && (expects || text.lines().any(|line| line == "verb doctor"));
    let mut tests = Vec::new();
    if !is_lane {
        let own = scenario.to_owned();
        tests.push(Trial::test(format!("nodes::{name}"), move || judged(&own)));
        tests.extend(is_doctors.then(|| trial("expected", unmet)));
        tests.extend(is_paths.then(|| trial("expected", unmet_ways)));
    }
    if is_lane != scenario.join("report").exists() {
        let own = scenario.to_owned();
        tests.extend(is_doctors.then(|| Trial::test(format!("nodes::{name}::screen"), move || fits(&own))));
        tests.extend((is_doctors && expects).then(|| trial("elsewhere", impossible_elsewhere)));
        let can_heal = has("fault") && !text.contains("\nexpect healthy no");
        tests.extend(can_heal.then(|| trial("healthy", alarms)));
    }
    tests
}

fn tests_of_all(is_lane: bool) -> Vec<Trial> {
    scenarios().iter().flat_map(|scenario| tests_of(scenario, is_lane)).collect()
}

/// What the lane `nodes` plays.
#[allow(dead_code, reason = "each of the two programs plays its half")]
pub(crate) fn lane() -> Vec<Trial> {
    tests_of_all(true)
}

/// What `cargo test` plays.
#[allow(dead_code, reason = "each of the two programs plays its half")]
pub(crate) fn tests() -> Vec<Trial> {
    let mut tests = tests_of_all(false);
    let lane = tests_of_all(true);
    let all = tests.iter().chain(&lane);
    let names: Vec<_> = all.map(|test| test.name().replacen("nodes::", "", 1)).collect();
    tests.push(Trial::test("nodes::every_name_in_not_yet_is_a_test", move || {
        let gone: Vec<_> =
            NOT_YET.iter().filter(|(name, _)| !names.iter().any(|other| other == name)).collect();
        if gone.is_empty() {
            Ok(())
        } else {
            Err(format!(
                "NOT_YET in doctor/tests/expected/not_yet.rs names tests that do not exist: {gone:?}"
            )
            .into())
        }
    }));
    tests.push(Trial::test("nodes::golden_reports_are_few", || {
        let golden = scenarios().iter().filter(|scenario| scenario.join("report").exists()).count();
        let is_so = (30..=MOST_GOLDEN).contains(&golden);
        if is_so { Ok(()) } else { Err(format!("{golden} nodes have a golden report").into()) }
    }));
    tests
}
