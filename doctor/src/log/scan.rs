// SPDX-License-Identifier: Apache-2.0
//! A log, from bytes to matches.

use super::boots::Boot;
use super::service::ServiceWords;
use super::{CAUSE, Fit, LogEvent, LogSource, LogSources, RuleSet, own_stamp, shortened};
use crate::record::{self, Lines, Record, Written};
use crate::stamp::{SECOND, Stamp};
use std::collections::{BTreeMap, VecDeque};

/// The form of a log's lines.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMatch {
    /// The event of the rule that the line fits.
    pub event: LogEvent,
    /// The program that wrote it.
    pub source: LogSource,
    /// When, the first time: the runtime's stamp, else the program's own.
    pub at: Option<Stamp>,
    /// When, the last time.
    pub until: Option<Stamp>,
    /// How often.
    pub count: u64,
    /// The line's fields, shortened, as they came: escape them where they are printed.
    pub fields: BTreeMap<String, String>,
    /// The line's text, shortened, as it came: escape it where it is printed.
    pub text: String,
    /// Which line of what was read, from 0: an order where there are no times.
    pub line: u64,
    /// Which log, where there are several: an index.
    pub file: usize,
    /// The pod that kubelet's line is about, `NAMESPACE/NAME`.
    pub pod: Option<String>,
    /// The API shows that it is still so: the line need not be repeated to count.
    pub is_current: bool,
}

impl LogMatch {
    /// One line without anything else about it.
    pub fn of(event: LogEvent, source: LogSource, text: String) -> Self {
        Self {
            event,
            source,
            at: None,
            until: None,
            count: 1,
            fields: BTreeMap::new(),
            text,
            line: 0,
            file: 0,
            pod: None,
            is_current: false,
        }
    }
}

/// The wall clock was set while a log was written: it went back, or its distance from the kernel's own clock changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockStep {
    /// Its time before that, or a moment later if it had not been set.
    pub before: Stamp,
    /// Its time after that.
    pub after: Stamp,
    /// How long the kernel had run, where the log says that.
    pub since_boot: Option<Stamp>,
    /// The first line after it, from 0.
    pub line: u64,
}

/// The matches of one log, and its clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// In the order of the lines.
    pub matches: Vec<LogMatch>,
    /// The stamp of the first line that has one.
    pub first: Option<Stamp>,
    /// The stamp of the last line that has one.
    pub last: Option<Stamp>,
    /// The stamps are klog's, in a zone that they do not say.
    pub is_local: bool,
    /// Where the wall clock was set.
    pub steps: Vec<ClockStep>,
    /// When the kernel started, by the wall clock, if lines have both.
    pub booted: Option<Stamp>,
    /// Lines that were read.
    pub lines: u64,
    /// Lines of which the form is not the log's.
    pub damaged: u64,
    /// Matches that were forgotten, oldest first, because there were too many.
    pub forgotten: u64,
}

/// The runtimes cut lines into parts of 16 KiB; no pattern is that long.
const PARTS: usize = 8 * 1024;
/// More of them are one more fault of the same clock.
const STEPS: usize = 16;
/// The fields that say what a line is about.
const OF: [&str; 3] = ["container", "plugin", "unit"];
/// The field with a service's own words, beside systemd's.
pub const WORDS: &str = "words";
/// `E1121 11:51:41.123456`, with which klog's lines begin.
const KLOG: usize = 21;
const FABRIC_MANAGER: &[u8] = b"nv-fabricmanager";
const FABRIC_MANAGER_UNIT: &str = "nvidia-fabricmanager.service";
/// `2025-11-21T11:58:39`: comparable as text where the zone is the same.
const TO_THE_SECOND: usize = 19;

/// Scans one log.
#[derive(Debug)]
pub struct LogScanner<'t> {
    options: Options<'t>,
    lines: Lines,
    state: ScanState,
    /// The rest of a cut line comes next.
    is_behind_gap: bool,
}

/// How it scans.
#[derive(Clone, Copy, Debug)]
struct Options<'t> {
    rules: &'t RuleSet,
    form: Form,
    not_after_ns: i64,
    most: usize,
}

impl Options<'_> {
    /// Whether the log is Fabric Manager's own.
    fn is_fabric_managers(&self) -> bool {
        self.form == Form::Bare && self.rules.sources() == LogSources::from_iter([LogSource::FabricManager])
    }
}

