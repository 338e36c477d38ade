// SPDX-License-Identifier: Apache-2.0
//! The signals that end the gate, taken through a descriptor.
//!
//! As PID 1 a signal with the default disposition is thrown away, unless it is blocked. So these
//! are blocked before anything else, and given back as they were found. Two more are blocked and
//! dropped: SIGCHLD, whose only use is to end a sleep, and SIGXFSZ, which would kill a gate for a file
//! that grows beyond its limit (setrlimit(2)); the write fails and says so.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

const ENDING: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];
const DROPPED: [Signal; 2] = [Signal::SIGCHLD, Signal::SIGXFSZ];

/// Blocked signals and the descriptor they come through.
#[derive(Debug)]
pub struct Signals {
    fd: SignalFd,
    found: SigSet,
    sees_children: bool,
    /// Signals that end the gate, in the order in which they came; not taken yet.
    came: RefCell<VecDeque<u8>>,
    /// The first of them, even if it was taken.
    first: Cell<Option<u8>>,
    /// To a service SIGHUP is no end, but a wish; whether it was uttered.
    hangup: Option<Cell<bool>>,
}

impl Signals {
    /// Blocks the ending signals. One that was ignored at start (nohup) stays ignored.
    ///
    /// # Errors
    /// As sigprocmask(2) and signalfd(2): no descriptor is left.
    pub fn take() -> nix::Result<Self> {
        let ignored = ignored();
        let mut ours = SigSet::empty();
        let is_unignored = |signal: &Signal| !is_among(ignored, *signal);
        for signal in ENDING.into_iter().chain(DROPPED).filter(is_unignored) {
            ours.add(signal);
        }
        let found = ours.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let fd = SignalFd::with_flags(&ours, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let sees_children = is_unignored(&Signal::SIGCHLD);
        Ok(Self { fd, found, sees_children, came: RefCell::default(), first: Cell::default(), hangup: None })
    }

    /// From now on SIGHUP ends nothing, and is remembered.
    pub fn serve(&mut self) {
        self.hangup = Some(Cell::new(false));
    }

    /// Whether a SIGHUP came that ended nothing, since this was asked last.
    #[must_use]
    pub fn take_hangup(&self) -> bool {
        self.hangup.as_ref().is_some_and(|came| came.replace(false))
    }

    /// Whether a child's end is a signal: SIGCHLD was not ignored at start.
    #[must_use]
    pub fn sees_children(&self) -> bool {
        self.sees_children
    }

    /// Readable when a signal has come.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// True when a signal has come that ends the gate.
    pub(super) fn pending(&self) -> bool {
        self.drain();
        !self.came.borrow().is_empty()
    }

    /// Waits for any signal, at most this long; true when one has come.
    pub fn wait(&self, limit: Duration) -> bool {
        if !self.came.borrow().is_empty() {
            return true;
        }
        let mut fds = [PollFd::new(self.fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX)).is_ok_and(|ready| ready > 0)
    }

    /// A signal that has come and ends the gate, if one has.
    #[must_use]
    pub fn take_one(&self) -> Option<u8> {
        self.drain();
        self.take_drained()
    }

    /// The same, without a look at the descriptor.
    pub(super) fn take_drained(&self) -> Option<u8> {
        self.came.borrow_mut().pop_front()
    }

    /// The first signal that came and ends the gate, even if it was taken.
    #[must_use]
    pub fn first(&self) -> Option<u8> {
        self.drain();
        self.first.get()
    }

    pub(super) fn drain(&self) {
        while let Ok(Some(info)) = self.fd.read_signal() {
            let number = i32::try_from(info.ssi_signo).unwrap_or_default();
            let Ok(signal) = Signal::try_from(number) else { continue };
            match &self.hangup {
                _ if DROPPED.contains(&signal) => {}
                Some(came) if signal == Signal::SIGHUP => came.set(true),
                _ => {
                    self.first.set(self.first.get().or(Some(signal as u8)));
                    self.came.borrow_mut().push_back(signal as u8);
                }
            }
        }
    }

    /// Gives the mask back as it was found. A signal that still waited would be lost on PID 1, so
    /// it is taken first and handed to the caller.
    #[must_use]
    pub fn restore(&self) -> Option<u8> {
        let last = self.take_one();
        if last.is_none() {
            // Fails only for a wrong constant.
            let _ = self.found.thread_set_mask();
        }
        last
    }
}

fn is_among(mask: u64, signal: Signal) -> bool {
    mask & (1 << (signal as u64 - 1)) != 0
}

/// The signals that were ignored at start, a bit each. Without /proc none is known to be, and the
/// gate then heeds all four.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}
