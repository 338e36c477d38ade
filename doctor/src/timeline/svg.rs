// SPDX-License-Identifier: Apache-2.0
//! The timeline as a picture: one file without scripts, fonts or links, light or dark as its reader's system,
//! legible on paper. A browser shows exact times and sources where the pointer rests.

use super::event::EventTone;
use super::fold::Row;
use super::text::several_pods;
use super::words::{day, moment, span, time_of_day};
use super::{Event, Lane, Timeline};
use crate::text::wrapped;
use peermem_gate::text::escaped;
use std::collections::BTreeMap;

const WIDTH: i64 = 1080;
const TOP: i64 = 92;
const LINE: i64 = 16;
const PADDING: i64 = 7;
/// Between two rows.
const SPACE: i64 = 6;
/// A day's name, or a pause.
const BREAK: i64 = 24;
/// A bracket's distance from the one before it.
const BRACKET: i64 = 22;
/// More brackets than this are a thicket; all gaps stand below the picture.
const BRACKETS: usize = 4;
/// The width of an average character at 12 px in the widest of the usual fonts.
const CHARACTER: i64 = 7;

/// A column of the picture.
struct Column {
    lane: Lane,
    title: &'static str,
    class: &'static str,
    x: i64,
    width: i64,
}

const COLUMNS: [Column; 3] = [
    Column { lane: Lane::Mofed, title: "MOFED", class: "m", x: 112, width: 300 },
    Column { lane: Lane::Kernel, title: "kernel", class: "k", x: 424, width: 220 },
    Column { lane: Lane::Gpu, title: "GPU driver", class: "g", x: 656, width: 320 },
];
const GUTTER: i64 = 990;

const STYLE: &str = "\
text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#1c2330}\
.bg{fill:#ffffff}.t{font-size:12px;fill:#5a6472;font-variant-numeric:tabular-nums}\
.h{font-size:17px;font-weight:600}.c{font-weight:600;font-size:13px}\
.l{stroke:#c9d0d9;stroke-width:1}.b{stroke-width:1}\
.m{fill:#e4f0fb;stroke:#3d7ab8}.k{fill:#f1f2f4;stroke:#8a93a0}.g{fill:#e6f4e2;stroke:#5a9a45}\
.x{fill:#fde7e4;stroke:#c0392b}.r{fill:#e4f6ea;stroke:#1e8449}\
.p{stroke:#8a93a0;stroke-width:1;stroke-dasharray:2 3}\
.w{fill:#f3e6f8;stroke:#c9a0dc;stroke-dasharray:5 4}.s{stroke:#8e44ad;stroke-width:1.5;fill:none}.n{fill:#8e44ad;font-weight:600}.v{font-weight:600}\
@media (prefers-color-scheme:dark){\
text{fill:#e4e8ee}.bg{fill:#14181f}.t{fill:#9aa5b4}.l{stroke:#3a4350}\
.m{fill:#16324d;stroke:#5b9bd8}.k{fill:#262c35;stroke:#7a8594}.g{fill:#1d3a19;stroke:#76b85f}\
.x{fill:#4d1d18;stroke:#e8695a}.r{fill:#143d26;stroke:#4cc27c}\
.p{stroke:#7a8594}.w{fill:#2b1d33;stroke:#7d4f92}.s{stroke:#c78be0}.n{fill:#c78be0}}\
@media print{\
text{fill:#000000}.bg{fill:#ffffff}.t{fill:#333333}.l{stroke:#999999}\
.m{fill:#e4f0fb;stroke:#3d7ab8}.k{fill:#f1f2f4;stroke:#666666}.g{fill:#e6f4e2;stroke:#5a9a45}\
.x{fill:#fde7e4;stroke:#c0392b}.r{fill:#e4f6ea;stroke:#1e8449}.w{fill:#f6eefa;stroke:#c9a0dc}.s{stroke:#8e44ad}.n{fill:#8e44ad}}";

/// The picture as it grows.
struct Drawing {
    body: String,
    y: i64,
    /// Where a moment is: nanoseconds since 1970, and the row's middle.
    moments: Vec<(i64, i64)>,
    with_milliseconds: bool,
}

