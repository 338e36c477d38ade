// SPDX-License-Identifier: Apache-2.0
//! Every command in the documents, the manifests' comments and the remedies (doctor/src/finding/table.rs) is one
//! that its own program accepts. Nothing that they name is changed: kubectl asks a server that is not there,
//! systemctl is offline, others only parse, or read.

use crate::support::{note, output, skip, tests};
use peermem_doctor::finding::Id;
use peermem_gate::cli::environment;
use peermem_gate::words::remedy::{Facts, Step};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A command line as a text gives it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Given {
    text: String,
    file: String,
    /// On lines of its own, so it is whole; one in a sentence may be a part.
    is_whole: bool,
}

/// How a program is asked whether it accepts a command line.
type Ask = fn(&[String]) -> Option<Output>;

/// The programs whose commands are tried, each with its way.
const PROGRAMS: &[(&str, Ask)] = &[
    ("kubectl", |words| tool("kubectl", &["--server=http://127.0.0.1:1"], words)),
    ("helm", |words| tool("helm", &[], &rendered(words))),
    ("skopeo", |words| Some(quiet(Command::new("skopeo").args(with_help(words, 1, "--help"))))),
    ("buildah", |words| Some(quiet(Command::new("buildah").args(with_help(words, 1, "--help"))))),
    ("podman", |words| Some(quiet(Command::new("podman").args(with_help(words, 1, "--help"))))),
    ("cargo", |words| Some(quiet(Command::new(env!("CARGO")).args(with_help(words, words.len(), "-h"))))),
    ("rustup", |words| Some(quiet(Command::new("rustup").args(with_help(words, words.len(), "-h"))))),
    ("make", |words| Some(quiet(Command::new("make").arg("--dry-run").args(words)))),
    ("systemctl", |words| {
        let mut offline = Command::new("systemctl");
        Some(quiet(offline.arg("--root=/nowhere").args(words).env("SYSTEMD_OFFLINE", "1")))
    }),
    ("journalctl", |words| Some(quiet(Command::new("journalctl").arg("--lines=0").args(words)))),
    ("dmesg", |words| Some(quiet(Command::new("dmesg").args(words)))),
    ("findmnt", |words| Some(quiet(Command::new("findmnt").args(words)))),
    ("grep", |words| Some(quiet(Command::new("grep").args(words)))),
    ("jq", |words| Some(quiet(Command::new("jq").args(words)))),
    ("ls", |words| Some(quiet(Command::new("ls").args(words)))),
    ("modinfo", |words| Some(quiet(Command::new("modinfo").args(words)))),
    ("sed", |words| Some(quiet(Command::new("sed").args(words)))),
];

/// Programs that delete, or visit everything below a directory. Their commands are not tried, but read.
const WALKERS: &[&str] = &["find", "rm", "du", "xargs", "rsync"];

/// What programs say of a command line that they do not accept.
const COMPLAINTS: &[&str] = &[
    "unknown flag",
    "unknown shorthand flag",
    "unknown command",
    "unexpected argument",
    "flags cannot be placed before plugin name",
    "Unknown command verb",
    "unrecognized option",
    "unrecognised option",
    "invalid option",
    "Invalid regular expression",
    "Unmatched",
    "compile error",
    "No rule to make target",
    "unterminated",
    "required flag",
    "don't meet the specifications of the schema",
    "were provided, but no name",
    "must be specified",
    "must specify one of",
    "expected 'logs",
    "needs an argument",
];

/// How many of [`COMPLAINTS`], at its end, are not of a part of a command that a sentence names.
const OF_WHOLE: usize = 5;

