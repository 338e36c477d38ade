// SPDX-License-Identifier: Apache-2.0
//! `rebuild`: makes a usable nvidia-peermem.ko now, or says why not; `--dry-run` and `--undo`.

use crate::cli::environment::{Misuse, value_of};
use crate::cli::{Rebuild, RebuildArgs, log};
use crate::process::supervisor::SuperviseOptions;
use crate::process::{answer, progress};
use crate::ready::condition::{ConditionType, Reason};
use crate::ready::exit::Exit;
use crate::ready::gate::Policy;
use crate::ready::node::{Node, PeermemExpected};
use crate::ready::verdict::Outcome;
use crate::ready::wake::Signals;
use crate::rebuild::attempt::depmod;
use crate::rebuild::build_dir::BuildDir;
use crate::rebuild::rebuilder::{Rebuilder, behind_ours};
use crate::rebuild::{Kind, Obstacle, RebuildResult, build_dir, target};
use crate::start::{Start, VerbError};
use crate::text::escaped;
use crate::watch::supervised::{ONE_LOOK, last_words, signals, supervised};
use crate::watch::wait_loop::{WaitLoop, WaitRequest};
use crate::watch::{Watch, look_now};
use crate::words::last_words::LastWords;
use std::path::Path;
use std::time::Duration;

/// Rebuilds, undoes or prints the plan, once.
pub(crate) fn run(args: &RebuildArgs, start: &Start) -> Result<Exit, VerbError> {
    let signals = signals()?;
    log::start(&args.log);
    if args.dry_run && args.undo {
        let why = "--dry-run builds nothing, but --undo removes the built module: omit one of them";
        return Err(Misuse::Message(why.to_owned()).into());
    }
    // Time for the looks before and after, and for depmod.
    let limit = Some(args.rebuilding.rebuild_timeout + ONE_LOOK * 4);
    let terms = SuperviseOptions::new(&signals, limit);
    Ok(supervised(terms, start, |_| work(args, start, &signals))?.exit(start))
}

fn work(args: &RebuildArgs, start: &Start, signals: &Signals) -> Result<Exit, VerbError> {
    let peermem = PeermemExpected { only_ours: true, ..PeermemExpected::default() };
    let mut node = Node::new(&args.node, Path::new("/"), Some(peermem), start.variables)?;
    // What is judged must be what modprobe finds in that root.
    node.places.finds_driver = false;
    let last_words = last_words(&node.places.marker, start)?;
    let mut rebuilder = Rebuilder::new(&args.rebuilding, start.variables);
    if rebuilder.mode == Rebuild::Off {
        rebuilder.mode = Rebuild::Auto;
    }
    rebuilder.is_asked = true;
    // One look: no time that passes counts.
    let policy = Policy { heartbeat: ONE_LOOK, ..Policy::default() };
    let asked = WaitRequest { node, policy, metrics: None, memory: None };
    let mut waiting = WaitLoop::new(&asked, signals);
    if args.undo {
        return undo(&mut waiting, &last_words, start);
    }
    let look = look_now(&mut waiting.watch, &waiting.gate);
    let Some(look) = look else { return Ok(broken_off(&waiting, &last_words)) };
    let peermem = look.verdict.get(ConditionType::PeermemUsable);
    let is_done = peermem.filter(|c| matches!(c.reason, Reason::Usable | Reason::PeermemLive));
    if let Some(done) = is_done.filter(|_| look.verdict.outcome == Outcome::Ready) {
        answer(&format!("nothing to do: {}\n", crate::text::escaped(&done.message)))?;
        return Ok(Exit::Opened);
    }
    if args.dry_run {
        if let Some(theirs) = behind_ours(&waiting.watch, &look) {
            let target =
                target(&waiting.watch.seen().map(|seen| seen.kernel.release.clone()).unwrap_or_default());
            let text = format!("remove: {}\nthen modprobe takes: {}", target.display(), theirs.display());
            answer(&(text.lines().map(escaped).collect::<Vec<_>>().join("\n") + "\n"))?;
            return Ok(Exit::Opened);
        }
        let plan = rebuilder.plan(&waiting.watch, &look).map(|(plan, ..)| plan.text(&build_dir::shown()));
        return match plan {
            Ok(plan) => {
                answer(&plan)?;
                Ok(Exit::Opened)
            }
            Err(obstacle) => Ok(refused("rebuilt", &obstacle, &last_words)),
        };
    }
    progress::begin();
    let came = rebuilder.rebuild(&mut waiting.watch, &waiting.gate, &mut |_| progress::show(building));
    let sentence = came.sentence();
    Ok(match came {
        RebuildResult::Installed(message) | RebuildResult::Undone(message) => {
            tracing::info!("{message}");
            answer(&format!("{}\n", crate::text::escaped(&message)))?;
            Exit::Opened
        }
        RebuildResult::Refused(obstacle) => refused("rebuilt", &obstacle, &last_words),
        RebuildResult::Swapping(_) => ended(Exit::Blocked, &sentence, &last_words),
        RebuildResult::Failed(_) | RebuildResult::Passing(_) => ended(Exit::Failed, &sentence, &last_words),
        RebuildResult::TimedOut(_) | RebuildResult::Deadline(_) => {
            ended(Exit::TimedOut, &sentence, &last_words)
        }
        RebuildResult::Signal(signal, _) => ended(Exit::Signal(signal), &sentence, &last_words),
    })
}