impl Timeline {
    /// A whole SVG document.
    #[must_use]
    pub fn svg(&self) -> String {
        let with_milliseconds = self.with_milliseconds();
        let mut picture = Drawing { body: String::new(), y: TOP, moments: Vec::new(), with_milliseconds };
        let pods = several_pods(&self.events);
        let mut today = self.span().map(|(from, _)| day(from));
        for row in &self.rows {
            let event = &self.events[row.event];
            if let Some(pause) = row.pause_ns {
                picture.rule(&format!("{} without an event", span(pause)));
            }
            let date = event.anchor_ns().map(day);
            if date.is_some() && date != today {
                picture.rule(date.as_deref().unwrap_or_default());
                today = date;
            }
            picture.row(row, event, &pods);
        }
        let bottom = picture.y;
        self.brackets(&mut picture);
        self.below(&mut picture);
        self.document(&picture, bottom)
    }

    fn document(&self, picture: &Drawing, bottom: i64) -> String {
        let height = picture.y + 16;
        let lanes = COLUMNS.iter().fold(String::new(), |lanes, column| {
            let (middle, top) = (column.x + column.width / 2, TOP - 14);
            let line =
                format!("<line class=\"l\" x1=\"{middle}\" y1=\"{top}\" x2=\"{middle}\" y2=\"{bottom}\"/>\n");
            lanes + &line + &text(middle, TOP - 22, "c\" text-anchor=\"middle", column.title)
        });
        let (title, verdict) = (self.title(), &self.verdict.text);
        let lanes = self.held(picture) + &lanes;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
             <title>{}</title>\n<desc>{}</desc>\n<style>{STYLE}</style>\n\
             <rect class=\"bg\" width=\"{WIDTH}\" height=\"{height}\"/>\n{}{lanes}{}</svg>\n",
            xml(&title),
            xml(verdict),
            text(24, 34, "h", &title),
            picture.body
        )
    }

    /// The time for which a gate would have held the GPU driver back.
    fn held(&self, picture: &Drawing) -> String {
        let verdict = &self.verdict;
        let heights = verdict
            .held_from_ns
            .and_then(|from| picture.at(from))
            .zip(verdict.opens_ns.and_then(|to| picture.at(to)));
        let Some((from, to)) = heights else { return String::new() };
        let Column { x, width, .. } = &COLUMNS[2];
        format!(
            "<g><title>a gate would have held</title><rect class=\"w\" x=\"{}\" y=\"{from}\" width=\"{}\" height=\"{}\" rx=\"8\"/></g>\n",
            x - 6,
            width + 12,
            (to - from).max(LINE)
        )
    }

    /// The gaps beside the rows, numbered.
    fn brackets(&self, picture: &mut Drawing) {
        for (at, gap) in self.gaps.iter().take(BRACKETS).enumerate() {
            let (Some(from), Some(to)) = (picture.at(gap.from_ns), picture.at(gap.to_ns)) else { continue };
            let x = GUTTER + i64::try_from(at).unwrap_or_default() * BRACKET;
            let (from, to) = (from.min(to), from.max(to).max(from.min(to) + 4));
            let middle = i64::midpoint(from, to) + 4;
            let path = format!("M{} {from}h6V{to}h-6", x - 6);
            picture.body += &format!(
                "<g><title>{}</title><path class=\"s\" d=\"{path}\"/>{}</g>\n",
                xml(&gap.text),
                text(x + 3, middle, "n", &(at + 1).to_string())
            );
        }
    }

    /// Gaps in words, notes and the verdict.
    fn below(&self, picture: &mut Drawing) {
        const CHARACTERS: usize = 145;
        picture.y += 18;
        for (at, gap) in self.gaps.iter().enumerate() {
            let times = gap.times(picture.with_milliseconds);
            picture.body += &text(24, picture.y, "n", &(at + 1).to_string());
            picture.lines(44, "", &format!("{} ({times})", gap.text), CHARACTERS);
        }
        for note in &self.notes {
            picture.lines(24, "t", &format!("note: {note}"), CHARACTERS);
        }
        picture.lines(24, "t", &format!("read: {}", self.read()), CHARACTERS);
        picture.y += 6;
        picture.lines(24, "v", &self.verdict.text, CHARACTERS - 15);
        if self.verdict.held_from_ns.is_some() {
            picture.lines(
                24,
                "t",
                "The shaded part of the GPU driver's lane is the time for which that gate would have held.",
                CHARACTERS,
            );
        }
    }
}

