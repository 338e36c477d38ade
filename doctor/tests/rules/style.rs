// SPDX-License-Identifier: Apache-2.0
//! The part of docs/style.md that a machine can decide, over the documents, the program's own texts, and the comments
//! of sources, manifests and scripts.
//!
//! tests/style/not-yet.txt has what older texts still break, counted per rule and text. A count that is too high or
//! too low fails; `BLESS=1 cargo test style::` lowers counts and never raises one.

mod source;

use clap::CommandFactory;
use peermem_doctor::finding::{Id, all_steps};
use peermem_gate::cli::Cli;
use peermem_gate::ready::condition::Reason;
use peermem_gate::rebuild::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const STYLE: &str = "docs/style.md";
const NOT_YET: &str = "doctor/tests/style/not-yet.txt";
/// Characters in a line of text.
const WIDTH: usize = 118;
/// Words in a sentence.
const WORDS: usize = 40;
/// Documents whose sentences are counted; the others are references.
const SHORT_SENTENCES: [&str; 3] = ["README.md", "CONTRIBUTING.md", STYLE];

/// What a remedy may begin with.
const VERBS: &str = "\
    add ask bind blacklist boot bring build check choose compare configure continue correct create \
    deactivate delete do drain enable end enlarge enroll exclude find free get give install keep label \
    leave let load look make mark mount move name offer power put query raise read reboot rebuild remove \
    repair replace reset restart run say see set shorten show sign skip split start stop switch take try \
    turn unload unmount unset update upgrade use wait write";

/// British spellings, as parts of words, and the American ones.
const SPELLINGS: [(&str, &str); 41] = [
    ("analyse", "analyze"),
    ("artefact", "artifact"),
    ("authoris", "authoriz"),
    ("behaviour", "behavior"),
    ("cancelled", "canceled"),
    ("cancelling", "canceling"),
    ("canonicalis", "canonicaliz"),
    ("capitalis", "capitaliz"),
    ("catalogue", "catalog"),
    ("centre", "center"),
    ("colour", "color"),
    ("containeris", "containeriz"),
    ("customis", "customiz"),
    ("defence", "defense"),
    ("favour", "favor"),
    ("finalis", "finaliz"),
    ("flavour", "flavor"),
    ("honour", "honor"),
    ("initialis", "initializ"),
    ("judgement", "judgment"),
    ("labelled", "labeled"),
    ("labelling", "labeling"),
    ("learnt", "learned"),
    ("licence", "license"),
    ("maximis", "maximiz"),
    ("minimis", "minimiz"),
    ("misspelt", "misspelled"),
    ("modelled", "modeled"),
    ("neighbour", "neighbor"),
    ("normalis", "normaliz"),
    ("offence", "offense"),
    ("optimis", "optimiz"),
    ("organis", "organiz"),
    ("recognis", "recogniz"),
    ("serialis", "serializ"),
    ("signalled", "signaled"),
    ("summaris", "summariz"),
    ("synchronis", "synchroniz"),
    ("towards", "toward"),
    ("utilis", "utiliz"),
    ("whilst", "while"),
];
/// Names that users build on, and what other programs say.
const FOREIGN_SPELLINGS: [&str; 3] = ["GpuNotInitialised", "CudaNotInitialised", "unrecognised option"];
/// Files of others, and those that name British spellings.
const NOT_SPELLED_BY_US: [&str; 6] = [
    "Cargo.lock",
    "fuzz/Cargo.lock",
    "doctor/tests/log_lines/",
    "fuzz/corpus/",
    STYLE,
    "doctor/tests/rules/style.rs",
];

/// A text and the rules that it breaks, as `tests/style/not-yet.txt` counts them.
type Counts = BTreeMap<(String, String), usize>;

#[test]
fn no_text_breaks_a_style_rule_more_often_than_not_yet_txt_allows() {
    let allowed = not_yet();
    let offenses = offenses();
    let mut counts = Counts::new();
    for offense in &offenses {
        *counts.entry((offense.rule.to_owned(), offense.place.clone())).or_default() += 1;
    }
    let grown: Vec<_> = offenses
        .iter()
        .filter(|offense| {
            let key = (offense.rule.to_owned(), offense.place.clone());
            counts[&key] > allowed.get(&key).copied().unwrap_or(0)
        })
        .map(|offense| format!("{}: {}: {}", offense.place, offense.rule, offense.text))
        .collect();
    assert!(
        grown.is_empty(),
        "{} new offenses against {STYLE}: reword these texts ({NOT_YET} allows no more):\n{}",
        grown.len(),
        grown.join("\n")
    );
    if std::env::var_os("BLESS").is_some() {
        fs::write(root().join(NOT_YET), listed(&counts)).unwrap();
    }
    assert_eq!(
        listed(&counts),
        listed(&not_yet()),
        "texts have become better: `BLESS=1 cargo test style::` lowers the counts in {NOT_YET}"
    );
}