fn every_command_is_accepted_by_its_program() {
    let shell = Shell::new();
    let mut wrong = Vec::new();
    let mut missing = BTreeSet::new();
    let mut tried = 0;
    for given in all() {
        for words in shell.calls(&given.text) {
            let is_known = PROGRAMS.iter().find(|(program, _)| words[0] == *program);
            let complaint = match is_known {
                _ if is_ours(&words[0]) => refused(&words, &given),
                Some((program, _)) if !is_there(program) => {
                    missing.insert(*program);
                    continue;
                }
                Some((_, ask)) => ask(&words[1..]).and_then(|output| complaint(&output, &given)),
                None => continue,
            };
            tried += 1;
            wrong.extend(complaint.map(|said| format!("{}: {}: {said}", given.file, words.join(" "))));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried > 150, "only {tried} commands were found");
    note!("{tried} commands");
    if !missing.is_empty() {
        skip(&format!("not installed: {}", missing.into_iter().collect::<Vec<_>>().join(", ")));
    }
}

/// Below a pod's volumes lie users' files, on servers that may hang too: a command names each of its files in full.
fn no_command_walks_the_volumes_of_pods_or_deletes_by_name() {
    let shell = Shell::new();
    let mut wrong = Vec::new();
    let mut removals = 0;
    for given in all() {
        for words in shell.calls(&given.text) {
            if walks_volumes(&words) || deletes_by_name(&words) {
                wrong.push(format!("{}: {}", given.file, words.join(" ")));
            }
            removals +=
                usize::from(words[0] == "rm" && words.iter().any(|word| word.ends_with("/driver_built")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(removals > 0, "the remedy for the driver toolkit was not found");
}

/// Seen to fail: each of these would be wrong in a remedy.
fn a_command_that_walks_or_deletes_too_much_is_found() {
    let shell = Shell::new();
    for text in [
        "find /var/lib/kubelet/pods -name driver_built -delete",
        "find /var/lib/kubelet/pods/UID -name driver_built",
        "chroot /host find / -xdev -name nvidia-peermem.ko",
        "find /run/nvidia -name nvidia-peermem.ko -exec rm {} +",
        "find /run/nvidia -name nvidia-peermem.ko | xargs rm -f",
        "rm -rf /var/lib/kubelet/pods/UID/volumes",
        "rm -f /var/lib/kubelet/pods/**/driver_built",
        "grep -r driver_built /var/lib/kubelet",
        "ls -lR /host/var/lib/kubelet/pods",
    ] {
        let calls = shell.calls(text);
        assert!(
            calls.iter().any(|words| walks_volumes(words) || deletes_by_name(words)),
            "not found: {text}"
        );
    }
    for text in ["find /lib/modules -name 'nvidia?peermem.ko*'", "grep -r options /etc/modprobe.d"] {
        let calls = shell.calls(text);
        assert!(!calls.iter().any(|words| walks_volumes(words) || deletes_by_name(words)), "found: {text}");
    }
}

/// The command visits all that is below a directory, and pods' volumes are there.
fn walks_volumes(words: &[String]) -> bool {
    let is_recursive = |word: &String| {
        let is_flags = word.starts_with('-') && !word.starts_with("--");
        word == "--recursive" || is_flags && word.contains(['r', 'R'])
    };
    let takes_flag = ["rm", "grep", "ls", "cp", "chmod", "chown", "rsync"].contains(&words[0].as_str());
    let walks = ["find", "du"].contains(&words[0].as_str()) || takes_flag && words.iter().any(is_recursive);
    words[1..].iter().any(|word| {
        let path = Path::new(word.strip_prefix("/host").filter(|rest| !rest.is_empty()).unwrap_or(word));
        let is_around = path.starts_with(PODS) || path.is_absolute() && Path::new(PODS).starts_with(path);
        is_around && (walks || word.contains("**"))
    })
}

/// The command deletes whatever another finds.
fn deletes_by_name(words: &[String]) -> bool {
    let has = |word: &str| words.iter().any(|given| given == word || given.ends_with(&format!("/{word}")));
    let finds = words[0] == "find" && (has("-delete") || has("rm") || has("unlink"));
    finds || words[0] == "xargs" && (has("rm") || has("unlink"))
}

/// kubelet's directory of pods.
const PODS: &str = "/var/lib/kubelet/pods";

/// A test program is a file or a directory, of the gate's tests or the doctor's.
fn test_file(name: &str) -> PathBuf {
    let places = ["tests/", "doctor/tests/"]
        .map(|place| [format!("{place}{name}.rs"), format!("{place}{name}/main.rs")]);
    let mut files = places.into_iter().flatten().map(PathBuf::from);
    files.find(|file| repository().join(file).is_file()).unwrap_or_else(|| name.into())
}

fn every_test_and_script_that_a_command_names_is_there() {
    let shell = Shell::new();
    for given in all() {
        for words in shell.calls(&given.text) {
            let is_script =
                ["tests/", "release/", "image/", ".ci/"].iter().any(|dir| words[0].starts_with(dir));
            let script = is_script.then(|| PathBuf::from(&words[0]));
            let tests = words.windows(2).filter(|pair| words[0] == "cargo" && pair[0] == "--test");
            let tests = tests.map(|pair| test_file(&pair[1]));
            for file in script.into_iter().chain(tests) {
                assert!(
                    repository().join(&file).is_file(),
                    "{}: {}: {} does not exist",
                    given.file,
                    given.text,
                    file.display()
                );
            }
        }
    }
}

/// Seen to fail: these are commands that somebody might have written.
fn a_command_that_its_program_refuses_is_found() {
    let shell = Shell::new();
    for text in [
        "kubectl logs POD --previos",
        "kubectl -n NAMESPACE delet pod POD | grep x",
        "kubectl logs --prefix",
        "helm install gate charts/peermem-gate --set image.repositry=x,image.tag=1",
        "helm install gate oci://REGISTRY/charts/peermem-gate --version 1.2.3 --set wraper.enabled=true",
        "peermem-gate wait --timeout 5",
        "kubectl exec POD -- /peermem-gate check --nonsense",
        "systemctl restar containerd",
        "grep -E '(' file",
        "jq '.a |'",
    ] {
        let given = Given { text: text.to_owned(), file: String::new(), is_whole: true };
        let found =
            shell.calls(text).iter().any(|words| match PROGRAMS.iter().find(|(name, _)| words[0] == *name) {
                _ if is_ours(&words[0]) => refused(words, &given).is_some(),
                Some((name, ask)) => {
                    !is_there(name)
                        || ask(&words[1..]).is_some_and(|output| complaint(&output, &given).is_some())
                }
                None => false,
            });
        assert!(found, "this wrong command was not found: {text}");
    }
}

fn scripts_and_examples_pass_shellcheck() {
    if !is_there("shellcheck") {
        return skip("shellcheck is not installed");
    }
    let is_script = |path: &PathBuf| {
        let text = fs::read(repository().join(path)).unwrap_or_default();
        [&b"#!/bin/sh"[..], b"#!/bin/bash", b"#!/usr/bin/env bash"]
            .iter()
            .any(|start| text.starts_with(start))
    };
    let scripts: Vec<_> = files().into_iter().filter(is_script).collect();
    assert!(scripts.len() > 20, "only these scripts were found: {scripts:?}");
    let checked =
        output(Command::new("shellcheck").arg("--severity=warning").args(&scripts).current_dir(repository()));
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    let scratch = tempfile::NamedTempFile::new().unwrap();
    let examples: Vec<_> = all().into_iter().filter(|given| given.is_whole).map(|given| given.text).collect();
    fs::write(&scratch, format!("#!/bin/bash\n{}\n", examples.join("\n"))).unwrap();
    let checked = output(Command::new("shellcheck").arg("--severity=warning").arg(scratch.path()));
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

// --- what the texts give -----------------------------------------------------------------------------------------

fn all() -> BTreeSet<Given> {
    let mut all = BTreeSet::new();
    for step in Id::ALL.iter().flat_map(|id| id.remedy()) {
        let given = |text| Given { text, file: "a remedy".to_owned(), is_whole: true };
        all.extend(inline(&named(step)).into_iter().map(given));
    }
    for path in files() {
        let file = path.display().to_string();
        let text = fs::read_to_string(repository().join(&path)).unwrap_or_default();
        let given = |text: String, is_whole| Given { text, file: file.clone(), is_whole };
        if path.extension().is_some_and(|end| end == "md") {
            all.extend(fences(&text).into_iter().map(|text| given(text, true)));
            all.extend(inline(&text).into_iter().map(|text| given(text, false)));
        } else if ["manifests/", "examples/", "charts/"].iter().any(|dir| file.starts_with(dir)) {
            all.extend(indented(&text).into_iter().map(|text| given(text, true)));
            all.extend(inline(&text).into_iter().map(|text| given(text, false)));
        }
    }
    all
}

/// A step with names to be filled in.
fn named(step: &Step) -> String {
    let names = [
        ("node", "NODE"),
        ("pod-directory", "/var/lib/kubelet/pods/UID"),
        ("nvidia-holders", "gdrdrv"),
        ("third-party", "MODULE"),
        ("rdma-modules", "rdma_ucm ib_umad"),
        ("volume", "/run/mellanox"),
        ("holders", ""),
        ("rdma-holders", ""),
    ];
    let pods = ["driver", "mofed", "toolkit", "validator", "validation", "plugin"];
    let facts = names.into_iter().fold(Facts::default(), |facts, (name, word)| facts.word(name, word));
    let facts = pods.into_iter().fold(facts, |facts, pod| facts.word(pod, "-n NAMESPACE POD"));
    let logs =
        ["driver-logs", "mofed-logs", "toolkit-logs", "validator-logs", "validation-logs", "plugin-logs"];
    logs.into_iter().fold(facts, |facts, name| facts.word(name, "-n NAMESPACE POD")).fill(step.text)
}

/// The checkout's, without what was built.
fn files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        for entry in repository().join(&directory).read_dir().unwrap() {
            let entry = entry.unwrap();
            let path = directory.join(entry.file_name());
            match entry.file_type().unwrap() {
                kind if kind.is_dir()
                    && !["target", ".git", "corpus"].iter().any(|name| path.ends_with(name)) =>
                {
                    directories.push(path);
                }
                kind if kind.is_file() => files.push(path),
                _ => {}
            }
        }
    }
    files.sort();
    files
}

/// Blocks of `sh`.
fn fences(text: &str) -> Vec<String> {
    let blocks = text.split("\n```").skip(1).step_by(2);
    blocks.filter_map(|block| block.strip_prefix("sh\n")).map(str::to_owned).collect()
}

/// Between backticks: a command with a word more than its name.
fn inline(text: &str) -> Vec<String> {
    let is_command = |code: &&str| {
        let mut words = code.split_whitespace().filter(|word| !word.contains('='));
        let first = words.next().unwrap_or_default().trim_start_matches("./");
        let is_program = is_ours(first)
            || WALKERS.contains(&first)
            || PROGRAMS.iter().any(|(program, _)| *program == first);
        let is_option = words.next().is_some_and(|word| word.starts_with("--"));
        is_program && code.contains(' ') || VERBS.contains(&first) && is_option
    };
    let text = paragraphs(text);
    let codes = text.iter().flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2));
    let codes = codes.filter(|code| !["…", "[OPTIONS]", "{", "..."].iter().any(|part| code.contains(part)));
    let with_program = |code: &str| {
        let first = code.split_whitespace().next().unwrap_or_default();
        if VERBS.contains(&first) { format!("peermem-gate {code}") } else { code.to_owned() }
    };
    codes.filter(is_command).map(with_program).collect()
}

/// Without blocks of code, each on a line of its own: a command may go on in the next line.
fn paragraphs(text: &str) -> Vec<String> {
    let outside: String = text.split("\n```").step_by(2).collect::<Vec<_>>().join("\n\n");
    let mut paragraphs = vec![String::new()];
    for line in outside.lines() {
        let line = line.trim_start().trim_start_matches('#').trim();
        let is_row = line.starts_with('|');
        if line.is_empty() || is_row {
            paragraphs.push(line.replace("\\|", "|"));
        } else {
            let last = paragraphs.last_mut().unwrap();
            *last = format!("{last} {line}");
        }
    }
    paragraphs
}

/// Commands on comment lines, or in the chart's notes, that are further in than sentences are.
fn indented(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.lines() {
        let line = line.trim_start().trim_start_matches('#');
        let command = line.trim_start();
        let is_command =
            line.starts_with("  ") && ["kubectl ", "helm "].iter().any(|name| command.starts_with(name));
        match found.last_mut().filter(|_| goes_on) {
            Some(last) => *last += &format!("\n{command}"),
            None if is_command => found.push(command.to_owned()),
            None => continue,
        }
        goes_on = line.ends_with('\\') || line.ends_with('|');
    }
    found.retain(|command| !command.contains("{{"));
    found
}

const VERBS: [&str; 12] = [
    "wait", "check", "load", "keep", "inspect", "doctor", "fleet", "paths", "timeline", "rebuild", "install",
    "explain",
];

// --- what they come to ---------------------------------------------------------------------------------------------

/// A shell that runs nothing, and writes down what it would have run.
struct Shell(tempfile::TempDir);

impl Shell {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// The words of every command in a script; those that a command passes on come as one of their own.
    fn calls(&self, script: &str) -> Vec<Vec<String>> {
        const NOTE: &str = r#"
            note() { printf '%s\0' "$@" $'\n' >>"$CALLS/$BASHPID"; [ "$1" != uname ] || echo 6.1.0-1-amd64; }
            command_not_found_handle() { note "$@"; }
        "#;
        // The parts of a pipeline run side by side: each process has a file of its own.
        let calls = tempfile::tempdir().unwrap();
        let script = without_redirections(script);
        // A path is no command that bash would not find by PATH, but a function may have its name.
        let paths: BTreeSet<_> = script.split_whitespace().filter(|word| is_path(word)).collect();
        let functions: Vec<_> =
            paths.iter().map(|path| format!("{path}() {{ note {path} \"$@\"; }}\n")).collect();
        let functions = functions.concat();
        let ran = output(
            Command::new("bash")
                .args(["-c", &format!("{NOTE}{functions}PATH=/nowhere\n{script}")])
                .env("CALLS", calls.path())
                .stdin(Stdio::null())
                .current_dir(&self.0),
        );
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(!said.contains("syntax error") && !said.contains("unexpected EOF"), "{script}: {said}");
        let files = calls.path().read_dir().unwrap().map(|file| file.unwrap().path());
        let noted: String = files.map(|file| fs::read_to_string(file).unwrap()).collect();
        let mut all = Vec::new();
        for call in noted.split("\n\0").filter(|call| !call.is_empty()) {
            let words: Vec<_> = call.trim_end_matches('\0').split('\0').map(str::to_owned).collect();
            all.extend(passed_on(&words));
            all.push(words);
        }
        all
    }
}

/// `kubectl exec POD -- CMD`, `ssh HOST CMD`, `sudo CMD`, `chroot DIR CMD`.
fn passed_on(words: &[String]) -> Option<Vec<String>> {
    let from = match words[0].as_str() {
        "kubectl" => words.iter().position(|word| word == "--")? + 1,
        "ssh" | "chroot" => 2,
        "sudo" => 1,
        _ => return None,
    };
    words.get(from..).filter(|rest| !rest.is_empty()).map(<[String]>::to_vec)
}

fn is_path(word: &str) -> bool {
    word.contains('/') && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/_.-".contains(&byte))
}

fn is_ours(program: &str) -> bool {
    Path::new(program).file_name().is_some_and(|name| name == "peermem-gate" || name == "peermem-doctor")
        && !program.starts_with("charts")
}

/// Outside quotes, `>FILE` and `<FILE` are left out: nothing is to be written.
fn without_redirections(script: &str) -> String {
    let mut kept = String::new();
    let mut quote = None;
    let mut rest = script.chars().peekable();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (None, '>' | '<') if rest.peek() != Some(&'(') => {
                while rest.next_if(|next| ['>', ' '].contains(next)).is_some() {}
                while rest.next_if(|next| !next.is_whitespace()).is_some() {}
                continue;
            }
            _ => {}
        }
        kept.push(c);
    }
    kept
}

