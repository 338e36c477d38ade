// SPDX-License-Identifier: Apache-2.0
//! A log, from bytes to sayings.

use super::boots::Boot;
use super::{Meaning, Sentence, Speakers, Table, Understood, Who, own_stamp, shortened};
use crate::record::{self, Lines, Record, Written};
use crate::stamp::{SECOND, Stamp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// What a log's lines look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A container's: the CRI's or Docker's.
    Container,
    /// A system log, of which the lines of the kernel, kubelet and the clock count.
    System,
    /// Texts without anything around them.
    Bare,
}

/// A line that was understood, or several that say the same and nothing else between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saying {
    /// What it means.
    pub meaning: Meaning,
    /// Who said it.
    pub who: Who,
    /// When, the first time: the runtime's stamp, else the program's own.
    pub at: Option<Stamp>,
    /// When, the last time.
    pub until: Option<Stamp>,
    /// How often.
    pub count: u64,
    /// The sentence's fields, shortened, as they came: escape them where they are printed.
    pub fields: BTreeMap<String, String>,
    /// The line's text, shortened, as it came: escape it where it is printed.
    pub text: String,
    /// Which line of what was read, from 0: an order where there are no times.
    pub line: u64,
}

/// The wall clock was set while a log was written: it went back, or its distance from the kernel's own clock changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockStep {
    /// What it showed, or would have shown a moment later.
    pub before: Stamp,
    /// What it showed then.
    pub after: Stamp,
    /// How long the kernel had run, where the log says that.
    pub since_boot: Option<Stamp>,
    /// The first line after it, from 0.
    pub line: u64,
}

/// What one log said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// In the order of the lines.
    pub sayings: Vec<Saying>,
    /// The stamp of the first line that has one.
    pub first: Option<Stamp>,
    /// The stamp of the last line that has one.
    pub last: Option<Stamp>,
    /// Where the wall clock was set.
    pub steps: Vec<ClockStep>,
    /// When the kernel started, by the wall clock, if lines have both.
    pub booted: Option<Stamp>,
    /// Lines that were read.
    pub lines: u64,
    /// Lines of which the form is not the log's.
    pub damaged: u64,
    /// Sayings that were forgotten, oldest first, because there were too many.
    pub forgotten: u64,
}

/// The runtimes cut lines into parts of 16 KiB; no sentence is that long.
const PARTS: usize = 8 * 1024;
/// More of them are one more fault of the same clock.
const STEPS: usize = 16;
/// The fields that say what a sentence is about.
const OF: [&str; 2] = ["container", "plugin"];
/// `2025-11-21T11:58:39`: comparable as text where the zone is the same.
const TO_THE_SECOND: usize = 19;

/// Listens to one log.
#[derive(Debug)]
pub struct Listener<'t> {
    rules: Rules<'t>,
    lines: Lines,
    ears: Ears,
    /// The rest of a cut line comes next.
    is_behind_gap: bool,
}

/// How it listens.
#[derive(Clone, Copy, Debug)]
struct Rules<'t> {
    table: &'t Table,
    form: Form,
    not_after_ns: i64,
    most: usize,
}

/// What it knows so far.
#[derive(Debug, Default)]
struct Ears {
    heard: Heard,
    /// Each with whether its sentence is polled.
    kept: VecDeque<(Saying, bool)>,
    /// The parts of a line so far, and the stamp of the first.
    parts: Option<(Option<Stamp>, Vec<u8>)>,
    /// The last line's stamp, as it is written.
    last: Vec<u8>,
    last_is_classic: bool,
    boot: Boot,
    /// The first line of this run of the kernel.
    boot_from: u64,
}

impl<'t> Listener<'t> {
    /// For one log. What has no year was written before `not_after_ns`; of more than `most` sayings the last count.
    #[must_use]
    pub fn new(table: &'t Table, form: Form, not_after_ns: i64, most: usize) -> Self {
        let rules = Rules { table, form, not_after_ns, most: most.max(1) };
        Self { rules, lines: Lines::default(), ears: Ears::default(), is_behind_gap: false }
    }

    /// More bytes of the log.
    pub fn push(&mut self, bytes: &[u8]) {
        let bytes = if self.is_behind_gap { self.behind_gap(bytes) } else { bytes };
        let Self { rules, lines, ears, .. } = self;
        lines.push(bytes, |line| ears.line(line, rules));
    }

    /// A part of the log is left out: the line that is unfinished means nothing, and neither does what comes next up
    /// to the end of its line.
    pub fn gap(&mut self) {
        self.lines.end(|_| {});
        self.ears.parts = None;
        self.is_behind_gap = true;
    }

