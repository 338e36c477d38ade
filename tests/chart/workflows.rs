// SPDX-License-Identifier: Apache-2.0
//! The workflows are sound, and small: what they do is done by scripts that run on any machine.

use crate::support;
use crate::support::{can_be_nobody, skip, tests};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn yaml_files(dir: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(repository().join(dir)).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "yml")).collect();
    assert!(!files.is_empty(), "{dir}");
    files
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    serde_norway::from_str(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

fn actionlint_accepts_every_workflow() {
    let actionlint = repository().join("target/manifests/python/bin/actionlint");
    if !actionlint.exists() {
        return skip("no actionlint: tests/manifests/tools installs it");
    }
    let lint = |file: &Path| Command::new(&actionlint).arg("-no-color").arg(file).output().unwrap();
    for workflow in yaml_files(".github/workflows") {
        let output = lint(&workflow);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    // It does find something where there is something.
    let scratch = tempfile::tempdir().unwrap();
    let broken = scratch.path().join("broken.yml");
    fs::write(&broken, "on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps:\n      - ru: true\n")
        .unwrap();
    assert!(!lint(&broken).status.success());
}

fn every_workflow_step_is_one_command_and_its_script_exists() {
    let mut scripts = 0;
    for workflow in yaml_files(".github/workflows") {
        let read = read(&workflow);
        for (name, job) in read["jobs"].as_object().unwrap() {
            assert!(job["timeout-minutes"].is_u64(), "{name} has no limit");
            for step in job["steps"].as_array().unwrap() {
                let Some(run) = step["run"].as_str() else { continue };
                assert_eq!(run.trim().lines().count(), 1, "{name}: {run}");
                let program = run.split_whitespace().next().unwrap();
                if !["cargo", "gh"].contains(&program) {
                    assert!(repository().join(program).is_file(), "{name}: {program} is not there");
                    scripts += 1;
                }
            }
        }
    }
    assert!(scripts > 3);
}

/// tests/lane in a directory of its own, with these programs before the machine's.
fn lane(programs: &[(&str, &str)], command: &mut Command) -> (Option<i32>, String) {
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(&scratch, fs::Permissions::from_mode(0o755)).unwrap();
    for (name, script) in programs
        .iter()
        .map(|(name, script)| (format!("bin/{name}"), format!("#!/bin/sh\n{script}\n")))
        .chain([("tests/lane".to_owned(), fs::read_to_string(repository().join("tests/lane")).unwrap())])
    {
        let file = scratch.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, script).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", scratch.path().join("bin").display());
    let output = command
        .arg(scratch.path().join("tests/lane"))
        .arg("lints")
        .env("PATH", path)
        .env_remove("BUILD_COMMIT")
        .env_remove("LANES_INSTALLED")
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn a_lane_names_every_missing_tool_before_it_starts() {
    let mut nobody = Command::new(support::NOBODY[0]);
    let (code, said) = lane(&[], nobody.args(&support::NOBODY[1..]).arg("bash"));
    assert_eq!(code, Some(1), "{said}");
    for lacking in ["lacks root", "lacks cargo", "lacks rustup", "lacks git and a clone"] {
        assert!(said.contains(lacking), "{lacking}: {said}");
    }
    assert!(said.lines().all(|line| line.starts_with("tests/lane: this machine lacks ")), "{said}");
}

/// A machine on which cargo fails, with so much free disk.
fn failing(disk: &'static str) -> [(&'static str, &'static str); 6] {
    [
        ("id", "echo 0"),
        ("git", ""),
        ("cargo", "exit 3"),
        ("rustup", ""),
        ("dpkg-query", "echo ok installed"),
        ("df", disk),
    ]
}

fn a_lane_names_the_failed_step_in_its_last_line() {
    let (code, said) = lane(&failing("echo 99999999"), &mut Command::new("bash"));
    assert_eq!(code, Some(3), "{said}");
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("tests/lane: FAILED after "), "{said}");
    assert!(last.ends_with(" with exit code 3: cargo build --locked --workspace --bins --tests"), "{said}");
}

/// The disk that a run itself has filled costs none of its lanes.
fn a_lane_of_a_run_asks_for_no_disk() {
    let programs = failing("echo 0");
    let (code, said) = lane(&programs, &mut Command::new("bash"));
    assert!(code == Some(1) && said.contains("lacks 12 GB of disk"), "{said}");
    let (code, said) = lane(&programs, Command::new("env").args(["LANES_INSTALLED=yes", "bash"]));
    assert!(code == Some(3) && !said.contains("lacks"), "{said}");
}

fn the_issue_forms_ask_for_a_report() {
    let forms = yaml_files(".github/ISSUE_TEMPLATE");
    let bug = forms.iter().find(|form| form.ends_with("bug.yml")).unwrap();
    let form = read(bug);
    let fields = form["body"].as_array().unwrap();
    let report = fields.iter().find(|field| field["id"] == "doctor").unwrap();
    assert!(report["attributes"]["label"].as_str().unwrap().contains("peermem-gate doctor --format json"));
    assert_eq!(report["validations"]["required"], true);
    // The places that they name are the repository's own.
    let manifest = fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    let address =
        manifest.lines().find_map(|line| line.strip_prefix("repository = ")).unwrap().trim_matches('"');
    let links = fs::read_to_string(forms.iter().find(|form| form.ends_with("config.yml")).unwrap()).unwrap();
    assert!(links.contains(address), "{address}");
}

tests![
    [
        actionlint_accepts_every_workflow,
        every_workflow_step_is_one_command_and_its_script_exists,
        a_lane_names_the_failed_step_in_its_last_line,
        a_lane_of_a_run_asks_for_no_disk,
        the_issue_forms_ask_for_a_report,
    ],
    if can_be_nobody [a_lane_names_every_missing_tool_before_it_starts],
];
