// SPDX-License-Identifier: Apache-2.0
//! The door that only keeps descriptors open. An event is a reason to look, never a fact, so every
//! source may fail, lie or overflow: it then costs time, never correctness.
//!
//! One thread, one poll(2). The time that poll(2) may sleep is computed from the boot clock before
//! each call and is never longer than the safety net's five seconds, so a node that was
//! suspended is at most that late; a timer descriptor would buy no more and cost two calls a wake.

mod mounts;
mod paths;
mod signals;
mod uevents;

pub use paths::Awaited;
pub use signals::Signals;
pub use uevents::uevent;

use crate::ready::clock::now;
use crate::ready::errno;
use crate::ready::look::Cause;
use crate::ready::time::BootTime;
use mounts::MountWatch;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use paths::PathWatch;
use std::os::fd::BorrowedFd;
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
pub struct Wakes<'a> {
    signals: &'a Signals,
    paths: PathWatch,
    mounts: Option<MountWatch>,
    uevents: Option<Uevents>,
}

impl<'a> Wakes<'a> {
    /// Opens every source; one that cannot be had is a warning, and the safety net carries on.
    #[must_use]
    pub fn new(signals: &'a Signals) -> Self {
        let mounts = MountWatch::open();
        if let Err(error) = &mounts {
            tracing::warn!(
                "cannot watch mounts (/proc/self/mountinfo: {}): falling back to a look every 5 s",
                errno::words(error)
            );
        }
        let uevents = Uevents::open();
        if let Err(error) = &uevents {
            tracing::warn!(
                "cannot subscribe to kernel uevents ({}): falling back to a look every 5 s",
                error.desc()
            );
        }
        Self { signals, paths: PathWatch::default(), mounts: mounts.ok(), uevents: uevents.ok() }
    }

    /// RDMA devices that come and go are reasons to look, too.
    pub fn watch_rdma_devices(&mut self) {
        if let Some(uevents) = &mut self.uevents {
            uevents.watches_rdma_devices = true;
        }
    }

    /// To be called before each look: nothing can then fall between look and sleep.
    pub fn arm(&mut self, awaited: &[Awaited]) {
        self.paths.arm(awaited);
    }

    /// True when a signal waits; cheap enough to ask in the middle of a look.
    #[must_use]
    pub fn signaled(&self) -> bool {
        self.signals.pending()
    }

    /// A signal that has come, if one has.
    #[must_use]
    pub fn take_signal(&self) -> Option<u8> {
        self.signals.take_one()
    }

    /// True when an event of a path or of the kernel waits that was not read yet. Mounts are not asked: their change
    /// is reported once, to the first poll, and must be left for the sleep.
    #[must_use]
    pub fn pending(&self) -> bool {
        !self.poll(&[Source::Paths, Source::Uevents], PollTimeout::ZERO).is_empty()
    }

