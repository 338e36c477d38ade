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
    DriverManagerDidNotWait: driver_manager_did_not_wait;
    BuiltBeforeMarker: built_before_marker;
    BuiltAcrossMarker: built_across_marker;
    BuiltAfterMarker: built_after_marker;
    StartedAfterMarker: started_after_marker;
    MofedCameLater: mofed_came_later;
    ModprobeBeforeMarker: modprobe_before_marker;
    MofedTook: mofed_took;
    MofedWaitedForPeermem: |story| mofed_refused(story, PINNED, "for nvidia_peermem to go");
    MofedWaitedForStorage: |story| mofed_refused(story, STORAGE, "for storage modules to go");
    MofedWaitedForThirdParty: |story| mofed_refused(story, THIRD_PARTY, "for third-party RDMA modules to go");
    SwappedAfterBuild: swapped_after_build;
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

/// From one moment to a later one, in words.
fn until(from: impl Borrow<i64>, to: impl Borrow<i64>) -> String {
    span(to.borrow().saturating_sub(*from.borrow()))
}

/// k8s-driver-manager was to wait, and was done before the marker.
fn driver_manager_did_not_wait(story: &Story) -> Vec<Interval> {
    let asked = |done: &&i64| story.asked.iter().any(|asked| asked <= *done);
    let early = story.done.iter().filter(asked).filter(|done| story.marked(**done).is_none());
    let found = |done: &i64| {
        let marker = story.next_marker(*done)?;
        let text = format!(
            "k8s-driver-manager continued {} before MOFED's marker: it did not wait",
            until(done, marker)
        );
        Some((*done, marker, text))
    };
    early.filter_map(found).take(1).collect()
}

fn built_before_marker(story: &Story) -> Vec<Interval> {
    let may_be_stub = story.builds.iter().filter(|build| build.is_stub != Some(false));
    let early = may_be_stub.filter(|build| build.finished.is_some_and(|end| story.marked(end).is_none()));
    let found = |build: &DriverBuild| {
        let marker = story.next_marker(build.finished?)?;
        let built = build.written.or(build.finished)?;
        let text = format!("nvidia-peermem was built {} before MOFED's marker: a stub", until(built, marker));
        Some((built, marker, text))
    };
    early.filter_map(found).collect()
}

fn built_across_marker(story: &Story) -> Vec<Interval> {
    let may_be_stub = story.builds.iter().filter(|build| build.is_stub != Some(false));
    let builds = may_be_stub.filter_map(|build| build.started.zip(build.finished));
    let across = builds.filter(|(start, end)| story.marked(*start).is_none() && story.marked(*end).is_some());
    let found = |(start, end): (i64, i64)| {
        let marker = story.marked(end)?;
        let text = format!(
            "MOFED set its marker {} after the GPU driver's build began: nvidia-peermem may be a stub",
            until(start, marker)
        );
        Some((start, marker, text))
    };
    across.filter_map(found).collect()
}

fn built_after_marker(story: &Story) -> Vec<Interval> {
    let starts = story.builds.iter().filter_map(|build| build.started);
    let found = |start: i64| {
        let marker = story.marked(start)?;
        let text = format!("the GPU driver's build began {} after MOFED's marker", until(marker, start));
        Some((marker, start, text))
    };
    starts.filter_map(found).collect()
}

/// Where no build is known: an installation that starts after the marker builds after it.
fn started_after_marker(story: &Story) -> Vec<Interval> {
    let starts = story.installs.iter().filter(|_| story.builds.is_empty());
    let found = |start: &i64| {
        let marker = story.marked(*start)?;
        let text =
            format!("the GPU driver's installation started {} after MOFED's marker", until(marker, start));
        Some((marker, *start, text))
    };
    starts.filter_map(found).take(1).collect()
}

/// The marker that nvidia-peermem.ko has not seen.
fn mofed_came_later(story: &Story) -> Vec<Interval> {
    let Some(written) = story.sound_files.last() else { return Vec::new() };
    let marker = story.last_marker().filter(|marker| marker > written && story.marked(*written).is_none());
    let found = |marker: i64| {
        let text =
            format!("MOFED set its marker {} after nvidia-peermem.ko was written", until(written, marker));
        (*written, marker, text)
    };
    marker.map(found).into_iter().collect()
}

/// The first attempt of those that came before the same marker.
fn modprobe_before_marker(story: &Story) -> Vec<Interval> {
    let mut found: Vec<Interval> = Vec::new();
    for modprobe in story.modprobes.iter().filter(|at| story.marked(**at).is_none()) {
        let Some(marker) = story.next_marker(*modprobe) else { continue };
        if found.iter().all(|(_, known, _)| *known != marker) {
            let text =
                format!("modprobe nvidia-peermem came {} before MOFED's marker", until(modprobe, marker));
            found.push((*modprobe, marker, text));
        }
    }
    found
}

/// Of each start that came to a marker.
fn mofed_took(story: &Story) -> Vec<Interval> {
    let mut found = Vec::new();
    for (at, start) in story.starts.iter().enumerate() {
        let next_start = story.starts.get(at + 1).copied().unwrap_or(i64::MAX);
        if let Some(marker) = story.next_marker(*start).filter(|marker| *marker < next_start) {
            found.push((
                *start,
                marker,
                format!("MOFED took {} from its start to its marker", until(start, marker)),
            ));
        }
    }
    // Of many, the last ones.
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

/// The driver was built for a MOFED that was replaced afterwards.
fn swapped_after_build(story: &Story) -> Vec<Interval> {
    let Some(build) = story.builds.iter().rev().find_map(|build| build.finished) else { return Vec::new() };
    // Built in time, and then another marker than the one that it was built under.
    let Some(built_under) = story.marked(build) else { return Vec::new() };
    let swapped = story.last_marker().filter(|marker| *marker > build && *marker > built_under);
    let found = |marker: i64| {
        let text =
            format!("MOFED swapped its modules {} after nvidia-peermem was built", until(build, marker));
        (build, marker, text)
    };
    swapped.map(found).into_iter().collect()
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
