// SPDX-License-Identifier: Apache-2.0
//! Where `keep` publishes its state: metrics, status file, service manager, and the processes that use devices.

use crate::keeper::notify::Systemd;
use crate::keeper::status::{MemoryFile, StatusFile, Summary};
use crate::keeper::users::UserSearch;
use crate::keeper::{Keep, State, status};
use crate::process::output::OutputFile;
use crate::ready::clock;
use crate::ready::clock::now;
use crate::text::json;
use crate::watch::Watch;
use crate::words::report;
use crate::words::report::Report;
use std::time::{Duration, UNIX_EPOCH};

/// The files that `keep` was asked for.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) metrics: Option<OutputFile>,
    pub(crate) status: Option<OutputFile>,
    /// The memory for the next `keep` of this boot: beside the status file, and never removed.
    pub(crate) memory: Option<OutputFile>,
}

impl Files {
    /// Removes metrics and status: a file that is left behind would say that `keep` still runs.
    pub(crate) fn clear(&self) {
        [&self.status, &self.metrics].into_iter().flatten().for_each(OutputFile::remove);
    }
}

pub(crate) struct Publisher<'a> {
    files: &'a Files,
    /// All is written again at least this often.
    heartbeat: Duration,
    pub(crate) systemd: Systemd,
    /// Processes that have devices open, once they were searched for.
    holders: Option<Vec<String>>,
    search: UserSearch,
    /// The last status that systemd was sent.
    sent: String,
    /// The memory that was written last.
    remembered: String,
    /// Metrics and status wait for the next look: after a failure there is no verdict.
    is_owed: bool,
}

impl<'a> Publisher<'a> {
    pub(crate) fn new(files: &'a Files, systemd: Systemd, heartbeat: Duration) -> Self {
        Self {
            files,
            heartbeat,
            systemd,
            holders: None,
            search: UserSearch::default(),
            sent: String::new(),
            remembered: String::new(),
            is_owed: false,
        }
    }

    /// Writes what the next `keep` of this boot must know, if that has changed.
    pub(super) fn remember(&mut self, keep: &Keep, watch: &Watch) {
        let (Some(file), Some(seen)) = (&self.files.memory, watch.seen()) else { return };
        let memory = MemoryFile { boot_id: seen.kernel.boot_id.clone(), memory: keep.memory() };
        // None of our types fails.
        let text = json(&memory).unwrap_or_default() + "\n";
        if text != self.remembered && file.publish(&text) {
            self.remembered = text;
        }
    }

    /// Publishes to all of them. A failure warns once and changes nothing else.
    pub(crate) fn publish(&mut self, keep: &Keep, watch: &Watch) {
        let status = format!("{}: {}", keep.state(), keep.sentence());
        if status != self.sent {
            self.systemd.status(&status);
            self.sent = status;
        }
        let about = keep.verdict().zip(watch.seen());
        self.is_owed = about.is_none();
        let Some((verdict, seen)) = about else { return };
        if let Some(file) = &self.files.metrics {
            let since_boot = keep.ledger().loads.1.map(|at| now().saturating_sub(at));
            let wall = clock::wall().duration_since(UNIX_EPOCH).unwrap_or_default();
            let last = since_boot.map(|ago| wall.saturating_sub(ago).as_secs_f64());
            let own = if keep.ends() { String::new() } else { status::metrics(keep, last) };
            file.publish(&(report::metrics(verdict, watch.elapsed()) + &own));
        }
        if let Some(file) = &self.files.status {
            let status = StatusFile {
                report: Report::new(
                    env!("CARGO_PKG_VERSION"),
                    watch.node,
                    &seen.kernel,
                    verdict,
                    clock::wall(),
                ),
                keep: Summary::of(keep, self.holders.as_deref().unwrap_or_default(), self.heartbeat, now()),
            };
            // None of our types fails.
            let text = json(&status).unwrap_or_default() + "\n";
            file.publish(&text);
        }
    }

    /// Publishes what an earlier attempt could not.
    pub(crate) fn catch_up(&mut self, keep: &Keep, watch: &Watch) {
        if self.is_owed {
            self.publish(keep, watch);
        }
    }

    /// What is due beside the looks: the service manager, and the search for the module's users.
    pub(crate) fn attend(&mut self, keep: &Keep, watch: &Watch) {
        self.systemd.attend();
        if keep.state() != State::Busy {
            (self.holders, self.search) = (None, UserSearch::default());
            return;
        }
        let Some(found) = self.search.attend(&watch.node.places.proc) else { return };
        if found.is_empty() && self.holders.is_none() {
            tracing::warn!(
                "no visible process has GPU or RDMA devices open; seeing all processes needs hostPID: true and CAP_SYS_PTRACE"
            );
        }
        let is_new = self.holders.as_ref().is_none_or(|known| *known != found);
        if is_new && !found.is_empty() {
            tracing::warn!(
                "processes that may use it, because they have GPU or RDMA devices open: {}",
                found.join(", ")
            );
        }
        self.holders = Some(found);
        if is_new {
            self.publish(keep, watch);
        }
    }
}
