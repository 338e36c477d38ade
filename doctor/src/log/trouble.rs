// SPDX-License-Identifier: Apache-2.0
//! The line by which a program says why it ends, in a log of which no sentence is known.

use super::advice::advice;
use super::awaited::{WaitTarget, awaited};
use super::prefix::{self, LinePrefix};
use crate::finding::cause::FailureCause;
use crate::record::container;
use crate::stamp::Stamp;
use memchr::memmem::find;

/// Parts of words that programs use for it, in either case of the first letter.
const WORDS: [&str; 17] = words! {
    "rror" "atal" "FATAL" "ailed" "ailure" "annot" "ould not" "nable to" "unbound variable" "enied" "anic:"
    "efused" "o such " "nsupported" "ot supported" "nvalid" ": not found"
};
/// Words that mean the opposite.
const NO_TROUBLE: [&str; 4] = ["error=<nil>", "err=\"<nil>\"", "no errors", "without error"];
/// How a line calls itself an error, whatever its logger says.
const ERRORS: [&str; 10] = words! {
    "ERROR" "[ERR]" "Error: " "error: " "FATAL" "fatal: " "Fatal" "CRITICAL" "panic: " "level=error"
};
/// How a logger says that its program ends for it.
const FATALS: [&str; 2] = ["level=fatal", "level=panic"];
const WARNINGS: [&str; 5] = ["WARN", "Warning: ", "warning: ", "level=warn", "\"level\":\"warn"];
/// Lines behind the chosen one in which a program may say what to do.
const BEHIND: usize = 8;
/// Lines before the chosen one in which the command that failed may say why.
const BEFORE: usize = 12;
/// Words of commands that cannot do their work.
const STATES: [&str; 4] = ["in use", "not found", "busy", "lease "];
/// Of a line so much is kept, from both of its ends.
const WHOLE: usize = 1200;
/// Go's quoting of an empty line: what follows explains, and is not the cause.
const PARAGRAPH: &[u8] = b"\\n\\n";

/// A program's own words for why it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureLine {
    /// When it was written.
    pub at: Option<Stamp>,
    /// The line, whole unless it is very long, as it came: escape it where it is printed.
    pub text: String,
    /// The last words of the command that failed, where the line only passes on that it did.
    pub output: Option<String>,
    /// The remedy that the log itself names, as it came.
    pub advice: Option<String>,
    /// The file or module that the program waits for, by the last line that says so.
    pub awaits: Option<WaitTarget>,
}

/// The line that is taken for the cause where none says that something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insist {
    /// Nothing.
    No,
    /// Nothing else than an error that came again and again until the end: of a container that runs.
    Repeated,
    /// The last words: of a container that waits, or that ends again and again.
    LastWords,
}

impl Insist {
    /// Of a container that was started as often: it is named with its last words, whatever they are.
    pub fn after(restarts: Option<u32>) -> Self {
        const ALWAYS: u32 = 5;
        if restarts.is_some_and(|count| count >= ALWAYS) { Self::LastWords } else { Self::No }
    }
}

/// How much a line has of a cause: a warning is one only where nothing else is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// Nothing says that something is wrong.
    None,
    Warning,
    Words,
    /// Words behind which the kernel's or a library's reason stands.
    Reason,
    Error,
    /// The program ends for it.
    Fatal,
    /// A compiler or another command of a build said it before the first `make: ***`, which only passes on.
    Command,
}

/// The cause in a container's log: what a command said before the first `make: ***`, else the last fatal error, else
/// the last error, else the last line with words of trouble, else the last warning. The first line of `tail` may be
/// cut.
pub fn trouble(tail: &[u8], not_after_ns: i64, insist: Insist) -> Option<FailureLine> {
    let records: Vec<_> = tail.split(|byte| *byte == b'\n').filter_map(container).collect();
    let texts: Vec<_> = records.iter().map(|record| record.text.trim_ascii()).collect();
    let last_words =
        || texts.iter().rposition(|text| !text.is_empty()).filter(|_| insist == Insist::LastWords);
    let chosen = match insist {
        Insist::Repeated => {
            *repeated(&texts, |text| weight(&String::from_utf8_lossy(text)) >= Some(Weight::Error))?.last()?
        }
        _ => heaviest(&texts).or_else(last_words)?,
    };
    let text = texts[chosen];
    let behind = texts[chosen..].iter().copied().take(BEHIND).collect::<Vec<_>>();
    let before = texts[..chosen].iter().copied().rev().take(BEFORE);
    let mut waits = texts.iter().rev().map(|text| awaited(&String::from_utf8_lossy(text)));
    Some(FailureLine {
        at: records[chosen].written.stamp(not_after_ns),
        output: passes_on(text).then(|| output(before)).flatten(),
        text: whole(first_paragraph(text)),
        advice: advice(&behind),
        awaits: waits.find_map(|awaited| awaited),
    })
}

