// SPDX-License-Identifier: Apache-2.0
//! The help of every verb that the command line has, and the manual pages and completions made from it.

mod support;

use clap::{Command, CommandFactory};
use peermem_gate::cli::Cli;
use peermem_gate::environment;
use peermem_gate::help::{GUIDES, guide};
use peermem_gate::hint;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::{fs, process};
use support::{gate, output};

/// As wide as a help may be.
const WIDTH: usize = 100;

fn command_line() -> Command {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    command
}

fn verbs(command: &Command) -> Vec<&str> {
    command.get_subcommands().map(Command::get_name).collect()
}

fn answer(words: &[&str]) -> String {
    let output = output(gate().args(words));
    assert!(output.status.success(), "{words:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn every_verb_has_exit_codes_and_two_examples_and_no_guide_is_left_over() {
    let command = command_line();
    for verb in verbs(&command) {
        let guide = guide(verb).unwrap_or_else(|| panic!("src/help.rs has no row for {verb}"));
        assert_eq!(guide.exits.first().map(|(code, _)| *code), Some("0"), "{verb}");
        assert!(guide.exits.len() > 2, "{verb}");
        assert!(guide.examples.len() > 1, "{verb}");
        assert!(
            guide.examples.iter().all(|(line, _)| line.starts_with(&format!("peermem-gate {verb} "))
                || line == &format!("peermem-gate {verb}")),
            "{verb}"
        );
    }
    for guide in GUIDES {
        assert!(guide.verb.is_empty() || verbs(&command).contains(&guide.verb), "{guide:?}");
    }
}

fn every_example_is_a_command_line_that_is_accepted() {
    for (line, _) in GUIDES.iter().flat_map(|guide| guide.examples) {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        if let Err(refusal) = environment::parse(&words, &Vec::new()) {
            panic!("{line}: {refusal}");
        }
    }
}

fn every_help_fits_the_screen_and_says_the_same_by_two_names() {
    let command = command_line();
    for verb in std::iter::once("").chain(verbs(&command)) {
        let words: Vec<_> = [verb].into_iter().filter(|verb| !verb.is_empty()).collect();
        let with = |last: &'static str| answer(&[&words[..], &[last]].concat());
        let (short, long) = (with("-h"), with("--help"));
        for line in short.lines().chain(long.lines()) {
            assert!(line.chars().count() <= WIDTH, "{verb}: {} columns: {line}", line.chars().count());
        }
        for part in ["Exit codes:\n", "\nExamples:\n", "\nEnvironment:\n"] {
            assert!(long.contains(part) && !short.contains(part), "{verb}: {part:?}");
        }
        assert!(short.lines().count() < long.lines().count(), "{verb}");
        assert_eq!(answer(&[&["help"], &words[..]].concat()), long, "{verb}");
    }
}

fn no_help_says_a_thing_twice() {
    let command = command_line();
    for verb in verbs(&command) {
        for argument in command.find_subcommand(verb).unwrap().get_arguments() {
            let Some((short, long)) = argument.get_help().zip(argument.get_long_help()) else { continue };
            let (short, long) = (short.to_string(), long.to_string());
            assert!(!long.starts_with(&format!("{short}\n")), "{verb}: {}: {long}", argument.get_id());
        }
    }
}

/// Which verbs have it, and why this one does not.
fn a_verb_has_a_reason_for_every_option_that_it_does_not_have() {
    let command = command_line();
    let own = |verb: &str| {
        let options = command.find_subcommand(verb).unwrap().get_arguments().filter_map(clap::Arg::get_long);
        options.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let all: BTreeSet<_> = verbs(&command).into_iter().flat_map(own).collect();
    for verb in verbs(&command) {
        for option in all.difference(&own(verb)) {
            let hint = hint::of_another_verb(&command, verb, &format!("--{option}")).unwrap();
            assert!(hint.contains(&format!("; `{verb}` ")), "{verb}: {hint}");
        }
    }
}

fn manual_pages_and_completions_have_every_verb_and_option() {
    let dir = tempfile::tempdir().unwrap();
    pages(dir.path());
    let command = command_line();
    let read = |path: String| {
        fs::read_to_string(dir.path().join(&path)).unwrap_or_else(|why| panic!("{path}: {why}"))
    };
    let completions: Vec<_> = ["peermem-gate.bash", "_peermem-gate", "peermem-gate.fish"]
        .map(|name| read(format!("completions/{name}")))
        .into();
    let main_page = read("man/peermem-gate.1".to_owned());
    for verb in command.get_subcommands() {
        let name = verb.get_name();
        assert!(main_page.contains(&format!("peermem\\-gate\\-{name}(1)")), "{name}: {main_page}");
        let page = read(format!("man/peermem-gate-{name}.1"));
        for section in
            ["NAME", "SYNOPSIS", "OPTIONS", "\"EXIT STATUS\"", "ENVIRONMENT", "EXAMPLES", "\"SEE ALSO\""]
        {
            assert!(page.contains(&format!(".SH {section}\n")), "{name}: {section}: {page}");
        }
        for option in verb.get_arguments().filter_map(clap::Arg::get_long) {
            let escaped = format!("\\-\\-{}", option.replace('-', "\\-"));
            assert!(page.contains(&escaped), "{name}: {escaped}");
            for completion in &completions {
                assert!(completion.contains(option), "{name}: {option}");
            }
        }
    }
    for (shell, file) in
        [("bash", "peermem-gate.bash"), ("zsh", "_peermem-gate"), ("fish", "peermem-gate.fish")]
    {
        // What is not installed here is not asked; tests/run installs them all.
        match process::Command::new(shell).arg("-n").arg(dir.path().join("completions").join(file)).status() {
            Ok(status) => assert!(status.success(), "{shell}"),
            Err(why) => support::skip(&format!("{shell}: {why}")),
        }
    }
}

/// By cargo, because a single test's build leaves examples as they were.
fn pages(dir: &Path) {
    let made = process::Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--locked", "--example", "pages", "--"])
        .arg(dir)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(made.unwrap().success());
}

fn main() -> std::process::ExitCode {
    support::suite::suite![
        every_verb_has_exit_codes_and_two_examples_and_no_guide_is_left_over,
        every_example_is_a_command_line_that_is_accepted,
        every_help_fits_the_screen_and_says_the_same_by_two_names,
        no_help_says_a_thing_twice,
        a_verb_has_a_reason_for_every_option_that_it_does_not_have,
        manual_pages_and_completions_have_every_verb_and_option,
    ]
}
