// SPDX-License-Identifier: Apache-2.0
//! The command line as typed: clap structs, one for each verb. `options` has what verbs share, `value`
//! what a value may be.
//!
//! The environment mirrors are derived from these options in [`crate::cli::environment`].

#![expect(
    missing_docs,
    reason = "clap prints the comments of options: a field without one is a group of them"
)]

pub mod arguments;
pub mod config;
pub mod environment;
pub mod help;
pub mod hint;
pub mod log;
mod options;
pub mod value;

pub use options::{LogArgs, LookArgs, NodeArgs, PaceArgs, RebuildOptions, WaitingArgs};
pub use value::{AnswerFormat, For, Format, OnTimeout, Rebuild, absolute, consumers, duration};

use clap::{ArgAction, Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use value::{boolean, parameter, root};

/// Below the short help of a verb.
const MORE: &str = "`--help` explains more, with exit codes, examples and environment variables.";

/// Make the GPU driver wait until MOFED is ready, and log what is missing
#[derive(Debug, Parser)]
#[command(name = "peermem-gate", version = crate::VERSION, after_help = help::with_doctors(MORE), after_long_help = help::long(""), arg_required_else_help = true)]
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
    /// Wait until MOFED is ready, then exit 0 or become CMD
    Wait(WaitArgs),
    /// Look once, and report whether MOFED is ready, with every condition
    Check(CheckArgs),
    /// Wait for MOFED, inspect nvidia-peermem.ko, load it, verify it is live
    Load(LoadArgs),
    /// Run as a sidecar: load nvidia-peermem, unload it for MOFED, reload it
    Keep(KeepArgs),
    /// Rebuild only nvidia-peermem.ko, or report why that is not possible
    Rebuild(RebuildArgs),
    /// Copy this program and the modprobe shim into a shared volume
    Install(InstallArgs),
}

#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("wait"))]
pub struct WaitArgs {
    #[command(flatten)]
    pub waiting: WaitingArgs,
    /// What to do at the deadline
    #[arg(
        long,
        value_name = "ACTION",
        default_value = "fail",
        long_help = "What to do at the deadline: exit with 124, or open anyway and log a warning"
    )]
    pub on_timeout: OnTimeout,
    /// Exit at once with 3 if waiting cannot help
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub fail_fast: bool,
    #[command(flatten)]
    pub look: LookArgs,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub log: LogArgs,
    /// The command that `wait` becomes when the gate opens
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("load"))]
pub struct LoadArgs {
    #[command(flatten)]
    pub waiting: WaitingArgs,
    #[command(flatten)]
    pub rebuilding: RebuildOptions,
    /// The modprobe to run
    #[arg(
        long,
        value_name = "PATH",
        long_help = "The modprobe to run [default: the first in PATH that is not this program]"
    )]
    pub modprobe: Option<PathBuf>,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub log: LogArgs,
    /// The module's parameters, as modprobe takes them
    #[arg(last = true, value_name = "PARAM=VALUE", value_parser = parameter)]
    pub parameters: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("keep"))]
pub struct KeepArgs {
    #[command(flatten)]
    pub pace: PaceArgs,
    #[command(flatten)]
    pub rebuilding: RebuildOptions,
    /// Stay, and only log what `keep` would load, unload, build and write
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub dry_run: bool,
    /// Never unload the module: only log when `keep` would
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub no_yield: bool,
    /// Unload the module on exit, unless it is in use
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub unload_on_exit: bool,
    /// Serve the node whose root is mounted here
    #[arg(
        long,
        value_name = "DIR",
        value_parser = root,
        long_help = "Serve the node whose root is mounted here: find the GPU driver and MOFED, in a container or on the host, and stay where only a person can help"
    )]
    pub node_root: Option<PathBuf>,
    /// Write the report and the state here; the file is replaced atomically
    #[arg(long, value_name = "PATH")]
    pub status_file: Option<PathBuf>,
    /// The modprobe to run
    #[arg(
        long,
        value_name = "PATH",
        long_help = "The modprobe to run [default: the first in PATH that is not this program]"
    )]
    pub modprobe: Option<PathBuf>,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub log: LogArgs,
    /// The module's parameters, as modprobe takes them
    #[arg(last = true, value_name = "PARAM=VALUE", value_parser = parameter)]
    pub parameters: Vec<OsString>,
}
#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("rebuild"))]
pub struct RebuildArgs {
    /// Print what a rebuild would do, and change nothing
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub dry_run: bool,
    /// Remove what rebuilds installed, for every kernel
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean, long_help = "Remove the nvidia-peermem.ko that a rebuild installed")]
    pub undo: bool,
    #[command(flatten)]
    pub rebuilding: RebuildOptions,
    /// Where to write the closing message
    #[arg(
        long,
        value_name = "PATH",
        long_help = "Where to write the closing message [default: /dev/termination-log if it exists]"
    )]
    pub termination_log: Option<PathBuf>,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub log: LogArgs,
}

#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("check"))]
pub struct CheckArgs {
    /// How to report
    #[arg(short = 'o', long, alias = "output", value_name = "FORMAT", default_value = "text")]
    pub format: AnswerFormat,
    /// Do not look at the node: report what `keep` wrote here, if it is recent
    #[arg(long, value_name = "PATH")]
    pub status_file: Option<PathBuf>,
    #[command(flatten)]
    pub look: LookArgs,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub log: LogArgs,
}

#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = help::long("install"))]
pub struct InstallArgs {
    /// Where the volume is mounted; the directory must exist
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Also copy peermem-doctor, which is beside this program in its image
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub doctor: bool,
    #[command(flatten)]
    pub log: LogArgs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn clap_accepts_the_definition_of_the_command_line() {
        Cli::command().debug_assert();
    }
}
