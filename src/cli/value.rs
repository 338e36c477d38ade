// SPDX-License-Identifier: Apache-2.0
//! Values of options: words to choose from, and parsers.

use crate::ready::consumer::Consumer;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Text for people, JSON for machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "clap would print it")]
pub enum Format {
    Text,
    Json,
}

/// Whose readiness to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// This consumer's.
    One(Consumer),
    /// Every consumer's.
    Any,
}

impl ValueEnum for For {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [For; Consumer::ALL.len() + 1] = {
            let mut all = [For::Any; Consumer::ALL.len() + 1];
            let mut at = 0;
            while at < Consumer::ALL.len() {
                all[at] = For::One(Consumer::ALL[at]);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::One(consumer) => PossibleValue::new(consumer.row().name).help(consumer.row().what),
            Self::Any => PossibleValue::new("any").help("All of them"),
        })
    }
}

/// Each once, in the order of the table.
#[must_use]
pub fn consumers(asked: &[For]) -> Vec<Consumer> {
    let is_asked =
        |consumer: &Consumer| asked.iter().any(|asked| [For::One(*consumer), For::Any].contains(asked));
    Consumer::ALL.into_iter().filter(is_asked).collect()
}

/// The formats of a single verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "clap would print it")]
pub enum AnswerFormat {
    Text,
    Json,
    /// One sentence of at most 80 bytes, for probes.
    Line,
}

impl From<Format> for AnswerFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Text => Self::Text,
            Format::Json => Self::Json,
        }
    }
}

/// `--rebuild`: whether to rebuild, and by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rebuild {
    /// Never.
    Off,
    /// From NVIDIA's sources below the driver's root.
    Auto,
    /// By this program of the user's.
    By(PathBuf),
}

/// The choices at the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "clap would print it")]
pub enum OnTimeout {
    Fail,
    Proceed,
}

/// One integer and one unit. A bare number is refused: seconds to one reader are minutes to another.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!("{text:?} is not one whole number and one unit (ms, s, m or h), like 300ms, 10s, 20m or 2h")
    };
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit_at);
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    // A century is more than any wait, and keeps every later sum from overflowing.
    number
        .checked_mul(milliseconds)
        .filter(|ms| *ms <= 100 * 365 * 24 * 3_600_000)
        .map(Duration::from_millis)
        .ok_or_else(|| format!("{text:?} is more than a hundred years"))
}

/// A line more often than this only fills the disk.
const SHORTEST_HEARTBEAT: Duration = Duration::from_secs(1);

pub fn heartbeat(text: &str) -> Result<Duration, String> {
    let heartbeat = duration(text)?;
    if heartbeat < SHORTEST_HEARTBEAT { Err("must be at least 1s".to_owned()) } else { Ok(heartbeat) }
}

pub fn boolean(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("{text:?} is neither true nor false"))
}

pub fn rebuild(text: &str) -> Result<Rebuild, String> {
    match text {
        "off" => Ok(Rebuild::Off),
        "auto" => Ok(Rebuild::Auto),
        _ => absolute(text).map(Rebuild::By).map_err(|why| format!("{why}; or off, or auto")),
    }
}

pub fn timeout(text: &str) -> Result<Option<Duration>, String> {
    match text {
        "none" => Ok(None),
        text => duration(text).map(Some).map_err(|why| format!("{why}; or none")),
    }
}

pub fn level(text: &str) -> Result<tracing::Level, String> {
    text.parse().map_err(|_| "it is one of error, warn, info, debug, trace".to_owned())
}

/// The kernel's own spelling: file names have dashes, /proc/modules has underscores.
pub fn module_name(text: &str) -> Result<String, String> {
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if text.is_empty() || !text.chars().all(valid) {
        return Err(format!("{text:?} is not a module's name"));
    }
    Ok(text.replace('-', "_"))
}

/// Paths below `--root` are absolute, so the prefix is unambiguous.
pub fn absolute(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() && path.file_name().is_some() {
        Ok(path)
    } else {
        Err(format!("{text:?} is not an absolute path of a file"))
    }
}

/// modprobe would take what begins with a dash for an option, behind the module's name too.
pub fn parameter(text: &str) -> Result<OsString, String> {
    if text.is_empty() || text.starts_with('-') {
        return Err(format!(
            "{text:?} is not a module parameter: write NAME=VALUE, and no option of modprobe"
        ));
    }
    Ok(text.into())
}

/// A relative one is below the current directory.
pub fn root(text: &str) -> Result<PathBuf, String> {
    std::path::absolute(text).map_err(|error| format!("{text:?} is not a directory's path: {error}"))
}

pub fn directory(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err(format!("{text:?} is not an absolute path")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_one_number_and_one_unit() {
        assert_eq!(duration("300ms"), Ok(Duration::from_millis(300)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        assert_eq!(duration("20m"), Ok(Duration::from_secs(1200)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        let wrong = " 30 s 1.5s -1s +1s 1h30m 1d 10S 99999999999999999999s 9999999999h";
        for wrong in wrong.split(' ').chain(["1 s"]) {
            assert!(duration(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn module_names_are_folded_and_checked() {
        assert_eq!(module_name("nvidia-peermem"), Ok("nvidia_peermem".to_owned()));
        for wrong in ["", "a b", "../x", "ä"] {
            assert!(module_name(wrong).is_err(), "{wrong:?}");
        }
    }
}
