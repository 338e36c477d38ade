// SPDX-License-Identifier: Apache-2.0
//! `load`: waits until nvidia-peermem will load, loads it with the system's modprobe, and proves it live.

pub mod attempt;
mod kmsg;
pub mod loader;
pub mod shim;

use crate::cli::environment::value_of;
use crate::cli::{LoadArgs, Rebuild, log};
use crate::peermem::driver_root;
use crate::process::exec::Unrunnable;
use crate::process::supervisor::SuperviseOptions;
use crate::process::system_program::{Interruption, MODPROBE, OutputMode, Ran, SystemProgram};
use crate::process::{WorkerPipe, privilege};
use crate::ready::clock::now;
use crate::ready::condition::{ConditionType, Reason};
use crate::ready::exit::Exit;
use crate::ready::gate::{Opening, Policy};
use crate::ready::node::{Node, PeermemExpected};
use crate::ready::probe;
use crate::ready::time::Seconds;
use crate::ready::verdict::Outcome;
use crate::ready::wake::Signals;
use crate::rebuild::rebuilder::{Rebuilder, knowing_rebuild};
use crate::start::{Start, VerbError};
use crate::watch::slow_command::SlowCommandWatch;
use crate::watch::supervised::{Outputs, for_peermem, limit, refuse_others, signals, supervised};
use crate::watch::wait_loop::{WaitLoop, WaitRequest};
use crate::words::last_words::LastWords;
use attempt::{LoadFailure, LoadResult, Why};
use loader::Loader;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// After this long modprobe is slow, which is logged.
const SLOW: Duration = Duration::from_secs(2);
/// After this long it hangs. The kernel itself waits half a minute for each symbol of a module that is still
/// loading (`kernel/module/main.c`), and nothing is loaded before what it needs is live.
const HANGS: Duration = Duration::from_secs(60);

/// Loads, and reports the result.
pub(crate) fn run(args: &LoadArgs, disabled: Option<&str>, start: &Start) -> Result<Exit, VerbError> {
    let signals = signals()?;
    log::start(&args.log);
    let policy = Policy::of_load(&args.waiting)?;
    refuse_others("load", &args.node)?;
    let work = |worker_pipe: &WorkerPipe| {
        if args.waiting.dry_run {
            return dry_run(args, policy.clone(), disabled, start, &signals);
        }
        let arguments = arguments(args, start);
        if let Some(reason) = disabled {
            let modprobe = modprobe(args, asked_root(args), start)?;
            return without_a_look(reason, &modprobe, &arguments, start, &signals);
        }
        let (request, last_words) = wait_request(args, policy.clone(), start)?;
        let modprobe = modprobe(args, &driver_root::driver_root_now(&request.node.places), start)?;
        let rebuilder = rebuilder(args, start);
        let asked = LoadRequest {
            modprobe: &modprobe,
            arguments: &arguments,
            output: OutputMode::Kept,
            worker_pipe,
            rebuilder: &rebuilder,
        };
        Ok(asked.load(&request, &last_words, &signals).map_or_else(|exit| exit, |_| Exit::Opened))
    };
    // Without a look there is no gate, so only modprobe's end ends it.
    let limit = limit(&policy).filter(|_| disabled.is_none());
    let terms = SuperviseOptions { keeps_stdout: true, ..SuperviseOptions::new(&signals, limit) };
    Ok(supervised(terms, start, work)?.exit(start))
}

fn modprobe(args: &LoadArgs, root: &Path, start: &Start) -> Result<SystemProgram, Unrunnable> {
    SystemProgram::find(&MODPROBE, root, value_of(start.variables, "PATH"), args.modprobe.as_deref())
}

/// Where modprobe runs if nothing is looked at.
fn asked_root(args: &LoadArgs) -> &Path {
    args.node.driver_root.as_deref().unwrap_or(Path::new("/"))
}

fn arguments(args: &LoadArgs, start: &Start) -> Vec<OsString> {
    // If the module's own install line runs us, modprobe would run us again.
    let option = is_by_install_line(start).then(|| OsString::from("--ignore-install"));
    let name = OsString::from("nvidia-peermem");
    option.into_iter().chain([name]).chain(args.parameters.iter().cloned()).collect()
}

/// modprobe sets it for the commands of its install lines.
fn is_by_install_line(start: &Start) -> bool {
    value_of(start.variables, "MODPROBE_MODULE").is_some_and(|name| name == "nvidia_peermem")
}

pub(crate) fn rebuilder(args: &LoadArgs, start: &Start) -> Rebuilder {
    Rebuilder::new(&args.rebuilding, start.variables)
}

