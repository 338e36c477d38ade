// SPDX-License-Identifier: Apache-2.0
//! The common start of all verbs that look at the node: signals, a supervisor,
//! and options that are checked.

use crate::cli;
use crate::cli::environment::Misuse;
use crate::cli::{NodeArgs, PaceArgs, log};
use crate::process::hung::Hung;
use crate::process::output::OutputFile;
use crate::process::supervisor::{SuperviseOptions, Supervised, WorkerResult};
use crate::process::termination_log::TerminationLog;
use crate::process::{WorkerPipe, subtask, supervisor, terminal};
use crate::ready::consumer::Consumer;
use crate::ready::errno;
use crate::ready::exit::Exit;
use crate::ready::gate::Policy;
use crate::ready::node::Node;
use crate::ready::wake::Signals;
use crate::start::{Start, VerbError};
use crate::words::last_words::LastWords;
use crate::words::report::style::Style;
use anyhow::Context;
use nix::sys::signal::Signal;
use std::path::Path;
use std::time::Duration;

/// How long one look may take if no deadline was given. Unpacking a driver's modules takes seconds, and longer
/// on a busy node.
pub const ONE_LOOK: Duration = Duration::from_secs(60);

/// Takes the signals. This comes before anything slow, because PID 1 would lose an earlier signal.
///
/// # Errors
/// signalfd(2)'s.
pub fn signals() -> anyhow::Result<Signals> {
    Signals::take().context("cannot receive signals")
}

/// The style of an answer on standard output. This comes before the work starts in another process, which has no
/// terminal.
#[must_use]
pub fn style(start: &Start) -> Style {
    Style::new(terminal::columns(), start.variables)
}

impl Supervised<Result<Exit, Hung>> {
    /// Ends so; of work that hangs the log says why.
    #[must_use]
    pub fn exit(self, start: &Start) -> Exit {
        self.end.unwrap_or_else(|hung| {
            let exit = hung.signal.map_or(Exit::TimedOut, Exit::Signal);
            log_briefly(|| _ = start.last_words.report(exit, &hung.sentence()));
            exit
        })
    }
}

/// Looks in another process, which may hang without delaying this one. Work that ended has logged why; work that
/// hangs is not reported yet.
///
/// # Errors
/// No process could be started, or its answer could not be written.
pub fn supervised(
    terms: SuperviseOptions<'_>,
    start: &Start,
    work: impl FnOnce(&WorkerPipe) -> Result<Exit, VerbError>,
) -> Result<Supervised<Result<Exit, Hung>>, VerbError> {
    let finished = supervisor::run(terms, |worker_pipe| code(work(worker_pipe), start));
    let Supervised { end, decided, was_signaled } =
        finished.context("cannot start a process to look with")?;
    Ok(Supervised { end: ended(end, start)?, decided, was_signaled })
}

/// The exit code of work that ended so, or could not begin.
pub(crate) fn code(ended: Result<Exit, VerbError>, start: &Start) -> u8 {
    ended.unwrap_or_else(|stop| stop.end(&start.last_words)).code()
}

fn ended(end: WorkerResult, start: &Start) -> anyhow::Result<Result<Exit, Hung>> {
    Ok(match end {
        WorkerResult::Ended(0) => Ok(Exit::Opened),
        WorkerResult::Ended(code) => Ok(Exit::Passed(code)),
        WorkerResult::AnswerLost(error) => {
            return Err(anyhow::Error::from(error).context("cannot write to standard output"));
        }
        WorkerResult::Killed(signal) => Ok(killed(&start.last_words, signal)),
        WorkerResult::Hung(hung) => Err(hung),
    })
}

