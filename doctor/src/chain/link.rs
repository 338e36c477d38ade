// SPDX-License-Identifier: Apache-2.0
//! The chain as judged: a [`Link`] for each file.

use super::{
    ChainFile, DAEMONS_STATUS, DRIVER_CTR_READY, DRIVER_READY, FILES, MARKER, Needed, WORKLOAD_TYPE,
};
use crate::symptoms::chain::{Chain, FileState};
use peermem_gate::ready::observation::Lock;
use serde::Serialize;
use std::path::PathBuf;

/// A clock that is set after the boot moves the boot's time too, which is kept in whole seconds.
const CLOCK_STEP: i64 = 5;

/// The state of one file of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum LinkState {
    /// The file is there.
    Present,
    /// The file is not there.
    Absent,
    /// The file is there, and its driver container has ended.
    Stale,
    /// The file does not exist, and no container of this node waits for it.
    NotExpected,
    /// Unknown.
    Unknown,
}

named!(LinkState: Present, Absent, Stale, NotExpected, Unknown);

/// One file of the chain, judged. Its JSON form is stable: an element of `chain` in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// The file's name.
    pub file: &'static str,
    /// Where it is looked for.
    pub path: PathBuf,
    /// Who writes it.
    pub writer: &'static str,
    /// The file that its writer waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<&'static str>,
    /// Its writer has been started, as far as is known.
    pub has_writer: bool,
    /// Whether it is there.
    pub state: LinkState,
    /// True for the one at which the chain stops: this file is waited for, and all before it are there.
    pub broken: bool,
    /// When it was written, in seconds after the boot; negative for before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_boot_s: Option<i64>,
    /// When it was written, in seconds after its predecessor; negative for before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_predecessor_s: Option<i64>,
    /// For how long it has been waited for, where it is not there: the age of its predecessor, or of
    /// the boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_s: Option<i64>,
    /// How long after its predecessor it may well take, in seconds.
    pub usual_s: i64,
    /// Who waits for it.
    pub waiters: &'static [&'static str],
    /// A remark for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Link {
    /// One of a file that no usual chain waits for, and something on this node does.
    pub(crate) fn awaited(
        file: &ChainFile,
        path: PathBuf,
        waited_s: i64,
        broken: bool,
        note: Option<String>,
    ) -> Self {
        Self {
            file: file.name,
            path,
            writer: file.writer,
            after: file.after,
            has_writer: false,
            state: LinkState::Absent,
            broken,
            since_boot_s: None,
            since_predecessor_s: None,
            waited_s: Some(waited_s),
            usual_s: file.usual,
            waiters: file.waiters,
            note,
        }
    }

    /// The file is not there, and has been waited for longer than its writer may well take.
    pub fn is_overdue(&self) -> bool {
        self.state == LinkState::Absent && self.waited_s.is_some_and(|waited| waited > self.usual_s)
    }
}

/// The state of the node around the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainContext {
    /// MOFED comes in a container, and is waited for.
    pub wants_marker: bool,
    /// The module nvidia is loaded; `None` where that cannot be read.
    pub has_driver: Option<bool>,
    /// When the container of the driver was started, in seconds since 1970, where it has not been restarted.
    pub driver_started: Option<i64>,
    /// The operator's validator has a container for the device plugin.
    pub validates_plugin: bool,
    /// When the first container that validates was started, where it has not been restarted.
    pub validator_started: Option<i64>,
}

/// The link at which the chain stops.
pub fn broken_at(links: &[Link]) -> Option<&Link> {
    links.iter().find(|link| link.broken)
}

/// Judges every file of the chain. Files that do not exist, and that no container waits for, are left out.
pub fn links(seen: &Chain, around: ChainContext) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    let mut is_whole = true;
    for file in FILES {
        let state = state(file, seen, around);
        let is_optional = matches!(file.needed, Needed::Never | Needed::WithPlugin);
        if is_optional && matches!(state, LinkState::NotExpected) {
            continue;
        }
        let holds = matches!(state, LinkState::Absent | LinkState::Stale | LinkState::Unknown);
        let broken = is_whole && holds && file.needed != Needed::Never && is_begun(seen, file);
        is_whole &= !holds || file.needed == Needed::Never;
        links.push(link(file, seen, around, state, broken));
    }
    links
}

/// Where the GPU Operator has not been since the boot there is nothing of it to be broken.
fn is_begun(seen: &Chain, file: &ChainFile) -> bool {
    file.is_mofeds() || seen.has_directory != Ok(false)
}

fn link(file: &ChainFile, seen: &Chain, around: ChainContext, state: LinkState, broken: bool) -> Link {
    let (path, stamp) = seen.files.get(file.name).cloned().unwrap_or((PathBuf::new(), FileState::Absent));
    let boot = seen.clock.boot.as_ref().ok();
    let predecessor = file.after.and_then(|name| seen.stamp(name).written());
    let written = stamp.written();
    let since = waited_since(file, seen, around, predecessor);
    let waited = since.and_then(|since| seen.clock.age(since)).filter(|_| state == LinkState::Absent);
    Link {
        file: file.name,
        path,
        writer: file.writer,
        after: file.after,
        has_writer: writer(file, around).is_some(),
        state,
        broken,
        since_boot_s: written.zip(boot).map(|(written, boot)| written - boot),
        since_predecessor_s: written.zip(predecessor).map(|(written, before)| written - before),
        waited_s: waited,
        usual_s: file.usual,
        waiters: file.waiters,
        note: note(file, seen, around, &stamp),
    }
}

