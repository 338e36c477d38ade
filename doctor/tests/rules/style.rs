// SPDX-License-Identifier: Apache-2.0
//! The part of docs/style.md that a machine can decide: width, length of sentences, and that no remedy lowers a
//! protection of the node. Words are for a reader's eye.

use peermem_doctor::finding::{Id, all_steps};
use peermem_gate::rebuild::Kind;
use peermem_gate::words::remedy::Step;
use std::fs;
use std::path::Path;

/// Characters in a line of text.
const WIDTH: usize = 118;
/// Words in a sentence.
const WORDS: usize = 40;
/// Documents whose sentences are counted; the others are references.
const SHORT_SENTENCES: [&str; 3] = ["README.md", "CONTRIBUTING.md", "docs/style.md"];

#[test]
fn the_lines_of_documents_and_comments_fit_118_columns() {
    assert!(is_too_wide(&"x".repeat(WIDTH + 1)) && !is_too_wide(&"x".repeat(WIDTH)));
    let mut wide = comments_too_wide();
    for path in documents() {
        wide.extend(wide_lines(&read(&path)).into_iter().map(|line| (path.clone(), line)));
    }
    assert_eq!(wide, []);
}

#[test]
fn the_sentences_of_first_pages_and_remedies_are_short() {
    assert!(long_sentence(&"word ".repeat(WORDS + 1)).is_some());
    assert!(long_sentence(&format!("{0}. {0}.", "word ".repeat(WORDS).trim())).is_none());
    assert_eq!(prose("a\nb\n\n- c\n  d\n| e | f |\n"), ["a b", "c d", "e", "f"]);
    let pages = SHORT_SENTENCES.into_iter().flat_map(|path| prose(&read(path)));
    let long: Vec<_> = pages.chain(steps()).filter_map(|text| long_sentence(&text)).collect();
    assert_eq!(long, [""; 0]);
}

/// As `wc -w` counts them.
#[test]
fn the_first_page_is_one_page() {
    let words = read("README.md").split_whitespace().count();
    assert!(words <= 900, "README.md has {words} words, not 900 at most");
}

/// What people read. The list of findings, which is made from the program's table, says once what many entries say.
#[test]
fn the_documents_do_not_grow() {
    const FINDINGS: usize = 17_000;
    const WORDS: usize = 20_000;
    let words = read("docs/findings.md").split_whitespace().count();
    assert!(words <= FINDINGS, "docs/findings.md has {words} words, not {FINDINGS} at most");
    let pages = documents().into_iter().filter(|path| path == "README.md" || path.starts_with("docs/"));
    let pages = pages.filter(|path| path != "docs/findings.md");
    let words: usize = pages.map(|path| read(&path).split_whitespace().count()).sum();
    assert!(
        words <= WORDS,
        "README.md and docs/ have {words} words, not {WORDS} at most: say each thing once"
    );
}

/// Of all remedies, with their conditions.
fn steps() -> Vec<String> {
    let mut steps: Vec<_> = Id::ALL.iter().flat_map(|id| id.remedy()).map(Step::conditional).collect();
    let of_any = all_steps(Id::ALL[0]);
    steps.extend(of_any[Id::ALL[0].remedy().len()..].iter().map(Step::conditional));
    steps.extend(Kind::ALL.iter().map(|kind| kind.remedy().to_owned()));
    steps
}

/// Lines of comments that are too wide, by file. Commands and rows of tables in a comment cannot be wrapped.
fn comments_too_wide() -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for path in files("") {
        let mark = match Path::new(&path).extension().and_then(|extension| extension.to_str()) {
            Some("rs") => '/',
            Some("yaml" | "yml" | "sh" | "toml" | "py" | "service") => '#',
            _ => continue,
        };
        let is_prose = |line: &str| {
            let comment = line.trim_start().trim_start_matches([mark, '!']);
            comment.len() < line.trim_start().len()
                && comment.starts_with(' ')
                && !comment.starts_with("     ")
                && !comment.starts_with(" |")
        };
        let text = read(&path);
        let wide = text.lines().filter(|line| is_too_wide(line) && is_prose(line));
        lines.extend(wide.map(|line| (path.clone(), line.to_owned())));
    }
    lines
}

/// A line of a log, and so perhaps a user, decides what a step is about. None may lower a protection of the node.
const PROTECTIONS: [&str; 30] = [
    "aa-disable",
    "aa-teardown",
    "allow_unsafe_interrupts",
    "apparmor=0",
    "bpf_jit_harden",
    "chmod 777",
    "chmod a+",
    "disable secure boot",
    "disable-validation",
    "enforcing=0",
    "firewalld",
    "iommu=off",
    "iptables",
    "kptr_restrict",
    "lockdown=",
    "mitigations=",
    "modules_disabled",
    "nokaslr",
    "perf_event_paranoid",
    "permissive",
    "ptrace_scope",
    "rp_filter",
    "seccomp",
    "secure boot off",
    "selinux=0",
    "setenforce",
    "sig_enforce",
    "ufw ",
    "unconfined",
    "unprivileged_bpf",
];

