// SPDX-License-Identifier: Apache-2.0
//! How answers look: how wide, and whether in color. One rule for every verb.

use crate::cli::environment::{Variables, value_of};
use crate::ready::condition::{Consequence, Status};
use crate::ready::verdict::{Condition, Outcome};

/// Where standard output is no terminal, and `COLUMNS` says nothing.
const COLUMNS: usize = 80;
/// A narrower terminal wraps by itself.
const NARROWEST: usize = 40;

/// How bad what is said is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Tone {
    Bad,
    Doubtful,
    Unknown,
    Good,
    Plain,
}

/// How an answer looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// No line is wider.
    pub columns: usize,
    is_colored: bool,
}

impl Style {
    /// For a terminal so many columns wide, or for no terminal: then `COLUMNS` counts. `NO_COLOR` (no-color.org) goes
    /// before `CLICOLOR_FORCE` (bixense.com/clicolors), and that before the terminal's own `TERM=dumb`.
    #[must_use]
    pub fn new(terminal: Option<u16>, variables: &Variables) -> Self {
        let is_set = |name: &str| value_of(variables, name).is_some_and(|value| !value.is_empty());
        let is_forced =
            is_set("CLICOLOR_FORCE") && value_of(variables, "CLICOLOR_FORCE").is_some_and(|v| v != "0");
        let is_dumb = value_of(variables, "TERM").is_some_and(|term| term == "dumb");
        let is_colored = !is_set("NO_COLOR") && (is_forced || terminal.is_some() && !is_dumb);
        let of_variable = || value_of(variables, "COLUMNS")?.to_str()?.parse().ok();
        // A terminal that does not know its size says 0.
        let columns =
            terminal.or_else(of_variable).filter(|columns| *columns > 0).map_or(COLUMNS, usize::from);
        Self { columns: columns.max(NARROWEST), is_colored }
    }

    /// The color of something said in this tone, if the answer has colors.
    #[must_use]
    pub fn tone(self, tone: Tone) -> Option<&'static str> {
        self.is_colored.then_some(match tone {
            Tone::Bad => "1;31",
            Tone::Doubtful => "33",
            Tone::Unknown => "35",
            Tone::Good => "32",
            Tone::Plain => "36",
        })
    }

    /// The color of a verdict.
    #[must_use]
    pub fn outcome(self, outcome: Outcome) -> Option<&'static str> {
        self.tone(match outcome {
            Outcome::Ready => Tone::Good,
            Outcome::Waiting => Tone::Doubtful,
            Outcome::Blocked => Tone::Bad,
            Outcome::NotApplicable => Tone::Plain,
            Outcome::Unknown => Tone::Unknown,
        })
    }

    /// Only conditions that are not met are in color.
    pub(crate) fn condition(self, condition: &Condition) -> Option<&'static str> {
        match (condition.reason.consequence(), condition.status) {
            (Consequence::Blocks, _) => self.tone(Tone::Bad),
            (Consequence::Waits, Status::Unknown) => self.tone(Tone::Unknown),
            (Consequence::Waits, _) => self.tone(Tone::Doubtful),
            (Consequence::Passes | Consequence::Exempts, _) => None,
        }
    }
}

impl Default for Style {
    /// For no terminal.
    fn default() -> Self {
        Self { columns: COLUMNS, is_colored: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_decide_whether_an_answer_is_colored() {
        let is_colored = |terminal: Option<u16>, variables: &[(&str, &str)]| {
            let variables = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
            Style::new(terminal, &variables).is_colored
        };
        let terminal = Some(80);
        assert!(is_colored(terminal, &[]) && !is_colored(None, &[]));
        assert!(is_colored(terminal, &[("NO_COLOR", "")]) && !is_colored(terminal, &[("NO_COLOR", "1")]));
        assert!(!is_colored(terminal, &[("TERM", "dumb")]) && is_colored(terminal, &[("TERM", "xterm")]));
        assert!(
            is_colored(None, &[("CLICOLOR_FORCE", "1")]) && !is_colored(None, &[("CLICOLOR_FORCE", "0")])
        );
        assert!(is_colored(None, &[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")]));
        assert!(!is_colored(terminal, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    }

    #[test]
    fn the_page_is_as_wide_as_the_terminal() {
        let columns =
            |terminal, set: &str| Style::new(terminal, &vec![("COLUMNS".into(), set.into())]).columns;
        let of_terminal = |terminal| columns(terminal, "100");
        assert_eq!([None, Some(0), Some(132), Some(7)].map(of_terminal), [100, 80, 132, 40]);
        assert_eq!(["", "0", "-3", "x", "99999999"].map(|set| columns(None, set)), [80; 5]);
    }
}
