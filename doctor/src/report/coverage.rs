// SPDX-License-Identifier: Apache-2.0
//! The sources that a look has read and those that it has not: "nothing found" is worth no more than that.

use crate::symptoms::Symptoms;
use crate::symptoms::logs::{LogFile, Logs, UnknownLog};
use crate::text::counted;
use peermem_gate::text::{LinePrefixText, Page};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

/// The host's logs, by the beginnings of their files' names. A journal has both.
const LOGS: [(&str, &[&str]); 2] = [
    ("the kernel's log", &["kern.log", "messages", "syslog", "kmsg"]),
    ("kubelet's log", &["kubelet.log", "messages", "syslog"]),
];

/// Sources in words for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Read.
    looked_at: Vec<String>,
    /// Not there, not readable, or left out.
    not_looked_at: Vec<Unseen>,
    /// The operators' logs of which no line is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_understood: Vec<UnknownLog>,
    /// Logs that do not count. A report lists them by itself.
    #[serde(skip)]
    untrusted: Vec<Unseen>,
}

/// A source that was not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unseen {
    what: String,
    why: String,
}

impl Coverage {
    /// Of one look.
    pub fn of(symptoms: &Symptoms) -> Self {
        let mut coverage = Self::default();
        let hidden = symptoms.survey.processes.hidden();
        coverage.add(
            "devices and modules",
            symptoms.nvidias.is_ok() && symptoms.nics.is_ok(),
            "sysfs cannot be read",
        );
        coverage.add("processes", hidden.is_none(), "the host's are not visible from here");
        coverage.add(
            "the readiness chain",
            symptoms.chain.has_directory.is_ok(),
            "its directory cannot be read",
        );
        coverage.logs(&symptoms.logs);
        coverage
    }

    fn add(&mut self, name: &str, is_read: bool, why: &str) {
        if is_read {
            self.looked_at.push(name.to_owned());
        } else {
            self.not(name, why);
        }
    }

    fn not(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.not_looked_at.push(Unseen { what: what.into(), why: why.into() });
    }

    fn logs(&mut self, logs: &Logs) {
        let containers: BTreeSet<_> = logs.files.iter().filter_map(|file| file.container.as_ref()).collect();
        let containers: BTreeSet<_> = containers.iter().map(|log| (&log.uid, &log.container)).collect();
        match containers.len() {
            0 if logs.pods.iter().any(|pod| pod.containers.iter().any(|one| one.restart.is_some())) => {
                self.not("the operators' logs", "those below /var/log/pods are of other containers");
            }
            0 => self.not("the operators' logs", "none is below /var/log/pods"),
            1 => self.looked_at.push("the log of 1 container".to_owned()),
            count => self.looked_at.push(format!("the logs of {count} containers")),
        }
        let of_host = || logs.files.iter().filter(|file| file.container.is_none() && file.lines > 0);
        for (what, names) in LOGS {
            match of_host().find(|file| is_one_of(names, &file.path)) {
                Some(LogFile { path, .. }) => self.looked_at.push(format!("{what} ({})", path.display())),
                None => self.not(what, "neither syslog's files nor a journal has it"),
            }
        }
        self.not_understood.clone_from(&logs.not_understood);
        let untrusted: BTreeSet<_> =
            logs.untrusted.iter().map(|untrusted_log| &*untrusted_log.namespace).collect();
        let unseen = |namespace: &str| Unseen {
            what: format!("the logs in namespace {namespace}"),
            why: format!("--operator-namespace {namespace} counts them"),
        };
        self.untrusted = untrusted.into_iter().map(unseen).collect();
        let left_out = logs.left_out.pods + logs.left_out.files;
        if left_out > 0 {
            self.not(format!("{left_out} more logs"), "there are too many");
        }
    }

    /// One entry for what was read, and one for what was not.
    pub(super) fn text(&self, page: &mut Page) {
        page.entry(&LinePrefixText::new(0, "looked at: "), self.looked_at.join(", "));
        not_understood(&self.not_understood, page);
        let unseen = [self.not_looked_at.as_slice(), &self.untrusted].concat();
        let entries: Vec<_> = unseen.chunk_by(|one, next| one.why == next.why).map(same_why).collect();
        if !entries.is_empty() {
            page.entry(&LinePrefixText::new(0, "not read:  "), entries.join(", "));
        }
    }
}

/// One entry for the operators' logs of which no line is known, if there are such.
pub(super) fn not_understood(unknown: &[UnknownLog], page: &mut Page) {
    if unknown.is_empty() {
        return;
    }
    let logs = counted(unknown.len() as u64, "log");
    // Of the rest no last line was read.
    let shown = unknown.iter().filter(|log| !log.last.is_empty());
    let each: Vec<_> = shown.map(|log| format!("{} ({:?})", log.container, log.last)).collect();
    let more = if each.len() < unknown.len() { ", and others" } else { "" };
    let each = each.join(", ") + more;
    page.entry(&LinePrefixText::new(0, "not understood: "), format!("{logs} of the operators: {each}"));
}

fn same_why(all: &[Unseen]) -> String {
    let names: Vec<_> = all.iter().map(|one| one.what.as_str()).collect();
    format!("{} ({})", names.join(", "), all.first().map_or("", |one| &one.why))
}

fn is_one_of(names: &[&str], path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    names.iter().any(|log| name.starts_with(log)) || path.extension().is_some_and(|it| it == "journal")
}
