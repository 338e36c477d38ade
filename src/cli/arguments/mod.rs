// SPDX-License-Identifier: Apache-2.0
//! The meaning of a modprobe command line for kmod's modprobe (24 to 34): would it load `nvidia_peermem`?
//!
//! Read as kmod reads it, with glibc's `getopt_long`: options may be anywhere, long ones may be cut as
//! long as they stay unambiguous, short ones may be bundled. What kmod would refuse is not gated
//! (except for `--wait` with no number, which it may refuse itself, and options that are newer than it).
//!
//! Not seen: a load by an alias of modprobe.d's, by a link of another name, or as a dependency.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// kmod's long options in its order: name, letter (a digit where it has no short form), and whether
/// it takes a value.
const LONG: [(&str, u8, bool); 29] = [
    ("all", b'a', false),
    ("remove", b'r', false),
    ("remove-dependencies", b'5', false),
    ("remove-holders", b'5', false),
    ("wait", b'w', true),
    ("resolve-alias", b'R', false),
    ("first-time", b'3', false),
    ("ignore-install", b'i', false),
    ("ignore-remove", b'i', false),
    ("use-blacklist", b'b', false),
    ("force", b'f', false),
    ("force-modversion", b'2', false),
    ("force-vermagic", b'1', false),
    ("show-depends", b'D', false),
    ("showconfig", b'c', false),
    ("show-config", b'c', false),
    ("show-modversions", b'4', false),
    ("dump-modversions", b'4', false),
    ("show-exports", b'6', false),
    ("dry-run", b'n', false),
    ("show", b'n', false),
    ("config", b'C', true),
    ("dirname", b'd', true),
    ("set-version", b'S', true),
    ("syslog", b's', false),
    ("quiet", b'q', false),
    ("verbose", b'v', false),
    ("version", b'V', false),
    ("help", b'h', false),
];

/// Only SUSE's kmod has it. It is recognized only in full: elsewhere its beginning is another option.
const SUSE: [(&str, u8, bool); 2] =
    [("allow-unsupported", b'7', false), ("allow-unsupported-modules", b'7', false)];

/// Any of these and nothing is loaded. `--remove-holders` and `--wait` are not among them: without
/// `-r`, kmod takes no notice of them and loads.
const LOADS_NOTHING: &[u8] = b"rRDcnVh46";
const FORCES: &[u8] = b"f12";

/// The environment variables that modprobe's reading of its command line depends on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModprobeVariables<'a> {
    /// `MODPROBE_OPTIONS`: comes before the arguments.
    pub modprobe_options: Option<&'a OsStr>,
    /// `POSIXLY_CORRECT` is set: the first word that is not an option ends the options.
    pub posixly_correct: bool,
}

/// A command line that would load `nvidia_peermem`.
///
/// The two command lines below include `MODPROBE_OPTIONS`, so run them without the variable.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The same command line for the other modules, of which only `-a` can name some.
    pub others: Option<Vec<OsString>>,
    /// The same command line for `nvidia_peermem` only, without any force option.
    pub peermem: Vec<OsString>,
    /// `PARAM=VALUE` words; none with `-a`, which takes every word for a module.
    pub parameters: Vec<OsString>,
    /// A force option was given, and left out of `peermem`.
    pub forced: bool,
    /// `-d`: where lib/modules is, in place of `/`.
    pub dirname: Option<PathBuf>,
}

/// Reads the arguments (without `argv[0]`) as kmod's modprobe would.
#[must_use]
pub fn read(arguments: &[OsString], variables: ModprobeVariables<'_>) -> Option<Load> {
    let mut all = variables.modprobe_options.map(options_of_environment).unwrap_or_default();
    all.extend_from_slice(arguments);
    let line = parse(&all, variables.posixly_correct)?;
    if line.has(LOADS_NOTHING) {
        return None;
    }
    let (ours, others, parameters) = if line.has(b"a") {
        let (ours, others) = line.words.iter().cloned().partition::<Vec<_>, _>(|word| is_peermem(word));
        (ours, others, Vec::new())
    } else {
        match line.words.split_first() {
            Some((module, parameters)) if is_peermem(module) => {
                (vec![module.clone()], Vec::new(), parameters.to_vec())
            }
            _ => return None,
        }
    };
    if ours.is_empty() {
        return None;
    }
    Some(Load {
        others: (!others.is_empty()).then(|| line.command_line(b"", &others)),
        peermem: line.command_line(FORCES, &[ours.as_slice(), &parameters].concat()),
        forced: line.has(FORCES),
        dirname: line.value(b'd').map(PathBuf::from),
        parameters,
    })
}

/// kmod looks for a path's file instead of a name among the modules.
fn is_path(word: &OsStr) -> bool {
    word.as_bytes().starts_with(b"/") || word.as_bytes().starts_with(b"./")
}

/// A path's module is its file name up to the first dot, to kmod as well.
fn is_peermem(word: &OsStr) -> bool {
    let mut name = word.as_bytes();
    if is_path(word) {
        name = name.rsplit(|byte| *byte == b'/').next().unwrap_or(name);
        name = name.split(|byte| *byte == b'.').next().unwrap_or(name);
    }
    let folded = name.iter().map(|byte| if *byte == b'-' { b'_' } else { *byte });
    folded.eq(b"nvidia_peermem".iter().copied())
}

