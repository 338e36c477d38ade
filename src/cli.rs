// SPDX-License-Identifier: Apache-2.0
//! The command line as typed: clap structs, and the value parsers they name.
//!
//! The environment mirrors are derived from these options in [`crate::environment`].

use crate::consumer::Consumer;
use crate::help;
use crate::rebuild::Wish;
use crate::stamp;
use crate::timeline::Since;
use crate::version::Version;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Below the short help.
const MORE: &str = "`--help` explains more, with exit codes, examples and environment variables.";

/// Holds the GPU driver back until the MOFED driver is truly ready, and says what it waits for
#[derive(Debug, Parser)]
#[command(name = "peermem-gate", version = crate::VERSION, after_help = MORE, after_long_help = help::long(""), arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What was asked for.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "clap would print it; each is explained where its options are declared")]
pub enum Verb {
    Wait(WaitArgs),
    Check(CheckArgs),
    Load(LoadArgs),
    Keep(KeepArgs),
    Doctor(DoctorArgs),
    Fleet(FleetArgs),
    Timeline(TimelineArgs),
    Rebuild(RebuildArgs),
    Install(InstallArgs),
}

/// Hold until MOFED is ready; then exit 0, or become CMD
#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("wait"))]
pub struct WaitArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub hold: HoldArgs,
    /// At the deadline
    ///
    /// What to do at the deadline: end with 124, or open anyway and say so
    #[arg(long, value_name = "ACTION", default_value = "fail")]
    pub on_timeout: OnTimeout,
    /// End at once, with 3, when waiting cannot help
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub fail_fast: bool,
    /// auto: have `OpenShift`'s driver toolkit build again
    ///
    /// auto: on `OpenShift`, have the driver toolkit build again what it built without MOFED
    #[arg(long, value_name = "off|auto", default_value = "off", value_parser = wish)]
    pub rebuild: Wish,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub look: LookArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub node: NodeArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub log: LogArgs,
    /// What to become when the gate opens
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Wait, inspect nvidia-peermem.ko, load it with modprobe, prove it live
#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("load"))]
pub struct LoadArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub hold: HoldArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub heal: HealArgs,
    /// The modprobe to run
    ///
    /// The modprobe to run [default: the first in PATH that is not this program]
    #[arg(long, value_name = "PATH")]
    pub modprobe: Option<PathBuf>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub node: NodeArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub log: LogArgs,
    /// The module's parameters, as modprobe takes them
    #[arg(last = true, value_name = "PARAM=VALUE", value_parser = parameter)]
    pub parameters: Vec<OsString>,
}

/// Stay: load, let go when MOFED is about to swap its modules, load again after
#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("keep"))]
pub struct KeepArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub pace: PaceArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub heal: HealArgs,
    /// Never unload
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub no_yield: bool,
    /// Unload when told to end
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub unload_on_exit: bool,
    /// Where to leave the report and the state, replaced atomically
    #[arg(long, value_name = "PATH")]
    pub status_file: Option<PathBuf>,
    /// The modprobe to run
    ///
    /// The modprobe to run [default: the first in PATH that is not this program]
    #[arg(long, value_name = "PATH")]
    pub modprobe: Option<PathBuf>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub node: NodeArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub log: LogArgs,
    /// The module's parameters, as modprobe takes them
    #[arg(last = true, value_name = "PARAM=VALUE", value_parser = parameter)]
    pub parameters: Vec<OsString>,
}

/// Options of the verbs that hold until the node is ready.
#[derive(Debug, Args)]
pub struct HoldArgs {
    /// How long to hold, like 10s, 20m, 2h or none
    ///
    /// How long to hold: a whole number with ms, s, m or h, or none; 0s is one look
    #[arg(long, value_name = "DUR|none", default_value = "30m", value_parser = timeout)]
    pub timeout: Timeout,
    /// Look once, log what is missing, open
    ///
    /// Look once, log what would be waited for, then open (`load` does not load)
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub dry_run: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub pace: PaceArgs,
}