/// The places of the last error and of the same ones before it, whatever numbers they have, if there are enough and
/// no other line has come since than came before: the log has not gone on without it.
pub(super) fn repeated(texts: &[&[u8]], is_error: impl Fn(&[u8]) -> bool) -> Option<Vec<usize>> {
    const OFTEN: usize = 3;
    let shape =
        |text: &[u8]| text.iter().filter(|byte| byte.is_ascii_alphabetic()).copied().collect::<Vec<_>>();
    let last = texts.iter().rposition(|text| is_error(text))?;
    let (before, since) = (&texts[..last], &texts[last + 1..]);
    let came = |text: &&[u8]| before.iter().any(|one| shape(one) == shape(text));
    let is_same = |at: &usize| is_error(texts[*at]) && shape(texts[*at]) == shape(texts[last]);
    let same: Vec<_> = (0..=last).filter(is_same).collect();
    (same.len() >= OFTEN && since.iter().all(came)).then_some(same)
}

/// The cause in a log without a logger, such as the output of a build.
pub fn plain_trouble(text: &[u8]) -> Option<String> {
    let texts: Vec<_> = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).collect();
    heaviest(&texts).map(|at| whole(first_paragraph(texts[at])))
}

/// The last of the lines that say most.
fn heaviest(texts: &[&[u8]]) -> Option<usize> {
    let weighed = texts.iter().enumerate().filter_map(|(at, text)| {
        let text = String::from_utf8_lossy(text);
        Some((weight(&text)?, at))
    });
    let of_command = first_of_make(texts).map(|at| (Weight::Command, at));
    weighed.chain(of_command).max().map(|(_, at)| at)
}

/// The line in which the command that make ran says why it failed: rather a compiler's error than a later line.
fn first_of_make(texts: &[&[u8]]) -> Option<usize> {
    let make = texts.iter().position(|text| text.starts_with(b"make") && find(text, b"*** [").is_some())?;
    let from = make.saturating_sub(BEFORE);
    let says = |at: &usize, parts: &[&str]| {
        let text = String::from_utf8_lossy(texts[*at]);
        let is_own = !text.starts_with("make") && !text.contains("being treated as errors");
        is_own && parts.iter().any(|part| text.contains(part))
    };
    let error = (from..make).rev().find(|at| says(at, &["error: ", "rror: "]));
    let any: Vec<_> = WORDS.iter().chain(&STATES).copied().collect();
    error.or_else(|| (from..make).rev().find(|at| says(at, &any)))
}

pub(super) fn weight(text: &str) -> Option<Weight> {
    let first = |words: &[&str]| words.iter().filter_map(|word| text.find(word)).min();
    if NO_TROUBLE.iter().any(|words| text.contains(words)) {
        return None;
    }
    // make passes on that a command failed, once for each directory.
    if text.starts_with("make") && text.contains("*** [") {
        return Some(Weight::Warning);
    }
    let klogs = (prefix::strip(text.as_bytes()).prefix == LinePrefix::Klog).then(|| text.as_bytes()[0]);
    if first(&FATALS).is_some() {
        return Some(Weight::Fatal);
    }
    match (klogs, first(&ERRORS), first(&WARNINGS)) {
        (Some(b'E' | b'F'), ..) => Some(Weight::Error),
        (None | Some(b'I'), Some(error), warning) if warning.is_none_or(|warning| error < warning) => {
            Some(Weight::Error)
        }
        (_, _, warning) if WORDS.iter().any(|word| text.contains(word)) => {
            let is_warning = klogs == Some(b'W') || warning.is_some();
            // `FILE: line 769: NAME: unbound variable` ends a shell's script.
            let is_shells = text.split(": ").nth(1).is_some_and(|part| part.starts_with("line "));
            Some(match (is_warning, is_shells) {
                (true, _) => Weight::Warning,
                (_, true) => Weight::Error,
                _ if FailureCause::of(text).is_some() => Weight::Reason,
                _ => Weight::Words,
            })
        }
        _ => None,
    }
}

