// SPDX-License-Identifier: Apache-2.0
//! Writes the manual pages and the shell completions, made from the command line's own definition:
//! `cargo run --example pages -- DIR` fills DIR/man and DIR/completions.

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use peermem_gate::cli::Cli;
use peermem_gate::help::{Guide, Row, guide};
use std::fs;
use std::io;
use std::path::Path;

const PROGRAM: &str = "peermem-gate";

fn main() -> io::Result<()> {
    let Some(dir) = std::env::args_os().nth(1) else {
        eprintln!("usage: cargo run --example pages -- DIR");
        std::process::exit(2);
    };
    let dir = Path::new(&dir);
    let mut command = Cli::command().version(env!("CARGO_PKG_VERSION"));
    completions(&mut command.clone(), &dir.join("completions"))?;
    // Without the verb `help`, which needs no page.
    command = command.disable_help_subcommand(true);
    command.build();
    pages(&command, &dir.join("man"))
}

fn completions(command: &mut Command, dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, command, PROGRAM, dir)?;
    }
    Ok(())
}

fn pages(command: &Command, dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let others: Vec<_> =
        command.get_subcommands().map(|verb| format!("{PROGRAM}-{}", verb.get_name())).collect();
    fs::write(dir.join(format!("{PROGRAM}.1")), page(command, guide(""), &others)?)?;
    for verb in command.get_subcommands() {
        let name = format!("{PROGRAM}-{}", verb.get_name());
        let page = page(verb, guide(verb.get_name()), &[PROGRAM.to_owned()])?;
        fs::write(dir.join(format!("{name}.1")), page)?;
    }
    Ok(())
}

/// clap's own sections, then those of our guide, each as the manual has them.
fn page(command: &Command, guide: Option<&Guide>, others: &[String]) -> io::Result<Vec<u8>> {
    // What the long help has behind the options comes as sections of its own.
    let command = command.clone().after_help(None::<&str>).after_long_help(None::<&str>);
    let has_verbs = command.has_subcommands();
    let name = command.get_display_name().unwrap_or(PROGRAM).to_owned();
    // The day of the release does not belong in a page that is the same for each build.
    let man = Man::new(command)
        .title(name.to_uppercase())
        .source(concat!("peermem-gate ", env!("CARGO_PKG_VERSION")));
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

fn section(roff: &mut Roff, heading: &str, rows: &[Row]) {
    roff.control("SH", [heading]);
    for (word, meaning) in rows {
        roff.control("TP", []);
        roff.text([bold(*word)]);
        roff.text([roman(*meaning)]);
    }
}
