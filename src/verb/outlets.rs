// SPDX-License-Identifier: Apache-2.0
//! Where `keep` tells what it is at: metrics, status file, service manager, and who holds what.

use super::keep::Service;
use super::watch::Watch;
use crate::act::metrics;
use crate::act::notify::Manager;
use crate::gate::BootTime;
use crate::keep::status::{self, Kept, Status};
use crate::keep::{Keep, State};
use crate::probe;
use crate::report::{self, Report};
use crate::wake::now;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A search through all of /proc comes no more often.
const SEARCH: Duration = Duration::from_secs(5);

pub(super) struct Outlets<'a> {
    asked: &'a Service,
    /// Processes that hold devices, and when they were searched for.
    holders: (Vec<String>, Option<BootTime>),
    warned: BTreeSet<&'static str>,
    told: String,
}

impl<'a> Outlets<'a> {
    pub(super) fn new(asked: &'a Service) -> Self {
        Self { asked, holders: (Vec::new(), None), warned: BTreeSet::new(), told: String::new() }
    }

    /// To all of them; a failure warns once and changes nothing else.
    pub(super) fn publish(&mut self, keep: &Keep, watch: &Watch, manager: &Manager) {
        self.search(keep);
        let told = format!("{}: {}", keep.state(), keep.sentence());
        if told != self.told {
            manager.status(&told);
            self.told = told;
        }
        let (Some(verdict), Some(seen)) = (keep.verdict(), watch.seen()) else { return };
        if let Some(path) = &self.asked.hold.metrics_file {
            let since_boot = keep.ledger().loads.1.map(|at| now().saturating_sub(at));
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let last = since_boot.map(|ago| wall.saturating_sub(ago).as_secs_f64());
            let text = report::metrics(verdict, watch.elapsed()) + &status::metrics(keep, last);
            self.replace("metrics file", path, &text);
        }
        if let Some(path) = &self.asked.status_file {
            let (name, heartbeat) = (watch.node().name.as_deref(), self.asked.hold.policy.heartbeat);
            let status = Status {
                report: Report::new(name, &seen.kernel, verdict, SystemTime::now()),
                keep: Kept::of(keep, &self.holders.0, heartbeat, now()),
            };
            // Fails for no type of ours.
            let text = serde_json::to_string(&status).unwrap_or_default() + "\n";
            self.replace("status file", path, &text);
        }
    }

    fn replace(&mut self, what: &'static str, path: &Path, text: &str) {
        if let Err(error) = metrics::replace(path, text) {
            if self.warned.insert(what) {
                tracing::warn!(
                    "cannot write the {what} {}: {error}: see that its directory is there and may be written",
                    path.display()
                );
            }
        }
    }

    fn search(&mut self, keep: &Keep) {
        if keep.state() != State::Busy {
            self.holders = (Vec::new(), None);
            return;
        }
        if self.holders.1.is_some_and(|searched| now() < searched + SEARCH) {
            return;
        }
        let found = probe::holders(&self.asked.hold.node.places.proc);
        let is_first = self.holders.1.is_none();
        if !found.is_empty() && found != self.holders.0 {
            tracing::warn!("open on GPU or RDMA devices, and so perhaps what uses it: {}", found.join(", "));
        } else if found.is_empty() && is_first {
            tracing::warn!(
                "no process can be seen that has GPU or RDMA devices open; to see all of them takes the host's processes \
                 (hostPID: true) and CAP_SYS_PTRACE"
            );
        }
        self.holders = (found, Some(now()));
    }
}

/// What is left behind would say that somebody keeps something.
pub(super) fn clear(asked: &Service) {
    for path in [&asked.status_file, &asked.hold.metrics_file].into_iter().flatten() {
        // A file of ours; whatever else was named there stays.
        if path.is_file() {
            let _ = std::fs::remove_file(path);
        }
    }
}