/// The line that a terminal shows during the build.
fn building(spent: Duration) -> String {
    format!("building nvidia-peermem.ko: {} s", spent.as_secs())
}

/// Removes what was installed, for this kernel and for those that ran before: they may run again.
fn undo(waiting: &mut WaitLoop, last_words: &LastWords, start: &Start) -> Result<Exit, VerbError> {
    let node = waiting.asked.node.clone();
    let Some(_) = look_now(&mut waiting.watch, &waiting.gate) else {
        return Ok(broken_off(waiting, last_words));
    };
    let running = waiting.watch.seen().map(|seen| seen.kernel.release.clone()).unwrap_or_default();
    let root = node.places.driver_root.as_path();
    let build_dir = match BuildDir::open(root) {
        Ok(build_dir) => build_dir,
        Err(obstacle) => return Ok(refused("undone", &obstacle, last_words)),
    };
    let mut others = build_dir.installed();
    others.retain(|other| *other != running);
    let mut exit = Exit::Opened;
    for release in std::iter::once(running).chain(others) {
        if let Some(path) = build_dir::foreign(root, &release) {
            let why = format!("peermem-gate did not install the existing {}", path.display());
            exit = refused("undone", &Obstacle::new(Kind::ForeignFile, why), last_words);
            continue;
        }
        let target = target(&release);
        match removed(&build_dir, root, &release, &waiting.watch, start) {
            Ok(done) => answer(&format!("{done}: {}\n", escaped(&target.display().to_string())))?,
            Err(why) => {
                let why = format!("cannot undo: {}: {why}", target.display());
                exit = ended(Exit::Failed, &why, last_words);
            }
        }
    }
    Ok(exit)
}

/// Removes what was installed for one kernel, and says what there was.
fn removed(
    build_dir: &BuildDir,
    root: &Path,
    release: &str,
    watch: &Watch,
    start: &Start,
) -> Result<&'static str, String> {
    build_dir.forget_attempt(release);
    build_dir.forget_refusal(release);
    let done = match build_dir.remove(release) {
        Ok(true) => "removed",
        // A power cut ended an earlier undo before its depmod.
        Ok(false) if build_dir::is_listed(root, release) => "removed before",
        Ok(false) => return Ok("nothing to remove"),
        Err(error) => return Err(crate::ready::errno::words(&error)),
    };
    depmod(root, release, value_of(start.variables, "PATH"), watch).map(|()| done)
}

/// `not`: rebuilt, or undone.
fn refused(not: &str, obstacle: &Obstacle, last_words: &LastWords) -> Exit {
    ended(Exit::Blocked, &format!("not {not}: {obstacle}"), last_words)
}

fn ended(exit: Exit, sentence: &str, last_words: &LastWords) -> Exit {
    tracing::error!("{sentence}");
    last_words.leave(exit, sentence, None)
}

fn broken_off(waiting: &WaitLoop, last_words: &LastWords) -> Exit {
    match waiting.watch.wakes.take_signal() {
        Some(signal) => ended(Exit::Signal(signal), &format!("ended by signal {signal}"), last_words),
        None => ended(Exit::Blocked, "nothing is done: the node changed during the look", last_words),
    }
}
