// SPDX-License-Identifier: Apache-2.0
//! The help of every verb of both programs, and the manual pages and completions made from it.

use crate::pages;
use crate::support::{self, GATE, output, tests};
use clap::{Command, CommandFactory};
use peermem_gate::cli::help::Guide;
use std::ffi::OsString;
use std::path::Path;
use std::{fs, process};

/// As wide as a help is where its output is not a terminal.
const WIDTH: usize = 80;

/// A program, as its help shows it.
struct Program {
    name: &'static str,
    command: Command,
    guides: &'static [Guide],
}

fn programs() -> [Program; 2] {
    let gate = Program {
        name: "peermem-gate",
        command: peermem_gate::cli::Cli::command(),
        guides: peermem_gate::cli::help::GUIDES,
    };
    let doctor = Program {
        name: "peermem-doctor",
        command: peermem_doctor::cli::Cli::command(),
        guides: peermem_doctor::help::GUIDES,
    };
    [gate, doctor].map(|program| {
        let mut command = program.command.disable_help_subcommand(true);
        command.build();
        Program { command, ..program }
    })
}

impl Program {
    fn verbs(&self) -> Vec<&str> {
        self.command.get_subcommands().map(Command::get_name).collect()
    }

    fn guide(&self, verb: &str) -> &Guide {
        let guide = self.guides.iter().find(|guide| guide.verb == verb);
        guide.unwrap_or_else(|| panic!("{} has no guide for {verb:?}", self.name))
    }

