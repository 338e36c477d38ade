// SPDX-License-Identifier: Apache-2.0
//! What brings a finding of `doctor`, and what keeps it from being said. Each paragraph of tests/guards is a node in
//! the language of tests/fixture, which differs in one thing from a known one, with its own expectations: those of
//! the nodes that it includes do not count here. Most paragraphs are survivors of `tests/mutants doctor`.

mod fixture;

use fixture::expectation::Said;
use fixture::{Node, Variant, nodes};
use libtest_mimic::{Arguments, Failed, Trial};
use std::fs;
use std::process::ExitCode;

fn unmet(paragraph: &str) -> Result<(), Failed> {
    let description = tempfile::NamedTempFile::new()?;
    fs::write(&description, paragraph)?;
    let node = Node::described(description.path(), Variant::Faulty);
    let own = paragraph.lines().filter(|line| line.starts_with("expect ")).count();
    let own = &node.expectations[node.expectations.len() - own..];
    let said = Said::of(&node);
    let unmet: Vec<_> = own.iter().filter_map(|expected| expected.unmet(&said)).collect();
    if unmet.is_empty() && !own.is_empty() { Ok(()) } else { Err(unmet.join("\n").into()) }
}

fn main() -> ExitCode {
    let directory = nodes().with_file_name("guards");
    let files = fs::read_dir(directory).expect("tests/guards").map(|file| file.expect("a file").path());
    let mut tests: Vec<_> = files
        .flat_map(|file| {
            let room = file.file_name().expect("a name").to_string_lossy().into_owned();
            let text = fs::read_to_string(&file).expect("paragraphs");
            let paragraphs: Vec<_> = text.split("\n\n").map(str::to_owned).collect();
            paragraphs.into_iter().map(move |paragraph| {
                let what = paragraph.trim_start().lines().next().unwrap_or_default();
                let name = format!("{room}: {}", what.trim_start_matches("# "));
                Trial::test(name, move || unmet(&paragraph))
            })
        })
        .collect();
    tests.sort_by(|one, other| one.name().cmp(other.name()));
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}