// --- who is asked
// ----------------------------------------------------------------------------------------------------

/// Why the command line is refused, if it is.
fn refused(words: &[String], given: &Given) -> Option<String> {
    let mut words: Vec<_> = words.iter().map(OsString::from).collect();
    words[0] = "peermem-gate".into();
    // What answers by itself is an error to clap.
    if words.iter().any(|word| word == "--help" || word == "--version" || word == "-h") {
        return None;
    }
    let variables = Vec::new();
    let why = if peermem_gate::doctor::is_called(&words) {
        peermem_doctor::cli::parse(&words, &variables).err()?.to_string()
    } else {
        environment::parse(&words, &variables).err()?.to_string()
    };
    // A part of a command may end before a value.
    let is_cut = why.contains("were not provided") || why.contains("a value is required");
    (given.is_whole || !is_cut).then_some(why)
}

fn complaint(output: &Output, given: &Given) -> Option<String> {
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let count = if given.is_whole { COMPLAINTS.len() } else { COMPLAINTS.len() - OF_WHOLE };
    let part = COMPLAINTS[..count].iter().find(|part| !output.status.success() && said.contains(**part))?;
    let line = said.lines().find(|line| line.contains(part)).unwrap_or_default();
    Some(line.to_owned())
}

/// With an option that asks for help at this place, or before what the command passes on: options are parsed, and
/// nothing is done.
fn with_help(words: &[String], at: usize, option: &str) -> Vec<String> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let mut words = words[..end].to_vec();
    words.insert(at.min(words.len()), option.to_owned());
    words
}