    fn answer(&self, words: &[&str]) -> String {
        let program = Path::new(GATE).with_file_name(self.name);
        let output = output(process::Command::new(program).args(words).env_remove("COLUMNS"));
        assert!(output.status.success(), "{} {words:?}", self.name);
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Why a command line is refused, by the program that it leads to.
fn refusal(line: &str) -> Option<String> {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let none = Vec::new();
    if peermem_gate::doctor::is_called(&words) {
        peermem_doctor::cli::parse(&words, &none).err().map(|why| why.to_string())
    } else {
        peermem_gate::cli::environment::parse(&words, &none).err().map(|why| why.to_string())
    }
}

fn every_verb_has_exit_codes_and_two_examples_and_no_guide_is_left_over() {
    for program in programs() {
        let verbs = program.verbs();
        for verb in &verbs {
            let guide = program.guide(verb);
            assert_eq!(guide.exits.first().map(|(code, _)| *code), Some("0"), "{verb}");
            assert!(guide.exits.len() > 2, "{verb}");
            assert!(guide.examples.len() > 1, "{verb}");
            for (line, _) in guide.examples {
                let words: Vec<_> = line.split_whitespace().take(2).collect();
                assert_eq!(words, ["peermem-gate", verb], "the doctor's verbs are called by way of the gate");
            }
        }
        for guide in program.guides {
            assert!(guide.verb.is_empty() || verbs.contains(&guide.verb), "{guide:?}");
        }
    }
}

fn every_example_is_a_command_line_that_is_accepted() {
    for program in programs() {
        for (line, _) in program.guides.iter().flat_map(|guide| guide.examples) {
            assert_eq!(refusal(line), None, "{line}");
        }
    }
}

/// A list of verbs without a word about them was what a new user saw first.
fn every_verb_is_listed_with_its_sentence() {
    for program in programs() {
        for help in ["-h", "--help", "help"] {
            let answer = program.answer(&[help]);
            for verb in program.command.get_subcommands() {
                let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
                let line = answer
                    .lines()
                    .find(|line| line.trim_start().starts_with(&format!("{} ", verb.get_name())));
                let line = line.unwrap_or_else(|| panic!("{help} does not list {}", verb.get_name()));
                assert!(about.len() > 20 && line.ends_with(&about), "{help}: {line:?}: {about:?}");
                assert!(line.chars().count() <= WIDTH, "{help}: {line}");
                assert!(program.answer(&[verb.get_name(), "-h"]).starts_with(&about), "{}", verb.get_name());
            }
        }
    }
}

fn every_help_fits_the_screen_and_help_verb_equals_verb_help() {
    for program in programs() {
        for verb in std::iter::once("").chain(program.verbs()) {
            let words: Vec<_> = [verb].into_iter().filter(|verb| !verb.is_empty()).collect();
            let with = |last: &'static str| program.answer(&[&words[..], &[last]].concat());
            let (short, long) = (with("-h"), with("--help"));
            for line in short.lines().chain(long.lines()) {
                assert!(line.chars().count() <= WIDTH, "{verb}: {} columns: {line}", line.chars().count());
            }
            for part in ["Exit codes:\n", "\nExamples:\n", "\nEnvironment:\n"] {
                assert!(long.contains(part) && !short.contains(part), "{verb}: {part:?}");
            }
            assert!(short.lines().count() < long.lines().count(), "{verb}");
            assert_eq!(program.answer(&[&["help"], &words[..]].concat()), long, "{verb}");
        }
    }
}

fn no_long_help_repeats_the_short_one() {
    for program in programs() {
        for verb in program.verbs() {
            for argument in program.command.find_subcommand(verb).unwrap().get_arguments() {
                let Some((short, long)) = argument.get_help().zip(argument.get_long_help()) else {
                    continue;
                };
                let (short, long) = (short.to_string(), long.to_string());
                assert!(!long.starts_with(&format!("{short}\n")), "{verb}: {}: {long}", argument.get_id());
            }
        }
    }
}

fn manual_pages_and_completions_have_every_verb_and_option() {
    let dir = tempfile::tempdir().unwrap();
    pages::write(dir.path()).expect("pages");
    for program in programs() {
        has_pages(&program, dir.path());
    }
    let doctor = peermem_doctor::cli::Cli::command();
    for verb in doctor.get_subcommands().map(Command::get_name) {
        let page =
            fs::read_to_string(dir.path().join(format!("gate-man/peermem-gate-{verb}.1"))).expect(verb);
        let leads_to = page.trim().strip_prefix(".so man1/").expect(".so");
        assert!(dir.path().join("man").join(leads_to).is_file(), "{verb}: {page}");
    }
    for name in ["peermem-gate", "peermem-doctor"] {
        for (shell, file) in
            [("bash", format!("{name}.bash")), ("zsh", format!("_{name}")), ("fish", format!("{name}.fish"))]
        {
            let file = dir.path().join("completions").join(file);
            // What is not installed here is not asked; tests/run installs them all.
            match process::Command::new(shell).arg("-n").arg(file).status() {
                Ok(status) => assert!(status.success(), "{shell}"),
                Err(why) => support::skip(&format!("{shell}: {why}")),
            }
        }
    }
}

fn has_pages(program: &Program, dir: &Path) {
    let own = program.name;
    let read =
        |path: String| fs::read_to_string(dir.join(&path)).unwrap_or_else(|why| panic!("{path}: {why}"));
    let completions: Vec<_> = [format!("{own}.bash"), format!("_{own}"), format!("{own}.fish")]
        .map(|name| read(format!("completions/{name}")))
        .into();
    let main_page = read(format!("man/{own}.1"));
    for verb in program.command.get_subcommands() {
        let name = verb.get_name();
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        has_sentence(&main_page, &about, &format!("man/{own}.1"));
        has_sentence(&read(format!("man/{own}-{name}.1")), &about, name);
        // bash completes words without a sentence.
        for completion in &completions[1..] {
            has_sentence(completion, &about, &format!("completions of {name}"));
        }
        assert!(main_page.contains(&format!("{}\\-{name}(1)", own.replace('-', "\\-"))), "{name}");
        let page = read(format!("man/{own}-{name}.1"));
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
}

/// Whether a page or a completion has the sentence of a verb, as roff and shells escape it.
fn has_sentence(text: &str, about: &str, place: &str) {
    let plain = text.replace('\\', "");
    assert!(plain.contains(about), "{place} lacks {about:?}");
}

tests![
    every_verb_has_exit_codes_and_two_examples_and_no_guide_is_left_over,
    every_example_is_a_command_line_that_is_accepted,
    every_verb_is_listed_with_its_sentence,
    every_help_fits_the_screen_and_help_verb_equals_verb_help,
    no_long_help_repeats_the_short_one,
    manual_pages_and_completions_have_every_verb_and_option,
];