/// Names in code too: a text that follows them takes their spelling.
#[test]
fn every_file_and_its_name_are_in_american_spelling() {
    assert_eq!(british("The Colours of GpuNotInitialised"), [("colour", "color")]);
    let is_ours = |path: &String| !NOT_SPELLED_BY_US.iter().any(|other| path.starts_with(other));
    let paths: Vec<_> = files("").into_iter().filter(is_ours).collect();
    let mut found = Vec::new();
    for path in paths {
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        if british(&format!("{path}\n{text}")).is_empty() {
            continue;
        }
        for (at, line) in std::iter::once(path.as_str()).chain(text.lines()).enumerate() {
            let words = british(line).into_iter();
            found.extend(words.map(|(word, instead)| format!("{path}:{at}: {word:?}: write {instead:?}")));
        }
    }
    assert!(found.is_empty(), "{} British spellings:\n{}", found.len(), found.join("\n"));
}

/// The British spellings in a line, with the American ones.
fn british(line: &str) -> Vec<(&'static str, &'static str)> {
    let line = FOREIGN_SPELLINGS
        .iter()
        .fold(line.to_lowercase(), |line, name| line.replace(&name.to_lowercase(), ""));
    SPELLINGS.into_iter().filter(|(word, _)| line.contains(word)).collect()
}

/// The list of banned phrases is a part of the document, so a broken table would ban nothing.
#[test]
fn the_style_rules_find_what_they_forbid() {
    let banned = banned();
    assert!(banned.len() > 20, "{STYLE} has too few banned phrases: {banned:?}");
    let found = |text: &str| banned_in(text, &banned);
    assert_eq!(found("Wait, so that\nMOFED can load"), ["so that"]);
    assert_eq!(found("Delete the pod, for it is old"), [", for it"]);
    assert_eq!(found("So that is `so that` and\n```sh\nanew\n```\nno more"), ["so that"]);
    assert!(found("a renewed canew whoeverish word").is_empty());
    assert!(long_sentence(&"word ".repeat(WORDS + 1)).is_some());
    assert!(long_sentence(&format!("{0}. {0}.", "word ".repeat(WORDS).trim())).is_none());
    assert_eq!(first_verb("Delete the pod"), Some("delete"));
    assert_eq!(first_verb("If the pod exists, delete it"), Some("delete"));
    assert_eq!(first_verb("In OpenShift's console, see the pod: wait"), Some("see"));
    assert_eq!(first_verb("Or reboot the node"), Some("reboot"));
    assert_eq!(first_verb("The pod should be deleted"), None);
    assert_eq!(first_verb("If the pod exists, it should go"), None);
    assert_eq!(prose("a\nb\n\n- c\n  d\n| e | f |\n"), ["a b", "c d", "e", "f"]);
    assert!(is_too_wide(&"x".repeat(WIDTH + 1)) && !is_too_wide(&"x".repeat(WIDTH)));
}

struct Offense {
    rule: &'static str,
    place: String,
    text: String,
}

/// Every offense in every text, in the order of the texts.
fn offenses() -> Vec<Offense> {
    let banned = banned();
    let mut all = Vec::new();
    for path in documents() {
        let text = read(&path);
        let rules = if path == STYLE { without_tables(&text) } else { text.clone() };
        let mut add = |rule, text| all.push(Offense { rule, place: path.clone(), text });
        for line in wide_lines(&text) {
            add("width", line);
        }
        for phrase in banned_in(&rules, &banned) {
            add("phrase", phrase);
        }
        if SHORT_SENTENCES.contains(&path.as_str()) {
            for sentence in prose(&rules).iter().filter_map(|text| long_sentence(text)) {
                add("sentence", sentence);
            }
        }
        for step in remedies_in(&text).into_iter().filter(|step| first_verb(step).is_none()) {
            add("verb", step);
        }
    }
    for (path, line) in comments_too_wide() {
        all.push(Offense { rule: "width", place: path, text: line });
    }
    for (place, text) in program().into_iter().chain(sources()) {
        let place = place.as_str();
        let mut add = |rule, text| all.push(Offense { rule, place: place.to_owned(), text });
        for phrase in banned_in(&text, &banned) {
            add("phrase", format!("{phrase:?} in {text:?}"));
        }
        if !place.ends_with("remedies") {
            continue;
        }
        if let Some(sentence) = long_sentence(&text) {
            add("sentence", sentence);
        }
        if first_verb(&text).is_none() {
            add("verb", text);
        }
    }
    all
}

/// The program's own texts, by what they are.
fn program() -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for id in Id::ALL {
        texts.push(("titles", id.title().to_owned()));
        texts.extend(id.remedy().iter().map(|step| ("remedies", step.conditional())));
    }
    let of_any = all_steps(Id::ALL[0]);
    texts.extend(of_any[Id::ALL[0].remedy().len()..].iter().map(|step| ("remedies", step.conditional())));
    let facts: BTreeSet<_> = Id::ALL.iter().flat_map(|id| id.remedy()).flat_map(|step| step.when).collect();
    texts.extend(facts.iter().map(|fact| ("facts", fact.phrase().to_owned())));
    texts.extend(Reason::ALL.iter().map(|reason| ("reasons", reason.summary().to_owned())));
    for kind in Kind::ALL {
        texts.push(("obstacles", kind.meaning().to_owned()));
        texts.push(("rebuild remedies", kind.remedy().to_owned()));
    }
    for mut command in [Cli::command(), peermem_doctor::cli::Cli::command()] {
        command.build();
        texts.extend(command.get_subcommands_mut().map(|verb| ("help", verb.render_long_help().to_string())));
    }
    texts.into_iter().map(|(place, text)| (place.to_owned(), text)).collect()
}

