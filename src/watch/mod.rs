// SPDX-License-Identifier: Apache-2.0
//! Arm, look, sleep: the loop of every verb that stays.

mod full_look;
pub mod one_look;
pub mod slow_command;
pub mod supervised;
pub mod wait_loop;

pub use full_look::KeepInput;

use crate::peermem::driver_root::{PID_FILE, Script, script};
use crate::peermem::look::NodeProbe;
use crate::ready::clock::now;
use crate::ready::condition::{ConditionType, Reason};
use crate::ready::files::read::{present, there};
use crate::ready::gate::Gate;
use crate::ready::judge::swap::{DriverSigns, Presence, SwapCheck};
use crate::ready::judge::{in_transit, is_requested, swap, worth_reading_symbols};
use crate::ready::look::{Cause, Look, Recorded};
use crate::ready::node::{Node, Places, below};
use crate::ready::observation::{Marker, Nic, Observation};
use crate::ready::probe;
use crate::ready::probe::Depth;
use crate::ready::time::BootTime;
use crate::ready::verdict::{Outcome, Verdict};
use crate::ready::wake::{Awaited, Signals, Wake, Wakes};
use crate::words::{judge, next_build};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often to look without an event. Only changes without an event are found this late.
const SAFETY_NET: Duration = Duration::from_secs(5);
/// How soon to look again while a module comes or goes, for which there is no event: at first. Each time the next
/// look comes later, because a module may stay like that forever, as after an oops.
const TRANSIT: Duration = Duration::from_millis(100);

/// Both are removed by preStop of nvidia-driver-ctr ([`DriverSigns`]).
const DRIVER_READY: &str = "/run/nvidia/validations/.driver-ctr-ready";
const DRIVER_DAEMONS: &str = "/run/nvidia/validations/.driver-daemons-status";

/// A node that is watched.
pub(crate) struct Watch<'a> {
    pub(crate) node: &'a Node,
    pub(crate) wakes: Wakes<'a>,
    /// The driver's files and the marker first, then MOFED's headers.
    awaited: Vec<Awaited>,
    /// How many of them are watched from the start.
    always: usize,
    awaits_headers: bool,
    probe: NodeProbe<'a>,
    pub(crate) started: BootTime,
    pub(crate) last_look: BootTime,
    /// Since when every look has seen a module that loads or unloads, without an event.
    in_transit: Option<BootTime>,
    /// The last observation.
    seen: Option<Observation>,
    /// MOFED's marker existed at some look.
    was_marked: bool,
    /// The time at which a look is broken off, because it would be too late.
    pub(crate) deadline: Option<BootTime>,
    /// Whether a look is broken off when MOFED begins to swap: `nvidia_peermem` must be unloaded first.
    pub(crate) is_alert: bool,
    /// Adds to a verdict what the judge does not know.
    pub(crate) refines: Option<Refine>,
}

/// A verdict on this node, with more in it.
pub(crate) type Refine = fn(&Node, &Observation, Verdict) -> Verdict;

impl<'a> Watch<'a> {
    pub(crate) fn new(node: &'a Node, signals: &'a Signals) -> Self {
        let started = now();
        let mut wakes = Wakes::new(signals);
        if node.expected.needs(ConditionType::RdmaDevicePresent) {
            wakes.watch_rdma_devices();
        }
        Self {
            node,
            wakes,
            awaited: awaited(node),
            always: 1 + driver_files(&node.places).count(),
            awaits_headers: false,
            probe: NodeProbe::new(node),
            started,
            last_look: started,
            in_transit: None,
            seen: None,
            was_marked: false,
            deadline: None,
            is_alert: false,
            refines: None,
        }
    }

    /// Whether the gate applies, as far as that shows before the first look: RDMA is requested, and a NIC, MOFED's
    /// marker or a live `nvidia_peermem` exists.
    pub(crate) fn applies(&mut self) -> bool {
        let (glimpse, is_marked) = glimpse_and_marker(self.node, self.was_marked, false);
        let is_live = matches!(glimpse.peermem, Presence::Live { .. });
        let mut has_nic = || matches!(self.probe.ready.nic(), Nic::Found(_));
        is_requested(&self.node.expected) && (is_marked || is_live || has_nic())
    }

    /// Looks again when something happens to this file, too.
    pub(crate) fn await_file(&mut self, path: &Path) {
        let root = self.node.places.root.clone();
        self.awaited.insert(0, Awaited { root, path: path.to_owned(), cause: Cause::Driver });
        self.always += 1;
    }

