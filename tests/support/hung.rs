// SPDX-License-Identifier: Apache-2.0
//! A file system that does not answer.

use super::skip;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::{env, thread};

/// A FUSE mount whose server takes every request and answers none (linux/fuse.h).
pub(crate) struct Hung {
    place: PathBuf,
    device: Option<File>,
}

impl Hung {
    pub(crate) fn over(place: PathBuf) -> Option<Self> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let Ok(mut device) = device else {
            skip("/dev/fuse cannot be opened");
            return None;
        };
        fs::create_dir_all(&place).unwrap();
        if !apart() {
            return None;
        }
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        if let Err(errno) = mount(Some("hung"), &place, Some("fuse"), flags, Some(options.as_str())) {
            skip(&format!("FUSE cannot be mounted: {errno}"));
            return None;
        }
        answer_init(&mut device);
        let mut requests = device.try_clone().unwrap();
        // What was taken cannot be withdrawn by a signal.
        thread::spawn(move || while requests.read(&mut vec![0; 1 << 17]).is_ok_and(|read| read > 0) {});
        Some(Self { place, device: Some(device) })
    }
}

/// From here on this thread and its children have mounts and a network of their own: neither their mounts nor uevents
/// that they send wake another test's gate, nor others' theirs. A gate that is to see a later mount is started after
/// it.
pub(crate) fn apart() -> bool {
    thread_local!(static APART: Cell<bool> = const { Cell::new(false) });
    if APART.get() {
        return true;
    }
    let apart = unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET).and_then(|()| {
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
    });
    match apart {
        Ok(()) => {
            let_go_of_others();
            APART.set(true);
        }
        Err(errno) => skip(&format!("mounts and network cannot be parted: {errno}")),
    }
    APART.get()
}

/// Lets go of this namespace's copies of what other programs have mounted: where they unmount theirs and remove its
/// directory, the kernel takes the copy away too, and that wakes who watches mounts.
fn let_go_of_others() {
    let places = [env::temp_dir(), "/var".into(), "/run".into()];
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    // What was mounted last is above the others.
    for mounted in mounts.lines().rev().filter_map(|line| line.split(' ').nth(4)).map(Path::new) {
        if places.iter().any(|place| mounted != place && mounted.starts_with(place)) {
            let _ = umount2(mounted, MntFlags::MNT_DETACH);
        }
    }
}

/// The first request asks for the protocol's version; without an answer nothing else is asked.
fn answer_init(device: &mut File) {
    let mut request = vec![0; 1 << 17];
    let _ = device.read(&mut request).unwrap();
    let unique = &request[8..16];
    let mut init = vec![0_u8; 64];
    init[0..4].copy_from_slice(&7_u32.to_ne_bytes());
    init[4..8].copy_from_slice(&31_u32.to_ne_bytes());
    init[20..24].copy_from_slice(&4096_u32.to_ne_bytes());
    let length = u32::try_from(16 + init.len()).unwrap();
    let head = [&length.to_ne_bytes()[..], &[0; 4], unique].concat();
    device.write_all(&[head, init].concat()).unwrap();
}

/// Few machines of tests have fusectl mounted.
fn abort(minor: &str) {
    let connections = tempfile::tempdir().expect("a directory");
    let mounted = mount(Some("none"), connections.path(), Some("fusectl"), MsFlags::empty(), None::<&str>);
    if mounted.is_ok() {
        let _ = fs::write(connections.path().join(minor).join("abort"), "1");
        let _ = umount2(connections.path(), MntFlags::MNT_DETACH);
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        // Ends the connection, and so every read that hangs.
        let connection = fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
        let line = connection.lines().find(|line| line.contains(&*self.place.to_string_lossy()));
        if let Some(minor) = line.and_then(|line| line.split(' ').nth(2)?.split(':').nth(1)) {
            abort(minor);
        }
        let _ = umount2(&self.place, MntFlags::MNT_DETACH);
        self.device = None;
    }
}
