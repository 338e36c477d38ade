// SPDX-License-Identifier: Apache-2.0
//! The moments that matter: when MOFED was ready, when nvidia-peermem was built, when it was asked for.

use super::{Event, NodeEvent, What};
use crate::log::LogEvent;
use crate::stamp::SECOND;

/// A file's time and the sentence about it are the same step where they are this near.
const SAME_STEP: i64 = 5 * SECOND;
/// modprobe may wait for modules that are on their way.
const ATTEMPT: i64 = 60 * SECOND;
const PEERMEM: &str = "nvidia_peermem";

/// A build of the GPU driver. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverBuild {
    /// When it began; `None` where only its end is known.
    pub started: Option<i64>,
    /// When it ended; `None` where it did not, as far as is known.
    pub finished: Option<i64>,
    /// Whether nvidia-peermem.ko is a stub; `None` where the file itself could not be looked at.
    pub is_stub: Option<bool>,
    /// When that file was written: `doctor` goes by it, too.
    pub written: Option<i64>,
}

/// The steps that decide, in nanoseconds since 1970, each list in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story {
    /// MOFED's containers start.
    pub starts: Vec<i64>,
    /// MOFED's marker: when it was set (`true`) or became void.
    pub marker: Vec<(i64, bool)>,
    /// Builds of the GPU driver.
    pub builds: Vec<DriverBuild>,
    /// Somebody ran modprobe for nvidia-peermem.
    pub modprobes: Vec<i64>,
    /// nvidia-peermem was refused, and why.
    pub refusals: Vec<(i64, String)>,
    /// The highest number of restarts of a container in which it was refused: most of their logs may be gone.
    pub restarts: u32,
    /// nvidia-peermem is loaded.
    pub loads: Vec<i64>,
    /// The GPU driver's container starts to install the driver.
    pub installs: Vec<i64>,
    /// An nvidia-peermem.ko with MOFED's symbols was written.
    pub sound_files: Vec<i64>,
    /// k8s-driver-manager began to ask for MOFED.
    pub asked: Vec<i64>,
    /// k8s-driver-manager was done.
    pub done: Vec<i64>,
    /// MOFED refused to start: because of what.
    pub refuses: Vec<(i64, LogEvent)>,
    /// The kernel itself names MOFED's modules.
    pub kernel_mofed: Vec<i64>,
    /// MOFED logged a marker, and wrote its headers later in the same run: both times.
    pub early_markers: Vec<(i64, i64)>,
    /// The first and the last time that is known.
    pub span: Option<(i64, i64)>,
}

impl Story {
    /// Reads it out of events in the order of time.
    pub fn of(events: &[Event]) -> Self {
        let mut story = Self::default();
        for event in events {
            let Some(ns) = event.ns() else { continue };
            let end = event.end_ns().unwrap_or(ns);
            let (first, last) = story.span.unwrap_or((ns, end));
            story.span = Some((first.min(ns), last.max(end)));
            match event.what {
                What::Logged(logged) => story.logged(logged, ns, event),
                What::Seen(node_event) => story.seen(node_event, ns),
                What::ClockSet => {}
            }
        }
        story.marker.sort_unstable();
        story.builds.sort_by_key(|build| build.started.or(build.finished));
        story
    }

    fn logged(&mut self, logged: LogEvent, ns: i64, event: &Event) {
        use LogEvent as E;
        let is_peermem = event.module.as_deref() == Some(PEERMEM);
        match logged {
            E::MofedStarted => {
                self.starts.push(ns);
                self.marker.push((ns, false));
            }
            E::MofedMarkerUnset | E::MofedTerminated | E::KernelStarted => self.marker.push((ns, false)),
            E::MofedMarkerSet => self.marker.push((ns, true)),
            E::MofedStorageModulesLoaded
            | E::MofedThirdPartyModulesLoaded
            | E::MofedPeermemInUse
            | E::MofedPeermemNotUnloaded => self.refuses.push((ns, logged)),
            E::MofedModuleInUse if event.text.contains(PEERMEM) => {
                self.refuses.push((ns, E::MofedPeermemInUse));
            }
            E::DriverStarted => self.installs.push(ns),
            E::DriverBuildStarted => self.build_starts(ns),
            E::DriverRelinked | E::DriverBuildFinished | E::DriverInstalled => self.build_ends(ns, logged),
            E::DriverManagerAsksForMofed | E::DriverManagerWaitsForMofed | E::RdmaRequested => {
                self.asked.push(ns);
            }
            E::DriverManagerDone => self.done.push(ns),
            E::PeermemModprobe => self.modprobes.push(ns),
            E::PeermemRefused | E::PeermemFileMissing | E::PeermemLoadFailed => {
                let restart = event.instance.as_ref().map(|instance| instance.restart);
                self.restarts = self.restarts.max(restart.unwrap_or_default());
                self.refused(ns, &event.text);
            }
            E::KernelDisagreesAboutVersion | E::KernelUnknownSymbol | E::ModuleRefused if is_peermem => {
                self.refused(ns, &event.text);
            }
            E::PeermemLoaded => self.loads.push(ns),
            E::MofedCompatLoaded => self.kernel_mofed.push(ns),
            _ => {}
        }
    }

