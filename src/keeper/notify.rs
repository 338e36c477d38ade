// SPDX-License-Identifier: Apache-2.0
//! Messages for systemd (`sd_notify`(3)); none without a service manager.

use crate::ready::clock::now;
use crate::ready::time::BootTime;
use nix::unistd::getppid;
use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;
use std::{env, io};

/// How often the watchdog hears of us between two of its limits.
const SHARE: u32 = 3;
/// How soon to send again what could not be sent.
const AGAIN: Duration = Duration::from_secs(1);

/// The service manager, if one started us and wants to hear; by default there is none.
#[derive(Debug, Default)]
pub struct Systemd {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
    fed: Cell<BootTime>,
    pending: RefCell<Pending>,
    has_failed: Cell<bool>,
}

/// Messages not sent yet, because the manager has not read earlier ones.
#[derive(Debug, Default)]
struct Pending {
    ready: bool,
    status: Option<String>,
    tried: BootTime,
}

impl Systemd {
    /// As the environment names it (`NOTIFY_SOCKET`, `WATCHDOG_USEC`, `WATCHDOG_PID`).
    #[must_use]
    pub fn of_environment() -> Self {
        let number = |name| env::var(name).ok().and_then(|text| text.parse().ok());
        // The process that systemd started is our supervisor.
        let main = u64::try_from(getppid().as_raw()).ok();
        let is_for_us = env::var_os("WATCHDOG_PID").is_none() || number("WATCHDOG_PID") == main;
        let limit = number("WATCHDOG_USEC").filter(|limit| *limit > 0 && is_for_us);
        let watchdog = limit.map(|limit| Duration::from_micros(limit) / SHARE);
        let mut systemd = Self { watchdog, fed: Cell::new(now()), ..Self::default() };
        if let Some(name) = env::var_os("NOTIFY_SOCKET") {
            match socket(&name) {
                Ok(socket) => systemd.socket = Some(socket),
                Err(error) => systemd.failed(&error),
            }
        }
        systemd
    }

    /// `READY=1`: the program runs, and has looked.
    pub fn ready(&self) {
        self.pending.borrow_mut().ready = true;
        self.pay();
    }

    /// `STATUS=` and the state in one line.
    pub fn status(&self, sentence: &str) {
        self.pending.borrow_mut().status = Some(format!("STATUS={}", sentence.replace('\n', " ")));
        self.pay();
    }

    /// All that is due: to be called as often as one likes.
    pub fn attend(&self) {
        self.pay();
        self.feed();
    }

    /// `STOPPING=1`: the program ends on request.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Still alive: to be called as often as one likes.
    pub fn feed(&self) {
        if self.next_feed().is_some_and(|due| now() >= due) {
            self.fed.set(now());
            self.send("WATCHDOG=1");
        }
    }

    /// When something is due again.
    #[must_use]
    pub fn next_due(&self) -> Option<BootTime> {
        let pending = self.pending.borrow();
        let again = (pending.ready || pending.status.is_some()).then_some(pending.tried + AGAIN);
        self.next_feed().into_iter().chain(again).min()
    }

    fn next_feed(&self) -> Option<BootTime> {
        self.watchdog.map(|every| self.fed.get() + every)
    }

    fn pay(&self) {
        let mut pending = self.pending.borrow_mut();
        pending.tried = now();
        if pending.ready {
            pending.ready = !self.send("READY=1");
        }
        pending.status = pending.status.take().filter(|status| !self.send(status));
    }

    /// Never blocks on a manager that does not read: an unload must go ahead. False where it has to be sent
    /// again.
    fn send(&self, state: &str) -> bool {
        let Some((socket, address)) = &self.socket else { return true };
        match socket.send_to_addr(state.as_bytes(), address) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => {
                self.failed(&error);
                true
            }
        }
    }

    fn failed(&self, error: &io::Error) {
        if !self.has_failed.replace(true) {
            tracing::warn!(
                "cannot notify the service manager (NOTIFY_SOCKET): {}",
                crate::ready::errno::words(error)
            );
        }
    }
}

/// One that never blocks, and where to send: a path, or `@` and an abstract name.
fn socket(name: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(name)?,
        _ => {
            let why =
                format!("{} is neither an absolute path nor an abstract socket (@…)", name.to_string_lossy());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}
