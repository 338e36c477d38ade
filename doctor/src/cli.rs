// SPDX-License-Identifier: Apache-2.0
//! The command line as typed: clap structs, one for each verb. The variables `PEERMEM_GATE_<OPTION>` mirror the
//! options, as they do for peermem-gate.
#![expect(
    missing_docs,
    reason = "clap prints the comments of options: a field without one is a group of them"
)]

use crate::report::explain::Topic;
use crate::timeline::Since;
use crate::{help, stamp};
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use peermem_gate::cli::environment::{Misuse, Surface, Variables};
use peermem_gate::cli::hint::mirror;
use peermem_gate::cli::value::{boolean, directory, duration, root};
use peermem_gate::cli::{self as gate, AnswerFormat, Format, LogArgs, NodeArgs};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Below the short help.
const MORE: &str = "`--help` explains more, with exit codes, examples and environment variables.";

/// Diagnose GPUDirect RDMA on a GPU node: root causes, evidence, fixes
#[derive(Debug, Parser)]
#[command(name = "peermem-doctor", version = crate::VERSION, after_help = MORE, after_long_help = help::long(""), arg_required_else_help = true)]
#[expect(clippy::doc_markdown, reason = "clap prints it")]
pub struct Cli {
    /// The verb, with its options.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
// Only the options of the verb that is asked for are built.
#[command(defer = true)]
pub enum Verb {
    /// Diagnose this node: root causes, evidence, fixes
    Doctor(DoctorArgs),
    /// Merge the reports of many nodes
    Fleet(FleetArgs),
    /// Draw what happened on a node, from its logs and files
    Timeline(TimelineArgs),
    /// Report whether DMA-BUF or nvidia-peermem can be used here, and why
    Paths(PathsArgs),
    /// Judge nvidia-peermem.ko files offline: stub or real
    Inspect(InspectArgs),
    /// Explain a word of a log, a metric, an alert or a finding
    Explain(ExplainArgs),
}

/// Reads the command line and its mirrors, of which the command line wins.
///
/// # Errors
/// A word, an option, a value or a variable that is refused.
pub fn parse(args: &[OsString], variables: &Variables) -> Result<Verb, Misuse> {
    let mut surface = Surface { command: Cli::command(), is_elsewhere: is_of_gate, handed_on: &[] };
    let typed = surface.matches(args)?;
    let matches = surface.with_mirrors(typed, args, variables)?;
    Ok(Cli::from_arg_matches(&matches).map_err(Misuse::Usage)?.verb)
}

/// A pod may run both programs with one environment.
/// `doctor` without arguments: what another verb asks by the way.
pub fn doctors(variables: &Variables) -> Option<DoctorArgs> {
    match parse(&["peermem-doctor", "doctor"].map(OsString::from), variables) {
        Ok(Verb::Doctor(args)) => Some(args),
        _ => None,
    }
}

fn is_of_gate(name: &str) -> bool {
    let mut gate = gate::Cli::command();
    gate.build();
    let mut options = gate.get_subcommands().flat_map(clap::Command::get_arguments);
    options.any(|option| option.get_long().is_some_and(|long| mirror(long) == name))
}

/// How a timeline is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "clap would print it")]
pub enum Picture {
    Text,
    Svg,
    Json,
}

#[derive(Debug, Args)]
pub struct OperatorArgs {
    /// Another namespace whose pods are an operator's; a list, or repeat the option
    #[arg(long = "operator-namespace", value_name = "NAME", value_delimiter = ',', value_parser = namespace, long_help = "Another namespace whose pods are an operator's; a list, or repeat the option.

The usual namespaces, and those of an operator's privileged process, are known without this option.")]
    pub namespaces: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("doctor"))]
pub struct DoctorArgs {
    /// A must-gather, a sosreport or gathered logs, or - [default: this node]
    #[arg(value_name = "BUNDLE", conflicts_with_all = ["every", "root", "proc", "sys"], long_help = "A must-gather, a sosreport, or logs and output of kubectl: a directory or a tar archive, or - for standard input.

Each of its nodes gets a report, which says what the bundle lacks. [default: this node]")]
    pub bundle: Option<PathBuf>,
    /// How to report
    #[arg(
        short = 'o',
        long,
        alias = "output",
        value_name = "FORMAT",
        default_value = "text",
        long_help = "How to report; line: one sentence of at most 80 bytes, for probes"
    )]
    pub format: AnswerFormat,
    /// Also write a Prometheus textfile here; it is replaced atomically
    #[arg(long, value_name = "PATH", conflicts_with = "bundle")]
    pub metrics_file: Option<PathBuf>,
    /// Show all evidence and conditions
    #[arg(short, long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean, long_help = "Show all evidence, remedies and conditions; by default the answer fits a screen")]
    pub verbose: bool,
    /// Report at the start and again every DUR, until a signal
    #[arg(long, value_name = "DUR", value_parser = interval, long_help = "Report at the start and again every DUR, until a signal ends it; at least 5s.\n\nThe second report comes after a random part of DUR, because a fleet's pods start together.")]
    pub every: Option<Duration>,
    /// Prefix for every path that is read
    #[arg(long, value_name = "DIR", value_parser = root, long_help = "Prefix for every path that is read [default: /host in a pod that has the host there, or /]")]
    pub root: Option<PathBuf>,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub operators: OperatorArgs,
    #[command(flatten)]
    pub log: LogArgs,
}