/// The state between two lines.
#[derive(Debug, Default)]
struct ScanState {
    scanned: Scanned,
    /// Each with whether its line is polled.
    kept: VecDeque<(LogMatch, bool)>,
    /// The parts of a line so far, and the stamp of the first.
    parts: Option<(Option<Stamp>, Vec<u8>)>,
    /// The last line's stamp, as it is written.
    last: Vec<u8>,
    last_is_classic: bool,
    /// The beginning of klog's last line, in a log without other stamps.
    last_of_klog: Vec<u8>,
    boot: Boot,
    /// The first line of this run of the kernel.
    boot_from: u64,
    /// Of the services of the host.
    last_words: ServiceWords,
}

impl<'t> LogScanner<'t> {
    /// For one log. What has no year was written before `not_after_ns`; of more than `most` matches the last count.
    pub fn new(rules: &'t RuleSet, form: Form, not_after_ns: i64, most: usize) -> Self {
        let options = Options { rules, form, not_after_ns, most: most.max(1) };
        Self { options, lines: Lines::default(), state: ScanState::default(), is_behind_gap: false }
    }

    /// More bytes of the log.
    pub fn push(&mut self, bytes: &[u8]) {
        let bytes = if self.is_behind_gap { self.behind_gap(bytes) } else { bytes };
        let Self { options, lines, state, .. } = self;
        lines.push(bytes, |line| state.line(line, options));
    }

    /// A part of the log is left out: the line that is unfinished means nothing, and neither does what comes next up
    /// to the end of its line.
    pub fn gap(&mut self) {
        self.lines.end(|_| {});
        self.state.parts = None;
        self.is_behind_gap = true;
    }

    fn behind_gap<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let Some(end) = memchr::memchr(b'\n', bytes) else { return &[] };
        self.is_behind_gap = false;
        &bytes[end + 1..]
    }

    /// One line of a container, already out of its form.
    pub fn record(&mut self, record: Record<'_>) {
        let Self { options, state, .. } = self;
        state.scanned.lines += 1;
        state.record(record, options);
    }

    /// One line of a system log.
    pub fn system(&mut self, line: &[u8]) {
        let Self { options, state, .. } = self;
        state.scanned.lines += 1;
        state.system(line, options);
    }

    /// One record of the kernel's ring.
    pub fn ring(&mut self, record: &[u8]) {
        let Some((stamp, text)) = record::ring(record) else { return };
        let Self { options, state, .. } = self;
        state.scanned.lines += 1;
        state.scanned.first.get_or_insert(stamp);
        state.scanned.last = Some(stamp);
        state.text(text, options, || Some(stamp));
    }

    /// The log has ended.
    pub fn end(mut self) -> Scanned {
        let Self { options, lines, state, .. } = &mut self;
        lines.end(|line| state.line(line, options));
        if options.is_fabric_managers() {
            state.keep_last_words();
        }
        state.scanned.booted = state.boot.started();
        state.end_boot();
        state.kept.extend(state.last_words.repeated().map(|found| (found, true)));
        let ScanState { mut scanned, kept, parts, last, last_is_classic, last_of_klog, .. } = self.state;
        scanned.is_local = !last_of_klog.is_empty();
        scanned.last = scanned.last.or_else(|| own_stamp(&last_of_klog, self.options.not_after_ns));
        scanned.damaged += u64::from(parts.is_some());
        scanned.matches = kept.into_iter().map(|(found, _)| found).collect();
        scanned.last = written(&last, last_is_classic).stamp(self.options.not_after_ns).or(scanned.last);
        scanned
    }
}

fn is_klogs(line: &[u8]) -> bool {
    matches!(line, [b'I' | b'W' | b'E' | b'F', b'0' | b'1', month, ..] if month.is_ascii_digit())
}

fn written(bytes: &[u8], is_classic: bool) -> Written<'_> {
    if is_classic { Written::Classic(bytes) } else { Written::Rfc3339(bytes) }
}

impl ScanState {
    fn line(&mut self, line: &[u8], options: &Options<'_>) {
        self.scanned.lines += 1;
        match options.form {
            Form::Container => match record::container(line) {
                Some(record) => self.record(record, options),
                None => self.scanned.damaged += 1,
            },
            Form::System => self.system(line, options),
            Form::Bare => {
                if is_klogs(line) {
                    self.last_of_klog.clear();
                    self.last_of_klog.extend_from_slice(&line[..line.len().min(KLOG)]);
                }
                if options.is_fabric_managers() {
                    self.heard(FABRIC_MANAGER, line, || own_stamp(line, options.not_after_ns));
                }
                self.text(line, options, || None);
            }
        }
    }

