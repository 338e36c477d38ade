// SPDX-License-Identifier: Apache-2.0
//! `timeline`: what happened, from what is left of it.

use crate::cli::{self, Picture, TimelineArgs};
use crate::probe::{self, stdin};
use crate::timeline::{DoctorAnswer, History, Timeline, only};
use crate::verb::{bundle, doctor, json, long_read, print};
use peermem_gate::cli::config::neighbor;
use peermem_gate::cli::environment::{Misuse, Variables, value_of};
use peermem_gate::ready::errno;
use peermem_gate::ready::exit::Exit;
use peermem_gate::ready::node::{Places, below};
use peermem_gate::start::{Start, VerbError};
use peermem_gate::survey::root;
use peermem_gate::watch::supervised::style;
use std::path::Path;

/// Bytes of files that are judged, too: of more, `timeline` only draws what it can draw line by line.
const JUDGED: u64 = 64 << 20;

/// Gathers, draws, prints.
pub(super) fn run(args: &TimelineArgs, start: &Start) -> Result<Exit, VerbError> {
    let columns = style(start).columns;
    long_read::supervise(&args.log, start, || draw(args, columns, start))
}

fn draw(args: &TimelineArgs, columns: usize, start: &Start) -> Result<Exit, VerbError> {
    long_read::begin();
    let named = &args.operators.namespaces;
    let history = if args.files.is_empty() {
        let root = root::of_logs(args.root.as_deref())?;
        let name = value_of(start.variables, "NODE_NAME").map(|name| name.to_string_lossy().into_owned());
        let places = places(&root, args.proc.as_deref(), start.variables)?;
        probe::of_node(&places, name.filter(|name| !name.is_empty()), named)
    } else {
        args.files.iter().try_for_each(|file| refuse_unreadable(file))?;
        let history = probe::gathered(&args.files, named);
        if let ([file], [why]) = (args.files.as_slice(), history.logs.unreadable.as_slice())
            && stdin::is_named(file)
        {
            return Err(Misuse::Message(format!("cannot read {why}")).into());
        }
        history
    };
    let history = only(history, args.node.as_deref()).map_err(|mixed| Misuse::Message(mixed.to_string()))?;
    let judged = judged(args, &history, start).unwrap_or(DoctorAnswer::NOT);
    let timeline = Timeline::new(history, args.since.unwrap_or_default(), judged);
    let is_elsewhere = args.root.is_some() || !args.files.is_empty();
    // Names that were typed wrong, or are of something else: the notes say why.
    let is_empty = is_elsewhere && args.since.is_none() && timeline.events.is_empty();
    let timeline = if args.brief { timeline.brief() } else { timeline };
    let answer = match args.format {
        Picture::Text => timeline.text(columns),
        Picture::Svg => timeline.svg(),
        Picture::Json => json(&timeline)?,
    };
    print(&answer)?;
    Ok(if is_empty { Exit::CannotTell } else { Exit::Opened })
}

/// What `doctor` says of the same node or files; `None` where it refuses them, or where they are too much to be read
/// again.
fn judged(args: &TimelineArgs, history: &History, start: &Start) -> Option<DoctorAnswer> {
    let mut asked = cli::doctors(start.variables)?;
    asked.operators.namespaces.clone_from(&args.operators.namespaces);
    if args.files.is_empty() {
        asked.root.clone_from(&args.root);
        asked.node.proc.clone_from(&args.proc);
        return doctor::judged(&asked, start).ok();
    }
    let read = || probe::bundle::read_all(&args.files, JUDGED);
    let bundle = history.posted.clone().filter(|_| args.files.len() == 1).or_else(read)?;
    bundle::judged(&bundle, history.node.as_deref(), &asked)
}

/// A missing file was typed wrong.
fn refuse_unreadable(file: &Path) -> Result<(), Misuse> {
    if stdin::is_named(file) {
        return Ok(());
    }
    let Err(error) = file.metadata() else { return Ok(()) };
    Err(Misuse::Message(format!("cannot read {}: {}", file.display(), errno::words(&error))))
}

/// Where `timeline` looks: below `root`, at what the neighbors' variables name.
fn places(root: &Path, proc: Option<&Path>, variables: &Variables) -> Result<Places, Misuse> {
    let mofed_root = below(root, &neighbor(variables, "MLX_DRIVERS_MOUNT", "/run/mellanox/drivers")?);
    Ok(Places {
        root: root.to_owned(),
        proc: proc.map_or_else(|| root.join("proc"), Path::to_owned),
        sys: root.join("sys"),
        marker: below(
            root,
            &neighbor(variables, "DRIVER_READY_PATH", "/run/mellanox/drivers/.driver-ready")?,
        ),
        lock: below(root, &neighbor(variables, "LOCK_FILE_PATH", "/run/mellanox/drivers/.lock")?),
        mofed_root,
        driver_root: root.to_owned(),
        finds_driver: true,
        store: None,
    })
}
