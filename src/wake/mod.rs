// SPDX-License-Identifier: Apache-2.0
//! The door that only holds descriptors. An event is a reason to look, never a fact, so that every
//! source may fail, lie or overflow: it then costs time, never correctness.
//!
//! One thread, one poll(2). The time that poll(2) may sleep is computed from the boot clock before
//! each call and is never longer than the safety net's five seconds, so that a node that was
//! suspended is at most that late; a timer descriptor would buy no more and cost two calls a wake.

mod marker;
mod mounts;
mod signals;
mod uevents;

pub use signals::Signals;

use crate::gate::{BootTime, Cause};
use marker::MarkerWatch;
use mounts::Mounts;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;
use uevents::Uevents;

/// Two looks that events ask for are at least this far apart, or a flapping marker would take a
/// whole core. The first event after a pause is answered at once.
const PACE: Duration = Duration::from_millis(10);

/// Why poll(2) returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A signal that ends the gate.
    Signal(u8),
    /// A reason to look.
    Event(Cause),
    /// The time that was asked for.
    Due,
}

/// All sources of wake-ups, fixed for life.
#[derive(Debug)]
pub struct Wakes {
    signals: Signals,
    marker: MarkerWatch,
    mounts: Option<Mounts>,
    uevents: Option<Uevents>,
}

impl Wakes {
    /// Opens every source; one that cannot be had is a warning, and the safety net carries on.
    #[must_use]
    pub fn new(signals: Signals, marker: &Path) -> Self {
        let mounts = Mounts::open();
        if let Err(error) = &mounts {
            tracing::warn!(
                "cannot watch mounts (/proc/self/mountinfo: {error}): the slow look every 5 s must find them"
            );
        }
        let uevents = Uevents::open();
        if let Err(error) = &uevents {
            tracing::warn!(
                "cannot hear of modules (kernel uevents: {error}): the slow look every 5 s must find them"
            );
        }
        Self { signals, marker: MarkerWatch::new(marker), mounts: mounts.ok(), uevents: uevents.ok() }
    }

    /// To be called before each look: nothing can then fall between look and sleep.
    pub fn arm(&mut self) {
        self.marker.arm();
    }

    /// True when a signal waits; cheap enough to ask in the middle of a look.
    #[must_use]
    pub fn signalled(&self) -> bool {
        self.signals.pending()
    }

    /// A signal that has come, if one has.
    #[must_use]
    pub fn take_signal(&self) -> Option<u8> {
        self.signals.take_one()
    }

    /// True when an event of the marker's or of the kernel's waits that nobody has taken in yet. Mounts are
    /// not asked: their change reports once, to whoever polls first, and must be left for the sleep.
    #[must_use]
    pub fn pending(&self) -> bool {
        let ready = self.ready(PollTimeout::ZERO, None);
        ready.marker || ready.uevents
    }

    /// The signals that end the gate, for whoever waits for something else meanwhile.
    #[must_use]
    pub fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Sleeps until something happens or `due` comes. Events that concern nothing of ours are
    /// drained and slept over.
    pub fn sleep(&mut self, due: BootTime, last_look: BootTime) -> Wake {
        loop {
            if self.signals.take_hangup() {
                return Wake::Event(Cause::Asked);
            }
            let now = now();
            match self.ready(timeout(now, due), self.mounts.as_ref()) {
                Ready { signal: true, .. } => {
                    if let Some(signal) = self.signals.take_one() {
                        return Wake::Signal(signal);
                    }
                }
                Ready { timed_out: true, .. } => return Wake::Due,
                ready => {
                    if let Some(cause) = self.drain(&ready) {
                        return self.pace(cause, last_look + PACE);
                    }
                    // Endless foreign events must not outlast the deadline.
                    if crate::wake::now() >= due {
                        return Wake::Due;
                    }
                }
            }
        }
    }

    /// Lets events pile up until `from`, then gives them all one look.
    fn pace(&mut self, cause: Cause, from: BootTime) -> Wake {
        while now() < from {
            let mut fds = [PollFd::new(self.signals.fd(), PollFlags::POLLIN)];
            let _ = poll(&mut fds, timeout(now(), from));
            if let Some(signal) = self.signals.take_one() {
                return Wake::Signal(signal);
            }
        }
        // What piled up is answered by the look that follows; only a device must be remembered.
        let ready = self.ready(PollTimeout::ZERO, self.mounts.as_ref());
        match self.drain(&ready) {
            Some(later @ (Cause::Device | Cause::EventsLost)) => Wake::Event(later),
            _ => Wake::Event(cause),
        }
    }

    fn ready(&self, timeout: PollTimeout, mounts: Option<&Mounts>) -> Ready {
        fn polled(fd: Option<BorrowedFd<'_>>, flags: PollFlags) -> Option<PollFd<'_>> {
            fd.map(|fd| PollFd::new(fd, flags))
        }
        let sources = [
            polled(Some(self.signals.fd()), PollFlags::POLLIN),
            polled(self.marker.fd(), PollFlags::POLLIN),
            // mountinfo is always readable; only POLLPRI tells of a change.
            polled(mounts.map(Mounts::fd), PollFlags::POLLPRI),
            polled(self.uevents.as_ref().map(Uevents::fd), PollFlags::POLLIN),
        ];
        let mut fds: Vec<_> = sources.iter().flatten().cloned().collect();
        let count = match poll(&mut fds, timeout) {
            Ok(count) => count,
            // Nothing was seen; the caller looks at the clock and comes again.
            Err(Errno::EINTR) => return Ready::default(),
            Err(errno) => panic!("poll(2) failed: {errno}"),
        };
        let mut polled = fds.iter().map(|fd| fd.any().unwrap_or(true));
        let mut next = |source: &Option<PollFd>| source.is_some() && polled.next().unwrap_or_default();
        Ready {
            signal: next(&sources[0]),
            marker: next(&sources[1]),
            mounts: next(&sources[2]),
            uevents: next(&sources[3]),
            timed_out: count == 0,
        }
    }

    fn drain(&mut self, ready: &Ready) -> Option<Cause> {
        let marker = if ready.marker { self.marker.drain() } else { None };
        let uevent = self.uevents.as_mut().filter(|_| ready.uevents).and_then(Uevents::drain);
        // These make the probe search the devices anew, so nothing may hide them.
        match (marker, uevent) {
            (_, Some(uevent @ (Cause::Device | Cause::EventsLost))) => Some(uevent),
            (Some(cause), _) => Some(cause),
            _ if ready.mounts => Some(Cause::Mount),
            (None, uevent) => uevent,
        }
    }

    /// Gives the signals back as they were found, or answers with one that came at the last moment.
    ///
    /// The descriptors stay open until execve(2) closes them: closing one of inotify may wait some
    /// 15 ms for the kernel's own clean-up, with or without a watch in it.
    #[must_use]
    pub fn restore_signals(&self) -> Option<u8> {
        self.signals.restore()
    }
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "one for each descriptor")]
struct Ready {
    signal: bool,
    marker: bool,
    mounts: bool,
    uevents: bool,
    timed_out: bool,
}

/// Time since boot, suspend included.
#[must_use]
pub fn now() -> BootTime {
    // The clock is there since Linux 2.6.39.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map(BootTime::from).unwrap_or_default()
}

/// Rounded up: poll(2) must not wake a moment before the time that it is to wake for.
fn timeout(now: BootTime, due: BootTime) -> PollTimeout {
    let left = due.saturating_sub(now).as_nanos().div_ceil(1_000_000);
    PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
}
