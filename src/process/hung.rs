// SPDX-License-Identifier: Apache-2.0
//! A worker that hangs in the kernel: its place, and the sentences about it.

use crate::ready::time::Seconds;
use nix::unistd::Pid;
use std::fs;
use std::time::Duration;

/// If a supervisor wakes so much later than it is due, it did not run either: a container was frozen, or a node
/// suspended.
pub(super) const LATE: Duration = Duration::from_secs(1);

/// A worker that hangs.
#[derive(Debug, PartialEq, Eq)]
pub struct Hung {
    /// The signal that ended us; `None` when the deadline passed.
    pub signal: Option<u8>,
    /// Where in the kernel it was, in the kernel's words; `None` if that is unknown.
    pub place: Option<String>,
    /// How long the supervisor waited for it.
    pub waited: Duration,
}

impl Hung {
    /// The remedy for a person.
    pub const REMEDY: &str = "find the file system that does not answer (`findmnt -t fuse,nfs,nfs4,ceph,cifs,overlay`), and restart its server";

    /// The log's sentence.
    #[must_use]
    pub fn cause(&self) -> String {
        let waited = Seconds(self.waited);
        match &self.place {
            Some(place) => {
                format!("a look at the node has hung in the kernel (in {place}) for {waited}")
            }
            None => format!("the process that looks at the node has not answered for {waited}"),
        }
    }

    /// How it ended, what happened and what to do about it, in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let how = match self.signal {
            Some(signal) => format!("ended by signal {signal}"),
            None => "gave up: the deadline passed".to_owned(),
        };
        format!("{how}: {}; what to do: {}", self.cause(), Self::REMEDY)
    }
}

/// Where in the kernel a process waits. The kernel shows `0` for a running process, and to a reader without the
/// permission. A process in poll(2) waits for us.
pub(super) fn place(worker: Pid) -> Option<String> {
    let place = fs::read_to_string(format!("/proc/{worker}/wchan")).unwrap_or_default();
    Some(place).filter(|place| !matches!(place.as_str(), "" | "0") && !place.contains("poll"))
}
