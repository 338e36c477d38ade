// SPDX-License-Identifier: Apache-2.0
//! Shared by pictures and tables of measurements.

/// Readable on white and on black: what the reader's browser says of itself decides.
pub(crate) const STYLE: &str = "
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

/// Of times in any order; NaN if there are none.
pub(crate) fn percentile(times: &[f64], percent: usize) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times.get(times.len().saturating_sub(1) * percent / 100).copied().unwrap_or(f64::NAN)
}