fn killed(last_words: &LastWords, signal: Option<i32>) -> Exit {
    let named = signal.and_then(|number| Signal::try_from(number).ok());
    let by = signal.map_or_else(String::new, |signal| format!(" by signal {signal}"));
    let name = named.map_or_else(String::new, |signal| format!(" ({signal})"));
    let advice = match named {
        Some(Signal::SIGSYS) => {
            "a seccomp profile does not allow one of its system calls: use the profile of this release, or \
            RuntimeDefault"
        }
        Some(Signal::SIGKILL) | None => {
            "look for an out-of-memory kill in the kernel's log, and raise the container's memory limit"
        }
        Some(_) => "find out who sent this signal; if nobody did, this is a bug in peermem-gate: report it",
    };
    let sentence = format!("error: the process that looks was killed{by}{name}: {advice}");
    log_briefly(|| _ = last_words.report(Exit::Failed, &sentence));
    Exit::Failed
}

/// How long to wait for the termination log, which may be on the file system that hangs.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Logs something that may itself hang.
pub fn log_briefly(report: impl FnOnce()) {
    if let Err(error) = subtask::briefly(LAST_WORDS, report) {
        log::print_unstamped(&format!(
            "cannot start a process to write the termination log: {}",
            errno::words(&error)
        ));
    }
}

/// When a wait must end, even during a look.
pub(crate) fn limit(policy: &Policy) -> Option<Duration> {
    let is_one_look = policy.dry_run || policy.timeout == Some(Duration::ZERO);
    if is_one_look { Some(ONE_LOOK) } else { policy.timeout.map(|timeout| timeout + supervisor::GRACE) }
}

/// The consumer whose module `load` and `keep` load.
const LOADED: Consumer = Consumer::Peermem;

/// A verb that loads nvidia-peermem checks only for its readiness.
pub(crate) fn for_peermem(node: &mut Node) {
    node.expected.consumers = vec![LOADED];
    node.expected.precedes_driver = false;
}

/// `verb` loads nvidia-peermem: a `--for` without peermem asks for something else.
pub(crate) fn refuse_others(verb: &str, args: &NodeArgs) -> Result<(), Misuse> {
    if cli::consumers(&args.r#for).contains(&LOADED) {
        return Ok(());
    }
    Err(Misuse::Message(format!(
        "`{verb}` is for {LOADED}, but --for (PEERMEM_GATE_FOR) names only others: omit it, or use `wait`"
    )))
}

/// The driver container's script compares with `true` (gpu-driver-container, `_gpu_direct_rdma_enabled`): by any
/// other value the driver is built without RDMA, and the gate does not wait. A person who wrote one may not know
/// that.
pub(crate) fn warn_of_odd_request(node: &Node) {
    if let Some(value) = node.expected.rdma_requested.as_deref().filter(|v| !["true", "false"].contains(v)) {
        tracing::warn!(
            "GPU_DIRECT_RDMA_ENABLED is {value:?}: only \"true\" requests GPUDirect RDMA, for the driver's container too"
        );
    }
}

/// The files that a waiting verb writes: its metrics, and its last words.
pub(crate) fn outputs(
    pace: &PaceArgs,
    marker: &Path,
    start: &Start,
) -> Result<(Option<OutputFile>, LastWords), Misuse> {
    let metrics = output("--metrics-file", pace.metrics_file.as_deref(), marker)?;
    Ok((metrics, last_words(marker, start)?))
}

/// The termination log, which must not be beside the marker.
pub(crate) fn last_words(marker: &Path, start: &Start) -> Result<LastWords, Misuse> {
    let away = |log: TerminationLog| {
        let path = log.path.clone();
        log.away_from(marker).map_err(|error| misplaced("--termination-log", &path, &errno::words(&error)))
    };
    Ok(LastWords { log: start.last_words.log.clone().map(away).transpose()? })
}

/// A file that was asked for by `option`.
///
/// # Errors
/// Nothing is written there: it is not a regular file, or beside MOFED's marker.
pub fn output(option: &str, path: Option<&Path>, marker: &Path) -> Result<Option<OutputFile>, Misuse> {
    let what = option.trim_start_matches('-').replace('-', " ");
    let file = |path| OutputFile::new(&what, path, marker).map_err(|why| misplaced(option, path, &why));
    path.map(file).transpose()
}

fn misplaced(option: &str, path: &Path, why: &str) -> Misuse {
    Misuse::Misplaced(format!("{option} {}: {why}: choose another place", path.display()))
}