    fn record(&mut self, record: Record<'_>, options: &Options<'_>) {
        let Record { written, text, is_partial } = record;
        self.clock(written, options);
        let is_first = self.parts.is_none();
        if is_partial || !is_first {
            let stamp = || written.stamp(options.not_after_ns);
            let (_, parts) = self.parts.get_or_insert_with(|| (stamp(), Vec::new()));
            let room = PARTS - parts.len().min(PARTS);
            parts.extend_from_slice(&text[..text.len().min(room)]);
        }
        match self.parts.take_if(|_| !is_partial) {
            Some((stamp, parts)) => self.text(&parts, options, || stamp),
            None if is_partial => {}
            None => self.text(&text, options, || written.stamp(options.not_after_ns)),
        }
    }

    fn system(&mut self, line: &[u8], options: &Options<'_>) {
        let Some(system_line) = record::system_line(line) else {
            self.scanned.damaged += 1;
            return;
        };
        self.clock(system_line.written, options);
        if let Some(since_boot) = system_line.since_boot {
            self.apart(system_line.written, since_boot, options);
        }
        let at = || system_line.written.stamp(options.not_after_ns);
        self.heard(system_line.program, system_line.text, at);
        let Some(source) = LogSource::identified(system_line.program) else { return };
        let fit = options.rules.fit(system_line.text).filter(|fit| source.tells_of(fit.pattern.source));
        if let Some(mut fit) = fit {
            if fit.event == LogEvent::KernelStarted {
                self.last_words = ServiceWords::default();
            }
            if fit.event == LogEvent::ServiceFailed {
                let words = fit.fields.get("unit").and_then(|unit| self.last_words.of(unit));
                fit.fields.extend(words.map(|words| (WORDS.to_owned(), words)));
            }
            let stamp = system_line.since_boot.or_else(|| system_line.written.stamp(options.not_after_ns));
            self.keep(fit, system_line.text, stamp, options);
        }
    }

    /// The stamp is asked for only where the text is understood.
    fn text(&mut self, text: &[u8], options: &Options<'_>, stamp: impl FnOnce() -> Option<Stamp>) {
        if let Some(fit) = options.rules.fit(text) {
            let stamp = stamp().or_else(|| own_stamp(text, options.not_after_ns));
            self.keep(fit, text, stamp, options);
        }
    }

    /// Remembers the stamp, and finds a clock that goes back.
    fn clock(&mut self, written: Written<'_>, options: &Options<'_>) {
        let (Written::Rfc3339(bytes) | Written::Classic(bytes)) = written else { return };
        let is_classic = matches!(written, Written::Classic(_));
        if self.scanned.first.is_none() {
            self.scanned.first = written.stamp(options.not_after_ns);
        }
        if !is_classic && self.may_be_back(bytes) {
            let times = self::written(&self.last, false).stamp(0).zip(written.stamp(0));
            if let Some((before, after)) = times.filter(|(before, after)| after.ns < before.ns - SECOND) {
                self.step(ClockStep { before, after, since_boot: None, line: self.scanned.lines - 1 });
            }
        }
        self.last.clear();
        self.last.extend_from_slice(bytes);
        self.last_is_classic = is_classic;
    }

    /// Follows the wall clock by the kernel's own.
    fn apart(&mut self, written: Written<'_>, since_boot: Stamp, options: &Options<'_>) {
        let Some(wall) = written.stamp(options.not_after_ns) else { return };
        if self.boot.is_over(since_boot) {
            self.end_boot();
        }
        self.boot.line(self.scanned.lines - 1, wall, since_boot);
    }

    /// Gives the kernel's lines of this run the time that the wall clock showed.
    fn end_boot(&mut self) {
        let boot = std::mem::take(&mut self.boot);
        let of_it = self.kept.iter_mut().rev().take_while(|(found, _)| found.line >= self.boot_from);
        for (found, _) in of_it {
            let wall = |at: Option<Stamp>| at.map(|at| boot.wall(found.line, at).unwrap_or(at));
            (found.at, found.until) = (wall(found.at), wall(found.until));
        }
        boot.steps().for_each(|step| self.step(step));
        self.boot_from = self.scanned.lines.saturating_sub(1);
    }

    fn step(&mut self, step: ClockStep) {
        // The same step, only by the stamps and by both clocks: the second is more precise.
        self.scanned.steps.retain(|other| other.line != step.line);
        if self.scanned.steps.len() < STEPS {
            self.scanned.steps.push(step);
        }
    }

    /// As text, which is quick.
    fn may_be_back(&self, bytes: &[u8]) -> bool {
        let seconds = bytes.get(..TO_THE_SECOND).zip(self.last.get(..TO_THE_SECOND));
        !self.last_is_classic && seconds.is_some_and(|(now, last)| now < last)
    }

