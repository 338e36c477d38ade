// SPDX-License-Identifier: Apache-2.0
//! `wait`: waits until MOFED is ready; then exits, or becomes CMD.

use crate::cli::environment::value_of;
use crate::cli::{WaitArgs, log};
use crate::process::exec::Program;
use crate::process::supervisor::{GRACE, SuperviseOptions};
use crate::process::{Decision, WorkerPipe};
use crate::ready::clock::now;
use crate::ready::exit::Exit;
use crate::ready::gate::{Memory, Opening, Policy};
use crate::ready::node::{Node, PeermemExpected};
use crate::ready::time::Seconds;
use crate::ready::wake::Signals;
use crate::start::{Start, VerbError};
use crate::survey::root;
use crate::watch::supervised::{limit, log_briefly, outputs, signals, supervised};
use crate::watch::wait_loop::{WaitLoop, WaitRequest};
use std::mem::ManuallyDrop;
use std::time::Duration;

/// The greatest age of an answer. If it is older, another worker looks again, because the container may have been
/// frozen, or the node suspended.
const FRESH: Duration = Duration::from_secs(1);

/// Waits, then becomes CMD. Returns only without a CMD.
pub(crate) fn run(args: &WaitArgs, disabled: Option<&str>, start: &Start) -> Result<Exit, VerbError> {
    let signals = signals()?;
    log::start(&args.log);
    if let Some(reason) = disabled {
        program(args, start)?;
        tracing::warn!("open: the gate is disabled: {reason}");
        return open(args, start, &signals);
    }
    until_ready(args, start, &signals)
}

/// Waits with a gate that is not disabled, a log that has begun, and these signals.
fn until_ready(args: &WaitArgs, start: &Start, signals: &Signals) -> Result<Exit, VerbError> {
    let policy = Policy::of_wait(args)?;
    let began = now();
    let (mut fresh, mut memory) = (FRESH, None);
    loop {
        let execs_after = !args.command.is_empty();
        let spent = now().saturating_sub(began);
        let limit = limit(&policy).map(|limit| limit.saturating_sub(spent).max(GRACE));
        let terms = SuperviseOptions { execs_after, ..SuperviseOptions::new(signals, limit) };
        let work = |worker_pipe: &WorkerPipe| {
            wait_until_open(args, (policy.clone(), memory.take()), start, signals, worker_pipe)
        };
        let ended = supervised(terms, start, work)?;
        let proceeds = policy.proceed_on_timeout;
        match &ended.end {
            Ok(Exit::Opened) => {}
            Err(hung) if hung.signal.is_none() && proceeds => {
                let how = hung.sentence();
                log_briefly(|| {
                    log::print_unstamped(&format!(
                        "OPEN ALTHOUGH NOT READY, because --on-timeout is proceed: {how}"
                    ));
                });
                return open(args, start, signals);
            }
            _ => return Ok(ended.exit(start)),
        }
        let age = |decision: &Decision| now().saturating_sub(decision.at);
        let Some(decision) = ended.decided.filter(|decision| age(decision) > fresh) else {
            return open(args, start, signals);
        };
        let age = Seconds(age(&decision));
        log_briefly(|| tracing::warn!("the gate's answer is {age} old: asking again"));
        // On such a slow node the next answer may be older.
        fresh *= 2;
        memory = serde_json::from_slice(&decision.memory).ok();
    }
}

fn program(args: &WaitArgs, start: &Start) -> Result<Option<Program>, VerbError> {
    Ok(Program::find(&args.command, value_of(start.variables, "PATH"))?)
}

/// Waits, and ends with [`Exit::Opened`] when the gate opens.
fn wait_until_open(
    args: &WaitArgs,
    (policy, memory): (Policy, Option<Memory>),
    start: &Start,
    signals: &Signals,
    worker_pipe: &WorkerPipe,
) -> Result<Exit, VerbError> {
    // CMD is checked first, so a typing error does not cost a wait of forty minutes.
    program(args, start)?;
    let root = root::asked(args.look.root.as_deref(), &args.node)?;
    let peermem = args.look.peermem.then(PeermemExpected::default);
    let node = Node::new(&args.node, &root, peermem, start.variables)?;
    let (metrics, last_words) = outputs(&args.waiting.pace, &node.places.marker, start)?;
    let asked = WaitRequest { node, policy, metrics, memory };
    // To close the watches takes the kernel up to 20 ms, and CMD does not wait for the end of this process.
    let mut waiting = ManuallyDrop::new(WaitLoop::new(&asked, signals));
    let ended = waiting.wait();
    // An observation is as old as the beginning of its look.
    let at =
        if matches!(ended, Ok(Opening::Ready)) { waiting.watch.last_look } else { waiting.gate.last_step() };
    worker_pipe.decided(at, &serde_json::to_vec(waiting.gate.memory()).unwrap_or_default());
    Ok(match ended {
        Ok(_) => Exit::Opened,
        Err(exit) => last_words.leave(exit, &waiting.last_words, waiting.gate.verdict()),
    })
}

/// Becomes CMD, unless a signal came at the last moment.
fn open(args: &WaitArgs, start: &Start, signals: &Signals) -> Result<Exit, VerbError> {
    if let Some(signal) = signals.restore() {
        let sentence = format!("ended by signal {signal} while opening");
        tracing::warn!("{sentence}");
        return Ok(start.last_words.leave(Exit::Signal(signal), &sentence, None));
    }
    let Some(program) = program(args, start)? else { return Ok(Exit::Opened) };
    Err(program.exec().into())
}
