// SPDX-License-Identifier: Apache-2.0
//! `fleet`: the reports of many nodes, rolled up. It looks at no node.

use crate::cli::FleetArgs;
use crate::fleet::{Cluster, Fleet, Release};
use crate::operators::Operators;
use crate::peer_memory::shown;
use crate::probe::stdin;
use crate::probe::tally::Counted;
use crate::verb::{json, long_read, print, symvers_crcs};
use anyhow::Context;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use peermem_gate::cli::environment::Misuse;
use peermem_gate::cli::{Format, log};
use peermem_gate::ready::errno;
use peermem_gate::ready::exit::Exit;
use peermem_gate::start::{Start, VerbError};
use peermem_gate::watch::supervised::style;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Far more than a report is, far less than would hurt.
const LINE: usize = 1024 * 1024;
const BUFFER: usize = 128 * 1024;
/// Some hundred thousand pods.
const CLUSTER: u64 = 8 * 1024 * 1024 * 1024;
/// YAML is kept in memory.
const YAML: u64 = 512 * 1024 * 1024;

/// Where reports come from, open.
struct ReportInput {
    name: String,
    reader: Box<dyn Read>,
}

impl ReportInput {
    /// Opens all that was named, before anything is read; standard input where nothing was.
    ///
    /// # Errors
    /// When a file is not there, or cannot be read.
    fn all(paths: &[PathBuf]) -> Result<Vec<Self>, Misuse> {
        if paths.is_empty() {
            return Ok(vec![Self::standard_input()]);
        }
        paths.iter().map(|path| Self::named(path)).collect()
    }

    fn named(path: &Path) -> Result<Self, Misuse> {
        if stdin::is_named(path) {
            return Ok(Self::standard_input());
        }
        let name = path.display().to_string();
        let refused = |why: &str| Misuse::Message(format!("cannot read reports from {name}: {why}"));
        let file = open(path).map_err(|error| {
            refused(&format!(
                "{}: name a file of what `doctor --format json` printed, one report per line",
                errno::words(&error)
            ))
        })?;
        if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Err(refused("it is a directory; name the files in it"));
        }
        Ok(Self { name, reader: Box::new(file) })
    }

    fn standard_input() -> Self {
        if io::stdin().is_terminal() {
            log::print_unstamped(
                "reading reports from this terminal, until Ctrl-D: name files to read those",
            );
        }
        Self { name: stdin::NAME.to_owned(), reader: Box::new(io::stdin()) }
    }
}

/// Reads all sources and prints the roll-up.
pub(super) fn run(args: &FleetArgs, start: &Start) -> Result<Exit, VerbError> {
    log::start(&args.log);
    if args.kernel.is_some() && args.symvers.is_none() {
        return Err(
            Misuse::Message("--kernel is the kernel of --symvers, which is not given".to_owned()).into()
        );
    }
    if args.nodes.as_deref().is_some_and(stdin::is_named)
        && (args.files.is_empty() || args.files.iter().any(|file| stdin::is_named(file)))
    {
        let why = "standard input is --nodes: name the files with the reports";
        return Err(Misuse::Message(why.to_owned()).into());
    }
    long_read::begin();
    let operators = Operators::named(&args.operators.namespaces);
    let cluster = args.nodes.as_deref().map(|path| cluster(path, &operators)).transpose()?;
    let mut fleet = Fleet::default().keeping_commands(args.commands);
    for ReportInput { name, reader } in ReportInput::all(&args.files)? {
        feed(&mut fleet, &name, BufReader::with_capacity(BUFFER, Counted::new(reader)))
            .with_context(|| format!("cannot read all of {name}"))?;
    }
    if let Some(symvers) = &args.symvers {
        return forecast(&fleet, symvers, args);
    }
    let rollup = match cluster {
        Some(cluster) => fleet.rollup_in(&cluster),
        None => fleet.rollup(),
    };
    let text = match args.format {
        Format::Text => rollup.text(style(start)),
        Format::Json => json(&rollup)?,
    };
    print(&text)?;
    Ok(rollup.exit())
}

/// Forecasts another MOFED. Its Module.symvers is read as `inspect` reads it.
fn forecast(fleet: &Fleet, symvers: &Path, args: &FleetArgs) -> Result<Exit, VerbError> {
    let crcs = symvers_crcs(symvers)?;
    let symvers = symvers.display().to_string();
    let release = Release { symvers, crcs: shown(&crcs), kernel: args.kernel.clone() };
    let forecast = fleet.forecast(&release);
    let text = match args.format {
        Format::Text => forecast.text(),
        Format::Json => json(&forecast)?,
    };
    print(&text)?;
    Ok(forecast.exit())
}

/// Reads the list of nodes and pods.
///
/// # Errors
/// When the file is not there, or is no such list.
fn cluster(path: &Path, operators: &Operators) -> Result<Cluster, Misuse> {
    let refused = |why: String| {
        Misuse::Message(format!(
            "cannot read nodes from {}: {why}: name a file of what `kubectl get nodes,pods -A -o json` (or \
                `yaml`) printed",
            stdin::shown(path)
        ))
    };
    let opened = if stdin::is_named(path) {
        stdin::open()
    } else {
        open(path).map(|file| Box::new(Counted::new(file)) as Box<dyn Read>)
    };
    let file = opened.map_err(|error| refused(errno::words(&error)))?;
    let mut file = BufReader::with_capacity(BUFFER, file.take(CLUSTER));
    let first = file.fill_buf().map_err(|error| refused(errno::words(&error)))?.trim_ascii_start().first();
    if matches!(first, Some(b'{' | b'[')) {
        let mut list = serde_json::Deserializer::from_reader(file);
        let cluster = Cluster::read(&mut list, operators);
        let cluster = cluster.and_then(|cluster| list.end().map(|()| cluster));
        return cluster.map_err(|error| refused(error.to_string()));
    }
    let mut text = Vec::new();
    file.take(YAML + 1).read_to_end(&mut text).map_err(|error| refused(errno::words(&error)))?;
    if text.len() as u64 > YAML {
        return Err(refused(format!("more than {} MiB of YAML, and JSON may be longer", YAML >> 20)));
    }
    Cluster::read_yaml(&text, operators).map_err(refused)
}

/// Opens without waiting for a writer, and then reads as usual: a FIFO without a writer is empty.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    let flags = OFlag::from_bits_truncate(fcntl(&file, FcntlArg::F_GETFL)?);
    fcntl(&file, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
    Ok(file)
}

/// Line by line; no more of a line is kept than one may have.
fn feed(fleet: &mut Fleet, source: &str, mut reader: impl BufRead) -> io::Result<()> {
    let mut line = Vec::new();
    let mut number = 0;
    let mut is_overlong = false;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        let end = memchr::memchr(b'\n', buffer);
        let part = &buffer[..end.unwrap_or(buffer.len())];
        is_overlong |= line.len() + part.len() > LINE;
        if !is_overlong {
            line.extend_from_slice(part);
        }
        let taken = end.map_or(buffer.len(), |end| end + 1);
        reader.consume(taken);
        if end.is_some() {
            number += 1;
            finish(fleet, source, number, &mut line, &mut is_overlong);
        }
    }
    if !line.is_empty() || is_overlong {
        finish(fleet, source, number + 1, &mut line, &mut is_overlong);
    }
    Ok(())
}

fn finish(fleet: &mut Fleet, source: &str, number: usize, line: &mut Vec<u8>, is_overlong: &mut bool) {
    if std::mem::take(is_overlong) {
        fleet.overlong(source, number, LINE);
    } else {
        fleet.line(source, number, line);
    }
    line.clear();
}