    /// The signals that end the gate, for anyone who waits for something else meanwhile.
    #[must_use]
    pub fn signals(&self) -> &'a Signals {
        self.signals
    }

    /// Sleeps until something happens or `due` comes. Events that concern nothing ours are
    /// drained and slept over.
    pub fn sleep(&mut self, due: BootTime, last_look: BootTime) -> Wake {
        loop {
            // One that broke off a look has left the descriptor already; the next wakes poll(2).
            if let Some(signal) = self.signals.take_drained() {
                return Wake::Signal(signal);
            }
            if self.signals.take_hangup() {
                return Wake::Event(Cause::Asked);
            }
            let ready = self.poll(&Source::ALL, timeout(now(), due));
            if let Some(cause) = self.drain(&ready) {
                return self.pace(cause, last_look + PACE);
            }
            if is_due(&ready, now(), due) {
                return Wake::Due;
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
        let ready = self.poll(&Source::ALL, PollTimeout::ZERO);
        Wake::Event(most_important(self.drain(&ready), Some(cause.clone())).unwrap_or(cause))
    }

    /// Those of the sources that have something to say within this time.
    fn poll(&self, sources: &[Source], timeout: PollTimeout) -> Vec<Source> {
        let polled = |source: &Source| {
            let (fd, flags) = self.descriptor(*source)?;
            Some((*source, PollFd::new(fd, flags)))
        };
        let (sources, mut fds): (Vec<_>, Vec<_>) = sources.iter().filter_map(polled).unzip();
        match poll(&mut fds, timeout) {
            Ok(_) => {}
            // Nothing was seen; the caller looks at the clock and comes again.
            Err(Errno::EINTR) => return Vec::new(),
            // The kernel has no memory for it at this moment. Nothing can be waited for, and the clock must be seen.
            Err(Errno::ENOMEM) => {
                std::thread::sleep(PACE);
                return Vec::new();
            }
            Err(error) => panic!("poll(2): {error}"),
        }
        let has_news = |fd: &PollFd| fd.any().unwrap_or(true);
        sources.into_iter().zip(&fds).filter(|(_, fd)| has_news(fd)).map(|(source, _)| source).collect()
    }

    fn descriptor(&self, source: Source) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let (fd, flags) = match source {
            Source::Signals => (Some(self.signals.fd()), PollFlags::POLLIN),
            Source::Paths => (self.paths.fd(), PollFlags::POLLIN),
            // mountinfo is always readable; only POLLPRI shows a change.
            Source::Mounts => (self.mounts.as_ref().map(MountWatch::fd), PollFlags::POLLPRI),
            Source::Uevents => (self.uevents.as_ref().map(Uevents::fd), PollFlags::POLLIN),
        };
        Some((fd?, flags))
    }

    /// Takes what these have to say; answers with the most telling of it.
    fn drain(&mut self, ready: &[Source]) -> Option<Cause> {
        ready.iter().fold(None, |found, source| {
            let cause = match source {
                Source::Signals => {
                    self.signals.drain();
                    None
                }
                Source::Paths => self.paths.drain(),
                Source::Mounts => Some(Cause::Mount),
                Source::Uevents => self.uevents.as_mut().and_then(Uevents::drain),
            };
            most_important(found, cause)
        })
    }
}

/// A source of wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Signals,
    Paths,
    Mounts,
    Uevents,
}

impl Source {
    const ALL: [Self; 4] = [Self::Signals, Self::Paths, Self::Mounts, Self::Uevents];
}

/// Whether to wake without a cause: endless foreign events must not outlast the deadline, and a signal goes before
/// it.
fn is_due(ready: &[Source], now: BootTime, due: BootTime) -> bool {
    !ready.contains(&Source::Signals) && now >= due
}

/// The first, unless the second makes the probe search the devices again: nothing may hide that.
fn most_important(one: Option<Cause>, other: Option<Cause>) -> Option<Cause> {
    let is_important = |cause: &Cause| matches!(cause, Cause::Device | Cause::EventsLost);
    match (one, other) {
        (Some(kept), _) if is_important(&kept) => Some(kept),
        (_, Some(other)) if is_important(&other) => Some(other),
        (one, other) => one.or(other),
    }
}

/// Rounded up: poll(2) must not wake a moment before the time that it is to wake for.
pub(crate) fn timeout(now: BootTime, due: BootTime) -> PollTimeout {
    let left = due.saturating_sub(now).as_nanos().div_ceil(1_000_000);
    PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unrelated_events_do_not_delay_the_deadline_and_a_signal_comes_before_it() {
        let [early, due] = [1, 2].map(Duration::from_secs);
        for foreign in [&[][..], &[Source::Paths], &[Source::Paths, Source::Uevents]] {
            assert!(is_due(foreign, due, due) && !is_due(foreign, early, due));
        }
        assert!(!is_due(&[Source::Signals, Source::Paths], due, due));
    }

    /// The probe searches the devices again only for these: a marker's event must not hide them.
    #[test]
    fn a_device_event_is_kept_whatever_event_comes_with_it() {
        for important in [Cause::Device, Cause::EventsLost] {
            for other in [None, Some(Cause::Marker), Some(Cause::Mount)] {
                assert_eq!(most_important(other.clone(), Some(important.clone())), Some(important.clone()));
                assert_eq!(most_important(Some(important.clone()), other), Some(important.clone()));
            }
        }
        assert_eq!(most_important(Some(Cause::Marker), Some(Cause::Mount)), Some(Cause::Marker));
        assert_eq!(most_important(None, None), None);
    }
}