/// Options of every verb that waits for something, `keep` included.
#[derive(Debug, Args)]
pub struct PaceArgs {
    /// How long everything must hold without a break
    #[arg(long, value_name = "DUR", default_value = "1s", value_parser = duration)]
    pub settle: Duration,
    /// How long a suspect marker is not believed
    #[arg(long, value_name = "DUR", default_value = "5m", value_parser = duration)]
    pub suspect_hold: Duration,
    /// How often to say that it still waits
    #[arg(long, value_name = "DUR", default_value = "60s", value_parser = heartbeat)]
    pub heartbeat: Duration,
    /// Where the closing verdict goes
    ///
    /// Where the closing verdict goes [default: /dev/termination-log if it exists]
    #[arg(long, value_name = "PATH")]
    pub termination_log: Option<PathBuf>,
    /// A Prometheus textfile, replaced atomically
    #[arg(long, value_name = "PATH")]
    pub metrics_file: Option<PathBuf>,
}

/// Options of the verbs that may rebuild nvidia-peermem.
#[derive(Debug, Args)]
pub struct HealArgs {
    /// Build nvidia-peermem.ko again if only that is wrong
    ///
    /// Build nvidia-peermem.ko again when only that is wrong: off, auto, or a program that does
    #[arg(long, value_name = "off|auto|PATH", default_value = "off", value_parser = wish)]
    pub rebuild: Wish,
    /// How long a rebuild may take
    #[arg(long, value_name = "DUR", default_value = "5m", value_parser = duration)]
    pub rebuild_timeout: Duration,
}

/// Rebuild nvidia-peermem.ko for this kernel, nvidia and MOFED, or report why not
#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("rebuild"))]
pub struct RebuildArgs {
    /// Print what would be done, and do nothing
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub dry_run: bool,
    /// Remove what a rebuild installed
    ///
    /// Remove the nvidia-peermem.ko that a rebuild installed
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub undo: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub heal: HealArgs,
    /// Where the last words go
    ///
    /// Where the last words go [default: /dev/termination-log if it exists]
    #[arg(long, value_name = "PATH")]
    pub termination_log: Option<PathBuf>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub node: NodeArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub log: LogArgs,
}

/// One look, one verdict, no waiting
#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("check"))]
pub struct CheckArgs {
    /// How to report
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: AnswerFormat,
    /// Judge by what `keep` left here, and by its age, instead of looking
    #[arg(long, value_name = "PATH")]
    pub status_file: Option<PathBuf>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub look: LookArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub node: NodeArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub log: LogArgs,
}

/// All that is wrong on this node with GPUDirect RDMA, with evidence and remedy
#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("doctor"))]
#[expect(clippy::doc_markdown, reason = "clap prints it")]
pub struct DoctorArgs {
    /// How to report
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: Format,
    /// Show all evidence and conditions
    ///
    /// Show all evidence, remedies and conditions; by default the answer fits a screen
    #[arg(short, long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub verbose: bool,
    /// Prefix for every path that is read
    ///
    /// Prefix for every path that is read [default: /host in a pod that has the host there, or /]
    #[arg(long, value_name = "DIR", value_parser = root)]
    pub root: Option<PathBuf>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub node: NodeArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub log: LogArgs,
}

/// Roll up the reports of many nodes
#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("fleet"))]
pub struct FleetArgs {
    /// Reports of `doctor --format json`, one a line [default: standard input]
    ///
    /// Reports of `doctor --format json`, one a line; a prefix by `kubectl logs` is skipped.
    ///
    /// [default: standard input]
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Output of `kubectl get nodes,pods -A -o json`
    ///
    /// Output of `kubectl get nodes,pods -A -o json`.
    ///
    /// Adds nodes without a report, and driver pods that are missing or have no gate.
    #[arg(long, value_name = "FILE")]
    pub nodes: Option<PathBuf>,
    /// How to report
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: Format,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub log: LogArgs,
}

/// Draw what happened on a node, from what its logs and files still show
#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("timeline"))]
pub struct TimelineArgs {
    /// Logs, must-gathers or sosreports of one node [default: this node]
    #[arg(value_name = "FILE|DIR")]
    pub files: Vec<PathBuf>,
    /// How to draw
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: Picture,
    /// Only what happened since then [default: the last boot]
    ///
    /// Only what happened since then: 2025-11-21T11:50:00Z, or 3h before the end
    #[arg(long, value_name = "TIME|DUR", value_parser = since)]
    pub since: Option<Since>,
    /// The node, where files are of several
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Prefix for every path
    ///
    /// Prefix for every path that is read [default: /host in a pod that has the host there, or /]
    #[arg(long, value_name = "DIR", value_parser = root)]
    pub root: Option<PathBuf>,
    /// The proc file system [default: proc below --root]
    #[arg(long, value_name = "DIR", value_parser = directory)]
    pub proc: Option<PathBuf>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub log: LogArgs,
}

