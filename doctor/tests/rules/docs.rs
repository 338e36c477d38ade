// SPDX-License-Identifier: Apache-2.0
//! The documents say what the code says.

use crate::findings_page;
use crate::tree::{documents, files_with, read, root};
use clap::CommandFactory;
use peermem_doctor::chain::LinkState;
use peermem_doctor::finding::Id;
use peermem_doctor::offline::FileReason;
use peermem_doctor::report::explain::Topic;
use peermem_gate::cli::Cli;
use peermem_gate::ready::condition::{Consequence, Reason, Status};
use peermem_gate::ready::consumer::Consumer;
use peermem_gate::ready::exit::Exit;
use peermem_gate::rebuild::Kind;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

const CONDITIONS: &str = "docs/conditions.md";
const USAGE: &str = "docs/usage.md";
const HEAL: &str = "docs/heal.md";
const FINDINGS: &str = "docs/findings.md";

#[test]
fn every_reason_is_explained_with_its_status_and_consequence() {
    let text = read(CONDITIONS);
    let (_, plain) = text.split_once("with nothing to explain:").expect("a list");
    let (plain, _) = plain.split_once("\n\n").expect("its end");
    for reason in Reason::ALL {
        let stands_for =
            format!("{}, {}", reason.status(), format!("{:?}", reason.consequence()).to_lowercase());
        let row = format!("| `{reason}` | {stands_for} | ");
        let heading = format!("### `{reason}`\n\n{stands_for}.");
        let is_plain = stands_for == "True, passes" && plain.contains(&format!("`{reason}`"));
        let found = text.matches(&row).count() + text.matches(&heading).count() + usize::from(is_plain);
        assert_eq!(found, 1, "{CONDITIONS} must have one row or one heading: {row:?} or {heading:?}");
    }
}

/// What opens the gate although something was not verified is in one table, and nothing else does.
#[test]
fn every_way_to_open_with_less_is_in_one_table() {
    let text = read(CONDITIONS);
    let (_, table) = text.split_once("\n### Every way to open with less\n").expect("a section");
    let (table, _) = table.split_once("\n## ").expect("its end");
    let is_unverified = |reason: &&Reason| match reason.consequence() {
        Consequence::Exempts => true,
        Consequence::Passes => reason.status() == Status::Unknown || BY_TIME_OR_CHOICE.contains(reason),
        Consequence::Waits | Consequence::Blocks => false,
    };
    for reason in Reason::ALL.iter().filter(is_unverified) {
        assert!(table.contains(&format!("`{reason}`")), "{CONDITIONS}: no row for {reason}");
    }
    for option in
        ["--on-timeout proceed", "--dry-run", "PEERMEM_GATE_DISABLED", "--precompiled", "--timeout 0s"]
    {
        assert!(table.contains(option), "{CONDITIONS}: no row for {option}");
    }
}

/// True, but not because all was verified.
const BY_TIME_OR_CHOICE: [Reason; 3] =
    [Reason::MarkerBelieved, Reason::InTreeWithPeerMemory, Reason::NotRequired];

#[test]
fn a_reason_that_does_not_pass_says_what_to_look_at() {
    let text = read(CONDITIONS);
    for section in text.split("\n### `").skip(1) {
        let section = section.split("\n## ").next().unwrap();
        let name = section.split('`').next().unwrap();
        let is_finding = Id::ALL.iter().any(|id| id.name() == name);
        let is_unreadable = section.contains("\n\nUnknown, ");
        let mut parts: Vec<_> = (!is_unreadable).then_some("\n\n**Look at**").into_iter().collect();
        parts.extend((!is_finding).then_some("\n\n**Do**: "));
        for part in parts {
            assert!(
                section.contains(part),
                "add a paragraph {part:?} to this section of {CONDITIONS}: {section}"
            );
        }
    }
}

