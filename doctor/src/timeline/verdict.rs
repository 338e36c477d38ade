// SPDX-License-Identifier: Apache-2.0
//! The race, the gate that would have delayed it, and when that gate would have opened.

use super::gap::{Gap, GapKind, PINNED, STORAGE, THIRD_PARTY};
use super::words::{day, span, time_of_day};
use super::{DoctorAnswer, DriverBuild, Event, Story};
use crate::finding::Id;
use crate::log::LogEvent;
use crate::stamp::SECOND;

/// How long all must be met before a gate opens: `--settle`'s default.
const SETTLE: i64 = SECOND;

macro_rules! races {
    ($($name:ident [$($id:ident),*]: $what:literal, $gate:literal;)*) => {
        /// A race, by its outcome.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Race { $(#[doc = concat!("``", $what, "``")] $name,)* }

        named!(Race: $($name),*);

        impl Race {
            /// A sentence about the race, without its end.
            pub fn what(self) -> &'static str {
                match self { $(Self::$name => $what,)* }
            }

            /// The findings that its sentence says, too.
            pub fn says(self) -> &'static [Id] {
                match self { $(Self::$name => &[$(Id::$id),*],)* }
            }

            /// A sentence on the gate that would have delayed it, without its end; empty if none would have helped.
            pub fn gate(self) -> &'static str {
                match self { $(Self::$name => $gate,)* }
            }
        }
    };
}

races! {
    StubBuilt [StubModule, BuiltBeforeMofed, PeermemRefused, BuildWithoutMofed]: "nvidia-peermem was built before MOFED was ready, without its symbols: it is a stub, which no \
        restart of the container repairs",
        "`wait` as an init container of the driver's pod would have delayed the build";
    StubWithoutMofed [StubModule]: "nvidia-peermem is a stub: it was built without MOFED, and no log or file shows a MOFED on this node",
        "";
    StubPossible []: "MOFED became ready while the GPU driver was being built: nvidia-peermem may be a stub",
        "`wait` as an init container of the driver's pod would have delayed the build";
    LoadedTooEarly [PeermemRefused]: "nvidia-peermem was loaded before MOFED was ready",
        "`load`, or the modprobe shim, would have delayed modprobe";
    SwappedAfterBuild [SymbolVersionMismatch]: "MOFED swapped its modules after nvidia-peermem was built for the old ones",
        "`load` and `keep` would have named the mismatch before the kernel did; a new driver pod builds a new one if you first remove \
         /run/nvidia/nvidia-driver.state";
    PeermemPinsMofed [PeermemInUse, LoadedOnGoneStack]: "nvidia_peermem was in use and kept MOFED from starting",
        "`keep` would have unloaded nvidia_peermem when MOFED began to start";
    StorageHoldsMofed [StorageModulesLoaded]: "storage modules were loaded and kept MOFED from starting",
        "no gate cures this: run `peermem-gate doctor` on the node for the steps, or mount such volumes later";
    ThirdPartyHoldsMofed [ThirdPartyRdmaModulesLoaded]: "third-party RDMA modules were loaded and kept MOFED from starting",
        "no gate cures this: set UNLOAD_THIRD_PARTY_RDMA_MODULES=true in the NicClusterPolicy's ofedDriver, \
            or unload the modules";
    MofedNotReady [MofedBuilding, MarkerAbsent]: "MOFED started and has not set its marker",
        "`wait` would still keep the GPU driver waiting";
    RefusedUnexplained [PeermemRefused]: "nvidia-peermem was refused",
        "";
    NoRace []: "there was no race: MOFED was ready before the GPU driver needed it",
        "";
    MofedCameLater []: "MOFED became ready after the GPU driver: if it replaced its modules, nvidia-peermem may not fit \
        them (`peermem-doctor doctor` compares them)",
        "";
    NoSignOfRace []: "there is no sign of a race: nvidia-peermem.ko is not a stub, and no log has a refusal",
        "";
    NothingKnown []: "whether there was a race is unknown",
        "";
}

/// The verdict over a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaceVerdict {
    /// The race.
    pub race: Race,
    /// The first root cause that `doctor` finds in the same sources.
    pub cause: Option<Id>,
    /// From when on a gate would have waited, in nanoseconds since 1970.
    pub held_from_ns: Option<i64>,
    /// When it would have opened.
    pub opens_ns: Option<i64>,
    /// When a later build cured it.
    pub cured_ns: Option<i64>,
    /// A sentence or two for people.
    pub text: String,
}