/// The wait before a load, and where the last words go.
pub(crate) fn wait_request(
    args: &LoadArgs,
    policy: Policy,
    start: &Start,
) -> Result<(WaitRequest, LastWords), VerbError> {
    let only_ours = args.rebuilding.rebuild != Rebuild::Off;
    let peermem = PeermemExpected { parameters: texts(&args.parameters), only_ours };
    let mut node = Node::new(&args.node, Path::new("/"), Some(peermem), start.variables)?;
    for_peermem(&mut node);
    // The modprobe that runs us is in the right root.
    node.places.finds_driver &= !is_by_install_line(start);
    let Outputs { metrics, last_words } = Outputs::check(&args.waiting.pace, &node.places.marker, start)?;
    Ok((WaitRequest { node, policy, metrics, memory: None }, last_words))
}

pub(crate) fn texts(words: &[OsString]) -> Vec<String> {
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// One look that loads nothing. It needs no modprobe, and warns where there is none.
fn dry_run(
    args: &LoadArgs,
    policy: Policy,
    disabled: Option<&str>,
    start: &Start,
    signals: &Signals,
) -> Result<Exit, VerbError> {
    let try_to_find = |root: &Path| {
        if let Err(why) = modprobe(args, root, start) {
            tracing::warn!("dry run: a load would fail: {}", why.message);
        }
    };
    if disabled.is_some() {
        try_to_find(asked_root(args));
        tracing::warn!("the gate is disabled, and this is a dry run: nothing is loaded");
        return Ok(Exit::Opened);
    }
    let (asked, last_words) = wait_request(args, policy, start)?;
    try_to_find(&driver_root::driver_root_now(&asked.node.places));
    let mut waiting = WaitLoop::new(&asked, signals);
    waiting.gate.allow_rebuild(args.rebuilding.rebuild != Rebuild::Off);
    Ok(match waiting.wait() {
        Ok(_) => Exit::Opened,
        Err(exit) => last_words.leave(exit, waiting.last_words(), waiting.verdict()),
    })
}

/// As modprobe would have loaded it without the gate.
fn without_a_look(
    reason: &str,
    modprobe: &SystemProgram,
    arguments: &[OsString],
    start: &Start,
    signals: &Signals,
) -> Result<Exit, VerbError> {
    tracing::warn!("loading without a look: the gate is disabled: {reason}");
    let ran = modprobe
        .run(arguments, OutputMode::Passed, signals.fd(), || signals.take_one().map(Interruption::Signal))?;
    Ok(match ran {
        Ran { broken_off: Some(Interruption::Signal(signal)), .. } => Exit::Signal(signal),
        Ran { code: 0, .. } => Exit::Opened,
        ran => {
            let sentence = format!("modprobe ended with {}: {}", ran.code, ran.stderr.trim_end());
            tracing::error!("{sentence}");
            start.last_words.leave(Exit::Blocked, &sentence, None)
        }
    })
}

/// A load: the program, and its arguments.
pub(crate) struct LoadRequest<'a> {
    /// The modprobe to run, and where.
    pub(crate) modprobe: &'a SystemProgram,
    /// Its arguments.
    pub(crate) arguments: &'a [OsString],
    /// Where modprobe's output goes.
    pub(crate) output: OutputMode,
    /// How long a load may still run when the deadline passes.
    pub(crate) worker_pipe: &'a WorkerPipe,
    /// Rebuilds a module file that needs it.
    pub(crate) rebuilder: &'a Rebuilder,
}

