// SPDX-License-Identifier: Apache-2.0
//! The gate's log: a line for each transition, heartbeats, and the last line with the account of the time.

use crate::ready::condition::{ConditionType, DOES_NOT_APPLY, Reason, Status};
use crate::ready::exit::Exit;
use crate::ready::gate::step::{Effect, Last, Level, Line, Opening};
use crate::ready::gate::{Change, Gate};
use crate::ready::look::Cause;
use crate::ready::time::{BootTime, Seconds};
use crate::ready::verdict::{Condition, Outcome, Verdict};

impl Gate {
    pub(super) fn line(&self, now: BootTime, level: Level, text: String) -> Line {
        let about = self.verdict().and_then(Verdict::deciding).map(|c| (c.r#type, c.reason));
        Line { level, text, about, cause: None, elapsed: self.elapsed(now) }
    }

    /// The line of a change, unless there were too many of them.
    pub(super) fn log_change(&mut self, now: BootTime, cause: &Cause, change: Change) -> Vec<Effect> {
        let line = self.transition(now, cause, change.broke);
        line.map(Effect::Log).into_iter().chain([Effect::Publish]).collect()
    }

    /// The closing line of the same look says the rest.
    pub(super) fn has_more_than_close(&self, change: &Change) -> bool {
        change.broke.is_some() || self.verdict().is_some_and(|verdict| !self.later(verdict).is_empty())
    }

    fn transition(&mut self, now: BootTime, cause: &Cause, broken: Option<String>) -> Option<Line> {
        if !self.may_log() {
            return None;
        }
        let verdict = self.verdict()?;
        let (level, text) = match (verdict.deciding(), verdict.outcome, broken) {
            (_, _, Some(how)) => {
                (Level::Warn, format!("{how} while everything settled: the settle time starts again"))
            }
            (None, ..) => (Level::Info, "every condition is met".to_owned()),
            (Some(_), Outcome::NotApplicable, _) => (Level::Info, exempted(verdict)),
            (Some(c), Outcome::Blocked, _) if self.may_rebuild(verdict) => (
                Level::Warn,
                format!(
                    "nvidia-peermem.ko will be rebuilt, if possible, once all else has settled: {}",
                    c.message
                ),
            ),
            (Some(c), Outcome::Blocked, _) => {
                (Level::Error, format!("blocked, waiting cannot help: {}", sentence(c)))
            }
            (Some(c), ..) if c.reason == Reason::Settling => {
                (Level::Info, format!("settling: {}", c.message))
            }
            (Some(c), ..) => (Level::Info, format!("waiting: {}{}", sentence(c), self.later(verdict))),
        };
        let mut line = self.line(now, level, text);
        line.cause = Some(cause.clone());
        Some(line)
    }

    pub(super) fn heartbeat(&self, now: BootTime, left_out: &str) -> Line {
        let left = self
            .deadline()
            .map_or("no deadline".to_owned(), |d| format!("{} left", Seconds(d.saturating_sub(now))));
        let cures = self.verdict().is_some_and(|verdict| self.may_rebuild(verdict));
        let what = self.verdict().and_then(Verdict::deciding).map_or(String::new(), |c| said(c, cures));
        self.line(now, Level::Info, format!("still waiting ({left}): {what}{left_out}"))
    }

    /// The last line: how it ended, where the time went, and what was still waited for.
    pub(super) fn close(&self, now: BootTime, last: Last, cause: Option<&Cause>) -> Vec<Effect> {
        let deciding = self.verdict().and_then(Verdict::deciding);
        let settling = self.memory.settling.is_some();
        let (level, how) = match last {
            Ok(Opening::Ready) => (Level::Info, "open: MOFED is ready".to_owned()),
            Ok(Opening::NotApplicable) => (Level::Info, format!("open: {DOES_NOT_APPLY}")),
            Ok(Opening::ForRebuild) => (
                Level::Info,
                "every condition is met except for nvidia-peermem.ko, which a rebuild may cure".to_owned(),
            ),
            Ok(Opening::DryRun) if settling => {
                (Level::Info, "open: dry run; every condition is met at this look".to_owned())
            }
            Ok(Opening::DryRun) => (Level::Warn, "open: dry run; it would have waited".to_owned()),
            Ok(Opening::TimedOut) => (
                Level::Warn,
                "OPEN ALTHOUGH NOT READY: the deadline passed and --on-timeout is proceed".to_owned(),
            ),
            Err(Exit::TimedOut) if self.look.is_none() => (
                Level::Error,
                "gave up: the deadline passed before the first look at the node ended".to_owned(),
            ),
            Err(Exit::TimedOut) if deciding.is_none() => {
                (Level::Error, "gave up: the deadline passed just when everything had settled".to_owned())
            }
            Err(Exit::TimedOut) => (Level::Error, "gave up: the deadline passed".to_owned()),
            Err(Exit::Blocked) => (Level::Error, "gave up: waiting cannot help".to_owned()),
            Err(Exit::Signal(signal)) => (Level::Warn, format!("ended by signal {signal}")),
            Err(_) => (Level::Info, "ended".to_owned()),
        };
        let mut text = format!("{how} ({})", self.account(now));
        if let Some(verdict) = self.verdict().filter(|v| v.outcome == Outcome::NotApplicable) {
            let why = exempted(verdict);
            text += &format!(": {}", why.trim_end_matches(DOES_NOT_APPLY).trim_end_matches(": "));
        } else if let Some(c) = deciding {
            // A remedy would be advice against the rebuild that follows.
            let is_rebuild_due = last == Ok(Opening::ForRebuild);
            text += &format!(": {}", said(c, is_rebuild_due));
            if c.remedy.is_none() && matches!(last, Err(Exit::TimedOut | Exit::Blocked)) {
                text += "; what to do: raise --timeout if MOFED is still building, which takes 5 to 40 minutes, or \
                    find the cause with peermem-doctor on this node";
            }
        }
        let mut effects = Vec::new();
        if last == Ok(Opening::DryRun) {
            effects.extend(self.would_wait_for(now));
        }
        // A separate line, so the last one is short: the gate is open.
        let next_build = self.look.as_ref().and_then(|look| look.next_build.as_ref());
        let is_for_good = matches!(last, Ok(opening) if opening != Opening::ForRebuild);
        if let Some(next) = next_build.filter(|_| is_for_good) {
            // Where nothing is known and nothing to do, nvidia_peermem is live and stays so.
            let quiet = if next.status == Status::Unknown { Level::Debug } else { Level::Info };
            let level = if next.remedy.is_some() { Level::Warn } else { quiet };
            effects.push(Effect::Log(Line { about: None, ..self.line(now, level, next.to_string()) }));
        }
        let line = Line { cause: cause.cloned(), ..self.line(now, level, text) };
        effects.extend([Effect::Log(line), Effect::Publish, Effect::Last(last)]);
        effects
    }

    fn would_wait_for(&self, now: BootTime) -> Vec<Effect> {
        let unmet = self.verdict().into_iter().flat_map(Verdict::unmet);
        let line = |c: &Condition| Line {
            about: Some((c.r#type, c.reason)),
            ..self.line(now, Level::Info, format!("dry run: would wait for {}: {}", c.r#type, sentence(c)))
        };
        unmet.filter(|c| c.r#type != ConditionType::Settled).map(|c| Effect::Log(line(c))).collect()
    }

    /// A condition that a person, or a rebuild, can cure while the gate still waits for another.
    fn later(&self, verdict: &Verdict) -> String {
        match verdict.blocking_later() {
            Some(c) if self.rebuilds && c.reason.needs_rebuild() => {
                format!("; then nvidia-peermem.ko will be rebuilt, if possible: {}", c.message)
            }
            _ => later(verdict),
        }
    }

    fn account(&self, now: BootTime) -> String {
        let mut account = format!("{} in all", Seconds(self.elapsed(now)));
        for (r#type, spent) in self.spent.iter().filter(|(_, spent)| !spent.is_zero()) {
            account += &format!(", {} for {type}", Seconds(*spent));
        }
        account
    }
}

/// The parts of a verdict whose change is logged.
pub(super) type LoggedParts = (Outcome, Option<(ConditionType, Reason, String)>, String);

pub(super) fn logged_parts(verdict: &Verdict) -> LoggedParts {
    let deciding = verdict.deciding().map(|c| (c.r#type, c.reason, c.message.clone()));
    (verdict.outcome, deciding, later(verdict))
}

/// A condition that a person can cure while the gate still waits for another.
fn later(verdict: &Verdict) -> String {
    match verdict.blocking_later() {
        Some(c) => format!("; then {} will block: {}", c.r#type, sentence(c)),
        None => String::new(),
    }
}

/// Why no consumer needs MOFED here, each in a sentence.
fn exempted(verdict: &Verdict) -> String {
    verdict.exemptions().iter().map(|c| c.message.as_str()).collect::<Vec<_>>().join("; ")
}

/// The message, with the remedy unless it is cured without a person.
fn said(condition: &Condition, is_cured: bool) -> String {
    if is_cured { condition.message.clone() } else { sentence(condition) }
}

/// The message, and the remedy if there is one.
pub(crate) fn sentence(condition: &Condition) -> String {
    match &condition.remedy {
        Some(remedy) => format!("{}; what to do: {remedy}", condition.message),
        None => condition.message.clone(),
    }
}