#[test]
fn every_finding_is_listed_as_the_program_has_it() {
    let mut text = read(FINDINGS);
    text.truncate(text.find("\n- *").expect("the first short form") + 1);
    text += &findings_page::page(&read(CONDITIONS));
    assert_same(FINDINGS, &text);
}

/// The path of a link to a page of this release, which is at its program's tag (.github/workflows/release.yml).
fn at_a_tag(url: &str) -> Option<&str> {
    let (tag, path) =
        url.strip_prefix("https://github.com/peermem-gate/peermem-gate/blob/")?.split_once('/')?;
    let (program, version) = tag.rsplit_once("-v")?;
    let manifest = if program == "peermem-gate" { "Cargo.toml" } else { "doctor/Cargo.toml" };
    assert!(read(manifest).contains(&format!("\nversion = \"{version}\"\n")), "{url}");
    Some(path)
}

/// A report's link and an alert's lead to the section that helps.
#[test]
fn every_runbook_url_leads_to_its_section() {
    let headings = |path: &str| {
        let text = read(path);
        let heading = |line: &str| Some(line.strip_prefix('#')?.trim_start_matches('#').trim().to_owned());
        let anchored = |title: String| title.to_lowercase().replace(' ', "-").replace(['`', '\'', ','], "");
        text.lines().filter_map(heading).map(anchored).collect::<BTreeSet<_>>()
    };
    let leads = |url: &str| {
        let (path, anchor) = at_a_tag(url)?.split_once('#')?;
        headings(path).contains(anchor).then_some(())
    };
    for id in Id::ALL {
        assert!(leads(&id.runbook_url()).is_some(), "{} leads to no heading", id.runbook_url());
    }
    let rules = read("manifests/monitoring/rules.yaml");
    let urls: Vec<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("runbook_url: ")).collect();
    assert_eq!(
        urls.len(),
        rules.matches("- alert: ").count(),
        "every alert in manifests/monitoring/rules.yaml needs a runbook_url"
    );
    for url in urls {
        assert!(leads(url).is_some(), "{url} leads to no heading");
    }
}

fn assert_same(path: &str, text: &str) {
    if std::env::var_os("BLESS").is_some() {
        fs::write(root().join(path), text).unwrap();
    }
    assert!(read(path) == text, "{path} differs from what the program says: run `BLESS=1 cargo test docs::`");
}

#[test]
fn every_obstacle_to_a_rebuild_is_in_the_table_of_what_to_do() {
    let text = read(HEAL);
    let (_, table) = text.split_once("\n| reason | what to do |\n").expect("a table");
    let rows: String = table.lines().filter_map(|row| row.split(" | ").next()).collect();
    for kind in Kind::ALL {
        assert_eq!(rows.matches(&format!("`{kind}`")).count(), 1, "{HEAL} must have {kind} in one row");
    }
}

#[test]
fn every_condition_is_explained_in_its_order() {
    let types = condition_types();
    let headings: Vec<_> =
        read(CONDITIONS).lines().filter_map(|l| l.strip_prefix("## ")).map(str::to_owned).collect();
    assert_eq!(headings, types, "put the headings of {CONDITIONS} in the order of the conditions");
    let rows = |line: &str| line.strip_prefix("| `")?.split_once("` | ").map(|(name, _)| name.to_owned());
    let page = read(CONDITIONS);
    let table =
        page.split_once("| condition |").and_then(|(_, rest)| rest.split_once("\n\n")).expect("a table").0;
    let listed: Vec<_> = table.lines().filter_map(rows).collect();
    assert_eq!(listed, types, "put the table of conditions in {CONDITIONS} in their order");
}

/// tests/runs/nodes.rs compares the same answer with that of a run.
#[test]
fn the_answer_in_the_readme_is_that_of_a_run() {
    let text = read("README.md");
    let screen = read("tests/nodes/incident-stub-in-a-crash-loop/screen");
    let (_, rest) = text.split_once("its answer begins:\n\n```text\n").expect("an answer of doctor");
    let (answer, _) = rest.split_once("```").expect("its end");
    assert!(
        answer.lines().count() > 5 && screen.starts_with(answer),
        "README.md: correct the answer: {screen}"
    );
}

