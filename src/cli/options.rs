// SPDX-License-Identifier: Apache-2.0
//! The options that verbs share. The structs have no doc comments: clap would take them for the verb's sentence.
#![expect(
    missing_docs,
    reason = "clap prints the comments of options: a field without one is a group of them"
)]

use super::value::{
    For, Format, Rebuild, absolute, boolean, directory, duration, heartbeat, level, module_name, rebuild,
    root, timeout,
};
use crate::ready::consumer::Consumer;
use crate::ready::version::Version;
use clap::{ArgAction, Args};
use std::path::PathBuf;
use std::time::Duration;

// Options of the verbs that wait until the node is ready.
#[derive(Debug, Args)]
pub struct WaitingArgs {
    /// How long to wait, like 10s, 20m, 2h or none
    #[arg(long, value_name = "DUR|none", default_value = "30m", value_parser = timeout, long_help = "How long to wait: a whole number with ms, s, m or h, or none; 0s means one look")]
    // Spelled out, so clap gives a value to it and does not make the option one that may be absent.
    pub timeout: std::option::Option<Duration>,
    /// Look once, log what is missing, then open
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean, long_help = "Look once, log what the gate would wait for, then open; `load` loads nothing")]
    pub dry_run: bool,
    #[command(flatten)]
    pub pace: PaceArgs,
}

// Options of every verb that waits for something, `keep` included.
#[derive(Debug, Args)]
pub struct PaceArgs {
    /// How long every condition must be met without a break
    #[arg(long, value_name = "DUR", default_value = "1s", value_parser = duration)]
    pub settle: Duration,
    /// How long to reject a suspect marker, before it is accepted with a warning
    #[arg(long, value_name = "DUR", default_value = "5m", value_parser = duration)]
    pub suspect_hold: Duration,
    /// How often to log that the gate is still waiting
    #[arg(long, value_name = "DUR", default_value = "60s", value_parser = heartbeat)]
    pub heartbeat: Duration,
    /// Where to write the closing verdict
    #[arg(
        long,
        value_name = "PATH",
        long_help = "Where to write the closing verdict [default: /dev/termination-log if it exists]"
    )]
    pub termination_log: Option<PathBuf>,
    /// Write a Prometheus textfile here; it is replaced atomically
    #[arg(long, value_name = "PATH")]
    pub metrics_file: Option<PathBuf>,
}

// Options of the verbs that may rebuild nvidia-peermem.
#[derive(Debug, Args)]
pub struct RebuildOptions {
    /// Rebuild nvidia-peermem.ko if nothing else is wrong
    #[arg(long, value_name = "off|auto|PATH", default_value = "off", value_parser = rebuild, long_help = "Rebuild nvidia-peermem.ko if nothing else is wrong: off, auto, or a program that rebuilds it. For the verb `rebuild`, off means auto")]
    pub rebuild: Rebuild,
    /// How long a rebuild may take
    #[arg(long, value_name = "DUR", default_value = "5m", value_parser = duration)]
    pub rebuild_timeout: Duration,
    /// Sign what is built with tls.key and tls.crt in this directory
    #[arg(
        long,
        value_name = "DIR",
        long_help = "Where the kernel demands signed modules, sign what is built with tls.key and tls.crt in this directory"
    )]
    pub signing: Option<PathBuf>,
}

// Options of the verbs that look and load nothing.
#[derive(Debug, Args)]
pub struct LookArgs {
    /// Also check whether nvidia-peermem.ko will load
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub peermem: bool,
    /// Prefix for every path that is read
    #[arg(long, value_name = "DIR", value_parser = root, long_help = "Prefix for every path that is read [default: /, or for `check` /host in a pod that has the host there]")]
    pub root: Option<PathBuf>,
}

// Options of every verb that looks at the node.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// Consumer to check for: peermem, fabric, any
    #[arg(
        long,
        value_name = "WHO",
        value_delimiter = ',',
        default_value = Consumer::DEFAULT.row().name,
        hide_possible_values = true,
        long_help = "Which consumer to check for: peermem, fabric, a list, or any (each that this node has)"
    )]
    pub r#for: Vec<For>,
    /// Skip the header check: the GPU driver is precompiled
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = boolean)]
    pub precompiled: bool,
    /// The MOFED version to expect
    #[arg(
        long,
        value_name = "V",
        long_help = "The MOFED version to expect, or its first parts [default: what MOFED's header tree says]"
    )]
    pub mofed_version: Option<Version>,
    /// The RDMA modules that must be live
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "ib_core,ib_uverbs,mlx5_core,mlx5_ib", value_parser = module_name, long_help = "The RDMA modules that must be live: a list, or repeat the option")]
    pub module: Vec<String>,
    /// MOFED's ready marker
    #[arg(long, value_name = "PATH", value_parser = absolute, long_help = "MOFED's marker [default: `DRIVER_READY_PATH`, or /run/mellanox/drivers/.driver-ready]")]
    pub marker: Option<PathBuf>,
    /// The root directory of the GPU driver
    #[arg(long, value_name = "DIR", value_parser = directory, long_help = "The root directory of the GPU driver, with nvidia-peermem.ko and its modprobe [default: a driver container's, else /]")]
    pub driver_root: Option<PathBuf>,
    /// The proc file system [default: proc below --root]
    #[arg(long, value_name = "DIR", value_parser = directory)]
    pub proc: Option<PathBuf>,
    /// The sys file system [default: sys below --root]
    #[arg(long, value_name = "DIR", value_parser = directory)]
    pub sys: Option<PathBuf>,
}

// Options of every verb.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// How to log
    #[arg(long, value_name = "FORMAT", default_value = "text", long_help = "How to log, on standard error")]
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