    /// modprobe and the kernel report the same refusal.
    fn refused(&mut self, ns: i64, text: &str) {
        if self.refusals.last().is_none_or(|(last, _)| ns.saturating_sub(*last) > SAME_STEP) {
            self.refusals.push((ns, text.to_owned()));
            // The kernel refuses only what a program has asked for.
            if self.modprobes.last().is_none_or(|last| ns.saturating_sub(*last) > ATTEMPT) {
                self.modprobes.push(ns);
            }
        }
    }

    fn seen(&mut self, node_event: NodeEvent, ns: i64) {
        let is_new = |all: &[i64]| all.iter().all(|known| known.abs_diff(ns) > SAME_STEP.unsigned_abs());
        match node_event {
            NodeEvent::MarkerWritten | NodeEvent::LookMarkerSet => {
                let set: Vec<_> =
                    self.marker.iter().filter(|(_, is_set)| *is_set).map(|(at, _)| *at).collect();
                // A look comes after the event: what is set already is not set again.
                let is_set = self.marker.last().is_some_and(|(_, is_set)| *is_set);
                if is_new(&set) && !(is_set && node_event == NodeEvent::LookMarkerSet) {
                    self.marker.push((ns, true));
                }
            }
            NodeEvent::SymversWritten => self.headers_written(ns),
            NodeEvent::LookMarkerGone => self.marker.push((ns, false)),
            NodeEvent::LookPeermemLive => self.loads.push(ns),
            NodeEvent::MofedProcess if is_new(&self.starts) => self.starts.push(ns),
            NodeEvent::DriverBuildBegun => self.build_starts(ns),
            NodeEvent::DriverBuilt => self.build_ends(ns, LogEvent::DriverBuildFinished),
            NodeEvent::PeermemWritten | NodeEvent::StubWritten => {
                let is_stub = node_event == NodeEvent::StubWritten;
                self.sound_files.extend((!is_stub).then_some(ns));
                self.peermem_written(ns, is_stub);
            }
            _ => {}
        }
    }

    /// MOFED writes its headers before its marker: a marker of the same run that is older is not the one that counts.
    fn headers_written(&mut self, ns: i64) {
        let Some(start) = self.starts.iter().copied().filter(|start| *start <= ns).max() else { return };
        let is_early =
            |(at, is_set): &(i64, bool)| *is_set && start < *at && *at < ns.saturating_sub(SAME_STEP);
        self.early_markers.extend(self.marker.iter().filter(|set| is_early(set)).map(|(at, _)| (*at, ns)));
        self.marker.retain(|set| !is_early(set));
    }

    fn build_starts(&mut self, ns: i64) {
        match self.builds.last_mut() {
            // One build has several sentences for its beginning.
            Some(DriverBuild { finished: None, .. }) => {}
            _ => self.builds.push(DriverBuild { started: Some(ns), ..DriverBuild::default() }),
        }
    }

    /// The last word for its end counts; what is installed without having been built here is no build.
    fn build_ends(&mut self, ns: i64, logged: LogEvent) {
        let is_install = logged == LogEvent::DriverInstalled;
        match self.builds.last_mut() {
            Some(build @ DriverBuild { finished: None, .. }) => build.finished = Some(ns),
            Some(DriverBuild { finished: Some(finished), .. })
                if !is_install && ns.saturating_sub(*finished) < BUILD_TAIL =>
            {
                *finished = ns;
            }
            _ if logged == LogEvent::DriverBuildFinished => {
                self.builds.push(DriverBuild { finished: Some(ns), ..DriverBuild::default() });
            }
            _ => {}
        }
    }

    fn peermem_written(&mut self, ns: i64, is_stub: bool) {
        let is_of = |build: &&mut DriverBuild| {
            let from = build.started.or(build.finished).unwrap_or(i64::MIN);
            let until = build.finished.map_or(i64::MAX, |finished| finished.saturating_add(BUILD_TAIL));
            (from.saturating_sub(SAME_STEP)..=until).contains(&ns)
        };
        match self.builds.iter_mut().rev().find(is_of) {
            Some(build) => (build.is_stub, build.written) = (Some(is_stub), Some(ns)),
            // A good file's time proves nothing: it may be as old as its package.
            None if is_stub => {
                let (finished, written) = (Some(ns), Some(ns));
                self.builds.push(DriverBuild { started: None, finished, is_stub: Some(true), written });
            }
            None => {}
        }
    }

    /// When the marker was set that exists at this moment; `None` where none does.
    pub fn marked(&self, ns: i64) -> Option<i64> {
        let until = self.marker.iter().rev().find(|(at, _)| *at <= ns);
        until.filter(|(_, is_set)| *is_set)?;
        // A marker that is written again is still the first one's.
        let run = self.marker.iter().rev().skip_while(|(at, _)| *at > ns).take_while(|(_, is_set)| *is_set);
        run.last().map(|(at, _)| *at)
    }

    /// When it is set the next time.
    pub fn next_marker(&self, ns: i64) -> Option<i64> {
        self.marker.iter().find(|(at, is_set)| *is_set && *at > ns).map(|(at, _)| *at)
    }

    /// When it was set the last time.
    pub fn last_marker(&self) -> Option<i64> {
        self.marker.iter().rev().find(|(_, is_set)| *is_set).map(|(at, _)| *at)
    }
}

/// From the last module that is linked to the toolkit's word that it is done.
const BUILD_TAIL: i64 = 10 * 60 * SECOND;
