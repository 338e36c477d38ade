// SPDX-License-Identifier: Apache-2.0
//! From what was asked for to what it means. Everything that can be checked without looking at
//! the machine is checked here, before the first look.

use crate::cli;
use crate::cli::environment::{DIGEST, HOST_MOFED, Misuse, RDMA, Variables, value_of};
use crate::cli::{NodeArgs, OnTimeout, PaceArgs, WaitArgs, WaitingArgs};
use crate::ready::gate::Policy;
use crate::ready::mofed::MofedPlace;
use crate::ready::node::{Expectations, Node, PeermemExpected, Places, below};
use std::path::{Path, PathBuf};

impl Policy {
    /// The policy of `wait`; refuses options that contradict each other.
    pub fn of_wait(args: &WaitArgs) -> Result<Self, Misuse> {
        let proceed_on_timeout = args.on_timeout == OnTimeout::Proceed;
        Ok(Self { proceed_on_timeout, fail_fast: args.fail_fast, ..Self::new(&args.waiting)? })
    }

    /// The policy of `load`: it ends if waiting cannot help.
    pub fn of_load(args: &WaitingArgs) -> Result<Self, Misuse> {
        Ok(Self { fail_fast: true, ..Self::new(args)? })
    }

    /// The policy of `keep`: it has no deadline, and what blocks may be cured while it stays.
    #[must_use]
    pub fn of_keep(pace: &PaceArgs) -> Self {
        let PaceArgs { settle, suspect_hold, heartbeat, .. } = *pace;
        Self { settle, suspect_hold, heartbeat, ..Self::default() }
    }

    fn new(args: &WaitingArgs) -> Result<Self, Misuse> {
        let (timeout, settle) = (args.timeout, args.pace.settle);
        if let Some(timeout) = timeout.filter(|t| !t.is_zero() && settle >= *t) {
            return Err(Misuse::Message(format!(
                "--settle {} is not shorter than --timeout {}: the gate could never open; shorten --settle \
                    or lengthen --timeout",
                humantime::format_duration(settle),
                humantime::format_duration(timeout)
            )));
        }
        Ok(Self { timeout, dry_run: args.dry_run, ..Self::of_keep(&args.pace) })
    }
}

impl Node {
    /// Options first, then the neighbors' variables, then the defaults.
    pub fn new(
        args: &NodeArgs,
        root: &Path,
        peermem: Option<PeermemExpected>,
        variables: &Variables,
    ) -> Result<Self, Misuse> {
        let marker = match &args.marker {
            Some(path) => path.clone(),
            None => neighbor(variables, "DRIVER_READY_PATH", "/run/mellanox/drivers/.driver-ready")?,
        };
        let lock = neighbor(variables, "LOCK_FILE_PATH", "/run/mellanox/drivers/.lock")?;
        let mofed = match value_of(variables, HOST_MOFED) {
            Some(value) if value == "true" => MofedPlace::Host,
            _ => MofedPlace::Container,
        };
        let mofed_root = match mofed {
            MofedPlace::Host | MofedPlace::InBox => root.to_owned(),
            MofedPlace::Container => {
                below(root, &neighbor(variables, "MLX_DRIVERS_MOUNT", "/run/mellanox/drivers")?)
            }
        };
        let places = Places {
            root: root.to_owned(),
            proc: args.proc.clone().unwrap_or_else(|| root.join("proc")),
            sys: args.sys.clone().unwrap_or_else(|| root.join("sys")),
            marker: below(root, &marker),
            lock: below(root, &lock),
            mofed_root,
            driver_root: below(root, args.driver_root.as_deref().unwrap_or(Path::new("/"))),
            finds_driver: args.driver_root.is_none(),
            store: None,
        };
        let text = |name| value_of(variables, name).map(|value| value.to_string_lossy().into_owned());
        let expected = Expectations {
            node_name: text("NODE_NAME").filter(|name| !name.is_empty()),
            consumers: cli::consumers(&args.r#for),
            rdma_requested: text(RDMA),
            use_host_mofed: text(HOST_MOFED),
            rdma_not_requested: false,
            contradiction: None,
            mofed,
            precompiled: args.precompiled,
            modules: args.module.clone(),
            version: args.mofed_version.clone(),
            marker: places.marker.clone(),
            lock: places.lock.clone(),
            precedes_driver: true,
            driver_digest: text(DIGEST).filter(|digest| !digest.is_empty()),
            peermem,
        };
        Ok(Self { places, expected })
    }
}

/// A path that an operator's variable may name; set but empty is as good as not set.
///
/// # Errors
/// The path is not absolute.
pub fn neighbor(variables: &Variables, name: &str, default: &str) -> Result<PathBuf, Misuse> {
    let value = value_of(variables, name).filter(|value| !value.is_empty());
    let text = value.map_or(default.into(), |value| value.to_string_lossy());
    cli::absolute(&text).map_err(|why| Misuse::Message(format!("{name}={why}")))
}
