// SPDX-License-Identifier: Apache-2.0
//! From what was asked for to what it means. Everything that can be checked without looking at
//! the machine is checked here, before the first look.

use crate::cli::{self, HoldArgs, NodeArgs, OnTimeout, PaceArgs, Timeout, WaitArgs};
use crate::environment::{Refusal, Variables, value_of};
use crate::version::Version;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Who provides MOFED on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MofedPlace {
    /// The Network Operator's container.
    Container,
    /// The host itself (`USE_HOST_MOFED=true`).
    Host,
}

/// What the judge compares an observation with.
#[derive(Clone, Debug)]
pub struct Expectations {
    /// `GPU_DIRECT_RDMA_ENABLED`, if set.
    pub rdma_requested: Option<String>,
    /// `USE_HOST_MOFED`, if set.
    pub use_host_mofed: Option<String>,
    /// Who provides MOFED.
    pub mofed: MofedPlace,
    /// No headers are needed.
    pub precompiled: bool,
    /// The modules that must be live, with underscores.
    pub modules: Vec<String>,
    /// What was asked for by `--mofed-version`.
    pub version: Option<Version>,
    /// The marker's full path, for messages.
    pub marker: PathBuf,
    /// The lock's full path, for messages.
    pub lock: PathBuf,
    /// What is asked of nvidia-peermem; `None` when nothing is.
    pub peermem: Option<PeermemExpected>,
}

/// What is asked of nvidia-peermem.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeermemExpected {
    /// The parameters it is to be given, `NAME=VALUE`.
    pub parameters: Vec<String>,
}

/// Where the probe looks. All paths are complete: nothing is prefixed later.
#[derive(Clone, Debug)]
pub struct Places {
    /// The prefix; absolute links are followed below it.
    pub root: PathBuf,
    /// The proc file system.
    pub proc: PathBuf,
    /// The sys file system.
    pub sys: PathBuf,
    /// MOFED's ready marker.
    pub marker: PathBuf,
    /// MOFED's instance lock.
    pub lock: PathBuf,
    /// MOFED's own root: absolute links in its header tree are followed below it.
    pub mofed_root: PathBuf,
    /// The GPU driver's root, where nvidia-peermem.ko is.
    pub driver_root: PathBuf,
}

/// One node, as the options describe it.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where to look.
    pub places: Places,
    /// What to expect.
    pub expected: Expectations,
    /// `NODE_NAME`, if set.
    pub name: Option<String>,
}

/// How the gate behaves in time.
#[derive(Clone, Debug)]
pub struct Policy {
    /// `None` is for ever, zero is one look.
    pub timeout: Option<Duration>,
    /// Open when the time is up.
    pub proceed_on_timeout: bool,
    /// How long everything must hold without a break.
    pub settle: Duration,
    /// How long a suspect marker is not believed.
    pub suspect_hold: Duration,
    /// End when blocked.
    pub fail_fast: bool,
    /// Open after one look.
    pub dry_run: bool,
    /// Time between two "still waiting" lines.
    pub heartbeat: Duration,
}

impl Policy {
    /// The policy of `wait`; refuses what contradicts itself.
    pub fn of_wait(args: &WaitArgs) -> Result<Self, Refusal> {
        let proceed_on_timeout = args.on_timeout == OnTimeout::Proceed;
        Ok(Self { proceed_on_timeout, fail_fast: args.fail_fast, ..Self::new(&args.hold)? })
    }

    /// The policy of `load`: what waiting alone cannot cure ends it.
    pub fn of_load(args: &HoldArgs) -> Result<Self, Refusal> {
        Ok(Self { fail_fast: true, ..Self::new(args)? })
    }

    /// The policy of `keep`: it has no deadline, and what blocks may be cured while it stays.
    #[must_use]
    pub fn of_keep(pace: &PaceArgs) -> Self {
        Self {
            timeout: None,
            proceed_on_timeout: false,
            settle: pace.settle,
            suspect_hold: pace.suspect_hold,
            fail_fast: false,
            dry_run: false,
            heartbeat: pace.heartbeat,
        }
    }

    fn new(args: &HoldArgs) -> Result<Self, Refusal> {
        let timeout = match args.timeout {
            Timeout::None => None,
            Timeout::After(timeout) => Some(timeout),
        };
        let settle = args.pace.settle;
        if let Some(timeout) = timeout.filter(|t| !t.is_zero() && settle >= *t) {
            return Err(Refusal::Said(format!(
                "--settle {} is not shorter than --timeout {}: the gate could never open; shorten the one or lengthen the other",
                humantime::format_duration(settle),
                humantime::format_duration(timeout)
            )));
        }
        Ok(Self { timeout, dry_run: args.dry_run, ..Self::of_keep(&args.pace) })
    }
}

impl Node {
    /// Options first, then the neighbours' variables, then the defaults.
    pub fn new(
        args: &NodeArgs,
        root: &Path,
        peermem: Option<PeermemExpected>,
        variables: &Variables,
    ) -> Result<Self, Refusal> {
        let marker = match &args.marker {
            Some(path) => path.clone(),
            None => neighbour(variables, "DRIVER_READY_PATH", "/run/mellanox/drivers/.driver-ready")?,
        };
        let lock = neighbour(variables, "LOCK_FILE_PATH", "/run/mellanox/drivers/.lock")?;
        let mofed = match value_of(variables, "USE_HOST_MOFED") {
            Some(value) if value == "true" => MofedPlace::Host,
            _ => MofedPlace::Container,
        };
        let mofed_root = match mofed {
            MofedPlace::Host => root.to_owned(),
            MofedPlace::Container => {
                below(root, &neighbour(variables, "MLX_DRIVERS_MOUNT", "/run/mellanox/drivers")?)
            }
        };
        let places = Places {
            root: root.to_owned(),
            proc: args.proc.clone().unwrap_or_else(|| root.join("proc")),
            sys: args.sys.clone().unwrap_or_else(|| root.join("sys")),
            marker: below(root, &marker),
            lock: below(root, &lock),
            mofed_root,
            driver_root: below(root, &args.driver_root),
        };
        let text = |name| value_of(variables, name).map(|value| value.to_string_lossy().into_owned());
        let expected = Expectations {
            rdma_requested: text("GPU_DIRECT_RDMA_ENABLED"),
            use_host_mofed: text("USE_HOST_MOFED"),
            mofed,
            precompiled: args.precompiled,
            modules: args.module.clone(),
            version: args.mofed_version.clone(),
            marker: places.marker.clone(),
            lock: places.lock.clone(),
            peermem,
        };
        Ok(Self { places, expected, name: text("NODE_NAME").filter(|name| !name.is_empty()) })
    }
}

/// Refuses an output that would be written beside the marker.
pub fn refuse_beside_marker(option: &str, path: Option<&Path>, places: &Places) -> Result<(), Refusal> {
    let marker = places.marker.parent();
    match path.filter(|path| marker.is_some_and(|directory| path.starts_with(directory))) {
        None => Ok(()),
        Some(path) => Err(Refusal::Misplaced(format!(
            "{option} {}: nothing may be written into MOFED's directory: choose another place",
            path.display()
        ))),
    }
}

/// A path that an operator's variable may name; set but empty is as good as not set.
fn neighbour(variables: &Variables, name: &str, default: &str) -> Result<PathBuf, Refusal> {
    let value = value_of(variables, name).filter(|value| !value.is_empty());
    let text = value.map_or(default.into(), |value| value.to_string_lossy());
    cli::absolute(&text).map_err(|why| Refusal::Said(format!("{name}={why}")))
}

/// `path` as it is found below `root`.
#[must_use]
pub fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