/// Put this program, and the modprobe shim, into a shared volume
#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("install"))]
pub struct InstallArgs {
    /// Where the volume is mounted; the directory must exist
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    #[command(flatten)]
    #[expect(missing_docs, reason = "clap would print it")]
    pub log: LogArgs,
}

/// Options of the verbs that look and load nothing.
#[derive(Debug, Args)]
pub struct LookArgs {
    /// Also ask whether nvidia-peermem.ko will load
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub peermem: bool,
    /// Prefix for every path that is read
    ///
    /// Prefix for every path that is read [default: /; `check`: /host in a pod that has it]
    #[arg(long, value_name = "DIR", value_parser = root)]
    pub root: Option<PathBuf>,
}

/// Options of every verb that looks at the node.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// Whose readiness: peermem, fabric, any
    ///
    /// Whose readiness is asked for; `any`: of all that need MOFED on this node
    #[arg(
        long,
        value_name = "WHO",
        value_delimiter = ',',
        default_value = "peermem",
        hide_possible_values = true
    )]
    pub r#for: Vec<For>,
    /// Precompiled GPU driver: no header check
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub precompiled: bool,
    /// The MOFED version to expect
    ///
    /// The MOFED version to expect [default: what MOFED's header tree says]
    #[arg(long, value_name = "V")]
    pub mofed_version: Option<Version>,
    /// RDMA modules
    ///
    /// The RDMA modules that must be live
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "ib_core,ib_uverbs,mlx5_core,mlx5_ib", value_parser = module_name)]
    pub module: Vec<String>,
    /// MOFED's ready marker
    ///
    /// MOFED's marker [default: `DRIVER_READY_PATH`, or /run/mellanox/drivers/.driver-ready]
    #[arg(long, value_name = "PATH", value_parser = absolute)]
    pub marker: Option<PathBuf>,
    /// The root of the GPU driver's files
    ///
    /// Where the GPU driver is: nvidia-peermem.ko is found, and modprobe run, below it
    #[arg(long, value_name = "DIR", default_value = "/", value_parser = directory)]
    pub driver_root: PathBuf,
    /// The proc file system [default: proc below --root]
    #[arg(long, value_name = "DIR", value_parser = directory)]
    pub proc: Option<PathBuf>,
    /// The sys file system [default: sys below --root]
    #[arg(long, value_name = "DIR", value_parser = directory)]
    pub sys: Option<PathBuf>,
}

/// Options of every verb.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// How to log
    ///
    /// How to log, on standard error
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: Format,
    /// Log error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = level)]
    pub log_level: tracing::Level,
}

impl Default for LogArgs {
    fn default() -> Self {
        Self { log_format: Format::Text, log_level: tracing::Level::INFO }
    }
}

/// Text for people, JSON for machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "clap would print it")]
pub enum Format {
    Text,
    Json,
}

/// Whose readiness is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(clippy::doc_markdown, reason = "clap prints it")]
pub enum For {
    /// nvidia-peermem
    Peermem,
    /// Fabric Manager on an NVLink 5 machine
    Fabric,
    /// All of them
    Any,
}

/// Each once, in the order of the table.
#[must_use]
pub fn consumers(asked: &[For]) -> Vec<Consumer> {
    let is_asked = |consumer: &Consumer| {
        asked.iter().any(|asked| match asked {
            For::Peermem => *consumer == Consumer::Peermem,
            For::Fabric => *consumer == Consumer::Fabric,
            For::Any => true,
        })
    };
    Consumer::ALL.into_iter().filter(is_asked).collect()
}

/// The formats of a single verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "clap would print it")]
pub enum AnswerFormat {
    Text,
    Json,
    /// One sentence of at most 80 bytes, for probes.
    Line,
}

impl From<Format> for AnswerFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Text => Self::Text,
            Format::Json => Self::Json,
        }
    }
}

/// How a timeline is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "clap would print it")]
pub enum Picture {
    Text,
    Svg,
    Json,
}