/// An option that `helm upgrade` has and `helm template` has not.
const OF_UPGRADE: &str = "--reset-then-reuse-values";

/// A release's chart: this checkout's, with its images set.
const RELEASED: [&str; 3] =
    ["charts/peermem-gate", "--set", "image.repository=REGISTRY/peermem-gate,image.tag=RELEASE"];

/// The same command for this checkout's chart, so no registry is asked.
fn without_registry(words: &[String]) -> Vec<String> {
    let mut without = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--version" => drop(words.next()),
            word if word.starts_with("oci://") => without.extend(RELEASED.map(str::to_owned)),
            word => without.push(word.to_owned()),
        }
    }
    without
}

/// An installation is rendered, so the chart's schema sees its values.
fn rendered(words: &[String]) -> Vec<String> {
    let words = without_registry(words);
    let is_of_our_chart = words.iter().any(|word| word.contains("charts/peermem-gate"));
    match words.first().map_or("", String::as_str) {
        "install" | "upgrade" if is_of_our_chart => {
            let rest = words.iter().skip(1).filter(|word| *word != OF_UPGRADE);
            ["template".to_owned()].iter().chain(rest).cloned().collect()
        }
        "template" => words,
        _ => with_help(&words, words.len(), "--help"),
    }
}

/// One that tests/manifests/tools installs.
fn tool(name: &str, before: &[&str], words: &[String]) -> Option<Output> {
    Some(quiet(Command::new(installed(name)?).args(before).args(words)))
}

fn installed(name: &str) -> Option<PathBuf> {
    let own = repository().join("target/manifests/bin").join(name);
    own.exists().then_some(own)
}

fn is_there(program: &str) -> bool {
    match program {
        "kubectl" | "helm" => installed(program).is_some(),
        _ => output(Command::new("sh").args(["-c", &format!("command -v {program}")])).status.success(),
    }
}

fn quiet(command: &mut Command) -> Output {
    output(command.stdin(Stdio::null()).current_dir(repository()).env("LC_ALL", "C").env("PAGER", "cat"))
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

tests![
    every_command_is_accepted_by_its_program,
    no_command_walks_the_volumes_of_pods_or_deletes_by_name,
    a_command_that_walks_or_deletes_too_much_is_found,
    every_test_and_script_that_a_command_names_is_there,
    a_command_that_its_program_refuses_is_found,
    scripts_and_examples_pass_shellcheck,
];