/// From when on a file may be waited for: its writer has been started, and what it waits for is there. Where neither
/// is known and nothing comes before it, from the boot on.
fn waited_since(
    file: &ChainFile,
    seen: &Chain,
    around: ChainContext,
    predecessor: Option<i64>,
) -> Option<i64> {
    let writer = writer(file, around);
    let before = file.after.and_then(|name| super::FILES.iter().find(|file| file.name == name));
    let has_none_before = before.is_none_or(|before| !is_needed(before, seen, around));
    match (predecessor, writer) {
        (None, _) if !has_none_before => None,
        (None, None) => seen.clock.boot.as_ref().ok().copied(),
        (predecessor, writer) => predecessor.max(writer),
    }
}

/// When its writer was started, in seconds since 1970.
fn writer(file: &ChainFile, around: ChainContext) -> Option<i64> {
    match file.name {
        super::MARKER => None,
        DRIVER_CTR_READY => around.driver_started,
        _ => around.validator_started,
    }
}

fn state(file: &ChainFile, seen: &Chain, around: ChainContext) -> LinkState {
    match seen.stamp(file.name) {
        FileState::Unreadable(_) => LinkState::Unknown,
        FileState::Absent if !is_needed(file, seen, around) => LinkState::NotExpected,
        FileState::Absent => match &seen.has_directory {
            Err(_) if !file.is_mofeds() => LinkState::Unknown,
            _ => LinkState::Absent,
        },
        FileState::Present { .. }
            if file.name == DRIVER_CTR_READY && stale_because(seen, around).is_some() =>
        {
            LinkState::Stale
        }
        FileState::Present { .. } => LinkState::Present,
    }
}

fn is_needed(file: &ChainFile, seen: &Chain, around: ChainContext) -> bool {
    // GPUs of virtual machines are validated by other files.
    let for_containers = !seen.stamp(WORKLOAD_TYPE).text().starts_with("vm-");
    match file.needed {
        Needed::WithMofed => around.wants_marker,
        Needed::WithDriver => for_containers && !has_host_driver(seen, around),
        Needed::Always => for_containers,
        Needed::WithPlugin => for_containers && around.validates_plugin,
        Needed::Never => false,
    }
}

/// `driver-ready` says whose driver was validated. Before that, a driver that is loaded without the pid file of a
/// driver container is the host's.
fn has_host_driver(seen: &Chain, around: ChainContext) -> bool {
    let is_host_driver =
        seen.stamp(DRIVER_READY).text().lines().any(|line| line.trim() == "IS_HOST_DRIVER=true");
    let by_nobody_else = seen.driver == Lock::NoFile && seen.stamp(DAEMONS_STATUS).written().is_none();
    is_host_driver || around.has_driver == Some(true) && by_nobody_else
}

/// Why `.driver-ctr-ready` cannot be trusted: kubelet runs no preStop hook for a container that
/// ends by itself, so a crash leaves it behind.
fn stale_because(seen: &Chain, around: ChainContext) -> Option<String> {
    let written = seen.stamp(DRIVER_CTR_READY).written()?;
    if around.has_driver == Some(false) {
        return Some("the module nvidia is not loaded".to_owned());
    }
    match seen.driver {
        _ if seen.driver_runs == Some(true) => None,
        Lock::Held => None,
        // Both witnesses must say so: older scripts may have kept no lock.
        Lock::Free if seen.driver_runs == Some(false) => {
            Some(format!("no process holds the lock on {}", seen.driver_pid.display()))
        }
        _ => {
            let boot = *seen.clock.boot.as_ref().ok()?;
            (written < boot - CLOCK_STEP).then(|| "it was written before this boot".to_owned())
        }
    }
}

fn note(file: &ChainFile, seen: &Chain, around: ChainContext, stamp: &FileState) -> Option<String> {
    match (file.name, stamp) {
        (_, FileState::Unreadable(why)) => Some(format!("{why}: search permission is needed there")),
        (DRIVER_CTR_READY, FileState::Present { .. }) => stale_because(seen, around),
        (DRIVER_CTR_READY, FileState::Absent) if has_host_driver(seen, around) => {
            Some("the driver is installed on the host".to_owned())
        }
        (DRIVER_CTR_READY, FileState::Absent) if seen.stamp(DAEMONS_STATUS).text() == "NotReady" => {
            Some(format!("{DAEMONS_STATUS} says NotReady: the driver's daemons have not all started"))
        }
        (MARKER, FileState::Absent) if !around.wants_marker => {
            Some("nothing waits for MOFED here".to_owned())
        }
        (DAEMONS_STATUS | WORKLOAD_TYPE, FileState::Present { text, .. }) => {
            Some(format!("its content is {text:?}"))
        }
        (_, FileState::Present { written, .. }) => {
            let before = seen.stamp(file.after?).written()?;
            let older = format!("older than {}", file.after?);
            (before - written > CLOCK_STEP).then_some(older)
        }
        (_, FileState::Absent) => None,
    }
}
