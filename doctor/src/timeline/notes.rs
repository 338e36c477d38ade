// SPDX-License-Identifier: Apache-2.0
//! Limits of a timeline, for its reader.

use super::merge::Jump;
use super::words::{moment, span};
use super::{Event, History, Story};
use crate::text::counted;
use std::collections::BTreeMap;

/// Notes on times that were corrected, and on sources that were left out or not read.
pub(super) fn notes(history: &History, jumps: &[Jump], earlier: &[Event]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for jump in jumps {
        let to = moment(jump.after.ns);
        notes.push(format!("{} at {to}: earlier times are corrected by that much", jump.text()));
    }
    if let Some(last) = earlier.iter().filter_map(Event::end_ns).max() {
        let left_out = counted(earlier.len() as u64, "earlier event");
        notes.push(format!("{left_out}, up to {}, left out: --since shows them", moment(last)));
    }
    for unreadable in &history.logs.unreadable {
        notes.push(format!("cannot read {unreadable}"));
    }
    notes.extend(history.logs.untrusted.iter().map(|untrusted_log| {
        format!("{untrusted_log}: --operator-namespace {} counts it", untrusted_log.namespace)
    }));
    let left_out = &history.logs.left_out;
    let amounts = [
        (left_out.pods, "pod"),
        (left_out.files, "log"),
        (left_out.bytes, "byte"),
        (left_out.matches, "known line"),
        (left_out.unreadable, "more source that cannot be read"),
    ];
    let named = amounts.iter().filter(|(count, _)| *count > 0).map(|(count, noun)| counted(*count, noun));
    let named: Vec<_> = named.collect();
    if !named.is_empty() {
        notes.push(format!("too much to read, left out: {}", named.join(", ")));
    }
    notes
}

/// Markers that MOFED logged too early to be those that count.
pub(super) fn early_markers(story: &Story) -> Vec<String> {
    let note = |(marker, headers): &(i64, i64)| {
        let picture = if story.marker.iter().any(|(at, is_set)| *is_set && at >= headers) {
            "this picture uses the later marker"
        } else {
            "this picture does not use it"
        };
        let before = span(headers.saturating_sub(*marker));
        format!(
            "MOFED logged its marker at {}, {before} before its headers existed: {picture}",
            moment(*marker)
        )
    };
    story.early_markers.iter().map(note).collect()
}

/// Containers whose first logs are gone: what they did then is not known.
pub(super) fn lost_logs(history: &History, story: &Story) -> Vec<String> {
    let mut first: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    for log in history.logs.files.iter().filter_map(|file| file.container.as_ref()) {
        let least = first.entry((&log.pod, &log.container)).or_insert(log.restart);
        *least = (*least).min(log.restart);
    }
    let lost = first.into_iter().filter(|(_, restart)| *restart > 0);
    let sentence = |((_, container), restart): ((&str, &str), u32)| {
        let builds = container == "nvidia-driver-ctr" && story.builds.is_empty();
        let what = if builds { "; when it built the driver is not known" } else { "" };
        let logs = if restart == 1 { "log".to_owned() } else { format!("{restart} logs") };
        format!("the first {logs} of {container} {} gone{what}", if restart == 1 { "is" } else { "are" })
    };
    lost.map(sentence).collect()
}