    /// Headers that come by a mount cause a mount event; those that come as files are watched once nothing else is
    /// missing.
    fn arm(&mut self) {
        let count = if self.awaits_headers { self.awaited.len() } else { self.always };
        self.wakes.arm(&self.awaited[..count]);
    }

    /// One armed look. `None` when it was broken off, or was a quick check that saw nothing new.
    pub(crate) fn look(&mut self, cause: &Cause, last: Option<&Verdict>) -> Option<Look> {
        self.arm();
        self.last_look = now();
        match cause {
            Cause::SafetyNet if !self.quick_check(last) => return None,
            Cause::Device | Cause::EventsLost => self.probe.ready.forget_devices(),
            _ => {}
        }
        let look = self.look_once(cause)?;
        let deciding = look.verdict.deciding().map(|c| c.r#type);
        let awaited_headers =
            std::mem::replace(&mut self.awaits_headers, deciding == Some(ConditionType::HeadersReady));
        if awaited_headers || !self.awaits_headers {
            return Some(look);
        }
        // More is watched now, and a change in between would be missed: look again.
        self.arm();
        self.look_once(cause)
    }

    /// One look without any watch. If a condition is not met, an armed look must follow.
    pub(crate) fn look_unarmed(&mut self) -> Option<Look> {
        self.last_look = now();
        self.look_once(&Cause::Start)
    }

    fn look_once(&mut self, cause: &Cause) -> Option<Look> {
        let (node, wakes, was_marked, deadline) = (self.node, &self.wakes, self.was_marked, self.deadline);
        let swaps =
            || self.is_alert && wakes.pending() && glimpse_and_marker(node, was_marked, false).0.must_go();
        let is_late = || deadline.is_some_and(|deadline| now() >= deadline);
        // Broken off by the deadline, by a signal, by the marker's loss, or by what a module does: the events of
        // the last three are still there to wake us.
        let seen = self
            .probe
            .look(Depth::Frugal(worth_reading_symbols), &mut || is_late() || wakes.signaled() || swaps())?;
        let seen = self.recorded(cause, seen);
        let since = self.in_transit.filter(|_| !cause.is_event()).unwrap_or(self.last_look);
        self.in_transit = in_transit(&node.expected, &seen).then_some(since);
        self.was_marked |= matches!(seen.marker, Marker::Present(_));
        let verdict = judge(&node.expected, &seen);
        let verdict = match self.refines {
            Some(refine) => refine(node, &seen, verdict),
            None => verdict,
        };
        let next_build = next_build(&node.expected, &seen);
        let look = Look { verdict, identity: seen.identity(), next_build };
        self.seen = Some(seen);
        Some(look)
    }

    /// Whether a quick check comes before the slow look. Without a verdict there is nothing to compare.
    fn quick_check(&self, last: Option<&Verdict>) -> bool {
        last.is_none_or(|last| is_refused(last) || self.probe.ready.changed(last.deciding()))
    }

    /// The few facts that an unload depends on, read quickly.
    pub(crate) fn glimpse(&mut self) -> SwapCheck {
        self.arm();
        self.last_look = now();
        let (glimpse, is_marked) = glimpse_and_marker(self.node, self.was_marked, false);
        self.was_marked |= is_marked;
        SwapCheck { driver: driver_signs(&self.node.places), ..glimpse }
    }

    /// Why `nvidia_peermem` must be unloaded at once, if the caller watches for that.
    pub(crate) fn swap(&mut self) -> Option<String> {
        if !self.is_alert {
            return None;
        }
        let glimpse = self.glimpse();
        glimpse.must_go().then_some(glimpse.swap).flatten()
    }

    /// Why MOFED is about to swap its modules, if it is, at this very moment.
    pub(crate) fn swap_begins(&self) -> Option<String> {
        glimpse_and_marker(self.node, self.was_marked, true).0.swap
    }

    /// A look as `keep` takes it in.
    pub(crate) fn full_look(&self, look: Look) -> Option<KeepInput> {
        let mut full_look = KeepInput::of(&self.node.expected, self.seen.as_ref()?, look, self.was_marked);
        // Without the marker the look does not know the lock's holder.
        let places = &self.node.places;
        full_look.glimpse =
            SwapCheck { driver: driver_signs(places), ..completed(places, full_look.glimpse) };
        // The operator's fast path shows its root minutes after its script's start.
        if full_look.is_deserted {
            let script = script(&places.root, &places.proc);
            full_look.is_deserted = matches!(script, Ok(Script::Gone | Script::Another(_)));
        }
        Some(full_look)
    }

    /// At trace level, logs the look in a form that tests can replay.
    fn recorded(&self, cause: &Cause, seen: Observation) -> Observation {
        if !tracing::enabled!(tracing::Level::TRACE) {
            return seen;
        }
        let at_ms = u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX);
        let recorded = Recorded { at_ms, cause: cause.clone(), seen };
        tracing::trace!("look {}", serde_json::to_string(&recorded).unwrap_or_default());
        recorded.seen
    }

