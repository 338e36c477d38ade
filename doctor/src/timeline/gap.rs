// SPDX-License-Identifier: Apache-2.0
//! The intervals that decided, with a name and words each. A new one is a row of `intervals!`.

use super::words::{day, moment, span, time_of_day, times};
use super::{DriverBuild, Story};
use crate::log::LogEvent;
use crate::stamp::SECOND;
use std::borrow::Borrow;

/// An interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Which interval it is.
    pub kind: GapKind,
    /// Its beginning, in nanoseconds since 1970.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
    /// The sentence for people.
    pub text: String,
}

impl Gap {
    /// From when to when, with the days where they differ.
    pub(super) fn times(&self, with_milliseconds: bool) -> String {
        let Self { from_ns: from, to_ns: to, .. } = *self;
        if day(from) == day(to) {
            return format!(
                "{} to {}",
                time_of_day(from, with_milliseconds),
                time_of_day(to, with_milliseconds)
            );
        }
        format!("{} to {}", moment(from), moment(to))
    }
}

/// An interval and its words, where the story has it.
type Interval = (i64, i64, String);

macro_rules! intervals {
    ($($kind:ident: $find:expr;)*) => {
        /// A kind of interval.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each is described by its words")]
        pub enum GapKind { $($kind,)* }

        named!(GapKind: $($kind),*);

        /// Every interval that is named, in the order in which they are listed.
        const RULES: &[(GapKind, fn(&Story) -> Vec<Interval>)] = &[$((GapKind::$kind, $find),)*];
    };
}

intervals! {
    DriverManagerDidNotWait: |story| worded(
        driver_manager_did_not_wait(story),
        "k8s-driver-manager continued {} before MOFED's marker: it did not wait",
    );
    BuiltBeforeMarker: |story| worded(
        built_before_marker(story),
        "nvidia-peermem was built {} before MOFED's marker: a stub",
    );
    BuiltAcrossMarker: |story| worded(
        built_across_marker(story),
        "MOFED set its marker {} after the GPU driver's build began: nvidia-peermem may be a stub",
    );
    BuiltAfterMarker: |story| worded(
        behind_marker(story, story.builds.iter().filter_map(|build| build.started)),
        "the GPU driver's build began {} after MOFED's marker",
    );
    StartedAfterMarker: |story| worded(
        // Where no build is known: an installation that starts after the marker builds after it.
        behind_marker(story, story.installs.iter().filter(|_| story.builds.is_empty()).copied()).take(1),
        "the GPU driver's installation started {} after MOFED's marker",
    );
    MofedCameLater: |story| worded(
        mofed_came_later(story),
        "MOFED set its marker {} after nvidia-peermem.ko was written",
    );
    ModprobeBeforeMarker: |story| worded(
        modprobe_before_marker(story),
        "modprobe nvidia-peermem came {} before MOFED's marker",
    );
    MofedTook: |story| worded(mofed_took(story), "MOFED took {} from its start to its marker");
    MofedWaitedForPeermem: |story| mofed_refused(story, PINNED, "for nvidia_peermem to go");
    MofedWaitedForStorage: |story| mofed_refused(story, STORAGE, "for storage modules to go");
    MofedWaitedForThirdParty: |story| mofed_refused(story, THIRD_PARTY, "for third-party RDMA modules to go");
    SwappedAfterBuild: |story| worded(
        swapped_after_build(story),
        "MOFED swapped its modules {} after nvidia-peermem was built",
    );
    RefusedAgainAndAgain: refused_again_and_again;
}

pub(super) const PINNED: &[LogEvent] = &[LogEvent::MofedPeermemInUse, LogEvent::MofedPeermemNotUnloaded];
pub(super) const STORAGE: &[LogEvent] = &[LogEvent::MofedStorageModulesLoaded];
pub(super) const THIRD_PARTY: &[LogEvent] = &[LogEvent::MofedThirdPartyModulesLoaded];

/// All of a story.
pub(super) fn gaps(story: &Story) -> Vec<Gap> {
    let gap = |kind, (from_ns, to_ns, text)| Gap { kind, from_ns, to_ns, text };
    RULES
        .iter()
        .flat_map(|(kind, find)| find(story).into_iter().map(move |found| gap(*kind, found)))
        .collect()
}

/// With these words around the length of each.
fn worded(spans: impl IntoIterator<Item = (i64, i64)>, words: &str) -> Vec<Interval> {
    let worded = |(from, to)| (from, to, words.replace("{}", &until(from, to)));
    spans.into_iter().map(worded).collect()
}

/// From one moment to a later one, in words.
fn until(from: impl Borrow<i64>, to: impl Borrow<i64>) -> String {
    span(to.borrow().saturating_sub(*from.borrow()))
}

