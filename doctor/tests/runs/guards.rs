// SPDX-License-Identifier: Apache-2.0
//! What brings a finding of `doctor`, and what keeps it from being said. Each paragraph of tests/guards is a node in
//! the language of tests/fixture, which differs in one thing from a known one, with its own expectations: those of
//! the nodes that it includes do not count here. Most paragraphs are survivors of `tests/mutants doctor`.

use crate::expected::{Answer, Expectation};
use crate::fixture::{Node, Variant};
use libtest_mimic::{Failed, Trial};
use std::fs;
use std::path::Path;

fn unmet(paragraph: &str) -> Result<(), Failed> {
    let lines = paragraph.lines().filter_map(|line| line.strip_prefix("expect "));
    let own: Vec<_> = lines.filter_map(Expectation::parse).collect();
    if own.is_empty() {
        return Err("it expects nothing".into());
    }
    let description = tempfile::NamedTempFile::new()?;
    fs::write(&description, paragraph)?;
    let answer = Answer::of(&Node::described(description.path(), Variant::Faulty));
    let unmet: Vec<_> = own.iter().filter_map(|expected| expected.unmet(&answer)).collect();
    if unmet.is_empty() { Ok(()) } else { Err(unmet.join("\n").into()) }
}

/// A test for each paragraph, which has its first line as its name.
fn tests_of(file: &Path) -> Vec<Trial> {
    let room = file.file_name().expect("a name").to_string_lossy();
    let text = fs::read_to_string(file).expect("paragraphs");
    let paragraphs = text.split("\n\n").map(|paragraph| {
        let what = paragraph.lines().next().unwrap_or_default().trim_start_matches("# ");
        let own = paragraph.to_owned();
        Trial::test(format!("guards::{room}: {what}"), move || unmet(&own))
    });
    paragraphs.collect()
}

pub(crate) fn tests() -> Vec<Trial> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guards");
    let files = fs::read_dir(directory).expect("tests/guards").map(|file| file.expect("a file").path());
    let mut tests: Vec<_> = files.flat_map(|file| tests_of(&file)).collect();
    tests.sort_by(|one, other| one.name().cmp(other.name()));
    tests
}
