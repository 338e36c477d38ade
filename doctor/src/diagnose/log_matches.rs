// SPDX-License-Identifier: Apache-2.0
//! The lines of logs, as far as they still count.

use super::Case;
use crate::finding::{Finding, Id};
use crate::log::{LogEvent, LogMatch, LogSource};
use crate::stamp::SECOND;
use std::fmt::Display;

/// The node's clock may be set a little after the boot.
const GRAIN: i64 = 5 * SECOND;
/// In seconds.
const A_MINUTE: i64 = 60;
/// In seconds: kubelet tries again at least every five minutes, and may miss two turns.
const LATELY: i64 = 15 * A_MINUTE;
/// No zone is farther from UTC, in nanoseconds.
const FARTHEST: i64 = 14 * 60 * A_MINUTE * SECOND;

impl Case<'_> {
    /// The newest of these lines since the boot, unless one of the others came later.
    pub(super) fn logged(&self, wanted: &[LogEvent], unless: &[LogEvent]) -> Option<&LogMatch> {
        let found = &self.symptoms.logs.matches;
        let last = |events: &[LogEvent]| found.iter().rposition(|one| events.contains(&one.event));
        let at = last(wanted)?;
        let is_overcome = last(unless).is_some_and(|later| later > at);
        found.get(at).filter(|one| !is_overcome && self.is_of_this_boot(one))
    }

    /// The newest of these lines by its last repetition, if that is at most [`LATELY`] ago, and as long after the
    /// boot: what a boot brings has passed by then.
    pub(super) fn logged_lately(
        &self,
        wanted: LogEvent,
        is_about: impl Fn(&LogMatch) -> bool,
    ) -> Option<&LogMatch> {
        let survey = &self.symptoms.survey;
        let (booted, now) = (*survey.clock.boot.as_ref().ok()?, survey.clock.now()?);
        let wanted = self.symptoms.logs.of(wanted).filter(|found| is_about(found));
        // A line without any time is one that somebody posts about what is so.
        let timed = wanted.map(|found| (self.logged_at(found).map_or(now, |at| at / SECOND), found));
        let (at, newest) = timed.filter(|(at, _)| *at <= now + A_MINUTE).max_by_key(|(at, _)| *at)?;
        (now - at <= LATELY && at - booted > LATELY).then_some(newest)
    }

    /// When the line came last, in nanoseconds since 1970. Syslog's classic stamps, of whole seconds, have the node's
    /// zone and do not say which, and neither do klog's: the file's own time says it.
    pub(super) fn logged_at(&self, found: &LogMatch) -> Option<i64> {
        const QUARTER: i64 = 15 * A_MINUTE * SECOND;
        let logs = &self.symptoms.logs;
        let at = logs.on_wall(found.until.or(found.at)?)?.ns;
        let file = logs.file(found).filter(|file| file.container.is_none());
        let ahead = file.and_then(|file| {
            let last = file.last.filter(|last| file.is_local || last.precision_ns == SECOND)?;
            Some(file.modified?.ns - logs.on_wall(last)?.ns)
        });
        let zone = ahead.map_or(0, |ahead| (ahead + QUARTER / 2).div_euclid(QUARTER) * QUARTER);
        Some(if zone.abs() <= FARTHEST { at + zone } else { at })
    }

    /// The newest line of an event that is about the right thing and that nothing has overcome, by the same rule as
    /// [`Self::logged`]; but a line of the kernel within seconds overcomes nothing: one load of nvidia logs which GPU
    /// it refuses, and then that it is loaded.
    pub(super) fn logged_apart(
        &self,
        wanted: LogEvent,
        unless: &[LogEvent],
        is_about: impl Fn(&LogMatch) -> bool,
    ) -> Option<&LogMatch> {
        let logs = &self.symptoms.logs;
        let time = |one: &LogMatch| one.until.or(one.at).and_then(|at| logs.on_wall(at)).map(|at| at.ns);
        let is_overcome = |found: &LogMatch| {
            // What another GPU has got over says nothing of this one.
            let is_its = |one: &LogMatch| ["", Self::field(found, "gpu")].contains(&Self::field(one, "gpu"));
            let mut overcoming = logs.after(found).filter(|one| unless.contains(&one.event) && is_its(one));
            overcoming.any(|one| match (time(found), time(one)) {
                (Some(found_at), Some(later)) => {
                    found.source != LogSource::Kernel || later - found_at > GRAIN
                }
                _ => true,
            })
        };
        logs.of(wanted).rfind(|found| is_about(found) && !is_overcome(found) && self.is_of_this_boot(found))
    }

    /// The kernel's log has a line where a boot begins; its stamps have neither year nor zone. A log that was last
    /// written before the boot is not of it. The lines of other logs have full times.
    pub(super) fn is_of_this_boot(&self, found: &LogMatch) -> bool {
        let (logs, clock) = (&self.symptoms.logs, &self.symptoms.chain.clock);
        let is_older = |at: i64| clock.boot.as_ref().is_ok_and(|boot| at < boot * SECOND - GRAIN);
        if let Some(file) = logs.file(found).filter(|file| file.container.is_none()) {
            let begins_later = logs.after(found).any(|one| one.event == LogEvent::KernelStarted);
            return !begins_later && file.modified.is_none_or(|modified| !is_older(modified.ns));
        }
        let at = found.until.or(found.at).and_then(|at| logs.on_wall(at));
        at.is_none_or(|at| !is_older(at.ns))
    }

    /// The finding that rests on a line: the line itself, with its time, is the evidence.
    pub(super) fn by_log(&self, id: Id, found: &LogMatch) -> Finding {
        Finding::new(id, self.source(found), quoted(found))
    }

    /// The same as more evidence.
    pub(super) fn and_log(&self, finding: Finding, found: Option<&LogMatch>) -> Finding {
        finding.all(found.map(|found| (self.source(found), quoted(found))))
    }

    pub(super) fn source(&self, found: &LogMatch) -> impl Display + use<> {
        let file = self.symptoms.logs.file(found);
        file.map(|file| file.path.display().to_string()).unwrap_or_default()
    }

    /// A field of a line, such as the module that was refused.
    pub(super) fn field<'a>(found: &'a LogMatch, name: &str) -> &'a str {
        found.fields.get(name).map_or("", String::as_str)
    }
}

fn quoted(found: &LogMatch) -> String {
    let at = found.until.or(found.at).map(|at| format!("{at}: ")).unwrap_or_default();
    let times = if found.count > 1 { format!(" ({} times)", found.count) } else { String::new() };
    // kubelet's lines are long, and say what counts at their ends.
    let text = match found.source {
        LogSource::Kubelet => found.event.text(&found.fields),
        // A line of nvidia-smi's is the half of a table.
        LogSource::Smi => format!("{}: {}", found.event.text(&found.fields), found.text.trim()),
        _ => found.text.clone(),
    };
    format!("{at}{text}{times}")
}