/// One option as given, its long name in full.
#[derive(Debug)]
struct GivenOption {
    letter: u8,
    spelled: OsString,
    value: Option<OsString>,
}

/// A command line taken apart.
#[derive(Debug, Default)]
struct CommandLine {
    options: Vec<GivenOption>,
    words: Vec<OsString>,
}

impl CommandLine {
    fn has(&self, letters: &[u8]) -> bool {
        self.options.iter().any(|given| letters.contains(&given.letter))
    }

    /// The last one counts.
    fn value(&self, letter: u8) -> Option<OsString> {
        self.options.iter().rev().find(|given| given.letter == letter)?.value.clone()
    }

    /// The options except for these, then these words.
    fn command_line(&self, without: &[u8], words: &[OsString]) -> Vec<OsString> {
        let kept = self.options.iter().filter(|given| !without.contains(&given.letter));
        let mut all: Vec<_> =
            kept.flat_map(|given| [Some(given.spelled.clone()), given.value.clone()]).flatten().collect();
        if words.iter().any(|word| word.as_bytes().starts_with(b"-")) {
            all.push("--".into());
        }
        all.extend_from_slice(words);
        all
    }
}

/// As `getopt_long` does it. `None` for what kmod refuses.
fn parse(arguments: &[OsString], posixly_correct: bool) -> Option<CommandLine> {
    let mut line = CommandLine::default();
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_bytes() {
            b"--" => line.words.extend(rest.by_ref().cloned()),
            [b'-', b'-', long @ ..] => line.options.push(long_option(long, &mut rest)?),
            [b'-', bundle @ ..] if !bundle.is_empty() => short_options(bundle, &mut rest, &mut line.options)?,
            _ => {
                line.words.push(word.clone());
                if posixly_correct {
                    line.words.extend(rest.by_ref().cloned());
                }
            }
        }
    }
    Some(line)
}

/// `--name`, `--name=value`, or `--name` and the next word.
fn long_option<'a>(long: &[u8], rest: &mut impl Iterator<Item = &'a OsString>) -> Option<GivenOption> {
    let equals = long.iter().position(|byte| *byte == b'=');
    let (name, letter, takes_value) = long_name(&long[..equals.unwrap_or(long.len())])?;
    let value = match (equals, takes_value) {
        (Some(at), true) => Some(OsStr::from_bytes(&long[at + 1..]).to_owned()),
        (None, true) => Some(rest.next()?.clone()),
        (None, false) => None,
        (Some(_), false) => return None,
    };
    Some(GivenOption { letter, spelled: format!("--{name}").into(), value })
}

/// By its name or the beginning of it. glibc takes one that fits several for ambiguous only if these
/// do different things.
fn long_name(name: &[u8]) -> Option<(&'static str, u8, bool)> {
    if let Some(exact) = LONG.iter().chain(&SUSE).find(|(long, ..)| long.as_bytes() == name) {
        return Some(*exact);
    }
    let mut fitting = LONG.iter().filter(|(long, ..)| long.as_bytes().starts_with(name));
    let first = *fitting.next()?;
    fitting.all(|(_, letter, _)| *letter == first.1).then_some(first)
}

/// A bundle of letters, of which the last may take the rest, or the next word, as its value.
fn short_options<'a>(
    bundle: &[u8],
    rest: &mut impl Iterator<Item = &'a OsString>,
    options: &mut Vec<GivenOption>,
) -> Option<()> {
    for (at, &letter) in bundle.iter().enumerate() {
        let spelled = OsStr::from_bytes(&[b'-', letter]).to_owned();
        let is_it = |row: &&(&str, u8, bool)| row.1 == letter && letter.is_ascii_alphabetic();
        let (.., takes_value) = LONG.iter().find(is_it)?;
        let value = match &bundle[at + 1..] {
            _ if !takes_value => None,
            [] => Some(rest.next()?.clone()),
            inline => Some(OsStr::from_bytes(inline).to_owned()),
        };
        options.push(GivenOption { letter, spelled, value });
        if *takes_value {
            break;
        }
    }
    Some(())
}

/// Split at spaces, and with quotes taken away, as kmod does: a word that begins with a quote ends
/// with the quote, so the space behind it makes an empty word.
fn options_of_environment(value: &OsStr) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word = Vec::new();
    // The quote, and where in the word it is.
    let mut quote: Option<(u8, usize)> = None;
    for &byte in value.as_bytes() {
        match quote {
            Some((open, at)) if byte == open => {
                word.remove(at);
                if at == 0 {
                    words.push(std::mem::take(&mut word));
                }
                quote = None;
                continue;
            }
            None if byte == b' ' => {
                words.push(std::mem::take(&mut word));
                continue;
            }
            None if byte == b'"' || byte == b'\'' => quote = Some((byte, word.len())),
            _ => {}
        }
        word.push(byte);
    }
    if !word.is_empty() {
        words.push(word);
    }
    words.into_iter().map(OsString::from_vec).collect()
}

#[cfg(test)]
mod tests;
