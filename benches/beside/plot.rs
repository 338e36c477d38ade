// SPDX-License-Identifier: Apache-2.0
//! The picture of docs/measurements.md, drawn here: one row for each contender, two panels, time on a logarithmic
//! axis.

use super::{Row, percentile};
use crate::contenders::Contender;
use std::fmt::Write;

/// In pixels of the picture.
const ROW: f64 = 26.0;
const NAMES: f64 = 190.0;
const PANEL: f64 = 300.0;
const GAP: f64 = 50.0;
const TOP: f64 = 46.0;
/// Milliseconds at the two ends of the axis, as powers of ten.
const DECADES: (i32, i32) = (-1, 4);

/// Readable on white and on black: what the reader's browser says of itself decides.
const STYLE: &str = "
text { font: 13px sans-serif; fill: #24292f; }
.title { font-weight: bold; }
.tick { font-size: 11px; text-anchor: middle; fill: #57606a; }
.name { text-anchor: end; }
.grid { stroke: #d0d7de; }
.theirs { stroke: #57606a; fill: #57606a; stroke-width: 2; }
.gate { stroke: #1a7f37; fill: #1a7f37; stroke-width: 3; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .tick { fill: #9198a1; }
  .grid { stroke: #30363d; }
  .theirs { stroke: #9198a1; fill: #9198a1; }
  .gate { stroke: #3fb950; fill: #3fb950; }
}
";

/// The whole picture.
pub(crate) fn svg(rows: &[Row]) -> String {
    let width = NAMES + 2.0 * (PANEL + GAP) + 10.0;
    let bottom = middle(rows.len()) - ROW / 2.0;
    let height = bottom + 30.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>Time until CMD's first instruction, median and 10th to 90th percentile</title>\n<style>{STYLE}</style>\n"
    );
    for (number, row) in rows.iter().enumerate() {
        let (x, y) = (NAMES - 12.0, middle(number) + 4.0);
        let _ = writeln!(svg, "<text class=\"name\" x=\"{x}\" y=\"{y}\">{}</text>", row.contender.name());
    }
    svg += &panel(NAMES, bottom, "marker set → CMD's first instruction", rows, |row| &row.reaction);
    let second = NAMES + PANEL + GAP;
    svg += &panel(second, bottom, "already ready: start → CMD's first instruction", rows, |row| &row.ready);
    svg + "</svg>\n"
}

/// Of a row's height.
fn middle(row: usize) -> f64 {
    TOP + ROW * (f64::from(u32::try_from(row).expect("a few rows")) + 0.5)
}

/// Where a time lies between the ends of the axis.
fn across(ms: f64) -> f64 {
    let (from, to) = (f64::from(DECADES.0), f64::from(DECADES.1));
    PANEL * ((ms.log10() - from) / (to - from)).clamp(0.0, 1.0)
}

fn panel(left: f64, bottom: f64, title: &str, rows: &[Row], times: impl Fn(&Row) -> &[f64]) -> String {
    let marks =
        rows.iter().enumerate().map(|(number, row)| mark(left, middle(number), row.contender, times(row)));
    axis(left, bottom, title) + &marks.collect::<String>()
}

fn axis(left: f64, bottom: f64, title: &str) -> String {
    let mut svg = format!("<text class=\"title\" x=\"{left}\" y=\"20\">{title}</text>\n");
    for decade in DECADES.0..=DECADES.1 {
        let x = left + across(10f64.powi(decade));
        let label = match decade {
            ..0 => "0.1 ms".to_owned(),
            0..3 => format!("{} ms", 10f64.powi(decade)),
            _ => format!("{} s", 10f64.powi(decade - 3)),
        };
        let _ =
            writeln!(svg, "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>");
        let _ = writeln!(svg, "<text class=\"tick\" x=\"{x:.1}\" y=\"{}\">{label}</text>", bottom + 18.0);
    }
    svg
}

/// The median as a dot, the 10th to the 90th percentile as a line.
fn mark(left: f64, y: f64, contender: Contender, times: &[f64]) -> String {
    let [low, median, high] = [10, 50, 90].map(|percent| left + across(percentile(times, percent)));
    let class = if contender == Contender::Gate { "gate" } else { "theirs" };
    format!(
        "<g class=\"{class}\"><line x1=\"{low:.1}\" x2=\"{high:.1}\" y1=\"{y}\" y2=\"{y}\"/><circle cx=\"{median:.1}\" cy=\"{y}\" r=\"4\"/></g>\n"
    )
}
