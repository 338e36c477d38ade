// SPDX-License-Identifier: Apache-2.0
//! The documents say what the code says, and the pure rooms are pure.

use clap::CommandFactory;
use peermem_gate::chain::LinkState;
use peermem_gate::cli::Cli;
use peermem_gate::condition::{Reason, Status};
use peermem_gate::consumer::Consumer;
use peermem_gate::ending::Ending;
use peermem_gate::finding::Id;
use peermem_gate::keep;
use peermem_gate::rebuild::Kind;
use peermem_gate::verdict::Outcome;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const CONDITIONS: &str = "docs/conditions.md";
const USAGE: &str = "docs/usage.md";
const SIDECAR: &str = "docs/sidecar.md";
const HEAL: &str = "docs/heal.md";
const FINDINGS: &str = "docs/findings.md";

/// Rooms that look at the world, wait for it or change it, and what puts them together. All others are pure:
/// they get all they know from their arguments.
const IMPURE_ROOMS: [&str; 7] =
    ["src/act/", "src/probe/", "src/wake/", "src/verb/", "src/clock.rs", "src/lib.rs", "src/main.rs"];

/// What would let a pure room look at the world, or at a clock.
const IMPURE_PATHS: [&str; 15] = [
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::os::fd",
    "std::os::unix::fs",
    "std::os::unix::net",
    "std::process",
    "std::thread",
    "nix",
    "crate::act",
    "crate::clock",
    "crate::probe",
    "crate::verb",
    "crate::wake",
];

/// Types and numbers of those that do nothing.
const HARMLESS_PATHS: [&str; 4] =
    ["std::process::ExitCode", "nix::errno::Errno", "std::io::Error", "std::io::ErrorKind"];

/// Calls that look without any path.
const IMPURE_CALLS: [&str; 7] =
    ["Instant::now", "SystemTime::now", "metadata()", "exists()", "is_dir()", "is_file()", "read_dir()"];

#[test]
fn every_reason_is_explained_with_its_status_and_consequence() {
    let text = read(CONDITIONS);
    for reason in Reason::ALL {
        let stands_for =
            format!("{}, {}", reason.status(), format!("{:?}", reason.consequence()).to_lowercase());
        let row = format!("| `{reason}` | {stands_for} | ");
        let heading = format!("### `{reason}`\n\n{stands_for}.");
        let found = text.matches(&row).count() + text.matches(&heading).count();
        assert_eq!(found, 1, "{CONDITIONS} must have one row or one heading: {row:?} or {heading:?}");
    }
}

/// The remedy is the program's to say. A reason that exempts a node has none.
#[test]
fn a_reason_that_does_not_pass_says_what_to_look_at() {
    let text = read(CONDITIONS);
    for section in text.split("\n### `").skip(1) {
        let section = section.split("\n## ").next().unwrap();
        let name = section.split('`').next().unwrap();
        let is_finding = Id::ALL.iter().any(|id| id.name() == name);
        let mut parts = vec!["- **Meaning**: ", "- **Look at**"];
        parts.extend((!is_finding).then_some("- **Do**: "));
        for part in parts {
            assert!(section.contains(part), "{part:?} is missing: {section}");
        }
    }
}

#[test]
fn every_finding_is_listed_as_the_program_has_it() {
    let mut text = read(FINDINGS);
    let head = "| finding | severity | what is wrong |\n|---|---|---|\n";
    text.truncate(text.find(head).expect("the table's head") + head.len());
    for id in Id::ALL {
        text += &format!("| `{id}` | {} | {} |\n", id.severity(), id.title());
    }
    assert_same(FINDINGS, &text);
}

/// The diagram of the sidecar's states, and what leads from one to another.
#[test]
fn the_sidecars_transitions_are_those_of_the_program() {
    let text = read(SIDECAR);
    let (before, rest) = text.split_once("```mermaid\n").expect("a diagram");
    let (_, after) = rest.split_once("```\n").expect("its end");
    let mut diagram = "stateDiagram-v2\n    [*] --> Waiting\n".to_owned();
    for (from, to, why) in keep::State::TRANSITIONS {
        diagram += &format!("    {from} --> {to}: {why}\n");
    }
    assert_same(SIDECAR, &format!("{before}```mermaid\n{diagram}```\n{after}"));
}