pub(super) fn of(story: &Story, gaps: &[Gap], events: &[Event], judged: DoctorAnswer) -> RaceVerdict {
    let race = race(story, gaps);
    let held = match race {
        Race::StubBuilt => held(gaps, &[GapKind::DriverManagerDidNotWait, GapKind::BuiltBeforeMarker]),
        Race::StubPossible => held(gaps, &[GapKind::DriverManagerDidNotWait, GapKind::BuiltAcrossMarker]),
        Race::LoadedTooEarly => held(gaps, &[GapKind::ModprobeBeforeMarker]),
        _ => None,
    };
    let (held_from_ns, opens_ns) = held.map_or((None, None), |(from, marker)| {
        let began = story.builds.iter().filter_map(|build| build.started).find(|start| *start < marker);
        let from =
            if race == Race::LoadedTooEarly { from } else { began.map_or(from, |began| began.min(from)) };
        (Some(from), Some(marker.saturating_add(SETTLE)))
    });
    let cured_ns = (race == Race::StubBuilt).then(|| cured(story)).flatten();
    let cause = judged.cause;
    let mut verdict = RaceVerdict { race, cause, held_from_ns, opens_ns, cured_ns, text: String::new() };
    let of_race = verdict.sentence() + &unknown(race, story);
    verdict.text = match cause {
        Some(cause) if race.says().contains(&cause) => of_race,
        Some(cause) if is_open(race) || !judged.wants_rdma => cause.title().to_owned() + ".",
        Some(cause) => format!("{}. {of_race}", cause.title()),
        None if !judged.wants_rdma => {
            let well = if judged.is_well { "Nothing is wrong now. " } else { "" };
            format!("{well}Nothing here asks for GPUDirect RDMA.{}", last_event(events))
        }
        None if judged.is_well && race == Race::NothingKnown => {
            format!("Nothing is wrong now.{}", last_event(events))
        }
        None if judged.is_well && !is_ended_well(race) => format!("Nothing is wrong now. {of_race}"),
        None => of_race,
    };
    verdict.text = capitalized(&verdict.text);
    verdict
}

/// The known times decide nothing.
fn is_open(race: Race) -> bool {
    matches!(race, Race::NothingKnown | Race::NoSignOfRace)
}

fn is_ended_well(race: Race) -> bool {
    matches!(race, Race::NoRace | Race::NoSignOfRace)
}

/// What there is, where no race is asked about.
fn last_event(events: &[Event]) -> String {
    let Some((ns, last)) = events.iter().rev().find_map(|event| Some((event.ns()?, event))) else {
        return String::new();
    };
    format!(" The last that is known: {}, {}.", last.text, super::words::moment(ns))
}

/// The first that fits counts: what keeps MOFED from starting lies deeper than what comes of it.
fn race(story: &Story, gaps: &[Gap]) -> Race {
    let has = |kind: GapKind| gaps.iter().any(|gap| gap.kind == kind);
    let refuses = |why: &[LogEvent]| {
        let last = story.refuses.iter().rev().find(|(_, event)| why.contains(event));
        last.is_some_and(|(at, _)| story.next_marker(*at).is_none())
    };
    let was_refused = |why: &[LogEvent]| story.refuses.iter().any(|(_, event)| why.contains(event));
    let is_stub = story.builds.iter().any(|build| build.is_stub == Some(true));
    let is_refused = !story.refusals.is_empty();
    let is_marked = story.last_marker().is_some();
    let is_late_build = has(GapKind::BuiltAfterMarker);
    let rows = [
        (refuses(STORAGE), Race::StorageHoldsMofed),
        (refuses(THIRD_PARTY), Race::ThirdPartyHoldsMofed),
        (refuses(PINNED), Race::PeermemPinsMofed),
        (is_stub && !has_mofed(story), Race::StubWithoutMofed),
        (has(GapKind::BuiltBeforeMarker) || is_stub, Race::StubBuilt),
        (has(GapKind::BuiltAcrossMarker) && (is_refused || !is_late_build), Race::StubPossible),
        (has(GapKind::SwappedAfterBuild) && refused_after_swap(story), Race::SwappedAfterBuild),
        (has(GapKind::ModprobeBeforeMarker), Race::LoadedTooEarly),
        (was_refused(PINNED), Race::PeermemPinsMofed),
        (was_refused(STORAGE), Race::StorageHoldsMofed),
        (was_refused(THIRD_PARTY), Race::ThirdPartyHoldsMofed),
        (!story.starts.is_empty() && !is_marked, Race::MofedNotReady),
        (is_refused, Race::RefusedUnexplained),
        (is_marked && (is_late_build || loaded_late(story)), Race::NoRace),
        (host_first(story) || driver_late(story), Race::NoRace),
        (is_marked && driver_first(story), Race::MofedCameLater),
        (!story.sound_files.is_empty(), Race::NoSignOfRace),
    ];
    rows.into_iter().find(|(is_so, _)| *is_so).map_or(Race::NothingKnown, |(_, race)| race)
}

/// Anything shows a MOFED.
fn has_mofed(story: &Story) -> bool {
    let Story { starts, asked, refuses, kernel_mofed, .. } = story;
    !(starts.is_empty() && asked.is_empty() && refuses.is_empty() && kernel_mofed.is_empty())
        || story.last_marker().is_some()
}

fn refused_after_swap(story: &Story) -> bool {
    let swapped = story.last_marker();
    swapped.is_some_and(|swapped| story.refusals.iter().any(|(at, _)| *at > swapped))
}

fn loaded_late(story: &Story) -> bool {
    let asked: Vec<_> = story.modprobes.iter().chain(&story.loads).collect();
    !asked.is_empty() && asked.iter().all(|at| story.marked(**at).is_some())
}