    fn behind_gap<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let Some(end) = memchr::memchr(b'\n', bytes) else { return &[] };
        self.is_behind_gap = false;
        &bytes[end + 1..]
    }

    /// One line of a container, already out of its form.
    pub fn record(&mut self, record: Record<'_>) {
        let Self { rules, ears, .. } = self;
        ears.heard.lines += 1;
        ears.record(record, rules);
    }

    /// One line of a system log.
    pub fn system(&mut self, line: &[u8]) {
        let Self { rules, ears, .. } = self;
        ears.heard.lines += 1;
        ears.system(line, rules);
    }

    /// One record of the kernel's ring.
    pub fn ring(&mut self, record: &[u8]) {
        let Some((stamp, text)) = record::ring(record) else { return };
        let Self { rules, ears, .. } = self;
        ears.heard.lines += 1;
        ears.heard.first.get_or_insert(stamp);
        ears.heard.last = Some(stamp);
        ears.text(text, rules, || Some(stamp));
    }

    /// The log has ended.
    #[must_use]
    pub fn end(mut self) -> Heard {
        let Self { rules, lines, ears, .. } = &mut self;
        lines.end(|line| ears.line(line, rules));
        ears.heard.booted = ears.boot.started();
        ears.end_boot();
        let Ears { mut heard, kept, parts, last, last_is_classic, .. } = self.ears;
        heard.damaged += u64::from(parts.is_some());
        heard.sayings = kept.into_iter().map(|(saying, _)| saying).collect();
        heard.last = written(&last, last_is_classic).stamp(self.rules.not_after_ns).or(heard.last);
        heard
    }
}

fn written(bytes: &[u8], is_classic: bool) -> Written<'_> {
    if is_classic { Written::Classic(bytes) } else { Written::Rfc3339(bytes) }
}

impl Ears {
    fn line(&mut self, line: &[u8], rules: &Rules<'_>) {
        self.heard.lines += 1;
        match rules.form {
            Form::Container => match record::container(line) {
                Some(record) => self.record(record, rules),
                None => self.heard.damaged += 1,
            },
            Form::System => self.system(line, rules),
            Form::Bare => self.text(line, rules, || None),
        }
    }

    fn record(&mut self, record: Record<'_>, rules: &Rules<'_>) {
        let Record { written, text, is_partial } = record;
        self.clock(written, rules);
        let is_first = self.parts.is_none();
        if is_partial || !is_first {
            let stamp = || written.stamp(rules.not_after_ns);
            let (_, parts) = self.parts.get_or_insert_with(|| (stamp(), Vec::new()));
            let room = PARTS - parts.len().min(PARTS);
            parts.extend_from_slice(&text[..text.len().min(room)]);
        }
        match self.parts.take_if(|_| !is_partial) {
            Some((stamp, parts)) => self.text(&parts, rules, || stamp),
            None if is_partial => {}
            None => self.text(&text, rules, || written.stamp(rules.not_after_ns)),
        }
    }

    fn system(&mut self, line: &[u8], rules: &Rules<'_>) {
        let Some(spoken) = record::spoken(line) else {
            self.heard.damaged += 1;
            return;
        };
        self.clock(spoken.written, rules);
        if let Some(since_boot) = spoken.since_boot {
            self.apart(spoken.written, since_boot, rules);
        }
        let Some(who) = speaker(spoken.program) else { return };
        let understood = rules.table.understand(spoken.text).filter(|u| u.sentence.who == who);
        if let Some(understood) = understood {
            let stamp = spoken.since_boot.or_else(|| spoken.written.stamp(rules.not_after_ns));
            self.keep(understood, spoken.text, stamp, rules);
        }
    }

    /// The stamp is asked for only where the text is understood.
    fn text(&mut self, text: &[u8], rules: &Rules<'_>, stamp: impl FnOnce() -> Option<Stamp>) {
        if let Some(understood) = rules.table.understand(text) {
            let stamp = stamp().or_else(|| own_stamp(text, rules.not_after_ns));
            self.keep(understood, text, stamp, rules);
        }
    }

    /// Remembers the stamp, and finds a clock that goes back.
    fn clock(&mut self, written: Written<'_>, rules: &Rules<'_>) {
        let (Written::Rfc3339(bytes) | Written::Classic(bytes)) = written else { return };
        let is_classic = matches!(written, Written::Classic(_));
        if self.heard.first.is_none() {
            self.heard.first = written.stamp(rules.not_after_ns);
        }
        if !is_classic && self.may_be_back(bytes) {
            let times = self::written(&self.last, false).stamp(0).zip(written.stamp(0));
            if let Some((before, after)) = times.filter(|(before, after)| after.ns < before.ns - SECOND) {
                self.step(ClockStep { before, after, since_boot: None, line: self.heard.lines - 1 });
            }
        }
        self.last.clear();
        self.last.extend_from_slice(bytes);
        self.last_is_classic = is_classic;
    }

    /// Follows the wall clock by the kernel's own.
    fn apart(&mut self, written: Written<'_>, since_boot: Stamp, rules: &Rules<'_>) {
        let Some(wall) = written.stamp(rules.not_after_ns) else { return };
        if self.boot.is_over(since_boot) {
            self.end_boot();
        }
        self.boot.line(self.heard.lines - 1, wall, since_boot);
    }

