// SPDX-License-Identifier: Apache-2.0
//! What was said, as far as it still counts.

use super::Case;
use crate::finding::{Finding, Id};
use crate::sentence::{Meaning, Who};
use crate::stamp::SECOND;
use crate::symptoms::logs::Said;
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
    /// The newest of these sayings since the boot, unless one of the others came later.
    pub(super) fn heard(&self, wanted: &[Meaning], unless: &[Meaning]) -> Option<&Said> {
        let said = &self.symptoms.logs.said;
        let last = |meanings: &[Meaning]| said.iter().rposition(|one| meanings.contains(&one.saying.meaning));
        let at = last(wanted)?;
        let is_overcome = last(unless).is_some_and(|later| later > at);
        said.get(at).filter(|one| !is_overcome && self.is_of_this_boot(one))
    }

    /// The newest of these sayings by its last repetition, if that is at most [`LATELY`] ago, and as long after the
    /// boot: what a boot brings has passed by then.
    pub(super) fn heard_lately(&self, wanted: Meaning) -> Option<&Said> {
        let survey = &self.symptoms.survey;
        let (booted, now) = (*survey.clock.boot.as_ref().ok()?, survey.clock.now()?);
        let timed =
            self.symptoms.logs.saying(wanted).filter_map(|said| Some((self.said_at(said)? / SECOND, said)));
        let (at, newest) = timed.filter(|(at, _)| *at <= now + A_MINUTE).max_by_key(|(at, _)| *at)?;
        (now - at <= LATELY && at - booted > LATELY).then_some(newest)
    }

    /// When it was said last, in nanoseconds since 1970. Syslog's classic stamps, of whole seconds, have the node's
    /// zone and do not say which: the file's own time says it.
    pub(super) fn said_at(&self, said: &Said) -> Option<i64> {
        const QUARTER: i64 = 15 * A_MINUTE * SECOND;
        let logs = &self.symptoms.logs;
        let at = logs.on_wall(said.saying.until.or(said.saying.at)?)?.ns;
        let file = logs.file(said).filter(|file| file.container.is_none());
        let ahead = file.and_then(|file| {
            let last = file.last.filter(|last| last.precision_ns == SECOND)?;
            Some(file.modified?.ns - logs.on_wall(last)?.ns)
        });
        let zone = ahead.map_or(0, |ahead| (ahead + QUARTER / 2).div_euclid(QUARTER) * QUARTER);
        Some(if zone.abs() <= FARTHEST { at + zone } else { at })
    }

    /// The same as [`Self::heard`], but one load of a module says both at once: nvidia says which GPU it refuses, and
    /// then that it is loaded. What the kernel says within seconds overcomes nothing.
    pub(super) fn heard_apart(&self, wanted: &[Meaning], unless: &[Meaning]) -> Option<&Said> {
        let said = self.heard(wanted, &[])?;
        if said.saying.who != Who::Kernel {
            return self.heard(wanted, unless);
        }
        let logs = &self.symptoms.logs;
        let time =
            |one: &Said| one.saying.until.or(one.saying.at).and_then(|at| logs.on_wall(at)).map(|at| at.ns);
        let later = logs.said.iter().skip_while(|one| !std::ptr::eq(*one, said)).skip(1);
        let mut overcoming = later.filter(|one| unless.contains(&one.saying.meaning));
        let is_overcome = overcoming.any(|one| match (time(said), time(one)) {
            (Some(said), Some(later)) => later - said > GRAIN,
            _ => true,
        });
        (!is_overcome).then_some(said)
    }

    /// The kernel's log has a line where a boot begins; its stamps have neither year nor zone. A log that was last
    /// written before the boot is not of it. The lines of other logs have full times.
    pub(super) fn is_of_this_boot(&self, said: &Said) -> bool {
        let (logs, clock) = (&self.symptoms.logs, &self.symptoms.chain.clock);
        let is_older = |at: i64| clock.boot.as_ref().is_ok_and(|boot| at < boot * SECOND - GRAIN);
        if let Some(file) = logs.file(said).filter(|file| file.container.is_none()) {
            let later = logs.said.iter().skip_while(|one| !std::ptr::eq(*one, said));
            let begins_later = later.skip(1).any(|one| one.saying.meaning == Meaning::KernelStarted);
            return !begins_later && file.modified.is_none_or(|modified| !is_older(modified.ns));
        }
        let at = said.saying.until.or(said.saying.at).and_then(|at| logs.on_wall(at));
        at.is_none_or(|at| !is_older(at.ns))
    }

    /// The finding that rests on a saying: the line itself, with its time, is the evidence.
    pub(super) fn by_word(&self, id: Id, said: &Said) -> Finding {
        Finding::new(id, self.source(said), quoted(said))
    }

    /// The same as more evidence.
    pub(super) fn and_word(&self, finding: Finding, said: Option<&Said>) -> Finding {
        match said {
            Some(said) => finding.seen(self.source(said), quoted(said)),
            None => finding,
        }
    }

    fn source(&self, said: &Said) -> impl Display + use<> {
        let file = self.symptoms.logs.file(said);
        file.map(|file| file.path.display().to_string()).unwrap_or_default()
    }

    /// A field of a saying, such as the module that was refused.
    pub(super) fn field<'a>(said: &'a Said, name: &str) -> &'a str {
        said.saying.fields.get(name).map_or("", String::as_str)
    }
}

fn quoted(said: &Said) -> String {
    let saying = &said.saying;
    let at = saying.until.or(saying.at).map(|at| format!("{at}: ")).unwrap_or_default();
    let times = if saying.count > 1 { format!(" ({} times)", saying.count) } else { String::new() };
    // kubelet's lines are long, and say what counts at their ends.
    let told = match saying.who {
        Who::Kubelet => saying.meaning.text(&saying.fields),
        _ => saying.text.clone(),
    };
    format!("{at}{told}{times}")
}