#[test]
fn no_step_of_any_remedy_lowers_a_protection_of_the_node() {
    let mut all: Vec<_> = steps().into_iter().map(|step| ("a remedy".to_owned(), step)).collect();
    for path in documents() {
        all.extend(remedies_in_code(&read(&path)).into_iter().map(|step| (path.clone(), step)));
    }
    // Its steps are no rows of a table.
    all.push(("fleet".to_owned(), read("doctor/src/fleet/cluster.rs")));
    assert!(all.len() > 400, "only {} steps of remedies were found", all.len());
    for (place, step) in all {
        let step = step.to_lowercase();
        let lowered = PROTECTIONS.iter().find(|protection| step.contains(**protection));
        assert_eq!(lowered, None, "a remedy must not lower a protection of the node: {place}: {step}");
    }
}

/// Lines of text that are too wide. A row of a table cannot be wrapped, and code is not text.
fn wide_lines(text: &str) -> Vec<String> {
    let is_text = |line: &&str| !line.starts_with('|');
    without_fences(text).lines().filter(is_text).filter(|line| is_too_wide(line)).map(str::to_owned).collect()
}

fn is_too_wide(line: &str) -> bool {
    line.chars().count() > WIDTH
}

/// The first sentence with too many words.
fn long_sentence(text: &str) -> Option<String> {
    let mut words: Vec<&str> = Vec::new();
    for word in text.split_whitespace() {
        words.push(word);
        if word.trim_end_matches([')', '*', '"']).ends_with(['.', '?', '!']) {
            if words.len() > WORDS {
                break;
            }
            words.clear();
        }
    }
    (words.len() > WORDS).then(|| words.join(" "))
}

/// What the documents tell people to do about a reason, with the commands.
fn remedies_in_code(text: &str) -> Vec<String> {
    text.split("**Do**: ")
        .skip(1)
        .map(|step| step.split("\n\n").next().unwrap_or_default().to_owned())
        .collect()
}

/// Paragraphs, items of lists and cells of tables, each in one line; code and headings are left out.
fn prose(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for line in without_fences(text).lines() {
        let trimmed = line.trim();
        let item = trimmed.strip_prefix("- ").or_else(|| {
            let (number, item) = trimmed.split_once(". ")?;
            number.chars().all(|c| c.is_ascii_digit()).then_some(item)
        });
        match (trimmed.strip_prefix('|'), item) {
            (Some(row), _) => {
                all.extend(row.trim_end_matches('|').split(" | ").map(|cell| cell.trim().to_owned()));
                all.push(String::new());
            }
            _ if trimmed.is_empty() || trimmed.starts_with('#') => all.push(String::new()),
            (_, Some(item)) => all.push(item.to_owned()),
            _ => {
                let last = all.last_mut().expect("one");
                *last += if last.is_empty() { "" } else { " " };
                *last += trimmed;
            }
        }
    }
    all.iter().map(|text| without_code(text)).filter(|text| !text.trim().is_empty()).collect()
}

fn without_fences(text: &str) -> String {
    let mut inside = false;
    let mut kept = String::new();
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        kept += if is_fence || inside { "" } else { line };
        kept.push('\n');
        inside ^= is_fence;
    }
    kept
}

/// With `code` as one word, and a link's target left out.
fn without_code(text: &str) -> String {
    let mut kept = String::new();
    for (at, part) in text.split('`').enumerate() {
        kept += if at % 2 == 0 { part } else { "CODE" };
    }
    let mut rest = kept.as_str();
    let mut plain = String::new();
    while let Some((before, link)) = rest.split_once("](") {
        plain += before;
        rest = link.split_once(')').map_or("", |(_, after)| after);
    }
    plain + rest
}

/// Every document of the tree.
fn documents() -> Vec<String> {
    let is_document = |path: &String| Path::new(path).extension().is_some_and(|extension| extension == "md");
    let paths: Vec<_> = files("").into_iter().filter(is_document).collect();
    assert!(paths.len() > 12, "only these documents were found: {paths:?}");
    paths
}

/// Every file below a directory of the tree that git does not ignore, with its path.
fn files(below: &str) -> Vec<String> {
    let ignored: Vec<_> = read(".gitignore").lines().map(|line| line.trim_matches('/').to_owned()).collect();
    let mut paths = Vec::new();
    let mut directories = vec![below.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in root().join(&directory).read_dir().unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
            match entry.file_type().unwrap() {
                kind if kind.is_dir() && path != ".git" && !ignored.contains(&path) => directories.push(path),
                kind if kind.is_file() => paths.push(path),
                _ => {}
            }
        }
    }
    paths.sort();
    paths
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
