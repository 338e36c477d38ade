// SPDX-License-Identifier: Apache-2.0
//! The timeline as a picture: one file without scripts, fonts or links, light or dark as its reader's system,
//! legible on paper. A browser shows exact times and sources where the pointer rests.

use super::event::EventTone;
use super::fold::Row;
use super::text::several_pods;
use super::words::{day, moment, span, time_of_day};
use super::{Event, Gap, Lane, Timeline};
use crate::text::wrapped;
use peermem_gate::text::escaped;
use std::collections::BTreeMap;

const WIDTH: i64 = 1180;
const LEFT: i64 = 24;
const LINE: i64 = 16;
const PADDING: i64 = 7;
/// Between two rows.
const SPACE: i64 = 6;
/// A day's name, or a pause.
const BREAK: i64 = 24;
/// A bracket's distance from the one before it.
const BRACKET: i64 = 17;
/// More brackets than this are a thicket; other gaps are below the picture.
const BRACKETS: usize = 5;
/// The width of an average character at 12 px in the widest of the usual fonts.
const CHARACTER: i64 = 7;
/// Characters in a line of the verdict, which has larger ones, and in a line below the picture.
const TITLE: usize = 108;
const CHARACTERS: usize = 155;

/// A column of the picture.
struct Column {
    lane: Lane,
    title: &'static str,
    x: i64,
    width: i64,
}

/// Their titles, and how wide they are if all have events.
const COLUMNS: [(Lane, &str, i64); 3] =
    [(Lane::Mofed, "MOFED", 256), (Lane::Kernel, "kernel", 178), (Lane::Gpu, "GPU driver", 276)];
const COLUMNS_LEFT: i64 = 96;
const BETWEEN: i64 = 10;
const GUTTER: i64 = 842;
/// The words of the brackets.
const LABELS: i64 = 934;

/// One meaning for each color: red is wrong, green is what others wait for, purple is the wait of a gate.
const STYLE: &str = "\
text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#1c2330}\
.bg{fill:#ffffff}.t{font-size:12px;fill:#5a6472;font-variant-numeric:tabular-nums}\
.h{font-size:17px;font-weight:600}.c{font-weight:600;font-size:13px}\
.l{stroke:#c9d0d9;stroke-width:1}.b{stroke-width:1}\
.k{fill:#f1f2f4;stroke:#8a93a0}\
.x{fill:#fde7e4;stroke:#c0392b}.r{fill:#e4f6ea;stroke:#1e8449}\
.p{stroke:#8a93a0;stroke-width:1;stroke-dasharray:2 3}\
.w{fill:#f3e6f8;stroke:#c9a0dc;stroke-dasharray:5 4}.a{fill:#8e44ad;font-weight:600}.s{stroke:#5a6472;stroke-width:1.5;fill:none}.n{font-weight:600}\
@media (prefers-color-scheme:dark){\
text{fill:#e4e8ee}.bg{fill:#14181f}.t{fill:#9aa5b4}.l{stroke:#3a4350}\
.k{fill:#262c35;stroke:#7a8594}\
.x{fill:#4d1d18;stroke:#e8695a}.r{fill:#143d26;stroke:#4cc27c}\
.p{stroke:#7a8594}.w{fill:#2b1d33;stroke:#7d4f92}.a{fill:#c78be0}.s{stroke:#9aa5b4}}\
@media print{\
text{fill:#000000}.bg{fill:#ffffff}.t{fill:#333333}.l{stroke:#999999}\
.k{fill:#f1f2f4;stroke:#666666}\
.x{fill:#fde7e4;stroke:#c0392b}.r{fill:#e4f6ea;stroke:#1e8449}.w{fill:#f6eefa;stroke:#c9a0dc}.s{stroke:#333333}}";

/// The picture as it grows.
struct Drawing {
    body: String,
    columns: Vec<Column>,
    y: i64,
    /// Where a moment is: nanoseconds since 1970, and the row's middle.
    moments: Vec<(i64, i64)>,
    /// Where the time begins for which a gate would have waited.
    held: Option<i64>,
    with_milliseconds: bool,
}

impl Timeline {
    /// A whole SVG document.
    pub fn svg(&self) -> String {
        let with_milliseconds = self.with_milliseconds();
        let columns = self.columns();
        let mut picture = Drawing {
            body: String::new(),
            columns,
            y: 34,
            moments: Vec::new(),
            held: None,
            with_milliseconds,
        };
        self.above(&mut picture);
        let top = picture.y;
        let pods = several_pods(&self.events);
        let mut today = self.span().map(|(from, _)| day(from));
        for row in &self.rows {
            let event = &self.events[row.event];
            if let Some(pause) = row.pause_ns {
                picture.rule(&span(pause));
            }
            let date = event.anchor_ns().map(day);
            if date.is_some() && date != today {
                picture.rule(date.as_deref().unwrap_or_default());
                today = date;
            }
            self.waiting(event, &mut picture);
            picture.row(row, event, &pods);
        }
        let bottom = picture.y;
        self.brackets(&mut picture);
        self.below(&mut picture);
        self.document(&picture, top, bottom)
    }