/// What to do when the time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "clap would print it")]
pub enum OnTimeout {
    Fail,
    Proceed,
}

/// How long to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// For ever.
    None,
    /// This long; zero is one look.
    After(Duration),
}

/// One integer and one unit. A bare number is refused: seconds to one reader are minutes to another.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!("{text:?} is not one whole number and one unit (ms, s, m or h), like 300ms, 10s, 20m or 2h")
    };
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit_at);
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    // A century is more than any wait, and keeps every later sum from overflowing.
    number
        .checked_mul(milliseconds)
        .filter(|ms| *ms <= 100 * 365 * 24 * 3_600_000)
        .map(Duration::from_millis)
        .ok_or_else(|| format!("{text:?} is more than a hundred years"))
}

/// A line more often than this fills a disk and helps nobody.
const SHORTEST_HEARTBEAT: Duration = Duration::from_secs(1);

fn heartbeat(text: &str) -> Result<Duration, String> {
    let heartbeat = duration(text)?;
    if heartbeat < SHORTEST_HEARTBEAT { Err("must be at least 1s".to_owned()) } else { Ok(heartbeat) }
}

fn boolean(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("{text:?} is neither true nor false"))
}

fn wish(text: &str) -> Result<Wish, String> {
    match text {
        "off" => Ok(Wish::Off),
        "auto" => Ok(Wish::Auto),
        _ => absolute(text).map(Wish::By).map_err(|why| format!("{why}; or off, or auto")),
    }
}

fn timeout(text: &str) -> Result<Timeout, String> {
    match text {
        "none" => Ok(Timeout::None),
        text => duration(text).map(Timeout::After).map_err(|why| format!("{why}; or none")),
    }
}

/// A moment with a zone, or a duration before the end.
fn since(text: &str) -> Result<Since, String> {
    if let Some((stamp, _)) = stamp::rfc3339(text.as_bytes()).filter(|(_, length)| *length == text.len()) {
        return Ok(Since::Moment(stamp.ns));
    }
    let why = || {
        format!("{text:?} is neither a time with a zone, like 2025-11-21T11:50:00Z, nor a duration, like 3h")
    };
    let duration = duration(text).map_err(|_| why())?;
    i64::try_from(duration.as_nanos()).map(Since::Last).map_err(|_| why())
}

fn level(text: &str) -> Result<tracing::Level, String> {
    text.parse().map_err(|_| "it is one of error, warn, info, debug, trace".to_owned())
}

/// The kernel's own spelling: file names have dashes, /proc/modules has underscores.
fn module_name(text: &str) -> Result<String, String> {
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if text.is_empty() || !text.chars().all(valid) {
        return Err(format!("{text:?} is not a module's name"));
    }
    Ok(text.replace('-', "_"))
}

/// Paths below `--root` are absolute, so that the prefix is unambiguous.
pub fn absolute(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() && path.file_name().is_some() {
        Ok(path)
    } else {
        Err(format!("{text:?} is not an absolute path of a file"))
    }
}

/// modprobe would take what begins with a dash for an option, behind the module's name too.
fn parameter(text: &str) -> Result<OsString, String> {
    if text.is_empty() || text.starts_with('-') {
        return Err(format!(
            "{text:?} is no parameter of a module: it is NAME=VALUE, and no option of modprobe"
        ));
    }
    Ok(text.into())
}

/// A relative one is below the current directory.
fn root(text: &str) -> Result<PathBuf, String> {
    std::path::absolute(text).map_err(|error| format!("{text:?} is not a directory's path: {error}"))
}

fn directory(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err(format!("{text:?} is not an absolute path")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_have_one_number_and_one_unit() {
        assert_eq!(duration("300ms"), Ok(Duration::from_millis(300)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert_eq!(duration("20m"), Ok(Duration::from_secs(1200)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        for wrong in [
            "",
            "30",
            "s",
            "1.5s",
            "-1s",
            "+1s",
            "1 s",
            "1h30m",
            "1d",
            "10S",
            "99999999999999999999s",
            "9999999999h",
        ] {
            assert!(duration(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn module_names_are_folded_and_checked() {
        assert_eq!(module_name("nvidia-peermem"), Ok("nvidia_peermem".to_owned()));
        for wrong in ["", "a b", "../x", "ä"] {
            assert!(module_name(wrong).is_err(), "{wrong:?}");
        }
    }
}