/// k8s-driver-manager was to wait, and was done before the marker.
fn driver_manager_did_not_wait(story: &Story) -> Option<(i64, i64)> {
    let asked = |done: &&i64| story.asked.iter().any(|asked| asked <= *done);
    let mut early = story.done.iter().filter(asked).filter(|done| story.marked(**done).is_none());
    early.find_map(|done| Some((*done, story.next_marker(*done)?)))
}

/// Builds of which no file shows that nvidia-peermem is no stub.
fn suspects(story: &Story) -> impl Iterator<Item = &DriverBuild> {
    story.builds.iter().filter(|build| build.is_stub != Some(false))
}

fn built_before_marker(story: &Story) -> impl Iterator<Item = (i64, i64)> {
    suspects(story).filter_map(|build| {
        let finished = build.finished.filter(|end| story.marked(*end).is_none())?;
        Some((build.written.unwrap_or(finished), story.next_marker(finished)?))
    })
}

fn built_across_marker(story: &Story) -> impl Iterator<Item = (i64, i64)> {
    suspects(story).filter_map(|build| {
        let start = build.started.filter(|start| story.marked(*start).is_none())?;
        Some((start, story.marked(build.finished?)?))
    })
}

/// From the marker under which each of these moments is.
fn behind_marker(story: &Story, moments: impl Iterator<Item = i64>) -> impl Iterator<Item = (i64, i64)> {
    moments.filter_map(|at| Some((story.marked(at)?, at)))
}

/// The marker that nvidia-peermem.ko has not seen.
fn mofed_came_later(story: &Story) -> Option<(i64, i64)> {
    let written = *story.sound_files.last()?;
    let marker = story.last_marker().filter(|marker| *marker > written && story.marked(written).is_none())?;
    Some((written, marker))
}

/// The first attempt of those that came before the same marker.
fn modprobe_before_marker(story: &Story) -> Vec<(i64, i64)> {
    let early = story.modprobes.iter().filter(|at| story.marked(**at).is_none());
    let mut found: Vec<_> = early.filter_map(|at| Some((*at, story.next_marker(*at)?))).collect();
    found.dedup_by_key(|(_, marker)| *marker);
    found
}

/// Of each start that came to a marker; of many, the last ones.
fn mofed_took(story: &Story) -> Vec<(i64, i64)> {
    let ends = story.starts.iter().skip(1).copied().chain([i64::MAX]);
    let took = story.starts.iter().zip(ends);
    let took = took.filter_map(|(start, end)| Some((*start, story.next_marker(*start)?, end)));
    let mut found: Vec<_> =
        took.filter(|(_, marker, end)| marker < end).map(|(start, marker, _)| (start, marker)).collect();
    found.split_off(found.len().saturating_sub(3))
}

/// From the first refusal up to the marker, or to the last one where none came.
fn mofed_refused(story: &Story, why: &[LogEvent], what: &str) -> Vec<Interval> {
    let refused: Vec<i64> =
        story.refuses.iter().filter(|(_, event)| why.contains(event)).map(|(at, _)| *at).collect();
    let (Some(first), Some(last)) = (refused.first(), refused.last()) else { return Vec::new() };
    let refusals = times(refused.len() as u64);
    let (end, text) = match story.next_marker(*last) {
        Some(marker) => {
            (marker, format!("MOFED waited {} {what}: it refused to start {refusals}", until(first, marker)))
        }
        None if first == last => (*last, format!("MOFED waits {what}: it refused to start {refusals}")),
        None => {
            (*last, format!("MOFED waits {what}: it refused to start {refusals} in {}", until(first, last)))
        }
    };
    vec![(*first, end, text)]
}

/// The driver was built in time for a MOFED that was replaced afterwards: then there is another marker.
fn swapped_after_build(story: &Story) -> Option<(i64, i64)> {
    let build = story.builds.iter().rev().find_map(|build| build.finished)?;
    let built_under = story.marked(build)?;
    let swapped = story.last_marker().filter(|marker| *marker > build && *marker > built_under)?;
    Some((build, swapped))
}

fn refused_again_and_again(story: &Story) -> Vec<Interval> {
    let (Some((first, _)), Some((last, _))) = (story.refusals.first(), story.refusals.last()) else {
        return Vec::new();
    };
    if last.saturating_sub(*first) < SECOND || story.refusals.len() < 2 {
        return Vec::new();
    }
    let seen = story.refusals.len() as u64;
    let text = if u64::from(story.restarts) > seen {
        // Most logs are gone, and the number in the last one's name counts them.
        format!("nvidia-peermem was refused for {}, over {} restarts", until(first, last), story.restarts)
    } else {
        format!("nvidia-peermem was refused {} in {}", times(seen), until(first, last))
    };
    vec![(*first, *last, text)]
}