    fn keep(&mut self, fit: Fit, text: &[u8], at: Option<Stamp>, options: &Options<'_>) {
        let Fit { event, pattern, fields, pod } = fit;
        let (line, text) = (self.scanned.lines - 1, shortened(text, CAUSE));
        let source = pattern.source;
        let found = LogMatch { at, until: at, fields, line, pod, ..LogMatch::of(event, source, text) };
        if pattern.is_polled && self.repeat(&found) {
            return;
        }
        if self.kept.len() == options.most {
            self.kept.pop_front();
            self.scanned.forgotten += 1;
        }
        self.kept.push_back((found, pattern.is_polled));
    }

    /// Fabric Manager's, in a log that has nobody else's words and does not say where a run of it ends.
    fn keep_last_words(&mut self) {
        let Some(text) = self.last_words.of(FABRIC_MANAGER_UNIT) else { return };
        let (event, source) = (LogEvent::FabricManagerFailed, LogSource::FabricManager);
        if self.kept.iter().all(|(found, _)| found.event != event) {
            let line = self.scanned.lines.saturating_sub(1);
            let found = LogMatch { line, ..LogMatch::of(event, source, text) };
            self.kept.push_back((found, true));
        }
    }

    /// A line of a program of the host.
    fn heard(&mut self, program: &[u8], text: &[u8], at: impl FnOnce() -> Option<Stamp>) {
        let line = self.scanned.lines - 1;
        self.last_words.heard(program, text, || {
            let (text, at) = (shortened(text, CAUSE), at());
            LogMatch {
                at,
                until: at,
                line,
                ..LogMatch::of(LogEvent::ServiceRepeats, LogSource::Systemd, text)
            }
        });
    }

    /// Adds to the match of the same thing, where nothing but polling came between. The newest words
    /// stay.
    fn repeat(&mut self, new: &LogMatch) -> bool {
        let since_a_step = self.kept.iter_mut().rev().take_while(|(_, is_polled)| *is_polled);
        let clock = |found: &LogMatch| found.until.map(|at| at.clock);
        let is_same = |old: &LogMatch| {
            (old.event, old.source, clock(old), &old.pod) == (new.event, new.source, clock(new), &new.pod)
                && OF.iter().all(|name| old.fields.get(*name) == new.fields.get(*name))
        };
        let mut same = since_a_step.map(|(found, _)| found).filter(|found| is_same(found));
        let Some(found) = same.next() else { return false };
        found.count += 1;
        found.until = new.until.or(found.until);
        // A service that says nothing more ends for what it said before.
        found.fields.extend(new.fields.clone());
        found.text.clone_from(&new.text);
        true
    }
}

/// A whole log at once: for tests, and for who feeds it with random bytes.
pub fn scan(sources: LogSources, form: Form, bytes: &[u8], not_after_ns: i64) -> Scanned {
    let rules = RuleSet::of(sources);
    let mut scanner = LogScanner::new(&rules, form, not_after_ns, 10_000);
    scanner.push(bytes);
    scanner.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_lines_are_one_match_for_each_container_with_the_newest_words() {
        let line = |container: &str, end: &str| {
            format!(
                "Aug 23 00:30:22 gpu-1 kubelet[1500]: E0823 00:30:22.000000    1500 pod_workers.go:1301] \"Error syncing \
                 pod, skipping\" err=\"failed to \\\"StartContainer\\\" for \\\"{container}\\\" with \
                 RunContainerError: \\\"{}change root failed: {}: unknown\\\"\" pod=\"x/y\"\n",
                "runc create failed: ".repeat(20),
                end.repeat(300)
            )
        };
        let log = [line("a", "x"), line("b", "x"), line("a", "y")].concat();
        let scanned =
            scan(LogSources::from_iter([LogSource::Kubelet]), Form::System, log.as_bytes(), i64::MAX / 2);
        let counts: Vec<_> =
            scanned.matches.iter().map(|found| (found.fields["container"].as_str(), found.count)).collect();
        assert_eq!(counts, [("a", 2), ("b", 1)]);
        let is_newest = |found: &LogMatch| found.fields["more"].ends_with("y: unknown");
        assert_eq!(scanned.matches.iter().map(is_newest).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn the_end_of_a_long_kubelet_field_is_kept() {
        let why = format!("{}the end", "runc create failed: ".repeat(60));
        let line = format!(
            "E0823 00:30:22.000000    1500 run.go:74] \"command failed\" err=\"failed to run Kubelet: {why}\" pod=\"x/y\""
        );
        let fit = RuleSet::of(LogSources::from_iter([LogSource::Kubelet])).fit(line.as_bytes()).unwrap();
        let why = &fit.fields["why"];
        assert!(why.starts_with('…') && why.ends_with("the end"), "{why}");
    }
}