fn assert_same(path: &str, text: &str) {
    if std::env::var_os("BLESS").is_some() {
        fs::write(root().join(path), text).unwrap();
    }
    assert!(read(path) == text, "{path} does not say what the program says: BLESS=1 writes it again");
}

#[test]
fn every_obstacle_to_a_rebuild_is_explained_as_the_program_says() {
    let mut text = read(HEAL);
    text.truncate(text.find("| reason | meaning |").unwrap_or(text.len()));
    text = text.trim_end().to_owned() + "\n\n| reason | meaning | what to do |\n|---|---|---|\n";
    for kind in Kind::ALL {
        text += &format!("| `{kind}` | {} | {} |\n", kind.meaning(), kind.remedy());
    }
    assert_same(HEAL, &text);
}

#[test]
fn every_condition_is_explained_in_its_order() {
    let types = condition_types();
    let headings: Vec<_> =
        read(CONDITIONS).lines().filter_map(|l| l.strip_prefix("## ")).map(str::to_owned).collect();
    assert_eq!(headings, types, "{CONDITIONS}");
    let rows = |line: &str| line.strip_prefix("| `")?.split_once("` | ").map(|(name, _)| name.to_owned());
    let readme: Vec<_> = read("README.md").lines().filter_map(rows).collect();
    assert_eq!(readme, types, "README.md");
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

#[test]
fn no_reason_is_named_that_does_not_exist() {
    let mut known: BTreeSet<_> = Reason::ALL.iter().map(ToString::to_string).collect();
    known.extend(Id::ALL.iter().map(ToString::to_string));
    known.extend(condition_types());
    known.extend(Kind::ALL.iter().map(ToString::to_string));
    known.extend(
        [LinkState::Present, LinkState::Absent, LinkState::Stale, LinkState::NotExpected, LinkState::Unknown]
            .map(|s| s.to_string()),
    );
    known.extend([Status::True, Status::False, Status::Unknown].map(|s| s.to_string()));
    known.extend(
        [Outcome::Ready, Outcome::Waiting, Outcome::Blocked, Outcome::NotApplicable, Outcome::Unknown]
            .map(|o| o.to_string()),
    );
    for path in [CONDITIONS, USAGE, "README.md"] {
        for quoted in read(path).split('`').skip(1).step_by(2) {
            if is_camel_case(quoted) {
                assert!(known.contains(quoted), "{path}: `{quoted}` is no word of the gate");
            }
        }
    }
}

#[test]
fn every_exit_code_is_in_the_readme() {
    let endings = [
        Ending::Opened,
        Ending::NotReady,
        Ending::CannotTell,
        Ending::Refused,
        Ending::Blocked,
        Ending::TimedOut,
        Ending::Failed,
        Ending::NotExecutable,
        Ending::NotFound,
    ];
    let readme = read("README.md");
    for ending in endings {
        assert!(readme.contains(&format!("\n| {} | ", ending.code())), "{ending:?}");
    }
    assert_eq!(Ending::Signal(15).code(), 143);
    assert!(readme.contains("\n| 128+n | "));
}

#[test]
fn every_option_is_described_with_its_verbs_and_its_default() {
    let text = read(USAGE);
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| `--")).collect();
    let mut command = Cli::command();
    command.build();
    let verbs: Vec<_> = command.get_subcommands().collect();
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
            .unwrap_or_else(|| panic!("{USAGE} has no row for --{option}"));
        let having = |verb: &&&clap::Command| verb.get_arguments().any(|a| a.get_long() == Some(option));
        let names: Vec<_> = verbs.iter().filter(having).map(|verb| verb.get_name()).collect();
        assert_eq!(row[2], names.join(", "), "--{option}");
        let has_it = verbs.iter().find(having).unwrap();
        let argument = has_it.get_arguments().find(|a| a.get_long() == Some(option)).unwrap();
        for default in argument.get_default_values() {
            let default = default.to_str().unwrap();
            assert!(row[1].contains(&format!("`{default}`")), "--{option} has the default {default}");
        }
    }
    assert_eq!(rows.len(), options.len(), "{USAGE} describes an option that does not exist");
}

#[test]
fn links_between_documents_lead_somewhere() {
    for path in documents() {
        for target in read(&path).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.starts_with("https://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let linked = match file {
                "" => path.clone(),
                file => Path::new(&path).with_file_name(file).display().to_string().replace("docs/../", ""),
            };
            let text = fs::read_to_string(root().join(&linked))
                .unwrap_or_else(|_| panic!("{path} links to {target}"));
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

/// deny.toml says why; this needs no cargo-deny.
#[test]
fn the_tree_has_no_banned_crate() {
    let lock = read("Cargo.lock");
    for banned in read("deny.toml").lines().filter_map(|line| line.trim().strip_prefix("{ crate = \"")) {
        let name = banned.split('"').next().expect("a name");
        assert!(!lock.contains(&format!("name = \"{name}\"\n")), "{name} is in the tree");
    }
}

#[test]
fn the_pure_rooms_touch_neither_file_nor_clock() {
    let is_pure = |path: &&String| {
        path.starts_with("src/")
            && Path::new(path).extension().is_some_and(|extension| extension == "rs")
            && !IMPURE_ROOMS.iter().any(|room| path.starts_with(room))
    };
    let tree = tree();
    let rooms: Vec<_> = tree.iter().filter(is_pure).collect();
    assert!(rooms.len() > 60, "files are missing: {rooms:?}");
    for path in rooms {
        let found = impurities(&read(path));
        assert!(found.is_empty(), "{path} is in a pure room and uses {}", found.join(", "));
    }
}

/// docs/design.md has a table of them.
/// The standard library's sort is some 4 KiB for each type that is sorted.
#[test]
fn what_is_sorted_is_sorted_in_little_space() {
    let is_ours = |path: &&String| path.starts_with("src/") && **path != "src/order.rs";
    for path in tree().iter().filter(is_ours) {
        let program = read(path);
        let program = program.split("#[cfg(test)]").next().unwrap_or_default();
        assert!(!program.contains(".sort"), "{path}: use src/order.rs");
    }
}

#[test]
fn every_room_is_in_the_table_of_rooms() {
    let design = read("docs/design.md");
    let table: String = design.lines().filter(|line| line.starts_with("| ")).collect();
    for entry in root().join("src").read_dir().unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let named = if entry.path().is_dir() { format!("`{name}/`") } else { format!("`{name}`") };
        assert!(table.contains(&named), "the table of rooms does not name {named}");
    }
    let is_room = |named: &&str| {
        named.ends_with('/') || Path::new(named).extension().is_some_and(|extension| extension == "rs")
    };
    for named in table.split('`').skip(1).step_by(2).filter(is_room) {
        let is_there = ["src", "src/judge", "src/probe", "src/act"]
            .iter()
            .any(|room| root().join(room).join(named).exists());
        assert!(is_there, "the table of rooms names {named}, which is not there");
    }
}