    /// Those of lanes with events, over the whole width. The GPU driver's is always there, for the wait.
    fn columns(&self) -> Vec<Column> {
        let has = |lane| lane == Lane::Gpu || self.rows.iter().any(|row| self.events[row.event].lane == lane);
        let shown: Vec<_> = COLUMNS.into_iter().filter(|(lane, ..)| has(*lane)).collect();
        let all: i64 = COLUMNS.iter().map(|(_, _, width)| width + BETWEEN).sum();
        let taken: i64 = shown.iter().map(|(_, _, width)| width + BETWEEN).sum();
        let more = (all - taken) / i64::try_from(shown.len()).unwrap_or(1);
        let mut x = COLUMNS_LEFT;
        let place = |(lane, title, width)| {
            let column = Column { lane, title, x, width: width + more };
            x += column.width + BETWEEN;
            column
        };
        shown.into_iter().map(place).collect()
    }

    fn document(&self, picture: &Drawing, top: i64, bottom: i64) -> String {
        let height = picture.y + 16;
        let lanes = picture.columns.iter().fold(String::new(), |lanes, column| {
            let (middle, top) = (column.x + column.width / 2, top - 14);
            let line =
                format!("<line class=\"l\" x1=\"{middle}\" y1=\"{top}\" x2=\"{middle}\" y2=\"{bottom}\"/>\n");
            lanes + &line + &text(middle, top - 8, "c\" text-anchor=\"middle", column.title)
        });
        let lanes = self.held(picture) + &lanes;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
             <title>{}</title>\n<desc>{}</desc>\n<style>{STYLE}</style>\n\
             <rect class=\"bg\" width=\"{WIDTH}\" height=\"{height}\"/>\n{lanes}{}</svg>\n",
            xml(&self.verdict.text),
            xml(&self.title()),
            picture.body
        )
    }

    /// The verdict, then which node and which time, then room for the lanes' titles.
    fn above(&self, picture: &mut Drawing) {
        let (title, rest) = self.verdict.text.split_once(". ").unwrap_or((&self.verdict.text, ""));
        let title = title.trim_end_matches('.');
        for part in wrapped(&escaped(title), TITLE) {
            picture.body += &text(LEFT, picture.y, "h", &part);
            picture.y += LINE + 6;
        }
        picture.lines(LEFT, "", rest, CHARACTERS);
        let scale = "Each row is an event: the time axis is not to scale.";
        let title = self.title().replace(", not to scale", ".");
        picture.lines(LEFT, "t", &format!("{title} {scale}"), CHARACTERS);
        picture.y += LINE * 2 + SPACE;
    }

    /// Above the first row in which a gate would have waited: for how long.
    fn waiting(&self, event: &Event, picture: &mut Drawing) {
        let Some((from, opens)) = self.verdict.held_from_ns.zip(self.verdict.opens_ns) else { return };
        if picture.held.is_some() || event.anchor_ns().is_none_or(|at| at < from) {
            return;
        }
        picture.held = Some(picture.y);
        let words = format!("the gate would have waited {}", span(opens.saturating_sub(from)));
        picture.body += &text(picture.column(Lane::Gpu).x + PADDING, picture.y + LINE, "a", &words);
        picture.y += LINE + SPACE * 2;
    }

    /// The time for which a gate would have made the GPU driver wait.
    fn held(&self, picture: &Drawing) -> String {
        let heights = picture.held.zip(self.verdict.opens_ns.and_then(|to| picture.at(to)));
        let Some((from, to)) = heights else { return String::new() };
        let Column { x, width, .. } = picture.column(Lane::Gpu);
        format!(
            "<g><title>the gate would have waited</title><rect class=\"w\" x=\"{}\" y=\"{from}\" width=\"{}\" height=\"{}\" rx=\"8\"/></g>\n",
            x - 6,
            width + 12,
            (to - from).max(LINE)
        )
    }

    /// The gaps beside the rows that they lie between, each with its words, in the order of their heights.
    fn brackets(&self, picture: &mut Drawing) {
        let height = |gap: &Gap| Some((picture.at(gap.from_ns)?, picture.at(gap.to_ns)?));
        let mut brackets = Vec::new();
        for gap in self.gaps.iter().take(BRACKETS) {
            let Some((from, to)) = height(gap) else { continue };
            let (from, to) = (from.min(to), from.max(to).max(from.min(to) + 4));
            brackets.push((i64::midpoint(from, to) + 4, from, to, gap));
        }
        brackets.sort_by_key(|(middle, ..)| *middle);
        let (mut free, mut x) = (0, GUTTER);
        for (at, (middle, from, to, gap)) in brackets.into_iter().enumerate() {
            picture.body += &format!(
                "<g><title>{}</title><path class=\"s\" d=\"M{} {from}h6V{to}h-6\"/>{}</g>\n",
                xml(&gap.text),
                x - 6,
                text(x + 3, middle, "n", &(at + 1).to_string())
            );
            free = picture.label(middle, free, at + 1, gap);
            x += BRACKET;
        }
        picture.y = picture.y.max(free);
    }

    /// Gaps without a bracket, and notes.
    fn below(&self, picture: &mut Drawing) {
        picture.y += 18;
        for (at, gap) in self.gaps.iter().enumerate().skip(BRACKETS) {
            let times = gap.times(picture.with_milliseconds);
            picture.body += &text(LEFT, picture.y, "n", &(at + 1).to_string());
            picture.lines(LEFT + 20, "", &format!("{} ({times})", gap.text), CHARACTERS);
        }
        for note in &self.notes {
            picture.lines(LEFT, "t", &format!("note: {note}"), CHARACTERS);
        }
        picture.lines(LEFT, "t", &format!("read: {}", self.read()), CHARACTERS);
    }
}

