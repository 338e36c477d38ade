// SPDX-License-Identifier: Apache-2.0
//! Writes the manual pages and the shell completions, made from the command line's own definition:
//! `cargo run --example pages -- DIR` fills DIR/man and DIR/completions, for both programs, and
//! DIR/gate-man with the doctor's pages under the gate's name, which the doctor's packages have.

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use peermem_doctor::cli as doctor;
use peermem_gate::cli as gate;
use peermem_gate::cli::help::{Guide, HelpRow};
use std::path::Path;
use std::{fs, io};

const USAGE: &str = "usage: cargo run --example pages -- DIR";

/// A program: its command line, and what its help has behind the options.
struct Program {
    name: &'static str,
    version: &'static str,
    command: Command,
    guides: &'static [Guide],
}

fn main() -> io::Result<()> {
    let Some(dir) = std::env::args_os().nth(1) else {
        eprintln!("{USAGE}");
        std::process::exit(2);
    };
    write(Path::new(&dir))
}

/// Fills this directory.
pub(crate) fn write(dir: &Path) -> io::Result<()> {
    let gate = Program {
        name: "peermem-gate",
        version: peermem_gate::VERSION,
        command: gate::Cli::command(),
        guides: peermem_gate::cli::help::GUIDES,
    };
    let doctor = Program {
        name: "peermem-doctor",
        version: peermem_doctor::VERSION,
        command: doctor::Cli::command(),
        guides: peermem_doctor::help::GUIDES,
    };
    for mut program in [gate, doctor] {
        // The commit does not belong in a page.
        let version = program.version.split(' ').next().unwrap_or_default();
        program.command = program.command.version(version);
        completions(&program, &dir.join("completions"))?;
        // Without the verb `help`, which needs no page.
        program.command = program.command.disable_help_subcommand(true);
        program.command.build();
        program.pages(version, &dir.join("man"))?;
    }
    called_by_the_gate(&dir.join("gate-man"))
}

/// `peermem-gate doctor` is `peermem-doctor doctor`: each such verb's page, by the name that people look for.
fn called_by_the_gate(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    for verb in doctor::Cli::command().get_subcommands() {
        let verb = verb.get_name();
        let page = format!(".so man1/peermem-doctor-{verb}.1\n");
        fs::write(dir.join(format!("peermem-gate-{verb}.1")), page)?;
    }
    Ok(())
}

fn completions(program: &Program, dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut program.command.clone(), program.name, dir)?;
    }
    Ok(())
}

impl Program {
    fn pages(&self, version: &str, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)?;
        let of_verb = |verb: &Command| format!("{}-{}", self.name, verb.get_name());
        let source = format!("{} {version}", self.name);
        let guide = |verb: &str| self.guides.iter().find(|guide| guide.verb == verb);
        let others: Vec<_> = self.command.get_subcommands().map(of_verb).collect();
        let own = page(&self.command, &source, guide(""), &others)?;
        fs::write(dir.join(format!("{}.1", self.name)), own)?;
        for verb in self.command.get_subcommands() {
            let page = page(verb, &source, guide(verb.get_name()), &[self.name.to_owned()])?;
            fs::write(dir.join(format!("{}.1", of_verb(verb))), page)?;
        }
        Ok(())
    }
}

/// clap's own sections, then those of our guide, each as the manual has them.
fn page(command: &Command, source: &str, guide: Option<&Guide>, others: &[String]) -> io::Result<Vec<u8>> {
    // What the long help has behind the options comes as sections of its own.
    let command = command.clone().after_help(None::<&str>).after_long_help(None::<&str>);
    let has_verbs = command.has_subcommands();
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    // The day of the release does not belong in a page that is the same for each build.
    let man = Man::new(command).title(name.to_uppercase()).source(source);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_verbs {
        man.render_subcommands_section(&mut page)?;
    }
    let mut roff = Roff::new();
    if let Some(guide) = guide {
        section(&mut roff, "EXIT STATUS", guide.exits);
        section(&mut roff, "ENVIRONMENT", &guide.variables.concat());
        section(&mut roff, "EXAMPLES", guide.examples);
    }
    roff.control("SH", ["SEE ALSO"]);
    let references: Vec<_> = others.iter().map(|other| format!("{other}(1)")).collect();
    roff.text([roman(references.join(", "))]);
    roff.to_writer(&mut page)?;
    Ok(page)
}

fn section(roff: &mut Roff, heading: &str, rows: &[HelpRow]) {
    roff.control("SH", [heading]);
    for (word, meaning) in rows {
        roff.control("TP", []);
        roff.text([bold(*word)]);
        roff.text([roman(*meaning)]);
    }
}