/// Says only that a command failed: the command itself has said why.
fn passes_on(text: &[u8]) -> bool {
    ["exit status ", "exit code: ", "exit code ", "exited with "]
        .iter()
        .any(|words| find(text, words.as_bytes()).is_some())
}

/// The last line of a command's own, which has no logger's prefix, if it says that something is wrong.
fn output<'t>(lines: impl Iterator<Item = &'t [u8]>) -> Option<String> {
    let own = lines.map_while(|line| {
        let is_own = prefix::strip(line).prefix == LinePrefix::None;
        (is_own || line.is_empty()).then(|| String::from_utf8_lossy(line))
    });
    let is_wrong = |text: &str| WORDS.iter().chain(&STATES).any(|word| text.contains(word));
    let mut wrong = own.filter(|text| is_wrong(text));
    wrong.next().map(|text| whole(text.as_bytes()))
}

fn first_paragraph(text: &[u8]) -> &[u8] {
    match find(text, PARAGRAPH) {
        Some(end) if end > 0 => &text[..end],
        _ => text,
    }
}

/// The beginning says who failed, the end why.
fn whole(text: &[u8]) -> String {
    if text.len() <= WHOLE {
        return String::from_utf8_lossy(text).into_owned();
    }
    let [head, tail] = [&text[..WHOLE / 2], &text[text.len() - WHOLE / 2..]].map(String::from_utf8_lossy);
    format!("{} … {}", head.trim_end_matches('\u{fffd}'), tail.trim_start_matches('\u{fffd}'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::examples;

    fn line(text: &str) -> String {
        format!("2025-11-21T11:58:39.5Z stderr F {text}\n")
    }

    fn chosen(lines: &[&str]) -> Option<String> {
        let log: String = lines.iter().map(|text| line(text)).collect();
        trouble(log.as_bytes(), i64::MAX, Insist::No).map(|found| found.text)
    }

    #[test]
    fn the_line_that_says_most_of_a_cause_is_chosen() {
        for (log, expected) in examples(include_str!("../../tests/words/troubles")) {
            let lines: Vec<_> = log.split('\n').collect();
            assert_eq!(chosen(&lines).as_deref().unwrap_or("nothing"), expected, "{log}");
        }
        let cut = "half a line that failed\n".to_owned() + &line("level=error msg=first");
        assert!(trouble(cut.as_bytes(), i64::MAX, Insist::No).unwrap().at.is_some());
        assert_eq!(trouble(b"\xff\xfe error\n", i64::MAX, Insist::LastWords), None, "not in a log's form");
    }

    #[test]
    fn the_decisive_words_of_a_log_are_never_cut() {
        let long = format!("Error: {}output=nvidia-modeset: exists", "failed to load: ".repeat(60));
        assert_eq!(chosen(&[&long]).as_deref(), Some(&*long));
        let longer = format!("Error: {}the end", "x".repeat(5000));
        let kept = chosen(&[&longer]).unwrap();
        assert!(kept.len() < 1300 && kept.starts_with("Error: xx") && kept.ends_with("the end"), "{kept}");
        let explained = r"Error: cannot load x\n\n\nThis is needed for y.";
        assert_eq!(chosen(&[explained]).as_deref(), Some("Error: cannot load x"));
    }

    #[test]
    fn the_message_of_a_failed_command_is_the_trouble() {
        let failed = "level=error msg=\"failed to restart openibd\" error=\"exit status 1\"";
        let why = "Please unload module nvme before stopping the driver: it is in use by local disks.";
        let output = |lines: &[&str]| {
            let log: String = lines.iter().map(|text| line(text)).collect();
            trouble(log.as_bytes(), i64::MAX, Insist::No).unwrap().output
        };
        let executes = "level=info msg=\"Executing command: /etc/init.d/openibd restart\"";
        assert_eq!(output(&[executes, why, "", failed]).as_deref(), Some(why));
        assert_eq!(output(&[why, executes, "Done.", failed]), None, "of another command");
        assert_eq!(output(&[executes, why, "level=error msg=\"failed to restart openibd\""]), None);
    }

    #[test]
    fn the_last_words_count_where_a_cause_is_insisted_on() {
        let log = [line("starting"), line("bye"), line("")].concat();
        let words = |insist| trouble(log.as_bytes(), i64::MAX, insist).map(|found| found.text);
        assert_eq!((words(Insist::LastWords).as_deref(), words(Insist::No)), (Some("bye"), None));
    }
}