/// What of this Rust text looks at the world.
fn impurities(text: &str) -> Vec<String> {
    let code: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let is_within = |path: &str, place: &&str| {
        path == *place || path.strip_prefix(*place).is_some_and(|rest| rest.starts_with("::"))
    };
    let is_impure = |path: &String| {
        IMPURE_PATHS.iter().any(|place| is_within(path, place))
            && !HARMLESS_PATHS.iter().any(|place| is_within(path, place))
    };
    let calls = IMPURE_CALLS.iter().filter(|call| has_word(&code, call)).map(ToString::to_string);
    paths(&code).into_iter().filter(is_impure).chain(calls).collect()
}

/// Every path in this code, those of `use` in full: `std::{fs, io::Read}` is `std::fs` and `std::io::Read`.
fn paths(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    // What a brace that opens stands behind, and the path that is being read.
    let (mut prefixes, mut path) = (Vec::new(), String::new());
    let mut rest = code;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("::") {
            path += "::";
            rest = after;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        let is_end = !(c.is_alphanumeric() || c == '_' || c.is_whitespace() && path.ends_with("::"));
        match c {
            '{' => prefixes.push(if path.ends_with("::") { path.clone() } else { String::new() }),
            _ if !is_end && !c.is_whitespace() => path.push(c),
            _ => {}
        }
        if is_end {
            if path.contains("::") && !path.ends_with("::") {
                paths.push(path.trim_end_matches("::self").to_owned());
            }
            if c == '}' {
                prefixes.pop();
            }
            path = prefixes.last().cloned().unwrap_or_default();
        }
    }
    paths
}