impl LoadRequest<'_> {
    /// Waits, loads the module, and proves that it is live: with modprobe's exit code if it had to run. Without one,
    /// there was nothing to load.
    ///
    /// # Errors
    /// How it ended without a live module. The last words say why.
    pub(crate) fn load(
        &self,
        asked: &WaitRequest,
        last_words: &LastWords,
        signals: &Signals,
    ) -> Result<Option<u8>, Exit> {
        let mut waiting = WaitLoop::new(asked, signals);
        waiting.gate.allow_rebuild(self.rebuilder.mode != Rebuild::Off);
        if self.rebuilder.mode == Rebuild::Off {
            waiting.watch.refine_by(knowing_rebuild);
        }
        if let Some(sentence) = self.hopeless(&mut waiting) {
            tracing::error!("{sentence}");
            return Err(last_words.leave(Exit::Blocked, &sentence, None));
        }
        let mut failed = None;
        loop {
            let result = match waiting.wait() {
                Ok(Opening::Ready) => self.attempt(&mut waiting),
                Ok(Opening::ForRebuild) => {
                    self.rebuild(&mut waiting).map_or_else(|ended| ended, |()| self.attempt(&mut waiting))
                }
                Ok(_) => return Ok(None),
                Err(exit) => {
                    let sentence = words(waiting.last_words(), failed.as_ref(), exit);
                    return Err(last_words.leave(exit, &sentence, waiting.verdict()));
                }
            };
            let (exit, sentence) = match result {
                LoadResult::Live(sentence, code) => {
                    tracing::info!("{sentence}");
                    return Ok(code);
                }
                LoadResult::Again(why) => {
                    waiting.opening_failed();
                    failed = Some(why);
                    continue;
                }
                LoadResult::Overlapped(how) => (
                    Exit::Blocked,
                    format!(
                        "loaded, but MOFED began to restart meanwhile ({how}): nvidia_peermem now pins its \
                            modules and keeps it from starting; what to do: run `rmmod nvidia_peermem`"
                    ),
                ),
                LoadResult::Refused(why) => (Exit::Blocked, why.sentence),
                LoadResult::Late(why) => {
                    (Exit::TimedOut, format!("gave up: {why}{}", whether_it_is_there(asked)))
                }
                LoadResult::CannotRun { exit, message } => (exit, message),
                LoadResult::Signal(signal, _) => {
                    let exit = waiting.signaled(signal);
                    let sentence = format!("{}{}", waiting.last_words(), whether_it_is_there(asked));
                    return Err(last_words.leave(exit, &sentence, waiting.verdict()));
                }
            };
            tracing::error!("{sentence}");
            return Err(last_words.leave(exit, &sentence, waiting.verdict()));
        }
    }

    /// Why the wait would be useless: the module cannot be loaded on this node. Not where there is nothing to load.
    fn hopeless(&self, waiting: &mut WaitLoop) -> Option<String> {
        let WaitRequest { node, policy, .. } = waiting.asked();
        let (why, remedy) =
            privilege::cannot_load(&node.places, self.modprobe.root()).filter(|_| !policy.dry_run)?;
        let verdict = waiting.look_now()?.verdict;
        let peermem = verdict.get(ConditionType::PeermemUsable).map(|c| c.reason);
        let is_done = verdict.outcome == Outcome::NotApplicable
            || matches!(peermem, Some(Reason::PeermemLive | Reason::LoadedOnGoneStack));
        (!is_done).then(|| format!("gave up: {why}; what to do: {remedy}"))
    }

    /// Rebuilds nvidia-peermem.ko.
    ///
    /// # Errors
    /// Nothing to load came of it.
    fn rebuild(&self, waiting: &mut WaitLoop) -> Result<(), LoadResult> {
        let mut rebuilder = self.rebuilder.clone();
        rebuilder.deadline = waiting.gate.deadline();
        let mut slow_command = SlowCommandWatch::over(
            "rebuilding nvidia-peermem.ko",
            waiting.asked().policy.heartbeat,
            waiting.asked().policy.heartbeat,
        );
        let mut next = Duration::ZERO;
        let end = rebuilder.rebuild(&mut waiting.watch, &waiting.gate, &mut |_| {
            slow_command.warn_if_slow();
            if slow_command.spent() >= next {
                // What follows the build, depmod above all, is better finished than broken off.
                let _ = self.worker_pipe.needs(HANGS);
                next = slow_command.spent() + Duration::from_secs(1);
            }
        });
        let pause = waiting.gate.rebuilt(now(), end.for_gate());
        let next = LoadResult::after_rebuild(&end, end.sentence());
        match &next {
            Ok(sentence) => tracing::info!("{sentence}"),
            Err(LoadResult::Again(why)) => {
                let again = pause.map(|pause| format!("; another attempt follows in {}", Seconds(pause)));
                tracing::warn!("{}{}", why.sentence, again.unwrap_or_default());
            }
            Err(_) => {}
        }
        next.map(|_| ())
    }

    fn attempt(&self, waiting: &mut WaitLoop) -> LoadResult {
        let granted = self.worker_pipe.needs(HANGS);
        let mut slow_command =
            SlowCommandWatch::over("loading nvidia_peermem", SLOW, waiting.asked().policy.heartbeat);
        let mut loader = Loader {
            modprobe: self.modprobe.clone(),
            arguments: self.arguments,
            output: self.output,
            is_late: &mut |_| {
                slow_command.warn_if_slow();
                granted.is_spent(slow_command.spent())
            },
        };
        let result = loader.attempt(&mut waiting.watch, &waiting.gate);
        if let LoadResult::Again(why) = &result {
            tracing::warn!("not loaded yet: {}", why.sentence);
        }
        result
    }
}

/// Whether the module was loaded: a signal came while modprobe ran, or modprobe hangs.
fn whether_it_is_there(asked: &WaitRequest) -> String {
    match probe::is_listed(&asked.node.places) {
        Ok(true) => {
            tracing::warn!("nvidia_peermem was loaded and now pins MOFED's modules");
            "; nvidia_peermem was loaded and now pins MOFED's modules".to_owned()
        }
        Ok(false) => "; nvidia_peermem is not loaded".to_owned(),
        Err(why) => format!("; whether nvidia_peermem is loaded is unknown: {why}"),
    }
}

/// The last words of a wait that ended. The failure of a rebuild comes before the fault that it was to cure, whose
/// remedies are long.
fn words(waited: &str, failed: Option<&Why>, exit: Exit) -> String {
    match failed {
        Some(why) if why.failure == LoadFailure::Rebuild && exit == Exit::TimedOut => {
            format!("{}; {waited}", why.sentence)
        }
        Some(why) => format!("{waited}; not loaded before: {}", why.sentence),
        None => waited.to_owned(),
    }
}
