// SPDX-License-Identifier: Apache-2.0
//! Pictures for docs/measurements.md, drawn here: a row for each contender, a panel for each measure, time on a
//! logarithmic axis; the median is a dot, the 10th to the 90th percentile a line, and the 99th a stroke.

use crate::picture::{STYLE, percentile};
use std::fmt::Write;
use std::ops::RangeInclusive;

/// In pixels of the picture.
const ROW: f64 = 26.0;
const PANEL: f64 = 300.0;
const GAP: f64 = 50.0;
const TOP: f64 = 46.0;

/// One who is measured.
pub(crate) struct Contender<'a> {
    pub(crate) name: &'a str,
    /// The gate has a color of its own.
    pub(crate) is_gate: bool,
    /// Milliseconds, for each panel.
    pub(crate) times: Vec<&'a [f64]>,
}

/// A picture of the contenders' times.
pub(crate) struct Plot<'a> {
    pub(crate) title: &'a str,
    /// Their titles.
    pub(crate) panels: &'a [&'a str],
    /// Milliseconds at the ends of the axis, as powers of ten.
    pub(crate) decades: RangeInclusive<i32>,
    /// Pixels for the contenders' names.
    pub(crate) names: f64,
}

impl Plot<'_> {
    /// The whole picture.
    pub(crate) fn svg(&self, contenders: &[Contender]) -> String {
        let width = self.left(self.panels.len()) + 10.0;
        let bottom = middle(contenders.len()) - ROW / 2.0;
        let height = bottom + 30.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
             <title>{}, median, 10th to 90th and 99th percentile</title>\n<style>{STYLE}</style>\n",
            self.title
        );
        for (row, contender) in contenders.iter().enumerate() {
            let (x, y) = (self.names - 12.0, middle(row) + 4.0);
            let _ = writeln!(svg, "<text class=\"name\" x=\"{x}\" y=\"{y}\">{}</text>", contender.name);
        }
        for (panel, title) in self.panels.iter().enumerate() {
            let left = self.left(panel);
            svg += &self.axis(left, bottom, title);
            for (row, contender) in contenders.iter().enumerate() {
                svg += &self.mark(left, middle(row), contender.is_gate, contender.times[panel]);
            }
        }
        svg + "</svg>\n"
    }

    /// Where a panel begins.
    fn left(&self, panel: usize) -> f64 {
        self.names + number(panel) * (PANEL + GAP)
    }

    /// How far from its panel's left a time lies.
    fn across(&self, ms: f64) -> f64 {
        let (from, to) = (f64::from(*self.decades.start()), f64::from(*self.decades.end()));
        PANEL * ((ms.log10() - from) / (to - from)).clamp(0.0, 1.0)
    }

    fn axis(&self, left: f64, bottom: f64, title: &str) -> String {
        let mut svg = format!("<text class=\"title\" x=\"{left}\" y=\"20\">{title}</text>\n");
        for decade in self.decades.clone() {
            let ms = 10f64.powi(decade);
            let x = left + self.across(ms);
            let label = if decade < 3 { format!("{ms} ms") } else { format!("{} s", ms / 1e3) };
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>"
            );
            let _ = writeln!(svg, "<text class=\"tick\" x=\"{x:.1}\" y=\"{}\">{label}</text>", bottom + 18.0);
        }
        svg
    }

    /// Nothing, where nothing was measured.
    fn mark(&self, left: f64, y: f64, is_gate: bool, times: &[f64]) -> String {
        if times.is_empty() {
            return String::new();
        }
        let [low, median, high, tail] =
            [10, 50, 90, 99].map(|percent| left + self.across(percentile(times, percent)));
        let (top, bottom) = (y - 5.0, y + 5.0);
        let class = if is_gate { "gate" } else { "theirs" };
        format!(
            "<g class=\"{class}\"><line x1=\"{low:.1}\" x2=\"{high:.1}\" y1=\"{y}\" y2=\"{y}\"/><circle cx=\"{median:.1}\" cy=\"{y}\" r=\"4\"/><line x1=\"{tail:.1}\" x2=\"{tail:.1}\" y1=\"{top}\" y2=\"{bottom}\"/></g>\n"
        )
    }
}

/// Of a row's height.
fn middle(row: usize) -> f64 {
    TOP + ROW * (number(row) + 0.5)
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).expect("a few"))
}
