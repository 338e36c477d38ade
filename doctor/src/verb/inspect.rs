// SPDX-License-Identifier: Apache-2.0
//! `inspect`: judges files of nvidia-peermem without a node.

use crate::cli::InspectArgs;
use crate::offline::{Expected, FileReason, Fitness};
use crate::probe::stdin;
use crate::report::inspected::InspectedFile;
use crate::signature::{LARGEST, signer};
use crate::verb::{json, long_read, print, symvers_crcs};
use peermem_gate::cli::environment::Misuse;
use peermem_gate::cli::{Format, log};
use peermem_gate::peermem::module_file::{NotAModule, inspect_with_end};
use peermem_gate::process::supervisor::SuperviseOptions;
use peermem_gate::ready::clock::now;
use peermem_gate::ready::errno;
use peermem_gate::ready::exit::Exit;
use peermem_gate::ready::wake::Signals;
use peermem_gate::start::{Start, VerbError};
use peermem_gate::watch::supervised::{ONE_LOOK, signals, style, supervised};
use peermem_gate::words::report::style::Style;
use std::path::{Path, PathBuf};

/// Reads and judges each file, in the order in which they are given.
pub(super) fn run(args: &InspectArgs, start: &Start) -> Result<Exit, VerbError> {
    let signals = signals()?;
    log::start(&args.log);
    let style = style(start);
    // Any number of files may be given, of any size; a pipe may stay open.
    let limit = args.files.iter().any(|file| stdin::is_named(file)).then_some(long_read::LONGEST);
    let terms = SuperviseOptions::new(&signals, limit);
    Ok(supervised(terms, start, |_| all(args, style, &signals))?.exit(start))
}

fn all(args: &InspectArgs, style: Style, signals: &Signals) -> Result<Exit, VerbError> {
    if let Some(directory) = args.files.iter().find(|path| path.is_dir()) {
        let why = format!("{} is a directory: name the .ko files in it", directory.display());
        return Err(Misuse::Message(why).into());
    }
    let expected = expected(args)?;
    let mut all = Vec::new();
    for path in &args.files {
        let file = one(path, &expected, signals)?;
        if let Some(signal) = signals.first() {
            return Ok(Exit::Signal(signal));
        }
        let text = match args.format {
            Format::Text => file.text(style),
            Format::Json => json(&file)?,
        };
        print(&text)?;
        all.push(file.fitness());
    }
    Ok(if all.contains(&Fitness::Unfit) {
        Exit::NotReady
    } else if all.contains(&Fitness::Unknown) {
        Exit::CannotTell
    } else {
        Exit::Opened
    })
}

/// The expectations of the command line. With a Module.symvers without peer memory nothing could be compared.
fn expected(args: &InspectArgs) -> Result<Expected, Misuse> {
    let read = |path: &PathBuf| Ok::<_, Misuse>((path.clone(), symvers_crcs(path)?));
    let symvers = args.symvers.as_ref().map(read).transpose()?;
    Ok(Expected { symvers, kernel: args.kernel.clone() })
}

/// # Errors
/// When nothing comes from standard input, where `path` stands for it.
fn one(path: &Path, expected: &Expected, signals: &Signals) -> Result<InspectedFile, Misuse> {
    /// More than any module has.
    const MOST: u64 = (512 << 20) + 1;
    if !stdin::is_named(path) {
        return Ok(at(path, path, expected, signals));
    }
    let (_copy, place) = stdin::copied(MOST)
        .map_err(|error| Misuse::Message(format!("cannot read {}: {}", stdin::NAME, errno::words(&error))))?;
    Ok(at(path, &place, expected, signals))
}

/// The file at `place`, which is called `path`.
fn at(path: &Path, place: &Path, expected: &Expected, signals: &Signals) -> InspectedFile {
    let until = now() + ONE_LOOK;
    match inspect_with_end(place, LARGEST, &mut || now() >= until || signals.first().is_some()) {
        // Reads that fail take no such time.
        Err(NotAModule::Unreadable(_)) if now() >= until => InspectedFile::unread(
            path,
            FileReason::ModuleFileUnreadable,
            format!("its unpacking did not end in {} s", ONE_LOOK.as_secs()),
        ),
        Ok((info, end)) => InspectedFile::read(path, info, signer(&end), expected),
        Err(NotAModule::Damaged(why)) => {
            let message = format!("no kernel could load it: {}", why.why);
            InspectedFile::unread(path, FileReason::ModuleFileDamaged, message)
        }
        Err(NotAModule::Unreadable(why)) => InspectedFile::unread(
            path,
            FileReason::ModuleFileUnreadable,
            format!("cannot read it: {}", why.why),
        ),
    }
}