/// Comments and sentences in sources, manifests and scripts, by file.
fn sources() -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for path in files("").into_iter().filter(|path| !path.starts_with("doctor/tests/rules/style")) {
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        let name = Path::new(&path);
        let kind = name.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let found = match kind {
            "rs" => {
                let source::Rust { comments, sentences } = source::rust(&text);
                // Other programs word their log lines.
                let ours = if path == "doctor/src/log/table.rs" { Vec::new() } else { sentences };
                comments.into_iter().chain(ours).collect()
            }
            "yaml" | "yml" | "sh" | "toml" | "py" | "service" => source::hashes(&text),
            "" if text.starts_with("#!") || path == "Makefile" || path == "Containerfile" => {
                source::hashes(&text)
            }
            _ => continue,
        };
        texts.extend(found.into_iter().map(|text| (path.clone(), text)));
    }
    assert!(texts.len() > 5000, "only {} texts of sources were found", texts.len());
    texts
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
    let mut steps: Vec<_> = program().into_iter().filter(|(place, _)| place.ends_with("remedies")).collect();
    for path in documents() {
        steps.extend(remedies_in_code(&read(&path)).into_iter().map(|step| (path.clone(), step)));
    }
    // Its steps are no rows of a table.
    steps.push(("fleet".to_owned(), read("doctor/src/fleet/cluster.rs")));
    assert!(steps.len() > 400, "only {} steps of remedies were found", steps.len());
    for (place, step) in steps {
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

/// The banned phrases in the prose, each as often as it occurs.
fn banned_in(text: &str, banned: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for text in prose(text) {
        let text = text.to_lowercase();
        for phrase in banned {
            found.extend(occurrences(&text, phrase).map(|_| phrase.clone()));
        }
    }
    found
}

/// Where a phrase stands, and not as a part of a longer word.
fn occurrences<'a>(text: &'a str, phrase: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_part = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    text.match_indices(phrase).map(|(at, _)| at).filter(move |at| {
        let before = text[..*at].chars().next_back().is_some_and(is_part);
        let after = text[at + phrase.len()..].chars().next().is_some_and(is_part);
        !(before && phrase.starts_with(is_part) || after)
    })
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

/// The verb that a remedy begins with, in lower case: at once, after "Or" or "Then", or behind a condition.
fn first_verb(remedy: &str) -> Option<&'static str> {
    let conditions = ["if ", "on ", "in ", "with ", "to ", "otherwise, "];
    let text = remedy.trim().to_lowercase();
    let text = ["or ", "then "].iter().find_map(|word| text.strip_prefix(word)).unwrap_or(&text);
    let begins = |text: &str| {
        let word = text.trim().split(|c: char| !c.is_alphabetic()).next().unwrap_or_default().to_owned();
        VERBS.split_whitespace().find(|verb| *verb == word)
    };
    begins(text).or_else(|| {
        let is_conditional = conditions.iter().any(|word| text.starts_with(word));
        is_conditional.then(|| text.split([',', ':']).skip(1).find_map(begins)).flatten()
    })
}

/// What the documents tell people to do about a reason.
fn remedies_in(text: &str) -> Vec<String> {
    let is_remedy = |item: &String| item.starts_with("**Do**: ");
    prose(text).into_iter().filter(is_remedy).map(|item| item.replace("**Do**: ", "")).collect()
}

/// The same with their commands.
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

fn without_tables(text: &str) -> String {
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('|')).collect();
    lines.join("\n")
}

/// The first column of the table in docs/style.md.
fn banned() -> Vec<String> {
    let text = read(STYLE);
    let (_, table) =
        text.split_once("| banned phrase | write |\n|---|---|\n").expect("a table of banned phrases");
    let rows = table.lines().map_while(|line| line.strip_prefix("| "));
    rows.map(|row| row.split(" | ").next().expect("a cell").to_owned()).collect()
}

/// `COUNT RULE TEXT` in each line.
fn not_yet() -> Counts {
    let entry = |line: &str| {
        let mut parts = line.splitn(3, ' ');
        let mut part = || {
            parts
                .next()
                .unwrap_or_else(|| panic!("{NOT_YET}: `COUNT RULE TEXT` is expected, not {line:?}"))
                .to_owned()
        };
        let count = part().parse().unwrap_or_else(|_| panic!("{NOT_YET}: no count in {line:?}"));
        ((part(), part()), count)
    };
    read(NOT_YET).lines().map(entry).collect()
}

/// As [`not_yet`] reads it.
fn listed(counts: &Counts) -> String {
    let lines: Vec<_> =
        counts.iter().map(|((rule, place), count)| format!("{count} {rule} {place}\n")).collect();
    lines.concat()
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
