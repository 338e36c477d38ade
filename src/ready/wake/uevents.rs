// SPDX-License-Identifier: Apache-2.0
//! Kernel uevents: `add@/module/X` comes once X is live, `remove@` when it goes. An ordinary pod
//! gets them; a network namespace of a child user namespace gets silence, without an error.

use crate::ready::look::Cause;
use crate::ready::wake::most_important;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// How many are taken at a time. More wake again: a storm must not keep deadlines and signals from being looked
/// at.
const MESSAGES: usize = 64;

/// The group that the kernel itself sends to; udev's is 2.
const KERNEL_GROUP: u32 = 1;

#[derive(Debug)]
pub(super) struct Uevents {
    fd: OwnedFd,
    /// Whether RDMA devices are checked: only then they wake the gate.
    pub(super) watches_rdma_devices: bool,
}

impl Uevents {
    pub(super) fn open() -> nix::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkKObjectUEvent)?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, KERNEL_GROUP))?;
        Ok(Self { fd, watches_rdma_devices: false })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Takes what came; answers with the most telling of it.
    pub(super) fn drain(&mut self) -> Option<Cause> {
        let mut buffer = [0; 8192];
        let mut found = None;
        for _ in 0..MESSAGES {
            let received = recv(self.fd.as_raw_fd(), &mut buffer, MsgFlags::empty());
            let ControlFlow::Continue(cause) = taken(received.map(|length| &buffer[..length])) else {
                return found;
            };
            let is_watched = |cause: &Cause| self.watches_rdma_devices || *cause != Cause::RdmaDevice;
            found = most_important(found, cause.filter(is_watched));
        }
        found
    }
}

/// The reason to look that one recv(2) gives, if any; a break where nothing is left to take.
fn taken(received: nix::Result<&[u8]>) -> ControlFlow<(), Option<Cause>> {
    ControlFlow::Continue(match received {
        Ok(message) => uevent(message),
        // The socket was full: what was dropped may have been of any module.
        Err(Errno::ENOBUFS) => Some(Cause::EventsLost),
        Err(Errno::EINTR) => None,
        Err(_) => return ControlFlow::Break(()),
    })
}

/// A kernel event: `ACTION@DEVPATH`, then `KEY=VALUE` pairs, each ended by NUL. `None` where it is no reason to look.
#[must_use]
pub fn uevent(message: &[u8]) -> Option<Cause> {
    let header = message.split(|byte| *byte == 0).next()?;
    let path = header.splitn(2, |byte| *byte == b'@').nth(1)?;
    if let Some(name) = path.strip_prefix(b"/module/") {
        return Some(Cause::Module(String::from_utf8_lossy(name).into_owned()));
    }
    message.split(|byte| *byte == 0).find_map(|field| match field {
        b"SUBSYSTEM=pci" => Some(Cause::Device),
        b"SUBSYSTEM=infiniband" => Some(Cause::RdmaDevice),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_the_kernel_dropped_are_a_reason_to_look() {
        let goes_on = |received| match taken(received) {
            ControlFlow::Continue(cause) => cause,
            ControlFlow::Break(()) => panic!("more may wait in the socket"),
        };
        assert_eq!(goes_on(Err(Errno::ENOBUFS)), Some(Cause::EventsLost));
        assert_eq!(goes_on(Err(Errno::EINTR)), None);
        assert_eq!(goes_on(Ok(b"remove@/module/ib_core\0")), Some(Cause::Module("ib_core".into())));
        assert_eq!(goes_on(Ok(b"libudev\0")), None);
        assert_eq!(taken(Err(Errno::EAGAIN)), ControlFlow::Break(()));
    }

    #[test]
    fn modules_and_pci_devices_are_reasons_to_look() {
        let module =
            b"add@/module/ib_core\0ACTION=add\0DEVPATH=/module/ib_core\0SUBSYSTEM=module\0SEQNUM=636\0";
        assert_eq!(uevent(module), Some(Cause::Module("ib_core".into())));
        let pci = b"add@/devices/pci0000:00/0000:01:00.0\0ACTION=add\0SUBSYSTEM=pci\0";
        assert_eq!(uevent(pci), Some(Cause::Device));
        let rdma =
            b"add@/devices/pci0000:00/0000:05:00.0/infiniband/mlx5_1\0ACTION=add\0SUBSYSTEM=infiniband\0";
        assert_eq!(uevent(rdma), Some(Cause::RdmaDevice));
        for other in [
            b"".as_slice(),
            b"\0",
            b"garbage",
            b"change@/devices/virtual/net/lo\0SUBSYSTEM=net\0",
            b"libudev\0",
        ] {
            assert_eq!(uevent(other), None);
        }
    }
}