/// The compiler leaves out a `#[test]` of a file that is run by tests/support/suite.rs, and says nothing.
#[test]
fn no_test_is_left_out_in_silence() {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let targets = manifest["test"].as_array().expect("tests with a harness of their own");
    for target in targets {
        let path = format!("tests/{}.rs", target["name"].as_str().expect("a name"));
        assert!(!read(&path).contains("#[test]"), "{path}: add the test to its suite![…] instead");
    }
    for path in tree().iter().filter(|path| path.starts_with("tests/life/")) {
        assert!(!read(path).contains("#[test]"), "{path}: add the test to the suite![…] of tests/soak.rs");
    }
}

#[test]
fn every_rust_file_names_its_licence() {
    for path in files_with("rs") {
        assert!(read(&path).starts_with("// SPDX-License-Identifier: Apache-2.0\n"), "{path}");
    }
}

#[test]
fn the_tests_of_this_file_see_what_they_look_for() {
    for impure in [
        "use std::fs;",
        "use std::{fs, path::Path};",
        "use std::{\n    collections::BTreeMap,\n    fs::{self, File},\n};",
        "use crate::probe;",
        "use crate::{condition::Reason, probe};",
        "use crate::{\n    probe::{self, Depth},\n};",
        "use nix::unistd::getpid;",
        "fn f() -> usize { std::fs::read(\"x\").map_or(0, |b| b.len()) }",
        "fn f() { crate::act::log::start() }",
        "fn f(p: &Path) -> bool { p.exists() }",
        "fn f() { if x { std::process::exit(1) } }",
        "let now = Instant::now();",
    ] {
        assert!(!impurities(impure).is_empty(), "{impure}");
    }
    for pure in [
        "use std::{collections::BTreeMap, fmt};",
        "use crate::condition::{Condition, Reason};",
        "use std::process::ExitCode;\nuse nix::errno::Errno;",
        "// std::fs would look at the world",
        "mod probe_words { use super::fs; }",
    ] {
        assert_eq!(impurities(pure), Vec::<String>::new(), "{pure}");
    }
    assert!(is_camel_case("NoSuchReason") && is_camel_case("Nonsense"));
    assert!(!is_camel_case("Module.symvers") && !is_camel_case("KREL") && !is_camel_case("check"));
}

/// As `check` reports them, whatever it sees: all, and in order.
fn condition_types() -> Vec<String> {
    let nowhere = tempfile::tempdir().unwrap();
    // The least that is taken for a host's root.
    fs::create_dir(nowhere.path().join("proc")).unwrap();
    fs::write(nowhere.path().join("proc/modules"), "").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_peermem-gate"))
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

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    let bytes = fs::read(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    String::from_utf8_lossy(&bytes).into_owned()
}

fn documents() -> Vec<String> {
    files_with("md")
}

fn files_with(extension: &str) -> Vec<String> {
    let has_it = |path: &String| Path::new(path).extension().is_some_and(|e| e == extension);
    tree().into_iter().filter(has_it).collect()
}

/// Every file that git has, or would have: read from the tree itself, because a copy of it has no git.
fn tree() -> Vec<String> {
    let ignored: Vec<_> = read(".gitignore").lines().map(|line| line.trim_matches('/').to_owned()).collect();
    let mut files = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        for entry in root().join(&directory).read_dir().unwrap() {
            let entry = entry.unwrap();
            let path = directory.join(entry.file_name());
            let name = path.to_str().unwrap().to_owned();
            if name == ".git" || ignored.contains(&name) {
                continue;
            }
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => directories.push(path),
                kind if kind.is_file() => files.push(name),
                _ => {}
            }
        }
    }
    files.sort();
    files
}

fn is_camel_case(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric())
        && text.contains(|c: char| c.is_ascii_lowercase())
}

/// Not as a part of a longer word.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(is_part);
        let after = line[at + word.len()..].chars().next().is_some_and(is_part);
        !(word.starts_with(is_part) && before || word.ends_with(is_part) && after)
    })
}