/// The table of consumers is the program's: `BLESS=1` writes it again.
#[test]
fn every_consumer_is_described_as_the_program_says() {
    const HEAD: &str = "| `--for` | asked for by | needs live, beyond `--module` | once it is ready | pins |\n|---|---|---|---|---|\n";
    let mut table = HEAD.to_owned();
    for row in Consumer::ALL.map(Consumer::row) {
        let modules = if row.modules.is_empty() { "nothing".to_owned() } else { row.modules.join(", ") };
        table +=
            &format!("| `{}` | {} | {modules} | {} | {} |\n", row.name, row.asked_by, row.ready, row.pins);
    }
    let text = read("docs/integration.md");
    let (before, rest) = text.split_once(HEAD).expect("a table of consumers");
    let after = rest.trim_start_matches(|c| c != '\n').split_once("\n\n").expect("an end of the table").1;
    assert_same("docs/integration.md", &format!("{before}{table}\n{after}"));
}

/// A placeholder that no node has a word for yet reads as one: FILE, not `{drop-in}`.
#[test]
fn every_placeholder_of_a_finding_is_filled_in() {
    let page = read("docs/findings.md");
    let words = page.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    let is_ours = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    assert_eq!(words.filter(is_ours).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn no_document_names_a_reason_that_does_not_exist() {
    let mut known: BTreeSet<_> = FileReason::ALL.iter().map(ToString::to_string).collect();
    known.extend(FileReason::ALL.iter().map(|reason| reason.fitness().to_string()));
    known.extend(
        [LinkState::Present, LinkState::Absent, LinkState::Stale, LinkState::NotExpected, LinkState::Unknown]
            .map(|s| s.to_string()),
    );
    known.extend([Status::True, Status::False, Status::Unknown].map(|s| s.to_string()));
    for path in [CONDITIONS, USAGE, "README.md"] {
        for quoted in read(path).split('`').skip(1).step_by(2) {
            if is_camel_case(quoted) {
                assert!(
                    known.contains(quoted) || Topic::parse(quoted).is_ok(),
                    "{path}: `{quoted}` is no word of the programs"
                );
            }
        }
    }
}

/// The first word of each reason and note of `paths`, by the program's sources.
#[test]
fn every_reason_and_note_of_paths_is_explained() {
    let page = read("docs/paths.md");
    let mut count = 0;
    for path in files_with("rs").into_iter().filter(|path| path.starts_with("doctor/src/paths/")) {
        let text = read(&path);
        for word in text.split('"').filter(|word| is_camel_case(word)) {
            count += 1;
            assert!(page.contains(&format!("`{word}`")), "docs/paths.md does not explain {word} of {path}");
        }
    }
    assert!(count > 20, "only {count} words were found");
}

#[test]
fn every_exit_code_is_in_a_table() {
    let endings = [
        Exit::Opened,
        Exit::NotReady,
        Exit::CannotTell,
        Exit::Refused,
        Exit::Blocked,
        Exit::TimedOut,
        Exit::Failed,
        Exit::NotExecutable,
        Exit::NotFound,
    ];
    let usage = read(USAGE);
    for exit in endings {
        assert!(
            usage.contains(&format!("\n| {} | ", exit.code())),
            "add the exit code of {exit:?} to the table in {USAGE}"
        );
    }
    assert_eq!(Exit::Signal(15).code(), 143);
    assert!(usage.contains("\n| 128+n | "), "add the exit code 128+n to the table in {USAGE}");
}

const LOOKERS: &str = "wait, check, load, keep, rebuild, doctor, paths";

#[test]
fn every_option_is_described_with_its_verbs_and_its_default() {
    let text = read(USAGE);
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| `--")).collect();
    let mut commands = [Cli::command(), peermem_doctor::cli::Cli::command()];
    commands.iter_mut().for_each(clap::Command::build);
    let all = commands.iter().flat_map(clap::Command::get_subcommands);
    let verbs: Vec<_> = all.filter(|verb| verb.get_name() != "help").collect();
    let mut options = BTreeSet::new();
    for verb in &verbs {
        for option in verb.get_arguments().filter_map(clap::Arg::get_long).filter(|long| *long != "help") {
            options.insert(option);
        }
    }
    for option in &options {
        let row: Vec<_> = rows
            .iter()
            .map(|row| row.split(" | ").collect::<Vec<_>>())
            .find(|cells| cells[0].trim_start_matches("| `--").split([' ', '`']).next() == Some(option))
            .unwrap_or_else(|| panic!("add a row for --{option} to {USAGE}"));
        let having = |verb: &&&clap::Command| verb.get_arguments().any(|a| a.get_long() == Some(option));
        let names: Vec<_> = verbs.iter().filter(having).map(|verb| verb.get_name()).collect();
        let names = if names.len() == verbs.len() { "all".to_owned() } else { names.join(", ") };
        let names = if names == LOOKERS { "*lookers*".to_owned() } else { names };
        assert_eq!(row[2], names, "{USAGE}: correct the verbs in the row of --{option}");
        let has_it = verbs.iter().find(having).unwrap();
        let argument = has_it.get_arguments().find(|a| a.get_long() == Some(option)).unwrap();
        for default in argument.get_default_values() {
            let default = default.to_str().unwrap();
            assert!(
                row[1].contains(&format!("`{default}`")),
                "{USAGE}: add the default `{default}` to the row of --{option}"
            );
        }
    }
    assert_eq!(rows.len(), options.len(), "{USAGE} describes an option that does not exist");
}

#[test]
fn links_between_documents_lead_somewhere() {
    for path in documents() {
        let text = read(&path);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            // A chart's README is read outside the tree.
            let (path, target) = at_a_tag(target).map_or((&*path, target), |rest| ("README.md", rest));
            if target.starts_with("https://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let linked = match file {
                "" => path.to_owned(),
                file => Path::new(path).with_file_name(file).display().to_string().replace("docs/../", ""),
            };
            let text = fs::read_to_string(root().join(&linked))
                .unwrap_or_else(|_| panic!("{path} links to {target}, which does not exist"));
            let anchors = text.lines().filter(|line| line.starts_with('#')).map(|line| {
                let title = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
                title.replace(|c: char| !(c.is_alphanumeric() || c == '-' || c == '_'), "")
            });
            assert!(
                anchor.is_empty() || anchors.into_iter().any(|a| a == anchor),
                "{path} links to {target}"
            );
        }
    }
}

/// As `check` reports them, whatever it sees: all, and in order.
fn condition_types() -> Vec<String> {
    let nowhere = tempfile::tempdir().unwrap();
    // The least that is taken for a host's root.
    fs::create_dir(nowhere.path().join("proc")).unwrap();
    fs::write(nowhere.path().join("proc/modules"), "").unwrap();
    let gate = Path::new(env!("CARGO_BIN_EXE_peermem-doctor")).with_file_name("peermem-gate");
    let output = Command::new(gate)
        .args(["check", "--for", "any", "--format", "json", "--root"])
        .arg(nowhere.path())
        .arg("--proc")
        .arg(nowhere.path())
        .arg("--sys")
        .arg(nowhere.path())
        .env_clear()
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = |condition: &Value| condition["type"].as_str().unwrap().to_owned();
    report["conditions"].as_array().unwrap().iter().map(name).collect()
}

fn is_camel_case(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric())
        && text.contains(|c: char| c.is_ascii_lowercase())
}

#[test]
fn names_of_reasons_are_distinguished_from_other_words() {
    assert!(is_camel_case("NoSuchReason") && is_camel_case("Nonsense"));
    assert!(!is_camel_case("Module.symvers") && !is_camel_case("KREL") && !is_camel_case("check"));
}
