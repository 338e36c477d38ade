// SPDX-License-Identifier: Apache-2.0
//! The roll-up for people: the verdicts first, then what is wrong, most urgent first.

use super::names::folded;
use super::rollup::{RootCause, Wait};
use super::{CauseKey, Rollup};
use crate::chain::span;
use crate::text::page;
use peermem_gate::text::{LinePrefixText, Page};
use peermem_gate::words::report::style::Style;

/// Names and ranges of names that are shown; the JSON form has every name.
const NAMED: usize = 40;
/// The same, in the line of a cause.
const INDEXED: usize = 3;

impl Rollup {
    /// All of it, as wide as the terminal.
    pub fn text(&self, style: Style) -> String {
        let mut page = page(style.columns);
        page.line(self.headline());
        // The next line is the only cause's own.
        if self.causes.len() > 1 {
            page.blank();
            let mut index = page.sibling().with_entries_of(1);
            self.causes.iter().for_each(|cause| indexed(cause, &mut index));
            page.append(index);
        }
        for cause in &self.causes {
            page.blank();
            shown(cause, &mut page);
        }
        self.versions_to(&mut page);
        self.waits_to(&mut page);
        self.input_to(&mut page);
        page.into_text()
    }

    fn headline(&self) -> String {
        let silent = match self.without_report {
            0 => String::new(),
            n => format!("; {} without a report", nodes(n)),
        };
        if self.nodes == 0 {
            return format!("no report: a report is a line that `doctor --format json` prints{silent}");
        }
        let standings: Vec<_> =
            self.standings.iter().map(|(standing, n)| format!("{n} {}", standing.name())).collect();
        let verdicts: Vec<_> = self.verdicts.iter().map(|(verdict, n)| format!("{n} {verdict}")).collect();
        format!("{}: {}{silent} (gate: {})", nodes(self.nodes), standings.join(", "), verdicts.join(", "))
    }

    fn versions_to(&self, page: &mut Page) {
        heading("versions that differ", !self.versions.is_empty(), page);
        for (key, values) in &self.versions {
            // Most common first: the others are those to look at.
            let mut values: Vec<_> = values.iter().collect();
            values.sort_by_key(|(value, n)| (usize::MAX - **n, *value));
            let values: Vec<_> =
                values.iter().map(|(value, n)| format!("{value} on {}", nodes(**n))).collect();
            page.entry(&LinePrefixText::new(4, &format!("{key}: ")), values.join("; "));
        }
    }

    fn waits_to(&self, page: &mut Page) {
        heading("longest waits", !self.slowest.is_empty(), page);
        let words = |wait: &Wait| (span(wait.seconds), wait.file.clone());
        for equal in self.slowest.chunk_by(|one, next| words(one) == words(next)) {
            let names: Vec<_> = equal.iter().map(|wait| wait.node.clone()).collect();
            let (span, file) = words(&equal[0]);
            page.entry(
                &LinePrefixText::new(4, ""),
                format_args!("{} for {span}: {file}", folded(&names, NAMED)),
            );
        }
        if self.more_waits > 0 {
            page.entry(&LinePrefixText::new(4, ""), format_args!("and {} more", nodes(self.more_waits)));
        }
    }

    fn input_to(&self, page: &mut Page) {
        let Self { reports, superseded, other_lines, damaged, .. } = self;
        let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let mut text = plural(*reports, "report");
        if *superseded > 0 {
            text += &format!(", of which {superseded} have a newer one of the same node");
        }
        if *other_lines > 0 {
            text += &format!("; {other_lines} lines that are not reports");
        }
        page.blank();
        page.line(format_args!("{text}; {}", plural(*damaged, "damaged line")));
        for damage in &self.damages {
            let pod = if damage.prefix.is_empty() { String::new() } else { format!(" {}", damage.prefix) };
            let place = format_args!("{}:{}{pod}: {}", damage.source, damage.line, damage.why);
            page.entry(&LinePrefixText::new(4, ""), place);
        }
        if *damaged > self.damages.len() {
            page.entry(
                &LinePrefixText::new(4, ""),
                format_args!("and {} more", damaged - self.damages.len()),
            );
        }
    }
}

fn heading(words: &str, is_due: bool, page: &mut Page) {
    if is_due {
        page.blank();
        page.line(words);
    }
}

fn nodes(n: usize) -> String {
    format!("{n} node{}", if n == 1 { "" } else { "s" })
}

/// A line of a cause: how bad it is, how many nodes have it, and the first of them.
fn indexed(cause: &RootCause, page: &mut Page) {
    let RootCause { key: CauseKey { severity, id, .. }, count, nodes: names, .. } = cause;
    page.line(format_args!("{severity:<8} {:>9}  {id}: {}", nodes(*count), folded(names, INDEXED)));
}

fn shown(cause: &RootCause, page: &mut Page) {
    let RootCause { key: CauseKey { severity, id, title, remedy, reported }, count, .. } = cause;
    let lead = LinePrefixText { rest: " ".repeat(9), ..LinePrefixText::default() };
    page.entry(&lead, format_args!("{severity:<8} {id}: {title} ({})", nodes(*count)));
    page.entry(&LinePrefixText::new(4, "on    "), folded(&cause.nodes, NAMED));
    for step in remedy {
        page.entry(&LinePrefixText::new(4, "do    "), step);
    }
    // Anybody may have written these: a person reads them as the report's, and not as ours.
    for step in reported {
        page.entry(&LinePrefixText::new(4, "only the reports say: "), step);
    }
    for (node, commands) in &cause.commands {
        page.entry(&LinePrefixText::new(4, ""), format_args!("{node}:"));
        for command in commands {
            page.entry(&LinePrefixText::new(8, ""), command);
        }
    }
}