    /// What the kernel said in this run of it gets the time that the wall clock showed.
    fn end_boot(&mut self) {
        let boot = std::mem::take(&mut self.boot);
        let of_it = self.kept.iter_mut().rev().take_while(|(saying, _)| saying.line >= self.boot_from);
        for (saying, _) in of_it {
            let wall = |at: Option<Stamp>| at.map(|at| boot.wall(saying.line, at).unwrap_or(at));
            (saying.at, saying.until) = (wall(saying.at), wall(saying.until));
        }
        boot.steps().for_each(|step| self.step(step));
        self.boot_from = self.heard.lines.saturating_sub(1);
    }

    fn step(&mut self, step: ClockStep) {
        // The same step, by the stamps alone and by both clocks: the second is more precise.
        self.heard.steps.retain(|other| other.line != step.line);
        if self.heard.steps.len() < STEPS {
            self.heard.steps.push(step);
        }
    }

    /// As text, which is quick.
    fn may_be_back(&self, bytes: &[u8]) -> bool {
        let seconds = bytes.get(..TO_THE_SECOND).zip(self.last.get(..TO_THE_SECOND));
        !self.last_is_classic && seconds.is_some_and(|(now, last)| now < last)
    }

    fn keep(&mut self, understood: Understood, text: &[u8], at: Option<Stamp>, rules: &Rules<'_>) {
        let Understood { sentence: Sentence { who, meaning, is_polled, .. }, fields } = understood;
        let (line, text) = (self.heard.lines - 1, shortened(text));
        let saying = Saying { meaning: *meaning, who: *who, at, until: at, count: 1, fields, text, line };
        if *is_polled && self.repeat(&saying) {
            return;
        }
        if self.kept.len() == rules.most {
            self.kept.pop_front();
            self.heard.forgotten += 1;
        }
        self.kept.push_back((saying, *is_polled));
    }

    /// Adds to what was said already of the same thing, where nothing but polling came between. The newest words
    /// stay.
    fn repeat(&mut self, new: &Saying) -> bool {
        let since_a_step = self.kept.iter_mut().rev().take_while(|(_, is_polled)| *is_polled);
        let clock = |saying: &Saying| saying.until.map(|at| at.clock);
        let is_same = |old: &Saying| {
            (old.meaning, old.who, clock(old)) == (new.meaning, new.who, clock(new))
                && OF.iter().all(|name| old.fields.get(*name) == new.fields.get(*name))
        };
        let mut same = since_a_step.map(|(saying, _)| saying).filter(|saying| is_same(saying));
        let Some(saying) = same.next() else { return false };
        saying.count += 1;
        saying.until = new.until.or(saying.until);
        saying.fields.clone_from(&new.fields);
        saying.text.clone_from(&new.text);
        true
    }
}

/// Who speaks under this name in the system's log.
#[must_use]
pub fn speaker(program: &[u8]) -> Option<Who> {
    Some(match program {
        b"kernel" => Who::Kernel,
        b"chronyd" => Who::Clock,
        b"containerd" => Who::Containerd,
        b"nvidia-gridd" => Who::Gridd,
        b"nvidia-fabricmanager-start.sh" => Who::FabricManagerStart,
        b"kubelet" | b"k3s" | b"rke2" | b"microk8s.daemon-kubelite" => Who::Kubelet,
        _ => return None,
    })
}

/// A whole log at once: for tests, and for who feeds it with random bytes.
#[must_use]
pub fn hear(speakers: Speakers, form: Form, bytes: &[u8], not_after_ns: i64) -> Heard {
    let table = Table::of(speakers);
    let mut listener = Listener::new(&table, form, not_after_ns, 10_000);
    listener.push(bytes);
    listener.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_repeated_is_told_once_for_each_container_in_the_newest_words() {
        let line = |container: &str, end: &str| {
            format!(
                "Aug 23 00:30:22 gpu-1 kubelet[1500]: E0823 00:30:22.000000    1500 pod_workers.go:1301] \"Error syncing \
                 pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"{container}\\\" with \
                 RunContainerError: \\\"{}: change root failed: {}: unknown\\\"\" pod=\"x/y\"\n",
                "runc create failed: ".repeat(20),
                end.repeat(300)
            )
        };
        let log = [line("a", "x"), line("b", "x"), line("a", "y")].concat();
        let heard = hear(Speakers::from_iter([Who::Kubelet]), Form::System, log.as_bytes(), i64::MAX / 2);
        let told: Vec<_> =
            heard.sayings.iter().map(|said| (said.fields["container"].as_str(), said.count)).collect();
        assert_eq!(told, [("a", 2), ("b", 1)]);
        let is_newest = |said: &Saying| said.fields["more"].ends_with("y: unknown");
        assert_eq!(heard.sayings.iter().map(is_newest).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn of_what_kubelet_says_the_end_is_kept() {
        let why = format!("{}the end", "runc create failed: ".repeat(20));
        let line = format!(
            "E0823 00:30:22.000000    1500 run.go:74] \"command failed\" err=\"failed to run Kubelet: {why}\" pod=\"x/y\""
        );
        let understood = Table::of(Speakers::from_iter([Who::Kubelet])).understand(line.as_bytes()).unwrap();
        let told = &understood.fields["why"];
        assert!(told.starts_with('…') && told.ends_with("the end"), "{told}");
    }
}
