// SPDX-License-Identifier: Apache-2.0
//! A picture of shares, a bar for each. Readable at 760 pixels, on white and on black.

use crate::picture::STYLE;
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const ROW: f64 = 24.0;
const TOP: f64 = 40.0;
/// Pixels for the names, and for the numbers behind a bar.
const NAMES: f64 = 270.0;
const NUMBERS: f64 = 110.0;

/// One bar.
pub(crate) struct Bar<'a> {
    pub(crate) name: &'a str,
    pub(crate) is_gate: bool,
    pub(crate) count: u32,
    pub(crate) of: u32,
}

impl Bar<'_> {
    fn share(&self) -> f64 {
        f64::from(self.count) / f64::from(self.of.max(1))
    }
}

/// The longest bar takes all the room.
pub(crate) fn svg(title: &str, bars: &[Bar]) -> String {
    let most = bars.iter().map(Bar::share).fold(0.01, f64::max);
    let height = TOP + ROW * f64::from(u32::try_from(bars.len()).expect("a few")) + 8.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n<text class=\"title\" x=\"12\" y=\"22\">{title}</text>\n"
    );
    let mut top = TOP;
    for bar in bars {
        let width = (WIDTH - NAMES - NUMBERS) * bar.share() / most;
        let class = if bar.is_gate { "gate" } else { "theirs" };
        let (text, end) = (top + 16.0, NAMES + width + 8.0);
        let _ = writeln!(
            svg,
            "<text class=\"name\" x=\"{}\" y=\"{text}\">{}</text>\n\
             <rect class=\"{class}\" x=\"{NAMES}\" y=\"{}\" width=\"{:.1}\" height=\"14\" style=\"stroke: none\"/>\n\
             <text x=\"{end:.1}\" y=\"{text}\">{} of {}</text>",
            NAMES - 10.0,
            bar.name,
            top + 5.0,
            width,
            bar.count,
            bar.of
        );
        top += ROW;
    }
    svg + "</svg>\n"
}
