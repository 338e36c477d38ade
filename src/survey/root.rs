// SPDX-License-Identifier: Apache-2.0
//! Through which root a verb looks: the one that was asked for; without one the host's, if a pod has that at
//! `/host`.

use crate::cli::NodeArgs;
use crate::cli::environment::Misuse;
use crate::survey::search;
use std::path::{Path, PathBuf};

const OWN: &str = "/";
/// Where `kubectl debug node/…` and the operator's pods mount the host.
const HOST: &str = "/host";

/// The root that was asked for, or our own.
///
/// # Errors
/// Below it is no host's root: everything would be reported as missing on the node.
pub fn asked(root: Option<&Path>, node: &NodeArgs) -> Result<PathBuf, Misuse> {
    let Some(root) = root else { return Ok(OWN.into()) };
    let root = directory(root)?;
    let has_both = node.proc.is_some() && node.sys.is_some();
    if has_both || search::may_be_host(&root) {
        return Ok(root);
    }
    // A host that was mounted without what is mounted below its root has the directories.
    let has_directories = root.join("proc").is_dir() && root.join("sys").is_dir();
    let what = if has_directories { "has an empty proc and sys" } else { "has neither proc nor sys" };
    Err(Misuse::Message(format!(
        "--root {} {what}, so it is not a host's root: mount the host's root with everything mounted below it, or add \
            --proc and --sys",
        root.display()
    )))
}

fn directory(root: &Path) -> Result<PathBuf, Misuse> {
    let why = || {
        format!(
            "--root {} is not a directory here: mount the host there, or correct the option",
            root.display()
        )
    };
    if root.is_dir() { Ok(root.to_owned()) } else { Err(Misuse::Message(why())) }
}

/// The root for a diagnosis: in a pod the host's, if that is mounted and no other was asked for.
///
/// # Errors
/// As [`asked`].
pub fn on_host(root: Option<&Path>, node: &NodeArgs) -> Result<PathBuf, Misuse> {
    let NodeArgs { marker, driver_root, proc, sys, .. } = node;
    let asked_for = [root, marker.as_deref(), proc.as_deref(), sys.as_deref(), driver_root.as_deref()];
    let is_asked = asked_for.iter().any(Option::is_some);
    if is_asked || !search::is_another_root(Path::new(HOST)) {
        return asked(root, node);
    }
    Ok(warned_host())
}

/// The root for logs: a tree with only logs in it will do.
///
/// # Errors
/// The directory is missing.
pub fn of_logs(root: Option<&Path>) -> Result<PathBuf, Misuse> {
    match root {
        Some(root) => directory(root),
        None if search::is_another_root(Path::new(HOST)) => Ok(warned_host()),
        None => Ok(OWN.into()),
    }
}

fn warned_host() -> PathBuf {
    tracing::warn!(
        "looking at the host's file system in {HOST}, because no --root was given and this is a container; \
            to look at the container itself, use --root /"
    );
    HOST.into()
}