impl Drawing {
    fn row(&mut self, row: &Row, event: &Event, pods: &BTreeMap<String, String>) {
        let column = COLUMNS.iter().find(|column| column.lane == event.lane).unwrap_or(&COLUMNS[1]);
        let label = row.text(event, pods, self.with_milliseconds);
        let characters = usize::try_from((column.width - 2 * PADDING) / CHARACTER).unwrap_or(1);
        let parts = wrapped(&label, characters);
        let height = i64::try_from(parts.len()).unwrap_or(1) * LINE + 2 * PADDING - 4;
        let middle = self.y + height / 2;
        let time = event.ns().map_or(String::new(), |ns| time_of_day(ns, self.with_milliseconds));
        let Column { x, width, class, .. } = column;
        let class = accent(event).unwrap_or(class);
        self.body += &format!("<g><title>{}</title>", xml(&hover(row, event)));
        self.body += &text(24, middle + 4, "t", &time);
        self.body += &format!(
            "<rect class=\"b {class}\" x=\"{x}\" y=\"{}\" width=\"{width}\" height=\"{height}\" rx=\"4\"/>",
            self.y
        );
        for (at, part) in parts.iter().enumerate() {
            let y = self.y + PADDING + 10 + i64::try_from(at).unwrap_or_default() * LINE;
            self.body += &text(x + PADDING, y, "", part);
        }
        self.body += "</g>\n";
        self.moments.extend(event.anchor_ns().map(|ns| (ns, middle)));
        self.y += height + SPACE;
    }

    /// A line across all lanes with a word on it.
    fn rule(&mut self, words: &str) {
        let y = self.y + BREAK / 2;
        let right = GUTTER - 14;
        self.body += &format!("<line class=\"p\" x1=\"112\" y1=\"{y}\" x2=\"{right}\" y2=\"{y}\"/>");
        self.body += &text(24, y + 4, "t", words.split(" without").next().unwrap_or_default());
        self.y += BREAK + SPACE;
    }

    fn lines(&mut self, x: i64, class: &str, words: &str, characters: usize) {
        for part in wrapped(&escaped(words), characters) {
            self.body += &text(x, self.y, class, &part);
            self.body.push('\n');
            self.y += LINE + 2;
        }
    }

    /// The height of a moment: its row's, or the last one's before it.
    fn at(&self, ns: i64) -> Option<i64> {
        let before = self.moments.iter().filter(|(at, _)| *at <= ns).max_by_key(|(at, _)| *at);
        before.or(self.moments.first()).map(|(_, y)| *y)
    }
}

/// The colour of an event that went wrong, or that others wait for.
fn accent(event: &Event) -> Option<&'static str> {
    match event.what.tone() {
        EventTone::Good => Some("r"),
        EventTone::Bad => Some("x"),
        EventTone::Plain => None,
    }
}

/// The exact time, who says so, and where.
fn hover(row: &Row, event: &Event) -> String {
    let time = event.stamp().map_or("its log has no times".to_owned(), |stamp| stamp.to_string());
    let until = row.until_ns.map(|until| format!(" until {}", moment(until))).unwrap_or_default();
    let line = event.source.line.map(|line| format!(":{line}")).unwrap_or_default();
    let corrected = match event.corrected_ns {
        0 => String::new(),
        by => format!("\ncorrected by {}, because the clock was set later", span(by)),
    };
    format!("{time}{until}\n{}\n{}{line}{corrected}", event.who, event.source.path.display())
}

fn text(x: i64, y: i64, class: &str, words: &str) -> String {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    format!("<text x=\"{x}\" y=\"{y}\"{class}>{}</text>", xml(words))
}

/// As XML takes it: lines are ours, every other control character is shown as an escape.
fn xml(words: &str) -> String {
    let lines: Vec<_> = words.split('\n').map(escaped).collect();
    let mut shown = String::with_capacity(words.len() + 16);
    for c in lines.join("\n").chars() {
        match c {
            '&' => shown += "&amp;",
            '<' => shown += "&lt;",
            '>' => shown += "&gt;",
            '"' => shown += "&quot;",
            // XML has no such characters at all.
            '\u{fffe}' | '\u{ffff}' => shown.push('\u{fffd}'),
            c => shown.push(c),
        }
    }
    shown
}