/// The GPU driver's file was written, or its container started, under a marker. A file that is older than the marker
/// may have been built for an earlier MOFED, whatever started since.
fn driver_late(story: &Story) -> bool {
    let is_marked = |at: &i64| story.marked(*at).is_some();
    match story.sound_files.last() {
        Some(written) => is_marked(written),
        None => !story.installs.is_empty() && story.installs.iter().all(is_marked),
    }
}

/// MOFED set its marker after the last that is known of the GPU driver.
fn driver_first(story: &Story) -> bool {
    let last = story.sound_files.iter().chain(&story.installs).max();
    last.zip(story.last_marker()).is_some_and(|(last, marker)| *last < marker)
}

/// The sentence on what nothing shows, where that is why the race is not known.
fn unknown(race: Race, story: &Story) -> String {
    let is_built = !story.builds.is_empty() || !story.sound_files.is_empty();
    let is_loaded = !story.modprobes.is_empty() || !story.loads.is_empty();
    let is_loaded = is_loaded || race != Race::NothingKnown;
    let of_peermem = match (is_built, is_loaded) {
        (false, false) => Some("when nvidia-peermem was built or loaded"),
        (false, true) => Some("when nvidia-peermem was built"),
        (true, false) => Some("when nvidia-peermem was loaded"),
        (true, true) => None,
    };
    let of_mofed = story.last_marker().is_none().then_some("when MOFED was ready");
    let missing: Vec<_> = of_peermem.into_iter().chain(of_mofed).collect();
    match (race, missing.as_slice()) {
        (Race::RefusedUnexplained | Race::NothingKnown, []) => {
            " The known times do not explain more: `peermem-doctor doctor` looks at the node itself."
                .to_owned()
        }
        (Race::RefusedUnexplained | Race::NoSignOfRace | Race::NothingKnown, missing @ [_, ..]) => {
            format!(" No log or file shows {}.", missing.join(", or "))
        }
        _ => String::new(),
    }
}

/// The host's own MOFED sets no marker; the kernel names its modules.
fn host_first(story: &Story) -> bool {
    let is_hosts = story.starts.is_empty() && story.marker.iter().all(|(_, is_set)| !is_set);
    let loaded = story.kernel_mofed.last().filter(|_| is_hosts);
    let steps: Vec<i64> = story
        .builds
        .iter()
        .filter_map(|build| build.started)
        .chain(story.modprobes.iter().copied())
        .collect();
    loaded.is_some_and(|loaded| !steps.is_empty() && steps.iter().all(|at| at > loaded))
}

/// The interval that the gate would have bridged: from the first of these to the last's end.
fn held(gaps: &[Gap], kinds: &[GapKind]) -> Option<(i64, i64)> {
    let of: Vec<_> = gaps.iter().filter(|gap| kinds.contains(&gap.kind)).collect();
    let first = of.iter().find(|gap| gap.kind != GapKind::DriverManagerDidNotWait)?;
    let from = of.iter().filter(|gap| gap.to_ns == first.to_ns).map(|gap| gap.from_ns).min()?;
    Some((from, first.to_ns))
}

/// A build that began after a marker, later than the stub.
fn cured(story: &Story) -> Option<i64> {
    let is_stub = |build: &DriverBuild| {
        let by_time = || build.finished.is_some_and(|end| story.marked(end).is_none());
        build.is_stub.unwrap_or_else(by_time)
    };
    let stub = story.builds.iter().rposition(is_stub)?;
    let later = story.builds[stub + 1..]
        .iter()
        .filter(|build| build.started.is_some_and(|at| story.marked(at).is_some()));
    later.filter_map(|build| build.finished).next_back()
}

impl RaceVerdict {
    fn sentence(&self) -> String {
        let mut text = self.race.what().to_owned() + ".";
        let gate = self.race.gate();
        if let (Some(from), Some(opens)) = (self.held_from_ns, self.opens_ns) {
            let until =
                if day(from) == day(opens) { time_of_day(opens, false) } else { super::words::moment(opens) };
            text += &format!(
                " {gate} from {} for {} and opened at {until}.",
                time_of_day(from, false),
                span(opens.saturating_sub(from))
            );
        } else if !gate.is_empty() {
            text += &format!(" {gate}.");
        }
        if let Some(cured) = self.cured_ns {
            text += &format!(" A new build at {} cured it.", super::words::moment(cured));
        }
        text
    }
}

fn capitalized(text: &str) -> String {
    let sentences = text.split(". ").map(|sentence| {
        let mut chars = sentence.chars();
        let word = sentence.split(' ').next().unwrap_or_default().trim_end_matches(['.', ':']);
        let is_name = word.starts_with("nvidia") || word.contains(['`', '-', '_', '.', '/']);
        match chars.next() {
            Some(first) if !is_name => first.to_uppercase().chain(chars).collect(),
            _ => sentence.to_owned(),
        }
    });
    sentences.collect::<Vec<String>>().join(". ")
}