    /// Sleeps until an event, `due`, or the time of the slow look.
    pub(crate) fn sleep(&mut self, due: Option<BootTime>) -> Wake {
        let slow = self.next_slow_look();
        self.wakes.sleep(due.map_or(slow, |due| due.min(slow)), self.last_look)
    }

    fn next_slow_look(&self) -> BootTime {
        let transit = |since| (self.last_look.saturating_sub(since) * 2).clamp(TRANSIT, SAFETY_NET);
        self.last_look + self.in_transit.map_or(SAFETY_NET, transit)
    }

    /// The cause of a wake without an event; `None` where no look is due, as for a heartbeat.
    pub(crate) fn due_cause(&self, next_look: Option<BootTime>) -> Option<Cause> {
        let now = now();
        if next_look.is_some_and(|due| now >= due) {
            Some(Cause::Timer)
        } else if now < self.next_slow_look() {
            None
        } else if self.in_transit.is_some() {
            Some(Cause::Transit)
        } else {
            Some(Cause::SafetyNet)
        }
    }

    /// The last observation.
    pub(crate) fn seen(&self) -> Option<&Observation> {
        self.seen.as_ref()
    }

    /// Time since then.
    pub(crate) fn elapsed(&self) -> Duration {
        now().saturating_sub(self.started)
    }
}

/// One look beside the gate; `None` when a signal or the marker's loss broke it off.
pub(crate) fn look_now(watch: &mut Watch, gate: &Gate) -> Option<Look> {
    let look = watch.look(&Cause::Timer, None)?;
    Some(gate.with_accepted(look))
}

/// Is MOFED about to swap its modules? Who holds its lock is looked for only if `nvidia_peermem` has to go. And
/// whether the marker is set.
fn glimpse_and_marker(node: &Node, was_marked: bool, all: bool) -> (SwapCheck, bool) {
    let (marker, modules) = probe::glimpse(node, all);
    let glimpse = swap::glimpse(&node.expected, &marker, &modules, was_marked);
    (completed(&node.places, glimpse), matches!(marker, Marker::Present(_)))
}

/// With what an unload depends on in addition: who holds MOFED's lock, and whether MOFED's modules are going without
/// MOFED, because a reset takes the NIC off the bus, and its driver with it.
fn completed(places: &Places, glimpse: SwapCheck) -> SwapCheck {
    if !glimpse.must_go() {
        return glimpse;
    }
    let has_begun = glimpse.has_begun && probe::nic(&places.sys) != Nic::None;
    SwapCheck { has_begun, holder: probe::lock_holder(places), ..glimpse }
}

/// A usable file that is still not loaded after a load: it may change, and so may the headers.
fn is_refused(verdict: &Verdict) -> bool {
    verdict.get(ConditionType::PeermemUsable).is_some_and(|c| c.reason == Reason::Usable)
        && verdict.outcome == Outcome::Ready
}

fn awaited(node: &Node) -> Vec<Awaited> {
    let places = &node.places;
    let marker = Awaited { root: places.root.clone(), path: places.marker.clone(), cause: Cause::Marker };
    let headers = probe::header_files(node).into_iter().map(|path| Awaited {
        root: places.mofed_root.clone(),
        path,
        cause: Cause::Headers,
    });
    let driver =
        driver_files(places).map(|path| Awaited { root: places.root.clone(), path, cause: Cause::Driver });
    driver.chain([marker]).chain(headers).collect()
}

/// The files by which the driver's container says that it begins and that it is ready, for a keeper of the node.
fn driver_files(places: &Places) -> impl Iterator<Item = PathBuf> {
    let serves = places.store.is_some();
    [PID_FILE, DRIVER_READY, DRIVER_DAEMONS]
        .into_iter()
        .filter(move |_| serves)
        .map(|path| below(&places.root, Path::new(path)))
}

/// What the driver's container says of itself; `None` where this process does not serve the node, or cannot tell.
fn driver_signs(places: &Places) -> Option<DriverSigns> {
    places.store.as_ref()?;
    let [ready, daemons] = [DRIVER_READY, DRIVER_DAEMONS].map(|path| below(&places.root, Path::new(path)));
    let is_ready = there(&ready, ready.symlink_metadata()).ok()?.is_some();
    let status = present(&daemons).ok()?;
    Some(DriverSigns { is_ready, daemons: status.map(|status| status == "Ready") })
}