impl Drawing {
    fn row(&mut self, row: &Row, event: &Event, pods: &BTreeMap<String, String>) {
        let column = self.column(event.lane);
        let label = row.text(event, pods, self.with_milliseconds);
        let characters = usize::try_from((column.width - 2 * PADDING) / CHARACTER).unwrap_or(1);
        let parts = wrapped(&label, characters);
        let height = i64::try_from(parts.len()).unwrap_or(1) * LINE + 2 * PADDING - 4;
        let middle = self.y + height / 2;
        let time = event.ns().map_or(String::new(), |ns| time_of_day(ns, self.with_milliseconds));
        let (x, width) = (column.x, column.width);
        let class = accent(row, event).unwrap_or("k");
        self.body += &format!("<g><title>{}</title>", xml(&hover(row, event)));
        self.body += &text(LEFT, middle + 4, "t", &time);
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

    fn column(&self, lane: Lane) -> &Column {
        let last = self.columns.len() - 1;
        self.columns.iter().find(|column| column.lane == lane).unwrap_or(&self.columns[last])
    }

    /// A line across all lanes with a word on it.
    fn rule(&mut self, words: &str) {
        let y = self.y + BREAK / 2;
        let (x, right) = (COLUMNS_LEFT, GUTTER - 14);
        self.body += &format!("<line class=\"p\" x1=\"{x}\" y1=\"{y}\" x2=\"{right}\" y2=\"{y}\"/>");
        self.body += &text(LEFT, y + 4, "t", words);
        self.y += BREAK + SPACE;
    }

    fn lines(&mut self, x: i64, class: &str, words: &str, characters: usize) {
        for part in wrapped(&escaped(words), characters) {
            self.body += &text(x, self.y, class, &part);
            self.body.push('\n');
            self.y += LINE + 2;
        }
    }

    /// A gap's words at this height, or below what is free; gives what is free below them.
    fn label(&mut self, middle: i64, free: i64, number: usize, gap: &Gap) -> i64 {
        const WIDEST: usize = 30;
        let words = format!("{} ({})", gap.text, gap.times(self.with_milliseconds));
        let parts = wrapped(&escaped(&words), WIDEST);
        let height = i64::try_from(parts.len()).unwrap_or(1) * LINE;
        let mut y = (middle - height / 2 + LINE / 2).max(free + LINE);
        self.body += &text(LABELS, y, "n", &number.to_string());
        for part in parts {
            self.body += &text(LABELS + 14, y, "", &part);
            self.body.push('\n');
            y += LINE;
        }
        y - LINE / 2
    }

    /// The height of a moment: its row's, or the last one's before it.
    fn at(&self, ns: i64) -> Option<i64> {
        let before = self.moments.iter().filter(|(at, _)| *at <= ns).max_by_key(|(at, _)| *at);
        before.or(self.moments.first()).map(|(_, y)| *y)
    }
}

/// The color of an event that went wrong, or that others wait for.
fn accent(row: &Row, event: &Event) -> Option<&'static str> {
    match event.tone() {
        _ if row.is_stub => Some("x"),
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