#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("inspect"))]
pub struct InspectArgs {
    /// The module files, compressed or not; - is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// A Module.symvers with the CRCs to expect
    #[arg(
        long,
        value_name = "FILE",
        long_help = "A Module.symvers with the CRCs to expect: MOFED's, or that of a kernel that exports peer memory"
    )]
    pub symvers: Option<PathBuf>,
    /// The kernel's release to expect
    #[arg(long, value_name = "RELEASE")]
    pub kernel: Option<String>,
    /// How to report
    #[arg(short = 'o', long, alias = "output", value_name = "FORMAT", default_value = "text")]
    pub format: Format,
    #[command(flatten)]
    pub log: LogArgs,
}

#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("explain"))]
pub struct ExplainArgs {
    /// A word of a log, a metric, an alert or a finding [default: list them all]
    #[arg(value_name = "WORD", value_parser = Topic::parse)]
    pub topic: Option<Topic>,
    /// List every word that has a page
    #[arg(long, conflicts_with = "topic", value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub list: bool,
    #[command(flatten)]
    pub log: LogArgs,
}

#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("paths"))]
pub struct PathsArgs {
    /// How to report
    #[arg(short = 'o', long, alias = "output", value_name = "FORMAT", default_value = "text")]
    pub format: Format,
    /// Prefix for every path that is read
    #[arg(long, value_name = "DIR", value_parser = root, long_help = "Prefix for every path that is read [default: /host in a pod that has the host there, or /]")]
    pub root: Option<PathBuf>,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub log: LogArgs,
}

#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("fleet"))]
pub struct FleetArgs {
    /// Reports of `doctor --format json`, one per line [default: -, standard input]
    #[arg(
        value_name = "FILE",
        long_help = "Reports of `doctor --format json`, one per line; a prefix by `kubectl logs` is skipped.\n\n[default: -, standard input]"
    )]
    pub files: Vec<PathBuf>,
    /// Output of `kubectl get nodes,pods -A -o json`, or of `-o yaml`
    #[arg(
        long,
        value_name = "FILE",
        long_help = "Output of `kubectl get nodes,pods -A -o json`, or of `-o yaml`.\n\nAdds nodes without a report, and driver pods that are missing or have no gate."
    )]
    pub nodes: Option<PathBuf>,
    /// Another MOFED's Module.symvers: report what an upgrade to it would do
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "nodes",
        long_help = "The Module.symvers of another MOFED.\n\nReports what an upgrade to it would do: which nodes need a rebuild or a drain."
    )]
    pub symvers: Option<PathBuf>,
    /// The kernel that the Module.symvers is for
    #[arg(
        long,
        value_name = "RELEASE",
        value_parser = clap::builder::NonEmptyStringValueParser::new(),
        long_help = "The kernel that the Module.symvers is for: nodes with another one are unknown"
    )]
    pub kernel: Option<String>,
    /// Show each node's own commands
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean, long_help = "Show each node's own commands, with its pods' names, below those for all nodes")]
    pub commands: bool,
    /// How to report
    #[arg(short = 'o', long, alias = "output", value_name = "FORMAT", default_value = "text")]
    pub format: Format,
    #[command(flatten)]
    pub operators: OperatorArgs,
    #[command(flatten)]
    pub log: LogArgs,
}

#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("timeline"))]
pub struct TimelineArgs {
    /// Logs, must-gathers, sosreports or tar archives, or - [default: this node]
    #[arg(value_name = "FILE|DIR")]
    pub files: Vec<PathBuf>,
    /// How to draw
    #[arg(short = 'o', long, alias = "output", value_name = "FORMAT", default_value = "text")]
    pub format: Picture,
    /// Draw only the decisive events
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean, long_help = "Draw only the decisive events: starts, builds, loads, markers, failures and restarts.\n\nJSON always has every event.")]
    pub brief: bool,
    /// Draw only events since this time [default: the last boot]
    #[arg(long, value_name = "TIME|DUR", value_parser = since, long_help = "Draw only events since this time: 2025-11-21T11:50:00Z, or 3h before the end\n\n[default: the last boot]")]
    pub since: Option<Since>,
    /// The node to draw, if the files are of several nodes
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Prefix for every path that is read
    #[arg(long, value_name = "DIR", value_parser = root, long_help = "Prefix for every path that is read [default: /host in a pod that has the host there, or /]")]
    pub root: Option<PathBuf>,
    /// The proc file system [default: proc below --root]
    #[arg(long, value_name = "DIR", value_parser = directory)]
    pub proc: Option<PathBuf>,
    #[command(flatten)]
    pub operators: OperatorArgs,
    #[command(flatten)]
    pub log: LogArgs,
}

/// No use needs more than twelve looks a minute.
const SHORTEST: Duration = Duration::from_secs(5);

/// A duration of at least [`SHORTEST`].
fn interval(text: &str) -> Result<Duration, String> {
    let every = duration(text)?;
    if every < SHORTEST { Err(format!("{text} is too short: at least 5s")) } else { Ok(every) }
}

/// A namespace's name, as the API server takes it.
fn namespace(text: &str) -> Result<String, String> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = !text.is_empty() && text.len() <= 63 && text.bytes().all(is_allowed);
    let is_name = is_name && !text.starts_with('-') && !text.ends_with('-');
    is_name.then(|| text.to_owned()).ok_or_else(|| format!("{text:?} is no namespace, like gpu-operator"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clap_accepts_the_definition_of_the_command_line() {
        Cli::command().debug_assert();
    }
}
