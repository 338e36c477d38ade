// SPDX-License-Identifier: Apache-2.0
//! `wait`: holds until MOFED is ready; then exits, or becomes CMD.

use super::held::{Held, Hold};
use super::looking::{Outputs, SupervisedEnd, end_hung, limit, log_briefly, signals, supervised};
use super::{Start, Stop, expected, root, toolkit};
use crate::act::exec::Program;
use crate::act::log;
use crate::act::supervisor::Terms;
use crate::cli::Rebuild;
use crate::cli::WaitArgs;
use crate::ending::Ending;
use crate::environment::value_of;
use crate::gate::{Effect, Opening, Policy};
use crate::node::{Node, PeermemExpected};
use crate::wake::Signals;
use std::mem::ManuallyDrop;
use std::time::Duration;

/// Waits, and returns only when there is no CMD to become.
pub(super) fn run(args: &WaitArgs, disabled: Option<&str>, start: &Start) -> Result<Ending, Stop> {
    let signals = signals()?;
    log::start(&args.log);
    if let Some(reason) = disabled {
        program(args, start)?;
        tracing::warn!("open: the gate is disabled: {reason}");
        return open(args, start, &signals);
    }
    let policy = Policy::of_wait(args)?;
    let proceeds = policy.proceed_on_timeout;
    let may_outlive = !args.command.is_empty();
    let terms = Terms { signals: &signals, limit: limit(&policy), keeps_stdout: false, may_outlive };
    match supervised(terms, start, |_| hold(args, policy, start, &signals))? {
        SupervisedEnd::Ended(Ending::Opened) => open(args, start, &signals),
        SupervisedEnd::Ended(ending) => Ok(ending),
        SupervisedEnd::Hung(hung) if hung.signal.is_none() && proceeds => {
            let how = hung.sentence();
            log_briefly(|| {
                log::exclaim(&format!("OPEN ALTHOUGH NOT READY, for --on-timeout is proceed: {how}"));
            });
            open(args, start, &signals)
        }
        SupervisedEnd::Hung(hung) => Ok(end_hung(start, &hung)),
    }
}

fn program(args: &WaitArgs, start: &Start) -> Result<Option<Program>, Stop> {
    Ok(Program::find(&args.command, value_of(start.variables, "PATH"))?)
}

/// Holds, and ends with [`Ending::Opened`] when the gate opens.
fn hold(args: &WaitArgs, policy: Policy, start: &Start, signals: &Signals) -> Result<Ending, Stop> {
    // A typing error should not cost forty minutes.
    program(args, start)?;
    let root = root::asked(args.look.root.as_deref(), &args.node)?;
    let peermem = args.look.peermem.then(PeermemExpected::default);
    // A wait in the operator's own containers has the operator's variables; one look is asked by others.
    let node = if policy.timeout == Some(Duration::ZERO) {
        expected::node(&args.node, &root, peermem, start.variables)?
    } else {
        Node::new(&args.node, &root, peermem, start.variables)?
    };
    let Outputs { metrics, last_words } = Outputs::check(&args.hold.pace, &node.places.marker, start)?;
    let asked = Hold { node, policy, metrics };
    // To close the watches takes the kernel up to 20 ms, and CMD does not wait for the end of this process.
    let mut held = ManuallyDrop::new(Held::new(&asked, signals));
    Ok(match held.hold() {
        Effect::End(ending) => last_words.leave(ending, held.last_words(), held.verdict()),
        Effect::Open(Opening::Ready) if args.rebuild == Rebuild::Auto => {
            match toolkit::order_when_open(&toolkit::directory(start.variables), &asked.node, &held.gate) {
                Some(Ok(message)) => tracing::warn!("{message}"),
                Some(Err(obstacle)) => tracing::error!("{obstacle}"),
                None => {}
            }
            Ending::Opened
        }
        _ => Ending::Opened,
    })
}

/// Becomes CMD, unless a signal came at the last moment.
fn open(args: &WaitArgs, start: &Start, signals: &Signals) -> Result<Ending, Stop> {
    if let Some(signal) = signals.restore() {
        let sentence = format!("ended by signal {signal} while opening");
        tracing::warn!("{sentence}");
        return Ok(start.last_words.leave(Ending::Signal(signal), &sentence, None));
    }
    let Some(program) = program(args, start)? else { return Ok(Ending::Opened) };
    Err(program.become_it().into())
}
