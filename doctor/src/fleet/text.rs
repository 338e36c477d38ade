// SPDX-License-Identifier: Apache-2.0
//! The roll-up for people: the verdicts first, then what is wrong, most urgent first.

use super::Rollup;
use super::rollup::RootCause;
use crate::chain::span;
use peermem_gate::text::escaped;
use std::fmt::Write;

/// Nodes that are named; all of them are in the JSON form.
const NAMED: usize = 8;

impl Rollup {
    /// All of it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.headline() + "\n";
        for cause in &self.causes {
            text += &shown(cause);
        }
        self.versions_to(&mut text);
        self.waits_to(&mut text);
        self.input_to(&mut text);
        text
    }

    fn headline(&self) -> String {
        let verdicts: Vec<_> =
            self.verdicts.iter().map(|(verdict, n)| format!("{n} {}", escaped(verdict))).collect();
        let verdicts = if verdicts.is_empty() { "no report".to_owned() } else { verdicts.join(", ") };
        let state = match self.not_ready {
            0 if self.nodes > 0 => "nothing is wrong".to_owned(),
            0 => "no report: a report is a line that `doctor --format json` prints".to_owned(),
            n => format!("{n} of them not ready or with findings"),
        };
        let silent = match self.without_report {
            0 => String::new(),
            n => format!("; {} without a report", nodes(n)),
        };
        format!("{}: {verdicts}; {state}{silent}", nodes(self.nodes))
    }

    fn versions_to(&self, text: &mut String) {
        for (at, (key, values)) in self.versions.iter().enumerate() {
            let heading = if at == 0 { "\nversions that differ\n" } else { "" };
            // Most common first: the others are those to look at.
            let mut values: Vec<_> = values.iter().collect();
            values.sort_by_key(|(value, n)| (usize::MAX - **n, *value));
            let values: Vec<_> =
                values.iter().map(|(value, n)| format!("{} on {}", escaped(value), nodes(**n))).collect();
            let _ = writeln!(text, "{heading}    {key}: {}", values.join("; "));
        }
    }

    fn waits_to(&self, text: &mut String) {
        for (at, wait) in self.slowest.iter().enumerate() {
            let heading = if at == 0 { "\nlongest waits\n" } else { "" };
            let _ = writeln!(
                text,
                "{heading}    {} for {}: {}",
                escaped(&wait.node),
                span(wait.seconds),
                escaped(&wait.file)
            );
        }
    }

    fn input_to(&self, text: &mut String) {
        let Self { reports, superseded, other_lines, damaged, .. } = self;
        let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let _ = write!(text, "\n{}", plural(*reports, "report"));
        if *superseded > 0 {
            let _ = write!(text, ", of which {superseded} have a newer one of the same node");
        }
        if *other_lines > 0 {
            let _ = write!(text, "; {other_lines} lines that are not reports");
        }
        let _ = writeln!(text, "; {}", plural(*damaged, "damaged line"));
        for damage in &self.damages {
            let pod = if damage.prefix.is_empty() {
                String::new()
            } else {
                format!(" {}", escaped(&damage.prefix))
            };
            let _ = writeln!(
                text,
                "    {}:{}{pod}: {}",
                escaped(&damage.source),
                damage.line,
                escaped(&damage.why)
            );
        }
        if *damaged > self.damages.len() {
            let _ = writeln!(text, "    and {} more", damaged - self.damages.len());
        }
    }
}

fn nodes(n: usize) -> String {
    format!("{n} node{}", if n == 1 { "" } else { "s" })
}

fn shown(cause: &RootCause) -> String {
    let RootCause { severity, id, title, count, .. } = cause;
    let [severity, id, title] = [severity, id, title].map(|text| escaped(text));
    let mut text = format!("\n{severity:<8} {id}: {title} ({})\n", nodes(*count));
    let mut names: Vec<_> = cause.nodes.iter().take(NAMED).map(|name| escaped(name).into_owned()).collect();
    let more = format!("and {} more", count - names.len());
    if *count > names.len() {
        names.push(more);
    }
    let _ = writeln!(text, "    on    {}", names.join(", "));
    for step in &cause.remedy {
        let _ = writeln!(text, "    do    {}", escaped(step));
    }
    text
}
